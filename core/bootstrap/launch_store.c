/* SPDX-License-Identifier: BSD-3-Clause */
/* launch_store.c - opens the rendezvous of a launcher's ranks through its store, where rank 0 puts a unique id. */
#include "base/error.h"
#include "base/log.h"
#include "bootstrap/bootstrap_impl.h"
#include "bootstrap/launch_store.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

/* The text that rank 0 stores: a unique id, or this mark and the reason why there is none. */
static const char launch_failed_mark = '!';

static int launch_store_id(const struct launch_store *store, const char *key,
			   const char *interface_name, char id[COLL_UNIQUE_ID_SIZE],
			   int64_t timeout_ms)
{
	char text[COLL_UNIQUE_ID_SIZE];
	struct error_first first = {0};
	int code = bootstrap_make_id(id, COLL_UNIQUE_ID_SIZE, interface_name);

	error_note(&first, code);
	snprintf(text, sizeof(text), "%c%.480s", launch_failed_mark, error_text());
	error_note(&first, store->put(key, code ? text : id));
	error_note(&first, store->fence(timeout_ms, bootstrap_stall_time()));
	return error_raise(&first);
}

static int launch_fetch_id(const struct launch_store *store, const char *key,
			   char id[COLL_UNIQUE_ID_SIZE], int64_t timeout_ms)
{
	int code = store->fence(timeout_ms, INT64_MAX); /* rank 0 logs for all */

	if (!code)
		code = store->get(key, id, COLL_UNIQUE_ID_SIZE, timeout_ms);

	if (!code && id[0] == launch_failed_mark)
		code = error_set(COLL_ERR_REMOTE, "rank 0: %s", id + 1);
	return code;
}

static int launch_no_store(const struct launch *launch)
{
	char why[400];

	snprintf(why, sizeof(why), "%s", error_text());
	return error_set(COLL_ERR_CONFIG,
			 "%s has started this process as rank %d of %d, and only %s knows where "
			 "rank 0 is (%s): set COLL_ROOT to host:port of rank 0 on all ranks",
			 launch->who, launch->rank, launch->nranks, launch->store->name, why);
}

void launch_store_stalled(const struct launch_store *store)
{
	log_warn("rank 0 still waits: not all ranks of the launcher's job have come to "
		 "coll_comm_init_env, and %s does not say which",
		 store->name);
}

int launch_store_timed_out(const struct launch_store *store, int64_t timeout_ms)
{
	char seconds[24];

	return error_set(
		COLL_ERR_TIMEOUT,
		"timed out after %s s: not all ranks of the launcher's job have met through "
		"%s; is each of them in coll_comm_init_env?",
		bootstrap_seconds(timeout_ms, seconds), store->name);
}

int launch_store_open(struct bootstrap **bootstrap, const struct launch *launch,
		      const char *interface_name, int64_t timeout_ms)
{
	static _Atomic unsigned
		calls; /* of all ranks alike, so that each call has a key of its own */
	char key[32], id[COLL_UNIQUE_ID_SIZE];
	int code;

	snprintf(key, sizeof(key), "coll.id.%u", atomic_fetch_add(&calls, 1));
	if (launch->store->connect())
		return launch_no_store(launch);
	code = launch->rank == 0
		       ? launch_store_id(launch->store, key, interface_name, id, timeout_ms)
		       : launch_fetch_id(launch->store, key, id, timeout_ms);
	if (!code)
		code = bootstrap_open_stored_id(bootstrap, id, launch->key, launch->rank,
						launch->nranks, interface_name, timeout_ms);
	return code;
}
