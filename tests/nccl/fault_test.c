/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault_test.c - NCCL, the driver or peers fail: every waiting call gets an error with the vendor's
 * text within its bound, and nothing is left behind.
 *
 * All ranks are processes, so that each begins with fresh stand-ins.
 */
#include "companion.h"

#include <sys/syscall.h>

/* ------------------------------------------------------------------- left-overs -- */

/* After the end of the last communicator NCCL and the driver hold no object of the library. */
static void nothing_left(struct rank *r)
{
	const int comms = nccl_comms_left();

	if (comms || standin_streams() || standin_events() || standin_contexts_pushed())
		rank_fail(r, "left: %d communicators, %d streams, %d events, %d contexts", comms,
			  standin_streams(), standin_events(), standin_contexts_pushed());
}

static void destroy_all(struct rank *r)
{
	destroy(r);
	nothing_left(r);
}

/* A fresh communicator of one rank works after any failure. */
static void begin_anew(struct rank *r)
{
	coll_config_t config;
	char id[COLL_UNIQUE_ID_SIZE];

	nccl_config(&config, r->rank);
	rank_did(r, coll_get_unique_id(id, sizeof(id)), "id");
	if (rank_did(r, coll_comm_init_rank(&r->comm, 1, id, 0, &config), "another communicator"))
		nccl_sums(r, r->comm, r->rank, 3, 3, "another communicator");
	destroy_all(r);
}

/* Issues an allreduce of one number in place, on the communicator's stream. */
static int call(struct rank *r, int64_t *there)
{
	return coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
}

/* Returns the first error of a call and its completion. */
static int call_and_sync(struct rank *r, int64_t *there)
{
	int code = call(r, there);

	return code ? code : coll_sync(r->comm);
}

/* ------------------------------------------------------------------ asynchronously -- */

struct waiter {
	pthread_t id;
	coll_comm_t comm;
	coll_request_t request; /* the event to wait for, or NULL: coll_sync */
	int code;
	char text[RANKS_TEXT];
};

static void *wait_for_it(void *arg)
{
	struct waiter *w = arg;

	w->code = w->request ? coll_wait(w->request) : coll_sync(w->comm);
	snprintf(w->text, sizeof(w->text), "%s", coll_get_last_error(NULL));
	return NULL;
}

/* Two threads wait for the operation, one by coll_sync and one by an event. */
static void wait_twice(struct rank *r, const char *words)
{
	struct waiter waiters[2] = {{.comm = r->comm}, {.comm = r->comm}};

	rank_did(r, coll_get_request(r->comm, &waiters[1].request), "request");
	for (int i = 0; i < 2; i++)
		if (pthread_create(&waiters[i].id, NULL, wait_for_it, &waiters[i]))
			bail_out("cannot start a thread");
	for (int i = 0; i < 2; i++)
		pthread_join(waiters[i].id, NULL);
	for (int i = 0; i < 2; i++)
		if (waiters[i].code != COLL_ERR_REMOTE || !strstr(waiters[i].text, words))
			rank_fail(r, "waiter %d: %d (%s)", i, waiters[i].code, waiters[i].text);
	coll_request_free(waiters[1].request);
}

/* NCCL fails while threads wait: each gets NCCL's text, and so does every later call. */
static void async_error(struct rank *r)
{
	static const char words[] = "NCCL says";
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	double begin = ranks_now();
	coll_result_t error = 0;
	coll_event_t event;

	rank_did(r, coll_event_create(r->comm, &event), "event");
	setenv("STANDIN_NCCL_ASYNC", "6@1", 1);
	if (call(r, there)) /* the call may return the error at once */
		nccl_fails(r, COLL_ERR_REMOTE, COLL_ERR_REMOTE, words, "call");
	wait_twice(r, words);
	nccl_fails(r, coll_sync(r->comm), COLL_ERR_REMOTE, words, "sync");
	nccl_fails(r, coll_barrier(r->comm), COLL_ERR_REMOTE, words, "barrier");
	nccl_fails(r, call(r, there), COLL_ERR_REMOTE, words, "a later call");
	nccl_fails(r, coll_event_record(event, r->comm), COLL_ERR_REMOTE, words, "an event");
	rank_did(r, coll_comm_get_async_error(r->comm, &error), "get_async_error");
	if (error != COLL_ERR_REMOTE || !strstr(coll_get_last_error(r->comm), words))
		rank_fail(r, "the asynchronous error is %d (%s)", error,
			  coll_get_last_error(r->comm));
	if (ranks_now() - begin > SOON)
		rank_fail(r, "it took %.1f s", ranks_now() - begin);
	unsetenv("STANDIN_NCCL_ASYNC");
	rank_did(r, coll_event_destroy(event), "destroy the event");
	destroy_all(r);
	device_free(r->rank, there);
	begin_anew(r);
}

/* A query alone finds the failure, without waiting. */
static void async_error_polled(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	double deadline = ranks_now() + SOON;
	coll_result_t error = 0;

	setenv("STANDIN_NCCL_ASYNC", "2@1", 1);
	(void)!call(r, there); /* the call may know the failure already */
	while (!error && ranks_now() < deadline) {
		rank_did(r, coll_comm_get_async_error(r->comm, &error), "get_async_error");
		ranks_sleep(0.001);
	}
	if (error != COLL_ERR_SYSTEM)
		rank_fail(r, "the asynchronous error is %d", error);
	unsetenv("STANDIN_NCCL_ASYNC");
	destroy_all(r);
	device_free(r->rank, there);
}

/* The device fails: the error has the driver's text. */
static void device_error(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	char fault[64];

	nccl_works(r);
	snprintf(fault, sizeof(fault), "700@%lu", standin_works());
	setenv("STANDIN_CUDA_WORK", fault, 1);
	nccl_fails(r, call_and_sync(r, there), COLL_ERR_DEVICE, "700", "an operation");
	unsetenv("STANDIN_CUDA_WORK");
	rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
	standin_heal(r->rank);
}

/* NCCL refuses a call at once. */
static void call_fails(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);

	setenv("STANDIN_NCCL_FAULT", "ncclAllReduce:3@1", 1);
	nccl_fails(r, call_and_sync(r, there), COLL_ERR_INTERNAL, "ncclAllReduce", "allreduce");
	unsetenv("STANDIN_NCCL_FAULT");
	destroy_all(r);
	device_free(r->rank, there);
	begin_anew(r);
}

/* A call that is deferred to the end of a group fails there. */
static void group_fails(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	int code;

	rank_did(r, coll_group_start(), "group_start");
	rank_did(r, call(r, there), "call");
	setenv("STANDIN_NCCL_FAULT", "ncclGroupEnd:3@1", 1);
	code = coll_group_end();
	if (!code)
		code = coll_sync(r->comm);
	nccl_fails(r, code, COLL_ERR_INTERNAL, "ncclGroupEnd", "group_end");
	unsetenv("STANDIN_NCCL_FAULT");
	destroy_all(r);
	device_free(r->rank, there);
	begin_anew(r);
}

static void events_fail(struct rank *r)
{
	coll_event_t event = NULL;

	setenv("STANDIN_CUDA_EVENT", "2", 1);
	nccl_fails(r, coll_event_create(r->comm, &event), COLL_ERR_DEVICE, "cuEventCreate",
		   "event_create");
	unsetenv("STANDIN_CUDA_EVENT");
	nccl_works(r);
	destroy_all(r);
}

/* ------------------------------------------------------- failures of open -- */

struct fault {
	const char *variable, *value, *words;
	int nranks, code; /* 0: any */
};

/* A call of NCCL fails in open: every rank gets the text, and no rank keeps waiting. */
static void open_fails(struct rank *r)
{
	const struct fault *f = r->user;
	coll_comm_t comms[2] = {NULL, NULL};
	double begin = ranks_now();
	coll_config_t config;
	int code;

	ranks_config(&config, "nccl");
	setenv(f->variable, f->value, 1);
	code = coll_comm_init_all(comms, f->nranks, NULL, &config);
	if (!code || !strstr(coll_get_last_error(NULL), f->words) || comms[0] || comms[1] ||
	    (f->code && code != f->code))
		rank_fail(r, "%d (%s)", code, coll_get_last_error(NULL));
	if (ranks_now() - begin > SOON)
		rank_fail(r, "it took %.1f s", ranks_now() - begin);
	unsetenv(f->variable);
	nothing_left(r);
	begin_anew(r);
}

/* The device fails under the first work: open reports that, and not what fails next. */
static void first_work_fails(struct rank *r)
{
	coll_config_t config;
	char id[COLL_UNIQUE_ID_SIZE];

	nccl_config(&config, r->rank);
	rank_did(r, coll_get_unique_id(id, sizeof(id)), "id");
	setenv("STANDIN_CUDA_WORK", "700@0", 1);
	nccl_fails(r, coll_comm_init_rank(&r->comm, 1, id, 0, &config), COLL_ERR_DEVICE,
		   "cuMemsetD8Async", "init");
	unsetenv("STANDIN_CUDA_WORK");
}

static void test_open(void)
{
	static struct fault faults[] = {
		{"STANDIN_NCCL_FAULT", "ncclGetUniqueId:2@1", "ncclGetUniqueId", 2, 0},
		{"STANDIN_NCCL_FAULT", "ncclCommInitRankConfig:3@1", "ncclCommInitRankConfig", 1,
		 COLL_ERR_INTERNAL},
		{"STANDIN_NCCL_FAULT", "ncclCommInitRankConfig:1@2", "NCCL", 2, 0},
		{"STANDIN_NCCL_FAULT", "ncclCommInitRankConfig:1@1", "NCCL", 1, COLL_ERR_DEVICE},
		{"STANDIN_NCCL_RUNTIME", "35", "driver version is insufficient", 2,
		 COLL_ERR_DEVICE},
		{"STANDIN_NCCL_FAULT", "ncclCommGetAsyncError:3@1", "NCCL", 1, COLL_ERR_INTERNAL},
		{"STANDIN_CUDA_STREAM", "2@0", "cuStreamCreate", 1, COLL_ERR_DEVICE},
		{"STANDIN_CUDA_STREAM", "2@0", "cuStreamCreate", 2, 0},
		{"STANDIN_CUDA_STREAM", "2@1", "cuStreamCreate", 2, 0},
	};

	setenv("COLL_INIT_TIMEOUT", "5s", 1);
	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++)
		nccl_ok(&(struct nccl_job){1, 1, INIT_NONE, open_fails, &faults[i]},
			"open of %d ranks with %s=%s", faults[i].nranks, faults[i].variable,
			faults[i].value);
	nccl_ok(&(struct nccl_job){1, 1, INIT_NONE, first_work_fails, NULL},
		"open on a device whose first work fails");
	setenv("COLL_INIT_TIMEOUT", "60s", 1);
}

static int init(struct rank *r)
{
	return nccl_init(r, &r->comm, NULL);
}

/* ncclGetUniqueId fails on rank 0: every rank gets the error. */
static void id_fails(struct rank *r)
{
	if (r->rank == 0)
		setenv("STANDIN_NCCL_FAULT", "ncclGetUniqueId:2@1", 1);
	if (!init(r) || !strstr(coll_get_last_error(NULL), "rank 0: ncclGetUniqueId: NCCL says"))
		rank_fail(r, "init: %s", coll_get_last_error(NULL));
	unsetenv("STANDIN_NCCL_FAULT");
	nothing_left(r);
	begin_anew(r);
}

/* One rank cannot create a stream: the other ranks do not wait for it in NCCL. */
static void one_fails(struct rank *r)
{
	if (r->rank == 1)
		setenv("STANDIN_CUDA_STREAM", "2", 1);
	if (!init(r) || !strstr(coll_get_last_error(NULL), "rank 1: cuStreamCreate: the CUDA"))
		rank_fail(r, "init: %s", coll_get_last_error(NULL));
	unsetenv("STANDIN_CUDA_STREAM");
	nothing_left(r);
	begin_anew(r);
}

/* NCCL's CUDA runtime refuses the driver of rank 1: every rank learns why. */
static void runtime_fails(struct rank *r)
{
	if (r->rank == 1)
		setenv("STANDIN_NCCL_RUNTIME", "35", 1);
	nccl_fails(r, init(r), COLL_ERR_DEVICE, "rank 1: NCCL 2.28.9 (", "init");
	nccl_fails(r, COLL_ERR_DEVICE, COLL_ERR_DEVICE, "serves CUDA up to 13.0: Cuda failure 35",
		   "the driver's version");
	unsetenv("STANDIN_NCCL_RUNTIME");
	nothing_left(r);
	begin_anew(r);
}

/* In the thread whose init the runtime refused, no group of NCCL's is open. */
static void refused_alone(struct rank *r)
{
	begin_anew(r); /* now the plugin believes that the runtime works */
	setenv("STANDIN_NCCL_RUNTIME", "35", 1);
	nccl_fails(r, init(r), COLL_ERR_DEVICE, "ncclCommInitRankConfig", "init");
	unsetenv("STANDIN_NCCL_RUNTIME");
	begin_anew(r);
}

/* A group that the program has opened stays open when an init fails. */
static void refused_in_group(struct rank *r)
{
	static const char *const faults[][2] = {
		{"STANDIN_NCCL_FAULT", "ncclCommInitRankConfig:3@2"},
		{"STANDIN_NCCL_RUNTIME", "35"},
	};
	int (*start)(void), (*end)(void);
	void *symbol;
	int first, second;

	begin_anew(r);
	symbol = nccl_symbol("ncclGroupStart");
	memcpy(&start, &symbol, sizeof(symbol));
	symbol = nccl_symbol("ncclGroupEnd");
	memcpy(&end, &symbol, sizeof(symbol));
	for (int i = 0; i < 2; i++) {
		setenv(faults[i][0], faults[i][1], 1);
		start();
		if (!init(r))
			rank_fail(r, "init has not failed");
		unsetenv(faults[i][0]);
		first = end(); /* with the error of the init, or without */
		second = end();
		if (first == COLL_ERR_INVALID_USAGE || second != COLL_ERR_INVALID_USAGE)
			rank_fail(r, "%s: the ends of the group: %d, %d", faults[i][0], first,
				  second);
	}
	begin_anew(r);
}

/* NCCL puts its files into the environment when the first communicator is made. */
static void file_says_non_blocking(struct rank *r)
{
	setenv("STANDIN_NCCL_CONF", "0", 1);
	nccl_fails(r, init(r), COLL_ERR_UNSUPPORTED, "NCCL_COMM_BLOCKING=0", "init");
	nothing_left(r);
}

static void versions_differ(struct rank *r)
{
	if (r->rank == 1)
		setenv("STANDIN_NCCL_VERSION", "22707", 1);
	nccl_fails(r, init(r), COLL_ERR_VERSION, "2.27.7", "init");
	nccl_fails(r, COLL_ERR_VERSION, COLL_ERR_VERSION, "2.28.9", "the other version");
	nothing_left(r);
}

/* The state of a split cannot be read while NCCL makes the communicator, and with `abort` that cannot be aborted either. */
static void split_unknown(struct rank *r)
{
	const int *abort = r->user;

	if (r->rank == 1) {
		setenv("STANDIN_NCCL_SPLIT_MS", "100", 1);
		setenv("STANDIN_NCCL_FAULT",
		       *abort ? "ncclCommGetAsyncError:4@1/ncclCommSplit,ncclCommAbort:3@1"
			      : "ncclCommGetAsyncError:4@1/ncclCommSplit",
		       1);
	}
	nccl_fails(r, init(r), COLL_ERR_INVALID_ARGUMENT, "rank 1: ", "init");
	if (!*abort) {
		nothing_left(r);
		return;
	}
	ranks_sleep(0.3); /* the split goes on */
	/* ThreadSanitizer would report its thread, which nobody can end any more. */
	syscall(SYS_exit_group, 0);
}

/* NCCL never connects the ranks. */
static void init_hangs(struct rank *r)
{
	double begin = ranks_now();

	setenv("STANDIN_NCCL_INIT_HANG", "1", 1);
	nccl_fails(r, init(r), COLL_ERR_TIMEOUT, "NCCL", "init");
	if (ranks_now() - begin > SOON)
		rank_fail(r, "it took %.1f s", ranks_now() - begin);
	unsetenv("STANDIN_NCCL_INIT_HANG");
	nothing_left(r);
	begin_anew(r);
}

/* One rank never joins. */
static void init_alone(struct rank *r)
{
	char id[COLL_UNIQUE_ID_SIZE];
	double begin = ranks_now();
	coll_config_t config;

	nccl_config(&config, 0);
	rank_did(r, coll_get_unique_id(id, sizeof(id)), "id");
	nccl_fails(r, coll_comm_init_rank(&r->comm, 2, id, 0, &config), COLL_ERR_TIMEOUT, "rank 1",
		   "init");
	if (ranks_now() - begin > SOON)
		rank_fail(r, "it took %.1f s", ranks_now() - begin);
	begin_anew(r);
}

static void test_init(void)
{
	nccl_ok(&(struct nccl_job){2, 1, INIT_NONE, id_fails, NULL},
		"ncclGetUniqueId fails on rank 0: all ranks hear of it");
	nccl_ok(&(struct nccl_job){3, 1, INIT_NONE, one_fails, NULL},
		"rank 1 has no stream: all ranks hear of it");
	nccl_ok(&(struct nccl_job){2, 1, INIT_NONE, runtime_fails, NULL},
		"NCCL's CUDA runtime refuses the driver of rank 1: all ranks hear of it");
	nccl_ok(&(struct nccl_job){1, 1, INIT_NONE, refused_alone, NULL},
		"NCCL's CUDA runtime fails in init: the next one works");
	nccl_ok(&(struct nccl_job){1, 1, INIT_NONE, refused_in_group, NULL},
		"init fails in a group of the program's: the group stays open");
	nccl_ok(&(struct nccl_job){2, 1, INIT_NONE, file_says_non_blocking, NULL},
		"nccl.conf makes all communicators non-blocking: refused");
	nccl_ok(&(struct nccl_job){2, 1, INIT_NONE, versions_differ, NULL},
		"ranks with different versions of NCCL: both are named");
	nccl_ok(&(struct nccl_job){2, 1, INIT_NONE, split_unknown, &(int){0}},
		"ncclCommGetAsyncError fails while NCCL makes the communicator");
	nccl_ok(&(struct nccl_job){2, 1, INIT_NONE, split_unknown, &(int){1}},
		"and NCCL refuses to abort it");
	setenv("COLL_INIT_TIMEOUT", "1s", 1);
	nccl_ok(&(struct nccl_job){2, 1, INIT_NONE, init_hangs, NULL},
		"NCCL never connects: init_timeout");
	nccl_ok(&(struct nccl_job){1, 1, INIT_NONE, init_alone, NULL},
		"a rank never comes: init_timeout, and it is named");
	setenv("COLL_INIT_TIMEOUT", "60s", 1);
}

/* ------------------------------------------------------------------------ peers -- */

/* Rank 1 does not take part. */
static void timeout(struct rank *r)
{
	_Atomic int *over = r->user;
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	double begin = ranks_now();

	nccl_works(r);
	if (r->rank == 0) {
		nccl_fails(r, call_and_sync(r, there), COLL_ERR_TIMEOUT, "allreduce", "sync");
		if (ranks_now() - begin > SOON)
			rank_fail(r, "it took %.1f s", ranks_now() - begin);
		atomic_store(over, 1);
	}
	while (!atomic_load(over))
		ranks_sleep(0.001);
	destroy_all(r);
	device_free(r->rank, there);
	begin_anew(r);
}

/*
 * The work of a communicator never ends: destroy returns within its bound and reports this, and the
 * process goes on.
 */
static void destroy_busy(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);

	nccl_works(r);
	log_begin();
	if (r->rank == 0)
		rank_did(r, call(r, there), "a call that rank 1 does not make");
	destroy_all(r);
	if (r->rank == 0 && log_lines("rank 0") < 1)
		rank_fail(r, "nothing was logged");
	log_end();
	device_free(r->rank, there);
	begin_anew(r);
}

/*
 * Other work keeps the device busy, and CUDA frees memory only on an idle device: destroy returns within its bound and
 * reports this, and all is freed when that work has ended.
 */
static void destroy_beside_work(struct rank *r)
{
	int64_t x[2] = {1, 2}, *there = nccl_new(r->rank, x, 2);
	void *stream = nccl_stream(r->rank);
	struct nccl_gate gate = {0};
	double begin;

	/* In place, so that the endpoint has device memory. */
	rank_did(r, coll_alltoall(there, there, 1, COLL_INT64, r->comm, NULL), "alltoall");
	rank_did(r, coll_sync(r->comm), "sync");
	nccl_gate(&gate, r->rank, stream);
	setenv("STANDIN_CUDA_FREE", "wait", 1);
	log_begin();
	begin = ranks_now();
	rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
	if (ranks_now() - begin > SOON)
		rank_fail(r, "destroy took %.1f s", ranks_now() - begin);
	if (log_lines("keeps the CUDA device busy") != 1)
		rank_fail(r, "the log does not say why");
	log_end();
	nccl_open(&gate);
	for (double end = ranks_now() + SOON; nccl_comms() && ranks_now() < end;)
		ranks_sleep(0.001);
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	nothing_left(r);
	unsetenv("STANDIN_CUDA_FREE");
	device_free(r->rank, there);
	begin_anew(r);
}

/* NCCL refuses to abort, so a call that waits for a peer goes on: the log says both. */
static void abort_refused(struct rank *r)
{
	_Atomic int *over = r->user;
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	double begin = ranks_now();

	if (r->rank == 0) {
		log_begin();
		setenv("STANDIN_NCCL_FAULT", "ncclCommAbort:3@1", 1);
		rank_did(r, call(r, there), "a call that rank 1 does not make");
		rank_did(r, coll_comm_abort(r->comm), "abort");
		nccl_fails(r, coll_sync(r->comm), COLL_ERR_ABORTED, "abort", "sync");
		unsetenv("STANDIN_NCCL_FAULT");
		log_end();
		if (log_lines("NCCL has refused to abort its communicator (internal error") != 1 ||
		    log_lines("a call into NCCL has not returned within 1000 ms of an abort") != 1)
			rank_fail(r, "the log does not say it");
		if (ranks_now() - begin > SOON)
			rank_fail(r, "it took %.1f s", ranks_now() - begin);
		atomic_store(over, 1);
	}
	while (!atomic_load(over))
		ranks_sleep(0.001);
	rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
}

/* The process of the last rank dies, when no rank is in a call any more; the others go on without it. */
static void shrink_after_death(struct rank *r)
{
	_Atomic int *ready = r->user;
	const int32_t dead = r->nranks - 1;
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	coll_comm_t rest = NULL;
	int code;

	nccl_works(r);
	atomic_fetch_add(ready, 1);
	while (r->rank == dead) {
		if (atomic_load(ready) == r->nranks)
			ranks_vanish();
		ranks_sleep(0.0005);
	}
	code = call_and_sync(r, there);
	if (!code)
		rank_fail(r, "an allreduce with the dead");
	if (rank_did(r, coll_comm_shrink(r->comm, &dead, 1, &rest, NULL, 0), "shrink") &&
	    is_rank(r, rest, r->rank, r->nranks - 1)) {
		nccl_sums(r, rest, r->rank, 2, 2 * (r->nranks - 1), "the rest");
		rank_did(r, coll_barrier(rest), "barrier of the rest");
	}
	if (rest)
		rank_did(r, coll_comm_destroy(rest), "destroy the rest");
	destroy_all(r);
	device_free(r->rank, there);
	begin_anew(r);
}

static void shrink_healthy(struct rank *r)
{
	const int32_t without = 0;
	coll_comm_t rest = NULL;

	nccl_works(r);
	if (r->rank != without &&
	    rank_did(r, coll_comm_shrink(r->comm, &without, 1, &rest, NULL, 0), "shrink")) {
		is_rank(r, rest, r->rank - 1, r->nranks - 1);
		nccl_sums(r, rest, r->rank, 1, r->nranks - 1, "the rest");
		rank_did(r, coll_comm_destroy(rest), "destroy the rest");
	}
	destroy_all(r);
}

static void test_peers(void)
{
	_Atomic int *over = ranks_memory(sizeof(*over));

	setenv("COLL_TIMEOUT", "1s", 1);
	setenv("COLL_DESTROY_TIMEOUT", "1s", 1);
	nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, timeout, over},
		"a rank does not come: timeout");
	nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, destroy_busy, NULL},
		"destroy with work in flight: bounded, logged");
	nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, destroy_beside_work, NULL},
		"destroy beside other work on the device: bounded, logged");
	atomic_store(over, 0);
	nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, abort_refused, over},
		"NCCL refuses to abort: the log says so");
	for (int nranks = 2; nranks <= 4; nranks++)
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, shrink_after_death,
					   ranks_memory(sizeof(_Atomic int))},
			"shrink after a death");
	nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, shrink_healthy, NULL},
		"shrink of a communicator that is well");
	setenv("COLL_TIMEOUT", "60s", 1);
	setenv("COLL_DESTROY_TIMEOUT", "5s", 1);
}

int main(int argc, char **argv)
{
	(void)argc;
	nccl_begin(argv, ".libs");
	nccl_ok(&(struct nccl_job){1, 1, INIT_ID, async_error, NULL},
		"an asynchronous error reaches all that wait, and every later call");
	nccl_ok(&(struct nccl_job){1, 1, INIT_ID, async_error_polled, NULL},
		"an asynchronous error is found by polling");
	nccl_ok(&(struct nccl_job){1, 1, INIT_ID, device_error, NULL}, "the device fails");
	nccl_ok(&(struct nccl_job){1, 1, INIT_ID, call_fails, NULL}, "a call fails");
	nccl_ok(&(struct nccl_job){1, 1, INIT_ID, group_fails, NULL}, "the end of a group fails");
	nccl_ok(&(struct nccl_job){1, 1, INIT_ID, events_fail, NULL}, "an event cannot be made");
	test_open();
	test_init();
	test_peers();
	return done_testing();
}
