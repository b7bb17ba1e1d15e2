/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * schedule.h - the parts of `coll explain --schedule`: the schedules of all ranks in rounds (schedule.c), as a table
 * (rounds.c), as a picture (picture.c), as GOAL (goal.c).
 */
#ifndef TOOLS_EXPLAIN_SCHEDULE_H
#define TOOLS_EXPLAIN_SCHEDULE_H

#include "model/model.h"
#include <stdio.h>

enum {
	SCHEDULE_RANKS_MAX = 1024,
	SCHEDULE_TABLE_RANKS = 16,
	SCHEDULE_PICTURE_RANKS = 32,
	SCHEDULE_PICTURE_ROUNDS = 256
};

struct schedule_request {
	const char *kind, *algorithm; /* NULL: the algorithm that the rules choose */
	int64_t ranks, node_size, root;
	uint64_t bytes, segment;
	const char *svg; /* a file, or NULL */
	int goal;
};

/*
 * Where a step stands.  A message leaves in the round in which all that its send waits for is done, and arrives at the begin of a
 * later round: the next one, unless its receive waits for more.  What a rank does without a message takes no round.
 */
struct schedule_place {
	int begin, end;
};

struct schedule {
	const struct schedule_request *request;
	struct prove prove; /* built and matched */
	struct prove_case c;
	coll_algorithm_info_t info;
	struct schedule_place *place; /* of each step */
	int rounds;
	int chosen; /* 1: the rules choose the algorithm */
	uint64_t messages, bytes;
};

/* Returns 0, or the exit status after a sentence. */
int schedule_make(struct schedule *s, const struct schedule_request *request);
void schedule_free(struct schedule *s);
/* Writes "128K", or "1000". */
const char *schedule_size(uint64_t bytes, char text[32]);
/* Writes "allreduce of 1M by ring, 8 ranks". */
const char *schedule_title(const struct schedule *s, char text[160]);

void schedule_print(const struct schedule *s, FILE *out);
/* Returns 0, or the exit status after a sentence. */
int schedule_draw(const struct schedule *s, const char *path);
/*
 * The schedules as a GOAL text for LogGOPSim (Hoefler, Schneider, Lumsdaine: "LogGOPSim - Simulating Large-Scale
 * Applications in the LogGOPS Model", 2010); a reduction or copy is a calculation of as many units as it has bytes.
 */
void schedule_goal(const struct schedule *s, FILE *out);

/* The command.  Returns the exit status. */
int schedule_show(const struct schedule_request *request);

#endif
