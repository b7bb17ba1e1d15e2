/* SPDX-License-Identifier: BSD-3-Clause */
/* scenarios.h - ranks of ranks.h run scenarios of tools/scenario on memory of the host. */
#ifndef TESTS_SCENARIOS_H
#define TESTS_SCENARIOS_H

#include "../../tools/scenario/scenario.h"
#include "ranks.h"

/* Runs the scenario on a rank. */
void scenario_run(struct rank *r, scenario_fn scenario);

/* Runs ranks_ok() for a job whose ranks run the scenario.  It does not use the job's fn and user. */
int scenario_ok(const struct ranks_job *job, scenario_fn scenario, const char *name);

#endif
