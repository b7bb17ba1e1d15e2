/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_newer.c - a plugin of a later minor version: every struct has grown at its end.  A libcoll
 * that does not know the new members must ignore them, and the rest must work.  Its ranks are
 * threads of one process.
 */
#include <coll/backend.h>

#include "../frozen/inbox.h"

struct newer_option {
	coll_option_t option;
	const char *since;
	int64_t step;
};

struct newer_transport {
	coll_transport_t transport;
	void (*unheard_of)(void);
	uint64_t further;
};

struct newer_native {
	coll_native_t native;
	void (*unheard_of)(void);
	uint64_t further;
};

struct newer_backend {
	coll_backend_t backend;
	void (*unheard_of)(void);
	uint64_t further;
};

static const struct newer_option newer_options[] = {
	{{.key = "first", .fallback = "one"}, "1.7", 3},
	{{.key = "second", .fallback = "7", .max = 9, .type = COLL_OPTION_INT}, "1.7", 3},
};

/* This libcoll knows no such slot, so nothing may call the function. */
static void newer_unheard_of(void)
{
	abort();
}

static const struct newer_transport newer_transport = {{.size = sizeof(newer_transport),
							.send = inbox_send,
							.progress = inbox_progress,
							.wait_fd = inbox_wait_fd,
							.arm = inbox_arm},
						       newer_unheard_of,
						       0x5eed};

/* Leaves the work to the core. */
static int32_t newer_allgather(void *ep, const coll_args_t *args, coll_error_t *err)
{
	(void)ep;
	(void)args;
	return inbox_fail(err, COLL_ERR_UNSUPPORTED, "left to the core");
}

static int32_t newer_query(void *ep, coll_error_t *err)
{
	(void)ep;
	(void)err;
	return COLL_SUCCESS;
}

static const struct newer_native newer_native = {
	{.size = sizeof(newer_native), .allgather = newer_allgather, .query = newer_query},
	newer_unheard_of,
	0x5eed};

/* The core must have read the options with the right stride. */
static int32_t newer_probe(const coll_host_t *host, coll_error_t *err)
{
	const char *first = host->option_string(host, "first");

	if (first && !strcmp(first, "one") && host->option_int(host, "second") == 7)
		return COLL_SUCCESS;
	return inbox_fail(err, COLL_ERR_INTERNAL, "options were misread");
}

COLL_BACKEND_EXPORT extern const struct newer_backend newer_table __asm__("coll_backend_v1");
const struct newer_backend newer_table = {{
						  .size = sizeof(newer_table),
						  .abi_minor = COLL_BACKEND_ABI_MINOR + 7,
						  .name = "newer",
						  .version = "3.0",
						  .description = "from the future",
						  .priority = 5,
						  .memory = COLL_MEM_HOST,
						  .options = &newer_options[0].option,
						  .option_count = 2,
						  .option_size = sizeof(struct newer_option),
						  .transport = &newer_transport.transport,
						  .native = &newer_native.native,
						  .probe = newer_probe,
						  .open = inbox_open,
						  .close = inbox_close,
					  },
					  newer_unheard_of,
					  0x5eed};
