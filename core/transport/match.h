/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match.h - pairs arriving messages with posted receives; written once for all transports.  A message
 * without a posted receive is an unexpected message and is stored until its receive is posted.  Messages
 * and receives of one (peer, tag) pair in order.  Callers hold the context's lock, and many are inside
 * the transport's progress, so no function here calls the transport.
 */
#ifndef CORE_TRANSPORT_MATCH_H
#define CORE_TRANSPORT_MATCH_H

#include "reduce/redop.h"
#include "transport/call_index.h"
#include "transport/same_call.h"
#include "transport/unordered.h"
#include "transport/store.h"

#include <coll/backend.h>

struct op;
struct match;

/*
 * A receive.  It is the memory of the caller that posts it; match does not touch it once it is in the list
 * of completed receives or withdrawn.
 */
struct recv {
	struct recv *next;             /* next in its list, or in the list of completed receives */
	struct unexpected *unexpected; /* its partial message, which began before it was posted */
	uint64_t tag;
	uint64_t meta[2]; /* the sender's header must have the same signature; see `unordered` */
	uint64_t len;
	int32_t peer; /* rank on the context, or COLL_ANY_SOURCE */
	int32_t state;
	int32_t status; /* valid once done */
	int32_t step;   /* the owner's step */
	struct op *op;  /* the owner's operation; NULL: the receive is unordered */
	char *dst;
	const char *own; /* not NULL: dst = own op incoming */
	const struct redop *redop;
	reduce_fn kernel; /* not NULL: all that is to be done with a message that comes whole */
	int16_t swapped;  /* incoming op own */
	/*
	 * The receive is outside the order of the operations: meta[1] is the program's tag or MATCH_ANY_TAG, and
	 * the message may be shorter than the receive.  The match sets meta[1] and len from the message.
	 */
	int16_t unordered;
	/*
	 * The message announces pieces.  Bits 32 to 63 of its meta[0] are the number of the message on its sender,
	 * which no receiver knows before: match copies them to meta[0].
	 */
	int16_t numbered;
	int32_t unscaled; /* the message is an input too, and divided likewise */
	int32_t divisor; /* not 0: own is an input of an average, divided by this before it is added */
	uint32_t elem;
	uint64_t got;      /* bytes received so far */
	uint8_t carry[16]; /* the bytes of an element that has come in part */
	/* Elements that are longer than `carry`: memory of the receive's owner for one element. */
	uint8_t *long_carry;
	uint32_t device; /* kind of memory at dst if it is device memory; else 0 */
	int32_t broken;  /* the code of a failed copy to device memory, whose message is set */
};

/* A receive with `unordered`: match finds its entry in the index from the receive. */
struct unordered_recv {
	struct recv recv;
	void (*received)(struct recv *recv); /* the receive has completed; called with the lock */
	struct unordered_entry entry;
};

enum { RECV_IDLE = 0, RECV_POSTED, RECV_FILLING, RECV_DONE };

/* A message that came before its receive was posted. */
struct unexpected {
	struct unexpected *next, *prev; /* in its list; of partial messages `next` only */
	struct unordered_entry
		*unordered; /* of an unordered message: UNORDERED_CLASSES entries; else NULL */
	struct recv *recv;  /* the receive posted meanwhile, or NULL */
	struct call_link call;
	coll_header_t header;
	uint32_t peer;
	int32_t complete; /* 1: all bytes have come */
	int32_t dropped;  /* it has no receive: free it when its last byte has come */
	uint64_t got;
	char data[];
};

struct context;

enum { MATCH_BUCKETS = 256, MATCH_CONTROLS_SEEN = 64 };

/* Tags with this bit are control messages: match_take returns them, no receive matches them. */
#define MATCH_CONTROL ((uint64_t)1 << 36)

/* Tags with these bits are unordered messages: match_probe must find them as soon as they come. */
#define MATCH_UNORDERED (((uint64_t)1 << 37) | ((uint64_t)1 << 35))

#define MATCH_ANY_TAG UINT64_MAX

struct match {
	/* The receives that are not unordered, and all messages. */
	struct recv *posted[MATCH_BUCKETS], **posted_end[MATCH_BUCKETS];
	struct unexpected *unexpected[MATCH_BUCKETS], *unexpected_last[MATCH_BUCKETS];
	struct unordered_index unordered_posted, unordered_unexpected;
	uint64_t unexpected_in[MATCH_BUCKETS / 64]; /* a bit for each list that is not empty */
	struct call_index calls;    /* finds the messages of one call in these lists */
	struct unexpected *partial; /* incomplete messages that are matched or dropped */
	struct store store;         /* their memory */
	struct recv *done, **done_end;
	uint64_t unexpected_count; /* messages in the lists above */
	uint64_t unexpected_ever,
		unexpected_bytes; /* messages ever put into these lists, and their bytes */
	int controls;             /* complete control messages in these lists */
	uint64_t control[MATCH_CONTROLS_SEEN]; /* the tags of the first of these control messages */
	uint64_t held,
		held_most; /* bytes of memory that hold messages now, and the most that ever did */
	/* The functions of struct traffic_client that concern messages, and their context. */
	int (*check_unexpected)(struct context *context, uint32_t peer,
				const coll_header_t *header);
	int (*no_memory)(struct context *context, uint32_t peer, const coll_header_t *header);
	void (*mismatch)(struct context *context, const struct recv *recv, uint32_t peer,
			 const coll_header_t *header);
	int (*fill)(const struct recv *recv, void *dst, const void *bytes, uint64_t n);
	struct context *context;
};

/* The list of a tag. */
static inline unsigned match_bucket(uint64_t tag)
{
	return (unsigned)((tag * 0x9e3779b97f4a7c15u) >> 56);
}

void match_init(struct match *m);
void match_free(struct match *m);

/*
 * Posts a receive; an unordered receive must be the first member of a struct unordered_recv.  A receive that completes
 * at once is in the list of completed receives.
 */
void match_post(struct match *m, struct recv *recv);
/* The same for a receive that is not unordered. */
static inline void match_post_ordered(struct match *m, struct recv *recv)
{
	const unsigned bucket = match_bucket(recv->tag);

	if (m->unexpected[bucket]) {
		match_post(m, recv);
		return;
	}
	recv->got = 0;
	recv->broken = COLL_SUCCESS;
	recv->unexpected = NULL;
	recv->next = NULL;
	recv->state = RECV_POSTED;
	*m->posted_end[bucket] = recv;
	m->posted_end[bucket] = &recv->next;
}
/*
 * Withdraws a receive in any state: match does not touch it again.  Returns the cookie that the
 * transport must drop before the buffer may be reused, or 0.
 */
uint64_t match_withdraw(struct match *m, struct recv *recv);
/* The next completed receive, or NULL. */
static inline struct recv *match_next_done(struct match *m)
{
	struct recv *recv = m->done;

	if (recv) {
		m->done = recv->next;
		if (!m->done)
			m->done_end = &m->done;
	}
	return recv;
}
/* Drops all unexpected messages whose tag equals `tag` in the bits of `mask`. */
void match_forget(struct match *m, uint64_t mask, uint64_t tag);
/*
 * Calls see() for every unexpected message, complete or not, whose tag equals `tag` in the bits of `mask`.  It looks at
 * all messages: see call_index_each for the messages of one call.
 */
void match_each(const struct match *m, uint64_t mask, uint64_t tag,
		void (*see)(void *user, const struct unexpected *unexpected), void *user);
/*
 * Calls see() for every incomplete message that had no receive when it began, and for every dropped message: the
 * transport may deliver the peer's next message behind it.
 */
void match_each_incomplete(const struct match *m, void (*see)(void *user, uint32_t peer),
			   void *user);
/* Returns the unexpected message, complete or not, that this unordered receive would get if it were posted now, or NULL. */
const struct unexpected *match_probe(struct match *m, const struct recv *recv);
/* Removes the first complete message of exactly this tag, and returns it, or NULL.  The caller frees it with free(). */
struct unexpected *match_take(struct match *m, uint64_t tag);

/* The receiving functions of the host table (backend.h: posted, arrive, data, arrived, message). */
int match_posted(const struct match *m, uint32_t peer, const coll_header_t *header);
int match_arrive(struct match *m, uint32_t peer, const coll_header_t *header, coll_sink_t *sink);
void match_data(struct match *m, uint64_t cookie, const void *bytes, uint64_t n);
void match_arrived(struct match *m, uint64_t cookie, int32_t status);
int match_message(struct match *m, uint32_t peer, const coll_header_t *header, const void *bytes);

#endif
