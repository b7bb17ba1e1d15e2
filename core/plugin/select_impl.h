/* SPDX-License-Identifier: BSD-3-Clause */
/* select_impl.h - what the parts of the selection share; seen by core/select*.c only. */
#ifndef CORE_PLUGIN_SELECT_IMPL_H
#define CORE_PLUGIN_SELECT_IMPL_H

#include "plugin/select.h"

/* ---- select_filter.c: what `backend` asks for */

struct select_spec {
	int excludes; /* names are to be left out; else, if there are any, taken in this order */
	char **name;
	int n;
	char *memory;
	char words[256]; /* as the user wrote it: "COLL_BACKEND=tcp,ucx" */
};

/* Unset and blank: no names. */
int select_spec_parse(const struct conf *conf, struct select_spec *spec);
void select_spec_free(struct select_spec *spec);
int select_spec_has(const struct select_spec *spec, const char *name);

/* ---- select_capabilities.c: what one rank can do, as text that travels and as a table */

struct select_entry {
	const char *name, *version, *reason;
	int code; /* COLL_SUCCESS, or why it is not to be had there: then reason says it */
	int32_t priority;
	int automatic; /* may be taken without having been named */
};

struct select_offer {
	char *text; /* owns all strings */
	int code;   /* the rank has failed already: `failure` says how */
	const char *failure;
	const char **named; /* its exclusive list, best first */
	int n_named;
	const char *words; /* how that list was written */
	const char *where; /* what was searched, for a list without any plugin */
	struct select_entry *entry;
	int n;
};

/*
 * This rank's offer as malloc'd text; NULL for lack of memory.  elsewhere: "" or, if not all ranks
 * live in this process, words that say so.  list may be NULL if code is not 0.
 */
char *select_offer_write(const struct plugin_list *list, const struct select_spec *spec,
			 const char *elsewhere, int code);
/* What a rank sends that has no memory for more. */
extern const char select_offer_poor[];
/* Takes text over, also on failure, and cuts it up.  rank: whose it is. */
int select_offer_read(struct select_offer *offer, char *text, int rank);
void select_offer_free(struct select_offer *offer);
const struct select_entry *select_offer_find(const struct select_offer *offer, const char *name);

/* ---- select_choose.c: the same answer from the same offers, on every rank */

/* The name of the backend for n ranks with these offers; *name lies in them. */
int select_decide(const struct select_offer *offers, int n, const char **name);
/* "found: simulated, tcp; did you mean 'tcp'?" for somebody who named something else. */
void select_found(const char *const *names, int n, const char *name, char *text, size_t size);

#endif
