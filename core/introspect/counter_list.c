/* SPDX-License-Identifier: BSD-3-Clause */
/* counter_list.c - the names and units of the counters. */
#include <coll/introspect.h>

#include "base/error.h"

#include <stddef.h>
#include <string.h>

#define COUNTER_OF(field, unit, of_kind, of_rank, grows, text)                                     \
	{                                                                                          \
		sizeof(coll_counter_info_t), #field, unit, text,                                   \
			(int32_t)offsetof(coll_counters_t, field), of_kind, grows, 0, of_rank, 0   \
	}
#define COUNTER(field, unit, of_kind, grows, text) COUNTER_OF(field, unit, of_kind, 0, grows, text)

static const coll_counter_info_t counter_list[] = {
	COUNTER(calls, "calls", 1, 1, "calls that were issued"),
	COUNTER(bytes, "bytes", 1, 1, "their bytes: count times the size of the type"),
	COUNTER(ended, "calls", 1, 1, "calls whose end was seen: the sum of the buckets"),
	COUNTER(latency_ns, "nanoseconds", 1, 1,
		"from the call to its end, of all that have ended"),
	COUNTER(waited_ns, "nanoseconds", 1, 1,
		"that threads of the program have waited in libcoll, but for the first looks"),
	COUNTER(stalls, "waits", 0, 1, "waits in which nothing moved for `stall_after`"),
	COUNTER(staged, "operations", 0, 1, "operations and messages copied through host memory"),
	COUNTER(unexpected, "messages", 0, 1,
		"messages on the endpoint that came before their receive"),
	COUNTER(unexpected_bytes, "bytes", 0, 1, "the bytes of these messages"),
	COUNTER(unexpected_now, "messages", 0, 0, "how many of them wait for their receive now"),
	COUNTER(unexpected_memory, "bytes", 0, 0, "of memory that hold such messages now"),
	COUNTER(unexpected_memory_most, "bytes", 0, 1, "the most that there ever were"),
	COUNTER(staged_bytes, "bytes", 0, 1, "copied between devices and host memory"),
	COUNTER_OF(last_waits, "waits", 0, 1, 1,
		   "waits for an operation whose last message came from the rank or left for it"),
	COUNTER_OF(last_ns, "nanoseconds", 0, 1, 1, "of these waits"),
	COUNTER_OF(
		behind, "stalls", 0, 1, 1,
		"in which the rank had called fewer collectives, or did not answer while its data "
		"were missing"),
};

int32_t coll_counter_count(void)
{
	return (int32_t)(sizeof(counter_list) / sizeof(counter_list[0]));
}

coll_result_t coll_counter_describe(int32_t index, coll_counter_info_t *out)
{
	if (index < 0 || index >= coll_counter_count() || !out || out->size < sizeof(out->size))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_counter_describe: index is %d, of %d; or out is NULL, or "
				 "out->size is not set",
				 index, coll_counter_count());
	memcpy((char *)out + sizeof(out->size),
	       (const char *)&counter_list[index] + sizeof(out->size),
	       (size_t)((out->size < sizeof(*out) ? out->size : sizeof(*out)) - sizeof(out->size)));
	return COLL_SUCCESS;
}
