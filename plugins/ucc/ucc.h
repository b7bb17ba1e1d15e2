/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucc.h - types and functions that the files of the ucc backend share.  One endpoint is a UCC context with one team.
 *
 * A file calls only files that stand after it here: ucc; team, end; queue; call; library; log.
 *
 * UCC has no stream: it may run collectives that were posted one after the other at the same time.  So the endpoint has
 * a queue, and posts a collective when the collectives before it are complete.  The collectives of a group do not depend
 * on each other, and are posted together.
 */
#ifndef PLUGINS_UCC_H
#define PLUGINS_UCC_H

#include <coll/backend.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/plugin_kit.h"
#include <stdarg.h>
#include <stdatomic.h>

#include "ucc_api.h"

/* ----------------------------------------------------------------- ucc_library.c -- */

/* UCC's functions. */
struct ucc_library {
	void (*ucc_get_version)(unsigned *major, unsigned *minor, unsigned *release);
	const char *(*ucc_get_version_string)(void);
	const char *(*ucc_status_string)(ucc_status_t status);
	ucc_status_t (*ucc_lib_config_read)(const char *prefix, const char *file,
					    ucc_lib_config_h *config);
	void (*ucc_lib_config_release)(ucc_lib_config_h config);
	ucc_status_t (*ucc_init_version)(unsigned major, unsigned minor,
					 const ucc_lib_params_t *params, ucc_lib_config_h config,
					 ucc_lib_h *lib);
	ucc_status_t (*ucc_finalize)(ucc_lib_h lib);
	ucc_status_t (*ucc_context_config_read)(ucc_lib_h lib, const char *file,
						ucc_context_config_h *config);
	void (*ucc_context_config_release)(ucc_context_config_h config);
	ucc_status_t (*ucc_context_config_modify)(ucc_context_config_h config,
						  const char *component, const char *name,
						  const char *value);
	ucc_status_t (*ucc_context_create)(ucc_lib_h lib, const ucc_context_params_t *params,
					   ucc_context_config_h config, ucc_context_h *context);
	ucc_status_t (*ucc_context_destroy)(ucc_context_h context);
	ucc_status_t (*ucc_context_progress)(ucc_context_h context);
	ucc_status_t (*ucc_team_create_post)(ucc_context_h *contexts, uint32_t n,
					     const ucc_team_params_t *params, ucc_team_h *team);
	ucc_status_t (*ucc_team_create_test)(ucc_team_h team);
	ucc_status_t (*ucc_team_destroy)(ucc_team_h team);
	ucc_status_t (*ucc_collective_init)(ucc_coll_args_t *args, ucc_coll_req_h *req,
					    ucc_team_h team);
	ucc_status_t (*ucc_collective_post)(ucc_coll_req_h req);
	ucc_status_t (*ucc_collective_finalize)(ucc_coll_req_h req);
	unsigned version[3]; /* major, minor, release */
	char path[256];      /* the file of the library */
};

extern struct ucc_library ucc_library;

/* Opens UCC; an error if it is missing or too old. */
int32_t ucc_library_open(const coll_host_t *host, coll_error_t *err);
/* Makes the library object of an endpoint. */
int32_t ucc_library_init(ucc_lib_h *lib, coll_error_t *err);
void ucc_library_finalize(ucc_lib_h lib);
/* Fills *err with the text of a failed call, `what`, to UCC. */
int32_t ucc_refused(coll_error_t *err, ucc_status_t status, const char *what);

/* --------------------------------------------------------------------- ucc_log.c -- */

struct ucc;

/*
 * Between these two calls the messages of UCC and UCX in this thread go to the log of `host`.  ucc_log_begin drops an earlier
 * warning, and returns the host whose log it was before; the caller passes it to ucc_log_end.
 */
const coll_host_t *ucc_log_begin(const coll_host_t *host);
void ucc_log_end(const coll_host_t *before);
/* The messages of other threads go to the log of an endpoint that is open: it is, between these two calls. */
void ucc_log_add(struct ucc *u);
void ucc_log_remove(struct ucc *u);
/* The thread has no host, and ends a context: drops its messages. */
void ucc_log_quiet(void);
/* Moves the thread's last warning to `text`, and returns that; "" if there is none. */
const char *ucc_log_take_warning(char *text, size_t size);
/* A ucs_log_func_t: 0 if the message needs no other handler. */
int ucc_log_handle(const char *file, unsigned line, const char *function, int level,
		   const void *component, const char *message, va_list args);

/* ----------------------------------------------------------------------- endpoint -- */

struct ucc_op;

/* What UCC's allgather needs, until UCC's context has ended: see ucc_team.c. */
struct ucc_exchange {
	const coll_host_t *host; /* while the endpoint is made; else NULL */
	int64_t deadline;
	coll_error_t *err; /* the failure of an exchange */
	int failed;
	int given_up;   /* no rank exchanges any more: UCC's next allgather fails */
	int in_context; /* UCC makes the context */
	int linger_ms; /* a context that ends moves the last messages of other ranks for so long, */
	int64_t until; /* until this time */
};

struct ucc {
	const coll_host_t *host;
	struct ucc_exchange *exchange;
	uint32_t rank, nranks;
	ucc_lib_h lib;
	ucc_context_h context;
	ucc_team_h team;
	int unfinished; /* UCC is making the team, and cannot end it */
	atomic_int aborted;
	/* The failure of an operation, which every later call returns; COLL_SUCCESS: none. */
	coll_error_t failure;

	/* The operations that are not complete, in their order; those of the first batch are posted. */
	struct ucc_op *first, *last;
	struct ucc_op *spare;  /* for later operations */
	uint64_t batch;        /* of the operation issued last */
	int in_group;          /* the open group is one batch */
	struct ucc *next_open; /* see ucc_log_add */
	int64_t idle_since;    /* clock_now_us of the last post or completion; 0: not read since */
};

/* ------------------------------------------------------------------- ucc_team.c -- */

int32_t ucc_open(const coll_host_t *host, void **ep, coll_error_t *err);

/* -------------------------------------------------------------------- ucc_end.c -- */

void ucc_close(void *ep, int64_t timeout_ms);
/* The process ends: waits a moment for the threads that end contexts.  Later calls for endpoints fail or do nothing. */
void ucc_finish(void);

/* ------------------------------------------------------------------ ucc_queue.c -- */

/* The function in each slot of coll_native_t that is an operation. */
int32_t ucc_issue(void *ep, const coll_args_t *args, coll_error_t *err);
int32_t ucc_group_begin(void *ep, coll_error_t *err);
int32_t ucc_group_end(void *ep, coll_error_t *err);
int32_t ucc_query(void *ep, coll_error_t *err);
int32_t ucc_sync(void *ep, int64_t timeout_ms, coll_error_t *err);
void ucc_abort(void *ep);
/* Is nothing under way, and has nothing failed? */
int ucc_queue_is_at_rest(struct ucc *u);
/* The process ends: from now on the operations of all endpoints fail without a call of UCC. */
void ucc_queue_stop(void);
int ucc_queue_is_stopped(void);
/* Frees the operations.  UCC may still use the memory of those under way, which stays. */
void ucc_queue_free(struct ucc *u);

/* ------------------------------------------------------------------- ucc_call.c -- */

/* A copy within host memory. */
struct ucc_copy {
	void *dst;
	const void *src;
	size_t bytes; /* 0: no copy */
};

/* What decides the translation of a call without arrays. */
struct ucc_call_key {
	const void *send;
	void *recv;
	uint64_t count;
	int32_t kind, dtype, op, root;
};

/* One operation. */
struct ucc_op {
	struct ucc_op *next;
	ucc_coll_req_h req; /* NULL: it is not posted */
	uint64_t batch;
	struct ucc_copy before, after; /* the copies before the post and after the completion */
	void *memory[3];               /* freed with the operation: arrays, copies of buffers */
	struct ucc_call_key key; /* of a spare operation: `args` is the translation of this call */
	ucc_coll_args_t args;
};

/* Translates a call, unless a spare operation is the same call; COLL_ERR_NO_MEMORY. */
int32_t ucc_op_fill(struct ucc_op *op, const struct ucc *u, const coll_args_t *args,
		    coll_error_t *err);
/* The operation is spare: frees the memory that only a running operation needs. */
void ucc_op_clear(struct ucc_op *op);
int32_t ucc_takes(void *ep, const coll_args_t *args, coll_error_t *err);

#endif
