/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native_issue_test.c - many operations submitted to a backend without a transport: the library
 * keeps no memory and polls no completion for each single operation, reports no operation complete
 * too early, and still detects every wrong argument.  The backends only count calls
 * (tests/plugins/good/coll_null.c).
 */
#include "../fakes/cuda.h"
#include "../lib/plugin_dir.h"
#include "../plugins/good/coll_null.h"

#include <malloc.h>
#include <pthread.h>

enum { MANY = 100000, COUNT = 16 };

/*
 * When the operations of a slow queue end, in ms: each but the last while the wait awaits answers to the question that it has
 * asked after 100, 400, 800, 1600 ms.  The last one ends after the timeout.
 */
static const int slow_ms[] = {150, 450, 850, 1650, 2400};
enum { SLOW = sizeof(slow_ms) / sizeof(slow_ms[0]) };

static float data[4 * COUNT];

static struct null_handle *handle_of(coll_comm_t comm)
{
	void *handle = NULL;

	if (coll_comm_native_handle(comm, &handle))
		bail_out("no handle: %s", coll_get_last_error(NULL));
	return handle;
}

/* The backend completes no operation until a test sets `done`. */
static struct null_handle *open_null(coll_comm_t *comm, const char *backend)
{
	struct null_handle *h;

	setenv("COLL_BACKEND", backend, 1);
	if (coll_comm_init_all(comm, 1, NULL, NULL))
		bail_out("no communicator: %s", coll_get_last_error(NULL));
	h = handle_of(*comm);
	atomic_store(&h->done, 0);
	return h;
}

static void close_null(coll_comm_t comm)
{
	atomic_store(&handle_of(comm)->done, UINT64_MAX);
	is_int(coll_comm_destroy(comm), 0, "destroyed");
}

static coll_result_t issue(coll_comm_t comm)
{
	return coll_allreduce(data, data, COUNT, COLL_FLOAT32, COLL_SUM, comm, NULL);
}

static int issue_many(coll_comm_t comm, int n)
{
	int bad = 0;

	for (int i = 0; i < n; i++)
		bad += issue(comm) != 0;
	return bad;
}

static int is_done(coll_request_t request)
{
	int32_t done = -1;

	return coll_test(request, &done) ? -1 : done;
}

static void has_words(const char *text)
{
	ok(strstr(coll_get_last_error(NULL), text) != NULL, "in words with '%s': %s", text,
	   coll_get_last_error(NULL));
}

/* -------------------------------------------------------------------- a long row -- */

static void test_many(void)
{
	struct null_handle *h;
	coll_request_t first, last;
	size_t before, after;
	coll_comm_t comm;

	h = open_null(&comm, "null");
	is_int(issue_many(comm, 1000), 0, "a thousand");
	is_int(coll_get_request(comm, &first), 0, "a request there");
	before = mallinfo2().uordblks;
	is_int(issue_many(comm, MANY), 0, "and %d more under way", MANY);
	after = mallinfo2().uordblks;
	ok(after < before + 65536, "take no memory each: %zu bytes", after - before);
	is_int(atomic_load(&h->calls), MANY + 1000, "all are with the backend");
	ok(atomic_load(&h->queries) < MANY / 100, "which was asked %d times",
	   (int)atomic_load(&h->queries));
	is_int(coll_get_request(comm, &last), 0, "another request");
	atomic_store(&h->done, 999);
	is_int(is_done(first), 0, "one is missing before the first");
	atomic_store(&h->done, 1000);
	is_int(is_done(first), 1, "the first is complete");
	is_int(is_done(last), 0, "the last is not");
	atomic_store(&h->done, MANY + 999);
	is_int(is_done(last), 0, "not with one missing");
	atomic_store(&h->done, MANY + 1000);
	is_int(is_done(last), 1, "then it is");
	is_int(coll_sync(comm), 0, "sync");
	is_int(coll_request_free(first) + coll_request_free(last), 0, "free");
	close_null(comm);
}

/*
 * More requests than the completion positions that the library distinguishes: a request may
 * complete late, but not early, and not never.
 */
static void test_requests(void)
{
	enum { REQUESTS = 60 };
	coll_request_t request[REQUESTS];
	int bad = 0, early = 0, late = 0;
	struct null_handle *h;
	coll_comm_t comm;

	h = open_null(&comm, "null");
	for (int i = 0; i < REQUESTS; i++) {
		bad += issue_many(comm, 3);
		bad += coll_get_request(comm, &request[i]) != 0;
	}
	for (int n = 0; n <= 3 * REQUESTS; n++) {
		atomic_store(&h->done, (uint64_t)n);
		for (int i = 0; i < REQUESTS; i++) {
			int done = is_done(request[i]);

			early += done && n < 3 * (i + 1);
			late += !done && n >= 3 * (i + 1);
		}
	}
	is_int(bad + early, 0, "no request is complete before its operation");
	ok(late < 3 * REQUESTS * REQUESTS / 2, "most are soon after it: %d of %d looks too late",
	   late, 3 * REQUESTS * REQUESTS);
	for (int i = 0; i < REQUESTS; i++)
		bad += is_done(request[i]) != 1 || coll_request_free(request[i]);
	is_int(bad, 0, "all are at the end");
	ok(atomic_load(&h->events) <= 16, "%d events serve for it", (int)atomic_load(&h->events));
	close_null(comm);
}

/* One thread never stops issuing, and always waits for the operation before the last. */
static void test_never_idle(void)
{
	coll_request_t request;
	struct null_handle *h;
	coll_comm_t comm;
	int bad = 0;

	setenv("COLL_TIMEOUT", "2s", 1);
	h = open_null(&comm, "null");
	unsetenv("COLL_TIMEOUT");
	bad += issue(comm) != 0;
	for (uint64_t i = 1; i < 2000; i++) {
		bad += coll_get_request(comm, &request) != 0;
		bad += issue(comm) != 0;
		atomic_store(&h->done, i);
		bad += coll_wait(request) != 0;
		bad += coll_request_free(request) != 0;
	}
	is_int(bad, 0, "a request is waited for though the stream is never empty: %s",
	       coll_get_last_error(NULL));
	close_null(comm);
}

static void test_persistent(void)
{
	coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_ALLREDUCE};
	coll_request_t request;
	struct null_handle *h;
	coll_comm_t comm;

	args.dtype = COLL_FLOAT32;
	args.sendbuf = args.recvbuf = data;
	args.count = COUNT;
	h = open_null(&comm, "null");
	is_int(coll_request_init(comm, &args, &request), 0, "a persistent request");
	is_int(coll_request_start(request), 0, "is started");
	is_int(issue_many(comm, 10), 0, "with others behind it");
	is_int(coll_request_start(request), COLL_ERR_INVALID_USAGE, "and not again");
	has_words("still under way");
	atomic_store(&h->done, 1);
	is_int(is_done(request), 1, "until it is complete");
	is_int(coll_request_start(request), 0, "then it is started again");
	is_int(is_done(request), 0, "and under way");
	is_int(coll_request_free(request), 0, "freed meanwhile");
	is_int(atomic_load(&h->calls), 12, "twelve operations");
	close_null(comm);
}

/* ---------------------------------------------------------------------- failures -- */

struct waiter {
	coll_comm_t comm;
	coll_result_t code;
	_Atomic int waits;
};

static void *wait_for_all(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->waits, 1);
	w->code = coll_sync(w->comm);
	return NULL;
}

static void test_abort(void)
{
	struct waiter w = {.code = -1};
	coll_request_t request;
	struct null_handle *h;
	pthread_t thread;

	h = open_null(&w.comm, "null");
	is_int(issue_many(w.comm, MANY), 0, "%d under way", MANY);
	is_int(coll_get_request(w.comm, &request), 0, "with a request");
	if (pthread_create(&thread, NULL, wait_for_all, &w))
		bail_out("no thread");
	while (!atomic_load(&w.waits))
		usleep(1000);
	usleep(50000);
	is_int(coll_comm_abort(w.comm), 0, "abort");
	pthread_join(thread, NULL);
	is_int(w.code, COLL_ERR_ABORTED, "ends the wait");
	is_int(atomic_load(&h->aborted), 1, "and the backend's work");
	is_int(is_done(request), -1, "which is not complete");
	is_int(issue(w.comm), COLL_ERR_ABORTED, "nothing is issued any more");
	is_int(atomic_load(&h->calls), MANY, "nor reaches the backend");
	is_int(coll_request_free(request), 0, "free");
	close_null(w.comm);
}

static void test_failure(void)
{
	struct null_handle *h;
	coll_request_t request;
	coll_result_t error;
	coll_comm_t comm;
	int n = 0;

	h = open_null(&comm, "null");
	is_int(issue_many(comm, 5), 0, "five under way");
	atomic_store(&h->failing, COLL_ERR_DEVICE);
	is_int(coll_sync(comm), COLL_ERR_DEVICE, "a failure of the engine reaches who waits");
	has_words("rank 0: told to fail");
	close_null(comm);

	h = open_null(&comm, "null");
	is_int(issue_many(comm, 5) + coll_get_request(comm, &request), 0, "five, and a request");
	atomic_store(&h->failing, COLL_ERR_REMOTE);
	is_int(is_done(request), -1, "and who tests");
	has_words("told to fail");
	is_int(coll_request_free(request), 0, "free");
	close_null(comm);

	h = open_null(&comm, "null");
	atomic_store(&h->failing, COLL_ERR_DEVICE);
	while (n < MANY && !issue(comm))
		n++;
	ok(n < 5000, "and who never does either, within %d calls", n);
	is_int(coll_comm_get_async_error(comm, &error) + error, COLL_ERR_DEVICE, "as the error");
	close_null(comm);
}

static void test_refusal(void)
{
	struct null_handle *h;
	coll_request_t before, after;
	coll_comm_t comm;

	h = open_null(&comm, "null");
	is_int(issue_many(comm, 5) + coll_get_request(comm, &before), 0, "five, and a request");
	atomic_store(&h->refusing, COLL_ERR_SYSTEM);
	is_int(issue(comm), COLL_ERR_SYSTEM, "what the slot says the call returns");
	has_words("rank 0: told to refuse");
	is_int(coll_get_request(comm, &after), 0, "a request after it");
	atomic_store(&h->refusing, 0);
	atomic_store(&h->done, UINT64_MAX);
	is_int(issue(comm), COLL_ERR_SYSTEM, "the communicator has failed");
	is_int(is_done(after), -1, "what failed is not complete");
	is_int(coll_sync(comm), COLL_ERR_SYSTEM, "nor all");
	is_int(coll_request_free(before) + coll_request_free(after), 0, "free");
	close_null(comm);

	h = open_null(&comm, "null");
	atomic_store(&h->refusing, COLL_ERR_SYSTEM);
	is_int(coll_group_start() + issue(comm) + coll_get_request(comm, &after), 0, "in a group");
	is_int(coll_group_end(), COLL_ERR_SYSTEM, "its end returns it");
	is_int(atomic_load(&h->groups), 0, "and ends the backend's, too");
	atomic_store(&h->done, UINT64_MAX);
	is_int(is_done(after), -1, "and the operation is not complete");
	is_int(coll_request_free(after), 0, "free");
	close_null(comm);
}

static void test_timeout(void)
{
	struct null_handle *h;
	coll_comm_t comm;

	setenv("COLL_TIMEOUT", "300ms", 1);
	h = open_null(&comm, "null");
	unsetenv("COLL_TIMEOUT");
	is_int(issue_many(comm, 3), 0, "three under way");
	is_int(coll_sync(comm), COLL_ERR_TIMEOUT, "are waited for so long");
	has_words("3 operations in the hands of backend 'null'");
	has_words("allreduce of 16 float32");
	atomic_store(&h->done, UINT64_MAX);
	close_null(comm);
}

/* Ends the operations one by one. */
static void *end_slowly(void *arg)
{
	struct null_handle *h = arg;

	for (int i = 0; i < SLOW; i++) {
		usleep((useconds_t)(slow_ms[i] - (i ? slow_ms[i - 1] : 0)) * 1000);
		atomic_store(&h->done, i + 1);
	}
	return NULL;
}

/* A long queue: each operation that ends begins the timeout of the wait anew, and the question to other ranks. */
static void test_slow_queue(void)
{
	coll_request_t requests[SLOW];
	struct null_handle *h;
	coll_comm_t comm;
	pthread_t thread;
	int bad = 0;

	setenv("COLL_TIMEOUT", "2s", 1);
	setenv("COLL_STALL_AFTER", "100ms", 1);
	h = open_null(&comm, "null");
	for (int i = 0; i < SLOW; i++)
		bad += issue(comm) || coll_get_request(comm, &requests[i]);
	is_int(bad, 0, "a slow queue is issued");
	if (pthread_create(&thread, NULL, end_slowly, h))
		bail_out("cannot start a thread");
	is_int(coll_sync(comm), 0, "its wait lasts longer than the timeout");
	pthread_join(thread, NULL);
	for (int i = 0; i < SLOW; i++)
		bad += coll_request_free(requests[i]) != 0;
	is_int(bad, 0, "the requests are freed");
	close_null(comm);
	unsetenv("COLL_STALL_AFTER");
	unsetenv("COLL_TIMEOUT");
}

/* A call that differs by its buffers only from the last one, which was right, is not checked as a whole. */
static void test_other_buffers(coll_comm_t comm)
{
	const int32_t wrong = COLL_ERR_INVALID_ARGUMENT;
	static const struct {
		int send, recv, count;
		int right;
		const char *what;
	} calls[] = {
		{0, COUNT, COUNT, 1, "two buffers"},
		{COUNT, 2 * COUNT, COUNT, 1, "two others"},
		{0, 3 * COUNT, COUNT, 1, "two others, farther from each other"},
		{3 * COUNT, COUNT, COUNT, 1, "the other way round"},
		{0, COUNT - 1, COUNT, 0, "they overlap"},
		{COUNT - 1, 0, COUNT, 0, "they overlap the other way round"},
		{0, COUNT, 2 * COUNT, 0, "more elements, with which they overlap"},
		{0, 2 * COUNT, 2 * COUNT, 1, "more elements, and room for them"},
		{0, 0, 2 * COUNT, 1, "the same buffer twice"},
		{COUNT, COUNT, 2 * COUNT, 1, "another one twice"},
		{COUNT, 0, 2 * COUNT, 0, "two that overlap after it"},
	};

	for (size_t i = 0; i < sizeof(calls) / sizeof(calls[0]); i++)
		is_int(coll_allreduce(data + calls[i].send, data + calls[i].recv,
				      (size_t)calls[i].count, COLL_FLOAT32, COLL_SUM, comm, NULL),
		       calls[i].right ? 0 : wrong, "%s", calls[i].what);
}

/* A call that once was right does not hide a wrong argument now. */
static void test_arguments(void)
{
	coll_comm_t comm;
	int32_t wrong = COLL_ERR_INVALID_ARGUMENT;
	const size_t most = SIZE_MAX / 8;

	open_null(&comm, "null");
	is_int(issue_many(comm, 3), 0, "a call that is right");
	is_int(coll_allreduce(NULL, data, COUNT, COLL_FLOAT32, COLL_SUM, comm, NULL), wrong,
	       "sendbuf");
	is_int(coll_allreduce(data, NULL, COUNT, COLL_FLOAT32, COLL_SUM, comm, NULL), wrong,
	       "recvbuf");
	is_int(coll_allreduce(data, data + 1, COUNT, COLL_FLOAT32, COLL_SUM, comm, NULL), wrong,
	       "overlap");
	is_int(coll_allreduce(data, data, most, COLL_FLOAT64, COLL_SUM, comm, NULL), wrong,
	       "count");
	is_int(coll_allreduce(data, data, most * 2, COLL_FLOAT32, COLL_SUM, comm, NULL), wrong,
	       "count of the known type");
	has_words("does not fit into memory");
	is_int(coll_allreduce(data, data, COUNT, 99, COLL_SUM, comm, NULL), wrong, "dtype");
	is_int(coll_allreduce(data, data, COUNT, COLL_FLOAT32, 99, comm, NULL), wrong, "op");
	is_int(coll_broadcast(data, data, COUNT, COLL_FLOAT32, 0, comm, NULL), 0, "a broadcast");
	is_int(coll_broadcast(data, data, COUNT, COLL_FLOAT32, 1, comm, NULL), wrong, "root");
	is_int(coll_allgather(data, data, COUNT, COLL_FLOAT32, comm, NULL), COLL_ERR_UNSUPPORTED,
	       "what the backend has not");
	is_int(coll_allreduce(NULL, NULL, 0, COLL_FLOAT32, COLL_SUM, comm, NULL), 0,
	       "nothing to reduce");
	test_other_buffers(comm);
	close_null(comm);
}

/* ------------------------------------------------------------------ groups, threads -- */

static void *issue_one(void *arg)
{
	coll_comm_t comm = arg;

	if (coll_allreduce(data, data, 2, COLL_FLOAT32, COLL_SUM, comm, NULL))
		bail_out("another thread's call: %s", coll_get_last_error(NULL));
	return NULL;
}

/* An open group holds back the operations that other threads issue after it. */
static void test_group_order(void)
{
	coll_request_t request;
	struct null_handle *h;
	pthread_t thread;
	coll_comm_t comm;

	h = open_null(&comm, "null");
	is_int(issue_many(comm, 3) + coll_group_start() + issue_many(comm, 2), 0, "a group");
	if (pthread_create(&thread, NULL, issue_one, comm))
		bail_out("no thread");
	pthread_join(thread, NULL);
	is_int(coll_get_request(comm, &request), 0, "a request behind it");
	is_int(atomic_load(&h->calls), 3, "only what came before the group is with the backend");
	atomic_store(&h->done, UINT64_MAX);
	is_int(is_done(request), 0, "and no more is complete");
	atomic_store(&h->done, 5);
	is_int(coll_group_end(), 0, "its end");
	is_int(atomic_load(&h->calls), 6, "lets all go");
	is_int((int64_t)h->count, 2, "the other thread's call last");
	is_int(is_done(request), 0, "which is under way");
	atomic_store(&h->done, 6);
	is_int(is_done(request), 1, "and then complete");
	is_int(coll_request_free(request), 0, "free");
	close_null(comm);
}

/*
 * Until a group has ended on all its communicators, the backend may not have begun any of its
 * operations.
 */
static void test_group_not_asked(void)
{
	struct null_handle *h[2];
	coll_comm_t comm[2];
	int bad = 0;

	setenv("COLL_PROGRESS", "thread", 1);
	for (int i = 0; i < 2; i++) {
		h[i] = open_null(&comm[i], "null");
		atomic_store(&h[i]->done, UINT64_MAX);
	}
	unsetenv("COLL_PROGRESS");
	for (int round = 0; round < 3000; round++) {
		bad += coll_group_start() != 0;
		bad += issue_many(comm[0], 2) + issue_many(comm[1], 2);
		bad += coll_group_end() != 0;
	}
	is_int(bad + coll_sync(comm[0]) + coll_sync(comm[1]), 0, "groups on two communicators");
	is_int((int64_t)(atomic_load(&h[0]->early) + atomic_load(&h[1]->early)), 0,
	       "whose streams are not asked before they have begun");
	close_null(comm[0]);
	close_null(comm[1]);
}

static void *issue_thousands(void *arg)
{
	coll_comm_t comm = arg;
	coll_request_t request;
	int bad = 0;

	for (int i = 0; i < 5000; i++) {
		bad += issue(comm) != 0;
		if (i % 100)
			continue;
		bad += coll_get_request(comm, &request) != 0;
		bad += is_done(request) < 0;
		bad += coll_request_free(request) != 0;
	}
	if (bad)
		diag("%d calls failed: %s", bad, coll_get_last_error(NULL));
	return bad ? arg : NULL;
}

static void test_threads(void)
{
	pthread_t thread[4];
	struct null_handle *h;
	coll_comm_t comm;
	void *failed;
	int bad = 0;

	h = open_null(&comm, "null");
	atomic_store(&h->done, UINT64_MAX);
	for (int i = 0; i < 4; i++)
		if (pthread_create(&thread[i], NULL, issue_thousands, comm))
			bail_out("no thread");
	for (int i = 0; i < 4; i++) {
		pthread_join(thread[i], &failed);
		bad += failed != NULL;
	}
	is_int(bad + coll_sync(comm), 0, "four threads issue");
	is_int((int64_t)atomic_load(&h->calls), 20000, "20000 operations");
	close_null(comm);
}

static void test_events(void)
{
	struct null_handle *h;
	coll_event_t event;
	coll_comm_t comm;

	h = open_null(&comm, "null");
	is_int(issue_many(comm, 100) + coll_event_create(comm, &event), 0, "a hundred");
	is_int(coll_event_record(event, comm) + issue_many(comm, 100), 0, "an event, as many more");
	atomic_store(&h->done, 99);
	is_int(coll_event_query(event), COLL_IN_PROGRESS, "is not reached");
	atomic_store(&h->done, 100);
	is_int(coll_event_query(event), 0, "is reached");
	is_int(coll_allreduce(data, data, COUNT, COLL_FLOAT32, COLL_SUM, comm, &event), 0,
	       "another stream");
	ok(h->stream == &event, "is handed over");
	is_int(coll_event_destroy(event), 0, "destroyed");
	close_null(comm);
}

/* -------------------------------------------------------------- memory of devices -- */

static float *device_floats(void)
{
	CUdeviceptr ptr;

	if (cuMemAlloc_v2(&ptr, 4096))
		bail_out("no device memory");
	return (float *)(uintptr_t)ptr;
}

static coll_result_t issue_at(const float *send, float *recv, coll_comm_t comm)
{
	return coll_allreduce(send, recv, COUNT, COLL_FLOAT32, COLL_SUM, comm, NULL);
}

static void test_device(void)
{
	float *x, *y, *z;
	struct null_handle *h;
	coll_comm_t comm;
	void *context;
	int bad = 0;

	if (cuInit(0) || cuDevicePrimaryCtxRetain(&context, 0) || cuCtxPushCurrent_v2(context))
		bail_out("no stand-in for the driver");
	x = device_floats();
	y = device_floats();
	z = device_floats();
	h = open_null(&comm, "nulldevice");
	is_int(issue_at(data, data, comm), COLL_ERR_UNSUPPORTED, "host memory");
	has_words("sendbuf is host memory");
	for (int i = 0; i < 1000; i++)
		bad += issue_at(x, y, comm) != 0;
	is_int(bad, 0, "memory of a device");
	is_int(issue_at(x, data, comm), COLL_ERR_UNSUPPORTED, "one buffer is the host's");
	has_words("recvbuf is host memory");
	is_int(coll_group_start() + issue_at(x, y, comm), 0, "in a group");
	is_int(issue_at(data, y, comm), COLL_ERR_UNSUPPORTED, "too");
	is_int(coll_group_end(), 0, "its end");
	is_int(issue_at(NULL, NULL, comm), COLL_ERR_INVALID_ARGUMENT, "no memory");
	setenv("STANDIN_CUDA_LOOK", "700", 1);
	is_int(issue_at(x, y, comm), 0, "what is known is not looked up each time");
	is_int(issue_at(x, z, comm), COLL_ERR_DEVICE, "what is new is");
	unsetenv("STANDIN_CUDA_LOOK");
	is_int(issue_at(x, z, comm), 0, "and then taken");
	is_int((int64_t)atomic_load(&h->calls), 1003, "what was wrong never reached the backend");
	close_null(comm);
	cuMemFree_v2((uintptr_t)x);
	cuMemFree_v2((uintptr_t)y);
	cuMemFree_v2((uintptr_t)z);
}

int main(void)
{
	plugin_dir_begin();
	place("coll_null.so", "coll_null.so");
	place("coll_nulldevice.so", "coll_nulldevice.so");
	setenv("COLL_PLUGIN_PATH", at(""), 1);
	test_many();
	test_requests();
	test_never_idle();
	test_persistent();
	test_abort();
	test_failure();
	test_refusal();
	test_timeout();
	test_slow_queue();
	test_arguments();
	test_group_order();
	test_group_not_asked();
	test_threads();
	test_events();
	test_device();
	plugin_dir_end();
	return done_testing();
}
