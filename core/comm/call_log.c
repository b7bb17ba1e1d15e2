/* SPDX-License-Identifier: BSD-3-Clause */
/* call_log.c - the log of the calls of a communicator: see call_log.h. */
#include "comm/call_log.h"
#include "base/error.h"
#include "comm/counts.h"
#include "page/page_file.h"

#include <stdlib.h>
#include <string.h>

/* Makes an empty log with room for so many calls. */
static int call_log_make(struct lane *lane, uint32_t calls)
{
	struct call_log *log = calloc(1, sizeof(*log) + calls * sizeof(log->call[0]));

	lane->log = log;
	if (!log)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	log->mask = calls - 1;
	return COLL_SUCCESS;
}

int call_log_new(struct lane *lane)
{
	lane->seen = page_log_new();
	if (!lane->seen)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	return call_log_make(lane, LOG_CALLS);
}

static void call_log_free_calls(struct lane *lane)
{
	if (lane->log) {
		free(lane->log->messages);
		free(lane->log->hash);
	}
	free(lane->log);
	lane->log = NULL;
}

int call_log_hash_calls(struct lane *lane)
{
	struct call_hash *hash = calloc(1, sizeof(*hash));

	call_log_free_calls(lane);
	if (!hash || call_log_make(lane, LOG_HASHED_CALLS)) {
		free(hash);
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	}
	lane->log->hash = hash;
	hash->now = hash->mark[0] = SIGNATURE_HASH_BEGIN;
	return COLL_SUCCESS;
}

void call_log_free(struct lane *lane)
{
	call_log_free_calls(lane);
	if (!lane->slot)
		free(lane->seen);
	lane->seen = NULL;
}

/* ------------------------------------------------------------------- signatures and hashes -- */

/* Every kind is more than 0, so an entry that is zeroed was never written. */
const struct signature *call_log_at(const struct lane *lane, uint32_t seq)
{
	const struct call_log *log = lane->log;
	const struct signature *call = &log->call[seq & log->mask];

	return lane->seq - 1 - seq <= log->mask && call->meta[0] ? call : NULL;
}

uint64_t call_log_mark(const struct lane *lane, uint32_t number)
{
	return lane->log->hash->mark[number / LOG_MARK_EVERY % LOG_MARKS];
}

int call_log_find_hash(const struct lane *lane, uint32_t number, uint64_t *hash)
{
	const uint32_t age = lane->seq - number, past = number % LOG_MARK_EVERY;
	struct signature hashed;

	if (age / LOG_MARK_EVERY + 1 >= LOG_MARKS)
		return 0;
	if (!age) {
		*hash = lane->log->hash->now;
		return 1;
	}
	*hash = call_log_mark(lane, number);
	if (past && age + past > LOG_HASHED_CALLS)
		return 0;
	for (uint32_t seq = number - past; seq < number; seq++) {
		hashed = call_log_hashed(&lane->log->call[seq & lane->log->mask]);
		*hash = call_log_hash(*hash, &hashed);
	}
	return 1;
}

/* --------------------------------------------------------------------------------- records -- */

void call_log_end_all(struct lane *lane, uint64_t before)
{
	const int64_t now = context_now(lane->context);

	if (before < call_log_before(lane))
		before = call_log_before(lane);
	while (before++ < lane->finished)
		call_log_slot(lane, before)->ended_us = now;
}

static struct message_log *call_log_new_messages(struct lane *lane)
{
	const int seen = lane->slot && !page_add_part(lane->page, lane->slot, PAGE_PART_MESSAGES);
	struct message_log *messages =
		calloc(1, sizeof(*messages) + (seen ? 0 : LOG_RECORDS * sizeof(struct record)));

	if (messages)
		messages->record = seen ? lane->slot->message : messages->own;
	return messages;
}

void call_log_add_message(struct lane *lane, const struct record *message, uint64_t stamp)
{
	struct message_log *messages = lane->log->messages;

	if (lane->counts && !lane->error)
		counts_message(lane, message, stamp);
	if (!messages)
		messages = lane->log->messages = call_log_new_messages(lane);
	if (!messages || (lane->error && messages->open++ >= LOG_RECORDS / 2))
		return;
	messages->record[messages->count++ % LOG_RECORDS] = *message;
	if (lane->slot)
		lane->slot->messages = messages->count;
}

const struct record *call_log_message(const struct lane *lane, uint64_t n)
{
	const struct message_log *messages = lane->log->messages;
	uint64_t before;

	if (!messages)
		return NULL;
	before = messages->count < LOG_RECORDS ? 0 : messages->count - LOG_RECORDS;
	return before + n < messages->count ? &messages->record[(before + n) % LOG_RECORDS] : NULL;
}

void call_log_describe(const struct lane *lane, const struct record *op, char *text, size_t size)
{
	const struct rank_words ranks = signature_ranks(lane);

	words_operation(&ranks, op, text, size);
}
