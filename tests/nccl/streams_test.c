/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * streams_test.c - calls on different streams of one communicator, without a wait between: NCCL orders its operations,
 * and the library its copies and staged calls with them.
 */
#include "host.h"

enum { BLOCK = 3000, MOST = BLOCK * 4 }; /* elements: of one rank's part, and of all */
enum { GROUPS = 10 };

/* The kinds of calls.  Each works on the same memory, and finds there the result of the one before it. */
enum { NATIVE, IN_PLACE, UNALIGNED, STAGED, KINDS, EMPTY = KINDS };
static const char *const names[] = {"native", "alltoall in place", "unaligned", "staged", "empty"};

struct data {
	int device;
	size_t n;
	char *there;            /* of MOST elements, at an odd address */
	void *streams[3];       /* NULL, and two of the program */
	uint64_t (*want)[MOST]; /* per rank */
};

/* Aligned calls move bytes or work one byte away from the others: so all kinds share their memory. */
static int call(struct rank *r, const struct data *d, int kind, void *stream)
{
	char *x = d->there;

	switch (kind) {
	case NATIVE: return coll_broadcast(x, x, d->n * 8, COLL_INT8, 0, r->comm, stream);
	case IN_PLACE:
		return coll_alltoall(x, x, d->n / (size_t)r->nranks, COLL_UINT64, r->comm, stream);
	case EMPTY: return coll_allreduce(x, x, 0, COLL_UINT64, COLL_SUM, r->comm, stream);
	case UNALIGNED: return coll_allreduce(x, x, d->n, COLL_UINT64, COLL_SUM, r->comm, stream);
	default: return coll_allreduce(x, x, d->n * 8, COLL_UINT8, COLL_BOR, r->comm, stream);
	}
}

/* The same on the expected values. */
static void refer(const struct rank *r, struct data *d, int kind)
{
	const size_t part = d->n / (size_t)r->nranks;
	uint64_t(*was)[MOST], x;

	if (kind == EMPTY)
		return;
	was = malloc(sizeof(*was) * (size_t)r->nranks);
	memcpy(was, d->want, sizeof(*was) * (size_t)r->nranks);
	for (int k = 0; k < r->nranks; k++)
		for (size_t i = 0; i < d->n; i++) {
			x = kind == NATIVE     ? was[0][i]
			    : kind == IN_PLACE ? was[i / part][(size_t)k * part + i % part]
					       : 0;
			for (int from = 0; from < r->nranks && kind >= UNALIGNED; from++)
				x = kind == STAGED ? x | was[from][i] : x + was[from][i];
			d->want[k][i] = x;
		}
	free(was);
}

static void begin(struct rank *r, struct data *d)
{
	d->device = r->rank % NCCL_DEVICES;
	d->n = (size_t)r->nranks * BLOCK;
	d->there = (char *)device_new(d->device, MOST * 8 + 8, 0) + 1;
	d->want = malloc(sizeof(*d->want) * (size_t)r->nranks);
	for (int i = 1; i < 3; i++)
		d->streams[i] = nccl_stream(d->device);
}

/* New values, which no call has made equal on all ranks. */
static void fill(const struct rank *r, const struct data *d, int round)
{
	for (int k = 0; k < r->nranks; k++)
		for (int i = 0; i < MOST; i++)
			d->want[k][i] = UINT64_C(5) << (8 * k) | (unsigned)(i + 7 * round) % 251;
	device_move(d->device, d->there, d->want[r->rank], d->n * 8);
}

static void wait_all(struct rank *r, const struct data *d)
{
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 1; i < 3; i++)
		if (nccl_stream_do(d->device, d->streams[i], cuStreamSynchronize))
			rank_fail(r, "the stream has failed");
	rank_did(r, coll_sync(r->comm), "sync");
}

static void end(struct data *d)
{
	for (int i = 1; i < 3; i++)
		nccl_stream_do(d->device, d->streams[i], cuStreamDestroy_v2);
	device_free(d->device, d->there - 1);
	free(d->want);
}

static void compare(struct rank *r, const struct data *d, const char *what)
{
	static __thread uint64_t got[MOST];

	device_move(d->device, got, d->there, d->n * 8);
	for (size_t i = 0; i < d->n; i++)
		if (got[i] != d->want[r->rank][i]) {
			rank_fail(r, "%s: %llx at %zu, not %llx", what, (unsigned long long)got[i],
				  i, (unsigned long long)d->want[r->rank][i]);
			return;
		}
}

/* The stream of the first call is held until both are issued.  One without elements, on the third stream, is no work. */
static void try_pair(struct rank *r, struct data *d, int first, int second, int one, int other)
{
	void *held = nccl_stream(d->device);
	struct nccl_gate gate = {0};
	coll_event_t event;
	char what[80];

	snprintf(what, sizeof(what), "%s on stream %d, %s on stream %d", names[first], one,
		 names[second], other);
	fill(r, d, one);
	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	nccl_gate(&gate, d->device, held);
	rank_did(r, coll_event_record_on_stream(event, r->comm, held), "record_on_stream");
	if (d->streams[one])
		rank_did(r, coll_stream_wait_event(r->comm, d->streams[one], event), "wait_event");
	else
		rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
	rank_did(r, call(r, d, first, d->streams[one]), what);
	rank_did(r, call(r, d, EMPTY, d->streams[3 - one - other]), "empty");
	rank_did(r, call(r, d, second, d->streams[other]), what);
	ranks_sleep(0.002);
	nccl_open(&gate);
	refer(r, d, first);
	refer(r, d, second);
	wait_all(r, d);
	compare(r, d, what);
	rank_did(r, coll_event_destroy(event), "event_destroy");
	nccl_stream_do(d->device, held, cuStreamDestroy_v2);
}

static void pairs(struct rank *r)
{
	struct data d = {0};

	begin(r, &d);
	for (int i = 0; i < KINDS * KINDS * 9 && !r->failure[0]; i++)
		if (i / 3 % 3 != i % 3)
			try_pair(r, &d, i / 9 % KINDS, i / 9 / KINDS, i / 3 % 3, i % 3);
	end(&d);
}

/* Several in a row, with the same choices on all ranks; the streams differ. */
static void random_rows(struct rank *r)
{
	unsigned shared = 7, own = 40 + (unsigned)r->rank;
	struct data d = {0};

	begin(r, &d);
	for (int round = 0; round < 30 && !r->failure[0]; round++) {
		char what[40];

		fill(r, &d, round);
		for (int i = 0; i < 6; i++) {
			const int kind = rand_r(&shared) % (KINDS + 1);

			rank_did(r, call(r, &d, kind, d.streams[rand_r(&own) % 3]), names[kind]);
			refer(r, &d, kind);
		}
		wait_all(r, &d);
		snprintf(what, sizeof(what), "round %d", round);
		compare(r, &d, what);
	}
	end(&d);
}

/* ------------------------------------------------------------------- device memory -- */

/* Groups of calls that need device memory for copies: each group uses that of the one before it again. */
static void groups(struct rank *r)
{
	struct data d = {0};
	unsigned long before = 0;

	begin(r, &d);
	fill(r, &d, 0);
	for (int round = 0; round < GROUPS && !r->failure[0]; round++) {
		rank_did(r, coll_group_start(), "group_start");
		for (int i = 0; i < 2; i++)
			rank_did(r, call(r, &d, IN_PLACE, d.streams[i]), names[IN_PLACE]);
		rank_did(r, coll_group_end(), "group_end");
		wait_all(r, &d);
		if (!round)
			before = standin_allocations();
	}
	if (standin_allocations() != before)
		rank_fail(r, "%lu allocations of device memory in %d groups like the first",
			  standin_allocations() - before, GROUPS - 1);
	end(&d);
}

/* ------------------------------------------------------------------------- threads -- */

/* A call of another thread, on that thread's default stream. */
struct other {
	struct rank *r;
	const struct data *d;
	int kind;
	struct nccl_gate *gate; /* to be opened once the call is made */
};

static void *call_in_thread(void *arg)
{
	struct other *o = arg;

	rank_did(o->r, call(o->r, o->d, o->kind, CU_STREAM_PER_THREAD), names[o->kind]);
	nccl_open(o->gate);
	if (nccl_stream_do(o->d->device, CU_STREAM_PER_THREAD, cuStreamSynchronize))
		rank_fail(o->r, "the other thread's stream has failed");
	return NULL;
}

/* One handle names the default streams of both threads.  That of the first one is held until both calls are made. */
static void try_threads(struct rank *r, struct data *d, int first, int second)
{
	struct nccl_gate gate = {0};
	struct other other = {r, d, second, &gate};
	char what[80];
	pthread_t thread;

	snprintf(what, sizeof(what), "%s, then %s by another thread", names[first], names[second]);
	fill(r, d, first);
	nccl_gate(&gate, d->device, CU_STREAM_PER_THREAD);
	rank_did(r, call(r, d, first, CU_STREAM_PER_THREAD), what);
	if (pthread_create(&thread, NULL, call_in_thread, &other))
		bail_out("cannot start a thread");
	pthread_join(thread, NULL);
	if (nccl_stream_do(d->device, CU_STREAM_PER_THREAD, cuStreamSynchronize))
		rank_fail(r, "the stream has failed");
	refer(r, d, first);
	refer(r, d, second);
	compare(r, d, what);
}

static void threads(struct rank *r)
{
	struct data d = {0};

	begin(r, &d);
	/* Once NCCL has connected the ranks, no call waits for others. */
	for (int kind = 0; kind < STAGED; kind++)
		rank_did(r, call(r, &d, kind, NULL), names[kind]);
	wait_all(r, &d);
	for (int i = 0; i < STAGED * STAGED && !r->failure[0]; i++)
		try_threads(r, &d, i / STAGED, i % STAGED);
	end(&d);
}

int main(int argc, char **argv)
{
	static const struct host_job jobs[] = {{pairs, "two calls on two streams", 1},
					       {random_rows, "rows of calls on three streams", 1},
					       {threads, "default streams of two threads", 1},
					       {NULL, NULL, 0}};

	(void)argc;
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
	setenv("COLL_LOG", "error", 0);
	nccl_begin(argv, ".libs");
	nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, groups, NULL},
		"device memory for copies, in groups");
	host_run(jobs);
	return done_testing();
}
