/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * select_capabilities.c - the backends that one rank can use, as a table that ranks exchange.
 *
 * A table is the number of entries, the entries, and three strings, each with its NUL: the names to take, the option as
 * the user wrote it, and the searched directories.  An entry is a table_entry and three strings: name, version, reason.
 */
#include "plugin/select_impl.h"
#include "base/error.h"

#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	/* Increase it with every change that all ranks must share, also in message headers. */
	CAPABILITIES_PROTOCOL = 10,
	CAPABILITIES_LONGEST = 700,      /* bytes of a string: there may be thousands of ranks */
	CAPABILITIES_SMALLEST = 4 + 3,   /* bytes of a table without entries, with empty strings */
	CAPABILITIES_LARGEST = 256 << 10 /* bytes of a table */
};

static const char capabilities_magic[8] = "libcoll";

struct table_entry {
	int32_t code, priority, automatic, unprobed;
};

/* --------------------------------------------------------------- one backend -- */

struct select_objection select_objection(const struct plugin_list *list,
					 const struct plugin *plugin, const struct filter *filter,
					 const char *elsewhere)
{
	const uint32_t flags = elsewhere[0] ? plugin->backend.flags : 0;
	const char *idle = filter->takes ? NULL : plugin_idle(list, plugin);

	if (filter->leaves_out && filter_has(filter->list, plugin->name))
		return (struct select_objection){SELECT_EXCLUDED, COLL_ERR_CONFIG, filter->request};
	if (plugin->code)
		return (struct select_objection){SELECT_UNUSABLE, plugin->code, plugin->reason};
	if (flags & COLL_BACKEND_IN_PROCESS)
		return (struct select_objection){SELECT_IN_PROCESS, COLL_ERR_UNSUPPORTED,
						 elsewhere};
	if (elsewhere[0] && plugin->unsafe[0])
		return (struct select_objection){SELECT_UNSAFE, COLL_ERR_CONFIG, plugin->unsafe};
	if (idle)
		return (struct select_objection){SELECT_IDLE, COLL_ERR_UNSUPPORTED, idle};
	if (flags & COLL_BACKEND_BY_NAME)
		return (struct select_objection){SELECT_BY_NAME, COLL_SUCCESS,
						 "the library takes it only by name"};
	return (struct select_objection){SELECT_MAY, COLL_SUCCESS, ""};
}

/* ------------------------------------------------------------------- packing -- */

/* Appends a string without control characters, which would garble messages, and without its NUL. */
static void capabilities_write(FILE *out, const char *string, int longest)
{
	for (int i = 0; string[i] && i < longest; i++)
		putc((unsigned char)string[i] < ' ' || string[i] == 0x7f ? ' ' : string[i], out);
}

static void capabilities_put(FILE *out, const char *before, const char *string)
{
	capabilities_write(out, before, CAPABILITIES_LONGEST);
	capabilities_write(out, string, CAPABILITIES_LONGEST);
	putc('\0', out);
}

static void capabilities_put_entry(FILE *out, const struct plugin_list *list,
				   const struct plugin *plugin, const struct filter *filter,
				   const char *elsewhere)
{
	const struct select_objection objection = select_objection(list, plugin, filter, elsewhere);
	const struct table_entry entry = {.code = objection.code,
					  .priority = plugin->priority,
					  .automatic = objection.kind != SELECT_BY_NAME,
					  .unprobed = plugin->unprobed};

	fwrite(&entry, sizeof(entry), 1, out);
	capabilities_put(out, "", plugin->name);
	capabilities_put(out, "", plugin->backend.version ? plugin->backend.version : "");
	capabilities_put(out, objection.kind == SELECT_EXCLUDED ? "it is excluded by " : "",
			 objection.reason);
}

int select_counts(const struct plugin_list *list, int i)
{
	return plugins_find(list, list->item[i].name) == &list->item[i];
}

static void capabilities_fill(FILE *out, const struct plugin_list *list,
			      const struct filter *filter, const char *elsewhere)
{
	uint32_t n = 0;

	for (int i = 0; i < list->count; i++)
		n += select_counts(list, i);
	fwrite(&n, sizeof(n), 1, out);
	for (int i = 0; i < list->count; i++)
		if (select_counts(list, i))
			capabilities_put_entry(out, list, &list->item[i], filter, elsewhere);
	/* The ranks compare the list name by name, so that no name may be cut; the table has a limit. */
	capabilities_write(out, filter->takes ? filter->list : "", INT_MAX);
	putc('\0', out);
	capabilities_put(out, "", filter->request);
	for (int i = 0; !n && i < list->note_count; i++) {
		capabilities_write(out, i ? "; " : "", CAPABILITIES_LONGEST);
		capabilities_write(out, list->note[i], CAPABILITIES_LONGEST);
	}
	putc('\0', out);
}

void *capabilities_pack(const struct plugin_list *list, const struct filter *filter,
			const char *elsewhere, struct capabilities_head *head)
{
	char *table = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&table, &size);
	int failed = !out;

	if (out) {
		capabilities_fill(out, list, filter, elsewhere);
		failed = ferror(out) != 0;
		failed |= fclose(out) != 0;
	}
	if (failed) {
		free(table);
		table = NULL;
		error_set(COLL_ERR_NO_MEMORY, "no memory to choose a backend");
	}
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

/* The rest of a table.  at: NULL once the table was too short. */
struct reader {
	const char *at, *end;
};

/* Takes the next bytes; too few leave *bytes unchanged. */
static void capabilities_take(struct reader *in, void *bytes, size_t size)
{
	if (!in->at || size > (size_t)(in->end - in->at)) {
		in->at = NULL;
		return;
	}
	memcpy(bytes, in->at, size);
	in->at += size;
}

/* Takes the next string, which stays in the table.  Returns NULL if the table is too short. */
static const char *capabilities_take_string(struct reader *in)
{
	const char *text = in->at;
	const char *nul = text ? memchr(text, '\0', (size_t)(in->end - text)) : NULL;

	in->at = nul ? nul + 1 : NULL;
	return nul ? text : NULL;
}

static const char capabilities_counts_fault[] = "its counts do not fit its size";

/* Takes the next entry.  Returns the fault of the table, or NULL. */
static const char *capabilities_take_entry(struct reader *in, struct capability *c)
{
	struct table_entry entry = {.code = 0};

	capabilities_take(in, &entry, sizeof(entry));
	*c = (struct capability){.code = entry.code,
				 .priority = entry.priority,
				 .automatic = entry.automatic,
				 .unprobed = entry.unprobed};
	c->name = capabilities_take_string(in);
	c->version = capabilities_take_string(in);
	c->reason = capabilities_take_string(in);
	if (!c->name || !c->version || !c->reason)
		return capabilities_counts_fault;
	if (entry.code < 0 || entry.code > COLL_ERR_PERMISSION)
		return "a result code does not exist";
	if ((entry.automatic | entry.unprobed) & ~1)
		return "a flag is neither 0 nor 1";
	return NULL;
}

int capabilities_unpack(struct capabilities *caps, const void *table, size_t size, int rank)
{
	struct reader in = {.at = table, .end = (const char *)table + size};
	const char *fault = NULL;
	uint32_t n = 0;

	*caps = (struct capabilities){.n = 0};
	if (size < CAPABILITIES_SMALLEST || size > CAPABILITIES_LARGEST)
		return capabilities_damaged(rank, "its size is impossible");
	capabilities_take(&in, &n, sizeof(n));
	if (n > size / sizeof(struct table_entry))
		return capabilities_damaged(rank, capabilities_counts_fault);
	caps->entry = calloc(n + 1, sizeof(*caps->entry));
	if (!caps->entry)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the backends of rank %d", rank);
	for (; caps->n < (int)n && !fault; caps->n++)
		fault = capabilities_take_entry(&in, &caps->entry[caps->n]);
	caps->list = capabilities_take_string(&in);
	caps->request = capabilities_take_string(&in);
	caps->searched = capabilities_take_string(&in);
	if (!fault && (!caps->list || !caps->request || !caps->searched || in.at != in.end))
		fault = capabilities_counts_fault;
	return fault ? capabilities_damaged(rank, fault) : COLL_SUCCESS;
}

void capabilities_free(struct capabilities *caps)
{
	free(caps->entry);
}

const struct capability *capabilities_find(const struct capabilities *caps, const char *name)
{
	for (int i = 0; i < caps->n; i++)
		if (!strcmp(caps->entry[i].name, name))
			return &caps->entry[i];
	return NULL;
}
