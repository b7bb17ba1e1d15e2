/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lend_limits_test.c - memory of coll_mem_alloc among ranks whose processes the kernel protects from one another, or which have
 * little memory: each result is right, the memory is ordinary memory or an error says that there is none, and no rank dies.
 */
#include "../lib/ranks.h"

#include <fcntl.h>
#include <grp.h>
#include <sched.h>
#include <sys/prctl.h>
#include <sys/resource.h>

enum { RANKS = 3, BYTES = 1 << 20, ELEMENTS = BYTES / 4, TURNS = 5, OTHER_USER = 65533 };

/* The bytes that a rank allocates, and what a rank without address space still has for messages and for the library. */
enum { MEMORY = 16 * BYTES, ROOM = 4 * BYTES };

/* A limit that a rank, or with rank -1 each rank, sets on its own process before or after it allocates its memory. */
struct limit {
	const char *what;
	int rank, after;
	int (*set)(void); /* returns 0, or -1 with errno */
	int32_t fails;    /* coll_mem_alloc may fail so */
};

/* ------------------------------------------------------------------------- the limits -- */

static int undumpable(void)
{
	return prctl(PR_SET_DUMPABLE, 0, 0, 0, 0);
}

/* As a program does that was started by root and goes on as a user. */
static int other_user(void)
{
	return setgroups(0, NULL) || setresgid(OTHER_USER, OTHER_USER, OTHER_USER) ||
			       setresuid(OTHER_USER, OTHER_USER, OTHER_USER)
		       ? -1
		       : 0;
}

static int other_namespace(void)
{
	return unshare(CLONE_NEWUSER);
}

static int set_limit(int resource, rlim_t most)
{
	struct rlimit limit;

	if (getrlimit(resource, &limit))
		return -1;
	limit.rlim_cur = most;
	return setrlimit(resource, &limit);
}

static int short_files(void)
{
	return set_limit(RLIMIT_FSIZE, 4096);
}

/* Returns the bytes of the process's address space. */
static rlim_t address_space(void)
{
	FILE *file = fopen("/proc/self/statm", "re");
	unsigned long pages = 0;

	if (file && fscanf(file, "%lu", &pages) != 1)
		pages = 0;
	if (file)
		fclose(file);
	return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/*
 * The limit leaves room for the messages of an operation and for the library, but not for MEMORY bytes.  AddressSanitizer takes
 * more, and waits for ever once it gets none.
 */
static int no_address_space(void)
{
	if (ranks_sanitized()) {
		errno = ENOTSUP;
		return -1;
	}
	return set_limit(RLIMIT_AS, address_space() + ROOM);
}

static int no_locked_memory(void)
{
	return set_limit(RLIMIT_MEMLOCK, 0);
}

/* Can this process do so?  Another process tries. */
static int can(const struct limit *limit)
{
	int status = -1;
	pid_t child = fork();

	if (child == 0)
		_exit(limit->set() ? errno : 0);
	if (child < 0 || waitpid(child, &status, 0) != child || !WIFEXITED(status))
		bail_out("cannot try: %s", limit->what);
	if (WEXITSTATUS(status))
		skip(1, "%s: %s", limit->what, strerror(WEXITSTATUS(status)));
	return WEXITSTATUS(status) == 0;
}

/* -------------------------------------------------------------------------- the ranks -- */

static void set_here(struct rank *r, int after)
{
	const struct limit *limit = r->user;

	if (limit->after == after && (limit->rank < 0 || limit->rank == r->rank) && limit->set())
		rank_fail(r, "the limit: %s", strerror(errno));
}

/* Returns memory, of the library or, if it has none, of the program. */
static int32_t *memory_of(struct rank *r, int32_t *own, int *allocated)
{
	const struct limit *limit = r->user;
	void *at = NULL;
	coll_result_t code = coll_mem_alloc(r->comm, MEMORY, &at);

	*allocated = !code;
	if (!code)
		return at;
	if (code != limit->fails)
		rank_fail(r, "coll_mem_alloc: %d (%s)", code, coll_get_last_error(NULL));
	rank_says(r, "bytes", "coll_mem_alloc that fails says what it wanted");
	return own;
}

static int sum_is_right(struct rank *r, int32_t *in, int32_t *out, int turn)
{
	for (int i = 0; i < ELEMENTS; i++)
		in[i] = i + r->rank + turn;
	coll_allreduce(in, out, ELEMENTS, COLL_INT32, COLL_SUM, r->comm, NULL);
	if (!rank_did(r, coll_sync(r->comm), "allreduce"))
		return 0;
	for (int i = 0; i < ELEMENTS; i++)
		if (out[i] != RANKS * (i + turn) + RANKS * (RANKS - 1) / 2)
			return rank_fail(r, "element %d is %d in turn %d", i, out[i], turn);
	return 1;
}

/* The memory stays when the limit has come: a write to each page of it would show a page that is not there. */
static void use(struct rank *r)
{
	static int32_t own[2][ELEMENTS];
	int32_t *memory[2];
	int allocated[2];

	for (int round = 0; round < 6; round++)
		sums_to(r, r->comm, 1, RANKS, "the sum");
	set_here(r, 0);
	for (int i = 0; i < 2; i++)
		memory[i] = memory_of(r, own[i], &allocated[i]);
	set_here(r, 1);
	for (int turn = 0; turn < TURNS; turn++)
		if (!sum_is_right(r, memory[0], memory[1], turn) ||
		    !sum_is_right(r, memory[1], memory[0], turn))
			break;
	for (int i = 0; i < 2; i++)
		if (allocated[i])
			rank_did(r, coll_mem_free(memory[i]), "coll_mem_free");
}

/* ------------------------------------------------------------------- more than there is -- */

/* More than the machine has, but less than a process may map: the kernel would kill processes to find the pages. */
static void use_too_much(struct rank *r)
{
	const size_t least = (size_t)sysconf(_SC_PHYS_PAGES) * (size_t)sysconf(_SC_PAGESIZE);
	void *at = NULL;
	const double begin = ranks_now();

	for (size_t factor = 8; factor <= 512; factor *= 8)
		if (factor * least < (size_t)1 << 46) {
			rank_is(r, coll_mem_alloc(r->comm, factor * least, &at), COLL_ERR_NO_MEMORY,
				"more than the machine has");
			rank_says(r, "bytes", "the error says how much");
		}
	if (ranks_now() - begin > 10)
		rank_fail(r, "it took %.0f s", ranks_now() - begin);
	sums_to(r, r->comm, 1, RANKS, "the sum");
}

int main(void)
{
	static const struct limit limits[] = {
		{"a process that nobody may trace", 1, 0, undumpable, 0},
		{"processes that nobody may trace", -1, 1, undumpable, 0},
		{"a process that has become another user's", 1, 0, other_user, 0},
		{"a process that becomes another user's once it has the memory", 0, 1, other_user,
		 0},
		{"a user namespace of its own for one process", 2, 0, other_namespace, 0},
		{"a user namespace of its own for each process", -1, 1, other_namespace, 0},
		{"ulimit -f", -1, 0, short_files, 0},
		{"ulimit -f once the memory is there", 1, 1, short_files, 0},
		{"no address space for the memory", 1, 0, no_address_space, COLL_ERR_NO_MEMORY},
		{"no address space for the memory of other ranks", 1, 1, no_address_space, 0},
		{"ulimit -l 0", -1, 0, no_locked_memory, 0},
	};
	struct ranks_job much = {"tcp", RANKS, 1, use_too_much, NULL};

	ranks_plugins(".libs", NULL);
	for (size_t i = 0; i < sizeof(limits) / sizeof(limits[0]); i++) {
		struct ranks_job job = {"tcp", RANKS, 1, use, (void *)(uintptr_t)&limits[i]};

		if (can(&limits[i]))
			ranks_ok(&job, "%s", limits[i].what);
	}
	ranks_ok(&much, "more memory than the machine has is refused, and no process dies");
	return done_testing();
}
