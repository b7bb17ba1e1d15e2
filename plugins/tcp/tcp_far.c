/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_far.c - the option tcp.non_temporal: by which stores a rank writes long messages to the ring of another rank.
 *
 * Ordinary stores first fetch each line of the ring from the cache of the reader's processor, and the reader then fetches
 * it back.  Where the two processors share a cache, that is the fastest way.  Where they are far from each other, stores
 * that go past the caches take half of the time (README.md).
 *
 * The reader learns the distance from a store that it makes anyway: it tells its position after each quarter of the ring.
 * A writer that runs has read that line since, so the store takes as long as the line takes from the writer's processor.
 * The reader sets a flag in the same line, and the writer obeys the flag unless its option says otherwise.  So a pair learns
 * within a ring of bytes, also when a process moves to another processor, and sends no message about it.
 */
#include "tcp_ring.h"

#include <string.h>

enum {
	TCP_FAR_NS = 80,    /* from so many nanoseconds a line on, two processors share no cache */
	TCP_FAR_CLOCK = 60, /* a clock that takes longer to read tells nothing of a line */
	TCP_FAR_TRIES = 8,  /* reads of the clock; the shortest counts */
	/* The stores that took long less the stores that did not: the far flag changes at these numbers. */
	TCP_FAR_MOST = 4,
	TCP_FAR_ON = 3,
	TCP_FAR_OFF = 1
};

/* Returns the nanoseconds that a read of the clock takes. */
static int64_t tcp_far_clock(void)
{
	int64_t least = INT64_MAX;

	for (int i = 0; i < TCP_FAR_TRIES; i++) {
		const int64_t begin = clock_now_ns(), took = clock_now_ns() - begin;

		least = took < least ? took : least;
	}
	return least;
}

int32_t tcp_far_read(struct tcp *t, coll_error_t *err)
{
	const char *text = t->host->option_string(t->host, "non_temporal");

	if (text && !strcmp(text, "yes"))
		t->past = TCP_PAST_ALWAYS;
	else if (text && !strcmp(text, "no"))
		t->past = TCP_PAST_NEVER;
	else if (text && *text && strcmp(text, "auto"))
		return error_fill(
			err, COLL_ERR_CONFIG,
			"option tcp.non_temporal is '%.100s', but must be auto, yes or no", text);
	t->clock_ns = tcp_far_clock();
	/* Ranks that take turns on a processor find a message in its cache. */
	t->learns = !t->turns && t->clock_ns <= TCP_FAR_CLOCK;
	return COLL_SUCCESS;
}

/* Notes how long the line took from the writer's processor. */
static void tcp_far_note(struct tcp *t, struct tcp_conn *conn, int64_t line_ns)
{
	_Atomic uint32_t *flag = &conn->in.control->far;
	const uint32_t before = atomic_load_explicit(flag, memory_order_relaxed);
	uint32_t far = before;

	if (line_ns >= TCP_FAR_NS)
		conn->far += conn->far < TCP_FAR_MOST;
	else
		conn->far -= conn->far > 0;
	if (conn->far >= TCP_FAR_ON)
		far = 1;
	else if (conn->far <= TCP_FAR_OFF)
		far = 0;
	if (far == before)
		return;
	atomic_store_explicit(flag, far, memory_order_relaxed);
	kit_log(t->host, COLL_LOG_DEBUG,
		"a cache line takes %lld ns from the processor of rank %u, so its long messages "
		"%s the caches",
		(long long)line_ns, conn->peer, far ? "go past" : "stay in");
}

void tcp_far_tell(struct tcp *t, struct tcp_conn *conn)
{
	struct tcp_ring *ring = &conn->in;
	_Atomic uint32_t drained = 0;
	int64_t begin;

	/* The processor ends its earlier stores first, which must not count. */
	atomic_exchange(&drained, 1);
	begin = clock_now_ns();
	atomic_store(&ring->control->taken, ring->own);
	tcp_far_note(t, conn, clock_now_ns() - begin - t->clock_ns);
}
