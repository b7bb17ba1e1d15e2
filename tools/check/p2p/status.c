/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * status.c - the sender's side: which messages send accepts, when the plugin sets the status, and
 * who owns the memory.
 */
#include <stdlib.h>
#include <string.h>
#include "check/host/host.h"
#include "check/p2p/p2p.h"
#include "lib/tool.h"

enum { STATUS_SIZES = 6, STATUS_BURST = 5000, STATUS_BURST_QUICK = 500, STATUS_BULK = 4 };

static const uint64_t status_sizes[STATUS_SIZES] = {1, 100, 2000, 40000, 300000, 3000000};

static uint32_t status_next(const struct check_ep *ep)
{
	return (uint32_t)((ep->rank + 1) % ep->nranks);
}

static uint32_t status_before(const struct check_ep *ep)
{
	return (uint32_t)((ep->rank + ep->nranks - 1) % ep->nranks);
}

/* Receives tags 1..count from the previous rank.  Returns 0 or -1. */
static int status_receive(struct check_ep *ep, int count)
{
	for (int k = 0; k < count; k++)
		if (!check_recv(ep, status_before(ep), (uint64_t)k + 1))
			return -1;
	return 0;
}

/* ------------------------------------------------------------------ reuse -- */

/*
 * The sender overwrites each buffer as soon as its status allows; the receivers make progress late.
 */
static void status_reuse_rank(struct check_ep *ep)
{
	coll_send_t *send = check_memory(STATUS_SIZES * sizeof(*send));
	uint8_t *buf[STATUS_SIZES];
	int left = STATUS_SIZES;
	int64_t deadline = tool_now_ms() + ep->c->timeout_ms;
	unsigned idle = 0;

	for (int k = 0; k < STATUS_SIZES; k++) {
		buf[k] = check_payload(status_sizes[k], (uint64_t)(k + 1));
		if (check_send(ep, &send[k], status_next(ep), (uint64_t)k + 1, buf[k],
			       status_sizes[k]))
			return;
	}
	while (left && !check_failed(ep->c) && tool_now_ms() < deadline) {
		for (int k = 0; k < STATUS_SIZES; k++)
			if (buf[k] && send[k].status != COLL_IN_PROGRESS) {
				memset(buf[k], 0xee, status_sizes[k]);
				free(buf[k]);
				buf[k] = NULL;
				left--;
			}
		check_progress(ep);
		check_pause(&idle);
	}
	if (left)
		check_fail(ep->c, "rank %d: %d of %d sends got no status", ep->rank, left,
			   STATUS_SIZES);
	if (status_receive(ep, STATUS_SIZES) || check_progress_barrier(ep))
		return;
	for (int k = 0; k < STATUS_SIZES; k++) {
		const struct check_arrival *a = check_find(ep, status_before(ep), (uint64_t)k + 1);
		uint64_t good = check_differs(a->buf, status_sizes[k], (uint64_t)(k + 1));

		if (good != status_sizes[k])
			check_fail(
				ep->c,
				"rank %d: a message of %llu bytes differs from byte %llu on: its "
				"buffer was still needed when status said that it may be reused",
				ep->rank, (unsigned long long)status_sizes[k],
				(unsigned long long)good);
	}
	free(send);
}

/* Sends a message of each size to the next rank, and receives as many from the previous rank. */
static int status_exchange(struct check_ep *ep, coll_send_t *send, const uint8_t *buf)
{
	for (int k = 0; k < STATUS_SIZES; k++)
		if (check_send(ep, &send[k], status_next(ep), (uint64_t)k + 1, buf,
			       status_sizes[k]))
			return -1;
	return status_receive(ep, STATUS_SIZES);
}

/* ------------------------------------------------------------------ final -- */

static void status_final_rank(struct check_ep *ep)
{
	coll_send_t *send = check_memory(STATUS_SIZES * sizeof(*send));
	uint8_t *buf = check_payload(status_sizes[STATUS_SIZES - 1], 1);
	int32_t first[STATUS_SIZES];

	if (status_exchange(ep, send, buf))
		return;
	for (int k = 0; k < STATUS_SIZES; k++) {
		if (check_wait_send(ep, &send[k]))
			return;
		/* From the final status on, the send belongs to the core again. */
		first[k] = send[k].status;
		send[k].status = COLL_ERR_TIMEOUT;
		memset(send[k].plugin, 0xee, sizeof(send[k].plugin));
	}
	if (check_progress_barrier(ep))
		return;
	for (int i = 0; i < 200; i++)
		check_progress(ep);
	for (int k = 0; k < STATUS_SIZES; k++)
		if (send[k].status != COLL_ERR_TIMEOUT || first[k] != COLL_SUCCESS ||
		    send[k].plugin[0] != 0xeeeeeeeeeeeeeeee)
			check_fail(ep->c,
				   "rank %d: a send of %llu bytes was written to after its status "
				   "was final",
				   ep->rank, (unsigned long long)status_sizes[k]);
	free(buf);
	free(send);
}

/* ------------------------------------------------------------------ untouched -- */

static int status_same(const coll_send_t *a, const coll_send_t *b)
{
	return !memcmp(&a->header, &b->header, sizeof(a->header)) && a->buf == b->buf &&
	       a->peer == b->peer && a->memory == b->memory && a->reserved == b->reserved;
}

static void status_untouched_rank(struct check_ep *ep)
{
	coll_send_t *send = check_memory(STATUS_SIZES * sizeof(*send)), copy[STATUS_SIZES];
	uint8_t *buf = check_payload(status_sizes[STATUS_SIZES - 1], 1);

	for (int k = 0; k < STATUS_SIZES; k++)
		check_send_fill(&copy[k], status_next(ep), (uint64_t)k + 1, buf, status_sizes[k]);
	if (status_exchange(ep, send, buf))
		return;
	for (int k = 0; k < STATUS_SIZES; k++) {
		if (check_wait_send(ep, &send[k]))
			return;
		if (!status_same(&send[k], &copy[k]))
			check_fail(ep->c,
				   "rank %d: sending %llu bytes changed the coll_send_t beyond "
				   "status and plugin",
				   ep->rank, (unsigned long long)status_sizes[k]);
	}
	if (check_differs(buf, status_sizes[STATUS_SIZES - 1], 1) != status_sizes[STATUS_SIZES - 1])
		check_fail(ep->c, "rank %d: sending changed the buffer that was sent", ep->rank);
	if (check_progress_barrier(ep))
		return;
	free(buf);
	free(send);
}

/* ------------------------------------------------------------------ buffer space -- */

/* Each rank sends far more than any buffer takes, and no rank makes progress before all sends are submitted. */
static void status_space_rank(struct check_ep *ep)
{
	int count = ep->c->quick ? STATUS_BURST_QUICK : STATUS_BURST, bad = 0;
	uint64_t bulk = 4 << 20;
	coll_send_t *send = check_memory((size_t)(count + STATUS_BULK) * sizeof(*send));
	uint8_t *buf = check_payload(bulk, 1);

	for (int k = 0; k < count + STATUS_BULK && !bad; k++)
		bad = check_send(ep, &send[k], status_next(ep), (uint64_t)k + 1, buf,
				 k < count ? 200 : bulk);
	/* This barrier makes no progress. */
	if (bad || check_barrier(ep->c, ep->rank, &ep->step))
		return;
	if (!check_recv(ep, status_before(ep), (uint64_t)count + STATUS_BULK))
		return;
	for (int k = 0; k < count + STATUS_BULK; k++)
		if (check_wait_send(ep, &send[k]))
			return;
	if (check_progress_barrier(ep))
		return;
	free(buf);
	free(send);
}

const struct check check_status_checks[] = {
	{.name = "send-space",
	 .says = "send neither blocks nor refuses for lack of buffer space",
	 .promise = "coll_transport_t.send",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine has the space for its messages: coll-queue issues 200 operations at "
		 "once",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = status_space_rank},
	{.name = "status",
	 .says = "status is set when the buffer may be reused, and not before",
	 .promise = "coll_send_t.status",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine's stream tells when buffers may be reused: see event-order and "
		 "event-not-early",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .endpoint = status_reuse_rank},
	{.name = "status-final",
	 .says = "a send with a final status is not touched any more",
	 .promise = "coll_send_t.status",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine gets no object that ends with a message",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = status_final_rank},
	{.name = "send-unchanged",
	 .says = "a send is not changed but for status and plugin",
	 .promise = "coll_send_t",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine gets no coll_send_t",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = status_untouched_rank},
	{.name = NULL},
};
