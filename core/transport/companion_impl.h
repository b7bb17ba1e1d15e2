/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * companion_impl.h - the parts of a companion, each of which calls those after it: companion.c opens it and sends letters,
 * companion_watch.c watches the other ranks, companion_letter.c takes their letters.
 */
#ifndef CORE_TRANSPORT_COMPANION_IMPL_H
#define CORE_TRANSPORT_COMPANION_IMPL_H

#include "transport/companion.h"

/* Control messages between companions, all with the tag MATCH_CONTROL. */
enum {
	COMPANION_HELLO =
		1, /* connects the ranks of a transport that connects at the first message */
	COMPANION_LEAVE = 2, /* the sender has closed its communicators: its end is no failure */
	COMPANION_CARRY = 3  /* a struct companion_letter */
};

/* A control message between two ranks of a communicator whose backend carries none. */
struct companion_letter {
	uint64_t channel; /* names the communicator: see struct context */
	struct control_body body;
};

/*
 * The lock of `context` is held for a moment only.  It guards the endpoint, and the letters here and in the watched
 * contexts.
 */
struct companion {
	struct companion *next;
	struct context *context; /* of its own */
	struct context *watched; /* the native contexts: a list by next_watched */
	int wake_fd;             /* of the watcher */
	int outside;             /* a program may wait outside the library, as of outside_us */
	int64_t outside_us;
	int has_left;          /* this rank has told the others that it leaves */
	uint8_t *left;         /* per rank: it has left */
	_Atomic uint8_t *lost; /* per rank: the connection has ended before it left */
	/* Letters for a communicator that this rank has not made yet, or has freed; the oldest first. */
	struct unexpected *early;
	int nearly;
};

/* The rank on the companion of a rank of the context. */
static inline int companion_rank(const struct context *context, int rank)
{
	return context->origin ? context->origin[rank] : rank;
}

/* The watcher drives the companion from now on; and no more. */
int companion_watch_begin(struct companion *companion);
void companion_watch_end(const struct companion *companion);
/* Is a context still watched? */
int companion_watches(const struct companion *companion);
/* Wakes the watcher: it takes the companion's endpoint on. */
void companion_wake(const struct companion *companion);
void companion_free_letters(struct unexpected *list);
/* A call of the context, or the next one, learns of the news. */
void companion_notify(struct context *context);
/*
 * Takes the messages that have come, and notes the ranks that are lost since the last look: 1 if there are some.
 * The watcher's lock and that of the companion's context are held in this function and the next.
 */
int companion_look(struct companion *companion);
/* Delivers the letters of other ranks that had made the communicator before this rank. */
void companion_deliver_early(struct companion *companion, struct context *context);

/* Sends a message without contents to all other ranks.  The lock of the companion's context is held. */
void companion_tell(const struct companion *companion, int kind);

#endif
