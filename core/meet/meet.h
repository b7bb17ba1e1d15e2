/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meet.h - the meeting of ranks in several processes: by an id (unique_id.c), by an address or by a launcher (launch.c).
 * Each way leads to the tree of connections that tree.h describes, which is one kind of bootstrap.
 */
#ifndef CORE_MEET_MEET_H
#define CORE_MEET_MEET_H

#include "bootstrap/bootstrap.h"

struct config;

/*
 * Returns COLL_ERR_CONFIG if this host has no interface of the name that the option `interface` gives;
 * the text says who set the option.
 */
int bootstrap_check_interface(const struct config *config);

/* Makes an id: see unique_id.c. */
int bootstrap_make_id(char *id, size_t size, const char *interface_name);

/* An id of coll_get_unique_id, and how it came to this rank. */
struct bootstrap_id {
	const char *text;
	int maker; /* the rank whose process made the id; -1: any rank, which has rank 0's part then */
	/*
	 * The ranks are some of the ranks of this bootstrap; or NULL.  An abort that the parent watches (bootstrap_watch)
	 * ends waits here too, and so does its guard (bootstrap_guard).
	 */
	const struct bootstrap *parent;
	/*
	 * COLL_KEY, or "", for an id that has passed through a launcher, whose daemons send it in clear text: the rendezvous
	 * needs the key beside the id, which alone is no secret.  NULL: it has not.
	 */
	const char *stored;
};

/*
 * Opens the rendezvous with the other ranks.  Each function blocks at most timeout_ms (and two seconds
 * more while it asks rank 0 for the missing ranks); the error names the missing ranks.  On an error
 * *bootstrap is NULL.  If the rendezvous fails while ranks are missing, rank 0 stays in the call for two seconds at
 * most and tells them the failure.
 */
int bootstrap_open_id(struct bootstrap **bootstrap, const struct bootstrap_id *id, int rank,
		      int nranks, const char *interface_name, int64_t timeout_ms);
/*
 * root: "host:port" (IPv6: "[::1]:4000"); key: any text, or NULL; key_is_secret: only the user's ranks know
 * the key.  root_origin: where the root comes from, for texts.
 */
int bootstrap_open_root(struct bootstrap **bootstrap, const char *root, const char *root_origin,
			const char *key, int key_is_secret, int rank, int nranks,
			const char *interface_name, int64_t timeout_ms);

struct launch_store;

/* The facts in the launcher's environment (launch.c). */
struct launch {
	int rank, nranks;
	int local_rank, local_nranks; /* among the ranks on this host; -1: unknown */
	/* The ranks meet through the launcher's store, without root and key; NULL: at root. */
	const struct launch_store *store;
	char root[300];          /* host:port, "" for one rank */
	const char *root_origin; /* "COLL_ROOT", or the launcher's variables; "" without a root */
	char key[256];           /* "" if none */
	int key_is_secret;       /* the key is COLL_KEY, not the identity of the job */
	const char *who;         /* "coll run", "torchrun", ..., "none" */
};
/*
 * Reads the environment; half-set or contradictory variables, and a launcher that is recognised but does not
 * give rank and number of ranks, are an error that names the variables.
 */
int launch_detect(struct launch *launch);
/* The same without root and key: these may be unset. */
int launch_detect_ranks(struct launch *launch);
/*
 * Opens the rendezvous of the ranks that the launcher has started; blocks as bootstrap_open_root, through a
 * launcher's store for timeout_ms more, until rank 0 has stored its address.
 */
int bootstrap_open_launch(struct bootstrap **bootstrap, const struct launch *launch,
			  const char *interface_name, int64_t timeout_ms);

#endif
