/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_group.c - groups.  Every call is a group of its own or part of a group.  The outermost end
 * does the gathered work: the jobs at the same time, then first uses of connections, then the
 * launches.  With non-blocking communicators a thread does this work, and the next call that finds
 * the communicator ready collects the result.
 */
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "nccl_parts.h"

/* first version in which collectives connect at their first use */
enum { GROUP_RUNTIME_CONNECT = 22200 };
/* most bytes for which collectives use trees */
enum { CONNECT_TREE_MOST = 65536 };
enum { LAUNCH_LOOSE, LAUNCH_JOINING, LAUNCH_JOINED };

struct work {
	struct job *jobs;
	struct nccl_comm *comms;
};

struct launch {
	pthread_t thread, starter;
	atomic_int refs, joined, stop;
	struct work work;
};

static _Thread_local struct {
	int depth, error;
	int decided, blocking; /* as the first communicator of the group determines */
	int destroys;          /* a blocking group */
	struct work work;
} group;

int group_start(void)
{
	group.depth++;
	return NCCL_SUCCESS;
}

int group_note(int code)
{
	if (group.depth > 0 && code && code != NCCL_IN_PROGRESS)
		group.error = code;
	return code;
}

/* ------------------------------------------------------------------- gathering -- */

static int group_agree(int blocking, int code)
{
	if (group.decided && group.blocking != blocking)
		return call_fail(code, "Blocking and nonblocking communicators are not allowed in "
				       "the same group.");
	group.decided = 1;
	group.blocking = blocking;
	return NCCL_SUCCESS;
}

static int job_alone(struct job *job)
{
	const struct halt none = {{NULL}};
	int code = job->run(job, &none);

	job->done(job);
	return code;
}

int group_add_job(struct job *job)
{
	struct job **end = &group.work.jobs;
	int code = NCCL_SUCCESS;

	if (!group.depth)
		return job_alone(job);
	if (job->destroys && job->comm->grouped)
		call_misuse("%p is ended in a group that has operations for it", (void *)job->comm);
	if (job->destroys)
		group.destroys = 1;
	else
		code = group_agree(job->comm->blocking, NCCL_INVALID_ARGUMENT);
	if (code) {
		job->done(job);
		return code;
	}
	while (*end)
		end = &(*end)->next;
	*end = job;
	return NCCL_SUCCESS;
}

static int group_join_comm(nccl_comm_t comm)
{
	struct nccl_comm **end = &group.work.comms;

	if (comm->grouped && !pthread_equal(comm->group_thread, pthread_self()))
		call_misuse("%p is in the groups of two threads", (void *)comm);
	if (comm->grouped)
		return NCCL_SUCCESS;
	while (*end)
		end = &(*end)->group_next;
	*end = comm;
	comm->group_next = NULL;
	comm->grouped = 1;
	comm->group_thread = pthread_self();
	return NCCL_SUCCESS;
}

int group_add_op(nccl_comm_t comm, const struct op *op)
{
	int pair = op->kind == KIND_SEND || op->kind == KIND_RECV;
	struct op **end = pair ? &comm->p2ps : &comm->colls, *copy;
	int code = group_agree(comm->blocking, NCCL_INVALID_USAGE);

	if (code)
		return code;
	copy = malloc(sizeof(*copy));
	if (!copy)
		return NCCL_SYSTEM_ERROR;
	*copy = *op;
	copy->next = NULL;
	code = group_join_comm(comm);
	while (*end)
		end = &(*end)->next;
	*end = copy;
	return code;
}

/* ------------------------------------------------------------------------- jobs -- */

static void *job_main(void *arg)
{
	struct job *job = arg;

	job->result = job->run(job, job->halt);
	if (job->result)
		atomic_store(job->halt->flag[3], 1);
	return NULL;
}

/* Runs the jobs at the same time, because they wait for each other; the failure of one ends all. */
static int jobs_run(struct job *jobs, atomic_int *stop)
{
	atomic_int failed = 0;
	struct halt halt = {{NULL, NULL, stop, &failed}};
	pthread_t threads[RENDEZVOUS_RANKS];
	struct job *job, *at[RENDEZVOUS_RANKS];
	int i, n = 0, code = NCCL_SUCCESS;

	if (jobs && !jobs->next)
		return jobs->run(jobs, &halt);
	for (job = jobs; job && n < RENDEZVOUS_RANKS; job = job->next) {
		job->halt = &halt;
		if (pthread_create(&threads[n], NULL, job_main, job)) {
			atomic_store(&failed, 1);
			code = NCCL_SYSTEM_ERROR;
			break;
		}
		at[n++] = job;
	}
	for (i = 0; i < n; i++) {
		pthread_join(threads[i], NULL);
		code = code ? code : at[i]->result;
	}
	return !code && job ? jobs_run(job, stop) : code;
}

/* ------------------------------------------------------------------- connections -- */

/* NCCL chooses an algorithm by the bytes of all collectives of a launch, and connects it at its first use. */
static unsigned connect_algorithm(nccl_comm_t comm)
{
	const struct op *op;
	size_t bytes = 0;

	for (op = comm->colls; op; op = op->next)
		bytes += op->bytes;
	return bytes > CONNECT_TREE_MOST ? CONNECT_RING : CONNECT_TREE;
}

static void connect_announce(nccl_comm_t comm)
{
	unsigned as = connect_algorithm(comm);
	const struct op *op;
	int r;

	for (r = 0; comm->colls && r < comm->nranks; r++) {
		rendezvous_announce(comm->rendezvous, CHANNEL_COLL, comm->rank, r, as);
		rendezvous_announce(comm->rendezvous, CHANNEL_COLL, r, comm->rank, as);
	}
	for (op = comm->p2ps; op; op = op->next)
		if (op->kind == KIND_SEND)
			rendezvous_announce(comm->rendezvous, CHANNEL_P2P, comm->rank, op->root,
					    CONNECT_PAIR);
		else
			rendezvous_announce(comm->rendezvous, CHANNEL_P2P, op->root, comm->rank,
					    CONNECT_PAIR);
}

static int connect_done(nccl_comm_t comm)
{
	const struct op *op;
	unsigned as = connect_algorithm(comm);
	int r, me = comm->rank;

	for (r = 0; comm->colls && call_version() >= GROUP_RUNTIME_CONNECT && r < comm->nranks; r++)
		if (r != me && !rendezvous_connected(comm->rendezvous, CHANNEL_COLL, r, me, as))
			return 0;
	for (op = comm->p2ps; op; op = op->next) {
		if (op->root == me)
			continue;
		if (op->kind == KIND_SEND && !rendezvous_connected(comm->rendezvous, CHANNEL_P2P,
								   me, op->root, CONNECT_PAIR))
			return 0;
		if (op->kind == KIND_RECV && !rendezvous_connected(comm->rendezvous, CHANNEL_P2P,
								   op->root, me, CONNECT_PAIR))
			return 0;
	}
	return 1;
}

/*
 * The first use of a connection waits on the host for the peer, because NCCL sets the connection up
 * then.
 */
static int connect_all(struct nccl_comm *comms, atomic_int *stop)
{
	struct nccl_comm *comm;
	struct halt halt;
	uint32_t bell;

	for (comm = comms; comm; comm = comm->group_next)
		connect_announce(comm);
	if (!call_env("STANDIN_NCCL_CONNECT", 1))
		return NCCL_SUCCESS;
	for (comm = comms; comm; comm = comm->group_next) {
		comm_halt(comm, &halt);
		halt.flag[2] = stop;
		for (bell = rendezvous_bell(comm->rendezvous); !connect_done(comm);
		     bell = rendezvous_bell(comm->rendezvous)) {
			if (halt_asked(&halt))
				return call_fail(NCCL_INTERNAL_ERROR, "aborted while connecting");
			rendezvous_sleep(comm->rendezvous, bell);
		}
	}
	return NCCL_SUCCESS;
}

/* --------------------------------------------------------------------- the work -- */

/*
 * Once the state of a communicator is set, its user may free it, so nothing touches it afterwards.
 */
static void work_settle(struct work *work, int code)
{
	struct nccl_comm *comm, *next;
	struct job *job;
	int set;

	while ((job = work->jobs) != NULL) {
		work->jobs = job->next;
		comm = job->destroys ? NULL : job->comm;
		set = comm && !comm->blocking && !comm->grouped;
		job->done(job);
		if (set)
			comm_set(comm, code);
	}
	for (comm = work->comms; comm; comm = next) {
		next = comm->group_next;
		ops_free(comm->colls);
		ops_free(comm->p2ps);
		comm->colls = comm->p2ps = NULL;
		comm->grouped = 0;
		if (!comm->blocking)
			comm_set(comm, code);
	}
	work->comms = NULL;
}

static int work_do(struct work *work, atomic_int *stop)
{
	struct nccl_comm *comm;
	int code = jobs_run(work->jobs, stop);

	if (!code)
		code = connect_all(work->comms, stop);
	for (comm = work->comms; comm && !code; comm = comm->group_next)
		code = kernel_launch(comm);
	return code;
}

/* While a blocking group works, its communicators are in use by this thread. */
static int work_here(struct work *work)
{
	struct nccl_comm *held[64], *comm;
	const struct job *job;
	int n = 0, code;

	for (job = work->jobs; job && n < 32; job = job->next)
		if (!job->destroys && !comm_enter(job->comm, "ncclGroupEnd"))
			held[n++] = job->comm;
	for (comm = work->comms; comm && n < 64; comm = comm->group_next)
		if (!comm_enter(comm, "ncclGroupEnd"))
			held[n++] = comm;
	code = work_do(work, NULL);
	work_settle(work, code);
	while (n > 0)
		comm_leave(held[--n]);
	return code;
}

static void *launch_main(void *arg)
{
	struct launch *launch = arg;

	call_delay();
	work_settle(&launch->work, work_do(&launch->work, &launch->stop));
	return NULL;
}

static void launch_link(struct launch *launch, nccl_comm_t comm)
{
	if (comm_enter(comm, "ncclGroupEnd"))
		return;
	comm_set(comm, NCCL_IN_PROGRESS);
	if (!comm->launch) {
		comm->launch = launch;
		atomic_fetch_add(&launch->refs, 1);
	}
	comm_leave(comm);
}

static int work_aside(struct work *work)
{
	struct launch *launch = calloc(1, sizeof(*launch));
	struct nccl_comm *comm;
	struct job *job;
	int code;

	if (!launch) {
		work_settle(work, NCCL_SYSTEM_ERROR);
		return NCCL_SYSTEM_ERROR;
	}
	launch->work = *work;
	launch->starter = pthread_self();
	(void)call_count("pthread_create");
	for (job = work->jobs; job; job = job->next)
		launch_link(launch, job->comm);
	for (comm = work->comms; comm; comm = comm->group_next)
		launch_link(launch, comm);
	code = pthread_create(&launch->thread, NULL, launch_main, launch);
	if (code)
		call_misuse("no thread for a launch: %s", strerror(code));
	return NCCL_IN_PROGRESS;
}

void group_join(nccl_comm_t comm, int stop)
{
	struct launch *launch = comm->launch;
	int loose = LAUNCH_LOOSE;

	if (!launch)
		return;
	/* Before 2.27 NCCL finds the launch by a variable of the thread. */
	if (call_version() < NCCL_2_27 && !pthread_equal(launch->starter, pthread_self()))
		call_misuse("%p: another thread has begun the call that is in progress",
			    (void *)comm);
	comm->launch = NULL;
	if (stop)
		atomic_store(&launch->stop, 1);
	if (atomic_compare_exchange_strong(&launch->joined, &loose, LAUNCH_JOINING)) {
		pthread_join(launch->thread, NULL);
		atomic_store(&launch->joined, LAUNCH_JOINED);
	}
	while (atomic_load(&launch->joined) != LAUNCH_JOINED)
		usleep(100);
	if (atomic_fetch_sub(&launch->refs, 1) == 1)
		free(launch);
}

int group_end(const char *fn)
{
	struct work work = group.work;
	int code = group.error, aside = group.decided && !group.blocking && !group.destroys;

	if (!group.depth)
		return call_fail(NCCL_INVALID_USAGE, "%s: not in a group call.", fn);
	if (--group.depth)
		return NCCL_SUCCESS;
	group.error = group.decided = group.blocking = group.destroys = 0;
	group.work = (struct work){NULL, NULL};
	if (code)
		work_settle(&work, code);
	else if (work.jobs || work.comms)
		code = aside ? work_aside(&work) : work_here(&work);
	return code;
}

int ncclGroupStart(void)
{
	int code = call_count("ncclGroupStart");

	return code ? code : group_start();
}

int ncclGroupEnd(void)
{
	(void)group_note(call_count("ncclGroupEnd"));
	return group_end("ncclGroupEnd");
}
