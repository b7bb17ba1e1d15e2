/* SPDX-License-Identifier: BSD-3-Clause */
/* stall_words.h - where the ranks of an operation that does not move are, in words. */
#ifndef CORE_WATCH_STALL_WORDS_H
#define CORE_WATCH_STALL_WORDS_H

#include "comm/op.h"
#include "watch/report.h"
#include "watch/stall.h"

/* The messages that have come for the communicator and that no operation takes: how many, and the first in words. */
struct stall_unexpected {
	const struct lane *lane;
	unsigned messages;
	char text[320];
};

/* The lock is held in all of these. */

/* Marks in `from` (nranks bytes) the ranks for which an operation still waits.  Returns 1 if there are any. */
int stall_mark_awaited(const struct lane *lane, uint8_t *from);
/* Writes "rank 1, 4": the ranks that have not answered; or "none". */
void stall_list_silent(const struct lane *lane, char *text, size_t size);
/* Writes the ranks for which an operation still waits: "rank 1, 4", "any rank" or "none". */
void stall_describe_awaited(const struct lane *lane, char *text, size_t size);
/* Has the rank called fewer collectives than this one, or not said how many? */
int stall_is_behind(const struct lane *lane, int rank);
/* Writes "rank 1, 4": the ranks without an answer, or behind this rank in collectives of the backend's own; or "none". */
void stall_list_behind(const struct lane *lane, char *text, size_t size);
/* Do both lanes take host memory?  Then the words name who does a call instead of the kind of memory. */
int stall_lanes_share(const struct lane *lane);
/* Writes "waits in barrier as collective number 7"; other: the position is in the other lane. */
void stall_describe_position(const struct lane *lane, int other, const struct position *p,
			     char *text, size_t size);
/* Describes the operation or the message for which this rank waits. */
void stall_describe_own(const struct lane *lane, char *text, size_t size);
/*
 * Writes where this rank is in the other lane, and which ranks are elsewhere, silent ranks first:
 * "; rank 3 waits in ...".
 */
void stall_describe_ranks(const struct lane *lane, char *text, size_t size);
/* "; rank 2 has called ..., for which nothing waits here", or "". */
const char *stall_unexpected(const struct lane *lane, struct stall_unexpected *unexpected);

#endif
