/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handle.h - a handle is a value: a slot number and a generation, never an address.  The table recognises the handle of a
 * destroyed object for ever, so its use is an error and not a crash.
 */
#ifndef CORE_BASE_HANDLE_H
#define CORE_BASE_HANDLE_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum {
	HANDLE_COMM = 1,
	HANDLE_REQUEST = 2,
	HANDLE_EVENT = 3,
	HANDLE_INFO = 4,
	HANDLE_REGISTRATION = 5
};

/* The most objects that have handles at a time. */
enum { HANDLE_MOST = 1 << 20 };

/* Makes a handle for the object.  Returns NULL if memory has run out or HANDLE_MOST handles are valid. */
void *handle_new(int type, void *object);
/* Sets and returns the error of an object that malloc or handle_new had no memory for.  what: "a request". */
int handle_none(const char *what);

enum {
	HANDLE_CHUNK = 256, /* slots that are allocated at a time */
	HANDLE_CHUNKS = HANDLE_MOST / HANDLE_CHUNK,
	HANDLE_PIN_BITS = 24
};

/*
 * state: generation (32 bits), type (8 bits; 0: free or retired), pins (24 bits).  A handle is the
 * generation (32 bits), then the slot number plus one (so that no handle is NULL).
 */
struct handle_slot {
	_Atomic uint64_t state;
	void *object;
	uint32_t next_free; /* the slot's number plus one; 0: none */
};

/*
 * For the functions of this header only.  Every call of the program reads handle_chunks and handle_bars.  The compiler reads a
 * hidden variable without the table of addresses that other libraries may replace.
 */
extern struct handle_slot *_Atomic handle_chunks[HANDLE_CHUNKS]
	__attribute__((visibility("hidden")));

static inline int handle_type(uint64_t state)
{
	return (int)(state >> HANDLE_PIN_BITS & 0xff);
}

static inline struct handle_slot *handle_find(uint32_t number)
{
	struct handle_slot *chunk;

	if (number >= HANDLE_MOST)
		return NULL;
	chunk = atomic_load(&handle_chunks[number / HANDLE_CHUNK]);
	return chunk ? &chunk[number % HANDLE_CHUNK] : NULL;
}

/* Threads between handle_bar and handle_unbar. */
extern _Atomic int handle_bars __attribute__((visibility("hidden")));
int handle_is_barred(void);

/*
 * Pins the handle, and returns its slot: no thread can retire the handle before handle_unpin.  Returns NULL if the handle is not
 * valid, or on a thread after handle_bar.  Every call of the program passes here, so the function is inline.
 */
static inline struct handle_slot *handle_pin_slot(int type, void *handle)
{
	uint64_t value = (uintptr_t)handle, state;
	struct handle_slot *slot;

	if (atomic_load_explicit(&handle_bars, memory_order_relaxed) && handle_is_barred())
		return NULL;
	slot = handle_find((uint32_t)value - 1);
	if (!slot)
		return NULL;
	state = atomic_load(&slot->state);
	do {
		if (state >> HANDLE_PIN_BITS !=
		    (value >> 32 << (32 - HANDLE_PIN_BITS) | (uint64_t)type))
			return NULL;
	} while (!atomic_compare_exchange_weak(&slot->state, &state, state + 1));
	return slot;
}

/* The same, but returns the object. */
static inline void *handle_pin(int type, void *handle)
{
	const struct handle_slot *slot = handle_pin_slot(type, handle);

	return slot ? slot->object : NULL;
}

/* Returns the object of a handle that the caller has pinned. */
static inline void *handle_object(void *handle)
{
	return handle_find((uint32_t)(uintptr_t)handle - 1)->object;
}

/* Returns the slot of a valid handle, which stays where it is. */
static inline struct handle_slot *handle_slot_of(void *handle)
{
	const uint32_t number = (uint32_t)(uintptr_t)handle - 1;

	return &atomic_load(&handle_chunks[number / HANDLE_CHUNK])[number % HANDLE_CHUNK];
}

/* The caller has pinned the handle, so that its slot is there. */
static inline void handle_unpin(void *handle)
{
	atomic_fetch_sub(&handle_slot_of(handle)->state, 1);
}

/* The result of a handle_retire after which another thread still has the handle pinned. */
enum { HANDLE_PINNED = 1 };

/*
 * Retires a handle that the caller has pinned: makes it invalid, waits until no other thread has it pinned, timeout_us at
 * most, and unpins it.  Returns 0, or -1 if another thread has retired it.  Returns HANDLE_PINNED if a thread is still in a
 * call with the handle, or has left such a call by a jump or its own end: then the object must never be freed.
 */
int handle_retire(void *handle, int64_t timeout_us);
/* Retires with a limit of two seconds.  After HANDLE_PINNED a line of the log says that `what` is not freed. */
int handle_end(void *handle, const char *what);

/*
 * From handle_bar to handle_unbar handle_pin refuses every handle on the calling thread.  The thread runs a callback of the
 * program there and holds a lock, so a call into the library would wait for that lock for ever.
 */
void handle_bar(void);
void handle_unbar(void);

/* Returns the reason why handle_pin refused a handle: "NULL", "not valid: ...". */
const char *handle_trouble(const void *handle);

/*
 * The fork handlers call these functions.  The table stays locked across the fork.  In the child every handle becomes
 * invalid, because its object belongs to the parent.
 */
void handle_fork_lock(void);
void handle_fork_unlock(void);
void handle_forked(void);

#endif
