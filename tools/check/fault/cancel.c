/* SPDX-License-Identifier: BSD-3-Clause */
/* cancel.c - cancel on the sender's side and drop on the receiver's side. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "check/host/host.h"
#include "check/fault/fault.h"
#include "lib/tool.h"

enum { CANCEL_LEN = 16 << 20, CANCEL_SMALL = 1000, CANCEL_HALF_TRIES = 2000 };

static void *cancel_map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

/* ------------------------------------------------------------------ cancel -- */

static void cancel_one(struct check_ep *ep, coll_send_t *send)
{
	if (send->status != COLL_IN_PROGRESS)
		return;
	check_slot(ep->c, ep->rank, "cancel");
	ep->t->cancel(ep->ep, send);
	check_slot(ep->c, ep->rank, NULL);
}

/*
 * Rank 0 sends two long messages and a short message, and cancels the long messages.  Rank 1 makes progress only after
 * that.  By then rank 0 has freed the memory of the cancelled messages.
 */
static void cancel_sender(struct check_ep *ep)
{
	coll_send_t *send = cancel_map(4096), third;
	uint8_t *buf = cancel_map(CANCEL_LEN), *small = check_payload(CANCEL_SMALL, 3);

	if (!send || !buf || check_send(ep, &send[0], 1, 1, buf, CANCEL_LEN) ||
	    check_send(ep, &send[1], 1, 2, buf, CANCEL_LEN) ||
	    check_send(ep, &third, 1, 3, small, CANCEL_SMALL))
		return;
	for (int i = 0; i < 3; i++)
		check_progress(ep);
	cancel_one(ep, &send[1]);
	cancel_one(ep, &send[0]);
	munmap(send, 4096);
	munmap(buf, CANCEL_LEN);
	if (check_barrier(ep->c, ep->rank, &ep->step) || check_wait_send(ep, &third) ||
	    check_progress_barrier(ep))
		return;
	free(small);
}

/* A long message may arrive after a short message that was sent later. */
static void cancel_await_whole(struct check_ep *ep)
{
	int64_t deadline = tool_now_ms() + ep->c->timeout_ms;
	unsigned idle = 0;
	int half = 1;

	while (half && tool_now_ms() < deadline) {
		half = 0;
		for (const struct check_arrival *a = ep->arrivals; a; a = a->next)
			half |= !a->ends;
		check_progress(ep);
		check_pause(&idle);
	}
}

static void cancel_receiver(struct check_ep *ep)
{
	const struct check_arrival *a;

	if (check_barrier(ep->c, ep->rank, &ep->step))
		return;
	a = check_recv(ep, 0, 3);
	if (!a)
		return;
	if (a->header.len != CANCEL_SMALL || check_differs(a->buf, CANCEL_SMALL, 3) != CANCEL_SMALL)
		check_fail(ep->c, "rank 1: the message after a cancelled one differs");
	cancel_await_whole(ep);
	if (check_progress_barrier(ep))
		return;
	for (a = ep->arrivals; a; a = a->next)
		if (a->header.tag != 3 && (a->ends != 1 || a->status))
			check_fail(ep->c,
				   "rank 1: a cancelled message was announced and did not arrive "
				   "whole (arrived: %d times, status %d)",
				   a->ends, a->status);
	if (ep->lost[0])
		check_fail(ep->c, "rank 1: the sender was lost over a cancelled message");
}

static void cancel_rank(struct check_ep *ep)
{
	if (ep->rank == 0)
		cancel_sender(ep);
	else
		cancel_receiver(ep);
}

/* ------------------------------------------------------------------ drop -- */

/* Makes progress until a message is announced and not yet complete. */
static struct check_arrival *cancel_half(struct check_ep *ep)
{
	unsigned idle = 0;

	for (int i = 0; i < CANCEL_HALF_TRIES; i++) {
		struct check_arrival *a = check_find(ep, 0, 1);

		if (a)
			return a->status == COLL_IN_PROGRESS ? a : NULL;
		check_progress(ep);
		check_pause(&idle);
	}
	return NULL;
}

static void cancel_drop_receiver(struct check_ep *ep)
{
	struct check_arrival *half = cancel_half(ep);
	const struct check_arrival *a;

	if (half) {
		check_slot(ep->c, ep->rank, "drop");
		ep->t->drop(ep->ep, (uintptr_t)half);
		check_slot(ep->c, ep->rank, NULL);
		half->dropped = 1;
		memset(half->buf, 0xa5, half->header.len);
	} else if (check_find(ep, 0, 1)) {
		check_skip(ep->c, "messages arrive whole within one call of progress");
	}
	a = check_recv(ep, 0, 2);
	if (!a)
		return;
	if (check_differs(a->buf, CANCEL_SMALL, 3) != CANCEL_SMALL)
		check_fail(ep->c, "rank 1: the message after a dropped one differs");
	if (check_progress_barrier(ep))
		return;
	for (uint64_t i = 0; half && i < half->header.len; i++)
		if (half->buf[i] != 0xa5) {
			check_fail(ep->c, "rank 1: the receive buffer was written to after drop");
			return;
		}
	if (ep->seen.after_drop)
		check_fail(ep->c, "rank 1: data or arrived was called after drop");
}

static void cancel_drop_rank(struct check_ep *ep)
{
	uint8_t *buf, *small;
	coll_send_t send[2];

	if (ep->rank == 1) {
		cancel_drop_receiver(ep);
		return;
	}
	buf = check_payload(CANCEL_LEN, 1);
	small = check_payload(CANCEL_SMALL, 3);
	if (check_send(ep, &send[0], 1, 1, buf, CANCEL_LEN) ||
	    check_send(ep, &send[1], 1, 2, small, CANCEL_SMALL) || check_wait_send(ep, &send[0]) ||
	    check_wait_send(ep, &send[1]) || check_progress_barrier(ep))
		return;
	free(buf);
	free(small);
}

const struct check check_cancel_checks[] = {
	{.name = "cancel",
	 .says = "after cancel the send is not touched, and later messages arrive",
	 .promise = "coll_transport_t.cancel",
	 .group = CHECK_FAULTS,
	 .needs = CHECK_TRANSPORT | CHECK_CANCEL,
	 .bare = "an operation of the engine is not taken back alone: fault-abort ends all of them",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 2,
	 .endpoint = cancel_rank},
	{.name = "drop",
	 .says = "after drop the receive buffer is not touched, and later messages arrive",
	 .promise = "coll_transport_t.drop",
	 .group = CHECK_FAULTS,
	 .needs = CHECK_TRANSPORT | CHECK_CANCEL,
	 .bare = "a receive of the engine is not taken back alone: fault-abort-states ends all "
		 "operations",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 2,
	 .endpoint = cancel_drop_rank},
	{.name = NULL},
};
