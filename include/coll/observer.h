/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observer.h - how to write an observer for libcoll.  This header is the whole manual.
 *
 * The core tells an observer of calls, the steps of a call, messages, waits and failures.
 * An observer is a shared object `observer_<name>.so` in a plugin directory (`pkg-config
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
 * (coll_comm_init_rank and its kin), the core loads each named observer and calls open(), which makes
 * a state.  A process may have several states: one for each such communicator, and one for each rank
 * if the ranks are threads.  The core passes the state to event() for the events of this communicator
 * and of all communicators that are made from it, and ends the state with close() after the last
 * event.  A program that ends without destroying its communicators ends without close(), so an
 * observer writes files that are of use without it.
 *
 * The observer links nothing of libcoll, as a backend links nothing of it (backend.h).
 *
 * ABI promise    As in backend.h: a binary built against this header works in every later libcoll of
 *                the same major (the number in the symbol's name).  Structs grow only at their end,
 *                each struct begins with its size, and missing fields are 0.  Later minors may add
 *                events: an observer ignores a value of `what` or `phase` that it does not know.
 * Results        open() returns COLL_SUCCESS or a COLL_ERR_* code of coll.h, and with a code fills
 *                *err.  The core then logs a warning with the text and goes on without the
 *                observer: an observer never fails a communicator.
 * Strings        A string given by the observer must stay valid for ever (the core never unloads an
 *                observer).  A string or array given by the core is valid for the duration of the
 *                call, except the names of coll_observer_host_t and `algorithm`, which stay.
 * Threads        The core calls event() on the thread that moves the communicator: a thread of the
 *                program within a function of coll.h, or a thread of the library.  The core holds a
 *                lock of the communicator meanwhile.  So the events of one communicator come one
 *                after the other.  Where the backend has no transport (nccl) each communicator that
 *                is made from another has a lock of its own, and its calls on host memory have
 *                another (`lane`): then event() runs on several threads at the same time for one
 *                state, and the observer guards what it writes.  open() and close() of one state run
 *                alone.
 * Cancelling     The core keeps the thread from being cancelled (pthread_cancel), and keeps errno.
 * Forks          A process that fork has made calls neither event() nor close() of the states of its
 *                parent.
 * Limits         event() must not call any function of libcoll, block, wait, sleep, take a lock that
 *                a thread keeps for long, cancel or end a thread, fork, install handlers, or print to
 *                stdout.  Communication of the rank stands still while event() runs.  Where a rank
 *                is within an observer, `coll top` and the files of `coll dump` name the observer.
 * Price          An event that no observer wants costs one test of a flag.  An event that an observer
 *                wants costs the core some 30 ns before event(), half of it a reading of the clock,
 *                which events of one moment share.
 * Order          Of a call: ISSUED, then BEGIN, then END, by their times too.  A call that could not
 *                begin before its communicator failed has no BEGIN.  Each call that was ISSUED has an
 *                END before the END of its communicator.  A step or copy lies between the BEGIN and
 *                the END of its call, and has no END if the call fails amid it.  The events of
 *                several calls mix.  The core tells of the library's own calls too: the barriers that
 *                keep ranks together, and the exchange of coll_comm_split.  A WAIT has no END if its
 *                thread, or the one that has the lock of its communicator, leaves the library by
 *                siglongjmp or its own end.
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
#define COLL_OBSERVER_ABI_MINOR 1
#define COLL_OBSERVER_SYMBOL    "coll_observer_v1"

/* What an event is about: coll_observed_t.what, and as bits coll_observer_t.wants. */
enum {
	COLL_OBSERVE_NOTHING = 0,
	COLL_OBSERVE_COMM = 1, /* a communicator: made (BEGIN) and destroyed (END) */
	COLL_OBSERVE_CALL = 2, /* a call: ISSUED, BEGIN when it starts, END */
	COLL_OBSERVE_STEP = 4, /* a step of a call that the library composes: BEGIN, END */
	/*
	 * A copy between a device and host memory, for staging: BEGIN, when it waits for its turn on a stream of the
	 * library's own, and END.  The core tells of no copy on a stream of the program.
	 */
	COLL_OBSERVE_COPY = 8,
	COLL_OBSERVE_MESSAGE = 16, /* coll_isend and coll_irecv: ISSUED, END */
	/* A thread of the program waits in libcoll, after its first looks, for call `number` unless that is 0: BEGIN, END. */
	COLL_OBSERVE_WAIT = 32,
	COLL_OBSERVE_FAILURE =
		64 /* a communicator has failed: BEGIN, before the END of its calls on the same lane */
};

/* coll_observed_t.phase */
enum {
	COLL_OBSERVED_NEVER = -1, /* not a phase */
	COLL_OBSERVED_ISSUED = 0, /* the program has made the call, which waits for its turn */
	COLL_OBSERVED_BEGIN = 1,
	COLL_OBSERVED_END = 2
};

/*
 * One event.  The fields after `time_ns` that do not belong to the event are 0 or NULL, `op` and `peer` -1.
 * Events of one call have the same comm, lane and number.
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

	int32_t kind; /* COLL_KIND_* of coll.h */
	/*
	 * Its number among the calls of this rank on the communicator and lane, from 1, with gaps; of a MESSAGE, and of
	 * the COPY of a message (its index is -1), among its messages.
	 */
	uint64_t number;
	/* Its number among the collectives of the communicator and lane, from 1, the same on all ranks; else 0. */
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
	int32_t index; /* of the step in the schedule of the call; -1: a COPY of a message */

	/*
	 * 0, but 1 for the calls on host memory of a communicator whose backend has no transport (nccl): they have
	 * numbers of their own.
	 */
	int32_t lane;
	const char *text; /* FAILURE: the sentence that coll_get_last_error returns */

	/* --- COMM, BEGIN: for each rank of the communicator its world_rank */
	const int32_t *world_ranks;
	const char *host;    /* COMM: the name of this rank's host */
	const char *backend; /* COMM: the name of the backend */
	uint64_t job;    /* COMM: the same on all ranks of a job; another number in another job */
	uint64_t parent; /* COMM: the `comm` from which it was made, or 0 */

	/*
	 * --- END of CALL, MESSAGE and WAIT: time_ns of ISSUED and BEGIN of the same call, message or wait; 0: there was
	 * none, or its time is unknown.  Of the fields of a call, its END may have `number` and `code` only, so `kind` 0: if
	 * memory has run out, or the call came when the backend had 16384 others in its hands.  Of ABI 1.1: BEGIN of CALL has
	 * issued_ns, and END of STEP and of COPY begin_ns.
	 */
	int64_t issued_ns, begin_ns;
} coll_observed_t;

/* What the core offers to an observer.  The struct and its strings are valid until close() has returned. */
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
	 * COLL_ERR_INVALID_ARGUMENT with a sentence in *err: another letter after %, no room, or NULL.
	 */
	coll_result_t (*expand)(const struct coll_observer_host *host, const char *pattern,
				char *out, uint64_t out_size, coll_error_t *err);
	/* The value of an INT, BOOL, BYTES or DURATION option of the observer (in bytes, microseconds), else 0.  Only within open(). */
	int64_t (*option_int)(const struct coll_observer_host *host, const char *key);
	/*
	 * Names, "allreduce", "float32", "sum", and the sentence of a COLL_ERR_* code; "?" or a sentence for an unknown
	 * number.  The strings stay.  Any thread, also within event().
	 */
	const char *(*kind_name)(int32_t kind);
	const char *(*dtype_name)(int32_t dtype);
	const char *(*op_name)(int32_t op);
	const char *(*error_text)(int32_t code);
	/*
	 * Of ABI 1.1: the core calls event() with this state for these events only, COLL_OBSERVE_* bits of the table's
	 * `wants`; other bits change nothing.  open() may call it, and no other function.
	 */
	void (*want)(const struct coll_observer_host *host, uint32_t wants);
} coll_observer_host_t;

/* coll_observer_t.flags */
enum {
	/*
	 * event() calls no function at which pthread_cancel ends a thread (pthreads(7)), so the core does not turn
	 * cancellation off around event(): that saves some 5 ns an event.
	 */
	COLL_OBSERVER_UNCANCELLED = 1,
	/*
	 * The core leaves out events that a later one makes up for: ISSUED of a CALL that begins at once, since its BEGIN
	 * has issued_ns, and BEGIN of a step of a call of few short ones, since its END has begin_ns.  Such a call of two steps
	 * then has four events instead of seven.  A short step that does not end leaves no event.
	 */
	COLL_OBSERVER_TERSE = 2
};

typedef struct coll_observer {
	uint64_t size;
	uint32_t abi_minor; /* COLL_OBSERVER_ABI_MINOR */
	uint32_t wants;     /* COLL_OBSERVE_*, added up: the events that event() gets */
	/*
	 * As in the file's name: a-z, 0-9 and '_', at most 31 bytes.  Not "log", and no backend's name: their sections of
	 * options have other owners.
	 */
	const char *name;
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
	uint32_t flags; /* of ABI 1.1: COLL_OBSERVER_*, or 0 */
	uint32_t reserved;
} coll_observer_t;

#ifdef __cplusplus
}
#endif
#endif
