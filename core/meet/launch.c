/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch.c - which rank this process is, and where the ranks meet, as its launcher says in the environment.
 *
 * launchers.c has a row for each launcher.  COLL_ROOT and COLL_KEY always win, but the ranks of
 * a launcher below `coll run` ignore the COLL_ROOT and COLL_KEY that `coll run` has set.
 */
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bootstrap/bootstrap_kind.h"
#include "meet/launch.h"

static int launch_number(const char *name, int64_t min, int64_t max, int *out)
{
	const char *text = launch_get(name);
	char *end, shown[64];
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno != 0 || end == text || end != text + launch_length(text) || value < min ||
	    value > max)
		return error_set(COLL_ERR_CONFIG,
				 "environment variable %s is '%.40s', but must be a number from "
				 "%lld to %lld",
				 name, launch_text(name, shown, sizeof(shown)), (long long)min,
				 (long long)max);
	*out = (int)value;
	return 0;
}

/* ------------------------------------------------------- which launcher counts -- */

static int launch_applies(const struct launcher *l)
{
	if (l->only_if != NULL && !launch_get(l->only_if) && !launch_get(l->only_if_too))
		return 0;
	if (l->passed_over != NULL && l->passed_over())
		return 0;
	return launch_get(l->rank) || launch_get(l->size);
}

/* Has this launcher started the process below `coll run`? */
static int launch_is_below(const struct launcher *l)
{
	return launch_is_newer(l->rank) || launch_is_newer(l->size) ||
	       launch_is_newer(l->size_too) || launch_is_newer(l->local_rank) ||
	       launch_is_newer(l->local_size) || launch_is_newer(l->only_if) ||
	       launch_is_newer(l->only_if_too) || launch_is_newer(l->job);
}

/* Returns COLL_ROOT or COLL_KEY.  A launcher that `coll run` has started does not take the value that `coll run` left. */
static const char *launch_get_for(const struct launcher *l, const char *name)
{
	return l != launchers && launch_is_left(name) ? NULL : launch_get(name);
}

/* Reads, or asks for, the number of ranks; *size becomes its name for messages. */
static int launch_read_size(const struct launcher *l, struct launch *launch, const char **size)
{
	*size = launch_get(l->size) || l->size_too == NULL ? l->size : l->size_too;
	if (l->ask != NULL) {
		*size = "the number of ranks";
		return l->ask(launch);
	}
	if (!launch_get(l->rank) || !launch_get(*size))
		return error_set(COLL_ERR_CONFIG,
				 "environment variable %s is set, but %s is not: set both, or "
				 "neither (%s sets both)",
				 launch_get(*size) ? *size : l->rank,
				 launch_get(*size) ? l->rank : *size, l->who);
	return launch_number(*size, 1, INT32_MAX, &launch->nranks);
}

static int launch_read_ranks(const struct launcher *l, struct launch *launch)
{
	const char *size;
	int code = launch_read_size(l, launch, &size);

	if (code == 0)
		code = launch_number(l->rank, 0, INT32_MAX, &launch->rank);
	if (code == 0 && launch->rank >= launch->nranks)
		code = error_set(COLL_ERR_CONFIG,
				 "environment variable %s is %d, but must be less than %s, which "
				 "is %d",
				 l->rank, launch->rank, size, launch->nranks);
	if (code == 0 && launch_get(l->local_rank))
		code = launch_number(l->local_rank, 0, launch->nranks - 1, &launch->local_rank);
	if (code == 0 && launch_get(l->local_size))
		code = launch_number(l->local_size, 1, launch->nranks, &launch->local_nranks);
	if (code == 0 && l->count_local != NULL)
		launch->local_nranks = l->count_local(launch);
	return code;
}

static int launch_find_root(const struct launcher *l, struct launch *launch)
{
	const char *root = launch_get_for(l, "COLL_ROOT"), *key = launch_get_for(l, "COLL_KEY");
	int code = 0;

	if (root != NULL && launch_length(root) >= sizeof(launch->root))
		return error_set(COLL_ERR_CONFIG, "COLL_ROOT is longer than %zu characters",
				 sizeof(launch->root) - 1);
	if (key != NULL && launch_length(key) >= sizeof(launch->key))
		return error_set(COLL_ERR_CONFIG, "COLL_KEY is longer than %zu characters",
				 sizeof(launch->key) - 1);
	if (launch->nranks == 1)
		return 0;
	launch->root_origin = "COLL_ROOT";
	if (root != NULL)
		launch_text("COLL_ROOT", launch->root, sizeof(launch->root));
	else
		code = launcher_meet(l, launch);
	if (key != NULL)
		launch_text("COLL_KEY", launch->key, sizeof(launch->key));
	launch->key_is_secret = key != NULL;
	return code;
}

/* No launcher that is understood has started this process. */
static int launch_alone(void)
{
	if (launch_get("COLL_ROOT"))
		return error_set(COLL_ERR_CONFIG,
				 "COLL_ROOT is set, but no launcher's variables are: set COLL_RANK "
				 "and COLL_WORLD_SIZE too");
	return 0;
}

/* Are the variables of this launcher for this process, and not for `coll run` above it? */
static int launch_counts(const struct launcher *l)
{
	return launch_applies(l) && (!launch_is_below_run() || launch_is_below(l));
}

/* Returns the launcher that has started this process, or NULL. */
static const struct launcher *launch_find(void)
{
	for (const struct launcher *l = launchers; l < launchers + launchers_count; l++)
		if (launch_counts(l))
			return l;
	/* No launcher below `coll run`.  The launchers above it do not count. */
	return launch_is_below_run() && launch_applies(launchers) ? launchers : NULL;
}

/* Reads the numbers that a launcher's variables have.  Returns 0 if they are no numbers, or there is no rank. */
static int launch_numbers(const struct launcher *l, const char *size, struct launch *found)
{
	return launch_get(l->rank) && launch_number(l->rank, 0, INT32_MAX, &found->rank) == 0 &&
	       (size == NULL || launch_number(size, 1, INT32_MAX, &found->nranks) == 0);
}

/* "torchrun's RANK and WORLD_SIZE say rank 0 of 2"; *found: these numbers.  Returns 0 if they are no numbers. */
static int launch_describe(const struct launcher *l, struct launch *found, char *text, size_t size)
{
	const char *of = launch_get(l->size)       ? l->size
			 : launch_get(l->size_too) ? l->size_too
						   : NULL;

	if (!launch_numbers(l, of, found))
		return 0;
	snprintf(text, size, "%s's %s%s%s say rank %d of %d", l->who, l->rank, of ? " and " : "",
		 of ? of : "", found->rank, found->nranks);
	return 1;
}

/* Do the variables of another launcher say another rank or number of ranks?  Then the text says so. */
static int launch_disagrees(const struct launch *launch, char *text, size_t size)
{
	const struct launcher *first = launch_find();
	struct launch one = *launch, other = *launch;
	char says[150], says_else[150];

	if (first == NULL || !launch_describe(first, &one, says, sizeof(says)))
		return 0;
	for (const struct launcher *l = first + 1; l < launchers + launchers_count; l++) {
		if (!launch_counts(l) ||
		    !launch_describe(l, &other, says_else, sizeof(says_else)) ||
		    (other.rank == one.rank && other.nranks == one.nranks))
			continue;
		snprintf(text, size, "; two launchers disagree: %s, which counts, but %s", says,
			 says_else);
		return 1;
	}
	return 0;
}

int launch_detect_ranks(struct launch *launch)
{
	const struct launcher *l = launch_find();

	memset(launch, 0, sizeof(*launch));
	launch->nranks = 1;
	launch->root_origin = "";
	launch->local_rank = launch->local_nranks = -1;
	launch->who = l != NULL ? l->who : "none";
	return l != NULL ? launch_read_ranks(l, launch) : launch_alone();
}

int launch_detect(struct launch *launch)
{
	const struct launcher *l = launch_find();
	int code = launch_detect_ranks(launch);

	return code || l == NULL ? code : launch_find_root(l, launch);
}

/* -------------------------------------------------------- through a launcher's store -- */

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

static int launch_store_open(struct bootstrap **bootstrap, const struct launch *launch,
			     const char *interface_name, int64_t timeout_ms)
{
	static _Atomic unsigned calls; /* equal on all ranks: each call has a key of its own */
	char key[32], id[COLL_UNIQUE_ID_SIZE];
	int code;

	snprintf(key, sizeof(key), "coll.id.%u", atomic_fetch_add(&calls, 1));
	if (launch->store->connect())
		return launch_no_store(launch);
	code = launch->rank == 0
		       ? launch_store_id(launch->store, key, interface_name, id, timeout_ms)
		       : launch_fetch_id(launch->store, key, id, timeout_ms);
	if (!code)
		code = bootstrap_open_id(bootstrap,
					 &(struct bootstrap_id){.text = id, .stored = launch->key},
					 launch->rank, launch->nranks, interface_name, timeout_ms);
	return code;
}

/* ------------------------------------------------------------------------- opening -- */

/* Adds to the error where the address comes from, and whether two launchers give this process different ranks. */
static int launch_explain(const struct launch *launch, int code)
{
	char text[ERROR_TEXT_SIZE], where[500] = "", other[400] = "";

	snprintf(text, sizeof(text), "%s", error_text());
	launch_disagrees(launch, other, sizeof(other));
	/* The user need not know the address that follows from other variables than COLL_ROOT. */
	if (code == COLL_ERR_TIMEOUT && launch->root[0] &&
	    strcmp(launch->root_origin, "COLL_ROOT") != 0)
		snprintf(where, sizeof(where), "; the ranks meet at %s (%s)", launch->root,
			 launch->root_origin);
	return error_set(code, "%.*s%s%s", (int)(sizeof(text) - 1 - strlen(where) - strlen(other)),
			 text, where, other);
}

int bootstrap_open_launch(struct bootstrap **bootstrap, const struct launch *launch,
			  const char *interface_name, int64_t timeout_ms)
{
	int code;

	*bootstrap = NULL;
	if (launch->store)
		code = launch_store_open(bootstrap, launch, interface_name, timeout_ms);
	else
		code = bootstrap_open_root(bootstrap, launch->root, launch->root_origin,
					   launch->key[0] ? launch->key : NULL,
					   launch->key_is_secret, launch->rank, launch->nranks,
					   interface_name, timeout_ms);
	return code ? launch_explain(launch, code) : code;
}
