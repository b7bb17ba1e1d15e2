/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * oracle_test.c - tests the oracle itself: exact inputs are exact in any order, rounded inputs are
 * not; the oracle checks every byte of a call's buffers; a seed draws the same call again.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include "../../tools/oracle/oracle.h"
#include "../lib/tap.h"

enum { ELEMENTS = 64, PERIOD = 257 };

/* ------------------------------------------------------------------- numbers -- */

static int is_there_and_back(const struct oracle_format *f, uint64_t code)
{
	double x = oracle_value(f, code);

	return isnan(x) || oracle_code(f, x) == code;
}

static void test_formats(void)
{
	static const struct {
		int32_t dtype;
		double value;
		uint64_t code;
	} known[] = {
		{COLL_FLOAT16, 1, 0x3c00},          {COLL_FLOAT16, 65504, 0x7bff},
		{COLL_FLOAT16, 65520, 0x7c00},      {COLL_FLOAT16, 0x1p-24, 0x0001},
		{COLL_BFLOAT16, -2, 0xc000},        {COLL_BFLOAT16, 257, 0x4380},
		{COLL_FLOAT8E4M3, 448, 0x7e},       {COLL_FLOAT8E4M3, 0x1p-9, 0x01},
		{COLL_FLOAT8E5M2, 57344, 0x7b},     {COLL_FLOAT8E5M2, 1e9, 0x7b},
		{COLL_FLOAT8E5M2, -INFINITY, 0xfc}, {COLL_FLOAT8E4M3, INFINITY, 0x7e},
		{COLL_FLOAT32, 0.1, 0x3dcccccd},    {COLL_FLOAT64, 0.1, 0x3fb999999999999a},
		{COLL_FLOAT32, -0.0, 0x80000000},   {COLL_INT8, -3, 0xfd},
		{COLL_UINT16, 65535, 0xffff},       {COLL_BOOL, 1, 0x01},
	};
	int bad = 0;

	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		bad += oracle_code(oracle_format(known[i].dtype), known[i].value) != known[i].code;
	is_int(bad, 0, "known codes");
	bad = 0;
	for (int t = 0; t < oracle_format_count; t++)
		for (uint64_t code = 0; oracle_formats[t].mantissa && code < 65536; code++)
			bad += !is_there_and_back(&oracle_formats[t],
						  code & oracle_mask(&oracle_formats[t]));
	is_int(bad, 0, "codes are values and codes again");
}

/* ---------------------------------------------------------------------- data -- */

/* Reduces ranks from, from + step, ... in this order, rounding each step to the type. */
static uint64_t in_order(const struct oracle_data *d, size_t i, int32_t from, int32_t step)
{
	const struct oracle_format *f = oracle_format(d->dtype);
	int32_t op = d->op == COLL_AVG || d->op == ORACLE_SCALED ? COLL_SUM : d->op, rank = from;
	uint64_t all = 0, x;

	for (int32_t k = 0; k < d->nranks; k++, rank = (rank + step) % d->nranks) {
		x = oracle_input(d, rank, i);
		if (d->op == ORACLE_SCALED)
			x = oracle_reduce(f, COLL_PROD, x, oracle_code(f, oracle_scale(f, rank)),
					  1);
		if (d->op == COLL_AVG && f->mantissa)
			x = oracle_reduce(f, COLL_AVG, x, 0, d->nranks);
		all = k ? oracle_reduce(f, op, all, x, 1) : x;
	}
	return d->op == COLL_AVG && !f->mantissa ? oracle_reduce(f, COLL_AVG, all, 0, d->nranks)
						 : all;
}

/* Number of elements that change with the order of the ranks. */
static int changing(const struct oracle_data *d)
{
	int n = 0;

	for (size_t i = 0; i < ELEMENTS; i++) {
		uint64_t x = oracle_result(d, i);

		n += in_order(d, i, 0, 1) != x ||
		     in_order(d, i, d->nranks - 1, d->nranks - 1) != x ||
		     in_order(d, i, d->nranks / 2, 1) != x;
	}
	return n;
}

/* Each rank has different elements, so that a forgotten rank shows. */
static int is_varied(const struct oracle_data *d)
{
	for (int32_t r = 0; r < d->nranks; r++) {
		size_t i = 1, enough = 16 * (size_t)d->nranks;

		while (i < enough && oracle_input(d, r, i) == oracle_input(d, r, 0))
			i++;
		if (i == enough)
			return 0;
	}
	return 1;
}

static void test_exact(int32_t nranks)
{
	const int32_t ops[] = {COLL_SUM, COLL_PROD, COLL_MAX,  COLL_MIN, COLL_AVG,  COLL_BAND,
			       COLL_BOR, COLL_BXOR, COLL_LAND, COLL_LOR, COLL_LXOR, ORACLE_SCALED};
	int changed = 0, dull = 0;

	for (int t = 0; t < oracle_format_count; t++)
		for (size_t o = 0; o < sizeof(ops) / sizeof(ops[0]); o++) {
			struct oracle_data d = {oracle_formats[t].dtype, ops[o], nranks,
						.seed = o + 3};

			if (!oracle_op_fits(ops[o], d.dtype))
				continue;
			for (int inputs = ORACLE_EXACT; inputs <= ORACLE_SPECIAL; inputs++) {
				d.inputs = (enum oracle_inputs)inputs;
				changed += changing(&d);
				dull += !is_varied(&d);
			}
		}
	ok(!changed, "%d ranks: all exact inputs are exact in any order", nranks);
	ok(!dull, "%d ranks: and vary", nranks);
}

static void test_rough(void)
{
	int same = 0;

	for (int t = 0; t < oracle_format_count; t++) {
		struct oracle_data d = {oracle_formats[t].dtype, COLL_SUM, 7, ORACLE_ROUGH,
					.seed = 1};

		if (oracle_formats[t].mantissa && changing(&d) < ELEMENTS / 4) {
			diag("%s: %d", coll_dtype_name(d.dtype), changing(&d));
			same++;
		}
	}
	is_int(same, 0, "each order of rough inputs gives other bits");
}

/* Changes one element to the result of another order, and further off than any order gives. */
static void near_one(const struct oracle_format *f, const struct oracle_data *d, int *far,
		     int *blind)
{
	uint64_t row[1] = {0}, got[1] = {0};
	double magnitude = 0;

	oracle_result_row(d, 1, row);
	oracle_store(f, got, 0, in_order(d, 0, d->nranks - 1, d->nranks - 1));
	*far += oracle_wrong(d, got, row, 1, 0, 1, NULL) != 0;
	for (int32_t r = 0; r < d->nranks; r++)
		magnitude += fabs(oracle_value(f, oracle_input(d, r, 0)));
	oracle_store(f, got, 0,
		     oracle_code(f, oracle_value(f, row[0]) + ldexp(magnitude, 3 - f->mantissa)));
	*blind += oracle_wrong(d, got, row, 1, 0, 1, NULL) == 0;
}

static void test_near(void)
{
	int far = 0, blind = 0;

	for (int t = 0; t < oracle_format_count; t++) {
		struct oracle_data d = {oracle_formats[t].dtype, COLL_SUM,  5,
					.inputs = ORACLE_ROUGH,  .near = 1, .seed = 2};

		for (; oracle_formats[t].mantissa >= 7 && d.seed < ELEMENTS; d.seed++)
			near_one(&oracle_formats[t], &d, &far, &blind);
	}
	is_int(far, 0, "another order is near");
	is_int(blind, 0, "what is eight units off is not");
}

/* --------------------------------------------------------------------- calls -- */

struct pair {
	struct oracle_call call;
	unsigned char *area[ORACLE_AREAS];
};

/* Writes the result of a right call, taken from the parts, element by element. */
static void carry_out(struct pair *p)
{
	const struct oracle_call *c = &p->call;
	const struct oracle_format *f = oracle_format(c->c.dtype);

	for (int i = 0; i < c->parts; i++)
		for (size_t k = 0; k < c->part[i].count; k++) {
			size_t at = (c->part[i].first + k) % PERIOD;

			oracle_store(f, c->args.recvbuf, c->part[i].at + k,
				     c->part[i].row < 0
					     ? oracle_result(&c->data, at)
					     : oracle_input(&c->data, c->part[i].row, at));
		}
}

static int accepts(struct pair *p)
{
	char text[ORACLE_TEXT];
	int good = 1;

	for (int i = 0; i < ORACLE_AREAS; i++)
		good = good && oracle_call_check(&p->call, i, p->area[i], text);
	return good;
}

/* An in-place reduce_scatter may leave any bytes beside its result. */
static int is_free(const struct oracle_call *c, int area, size_t at)
{
	const unsigned char *byte = (const unsigned char *)c->args.sendbuf, *recv = c->args.recvbuf;
	int scatters =
		c->c.kind == COLL_KIND_REDUCE_SCATTER || c->c.kind == COLL_KIND_REDUCE_SCATTERV;

	if (!scatters || c->c.place != ORACLE_IN_PLACE || area != ORACLE_RECV || !c->recv.len)
		return 0;
	byte += at - (ORACLE_GUARD + c->shift);
	return at >= ORACLE_GUARD + c->shift && at < c->bytes[area] - ORACLE_GUARD &&
	       (byte < recv || byte >= recv + c->recv.len * c->elem);
}

/* Number of bytes whose change the oracle does not notice. */
static int unseen(struct pair *p)
{
	int n = 0;

	for (int i = 0; i < ORACLE_AREAS; i++)
		for (size_t at = 0; at < p->call.bytes[i]; at++) {
			p->area[i][at] ^= 0x11;
			n += accepts(p) && !is_free(&p->call, i, at);
			p->area[i][at] ^= 0x11;
		}
	return n;
}

struct look {
	int32_t rank, nranks;
	int refused, blind, calls;
};

static int look_at(void *user, const struct oracle_case *c)
{
	struct look *look = user;
	struct pair p;

	if (oracle_call_begin(&p.call, c, look->rank, look->nranks))
		bail_out("no memory");
	for (int i = 0; i < ORACLE_AREAS; i++) {
		p.area[i] = malloc(p.call.bytes[i] + 1);
		if (!p.area[i])
			bail_out("no memory");
		oracle_call_fill(&p.call, i, p.area[i]);
	}
	oracle_call_place(&p.call, p.area[ORACLE_SEND], p.area[ORACLE_RECV]);
	carry_out(&p);
	look->refused += !accepts(&p);
	look->blind += unseen(&p);
	look->calls++;
	free(p.area[ORACLE_SEND]);
	free(p.area[ORACLE_RECV]);
	oracle_call_end(&p.call);
	return 1;
}

static void test_calls(int32_t kind)
{
	struct look look = {.nranks = 3};
	struct oracle_case c = {.kind = kind, .dtype = COLL_INT16, .op = COLL_SUM};

	for (look.rank = 0; look.rank < look.nranks; look.rank++)
		for (c.count = 0; c.count < 9; c.count += 4)
			oracle_places(&c, look.nranks, look_at, &look);
	ok(look.calls && !look.refused, "%s: what a right call leaves is taken",
	   coll_kind_name(kind));
	ok(!look.blind, "%s: every byte is looked at", coll_kind_name(kind));
}

/* The number of elements sent from one rank to another equals the number received. */
static void test_blocks(void)
{
	int bad = 0;

	for (uint64_t seed = 1; seed <= 500; seed++) {
		struct oracle_call call[4];
		struct oracle_case c;
		size_t sent = 0, received = 0;

		oracle_random(&c, seed, 4, 4096);
		c.kind = COLL_KIND_ALLTOALLV;
		for (int32_t r = 0; r < 4; r++)
			if (oracle_call_begin(&call[r], &c, r, 4))
				bail_out("no memory");
		for (int32_t r = 0; r < 4; r++)
			for (int32_t k = 0; k < 4; k++) {
				bad += call[r].send.count[k] != call[k].recv.count[r];
				sent += call[r].send.count[k];
				received += call[r].recv.count[k];
			}
		bad += sent != received;
		for (int32_t r = 0; r < 4; r++)
			oracle_call_end(&call[r]);
	}
	is_int(bad, 0, "alltoallv: what one rank sends another receives");
}

/* --------------------------------------------------------------------- cases -- */

static void test_random(void)
{
	struct oracle_case one, two;
	int kinds = 0, types = 0, different = 0, again = 1;

	for (uint64_t seed = 1; seed <= 1000; seed++) {
		oracle_random(&one, seed, 5, 1 << 20);
		oracle_random(&two, seed, 5, 1 << 20);
		again = again && !memcmp(&one, &two, sizeof(one));
		kinds |= 1 << one.kind;
		types |= 1 << (oracle_format(one.dtype) - oracle_formats);
		oracle_random(&two, seed + 1, 5, 1 << 20);
		different += one.count != two.count || one.kind != two.kind;
	}
	ok(again, "a seed draws the same call again");
	ok(different > 900, "another draws another: %d of 1000", different);
	is_int(__builtin_popcount((unsigned)kinds), ORACLE_KINDS, "all kinds are drawn");
	is_int(__builtin_popcount((unsigned)types), oracle_format_count, "and all types");
}

int main(void)
{
	test_formats();
	for (int32_t nranks = 1; nranks <= ORACLE_RANKS; nranks++)
		test_exact(nranks);
	test_exact(100);
	test_rough();
	test_near();
	for (int k = 0; k < ORACLE_KINDS; k++)
		test_calls(oracle_kinds[k]);
	test_blocks();
	test_random();
	return done_testing();
}
