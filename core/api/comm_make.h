/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_make.h - the rendezvous of the ranks that make a communicator (comm_rendezvous.c). */
#ifndef CORE_API_COMM_MAKE_H
#define CORE_API_COMM_MAKE_H

#include "transport/context.h"

/* The way of one rank to the rendezvous with the other ranks. */
struct rendezvous {
	int rank, nranks;
	const char *id;            /* the id from coll_get_unique_id, or */
	const struct launch *env;  /* the environment of a launcher, or */
	coll_exchange_fn exchange; /* the application's own allgather, or */
	void *user;
	struct bootstrap *bootstrap; /* a bootstrap that is already open */
	int uses_cuda; /* 1: the application uses CUDA (device_in_use) or has named a device */
	int device_unnamed; /* 1: the device of the configuration is the rank's number, and no choice of the application */
	int together; /* one call makes all ranks: it also calls open_all, if the backend has it */
};

/* The device that the application has named in its configuration, or -1. */
int comm_config_device(const coll_config_t *config);
/*
 * Meets the other ranks, agrees with them on a backend and opens its endpoint.  With m->together and a
 * backend that has open_all, the caller opens all endpoints.  Collective: all ranks succeed or fail.
 * Takes over m->bootstrap.  On an error *context is NULL.
 */
int comm_rendezvous(struct context **context, const struct rendezvous *m,
		    const coll_config_t *config);
/*
 * Makes the first communicator of an opened context, with that for its calls on host memory (host_memory.h; NULL:
 * none).  Releases both on an error (comm_make.c).
 */
int init_comm(coll_comm_t *out, struct context *context, struct comm *host_comm);

#endif
