/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h - the monotonic clock, and deadlines by it. */
#ifndef CORE_BASE_CLOCK_H
#define CORE_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

int64_t clock_now_us(void);
int64_t clock_now_ns(void);
/* Returns the clock's value at the kernel's last tick, at most 10 ms ago.  A read takes 5 ns instead of 25. */
static inline int64_t clock_tick_us(void)
{
	struct timespec tick;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &tick);
	/* Every call of a program comes by here, and a division of 32 bits without sign takes a third of the instructions. */
	return (int64_t)tick.tv_sec * 1000000 + (uint32_t)tick.tv_nsec / 1000;
}
int64_t clock_now_ms(void);
/* Returns the time of day: the microseconds since 1970. */
int64_t clock_day_us(void);
/* Returns the time timeout_ms from now.  A negative timeout counts as 0, a timeout longer than a year as a year. */
int64_t clock_deadline(int64_t timeout_ms);
/* Returns the milliseconds until the deadline, or 0 after it. */
int64_t clock_remaining(int64_t deadline);

/* Sleeps for `us` microseconds.  The thread cannot be cancelled there. */
void clock_nap(int64_t us);

/* Makes a condition variable for clock_cond_wait. */
void clock_cond_init(pthread_cond_t *cond);
/*
 * Waits for a signal until the deadline of clock_deadline; the caller holds the lock.  Returns 1 if the deadline has
 * passed.  The thread cannot be cancelled there.
 */
int clock_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline);
/* Takes the lock and returns 1, or returns 0 if another thread keeps it for `ms` milliseconds. */
int clock_lock_within(pthread_mutex_t *lock, int ms);

#endif
