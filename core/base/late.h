/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * late.h - an answer from another thread, which may come after the asker has given up.  Whichever of the two threads leaves
 * last frees the memory.  A struct late is a member of the struct that holds the answer.
 */
#ifndef CORE_BASE_LATE_H
#define CORE_BASE_LATE_H

#include <pthread.h>
#include <stdint.h>

struct late {
	pthread_mutex_t lock;
	pthread_cond_t given;
	int done;
	int users; /* threads that have not left: the asker, the answerer */
};

void late_init(struct late *late);
/* The answerer calls it when it has written the answer: wakes the asker. */
void late_give(struct late *late);
/* The asker waits for timeout_ms at most.  Returns 1 if the answer is there and may be read. */
int late_wait(struct late *late, int64_t timeout_ms);
/* Each thread calls it last.  Returns 1 if the other thread has left already: then the caller frees the memory. */
int late_leave(struct late *late);

#endif
