/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_comm.c - makes endpoints, for one rank or for all ranks of a process, and closes them. */
#include "nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The least time for which a close waits until CUDA has freed memory. */
enum { NCCL_FREE_MS = 100 };

/* A rank sends this record to all other ranks before NCCL connects them. */
struct nccl_peer_info {
	int32_t version;
	int32_t fp8;
	nccl_unique_id_t id; /* valid in rank 0's record */
};

/* ------------------------------------------------------------------- one endpoint -- */

int32_t nccl_new(const coll_host_t *host, struct nccl **out, coll_error_t *err)
{
	struct nccl *n = calloc(1, sizeof(*n));
	int32_t code;

	*out = n;
	if (!n)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for an endpoint");
	n->host = host;
	n->rank = host->rank;
	n->nranks = host->nranks;
	n->blocking = host->option_int(host, "blocking") != 0;
	code = nccl_links_open(n, err);
	return code ? code : nccl_device_open(n, err);
}

static void nccl_free(struct nccl *n, int64_t deadline)
{
	int pushed;

	nccl_copy_results(n, COLL_ERR_ABORTED, NULL);
	if (n->context && !nccl_enter(n->context, &pushed, NULL)) {
		nccl_scratch_close(n, deadline);
		nccl_device_close(n);
		nccl_leave(pushed);
	}
	nccl_links_close(n);
	free(n);
}

nccl_config_t nccl_config(int blocking)
{
	return (nccl_config_t){
		.size = sizeof(nccl_config_t),
		.magic = NCCL_CONFIG_MAGIC,
		.version = NCCL_2_18,
		.blocking = blocking,
		.cga_cluster_size = NCCL_UNDEF,
		.min_ctas = NCCL_UNDEF,
		.max_ctas = NCCL_UNDEF,
		.split_share = NCCL_UNDEF,
		.traffic_class = NCCL_UNDEF,
	};
}

/*
 * From 2.23 on an init whose CUDA runtime refuses the driver leaves the group open that it has begun: until it is
 * closed, no call of this thread would be launched.  After other failures an open group is the program's own.
 */
static void nccl_close_group(void)
{
	if (nccl_runtime_refuses())
		nccl_lib.ncclGroupEnd();
}

/*
 * Begins to make NCCL's communicator: a non-blocking one, since only that can be given up, or with
 * `blocking = yes` the one of the endpoint.  The context is current.
 */
static int32_t nccl_connect(struct nccl *n, nccl_unique_id_t id, coll_error_t *err)
{
	nccl_config_t config = nccl_config(n->blocking);
	nccl_comm_t *comm = n->blocking ? &n->comm : &n->base;
	int result =
		nccl_lib.ncclCommInitRankConfig(comm, (int)n->nranks, id, (int)n->rank, &config);

	return nccl_record_result(n, result, "ncclCommInitRankConfig", err);
}

/* Begins to split the endpoint's communicator off its non-blocking parent. */
static int32_t nccl_begin_comm(struct nccl *n, coll_error_t *err)
{
	nccl_config_t config = nccl_config(1);
	int result;

	/* On the heap, because NCCL may still write to it after an error or an abort. */
	n->making = calloc(1, sizeof(*n->making));
	if (!n->making)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for an endpoint");
	result = nccl_lib.ncclCommSplit(n->base, 0, (int)n->rank, &n->making->comm, &config);
	/* NCCL returns success for a split that it has only begun. */
	n->call_pending = !nccl_failed(result);
	return nccl_record_result(n, result, "ncclCommSplit", err);
}

/* Waits for the communicator, and ends its parent. */
static int32_t nccl_complete_comm(struct nccl *n, int64_t deadline, coll_error_t *err)
{
	int32_t code = nccl_wait_call(n, n->host, clock_remaining(deadline), err);
	nccl_comm_t base = n->base;

	/* Without the state of the call nobody knows whether NCCL has ended it: see nccl_abort_making. */
	if (code)
		return code;
	n->comm = n->making->comm;
	free(n->making);
	n->making = NULL;
	if (!n->comm)
		return error_fill(
			err, COLL_ERR_INTERNAL,
			"NCCL has made no communicator and given no reason (NCCL_DEBUG=WARN may "
			"show more)");
	n->base = NULL;
	/* Other work on the device may hold up the end of the parent: then it goes on in the background. */
	nccl_finish_comm(n, base, clock_now_ms() + NCCL_ABORT_MS, 0);
	return COLL_SUCCESS;
}

/* The lock is held, the context current. */
static int32_t nccl_make_comm(struct nccl *n, nccl_unique_id_t id, coll_error_t *err)
{
	int64_t deadline = clock_now_ms() + n->host->timeout_ms;
	int32_t code = nccl_connect(n, id, err);

	if (code)
		nccl_close_group();
	else
		code = nccl_wait_call(n, n->host, n->host->timeout_ms, err);
	if (!code)
		code = nccl_check_environment(err);
	if (!code && !n->comm)
		code = nccl_begin_comm(n, err);
	if (!code && n->base)
		code = nccl_complete_comm(n, deadline, err);
	return code;
}

/* --------------------------------------------------------------------- ranks meet -- */

/* Checks that all ranks have the same version of NCCL. */
static int32_t nccl_compare_versions(uint32_t nranks, const struct nccl_peer_info *infos,
				     coll_error_t *err)
{
	char theirs[32], first[32];

	for (uint32_t r = 0; r < nranks; r++) {
		if (infos[r].version == infos[0].version)
			continue;
		nccl_version_text(infos[r].version, theirs, sizeof(theirs));
		nccl_version_text(infos[0].version, first, sizeof(first));
		return error_fill(
			err, COLL_ERR_VERSION,
			"rank %u has NCCL %s and rank 0 has %s: install the same on all hosts", r,
			theirs, first);
	}
	return COLL_SUCCESS;
}

/* `code` is the result of this rank so far.  A failure fails the exchange of all ranks. */
static int32_t nccl_exchange_infos(const coll_host_t *host, struct nccl *n, int32_t code,
				   nccl_unique_id_t *id, coll_error_t *err)
{
	struct nccl_peer_info own = {.version = nccl_lib.version, .fp8 = n && n->fp8};
	struct nccl_peer_info *infos = calloc(host->nranks, sizeof(*infos));
	int result = NCCL_SUCCESS;

	if (!code && !infos)
		code = error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %u ranks", host->nranks);
	if (!code && host->rank == 0)
		result = nccl_lib.ncclGetUniqueId(&own.id);
	if (result)
		code = nccl_refused(err, result, "ncclGetUniqueId", NULL);
	if (code) {
		free(infos);
		return kit_exchange_fail(host, code, err);
	}
	code = host->exchange(host, &own, infos, sizeof(own), host->timeout_ms, err);
	if (!code)
		code = nccl_compare_versions(host->nranks, infos, err);
	for (uint32_t r = 0; !code && r < host->nranks; r++)
		n->fp8 &= infos[r].fp8;
	*id = infos[0].id;
	free(infos);
	return code;
}

int32_t nccl_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	nccl_unique_id_t id;
	struct nccl *n = NULL;
	int pushed = 0;
	int32_t code = nccl_library_open(host, err);

	if (!code)
		code = nccl_new(host, &n, err);
	*ep = n;
	if (!code)
		code = nccl_enter(n->context, &pushed, err);
	if (!code)
		code = nccl_check_runtime(err);
	code = nccl_exchange_infos(host, n, code, &id, err);
	if (!code) {
		lock_acquire(&n->lock);
		code = nccl_make_comm(n, id, err);
		lock_release(&n->lock);
	}
	nccl_leave(pushed);
	return code;
}

/* ---------------------------------------------------------- all ranks of a process -- */

/* Runs a step for all endpoints in one group of NCCL's. */
static int32_t nccl_group_all(struct nccl *const *all, uint32_t count, const nccl_unique_id_t *id,
			      coll_error_t *err)
{
	int result = nccl_lib.ncclGroupStart(), pushed;
	int32_t code = COLL_SUCCESS;

	if (result)
		return nccl_refused(err, result, "ncclGroupStart", NULL);
	for (uint32_t i = 0; !code && i < count; i++) {
		code = nccl_enter(all[i]->context, &pushed, err);
		if (code)
			break;
		code = id ? nccl_connect(all[i], *id, err) : nccl_begin_comm(all[i], err);
		nccl_leave(pushed);
	}
	result = nccl_lib.ncclGroupEnd();
	if (code && id)
		nccl_close_group();
	if (!code && nccl_failed(result))
		code = nccl_refused(err, result, "ncclGroupEnd", NULL);
	return code;
}

static int32_t nccl_wait_all(struct nccl *const *all, uint32_t count, int64_t deadline,
			     coll_error_t *err)
{
	int32_t code = COLL_SUCCESS;

	for (uint32_t i = 0; !code && i < count; i++) {
		lock_acquire(&all[i]->lock);
		if (all[i]->making) {
			code = nccl_complete_comm(all[i], deadline, err);
		} else {
			all[i]->call_pending = 1;
			code = nccl_wait_call(all[i], all[i]->host, clock_remaining(deadline), err);
		}
		lock_release(&all[i]->lock);
	}
	return code;
}

static int32_t nccl_connect_all(struct nccl *const *all, uint32_t count, coll_error_t *err)
{
	int64_t deadline = clock_now_ms() + all[0]->host->timeout_ms;
	nccl_unique_id_t id;
	int result = nccl_lib.ncclGetUniqueId(&id);
	int32_t code;

	if (result)
		return nccl_refused(err, result, "ncclGetUniqueId", NULL);
	for (uint32_t i = 0; i < count; i++)
		all[0]->fp8 &= all[i]->fp8;
	for (uint32_t i = 0; i < count; i++)
		all[i]->fp8 = all[0]->fp8;
	code = nccl_group_all(all, count, &id, err);
	if (!code)
		code = nccl_wait_all(all, count, deadline, err);
	if (!code)
		code = nccl_check_environment(err);
	if (!code && all[0]->base)
		code = nccl_group_all(all, count, NULL, err);
	if (!code && all[0]->base)
		code = nccl_wait_all(all, count, deadline, err);
	return code;
}

int32_t nccl_open_all(const coll_host_t *const *hosts, uint32_t count, void **eps,
		      coll_error_t *err)
{
	struct nccl **all = calloc(count, sizeof(*all));
	int32_t code;
	int pushed;

	if (!all)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %u ranks", count);
	code = nccl_library_open(hosts[0], err);
	for (uint32_t i = 0; !code && i < count; i++) {
		code = nccl_new(hosts[i], &all[i], err);
		eps[i] = all[i];
	}
	if (!code)
		code = nccl_enter(all[0]->context, &pushed, err);
	if (!code) {
		code = nccl_check_runtime(err);
		if (!code)
			code = nccl_connect_all(all, count, err);
		nccl_leave(pushed);
	}
	free(all);
	return code;
}

/* --------------------------------------------------------------------- their end -- */

/* Waits for all work and ends the communicator. */
static enum nccl_ended nccl_finish(struct nccl *n, int64_t timeout_ms)
{
	int64_t deadline = clock_now_ms() + timeout_ms;
	nccl_comm_t comm;

	if (nccl_wait_call(n, n->host, timeout_ms, NULL) ||
	    nccl_device_wait(n, clock_remaining(deadline)))
		return NCCL_END_ABORTED;
	comm = n->comm;
	n->comm = NULL;
	return nccl_finish_comm(n, comm, deadline, 1);
}

static void nccl_end_comm(struct nccl *n, int64_t timeout_ms)
{
	enum nccl_ended ended = NCCL_END_ABORTED;

	lock_acquire(&n->lock);
	/* An abort has begun to revoke the communicator, and has not reached the endpoint. */
	if (atomic_load(&n->interrupt))
		nccl_stop(n);
	if (n->comm && !n->base && !n->revoked && timeout_ms > 0) {
		ended = nccl_finish(n, timeout_ms);
		if (ended != NCCL_ENDED)
			kit_log(n->host, COLL_LOG_WARN,
				ended == NCCL_END_ABORTED
					? "rank %u: NCCL has failed, or did not finish within %.3g "
					  "s (destroy_timeout): its communicator is aborted"
					: "rank %u: NCCL has not freed its communicator within "
					  "%.3g s (destroy_timeout), since other work keeps the "
					  "CUDA device busy: that goes on in the background",
				n->rank, (double)timeout_ms / 1000);
	}
	if (n->comm || n->base)
		nccl_abort_comm(n, clock_now_ms() + NCCL_ABORT_MS);
	lock_release(&n->lock);
	if (n->stream && ended == NCCL_END_ABORTED)
		nccl_device_wait(n, NCCL_ABORT_MS);
}

void nccl_close(void *ep, int64_t timeout_ms)
{
	struct nccl *n = ep;
	int64_t deadline = clock_now_ms() + timeout_ms, least;
	int pushed;

	if (n->context && !nccl_enter(n->context, &pushed, NULL)) {
		nccl_end_comm(n, timeout_ms);
		nccl_leave(pushed);
	}
	least = clock_now_ms() + NCCL_FREE_MS;
	nccl_free(n, deadline > least ? deadline : least);
}
