/* SPDX-License-Identifier: BSD-3-Clause */
/* select.c - chooses a backend for one process alone, with a message about every plugin. */
#include "plugin/select_impl.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SELECT_WHY = 768 };

static const char select_elsewhere[] =
	"it works only if all ranks live in one process, as coll_comm_init_all makes them";

/* ------------------------------------------------------------------ the messages -- */

static void select_why_chosen(const struct plugin *p, const struct filter *filter, char *why)
{
	if (filter->takes)
		snprintf(why, SELECT_WHY, "chosen: %s names it%s", filter->request,
			 filter->takes > 1 ? " first" : "");
	else
		snprintf(why, SELECT_WHY,
			 "chosen: highest priority (%" PRId32 ", %s) of the usable backends",
			 p->priority, p->priority_source);
}

/* Returns the reason why a named plugin was not chosen. */
static void select_why_named(const struct plugin *p, const struct plugin *chosen,
			     const struct filter *filter, char *why)
{
	if (chosen)
		snprintf(why, SELECT_WHY, "passed over: '%s' comes first in %s", chosen->name,
			 filter->request);
	else if (p->code)
		snprintf(why, SELECT_WHY, "named by %s, but it cannot be used", filter->request);
	else
		snprintf(why, SELECT_WHY, "named by %s, but the first backend there cannot be used",
			 filter->request);
}

static void select_why_lower(const struct plugin *p, const struct plugin *chosen, char *why)
{
	if (!chosen)
		snprintf(why, SELECT_WHY, "passed over: no backend can be chosen");
	else if (chosen->priority == p->priority)
		snprintf(why, SELECT_WHY,
			 "passed over: '%s' has the same priority (%" PRId32
			 ") and comes first by name",
			 chosen->name, chosen->priority);
	else
		snprintf(why, SELECT_WHY,
			 "passed over: '%s' has a higher priority (%" PRId32 ", %s)", chosen->name,
			 chosen->priority, chosen->priority_source);
}

static void select_why(const struct plugin_list *list, const struct plugin *p,
		       const struct plugin *chosen, const struct filter *filter, int in_process,
		       char *why)
{
	const struct select_bar bar =
		select_bar(list, p, filter, in_process ? "" : select_elsewhere);

	if (p == chosen)
		select_why_chosen(p, filter, why);
	else if (bar.kind == SELECT_EXCLUDED)
		snprintf(why, SELECT_WHY, "excluded by %s", bar.reason);
	else if (bar.kind == SELECT_IN_PROCESS)
		snprintf(why, SELECT_WHY,
			 "passed over: only for ranks that all live in one process");
	else if (filter->takes && !filter_has(filter->list, p->name))
		snprintf(why, SELECT_WHY, "passed over: %s does not name it", filter->request);
	else if (filter->takes && bar.kind != SELECT_UNSAFE)
		select_why_named(p, chosen, filter, why);
	else if (bar.kind == SELECT_UNUSABLE)
		snprintf(why, SELECT_WHY, "passed over: it cannot be used");
	else if (bar.kind != SELECT_MAY)
		snprintf(why, SELECT_WHY, "passed over: %s", bar.reason);
	else
		select_why_lower(p, chosen, why);
}

/* -------------------------------------------------------------------- the choice -- */

static int select_alone(const struct plugin_list *list, const struct filter *filter, int in_process,
			const struct plugin **chosen)
{
	struct capabilities_head head;
	void *table = capabilities_pack(list, filter, in_process ? "" : select_elsewhere, &head);
	struct capabilities caps;
	const char *name;
	int code;

	if (!table)
		return COLL_ERR_NO_MEMORY;
	code = capabilities_unpack(&caps, table, head.size, 0);
	if (!code)
		code = select_choose(&caps, 1, &name);
	if (!code)
		*chosen = plugins_find(list, name);
	capabilities_free(&caps);
	free(table);
	return code;
}

int select_local(const struct config *config, const struct plugin_list *list, int in_process,
		 const struct plugin **chosen, char (*why)[768])
{
	struct filter filter;
	int code = filter_parse(config, &filter);

	*chosen = NULL;
	if (!code)
		code = select_alone(list, &filter, in_process, chosen);
	for (int i = 0; why && i < list->count; i++)
		select_why(list, &list->item[i], *chosen, &filter, in_process, why[i]);
	return code;
}

/* ----------------------------------------------------------------- unknown names -- */

static void select_found_here(const struct plugin_list *list, const char *name, char *text,
			      size_t size)
{
	const char **names = calloc((size_t)list->count + 1, sizeof(*names));
	int n = 0;

	for (int i = 0; names && i < list->count; i++)
		if (plugins_find(list, list->item[i].name) == &list->item[i])
			names[n++] = list->item[i].name;
	select_found(names, n, name, text, size);
	free(names);
}

int select_unknown(const struct plugin_list *list, const char *name)
{
	char found[512];

	select_found_here(list, name, found, sizeof(found));
	return error_set(COLL_ERR_NOT_FOUND, "there is no backend '%.60s'; %s", name, found);
}

int select_excludes_unknown(const struct config *config, const struct plugin_list *list, char *text,
			    size_t size)
{
	struct filter_name name;
	struct filter filter;
	char found[512];

	if (filter_parse(config, &filter) || !filter.leaves_out)
		return 0;
	for (const char *at = filter.list; filter_next(&at, &name);)
		if (name.text[0] && !plugins_find(list, name.text)) {
			select_found_here(list, name.text, found, sizeof(found));
			snprintf(text, size,
				 "%s excludes '%.60s', but there is no such backend; %s",
				 filter.request, name.text, found);
			return 1;
		}
	return 0;
}
