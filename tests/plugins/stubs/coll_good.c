/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_good.c - a plugin without fault; its info line shows the arguments that it got. */
#include "stub.h"

#include <stdio.h>

static const coll_option_t good_options[] = {
	{.key = "greeting", .fallback = "hello", .unit = "", .help = "any text"},
	{.key = "lanes",
	 .fallback = "2",
	 .unit = "",
	 .help = "how many",
	 .min = 1,
	 .max = 8,
	 .type = COLL_OPTION_INT},
};

static int32_t good_info(const coll_host_t *host, char *buf, uint64_t size)
{
	snprintf(buf, size, "%s, %d lanes, no number %d, no text %s, rank %u of %u",
		 host->option_string(host, "greeting"), (int)host->option_int(host, "lanes"),
		 (int)host->option_int(host, "greeting"),
		 host->option_string(host, "lanes") ? "wrong" : "right", host->rank, host->nranks);
	host->log(host, COLL_LOG_DEBUG, "asked for info");
	return COLL_SUCCESS;
}

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "good",
	.version = "1.0",
	.description = "nothing is wrong with it",
	.priority = 30,
	.memory = COLL_MEM_HOST,
	.options = good_options,
	.option_count = 2,
	.option_size = sizeof(coll_option_t),
	.transport = &stub_transport,
	.open = stub_open,
	.close = stub_close,
	.info = good_info,
};
