/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging_fault_test.c - operations that fail while their copies are under way: the driver fails, a
 * rank aborts, a rank dies, a device does not end its work.  Every rank soon learns the cause, and
 * after a call has returned the error no copy touches the buffers.
 */
#include "staging_harness.h"

/* Verifies that this rank's buffers do not change after a failure. */
struct remains {
	int32_t *send, *recv;
	size_t bytes;
};

static void remains_begin(struct remains *m, size_t count)
{
	m->bytes = count * 4;
	m->send = device_new(0, m->bytes, 0);
	m->recv = device_new(0, m->bytes, 0);
}

static void remains_end(struct rank *r, struct remains *m)
{
	char *pattern = malloc(m->bytes), *found = malloc(m->bytes);

	if (!pattern || !found)
		bail_out("no memory");
	memset(pattern, 0x5a, m->bytes);
	device_move(0, m->recv, pattern, m->bytes);
	ranks_sleep(0.05);
	device_move(0, found, m->recv, m->bytes);
	if (memcmp(pattern, found, m->bytes))
		rank_fail(r, "the receive buffer was written after the failure");
	free(pattern);
	free(found);
	device_free(0, m->send);
	device_free(0, m->recv);
}

/* ------------------------------------------------------------------ the driver fails -- */

struct trouble {
	pthread_barrier_t ready;
	const char *variable;
	int kind, result, after, counts;
};

/* The unit of `after`: copies, work on streams, or calls of this process. */
enum { COPIES, WORKS, CALLS };

static void inject(struct rank *r, struct trouble *t)
{
	unsigned long before = t->counts == COPIES  ? standin_copies()
			       : t->counts == WORKS ? standin_works()
						    : 0;
	char fault[64];

	pthread_barrier_wait(&t->ready);
	snprintf(fault, sizeof(fault), "%d@%lu", t->result, before + (unsigned long)t->after);
	if (r->rank == 0)
		setenv(t->variable, fault, 1);
	pthread_barrier_wait(&t->ready);
}

static void inject_end(struct rank *r, struct trouble *t)
{
	pthread_barrier_wait(&t->ready);
	if (r->rank == 0)
		unsetenv(t->variable);
	pthread_barrier_wait(&t->ready);
}

static void fails(struct rank *r)
{
	struct trouble *t = r->user;
	const struct oracle_case like = stage_case(r, t->kind, 0, MOST);
	struct oracle_call c;
	struct remains m;
	coll_request_t request = NULL;
	double begin = ranks_now();
	const char *text;
	int code;

	if (oracle_call_begin(&c, &like, r->rank, r->nranks))
		bail_out("no memory");
	remains_begin(&m, (c.bytes[0] > c.bytes[1] ? c.bytes[0] : c.bytes[1]) / 4 + 1);
	oracle_call_place(&c, m.send, m.recv);
	code = coll_request_init(r->comm, &c.args, &request);
	inject(r, t);
	if (!code)
		code = coll_request_start(request);
	if (!code)
		code = coll_wait(request);
	if (!code) /* the rank's own part was complete before another rank failed */
		code = coll_barrier(r->comm);
	text = coll_get_last_error(NULL);
	if ((code != COLL_ERR_DEVICE && code != COLL_ERR_REMOTE) || !strstr(text, "rank ") ||
	    !strstr(text, t->result == 2 ? "out of memory (2, CUDA_ERROR_OUT_OF_MEMORY)"
					 : "(700, CUDA_ERROR_ILLEGAL_ADDRESS)"))
		rank_fail(r, "%d (%s)", code, text);
	if (ranks_now() - begin > 60)
		rank_fail(r, "it took too long");
	inject_end(r, t);
	if (t->counts != WORKS) /* work that failed leaves the device unusable */
		remains_end(r, &m);
	rank_did(r, coll_request_free(request), "request_free");
	oracle_call_end(&c);
}

static void test_failure(const char *backend, struct trouble t, const char *what)
{
	pthread_barrier_init(&t.ready, NULL, 2);
	ranks_ok(&(struct ranks_job){backend, 2, 0, fails, &t}, "%s %d: %s: %s", t.variable + 13,
		 t.after, coll_kind_name(t.kind), what);
	pthread_barrier_destroy(&t.ready);
}

static void test_copies(const char *backend)
{
	static const int kinds[] = {COLL_KIND_ALLREDUCE, COLL_KIND_ALLTOALLV, COLL_KIND_BROADCAST};
	static const int after[] = {0, 1, 2, 5, 8, 11, 14, 17, 20};

	for (int k = 0; k < 3; k++)
		for (int i = 0; i < (int)(sizeof(after) / sizeof(after[0])); i++)
			/*
			 * A broadcast makes 6 copies in and 12 out; an alltoallv makes about as
			 * many.
			 */
			if (after[i] < 20 - 6 * k)
				test_failure(backend,
					     (struct trouble){.variable = "STANDIN_CUDA_COPY",
							      .kind = kinds[k],
							      .result = 700,
							      .after = after[i]},
					     "a copy fails");
}

static void test_driver(void)
{
	struct trouble t = {.variable = "STANDIN_CUDA_STREAM",
			    .kind = COLL_KIND_ALLREDUCE,
			    .result = 2,
			    .counts = CALLS};

	test_failure("simulated", t, "no stream");
	t.variable = "STANDIN_CUDA_EVENT";
	test_failure("tcp", t, "no event");
}

/* -------------------------------------------------------------------- somebody aborts -- */

static void *aborting(void *comm)
{
	ranks_sleep(0.05);
	coll_comm_abort(comm);
	return NULL;
}

static void aborted(struct rank *r)
{
	struct remains m;
	pthread_t thread;
	double begin = ranks_now();
	int code;

	remains_begin(&m, 64 * CHUNK);
	if (r->rank == 0 && pthread_create(&thread, NULL, aborting, r->comm))
		bail_out("no thread");
	code = coll_allreduce(m.send, m.recv, 64 * CHUNK, COLL_INT32, COLL_SUM, r->comm, NULL);
	if (!code)
		code = coll_sync(r->comm);
	if (code != (r->rank ? COLL_ERR_REMOTE : COLL_ERR_ABORTED))
		rank_fail(r, "%d (%s)", code, coll_get_last_error(NULL));
	if (ranks_now() - begin > 20)
		rank_fail(r, "it took too long");
	if (r->rank == 0)
		pthread_join(thread, NULL);
	remains_end(r, &m);
}

/* --------------------------------------------------------------------- a rank dies -- */

static void killed(struct rank *r)
{
	struct remains m;
	int code;

	device_init();
	remains_begin(&m, 512 * CHUNK);
	rank_did(r, coll_barrier(r->comm), "barrier");
	setenv("STANDIN_CUDA_DELAY_US", "5000", 1);
	code = coll_allreduce(m.send, m.recv, 512 * CHUNK, COLL_INT32, COLL_SUM, r->comm, NULL);
	for (int i = 0; r->rank == 1 && i < 100; i++) {
		coll_request_t request = NULL;
		int32_t done;

		coll_get_request(r->comm, &request);
		coll_test(request, &done);
		coll_request_free(request);
		ranks_sleep(0.002);
	}
	if (r->rank == 1)
		kill(getpid(), SIGKILL);
	if (!code)
		code = coll_sync(r->comm);
	if (code != COLL_ERR_PEER_LOST)
		rank_fail(r, "%d (%s)", code, coll_get_last_error(NULL));
	unsetenv("STANDIN_CUDA_DELAY_US");
	remains_end(r, &m);
}

static void test_killed(void)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	const struct ranks_job job = {"tcp", 2, 1, killed, NULL};

	log_begin();
	ranks_run_processes(&job, shared);
	log_end();
	ok(!shared->failure[0][0], "tcp, 2 processes: the other rank dies");
	if (shared->failure[0][0])
		diag("%s", shared->failure[0]);
}

/* ------------------------------------------------------ a device does not end its work -- */

static void hangs(struct rank *r)
{
	int32_t *buf = device_new(0, (size_t)CHUNK * 4, 0);
	double begin = ranks_now();
	int code = coll_allreduce(buf, buf, CHUNK, COLL_INT32, COLL_SUM, r->comm, NULL);

	if (!code)
		code = coll_sync(r->comm);
	if ((code != COLL_ERR_TIMEOUT && code != COLL_ERR_REMOTE) ||
	    !strstr(coll_get_last_error(NULL), "copies to or from a device are still under way"))
		rank_fail(r, "%d (%s)", code, coll_get_last_error(NULL));
	if (ranks_now() - begin > 60)
		rank_fail(r, "it took %g s", ranks_now() - begin);
}

static void never_ends(void *arg)
{
	(void)arg;
	for (;;)
		pause();
}

/* Other work on the device never ends: the destroy that follows does not wait for that to free the staging memory. */
static void leaves_busy(struct rank *r)
{
	int32_t *buf = device_new(0, (size_t)CHUNK * 4, 0);
	void *stream = NULL;

	rank_did(r, coll_allreduce(buf, buf, CHUNK, COLL_INT32, COLL_SUM, r->comm, NULL), "call");
	rank_did(r, coll_sync(r->comm), "sync");
	context_begin(0);
	if (cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING) ||
	    cuLaunchHostFunc(stream, never_ends, NULL))
		bail_out("no work on the stream");
	context_end(0);
	rank_did(r, coll_barrier(r->comm), "barrier");
}

/* Runs in a process of its own, because the device stays busy until the process ends. */
static void test_alone(const struct ranks_job *job, const char *logged, const char *what)
{
	int status = 1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		struct ranks_shared *shared = ranks_memory(sizeof(*shared));

		device_init();
		log_begin();
		ranks_run_threads(job, shared);
		log_end();
		for (int k = 0; k < 2; k++)
			if (shared->failure[k][0])
				diag("rank %d: %s", k, shared->failure[k]);
		fflush(stdout);
		_exit(shared->failure[0][0] || shared->failure[1][0] || !log_lines(logged));
	}
	ok(child > 0 && ranks_reap(child, ranks_now() + 120, &status) && status == 0, "%s", what);
}

static void test_devices(void)
{
	struct trouble t = {.variable = "STANDIN_CUDA_WORK",
			    .kind = COLL_KIND_ALLREDUCE,
			    .result = 700,
			    .counts = WORKS};

	pthread_barrier_init(&t.ready, NULL, 2);
	for (t.after = 0; t.after < 9; t.after += 4)
		test_alone(&(struct ranks_job){"simulated", 2, 0, fails, &t}, "which is slow",
			   "a copy fails, and the device with it");
	pthread_barrier_destroy(&t.ready);
	setenv("STANDIN_CUDA_DELAY_US", "600000000", 1);
	setenv("COLL_TIMEOUT", "2s", 1);
	test_alone(&(struct ranks_job){"simulated", 2, 0, hangs, NULL}, "has not ended its copies",
		   "a device that does not end its copies is given up, with a word");
	setenv("COLL_TIMEOUT", "20s", 1);
	unsetenv("STANDIN_CUDA_DELAY_US");
	setenv("STANDIN_CUDA_FREE", "wait", 1);
	setenv("COLL_LOG", "info", 1);
	test_alone(&(struct ranks_job){"simulated", 2, 0, leaves_busy, NULL},
		   "has not freed pinned memory",
		   "destroy does not wait for other work on the device");
	unsetenv("COLL_LOG");
	unsetenv("STANDIN_CUDA_FREE");
}

int main(void)
{
	stage_begin();
	test_killed();
	test_devices();
	device_init();
	log_begin();
	test_copies("simulated");
	test_copies("tcp");
	test_driver();
	setenv("STANDIN_CUDA_DELAY_US", "20000", 1);
	ranks_ok(&(struct ranks_job){"simulated", 2, 0, aborted, NULL}, "an abort");
	ranks_ok(&(struct ranks_job){"tcp", 2, 0, aborted, NULL}, "an abort");
	unsetenv("STANDIN_CUDA_DELAY_US");
	log_end();
	stage_end();
	return done_testing();
}
