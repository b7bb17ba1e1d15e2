/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_end_test.c - how communicators of the stand-in for NCCL fail and end: aborts, planned
 * failures, and messages for misuse that would crash NCCL.
 */
#include <signal.h>
#include <sys/resource.h>

#include "nccl_harness.h"

static nccl_comm_t shown[RANKS];

/* Waits until this process has called ncclSend n times in all, and the last call is likely to be blocked. */
static void await_sends(long n)
{
	while (standin_nccl_calls("ncclSend") < n)
		usleep(200);
	usleep(20000);
}

/* --------------------------------------------------------------------- abort, faults -- */

/* Rank 1's operations never run. */
static int muted(struct me *me)
{
	char *at = device_new(me, 64);

	WANT(settle(me->comm, ncclAllReduce(at, at, 1, I32, SUM, me->comm, me->stream)) == 0);
	WANT(cuStreamQuery(me->stream) == CUDA_ERROR_NOT_READY);
	WANT(ncclCommAbort(me->comm) == 0);
	me->comm = NULL;
	WANT(cuStreamSynchronize(me->stream) == 0);
	device_free(me, at);
	return 0;
}

/* An abort by another thread ends a blocked call on a blocking communicator. */
static int aborted(struct me *me)
{
	char *at = device_new(me, 64);

	shown[me->rank] = me->comm;
	if (me->rank == 0) {
		WANT(ncclSend(at, 1, I32, 1, me->comm, me->stream) == NCCL_INTERNAL_ERROR);
	} else {
		await_sends(1);
		WANT(ncclCommAbort(shown[0]) == 0);
		WANT(ncclCommAbort(me->comm) == 0);
	}
	me->comm = NULL;
	device_free(me, at);
	return 0;
}

/* The other rank never joins. */
static int lonely(struct me *me)
{
	nccl_config_t with = config(0);
	nccl_comm_t comm;
	int state = -1;

	WANT(ncclCommInitRankConfig(&comm, 2, me->id, 0, &with) == NCCL_IN_PROGRESS);
	WANT(ncclCommGetAsyncError(comm, &state) == 0 && state == NCCL_IN_PROGRESS);
	WANT(ncclCommAbort(comm) == 0);
	return 0;
}

/* The second call of this function and the third launch fail. */
static int faults(struct me *me)
{
	char *at = device_new(me, 64);
	int state = 0;

	WANT(sum(me, me->comm, 0) == 1);
	WANT(sum(me, me->comm, 0) == -NCCL_SYSTEM_ERROR);
	WANT(ncclCommGetAsyncError(me->comm, &state) == 0 && state == NCCL_SYSTEM_ERROR);
	WANT(standin_nccl_calls("ncclAllReduce") == 2);
	WANT(ncclCommAbort(me->comm) == 0);
	WANT(ncclGetUniqueId(&me->id) == 0);
	WANT(init(me) == 0);
	WANT(done(me, ncclBroadcast(at, at, 1, I32, 0, me->comm, me->stream)) == 0);
	(void)ncclBroadcast(at, at, 1, I32, 0, me->comm, me->stream);
	while (!ncclCommGetAsyncError(me->comm, &state) && !state)
		usleep(100);
	WANT(state == NCCL_REMOTE_ERROR);
	WANT(cuStreamQuery(me->stream) == CUDA_ERROR_NOT_READY);
	WANT(ncclCommAbort(me->comm) == 0);
	me->comm = NULL;
	device_free(me, at);
	return 0;
}

static void test_aborts(void)
{
	setenv("STANDIN_NCCL_MUTE", "1", 1);
	is_int(in_threads(2, 0, rank_main, muted), 0,
	       "what one rank never does hangs, until aborted");
	unsetenv("STANDIN_NCCL_MUTE");
	is_int(in_threads(2, 1, rank_main, aborted), 0, "another thread's blocked call is aborted");
	is_int(in_threads(1, 0, bare_main, lonely), 0, "waiting for ranks is aborted");
	setenv("STANDIN_NCCL_INIT_HANG", "1", 1);
	is_int(in_threads(1, 0, bare_main, lonely), 0, "an init that hangs is aborted");
	unsetenv("STANDIN_NCCL_INIT_HANG");
	is_int(standin_nccl_comms(), 0, "no communicator is left");
}

/* This test runs first, because the counters belong to the process. */
static void test_faults(void)
{
	setenv("STANDIN_NCCL_FAULT", "ncclAllReduce:2@2,ncclSend:1@1", 1);
	setenv("STANDIN_NCCL_ASYNC", "6@3", 1);
	is_int(in_processes(1, 0, rank_main, faults), 0, "planned failures");
	unsetenv("STANDIN_NCCL_FAULT");
	unsetenv("STANDIN_NCCL_ASYNC");
}

/* ------------------------------------------------------------------------- misuse -- */

static int use_after_destroy(struct me *me)
{
	int count;

	ncclCommDestroy(me->comm);
	return ncclCommCount(me->comm, &count);
}

static int destroy_twice(struct me *me)
{
	ncclCommDestroy(me->comm);
	return ncclCommDestroy(me->comm);
}

static int destroy_after_abort(struct me *me)
{
	ncclCommAbort(me->comm);
	return ncclCommDestroy(me->comm);
}

static int group_of_the_ended(struct me *me)
{
	ncclGroupStart();
	ncclSend(NULL, 0, I32, 0, me->comm, me->stream);
	ncclRecv(NULL, 0, I32, 0, me->comm, me->stream);
	ncclCommAbort(me->comm);
	return ncclGroupEnd();
}

static int no_comm(struct me *me)
{
	return ncclCommDestroy((nccl_comm_t)(void *)me);
}

enum { RANKS_AT_ONCE = 2 };

static void *ask_other(void *arg)
{
	int count;

	await_sends(RANKS_AT_ONCE);
	ncclCommCount(arg, &count);
	return NULL;
}

/* The ranks are blocked in the call, because rank 1 never receives. */
static int two_at_once(struct me *me)
{
	pthread_t thread;

	pthread_create(&thread, NULL, ask_other, me->comm);
	return ncclSend(me, 1, I32, 1, me->comm, me->stream);
}

static void test_misuse(void)
{
	static const struct {
		int (*body)(struct me *me);
		int n;
		const char *what;
	} kinds[] = {
		{use_after_destroy, 1, "use after ncclCommDestroy"},
		{destroy_twice, 1, "two ncclCommDestroy"},
		{destroy_after_abort, 1, "ncclCommDestroy after ncclCommAbort"},
		{group_of_the_ended, 1, "ncclCommAbort in a group with operations"},
		{no_comm, 1, "what is no communicator"},
		{two_at_once, RANKS_AT_ONCE, "two threads in calls for one"},
	};
	const struct rlimit none = {0, 0};
	size_t i;
	int status;
	pid_t child;

	for (i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		child = fork();
		if (!child) {
			setrlimit(RLIMIT_CORE, &none);
			if (!freopen("/dev/null", "w", stderr))
				_exit(1);
			alarm(300);
			in_threads(kinds[i].n, 1, rank_main, kinds[i].body);
			_exit(0);
		}
		ok(waitpid(child, &status, 0) == child && WIFSIGNALED(status) &&
			   WTERMSIG(status) == SIGABRT,
		   "misuse is told: %s", kinds[i].what);
	}
}

int main(void)
{
	setenv("STANDIN_CUDA_DEVICES", "8", 1);
	/* Tests with processes run first, because a process with threads must not fork. */
	test_faults();
	test_misuse();
	test_aborts();
	return done_testing();
}
