/* SPDX-License-Identifier: BSD-3-Clause */
/* native_impl.h - the state of a communicator whose backend has no transport, for native.c and native_submit.c. */
#ifndef CORE_NATIVE_NATIVE_IMPL_H
#define CORE_NATIVE_NATIVE_IMPL_H

#include "native/native.h"
#include "base/error.h"

enum {
	/* The cache of buffer addresses: so many sets, each of a cache line. */
	NATIVE_SETS = 64,
	NATIVE_SET = 8,
	NATIVE_MARKERS = 16 /* most completion markers in flight */
};

/* A completion marker: a backend's event behind operation `number`. */
struct native_marker {
	void *event; /* made at first use, and reused */
	uint64_t number;
};

struct native {
	uint64_t submitted; /* all operations up to this one are handed over or complete */
	int unpolled;       /* operations handed over since the last poll */
	int marker_wanted;  /* a marker goes before the next operation */
	uintptr_t seen[NATIVE_SETS][NATIVE_SET]; /* the newest first; 0: none */
	struct native_marker marker[NATIVE_MARKERS];
	unsigned first_marker, markers; /* the markers in order, in a ring */
	struct {
		int32_t kind, dtype;
		uint64_t count;
	} last;
};

static inline const coll_native_t *native_slots(const struct lane *lane)
{
	return lane->context->plugin->backend.native;
}

/* Begins a group of the backend's own on an endpoint of the lane, if the backend has groups. */
static inline void native_group_begin(struct lane *lane, void *ep)
{
	const coll_native_t *native = lane_native(lane);
	coll_error_t err;
	int code;

	error_clear(&err);
	if (!native->group_begin || !ep || lane->error)
		return;
	code = native->group_begin(ep, &err);
	if (code)
		native_fail(lane, code, &err);
	else
		lane->native_groups++;
}

/* Ends it, also after a failure: the group belongs to the thread, not to the endpoint. */
static inline void native_group_end(struct lane *lane, void *ep)
{
	coll_error_t err;
	int code;

	error_clear(&err);
	if (!lane->native_groups || !ep)
		return;
	code = lane_native(lane)->group_end(ep, &err);
	lane->native_groups--;
	if (code && !lane->error)
		native_fail(lane, code, &err);
}

#endif
