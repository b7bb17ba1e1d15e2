/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * select_choose.c - the choice, from what all ranks offer.
 *
 * Every rank computes it from the same data and comes to the same result, or to the same error.
 */
#include "plugin/select_impl.h"
#include "base/error.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* "rank 3: ", or "" where there is only one. */
struct decide_rank {
	char text[24];
};

static struct decide_rank decide_rank(int rank, int n)
{
	struct decide_rank name = {""};

	if (n > 1)
		snprintf(name.text, sizeof(name.text), "rank %d: ", rank);
	return name;
}

/* Appends to a text of limited size. */
__attribute__((format(printf, 3, 4))) static void decide_add(char *text, size_t size,
							     const char *fmt, ...)
{
	const size_t used = strlen(text);
	va_list args;

	va_start(args, fmt);
	vsnprintf(text + used, size - used, fmt, args);
	va_end(args);
}

/* ----------------------------------------------------------------- what is wrong -- */

void select_found(const char *const *names, int n, const char *name, char *text, size_t size)
{
	char guess[256];

	snprintf(text, size, "%s", n ? "found: " : "none was found");
	for (int i = 0; i < n; i++)
		decide_add(text, size, "%s%s", i ? ", " : "", names[i]);
	conf_did_you_mean(name, names, n, guess);
	decide_add(text, size, "%s", guess);
}

static int decide_missing(const struct select_offer *offers, int n, int rank, const char *name,
			  const char *words)
{
	const struct select_offer *offer = &offers[rank];
	const char **names = calloc((size_t)offer->n + 1, sizeof(*names));
	char found[512];

	for (int i = 0; names && i < offer->n; i++)
		names[i] = offer->entry[i].name;
	select_found(names, names ? offer->n : 0, name, found, sizeof(found));
	free(names);
	return error_set(COLL_ERR_NOT_FOUND, "%sthere is no backend '%.60s' (%s); %s%s%s",
			 decide_rank(rank, n).text, name, words, found, offer->n ? "" : ": ",
			 offer->n ? "" : offer->where);
}

static int decide_unusable(const struct select_entry *entry, int n, int rank)
{
	if (n == 1)
		return error_set(entry->code, "backend '%s' cannot be used: %s", entry->name,
				 entry->reason);
	return error_set(entry->code, "rank %d cannot use backend '%s': %s", rank, entry->name,
			 entry->reason);
}

/* ------------------------------------------------------------------- named ones -- */

static int decide_names(const struct select_offer *offer, const char *name)
{
	for (int i = 0; i < offer->n_named; i++)
		if (!strcmp(offer->named[i], name))
			return 1;
	return 0;
}

/* The first rank that has a list without this name, or -1. */
static int decide_objector(const struct select_offer *offers, int n, const char *name)
{
	for (int r = 0; r < n; r++)
		if (offers[r].n_named && !decide_names(&offers[r], name))
			return r;
	return -1;
}

static int decide_no_common(const struct select_offer *offers, int n, int first)
{
	const int other = decide_objector(offers, n, offers[first].named[0]);
	char one[200] = "", two[200] = "";

	for (int i = 0; i < offers[first].n_named; i++)
		decide_add(one, sizeof(one), "%s%s", i ? "," : "", offers[first].named[i]);
	for (int i = 0; i < offers[other].n_named; i++)
		decide_add(two, sizeof(two), "%s%s", i ? "," : "", offers[other].named[i]);
	return error_set(COLL_ERR_CONFIG,
			 "rank %d asks for '%s', rank %d for '%s': no backend is in every rank's "
			 "list (%s)",
			 first, one, other, two, offers[first].words);
}

/* Can every rank use what was named? */
static int decide_check_named(const struct select_offer *offers, int n, int first, const char *name)
{
	for (int r = 0; r < n; r++) {
		const struct select_entry *entry = select_offer_find(&offers[r], name);

		if (!entry)
			return decide_missing(offers, n, r, name, offers[first].words);
		if (entry->code)
			return decide_unusable(entry, n, r);
	}
	return COLL_SUCCESS;
}

/* What comes first on the lowest rank that has a list and is in all lists must be usable. */
static int decide_by_name(const struct select_offer *offers, int n, int first, const char **name)
{
	for (int i = 0; i < offers[first].n_named; i++) {
		const char *candidate = offers[first].named[i];

		if (decide_objector(offers, n, candidate) >= 0)
			continue;
		*name = candidate;
		return decide_check_named(offers, n, first, candidate);
	}
	return decide_no_common(offers, n, first);
}

/* ------------------------------------------------------------------ by priority -- */

/* The first rank that cannot take it unasked, or -1. */
static int decide_unable(const struct select_offer *offers, int n, const char *name)
{
	for (int r = 0; r < n; r++) {
		const struct select_entry *entry = select_offer_find(&offers[r], name);

		if (!entry || entry->code || !entry->automatic)
			return r;
	}
	return -1;
}

/* Why that rank does not take it unasked. */
static const char *decide_reason(const struct select_offer *offer, const char *name)
{
	const struct select_entry *entry = select_offer_find(offer, name);

	if (!entry)
		return "it is not installed";
	return entry->code ? entry->reason : "it is taken only if it is named";
}

static int decide_none(const struct select_offer *offers, int n)
{
	char text[800] = "";

	for (int i = 0; i < offers[0].n; i++) {
		const char *name = offers[0].entry[i].name;
		const int r = decide_unable(offers, n, name);

		decide_add(text, sizeof(text), "%s'%s': %s%.300s", i ? "; " : "", name,
			   decide_rank(r, n).text, decide_reason(&offers[r], name));
	}
	if (!offers[0].n)
		decide_add(text, sizeof(text), "%sno plugin was found: %s", decide_rank(0, n).text,
			   offers[0].where);
	return error_set(COLL_ERR_NOT_FOUND, "no backend can be used%s: %s",
			 n > 1 ? " by all ranks" : "", text);
}

/* Rank 0's entries come in the order of its priorities. */
static int decide_by_priority(const struct select_offer *offers, int n, const char **name)
{
	for (int i = 0; i < offers[0].n; i++) {
		const char *candidate = offers[0].entry[i].name;
		const int r = decide_unable(offers, n, candidate);

		if (r < 0) {
			*name = candidate;
			return COLL_SUCCESS;
		}
		if (n > 1)
			log_info("backend '%s' is passed over: %s%s", candidate,
				 decide_rank(r, n).text, decide_reason(&offers[r], candidate));
	}
	return decide_none(offers, n);
}

/* -------------------------------------------------------------------- the whole -- */

static int decide_check_version(const struct select_offer *offers, int n, const char *name)
{
	const char *version = select_offer_find(&offers[0], name)->version, *other;

	for (int r = 1; r < n; r++) {
		other = select_offer_find(&offers[r], name)->version;
		if (strcmp(version, other) != 0)
			return error_set(COLL_ERR_VERSION,
					 "backend '%s' has version %s on rank 0 but %s on rank %d: "
					 "install the same plugin for all ranks",
					 name, version, other, r);
	}
	return COLL_SUCCESS;
}

int select_decide(const struct select_offer *offers, int n, const char **name)
{
	int first = 0, code;

	for (int r = 0; r < n; r++)
		if (offers[r].code)
			return error_set(offers[r].code, "%s%s", decide_rank(r, n).text,
					 offers[r].failure);
	while (first < n && !offers[first].n_named)
		first++;
	if (first < n)
		code = decide_by_name(offers, n, first, name);
	else
		code = decide_by_priority(offers, n, name);
	return code ? code : decide_check_version(offers, n, *name);
}
