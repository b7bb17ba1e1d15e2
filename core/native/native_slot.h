/* SPDX-License-Identifier: BSD-3-Clause */
/* native_slot.h - the backend's own functions for whole calls: which function does a call. */
#ifndef CORE_NATIVE_NATIVE_SLOT_H
#define CORE_NATIVE_NATIVE_SLOT_H

#include "comm/call.h"

/* The function for a kind of operation, or NULL: also where results must be reproducible. */
native_fn native_slot_of_kind(const struct lane *lane, int kind);
/* The function for a call whose kinds of memory are known, or NULL. */
native_fn native_slot(const struct lane *lane, const struct call *call);
/* Has the backend a function for the kind, whether or not it may be used? */
int native_has_kind(const struct lane *lane, int kind);
/* Does the backend's function `takes` see whether a call is in place? */
int native_asks_in_place(const struct lane *lane);
/* Asks a backend without a transport whether it will do the call: COLL_ERR_UNSUPPORTED with a message if not. */
int native_takes_call(const struct lane *lane, const struct call *call);

#endif
