/* SPDX-License-Identifier: BSD-3-Clause */
/* info_rules.c - the rules of a selection, and the rules that no call reaches. */
#include "introspect/info.h"
#include "schedule/algo.h"
#include "config/config.h"
#include "base/error.h"
#include "base/kind.h"

#include <coll/backend.h>
#include <string.h>

int info_rule_count(const struct selection *selection)
{
	int n = 0;

	for (int i = 0; i < RULES_KINDS; i++)
		n += selection->rules[i].count;
	return n;
}

/* Returns the kind of the index-th rule, or -1.  *number becomes the rule's number among the rules of its kind, from 0. */
static int info_rule_find(const struct selection *selection, int index, int *number)
{
	*number = index;
	for (int i = 0; i < RULES_KINDS && *number >= 0; i++) {
		if (*number < selection->rules[i].count)
			return kind_from_index(i);
		*number -= selection->rules[i].count;
	}
	error_set(COLL_ERR_INVALID_ARGUMENT, "rule %d does not exist: there are %d, counted from 0",
		  index, info_rule_count(selection));
	return -1;
}

int info_rule_describe(const struct config *config, const struct selection *selection, int index,
		       coll_rule_info_t *out)
{
	const struct rule *rule;
	coll_rule_info_t own;
	char option[48];
	int kind, number;

	if (!out || out->size < offsetof(coll_rule_info_t, source))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "set `size` of the coll_rule_info_t to its sizeof first");
	kind = info_rule_find(selection, index, &number);
	if (kind < 0)
		return COLL_ERR_INVALID_ARGUMENT;
	rules_option(kind, option);
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
		.block_min = rule->block_min,
		.block_max = rule->block_max,
		.local_min = rule->local_min,
		.local_max = rule->local_max,
	};
	own.power |= rule->power & RULE_POWER_TWO ? COLL_RULE_POWER_TWO : 0;
	own.power |= rule->power & RULE_POWER_OTHER ? COLL_RULE_POWER_OTHER : 0;
	own.memory |= rule->memory & COLL_MEM_HOST ? COLL_RULE_HOST_MEMORY : 0;
	own.memory |= rule->memory & COLL_MEM_CUDA ? COLL_RULE_CUDA_MEMORY : 0;
	own.cpus |= rule->cpus & RULE_OWN_CPUS ? COLL_RULE_OWN_CPUS : 0;
	own.cpus |= rule->cpus & 1 << CPUS_SHARED ? COLL_RULE_SHARED_CPUS : 0;
	own.cpus |= rule->cpus & RULE_FEW_CPUS ? COLL_RULE_FEW_CPUS : 0;
	memcpy(out, &own, out->size < sizeof(own) ? out->size : sizeof(own));
	return COLL_SUCCESS;
}

/* ----------------------------------------------------------------- which rules calls reach -- */

/* A search for a call that rule `wanted` decides. */
struct reachability {
	const struct rules *rules;
	int wanted;
	uint32_t requirements;
	struct call_description call;
};

/* Returns the bytes of a call whose parts have `block` bytes each, or UINT64_MAX if the product overflows. */
static uint64_t reachable_whole(const struct reachability *r, uint64_t block)
{
	uint64_t bytes;

	return __builtin_mul_overflow(block, (uint64_t)r->call.nranks, &bytes) ? UINT64_MAX : bytes;
}

/* Returns the i-th of the four sizes at which a range of the rule begins or has ended. */
static uint64_t reachable_size(const struct reachability *r, const struct rule *rule, int i)
{
	switch (i) {
	case 0: return rule->bytes_min;
	case 1: return rule->bytes_max + 1;
	case 2: return reachable_whole(r, rule->block_min);
	default: return reachable_whole(r, rule->block_max + 1);
	}
}

/* Tries both kinds of memory and all kinds of processors. */
static int reachable_anywhere(struct reachability *r)
{
	for (int i = 0; i < 2 * CPUS_KINDS; i++) {
		r->call.memory = i & 1 ? COLL_MEM_CUDA : COLL_MEM_HOST;
		r->call.cpus = i >> 1;
		if (choose_rule(r->rules, &r->call, r->requirements) == r->wanted)
			return 1;
	}
	return 0;
}

/* Tries the sizes at which a range of bytes begins or has ended.  Only there the deciding rule changes. */
static int reachable_by_bytes(struct reachability *r)
{
	for (int i = 0; i < 4 * r->rules->count; i++) {
		r->call.bytes = reachable_size(r, &r->rules->rule[i / 4], i % 4);
		if (reachable_anywhere(r))
			return 1;
	}
	return 0;
}

static int reachable_on_nodes(struct reachability *r, int nnodes)
{
	r->call.nnodes = nnodes;
	return nnodes >= 1 && nnodes <= r->call.nranks && reachable_by_bytes(r);
}

/* Tries the largest number of nodes with at least `local` ranks each, and one node more. */
static int reachable_with_local(struct reachability *r, int local)
{
	int most = r->call.nranks / local;

	return reachable_on_nodes(r, most) || reachable_on_nodes(r, most + 1);
}

/* Tries the numbers of nodes at which ranges begin or have ended, or algorithms begin to fit. */
static int reachable_on_any(struct reachability *r)
{
	int found = reachable_on_nodes(r, 1) || reachable_on_nodes(r, 2) ||
		    reachable_on_nodes(r, r->call.nranks);

	for (int i = 0; !found && i < r->rules->count; i++) {
		const struct rule *rule = &r->rules->rule[i];

		found = reachable_on_nodes(r, rule->nodes_min) ||
			(rule->nodes_max < INT32_MAX &&
			 reachable_on_nodes(r, rule->nodes_max + 1)) ||
			reachable_with_local(r, rule->local_min) ||
			(rule->local_max < INT32_MAX &&
			 reachable_with_local(r, rule->local_max + 1));
	}
	return found;
}

/* Is there a size within both ranges of the rule? */
static int reachable_has_size(const struct reachability *r, const struct rule *rule)
{
	uint64_t first = reachable_whole(r, rule->block_min);

	if (first < rule->bytes_min)
		first = rule->bytes_min;
	return first <= rule->bytes_max && first / (uint64_t)r->call.nranks <= rule->block_max;
}

/* Returns the reason why no call reaches the rule. */
static const char *reachable_why_not(const struct reachability *r, int nnodes)
{
	const struct rule *rule = &r->rules->rule[r->wanted];
	const struct algo *algo = algo_at(rule->algorithm);
	const int nranks = r->call.nranks;

	if ((algo->flags & r->requirements & COLL_ALGORITHM_CANONICAL) !=
	    (r->requirements & COLL_ALGORITHM_CANONICAL))
		return "its results are not reproducible";
	if (nranks < rule->ranks_min || nranks > rule->ranks_max ||
	    !(rules_power_of(nranks) & rule->power))
		return "the rule is for other numbers of ranks";
	if (!reachable_has_size(r, rule))
		return "no size is in both bytes and block on so many ranks";
	if (algo->flags & COLL_ALGORITHM_POWER_OF_TWO && !algo_fits(algo, nranks, 2))
		return "the number of ranks is not a power of two";
	if (nnodes && (nnodes < rule->nodes_min || nnodes > rule->nodes_max))
		return "the rule is for other numbers of nodes";
	if (nnodes && (nranks / nnodes < rule->local_min || nranks / nnodes > rule->local_max))
		return "the rule is for other numbers of ranks a node";
	if (algo->flags & COLL_ALGORITHM_NODES && !algo_fits(algo, nranks, nnodes ? nnodes : 2))
		return "there must be several nodes, one of them with several ranks";
	return "earlier rules take every call";
}

/* Does the rule decide any call with the current requirements? */
static int reachable_found(struct reachability *r, int nnodes)
{
	return nnodes ? reachable_on_nodes(r, nnodes) : reachable_on_any(r);
}

static void reachable_answer(struct reachability *r, int nnodes, int32_t *reach, const char **why)
{
	*reach = COLL_REACH_CALLS;
	*why = "";
	if (reachable_found(r, nnodes))
		return;
	*reach = COLL_REACH_NONE;
	*why = reachable_why_not(r, nnodes);
	if (!kind_at(r->call.kind)->reduces)
		return;
	r->requirements |= COLL_ALGORITHM_ORDERED;
	if (!reachable_found(r, nnodes))
		return;
	*reach = COLL_REACH_ORDERED;
	*why = "only operations that do not commute reach the rule";
}

int info_rule_reach(const struct selection *selection, int index, int nranks, int nnodes,
		    int32_t *reach, const char **why)
{
	struct reachability r = {.call.nranks = nranks};
	int kind = info_rule_find(selection, index, &r.wanted);

	if (kind < 0)
		return COLL_ERR_INVALID_ARGUMENT;
	if (!reach || !why || nranks < 1 || nnodes < 0 || nnodes > nranks)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_info_rule_reach: expected at least 1 rank, at most as many "
				 "nodes, and reach and why not NULL");
	r.call.kind = kind;
	r.rules = choose_rules(selection, kind);
	r.requirements = choose_requirements(selection, kind);
	reachable_answer(&r, nnodes, reach, why);
	return COLL_SUCCESS;
}
