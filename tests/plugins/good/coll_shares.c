/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_shares.c - a backend without a transport and without operations.  The handle of its communicators is
 * host->shares of their endpoint.
 */
#include <coll/backend.h>

#include <stdio.h>
#include <stdlib.h>

struct shares {
	const coll_host_t *host;
};

static int32_t shares_probe(const coll_host_t *host, coll_error_t *err)
{
	if (!host->shares)
		return COLL_SUCCESS;
	snprintf(err->text, sizeof(err->text), "there are no ranks yet, but host->shares is set");
	return err->code = COLL_ERR_INTERNAL;
}

static int32_t shares_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	struct shares *shares = malloc(sizeof(*shares));

	*ep = shares;
	if (!shares) {
		snprintf(err->text, sizeof(err->text), "no memory");
		return err->code = COLL_ERR_NO_MEMORY;
	}
	shares->host = host;
	return COLL_SUCCESS;
}

static int32_t shares_split(void *ep, int32_t color, int32_t key, const coll_host_t *newhost,
			    void **newep, coll_error_t *err)
{
	(void)ep;
	(void)key;
	*newep = NULL;
	return color < 0 ? COLL_SUCCESS : shares_open(newhost, newep, err);
}

static int32_t shares_shrink(void *ep, const int32_t *exclude, int32_t n,
			     const coll_host_t *newhost, void **newep, coll_error_t *err)
{
	(void)ep;
	(void)exclude;
	(void)n;
	return shares_open(newhost, newep, err);
}

static int32_t shares_query(void *ep, coll_error_t *err)
{
	(void)ep;
	(void)err;
	return COLL_SUCCESS;
}

static void *shares_handle(void *ep)
{
	const struct shares *shares = ep;

	return (void *)(uintptr_t)shares->host->shares;
}

static void shares_close(void *ep, int64_t timeout_ms)
{
	(void)timeout_ms;
	free(ep);
}

static const coll_native_t shares_native = {
	.size = sizeof(coll_native_t),
	.query = shares_query,
	.split = shares_split,
	.shrink = shares_shrink,
	.handle = shares_handle,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "shares",
	.version = "1.0",
	.description = "tells what its ranks share",
	.memory = COLL_MEM_HOST,
	.native = &shares_native,
	.probe = shares_probe,
	.open = shares_open,
	.close = shares_close,
};
