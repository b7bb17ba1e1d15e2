/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * minors_test.c - plugins of other ABI versions in this libcoll: plugins built against the frozen
 * headers of ABI 1.0 and 1.3, a plugin of a newer minor whose structs have all grown, and a plugin
 * that demands a newer core.
 */
#include "../lib/ranks.h"

#include <unistd.h>

enum { COUNT = 5000, ELEMENTS = COUNT * RANKS_MAX };

/* ------------------------------------------------------------------ collectives -- */

struct memory {
	int64_t in[ELEMENTS], out[ELEMENTS];
};

static int64_t value(int rank, int i)
{
	return (int64_t)(rank + 1) * (i % 101 + 1);
}

/* out[i] must be `factor` times rank 0's element. */
static int holds(struct rank *r, const int64_t *out, int first, int n, int64_t factor,
		 const char *what)
{
	for (int i = 0; i < n; i++)
		if (out[i] != factor * value(0, first + i))
			return rank_fail(r, "%s: element %d is %lld", what, i, (long long)out[i]);
	return 1;
}

static int reduces(struct rank *r, struct memory *m)
{
	int64_t sum = (int64_t)r->nranks * (r->nranks + 1) / 2;
	int part = COUNT / r->nranks;

	return rank_did(r,
			coll_allreduce(m->in, m->out, COUNT, COLL_INT64, COLL_SUM, r->comm, NULL),
			"allreduce") &&
	       rank_did(r, coll_sync(r->comm), "sync") &&
	       holds(r, m->out, 0, COUNT, sum, "allreduce") &&
	       rank_did(r,
			coll_reduce_scatter(m->in, m->out, (size_t)part, COLL_INT64, COLL_MAX,
					    r->comm, NULL),
			"reduce_scatter") &&
	       rank_did(r, coll_sync(r->comm), "sync") &&
	       holds(r, m->out, r->rank * part, part, r->nranks, "reduce_scatter");
}

/*
 * A type and operations that are newer than the plugin.  The slot of the frozen plugin fails if it gets
 * more than 2^20 elements.
 */
static int is_logical(struct rank *r)
{
	enum { LONG = (1 << 20) + 1 };
	const int64_t mine = r->rank ? r->rank << 20 : 0;
	unsigned char *x = calloc(1, LONG);
	int64_t all[3] = {-1, -1, -1};
	int good = x != NULL;

	if (good && !r->rank)
		memset(x, 1, LONG);
	good = good &&
	       rank_did(r, coll_broadcast(x, x, LONG, COLL_BOOL, 0, r->comm, NULL),
			"broadcast of bool") &&
	       rank_did(r,
			coll_broadcast(x, x, LONG, coll_dtype_opaque(1), r->nranks - 1, r->comm,
				       NULL),
			"broadcast of an opaque type") &&
	       rank_did(r, coll_allreduce(&mine, &all[0], 1, COLL_INT64, COLL_LAND, r->comm, NULL),
			"land") &&
	       rank_did(r, coll_allreduce(&mine, &all[1], 1, COLL_INT64, COLL_LOR, r->comm, NULL),
			"lor") &&
	       rank_did(r, coll_allreduce(&mine, &all[2], 1, COLL_INT64, COLL_LXOR, r->comm, NULL),
			"lxor") &&
	       rank_did(r, coll_sync(r->comm), "sync");
	if (good && (x[LONG - 1] != 1 || all[0] || all[1] != (r->nranks > 1) ||
		     all[2] != (r->nranks - 1) % 2))
		good = rank_fail(r, "bool %d, land %lld, lor %lld, lxor %lld", x[LONG - 1],
				 (long long)all[0], (long long)all[1], (long long)all[2]);
	free(x);
	return good;
}

/* Collectives that are newer than the plugin: the library makes them of messages. */
static int scans(struct rank *r, struct memory *m)
{
	const int64_t before = (int64_t)r->rank * (r->rank + 1) / 2;

	return rank_did(r, coll_scan(m->in, m->out, COUNT, COLL_INT64, COLL_SUM, r->comm, NULL),
			"scan") &&
	       rank_did(r, coll_sync(r->comm), "sync") &&
	       holds(r, m->out, 0, COUNT, before + r->rank + 1, "scan") &&
	       rank_did(r, coll_exscan(m->in, m->out, COUNT, COLL_INT64, COLL_SUM, r->comm, NULL),
			"exscan") &&
	       rank_did(r, coll_sync(r->comm), "sync") &&
	       holds(r, m->out, 0, COUNT, r->rank ? before : 1, "exscan");
}

/* Types, operations and forms with lists: the frozen plugin's broadcast must not see the first two. */
static int is_newer(struct rank *r, struct memory *m)
{
	struct {
		int64_t value;
		int32_t index;
	} mine = {-r->rank, r->rank}, least = {7, 7};
	float z[2] = {1, (float)r->rank}, sum[2] = {0, 0};
	void *list[RANKS_MAX];

	for (int p = 0; p < r->nranks; p++)
		list[p] = m->out + (r->nranks - 1 - p) * COUNT;
	if (!rank_did(
		    r,
		    coll_allreduce(&mine, &least, 1, COLL_INT64_INT32, COLL_MINLOC, r->comm, NULL),
		    "minloc") ||
	    !rank_did(r, coll_allreduce(z, sum, 1, COLL_COMPLEX64, COLL_SUM, r->comm, NULL),
		      "a complex sum") ||
	    !rank_did(r, coll_allgather_list(m->in, list, COUNT, COLL_INT64, r->comm, NULL),
		      "a list") ||
	    !rank_did(r, coll_sync(r->comm), "sync"))
		return 0;
	for (int p = 0; p < r->nranks; p++)
		if (!holds(r, list[p], 0, COUNT, p + 1, "allgather_list"))
			return 0;
	return (least.index == r->nranks - 1 && least.value == 1 - r->nranks &&
		sum[0] == (float)r->nranks) ||
	       rank_fail(r, "minloc %d, complex %g", least.index, sum[0]);
}

static int moves(struct rank *r, struct memory *m)
{
	int root = r->nranks - 1;

	if (!rank_did(r, coll_broadcast(m->in, m->out, COUNT, COLL_INT64, root, r->comm, NULL),
		      "broadcast") ||
	    !rank_did(r, coll_sync(r->comm), "sync") ||
	    !holds(r, m->out, 0, COUNT, r->nranks, "broadcast") ||
	    !rank_did(r, coll_allgather(m->in, m->out, COUNT, COLL_INT64, r->comm, NULL),
		      "allgather") ||
	    !rank_did(r, coll_sync(r->comm), "sync"))
		return 0;
	for (int p = 0; p < r->nranks; p++)
		if (!holds(r, m->out + p * COUNT, 0, COUNT, p + 1, "allgather"))
			return 0;
	return 1;
}

/* Exchanges messages with both neighbours at once; the messages come before their receives. */
static int exchanges(struct rank *r, struct memory *m)
{
	int next = (r->rank + 1) % r->nranks, previous = (r->rank + r->nranks - 1) % r->nranks;

	return rank_did(r, coll_group_start(), "group_start") &&
	       rank_did(r, coll_send(m->in, COUNT, COLL_INT64, next, 7, r->comm, NULL), "send") &&
	       rank_did(r, coll_recv(m->out, COUNT, COLL_INT64, previous, 7, r->comm, NULL),
			"recv") &&
	       rank_did(r, coll_group_end(), "group_end") &&
	       rank_did(r, coll_sync(r->comm), "sync") &&
	       holds(r, m->out, 0, COUNT, previous + 1, "recv") &&
	       rank_did(r, coll_barrier(r->comm), "barrier");
}

static int splits(struct rank *r, struct memory *m)
{
	struct rank half = *r;
	int good = rank_did(r, coll_comm_split(r->comm, r->rank % 2, r->rank, &half.comm, NULL),
			    "split");

	if (!good)
		return 0;
	good = rank_did(r,
			coll_allreduce(m->in, m->out, COUNT, COLL_INT64, COLL_MIN, half.comm, NULL),
			"allreduce of a half") &&
	       rank_did(r, coll_sync(half.comm), "sync") &&
	       holds(r, m->out, 0, COUNT, r->rank % 2 + 1, "allreduce of a half");
	return rank_did(r, coll_comm_destroy(half.comm), "destroy a half") && good;
}

static void work(struct rank *r)
{
	struct memory *m = calloc(1, sizeof(*m));

	if (!m)
		bail_out("no memory");
	for (int i = 0; i < ELEMENTS; i++)
		m->in[i] = value(r->rank, i);
	for (int round = 0; round < 3; round++)
		if (!reduces(r, m) || !is_logical(r) || !is_newer(r, m) || !scans(r, m) ||
		    !moves(r, m) || !exchanges(r, m) || !splits(r, m))
			break;
	free(m);
}

static void test_works(const char *backend)
{
	for (int n = 1; n <= 5; n++)
		ranks_ok(&(struct ranks_job){.backend = backend, .nranks = n, .fn = work},
			 "collectives, messages, a split");
}

/* ------------------------------------------------------------ reports on plugins -- */

static coll_backend_info_t find(coll_info_t info, const char *name)
{
	coll_backend_info_t b = {.size = sizeof(b)};

	for (int i = 0; i < coll_info_backend_count(info); i++)
		if (!coll_info_backend(info, i, &b) && !strcmp(b.name, name))
			return b;
	bail_out("no backend '%s' in %s", name, getenv("COLL_PLUGIN_PATH"));
}

static void test_frozen(void)
{
	coll_backend_info_t b;
	coll_info_t info;
	int found = 0;

	is_int(coll_info_create(NULL, &info), 0, "info");
	b = find(info, "frozen");
	is_int(b.usable, 1, "a plugin of ABI 1.0 is usable (%s)", b.reason);
	is_int(b.abi_minor, 0, "its minor");
	is_str(b.description, "built against the header of ABI 1.0 (hello, 3 lanes, loud 1)",
	       "its description, and what it answers to info");
	for (int i = 0; i < coll_info_option_count(info); i++) {
		coll_option_info_t o = {.size = sizeof(o)};

		if (!coll_info_option(info, i, &o) && !strcmp(o.name, "frozen.room"))
			found += !strcmp(o.value, "2K") && !strcmp(o.unit, "bytes");
	}
	is_int(found, 1, "its options");
	coll_info_destroy(info);
	test_works("frozen");
}

static void test_newer(void)
{
	coll_backend_info_t b;
	coll_info_t info;

	is_int(coll_info_create(NULL, &info), 0, "info");
	b = find(info, "newer");
	is_int(b.usable, 1, "a plugin of a newer minor is usable (%s)", b.reason);
	is_int(b.abi_minor, 13, "its minor");
	ok(b.capabilities & COLL_CAP_TRANSPORT && b.capabilities & COLL_CAP_NATIVE,
	   "both of its groups were taken");
	coll_info_destroy(info);
	test_works("newer");
}

/* coll_info_t, coll_backend_available and the error of a call must have the same text. */
static void test_demanding(void)
{
	static const char words[] = "needs a libcoll with backend ABI 1.15, but this one has 1.6; "
				    "install a newer libcoll";
	coll_backend_info_t b;
	coll_config_t config;
	coll_info_t info;
	coll_comm_t comm;
	char reason[768];

	is_int(coll_info_create(NULL, &info), 0, "info");
	b = find(info, "demanding");
	is_int(b.usable, 0, "a plugin that needs a newer host is not usable");
	is_int(b.code, COLL_ERR_ABI, "its code");
	is_str(b.reason, words, "both versions, in its own words");
	coll_info_destroy(info);
	is_int(coll_backend_available("demanding", reason, sizeof(reason)), COLL_ERR_ABI,
	       "asked for by name");
	has_str(reason, words, "the same words");
	ranks_config(&config, "demanding");
	is_int(coll_comm_init_all(&comm, 1, NULL, &config), COLL_ERR_ABI, "taken by name");
	has_str(coll_get_last_error(NULL), words, "the same words");
}

/* ---------------------------------------------------------------- native groups only -- */

static int sum_alone(coll_comm_t comm, int64_t *in, int64_t *out, size_t n)
{
	int code;

	for (size_t i = 0; i < n; i++)
		in[i] = (int64_t)i + 3;
	code = coll_allreduce(in, out, n, COLL_INT64, COLL_SUM, comm, NULL);
	if (!code)
		code = coll_sync(comm);
	if (!code && out[n - 1] != (int64_t)n + 2)
		code = COLL_ERR_INTERNAL;
	return code;
}

/* `takes` of a plugin of minor 4 sees whether a call is in place; a plugin of minor 3 gets no flag. */
static void test_place(const char *backend, int sees)
{
	static int64_t x[COUNT], y[COUNT];
	const int refused = sees ? COLL_ERR_UNSUPPORTED : COLL_SUCCESS;
	coll_request_t request;
	coll_config_t config;
	coll_comm_t comm;
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_ALLREDUCE,
			    .dtype = COLL_INT64,
			    .sendbuf = x,
			    .recvbuf = x,
			    .count = 4};

	ranks_config(&config, backend);
	if (coll_comm_init_all(&comm, 1, NULL, &config))
		bail_out("%s: %s", backend, coll_get_last_error(NULL));
	is_int(sum_alone(comm, x, x, 7), refused, "%s: in place, the first call", backend);
	if (sees)
		has_str(coll_get_last_error(NULL), "the engine has no allreduce in place",
			"the plugin's reason");
	for (size_t round = 0; round < 3; round++) {
		is_int(sum_alone(comm, x, y, 7 + round), COLL_SUCCESS, "%s: two buffers", backend);
		is_int(sum_alone(comm, y, y, 7 + round), refused, "%s: in place, after them",
		       backend);
	}
	is_int(coll_broadcast(x, x, 3, COLL_INT64, 0, comm, NULL), COLL_SUCCESS,
	       "%s: another kind in place", backend);
	is_int(coll_request_init(comm, &args, &request), refused, "%s: a persistent one", backend);
	if (!sees)
		is_int(coll_request_free(request), COLL_SUCCESS, "%s: freed", backend);
	is_int(coll_sync(comm), COLL_SUCCESS, "%s: the communicator works", backend);
	is_int(coll_comm_destroy(comm), COLL_SUCCESS, "%s: destroyed", backend);
}

static void unused(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	(void)user;
	(void)left;
	(void)inout;
	(void)count;
	(void)dtype;
}

/* A plugin without a transport is not even asked about a type or an operation newer than it. */
static void test_too_new(void)
{
	static int64_t x[4], y[4];
	coll_config_t config;
	coll_comm_t comm;
	coll_op_t op;

	ranks_config(&config, "frozen3");
	if (coll_comm_init_all(&comm, 1, NULL, &config))
		bail_out("frozen3: %s", coll_get_last_error(NULL));
	for (int round = 0; round < 2; round++) {
		is_int(coll_broadcast(x, x, 8, COLL_BOOL, 0, comm, NULL), COLL_ERR_UNSUPPORTED,
		       "frozen3: a broadcast of a newer type");
		is_str(coll_get_last_error(NULL),
		       "broadcast: backend 'frozen3' does not know bool: its plugin was built for "
		       "ABI 1.3; build it anew, or choose another backend with COLL_BACKEND",
		       "and why");
		is_int(coll_allreduce(x, y, 4, COLL_INT64, COLL_LOR, comm, NULL),
		       COLL_ERR_UNSUPPORTED, "frozen3: a newer operation on a type that it has");
		has_str(coll_get_last_error(NULL), "'frozen3' does not know lor", "and why");
		is_int(coll_allreduce(x, y, 1, COLL_COMPLEX128, COLL_SUM, comm, NULL),
		       COLL_ERR_UNSUPPORTED, "frozen3: a newer type of an old operation");
		is_int(coll_broadcast(x, x, 1, coll_dtype_opaque(8), 0, comm, NULL),
		       COLL_ERR_UNSUPPORTED, "frozen3: an opaque type");
		is_str(coll_get_last_error(NULL),
		       "broadcast: backend 'frozen3' has no opaque types, and no transport on "
		       "which the "
		       "library could move opaque8: move the bytes as COLL_UINT8, or choose "
		       "another "
		       "backend with COLL_BACKEND",
		       "and why");
		is_int(coll_red_op_create_user(&op, unused, NULL, 1, NULL), COLL_SUCCESS,
		       "an operation for every communicator");
		is_int(coll_allreduce(x, y, 1, COLL_INT64, op, comm, NULL), COLL_ERR_UNSUPPORTED,
		       "frozen3: but this");
		has_str(coll_get_last_error(NULL), "combine the data outside the collective",
			"and what to do");
		is_int(coll_red_op_destroy(op, NULL), COLL_SUCCESS, "it is destroyed");
		is_int(sum_alone(comm, x, y, 3), COLL_SUCCESS, "frozen3: works on");
	}
	is_int(coll_comm_destroy(comm), COLL_SUCCESS, "frozen3: destroyed");
}

static void is_unknown(int code, const char *name)
{
	char words[80];

	snprintf(words, sizeof(words), "'frozen3' does not know %s", name);
	ok(code == COLL_ERR_UNSUPPORTED && strstr(coll_get_last_error(NULL), words),
	   "frozen3: %s is refused: %d, %s", name, code, coll_get_last_error(NULL));
}

/* Every type, operation and kind that is newer than ABI 1.3. */
static void test_all_too_new(void)
{
	static int64_t x[4], y[4];
	void *list[] = {y};
	coll_config_t config;
	coll_comm_t comm;

	ranks_config(&config, "frozen3");
	if (coll_comm_init_all(&comm, 1, NULL, &config))
		bail_out("frozen3: %s", coll_get_last_error(NULL));
	for (coll_dtype_t t = COLL_BOOL; t <= COLL_INT64_INT32; t++)
		is_unknown(coll_broadcast(x, x, 1, t, 0, comm, NULL), coll_dtype_name(t));
	for (coll_op_t op = COLL_LAND; op <= COLL_LXOR; op++)
		is_unknown(coll_allreduce(x, y, 1, COLL_INT64, op, comm, NULL), coll_op_name(op));
	for (coll_op_t op = COLL_MINLOC; op <= COLL_MAXLOC; op++)
		is_int(coll_allreduce(x, y, 1, COLL_INT64_INT32, op, comm, NULL),
		       COLL_ERR_UNSUPPORTED, "frozen3: %s", coll_op_name(op));
	is_int(coll_scan(x, y, 1, COLL_INT64, COLL_SUM, comm, NULL), COLL_ERR_UNSUPPORTED,
	       "frozen3: scan: %s", coll_get_last_error(NULL));
	is_int(coll_exscan(x, y, 1, COLL_INT64, COLL_SUM, comm, NULL), COLL_ERR_UNSUPPORTED,
	       "frozen3: exscan: %s", coll_get_last_error(NULL));
	is_int(coll_allgather_list(x, list, 1, COLL_INT64, comm, NULL), COLL_ERR_UNSUPPORTED,
	       "frozen3: a list without a slot: %s", coll_get_last_error(NULL));
	is_int(sum_alone(comm, x, y, 3), COLL_SUCCESS, "frozen3: works on");
	is_int(coll_comm_destroy(comm), COLL_SUCCESS, "frozen3: destroyed");
}

/* The largest type and operation of the header: a newer one must be added to the test above. */
_Static_assert(COLL_INT64_INT32 == 40 && COLL_MAXLOC == 39 && COLL_KIND_EXSCAN == 18, "");

int main(void)
{
	ranks_plugins("tests/plugins/frozen/.libs", "tests/plugins/.libs");
	test_frozen();
	test_newer();
	test_demanding();
	test_place("frozen3", 0);
	test_too_new();
	test_all_too_new();
	test_place("placed", 1);
	return done_testing();
}
