/* SPDX-License-Identifier: BSD-3-Clause */
/* verdict.c - finds the slow links and ranks: those that differ from the good links of their class. */
#include <stdlib.h>
#include <string.h>
#include "doctor/doctor.h"

/* A link is slow if it is so many times worse than a good one, and its latency by so many microseconds. */
enum { VERDICT_LATENCY_TIMES = 4, VERDICT_LATENCY_US = 200, VERDICT_BANDWIDTH_TIMES = 4 };

/*
 * Megabytes a second from which no link within a host is slow.  There the bandwidth depends on the caches that two ranks
 * share, and on what else the processors do.
 */
enum { VERDICT_NEAR_ENOUGH = 500 };

int doctor_near(const struct doctor_job *job, int32_t a, int32_t b)
{
	const char *network = job->facts[a].network;

	return a == b || (network[0] != '\0' && strcmp(network, job->facts[b].network) == 0);
}

static int verdict_in_class(const struct doctor_job *job, int near, int32_t a, int32_t b)
{
	return a != b && doctor_near(job, a, b) == near;
}

static int verdict_order(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns what a quarter of the links reach.  Most links may be slow where one rank is. */
static double verdict_good(const struct doctor_job *job, int near, int of_latency, double *values)
{
	const int32_t n = job->nranks;
	size_t count = 0;

	for (int32_t a = 0; a < n; a++)
		for (int32_t b = 0; b < n; b++) {
			const struct doctor_link *link = &job->links[a * n + b];

			if (verdict_in_class(job, near, a, b))
				values[count++] = of_latency ? link->latency_us : -link->mbytes_s;
		}
	if (count == 0)
		return 0;
	qsort(values, count, sizeof(*values), verdict_order);
	return of_latency ? values[count / 4] : -values[count / 4];
}

static int verdict_is_slow(const struct doctor_link *link, int near,
			   const struct doctor_class *good)
{
	if (link->latency_us > VERDICT_LATENCY_TIMES * good->latency_us &&
	    link->latency_us > good->latency_us + VERDICT_LATENCY_US)
		return 1;
	return link->mbytes_s * VERDICT_BANDWIDTH_TIMES < good->mbytes_s &&
	       (!near || link->mbytes_s < VERDICT_NEAR_ENOUGH);
}

void doctor_find_slow(struct doctor_job *job, int near, struct doctor_class *found)
{
	const int32_t n = job->nranks;
	double *values = calloc((size_t)n * (size_t)n, sizeof(*values));

	memset(found, 0, sizeof(*found));
	if (values == NULL)
		return;
	found->latency_us = verdict_good(job, near, 1, values);
	found->mbytes_s = verdict_good(job, near, 0, values);
	free(values);
	for (int32_t a = 0; a < n; a++)
		for (int32_t b = 0; b < n; b++) {
			if (!verdict_in_class(job, near, a, b))
				continue;
			found->links++;
			job->slow[a * n + b] =
				(char)verdict_is_slow(&job->links[a * n + b], near, found);
			found->slow += job->slow[a * n + b];
		}
}

/* Counts the other ranks to which the rank has links of the class, and those to which a link is slow in a direction. */
static void verdict_count(const struct doctor_job *job, int near, int32_t rank, int *links,
			  int *slow)
{
	const int32_t n = job->nranks;

	*links = *slow = 0;
	for (int32_t r = 0; r < n; r++) {
		if (!verdict_in_class(job, near, rank, r))
			continue;
		++*links;
		*slow += job->slow[rank * n + r] || job->slow[r * n + rank];
	}
}

int doctor_rank_is_slow(const struct doctor_job *job, int near, int32_t rank)
{
	int links, slow, others, others_slow;

	verdict_count(job, near, rank, &links, &slow);
	if (links < 2 || 4 * slow < 3 * links)
		return 0;
	/* Where each rank has as many slow links, no rank is the cause. */
	for (int32_t r = 0; r < job->nranks; r++) {
		verdict_count(job, near, r, &others, &others_slow);
		if (r != rank && others > 0 && 4 * others_slow < 3 * others)
			return 1;
	}
	return 0;
}
