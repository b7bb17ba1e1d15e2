/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.h - the kit as the host of a plugin: its file loaded, an endpoint for each rank, and
 * messages sent and received through its slots.
 *
 * This side of the kit stands where the core stands: it sees backend.h, and nothing of libcoll.
 */
#ifndef TOOLS_CHECK_HOST_H
#define TOOLS_CHECK_HOST_H

#include <coll/backend.h>
#include <pthread.h>
#include "check/kit/kit.h"

/* ------------------------------------------------------------------ the plugin -- */

/* What the loaded file exports, copied as the core does: what it lacks reads as 0. */
struct check_plugin {
	const coll_backend_t *own; /* the plugin's */
	coll_backend_t backend;
	coll_transport_t transport;
	coll_native_t native;
};

/* Loads it once in this process, for good.  NULL: *text says why not. */
const struct check_plugin *check_plugin(const struct check_case *c, const char **text);

/* The option's declaration, or NULL. */
const coll_option_t *check_option_find(const struct check_plugin *plugin, const char *key);
/* What the user would have said: --option, else the default, else NULL. */
const char *check_option_text(const struct check_case *c, const coll_option_t *option);
/* Reads a value as the core does; 0, or -1 if it is not of the option's type or out of range. */
int check_option_value(const coll_option_t *option, const char *text, int64_t *value);

/* Skips the check if the plugin has not what it needs, or cannot be used here. */
void check_needs(struct check_case *c);
/* Fills options->survey, in a process of its own. */
void check_traits(struct check_options *options);

/* ------------------------------------------------------------------ endpoints -- */

enum { CHECK_GUARD = 64 }; /* bytes on both sides of a sink */

/* A message that the plugin has announced; kept until the rank ends. */
struct check_arrival {
	struct check_arrival *next; /* in the order in which they were announced */
	uint32_t peer;
	coll_header_t header;
	uint8_t *memory, *buf; /* buf lies between two guards in memory */
	uint64_t got;          /* by host->data */
	int by_data;           /* the sink had no buffer */
	int dropped;           /* transport->drop was called: nothing may come any more */
	int32_t status;        /* COLL_IN_PROGRESS until arrived */
	int ends;              /* how often arrived was called */
};

/* How an endpoint's host behaves; all 0: well. */
struct check_open_mode {
	int by_data;        /* sinks have no buffer */
	int refuse_peer;    /* rank + 1: its messages are answered with a code */
	int fail_exchange;  /* the n-th call fails, at once, without taking part; n from 1 */
	int fail_code;      /* with this code */
	int fail_after;     /* ... after having taken part, on every rank */
	int hold_exchange;  /* the n-th call returns only when number[CHECK_HELD] is set */
	int64_t timeout_ms; /* of open; 0: the case's patience */
};

enum { CHECK_HELD = 63 };

/* What the plugin did that no host likes, seen by the host's functions. */
struct check_seen {
	int outside; /* a receiving function called outside of progress */
	const char *outside_name;
	int cookie; /* a cookie that names no arrival */
	int twice;  /* arrived for an arrival that was complete */
	int over;   /* data beyond len, or for an arrival that is complete */
	int under;  /* arrived with success before all was there by data */
	int after_drop;
	int lost_twice;
	int bad_peer;
	int logged_badly;   /* host->log with a text that is no finished line */
	int64_t slowest_us; /* the longest call of progress */
};

/* One rank's endpoint of one communicator. */
struct check_ep {
	coll_host_t host;
	struct check_case *c;
	const struct check_plugin *plugin;
	const coll_transport_t *t;
	void *ep;
	int rank, nranks;
	unsigned step;      /* of check_exchange */
	unsigned exchanges; /* calls of host->exchange */
	struct check_open_mode open_mode;
	struct check_seen seen;
	atomic_int aborted;
	int32_t code; /* of open */
	coll_error_t err;
	int progressing;
	pthread_t thread; /* in which */
	struct check_arrival *arrivals, **arrivals_end, *latest;
	uint64_t arrived_count;
	int lost[CHECK_RANKS];
	char lost_text[CHECK_RANKS][80];
};

/*
 * A rank's endpoint, not yet open; change ep->manner before check_open.  `world` tells communicators
 * of one case apart: 0, 1, ...
 */
struct check_ep *check_ep_new(struct check_case *c, int rank, int world);
/* Calls open and nothing else; returns its code. */
int32_t check_ep_open(struct check_ep *ep);
/* The same, and fails the check if it fails; closes what is left then. 0 or -1. */
int check_open(struct check_ep *ep);
/* Calls close, if there is something to close.  Returns the milliseconds it took. */
int64_t check_close(struct check_ep *ep, int64_t timeout_ms);
void check_ep_free(struct check_ep *ep);

/* open, fn, a meeting of all ranks, close: for each rank of the case. */
void check_endpoints(struct check_case *c, void (*fn)(struct check_ep *ep));

/* ------------------------------------------------------------------ messages -- */

/* Fills the send and hands it to the plugin; fails the check if it is refused.  0 or -1. */
int check_send(struct check_ep *ep, coll_send_t *send, uint32_t peer, uint64_t tag, const void *buf,
	       uint64_t len);
/* Fills it only. */
void check_send_fill(coll_send_t *send, uint32_t peer, uint64_t tag, const void *buf, uint64_t len);
/* Calls the plugin's send as it is. */
int32_t check_send_raw(struct check_ep *ep, coll_send_t *send, coll_error_t *err);
int check_progress(struct check_ep *ep);
/* Nothing moved: lets others work. */
void check_pause(unsigned *idle);

/* Makes progress until *status is final; fails the check after the case's patience.  0 or -1. */
int check_wait_send(struct check_ep *ep, const coll_send_t *send);
/* Makes progress until a message from peer with that tag is complete; NULL after the patience. */
struct check_arrival *check_recv(struct check_ep *ep, uint32_t peer, uint64_t tag);
struct check_arrival *check_find(const struct check_ep *ep, uint32_t peer, uint64_t tag);
/* Progress until all ranks have come here, then as long as others still need it. 0 or -1. */
int check_progress_barrier(struct check_ep *ep);
/* Progress until peer_lost was told of `peer`.  0 or -1, without failing the check. */
int check_await_lost(struct check_ep *ep, uint32_t peer);

/* Bytes that tell where they come from and where they belong. */
void check_fill(uint8_t *buf, uint64_t len, uint64_t seed);
/* The first byte that is not as filled, or len. */
uint64_t check_differs(const uint8_t *buf, uint64_t len, uint64_t seed);
/* A new filled buffer (malloc); ends the process if there is no memory. */
uint8_t *check_payload(uint64_t len, uint64_t seed);
void *check_memory(size_t size);

#endif
