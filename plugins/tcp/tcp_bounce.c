/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_bounce.c - bounce buffers: where ranks take turns on processors, a long message from ordinary memory is copied to memory
 * that ranks share and lent from there (tcp_lend.c).
 *
 * A ring has room for a part of such a message only, and its two ranks do not run at the same time: each fills or empties the
 * ring and then gives its processor away.  A bounce buffer takes the whole message at once.  A payload that goes to several
 * ranks is copied once: the sends of a broadcast share one buffer.
 *
 * All buffers of an endpoint lie in one piece of memory, which is made with the first one and grows to its size as needed.
 */
#include "tcp_ring.h"

#include <stdlib.h>
#include <string.h>

enum { TCP_BOUNCE_UNIT = 32 << 10, TCP_BOUNCE_UNITS = TCP_BOUNCE_BYTES / TCP_BOUNCE_UNIT };

/* Begins at the unit of the same index. */
struct tcp_bounce_buffer {
	const void *buf; /* the payload that was copied; NULL: nobody else may share it */
	uint64_t len;
	uint32_t units; /* 0: no buffer begins here */
	uint32_t sends;
};

struct tcp_bounce {
	struct tcp_memory memory;
	uint64_t filled; /* bytes that have pages */
	uint32_t last;   /* the buffer that was filled last */
	struct tcp_bounce_buffer buffer[TCP_BOUNCE_UNITS];
};

uint64_t tcp_bounce_most(const struct tcp *t)
{
	return tcp_min(TCP_BOUNCE_BYTES, t->ring_memory / 4);
}

const struct tcp_memory *tcp_bounce_memory(struct tcp *t)
{
	if (!t->bounce && !t->bounce_failed) {
		t->bounce = calloc(1, sizeof(*t->bounce));
		if (t->bounce && tcp_memory_open(&t->bounce->memory, TCP_BOUNCE_BYTES)) {
			free(t->bounce);
			t->bounce = NULL;
		}
		t->bounce_failed = !t->bounce;
	}
	return t->bounce ? &t->bounce->memory : NULL;
}

void tcp_bounce_free(struct tcp *t)
{
	if (!t->bounce)
		return;
	tcp_ring_memory_return(t->bounce->filled);
	tcp_mem_free(t->bounce->memory.at);
	free(t->bounce);
	t->bounce = NULL;
}

uint8_t *tcp_bounce_at(const struct tcp *t, int buffer)
{
	return t->bounce->memory.at + (size_t)buffer * TCP_BOUNCE_UNIT;
}

/* Returns the first of so many free units, or -1. */
static int tcp_bounce_find(const struct tcp_bounce *bounce, uint32_t units)
{
	uint32_t begin = 0, i = 0;

	while (i < TCP_BOUNCE_UNITS && i - begin < units) {
		const uint32_t used = bounce->buffer[i].units;

		i += used ? used : 1;
		if (used)
			begin = i;
	}
	return i - begin == units ? (int)begin : -1;
}

/* Gives the memory pages up to `end`.  Returns 0 if the system or the option ring_memory refuses them. */
static int tcp_bounce_fill(struct tcp *t, uint64_t end)
{
	struct tcp_bounce *bounce = t->bounce;
	const uint64_t more = end > bounce->filled ? end - bounce->filled : 0;

	if (!more)
		return 1;
	if (end > tcp_bounce_most(t) || !tcp_ring_memory_take(more, t->ring_memory))
		return 0;
	if (tcp_memory_populate(&bounce->memory, bounce->filled, more)) {
		tcp_ring_memory_return(more);
		return 0;
	}
	bounce->filled = end;
	return 1;
}

int tcp_bounce_has(const struct tcp *t, const void *buf, uint64_t len)
{
	const struct tcp_bounce *bounce = t->bounce;
	const struct tcp_bounce_buffer *last = bounce ? &bounce->buffer[bounce->last] : NULL;

	return last && last->sends && last->buf == buf && last->len == len;
}

int tcp_bounce(struct tcp *t, const void *buf, uint64_t len)
{
	struct tcp_bounce *bounce = t->bounce;
	const uint64_t units = (len + TCP_BOUNCE_UNIT - 1) / TCP_BOUNCE_UNIT;
	int found;

	if (tcp_bounce_has(t, buf, len)) {
		bounce->buffer[bounce->last].sends++;
		return (int)bounce->last;
	}
	if (units > TCP_BOUNCE_UNITS)
		return -1;
	found = tcp_bounce_find(bounce, (uint32_t)units);
	if (found < 0 || !tcp_bounce_fill(t, ((uint64_t)found + units) * TCP_BOUNCE_UNIT))
		return -1;
	copy_payload(tcp_bounce_at(t, found), buf, len);
	bounce->buffer[found] = (struct tcp_bounce_buffer){
		.buf = buf, .len = len, .units = (uint32_t)units, .sends = 1};
	bounce->last = (uint32_t)found;
	return found;
}

void tcp_bounce_give_up(struct tcp *t, int buffer)
{
	t->bounce->buffer[buffer].buf = NULL;
}

void tcp_bounce_release(struct tcp *t, int buffer)
{
	struct tcp_bounce_buffer *end = &t->bounce->buffer[buffer];

	if (!--end->sends)
		*end = (struct tcp_bounce_buffer){.units = 0};
}
