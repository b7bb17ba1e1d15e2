/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.h - the monotonic clock, and deadlines by it. */
#ifndef CORE_BASE_CLOCK_H
#define CORE_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>

int64_t clock_now_us(void);
/* The same clock as of the kernel's last tick, 1 to 10 ms ago at most: a read costs 5 ns and not 25. */
int64_t clock_tick_us(void);
int64_t clock_now_ms(void);
/* The time timeout_ms from now.  A negative timeout counts as 0, a longer one than a year as a year. */
int64_t clock_deadline(int64_t timeout_ms);
/* Milliseconds until the deadline, at least 0. */
int64_t clock_remaining(int64_t deadline);

/* Sleeps so long; a thread of the program is not cancelled there. */
void clock_nap(int64_t us);

/* Makes a condition variable for clock_cond_wait. */
void clock_cond_init(pthread_cond_t *cond);
/*
 * Waits for a signal, with the lock held, until the deadline of clock_deadline: 1 if it has passed.  A thread of the program
 * is not cancelled there.
 */
int clock_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline);
/* Takes the lock, or returns 0 if another thread keeps it for ms milliseconds. */
int clock_lock_within(pthread_mutex_t *lock, int ms);

#endif
