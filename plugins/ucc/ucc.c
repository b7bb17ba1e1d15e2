/* SPDX-License-Identifier: BSD-3-Clause */
/* ucc.c - the ucc backend: UCC's own collectives on host memory. */
#include "ucc.h"

#include <stdio.h>

static int32_t ucc_probe(const coll_host_t *host, coll_error_t *err)
{
	const coll_host_t *before = ucc_log_begin(host);
	int32_t code;

	code = ucc_library_open(host, err);
	ucc_log_end(before);
	return code;
}

static int32_t ucc_info(const coll_host_t *host, char *buf, uint64_t size)
{
	coll_error_t err = {.size = sizeof(err)};
	int32_t code = ucc_probe(host, &err);

	if (code)
		snprintf(buf, size, "%s", err.text);
	else
		snprintf(buf, size, "UCC %s (%s), host memory only",
			 ucc_library.ucc_get_version_string(), ucc_library.path);
	return code;
}

static void *ucc_handle(void *ep)
{
	const struct ucc *u = ep;

	return u->team;
}

static const coll_option_t ucc_options[] = {
	{.key = "library",
	 .fallback = "libucc.so.1",
	 .unit = "",
	 .help = "UCC's library: a path, or a name for the loader to find",
	 .type = COLL_OPTION_STRING},
};

static const coll_native_t ucc_native = {
	.size = sizeof(coll_native_t),
	.allreduce = ucc_issue,
	.broadcast = ucc_issue,
	.reduce = ucc_issue,
	.allgather = ucc_issue,
	.reduce_scatter = ucc_issue,
	.alltoall = ucc_issue,
	.gather = ucc_issue,
	.scatter = ucc_issue,
	.allgatherv = ucc_issue,
	.reduce_scatterv = ucc_issue,
	.alltoallv = ucc_issue,
	.gatherv = ucc_issue,
	.scatterv = ucc_issue,
	.barrier = ucc_issue,
	.group_begin = ucc_group_begin,
	.group_end = ucc_group_end,
	.query = ucc_query,
	.sync = ucc_sync,
	.abort = ucc_abort,
	.handle = ucc_handle,
	.takes = ucc_takes,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.flags = COLL_BACKEND_BY_NAME | COLL_BACKEND_POLL | COLL_BACKEND_CLOSE_TOGETHER,
	.name = "ucc",
	.version = "1.0",
	.description = "UCC's own collectives on host memory",
	.priority = 5,
	.memory = COLL_MEM_HOST,
	.options = ucc_options,
	.option_count = sizeof(ucc_options) / sizeof(ucc_options[0]),
	.option_size = sizeof(coll_option_t),
	.native = &ucc_native,
	.probe = ucc_probe,
	.open = ucc_open,
	.close = ucc_close,
	.info = ucc_info,
	.finish = ucc_finish,
};
