/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shrunk.c - the bootstrap of the survivors of another bootstrap.  It has facts about its ranks, but
 * cannot exchange, because a bootstrap ends with its first dead rank.
 */
#include <string.h>
#include "bootstrap/bootstrap_impl.h"
#include "base/error.h"

static int shrunk_exchange(struct bootstrap *bootstrap, const void *in, void *out, size_t len,
			   struct bootstrap_failure *failure, int64_t timeout_ms)
{
	(void)in;
	(void)out;
	(void)len;
	(void)failure;
	(void)timeout_ms;
	return error_set(COLL_ERR_UNSUPPORTED,
			 "the %d ranks that coll_comm_shrink has left cannot exchange over the old "
			 "communicator's bootstrap: make a new communicator with a new id",
			 bootstrap->nranks);
}

static void shrunk_close(struct bootstrap *bootstrap)
{
	(void)bootstrap;
}

static const struct bootstrap_kind shrunk_kind = {
	.exchange = shrunk_exchange, .close = shrunk_close, .sticky = 0};

int bootstrap_open_shrunk(struct bootstrap **bootstrap, const struct bootstrap *parent,
			  const int *ranks, int rank, int nranks, uint32_t number)
{
	const uint8_t *bytes = (const uint8_t *)ranks;
	uint8_t named[32] = {0};
	int code = bootstrap_new(bootstrap, sizeof(**bootstrap), &shrunk_kind, rank, nranks);

	if (code)
		return code;
	for (int r = 0; r < nranks; r++)
		(*bootstrap)->peers[r] = parent->peers[ranks[r]];
	siphash128(parent->key, bytes, (size_t)nranks * sizeof(*ranks), named);
	memcpy(named + 16, &number, sizeof(number));
	siphash128(parent->key, named, sizeof(named), (*bootstrap)->key);
	(*bootstrap)->key_is_secret = parent->key_is_secret;
	return COLL_SUCCESS;
}
