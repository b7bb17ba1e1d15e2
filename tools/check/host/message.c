/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c - sends, receives and waits of one rank, each with a timeout. */
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "check/host/host.h"
#include "lib/tool.h"

enum { MESSAGE_SLEEP_US = 100, MESSAGE_YIELDS = 50 };

/* ------------------------------------------------------------------ payloads -- */

static uint64_t message_word(uint64_t seed, uint64_t i)
{
	uint64_t x = (seed + i) * 0x9e3779b97f4a7c15u;

	return x ^ (x >> 29);
}

void check_fill(uint8_t *buf, uint64_t len, uint64_t seed)
{
	for (uint64_t at = 0; at < len; at += 8) {
		uint64_t word = message_word(seed, at);

		memcpy(buf + at, &word, len - at < 8 ? (size_t)(len - at) : 8);
	}
}

uint64_t check_differs(const uint8_t *buf, uint64_t len, uint64_t seed)
{
	for (uint64_t at = 0; at < len; at += 8) {
		uint64_t word = message_word(seed, at), n = len - at < 8 ? len - at : 8;

		if (!memcmp(buf + at, &word, (size_t)n))
			continue;
		for (uint64_t i = 0; i < n; i++)
			if (buf[at + i] != ((const uint8_t *)&word)[i])
				return at + i;
	}
	return len;
}

uint8_t *check_payload(uint64_t len, uint64_t seed)
{
	uint8_t *buf = check_memory(len);

	check_fill(buf, len, seed);
	return buf;
}

/* ------------------------------------------------------------------ the slots -- */

void check_send_fill(coll_send_t *send, uint32_t peer, uint64_t tag, const void *buf, uint64_t len)
{
	*send = (coll_send_t){.header = {.tag = tag, .meta = {~tag, len * 3}, .len = len},
			      .buf = len ? buf : NULL,
			      .peer = peer,
			      .status = COLL_IN_PROGRESS,
			      .memory = COLL_MEM_HOST};
}

int32_t check_send_raw(struct check_ep *ep, coll_send_t *send, coll_error_t *err)
{
	int32_t code;

	check_slot(ep->c, ep->rank, "send");
	code = ep->t->send(ep->ep, send, err);
	check_slot(ep->c, ep->rank, NULL);
	return code;
}

int check_send(struct check_ep *ep, coll_send_t *send, uint32_t peer, uint64_t tag, const void *buf,
	       uint64_t len)
{
	coll_error_t err = {.size = sizeof(err)};
	int32_t code;

	check_send_fill(send, peer, tag, buf, len);
	code = check_send_raw(ep, send, &err);
	if (!code)
		return 0;
	check_fail(ep->c, "rank %d: sending %llu bytes to rank %u was refused with %d: %.300s",
		   ep->rank, (unsigned long long)len, peer, code, err.text);
	return -1;
}

int check_progress(struct check_ep *ep)
{
	int64_t begin = tool_now_ns(), took;
	int moved;

	if (!ep->t->progress)
		return 0; /* a native plugin needs no progress calls */
	ep->thread = pthread_self();
	ep->progressing = 1;
	check_slot(ep->c, ep->rank, "progress");
	moved = ep->t->progress(ep->ep);
	check_slot(ep->c, ep->rank, NULL);
	ep->progressing = 0;
	took = (tool_now_ns() - begin) / 1000;
	if (took > ep->seen.slowest_us)
		ep->seen.slowest_us = took;
	return moved;
}

void check_pause(unsigned *idle)
{
	if (++*idle < MESSAGE_YIELDS)
		sched_yield();
	else
		usleep(MESSAGE_SLEEP_US);
}

/* ------------------------------------------------------------------ waiting -- */

/* Makes one step of a wait.  Returns -1 after the timeout, or if the check has failed on another rank. */
static int message_step(struct check_ep *ep, int64_t deadline, unsigned *idle)
{
	if (check_progress(ep))
		*idle = 0;
	else
		check_pause(idle);
	return tool_now_ms() > deadline || check_failed(ep->c) ? -1 : 0;
}

int check_wait_send(struct check_ep *ep, const coll_send_t *send)
{
	int64_t deadline = tool_now_ms() + ep->c->timeout_ms;
	unsigned idle = 0;

	while (send->status == COLL_IN_PROGRESS)
		if (message_step(ep, deadline, &idle)) {
			check_fail(ep->c,
				   "rank %d: a send of %llu bytes to rank %u got no status in %lld "
				   "s",
				   ep->rank, (unsigned long long)send->header.len, send->peer,
				   (long long)ep->c->timeout_ms / 1000);
			return -1;
		}
	if (!send->status)
		return 0;
	check_fail(ep->c, "rank %d: a send of %llu bytes to rank %u ended with status %d", ep->rank,
		   (unsigned long long)send->header.len, send->peer, send->status);
	return -1;
}

struct check_arrival *check_find(const struct check_ep *ep, uint32_t peer, uint64_t tag)
{
	struct check_arrival *a = ep->arrivals;

	while (a && (a->peer != peer || a->header.tag != tag))
		a = a->next;
	return a;
}

struct check_arrival *check_recv(struct check_ep *ep, uint32_t peer, uint64_t tag)
{
	int64_t deadline = tool_now_ms() + ep->c->timeout_ms;
	struct check_arrival *a = NULL;
	uint64_t looked = UINT64_MAX;
	unsigned idle = 0;

	while (!a || a->status == COLL_IN_PROGRESS) {
		if (!a && looked != ep->arrived_count) {
			looked = ep->arrived_count;
			a = check_find(ep, peer, tag);
			continue;
		}
		if (message_step(ep, deadline, &idle)) {
			check_fail(
				ep->c,
				"rank %d: a message from rank %u %s in %lld s (%d others came%s%s)",
				ep->rank, peer, a ? "was not completed" : "did not come",
				(long long)ep->c->timeout_ms / 1000, (int)ep->arrived_count,
				ep->lost[peer] ? "; peer_lost: " : "", ep->lost_text[peer]);
			return NULL;
		}
	}
	if (!a->status)
		return a;
	check_fail(ep->c, "rank %d: a message from rank %u arrived with status %d", ep->rank, peer,
		   a->status);
	return NULL;
}

int check_progress_barrier(struct check_ep *ep)
{
	int64_t deadline = tool_now_ms() + ep->c->timeout_ms;
	unsigned step = ep->step++, idle = 0;

	check_exchange_begin(ep->c, ep->rank, step, NULL, 0);
	while (!check_exchange_done(ep->c, step))
		if (message_step(ep, deadline, &idle)) {
			check_fail(ep->c, "rank %d waited %lld s for the other ranks", ep->rank,
				   (long long)ep->c->timeout_ms / 1000);
			return -1;
		}
	return 0;
}

int check_await_lost(struct check_ep *ep, uint32_t peer)
{
	int64_t deadline = tool_now_ms() + ep->c->timeout_ms;
	unsigned idle = 0;

	while (!ep->lost[peer])
		if (message_step(ep, deadline, &idle))
			return -1;
	return 0;
}
