/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl_library.c - opens NCCL and the CUDA driver, when the core first probes the backend and not earlier. */
#include "nccl.h"
#include "nccl_range.h"
#include "nccl_real.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct nccl_lib nccl_lib;

struct nccl_symbol {
	const char *name;
	size_t at;
	int since; /* the first version of NCCL that has it; 0: required */
};

static const struct nccl_symbol nccl_symbols[] = {
	{"ncclGetUniqueId", offsetof(struct nccl_lib, ncclGetUniqueId), 0},
	{"ncclGetErrorString", offsetof(struct nccl_lib, ncclGetErrorString), 0},
	{"ncclGetLastError", offsetof(struct nccl_lib, ncclGetLastError), 0},
	{"ncclCommInitRankConfig", offsetof(struct nccl_lib, ncclCommInitRankConfig), 0},
	{"ncclCommInitAll", offsetof(struct nccl_lib, ncclCommInitAll), 0},
	{"ncclCommFinalize", offsetof(struct nccl_lib, ncclCommFinalize), 0},
	{"ncclCommDestroy", offsetof(struct nccl_lib, ncclCommDestroy), 0},
	{"ncclCommAbort", offsetof(struct nccl_lib, ncclCommAbort), 0},
	{"ncclCommGetAsyncError", offsetof(struct nccl_lib, ncclCommGetAsyncError), 0},
	{"ncclCommSplit", offsetof(struct nccl_lib, ncclCommSplit), 0},
	{"ncclRedOpCreatePreMulSum", offsetof(struct nccl_lib, ncclRedOpCreatePreMulSum), 0},
	{"ncclRedOpDestroy", offsetof(struct nccl_lib, ncclRedOpDestroy), 0},
	{"ncclAllReduce", offsetof(struct nccl_lib, ncclAllReduce), 0},
	{"ncclBroadcast", offsetof(struct nccl_lib, ncclBroadcast), 0},
	{"ncclReduce", offsetof(struct nccl_lib, ncclReduce), 0},
	{"ncclAllGather", offsetof(struct nccl_lib, ncclAllGather), 0},
	{"ncclReduceScatter", offsetof(struct nccl_lib, ncclReduceScatter), 0},
	{"ncclSend", offsetof(struct nccl_lib, ncclSend), 0},
	{"ncclRecv", offsetof(struct nccl_lib, ncclRecv), 0},
	{"ncclGroupStart", offsetof(struct nccl_lib, ncclGroupStart), 0},
	{"ncclGroupEnd", offsetof(struct nccl_lib, ncclGroupEnd), 0},
	{"ncclCommRegister", offsetof(struct nccl_lib, ncclCommRegister), NCCL_2_19},
	{"ncclCommDeregister", offsetof(struct nccl_lib, ncclCommDeregister), NCCL_2_19},
	{"ncclMemAlloc", offsetof(struct nccl_lib, ncclMemAlloc), NCCL_2_19},
	{"ncclMemFree", offsetof(struct nccl_lib, ncclMemFree), NCCL_2_19},
	{"ncclCommShrink", offsetof(struct nccl_lib, ncclCommShrink), NCCL_2_27},
	{"ncclCommRevoke", offsetof(struct nccl_lib, ncclCommRevoke), NCCL_2_28},
	{"ncclAlltoAll", offsetof(struct nccl_lib, ncclAlltoAll), NCCL_2_28},
	{"ncclGather", offsetof(struct nccl_lib, ncclGather), NCCL_2_28},
	{"ncclScatter", offsetof(struct nccl_lib, ncclScatter), NCCL_2_28},
};

/* An opened library stays open.  After a failure the next call tries again. */
static pthread_mutex_t nccl_library_lock = PTHREAD_MUTEX_INITIALIZER;
/* The value of the option `library` that NCCL was opened with; "": not open. */
static char nccl_library_name[256];
static int nccl_cuda_open;

void nccl_version_text(int version, char *text, size_t size)
{
	snprintf(text, size, "%d.%d.%d", version / 10000, version / 100 % 100, version % 100);
}

static int32_t nccl_missing_symbol(coll_error_t *err, const char *library_name, const char *symbol)
{
	return error_fill(err, COLL_ERR_PLUGIN,
			  "%s has no '%s': it is broken, or older than its version says; "
			  "install it again",
			  library_name, symbol);
}

/* Looks up NCCL's functions in the library. */
static int32_t nccl_find(void *library, struct nccl_lib *lib, coll_error_t *err)
{
	for (size_t i = 0; i < sizeof(nccl_symbols) / sizeof(nccl_symbols[0]); i++) {
		void *symbol = dlsym(library, nccl_symbols[i].name);

		if (!symbol && !nccl_symbols[i].since)
			return nccl_missing_symbol(err, lib->path, nccl_symbols[i].name);
		memcpy((char *)lib + nccl_symbols[i].at, &symbol, sizeof(symbol));
	}
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------------------- NCCL -- */

static int32_t nccl_check_version(struct nccl_lib *lib, void *library, const char *name,
				  coll_error_t *err)
{
	Dl_info where = {.dli_fname = name};
	char found[32];
	void *symbol = dlsym(library, "ncclGetVersion");
	int result;

	memcpy(&lib->ncclGetVersion, &symbol, sizeof(symbol));
	if (symbol)
		dladdr(symbol, &where);
	snprintf(lib->path, sizeof(lib->path), "%s", where.dli_fname ? where.dli_fname : "?");
	result = symbol ? lib->ncclGetVersion(&lib->version) : NCCL_INTERNAL_ERROR;
	if (result)
		return error_fill(
			err, COLL_ERR_PLUGIN,
			"%s cannot be used: ncclGetVersion is missing or failed (%d); install NCCL "
			"2.18 or later",
			lib->path, result);
	if (lib->version >= NCCL_2_18)
		return COLL_SUCCESS;
	nccl_version_text(lib->version, found, sizeof(found));
	return error_fill(err, COLL_ERR_PLUGIN,
			  "NCCL %s (%s) cannot be used: 2.18 or later is needed; install one, or "
			  "name one with the option nccl.library (COLL_NCCL_LIBRARY)",
			  found, lib->path);
}

/* Opens NVIDIA's library, also where the program has libcoll's drop-in in its place. */
static int32_t nccl_open_library(const char *name, void **library, coll_error_t *err)
{
	int drop_in;

	*library = nccl_open_real(name, &drop_in);
	if (*library)
		return COLL_SUCCESS;
	if (!drop_in)
		return error_fill(err, COLL_ERR_PLUGIN,
				  "NCCL is not installed, or not where the loader or the option "
				  "nccl.library looks: %s",
				  dlerror());
	return error_fill(err, COLL_ERR_PLUGIN,
			  "'%s' is libcoll's own library for NCCL programs in this process, and "
			  "there is no NCCL beside it: name NVIDIA's library by its path with the "
			  "option nccl.library (COLL_NCCL_LIBRARY), or choose another backend",
			  name);
}

/* One library may be asked for by its name and by its path: `coll check` reads no variables, the library does. */
static int nccl_is_open(const char *name)
{
	struct stat open, asked;

	return !strcmp(nccl_library_name, name) ||
	       (!stat(nccl_lib.path, &open) && !stat(name, &asked) && open.st_dev == asked.st_dev &&
		open.st_ino == asked.st_ino);
}

static int32_t nccl_load(const char *name, coll_error_t *err)
{
	struct nccl_lib lib = {.version = 0};
	void *library;
	int32_t code;

	if (nccl_library_name[0] && nccl_is_open(name))
		return COLL_SUCCESS;
	if (nccl_library_name[0])
		return error_fill(err, COLL_ERR_PLUGIN,
				  "this process uses NCCL from %s (asked for as '%s') and cannot "
				  "use '%s' beside it: name one library in nccl.library",
				  nccl_lib.path, nccl_library_name, name);
	code = nccl_open_library(name, &library, err);
	if (code)
		return code;
	code = nccl_check_version(&lib, library, name, err);
	if (!code)
		code = nccl_find(library, &lib, err);
	if (code) {
		dlclose(library);
		return code;
	}
	lib.cuda = nccl_built_for(lib.path);
	nccl_lib = lib;
	snprintf(nccl_library_name, sizeof(nccl_library_name), "%s", name);
	return COLL_SUCCESS;
}

/* ----------------------------------------------------------------------- driver -- */

static int32_t nccl_load_cuda(coll_error_t *err)
{
	char version[32];
	const char *why;

	if (nccl_cuda_open)
		return COLL_SUCCESS;
	nccl_version_text(nccl_lib.version, version, sizeof(version));
	switch (driver_open(DRIVER_NCCL, &why)) {
	case DRIVER_ABSENT:
		return error_fill(err, COLL_ERR_PLUGIN,
				  "NCCL %s is installed (%s), but no CUDA driver is: %s", version,
				  nccl_lib.path, why);
	case DRIVER_INCOMPLETE:
		return nccl_missing_symbol(err, "the CUDA driver (libcuda.so.1)", why);
	default: break;
	}
	nccl_cuda_open = 1;
	nccl_range_open();
	return COLL_SUCCESS;
}

/* The toolkit has a libcuda.so.1 without functions, for the linker; it does not even know its own error. */
static int32_t nccl_stub_driver(const char *version, coll_error_t *err)
{
	Dl_info where = {.dli_fname = NULL};
	void *symbol;

	memcpy(&symbol, &cuda_driver.cuInit, sizeof(symbol));
	dladdr(symbol, &where);
	return error_fill(
		err, COLL_ERR_DEVICE,
		"NCCL %s is installed, but %s is not a driver: it is the CUDA toolkit's stub, "
		"which only serves to link programs; take its folder out of LD_LIBRARY_PATH, "
		"and install the driver if there is none",
		version, where.dli_fname ? where.dli_fname : "libcuda.so.1");
}

/* The CUDA runtime inside NCCL refuses the driver. */
static int32_t nccl_driver_too_old(const char *why, coll_error_t *err)
{
	char version[32];
	int driver = 0;

	nccl_version_text(nccl_lib.version, version, sizeof(version));
	cuda_driver.cuDriverGetVersion(&driver);
	return error_fill(
		err, COLL_ERR_DEVICE,
		"NCCL %s (%s) cannot use this CUDA driver, which serves CUDA up to %d.%d%s%s: "
		"update the driver, or install an NCCL that was built for an older CUDA",
		version, nccl_lib.path, driver / 1000, driver % 1000 / 10,
		why && why[0] ? ": " : "", why ? why : "");
}

/* A CUDA runtime needs a driver of at least its own major version. */
static int32_t nccl_compare_driver(coll_error_t *err)
{
	char why[64];
	int driver = 0;

	if (cuda_driver.cuDriverGetVersion(&driver) || nccl_lib.cuda / 1000 <= driver / 1000)
		return COLL_SUCCESS;
	snprintf(why, sizeof(why), "it was built for CUDA %d.%d", nccl_lib.cuda / 1000,
		 nccl_lib.cuda % 1000 / 10);
	return nccl_driver_too_old(why, err);
}

/* cuInit makes no context, and the first CUDA call of the application would call it anyway. */
static int32_t nccl_start_cuda(coll_error_t *err)
{
	char version[32], what[96];
	int count = 0, result = cuda_driver.cuInit(0);

	if (!result)
		result = cuda_driver.cuDeviceGetCount(&count);
	nccl_version_text(nccl_lib.version, version, sizeof(version));
	if (result == CUDA_NO_DEVICE || (!result && count == 0))
		return error_fill(
			err, COLL_ERR_DEVICE,
			"NCCL %s and a CUDA driver are installed, but there is no CUDA device; "
			"check nvidia-smi and CUDA_VISIBLE_DEVICES",
			version);
	if (!result)
		return nccl_compare_driver(err);
	if (result == CUDA_STUB_LIBRARY)
		return nccl_stub_driver(version, err);
	snprintf(what, sizeof(what), "NCCL %s is installed, but CUDA cannot be used: cuInit",
		 version);
	return nccl_cuda_refused(err, result, what);
}

int32_t nccl_check_environment(coll_error_t *err)
{
	const char *blocking = secure_getenv("NCCL_COMM_BLOCKING");
	char *end;

	if (!blocking || strtoll(blocking, &end, 0) != 0 || end == blocking)
		return COLL_SUCCESS;
	return error_fill(
		err, COLL_ERR_UNSUPPORTED,
		"NCCL_COMM_BLOCKING=%s (the environment, or a file nccl.conf) makes NCCL's "
		"communicators non-blocking, and libcoll needs blocking ones: take it out "
		"(init_timeout bounds the making of communicators without it)",
		blocking);
}

int32_t nccl_library_open(const coll_host_t *host, coll_error_t *err)
{
	int32_t code;

	pthread_mutex_lock(&nccl_library_lock);
	code = nccl_load(host->option_string(host, "library"), err);
	if (!code)
		code = nccl_load_cuda(err);
	pthread_mutex_unlock(&nccl_library_lock);
	if (!code)
		code = nccl_check_environment(err);
	return code ? code : nccl_start_cuda(err);
}

int nccl_runtime_refuses(void)
{
	/* NCCL asks its runtime for the device before it refuses these arguments; before 2.23 it does not ask. */
	return nccl_lib.version >= NCCL_2_23 &&
	       nccl_lib.ncclCommInitAll(NULL, 0, NULL) == NCCL_UNHANDLED_CUDA_ERROR;
}

/* NCCL's text of the error that nccl_runtime_refuses causes.  NCCL keeps it until the next error. */
static char nccl_probe_error[256];

int32_t nccl_check_runtime(coll_error_t *err)
{
	static atomic_int works;
	const char *text;

	if (atomic_load(&works))
		return COLL_SUCCESS;
	if (nccl_runtime_refuses())
		return nccl_driver_too_old(nccl_lib.ncclGetLastError(NULL), err);
	text = nccl_lib.ncclGetLastError(NULL);
	pthread_mutex_lock(&nccl_library_lock);
	snprintf(nccl_probe_error, sizeof(nccl_probe_error), "%s", text ? text : "");
	pthread_mutex_unlock(&nccl_library_lock);
	atomic_store(&works, 1);
	return COLL_SUCCESS;
}

/* NCCL's text of its last error; "" if there is none, or if nccl_check_runtime has caused that error. */
static const char *nccl_last_error(nccl_comm_t comm)
{
	const char *text = nccl_lib.ncclGetLastError(comm);
	const size_t most = sizeof(nccl_probe_error) - 1;
	int stale;

	pthread_mutex_lock(&nccl_library_lock);
	stale = text && !strncmp(text, nccl_probe_error, most);
	pthread_mutex_unlock(&nccl_library_lock);
	return text && !stale ? text : "";
}

/* ncclResult_t 1 to 6 have the same numbers as in coll.h. */
static int32_t nccl_code(int result)
{
	return result >= NCCL_UNHANDLED_CUDA_ERROR && result <= NCCL_REMOTE_ERROR
		       ? result
		       : COLL_ERR_INTERNAL;
}

int32_t nccl_refused(coll_error_t *err, int result, const char *what, nccl_comm_t comm)
{
	const char *text = nccl_lib.ncclGetErrorString(result);
	const char *last = nccl_last_error(comm);

	return error_fill(err, nccl_code(result), "%s: NCCL says %s%s%s (NCCL_DEBUG=WARN has more)",
			  what, text ? text : "that it failed", last[0] ? ": " : "", last);
}
