/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * near.h - how far two processors are from each other, for bench.h, in C and C++.
 *
 * A virtual machine's processors wander: within seconds the time of a cache line between two of them changes from 25 to
 * 150 ns, and that of 64 KiB from 3 to 35 us.  Two engines can be compared only where that time was the same.  With
 * BENCH_NS, "15-50,120-211" in nanoseconds, ranks 0 and 1 pass a line to and fro before each sample and after it.  The sample is
 * one of near processors if both times are within the first range, one of far processors if both are within the second.
 *
 * Two ranks are bound to a processor each.  Of more ranks, 0 and 1 bind themselves while they pass the line, and the others
 * sleep.
 */
#ifndef TESTS_BENCH_NEAR_H
#define TESTS_BENCH_NEAR_H

#include <sched.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
	NEAR_TURNS = 16, /* of the line to and fro, in one look */
	NEAR_LOOKS = 3   /* the shortest counts: a rank may lose its processor meanwhile */
};

/* Shared by the ranks: line[32] goes to and fro; nothing else is in its cache line. */
struct near_shared {
	uint32_t line[64];
};

/* The kinds of samples.  Without BENCH_NS there is one kind, and every sample is of it. */
enum near_kind { NEAR_NEITHER = -1, NEAR_NEAR, NEAR_FAR, NEAR_KINDS };

/* What rank 0 or 1 knows. */
struct near {
	int kinds;                                  /* 1, or NEAR_KINDS: BENCH_NS is set */
	double least[NEAR_KINDS], most[NEAR_KINDS]; /* BENCH_NS */
	int awaited
		[NEAR_KINDS]; /* BENCH_AWAITED: a row goes on until it has samples of this kind */
	double patience_ms;   /* BENCH_PATIENCE */
	int rank;
	int binds;       /* ranks 0 and 1 bind themselves for a look, and the others sleep */
	uint32_t number; /* of the line's last turn */
	struct near_shared *shared;
};

static inline void bench_pause(void)
{
#ifdef __x86_64__
	__builtin_ia32_pause();
#endif
}

static inline double bench_now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

static inline const char *near_name(const struct near *near, int kind)
{
	static const char *const names[] = {"near", "far"};

	return near->kinds == 1 ? "any" : names[kind];
}

/* Reads the settings: 0 if BENCH_NS is not two ranges. */
static inline int near_set(struct near *near, struct near_shared *shared, int rank, int nranks)
{
	const char *ranges = getenv("BENCH_NS"), *patience = getenv("BENCH_PATIENCE");
	const char *awaited = getenv("BENCH_AWAITED");

	near->shared = shared;
	near->rank = rank;
	near->kinds = ranges ? NEAR_KINDS : 1;
	near->binds = nranks > 2 && ranges;
	near->patience_ms = patience ? atof(patience) : 1000;
	for (int kind = 0; kind < near->kinds; kind++)
		near->awaited[kind] = !awaited || strstr(awaited, near_name(near, kind)) != NULL;
	return !ranges ||
	       sscanf(ranges, "%lf-%lf,%lf-%lf", &near->least[NEAR_NEAR], &near->most[NEAR_NEAR],
		      &near->least[NEAR_FAR], &near->most[NEAR_FAR]) == 4;
}

/* Binds the calling thread to the processor `number` of those that it may use; `before`: the processors until now. */
static inline void near_bind(int number, cpu_set_t *before)
{
	cpu_set_t one;

	CPU_ZERO(&one);
	CPU_ZERO(before);
	sched_getaffinity(0, sizeof(*before), before);
	for (int cpu = 0; cpu < CPU_SETSIZE; cpu++)
		if (CPU_ISSET(cpu, before) && number-- == 0)
			CPU_SET(cpu, &one);
	if (CPU_COUNT(&one))
		sched_setaffinity(0, sizeof(one), &one);
}

/* Nanoseconds of the line from one rank to the other, the mean of NEAR_TURNS both ways. */
static inline double near_turns(struct near *near)
{
	uint32_t *line = &near->shared->line[32];
	double begin = 0;

	for (int turn = 0; turn <= NEAR_TURNS; turn++, near->number += 2) {
		/* The first turn waits for the other rank. */
		if (turn == 1)
			begin = bench_now();
		if (near->rank == 0)
			__atomic_store_n(line, near->number + 1, __ATOMIC_RELEASE);
		while (__atomic_load_n(line, __ATOMIC_ACQUIRE) !=
		       near->number + 2 - (uint32_t)near->rank)
			bench_pause();
		if (near->rank == 1)
			__atomic_store_n(line, near->number + 2, __ATOMIC_RELEASE);
	}
	return (bench_now() - begin) * 1e3 / (2 * NEAR_TURNS);
}

/* The distance in nanoseconds.  All ranks call this; ranks from 2 on return 0 at once. */
static inline double near_look(struct near *near)
{
	cpu_set_t before;
	double ns = 1e9;

	if (near->rank > 1)
		return 0;
	if (near->binds)
		near_bind(near->rank, &before);
	for (int i = 0; i < (near->binds ? NEAR_LOOKS : 1); i++) {
		double now = near_turns(near);

		ns = now < ns ? now : ns;
	}
	if (near->binds)
		sched_setaffinity(0, sizeof(before), &before);
	return ns;
}

/* The kind of a sample with these distances before and after it. */
static inline enum near_kind near_kind_of(const struct near *near, double before, double after)
{
	if (near->kinds == 1)
		return NEAR_NEAR;
	for (int kind = 0; kind < NEAR_KINDS; kind++)
		if (before >= near->least[kind] && before <= near->most[kind] &&
		    after >= near->least[kind] && after <= near->most[kind])
			return (enum near_kind)kind;
	return NEAR_NEITHER;
}

#endif
