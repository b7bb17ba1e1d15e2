/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * reduce_bench.c - the speed of the reduction kernels: GB/s of results for each data type,
 * operation and instruction set.  Not a test.
 *
 *   reduce_bench [bytes of a buffer, default 65536]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "reduce/kernels.h"

static const int bench_dtypes[] = {COLL_INT8,       COLL_UINT8,     COLL_INT16,   COLL_UINT16,
				   COLL_INT32,      COLL_UINT32,    COLL_INT64,   COLL_UINT64,
				   COLL_FLOAT16,    COLL_BFLOAT16,  COLL_FLOAT32, COLL_FLOAT64,
				   COLL_FLOAT8E4M3, COLL_FLOAT8E5M2};
/* COLL_AVG measures the division alone, BENCH_SCALED the sum with one divided input. */
enum { BENCH_SCALED = -1 };
static const int bench_ops[] = {COLL_SUM, COLL_PROD, COLL_MIN, COLL_AVG, BENCH_SCALED, COLL_BXOR};

static double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* Returns the best of three runs of about 5 ms. */
static double bench_rate(reduce_fn fn, unsigned char *a, unsigned char *b, size_t bytes)
{
	double best = 0, rate, start, time;
	int run;
	size_t done;

	for (run = 0; run < 3; run++) {
		start = bench_now();
		done = 0;
		do {
			fn(a, a, b, bytes, 1);
			done += bytes;
			time = bench_now() - start;
		} while (time < 0.005);
		rate = (double)done / time / 1e9;
		best = rate > best ? rate : best;
	}
	return best;
}

static void bench_row(const struct reduce_kernels *kernels, int dtype, unsigned char *a,
		      unsigned char *b, size_t bytes)
{
	size_t i;
	reduce_fn fn;

	printf("%-8s %-10s", kernels->isa, coll_dtype_name(dtype));
	for (i = 0; i < sizeof(bench_ops) / sizeof(bench_ops[0]); i++) {
		fn = bench_ops[i] == BENCH_SCALED
			     ? reduce_lookup_scaled(kernels, dtype, REDUCE_SCALED_SUM)
			     : reduce_lookup(kernels, dtype, bench_ops[i]);
		if (fn)
			printf(" %7.1f", bench_rate(fn, a, b, bytes));
		else
			printf(" %7s", "-");
	}
	printf("\n");
	fflush(stdout);
}

int main(int argc, char **argv)
{
	size_t bytes = argc > 1 ? (size_t)strtoull(argv[1], NULL, 0) / 8 * 8 : 65536;
	unsigned char *a = malloc(bytes), *b = malloc(bytes);
	const struct reduce_kernels *kernels;
	size_t i;
	int isa;

	if (!bytes || !a || !b) {
		fprintf(stderr, "reduce_bench: expected the size of a buffer in bytes\n");
		free(a);
		free(b);
		return 1;
	}
	memset(a, 0x31, bytes);
	memset(b, 0x31, bytes);
	printf("GB/s of results, buffers of %zu bytes, in place\n%-19s", bytes, "");
	for (i = 0; i < sizeof(bench_ops) / sizeof(bench_ops[0]); i++)
		printf(" %7s", bench_ops[i] == COLL_AVG       ? "divide"
			       : bench_ops[i] == BENCH_SCALED ? "scaled"
							      : coll_op_name(bench_ops[i]));
	printf("\n");
	for (isa = 0; (kernels = reduce_usable(isa)); isa++)
		for (i = 0; i < sizeof(bench_dtypes) / sizeof(bench_dtypes[0]); i++)
			bench_row(kernels, bench_dtypes[i], a, b, bytes);
	free(a);
	free(b);
	return 0;
}
