/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe.h - the observers (observer.h) that a communicator and all communicators made from it tell of their events.
 *
 * The option `observers` names them; core/plugin has found, checked and opened their files.  The state of each observer
 * belongs to the context of the communicator that is not made from another (endpoint/context.h: context_observe).  The
 * events are filled in right of here, in comm/observed.h.
 */
#ifndef CORE_OBSERVE_OBSERVE_H
#define CORE_OBSERVE_OBSERVE_H

#include "plugin/plugin.h"

#include <stdatomic.h>

struct observers;

/* A bit beside COLL_OBSERVE_*: the observer wants events that others make up for, too; it has no flag COLL_OBSERVER_TERSE. */
enum { OBSERVE_ALL = 1 << 30 };

/* The communicator that the observers are opened for.  The strings outlive the observers. */
struct observe_place {
	const char *host, *backend;
	uint64_t job; /* the same on all ranks of a job; another number in another job */
	int rank, nranks;
};

/*
 * Opens the observers that the option `observers` names.  An observer that was not found, or was refused, or refuses to
 * open is a warning.  Returns NULL if none is open.
 */
struct observers *observers_open(const struct plugin_list *plugins, const struct config *config,
				 const struct observe_place *place);
/* Closes the observers, but not in a process that fork has made.  Accepts NULL. */
void observers_close(struct observers *observers);

/* Returns the events that at least one of the observers wants: COLL_OBSERVE_* bits, and OBSERVE_ALL.  Accepts NULL. */
uint32_t observers_wanted(const struct observers *observers);
/* Return the number of open observers, and the name of observer `number`, or NULL: numbers begin at 1.  Both accept NULL. */
uint32_t observers_count(const struct observers *observers);
const char *observers_name(const struct observers *observers, uint32_t number);

/*
 * Passes the event to each observer that wants it; in a process that fork has made, to none.  more: OBSERVE_ALL if another
 * event makes up for this one, else 0.  Keeps errno, and keeps the thread from being cancelled.
 *
 * *inside is the number of the observer in whose function `event` the calling thread is, or 0.  It is a plain store before
 * and after the function, so that it may lie in memory that another process reads, and names the observer that has
 * crashed or blocks.  Calls that may come at once need a word each.
 */
void observers_tell(const struct observers *observers, _Atomic uint32_t *inside,
		    const coll_observed_t *event, uint32_t more);

#endif
