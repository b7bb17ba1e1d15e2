/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench.h - the loop that all allreduce programs run, in C and C++.
 *
 *   BENCH_SIZES="8 1K 1M" program        (in bytes; default: 1M to 128M, doubling)
 *
 * A program provides two functions: a sum of floats and the maximum of a number over the ranks, by
 * its library.  bench_all() does the rest.  A sample is a batch of calls, each complete before the
 * next begins.  The batch is so long that neither the clock's resolution nor the ranks' different
 * starts matter.  The sample's value is the mean of the slowest rank.  Rank 0 prints a line "bytes
 * microseconds" for each size, with the median of the samples.  run.sh runs the programs one after
 * the other and compares them.
 */
#ifndef TESTS_BENCH_H
#define TESTS_BENCH_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum { BENCH_WARM = 3, BENCH_LEAST = 5, BENCH_MOST = 50 };

#define BENCH_SAMPLE_US 1000.0   /* minimum time of a sample */
#define BENCH_SIZE_US   200000.0 /* approximate time of all samples of a size */

struct bench_program {
	int rank, nranks;
	void (*allreduce)(const float *in, float *out, size_t count); /* sum; blocks */
	double (*slowest)(double took); /* the maximum over all ranks; blocks */
};

static inline double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* Returns the next size, or 0 after the last. */
static inline size_t bench_next_size(const char **sizes)
{
	char *end;
	size_t bytes = strtoull(*sizes, &end, 10);

	if (*end == 'K' || *end == 'M')
		bytes <<= *end++ == 'K' ? 10 : 20;
	if (bytes % sizeof(float) || (*end && *end != ' ')) {
		fprintf(stderr, "bench: '%s' in BENCH_SIZES is not a size of floats\n", *sizes);
		exit(2);
	}
	*sizes = end;
	return bytes;
}

static inline size_t bench_largest(const char *sizes)
{
	size_t most = 0, bytes;

	while ((bytes = bench_next_size(&sizes)) != 0)
		most = bytes > most ? bytes : most;
	return most;
}

/* Touches all pages before the clock starts. */
static inline float *bench_buffer(size_t bytes, float value)
{
	float *x = (float *)aligned_alloc(4096, (bytes + 4095) / 4096 * 4096);

	if (!x) {
		fprintf(stderr, "bench: no memory for %zu bytes\n", bytes);
		exit(1);
	}
	for (size_t i = 0; i < bytes / sizeof(*x); i++)
		x[i] = value;
	return x;
}

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

/* Microseconds of a batch on the slowest rank; the same number on every rank. */
static inline double bench_batch(const struct bench_program *program, const float *in, float *out,
				 size_t count, int batch)
{
	double begun = bench_now();

	for (int i = 0; i < batch; i++)
		program->allreduce(in, out, count);
	return program->slowest(bench_now() - begun);
}

/* Microseconds of a call: the median over the samples. */
static inline double bench_size(const struct bench_program *program, const float *in, float *out,
				size_t count)
{
	double took = 0, samples[BENCH_MOST];
	int batch = 1, n;

	for (int i = 0; i < BENCH_WARM || took < BENCH_SAMPLE_US; i++) {
		took = bench_batch(program, in, out, count, batch);
		if (took < BENCH_SAMPLE_US)
			batch *= 2;
	}
	n = took * BENCH_MOST < BENCH_SIZE_US ? BENCH_MOST : (int)(BENCH_SIZE_US / took);
	n = n < BENCH_LEAST ? BENCH_LEAST : n;
	for (int i = 0; i < n; i++)
		samples[i] = bench_batch(program, in, out, count, batch) / batch;
	qsort(samples, (size_t)n, sizeof(*samples), bench_order);
	return samples[n / 2];
}

static inline void bench_all(const struct bench_program *program)
{
	const char *sizes = getenv("BENCH_SIZES");
	float sum = (float)(program->nranks * (program->nranks + 1) / 2);
	float *in, *out;
	size_t bytes;

	sizes = sizes && *sizes ? sizes : "1M 2M 4M 8M 16M 32M 64M 128M";
	in = bench_buffer(bench_largest(sizes), (float)(program->rank + 1));
	out = bench_buffer(bench_largest(sizes), 0);
	while ((bytes = bench_next_size(&sizes)) != 0) {
		double took;

		memset(out, 0, bytes);
		took = bench_size(program, in, out, bytes / sizeof(*in));
		bench_check(out, bytes / sizeof(*out), sum);
		if (program->rank == 0)
			printf("%zu %.3f\n", bytes, took);
		fflush(stdout);
	}
	free(in);
	free(out);
}

#endif
