/* SPDX-License-Identifier: BSD-3-Clause */
/* rules.c - parses the text of rules, and matches a rule with a call. */
#include "config/rules.h"
#include "base/kind.h"
#include "schedule/algo.h"

#include <coll/backend.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

_Static_assert((int)RULES_KINDS == (int)KIND_COLLECTIVES, "every collective has rules");
_Static_assert(sizeof(struct rule) == 64 && sizeof(struct rules) == 8 + RULES_MAX * 64,
	       "rules have no gaps");

enum { ON_BYTES, ON_BLOCK, ON_RANKS, ON_NODES, ON_LOCAL, ON_MEMORY, ON_CPUS, CONDITIONS };

static const char *const rules_conditions[CONDITIONS] = {"bytes", "block",  "ranks", "nodes",
							 "local", "memory", "cpus"};

struct word {
	const char *at;
	size_t len;
};

struct reader {
	const char *at; /* the rest of the text */
	int kind;
	int number; /* number of the current rule, from 1 */
	struct rules_fault *fault;
};

int rules_take_bytes(int kind)
{
	return kind != COLL_KIND_BARRIER && !kind_has_own_counts(kind);
}

int rules_take_block(int kind)
{
	return kind == COLL_KIND_ALLREDUCE || kind == COLL_KIND_BROADCAST ||
	       kind == COLL_KIND_REDUCE;
}

/* "ring, gather_reduce": the algorithms of a kind. */
static void rules_algorithms(int kind, char *text, size_t size)
{
	const struct algo *algo;
	size_t len = 0;

	text[0] = '\0';
	for (int i = 0; i < algo_count() && len < size; i++) {
		algo = algo_at(i);
		if (algo->kind == kind)
			len += (size_t)snprintf(text + len, size - len, "%s%s", len ? ", " : "",
						algo->name);
	}
	if (!len)
		snprintf(text, size, "(none)");
}

const char *rules_candidate(int kind, const struct rules_fault *fault, int i)
{
	if (!fault->is_name)
		return i < CONDITIONS ? rules_conditions[i] : NULL;
	for (int id = 0; id < algo_count(); id++)
		if (algo_at(id)->kind == kind && !i--)
			return algo_at(id)->name;
	return NULL;
}

/* ------------------------------------------------------------------------- words -- */

static int rules_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Reads the next word, which is empty at a comma and at the end. */
static struct word rules_word(struct reader *r)
{
	struct word word;

	while (rules_is_blank(*r->at))
		r->at++;
	word.at = r->at;
	while (*r->at && *r->at != ',' && !rules_is_blank(*r->at))
		r->at++;
	word.len = (size_t)(r->at - word.at);
	return word;
}

static int rules_word_is(struct word word, const char *text)
{
	return strlen(text) == word.len && !memcmp(word.at, text, word.len);
}

/* Fills *fault with "rule 2: 'ringg' <message>", or "rule 2 <message>" for an empty word. */
static int rules_wrong(struct reader *r, struct word word, const char *what)
{
	char shown[sizeof(r->fault->word)];
	size_t len = 0;

	for (; len < word.len && len < sizeof(shown) - 1; len++)
		shown[len] = (unsigned char)word.at[len] < ' ' || word.at[len] == 0x7f
				     ? '?'
				     : word.at[len];
	shown[len] = '\0';
	snprintf(r->fault->text, sizeof(r->fault->text), "rule %d%s%s%s %s", r->number,
		 len ? ": '" : "", shown, len ? "'" : "", what);
	return -1;
}

/* Fills *fault for a word that is not one of the known words. */
static int rules_unknown(struct reader *r, struct word word, int is_name, const char *what)
{
	snprintf(r->fault->word, sizeof(r->fault->word), "%.*s", (int)word.len, word.at);
	r->fault->is_name = is_name;
	return rules_wrong(r, word, what);
}

/* ------------------------------------------------------------------------ ranges -- */

/* Reads digits, with K, M or G after them if `sizes`; returns their end, or NULL. */
static const char *rules_number(const char *at, const char *end, int sizes, uint64_t *number)
{
	static const char units[] = "KMG";
	const char *unit;
	uint64_t n = 0;

	if (at == end || !isdigit((unsigned char)*at))
		return NULL;
	for (; at < end && isdigit((unsigned char)*at); at++)
		if (__builtin_mul_overflow(n, 10, &n) ||
		    __builtin_add_overflow(n, (uint64_t)(*at - '0'), &n))
			return NULL;
	unit = sizes && at < end ? strchr(units, toupper((unsigned char)*at)) : NULL;
	if (unit) {
		if (__builtin_mul_overflow(n, UINT64_C(1) << 10 * (unit - units + 1), &n))
			return NULL;
		at++;
	}
	*number = n;
	return at;
}

/* Parses A-B, A-, -B or A.  A missing end of the range leaves its variable unchanged. */
static int rules_range(struct word word, int sizes, uint64_t *min, uint64_t *max)
{
	const char *at = word.at, *end = word.at + word.len;
	const uint64_t most = sizes ? INT64_MAX : INT32_MAX;
	uint64_t first = *min, last = *max;

	if (at < end && *at != '-') {
		at = rules_number(at, end, sizes, &first);
		if (!at || first > most)
			return -1;
		if (at == end)
			last = first;
	} else if (word.len < 2) {
		return -1;
	}
	if (at < end && *at++ != '-')
		return -1;
	if (at < end) {
		at = rules_number(at, end, sizes, &last);
		if (at != end || last > most)
			return -1;
	}
	*min = first;
	*max = last;
	return first > last ? -1 : 0;
}

static int rules_count_range(struct word word, int32_t *min, int32_t *max)
{
	uint64_t first = 1, last = INT32_MAX;

	if (rules_range(word, 0, &first, &last) || !first)
		return -1;
	*min = (int32_t)first;
	*max = (int32_t)last;
	return 0;
}

/* -------------------------------------------------------------------- conditions -- */

static int rules_memory(struct word word, struct rule *rule)
{
	if (rules_word_is(word, "host"))
		rule->memory = COLL_MEM_HOST;
	else if (rules_word_is(word, "cuda"))
		rule->memory = COLL_MEM_CUDA | COLL_MEM_CUDA_MANAGED;
	else
		return -1;
	return 0;
}

static int rules_cpus(struct word word, struct rule *rule)
{
	if (rules_word_is(word, "own"))
		rule->cpus = RULE_OWN_CPUS;
	else if (rules_word_is(word, "shared"))
		rule->cpus = RULE_SHARED_CPUS;
	else if (rules_word_is(word, "few"))
		rule->cpus = RULE_FEW_CPUS;
	else
		return -1;
	return 0;
}

static int rules_bytes(struct reader *r, struct word word, uint64_t *min, uint64_t *max)
{
	return rules_range(word, 1, min, max)
		       ? rules_wrong(r, word,
				     "is no range of bytes: expected a range such as "
				     "0-64K, 64K-1M, 1M- or -8K, without blanks")
		       : 0;
}

static int rules_value(struct reader *r, int condition, struct word word, struct rule *rule)
{
	switch (condition) {
	case ON_BYTES: return rules_bytes(r, word, &rule->bytes_min, &rule->bytes_max);
	case ON_BLOCK: return rules_bytes(r, word, &rule->block_min, &rule->block_max);
	case ON_RANKS:
		return rules_count_range(word, &rule->ranks_min, &rule->ranks_max)
			       ? rules_wrong(r, word,
					     "is no range of ranks: expected a range such as "
					     "2-8, 16- or 4, from 1 on, without blanks")
			       : 0;
	case ON_NODES:
		return rules_count_range(word, &rule->nodes_min, &rule->nodes_max)
			       ? rules_wrong(r, word,
					     "is no range of nodes: expected a range such as "
					     "2-8, 2- or 1, from 1 on, without blanks")
			       : 0;
	case ON_LOCAL:
		return rules_count_range(word, &rule->local_min, &rule->local_max)
			       ? rules_wrong(
					 r, word,
					 "is no range of ranks of a node: expected a range such "
					 "as 2-8, 4- or 1, from 1 on, without blanks")
			       : 0;
	case ON_MEMORY:
		return rules_memory(word, rule)
			       ? rules_wrong(r, word, "is no memory: expected host or cuda")
			       : 0;
	default:
		return rules_cpus(word, rule)
			       ? rules_wrong(
					 r, word,
					 "says nothing of processors: expected own, shared or few")
			       : 0;
	}
}

/* Refuses a condition on bytes that calls of the kind cannot have. */
static int rules_refuse(struct reader *r, struct word word, int condition)
{
	char what[200];

	if (condition > ON_BLOCK)
		return 0;
	if (r->kind == COLL_KIND_BARRIER)
		return rules_wrong(r, word, "cannot be used: a barrier moves none");
	if (!rules_take_bytes(r->kind))
		return rules_wrong(r, word,
				   "cannot be used: ranks call this collective with different "
				   "counts, and would choose differently");
	if (condition == ON_BYTES || rules_take_block(r->kind))
		return 0;
	snprintf(what, sizeof(what),
		 "cannot be used: the count argument of %s is one rank's part already; use bytes",
		 kind_name(r->kind));
	return rules_wrong(r, word, what);
}

/* A range without a name is one of bytes. */
static int rules_is_range(struct word word)
{
	return word.at[0] == '-' || isdigit((unsigned char)word.at[0]);
}

static int rules_condition(struct reader *r, struct word word, int *seen, struct rule *rule)
{
	const int is_range = rules_is_range(word);
	int c = is_range ? ON_BYTES : 0;

	while (!is_range && c < CONDITIONS && !rules_word_is(word, rules_conditions[c]))
		c++;
	if (c == CONDITIONS)
		return rules_unknown(
			r, word, 0,
			"is no condition: expected bytes, block, ranks, nodes, local, memory or "
			"cpus, or a comma before the next rule");
	if (*seen & 1 << c)
		return rules_wrong(r, word, "is there twice: a rule takes each condition once");
	*seen |= 1 << c;
	if (rules_refuse(r, word, c))
		return -1;
	return rules_value(r, c, is_range ? word : rules_word(r), rule);
}

static int rules_name(struct reader *r, int32_t *algorithm)
{
	const struct word word = rules_word(r);
	char name[64], known[256], what[400];

	snprintf(name, sizeof(name), "%.*s", (int)word.len, word.at);
	*algorithm = word.len < sizeof(name) ? algo_find(r->kind, name) : -1;
	if (*algorithm >= 0)
		return 0;
	rules_algorithms(r->kind, known, sizeof(known));
	snprintf(what, sizeof(what), "%s of %s: expected one of %s",
		 word.len ? "is no algorithm" : "lacks the name of an algorithm",
		 kind_name(r->kind), known);
	return rules_unknown(r, word, 1, what);
}

static int rules_one(struct reader *r, struct rule *rule)
{
	struct word word;
	int seen = 0;

	*rule = (struct rule){.bytes_max = UINT64_MAX,
			      .block_max = UINT64_MAX,
			      .ranks_min = 1,
			      .ranks_max = INT32_MAX,
			      .nodes_min = 1,
			      .nodes_max = INT32_MAX,
			      .local_min = 1,
			      .local_max = INT32_MAX,
			      .memory = COLL_MEM_HOST | COLL_MEM_CUDA | COLL_MEM_CUDA_MANAGED,
			      .cpus = RULE_OWN_CPUS | RULE_SHARED_CPUS};
	if (rules_name(r, &rule->algorithm))
		return -1;
	for (word = rules_word(r); word.len; word = rules_word(r))
		if (rules_condition(r, word, &seen, rule))
			return -1;
	return 0;
}

int rules_parse(int kind, const char *text, struct rules *rules, struct rules_fault *fault)
{
	struct reader r = {.at = text, .kind = kind, .fault = fault};
	const struct word end = {"", 0};

	fault->word[0] = '\0';
	fault->is_name = 0;
	for (;;) {
		if (r.number == RULES_GIVEN_MAX || rules->count == RULES_MAX) {
			r.number++;
			return rules_wrong(&r, end, "is one too many: there may be 16");
		}
		r.number++;
		if (rules_one(&r, &rules->rule[rules->count]))
			return -1;
		rules->count++;
		if (!*r.at)
			return 0;
		r.at++; /* skips the comma */
	}
}

static int rule_block_matches(const struct rule *rule, const struct call_description *call)
{
	uint64_t block;

	if (!rule->block_min && rule->block_max == UINT64_MAX)
		return 1; /* most rules: no division */
	block = call->bytes / (uint64_t)call->nranks;
	return block >= rule->block_min && block <= rule->block_max;
}

static int rule_local_matches(const struct rule *rule, const struct call_description *call)
{
	int local;

	if (rule->local_min == 1 && rule->local_max == INT32_MAX)
		return 1; /* most rules: no division */
	local = call->nranks / call->nnodes;
	return local >= rule->local_min && local <= rule->local_max;
}

int rule_matches(const struct rule *rule, const struct call_description *call)
{
	return call->bytes >= rule->bytes_min && call->bytes <= rule->bytes_max &&
	       call->nranks >= rule->ranks_min && call->nranks <= rule->ranks_max &&
	       call->nnodes >= rule->nodes_min && call->nnodes <= rule->nodes_max &&
	       (call->memory & rule->memory) && rule->cpus >> call->cpus & 1 &&
	       rule_block_matches(rule, call) && rule_local_matches(rule, call);
}
