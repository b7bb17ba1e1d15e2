/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c - communicators: failing as one, who is gone, what a message may mean. */
#include "comm.h"
#include "engine.h"
#include "error.h"
#include "handle.h"
#include "log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* How long before the timeout the others are asked whether they are there. */
enum { COMM_ASK_US = 100000 };

/*
 * Tag: context (bits 63-38) | user (37) | control (36), then for collectives seq (bits 35-20) |
 * message number (19-0), for point to point the user's tag (31-0).
 */
enum {
	TAG_CONTEXT_SHIFT = 38,
	TAG_CONTEXT_BITS = 26,
	TAG_SEQ_SHIFT = 20,
	TAG_SEQ_BITS = 16,
	TAG_MSG_BITS = 20
};

#define TAG_USER     ((uint64_t)1 << 37)
#define TAG_SEQ_MASK ((1u << TAG_SEQ_BITS) - 1)
#define TAG_MSG_MASK ((1u << TAG_MSG_BITS) - 1)

uint64_t comm_tag_collective(const struct comm *comm, uint32_t seq, uint32_t msg)
{
	return (uint64_t)comm->context << TAG_CONTEXT_SHIFT |
	       (uint64_t)(seq & TAG_SEQ_MASK) << TAG_SEQ_SHIFT | (msg & TAG_MSG_MASK);
}

uint64_t comm_tag_user(const struct comm *comm, uint32_t tag)
{
	return (uint64_t)comm->context << TAG_CONTEXT_SHIFT | TAG_USER | tag;
}

uint64_t comm_tag_control(uint32_t context)
{
	return (uint64_t)context << TAG_CONTEXT_SHIFT | MATCH_CONTROL;
}

static struct comm *comm_of_tag(struct link *link, uint64_t tag)
{
	struct comm *c = link->comms;

	while (c && c->context != tag >> TAG_CONTEXT_SHIFT)
		c = c->next;
	return c;
}

/* The upper bits are the drawing rank's number on the link, the lower ones count. */
uint32_t comm_draw_context(struct link *link)
{
	int bits = TAG_CONTEXT_BITS;

	for (int n = link->nranks - 1; n; n /= 2)
		bits--;
	if (bits < 1 || link->next_context >> bits)
		return UINT32_MAX;
	return (uint32_t)link->rank << bits | link->next_context++;
}

/* Is it the context of a communicator that was freed not long ago? */
static int comm_was_freed(const struct link *link, uint64_t context)
{
	for (int i = 0; i < LINK_FREED; i++)
		if (link->freed[i] == context + 1)
			return 1;
	return 0;
}

/* ------------------------------------------------------------------ failing -- */

void comm_tell_all(struct comm *comm, int kind, int code, const char *text)
{
	for (int r = 0; r < comm->nranks; r++)
		if (r != comm->rank && !comm->gone[r])
			link_notify(comm->link, comm->world[r], comm->context, kind, code, text);
}

void comm_fail(struct comm *comm, int quiet, int code, const char *fmt, ...)
{
	va_list ap;

	if (comm->error)
		return;
	comm->error = code;
	va_start(ap, fmt);
	vsnprintf(comm->error_text, sizeof(comm->error_text), fmt, ap);
	va_end(ap);
	log_info("communicator of rank %d failed: %s", comm->rank, comm->error_text);
	engine_cancel(comm);
	if (!quiet)
		comm_tell_all(comm, NOTICE_FAIL, code, comm->error_text);
	link_wake(comm->link);
}

int comm_error(const struct comm *comm)
{
	return comm->error ? error_set(comm->error, "%s", comm->error_text) : COLL_SUCCESS;
}

/* What another rank's failure is called here: some are this rank's failure as well. */
static int comm_remote_code(int code)
{
	if (code == COLL_ERR_MISMATCH || code == COLL_ERR_PEER_LOST)
		return code;
	return COLL_ERR_REMOTE;
}

/* "rank 2: ", unless the text itself begins with a rank. */
static void comm_remote_failure(struct comm *comm, int peer, const struct notice_body *body,
				size_t len)
{
	int room = (int)(len - sizeof(*body));

	if (!strncmp(body->text, "rank ", 5) && room > 5)
		comm_fail(comm, 1, comm_remote_code(body->code), "%.*s", room, body->text);
	else
		comm_fail(comm, 1, comm_remote_code(body->code), "rank %d: %.*s", peer, room,
			  body->text);
}

static void comm_take_notice(struct comm *comm, const struct early *e)
{
	const struct notice_body *body = (const void *)e->data;
	int peer = comm->members[e->peer];

	if (e->header.len < sizeof(*body) || peer < 0)
		return;
	if (body->kind == NOTICE_BYE && !comm->gone[peer]) {
		comm->gone[peer] = 1;
		comm->ngone++;
		comm_check_gone(comm);
	} else if (body->kind == NOTICE_FAIL) {
		comm_remote_failure(comm, peer, body, e->header.len);
	} else if (body->kind == NOTICE_ARE_YOU_THERE) {
		link_notify(comm->link, (int)e->peer, comm->context, NOTICE_HERE, 0, "");
	} else if (body->kind == NOTICE_HERE) {
		comm->here[peer] = 1;
	} else if (body->kind == NOTICE_SHRINK) {
		comm->shrink[peer] = strtoull(body->text, NULL, 16);
	} else if (body->kind == NOTICE_SHRUNK) {
		comm->shrunk = (uint64_t)body->code + 1;
	}
}

void comm_check(struct comm *comm)
{
	uint64_t tag = comm_tag_control(comm->context);
	struct link *link = comm->link;
	struct early *e;

	while ((e = match_take(&link->match, tag))) {
		comm_take_notice(comm, e);
		free(e);
	}
	if (comm->pending_code)
		comm_fail(comm, 0, comm->pending_code, "%s", comm->pending_text);
	for (int r = 0; r < comm->nranks && !comm->leaving; r++)
		if (link->lost[comm->world[r]] && !comm->gone[r])
			comm_fail(comm, 0, COLL_ERR_PEER_LOST, "rank %d was lost: %s", r,
				  link->lost[comm->world[r]]);
}

/* ------------------------------------------------------------ who is waited for -- */

/* Is its schedule being run? */
static int comm_op_runs(const struct op *op)
{
	return op->state == OP_RUNNING && !op->native && op->args.kind != KIND_AWAIT;
}

/* Marks in `from` (nranks bytes) the ranks from which a posted receive still waits. */
static int comm_mark_waiting(const struct comm *comm, uint8_t *from)
{
	int any = 0;

	for (const struct op *op = comm->head; op; op = op->next)
		for (int i = 0; comm_op_runs(op) && i < op->sched.nsteps; i++) {
			const struct step *step = &op->sched.step[i];

			if ((step->kind != STEP_RECV && step->kind != STEP_RECV_REDUCE) ||
			    op->run[i].u.recv.state != RECV_POSTED || step->peer < 0)
				continue;
			from[step->peer] = 1;
			any = 1;
		}
	return any;
}

void comm_check_gone(struct comm *comm)
{
	uint8_t *from = calloc((size_t)comm->nranks, 1);
	char what[160] = "";

	if (from && comm_mark_waiting(comm, from))
		for (int r = 0; r < comm->nranks; r++)
			if (from[r] && comm->gone[r]) {
				print_describe(&comm->head->print, what, sizeof(what));
				comm_fail(comm, 0, COLL_ERR_PEER_LOST,
					  "rank %d destroyed its communicator while rank %d still "
					  "waits for it in %s",
					  r, comm->rank, what);
				break;
			}
	free(from);
}

/* "rank 1, 4": those whose mark is `mark`, this rank excepted. */
static void comm_list_ranks(const struct comm *comm, const uint8_t *marks, int mark, char *text,
			    size_t size)
{
	size_t at = 0;

	snprintf(text, size, "none");
	for (int r = 0; r < comm->nranks && at < size; r++)
		if (marks[r] == mark && r != comm->rank)
			at += (size_t)snprintf(text + at, size - at, "%s%d", at ? ", " : "rank ",
					       r);
}

/* --------------------------------------------------- messages that do not fit -- */

static void comm_set_pending(struct comm *comm, int code, const char *text)
{
	if (comm->pending_code)
		return;
	comm->pending_code = code;
	snprintf(comm->pending_text, sizeof(comm->pending_text), "%s", text);
	comm->link->news = 1;
}

/* theirs: what a message of `peer` says; ours: what this rank expected in its place. */
static void comm_tell_mismatch(struct comm *comm, uint32_t peer, uint64_t tag,
			       const uint64_t *theirs, const uint64_t *ours)
{
	struct print a = {{theirs[0], theirs[1]}}, b = {{ours[0], ours[1]}};
	uint32_t seq = (uint32_t)(tag >> TAG_SEQ_SHIFT) & TAG_SEQ_MASK;
	char their_call[160], our_call[160], text[512];

	print_describe(&a, their_call, sizeof(their_call));
	print_describe(&b, our_call, sizeof(our_call));
	if (!strcmp(their_call, our_call) && !(tag & TAG_USER))
		snprintf(text, sizeof(text),
			 "rank %d does %s by algorithm %s, but rank %d by %s: all ranks must use "
			 "the same version and tables",
			 comm->members[peer], their_call, print_algorithm(&a), comm->rank,
			 print_algorithm(&b));
	else if (tag & TAG_USER)
		snprintf(text, sizeof(text),
			 "rank %d called %s with tag %u, but rank %d called the recv for a %s: "
			 "count "
			 "and type must be equal",
			 comm->members[peer], their_call, (unsigned)(uint32_t)tag, comm->rank,
			 our_call);
	else
		snprintf(text, sizeof(text),
			 "rank %d called %s as collective number %u, but rank %d called %s: all "
			 "ranks must make the same calls in the same order",
			 comm->members[peer], their_call, seq + 1, comm->rank, our_call);
	comm_set_pending(comm, COLL_ERR_MISMATCH, text);
}

/* The calls agree, the counts of the v-forms do not. */
static void comm_tell_lengths(struct comm *comm, const struct recv *recv, uint32_t peer,
			      const coll_header_t *header)
{
	struct print print = {{recv->meta[0], recv->meta[1]}};
	char call[160], text[512];

	print_describe(&print, call, sizeof(call));
	snprintf(text, sizeof(text),
		 "%s: rank %d sends %llu bytes to rank %d, which expects %llu: the counts of both "
		 "must agree",
		 call, comm->members[peer], (unsigned long long)header->len, comm->rank,
		 (unsigned long long)recv->len);
	comm_set_pending(comm, COLL_ERR_MISMATCH, text);
}

void comm_mismatch(void *user, const struct recv *recv, uint32_t peer, const coll_header_t *header)
{
	struct comm *comm = comm_of_tag(user, header->tag);
	int same = !memcmp(recv->meta, header->meta, sizeof(recv->meta));

	if (comm && same && !(header->tag & TAG_USER))
		comm_tell_lengths(comm, recv, peer, header);
	else if (comm)
		comm_tell_mismatch(comm, peer, header->tag, header->meta, recv->meta);
}

/* How many collectives ago `seq` was issued here; negative: not yet. */
static int comm_age(const struct comm *comm, uint32_t seq)
{
	uint32_t d = (comm->seq - 1 - seq) & TAG_SEQ_MASK;

	return d > TAG_SEQ_MASK / 2 ? -1 : (int)d;
}

int comm_judge(void *user, uint32_t peer, const coll_header_t *h)
{
	struct link *link = user;
	struct comm *comm = comm_of_tag(link, h->tag);
	const struct print *ours;
	uint32_t seq = (uint32_t)(h->tag >> TAG_SEQ_SHIFT) & TAG_SEQ_MASK;
	int age;

	if (!comm)
		return comm_was_freed(link, h->tag >> TAG_CONTEXT_SHIFT);
	if (h->tag & MATCH_CONTROL)
		return 0;
	if (comm->error || comm->members[peer] < 0)
		return 1;
	if (h->tag & TAG_USER)
		return 0;
	age = comm_age(comm, seq);
	if (age < 0 || age >= COMM_HISTORY)
		return 0;
	ours = &comm->history[(comm->seq - 1 - (uint32_t)age) % COMM_HISTORY];
	if (!memcmp(ours->meta, h->meta, sizeof(h->meta)))
		return 0;
	comm_tell_mismatch(comm, peer, h->tag, h->meta, ours->meta);
	return 1;
}

static void comm_compare_early(void *user, const struct early *e)
{
	struct comm *comm = user;
	const struct print *ours = &comm->history[(comm->seq - 1) % COMM_HISTORY];

	if (memcmp(e->header.meta, ours->meta, sizeof(ours->meta)))
		comm_tell_mismatch(comm, e->peer, e->header.tag, e->header.meta, ours->meta);
}

/* What came before the newest collective was issued here must have meant the same. */
void comm_remember(struct comm *comm, const struct print *print)
{
	uint32_t seq = comm->seq - 1;

	comm->history[seq % COMM_HISTORY] = *print;
	match_each(&comm->link->match, ~(uint64_t)TAG_MSG_MASK, comm_tag_collective(comm, seq, 0),
		   comm_compare_early, comm);
}

/* ------------------------------------------------------------ making, entering -- */

static void comm_count_nodes(struct comm *comm)
{
	for (int r = 0; r < comm->nranks; r++) {
		int before = 0;

		while (comm->node[before] != comm->node[r])
			before++;
		comm->nnodes += before == r;
	}
}

int comm_new(struct comm **out, struct link *link, uint32_t context, int rank, int nranks,
	     const int *world)
{
	struct comm *comm = calloc(1, sizeof(*comm));

	*out = comm;
	if (!comm)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	comm->link = link;
	comm->context = context;
	comm->rank = rank;
	comm->nranks = nranks;
	comm->world = calloc((size_t)nranks, sizeof(*comm->world));
	comm->members = calloc((size_t)link->nranks, sizeof(*comm->members));
	comm->gone = calloc((size_t)nranks, 1);
	comm->here = calloc((size_t)nranks, 1);
	comm->node = calloc((size_t)nranks, sizeof(*comm->node));
	comm->shrink = calloc((size_t)nranks, sizeof(*comm->shrink));
	if (comm->world && comm->members && comm->gone && comm->here && comm->node && comm->shrink)
		comm->handle = handle_new(HANDLE_COMM, comm);
	if (!comm->handle)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator of %d ranks",
				 nranks);
	for (int r = 0; r < link->nranks; r++)
		comm->members[r] = -1;
	for (int r = 0; r < nranks; r++) {
		comm->world[r] = world ? world[r] : r;
		comm->members[comm->world[r]] = r;
		comm->node[r] = link->node[comm->world[r]];
	}
	comm_count_nodes(comm);
	comm->next = link->comms;
	link->comms = comm;
	link->news = 1; /* messages may have come already */
	return COLL_SUCCESS;
}

static void comm_free_ops(struct op *op)
{
	while (op) {
		struct op *next = op->next;

		op_free(op);
		op = next;
	}
}

/* Those that are in the queue are not freed twice. */
static void comm_free_kept(struct op *op)
{
	while (op) {
		struct op *next = op->kept_next;

		op_free(op);
		op = next;
	}
}

/* Takes the kept ones out of the queue. */
static void comm_drop_kept(struct comm *comm)
{
	for (struct op **at = &comm->head; *at;)
		if ((*at)->kept)
			*at = (*at)->next;
		else
			at = &(*at)->next;
}

void comm_free(struct comm *comm)
{
	struct link *link = comm->link;
	const uint64_t context = (uint64_t)comm->context << TAG_CONTEXT_SHIFT;

	pthread_mutex_lock(&link->lock);
	for (struct comm **at = &link->comms; *at; at = &(*at)->next)
		if (*at == comm) {
			*at = comm->next;
			break;
		}
	match_forget(&link->match, ~(uint64_t)0 << TAG_CONTEXT_SHIFT, context);
	link->freed[link->next_freed++ % LINK_FREED] = (uint64_t)comm->context + 1;
	pthread_mutex_unlock(&link->lock);
	comm_drop_kept(comm);
	comm_free_ops(comm->head);
	comm_free_ops(comm->spare);
	comm_free_kept(comm->kept);
	redop_free_all(comm);
	free(comm->node);
	free(comm->world);
	free(comm->members);
	free(comm->gone);
	free(comm->here);
	free(comm->shrink);
	free(comm);
}

struct comm *comm_enter(coll_comm_t handle, const char *what)
{
	struct comm *comm = handle ? handle_pin(HANDLE_COMM, handle) : NULL;

	if (!comm) {
		error_set(COLL_ERR_INVALID_ARGUMENT, "%s: comm is %s", what,
			  handle_trouble(handle));
		return NULL;
	}
	link_enter(comm->link);
	return comm;
}

void comm_leave(struct comm *comm)
{
	coll_comm_t handle = comm->handle;

	link_leave(comm->link);
	handle_unpin(handle);
}

/* -------------------------------------------------------------------- waiting -- */

struct comm_goal {
	struct comm *comm;
	uint64_t number;
};

static int comm_reached(void *arg)
{
	struct comm_goal *goal = arg;
	struct comm *comm = goal->comm;

	return comm->finished >= goal->number || comm->error || atomic_load(&comm->aborted);
}

/*
 * Nothing has moved for long: who is there?  A rank that is stopped, or has not made its call and
 * is busy elsewhere, does not answer, and is the one to name.
 */
static void comm_time_out(struct comm *comm, int64_t timeout_us)
{
	char silent[256], awaited[256] = "none", what[160];
	uint8_t *from = calloc((size_t)comm->nranks, 1);

	if (from && comm_mark_waiting(comm, from))
		comm_list_ranks(comm, from, 1, awaited, sizeof(awaited));
	free(from);
	comm_list_ranks(comm, comm->here, 0, silent, sizeof(silent));
	print_describe(&comm->head->print, what, sizeof(what));
	comm_fail(comm, 0, COLL_ERR_TIMEOUT,
		  "rank %d: %s: nothing has moved for %.3g s; not heard from: %s; still needs data "
		  "from: %s",
		  comm->rank, what, (double)timeout_us / 1e6, silent, awaited);
}

int comm_wait(struct comm *comm, uint64_t number)
{
	struct comm_goal goal = {comm, number};
	int64_t timeout = comm->link->timeout_us;
	int64_t asking = timeout / 4 < COMM_ASK_US ? timeout / 4 : COMM_ASK_US;
	uint64_t steps;

	while (link_wait(comm->link, comm_reached, &goal, timeout - asking)) {
		steps = comm->steps;
		memset(comm->here, 0, (size_t)comm->nranks);
		comm_tell_all(comm, NOTICE_ARE_YOU_THERE, 0, "");
		if (link_wait(comm->link, comm_reached, &goal, asking) && steps == comm->steps &&
		    comm->head) {
			comm_time_out(comm, timeout);
			break;
		}
	}
	if (atomic_load(&comm->aborted))
		comm_fail(comm, 0, COLL_ERR_ABORTED, "rank %d aborted the communicator",
			  comm->rank);
	return comm_error(comm);
}
