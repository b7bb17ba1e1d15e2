/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gap_test.c - a rank that is killed while it writes into another rank's receive queue in shared memory does not
 * block that queue for the other ranks; a slot that a living rank is just writing is not taken from it; and the last
 * message of a rank that ends meanwhile arrives behind that slot.
 *
 * The test runs the sender step by step (ptrace), until it has claimed a slot of rank 0's queue and not filled it.
 */
#include "../lib/ranks.h"

#include <sys/ptrace.h>
#include <sys/uio.h>

enum { NRANKS = 3, READER = 0, WAIT_S = 60, STEPS = 40 * 1000 * 1000 };
enum { SLOTS_AT = 192, SLOT_SIZE = 128, TAIL_AT = 128, PID_AT = 136, QUEUES = 4 };
enum { MOST = 1024 };

struct scene {
	struct ranks_shared shared;
	_Atomic int ready, go;
	_Atomic pid_t pid[NRANKS];
	double took[NRANKS];
};

/*
 * One run: `sender` is stopped in the middle of a send to rank 0 of `bytes` bytes, and rank 2 is killed; or it
 * `leaves`, after a message to rank 0.
 */
struct run {
	const char *name;
	int sender, bytes, leaves;
};

static struct scene *scene;
static const struct run *run;

static int until(_Atomic int *mark, int n)
{
	double deadline = ranks_now() + WAIT_S;

	while (atomic_load(mark) < n && ranks_now() < deadline)
		ranks_sleep(0.002);
	return atomic_load(mark) >= n;
}

/* ------------------------------------------------------------------------- the ranks -- */

static coll_result_t send_to_reader(coll_comm_t comm)
{
	char bytes[MOST];

	memset(bytes, 'x', sizeof(bytes));
	return coll_send(bytes, (size_t)run->bytes, COLL_INT8, READER, 0, comm, NULL);
}

static void receive(struct rank *r, coll_comm_t comm, int source)
{
	char bytes[MOST] = "";
	double from = ranks_now();

	if (!rank_did(r, coll_recv(bytes, (size_t)run->bytes, COLL_INT8, source, 0, comm, NULL),
		      "receive") ||
	    !rank_did(r, coll_sync(comm), "the wait for the message"))
		return;
	scene->took[r->rank] = ranks_now() - from;
	for (int i = 0; i < run->bytes; i++)
		if (bytes[i] != 'x')
			rank_fail(r, "byte %d is %d", i, bytes[i]);
}

/* The survivors hear of the death, and make a communicator in which they add. */
static void survive(struct rank *r)
{
	const int32_t dead = 2;
	coll_comm_t left = NULL;
	int64_t x = 1, y;
	double from = ranks_now();
	coll_result_t code = coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, r->comm, NULL);

	if (!code)
		code = coll_sync(r->comm);
	if (code != COLL_ERR_PEER_LOST || !strstr(coll_get_last_error(NULL), "rank 2 was lost"))
		rank_fail(r, "allreduce: %d, %s", code, coll_get_last_error(NULL));
	if (rank_did(r, coll_comm_shrink(r->comm, &dead, 1, &left, NULL, 0), "shrink") &&
	    sums_to(r, left, 1, 2, "allreduce after shrink"))
		rank_did(r, coll_comm_destroy(left), "destroy");
	if (run->sender == dead)
		scene->took[r->rank] = ranks_now() - from;
}

static void run_rank(int rank)
{
	struct rank r = {NULL, rank, NRANKS, NULL, scene->shared.failure[rank]};
	coll_config_t config;
	coll_comm_t pair = NULL;

	setenv("COLL_TIMEOUT", "10", 1);
	setenv("COLL_STALL_AFTER", "0", 1);
	ranks_config(&config, "ucx");
	atomic_store(&scene->pid[rank], getpid());
	if (rank == run->sender)
		ptrace(PTRACE_TRACEME, 0, NULL, NULL);
	if (!ranks_init(&r, &scene->shared, &config) ||
	    !rank_did(&r, coll_comm_split(r.comm, rank < 2 ? 0 : 1, 0, &pair, NULL), "split") ||
	    !sums_to(&r, r.comm, 1, NRANKS, "allreduce"))
		_exit(1);
	atomic_fetch_add(&scene->ready, 1);
	if (rank == run->sender) {
		raise(SIGSTOP);
		send_to_reader(rank == 2 ? r.comm : pair);
	}
	if (!until(&scene->go, 1))
		_exit(1);
	if (rank == READER && run->leaves)
		receive(&r, r.comm, 2);
	if (rank == READER && run->sender == 1)
		receive(&r, pair, 1);
	if (rank == 2 && rank_did(&r, send_to_reader(r.comm), "send"))
		rank_did(&r, coll_sync(r.comm), "the wait for the last message");
	if (!run->leaves)
		survive(&r);
	coll_comm_destroy(pair);
	coll_comm_destroy(r.comm);
	_exit(0);
}

/* ---------------------------------------------------------------- rank 0's queues, as UCX lays them out -- */

static uint64_t queue_at[QUEUES];
static uint64_t queue_slots[QUEUES];
static int queues;

static int reads(pid_t pid, uint64_t at, void *to, size_t n)
{
	struct iovec here = {to, n}, there = {(void *)(uintptr_t)at, n};

	return process_vm_readv(pid, &here, 1, &there, 1, 0) == (ssize_t)n;
}

static uint64_t read_number(pid_t pid, uint64_t at)
{
	uint64_t number = 0;

	reads(pid, at, &number, sizeof(number));
	return number;
}

/* The queues are small segments that begin with the descriptor of their socket and their owner's number. */
static void find_queues(pid_t pid)
{
	char path[40], line[512];
	uint64_t begin, end;
	FILE *maps;

	queues = 0;
	snprintf(path, sizeof(path), "/proc/%d/maps", (int)pid);
	maps = fopen(path, "r");
	while (maps && queues < QUEUES && fgets(line, sizeof(line), maps)) {
		if ((!strstr(line, "ucx_shm_posix") && !strstr(line, "SYSV")) ||
		    sscanf(line, "%" SCNx64 "-%" SCNx64, &begin, &end) != 2 ||
		    (pid_t)read_number(pid, begin + PID_AT) != pid)
			continue;
		queue_at[queues] = begin;
		queue_slots[queues] = 1;
		while (SLOTS_AT + 2 * queue_slots[queues] * SLOT_SIZE <= end - begin)
			queue_slots[queues] *= 2;
		queues++;
	}
	if (maps)
		fclose(maps);
}

/* Is the last claimed slot of one of the queues not filled? */
static int has_gap(pid_t pid)
{
	for (int i = 0; i < queues; i++) {
		uint64_t head = read_number(pid, queue_at[i]) << 1 >> 1, slots = queue_slots[i];
		uint8_t flags = 0;

		if (!head ||
		    !reads(pid, queue_at[i] + SLOTS_AT + (head - 1) % slots * SLOT_SIZE, &flags, 1))
			continue;
		if ((flags & 1) != ((head - 1) / slots & 1))
			return 1;
	}
	return 0;
}

/* ------------------------------------------------------------------------- the test -- */

/* Steps the sender until its slot is claimed and not filled; 0 if that did not come about. */
static int step_to_gap(pid_t sender, pid_t reader)
{
	double deadline = ranks_now() + WAIT_S;
	int status;

	if (waitpid(sender, &status, WUNTRACED) != sender || !WIFSTOPPED(status))
		return 0;
	find_queues(reader);
	for (int i = 0; i < STEPS && queues && ranks_now() < deadline; i++) {
		if (ptrace(PTRACE_SINGLESTEP, sender, NULL, NULL) ||
		    waitpid(sender, &status, 0) != sender || !WIFSTOPPED(status))
			return 0;
		if (has_gap(reader))
			return 1;
	}
	return 0;
}

/* A rank that hangs, or ends in another way than it should, has failed. */
static void reap(const pid_t *pid)
{
	int status;

	for (int r = 0; r < NRANKS; r++) {
		struct rank rank = {NULL, r, NRANKS, NULL, scene->shared.failure[r]};

		if (!ranks_reap(pid[r], ranks_now() + WAIT_S, &status))
			rank_fail(&rank, "the rank hung");
		else if (status)
			rank_fail(&rank, "the rank ended with status %#x", (unsigned)status);
	}
}

static void play(const struct run *what)
{
	pid_t pid[NRANKS];
	int ready, gap, survivors;

	run = what;
	survivors = run->leaves ? NRANKS : 2;
	memset(scene, 0, sizeof(*scene));
	fflush(stdout);
	for (int r = 0; r < NRANKS; r++) {
		pid[r] = fork();
		if (pid[r] == 0)
			run_rank(r);
	}
	ready = until(&scene->ready, NRANKS);
	gap = ready && step_to_gap(pid[run->sender], pid[READER]);
	for (int r = gap ? 2 : 0; r < NRANKS && !(gap && run->leaves); r++)
		kill(pid[r], SIGKILL);
	atomic_store(&scene->go, 1);
	if (run->sender == 1) {
		ranks_sleep(
			0.5); /* rank 0 hears of the death, and of the slot that is not filled */
		ptrace(PTRACE_DETACH, pid[1], NULL, NULL);
	}
	reap(pid);
	if (ready && !gap) {
		skip(survivors, "%s: the sender could not be stopped at its slot", run->name);
		return;
	}
	for (int r = 0; r < survivors; r++)
		ok(!scene->shared.failure[r][0], "%s: rank %d, %.3f s: %s", run->name, r,
		   scene->took[r], scene->shared.failure[r]);
}

int main(void)
{
	static const struct run runs[] = {
		{"killed in a short frame", 2, 8, 0},
		{"killed in a long frame", 2, MOST, 0},
		{"another killed, while a living rank writes", 1, 8, 0},
		{"another killed, while a living rank writes a long frame", 1, MOST, 0},
		{"another leaves, while a living rank writes", 1, 8, 1},
	};

	scene = ranks_memory(sizeof(*scene));
	if (!ranks_can("ucx"))
		return done_testing();
	for (size_t i = 0; i < sizeof(runs) / sizeof(runs[0]); i++)
		play(&runs[i]);
	return done_testing();
}
