/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dropin.h - the insides of the drop-in libnccl: NCCL's functions over coll.h, for programs that were built for
 * NCCL.  README.md has the differences from NCCL that a program may see.
 */
#ifndef BINDINGS_NCCL_DROPIN_H
#define BINDINGS_NCCL_DROPIN_H

#include "nccl_abi.h"

#include <coll/coll.h>

/* ------------------------------------------------------------------------- CUDA -- */

/* The handles of default streams, which mean another stream in each context: cudaStreamLegacy and _PerThread. */
enum { CUDA_STREAM_LEGACY = 1, CUDA_STREAM_PER_THREAD = 2 };

/* A context made current for a moment. */
struct cuda_pushed {
	int pushed;
};

/* Opens the driver; each function below has called it.  An error is recorded, as everywhere here. */
ncclResult_t cuda_open(void);
ncclResult_t cuda_device_count(int *count);
/* The device of the calling thread; the first one if the thread has no context, as in CUDA's runtime. */
ncclResult_t cuda_current_device(int *device);
ncclResult_t cuda_retain(int device, void **context);
void cuda_release(int device);
ncclResult_t cuda_push(struct cuda_pushed *pushed, void *context);
void cuda_pop(struct cuda_pushed *pushed);

/*
 * A communicator's stand-in for the default streams of its device: coll.h takes streams by their handles, and a
 * default stream's handle means the device of whichever context is current.
 */
struct cuda_bridge {
	void *context, *stream, *event;
};

/* The bridge's later work begins after the default stream's earlier work. */
ncclResult_t cuda_bridge_enter(struct cuda_bridge *bridge, void *stream);
/* The default stream's later work begins after the bridge's earlier work. */
ncclResult_t cuda_bridge_leave(struct cuda_bridge *bridge, void *stream);
void cuda_bridge_free(struct cuda_bridge *bridge);
/* Records an event of the program on a stream that is no default stream. */
ncclResult_t cuda_record(void *event, void *stream);

/* ----------------------------------------------------------------------- errors -- */

/* Records the text as the thread's last error, and returns the code. */
__attribute__((format(printf, 2, 3))) ncclResult_t fail(ncclResult_t code, const char *fmt, ...);
/* The same with the text that libcoll has for a code of its own. */
ncclResult_t from_coll(coll_result_t code);
/* NCCL's nearest code. */
ncclResult_t nccl_code(coll_result_t code);
const char *last_error(void);
/* Makes the text of another thread's error this thread's last one. */
void error_keep(const char *text);

/* The program begins to use this library: the first time, tells the user of another NCCL in the process. */
void beside_use(void);

/* ---------------------------------------------------------------- configurations -- */

/* Fails if the program has not initialised its configuration of a communicator, or if a value is wrong; NULL is none. */
ncclResult_t config_check(const char *function, const ncclConfig_t *config);
struct operation;

/* The same of the configuration of a call of `function`, by which the operation is then to be executed. */
ncclResult_t config_apply(const char *function, const ncclCollConfig_t *config,
			  struct operation *operation);
/* Has the program asked for encryption by ncclSetEncryption? */
int config_encrypts(void);

/* ---------------------------------------------------------------- communicators -- */

struct ncclComm {
	unsigned magic;
	_Atomic int refs; /* the program's, and one for each operation that a thread is issuing */
	coll_comm_t coll; /* NULL until it is made */
	int rank, nranks, device;
	int finalized, revoked;
	int encrypts;              /* the program's wish when it was made, or that of its parent */
	struct cuda_bridge bridge; /* its context is the device's, retained */
	struct ncclComm *next;     /* in the list of those over the backend nccl */
};

/* Fails unless `comm` is a communicator, which is ready. */
ncclResult_t comm_check(const struct ncclComm *comm, const char *function);
/* Also fails after ncclCommFinalize or ncclCommRevoke. */
ncclResult_t comm_check_usable(const struct ncclComm *comm, const char *function);
/* Takes a reference to a communicator over the backend nccl on the device; NULL if there is none. */
struct ncclComm *comm_over_nccl(int device);
/* The thread that gives up the last reference frees the communicator. */
void comm_ref(struct ncclComm *comm);
void comm_unref(struct ncclComm *comm);

/* ----------------------------------------------------------------------- groups -- */

/* Jobs up to JOB_MAKES make a communicator; the others end one. */
enum job_kind {
	JOB_INIT,
	JOB_SPLIT,
	JOB_SHRINK,
	JOB_MAKES = JOB_SHRINK,
	JOB_FINALIZE,
	JOB_DESTROY,
	JOB_ABORT
};

/* A call on communicators as a whole, which a group puts off. */
struct job {
	enum job_kind kind;
	struct ncclComm *comm; /* the communicator, or the one that is made */
	struct ncclComm *parent;
	ncclComm_t *out; /* where the program wants the new communicator */
	char id[NCCL_UNIQUE_ID_BYTES + 1];
	int color, key, flags;
	int *exclude, nexclude; /* owned by the job */
	ncclResult_t result;
	char text[1024]; /* of a failure on a thread of its own */
	struct job *next;
};

/* Executes the job, which may be on a thread of its own, and records its result. */
void job_run(struct job *job);
/* Records that a job of the kinds up to JOB_MAKES cannot be executed. */
void job_refuse(struct job *job, const char *why);
/* Undoes a job that was never executed. */
void job_undo(struct job *job);

/* Executes the job now, or keeps it until the thread's group ends.  Takes it over. */
ncclResult_t group_job(struct job *job);
/* The most algorithms that a call tries. */
enum { ALGORITHMS_MAX = 7 };

/* A call of the program on a communicator. */
struct operation {
	struct ncclComm *comm;
	coll_args_t args;
	const void *site; /* the place in the program that called */
	void *launched;   /* an event that is recorded when the operation can begin, or NULL */
	uint32_t algorithms[ALGORITHMS_MAX + 1]; /* for args.flags, best first; 0 ends them */
	int optional;                            /* the algorithms are a wish */
	void *shared; /* the default stream in place of which the operation has the bridge */
};

/* Issues the operation now, or keeps a copy until the thread's group ends. */
ncclResult_t group_operation(struct operation *operation);
/* Forgets the operations and jobs of the thread's group, and closes it. */
ncclResult_t group_forget(void);
/* A wrong call inside a group fails the group's end too.  Returns the code. */
ncclResult_t group_note(ncclResult_t code);
int group_is_open(void);

#endif
