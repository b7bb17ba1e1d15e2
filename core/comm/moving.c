/* SPDX-License-Identifier: BSD-3-Clause */
/* moving.c - the lists of running operations that are to be looked at. */
#include "comm/moving.h"
#include "comm/call_log.h"

static void moving_append(struct op_list *list, struct op *op)
{
	op->list = list;
	op->list_next = NULL;
	op->list_prev = list->last;
	*(list->last ? &list->last->list_next : &list->first) = op;
	list->last = op;
	list->count++;
}

static void moving_unlink(struct op *op)
{
	struct op_list *list = op->list;

	*(op->list_prev ? &op->list_prev->list_next : &list->first) = op->list_next;
	*(op->list_next ? &op->list_next->list_prev : &list->last) = op->list_prev;
	list->count--;
	op->list = NULL;
}

void moving_wake(struct op *op)
{
	op->rests = 0;
	lane_set_busy(op->lane);
	if (op->list)
		moving_unlink(op);
	if (op != op->lane->queue.head)
		moving_append(&op->lane->queue.woken, op);
}

void moving_after_look(struct op *op)
{
	op->rests = 1;
	if (!op->engine->rests || !op->engine->rests(op))
		moving_append(&op->lane->queue.in_turn, op);
}

void moving_leave(struct op *op)
{
	if (op->list)
		moving_unlink(op);
	op->rests = 0;
}

struct op *moving_take(struct op_list *list)
{
	struct op *op = list->first;

	if (op)
		moving_leave(op);
	return op;
}

int moving_is_at_rest(const struct lane *lane)
{
	const struct op *op = lane->queue.head;
	const void *objects =
		(void *)((uintptr_t)lane->tasks.limited | (uintptr_t)lane->order |
			 (uintptr_t)lane->native | (uintptr_t)lane->queue.woken.first |
			 (uintptr_t)lane->queue.in_turn.first | (uintptr_t)lane->log->hash);

	return !objects && !lane->error && !lane->messages.looks && op && op->state == OP_RUNNING &&
	       op->engine->rests && op->engine->rests(op);
}

static struct op *op_find_deferred(struct op *op)
{
	while (op && op->state != OP_DEFERRED)
		op = op->next;
	return op;
}

void op_release(struct lane *lane, uint64_t group)
{
	for (struct op *op = lane->queue.deferred; op; op = op->next)
		if (op->state == OP_DEFERRED && op->group == group)
			op->state = OP_QUEUED;
	lane->queue.deferred = op_find_deferred(lane->queue.deferred);
}

void op_release_one(struct op *op)
{
	if (op->state == OP_DEFERRED)
		op->state = OP_QUEUED;
	op->lane->queue.deferred = op_find_deferred(op->lane->queue.deferred);
}
