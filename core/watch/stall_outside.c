/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stall_outside.c - a program that waits outside the library: for a stream of its own, behind operations of a backend
 * without a transport, or for a callback while it polls coll_comm_get_async_error.  No wait of it asks the other ranks
 * where they are, so the watcher asks, or the poll; the answers end operations that can never meet.  Such a
 * program may as well compute: it has no timeout, and no warning tells of it.
 */
#include "watch/report.h"
#include "watch/stall.h"
#include "base/clock.h"

/* The thread may have slept for so long when the program made its last call. */
enum { OUTSIDE_SLEPT_US = 1000000 };

/* Does a thread of the program wait or poll in the library, and ask for itself? */
static int outside_is_inside(const struct lane *lane)
{
	return stall_waits(lane) || lane->waited;
}

int stall_is_busy(const struct lane *lane)
{
	return engines_busy(lane) || lane->stream_waits || (!lane->native && lane->queue.head);
}

int stall_ask_outside(struct lane *lane)
{
	struct outside *outside = &lane->watch->outside;
	const uint64_t moves = stall_moves(lane);
	const int64_t now = clock_now_us(), first = lane->context->stall_us;
	const int64_t slept = first / 2 < OUTSIDE_SLEPT_US ? first / 2 : OUTSIDE_SLEPT_US;

	if (!first || lane->error || lane->leaving || lane->deferred || !stall_is_busy(lane))
		return 0;
	if (!outside->since_us || outside->moves != moves || outside_is_inside(lane)) {
		*outside = (struct outside){moves, now, first - slept, 0};
		return 1;
	}
	if (lane->nleft && lane->native)
		stall_check_left_native(lane);
	if (lane->error || now - outside->since_us < outside->next_us)
		return 1;
	outside->next_us *= 2;
	outside->asked = 1;
	report_ask(lane);
	return 1;
}

int stall_is_outside(const struct lane *lane)
{
	return lane->watch->outside.asked && lane->watch->outside.moves == stall_moves(lane);
}
