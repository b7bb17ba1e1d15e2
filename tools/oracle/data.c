/* SPDX-License-Identifier: BSD-3-Clause */
/* data.c - the inputs of all ranks, and the result of their reduction. */
#include <math.h>
#include <string.h>
#include "oracle/oracle.h"

enum {
	DATA_ROUNDED = 2,    /* number of ranks whose input is not 0 where quotients are rounded */
	DATA_ACTIVE = 4,     /* number of ranks whose factor in a product is not 1 or -1 */
	DATA_SCALES = 3,     /* period of the ranks' scales: 1 or 1.5, 2, 3, 1 or 1.5, ... */
	DATA_LIMIT_BITS = 30 /* larger numbers would find no further faults */
};

double oracle_scale(const struct oracle_format *f, int32_t rank)
{
	/* Halves need more mantissa than floats of 8 bits have. */
	double one = f->mantissa && f->size > 1 ? 1.5 : 1;

	return rank % DATA_SCALES ? 1 + rank % DATA_SCALES : one;
}

/* ------------------------------------------------------------------- inputs -- */

/* Returns the limit up to which all whole numbers are exact in the type. */
static int64_t data_limit(const struct oracle_format *f)
{
	int bits = f->mantissa ? f->mantissa + 1 : 8 * f->size - f->is_signed;

	bits = bits < DATA_LIMIT_BITS ? bits : DATA_LIMIT_BITS;
	return ((int64_t)1 << bits) - !f->mantissa;
}

static int64_t data_within(const struct oracle_format *f, uint64_t hash, int64_t bound)
{
	uint64_t values = (uint64_t)(f->is_signed ? 2 * bound + 1 : bound + 1);

	return (int64_t)((hash >> 32) * values >> 32) - (f->is_signed ? bound : 0);
}

/* Does the operation divide each input, and not the sum? */
static int data_divides(const struct oracle_format *f, const struct oracle_data *d)
{
	return f->mantissa && d->op == COLL_AVG;
}

/*
 * Returns an addend, bounded so that the sum of all ranks stays within the limit; with very many
 * ranks some ranks add 0.  An input that is divided by nranks is an addend times nranks.  Where the
 * type does not have such numbers, the quotient is rounded, and only two equal quotients are exact in
 * any order.
 */
static double data_addend(const struct oracle_format *f, const struct oracle_data *d, int32_t rank,
			  size_t i, uint64_t hash)
{
	/* A scale of 1.5 needs one bit more. */
	int64_t most = d->op != ORACLE_SCALED ? 1 : f->size > 1 ? 2 * DATA_SCALES : DATA_SCALES;
	int64_t limit = data_limit(f) / most;
	int64_t bound = limit / d->nranks;
	double times = data_divides(f, d) ? d->nranks : 1;

	if (!bound && oracle_value(f, oracle_code(f, times)) != times)
		limit = DATA_ROUNDED;
	if (!bound && (int64_t)(((size_t)rank + i) % (size_t)d->nranks) >= limit)
		return 0;
	return times * (double)data_within(f, hash, bound ? bound : 1);
}

/* Returns a factor.  Factors are powers of two, and few factors differ from one. */
static double data_factor(const struct oracle_data *d, int32_t rank, size_t i, uint64_t hash)
{
	static const double factors[] = {2, 0.5, -2, -0.5, 1, -1, 2, 0.5};

	if (((size_t)rank + i) % (size_t)d->nranks < DATA_ACTIVE)
		return factors[hash % 8];
	return hash & 1 ? -1 : 1;
}

static double data_special(uint64_t hash)
{
	switch (hash % 64) {
	case 0: return NAN;
	case 1: return 0.0;
	case 2: return -0.0;
	case 3: return -INFINITY;
	case 4: return INFINITY;
	default: return ((double)(hash >> 8 & 0xff) - 128) / 8;
	}
}

/*
 * Returns a number whose exponent is near the exponent of one, so that a sum is rounded in many places and never overflows.
 */
static uint64_t data_rough(const struct oracle_format *f, const struct oracle_data *d,
			   uint64_t hash)
{
	int spread = d->op == COLL_PROD ? 0 : f->bias / 2 < 12 ? f->bias / 2 : 12;
	uint64_t mantissa = hash & (((uint64_t)1 << f->mantissa) - 1);
	uint64_t exponent = (uint64_t)(f->bias - spread) +
			    (oracle_mix(hash, 1) >> 8) % (uint64_t)(2 * spread + 1);

	return (hash >> 63 ? oracle_sign(f) : 0) | exponent << f->mantissa | mantissa;
}

/* Returns the input of a rank as a number; not for ORACLE_ROUGH. */
static double data_value(const struct oracle_format *f, const struct oracle_data *d, int32_t rank,
			 size_t i, uint64_t hash)
{
	if (d->op == COLL_PROD)
		return data_factor(d, rank, i, hash);
	if (d->op != COLL_MIN && d->op != COLL_MAX)
		return data_addend(f, d, rank, i, hash);
	if (d->inputs == ORACLE_SPECIAL)
		return data_special(hash);
	return (double)data_within(f, hash, data_limit(f));
}

/*
 * Returns a truth.  Few of n inputs are false for COLL_LAND, few are true for COLL_LOR: else the result would tell nothing.
 */
static uint64_t data_truth(const struct oracle_format *f, const struct oracle_data *d,
			   uint64_t hash)
{
	const uint64_t draw = hash % ((uint64_t)d->nranks + 1);
	const int32_t op = oracle_op_of(d->op, f->dtype);
	const int is_true = op == COLL_LAND  ? draw != 0
			    : op == COLL_LOR ? draw == 0
					     : (int)(hash >> 32 & 1);
	uint64_t other = oracle_mix(hash, 2) & oracle_mask(f);

	if (!is_true)
		return 0;
	return f->dtype == COLL_BOOL || !other ? 1 : other;
}

static uint64_t data_hash(const struct oracle_data *d, int32_t rank, size_t i)
{
	return oracle_mix(d->seed + ((uint64_t)(uint32_t)rank << 32), i);
}

/* Returns a power of two on one of the axes: exact in any order, except for the signs of zeros. */
static double data_complex_factor(const struct oracle_data *d, int32_t rank, size_t i)
{
	uint64_t hash = data_hash(d, rank, i / 2);

	return (hash >> 40 & 1) == i % 2 ? data_factor(d, rank, i / 2, hash) : 0;
}

/* Returns a pair.  Many values are equal, and the indices do not rise with the ranks. */
static uint64_t data_pair(const struct oracle_format *f, const struct oracle_data *d, size_t i,
			  uint64_t hash)
{
	if (i % 2)
		return hash % 64;
	if (f->mantissa && d->inputs == ORACLE_SPECIAL && hash >> 40 & 1)
		return oracle_code(f, data_special(hash));
	return oracle_code(f, (double)data_within(f, hash, 3));
}

static uint64_t data_input(const struct oracle_format *f, const struct oracle_data *d, int32_t rank,
			   size_t i)
{
	uint64_t hash = data_hash(d, rank, i);

	/* Without a reduction the elements may be any bits, also bits of no number. */
	if (d->op == ORACLE_MOVE)
		return hash & oracle_mask(f);
	if (oracle_is_pair(d->dtype))
		return data_pair(f, d, i, hash);
	if (oracle_is_complex(d->dtype) && d->op == COLL_PROD)
		return oracle_code(f, data_complex_factor(d, rank, i));
	if (oracle_op_is_logical(oracle_op_of(d->op, f->dtype)))
		return data_truth(f, d, hash);
	if (f->mantissa && d->inputs == ORACLE_ROUGH)
		return data_rough(f, d, hash);
	/*
	 * Integer sums may wrap around, but not before a division; odd factors keep a product from
	 * losing bits.
	 */
	if (f->mantissa || d->op == COLL_AVG)
		return oracle_code(f, data_value(f, d, rank, i, hash));
	return (d->op == COLL_PROD ? hash | 1 : hash) & oracle_mask(f);
}

uint64_t oracle_input(const struct oracle_data *d, int32_t rank, size_t i)
{
	return data_input(oracle_part(d->dtype, i), d, rank, i);
}

/* ------------------------------------------------------------------ results -- */

static uint64_t data_operand(const struct oracle_format *f, const struct oracle_data *d,
			     int32_t rank, size_t i)
{
	uint64_t x = data_input(f, d, rank, i);

	if (data_divides(f, d))
		return oracle_reduce(f, COLL_AVG, x, 0, d->nranks);
	if (d->op != ORACLE_SCALED)
		return x;
	return oracle_reduce(f, COLL_PROD, x, oracle_code(f, oracle_scale(f, rank)), 1);
}

/* Computes the grouping T(lo, hi), which coll-order(7) calls T(a, b). */
static uint64_t data_tree(const struct oracle_format *f, const struct oracle_data *d, int32_t lo,
			  int32_t hi, size_t i)
{
	int32_t op = d->op == COLL_AVG || d->op == ORACLE_SCALED ? COLL_SUM : d->op, p = 1;

	if (hi == lo + 1)
		return data_operand(f, d, lo, i);
	while (2 * p < hi - lo)
		p *= 2;
	return oracle_reduce(f, op, data_tree(f, d, lo, lo + p, i), data_tree(f, d, lo + p, hi, i),
			     1);
}

/* Returns how many ranks have their inputs in the result. */
static int32_t data_combined(const struct oracle_data *d)
{
	return d->first_ranks ? d->first_ranks : d->nranks;
}

/*
 * Computes a result that is exact in any order: it is rounded to the type once, at the end; inputs that are divided are
 * rounded after the division too.
 */
static uint64_t data_exact(const struct oracle_format *f, const struct oracle_data *d, size_t i)
{
	double all = 0, x;

	for (int32_t r = 0; r < data_combined(d); r++) {
		x = data_value(f, d, r, i, data_hash(d, r, i));
		x *= d->op == ORACLE_SCALED ? oracle_scale(f, r) : 1;
		if (data_divides(f, d))
			x = oracle_value(f, data_operand(f, d, r, i));
		all = r ? oracle_fold(d->op, all, x) : x;
	}
	return oracle_code(f, all);
}

static double data_number(const struct oracle_format *f, uint64_t code)
{
	if (f->mantissa)
		return oracle_value(f, code);
	return code & oracle_sign(f) ? -(double)(oracle_mask(f) - code) - 1 : (double)code;
}

/* Comes value x before y?  A NaN comes before all numbers, and -0 counts as less than 0. */
static int data_is_before(int32_t op, double x, double y)
{
	if (isnan(x) || isnan(y))
		return isnan(x) && !isnan(y);
	if (x == y)
		return op == COLL_MINLOC ? signbit(x) > signbit(y) : signbit(x) < signbit(y);
	return op == COLL_MINLOC ? x < y : x > y;
}

/* Returns number i of the pair that wins. */
static uint64_t data_winner(const struct oracle_data *d, size_t i)
{
	const struct oracle_format *f = oracle_part(d->dtype, 0), *g = oracle_part(d->dtype, 1);
	uint64_t index = 0, other;
	double best = 0, x;

	for (int32_t r = 0; r < data_combined(d); r++) {
		x = data_number(f, data_input(f, d, r, i - i % 2));
		other = data_input(g, d, r, i - i % 2 + 1);
		if (r && !data_is_before(d->op, x, best) &&
		    (data_is_before(d->op, best, x) || other >= index))
			continue;
		best = x;
		index = other;
	}
	return i % 2 ? index : oracle_code(f, best);
}

/* Returns number i of the complex product. */
static uint64_t data_complex_product(const struct oracle_format *f, const struct oracle_data *d,
				     size_t i)
{
	double re = 1, im = 0, x, y, z;

	for (int32_t r = 0; r < data_combined(d); r++) {
		x = data_complex_factor(d, r, i - i % 2);
		y = data_complex_factor(d, r, i - i % 2 + 1);
		z = re * x - im * y;
		im = re * y + im * x;
		re = z;
	}
	return oracle_code(f, i % 2 ? im : re);
}

static uint64_t data_result(const struct oracle_format *f, const struct oracle_data *d, size_t i)
{
	int exact = f->mantissa && d->inputs != ORACLE_ROUGH;
	uint64_t all;

	if (oracle_is_pair(d->dtype))
		return data_winner(d, i);
	if (oracle_is_complex(d->dtype) && d->op == COLL_PROD)
		return data_complex_product(f, d, i);
	all = exact ? data_exact(f, d, i) : data_tree(f, d, 0, data_combined(d), i);

	return d->op == COLL_AVG && !f->mantissa ? oracle_reduce(f, COLL_AVG, all, 0, d->nranks)
						 : all;
}

uint64_t oracle_result(const struct oracle_data *d, size_t i)
{
	return data_result(oracle_part(d->dtype, i), d, i);
}

/*
 * Returns the bound of |element i - exact| where the result need only be near.  Each of n - 1 operations rounds by at most
 * half a unit of the sum of the magnitudes.  A factor of each input may itself be rounded, so it counts twice.  Below the
 * least normal number the unit stays the same.
 */
static double data_tolerance(const struct oracle_format *f, const struct oracle_data *d, size_t i,
			     double exact)
{
	int scales = d->op == COLL_AVG || d->op == ORACLE_SCALED;
	double magnitude = 0, n = data_combined(d), unit = ldexp(1, -f->mantissa);

	/* Halves, quarters, ... of whole numbers are exact. */
	if (d->inputs != ORACLE_ROUGH && (d->nranks & (d->nranks - 1)) == 0 &&
	    n * ldexp(1, 1 - f->bias) <= 1)
		return 0;
	for (int32_t r = 0; r < data_combined(d) && d->op != COLL_PROD; r++)
		magnitude += fabs(oracle_value(f, data_operand(f, d, r, i)));
	magnitude = d->op == COLL_PROD ? fabs(exact) : magnitude;
	return expm1((n - 1 + 2 * scales) * unit / 2) * magnitude +
	       n * unit * ldexp(1, 1 - f->bias);
}

/* Computes the sum, the product or the average, with more bits than any type has. */
static long double data_precise(const struct oracle_format *f, const struct oracle_data *d,
				size_t i)
{
	long double all = d->op == COLL_PROD, x;

	for (int32_t r = 0; r < data_combined(d); r++) {
		x = oracle_value(f, data_input(f, d, r, i));
		x *= d->op == ORACLE_SCALED ? oracle_scale(f, r) : 1;
		all = d->op == COLL_PROD ? all * x : all + x;
	}
	return d->op == COLL_AVG ? all / d->nranks : all;
}

static int data_is_near(const struct oracle_format *f, const struct oracle_data *d, size_t i,
			uint64_t got)
{
	int32_t op = d->op;
	long double exact;

	if (!d->near || !f->mantissa || op == COLL_MIN || op == COLL_MAX || op == ORACLE_MOVE ||
	    (d->inputs != ORACLE_ROUGH && op != COLL_AVG))
		return 0;
	exact = data_precise(f, d, i);
	return fabsl(oracle_value(f, got) - exact) <= data_tolerance(f, d, i, (double)exact);
}

/* --------------------------------------------------------------------- rows -- */

void oracle_input_row(const struct oracle_data *d, int32_t rank, size_t n, void *row)
{
	for (size_t i = 0; i < n * (size_t)oracle_parts(d->dtype); i++)
		oracle_store(oracle_part(d->dtype, i), row, i, oracle_input(d, rank, i));
}

void oracle_result_row(const struct oracle_data *d, size_t n, void *row)
{
	for (size_t i = 0; i < n * (size_t)oracle_parts(d->dtype); i++)
		oracle_store(oracle_part(d->dtype, i), row, i, oracle_result(d, i));
}

void oracle_tile(void *dst, const void *row, size_t n, size_t elem, size_t first, size_t count)
{
	unsigned char *out = dst;
	size_t at = first % n, some;

	for (; count; count -= some, out += some * elem, at = 0) {
		some = n - at < count ? n - at : count;
		memcpy(out, (const unsigned char *)row + at * elem, some * elem);
	}
}

/* Is number x of the result as good as number i, y? */
static int data_is_right(const struct oracle_data *d, size_t i, uint64_t x, uint64_t y)
{
	const struct oracle_format *f = oracle_part(d->dtype, i);

	if (x == y || (oracle_is_nan(f, x) && oracle_is_nan(f, y) && d->op != ORACLE_MOVE))
		return 1;
	if (oracle_is_complex(d->dtype) && d->op == COLL_PROD)
		return !((x | y) & (oracle_sign(f) - 1));
	return !oracle_is_pair(d->dtype) && data_is_near(f, d, i, x);
}

/* Compares the elements of `got` from `from` on with the elements of the row from `at` on. */
static size_t data_wrong(const struct oracle_data *d, const void *got, const void *row, size_t from,
			 size_t at, size_t count, size_t *first_wrong)
{
	const size_t parts = (size_t)oracle_parts(d->dtype);
	size_t wrong = 0, last = count;

	for (size_t i = 0; i < count * parts; i++) {
		const struct oracle_format *f = oracle_part(d->dtype, i);
		uint64_t x = oracle_load(f, got, from * parts + i);

		if (i / parts == last ||
		    data_is_right(d, at * parts + i, x, oracle_load(f, row, at * parts + i)))
			continue;
		last = i / parts;
		if (!wrong++ && first_wrong)
			*first_wrong = from + last;
	}
	return wrong;
}

size_t oracle_wrong(const struct oracle_data *d, const void *got, const void *row, size_t n,
		    size_t first, size_t count, size_t *at)
{
	size_t elem = oracle_size(d->dtype), wrong = 0, place = first % n, some;
	const unsigned char *bytes = got;

	for (size_t done = 0; done < count; done += some, place = 0) {
		some = n - place < count - done ? n - place : count - done;
		if (memcmp(bytes + done * elem, (const unsigned char *)row + place * elem,
			   some * elem) != 0)
			wrong += data_wrong(d, got, row, done, place, some, wrong ? NULL : at);
	}
	return wrong;
}
