/* SPDX-License-Identifier: BSD-3-Clause */
/* algorithms.c - `coll info --algorithms`: the algorithms, and the rules that choose among them. */
#include <coll/coll.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "info/info.h"
#include "lib/json.h"

static const struct {
	uint32_t bit;
	const char *word, *message;
} info_flags[] = {
	{COLL_ALGORITHM_ORDERED, "ordered", "keeps the operands in rank order"},
	{COLL_ALGORITHM_CANONICAL, "canonical", "reproducible"},
	{COLL_ALGORITHM_POWER_OF_TWO, "power-of-two", "for a power of two of ranks"},
	{COLL_ALGORITHM_NODES, "nodes", "for several nodes, one with several ranks"},
};

enum { INFO_FLAGS = sizeof(info_flags) / sizeof(info_flags[0]) };

static const char *const info_reach[] = {"none", "calls", "ordered"};

/* One rule, and whether a call with the given numbers of ranks and nodes matches it. */
struct info_rule {
	coll_rule_info_t rule;
	int32_t reach; /* -1: not asked */
	const char *why;
};

static int info_get_rule(coll_info_t info, int32_t i, int32_t nranks, int32_t nnodes,
			 struct info_rule *out)
{
	memset(out, 0, sizeof(*out));
	out->rule.size = sizeof(out->rule);
	out->reach = -1;
	out->why = "";
	if (coll_info_rule(info, i, &out->rule) != COLL_SUCCESS)
		return -1;
	if (nranks == 0)
		return 0;
	return coll_info_rule_reach(info, i, nranks, nnodes, &out->reach, &out->why);
}

static int info_get_algorithm(int32_t i, coll_algorithm_info_t *out)
{
	memset(out, 0, sizeof(*out));
	out->size = sizeof(*out);
	return coll_algorithm(i, out);
}

/* ------------------------------------------------------------------------ as text -- */

/* Writes "64K" for 65536, the form that a user types. */
static const char *info_amount(uint64_t bytes, char text[32])
{
	static const char units[] = "\0KMG";
	int unit = 0;

	while (unit < 3 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, 32, "%" PRIu64 "%.1s", bytes, &units[unit]);
	return text;
}

/* Writes "4 to 8 ranks"; min and max are the texts to print. */
static void info_range(char *line, size_t size, const char *min, const char *max, const char *what)
{
	size_t len = strlen(line);
	const char *comma = len ? ", " : "";

	if (min != NULL && max != NULL && strcmp(min, max) == 0)
		snprintf(line + len, size - len, "%s%s %s", comma, min, what);
	else if (min != NULL && max != NULL)
		snprintf(line + len, size - len, "%s%s to %s %s", comma, min, max, what);
	else if (max != NULL)
		snprintf(line + len, size - len, "%sup to %s %s", comma, max, what);
	else if (min != NULL)
		snprintf(line + len, size - len, "%s%s %s or more", comma, min, what);
}

static void info_count_range(char *line, size_t size, int32_t min, int32_t max, const char *what)
{
	char low[16], high[16];

	snprintf(low, sizeof(low), "%" PRId32, min);
	snprintf(high, sizeof(high), "%" PRId32, max);
	info_range(line, size, min > 1 ? low : NULL, max < INT32_MAX ? high : NULL, what);
}

/* Returns the words for a rule's processors; NULL: the rule is for all kinds. */
static const char *info_cpus(uint32_t cpus)
{
	switch (cpus) {
	case COLL_RULE_OWN_CPUS: return "own";
	case COLL_RULE_FEW_CPUS: return "few";
	case COLL_RULE_SHARED_CPUS | COLL_RULE_FEW_CPUS: return "shared";
	default: return NULL;
	}
}

/* Writes "64K to 1M bytes, 4 ranks or more". */
static void info_conditions(const coll_rule_info_t *r, char *line, size_t size)
{
	const char *cpus = info_cpus(r->cpus);
	char low[32], high[32];
	size_t len;

	line[0] = '\0';
	info_amount(r->bytes_min, low);
	info_amount(r->bytes_max, high);
	info_range(line, size, r->bytes_min > 0 || r->bytes_max == 0 ? low : NULL,
		   r->bytes_max < UINT64_MAX ? high : NULL, "bytes");
	info_amount(r->block_min, low);
	info_amount(r->block_max, high);
	info_range(line, size, r->block_min > 0 || r->block_max == 0 ? low : NULL,
		   r->block_max < UINT64_MAX ? high : NULL, "bytes a rank");
	info_count_range(line, size, r->ranks_min, r->ranks_max, "ranks");
	len = strlen(line);
	if (r->power == COLL_RULE_POWER_TWO || r->power == COLL_RULE_POWER_OTHER)
		snprintf(line + len, size - len, "%s%s power of two of ranks", len ? ", " : "",
			 r->power == COLL_RULE_POWER_TWO ? "a" : "no");
	info_count_range(line, size, r->nodes_min, r->nodes_max, "nodes");
	info_count_range(line, size, r->local_min, r->local_max, "ranks a node");
	len = strlen(line);
	if (r->memory == COLL_RULE_HOST_MEMORY || r->memory == COLL_RULE_CUDA_MEMORY)
		snprintf(line + len, size - len, "%s%s memory", len ? ", " : "",
			 r->memory == COLL_RULE_HOST_MEMORY ? "host" : "cuda");
	len = strlen(line);
	if (cpus)
		snprintf(line + len, size - len, "%s%s processors", len ? ", " : "", cpus);
	if (line[0] == '\0')
		snprintf(line, size, "every call");
}

static void info_print_rule(const struct info_rule *r, const struct info_style *style)
{
	int by_default = strcmp(r->rule.source, "default") == 0;
	char line[256];

	info_conditions(&r->rule, line, sizeof(line));
	printf("    %2d  %s%-20s%s %s", r->rule.number, by_default ? "" : style->bold, r->rule.name,
	       by_default ? "" : style->end, line);
	if (!by_default) {
		printf("  (");
		info_put(r->rule.source);
		putchar(')');
	}
	if (r->reach == COLL_REACH_NONE)
		printf("  %snever: %s%s", style->bad, r->why, style->end);
	else if (r->why[0] != '\0')
		printf("  %s", r->why);
	putchar('\n');
}

static void info_print_algorithm(const coll_algorithm_info_t *a)
{
	const char *before = " (";
	int any = 0;

	printf("    %-20s %s", a->name, a->description);
	for (size_t i = 0; i < INFO_FLAGS; i++)
		if (a->flags & info_flags[i].bit) {
			printf("%s%s", before, info_flags[i].message);
			before = "; ";
			any = 1;
		}
	printf("%s\n", any ? ")" : "");
}

static void info_print_rules(coll_info_t info, int32_t nranks, int32_t nnodes)
{
	const struct info_style *style = info_choose_style();
	struct info_rule r;
	int32_t kind = 0;

	printf("%sRules%s (the first rule decides that matches a call and whose algorithm can be "
	       "used;\nin parentheses: the source of the setting, else the default)\n",
	       style->bold, style->end);
	if (nranks && nnodes)
		printf("On %" PRId32 " ranks on %" PRId32 " nodes:\n", nranks, nnodes);
	else if (nranks)
		printf("On %" PRId32 " ranks:\n", nranks);
	for (int32_t i = 0; i < coll_info_rule_count(info); i++) {
		if (info_get_rule(info, i, nranks, nnodes, &r))
			continue;
		if (r.rule.kind != kind)
			printf("  %s\n", coll_kind_name(r.rule.kind));
		kind = r.rule.kind;
		info_print_rule(&r, style);
	}
}

static void info_print_algorithms(void)
{
	const struct info_style *style = info_choose_style();
	coll_algorithm_info_t a;
	int32_t kind = 0;

	printf("\n%sAlgorithms%s\n", style->bold, style->end);
	for (int32_t i = 0; i < coll_algorithm_count(); i++) {
		if (info_get_algorithm(i, &a))
			continue;
		if (a.kind != kind)
			printf("  %s\n", coll_kind_name(a.kind));
		kind = a.kind;
		info_print_algorithm(&a);
	}
}

/* ------------------------------------------------------------------------ as JSON -- */

static void info_json_end_of_range(struct json *json, const char *key, int has_end, uint64_t end)
{
	if (has_end)
		json_int(json, key, (int64_t)end);
	else
		json_null(json, key);
}

/* Writes the words, which stand for the bits from the lowest on, of the bits that are set. */
static void info_json_bits(struct json *json, const char *key, uint32_t bits, const char *words)
{
	char word[16];

	json_array(json, key);
	for (int len; *words; words += len + (words[len] == ','), bits >>= 1) {
		len = (int)strcspn(words, ",");
		snprintf(word, sizeof(word), "%.*s", len, words);
		if (bits & 1)
			json_string(json, NULL, word);
	}
	json_array_end(json);
}

static void info_json_rule(struct json *json, const struct info_rule *r)
{
	const coll_rule_info_t *rule = &r->rule;

	json_object(json, NULL);
	json_string(json, "kind", coll_kind_name(rule->kind));
	json_int(json, "number", rule->number);
	json_string(json, "algorithm", rule->name);
	json_int(json, "bytes_min", (int64_t)rule->bytes_min);
	info_json_end_of_range(json, "bytes_max", rule->bytes_max < UINT64_MAX, rule->bytes_max);
	json_int(json, "block_min", (int64_t)rule->block_min);
	info_json_end_of_range(json, "block_max", rule->block_max < UINT64_MAX, rule->block_max);
	json_int(json, "ranks_min", rule->ranks_min);
	info_json_end_of_range(json, "ranks_max", rule->ranks_max < INT32_MAX,
			       (uint64_t)rule->ranks_max);
	json_int(json, "nodes_min", rule->nodes_min);
	info_json_end_of_range(json, "nodes_max", rule->nodes_max < INT32_MAX,
			       (uint64_t)rule->nodes_max);
	json_int(json, "local_min", rule->local_min);
	info_json_end_of_range(json, "local_max", rule->local_max < INT32_MAX,
			       (uint64_t)rule->local_max);
	info_json_bits(json, "power", rule->power, "two,other");
	info_json_bits(json, "memory", rule->memory, "host,cuda");
	info_json_bits(json, "cpus", rule->cpus, "own,shared,few");
	json_string(json, "source", rule->source);
	if (r->reach >= 0) {
		json_string(json, "reach", info_reach[r->reach]);
		json_string(json, "why", r->why);
	}
	json_object_end(json);
}

static void info_json_algorithm(struct json *json, const coll_algorithm_info_t *a)
{
	json_object(json, NULL);
	json_string(json, "kind", coll_kind_name(a->kind));
	json_string(json, "name", a->name);
	json_string(json, "description", a->description);
	json_array(json, "flags");
	for (size_t i = 0; i < INFO_FLAGS; i++)
		if (a->flags & info_flags[i].bit)
			json_string(json, NULL, info_flags[i].word);
	json_array_end(json);
	json_object_end(json);
}

static void info_json_all(coll_info_t info, int32_t nranks, int32_t nnodes)
{
	struct json json = {.out = stdout};
	coll_algorithm_info_t a;
	struct info_rule r;

	json_object(&json, NULL);
	json_array(&json, "rules");
	for (int32_t i = 0; i < coll_info_rule_count(info); i++)
		if (!info_get_rule(info, i, nranks, nnodes, &r))
			info_json_rule(&json, &r);
	json_array_end(&json);
	json_array(&json, "algorithms");
	for (int32_t i = 0; i < coll_algorithm_count(); i++)
		if (!info_get_algorithm(i, &a))
			info_json_algorithm(&json, &a);
	json_array_end(&json);
	json_object_end(&json);
}

int info_algorithms(coll_info_t info, int32_t nranks, int32_t nnodes, int as_json)
{
	const char *message;

	if (as_json) {
		info_json_all(info, nranks, nnodes);
	} else {
		info_print_rules(info, nranks, nnodes);
		info_print_algorithms();
	}
	/* The table is right even if the process can use no backend. */
	if (coll_info_verdict(info, &message) != COLL_ERR_CONFIG)
		return 0;
	fflush(stdout);
	fprintf(stderr, "coll info: %s\n", message);
	return 1;
}
