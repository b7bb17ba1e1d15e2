/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * no_companion_test.c - communicators of three ranks over nccl with `companion = none`: they are split and duplicated over
 * the rendezvous of their parent.  An abort or a death ends the calls of the other ranks by their timeouts, and the
 * survivors of a death shrink.
 */
#include "companion.h"

enum { PATIENCE_MS = 500 };

/* Of one job, in memory that the ranks share. */
struct scene {
	_Atomic int ready; /* ranks that have come to the scene */
	_Atomic int done;  /* ranks that have seen the end of their calls */
};

/* Ranks 0 and 2 are one half, and rank 1 is the other. */
static void split_halves(struct rank *r)
{
	const int members = r->rank == 1 ? 1 : 2;
	coll_comm_t half = NULL, copy = NULL;

	if (!rank_did(r, coll_comm_split(r->comm, r->rank % 2, -r->rank, &half, NULL), "split"))
		return;
	is_rank(r, half, r->rank == 0, members);
	nccl_sums(r, half, r->rank, 2, 2 * members, "the half");
	if (rank_did(r, coll_comm_dup(half, &copy), "dup of the half")) {
		rank_did(r, coll_comm_destroy(half), "destroy the half");
		nccl_sums(r, copy, r->rank, 3, 3 * members, "the half's dup");
		rank_did(r, coll_comm_destroy(copy), "destroy the half's dup");
	}
}

/* Rank 1 has no colour. */
static void split_pair(struct rank *r)
{
	coll_comm_t pair = NULL;

	if (!rank_did(r,
		      coll_comm_split(r->comm, r->rank == 1 ? COLL_SPLIT_NOCOLOR : 0, r->rank,
				      &pair, NULL),
		      "split without a colour"))
		return;
	if (r->rank == 1) {
		if (pair)
			rank_fail(r, "a communicator without a colour");
		return;
	}
	nccl_sums(r, pair, r->rank, 4, 8, "the pair");
	rank_did(r, coll_comm_destroy(pair), "destroy the pair");
}

static void derives(struct rank *r)
{
	nccl_works(r);
	split_halves(r);
	split_pair(r);
	nccl_works(r);
	destroy(r);
}

/* Issues a call that the last rank does not make, and waits for it until the communicator's timeout. */
static void waits_in_vain(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	const double begins = ranks_now();
	int code;

	rank_did(r, coll_comm_set_timeout(r->comm, PATIENCE_MS), "set_timeout");
	code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
	if (!code)
		code = coll_sync(r->comm);
	nccl_fails(r, code, COLL_ERR_TIMEOUT, "timed out", "a call without the last rank");
	if (ranks_now() - begins > SOON)
		rank_fail(r, "the call took %.1f s", ranks_now() - begins);
	nccl_fails(r, coll_barrier(r->comm), COLL_ERR_TIMEOUT, "timed out", "a later barrier");
	device_free(r->rank, there);
}

/* Nobody tells the other ranks of the abort.  The communicator's dup goes on. */
static void aborts(struct rank *r)
{
	struct scene *s = r->user;
	coll_comm_t copy = NULL;

	nccl_works(r);
	if (!rank_did(r, coll_comm_dup(r->comm, &copy), "dup"))
		return;
	meet(&s->ready, r->nranks);
	if (r->rank == r->nranks - 1) {
		rank_did(r, coll_comm_abort(r->comm), "abort");
		nccl_fails(r, coll_sync(r->comm), COLL_ERR_ABORTED, "abort", "its own sync");
	} else {
		waits_in_vain(r);
	}
	meet(&s->done, r->nranks);
	nccl_sums(r, copy, r->rank, 2, 2 * r->nranks, "the dup");
	rank_did(r, coll_comm_destroy(copy), "destroy the dup");
	destroy(r);
}

/* The process of the last rank ends.  The other ranks go on without it. */
static void dies(struct rank *r)
{
	struct scene *s = r->user;
	const int32_t dead = r->nranks - 1;
	coll_comm_t rest = NULL;

	nccl_works(r);
	meet(&s->ready, r->nranks);
	if (r->rank == dead)
		ranks_vanish();
	waits_in_vain(r);
	if (rank_did(r, coll_comm_shrink(r->comm, &dead, 1, &rest, NULL, 0), "shrink")) {
		nccl_sums(r, rest, r->rank, 2, 4, "the rest");
		rank_did(r, coll_comm_destroy(rest), "destroy the rest");
	}
	destroy(r);
}

int main(int argc, char **argv)
{
	static const struct {
		void (*fn)(struct rank *r);
		const char *name;
	} tests[] = {
		{derives, "split with two colours, without a colour, and dup"},
		{aborts, "an abort: the other ranks' calls end by the timeout, the dup goes on"},
		{dies, "a death: the other ranks' calls end by the timeout, and they shrink"},
	};
	static const int inits[] = {INIT_ID, INIT_EXCHANGE};
	struct scene *s = ranks_memory(sizeof(*s));

	(void)argc;
	nccl_begin(argv, ".libs");
	setenv("COLL_DESTROY_TIMEOUT", "1s", 1);
	setenv("COLL_COMPANION", "none", 1);
	for (size_t i = 0; i < sizeof(tests) / sizeof(tests[0]); i++)
		for (int k = 0; k < 2; k++) {
			*s = (struct scene){0};
			nccl_ok(&(struct nccl_job){3, 1, inits[k], tests[i].fn, s}, "%s",
				tests[i].name);
		}
	return done_testing();
}
