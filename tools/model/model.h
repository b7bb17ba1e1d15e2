/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * model.h - declarations that the parts of `coll model` share: a machine, and the time that the schedules of all ranks take
 * on it.
 */
#ifndef TOOLS_MODEL_H
#define TOOLS_MODEL_H

#include <coll/coll.h>
#include <stdint.h>
#include "prove/prove.h"

struct tool_command;
extern const struct tool_command tool_model;

/*
 * The parameters of LogGP (Alexandrov, Ionescu, Schauser and Scheiman, "LogGP: Incorporating Long Messages
 * into the LogP Model", 1995), in whole picoseconds: a double is exact up to two hours.  A message of
 * k bytes occupies the sender's processor for `overhead`, enters the network in (k - 1) * byte, crosses it in
 * `latency`, and occupies the receiver's processor for `overhead`.  The next message of the same port follows
 * `gap` after the last byte.
 */
struct model_network {
	double latency, overhead, gap, byte;
};

struct model_machine {
	struct model_network far;  /* between nodes; all ranks of a node share one port each way */
	struct model_network near; /* within a node; every rank has a port each way */
	double reduce;             /* time to reduce or copy a byte */
	int node_size;             /* consecutive ranks of a node */
	int cores; /* processors that the ranks of a node share; 0: one for each rank */
};

/* A call of a collective. */
struct model_call {
	int kind;
	int nranks, nnodes;
	uint64_t bytes; /* bytes of the count argument */
	uint32_t cpus;  /* a COLL_RULE_*_CPUS bit */
};

/* rules.c: can the call use the algorithm?  The index of the algorithm that the rules choose for the call, or -1. */
int model_fits(const coll_algorithm_info_t *algorithm, const struct model_call *call);
int model_choice(coll_info_t info, const struct model_call *call);

/* simulate.c: memory that one simulation leaves to the next.  It is zeroed before the first. */
struct model_run {
	struct model_event *heap;
	int events, cap_heap;
	struct model_rank *rank; /* of each rank */
	struct model_port *port; /* of each node */
	double *core;            /* of each node: the times at which its processors become free */
	int cap_ranks, cap_ports, cap_cores;
};

/*
 * Returns the time from the common start to the last step of the last rank, in picoseconds, or -1 if the steps do not all
 * complete.  The case is built and matched (prove_build, prove_match).
 */
double model_simulate(struct model_run *m, struct prove *p, const struct model_machine *machine);
void model_free(struct model_run *m);

#endif
