/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sandbox_test.c - a sandbox (seccomp) forbids the calls with which ranks of one host agree on shared memory: their
 * messages stay on the socket, and no rank is taken for lost.  Or it forbids the calls with which they share memory of
 * coll_mem_alloc: they get ordinary memory, or their messages go through the ring.
 */
#include "../lib/log_capture.h"
#include "../lib/open_files.h"
#include "../lib/ranks.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <sys/prctl.h>

enum { NRANKS = 2, LENGTH = 1 << 17 };
enum { LENT_RANKS = 3, PART = 128 << 10, TURNS = 4, LOOKS = 600 };

/* A call that fails with that errno on one rank, or on all with rank -1. */
struct rule {
	const char *what;
	int number;
	int arg;              /* the argument that tells which calls fail; -1: all of that number */
	unsigned mask, value; /* they fail if (argument & mask) == value */
	int rank, error;
	/*
	 * 0: it holds from the beginning.  BEFORE: before memory is allocated, which is then ordinary.  AFTER: after that, and
	 * the memory is not mapped.  UNSEEN: before memory is allocated, which is as it is without the rule.
	 */
	int lent;
};

enum { BEFORE = 1, AFTER, UNSEEN };

/* From now on the rule holds in this process. */
static int forbid(const struct rule *rule)
{
	const unsigned arg = rule->arg < 0 ? 0 : (unsigned)rule->arg;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)rule->number, 0, 4),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 (unsigned)offsetof(struct seccomp_data, args) + 8 * arg),
		BPF_STMT(BPF_ALU | BPF_AND | BPF_K, rule->arg < 0 ? 0 : rule->mask),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, rule->arg < 0 ? 0 : rule->value, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)rule->error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static int is_forbidden(const struct rule *rule, const struct rank *r)
{
	return rule->rank < 0 || rule->rank == r->rank;
}

static void forbid_here(struct rank *r, int when)
{
	const struct rule *rule = r->user;

	if (rule->lent == when && is_forbidden(rule, r) && forbid(rule))
		rank_fail(r, "seccomp: %s", strerror(errno));
}

static void use(struct rank *r)
{
	int64_t *x = calloc(LENGTH, sizeof(*x));

	forbid_here(r, 0);
	for (int round = 0; x && round < 6; round++) {
		x[LENGTH - 1] = r->rank;
		if (!sums_to(r, r->comm, 1, NRANKS, "the sum") ||
		    !rank_did(r, coll_allreduce(x, x, LENGTH, COLL_INT64, COLL_SUM, r->comm, NULL),
			      "a long sum") ||
		    !rank_did(r, coll_sync(r->comm), "sync"))
			break;
		if (x[LENGTH - 1] != 1)
			rank_fail(r, "a long sum is %lld", (long long)x[LENGTH - 1]);
	}
	free(x);
}

/* ---------------------------------------------------------- memory that ranks share -- */

/* Every rank sends its part of `in` to every rank: out[i] of rank r is of the rank i / PART. */
static int exchanges(struct rank *r, const int32_t *in, int32_t *out)
{
	coll_alltoall(in, out, PART, COLL_INT32, r->comm, NULL);
	if (!rank_did(r, coll_sync(r->comm), "alltoall"))
		return 0;
	for (int i = 0; i < LENT_RANKS * PART; i++)
		if (out[i] != i % PART + r->rank * PART + i / PART)
			return rank_fail(r, "alltoall: element %d is %d", i, out[i]);
	return 1;
}

static int sums(struct rank *r, const int32_t *in, int32_t *out)
{
	coll_allreduce(in, out, (size_t)LENT_RANKS * PART, COLL_INT32, COLL_SUM, r->comm, NULL);
	if (!rank_did(r, coll_sync(r->comm), "allreduce"))
		return 0;
	for (int i = 0; i < LENT_RANKS * PART; i++)
		if (out[i] != LENT_RANKS * i + LENT_RANKS * (LENT_RANKS - 1) / 2)
			return rank_fail(r, "allreduce: element %d is %d", i, out[i]);
	return 1;
}

static int scatters(struct rank *r, const int32_t *in, int32_t *out)
{
	coll_reduce_scatter(in, out, PART, COLL_INT32, COLL_SUM, r->comm, NULL);
	if (!rank_did(r, coll_sync(r->comm), "reduce_scatter"))
		return 0;
	for (int i = 0; i < PART; i++)
		if (out[i] != LENT_RANKS * (i + r->rank * PART) + LENT_RANKS * (LENT_RANKS - 1) / 2)
			return rank_fail(r, "reduce_scatter: element %d is %d", i, out[i]);
	return 1;
}

static int gathers(struct rank *r, const int32_t *in, int32_t *out)
{
	coll_allgather(in, out, PART, COLL_INT32, r->comm, NULL);
	if (!rank_did(r, coll_sync(r->comm), "allgather"))
		return 0;
	for (int i = 0; i < LENT_RANKS * PART; i++)
		if (out[i] != i % PART + i / PART)
			return rank_fail(r, "allgather: element %d is %d", i, out[i]);
	return 1;
}

static int broadcasts(struct rank *r, int32_t *in, int root)
{
	coll_broadcast(in, in, (size_t)LENT_RANKS * PART, COLL_INT32, root, r->comm, NULL);
	if (!rank_did(r, coll_sync(r->comm), "broadcast"))
		return 0;
	for (int i = 0; i < LENT_RANKS * PART; i++)
		if (in[i] != i + root)
			return rank_fail(r, "broadcast: element %d is %d", i, in[i]);
	return 1;
}

static void *memory_of(struct rank *r)
{
	void *at = NULL;

	rank_did(r, coll_mem_alloc(r->comm, (size_t)LENT_RANKS * PART * sizeof(int32_t), &at),
		 "coll_mem_alloc");
	return at;
}

/* Has this process mapped a ring from and a ring to each other rank? */
static int has_rings(void)
{
	return mapped_files("memfd:coll-tcp") == 2 * (LENT_RANKS - 1);
}

/* Moves messages between all ranks until they have their rings, a minute at most. */
static void make_rings(struct rank *r)
{
	const double end = ranks_now() + 60;
	int32_t own[LENT_RANKS], all[LENT_RANKS];
	int without = LENT_RANKS;

	while (without && ranks_now() < end) {
		const int32_t none = !has_rings();

		for (int i = 0; i < LENT_RANKS; i++)
			own[i] = none;
		coll_alltoall(own, all, 1, COLL_INT32, r->comm, NULL);
		if (!rank_did(r, coll_sync(r->comm), "alltoall"))
			return;
		without = 0;
		for (int i = 0; i < LENT_RANKS; i++)
			without += all[i];
	}
	rank_is(r, without, 0, "ranks without rings");
}

/* The ranks have rings before the rule holds. */
static void use_memory(struct rank *r)
{
	int32_t *in, *out;

	make_rings(r);
	forbid_here(r, BEFORE);
	forbid_here(r, UNSEEN);
	in = memory_of(r);
	out = memory_of(r);
	forbid_here(r, AFTER);
	for (int turn = 0; in && out && turn < TURNS; turn++) {
		for (int i = 0; i < LENT_RANKS * PART; i++)
			in[i] = i + r->rank;
		if (!sums(r, in, out) || !exchanges(r, in, out) || !scatters(r, in, out) ||
		    !gathers(r, in, out) || !broadcasts(r, in, turn % LENT_RANKS))
			break;
	}
	/* A rank looks for offers of memory only now and then. */
	for (int round = 0; round < LOOKS; round++)
		if (!sums_to(r, r->comm, 1, LENT_RANKS, "the sum"))
			break;
	rank_did(r, coll_mem_free(in), "coll_mem_free");
	rank_did(r, coll_mem_free(out), "coll_mem_free");
}

/* From now on the ranks have two processors at most.  Ranks that take turns lend every long message. */
static void take_turns(void)
{
	cpu_set_t all, some;
	int left = 2;

	if (sched_getaffinity(0, sizeof(all), &all))
		bail_out("sched_getaffinity: %s", strerror(errno));
	CPU_ZERO(&some);
	for (int i = 0; i < CPU_SETSIZE && left; i++)
		if (CPU_ISSET(i, &all)) {
			CPU_SET(i, &some);
			left--;
		}
	sched_setaffinity(0, sizeof(some), &some);
}

static void test_memory(const struct rule *rule)
{
	struct ranks_job job = {"tcp", LENT_RANKS, 1, use_memory, (void *)(uintptr_t)rule};
	const int ranks = rule->rank < 0 ? LENT_RANKS : 1;

	log_begin();
	ranks_ok(&job, "%s: each collective is right", rule->what);
	log_end();
	is_int(log_lines("coll_mem_alloc allocates ordinary memory: cannot make"),
	       rule->lent == BEFORE ? ranks : 0, "each rank whose memory is ordinary says so once");
	is_int(log_lines("this rank cannot map memory that rank"), rule->lent == AFTER ? ranks : 0,
	       "each rank that cannot map memory says so once");
}

/* ------------------------------------------------------------------------------ main -- */

static int can_forbid(void)
{
	const struct rule nothing = {.number = -1, .arg = -1};
	int status = 1;
	pid_t child = fork();

	if (child == 0)
		_exit(forbid(&nothing) != 0);
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(void)
{
	static const struct rule rules[] = {
		{"fcntl(F_GET_SEALS) is not permitted", SYS_fcntl, 1, ~0u, F_GET_SEALS, -1, EPERM,
		 0},
		{"fcntl(F_GET_SEALS) is unknown to one rank", SYS_fcntl, 1, ~0u, F_GET_SEALS, 0,
		 EINVAL, 0},
		{"fcntl(F_ADD_SEALS) is not permitted", SYS_fcntl, 1, ~0u, F_ADD_SEALS, 1, EPERM,
		 0},
		{"memfd_create() does not exist", SYS_memfd_create, -1, 0, 0, -1, ENOSYS, 0},
		{"madvise() is not permitted", SYS_madvise, -1, 0, 0, 0, EPERM, 0},
	};
	static const struct rule lent[] = {
		{"memfd_create() is not permitted", SYS_memfd_create, -1, 0, 0, -1, EPERM, BEFORE},
		{"memfd_create() is not permitted to one rank", SYS_memfd_create, -1, 0, 0, 2,
		 EPERM, BEFORE},
		{"fcntl(F_ADD_SEALS) is not permitted", SYS_fcntl, 1, ~0u, F_ADD_SEALS, -1, EPERM,
		 BEFORE},
		{"fcntl(F_ADD_SEALS) is not permitted to one rank", SYS_fcntl, 1, ~0u, F_ADD_SEALS,
		 1, EPERM, BEFORE},
		{"mmap() of shared memory is not permitted", SYS_mmap, 3, MAP_SHARED, MAP_SHARED,
		 -1, EACCES, BEFORE},
		{"mmap() of memory that comes is not permitted", SYS_mmap, 3, MAP_SHARED,
		 MAP_SHARED, -1, EACCES, AFTER},
		{"mmap() of memory that comes is not permitted to one rank", SYS_mmap, 3,
		 MAP_SHARED, MAP_SHARED, 0, EPERM, AFTER},
		{"fcntl(F_GET_SEALS) of memory that comes is not permitted", SYS_fcntl, 1, ~0u,
		 F_GET_SEALS, -1, EPERM, AFTER},
		{"madvise() of memory that comes is not permitted to one rank", SYS_madvise, -1, 0,
		 0, 1, EPERM, AFTER},
		{"MADV_POPULATE_WRITE is unknown", SYS_madvise, 2, ~0u, 23, -1, EINVAL, UNSEEN},
	};

	if (!can_forbid())
		skip_all("no seccomp filter: %s", strerror(errno));
	setenv("COLL_LOG", "info", 1);
	for (size_t i = 0; i < sizeof(rules) / sizeof(rules[0]); i++) {
		struct ranks_job job = {"tcp", NRANKS, 1, use, (void *)(uintptr_t)&rules[i]};

		log_begin();
		ranks_ok(&job, "%s: no rank is lost", rules[i].what);
		log_end();
		ok(log_lines("no shared memory (option tcp.ring) between this rank") > 0,
		   "and a line says why the messages pass the socket");
	}
	take_turns();
	for (size_t i = 0; i < sizeof(lent) / sizeof(lent[0]); i++)
		test_memory(&lent[i]);
	return done_testing();
}
