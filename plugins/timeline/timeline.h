/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline.h - the parts of the observer `timeline`: the records of events and the observer's table (timeline.c), their
 * text (timeline_text.c), the rows on which the text stands (timeline_rows.c), and the file (timeline_file.c).
 *
 * event() writes one cache line or two into a ring, which takes no lock and no system call.  One thread of the process turns
 * the records of all ranks of the process into text every 50 ms, when a ring is half full, and after a failure.  The thread
 * has a lower priority: if a rank is bound to one processor, the thread shares that processor with the rank, and takes a
 * tenth of it.  While the thread is behind by half a ring, event() drops steps and copies, and behind by a whole ring
 * all; it counts them.
 *
 * A timeline needs 5 MiB of memory: the ring, 256 KiB of text, and what is under way.
 */
#ifndef PLUGIN_TIMELINE_H
#define PLUGIN_TIMELINE_H

#include <coll/observer.h>

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

enum {
	TIMELINE_SLOTS = 1 << 16,  /* of a ring; a power of 2 */
	TIMELINE_TEXT = 256 << 10, /* bytes of text that wait for the file */
	TIMELINE_EVENT =
		4 << 10, /* the longest text of an event but those that state their length */
	TIMELINE_RESERVE =
		64 << 10, /* bytes that may follow the bound: ends of open rows, the clock */
	TIMELINE_PATH = 4096
};

/* The texts of an event, which the ring has no room for.  Of the heap. */
struct timeline_more {
	char *comm_id, *host, *backend, *text;
	int32_t *world_ranks;
	int32_t rank, nranks;
	uint64_t job, parent;
};

/* What the ring keeps of an event: a slot and, for some events, the details in the next slot.  Each is a cache line. */
struct timeline_slot {
	_Atomic uint64_t turn; /* its place + 1 once it is filled in; else less */
	int64_t time_ns;
	uint64_t comm, number;
	uint64_t collective; /* of END of a STEP: begin_ns */
	uint64_t bytes;      /* of a WAIT: the thread that waits */
	int32_t peer, index;
	int16_t kind;
	uint8_t what, phase, lane, step,
		memory; /* memory: that of the send, that of the receive buffer */
	uint8_t has_details;
};

struct timeline_details {
	uint64_t turn; /* stays: an older turn of the slot */
	uint64_t count, stream;
	int64_t issued_ns;
	const char *algorithm; /* or NULL; the core keeps it */
	struct timeline_more *more;
	int32_t tag, code, dtype, op;
};

union timeline_place {
	struct timeline_slot slot;
	struct timeline_details details;
};

/* A slot and its details, for the thread that turns them into text. */
struct timeline_record {
	int64_t time_ns;
	int64_t issued_ns; /* of a call: of its BEGIN, and of its END if it had no BEGIN */
	int64_t begin_ns;  /* of END of a STEP */
	uint64_t comm, number, collective, count, bytes, stream;
	uint64_t thread; /* of a WAIT: the thread that waits */
	struct timeline_more *more;
	int32_t peer, tag, code, step, index, dtype, op;
	int16_t kind;
	uint8_t what, phase, send_memory, recv_memory, lane;
	const char *algorithm;
};

/* ------------------------------------------------------------------------- rows -- */

/* What a row shows; also the order of the rows. */
enum row_class { ROW_CALLS, ROW_STREAM, ROW_STEPS, ROW_COPIES, ROW_WAITS, ROW_MESSAGES, ROW_FREE };

/* So many things on rows of the same name may be under way at a time; more are counted as lost. */
enum { ROW_LANES = 256, ROW_COMM_LANES = 2, ROW_NONE = -1 };

/* Rows of the same name: each shows one thing at a time. */
struct row_group {
	enum row_class what;
	uint64_t of; /* a communicator, stream or thread */
	uint64_t busy[ROW_LANES / 64];
	int32_t tid[ROW_LANES];  /* 0: not yet in the file */
	int64_t last[ROW_LANES]; /* the time of the last event: times on a row do not fall */
};

/* A thing that has begun, from its BEGIN to its END. */
struct row_open {
	uint64_t comm, number, index;
	uint8_t what;    /* COLL_OBSERVE_*; 0: free */
	uint8_t lane_of; /* coll_observed_t.lane */
	int32_t group, lane;
	int64_t issued_ns;   /* of a call */
	uint64_t collective; /* of a call */
	int16_t kind;        /* of a call: COLL_KIND_* */
};

/* A communicator whose events are in the file. */
struct row_comm {
	uint64_t comm;
	int32_t nranks, rank;
	uint64_t hash; /* the same on all ranks: of the job and the communicator's name */
	/* Of each lane the newest call that has ended, and when it was issued. */
	struct {
		uint64_t number;
		int64_t issued_ns;
	} ended[ROW_COMM_LANES];
	char name[32];
};

/* Counts the messages of a call between two ranks. */
struct row_flow {
	uint64_t comm, number;
	int32_t peer;
	uint8_t sends, lane;
	uint64_t count;
	uint64_t turn; /* when it was last counted; 0: free */
};

/* A flow stands at one of ROW_FLOW_PLACES places from its hash on. */
enum { ROW_FLOWS = 4096, ROW_FLOW_PLACES = 16 };

/* What is open, by hash.  The size is a power of 2, or 0. */
struct row_table {
	struct row_open *open;
	size_t used, size;
};

struct rows {
	struct row_flow flow[ROW_FLOWS]; /* by hash; a new one takes the place of the oldest */
	uint64_t flow_turn;
	struct row_group *group;
	int groups, group_capacity;
	struct row_table table;
	struct row_comm *comm;
	int comms, comm_capacity;
	int32_t tids;
};

/* The kind of the call that the thread waits for; 0: it is not known. */
int16_t rows_awaited(struct rows *rows, const struct timeline_record *wait);
/* The number of the call of the step among the collectives; 0: it is none, or it is not known. */
uint64_t rows_collective(struct rows *rows, const struct timeline_record *step);
/* Is the call of this step or copy still under way? */
int rows_has_call(struct rows *rows, const struct row_open *open);
/* Takes note of a call that ends. */
void rows_note_end(struct rows *rows, const struct row_open *call);
/*
 * Has the call ended, though no END has come?  Calls beside each other are of one group, which is issued as a whole: so a call
 * has ended when a later one has that was issued after its begin.
 */
int rows_is_past(struct rows *rows, const struct row_open *call);
/* The number of the thread's row of waits, from 1 on. */
int rows_thread(const struct rows *rows, const struct row_open *open);
/* Returns the thing that has begun, or NULL. */
struct row_open *rows_find(struct rows *rows, const struct timeline_record *record);
/* Returns a new thing without a row, or NULL: memory ran out, or too many are open.  rows_find has found no such thing. */
struct row_open *rows_begin(struct rows *rows, const struct timeline_record *record);
/*
 * Gives the thing, which begins at begin_ns, a row where nothing is later if there is one.  Returns 0, or -1 if there is no row.
 * *is_new: the row has no name in the file yet.
 */
int rows_place(struct rows *rows, struct row_open *open, enum row_class what, uint64_t of,
	       int64_t begin_ns, int *is_new);
int32_t rows_tid(const struct rows *rows, const struct row_open *open);
/* Returns the time, or that of the last event on the row if threads have told of the two in the other order. */
int64_t rows_time(struct rows *rows, const struct row_open *open, int64_t time_ns);
void rows_end(struct rows *rows, struct row_open *open);
const struct row_comm *rows_comm(const struct rows *rows, uint64_t comm);
/* Takes note of a communicator.  Returns 0, or -1 without memory. */
int rows_add_comm(struct rows *rows, uint64_t comm, const struct timeline_more *more);
void rows_remove_comm(struct rows *rows, uint64_t comm);
/*
 * Returns the number of the message that this step sends or receives, the same on both ranks and on no other
 * message; 0: the step moves none, or not of a collective.  The k-th message of a call from one rank to another that
 * is sent is the k-th that is received.
 */
uint64_t rows_flow(struct rows *rows, const struct timeline_record *record);
void rows_free(struct rows *rows);

/* --------------------------------------------------------------------- timeline -- */

struct timeline_file {
	int fd;     /* -1: closed */
	int broken; /* 1: nothing more is written */
	dev_t dev;
	ino_t ino;
	uint64_t size; /* of what is written, without the end of the array */
	uint64_t limit;
};

/* What open() returns: stands for a communicator and all communicators that are made from it. */
struct timeline_user {
	struct timeline *timeline;
	const coll_observer_host_t *host; /* gone if is_dead */
	struct timeline_user *next;
	_Atomic int is_dead; /* 1: close() has left the user to the thread */
};

/* The file of a rank. */
struct timeline {
	_Atomic uint64_t head; /* of the ring: the next slot that is written */
	_Atomic uint64_t
		look; /* up to this slot the ring has room, and event() need not look at the tail */
	_Atomic uint64_t lost;
	_Atomic int crowded; /* 1: the ring is half full, and the thread is told so */
	union timeline_place *ring;
	_Alignas(64) _Atomic uint64_t tail; /* the next slot that is read */

	/* What follows belongs to the thread that has the lock of timeline.c. */
	struct timeline *next;
	struct timeline_user *users;
	char path[TIMELINE_PATH];
	char host[256], backend[64];
	int32_t rank, nranks;
	uint64_t left_out; /* events after the bound */
	int full;          /* 1: the bound is reached */
	struct timeline_file file;
	struct rows rows;
	char *text;
	size_t used, room;
};

/* Logs a warning in the name of a user, if there is one. */
void timeline_warn(struct timeline *timeline, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* --------------------------------------------------------------- timeline_file.c -- */

/* Makes the file, in the place of this user's older file, or opens again the file that this timeline has made. */
coll_result_t timeline_file_open(struct timeline *timeline, coll_error_t *err);
/* Writes the text that waits, and the end of the array behind it.  The first failure warns and ends the file. */
void timeline_file_write(struct timeline *timeline);
void timeline_file_close(struct timeline *timeline);

/* --------------------------------------------------------------- timeline_text.c -- */

/* Writes the clocks and the name of the rank. */
void timeline_text_begin(struct timeline *timeline);
void timeline_text_event(struct timeline *timeline, const struct timeline_record *record);
/* After events were lost: ends the calls, steps and copies on the rows whose END was lost, as far as later events tell. */
void timeline_text_sweep(struct timeline *timeline);
/* Ends what is still open on the rows, and writes the clocks again. */
void timeline_text_end(struct timeline *timeline);
void timeline_more_free(struct timeline_more *more);

#endif
