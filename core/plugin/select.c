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
	if (filter->n && !filter->excludes)
		snprintf(why, SELECT_WHY, "chosen: %s names it%s", filter->request,
			 filter->n > 1 ? " first" : "");
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
	const int named = filter_has(filter, p->name);
	const int unsafe = !in_process && !p->code && p->unsafe[0];
	const char *idle = plugin_idle(list, p);
	const uint32_t flags = in_process ? 0 : p->backend.flags;

	if (p == chosen)
		select_why_chosen(p, filter, why);
	else if (filter->excludes && named)
		snprintf(why, SELECT_WHY, "excluded by %s", filter->request);
	else if (flags & COLL_BACKEND_IN_PROCESS && !p->code)
		snprintf(why, SELECT_WHY,
			 "passed over: only for ranks that all live in one process");
	else if (unsafe && (named || !filter->n || filter->excludes))
		snprintf(why, SELECT_WHY, "passed over: %s", p->unsafe);
	else if (filter->n && !filter->excludes && named)
		select_why_named(p, chosen, filter, why);
	else if (filter->n && !filter->excludes)
		snprintf(why, SELECT_WHY, "passed over: %s does not name it", filter->request);
	else if (p->code)
		snprintf(why, SELECT_WHY, "passed over: it cannot be used");
	else if (flags & COLL_BACKEND_BY_NAME)
		snprintf(why, SELECT_WHY, "passed over: the library takes it only by name");
	else if (idle)
		snprintf(why, SELECT_WHY, "passed over: %s", idle);
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
	filter_free(&filter);
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
	struct filter filter;
	char found[512];
	int unknown = 0;

	if (!filter_parse(config, &filter) && filter.excludes)
		for (int i = 0; i < filter.n && !unknown; i++) {
			unknown = !plugins_find(list, filter.name[i]);
			if (!unknown)
				continue;
			select_found_here(list, filter.name[i], found, sizeof(found));
			snprintf(text, size,
				 "%s excludes '%.60s', but there is no such backend; %s",
				 filter.request, filter.name[i], found);
		}
	filter_free(&filter);
	return unknown;
}
