/* SPDX-License-Identifier: BSD-3-Clause */
/* native_impl.h - the state of a communicator whose backend has no transport, for native.c and native_submit.c. */
#ifndef CORE_NATIVE_NATIVE_IMPL_H
#define CORE_NATIVE_NATIVE_IMPL_H

#include "native/native.h"
#include "base/error.h"
#include "page/record.h"

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

/* The last call of native_now: its arguments, and the results of its check, which hold for a call with other buffers too. */
struct native_again {
	coll_args_t args;
	native_fn slot;
	struct signature signature;
	struct record record;
	int collective;
	int both; /* 1: the call has two buffers, and no counts by rank; 0: no later call is like it */
	int in_place;
	uintptr_t apart; /* from the send buffer to the receive buffer */
	size_t longer;   /* bytes of the longer buffer */
};

struct native {
	struct native_again again;
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

static inline uintptr_t *native_set(struct native *n, uintptr_t address)
{
	const uint64_t odd = UINT64_C(0x9e3779b97f4a7c15); /* spreads the address bits */
	uint64_t hash = (uint64_t)address * odd;

	hash = (hash ^ hash >> 32) * odd;
	return n->seen[hash >> 32 & (NATIVE_SETS - 1)];
}

/* Asks for the kind of memory, and remembers the address if the backend takes it. */
int native_takes_new(struct lane *lane, const void *ptr);

/* Is the memory of a kind that the backend takes?  The cache has addresses of buffers, not ranges. */
static inline int native_takes_at(struct lane *lane, const void *ptr)
{
	const uintptr_t *set = native_set(lane->native, (uintptr_t)ptr);

	for (int i = 0; i < NATIVE_SET; i++)
		if (set[i] == (uintptr_t)ptr)
			return 1;
	return native_takes_new(lane, ptr);
}

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
