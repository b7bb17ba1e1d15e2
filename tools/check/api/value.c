/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * value.c - promises of reductions beyond exact sums: NaN, quotients, the same bits on all ranks,
 * and in reproducible mode the same bits whichever algorithm ran.
 */
#include "check/api/api.h"
#include <string.h>

static const int32_t value_floats[] = {COLL_FLOAT16, COLL_BFLOAT16,   COLL_FLOAT32,
				       COLL_FLOAT64, COLL_FLOAT8E4M3, COLL_FLOAT8E5M2};
enum { VALUE_FLOATS = 6, VALUE_LONG = 20011, VALUE_ELEMENTS = 32 };

static int value_reduce(struct api_rank *r, void *x, size_t count, int32_t dtype, int32_t op)
{
	return api_did(r, coll_allreduce(x, x, count, dtype, op, r->comm, NULL),
		       "coll_allreduce") &&
	       api_did(r, coll_sync(r->comm), "coll_sync");
}

/* Has the backend the type?  A vendor's engine may lack it; all ranks get the same answer. */
static int value_has(struct api_rank *r, int32_t dtype)
{
	unsigned char *x = api_buffer(r, ORACLE_ELEM_MAX);
	coll_result_t code = coll_allreduce(x, x, 1, dtype, COLL_MAX, r->comm, NULL);

	code = code ? code : coll_sync(r->comm);
	return !api_pass_over(r, code);
}

/* ------------------------------------------------------------------------ NaN -- */

/* May a NaN get lost?  A plugin cannot change the arithmetic of a vendor's engine. */
static int value_nan_lost(struct api_rank *r, int32_t dtype, int32_t op, int32_t rank)
{
	if (!api_may_lack(r))
		return api_fail(r, "%s of %s lost the NaN of rank %d", coll_op_name(op),
				coll_dtype_name(dtype), rank);
	check_skip(r->c, "the engine's %s of %s loses the NaN of rank %d", coll_op_name(op),
		   coll_dtype_name(dtype), rank);
	return 0;
}

/* Element k is NaN on rank k and a number on the other ranks. */
static int value_nan_one(struct api_rank *r, int32_t dtype, int32_t op)
{
	const struct oracle_format *f = oracle_format(dtype);
	unsigned char *x = api_buffer(r, (size_t)VALUE_ELEMENTS * ORACLE_ELEM_MAX);
	size_t n = (size_t)r->nranks;
	uint64_t wanted = oracle_code(f, op == COLL_MIN ? -2 : (n > 4 ? 4 : r->nranks) - 3);

	for (size_t i = 0; i < VALUE_ELEMENTS; i++)
		oracle_store(f, x, i,
			     i == (size_t)r->rank ? oracle_sign(f) - 1
						  : oracle_code(f, r->rank % 4 - 2));
	if (!value_reduce(r, x, VALUE_ELEMENTS, dtype, op))
		return 0;
	for (size_t i = 0; i < VALUE_ELEMENTS; i++) {
		if (i < n && !oracle_is_nan(f, oracle_load(f, x, i)))
			return value_nan_lost(r, dtype, op, (int32_t)i);
		if (i >= n && oracle_load(f, x, i) != wanted)
			return api_fail(r, "%s of %s: element %zu without NaN is wrong",
					coll_op_name(op), coll_dtype_name(dtype), i);
	}
	atomic_fetch_add(&r->c->shared->calls, r->rank == 0);
	return 1;
}

static void value_nan(struct api_rank *r)
{
	for (int t = 0; t < VALUE_FLOATS; t++)
		if (value_has(r, value_floats[t]) &&
		    (!value_nan_one(r, value_floats[t], COLL_MAX) ||
		     !value_nan_one(r, value_floats[t], COLL_MIN)))
			return;
}

/* ------------------------------------------------------------------- averages -- */

/* The average of a one and zeros is 1 / nranks, rounded once. */
static void value_average(struct api_rank *r)
{
	float *f = api_buffer(r, sizeof(*f));
	double *d = api_buffer(r, sizeof(*d));
	int32_t *i = api_buffer(r, sizeof(*i));

	*f = r->rank == 0;
	*d = r->rank == 0;
	*i = -7;
	if (!value_reduce(r, f, 1, COLL_FLOAT32, COLL_AVG) ||
	    !value_reduce(r, d, 1, COLL_FLOAT64, COLL_AVG) ||
	    !value_reduce(r, i, 1, COLL_INT32, COLL_AVG))
		return;
	if (*f != 1.0F / (float)r->nranks || *d != 1.0 / r->nranks || *i != -7)
		api_fail(r, "averages are %.9g (float32), %.17g (float64) and %d (int32)",
			 (double)*f, *d, *i);
	*i = r->rank == 0 ? -r->nranks - 1 : 0;
	if (value_reduce(r, i, 1, COLL_INT32, COLL_AVG) && *i != (r->nranks == 1 ? -2 : -1))
		api_fail(r, "%d / %d was not rounded towards zero but to %d", -r->nranks - 1,
			 r->nranks, *i);
}

/* ------------------------------------------------------------------ equal bits -- */

static uint64_t value_hash(uint64_t hash, const void *data, size_t bytes)
{
	const unsigned char *x = data;

	for (size_t i = 0; i < bytes; i++)
		hash = oracle_mix(hash, x[i]);
	return hash;
}

/* Describes inputs whose sums and products must be rounded. */
static struct oracle_data value_rough(const struct api_rank *r, int32_t dtype, int32_t op)
{
	return (struct oracle_data){
		.dtype = dtype, .op = op, .nranks = r->nranks, .inputs = ORACLE_ROUGH};
}

static void value_fill(const struct api_rank *r, unsigned char *x, int32_t dtype, int32_t op,
		       size_t first, size_t count)
{
	const struct oracle_data d = value_rough(r, dtype, op);

	for (size_t i = 0; i < count; i++)
		oracle_store(oracle_format(dtype), x, i, oracle_input(&d, r->rank, first + i));
}

/* Have all ranks the same number? */
static int value_agree(struct api_rank *r, uint64_t mine, const char *what)
{
	uint64_t all[CHECK_RANKS];

	if (check_exchange(r->c, r->slot, &r->step, &mine, all, sizeof(mine), r->c->timeout_ms))
		return api_fail(r, "the other ranks did not come to compare results");
	for (int32_t i = 0; i < r->nranks; i++)
		if (all[i] != mine)
			return api_fail(r, "%s: the bits differ from those of rank %d", what, i);
	return 1;
}

static int value_same_type(struct api_rank *r, int32_t dtype, unsigned char *x)
{
	static const size_t counts[] = {1, 7, 1000, VALUE_LONG};
	static const int32_t ops[] = {COLL_SUM, COLL_PROD, COLL_AVG, COLL_MAX};
	size_t elem = coll_dtype_size(dtype);
	uint64_t hash = 1, first;

	for (int n = 0; n < 4; n++)
		for (int op = 0; op < 4; op++) {
			value_fill(r, x, dtype, ops[op], 0, counts[n]);
			if (!value_reduce(r, x, counts[n], dtype, ops[op]))
				return 0;
			hash = value_hash(hash, x, counts[n] * elem);
			first = value_hash(1, x, counts[n] * elem);
			value_fill(r, x, dtype, ops[op], 0, counts[n]);
			if (!value_reduce(r, x, counts[n], dtype, ops[op]))
				return 0;
			if (value_hash(1, x, counts[n] * elem) != first)
				return api_fail(r, "%s of %zu %s twice gives different bits",
						coll_op_name(ops[op]), counts[n],
						coll_dtype_name(dtype));
		}
	atomic_fetch_add(&r->c->shared->calls, r->rank == 0);
	return value_agree(r, hash, coll_dtype_name(dtype));
}

static void value_same_bits(struct api_rank *r)
{
	unsigned char *x = api_buffer(r, (size_t)VALUE_LONG * ORACLE_ELEM_MAX);
	int good = 1;

	for (int t = 0; t < VALUE_FLOATS && good; t++)
		if (value_has(r, value_floats[t]))
			good = value_same_type(r, value_floats[t], x);
}

/* --------------------------------------------------------------- reproducible -- */

/* Reduces the same elements by another call.  y has space for the input and the output. */
static int value_again(struct api_rank *r, const float *wanted, size_t first, size_t count,
		       int32_t kind, float *y)
{
	unsigned char *send = (unsigned char *)y;
	size_t parts = kind == COLL_KIND_REDUCE_SCATTER ? (size_t)r->nranks : 1, own = 0;
	coll_args_t args = {.size = sizeof(args),
			    .kind = kind,
			    .dtype = COLL_FLOAT32,
			    .op = COLL_SUM,
			    .count = count,
			    .sendbuf = y,
			    .recvbuf = y};

	value_fill(r, send, COLL_FLOAT32, COLL_SUM, first, count * parts);
	if (parts > 1) {
		own = count * (size_t)r->rank;
		args.recvbuf = y + own;
	}
	if (kind == COLL_KIND_REDUCE)
		args.root = (int32_t)(first % (size_t)r->nranks);
	if (!api_did(r, oracle_issue(&args, r->comm, NULL), coll_kind_name(kind)) ||
	    !api_did(r, coll_sync(r->comm), "coll_sync"))
		return 0;
	if (kind == COLL_KIND_REDUCE && r->rank != args.root)
		return 1;
	return !memcmp(y + own, wanted + first + own, count * sizeof(*y)) ||
	       api_fail(r, "%s of elements %zu.. (%zu) has other bits than the long allreduce",
			coll_kind_name(kind), first, count);
}

static int value_all_ways(struct api_rank *r, const float *wanted, float *y)
{
	static const size_t counts[] = {1, 3, 100, 1500};
	int good = 1;

	for (size_t i = 0; i < 4 && good; i++)
		for (size_t first = 0; first < 3 && good; first++)
			good = value_again(r, wanted, first * 7, counts[i], COLL_KIND_ALLREDUCE,
					   y) &&
			       value_again(r, wanted, first, counts[i], COLL_KIND_REDUCE, y) &&
			       value_again(r, wanted, first, counts[i] / 2 + 1,
					   COLL_KIND_REDUCE_SCATTER, y);
	return good;
}

/* Checks the result by the grouping that coll.h prescribes. */
static int value_is_tree(struct api_rank *r, const float *x)
{
	const struct oracle_data d = value_rough(r, COLL_FLOAT32, COLL_SUM);
	const struct oracle_format *f = oracle_format(COLL_FLOAT32);

	for (size_t i = 0; i < VALUE_LONG; i++) {
		uint64_t wanted = oracle_result(&d, i);

		if (oracle_load(f, x, i) != wanted)
			return api_fail(r, "element %zu is %.9g, in the prescribed grouping %.9g",
					i, (double)x[i], oracle_value(f, wanted));
	}
	return 1;
}

static void value_reproducible(struct api_rank *r)
{
	size_t bytes = VALUE_LONG * sizeof(float) * 2;
	float *x = api_buffer(r, bytes), *y = api_buffer(r, bytes);
	struct api_rank twin;
	coll_comm_t comm;

	value_fill(r, (unsigned char *)x, COLL_FLOAT32, COLL_SUM, 0, VALUE_LONG);
	if (!value_reduce(r, x, VALUE_LONG, COLL_FLOAT32, COLL_SUM) || !value_is_tree(r, x) ||
	    !value_all_ways(r, x, y) || !api_did(r, coll_comm_dup(r->comm, &comm), "coll_comm_dup"))
		return;
	if (api_derive(&twin, r, comm))
		value_all_ways(&twin, x, y);
	api_did(r, coll_comm_destroy(comm), "coll_comm_destroy");
}

/* ------------------------------------------------------------------ the table -- */

static const char *const value_reproducible_options[] = {"reproducible=yes", "segment=4K", NULL};

static const struct api_plan value_nan_plan = {.rank = value_nan};
static const struct api_plan value_average_plan = {.rank = value_average};
static const struct api_plan value_same_bits_plan = {.rank = value_same_bits};
static const struct api_plan value_reproducible_plan = {.rank = value_reproducible,
							.options = value_reproducible_options};

const struct check check_api_value[] = {
	{"value-nan", "minimum and maximum keep every NaN, in all floating-point types",
	 "coll.h, COLL_SUM ... COLL_LXOR", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &value_nan_plan},
	{"value-average", "averages are rounded once, those of integers towards zero",
	 "coll.h, COLL_SUM ... COLL_LXOR", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &value_average_plan},
	{"value-same-bits",
	 "rounded results have the same bits on every rank and from call to call",
	 "coll.h, Reproducible", CHECK_API, .needs = CHECK_CARRIED, .ways = CHECK_EITHER,
	 .run = api_run, .plan = &value_same_bits_plan},
	{"value-reproducible",
	 "with reproducible = yes results depend on inputs and rank order only",
	 "coll.h, Reproducible", CHECK_API, .needs = CHECK_CARRIED, .ways = CHECK_EITHER,
	 .run = api_run, .plan = &value_reproducible_plan},
	{.name = NULL},
};
