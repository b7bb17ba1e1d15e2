/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * isplit_test.c - splits and dups with a request: they do not block, have their place among the operations of
 * the parent, meet blocking ones, and report their errors through the request.
 */
#include "../lib/ranks.h"

enum { FAR_S = 60, SHORT_MS = 300 };

/* The result of a request, by one of the five ways to learn of it. */
static coll_result_t ends(coll_request_t request, int way)
{
	const double deadline = ranks_now() + FAR_S;
	int32_t index, count, done = 0;
	coll_result_t code = COLL_SUCCESS;

	switch (way) {
	case 0: return coll_wait(request);
	case 1: return coll_wait_for(request, FAR_S * 1000);
	case 2: return coll_wait_any(1, &request, -1, &index);
	case 3: return coll_wait_some(1, &request, -1, &index, &count);
	default:
		while (!code && !done && ranks_now() < deadline)
			code = coll_test(request, &done);
		return code || done ? code : COLL_IN_PROGRESS;
	}
}

static coll_request_t dups(struct rank *r, coll_comm_t comm, coll_comm_t *made)
{
	coll_request_t request = NULL;

	rank_did(r, coll_comm_idup(comm, made, NULL, &request), "idup");
	return request;
}

static void finish(struct rank *r, coll_request_t request, coll_comm_t made)
{
	rank_did(r, coll_request_free(request), "free");
	if (made)
		rank_did(r, coll_comm_destroy(made), "destroy");
}

/* ------------------------------------------------------------------- not blocking -- */

/* The handle is valid exactly when the request is done: not before rank 0 has called. */
static void run_not_before(struct rank *r)
{
	coll_request_t request, note;
	coll_comm_t half = r->comm;
	int32_t done = 1, x = 1;
	int n = (r->nranks + 1 - r->rank % 2) / 2;

	for (int p = 1; r->rank == 0 && p < r->nranks; p++) {
		if (!rank_did(r, coll_irecv(&x, 1, COLL_INT32, p, 3, r->comm, &note), "irecv"))
			return;
		rank_did(r, coll_wait(note), "wait for a note");
		coll_request_free(note);
	}
	if (!rank_did(r, coll_comm_isplit(r->comm, r->rank % 2, -r->rank, &half, NULL, &request),
		      "isplit"))
		return;
	if (r->rank) {
		rank_did(r, coll_test(request, &done), "test");
		rank_is(r, done || half, 0, "done before rank 0 has called");
		rank_is(r, coll_wait_for(request, 1), COLL_IN_PROGRESS, "a wait of 1 ms");
		rank_did(r, coll_isend(&x, 1, COLL_INT32, 0, 3, r->comm, &note), "isend");
		rank_did(r, coll_wait(note), "wait for the note");
		coll_request_free(note);
	}
	rank_did(r, ends(request, r->rank % 5), "the split");
	if (half && is_rank(r, half, n - 1 - r->rank / 2, n))
		sums_to(r, half, 1, n, "the half");
	finish(r, request, half);
}

/* Blocking calls in these orders would wait for each other. */
static void run_crosswise(struct rank *r)
{
	coll_comm_t base[2] = {NULL}, twin[2] = {NULL};
	coll_request_t requests[2] = {NULL};
	int32_t indices[2], count, left = 2;

	if (!rank_did(r, coll_comm_dup(r->comm, &base[0]), "dup") ||
	    !rank_did(r, coll_comm_dup(r->comm, &base[1]), "dup"))
		return;
	for (int i = 0; i < 2; i++) {
		const int which = (r->rank + i) % 2;

		requests[which] = dups(r, base[which], &twin[which]);
	}
	for (coll_request_t all[2] = {requests[0], requests[1]}; left; left -= count) {
		if (!rank_did(r, coll_wait_some(2, all, -1, indices, &count), "wait_some"))
			return;
		for (int i = 0; i < count; i++)
			all[indices[i]] = NULL;
	}
	for (int i = 0; i < 2; i++) {
		sums_to(r, twin[i], 1, r->nranks, "a twin");
		finish(r, requests[i], twin[i]);
		rank_did(r, coll_comm_destroy(base[i]), "destroy");
	}
}

/* Operations before and after it, and blocking splits on the other ranks. */
static void run_among_others(struct rank *r)
{
	int64_t x = 1, y[2] = {0, 0};
	coll_comm_t part = NULL;
	coll_request_t request = NULL;

	rank_did(r, coll_allreduce(&x, &y[0], 1, COLL_INT64, COLL_SUM, r->comm, NULL), "before");
	if (r->rank % 2)
		rank_did(r, coll_comm_split(r->comm, 5, 0, &part, NULL), "split");
	else
		rank_did(r, coll_comm_isplit(r->comm, 5, 0, &part, NULL, &request), "isplit");
	rank_did(r, coll_allreduce(&x, &y[1], 1, COLL_INT64, COLL_SUM, r->comm, NULL), "after");
	rank_did(r, coll_sync(r->comm), "sync");
	rank_is(r, y[0] + y[1], 2 * r->nranks, "sums beside the split");
	/* The sync has passed the split. */
	if (!part)
		rank_fail(r, "no communicator after a sync");
	else
		sums_to(r, part, 1, r->nranks, "the part");
	if (request)
		rank_did(r, coll_request_free(request), "free");
	if (part)
		rank_did(r, coll_comm_destroy(part), "destroy");
}

/* Nobody waits for the request; the parent ends, and the child lives. */
static void run_freed(struct rank *r)
{
	coll_comm_t base = NULL, twin = NULL;
	coll_request_t request;

	if (!rank_did(r, coll_comm_dup(r->comm, &base), "dup"))
		return;
	request = dups(r, base, &twin);
	rank_did(r, coll_request_free(request), "free");
	rank_did(r, coll_comm_destroy(base), "destroy the parent");
	if (!twin) {
		rank_fail(r, "no communicator after the end of its parent");
		return;
	}
	sums_to(r, twin, 1, r->nranks, "the twin");
	rank_did(r, coll_comm_destroy(twin), "destroy");
}

struct heard {
	coll_comm_t *made;
	_Atomic int calls, result, was_made;
};

static void heard_of(void *user, coll_result_t result)
{
	struct heard *heard = user;

	heard->result = result;
	heard->was_made = *heard->made != NULL;
	heard->calls++;
}

/* The callback finds the handle. */
static void run_callback(struct rank *r)
{
	coll_comm_t twin = NULL;
	struct heard heard = {.made = &twin, .result = -1};
	coll_request_t request = dups(r, r->comm, &twin);

	rank_did(r, coll_request_set_callback(request, heard_of, &heard), "set_callback");
	rank_did(r, coll_wait(request), "wait");
	rank_is(r, heard.calls, 1, "calls of the callback");
	rank_is(r, heard.result, COLL_SUCCESS, "its result");
	rank_is(r, heard.was_made, 1, "the handle in the callback");
	rank_did(r, coll_request_set_callback(request, heard_of, &heard), "a late set_callback");
	rank_is(r, heard.calls, 2, "calls of the late callback");
	finish(r, request, twin);
}

/* In a group with an operation of the parent. */
static void run_group(struct rank *r)
{
	coll_comm_t twin = NULL;
	coll_request_t request;
	int64_t x = 1, y = 0;

	coll_group_start();
	rank_did(r, coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "allreduce");
	request = dups(r, r->comm, &twin);
	if (rank_is(r, coll_wait(request), COLL_ERR_INVALID_USAGE, "wait in the group"))
		rank_says(r, "coll_group_end", "wait in the group");
	if (rank_is(r, coll_wait_for(request, 5), COLL_ERR_INVALID_USAGE, "wait_for in the group"))
		rank_says(r, "coll_group_end", "wait_for in the group");
	rank_did(r, coll_group_end(), "group_end");
	rank_did(r, coll_wait(request), "wait");
	rank_is(r, y, r->nranks, "the sum beside it");
	sums_to(r, twin, 1, r->nranks, "the twin");
	finish(r, request, twin);
}

/* ------------------------------------------------------------------------- errors -- */

static void run_refused(struct rank *r)
{
	coll_request_t request = (void *)1;
	coll_comm_t made = r->comm;
	coll_config_t config;

	rank_is(r, coll_comm_isplit(r->comm, 0, 0, &made, NULL, NULL), COLL_ERR_INVALID_ARGUMENT,
		"no request");
	rank_says(r, "coll_comm_isplit: request is NULL", "no request");
	rank_is(r, made != NULL, 0, "the handle after an error");
	rank_is(r, coll_comm_idup(r->comm, NULL, NULL, &request), COLL_ERR_INVALID_ARGUMENT,
		"no newcomm");
	rank_says(r, "coll_comm_idup: newcomm is NULL", "no newcomm");
	rank_is(r, request != NULL, 0, "the request after an error");
	rank_is(r, coll_comm_isplit(r->comm, -5, 0, &made, NULL, &request),
		COLL_ERR_INVALID_ARGUMENT, "color -5");
	rank_says(r, "COLL_SPLIT_NOCOLOR", "color -5");
	coll_config_init(&config, sizeof(config));
	config.backend = "tcp";
	rank_is(r, coll_comm_idup(r->comm, &made, &config, &request), COLL_ERR_INVALID_ARGUMENT,
		"a backend");
	rank_says(r, "coll_comm_idup: config->backend", "a backend");
	rank_is(r, coll_comm_idup(NULL, &made, NULL, &request), COLL_ERR_INVALID_ARGUMENT,
		"no comm");
	if (!rank_did(r, coll_comm_isplit(r->comm, COLL_SPLIT_NOCOLOR, 0, &made, NULL, &request),
		      "no colour"))
		return;
	rank_did(r, coll_wait(request), "wait");
	rank_is(r, made != NULL, 0, "a communicator without a colour");
	rank_is(r, coll_request_start(request), COLL_ERR_INVALID_USAGE, "start");
	rank_is(r, coll_request_cancel(request), COLL_ERR_INVALID_USAGE, "cancel");
	finish(r, request, NULL);
	sums_to(r, r->comm, 1, r->nranks, "the communicator lives");
}

/* The new communicator has its own timeout; the parent keeps its own. */
static void run_timeout(struct rank *r)
{
	coll_comm_t twin = NULL;
	coll_request_t request;
	coll_config_t config;
	const double began = ranks_now();
	int64_t x = 0;

	coll_config_init(&config, sizeof(config));
	config.timeout_ms = SHORT_MS;
	if (!rank_did(r, coll_comm_idup(r->comm, &twin, &config, &request), "idup") ||
	    !rank_did(r, coll_wait(request), "wait"))
		return;
	if (r->rank == 0) {
		rank_did(r, coll_recv(&x, 1, COLL_INT64, 1, 0, twin, NULL), "recv");
		rank_is(r, coll_sync(twin), COLL_ERR_TIMEOUT, "a message that never comes");
		if (ranks_now() - began > FAR_S / 3)
			rank_fail(r, "the wait took %.1f s", ranks_now() - began);
	}
	sums_to(r, r->comm, 1, r->nranks, "the parent");
	finish(r, request, twin);
}

/* Rank 0 issues another operation. */
static void run_mismatch(struct rank *r)
{
	coll_comm_t base = NULL, twin = NULL;
	coll_request_t request = NULL;
	coll_result_t code;
	int64_t x = 1;

	if (!rank_did(r, coll_comm_dup(r->comm, &base), "dup"))
		return;
	/* The call itself fails where the news has come already. */
	if (r->rank == 0)
		code = coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, base, NULL);
	else
		code = coll_comm_idup(base, &twin, NULL, &request);
	if (!code)
		code = request ? ends(request, r->rank % 5) : coll_sync(base);
	if (rank_is(r, code, COLL_ERR_MISMATCH, "another operation"))
		rank_says(r, "split", "another operation");
	rank_is(r, twin != NULL, 0, "a communicator after the error");
	if (request) {
		rank_is(r, coll_wait(request), COLL_ERR_MISMATCH, "the request later");
		rank_says(r, "split", "the request later");
	}
	/* A rank that ends early would be the others' error. */
	sums_to(r, r->comm, 1, r->nranks, "the parent of both");
	rank_did(r, coll_comm_destroy(base), "destroy");
	if (request)
		rank_did(r, coll_request_free(request), "free");
}

/* An abort ends the request, whose callback hears of it. */
static void run_abort(struct rank *r)
{
	coll_comm_t base = NULL, twin = NULL;
	struct heard heard = {.made = &twin, .result = -1};
	coll_request_t request;

	if (!rank_did(r, coll_comm_dup(r->comm, &base), "dup"))
		return;
	if (r->rank == 1) {
		request = dups(r, base, &twin);
		rank_did(r, coll_request_set_callback(request, heard_of, &heard), "set_callback");
		rank_did(r, coll_comm_abort(base), "abort");
		rank_is(r, coll_wait(request) != COLL_SUCCESS, 1, "the request fails");
		rank_is(r, heard.calls, 1, "calls of the callback");
		rank_is(r, heard.result != COLL_SUCCESS, 1, "its result");
		rank_is(r, twin != NULL, 0, "a communicator after the abort");
		rank_did(r, coll_request_free(request), "free");
	}
	sums_to(r, r->comm, 1, r->nranks, "the parent of both");
	rank_did(r, coll_comm_destroy(base), "destroy");
}

/* -------------------------------------------------------------------------- tests -- */

/* One thread drives all ranks. */
static void test_one_thread(const char *backend, int n)
{
	coll_comm_t comms[RANKS_MAX], twins[RANKS_MAX] = {NULL};
	coll_request_t requests[RANKS_MAX];
	coll_config_t config;
	int bad = 0;

	ranks_config(&config, backend);
	if (!is_int(coll_comm_init_all(comms, n, NULL, &config), 0, "%s: one thread has %d ranks",
		    backend, n))
		return;
	for (int r = 0; r < n; r++)
		bad += coll_comm_idup(comms[r], &twins[r], NULL, &requests[r]) != 0;
	for (int r = 0; r < n; r++)
		bad += coll_wait(requests[r]) != 0 || !twins[r] || coll_request_free(requests[r]);
	is_int(bad, 0, "%s: it dups for all, without a group: %s", backend,
	       bad ? coll_get_last_error(NULL) : "");
	for (int r = 0; r < n; r++)
		bad += coll_comm_destroy(comms[r]) || (twins[r] && coll_comm_destroy(twins[r]));
	is_int(bad, 0, "destroy");
}

static const struct {
	const char *name;
	void (*fn)(struct rank *r);
} runs[] = {
	{"isplit is done when all ranks have called, and not before", run_not_before},
	{"idup of two communicators in different orders", run_crosswise},
	{"isplit among operations meets split", run_among_others},
	{"the request is freed, then the parent destroyed", run_freed},
	{"a callback finds the new communicator", run_callback},
	{"idup in a group", run_group},
	{"arguments that are wrong; no colour", run_refused},
	{"a timeout of its own", run_timeout},
	{"rank 0 issues another operation", run_mismatch},
	{"an abort ends the request", run_abort},
};

static void test_runs(const char *backend, int processes, int nranks)
{
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		ranks_ok(&(struct ranks_job){backend, nranks, processes, runs[i].fn, NULL}, "%s",
			 runs[i].name);
}

int main(void)
{
	static const char *const progress[] = {"caller", "thread"};

	for (int i = 0; i < 2; i++) {
		setenv("COLL_PROGRESS", progress[i], 1);
		for (int n = 2; n <= 5; n += 3) {
			test_runs("simulated", 0, n);
			test_one_thread("simulated", n);
		}
		test_runs("tcp", 1, 3);
		test_one_thread("tcp", 3);
		if (ranks_can("ucx")) {
			test_runs("ucx", 1, 3);
			test_one_thread("ucx", 2);
		}
	}
	return done_testing();
}
