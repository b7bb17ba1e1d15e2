/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observer.h - how to write an observer for libcoll.  This header is the whole manual.
 *
 * An observer is told what the library does: calls, the steps of a call, messages, waits, failures.
 * It is a shared object `observer_<name>.so` in a plugin directory (`pkg-config
 * --variable=plugindir coll`) that exports one constant:
 *
 *   COLL_OBSERVER_EXPORT const coll_observer_t coll_observer_v1 = {
 *           .size = sizeof(coll_observer_t), .abi_minor = COLL_OBSERVER_ABI_MINOR,
 *           .name = "mine", .version = "1.0", .description = "prints a line for each call",
 *           .wants = COLL_OBSERVE_CALL, .open = mine_open, .event = mine_event,
 *           .close = mine_close,
 *   };
 *
 * The user names the observers of a job in the option `observers` (`COLL_OBSERVERS=mine,timeline`),
 * and sets an observer's own options in section [name] of coll.conf or in COLL_<NAME>_<KEY>.  An
 * observer that is not named is not loaded.  To write an observer, copy the folder observer of the
 * installed examples (`pkg-config --variable=examplesdir coll`).
 *
 * An observer lives as follows.  When a program makes a communicator that is not made from another
 * (coll_comm_init and its kin), the core loads each named observer and calls open(), which makes a
 * state.  The core passes the state to event() for the events of this communicator and of all
 * communicators that are made from it, and ends the state with close() after the last event.
 *
 * The observer links nothing of libcoll, as a backend links nothing of it (backend.h).
 *
 * ABI promise    As in backend.h: a binary built against this header works in every later libcoll of
 *                the same major (the number in the symbol's name).  Structs grow only at their end,
 *                each struct begins with its size, and missing fields are 0.  Later minors may add
 *                events: an observer ignores a value of `what` that it does not know.
 * Results        open() returns COLL_SUCCESS or a COLL_ERR_* code of coll.h, and with a code fills
 *                *err.  The core then logs a warning with the text and goes on without the
 *                observer: an observer never fails a communicator.
 * Strings        A string given by the observer must stay valid for ever (the core never unloads an
 *                observer).  A string or array given by the core is valid for the duration of the call.
 * Threads        The core calls event() on the thread that moves the communicator: a thread of the
 *                program within a function of coll.h, or a thread of the library.  The core holds a
 *                lock of the communicator meanwhile.  So the calls for one communicator come one
 *                after the other, and a communicator whose backend has no transport (nccl) has a
 *                second lock for its calls on host memory: event() may run twice at the same time for
 *                one state, and the observer must guard what it writes.
 * Limits         event() must not call any function of libcoll, block, wait, sleep, take a lock that
 *                a thread keeps for long, cancel or end a thread, fork, install handlers, or print to
 *                stdout.  Communication of the rank stands still while event() runs.  Where a rank
 *                is within an observer, `coll top` and a dump name the observer.
 * Price          An event that no observer wants costs one test of a flag.
 */
#ifndef COLL_OBSERVER_H
#define COLL_OBSERVER_H

#include <coll/backend.h>

#ifdef __cplusplus
extern "C" {
#endif

#define COLL_OBSERVER_EXPORT COLL_BACKEND_EXPORT

/* The major is part of the symbol's name.  The minor counts additions. */
#define COLL_OBSERVER_ABI_MAJOR 1
#define COLL_OBSERVER_ABI_MINOR 0
#define COLL_OBSERVER_SYMBOL    "coll_observer_v1"

/* What an event is about: coll_observed_t.what, and as bits coll_observer_t.wants. */
enum {
	COLL_OBSERVE_NOTHING = 0,
	COLL_OBSERVE_COMM = 1, /* a communicator: made (BEGIN) and destroyed (END) */
	COLL_OBSERVE_CALL = 2, /* a call: ISSUED, BEGIN when it starts, END */
	COLL_OBSERVE_STEP = 4, /* a step of a call that the library composes: BEGIN, END */
	COLL_OBSERVE_COPY =
		8, /* a copy between a device and host memory, for staging: BEGIN, END */
	COLL_OBSERVE_MESSAGE = 16, /* coll_isend and coll_irecv: ISSUED, END */
	COLL_OBSERVE_WAIT = 32,    /* a thread of the program waits in libcoll: BEGIN, END */
	COLL_OBSERVE_FAILURE = 64  /* a communicator has failed: BEGIN */
};

/* coll_observed_t.phase */
enum {
	COLL_OBSERVED_NEVER = -1, /* not a phase */
	COLL_OBSERVED_ISSUED = 0, /* the program has made the call, which waits for its turn */
	COLL_OBSERVED_BEGIN = 1,
	COLL_OBSERVED_END = 2
};

/*
 * One event.  The fields after `time_ns` that do not belong to the event are 0 or NULL, ranks -1.
 * Events of one call have the same comm and number.
 */
typedef struct coll_observed {
	uint64_t size;
	uint32_t what;   /* COLL_OBSERVE_*, one bit */
	int32_t phase;   /* COLL_OBSERVED_* */
	int64_t time_ns; /* by CLOCK_MONOTONIC */

	/* --- the communicator; its fields are set in every event */

	/* Its number among the communicators of this process, from 1.  No number comes twice. */
	uint64_t comm;
	/* Its name, the same on all its ranks, as in the files of the option `dump`. */
	const char *comm_id;
	int32_t rank, nranks; /* of this rank in the communicator */
	int32_t world_rank;   /* of this rank in the communicator that open() was called for */

	/* --- CALL, STEP, COPY, MESSAGE, WAIT: the call */

	int32_t kind; /* COLL_KIND_* of backend.h */
	/* Its number among the calls of this rank on the communicator, from 1; of a MESSAGE among its messages. */
	uint64_t number;
	/* Its number among the collectives of the communicator, from 1, the same on all ranks; else 0. */
	uint64_t collective;
	int32_t dtype, op; /* COLL_FLOAT32 ..., COLL_SUM ...; op -1: the call does not reduce */
	int32_t peer; /* root, or the peer of a send, receive or step: a rank of the communicator */
	int32_t tag;
	uint64_t count; /* elements, as in the log of calls: v-forms, what this rank sends */
	uint64_t bytes; /* of a call count times the size of dtype; of a STEP or COPY its bytes */
	/* BEGIN and END of a call that the library composes; "native": the backend did it whole; else NULL. */
	const char *algorithm;
	uint32_t send_memory, recv_memory; /* COLL_MEM_*, 0: unknown */
	uint64_t stream;                   /* the program's stream, or 0 */
	int32_t code;                      /* END, FAILURE: COLL_SUCCESS or COLL_ERR_* */

	/* --- STEP and COPY */

	int32_t step; /* STEP: COLL_STEP_* of introspect.h; COPY: 0 to host memory, 1 to the device */
	int32_t index; /* of the step in the schedule of the call */

	/* --- FAILURE: the sentence that coll_get_last_error returns */
	/*
	 * 0, but 1 for the calls on host memory of a communicator whose backend has no transport (nccl): they have
	 * numbers of their own.
	 */
	int32_t lane;
	const char *text;

	/* --- COMM, BEGIN: for each rank of the communicator its world_rank */
	const int32_t *world_ranks;
	const char *host;    /* COMM: the name of this rank's host */
	const char *backend; /* COMM: the name of the backend */
	uint64_t job;    /* COMM: the same on all ranks of a job; another number in another job */
	uint64_t parent; /* COMM: the `comm` from which it was made, or 0 */

	/* --- END of CALL, MESSAGE and WAIT: time_ns of the ISSUED and BEGIN of the same; 0: there was none */
	int64_t issued_ns, begin_ns;
} coll_observed_t;

/* What the core offers to an observer.  The struct is valid until close() has returned. */
typedef struct coll_observer_host {
	uint64_t size;
	uint32_t abi_minor;   /* of the core */
	int32_t rank, nranks; /* of the communicator that open() is called for */
	int32_t reserved;
	const char *host_name; /* of this rank */
	const char *backend;
	/* The value of an option of the observer, or NULL.  Only within open(). */
	const char *(*option)(const struct coll_observer_host *host, const char *key);
	/* Writes a line to the library's log, in the name of the observer, at COLL_LOG_*.  Any thread. */
	void (*log)(const struct coll_observer_host *host, int32_t level, const char *text);
	/*
	 * Writes the path `pattern` with %h (host), %r (rank), %p (process id), %j (job, 16 digits), %% to out.
	 * COLL_ERR_INVALID_ARGUMENT with a sentence in *err: another letter after %, or no room.
	 */
	coll_result_t (*expand)(const struct coll_observer_host *host, const char *pattern,
				char *out, uint64_t out_size, coll_error_t *err);
} coll_observer_host_t;

typedef struct coll_observer {
	uint64_t size;
	uint32_t abi_minor; /* COLL_OBSERVER_ABI_MINOR */
	uint32_t wants;     /* COLL_OBSERVE_*, added up: the events that event() gets */
	const char *name;   /* as in the file's name: a-z, 0-9 and '_', at most 31 bytes */
	const char *version;
	const char *description;      /* one line, for `coll info` */
	const coll_option_t *options; /* as in backend.h; may be NULL */
	uint32_t option_count, option_size;
	/* Mandatory.  May open files.  Must not block for long. */
	coll_result_t (*open)(const coll_observer_host_t *host, void **state, coll_error_t *err);
	/* Mandatory. */
	void (*event)(void *state, const coll_observed_t *event);
	/* Mandatory.  Flushes and frees.  In a process that fork has made it is not called. */
	void (*close)(void *state);
} coll_observer_t;

#ifdef __cplusplus
}
#endif
#endif
