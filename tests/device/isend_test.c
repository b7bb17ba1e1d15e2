/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * isend_test.c - coll_isend and coll_irecv of staged memory: messages arrive whole between all kinds of memory and keep
 * the order of the calls; results are in device memory when a request is complete; copies that fail or never end.
 */
#include "staging_harness.h"

enum { TAG = 5, MANY = 50 };

static const size_t lengths[] = {0, 1, CHUNK + 1, 100 * CHUNK + 3};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]) };

/* ---------------------------------------------------------------- kinds of memory -- */

/* Each rank receives from the one before, or from any, and sends to the next, or to itself. */
static void exchange(struct rank *r, const struct place *place, size_t count, int self, int any)
{
	int next = self ? r->rank : (r->rank + 1) % r->nranks;
	int before = self ? r->rank : (r->rank + r->nranks - 1) % r->nranks;
	const size_t most = count + CHUNK;
	void *out = words_new(place->at[0], r->rank, count);
	void *in = words_new(place->at[1], -1, most);
	coll_status_t status = {.size = sizeof(status)};
	coll_request_t receives =
		rank_irecv(r, in, most, any ? COLL_ANY_SOURCE : before, any ? COLL_ANY_TAG : TAG);
	coll_request_t sends = rank_isend(r, out, count, next, TAG);

	rank_did(r, coll_barrier(r->comm), "a collective meanwhile");
	rank_did(r, coll_wait(receives), "wait");
	if (rank_did(r, coll_request_get_status(receives, &status), "status") &&
	    (status.source != before || status.tag != TAG || status.bytes != count * 4))
		rank_fail(r, "from %d, tag %d, %llu bytes", status.source, status.tag,
			  (unsigned long long)status.bytes);
	words_are(r, place->at[1], in, before, count, most, place->name);
	rank_did(r, coll_request_free(receives), "free");
	rank_ends(r, sends, COLL_SUCCESS, "isend");
	rank_did(r, coll_barrier(r->comm), "barrier"); /* the next message may be for any source */
	place_free(place->at[0], out);
	place_free(place->at[1], in);
}

static void every_memory(struct rank *r)
{
	for (int k = 0; k < PLACES; k++)
		for (int i = 0; i < LENGTHS && !r->failure[0]; i++)
			for (int how = 0; how < 4; how++)
				exchange(r, &places[k], lengths[i], how & 1, how & 2);
}

/* The pinned memory of a message serves the next one, however many there were. */
static void keeps_memory(struct rank *r)
{
	enum { TIMES = 40 };
	void *out = words_new(0, 0, 1), *in = words_new(0, -1, 1);
	int pinned = 0;

	for (int i = 0; i < TIMES; i++) {
		coll_request_t receives = rank_irecv(r, in, 1, r->rank, TAG);

		rank_ends(r, rank_isend(r, out, 1, r->rank, TAG), COLL_SUCCESS, "isend");
		rank_ends(r, receives, COLL_SUCCESS, "irecv");
		if (!i)
			pinned = standin_pinned();
	}
	if (!pinned || standin_pinned() != pinned)
		rank_fail(r, "%d pieces of pinned memory, %d after the first message",
			  standin_pinned(), pinned);
	place_free(0, out);
	place_free(0, in);
}

/* ------------------------------------------------------------------------- order -- */

/* Each copy takes 5 ms, so that messages of the host could overtake those of the device. */
static void in_order(struct rank *r)
{
	static const int at[] = {0, PLACE_HOST, 1, PLACE_HOST, PLACE_HOST, 0, PLACE_MANAGED};
	enum { N = sizeof(at) / sizeof(at[0]) };
	const int peer = 1 - r->rank;
	coll_request_t sends[N], receives[N];
	void *out[N], *in[N];

	for (int i = 0; i < N; i++) {
		out[i] = words_new(at[i], 10 * r->rank + i, CHUNK + (size_t)i);
		in[i] = words_new(at[N - 1 - i], -1, CHUNK + N);
	}
	for (int i = 0; i < N; i++)
		sends[i] = rank_isend(r, out[i], CHUNK + (size_t)i, peer, i % 2);
	for (int i = 0; i < N; i++)
		receives[i] = rank_irecv(r, in[i], CHUNK + N, peer, COLL_ANY_TAG);
	for (int i = 0; i < N; i++) {
		rank_ends(r, receives[i], COLL_SUCCESS, "irecv");
		words_are(r, at[N - 1 - i], in[i], 10 * peer + i, CHUNK + (size_t)i, CHUNK + N,
			  "in order");
	}
	for (int i = 0; i < N; i++) {
		rank_ends(r, sends[i], COLL_SUCCESS, "isend");
		place_free(at[i], out[i]);
		place_free(at[N - 1 - i], in[i]);
	}
}

/* More messages than a copy stream has places, or the communicator keeps buffers. */
static void many(struct rank *r)
{
	const int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;
	coll_request_t sends[MANY], receives[MANY];
	void *out = words_new(0, r->rank, MANY), *in[MANY];

	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < MANY; i++) {
			in[i] = words_new(0, -1, MANY);
			receives[i] = rank_irecv(r, in[i], MANY, before, i);
		}
		for (int i = 0; i < MANY; i++)
			sends[i] = rank_isend(r, out, (size_t)i, next, i);
		for (int i = 0; i < MANY; i++) {
			rank_ends(r, receives[i], COLL_SUCCESS, "irecv");
			words_are(r, 0, in[i], before, (size_t)i, MANY, "one of many");
			place_free(0, in[i]);
		}
		for (int i = 0; i < MANY; i++)
			rank_ends(r, sends[i], COLL_SUCCESS, "isend");
	}
	place_free(0, out);
}

/* Each copy takes a second: a request is complete no earlier than its copy, also for a callback. */
static void told(void *user, coll_result_t result)
{
	*(int *)user = result ? -1 : 1;
}

static void in_time(struct rank *r)
{
	const int peer = 1 - r->rank;
	void *out = words_new(0, r->rank, CHUNK), *in = words_new(0, -1, CHUNK);
	const double begin = ranks_now();
	coll_request_t receives = rank_irecv(r, in, CHUNK, peer, TAG), sends;
	int32_t done = 0, said = 0;

	rank_did(r, coll_request_set_callback(receives, told, &said), "callback");
	sends = rank_isend(r, out, CHUNK, peer, TAG);
	if (ranks_now() - begin > 0.9)
		rank_fail(r, "the call waited for the copy");
	while (!done && rank_did(r, coll_test(receives, &done), "test"))
		if (done != said)
			rank_fail(r, "done %d, told %d", done, said);
	if (ranks_now() - begin < 0.95)
		rank_fail(r, "complete after %g s", ranks_now() - begin);
	words_are(r, 0, in, peer, CHUNK, CHUNK, "in time");
	rank_did(r, coll_request_free(receives), "free");
	rank_did(r, coll_request_free(sends), "free"); /* which lets the message go on */
	rank_did(r, coll_barrier(r->comm), "barrier");
	place_free(0, out);
	place_free(0, in);
}

/* -------------------------------------------------------------------- its own error -- */

static void does_not_fit(struct rank *r)
{
	void *there = words_new(0, r->rank, CHUNK), *in = words_new(0, -1, CHUNK);
	coll_request_t receives = NULL, open = NULL;

	if (r->rank) {
		rank_ends(r, rank_isend(r, there, CHUNK, 0, TAG), COLL_SUCCESS, "isend");
	} else {
		receives = rank_irecv(r, in, 3, 1, TAG);
		if (coll_wait(receives) != COLL_ERR_MISMATCH)
			rank_fail(r, "too long: %s", coll_get_last_error(NULL));
		rank_did(r, coll_request_free(receives), "free");
		words_are(r, 0, in, 0, 0, CHUNK, "unchanged");
		receives = rank_irecv(r, in, 3, 1, TAG + 1);
		rank_did(r, coll_request_cancel(receives), "cancel");
		rank_did(r, coll_request_free(receives), "free");
	}
	sums_to(r, r->comm, 1, r->nranks, "afterwards");
	open = rank_irecv(r, in, 3, 1 - r->rank, TAG + 2); /* destroy ends it */
	rank_did(r, coll_request_free(open), "free");
	place_free(0, there);
}

/* The copy of rank 1's send fails: its request has the error, and the communicator lives. */
static void copy_fails(struct rank *r)
{
	void *there = words_new(0, r->rank, CHUNK);
	coll_request_t request;
	char fault[64];
	int code;

	/* The next copy of this process is that of the send. */
	rank_did(r, coll_barrier(r->comm), "barrier");
	if (r->rank) {
		snprintf(fault, sizeof(fault), "700@%lu", standin_copies());
		setenv("STANDIN_CUDA_COPY", fault, 1);
		request = rank_isend(r, there, CHUNK, 0, TAG);
		code = coll_wait(request);
		if (code != COLL_ERR_DEVICE ||
		    !strstr(coll_get_last_error(NULL), "CUDA_ERROR_ILLEGAL_ADDRESS"))
			rank_fail(r, "%d (%s)", code, coll_get_last_error(NULL));
		unsetenv("STANDIN_CUDA_COPY");
		rank_did(r, coll_request_free(request), "free");
		rank_ends(r, rank_isend(r, there, CHUNK, 0, TAG), COLL_SUCCESS, "again");
	} else {
		void *in = words_new(PLACE_HOST, -1, CHUNK);

		rank_ends(r, rank_irecv(r, in, CHUNK, 1, TAG), COLL_SUCCESS, "irecv");
		words_are(r, PLACE_HOST, in, 1, CHUNK, CHUNK, "the second");
		place_free(PLACE_HOST, in);
	}
	sums_to(r, r->comm, 1, r->nranks, "afterwards");
	place_free(0, there);
}

/* Each copy takes 20 ms; rank 0 aborts while they are under way. */
static void aborted(struct rank *r)
{
	void *out = words_new(0, r->rank, CHUNK), *in = words_new(0, -1, CHUNK);
	coll_request_t receives[MANY], sends[MANY];
	double begin = ranks_now();
	int code = COLL_SUCCESS;

	for (int i = 0; i < MANY; i++) {
		receives[i] = rank_irecv(r, in, CHUNK, 1 - r->rank, i);
		sends[i] = rank_isend(r, out, CHUNK, 1 - r->rank, i);
	}
	/* No rank hears of the abort before it has issued all. */
	rank_did(r, coll_barrier(r->comm), "barrier");
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 0; i < 3 && !r->rank; i++)
		rank_did(r, coll_wait(receives[i]), "one of the first");
	if (!r->rank)
		rank_did(r, coll_comm_abort(r->comm), "abort");
	for (int i = 3; i < MANY; i++)
		code = coll_wait(receives[i]) | code;
	if (!code)
		rank_fail(r, "no receive has failed");
	if (ranks_now() - begin > 20)
		rank_fail(r, "it took too long");
	for (int i = 0; i < MANY; i++) {
		rank_did(r, coll_request_free(sends[i]), "free");
		rank_did(r, coll_request_free(receives[i]), "free");
	}
	place_free(0, out);
	place_free(0, in);
}

/* ------------------------------------------------------------------ warnings, devices -- */

static void warns(struct rank *r)
{
	void *there = words_new(0, r->rank, CHUNK);
	coll_request_t one, other;

	for (int i = 0; i < 5; i++) {
		if (i == 3)
			coll_set_call_site((const void *)(uintptr_t)&warns);
		one = rank_irecv(r, there, CHUNK, r->rank, TAG);
		other = rank_isend(r, there, CHUNK, r->rank, TAG);
		rank_ends(r, one, COLL_SUCCESS, "irecv");
		rank_ends(r, other, COLL_SUCCESS, "isend");
	}
	coll_set_call_site(NULL);
	place_free(0, there);
}

static void test_warnings(void)
{
	const int isends = log_lines("isend over backend 'simulated' copies 4096 bytes from and 0");
	const int irecvs = log_lines("irecv over backend 'simulated' copies 0 bytes from and 4096");

	setenv("COLL_LOG", "info", 1);
	ranks_ok(&(struct ranks_job){"simulated", 1, 0, warns, NULL}, "five messages");
	unsetenv("COLL_LOG");
	is_int(log_lines("isend over backend 'simulated' copies 4096 bytes from and 0") - isends, 2,
	       "one warning of the call of coll_isend, and one of the place that the program set");
	is_int(log_lines("irecv over backend 'simulated' copies 0 bytes from and 4096") - irecvs, 2,
	       "as many of coll_irecv");
	is_int(log_lines("through host memory: 5 isend, 5 irecv"), 1, "and the others are counted");
}

/* The device does not end its copies; there is a word, and every call returns. */
static void hangs(struct rank *r)
{
	void *there = device_new(0, 4096, 0);
	coll_request_t request = rank_isend(r, there, CHUNK, 1 - r->rank, TAG);
	double begin = ranks_now();
	int code = coll_wait(request);

	if (code != COLL_ERR_TIMEOUT && code != COLL_ERR_REMOTE)
		rank_fail(r, "%d (%s)", code, coll_get_last_error(NULL));
	if (ranks_now() - begin > 60)
		rank_fail(r, "it took %g s", ranks_now() - begin);
	rank_did(r, coll_request_free(request), "free");
}

/* In a process of its own, since the device stays busy until the process ends. */
static void test_hangs(void)
{
	int status = 1;
	pid_t child;

	setenv("STANDIN_CUDA_DELAY_US", "600000000", 1);
	setenv("COLL_TIMEOUT", "2s", 1);
	fflush(stdout);
	child = fork();
	if (child == 0) {
		const struct ranks_job job = {"simulated", 2, 0, hangs, NULL};
		struct ranks_shared *shared = ranks_memory(sizeof(*shared));

		device_init();
		log_begin();
		ranks_run_threads(&job, shared);
		log_end();
		for (int k = 0; k < 2; k++)
			if (shared->failure[k][0])
				diag("rank %d: %s", k, shared->failure[k]);
		fflush(stdout);
		_exit(shared->failure[0][0] || shared->failure[1][0] ||
		      !log_lines("has not ended its copies"));
	}
	ok(child > 0 && ranks_reap(child, ranks_now() + 120, &status) && status == 0,
	   "a device that does not end its copies is given up, with a word");
	setenv("COLL_TIMEOUT", "20s", 1);
	unsetenv("STANDIN_CUDA_DELAY_US");
}

/* ---------------------------------------------------------------------------- all -- */

static void test_backend(const char *backend)
{
	ranks_ok(&(struct ranks_job){backend, 3, 0, every_memory, NULL}, "every kind of memory");
	ranks_ok(&(struct ranks_job){backend, 1, 0, keeps_memory, NULL}, "one after the other");
	ranks_ok(&(struct ranks_job){backend, 3, 0, many, NULL}, "many");
	ranks_ok(&(struct ranks_job){backend, 2, 0, does_not_fit, NULL},
		 "messages that do not fit");
	ranks_ok(&(struct ranks_job){backend, 2, 0, copy_fails, NULL}, "a copy that fails");
	setenv("STANDIN_CUDA_DELAY_US", "5000", 1);
	ranks_ok(&(struct ranks_job){backend, 2, 0, in_order, NULL}, "in order");
	setenv("STANDIN_CUDA_DELAY_US", "20000", 1);
	ranks_ok(&(struct ranks_job){backend, 2, 0, aborted, NULL}, "an abort");
	setenv("STANDIN_CUDA_DELAY_US", "1000000", 1);
	ranks_ok(&(struct ranks_job){backend, 2, 0, in_time, NULL}, "complete in time");
	unsetenv("STANDIN_CUDA_DELAY_US");
}

int main(void)
{
	static const char *const backends[] = {"simulated", "tcp", "ucx"};
	int can[3];

	for (int b = 0; b < 3; b++)
		can[b] = ranks_can(backends[b]);
	stage_begin();
	test_hangs();
	device_init();
	log_begin();
	for (int b = 0; b < 3; b++)
		if (can[b])
			test_backend(backends[b]);
	test_warnings();
	log_end();
	stage_end();
	return done_testing();
}
