/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staged_test.c - calls on device memory that the backend lacks, copied through host memory (enable_gpu_fallback): their
 * place among the backend's calls, streams of the program, and calls on host memory.
 */
#include "host.h"

enum {
	BUFFERS = 6, /* of each memory; on devices those of odd number belong to the stream */
	MOST = 5000, /* elements of a buffer */
	STEPS = 120,
	WHOLE = MOST * 8
};

/* --------------------------------------------------------------------------- a random program -- */

/* What all ranks do next; the numbers are the same on all of them. */
enum { NATIVE, STAGED, SCAN, MIXED, HOST, FILL, EVENT, WAIT, WHATS };

struct step {
	int what, from, to, op;
	size_t count;
};

/* The buffers of one rank, and those that the reference has of every rank. */
struct program {
	unsigned seed;
	int device;
	void *stream; /* NULL: the program has none */
	uint64_t *there[BUFFERS], *here[BUFFERS];
	uint64_t (*want)[2][BUFFERS][MOST]; /* per rank: on the device, on the host */
};

static struct step choose(struct program *p)
{
	static const int weights[WHATS] = {6, 6, 2, 1, 4, 2, 1, 2};
	struct step s = {.what = 0};
	int left = rand_r(&p->seed) % 24;

	while (left >= weights[s.what])
		left -= weights[s.what++];
	s.from = rand_r(&p->seed) % BUFFERS;
	s.to = rand_r(&p->seed) % BUFFERS;
	s.op = rand_r(&p->seed) % 3;
	s.count = rand_r(&p->seed) % 4 ? (size_t)rand_r(&p->seed) % 64 + 1
				       : (size_t)rand_r(&p->seed) % MOST + 1;
	return s;
}

static void *stream_of(const struct program *p, int buffer)
{
	return buffer % 2 ? p->stream : NULL;
}

/* Calls of the backend on one stream touch its buffers only; a staged call with the stream may touch all. */
static void *tidy(const struct program *p, struct step *s)
{
	void *stream = stream_of(p, s->to);

	if (p->stream && (s->what == NATIVE || (s->what != HOST && !stream)))
		s->from = s->from / 2 * 2 + s->to % 2;
	if (s->what == FILL)
		s->to |= 1;
	return stream;
}

static uint64_t combine(int op, uint64_t a, uint64_t b)
{
	return op == COLL_SUM ? a + b : op == COLL_MAX ? (a > b ? a : b) : a ^ b;
}

static int op_of(const struct step *s)
{
	return s->what == STAGED || (s->what == HOST && s->op == 2) ? COLL_BXOR
	       : s->op == 1                                         ? COLL_MAX
								    : COLL_SUM;
}

/* The reference: the step on the buffers of all ranks. */
static void refer(const struct rank *r, const struct program *p, const struct step *s)
{
	const int to = s->what == HOST, from = s->what == HOST || s->what == MIXED;

	for (size_t i = 0; i < s->count; i++) {
		uint64_t sum = 0;

		for (int k = 0; k < r->nranks; k++) {
			const uint64_t x = p->want[k][from][s->from][i];

			sum = k ? combine(op_of(s), sum, x) : x;
			if (s->what == SCAN)
				p->want[k][to][s->to][i] = sum;
		}
		for (int k = 0; s->what != SCAN && k < r->nranks; k++)
			p->want[k][to][s->to][i] = sum;
	}
}

static void refer_fill(const struct rank *r, const struct program *p, const struct step *s)
{
	for (int k = 0; k < r->nranks; k++)
		for (size_t i = 0; i < s->count; i++)
			p->want[k][0][s->to][i] = UINT64_C(0x100000001) * (unsigned)s->from;
}

/* Work of the program's own on the stream. */
static void fill(struct rank *r, const struct program *p, const struct step *s)
{
	context_begin(p->device);
	if (cuMemsetD32Async((uintptr_t)p->there[s->to], (unsigned)s->from, 2 * s->count,
			     p->stream))
		rank_fail(r, "cuMemsetD32Async");
	context_end(p->device);
}

/* Neither an event nor a wait changes a value. */
static void pause_at(struct rank *r, const struct program *p, const struct step *s)
{
	coll_request_t request;
	coll_event_t event;

	if (s->what == EVENT) {
		rank_did(r, coll_event_create(r->comm, &event), "event_create");
		rank_did(r, coll_event_record(event, r->comm), "record");
		rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
		rank_did(r, coll_event_destroy(event), "event_destroy");
	} else if (s->op == 0) {
		rank_did(r, coll_get_request(r->comm, &request), "get_request");
		rank_did(r, coll_wait(request), "wait");
		rank_did(r, coll_request_free(request), "free");
	} else if (s->op == 1 && p->stream) {
		nccl_stream_do(p->device, p->stream, cuStreamSynchronize);
	} else {
		rank_did(r, coll_sync(r->comm), "sync");
	}
}

static int do_step(struct rank *r, struct program *p)
{
	struct step s = choose(p);
	void *stream = tidy(p, &s);
	const uint64_t *from =
		s.what == HOST || s.what == MIXED ? p->here[s.from] : p->there[s.from];
	uint64_t *to = s.what == HOST ? p->here[s.to] : p->there[s.to];
	int code;

	if (s.what >= EVENT || (s.what == FILL && !p->stream)) {
		pause_at(r, p, &s);
		return !r->failure[0];
	}
	if (s.what == FILL) {
		fill(r, p, &s);
		refer_fill(r, p, &s);
		return !r->failure[0];
	}
	code = s.what == SCAN
		       ? coll_scan(from, to, s.count, COLL_UINT64, op_of(&s), r->comm, stream)
		       : coll_allreduce(from, to, s.count, COLL_UINT64, op_of(&s), r->comm,
					s.what == HOST ? NULL : stream);
	refer(r, p, &s);
	return rank_did(r, code, s.what == NATIVE ? "native" : s.what == HOST ? "host" : "staged");
}

static void compare(struct rank *r, const struct program *p, const char *what)
{
	static __thread uint64_t got[MOST];

	for (int b = 0; b < 2 * BUFFERS; b++) {
		const int host = b >= BUFFERS;
		const uint64_t *want = p->want[r->rank][host][b % BUFFERS];

		if (host)
			memcpy(got, p->here[b % BUFFERS], WHOLE);
		else
			device_move(p->device, got, p->there[b], WHOLE);
		for (int i = 0; i < MOST; i++)
			if (got[i] != want[i]) {
				rank_fail(r, "%s: buffer %d on the %s has %llx at %d, not %llx",
					  what, b % BUFFERS, host ? "host" : "device",
					  (unsigned long long)got[i], i,
					  (unsigned long long)want[i]);
				break;
			}
	}
}

static void program_begin(struct rank *r, struct program *p)
{
	p->device = r->rank % NCCL_DEVICES;
	p->want = calloc((size_t)r->nranks, sizeof(*p->want));
	for (int k = 0; k < r->nranks; k++)
		for (int b = 0; b < 2 * BUFFERS; b++)
			for (int i = 0; i < MOST; i++)
				p->want[k][b / BUFFERS][b % BUFFERS][i] =
					(uint64_t)(b + 1) << (8 * k) ^ (unsigned)(i * 7 + k);
	for (int b = 0; b < BUFFERS; b++) {
		p->there[b] = device_new(p->device, BYTES, 0);
		p->here[b] = malloc(WHOLE);
		device_move(p->device, p->there[b], p->want[r->rank][0][b], WHOLE);
		memcpy(p->here[b], p->want[r->rank][1][b], WHOLE);
	}
}

static void program_end(struct rank *r, struct program *p)
{
	(void)r;
	for (int b = 0; b < BUFFERS; b++) {
		device_free(p->device, p->there[b]);
		free(p->here[b]);
	}
	free(p->want);
}

static void random_program(struct rank *r, int with_stream)
{
	for (unsigned round = 1; round <= 3 && !r->failure[0]; round++) {
		struct program p = {.seed = round * 10 + (unsigned)with_stream};
		char what[40];

		program_begin(r, &p);
		if (with_stream)
			p.stream = nccl_stream(p.device);
		for (int i = 0; i < STEPS && do_step(r, &p); i++)
			;
		rank_did(r, coll_sync(r->comm), "sync");
		if (with_stream && nccl_stream_do(p.device, p.stream, cuStreamSynchronize))
			rank_fail(r, "the stream has failed");
		rank_did(r, coll_sync(r->comm), "sync");
		snprintf(what, sizeof(what), "round %u", round);
		compare(r, &p, what);
		if (with_stream)
			nccl_stream_do(p.device, p.stream, cuStreamDestroy_v2);
		program_end(r, &p);
	}
}

static void own_stream(struct rank *r)
{
	random_program(r, 0);
}

static void both_streams(struct rank *r)
{
	random_program(r, 1);
}

/* ---------------------------------------------------------------------------------- waits -- */

/* The staged call waits for the backend's call before it, which waits for a stream that is held. */
static void after_native(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES;
	int64_t x = INT64_C(1) << r->rank, *there = nccl_new(device, &x, 1);
	void *stream = nccl_stream(device);
	struct nccl_gate gate = {0};
	coll_event_t event;
	coll_request_t request;
	int32_t done = 1;

	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	nccl_gate(&gate, device, stream);
	rank_did(r, coll_event_record_on_stream(event, r->comm, stream), "record_on_stream");
	rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
	rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "native");
	rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_BOR, r->comm, NULL), "staged");
	rank_did(r, coll_get_request(r->comm, &request), "get_request");
	rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "native");
	for (int i = 0; i < 20; i++) {
		rank_did(r, coll_test(request, &done), "test");
		ranks_sleep(0.001);
	}
	if (done)
		rank_fail(r, "the staged call did not wait");
	nccl_open(&gate);
	rank_did(r, coll_wait(request), "wait");
	rank_did(r, coll_request_free(request), "free");
	rank_did(r, coll_sync(r->comm), "sync");
	x = ((INT64_C(1) << r->nranks) - 1) * r->nranks;
	if (nccl_value(device, there) != x)
		rank_fail(r, "%lld, not %lld", (long long)nccl_value(device, there), (long long)x);
	rank_did(r, coll_event_destroy(event), "event_destroy");
	nccl_stream_do(device, stream, cuStreamDestroy_v2);
	device_free(device, there);
}

/* The stream of a staged call: the call waits for it, and it for the call. */
static void with_stream(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES;
	int64_t x = INT64_C(1) << r->rank, *there = nccl_new(device, &x, 1);
	void *stream = nccl_stream(device);
	struct nccl_gate gate = {0};

	nccl_gate(&gate, device, stream);
	rank_did(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_BOR, r->comm, stream),
		 "staged");
	ranks_sleep(0.01);
	if (nccl_value(device, there) != x && r->nranks > 1)
		rank_fail(r, "the call did not wait for its stream");
	nccl_open(&gate);
	if (nccl_stream_do(device, stream, cuStreamSynchronize))
		rank_fail(r, "the stream has failed");
	if (nccl_value(device, there) != (INT64_C(1) << r->nranks) - 1)
		rank_fail(r, "the stream did not wait: %lld", (long long)nccl_value(device, there));
	rank_did(r, coll_sync(r->comm), "sync");
	nccl_stream_do(device, stream, cuStreamDestroy_v2);
	device_free(device, there);
}

/* Rank 0 makes no staged call and aborts: the others' streams do not wait any longer. */
/* Ranks that are done with all before the calls that the abort ends; in memory that the ranks share. */
static _Atomic int *aborted_past;

static void aborted(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES;
	int64_t x = 1, *there = nccl_new(device, &x, 1);
	void *stream = nccl_stream(device);
	int code = 0;

	nccl_works(r);
	if (r->rank) {
		atomic_fetch_add(aborted_past, 1);
		code = coll_allreduce(there, there, 1, COLL_INT64, COLL_BOR, r->comm, stream);
		if (!code)
			code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
	} else {
		while (atomic_load(aborted_past) < r->nranks - 1)
			ranks_sleep(0.001);
		atomic_store(aborted_past, 0);
		ranks_sleep(0.05);
		rank_did(r, coll_comm_abort(r->comm), "abort");
	}
	if (!code)
		code = coll_sync(r->comm);
	if (code != (r->rank ? COLL_ERR_REMOTE : COLL_ERR_ABORTED))
		rank_fail(r, "%d (%s)", code, coll_get_last_error(NULL));
	if (nccl_stream_do(device, stream, cuStreamSynchronize))
		rank_fail(r, "the stream has failed");
	nccl_stream_do(device, stream, cuStreamDestroy_v2);
	device_free(device, there);
}

/* -------------------------------------------------------------------------------- refused -- */

/* A list of device memory is staged as a whole. */
static void lists(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES;
	int64_t x[RANKS_MAX + 1] = {0}, *there;
	const void *list[RANKS_MAX];

	for (int i = 0; i < r->nranks; i++)
		x[i] = INT64_C(1) << (r->rank + 8 * i);
	there = nccl_new(device, x, r->nranks + 1);
	for (int i = 0; i < r->nranks; i++)
		list[i] = there + i;
	rank_did(r,
		 coll_reduce_scatter_list(list, there + r->nranks, 1, COLL_INT64, COLL_BOR, r->comm,
					  NULL),
		 "reduce_scatter_list");
	rank_did(r, coll_sync(r->comm), "sync");
	if (nccl_value(device, there + r->nranks) != ((INT64_C(1) << r->nranks) - 1) << 8 * r->rank)
		rank_fail(r, "%llx", (long long)nccl_value(device, there + r->nranks));
	rank_did(r, coll_group_start(), "group_start");
	nccl_fails(r,
		   coll_reduce_scatter_list(list, there + r->nranks, 1, COLL_INT64, COLL_BOR,
					    r->comm, NULL),
		   COLL_ERR_UNSUPPORTED, "call it before or after the group", "in a group");
	rank_did(r, coll_group_end(), "group_end");
	both_sum(r, r->comm, 1, r->nranks, "after them");
	device_free(device, there);
}

static void without_order(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_ALLREDUCE,
			    .dtype = COLL_INT64,
			    .op = COLL_BOR,
			    .sendbuf = there,
			    .recvbuf = there,
			    .count = 1};
	coll_request_t request;

	rank_did(r, coll_group_start(), "group_start");
	nccl_fails(r, coll_allreduce(there, there, 1, COLL_INT64, COLL_BOR, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED, "call it before or after the group", "in a group");
	rank_did(r, coll_group_end(), "group_end");
	nccl_fails(r, coll_request_init(r->comm, &args, &request), COLL_ERR_UNSUPPORTED,
		   "use coll_request_issue", "a persistent request");
	nccl_fails(r, coll_recv(there, 1, COLL_INT64, COLL_ANY_SOURCE, 0, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED, "here and to the send", "any source");
	rank_did(r, coll_request_issue(r->comm, &args, &request), "request_issue");
	rank_did(r, coll_wait(request), "wait");
	rank_did(r, coll_request_free(request), "free");
	both_sum(r, r->comm, 1, r->nranks, "after them");
	device_free(r->rank, there);
}

/* One thread has all ranks: no call waits for the calls of the others. */
static void test_one_thread(void)
{
	enum { N = 3 };
	coll_comm_t comms[N];
	coll_config_t config;
	int64_t *there[N], x;
	int bad = 0;

	ranks_config(&config, "nccl");
	is_int(coll_comm_init_all(comms, N, NULL, &config), 0, "init_all");
	for (int r = 0; r < N; r++) {
		x = 1 << r;
		there[r] = nccl_new(r, &x, 1);
	}
	/* NCCL connects the ranks with the first call, and the next one waits for that. */
	bad += coll_group_start() != 0;
	for (int r = 0; r < N; r++)
		bad += coll_allreduce(there[r], there[r], 1, COLL_INT64, COLL_MAX, comms[r],
				      NULL) != 0;
	bad += coll_group_end() != 0;
	for (int r = 0; r < N; r++) {
		bad += coll_sync(comms[r]) != 0;
		x = 1 << r;
		device_move(r, there[r], &x, sizeof(x));
	}
	for (int i = 0; i < 20; i++)
		for (int r = 0; r < N; r++)
			for (int op = 0; op < 3; op++)
				bad += coll_allreduce(there[r], there[r], 1, COLL_INT64,
						      op ? COLL_MAX : COLL_BOR, comms[r],
						      NULL) != 0;
	for (int r = 0; r < N; r++)
		bad += coll_sync(comms[r]) != 0;
	for (int r = 0; r < N; r++) {
		bad += nccl_value(r, there[r]) != (1 << N) - 1;
		bad += coll_comm_destroy(comms[r]) != 0;
		device_free(r, there[r]);
	}
	is_int(bad, 0, "one thread with %d ranks", N);
}

int main(int argc, char **argv)
{
	static const struct host_job jobs[] = {
		{own_stream, "random programs", 1},
		{both_streams, "random programs with a stream of the program", 1},
		{after_native, "a staged call waits for the backend's, and the next for it", 1},
		{with_stream, "a staged call with a stream", 1},
		{lists, "a list of device memory", 1},
		{without_order, "refused in groups and persistent requests", 1},
		{aborted, "an abort releases the streams", 2},
		{NULL, NULL, 0}};

	(void)argc;
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
	setenv("COLL_LOG", "error", 0);
	nccl_begin(argv, ".libs");
	aborted_past = ranks_memory(sizeof(*aborted_past));
	host_run(jobs);
	nccl_hold_devices();
	test_one_thread();
	nccl_drop_devices();
	return done_testing();
}
