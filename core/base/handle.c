/* SPDX-License-Identifier: BSD-3-Clause */
/* handle.c - the table of slots behind handles. */
#include "base/handle.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

static pthread_mutex_t handle_lock = PTHREAD_MUTEX_INITIALIZER;
struct handle_slot *_Atomic handle_chunks[HANDLE_CHUNKS];
static uint32_t handle_used, handle_free;
static int handle_in_child; /* 1: in a child after fork; constant once there is a second thread */

_Atomic int handle_bars;
static _Thread_local int handle_barred; /* depth */

static const uint64_t HANDLE_PINS = (1u << HANDLE_PIN_BITS) - 1;

static uint64_t handle_state(uint32_t generation, int type)
{
	return (uint64_t)generation << 32 | (uint64_t)type << HANDLE_PIN_BITS;
}

/* Returns the number of a free slot, or UINT32_MAX.  The caller holds handle_lock. */
static uint32_t handle_take_slot(void)
{
	uint32_t number = handle_free;
	struct handle_slot *chunk;

	if (number) {
		handle_free = handle_find(number - 1)->next_free;
		return number - 1;
	}
	number = handle_used;
	if (number >= HANDLE_MOST)
		return UINT32_MAX;
	if (number % HANDLE_CHUNK == 0) {
		chunk = calloc(HANDLE_CHUNK, sizeof(*chunk));
		if (!chunk)
			return UINT32_MAX;
		atomic_store(&handle_chunks[number / HANDLE_CHUNK], chunk);
	}
	handle_used++;
	return number;
}

void *handle_new(int type, void *object)
{
	struct handle_slot *slot;
	uint32_t number, generation;

	pthread_mutex_lock(&handle_lock);
	number = handle_take_slot();
	pthread_mutex_unlock(&handle_lock);
	if (number == UINT32_MAX)
		return NULL;
	slot = handle_find(number);
	generation = (uint32_t)(atomic_load(&slot->state) >> 32) + 1;
	slot->object = object;
	atomic_store(&slot->state, handle_state(generation, type));
	return (void *)(uintptr_t)((uint64_t)generation << 32 | (number + 1));
}

int handle_none(const char *what)
{
	int full;

	pthread_mutex_lock(&handle_lock);
	full = handle_used == HANDLE_MOST && !handle_free;
	pthread_mutex_unlock(&handle_lock);
	if (full)
		return error_set(
			COLL_ERR_NO_MEMORY,
			"no handle for %s: the process has %d communicators, requests, "
			"events and other objects with handles, and cannot have more: destroy "
			"or free those that are not needed",
			what, HANDLE_MOST);
	return error_set(COLL_ERR_NO_MEMORY, "no memory for %s", what);
}

/* handle_end keeps the object if a thread has the handle pinned for so long. */
enum { HANDLE_LONGEST_US = 2000000 };

int handle_retire(void *handle, int64_t timeout_us)
{
	uint32_t number = (uint32_t)(uintptr_t)handle - 1;
	struct handle_slot *slot = handle_find(number);
	uint64_t state = atomic_load(&slot->state);
	int64_t end = 0;

	do {
		if (!handle_type(state)) {
			atomic_fetch_sub(&slot->state, 1);
			return -1;
		}
	} while (!atomic_compare_exchange_weak(&slot->state, &state,
					       state & ~((uint64_t)0xff << HANDLE_PIN_BITS)));
	while ((atomic_load(&slot->state) & HANDLE_PINS) > 1) {
		if (!end)
			end = clock_now_us() + timeout_us;
		if (clock_now_us() >= end)
			return HANDLE_PINNED;
		clock_nap(100);
	}
	atomic_fetch_sub(&slot->state, 1);
	pthread_mutex_lock(&handle_lock);
	slot->next_free = handle_free;
	handle_free = number + 1;
	pthread_mutex_unlock(&handle_lock);
	return 0;
}

int handle_end(void *handle, const char *what)
{
	const int code = handle_retire(handle, HANDLE_LONGEST_US);

	if (code == HANDLE_PINNED)
		log_warn("%s is not freed: for %d s a thread has been in a call with it, or a "
			 "thread has left such a call by siglongjmp or its own end",
			 what, HANDLE_LONGEST_US / 1000000);
	return code;
}

void handle_bar(void)
{
	atomic_fetch_add(&handle_bars, 1);
	handle_barred++;
}

void handle_unbar(void)
{
	handle_barred--;
	atomic_fetch_sub(&handle_bars, 1);
}

int handle_is_barred(void)
{
	return handle_barred;
}

const char *handle_trouble(const void *handle)
{
	if (!handle)
		return "NULL";
	if (handle_barred)
		return "used in the callback of a request, which must not call the library: let it "
		       "set a flag, "
		       "post a semaphore or write to an eventfd";
	return handle_in_child ? "not valid: destroyed, or of the parent process before fork"
			       : "not valid: destroyed, or never made";
}

void handle_fork_lock(void)
{
	pthread_mutex_lock(&handle_lock);
}

void handle_fork_unlock(void)
{
	pthread_mutex_unlock(&handle_lock);
}

void handle_forked(void)
{
	handle_in_child = 1;
	for (uint32_t i = 0; i < handle_used; i++) {
		struct handle_slot *slot = handle_find(i);
		uint64_t state = atomic_load(&slot->state);

		atomic_store(&slot->state, handle_state((uint32_t)(state >> 32), 0));
	}
}
