/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * registration.h - memory that the program has registered with a communicator.  The program has a handle
 * of the library for each registration, on every backend.
 */
#ifndef CORE_COMM_REGISTRATION_H
#define CORE_COMM_REGISTRATION_H

#include <stddef.h>

struct lane;

/* The lock of the communicator's context is held in all of these. */

/* Registers memory; *handle becomes its handle, or NULL if there is nothing to register. */
int registration_add(struct lane *lane, void *buf, size_t bytes, void **handle);
/* Ends a registration; NULL is allowed. */
int registration_remove(struct lane *lane, void *handle);
/* Was the handle made for the communicator, and is valid? */
int registration_is_of(const struct lane *lane, void *handle);
/* Ends all registrations of the communicator. */
void registration_remove_all(struct lane *lane);

#endif
