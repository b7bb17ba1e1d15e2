/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * transport_harness.h - runs the transport group of a plugin without libcoll.
 *
 * harness_run() makes N ranks, as processes or as threads, gives each rank a coll_host_t of its
 * own, opens the plugin on all ranks and calls a function on each.  The harness matches messages by
 * sender and tag; a receive takes its payload in place or, as a reduction would, by host->data.
 */
#ifndef TESTS_TRANSPORT_HARNESS_H
#define TESTS_TRANSPORT_HARNESS_H

#include "tap.h"

#include <coll/backend.h>

#include <dlfcn.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

enum {
	HARNESS_RANKS = 16,      /* at most */
	HARNESS_EXCHANGES = 32,  /* most exchanges in one run */
	HARNESS_RECORD = 1024,   /* most bytes of a rank in an exchange */
	HARNESS_WAIT_MS = 120000 /* a wait that takes longer counts as hung */
};

/* Memory that the ranks of a run share; it survives fork. */
struct harness_shared {
	atomic_uint arrived[HARNESS_EXCHANGES];
	/* 1: a rank called exchange_fail; then the failure */
	atomic_int gave_up[HARNESS_EXCHANGES];
	int32_t gave_up_code[HARNESS_EXCHANGES];
	char gave_up_text[HARNESS_EXCHANGES][520];
	atomic_int open[HARNESS_RANKS];
	int pid[HARNESS_RANKS];
	int result[HARNESS_RANKS]; /* results of the ranks' functions; 0 is good */
	char text[HARNESS_RANKS][504];
	double number[HARNESS_RANKS]; /* for benchmarks */
	uint8_t area[HARNESS_EXCHANGES][HARNESS_RANKS][HARNESS_RECORD];
};

/* A posted receive. */
struct harness_recv {
	uint32_t peer;
	uint64_t tag;
	uint8_t *buf;
	uint64_t size; /* size of buf */
	int add;       /* 1: add the bytes to buf instead of storing them; without buf: drop them */
	int32_t status;
	uint64_t len; /* length of the message */
	struct harness_recv *next;
};

/* An arriving message, or an unexpected message (which owns its buf). */
struct harness_arrival {
	struct harness_recv *recv;
	uint32_t peer;
	uint64_t tag, len, got;
	uint8_t *buf;
	int32_t status;
	struct harness_arrival *next;
};

struct harness;
typedef int (*harness_fn)(struct harness *h);

/* Describes a run; fields left 0 mean: processes, no options, the default timeout. */
struct harness_job {
	const coll_backend_t *backend;
	uint32_t nranks;
	int threads;
	const char *const *options; /* "key", "value", ..., NULL */
	uint32_t options_of;        /* the rank that gets the options; 0: all ranks */
	uint32_t apart;             /* the rank that shares nothing with any rank; 0: none */
	int turns;                  /* the ranks take turns on processors */
	int old_core;               /* 1: a core before ABI 1.4, without host->shares */
	harness_fn run;             /* after open */
	harness_fn exchanged;       /* called inside open, after the exchange; may be NULL */
	int64_t timeout_ms;         /* timeout of open */
	int open_may_fail; /* code that open must return; then run is called with h->ep NULL */
	void *user;
	struct harness_shared *shared; /* filled by harness_run; harness_job_free frees it */
};

struct harness {
	coll_host_t host;
	uint8_t shares[HARNESS_RANKS]; /* host.shares */
	const struct harness_job *job;
	const coll_transport_t *transport;
	void *ep;
	int32_t open_code;
	coll_error_t open_error;
	uint32_t exchanges;
	struct harness_recv *recvs;
	struct harness_arrival *early;   /* unexpected messages, complete or not */
	struct harness_arrival *flowing; /* messages on their way into a harness_recv */
	int lost[HARNESS_RANKS];
	char lost_text[HARNESS_RANKS][80];
	int aborting;         /* the result of host->aborted */
	uint32_t refuse_peer; /* code with which the host refuses messages of this peer; 0: none */
};

int64_t harness_now_ms(void);
/* Waits until the process of the rank has ended.  Its sockets are closed then; its parent may wait for it later. */
void harness_await_end(const struct harness *h, uint32_t rank);

/* Ends the rank's function with a message: return harness_fail(h, ...). */
__attribute__((format(printf, 2, 3))) int harness_fail(struct harness *h, const char *fmt, ...);

/* Waits for all ranks without the plugin. */
int harness_barrier(struct harness *h);

/* ------------------------------------------------------------------ messages -- */

/* Starts a send.  The tag should be unique among the messages on their way to one peer. */
int32_t harness_send(struct harness *h, coll_send_t *send, uint32_t peer, uint64_t tag,
		     const void *buf, uint64_t len);

/* Starts the receive r.  The caller has set its peer, tag, buf, size and add. */
void harness_recv(struct harness *h, struct harness_recv *r);

/* Makes progress until *status is not COLL_IN_PROGRESS.  Sleeps as the core does. */
int32_t harness_wait(struct harness *h, const int32_t *status);

/* ---------------------------------------------------------------------- runs -- */

/* Prepares the host of a rank without opening the plugin, for a test that opens it itself. */
void harness_host_init(struct harness *h, const struct harness_job *job, uint32_t rank);

void harness_host_free(struct harness *h);

/* Runs a job.  Returns how many ranks failed.  The caller may read job->shared afterwards. */
int harness_run(struct harness_job *job);

void harness_job_free(struct harness_job *job);

/* Runs a job and reports it as one check, with the messages of the ranks that failed. */
void harness_check(struct harness_job *job, const char *name);

/* Opens coll_<name>.so of the build tree (or the file $HARNESS_PLUGIN).  Returns NULL after printing an error. */
const coll_backend_t *harness_load(const char *name);

#endif
