/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bounce_test.c - the bounce buffers of the tcp plugin: which messages share one, when its room is free again, and what becomes of
 * messages for which there is no room or no memory.
 *
 * The memory is this test's, and the rest of the plugin is not there.
 */
#include "../lib/tap.h"

#include "../../plugins/tcp/tcp_bounce.c"

#include <errno.h>

enum { UNIT = TCP_BOUNCE_UNIT, ALL = TCP_BOUNCE_BYTES };

static uint8_t shared[ALL], payload[2 * ALL];
static uint64_t taken, most; /* bytes of shared memory: counted, and allowed */
static uint64_t populated;   /* bytes that have pages */
static int no_pages, opens, frees;
static int no_memory; /* tcp_memory_open fails */

/* ------------------------------------------------------------- the rest of the plugin -- */

int tcp_memory_open(struct tcp_memory *memory, uint64_t bytes)
{
	opens++;
	if (no_memory)
		return ENOMEM;
	*memory = (struct tcp_memory){.at = shared, .size = bytes, .id = 1, .fd = -1};
	return 0;
}

int tcp_memory_populate(const struct tcp_memory *memory, uint64_t begin, uint64_t bytes)
{
	(void)memory;
	if (no_pages)
		return ENOMEM;
	is_int((int)begin, (int)populated, "pages begin where the last ones end");
	populated = begin + bytes;
	return 0;
}

void tcp_mem_free(void *ptr)
{
	frees += ptr == shared;
}

int tcp_ring_memory_take(uint64_t bytes, uint64_t limit)
{
	most = limit;
	if (taken + bytes > limit)
		return 0;
	taken += bytes;
	return 1;
}

void tcp_ring_memory_return(uint64_t bytes)
{
	taken -= bytes;
}

/* ------------------------------------------------------------------------ the tests -- */

/* Gives the endpoint its memory, without pages. */
static void begin(struct tcp *t)
{
	*t = (struct tcp){.turns = 1, .ring_memory = 4 * ALL};
	taken = populated = 0;
	if (!tcp_bounce_memory(t))
		bail_out("no memory");
	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 7 + i / 4096);
}

static int has(const struct tcp *t, int buffer, const uint8_t *bytes, size_t n)
{
	return buffer >= 0 && !memcmp(tcp_bounce_at(t, buffer), bytes, n);
}

static void test_sharing(void)
{
	struct tcp t;
	int a, b, c;

	begin(&t);
	ok(!tcp_bounce_has(&t, payload, 5 * UNIT), "no buffer has a payload at first");
	a = tcp_bounce(&t, payload, 5 * UNIT);
	ok(has(&t, a, payload, 5 * UNIT), "a payload is copied to a buffer");
	ok(tcp_bounce_has(&t, payload, 5 * UNIT), "the buffer has the payload");
	ok(!tcp_bounce_has(&t, payload, 4 * UNIT) && !tcp_bounce_has(&t, payload + 1, 5 * UNIT),
	   "but not a part of it");
	is_int(tcp_bounce(&t, payload, 5 * UNIT), a, "a second message shares the buffer");
	b = tcp_bounce(&t, payload + UNIT, UNIT + 1);
	ok(has(&t, b, payload + UNIT, UNIT + 1), "another payload has a buffer of its own");
	ok(has(&t, a, payload, 5 * UNIT), "beside the first buffer");
	tcp_bounce_release(&t, a);
	c = tcp_bounce(&t, payload + 9, 5 * UNIT);
	ok(c != a && has(&t, a, payload, 5 * UNIT),
	   "a buffer that one of two messages has left is not used again");
	tcp_bounce_release(&t, a);
	is_int(tcp_bounce(&t, payload + 3, UNIT), a, "a buffer that both have left is");
	tcp_bounce_free(&t);
}

/* The program may change a payload whose message the core has given up. */
static void test_given_up(void)
{
	struct tcp t;
	int a, b;

	begin(&t);
	a = tcp_bounce(&t, payload, 2 * UNIT);
	tcp_bounce_give_up(&t, a);
	ok(!tcp_bounce_has(&t, payload, 2 * UNIT),
	   "nobody shares the buffer of a given up message");
	payload[0] ^= 1;
	b = tcp_bounce(&t, payload, 2 * UNIT);
	ok(b != a && has(&t, b, payload, 2 * UNIT), "the changed payload has a buffer of its own");
	ok(!has(&t, a, payload, 2 * UNIT),
	   "the receiver of the given up message may still read the old one");
	tcp_bounce_release(&t, a);
	is_int(tcp_bounce(&t, payload + 1, UNIT), a, "until it is past the message");
	tcp_bounce_free(&t);
}

static void test_room(void)
{
	struct tcp t;
	int first, middle, last;

	begin(&t);
	is_int(tcp_bounce(&t, payload, ALL + 1), -1, "a payload that is longer than all buffers");
	first = tcp_bounce(&t, payload, ALL / 2);
	middle = tcp_bounce(&t, payload + 1, ALL / 4);
	last = tcp_bounce(&t, payload + 2, ALL / 4 - UNIT + 1);
	ok(first >= 0 && middle >= 0 && last >= 0, "all room is used");
	is_int(tcp_bounce(&t, payload + 3, 1), -1, "no room is left");
	is_int((int)taken, ALL, "all bytes count");
	tcp_bounce_release(&t, middle);
	is_int(tcp_bounce(&t, payload + 4, ALL / 4 + 1), -1, "a payload longer than the free room");
	is_int(tcp_bounce(&t, payload + 4, ALL / 4), middle, "one as long as the free room");
	ok(has(&t, first, payload, ALL / 2) && has(&t, last, payload + 2, ALL / 4 - UNIT + 1),
	   "the buffers beside it are as before");
	frees = 0;
	tcp_bounce_free(&t);
	is_int(frees, 1, "the memory is freed");
	is_int((int)taken, 0, "and counts no more");
}

static void test_refusals(void)
{
	struct tcp t;
	int a;

	begin(&t);
	t.ring_memory = 8 * UNIT;
	a = tcp_bounce(&t, payload, 2 * UNIT);
	ok(a >= 0, "a quarter of ring_memory has two units");
	is_int(tcp_bounce(&t, payload + 1, 1), -1, "and no third one");
	t.ring_memory = 4 * ALL;
	taken = 4 * ALL - 1;
	is_int(tcp_bounce(&t, payload + 1, 1), -1, "the rings have taken all memory");
	is_int((int)most, 4 * ALL, "that the option allows");
	taken = 2 * UNIT;
	no_pages = 1;
	is_int(tcp_bounce(&t, payload + 1, 1), -1, "the system has no pages");
	is_int((int)taken, 2 * UNIT, "what was refused does not count");
	no_pages = 0;
	ok(tcp_bounce(&t, payload + 1, 1) > a, "it has some again");
	tcp_bounce_free(&t);
	t = (struct tcp){.turns = 1};
	no_memory = 1;
	opens = 0;
	ok(!tcp_bounce_memory(&t) && !tcp_bounce_memory(&t), "no memory can be made");
	is_int(opens, 1, "it is tried once");
	no_memory = 0;
	tcp_bounce_free(&t);
}

int main(void)
{
	test_sharing();
	test_given_up();
	test_room();
	test_refusals();
	return done_testing();
}
