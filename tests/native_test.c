/* SPDX-License-Identifier: BSD-3-Clause */
/* native_test.c - a backend with native collectives and no transport: order, completion, errors. */
#include "plugin_dir.h"

static coll_comm_t open_native(int nranks, coll_result_t *code)
{
	coll_comm_t comms[2] = {NULL, NULL};

	*code = coll_comm_init_all(comms, nranks, NULL, NULL);
	return comms[0];
}

/* Each operation takes what the one before it made: only in order does the first value arrive. */
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
	test_refusal(comm);
	is_int(coll_comm_destroy(comm), 0, "destroy");
	plugin_dir_end();
	return done_testing();
}
