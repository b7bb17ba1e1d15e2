/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call.h - the description of one call.  The check of the arguments (api/check.c) begins it, plan_make
 * completes it, and everything between the API and the wire reads from it.
 */
#ifndef CORE_COMM_CALL_H
#define CORE_COMM_CALL_H

#include "base/kind.h"
#include "comm/signature.h"
#include "reduce/redop.h"

#include <coll/backend.h>

struct lane;

/*
 * Bits of args.flags.  CALL_OF_SPLIT: the call is part of coll_comm_split, and messages name it so.
 * CALL_OF_LIST: a v-form that serves a list of buffers (extra/lists.c); the check turns it into call.list.
 */
enum { CALL_OF_SPLIT = 1, CALL_OF_LIST = 2 };

/* A backend's own function for a kind of operation. */
typedef int32_t (*native_fn)(void *ep, const coll_args_t *args, coll_error_t *err);

struct call {
	coll_args_t args;
	/* The check sets the members from here on. */
	const struct kind *kind; /* NULL for KIND_AWAIT */
	size_t elements[2]; /* elements that this rank uses of the send and of the receive buffer */
	/*
	 * Bit 1 << buffer: the buffer is a list, of blocks of args.count elements at the displacements; the
	 * memory between the blocks belongs to the program.  `elements` then counts the elements of the blocks.
	 */
	int list;
	struct redop redop; /* zeroed if the kind reduces no data */
	/* plan_make sets the members from here on. */
	uint32_t memory[2]; /* kinds of memory of both buffers; 0: not used here */
	int staged;         /* bit 1 << buffer: this buffer is staged; see compose/staging.h */
	int in_place;       /* the buffers overlap as coll.h allows */
	int algorithm;      /* index in the table of algorithms, or -1 */
	int engine;         /* enum engine_index */
	native_fn slot;     /* the backend's function for the whole call, or NULL */
	struct signature signature; /* the name of the call for messages */
};

/* Writes "allreduce of 10 float32 (sum)" or "recv of 4 int32 from rank 2 with tag 7". */
void call_describe(const struct lane *lane, const struct call *call, char *text, size_t size);

/* Describes a call of the library's own, which needs no check. */
struct call call_of_library(const struct lane *lane, const coll_args_t *args);

#endif
