/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split.c - one split: its begin, its end, and who hears of it; and the splits of a group.
 *
 * Over a transport the votes are an operation of the parent.  For a request a callback makes the new communicator when
 * the operation is complete: also after the request was freed, and before a function of the program hears of it.  A call
 * that waits makes it itself: its thread may leave by a jump, and the place of the handle with it.  A backend without a
 * transport blocks: all of its split is in split_finish.
 */
#include "api/derive.h"
#include "api/group.h"
#include "api/host_memory.h"
#include "base/cancel.h"
#include "base/error.h"
#include "base/thread.h"
#include "comm/callback.h"
#include "comm/comm_wait.h"
#include "comm/queue.h"

#include <stdlib.h>
#include <string.h>

int derive_config(const char *function, const coll_config_t *given, int64_t *timeout_us)
{
	const int64_t longest_ms = INT64_C(1000) * CONFIG_LONGEST_SECONDS;
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
	if (config.timeout_ms != -1 && (config.timeout_ms < 1 || config.timeout_ms > longest_ms))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "%s: config->timeout_ms is %lld, but must be from 1 to %lld",
				 function, (long long)config.timeout_ms, (long long)longest_ms);
	*timeout_us = config.timeout_ms == -1 ? 0 : config.timeout_ms * 1000;
	return COLL_SUCCESS;
}

/* ---------------------------------------------------------------- one split -- */

/* Notes the result, of which the caller's last error has the text.  The parent is entered. */
static void split_end(struct split *split, int code)
{
	if (split->done)
		return;
	split->done = 1;
	split->code = code;
	if (code)
		split->text = strdup(error_text());
	callback_end(&split->callbacks, code);
}

/* The votes are here, or the parent has failed.  The parent's lock is held. */
static void split_voted(void *user, coll_result_t result)
{
	struct split *split = user;
	struct comm *comm = split->comm;
	int code;

	if (!split->waits) {
		code = result ? error_set(result, "%s", comm_failure(comm)) : COLL_SUCCESS;
		split_end(split, split->derive->make(comm, split, code));
	}
	split_unref(split);
}

/* Checks the arguments, and makes the split with its callback; *callback stays NULL for a split that blocks. */
static int split_prepare(struct comm *comm, const struct split_args *args, struct split **out,
			 struct callback **callback)
{
	struct split *split;
	int64_t timeout_us;
	int code = derive_config(args->function, args->config, &timeout_us);

	if (code)
		return code;
	if (!args->newcomm || (args->color < 0 && args->color != COLL_SPLIT_NOCOLOR))
		return error_set(COLL_ERR_INVALID_ARGUMENT, "%s: %s", args->function,
				 !args->newcomm ? "newcomm is NULL"
						: "color must be 0 or more, or COLL_SPLIT_NOCOLOR");
	*out = split = calloc(1, sizeof(*split) + (size_t)comm->nranks * sizeof(split->own));
	if (!split)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", comm->nranks);
	atomic_init(&split->refs, 1);
	split->derive = derive_of(comm);
	split->comm = comm;
	split->parent = comm->handle;
	split->out = args->newcomm;
	split->waits = args->waits;
	split->timeout_us = timeout_us;
	split->own = (struct split_vote){.color = args->color, .key = args->key};
	if (split->derive->block)
		return comm_error(comm);
	*callback = callback_new(split_voted, NULL);
	return *callback ? comm_error(comm) : COLL_ERR_NO_MEMORY;
}

/* The callback makes the communicator, or only keeps the split as long as the votes may be written. */
static int split_vote(struct comm *comm, struct split *split, struct callback *callback)
{
	const int code = split->derive->vote(comm, split);

	if (code)
		return code;
	atomic_fetch_add(&split->refs, 1);
	callback_insert(comm, split->number, callback, split);
	if (!group_current())
		queue_issued(comm);
	return COLL_SUCCESS;
}

int split_new(struct comm *comm, const struct split_args *args, struct split **out)
{
	struct split *split = NULL;
	struct callback *callback = NULL;
	int code = split_prepare(comm, args, &split, &callback);

	if (!code && callback)
		code = split_vote(comm, split, callback);
	*out = code ? NULL : split;
	if (code) {
		free(callback);
		split_unref(split);
	}
	return code;
}

/* Waits for the votes and makes the communicator. */
static void split_wait(struct comm *comm, struct split *split)
{
	int code = comm_wait(comm, split->number);

	if (comm->finished >= split->number) /* the parent may have failed since, in a later call */
		code = COLL_SUCCESS;
	callback_check(comm);
	split_end(split, split->derive->make(comm, split, code));
	if (split->code)
		comm_flush(comm);
}

int split_finish(struct split *split)
{
	struct comm *comm = comm_enter(split->parent, "coll_comm_split");
	const int code = comm ? COLL_SUCCESS : error_code();

	if (!comm)
		split_end(split, code);
	else if (split->derive->block)
		split_end(split, split->derive->block(comm, split));
	else
		split_wait(comm, split);
	if (comm)
		comm_leave(comm);
	return split_result(split);
}

int split_result(const struct split *split)
{
	if (!split->code)
		return COLL_SUCCESS;
	return error_set(split->code, "%s",
			 split->text ? split->text : coll_error_string(split->code));
}

int split_call_back(struct split *split, coll_request_fn fn, void *user)
{
	const int code = callback_append(&split->callbacks, fn, user);

	if (!code && split->done)
		callback_end(&split->callbacks, split->code);
	return code;
}

void split_unref(struct split *split)
{
	if (!split || atomic_fetch_sub(&split->refs, 1) > 1)
		return;
	free(split->text);
	free(split);
}

/* ------------------------------------------------------ the splits of a group -- */

/* The splits of one parent that block: each such parent has a thread. */
struct split_thread {
	pthread_t thread;
	struct split *list, **last; /* the list is not empty */
	int started;
	struct error_first error;
};

static void *split_thread(void *arg)
{
	struct split_thread *t = arg;

	for (struct split *s = t->list; s && !t->error.code; s = s->next)
		error_note(&t->error, split_finish(s));
	return NULL;
}

/* The thread for the splits of `parent`: one of the n there are, or a new one. */
static struct split_thread *split_thread_of(struct split_thread *threads, int *n,
					    coll_comm_t parent)
{
	for (int i = 0; i < *n; i++)
		if (threads[i].list->parent == parent)
			return &threads[i];
	threads[*n].last = &threads[*n].list;
	return &threads[(*n)++];
}

/* From now on the calling thread drives the contexts of the communicator. */
static void split_adopt(coll_comm_t handle)
{
	struct comm *comm = handle ? comm_enter(handle, "coll_comm_split") : NULL;

	if (comm)
		comm_leave(lane_switch(comm));
}

/*
 * The splits that nobody has finished end for the same reason: an earlier one of their parent has failed, or there was
 * no memory or no thread.
 */
static void split_free_all(struct split *list, const struct error_first *why)
{
	for (struct split *s = list, *next; s; s = next) {
		struct comm *comm = s->done ? NULL : comm_enter(s->parent, "coll_comm_split");

		next = s->next;
		if (!s->done)
			split_end(s, error_raise(why));
		if (comm)
			comm_leave(comm);
		split_unref(s);
	}
}

static void split_start(struct split_thread *threads, int n)
{
	for (int i = 0; i < n; i++) {
		threads[i].started = !thread_start(&threads[i].thread, split_thread, &threads[i]);
		if (!threads[i].started)
			error_note(&threads[i].error,
				   error_set(COLL_ERR_SYSTEM,
					     "coll_comm_split: cannot start a thread"));
	}
}

static void split_join(struct split_thread *threads, int n, struct error_first *first)
{
	for (int i = 0; i < n; i++) {
		if (threads[i].started)
			pthread_join(threads[i].thread, NULL);
		error_note(first, error_raise(&threads[i].error));
		split_adopt(threads[i].list->parent);
		for (struct split *s = threads[i].list; s; s = s->next)
			split_adopt(*s->out);
		split_free_all(threads[i].list, &threads[i].error);
	}
}

/* Distributes the list: splits that block to a thread for each parent, all others to *here. */
static int split_distribute(struct split *list, struct split_thread *threads, struct split **here)
{
	struct split **last = here;
	int n = 0;

	for (struct split *s = list, *next; s; s = next) {
		struct split_thread *t =
			s->derive->block ? split_thread_of(threads, &n, s->parent) : NULL;
		struct split ***end = t ? &t->last : &last;

		next = s->next;
		s->next = NULL;
		**end = s;
		*end = &s->next;
	}
	return n;
}

/* Finishes and frees the splits of a group: COLL_SUCCESS or the first error. */
static int split_end_all(struct split *list)
{
	CANCEL_OFF;
	struct error_first first = {0};
	struct split_thread *threads;
	struct split *here = NULL;
	int n = 0;

	for (struct split *s = list; s; s = s->next)
		n++;
	threads = calloc((size_t)n, sizeof(*threads));
	if (!threads) {
		error_note(&first, error_set(COLL_ERR_NO_MEMORY, "no memory for %d splits", n));
		split_free_all(list, &first);
		return error_raise(&first);
	}
	n = split_distribute(list, threads, &here);
	split_start(threads, n);
	for (struct split *s = here; s; s = s->next)
		error_note(&first, split_finish(s));
	split_join(threads, n, &first);
	split_free_all(here, &first);
	free(threads);
	return error_raise(&first);
}

void split_defer(struct split *split)
{
	atomic_fetch_add(&split->refs, 1);
	group_add_split(split, split_end_all);
}
