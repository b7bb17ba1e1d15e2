/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * gpu_coll.c - every collective with every data type and operation, in place and out of place, from
 * every kind of root, on the communicator's stream and on the program's own.
 */
#include <math.h>
#include <stdint.h>
#include <string.h>
#include "gpu.h"

/* LONG is longer than the pieces into which engines cut messages; a stand-in does not cut. */
enum { COUNT = 999, LONG = 100003, LONG_STANDIN = 10007 };

/* Root, place and stream alternate with the variant. */
static struct gpu_call coll_call(const struct gpu *g, int32_t kind, int32_t dtype, size_t count,
				 int variant)
{
	const struct oracle_format *f = oracle_format(dtype);

	return (struct gpu_call){
		.c = {.kind = kind,
		      .dtype = dtype,
		      .count = count,
		      .root = variant & 1 ? g->nranks - 1 : 0,
		      .place = variant >> 1 & 1,
		      .gaps = variant % 3 != 0,
		      .aligned = 1,
		      /* Rounding errors of 8-bit floats are too large for a comparison. */
		      .inputs = f->size > 1 ? ORACLE_ROUGH : ORACLE_EXACT,
		      .near = 1},
		.stream = variant & 4 && g->native ? g->stream : NULL,
	};
}

/* All variants of one type: few elements, none, many. */
static void coll_variants(const struct gpu *g, int32_t kind, size_t count)
{
	struct gpu_call call;

	for (int variant = 0; variant < 8; variant++) {
		call = coll_call(g, kind, COLL_FLOAT32, count, variant);
		gpu_call(g, &call);
		if (variant == 3 && (count > COUNT || !g->native))
			break;
	}
}

static void coll_counts(const struct gpu *g, int32_t kind)
{
	size_t many = gpu_is_standin ? LONG_STANDIN : LONG;

	coll_variants(g, kind, 0);
	gpu_report("%s of no elements", coll_kind_name(kind));
	coll_variants(g, kind, 1);
	gpu_report("%s of one element for each rank", coll_kind_name(kind));
	if (!g->small) {
		coll_variants(g, kind, many);
		gpu_report("%s of %zu elements", coll_kind_name(kind), many);
	}
}

void gpu_move(struct gpu *g)
{
	struct gpu_call call;

	for (int k = 0; k < ORACLE_SLOTS; k++) {
		if (oracle_reduces(oracle_kinds[k]))
			continue;
		for (int d = 0; d < oracle_dtype_count; d++) {
			call = coll_call(g, oracle_kinds[k], oracle_dtypes[d], COUNT, d);
			gpu_call(g, &call);
		}
		gpu_report("%s of every type", coll_kind_name(oracle_kinds[k]));
		coll_counts(g, oracle_kinds[k]);
	}
}

/* --------------------------------------------------------------- reductions -- */

/* Combinations that vendors' engines need not support. */
static int coll_is_extra(const struct gpu *g, int32_t dtype, int32_t op)
{
	if (dtype == COLL_BOOL && op != COLL_LXOR)
		return 0;
	if (oracle_is_complex(dtype))
		return g->native && op == COLL_PROD;
	return g->native && (dtype == COLL_INT16 || dtype == COLL_UINT16 || op >= COLL_BAND);
}

static int coll_is_fp8(int32_t dtype)
{
	return dtype == COLL_FLOAT8E4M3 || dtype == COLL_FLOAT8E5M2;
}

/*
 * Runs one combination.  An error text that names the missing part is right for combinations that
 * the engine need not support, and for 8-bit floats, which older devices do not reduce.
 */
static void reduce_one(const struct gpu *g, int32_t kind, int32_t dtype, int32_t op, int variant)
{
	struct gpu_call call = coll_call(g, kind, dtype, COUNT, variant);
	coll_result_t code;

	call.c.op = op;
	code = gpu_try(g, &call);
	if (coll_is_extra(g, dtype, op)) {
		gpu_refused(code, COLL_ERR_UNSUPPORTED, "", "a reduction that the backend has not");
	} else if (code == COLL_ERR_UNSUPPORTED && g->native && coll_is_fp8(dtype)) {
		if (kind == COLL_KIND_ALLREDUCE && op == COLL_SUM)
			gpu_say("note|%s", coll_get_last_error(NULL));
	} else if (code) {
		gpu_fail("%s of %s, %s: %d, %s", coll_kind_name(kind), coll_dtype_name(dtype),
			 coll_op_name(op), code, coll_get_last_error(NULL));
	}
}

/* Prints the result of MIN and MAX if one rank has NaN; the library makes no promise about it. */
static void reduce_nan(const struct gpu *g, int32_t op)
{
	float x = g->rank ? (float)g->rank : NAN;

	gpu_copy(g->send, &x, sizeof(x));
	if (gpu_did(coll_allreduce(g->send, g->recv, 1, COLL_FLOAT32, op, g->comm, NULL), "NaN") &&
	    gpu_did(coll_sync(g->comm), "NaN")) {
		gpu_copy(&x, g->recv, sizeof(x));
		if (g->rank == 0 && g->native)
			gpu_say("note|%s of float32 on %d ranks, one of them NaN: %g",
				coll_op_name(op), g->nranks, (double)x);
		else if (!isnan(x) && !g->native)
			gpu_fail("%s lost a NaN: %g", coll_op_name(op), (double)x);
	}
	gpu_report("%s where a rank has a NaN", coll_op_name(op));
}

static void reduce_scaled(const struct gpu *g, int32_t kind, int32_t dtype, int32_t residence,
			  int variant)
{
	struct gpu_call call = coll_call(g, kind, dtype, COUNT, variant);
	const struct oracle_format *f = oracle_format(dtype);
	char bytes[ORACLE_ELEM_MAX], *scalar = bytes;

	call.c.op = ORACLE_SCALED;
	oracle_store(f, bytes, 0, oracle_code(f, oracle_scale(f, g->rank)));
	if (residence == COLL_SCALAR_DEVICE) {
		scalar = g->send + GPU_ARENA - 64;
		gpu_copy(scalar, bytes, (size_t)f->size);
	}
	if (!gpu_did(coll_red_op_create_pre_mul_sum(&call.made, scalar, dtype, residence, g->comm),
		     "coll_red_op_create_pre_mul_sum"))
		return;
	gpu_call(g, &call);
	gpu_did(coll_red_op_destroy(call.made, g->comm), "coll_red_op_destroy");
}

static void reduce_all_scaled(const struct gpu *g)
{
	const int32_t types[] = {COLL_FLOAT32, COLL_FLOAT64, COLL_FLOAT16, COLL_INT32};
	const char *const where[] = {"device", "host"};

	for (int residence = 0; residence < 2; residence++) {
		for (int k = 0; k < ORACLE_SLOTS; k++)
			for (int d = 0; d < 4 && oracle_reduces(oracle_kinds[k]); d++)
				reduce_scaled(g, oracle_kinds[k], types[d], residence, d);
		gpu_report("sums of multiplied inputs, scalar in %s memory", where[residence]);
	}
}

/* Every type with the operation. */
static void reduce_types(const struct gpu *g, int32_t kind, int32_t op, int *variant)
{
	for (int d = 0; d < oracle_dtype_count; d++)
		if (oracle_op_fits(op, oracle_dtypes[d]))
			reduce_one(g, kind, oracle_dtypes[d], op, (*variant)++);
	gpu_report("%s: %s of every type", coll_kind_name(kind), coll_op_name(op));
}

void gpu_reduce(struct gpu *g)
{
	int variant = 0;

	for (int k = 0; k < ORACLE_SLOTS; k++) {
		if (!oracle_reduces(oracle_kinds[k]))
			continue;
		for (int o = 0; o < oracle_op_count; o++)
			reduce_types(g, oracle_kinds[k], oracle_ops[o], &variant);
		coll_counts(g, oracle_kinds[k]);
	}
	reduce_all_scaled(g);
	reduce_nan(g, COLL_MIN);
	reduce_nan(g, COLL_MAX);
}
