/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_exchange.c - exchanges the addresses of the UCX workers of all ranks. */
#include "ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Most bytes of a UCX address, so that the addresses of all ranks fit into memory.  1,000 bytes are usual. */
enum { UCX_ADDRESS_MOST = 64 << 10 };

int ucx_may_share_memory(const struct ucx *u, uint32_t rank)
{
	return kit_shares(u->host, rank, COLL_SHARES_PIDS) ||
	       kit_shares(u->host, rank, COLL_SHARES_FILES) ||
	       kit_shares(u->host, rank, COLL_SHARES_IPC);
}

static void ucx_describe(const struct ucx *u, uint64_t size, struct ucx_record *own)
{
	unsigned release;

	memset(own, 0, sizeof(*own));
	own->pid = getpid();
	own->calls_fd = u->calls_fd;
	ucx_lib.ucp_get_version(&own->version[0], &own->version[1], &release);
	own->memory = u->memory;
	own->address_size = size < UINT32_MAX ? (uint32_t)size : UINT32_MAX;
}

static int32_t ucx_check_record(const struct ucx *u, uint32_t rank, const struct ucx_record *own,
				coll_error_t *err)
{
	const struct ucx_record *r = &u->record[rank];

	if (r->version[0] != own->version[0] || r->version[1] != own->version[1])
		return error_fill(err, COLL_ERR_VERSION,
				  "rank %u has UCX %u.%u, rank %u has %u.%u: install the same on "
				  "all hosts",
				  rank, r->version[0], r->version[1], u->rank, own->version[0],
				  own->version[1]);
	if (!r->address_size || r->address_size > UCX_ADDRESS_MOST)
		return error_fill(
			err, COLL_ERR_INTERNAL,
			"rank %u announces a UCX address of %u bytes, but an address "
			"has 1 to %d: report the devices of that rank's host, or mend the "
			"exchange between the ranks, which altered bytes on the way",
			rank, r->address_size, UCX_ADDRESS_MOST);
	return COLL_SUCCESS;
}

/* Exchanges the records.  Finds the kinds of memory that all ranks have, and the length of the longest address. */
static int32_t ucx_exchange_records(struct ucx *u, uint64_t size, coll_error_t *err)
{
	const coll_host_t *host = u->host;
	struct ucx_record own;
	int32_t code;

	ucx_describe(u, size, &own);
	code = host->exchange(host, &own, u->record, sizeof(own), host->timeout_ms, err);
	u->address_size = own.address_size;
	for (uint32_t i = 0; !code && i < u->nranks; i++) {
		code = ucx_check_record(u, i, &own, err);
		u->memory &= u->record[i].memory;
		if (u->record[i].address_size > u->address_size)
			u->address_size = u->record[i].address_size;
	}
	return code;
}

static int32_t ucx_exchange_bytes(struct ucx *u, const void *address, uint64_t size,
				  coll_error_t *err)
{
	const coll_host_t *host = u->host;
	uint8_t *own = calloc(1, u->address_size);
	int32_t code;

	u->addresses = calloc(u->nranks, u->address_size);
	if (!own || !u->addresses) {
		free(own);
		error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %u UCX addresses", u->nranks);
		return kit_exchange_fail(host, COLL_ERR_NO_MEMORY, err);
	}
	memcpy(own, address, size);
	code = host->exchange(host, own, u->addresses, u->address_size, host->timeout_ms, err);
	free(own);
	return code;
}

int32_t ucx_exchange(struct ucx *u, coll_error_t *err)
{
	ucp_address_t *address;
	size_t size;
	ucs_status_t status = ucx_lib.ucp_worker_get_address(u->worker, &address, &size);
	int32_t code;

	if (status != UCS_OK) {
		code = ucx_refused(err, status, "cannot get the address of the UCX worker");
		return kit_exchange_fail(u->host, code, err);
	}
	code = ucx_exchange_records(u, size, err);
	if (!code)
		code = ucx_exchange_bytes(u, address, size, err);
	ucx_lib.ucp_worker_release_address(u->worker, address);
	return code;
}

int32_t ucx_barrier(const coll_host_t *host, int32_t code, coll_error_t *err)
{
	uint8_t in = 0, *out = calloc(host->nranks, 1);

	if (!code && !out)
		code = error_fill(err, COLL_ERR_NO_MEMORY, "no memory for %u ranks", host->nranks);
	if (code)
		kit_exchange_fail(host, code, err);
	else
		code = host->exchange(host, &in, out, 1, host->timeout_ms, err);
	free(out);
	return code;
}
