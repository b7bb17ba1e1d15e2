/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory_test.c - every allocation of libcoll and its plugins fails, one after the other.
 *
 * A case (making communicators, one kind of operation, ...) runs repeatedly; in the n-th run the
 * n-th allocation fails, until a run makes fewer allocations than that.  Each run must end in time,
 * with success or with a message about memory that blames no rank but the failing one; it must free
 * all blocks and leave descriptor 0 open; and afterwards the process must be able to make
 * communicators and to sum.  Child processes do the runs, so that a crash or a hang is a failed
 * check.
 *
 *   memory_test [BACKEND [CASE [N]]]    one backend; one case; its N-th allocation, in this process
 */
#include "../lib/thread_sanitizer.h"

#ifdef TESTS_THREAD_SANITIZER

#include "../lib/tap.h"

/* The dynamic loader allocates before this program could look up the replaced function. */
int main(void)
{
	skip_all("ThreadSanitizer does not let a program replace the allocator");
}

#else

#include "../lib/failing_malloc.h"
#include "../lib/ranks.h"

#include <fcntl.h>
#include <sys/stat.h>

enum {
	RANKS = 3,
	COUNT = 40, /* number of elements of a rank */
	WORKERS = 2,
	FAULTS = 4, /* number of faults printed for a case */
	RUN_S = 60  /* a run that takes longer counts as hung */
};

/* Results that the children write for the parent. */
struct report {
	_Atomic long run[WORKERS]; /* being done */
	_Atomic int finished[WORKERS];
	_Atomic long failed; /* allocations that failed */
	_Atomic int faults;
	char fault[FAULTS][1024];
};

struct memory_case;

/* A run of a case. */
struct run {
	const struct memory_case *c;
	struct report *report;
	long n; /* number of the allocation that fails */
	coll_comm_t comm[RANKS];
	int failing;         /* the rank whose allocation fails, or -1: unknown */
	_Atomic int aborted; /* a call has failed, and its rank has aborted its communicator */
	int64_t in[RANKS][RANKS * COUNT], out[RANKS][RANKS * COUNT];
};

struct memory_case {
	const char *name;
	const char *backend;
	void (*act)(struct run *run, int kind);
	int kind;
	int begins;     /* the case makes the communicators itself */
	int timeout_ms; /* timeout of the waits; 0: the default of this test */
};

__attribute__((format(printf, 2, 3))) static void fault(struct run *run, const char *fmt, ...)
{
	int i = atomic_fetch_add(&run->report->faults, 1), at;
	va_list args;

	if (i >= FAULTS)
		return;
	at = snprintf(run->report->fault[i], sizeof(run->report->fault[i]),
		      "allocation %ld: ", run->n);
	va_start(args, fmt);
	vsnprintf(run->report->fault[i] + at, sizeof(run->report->fault[i]) - (size_t)at, fmt,
		  args);
	va_end(args);
}

/*
 * Verifies a code: success, or an error with a message about memory that blames no rank but the
 * failing one.
 */
static int check_code(struct run *run, int rank, const char *what, coll_result_t code)
{
	const char *text = coll_get_last_error(NULL), *named = strstr(text, "rank ");

	if (code == COLL_SUCCESS)
		return 1;
	if (!strstr(text, "memory") && !(atomic_load(&run->aborted) && strstr(text, "abort")))
		fault(run, "%s on rank %d: %d, '%s' says nothing of memory", what, rank, code,
		      text);
	else if (run->failing >= 0 && named && atoi(named + 5) != run->failing)
		fault(run, "%s on rank %d: '%s', but rank %d had no memory", what, rank, text,
		      run->failing);
	return 0;
}

/*
 * The same for a call that all ranks make: the rank on which the call fails aborts its
 * communicator, so that the other ranks do not wait for it.
 */
static int issued(struct run *run, int rank, const char *what, coll_result_t code)
{
	if (check_code(run, rank, what, code))
		return 1;
	if (!atomic_exchange(&run->aborted, 1))
		coll_comm_abort(run->comm[rank]);
	return 0;
}

/* ------------------------------------------------------------------- communicators -- */

static int make_all(struct run *run, const char *what)
{
	coll_config_t config;

	ranks_config(&config, run->c->backend);
	if (run->c->timeout_ms)
		config.init_timeout_ms = config.timeout_ms = run->c->timeout_ms;
	memset(run->comm, 0, sizeof(run->comm));
	return check_code(run, 0, what, coll_comm_init_all(run->comm, RANKS, NULL, &config));
}

static void destroy_all(struct run *run)
{
	for (int r = 0; r < RANKS; r++)
		if (run->comm[r])
			check_code(run, r, "destroy", coll_comm_destroy(run->comm[r]));
	memset(run->comm, 0, sizeof(run->comm));
}

static int sync_all(struct run *run, const char *what)
{
	int good = 1;

	for (int r = 0; r < RANKS; r++)
		good &= check_code(run, r, what, coll_sync(run->comm[r]));
	return good;
}

/* All ranks sum their numbers; a call that succeeds must give the right sum. */
static void sum_all(struct run *run, const char *what)
{
	int good = check_code(run, 0, what, coll_group_start());
	int64_t y[RANKS];

	for (int64_t r = 0; r < RANKS; r++) {
		int64_t x = r + 1;

		run->in[r][0] = x;
		good = good && issued(run, (int)r, what,
				      coll_allreduce(run->in[r], &y[r], 1, COLL_INT64, COLL_SUM,
						     run->comm[r], NULL));
	}
	good &= check_code(run, 0, what, coll_group_end());
	good &= sync_all(run, what);
	for (int r = 0; good && r < RANKS; r++)
		if (y[r] != RANKS * (RANKS + 1) / 2)
			fault(run, "%s: the sum on rank %d is %lld", what, r, (long long)y[r]);
}

/* ----------------------------------------------------------------------- the cases -- */

static void act_init(struct run *run, int kind)
{
	(void)kind;
	if (make_all(run, "init_all"))
		sum_all(run, "the first sum");
}

/* Arguments of a kind that fit all ranks; the arrays belong to the case. */
static coll_args_t call_of(struct run *run, int kind, int r)
{
	static const size_t counts[RANKS] = {COUNT, COUNT, COUNT};
	coll_args_t a = {.size = sizeof(a), .kind = kind, .dtype = COLL_INT64, .count = COUNT};
	int reduces = kind == COLL_KIND_ALLREDUCE || kind == COLL_KIND_REDUCE ||
		      kind == COLL_KIND_REDUCE_SCATTER || kind == COLL_KIND_REDUCE_SCATTERV ||
		      kind == COLL_KIND_SCAN || kind == COLL_KIND_EXSCAN;

	a.op = reduces ? COLL_SUM : 0;
	a.sendbuf = run->in[r];
	a.recvbuf = run->out[r];
	if (kind == COLL_KIND_BARRIER)
		return (coll_args_t){.size = sizeof(a), .kind = kind};
	if (kind == COLL_KIND_ALLTOALLV || kind == COLL_KIND_SCATTERV)
		a.sendcounts = counts;
	if (kind >= COLL_KIND_ALLGATHERV && kind <= COLL_KIND_GATHERV)
		a.recvcounts = counts;
	if (kind == COLL_KIND_SCATTERV && r)
		a.sendcounts = NULL;
	if (kind == COLL_KIND_GATHERV && r)
		a.recvcounts = NULL;
	if (kind == COLL_KIND_SEND || kind == COLL_KIND_RECV) {
		a.root = kind == COLL_KIND_SEND ? (r + 1) % RANKS : (r + RANKS - 1) % RANKS;
		a.tag = 7;
		if (kind == COLL_KIND_SEND)
			a.recvbuf = NULL;
		else
			a.sendbuf = NULL;
	}
	return a;
}

/* Each rank starts a persistent request twice. */
static void act_request(struct run *run, int kind)
{
	coll_request_t request[RANKS] = {0};
	int good = 1, done;

	for (int r = 0; r < RANKS; r++) {
		coll_args_t args = call_of(run, kind, r);

		good &= check_code(run, r, "request_init",
				   coll_request_init(run->comm[r], &args, &request[r]));
	}
	for (int twice = 0; twice < 2; twice++) {
		for (int r = 0; good && r < RANKS; r++)
			good &= check_code(run, r, "request_start", coll_request_start(request[r]));
		for (int r = 0; good && r < RANKS; r++)
			good &= check_code(run, r, "test", coll_test(request[r], &done));
		for (int r = 0; good && r < RANKS; r++)
			good &= check_code(run, r, "wait", coll_wait(request[r]));
	}
	for (int r = 0; r < RANKS; r++)
		if (request[r])
			check_code(run, r, "request_free", coll_request_free(request[r]));
}

static void act_sendrecv(struct run *run, int kind)
{
	(void)kind;
	check_code(run, 0, "group_start", coll_group_start());
	for (int r = 0; r < RANKS; r++)
		if (!issued(run, r, "recv",
			    coll_recv(run->out[r], COUNT, COLL_INT64, COLL_ANY_SOURCE, 7,
				      run->comm[r], NULL)) ||
		    !issued(run, r, "send",
			    coll_send(run->in[r], COUNT, COLL_INT64, (r + 1) % RANKS, 7,
				      run->comm[r], NULL)))
			break;
	check_code(run, 0, "group_end", coll_group_end());
	sync_all(run, "sync");
}

/* The messages come before their receives. */
static void act_unexpected(struct run *run, int kind)
{
	int good = 1;

	(void)kind;
	for (int r = 0; good && r < RANKS; r++)
		good = issued(run, r, "send",
			      coll_send(run->in[r], COUNT, COLL_INT64, (r + 1) % RANKS, 7,
					run->comm[r], NULL));
	for (int r = 0; r < RANKS; r++) {
		coll_result_t error;

		check_code(run, r, "get_async_error",
			   coll_comm_get_async_error(run->comm[r], &error));
	}
	for (int r = 0; good && r < RANKS; r++)
		good = issued(run, r, "recv",
			      coll_recv(run->out[r], COUNT, COLL_INT64, (r + RANKS - 1) % RANKS, 7,
					run->comm[r], NULL));
	sync_all(run, "sync");
}

static void act_group(struct run *run, int kind)
{
	(void)kind;
	sum_all(run, "a sum");
}

static void first_operand(void *user, const void *left, void *inout, size_t count,
			  coll_dtype_t dtype)
{
	(void)user;
	(void)dtype;
	memcpy(inout, left, count * sizeof(int64_t));
}

static void act_redop(struct run *run, int kind)
{
	const int64_t two = 2;
	coll_op_t op[RANKS], scaled[RANKS];
	int made[RANKS] = {0}, premul[RANKS] = {0}, good = 1;

	(void)kind;
	for (int r = 0; r < RANKS; r++) {
		made[r] = check_code(
			run, r, "red_op_create_user",
			coll_red_op_create_user(&op[r], first_operand, NULL, 0, run->comm[r]));
		premul[r] = check_code(run, r, "red_op_create_pre_mul_sum",
				       coll_red_op_create_pre_mul_sum(&scaled[r], &two, COLL_INT64,
								      COLL_SCALAR_HOST_IMMEDIATE,
								      run->comm[r]));
		good &= made[r] && premul[r];
	}
	for (int r = 0; good && r < RANKS; r++)
		good = issued(run, r, "allreduce",
			      coll_allreduce(run->in[r], run->out[r], COUNT, COLL_INT64, op[r],
					     run->comm[r], NULL));
	for (int r = 0; good && r < RANKS; r++)
		good = issued(run, r, "allreduce",
			      coll_allreduce(run->in[r], run->out[r], COUNT, COLL_INT64, scaled[r],
					     run->comm[r], NULL));
	sync_all(run, "sync");
	for (int r = 0; r < RANKS; r++) {
		if (made[r])
			check_code(run, r, "red_op_destroy",
				   coll_red_op_destroy(op[r], run->comm[r]));
		if (premul[r])
			check_code(run, r, "red_op_destroy",
				   coll_red_op_destroy(scaled[r], run->comm[r]));
	}
}

static void act_event(struct run *run, int kind)
{
	coll_event_t event = NULL;
	int good = 1;

	(void)kind;
	for (int r = 0; good && r < RANKS; r++)
		good = issued(run, r, "allreduce",
			      coll_allreduce(run->in[r], run->out[r], COUNT, COLL_INT64, COLL_SUM,
					     run->comm[r], NULL));
	if (!check_code(run, 0, "event_create", coll_event_create(run->comm[0], &event)))
		event = NULL;
	if (event && check_code(run, 0, "event_record", coll_event_record(event, run->comm[0]))) {
		check_code(run, 1, "wait_event", coll_comm_wait_event(run->comm[1], event));
		check_code(run, 0, "event_synchronize", coll_event_synchronize(event));
		check_code(run, 0, "event_query", coll_event_query(event));
	}
	sync_all(run, "sync");
	if (event)
		check_code(run, 0, "event_destroy", coll_event_destroy(event));
}

static void act_info(struct run *run, int kind)
{
	coll_config_t config;
	coll_info_t info = NULL;
	const char *sentence;
	coll_result_t code;

	(void)kind;
	ranks_config(&config, run->c->backend);
	if (!check_code(run, 0, "info_create", coll_info_create(&config, &info)))
		return;
	code = coll_info_verdict(info, &sentence);
	if (code && !sentence[0])
		fault(run, "the verdict has no words");
	coll_info_destroy(info);
}

static void act_destroy(struct run *run, int kind)
{
	(void)kind;
	destroy_all(run);
}

/* A call that waits for all ranks runs in a thread for each rank. */
struct derive {
	struct run *run;
	int rank, kind;
	coll_comm_t out;
};

enum { DERIVE_SPLIT, DERIVE_DUP, DERIVE_SHRINK };

/*
 * An abort of the old communicator does not end the shrink, so the other rank waits for its
 * timeout.
 */
static void derive_shrink(struct derive *d, coll_comm_t comm)
{
	const int32_t excluded = RANKS - 1;
	coll_result_t code;

	if (d->rank == excluded)
		return;
	code = coll_comm_shrink(comm, &excluded, 1, &d->out, NULL, 0);
	if (code != COLL_ERR_TIMEOUT)
		check_code(d->run, d->rank, "shrink", code);
	else if (!strstr(coll_get_last_error(NULL), d->rank ? "rank 0" : "rank 1"))
		fault(d->run, "shrink on rank %d: '%s'", d->rank, coll_get_last_error(NULL));
}

static void *derive_thread(void *arg)
{
	struct derive *d = arg;
	coll_comm_t comm = d->run->comm[d->rank];

	if (d->kind == DERIVE_SPLIT)
		issued(d->run, d->rank, "split", coll_comm_split(comm, 0, -d->rank, &d->out, NULL));
	else if (d->kind == DERIVE_DUP)
		issued(d->run, d->rank, "dup", coll_comm_dup(comm, &d->out));
	else
		derive_shrink(d, comm);
	return NULL;
}

static void act_derive(struct run *run, int kind)
{
	struct derive d[RANKS];
	pthread_t thread[RANKS];

	for (int r = 0; r < RANKS; r++) {
		d[r] = (struct derive){run, r, kind, NULL};
		if (pthread_create(&thread[r], NULL, derive_thread, &d[r]))
			abort();
	}
	for (int r = 0; r < RANKS; r++)
		pthread_join(thread[r], NULL);
	for (int r = 0; r < RANKS; r++)
		if (d[r].out)
			check_code(run, r, "destroy of the new one", coll_comm_destroy(d[r].out));
}

/* --------------------------------------------------------------------------- runs -- */

/* The file behind descriptor 0, which a library closes by mistake if it takes zeroed memory for a descriptor. */
static struct stat file_of_input(void)
{
	struct stat st = {.st_ino = 0};

	fstat(0, &st);
	return st;
}

/* Makes one run; returns 0 if it made fewer allocations than the number that should fail. */
static int run_once(struct run *run)
{
	const struct stat input = file_of_input();
	struct stat input_after;
	long before;
	int hit;

	alarm(RUN_S);
	atomic_store(&run->aborted, 0);
	if (run->c->begins)
		before = alloc_blocks();
	else if (before = alloc_blocks(), !make_all(run, "init_all without a failure"))
		return 0;
	alloc_arm(run->n);
	run->c->act(run, run->c->kind);
	alloc_disarm();
	hit = alloc_hit();
	destroy_all(run);
	if (run->n && alloc_blocks() != before)
		fault(run, "%ld blocks are not freed", alloc_blocks() - before);
	input_after = file_of_input();
	if (input_after.st_dev != input.st_dev || input_after.st_ino != input.st_ino)
		fault(run, "descriptor 0 was closed");
	atomic_store(&run->aborted, 0);
	if (hit && make_all(run, "init_all afterwards"))
		sum_all(run, "a sum afterwards");
	destroy_all(run);
	alarm(0);
	return hit;
}

/* Makes the runs of one child: every WORKERS-th run. */
static void run_some(const struct memory_case *c, struct report *report, int worker, long n)
{
	struct run *run = calloc(1, sizeof(*run));

	if (!run)
		exit(1);
	run->c = c;
	run->report = report;
	run->failing = -1;
	run_once(run); /* for the allocations that a process makes only once */
	run_once(run);
	for (run->n = n;; run->n += WORKERS) {
		atomic_store(&report->run[worker], run->n);
		if (!run_once(run) || atomic_load(&report->faults) >= FAULTS)
			break;
		atomic_fetch_add(&report->failed, 1);
	}
	atomic_store(&report->finished[worker], 1);
	free(run);
	exit(0);
}

static pid_t start(const struct memory_case *c, struct report *report, int worker, long n)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		run_some(c, report, worker, n);
	if (pid < 0)
		bail_out("cannot fork: %s", strerror(errno));
	return pid;
}

/*
 * A child that ends early has crashed or hung in its run; a new child continues with the next run.
 */
static void check_case(const struct memory_case *c)
{
	struct report *report = ranks_memory(sizeof(*report));
	struct run blame = {.c = c, .report = report};
	pid_t pid[WORKERS];
	int status;

	for (int w = 0; w < WORKERS; w++)
		pid[w] = start(c, report, w, w + 1);
	for (int w = 0; w < WORKERS; w++) {
		while (waitpid(pid[w], &status, 0) == pid[w] &&
		       (status || !atomic_load(&report->finished[w]))) {
			blame.n = atomic_load(&report->run[w]);
			if (WIFSIGNALED(status) && WTERMSIG(status) == SIGALRM)
				fault(&blame, "the run hangs");
			else
				fault(&blame, "the process ends with status %#x", (unsigned)status);
			if (atomic_load(&report->faults) >= FAULTS)
				break;
			pid[w] = start(c, report, w, blame.n + WORKERS);
		}
	}
	ok(!report->faults && report->failed > 0, "%s, %s: each of %ld allocations fails",
	   c->backend, c->name, report->failed);
	for (int i = 0; i < FAULTS && i < report->faults; i++)
		diag("%s", report->fault[i]);
	munmap(report, sizeof(*report));
}

/* The case that the command line names; NULL or 0: all. */
static struct {
	const char *backend, *name;
	long n;
} asked;

static void check(const struct memory_case *c)
{
	struct report report = {.fault = {""}};
	struct run *run;

	if (asked.name && strcmp(asked.name, c->name))
		return;
	if (!asked.n) {
		check_case(c);
		return;
	}
	run = calloc(1, sizeof(*run));
	*run = (struct run){.c = c, .report = &report, .failing = -1};
	run_once(run);
	run_once(run);
	run->n = asked.n;
	run_once(run);
	ok(!report.faults, "%s, %s: allocation %ld fails", c->backend, c->name, asked.n);
	for (int i = 0; i < FAULTS && i < report.faults; i++)
		diag("%s", report.fault[i]);
	free(run);
}

static void check_backend(const char *backend)
{
	static const struct memory_case other[] = {
		{.name = "init_all", .act = act_init, .begins = 1},
		{.name = "info", .act = act_info, .begins = 1},
		{.name = "send and receive", .act = act_sendrecv},
		{.name = "messages before their receives", .act = act_unexpected},
		{.name = "a group", .act = act_group},
		{.name = "operations of the application", .act = act_redop},
		{.name = "events", .act = act_event},
		{.name = "split", .act = act_derive, .kind = DERIVE_SPLIT},
		{.name = "dup", .act = act_derive, .kind = DERIVE_DUP},
		{.name = "shrink", .act = act_derive, .kind = DERIVE_SHRINK, .timeout_ms = 1500},
		{.name = "destroy", .act = act_destroy},
	};

	/* The ucx plugin allocates nothing for messages of this size, and the library's allocations for them
	 * fail over tcp. */
	int allocates = strcmp(backend, "ucx") != 0;

	alloc_find_code(NULL);
	for (size_t i = 0; i < sizeof(other) / sizeof(other[0]); i++) {
		struct memory_case c = other[i];

		c.backend = backend;
		if (c.begins || allocates)
			check(&c);
	}
	for (int kind = COLL_KIND_ALLREDUCE; allocates && kind <= COLL_KIND_EXSCAN; kind++) {
		struct memory_case c = {.backend = backend, .act = act_request, .kind = kind};

		if (kind == COLL_KIND_SEND || kind == COLL_KIND_RECV)
			continue;
		c.name = coll_kind_name(kind);
		check(&c);
	}
}

int main(int argc, char **argv)
{
	static const char *const backends[] = {"tcp", "simulated", "ucx"};
	char reason[RANKS_TEXT];

	asked.backend = argc > 1 ? argv[1] : NULL;
	asked.name = argc > 2 ? argv[2] : NULL;
	asked.n = argc > 3 ? atol(argv[3]) : 0;
	if (fcntl(0, F_GETFD) < 0 && open("/dev/null", O_RDONLY) != 0)
		bail_out("cannot open /dev/null as descriptor 0");
	setenv("COLL_TIMEOUT", "5s", 1);
	setenv("COLL_INIT_TIMEOUT", "5s", 1);
	setenv("COLL_DESTROY_TIMEOUT", "1s", 1);
	/* UCX's TCP ends the process ("endpoint reconfiguration not supported yet") if a connection of an
	 * endpoint that failed to open reaches the next endpoint.  UCX fills its segments at each open. */
	setenv("UCX_TLS", "sysv,self", 0);
	setenv("UCX_SYSV_SEG_SIZE", "1024", 0);
	for (int i = 0; i < 3; i++) {
		if (asked.backend && strcmp(asked.backend, backends[i]))
			continue;
		if (coll_backend_available(backends[i], reason, sizeof(reason))) {
			skip(1, "%s: %s", backends[i], reason);
			continue;
		}
		check_backend(backends[i]);
	}
	return done_testing();
}

#endif
