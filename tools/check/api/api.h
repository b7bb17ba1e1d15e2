/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api.h - the parts of `coll check` that go through coll.h: how ranks are started and what
 * they found (api.c), one call and what it must give (call.c, issue.c,
 * data.c), and the checks, a table for each theme.
 */
#ifndef TOOLS_CHECK_API_H
#define TOOLS_CHECK_API_H

#include <coll/coll.h>
#include <stddef.h>
#include <stdint.h>
#include "check/kit/kit.h"
#include "lib/memory.h"

/* ----------------------------------------------------------- ranks (api.c) -- */

struct api_rooms;

/* One rank in one check. */
struct api_rank {
	coll_comm_t comm; /* NULL with API_NO_COMM */
	int32_t rank, nranks;
	int32_t slot; /* as what it was started: `comm` may be replaced by a derived one */
	unsigned turn;
	struct check_case *c;
	int device;              /* or -1 */
	enum memory_kind memory; /* that all buffers are of */
	struct api_rooms *rooms;
	void *context;   /* the thread's current context, which no call may change */
	int patient;     /* pass over what a backend without transport does not support */
	char lacks[200]; /* and remember what that was */
};

/* Bits of api_plan.flags. */
enum {
	API_NO_COMM = 1 << 0, /* the check makes its communicators itself */
	API_ROUGH = 1 << 1    /* errors are wanted: the result of destroy does not matter */
};

/* What struct check.plan points to in the rows of the tables below. */
struct api_plan {
	void (*rank)(struct api_rank *r); /* called for each rank at once */
	unsigned flags;
	int64_t timeout_ms;         /* of the communicators; 0: as long as the kit is patient */
	const char *const *options; /* further options of the communicators, or NULL */
	int32_t kind;               /* the check's own: a kind of collective */
};

/* The `run` of every row. */
void api_run(struct check_case *c);

extern const struct check check_api_coll[];
extern const struct check check_api_value[];
extern const struct check check_api_message[];
extern const struct check check_api_group[];
extern const struct check check_api_event[];
extern const struct check check_api_comm[];
extern const struct check check_api_many[];
extern const struct check check_api_fault[];
extern const struct check check_api_op[];
extern const struct check check_api_device[];

/* Fails the check with a sentence about this rank.  Returns 0, for use in conditions. */
__attribute__((format(printf, 2, 3))) int api_fail(struct api_rank *r, const char *fmt, ...);
/* A backend with a transport group has everything: the core does what it does not. */
int api_may_lack(const struct api_rank *r);
/* Did a call succeed?  What a backend without transport does not support skips the check. */
int api_did(struct api_rank *r, coll_result_t code, const char *what);
/* Did it answer `wanted`, with this word in its text?  word may be NULL. */
int api_answered(struct api_rank *r, coll_result_t code, coll_result_t wanted, const char *word,
		 const char *what);
/* Is that what a backend need not support?  Then notes it, and makes the communicator good again. */
int api_pass_over(struct api_rank *r, coll_result_t code);
/* All ranks come here before one goes on, without the library; 0 if one of them does not. */
int api_meet(struct api_rank *r);
/* Waits until shared number `index` has reached value; 0 if it does not. */
int api_await(struct api_rank *r, int index, long long value);
void api_sleep_ms(int ms);

/* A configuration that can choose nothing but the plugin. */
void api_configure(const struct api_rank *r, coll_config_t *config);
/* Makes *comm as rank r->rank of r->nranks by an id that rank 0 makes. */
int api_join(struct api_rank *r, coll_comm_t *comm);
/* Makes all r->nranks communicators in this process. */
int api_join_all(struct api_rank *r, coll_comm_t *comms);
/* r with another communicator. */
int api_derive(struct api_rank *derived, const struct api_rank *r, coll_comm_t comm);
/* An allreduce of one number on r->comm gives the right one: it works. */
int api_works(struct api_rank *r);

/* --------------------------------------------------------- rooms (room.c) -- */

/*
 * Zeroed memory of a kind that the backend takes and that the host may touch, until the rank ends.
 * Never NULL: without memory the process ends.
 */
void *api_room(struct api_rank *r, size_t bytes);
/* The same for the buffers of another rank of this process. */
void *api_room_of(struct api_rank *r, int32_t rank, size_t bytes);
/* One that is freed by its owner, not zeroed; NULL and a failed check if there is none. */
void *api_memory(struct api_rank *r, size_t bytes);
void api_rooms_make(struct api_rank *r);
void api_rooms_free(struct api_rank *r);

/* -------------------------------------------------------- calls (call.c) -- */

enum { API_GUARD = 64, API_MOVE = -1, API_ODD_RANKS = 2 };

/* One collective call, as all ranks make it. */
struct api_case {
	int32_t kind, dtype, op, root;
	int in_place; /* 1: on all ranks; API_ODD_RANKS */
	int gaps;     /* v-forms: displacements out of order and with gaps; 0: NULL */
	size_t count; /* v-forms: about so many for each rank */
};

struct api_table;

/* What a rank's buffer holds afterwards: elements `first`.. of a row of the table, at `at`. */
struct api_part {
	size_t at, count, first;
	int32_t row; /* a rank's input, or -1: the reduction of all */
};

/* One rank's part in it. */
struct api_call {
	struct api_rank *r;
	struct api_case c;
	coll_args_t args;
	struct api_table *table;
	size_t shift;                    /* of the buffers, in bytes */
	size_t elem, send_len, recv_len; /* in elements, gaps included */
	size_t own; /* in place: where the smaller buffer begins within the larger one */
	size_t counts[CHECK_RANKS], displs[CHECK_RANKS];
	struct api_part part[CHECK_RANKS];
	int parts;
	unsigned char *send_mem, *recv_mem, *send, *recv;
};

/* Does the kind take an operation, a root, counts? */
int api_reduces(int32_t kind);
int api_rooted(int32_t kind);
int api_varies(int32_t kind);

/* Makes buffers and arguments.  Always followed by api_call_free. */
int api_call_make(struct api_call *call, struct api_rank *r, const struct api_case *c);
/* Fills the buffers; again before each further start. */
void api_call_fill(struct api_call *call);
/* Calls the function of coll.h that belongs to args->kind. */
coll_result_t api_issue(const coll_args_t *args, coll_comm_t comm);
/* Is everything as it must be, guards, gaps and send buffers included? */
int api_call_verify(struct api_call *call);
void api_call_free(struct api_call *call);
/* All of it, and coll_sync. */
int api_call_run(struct api_rank *r, const struct api_case *c);

/* --------------------------------------------------------- data (data.c) -- */

/* Inputs repeat with a prime period, so that what lands in the wrong place is seen. */
enum { API_PERIOD = 257, API_ELEM_MAX = 8, API_DTYPES = 14, API_OPS = 8 };

extern const int32_t api_dtypes[API_DTYPES];
extern const int32_t api_ops[API_OPS];

/* Bits of the mantissa; 0: an integer type. */
int api_mantissa(int32_t dtype);
/* Is the operation defined for the type? */
int api_op_fits(int32_t op, int32_t dtype);
/* Any number from two. */
uint64_t api_mix(uint64_t a, uint64_t b);
/* A whole number, small enough for the type, as an element of it. */
void api_store(int32_t dtype, int64_t whole, void *out);
void api_store_nan(int32_t dtype, void *out);
int api_is_nan(int32_t dtype, const void *in);

struct api_table {
	unsigned char in[CHECK_RANKS][API_PERIOD * API_ELEM_MAX];
	unsigned char out[API_PERIOD * API_ELEM_MAX];
};

/* The first n elements of all rows; op is API_MOVE for what is not reduced. */
void api_table_make(struct api_table *table, int32_t dtype, int32_t op, int32_t nranks, size_t n);
/* Elements first, first + 1, ... of a row's endless repetition. */
void api_tile(void *dst, const unsigned char *row, size_t elem, size_t first, size_t count);

#endif
