/* SPDX-License-Identifier: BSD-3-Clause */
/* alloc.h - memory of mem_alloc, for bad plugins that use it wrongly.  A touch of freed memory ends the process. */
#ifndef BAD_ALLOC_H
#define BAD_ALLOC_H

#include <pthread.h>
#include <sys/mman.h>

enum { ALLOC_ROOM = 256 };

static struct {
	void *ep; /* its endpoint */
	uint8_t *at;
	uint64_t size;
} allocs[ALLOC_ROOM];
static pthread_mutex_t alloc_lock = PTHREAD_MUTEX_INITIALIZER;

BAD_FN int32_t alloc_new(void *ep, uint64_t bytes, void **ptr, coll_error_t *err)
{
	void *at = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	int i = 0;

	pthread_mutex_lock(&alloc_lock);
	while (i < ALLOC_ROOM - 1 && allocs[i].at)
		i++;
	if (at != MAP_FAILED && !allocs[i].at) {
		allocs[i].ep = ep;
		allocs[i].at = *ptr = at;
		allocs[i].size = bytes;
	} else {
		err->code = COLL_ERR_NO_MEMORY;
	}
	pthread_mutex_unlock(&alloc_lock);
	return *ptr ? COLL_SUCCESS : COLL_ERR_NO_MEMORY;
}

/* Frees the memory at an address, or all memory of an endpoint. */
BAD_FN void alloc_end_all(void *ep, void *ptr)
{
	pthread_mutex_lock(&alloc_lock);
	for (int i = 0; i < ALLOC_ROOM; i++)
		if (allocs[i].at && (allocs[i].at == ptr || allocs[i].ep == ep)) {
			munmap(allocs[i].at, allocs[i].size);
			allocs[i].at = NULL;
		}
	pthread_mutex_unlock(&alloc_lock);
}

BAD_FN void alloc_end(void *ptr)
{
	alloc_end_all(NULL, ptr);
}

BAD_FN int alloc_has(const void *buf)
{
	int has = 0;

	pthread_mutex_lock(&alloc_lock);
	for (int i = 0; i < ALLOC_ROOM && !has; i++)
		has = allocs[i].at && (const uint8_t *)buf >= allocs[i].at &&
		      (const uint8_t *)buf < allocs[i].at + allocs[i].size;
	pthread_mutex_unlock(&alloc_lock);
	return has;
}

#endif
