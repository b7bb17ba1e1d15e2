/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * memory.c - memory that the library allocates for the program: by the backend, or as ordinary memory.
 *
 * The memory belongs to the process and may outlive its communicator, so a table has all of it.
 */
#include "comm/comm.h"
#include "endpoint/context_log.h"
#include "base/array.h"
#include "base/cancel.h"
#include "base/error.h"

#include <pthread.h>
#include <stdlib.h>

struct memory {
	void *at;
	void (*end)(void *at); /* frees it */
};

static struct {
	pthread_mutex_t lock;
	struct memory *memory;
	int count, capacity;
} memories = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ------------------------------------------------------------------------ forks -- */

static void memory_lock(void)
{
	pthread_mutex_lock(&memories.lock);
}

static void memory_unlock(void)
{
	pthread_mutex_unlock(&memories.lock);
}

/* A child has no memory of a backend; ordinary memory it has as any other memory. */
static void memory_forked(void)
{
	int kept = 0;

	for (int i = 0; i < memories.count; i++)
		if (memories.memory[i].end == free)
			memories.memory[kept++] = memories.memory[i];
	memories.count = kept;
	memory_unlock();
}

static void memory_watch_forks(void)
{
	pthread_atfork(memory_lock, memory_unlock, memory_forked);
}

/* ------------------------------------------------------------------- allocation -- */

/* Tells the user once why operations on the memory take a copy more than the backend's own memory would. */
static void memory_tell(struct context *context, const char *why)
{
	if (!why[0] || context->memory_told)
		return;
	context->memory_told = 1;
	context_log(context, COLL_LOG_INFO, "coll_mem_alloc allocates ordinary memory: %s", why);
}

/* Allocates the memory.  Without a function of the backend, or if the backend has nothing better, it is ordinary memory. */
static int memory_make(struct lane *lane, size_t bytes, struct memory *memory)
{
	struct context *context = lane->context;
	const coll_backend_t *b = &context->plugin->backend;
	const coll_transport_t *t = b->transport;
	int32_t (*alloc)(void *ep, uint64_t bytes, void **ptr, coll_error_t *err) =
		t ? t->mem_alloc : b->native->mem_alloc;
	void *ep = t ? context->ep : lane_native_ep(lane);
	coll_error_t err;
	int code;

	error_clear(&err);
	memory->end = t ? t->mem_free : b->native->mem_free;
	code = alloc && ep ? alloc(ep, bytes, &memory->at, &err) : COLL_ERR_UNSUPPORTED;
	if (!code)
		return COLL_SUCCESS;
	if (code != COLL_ERR_UNSUPPORTED)
		return error_take(code, &err);
	if (!(context->memory & COLL_MEM_HOST))
		return err.text[0] ? error_take(code, &err)
				   : error_set(code,
					       "coll_mem_alloc: backend '%s' allocates no device "
					       "memory; allocate it with CUDA",
					       b->name);
	memory_tell(context, err.text);
	memory->end = free;
	memory->at = context->host.alloc(&context->host, bytes);
	if (!memory->at)
		return error_set(COLL_ERR_NO_MEMORY, "coll_mem_alloc: no memory for %zu bytes",
				 bytes);
	return COLL_SUCCESS;
}

/* Enters the memory into the table, or frees it. */
static int memory_add(const struct memory *memory)
{
	struct memory *grown;

	memory_lock();
	grown = array_grow(memories.memory, memories.count, &memories.capacity, sizeof(*grown));
	if (grown) {
		memories.memory = grown;
		grown[memories.count++] = *memory;
	}
	memory_unlock();
	if (grown)
		return COLL_SUCCESS;
	memory->end(memory->at);
	return error_set(COLL_ERR_NO_MEMORY, "coll_mem_alloc: no memory for its table");
}

coll_result_t coll_mem_alloc(coll_comm_t handle, size_t bytes, void **ptr)
{
	CANCEL_OFF;
	static pthread_once_t forks = PTHREAD_ONCE_INIT;
	struct memory memory = {.at = NULL};
	struct lane *lane;
	int code;

	if (!ptr)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_mem_alloc: ptr is NULL");
	*ptr = NULL;
	if (bytes > PTRDIFF_MAX)
		return error_set(
			COLL_ERR_INVALID_ARGUMENT,
			"coll_mem_alloc: bytes is %zu, but no memory is larger than %td bytes",
			bytes, PTRDIFF_MAX);
	lane = comm_enter(handle, "coll_mem_alloc");
	if (!lane)
		return error_code();
	pthread_once(&forks, memory_watch_forks);
	code = bytes ? memory_make(lane, bytes, &memory) : COLL_SUCCESS;
	if (!code && bytes)
		code = memory_add(&memory);
	comm_leave(lane);
	if (!code)
		*ptr = memory.at;
	return code;
}

coll_result_t coll_mem_free(void *ptr)
{
	CANCEL_OFF;
	struct memory memory = {.at = NULL};
	int i = 0;

	if (!ptr)
		return COLL_SUCCESS;
	memory_lock();
	while (i < memories.count && memories.memory[i].at != ptr)
		i++;
	if (i < memories.count) {
		memory = memories.memory[i];
		memories.memory[i] = memories.memory[--memories.count];
		memory.end(memory.at);
	}
	memory_unlock();
	if (memory.at)
		return COLL_SUCCESS;
	return error_set(COLL_ERR_INVALID_ARGUMENT,
			 "coll_mem_free: %p is no memory that coll_mem_alloc has returned in this "
			 "process, or the program has freed it already",
			 ptr);
}
