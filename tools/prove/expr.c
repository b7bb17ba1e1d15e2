/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * expr.c - expressions over the inputs of the ranks.  Each expression is stored once: equal
 * expressions, with equal left and right operands, have equal numbers on all ranks.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "prove/prove.h"

enum { EXPR_NODES_MAX = 1 << 20 };

/* Bits of prove_node.known: the first three once the expression was walked, the last three always. */
enum {
	EXPR_WALKED = 1 << 0,
	EXPR_COMPLETE = 1 << 1,
	EXPR_ORDERED = 1 << 2,
	EXPR_DIVIDED = 1 << 3, /* it divides an expression that is no input */
	EXPR_SCALED = 1 << 4,  /* it has a divided input */
	EXPR_RAW = 1 << 5      /* it has an undivided input */
};

static int expr_is_symbol(const struct prove_expr *e, int32_t node)
{
	return e->node[node].left < 0;
}

static int expr_is_division(const struct prove_expr *e, int32_t node)
{
	return e->node[node].left >= 0 && e->node[node].right < 0;
}

static uint32_t expr_known(const struct prove_expr *e, int32_t left, int32_t right)
{
	const uint32_t always = EXPR_DIVIDED | EXPR_SCALED | EXPR_RAW;

	if (left < 0)
		return EXPR_RAW;
	if (right >= 0)
		return (e->node[left].known | e->node[right].known) & always;
	return expr_is_symbol(e, left) ? EXPR_SCALED
				       : (e->node[left].known & always) | EXPR_DIVIDED;
}

static uint32_t expr_hash(const struct prove_expr *e, int32_t left, int32_t right)
{
	uint64_t h = ((uint64_t)(uint32_t)left << 32 | (uint32_t)right) * 0x9e3779b97f4a7c15u;

	return (uint32_t)(h >> 32) & (e->buckets - 1);
}

static int32_t expr_append(struct prove_expr *e, int32_t left, int32_t right, uint32_t symbols)
{
	uint32_t known = expr_known(e, left, right);

	e->node = tool_grow(e->node, &e->cap, e->n + 1, sizeof(*e->node));
	e->node[e->n] = (struct prove_node){left, right, symbols, known};
	return e->n++;
}

static void expr_rehash(struct prove_expr *e)
{
	int cap = 0;

	free(e->bucket);
	e->bucket = tool_grow(NULL, &cap, (int)e->buckets, sizeof(*e->bucket));
	memset(e->bucket, 0xff, e->buckets * sizeof(*e->bucket));
	for (int32_t i = e->nranks; i < e->n; i++) {
		uint32_t at = expr_hash(e, e->node[i].left, e->node[i].right);

		while (e->bucket[at] >= 0)
			at = (at + 1) & (e->buckets - 1);
		e->bucket[at] = i;
	}
}

static int32_t expr_keep(struct prove_expr *e, int32_t left, int32_t right, uint32_t symbols)
{
	uint32_t at = expr_hash(e, left, right);

	for (; e->bucket[at] >= 0; at = (at + 1) & (e->buckets - 1)) {
		const struct prove_node *node = &e->node[e->bucket[at]];

		if (node->left == left && node->right == right)
			return e->bucket[at];
	}
	e->bucket[at] = expr_append(e, left, right, symbols);
	at = (uint32_t)e->bucket[at];
	if ((uint32_t)e->n * 2 > e->buckets) {
		e->buckets *= 2;
		expr_rehash(e);
	}
	return (int32_t)at;
}

int32_t prove_expr_pair(struct prove_expr *e, int32_t left, int32_t right)
{
	uint32_t symbols;

	if (left == e->last_left && right == e->last_right)
		return e->last;
	symbols = e->node[left].symbols + e->node[right].symbols;
	/* More symbols than ranks are wrong in any case, so clip the number: it must not wrap around. */
	if (symbols > (uint32_t)e->nranks + 1)
		symbols = (uint32_t)e->nranks + 1;
	e->last = expr_keep(e, left, right, symbols);
	e->last_left = left;
	e->last_right = right;
	return e->last;
}

int32_t prove_expr_divide(struct prove_expr *e, int32_t node)
{
	return expr_keep(e, node, -1, e->node[node].symbols);
}

/* Returns T(low, high) = T(low, low + p) op T(low + p, high), with p the largest power of two below high - low. */
static int32_t expr_canonical(struct prove_expr *e, int low, int high, int scaled)
{
	int half = 1;
	int32_t left, right;

	if (high - low == 1)
		return scaled ? prove_expr_divide(e, low) : low;
	while (half * 2 < high - low)
		half *= 2;
	left = expr_canonical(e, low, low + half, scaled);
	right = expr_canonical(e, low + half, high, scaled);
	return prove_expr_pair(e, left, right);
}

void prove_expr_begin(struct prove_expr *e, int nranks)
{
	int cap = 0;

	if (e->nranks == nranks && e->n < EXPR_NODES_MAX)
		return;
	e->nranks = nranks;
	e->n = 0;
	e->last_left = e->last_right = -1;
	for (int i = 0; i < nranks; i++)
		expr_append(e, -1, -1, 1);
	e->buckets = 1024;
	while (e->buckets < 4 * (uint32_t)nranks)
		e->buckets *= 2;
	expr_rehash(e);
	free(e->stack);
	free(e->seen);
	e->stack = tool_grow(NULL, &cap, nranks + 2, sizeof(*e->stack));
	cap = 0;
	e->seen = tool_grow(NULL, &cap, nranks, 1);
	e->canonical = expr_canonical(e, 0, nranks, 0);
	e->canonical_scaled = expr_canonical(e, 0, nranks, 1);
}

void prove_expr_free(struct prove_expr *e)
{
	free(e->node);
	free(e->bucket);
	free(e->stack);
	free(e->seen);
}

/* ------------------------------------------------------------------- words -- */

struct expr_text {
	char *text;
	size_t size, n;
};

static void expr_put(struct expr_text *w, const char *text)
{
	size_t n = strlen(text);

	if (w->n + n + 4 > w->size) { /* no space: the rest becomes dots */
		if (w->n + 4 <= w->size)
			memcpy(w->text + w->n, "...", 4);
		w->n = w->size;
		return;
	}
	memcpy(w->text + w->n, text, n + 1);
	w->n += n;
}

static void expr_print(const struct prove_expr *e, int32_t node, struct expr_text *w)
{
	const struct prove_node *x = &e->node[node];
	char text[16];

	if (w->n >= w->size)
		return;
	if (x->left < 0) {
		snprintf(text, sizeof(text), "%d", node);
		expr_put(w, text);
		return;
	}
	expr_put(w, x->right < 0 ? "divided(" : "(");
	expr_print(e, x->left, w);
	if (x->right >= 0) {
		expr_put(w, " ");
		expr_print(e, x->right, w);
	}
	expr_put(w, ")");
}

void prove_expr_text(const struct prove_expr *e, int32_t node, char *text, size_t size)
{
	struct expr_text w = {text, size, 0};

	text[0] = '\0';
	expr_print(e, node, &w);
}

/* ------------------------------------------------------------------- truth -- */

/*
 * Finds facts, reading from left to right: does the expression have each of the first ranks once, as many as it has inputs
 * (EXPR_COMPLETE), in rank order (EXPR_ORDERED)?  Inputs may be scaled; no other part of the expression is divided.
 */
static uint32_t expr_walk(struct prove_expr *e, int32_t node)
{
	const int inputs = (int)e->node[node].symbols;
	int depth = 0, symbols = 0, ordered = 1;

	if (inputs > e->nranks)
		return EXPR_WALKED;
	memset(e->seen, 0, (size_t)e->nranks);
	e->stack[depth++] = node;
	while (depth > 0) {
		int32_t at = e->stack[--depth];
		const struct prove_node *x = &e->node[at];

		if (expr_is_division(e, at)) {
			e->stack[depth++] = x->left;
			continue;
		}
		if (x->left < 0) {
			if (at >= inputs || e->seen[at])
				return EXPR_WALKED;
			e->seen[at] = 1;
			ordered &= at == symbols++;
			continue;
		}
		e->stack[depth++] = x->right;
		e->stack[depth++] = x->left;
	}
	return EXPR_WALKED | EXPR_COMPLETE | (ordered ? EXPR_ORDERED : 0u);
}

static void expr_wrong(struct prove *p, int check, int actor, uint64_t index, int32_t node,
		       const char *expected)
{
	char text[256];

	prove_expr_text(&p->expr, node, text, sizeof(text));
	prove_fail(p, check, "rank %d, byte %llu of the result: expected %s, got %s",
		   p->rank[actor].rank, (unsigned long long)index, expected, text);
}

/*
 * Is the expression divided where the case wants it?  Returns the sum in it, or -1 with the fault in
 * *expected.
 */
static int32_t expr_sum(const struct prove *p, int32_t node, const char **expected)
{
	const struct prove_expr *e = &p->expr;
	uint32_t unwanted = EXPR_DIVIDED | EXPR_SCALED;
	int32_t sum = node;

	*expected = "no division";
	if (p->c->average == PROVE_SCALED) {
		*expected = "every input divided once, and no sum";
		unwanted = EXPR_DIVIDED | EXPR_RAW;
	} else if (p->c->average == PROVE_FINISHED) {
		*expected = "one division, at the end";
		sum = expr_is_division(e, node) ? e->node[node].left : -1;
	}
	return sum >= 0 && !(e->node[sum].known & unwanted) ? sum : -1;
}

/* Returns the canonical grouping of the first inputs.  The grouping of all inputs is kept. */
static int32_t expr_canonical_of(struct prove *p, int inputs)
{
	struct prove_expr *e = &p->expr;
	const int scaled = p->c->average == PROVE_SCALED;

	if (inputs < e->nranks)
		return expr_canonical(e, 0, inputs, scaled);
	return scaled ? e->canonical_scaled : e->canonical;
}

int prove_expr_check(struct prove *p, int actor, uint64_t index, int32_t node)
{
	struct prove_expr *e = &p->expr;
	const int inputs = prove_spec_inputs(p, actor);
	const char *expected;
	int32_t canonical, sum = expr_sum(p, node, &expected);
	char want[256] = "every rank once";

	if (sum < 0) {
		expr_wrong(p, PROVE_ORDER, actor, index, node, expected);
		return 0;
	}
	if (!(e->node[sum].known & EXPR_WALKED))
		e->node[sum].known |= expr_walk(e, sum);
	if (!(e->node[sum].known & EXPR_COMPLETE) || e->node[sum].symbols != (uint32_t)inputs) {
		if (inputs < e->nranks)
			snprintf(want, sizeof(want), "each of the first %d ranks once", inputs);
		expr_wrong(p, PROVE_RESULT, actor, index, node, want);
		return 0;
	}
	if (p->c->flags & COLL_ALGORITHM_ORDERED && !(e->node[sum].known & EXPR_ORDERED))
		expr_wrong(p, PROVE_ORDER, actor, index, node, "the ranks in order");
	canonical = expr_canonical_of(p, inputs);
	if (p->c->flags & COLL_ALGORITHM_CANONICAL && sum != canonical) {
		prove_expr_text(e, canonical, want, sizeof(want));
		expr_wrong(p, PROVE_ORDER, actor, index, node, want);
	}
	return 1;
}
