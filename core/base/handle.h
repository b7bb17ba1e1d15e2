/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * handle.h - handles are values: a slot number and a generation, never an address.  The table recognises
 * a handle of a destroyed object for ever, so its use is an error and not a crash.
 */
#ifndef CORE_BASE_HANDLE_H
#define CORE_BASE_HANDLE_H

#include <stdint.h>

enum { HANDLE_COMM = 1, HANDLE_REQUEST = 2, HANDLE_EVENT = 3, HANDLE_INFO = 4 };

/* A new handle for the object; NULL if memory has run out. */
void *handle_new(int type, void *object);
/* The object, kept from being retired until handle_unpin; NULL if the handle is not valid. */
void *handle_pin(int type, void *handle);
void handle_unpin(void *handle);
/*
 * Makes the handle invalid, then waits until nobody but the caller has it pinned.  The caller has
 * it pinned once, which this ends.  Returns 0, or -1 if another thread was quicker.
 */
int handle_retire(void *handle);

/* Why handle_pin refused a handle: "NULL", "not valid: ...". */
const char *handle_trouble(const void *handle);

/*
 * Around fork: the table is locked across it.  In the child every handle becomes invalid, since its
 * object belongs to the parent.
 */
void handle_fork_lock(void);
void handle_fork_unlock(void);
void handle_forked(void);

#endif
