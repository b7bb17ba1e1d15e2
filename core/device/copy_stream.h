/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_stream.h - copies between a device and the host that nobody waits for: a lane is a stream of its own
 * in one context, for one direction, on which copies are started, and asked later whether they are
 * done, in their order.  Whoever owns a list of lanes serialises what is done with them.  No thread's
 * current context changes.
 */
#ifndef CORE_DEVICE_COPY_STREAM_H
#define CORE_DEVICE_COPY_STREAM_H

#include <stddef.h>
#include <stdint.h>

/* From a device, to a device. */
enum { LANE_IN, LANE_OUT, LANES };

/* So many copies are under way on a lane: enough to keep a device busy, few to be waited for. */
enum { LANE_DEEP = 16 };

struct lane {
	struct lane *next;
	int way;
	void *context;
	int primary; /* the device whose primary context is held, or -1 */
	void *stream;
	void *event[LANE_DEEP];
	struct lane_copy {
		void *owner;
		int step; /* for the owner */
		void *dst;
		const void *src;
		size_t n;
	} copy[LANE_DEEP]; /* a ring */
	int first, count;
};

/* The lane for memory of a device, made if the list has none.  A code, with a sentence. */
int lane_find(struct lane **lanes, int way, const void *near, struct lane **lane);
/* Starts one; not if the lane is full.  COLL_ERR_DEVICE, with a sentence, if nothing was started. */
int lane_start(struct lane *lane, const struct lane_copy *copy);
/*
 * Is the oldest copy over?  COLL_IN_PROGRESS, else *copy is that one and no longer on the lane:
 * COLL_SUCCESS or COLL_ERR_DEVICE, with a sentence.  Not if the lane is empty.
 */
int lane_poll(struct lane *lane, struct lane_copy *copy);
/* Takes it out of the list, with a device that does not end its copies: nothing of it is freed. */
void lane_abandon(struct lane **lanes, struct lane *lane);
/* Frees lanes on which nothing is under way. */
void lanes_free(struct lane **lanes);

#endif
