/* SPDX-License-Identifier: BSD-3-Clause */
/* selection.c - makes the selection that ranks share from options, and chooses an algorithm by the selection. */
#include "schedule/algo.h"
#include "algorithm/selection.h"
#include "config/config.h"
#include "base/error.h"
#include "base/kind.h"
#include "base/siphash.h"

#include <coll/backend.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

_Static_assert(sizeof(struct selection) == 32 + RULES_KINDS * sizeof(struct rules),
	       "a selection has no gaps: it is compared as bytes");

/* The hash key is no secret, but it must be the same on every rank. */
static const uint8_t choose_key[16] = "libcoll tuning";

static uint64_t choose_hash_bytes(const void *bytes, size_t size)
{
	uint8_t hash[16];
	uint64_t first;

	siphash128(choose_key, bytes, size, hash);
	memcpy(&first, hash, sizeof(first));
	return first;
}

uint64_t choose_hash(const struct selection *selection)
{
	return choose_hash_bytes(selection, sizeof(*selection));
}

/* Hashes the table of algorithms: ranks with equal hashes use the same ids for the same algorithms. */
static uint64_t choose_hash_table(void)
{
	uint64_t part[3] = {sizeof(struct selection), RULES_MAX, ALGO_GENERATION};
	const struct algo *algo;

	for (int i = 0; i < algo_count(); i++) {
		algo = algo_at(i);
		part[2] = choose_hash_bytes(part, sizeof(part));
		part[0] = (uint64_t)algo->kind << 32 | algo->flags;
		part[1] = choose_hash_bytes(algo->name, strlen(algo->name));
	}
	return choose_hash_bytes(part, sizeof(part));
}

/* ---------------------------------------------------------------------- from options -- */

static int choose_append(int kind, const char *text, struct rules *rules)
{
	char why[800];

	if (!text || !text[0] || !rules_parse(kind, text, rules, why, sizeof(why)))
		return COLL_SUCCESS;
	return error_set(COLL_ERR_INTERNAL, "rules of %s: %s", kind_name(kind), why);
}

/* Compiles the user's rules, then the built-in rules for the calls that no user's rule matches. */
static int choose_compile_kind(const struct config *config, int kind, struct rules *rules)
{
	char name[48];
	int code = COLL_SUCCESS;

	rules_option(kind, name);
	if (config_is_set(config, name))
		code = choose_append(kind, config_string(config, name), rules);
	rules->given = rules->count;
	return code ? code : choose_append(kind, config_default(config, name), rules);
}

int choose_compile(const struct config *config, struct selection *selection)
{
	int code = COLL_SUCCESS;

	memset(selection, 0, sizeof(*selection));
	selection->table = choose_hash_table();
	selection->segment = (uint64_t)config_int(config, "segment");
	selection->node_size = (int32_t)config_int(config, "node_size");
	selection->reproducible = (int32_t)config_int(config, "reproducible");
	selection->cuts_messages = (uint32_t)config_int(config, "enable_gpu_fallback");
	selection->watch = (uint32_t)config_int(config, "watch");
	for (int i = 0; !code && i < RULES_KINDS; i++)
		code = choose_compile_kind(config, kind_from_index(i), &selection->rules[i]);
	return code;
}

static int choose_altered(const char *name, int64_t number, int64_t min, int64_t max)
{
	return error_set(COLL_ERR_REMOTE,
			 "rank 0's option '%s' came as %" PRId64 ", but goes from %" PRId64
			 " to %" PRId64 ": the exchange between the ranks altered bytes on the way",
			 name, number, min, max);
}

static int choose_check_number(const struct config *config, const char *name, int64_t number)
{
	int64_t min, max;

	return config_allows(config, name, number, &min, &max)
		       ? COLL_SUCCESS
		       : choose_altered(name, number, min, max);
}

int choose_check(const struct config *config, const struct selection *selection)
{
	/* Saturate: a value above the limit stays above it. */
	int64_t segment = selection->segment < INT64_MAX ? (int64_t)selection->segment : INT64_MAX;
	int code = choose_check_number(config, "segment", segment);

	if (!code)
		code = choose_check_number(config, "node_size", selection->node_size);
	if (!code && selection->cuts_messages > 1)
		code = choose_altered("enable_gpu_fallback", (int64_t)selection->cuts_messages, 0,
				      1);
	if (!code && selection->watch > 1)
		code = choose_altered("watch", (int64_t)selection->watch, 0, 1);
	for (int i = 0; !code && i < RULES_KINDS; i++) {
		const struct rules *rules = &selection->rules[i];

		if (rules->count < 0 || rules->count > RULES_MAX || rules->given < 0 ||
		    rules->given > rules->count)
			code = error_set(COLL_ERR_REMOTE,
					 "rank 0's rules for %s came as %d, %d of them the user's, "
					 "but %d are the most: the exchange between the ranks "
					 "altered bytes on the way",
					 kind_name(kind_from_index(i)), (int)rules->count,
					 (int)rules->given, RULES_MAX);
	}
	return code;
}

static void choose_add_name(char *text, size_t size, const char *name)
{
	size_t len = strlen(text);

	snprintf(text + len, size - len, "%s'%s'", len ? ", " : "", name);
}

void choose_differences(const struct selection *a, const struct selection *b, char *text,
			size_t size)
{
	char name[48];

	text[0] = '\0';
	if (a->segment != b->segment)
		choose_add_name(text, size, "segment");
	if (a->node_size != b->node_size)
		choose_add_name(text, size, "node_size");
	if (a->reproducible != b->reproducible)
		choose_add_name(text, size, "reproducible");
	if (a->cuts_messages != b->cuts_messages)
		choose_add_name(text, size, "enable_gpu_fallback");
	if (a->watch != b->watch)
		choose_add_name(text, size, "watch");
	for (int i = 0; i < RULES_KINDS; i++) {
		rules_option(kind_from_index(i), name);
		if (memcmp(&a->rules[i], &b->rules[i], sizeof(struct rules)) != 0)
			choose_add_name(text, size, name);
	}
}

/* -------------------------------------------------------------------------- a choice -- */

uint32_t choose_requirements(const struct selection *selection, int kind)
{
	return selection->reproducible && kind_at(kind)->reduces ? COLL_ALGORITHM_CANONICAL : 0;
}

int choose_can(int id, const struct call_description *call, uint32_t requirements)
{
	const struct algo *algo = algo_at(id);

	return algo && algo->kind == call->kind && (algo->flags & requirements) == requirements &&
	       algo_fits(algo, call->nranks, call->nnodes);
}

const struct rules *choose_rules(const struct selection *selection, int kind)
{
	static const struct rules none;
	const int index = kind_at(kind)->index;

	return index < 0 ? &none : &selection->rules[index];
}

int choose_rule(const struct rules *rules, const struct call_description *call,
		uint32_t requirements)
{
	for (int i = 0; i < rules->count && i < RULES_MAX; i++)
		if (rule_matches(&rules->rule[i], call) &&
		    choose_can(rules->rule[i].algorithm, call, requirements))
			return i;
	return -1;
}

int choose_algorithm(const struct selection *selection, const struct call_description *call,
		     uint32_t requirements)
{
	const struct rules *rules = choose_rules(selection, call->kind);
	int i = choose_rule(rules, call, requirements);

	if (i >= 0)
		return rules->rule[i].algorithm;
	for (i = 0; i < algo_count(); i++)
		if (choose_can(i, call, requirements))
			return i;
	return -1;
}
