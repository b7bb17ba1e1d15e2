/* SPDX-License-Identifier: BSD-3-Clause */
/* selection_info.c - the rules shown to the outside, and which of them ever count. */
#include "schedule/algo.h"
#include "algorithm/selection.h"
#include "config/config.h"
#include "base/error.h"
#include "base/kind.h"

#include <coll/backend.h>
#include <string.h>

int choose_rule_count(const struct selection *selection)
{
	int n = 0;

	for (int kind = 1; kind <= RULES_KINDS; kind++)
		n += choose_rules(selection, kind)->count;
	return n;
}

/* The kind of the index-th rule, and *number among those of its kind, from 0; or -1. */
static int choose_find(const struct selection *selection, int index, int *number)
{
	*number = index;
	for (int kind = 1; kind <= RULES_KINDS && *number >= 0; kind++) {
		if (*number < choose_rules(selection, kind)->count)
			return kind;
		*number -= choose_rules(selection, kind)->count;
	}
	error_set(COLL_ERR_INVALID_ARGUMENT, "rule %d does not exist: there are %d, counted from 0",
		  index, choose_rule_count(selection));
	return -1;
}

int choose_describe(const struct config *config, const struct selection *selection, int index,
		    coll_rule_info_t *out)
{
	const struct rule *rule;
	coll_rule_info_t own;
	char option[48];
	int kind, number;

	if (!out || out->size < offsetof(coll_rule_info_t, source))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "set `size` of the coll_rule_info_t to its sizeof first");
	kind = choose_find(selection, index, &number);
	if (kind < 0)
		return COLL_ERR_INVALID_ARGUMENT;
	choose_option(kind, option);
	rule = &choose_rules(selection, kind)->rule[number];
	own = (coll_rule_info_t){
		.size = out->size,
		.name = algo_at(rule->algorithm)->name,
		.source = number < choose_rules(selection, kind)->given
				  ? config_source(config, option)
				  : "default",
		.kind = kind,
		.algorithm = rule->algorithm,
		.bytes_min = rule->bytes_min,
		.bytes_max = rule->bytes_max,
		.ranks_min = rule->ranks_min,
		.ranks_max = rule->ranks_max,
		.nodes_min = rule->nodes_min,
		.nodes_max = rule->nodes_max,
		.number = number + 1,
	};
	own.memory |= rule->memory & COLL_MEM_HOST ? COLL_RULE_HOST_MEMORY : 0;
	own.memory |= rule->memory & COLL_MEM_CUDA ? COLL_RULE_CUDA_MEMORY : 0;
	memcpy(out, &own, out->size < sizeof(own) ? out->size : sizeof(own));
	return COLL_SUCCESS;
}

/* ----------------------------------------------------------------- who gets to a rule -- */

/* A question: can rule `wanted` win for calls like this? */
struct reach {
	const struct rules *rules;
	int wanted;
	uint32_t requirements;
	struct call_shape shape;
};

/*
 * Which rule wins changes only where a range of bytes begins or has ended, so it is enough to look
 * there.
 */
static int reach_by_bytes(struct reach *r)
{
	for (int i = 0; i < 2 * r->rules->count; i++) {
		const struct rule *rule = &r->rules->rule[i / 2];

		r->shape.bytes = i % 2 ? rule->bytes_max + 1 : rule->bytes_min;
		r->shape.memory = COLL_MEM_HOST;
		if (choose_rule(r->rules, &r->shape, r->requirements) == r->wanted)
			return 1;
		r->shape.memory = COLL_MEM_CUDA;
		if (choose_rule(r->rules, &r->shape, r->requirements) == r->wanted)
			return 1;
	}
	return 0;
}

static int reach_on_nodes(struct reach *r, int nnodes)
{
	r->shape.nnodes = nnodes;
	return nnodes >= 1 && nnodes <= r->shape.nranks && reach_by_bytes(r);
}

/* As with bytes: where ranges begin or have ended, and where algorithms begin to fit. */
static int reach_on_any(struct reach *r)
{
	int found =
		reach_on_nodes(r, 1) || reach_on_nodes(r, 2) || reach_on_nodes(r, r->shape.nranks);

	for (int i = 0; !found && i < r->rules->count; i++) {
		const struct rule *rule = &r->rules->rule[i];

		found = reach_on_nodes(r, rule->nodes_min) ||
			(rule->nodes_max < INT32_MAX && reach_on_nodes(r, rule->nodes_max + 1));
	}
	return found;
}

/* Why no call gets to it. */
static const char *reach_why_not(const struct reach *r, int nnodes)
{
	const struct rule *rule = &r->rules->rule[r->wanted];
	const struct algo *algo = algo_at(rule->algorithm);
	const int nranks = r->shape.nranks;

	if ((algo->flags & r->requirements & COLL_ALGORITHM_CANONICAL) !=
	    (r->requirements & COLL_ALGORITHM_CANONICAL))
		return "its results are not reproducible";
	if (nranks < rule->ranks_min || nranks > rule->ranks_max)
		return "the rule is for other numbers of ranks";
	if (algo->flags & COLL_ALGORITHM_POWER_OF_TWO && !algo_fits(algo, nranks, 2))
		return "the number of ranks is not a power of two";
	if (nnodes && (nnodes < rule->nodes_min || nnodes > rule->nodes_max))
		return "the rule is for other numbers of nodes";
	if (algo->flags & COLL_ALGORITHM_NODES && !algo_fits(algo, nranks, nnodes ? nnodes : 2))
		return "there must be several nodes, one of them with several ranks";
	return "earlier rules take every call";
}

/* For operations with the current needs. */
static int reach_found(struct reach *r, int nnodes)
{
	return nnodes ? reach_on_nodes(r, nnodes) : reach_on_any(r);
}

static void reach_answer(struct reach *r, int nnodes, int32_t *reach, const char **why)
{
	*reach = COLL_REACH_CALLS;
	*why = "";
	if (reach_found(r, nnodes))
		return;
	*reach = COLL_REACH_NONE;
	*why = reach_why_not(r, nnodes);
	if (!kind_reduces(r->shape.kind))
		return;
	r->requirements |= COLL_ALGORITHM_ORDERED;
	if (!reach_found(r, nnodes))
		return;
	*reach = COLL_REACH_ORDERED;
	*why = "only operations that do not commute reach the rule";
}

int choose_reachable(const struct selection *selection, int index, int nranks, int nnodes,
		     int32_t *reach, const char **why)
{
	struct reach r = {.shape.nranks = nranks};
	int kind = choose_find(selection, index, &r.wanted);

	if (kind < 0)
		return COLL_ERR_INVALID_ARGUMENT;
	if (!reach || !why || nranks < 1 || nnodes < 0 || nnodes > nranks)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_info_rule_reach: expected at least 1 rank, at most as many "
				 "nodes, and reach and why not NULL");
	r.shape.kind = kind;
	r.rules = choose_rules(selection, kind);
	r.requirements = choose_requirements(selection, kind);
	reach_answer(&r, nnodes, reach, why);
	return COLL_SUCCESS;
}
