/* SPDX-License-Identifier: BSD-3-Clause */
/* together.c - messages that the plugin may defer (send_more) until flush or progress. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include "check/host/host.h"
#include "check/p2p/p2p.h"

enum {
	TOGETHER_COUNT = 50,   /* messages of one batch to each rank */
	TOGETHER_LARGE = 7,    /* one message in so many has TOGETHER_LONG bytes */
	TOGETHER_LONG = 20000, /* most plugins do not defer so long a message */
	TOGETHER_BATCHES = 8,
	TOGETHER_PAGE = 4096
};

/* ---------------------------------------------------------------------- the slots -- */

static int together_send(struct check_ep *ep, coll_send_t *send, uint32_t peer, uint64_t tag,
			 const void *buf, uint64_t len)
{
	coll_error_t err = {.size = sizeof(err)};
	int32_t code;

	check_send_fill(send, peer, tag, buf, len);
	check_slot(ep->c, ep->rank, "send_more");
	code = ep->t->send_more(ep->ep, send, &err);
	check_slot(ep->c, ep->rank, NULL);
	if (!code)
		return 0;
	check_fail(ep->c, "rank %d: send_more of %llu bytes to rank %u was refused with %d: %.300s",
		   ep->rank, (unsigned long long)len, peer, code, err.text);
	return -1;
}

static void together_flush(struct check_ep *ep)
{
	check_slot(ep->c, ep->rank, "flush");
	ep->t->flush(ep->ep);
	check_slot(ep->c, ep->rank, NULL);
}

/* ------------------------------------------------------------------ batches of messages -- */

static uint64_t together_len(int i)
{
	return i % TOGETHER_LARGE == TOGETHER_LARGE - 1 ? TOGETHER_LONG : (uint64_t)i % 90;
}

/* How a rank sends a batch. */
struct together_plan {
	int mixed;   /* 1: every third message by send */
	int flushes; /* 0: progress alone starts the messages */
};

static int together_start(struct check_ep *ep, const struct together_plan *plan, uint64_t first,
			  const uint8_t *buf, coll_send_t *send)
{
	const uint32_t n = (uint32_t)ep->nranks, self = (uint32_t)ep->rank;

	/* Send message by message, so that messages to several ranks are deferred at once. */
	for (int i = 0; i < TOGETHER_COUNT; i++)
		for (uint32_t to = (self + 1) % n; to != self; to = (to + 1) % n, send++)
			if (plan->mixed && i % 3 == 2
				    ? check_send(ep, send, to, first + (uint64_t)i, buf,
						 together_len(i))
				    : together_send(ep, send, to, first + (uint64_t)i, buf,
						    together_len(i)))
				return -1;
	if (plan->flushes)
		together_flush(ep);
	return 0;
}

static int together_receive(struct check_ep *ep, uint64_t first)
{
	for (int i = 0; i < TOGETHER_COUNT; i++)
		for (int from = 0; from < ep->nranks; from++) {
			const struct check_arrival *a;

			if (from == ep->rank)
				continue;
			a = check_recv(ep, (uint32_t)from, first + (uint64_t)i);
			if (!a)
				return -1;
			if (a->header.len == together_len(i) &&
			    check_differs(a->buf, a->header.len, 1) == a->header.len)
				continue;
			check_fail(ep->c, "rank %d: message %d of rank %d is not the one sent",
				   ep->rank, i, from);
			return -1;
		}
	return 0;
}

/* The sends and the buffer stay until all messages have arrived. */
static void together_run(struct check_ep *ep, const struct together_plan *plan)
{
	const int n = TOGETHER_COUNT * (ep->nranks - 1);
	coll_send_t *send = check_memory((size_t)n * sizeof(*send));
	uint8_t *buf = check_payload(TOGETHER_LONG, 1);

	together_flush(ep); /* no message is deferred, so it does nothing */
	for (int batch = 0; batch < TOGETHER_BATCHES; batch++) {
		uint64_t first = (uint64_t)batch * TOGETHER_COUNT;

		if (together_start(ep, plan, first, buf, send) || together_receive(ep, first))
			return;
		for (int i = 0; i < n; i++)
			if (check_wait_send(ep, &send[i]))
				return;
	}
	if (check_progress_barrier(ep))
		return;
	for (int from = 0; plan->mixed && from < ep->nranks; from++)
		if (from != ep->rank)
			check_send_order(ep, (uint32_t)from, TOGETHER_BATCHES * TOGETHER_COUNT);
	free(buf);
	free(send);
}

static void together_flush_rank(struct check_ep *ep)
{
	together_run(ep, &(struct together_plan){.flushes = 1});
}

static void together_progress_rank(struct check_ep *ep)
{
	together_run(ep, &(struct together_plan){.flushes = 0});
}

static void together_order_rank(struct check_ep *ep)
{
	together_run(ep, &(struct together_plan){.mixed = 1, .flushes = 1});
}

/* ------------------------------------------------------------------------ cancelled -- */

/* Frees the memory of the cancelled message before the plugin may start it. */
static void together_cancel_sender(struct check_ep *ep)
{
	coll_send_t first, last;
	uint8_t *buf = check_payload(TOGETHER_PAGE, 1);
	uint8_t *page = mmap(NULL, TOGETHER_PAGE, PROT_READ | PROT_WRITE,
			     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	coll_send_t *gone = (coll_send_t *)page;

	if (page == MAP_FAILED || together_send(ep, &first, 1, 1, buf, 100) ||
	    together_send(ep, gone, 1, 2, page + sizeof(*gone), 100) ||
	    together_send(ep, &last, 1, 3, buf, 100))
		return;
	check_slot(ep->c, ep->rank, "cancel");
	if (gone->status == COLL_IN_PROGRESS)
		ep->t->cancel(ep->ep, gone);
	check_slot(ep->c, ep->rank, NULL);
	munmap(page, TOGETHER_PAGE);
	together_flush(ep);
	if (!check_wait_send(ep, &first) && !check_wait_send(ep, &last) &&
	    !check_progress_barrier(ep))
		free(buf);
}

static void together_cancel_receiver(struct check_ep *ep)
{
	for (uint64_t tag = 1; tag <= 3; tag += 2) {
		const struct check_arrival *a = check_recv(ep, 0, tag);

		if (!a)
			return;
		if (a->header.len != 100 || check_differs(a->buf, 100, 1) != 100)
			check_fail(ep->c, "rank 1: message %d, beside a cancelled one, differs",
				   (int)tag);
	}
	if (!check_progress_barrier(ep) && ep->lost[0])
		check_fail(ep->c, "rank 1: the sender was lost over a cancelled message");
}

static void together_cancel_rank(struct check_ep *ep)
{
	if (ep->rank == 0)
		together_cancel_sender(ep);
	else
		together_cancel_receiver(ep);
}

const struct check check_together_checks[] = {
	{.name = "together",
	 .says = "messages of send_more arrive whole after flush",
	 .promise = "coll_transport_t.send_more",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT | CHECK_TOGETHER,
	 .bare = "the engine's batches are groups: see group-tensors and message-ring",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .endpoint = together_flush_rank},
	{.name = "together-progress",
	 .says = "progress starts messages of send_more, too",
	 .promise = "coll_transport_t.send_more",
	 .group = CHECK_MESSAGES,
	 .rests = "together",
	 .needs = CHECK_TRANSPORT | CHECK_TOGETHER,
	 .bare = "a group begins with group_end, and needs no progress: see message-ring",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = together_progress_rank},
	{.name = "together-order",
	 .says = "a message of send does not overtake messages of send_more",
	 .promise = "coll_transport_t.send_more",
	 .group = CHECK_MESSAGES,
	 .rests = "together",
	 .needs = CHECK_TRANSPORT | CHECK_TOGETHER,
	 .bare = "group_end starts all operations of a batch: none can overtake it",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = together_order_rank},
	{.name = "together-cancel",
	 .says = "the plugin does not touch a message of send_more after its cancel",
	 .promise = "coll_transport_t.send_more",
	 .group = CHECK_FAULTS,
	 .needs = CHECK_TRANSPORT | CHECK_TOGETHER | CHECK_CANCEL,
	 .bare = "a batch of the engine is not cancelled: native-abort ends all operations",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 2,
	 .endpoint = together_cancel_rank},
	{.name = NULL},
};
