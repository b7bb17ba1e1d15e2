/* SPDX-License-Identifier: BSD-3-Clause */
/* recorder.c - notes the operations of a communicator. */
#include "exec/recorder.h"
#include "exec/op.h"

#include <stdio.h>

void recorder_end_all(struct comm *comm, uint64_t before)
{
	struct recorder *recorder = &comm->recorder;
	const int64_t now = context_now(comm->context);

	for (struct op *op = comm->head; op; op = op->next)
		if (op->number > before && op->number <= comm->finished)
			op->record.ended_us = now;
	if (before < recorder_before(comm))
		before = recorder_before(comm);
	while (before++ < comm->finished && before <= recorder->newest)
		recorder->op[before % RECORDER_SIZE].ended_us = now;
}

uint64_t recorder_before(const struct comm *comm)
{
	return comm->issued < RECORDER_SIZE ? 0 : comm->issued - RECORDER_SIZE;
}

const struct recorded *recorder_find(const struct comm *comm, uint64_t number,
				     const struct op **from)
{
	const struct op *op = *from ? *from : comm->head;

	if (number <= recorder_before(comm))
		return NULL;
	if (number <= comm->recorder.newest)
		return &comm->recorder.op[number % RECORDER_SIZE];
	while (op && op->number < number)
		op = op->next;
	*from = op;
	return op && op->number == number ? &op->record : NULL;
}

/* -------------------------------------------------------------------------- in words -- */

void recorder_describe(const struct comm *comm, const struct recorded *op, char *text, size_t size)
{
	const struct call call = {
		.args = {.kind = op->kind,
			 .dtype = signature_dtype(op->meta),
			 .count = (size_t)op->count,
			 .root = op->peer,
			 .tag = op->seq_or_tag},
		.kind = kind_is_valid(op->kind) ? kind_at(op->kind) : NULL,
		.signature = {{op->meta[0], op->meta[1]}},
	};

	call_describe(comm, &call, text, size);
}
