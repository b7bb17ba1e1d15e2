/* SPDX-License-Identifier: BSD-3-Clause */
/* send.c - every message sent arrives: complete, in order, of any size, between any two ranks. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include "check/host/host.h"
#include "check/p2p/p2p.h"

enum {
	SEND_SIZES_MAX = 80,
	SEND_ORDER = 2000,
	SEND_ORDER_QUICK = 300,
	SEND_ORDER_BATCH = 40,
	SEND_ORDER_LONG = 50000
};

/* Returns a tag that is unique for sender, receiver and message. */
static uint64_t send_seed(int from, int to, uint64_t which)
{
	return ((uint64_t)from << 56) ^ ((uint64_t)to << 48) ^ (which + 1);
}

/* Has the message its expected length and bytes? */
static int send_is_whole(struct check_ep *ep, const struct check_arrival *a, uint64_t len,
			 uint64_t seed)
{
	uint64_t good;

	if (a->header.len != len) {
		check_fail(ep->c,
			   "rank %d: a message of %" PRIu64 " bytes from rank %u has header.len "
			   "%" PRIu64,
			   ep->rank, len, a->peer, a->header.len);
		return 0;
	}
	good = check_differs(a->buf, len, seed);
	if (good == len)
		return 1;
	check_fail(ep->c,
		   "rank %d: a message of %" PRIu64 " bytes from rank %u differs at byte %" PRIu64,
		   ep->rank, len, a->peer, good);
	return 0;
}

/* Sends count messages to each peer at distances first..last in the ring, then receives as many. */
struct send_plan {
	const uint64_t *sizes;
	int count;
	int first, last; /* distances in the ring of ranks; 0 is the rank itself */
	int shift;       /* number of bytes by which the buffers are off alignment */
	uint64_t tag;    /* number of the first message */
};

struct send_out {
	coll_send_t send;
	uint8_t *memory;
};

static int send_start(struct check_ep *ep, const struct send_plan *plan, struct send_out *out)
{
	for (int d = plan->first; d <= plan->last; d++)
		for (int k = 0; k < plan->count; k++, out++) {
			int to = (ep->rank + d) % ep->nranks;
			uint64_t len = plan->sizes[k];

			out->memory = check_memory(len + (size_t)plan->shift);
			check_fill(out->memory + plan->shift, len,
				   send_seed(ep->rank, to, (uint64_t)k));
			if (check_send(ep, &out->send, (uint32_t)to, plan->tag + (uint64_t)k,
				       out->memory + plan->shift, len))
				return -1;
		}
	return 0;
}

/* Waits until all expected messages have arrived and all sends are complete. */
static int send_end(struct check_ep *ep, const struct send_plan *plan, const struct send_out *out)
{
	for (int d = plan->first; d <= plan->last; d++)
		for (int k = 0; k < plan->count; k++)
			if (!check_recv(ep, (uint32_t)((ep->rank + ep->nranks - d) % ep->nranks),
					plan->tag + (uint64_t)k))
				return -1;
	for (int i = 0; i < plan->count * (plan->last - plan->first + 1); i++)
		if (check_wait_send(ep, &out[i].send))
			return -1;
	return check_progress_barrier(ep);
}

static void send_verify(struct check_ep *ep, const struct send_plan *plan)
{
	for (int d = plan->first; d <= plan->last; d++)
		for (int k = 0; k < plan->count; k++) {
			int from = (ep->rank + ep->nranks - d) % ep->nranks;

			if (!send_is_whole(ep,
					   check_find(ep, (uint32_t)from, plan->tag + (uint64_t)k),
					   plan->sizes[k], send_seed(from, ep->rank, (uint64_t)k)))
				return;
		}
}

/* The buffers stay until all ranks have all messages. */
static void send_run(struct check_ep *ep, const struct send_plan *plan)
{
	int n = plan->count * (plan->last - plan->first + 1);
	struct send_out *out = check_memory((size_t)n * sizeof(*out));

	if (!send_start(ep, plan, out) && !send_end(ep, plan, out))
		send_verify(ep, plan);
	/* After a failure the plugin may still use the buffers. */
	for (int i = 0; i < n && !check_failed(ep->c); i++)
		free(out[i].memory);
	if (!check_failed(ep->c))
		free(out);
}

/* ------------------------------------------------------------------ sizes -- */

static void send_one_rank(struct check_ep *ep)
{
	static const uint64_t size = 1000;

	send_run(ep, &(struct send_plan){&size, 1, 1, 1, 0, 1});
}

static void send_self_rank(struct check_ep *ep)
{
	static const uint64_t sizes[] = {1, 1000, 5000};

	send_run(ep, &(struct send_plan){sizes, 3, 0, 0, 0, 1});
}

static void send_zero_rank(struct check_ep *ep)
{
	static const uint64_t sizes[] = {0, 8, 0, 0};

	send_run(ep, &(struct send_plan){sizes, 4, 1, 1, 0, 1});
}

static void send_sizes_rank(struct check_ep *ep)
{
	uint64_t sizes[SEND_SIZES_MAX];
	int n = 0;

	for (int bit = 0; bit <= (ep->c->quick ? 17 : 20); bit++)
		for (int d = bit > 1 ? -1 : 0; d <= 1; d++)
			sizes[n++] = ((uint64_t)1 << bit) + (uint64_t)d;
	send_run(ep, &(struct send_plan){sizes, n, 1, 1, 0, 1});
}

static void send_unaligned_rank(struct check_ep *ep)
{
	static const uint64_t sizes[] = {1, 13, 500, 4093};

	for (int shift = 1; shift < 8 && !check_failed(ep->c); shift += 2)
		send_run(ep, &(struct send_plan){sizes, 4, 1, 1, shift, (uint64_t)shift * 10});
}

static void send_all_rank(struct check_ep *ep)
{
	enum { COUNT = 60 };
	uint64_t sizes[COUNT];

	for (uint64_t k = 0; k < COUNT; k++)
		sizes[k] = 1 + k * 67;
	send_run(ep, &(struct send_plan){sizes, COUNT, 1, ep->nranks - 1, 0, 1});
}

static void send_large_rank(struct check_ep *ep)
{
	static const uint64_t size = (32 << 20) + 3;

	send_run(ep, &(struct send_plan){&size, 1, 1, 1, 0, 1});
}

/* ------------------------------------------------------------------ order -- */

void check_send_order(struct check_ep *ep, uint32_t peer, uint64_t count)
{
	uint64_t next = 0;

	for (const struct check_arrival *a = ep->arrivals; a; a = a->next) {
		if (a->peer != peer)
			continue;
		if (a->header.tag != next) {
			check_fail(ep->c,
				   "rank %d: of the messages from rank %u, number %" PRIu64
				   " came where number %" PRIu64 " was due",
				   ep->rank, peer, a->header.tag, next);
			return;
		}
		next++;
	}
	if (next != count)
		check_fail(ep->c,
			   "rank %d: %" PRIu64 " messages from rank %u came instead of %" PRIu64,
			   ep->rank, next, peer, count);
}

/*
 * Mixes short and long messages, which a plugin may send by different protocols.  No message may overtake another.  Each
 * batch completes before the next batch begins.
 */
static void send_order_rank(struct check_ep *ep)
{
	uint64_t count = ep->c->quick ? SEND_ORDER_QUICK : SEND_ORDER, len, done = 0;
	coll_send_t *send = check_memory(count * sizeof(*send));
	uint32_t to = (uint32_t)((ep->rank + 1) % ep->nranks);
	uint32_t from = (uint32_t)((ep->rank + ep->nranks - 1) % ep->nranks);
	uint8_t *buf = check_payload(SEND_ORDER_LONG, 1);

	for (uint64_t i = 0; i < count; i++) {
		len = i % 97 == 5 ? SEND_ORDER_LONG : i % 31 == 3 ? 3000 : 1 + i % 65;
		if (check_send(ep, &send[i], to, i, buf, len))
			return; /* the plugin may still use the sends */
		if ((i + 1) % SEND_ORDER_BATCH && i + 1 < count)
			continue;
		if (!check_recv(ep, from, i))
			return;
		while (done <= i)
			if (check_wait_send(ep, &send[done++]))
				return;
	}
	if (check_progress_barrier(ep))
		return;
	check_send_order(ep, from, count);
	free(buf);
	free(send);
}

/* ------------------------------------------------------------------ headers -- */

static const coll_header_t send_headers[] = {
	{0xffffffffffffffff, {0xffffffffffffffff, 0xffffffffffffffff}, 9},
	{0x8000000000000001, {0, 0}, 9},
	{0, {0x8000000000000000, 1}, 9},
	{0x0123456789abcdef, {0xfedcba9876543210, 0x5555555555555555}, 9},
	{0x00000000ffffffff, {0xffffffff00000000, 0xaaaaaaaaaaaaaaaa}, 9},
	{0x8000000080000000, {1, 0x8000000000000000}, 9},
};

enum { SEND_HEADERS = sizeof(send_headers) / sizeof(send_headers[0]) };

static int send_header_came(const struct check_ep *ep, const coll_header_t *header, uint32_t from)
{
	for (const struct check_arrival *a = ep->arrivals; a; a = a->next)
		if (a->peer == from && !memcmp(&a->header, header, sizeof(*header)))
			return 1;
	return 0;
}

static void send_header_rank(struct check_ep *ep)
{
	uint32_t to = (uint32_t)((ep->rank + 1) % ep->nranks);
	uint32_t from = (uint32_t)((ep->rank + ep->nranks - 1) % ep->nranks);
	coll_error_t err = {.size = sizeof(err)};
	coll_send_t send[SEND_HEADERS], last;
	uint8_t buf[9] = "nine long";

	for (int i = 0; i < SEND_HEADERS; i++) {
		check_send_fill(&send[i], to, 0, buf, sizeof(buf));
		send[i].header = send_headers[i];
		check_send_raw(ep, &send[i], &err);
	}
	if (check_send(ep, &last, to, 7, buf, 1) || !check_recv(ep, from, 7))
		return;
	for (int i = 0; i < SEND_HEADERS; i++)
		check_wait_send(ep, &send[i]);
	check_wait_send(ep, &last);
	check_progress_barrier(ep);
	for (int i = 0; i < SEND_HEADERS; i++)
		if (!send_header_came(ep, &send_headers[i], from))
			check_fail(ep->c,
				   "rank %d: no message came with tag 0x%016" PRIx64
				   " and meta 0x%016" PRIx64 " 0x%016" PRIx64,
				   ep->rank, send_headers[i].tag, send_headers[i].meta[0],
				   send_headers[i].meta[1]);
}

const struct check check_send_checks[] = {
	{.name = "send",
	 .says = "a message arrives whole",
	 .promise = "coll_transport_t.send",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "its messages are operations of the engine: see message-ping-pong",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .endpoint = send_one_rank},
	{.name = "send-self",
	 .says = "a message to the own rank arrives",
	 .promise = "coll_transport_t.send",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "its messages are operations of the engine: see message-self",
	 .ways = CHECK_EITHER,
	 .ranks_max = 3,
	 .endpoint = send_self_rank},
	{.name = "send-zero",
	 .says = "messages of no bytes arrive",
	 .promise = "coll_header_t.len",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "message-ring has messages of no bytes",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .endpoint = send_zero_rank},
	{.name = "send-sizes",
	 .says = "messages of any size arrive whole",
	 .promise = "coll_header_t.len",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "message-ring has messages of 0 bytes to 4 MiB",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .endpoint = send_sizes_rank},
	{.name = "send-unaligned",
	 .says = "messages from any address arrive whole",
	 .promise = "coll_send_t.buf",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine reads the buffers: the checks of collectives have them at any address",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = send_unaligned_rank},
	{.name = "send-all",
	 .says = "all ranks may send to all ranks at once",
	 .promise = "coll_transport_t.send",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "message-all-pairs sends from all ranks to all ranks",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .endpoint = send_all_rank},
	{.name = "send-large",
	 .says = "messages of 32 MiB arrive whole",
	 .promise = "coll_header_t.len",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "coll-large and message-ring move megabytes",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .slow = 1,
	 .endpoint = send_large_rank},
	{.name = "order",
	 .says = "messages to one peer arrive in the order in which they were sent",
	 .promise = "coll_transport_t.send",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "message-ping-pong sees the order of the engine, message-order that of the "
		 "companion",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .endpoint = send_order_rank},
	{.name = "header",
	 .says = "tag and meta arrive bit for bit",
	 .promise = "coll_header_t",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "no header of the library passes through the engine; message-tags sees the "
		 "companion's tags",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .endpoint = send_header_rank},
	{.name = NULL},
};
