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
 * The options that schedules depend on, and `watch`.  All ranks use rank 0's values and so build the same schedules.
 * The struct has no padding.
 */
struct selection {
	uint64_t table;       /* hash of the table of algorithms, which differs between versions */
	uint64_t segment;     /* bytes of a segment */
	int32_t node_size;    /* ranks of a node; 0: all ranks of a host */
	int32_t reproducible; /* 1: results must depend on inputs and rank order only */
	/* 1: send and receive are cut into segments, since ranks may stage them */
	uint32_t cuts_messages;
	/* 1: the option `watch` is on, and the ranks tell each other where the servers listen (serve/serve.h) */
	uint32_t watch;
	struct rules rules[RULES_KINDS]; /* the rules of kind k are at [kind_at(k)->index] */
};

/* Fills *selection from the options of this process.  Rules that `reproducible` cannot use stay: choose_rule skips them. */
int choose_compile(const struct config *config, struct selection *selection);
/* Checks another rank's selection.  Returns COLL_ERR_REMOTE if a value is outside the range of its option on this rank. */
int choose_check(const struct config *config, const struct selection *selection);
/* Returns a hash of the whole selection. */
uint64_t choose_hash(const struct selection *selection);
/* Writes the options in which two selections differ: "'segment', 'ring_algorithm'". */
void choose_differences(const struct selection *a, const struct selection *b, char *text,
			size_t size);

/* Returns the flags (COLL_ALGORITHM_*) that operations of the kind need under this selection. */
uint32_t choose_requirements(const struct selection *selection, int kind);
/*
 * Returns the id of the algorithm of the first rule that matches and whose algorithm fits and has the required flags; else
 * of the first algorithm in the table that fits and has them; else -1.
 */
int choose_algorithm(const struct selection *selection, const struct call_description *call,
		     uint32_t requirements);

/* May the call take the algorithm with that id, which has the required flags? */
int choose_can(int id, const struct call_description *call, uint32_t requirements);
/* Returns the rules of a kind of operation; an empty list for a kind that has none. */
const struct rules *choose_rules(const struct selection *selection, int kind);
/* Returns the index of the first rule that matches and whose algorithm fits and has the required flags, or -1. */
int choose_rule(const struct rules *rules, const struct call_description *call,
		uint32_t requirements);

#endif
