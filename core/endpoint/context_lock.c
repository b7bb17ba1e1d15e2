/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * context_lock.c - the lock of a context.  A thread of the program that leaves the library by a jump (siglongjmp out of a
 * signal's handler), or ends there, may keep the lock: some calls do not wait for it without a limit.
 */
#include "endpoint/context.h"

enum { LOCK_SLICE_MS = 200 /* between two looks whether another thread has given up */ };

/* A waiting or progress thread would take the lock again at once if it did not see this thread. */
static void context_count(struct context *context)
{
	atomic_fetch_add(&context->waits.lock_waiters, 1);
}

/* wait_yield_lock may have found that nobody waits. */
static void context_uncount(struct context *context)
{
	int n = atomic_load(&context->waits.lock_waiters);

	while (n > 0 && !atomic_compare_exchange_weak(&context->waits.lock_waiters, &n, n - 1))
		;
}

void context_lock_slowly(struct context *context)
{
	context_count(context);
	lock_acquire(&context->lock);
	context_uncount(context);
}

int context_lock_within(struct context *context, int64_t timeout_ms)
{
	int got;

	context_count(context);
	got = lock_within(&context->lock, timeout_ms * 1000);
	context_uncount(context);
	return got;
}

int context_await_lock(struct context *context, int64_t patience_us)
{
	const int64_t deadline = clock_deadline(patience_us / 1000 + 1);
	int64_t left;
	int got;

	do {
		left = clock_remaining(deadline);
		got = context_lock_within(context, left < LOCK_SLICE_MS ? left : LOCK_SLICE_MS);
	} while (!got && clock_remaining(deadline) > 0 && !atomic_load(&context->lost));
	if (got)
		atomic_store(&context->lost, 0);
	return got;
}
