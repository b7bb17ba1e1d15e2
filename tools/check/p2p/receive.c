/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * receive.c - the receiver's side: arrive, data and arrived, and the bytes that the plugin writes.
 */
#include <stdlib.h>
#include <string.h>
#include "check/host/host.h"
#include "check/p2p/p2p.h"

enum { RECEIVE_SIZES = 7 };

static const uint64_t receive_sizes[RECEIVE_SIZES] = {1, 7, 300, 5000, 70001, 262144, 1500003};

/* Every rank sends messages of all sizes to the next rank, with tags 1..RECEIVE_SIZES. */
static int receive_traffic(struct check_ep *ep)
{
	uint32_t to = (uint32_t)((ep->rank + 1) % ep->nranks);
	uint32_t from = (uint32_t)((ep->rank + ep->nranks - 1) % ep->nranks);
	coll_send_t *send = check_memory(RECEIVE_SIZES * sizeof(*send));
	uint8_t *buf = check_payload(receive_sizes[RECEIVE_SIZES - 1], 1);

	for (int k = 0; k < RECEIVE_SIZES; k++)
		if (check_send(ep, &send[k], to, (uint64_t)k + 1, buf, receive_sizes[k]))
			return -1;
	for (int k = 0; k < RECEIVE_SIZES; k++)
		if (!check_recv(ep, from, (uint64_t)k + 1))
			return -1;
	for (int k = 0; k < RECEIVE_SIZES; k++)
		if (check_wait_send(ep, &send[k]))
			return -1;
	/* Makes progress for a while, so that a late or second completion has time to show. */
	if (check_progress_barrier(ep))
		return -1;
	for (int i = 0; i < 200; i++)
		check_progress(ep);
	free(buf);
	free(send);
	return check_progress_barrier(ep);
}

/* ------------------------------------------------------------------ data -- */

static void receive_data_rank(struct check_ep *ep)
{
	ep->open_mode.by_data = 1;
	/* No rank sends before all ranks have set their open mode. */
	if (check_progress_barrier(ep) || receive_traffic(ep))
		return;
	if (ep->seen.over || ep->seen.under)
		check_fail(ep->c, "rank %d: host->data was given %s than the message has bytes",
			   ep->rank, ep->seen.over ? "more" : "less");
	for (const struct check_arrival *a = ep->arrivals; a; a = a->next)
		if (check_differs(a->buf, a->header.len, 1) != a->header.len)
			check_fail(ep->c,
				   "rank %d: host->data was given other bytes of a message of %llu "
				   "than were sent, from byte %llu on",
				   ep->rank, (unsigned long long)a->header.len,
				   (unsigned long long)check_differs(a->buf, a->header.len, 1));
}

/* ------------------------------------------------------------------ bounds -- */

static void receive_bounds_rank(struct check_ep *ep)
{
	if (receive_traffic(ep))
		return;
	for (const struct check_arrival *a = ep->arrivals; a; a = a->next)
		for (uint64_t i = 0; i < CHECK_GUARD; i++)
			if (a->memory[i] != 0xa5 || a->buf[a->header.len + i] != 0xa5) {
				check_fail(ep->c,
					   "rank %d: bytes %s the buffer of a message of %llu were "
					   "written to",
					   ep->rank, a->memory[i] != 0xa5 ? "before" : "behind",
					   (unsigned long long)a->header.len);
				return;
			}
}

/* ------------------------------------------------------------------ arrived -- */

static void receive_once_rank(struct check_ep *ep)
{
	if (receive_traffic(ep))
		return;
	if (ep->seen.twice)
		check_fail(ep->c, "rank %d: arrived was called twice for one message", ep->rank);
	if (ep->seen.cookie)
		check_fail(ep->c, "rank %d: arrived or data was called with a cookie of no message",
			   ep->rank);
	for (const struct check_arrival *a = ep->arrivals; a; a = a->next)
		if (!a->ends)
			check_fail(ep->c, "rank %d: arrived was not called for a message of %llu",
				   ep->rank, (unsigned long long)a->header.len);
	if (ep->arrived_count != RECEIVE_SIZES)
		check_fail(ep->c, "rank %d: %llu messages were announced, %d had been sent",
			   ep->rank, (unsigned long long)ep->arrived_count, RECEIVE_SIZES);
}

/* Checks that all bytes are in the buffer when the plugin calls arrived. */
static void receive_complete_rank(struct check_ep *ep)
{
	uint32_t to = (uint32_t)((ep->rank + 1) % ep->nranks);
	uint32_t from = (uint32_t)((ep->rank + ep->nranks - 1) % ep->nranks);
	uint64_t len = 2000000;
	const struct check_arrival *a;
	coll_send_t *send = check_memory(4 * sizeof(*send));
	uint8_t *buf = check_payload(len, 1);

	for (uint64_t k = 0; k < 4; k++)
		if (check_send(ep, &send[k], to, k + 1, buf, len))
			return;
	for (uint64_t k = 0; k < 4; k++) {
		a = check_recv(ep, from, k + 1);
		if (!a)
			return;
		if (check_differs(a->buf, len, 1) != len) {
			check_fail(ep->c,
				   "rank %d: arrived was called before all bytes of the message "
				   "were in its buffer",
				   ep->rank);
			return;
		}
	}
	for (int k = 0; k < 4; k++)
		check_wait_send(ep, &send[k]);
	if (check_progress_barrier(ep))
		return;
	free(buf);
	free(send);
}

static void receive_inside_rank(struct check_ep *ep)
{
	if (receive_traffic(ep))
		return;
	if (ep->seen.outside)
		check_fail(ep->c, "rank %d: host->%s was called outside of progress", ep->rank,
			   ep->seen.outside_name);
}

/* ------------------------------------------------------------------ message -- */

static void receive_whole_rank(struct check_ep *ep)
{
	if (receive_traffic(ep))
		return;
	if (!ep->whole_count) {
		check_skip(ep->c, "the plugin hands over no message whole");
		return;
	}
	if (ep->arrived_count != RECEIVE_SIZES)
		check_fail(ep->c, "rank %d: %llu messages were announced, %d had been sent",
			   ep->rank, (unsigned long long)ep->arrived_count, RECEIVE_SIZES);
	if (ep->seen.outside)
		check_fail(ep->c, "rank %d: host->%s was called outside of progress", ep->rank,
			   ep->seen.outside_name);
	for (const struct check_arrival *a = ep->arrivals; a; a = a->next)
		if (check_differs(a->buf, a->header.len, 1) != a->header.len || a->ends != 1)
			check_fail(ep->c,
				   "rank %d: a message of %llu bytes differs from the one that was "
				   "sent, or did not end",
				   ep->rank, (unsigned long long)a->header.len);
}

static void receive_whole(struct check_case *c)
{
	c->whole = 1;
	check_endpoints(c);
}

static void receive_peer_rank(struct check_ep *ep)
{
	uint32_t from = (uint32_t)((ep->rank + ep->nranks - 1) % ep->nranks);

	if (receive_traffic(ep))
		return;
	if (ep->seen.bad_peer)
		check_fail(ep->c, "rank %d: a message was announced with an invalid rank",
			   ep->rank);
	for (const struct check_arrival *a = ep->arrivals; a; a = a->next)
		if (a->peer != from)
			check_fail(ep->c,
				   "rank %d: a message from rank %u was announced as from %u",
				   ep->rank, from, a->peer);
	for (int r = 0; r < ep->nranks; r++)
		if (ep->lost[r])
			check_fail(ep->c,
				   "rank %d: peer_lost was called for rank %d, which is alive",
				   ep->rank, r);
}

const struct check check_receive_checks[] = {
	{.name = "data",
	 .says = "without a buffer the payload is handed to host->data, in order and complete",
	 .promise = "coll_host_t.data",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine writes to the buffer of the call, and hands no bytes to the library",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .endpoint = receive_data_rank},
	{.name = "bounds",
	 .says = "no byte is written before or behind the buffer of a message",
	 .promise = "coll_sink_t.buf",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine writes to the buffers: the checks of collectives look at the bytes "
		 "around them",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = receive_bounds_rank},
	{.name = "arrived",
	 .says = "arrived is called once for each message",
	 .promise = "coll_host_t.arrived",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine announces no message: the completion of its stream is that of all of "
		 "them",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = receive_once_rank},
	{.name = "arrived-whole",
	 .says = "all bytes are there when arrived is called",
	 .promise = "coll_host_t.arrived",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the checks of collectives compare all bytes when the engine's stream is complete",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = receive_complete_rank},
	{.name = "inside-progress",
	 .says = "arrive, data and arrived are called from inside progress only",
	 .promise = "coll_host_t.arrive",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine calls no function of the host for a message",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = receive_inside_rank},
	{.name = "message",
	 .says = "a message that is handed over whole comes once, and is what was sent",
	 .promise = "coll_host_t.message",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine hands no message over",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .run = receive_whole,
	 .endpoint = receive_whole_rank},
	{.name = "peers",
	 .says = "a message is announced with its sender's rank, and no rank is lost without cause",
	 .promise = "coll_host_t.arrive",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine announces no message; fault-killed and fault-leaves see who is called "
		 "lost",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .endpoint = receive_peer_rank},
	{.name = NULL},
};
