/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stall_flow.c - whether what moves on an endpoint may be a message for which a communicator waits.  The communicators of
 * an endpoint share it, and the transport tells only that something has moved.  A message that has come or left whole is
 * a step of its operation; one that is on its way is none yet.
 */
#include "watch/message_words.h"
#include "comm/op.h"
#include "watch/stall_words.h"
#include "transport/traffic.h"

#include <stdlib.h>

/* The ranks of a communicator whose messages count. */
struct flow {
	const struct comm *comm;
	const uint8_t *from; /* NULL: all ranks */
	int comes;           /* a message of such a rank is on its way */
};

static void flow_see(struct flow *flow, int context_rank)
{
	const int rank = flow->comm->to_comm_rank[context_rank];

	flow->comes |= rank >= 0 && (!flow->from || flow->from[rank]);
}

static void flow_see_recv(struct flow *flow, const struct recv *recv)
{
	if (recv->state == RECV_FILLING)
		flow_see(flow, recv->peer);
}

static void flow_see_incomplete(void *user, uint32_t peer)
{
	flow_see(user, (int)peer);
}

static int flow_runs(const struct op *op)
{
	return op->state == OP_RUNNING && op->engine->by_messages;
}

/* Looks at the receives of `comm`, which may be another communicator of the endpoint. */
static void flow_see_comm(struct flow *flow, const struct comm *comm)
{
	for (const struct op *op = comm->queue.head; op; op = op->next)
		for (int i = 0; flow_runs(op) && i < op->sched.nsteps; i++)
			if (sched_is_recv(&op->sched.step[i]))
				flow_see_recv(flow, &op->run[i].u.recv);
	for (const struct message *m = comm->messages.recvs.first; m; m = m->next)
		flow_see_recv(flow, &m->u.in.recv);
}

/* Has the communicator sends on their way, or an operation that no message moves? */
static int flow_is_open(const struct comm *comm)
{
	for (const struct op *op = comm->queue.head; op; op = op->next)
		if (op->state == OP_RUNNING && (op->sending_count || !op->engine->by_messages))
			return 1;
	return comm->native || comm->messages.sends.first;
}

/* The transport may deliver the awaited message behind one of another communicator. */
static int flow_is_behind(const struct comm *comm)
{
	const struct context *context = comm->context;
	uint8_t *from = calloc((size_t)comm->nranks, 1);
	struct flow flow = {.comm = comm, .from = from};

	if (from && !stall_mark_awaited(comm, from))
		flow.from = NULL;
	for (const struct comm *c = context->comms; c; c = c->next)
		flow_see_comm(&flow, c);
	match_each_incomplete(&traffic_of(context)->match, flow_see_incomplete, &flow);
	free(from);
	return flow.comes;
}

int stall_flows(const struct comm *comm)
{
	struct flow own = {.comm = comm};

	if (!comm->context->comms->next) /* no other communicator has messages here */
		return 1;
	flow_see_comm(&own, comm);
	return own.comes || flow_is_open(comm) || flow_is_behind(comm);
}
