/* SPDX-License-Identifier: BSD-3-Clause */
/* stall.c - operations that do not move: the ranks for which they wait, and the error texts about them. */
#include "exec/stall.h"
#include "exec/compare.h"
#include "exec/native.h"
#include "exec/op.h"
#include "base/clock.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Does the engine run the operation's schedule? */
static int stall_runs(const struct op *op)
{
	return op->state == OP_RUNNING && !op->native && op->call.args.kind != KIND_AWAIT;
}

/* The backend's own function waits for ranks that have not called it: marks them in `from`. */
static int stall_mark_callers(const struct comm *comm, const struct op *op, uint8_t *from)
{
	int any = 0;

	if (op->state != OP_RUNNING || !op->native || !kind_is_collective(op->call.args.kind))
		return 0;
	for (int r = 0; r < comm->nranks; r++)
		if (compare_lacks(comm, r, op->seq))
			any = from[r] = 1;
	return any;
}

/* Marks in `from` (nranks bytes) the ranks for which an operation still waits. */
static int stall_mark_awaited(const struct comm *comm, uint8_t *from)
{
	int any = 0;

	for (const struct op *op = comm->head; op; op = op->next) {
		any |= stall_mark_callers(comm, op, from);
		for (int i = 0; stall_runs(op) && i < op->sched.nsteps; i++) {
			const struct step *step = &op->sched.step[i];

			if ((step->kind != STEP_RECV && step->kind != STEP_RECV_REDUCE) ||
			    op->run[i].u.recv.state != RECV_POSTED || step->peer < 0)
				continue;
			from[step->peer] = 1;
			any = 1;
		}
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
				if (comm_compare_last_calls(comm, r))
					break;
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

/* ----------------------------------------------------------------- asking the others -- */

/* The answers to a question are awaited for so long at most. */
enum { STALL_ANSWER_US = 100000 };

/*
 * Calls that poll look at the clock every so many times, if so many take no longer than that.  A program
 * that has not polled for so long has not waited.
 */
enum { STALL_POLLS = 64, STALL_FAST_US = 10000, STALL_NO_POLL_US = 10000000 };

static struct position stall_position(const struct comm *comm)
{
	const struct op *op = comm->head;
	struct position p = {.hashes = compare_hashes(comm), .kind = -1};

	if (!op || op->call.args.kind == KIND_AWAIT)
		return p;
	p.kind = op->call.args.kind;
	p.meta[0] = op->call.signature.meta[0];
	p.meta[1] = op->call.signature.meta[1];
	p.seq = op->seq;
	p.peer = op->call.args.root;
	p.tag = op->call.args.tag;
	return p;
}

static void stall_send(struct comm *comm, int rank, int kind)
{
	struct position position = stall_position(comm);

	context_send_struct(comm->context, comm->to_context_rank[rank],
			    comm_tag_control(comm->context_id), kind, &position, sizeof(position));
}

static void stall_ask(struct comm *comm)
{
	memset(comm->answered, 0, (size_t)comm->nranks);
	comm->answered[comm->rank] = 1;
	for (int r = 0; r < comm->nranks; r++)
		if (r != comm->rank && comm->peer_state[r] != PEER_LEFT)
			stall_send(comm, r, CONTROL_WHERE);
}

void stall_take_position(struct comm *comm, int peer, const struct position *position, int asks)
{
	if (asks)
		stall_send(comm, peer, CONTROL_HERE);
	comm->answered[peer] = 1;
	if (!comm->positions)
		comm->positions = calloc((size_t)comm->nranks, sizeof(*comm->positions));
	if (comm->positions)
		comm->positions[peer] = *position;
	if (comm->compare)
		compare_take(comm, peer, &position->hashes);
	else if (kind_is_collective(position->kind))
		comm_compare(comm, peer, position->seq, position->meta);
}

/* ------------------------------------------------------------------------ in words -- */

/* "broadcast number 117", or "a message". */
static void stall_describe_heard(uint64_t heard, char *text, size_t size)
{
	int kind = (int)(heard >> 32) - 1;

	if (kind_is_collective(kind))
		snprintf(text, size, "%s as collective number %llu", kind_name(kind),
			 (unsigned long long)(heard & UINT32_MAX) + 1);
	else
		snprintf(text, size, "a message");
}

/* "waits in barrier as collective number 7" */
static void stall_describe_position(const struct position *p, char *text, size_t size)
{
	const struct signature signature = {{p->meta[0], p->meta[1]}};
	char call[160];

	if (p->kind < 0) {
		snprintf(text, size, "has called %u collectives and waits in none",
			 p->hashes.number);
		return;
	}
	signature_describe(&signature, call, sizeof(call));
	if (kind_is_collective(p->kind))
		snprintf(text, size, "waits in %s as collective number %u", call, p->seq + 1);
	else if (p->kind == COLL_KIND_RECV && p->peer < 0)
		snprintf(text, size, "waits in recv from any rank with tag %u", p->tag);
	else
		snprintf(text, size, "waits in %s %s rank %d with tag %u", kind_name(p->kind),
			 p->kind == COLL_KIND_RECV ? "from" : "to", p->peer, p->tag);
}

static void stall_describe_rank(const struct comm *comm, int rank, char *text, size_t size)
{
	char what[224];

	if (comm->answered[rank] && comm->positions) {
		stall_describe_position(&comm->positions[rank], what, sizeof(what));
		snprintf(text, size, "rank %d %s", rank, what);
	} else if (comm->peer_state[rank] == PEER_LEFT) {
		snprintf(text, size, "rank %d has destroyed its communicator", rank);
	} else if (comm->heard[rank]) {
		stall_describe_heard(comm->heard[rank], what, sizeof(what));
		snprintf(text, size, "rank %d does not answer, and was last heard from in %s", rank,
			 what);
	} else {
		snprintf(text, size, "rank %d does not answer, and was never heard from", rank);
	}
}

/* Is a rank at the same collective as this one? */
static int stall_is_here(const struct comm *comm, int rank)
{
	const struct position *p = comm->positions ? &comm->positions[rank] : NULL;
	const struct op *op = comm->head;

	return rank == comm->rank || (comm->answered[rank] && p && p->kind == op->call.args.kind &&
				      kind_is_collective(p->kind) && p->seq == op->seq);
}

/* The ranks that are elsewhere, those that do not answer first. */
static void stall_describe_ranks(const struct comm *comm, char *text, size_t size)
{
	size_t at = 0;
	char one[288];

	text[0] = '\0';
	for (int answered = 0; answered < 2; answered++)
		for (int r = 0; r < comm->nranks && at < size; r++)
			if (comm->answered[r] == answered && !stall_is_here(comm, r)) {
				stall_describe_rank(comm, r, one, sizeof(one));
				at += (size_t)snprintf(text + at, size - at, "; %s", one);
			}
	if (at >= size)
		memcpy(text + size - sizeof("..."), "...", sizeof("..."));
}

static void stall_warn(const struct comm *comm, int64_t idle_us)
{
	struct untaken untaken;
	char what[160], ranks[1024];

	call_describe(&comm->head->call, what, sizeof(what));
	stall_describe_ranks(comm, ranks, sizeof(ranks));
	log_warn("rank %d waits in %s, and nothing has moved for %.3g s%s%s", comm->rank, what,
		 (double)idle_us / 1e6, ranks, stall_untaken(comm, &untaken));
}

/* ---------------------------------------------------------------------- timing out -- */

static void stall_time_out_native(struct comm *comm, int64_t timeout_us)
{
	char what[160];

	native_describe(comm, what, sizeof(what));
	comm_fail(comm, 0, COLL_ERR_TIMEOUT,
		  "rank %d: %s timed out: nothing has moved for %.3g s; the backend does not tell "
		  "which ranks are missing or gone: read the messages of the other ranks",
		  comm->rank, what, (double)timeout_us / 1e6);
}

/*
 * Names the ranks that do not answer: a rank that is stopped, or that is busy elsewhere before its
 * call, does not answer.
 */
static void stall_time_out(struct comm *comm, int64_t timeout_us)
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
		  "rank %d: %s timed out: nothing has moved for %.3g s; not heard from: %s; still "
		  "needs data from: %s%s%s",
		  comm->rank, what, (double)timeout_us / 1e6, silent, awaited,
		  comm->context->copies_pending ? "; copies to or from a device are still under way"
						: "",
		  stall_untaken(comm, &untaken));
}

/* ------------------------------------------------------------------------- a wait -- */

/* A backend without a transport carries no questions. */
static int stall_can_ask(const struct comm *comm)
{
	return comm->context->plugin->backend.transport && comm->context->ep;
}

/* The last question comes so long before the timeout. */
static int64_t stall_answer_us(const struct comm *comm)
{
	int64_t quarter = comm->context->timeout_us / 4;

	return quarter < STALL_ANSWER_US ? quarter : STALL_ANSWER_US;
}

static int64_t stall_last_us(const struct comm *comm)
{
	return comm->context->timeout_us - stall_answer_us(comm);
}

static int64_t stall_first_us(const struct comm *comm)
{
	return comm->context->stall_us ? comm->context->stall_us : INT64_MAX;
}

/* Nothing has moved since `since_us`. */
static void stall_restart(struct stall *stall, const struct comm *comm, int64_t since_us)
{
	const struct context *context = comm->context;

	stall->since_us = since_us;
	stall->next_us = stall_first_us(comm);
	stall->asked_us = 0;
	stall->steps = comm->steps;
	stall->finished = comm->finished;
	stall->moves = context_moves(context);
}

/* The idle time at which the others are asked next: last before the timeout. */
static int64_t stall_next_us(const struct stall *stall, const struct comm *comm)
{
	int64_t last = stall_last_us(comm);

	return stall->next_us < last ? stall->next_us : last;
}

int64_t stall_slice(struct stall *stall, const struct comm *comm)
{
	int64_t until;

	if (stall->asked_us)
		return stall_answer_us(comm);
	if (!stall->since_us) {
		stall->next_us = stall_first_us(comm);
		return stall_next_us(stall, comm);
	}
	until = stall_next_us(stall, comm) - (clock_now_us() - stall->since_us);
	return until > 0 ? until : 0;
}

/* The answers have come, or are missing. */
static int stall_conclude(struct stall *stall, struct comm *comm, int64_t idle)
{
	if (idle >= comm->context->timeout_us) {
		if (native_busy(comm))
			stall_time_out_native(comm, idle);
		else
			stall_time_out(comm, idle);
		return 1;
	}
	if (stall_can_ask(comm) && !comm->error && !comm->pending_code)
		stall_warn(comm, idle);
	while (stall->next_us <= idle)
		stall->next_us *= 2;
	stall->asked_us = 0;
	stall->moves = context_moves(comm->context);
	return 0;
}

static int stall_has_moved(const struct stall *stall, const struct comm *comm)
{
	return stall->steps != comm->steps || stall->finished != comm->finished ||
	       (!stall->asked_us && stall->moves != context_moves(comm->context));
}

int stall_step(struct stall *stall, struct comm *comm, int64_t idle_us)
{
	int64_t now = clock_now_us();

	if (comm->error || (!comm->head && !native_busy(comm)))
		return comm->error != 0;
	if (!stall->since_us || stall_has_moved(stall, comm))
		stall_restart(stall, comm, now - idle_us);
	if (stall->asked_us && now - stall->asked_us >= stall_answer_us(comm))
		return stall_conclude(stall, comm, now - stall->since_us);
	if (stall->asked_us || now - stall->since_us < stall_next_us(stall, comm))
		return 0;
	stall->asked_us = now;
	if (stall_can_ask(comm))
		stall_ask(comm);
	return 0;
}

void stall_poll(struct comm *comm)
{
	struct stall *stall = &comm->polled;
	int64_t now;

	if (stall->polls_left-- > 0)
		return;
	now = clock_now_us();
	if (now - stall->polled_us > STALL_NO_POLL_US)
		stall_restart(stall, comm, now);
	stall->polls_left = now - stall->polled_us < STALL_FAST_US ? STALL_POLLS : 0;
	stall->polled_us = now;
	(void)stall_step(stall, comm, 0);
}
