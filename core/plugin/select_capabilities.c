/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * select_capabilities.c - what one rank can do, as text and back.
 *
 * Lines of fields with tabs between them.  Every libcoll must be able to read the first line.
 *
 *   coll-offer <protocol> <library version>
 *   failed     <code> <text>
 *   asks       <words>            how its list is written
 *   named      <backend>          one a line, best first
 *   where      <text>             what was searched in vain
 *   have       <backend> <version> <priority> <code> <automatic> <reason>
 */
#include "plugin/select_impl.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* To be raised with anything that ranks must have in common, message headers included. */
enum { CAPABILITIES_PROTOCOL = 1 };

const char capabilities_poor[] =
	"coll-offer\t1\t?\nfailed\t17\tno memory to choose a backend\n"; /* COLL_ERR_NO_MEMORY */

enum { CAPABILITIES_FIELDS = 7, CAPABILITIES_LONGEST = 700 };

/* ------------------------------------------------------------------- writing -- */

/* Without what would end a field, and not too long for thousands of ranks. */
static void capabilities_put(FILE *out, const char *before, const char *text)
{
	fputs(before, out);
	for (int i = 0; text[i] && i < CAPABILITIES_LONGEST; i++)
		putc((unsigned char)text[i] < ' ' || text[i] == 0x7f ? ' ' : text[i], out);
}

/* Why this rank does not offer a plugin, or COLL_SUCCESS. */
static int capabilities_judge(const struct plugin_list *list, const struct plugin *plugin,
			      const struct filter *filter, const char *elsewhere, char *reason,
			      size_t size)
{
	const int by_name = filter->n && !filter->excludes;
	const char *idle = by_name ? NULL : plugin_idle(list, plugin);

	if (filter->excludes && filter_has(filter, plugin->name)) {
		snprintf(reason, size, "it is excluded by %s", filter->words);
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
	return COLL_SUCCESS;
}

static void capabilities_put_plugin(FILE *out, const struct plugin_list *list,
				    const struct plugin *plugin, const struct filter *filter,
				    const char *elsewhere)
{
	const int by_name = elsewhere[0] && plugin->backend.flags & COLL_BACKEND_BY_NAME;
	char reason[sizeof(plugin->reason)];
	const int code =
		capabilities_judge(list, plugin, filter, elsewhere, reason, sizeof(reason));

	capabilities_put(out, "have\t", plugin->name);
	capabilities_put(out, "\t", plugin->backend.version ? plugin->backend.version : "");
	fprintf(out, "\t%" PRId32 "\t%d\t%d", plugin->priority, code, !by_name);
	capabilities_put(out, "\t", reason);
	putc('\n', out);
}

static void capabilities_put_plugins(FILE *out, const struct plugin_list *list,
				     const struct filter *filter, const char *elsewhere)
{
	int have = 0;

	for (int i = 0; i < list->count; i++) /* of one name the first counts */
		if (plugins_find(list, list->item[i].name) == &list->item[i]) {
			capabilities_put_plugin(out, list, &list->item[i], filter, elsewhere);
			have = 1;
		}
	if (have)
		return;
	for (int i = 0; i < list->note_count; i++)
		capabilities_put(out, i ? "; " : "where\t", list->note[i]);
	putc('\n', out);
}

static void capabilities_put_list(FILE *out, const struct filter *filter)
{
	if (filter->excludes || !filter->n)
		return;
	capabilities_put(out, "asks\t", filter->words);
	for (int i = 0; i < filter->n; i++)
		capabilities_put(out, "\nnamed\t", filter->name[i]);
	putc('\n', out);
}

char *capabilities_write(const struct plugin_list *list, const struct filter *filter,
			 const char *elsewhere, int code)
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	int failed;

	if (!out)
		return NULL;
	fprintf(out, "coll-offer\t%d\t%s\n", CAPABILITIES_PROTOCOL, coll_version_string());
	if (code) {
		fprintf(out, "failed\t%d", code);
		capabilities_put(out, "\t", error_text());
		putc('\n', out);
	} else {
		capabilities_put_list(out, filter);
		capabilities_put_plugins(out, list, filter, elsewhere);
	}
	failed = ferror(out);
	if (fclose(out) || failed) {
		free(text);
		return NULL;
	}
	return text;
}

/* ------------------------------------------------------------------- reading -- */

/* Cuts a line into fields and returns how many there are; those that are missing are "". */
static int capabilities_cut(char *line, const char *field[CAPABILITIES_FIELDS])
{
	int count = 0;

	for (int i = 0; i < CAPABILITIES_FIELDS; i++) {
		count += line != NULL;
		field[i] = strsep(&line, "\t");
		if (!field[i])
			field[i] = "";
	}
	return count;
}

static size_t capabilities_count_lines(const char *text)
{
	size_t count = 1;

	for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
		count++;
	return count;
}

/* Does a line have the fields that its first one announces?  Lines of unknown words pass. */
static int capabilities_check_line(const char *field[CAPABILITIES_FIELDS], int count, int rank)
{
	static const struct {
		const char *word;
		int fields;
	} lines[] = {{"failed", 3},
		     {"asks", 2},
		     {"named", 2},
		     {"where", 2},
		     {"have", CAPABILITIES_FIELDS}};

	for (size_t i = 0; i < sizeof(lines) / sizeof(lines[0]); i++)
		if (!strcmp(field[0], lines[i].word) && count < lines[i].fields)
			return error_set(COLL_ERR_REMOTE,
					 "the list of backends of rank %d is damaged: a line '%s' "
					 "has %d of %d fields; the exchange between the ranks "
					 "altered bytes on the way",
					 rank, lines[i].word, count, lines[i].fields);
	return COLL_SUCCESS;
}

static void capabilities_take(struct capabilities *caps, const char *field[CAPABILITIES_FIELDS])
{
	if (!strcmp(field[0], "failed")) {
		caps->code = atoi(field[1]) > 0 ? atoi(field[1]) : COLL_ERR_INTERNAL;
		caps->failure = field[2];
	} else if (!strcmp(field[0], "asks")) {
		caps->words = field[1];
	} else if (!strcmp(field[0], "named")) {
		caps->named[caps->n_named++] = field[1];
	} else if (!strcmp(field[0], "where")) {
		caps->where = field[1];
	} else if (!strcmp(field[0], "have")) {
		caps->entry[caps->n++] = (struct capability){.name = field[1],
							     .version = field[2],
							     .priority = atoi(field[3]),
							     .code = atoi(field[4]),
							     .automatic = atoi(field[5]),
							     .reason = field[6]};
	}
}

static int capabilities_check_head(char *line, int rank)
{
	const char *field[CAPABILITIES_FIELDS];

	capabilities_cut(line, field);
	if (!strcmp(field[0], "coll-offer") && atoi(field[1]) == CAPABILITIES_PROTOCOL)
		return COLL_SUCCESS;
	return error_set(COLL_ERR_VERSION,
			 "rank %d runs libcoll %.40s (protocol %.10s), but here is libcoll %s "
			 "(protocol %d): install the same libcoll for all ranks",
			 rank, field[2][0] ? field[2] : "?", field[1][0] ? field[1] : "?",
			 coll_version_string(), CAPABILITIES_PROTOCOL);
}

int capabilities_read(struct capabilities *caps, char *text, int rank)
{
	const char *field[CAPABILITIES_FIELDS];
	char *rest = text, *line;
	/* A line fills at most one row, so there are never more rows than lines. */
	const size_t lines = capabilities_count_lines(text);
	int code;

	*caps = (struct capabilities){.text = text, .failure = "", .words = "", .where = ""};
	caps->named = calloc(lines, sizeof(*caps->named));
	caps->entry = calloc(lines, sizeof(*caps->entry));
	if (!caps->named || !caps->entry)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the backends of rank %d", rank);
	code = capabilities_check_head(strsep(&rest, "\n"), rank);
	while (!code && (line = strsep(&rest, "\n")) != NULL) {
		code = capabilities_check_line(field, capabilities_cut(line, field), rank);
		if (!code)
			capabilities_take(caps, field);
	}
	return code;
}

void capabilities_free(struct capabilities *caps)
{
	free(caps->named);
	free(caps->entry);
	free(caps->text);
}

const struct capability *capabilities_find(const struct capabilities *caps, const char *name)
{
	for (int i = 0; i < caps->n; i++)
		if (!strcmp(caps->entry[i].name, name))
			return &caps->entry[i];
	return NULL;
}
