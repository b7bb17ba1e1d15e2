/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api.h - the parts of `coll check` that go through coll.h: how ranks are started and what
 * they found (api.c), one call (call.c), and the checks, a table for each theme.
 */
#ifndef TOOLS_CHECK_API_H
#define TOOLS_CHECK_API_H

#include <coll/coll.h>
#include <stddef.h>
#include <stdint.h>
#include "check/kit/kit.h"
#include "lib/memory.h"
#include "oracle/oracle.h"

/* ----------------------------------------------------------- ranks (api.c) -- */

struct api_arena;

/* One rank in one check. */
struct api_rank {
	coll_comm_t comm; /* NULL with API_NO_COMM */
	int32_t rank, nranks;
	int32_t slot; /* as what it was started: `comm` may be replaced by a derived one */
	unsigned step;
	struct check_case *c;
	int device;              /* or -1 */
	enum memory_kind memory; /* that all buffers are of */
	struct api_arena *arena;
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
int api_kit_barrier(struct api_rank *r);
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

/* --------------------------------------------------------- arena (arena.c) -- */

/*
 * Zeroed memory of a kind that the backend takes and that the host may touch, until the rank ends.
 * Never NULL: without memory the process ends.
 */
void *api_buffer(struct api_rank *r, size_t bytes);
/* The same for the buffers of another rank of this process. */
void *api_buffer_of(struct api_rank *r, int32_t rank, size_t bytes);
/* One that is freed by its owner, not zeroed; NULL and a failed check if there is none. */
void *api_memory(struct api_rank *r, size_t bytes);
void api_arena_make(struct api_rank *r);
void api_arena_free(struct api_rank *r);

/* -------------------------------------------------------- calls (call.c) -- */

/* One rank's part in a collective call that the oracle judges. */
struct api_call {
	struct api_rank *r;
	struct oracle_call o;
	void *area[ORACLE_AREAS];
};

/* Makes buffers and arguments.  Always followed by api_call_free. */
int api_call_make(struct api_call *call, struct api_rank *r, const struct oracle_case *c);
/* Fills the buffers; again before each further start. */
void api_call_fill(struct api_call *call);
/* Is everything as it must be, guards, gaps and send buffers included? */
int api_call_verify(struct api_call *call);
void api_call_free(struct api_call *call);
/* All of it, and coll_sync. */
int api_call_run(struct api_rank *r, const struct oracle_case *c);

#endif
