/* SPDX-License-Identifier: BSD-3-Clause */
/* lost.c - peers that leave or die, and messages that the host refuses. */
#include <signal.h>
#include <stdlib.h>
#include <unistd.h>
#include "check/host/host.h"
#include "check/fault/fault.h"
#include "lib/tool.h"

enum { LOST_LEN = 6 << 20, LOST_AFTER = 300 };

/* Makes progress for a while, so that a forbidden late message has time to show. */
static void lost_linger(struct check_ep *ep)
{
	unsigned idle = 0;

	for (int i = 0; i < LOST_AFTER; i++) {
		check_progress(ep);
		check_pause(&idle);
	}
}

/* A barrier that makes progress, since a send may complete only while its receiver makes progress. */
static void lost_barrier(struct check_ep *ep)
{
	int64_t deadline = tool_now_ms() + 2 * ep->c->timeout_ms;
	unsigned step = ep->step++, idle = 0;

	check_exchange_begin(ep->c, ep->rank, step, NULL, 0);
	while (!check_exchange_done(ep->c, step) && !check_failed(ep->c) &&
	       tool_now_ms() < deadline) {
		check_progress(ep);
		check_pause(&idle);
	}
	if (!check_exchange_done(ep->c, step))
		check_fail(ep->c, "rank %d waited %lld s for the other ranks", ep->rank,
			   2 * (long long)ep->c->timeout_ms / 1000);
}

/* Makes progress until the send has a final status of any value. */
static void lost_await_send(struct check_ep *ep, const coll_send_t *send)
{
	int64_t deadline = tool_now_ms() + ep->c->timeout_ms;
	unsigned idle = 0;

	while (send->status == COLL_IN_PROGRESS && tool_now_ms() < deadline) {
		check_progress(ep);
		check_pause(&idle);
	}
	if (send->status == COLL_IN_PROGRESS)
		check_fail(ep->c, "rank %d: a send to a rank that is gone got no status in %lld s",
			   ep->rank, (long long)ep->c->timeout_ms / 1000);
}

static void lost_expect(struct check_ep *ep, uint32_t gone)
{
	if (check_await_lost(ep, gone))
		check_fail(ep->c, "rank %d: peer_lost was not called for rank %u in %lld s",
			   ep->rank, gone, (long long)ep->c->timeout_ms / 1000);
}

/* ------------------------------------------------------------------ leaving -- */

/* All ranks send to the rank that will leave, since a rank that never sent to it need not learn of its end. */
static int lost_kit_barrier(struct check_ep *ep, uint32_t gone)
{
	coll_send_t send;
	uint8_t buf[16] = {0};
	int bad = 0;

	if (ep->rank != (int)gone)
		return check_send(ep, &send, gone, 1, buf, sizeof(buf)) ||
		       check_wait_send(ep, &send);
	for (uint32_t r = 0; r < gone && !bad; r++)
		bad = !check_recv(ep, r, 1);
	return bad;
}

/* The last rank leaves.  The survivors learn of it and continue to communicate. */
static void lost_close_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	uint32_t gone = (uint32_t)c->nranks - 1;
	int bad = check_open(ep) || lost_kit_barrier(ep, gone) || check_barrier(c, rank, &ep->step);

	if (rank == (int)gone)
		check_close(ep, 1000);
	if (!bad && rank != (int)gone)
		lost_expect(ep, gone);
	check_barrier(c, rank, &ep->step);
	check_close(ep, 0);
	check_ep_free(ep);
}

static void lost_close(struct check_case *c)
{
	check_ranks(c, lost_close_rank);
}

static void lost_once_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	uint32_t gone = (uint32_t)c->nranks - 1;
	coll_error_t err = {.size = sizeof(err)};
	coll_send_t send[3];
	uint8_t buf[100] = {0};
	int bad = check_open(ep) || check_barrier(c, rank, &ep->step);

	if (rank == (int)gone)
		check_close(ep, 0);
	check_barrier(c, rank, &ep->step);
	for (int k = 0; !bad && rank != (int)gone && k < 3; k++) {
		check_send_fill(&send[k], gone, (uint64_t)k + 1, buf, sizeof(buf));
		if (check_send_raw(ep, &send[k], &err))
			send[k].status = COLL_ERR_PEER_LOST;
		lost_linger(ep);
	}
	for (int r = 0; r < c->nranks; r++)
		if (ep->lost[r] > 1)
			check_fail(c, "rank %d: peer_lost was called %d times for rank %d", rank,
				   ep->lost[r], r);
		else if (ep->lost[r] && r != (int)gone)
			check_fail(c, "rank %d: peer_lost was called for rank %d, which is alive",
				   rank, r);
	check_barrier(c, rank, &ep->step);
	check_close(ep, 0);
	check_ep_free(ep);
}

static void lost_once(struct check_case *c)
{
	check_ranks(c, lost_once_rank);
}

/* The core closes the endpoint if a send to a lost rank has no status and the plugin has no cancel. */
static void lost_expect_status(struct check_ep *ep, uint32_t gone, const coll_send_t *send)
{
	int64_t deadline = tool_now_ms() + ep->c->timeout_ms;
	unsigned idle = 0;

	while (!ep->lost[gone] && send->status == COLL_IN_PROGRESS && tool_now_ms() < deadline) {
		check_progress(ep);
		check_pause(&idle);
	}
	if (ep->lost[gone] && send->status == COLL_IN_PROGRESS)
		check_fail(
			ep->c,
			"rank %d: peer_lost was called for rank %u, but a send to it has no "
			"status when progress returns: a plugin without cancel ends all sends to a "
			"lost rank at once",
			ep->rank, gone);
}

static void lost_status_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	uint32_t gone = (uint32_t)c->nranks - 1;
	coll_error_t err = {.size = sizeof(err)};
	coll_send_t *send = check_memory(sizeof(*send));
	uint8_t *buf = check_payload(LOST_LEN, 1);
	int sent = 0, bad = check_open(ep) || check_barrier(c, rank, &ep->step);

	if (!bad && rank != (int)gone) {
		check_send_fill(send, gone, 1, buf, LOST_LEN);
		sent = !check_send_raw(ep, send, &err);
	}
	check_barrier(c, rank, &ep->step);
	if (rank == (int)gone)
		check_close(ep, 0);
	check_barrier(c, rank, &ep->step);
	if (sent)
		lost_expect_status(ep, gone, send);
	check_barrier(c, rank, &ep->step);
	check_close(ep, 0);
	check_ep_free(ep);
	free(buf);
	free(send);
}

static void lost_status(struct check_case *c)
{
	const char *text;

	if (check_plugin(c, &text)->transport.cancel)
		check_skip(c, "the plugin has transport->cancel: the core gives up such sends");
	else
		check_ranks(c, lost_status_rank);
}

/* A send to a rank that has left ends: send refuses it, or sets its status. */
static void lost_send_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	uint32_t gone = (uint32_t)c->nranks - 1;
	coll_error_t err = {.size = sizeof(err)};
	coll_send_t *send = check_memory(2 * sizeof(*send));
	uint8_t *buf = check_payload(LOST_LEN, 1);
	int survives = rank != (int)gone, sent[2] = {0, 0};

	if (check_open(ep) || check_barrier(c, rank, &ep->step)) {
		check_ep_free(ep);
		return;
	}
	/* One send is under way when the peer leaves; another send follows later. */
	if (survives) {
		check_send_fill(&send[0], gone, 1, buf, LOST_LEN);
		sent[0] = !check_send_raw(ep, &send[0], &err);
	}
	check_barrier(c, rank, &ep->step);
	if (!survives)
		check_close(ep, 0);
	check_barrier(c, rank, &ep->step);
	if (survives) {
		check_send_fill(&send[1], gone, 2, buf, LOST_LEN);
		sent[1] = !check_send_raw(ep, &send[1], &err);
	}
	for (int k = 0; k < 2; k++)
		if (sent[k])
			lost_await_send(ep, &send[k]);
	check_barrier(c, rank, &ep->step);
	check_close(ep, 0);
	check_ep_free(ep);
	free(buf);
	free(send);
}

static void lost_send(struct check_case *c)
{
	check_ranks(c, lost_send_rank);
}

/* ------------------------------------------------------------------ dying -- */

/* Every message announced from the dead rank is completed exactly once. */
static void lost_check_arrivals(struct check_ep *ep)
{
	for (const struct check_arrival *a = ep->arrivals; a; a = a->next)
		if (a->ends != 1)
			check_fail(ep->c,
				   "rank %d: peer_lost was called, but arrived was called %d times "
				   "for a message of %llu bytes from the dead rank",
				   ep->rank, a->ends, (unsigned long long)a->header.len);
}

static void lost_dies_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	uint32_t dead = (uint32_t)c->nranks - 1;
	coll_send_t *send = check_memory(CHECK_RANKS * sizeof(*send));
	uint8_t *buf = check_payload(LOST_LEN, 1);

	if (check_open(ep) || check_barrier(c, rank, &ep->step)) {
		check_ep_free(ep);
		return;
	}
	if (rank == (int)dead) {
		for (int r = 0; r < c->nranks - 1; r++)
			check_send(ep, &send[r], (uint32_t)r, 1, buf, LOST_LEN);
		for (int i = 0; i < 20; i++)
			check_progress(ep);
		check_dies(c, rank);
		kill(getpid(), SIGKILL);
	}
	check_send(ep, &send[0], dead, 1, buf, LOST_LEN);
	lost_expect(ep, dead);
	if (!check_failed(c)) {
		lost_await_send(ep, &send[0]);
		lost_check_arrivals(ep);
	}
	check_close(ep, 0);
	check_ep_free(ep);
	free(buf);
	free(send);
}

static void lost_dies(struct check_case *c)
{
	check_ranks(c, lost_dies_rank);
}

/* ------------------------------------------------------------------ refusing -- */

/* Rank 0 refuses the first message of rank 1.  After that the plugin must deliver nothing from rank 1. */
static void lost_refuse_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	coll_error_t err = {.size = sizeof(err)};
	coll_send_t *send = check_memory(3 * sizeof(*send));
	uint8_t *buf = check_payload(100000, 1);
	int sent[3] = {0, 0, 0};

	ep->open_mode.refuse_peer = rank == 0 ? 2 : 0;
	if (check_open(ep) || check_barrier(c, rank, &ep->step)) {
		check_ep_free(ep);
		return;
	}
	for (int k = 0; rank == 1 && k < 3; k++) {
		check_send_fill(&send[k], 0, (uint64_t)k + 1, buf, k == 1 ? 300 : 100000);
		sent[k] = !check_send_raw(ep, &send[k], &err);
		lost_linger(ep);
	}
	for (int i = 0; i < 3; i++)
		lost_linger(ep);
	for (int k = 0; k < 3; k++)
		if (sent[k])
			lost_await_send(ep, &send[k]);
	lost_barrier(ep);
	if (rank == 0 && !ep->arrived_count)
		check_fail(c, "rank 0: the message to be refused did not come");
	if (ep->seen.cookie || ep->seen.over)
		check_fail(c, "rank %d: data or arrived was called for a refused message", rank);
	if (rank == 0 && ep->arrived_count > 1)
		check_fail(c,
			   "rank 0: a message of rank 1 was refused, yet %llu more were announced: "
			   "the connection is to be closed",
			   (unsigned long long)ep->arrived_count - 1);
	check_close(ep, 0);
	check_ep_free(ep);
	free(buf);
	free(send);
}

static void lost_refuse(struct check_case *c)
{
	check_ranks(c, lost_refuse_rank);
}

const struct check check_lost_checks[] = {
	{.name = "lost",
	 .says = "peer_lost names a rank that has closed to the ranks that sent to it",
	 .promise = "coll_host_t.peer_lost",
	 .group = CHECK_FAULTS,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine names no rank: the companion does in fault-leaves",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .run = lost_close},
	{.name = "lost-once",
	 .says = "peer_lost names a lost rank once, and no other rank",
	 .promise = "coll_host_t.peer_lost",
	 .group = CHECK_FAULTS,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine names no rank: fault-killed sees the names that the companion gives",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 4,
	 .run = lost_once},
	{.name = "lost-send",
	 .says = "sends to a rank that has closed come to an end",
	 .promise = "coll_transport_t.progress",
	 .group = CHECK_FAULTS,
	 .needs = CHECK_TRANSPORT,
	 .bare = "fault-killed-large sees that operations with a lost rank end",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .run = lost_send},
	{.name = "lost-status",
	 .rests = "lost-send",
	 .says = "without cancel all sends to a lost rank have their status once peer_lost is "
		 "called",
	 .promise = "coll_transport_t.cancel",
	 .group = CHECK_FAULTS,
	 .since = 4,
	 .older = "if a send to a lost rank has no status, the core closes the endpoint",
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine announces no loss of a rank: the companion does",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .run = lost_status},
	{.name = "lost-dies",
	 .says = "peer_lost names a rank that is killed, and arrived fails its half messages",
	 .promise = "coll_host_t.arrived",
	 .group = CHECK_FAULTS,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine names no rank: the companion does in fault-killed, also amid large "
		 "operations",
	 .ways = CHECK_PROCESSES,
	 .ranks_min = 2,
	 .run = lost_dies},
	{.name = "refuse",
	 .says = "after arrive returned a code no more messages come from that peer",
	 .promise = "coll_host_t.arrive",
	 .group = CHECK_FAULTS,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the library cannot refuse a message of the engine",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .run = lost_refuse},
	{.name = NULL},
};
