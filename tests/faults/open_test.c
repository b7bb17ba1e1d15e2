/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open_test.c - while two processes make a communicator over tcp, rank 1 runs out of memory, of
 * descriptors or of threads: both ranks get an error with the cause and the number of the rank.
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

#include <signal.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>

/* The resource that rank 1 lacks. */
enum fault {
	FAULT_NONE,
	FAULT_EVENTFD,
	FAULT_EPOLL,
	FAULT_CORE_MEMORY,
	FAULT_PLUGIN_MEMORY,
	FAULT_SOFT_LIMIT, /* of open files, which a process may raise */
	FAULT_HARD_LIMIT,
	FAULT_THREAD,
	/* The last rank dies when the tcp backend connects it to the others; rank 1 connects late. */
	FAULT_DEATH
};

/* Rank 0 gives up, and listens no more, some time before rank 1 is told. */
enum { LATE_STEP_US = 20000, LATE_STEPS = 10 };
static useconds_t late_us;

enum { RANKS_MOST = 3 };

/* Results that the ranks write for the test. */
struct report {
	_Atomic int has_id;
	char id[COLL_UNIQUE_ID_SIZE];
	/* number of allocations of libcoll on rank 1 before it makes the context's eventfd */
	long before_eventfd;
	int hit;     /* an allocation of rank 1 has failed */
	int crashed; /* ranks that did not come to their end */
	int code[RANKS_MOST];
	char text[RANKS_MOST][1024];
	double ended[RANKS_MOST];
};

static struct report *report;
static enum fault fault;
static int own_rank = -1, nranks = 2;
static int has_epoll; /* the tcp backend has begun to open its endpoint */

/* ---------------------------------------------------- functions of the C library, replaced -- */

#pragma GCC visibility push(default)

int eventfd(unsigned count, int flags);
int epoll_create1(int flags);
int connect(int fd, const struct sockaddr *address, socklen_t len);

int eventfd(unsigned count, int flags)
{
	if (own_rank == 1 && !report->before_eventfd)
		report->before_eventfd = alloc_calls();
	if (own_rank != 1 || fault != FAULT_EVENTFD)
		return (int)syscall(SYS_eventfd2, count, flags);
	errno = EMFILE;
	return -1;
}

int epoll_create1(int flags)
{
	has_epoll = 1;
	if (own_rank != 1 || fault != FAULT_EPOLL)
		return (int)syscall(SYS_epoll_create1, flags);
	errno = EMFILE;
	return -1;
}

int connect(int fd, const struct sockaddr *address, socklen_t len)
{
	if (own_rank == nranks - 1 && fault == FAULT_DEATH && has_epoll)
		raise(SIGKILL);
	if (own_rank == 1 && fault == FAULT_DEATH && has_epoll)
		usleep(late_us);
	return (int)syscall(SYS_connect, fd, address, len);
}

#pragma GCC visibility pop

/* --------------------------------------------------------------------------- ranks -- */

/* Leaves this process n free descriptors. */
static void limit_files(long n)
{
	struct rlimit limit;
	int next = dup(0);

	close(next);
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = (rlim_t)(next + n);
	if (fault == FAULT_HARD_LIMIT)
		limit.rlim_max = limit.rlim_cur;
	if (setrlimit(RLIMIT_NOFILE, &limit))
		bail_out("setrlimit: %s", strerror(errno));
}

/* No address space holds the stack of a further thread. */
static void limit_threads(void)
{
	pthread_attr_t attr;

	pthread_attr_init(&attr);
	if (pthread_attr_setstacksize(&attr, (size_t)1 << 46) || pthread_setattr_default_np(&attr))
		bail_out("pthread_setattr_default_np");
	pthread_attr_destroy(&attr);
}

/*
 * Runs a rank in a process of its own; on rank 1 the n-th allocation fails if memory is the
 * resource.
 */
static void rank_main(int rank, long n)
{
	coll_config_t config;
	coll_comm_t comm = NULL;

	own_rank = rank;
	ranks_config(&config, "tcp");
	if (rank == 0) {
		coll_get_unique_id(report->id, sizeof(report->id));
		atomic_store(&report->has_id, 1);
	}
	while (!atomic_load(&report->has_id))
		ranks_sleep(0.001);
	if (rank == 1 && (fault == FAULT_SOFT_LIMIT || fault == FAULT_HARD_LIMIT))
		limit_files(n);
	else if (rank == 1 && fault == FAULT_THREAD)
		limit_threads();
	else if (rank == 1)
		alloc_arm(n);
	report->code[rank] = coll_comm_init_rank(&comm, nranks, report->id, rank, &config);
	alloc_disarm();
	report->hit |= rank == 1 && alloc_hit();
	report->ended[rank] = ranks_now();
	snprintf(report->text[rank], sizeof(report->text[rank]), "%s",
		 report->code[rank] ? coll_get_last_error(NULL) : "");
	if (comm)
		coll_comm_destroy(comm);
	_exit(0);
}

static void run(enum fault kind, long n)
{
	pid_t pid[RANKS_MOST];
	int status;

	fault = kind;
	memset(report, 0, sizeof(*report));
	alloc_find_code(kind == FAULT_PLUGIN_MEMORY ? "coll_tcp" : "libcoll.so");
	for (int r = 0; r < nranks; r++) {
		report->code[r] = -1;
		pid[r] = fork();
		if (pid[r] < 0)
			bail_out("fork: %s", strerror(errno));
		if (!pid[r]) {
			alarm(60);
			rank_main(r, n);
		}
	}
	for (int r = 0; r < nranks; r++) {
		waitpid(pid[r], &status, 0);
		if (!status || (kind == FAULT_DEATH && r == nranks - 1))
			continue;
		report->crashed++;
		diag("rank %d ended with status %#x in case %ld", r, (unsigned)status, n);
	}
}

/* The error texts of both ranks must name rank 1 and the cause. */
static void is_cause(int code, const char *words, const char *what)
{
	for (int r = 0; r < 2; r++) {
		is_int(report->code[r], code, "%s: code of rank %d", what, r);
		ok(!strncmp(report->text[r], "rank 1: ", 8) && strstr(report->text[r], words),
		   "%s: rank %d says '%s'", what, r, report->text[r]);
	}
}

/*
 * Rank 1 has few free descriptors: both ranks succeed, or both name rank 1 and the limit soon.  With one
 * free descriptor rank 1 can meet rank 0 and do nothing else.
 */
static void test_limit(enum fault kind, const char *what)
{
	static const int free_files[] = {1, 2, 3, 4, 5, 6, 8, 12, 16, 20, 24, 40};
	int failed = 0, good = 0;

	for (size_t i = 0; i < sizeof(free_files) / sizeof(free_files[0]); i++) {
		double start = ranks_now();

		run(kind, free_files[i]);
		if (report->code[0] || report->code[1]) {
			failed++;
			is_cause(COLL_ERR_SYSTEM, "limit", what);
		} else {
			good++;
		}
		ok(ranks_now() - start < 10 && !report->crashed, "%s, %d free descriptors: %.1f s",
		   what, free_files[i], ranks_now() - start);
	}
	ok(failed && good, "%s: %d starts fail, %d succeed", what, failed, good);
}

/* Wherever rank 1 runs out of memory after the ranks have met, both ranks fail or both succeed. */
static void test_memory(long first)
{
	int failed = 0, torn = 0, crashed = 0;
	long n;

	for (n = first; n < first + 1000; n++) {
		run(FAULT_CORE_MEMORY, n);
		if (!report->code[0] && !report->code[1] && !report->hit)
			break;
		failed += report->code[1] != COLL_SUCCESS;
		crashed += report->crashed;
		if (!report->code[0] != !report->code[1] && !torn++)
			diag("allocation %ld: rank 0 %d (%s), rank 1 %d (%s)", n, report->code[0],
			     report->text[0], report->code[1], report->text[1]);
	}
	is_int(crashed, 0, "no rank without memory crashes");
	ok(!torn && failed > 10, "%ld allocations fail in turn: %d of them both ranks, %d one rank",
	   n - 1, failed, torn);
}

/* Rank 1 has no thread for its progress. */
static void test_thread(void)
{
	double start = ranks_now();

	setenv("COLL_PROGRESS", "thread", 1);
	run(FAULT_THREAD, 0);
	is_cause(COLL_ERR_SYSTEM, "cannot start the progress thread", "no thread");
	ok(ranks_now() - start < 5, "both ranks end in %.1f s", ranks_now() - start);
	unsetenv("COLL_PROGRESS");
}

/* Rank 2 dies while ranks 0 and 1 wait for its connection. */
static void test_death(void)
{
	double start = ranks_now();

	nranks = 3;
	run(FAULT_DEATH, 0);
	nranks = 2;
	is_int(report->code[2], -1, "rank 2 has died");
	for (int r = 0; r < 2; r++) {
		is_int(report->code[r], COLL_ERR_PEER_LOST,
		       "a death while the ranks connect over TCP");
		ok(strstr(report->text[r], "rank 2 (") != NULL, "rank %d says '%s' after %.3f s", r,
		   report->text[r], report->ended[r] - start);
	}
}

int main(void)
{
	coll_info_t info;
	long before;

	report = ranks_memory(sizeof(*report));
	/* loads the plugins, so that their code addresses are known */
	if (coll_info_create(NULL, &info))
		bail_out("%s", coll_get_last_error(NULL));
	coll_info_destroy(info);
	run(FAULT_NONE, 0);
	is_int(report->code[0] | report->code[1], 0, "without a fault: %s%s", report->text[0],
	       report->text[1]);
	before = report->before_eventfd;
	ok(before > 2, "the context's memory is allocated before its eventfd");
	run(FAULT_EVENTFD, 0);
	is_cause(COLL_ERR_SYSTEM, "eventfd", "no descriptor for the context");
	run(FAULT_EPOLL, 0);
	is_cause(COLL_ERR_SYSTEM, "epoll", "no descriptor for tcp");
	run(FAULT_CORE_MEMORY, before - 1);
	is_cause(COLL_ERR_NO_MEMORY, "no memory for a communicator", "no memory for the context");
	run(FAULT_CORE_MEMORY, before);
	is_cause(COLL_ERR_NO_MEMORY, "memory", "no memory in the context");
	for (long n = 1; n <= 3; n++) {
		run(FAULT_PLUGIN_MEMORY, n);
		is_cause(COLL_ERR_NO_MEMORY, "memory", "no memory in tcp_open");
	}
	test_memory(before - 1);
	test_thread();
	test_limit(FAULT_SOFT_LIMIT, "a soft limit, local sockets");
	test_limit(FAULT_HARD_LIMIT, "a hard limit, local sockets");
	setenv("COLL_TCP_UNIX", "no", 1);
	/* Over TCP rank 0 waits for rank 1's connection and cannot see that rank 1 has given up. */
	for (long n = 4; n <= 7; n++) {
		double start = ranks_now();

		run(FAULT_PLUGIN_MEMORY, n);
		is_cause(COLL_ERR_NO_MEMORY, "memory", "no memory while the ranks connect");
		ok(ranks_now() - start < 10, "rank 0 hears of it after %.1f s",
		   ranks_now() - start);
	}
	for (int i = 0; i < LATE_STEPS; i++, late_us += LATE_STEP_US)
		test_death();
	test_limit(FAULT_SOFT_LIMIT, "a soft limit, TCP");
	test_limit(FAULT_HARD_LIMIT, "a hard limit, TCP");
	return done_testing();
}

#endif
