/* SPDX-License-Identifier: BSD-3-Clause */
/* select_impl.h - shared by select*.c. */
#ifndef CORE_PLUGIN_SELECT_IMPL_H
#define CORE_PLUGIN_SELECT_IMPL_H

#include "plugin/plugin_impl.h"
#include "plugin/select.h"

/* ---- select_capabilities.c: the backends that one rank can use, as a table that travels */

/* The first thing that keeps a rank from a backend. */
struct select_objection {
	enum {
		SELECT_MAY, /* nothing */
		SELECT_EXCLUDED,
		SELECT_UNUSABLE,
		SELECT_IN_PROCESS,
		SELECT_UNSAFE,
		SELECT_IDLE,
		SELECT_BY_NAME /* the rank takes it if a rank names it */
	} kind;
	int code;           /* COLL_SUCCESS for SELECT_MAY and SELECT_BY_NAME */
	const char *reason; /* of SELECT_EXCLUDED the request that excludes the backend */
};
/* elsewhere: "" or, if not all ranks live in this process, a message that says so. */
struct select_objection select_objection(const struct plugin_list *list,
					 const struct plugin *plugin, const struct filter *filter,
					 const char *elsewhere);

/* Does entry i of the list count?  Among plugins with the same name only the first does. */
int select_counts(const struct plugin_list *list, int i);

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
	const char *reason; /* the message of the code, or why the backend is not automatic */
	int32_t priority;
	int automatic; /* may be chosen without being named */
	int unprobed;  /* the rank has not asked it yet, so the code may change */
};

/* A table that was checked; the strings lie in the table. */
struct capabilities {
	const char *list;     /* "ucx,tcp": the names to take, best first, for filter_next; or "" */
	const char *request;  /* the option as the user wrote it */
	const char *searched; /* the directories, for a rank that found no plugin */
	struct capability *entry;
	int n;
};

/* Returns this rank's table, malloc'd, which *head describes, or NULL on an error.  elsewhere: see select_objection. */
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

/* ---- select.c: the same answer from the same capabilities, on every rank */

/* The name of the backend for n ranks with these capabilities; *name lies in them. */
int select_choose(const struct capabilities *all, int n, const char **name);

#endif
