/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stall_flow.c - whether what moves on an endpoint may be a message for which a communicator waits.  The communicators of
 * an endpoint share it, and the transport tells only that something has moved.  A message that has come or left whole is
 * a step of its operation; one that is on its way is none yet.
 */
#include "watch/message_words.h"
#include "comm/op.h"
#include "comm/run.h"
#include "watch/stall_words.h"
#include "transport/traffic.h"

#include <stdlib.h>

/* The ranks of a communicator whose messages count. */
struct flow {
	const struct lane *lane;
	const uint8_t *from; /* NULL: all ranks */
	int comes;           /* a message of such a rank is on its way */
};

static void flow_see(struct flow *flow, int context_rank)
{
	const int rank = flow->lane->to_comm_rank[context_rank];

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

/* Looks at the receives of `lane`, which may be a lane of another communicator of the endpoint. */
static void flow_see_comm(struct flow *flow, const struct lane *lane)
{
	for (const struct op *op = lane->queue.head; op; op = op->next)
		for (int i = 0; flow_runs(op) && i < op->sched.nsteps; i++)
			if (sched_is_recv(&op->sched.step[i]))
				flow_see_recv(flow, &op->run[i].u.recv);
	for (const struct message *m = lane->messages.recvs.first; m; m = m->next)
		flow_see_recv(flow, &m->u.in.recv);
}

/* Has the communicator sends on their way, or an operation that no message moves? */
static int flow_is_open(const struct lane *lane)
{
	for (const struct op *op = lane->queue.head; op; op = op->next)
		if (op->state == OP_RUNNING && (op->sending_count || !op->engine->by_messages))
			return 1;
	return lane->native || lane->messages.sends.first;
}

/* The transport may deliver the awaited message behind one of another communicator. */
static int flow_is_behind(const struct lane *lane)
{
	const struct context *context = lane->context;
	uint8_t *from = calloc((size_t)lane->comm->nranks, 1);
	struct flow flow = {.lane = lane, .from = from};

	if (from && !stall_mark_awaited(lane, from))
		flow.from = NULL;
	for (const struct lane *other = context->lanes; other; other = other->next)
		flow_see_comm(&flow, other);
	match_each_incomplete(&traffic_of(context)->match, flow_see_incomplete, &flow);
	free(from);
	return flow.comes;
}

int stall_flows(const struct lane *lane)
{
	struct flow own = {.lane = lane};

	if (!lane->context->lanes->next) /* no other communicator has messages here */
		return 1;
	flow_see_comm(&own, lane);
	return own.comes || flow_is_open(lane) || flow_is_behind(lane);
}
