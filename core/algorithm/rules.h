/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rules.h - which algorithm when, as a user writes it and as data: rules separated by commas, the
 * first that matches a call decides.
 *
 *   recursive_doubling bytes 0-64K, rabenseifner bytes 64K-1M ranks 4-, ring
 *
 * A rule is the name of an algorithm and the conditions that must all hold, each condition once at most:
 *   bytes A-B           of the call's count argument (allgatherv, reduce_scatterv: of the mean
 *                       count; not for kinds that ranks call with different counts); the word
 *                       "bytes" may be left out
 *   block A-B           of each rank's part: these bytes divided by the ranks, rounded down (allreduce,
 *                       broadcast and reduce only: other kinds count the bytes of a part already)
 *   ranks A-B           of the communicator
 *   power two|other     two: their number is a power of two; other: it is none
 *   nodes A-B           that they live on
 *   local A-B           of these ranks for each node: ranks divided by nodes, rounded down
 *   memory host|cuda    that the buffers are in
 *   cpus own|shared|few shared: the host of rank 0 of the communicator has fewer processors than ranks of the
 *                       job, which take turns on them; few: shared, and at most two; own: else
 * Both ends of a range are included; "A-", "-B" and "A" alone are ranges too.
 */
#ifndef CORE_ALGORITHM_RULES_H
#define CORE_ALGORITHM_RULES_H

#include <stddef.h>
#include <stdint.h>

/* The most rules in one text, and in one list. */
enum { RULES_GIVEN_MAX = 16, RULES_MAX = 28 };

/* Kinds that have rules: all collectives, in the order of kind_from_index (base/kind.h). */
enum { RULES_KINDS = 16 };

/* Plain data without gaps: it travels between ranks and is compared as bytes. */
struct rule {
	uint64_t bytes_min, bytes_max; /* without an end: UINT64_MAX */
	uint64_t block_min, block_max; /* bytes / ranks; without an end: UINT64_MAX */
	int32_t ranks_min, ranks_max;  /* without an end: INT32_MAX */
	int32_t nodes_min, nodes_max;
	int32_t local_min, local_max; /* ranks / nodes */
	int32_t algorithm;            /* its id: the index in the table of algorithms */
	uint16_t memory;              /* COLL_MEM_* bits that match */
	uint8_t cpus;                 /* RULE_*_CPUS bits that match */
	uint8_t power;                /* RULE_POWER_* bits that match */
};

/* Bits of rule.power. */
enum { RULE_POWER_TWO = 1, RULE_POWER_OTHER = 2 };

/* Values of call_description.cpus.  CPUS_FEW: shared, and at most CPUS_FEW_MOST processors. */
enum { CPUS_OWN, CPUS_SHARED, CPUS_FEW, CPUS_KINDS };
enum { CPUS_FEW_MOST = 2 };

/* Bits of rule.cpus: 1 << CPUS_*. */
enum {
	RULE_OWN_CPUS = 1 << CPUS_OWN,
	RULE_FEW_CPUS = 1 << CPUS_FEW,
	RULE_SHARED_CPUS = 1 << CPUS_SHARED | RULE_FEW_CPUS
};

struct rules {
	int32_t count;
	int32_t given; /* the first `given` rules are the user's, all others are built in */
	struct rule rule[RULES_MAX];
};

/* The properties of a call that rules look at; they are equal on all ranks. */
struct call_description {
	int kind;
	int nranks, nnodes;
	uint64_t bytes;
	uint32_t memory; /* one COLL_MEM_* bit */
	int cpus;        /* CPUS_* */
};

/* Appends the rules of a text for that kind.  Returns 0, or -1 with the fault in `why` and half-made *rules. */
int rules_parse(int kind, const char *text, struct rules *rules, char *why, size_t size);
/* The config_check of the options "<kind>_algorithm". */
int rules_check_option(const char *key, const char *value, char *why, size_t size);
/* "allreduce_algorithm", the option with the rules of the kind. */
void rules_option(int kind, char name[48]);

/* May rules of that kind have the condition `bytes`? */
int rules_take_bytes(int kind);
/* May they have the condition `block`? */
int rules_take_block(int kind);
/* The RULE_POWER_* bit of a number of ranks. */
int rules_power_of(int nranks);
int rule_matches(const struct rule *rule, const struct call_description *call);

#endif
