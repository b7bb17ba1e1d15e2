/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging.h - device buffers that the backend does not reach: host memory stands in for them, and the
 * schedule contains the copies.
 */
#ifndef CORE_EXEC_STAGING_H
#define CORE_EXEC_STAGING_H

#include "device/copy_stream.h"
#include "schedule/stage.h"

#include <stddef.h>
#include <stdint.h>

struct comm;
struct context;
struct op;

/* COLL_BUFFER_SEND, COLL_BUFFER_RECV and the scalar of an operation may lie on a device: bits of call.staged. */
enum { STAGING_SCALAR = 2 };

/*
 * The host memory that stands in for an operation's device buffers.  It has a part for the send buffer
 * and a part for the receive buffer; in place they are the same.  It is freed with the operation.
 */
struct staging {
	char *start; /* the memory of this call: `memory`, or that of the operation's bounce */
	char *memory;
	size_t size; /* size of the memory; 0: none */
	int pinned;
	struct stage
		stage; /* the place of each buffer in the memory, and the bytes that this call needs */
	char *base[2]; /* the beginnings of the buffers there, which replace the user's in steps */
	const void *scalar; /* the factor of the operation, on the device */
	struct copy_stream *copy_stream[COPY_STREAMS];
	/*
	 * Queues of copies that wait for a free place on their stream, linked by run.u.next; -1: empty.
	 */
	int first[COPY_STREAMS], last[COPY_STREAMS];
};

/*
 * Finds the kinds of memory of an operation's buffers: op->call.memory and .staged.
 * COLL_ERR_UNSUPPORTED with a message if neither the backend nor staging can use them.
 */
int staging_look(struct op *op);
/* Allocates the staging memory of an operation with staged buffers, before its steps begin. */
int staging_begin(struct op *op);
void staging_free(struct op *op);
/* Places each buffer in the staging memory: equally for all calls that share a schedule. */
void staging_layout(struct op *op);
/*
 * The address in the program's memory of the byte at offset `off` of the staging memory.  part: the device buffer for
 * which the byte stands.
 */
uintptr_t staging_user_at(const struct op *op, int part, size_t off);
/* Adds the copies to and from staged buffers to an operation's schedule. */
void staging_schedule(struct op *op);

/* The warnings (staging_sites.c).  Counts a staged operation: 1 if it is the first of its kind from its place. */
int staging_count_one(struct comm *comm, int kind, const void *site);
/* Warns of such a first one, which copies so many bytes from and to the device. */
void staging_log(const struct comm *comm, int kind, const void *site, size_t from, size_t to);
/* Counts a message of coll_isend or coll_irecv that is staged, and warns of the first of each place in the program. */
void staging_warn_message(struct comm *comm, int kind, const void *site, size_t bytes);
/* Writes "160 allreduce, 2 send", the staged operations of the communicator; "": there were none. */
void staging_count(const struct comm *comm, char *text, size_t size);
/* The communicator is freed. */
void staging_free_sites(struct comm *comm);
/* Sets the place for which the thread calls from now on; NULL: the callers of the library are the places. */
void staging_set_site(const void *site);
/* The place of a call: the one that was set, else the caller of the library. */
const void *staging_site(const void *caller);

/* The copies of an operation (staging_copy.c).  Empties the queues of copies. */
void staging_copy_begin(struct op *op);
/* Appends a copy, of which all earlier steps are complete, to its queue. */
void staging_copy_ready(struct op *op, int step);
/*
 * Starts queued copies while their streams have free places, and completes ended copies: 1 if any moved.
 */
int staging_copy_run(struct op *op);
/* Waits, for a bounded time, until no copy of the operation is in flight. */
void staging_copy_cancel(struct op *op);

#endif
