/* SPDX-License-Identifier: BSD-3-Clause */
/* util.c - memory of the prover, and its messages. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "prove/prove.h"

const char *const prove_check_names[PROVE_CHECKS] = {"result", "order", "deadlock", "race",
						     "messages"};

void prove_step_text(const struct prove *p, int step, char *text, size_t size)
{
	static const char *const kinds[] = {
		"send to",      "receive from", "receive and reduce from",
		"local reduce", "copy",         "finish",
		"copy in",      "copy out"};
	const coll_step_t *s = prove_step(p, step);
	int kind =
		s->kind < PROVE_COPY_IN ? s->kind : COLL_STEP_FINISH + 1 + s->kind - PROVE_COPY_IN;
	int i = step - p->rank[p->event[step].owner].first;
	unsigned long long bytes = s->bytes;

	if (prove_is_message(s))
		snprintf(text, size, "step %d (%s %d, message %u, %llu bytes)", i, kinds[kind],
			 s->peer, s->message, bytes);
	else
		snprintf(text, size, "step %d (%s, %llu bytes)", i, kinds[kind], bytes);
}

static const char *prove_form_text(int form)
{
	static const char *const names[] = {"", ", in place", ", odd ranks in place"};

	return names[form];
}

void prove_case_text(const struct prove_case *c, char *text, size_t size)
{
	static const char *const vectors[] = {"equal", "ragged", "every other 0", "all but one 0"};
	static const char *const displs[] = {"", ", permuted with gaps", ", a list"};
	static const char *const staged[] = {"", ", staged", ", some ranks staged"};
	size_t n;

	n = (size_t)snprintf(text, size, "%s %s, %d ranks, count %llu",
			     coll_kind_name(c->info->kind), c->info->name, c->nranks,
			     (unsigned long long)c->count);
	if (oracle_varies(c->info->kind))
		n += (size_t)snprintf(text + n, size - n, " (%s%s)", vectors[c->vector],
				      displs[c->displs]);
	if (oracle_rooted(c->info->kind))
		n += (size_t)snprintf(text + n, size - n, ", root %d", c->root);
	if (prove_kind_pairs(c->info->kind))
		n += (size_t)snprintf(text + n, size - n, ", %d to %d", c->root, c->peer);
	n += (size_t)snprintf(text + n, size - n, "%s", prove_form_text(c->form));
	if (c->elem > 1)
		n += (size_t)snprintf(text + n, size - n, ", %llu bytes an element",
				      (unsigned long long)c->elem);
	if (c->segment)
		n += (size_t)snprintf(text + n, size - n, ", pieces of %llu bytes",
				      (unsigned long long)c->segment);
	if (c->layout)
		n += (size_t)snprintf(text + n, size - n, ", layout of nodes %d", c->layout);
	snprintf(text + n, size - n, "%s%s", staged[c->staged],
		 c->average == PROVE_FINISHED ? ", average"
		 : c->average == PROVE_SCALED ? ", average of scaled inputs"
					      : "");
}

static void prove_fail_text(struct prove *p, int check, const char *text)
{
	char head[PROVE_TEXT_MAX / 4];

	if (p->failed & 1u << check)
		return;
	p->failed |= 1u << check;
	prove_case_text(p->c, head, sizeof(head));
	snprintf(p->text[check], PROVE_TEXT_MAX, "%s: %s", head, text);
}

void prove_fail(struct prove *p, int check, const char *fmt, ...)
{
	char text[PROVE_TEXT_MAX / 2];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	prove_fail_text(p, check, text);
}

void prove_fail_step(struct prove *p, int check, int step, const char *fmt, ...)
{
	char text[PROVE_TEXT_MAX / 2], where[128];
	va_list args;
	size_t n;

	if (p->failed & 1u << check)
		return;
	prove_step_text(p, step, where, sizeof(where));
	n = (size_t)snprintf(text, sizeof(text), "rank %d, %s ", p->rank[p->event[step].owner].rank,
			     where);
	va_start(args, fmt);
	vsnprintf(text + n, sizeof(text) - n, fmt, args);
	va_end(args);
	prove_fail_text(p, check, text);
}

void prove_free(struct prove *p)
{
	for (int i = 0; i < p->cap_ranks; i++) {
		free(p->rank[i].step);
		free(p->rank[i].after);
		free(p->rank[i].in);
		free(p->rank[i].out);
		free(p->rank[i].run);
	}
	free(p->rank);
	free(p->nodes);
	free(p->sendcounts);
	free(p->senddispls);
	free(p->recvcounts);
	free(p->recvdispls);
	free(p->joined);
	free(p->event);
	free(p->link);
	free(p->pair);
	free(p->slot);
	free(p->order);
	free(p->stack);
	free(p->mutant_arrays);
	free(p->a.piece);
	free(p->b.piece);
	free(p->sum.piece);
	free(p->reader);
	prove_expr_free(&p->expr);
}
