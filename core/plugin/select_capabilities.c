/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * select_capabilities.c - the backends that one rank can use, as a table that ranks exchange.
 *
 * A table is a table_head, n_entries times a table_entry, n_named times the uint32_t place of a
 * string, and the strings, each with its NUL.  A string's place counts from the first string.
 */
#include "plugin/select_impl.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Increase it with every change that all ranks must share, also in message headers. */
	CAPABILITIES_PROTOCOL = 8,
	CAPABILITIES_LONGEST = 700,      /* bytes of a string: there may be thousands of ranks */
	CAPABILITIES_LARGEST = 256 << 10 /* bytes of a table */
};

static const char capabilities_magic[8] = "libcoll";

struct table_head {
	uint32_t n_entries, n_named;
	uint32_t text_size; /* bytes of all strings */
	uint32_t request, searched;
};

struct table_entry {
	uint32_t name, version, reason;
	int32_t code, priority, automatic;
};

/* ------------------------------------------------------------------- packing -- */

/* Copies a string without control characters, which would garble messages. */
static void capabilities_write(FILE *text, const char *string)
{
	for (int i = 0; string[i] && i < CAPABILITIES_LONGEST; i++)
		putc((unsigned char)string[i] < ' ' || string[i] == 0x7f ? ' ' : string[i], text);
}

/* Appends a string and returns its place. */
static uint32_t capabilities_put(FILE *text, const char *string)
{
	const long place = ftell(text);

	capabilities_write(text, string);
	putc('\0', text);
	return (uint32_t)place;
}

/* Returns COLL_SUCCESS, or the code and message why this rank cannot use a plugin. */
static int capabilities_check(const struct plugin_list *list, const struct plugin *plugin,
			      const struct filter *filter, const char *elsewhere, char *reason,
			      size_t size)
{
	const int by_name = filter->n && !filter->excludes;
	const char *idle = by_name ? NULL : plugin_idle(list, plugin);

	if (filter->excludes && filter_has(filter, plugin->name)) {
		snprintf(reason, size, "it is excluded by %s", filter->request);
		return COLL_ERR_CONFIG;
	}
	snprintf(reason, size, "%s", plugin->reason);
	if (plugin->code)
		return plugin->code;
	if (elsewhere[0] && plugin->backend.flags & COLL_BACKEND_IN_PROCESS) {
		snprintf(reason, size, "%s", elsewhere);
		return COLL_ERR_UNSUPPORTED;
	}
	if (idle) {
		snprintf(reason, size, "%s", idle);
		return COLL_ERR_UNSUPPORTED;
	}
	if (elsewhere[0] && plugin->unsafe[0]) {
		snprintf(reason, size, "%s", plugin->unsafe);
		return COLL_ERR_CONFIG;
	}
	return COLL_SUCCESS;
}

static struct table_entry capabilities_entry(FILE *text, const struct plugin_list *list,
					     const struct plugin *plugin,
					     const struct filter *filter, const char *elsewhere)
{
	const int by_name = elsewhere[0] && plugin->backend.flags & COLL_BACKEND_BY_NAME;
	const char *version = plugin->backend.version ? plugin->backend.version : "";
	char reason[sizeof(plugin->reason)];
	struct table_entry entry = {.priority = plugin->priority, .automatic = !by_name};

	entry.code = capabilities_check(list, plugin, filter, elsewhere, reason, sizeof(reason));
	entry.name = capabilities_put(text, plugin->name);
	entry.version = capabilities_put(text, version);
	entry.reason = capabilities_put(text, reason);
	return entry;
}

/* Writes the strings; fills the rest of the table, which has room for all plugins and names. */
static void capabilities_fill(FILE *text, struct table_head *head, struct table_entry *entries,
			      uint32_t *named, const struct plugin_list *list,
			      const struct filter *filter, const char *elsewhere)
{
	/* Among plugins with the same name only the first counts. */
	for (int i = 0; i < list->count; i++)
		if (plugins_find(list, list->item[i].name) == &list->item[i])
			entries[head->n_entries++] =
				capabilities_entry(text, list, &list->item[i], filter, elsewhere);
	for (int i = 0; !filter->excludes && i < filter->n; i++)
		named[head->n_named++] = capabilities_put(text, filter->name[i]);
	head->request = capabilities_put(text, filter->request);
	head->searched = (uint32_t)ftell(text);
	for (int i = 0; !head->n_entries && i < list->note_count; i++) {
		capabilities_write(text, i ? "; " : "");
		capabilities_write(text, list->note[i]);
	}
	putc('\0', text);
}

/* Joins the parts to one table. */
static void *capabilities_join(const struct table_head *head, const struct table_entry *entries,
			       const uint32_t *named, const char *text, size_t *size)
{
	const size_t entries_size = head->n_entries * sizeof(*entries);
	const size_t named_size = head->n_named * sizeof(*named);
	char *table;

	*size = sizeof(*head) + entries_size + named_size + head->text_size;
	table = malloc(*size);
	if (!table)
		return NULL;
	memcpy(table, head, sizeof(*head));
	memcpy(table + sizeof(*head), entries, entries_size);
	memcpy(table + sizeof(*head) + entries_size, named, named_size);
	memcpy(table + *size - head->text_size, text, head->text_size);
	return table;
}

void *capabilities_pack(const struct plugin_list *list, const struct filter *filter,
			const char *elsewhere, struct capabilities_head *head)
{
	struct table_entry *entries = calloc((size_t)list->count + 1, sizeof(*entries));
	uint32_t *named = calloc((size_t)filter->n + 1, sizeof(*named));
	struct table_head own = {0};
	char *text = NULL, *table = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);
	int failed = !out || !entries || !named;

	if (!failed)
		capabilities_fill(out, &own, entries, named, list, filter, elsewhere);
	failed = failed || ferror(out);
	if ((out && fclose(out)) || failed)
		size = 0;
	own.text_size = (uint32_t)size;
	if (size)
		table = capabilities_join(&own, entries, named, text, &size);
	free(text);
	free(named);
	free(entries);
	if (!table)
		error_set(COLL_ERR_NO_MEMORY, "no memory to choose a backend");
	*head = (struct capabilities_head){.protocol = CAPABILITIES_PROTOCOL,
					   .size = (uint32_t)size};
	memcpy(head->magic, capabilities_magic, sizeof(head->magic));
	snprintf(head->version, sizeof(head->version), "%s", coll_version_string());
	return table;
}

/* ------------------------------------------------------------------ checking -- */

int capabilities_check_head(const struct capabilities_head *head, int rank)
{
	if (memcmp(head->magic, capabilities_magic, sizeof(head->magic)) != 0 ||
	    head->protocol != CAPABILITIES_PROTOCOL)
		return error_set(
			COLL_ERR_VERSION,
			"rank %d runs libcoll %.31s (protocol %" PRIu32
			"), but here is libcoll %s (protocol %d): install the same libcoll for all "
			"ranks",
			rank, head->version[0] ? head->version : "?", head->protocol,
			coll_version_string(), CAPABILITIES_PROTOCOL);
	if (head->size > CAPABILITIES_LARGEST)
		return error_set(COLL_ERR_REMOTE,
				 "rank %d announces a list of backends of %" PRIu32
				 " bytes, but a list has at most %d: rank %d has far too many "
				 "plugins, or the exchange between the ranks altered bytes on the "
				 "way",
				 rank, head->size, CAPABILITIES_LARGEST, rank);
	return COLL_SUCCESS;
}

static int capabilities_damaged(int rank, const char *fault)
{
	return error_set(COLL_ERR_REMOTE,
			 "the list of backends of rank %d is damaged: %s; the exchange between the "
			 "ranks altered bytes on the way",
			 rank, fault);
}

/* Returns the string at that place, or NULL if it lies outside the table. */
static const char *capabilities_string(const struct table_head *head, const char *text,
				       uint32_t place)
{
	return place < head->text_size ? text + place : NULL;
}

/* Returns the first fault of the strings and numbers in the table, or NULL. */
static const char *capabilities_take(struct capabilities *caps, const struct table_head *head,
				     const char *at)
{
	const char *text = at + head->n_entries * sizeof(struct table_entry) +
			   head->n_named * sizeof(uint32_t);
	struct table_entry entry;
	struct capability *c;
	uint32_t place;

	for (; caps->n < (int)head->n_entries; caps->n++, at += sizeof(entry)) {
		memcpy(&entry, at, sizeof(entry));
		c = &caps->entry[caps->n];
		*c = (struct capability){.name = capabilities_string(head, text, entry.name),
					 .version = capabilities_string(head, text, entry.version),
					 .reason = capabilities_string(head, text, entry.reason),
					 .code = entry.code,
					 .priority = entry.priority,
					 .automatic = entry.automatic};
		if (!c->name || !c->version || !c->reason)
			return "a string lies outside of it";
		if (entry.code < 0 || entry.code > COLL_ERR_PERMISSION)
			return "a result code does not exist";
		if (entry.automatic != 0 && entry.automatic != 1)
			return "a flag is neither 0 nor 1";
	}
	for (; caps->n_named < (int)head->n_named; caps->n_named++, at += sizeof(place)) {
		memcpy(&place, at, sizeof(place));
		caps->named[caps->n_named] = capabilities_string(head, text, place);
		if (!caps->named[caps->n_named])
			return "a string lies outside of it";
	}
	caps->request = capabilities_string(head, text, head->request);
	caps->searched = capabilities_string(head, text, head->searched);
	return caps->request && caps->searched ? NULL : "a string lies outside of it";
}

int capabilities_unpack(struct capabilities *caps, const void *table, size_t size, int rank)
{
	const char *at = table, *fault;
	struct table_head head;

	*caps = (struct capabilities){.n = 0};
	if (size < sizeof(head) || size > CAPABILITIES_LARGEST)
		return capabilities_damaged(rank, "its size is impossible");
	memcpy(&head, at, sizeof(head));
	if (sizeof(head) + (uint64_t)head.n_entries * sizeof(struct table_entry) +
		    (uint64_t)head.n_named * sizeof(uint32_t) + head.text_size !=
	    size)
		return capabilities_damaged(rank, "its counts do not fit its size");
	if (!head.text_size || at[size - 1])
		return capabilities_damaged(rank, "its last string has no end");
	caps->named = calloc(head.n_named + 1, sizeof(*caps->named));
	caps->entry = calloc(head.n_entries + 1, sizeof(*caps->entry));
	if (!caps->named || !caps->entry)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the backends of rank %d", rank);
	fault = capabilities_take(caps, &head, at + sizeof(head));
	return fault ? capabilities_damaged(rank, fault) : COLL_SUCCESS;
}

void capabilities_free(struct capabilities *caps)
{
	free(caps->named);
	free(caps->entry);
}

const struct capability *capabilities_find(const struct capabilities *caps, const char *name)
{
	for (int i = 0; i < caps->n; i++)
		if (!strcmp(caps->entry[i].name, name))
			return &caps->entry[i];
	return NULL;
}
