/* SPDX-License-Identifier: BSD-3-Clause */
/* recorder.c - notes the operations of a communicator, and logs those that a failure has left undone. */
#include "exec/recorder.h"
#include "exec/op.h"
#include "base/log.h"

#include <stdio.h>

/* The log line names so many operations at most: the oldest hold up the others. */
enum { RECORDER_NAMED = 3 };

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

/* " number 7, allreduce of 10 float32 (sum), running for 3.2 s;".  The text has room for five of them. */
static size_t recorder_name(const struct comm *comm, const struct recorded *op, uint64_t number,
			    int64_t now, char *text, size_t size)
{
	const int64_t since = op->ended_us     ? op->ended_us
			      : op->started_us ? op->started_us
					       : op->issued_us;
	char what[160];

	recorder_describe(comm, op, what, sizeof(what));
	return (size_t)snprintf(text, size, " number %llu, %s, %s %.3g s%s",
				(unsigned long long)number, what,
				op->ended_us     ? "done"
				: op->started_us ? "running for"
						 : "issued",
				(double)(now > since ? now - since : 0) / 1e6,
				op->started_us && !op->ended_us ? ";" : " ago;");
}

static void recorder_log(struct comm *comm, int loud)
{
	const int64_t now = clock_now_us();
	const uint64_t newest = comm->issued, before = recorder_before(comm);
	const struct recorded *op, *last = NULL;
	const struct op *from = NULL;
	struct rank_name name;
	uint64_t undone = 0, done = 0;
	char text[800] = "";
	size_t at = 0;

	for (uint64_t n = before + 1; (op = recorder_find(comm, n, &from)); n++)
		if (op->ended_us) {
			last = op;
			done = n;
		} else if (undone++ < RECORDER_NAMED)
			at += recorder_name(comm, op, n, now, text + at, sizeof(text) - at);
	if (!undone)
		return;
	if (undone > RECORDER_NAMED)
		at += (size_t)snprintf(text + at, sizeof(text) - at, " ...;");
	if (last) {
		at += (size_t)snprintf(text + at, sizeof(text) - at, " the last that is done:");
		at += recorder_name(comm, last, done, now, text + at, sizeof(text) - at);
	}
	text[at - 1] = '\0';
	(loud ? log_warn : log_info)("%s: %llu of the last %llu operations of the failed "
				     "communicator are not done:%s",
				     comm_own_name(comm, &name), (unsigned long long)undone,
				     (unsigned long long)(newest - before), text);
}

void recorder_report(struct comm *comm, int loud)
{
	const char *directory = config_string(comm->context->config, "dump");
	char saved[ERROR_TEXT_SIZE]; /* the call that has found the failure may have its own */

	if (!comm->issued && !comm->message_recorder)
		return;
	recorder_log(comm, loud);
	if (!directory || !directory[0])
		return;
	snprintf(saved, sizeof(saved), "%s", error_text());
	recorder_dump(comm, directory, loud);
	error_set(COLL_SUCCESS, "%s", saved);
}
