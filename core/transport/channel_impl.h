/* SPDX-License-Identifier: BSD-3-Clause */
/* channel_impl.h - the parts of a control channel: channel.c opens it and sends, and calls watcher.c, which drives it. */
#ifndef CORE_TRANSPORT_CHANNEL_IMPL_H
#define CORE_TRANSPORT_CHANNEL_IMPL_H

#include "transport/channel.h"

enum {
	CHANNEL_LOST = 1, /* the connection to the rank has ended before the rank left */
	CHANNEL_SILENT =
		2 /* and the last messages of the rank over another transport have had time to come */
};

/*
 * The lock of `control` is held for a moment only.  It guards the endpoint and the messages for the watched contexts, which
 * lie in its match until channel_take.
 */
struct channel {
	struct channel *next;
	struct context *control; /* the endpoint's own */
	struct context *watched; /* the contexts beside the channel: a list by next_watched */
	int wake_fd;             /* of the watcher */
	int outside;             /* a program may wait outside the library, as of outside_us */
	int64_t outside_us;
	uint64_t seen; /* control_count of `control` when the watcher looked for messages last */
	int has_left;  /* this rank has told the other ranks that it leaves */
	uint8_t *left; /* per rank: it has left */
	_Atomic uint8_t *lost; /* per rank: CHANNEL_*, or 0: not lost */
	int64_t grace; /* when ranks that are CHANNEL_LOST become CHANNEL_SILENT; 0: no rank is */
};

/* The rank on the channel of a rank of the context, and back; -1: it is none of the context's. */
static inline int channel_rank(const struct context *context, int rank)
{
	return context->origin ? context->origin[rank] : rank;
}

static inline int channel_rank_of(const struct context *context, int channel)
{
	for (int r = 0; r < context->nranks; r++)
		if (channel_rank(context, r) == channel)
			return r;
	return -1;
}

/* Is there a loss of that rank of the context to be reported (channel_report_lost)? */
static inline int channel_is_silent(const struct channel *channel, const struct context *context,
				    int rank)
{
	return atomic_load(&channel->lost[channel_rank(context, rank)]) == CHANNEL_SILENT;
}

/* Messages of the channel's own (watcher.c). */
enum {
	WATCHER_HELLO =
		1,        /* connects the ranks of a transport that connects at the first message */
	WATCHER_LEAVE = 2 /* the sender has closed its communicators: its end is no failure */
};
/* Sends one to all other ranks.  The lock of the channel's context is held. */
void watcher_tell_ranks(const struct channel *channel, int kind);

/* The watcher drives the channel from now on; and no more. */
int watcher_begin(struct channel *channel);
void watcher_end(const struct channel *channel);
/* Is a context still watched? */
int watcher_watches(const struct channel *channel);
/* Around the shrink of a context: see channel_derive_open. */
void watcher_spare(struct context *context, const struct context_making *making,
		   int64_t timeout_ms);
void watcher_spare_no_more(struct context *context);
/* COLL_SUCCESS, or COLL_ERR_PEER_LOST if the channel has lost a rank of the context, which is not watched yet. */
int watcher_check_ranks(const struct context *context);
/* Wakes the watcher: it takes the channel's endpoint on. */
void channel_wake(const struct channel *channel);

#endif
