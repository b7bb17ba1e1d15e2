/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.h - what the allreduce programs have in common, in C and C++: sizes, repetitions, the
 * clock.
 *
 * Each prints a line "bytes microseconds" for each size: the median over its iterations of the time
 * of the slowest rank.  run.sh runs them in turn and compares.
 */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#define BENCH_MIN ((size_t)1 << 20)
#define BENCH_MAX ((size_t)128 << 20)

enum { BENCH_WARM = 3, BENCH_MOST = 50 };

/* About a quarter of a second for each size. */
static inline int bench_iterations(size_t bytes)
{
	size_t n = ((size_t)400 << 20) / bytes;

	return n > BENCH_MOST ? BENCH_MOST : n < 5 ? 5 : (int)n;
}

static inline double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* All pages are touched before the clock starts. */
static inline float *bench_buffer(int rank)
{
	float *x = (float *)aligned_alloc(4096, BENCH_MAX);

	if (!x) {
		fprintf(stderr, "bench: no memory\n");
		exit(1);
	}
	for (size_t i = 0; i < BENCH_MAX / sizeof(*x); i++)
		x[i] = (float)(rank + 1);
	return x;
}

/* After sums of k iterations the values are large or infinite, but each is the same. */
static inline void bench_check(const float *x, size_t count, float want)
{
	for (size_t i = 0; i < count; i++)
		if (x[i] != want) {
			fprintf(stderr, "bench: element %zu is %g, expected %g\n", i, (double)x[i],
				(double)want);
			exit(1);
		}
}

static inline int bench_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static inline void bench_print(int rank, size_t bytes, double *times, int n)
{
	qsort(times, (size_t)n, sizeof(*times), bench_order);
	if (rank == 0)
		printf("%zu %.1f\n", bytes, times[n / 2]);
	fflush(stdout);
}

#endif
