/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * derive_native.c - communicators made from others where there is no transport: each has an endpoint and a
 * rendezvous of its own.  After the vote (api/derive.c) the ranks agree over the parent's rendezvous where they meet.
 */
#include "base/error.h"
#include "plugin/select.h"
#include "api/comm_make.h"
#include "api/derive.h"
#include "meet/meet.h"
#include "base/clock.h"
#include "comm/lane.h"
#include "watch/stall.h"
#include "comm/comm_wait.h"
#include "comm/life.h"
#include "native/native.h"
#include "native/survivors.h"
#include "transport/channel.h"

#include <stdio.h>
#include <stdlib.h>

enum {
	DERIVE_AWAIT_MS = 200, /* wait for the control channel to name the cause of a failure */
	/* All ranks have opened the new communicator: a failure of the parent leaves so long for the last answer. */
	DERIVE_GRACE_US = 1000000
};

struct derive_meeting {
	struct lane *lane;
	struct split *split; /* NULL for a shrink */
	int opened;          /* the new communicator is open on this rank */
	int64_t failed_us; /* when the parent was found to have failed after that; 0: it has not */
	struct bootstrap *bootstrap; /* the parent's bootstrap */
	int64_t timeout_ms;          /* timeout of each step */
	int64_t timeout_us;          /* of the new communicator; 0: its parent's */
	struct members m;            /* of the new communicator */
	struct context *context;
	struct lane *host; /* of the new communicator, until that owns it (comm/lane.h); or NULL */
	int aborted;       /* of a shrink: the parent's aborts before it */
};

/* -------------------------------------------------------------- the rendezvous -- */

/* Makes the context of the new communicator, which takes over the bootstrap, with its ranks. */
static int derive_native_context(struct derive_meeting *s, struct bootstrap *bootstrap)
{
	struct context *parent = s->lane->context;
	int code = context_derive(&s->context, parent, bootstrap), *origin;

	if (code)
		return code;
	origin = calloc((size_t)s->m.n, sizeof(*origin));
	if (!origin) /* the caller releases the context */
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", s->m.n);
	for (int r = 0; r < s->m.n; r++)
		origin[r] = parent->origin ? parent->origin[s->m.rank[r]] : s->m.rank[r];
	s->context->origin = origin;
	return COLL_SUCCESS;
}

/*
 * For the waits of a split in a bootstrap: answers the questions of other ranks, and ends the wait if the parent has
 * failed.
 */
static int derive_native_check(void *user)
{
	struct derive_meeting *s = user;
	const int64_t now = clock_now_us();

	lane_check(s->lane);
	if (!s->lane->error)
		return COLL_SUCCESS;
	if (!s->failed_us)
		s->failed_us = now;
	if (s->opened && now - s->failed_us < DERIVE_GRACE_US)
		return COLL_SUCCESS;
	return comm_error(s->lane);
}

/* The backend connects the ranks: has another rank failed meanwhile, and so come to the next exchange? */
static int derive_native_split_failed(void *user)
{
	struct derive_meeting *s = user;

	return derive_native_check(s) || bootstrap_failure_waits(s->bootstrap);
}

/* Closes the listening socket of an id that this rank made, if the ranks will not meet there. */
static void derive_native_drop_id(const char *id, const char *interface_name)
{
	struct bootstrap *bootstrap;

	if (id[0] && !bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = id}, 0, 1,
					interface_name, 0))
		bootstrap_close(bootstrap);
}

/* id: made by the first rank of the colour. */
static int derive_native_meet(struct derive_meeting *s, const char *id, const char *interface_name)
{
	struct bootstrap *bootstrap;
	struct rank_name name;
	int code;

	if (!id[0])
		return error_set(COLL_ERR_REMOTE,
				 "%s could not make an id for the new communicator",
				 comm_rank_name(s->lane, s->m.rank[0], &name));
	code = bootstrap_open_id(&bootstrap,
				 &(struct bootstrap_id){.text = id, .parent = s->bootstrap},
				 s->m.place, s->m.n, interface_name, s->timeout_ms);
	return code ? code : derive_native_context(s, bootstrap);
}

/*
 * The ranks of a colour meet.  A rank that fails takes part until all ranks know: no rank may wait inside
 * the backend for a rank that will not come.
 */
static int derive_native_meet_all(struct derive_meeting *s)
{
	const char *interface_name = config_string(s->lane->context->config, "interface");
	const int takes_part = s->split->own.color >= 0, nranks = s->lane->comm->nranks;
	char(*ids)[COLL_UNIQUE_ID_SIZE] = malloc((size_t)nranks * sizeof(*ids));
	char id[COLL_UNIQUE_ID_SIZE] = "";
	int code = COLL_SUCCESS;

	if (!ids || !s->m.rank)
		code = error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	else if (takes_part && s->m.place == 0)
		code = bootstrap_make_id(id, sizeof(id), interface_name);
	if (code) {
		free(ids);
		return bootstrap_all_ok(s->bootstrap, code, s->timeout_ms);
	}
	code = bootstrap_exchange(s->bootstrap, id, ids, sizeof(id), s->timeout_ms);
	if (code) {
		free(ids);
		derive_native_drop_id(id, interface_name);
		return code;
	}
	if (takes_part) {
		ids[s->m.rank[0]][COLL_UNIQUE_ID_SIZE - 1] = '\0';
		code = derive_native_meet(s, ids[s->m.rank[0]], interface_name);
	}
	free(ids);
	return bootstrap_all_ok(s->bootstrap, code, s->timeout_ms);
}

/* ------------------------------------------------------------------ the endpoints -- */

/* Makes the communicator of the new context, and takes over both. */
static int derive_native_comm(struct derive_meeting *s, coll_comm_t *out)
{
	struct context *context = s->context;
	struct lane *host = s->host;
	int code;

	bootstrap_guard(context->bootstrap, NULL, NULL);
	context->timeout_us = s->timeout_us ? s->timeout_us : s->lane->comm->timeout_us;
	s->context = NULL;
	s->host = NULL;
	code = init_comm(out, context, host);
	if (!code)
		channel_watch(context, tag_control(host ? host->context_id : 0));
	return code;
}

/* The votes have told its context id, so the ranks need no further message to make the host lane of the new communicator. */
static int derive_native_host_lane(struct derive_meeting *s)
{
	const struct derived derived = {.members = &s->m,
					.context_id = s->split->all[0].context_id,
					.timeout_us = s->timeout_us};
	struct lane *parent = lane_host(s->lane);
	int code;

	if (!parent)
		return COLL_SUCCESS;
	context_lock(parent->context);
	code = derive_transport_new(parent, &derived, &s->host);
	context_leave(parent->context);
	return code;
}

static int derive_native_open(struct derive_meeting *s, coll_comm_t *out)
{
	const struct context_making making = {.color = s->split->own.color,
					      .key = s->split->own.key,
					      .failed = derive_native_split_failed,
					      .user = s};
	int code;

	/* A rank without a colour takes part in the backend's split too. */
	if (!s->context)
		return host_told_code(s->lane->context,
				      context_split_nothing(s->lane->context, &making));
	code = host_told_code(s->context, channel_derive_open(s->context, &making));
	/* Only the rank that failed passes its failure on. */
	if (code && s->context->remote.code && !s->context->told_failure)
		code = COLL_ERR_REMOTE;
	if (!code)
		code = derive_native_host_lane(s);
	if (!code)
		code = derive_native_comm(s, out);
	s->opened = !code;
	return code;
}

/* The reason why the parent has failed during a split.  The bootstrap may see the end of a rank before the control channel. */
static int derive_native_cause(struct lane *lane, int code)
{
	if (code == COLL_ERR_PEER_LOST || code == COLL_ERR_REMOTE)
		channel_await(lane->context, DERIVE_AWAIT_MS);
	lane_check_aborted(lane, UINT64_MAX);
	lane_check(lane);
	return lane->error ? comm_error(lane) : code;
}

static int derive_native_split(struct derive_meeting *s, coll_comm_t *out)
{
	int code;

	(void)members_of_color(&s->m, s->lane,
			       s->split->all); /* derive_native_meet_all tells all ranks */
	bootstrap_guard(s->bootstrap, derive_native_check, s);
	code = derive_native_meet_all(s);
	if (!code)
		code = bootstrap_all_ok(s->bootstrap, derive_native_open(s, out), s->timeout_ms);
	bootstrap_guard(s->bootstrap, NULL, NULL);
	if (code)
		code = derive_native_cause(s->lane, code);
	if (code && *out) {
		coll_comm_destroy(*out);
		*out = NULL;
	}
	if (code)
		native_drop_id(s->lane->context, s->split->all[0].context_id);
	if (s->context) {
		bootstrap_guard(s->context->bootstrap, NULL, NULL);
		context_unref(s->context, 0);
	}
	free(s->m.rank);
	return code;
}

static int derive_native_make(struct lane *lane, struct split *split, int code)
{
	struct derive_meeting s = {.lane = lane,
				   .split = split,
				   .bootstrap = lane->context->bootstrap,
				   .timeout_ms = lane->context->host.timeout_ms,
				   .timeout_us = split->timeout_us};

	return code ? derive_native_cause(lane, code) : derive_native_split(&s, split->out);
}

/* ---------------------------------------------------------------------- survivors -- */

/* Another survivor that fails fails its host lane, which is made before. */
static int derive_native_shrink_failed(void *user)
{
	const struct derive_meeting *s = user;
	struct lane *host = s->host;
	int failed;

	if (!host || !lock_try(&host->context->lock))
		return 0;
	context_progress(host->context);
	failed = host->error != 0;
	lock_release(&host->context->lock);
	return failed;
}

/* The reason why the backend's shrink has failed: the reason of another survivor, or the survivors that are silent. */
static int derive_native_shrink_cause(struct lane *host, int code)
{
	char own[ERROR_TEXT_SIZE], silent[320] = "";

	snprintf(own, sizeof(own), "%s", error_text());
	context_enter(host->context);
	if (code == COLL_ERR_TIMEOUT)
		stall_name_silent(host, silent, sizeof(silent));
	if (code == COLL_ERR_TIMEOUT || code == COLL_ERR_REMOTE)
		lane_check(host);
	if (host->error && (code == COLL_ERR_TIMEOUT || code == COLL_ERR_REMOTE))
		code = comm_error(host);
	else
		error_set(code, "%s%s", own, silent);
	context_leave(host->context);
	return code;
}

static int derive_native_survivors(struct derive_meeting *s, const uint8_t *excluded,
				   coll_comm_t *out)
{
	struct context *context = s->lane->context;
	struct context_making making = {.failed = derive_native_shrink_failed,
					.user = s,
					.over = context->plugin->backend.native->shrink ? NULL
											: s->host,
					.aborted = s->aborted};
	int32_t *exclude = calloc((size_t)s->lane->comm->nranks, sizeof(*exclude));
	struct bootstrap *bootstrap;
	int code;

	if (!exclude)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks",
				 s->lane->comm->nranks);
	making.exclude = exclude;
	for (int r = 0; r < s->lane->comm->nranks; r++)
		if (excluded[r])
			exclude[making.n++] = r;
	code = members_but(&s->m, s->lane, excluded);
	if (!code)
		code = bootstrap_open_shrunk(&bootstrap, context->bootstrap, s->m.rank, s->m.place,
					     s->m.n, context->next_context_id++);
	if (!code)
		code = derive_native_context(s, bootstrap);
	if (!code && s->host)
		bootstrap_exchange_by(bootstrap, survivors_exchange, s->context);
	if (!code)
		code = channel_derive_open(s->context, &making);
	free(exclude);
	return code ? code : derive_native_comm(s, out);
}

/*
 * First, since it finds the ranks that do not come, or that exclude others.  Meanwhile the parent is not entered, so that an
 * abort or a destroy ends the wait.
 */
static int derive_native_shrink_host_lane(struct derive_meeting *s, const uint8_t *excluded)
{
	struct lane *lane = s->lane, *host;
	struct rank_name name;
	int code;

	if (!lane_host(lane))
		return COLL_SUCCESS;
	host = lane_go_host(lane);
	code = derive_transport_shrunk(host, excluded, s->timeout_us, &s->host);
	(void)lane_go_native(host);
	if (code || atomic_load(&lane->comm->aborted) == s->aborted)
		return code;
	return error_set(COLL_ERR_ABORTED, "coll_comm_shrink: %s aborted the communicator",
			 comm_own_name(lane, &name));
}

/* The other survivors may have both: theirs fail. */
static void derive_native_drop_host_lane(struct lane *host, int code)
{
	struct rank_name name;

	context_enter(host->context);
	comm_fail(host, 0, code, "%s: %s", comm_own_name(host, &name), error_text());
	lane_flush(host);
	context_leave(host->context);
	lane_free_host(host); /* no other thread knows it */
}

static int derive_native_shrink(struct lane *lane, const uint8_t *excluded, int64_t timeout_us,
				coll_comm_t *out)
{
	struct derive_meeting s = {.lane = lane,
				   .timeout_us = timeout_us,
				   .aborted = atomic_load(&lane->comm->aborted)};
	int code;

	if (!lane->context->plugin->backend.native->shrink && !lane_host(lane))
		return error_set(COLL_ERR_UNSUPPORTED,
				 "coll_comm_shrink: backend '%s' has neither a transport nor a "
				 "shrink of its own, and the ranks have no companion over which "
				 "they could meet: make a new communicator with a new id",
				 lane->context->plugin->backend.name);
	code = derive_native_shrink_host_lane(&s, excluded);
	if (!code)
		code = derive_native_survivors(&s, excluded, out);
	if (s.host && code)
		code = derive_native_shrink_cause(s.host, code);
	if (s.host) {
		native_drop_id(lane->context, s.host->context_id);
		derive_native_drop_host_lane(s.host, code);
	}
	if (s.context)
		context_unref(s.context, 0);
	free(s.m.rank);
	return code;
}

const struct derive derive_native = {
	.blocks = 1,
	.make = derive_native_make,
	.shrink = derive_native_shrink,
};
