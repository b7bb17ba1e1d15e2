/* SPDX-License-Identifier: BSD-3-Clause */
/* checks.c - the checks of the facts and of the links: a sentence each. */
#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "doctor/doctor.h"

enum {
	CHECKS_CLOCK_MS = 100,   /* clocks that differ by more confuse whoever compares logs */
	CHECKS_FILES_OTHER = 64, /* files that a program has open beside its connections */
	CHECKS_FILES_RANK = 2,   /* connections to each other rank */
	CHECKS_MEMLOCK_MIB = 64, /* network cards with RDMA need memory that is locked */
	CHECKS_NAMED = 8         /* ranks or links that a sentence names */
};

static void checks_add(char sentence[DOCTOR_SENTENCE], const char *fmt, va_list args)
{
	const size_t used = strlen(sentence);

	vsnprintf(sentence + used, DOCTOR_SENTENCE - used, fmt, args);
}

void doctor_say(struct doctor_report *report, const char *name, enum doctor_status status,
		const char *fmt, ...)
{
	struct doctor_check *check = &report->check[report->checks];
	va_list args;

	if (report->checks == DOCTOR_CHECKS)
		return;
	report->checks++;
	*check = (struct doctor_check){.name = name, .status = status};
	va_start(args, fmt);
	checks_add(check->sentence, fmt, args);
	va_end(args);
	if (status > report->verdict)
		report->verdict = status;
}

/* Adds to the sentence of the last check. */
__attribute__((format(printf, 2, 3))) static void checks_more(struct doctor_report *report,
							      const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	checks_add(report->check[report->checks - 1].sentence, fmt, args);
	va_end(args);
}

/* Do all ranks have the same text at this offset of their facts? */
static int32_t checks_first_other(const struct doctor_job *job, size_t offset)
{
	const char *first = (const char *)&job->facts[0] + offset;

	for (int32_t r = 1; r < job->nranks; r++)
		if (strcmp((const char *)&job->facts[r] + offset, first) != 0)
			return r;
	return 0;
}

static void checks_plugins(const struct doctor_job *job, struct doctor_report *report)
{
	const int32_t other = checks_first_other(job, offsetof(struct doctor_facts, plugins));

	if (other == 0)
		doctor_say(report, "plugins", DOCTOR_OK, "all ranks can use: %s",
			   job->facts[0].plugins);
	else
		doctor_say(report, "plugins", DOCTOR_WARNING,
			   "rank 0 can use %s, but rank %" PRId32
			   " (%s) %s: coll info on both hosts says why",
			   job->facts[0].plugins, other, job->facts[other].host,
			   job->facts[other].plugins);
}

static void checks_kernels(const struct doctor_job *job, struct doctor_report *report)
{
	const int32_t other = checks_first_other(job, offsetof(struct doctor_facts, kernel));

	if (other == 0)
		doctor_say(report, "kernel", DOCTOR_OK, "%s on all ranks", job->facts[0].kernel);
	else
		doctor_say(report, "kernel", DOCTOR_OK,
			   "kernels differ, which does no harm: rank 0 %s, rank %" PRId32 " %s",
			   job->facts[0].kernel, other, job->facts[other].kernel);
}

static void checks_interfaces(const struct doctor_job *job, struct doctor_report *report)
{
	int several = 0;

	for (int32_t r = 1; r < job->nranks; r++)
		several |= !doctor_near(job, 0, r);
	for (int32_t r = 0; r < job->nranks; r++)
		if (job->facts[r].interfaces[0] == '\0' && several) {
			doctor_say(report, "interfaces", DOCTOR_WARNING,
				   "rank %" PRId32
				   " (%s) has no interface to other hosts that is up",
				   r, job->facts[r].host);
			return;
		}
	doctor_say(report, "interfaces", DOCTOR_OK, "%s",
		   several ? "every rank has an interface to other hosts that is up"
			   : "all ranks run on one host, so that no interface matters");
}

static void checks_clocks(const struct doctor_job *job, struct doctor_report *report)
{
	int32_t worst = 0;
	double ms;

	if (job->links == NULL || job->nranks == 1)
		return;
	for (int32_t r = 1; r < job->nranks; r++)
		if (llabs(job->facts[r].clock_ns) > llabs(job->facts[worst].clock_ns))
			worst = r;
	ms = (double)job->facts[worst].clock_ns / 1e6;
	if (ms > CHECKS_CLOCK_MS || ms < -CHECKS_CLOCK_MS)
		doctor_say(report, "clocks", DOCTOR_WARNING,
			   "the clock of rank %" PRId32
			   " (%s) is %.1f s %s rank 0's (%s): the times in "
			   "logs do not fit; NTP keeps clocks together",
			   worst, job->facts[worst].host, (ms < 0 ? -ms : ms) / 1000,
			   ms < 0 ? "behind" : "ahead of", job->facts[0].host);
	else
		doctor_say(report, "clocks", DOCTOR_OK, "they differ by at most %.3f ms",
			   ms < 0 ? -ms : ms);
}

static void checks_files(const struct doctor_job *job, struct doctor_report *report)
{
	const int64_t wanted = CHECKS_FILES_OTHER + CHECKS_FILES_RANK * (int64_t)job->nranks;
	int32_t least = 0;

	for (int32_t r = 1; r < job->nranks; r++)
		if (job->facts[r].nofile < job->facts[least].nofile)
			least = r;
	if (job->facts[least].nofile < wanted)
		doctor_say(report, "open files", DOCTOR_WARNING,
			   "rank %" PRId32 " (%s) may have %" PRId64
			   " files open, and may need %" PRId64
			   " for its connections: raise 'ulimit -n'",
			   least, job->facts[least].host, job->facts[least].nofile, wanted);
	else
		doctor_say(report, "open files", DOCTOR_OK,
			   "every rank may have as many as it needs (about %" PRId64 ")", wanted);
}

static void checks_memlock(const struct doctor_job *job, struct doctor_report *report)
{
	int32_t least = 0;
	int64_t mib;

	for (int32_t r = 1; r < job->nranks; r++)
		if (job->facts[r].memlock < job->facts[least].memlock)
			least = r;
	mib = job->facts[least].memlock >> 20;
	if (mib >= CHECKS_MEMLOCK_MIB)
		doctor_say(report, "locked memory", DOCTOR_OK, "the limit suffices on all ranks");
	else
		doctor_say(report, "locked memory",
			   strcmp(job->backend, "ucx") && strcmp(job->backend, "nccl")
				   ? DOCTOR_OK
				   : DOCTOR_WARNING,
			   "rank %" PRId32 " (%s) may lock %" PRId64
			   " MiB: tcp needs none, RDMA by ucx or nccl more; 'ulimit -l' sets it",
			   least, job->facts[least].host, mib);
}

/* The ranks of a host share /dev/shm. */
static void checks_shm(const struct doctor_job *job, struct doctor_report *report)
{
	for (int32_t r = 0; r < job->nranks; r++) {
		int64_t wanted = 0, mib;
		int ranks = 0;

		for (int32_t i = 0; i < job->nranks; i++)
			if (doctor_near(job, r, i)) {
				wanted += job->facts[i].shm_wanted;
				ranks++;
			}
		mib = wanted >> 20;
		if (ranks > 1 && job->facts[r].shm_free < wanted) {
			doctor_say(report, "shared memory", DOCTOR_WARNING,
				   "/dev/shm of rank %" PRId32 " (%s) has %" PRId64
				   " MiB free, and its %d ranks may use %" PRId64
				   ": messages between them then go through sockets; give the "
				   "container a "
				   "larger one (--shm-size), or set COLL_TCP_RING_MEMORY",
				   r, job->facts[r].host,
				   job->facts[r].shm_free < 0 ? 0 : job->facts[r].shm_free >> 20,
				   ranks, mib);
			return;
		}
	}
	doctor_say(report, "shared memory", DOCTOR_OK,
		   "/dev/shm has room for the ranks of each host");
}

static void checks_processors(const struct doctor_job *job, struct doctor_report *report)
{
	for (int32_t r = 0; r < job->nranks; r++) {
		const struct doctor_facts *f = &job->facts[r];

		if (f->processors == 0 || f->load_percent <= 100 * f->processors * 2)
			continue;
		doctor_say(report, "load", DOCTOR_WARNING,
			   "on the host of rank %" PRId32
			   " (%s) %.1f processes want to run, and the rank may "
			   "use %" PRId32 " processor%s: others slow it",
			   r, f->host, f->load_percent / 100.0, f->processors,
			   f->processors == 1 ? "" : "s");
		return;
	}
	doctor_say(report, "load", DOCTOR_OK, "no host has more work than processors");
}

/* Names a slow link, unless a rank that is slow by itself explains it. */
static int checks_slow_link(const struct doctor_job *job, int near, int32_t a, int32_t b,
			    struct doctor_report *report)
{
	const struct doctor_link *link = &job->links[a * job->nranks + b];

	if (a == b || !job->slow[a * job->nranks + b] || doctor_near(job, a, b) != near ||
	    doctor_rank_is_slow(job, near, a) || doctor_rank_is_slow(job, near, b))
		return 0;
	checks_more(report,
		    "; the link from rank %" PRId32 " (%s) to rank %" PRId32
		    " (%s) is slow: %.1f us, %.1f MB/s",
		    a, job->facts[a].host, b, job->facts[b].host, link->latency_us, link->mbytes_s);
	return 1;
}

static void checks_slow_rank(const struct doctor_job *job, int32_t rank,
			     struct doctor_report *report)
{
	struct doctor_link worst = {0, HUGE_VAL};

	for (int32_t i = 0; i < job->nranks * job->nranks; i++) {
		if (!job->slow[i] || (i / job->nranks != rank && i % job->nranks != rank))
			continue;
		worst.latency_us = fmax(worst.latency_us, job->links[i].latency_us);
		worst.mbytes_s = fmin(worst.mbytes_s, job->links[i].mbytes_s);
	}
	checks_more(report,
		    "; rank %" PRId32
		    " (%s) is slow to the others: up to %.1f us, down to %.1f MB/s",
		    rank, job->facts[rank].host, worst.latency_us, worst.mbytes_s);
}

static void checks_links(struct doctor_job *job, int near, struct doctor_report *report)
{
	const char *name = near ? "links within a host" : "links between hosts";
	struct doctor_class class;
	int named = 0;

	doctor_find_slow(job, near, &class);
	if (class.links == 0)
		return;
	doctor_say(report, name, class.slow ? DOCTOR_WARNING : DOCTOR_OK,
		   "a good one has %.1f us and %.1f MB/s", class.latency_us, class.mbytes_s);
	if (class.slow == 0) {
		checks_more(report, "; none is much slower");
		return;
	}
	for (int32_t r = 0; r < job->nranks && named < CHECKS_NAMED; r++)
		if (doctor_rank_is_slow(job, near, r)) {
			checks_slow_rank(job, r, report);
			named++;
		}
	for (int32_t i = 0; i < job->nranks * job->nranks && named < CHECKS_NAMED; i++)
		named += checks_slow_link(job, near, i / job->nranks, i % job->nranks, report);
	if (named == CHECKS_NAMED)
		checks_more(report, "; and more: --json has all %d slow links", class.slow);
}

void doctor_check_all(struct doctor_job *job, struct doctor_report *report)
{
	doctor_say(report, "communicator", DOCTOR_OK,
		   "%" PRId32 " rank%s of libcoll %s met, over backend '%s'", job->nranks,
		   job->nranks == 1 ? "" : "s", coll_version_string(), job->backend);
	checks_plugins(job, report);
	checks_kernels(job, report);
	checks_interfaces(job, report);
	checks_clocks(job, report);
	checks_files(job, report);
	checks_memlock(job, report);
	checks_shm(job, report);
	checks_processors(job, report);
	if (job->links == NULL)
		return;
	checks_links(job, 1, report);
	checks_links(job, 0, report);
}
