/* SPDX-License-Identifier: BSD-3-Clause */
/* ucc_library.c - opens UCC when the core first probes the backend, and not earlier. */
#include "ucc.h"
#include "base/kit_signals.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { UCC_OLDEST_MAJOR = 1, UCC_OLDEST_MINOR = 3 };

struct ucc_library ucc_library;

static const struct ucc_symbol {
	const char *name;
	size_t at;
} ucc_symbols[] = {
	{"ucc_get_version_string", offsetof(struct ucc_library, ucc_get_version_string)},
	{"ucc_status_string", offsetof(struct ucc_library, ucc_status_string)},
	{"ucc_lib_config_read", offsetof(struct ucc_library, ucc_lib_config_read)},
	{"ucc_lib_config_release", offsetof(struct ucc_library, ucc_lib_config_release)},
	{"ucc_finalize", offsetof(struct ucc_library, ucc_finalize)},
	{"ucc_init_version", offsetof(struct ucc_library, ucc_init_version)},
	{"ucc_context_config_read", offsetof(struct ucc_library, ucc_context_config_read)},
	{"ucc_context_config_release", offsetof(struct ucc_library, ucc_context_config_release)},
	{"ucc_context_config_modify", offsetof(struct ucc_library, ucc_context_config_modify)},
	{"ucc_context_create", offsetof(struct ucc_library, ucc_context_create)},
	{"ucc_context_destroy", offsetof(struct ucc_library, ucc_context_destroy)},
	{"ucc_context_progress", offsetof(struct ucc_library, ucc_context_progress)},
	{"ucc_team_create_post", offsetof(struct ucc_library, ucc_team_create_post)},
	{"ucc_team_create_test", offsetof(struct ucc_library, ucc_team_create_test)},
	{"ucc_team_destroy", offsetof(struct ucc_library, ucc_team_destroy)},
	{"ucc_collective_init", offsetof(struct ucc_library, ucc_collective_init)},
	{"ucc_collective_post", offsetof(struct ucc_library, ucc_collective_post)},
	{"ucc_collective_finalize", offsetof(struct ucc_library, ucc_collective_finalize)},
};

/* An opened library stays open.  After a failure the next call tries again. */
static pthread_mutex_t library_lock = PTHREAD_MUTEX_INITIALIZER;
/* The value of the option `library` that UCC was opened with; "": not open. */
static char library_name[256];
static void *library_opened; /* of dlopen */
static ucc_lib_h library_object;
static pid_t library_process; /* the process that made it */

/* ------------------------------------------------------------------------ opening -- */

static int32_t library_find(void *library, struct ucc_library *lib, coll_error_t *err)
{
	for (size_t i = 0; i < sizeof(ucc_symbols) / sizeof(ucc_symbols[0]); i++) {
		void *symbol = dlsym(library, ucc_symbols[i].name);

		if (!symbol)
			return error_fill(err, COLL_ERR_PLUGIN,
					  "%s has no '%s': it is broken, or older than its version "
					  "says; install it again",
					  lib->path, ucc_symbols[i].name);
		memcpy((char *)lib + ucc_symbols[i].at, &symbol, sizeof(symbol));
	}
	return COLL_SUCCESS;
}

static int32_t library_check_version(struct ucc_library *lib, void *library, const char *name,
				     coll_error_t *err)
{
	Dl_info where = {.dli_fname = name};
	void *symbol = dlsym(library, "ucc_get_version");
	unsigned *v = lib->version;

	memcpy(&lib->ucc_get_version, &symbol, sizeof(symbol));
	if (!symbol)
		return error_fill(
			err, COLL_ERR_PLUGIN,
			"'%s' cannot be used: it has no function 'ucc_get_version', so it "
			"is not UCC; name UCC's library with the option ucc.library "
			"(COLL_UCC_LIBRARY)",
			name);
	dladdr(symbol, &where);
	snprintf(lib->path, sizeof(lib->path), "%s", where.dli_fname ? where.dli_fname : "?");
	lib->ucc_get_version(&v[0], &v[1], &v[2]);
	if (v[0] == UCC_OLDEST_MAJOR && v[1] >= UCC_OLDEST_MINOR)
		return COLL_SUCCESS;
	return error_fill(
		err, COLL_ERR_PLUGIN,
		"UCC %u.%u.%u (%s) cannot be used: %d.%d or a later %d.x is needed; install "
		"one, or name one with the option ucc.library (COLL_UCC_LIBRARY)",
		v[0], v[1], v[2], lib->path, UCC_OLDEST_MAJOR, UCC_OLDEST_MINOR, UCC_OLDEST_MAJOR);
}

/* One library may be asked for by its name and by its path. */
static int library_is_open(const char *name)
{
	struct stat open, asked;

	return !strcmp(library_name, name) ||
	       (!stat(ucc_library.path, &open) && !stat(name, &asked) &&
		open.st_dev == asked.st_dev && open.st_ino == asked.st_ino);
}

static void *library_dlopen(const char *name, coll_error_t *err)
{
	struct kit_signals signals;
	void *library;

	kit_signals_note(&signals);
	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	kit_signals_restore(&signals);
	if (!library)
		error_fill(
			err, COLL_ERR_PLUGIN,
			"UCC is not installed, or not where the loader or the option ucc.library "
			"looks: %s",
			dlerror());
	return library;
}

typedef int (*library_handler)(const char *, unsigned, const char *, int, const void *,
			       const char *, va_list);

/*
 * Passes the messages that go by this function of UCC or UCX to the log, unless the user has asked for them.  Before its version
 * 1.7 UCC writes by UCX's functions; UCC is linked with UCX.
 */
static void library_hear(const char *name)
{
	void (*push)(library_handler) = NULL;
	void *symbol = dlsym(library_opened, name);

	memcpy(&push, &symbol, sizeof(symbol));
	if (push && !secure_getenv("UCC_LOG_LEVEL") && !secure_getenv("UCX_LOG_LEVEL"))
		push(ucc_log_handle);
}

static int32_t library_load(const char *name, coll_error_t *err)
{
	struct ucc_library lib = {.path = ""};
	void *library;
	int32_t code;

	if (library_name[0] && library_is_open(name))
		return COLL_SUCCESS;
	if (library_name[0])
		return error_fill(
			err, COLL_ERR_PLUGIN,
			"this process uses UCC from %s (asked for as '%s') and cannot use "
			"'%s' beside it: name one library in ucc.library",
			ucc_library.path, library_name, name);
	library = library_dlopen(name, err);
	if (!library)
		return COLL_ERR_PLUGIN;
	code = library_check_version(&lib, library, name, err);
	if (!code)
		code = library_find(library, &lib, err);
	if (code) {
		dlclose(library);
		return code;
	}
	library_opened = library;
	library_hear("ucs_log_push_handler");
	ucc_library = lib;
	snprintf(library_name, sizeof(library_name), "%s", name);
	return COLL_SUCCESS;
}

int32_t ucc_library_open(const coll_host_t *host, coll_error_t *err)
{
	int32_t code;

	pthread_mutex_lock(&library_lock);
	code = library_load(host->option_string(host, "library"), err);
	pthread_mutex_unlock(&library_lock);
	return code;
}

/* ------------------------------------------------------------------------- errors -- */

static int32_t library_code(ucc_status_t status)
{
	switch (status) {
	case UCC_ERR_NOT_SUPPORTED:
	case UCC_ERR_NOT_IMPLEMENTED: return COLL_ERR_UNSUPPORTED;
	case UCC_ERR_NO_MEMORY: return COLL_ERR_NO_MEMORY;
	case UCC_ERR_TIMED_OUT: return COLL_ERR_TIMEOUT;
	case UCC_ERR_INVALID_PARAM: return COLL_ERR_INTERNAL;
	default: return COLL_ERR_SYSTEM;
	}
}

int32_t ucc_refused(coll_error_t *err, ucc_status_t status, const char *what)
{
	char warning[200];
	const char *why = ucc_log_take_warning(warning, sizeof(warning));

	return error_fill(err, library_code(status),
			  "%s: UCC says %s%s%s (UCC_LOG_LEVEL=info has more)", what,
			  ucc_library.ucc_status_string(status), why[0] ? ": " : "", why);
}

/* ----------------------------------------------------------------- library object -- */

static int32_t library_make(int thread_mode, ucc_lib_h *lib, coll_error_t *err)
{
	const ucc_lib_params_t params = {.mask = UCC_LIB_PARAM_FIELD_THREAD_MODE,
					 .thread_mode = thread_mode};
	ucc_lib_config_h config;
	ucc_status_t status = ucc_library.ucc_lib_config_read(NULL, NULL, &config);

	if (status)
		return ucc_refused(err, status, "ucc_lib_config_read");
	status = ucc_library.ucc_init_version(UCC_API_MAJOR, UCC_API_MINOR, &params, config, lib);
	ucc_library.ucc_lib_config_release(config);
	if (!status)
		return COLL_SUCCESS;
	*lib = NULL;
	return ucc_refused(err, status, "ucc_init");
}

/*
 * The process' first object stays: its mode makes the pools of memory that all objects share safe for several threads.  The core
 * calls for one endpoint in one thread at a time, so the endpoints' own objects need no locks.
 */
static int32_t library_make_first(coll_error_t *err)
{
	const int32_t code = library_make(UCC_THREAD_MULTIPLE, &library_object, err);

	library_process = getpid();
	library_hear(
		"ucc_log_push_handler"); /* only now has UCC its own handler, which would come first */
	return code;
}

int32_t ucc_library_init(ucc_lib_h *lib, coll_error_t *err)
{
	int32_t code;

	pthread_mutex_lock(&library_lock);
	code = library_object ? COLL_SUCCESS : library_make_first(err);
	if (!code && library_process != getpid())
		code = error_fill(
			err, COLL_ERR_INVALID_USAGE,
			"this process was forked from a process that uses UCC (%d), and UCC "
			"would take both for the same: make the communicators in processes "
			"that were forked before, or that run a program of their own",
			(int)library_process);
	if (!code)
		code = library_make(UCC_THREAD_SINGLE, lib, err);
	pthread_mutex_unlock(&library_lock);
	return code;
}

void ucc_library_finalize(ucc_lib_h lib)
{
	pthread_mutex_lock(&library_lock);
	ucc_library.ucc_finalize(lib);
	pthread_mutex_unlock(&library_lock);
}
