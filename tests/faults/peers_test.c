/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peers_test.c - a rank dies, stops, never comes, leaves, or makes another call: every other rank
 * gets in time an error code and a message with the number of that rank.
 *
 * Each rank is a process, started and ended by its number.  Without arguments the test runs over
 * tcp and ucx, else over the backends that the arguments name.
 */
#include "../lib/ranks.h"

#include <sys/resource.h>

enum { NRANKS = 4, FAR_MS = 60000, NEAR_MS = 1500, START_MS = 5000 };

/* The result of one rank. */
struct report {
	_Atomic int phase; /* number of steps that the rank has made */
	coll_result_t code;
	double at;    /* time at which the rank got the code */
	double busy;  /* processor time of a wait of about LONG_WAIT_S seconds */
	int32_t lost; /* the ranks that coll_comm_get_failed counts */
	char text[RANKS_TEXT];
};

struct scene {
	struct ranks_shared shared;
	struct report report[RANKS_MAX];
	_Atomic int child_refused;
	_Atomic pid_t child;
};

/*
 * One scene: the action of each rank once it has a communicator, and the rank that acts differently
 * (`odd`).
 */
struct play {
	const char *name;
	int nranks, odd;
	void (*act)(struct rank *r, struct report *report, int odd);
	int64_t timeout_ms, init_timeout_ms;
};

static struct scene *scene;
static const char *backend;
static pid_t pids[RANKS_MAX];

static const double LONG_WAIT_S = 0.8;

enum { PHASE_STARTED = 1, PHASE_LOOPING = 2, PHASE_LIMITED = 2, PHASE_DONE = 3 };

static void record(struct report *report, coll_result_t code)
{
	report->at = ranks_now();
	report->code = code;
	snprintf(report->text, sizeof(report->text), "%s", coll_get_last_error(NULL));
	atomic_store(&report->phase, PHASE_DONE);
}

static void play_rank(const struct play *play, int rank)
{
	struct rank r = {NULL, rank, play->nranks, NULL, scene->shared.failure[rank]};
	struct report *report = &scene->report[rank];
	coll_config_t config;

	ranks_config(&config, backend);
	config.timeout_ms = play->timeout_ms;
	config.init_timeout_ms = play->init_timeout_ms;
	crash_watch();
	atomic_store(&report->phase, PHASE_STARTED);
	if (!play->act) { /* the action is the start itself */
		if (rank == play->odd && rank)
			for (;;)
				pause();
		ranks_init(&r, &scene->shared, &config);
		record(report, r.comm ? COLL_SUCCESS : 1);
		exit(0);
	}
	if (ranks_init(&r, &scene->shared, &config)) {
		play->act(&r, report, play->odd);
		coll_comm_destroy(r.comm);
	} else {
		record(report, COLL_ERR_INTERNAL);
	}
	exit(0);
}

static void play_start(const struct play *play)
{
	memset(scene, 0, sizeof(*scene));
	fflush(stdout);
	for (int r = 0; r < play->nranks; r++) {
		pids[r] = fork();
		if (pids[r] == 0)
			play_rank(play, r);
		if (pids[r] < 0)
			bail_out("cannot fork: %s", strerror(errno));
	}
}

static int gets_to_phase(int rank, int phase)
{
	double deadline = ranks_now() + 60;

	while (atomic_load(&scene->report[rank].phase) < phase && ranks_now() < deadline)
		ranks_sleep(0.002);
	return atomic_load(&scene->report[rank].phase) >= phase;
}

static void wait_for_phase(const struct play *play, int rank, int phase)
{
	if (!gets_to_phase(rank, phase))
		diag("%s: rank %d does not get to phase %d", play->name, rank, phase);
}

/* Waits for all ranks but `odd`, then ends `odd`. */
static void play_end(const struct play *play)
{
	double deadline = ranks_now() + 120;
	int status, hung = 0, crashed = 0;

	for (int r = 0; r < play->nranks; r++) {
		if (r == play->odd)
			continue;
		if (!ranks_reap(pids[r], deadline, &status))
			hung++;
		else
			crashed += status != 0;
	}
	if (play->odd >= 0) {
		kill(pids[play->odd], SIGKILL);
		waitpid(pids[play->odd], &status, 0);
	}
	ok(!hung, "%s, %s: no rank hangs", backend, play->name);
	ok(!crashed, "%s, %s: no rank crashes", backend, play->name);
}

/* Every rank but `odd` must get one of two codes and a message with these words. */
static void play_expect(const struct play *play, coll_result_t code, coll_result_t or_code,
			const char *word, const char *too)
{
	for (int r = 0; r < play->nranks; r++) {
		const struct report *report = &scene->report[r];

		if (r == play->odd)
			continue;
		if (!ok((report->code == code || report->code == or_code) &&
				strstr(report->text, word) && strstr(report->text, too),
			"%s: rank %d: %s", play->name, r, report->text))
			diag("code %d, expected %d or %d with '%s' and '%s'", report->code, code,
			     or_code, word, too);
	}
}

static int compare_times(const void *a, const void *b)
{
	const double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static double median_report(const struct play *play)
{
	double at[RANKS_MAX];
	int n = 0;

	for (int r = 0; r < play->nranks; r++)
		if (r != play->odd)
			at[n++] = scene->report[r].at;
	qsort(at, (size_t)n, sizeof(at[0]), compare_times);
	return at[n / 2];
}

static double last_report(const struct play *play)
{
	double last = 0;

	for (int r = 0; r < play->nranks; r++)
		if (r != play->odd && scene->report[r].at > last)
			last = scene->report[r].at;
	return last;
}

/* -------------------------------------------------------------- actions of ranks -- */

static coll_result_t one_sum(struct rank *r, float *x, size_t count)
{
	coll_result_t code = coll_allreduce(x, x, count, COLL_FLOAT32, COLL_MAX, r->comm, NULL);

	return code ? code : coll_sync(r->comm);
}

static void loop(struct rank *r, struct report *report, size_t count)
{
	float *x = calloc(count, sizeof(*x));
	coll_result_t code = COLL_SUCCESS;

	for (int i = 0; !code; i++) {
		if (i == 5)
			atomic_store(&report->phase, PHASE_LOOPING);
		code = one_sum(r, x, count);
	}
	record(report, code);
	free(x);
}

static void act_small(struct rank *r, struct report *report, int odd)
{
	(void)odd;
	loop(r, report, 1024);
}

static void act_large(struct rank *r, struct report *report, int odd)
{
	(void)odd;
	loop(r, report, 1 << 20);
}

/* The others go on without the silent rank, which none of them knows to be lost. */
static void act_small_and_shrink(struct rank *r, struct report *report, int odd)
{
	const int32_t silent = odd;
	coll_comm_t left = NULL;

	act_small(r, report, odd);
	rank_did(r, coll_comm_set_timeout(r->comm, FAR_MS), "set_timeout");
	rank_did(r, coll_comm_get_failed(r->comm, NULL, 0, &report->lost), "get_failed");
	if (rank_did(r, coll_comm_shrink(r->comm, &silent, 1, &left, NULL, 0), "shrink"))
		rank_did(r, coll_barrier(left), "barrier of those that are left");
	coll_comm_destroy(left);
}

static double processor_time(void)
{
	struct rusage u;

	getrusage(RUSAGE_SELF, &u);
	return (double)(u.ru_utime.tv_sec + u.ru_stime.tv_sec) +
	       (double)(u.ru_utime.tv_usec + u.ru_stime.tv_usec) * 1e-6;
}

/* The survivors shrink, and then wait for the first of them. */
static void act_shrink_and_wait(struct rank *r, struct report *report, int odd)
{
	const int32_t dead = odd;
	coll_comm_t left = NULL;
	coll_result_t code;
	double before;

	act_large(r, report, odd);
	code = coll_comm_shrink(r->comm, &dead, 1, &left, NULL, 0);
	if (code) {
		snprintf(r->failure, RANKS_TEXT, "shrink: %s", coll_get_last_error(NULL));
		return;
	}
	before = processor_time();
	if (r->rank == 0)
		ranks_sleep(LONG_WAIT_S);
	code = coll_barrier(left);
	if (!code)
		code = coll_sync(left);
	report->busy = code ? 1e9 : processor_time() - before;
	coll_comm_destroy(left);
}

/* `odd` has a child that outlives it and may not use its communicator. */
static void act_parent(struct rank *r, struct report *report, int odd)
{
	float x = 0;

	if (r->rank == odd) {
		pid_t child = fork();
		int status = 1;

		if (child == 0)
			_exit(coll_allreduce(&x, &x, 1, COLL_FLOAT32, COLL_MAX, r->comm, NULL) ==
						      COLL_ERR_INVALID_ARGUMENT &&
					      strstr(coll_get_last_error(NULL), "before fork")
				      ? 0
				      : 1);
		waitpid(child, &status, 0);
		atomic_store(&scene->child_refused, child > 0 && status == 0);
		child = fork();
		if (child == 0) {
			alarm(60);
			for (;;)
				pause();
		}
		atomic_store(&scene->child, child);
	}
	loop(r, report, 1024);
}

/* `odd` ends without destroying its communicator. */
static void act_exit(struct rank *r, struct report *report, int odd)
{
	float x = 0;

	for (int i = 0; r->rank == odd && i < 10; i++)
		one_sum(r, &x, 1);
	if (r->rank == odd)
		_exit(0);
	loop(r, report, 1);
}

/* `odd` destroys its communicator while the other ranks go on. */
static void act_leave(struct rank *r, struct report *report, int odd)
{
	float x = 0;

	if (r->rank != odd) {
		loop(r, report, 1);
		return;
	}
	for (int i = 0; i < 10; i++)
		one_sum(r, &x, 1);
	coll_comm_destroy(r->comm);
	for (;;)
		pause();
}

static void act_abort(struct rank *r, struct report *report, int odd)
{
	float x = 0;

	for (int i = 0; i < 10; i++)
		one_sum(r, &x, 1);
	if (r->rank != odd) {
		loop(r, report, 1);
		return;
	}
	coll_comm_abort(r->comm);
	for (;;)
		pause();
}

/* ------------------------------------------------------------- death and silence -- */

static void test_kill(const char *name, int odd, void (*act)(struct rank *, struct report *, int))
{
	struct play play = {name, NRANKS, odd, act, FAR_MS, FAR_MS};
	char who[16];
	double killed;

	snprintf(who, sizeof(who), "rank %d", odd);
	play_start(&play);
	for (int r = 0; r < NRANKS; r++)
		wait_for_phase(&play, r, PHASE_LOOPING);
	killed = ranks_now();
	kill(pids[odd], SIGKILL);
	play_end(&play);
	play_expect(&play, COLL_ERR_PEER_LOST, COLL_ERR_REMOTE, who, "");
	ok(last_report(&play) - killed < 20, "%s: long before the timeout (%.3f s)", name,
	   last_report(&play) - killed);
	diag("%s, %s: median time to the error %.1f ms", backend, name,
	     1e3 * (median_report(&play) - killed));
}

static void test_wait_after_kill(void)
{
	test_kill("a rank is killed, then the others wait", 1, act_shrink_and_wait);
	for (int r = 0; r < NRANKS; r++)
		if (r != 1)
			ok(scene->report[r].busy < LONG_WAIT_S / 2,
			   "rank %d sleeps while it waits: %.3f of %.1f s", r,
			   scene->report[r].busy, LONG_WAIT_S);
}

static void test_stop(void)
{
	struct play play = {"a rank is stopped", NRANKS, 1, act_small_and_shrink, NEAR_MS, FAR_MS};
	double stopped, took;

	/* A rank that is stopped inside UCX may hold up messages between the others (plugins/ucx/README.md). */
	if (!strcmp(backend, "ucx"))
		play.act = act_small;

	play_start(&play);
	for (int r = 0; r < NRANKS; r++)
		wait_for_phase(&play, r, PHASE_LOOPING);
	stopped = ranks_now();
	kill(pids[1], SIGSTOP);
	play_end(&play);
	/*
	 * A rank that waits for rank 1 times out; a rank that waits for such a rank gets its error,
	 * or times out too.
	 */
	play_expect(&play, COLL_ERR_TIMEOUT, COLL_ERR_REMOTE, "rank ", "");
	took = last_report(&play) - stopped;
	ok(took > 0.5 && took < 30, "%s: at about the timeout of %d ms (%.3f s)", play.name,
	   NEAR_MS, took);
	for (int r = 0; r < NRANKS; r++)
		if (r != 1)
			ok(scene->report[r].lost == 0 && !scene->shared.failure[r][0],
			   "%s: rank %d counts %d lost, and goes on: %s", play.name, r,
			   scene->report[r].lost, scene->shared.failure[r]);
	for (int r = 0, named = 0; r <= NRANKS; r++) {
		const char *text = r < NRANKS ? scene->report[r].text : "";

		/* "rank 0, 1": the rank that reports may wait for rank 0, which waits for rank 1. */
		named += strstr(text, "rank 1") || strstr(text, ", 1;");
		if (r == NRANKS)
			ok(named >= 1, "%s: it is named", play.name);
	}
}

/* All ranks have a communicator, and `odd` is alive but never calls. */
static void test_missing(int odd)
{
	struct play play = {"a rank is missing at the start", 3, odd, NULL, FAR_MS, START_MS};
	char who[32];

	snprintf(who, sizeof(who), "rank %d", odd);
	play_start(&play);
	play_end(&play);
	for (int r = 0; r < play.nranks; r++)
		if (r != odd)
			ok(strstr(scene->shared.failure[r], who) != NULL, "%s: rank %d: %s",
			   play.name, r, scene->shared.failure[r]);
}

/* `odd` dies while the other ranks wait for rank 2, which comes late. */
static void test_kill_at_start(void)
{
	struct play play = {"a rank is killed at the start", 3, 2, NULL, FAR_MS, START_MS};
	int status;

	play_start(&play);
	wait_for_phase(&play, 1, PHASE_STARTED);
	while (!atomic_load(&scene->shared.has_id))
		ranks_sleep(0.001);
	ranks_sleep(0.5);
	kill(pids[1], SIGKILL);
	ok(ranks_reap(pids[0], ranks_now() + 60, &status), "%s: rank 0 does not hang", play.name);
	is_int(status, 0, "%s: rank 0 does not crash", play.name);
	/* On a busy machine rank 1 may not have been heard from before it died: "ranks 1-2". */
	ok(strstr(scene->shared.failure[0], "rank 1") ||
		   strstr(scene->shared.failure[0], "rank 2") ||
		   strstr(scene->shared.failure[0], "ranks 1-2"),
	   "%s: rank 0: %s", play.name, scene->shared.failure[0]);
	for (int r = 1; r < 3; r++) {
		kill(pids[r], SIGKILL);
		waitpid(pids[r], &status, 0);
	}
}

static void test_leaving(void)
{
	struct play exits = {"a rank ends without destroy", NRANKS, 3, act_exit, FAR_MS, FAR_MS};
	struct play leaves = {"a rank destroys early", NRANKS, 0, act_leave, FAR_MS, FAR_MS};
	struct play aborts = {"a rank aborts", NRANKS, 2, act_abort, FAR_MS, FAR_MS};

	play_start(&exits);
	play_end(&exits);
	play_expect(&exits, COLL_ERR_PEER_LOST, COLL_ERR_REMOTE, "rank 3", "");
	play_start(&leaves);
	play_end(&leaves);
	play_expect(&leaves, COLL_ERR_PEER_LOST, COLL_ERR_REMOTE, "rank 0", "");
	play_start(&aborts);
	play_end(&aborts);
	play_expect(&aborts, COLL_ERR_REMOTE, COLL_ERR_REMOTE, "rank 2", "abort");
}

/* ------------------------------------------------------------------- mismatch -- */

/*
 * Some ranks may complete the operation before a mismatch shows, but none completes the barrier
 * that follows.
 */

static void act_count(struct rank *r, struct report *report, int odd)
{
	float x[128] = {0};
	coll_result_t code = coll_allreduce(x, x, r->rank == odd ? 101 : 100, COLL_FLOAT32,
					    COLL_SUM, r->comm, NULL);

	record(report, code ? code : coll_barrier(r->comm));
}

static void act_dtype(struct rank *r, struct report *report, int odd)
{
	float x[128] = {0};
	coll_result_t code = coll_allreduce(x, x, 100, r->rank == odd ? COLL_INT32 : COLL_FLOAT32,
					    COLL_SUM, r->comm, NULL);

	record(report, code ? code : coll_barrier(r->comm));
}

static void act_op(struct rank *r, struct report *report, int odd)
{
	float x[128] = {0};
	coll_result_t code = coll_allreduce(x, x, 100, COLL_FLOAT32,
					    r->rank == odd ? COLL_MAX : COLL_SUM, r->comm, NULL);

	record(report, code ? code : coll_barrier(r->comm));
}

static void act_counts(struct rank *r, struct report *report, int odd)
{
	const size_t counts[NRANKS] = {1, 2, r->rank == odd ? 1 : 2};
	float x[4] = {0}, all[4 * NRANKS] = {0};
	coll_result_t code =
		coll_allgatherv(x, counts[r->rank], all, counts, NULL, COLL_FLOAT32, r->comm, NULL);

	record(report, code ? code : coll_barrier(r->comm));
}

static void act_dup(struct rank *r, struct report *report, int odd)
{
	coll_comm_t copy;
	float x = 0;

	record(report, r->rank == odd ? coll_comm_dup(r->comm, &copy) : one_sum(r, &x, 1));
}

static void act_root(struct rank *r, struct report *report, int odd)
{
	float x[128] = {0};
	coll_result_t code =
		coll_broadcast(x, x, 100, COLL_FLOAT32, r->rank == odd ? 1 : 0, r->comm, NULL);

	record(report, code ? code : coll_barrier(r->comm));
}

static void act_kind(struct rank *r, struct report *report, int odd)
{
	float x[128] = {0};
	coll_result_t code =
		r->rank == odd ? coll_broadcast(x, x, 100, COLL_FLOAT32, 0, r->comm, NULL)
			       : coll_allreduce(x, x, 100, COLL_FLOAT32, COLL_SUM, r->comm, NULL);

	record(report, code ? code : coll_barrier(r->comm));
}

static void act_large_count(struct rank *r, struct report *report, int odd)
{
	size_t count = (1 << 20) + (r->rank == odd);
	float *x = calloc(count, sizeof(*x));

	record(report, one_sum(r, x, count));
	free(x);
}

/* `odd` calls barrier while the other ranks reduce. */
static void act_barrier(struct rank *r, struct report *report, int odd)
{
	float x = 0;

	record(report, r->rank == odd ? coll_barrier(r->comm) : one_sum(r, &x, 1));
}

/* The send and the receive of one pair differ; the other ranks wait in a barrier. */
static void act_message(struct rank *r, struct report *report, int odd)
{
	float x[8] = {0};
	coll_result_t code = COLL_SUCCESS;

	(void)odd;
	if (r->rank == 0)
		code = coll_send(x, 8, COLL_FLOAT32, 1, 5, r->comm, NULL);
	if (r->rank == 1)
		code = coll_recv(x, 7, COLL_FLOAT32, 0, 5, r->comm, NULL);
	record(report, code ? code : coll_barrier(r->comm));
}

enum { UNEXPECTED_BYTES = 256 << 20, ROOM_BYTES = 64 << 20 };

/* From now on this process may map ROOM_BYTES more than it has mapped, and no more. */
static int limit_memory(void)
{
	FILE *statm = fopen("/proc/self/statm", "r");
	struct rlimit limit;
	unsigned long pages = 0;

	if (statm && fscanf(statm, "%lu", &pages) != 1)
		pages = 0;
	if (statm)
		fclose(statm);
	if (!pages || getrlimit(RLIMIT_AS, &limit))
		return -1;
	limit.rlim_cur = (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE) + ROOM_BYTES;
	return setrlimit(RLIMIT_AS, &limit);
}

/* Rank 0 sends a message that `odd` has not posted a receive for and has no memory for. */
static void act_unexpected(struct rank *r, struct report *report, int odd)
{
	coll_result_t code = COLL_SUCCESS;
	char *x = NULL;

	if (r->rank == odd) {
		code = limit_memory() ? COLL_ERR_SYSTEM : COLL_SUCCESS;
		atomic_store(&report->phase, PHASE_LIMITED);
	}
	/* A thread of the library may take the message before the limit. */
	if (r->rank == 0 && gets_to_phase(odd, PHASE_LIMITED)) {
		x = calloc(UNEXPECTED_BYTES, 1);
		code = coll_send(x, UNEXPECTED_BYTES, COLL_UINT8, odd, 5, r->comm, NULL);
	}
	record(report, code ? code : coll_barrier(r->comm));
	free(x);
}

static void test_no_memory(void)
{
	struct play play = {"no memory for a message", NRANKS, -1, act_unexpected, FAR_MS, FAR_MS};
	int code;

	if (getenv("TEST_SANITIZE") && *getenv("TEST_SANITIZE")) {
		skip(1, "sanitizers need more memory than the limit leaves");
		return;
	}
	play.odd = 1;
	play_start(&play);
	play.odd = -1;
	play_end(&play);
	play_expect(&play, COLL_ERR_REMOTE, COLL_ERR_NO_MEMORY,
		    "rank 1 has no memory to keep a message of 268435456 bytes from rank 0", "");
	for (int r = 0; r < NRANKS; r++) {
		code = r == 1 ? COLL_ERR_NO_MEMORY : COLL_ERR_REMOTE;
		is_int(scene->report[r].code, code, "no memory for a message: code on rank %d", r);
	}
}

static void test_mismatch(const char *name, int odd,
			  void (*act)(struct rank *, struct report *, int), const char *a,
			  const char *b)
{
	struct play play = {name, NRANKS, -1, act, FAR_MS, FAR_MS};
	char who[16];

	snprintf(who, sizeof(who), "rank %d", odd);
	/* `odd` acts differently, and the test expects of it the same as of the other ranks. */
	play.odd = odd;
	play_start(&play);
	play.odd = -1;
	play_end(&play);
	play_expect(&play, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, a, b);
	play_expect(&play, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, who, "called");
}

static void test_backend(const char *name)
{
	backend = name;
	test_kill("a rank is killed", 2, act_small);
	test_kill("rank 0 is killed", 0, act_small);
	test_kill("a rank is killed during large transfers", 1, act_large);
	test_kill("a rank with a child is killed", 1, act_parent);
	ok(atomic_load(&scene->child_refused), "a child may not use its parent's communicator");
	kill(atomic_load(&scene->child), SIGKILL);
	test_wait_after_kill();
	test_stop();
	test_missing(2);
	test_missing(1);
	test_kill_at_start();
	test_leaving();
	test_mismatch("different counts", 1, act_count, "101 float32", "100 float32");
	test_mismatch("different types", 3, act_dtype, "int32", "float32");
	test_mismatch("different operations", 0, act_op, "max", "sum");
	test_mismatch("different roots", 3, act_root, "root 1", "root 0");
	test_mismatch("different collectives", 2, act_kind, "broadcast", "allreduce");
	test_mismatch("different counts of allgatherv", 1, act_counts, "allgatherv of float32",
		      "with other counts than rank");
	test_mismatch("a dup against a sum", 1, act_dup, "comm_split or comm_dup", "allreduce");
	test_mismatch("different large counts", 2, act_large_count, "1048577", "1048576");
	test_mismatch("a barrier against a sum", 1, act_barrier, "barrier", "allreduce");
	test_mismatch("a receive of another count", 1, act_message, "8 float32", "7 float32");
	if (!strcmp(name, "tcp")) /* ucx's own memory would meet the limit first */
		test_no_memory();
}

int main(int argc, char **argv)
{
	alarm(1200);
	scene = ranks_memory(sizeof(*scene));
	for (int i = 1; i < argc; i++)
		test_backend(argv[i]);
	if (argc == 1) {
		test_backend("tcp");
		if (ranks_can("ucx"))
			test_backend("ucx");
	}
	return done_testing();
}
