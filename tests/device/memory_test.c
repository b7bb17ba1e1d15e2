/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory_test.c - device memory with a backend that does not take it: the refusals and their texts,
 * and the path through host memory with its warnings.
 */
#include <errno.h>

#include "../lib/device_harness.h"

static void test_staged(const char *backend)
{
	for (int where = 0; where < WHERES; where++) {
		struct plan plan = {where, 1, 1, where == ON_DEVICE};

		for (int n = 1; n <= NRANKS; n += 2)
			ranks_ok(&(struct ranks_job){backend, n, 0, every_call, &plan},
				 "every call by host memory, %s", where_names[where]);
	}
	/* No context owns memory of a pool. */
	setenv("STANDIN_CUDA_POOL", "1", 1);
	ranks_ok(&(struct ranks_job){backend, 2, 0, every_call, &(struct plan){ON_DEVICE, 1, 1, 1}},
		 "every call by host memory, memory of a pool");
	unsetenv("STANDIN_CUDA_POOL");
}

static void one_allreduce(struct rank *r)
{
	try_call(r, COLL_KIND_ALLREDUCE, 0, ON_DEVICE);
}

/* One call in a loop, and two others. */
static void three_places(struct rank *r)
{
	const size_t n = 5;
	int64_t *there = device_new(0, n * sizeof(*there), 0);

	for (int i = 0; i < 3; i++)
		rank_did(r,
			 coll_allreduce(there, there, n - (size_t)i, COLL_INT64, COLL_SUM, r->comm,
					NULL),
			 "allreduce");
	rank_did(r, coll_allreduce(there, there, n, COLL_INT64, COLL_SUM, r->comm, NULL),
		 "allreduce");
	rank_did(r, coll_broadcast(there, there, n, COLL_INT64, 0, r->comm, NULL), "broadcast");
	rank_did(r, coll_sync(r->comm), "sync");
	device_free(0, there);
}

static void test_places(void)
{
	char *program = strrchr(program_invocation_name, '/'), want[256];

	log_begin();
	setenv("COLL_LOG", "info", 1);
	ranks_ok(&(struct ranks_job){"simulated", 2, 0, three_places, NULL},
		 "three calls in the program");
	unsetenv("COLL_LOG");
	log_end();
	is_int(log_lines("warn: rank 1: "), 3, "a warning for each, and not for each time");
	snprintf(want, sizeof(want), "%s+0x", program ? program : program_invocation_short_name);
	is_int(log_lines(want), 6, "with the place");
	is_int(log_lines("rank 1: operations that copied CUDA memory through host memory: 4 "
			 "allreduce, 1 broadcast"),
	       1, "and all are counted");
}

static void test_warnings(void)
{
	struct ranks_job job = {"simulated", 2, 0, one_allreduce, NULL};

	log_begin();
	setenv("COLL_LOG", "info", 1);
	ranks_ok(&job, "an allreduce started three times");
	unsetenv("COLL_LOG");
	log_end();
	is_int(log_lines("allreduce over backend 'simulated' copies 2800 bytes from and 2800 bytes "
			 "to CUDA memory through host memory, which is slow; "
			 "'enable_gpu_fallback = no' makes it an error"),
	       2, "a warning for the first of three uses");
	is_int(log_lines("warn: rank 1: "), 1, "with the rank");
	is_int(log_lines("rank 1: operations that copied CUDA memory through host memory: 3 "
			 "allreduce"),
	       1, "at the end it says how many there were");
	is_int(standin_pinned(), 0, "no pinned memory is left");
	setenv("STANDIN_CUDA_PIN", "2", 1);
	ranks_ok(&job, "an allreduce without pinned memory");
	unsetenv("STANDIN_CUDA_PIN");
}

/* A call accepts any memory in a buffer that it does not use. */
static void unused(struct rank *r)
{
	void *there = device_new(0, BYTES, 0);
	int64_t x = 7 + r->rank;

	if (rank_did(r, coll_broadcast(r->rank ? there : &x, &x, 1, COLL_INT64, 0, r->comm, NULL),
		     "broadcast") &&
	    rank_did(r, coll_allreduce(there, there, 0, COLL_INT64, COLL_SUM, r->comm, NULL),
		     "allreduce of nothing") &&
	    rank_did(r, coll_sync(r->comm), "sync") && x != 7)
		rank_fail(r, "broadcast: %d", (int)x);
	device_free(0, there);
}

static void refusals(struct rank *r)
{
	char *there = device_new(1, BYTES, 0), *managed = device_new(0, BYTES, 1), here[64] = "";
	const char *name = r->user;
	coll_request_t request;
	char words[512];

	snprintf(words, sizeof(words),
		 "allgather: recvbuf is CUDA memory of device 1, which backend '%s' does not "
		 "take" OPT_IN,
		 name);
	refused(r, coll_allgather(here, there + 5, 4, COLL_INT8, r->comm, NULL), words);
	snprintf(words, sizeof(words),
		 "send: sendbuf is CUDA managed memory of device 0, which backend '%s' does not "
		 "take" OPT_IN,
		 name);
	refused(r, coll_send(managed, 4, COLL_INT8, 0, 0, r->comm, NULL), words);
	snprintf(
		words, sizeof(words),
		"coll_irecv: recvbuf is CUDA memory of device 1, but messages outside the order of "
		"the operations need host memory that backend '%s' takes: copy the data there, use "
		"coll_send and coll_recv, or set COLL_ENABLE_GPU_FALLBACK=1 (option "
		"enable_gpu_fallback) to have it copied through host memory, which is slow",
		name);
	refused(r, coll_irecv(there, 4, COLL_INT8, 0, 0, r->comm, &request), words);
	sums_to(r, r->comm, 1, r->nranks, "afterwards");
	device_free(1, there);
	device_free(0, managed);
}

static void test_refused(void)
{
	ranks_ok(&(struct ranks_job){"simulated", 2, 0, refusals, "simulated"}, "refused");
	ranks_ok(&(struct ranks_job){"tcp", 2, 0, refusals, "tcp"}, "refused");
	setenv("COLL_DEVICE_TAKES", "host", 1);
	ranks_ok(&(struct ranks_job){"device", 2, 0, refusals, "device"},
		 "its endpoint takes less");
	unsetenv("COLL_DEVICE_TAKES");
	ranks_ok(&(struct ranks_job){"tcp", 2, 0, unused, NULL},
		 "what is not used may be anywhere");
}

/* -------------------------------------------------------------- scaled reductions -- */

static void scaled(struct rank *r)
{
	double factor = 0.5 * (r->rank + 1), x[3] = {1, 2, 3}, y[3] = {0, 0, 0}, want = 0;
	double *there = device_new(0, 64, 0);
	coll_op_t op = 0;
	int good;

	for (int p = 0; p < r->nranks; p++)
		want += 0.5 * (p + 1) * 3;
	device_move(0, there, &factor, sizeof(factor));
	device_move(0, there + 1, x, sizeof(x));
	good = rank_did(r,
			coll_red_op_create_pre_mul_sum(&op, there, COLL_FLOAT64, COLL_SCALAR_DEVICE,
						       r->comm),
			"op_create") &&
	       rank_did(r, coll_allreduce(there + 1, there + 4, 3, COLL_FLOAT64, op, r->comm, NULL),
			"allreduce") &&
	       rank_did(r, coll_sync(r->comm), "sync");
	device_move(0, y, there + 4, sizeof(y));
	if (good && y[2] != want)
		rank_fail(r, "%g, not %g", y[2], want);
	good = good &&
	       rank_did(r, coll_allreduce(x, y, 3, COLL_FLOAT64, op, r->comm, NULL), "again") &&
	       rank_did(r, coll_sync(r->comm), "sync");
	if (good && y[2] != want)
		rank_fail(r, "only the scalar on the device: %g, not %g", y[2], want);
	device_free(0, there);
}

static void scalar_refused(struct rank *r)
{
	double x = 1, *there = device_new(0, 64, 0);
	coll_op_t op = 0;

	rank_did(r,
		 coll_red_op_create_pre_mul_sum(&op, there, COLL_FLOAT64, COLL_SCALAR_DEVICE,
						r->comm),
		 "op_create");
	refused(r, coll_allreduce(&x, &x, 1, COLL_FLOAT64, op, r->comm, NULL),
		"allreduce: scalar is CUDA memory of device 0, which backend 'simulated' does not "
		"take" OPT_IN);
	device_free(0, there);
}

static void host_only(struct rank *r)
{
	sums_to(r, r->comm, r->rank, (int64_t)r->nranks * (r->nranks - 1) / 2, "host memory");
}

int main(void)
{
	device_begin();
	ranks_ok(&(struct ranks_job){"simulated", 3, 0, host_only, NULL},
		 "with a driver that nobody has initialised");
	device_init();
	ranks_ok(&(struct ranks_job){"simulated", 3, 0, host_only, NULL}, "with a driver");
	test_refused();
	ranks_ok(&(struct ranks_job){"simulated", 2, 0, scalar_refused, NULL}, "a scalar");
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
	test_warnings();
	test_places();
	log_begin();
	test_staged("simulated");
	test_staged("tcp");
	ranks_ok(&(struct ranks_job){"simulated", 3, 0, scaled, NULL}, "a scalar on the device");
	log_end();
	device_end();
	return done_testing();
}
