/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * derive.c - communicators made from others: one split, from its begin to its end; the splits of a group; the public
 * functions for split, dup and shrink.
 *
 * Over a transport the votes are an operation of the parent.  For a request split_voted makes the new communicator when
 * the operation is complete: also after the program has freed the request, and before a function of the program hears of
 * it.  A call that waits makes the communicator itself: its thread may leave by a jump, and the place of the handle with
 * it.  A backend without a transport blocks: all of its split is in split_finish.
 */
#include "api/derive.h"
#include "api/group.h"
#include "api/request.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/handle.h"
#include "base/thread.h"
#include "comm/comm_wait.h"
#include "comm/lane.h"
#include "comm/queue.h"

#include <stdlib.h>

/* The arguments of a call; `function` is the public function. */
struct split_args {
	const char *function;
	int32_t color, key;
	coll_comm_t *newcomm;
	const coll_config_t *config;
	int waits; /* the call returns after the split, not with a request */
};

/*
 * Checks the configuration of a new communicator, which may set timeout_ms only: *timeout_us becomes that, or 0
 * if it is not set.  `given` may be NULL; `function` is the public function.
 */
static int derive_config(const char *function, const coll_config_t *given, int64_t *timeout_us)
{
	coll_config_t config;
	const char *field;
	int code = config_app(given, &config);

	*timeout_us = 0;
	if (code)
		return code;
	field = config.backend                 ? "backend"
		: config.plugin_path           ? "plugin_path"
		: config.config_file           ? "config_file"
		: config.interface_name        ? "interface_name"
		: config.init_timeout_ms != -1 ? "init_timeout_ms"
		: config.device != -1          ? "device"
		: config.options               ? "options"
					       : NULL;
	if (field)
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"%s: config->%s is set, but the new communicator takes it from its "
			"parent: only timeout_ms may be set",
			function, field);
	if (config.timeout_ms == -1)
		return COLL_SUCCESS;
	code = config_check_timeout(function, "config->timeout_ms", config.timeout_ms);
	if (!code)
		*timeout_us = config.timeout_ms * 1000;
	return code;
}

/* ---------------------------------------------------------------- one split -- */

/* Notes the result, of which the caller's last error has the text.  The parent is entered, or destroyed. */
static void split_end(struct split *split, int code)
{
	if (split->task.done)
		return;
	if (code)
		task_set_text(&split->task, "%s", error_text());
	task_end(&split->task, code);
}

/* The votes are here, or the parent has failed.  The parent's lock is held. */
static void split_voted(struct task *task, int result)
{
	struct split *split = (struct split *)task;
	struct lane *lane = task->lane;
	int code;

	if (split->waits)
		return;
	code = result ? error_set(result, "%s", comm_failure(lane)) : COLL_SUCCESS;
	split_end(split, split->derive->make(lane, split, code));
}

static const struct task_kind split_kind = {.reached = split_voted};

/*
 * May the split block in the backend, as far as this rank knows?  One split at a time may on a context: the backend's split runs
 * with the context's lock, and of two threads that split two communicators each could come first on another rank.
 */
static int split_may_block(const struct lane *lane, const struct split *split)
{
	return split->waits && !group_current() && !lane->context->split_may_block &&
	       split->derive->may_block && split->derive->may_block(lane);
}

/* Checks the arguments and makes the split, with one reference; the parent is entered.  On an error *out is NULL. */
static int split_new(struct lane *lane, const struct split_args *args, struct split **out)
{
	struct split *split;
	int64_t timeout_us;
	int code = derive_config(args->function, args->config, &timeout_us);

	*out = NULL;
	if (!code && (!args->newcomm || (args->color < 0 && args->color != COLL_SPLIT_NOCOLOR)))
		code = error_set(COLL_ERR_INVALID_ARGUMENT, "%s: %s", args->function,
				 !args->newcomm ? "newcomm is NULL"
						: "color must be 0 or more, or COLL_SPLIT_NOCOLOR");
	if (!code)
		code = comm_error(lane);
	if (code)
		return code;
	*out = split = calloc(1, sizeof(*split) + (size_t)lane->comm->nranks * sizeof(split->own));
	if (!split)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", lane->comm->nranks);
	task_init(&split->task, &split_kind, lane);
	split->derive = derive_of(lane);
	split->out = args->newcomm;
	split->waits = args->waits;
	split->timeout_us = timeout_us;
	split->own = (struct split_vote){.color = args->color, .key = args->key};
	split->may_block = split_may_block(lane, split);
	lane->context->split_may_block |= split->may_block;
	split->own.native = split->may_block ? SPLIT_MAY_BLOCK : SPLIT_COMPOSED;
	return COLL_SUCCESS;
}

/* Issues the exchange of the votes.  The communicator keeps the split until the votes cannot be written any more. */
static int split_begin(struct split *split)
{
	struct lane *lane = split->task.lane;
	int code;

	if (split->derive->blocks)
		return COLL_SUCCESS;
	code = split_vote(lane, split);
	if (code)
		return code;
	task_await(&split->task);
	task_check(lane); /* the vote may have failed the communicator */
	if (!group_current())
		queue_issued(lane);
	return COLL_SUCCESS;
}

/* The lanes have no transport: for the waits of the exchange, answers the other ranks, and sees to a failure. */
static int split_check(void *user)
{
	struct lane *lane = user;

	lane_check(lane);
	return comm_error(lane);
}

/*
 * The vote of a split that blocks: over the host lane, whose operations it is one of, or else over the bootstrap.  Meanwhile
 * a parent with a host lane is not entered.
 */
static int split_vote_now(struct lane *lane, struct split *split)
{
	struct bootstrap *bootstrap = lane->context->bootstrap;
	struct lane *host = lane_host(lane);
	int code = lane_wait(lane, lane->issued,
			     0); /* a split is in the issue order of the operations */

	if (code)
		return code;
	if (host) {
		(void)lane_go_host(lane);
		code = split_vote(host, split);
		if (!code)
			code = lane_wait(host, split->task.number, 0);
		(void)lane_go_native(host);
		return code;
	}
	bootstrap_guard(bootstrap, split_check, lane);
	code = bootstrap_exchange(bootstrap, &split->own, split->all, sizeof(split->own),
				  lane->context->host.timeout_ms);
	bootstrap_guard(bootstrap, NULL, NULL);
	return code;
}

/* Waits for the vote that split_begin has issued. */
static int split_wait_vote(struct lane *lane, const struct split *split)
{
	const uint64_t number = split->task.number;
	const int code = lane_wait(lane, number, 0);

	task_check(lane);
	/* The parent may have failed since, in a later call. */
	return lane->finished >= number ? COLL_SUCCESS : code;
}

/* Waits for the votes and makes the communicator. */
static void split_wait(struct split *split)
{
	struct lane *lane = split->task.lane;
	const int blocks = split->derive->blocks;
	const int code = blocks ? split_vote_now(lane, split) : split_wait_vote(lane, split);

	split_end(split, split->derive->make(lane, split, code));
	if (split->task.code && !blocks)
		lane_flush(lane);
}

/* Waits until the split is done, or does all of a split that blocks; the parent is entered. */
static int split_finish(struct split *split)
{
	split_wait(split);
	split->task.lane->steps++; /* a thread that waits for the request looks again */
	return task_result(&split->task);
}

/* ------------------------------------------------------ the splits of a group -- */

/* The splits of one parent, in the order of the calls.  Splits that block have a thread for each parent. */
struct split_parent {
	struct split *list, **last; /* the list is not empty */
	pthread_t thread;
	int started;
	struct error_first error;
};

/* The same for a split whose parent is not entered. */
static int split_enter_and_finish(struct split *split)
{
	struct lane *lane = comm_enter(split->task.handle, "coll_comm_split");
	int code;

	if (!lane) {
		code = error_code();
		split_end(split, code);
		return code;
	}
	code = split_finish(split);
	comm_leave(lane);
	return code;
}

/* After a split that blocks has failed, the later splits of its parent cannot meet the splits of other ranks. */
static void *split_run(void *arg)
{
	struct split_parent *p = arg;

	for (struct split *s = p->list; s; s = s->next)
		if (!s->derive->blocks || !p->error.code)
			error_note(&p->error, split_enter_and_finish(s));
	return NULL;
}

static void split_start(struct split_parent *p)
{
	if (!p->list->derive->blocks)
		return;
	p->started = !thread_start(&p->thread, split_run, p);
	if (!p->started)
		error_note(&p->error,
			   error_set(COLL_ERR_SYSTEM, "coll_comm_split: cannot start a thread"));
}

/* From now on the calling thread drives the contexts of the communicator. */
static void split_adopt(coll_comm_t handle)
{
	struct lane *lane = handle ? comm_enter(handle, "coll_comm_split") : NULL;

	if (lane)
		comm_leave(lane_switch(lane));
}

static void split_join(struct split_parent *p)
{
	if (!p->list->derive->blocks)
		return;
	if (p->started)
		pthread_join(p->thread, NULL);
	split_adopt(p->list->task.handle);
	for (struct split *s = p->list; s; s = s->next)
		split_adopt(*s->out);
}

/*
 * The splits that nobody has finished end for the same reason: an earlier split of their parent has failed, or there
 * was no memory or no thread.
 */
static void split_free_all(struct split *list, const struct error_first *why)
{
	for (struct split *s = list, *next; s; s = next) {
		const int done = s->task.done;
		struct lane *lane = done ? NULL : comm_enter(s->task.handle, "coll_comm_split");

		next = s->next;
		if (!done)
			split_end(s, error_raise(why));
		if (lane)
			comm_leave(lane);
		task_unref(&s->task);
	}
}

/* Distributes the list to the parents, in the order of their first splits: their number. */
static int split_sort(struct split *list, struct split_parent *parents)
{
	int n = 0, i;

	for (struct split *s = list, *next; s; s = next) {
		for (i = 0; i < n && parents[i].list->task.handle != s->task.handle; i++)
			;
		if (i == n)
			parents[n++].last = &parents[i].list;
		next = s->next;
		s->next = NULL;
		*parents[i].last = s;
		parents[i].last = &s->next;
	}
	return n;
}

/* Finishes and frees the splits of a group: COLL_SUCCESS or the first error. */
static int split_end_all(struct split *list)
{
	CANCEL_OFF;
	struct error_first first = {0};
	struct split_parent *parents;
	int n = 0;

	for (struct split *s = list; s; s = s->next)
		n++;
	parents = calloc((size_t)n, sizeof(*parents));
	if (!parents) {
		error_note(&first, error_set(COLL_ERR_NO_MEMORY, "no memory for %d splits", n));
		split_free_all(list, &first);
		return error_raise(&first);
	}
	n = split_sort(list, parents);
	for (int i = 0; i < n; i++)
		split_start(&parents[i]);
	/* Other ranks may need the splits that this thread moves before theirs that block can end. */
	for (int i = 0; i < n; i++)
		if (!parents[i].list->derive->blocks)
			split_run(&parents[i]);
	for (int i = 0; i < n; i++) {
		split_join(&parents[i]);
		error_note(&first, error_raise(&parents[i].error));
		split_free_all(parents[i].list, &parents[i].error);
	}
	free(parents);
	return error_raise(&first);
}

/* Does the rest of a split that the call waits for or that blocks: now, or, in an open group, when the group ends. */
static int split_complete(struct split *split)
{
	if (!group_current())
		return split_finish(split);
	split->task.deferred = 1;
	atomic_fetch_add(&split->task.refs, 1);
	group_add_split(split, split_end_all);
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------------ split and dup -- */

/*
 * With a request, whose handle has the reference to the split: the program cannot free it, since the call has not returned.
 * Without one the call waits for the split.
 */
static int split_call(coll_comm_t handle, const struct split_args *args, coll_request_t *request)
{
	CANCEL_OFF;
	struct lane *lane = comm_enter(handle, args->function);
	struct split *split = NULL;
	int code;

	if (args->newcomm)
		*args->newcomm = NULL;
	if (request)
		*request = NULL;
	if (!lane)
		return error_code();
	code = args->waits || request ? split_new(lane, args, &split)
				      : error_set(COLL_ERR_INVALID_ARGUMENT, "%s: request is NULL",
						  args->function);
	if (!code && request)
		code = request_new(request, &split->task);
	if (!code)
		code = split_begin(split);
	if (!code && (args->waits || split->derive->blocks))
		code = split_complete(split);
	if (split && split->may_block)
		lane->context->split_may_block = 0;
	comm_leave(lane);
	if (!request || !*request)
		task_unref(split ? &split->task : NULL);
	else if (code)
		request_drop(request);
	return code;
}

coll_result_t coll_comm_split(coll_comm_t comm, int32_t color, int32_t key, coll_comm_t *newcomm,
			      const coll_config_t *config)
{
	const struct split_args args = {"coll_comm_split", color, key, newcomm, config, 1};

	return split_call(comm, &args, NULL);
}

coll_result_t coll_comm_dup(coll_comm_t comm, coll_comm_t *newcomm)
{
	const struct split_args args = {"coll_comm_dup", 0, 0, newcomm, NULL, 1};

	return split_call(comm, &args, NULL);
}

coll_result_t coll_comm_isplit(coll_comm_t comm, int32_t color, int32_t key, coll_comm_t *newcomm,
			       const coll_config_t *config, coll_request_t *request)
{
	const struct split_args args = {"coll_comm_isplit", color, key, newcomm, config, 0};

	return split_call(comm, &args, request);
}

coll_result_t coll_comm_idup(coll_comm_t comm, coll_comm_t *newcomm, const coll_config_t *config,
			     coll_request_t *request)
{
	const struct split_args args = {"coll_comm_idup", 0, 0, newcomm, config, 0};

	return split_call(comm, &args, request);
}

/* ------------------------------------------------------------- the survivors of a failure -- */

static int shrink_check(const int32_t *exclude, int32_t n, const coll_comm_t *newcomm,
			int32_t flags)
{
	const char *wrong = !newcomm                   ? "newcomm is NULL"
			    : flags                    ? "flags must be 0"
			    : n < 0 || (n && !exclude) ? "exclude is NULL or nexclude negative"
						       : NULL;

	if (wrong)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_comm_shrink: %s", wrong);
	if (group_current())
		return error_set(COLL_ERR_INVALID_USAGE,
				 "coll_comm_shrink waits, so it cannot be called in a group");
	return COLL_SUCCESS;
}

/* Marks the excluded ranks.  Only survivors call shrink, so the list must not contain this rank. */
static int shrink_exclude(const struct lane *lane, const int32_t *exclude, int32_t n,
			  uint8_t *excluded)
{
	struct rank_name name;

	for (int i = 0; i < n; i++) {
		if (exclude[i] < 0 || exclude[i] >= lane->comm->nranks)
			return error_set(COLL_ERR_INVALID_ARGUMENT,
					 "coll_comm_shrink: exclude[%d] is %d, but ranks go from 0 "
					 "to %d",
					 i, exclude[i], lane->comm->nranks - 1);
		excluded[exclude[i]] = 1;
	}
	if (excluded[lane->comm->rank])
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"coll_comm_shrink: %s excludes itself; only those that stay call it",
			comm_own_name(lane, &name));
	return COLL_SUCCESS;
}

coll_result_t coll_comm_shrink(coll_comm_t handle, const int32_t *exclude, int32_t nexclude,
			       coll_comm_t *newcomm, const coll_config_t *config, int32_t flags)
{
	CANCEL_OFF;
	struct lane *lane = comm_enter(handle, "coll_comm_shrink");
	uint8_t *excluded;
	int64_t timeout_us = 0;
	int code;

	if (newcomm)
		*newcomm = NULL;
	if (!lane)
		return error_code();
	code = shrink_check(exclude, nexclude, newcomm, flags);
	if (!code)
		code = derive_config("coll_comm_shrink", config, &timeout_us);
	excluded = calloc((size_t)lane->comm->nranks, 1);
	if (!code && !excluded)
		code = error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", lane->comm->nranks);
	if (!code)
		code = shrink_exclude(lane, exclude, nexclude, excluded);
	if (!code)
		code = derive_of(lane)->shrink(lane, excluded, timeout_us, newcomm);
	comm_leave(lane);
	free(excluded);
	return code;
}
