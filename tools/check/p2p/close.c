/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * close.c - close in every state: with sends under way, with incomplete arrivals, after peers have
 * left.
 */
#include <stdlib.h>
#include <sys/mman.h>
#include "check/host/host.h"
#include "check/p2p/p2p.h"
#include "lib/tool.h"

enum { CLOSE_SLACK_MS = 5000, CLOSE_SENDS = 6, CLOSE_AFTER = 300 };

static const uint64_t close_len = 8 << 20;

/* Returns memory whose use after close crashes for certain. */
static void *close_map(size_t size)
{
	void *p = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return p == MAP_FAILED ? NULL : p;
}

static void close_in_time(struct check_ep *ep, int64_t timeout_ms)
{
	int64_t took = check_close(ep, timeout_ms);

	if (took > timeout_ms + CLOSE_SLACK_MS)
		check_fail(ep->c, "rank %d: close with timeout %lld ms took %lld ms", ep->rank,
			   (long long)timeout_ms, (long long)took);
}

/* ------------------------------------------------------------------ sends -- */

static void close_start_sends(struct check_ep *ep, coll_send_t *send, const uint8_t *buf)
{
	for (int k = 0; k < CLOSE_SENDS; k++)
		check_send(ep, &send[k], (uint32_t)((ep->rank + 1 + k) % ep->nranks),
			   (uint64_t)k + 1, buf, close_len);
}

/*
 * The last rank closes with sends under way and unmaps their memory.  The other ranks go on and may receive some of the
 * messages.
 */
static void close_sending_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	size_t size = CLOSE_SENDS * sizeof(coll_send_t);
	coll_send_t *send = close_map(size);
	uint8_t *buf = close_map(close_len);
	int leaves = rank == c->nranks - 1;

	if (!send || !buf || check_open(ep)) {
		check_ep_free(ep);
		return;
	}
	check_barrier(c, rank, &ep->step);
	if (leaves) {
		close_start_sends(ep, send, buf);
		check_progress(ep);
		close_in_time(ep, 0);
	}
	for (int i = 0; !leaves && i < CLOSE_AFTER / 3; i++)
		check_progress(ep);
	check_barrier(c, rank, &ep->step);
	if (leaves) {
		munmap(send, size);
		munmap(buf, close_len);
	}
	check_barrier(c, rank, &ep->step);
	for (int i = 0; !leaves && i < CLOSE_AFTER; i++)
		check_progress(ep);
	check_barrier(c, rank, &ep->step);
	check_close(ep, 0);
	check_ep_free(ep);
}

static void close_sending(struct check_case *c)
{
	check_ranks(c, close_sending_rank);
}

/* ------------------------------------------------------------------ arrivals -- */

/* The last rank closes while messages to it are incomplete, and unmaps its receive buffers. */
static void close_receiving_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	coll_send_t *send = check_memory(CLOSE_SENDS * sizeof(*send));
	uint8_t *buf = check_payload(close_len, 1);
	int leaves = rank == c->nranks - 1, bad = check_open(ep);

	bad = bad || check_barrier(c, rank, &ep->step);
	for (int k = 0; !bad && !leaves && k < CLOSE_SENDS; k++)
		bad = check_send(ep, &send[k], (uint32_t)c->nranks - 1, (uint64_t)k + 1, buf,
				 close_len);
	bad = check_barrier(c, rank, &ep->step) || bad;
	for (int i = 0; !bad && i < (leaves ? 5 : CLOSE_AFTER); i++)
		check_progress(ep);
	if (leaves)
		close_in_time(ep, 0);
	check_barrier(c, rank, &ep->step);
	for (int i = 0; !bad && !leaves && i < CLOSE_AFTER; i++)
		check_progress(ep);
	close_in_time(ep, 0);
	check_barrier(c, rank, &ep->step);
	check_ep_free(ep);
	free(buf);
	free(send);
}

static void close_receiving(struct check_case *c)
{
	check_ranks(c, close_receiving_rank);
}

/* ------------------------------------------------------- close after the others have left -- */

static void close_last_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	int bad = check_open(ep) || check_barrier(c, rank, &ep->step);
	int together = ep->plugin->backend.flags & COLL_BACKEND_CLOSE_TOGETHER;

	/* The ranks close one after the other. */
	for (int closing = 0; !bad && closing < c->nranks; closing++) {
		if (closing == rank)
			close_in_time(ep, together ? 0 : 1000);
		bad = check_barrier(c, rank, &ep->step);
	}
	check_ep_free(ep);
}

static void close_last(struct check_case *c)
{
	check_ranks(c, close_last_rank);
}

/* The ranks close at the same time, as the core closes a backend whose close is collective. */
static void close_together_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);

	if (!check_open(ep) && !check_barrier(c, rank, &ep->step))
		close_in_time(ep, c->timeout_ms / 2);
	check_ep_free(ep);
}

static void close_together(struct check_case *c)
{
	check_ranks(c, close_together_rank);
}

/* The process ends with an endpoint open, which stays reachable: it is no leak. */
static struct check_ep *close_left_open[CHECK_RANKS];

static void close_finish_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);

	close_left_open[rank] = ep;
	if (!check_open(ep) && !check_barrier(c, rank, &ep->step) && ep->plugin->backend.finish)
		ep->plugin->backend.finish();
	check_barrier(c, rank, &ep->step);
}

static void close_finish(struct check_case *c)
{
	check_ranks(c, close_finish_rank);
}

/* ------------------------------------------------------------------ hand over -- */

/*
 * Close delivers every accepted send; the receiver makes progress only after the sender has closed.
 */
static void close_hands_over_rank(struct check_case *c, int rank)
{
	enum { COUNT = 10, LEN = 500 };
	struct check_ep *ep = check_ep_new(c, rank, 0);
	coll_send_t send[COUNT];
	uint8_t *buf = check_payload(LEN, 1);
	const struct check_arrival *a;
	int bad = check_open(ep) || check_barrier(c, rank, &ep->step);

	if (!bad && rank == 0) {
		for (int k = 0; k < COUNT && !bad; k++)
			bad = check_send(ep, &send[k], 1, (uint64_t)k + 1, buf, LEN) ||
			      check_wait_send(ep, &send[k]);
		check_close(ep, c->timeout_ms / 2);
	}
	bad = check_barrier(c, rank, &ep->step) || bad;
	for (int k = 0; k < COUNT && !bad && rank == 1; k++) {
		a = check_recv(ep, 0, (uint64_t)k + 1);
		bad = !a;
		if (a && check_differs(a->buf, LEN, 1) != LEN)
			check_fail(c, "rank 1: a message of a rank that has closed differs");
	}
	check_barrier(c, rank, &ep->step);
	check_close(ep, 0);
	check_ep_free(ep);
	free(buf);
}

static void close_hands_over(struct check_case *c)
{
	check_ranks(c, close_hands_over_rank);
}

const struct check check_close_checks[] = {
	{.name = "close-sending",
	 .says = "close drops sends under way and does not touch their memory afterwards",
	 .promise = "coll_backend_t.close",
	 .group = CHECK_FAULTS,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine's operations under way end in fault-destroy-busy",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .run = close_sending},
	{.name = "close-receiving",
	 .says = "close comes to an end with messages half received",
	 .promise = "coll_backend_t.close",
	 .group = CHECK_FAULTS,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine has no half messages: fault-destroy-busy ends operations that wait "
		 "for a rank",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .run = close_receiving},
	{.name = "close-last",
	 .says = "ranks may close one after the other: without a wait if close is collective",
	 .promise = "coll_backend_t.close",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_EITHER,
	 .run = close_last},
	{.name = "close-together",
	 .says = "ranks may close at the same time",
	 .promise = "COLL_BACKEND_CLOSE_TOGETHER",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_EITHER,
	 .run = close_together},
	{.name = "close-finish",
	 .says = "finish comes to an end on every rank with endpoints open",
	 .promise = "coll_backend_t.finish",
	 .group = CHECK_FAULTS,
	 .ways = CHECK_PROCESSES,
	 .leaves = 1,
	 .run = close_finish},
	{.name = "close-delivers",
	 .says = "messages with status success arrive although the sender has closed",
	 .promise = "coll_send_t.status",
	 .group = CHECK_FAULTS,
	 .needs = CHECK_TRANSPORT,
	 .bare = "no message of the engine has a status that could be success before the stream is "
		 "complete",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 2,
	 .run = close_hands_over},
	{.name = NULL},
};
