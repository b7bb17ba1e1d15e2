/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sandbox_test.c - a sandbox (seccomp) forbids the calls with which ranks of one host agree on shared memory: their
 * messages stay on the socket, and no rank is taken for lost.
 */
#include "../lib/log_capture.h"
#include "../lib/ranks.h"

#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <sys/prctl.h>

enum { NRANKS = 2, LENGTH = 1 << 17 };

/* A call that fails with that errno on one rank, or on all with rank -1. */
struct rule {
	const char *what;
	int number, command; /* of fcntl(); -1: every call of that number */
	int rank, error;
};

/* From now on the rule holds in this process. */
static int forbid(const struct rule *rule)
{
	const int any = rule->command < 0;
	struct sock_filter code[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)rule->number, 0, 3),
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
		BPF_JUMP(BPF_JMP | (any ? BPF_JGE : BPF_JEQ) | BPF_K,
			 any ? 0 : (unsigned)rule->command, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)rule->error),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog filter = {.len = sizeof(code) / sizeof(code[0]), .filter = code};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter);
}

static void use(struct rank *r)
{
	const struct rule *rule = r->user;
	int64_t *x = calloc(LENGTH, sizeof(*x));

	if ((rule->rank < 0 || rule->rank == r->rank) && forbid(rule))
		rank_fail(r, "seccomp: %s", strerror(errno));
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

static int can_forbid(void)
{
	const struct rule nothing = {"", -1, -1, -1, 0};
	int status = 1;
	pid_t child = fork();

	if (child == 0)
		_exit(forbid(&nothing) != 0);
	return child > 0 && waitpid(child, &status, 0) == child && status == 0;
}

int main(void)
{
	static const struct rule rules[] = {
		{"fcntl(F_GET_SEALS) is not permitted", SYS_fcntl, F_GET_SEALS, -1, EPERM},
		{"fcntl(F_GET_SEALS) is unknown to one rank", SYS_fcntl, F_GET_SEALS, 0, EINVAL},
		{"fcntl(F_ADD_SEALS) is not permitted", SYS_fcntl, F_ADD_SEALS, 1, EPERM},
		{"memfd_create() does not exist", SYS_memfd_create, -1, -1, ENOSYS},
		{"madvise() is not permitted", SYS_madvise, -1, 0, EPERM},
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
	return done_testing();
}
