/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_test.c - every collective of the nccl backend on device memory, with each type, operation
 * and root; the backend refuses with a message the calls that NCCL lacks.
 *
 *   coll_test [FOLDERS]   with the stand-ins in these folders of fakes
 */
#include "case.h"

static const int coll_ops[] = {COLL_SUM, COLL_PROD,        COLL_MAX,          COLL_MIN,
			       COLL_AVG, CASE_SCALED_HOST, CASE_SCALED_DEVICE};
enum { COLL_OPS = sizeof(coll_ops) / sizeof(coll_ops[0]) };

static const char *const coll_op_names[] = {"sum",
					    "prod",
					    "max",
					    "min",
					    "avg",
					    "pre-multiplied sum, scalar on the host",
					    "pre-multiplied sum, scalar on the device"};

static int coll_old; /* NCCL is 2.18.5 */

/* NCCL's types are 0 to 11; NCCL 2.24 added the last two. */
static int coll_is_own(int dtype)
{
	return dtype <= (coll_old ? COLL_BFLOAT16 : COLL_FLOAT8E5M2);
}

/* NCCL does not multiply float8 on one rank. */
static int coll_is_lacking(const struct rank *r, int op, int dtype)
{
	return r->nranks == 1 && (op == coll_ops[COLL_OPS - 1] || op == coll_ops[COLL_OPS - 2]) &&
	       dtype >= COLL_FLOAT8E4M3 && dtype <= COLL_FLOAT8E5M2;
}

/* ------------------------------------------------------------------- collectives -- */

struct coll_plan {
	int kind, op, count, persistent;
};

/* Each type, in place and out of place, from each root. */
static void coll_each(struct rank *r)
{
	const struct coll_plan *plan = r->user;

	for (int t = 0; t < oracle_dtype_count; t++)
		for (int in_place = 0; in_place < 2; in_place++)
			for (int root = 0; root < r->nranks && !r->failure[0]; root++) {
				int dtype = oracle_dtypes[t];

				if ((root && !oracle_rooted(plan->kind)) ||
				    (oracle_reduces(plan->kind) && !coll_is_own(dtype)) ||
				    coll_is_lacking(r, plan->op, dtype))
					continue;
				case_holds((struct nccl_case){.r = r,
							      .kind = plan->kind,
							      .dtype = dtype,
							      .op = plan->op,
							      .root = root,
							      .in_place = in_place,
							      .persistent = plan->persistent,
							      .count = (size_t)plan->count});
			}
}

static void test_collectives(int nranks)
{
	for (int k = 0; k < ORACLE_SLOTS; k++) {
		struct coll_plan plan = {oracle_kinds[k], COLL_SUM, CASE_COUNT, 0};
		const char *name = coll_kind_name(plan.kind);

		for (int o = 0; o < COLL_OPS && oracle_reduces(plan.kind); o++) {
			plan.op = coll_ops[o];
			nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, coll_each, &plan},
				"%s, %s, every type of NCCL", name, coll_op_names[o]);
		}
		if (!oracle_reduces(plan.kind))
			nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, coll_each, &plan},
				"%s, every type", name);
	}
}

/* Every collective without any elements. */
static void coll_empty(struct rank *r)
{
	for (int k = 0; k < ORACLE_SLOTS; k++)
		case_holds((struct nccl_case){
			.r = r, .kind = oracle_kinds[k], .dtype = COLL_FLOAT32, .op = COLL_SUM});
	rank_did(r, coll_allreduce(NULL, NULL, 0, COLL_INT8, COLL_SUM, r->comm, NULL),
		 "nothing at NULL");
	rank_did(r, coll_sync(r->comm), "sync");
	nccl_works(r);
}

static void coll_persistent(struct rank *r)
{
	for (int k = 0; k < ORACLE_SLOTS; k++)
		for (int in_place = 0; in_place < 2; in_place++)
			case_holds((struct nccl_case){.r = r,
						      .kind = oracle_kinds[k],
						      .dtype = COLL_INT32,
						      .op = COLL_SUM,
						      .root = r->nranks - 1,
						      .in_place = in_place,
						      .persistent = 1,
						      .count = CASE_COUNT});
}

/* Buffers at any byte: NCCL's reductions need whole elements. */
static void coll_unaligned(struct rank *r)
{
	static const int types[] = {COLL_INT32, COLL_FLOAT64, COLL_FLOAT16};

	for (int k = 0; k < ORACLE_SLOTS; k++)
		for (int i = 0; i < 3 * 2 * 2; i++)
			for (size_t n = CASE_COUNT; n < CASE_COUNT + 4; n++)
				case_holds((struct nccl_case){.r = r,
							      .kind = oracle_kinds[k],
							      .dtype = types[i / 4],
							      .op = COLL_SUM,
							      .root = r->nranks - 1,
							      .in_place = i % 2,
							      .persistent = i / 2 % 2,
							      .unaligned = 1,
							      .count = n});
}

/* Several of them in a group, on both kinds of streams: each has its own memory until the group has ended. */
static void coll_unaligned_group(struct rank *r)
{
	int device = r->rank % NCCL_DEVICES;
	char *there = device_new(device, 256, 0);
	void *streams[] = {NULL, nccl_stream(device), CU_STREAM_PER_THREAD};

	for (int i = 0; i < 3 * 3; i++) {
		int64_t x[2] = {r->rank + i, 10 * r->rank}, y[2] = {0, 0}, sum = 0;

		for (int p = 0; p < r->nranks; p++)
			sum += p;
		device_move(device, there + 1, x, sizeof(x));
		rank_did(r, coll_group_start(), "group_start");
		for (int k = 0; k < 2; k++)
			rank_did(r,
				 coll_allreduce(there + 1 + 8 * k, there + 65 + 8 * k, 1,
						COLL_INT64, COLL_SUM, r->comm, streams[i % 3]),
				 "allreduce");
		rank_did(r, coll_group_end(), "group_end");
		rank_did(r, coll_sync(r->comm), "sync");
		if (streams[i % 3])
			nccl_stream_do(device, streams[i % 3], cuStreamSynchronize);
		device_move(device, y, there + 65, sizeof(y));
		if (y[0] != sum + i * r->nranks || y[1] != 10 * sum)
			rank_fail(r, "group %d: %lld %lld", i, (long long)y[0], (long long)y[1]);
	}
	nccl_stream_do(device, streams[1], cuStreamDestroy_v2);
	device_free(device, there);
}

/* The forms with lists; the blocks are out of order and have gaps. */
static void coll_lists(struct rank *r)
{
	static const int ops[] = {COLL_SUM, COLL_AVG, CASE_SCALED_HOST, CASE_SCALED_DEVICE};

	for (int k = 0; k < ORACLE_SLOTS; k++)
		for (int i = 0; i < 4 * 2 * 2 && oracle_has_list(oracle_kinds[k]); i++)
			case_holds((struct nccl_case){.r = r,
						      .kind = oracle_kinds[k],
						      .dtype = COLL_FLOAT32,
						      .op = ops[i / 4],
						      .root = r->nranks - 1,
						      .in_place = i % 2,
						      .unaligned = i / 2 % 2,
						      .list = 1,
						      .count = i == 1 ? 0 : CASE_COUNT});
	nccl_works(r);
}

/* A reduce_scatter_list that is refused has issued none of its reduces, so no rank waits for another. */
static void coll_lists_refused(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES, other = (device + 1) % NCCL_DEVICES;
	int64_t x[4] = {1, 1, 1, 1}, here = 0, *there = nccl_new(device, x, 4),
		*elsewhere = nccl_new(other, x, 1);
	const void *list[] = {there, there + 1, there + 2};

	nccl_fails(r, coll_reduce_scatter_list(list, &here, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED, "recvbuf is host memory", "a result on the host");
	nccl_fails(
		r,
		coll_reduce_scatter_list(list, elsewhere, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		COLL_ERR_INVALID_ARGUMENT, "recvbuf is memory of CUDA device",
		"a result on another device");
	rank_did(r, coll_sync(r->comm), "sync");
	rank_did(r,
		 coll_reduce_scatter_list(list, there + 3, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		 "reduce_scatter_list");
	rank_did(r, coll_sync(r->comm), "sync");
	if (nccl_value(device, there + 3) != r->nranks)
		rank_fail(r, "the sum is %lld", (long long)nccl_value(device, there + 3));
	device_free(device, there);
	device_free(other, elsewhere);
}

/* With check_buffers = yes: the buffer of another call of the group is the last of the list. */
static void coll_lists_overlap(struct rank *r)
{
	const int device = r->rank % NCCL_DEVICES;
	int64_t x[5] = {1, 1, 1, 1, 1}, *there = nccl_new(device, x, 5);
	const void *list[] = {there, there + 1, there + 2};

	rank_did(r, coll_group_start(), "group_start");
	rank_did(r, coll_allreduce(there + 4, there + 2, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		 "allreduce");
	nccl_fails(
		r,
		coll_reduce_scatter_list(list, there + 3, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		COLL_ERR_INVALID_USAGE,
		"operation 2 of the group: its send buffer overlaps the receive buffer of "
		"operation 1, allreduce",
		"a list");
	rank_did(r, coll_group_end(), "group_end");
	rank_did(r, coll_sync(r->comm), "sync");
	if (nccl_value(device, there + 2) != r->nranks || nccl_value(device, there + 3) != 1)
		rank_fail(r, "%lld, %lld", (long long)nccl_value(device, there + 2),
			  (long long)nccl_value(device, there + 3));
	device_free(device, there);
}

/* Managed memory, which NCCL takes too. */
static void coll_managed(struct rank *r)
{
	int device = r->rank % NCCL_DEVICES;
	int64_t x = r->rank + 1, y = 0, *there = device_new(device, 64, 1);

	device_move(device, there, &x, sizeof(x));
	rank_did(r, coll_allreduce(there, there + 1, 1, COLL_INT64, COLL_MAX, r->comm, NULL),
		 "allreduce");
	rank_did(r, coll_sync(r->comm), "sync");
	device_move(device, &y, there + 1, sizeof(y));
	if (y != r->nranks)
		rank_fail(r, "the largest is %lld", (long long)y);
	device_free(device, there);
}

enum { LARGE = 1 << 20 };

static void coll_large(struct rank *r)
{
	int device = r->rank % NCCL_DEVICES, bad = 0;
	float *x = malloc(LARGE * sizeof(*x)), *there = device_new(device, LARGE * sizeof(*x), 0);

	for (int i = 0; x && i < LARGE; i++)
		x[i] = (float)(i % 1000 + r->rank);
	device_move(device, there, x, LARGE * sizeof(*x));
	rank_did(r, coll_allreduce(there, there, LARGE, COLL_FLOAT32, COLL_SUM, r->comm, NULL),
		 "allreduce");
	rank_did(r, coll_sync(r->comm), "sync");
	device_move(device, x, there, LARGE * sizeof(*x));
	for (int i = 0; i < LARGE; i++)
		bad += x[i] != (float)(r->nranks * (i % 1000) + r->nranks * (r->nranks - 1) / 2);
	if (bad)
		rank_fail(r, "%d elements are wrong", bad);
	device_free(device, there);
	free(x);
}

/* No rank leaves the barrier before the last rank has entered. */
static void coll_barriers(struct rank *r)
{
	_Atomic int *came = r->user;

	for (int i = 1; i <= 5; i++) {
		ranks_sleep(0.01 * ((r->rank + i) % 3));
		atomic_fetch_add(came, 1);
		rank_did(r, coll_barrier(r->comm), "barrier");
		if (atomic_load(came) < i * r->nranks)
			rank_fail(r, "barrier %d let a rank go early", i);
	}
}

/* -------------------------------------------------------------------- refused calls -- */

/* Does the call fail with an error text that contains a name and the backend's name? */
static void coll_refused(struct rank *r, int code, const char *name, const char *what)
{
	const char *text;

	if (!code)
		code = coll_sync(r->comm);
	text = coll_get_last_error(NULL);
	if (code != COLL_ERR_UNSUPPORTED || !strstr(text, name) || !strcasestr(text, "nccl"))
		rank_fail(r, "%s: %d (%s)", what, code, text);
}

static void coll_no_type(struct rank *r)
{
	static const int types[] = {COLL_INT16, COLL_UINT16};
	char *there = device_new(r->rank, 1024, 0);

	for (int t = 0; t < 2; t++) {
		const char *name = coll_dtype_name(types[t]);

		for (int op = COLL_SUM; op <= COLL_AVG; op++)
			coll_refused(r,
				     coll_allreduce(there, there, 4, types[t], op, r->comm, NULL),
				     name, "allreduce");
		coll_refused(r, coll_reduce(there, there, 4, types[t], COLL_SUM, 0, r->comm, NULL),
			     name, "reduce");
		coll_refused(r,
			     coll_reduce_scatter(there, there + 512, 4, types[t], COLL_SUM, r->comm,
						 NULL),
			     name, "reduce_scatter");
	}
	nccl_works(r);
	device_free(r->rank, there);
}

static void coll_no_op(struct rank *r)
{
	char *there = device_new(r->rank, 1024, 0);
	const float two[2] = {2, 0};
	coll_op_t made;

	for (int op = COLL_BAND; op <= COLL_BXOR; op++) {
		coll_refused(r, coll_allreduce(there, there, 4, COLL_INT32, op, r->comm, NULL),
			     "bitwise", "allreduce");
		coll_refused(r, coll_reduce(there, there, 4, COLL_UINT8, op, 0, r->comm, NULL),
			     "bitwise", "reduce");
	}
	for (int op = COLL_LAND; op <= COLL_LXOR; op++)
		coll_refused(r, coll_allreduce(there, there, 4, COLL_INT32, op, r->comm, NULL),
			     "logical", "allreduce");
	coll_refused(r, coll_allreduce(there, there, 4, COLL_BOOL, COLL_LXOR, r->comm, NULL),
		     "logical", "allreduce of bool");
	coll_refused(
		r, coll_allreduce(there, there, 4, COLL_FLOAT64_INT32, COLL_MINLOC, r->comm, NULL),
		"reductions of pairs (minloc)", "allreduce of pairs");
	coll_refused(r, coll_allreduce(there, there, 4, COLL_COMPLEX64, COLL_PROD, r->comm, NULL),
		     "complex numbers but by sum and avg", "a product of complex numbers");
	if (rank_did(r,
		     coll_red_op_create_pre_mul_sum(&made, two, COLL_COMPLEX64,
						    COLL_SCALAR_HOST_IMMEDIATE, r->comm),
		     "a scale of complex numbers"))
		coll_refused(r,
			     coll_allreduce(there, there, 4, COLL_COMPLEX64, made, r->comm, NULL),
			     "scale or combine the data outside", "scaled complex numbers");
	rank_did(r, coll_red_op_destroy(made, r->comm), "red_op_destroy");
	nccl_works(r);
	device_free(r->rank, there);
}

/*
 * All and any of bools are NCCL's least and greatest of bytes, and so are products and sums.  Each call is made twice: an
 * engine gets a repeated call on a way of its own.
 */
static void coll_bool(struct rank *r)
{
	static const int32_t ops[] = {COLL_LAND, COLL_LOR, COLL_SUM, COLL_PROD, COLL_MIN, COLL_MAX};

	for (int k = 0; k < ORACLE_SLOTS; k++)
		for (int i = 0; i < 6 * 2 * 2 && oracle_reduces(oracle_kinds[k]); i++)
			case_holds((struct nccl_case){.r = r,
						      .kind = oracle_kinds[k],
						      .dtype = COLL_BOOL,
						      .op = ops[i / 4],
						      .root = r->nranks - 1,
						      .in_place = i / 2 % 2,
						      .count = CASE_COUNT});
}

/* Sums and averages of complex numbers are NCCL's of their parts. */
static void coll_complex(struct rank *r)
{
	for (int k = 0; k < ORACLE_SLOTS; k++)
		for (int i = 0; i < 2 * 2 * 2 && oracle_reduces(oracle_kinds[k]); i++)
			case_holds((struct nccl_case){.r = r,
						      .kind = oracle_kinds[k],
						      .dtype = i % 2 ? COLL_COMPLEX64
								     : COLL_COMPLEX128,
						      .op = i / 2 % 2 ? COLL_SUM : COLL_AVG,
						      .root = r->nranks - 1,
						      .in_place = i / 4,
						      .unaligned = i / 4,
						      .count = CASE_COUNT});
}

/* Without a companion there is nothing that such an operation could work on. */
static void coll_no_user_op(struct rank *r)
{
	coll_op_t op = 0;
	int16_t two = 2;

	nccl_fails(r,
		   coll_red_op_create_pre_mul_sum(&op, &two, COLL_INT16, COLL_SCALAR_HOST_IMMEDIATE,
						  r->comm),
		   COLL_ERR_UNSUPPORTED, "int16", "a scale of int16");
	nccl_works(r);
}

static void coll_no_float8(struct rank *r)
{
	coll_op_t op = 0;
	int8_t two = 0x40;

	nccl_fails(r,
		   coll_red_op_create_pre_mul_sum(&op, &two, COLL_FLOAT8E4M3,
						  COLL_SCALAR_HOST_IMMEDIATE, r->comm),
		   COLL_ERR_UNSUPPORTED,
		   coll_old ? "does not reduce float8" : "does not multiply float8 on one rank",
		   "a scale");
	nccl_works(r);
}

/* Of one call, one buffer is on the host; then there is no companion. */
static void coll_two_memories(struct rank *r)
{
	int64_t here[8] = {0}, *there = nccl_new(r->rank, here, 8);

	nccl_fails(r, coll_allreduce(here, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED,
		   "allreduce: sendbuf is host memory, but recvbuf is CUDA memory of device",
		   "a send buffer of the host");
	nccl_fails(r, coll_allreduce(there, here, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED, "or pass host memory", "a receive buffer of the host");
	nccl_works(r);
	device_free(r->rank, there);
}

static void coll_host_memory(struct rank *r)
{
	int64_t here[8] = {0}, *there = nccl_new(r->rank, here, 8);

	nccl_fails(r, coll_allreduce(here, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED,
		   "allreduce: sendbuf is host memory, which backend 'nccl' does not take",
		   "a send buffer of the host");
	nccl_fails(r, coll_allreduce(here, here, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED, "with a companion (option companion)",
		   "buffers of the host");
	nccl_fails(r, coll_allreduce(there, here, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED, "allreduce: recvbuf is host memory",
		   "a receive buffer of the host");
	nccl_fails(r, coll_scan(here, here, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED,
		   "scan: backend 'nccl' has neither this operation nor a transport", "scan");
	nccl_fails(r, coll_send(here, 1, COLL_INT64, 0, 0, r->comm, NULL), COLL_ERR_UNSUPPORTED,
		   "send: sendbuf is host memory", "a message of the host");
	nccl_works(r);
	device_free(r->rank, there);
}

/* The library finds wrong arguments before NCCL sees the call. */
static void coll_wrong(struct rank *r)
{
	int64_t *there = device_new(r->rank, 64, 0);
	coll_comm_t none = NULL;

	nccl_fails(r, coll_broadcast(there, there, 1, COLL_INT64, r->nranks, r->comm, NULL),
		   COLL_ERR_INVALID_ARGUMENT, "root is", "a root too large");
	nccl_fails(r, coll_reduce(there, there, 1, COLL_INT64, COLL_SUM, -1, r->comm, NULL),
		   COLL_ERR_INVALID_ARGUMENT, "root is -1", "a negative root");
	nccl_fails(r, coll_send(there, 1, COLL_INT64, 77, 0, r->comm, NULL),
		   COLL_ERR_INVALID_ARGUMENT, "peer is 77", "a peer that is not there");
	nccl_fails(r, coll_allreduce(there, there, 1, 99, COLL_SUM, r->comm, NULL),
		   COLL_ERR_INVALID_ARGUMENT, "dtype 99", "a type that is none");
	nccl_fails(r, coll_allreduce(there, NULL, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
		   COLL_ERR_INVALID_ARGUMENT, "recvbuf is NULL", "no buffer");
	nccl_fails(r, coll_allreduce(there, there + 1, 4, COLL_INT64, COLL_SUM, r->comm, NULL),
		   COLL_ERR_INVALID_ARGUMENT, "overlap", "buffers that overlap");
	nccl_fails(r, coll_comm_init_rank(&none, 2, "id", 2, NULL), COLL_ERR_INVALID_ARGUMENT,
		   "rank is 2", "a rank that is not there");
	nccl_works(r);
	device_free(r->rank, there);
}

/* -------------------------------------------------------------------- messages -- */

/*
 * Each rank sends to the next rank and receives from the rank before.  NCCL matches by order, so
 * tags need not agree.
 */
static void coll_messages(struct rank *r)
{
	int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;
	int64_t x[4] = {10 * r->rank, 10 * r->rank + 1, 0, 0}, *there = nccl_new(r->rank, x, 4);

	rank_did(r, coll_group_start(), "group_start");
	for (int i = 0; i < 2; i++) {
		rank_did(r,
			 coll_send(there + i, 1, COLL_INT64, next, 7 + (uint32_t)i, r->comm, NULL),
			 "send");
		rank_did(r,
			 coll_recv(there + 2 + i, 1, COLL_INT64, before, 100 - (uint32_t)i, r->comm,
				   NULL),
			 "recv");
	}
	rank_did(r, coll_group_end(), "group_end");
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 0; i < 2; i++)
		if (nccl_value(r->rank, there + 2 + i) != 10 * before + i)
			rank_fail(r, "message %d is %lld", i,
				  (long long)nccl_value(r->rank, there + 2 + i));
	device_free(r->rank, there);
}

/* Without a group one rank sends and the other receives. */
static void coll_one_way(struct rank *r)
{
	int16_t x[2] = {(int16_t)(r->rank + 1), 0}, y[2], *there = device_new(r->rank, 64, 0);

	device_move(r->rank, there, x, sizeof(x));
	rank_did(r,
		 r->rank == 0 ? coll_send(there, 1, COLL_INT16, 1, 0, r->comm, NULL)
			      : coll_recv(there + 1, 1, COLL_INT16, 0, 0, r->comm, NULL),
		 "message");
	rank_did(r, coll_sync(r->comm), "sync");
	device_move(r->rank, y, there, sizeof(y));
	if (r->rank == 1 && y[1] != 1)
		rank_fail(r, "the message is %d", y[1]);
	device_free(r->rank, there);
}

static void coll_any_source(struct rank *r)
{
	int64_t *there = device_new(r->rank, 64, 0);
	int code = coll_recv(there, 1, COLL_INT64, COLL_ANY_SOURCE, 0, r->comm, NULL);

	if (!code)
		code = coll_sync(r->comm);
	nccl_fails(r, code, COLL_ERR_UNSUPPORTED, "NCCL", "any source");
	nccl_fails(r, code, COLL_ERR_UNSUPPORTED, "any source", "any source");
	nccl_works(r);
	device_free(r->rank, there);
}

static void coll_no_messages(struct rank *r)
{
	int64_t *there = device_new(r->rank, 64, 0);
	coll_request_t request;
	int code = coll_irecv(there, 1, COLL_INT64, 0, 0, r->comm, &request);

	nccl_fails(r, code, COLL_ERR_UNSUPPORTED, "carries no messages", "outside the order");
	nccl_works(r);
	device_free(r->rank, there);
}

/* ------------------------------------------------------------------- NCCL 2.18 -- */

/*
 * The plugin uses functions of newer NCCL versions if they exist, and composes them of messages if
 * not.
 */
static void test_newest(void)
{
	static const char *const names[] = {"ncclAlltoAll", "ncclGather", "ncclScatter"};

	for (int i = 0; i < 3; i++)
		ok((nccl_calls(names[i]) > 0) == !coll_old, "%s is %s", names[i],
		   coll_old ? "not there" : "used");
	ok(nccl_calls("ncclSend") > 0 && nccl_calls("ncclRecv") > 0, "so are messages");
}

static void old_shrink(struct rank *r)
{
	const int32_t last = r->nranks - 1;
	coll_comm_t rest = NULL;

	if (r->rank != last) {
		nccl_fails(r, coll_comm_shrink(r->comm, &last, 1, &rest, NULL, 0),
			   COLL_ERR_UNSUPPORTED, "2.27", "shrink");
		nccl_fails(r, COLL_ERR_UNSUPPORTED, COLL_ERR_UNSUPPORTED, "2.18.5", "shrink");
	}
	nccl_works(r);
}

static void old_float8(struct rank *r)
{
	char *there = device_new(r->rank, 64, 0);

	nccl_fails(r, coll_allreduce(there, there, 4, COLL_FLOAT8E4M3, COLL_SUM, r->comm, NULL),
		   COLL_ERR_UNSUPPORTED, "2.24", "float8");
	nccl_works(r);
	device_free(r->rank, there);
}

static void old_split(struct rank *r)
{
	coll_comm_t half = NULL;

	if (rank_did(r, coll_comm_split(r->comm, r->rank % 2, 0, &half, NULL), "split")) {
		nccl_sums(r, half, r->rank, 1, r->nranks / 2, "half");
		rank_did(r, coll_comm_destroy(half), "destroy");
	}
}

/* Registering has no effect in that NCCL, and succeeds. */
static void old_register(struct rank *r)
{
	char *there = device_new(r->rank, 64, 0);
	void *handle = NULL;

	rank_did(r, coll_comm_register(r->comm, there, 64, &handle), "register");
	rank_did(r, coll_comm_deregister(r->comm, handle), "deregister");
	device_free(r->rank, there);
}

static void test_old(void)
{
	int (*version)(int *), found = 0;
	void *symbol;

	nccl_ok(&(struct nccl_job){3, 0, INIT_ALL, old_shrink, NULL},
		"shrink: refused, both versions are named");
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, old_float8, NULL}, "float8: refused");
	nccl_ok(&(struct nccl_job){4, 0, INIT_ALL, old_split, NULL}, "split");
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, old_register, NULL}, "registered memory");
	symbol = nccl_symbol("ncclGetVersion");
	memcpy(&version, &symbol, sizeof(symbol));
	ok(!version(&found) && found == 21805, "this was NCCL 2.18.5");
}

/* -------------------------------------------------------------------- main -- */

static void test_refusals(void)
{
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, coll_no_type, NULL},
		"int16 and uint16 move, but are not reduced: named, and nothing breaks");
	nccl_ok(&(struct nccl_job){3, 0, INIT_ALL, coll_bool, NULL}, "all and any of bools");
	nccl_ok(&(struct nccl_job){3, 0, INIT_ALL, coll_complex, NULL},
		"sums and averages of complex numbers");
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, coll_no_op, NULL},
		"bitwise operations: refused in a sentence");
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, coll_two_memories, NULL},
		"memory of the host and of a device in one call: refused");
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, coll_wrong, NULL},
		"wrong arguments: refused before NCCL sees them");
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, coll_any_source, NULL},
		"a receive from any source: refused");
	nccl_ok(&(struct nccl_job){3, 0, INIT_ALL, coll_lists_refused, NULL},
		"lists: refused as a whole");
	setenv("COLL_CHECK_BUFFERS", "yes", 1);
	nccl_ok(&(struct nccl_job){3, 0, INIT_ALL, coll_lists_overlap, NULL},
		"lists that overlap in a group: refused as a whole");
	unsetenv("COLL_CHECK_BUFFERS");
	setenv("COLL_COMPANION", "none", 1);
	nccl_ok(&(struct nccl_job){1, 0, INIT_ALL, coll_no_float8, NULL},
		"one rank, a scaled sum of float8: refused by name");
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, coll_no_user_op, NULL},
		"a scaled sum of int16 without a companion: refused by name");
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, coll_host_memory, NULL},
		"host memory without a companion: refused before NCCL sees it");
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, coll_no_messages, NULL},
		"a message outside the order without a companion: refused");
	unsetenv("COLL_COMPANION");
}

static void test_messages(void)
{
	for (int nranks = 1; nranks <= 4; nranks++)
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, coll_messages, NULL},
			"messages round a ring, tags ignored");
	nccl_ok(&(struct nccl_job){2, 0, INIT_ALL, coll_one_way, NULL}, "one message of int16");
}

int main(int argc, char **argv)
{
	_Atomic int came = 0;

	coll_old = argc > 1;
	nccl_begin(argv, argc > 1 ? argv[1] : ".libs");
	nccl_hold_devices();
	for (int nranks = 1; nranks <= 4; nranks++)
		if (!ranks_small() || nranks == 3 || nranks == 4)
			test_collectives(nranks);
	for (int nranks = 1; nranks <= 4; nranks += 3) {
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, coll_empty, NULL}, "zero counts");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, coll_lists, NULL},
			"lists of buffers");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, coll_persistent, NULL},
			"persistent requests, every collective");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, coll_unaligned, NULL},
			"buffers at any byte, every collective");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, coll_unaligned_group, NULL},
			"buffers at any byte, in groups");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, coll_managed, NULL},
			"managed memory");
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, coll_large, NULL}, "4 MiB");
		atomic_store(&came, 0);
		nccl_ok(&(struct nccl_job){nranks, 0, INIT_ALL, coll_barriers, &came}, "barrier");
	}
	test_messages();
	test_refusals();
	test_newest();
	if (coll_old)
		test_old();
	return done_testing();
}
