/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staged_message_test.c - send and receive of memory that is staged: messages in pieces arrive whole
 * between all kinds of memory, from any source, on streams of the program and in order beside
 * others; copies in, pieces and copies out overlap; calls that differ are named.
 */
#include "staging_harness.h"

static const size_t lengths[] = {0, 1, CHUNK - 1, CHUNK, CHUNK + 1, MOST, 100 * CHUNK + 3};
enum { LENGTHS = sizeof(lengths) / sizeof(lengths[0]), LONGEST = 100 * CHUNK + 3, TAG = 5 };

static int send_to(struct rank *r, const void *buf, size_t count, int peer, void *stream)
{
	return rank_did(r, coll_send(buf, count, COLL_INT32, peer, TAG, r->comm, stream), "send");
}

static int recv_from(struct rank *r, void *buf, size_t count, int peer, void *stream)
{
	return rank_did(r, coll_recv(buf, count, COLL_INT32, peer, TAG, r->comm, stream), "recv");
}

/* ---------------------------------------------------------------- kinds of memory -- */

/* Each rank sends to the next, or to itself, and receives from the one before, or from any. */
static void exchange(struct rank *r, const struct place *place, size_t count, int self, int any)
{
	int next = self ? r->rank : (r->rank + 1) % r->nranks;
	int before = self ? r->rank : (r->rank + r->nranks - 1) % r->nranks;
	void *out = words_new(place->at[0], r->rank, count);
	void *in = words_new(place->at[1], -1, count);

	rank_did(r, coll_group_start(), "group");
	recv_from(r, in, count, any ? COLL_ANY_SOURCE : before, NULL);
	send_to(r, out, count, next, NULL);
	rank_did(r, coll_group_end(), "group");
	rank_did(r, coll_sync(r->comm), "sync");
	rank_did(r, coll_barrier(r->comm), "barrier"); /* the next message may be for any source */
	words_are(r, place->at[1], in, before, count, count, place->name);
	place_free(place->at[0], out);
	place_free(place->at[1], in);
}

static void every_memory(struct rank *r)
{
	static const struct place host = {"on the host", {PLACE_HOST, PLACE_HOST}};

	for (int k = 0; k <= PLACES; k++)
		for (int i = 0; i < LENGTHS && !r->failure[0]; i++)
			for (int how = 0; how < 4; how++)
				exchange(r, k < PLACES ? &places[k] : &host, lengths[i], how & 1,
					 how & 2);
}

/* The same operation again, and with another length in between. */
static void repeated(struct rank *r)
{
	static const size_t counts[] = {MOST, MOST, 1, MOST, LONGEST, MOST};

	for (int i = 0; i < (int)(sizeof(counts) / sizeof(counts[0])); i++)
		exchange(r, &places[i % PLACES], counts[i], 0, i % 2);
}

/* ------------------------------------------------------------------------- order -- */

/*
 * Messages of one tag in one group, long and short, from devices and from the host: each receive gets
 * the message of its number.  The copies take 5 ms, so that messages from the host could overtake.
 */
static void in_order(struct rank *r)
{
	enum { N = 8 };
	static const size_t counts[N] = {1, 1, MOST, 7, MOST, MOST, 1, CHUNK + 1};
	static const int at[N] = {0, PLACE_HOST, 1, PLACE_HOST, PLACE_HOST, 0, 1, PLACE_HOST};
	const int peer = 1 - r->rank, *any = r->user;
	void *out[N], *in[N];

	for (int i = 0; i < N; i++) {
		out[i] = words_new(at[i], 10 * r->rank + i, counts[i]);
		in[i] = words_new(at[N - 1 - i], -1, counts[i]);
	}
	rank_did(r, coll_group_start(), "group");
	for (int i = 0; i < N; i++)
		send_to(r, out[i], counts[i], peer, NULL);
	for (int i = 0; i < N; i++)
		recv_from(r, in[i], counts[i], *any && i % 2 ? COLL_ANY_SOURCE : peer, NULL);
	rank_did(r, coll_group_end(), "group");
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 0; i < N; i++) {
		words_are(r, at[N - 1 - i], in[i], 10 * peer + i, counts[i], counts[i], "in order");
		place_free(at[i], out[i]);
		place_free(at[N - 1 - i], in[i]);
	}
}

/* Rank 0 receives from any source long messages, which all others send at once. */
static void many_sources(struct rank *r)
{
	const size_t count = MOST;
	int32_t first;
	int seen = 0;
	void *buf = words_new(0, r->rank, count);

	for (int i = 1; i < r->nranks && !r->rank; i++) {
		recv_from(r, buf, count, COLL_ANY_SOURCE, NULL);
		if (!rank_did(r, coll_sync(r->comm), "sync"))
			break;
		place_get(0, &first, buf, sizeof(first));
		words_are(r, 0, buf, first / 1000003, count, count, "from any source");
		seen |= 1 << first / 1000003;
	}
	if (r->rank)
		send_to(r, buf, count, 0, NULL);
	rank_did(r, coll_sync(r->comm), "sync");
	if (!r->rank && seen != (1 << r->nranks) - 2)
		rank_fail(r, "the senders are %#x", (unsigned)seen);
	place_free(0, buf);
}

/* ------------------------------------------------------------------------ streams -- */

/* A group on a stream of the program: its work before and behind the group is ordered with long messages. */
static void on_a_stream(struct rank *r)
{
	const size_t count = LONGEST, bytes = count * sizeof(int32_t);
	int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;
	void *from = words_new(0, r->rank, count), *out = words_new(0, -1, count);
	void *in = words_new(0, -1, count), *to = words_new(0, -1, count), *stream = NULL;

	context_begin(0);
	if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING))
		bail_out("no stream");
	cuMemcpyAsync((uintptr_t)out, (uintptr_t)from, bytes, stream);
	context_end(0);
	rank_did(r, coll_group_start(), "group");
	send_to(r, out, count, next, stream);
	recv_from(r, in, count, before, stream);
	rank_did(r, coll_group_end(), "group");
	context_begin(0);
	cuMemcpyAsync((uintptr_t)to, (uintptr_t)in, bytes, stream);
	if (cuStreamSynchronize(stream))
		rank_fail(r, "the stream has failed");
	cuStreamDestroy_v2(stream);
	context_end(0);
	words_are(r, 0, to, before, count, count, "on a stream");
	rank_did(r, coll_sync(r->comm), "sync");
	place_free(0, from);
	place_free(0, out);
	place_free(0, in);
	place_free(0, to);
}

/* ------------------------------------------------------------------------ overlap -- */

enum { OVERLAP_COUNT = 96 * CHUNK };

/*
 * Each copy takes 20 ms, and copies run in order.  When the first word is on the receiver's device, the
 * last piece has not left the sender's: a change of it at that moment arrives.  (No application may do
 * that.)
 */
static void overlap(struct rank *r)
{
	static int32_t *_Atomic sent;
	int32_t *there = words_new(0, r->rank ? -1 : 7, OVERLAP_COUNT), x = -1, mark = 77;
	coll_request_t request = NULL;
	int32_t done = 0;

	if (!r->rank) {
		atomic_store(&sent, there);
		send_to(r, there, OVERLAP_COUNT, 1, NULL);
	} else {
		recv_from(r, there, OVERLAP_COUNT, 0, NULL);
		rank_did(r, coll_get_request(r->comm, &request), "request");
		for (x = 0; x != word_of(7, 0) && !done && !r->failure[0];) {
			rank_did(r, coll_test(request, &done), "test");
			place_get(0, &x, there, sizeof(x));
		}
		device_move(0, atomic_load(&sent) + OVERLAP_COUNT - 1, &mark, sizeof(mark));
		if (done)
			rank_fail(r, "all was done when the first piece was seen");
		rank_did(r, coll_wait(request), "wait");
		rank_did(r, coll_request_free(request), "free");
		place_get(0, &x, there + OVERLAP_COUNT - 1, sizeof(x));
		if (x != mark)
			rank_fail(r, "the last piece had left before the first one came");
	}
	rank_did(r, coll_barrier(r->comm), "barrier");
	place_free(0, there);
}

/* ----------------------------------------------------------------------- mistakes -- */

/* Counts that differ, where one message or both go in pieces. */
static void differs(struct rank *r)
{
	const size_t *counts = r->user;
	void *there = words_new(0, r->rank, LONGEST);
	char want[128];
	int code;

	coll_group_start();
	if (r->rank)
		recv_from(r, there, counts[1], 0, NULL);
	else
		send_to(r, there, counts[0], 1, NULL);
	coll_group_end();
	code = coll_sync(r->comm);
	if (r->rank && code != COLL_ERR_MISMATCH)
		rank_fail(r, "%d (%s)", code, coll_get_last_error(NULL));
	snprintf(want, sizeof(want), "send of %zu int32", counts[0]);
	if (r->rank && !strstr(coll_get_last_error(NULL), want))
		rank_fail(r, "no '%s' in (%s)", want, coll_get_last_error(NULL));
	place_free(0, there);
}

static void test_differs(const char *backend)
{
	static const size_t counts[][2] = {{MOST, 3}, {3, MOST}, {MOST, MOST + 1}};

	for (int i = 0; i < 3; i++)
		ranks_ok(&(struct ranks_job){backend, 2, 0, differs, (void *)(uintptr_t)counts[i]},
			 "%zu words are sent, %zu received", counts[i][0], counts[i][1]);
}

/* ---------------------------------------------------------------------------- all -- */

static void test_backend(const char *backend)
{
	static const int any[] = {0, 1};

	ranks_ok(&(struct ranks_job){backend, 3, 0, every_memory, NULL}, "every kind of memory");
	ranks_ok(&(struct ranks_job){backend, 2, 0, repeated, NULL}, "repeated");
	ranks_ok(&(struct ranks_job){backend, 5, 0, many_sources, NULL}, "from any source");
	ranks_ok(&(struct ranks_job){backend, 3, 0, on_a_stream, NULL}, "a group on a stream");
	setenv("STANDIN_CUDA_DELAY_US", "5000", 1);
	for (int i = 0; i < 2; i++)
		ranks_ok(&(struct ranks_job){backend, 2, 0, in_order, (void *)(uintptr_t)&any[i]},
			 "in order%s", i ? ", some from any source" : "");
	setenv("STANDIN_CUDA_DELAY_US", "20000", 1);
	ranks_ok(&(struct ranks_job){backend, 2, 0, overlap, NULL}, "all at the same time");
	unsetenv("STANDIN_CUDA_DELAY_US");
	test_differs(backend);
}

int main(void)
{
	static const char *const backends[] = {"simulated", "tcp", "ucx"};
	int can[3];

	for (int b = 0; b < 3; b++)
		can[b] = ranks_can(backends[b]);
	stage_begin();
	device_init();
	log_begin();
	for (int b = 0; b < 3; b++)
		if (can[b])
			test_backend(backends[b]);
	log_end();
	stage_end();
	return done_testing();
}
