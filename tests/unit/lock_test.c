/* SPDX-License-Identifier: BSD-3-Clause */
/* lock_test.c - locks: threads exclude each other, sleep until a lock is free, and give up in time. */
#include "../lib/tap.h"
#include "base/clock.h"
#include "base/lock.h"

#include <pthread.h>
#include <time.h>

enum { TEST_THREADS = 4, TEST_TURNS = 20000 };

static struct lock test_lock;
static long test_count; /* guarded by the lock */

static void *count_up(void *arg)
{
	(void)arg;
	for (int i = 0; i < TEST_TURNS; i++) {
		if (i % 3 == 0)
			lock_acquire(&test_lock);
		else if (i % 3 == 1)
			while (!lock_within(&test_lock, 1000))
				;
		else
			while (!lock_try(&test_lock))
				;
		test_count++;
		lock_release(&test_lock);
	}
	return NULL;
}

static void test_exclusion(void)
{
	pthread_t thread[TEST_THREADS];

	for (int i = 0; i < TEST_THREADS; i++)
		if (pthread_create(&thread[i], NULL, count_up, NULL))
			bail_out("no thread");
	for (int i = 0; i < TEST_THREADS; i++)
		pthread_join(thread[i], NULL);
	is_int(test_count, (long)TEST_THREADS * TEST_TURNS, "threads exclude each other");
	ok(lock_try(&test_lock), "then the lock is free");
	lock_release(&test_lock);
}

static void *take(void *arg)
{
	lock_acquire(&test_lock);
	*(int64_t *)arg = clock_now_us();
	lock_release(&test_lock);
	return NULL;
}

/* A thread that sleeps for the lock wakes when it is free. */
static void test_sleep(void)
{
	const struct timespec moment = {.tv_nsec = 50000000};
	int64_t begin = clock_now_us(), taken = 0;
	struct timespec cpu;
	pthread_t thread;
	clockid_t clock;

	lock_acquire(&test_lock);
	if (pthread_create(&thread, NULL, take, &taken) || pthread_getcpuclockid(thread, &clock))
		bail_out("no thread");
	nanosleep(&moment, NULL);
	clock_gettime(clock, &cpu);
	lock_release(&test_lock);
	pthread_join(thread, NULL);
	ok(taken - begin >= 50000, "a thread waits until the lock is free");
	ok(cpu.tv_sec == 0 && cpu.tv_nsec < 25000000, "and sleeps meanwhile");
}

static void test_within(void)
{
	int64_t begin = clock_now_us();

	lock_acquire(&test_lock);
	is_int(lock_try(&test_lock), 0, "a lock that is taken");
	is_int(lock_within(&test_lock, 0), 0, "cannot be taken at once");
	is_int(lock_within(&test_lock, 20000), 0, "nor in a time");
	ok(clock_now_us() - begin >= 20000, "which has passed");
	lock_release(&test_lock);
	is_int(lock_within(&test_lock, 0), 1, "one that is free is taken at once");
	lock_release(&test_lock);
}

int main(void)
{
	test_exclusion();
	test_sleep();
	test_within();
	return done_testing();
}
