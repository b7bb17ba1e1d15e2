/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_comm.c - makes endpoints (for one rank, for all ranks of a process, from a parent), and closes them. */
#include "nccl.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A rank sends this record to all other ranks before NCCL connects them. */
struct nccl_peer_info {
	int32_t version;
	int32_t fp8;
	nccl_unique_id_t id; /* valid in rank 0's record */
};

/* ------------------------------------------------------------------- one endpoint -- */

/* Makes an endpoint without NCCL's communicator.  On an error *out may be half-made. */
static int32_t nccl_new(const coll_host_t *host, struct nccl **out, coll_error_t *err)
{
	struct nccl *n = calloc(1, sizeof(*n));

	*out = n;
	if (!n)
		return error_fill(err, COLL_ERR_NO_MEMORY, "no memory for an endpoint");
	n->host = host;
	n->rank = host->rank;
	n->nranks = host->nranks;
	/* Before 2.27 only the thread that began a call can ask NCCL whether it is complete. */
	n->blocking = host->option_int(host, "blocking") != 0 || nccl_lib.version < NCCL_2_27;
	pthread_mutex_init(&n->lock, NULL);
	return nccl_device_open(n, err);
}

static void nccl_free(struct nccl *n)
{
	int pushed;

	if (n->context && !nccl_enter(n->context, &pushed, NULL)) {
		nccl_device_close(n);
		nccl_leave(pushed);
	}
	pthread_mutex_destroy(&n->lock);
	free(n);
}

static nccl_config_t nccl_config(const struct nccl *n)
{
	return (nccl_config_t){
		.size = sizeof(nccl_config_t),
		.magic = NCCL_CONFIG_MAGIC,
		.version = NCCL_2_18,
		.blocking = n->blocking,
		.cga_cluster_size = NCCL_UNDEF,
		.min_ctas = NCCL_UNDEF,
		.max_ctas = NCCL_UNDEF,
		.split_share = NCCL_UNDEF,
	};
}

/* Begins to make NCCL's communicator.  The context is current. */
static int32_t nccl_connect(struct nccl *n, nccl_unique_id_t id, coll_error_t *err)
{
	nccl_config_t config = nccl_config(n);
	int result = nccl_lib.ncclCommInitRankConfig(&n->comm, (int)n->nranks, id, (int)n->rank,
						     &config);

	return nccl_record_result(n, result, "ncclCommInitRankConfig", err);
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
	code = nccl_exchange_infos(host, n, code, &id, err);
	if (!code) {
		pthread_mutex_lock(&n->lock);
		code = nccl_connect(n, id, err);
		if (!code)
			code = nccl_wait_comm_ready(n, host, host->timeout_ms, err);
		pthread_mutex_unlock(&n->lock);
	}
	nccl_leave(pushed);
	return code;
}

/* ---------------------------------------------------------- all ranks of a process -- */

static int32_t nccl_connect_all(struct nccl *const *all, uint32_t count, coll_error_t *err)
{
	nccl_unique_id_t id;
	int32_t code = COLL_SUCCESS, one;
	int pushed, result = nccl_lib.ncclGetUniqueId(&id);

	if (result)
		return nccl_refused(err, result, "ncclGetUniqueId", NULL);
	result = nccl_lib.ncclGroupStart();
	if (result)
		return nccl_refused(err, result, "ncclGroupStart", NULL);
	for (uint32_t i = 0; i < count; i++)
		all[0]->fp8 &= all[i]->fp8;
	for (uint32_t i = 0; i < count; i++)
		all[i]->fp8 = all[0]->fp8;
	for (uint32_t i = 0; !code && i < count; i++) {
		code = nccl_enter(all[i]->context, &pushed, err);
		if (code)
			break;
		code = nccl_connect(all[i], id, err);
		nccl_leave(pushed);
	}
	result = nccl_lib.ncclGroupEnd();
	if (!code && nccl_failed(result))
		code = nccl_refused(err, result, "ncclGroupEnd", NULL);
	for (uint32_t i = 0; i < count; i++) {
		pthread_mutex_lock(&all[i]->lock);
		all[i]->call_pending = 1;
		one = code ? code
			   : nccl_wait_comm_ready(all[i], all[i]->host, all[i]->host->timeout_ms,
						  err);
		pthread_mutex_unlock(&all[i]->lock);
		code = code ? code : one;
	}
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
		code = nccl_connect_all(all, count, err);
		nccl_leave(pushed);
	}
	free(all);
	return code;
}

/* -------------------------------------------------------------------- from others -- */

/* Makes an endpoint on the parent's device: a current context decides the device. */
static int32_t nccl_new_child(const struct nccl *parent, const coll_host_t *host, struct nccl **out,
			      coll_error_t *err)
{
	int pushed;
	int32_t code = nccl_enter(parent->context, &pushed, err);

	if (code)
		return code;
	code = nccl_new(host, out, err);
	if (*out)
		(*out)->fp8 = parent->fp8;
	nccl_leave(pushed);
	return code;
}

/* Waits until NCCL has completed the call on the parent, then until the child is connected. */
static int32_t nccl_wait_child_ready(struct nccl *parent, struct nccl *child,
				     const coll_host_t *host, coll_error_t *err)
{
	int32_t code;

	/* NCCL returns success for a split or shrink that it has only begun. */
	parent->call_pending = 1;
	code = nccl_wait_comm_ready(parent, host, host->timeout_ms, err);
	if (code || !child)
		return code;
	if (!child->comm)
		return error_fill(
			err, COLL_ERR_INTERNAL,
			"NCCL has made no communicator and given no reason (NCCL_DEBUG=WARN may "
			"show more)");
	pthread_mutex_lock(&child->lock);
	child->call_pending = 1;
	code = nccl_wait_comm_ready(child, host, host->timeout_ms, err);
	pthread_mutex_unlock(&child->lock);
	return code;
}

int32_t nccl_split(void *ep, int32_t color, int32_t key, const coll_host_t *newhost, void **newep,
		   coll_error_t *err)
{
	struct nccl *n = ep, *child = NULL;
	const coll_host_t *host = newhost ? newhost : n->host;
	nccl_config_t config = nccl_config(n);
	nccl_comm_t none = NULL;
	int32_t code = newhost ? nccl_new_child(n, newhost, &child, err) : COLL_SUCCESS, begun;
	coll_error_t *first = code ? NULL : err;
	int pushed, result;

	*newep = child;
	begun = nccl_begin(n, &pushed, first);
	if (begun)
		return code ? code : begun;
	/* A rank that has failed takes part without a colour: otherwise the other ranks would wait for it. */
	result = nccl_lib.ncclCommSplit(n->comm, code ? NCCL_NOCOLOR : color, key,
					child && !code ? &child->comm : &none, &config);
	begun = nccl_record_result(n, result, "ncclCommSplit", first);
	if (!begun)
		begun = nccl_wait_child_ready(n, code ? NULL : child, host, first);
	/* NCCL may still write to child->comm, so its work must end before the child is freed. */
	if (n->call_pending)
		nccl_stop(n);
	nccl_end(n, pushed);
	return code ? code : begun;
}

static int32_t nccl_can_shrink(const struct nccl *n, coll_error_t *err)
{
	char version[32];

	nccl_version_text(nccl_lib.version, version, sizeof(version));
	if (!nccl_lib.ncclCommShrink)
		return error_fill(
			err, COLL_ERR_UNSUPPORTED,
			"NCCL %s cannot shrink a communicator, 2.27 is the first that can: "
			"make a new communicator with a new id",
			version);
	if (!n->comm)
		return error_fill(
			err, COLL_ERR_UNSUPPORTED,
			"NCCL %s cannot shrink this communicator, which has failed or was "
			"aborted%s: make a new communicator with a new id",
			version,
			nccl_lib.ncclCommRevoke ? " while it was being connected"
						: " (2.28.7 is the first that can)");
	return COLL_SUCCESS;
}

/* The lock is held, the context current. */
static int32_t nccl_shrink_to(struct nccl *n, struct nccl *child, int *list, int32_t count,
			      coll_error_t *err)
{
	nccl_config_t config = nccl_config(n);
	int flags = n->revoked ? NCCL_SHRINK_DEFAULT : NCCL_SHRINK_ABORT, result;
	int32_t code;

	atomic_store(&n->aborted, 0); /* from here on only an abort of this shrink sets it */
	result = count ? nccl_lib.ncclCommShrink(n->comm, list, count, &child->comm, &config, flags)
		       : nccl_lib.ncclCommSplit(n->comm, 0, (int)n->rank, &child->comm, &config);
	code = nccl_record_result(n, result, "ncclCommShrink", err);
	if (!code)
		code = nccl_wait_child_ready(n, child, child->host, err);
	/* NCCL may still write to child->comm, as in nccl_split. */
	if (n->call_pending) {
		n->revoked = 0;
		nccl_stop(n);
	}
	return code;
}

int32_t nccl_shrink(void *ep, const int32_t *exclude, int32_t count, const coll_host_t *newhost,
		    void **newep, coll_error_t *err)
{
	struct nccl *n = ep, *child = NULL;
	int *list = calloc((size_t)count + 1, sizeof(*list)), pushed;
	int32_t code = list ? COLL_SUCCESS
			    : error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %d ranks", count);

	*newep = NULL;
	pthread_mutex_lock(&n->lock);
	if (!code)
		code = nccl_enter(n->context, &pushed, err);
	if (!code) {
		/* NCCL shrinks only a communicator without pending calls. */
		if (n->comm && !n->revoked && nccl_poll_async_error(n, NULL))
			nccl_stop(n);
		code = nccl_can_shrink(n, err);
		if (!code)
			code = nccl_new_child(n, newhost, &child, err);
		*newep = child;
		for (int32_t i = 0; !code && i < count; i++)
			list[i] = exclude[i];
		if (!code)
			code = nccl_shrink_to(n, child, list, count, err);
		nccl_leave(pushed);
	}
	free(list);
	pthread_mutex_unlock(&n->lock);
	return code;
}

/* --------------------------------------------------------------------- their end -- */

/* Waits for all work and finalizes the communicator; 1 if NCCL completed both in time. */
static int nccl_finish(struct nccl *n, int64_t timeout_ms)
{
	int64_t deadline = clock_now_ms() + timeout_ms;
	int result;

	if (nccl_wait_comm_ready(n, n->host, timeout_ms, NULL) ||
	    !nccl_device_wait(n, deadline - clock_now_ms()))
		return 0;
	result = nccl_lib.ncclCommFinalize(n->comm);
	if (nccl_record_result(n, result, "ncclCommFinalize", NULL))
		return 0;
	return !nccl_wait_comm_ready(n, n->host, deadline - clock_now_ms(), NULL);
}

static void nccl_end_comm(struct nccl *n, int64_t timeout_ms)
{
	int finished;

	pthread_mutex_lock(&n->lock);
	finished = n->comm && !n->revoked && timeout_ms > 0 && nccl_finish(n, timeout_ms);
	if (n->comm && !finished && timeout_ms > 0 && !n->revoked)
		kit_log(n->host, COLL_LOG_WARN,
			"rank %u: NCCL has failed, or did not finish within %.3g s "
			"(destroy_timeout): its communicator is aborted",
			n->rank, (double)timeout_ms / 1000);
	if (n->comm && finished)
		nccl_lib.ncclCommDestroy(n->comm);
	else if (n->comm)
		nccl_abort_comm(n, clock_now_ms() + NCCL_ABORT_MS);
	n->comm = NULL;
	pthread_mutex_unlock(&n->lock);
	if (n->stream && !finished)
		nccl_device_wait(n, NCCL_ABORT_MS);
}

void nccl_close(void *ep, int64_t timeout_ms)
{
	struct nccl *n = ep;
	int pushed;

	if (n->context && !nccl_enter(n->context, &pushed, NULL)) {
		nccl_end_comm(n, timeout_ms);
		nccl_leave(pushed);
	}
	nccl_free(n);
}
