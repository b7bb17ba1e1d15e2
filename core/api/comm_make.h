/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * comm_make.h - makes the first communicators of a program: the ranks meet, agree on a backend and open its endpoint.
 * start/init.c has the public functions.
 */
#ifndef CORE_API_COMM_MAKE_H
#define CORE_API_COMM_MAKE_H

#include "endpoint/context.h"

/*
 * What the small core takes from the other folders to make a communicator.  start/library.c names their functions; the
 * test of the small core has a library of its own.
 */
struct library {
	const struct context_client *context; /* of every context */
	config_check check_option;            /* checks options for config_load */
	/* Makes the selection of algorithms from the options of this rank, which free() frees.  NULL: there is no selection. */
	int (*choose)(const struct config *config, struct selection **selection);
	/* Collective: *parts->selection becomes the selection of rank 0, and parts->node_size its option.  NULL with `choose`. */
	int (*agree)(struct context_parts *parts);
	/* Opens the control channel, and an endpoint for host memory, beside a backend without a transport. */
	int (*open_channel)(struct context *context, const struct plugin *plugin);
	/* The first communicator of the context is made.  tag: of its control messages.  NULL: nobody wants to know. */
	void (*made)(struct context *context, uint64_t tag);
	/*
	 * Collective, after `made`: does what bootstrap_all_ok does, and the ranks exchange the addresses of their servers.  NULL:
	 * bootstrap_all_ok alone.
	 */
	int (*all_ok)(struct context *context, int code, int64_t timeout_ms);
};

/* The way of one rank to the rendezvous with the other ranks. */
struct rendezvous {
	const struct library *library;
	int rank, nranks;
	const coll_config_t *config;
	struct bootstrap *bootstrap; /* an open bootstrap; or NULL, and `meet` opens one */
	/* Checks the options that `meet` uses; or NULL. */
	int (*check)(const struct config *config);
	/* Opens the bootstrap.  failed: this rank has failed already, and only tells the other ranks. */
	int (*meet)(struct bootstrap **bootstrap, const struct rendezvous *m,
		    const struct config *config, int failed);
	const void *way; /* for `meet` */
	int uses_cuda;   /* 1: the application uses CUDA (device_in_use) or has named a device */
	int device_unnamed; /* 1: the device of the configuration is the rank's number, and no choice of the application */
	int together; /* one call makes all ranks: it also calls open_all, if the backend has it */
};

/* The device that the application has named in its configuration, or -1. */
int comm_config_device(const coll_config_t *config);
/*
 * Makes the communicators of n ranks of this process, or none: comms[r] becomes the communicator of the rank of m[r].
 * n is 1, or all ranks are together.  Takes over m[r].bootstrap.
 */
int comm_make(coll_comm_t *comms, const struct rendezvous *m, int n);
/*
 * Meets the other ranks, agrees with them on a backend and opens its endpoint.  With m->together and a
 * backend that has open_all, the caller opens all endpoints.  Collective: all ranks succeed or fail.
 * Takes over m->bootstrap.  On an error *context is NULL (comm_rendezvous.c).
 */
int comm_rendezvous(struct context **context, const struct rendezvous *m);
/*
 * Makes the first communicator of an opened context, with its host lane (comm/lane.h; NULL:
 * none).  Releases both on an error (comm_make.c).
 */
int init_comm(coll_comm_t *out, struct context *context, struct lane *host);

#endif
