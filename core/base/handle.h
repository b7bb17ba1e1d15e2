/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handle.h - handles are values: a slot number and a generation, never an address.  The table recognises
 * a handle of a destroyed object for ever, so its use is an error and not a crash.
 */
#ifndef CORE_BASE_HANDLE_H
#define CORE_BASE_HANDLE_H

#include <stdint.h>

enum {
	HANDLE_COMM = 1,
	HANDLE_REQUEST = 2,
	HANDLE_EVENT = 3,
	HANDLE_INFO = 4,
	HANDLE_REGISTRATION = 5
};

/* At most so many objects have handles at a time. */
enum { HANDLE_MOST = 1 << 20 };

/* A new handle for the object; NULL if memory has run out or HANDLE_MOST handles are valid. */
void *handle_new(int type, void *object);
/*
 * Sets and returns the error of an object that could not be made, because malloc or handle_new has
 * returned NULL.  what: "a request".
 */
int handle_none(const char *what);
/*
 * Returns the object and pins it: it is not retired before handle_unpin.  NULL if the handle is not
 * valid.
 */
void *handle_pin(int type, void *handle);
void handle_unpin(void *handle);
/*
 * Makes the handle invalid, waits until only the caller has it pinned, and ends the one pin of the
 * caller.  Returns 0, or -1 if another thread has retired the handle.
 */
int handle_retire(void *handle);

/* The reason why handle_pin refused a handle: "NULL", "not valid: ...". */
const char *handle_trouble(const void *handle);

/*
 * Called around fork: the table stays locked across it.  In the child every handle becomes invalid,
 * because its object belongs to the parent.
 */
void handle_fork_lock(void);
void handle_fork_unlock(void);
void handle_forked(void);

#endif
