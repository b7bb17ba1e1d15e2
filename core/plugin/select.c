/* SPDX-License-Identifier: BSD-3-Clause */
/* select.c - the choice of one process alone, and a sentence about every plugin. */
#include "plugin/select_impl.h"
#include "base/error.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SELECT_WHY = 768 };

static const char select_elsewhere[] =
	"it works only if all ranks live in one process, as coll_comm_init_all makes them";

/* ----------------------------------------------------------------- the sentences -- */

static void select_why_chosen(const struct plugin *p, const struct select_spec *spec, char *why)
{
	if (spec->n && !spec->excludes)
		snprintf(why, SELECT_WHY, "chosen: %s names it%s", spec->words,
			 spec->n > 1 ? " first" : "");
	else
		snprintf(why, SELECT_WHY,
			 "chosen: highest priority (%" PRId32 ", %s) of the usable backends",
			 p->priority, p->priority_source);
}

/* It was named and is not the one chosen. */
static void select_why_named(const struct plugin *p, const struct plugin *chosen,
			     const struct select_spec *spec, char *why)
{
	if (chosen)
		snprintf(why, SELECT_WHY, "passed over: '%s' comes first in %s", chosen->name,
			 spec->words);
	else if (p->code)
		snprintf(why, SELECT_WHY, "named by %s, but it cannot be used", spec->words);
	else
		snprintf(why, SELECT_WHY, "named by %s, but what comes first there cannot be used",
			 spec->words);
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
		       const struct plugin *chosen, const struct select_spec *spec, int in_process,
		       char *why)
{
	const int named = select_spec_has(spec, p->name);
	const char *idle = plugin_idle(list, p);
	const uint32_t flags = in_process ? 0 : p->backend.flags;

	if (p == chosen)
		select_why_chosen(p, spec, why);
	else if (spec->excludes && named)
		snprintf(why, SELECT_WHY, "excluded by %s", spec->words);
	else if (flags & COLL_BACKEND_IN_PROCESS && !p->code)
		snprintf(why, SELECT_WHY,
			 "passed over: only for ranks that all live in one process");
	else if (spec->n && !spec->excludes && named)
		select_why_named(p, chosen, spec, why);
	else if (spec->n && !spec->excludes)
		snprintf(why, SELECT_WHY, "passed over: %s does not name it", spec->words);
	else if (p->code)
		snprintf(why, SELECT_WHY, "passed over: it cannot be used");
	else if (flags & COLL_BACKEND_BY_NAME)
		snprintf(why, SELECT_WHY, "passed over: it is taken only if it is named");
	else if (idle)
		snprintf(why, SELECT_WHY, "passed over: %s", idle);
	else
		select_why_lower(p, chosen, why);
}

/* -------------------------------------------------------------------- the choice -- */

static int select_alone(const struct plugin_list *list, const struct select_spec *spec,
			int in_process, const struct plugin **chosen)
{
	char *text = select_offer_write(list, spec, in_process ? "" : select_elsewhere, 0);
	struct select_offer offer;
	const char *name;
	int code;

	if (!text)
		return error_set(COLL_ERR_NO_MEMORY, "no memory to choose a backend");
	code = select_offer_read(&offer, text, 0);
	if (!code)
		code = select_decide(&offer, 1, &name);
	if (!code)
		*chosen = plugins_find(list, name);
	select_offer_free(&offer);
	return code;
}

int select_local(const struct conf *conf, const struct plugin_list *list, int in_process,
		 const struct plugin **chosen, char (*why)[768])
{
	struct select_spec spec;
	int code = select_spec_parse(conf, &spec);

	*chosen = NULL;
	if (!code)
		code = select_alone(list, &spec, in_process, chosen);
	for (int i = 0; why && i < list->count; i++)
		select_why(list, &list->item[i], *chosen, &spec, in_process, why[i]);
	select_spec_free(&spec);
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

int select_excludes_unknown(const struct conf *conf, const struct plugin_list *list, char *text,
			    size_t size)
{
	struct select_spec spec;
	char found[512];
	int unknown = 0;

	if (!select_spec_parse(conf, &spec) && spec.excludes)
		for (int i = 0; i < spec.n && !unknown; i++) {
			unknown = !plugins_find(list, spec.name[i]);
			if (!unknown)
				continue;
			select_found_here(list, spec.name[i], found, sizeof(found));
			snprintf(text, size,
				 "%s excludes '%.60s', but there is no such backend; %s",
				 spec.words, spec.name[i], found);
		}
	select_spec_free(&spec);
	return unknown;
}
