/* SPDX-License-Identifier: BSD-3-Clause */
/* message_recorder.c - keeps the last messages outside the order of the operations. */
#include "exec/message_recorder.h"

#include <stdlib.h>

void message_recorder_add(const struct message *m)
{
	struct comm *comm = m->comm;
	struct message_recorder *recorder = comm->message_recorder;
	struct message_record *record;

	if (!recorder)
		recorder = comm->message_recorder = calloc(1, sizeof(*recorder));
	if (!recorder || (comm->error && recorder->open++ >= MESSAGE_RECORDS / 2))
		return;
	record = &recorder->record[recorder->count++ % MESSAGE_RECORDS];
	*record = (struct message_record){.args = m->args,
					  .issued_us = m->issued_us,
					  .ended_us = comm->error ? 0 : context_now(comm->context),
					  .code = m->code};
	if (m->args.kind == COLL_KIND_RECV && m->status.source >= 0) {
		record->args.peer = m->status.source;
		record->args.tag = m->status.tag;
		record->args.count = m->status.bytes / coll_dtype_size(m->args.dtype);
	}
}

const struct message_record *message_recorder_at(const struct comm *comm, uint64_t n)
{
	const struct message_recorder *recorder = comm->message_recorder;
	uint64_t before;

	if (!recorder)
		return NULL;
	before = recorder->count < MESSAGE_RECORDS ? 0 : recorder->count - MESSAGE_RECORDS;
	return before + n < recorder->count ? &recorder->record[(before + n) % MESSAGE_RECORDS]
					    : NULL;
}
