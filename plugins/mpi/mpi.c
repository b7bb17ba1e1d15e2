/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi.c - the mpi backend: its table and its options; opening an endpoint. */
#include "mpi_plugin.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The minor of the ABI that has native splits. */
enum { MPI_SPLIT_MINOR = 5 };

static int32_t mpi_probe(const coll_host_t *host, coll_error_t *err)
{
	int32_t code = mpi_life_expect(err);

	if (!code)
		code = mpi_library_open(host, err);
	return code ? code : mpi_life_check(err);
}

/* Whether the plugin can ask MPI which ranks have died. */
#ifdef MPI_ULFM
#define MPI_ULFM_TEXT "with ULFM"
#else
#define MPI_ULFM_TEXT "without ULFM"
#endif

/* An older libcoll does not know COLL_BACKEND_NATIVE_SPLIT. */
static void mpi_add_splits(const coll_host_t *host, char *buf, uint64_t size)
{
	const size_t used = strlen(buf);

	if (host->abi_minor < MPI_SPLIT_MINOR)
		snprintf(buf + used, size - used,
			 "; this libcoll, of ABI 1.%u, composes the collectives of split "
			 "communicators",
			 host->abi_minor);
}

static int32_t mpi_info(const coll_host_t *host, char *buf, uint64_t size)
{
	coll_error_t err = {.size = sizeof(err)};
	const int32_t code = mpi_library_open(host, &err);
	int level = MPI_THREAD_SINGLE;

	if (code)
		snprintf(buf, size, "%s", err.text);
	else if (mpi_is_initialized() && !mpi.query_thread(&level))
		snprintf(buf, size, "%s (%s), " MPI_ULFM_TEXT ", initialised with %s, %sCUDA-aware",
			 mpi.version, mpi.path, mpi_level_name(level),
			 mpi_is_cuda_aware() ? "" : "not ");
	else
		snprintf(buf, size, "%s (%s), " MPI_ULFM_TEXT ", to be initialised with %s; %s",
			 mpi.version, mpi.path, mpi_level_name(MPI_THREAD_MULTIPLE),
			 mpi.query_cuda ? "then it says whether it is CUDA-aware"
					: "it does not say whether it is CUDA-aware");
	if (!code)
		mpi_add_splits(host, buf, size);
	return code;
}

static int32_t mpi_new(const coll_host_t *host, struct mpi_endpoint **out, coll_error_t *err)
{
	struct mpi_endpoint *ep = calloc(1, sizeof(*ep));

	*out = ep;
	if (!ep)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for an endpoint");
	ep->host = host;
	ep->rank = host->rank;
	ep->nranks = host->nranks;
	ep->call_end = &ep->call;
	ep->direct = !strcmp(host->option_string(host, "native"), "direct");
	ep->comm = MPI_COMM_NULL;
	ep->watch_fd = -1;
	ep->peer = calloc(host->nranks, sizeof(*ep->peer));
	if (!ep->peer)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %u ranks", host->nranks);
	for (uint32_t r = 0; r < host->nranks; r++) {
		ep->peer[r].rank = r;
		ep->peer[r].pidfd = -1;
	}
	return COLL_SUCCESS;
}

/* Makes the communicator and posts its receives. */
static int32_t mpi_start(struct mpi_endpoint *ep, coll_error_t *err)
{
	int32_t code = mpi_meet(ep, err);

	if (code)
		return code;
	mpi_sweep();
	mpi_list_add(ep);
	if (!mpi_enter())
		return mpi_life_ended(err);
	code = mpi_slots_open(ep, err);
	mpi_leave();
	return code;
}

static int32_t mpi_open(const coll_host_t *host, void **out, coll_error_t *err)
{
	struct mpi_endpoint *ep;
	int32_t code = mpi_new(host, &ep, err);

	if (code)
		kit_exchange_fail(host, code, err);
	else
		code = mpi_start(ep, err);
	*out = ep;
	return code;
}

static uint32_t mpi_memory(void *ep_)
{
	const struct mpi_endpoint *ep = ep_;

	return ep->cuda ? COLL_MEM_HOST | COLL_MEM_CUDA | COLL_MEM_CUDA_MANAGED : COLL_MEM_HOST;
}

static const coll_option_t mpi_options[] = {
	/* The default depends on --with-mpi, so coll.conf cannot name it. */
	{.key = "library",
	 .unit = "",
	 .help = "the MPI library: a path, or a name for the loader to find; "
		 "unset: " MPI_DEFAULT_LIBRARY,
	 .type = COLL_OPTION_STRING},
	{.key = "native",
	 .fallback = "copy",
	 .unit = "copy|direct|no",
	 .help = "MPI's own collectives: on copies of the buffers, on the buffers, or not",
	 .type = COLL_OPTION_STRING},
};

static const coll_transport_t mpi_transport = {
	.size = sizeof(coll_transport_t),
	.send = mpi_send,
	.progress = mpi_progress,
	.cancel = mpi_cancel,
	.drop = mpi_drop,
	.forked = mpi_watch_forked,
	.memory = mpi_memory,
};

/* Sends and receives go over the transport: libcoll's tags and order are not MPI's. */
static const coll_native_t mpi_native = {
	.size = sizeof(coll_native_t),
	.allreduce = mpi_start_call,
	.broadcast = mpi_start_call,
	.reduce = mpi_start_call,
	.allgather = mpi_start_call,
	.reduce_scatter = mpi_start_call,
	.alltoall = mpi_start_call,
	.gather = mpi_start_call,
	.scatter = mpi_start_call,
	.allgatherv = mpi_start_call,
	.reduce_scatterv = mpi_start_call,
	.alltoallv = mpi_start_call,
	.gatherv = mpi_start_call,
	.scatterv = mpi_start_call,
	.barrier = mpi_start_call,
	.scan = mpi_start_call,
	.exscan = mpi_start_call,
	.query = mpi_query,
	.abort = mpi_abort,
	.split = mpi_split,
	.handle = mpi_handle,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.flags = COLL_BACKEND_POLL | COLL_BACKEND_CLOSE_TOGETHER | COLL_BACKEND_NATIVE_SPLIT |
		 COLL_BACKEND_COMPANION,
	.name = "mpi",
	.version = "1.1",
	.description = "collectives and messages of an MPI library, under MPI's launchers",
	.priority = 5,
	.memory = COLL_MEM_HOST | COLL_MEM_CUDA | COLL_MEM_CUDA_MANAGED,
	.options = mpi_options,
	.option_count = sizeof(mpi_options) / sizeof(mpi_options[0]),
	.option_size = sizeof(coll_option_t),
	.transport = &mpi_transport,
	.native = &mpi_native,
	.probe = mpi_probe,
	.open = mpi_open,
	.close = mpi_close,
	.info = mpi_info,
	.finish = mpi_finish,
};
