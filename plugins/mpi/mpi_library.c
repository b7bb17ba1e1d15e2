/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_library.c - opens an MPI library when the core first probes the backend, and not earlier. */
#include "mpi_plugin.h"

#include "base/kit_signals.h"

#include <dlfcn.h>
#include <link.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

struct mpi_library mpi;

/* An opened library stays open.  After a failure the next call tries again. */
static pthread_mutex_t mpi_library_lock = PTHREAD_MUTEX_INITIALIZER;

static const struct mpi_symbol {
	const char *name;
	size_t at;
} mpi_symbols[] = {
#define MPI_SYMBOL(function, member) {#function, offsetof(struct mpi_library, member)},
	MPI_FUNCTIONS(MPI_SYMBOL) MPI_ULFM_FUNCTIONS(MPI_SYMBOL)
#ifndef MPI_NARROW
		MPI_LARGE_FUNCTIONS(MPI_SYMBOL) MPI_PERSISTENT_FUNCTIONS(MPI_SYMBOL)
#endif
};

/* ------------------------------------------------------------------ another MPI -- */

static int mpi_same_file(const char *path, const char *other)
{
	struct stat a, b;

	return !stat(path, &a) && !stat(other, &b) && a.st_dev == b.st_dev && a.st_ino == b.st_ino;
}

/* Is this the file of an MPI library's C functions? */
static int mpi_is_library(const char *path)
{
	static const char *const names[] = {"libmpi.so", "libmpi_abi.so", "libmpich.so"};
	const char *slash = strrchr(path, '/');
	const char *base = slash ? slash + 1 : path;

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strncmp(base, names[i], strlen(names[i])))
			return 1;
	return 0;
}

/* Does the process have another MPI library?  `arg` is the path of the opened library, and becomes the other's path. */
static int mpi_visit(struct dl_phdr_info *info, size_t size, void *arg)
{
	char *path = arg;

	(void)size;
	if (!info->dlpi_name || !mpi_is_library(info->dlpi_name) ||
	    mpi_same_file(info->dlpi_name, path))
		return 0;
	snprintf(path, MPI_PATH_TEXT, "%s", info->dlpi_name);
	return 1;
}

int mpi_library_is_there(void)
{
	char path[MPI_PATH_TEXT] = "";

	return dl_iterate_phdr(mpi_visit, path);
}

/* Two MPI libraries in one process would share the launcher's connection, and their symbols may mix. */
static int32_t mpi_check_alone(const struct mpi_library *lib, coll_error_t *err)
{
	char other[MPI_PATH_TEXT];

	memcpy(other, lib->path, sizeof(other));
	if (!dl_iterate_phdr(mpi_visit, other))
		return COLL_SUCCESS;
	return error_fill(err, COLL_ERR_PLUGIN,
			  "this process has loaded another MPI library, %s, beside %s: one process "
			  "can use one MPI; build the program with that MPI, or name the program's "
			  "MPI with the option mpi.library (COLL_MPI_LIBRARY)",
			  other, lib->path);
}

/* ---------------------------------------------------------------------- opening -- */

/* Takes the first line of MPI's description, up to a comma, and every run of spaces as one. */
static void mpi_note_version(struct mpi_library *lib)
{
	char text[MPI_MAX_LIBRARY_VERSION_STRING] = "";
	size_t n = 0;
	int length = 0;

	if (lib->get_library_version(text, &length))
		snprintf(text, sizeof(text), "MPI");
	for (const char *at = text; *at && !strchr(",\n", *at) && n + 1 < sizeof(lib->version);
	     at++) {
		const char now = *at == '\t' ? ' ' : *at;

		if (now != ' ' || (n && lib->version[n - 1] != ' '))
			lib->version[n++] = now;
	}
	while (n && lib->version[n - 1] == ' ')
		n--;
	lib->version[n] = '\0';
}

/* Takes the library's traits from the first row whose words are in its version text. */
static void mpi_note_traits(struct mpi_library *lib)
{
	static const struct {
		const char *words;
		struct mpi_traits traits;
	} seen[] = {
		{"Intel", {.iallgatherv_hangs = 1, .large_fails = 1, .init_is_local = 1}},
		{"MPICH Version: 4.", {.large_fails = 1, .init_is_local = 1}},
		{"MPICH", {.init_is_local = 1}},
	};

	for (size_t i = 0; i < sizeof(seen) / sizeof(seen[0]); i++)
		if (strstr(lib->version, seen[i].words)) {
			lib->traits = seen[i].traits;
			return;
		}
}

static int32_t mpi_lacks(coll_error_t *err, const char *name, const char *symbol)
{
	return error_fill(err, COLL_ERR_PLUGIN,
			  "%s has no '%s': it is no MPI library, or too old; name another with the "
			  "option mpi.library (COLL_MPI_LIBRARY)",
			  name, symbol);
}

static int32_t mpi_find(void *library, const char *name, struct mpi_library *lib, coll_error_t *err)
{
	const char *lacking = NULL;

	for (size_t i = 0; !lacking && i < sizeof(mpi_symbols) / sizeof(mpi_symbols[0]); i++) {
		void *symbol = dlsym(library, mpi_symbols[i].name);

		if (!symbol)
			lacking = mpi_symbols[i].name;
		memcpy((char *)lib + mpi_symbols[i].at, &symbol, sizeof(symbol));
	}
	if (!lacking)
		lacking = mpi_narrow(library, lib);
	return lacking ? mpi_lacks(err, name, lacking) : COLL_SUCCESS;
}

/* Finds the file that the loader has opened. */
static void mpi_note_path(void *library, const char *name, struct mpi_library *lib)
{
	Dl_info where = {.dli_fname = name};
	void *symbol = dlsym(library, "MPI_Init_thread");

	if (symbol)
		dladdr(symbol, &where);
	snprintf(lib->path, sizeof(lib->path), "%s", where.dli_fname ? where.dli_fname : name);
}

#ifdef MPI_OWN_HEADER
#define MPI_LIBRARY_KIND ""
#define MPI_OTHER_KINDS  ""
/* The handles of Open MPI are data of the library; no other library has them. */
static int32_t mpi_check_abi(void *library, const struct mpi_library *lib, coll_error_t *err)
{
#ifdef OPEN_MPI
	const char *wanted = "Open MPI";
#else
	const char *wanted = "MPICH";
#endif
	const char *found = dlsym(library, "ompi_mpi_comm_world") ? "Open MPI" : "MPICH";

	if (!strcmp(found, wanted) && !strstr(lib->path, "libmpi_abi"))
		return COLL_SUCCESS;
	return error_fill(
		err, COLL_ERR_PLUGIN,
		"this plugin was built with the mpi.h of %s, and %s is another MPI: build "
		"libcoll with --with-mpi for that MPI, or name a library of %s with the "
		"option mpi.library (COLL_MPI_LIBRARY)",
		wanted, lib->path, wanted);
}
#else
#define MPI_LIBRARY_KIND " with the MPI-5 ABI"
#define MPI_OTHER_KINDS                                                                            \
	"; for another MPI build libcoll with --with-mpi (Debian: libcoll-openmpi-backend, "       \
	"libcoll-mpich-backend)"
/* Only a library with the ABI has this function, and its handles are the numbers of mpi_abi.h. */
static int32_t mpi_check_abi(void *library, const struct mpi_library *lib, coll_error_t *err)
{
	int (*get_version)(int *major, int *minor);
	void *symbol = dlsym(library, "MPI_Abi_get_version");
	int major = 0, minor = 0;

	memcpy(&get_version, &symbol, sizeof(symbol));
	if (symbol && strstr(lib->path, "libmpi_abi") && !get_version(&major, &minor) && major == 1)
		return COLL_SUCCESS;
	if (!symbol && !dlsym(library, "MPI_Init_thread"))
		return mpi_lacks(err, lib->path, "MPI_Init_thread");
	return error_fill(
		err, COLL_ERR_PLUGIN,
		"%s does not have the MPI-5 ABI: name a libmpi_abi.so.1 (MPICH 5 and Intel "
		"MPI 2021.19 have it) with the option mpi.library (COLL_MPI_LIBRARY), or "
		"build libcoll with --with-mpi for this MPI",
		lib->path);
}
#endif

#ifdef OPEN_MPI
static void *mpi_opened;

void *mpi_find_handle(const char *name)
{
	return dlsym(mpi_opened, name);
}
#endif

/*
 * Open MPI's components, which it opens itself, look for its functions among the symbols of the whole process.  Every other
 * library stays by itself.  The UCX within MPICH changes the handlers of signals when it is loaded.
 */
static void *mpi_dlopen(const char *name)
{
	struct kit_signals signals;
	void *library;

	kit_signals_note(&signals);
#ifdef OPEN_MPI
	library = mpi_opened = dlopen(name, RTLD_NOW | RTLD_GLOBAL);
#else
	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
#endif
	kit_signals_restore(&signals);
	return library;
}

static int32_t mpi_load(const char *name, coll_error_t *err)
{
	struct mpi_library lib = {.path = ""};
	void *library, *symbol;
	int32_t code;

	if (mpi.path[0])
		return mpi_check_alone(&mpi, err);
	library = mpi_dlopen(name);
	if (!library)
		return error_fill(
			err, COLL_ERR_PLUGIN,
			"no MPI library%s is installed, or not where the loader or the option "
			"mpi.library looks: %s%s",
			MPI_LIBRARY_KIND, dlerror(), MPI_OTHER_KINDS);
	mpi_note_path(library, name, &lib);
	code = mpi_check_abi(library, &lib, err);
	if (!code)
		code = mpi_find(library, name, &lib, err);
	if (!code)
		code = mpi_check_alone(&lib, err);
	if (code) {
		dlclose(library);
		return code;
	}
	mpi_note_version(&lib);
	mpi_note_traits(&lib);
	symbol = dlsym(library, "MPIX_Query_cuda_support");
	memcpy(&lib.query_cuda, &symbol, sizeof(symbol));
	mpi = lib;
	return COLL_SUCCESS;
}

int32_t mpi_library_open(const coll_host_t *host, coll_error_t *err)
{
	const char *name = host->option_string(host, "library");
	int32_t code;

	pthread_mutex_lock(&mpi_library_lock);
	code = mpi_load(name ? name : MPI_DEFAULT_LIBRARY, err);
	pthread_mutex_unlock(&mpi_library_lock);
	return code;
}

/* What the library said when the plugin was built counts only if it cannot be asked now. */
int mpi_is_cuda_aware(void)
{
#ifdef MPIX_CUDA_AWARE_SUPPORT
	const int built = MPIX_CUDA_AWARE_SUPPORT;
#else
	const int built = 0;
#endif

	return mpi.query_cuda ? mpi.query_cuda() == 1 : built;
}

int32_t mpi_refused(coll_error_t *err, int result, const char *what)
{
	char text[MPI_MAX_ERROR_STRING] = "";
	int length = 0;

	if (mpi.error_string(result, text, &length))
		snprintf(text, sizeof(text), "error %d", result);
	text[strcspn(text, "\n")] = '\0';
	return error_fill(err, COLL_ERR_SYSTEM, "%s: %s says %s", what, mpi.version, text);
}
