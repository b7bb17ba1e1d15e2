/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_test.c - the drop-in for NCCL over tcp, with device memory of the stand-in for the CUDA driver: every
 * function, by one thread for all ranks and by a thread for each.
 *
 * With REAL_HEADER the program is compiled with NVIDIA's nccl.h (nccl.t).
 */
#ifdef REAL_HEADER
#include <nccl.h>
#else
#include "../../bindings/nccl/nccl_abi.h"
#endif
#include "../fakes/cuda.h"
#include "../lib/tap.h"

#include <dlfcn.h>
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { N = 4, COUNT = 300 };

static void must(int result, const char *what)
{
	if (result)
		bail_out("%s: %d (%s)", what, result, ncclGetLastError(NULL));
}

static int good(ncclResult_t result, const char *what)
{
	return ok(result == ncclSuccess, "%s (%d: %s)", what, (int)result,
		  result ? ncclGetLastError(NULL) : "success");
}

/* ---------------------------------------------------------------------- devices -- */

static void *contexts[N];

static void set_device(int device)
{
	must(cuCtxSetCurrent(contexts[device]), "cuCtxSetCurrent");
}

static int32_t *device_new(int device, size_t count)
{
	CUdeviceptr ptr = 0;

	set_device(device);
	must(cuMemAlloc_v2(&ptr, count * sizeof(int32_t)), "cuMemAlloc");
	return (int32_t *)(uintptr_t)ptr;
}

static void device_set(int32_t *there, size_t count, int32_t first, int32_t step)
{
	int32_t here[N * COUNT];

	for (size_t i = 0; i < count; i++)
		here[i] = first + (int32_t)i * step;
	must(cuMemcpy((uintptr_t)there, (uintptr_t)here, count * sizeof(here[0])), "cuMemcpy");
}

/* Are the elements first, first + step, ...? */
static int device_has(const int32_t *there, size_t count, int32_t first, int32_t step)
{
	int32_t here[N * COUNT];

	must(cuMemcpy((uintptr_t)here, (uintptr_t)there, count * sizeof(here[0])), "cuMemcpy");
	for (size_t i = 0; i < count; i++)
		if (here[i] != first + (int32_t)i * step) {
			diag("element %zu is %d, not %d", i, here[i], first + (int32_t)i * step);
			return 0;
		}
	return 1;
}

/* The ranks of one process, each on its device. */
static struct {
	ncclComm_t comm;
	void *stream;
	int32_t *in, *out;
} ranks[N];

static void ranks_set(void)
{
	for (int r = 0; r < N; r++) {
		device_set(ranks[r].in, N * COUNT, 1000 * r, 1);
		device_set(ranks[r].out, N * COUNT, -1, 0);
	}
}

static void ranks_sync(int shared)
{
	for (int r = 0; r < N; r++) {
		set_device(r);
		must(cuStreamSynchronize(shared ? NULL : ranks[r].stream), "cuStreamSynchronize");
	}
}

/* --------------------------------------------------------------------- the calls -- */

enum call {
	ALLREDUCE,
	BROADCAST,
	BCAST,
	REDUCE,
	ALLGATHER,
	REDUCE_SCATTER,
	ALLTOALL,
	GATHER,
	SCATTER,
	RING,
	CALLS
};

static const char *const call_names[] = {"AllReduce", "Broadcast",     "Bcast",    "Reduce",
					 "AllGather", "ReduceScatter", "AlltoAll", "Gather",
					 "Scatter",   "Send, Recv"};

/* With a header of NCCL before 2.32 the test leaves out the nccl...Config functions. */
#if !defined(REAL_HEADER) || NCCL_VERSION_CODE >= 23200
#define HAS_CONFIG 1
#endif

enum { ROOT = 2 };

static ncclResult_t issue(enum call call, int r, cudaStream_t stream)
{
	const int32_t *in = ranks[r].in;
	int32_t *out = ranks[r].out;
	ncclComm_t comm = ranks[r].comm;
	ncclResult_t code;

	switch (call) {
	case ALLREDUCE: return ncclAllReduce(in, out, COUNT, ncclInt32, ncclSum, comm, stream);
	case BROADCAST: return ncclBroadcast(in, out, COUNT, ncclInt32, ROOT, comm, stream);
	case BCAST: return ncclBcast(ranks[r].in, COUNT, ncclInt32, ROOT, comm, stream);
	case REDUCE: return ncclReduce(in, out, COUNT, ncclInt32, ncclMax, ROOT, comm, stream);
	case ALLGATHER: return ncclAllGather(in, out, COUNT, ncclInt32, comm, stream);
	case REDUCE_SCATTER:
		return ncclReduceScatter(in, out, COUNT, ncclInt32, ncclSum, comm, stream);
	case ALLTOALL: return ncclAlltoAll(in, out, COUNT, ncclInt32, comm, stream);
	case GATHER: return ncclGather(in, out, COUNT, ncclInt32, ROOT, comm, stream);
	case SCATTER: return ncclScatter(in, out, COUNT, ncclInt32, ROOT, comm, stream);
	default:
		code = ncclSend(in, COUNT, ncclInt32, (r + 1) % N, comm, stream);
		return code ? code : ncclRecv(out, COUNT, ncclInt32, (r + N - 1) % N, comm, stream);
	}
}

#ifdef HAS_CONFIG
/* As issue(), for the calls that have a second form. */
static ncclResult_t issue_config(enum call call, int r, cudaStream_t stream,
				 const ncclCollConfig_t *config)
{
	const int32_t *in = ranks[r].in;
	int32_t *out = ranks[r].out;
	ncclComm_t comm = ranks[r].comm;

	switch (call) {
	case ALLREDUCE:
		return ncclAllReduceConfig(in, out, COUNT, ncclInt32, ncclSum, comm, stream,
					   config);
	case BROADCAST:
		return ncclBroadcastConfig(in, out, COUNT, ncclInt32, ROOT, comm, stream, config);
	case REDUCE:
		return ncclReduceConfig(in, out, COUNT, ncclInt32, ncclMax, ROOT, comm, stream,
					config);
	case ALLGATHER: return ncclAllGatherConfig(in, out, COUNT, ncclInt32, comm, stream, config);
	case REDUCE_SCATTER:
		return ncclReduceScatterConfig(in, out, COUNT, ncclInt32, ncclSum, comm, stream,
					       config);
	case ALLTOALL: return ncclAlltoAllConfig(in, out, COUNT, ncclInt32, comm, stream, config);
	case GATHER: return ncclGatherConfig(in, out, COUNT, ncclInt32, ROOT, comm, stream, config);
	case SCATTER:
		return ncclScatterConfig(in, out, COUNT, ncclInt32, ROOT, comm, stream, config);
	default: return ncclSuccess; /* Bcast, Send and Recv have no second form */
	}
}
#endif

static int each_part(const int32_t *out, int first, int step)
{
	int right = 1;

	for (int p = 0; p < N; p++)
		right &= device_has(out + p * COUNT, COUNT, first + p * step, 1);
	return right;
}

/* The result on rank r of inputs 1000 * rank + i. */
static int right(enum call call, int r)
{
	const int32_t *out = ranks[r].out;

	switch (call) {
	case ALLREDUCE: return device_has(out, COUNT, 6000, N);
	case BROADCAST: return device_has(out, COUNT, 1000 * ROOT, 1);
	case BCAST: return device_has(ranks[r].in, COUNT, 1000 * ROOT, 1);
	case REDUCE: return r != ROOT || device_has(out, COUNT, 3000, 1);
	case ALLGATHER: return each_part(out, 0, 1000);
	case REDUCE_SCATTER: return device_has(out, COUNT, 6000 + r * COUNT * N, N);
	case ALLTOALL: return each_part(out, r * COUNT, 1000);
	case GATHER: return r != ROOT || each_part(out, 0, 1000);
	case SCATTER: return device_has(out, COUNT, 1000 * ROOT + r * COUNT, 1);
	default: return device_has(out, COUNT, 1000 * ((r + N - 1) % N), 1);
	}
}

/* One thread issues the call for all ranks, on streams of its own or on the default stream of each device. */
static void test_call(enum call call, int shared)
{
	int correct = 1;

	ranks_set();
	set_device(0);
	must(ncclGroupStart(), "ncclGroupStart");
	for (int r = 0; r < N; r++)
		must(issue(call, r, shared ? NULL : (cudaStream_t)ranks[r].stream), "the call");
	must(ncclGroupEnd(), "ncclGroupEnd");
	ranks_sync(shared);
	for (int r = 0; r < N; r++)
		correct &= right(call, r);
	ok(correct, "%s on %s streams", call_names[call], shared ? "default" : "own");
}

#ifdef HAS_CONFIG
/* The second forms, without a configuration and with hints and a tag; an event of each rank is recorded. */
static void test_call_config(enum call call, int shared)
{
	ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
	void *events[N];
	int correct = 1;

	config.minCTAs = 2;
	config.CTAPolicy = 2;
	config.userProfilerTag = 77;
	config.algSelection = "ring,tree";
	config.forceAlgSelection = 0;
	ranks_set();
	must(ncclGroupStart(), "ncclGroupStart");
	for (int r = 0; r < N; r++) {
		set_device(r);
		must(cuEventCreate(&events[r], CU_EVENT_DISABLE_TIMING), "cuEventCreate");
		config.launchCompletionEvent = (cudaEvent_t)events[r];
		must(issue_config(call, r, shared ? NULL : (cudaStream_t)ranks[r].stream,
				  shared ? NULL : &config),
		     "the call");
	}
	must(ncclGroupEnd(), "ncclGroupEnd");
	ranks_sync(shared);
	for (int r = 0; r < N; r++) {
		correct &= right(call, r);
		correct &= !cuEventQuery(events[r]);
		must(cuEventDestroy_v2(events[r]), "cuEventDestroy");
	}
	ok(correct, "%sConfig %s", call_names[call],
	   shared ? "without a configuration on default streams" : "on own streams");
}

/* The event says that the call may begin: the work before it on the stream is over, and the call may still be under way. */
static void test_launched(void)
{
	ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
	void *event = NULL;

	ranks_set();
	set_device(0);
	must(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
	config.launchCompletionEvent = (cudaEvent_t)event;
	must(issue_config(ALLREDUCE, 0, (cudaStream_t)ranks[0].stream, &config), "the call");
	good((ncclResult_t)cuEventSynchronize(event),
	     "the event comes before the other ranks call");
	for (int r = 1; r < N; r++)
		must(issue(ALLREDUCE, r, (cudaStream_t)ranks[r].stream), "the call");
	ranks_sync(0);
	ok(right(ALLREDUCE, 0), "and the result then");
	must(cuEventDestroy_v2(event), "cuEventDestroy");
}
#endif

static void test_own_operation(ncclScalarResidence_t where)
{
	int32_t two = 2, *there[N];
	ncclRedOp_t ops[N];
	int correct = 1;

	ranks_set();
	for (int r = 0; r < N; r++) {
		there[r] = device_new(r, 1);
		device_set(there[r], 1, 2, 0);
		must(ncclRedOpCreatePreMulSum(&ops[r], where == ncclScalarDevice ? there[r] : &two,
					      ncclInt32, where, ranks[r].comm),
		     "ncclRedOpCreatePreMulSum");
	}
	ncclGroupStart();
	for (int r = 0; r < N; r++)
		must(ncclAllReduce(ranks[r].in, ranks[r].out, COUNT, ncclInt32, ops[r],
				   ranks[r].comm, (cudaStream_t)ranks[r].stream),
		     "AllReduce");
	must(ncclGroupEnd(), "ncclGroupEnd");
	ranks_sync(0);
	for (int r = 0; r < N; r++) {
		correct &= device_has(ranks[r].out, COUNT, 12000, 2 * N);
		must(ncclRedOpDestroy(ops[r], ranks[r].comm), "ncclRedOpDestroy");
		must(cuMemFree_v2((uintptr_t)there[r]), "cuMemFree");
	}
	ok(correct, "PreMulSum, the scalar on the %s",
	   where == ncclScalarDevice ? "device" : "host");
}

/* ------------------------------------------------------------------ communicators -- */

static void test_questions(void)
{
	int n = 0, rank = 0, device = 0, correct = 1;
	ncclResult_t error = ncclSystemError;

	for (int r = 0; r < N; r++) {
		must(ncclCommCount(ranks[r].comm, &n), "ncclCommCount");
		must(ncclCommUserRank(ranks[r].comm, &rank), "ncclCommUserRank");
		must(ncclCommCuDevice(ranks[r].comm, &device), "ncclCommCuDevice");
		must(ncclCommGetAsyncError(ranks[r].comm, &error), "ncclCommGetAsyncError");
		correct &= n == N && rank == r && device == r && error == ncclSuccess;
	}
	ok(correct, "count, rank, device and state of each communicator");
}

static void sums_of(ncclComm_t *comms, int n, int want, const char *what)
{
	int correct = 1;

	ranks_set();
	ncclGroupStart();
	for (int r = 0; r < n; r++)
		if (comms[r])
			must(ncclAllReduce(ranks[r].in, ranks[r].out, 1, ncclInt32, ncclSum,
					   comms[r], (cudaStream_t)ranks[r].stream),
			     "AllReduce");
	must(ncclGroupEnd(), "ncclGroupEnd");
	ranks_sync(0);
	for (int r = 0; r < n; r++)
		correct &= !comms[r] || device_has(ranks[r].out, 1, want, 0);
	ok(correct, "%s", what);
}

/* Ranks 1, 2 and 3 in reverse order; rank 0 takes part and gets none. */
static void test_split(void)
{
	ncclComm_t parts[N];
	int rank = -1, n = -1;

	ncclGroupStart();
	for (int r = 0; r < N; r++)
		must(ncclCommSplit(ranks[r].comm, r ? 7 : NCCL_SPLIT_NOCOLOR, -r, &parts[r], NULL),
		     "ncclCommSplit");
	good(ncclGroupEnd(), "splits of all ranks in a group");
	ok(!parts[0], "a rank without colour gets no communicator");
	must(ncclCommUserRank(parts[3], &rank), "rank");
	must(ncclCommCount(parts[3], &n), "count");
	ok(rank == 0 && n == 3, "the key orders the ranks");
	sums_of(parts, N, 6000, "the sum over a part");
	for (int r = 1; r < N; r++)
		must(ncclCommDestroy(parts[r]), "ncclCommDestroy");
}

static void test_init_in_group(void)
{
	ncclComm_t comms[3];
	ncclUniqueId id;

	must(ncclGetUniqueId(&id), "ncclGetUniqueId");
	ncclGroupStart();
	for (int r = 0; r < 3; r++) {
		set_device(r);
		must(ncclCommInitRank(&comms[r], 3, id, r), "ncclCommInitRank");
	}
	ok(comms[0] && ncclCommCount(comms[0], &(int){0}) == ncclInvalidArgument,
	   "a communicator is not ready before its group ends");
	good(ncclGroupEnd(), "ranks of one thread in a group");
	sums_of(comms, 3, 3000, "their sum");
	ncclGroupStart();
	for (int r = 0; r < 3; r++) {
		must(ncclCommFinalize(comms[r]), "ncclCommFinalize");
		must(ncclCommDestroy(comms[r]), "ncclCommDestroy");
	}
	good(ncclGroupEnd(), "they end in a group");
}

/* Several ids, of which one is enough. */
static void test_many_ids(void)
{
	ncclUniqueId ids[2];
	ncclComm_t comms[2];

	must(ncclGetUniqueId(&ids[0]), "ncclGetUniqueId");
	must(ncclGetUniqueId(&ids[1]), "ncclGetUniqueId");
	ncclGroupStart();
	for (int r = 0; r < 2; r++) {
		set_device(r);
		must(ncclCommInitRankScalable(&comms[r], 2, r, 2, ids, NULL),
		     "ncclCommInitRankScalable");
	}
	good(ncclGroupEnd(), "ranks with two ids");
	sums_of(comms, 2, 1000, "their sum");
	for (int r = 0; r < 2; r++)
		must(ncclCommDestroy(comms[r]), "ncclCommDestroy");
	ok(ncclCommInitRankScalable(&comms[0], 2, 0, 0, ids, NULL) == ncclInvalidArgument,
	   "no id at all");
}

struct rank_thread {
	pthread_t id;
	ncclUniqueId unique;
	int rank, failed;
	void *stream;
	int32_t *in, *out;
};

/* A rank that has a thread of its own, and calls without groups. */
static void *rank_thread(void *arg)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	struct rank_thread *t = arg;
	ncclComm_t comm = NULL, smaller = NULL;
	int exclude = 0;

	set_device(t->rank);
	config.blocking = 0;
	t->failed |= ncclCommInitRankConfig(&comm, 3, t->unique, t->rank, &config);
	t->failed |= ncclAllReduce(t->in, t->out, COUNT, ncclInt32, ncclSum, comm,
				   (cudaStream_t)t->stream);
	must(cuStreamSynchronize(t->stream), "cuStreamSynchronize");
	t->failed |= !device_has(t->out, COUNT, 3000, 3);
	if (t->rank)
		t->failed |= ncclCommShrink(comm, &exclude, 1, &smaller, NULL, NCCL_SHRINK_DEFAULT);
	if (smaller) {
		t->failed |= ncclAllReduce(t->in, t->out, COUNT, ncclInt32, ncclSum, smaller, NULL);
		must(cuStreamSynchronize(NULL), "cuStreamSynchronize");
		t->failed |= !device_has(t->out, COUNT, 3000, 2);
		t->failed |= ncclCommDestroy(smaller);
	}
	t->failed |= ncclCommFinalize(comm);
	t->failed |= ncclCommDestroy(comm);
	return NULL;
}

static void test_threads(void)
{
	struct rank_thread all[3];
	int failed = 0;

	ranks_set();
	must(ncclGetUniqueId(&all[0].unique), "ncclGetUniqueId");
	for (int r = 0; r < 3; r++) {
		all[r].unique = all[0].unique;
		all[r].rank = r;
		all[r].failed = 0;
		all[r].stream = ranks[r].stream;
		all[r].in = ranks[r].in;
		all[r].out = ranks[r].out;
		must(pthread_create(&all[r].id, NULL, rank_thread, &all[r]), "pthread_create");
	}
	for (int r = 0; r < 3; r++) {
		pthread_join(all[r].id, NULL);
		failed |= all[r].failed;
	}
	ok(!failed, "a thread for each rank: init, sum, shrink, end");
}

/* A rank aborts; the others learn it and name the rank. */
static void test_abort(void)
{
	ncclResult_t error = ncclSuccess;
	ncclComm_t comms[2];

	must(ncclCommInitAll(comms, 2, NULL), "ncclCommInitAll");
	must(ncclAllReduce(ranks[1].in, ranks[1].out, 1, ncclInt32, ncclSum, comms[1],
			   (cudaStream_t)ranks[1].stream),
	     "AllReduce");
	good(ncclCommAbort(comms[0]), "abort");
	for (int i = 0; i < 6000 && !error; i++) {
		must(ncclCommGetAsyncError(comms[1], &error), "ncclCommGetAsyncError");
		usleep(10000);
	}
	is_int(error, ncclRemoteError, "the other rank's asynchronous error");
	ok(strstr(ncclGetLastError(comms[1]), "rank 0") != NULL, "its text: %s",
	   ncclGetLastError(comms[1]));
	ranks_sync(0);
	ok(1, "its stream is released");
	good(ncclCommDestroy(comms[1]), "destroy after the failure");
}

struct revoker {
	pthread_t id;
	ncclComm_t comm, newcomm;
	int failed;
};

static void *revoke_thread(void *arg)
{
	struct revoker *t = arg;

	t->failed |= ncclCommRevoke(t->comm, 0);
	t->failed |=
		ncclAllReduce(NULL, NULL, 0, ncclInt32, ncclSum, t->comm, NULL) != ncclInvalidUsage;
	t->failed |= ncclCommFinalize(t->comm) != ncclInvalidUsage;
	t->failed |= ncclCommShrink(t->comm, NULL, 0, &t->newcomm, NULL, NCCL_SHRINK_ABORT);
	return NULL;
}

static void test_revoke(void)
{
	struct revoker all[2];
	ncclComm_t comms[2];
	ncclResult_t error = ncclSystemError;

	must(ncclCommInitAll(comms, 2, NULL), "ncclCommInitAll");
	for (int r = 0; r < 2; r++) {
		all[r] = (struct revoker){.comm = comms[r]};
		must(pthread_create(&all[r].id, NULL, revoke_thread, &all[r]), "pthread_create");
	}
	for (int r = 0; r < 2; r++) {
		pthread_join(all[r].id, NULL);
		ok(!all[r].failed, "rank %d: revoke, and shrink to all ranks (%s)", r,
		   ncclGetLastError(comms[r]));
		comms[r] = all[r].newcomm;
	}
	must(ncclCommGetAsyncError(all[0].comm, &error), "ncclCommGetAsyncError");
	is_int(error, ncclSuccess, "a revoked communicator is quiet");
	if (comms[0] && comms[1])
		sums_of(comms, 2, 1000, "the sum over the new communicator");
	for (int r = 0; r < 2; r++) {
		must(ncclCommDestroy(all[r].comm), "destroy");
		must(ncclCommDestroy(comms[r]), "destroy");
	}
}

/* ------------------------------------------------------------------------ memory -- */

static void test_memory(void)
{
	void *ptr = NULL, *handle = NULL;

	set_device(1);
	good(ncclMemAlloc(&ptr, 4096), "ncclMemAlloc");
	device_set(ptr, 16, 5, 0);
	ok(device_has(ptr, 16, 5, 0), "it is memory of the device");
	good(ncclCommRegister(ranks[1].comm, ptr, 4096, &handle), "ncclCommRegister");
	good(ncclCommDeregister(ranks[1].comm, handle), "ncclCommDeregister");
	set_device(0);
	good(ncclMemFree(ptr), "ncclMemFree on another device");
	good(ncclMemFree(NULL), "ncclMemFree(NULL)");
	good(ncclMemAlloc(&ptr, 0), "ncclMemAlloc of nothing");
	ok(!ptr, "it is NULL");
	ok(ncclMemAlloc(&ptr, (size_t)1 << 60) != ncclSuccess && !ptr, "more than there is");
}

/* Returns how often the stand-in for NVIDIA's library was called; -1 if it is not loaded. */
static long calls_of_nccl(const char *function)
{
	const char *path = getenv("STANDIN_NCCL_LIBRARY");
	void *library = path ? dlopen(path, RTLD_NOW | RTLD_NOLOAD) : NULL;
	long (*calls)(const char *function) = NULL;

	if (library)
		*(void **)&calls = dlsym(library, "standin_nccl_calls");
	return calls ? calls(function) : -1;
}

/* Over the backend nccl the memory is NCCL's, and outlives the communicators; without communicators it is CUDA's. */
static void test_memory_of_nccl(void)
{
	const int over = !strcmp(getenv("COLL_BACKEND"), "nccl");
	const long made = over ? calls_of_nccl("ncclMemAlloc") : 0;
	const long freed = over ? calls_of_nccl("ncclMemFree") : 0;
	ncclComm_t comms[2];
	void *ptr = NULL;

	must(ncclCommInitAll(comms, 2, NULL), "ncclCommInitAll");
	set_device(1);
	good(ncclMemAlloc(&ptr, 8192), "ncclMemAlloc beside a communicator");
	if (over)
		is_int(calls_of_nccl("ncclMemAlloc"), made + 1, "NCCL allocates the memory");
	for (int r = 0; r < 2; r++)
		must(ncclCommDestroy(comms[r]), "ncclCommDestroy");
	device_set(ptr, 16, 3, 1);
	ok(device_has(ptr, 16, 3, 1), "it outlives the communicators");
	good(ncclMemFree(ptr), "ncclMemFree after the communicators");
	if (over)
		is_int(calls_of_nccl("ncclMemFree"), freed + 1, "NCCL frees it");
}

/* Without a communicator CUDA allocates, and frees after one was made. */
static void test_memory_of_cuda(void)
{
	const int over = !strcmp(getenv("COLL_BACKEND"), "nccl");
	const long before = over ? calls_of_nccl("ncclMemFree") : 0;
	ncclComm_t comms[2];
	void *ptr = NULL;

	set_device(1);
	good(ncclMemAlloc(&ptr, 8192), "ncclMemAlloc without a communicator");
	must(ncclCommInitAll(comms, 2, NULL), "ncclCommInitAll");
	good(ncclMemFree(ptr), "ncclMemFree beside one");
	if (over)
		is_int(calls_of_nccl("ncclMemFree"), before, "CUDA frees the memory");
	for (int r = 0; r < 2; r++)
		must(ncclCommDestroy(comms[r]), "ncclCommDestroy");
}

/* ------------------------------------------------------------------------ errors -- */

static void wrong(ncclResult_t got, ncclResult_t want, const char *text)
{
	const char *last = ncclGetLastError(NULL);

	ok(got == want && strstr(last, text), "%d, '%s' in: %d, %s", (int)want, text, (int)got,
	   last);
}

static void test_errors(void)
{
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	ncclComm_t comm = ranks[0].comm, comms[2] = {comm, comm};
	const int devices[] = {0, 99};
	ncclUniqueId id = {{0}};
	int version = 0;

	good(ncclGetVersion(&version), "ncclGetVersion");
	ok(version >= 23000 && version < 30000, "the version is %d", version);
	wrong(ncclGetVersion(NULL), ncclInvalidArgument, "NULL");
	ok(strcmp(ncclGetErrorString(ncclInvalidUsage), ncclGetErrorString(ncclInvalidArgument)),
	   "codes have texts");
	is_str(ncclGetErrorString((ncclResult_t)77), "unknown result code", "a code that is none");
	wrong(ncclCommCount(NULL, &version), ncclInvalidArgument, "comm is NULL");
	wrong(ncclCommCount(comm, NULL), ncclInvalidArgument, "NULL");
	wrong(ncclCommInitAll(comms, 2, devices), ncclInvalidArgument, "no device 99");
	wrong(ncclCommInitAll(comms, 0, NULL), ncclInvalidArgument, "0 communicators");
	wrong(ncclCommInitRank(&comms[0], 2, id, 2), ncclInvalidArgument, "rank 2 of 2");
	ok(!comms[0], "no communicator");
	wrong(ncclCommInitRank(&comms[0], 2, id, 0), ncclInvalidArgument, "id");
	config.magic = 1;
	wrong(ncclCommInitRankConfig(&comms[0], 1, id, 0, &config), ncclInvalidArgument,
	      "NCCL_CONFIG_INITIALIZER");
	wrong(ncclAllReduce(NULL, NULL, 1, ncclInt32, ncclSum, comm, NULL), ncclInvalidArgument,
	      "sendbuf");
	wrong(ncclAllReduce(NULL, NULL, 1, (ncclDataType_t)12, ncclSum, comm, NULL),
	      ncclInvalidArgument, "12 is no data type");
	wrong(ncclAllReduce(NULL, NULL, 1, ncclInt32, (ncclRedOp_t)32, comm, NULL),
	      ncclInvalidArgument, "32 is no operation");
	wrong(ncclRecv(NULL, 0, ncclInt32, -1, comm, NULL), ncclInvalidArgument, "no rank -1");
	wrong(ncclRedOpDestroy(ncclSum, comm), ncclInvalidArgument, "0 is no operation");
	wrong(ncclGroupEnd(), ncclInvalidUsage, "no open group");
	good(ncclCommDestroy(NULL), "ncclCommDestroy(NULL)");
}

#ifdef HAS_CONFIG
static ncclResult_t config_of_size(size_t size, unsigned version)
{
	ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;

	config.size = size;
	config.version = version;
	/* Behind the members that the size covers, values that are wrong. */
	if (size <= offsetof(ncclCollConfig_t, forceAlgSelection))
		config.forceAlgSelection = 7;
	return ncclAllReduceConfig(NULL, NULL, 0, ncclInt32, ncclSum, ranks[0].comm, NULL, &config);
}

static void wrong_config(const ncclCollConfig_t *config, ncclComm_t comm, ncclResult_t want,
			 const char *text)
{
	wrong(ncclAllReduceConfig(NULL, NULL, 0, ncclInt32, ncclSum, comm, NULL, config), want,
	      text);
}

/* The codes are those of NVIDIA's library 2.32.3, seen by the same calls. */
static void test_config_errors(void)
{
	static const ncclCollConfig_t initial = NCCL_COLLCONFIG_INITIALIZER;
	ncclCollConfig_t config = initial;

	config.magic = 1;
	wrong_config(&config, ranks[0].comm, ncclInvalidArgument, "NCCL_COLLCONFIG_INITIALIZER");
	wrong_config(NULL, NULL, ncclInvalidArgument, "comm is NULL");
	is_int(config_of_size(0, NCCL_VERSION_CODE), ncclInvalidArgument, "a struct of no size");
	is_int(config_of_size(8, NCCL_VERSION_CODE), ncclInvalidArgument, "a struct without magic");
	config = initial;
	config.forceAlgSelection = 2;
	wrong_config(&config, ranks[0].comm, ncclInvalidArgument, "forceAlgSelection is 2");
	config = initial;
	config.CTAPolicy = 4;
	wrong_config(&config, ranks[0].comm, ncclInvalidArgument, "CTAPolicy is 4");
	config.CTAPolicy = -1;
	wrong_config(&config, ranks[0].comm, ncclInvalidArgument, "CTAPolicy is -1");
	config = initial;
	config.algSelection = "nosuch";
	wrong_config(&config, ranks[0].comm, ncclInvalidArgument, "cannot be honored");
	config.algSelection = "^ring";
	wrong_config(&config, ranks[0].comm, ncclInvalidArgument, "cannot be honored");
}

/* A struct of another version has another size: its members that both know count. */
static void test_config_versions(void)
{
	struct {
		ncclCollConfig_t known;
		char more[64];
	} later = {.known = NCCL_COLLCONFIG_INITIALIZER};
	int failed = 0;

	later.known.size = sizeof(later);
	later.known.version = 99999;
	memset(later.more, 0x55, sizeof(later.more));
	must(ncclGroupStart(), "ncclGroupStart");
	failed |= config_of_size(16, 23100);
	failed |= config_of_size(offsetof(ncclCollConfig_t, forceAlgSelection), 23100);
	failed |= config_of_size(sizeof(ncclCollConfig_t), 0);
	failed |= ncclAllReduceConfig(NULL, NULL, 0, ncclInt32, ncclSum, ranks[0].comm, NULL,
				      &later.known);
	ok(!failed, "shorter and longer structs of other versions");
	for (int r = 1; r < N; r++)
		for (int i = 0; i < 4; i++)
			must(ncclAllReduce(NULL, NULL, 0, ncclInt32, ncclSum, ranks[r].comm, NULL),
			     "ncclAllReduce");
	good(ncclGroupEnd(), "and the calls match plain ones");
}

/* The ranks make the call with a selection each, on streams of their own.  Returns the result of rank 0's call. */
static ncclResult_t select_algorithms(enum call call, const char *first, const char *others,
				      int force)
{
	ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
	ncclResult_t code = ncclSuccess;

	ranks_set();
	must(ncclGroupStart(), "ncclGroupStart");
	config.forceAlgSelection = force;
	config.userProfilerTag = 5;
	for (int r = 0; r < N; r++) {
		config.algSelection = r ? others : first;
		must(issue_config(call, r, (cudaStream_t)ranks[r].stream, &config), "the call");
	}
	code = ncclGroupEnd();
	if (!code)
		ranks_sync(0);
	return code;
}

static void selected(enum call call, const char *selection, int force)
{
	int correct = 1;

	good(select_algorithms(call, selection, selection, force), "algSelection");
	for (int r = 0; r < N; r++)
		correct &= right(call, r);
	ok(correct, "%s by \"%s\"%s", call_names[call], selection, force ? "" : ", not forced");
}

/* libcoll's algorithms by their own names, and NCCL's ring.  NCCL itself beside the drop-in takes none of libcoll's. */
static void test_selection(void)
{
	if (strcmp(getenv("COLL_BACKEND"), "nccl")) {
		selected(ALLREDUCE, "ring", 1);
		selected(ALLREDUCE, "tree, RING_LL128", 1);
		selected(ALLREDUCE, "Recursive_Doubling", 1);
		selected(ALLREDUCE, "^symk,tree", 1);
		selected(ALLREDUCE, "two_level, ring", 1);
		selected(ALLREDUCE, "two_level", 0);
		wrong(select_algorithms(ALLREDUCE, "two_level", "two_level", 1), ncclInvalidUsage,
		      "does not serve this call");
		selected(BROADCAST, "RING", 1);
		selected(REDUCE_SCATTER, "ring_simple", 1);
	} else {
		wrong(select_algorithms(ALLREDUCE, "ring", "ring", 1), ncclInvalidUsage,
		      "allreduce: ");
	}
	selected(ALLREDUCE, "nosuch", 0);
	selected(ALLREDUCE, "ring", 0);
}

static void test_two_events(void)
{
	ncclCollConfig_t config = NCCL_COLLCONFIG_INITIALIZER;
	void *event = NULL;

	set_device(0);
	must(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), "cuEventCreate");
	config.launchCompletionEvent = (cudaEvent_t)event;
	must(ncclGroupStart(), "ncclGroupStart");
	must(issue_config(ALLREDUCE, 0, (cudaStream_t)ranks[0].stream, &config), "the call");
	wrong(issue_config(ALLREDUCE, 0, (cudaStream_t)ranks[0].stream, &config), ncclInvalidUsage,
	      "with an event already");
	wrong(ncclGroupEnd(), ncclInvalidUsage, "with an event already");
	must(cuEventDestroy_v2(event), "cuEventDestroy");
}

static void wrong_encryption(int mode, const char *psk, const char *text)
{
	ncclEncryptionConfig_t config = NCCL_ENCRYPTION_CONFIG_INITIALIZER;

	config.mode = mode;
	config.psk = psk;
	wrong(ncclSetEncryption(&config), ncclInvalidArgument, text);
}

static void test_encryption(void)
{
	ncclEncryptionConfig_t config = NCCL_ENCRYPTION_CONFIG_INITIALIZER;
	ncclComm_t comms[2];

	good(ncclSetEncryption(NULL), "no configuration");
	good(ncclSetEncryption(&config), "no encryption");
	wrong_encryption(2, NULL, "config->mode is 2");
	wrong_encryption(1, NULL, "at least 32 bytes");
	wrong_encryption(1, "0123456789012345678901234567890", "at least 32 bytes");
	config.mode = 1;
	config.psk = "01234567890123456789012345678901";
	config.size = 100;
	config.version = 99999;
	good(ncclSetEncryption(&config), "a key, in a struct of a later version");
	wrong(ncclCommSplit(ranks[0].comm, 0, 0, &comms[0], NULL), ncclInvalidUsage,
	      "made before ncclSetEncryption");
	wrong(ncclCommShrink(ranks[0].comm, NULL, 0, &comms[0], NULL, 0), ncclInvalidUsage,
	      "made before ncclSetEncryption");
	if (ncclCommInitAll(comms, 2, NULL) && strstr(ncclGetLastError(NULL), "libsodium")) {
		skip(1, "the sum under encryption: tcp is built without libsodium");
	} else {
		sums_of(comms, 2, 1000, "the sum under encryption");
		for (int r = 0; r < 2; r++)
			must(ncclCommDestroy(comms[r]), "ncclCommDestroy");
	}
	config.magic = 0;
	wrong(ncclSetEncryption(&config), ncclInvalidArgument,
	      "NCCL_ENCRYPTION_CONFIG_INITIALIZER");
	good(ncclSetEncryption(NULL), "the end of the encryption");
}
#endif

/* Every rank's thread fails; no communicator and no open group is left. */
static void test_failed_init(void)
{
	char *backend = strdup(getenv("COLL_BACKEND"));
	ncclComm_t comms[2] = {ranks[0].comm, ranks[1].comm};

	setenv("COLL_BACKEND", "nosuch", 1);
	wrong(ncclCommInitAll(comms, 2, NULL), ncclSystemError, "nosuch");
	ok(!comms[0] && !comms[1], "no communicators");
	wrong(ncclGroupEnd(), ncclInvalidUsage, "no open group");
	setenv("COLL_BACKEND", backend, 1);
	free(backend);
	must(ncclCommInitAll(comms, 2, NULL), "ncclCommInitAll");
	sums_of(comms, 2, 1000, "the next communicators work");
	for (int r = 0; r < 2; r++)
		must(ncclCommDestroy(comms[r]), "ncclCommDestroy");
}

/* A wrong call makes the whole group fail, and nothing of it happens. */
static void test_group_errors(void)
{
	ncclComm_t comm = ranks[0].comm, made[2] = {comm, comm};
	ncclUniqueId id;

	must(ncclGetUniqueId(&id), "ncclGetUniqueId");
	ncclGroupStart();
	ncclGroupStart();
	must(ncclSend(ranks[0].in, 1, ncclInt32, 1, comm, NULL), "ncclSend");
	must(ncclCommInitRank(&made[0], 2, id, 0), "ncclCommInitRank");
	wrong(ncclCommInitRank(&made[1], 2, id, 3), ncclInvalidArgument, "rank 3 of 2");
	good(ncclGroupEnd(), "the end of an inner group");
	good(ncclCommDestroy(NULL), "a call meanwhile");
	wrong(ncclGroupEnd(), ncclInvalidArgument, "rank 3 of 2");
	ok(!made[0] && !made[1], "the group made no communicators");
	ncclGroupStart();
	good(ncclGroupEnd(), "an empty group");
}

/* libcoll refuses a call of a group: the group fails, and the calls behind it are issued. */
static void test_wrong_call_in_group(void)
{
	int correct = 1;

	ranks_set();
	ncclGroupStart();
	for (int r = 0; r < N; r++) {
		must(ncclBroadcast(ranks[r].in, ranks[r].out, COUNT, ncclInt32, N, ranks[r].comm,
				   (cudaStream_t)ranks[r].stream),
		     "ncclBroadcast");
		must(issue(ALLREDUCE, r, (cudaStream_t)ranks[r].stream), "ncclAllReduce");
	}
	wrong(ncclGroupEnd(), ncclInvalidArgument, "root");
	ranks_sync(0);
	for (int r = 0; r < N; r++)
		correct &= right(ALLREDUCE, r);
	ok(correct, "the calls behind a wrong one run");
}

/* ------------------------------------------------------------------------- absent -- */

#ifndef REAL_HEADER
static void test_properties(ncclComm_t comm)
{
	ncclCommProperties_t all = NCCL_COMM_PROPERTIES_INITIALIZER;

	all.multimemSupport = all.ginSupport[2] = 1;
	good(ncclCommQueryProperties(comm, &all), "ncclCommQueryProperties");
	ok(!all.rank && all.nRanks == N && !all.cudaDev && all.nLsaTeams == N, "has the ranks");
	ok(!all.deviceApiSupport && !all.multimemSupport && !all.hostRmaSupport && !all.ginType &&
		   !all.ginSupport[2] && !all.cftSupport,
	   "and says no to all that kernels could do");
	all.size = offsetof(ncclCommProperties_t, ginType);
	all.ginType = 5;
	good(ncclCommQueryProperties(comm, &all), "ncclCommQueryProperties of an older program");
	ok(all.ginType == 5, "stays within its struct");
	all.magic = 0;
	wrong(ncclCommQueryProperties(comm, &all), ncclInvalidUsage,
	      "NCCL_COMM_PROPERTIES_INITIALIZER");
	wrong(ncclCommQueryProperties(comm, NULL), ncclInvalidArgument, "props is NULL");
}

static void test_no_kernels(ncclComm_t comm)
{
	ncclTeam_t world = ncclTeamWorld(ranks[1].comm), alone = ncclTeamLsa(ranks[1].comm);
	ncclDevResourceRequirements_t required = {.bufferSize = 1};

	test_properties(comm);
	ok(world.nRanks == N && world.rank == 1 && world.stride == 1, "the team of all ranks");
	ok(alone.nRanks == 1 && !alone.rank && ncclTeamRail(comm).nRanks == N,
	   "a device reaches the memory of its own rank only");
	ok(ncclTeamCft(comm, 0).nRanks == 1 && ncclTeamCftMultimem(comm).nRanks == 1 &&
		   !ncclTeamWorld(NULL).nRanks,
	   "the other teams");
	ok(ncclTeamRankToWorld(ranks[1].comm, world, 3) == 3 &&
		   ncclTeamRankToWorld(ranks[1].comm, alone, 0) == 1 &&
		   ncclTeamRankToLsa(ranks[1].comm, alone, 0) == 0 &&
		   ncclTeamRankToLsa(ranks[1].comm, world, 3) == -1,
	   "ranks of a team");
	is_int(ncclLLA2ACalcSlots(3, 12), 6, "ncclLLA2ACalcSlots");
	wrong(ncclLLA2ACreateRequirement(1, 6, NULL, &required), ncclInvalidUsage, "not supported");
	ok(!required.bufferSize, "and nothing is required");
	wrong(ncclLsaBarrierCreateRequirement(alone, 1, NULL, &required), ncclInvalidUsage,
	      "not supported");
	wrong(ncclGinBarrierCreateRequirement(comm, world, 1, NULL, &required), ncclInvalidUsage,
	      "not supported");
	wrong(ncclGinOutboxCreateRequirement(1, 7, NULL, &required), ncclInvalidUsage,
	      "not supported");
	wrong(ncclGinInboxA2ACreateRequirement(world, 1, 7, NULL, &required), ncclInvalidUsage,
	      "not supported");
}
#endif

static void test_absent(void)
{
	ncclComm_t comm = ranks[0].comm;
	ncclWindow_t window = (ncclWindow_t)(uintptr_t)8;
	ncclSimInfo_t info = NCCL_SIM_INFO_INITIALIZER;

	good(ncclCommWindowRegister(comm, ranks[0].in, 64, &window, 1), "registering a window");
	ok(!window, "gives none, as where windows are not supported");
	good(ncclCommWindowDeregister(comm, window), "deregistering it");
	ncclGroupStart();
	must(ncclSend(ranks[0].in, 1, ncclInt32, 1, comm, NULL), "ncclSend");
	wrong(ncclGroupSimulateEnd(&info), ncclInvalidUsage, "not supported");
	wrong(ncclGroupEnd(), ncclInvalidUsage, "no open group");
#if !defined(REAL_HEADER) || NCCL_VERSION_CODE >= 23000
	ncclParamHandle_t param = NULL;
	const char **keys = NULL;
	void *ptr = &param;
	uint64_t bytes;
	int count = 7;

	good(ncclWinGetUserPtr(comm, NULL, &ptr), "ncclWinGetUserPtr");
	ok(!ptr, "gives no address");
	wrong(ncclSignal(1, 0, 0, 0, comm, NULL), ncclInvalidArgument, "not supported");
	wrong(ncclPutSignal(NULL, 0, ncclInt8, 1, NULL, 0, 0, 0, 0, comm, NULL),
	      ncclInvalidArgument, "not supported");
	wrong(ncclWaitSignal(0, NULL, comm, NULL), ncclInvalidArgument, "not supported");
	wrong(ncclCommSuspend(comm, 1), ncclInvalidUsage, "not supported");
#ifndef REAL_HEADER /* they are in nccl_device.h, which is C++ */
	{
		void *address = comm;
		uint32_t id = 0;

		wrong(ncclDevCommCreate(comm, NULL, NULL), ncclInvalidUsage, "not supported");
		wrong(ncclDevCommDestroy(comm, NULL), ncclInvalidUsage, "not supported");
		wrong(ncclGetPeerDevicePointer(NULL, 0, 0, &address), ncclInvalidArgument,
		      "no such window");
		ok(!address, "and no address");
		wrong(ncclGetPeerDeviceLeInfo(NULL, 0, 0, &id, NULL), ncclInvalidArgument,
		      "no such window");
		ok(id == NCCL_LE_ID_INVALID, "and no endpoint");
	}
	test_no_kernels(comm);
#endif
	wrong(ncclCommResume(comm), ncclInvalidUsage, "not supported");
	wrong(ncclCommMemStats(comm, (ncclCommMemStat_t)0, &bytes), ncclInvalidUsage,
	      "not supported");
	wrong(ncclCommGetUniqueId(comm, NULL), ncclInvalidUsage, "not supported");
	wrong(ncclCommGrow(comm, N + 1, NULL, -1, &comm, NULL), ncclInvalidUsage, "not supported");
	wrong(ncclParamBind(&param, "NCCL_DEBUG"), ncclInvalidArgument, "no such parameter");
	ok(ncclParamGetI8(param, NULL) && ncclParamGetI16(param, NULL) &&
		   ncclParamGetI32(param, NULL) && ncclParamGetI64(param, NULL) &&
		   ncclParamGetU8(param, NULL) && ncclParamGetU16(param, NULL) &&
		   ncclParamGetU32(param, NULL) && ncclParamGetU64(param, NULL) &&
		   ncclParamGetStr(param, NULL) && ncclParamGet(param, NULL, 0, NULL) &&
		   ncclParamGetParameter("NCCL_DEBUG", NULL, NULL),
	   "no handle is valid");
	ncclParamDumpAll();
	good(ncclParamGetAllParameterKeys(&keys, &count), "ncclParamGetAllParameterKeys");
	is_int(count, 0, "there are no parameters");
#endif
}

/* ---------------------------------------------------------------------- processes -- */

/* A rank in a process of its own; rank 0 writes the id to the pipe. */
static ncclComm_t process_begin(int rank, const int *pipe_ends)
{
	ncclComm_t comm = NULL;
	ncclUniqueId id;

	must(cuInit(0), "cuInit");
	must(cuDevicePrimaryCtxRetain(&contexts[rank], rank), "a context");
	set_device(rank);
	if (!rank) {
		must(ncclGetUniqueId(&id), "ncclGetUniqueId");
		must(write(pipe_ends[1], &id, sizeof(id)) != sizeof(id), "write");
	} else {
		must(read(pipe_ends[0], &id, sizeof(id)) != sizeof(id), "read");
	}
	must(ncclCommInitRank(&comm, 2, id, rank), "ncclCommInitRank");
	return comm;
}

/* Returns the number of the first thing that went wrong. */
static int process_rank(int rank, const int *pipe_ends)
{
	ncclComm_t comm = process_begin(rank, pipe_ends);
	int32_t *there = device_new(rank, 1);
	ncclResult_t error = ncclSuccess;

	device_set(there, 1, rank + 1, 0);
	if (ncclAllReduce(there, there, 1, ncclInt32, ncclSum, comm, NULL) ||
	    cuStreamSynchronize(NULL) || !device_has(there, 1, 3, 0))
		return 2;
	if (rank)
		raise(SIGKILL);
	/* The call fails too if the loss is known already. */
	error = ncclAllReduce(there, there, 1, ncclInt32, ncclSum, comm, NULL);
	if (error && error != ncclRemoteError)
		return 3;
	error = ncclSuccess;
	for (int i = 0; i < 6000 && !error; i++) {
		must(ncclCommGetAsyncError(comm, &error), "ncclCommGetAsyncError");
		usleep(10000);
	}
	if (error != ncclRemoteError || !strstr(ncclGetLastError(comm), "rank 1"))
		return 4;
	return ncclCommAbort(comm) || cuStreamSynchronize(NULL) ? 5 : 0;
}

/* A rank is killed: the other one learns which, its stream is released, and it can end. */
static void test_killed(void)
{
	int pipe_ends[2], status[2];
	pid_t pids[2];

	must(pipe(pipe_ends), "pipe");
	for (int r = 0; r < 2; r++) {
		pids[r] = fork();
		if (!pids[r])
			_exit(process_rank(r, pipe_ends));
		must(pids[r] < 0, "fork");
	}
	for (int r = 0; r < 2; r++)
		must(waitpid(pids[r], &status[r], 0) != pids[r], "waitpid");
	ok(WIFSIGNALED(status[1]), "rank 1 is killed");
	is_int(status[0], 0, "rank 0 names it and ends");
	close(pipe_ends[0]);
	close(pipe_ends[1]);
}

/* --------------------------------------------------------------------------- main -- */

static void ranks_begin(void)
{
	ncclComm_t comms[N];

	must(cuInit(0), "cuInit");
	for (int r = 0; r < N; r++) {
		must(cuDevicePrimaryCtxRetain(&contexts[r], r), "a context");
		ranks[r].in = device_new(r, N * COUNT);
		ranks[r].out = device_new(r, N * COUNT);
		must(cuStreamCreate(&ranks[r].stream, CU_STREAM_NON_BLOCKING), "a stream");
	}
	must(ncclCommInitAll(comms, N, NULL), "ncclCommInitAll");
	for (int r = 0; r < N; r++)
		ranks[r].comm = comms[r];
}

static void ranks_end(void)
{
	int failed = 0;

	for (int r = 0; r < N; r++) {
		failed |= ncclCommFinalize(ranks[r].comm);
		failed |= ncclCommFinalize(ranks[r].comm) != ncclInvalidUsage;
		failed |= ncclCommDestroy(ranks[r].comm);
	}
	ok(!failed, "one thread ends the ranks one after the other");
}

static void devices_end(void)
{
	for (int r = 0; r < N; r++) {
		set_device(r);
		must(cuMemFree_v2((uintptr_t)ranks[r].in), "cuMemFree");
		must(cuMemFree_v2((uintptr_t)ranks[r].out), "cuMemFree");
		must(cuStreamDestroy_v2(ranks[r].stream), "cuStreamDestroy");
		must(cuDevicePrimaryCtxRelease_v2(r), "cuDevicePrimaryCtxRelease");
	}
}

int main(void)
{
	setenv("STANDIN_CUDA_DEVICES", "4", 1);
	setenv("COLL_BACKEND", "tcp", 0);
	setenv("COLL_TIMEOUT", "60s", 0);
	setenv("COLL_INIT_TIMEOUT", "60s", 0);
	/* While this process has not used CUDA. */
	if (!strcmp(getenv("COLL_BACKEND"), "tcp") || !strcmp(getenv("COLL_BACKEND"), "ucx"))
		test_killed();
	ranks_begin();
	test_questions();
	for (int call = 0; call < CALLS; call++)
		for (int shared = 0; shared < 2; shared++)
			test_call((enum call)call, shared);
#ifdef HAS_CONFIG
	for (int call = 0; call < CALLS; call++)
		for (int shared = 0; shared < 2 && call != BCAST && call != RING; shared++)
			test_call_config((enum call)call, shared);
#endif
	test_own_operation(ncclScalarHostImmediate);
	test_own_operation(ncclScalarDevice);
	test_split();
	test_init_in_group();
	test_many_ids();
	test_threads();
	/* Over nccl a rank's first call waits for the others, and they do not hear of an abort. */
	if (strcmp(getenv("COLL_BACKEND"), "nccl")) {
		test_abort();
		test_revoke();
#ifdef HAS_CONFIG
		test_launched();
#endif
	}
	test_memory();
	test_errors();
#ifdef HAS_CONFIG
	test_config_errors();
	test_config_versions();
	test_two_events();
	test_selection();
	test_encryption();
#endif
	test_failed_init();
	test_group_errors();
	test_wrong_call_in_group();
	test_absent();
	ranks_end();
	test_memory_of_cuda();
	test_memory_of_nccl();
	devices_end();
	return done_testing();
}
