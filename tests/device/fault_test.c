/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fault_test.c - a driver that fails: every rank gets an error with the driver's text, and no rank
 * hangs.
 */
#include "../lib/device_harness.h"

struct trouble {
	pthread_barrier_t ready;
	int kind, after; /* number of copies that still succeed */
	const char *words;
};

/* All ranks must soon get the error, with the driver's text. */
static void fails(struct rank *r)
{
	struct trouble *t = r->user;
	const struct oracle_case like = {
		.kind = t->kind, .dtype = COLL_INT32, .op = COLL_SUM, .gaps = 1, .count = COUNT};
	struct device_call c;
	char fault[64];
	coll_request_t request = NULL;
	double begin = ranks_now();
	const char *text;
	int code;

	device_call_begin(&c, r, &like, (int[]){0, 0});
	code = coll_request_init(r->comm, &c.o.args, &request);
	pthread_barrier_wait(&t->ready);
	snprintf(fault, sizeof(fault), "700@%lu", standin_copies() + (unsigned long)t->after);
	if (r->rank == 0)
		setenv("STANDIN_CUDA_COPY", fault, 1);
	pthread_barrier_wait(&t->ready);
	if (!code)
		code = coll_request_start(request);
	if (!code)
		code = coll_sync(r->comm);
	if (!code) /* the rank's own part was complete before another rank failed */
		code = coll_barrier(r->comm);
	text = coll_get_last_error(NULL);
	if ((code != COLL_ERR_DEVICE && code != COLL_ERR_REMOTE) || !strstr(text, t->words))
		rank_fail(r, "%d (%s)", code, text);
	if (ranks_now() - begin > 60)
		rank_fail(r, "it took too long");
	pthread_barrier_wait(&t->ready);
	if (r->rank == 0)
		unsetenv("STANDIN_CUDA_COPY");
	pthread_barrier_wait(&t->ready);
	device_call_end(&c);
}

static void test_failure(const char *backend, int kind, int after, const char *words,
			 const char *what)
{
	struct trouble t = {.kind = kind, .after = after, .words = words};

	pthread_barrier_init(&t.ready, NULL, 2);
	ranks_ok(&(struct ranks_job){backend, 2, 0, fails, &t}, "%s", what);
	pthread_barrier_destroy(&t.ready);
}

/* The driver fails even to tell the kind of memory. */
static void blind(struct rank *r)
{
	char *there = device_new(0, BYTES, 0);
	int code;

	setenv("STANDIN_CUDA_LOOK", "700", 1);
	code = coll_allreduce(there, there, 4, COLL_INT64, COLL_SUM, r->comm, NULL);
	unsetenv("STANDIN_CUDA_LOOK");
	if (code != COLL_ERR_DEVICE || !strstr(coll_get_last_error(NULL), "cannot say what memory"))
		rank_fail(r, "%d (%s)", code, coll_get_last_error(NULL));
	device_free(0, there);
}

static void test_failures(void)
{
	static const char words[] =
		"an illegal memory access was encountered (700, CUDA_ERROR_ILLEGAL_ADDRESS)";

	log_begin();
	test_failure("device", COLL_KIND_BROADCAST, 0, words, "a send's copy fails");
	test_failure("device", COLL_KIND_GATHER, 0, words, "a copy between buffers fails");
	/*
	 * The failing copy is the backend's, which has no text, or the core's, if the message came
	 * early.
	 */
	test_failure("device", COLL_KIND_BROADCAST, 1, "device", "a later copy fails");
	test_failure("device", COLL_KIND_BROADCAST, 2, "device", "a receive's copy fails");
	setenv("COLL_DEVICE_BY_DATA", "yes", 1);
	test_failure("device", COLL_KIND_BROADCAST, 2, words, "and in the core");
	unsetenv("COLL_DEVICE_BY_DATA");
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
	for (int tcp = 0; tcp < 2; tcp++) {
		const char *backend = tcp ? "tcp" : "simulated";

		test_failure(backend, COLL_KIND_ALLREDUCE, 0, words, "the copy to the host fails");
		test_failure(backend, COLL_KIND_ALLREDUCE, 2, words,
			     "the copy to the device fails");
		test_failure(backend, COLL_KIND_ALLTOALLV, 4, words, "a copy of blocks fails");
	}
	log_end();
	unsetenv("COLL_ENABLE_GPU_FALLBACK");
	ranks_ok(&(struct ranks_job){"simulated", 1, 0, blind, NULL}, "the driver fails");
}

int main(void)
{
	device_begin();
	device_init();
	test_failures();
	device_end();
	return done_testing();
}
