/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * api.h - the parts of `coll check` that go through coll.h: ranks and their results (api.c),
 * buffers (arena.c), one call (call.c), and the checks, a table for each theme.
 */
#ifndef TOOLS_CHECK_API_H
#define TOOLS_CHECK_API_H

#include <coll/coll.h>
#include <stddef.h>
#include <stdint.h>
#include "check/kit/kit.h"
#include "lib/memory.h"
#include "oracle/oracle.h"
#include "scenario/scenario.h"

/* ----------------------------------------------------------- ranks (api.c) -- */

struct api_arena;

/* One rank in one check. */
struct api_rank {
	coll_comm_t comm; /* NULL with API_NO_COMM */
	int32_t rank, nranks;
	/* the rank in the check; `comm` may be a derived communicator with other ranks */
	int32_t slot;
	unsigned step;
	struct check_case *c;
	int device;              /* or -1 */
	enum memory_kind memory; /* the kind of memory of all buffers */
	struct api_arena *arena;
	void *context;   /* the thread's current context when the rank started */
	int library;     /* 1: the calls are on memory of coll_mem_alloc */
	int tolerant;    /* 1: bear errors about functions that a backend without transport lacks */
	char lacks[200]; /* the error text of the first such function */
};

/* Bits of api_plan.flags. */
enum {
	API_NO_COMM = 1 << 0, /* the check makes its communicators itself */
	API_ROUGH = 1 << 1 /* the check provokes errors, so the result of destroy does not matter */
};

/* The type of struct check.plan in the tables below: what each rank does, by `rank` or by `scenario`. */
struct api_plan {
	/* called once on each rank, on all ranks at the same time */
	void (*rank)(struct api_rank *r);
	unsigned flags;
	int64_t timeout_ms;         /* timeout of the communicators; 0: the timeout of the case */
	const char *const *options; /* further options of the communicators, or NULL */
	int32_t kind;               /* for the check's own use: a kind of collective */
	scenario_fn scenario;       /* instead of `rank`: the ranks run a scenario */
};

/* The function `run` of every row in the tables below. */
void api_run(struct check_case *c);

extern const struct check check_api_coll[];
extern const struct check check_api_value[];
extern const struct check check_api_message[];
extern const struct check check_api_group[];
extern const struct check check_api_event[];
extern const struct check check_api_request[];
extern const struct check check_api_comm[];
extern const struct check check_api_many[];
extern const struct check check_api_fault[];
extern const struct check check_api_op[];
extern const struct check check_api_device[];

/* Fails the check with a message about this rank.  Returns 0, for use in conditions. */
__attribute__((format(printf, 2, 3))) int api_fail(struct api_rank *r, const char *fmt, ...);
/*
 * May the backend lack functions?  Only without a transport group: over a transport the core
 * provides each missing function.
 */
int api_may_lack(const struct api_rank *r);
/*
 * Did the call succeed?  If a backend without transport does not support the call, skips the check.
 */
int api_did(struct api_rank *r, coll_result_t code, const char *what);
/* Did the call return `wanted`, and does the error text contain `word`?  word may be NULL. */
int api_answered(struct api_rank *r, coll_result_t code, coll_result_t wanted, const char *word,
		 const char *what);
/*
 * Is the error about a function that the backend may lack?  Then stores its text and resets the
 * communicator.
 */
int api_pass_over(struct api_rank *r, coll_result_t code);
/* Waits for all ranks without the library.  Returns 0 if a rank does not come. */
int api_kit_barrier(struct api_rank *r);
/* Waits until shared number `index` has reached value.  Returns 0 after the timeout. */
int api_await(struct api_rank *r, int index, long long value);
void api_sleep_ms(int ms);

/* Fills a configuration under which the library can choose only the plugin under test. */
void api_configure(const struct api_rank *r, coll_config_t *config);
/* Makes *comm as rank r->rank of r->nranks, from a unique id that rank 0 makes. */
int api_join(struct api_rank *r, coll_comm_t *comm);
/* Makes all r->nranks communicators in this process. */
int api_join_all(struct api_rank *r, coll_comm_t *comms);
/* Returns a copy of r with another communicator. */
int api_derive(struct api_rank *derived, const struct api_rank *r, coll_comm_t comm);
/* Does an allreduce of one number on r->comm give the right result? */
int api_works(struct api_rank *r);

/* --------------------------------------------------------- arena (arena.c) -- */

/*
 * Returns zeroed memory of a kind that the backend takes and the host may read and write.  The memory lives until the rank
 * ends.  Never NULL: without memory the process ends.
 */
void *api_buffer(struct api_rank *r, size_t bytes);
/* Does the same for the buffers of another rank of this process. */
void *api_buffer_of(struct api_rank *r, int32_t rank, size_t bytes);
/* Returns memory that the caller frees, not zeroed.  If there is none, returns NULL and fails the check. */
void *api_memory(struct api_rank *r, size_t bytes);
void api_arena_make(struct api_rank *r);
void api_arena_free(struct api_rank *r);

/* -------------------------------------------------------- calls (call.c) -- */

/* One rank's part in a collective call whose result the oracle checks. */
struct api_call {
	struct api_rank *r;
	struct oracle_call o;
	void *area[ORACLE_AREAS]; /* memory that the kit may read and write */
	void *place
		[ORACLE_AREAS]; /* where the call has its buffers: there, or memory of coll_mem_alloc */
};

/*
 * Makes buffers and arguments.  The caller must call api_call_free afterwards, also after a
 * failure.
 */
int api_call_make(struct api_call *call, struct api_rank *r, const struct oracle_case *c);
/* Fills the buffers.  The caller repeats this before each further start. */
void api_call_fill(struct api_call *call);
/* Has every byte its expected value, guards, gaps and send buffers included? */
int api_call_verify(struct api_call *call);
void api_call_free(struct api_call *call);
/* Makes the call from start to end: buffers, call, coll_sync, verification. */
int api_call_run(struct api_rank *r, const struct oracle_case *c);

#endif
