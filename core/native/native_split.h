/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native_split.h - communicators made from others over a backend that has a transport, and whose own functions serve these
 * communicators too (COLL_BACKEND_NATIVE_SPLIT).
 *
 * Such a communicator shares its parent's endpoint for messages, as over every transport, and has a second endpoint for
 * the backend's own functions.
 */
#ifndef CORE_NATIVE_NATIVE_SPLIT_H
#define CORE_NATIVE_NATIVE_SPLIT_H

#include "comm/comm.h"

/* The lock is held in all of these. */

/* The lane is new: it uses its second endpoint, if it has one. */
void native_split_begin(struct lane *lane);
/* Closes the second endpoint of a lane, if it has one.  The lane keeps the host table until native_split_free. */
void native_split_close(struct lane *lane);
/* Closes the endpoint if it is open, and frees its host table.  Accepts NULL. */
void native_split_free(struct native_split *split);
/* The endpoint of a context is closed next: closes the second endpoints of its lanes. */
void native_split_close_all(struct context *context);

#endif
