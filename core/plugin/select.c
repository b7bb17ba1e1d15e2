/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * select.c - the choice of a backend, from the capabilities of all ranks; and for one process alone, with a message
 * about every plugin.
 *
 * Every rank computes the choice from the same data and comes to the same result, or to the same error.
 */
#include "plugin/select_impl.h"
#include "base/error.h"
#include "base/log.h"
#include "base/suggest.h"

#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Returns "rank 3: ", or "" if there is only one rank. */
struct choose_rank {
	char text[24];
};

static struct choose_rank choose_rank(int rank, int n)
{
	struct choose_rank name = {""};

	if (n > 1)
		snprintf(name.text, sizeof(name.text), "rank %d: ", rank);
	return name;
}

/* Appends to a text of limited size. */
__attribute__((format(printf, 3, 4))) static void choose_add(char *text, size_t size,
							     const char *fmt, ...)
{
	const size_t used = strlen(text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + used, size - used, fmt, args);
	va_end(args);
}

/* -------------------------------------------------------------------- the faults -- */

/* Writes "found: simulated, tcp; did you mean 'tcp'?" for a name that is not among the names. */
static void select_found(const char *const *names, int n, const char *name, char *text, size_t size)
{
	struct suggestion guess;

	snprintf(text, size, "%s", n ? "found: " : "none was found");
	for (int i = 0; i < n; i++)
		choose_add(text, size, "%s%s", i ? ", " : "", names[i]);
	suggest_begin(&guess, name, 0);
	for (int i = 0; i < n; i++)
		suggest_try(&guess, names[i]);
	choose_add(text, size, "%s", suggest_text(&guess));
}

static int choose_missing(const struct capabilities *all, int n, int rank, const char *name,
			  const char *request)
{
	const struct capabilities *caps = &all[rank];
	const char **names = calloc((size_t)caps->n + 1, sizeof(*names));
	char found[512];

	for (int i = 0; names && i < caps->n; i++)
		names[i] = caps->entry[i].name;
	select_found(names, names ? caps->n : 0, name, found, sizeof(found));
	free(names);
	return error_set(COLL_ERR_NOT_FOUND, "%sthere is no backend '%.60s' (%s); %s%s%s",
			 choose_rank(rank, n).text, name, request, found, caps->n ? "" : ": ",
			 caps->n ? "" : caps->searched);
}

static int choose_unusable(const struct capability *entry, int n, int rank)
{
	if (n == 1)
		return error_set(entry->code, "backend '%s' cannot be used: %s", entry->name,
				 entry->reason);
	return error_set(entry->code, "rank %d cannot use backend '%s': %s", rank, entry->name,
			 entry->reason);
}

/* ------------------------------------------------------------------- named ones -- */

/* Returns the first rank whose list lacks the name, or -1. */
static int choose_objector(const struct capabilities *all, int n, const char *name)
{
	for (int r = 0; r < n; r++)
		if (all[r].list[0] && !filter_has(all[r].list, name))
			return r;
	return -1;
}

/* Returns the first rank that cannot use the backend, or -1.  A backend that is not named must be automatic, too. */
static int choose_unable(const struct capabilities *all, int n, const char *name, int named)
{
	for (int r = 0; r < n; r++) {
		const struct capability *entry = capabilities_find(&all[r], name);

		if (!entry || entry->code || (!named && !entry->automatic))
			return r;
	}
	return -1;
}

/* Every rank must be able to use a backend that all lists name. */
static int choose_named(const struct capabilities *all, int n, int first, const char *candidate,
			const char **name)
{
	const int r = choose_unable(all, n, candidate, 1);
	const struct capability *entry = capabilities_find(&all[r < 0 ? 0 : r], candidate);

	if (!entry)
		return choose_missing(all, n, r, candidate, all[first].request);
	*name = entry->name;
	return r < 0 ? COLL_SUCCESS : choose_unusable(entry, n, r);
}

/* The first backend of the lowest rank with a list that stands in all lists must be usable. */
static int choose_by_name(const struct capabilities *all, int n, int first, const char **name)
{
	const char *at = all[first].list;
	struct filter_name candidate;
	int other = first, r;

	while (filter_next(&at, &candidate)) {
		r = candidate.text[0] ? choose_objector(all, n, candidate.text) : first;
		if (r < 0)
			return choose_named(all, n, first, candidate.text, name);
		other = other == first ? r : other;
	}
	return error_set(COLL_ERR_CONFIG,
			 "rank %d asks for '%.200s', rank %d for '%.200s': no backend is in every "
			 "rank's list (%s)",
			 first, all[first].list, other, all[other].list, all[first].request);
}

/* ------------------------------------------------------------------ by priority -- */

/* Returns the reason why a rank without a list passes over the backend. */
static const char *choose_reason(const struct capabilities *caps, const char *name)
{
	const struct capability *entry = capabilities_find(caps, name);

	return entry ? entry->reason : "it is not installed";
}

static int choose_none(const struct capabilities *all, int n)
{
	char text[800] = "";

	for (int i = 0; i < all[0].n; i++) {
		const char *name = all[0].entry[i].name;
		const int r = choose_unable(all, n, name, 0);

		choose_add(text, sizeof(text), "%s'%s': %s%.300s", i ? "; " : "", name,
			   choose_rank(r, n).text, choose_reason(&all[r], name));
	}
	if (!all[0].n)
		choose_add(text, sizeof(text), "%sno plugin was found: %s", choose_rank(0, n).text,
			   all[0].searched);
	return error_set(COLL_ERR_NOT_FOUND, "no backend can be used%s: %s",
			 n > 1 ? " by all ranks" : "", text);
}

/* Rank 0's entries come in the order of its priorities. */
static int choose_by_priority(const struct capabilities *all, int n, const char **name)
{
	for (int i = 0; i < all[0].n; i++) {
		const char *candidate = all[0].entry[i].name;
		const int r = choose_unable(all, n, candidate, 0);

		if (r < 0) {
			*name = candidate;
			return COLL_SUCCESS;
		}
		if (n > 1)
			log_info("backend '%s' is passed over: %s%s", candidate,
				 choose_rank(r, n).text, choose_reason(&all[r], candidate));
	}
	return choose_none(all, n);
}

/* -------------------------------------------------------------------- the choice -- */

static int choose_check_version(const struct capabilities *all, int n, const char *name)
{
	const char *version = capabilities_find(&all[0], name)->version, *other;

	for (int r = 1; r < n; r++) {
		other = capabilities_find(&all[r], name)->version;
		if (strcmp(version, other) != 0)
			return error_set(COLL_ERR_VERSION,
					 "backend '%s' has version %s on rank 0 but %s on rank %d: "
					 "install the same plugin for all ranks",
					 name, version, other, r);
	}
	return COLL_SUCCESS;
}

int select_choose(const struct capabilities *all, int n, const char **name)
{
	int first = 0, code;

	while (first < n && !all[first].list[0])
		first++;
	if (first < n)
		code = choose_by_name(all, n, first, name);
	else
		code = choose_by_priority(all, n, name);
	return code ? code : choose_check_version(all, n, *name);
}

enum { SELECT_WHY = 768 };

static const char select_elsewhere[] =
	"it works only if all ranks live in one process, as coll_comm_init_all makes them";

/* ------------------------------------------------ the messages about every plugin -- */

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
	const struct select_objection objection =
		select_objection(list, p, filter, in_process ? "" : select_elsewhere);

	if (p == chosen)
		select_why_chosen(p, filter, why);
	else if (objection.kind == SELECT_EXCLUDED)
		snprintf(why, SELECT_WHY, "excluded by %s", objection.reason);
	else if (objection.kind == SELECT_IN_PROCESS)
		snprintf(why, SELECT_WHY,
			 "passed over: only for ranks that all live in one process");
	else if (filter->takes && !filter_has(filter->list, p->name))
		snprintf(why, SELECT_WHY, "passed over: %s does not name it", filter->request);
	else if (filter->takes && objection.kind != SELECT_UNSAFE)
		select_why_named(p, chosen, filter, why);
	else if (objection.kind == SELECT_UNUSABLE)
		snprintf(why, SELECT_WHY, "passed over: it cannot be used");
	else if (objection.kind != SELECT_MAY)
		snprintf(why, SELECT_WHY, "passed over: %s", objection.reason);
	else
		select_why_lower(p, chosen, why);
}

/* --------------------------------------------------------------- one process -- */

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
		if (select_counts(list, i))
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
