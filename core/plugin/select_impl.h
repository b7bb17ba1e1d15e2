/* SPDX-License-Identifier: BSD-3-Clause */
/* select_impl.h - what the parts of the selection share; seen by core/select*.c only. */
#ifndef CORE_PLUGIN_SELECT_IMPL_H
#define CORE_PLUGIN_SELECT_IMPL_H

#include "plugin/select.h"

/* ---- select_filter.c: what `backend` asks for */

struct filter {
	int excludes; /* names are to be left out; else, if there are any, taken in this order */
	char **name;
	int n;
	char *memory;
	char words[256]; /* as the user wrote it: "COLL_BACKEND=tcp,ucx" */
};

/* Unset and blank: no names. */
int filter_parse(const struct config *config, struct filter *filter);
void filter_free(struct filter *filter);
int filter_has(const struct filter *filter, const char *name);

/* ---- select_capabilities.c: what one rank can do, as text that travels and as a table */

struct capability {
	const char *name, *version, *reason;
	int code; /* COLL_SUCCESS, or why it is not to be had there: then reason says it */
	int32_t priority;
	int automatic; /* may be taken without having been named */
};

struct capabilities {
	char *text; /* owns all strings */
	int code;   /* the rank has failed already: `failure` says how */
	const char *failure;
	const char **named; /* its exclusive list, best first */
	int n_named;
	const char *words; /* how that list was written */
	const char *where; /* what was searched, for a list without any plugin */
	struct capability *entry;
	int n;
};

/*
 * This rank's offer as malloc'd text; NULL for lack of memory.  elsewhere: "" or, if not all ranks
 * live in this process, words that say so.  list may be NULL if code is not 0.
 */
char *capabilities_write(const struct plugin_list *list, const struct filter *filter,
			 const char *elsewhere, int code);
/* What a rank sends that has no memory for more. */
extern const char capabilities_poor[];
/* Takes text over, also on failure, and cuts it up.  rank: whose it is. */
int capabilities_read(struct capabilities *caps, char *text, int rank);
void capabilities_free(struct capabilities *caps);
const struct capability *capabilities_find(const struct capabilities *caps, const char *name);

/* ---- select_choose.c: the same answer from the same offers, on every rank */

/* The name of the backend for n ranks with these offers; *name lies in them. */
int select_choose(const struct capabilities *all, int n, const char **name);
/* "found: simulated, tcp; did you mean 'tcp'?" for somebody who named something else. */
void select_found(const char *const *names, int n, const char *name, char *text, size_t size);

#endif
