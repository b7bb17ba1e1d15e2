/* SPDX-License-Identifier: BSD-3-Clause */
/* comm_make.h - what the ways to make communicators share; seen by core/init*.c. */
#ifndef CORE_API_COMM_MAKE_H
#define CORE_API_COMM_MAKE_H

#include "transport/context.h"

/* How one rank meets the others. */
struct rendezvous {
	int rank, nranks;
	const char *id;            /* from coll_get_unique_id, or */
	const struct launch *env;  /* from the environment, or */
	coll_exchange_fn exchange; /* the caller's own, or */
	void *user;
	struct bootstrap *bootstrap; /* already met */
	int uses_cuda; /* the application does: device_in_use, or it has named a device */
	int together;  /* one thread makes all ranks: it calls open_all, if there is one */
};

/* Checks the arguments that all have; `what` names the public function. */
int init_check(const char *what, const coll_comm_t *comm, int nranks, int rank);

/*
 * Meets the others, agrees with them on a backend and opens its endpoint; with m->together and a
 * backend that has open_all that is still to be done.  Collective: all ranks succeed or fail.
 * Takes over m->boot.  On an error *context is NULL.
 */
int init_begin(struct context **context, const struct rendezvous *m, const coll_config_t *config);
/* The communicator of a context that was begun and opened; the context is released on an error. */
int init_world(coll_comm_t *out, struct context *context);

#endif
