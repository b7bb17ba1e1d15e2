/* SPDX-License-Identifier: BSD-3-Clause */
/* select_impl.h - shared by select*.c. */
#ifndef CORE_PLUGIN_SELECT_IMPL_H
#define CORE_PLUGIN_SELECT_IMPL_H

#include "plugin/select.h"

/* ---- select_filter.c: the request in the option `backend` */

struct filter {
	int excludes; /* 1: excludes the names; 0: allows only the names, in this order */
	char **name;
	int n;
	char *memory;
	char request[256]; /* as the user wrote it: "COLL_BACKEND=tcp,ucx" */
};

/* Parses the option; an unset or blank option gives no names. */
int filter_parse(const struct config *config, struct filter *filter);
void filter_free(struct filter *filter);
int filter_has(const struct filter *filter, const char *name);

/* ---- select_capabilities.c: the backends that one rank can use, as a table that travels */

/* The ranks exchange this head first.  It begins alike in every version of libcoll. */
struct capabilities_head {
	char magic[8];
	uint32_t protocol;
	uint32_t size; /* bytes of the table that the rank exchanges next */
	char version[32];
};

/* One backend on one rank. */
struct capability {
	const char *name, *version;
	int code;           /* COLL_SUCCESS, or why the rank cannot use the backend */
	const char *reason; /* the message of the code */
	int32_t priority;
	int automatic; /* may be chosen without being named */
};

/* A table that was checked; the strings lie in the table. */
struct capabilities {
	const char **named; /* the names that the rank allows, best first */
	int n_named;
	const char *request;  /* the option as the user wrote it */
	const char *searched; /* the directories, for a rank that found no plugin */
	struct capability *entry;
	int n;
};

/*
 * This rank's table, malloc'd; *head describes it.  NULL on error.  elsewhere: "" or, if not all ranks
 * live in this process, a message that says so.
 */
void *capabilities_pack(const struct plugin_list *list, const struct filter *filter,
			const char *elsewhere, struct capabilities_head *head);
int capabilities_check_head(const struct capabilities_head *head, int rank);
/*
 * Checks and unpacks the table of that rank, and trusts no byte of it.  The table must live as long as
 * *caps.
 */
int capabilities_unpack(struct capabilities *caps, const void *table, size_t size, int rank);
void capabilities_free(struct capabilities *caps);
const struct capability *capabilities_find(const struct capabilities *caps, const char *name);

/* ---- select_choose.c: the same answer from the same capabilities, on every rank */

/* The name of the backend for n ranks with these capabilities; *name lies in them. */
int select_choose(const struct capabilities *all, int n, const char **name);
/* Writes "found: simulated, tcp; did you mean 'tcp'?" for a name that is not among the names. */
void select_found(const char *const *names, int n, const char *name, char *text, size_t size);

#endif
