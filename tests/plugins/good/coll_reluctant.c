/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_reluctant.c - a backend of the highest priority whose open fails on one rank: before the exchange of
 * all ranks, in its place, or after it.  While: in its place, and rank 0 connects to others until it is told.
 */
#include "../stubs/stub.h"

#include <stdio.h>
#include <unistd.h>

static const coll_option_t reluctant_options[] = {
	{.key = "rank",
	 .fallback = "-1",
	 .unit = "",
	 .help = "the rank whose open fails; -1: none",
	 .min = -1,
	 .max = 1000,
	 .type = COLL_OPTION_INT},
	{.key = "when",
	 .fallback = "before",
	 .unit = "",
	 .help = "before, instead, after or while"},
};

static int32_t reluctant_fail(coll_error_t *err, int32_t code)
{
	snprintf(err->text, sizeof(err->text), "no room in the shared memory of this test");
	return err->code = code;
}

/* Returns COLL_ERR_ABORTED once the core has told this rank to give up, or 0 after ten seconds. */
static int32_t reluctant_connect(const coll_host_t *host, coll_error_t *err)
{
	for (int i = 0; i < 1000; i++) {
		if (host->aborted(host)) {
			snprintf(err->text, sizeof(err->text), "told to give up");
			return host->exchange_fail(host, COLL_ERR_ABORTED, err->text,
						   host->timeout_ms);
		}
		usleep(10000);
	}
	return COLL_SUCCESS;
}

static int32_t reluctant_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	const char when = host->option_string(host, "when")[0];
	int fails = host->option_int(host, "rank") == (int64_t)host->rank;
	char in = 1, all[1024];
	int32_t code;

	*ep = NULL;
	if (fails && when == 'b')
		return reluctant_fail(err, COLL_ERR_SYSTEM);
	if (fails && when != 'a') {
		reluctant_fail(err, COLL_ERR_SYSTEM);
		return host->exchange_fail(host, COLL_ERR_SYSTEM, err->text, host->timeout_ms);
	}
	code = when == 'w' && host->rank == 0 ? reluctant_connect(host, err) : COLL_SUCCESS;
	if (code)
		return code;
	code = host->exchange(host, &in, all, 1, host->timeout_ms, err);
	if (!code && fails)
		code = reluctant_fail(err, COLL_ERR_SYSTEM);
	return code ? code : stub_open(host, ep, err);
}

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "reluctant",
	.version = "1.0",
	.description = "one rank cannot open it",
	.priority = 1000,
	.memory = COLL_MEM_HOST,
	.options = reluctant_options,
	.option_count = 2,
	.option_size = sizeof(coll_option_t),
	.transport = &stub_transport,
	.open = reluctant_open,
	.close = stub_close,
};
