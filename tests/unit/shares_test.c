/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shares_test.c - ranks learn which of them share a process, a host, a network and so on, in every communicator;
 * the ranks of a host form a node.  Namespaces make one host look like several.
 */
#include "../lib/namespaces.h"
#include "../lib/ranks.h"
#include "algorithm/rules.h"
#include "comm/comm.h"
#include "compose/composed.h"

#include <coll/backend.h>
#include <fcntl.h>
#include <sched.h>

enum { NRANKS = 5, ROUNDS = 64, PIECE = 32 << 10, WAIT_S = 60, ALL = 63, EXCLUDED = 1 };

/* The number of the process, host, network, ... of each rank. */
static const struct {
	int process, host, network, pids, files, ipc;
} place[NRANKS] = {
	{0, 0, 0, 0, 0, 0},
	{1, 0, 0, 0, 0, 1}, /* another IPC namespace, another name of the host */
	{2, 0, 1, 0, 0, 0}, /* another network namespace */
	{3, 0, 1, 1, 0, 0}, /* the same network as rank 2, another PID namespace */
	{4, 1, 2, 2, 1, 2}, /* another kernel */
};

static struct scene {
	_Atomic int arrived[ROUNDS], pid_of_2;
	char piece[ROUNDS][NRANKS][PIECE];
	char text[NRANKS][RANKS_TEXT];
} * scene;

struct way {
	int rank, round;
};

/* An allgather through shared memory, since the ranks share no network. */
static int32_t exchange(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	struct way *way = user;
	int round = way->round++;
	double deadline = ranks_now() + (double)timeout_ms / 1000;

	if (round >= ROUNDS || len > PIECE)
		return 1;
	memcpy(scene->piece[round][way->rank], in, len);
	atomic_fetch_add(&scene->arrived[round], 1);
	while (atomic_load(&scene->arrived[round]) < NRANKS) {
		if (ranks_now() > deadline)
			return 1;
		ranks_sleep(0.001);
	}
	for (size_t r = 0; r < NRANKS; r++)
		memcpy((char *)out + r * len, scene->piece[round][r], len);
	return 0;
}

/* -------------------------------------------------------------------- the places -- */

static int enter_network_of_2(void)
{
	double deadline = ranks_now() + WAIT_S;
	char path[64];
	int fd;

	while (!atomic_load(&scene->pid_of_2) && ranks_now() < deadline)
		ranks_sleep(0.001);
	snprintf(path, sizeof(path), "/proc/%d/ns/net", atomic_load(&scene->pid_of_2));
	fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || setns(fd, CLONE_NEWNET))
		return -1;
	return close(fd);
}

/* Only a child of the process is in the new namespace: it goes on, and this process waits for it. */
static int enter_pids(void)
{
	int status = 1;
	pid_t child;

	if (unshare(CLONE_NEWPID))
		return -1;
	child = fork();
	if (child <= 0)
		return child;
	waitpid(child, &status, 0);
	_exit(status != 0);
}

static int go_to_place(int rank)
{
	static const char other_kernel[] = "12345678-1234-1234-1234-123456789abc\n";

	switch (rank) {
	case 1: return unshare(CLONE_NEWIPC | CLONE_NEWUTS) || sethostname("elsewhere", 9);
	case 2:
		if (unshare(CLONE_NEWNET) || namespaces_loopback())
			return -1;
		atomic_store(&scene->pid_of_2, getpid());
		return 0;
	case 3: return enter_network_of_2() || enter_pids();
	case 4:
		return unshare(CLONE_NEWNS) || namespaces_hide_mounts() ||
		       namespaces_replace("/proc/sys/kernel/random/boot_id", other_kernel);
	default: return 0;
	}
}

/* ---------------------------------------------------------------------- the bits -- */

/* The number of processors that this process may run on; 0: unknown. */
static int processors(void)
{
	cpu_set_t cpus;

	return sched_getaffinity(0, sizeof(cpus), &cpus) ? 0 : CPU_COUNT(&cpus);
}

/* member: the n members of the communicator. */
static int takes_turns(int rank, const int *member, int n)
{
	int ranks = 0;

	for (int i = 0; i < n; i++)
		ranks += place[member[i]].host == place[rank].host;
	return processors() && ranks > processors();
}

/* The kind of processors of the host of rank 0, for rules. */
static int expected_cpus(const int *member, int n)
{
	if (!takes_turns(member[0], member, n))
		return CPUS_OWN;
	return processors() > 2 ? CPUS_SHARED : CPUS_FEW;
}

static uint8_t expected(int a, int b, int turns)
{
	return (uint8_t)((turns && place[a].host == place[b].host ? COLL_SHARES_PROCESSORS : 0) |
			 (place[a].process == place[b].process ? COLL_SHARES_PROCESS : 0) |
			 (place[a].host == place[b].host ? COLL_SHARES_HOST : 0) |
			 (place[a].network == place[b].network ? COLL_SHARES_NETWORK : 0) |
			 (place[a].pids == place[b].pids ? COLL_SHARES_PIDS : 0) |
			 (place[a].files == place[b].files ? COLL_SHARES_FILES : 0) |
			 (place[a].ipc == place[b].ipc ? COLL_SHARES_IPC : 0));
}

/* member: the first ranks of the n members of `handle`. */
static int sees(struct rank *r, coll_comm_t handle, const int *member, int n, const char *what)
{
	const int turns = takes_turns(r->rank, member, n);
	struct lane *lane;
	void *shares;

	if (!rank_did(r, coll_comm_native_handle(handle, &shares), what))
		return 0;
	for (int i = 0; i < n; i++)
		if (((uint8_t *)shares)[i] != expected(r->rank, member[i], turns))
			return rank_fail(r, "%s: it shares %#x with rank %d, not %#x", what,
					 ((uint8_t *)shares)[i], member[i],
					 expected(r->rank, member[i], turns));
	lane = comm_enter(handle, what);
	if (lane && lane->composed->cpus != expected_cpus(member, n))
		rank_fail(r, "%s: processors of kind %d, not %d", what, lane->composed->cpus,
			  expected_cpus(member, n));
	for (int i = 0; lane && i < n; i++) {
		int first = 0, leader = lane->composed->nodes.leader[lane->composed->nodes.node[i]];

		while (place[member[first]].host != place[member[i]].host)
			first++;
		if (leader != first)
			rank_fail(r, "%s: rank %d is on the node of rank %d, not %d", what,
				  member[i], leader, first);
	}
	if (lane)
		comm_leave(lane);
	return !r->failure[0];
}

/* The ranks of a network in descending order: only they can meet over TCP. */
static void test_split(struct rank *r)
{
	static const int member[][2] = {{1, 0}, {3, 2}, {4, 4}};
	int color = place[r->rank].network;
	coll_comm_t comm = NULL;

	if (rank_did(r, coll_comm_split(r->comm, color, -r->rank, &comm, NULL), "split"))
		sees(r, comm, member[color], color == 2 ? 1 : 2, "split");
	if (comm)
		rank_did(r, coll_comm_destroy(comm), "destroy the split communicator");
}

static void test_shrink(struct rank *r)
{
	static const int member[] = {0, 2, 3, 4};
	const int32_t exclude = EXCLUDED;
	coll_comm_t comm = NULL;

	if (r->rank == EXCLUDED)
		return;
	if (rank_did(r, coll_comm_shrink(r->comm, &exclude, 1, &comm, NULL, 0), "shrink"))
		sees(r, comm, member, 4, "shrink");
	if (comm)
		rank_did(r, coll_comm_destroy(comm), "destroy the shrunk communicator");
}

static void run_rank(int rank)
{
	static const int member[] = {0, 1, 2, 3, 4};
	struct rank r = {NULL, rank, NRANKS, NULL, scene->text[rank]};
	struct way way = {.rank = rank};
	coll_config_t config;

	if (go_to_place(rank)) {
		rank_fail(&r, "cannot go to its place: %s", strerror(errno));
		exit(1);
	}
	ranks_config(&config, "shares");
	if (rank_did(&r, coll_comm_init_exchange(&r.comm, NRANKS, rank, exchange, &way, &config),
		     "init") &&
	    sees(&r, r.comm, member, NRANKS, "init")) {
		test_split(&r);
		test_shrink(&r);
		rank_did(&r, coll_comm_abort(r.comm), "abort");
	}
	exit(r.failure[0] != '\0');
}

/* Not where the root directory is no mount point, as after chroot. */
static int can_hide_mounts(void)
{
	int status = 1;
	pid_t child = fork();

	if (child == 0)
		_exit(unshare(CLONE_NEWNS) || namespaces_hide_mounts());
	waitpid(child, &status, 0);
	return status == 0;
}

static void test_processes(void)
{
	double deadline = ranks_now() + 2 * WAIT_S;
	pid_t pid[NRANKS];
	int status;

	if (namespaces_enter(CLONE_NEWNS)) {
		skip(NRANKS, "no namespaces here: %s", strerror(errno));
		return;
	}
	if (!can_hide_mounts()) {
		skip(NRANKS, "no mounts of its own here");
		return;
	}
	fflush(stdout);
	for (int r = 0; r < NRANKS; r++) {
		pid[r] = fork();
		if (pid[r] < 0)
			bail_out("cannot fork: %s", strerror(errno));
		if (!pid[r])
			run_rank(r);
	}
	for (int r = 0; r < NRANKS; r++) {
		if (!ranks_reap(pid[r], deadline, &status))
			snprintf(scene->text[r], RANKS_TEXT, "the rank hung");
		else if (status && !scene->text[r][0])
			snprintf(scene->text[r], RANKS_TEXT, "the rank ended with status %#x",
				 (unsigned)status);
		is_str(scene->text[r], "", "rank %d sees what it shares with the others", r);
	}
}

static void test_threads(void)
{
	const uint8_t all = processors() == 1 ? ALL | COLL_SHARES_PROCESSORS : ALL;
	coll_comm_t comm[2];
	coll_config_t config;
	void *shares;

	ranks_config(&config, "shares");
	if (coll_comm_init_all(comm, 2, NULL, &config))
		bail_out("init_all: %s", coll_get_last_error(NULL));
	for (int r = 0; r < 2; r++) {
		is_int(coll_comm_native_handle(comm[r], &shares), COLL_SUCCESS, "its bits");
		ok(((uint8_t *)shares)[0] == all && ((uint8_t *)shares)[1] == all,
		   "threads of a process share everything");
	}
	for (int r = 0; r < 2; r++)
		is_int(coll_comm_destroy(comm[r]), COLL_SUCCESS, "destroy");
}

int main(void)
{
	ranks_plugins("tests/plugins/.libs", NULL);
	scene = ranks_memory(sizeof(*scene));
	test_processes();
	test_threads();
	return done_testing();
}
