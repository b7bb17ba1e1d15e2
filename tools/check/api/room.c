/* SPDX-License-Identifier: BSD-3-Clause */
/* room.c - the buffers of a rank's calls, in memory that the backend takes. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "check/api/api.h"

/* Small rooms of devices lie together: a driver gives no less than a page or more. */
enum { ROOM_PIECE = 1 << 18, ROOM_SMALL = 1 << 14, ROOM_ALIGN = 64 };

struct room {
	struct room *next;
	enum memory_kind kind;
	int device;
	size_t used; /* by small rooms; ROOM_PIECE: it is one of its own */
	unsigned char *memory;
};

/* Of one rank, for all its threads. */
struct api_rooms {
	pthread_mutex_t lock;
	struct room *first;
};

__attribute__((noreturn)) static void room_none(size_t bytes, const char *why)
{
	fprintf(stderr, "the kit has no memory for %zu bytes: %s\n", bytes, why);
	_exit(1);
}

static struct room *room_add(struct api_rooms *rooms, enum memory_kind kind, int device,
			     size_t bytes)
{
	struct room *room = calloc(1, sizeof(*room));

	if (!room)
		room_none(bytes, "malloc fails");
	room->kind = kind;
	room->device = device;
	room->memory = memory_new(kind, device, bytes);
	if (!room->memory)
		room_none(bytes, memory_error());
	memset(room->memory, 0, bytes);
	room->next = rooms->first;
	rooms->first = room;
	return room;
}

/* Host memory is in pieces of its own, so that a sanitizer sees who writes beyond one. */
static void *room_get(struct api_rooms *rooms, enum memory_kind kind, int device, size_t bytes)
{
	size_t rounded = (bytes / ROOM_ALIGN + 1) * ROOM_ALIGN;
	struct room *room = rooms->first;

	if (kind == MEMORY_HOST || bytes > ROOM_SMALL) {
		room = room_add(rooms, kind, device, bytes);
		room->used = ROOM_PIECE;
		return room->memory;
	}
	while (room && (room->device != device || room->used + rounded > ROOM_PIECE))
		room = room->next;
	if (!room)
		room = room_add(rooms, kind, device, ROOM_PIECE);
	room->used += rounded;
	return room->memory + room->used - rounded;
}

void *api_room_of(struct api_rank *r, int32_t rank, size_t bytes)
{
	void *memory;

	pthread_mutex_lock(&r->rooms->lock);
	memory = room_get(r->rooms, r->memory, check_device(r->c, rank), bytes);
	pthread_mutex_unlock(&r->rooms->lock);
	return memory;
}

void *api_room(struct api_rank *r, size_t bytes)
{
	return api_room_of(r, r->slot, bytes);
}

void *api_memory(struct api_rank *r, size_t bytes)
{
	void *memory = memory_new(r->memory, r->device, bytes);

	if (!memory)
		api_fail(r, "the kit has no memory: %s", memory_error());
	return memory;
}

void api_rooms_make(struct api_rank *r)
{
	r->rooms = calloc(1, sizeof(*r->rooms));
	if (!r->rooms)
		room_none(sizeof(*r->rooms), "malloc fails");
	pthread_mutex_init(&r->rooms->lock, NULL);
}

void api_rooms_free(struct api_rank *r)
{
	struct room *next;

	for (struct room *room = r->rooms->first; room; room = next) {
		next = room->next;
		memory_free(room->kind, room->device, room->memory);
		free(room);
	}
	pthread_mutex_destroy(&r->rooms->lock);
	free(r->rooms);
	r->rooms = NULL;
}
