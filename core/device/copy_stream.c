/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_stream.c - copies on streams of the CUDA driver, with an event after each.
 *
 * Names and numbers are those of the document "CUDA Driver API" (docs.nvidia.com, cuda-driver-api:
 * stream management, event management).
 */
#include "device/copy_stream.h"
#include "device/driver.h"
#include "base/error.h"

#include <coll/coll.h>
#include <stdlib.h>

/* CU_STREAM_NON_BLOCKING: work on the default stream is neither waited for nor held up. */
enum { LANE_NON_BLOCKING = 1 };
/* CU_EVENT_DISABLE_TIMING */
enum { LANE_NO_TIMING = 2 };

static int lane_enter(const struct lane *lane)
{
	return device_driver.context_push(lane->context);
}

static void lane_leave(void)
{
	void *context;

	device_driver.context_pop(&context);
}

static void lane_free(struct lane *lane)
{
	/* The context may be gone, and all that was made in it. */
	if (!lane_enter(lane)) {
		for (int i = 0; i < LANE_DEEP; i++)
			if (lane->event[i])
				device_driver.event_destroy(lane->event[i]);
		if (lane->stream)
			device_driver.stream_destroy(lane->stream);
		lane_leave();
	}
	if (lane->primary >= 0)
		device_driver.primary_release(lane->primary);
	free(lane);
}

static int lane_make(struct lane *lane)
{
	int result = lane_enter(lane);

	if (result)
		return result;
	result = device_driver.stream_create(&lane->stream, LANE_NON_BLOCKING);
	for (int i = 0; !result && i < LANE_DEEP; i++)
		result = device_driver.event_create(&lane->event[i], LANE_NO_TIMING);
	lane_leave();
	return result;
}

/* A lane of a context, which is held if `primary` is its device. */
static struct lane *lane_new(int way, void *context, int primary, int *result)
{
	struct lane *lane = calloc(1, sizeof(*lane));

	if (!lane) {
		if (primary >= 0)
			device_driver.primary_release(primary);
		return NULL;
	}
	lane->way = way;
	lane->context = context;
	lane->primary = primary;
	*result = lane_make(lane);
	if (!*result)
		return lane;
	lane_free(lane);
	return NULL;
}

static int lane_failed(int result)
{
	char words[256];

	if (!result)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for copies to or from a device");
	device_words(result, words, sizeof(words));
	return error_set(COLL_ERR_DEVICE,
			 "cannot make a stream for copies to or from a device: %s; is the memory "
			 "still allocated, and did earlier work on the device succeed?",
			 words);
}

int lane_find(struct lane **lanes, int way, const void *near, struct lane **out)
{
	void *context = NULL;
	int primary, result = device_context(near, &context, &primary);
	struct lane *lane = *lanes;

	if (result)
		return lane_failed(result);
	while (lane && (lane->way != way || lane->context != context))
		lane = lane->next;
	if (lane && primary >= 0)
		device_driver.primary_release(primary);
	if (!lane) {
		lane = lane_new(way, context, primary, &result);
		if (!lane)
			return lane_failed(result);
		lane->next = *lanes;
		*lanes = lane;
	}
	*out = lane;
	return COLL_SUCCESS;
}

int lane_start(struct lane *lane, const struct lane_copy *copy)
{
	int at = (lane->first + lane->count) % LANE_DEEP;
	int result = lane_enter(lane);

	if (result)
		return device_copy_failed(copy->dst, copy->src, copy->n, result);
	result = device_driver.copy((uintptr_t)copy->dst, (uintptr_t)copy->src, copy->n,
				    lane->stream);
	if (!result) {
		result = device_driver.event_record(lane->event[at], lane->stream);
		if (result) /* then nobody could ask for the copy, which is under way */
			device_driver.stream_wait(lane->stream);
	}
	lane_leave();
	if (result)
		return device_copy_failed(copy->dst, copy->src, copy->n, result);
	lane->copy[at] = *copy;
	lane->count++;
	return COLL_SUCCESS;
}

int lane_poll(struct lane *lane, struct lane_copy *copy)
{
	int result = lane_enter(lane);

	if (!result) {
		result = device_driver.event_query(lane->event[lane->first]);
		lane_leave();
	}
	if (result == CUDA_NOT_READY)
		return COLL_IN_PROGRESS;
	*copy = lane->copy[lane->first];
	lane->first = (lane->first + 1) % LANE_DEEP;
	lane->count--;
	return result ? device_copy_failed(copy->dst, copy->src, copy->n, result) : COLL_SUCCESS;
}

void lane_abandon(struct lane **lanes, struct lane *lane)
{
	while (*lanes != lane)
		lanes = &(*lanes)->next;
	*lanes = lane->next;
}

void lanes_free(struct lane **lanes)
{
	while (*lanes) {
		struct lane *lane = *lanes;

		*lanes = lane->next;
		lane_free(lane);
	}
}
