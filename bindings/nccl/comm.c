/* SPDX-License-Identifier: BSD-3-Clause */
/* comm.c - NCCL's functions that make, end and describe communicators. */
#include "dropin.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

enum { COMM_MAGIC = 0x6c6c6f63 };

ncclResult_t comm_check(const struct ncclComm *comm, const char *function)
{
	if (!comm)
		return fail(ncclInvalidArgument, "%s: comm is NULL", function);
	if (comm->magic != COMM_MAGIC)
		return fail(ncclInvalidArgument, "%s: comm is no communicator, or was destroyed",
			    function);
	if (!comm->coll)
		return fail(ncclInvalidArgument, "%s: comm is made only when the group ends",
			    function);
	return ncclSuccess;
}

ncclResult_t comm_check_usable(const struct ncclComm *comm, const char *function)
{
	ncclResult_t code = comm_check(comm, function);

	if (code || (!comm->finalized && !comm->revoked))
		return code;
	return fail(ncclInvalidUsage, "%s: the communicator was %s", function,
		    comm->revoked ? "revoked" : "finalized");
}

/* ----------------------------------------------------------------------- making -- */

void comm_ref(struct ncclComm *comm)
{
	atomic_fetch_add(&comm->refs, 1);
}

void comm_unref(struct ncclComm *comm)
{
	if (atomic_fetch_sub(&comm->refs, 1) > 1)
		return;
	cuda_bridge_free(&comm->bridge);
	cuda_release(comm->device);
	free(comm);
}

static pthread_mutex_t over_nccl_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ncclComm
	*over_nccl; /* the communicators over the backend nccl; the lock guards the list */

static void over_nccl_add(struct ncclComm *comm)
{
	const char *backend = "";

	if (coll_comm_backend(comm->coll, &backend) || strcmp(backend, "nccl"))
		return;
	pthread_mutex_lock(&over_nccl_lock);
	comm->next = over_nccl;
	over_nccl = comm;
	pthread_mutex_unlock(&over_nccl_lock);
}

static void over_nccl_remove(const struct ncclComm *comm)
{
	struct ncclComm **link = &over_nccl;

	pthread_mutex_lock(&over_nccl_lock);
	while (*link && *link != comm)
		link = &(*link)->next;
	if (*link)
		*link = comm->next;
	pthread_mutex_unlock(&over_nccl_lock);
}

struct ncclComm *comm_over_nccl(int device)
{
	struct ncclComm *comm;

	pthread_mutex_lock(&over_nccl_lock);
	comm = over_nccl;
	while (comm && comm->device != device)
		comm = comm->next;
	if (comm)
		comm_ref(comm);
	pthread_mutex_unlock(&over_nccl_lock);
	return comm;
}

/* Gives up the program's reference. */
static void comm_end(struct ncclComm *comm)
{
	over_nccl_remove(comm);
	comm->magic = 0;
	comm_unref(comm);
}

static ncclResult_t comm_new(int device, struct ncclComm **out)
{
	struct ncclComm *comm = calloc(1, sizeof(*comm));
	ncclResult_t code;

	if (!comm)
		return fail(ncclSystemError, "no memory for a communicator");
	beside_use();
	code = cuda_retain(device, &comm->bridge.context);
	if (code) {
		free(comm);
		return code;
	}
	comm->magic = COMM_MAGIC;
	comm->refs = 1;
	comm->device = device;
	comm->encrypts = config_encrypts();
	*out = comm;
	return ncclSuccess;
}

/* A job that makes a communicator on `device`; *out becomes the communicator, which is not ready yet. */
static ncclResult_t job_new(enum job_kind kind, int device, ncclComm_t *out, struct job **made)
{
	struct job *job = calloc(1, sizeof(*job));
	ncclResult_t code;

	*out = NULL;
	if (!job)
		return fail(ncclSystemError, "no memory for a communicator");
	code = comm_new(device, &job->comm);
	if (code) {
		free(job);
		return code;
	}
	job->kind = kind;
	job->out = out;
	*out = job->comm;
	*made = job;
	return ncclSuccess;
}

static ncclResult_t init_on(const char *function, int device, ncclComm_t *comm, int nranks,
			    const ncclUniqueId *id, int rank)
{
	struct job *job;
	ncclResult_t code;

	if (!comm)
		return fail(ncclInvalidArgument, "%s: comm is NULL", function);
	*comm = NULL;
	if (nranks < 1 || rank < 0 || rank >= nranks)
		return fail(ncclInvalidArgument, "%s: there is no rank %d of %d", function, rank,
			    nranks);
	code = job_new(JOB_INIT, device, comm, &job);
	if (code)
		return code;
	job->comm->nranks = nranks;
	job->comm->rank = rank;
	memcpy(job->id, id->internal, NCCL_UNIQUE_ID_BYTES);
	return group_job(job);
}

static ncclResult_t init_rank(const char *function, ncclComm_t *comm, int nranks,
			      const ncclUniqueId *id, int rank, const ncclConfig_t *config)
{
	ncclResult_t code = config_check(function, config);
	int device = 0;

	if (!code)
		code = cuda_current_device(&device);
	if (!code)
		return init_on(function, device, comm, nranks, id, rank);
	if (comm)
		*comm = NULL;
	return code;
}

ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	if (!id)
		return fail(ncclInvalidArgument, "ncclGetUniqueId: uniqueId is NULL");
	beside_use();
	memset(id, 0, sizeof(*id));
	return from_coll(coll_get_unique_id(id->internal, sizeof(id->internal)));
}
NCCL_ALSO(ncclGetUniqueId);

ncclResult_t ncclCommInitRank(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank)
{
	return group_note(init_rank("ncclCommInitRank", comm, nranks, &id, rank, NULL));
}
NCCL_ALSO(ncclCommInitRank);

ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId id, int rank,
				    ncclConfig_t *config)
{
	return group_note(init_rank("ncclCommInitRankConfig", comm, nranks, &id, rank, config));
}
NCCL_ALSO(ncclCommInitRankConfig);

/* One id is enough: its process tells all ranks where the other ranks are. */
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int nranks, int rank, int nids,
				      ncclUniqueId *ids, ncclConfig_t *config)
{
	if (nids < 1 || nids > nranks || !ids)
		return group_note(fail(ncclInvalidArgument,
				       "ncclCommInitRankScalable: %d ids at %p for %d ranks", nids,
				       (void *)ids, nranks));
	return group_note(
		init_rank("ncclCommInitRankScalable", comm, nranks, &ids[0], rank, config));
}
NCCL_ALSO(ncclCommInitRankScalable);

static ncclResult_t init_all_check(const ncclComm_t *comms, int n, const int *devices)
{
	int count = 0;
	ncclResult_t code;

	if (!comms || n < 1)
		return fail(ncclInvalidArgument, "ncclCommInitAll: %d communicators at %p", n,
			    (const void *)comms);
	code = cuda_device_count(&count);
	for (int i = 0; !code && i < n; i++) {
		int device = devices ? devices[i] : i;

		if (device < 0 || device >= count)
			code = fail(ncclInvalidArgument,
				    "ncclCommInitAll: there is no device %d among %d", device,
				    count);
	}
	return code;
}

/* All or none: the group's end has freed the communicators that failed. */
static ncclResult_t init_all_undo(ncclComm_t *comms, int n, ncclResult_t code)
{
	char text[1024] = "";

	strncpy(text, last_error(), sizeof(text) - 1);
	for (int i = 0; i < n; i++) {
		ncclCommAbort(comms[i]);
		comms[i] = NULL;
	}
	error_keep(text);
	return code;
}

ncclResult_t ncclCommInitAll(ncclComm_t *comms, int ndev, const int *devices)
{
	ncclResult_t code = init_all_check(comms, ndev, devices), ended;
	ncclUniqueId id;

	if (code)
		return group_note(code);
	for (int i = 0; i < ndev; i++)
		comms[i] = NULL;
	code = ncclGetUniqueId(&id);
	if (code)
		return group_note(code);
	ncclGroupStart();
	for (int i = 0; !code && i < ndev; i++)
		code = group_note(init_on("ncclCommInitAll", devices ? devices[i] : i, &comms[i],
					  ndev, &id, i));
	ended = ncclGroupEnd();
	return code || ended ? init_all_undo(comms, group_is_open() ? 0 : ndev, code ? code : ended)
			     : ncclSuccess;
}
NCCL_ALSO(ncclCommInitAll);

/* A communicator has the connections of its parent, which stay as they are. */
static ncclResult_t derive_check(const struct ncclComm *parent, const char *function)
{
	if (parent->encrypts || !config_encrypts())
		return ncclSuccess;
	return fail(
		ncclInvalidUsage,
		"%s: the communicator was made before ncclSetEncryption, and its parts would be "
		"plain as it is: make a new one, or end the encryption by ncclSetEncryption(NULL)",
		function);
}

/* A job that makes a communicator from a part of `parent`. */
static ncclResult_t job_derive(enum job_kind kind, struct ncclComm *parent, ncclComm_t *out,
			       struct job **made)
{
	ncclResult_t code = job_new(kind, parent->device, out, made);

	if (code)
		return code;
	(*made)->parent = parent;
	(*made)->comm->encrypts = parent->encrypts;
	return ncclSuccess;
}

static ncclResult_t split(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
			  const ncclConfig_t *config)
{
	ncclResult_t code = comm_check(comm, "ncclCommSplit");
	struct job *job;

	if (!code && !newcomm)
		code = fail(ncclInvalidArgument, "ncclCommSplit: newcomm is NULL");
	if (!code)
		code = config_check("ncclCommSplit", config);
	if (!code)
		code = derive_check(comm, "ncclCommSplit");
	if (!code)
		code = job_derive(JOB_SPLIT, comm, newcomm, &job);
	if (code)
		return code;
	job->color = color;
	job->key = key;
	return group_job(job);
}

ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key, ncclComm_t *newcomm,
			   ncclConfig_t *config)
{
	return group_note(split(comm, color, key, newcomm, config));
}
NCCL_ALSO(ncclCommSplit);

static ncclResult_t shrink_check(ncclComm_t comm, const int *exclude, int nexclude,
				 const ncclComm_t *newcomm, const ncclConfig_t *config, int flags)
{
	ncclResult_t code = comm_check(comm, "ncclCommShrink");

	if (!code && (!newcomm || nexclude < 0 || (nexclude && !exclude)))
		code = fail(ncclInvalidArgument,
			    "ncclCommShrink: newcomm is %p, and %d ranks at %p are excluded",
			    (const void *)newcomm, nexclude, (const void *)exclude);
	if (!code && flags != NCCL_SHRINK_DEFAULT && flags != NCCL_SHRINK_ABORT)
		code = fail(ncclInvalidArgument, "ncclCommShrink: unknown flags %#x",
			    (unsigned)flags);
	return code ? code : config_check("ncclCommShrink", config);
}

static ncclResult_t shrink(ncclComm_t comm, const int *exclude, int nexclude, ncclComm_t *newcomm,
			   const ncclConfig_t *config, int flags)
{
	ncclResult_t code = shrink_check(comm, exclude, nexclude, newcomm, config, flags);
	struct job *job;

	if (!code)
		code = derive_check(comm, "ncclCommShrink");
	if (!code)
		code = job_derive(JOB_SHRINK, comm, newcomm, &job);
	if (code)
		return code;
	job->flags = flags;
	job->nexclude = nexclude;
	job->exclude = malloc(sizeof(int) * (size_t)(nexclude ? nexclude : 1));
	if (!job->exclude) {
		job_undo(job);
		return fail(ncclSystemError, "ncclCommShrink: no memory for %d ranks", nexclude);
	}
	if (nexclude)
		memcpy(job->exclude, exclude, sizeof(int) * (size_t)nexclude);
	return group_job(job);
}

ncclResult_t ncclCommShrink(ncclComm_t comm, int *exclude, int nexclude, ncclComm_t *newcomm,
			    ncclConfig_t *config, int flags)
{
	return group_note(shrink(comm, exclude, nexclude, newcomm, config, flags));
}
NCCL_ALSO(ncclCommShrink);

/* ----------------------------------------------------------------------- ending -- */

static ncclResult_t end_job(enum job_kind kind, ncclComm_t comm)
{
	struct job *job = calloc(1, sizeof(*job));

	if (!job)
		return fail(ncclSystemError, "no memory to end a communicator");
	job->kind = kind;
	job->comm = comm;
	return group_job(job);
}

ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	ncclResult_t code = comm_check_usable(comm, "ncclCommFinalize");

	if (!code)
		code = end_job(JOB_FINALIZE, comm);
	return group_note(code);
}
NCCL_ALSO(ncclCommFinalize);

/* NULL has ended already. */
static ncclResult_t end_comm(enum job_kind kind, ncclComm_t comm, const char *function)
{
	ncclResult_t code = comm ? comm_check(comm, function) : ncclSuccess;

	if (!code && comm)
		code = end_job(kind, comm);
	return group_note(code);
}

ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	return end_comm(JOB_DESTROY, comm, "ncclCommDestroy");
}
NCCL_ALSO(ncclCommDestroy);

ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	return end_comm(JOB_ABORT, comm, "ncclCommAbort");
}
NCCL_ALSO(ncclCommAbort);

/* Ends the operations under way at once.  The communicator can still be shrunk and must be destroyed. */
ncclResult_t ncclCommRevoke(ncclComm_t comm, int flags)
{
	ncclResult_t code = comm_check(comm, "ncclCommRevoke");

	if (!code && flags)
		code = fail(ncclInvalidArgument, "ncclCommRevoke: unknown flags %#x",
			    (unsigned)flags);
	if (!code)
		code = from_coll(coll_comm_abort(comm->coll));
	if (!code)
		comm->revoked = 1;
	return group_note(code);
}
NCCL_ALSO(ncclCommRevoke);

/* ------------------------------------------------------------------------- jobs -- */

static ncclResult_t job_init(struct job *job)
{
	struct ncclComm *comm = job->comm;
	const char *options[3] = {NULL, NULL, NULL};
	coll_config_t config;
	coll_result_t code = coll_config_init(&config, sizeof(config));
	size_t n = 0;

	if (code)
		return from_coll(code);
	config.device = comm->device;
	/*
	 * Only copies through host memory let the backends with messages take memory of a device.  A variable says that the
	 * user has chosen.
	 */
	if (!getenv("COLL_ENABLE_GPU_FALLBACK"))
		options[n++] = "enable_gpu_fallback=yes";
	if (comm->encrypts)
		options[n++] = "tcp.security=encrypt";
	config.options = options;
	return from_coll(
		coll_comm_init_rank(&comm->coll, comm->nranks, job->id, comm->rank, &config));
}

static ncclResult_t job_shrink(struct job *job)
{
	coll_comm_t parent = job->parent->coll;

	if (job->flags == NCCL_SHRINK_ABORT && !job->parent->revoked) {
		ncclResult_t code = from_coll(coll_comm_abort(parent));

		if (code)
			return code;
		job->parent->revoked = 1;
	}
	return from_coll(
		coll_comm_shrink(parent, job->exclude, job->nexclude, &job->comm->coll, NULL, 0));
}

/* The program gets no communicator. */
static void job_drop_comm(struct job *job)
{
	*job->out = NULL;
	comm_end(job->comm);
}

/* A rank without colour has no communicator. */
static ncclResult_t job_made(struct job *job, ncclResult_t code)
{
	struct ncclComm *comm = job->comm;

	if (!code && comm->coll)
		code = from_coll(coll_comm_count(comm->coll, &comm->nranks));
	if (!code && comm->coll)
		code = from_coll(coll_comm_user_rank(comm->coll, &comm->rank));
	if (code && comm->coll) {
		coll_comm_destroy(comm->coll);
		comm->coll = NULL;
	}
	if (comm->coll) {
		over_nccl_add(comm);
		return ncclSuccess;
	}
	job_drop_comm(job);
	return code;
}

static ncclResult_t job_end(struct job *job)
{
	struct ncclComm *comm = job->comm;
	ncclResult_t code = ncclSuccess;

	if (job->kind == JOB_ABORT)
		code = from_coll(coll_comm_abort(comm->coll));
	if (!code)
		code = from_coll(coll_comm_destroy(comm->coll));
	else
		coll_comm_destroy(comm->coll);
	comm_end(comm);
	return code;
}

static ncclResult_t job_do(struct job *job)
{
	switch (job->kind) {
	case JOB_INIT: return job_made(job, job_init(job));
	case JOB_SPLIT:
		return job_made(job, from_coll(coll_comm_split(job->parent->coll, job->color,
							       job->key, &job->comm->coll, NULL)));
	case JOB_SHRINK: return job_made(job, job_shrink(job));
	case JOB_FINALIZE: job->comm->finalized = 1; return from_coll(coll_sync(job->comm->coll));
	default: return job_end(job);
	}
}

static void job_finish(struct job *job, ncclResult_t result)
{
	job->result = result;
	if (result)
		strncpy(job->text, last_error(), sizeof(job->text) - 1);
	free(job->exclude);
	job->exclude = NULL;
}

void job_run(struct job *job)
{
	job_finish(job, job_do(job));
}

void job_refuse(struct job *job, const char *why)
{
	job_drop_comm(job);
	job_finish(job, fail(ncclSystemError, "%s", why));
}

void job_undo(struct job *job)
{
	if (job->kind <= JOB_MAKES)
		job_drop_comm(job);
	free(job->exclude);
	free(job);
}

/* -------------------------------------------------------------------- questions -- */

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *error)
{
	ncclResult_t code = comm_check(comm, "ncclCommGetAsyncError");
	coll_result_t found = COLL_SUCCESS;

	if (!code && !error)
		code = fail(ncclInvalidArgument, "ncclCommGetAsyncError: asyncError is NULL");
	if (!code)
		code = from_coll(coll_comm_get_async_error(comm->coll, &found));
	if (!code)
		*error = comm->revoked ? ncclSuccess : nccl_code(found);
	return code;
}
NCCL_ALSO(ncclCommGetAsyncError);

/* Tells the int at an offset of the communicator. */
static ncclResult_t comm_tell(const struct ncclComm *comm, const char *function, size_t at,
			      int *out)
{
	ncclResult_t code = comm_check(comm, function);

	if (!code && !out)
		code = fail(ncclInvalidArgument, "%s: the result's address is NULL", function);
	if (!code)
		memcpy(out, (const char *)comm + at, sizeof(*out));
	return code;
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int *count)
{
	return comm_tell(comm, "ncclCommCount", offsetof(struct ncclComm, nranks), count);
}
NCCL_ALSO(ncclCommCount);

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int *device)
{
	return comm_tell(comm, "ncclCommCuDevice", offsetof(struct ncclComm, device), device);
}
NCCL_ALSO(ncclCommCuDevice);

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
	return comm_tell(comm, "ncclCommUserRank", offsetof(struct ncclComm, rank), rank);
}
NCCL_ALSO(ncclCommUserRank);

ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buffer, size_t size, void **handle)
{
	ncclResult_t code = comm_check(comm, "ncclCommRegister");

	return code ? code : from_coll(coll_comm_register(comm->coll, buffer, size, handle));
}
NCCL_ALSO(ncclCommRegister);

ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	ncclResult_t code = comm_check(comm, "ncclCommDeregister");

	return code ? code : from_coll(coll_comm_deregister(comm->coll, handle));
}
NCCL_ALSO(ncclCommDeregister);
