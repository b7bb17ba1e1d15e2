/* SPDX-License-Identifier: BSD-3-Clause */
/* stall.c - operations that do not move: the ranks for which they wait, and the error texts about them. */
#include "exec/stall.h"
#include "exec/native.h"
#include "exec/op.h"

#include <stdio.h>
#include <stdlib.h>

/* Does the engine run the operation's schedule? */
static int stall_runs(const struct op *op)
{
	return op->state == OP_RUNNING && !op->native && op->call.args.kind != KIND_AWAIT;
}

/* Marks in `from` (nranks bytes) the ranks from which a posted receive still waits. */
static int stall_mark_awaited(const struct comm *comm, uint8_t *from)
{
	int any = 0;

	for (const struct op *op = comm->head; op; op = op->next)
		for (int i = 0; stall_runs(op) && i < op->sched.nsteps; i++) {
			const struct step *step = &op->sched.step[i];

			if ((step->kind != STEP_RECV && step->kind != STEP_RECV_REDUCE) ||
			    op->run[i].u.recv.state != RECV_POSTED || step->peer < 0)
				continue;
			from[step->peer] = 1;
			any = 1;
		}
	return any;
}

/* The first message that has come for the communicator and that no operation takes. */
struct untaken {
	const struct comm *comm;
	char text[320];
};

static void stall_see_untaken(void *user, const struct unexpected *e)
{
	struct untaken *untaken = user;
	const struct comm *comm = untaken->comm;
	const struct signature signature = {{e->header.meta[0], e->header.meta[1]}};
	char what[160], which[48];

	if (untaken->text[0] || e->header.tag & MATCH_CONTROL || comm->to_comm_rank[e->peer] < 0)
		return;
	signature_describe(&signature, what, sizeof(what));
	if (e->header.tag & TAG_USER)
		snprintf(which, sizeof(which), "with tag %u", (unsigned)(uint32_t)e->header.tag);
	else
		snprintf(which, sizeof(which), "as collective number %u",
			 ((unsigned)(e->header.tag >> TAG_SEQ_SHIFT) & TAG_SEQ_MASK) + 1);
	snprintf(untaken->text, sizeof(untaken->text),
		 "; rank %d has called %s %s, for which nothing waits here",
		 comm->to_comm_rank[e->peer], what, which);
}

static const char *stall_untaken(const struct comm *comm, struct untaken *untaken)
{
	const uint64_t tag = (uint64_t)comm->context_id << TAG_CONTEXT_SHIFT;

	*untaken = (struct untaken){.comm = comm};
	match_each(&comm->context->match, ~(uint64_t)0 << TAG_CONTEXT_SHIFT, tag, stall_see_untaken,
		   untaken);
	return untaken->text;
}

void stall_check_left(struct comm *comm)
{
	uint8_t *from = calloc((size_t)comm->nranks, 1);
	char what[160] = "";
	struct rank_name name;
	struct untaken untaken;

	if (from && stall_mark_awaited(comm, from))
		for (int r = 0; r < comm->nranks; r++)
			if (from[r] && comm->peer_state[r] == PEER_LEFT) {
				call_describe(&comm->head->call, what, sizeof(what));
				comm_fail(comm, 0, COLL_ERR_PEER_LOST,
					  "%s destroyed its communicator while rank %d still waits "
					  "for it in %s%s",
					  comm_rank_name(comm, r, &name), comm->rank, what,
					  stall_untaken(comm, &untaken));
				break;
			}
	free(from);
}

/* Writes "rank 1, 4": the ranks whose entry in marks[] is `mark`. */
static void stall_list_ranks(const struct comm *comm, const uint8_t *marks, int mark, char *text,
			     size_t size)
{
	size_t at = 0;

	snprintf(text, size, "none");
	for (int r = 0; r < comm->nranks && at < size; r++)
		if (marks[r] == mark)
			at += (size_t)snprintf(text + at, size - at, "%s%d", at ? ", " : "rank ",
					       r);
}

void stall_time_out_native(struct comm *comm, int64_t timeout_us)
{
	char what[160];

	native_describe(comm, what, sizeof(what));
	comm_fail(
		comm, 0, COLL_ERR_TIMEOUT,
		"rank %d: %s: nothing has moved for %.3g s; the backend does not tell which ranks "
		"are missing or gone: read the messages of the other ranks",
		comm->rank, what, (double)timeout_us / 1e6);
}

/*
 * Names the ranks that do not answer: a rank that is stopped, or that is busy elsewhere before its
 * call, does not answer.
 */
void stall_time_out(struct comm *comm, int64_t timeout_us)
{
	struct untaken untaken;
	char silent[256], awaited[256] = "none", what[160];
	uint8_t *from = calloc((size_t)comm->nranks, 1);

	if (from && stall_mark_awaited(comm, from))
		stall_list_ranks(comm, from, 1, awaited, sizeof(awaited));
	else if (comm->head->call.args.kind == COLL_KIND_RECV)
		snprintf(awaited, sizeof(awaited), "any rank");
	free(from);
	comm->answered[comm->rank] = 1;
	stall_list_ranks(comm, comm->answered, 0, silent, sizeof(silent));
	call_describe(&comm->head->call, what, sizeof(what));
	comm_fail(comm, 0, COLL_ERR_TIMEOUT,
		  "rank %d: %s: nothing has moved for %.3g s; not heard from: %s; still needs data "
		  "from: %s%s%s",
		  comm->rank, what, (double)timeout_us / 1e6, silent, awaited,
		  comm->context->copies_pending ? "; copies to or from a device are still under way"
						: "",
		  stall_untaken(comm, &untaken));
}
