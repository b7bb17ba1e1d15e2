/* SPDX-License-Identifier: BSD-3-Clause */
/* rules.c - finds the algorithm that the rules in force choose, in the table that coll_info shows. */
#include "model/model.h"

static int rule_fits(const coll_rule_info_t *rule, const struct model_call *call)
{
	uint64_t block = call->bytes / (uint64_t)call->nranks;
	int local = call->nranks / call->nnodes;
	uint32_t power =
		call->nranks & (call->nranks - 1) ? COLL_RULE_POWER_OTHER : COLL_RULE_POWER_TWO;
	coll_algorithm_info_t algorithm = {.size = sizeof(algorithm)};

	if (rule->kind != call->kind || !(rule->memory & COLL_RULE_HOST_MEMORY) ||
	    !(rule->cpus & call->cpus) || call->bytes < rule->bytes_min ||
	    call->bytes > rule->bytes_max || block < rule->block_min || block > rule->block_max ||
	    call->nranks < rule->ranks_min || call->nranks > rule->ranks_max ||
	    call->nnodes < rule->nodes_min || call->nnodes > rule->nodes_max ||
	    local < rule->local_min || local > rule->local_max || !(rule->power & power))
		return 0;
	return coll_algorithm(rule->algorithm, &algorithm) == COLL_SUCCESS &&
	       model_fits(&algorithm, call);
}

int model_fits(const coll_algorithm_info_t *algorithm, const struct model_call *call)
{
	if (algorithm->flags & COLL_ALGORITHM_POWER_OF_TWO && call->nranks & (call->nranks - 1))
		return 0;
	return !(algorithm->flags & COLL_ALGORITHM_NODES) ||
	       (call->nnodes > 1 && call->nnodes < call->nranks);
}

int model_choice(coll_info_t info, const struct model_call *call)
{
	coll_rule_info_t rule;

	for (int32_t i = 0; i < coll_info_rule_count(info); i++) {
		rule = (coll_rule_info_t){.size = sizeof(rule)};
		if (coll_info_rule(info, i, &rule) == COLL_SUCCESS && rule_fits(&rule, call))
			return rule.algorithm;
	}
	return -1;
}
