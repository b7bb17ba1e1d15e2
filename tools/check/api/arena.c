/* SPDX-License-Identifier: BSD-3-Clause */
/* arena.c - the buffers of a rank's calls, in memory that the backend takes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "check/api/api.h"

/* Small buffers on a device share one allocation: a driver allocates at least a page. */
enum { ARENA_PIECE = 1 << 18, ARENA_SMALL = 1 << 14, ARENA_ALIGN = 64 };

struct block {
	struct block *next;
	enum memory_kind kind;
	int device;
	size_t used; /* bytes used by small buffers; ARENA_PIECE: the block is one large buffer */
	unsigned char *memory;
};

/* The buffers of one rank.  All its threads share them. */
struct api_arena {
	pthread_mutex_t lock;
	struct block *first;
};

__attribute__((noreturn)) static void arena_no_memory(size_t bytes, const char *why)
{
	fprintf(stderr, "the kit has no memory for %zu bytes: %s\n", bytes, why);
	_exit(1);
}

static struct block *arena_add(struct api_arena *arena, enum memory_kind kind, int device,
			       size_t bytes)
{
	struct block *block = calloc(1, sizeof(*block));

	if (!block)
		arena_no_memory(bytes, "malloc fails");
	block->kind = kind;
	block->device = device;
	block->memory = memory_new(kind, device, bytes);
	if (!block->memory)
		arena_no_memory(bytes, memory_error());
	memset(block->memory, 0, bytes);
	block->next = arena->first;
	arena->first = block;
	return block;
}

/*
 * Returns a buffer.  Each buffer in host memory is an allocation of its own, so that a sanitizer sees writes beyond its
 * end.
 */
static void *arena_get(struct api_arena *arena, enum memory_kind kind, int device, size_t bytes)
{
	size_t rounded = (bytes / ARENA_ALIGN + 1) * ARENA_ALIGN;
	struct block *block = arena->first;

	if (kind == MEMORY_HOST || bytes > ARENA_SMALL) {
		block = arena_add(arena, kind, device, bytes);
		block->used = ARENA_PIECE;
		return block->memory;
	}
	while (block && (block->device != device || block->used + rounded > ARENA_PIECE))
		block = block->next;
	if (!block)
		block = arena_add(arena, kind, device, ARENA_PIECE);
	block->used += rounded;
	return block->memory + block->used - rounded;
}

void *api_buffer_of(struct api_rank *r, int32_t rank, size_t bytes)
{
	void *memory;

	pthread_mutex_lock(&r->arena->lock);
	memory = arena_get(r->arena, r->memory, check_device(r->c, rank), bytes);
	pthread_mutex_unlock(&r->arena->lock);
	return memory;
}

void *api_buffer(struct api_rank *r, size_t bytes)
{
	return api_buffer_of(r, r->slot, bytes);
}

void *api_memory(struct api_rank *r, size_t bytes)
{
	void *memory = memory_new(r->memory, r->device, bytes);

	if (!memory)
		api_fail(r, "the kit has no memory: %s", memory_error());
	return memory;
}

void api_arena_make(struct api_rank *r)
{
	r->arena = calloc(1, sizeof(*r->arena));
	if (!r->arena)
		arena_no_memory(sizeof(*r->arena), "malloc fails");
	pthread_mutex_init(&r->arena->lock, NULL);
}

void api_arena_free(struct api_rank *r)
{
	struct block *next;

	for (struct block *block = r->arena->first; block; block = next) {
		next = block->next;
		memory_free(block->kind, block->device, block->memory);
		free(block);
	}
	pthread_mutex_destroy(&r->arena->lock);
	free(r->arena);
	r->arena = NULL;
}
