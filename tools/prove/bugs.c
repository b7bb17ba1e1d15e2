/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bugs.c - bugs to plant in good schedules.  Each bug changes the steps of one rank (a few change
 * the steps of all ranks) before they run, and describes its change in p->planted.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "prove/prove.h"

enum { BUG_ANY = -1 };

/*
 * Returns the index of a rank's nth step of a kind, from 0 on, or -1.  waits: counts only steps that wait for other steps.
 */
static int bug_find(const struct prove *p, int rank, int kind, int nth, int waits)
{
	const struct prove_rank *r = &p->rank[rank];

	for (int i = 0; i < r->nsteps; i++)
		if ((kind == BUG_ANY || r->step[i].kind == kind) &&
		    (!waits || r->step[i].after_count) && nth-- == 0)
			return i;
	return -1;
}

__attribute__((format(printf, 4, 5))) static int bug_planted(struct prove *p, int rank, int i,
							     const char *fmt, ...)
{
	va_list args;
	size_t n;

	if (i < 0)
		return 0;
	n = (size_t)snprintf(p->planted, sizeof(p->planted), "rank %d, step %d: ", rank, i);
	va_start(args, fmt);
	vsnprintf(p->planted + n, sizeof(p->planted) - n, fmt, args);
	va_end(args);
	return 1;
}

/* Makes step i wait for step `on` too. */
static void bug_wait(struct prove *p, int rank, int i, int on)
{
	coll_step_t *s = &p->rank[rank].step[i];
	int cap = 0;
	int32_t *after = tool_grow(NULL, &cap, (int)s->after_count + 1, sizeof(*after));

	p->mutant_arrays = tool_grow(p->mutant_arrays, &p->cap_mutant_arrays, p->nmutant_arrays + 1,
				     sizeof(*p->mutant_arrays));
	p->mutant_arrays[p->nmutant_arrays++] = after;
	if (s->after_count)
		memcpy(after, s->after, s->after_count * sizeof(*after));
	after[s->after_count++] = on;
	s->after = after;
}

/* Appends a copy of step i that runs right after step i.  The steps that waited for step i then wait for the copy. */
static int bug_repeat(struct prove *p, int rank, int i)
{
	struct prove_rank *r = &p->rank[rank];
	int copy = r->nsteps;

	for (int later = 0; later < r->nsteps; later++)
		for (uint32_t k = 0; k < r->step[later].after_count; k++)
			if (r->step[later].after[k] == i) {
				bug_wait(p, rank, later, copy);
				break;
			}
	r->step = tool_grow(r->step, &r->cap_steps, r->nsteps + 1, sizeof(*r->step));
	r->step[copy] = r->step[i];
	r->step[copy].after_count = 0;
	r->nsteps++;
	bug_wait(p, rank, copy, i);
	return copy;
}

/* Removes the effect of a step but keeps its place in the order. */
static void bug_erase(struct prove *p, int rank, int i)
{
	coll_step_t *s = &p->rank[rank].step[i];

	s->kind = COLL_STEP_COPY;
	s->peer = -1;
	s->bytes = 0;
}

/* -------------------------------------------------------------------- order -- */

static int bug_free_step(struct prove *p, int kind, const char *what)
{
	int i = bug_find(p, 1, kind, 0, 1);

	if (i >= 0)
		p->rank[1].step[i].after_count = 0;
	return bug_planted(p, 1, i, "%s waits for nothing", what);
}

static int bug_early_send(struct prove *p)
{
	return bug_free_step(p, COLL_STEP_SEND, "a send");
}

static int bug_early_receive(struct prove *p)
{
	return bug_free_step(p, COLL_STEP_RECV, "a receive");
}

static int bug_early_reduction(struct prove *p)
{
	return bug_free_step(p, COLL_STEP_REDUCE, "a reduction");
}

static int bug_shared_scratch(struct prove *p)
{
	struct prove_rank *r = &p->rank[1];

	for (int i = 0; i < r->nsteps; i++) {
		coll_step_t *s = &r->step[i];

		s->dst = s->dst_buffer == COLL_BUFFER_SCRATCH ? 0 : s->dst;
		s->src = s->src_buffer == COLL_BUFFER_SCRATCH ? 0 : s->src;
	}
	return bug_planted(p, 1, 0, "all rounds use the same scratch memory");
}

/* Makes each rank's send wait for its receive, so that no rank of a ring begins. */
static int bug_cyclic_wait(struct prove *p)
{
	int found = 0;

	for (int rank = 0; rank < p->nactors; rank++) {
		int send = bug_find(p, rank, COLL_STEP_SEND, 0, 0);
		int recv = bug_find(p, rank, COLL_STEP_RECV_REDUCE, 0, 0);

		if (send < 0 || recv < 0)
			return 0;
		bug_wait(p, rank, send, recv);
		found = send;
	}
	return bug_planted(p, p->nactors - 1, found,
			   "as on every rank, the first send waits for the first receive");
}

static int bug_self_wait(struct prove *p)
{
	int last = p->rank[0].nsteps - 1;

	if (last > 0)
		bug_wait(p, 0, 0, last);
	return bug_planted(p, 0, last > 0 ? 0 : -1, "the first step waits for the last");
}

/* Makes a rank have more sends in flight than its limit before the first can complete. */
static int bug_late_receives(struct prove *p)
{
	int last = p->rank[1].nsteps - 1;

	for (int i = 0; i < last; i++)
		bug_wait(p, 1, i, last);
	return bug_planted(p, 1, last, "all other receives wait for the last");
}

static int bug_early_leave(struct prove *p)
{
	int i = bug_find(p, 0, COLL_STEP_SEND, 1, 0);

	if (i >= 0)
		p->rank[0].step[i].after_count = 0;
	return bug_planted(p, 0, i, "the second round does not wait for the first");
}

/* ----------------------------------------------------------------- messages -- */

static int bug_wrong_peer(struct prove *p)
{
	int i = bug_find(p, 0, COLL_STEP_SEND, 0, 0);
	coll_step_t *s = &p->rank[0].step[i < 0 ? 0 : i];

	s->peer = (s->peer + 1) % p->nactors;
	return bug_planted(p, 0, i, "sends to rank %d", s->peer);
}

static int bug_short_message(struct prove *p)
{
	int i = bug_find(p, 1, COLL_STEP_SEND, 0, 0);

	if (i >= 0)
		p->rank[1].step[i].bytes--;
	return bug_planted(p, 1, i, "sends a byte too few");
}

static int bug_extra_send(struct prove *p)
{
	int i = bug_find(p, 1, COLL_STEP_SEND, 0, 0);

	if (i >= 0)
		p->rank[1].step[bug_repeat(p, 1, i)].message++;
	return bug_planted(p, 1, i, "sends twice");
}

static int bug_needless_message(struct prove *p)
{
	int send = bug_find(p, 1, COLL_STEP_SEND, 0, 0);
	int recv = bug_find(p, 0, COLL_STEP_RECV, 0, 0);

	if (send < 0 || recv < 0)
		return 0;
	p->rank[1].step[bug_repeat(p, 1, send)].message++;
	p->rank[0].step[bug_repeat(p, 0, recv)].message++;
	return bug_planted(p, 1, send, "sends twice, and rank 0 receives twice");
}

static int bug_lost_message(struct prove *p)
{
	p->rank[1].nsteps = 0;
	return bug_planted(p, p->rank[1].rank, 0, "does not receive its message to itself");
}

static int bug_exchanged_receives(struct prove *p)
{
	int a = bug_find(p, 1, COLL_STEP_RECV_REDUCE, 0, 0);
	int b = bug_find(p, 1, COLL_STEP_RECV_REDUCE, 1, 0);

	if (a < 0 || b < 0)
		return 0;
	p->rank[1].step[a].message = 1;
	p->rank[1].step[b].message = 0;
	return bug_planted(p, 1, a, "receives the second message first");
}

/* --------------------------------------------------------------------- data -- */

static int bug_wrong_offset(struct prove *p)
{
	int i = bug_find(p, 1, COLL_STEP_RECV, 0, 0);
	coll_step_t *s = &p->rank[1].step[i < 0 ? 0 : i];

	s->dst = s->dst ? s->dst - s->bytes : s->bytes;
	return bug_planted(p, 1, i, "receives a block to byte %llu, one block off",
			   (unsigned long long)s->dst);
}

static int bug_out_of_bounds(struct prove *p)
{
	int i = bug_find(p, 1, COLL_STEP_RECV, 0, 0);

	if (i >= 0)
		p->rank[1].step[i].dst++;
	return bug_planted(p, 1, i, "receives one byte further");
}

static int bug_writes_gap(struct prove *p)
{
	for (int i = 0; i < p->rank[0].nsteps; i++) {
		coll_step_t *s = &p->rank[0].step[i];

		if (s->kind == COLL_STEP_RECV && s->dst > 0) {
			s->dst--;
			return bug_planted(p, 0, i, "receives one byte before the block");
		}
	}
	return 0;
}

static int bug_missing_reduction(struct prove *p)
{
	int i = bug_find(p, 1, COLL_STEP_REDUCE, 0, 0);

	if (i >= 0)
		bug_erase(p, 1, i);
	return bug_planted(p, 1, i, "a reduction is missing");
}

static int bug_double_reduction(struct prove *p)
{
	int i = bug_find(p, 1, COLL_STEP_REDUCE, 0, 0), copy;
	coll_step_t *s;

	if (i < 0)
		return 0;
	copy = bug_repeat(p, 1, i);
	s = &p->rank[1].step[copy];
	/* The rank's own part is in the result, so the copy combines the result again. */
	if (s->src_buffer == COLL_BUFFER_SCRATCH) {
		s->other_buffer = s->dst_buffer;
		s->other = s->dst;
	} else {
		s->src_buffer = s->dst_buffer;
		s->src = s->dst;
	}
	return bug_planted(p, 1, i, "is done twice");
}

static int bug_swap(struct prove *p, int rank)
{
	int i = bug_find(p, rank, COLL_STEP_REDUCE, 0, 0);
	coll_step_t *s = &p->rank[rank].step[i < 0 ? 0 : i], was = *s;

	s->src = was.other;
	s->src_buffer = was.other_buffer;
	s->other = was.src;
	s->other_buffer = was.src_buffer;
	return i;
}

static int bug_swapped_operands(struct prove *p)
{
	return bug_planted(p, 2, bug_swap(p, 2), "left and right are exchanged, on this rank only");
}

static int bug_wrong_order(struct prove *p)
{
	int i = -1;

	for (int rank = 0; rank < p->nactors; rank++)
		i = bug_swap(p, rank);
	return bug_planted(p, p->nactors - 1, i, "as on every rank, left and right are exchanged");
}

static int bug_no_finish(struct prove *p)
{
	int i = bug_find(p, 1, COLL_STEP_FINISH, 0, 0);

	if (i >= 0)
		bug_erase(p, 1, i);
	return bug_planted(p, 1, i, "the average is never divided");
}

static int bug_two_finishes(struct prove *p)
{
	int i = bug_find(p, 1, COLL_STEP_FINISH, 0, 0);

	if (i >= 0)
		bug_repeat(p, 1, i);
	return bug_planted(p, 1, i, "the average is divided twice");
}

/* Sends a message straight from the send buffer. */
static int bug_sends_raw(struct prove *p)
{
	int i = bug_find(p, 1, COLL_STEP_SEND, 0, 0);
	coll_step_t *s = &p->rank[1].step[i < 0 ? 0 : i];

	if (i >= 0) {
		s->src_buffer = COLL_BUFFER_SEND;
		s->src = 0;
	}
	return bug_planted(p, 1, i, "an input is sent without having been scaled");
}

static int bug_trusts_message(struct prove *p)
{
	int i = bug_find(p, 1, COLL_STEP_RECV_REDUCE, 0, 0);

	if (i >= 0)
		p->rank[1].step[i].unscaled = 0;
	return bug_planted(p, 1, i, "an unscaled input is taken for a scaled one");
}

/* Scales a partial sum, which in place lies where the input was. */
static int bug_scales_sum(struct prove *p)
{
	int i = bug_find(p, 1, COLL_STEP_REDUCE, 1, 0);
	coll_step_t *s = &p->rank[1].step[i < 0 ? 0 : i];

	if (i >= 0 && s->src_buffer == COLL_BUFFER_RECV)
		s->src_buffer = COLL_BUFFER_SEND;
	else if (i >= 0)
		s->other_buffer = COLL_BUFFER_SEND;
	return bug_planted(p, 1, i, "a partial sum is scaled like an input");
}

static int bug_writes_input(struct prove *p)
{
	int i = bug_find(p, 1, COLL_STEP_RECV_REDUCE, 0, 0);
	coll_step_t *s = &p->rank[1].step[i < 0 ? 0 : i];

	s->dst_buffer = s->src_buffer;
	s->dst = s->src;
	return bug_planted(p, 1, i, "keeps a sum in the send buffer");
}

static int bug_reads_nothing(struct prove *p)
{
	int i = bug_find(p, 1, COLL_STEP_SEND, 1, 0);

	if (i >= 0) {
		p->rank[1].step[i].src_buffer = COLL_BUFFER_RECV;
		p->rank[1].step[i].src = 0;
	}
	return bug_planted(p, 1, i, "sends data that has not arrived yet");
}

static int bug_false_claim(struct prove *p)
{
	snprintf(p->planted, sizeof(p->planted), "the table's row");
	return 1;
}

static int bug_nothing(struct prove *p)
{
	snprintf(p->planted, sizeof(p->planted), "nowhere");
	return 1;
}

/* Members in order: kind, algorithm, check, ranks, count; the rest is 0. */
const struct prove_mutant prove_mutants[] = {
	{"early-send", "allreduce", "ring", PROVE_RACE, 4, 9, .plant = bug_early_send},
	{"early-receive", "allreduce", "ring", PROVE_RACE, 4, 9, .plant = bug_early_receive,
	 .form = PROVE_IN_PLACE},
	{"early-receive-in-place", "alltoall", "pairwise", PROVE_RACE, 4, 9,
	 .plant = bug_early_receive, .form = PROVE_IN_PLACE},
	{"early-reduction", "allreduce", "recursive_doubling", PROVE_RACE, 4, 9,
	 .plant = bug_early_reduction},
	{"shared-scratch", "reduce_scatter", "ring", PROVE_RACE, 5, 9, .plant = bug_shared_scratch},
	{"cyclic-wait", "allreduce", "ring", PROVE_DEADLOCK, 4, 9, .plant = bug_cyclic_wait},
	{"waits-for-itself", "allreduce", "recursive_doubling", PROVE_DEADLOCK, 4, 9,
	 .plant = bug_self_wait, .form = PROVE_IN_PLACE},
	{"late-receives", "broadcast", "binomial", PROVE_DEADLOCK, 2, 100,
	 .plant = bug_late_receives, .segment = 1},
	{"wrong-peer", "broadcast", "binomial", PROVE_MESSAGES, 4, 9, .plant = bug_wrong_peer},
	{"short-message", "gather", "linear", PROVE_MESSAGES, 4, 9, .plant = bug_short_message},
	{"extra-send", "gather", "linear", PROVE_MESSAGES, 4, 9, .plant = bug_extra_send},
	{"needless-message", "gather", "linear", PROVE_MESSAGES, 2, 9,
	 .plant = bug_needless_message},
	{"lost-message-to-self", "send", "direct", PROVE_MESSAGES, 1, 9, .plant = bug_lost_message},
	{"exchanged-receives", "allreduce", "ring", PROVE_RESULT, 4, 9,
	 .plant = bug_exchanged_receives},
	{"wrong-offset", "allgather", "ring", PROVE_RESULT, 4, 9, .plant = bug_wrong_offset},
	{"out-of-bounds", "broadcast", "binomial", PROVE_RESULT, 4, 9, .plant = bug_out_of_bounds},
	{"gap-written", "gatherv", "linear", PROVE_RESULT, 4, 9, .plant = bug_writes_gap,
	 .displs = PROVE_GAPS},
	{"missing-reduction", "allreduce", "recursive_doubling", PROVE_RESULT, 4, 9,
	 .plant = bug_missing_reduction},
	{"double-reduction", "allreduce", "recursive_doubling", PROVE_RESULT, 4, 9,
	 .plant = bug_double_reduction},
	{"input-written", "reduce_scatter", "ring", PROVE_RESULT, 4, 9, .plant = bug_writes_input},
	{"reads-nothing", "reduce_scatter", "ring", PROVE_RESULT, 4, 9, .plant = bug_reads_nothing},
	{"early-leave", "barrier", "dissemination", PROVE_RESULT, 4, 0, .plant = bug_early_leave},
	{"swapped-operands", "allreduce", "recursive_doubling", PROVE_ORDER, 4, 9,
	 .plant = bug_swapped_operands},
	{"different-bits", "allreduce", "recursive_doubling", PROVE_ORDER, 4, 9,
	 .plant = bug_swapped_operands, .claims = COLL_ALGORITHM_ORDERED},
	{"wrong-order", "allreduce", "recursive_doubling", PROVE_ORDER, 4, 9,
	 .plant = bug_wrong_order},
	{"claims-order", "allreduce", "ring", PROVE_ORDER, 4, 9, .plant = bug_false_claim,
	 .claims = COLL_ALGORITHM_ORDERED},
	{"claims-grouping", "allreduce", "recursive_doubling", PROVE_ORDER, 5, 9,
	 .plant = bug_false_claim, .claims = COLL_ALGORITHM_CANONICAL},
	{"no-finish", "allreduce", "ring", PROVE_ORDER, 4, 9, .plant = bug_no_finish,
	 .average = PROVE_FINISHED},
	{"two-finishes", "allreduce", "recursive_doubling", PROVE_ORDER, 4, 9,
	 .plant = bug_two_finishes, .average = PROVE_FINISHED},
	{"sends-raw", "allreduce", "recursive_doubling", PROVE_ORDER, 4, 9, .plant = bug_sends_raw,
	 .average = PROVE_SCALED},
	{"trusts-message", "allreduce", "ring", PROVE_ORDER, 4, 9, .plant = bug_trusts_message,
	 .average = PROVE_SCALED},
	{"scales-sum", "allreduce", "recursive_doubling", PROVE_ORDER, 4, 9,
	 .plant = bug_scales_sum, .form = PROVE_IN_PLACE, .average = PROVE_SCALED},
	{"scan-swapped", "scan", "doubling", PROVE_ORDER, 6, 9, .plant = bug_swapped_operands},
	{"scan-grouping", "scan", "chain", PROVE_ORDER, 5, 9, .plant = bug_false_claim,
	 .claims = COLL_ALGORITHM_CANONICAL},
	{"scan-missing", "exscan", "doubling", PROVE_RESULT, 4, 9, .plant = bug_missing_reduction},
	{"nothing", "allreduce", "ring", PROVE_CHECKS, 4, 9, .plant = bug_nothing},
	{.name = NULL},
};
