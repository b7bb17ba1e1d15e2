/* SPDX-License-Identifier: BSD-3-Clause */
/* clock.c - the monotonic clock. */
#include "base/clock.h"
#include "base/cancel.h"

#include <errno.h>
#include <time.h>

int64_t clock_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

int64_t clock_now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

int64_t clock_now_ms(void)
{
	return clock_now_us() / 1000;
}

int64_t clock_day_us(void)
{
	struct timespec day;

	clock_gettime(CLOCK_REALTIME, &day);
	return (int64_t)day.tv_sec * 1000000 + day.tv_nsec / 1000;
}

int64_t clock_deadline(int64_t timeout_ms)
{
	/* The limit keeps sums from overflowing, and no wait lasts a year. */
	const int64_t longest = INT64_C(365) * 24 * 3600 * 1000;

	if (timeout_ms < 0)
		timeout_ms = 0;
	return clock_now_ms() + (timeout_ms < longest ? timeout_ms : longest);
}

int64_t clock_remaining(int64_t deadline)
{
	int64_t now = clock_now_ms();

	return deadline > now ? deadline - now : 0;
}

void clock_nap(int64_t us)
{
	CANCEL_OFF;
	const struct timespec time = {.tv_sec = (time_t)(us / 1000000),
				      .tv_nsec = (long)(us % 1000000) * 1000};

	nanosleep(&time, NULL);
}

void clock_cond_init(pthread_cond_t *cond)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attr);
	pthread_condattr_destroy(&attr);
}

int clock_cond_wait(pthread_cond_t *cond, pthread_mutex_t *lock, int64_t deadline)
{
	CANCEL_OFF;
	const struct timespec until = {.tv_sec = (time_t)(deadline / 1000),
				       .tv_nsec = (long)(deadline % 1000) * 1000000};

	return pthread_cond_timedwait(cond, lock, &until) == ETIMEDOUT;
}

/* The deadline is by the realtime clock, because pthread_mutex_timedlock takes no other. */
int clock_lock_within(pthread_mutex_t *lock, int ms)
{
	struct timespec until;

	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += ms % 1000 * 1000000L;
	until.tv_sec += ms / 1000 + until.tv_nsec / 1000000000;
	until.tv_nsec %= 1000000000;
	return !pthread_mutex_timedlock(lock, &until);
}
