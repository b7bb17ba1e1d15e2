/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * direct_test.c - backends that take device memory: a transport whose messages name the kind of
 * their memory, and native collectives.
 */
#include "../lib/device_harness.h"

#define NATIVE_TAKES_NONE                                                                          \
	"allreduce: sendbuf is CUDA memory of device 0, which backend 'native' does not take: "    \
	"choose another backend with COLL_BACKEND, or pass other memory"

/* r->user: the end of the sentence, which with a companion names host memory. */
static void refused_by_native(struct rank *r)
{
	char *there = device_new(0, BYTES, 0);

	refused(r, coll_allreduce(there, there, 4, COLL_INT64, COLL_SUM, r->comm, NULL), r->user);
	device_free(0, there);
}

/* The companion does what a backend without a transport does not reach. */
static void by_companion(struct rank *r)
{
	int64_t x[2] = {7, 0}, *there = device_new(0, sizeof(x), 0);

	device_move(0, there, x, sizeof(x));
	if (rank_did(r, coll_allreduce(there, there + 1, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		     "allreduce") &&
	    rank_did(r, coll_sync(r->comm), "sync")) {
		device_move(0, x, there, sizeof(x));
		if (x[1] != 7)
			rank_fail(r, "%lld", (long long)x[1]);
	}
	device_free(0, there);
}

/* Each call reads the result of the one before; the backend, which has no streams, works when it is asked. */
static void in_order_with_companion(struct rank *r)
{
	float x[6] = {3, 0, 0, 0, 0, 0}, *there = device_new(0, sizeof(x), 0);
	const struct {
		float *from, *to;
		const char *what;
	} calls[] = {{x, x + 1, "native"},           {x + 1, there, "staged"},
		     {there, x + 2, "staged again"}, {x + 2, x + 3, "native again"},
		     {x + 3, x + 4, "and again"},    {x + 4, there, "staged at last"}};

	device_move(0, there, x + 5, sizeof(*there));
	for (int round = 0; round < 3; round++, x[0]++) {
		for (int i = 0; i < 6; i++)
			rank_did(r,
				 coll_allreduce(calls[i].from, calls[i].to, 1, COLL_FLOAT32,
						COLL_SUM, r->comm, NULL),
				 calls[i].what);
		rank_did(r, coll_sync(r->comm), "sync");
		device_move(0, x + 5, there, sizeof(*there));
		for (int i = 1; i < 6; i++)
			if (x[i] != x[0])
				rank_fail(r, "round %d: number %d is %g", round, i, (double)x[i]);
	}
	device_free(0, there);
}

/* The backend lacks scans, so an event is behind a call of the companion's, and the backend's next call waits for it. */
static void events_with_companion(struct rank *r)
{
	float sent = 7, got = 0, sum = 0;
	coll_event_t event;

	if (!rank_did(r, coll_event_create(r->comm, &event), "create"))
		return;
	rank_did(r, coll_group_start(), "group");
	rank_did(r, coll_scan(&sent, &got, 1, COLL_FLOAT32, COLL_SUM, r->comm, NULL), "scan");
	rank_did(r, coll_event_record(event, r->comm), "record");
	if (coll_event_query(event) != COLL_IN_PROGRESS)
		rank_fail(r, "the event is complete before its group has ended");
	rank_did(r, coll_comm_wait_event(r->comm, event), "wait");
	rank_did(r, coll_allreduce(&got, &sum, 1, COLL_FLOAT32, COLL_SUM, r->comm, NULL), "sum");
	rank_did(r, coll_group_end(), "the end of the group");
	rank_did(r, coll_event_synchronize(event), "synchronize");
	if (got != 7)
		rank_fail(r, "the event is complete, but the scan has put %g", (double)got);
	rank_did(r, coll_sync(r->comm), "sync");
	if (sum != 7)
		rank_fail(r, "the sum is %g", (double)sum);
	rank_did(r, coll_event_destroy(event), "destroy");
}

/* Native collectives get device pointers unchanged. */
static void on_device(struct rank *r)
{
	float x[4] = {1, 2, 3, 4}, *there = device_new(0, BYTES, 0);
	int either = !strcmp(r->user, "either");

	device_move(0, there, x, sizeof(x));
	if (rank_did(r, coll_allreduce(there, there + 4, 4, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
		     "allreduce") &&
	    rank_did(r, coll_barrier(r->comm), "barrier")) {
		device_move(0, x, there + 4, sizeof(x));
		if (x[3] != 4)
			rank_fail(r, "%g", (double)x[3]);
	}
	if (!either)
		refused(r, coll_allreduce(there, x, 4, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
			"allreduce: recvbuf is host memory, which backend 'ondevice' does not "
			"take: "
			"choose another backend with COLL_BACKEND, or pass other memory; with a "
			"companion "
			"(option companion) the ranks would have calls on host memory");
	device_free(0, there);
}

/*
 * Operations that the native group lacks go over the transport by host memory, or the transport
 * refuses them.
 */
static void declined(struct rank *r)
{
	double x[4] = {1, 2, 3, 4}, *there = device_new(0, BYTES, 0);
	int code;

	device_move(0, there, x, sizeof(x));
	code = coll_allreduce(there, there + 4, 4, COLL_FLOAT64, COLL_SUM, r->comm, NULL);
	if (!code)
		code = coll_sync(r->comm);
	device_move(0, x, there + 4, sizeof(x));
	if (r->user && (code || x[3] != 4))
		rank_fail(r, "%d (%s), %g", code, coll_get_last_error(NULL), x[3]);
	if (!r->user && (code != COLL_ERR_UNSUPPORTED ||
			 !strstr(coll_get_last_error(NULL),
				 "sendbuf is CUDA memory of device 0, but reductions over backend "
				 "'either' work in host memory only" OPT_IN)))
		rank_fail(r, "%d (%s)", code, coll_get_last_error(NULL));
	device_free(0, there);
}

/* Without a transport the native group registers memory; its failure tells kind and number. */
static void registers_native(struct rank *r)
{
	char *there = device_new(0, BYTES, 0), here[8];
	void *handle[4] = {NULL, NULL, NULL, here};

	if (rank_did(r, coll_comm_register(r->comm, there, 8, &handle[0]), "register") &&
	    rank_did(r, coll_comm_register(r->comm, there, 9, &handle[1]), "register") &&
	    rank_did(r, coll_comm_deregister(r->comm, handle[1]), "deregister") &&
	    rank_did(r, coll_comm_register(r->comm, there, 9, &handle[2]), "register again") &&
	    rank_did(r, coll_comm_register(r->comm, here, 8, &handle[3]),
		     "what it does not take") &&
	    rank_did(r, coll_comm_deregister(r->comm, handle[3]), "what was not registered") &&
	    coll_comm_deregister(r->comm, handle[1]) != COLL_ERR_INVALID_ARGUMENT)
		rank_fail(r, "a registration ended twice");
	if (coll_comm_register(r->comm, there, 13, &handle[3]) != COLL_ERR_DEVICE ||
	    strcmp(coll_get_last_error(NULL),
		   "13 bytes of memory of kind 2 cannot be registered beside 2 pieces"))
		rank_fail(r, "a failure: %s", coll_get_last_error(NULL));
	device_free(0, there);
}

/* With a transport the transport registers memory, and this transport has nothing to register. */
static void registers_nothing(struct rank *r)
{
	char here[8];
	void *handle = here;

	if (rank_did(r, coll_comm_register(r->comm, here, 8, &handle), "register") &&
	    rank_did(r, coll_comm_deregister(r->comm, handle), "deregister") &&
	    coll_comm_deregister(r->comm, handle) != COLL_ERR_INVALID_ARGUMENT)
		rank_fail(r, "a registration ended twice");
}

static void test_native(void)
{
	setenv("COLL_COMPANION", "none", 1);
	ranks_ok(&(struct ranks_job){"ondevice", 1, 0, on_device, "ondevice"}, "on the device");
	unsetenv("COLL_COMPANION");
	ranks_ok(&(struct ranks_job){"either", 1, 0, on_device, "either"}, "on the device");
	ranks_ok(&(struct ranks_job){"ondevice", 1, 0, registers_native, NULL},
		 "registered by the engine");
	ranks_ok(&(struct ranks_job){"either", 1, 0, registers_nothing, NULL}, "or not at all");
	ranks_ok(&(struct ranks_job){"either", 1, 0, declined, NULL}, "declined and refused");
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
	ranks_ok(&(struct ranks_job){"native", 1, 0, by_companion, NULL}, "by the companion");
	ranks_ok(&(struct ranks_job){"native", 1, 0, in_order_with_companion, NULL},
		 "in the order of issue");
	ranks_ok(&(struct ranks_job){"native", 1, 0, events_with_companion, NULL},
		 "in the order of events");
	setenv("COLL_COMPANION", "none", 1);
	ranks_ok(&(struct ranks_job){"native", 1, 0, refused_by_native, NATIVE_TAKES_NONE},
		 "refused");
	unsetenv("COLL_COMPANION");
	log_begin();
	ranks_ok(&(struct ranks_job){"either", 1, 0, declined, ""}, "declined and staged");
	log_end();
	is_int(log_lines("which is slow"), 1, "with a warning");
	unsetenv("COLL_ENABLE_GPU_FALLBACK");
}

/* ----------------------------------------------------------------- on which device -- */

static int32_t exchange_alone(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	(void)user;
	(void)timeout_ms;
	memcpy(out, in, len);
	return 0;
}

/*
 * Returns the device of a communicator made with `device`, then of its duplicate; -2 after a
 * failure.
 */
static void device_of(const char *backend, int device, int32_t found[2])
{
	coll_comm_t comm, twin = NULL;
	coll_config_t config;

	found[0] = found[1] = -2;
	ranks_config(&config, backend);
	config.device = device;
	if (coll_comm_init_exchange(&comm, 1, 0, exchange_alone, NULL, &config))
		bail_out("%s", coll_get_last_error(NULL));
	(void)!coll_comm_device(comm, &found[0]);
	if (!coll_comm_dup(comm, &twin))
		(void)!coll_comm_device(twin, &found[1]);
	(void)!coll_comm_destroy(comm);
	if (twin)
		(void)!coll_comm_destroy(twin);
}

static void test_which(void)
{
	int32_t found[2];

	device_of("ondevice", -1, found);
	is_int(found[0], 1, "the current device: the backend says which");
	is_int(found[1], 1, "and what is made from it is there too");
	device_of("ondevice", 0, found);
	ok(found[0] == 0 && found[1] == 0, "a named one: %d, %d", found[0], found[1]);
	device_of("device", -1, found);
	is_int(found[0], -1, "a backend that cannot tell");
	device_of("native", 1, found);
	is_int(found[0], -1, "and one without devices");
}

/* ------------------------------------------------- a transport that takes device memory -- */

static void reductions(struct rank *r)
{
	char *there = device_new(1, BYTES, 0), *managed = device_new(1, BYTES, 1);

	refused(r, coll_allreduce(there, there, 4, COLL_INT64, COLL_SUM, r->comm, NULL),
		"allreduce: sendbuf is CUDA memory of device 1, but reductions over backend "
		"'device' work in host memory only" OPT_IN);
	refused(r, coll_broadcast(managed, managed, 4, COLL_INT64, r->rank, r->comm, NULL),
		"broadcast: sendbuf is CUDA managed memory of device 1, which backend 'device' "
		"does not take" OPT_IN);
	device_free(1, there);
	device_free(1, managed);
}

static void registers(struct rank *r)
{
	char *there = device_new(1, BYTES, 0), here[8];
	void *handle[2] = {NULL, NULL};

	/*
	 * The transport refuses memory that is not of the kind that the core passes.
	 */
	if (rank_did(r, coll_comm_register(r->comm, here, 8, &handle[0]), "register") &&
	    rank_did(r, coll_comm_register(r->comm, there, 8, &handle[1]), "register") &&
	    (!handle[0] || !handle[1] || handle[0] == handle[1]))
		rank_fail(r, "registered as %p and %p", handle[0], handle[1]);
	rank_did(r, coll_comm_deregister(r->comm, handle[0]), "deregister");
	rank_did(r, coll_comm_deregister(r->comm, handle[1]), "deregister");
	device_free(1, there);
}

static void test_direct(void)
{
	struct plan moves = {ON_DEVICE, 0, 1, 1}, all = {ON_DEVICE, 1, 0, 0};
	unsigned long copies;

	for (int by_data = 0; by_data < 2; by_data++) {
		setenv("COLL_DEVICE_BY_DATA", by_data ? "yes" : "no", 1);
		for (moves.where = 0; moves.where < MANAGED; moves.where++)
			for (int n = 1; n <= NRANKS; n++)
				ranks_ok(&(struct ranks_job){"device", n, 0, every_call, &moves},
					 "straight%s, %s", by_data ? ", in pieces" : "",
					 where_names[moves.where]);
	}
	unsetenv("COLL_DEVICE_BY_DATA");
	setenv("COLL_DEVICE_TAKES", "all", 1);
	ranks_ok(&(struct ranks_job){"device", 2, 0, reductions, NULL},
		 "reductions are refused, and more than the table says");
	unsetenv("COLL_DEVICE_TAKES");
	ranks_ok(&(struct ranks_job){"device", 1, 0, registers, NULL}, "registered as what it is");
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
	copies = standin_copies();
	log_begin();
	ranks_ok(&(struct ranks_job){"device", 3, 0, every_call, &all}, "reductions staged");
	log_end();
	ok(standin_copies() > copies && log_lines("which is slow") > 0, "with copies and warnings");
	unsetenv("COLL_ENABLE_GPU_FALLBACK");
}

/* -------------------------------------------------------------- mixed ranks, rules -- */

static void mixed(struct rank *r)
{
	for (int k = 0; k < ORACLE_KINDS; k++)
		for (int where = 0; where < MANAGED && !oracle_reduces(oracle_kinds[k]); where++)
			try_call(r, oracle_kinds[k], 0, where);
}

static void disagree(struct rank *r)
{
	char *there = device_new(0, BYTES, 0), *here = calloc(1, BYTES);
	char *buf = r->rank ? here : there;
	int code = coll_allgather(buf, buf + 1024, 16, COLL_INT8, r->comm, NULL);
	const char *text;

	if (!code)
		code = coll_sync(r->comm);
	text = coll_get_last_error(NULL);
	if ((code != COLL_ERR_MISMATCH && code != COLL_ERR_REMOTE) ||
	    !strstr(text, "by algorithm ") || !strstr(text, "bruck") || !strstr(text, "by "))
		rank_fail(r, "%d (%s)", code, text);
	device_free(0, there);
	free(here);
}

static void agree(struct rank *r)
{
	try_call(r, COLL_KIND_ALLGATHER, 0, ON_DEVICE);
}

static void test_rules(void)
{
	ranks_ok(&(struct ranks_job){"device", 3, 0, mixed, NULL}, "one buffer here, one there");
	setenv("COLL_ALLGATHER_ALGORITHM", "bruck memory cuda, ring", 1);
	ranks_ok(&(struct ranks_job){"device", 3, 0, agree, NULL}, "a rule for CUDA memory");
	ranks_ok(&(struct ranks_job){"device", 2, 0, disagree, NULL},
		 "ranks that choose differently are told");
	unsetenv("COLL_ALLGATHER_ALGORITHM");
}

int main(void)
{
	device_begin();
	device_init();
	test_native();
	test_which();
	test_direct();
	test_rules();
	device_end();
	return done_testing();
}
