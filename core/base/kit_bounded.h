/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kit_bounded.h - for plugins: calls a function of another library that waits without a limit of time.  A thread of its own
 * makes the call, and the caller leaves the thread behind when it waits no longer.
 */
#ifndef CORE_BASE_KIT_BOUNDED_H
#define CORE_BASE_KIT_BOUNDED_H

#include <stdint.h>

/* The call, as the first member of a struct with its arguments and results. */
struct bounded {
	void (*run)(struct bounded *b); /* makes the call, in the other thread */
	void (*free)(struct bounded *
			     b); /* frees the struct after the end of a call that was left behind */
	int done, left;          /* begin as 0 */
};

/* Starts the call.  Returns 0, or an errno if there is no thread for it. */
int bounded_start(struct bounded *b);
/* Waits for the end of the call, until the deadline of clock_deadline.  Returns 1 if the call has ended. */
int bounded_wait(struct bounded *b, int64_t deadline);
/*
 * The caller waits no longer.  Returns 1 if the call has ended: then the struct belongs to the caller.  Otherwise the struct
 * belongs to the other thread, which passes it to `free` at the end of the call.
 */
int bounded_leave(struct bounded *b);

#endif
