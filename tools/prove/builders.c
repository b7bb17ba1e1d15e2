/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * builders.c - wrong builders.  Each builder is wrong in few cases only, such as beyond a count, with many ranks or
 * for one root.  The proof finds it if it tries such a case.
 */
#include <string.h>
#include "prove/prove.h"

enum { BUILDER_MANY_RANKS = 64 };

/* ----------------------------------------------------------------------- arguments -- */

static int is_long(const struct prove_case *c)
{
	return c->count > 1 << 20;
}

static void args_20_bits(const struct prove *p, int actor, coll_schedule_args_t *args)
{
	(void)p;
	(void)actor;
	args->count &= (1 << 20) - 1;
}

static int is_beyond_32_bits(const struct prove_case *c)
{
	return c->count > UINT32_MAX;
}

static void args_32_bits(const struct prove *p, int actor, coll_schedule_args_t *args)
{
	(void)p;
	(void)actor;
	args->count = (uint32_t)args->count;
}

static int is_high_root(const struct prove_case *c)
{
	return c->root > INT8_MAX;
}

static void args_7_bits_of_root(const struct prove *p, int actor, coll_schedule_args_t *args)
{
	(void)p;
	(void)actor;
	args->root &= INT8_MAX;
}

static int is_list(const struct prove_case *c)
{
	return c->displs == PROVE_LIST;
}

static void args_no_displacements(const struct prove *p, int actor, coll_schedule_args_t *args)
{
	(void)p;
	(void)actor;
	args->senddispls = NULL;
}

static int is_uneven(const struct prove_case *c)
{
	return c->form == PROVE_OUT_OF_PLACE;
}

static void args_one_displacements(const struct prove *p, int actor, coll_schedule_args_t *args)
{
	(void)p;
	(void)actor;
	args->recvdispls = args->senddispls;
}

static void args_one_counts(const struct prove *p, int actor, coll_schedule_args_t *args)
{
	(void)p;
	(void)actor;
	args->recvcounts = args->sendcounts;
}

static int is_odd(const struct prove_case *c)
{
	return c->segment % c->elem != 0;
}

static void args_bytes(const struct prove *p, int actor, coll_schedule_args_t *args)
{
	(void)p;
	(void)actor;
	args->count *= args->elem;
	args->elem = 1;
}

/* For send and receive: are the ranks 1 and 2, so that neither is rank 0? */
static int is_pair_1_2(const struct prove_case *c)
{
	return c->root == 1 && c->peer == 2;
}

static void args_one_less(const struct prove *p, int actor, coll_schedule_args_t *args)
{
	(void)p;
	(void)actor;
	args->count -= args->count > 0;
}

/* --------------------------------------------------------------------------- steps -- */

static int is_many_pieces(const struct prove_case *c)
{
	return c->nranks >= 6 && c->segment && c->staged == PROVE_UNSTAGED;
}

/* Receives the 33rd piece of each block where the 32nd lies. */
static void steps_piece_33(struct prove *p)
{
	uint64_t block = p->c->count * p->c->elem, piece = p->c->segment / p->c->elem * p->c->elem;

	for (int actor = 0; block && actor < p->nactors; actor++)
		for (int i = 0; i < p->rank[actor].nsteps; i++) {
			coll_step_t *s = &p->rank[actor].step[i];

			if (s->kind == COLL_STEP_RECV && s->dst % block == 32 * piece)
				s->dst -= piece;
		}
}

static int is_many_ranks(const struct prove_case *c)
{
	return c->nranks > BUILDER_MANY_RANKS;
}

/* Leaves out a round, which is a send and a receive. */
static void steps_round_less(struct prove *p)
{
	for (int actor = 0; actor < p->nactors; actor++)
		p->rank[actor].nsteps -= 2;
}

static int is_one_pair(const struct prove_case *c)
{
	return c->nranks == 37 && c->root == 11 && c->count * c->elem == 97;
}

/* Returns a rank's nth step of a kind, from 0 on, or NULL. */
static coll_step_t *builder_find(struct prove_rank *r, int kind, int nth)
{
	for (int i = 0; i < r->nsteps; i++)
		if (r->step[i].kind == kind && nth-- == 0)
			return &r->step[i];
	return NULL;
}

static void steps_overrun(struct prove *p)
{
	coll_step_t *s = builder_find(&p->rank[p->c->root], COLL_STEP_RECV, 0);

	if (s)
		s->dst++;
}

static int is_pieces_in_place(const struct prove_case *c)
{
	return c->nranks > 8 && c->segment && c->form == PROVE_IN_PLACE;
}

static void steps_early_receive(struct prove *p)
{
	coll_step_t *s = builder_find(&p->rank[0], COLL_STEP_RECV, 0);

	if (s)
		s->after_count = 0;
}

static int is_cut(const struct prove_case *c)
{
	return c->segment != 0;
}

/* Makes no step wait for the step `earlier`. */
static void builder_release(struct prove_rank *r, int earlier)
{
	for (int i = 0; i < r->nsteps; i++)
		if (r->step[i].after_count == 1 && r->step[i].after[0] == earlier)
			r->step[i].after_count = 0;
}

/* Drops three of four points of order between the windows. */
static void steps_long_window(struct prove *p)
{
	for (int actor = 0; actor < p->nactors; actor++) {
		struct prove_rank *r = &p->rank[actor];
		int joins = 0;

		for (int i = 0; i < r->nsteps; i++)
			if (r->step[i].kind == COLL_STEP_COPY && !r->step[i].bytes &&
			    r->step[i].after_count && ++joins % 4)
				builder_release(r, i);
	}
}

static int is_staged(const struct prove_case *c)
{
	return c->staged == PROVE_STAGED;
}

static void steps_no_copy_in(struct prove *p)
{
	for (int actor = 0; actor < p->nactors; actor++) {
		coll_step_t *s = builder_find(&p->rank[actor], PROVE_COPY_IN, 0);

		if (s)
			s->bytes = 0;
	}
}

static void steps_early_copy_out(struct prove *p)
{
	for (int actor = 0; actor < p->nactors; actor++) {
		coll_step_t *s = builder_find(&p->rank[actor], PROVE_COPY_OUT, 0);

		if (s)
			s->after_count = 0;
	}
}

static int is_staged_list(const struct prove_case *c)
{
	return is_list(c) && is_staged(c);
}

static void steps_list_as_one(struct prove *p)
{
	for (int actor = 0; actor < p->nactors; actor++)
		prove_forget_lists(&p->rank[actor]);
}

static int is_staged_pieces(const struct prove_case *c)
{
	return is_staged(c) && is_cut(c);
}

static void steps_early_piece(struct prove *p)
{
	coll_step_t *s = builder_find(&p->rank[1], COLL_STEP_RECV, 1);

	if (s)
		s->after_count = 0;
}

static void steps_swapped_pieces(struct prove *p)
{
	coll_step_t *second = builder_find(&p->rank[0], COLL_STEP_SEND, 1);
	coll_step_t *third = builder_find(&p->rank[0], COLL_STEP_SEND, 2), was;

	if (!third)
		return;
	was = *second;
	second->src = third->src;
	second->after = third->after;
	second->after_count = third->after_count;
	third->src = was.src;
	third->after = was.after;
	third->after_count = was.after_count;
}

/* Members in order: name, collective, algorithm, fault, check, proof, numbers of ranks; then the cases. */
const struct prove_builder prove_builders[] = {
	{"count-20-bits", "broadcast", "binomial", "keeps 20 bits of a count", PROVE_RESULT,
	 PROVE_USUAL, 2, PROVE_RANKS_MAX, is_long, .args = args_20_bits},
	{"count-32-bits", "allreduce", "rabenseifner", "keeps 32 bits of a count", PROVE_RESULT,
	 PROVE_USUAL, 2, PROVE_RANKS_MAX, is_beyond_32_bits, .args = args_32_bits},
	{"piece-33", "allgather", "ring",
	 "from 6 ranks on, the 33rd piece of a block lies at the place of the 32nd", PROVE_RESULT,
	 PROVE_USUAL, 6, PROVE_RANKS_MAX, is_many_pieces, .steps = steps_piece_33},
	{"round-less", "barrier", "dissemination", "above 64 ranks the last round is left out",
	 PROVE_RESULT, PROVE_USUAL, 2, PROVE_RANKS_MAX, is_many_ranks, .steps = steps_round_less},
	{"root-7-bits", "scatter", "binomial", "keeps 7 bits of the root", PROVE_RESULT,
	 PROVE_USUAL, 129, PROVE_RANKS_MAX, is_high_root, .args = args_7_bits_of_root},
	{"one-pair", "gather", "linear",
	 "on 37 ranks, with root 11 and 97 bytes, a block lies a byte further", PROVE_RESULT,
	 PROVE_LONG, 37, 37, is_one_pair, .steps = steps_overrun},
	{"list-ignored", "reduce_scatterv", "ring", "ignores the displacements of a list",
	 PROVE_RESULT, PROVE_USUAL, 2, PROVE_RANKS_MAX, is_list, .args = args_no_displacements},
	{"one-displacements", "alltoallv", "pairwise",
	 "receives where it sends from, though not in place", PROVE_RESULT, PROVE_USUAL, 2,
	 PROVE_RANKS_MAX, is_uneven, .args = args_one_displacements},
	{"one-counts", "alltoallv", "pairwise", "receives as much as it sends, though not in place",
	 PROVE_MESSAGES, PROVE_USUAL, 2, PROVE_RANKS_MAX, is_uneven, .args = args_one_counts},
	{"odd-pieces", "reduce", "binomial", "cuts elements of 12 bytes in two", PROVE_RESULT,
	 PROVE_USUAL, 2, PROVE_RANKS_MAX, is_odd, .args = args_bytes},
	{"early-piece-in-place", "alltoall", "pairwise",
	 "in place, above 8 ranks, a piece is received before the old one has left", PROVE_RACE,
	 PROVE_USUAL, 9, PROVE_RANKS_MAX, is_pieces_in_place, .steps = steps_early_receive},
	{"long-window", "reduce_scatter", "ring", "has four times as many pieces under way",
	 PROVE_DEADLOCK, PROVE_USUAL, 2, PROVE_RANKS_MAX, is_cut, .steps = steps_long_window},
	{"no-copy-in", "broadcast", "chain", "does not copy the first staged bytes in",
	 PROVE_RESULT, PROVE_USUAL, 2, PROVE_RANKS_MAX, is_staged, .steps = steps_no_copy_in},
	{"early-copy-out", "allgather", "bruck", "copies staged bytes out before they are there",
	 PROVE_RESULT, PROVE_USUAL, 2, PROVE_RANKS_MAX, is_staged, .steps = steps_early_copy_out},
	{"staged-list-as-one", "allgatherv", "ring", "copies a staged list as one block",
	 PROVE_RESULT, PROVE_USUAL, 2, PROVE_RANKS_MAX, is_staged_list, .steps = steps_list_as_one},
	{"early-piece", "recv", "direct", "receives a piece before its tag is known",
	 PROVE_MESSAGES, PROVE_USUAL, 1, PROVE_RANKS_MAX, is_cut, .steps = steps_early_piece},
	{"swapped-pieces", "send", "direct",
	 "sends the second staged piece before the first, with the same tag", PROVE_MESSAGES,
	 PROVE_USUAL, 1, PROVE_RANKS_MAX, is_staged_pieces, .steps = steps_swapped_pieces},
	{"pair-1-2", "send", "direct", "from rank 1 to rank 2 the last element is left out",
	 PROVE_RESULT, PROVE_USUAL, 3, PROVE_RANKS_MAX, is_pair_1_2, .args = args_one_less},
	{.name = NULL},
};
