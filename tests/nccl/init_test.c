/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * init_test.c - making communicators over NCCL: by id, by the application's own exchange, from the
 * environment, all ranks of a process at once; with ranks as threads or processes; on which device;
 * and derived communicators.
 */
#include "harness.h"

#include <sys/wait.h>

static void init_works(struct rank *r)
{
	const char *name = "";
	int32_t device = -1;

	rank_did(r, coll_comm_backend(r->comm, &name), "backend");
	rank_did(r, coll_comm_device(r->comm, &device), "device");
	if (strcmp(name, "nccl") || device != r->rank)
		rank_fail(r, "backend %s, device %d", name, device);
	nccl_works(r);
	rank_did(r, coll_barrier(r->comm), "barrier");
}

/* Tests with processes come first, because a process that uses CUDA must not fork. */
static void test_processes(void)
{
	for (int nranks = 1; nranks <= 4; nranks++) {
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_ID, init_works, NULL}, "init by id");
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, init_works, NULL},
			"init by exchange");
	}
}

static void test_threads(void)
{
	for (int nranks = 1; nranks <= 4; nranks++) {
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, init_works, NULL},
			"init_all in one thread, then a thread for each rank");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ID, init_works, NULL}, "init by id");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_EXCHANGE, init_works, NULL},
			"init by exchange");
	}
}

/* ------------------------------------------------------------------- environment -- */

/* A rank started by `coll run`: prints a line if all is well. */
static int env_rank(void)
{
	char failure[RANKS_TEXT] = "";
	struct rank r = {.failure = failure};
	coll_config_t config;

	nccl_hold_devices();
	nccl_config(&config, atoi(getenv("COLL_LOCAL_RANK") ? getenv("COLL_LOCAL_RANK") : "0"));
	if (rank_did(&r, coll_comm_init_env(&r.comm, &config), "init_env") &&
	    rank_did(&r, coll_comm_user_rank(r.comm, &r.rank), "user_rank") &&
	    rank_did(&r, coll_comm_count(r.comm, &r.nranks), "count")) {
		init_works(&r);
		rank_did(&r, coll_comm_destroy(r.comm), "destroy");
	}
	printf("rank %d of %d %s\n", r.rank, r.nranks, failure[0] ? failure : "is well");
	return failure[0] != '\0';
}

static void test_env(int nranks)
{
	const char *top = getenv("top_builddir");
	char command[1024], self[512] = "", line[512];
	ssize_t length = readlink("/proc/self/exe", self, sizeof(self) - 1);
	int well = 0, status;
	FILE *out;

	snprintf(command, sizeof(command),
		 "'%s/coll' run --timeout 120 --no-prefix -n %d -- '%.*s' rank 2>&1",
		 top ? top : ".", nranks, (int)length, self);
	out = popen(command, "r");
	while (out && fgets(line, sizeof(line), out)) {
		if (strstr(line, "is well"))
			well++;
		else
			diag("%.*s", (int)strcspn(line, "\n"), line);
	}
	status = out ? pclose(out) : -1;
	ok(well == nranks && status == 0, "init from the environment (%d processes of coll run)",
	   nranks);
}

/* ------------------------------------------------------------------ one process -- */

/* One thread drives all ranks. */
static int drive(coll_comm_t *comms, int nranks, const int32_t *devices, int64_t *sum)
{
	int64_t *there[NCCL_DEVICES];
	int bad = coll_group_start() != 0;

	for (int r = 0; r < nranks; r++) {
		int64_t x = r + 1;

		there[r] = nccl_new(devices ? devices[r] : r, &x, 1);
		bad += coll_allreduce(there[r], there[r], 1, COLL_INT64, COLL_SUM, comms[r],
				      NULL) != 0;
	}
	bad += coll_group_end() != 0;
	for (int r = 0; r < nranks; r++)
		bad += coll_sync(comms[r]) != 0;
	for (int r = 0; r < nranks; r++) {
		sum[r] = nccl_value(devices ? devices[r] : r, there[r]);
		device_free(devices ? devices[r] : r, there[r]);
	}
	return bad;
}

static void test_one_thread(void)
{
	static const int32_t devices[] = {2, 0, 3};
	coll_comm_t comms[NCCL_DEVICES];
	coll_config_t config;
	int64_t sum[NCCL_DEVICES];
	int32_t device = -1;

	ranks_config(&config, "nccl");
	is_int(coll_comm_init_all(comms, 4, NULL, &config), 0, "init_all makes 4 ranks");
	is_int(drive(comms, 4, NULL, sum), 0, "one thread drives them in a group");
	ok(sum[0] == 10 && sum[1] == 10 && sum[2] == 10 && sum[3] == 10, "each has the sum");
	for (int r = 0; r < 4; r++)
		is_int(coll_comm_destroy(comms[r]), 0, "destroy %d", r);
	is_int(coll_comm_init_all(comms, 3, devices, &config), 0, "init_all on devices 2, 0, 3");
	is_int(drive(comms, 3, devices, sum), 0, "driven in a group");
	ok(sum[0] == 6 && sum[1] == 6 && sum[2] == 6, "each has the sum");
	is_int(coll_comm_device(comms[2], &device), 0, "device of rank 2");
	is_int(device, 3, "is 3");
	for (int r = 0; r < 3; r++)
		is_int(coll_comm_destroy(comms[r]), 0, "destroy %d", r);
}

static void test_wrong_devices(void)
{
	static const int32_t twice[] = {1, 1}, beyond[] = {0, 9};
	coll_comm_t comms[2] = {NULL, NULL};
	coll_config_t config;

	ranks_config(&config, "nccl");
	ok(coll_comm_init_all(comms, 2, beyond, &config) != 0 && !comms[0] && !comms[1],
	   "a device that is not there: refused");
	has_str(coll_get_last_error(NULL), "9", "and it is named: %s", coll_get_last_error(NULL));
	ok(coll_comm_init_all(comms, 2, twice, &config) != 0 && !comms[0] && !comms[1],
	   "two ranks on one device: NCCL refuses");
	has_str(coll_get_last_error(NULL), "NCCL", "in its words: %s", coll_get_last_error(NULL));
}

/*
 * Without a device in the configuration the rank gets the device of the thread's context, else the
 * first device.
 */
static void test_current_device(void)
{
	coll_config_t config;
	coll_comm_t comm = NULL;
	int32_t device = -1;
	int code;

	ranks_config(&config, "nccl");
	context_begin(3);
	code = coll_comm_init_all(&comm, 1, &(int32_t){-1}, &config);
	context_end(3);
	if (!code)
		code = coll_comm_device(comm, &device);
	ok(!code && device == 3, "init_all with device -1: the current context's, %d (%s)", device,
	   code ? coll_get_last_error(NULL) : "");
	coll_comm_destroy(comm);
}

static void current_device(struct rank *r)
{
	coll_config_t config;
	int32_t device = -1;
	char id[COLL_UNIQUE_ID_SIZE];

	ranks_config(&config, "nccl");
	rank_did(r, coll_get_unique_id(id, sizeof(id)), "id");
	coll_comm_destroy(r->comm);
	r->comm = NULL;
	context_begin(2);
	rank_did(r, coll_comm_init_rank(&r->comm, 1, id, 0, &config), "init_rank");
	context_end(2);
	rank_did(r, coll_comm_device(r->comm, &device), "device");
	if (device != 2)
		rank_fail(r, "device %d", device);
	nccl_sums(r, r->comm, 2, 7, 7, "allreduce");
}

/* Ranks without a device or a context get one device each. */
static void no_device(struct rank *r)
{
	coll_config_t config;
	int32_t device = -1;

	ranks_config(&config, "nccl");
	if (!rank_did(r, nccl_init(r, &r->comm, &config), "init"))
		return;
	rank_did(r, coll_comm_device(r->comm, &device), "device");
	if (device != r->rank)
		rank_fail(r, "device %d", device);
	nccl_sums(r, r->comm, r->rank, 1, r->nranks, "allreduce");
}

/* A program makes its communicators before it uses CUDA: later they work with its device buffers. */
static void before_cuda(struct rank *r)
{
	coll_config_t config;
	char id[COLL_UNIQUE_ID_SIZE];

	ranks_config(&config, r->user);
	setenv("COLL_ENABLE_GPU_FALLBACK", "yes", 1);
	rank_did(r, coll_get_unique_id(id, sizeof(id)), "id");
	if (!rank_did(r, coll_comm_init_rank(&r->comm, 1, id, 0, &config), "init"))
		return;
	nccl_hold_devices(); /* the program's first CUDA calls */
	nccl_sums(r, r->comm, 0, 5, 5, r->user);
	rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
}

/* In a process of its own, since this one must not have used CUDA. */
static void test_before_cuda(const char *backend)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	struct rank rank = {NULL, 0, 1, (void *)(uintptr_t)backend, shared->failure[0]};
	int status = 1;
	pid_t child;

	fflush(stdout);
	child = fork();
	if (child == 0) {
		log_begin();
		before_cuda(&rank);
		log_end();
		_exit(rank.failure[0] != '\0');
	}
	ok(child > 0 && ranks_reap(child, ranks_now() + 60, &status) && !status,
	   "%s: a communicator made before the program's first CUDA call", backend);
	if (rank.failure[0])
		diag("%s", rank.failure);
}

/* -------------------------------------------------------------------------- derived -- */

static void split_works(struct rank *r)
{
	int odd = r->rank % 2, n = r->nranks / 2 + (!odd && r->nranks % 2);
	int64_t sum = 0;
	coll_comm_t half = NULL;

	/* The keys reverse the order. */
	if (!rank_did(r, coll_comm_split(r->comm, odd, -r->rank, &half, NULL), "split"))
		return;
	for (int p = odd; p < r->nranks; p += 2)
		sum += p;
	is_rank(r, half, n - 1 - r->rank / 2, n);
	nccl_sums(r, half, r->rank, r->rank, sum, "half");
	nccl_works(r);
	rank_did(r, coll_comm_destroy(half), "destroy the half");
	nccl_works(r);
}

/* The call blocks, and its request is complete. */
static void isplit_works(struct rank *r)
{
	coll_comm_t half = NULL;
	coll_request_t request = NULL;
	int32_t done = 0;

	if (!rank_did(r, coll_comm_isplit(r->comm, r->rank / 2, 0, &half, NULL, &request),
		      "isplit") ||
	    !rank_did(r, coll_test(request, &done), "test"))
		return;
	if (!done || !half)
		rank_fail(r, "done %d, communicator %p after the call", done, (void *)half);
	rank_did(r, coll_wait(request), "wait");
	rank_did(r, coll_request_free(request), "free");
	if (half) {
		nccl_sums(r, half, r->rank, 3, 6, "half");
		rank_did(r, coll_comm_destroy(half), "destroy the half");
	}
	nccl_works(r);
}

static void split_no_color(struct rank *r)
{
	int in = r->rank != 1;
	coll_comm_t others = r->comm;

	if (!rank_did(r, coll_comm_split(r->comm, in ? 7 : COLL_SPLIT_NOCOLOR, 0, &others, NULL),
		      "split"))
		return;
	if (!in && others)
		rank_fail(r, "a communicator without a colour");
	if (in) {
		nccl_sums(r, others, r->rank, 1, r->nranks - 1, "the others");
		rank_did(r, coll_comm_destroy(others), "destroy");
	}
	nccl_works(r);
}

static void split_nested(struct rank *r)
{
	coll_comm_t dup = NULL, half = NULL, one = NULL;

	if (!rank_did(r, coll_comm_dup(r->comm, &dup), "dup") ||
	    !rank_did(r, coll_comm_split(dup, r->rank / 2, 0, &half, NULL), "split of the dup") ||
	    !rank_did(r, coll_comm_split(half, r->rank, 0, &one, NULL), "split of the half"))
		return;
	nccl_sums(r, dup, r->rank, 1, r->nranks, "dup");
	/* The parent may be destroyed first. */
	rank_did(r, coll_comm_destroy(dup), "destroy the dup");
	nccl_sums(r, half, r->rank, 1, 2, "half");
	rank_did(r, coll_comm_destroy(half), "destroy the half");
	nccl_sums(r, one, r->rank, 5, 5, "one");
	rank_did(r, coll_comm_destroy(one), "destroy the one");
	nccl_works(r);
}

/* One thread splits for all ranks. */
static void test_split_group(void)
{
	coll_comm_t comms[4], halves[4] = {NULL};
	coll_config_t config;
	int bad = 0;

	ranks_config(&config, "nccl");
	is_int(coll_comm_init_all(comms, 4, NULL, &config), 0, "init_all");
	bad += coll_group_start() != 0;
	for (int r = 0; r < 4; r++)
		bad += coll_comm_split(comms[r], r / 2, 0, &halves[r], NULL) != 0;
	bad += coll_group_end() != 0;
	ok(!bad && halves[0] && halves[3], "one thread splits for 4 ranks, in a group: %s",
	   coll_get_last_error(NULL));
	for (int r = 0; r < 4; r++) {
		int32_t n = 0;

		bad += !halves[r] || coll_comm_count(halves[r], &n) || n != 2;
		bad += halves[r] && coll_comm_destroy(halves[r]);
		bad += coll_comm_destroy(comms[r]) != 0;
	}
	is_int(bad, 0, "in two halves of 2");
}

/* One thread splits for all ranks: the requests are complete when the group has ended. */
static void test_isplit_group(void)
{
	coll_comm_t comms[4], halves[4] = {NULL};
	coll_request_t requests[4];
	coll_config_t config;
	int32_t done, n;
	int bad = 0;

	ranks_config(&config, "nccl");
	is_int(coll_comm_init_all(comms, 4, NULL, &config), 0, "init_all");
	bad += coll_group_start() != 0;
	for (int r = 0; r < 4; r++)
		bad += coll_comm_isplit(comms[r], r / 2, 0, &halves[r], NULL, &requests[r]) != 0;
	bad += coll_test(requests[0], &done) || done || halves[0];
	is_int(coll_wait(requests[1]), COLL_ERR_INVALID_USAGE, "a wait in the group: %s",
	       coll_get_last_error(NULL));
	bad += coll_group_end() != 0;
	for (int r = 0; r < 4; r++) {
		bad += coll_test(requests[r], &done) || !done || coll_request_free(requests[r]);
		bad += !halves[r] || coll_comm_count(halves[r], &n) || n != 2;
		bad += (halves[r] && coll_comm_destroy(halves[r])) || coll_comm_destroy(comms[r]);
	}
	is_int(bad, 0, "isplit by one thread for 4 ranks, in a group");
}

static void test_derived(void)
{
	for (int nranks = 2; nranks <= 4; nranks++) {
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, split_works, NULL},
			"split by colour and key");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ID, split_no_color, NULL},
			"split without a colour for rank 1");
	}
	nccl_ok(&(struct nccl_job){4, 0, INIT_EXCHANGE, split_works, NULL}, "split");
	nccl_ok(&(struct nccl_job){4, 0, INIT_ALL, split_nested, NULL},
		"dup, split of it, split of that; parents destroyed first");
	nccl_ok(&(struct nccl_job){4, 0, INIT_ALL, isplit_works, NULL}, "isplit");
	test_split_group();
	test_isplit_group();
}

/*
 * Prints the result of coll_backend_available for scripts: the code, and the reason if there is
 * one.
 */
static int available(void)
{
	char reason[512] = "";
	int code = coll_backend_available("nccl", reason, sizeof(reason));

	printf("%d%s%s\n", code, reason[0] ? " " : "", reason);
	return 0;
}

int main(int argc, char **argv)
{
	nccl_begin(argv, ".libs");
	if (argc > 1 && !strcmp(argv[1], "available"))
		return available();
	if (argc > 1 && !strcmp(argv[1], "rank"))
		return env_rank();
	test_processes();
	test_before_cuda("nccl");
	test_before_cuda("tcp");
	nccl_ok(&(struct nccl_job){4, 1, INIT_ID, split_works, NULL}, "split by colour and key");
	nccl_ok(&(struct nccl_job){3, 1, INIT_NONE, no_device, NULL},
		"no device given, no context: a device for each rank");
	test_env(2);
	test_env(4);
	nccl_hold_devices();
	test_threads();
	test_one_thread();
	test_wrong_devices();
	test_current_device();
	nccl_ok(&(struct nccl_job){1, 0, INIT_ALL, current_device, NULL},
		"no device given: the current context's");
	nccl_ok(&(struct nccl_job){4, 0, INIT_NONE, no_device, NULL},
		"no device given, no context: a device for each rank");
	test_derived();
	return done_testing();
}
