/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * seen.h - what other processes see of a communicator: its slot in the page of the rank (page/page.h), with the option
 * `page`.  The lock is held in all functions but seen_free.
 */
#ifndef CORE_WATCH_SEEN_H
#define CORE_WATCH_SEEN_H

#include "comm/comm.h"

/* A part of the lane (struct comm_part).  A rank that can have no page does without, and says so at level info. */
int seen_begin(struct lane *lane);
void seen_failed(struct lane *lane, int loud);
void seen_free(struct lane *lane);

/* A thread of the program waits, and nothing has moved for idle_us: notes in the slot since when and for which ranks it waits. */
void seen_note_wait(struct lane *lane, int64_t idle_us);

/*
 * A call of the program polls: calls stall_poll, and notes in the slot when that was, and every STALL_NOTED_US for which ranks
 * the communicator waits.
 */
void seen_poll(struct lane *lane);

#endif
