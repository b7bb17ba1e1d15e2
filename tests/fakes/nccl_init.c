/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_init.c - makes communicators: unique ids, the rendezvous of the ranks, one device for each
 * rank.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

#include "cuda.h"
#include "nccl_parts.h"

static const char init_magic[] = "stand-in";

/* The record that each rank contributes. */
struct peer {
	uint64_t host;
	int device;
};

/* ---------------------------------------------------------------------- unique ids -- */

int ncclGetUniqueId(nccl_unique_id_t *id)
{
	unsigned char random[16];
	int code = call_count("ncclGetUniqueId"), at;
	size_t i;

	if (code)
		return code;
	if (!id)
		return call_fail(NCCL_INVALID_ARGUMENT, "GetUniqueId : out argument is NULL");
	if (getrandom(random, sizeof(random), 0) != (ssize_t)sizeof(random))
		return NCCL_SYSTEM_ERROR;
	memset(id, 0, sizeof(*id));
	at = snprintf(id->internal, sizeof(id->internal), "%s", init_magic) + 1;
	for (i = 0; i < sizeof(random); i++)
		at += snprintf(id->internal + at, sizeof(id->internal) - (size_t)at, "%02x",
			       random[i]);
	return NCCL_SUCCESS;
}

static int id_name(const nccl_unique_id_t *id, char *name)
{
	const char *text = id->internal + sizeof(init_magic);

	if (memcmp(id->internal, init_magic, sizeof(init_magic)) != 0 ||
	    strspn(text, "0123456789abcdef") != 32 || text[32])
		return call_fail(NCCL_INVALID_ARGUMENT, "unique id is not of ncclGetUniqueId");
	memcpy(name, text, 33);
	return NCCL_SUCCESS;
}

/* ------------------------------------------------------------------------ rendezvous -- */

/* NCCL_HOSTID distinguishes hosts; a process reads it only once. */
static uint64_t init_host(void)
{
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	static pid_t asked;
	static uint64_t host;
	const char *text;
	uint64_t found;

	pthread_mutex_lock(&lock);
	if (asked != getpid()) {
		asked = getpid();
		host = 14695981039346656037u; /* FNV-1a */
		for (text = getenv("NCCL_HOSTID"); text && *text; text++)
			host = (host ^ (unsigned char)*text) * 1099511628211u;
	}
	found = host;
	pthread_mutex_unlock(&lock);
	return found;
}

struct halt init_halt(nccl_comm_t comm, const struct halt *halt)
{
	struct halt all;

	comm_halt(comm, &all);
	all.flag[2] = halt->flag[2];
	all.flag[3] = halt->flag[3];
	return all;
}

static int init_hang(const struct halt *halt)
{
	const struct timespec delay = {0, 1000000};

	while (!halt_asked(halt))
		nanosleep(&delay, NULL);
	return call_fail(NCCL_INTERNAL_ERROR, "aborted while the communicator was made");
}

/* A rank that shares its device fails because of that, the other ranks because of its failure. */
static int init_devices(nccl_comm_t comm, const struct peer *peers)
{
	int i, j, found = 0;

	for (i = 0; i < comm->nranks; i++)
		for (j = 0; j < comm->nranks; j++) {
			if (i == j || peers[i].host != peers[j].host ||
			    peers[i].device != peers[j].device)
				continue;
			if (i == comm->rank)
				return call_fail(NCCL_INVALID_USAGE,
						 "Duplicate GPU detected : rank %d and rank %d "
						 "both on CUDA device %d",
						 i, j, peers[i].device);
			found = 1;
		}
	return found ? call_fail(NCCL_REMOTE_ERROR, "another rank has failed") : NCCL_SUCCESS;
}

int init_rendezvous(nccl_comm_t comm, const struct halt *halt)
{
	struct halt all = init_halt(comm, halt);
	struct peer mine, peers[RENDEZVOUS_RANKS];
	int code;

	memset(&mine, 0, sizeof(mine));
	mine.host = init_host();
	mine.device = comm->device;
	if (call_env("STANDIN_NCCL_INIT_HANG", 0))
		return init_hang(&all);
	code = rendezvous_join(comm->name, comm->nranks, comm->rank, &all, &comm->rendezvous);
	if (!code)
		code = rendezvous_gather(comm->rendezvous, &mine, peers, sizeof(mine), &all);
	return code ? code : init_devices(comm, peers);
}

/* ------------------------------------------------------------------------- entries -- */

static int init_run(struct job *job, const struct halt *halt)
{
	return init_rendezvous(job->comm, halt);
}

static void init_done(struct job *job)
{
	free(job);
}

static int init_device(nccl_comm_t comm)
{
	int code = cuCtxGetCurrent(&comm->context);

	if (!code && !comm->context)
		code = CUDA_ERROR_INVALID_CONTEXT;
	if (!code)
		code = cuCtxGetDevice(&comm->device);
	return code ? call_fail(NCCL_UNHANDLED_CUDA_ERROR,
				"Cuda failure %d: no device's context is current", code)
		    : NCCL_SUCCESS;
}

static int init_check(nccl_comm_t *out, int nranks, int rank)
{
	if (!out)
		return call_fail(NCCL_INVALID_ARGUMENT, "CommInitRank : newcomm argument is NULL");
	if (nranks < 1 || rank < 0 || rank >= nranks)
		return call_fail(NCCL_INVALID_ARGUMENT, "Invalid rank requested : %d/%d", rank,
				 nranks);
	if (nranks > RENDEZVOUS_RANKS)
		return call_fail(NCCL_INTERNAL_ERROR, "the stand-in has room for %d ranks",
				 RENDEZVOUS_RANKS);
	return NCCL_SUCCESS;
}

/* *out is set as soon as the communicator can be queried or aborted, before it is complete. */
static int init_add(nccl_comm_t *out, int nranks, const nccl_unique_id_t *id, int rank,
		    const nccl_config_t *config)
{
	struct job *job;
	nccl_comm_t comm = NULL;
	int code = init_check(out, nranks, rank);

	if (out)
		*out = NULL;
	job = calloc(1, sizeof(*job));
	if (!code && !job)
		code = NCCL_SYSTEM_ERROR;
	if (!code)
		code = comm_new(&comm, config, NULL);
	if (!code)
		code = init_device(comm);
	if (!code)
		code = id_name(id, comm->name);
	if (!code && !(comm->share = share_new()))
		code = NCCL_SYSTEM_ERROR;
	if (code) {
		free(job);
		if (comm)
			comm_free(comm, "a failed init");
		return group_note(code);
	}
	comm->nranks = nranks;
	comm->rank = rank;
	*job = (struct job){.run = init_run, .done = init_done, .comm = comm};
	(void)comm_enter(comm, "ncclCommInitRank");
	*out = comm;
	code = group_note(group_add_job(job));
	comm_leave(comm);
	return code;
}

int ncclCommInitRank(nccl_comm_t *comm, int nranks, nccl_unique_id_t id, int rank)
{
	int code = group_note(call_count("ncclCommInitRank"));

	if (code)
		return code;
	return init_add(comm, nranks, &id, rank, NULL);
}

/* The files nccl.conf add to the environment. */
static void init_file(void)
{
	const char *blocking = getenv("STANDIN_NCCL_CONF");

	if (blocking)
		setenv("NCCL_COMM_BLOCKING", blocking, 0);
}

/* The CUDA runtime inside NCCL may be too new for the driver. */
static int init_runtime(void)
{
	long error = call_env("STANDIN_NCCL_RUNTIME", 0);

	init_file();
	return error ? call_fail(NCCL_UNHANDLED_CUDA_ERROR,
				 "Cuda failure %ld 'CUDA driver version is insufficient for CUDA "
				 "runtime version'",
				 error)
		     : NCCL_SUCCESS;
}

int ncclCommInitRankConfig(nccl_comm_t *comm, int nranks, nccl_unique_id_t id, int rank,
			   nccl_config_t *config)
{
	int code = call_count("ncclCommInitRankConfig"), refused = init_runtime(), end;

	if (comm)
		*comm = NULL;
	group_start();
	/* As in NCCL, this way out does not end the group, and others do. */
	if (refused && call_version() >= NCCL_2_23)
		return refused;
	code = code ? code : refused;
	if (!code)
		code = init_add(comm, nranks, &id, rank, config);
	group_note(code);
	end = group_end("ncclCommInitRankConfig");
	if (end && end != NCCL_IN_PROGRESS)
		return end;
	return !code && !(*comm)->blocking ? comm_async(*comm) : code;
}

static int init_list(int ndev, const int *devices)
{
	int count, i, j, code = cuDeviceGetCount(&count);

	if (code)
		return call_fail(NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure %d", code);
	if (ndev < 0)
		return call_fail(NCCL_INVALID_ARGUMENT, "Invalid device count requested : %d",
				 ndev);
	for (i = 0; i < ndev; i++) {
		if ((devices ? devices[i] : i) < 0 || (devices ? devices[i] : i) >= count)
			return call_fail(devices ? NCCL_INVALID_ARGUMENT
						 : NCCL_UNHANDLED_CUDA_ERROR,
					 "Invalid device %d (totalnDev=%d)",
					 devices ? devices[i] : i, count);
		for (j = 0; devices && j < i; j++)
			if (devices[j] == devices[i])
				return call_fail(NCCL_INVALID_USAGE, "device %d is there twice",
						 devices[i]);
	}
	return NCCL_SUCCESS;
}

/*
 * The communicator retains the primary context until it is freed; NCCL retains it until the process
 * ends.
 */
static int init_one_of_all(nccl_comm_t *comm, int ndev, const nccl_unique_id_t *id, int rank,
			   int device)
{
	void *context;
	int code = cuDevicePrimaryCtxRetain(&context, device);

	if (!code)
		code = cuCtxPushCurrent_v2(context);
	if (code)
		return group_note(call_fail(NCCL_UNHANDLED_CUDA_ERROR, "Cuda failure %d", code));
	code = init_add(comm, ndev, id, rank, NULL);
	cuCtxPopCurrent_v2(&context);
	if (code)
		cuDevicePrimaryCtxRelease_v2(device);
	else
		(*comm)->retained = 1;
	return code;
}

int ncclCommInitAll(nccl_comm_t *comms, int ndev, const int *devices)
{
	int code = call_count("ncclCommInitAll"), i;
	nccl_unique_id_t id;

	if (!code && call_version() >= NCCL_2_23)
		code = init_runtime();
	if (!code && !comms)
		code = call_fail(NCCL_INVALID_ARGUMENT, "CommInitAll : comms argument is NULL");
	if (!code)
		code = init_list(ndev, devices);
	if (!code)
		code = ncclGetUniqueId(&id);
	if (code)
		return code;
	group_start();
	for (i = 0; i < ndev; i++)
		(void)init_one_of_all(&comms[i], ndev, &id, i, devices ? devices[i] : i);
	return group_end("ncclCommInitAll");
}
