/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging.h - device buffers that the backend does not reach: host memory stands in for them, and the
 * schedule contains the copies.
 */
#ifndef CORE_EXEC_STAGING_H
#define CORE_EXEC_STAGING_H

#include "schedule/stage.h"

#include <stddef.h>
#include <stdint.h>

struct comm;
struct offload;
struct op;

/* COLL_BUFFER_SEND, COLL_BUFFER_RECV and the scalar of an operation may lie on a device: bits of call.staged. */
enum { STAGING_SCALAR = 2 };

/* The layout of an operation's device buffers in the memory that stands in for them: see device/offload.h. */
struct staging {
	struct stage
		stage; /* the place of each buffer in the memory, and the bytes that this call needs */
	char *base[2]; /* the beginnings of the buffers there, which replace the user's in steps */
	const void *scalar; /* the factor of the operation, on the device */
};

/*
 * Finds the kinds of memory of an operation's buffers: op->call.memory and .staged.
 * COLL_ERR_UNSUPPORTED with a message if neither the backend nor staging can use them.
 */
int staging_look(struct op *op);
/* Finds the memory of an operation with staged buffers, before its steps begin. */
int staging_begin(struct op *op);
/* The operation leaves the queue, or is freed. */
void staging_end(struct op *op);
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

/* All steps before a copy are complete: begins the copy. */
void staging_copy(struct op *op, int step);
/* Waits, for a bounded time, until no copy of the operation is under way. */
void staging_cancel(struct op *op);

/* --- calls with a stream of the program, whose copies are on that stream: see device/offload.h. */

/* Are the operation's device buffers copied on its stream?  Its own function takes them as they are. */
int staging_is_on_stream(const struct op *op);
/* Lays out the buffers of such an operation; returns the bytes that stand for them, and for a factor. */
size_t staging_need(struct op *op);
/* Lists the copies of such an operation, whose schedule and layout are there, for its stream. */
int staging_list(const struct op *op, struct offload *o);

#endif
