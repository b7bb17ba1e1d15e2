/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_fatal.c - ends or stops the process, as the variable STUB_FATAL says: "load" when the file is opened, as a
 * library of a vendor may do, or "crash", "exit" or "hang" in its probe.  "talk": it only prints to stderr there;
 * "say": to stdout.
 */
#include "stub.h"

#include <string.h>
#include <unistd.h>

static int fatal_is(const char *when)
{
	const char *text = getenv("STUB_FATAL");

	return text && !strcmp(text, when);
}

__attribute__((constructor)) static void fatal_load(void)
{
	if (fatal_is("load"))
		abort();
}

static int32_t fatal_probe(const coll_host_t *host, coll_error_t *err)
{
	(void)host;
	(void)err;
	if (fatal_is("crash"))
		abort();
	if (fatal_is("exit"))
		exit(3);
	if (fatal_is("talk") && write(STDERR_FILENO, "words", 5) < 0)
		return COLL_SUCCESS; /* stderr is closed */
	if (fatal_is("say") && write(STDOUT_FILENO, "words", 5) < 0)
		return COLL_ERR_SYSTEM;
	while (fatal_is("hang"))
		pause();
	return COLL_SUCCESS;
}

static const coll_option_t fatal_options[] = {
	{.key = "lanes", .fallback = "1", .type = COLL_OPTION_INT, .min = 1, .max = 9},
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "fatal",
	.version = "1.0",
	.description = "crashes, if it is asked to",
	.priority = 40,
	.memory = COLL_MEM_HOST,
	.options = fatal_options,
	.option_count = sizeof(fatal_options) / sizeof(fatal_options[0]),
	.option_size = sizeof(coll_option_t),
	.transport = &stub_transport,
	.probe = fatal_probe,
	.open = stub_open,
	.close = stub_close,
};
