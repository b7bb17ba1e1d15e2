/* SPDX-License-Identifier: BSD-3-Clause */
/* native_impl.h - the state of a communicator whose backend has no transport, for native.c and native_submit.c. */
#ifndef CORE_NATIVE_NATIVE_IMPL_H
#define CORE_NATIVE_NATIVE_IMPL_H

#include "native/native.h"
#include "base/error.h"
#include "page/record.h"

enum {
	/* The cache of buffer addresses: so many sets, whose numbers have so many bits, each of a cache line. */
	NATIVE_SET_BITS = 6,
	NATIVE_SETS = 1 << NATIVE_SET_BITS,
	NATIVE_SET = 8,
	NATIVE_MARKERS = 16,   /* most completion markers in flight */
	NATIVE_POLL_EACH = 256 /* operations after which a program that never waits polls */
};

/* A completion marker: a backend's event behind operation `number`. */
struct native_marker {
	void *event; /* made at first use, and reused */
	uint64_t number;
};

/* The last call of native_now: its arguments, and the results of its check, which hold for a call with other buffers too. */
struct native_again {
	coll_args_t args; /* of kind 0: no later call is like it */
	native_fn slot;
	struct signature signature, hashed; /* hashed: see call_log_hashed */
	struct record record;
	int collective;
	int in_place;
	uintptr_t apart; /* from the send buffer to the receive buffer */
	size_t longer;   /* bytes of the longer buffer */
};

struct native {
	struct native_again again;
	uint64_t submitted; /* all operations up to this one are handed over or complete */
	int until_poll;     /* operations that may follow before the next poll */
	int marker_wanted;  /* a marker goes before the next operation */
	uintptr_t seen[NATIVE_SETS][NATIVE_SET]; /* the newest first; 0: none */
	struct native_marker marker[NATIVE_MARKERS];
	unsigned first_marker, markers; /* the markers in order, in a ring */
};

static inline uintptr_t *native_set(struct native *n, uintptr_t address)
{
	/* Spreads addresses at equal distances, of 256 bytes to 2 GiB, evenly over the sets: the upper bits tell the set. */
	const uint64_t odd = UINT64_C(0xcd613e30d8f16adf);

	return n->seen[(uint64_t)address * odd >> (64 - NATIVE_SET_BITS)];
}

/* The address is not the newest of its set: looks at the others, then asks for the kind of memory, and remembers the address. */
int native_takes_new(struct lane *lane, const void *ptr);

/* Is the memory of a kind that the backend takes?  The cache has addresses of buffers, not ranges. */
static inline int native_takes_at(struct lane *lane, const void *ptr)
{
	return *native_set(lane->native, (uintptr_t)ptr) == (uintptr_t)ptr ||
	       native_takes_new(lane, ptr);
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
