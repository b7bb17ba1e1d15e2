/* SPDX-License-Identifier: BSD-3-Clause */
/* rounds.c - a schedule as a table: the messages of each round, then what the ranks do before the next one. */
#include <stdlib.h>
#include "explain/schedule.h"
#include "lib/grow.h"

static const char *const rounds_buffers[] = {"send", "recv", "scratch"};

/* Writes "recv+128K". */
static const char *rounds_at(uint32_t buffer, uint64_t offset, char text[64])
{
	char size[32];

	if (offset)
		snprintf(text, 64, "%s+%s", rounds_buffers[buffer], schedule_size(offset, size));
	else
		snprintf(text, 64, "%s", rounds_buffers[buffer]);
	return text;
}

static void rounds_message(const struct schedule *s, int g, FILE *out)
{
	const struct prove *p = &s->prove;
	const coll_step_t *send = prove_step(p, g), *recv = prove_step(p, p->event[g].mate);
	const int from = p->rank[p->event[g].owner].rank, arrives = s->place[p->event[g].mate].end;
	char size[32], src[64], dst[64], own[64];

	fprintf(out, "  %4d -> %-4d %10s  %-16s", from, send->peer,
		schedule_size(send->bytes, size), rounds_at(send->src_buffer, send->src, src));
	if (recv->kind == COLL_STEP_RECV)
		fprintf(out, "  into %s", rounds_at(recv->dst_buffer, recv->dst, dst));
	else
		fprintf(out,
			recv->swapped ? "  into %s = message op %s" : "  into %s = %s op message",
			rounds_at(recv->dst_buffer, recv->dst, dst),
			rounds_at(recv->src_buffer, recv->src, own));
	if (arrives > s->place[g].begin + 1)
		fprintf(out, ", when round %d is over", arrives);
	fprintf(out, "\n");
}

static void rounds_local(const struct schedule *s, int g, FILE *out)
{
	const struct prove *p = &s->prove;
	const coll_step_t *step = prove_step(p, g);
	const int rank = p->rank[p->event[g].owner].rank;
	char size[32], src[64], dst[64], other[64];

	schedule_size(step->bytes, size);
	rounds_at(step->dst_buffer, step->dst, dst);
	rounds_at(step->src_buffer, step->src, src);
	if (step->kind == COLL_STEP_COPY)
		fprintf(out, "  %4d copies  %10s  %-16s  into %s\n", rank, size, src, dst);
	else if (step->kind == COLL_STEP_REDUCE)
		fprintf(out, "  %4d reduces %10s  %-16s  into %s = %s op %s\n", rank, size, src,
			dst, src, rounds_at(step->other_buffer, step->other, other));
	else
		fprintf(out, "  %4d finishes %9s  %-16s\n", rank, size, dst);
}

/* Prints round `round`, from 0 on: what leaves in it, and what is done without a message once it has begun. */
static void rounds_one(const struct schedule *s, int round, FILE *out)
{
	const struct prove *p = &s->prove;
	int head = 0;

	for (int g = 0; g < p->nsteps; g++) {
		const coll_step_t *step = prove_step(p, g);

		if (prove_is_message(step) || !step->bytes || s->place[g].begin != round)
			continue;
		if (!head++)
			fprintf(out, round ? "after round %d\n" : "first\n", round);
		rounds_local(s, g, out);
	}
	head = 0;
	for (int g = 0; g < p->nsteps; g++) {
		if (prove_step(p, g)->kind != COLL_STEP_SEND || s->place[g].begin != round)
			continue;
		if (!head++)
			fprintf(out, "round %d\n", round + 1);
		rounds_message(s, g, out);
	}
}

/* More ranks than a page has room for: a line a round. */
static void rounds_sums(const struct schedule *s, FILE *out)
{
	const struct prove *p = &s->prove;
	uint64_t *messages = tool_array((size_t)s->rounds + 1, sizeof(*messages));
	uint64_t *bytes = tool_array((size_t)s->rounds + 1, sizeof(*bytes));

	for (int g = 0; g < p->nsteps; g++) {
		if (prove_step(p, g)->kind != COLL_STEP_SEND)
			continue;
		messages[s->place[g].begin]++;
		bytes[s->place[g].begin] += prove_step(p, g)->bytes;
	}
	fprintf(out, "%6s %10s %16s\n", "round", "messages", "bytes");
	for (int r = 0; r < s->rounds; r++)
		fprintf(out, "%6d %10llu %16llu\n", r + 1, (unsigned long long)messages[r],
			(unsigned long long)bytes[r]);
	free(messages);
	free(bytes);
}

void schedule_print(const struct schedule *s, FILE *out)
{
	char title[160], size[32];

	fprintf(out, "%s: %d round%s, %llu message%s, %s bytes in all\n", schedule_title(s, title),
		s->rounds, s->rounds == 1 ? "" : "s", (unsigned long long)s->messages,
		s->messages == 1 ? "" : "s", schedule_size(s->bytes, size));
	fprintf(out, "%s; the rules %s it here\n", s->info.description,
		s->chosen ? "choose" : "do not choose");
	if (s->c.nranks > SCHEDULE_TABLE_RANKS) {
		rounds_sums(s, out);
		return;
	}
	for (int r = 0; r <= s->rounds; r++)
		rounds_one(s, r, out);
}
