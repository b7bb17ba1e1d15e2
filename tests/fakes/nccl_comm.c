/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_comm.c - communicators as objects: which are alive and which are dead, which threads are
 * inside a call, their configuration, their state, and the data shared by splitShare.  Misuse that
 * would crash or corrupt NCCL ends the program here with a message.
 */
#include <stdlib.h>
#include <string.h>

#include "cuda.h"
#include "nccl_parts.h"

/* Dead communicators keep their addresses, so that a later use can be detected. */
static struct {
	pthread_mutex_t lock;
	pthread_cond_t left; /* signalled when a thread has left a call */
	struct nccl_comm *living, *dead;
} registry = {PTHREAD_MUTEX_INITIALIZER, PTHREAD_COND_INITIALIZER, NULL, NULL};

int standin_nccl_comms(void)
{
	const struct nccl_comm *comm;
	int n = 0;

	pthread_mutex_lock(&registry.lock);
	for (comm = registry.living; comm; comm = comm->next)
		n++;
	pthread_mutex_unlock(&registry.lock);
	return n;
}

/* ---------------------------------------------------------------------- shares -- */

struct share *share_new(void)
{
	struct share *share = calloc(1, sizeof(*share));

	if (!share)
		return NULL;
	atomic_init(&share->refs, 1);
	pthread_mutex_init(&share->lock, NULL);
	pthread_cond_init(&share->next_served, NULL);
	return share;
}

void share_unref(struct share *share)
{
	if (!share || atomic_fetch_sub(&share->refs, 1) != 1)
		return;
	pthread_mutex_destroy(&share->lock);
	pthread_cond_destroy(&share->next_served);
	free(share);
}

void comm_halt(const struct nccl_comm *comm, struct halt *halt)
{
	memset(halt, 0, sizeof(*halt));
	if (comm->share)
		halt->flag[0] = &comm->share->abort;
	if (comm->parent)
		halt->flag[1] = &comm->parent->abort;
}

/* ---------------------------------------------------------------- configuration -- */

/* The first version that reads trafficClass. */
enum { CONFIG_TRAFFIC_CLASS = 22600 };

static int config_check(const nccl_config_t *config)
{
	if (config->magic != (unsigned)NCCL_CONFIG_MAGIC)
		return call_fail(NCCL_INVALID_ARGUMENT, "ncclConfig_t argument not initialized via "
							"NCCL_CONFIG_INITIALIZER");
	if (config->blocking != NCCL_UNDEF && config->blocking != 0 && config->blocking != 1)
		return call_fail(NCCL_INVALID_ARGUMENT,
				 "Invalid config blocking attribute value %d", config->blocking);
	if (config->cga_cluster_size != NCCL_UNDEF && config->cga_cluster_size < 0)
		return call_fail(NCCL_INVALID_ARGUMENT,
				 "Invalid config cgaClusterSize attribute value %d",
				 config->cga_cluster_size);
	if ((config->min_ctas != NCCL_UNDEF && config->min_ctas <= 0) ||
	    (config->max_ctas != NCCL_UNDEF && config->max_ctas <= 0) ||
	    config->min_ctas > config->max_ctas)
		return call_fail(NCCL_INVALID_ARGUMENT,
				 "Invalid config min/max channels attribute value %d/%d",
				 config->min_ctas, config->max_ctas);
	if (config->split_share != NCCL_UNDEF && config->split_share != 0 &&
	    config->split_share != 1)
		return call_fail(NCCL_INVALID_ARGUMENT,
				 "Invalid config splitShare attribute value %d",
				 config->split_share);
	/* NCCL takes any number; no caller here means one. */
	if (config->traffic_class != NCCL_UNDEF && call_version() >= CONFIG_TRAFFIC_CLASS)
		call_misuse("the config asks for the traffic class %d", config->traffic_class);
	return NCCL_SUCCESS;
}

/* Reads as many bytes of the caller's struct as its size member says; NULL: the defaults. */
int config_read(struct nccl_comm *comm, const nccl_config_t *config)
{
	nccl_config_t seen = {.blocking = NCCL_UNDEF,
			      .cga_cluster_size = NCCL_UNDEF,
			      .min_ctas = NCCL_UNDEF,
			      .max_ctas = NCCL_UNDEF,
			      .split_share = NCCL_UNDEF,
			      .traffic_class = NCCL_UNDEF,
			      .magic = (unsigned)NCCL_CONFIG_MAGIC};
	long forced = call_env("NCCL_COMM_BLOCKING", -1);
	int code;

	if (config)
		memcpy(&seen, config, config->size < sizeof(seen) ? config->size : sizeof(seen));
	code = config_check(&seen);
	if (code)
		return code;
	comm->blocking = seen.blocking == NCCL_UNDEF || seen.blocking;
	if (forced == 0 || forced == 1)
		comm->blocking = (int)forced;
	comm->split_share = seen.split_share == 1;
	return NCCL_SUCCESS;
}

/* ------------------------------------------------------------------- life -- */

int comm_new(nccl_comm_t *out, const nccl_config_t *config, const struct nccl_comm *parent)
{
	struct nccl_comm *comm = calloc(1, sizeof(*comm));
	int code = NCCL_SUCCESS;

	if (!comm)
		return NCCL_SYSTEM_ERROR;
	if (parent && !config) {
		comm->blocking = parent->blocking;
		comm->split_share = parent->split_share;
	} else {
		code = config_read(comm, config);
	}
	if (code) {
		free(comm);
		return code;
	}
	if (parent) {
		comm->context = parent->context;
		comm->device = parent->device;
	}
	pthread_mutex_lock(&registry.lock);
	comm->next = registry.living;
	registry.living = comm;
	pthread_mutex_unlock(&registry.lock);
	*out = comm;
	return NCCL_SUCCESS;
}

/* NCCL frees device memory, and cuMemFree waits for all work of the device. */
static void comm_free_memory(struct nccl_comm *comm)
{
	void *context;

	if (!getenv("STANDIN_CUDA_FREE") || cuCtxPushCurrent_v2(comm->context))
		return;
	cuCtxSynchronize();
	cuCtxPopCurrent_v2(&context);
}

static void comm_empty(struct nccl_comm *comm)
{
	struct user_op *op;
	struct registration *registration;

	while ((op = comm->user_ops) != NULL) {
		comm->user_ops = op->next;
		free(op);
	}
	while ((registration = comm->registrations) != NULL) {
		comm->registrations = registration->next;
		free(registration);
	}
	ops_free(comm->colls);
	ops_free(comm->p2ps);
	comm->colls = comm->p2ps = NULL;
	rendezvous_leave(comm->rendezvous);
	comm->rendezvous = NULL;
	share_unref(comm->share);
	share_unref(comm->parent);
	comm->share = comm->parent = NULL;
	comm_free_memory(comm);
	if (comm->retained)
		cuDevicePrimaryCtxRelease_v2(comm->device);
}

void comm_free(nccl_comm_t comm, const char *fn)
{
	struct nccl_comm **at;

	comm_empty(comm);
	pthread_mutex_lock(&registry.lock);
	for (at = &registry.living; *at != comm; at = &(*at)->next)
		;
	*at = comm->next;
	comm->next = registry.dead;
	comm->ended = fn;
	registry.dead = comm;
	pthread_mutex_unlock(&registry.lock);
}

/* --------------------------------------------------------------- threads inside calls -- */

static int comm_listed(const struct nccl_comm *list, const struct nccl_comm *comm)
{
	for (; list; list = list->next)
		if (list == comm)
			return 1;
	return 0;
}

/* The caller holds the registry's lock. */
static void comm_must_live(nccl_comm_t comm, const char *fn)
{
	if (comm_listed(registry.living, comm))
		return;
	if (comm_listed(registry.dead, comm))
		call_misuse("%s(%p): the communicator was ended by %s", fn, (void *)comm,
			    comm->ended);
	call_misuse("%s(%p): there never was such a communicator", fn, (void *)comm);
}

int comm_enter(nccl_comm_t comm, const char *fn)
{
	if (!comm)
		return call_fail(NCCL_INVALID_ARGUMENT, "%s : comm argument is NULL", fn);
	pthread_mutex_lock(&registry.lock);
	comm_must_live(comm, fn);
	if (comm->aborting && !pthread_equal(comm->inside, pthread_self()))
		call_misuse("%s(%p): the communicator is being ended", fn, (void *)comm);
	if (comm->depth && !pthread_equal(comm->inside, pthread_self()))
		call_misuse("%s(%p): another thread is inside %s for it", fn, (void *)comm,
			    comm->inside_of);
	if (!comm->depth++) {
		comm->inside = pthread_self();
		comm->inside_of = fn;
	}
	pthread_mutex_unlock(&registry.lock);
	return NCCL_SUCCESS;
}

void comm_leave(nccl_comm_t comm)
{
	pthread_mutex_lock(&registry.lock);
	if (!--comm->depth)
		pthread_cond_broadcast(&registry.left);
	pthread_mutex_unlock(&registry.lock);
}

void comm_leave_ending(nccl_comm_t comm)
{
	pthread_mutex_lock(&registry.lock);
	comm->aborting = 1;
	pthread_mutex_unlock(&registry.lock);
	comm_leave(comm);
}

/*
 * An abort ends another thread's blocked call on a blocking communicator.  Calls on other
 * communicators return at once, so there NCCL would free memory that another thread uses.
 */
void comm_enter_abort(nccl_comm_t comm, const char *fn, int ends)
{
	pthread_mutex_lock(&registry.lock);
	comm_must_live(comm, fn);
	if (comm->aborting)
		call_misuse("%s(%p): the communicator is being ended already", fn, (void *)comm);
	if (comm->depth && !comm->blocking && !pthread_equal(comm->inside, pthread_self()))
		call_misuse("%s(%p): another thread is inside %s for it", fn, (void *)comm,
			    comm->inside_of);
	comm->aborting = ends;
	if (comm->share)
		atomic_store(&comm->share->abort, 1);
	while (comm->depth && !pthread_equal(comm->inside, pthread_self()))
		pthread_cond_wait(&registry.left, &registry.lock);
	comm->inside = pthread_self();
	comm->inside_of = fn;
	comm->depth++;
	pthread_mutex_unlock(&registry.lock);
}

/* --------------------------------------------------------------------- state -- */

int comm_async(nccl_comm_t comm)
{
	int result = atomic_load(&comm->result);

	if (result == NCCL_SUCCESS)
		result = atomic_load(&comm->failed);
	if (result == NCCL_SUCCESS)
		group_join(comm, 0);
	return result;
}

void comm_set(nccl_comm_t comm, int result)
{
	atomic_store(&comm->result, result);
}

int comm_ready(nccl_comm_t comm, const char *fn)
{
	int result;

	if (comm->share && atomic_load(&comm->share->abort)) {
		group_join(comm, 1);
		return NCCL_SUCCESS;
	}
	result = comm_async(comm);
	if (result == NCCL_IN_PROGRESS)
		return call_fail(NCCL_INVALID_ARGUMENT,
				 "%s: Attempt to use communicator before the previous operation "
				 "returned ncclSuccess",
				 fn);
	return result;
}

/* NCCL does not stop a user from using a blocking communicator whose creation failed. */
void comm_must_be_complete(nccl_comm_t comm, const char *fn)
{
	if (!comm->rendezvous)
		call_misuse("%s(%p): the communicator was never complete", fn, (void *)comm);
}

/*
 * A watchdog may call this while another thread is inside a call on a blocking communicator; for
 * other communicators this call takes over the result of a group's end.
 */
int ncclCommGetAsyncError(nccl_comm_t comm, int *result)
{
	int code = call_count("ncclCommGetAsyncError"), blocking = 0;

	if (code)
		return code;
	if (!comm || !result)
		return call_fail(NCCL_INVALID_ARGUMENT, "ncclGetAsyncError : argument is NULL");
	pthread_mutex_lock(&registry.lock);
	comm_must_live(comm, "ncclCommGetAsyncError");
	blocking = comm->blocking;
	if (blocking)
		*result = comm_async(comm);
	pthread_mutex_unlock(&registry.lock);
	if (blocking)
		return NCCL_SUCCESS;
	(void)comm_enter(comm, "ncclCommGetAsyncError");
	*result = comm_async(comm);
	comm_leave(comm);
	return NCCL_SUCCESS;
}

/* Queries that need a ready communicator. */
static int comm_ask(nccl_comm_t comm, const char *fn, int *out, int which)
{
	int code = call_count(fn);

	if (!code)
		code = comm_enter(comm, fn);
	if (code)
		return code;
	if (!out)
		code = call_fail(NCCL_INVALID_ARGUMENT, "%s : argument is NULL", fn);
	else
		code = comm_ready(comm, fn);
	if (!code)
		*out = which == 0 ? comm->nranks : which == 1 ? comm->device : comm->rank;
	comm_leave(comm);
	return code;
}

int ncclCommCount(nccl_comm_t comm, int *count)
{
	return comm_ask(comm, "ncclCommCount", count, 0);
}

int ncclCommCuDevice(nccl_comm_t comm, int *device)
{
	return comm_ask(comm, "ncclCommCuDevice", device, 1);
}

int ncclCommUserRank(nccl_comm_t comm, int *rank)
{
	return comm_ask(comm, "ncclCommUserRank", rank, 2);
}
