/* SPDX-License-Identifier: BSD-3-Clause */
/* lock.c - how threads wait for a lock: they sleep on a futex, whose value is the state of the lock. */
#include "base/lock.h"
#include "base/clock.h"

#include <linux/futex.h>
#include <stddef.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* Sleeps while the state is LOCK_CONTENDED, at most timeout_us.  A negative timeout is no limit. */
static void lock_sleep(struct lock *lock, int64_t timeout_us)
{
	const struct timespec t = {.tv_sec = (time_t)(timeout_us / 1000000),
				   .tv_nsec = (long)(timeout_us % 1000000) * 1000};

	syscall(SYS_futex, &lock->state, FUTEX_WAIT_PRIVATE, LOCK_CONTENDED,
		timeout_us < 0 ? NULL : &t, NULL, 0);
}

/* Tries to take the lock and marks it as contended, because other threads may still sleep on it.  Returns 1 on success. */
static int lock_try_contended(struct lock *lock)
{
	return atomic_exchange_explicit(&lock->state, LOCK_CONTENDED, memory_order_acquire) ==
	       LOCK_FREE;
}

void lock_wait(struct lock *lock)
{
	while (!lock_try_contended(lock))
		lock_sleep(lock, -1);
}

void lock_wake(struct lock *lock)
{
	syscall(SYS_futex, &lock->state, FUTEX_WAKE_PRIVATE, 1, NULL, NULL, 0);
}

int lock_within(struct lock *lock, int64_t timeout_us)
{
	const int64_t until = clock_now_us() + timeout_us;
	int64_t left = timeout_us;

	if (lock_try(lock))
		return 1;
	while (!lock_try_contended(lock)) {
		if (left <= 0)
			return 0;
		lock_sleep(lock, left);
		left = until - clock_now_us();
	}
	return 1;
}
