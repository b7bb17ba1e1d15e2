/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_comm_test.c - the communicators of the stand-in for NCCL, without libcoll: how they are made
 * and become ready, communicators derived from them, and the functions that the old library lacks.
 */
#include <dlfcn.h>

#include "nccl_harness.h"

/* ------------------------------------------------- all ranks from one thread -- */

static void alone_use(struct me *me, nccl_comm_t *comms, int n)
{
	CUdeviceptr at[RANKS];
	void *streams_of[RANKS], *contexts[RANKS], *popped;
	int r, x, count, device;

	for (r = 0; r < n; r++) {
		WANT(cuDevicePrimaryCtxRetain(&contexts[r], r) == 0);
		WANT(cuCtxPushCurrent_v2(contexts[r]) == 0);
		WANT(cuStreamCreate(&streams_of[r], CU_STREAM_NON_BLOCKING) == 0);
		WANT(cuMemAlloc_v2(&at[r], sizeof(int)) == 0);
		x = r + 1;
		copy(me, (void *)(uintptr_t)at[r], &x, sizeof(x));
		WANT(cuCtxPopCurrent_v2(&popped) == 0);
		WANT(ncclCommCount(comms[r], &count) == 0 && count == n);
		WANT(ncclCommUserRank(comms[r], &count) == 0 && count == r);
		WANT(ncclCommCuDevice(comms[r], &device) == 0 && device == r);
	}
	WANT(ncclGroupStart() == 0);
	for (r = 0; r < n; r++)
		WANT(ncclAllReduce((void *)(uintptr_t)at[r], (void *)(uintptr_t)at[r], 1, I32, SUM,
				   comms[r], streams_of[r]) == 0);
	WANT(ncclGroupEnd() == (me->blocking ? NCCL_SUCCESS : NCCL_IN_PROGRESS));
	for (r = 0; r < n; r++) {
		WANT(settle(comms[r], 0) == NCCL_SUCCESS);
		WANT(cuCtxPushCurrent_v2(contexts[r]) == 0);
		WANT(cuStreamSynchronize(streams_of[r]) == 0);
		copy(me, &x, (void *)(uintptr_t)at[r], sizeof(x));
		WANT(x == n * (n + 1) / 2);
		WANT(cuMemFree_v2(at[r]) == 0);
		WANT(cuStreamDestroy_v2(streams_of[r]) == 0);
		WANT(cuCtxPopCurrent_v2(&popped) == 0);
		WANT(cuDevicePrimaryCtxRelease_v2(r) == 0);
	}
}

/* Several communicators are made, used and ended by one thread, in groups. */
static int alone(struct me *me)
{
	enum { N = 3 };
	nccl_config_t with = config(me->blocking);
	nccl_comm_t comms[N], halves[N];
	void *context, *popped;
	int r;

	WANT(ncclGroupStart() == 0);
	for (r = 0; r < N; r++) {
		WANT(cuDevicePrimaryCtxRetain(&context, r) == 0);
		WANT(cuCtxPushCurrent_v2(context) == 0);
		WANT(ncclCommInitRankConfig(&comms[r], N, me->id, r, &with) == NCCL_SUCCESS);
		WANT(cuCtxPopCurrent_v2(&popped) == 0);
	}
	WANT(ncclGroupEnd() == (me->blocking ? NCCL_SUCCESS : NCCL_IN_PROGRESS));
	for (r = 0; r < N; r++)
		WANT(settle(comms[r], 0) == NCCL_SUCCESS);
	alone_use(me, comms, N);

	WANT(ncclGroupStart() == 0);
	for (r = 0; r < N; r++)
		WANT(ncclCommSplit(comms[r], r == N - 1 ? NCCL_NOCOLOR : 7, -r, &halves[r], NULL) ==
		     0);
	WANT(ncclGroupEnd() == (me->blocking ? NCCL_SUCCESS : NCCL_IN_PROGRESS));
	for (r = 0; r < N; r++)
		WANT(settle(comms[r], 0) == NCCL_SUCCESS);
	WANT(halves[N - 1] == NULL);
	WANT(halves[0] && ncclCommUserRank(halves[0], &r) == 0 && r == 1);

	WANT(ncclGroupStart() == 0);
	for (r = 0; r < N; r++) {
		WANT(ncclCommDestroy(comms[r]) == 0);
		WANT(ncclCommDestroy(halves[r]) == 0);
	}
	WANT(ncclGroupEnd() == 0);
	for (r = 0; r < N; r++)
		WANT(cuDevicePrimaryCtxRelease_v2(r) == 0);
	return 0;
}

static int all(struct me *me)
{
	static const int twice[] = {1, 1};
	nccl_comm_t comms[2];

	me->blocking = 1;
	WANT(ncclCommInitAll(comms, 2, twice) == NCCL_INVALID_USAGE);
	WANT(ncclCommInitAll(comms, 2, NULL) == NCCL_SUCCESS);
	alone_use(me, comms, 2);
	WANT(ncclCommDestroy(comms[0]) == 0);
	WANT(ncclCommDestroy(comms[1]) == 0);
	WANT(ncclCommDestroy(NULL) == 0);
	return 0;
}

static void test_alone(void)
{
	is_int(in_threads(1, 0, bare_main, alone), 0, "one thread, non-blocking, in groups");
	is_int(in_threads(1, 1, bare_main, alone), 0, "one thread, blocking, in groups");
	is_int(in_threads(1, 1, bare_main, all), 0, "one thread, ncclCommInitAll");
	is_int(standin_nccl_comms(), 0, "no communicator is left");
}

/* ------------------------------------------------------------------------ states -- */

/*
 * The first use of a connection waits until the peer uses it too.  Until then the communicator is
 * in progress and refuses every call; a refused destroy leaves a group open.
 */
static int states(struct me *me)
{
	char *at = device_new(me, 64);
	int state = -1;

	if (me->rank == 0) {
		await_step(1);
		WANT(done(me, ncclRecv(at, 1, I32, 1, me->comm, me->stream)) == 0);
	} else {
		WANT(ncclSend(at, 1, I32, 0, me->comm, me->stream) == NCCL_IN_PROGRESS);
		WANT(ncclCommGetAsyncError(me->comm, &state) == 0 && state == NCCL_IN_PROGRESS);
		WANT(ncclCommCount(me->comm, &state) == NCCL_INVALID_ARGUMENT);
		WANT(ncclCommUserRank(me->comm, &state) == NCCL_INVALID_ARGUMENT);
		/* After a failure here NCCL leaves the group open. */
		WANT(ncclCommDestroy(me->comm) == NCCL_INVALID_ARGUMENT);
		WANT(ncclGroupEnd() == NCCL_SUCCESS);
		WANT(ncclGroupEnd() == NCCL_INVALID_USAGE);
		atomic_store(&test_step, 1);
		WANT(settle(me->comm, 0) == NCCL_SUCCESS);
		WANT(ncclCommCount(me->comm, &state) == 0 && state == me->n);
		WANT(cuStreamSynchronize(me->stream) == 0);
	}
	WANT(done(me, ncclBroadcast(at, at, 1, I32, me->n, me->comm, me->stream)) ==
	     NCCL_INVALID_ARGUMENT);
	WANT(ncclCommGetAsyncError(me->comm, &state) == 0 && state == NCCL_INVALID_ARGUMENT);
	WANT(ncclAllReduce(at, at, 1, I32, SUM, me->comm, me->stream) == NCCL_INVALID_ARGUMENT);
	WANT(ncclCommAbort(me->comm) == 0);
	me->comm = NULL;
	device_free(me, at);
	return 0;
}

/* Finalize proceeds by itself; NCCL refuses a second finalize, and mixed groups. */
static int finalize(struct me *me)
{
	nccl_config_t with = config(1);
	nccl_unique_id_t id;
	nccl_comm_t other = NULL;
	char *at = device_new(me, 8);

	WANT(sum(me, me->comm, 0) == 1);
	WANT(ncclGetUniqueId(&id) == 0);
	WANT(ncclCommInitRankConfig(&other, 1, id, 0, &with) == 0);
	WANT(ncclGroupStart() == 0);
	WANT(ncclSend(at, 1, I32, 0, other, me->stream) == NCCL_SUCCESS);
	WANT(ncclSend(at, 1, I32, 0, me->comm, me->stream) == NCCL_INVALID_USAGE);
	WANT(ncclGroupEnd() == NCCL_INVALID_USAGE);
	WANT(ncclCommFinalize(other) == 0);
	WANT(ncclCommFinalize(other) == NCCL_INVALID_ARGUMENT);
	WANT(ncclCommDestroy(other) == 0);
	WANT(ncclCommAbort(me->comm) == 0);
	WANT(ncclGetUniqueId(&me->id) == 0);
	WANT(init(me) == 0);
	WANT(settle(me->comm, ncclCommFinalize(me->comm)) == NCCL_SUCCESS);
	device_free(me, at);
	return 0;
}

static int arguments(struct me *me)
{
	char *at = device_new(me, 64);
	void *context, *other;
	int host = 0;

	WANT(ncclAllReduce(at, at, 1, 12, SUM, me->comm, me->stream) == NCCL_INVALID_ARGUMENT);
	WANT(ncclAllReduce(at, at, 1, -1, SUM, me->comm, me->stream) == NCCL_INVALID_ARGUMENT);
	WANT(ncclAllReduce(at, at, 1, I32, 5, me->comm, me->stream) == NCCL_INVALID_ARGUMENT);
	WANT(ncclSend(at, 1, I32, me->n, me->comm, me->stream) == NCCL_INVALID_ARGUMENT);
	WANT(ncclSend(at, 1, I32, me->rank, me->comm, me->stream) == NCCL_INVALID_USAGE);
	WANT(ncclAllReduce(at, at, 1, I32, SUM, NULL, me->stream) == NCCL_INVALID_ARGUMENT);
	WANT(ncclGroupEnd() == NCCL_INVALID_USAGE);
	WANT(ncclAllReduce(at, at, 0, I32, SUM, me->comm, me->stream) == NCCL_SUCCESS);
	setenv("NCCL_CHECK_POINTERS", "1", 1);
	WANT(ncclAllReduce(&host, &host, 1, I32, SUM, me->comm, me->stream) ==
	     NCCL_INVALID_ARGUMENT);
	WANT(ncclAllReduce(at, at, 1, I32, SUM, me->comm, me->stream) == NCCL_SUCCESS);
	unsetenv("NCCL_CHECK_POINTERS");
	WANT(cuDevicePrimaryCtxRetain(&context, 1) == 0);
	WANT(cuCtxPushCurrent_v2(context) == 0);
	WANT(cuStreamCreate(&other, CU_STREAM_NON_BLOCKING) == 0);
	WANT(ncclAllReduce(at, at, 1, I32, SUM, me->comm, other) == NCCL_UNHANDLED_CUDA_ERROR);
	WANT(cuStreamDestroy_v2(other) == 0);
	WANT(cuCtxPopCurrent_v2(&context) == 0);
	WANT(cuDevicePrimaryCtxRelease_v2(1) == 0);
	WANT(cuStreamSynchronize(me->stream) == 0);
	device_free(me, at);
	return 0;
}

/* The kernel detects memory of no device. */
static int host_pointer(struct me *me)
{
	int host = 0, code;

	code = done(me, ncclAllReduce(&host, &host, 1, I32, SUM, me->comm, me->stream));
	WANT(code == CUDA_ERROR_ILLEGAL_ADDRESS);
	WANT(ncclCommAbort(me->comm) == 0);
	me->comm = NULL;
	standin_heal(me->rank);
	return 0;
}

static int refused(struct me *me)
{
	nccl_config_t with = config(1);
	nccl_comm_t comm = NULL;
	void *popped;

	WANT(cuCtxPopCurrent_v2(&popped) == 0);
	WANT(ncclCommInitRank(&comm, 1, me->id, 0) == NCCL_UNHANDLED_CUDA_ERROR && !comm);
	WANT(cuCtxPushCurrent_v2(popped) == 0);
	WANT(ncclCommInitRank(&comm, 1, me->id, 1) == NCCL_INVALID_ARGUMENT);
	with.magic = 0;
	WANT(ncclCommInitRankConfig(&comm, 1, me->id, 0, &with) == NCCL_INVALID_ARGUMENT);
	with = config(2);
	WANT(ncclCommInitRankConfig(&comm, 1, me->id, 0, &with) == NCCL_INVALID_ARGUMENT);
	WANT(standin_nccl_comms() == 0);
	return 0;
}

/* Two ranks use device 0, which NCCL allows only on two hosts. */
static void *twins_main(void *arg)
{
	struct me *me = arg;
	int rank = me->rank, code;

	me->rank = 0;
	device_take(me);
	me->rank = rank;
	if (me->body)
		setenv("NCCL_HOSTID", rank ? "a" : "b", 1);
	code = init(me);
	WANT(code == (me->body ? NCCL_SUCCESS : NCCL_INVALID_USAGE));
	if (!me->body)
		WANT(strstr(ncclGetLastError(NULL), "Duplicate GPU") != NULL);
	WANT(ncclCommAbort(me->comm) == 0);
	return NULL;
}

static void test_twins(void)
{
	is_int(in_processes(2, 0, twins_main, NULL), 0, "two ranks on one device are refused");
	is_int(in_processes(2, 1, twins_main, alone), 0, "but not on hosts of two names");
}

/* ------------------------------------------------------------------------ children -- */

static int split(struct me *me)
{
	nccl_comm_t child = me->comm, grandchild = NULL;
	int rank = -1, count = -1, color = me->rank % 2;

	/* Accepts success, also if the communicator is in progress. */
	WANT(ncclCommSplit(me->comm, color, -me->rank, &child, NULL) == NCCL_SUCCESS);
	WANT(settle(me->comm, 0) == NCCL_SUCCESS);
	WANT(child != NULL && settle(child, 0) == NCCL_SUCCESS);
	WANT(ncclCommCount(child, &count) == 0 && count == (me->n + 1 - color) / 2);
	WANT(ncclCommUserRank(child, &rank) == 0 && rank == count - 1 - me->rank / 2);
	WANT(sum(me, child, rank) == count * (count + 1) / 2);
	WANT(ncclCommSplit(child, rank ? NCCL_NOCOLOR : 0, 0, &grandchild, NULL) == 0);
	WANT(settle(child, 0) == NCCL_SUCCESS);
	WANT((grandchild == NULL) == (rank > 0));
	WANT(ncclCommDestroy(child) == 0);
	WANT(ncclCommDestroy(grandchild) == 0);
	WANT(sum(me, me->comm, me->rank) == me->n * (me->n + 1) / 2);
	return 0;
}

/* Communicators that share with their parent end with it. */
static void *share_main(void *arg)
{
	struct me *me = arg;
	nccl_config_t with = config(0);
	nccl_comm_t child = NULL;
	int k, code;

	device_take(me);
	for (k = 0; k < 2; k++) {
		with.split_share = k;
		WANT(ncclGetUniqueId(&me->id) == 0);
		code = ncclCommInitRankConfig(&me->comm, 1, me->id, 0, &with);
		WANT(settle(me->comm, code) == 0);
		WANT(ncclCommSplit(me->comm, 0, 0, &child, NULL) == 0);
		WANT(settle(me->comm, 0) == 0);
		WANT(ncclCommAbort(me->comm) == 0);
		if (k)
			WANT(ncclCommAbort(child) == 0);
		else
			WANT(sum(me, child, 0) == 1 && ncclCommDestroy(child) == 0);
	}
	device_leave(me);
	return NULL;
}

/* Rank 2 never calls, so the other ranks' operation hangs; these ranks shrink and go on. */
static int shrink(struct me *me)
{
	int dead = 2, rank = -1, by_revoke = atomic_load(&test_step) == 100;
	nccl_comm_t child = NULL;
	char *at = device_new(me, 64);

	if (me->rank != dead) {
		WANT(settle(me->comm, ncclAllReduce(at, at, 1, I32, SUM, me->comm, me->stream)) ==
		     0);
		WANT(cuStreamQuery(me->stream) == CUDA_ERROR_NOT_READY);
		if (by_revoke) {
			WANT(settle(me->comm, ncclCommRevoke(me->comm, 0)) == 0);
			WANT(ncclAllReduce(at, at, 1, I32, SUM, me->comm, me->stream) ==
			     NCCL_INVALID_USAGE);
		}
		WANT(ncclCommShrink(me->comm, &dead, 1, &child, NULL,
				    by_revoke ? NCCL_SHRINK_DEFAULT : NCCL_SHRINK_ABORT) == 0);
		WANT(settle(me->comm, 0) == 0);
		WANT(cuStreamSynchronize(me->stream) == 0);
		WANT(child && ncclCommUserRank(child, &rank) == 0 &&
		     rank == (me->rank < dead ? me->rank : me->rank - 1));
		WANT(sum(me, child, rank) == 6);
		WANT(ncclCommDestroy(child) == 0);
	}
	WANT(ncclCommAbort(me->comm) == 0);
	me->comm = NULL;
	device_free(me, at);
	return 0;
}

/* The same with a third rank whose process has ended. */
static int shrink_gone(struct me *me)
{
	if (me->rank == 2)
		_exit(0);
	return shrink(me);
}

/* This test runs first, because a process with threads must not fork. */
static void test_gone(void)
{
	setenv("STANDIN_NCCL_CONNECT", "0", 1);
	is_int(in_processes(4, 0, rank_main, shrink_gone), 0,
	       "ranks shrink that outlive a process");
	unsetenv("STANDIN_NCCL_CONNECT");
}

static void test_children(void)
{
	is_int(in_threads(4, 0, rank_main, split), 0, "4 ranks split");
	is_int(in_threads(3, 1, rank_main, split), 0, "3 ranks split, blocking");
	is_int(in_threads(1, 0, share_main, NULL), 0, "splitShare shares the end");
	setenv("STANDIN_NCCL_CONNECT", "0", 1);
	is_int(in_threads(4, 0, rank_main, shrink), 0, "3 of 4 ranks shrink, the work hanging");
	atomic_store(&test_step, 100);
	is_int(in_threads(4, 0, rank_main, shrink), 0, "3 of 4 ranks revoke and shrink");
	unsetenv("STANDIN_NCCL_CONNECT");
}

/* -------------------------------------------------------------------------- the old -- */

static int old_types(struct me *me)
{
	char *at = device_new(me, 64);

	WANT(ncclAllReduce(at, at, 1, E4M3, SUM, me->comm, me->stream) == NCCL_INVALID_ARGUMENT);
	WANT(ncclAllReduce(at, at, 1, BF16, SUM, me->comm, me->stream) == NCCL_SUCCESS);
	WANT(cuStreamSynchronize(me->stream) == 0);
	device_free(me, at);
	return 0;
}

static void test_old(void)
{
	static const char *const newer[] = {
		"ncclCommRegister", "ncclCommDeregister", "ncclCommShrink",
		"ncclCommRevoke",   "ncclAlltoAll",       "ncclGather",
		"ncclScatter",      "ncclMemAlloc",       "ncclMemFree"};
	const char *build = getenv("top_builddir");
	char path[4096];
	int (*version)(int *);
	int number = 0;
	size_t i, found = 0;
	void *old;

	snprintf(path, sizeof(path), "%s/tests/fakes/old/.libs/libnccl.so.2", build ? build : ".");
	old = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!ok(old != NULL, "the old library can be opened"))
		return;
	*(void **)&version = dlsym(old, "ncclGetVersion");
	ok(version && version(&number) == 0 && number == 21805, "it says 2.18.5");
	for (i = 0; i < sizeof(newer) / sizeof(newer[0]); i++)
		found += dlsym(old, newer[i]) != NULL;
	is_int((int64_t)found, 0, "it lacks what is newer");
	ok(ncclGetVersion(&number) == 0 && number == 22809, "the other says 2.28.9");
	setenv("STANDIN_NCCL_VERSION", "21703", 1);
	ok(ncclGetVersion(&number) == 0 && number == 21703, "or what it is told to");
	is_int(in_threads(1, 1, rank_main, old_types), 0, "fp8 is refused before 2.24");
	unsetenv("STANDIN_NCCL_VERSION");
}

static void test_states(void)
{
	is_int(in_threads(2, 0, rank_main, states), 0, "a communicator settles, or takes it amiss");
	is_int(in_threads(1, 0, rank_main, finalize), 0, "finalize");
	is_int(in_threads(1, 1, rank_main, arguments), 0, "wrong arguments are refused");
	is_int(in_threads(1, 1, rank_main, host_pointer), 0, "host memory breaks the context");
	is_int(in_threads(1, 1, bare_main, refused), 0, "what cannot be is refused at init");
	is_int(standin_nccl_comms(), 0, "no communicator is left");
}

int main(void)
{
	setenv("STANDIN_CUDA_DEVICES", "8", 1);
	test_gone();
	test_twins();
	test_states();
	test_alone();
	test_children();
	test_old();
	return done_testing();
}
