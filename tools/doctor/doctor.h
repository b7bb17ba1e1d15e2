/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * doctor.h - the parts of `coll doctor`: the command and what the ranks do together (doctor.c), the facts of each rank
 * (facts.c), the measurement of the links (links.c), which links are slow (verdict.c), the checks of the facts (checks.c),
 * the page and the JSON document (page.c).
 */
#ifndef TOOLS_DOCTOR_H
#define TOOLS_DOCTOR_H

#include <coll/coll.h>
#include <stddef.h>
#include <stdint.h>

struct tool_command;
extern const struct tool_command tool_doctor;

/* ---------------------------------------------------------- facts.c -- */

enum { DOCTOR_WORD = 64, DOCTOR_TEXT = 512 };

/* A limit that is unlimited. */
#define DOCTOR_UNLIMITED INT64_MAX

/* What one rank knows of itself.  Ranks exchange the struct as bytes, so all of them run the same version. */
struct doctor_facts {
	char host[DOCTOR_WORD];
	char network
		[DOCTOR_WORD]; /* names the running kernel and the network namespace; "": unknown */
	char kernel[DOCTOR_WORD];
	char plugins[DOCTOR_TEXT]; /* the usable backends with their versions: "tcp 1.2, ucx 1.3" */
	char interfaces
		[DOCTOR_TEXT]; /* those that are up and reach other hosts: "eth0 10000 Mb/s 10.0.0.5/24" */
	int64_t memlock, nofile; /* limits of this process: bytes, and files */
	int64_t shm_free;        /* bytes free in /dev/shm; -1: there is none */
	int64_t shm_wanted;      /* bytes that the rank may put there */
	int64_t clock_ns;        /* how far its clock is ahead of rank 0's */
	int32_t processors;      /* on which the rank may run */
	int32_t load_percent;    /* processes that wanted to run in the last minute, times 100 */
};

void doctor_facts(struct doctor_facts *facts);

/* ---------------------------------------------------------- links.c -- */

/* One direction between two ranks. */
struct doctor_link {
	double latency_us; /* half of the shortest round trip of 24 bytes */
	double mbytes_s;   /* megabytes a second of long messages */
};

/* Up to so many ranks one pair is measured after the other; more ranks are measured in rounds of pairs. */
enum { DOCTOR_ALONE = 16 };

/*
 * Measures the links of this rank to all others; all ranks call it.  own[r] becomes the link to rank r if this link is
 * better than own[r] was, and *clock_ns how far the clock is ahead of rank 0's.
 *
 * wanted    nranks * nranks bytes, the same on all ranks: measures only pairs with a byte that is not 0.  NULL: all pairs.
 */
coll_result_t doctor_measure(coll_comm_t comm, int32_t rank, int32_t nranks, const char *wanted,
			     struct doctor_link *own, int64_t *clock_ns);

/* -------------------------------------------------------- verdict.c -- */

/* What rank 0 knows of the job. */
struct doctor_job {
	const char *backend;
	int32_t nranks;
	struct doctor_facts *facts; /* nranks */
	struct doctor_link *links;  /* nranks * nranks, row by row: from, to; NULL: not measured */
	char *slow;                 /* nranks * nranks: 1 if the link is slow; NULL: not measured */
};

/* Do both ranks share a host and its network?  A rank whose network is unknown shares it with no other rank. */
int doctor_near(const struct doctor_job *job, int32_t a, int32_t b);

/* What the links of one class have in common: within a host, or between hosts. */
struct doctor_class {
	int links, slow;
	double latency_us, mbytes_s; /* of a good link: three of four are not better */
};

/* Finds the slow links of the class, and sets their bytes in job->slow. */
void doctor_find_slow(struct doctor_job *job, int near, struct doctor_class *found);
/* Is a rank the cause: are most of its links of that class slow, and others not? */
int doctor_rank_is_slow(const struct doctor_job *job, int near, int32_t rank);

/* --------------------------------------------------------- checks.c -- */

enum doctor_status { DOCTOR_OK, DOCTOR_WARNING, DOCTOR_FAILED };
enum { DOCTOR_CHECKS = 16, DOCTOR_SENTENCE = 1024 };

struct doctor_check {
	const char *name;
	enum doctor_status status;
	char sentence[DOCTOR_SENTENCE];
};

struct doctor_report {
	struct doctor_check check[DOCTOR_CHECKS];
	int checks;
	enum doctor_status verdict; /* the worst of the checks */
};

/* Adds a check.  Returns its sentence, which further text may follow. */
__attribute__((format(printf, 4, 5))) void doctor_say(struct doctor_report *report,
						      const char *name, enum doctor_status status,
						      const char *fmt, ...);
void doctor_check_all(struct doctor_job *job, struct doctor_report *report);

/* ----------------------------------------------------------- page.c -- */

/* job->nranks may be 0: then the ranks could not meet. */
void doctor_print(const struct doctor_job *job, const struct doctor_report *report);
void doctor_print_json(const struct doctor_job *job, const struct doctor_report *report);

#endif
