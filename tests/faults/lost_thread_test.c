/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lost_thread_test.c - threads that leave the library amid a call: by pthread_cancel, by siglongjmp out of a signal's
 * handler, or by pthread_exit in a function of the program.
 *
 * A thread that is cancelled leaves nothing behind.  After the others the communicator, and those on the same connections,
 * can be aborted and destroyed, and no call waits for the thread without a limit.
 *
 * Both ranks are in this process.  Argument: a backend; without any, all of them.
 */
#include "../lib/kept_lock.h"
#include "../lib/log_capture.h"
#include "../lib/open_files.h"
#include "../lib/random.h"
#include "../lib/ranks.h"

#include <setjmp.h>

enum { NRANKS = 2, CANCELS = 12, CANCELS_UCX = 4, FAR_MS = 100000, TIMEOUT_MS = 700 };

static const char *backend, *how;
static coll_comm_t comms[NRANKS];

/* The line of the log of a communicator whose memory is kept. */
static const char kept[] = "destroys a communicator whose memory is not freed";

static void open_comms(const char *options, int timeout_ms)
{
	const char *list[] = {options, NULL};
	coll_config_t config;

	ranks_config(&config, backend);
	config.options = options ? list : NULL;
	config.timeout_ms = timeout_ms;
	if (coll_comm_init_all(comms, NRANKS, NULL, &config))
		bail_out("%s: %s", backend, coll_get_last_error(NULL));
}

static void close_comms(void)
{
	for (int r = 0; r < NRANKS; r++)
		is_int(coll_comm_destroy(comms[r]), 0, "%s, %s: rank %d is destroyed", backend, how,
		       r);
}

/* -------------------------------------------------------------------- a thread -- */

struct thread {
	pthread_t id;
	_Atomic pid_t tid;
	void (*fn)(struct thread *t);
	_Atomic int done; /* fn has returned, or was left by a jump */
	coll_comm_t comm;
	coll_request_t request[2];
	coll_result_t code;
	int64_t x[2];
};

static _Thread_local sigjmp_buf back;

static void jump(int number)
{
	(void)number;
	siglongjmp(back, 1);
}

static void *run_thread(void *arg)
{
	struct thread *t = arg;

	if (!sigsetjmp(back, 1)) {
		atomic_store(&t->tid, (pid_t)syscall(SYS_gettid));
		t->fn(t);
	}
	atomic_store(&t->done, 1);
	return t;
}

static void start(struct thread *t, void (*fn)(struct thread *t), coll_comm_t comm)
{
	memset(t, 0, sizeof(*t));
	t->fn = fn;
	t->comm = comm;
	if (pthread_create(&t->id, NULL, run_thread, t))
		bail_out("cannot start a thread");
	while (!atomic_load(&t->tid))
		ranks_sleep(0.001);
}

/* Waits until the thread sleeps in the kernel. */
static void await_sleep(const struct thread *t)
{
	char path[64], state = 'R';

	snprintf(path, sizeof(path), "/proc/self/task/%d/stat", (int)t->tid);
	while (state != 'S') {
		FILE *stat = fopen(path, "re");

		ranks_sleep(0.002);
		if (!stat || fscanf(stat, "%*d (%*[^)]) %c", &state) != 1)
			bail_out("no state of the thread");
		fclose(stat);
	}
}

static int join(struct thread *t)
{
	void *result = NULL;

	pthread_join(t->id, &result);
	return result == PTHREAD_CANCELED;
}

/* ------------------------------------------------------------------- cancelled -- */

static void sum(struct thread *t)
{
	t->code = coll_allreduce(&t->x[0], &t->x[1], 1, COLL_INT64, COLL_SUM, t->comm, NULL);
}

static void cancel_sync(struct thread *t)
{
	sum(t);
	t->code = coll_sync(t->comm);
}

static void cancel_barrier(struct thread *t)
{
	t->code = coll_barrier(t->comm);
}

static void cancel_wait(struct thread *t)
{
	sum(t);
	coll_get_request(t->comm, &t->request[0]);
	t->code = coll_wait(t->request[0]);
}

static void receive(struct thread *t)
{
	for (int i = 0; i < 2; i++)
		coll_irecv(&t->x[i], 1, COLL_INT64, 1, i, t->comm, &t->request[i]);
}

static void cancel_message(struct thread *t)
{
	receive(t);
	t->code = coll_wait(t->request[0]);
}

static void cancel_any(struct thread *t)
{
	int32_t index;

	receive(t);
	t->code = coll_wait_any(2, t->request, -1, &index);
}

static void cancel_for(struct thread *t)
{
	receive(t);
	t->code = coll_wait_for(t->request[1], FAR_MS);
}

static const struct {
	const char *name;
	void (*fn)(struct thread *t);
} waits[] = {{"coll_sync", cancel_sync},    {"coll_barrier", cancel_barrier},
	     {"coll_wait", cancel_wait},    {"coll_wait of a message", cancel_message},
	     {"coll_wait_any", cancel_any}, {"coll_wait_for", cancel_for}};

/* Another thread ends the operation or the messages of the cancelled thread, as if that had gone on. */
static int ends(struct thread *t)
{
	coll_request_t sends[2] = {NULL};
	coll_result_t failure;
	int64_t x = 1, y = 0;
	int code = coll_comm_get_async_error(comms[0],
					     &failure); /* from now on this thread drives it */

	if (t->fn == cancel_barrier)
		return !code && !coll_barrier(comms[1]);
	for (int i = 0; i < 2 && t->request[1]; i++)
		code |= coll_isend(&x, 1, COLL_INT64, 0, i, comms[1], &sends[i]);
	if (!t->request[1])
		code |= coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, comms[1], NULL);
	for (int r = 0; r < NRANKS; r++)
		code |= coll_sync(comms[r]);
	for (int i = 0; i < 2; i++) {
		if (t->request[i])
			code |= coll_wait(t->request[i]) | coll_request_free(t->request[i]);
		if (sends[i])
			code |= coll_wait(sends[i]) | coll_request_free(sends[i]);
	}
	return !code;
}

static int sums(void)
{
	int64_t x = 1, y[NRANKS] = {0};
	int code = 0;

	for (int r = 0; r < NRANKS; r++)
		code |= coll_allreduce(&x, &y[r], 1, COLL_INT64, COLL_SUM, comms[r], NULL);
	for (int r = 0; r < NRANKS; r++)
		code |= coll_sync(comms[r]);
	return !code && y[0] == NRANKS && y[1] == NRANKS;
}

static void test_cancelled(const char *options)
{
	struct thread t;
	int before;

	log_begin();
	before = open_files();
	open_comms(options, FAR_MS);
	for (size_t i = 0; i < sizeof(waits) / sizeof(waits[0]); i++) {
		start(&t, waits[i].fn, comms[0]);
		await_sleep(&t);
		pthread_cancel(t.id);
		ok(join(&t), "%s, %s: a thread is cancelled in %s", backend, how, waits[i].name);
		ok(ends(&t) && sums(), "%s, %s: another thread goes on", backend, how);
	}
	close_comms();
	/* UCX keeps some descriptors for the process. */
	if (strcmp(backend, "ucx"))
		is_int(open_files(), before, "%s, %s: all descriptors are closed", backend, how);
	log_end();
	is_int(log_lines(kept), 0, "%s, %s: all memory is freed", backend, how);
}

/*
 * Both ranks add for ever: whatever the thread of rank 0 is in when it is cancelled, it keeps nothing.  UCX makes calls of
 * the system that end the thread amid the library, with its lock.
 */
static void add_for_ever(struct thread *t)
{
	do {
		sum(t);
		t->code = t->code ? t->code : coll_sync(t->comm);
	} while (!t->code);
}

static void test_cancelled_anywhere(const char *options)
{
	const int tries = strcmp(backend, "ucx") ? CANCELS : CANCELS_UCX;
	struct thread t[NRANKS];
	int cancelled = 0;

	log_begin();
	for (int i = 0; i < tries; i++) {
		open_comms(options, FAR_MS);
		for (int r = 0; r < NRANKS; r++)
			start(&t[r], add_for_ever, comms[r]);
		ranks_sleep(1e-6 * random_below(3000));
		pthread_cancel(t[0].id);
		cancelled += join(&t[0]);
		coll_comm_abort(comms[1]);
		join(&t[1]);
		for (int r = 0; r < NRANKS; r++)
			coll_comm_destroy(comms[r]);
	}
	log_end();
	is_int(cancelled, tries, "%s, %s: a thread is cancelled amid its calls", backend, how);
	if (tries == CANCELS)
		is_int(log_lines(kept), 0, "%s, %s: and keeps nothing", backend, how);
}

/* ---------------------------------------------------------------------- jumps -- */

static void sleep_in_sync(struct thread *t)
{
	sum(t);
	t->code = coll_sync(t->comm);
}

/* The thread leaves its sleep in coll_sync.  A communicator on the same connections goes on. */
static void test_jump_from_sleep(const char *options)
{
	coll_comm_t dups[NRANKS], old[NRANKS];
	struct thread t;

	log_begin();
	open_comms(options, FAR_MS);
	coll_group_start();
	for (int r = 0; r < NRANKS; r++)
		coll_comm_dup(comms[r], &dups[r]);
	is_int(coll_group_end(), 0, "%s, %s: dups", backend, how);
	start(&t, sleep_in_sync, comms[0]);
	await_sleep(&t);
	pthread_kill(t.id, SIGUSR1);
	join(&t);
	is_int(coll_comm_abort(comms[0]), 0, "%s, %s: abort after a jump out of a sleep", backend,
	       how);
	memcpy(old, comms, sizeof(old));
	close_comms();
	is_int(coll_comm_abort(old[0]), COLL_ERR_INVALID_ARGUMENT,
	       "%s, %s: the handle is not valid", backend, how);
	memcpy(comms, dups, sizeof(dups));
	ok(sums() && sums(), "%s, %s: a dup goes on", backend, how);
	close_comms();
	log_end();
	is_int(log_lines(kept), 1, "%s, %s: one line of the log", backend, how);
	if (log_lines(kept) != 1)
		diag("%s", log_text());
}

static coll_comm_t split_place; /* where the communicator would go that the thread waits for */

static void sleep_in_split(struct thread *t)
{
	t->code = coll_comm_split(t->comm, 0, 0, &split_place, NULL);
}

/* The place for the handle may be gone with the thread that has left: nobody writes it. */
static void test_jump_from_split(void)
{
	coll_comm_t made;
	coll_result_t failure;
	struct thread t;

	log_begin();
	open_comms(NULL, FAR_MS);
	split_place = NULL;
	start(&t, sleep_in_split, comms[0]);
	await_sleep(&t);
	pthread_kill(t.id, SIGUSR1);
	join(&t);
	is_int(coll_comm_split(comms[1], 0, 0, &made, NULL), 0, "%s: the other rank splits",
	       backend);
	for (int i = 0; i < 100; i++)
		coll_comm_get_async_error(comms[0], &failure); /* moves its data */
	coll_comm_abort(made);
	coll_comm_destroy(made);
	coll_comm_abort(comms[0]);
	close_comms();
	ok(!split_place, "%s: a split makes nothing for a thread that has left it", backend);
	log_end();
}

/* A request that a thread has left in its sleep is freed, or kept, within a limit. */
static void test_request_of_jump(void)
{
	struct thread t;

	log_begin();
	open_comms(NULL, FAR_MS);
	start(&t, cancel_message, comms[0]);
	await_sleep(&t);
	pthread_kill(t.id, SIGUSR1);
	join(&t);
	is_int(coll_request_free(t.request[0]), 0, "%s: a request that a lost thread waits for",
	       backend);
	is_int(coll_request_free(t.request[1]), 0, "%s: and another request", backend);
	close_comms();
	log_end();
	is_int(log_lines("a request is not freed"), 1, "%s: the first is kept", backend);
	is_int(log_lines(kept), 1, "%s: so is the communicator", backend);
}

/* ----------------------------------------------------------- with the lock -- */

enum { COUNT = 4096 };

static int64_t numbers[2 * NRANKS][COUNT];

static int reduction(int rank)
{
	coll_op_t op;
	int code = coll_red_op_create_user(&op, kept_reduce, rank ? NULL : &kept_inside, 1,
					   comms[rank]);

	return code ? code
		    : coll_allreduce(numbers[2 * rank], numbers[2 * rank + 1], COUNT, COLL_INT64,
				     op, comms[rank], NULL);
}

/* Of rank 0: the function runs in this thread, which has the lock. */
static void reduce_sync(struct thread *t)
{
	t->code = reduction(0);
	if (!t->code)
		t->code = coll_sync(t->comm);
}

static void enter_function(struct thread *t, coll_comm_t dups[NRANKS])
{
	kept_begin();
	coll_group_start();
	for (int r = 0; r < NRANKS; r++)
		coll_comm_dup(comms[r], &dups[r]);
	is_int(coll_group_end(), 0, "%s, %s: dups", backend, how);
	is_int(reduction(1), 0, "%s, %s: rank 1 adds", backend, how);
	start(t, reduce_sync, comms[0]);
}

static void await_inside(void)
{
	coll_result_t failure;

	while (!atomic_load(&kept_inside)) {
		coll_comm_get_async_error(comms[1], &failure); /* moves its data */
		ranks_sleep(0.001);
	}
}

/* The thread leaves with the lock of all communicators of rank 0, in which another thread waits. */
static void test_lost_lock(const char *options, int by_exit)
{
	coll_comm_t dups[NRANKS];
	struct thread t, other;

	kept_exits = by_exit;
	log_begin();
	open_comms(options, TIMEOUT_MS);
	enter_function(&t, dups);
	await_inside();
	if (!by_exit)
		pthread_kill(t.id, SIGUSR1);
	join(&t);
	start(&other, sum, dups[0]);
	is_int(coll_comm_abort(comms[0]), COLL_ERR_TIMEOUT,
	       "%s, %s: an abort does not wait for a lock that is lost", backend, how);
	join(&other);
	is_int(other.code, COLL_ERR_TIMEOUT, "%s, %s: nor does a call", backend, how);
	close_comms();
	memcpy(comms, dups, sizeof(dups));
	close_comms();
	log_end();
	is_int(log_lines(kept), NRANKS, "%s, %s: a line of the log for each communicator", backend,
	       how);
}

/* A thread waits in coll_sync on a dup when another one leaves with the lock of both. */
static void test_lost_lock_of_wait(const char *options)
{
	coll_comm_t dups[NRANKS];
	struct thread t, other;

	kept_exits = 0;
	log_begin();
	open_comms(options, FAR_MS);
	enter_function(&t, dups);
	await_inside();
	start(&other, sleep_in_sync, dups[0]); /* for the lock */
	await_sleep(&other);
	pthread_kill(other.id, SIGUSR1);
	join(&other);
	atomic_store(&kept_goes, 1);
	is_int(coll_sync(comms[1]), 0, "%s, %s: rank 1 goes on", backend, how);
	is_int(join(&t), 0, "%s, %s: so does the thread with the lock", backend, how);
	is_int(t.code, 0, "%s, %s: and ends its call", backend, how);
	ok(sums(), "%s, %s: a thread that was to get the lock is not waited for", backend, how);
	close_comms();
	memcpy(comms, dups, sizeof(dups));
	close_comms();
	log_end();
	is_int(log_lines(kept), 1, "%s, %s: its communicator is kept", backend, how);
}

/* ----------------------------------------------------------------------- main -- */

static const struct {
	const char *backend, *how, *option;
	int locks, exits; /* which of the slower tests */
} ways[] = {{"simulated", "in the process", NULL, 1, 0},
	    {"tcp", "shared memory", NULL, 1, 1},
	    {"tcp", "local sockets", "tcp.ring=0", 0, 0},
	    {"tcp", "a thread of the library", "progress=thread", 0, 0},
	    {"ucx", "shared memory", NULL, 1, 0}};

static void test_way(int i)
{
	const char *option = ways[i].option;

	backend = ways[i].backend;
	how = ways[i].how;
	test_cancelled(option);
	test_cancelled_anywhere(option);
	test_jump_from_sleep(option);
	if (i == 0)
		test_jump_from_split();
	test_request_of_jump();
	if (!ways[i].locks)
		return;
	test_lost_lock(option, ways[i].exits);
	test_lost_lock_of_wait(option);
}

int main(int argc, char **argv)
{
	const char *sanitize = getenv("TEST_SANITIZE");

	/* The thread's locks and atomics mean nothing to it from then on. */
	if (sanitize && strstr(sanitize, "thread"))
		skip_all("ThreadSanitizer does not follow a thread that leaves a call of the "
			 "system otherwise than by its return");
	setenv("COLL_DESTROY_TIMEOUT", "200ms", 1);
	signal(SIGUSR1, jump);
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if ((argc < 2 || !strcmp(argv[1], ways[i].backend)) && ranks_can(ways[i].backend))
			test_way((int)i);
	return done_testing();
}
