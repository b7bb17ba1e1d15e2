/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * moving.h - which of the running operations of a lane are looked at.  A group may have thousands of operations, most
 * of which only wait for messages.
 *
 * A look at a lane is a look at the oldest operation of its queue.  lane->queue.woken lists further operations for which
 * a message has come: the look takes in all of this list.  lane->queue.in_turn lists operations that move without a message,
 * because a send or a copy is under way: the look takes in a few of this list, in turn.  All other operations rest.
 *
 * The lock is held in all functions.
 */
#ifndef CORE_COMM_MOVING_H
#define CORE_COMM_MOVING_H

#include "comm/op.h"

/* A group has ended: its operations may begin. */
void op_release(struct lane *lane, uint64_t group);
/* The same for an operation whose stream has its work. */
void op_release_one(struct op *op);

/* A message has come for an operation that rests or is looked at in turn: it and its lane are looked at. */
void moving_wake(struct op *op);
/* After a look at a running operation: puts it into lane->queue.in_turn, or lets it rest. */
void moving_after_look(struct op *op);
/* Takes the first operation out of a list, and returns it, or NULL: there is none. */
struct op *moving_take(struct op_list *list);
/* Does nothing of the lane move until a message comes?  Then its operations may rest. */
int moving_is_at_rest(const struct lane *lane);

#endif
