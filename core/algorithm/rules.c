/* SPDX-License-Identifier: BSD-3-Clause */
/* rules.c - parses the text of rules, and matches a rule with a call. */
#include "algorithm/rules.h"
#include "base/kind.h"
#include "base/suggest.h"
#include "schedule/algo.h"

#include <coll/backend.h>
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

_Static_assert((int)RULES_KINDS == (int)KIND_COLLECTIVES, "every collective has rules");
_Static_assert(sizeof(struct rule) == 64 && sizeof(struct rules) == 8 + RULES_MAX * 64,
	       "rules have no gaps");

/* A word of the text; `text` has its first bytes, with '?' for each control character. */
struct word {
	const char *at;
	size_t len;
	char text[64];
};

struct reader {
	const char *at; /* the rest of the text */
	int kind;
	int number; /* number of the current rule, from 1 */
	char *why;  /* the fault */
	size_t size;
};

int rules_take_bytes(int kind)
{
	return kind != COLL_KIND_BARRIER && !kind_at(kind)->own_counts;
}

int rules_take_block(int kind)
{
	return kind == COLL_KIND_ALLREDUCE || kind == COLL_KIND_BROADCAST ||
	       kind == COLL_KIND_REDUCE;
}

/* ------------------------------------------------------------------------- words -- */

static int rules_is_blank(char c)
{
	return c == ' ' || c == '\t';
}

/* Reads the next word, which is empty at a comma and at the end. */
static struct word rules_word(struct reader *r)
{
	struct word word = {.len = 0};

	while (rules_is_blank(*r->at))
		r->at++;
	word.at = r->at;
	for (; *r->at && *r->at != ',' && !rules_is_blank(*r->at); r->at++, word.len++)
		if (word.len < sizeof(word.text) - 1)
			word.text[word.len] =
				(unsigned char)*r->at < ' ' || *r->at == 0x7f ? '?' : *r->at;
	return word;
}

static int rules_word_is(const struct word *word, const char *text)
{
	return word->len < sizeof(word->text) && !strcmp(word->text, text);
}

/* Writes the fault "rule 2: 'ringg' <what><guess>"; without a word "rule 2 <what><guess>". */
static int rules_wrong(struct reader *r, const struct word *word, const char *what,
		       const char *guess)
{
	snprintf(r->why, r->size, "rule %d%s%s%s %s%s", r->number, word->len ? ": '" : "",
		 word->text, word->len ? "'" : "", what, guess);
	return -1;
}

/* -------------------------------------------------------------------- conditions -- */

/* Reads digits, with K, M or G after them if `sizes`; returns their end, or NULL. */
static const char *rules_number(const char *at, int sizes, uint64_t *number)
{
	static const char units[] = "KMG";
	const char *unit;
	char *end;

	if (!isdigit((unsigned char)*at))
		return NULL;
	errno = 0;
	*number = strtoull(at, &end, 10);
	unit = sizes && *end ? strchr(units, toupper((unsigned char)*end)) : NULL;
	if (errno || (unit && __builtin_mul_overflow(
				      *number, UINT64_C(1) << 10 * (unit - units + 1), number)))
		return NULL;
	return end + (unit != NULL);
}

/* Parses A-B, A-, -B or A.  A missing end of the range leaves its number unchanged. */
static int rules_range(const struct word *word, int sizes, uint64_t range[2])
{
	const char *at = word->at, *end = at + word->len;
	const uint64_t most = sizes ? INT64_MAX : INT32_MAX;

	if (word->len && *at != '-') {
		at = rules_number(at, sizes, &range[0]);
		if (!at || range[0] > most)
			return -1;
		if (at == end)
			range[1] = range[0];
	} else if (word->len < 2) {
		return -1;
	}
	if (at < end && *at++ != '-')
		return -1;
	if (at < end) {
		at = rules_number(at, sizes, &range[1]);
		if (at != end || range[1] > most)
			return -1;
	}
	return range[0] > range[1] ? -1 : 0;
}

/*
 * Each of these functions reads the value of a condition: one number, or the two ends of a range, which fill the field
 * and the next field.
 */

static int rules_bytes(const struct word *word, void *field)
{
	uint64_t range[2] = {0, UINT64_MAX};

	if (rules_range(word, 1, range))
		return -1;
	memcpy(field, range, sizeof(range));
	return 0;
}

static int rules_count(const struct word *word, void *field)
{
	uint64_t range[2] = {1, INT32_MAX};

	if (rules_range(word, 0, range) || !range[0])
		return -1;
	memcpy(field, (int32_t[]){(int32_t)range[0], (int32_t)range[1]}, 2 * sizeof(int32_t));
	return 0;
}

static int rules_memory(const struct word *word, void *field)
{
	const uint16_t cuda =
		rules_word_is(word, "cuda") ? COLL_MEM_CUDA | COLL_MEM_CUDA_MANAGED : 0;
	const uint16_t bits = rules_word_is(word, "host") ? COLL_MEM_HOST : cuda;

	memcpy(field, &bits, sizeof(bits));
	return bits ? 0 : -1;
}

/* A word that stands for bits of a field of one byte. */
struct rules_word_bits {
	const char *name;
	uint8_t bits;
};

static int rules_bits(const struct word *word, const struct rules_word_bits *words, int count,
		      void *field)
{
	for (int i = 0; i < count; i++)
		if (rules_word_is(word, words[i].name)) {
			memcpy(field, &words[i].bits, sizeof(words[i].bits));
			return 0;
		}
	return -1;
}

static int rules_cpus(const struct word *word, void *field)
{
	static const struct rules_word_bits words[] = {
		{"own", RULE_OWN_CPUS}, {"shared", RULE_SHARED_CPUS}, {"few", RULE_FEW_CPUS}};

	return rules_bits(word, words, 3, field);
}

static int rules_power(const struct word *word, void *field)
{
	static const struct rules_word_bits words[] = {{"two", RULE_POWER_TWO},
						       {"other", RULE_POWER_OTHER}};

	return rules_bits(word, words, 2, field);
}

#define RULES_NO_BYTES                                                                             \
	"is no range of bytes: expected a range such as 0-64K, 64K-1M, 1M- or -8K, without blanks"

enum { ON_BYTES, ON_BLOCK, ON_RANKS, ON_NODES, ON_LOCAL, ON_MEMORY, ON_CPUS, ON_POWER, CONDITIONS };

static const struct {
	const char *name;
	int (*read)(const struct word *word, void *field);
	size_t field;
	const char *wrong;
} rules_conditions[CONDITIONS] = {
	[ON_BYTES] = {"bytes", rules_bytes, offsetof(struct rule, bytes_min), RULES_NO_BYTES},
	[ON_BLOCK] = {"block", rules_bytes, offsetof(struct rule, block_min), RULES_NO_BYTES},
	[ON_RANKS] = {"ranks", rules_count, offsetof(struct rule, ranks_min),
		      "is no range of ranks: expected a range such as 2-8, 16- or 4, from 1 on, "
		      "without blanks"},
	[ON_NODES] = {"nodes", rules_count, offsetof(struct rule, nodes_min),
		      "is no range of nodes: expected a range such as 2-8, 2- or 1, from 1 on, "
		      "without blanks"},
	[ON_LOCAL] = {"local", rules_count, offsetof(struct rule, local_min),
		      "is no range of ranks of a node: expected a range such as 2-8, 4- or 1, "
		      "from 1 on, without blanks"},
	[ON_MEMORY] = {"memory", rules_memory, offsetof(struct rule, memory),
		       "is no memory: expected host or cuda"},
	[ON_CPUS] = {"cpus", rules_cpus, offsetof(struct rule, cpus),
		     "says nothing of processors: expected own, shared or few"},
	[ON_POWER] = {"power", rules_power, offsetof(struct rule, power),
		      "says nothing of powers: expected two or other"},
};

/* Refuses a condition on bytes that calls of the kind cannot have. */
static int rules_refuse(struct reader *r, const struct word *word, int condition)
{
	char what[200];

	if (condition > ON_BLOCK)
		return 0;
	if (r->kind == COLL_KIND_BARRIER)
		return rules_wrong(r, word, "cannot be used: a barrier moves none", "");
	if (!rules_take_bytes(r->kind))
		return rules_wrong(r, word,
				   "cannot be used: ranks call this collective with different "
				   "counts, and would choose differently",
				   "");
	if (condition == ON_BYTES || rules_take_block(r->kind))
		return 0;
	snprintf(what, sizeof(what),
		 "cannot be used: the count argument of %s is one rank's part already; use bytes",
		 kind_name(r->kind));
	return rules_wrong(r, word, what, "");
}

static int rules_no_condition(struct reader *r, const struct word *word)
{
	struct suggestion guess;

	suggest_begin(&guess, word->text, 0);
	for (int c = 0; c < CONDITIONS; c++)
		suggest_try(&guess, rules_conditions[c].name);
	return rules_wrong(r, word,
			   "is no condition: expected bytes, block, ranks, nodes, local, memory, "
			   "cpus or power, or a comma before the next rule",
			   suggest_text(&guess));
}

/* Reads a condition that begins with the word.  A range without a name is one of bytes. */
static int rules_condition(struct reader *r, struct word word, int *seen, struct rule *rule)
{
	const int is_range = word.at[0] == '-' || isdigit((unsigned char)word.at[0]);
	int c = is_range ? ON_BYTES : 0;

	while (!is_range && c < CONDITIONS && !rules_word_is(&word, rules_conditions[c].name))
		c++;
	if (c == CONDITIONS)
		return rules_no_condition(r, &word);
	if (*seen & 1 << c)
		return rules_wrong(r, &word, "is there twice: a rule takes each condition once",
				   "");
	*seen |= 1 << c;
	if (rules_refuse(r, &word, c))
		return -1;
	if (!is_range)
		word = rules_word(r);
	return rules_conditions[c].read(&word, (char *)rule + rules_conditions[c].field)
		       ? rules_wrong(r, &word, rules_conditions[c].wrong, "")
		       : 0;
}

/* ------------------------------------------------------------------------- rules -- */

static int rules_no_algorithm(struct reader *r, const struct word *word)
{
	struct suggestion guess;
	char what[400];
	size_t len;

	len = (size_t)snprintf(what, sizeof(what), "%s of %s: expected one of",
			       word->len ? "is no algorithm" : "lacks the name of an algorithm",
			       kind_name(r->kind));
	suggest_begin(&guess, word->text, 0);
	for (int i = 0, n = 0; i < algo_count() && len < sizeof(what); i++)
		if (algo_at(i)->kind == r->kind) {
			suggest_try(&guess, algo_at(i)->name);
			len += (size_t)snprintf(what + len, sizeof(what) - len, "%s %s",
						n++ ? "," : "", algo_at(i)->name);
		}
	return rules_wrong(r, word, what, suggest_text(&guess));
}

static int rules_one(struct reader *r, struct rule *rule)
{
	struct word word = rules_word(r);
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
			      .cpus = RULE_OWN_CPUS | RULE_SHARED_CPUS,
			      .power = RULE_POWER_TWO | RULE_POWER_OTHER};
	rule->algorithm = word.len < sizeof(word.text) ? algo_find(r->kind, word.text) : -1;
	if (rule->algorithm < 0)
		return rules_no_algorithm(r, &word);
	for (word = rules_word(r); word.len; word = rules_word(r))
		if (rules_condition(r, word, &seen, rule))
			return -1;
	return 0;
}

int rules_parse(int kind, const char *text, struct rules *rules, char *why, size_t size)
{
	struct reader r = {.at = text, .kind = kind, .why = why, .size = size};
	const struct word end = {.len = 0};

	for (;;) {
		r.number++;
		if (r.number > RULES_GIVEN_MAX || rules->count == RULES_MAX)
			return rules_wrong(&r, &end, "is one too many: there may be 16", "");
		if (rules_one(&r, &rules->rule[rules->count]))
			return -1;
		rules->count++;
		if (!*r.at)
			return 0;
		r.at++; /* skips the comma */
	}
}

void rules_option(int kind, char name[48])
{
	snprintf(name, 48, "%s_algorithm", kind_name(kind));
}

int rules_check_option(const char *key, const char *value, char *why, size_t size)
{
	struct rules rules = {0};
	char name[48];

	for (int i = 0; i < RULES_KINDS; i++) {
		rules_option(kind_from_index(i), name);
		if (!strcmp(name, key))
			return rules_parse(kind_from_index(i), value, &rules, why, size);
	}
	return 0;
}

/* ---------------------------------------------------------------------- matching -- */

int rules_power_of(int nranks)
{
	return nranks & (nranks - 1) ? RULE_POWER_OTHER : RULE_POWER_TWO;
}

int rule_matches(const struct rule *rule, const struct call_description *call)
{
	return call->bytes >= rule->bytes_min && call->bytes <= rule->bytes_max &&
	       call->nranks >= rule->ranks_min && call->nranks <= rule->ranks_max &&
	       call->nnodes >= rule->nodes_min && call->nnodes <= rule->nodes_max &&
	       (call->memory & rule->memory) && rule->cpus >> call->cpus & 1 &&
	       rules_power_of(call->nranks) & rule->power &&
	       call->bytes / (uint64_t)call->nranks >= rule->block_min &&
	       call->bytes / (uint64_t)call->nranks <= rule->block_max &&
	       call->nranks / call->nnodes >= rule->local_min &&
	       call->nranks / call->nnodes <= rule->local_max;
}
