/* SPDX-License-Identifier: BSD-3-Clause */
/* native_test.c - a backend with native collectives and no transport: order, completion, errors. */
#include "../lib/plugin_dir.h"

static coll_comm_t open_native(int nranks, coll_result_t *code)
{
	coll_comm_t comms[2] = {NULL, NULL};

	*code = coll_comm_init_all(comms, nranks, NULL, NULL);
	return comms[0];
}

/*
 * Each operation reads the result of the operation before: the first value arrives only if they run
 * in order.
 */
static void test_order(coll_comm_t comm)
{
	float x[10] = {42};
	int bad = 0;
	int32_t done = 1;
	coll_request_t request;

	for (int i = 0; i < 9; i++)
		bad += coll_allreduce(&x[i], &x[i + 1], 1, COLL_FLOAT32, COLL_SUM, comm, NULL) != 0;
	is_int(bad, 0, "nine operations are taken");
	is_int(coll_get_request(comm, &request), 0, "a request for the last");
	is_int(coll_test(request, &done), 0, "is tested");
	is_int(done, 0, "and is under way: calls do not wait");
	is_int(coll_sync(comm), 0, "sync");
	is_int(coll_test(request, &done), 0, "tested again");
	is_int(done, 1, "it is complete");
	ok(x[9] == 42, "and all were done in order");
	is_int(coll_request_free(request), 0, "free");
}

static void test_missing(coll_comm_t comm)
{
	float x = 1;
	void *handle = NULL;

	is_int(coll_broadcast(&x, &x, 1, COLL_FLOAT32, 0, comm, NULL), COLL_ERR_UNSUPPORTED,
	       "neither a slot nor a transport: unsupported");
	ok(strstr(coll_get_last_error(NULL), "'native'") != NULL, "and the backend is named: %s",
	   coll_get_last_error(NULL));
	is_int(coll_barrier(comm), COLL_ERR_UNSUPPORTED, "so is barrier");
	is_int(coll_scan(&x, &x, 1, COLL_FLOAT32, COLL_SUM, comm, NULL), COLL_ERR_UNSUPPORTED,
	       "scan has no slot: unsupported");
	has_str(coll_get_last_error(NULL),
		"scan: backend 'native' has neither this operation nor a transport",
		"in these words");
	is_int(coll_exscan(&x, &x, 1, COLL_FLOAT32, COLL_SUM, comm, NULL), COLL_ERR_UNSUPPORTED,
	       "nor has exscan");
	is_int(coll_comm_native_handle(comm, &handle), 0, "the backend's own object");
	ok(handle != NULL, "is handed out");
	is_int(coll_allreduce(&x, &x, 1, COLL_FLOAT32, COLL_SUM, comm, NULL), 0,
	       "the communicator is none the worse");
	is_int(coll_sync(comm), 0, "sync");
}

static void test_refusal(coll_comm_t comm)
{
	double d = 1;
	coll_result_t error = 0;

	(void)!coll_allreduce(&d, &d, 1, COLL_FLOAT64, COLL_SUM, comm, NULL);
	is_int(coll_sync(comm), COLL_ERR_UNSUPPORTED, "a slot that refuses, and no transport");
	ok(strstr(coll_get_last_error(NULL), "native allreduce takes float32 only") != NULL,
	   "its words arrive unchanged: %s", coll_get_last_error(NULL));
	is_int(coll_comm_get_async_error(comm, &error), 0, "the asynchronous error");
	is_int(error, COLL_ERR_UNSUPPORTED, "is the same");
}

/*
 * The order in which the backend reduces is unknown, so in reproducible mode the library would have
 * to reduce.
 */
static void test_reproducible(void)
{
	coll_result_t code;
	coll_comm_t comm;
	float x = 1;

	setenv("COLL_REPRODUCIBLE", "yes", 1);
	comm = open_native(1, &code);
	unsetenv("COLL_REPRODUCIBLE");
	is_int(code, 0, "reproducible");
	is_int(coll_allreduce(&x, &x, 1, COLL_FLOAT32, COLL_SUM, comm, NULL), COLL_ERR_UNSUPPORTED,
	       "its reduction is not used");
	ok(strstr(coll_get_last_error(NULL), "'reproducible = yes'") &&
		   strstr(coll_get_last_error(NULL), "'native'"),
	   "and the reason given: %s", coll_get_last_error(NULL));
	is_int(coll_comm_destroy(comm), 0, "destroy");
}

/* The plugin's engine begins no operation of a group before group_end. */
static void test_group(coll_comm_t comm)
{
	float x[3] = {7, 0, 0};
	int bad = 0;

	bad += coll_group_start() != 0;
	for (int i = 0; i < 2; i++)
		bad += coll_allreduce(&x[i], &x[i + 1], 1, COLL_FLOAT32, COLL_SUM, comm, NULL) != 0;
	bad += coll_group_end() != 0;
	is_int(bad, 0, "a group is the backend's group too");
	ok(coll_sync(comm) == 0 && x[2] == 7, "and it ends: %s", coll_get_last_error(NULL));
}

static void test_scaled(coll_comm_t comm)
{
	float x = 5, three = 3;
	double d = 3;
	coll_op_t op;

	is_int(coll_red_op_create_pre_mul_sum(&op, &three, COLL_FLOAT32, COLL_SCALAR_HOST_IMMEDIATE,
					      comm),
	       0, "the backend makes an operation");
	ok(coll_allreduce(&x, &x, 1, COLL_FLOAT32, op, comm, NULL) == 0 && coll_sync(comm) == 0 &&
		   x == 15,
	   "and it is given its own number: %g", x);
	is_int(coll_red_op_destroy(op, comm), 0, "and destroys it");
	is_int(coll_red_op_create_pre_mul_sum(&op, &d, COLL_FLOAT64, COLL_SCALAR_HOST_IMMEDIATE,
					      comm),
	       COLL_ERR_UNSUPPORTED, "what it cannot make is refused");
	is_str(coll_get_last_error(NULL), "scales float32 only", "in its words");
}

static void test_event(coll_comm_t comm)
{
	float x = 5, y = 0;
	coll_event_t event;

	is_int(coll_event_create(comm, &event), 0, "an event without a transport");
	ok(coll_allreduce(&x, &y, 1, COLL_FLOAT32, COLL_SUM, comm, NULL) == 0 &&
		   coll_event_record(event, comm) == 0 &&
		   coll_event_query(event) == COLL_IN_PROGRESS,
	   "is not complete at once");
	ok(coll_event_synchronize(event) == 0 && y == 5, "but after the operation before it");
	is_int(coll_event_destroy(event), 0, "destroyed");
}

static void test_async_error(coll_comm_t comm)
{
	float x[13] = {0};

	(void)!coll_allreduce(x, x, 13, COLL_FLOAT32, COLL_SUM, comm, NULL);
	is_int(coll_sync(comm), COLL_ERR_DEVICE, "a failure of the engine while one waits");
	ok(strstr(coll_get_last_error(NULL), "the engine has failed") != NULL, "has its words: %s",
	   coll_get_last_error(NULL));
	is_int(coll_comm_destroy(comm), 0, "destroy");
}

int main(void)
{
	coll_result_t code;
	coll_comm_t comm;

	plugin_dir_begin();
	place("coll_native.so", "coll_native.so");
	setenv("COLL_PLUGIN_PATH", at(""), 1);
	comm = open_native(2, &code);
	is_int(code, COLL_ERR_UNSUPPORTED, "open refuses two ranks");
	ok(strstr(coll_get_last_error(NULL), "rank 0: made for one rank, not 2") != NULL,
	   "in its own words: %s", coll_get_last_error(NULL));
	comm = open_native(1, &code);
	is_int(code, 0, "and takes one");
	test_order(comm);
	test_missing(comm);
	test_group(comm);
	test_scaled(comm);
	test_event(comm);
	test_refusal(comm);
	is_int(coll_comm_destroy(comm), 0, "destroy");
	test_reproducible();
	comm = open_native(1, &code);
	test_async_error(comm);
	plugin_dir_end();
	return done_testing();
}
