/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_library.c - opens UCX when the core first probes the backend, and not earlier. */
#include "ucx.h"

#include "base/clock.h"
#include "base/kit_signals.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { UCX_SLOW_LOAD_MS = 150 };

struct ucx_lib ucx_lib;
static int64_t ucx_load_ms;

static const struct ucx_symbol {
	const char *name;
	size_t at;
} ucx_symbols[] = {
	{"ucp_am_recv_data_nbx", offsetof(struct ucx_lib, ucp_am_recv_data_nbx)},
	{"ucp_am_send_nbx", offsetof(struct ucx_lib, ucp_am_send_nbx)},
	{"ucp_cleanup", offsetof(struct ucx_lib, ucp_cleanup)},
	{"ucp_config_modify", offsetof(struct ucx_lib, ucp_config_modify)},
	{"ucp_config_read", offsetof(struct ucx_lib, ucp_config_read)},
	{"ucp_config_release", offsetof(struct ucx_lib, ucp_config_release)},
	{"ucp_context_print_info", offsetof(struct ucx_lib, ucp_context_print_info)},
	{"ucp_context_query", offsetof(struct ucx_lib, ucp_context_query)},
	{"ucp_dt_create_generic", offsetof(struct ucx_lib, ucp_dt_create_generic)},
	{"ucp_dt_destroy", offsetof(struct ucx_lib, ucp_dt_destroy)},
	{"ucp_ep_close_nbx", offsetof(struct ucx_lib, ucp_ep_close_nbx)},
	{"ucp_ep_create", offsetof(struct ucx_lib, ucp_ep_create)},
	{"ucp_ep_flush_nbx", offsetof(struct ucx_lib, ucp_ep_flush_nbx)},
	{"ucp_ep_print_info", offsetof(struct ucx_lib, ucp_ep_print_info)},
	{"ucp_get_version", offsetof(struct ucx_lib, ucp_get_version)},
	{"ucp_get_version_string", offsetof(struct ucx_lib, ucp_get_version_string)},
	{"ucp_init_version", offsetof(struct ucx_lib, ucp_init_version)},
	{"ucp_mem_map", offsetof(struct ucx_lib, ucp_mem_map)},
	{"ucp_mem_unmap", offsetof(struct ucx_lib, ucp_mem_unmap)},
	{"ucp_request_check_status", offsetof(struct ucx_lib, ucp_request_check_status)},
	{"ucp_request_free", offsetof(struct ucx_lib, ucp_request_free)},
	{"ucp_worker_arm", offsetof(struct ucx_lib, ucp_worker_arm)},
	{"ucp_worker_create", offsetof(struct ucx_lib, ucp_worker_create)},
	{"ucp_worker_destroy", offsetof(struct ucx_lib, ucp_worker_destroy)},
	{"ucp_worker_get_address", offsetof(struct ucx_lib, ucp_worker_get_address)},
	{"ucp_worker_get_efd", offsetof(struct ucx_lib, ucp_worker_get_efd)},
	{"ucp_worker_progress", offsetof(struct ucx_lib, ucp_worker_progress)},
	{"ucp_worker_query", offsetof(struct ucx_lib, ucp_worker_query)},
	{"ucp_worker_release_address", offsetof(struct ucx_lib, ucp_worker_release_address)},
	{"ucp_worker_set_am_recv_handler",
	 offsetof(struct ucx_lib, ucp_worker_set_am_recv_handler)},
	{"ucs_log_push_handler", offsetof(struct ucx_lib, ucs_log_push_handler)},
	{"ucs_status_string", offsetof(struct ucx_lib, ucs_status_string)},
};

/* The result of the one attempt to open UCX. */
static pthread_once_t ucx_once = PTHREAD_ONCE_INIT;
static coll_error_t ucx_failure;

/* ------------------------------------------------------------------------ opening -- */

static int32_t ucx_library_find(void *library, const char *name, size_t at)
{
	void *symbol = dlsym(library, name);

	memcpy((char *)&ucx_lib + at, &symbol, sizeof(symbol));
	return symbol ? COLL_SUCCESS
		      : error_fill(&ucx_failure, COLL_ERR_PLUGIN,
				   "UCX cannot be used: %s; it is older than its version says, or "
				   "broken: install it again",
				   dlerror());
}

/*
 * UCX 1.x is backward compatible: a library as new as the headers of the build, or newer, will do.  An older
 * library lacks functions or fields that the plugin was built with.
 */
static int32_t ucx_library_version(void *library)
{
	const unsigned needed = UCP_API_MINOR > UCX_MINOR ? UCP_API_MINOR : UCX_MINOR;
	unsigned major, minor, release;
	Dl_info where = {.dli_fname = "libucp.so.0"};
	int32_t code = ucx_library_find(library, "ucp_get_version",
					offsetof(struct ucx_lib, ucp_get_version));

	if (code)
		return code;
	ucx_lib.ucp_get_version(&major, &minor, &release);
	if (major == UCX_MAJOR && minor >= needed)
		return COLL_SUCCESS;
	dladdr((void *)(uintptr_t)ucx_lib.ucp_get_version, &where);
	return error_fill(&ucx_failure, COLL_ERR_PLUGIN,
			  "UCX %u.%u.%u (%s) cannot be used: this plugin was built with %d.%d and "
			  "needs %d.%u "
			  "or a later %d.x; install one, or rebuild libcoll with this UCX",
			  major, minor, release, where.dli_fname, UCP_API_MAJOR, UCP_API_MINOR,
			  UCX_MAJOR, needed, UCX_MAJOR);
}

static void ucx_library_load(void)
{
	struct kit_signals signals;
	void *library;
	int64_t start = clock_now_ms();

	kit_signals_note(&signals);
	library = dlopen("libucp.so.0", RTLD_NOW | RTLD_LOCAL);
	kit_signals_restore(&signals);
	ucx_load_ms = clock_now_ms() - start;
	if (!library) {
		error_fill(&ucx_failure, COLL_ERR_PLUGIN,
			   "UCX is not installed, or not where the loader looks: %s", dlerror());
		return;
	}
	if (ucx_library_version(library))
		return;
	for (size_t i = 0; i < sizeof(ucx_symbols) / sizeof(ucx_symbols[0]); i++)
		if (ucx_library_find(library, ucx_symbols[i].name, ucx_symbols[i].at))
			return;
	ucx_log_handler_install();
}

/* Tells the user of a slow load: UCX 1.22 waits 50 ms for each function of the C library that it changes. */
static void ucx_tell_slow_load(const coll_host_t *host)
{
	static _Atomic int told;

	if (ucx_load_ms >= UCX_SLOW_LOAD_MS && !atomic_exchange(&told, 1))
		kit_log(host, COLL_LOG_INFO,
			"UCX was loaded within %" PRId64
			" ms; with UCX_MEM_BISTRO_GRACE_DURATION=0 in "
			"the environment (coll run sets it) UCX 1.22 does not wait for threads "
			"that "
			"may run the functions which it changes",
			ucx_load_ms);
}

int32_t ucx_library_open(const coll_host_t *host, coll_error_t *err)
{
	int32_t code = ucx_resources_check(host, err);

	if (code)
		return code;
	pthread_once(&ucx_once, ucx_library_load);
	ucx_tell_slow_load(host);
	if (!ucx_failure.code)
		return COLL_SUCCESS;
	return error_fill(err, ucx_failure.code, "%s", ucx_failure.text);
}
