/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * misuse_test.c - wrong arguments and calls in the wrong order: each gives the right code and a
 * message that names the argument, and the communicator still works afterwards.
 */
#include <malloc.h>
#include <string.h>
#include "../lib/ranks.h"

static coll_comm_t comms[2];

/* Did the call fail with `code`, and does the error text hold every word of the list? */
static void refused(coll_result_t got, coll_result_t code, const char *words, const char *what)
{
	const char *text = coll_get_last_error(NULL);
	char list[200], *word, *rest;
	int good = got == code;

	snprintf(list, sizeof(list), "%s", words);
	for (word = strtok_r(list, "|", &rest); word; word = strtok_r(NULL, "|", &rest))
		good = good && strstr(text, word) != NULL;
	if (!ok(good, "%s: %s", what, text))
		diag("code %d, expected %d with %s", got, code, words);
}

static void works(const char *after)
{
	int32_t x[2] = {1, 2};

	coll_group_start();
	for (int i = 0; i < 2; i++)
		coll_allreduce(&x[i], &x[i], 1, COLL_INT32, COLL_SUM, comms[i], NULL);
	coll_group_end();
	ok(coll_sync(comms[0]) == 0 && coll_sync(comms[1]) == 0 && x[0] == 3 && x[1] == 3,
	   "the communicator works after %s", after);
}

/* ------------------------------------------------------------ operations -- */

static void test_comm_argument(coll_comm_t bad, const char *what)
{
	const coll_result_t arg = COLL_ERR_INVALID_ARGUMENT;
	coll_request_t request;
	coll_event_t event;
	coll_comm_t out;
	const char *name;
	int32_t n, x = 0;

	diag("comm is %s", what);
	refused(coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, bad, NULL), arg, "comm",
		"allreduce");
	refused(coll_broadcast(&x, &x, 1, COLL_INT32, 0, bad, NULL), arg, "comm", "broadcast");
	refused(coll_send(&x, 1, COLL_INT32, 0, 0, bad, NULL), arg, "comm", "send");
	refused(coll_barrier(bad), arg, "comm", "barrier");
	refused(coll_sync(bad), arg, "comm", "sync");
	refused(coll_comm_count(bad, &n), arg, "comm", "count");
	refused(coll_comm_user_rank(bad, &n), arg, "comm", "user_rank");
	refused(coll_comm_backend(bad, &name), arg, "comm", "backend");
	refused(coll_comm_get_async_error(bad, &n), arg, "comm", "get_async_error");
	refused(coll_comm_abort(bad), arg, "comm", "abort");
	refused(coll_comm_split(bad, 0, 0, &out, NULL), arg, "comm", "split");
	refused(coll_get_request(bad, &request), arg, "comm", "get_request");
	refused(coll_event_create(bad, &event), arg, "comm", "event_create");
	refused(coll_comm_destroy(bad), arg, "comm", "destroy");
}

static void test_types(void)
{
	const coll_result_t arg = COLL_ERR_INVALID_ARGUMENT;
	coll_comm_t c = comms[0];
	float x[2] = {0, 0};
	coll_op_t op;

	refused(coll_allreduce(x, x, 1, 12, COLL_SUM, c, NULL), arg, "dtype|12", "dtype 12");
	refused(coll_allreduce(x, x, 1, -1, COLL_SUM, c, NULL), arg, "dtype|-1", "dtype -1");
	refused(coll_allgather(x, x, 0, 999, c, NULL), arg, "dtype|999", "dtype 999, count 0");
	refused(coll_allreduce(x, x, 1, COLL_FLOAT32, 5, c, NULL), arg, "op|5", "op 5");
	refused(coll_allreduce(x, x, 1, COLL_FLOAT32, -1, c, NULL), arg, "op|-1", "op -1");
	refused(coll_allreduce(x, x, 1, COLL_FLOAT32, COLL_BAND, c, NULL), arg, "op|float32",
		"bitwise and of floats");
	refused(coll_allreduce(x, x, 1, COLL_FLOAT32, COLL_LAND, c, NULL), arg, "op|land|float32",
		"logical and of floats");
	refused(coll_allreduce(x, x, 1, COLL_BOOL, COLL_AVG, c, NULL), arg, "op|avg|bool",
		"an average of bools");
	refused(coll_allreduce(x, x, 1, COLL_BOOL, COLL_BOR, c, NULL), arg, "op|bor|bool",
		"bitwise or of bools");
	refused(coll_allreduce(x, x, 0, COLL_COMPLEX64, COLL_MAX, c, NULL), arg,
		"op|max|complex64|no order", "the greatest of complex numbers");
	refused(coll_allreduce(x, x, 0, COLL_INT32_INT32, COLL_MIN, c, NULL), arg,
		"op|min|int32_int32|minloc", "the least of pairs");
	refused(coll_allreduce(x, x, 0, COLL_FLOAT32, COLL_MINLOC, c, NULL), arg,
		"op|minloc|float32", "the place of the least of numbers");
	refused(coll_red_op_create_pre_mul_sum(&op, x, COLL_BOOL, COLL_SCALAR_HOST_IMMEDIATE, c),
		arg, "bool has no pre-multiplied sum", "a pre-multiplied sum of bools");
	refused(coll_allreduce(x, x, 1, COLL_FLOAT32, 256, c, NULL), arg, "op|256",
		"an operation that was not made");
	refused(coll_allreduce(x, x, 1, COLL_FLOAT32, COLL_SUM, c, x), arg, "stream",
		"a stream where there are none");
}

static void test_ranks(void)
{
	const coll_result_t arg = COLL_ERR_INVALID_ARGUMENT;
	coll_comm_t c = comms[0];
	float x[2] = {0, 0};

	refused(coll_broadcast(x, x, 1, COLL_FLOAT32, 2, c, NULL), arg, "root|2", "root 2 of 2");
	refused(coll_broadcast(x, x, 1, COLL_FLOAT32, -1, c, NULL), arg, "root|-1", "root -1");
	refused(coll_reduce(x, x, 1, COLL_FLOAT32, COLL_SUM, 77, c, NULL), arg, "root|77",
		"root 77");
	refused(coll_send(x, 1, COLL_FLOAT32, 2, 0, c, NULL), arg, "peer|2", "send to rank 2");
	refused(coll_send(x, 1, COLL_FLOAT32, COLL_ANY_SOURCE, 0, c, NULL), arg, "peer|-1",
		"send to any source");
	refused(coll_recv(x, 1, COLL_FLOAT32, -2, 0, c, NULL), arg, "peer|-2", "recv from -2");
	refused(coll_recv(x, 1, COLL_FLOAT32, 2, 0, c, NULL), arg, "peer|2", "recv from 2");
}

static void test_buffers(void)
{
	const coll_result_t arg = COLL_ERR_INVALID_ARGUMENT;
	coll_comm_t c = comms[0];
	float x[8] = {0}, y[8] = {0};

	refused(coll_allreduce(NULL, y, 1, COLL_FLOAT32, COLL_SUM, c, NULL), arg, "sendbuf|NULL",
		"sendbuf NULL");
	refused(coll_allreduce(x, NULL, 1, COLL_FLOAT32, COLL_SUM, c, NULL), arg, "recvbuf|NULL",
		"recvbuf NULL");
	refused(coll_broadcast(NULL, y, 1, COLL_FLOAT32, 0, c, NULL), arg, "sendbuf|NULL",
		"broadcast from NULL on root");
	refused(coll_reduce(x, NULL, 1, COLL_FLOAT32, COLL_SUM, 0, c, NULL), arg, "recvbuf|NULL",
		"reduce to NULL on root");
	refused(coll_recv(NULL, 1, COLL_FLOAT32, 1, 0, c, NULL), arg, "recvbuf|NULL",
		"recv to NULL");
	refused(coll_send(NULL, 1, COLL_FLOAT32, 1, 0, c, NULL), arg, "sendbuf|NULL",
		"send from NULL");
	refused(coll_allreduce(x, x + 1, 4, COLL_FLOAT32, COLL_SUM, c, NULL), arg, "overlap",
		"overlapping buffers");
	refused(coll_allgather(x + 1, x, 2, COLL_FLOAT32, c, NULL), arg, "overlap",
		"allgather in place at the wrong offset");
	refused(coll_reduce_scatter(x, x + 2, 2, COLL_FLOAT32, COLL_SUM, c, NULL), arg, "overlap",
		"reduce_scatter in place at the wrong offset");
	refused(coll_allreduce(x, y, SIZE_MAX, COLL_FLOAT32, COLL_SUM, c, NULL), arg, "count",
		"a count that no memory holds");
	refused(coll_allgather(x, y, SIZE_MAX / 8, COLL_FLOAT32, c, NULL), arg, "count",
		"a count that no memory holds for all ranks");
}

/* Count 0 needs no buffers. */
static void test_nothing(void)
{
	int good = 1;

	coll_group_start();
	for (int i = 0; i < 2; i++)
		good = good &&
		       !coll_allreduce(NULL, NULL, 0, COLL_FLOAT32, COLL_SUM, comms[i], NULL);
	for (int i = 0; i < 2; i++)
		good = good && !coll_allgather(NULL, NULL, 0, COLL_FLOAT32, comms[i], NULL);
	coll_group_end();
	good = good && !coll_sync(comms[0]) && !coll_sync(comms[1]);
	ok(good, "count 0 with NULL buffers succeeds: %s", coll_get_last_error(NULL));
}

static void test_registrations(void)
{
	const coll_result_t arg = COLL_ERR_INVALID_ARGUMENT;
	static char buffer[8192];
	void *handle = buffer, *other = NULL;

	refused(coll_comm_register(comms[0], NULL, 8, &handle), arg, "buf|NULL|8",
		"registration of NULL");
	ok(handle == NULL, "without a handle");
	refused(coll_comm_register(comms[0], buffer, SIZE_MAX, &handle), arg, "bytes|large",
		"registration of all memory");
	refused(coll_comm_register(comms[0], (void *)sizeof(buffer), (size_t)PTRDIFF_MAX + 1,
				   &handle),
		arg, "bytes|large", "registration of more bytes than an object has");
	refused(coll_comm_register(comms[0], buffer, 8, NULL), arg, "NULL",
		"registration without a place for the handle");
	is_int(coll_comm_register(comms[0], buffer, 0, &handle), 0, "registration of no bytes");
	is_int(coll_comm_deregister(comms[0], handle), 0, "and its end");
	is_int(coll_comm_register(comms[0], buffer, sizeof(buffer), &handle), 0, "registration: %s",
	       coll_get_last_error(NULL));
	is_int(coll_comm_register(comms[0], buffer, sizeof(buffer), &other), 0,
	       "the same memory again");
	refused(coll_comm_deregister(comms[1], handle), arg, "another communicator",
		"deregister with the other communicator");
	is_int(coll_comm_deregister(comms[0], handle), 0, "deregister");
	refused(coll_comm_deregister(comms[0], handle), arg, "handle|destroyed",
		"deregister again");
	refused(coll_comm_deregister(comms[0], buffer), arg, "handle|never made",
		"deregister of an address");
	refused(coll_comm_deregister(comms[0], comms[0]), arg, "handle",
		"deregister of a communicator");
	ok(other != handle && other, "a second registration is left to the destroy");
}

static void test_request_fields(void)
{
	const size_t counts[2] = {1, 1}, same[2] = {0, 0};
	int32_t x[2] = {1, 2}, y[2] = {0, 0};
	coll_request_t request[2] = {NULL, NULL};
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_REDUCE_SCATTERV,
			    .dtype = COLL_INT32,
			    .root = 77,
			    .tag = 5,
			    .flags = 1,
			    .sendbuf = x,
			    .recvcounts = counts};

	refused(coll_request_init(comms[0], &args, &request[0]), COLL_ERR_INVALID_ARGUMENT,
		"flags|0x1", "flag 1");
	args.flags = 0xffffffff;
	refused(coll_request_init(comms[0], &args, &request[0]), COLL_ERR_INVALID_ARGUMENT,
		"flags|0xffffffff", "all flags");
	args.flags = 0;
	args.recvdispls = same;
	args.sendcounts = args.senddispls = same;
	args.scalar = x;
	coll_group_start();
	for (int i = 0; i < 2; i++) {
		args.recvbuf = &y[i];
		args.root = 77 + i;
		args.tag = (uint32_t)i;
		is_int(coll_request_init(comms[i], &args, &request[i]), 0,
		       "unused fields are ignored: %s", coll_get_last_error(NULL));
		coll_request_start(request[i]);
	}
	coll_group_end();
	ok(!coll_wait(request[0]) && !coll_wait(request[1]) && y[0] == 2 && y[1] == 4,
	   "and the operation is right: %s", coll_get_last_error(NULL));
	for (int i = 0; i < 2; i++)
		coll_request_free(request[i]);
}

/* Kinds of the library's own are no kinds of the program's, also when the library has just used one. */
static void test_own_kinds(void)
{
	coll_args_t args = {.size = sizeof(args)};
	coll_event_t event = NULL;
	coll_request_t request;

	is_int(coll_event_create(comms[0], &event), 0, "event_create");
	is_int(coll_event_record(event, comms[0]), 0, "record");
	is_int(coll_comm_wait_event(comms[1], event), 0, "wait_event");
	is_int(coll_sync(comms[1]), 0, "sync");
	for (args.kind = COLL_KIND_EXSCAN + 1; args.kind < COLL_KIND_EXSCAN + 5; args.kind++) {
		refused(coll_request_issue(comms[1], &args, &request), COLL_ERR_INVALID_ARGUMENT,
			"is not a kind of operation", "a kind of the library's own");
		ok(!request, "without a request");
	}
	is_int(coll_event_destroy(event), 0, "event_destroy");
}

static void test_schedules(void)
{
	coll_schedule_args_t args = {.size = sizeof(args), .nranks = 2, .count = 1, .elem = 4};
	coll_schedule_t schedule = NULL;

	for (int32_t in_place = 0; in_place <= 1; in_place++) {
		args.in_place = in_place;
		is_int(coll_schedule_create(&args, &schedule), 0, "a schedule, in_place %d",
		       in_place);
		coll_schedule_destroy(schedule);
	}
	args.in_place = 7;
	refused(coll_schedule_create(&args, &schedule), COLL_ERR_INVALID_ARGUMENT,
		"in_place|0 or 1", "a schedule, in_place 7");
	args.in_place = -1;
	refused(coll_schedule_create(&args, &schedule), COLL_ERR_INVALID_ARGUMENT,
		"in_place|0 or 1", "a schedule, in_place -1");
	args.in_place = 0;
	args.count = PTRDIFF_MAX / args.elem;
	refused(coll_schedule_create(&args, &schedule), COLL_ERR_INVALID_ARGUMENT,
		"does not fit into memory", "a schedule, count fits for one rank, not for two");
}

/* A layout that the algorithm rules out: all ranks on one node. */
static void test_schedule_nodes(void)
{
	enum { TIMES = 100, RANKS = 4096, SLACK = 1 << 20 };
	static const int32_t nodes[RANKS];
	coll_algorithm_info_t info = {.size = sizeof(info)};
	coll_schedule_args_t args = {
		.size = sizeof(args), .nranks = RANKS, .count = 1, .elem = 4, .nodes = nodes};
	coll_schedule_t schedule = NULL;
	size_t before, after;

	while (!coll_algorithm(args.algorithm, &info) && !(info.flags & COLL_ALGORITHM_NODES))
		args.algorithm++;
	refused(coll_schedule_create(&args, &schedule), COLL_ERR_INVALID_ARGUMENT,
		"not for so many ranks and nodes", "a schedule for nodes, all ranks on one");
	before = mallinfo2().uordblks;
	for (int i = 0; i < TIMES; i++) {
		coll_schedule_create(&args, &schedule);
		coll_schedule_cost(&args, NULL, NULL);
	}
	after = mallinfo2().uordblks;
	ok(after < before + SLACK, "refused schedules keep no memory: %zu bytes, then %zu", before,
	   after);
}

/* Does rank `rank` of a v-form with root 0 need sendcounts (0), senddispls (1), recvcounts (2) or recvdispls (3)? */
static int schedule_needs(int32_t kind, int rank, int array)
{
	switch (kind) {
	case COLL_KIND_ALLTOALLV: return 1;
	case COLL_KIND_SCATTERV: return rank == 0 && array < 2;
	case COLL_KIND_GATHERV: return rank == 0 && array >= 2;
	case COLL_KIND_ALLGATHERV: return array >= 2;
	case COLL_KIND_REDUCE_SCATTERV: return array == 2;
	default: return -1;
	}
}

/* The part of each rank with one array at a time missing. */
static void schedule_without(int32_t algorithm, const coll_algorithm_info_t *info, int rank)
{
	static const size_t counts[4] = {1, 1, 1, 1}, displs[2] = {0, 1};
	int good = 1;

	for (int array = 0; array < 4; array++) {
		coll_schedule_args_t args = {.size = sizeof(args),
					     .algorithm = algorithm,
					     .nranks = 2,
					     .rank = rank,
					     .count = 1,
					     .elem = 4,
					     .sendcounts = array == 0 ? NULL : counts,
					     .senddispls = array == 1 ? NULL : displs,
					     .recvcounts = array == 2 ? NULL : counts,
					     .recvdispls = array == 3 ? NULL : displs};
		const int needed = schedule_needs(info->kind, rank, array);
		const coll_result_t want = needed ? COLL_ERR_INVALID_ARGUMENT : COLL_SUCCESS;
		coll_schedule_t schedule = NULL;

		good = good && coll_schedule_create(&args, &schedule) == want &&
		       (!needed || coll_schedule_cost(&args, NULL, NULL) == want);
		coll_schedule_destroy(schedule);
	}
	ok(good, "a schedule of %s %s: rank %d of 2 needs its arrays and no others",
	   coll_kind_name(info->kind), info->name, rank);
}

static void test_schedule_arrays(void)
{
	coll_algorithm_info_t info = {.size = sizeof(info)};

	for (int32_t i = 0; !coll_algorithm(i, &info); i++)
		for (int rank = 0; rank < 2 && schedule_needs(info.kind, 0, 0) >= 0; rank++)
			schedule_without(i, &info, rank);
}

static void test_answers(void)
{
	const coll_result_t arg = COLL_ERR_INVALID_ARGUMENT;
	coll_args_t args = {.size = sizeof(args), .kind = 99};
	coll_request_t request = NULL;

	refused(coll_comm_count(comms[0], NULL), arg, "NULL", "count to NULL");
	refused(coll_comm_user_rank(comms[0], NULL), arg, "NULL", "user_rank to NULL");
	refused(coll_comm_get_async_error(comms[0], NULL), arg, "error|NULL",
		"async_error to NULL");
	refused(coll_request_init(comms[0], NULL, &request), arg, "args|NULL", "request of NULL");
	refused(coll_request_start(NULL), arg, "request|NULL", "start of NULL");
	refused(coll_wait(NULL), arg, "request|NULL", "wait for NULL");
	refused(coll_event_query(NULL), arg, "event|NULL", "query of NULL");
	refused(coll_event_record(NULL, comms[0]), arg, "event|NULL", "record NULL");
	ok(coll_request_init(comms[0], &args, &request) != 0, "a request of an unknown kind: %s",
	   coll_get_last_error(NULL));
	refused(coll_group_end(), COLL_ERR_INVALID_USAGE, "coll_group_start",
		"group_end without start");
}

/* -------------------------------------------------------------------- making -- */

static void test_init(void)
{
	const coll_result_t arg = COLL_ERR_INVALID_ARGUMENT;
	static const char *const ids[] = {"",
					  "x",
					  "coll2:",
					  "coll2:0123",
					  "coll2:AAECAwQFBgcICQoLDA0ODx+Q",
					  "coll2:AAECAwQFBgcICQoLDA0ODx-QAg ",
					  "coll1:AAECAwQFBgcICQoLDA0ODx-QAg"};
	char id[COLL_UNIQUE_ID_SIZE], endless[COLL_UNIQUE_ID_SIZE];
	coll_comm_t c = (coll_comm_t)(uintptr_t)1;

	ok(coll_get_unique_id(id, sizeof(id)) == 0, "a unique id: %s", coll_get_last_error(NULL));
	refused(coll_get_unique_id(NULL, 100), arg, "id|NULL", "unique id to NULL");
	refused(coll_get_unique_id(endless, 10), arg, "COLL_UNIQUE_ID_SIZE", "room for 10 bytes");
	refused(coll_comm_init_rank(&c, 0, id, 0, NULL), arg, "nranks|0", "nranks 0");
	ok(c == NULL, "the handle is NULL after an error");
	refused(coll_comm_init_rank(&c, -5, id, 0, NULL), arg, "nranks|-5", "nranks -5");
	refused(coll_comm_init_rank(&c, 2, id, 2, NULL), arg, "rank|2", "rank 2 of 2");
	refused(coll_comm_init_rank(&c, 2, id, -1, NULL), arg, "rank|-1", "rank -1");
	refused(coll_comm_init_rank(NULL, 2, id, 0, NULL), arg, "comm|NULL", "comm NULL");
	refused(coll_comm_init_rank(&c, 2, NULL, 0, NULL), arg, "id|NULL", "id NULL");
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++)
		refused(coll_comm_init_rank(&c, 2, ids[i], 1, NULL), arg, "unique id", ids[i]);
	memset(endless, 'x', sizeof(endless));
	refused(coll_comm_init_rank(&c, 2, endless, 1, NULL), arg, "unique id", "an endless id");
	refused(coll_comm_init_all(NULL, 2, NULL, NULL), arg, "comm|NULL", "init_all to NULL");
	refused(coll_comm_init_all(&c, 0, NULL, NULL), arg, "nranks|0", "init_all of 0 ranks");
	refused(coll_comm_init_exchange(&c, 2, 0, NULL, NULL, NULL), arg, "exchange|NULL",
		"no exchange");
}

static int32_t failing_exchange(void *user, const void *in, void *out, size_t len,
				int64_t timeout_ms)
{
	(void)user, (void)in, (void)out, (void)len, (void)timeout_ms;
	return 17;
}

static void test_config(void)
{
	static const char *const bad[] = {"no_such_key=1", NULL},
				 *const worse[] = {"timeout", NULL},
				 *const value[] = {"timeout=soon", NULL};
	coll_config_t config;
	coll_comm_t c;

	refused(coll_config_init(NULL, sizeof(config)), COLL_ERR_INVALID_ARGUMENT, "NULL",
		"config_init of NULL");
	ok(coll_config_init(&config, sizeof(config)) == 0 && config.size == sizeof(config),
	   "config_init sets the size");
	config.options = bad;
	refused(coll_comm_init_all(&c, 1, NULL, &config), COLL_ERR_CONFIG, "no_such_key",
		"an unknown option");
	config.options = worse;
	refused(coll_comm_init_all(&c, 1, NULL, &config), COLL_ERR_CONFIG, "timeout",
		"an option without value");
	config.options = value;
	refused(coll_comm_init_all(&c, 1, NULL, &config), COLL_ERR_CONFIG, "timeout|soon",
		"an option with a bad value");
	coll_config_init(&config, sizeof(config));
	config.backend = "nosuch";
	refused(coll_comm_init_all(&c, 1, NULL, &config), COLL_ERR_NOT_FOUND, "nosuch|tcp",
		"a backend that is not there");
	coll_config_init(&config, sizeof(config));
	config.size = 0;
	refused(coll_comm_init_all(&c, 1, NULL, &config), COLL_ERR_INVALID_ARGUMENT, "size",
		"a config without size");
	ok(coll_comm_init_exchange(&c, 2, 0, failing_exchange, NULL, NULL) != 0 && !c,
	   "an exchange that fails: %s", coll_get_last_error(NULL));
}

static void test_environment(void)
{
	coll_comm_t c;

	setenv("COLL_RANK", "0", 1);
	refused(coll_comm_init_env(&c, NULL), COLL_ERR_CONFIG, "COLL_WORLD_SIZE",
		"COLL_RANK without COLL_WORLD_SIZE");
	setenv("COLL_WORLD_SIZE", "two", 1);
	refused(coll_comm_init_env(&c, NULL), COLL_ERR_CONFIG, "COLL_WORLD_SIZE|two",
		"COLL_WORLD_SIZE=two");
	setenv("COLL_WORLD_SIZE", "2", 1);
	refused(coll_comm_init_env(&c, NULL), COLL_ERR_CONFIG, "COLL_ROOT", "no COLL_ROOT");
	setenv("COLL_ROOT", "127.0.0.1", 1);
	ok(coll_comm_init_env(&c, NULL) != 0, "COLL_ROOT without port: %s",
	   coll_get_last_error(NULL));
	setenv("COLL_ROOT", "127.0.0.1:1234", 1);
	setenv("COLL_RANK", "7", 1);
	refused(coll_comm_init_env(&c, NULL), COLL_ERR_CONFIG, "COLL_RANK|7", "COLL_RANK=7 of 2");
	unsetenv("COLL_RANK");
	unsetenv("COLL_WORLD_SIZE");
	unsetenv("COLL_ROOT");
	ok(coll_comm_init_env(&c, NULL) == 0 && coll_comm_destroy(c) == 0,
	   "without any of them there is one rank: %s", coll_get_last_error(NULL));
}

/* The v-forms: counts and displacements. */
static void test_arrays(void)
{
	float x[8] = {0}, y[8] = {0};
	size_t counts[2] = {2, 2}, over[2] = {0, 1}, huge[2] = {SIZE_MAX, 1};
	size_t around[2] = {2, SIZE_MAX - 1}, far[2] = {0, SIZE_MAX - 1}; /* the end is 0 */
	size_t apart[2] = {0, 2}, fewer[2] = {2, 1};

	refused(coll_allgatherv(x, 2, y, NULL, NULL, COLL_FLOAT32, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "recvcounts is NULL", "no counts");
	refused(coll_allgatherv(x, 3, y, counts, NULL, COLL_FLOAT32, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "is 3 elements by sendcount|2 by recvcounts[0]",
		"own count differs");
	refused(coll_allgatherv(x, 2, y, counts, over, COLL_FLOAT32, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "ranks 0 and 1 overlap", "blocks overlap");
	refused(coll_reduce_scatterv(x, y, huge, COLL_FLOAT32, COLL_SUM, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "does not fit into memory", "counts too large");
	refused(coll_reduce_scatterv(x, y, around, COLL_FLOAT32, COLL_SUM, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "does not fit into memory", "counts that wrap around");
	refused(coll_allgatherv(x, 2, y, counts, far, COLL_FLOAT32, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "does not fit into memory",
		"a displacement with which they wrap around");
	refused(coll_alltoallv(x, counts, NULL, x, counts, over, COLL_FLOAT32, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "overlap", "alltoallv not quite in place");
	refused(coll_alltoallv(x, counts, apart, x, fewer, apart, COLL_FLOAT32, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "overlap", "alltoallv whose blocks shrink in place");
	refused(coll_alltoallv(x, counts, NULL, y, over, NULL, COLL_FLOAT32, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "is 2 elements by sendcounts|0 by recvcounts[0]",
		"own part of alltoallv");
	refused(coll_scatterv(x, counts, NULL, y, 1, COLL_FLOAT32, 0, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "is 1 elements by recvcount|2 by sendcounts[0]",
		"own part of scatterv");
	refused(coll_scatterv(x, NULL, NULL, y, 2, COLL_FLOAT32, 0, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "sendcounts is NULL", "root without counts");
}

/* A block of no elements lies nowhere: its displacement makes the buffers no longer. */
static void test_empty_blocks(void)
{
	const size_t none[2] = {0, 0}, away[2] = {5, 5};
	int taken = 0;

	coll_group_start();
	for (int r = 0; r < 2; r++)
		taken += !coll_alltoallv(NULL, none, away, NULL, none, away, COLL_INT32, comms[r],
					 NULL);
	ok(taken == 2, "no elements, no buffers, and displacements: %s",
	   taken == 2 ? "" : coll_get_last_error(NULL));
	coll_group_end();
	ok(!coll_sync(comms[0]) && !coll_sync(comms[1]), "which moves nothing");
}

/* Operations created at run time. */
static void test_own_operations(void)
{
	float x[4] = {0}, y[4] = {0}, two = 2;
	coll_op_t op = 0;

	refused(coll_red_op_create_pre_mul_sum(&op, NULL, COLL_FLOAT32, COLL_SCALAR_HOST_IMMEDIATE,
					       comms[0]),
		COLL_ERR_INVALID_ARGUMENT, "scalar is NULL", "no scalar");
	refused(coll_red_op_create_user(&op, NULL, NULL, 1, comms[0]), COLL_ERR_INVALID_ARGUMENT,
		"fn is NULL", "no function");
	refused(coll_allreduce(x, y, 4, COLL_FLOAT32, 256, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "op 256 was not made", "an operation never made");
	is_int(coll_red_op_create_pre_mul_sum(&op, &two, COLL_FLOAT32, COLL_SCALAR_HOST_IMMEDIATE,
					      comms[0]),
	       COLL_SUCCESS, "an operation is made");
	refused(coll_allreduce(x, y, 4, COLL_FLOAT64, op, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "was made for float32", "for another type");
	is_int(coll_red_op_destroy(op, comms[0]), COLL_SUCCESS, "and destroyed");
	refused(coll_red_op_destroy(op, comms[0]), COLL_ERR_INVALID_ARGUMENT, "is destroyed",
		"once only");
	refused(coll_allreduce(x, y, 4, COLL_FLOAT32, op, comms[0], NULL),
		COLL_ERR_INVALID_ARGUMENT, "is destroyed", "and is of no use then");
}

static void test_shrink(void)
{
	const int32_t self[] = {0}, nobody[] = {7};
	coll_comm_t c;

	refused(coll_comm_shrink(comms[0], self, 1, &c, NULL, 0), COLL_ERR_INVALID_ARGUMENT,
		"excludes itself", "a rank without itself");
	refused(coll_comm_shrink(comms[0], nobody, 1, &c, NULL, 0), COLL_ERR_INVALID_ARGUMENT,
		"exclude[0] is 7", "without a rank that does not exist");
}

static void test_names(void)
{
	is_str(coll_dtype_name(COLL_BFLOAT16), "bfloat16", "the name of a type");
	is_str(coll_dtype_name(77), "?", "the name of no type");
	is_str(coll_op_name(-3), "?", "the name of no operation");
	is_int((int64_t)coll_dtype_size(77), 0, "the size of no type");
	ok(coll_error_string(12345) != NULL && coll_error_string(COLL_SUCCESS) != NULL,
	   "every code has a sentence");
	ok(coll_version_number() >= 100 && coll_version_string()[0], "version %s",
	   coll_version_string());
}

static void test_backend(const char *backend)
{
	coll_config_t config;
	coll_comm_t gone;

	ranks_config(&config, backend);
	if (coll_comm_init_all(comms, 2, NULL, &config))
		bail_out("%s: %s", backend, coll_get_last_error(NULL));
	diag("backend %s", backend);
	test_types();
	works("wrong types");
	test_ranks();
	works("wrong ranks");
	test_buffers();
	works("wrong buffers");
	test_nothing();
	test_registrations();
	test_request_fields();
	test_own_kinds();
	test_answers();
	test_arrays();
	test_empty_blocks();
	test_own_operations();
	test_shrink();
	works("all of them");
	gone = comms[1];
	ok(coll_comm_destroy(comms[0]) == 0 && coll_comm_destroy(comms[1]) == 0, "destroy");
	test_comm_argument(gone, "destroyed");
}

int main(void)
{
	test_schedules();
	test_schedule_nodes();
	test_schedule_arrays();
	test_comm_argument(NULL, "NULL");
	test_comm_argument((coll_comm_t)(uintptr_t)12345, "no handle at all");
	test_backend("simulated");
	test_backend("tcp");
	if (ranks_can("ucx"))
		test_backend("ucx");
	test_init();
	test_config();
	test_environment();
	test_names();
	return done_testing();
}
