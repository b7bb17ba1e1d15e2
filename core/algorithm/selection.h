/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * selection.h - chooses the algorithm of a call.  The choice is a function of the call's description and
 * of the selection, and both are the same on every rank.
 */
#ifndef CORE_ALGORITHM_SELECTION_H
#define CORE_ALGORITHM_SELECTION_H

#include "algorithm/rules.h"

#include <coll/coll.h>
#include <stddef.h>

struct config;

/*
 * The options that schedules depend on.  All ranks use rank 0's values and so build the same schedules.
 * The struct has no padding.
 */
struct selection {
	uint64_t table;       /* hash of the table of algorithms, different in each version */
	uint64_t segment;     /* bytes of a segment */
	int32_t node_size;    /* ranks of a node; 0: all ranks of a host */
	int32_t reproducible; /* results must depend on inputs and rank order only */
	uint64_t
		cuts_messages; /* 1: send and receive are cut into segments, since ranks may stage them */
	struct rules rules[RULES_KINDS]; /* the rules of kind k are at [kind_to_place(k)] */
};

/*
 * Fills *selection from the options of this process.  Rules of algorithms that `reproducible` cannot use
 * are kept: choose_rule passes over them.
 */
int choose_compile(const struct config *config, struct selection *selection);
/*
 * For a selection that another rank has sent: COLL_ERR_REMOTE if a value is none that its option can have on this
 * rank.
 */
int choose_check(const struct config *config, const struct selection *selection);
/* A hash of the whole selection. */
uint64_t choose_hash(const struct selection *selection);
/* "'segment', 'ring_algorithm'": the options in which two selections differ. */
void choose_differences(const struct selection *a, const struct selection *b, char *text,
			size_t size);

/* The flags (COLL_ALGORITHM_*) that operations of the kind need under this selection. */
uint32_t choose_requirements(const struct selection *selection, int kind);
/*
 * The id of the algorithm of the first rule that matches, if that algorithm fits and has the required
 * flags; else of the first algorithm of the table that fits and has them, else -1.
 */
int choose_algorithm(const struct selection *selection, const struct call_description *call,
		     uint32_t requirements);

/* The rules of a kind of operation; an empty list for a kind that has none. */
const struct rules *choose_rules(const struct selection *selection, int kind);
/* Index of the first rule that matches and whose algorithm fits and has the required flags, or -1. */
int choose_rule(const struct rules *rules, const struct call_description *call,
		uint32_t requirements);

#endif
