/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_events.h - log lines about calls, their steps, and messages: the library's own observer.  It is open for the
 * communicators that were made while the option `log` asked for such lines:
 *
 *   comm:debug     a line for each communicator, and for each call when it ends
 *   comm:trace     also when the program makes the call, and when the call begins
 *   compose:trace  the steps of calls that the library composes, and the copies of staged buffers
 *   message:debug  a line for each message outside the order of the calls (coll_isend, coll_irecv) when it ends
 *   message:trace  also when the program makes the call
 */
#ifndef CORE_OBSERVE_LOG_EVENTS_H
#define CORE_OBSERVE_LOG_EVENTS_H

#include "base/log.h"

#include <coll/observer.h>

/* The events that become lines now, COLL_OBSERVE_* bits; 0: none. */
uint32_t log_events_wanted(void);
/*
 * The table of the observer, whose open() is never called.  Its state is a struct log_place, which the opener keeps until
 * close() has returned.
 */
extern const coll_observer_t log_events_observer;

/* Writes the sentence of an event, without rank and communicator.  Returns 0 if the event has none. */
int log_event_text(const coll_observed_t *event, char *text, size_t size);

#endif
