/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host.h - the kit as the host of a plugin: it loads the file, makes an endpoint for each rank, and
 * sends and receives messages through the slots.
 *
 * This side of the kit takes the place of the core: it sees backend.h, and nothing of libcoll.
 */
#ifndef TOOLS_CHECK_HOST_H
#define TOOLS_CHECK_HOST_H

#include <coll/backend.h>
#include <pthread.h>
#include "check/kit/kit.h"

/* ------------------------------------------------------------------ the plugin -- */

/* The backend that the loaded file exports.  It is copied as the core copies it: missing members read as 0. */
struct check_plugin {
	const coll_backend_t *own; /* the plugin's own constant */
	coll_backend_t backend;
	coll_transport_t transport;
	coll_native_t native;
};

/* Loads the plugin once in this process, for good.  Returns NULL after a failure; *text has the reason. */
const struct check_plugin *check_plugin(const struct check_case *c, const char **text);

/* Returns the option of that key in a table whose rows have `size` bytes, or NULL. */
const coll_option_t *check_option_in(const coll_option_t *options, uint32_t count, uint32_t size,
				     const char *key);
/* Returns the backend's declaration of the option, or NULL. */
const coll_option_t *check_option_find(const struct check_plugin *plugin, const char *key);
/* Returns the value of an option as text: from --option, else the default, else NULL. */
const char *check_option_text(const struct check_case *c, const coll_option_t *option);
/* Parses a value as the core does.  Returns 0, or -1 if the value has a wrong type or is out of range. */
int check_option_value(const coll_option_t *option, const char *text, int64_t *value);

/* Skips the check if the plugin lacks a part that the check needs, or cannot be used here. */
void check_needs(struct check_case *c);
/* Fills options->traits, in a process of its own. */
void check_traits(struct check_options *options);

/* ------------------------------------------------------------------ endpoints -- */

enum { CHECK_GUARD = 64 }; /* guard bytes on both sides of a receive buffer */

/* A message that the plugin has announced.  It is kept until the rank ends. */
struct check_arrival {
	struct check_arrival *next; /* in the order of the announcements */
	uint32_t peer;
	coll_header_t header;
	uint8_t *memory, *buf; /* buf lies between two guards in memory */
	uint64_t got;          /* bytes delivered by host->data */
	int by_data;           /* the host gave no buffer, so the plugin must call host->data */
	int dropped;           /* transport->drop was called: no byte may come any more */
	int32_t status;        /* COLL_IN_PROGRESS until arrived */
	int ends;              /* number of calls of host->arrived */
};

/* How an endpoint's host behaves during and after open; all 0: without faults. */
struct check_open_mode {
	int by_data;       /* receive descriptors have no buffer */
	int refuse_peer;   /* rank + 1: the host refuses messages of this rank with an error code */
	int fail_exchange; /* the n-th exchange fails at once, without taking part; n from 1 */
	int fail_code;     /* the code of that failure */
	int fail_after;    /* the failing exchange first takes part, on every rank */
	int block_exchange; /* the n-th exchange returns only when number[CHECK_RELEASED] is set */
	int64_t timeout_ms; /* timeout of open; 0: the timeout of the case */
};

enum { CHECK_RELEASED = 63 };

/* Violations of the contract that the host's functions have recorded. */
struct check_seen {
	int outside; /* calls of a receiving function outside of progress */
	const char *outside_name;
	int cookie; /* calls with a cookie that names no arrival */
	int twice;  /* arrived called for an arrival that was already complete */
	int over;   /* data beyond len, or for an arrival that is complete */
	int under;  /* arrived reported success before host->data had delivered all bytes */
	int after_drop;
	int lost_twice;
	int bad_peer;
	int logged_badly;   /* host->log called with a text that is no finished line */
	int64_t slowest_us; /* duration of the longest call of progress */
};

/* One rank's endpoint of one communicator. */
struct check_ep {
	coll_host_t host;
	uint8_t shares[CHECK_RANKS]; /* host.shares */
	struct check_case *c;
	const struct check_plugin *plugin;
	const coll_transport_t *t;
	void *ep;
	int rank, nranks;
	unsigned step;      /* step of check_exchange */
	unsigned exchanges; /* number of calls of host->exchange */
	struct check_open_mode open_mode;
	struct check_seen seen;
	atomic_int aborted;
	int32_t code; /* result of open */
	coll_error_t err;
	int progressing;
	pthread_t thread; /* the thread that calls progress */
	struct check_arrival *arrivals, **arrivals_end, *latest;
	uint64_t arrived_count;
	uint64_t whole_count; /* arrivals by coll_host_t.message */
	int lost[CHECK_RANKS];
	char lost_text[CHECK_RANKS][80];
};

/*
 * Makes a rank's endpoint, not yet open; set ep->open_mode before check_open.  `world` numbers the
 * communicators of one case: 0, 1, ...
 */
struct check_ep *check_ep_new(struct check_case *c, int rank, int world);
/* Calls the plugin's open only.  Returns its code. */
int32_t check_ep_open(struct check_ep *ep);
/* Opens the endpoint.  If open fails, fails the check and closes the endpoint.  Returns 0 or -1. */
int check_open(struct check_ep *ep);
/* Closes the endpoint if it is open.  Returns the duration in milliseconds. */
int64_t check_close(struct check_ep *ep, int64_t timeout_ms);
void check_ep_free(struct check_ep *ep);

/* For each rank of the case: opens, calls check->endpoint, waits for all ranks, closes. */
void check_endpoints(struct check_case *c);

/* ------------------------------------------------------------------ messages -- */

/* Fills the send and hands it to the plugin.  Fails the check if the plugin refuses it.  Returns 0 or -1. */
int check_send(struct check_ep *ep, coll_send_t *send, uint32_t peer, uint64_t tag, const void *buf,
	       uint64_t len);
/* Fills the send without handing it to the plugin. */
void check_send_fill(coll_send_t *send, uint32_t peer, uint64_t tag, const void *buf, uint64_t len);
/* Hands a filled send to the plugin and returns the plugin's code. */
int32_t check_send_raw(struct check_ep *ep, coll_send_t *send, coll_error_t *err);
int check_progress(struct check_ep *ep);
/* Lets other processes run; called when progress moved nothing. */
void check_pause(unsigned *idle);

/* Makes progress until the send's status is final.  Fails the check after the timeout of the case.  Returns 0 or -1. */
int check_wait_send(struct check_ep *ep, const coll_send_t *send);
/* Makes progress until a message from peer with that tag is complete.  Returns NULL after the timeout. */
struct check_arrival *check_recv(struct check_ep *ep, uint32_t peer, uint64_t tag);
struct check_arrival *check_find(const struct check_ep *ep, uint32_t peer, uint64_t tag);
/*
 * Makes progress until all ranks have entered, and as long as another rank still needs it.  Returns
 * 0 or -1.
 */
int check_progress_barrier(struct check_ep *ep);
/*
 * Makes progress until the plugin has reported `peer` as lost.  Returns 0 or -1, without failing
 * the check.
 */
int check_await_lost(struct check_ep *ep, uint32_t peer);

/*
 * Calls `write`, which calls the function `slot` of the plugin, with buffers of several sizes: it must write one line and its
 * final NUL, or return a code.
 */
void check_line(struct check_ep *ep, const char *slot,
		int32_t (*write)(struct check_ep *ep, char *buf, uint64_t size));

/* Fills a buffer with bytes that depend on the seed and the offset. */
void check_fill(uint8_t *buf, uint64_t len, uint64_t seed);
/* Returns the offset of the first byte that check_fill would not have written, or len. */
uint64_t check_differs(const uint8_t *buf, uint64_t len, uint64_t seed);
/* Returns a new filled buffer (malloc).  Ends the process without memory. */
uint8_t *check_payload(uint64_t len, uint64_t seed);
void *check_memory(size_t size);

#endif
