/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * late.h - an answer from another thread, which may come after the asker has given up: the last of the two
 * frees the memory.  The first member of the answer's own struct, or any other.
 */
#ifndef CORE_BASE_LATE_H
#define CORE_BASE_LATE_H

#include <pthread.h>
#include <stdint.h>

struct late {
	pthread_mutex_t lock;
	pthread_cond_t given;
	int done;
	int users; /* of the asker and the answerer, those that have not left */
};

void late_init(struct late *late);
/* The answerer has written the answer, and wakes the asker. */
void late_give(struct late *late);
/* The asker waits for timeout_ms at most: 1 if the answer was given, and may be read. */
int late_wait(struct late *late, int64_t timeout_ms);
/* The last call of either: 1 if the other has left already, so that the caller frees the memory. */
int late_leave(struct late *late);

#endif
