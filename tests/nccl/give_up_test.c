/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * give_up_test.c - aborts of the nccl backend that cannot end the work: each returns within its bound, and the log says
 * what goes on.
 *
 * All ranks are processes, so that each has a log and a device of its own.
 *
 *   give_up_test [FOLDERS]   FOLDERS: those of the stand-ins, relative to fakes
 */
#include "harness.h"

/* A bound far above the seconds that aborts may take, and far below the timeouts. */
enum { SOON = 20 };
enum { ROOM = 16 }; /* pieces of work that a stream takes */

/* Of rank 0, whose abort gives up, to the other rank. */
struct stage {
	_Atomic int over;
	_Atomic int making;     /* number of ranks whose communicators NCCL makes */
	_Atomic int records;    /* of events, begun by rank 0 */
	struct nccl_gate *gate; /* of rank 0 */
	int old;                /* NCCL has no ncclCommRevoke */
};

static void logged(struct rank *r, const char *piece)
{
	for (double end = ranks_now() + SOON; !log_lines(piece) && ranks_now() < end;)
		ranks_sleep(0.01);
	if (!log_lines(piece))
		rank_fail(r, "the log does not say '%s'", piece);
}

static void in_time(struct rank *r, double begin, const char *what)
{
	if (ranks_now() - begin > SOON)
		rank_fail(r, "%s took %.1f s", what, ranks_now() - begin);
}

/* The backend has taken the abort, or the abort itself has given up. */
static void abort_in_time(struct rank *r)
{
	double begin = ranks_now();
	int code = coll_comm_abort(r->comm);

	if (code)
		nccl_fails(r, code, COLL_ERR_TIMEOUT,
			   "'nccl' has not returned within 1000 ms; the abort takes effect when",
			   "abort");
	in_time(r, begin, "abort");
}

static void destroy_in_time(struct rank *r)
{
	double begin = ranks_now();

	rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
	in_time(r, begin, "destroy");
}

static int sum(struct rank *r, int64_t *there, void *stream)
{
	return coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, stream);
}

static void until_over(struct stage *s)
{
	for (double end = ranks_now() + 60; !atomic_load(&s->over) && ranks_now() < end;)
		ranks_sleep(0.001);
}

/* ----------------------------------------------------------------- work of the program -- */

/* Work of the program, before the communicator's on one stream, does not end. */
static void behind_work(struct rank *r)
{
	struct stage *s = r->user;
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	void *stream = nccl_stream(r->rank);
	struct nccl_gate gate = {0};

	nccl_works(r);
	if (r->rank == 0) {
		log_begin();
		nccl_gate(&gate, 0, stream);
		rank_did(r, sum(r, there, stream), "a call behind other work");
		abort_in_time(r);
		logged(r, s->old ? "NCCL's abort has not returned within 1000 ms and goes on in "
				   "the background"
				 : "NCCL has not ended its work within 1000 ms of an abort");
		nccl_fails(r, coll_sync(r->comm), COLL_ERR_ABORTED, "abort", "sync");
		nccl_open(&gate);
		nccl_stream_do(0, stream, cuStreamSynchronize);
		log_end();
		atomic_store(&s->over, 1);
	}
	until_over(s);
	destroy_in_time(r);
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

/* The communicator's stream waits for such work. */
static void behind_event(struct rank *r)
{
	struct stage *s = r->user;
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	void *stream = nccl_stream(r->rank);
	struct nccl_gate gate = {0};
	coll_event_t event;

	nccl_works(r);
	if (r->rank == 0 && rank_did(r, coll_event_create(r->comm, &event), "event")) {
		log_begin();
		nccl_gate(&gate, 0, stream);
		rank_did(r, coll_event_record_on_stream(event, r->comm, stream), "record");
		rank_did(r, coll_comm_wait_event(r->comm, event), "wait_event");
		rank_did(r, sum(r, there, NULL), "a call behind an event");
		abort_in_time(r);
		logged(r, "work on CUDA device 0 did not end within 1000 ms of an abort");
		nccl_open(&gate);
		nccl_stream_do(0, stream, cuStreamSynchronize);
		log_end();
		rank_did(r, coll_event_destroy(event), "event_destroy");
		atomic_store(&s->over, 1);
	}
	until_over(s);
	destroy_in_time(r);
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

/* Work of the program fills its stream, in which the thread puts an event. */
static void *record_until_over(void *arg)
{
	struct rank *r = arg;
	void *stream = nccl_stream(r->rank);
	struct nccl_gate gate = {0};
	struct stage *s = r->user;
	coll_event_t event;
	int code = COLL_SUCCESS;

	rank_did(r, coll_event_create(r->comm, &event), "event");
	nccl_gate(&gate, r->rank, stream);
	s->gate = &gate;
	for (int i = 0; i < 2 * ROOM && !code; i++) {
		atomic_fetch_add(&s->records, 1);
		code = coll_event_record_on_stream(event, r->comm, stream);
	}
	nccl_fails(r, code, COLL_ERR_ABORTED, "abort", "record");
	nccl_stream_do(r->rank, stream, cuStreamSynchronize);
	rank_did(r, coll_event_destroy(event), "event_destroy");
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	return NULL;
}

/* The abort ends when the program's work does. */
static void in_full_stream(struct rank *r)
{
	struct stage *s = r->user;
	pthread_t thread;

	nccl_works(r);
	if (r->rank == 0) {
		log_begin();
		if (pthread_create(&thread, NULL, record_until_over, r))
			bail_out("cannot start a thread");
		for (double end = ranks_now() + SOON;
		     atomic_load(&s->records) < ROOM && ranks_now() < end;)
			ranks_sleep(0.001);
		ranks_sleep(0.3);
		nccl_fails(r, coll_comm_abort(r->comm), COLL_ERR_TIMEOUT, "takes effect when",
			   "abort");
		logged(r, s->old ? "cannot be aborted (if NCCL's work keeps its stream full"
				 : "cannot be aborted (other work than NCCL's");
		nccl_open(s->gate);
		pthread_join(thread, NULL);
		log_end();
		atomic_store(&s->over, 1);
	}
	until_over(s);
	destroy_in_time(r);
}

/* ------------------------------------------------------------------------ blocking calls -- */

struct call {
	struct rank *r;
	int64_t *there;
	int grouped;
};

/* The first call, which with blocking = yes waits in NCCL for the other rank. */
static void *call_first(void *arg)
{
	struct call *c = arg;

	if (c->grouped)
		rank_did(c->r, coll_group_start(), "group_start");
	for (int i = 0; i <= c->grouped; i++)
		(void)!sum(c->r, c->there, NULL);
	if (c->grouped)
		(void)!coll_group_end();
	return NULL;
}

/* Waits until another thread has called the function, and is likely to wait in it. */
static void until_called(const char *function, long before)
{
	for (double end = ranks_now() + SOON; nccl_calls(function) == before && ranks_now() < end;)
		ranks_sleep(0.001);
	ranks_sleep(0.3);
}

static void blocking(struct rank *r, int grouped, const char *words)
{
	const char *function = grouped ? "ncclGroupEnd" : "ncclAllReduce";
	struct stage *s = r->user;
	int64_t x = 1;
	struct call c = {r, nccl_new(r->rank, &x, 1), grouped};
	pthread_t thread;
	long before;

	if (r->rank == 0) {
		log_begin();
		before = nccl_calls(function);
		if (pthread_create(&thread, NULL, call_first, &c))
			bail_out("cannot start a thread");
		until_called(function, before);
		abort_in_time(r);
		logged(r, words);
		atomic_store(&s->over, 1);
		pthread_join(thread, NULL);
		log_end();
	} else {
		until_over(s);
		call_first(&c);
		rank_did(r, coll_comm_abort(r->comm), "abort");
	}
	destroy_in_time(r);
	device_free(r->rank, c.there);
}

static void blocking_call(struct rank *r)
{
	blocking(r, 0,
		 "has not returned within 1000 ms and cannot be aborted (with nccl.blocking = no");
}

static void blocking_group(struct rank *r)
{
	blocking(r, 1, "a thread has not ended its group within 1000 ms of an abort");
}

/* The companion hears that the other rank has failed, while a call waits in NCCL for its connection: the log says so. */
static void blocking_told(struct rank *r)
{
	struct stage *s = r->user;
	int64_t x = 1;
	struct call c = {r, nccl_new(r->rank, &x, 1), 0};
	pthread_t thread;
	long before;

	if (r->rank == 1) {
		until_over(s);
		rank_did(r, coll_comm_abort(r->comm), "abort");
		destroy_in_time(r);
		device_free(r->rank, c.there);
		return;
	}
	log_begin();
	before = nccl_calls("ncclAllReduce");
	if (pthread_create(&thread, NULL, call_first, &c))
		bail_out("cannot start a thread");
	until_called("ncclAllReduce", before);
	atomic_store(&s->over, 1);
	logged(r, "rank 0: backend 'nccl' does not return from a call, although the communicator "
		  "has failed: rank 1 aborted the communicator");
	log_end();
	_exit(0); /* the call does not end */
}

/* ------------------------------------------------------------------------- a busy device -- */

struct split {
	struct rank *r;
	long before; /* number of calls of NCCL that had begun to make communicators */
};

static long making_calls(void)
{
	return nccl_calls("ncclCommInitRankConfig") + nccl_calls("ncclCommSplit");
}

/* Aborts when NCCL makes the communicators of both ranks: before, the ranks still meet, and an abort of one fails the other's. */
static void *abort_making(void *arg)
{
	const struct split *split = arg;
	struct stage *s = split->r->user;
	const double end = ranks_now() + SOON;

	while (making_calls() == split->before && ranks_now() < end)
		ranks_sleep(0.001);
	atomic_fetch_add(&s->making, 1);
	while (atomic_load(&s->making) < split->r->nranks && ranks_now() < end)
		ranks_sleep(0.001);
	ranks_sleep(0.2);
	coll_comm_abort(split->r->comm);
	return NULL;
}

/*
 * NCCL does not end a split, which is aborted while other work keeps the device busy: NCCL frees memory of both
 * communicators, for which CUDA waits.
 */
static void split_beside_work(struct rank *r)
{
	void *stream = nccl_stream(r->rank);
	struct nccl_gate gate = {0};
	struct split split = {.r = r};
	coll_comm_t half = NULL;
	pthread_t thread;
	double begin;

	nccl_works(r);
	split.before = making_calls();
	log_begin();
	nccl_gate(&gate, r->rank, stream);
	setenv("STANDIN_CUDA_FREE", "wait", 1);
	setenv("STANDIN_NCCL_INIT_HANG", "1", 1);
	begin = ranks_now();
	if (pthread_create(&thread, NULL, abort_making, &split))
		bail_out("cannot start a thread");
	nccl_fails(r, coll_comm_split(r->comm, 0, 0, &half, NULL), COLL_ERR_ABORTED, "", "split");
	pthread_join(thread, NULL);
	destroy_in_time(r);
	in_time(r, begin, "split, abort and destroy");
	nccl_open(&gate);
	nccl_stream_do(r->rank, stream, cuStreamSynchronize);
	log_end();
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
}

int main(int argc, char **argv)
{
	struct stage *s = ranks_memory(sizeof(*s));
	const struct {
		void (*fn)(struct rank *r);
		const char *blocking, *name;
		const char *companion;
	} tests[] = {
		{behind_work, "no", "an abort of work behind the program's", "none"},
		{behind_event, "no", "an abort of work behind an event", "none"},
		{in_full_stream, "no", "an abort of a call that the program's work blocks", "none"},
		{blocking_call, "yes", "an abort of a call that cannot be aborted", "none"},
		{blocking_group, "yes", "an abort of a group that cannot be aborted", "none"},
		{split_beside_work, "no", "an abort during a split, on a busy device", "none"},
		{blocking_told, "yes", "another rank's failure while a call cannot be aborted",
		 "tcp"},
	};

	s->old = argc > 1;
	nccl_begin(argv, argc > 1 ? argv[1] : ".libs");
	setenv("COLL_DESTROY_TIMEOUT", "1s", 1);
	setenv("STANDIN_CUDA_ROOM", "16", 1);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++) {
		/* Before 2.22 only messages connect ranks late. */
		if (s->old && strcmp(tests[i].blocking, "yes") == 0)
			continue;
		*s = (struct stage){.old = s->old};
		setenv("COLL_NCCL_BLOCKING", tests[i].blocking, 1);
		setenv("COLL_COMPANION", tests[i].companion, 1);
		nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, tests[i].fn, s}, "%s",
			tests[i].name);
	}
	return done_testing();
}
