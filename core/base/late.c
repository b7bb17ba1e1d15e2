/* SPDX-License-Identifier: BSD-3-Clause */
/* late.c - an answer from another thread, which may come after the asker has given up. */
#include "base/late.h"
#include "base/clock.h"

void late_init(struct late *late)
{
	pthread_mutex_init(&late->lock, NULL);
	clock_cond_init(&late->given);
	late->done = 0;
	late->users = 2;
}

void late_give(struct late *late)
{
	pthread_mutex_lock(&late->lock);
	late->done = 1;
	pthread_cond_signal(&late->given);
	pthread_mutex_unlock(&late->lock);
}

int late_wait(struct late *late, int64_t timeout_ms)
{
	const int64_t deadline = clock_deadline(timeout_ms);
	int done;

	pthread_mutex_lock(&late->lock);
	while (!late->done && !clock_cond_wait(&late->given, &late->lock, deadline))
		;
	done = late->done;
	pthread_mutex_unlock(&late->lock);
	return done;
}

int late_leave(struct late *late)
{
	int last;

	pthread_mutex_lock(&late->lock);
	last = --late->users == 0;
	pthread_mutex_unlock(&late->lock);
	if (last) {
		pthread_cond_destroy(&late->given);
		pthread_mutex_destroy(&late->lock);
	}
	return last;
}
