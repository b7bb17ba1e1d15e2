/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lock.h - a lock that costs a few instructions while no thread waits for it.  Waiting threads sleep.  Every call of the
 * library takes a lock twice, and a pthread_mutex_t takes seven times as many instructions.  All zero is free.
 */
#ifndef CORE_BASE_LOCK_H
#define CORE_BASE_LOCK_H

#include <stdatomic.h>
#include <stdint.h>

enum { LOCK_FREE, LOCK_TAKEN, LOCK_CONTENDED /* taken, and threads may wait for it */ };

struct lock {
	_Atomic uint32_t state;
};

/* For the functions of this header only. */
void lock_wait(struct lock *lock);
void lock_wake(struct lock *lock);

/* Takes the lock and returns 1 if the lock is free, else returns 0. */
static inline int lock_try(struct lock *lock)
{
	uint32_t state = LOCK_FREE;

	return atomic_compare_exchange_strong_explicit(&lock->state, &state, LOCK_TAKEN,
						       memory_order_acquire, memory_order_relaxed);
}

static inline void lock_acquire(struct lock *lock)
{
	if (!lock_try(lock))
		lock_wait(lock);
}

/* Takes the lock and returns 1, or returns 0 if the lock does not become free within timeout_us. */
int lock_within(struct lock *lock, int64_t timeout_us);

static inline void lock_release(struct lock *lock)
{
	if (atomic_exchange_explicit(&lock->state, LOCK_FREE, memory_order_release) ==
	    LOCK_CONTENDED)
		lock_wake(lock);
}

#endif
