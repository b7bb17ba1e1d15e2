/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loader.c - the thin layer over dlopen and libltdl.
 *
 * libltdl says "file not found" for every fault and binds lazily, so dlopen(RTLD_NOW) opens every file
 * first: dlerror has the reason, and a later eager open would no longer find an undefined symbol.
 * libltdl is not thread-safe: one lock covers all calls.  The same lock covers dlopen, whose dlerror
 * is read at once; the constructors of a plugin, which dlopen runs, cannot reach the lock.
 */
#include "plugin/loader.h"
#include "base/error.h"
#include "base/self.h"

#include <dlfcn.h>
#include <ltdl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

struct loader_file {
	struct loader_file *next;
	lt_dlhandle handle;
	char path[];
};

static struct {
	pthread_mutex_t lock;
	struct loader_file *files;
	int started; /* 1 after lt_dlinit */
} loader = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ------------------------------------------------------------------ libltdl -- */
/* The lock is held. */

static const char *loader_ltdl_message(void)
{
	const char *message = lt_dlerror();

	return message ? message : "no reason given";
}

static int loader_start(void)
{
	if (loader.started)
		return COLL_SUCCESS;
	if (lt_dlinit())
		return error_set(COLL_ERR_SYSTEM, "libltdl does not start: %s",
				 loader_ltdl_message());
	loader.started = 1;
	return COLL_SUCCESS;
}

static lt_dlhandle loader_ltdl_open(const char *path)
{
	lt_dlhandle handle = NULL;
	lt_dladvise advise;

	if (lt_dladvise_init(&advise))
		return NULL;
	if (!lt_dladvise_local(&advise) && !lt_dladvise_resident(&advise))
		handle = lt_dlopenadvise(path, advise);
	lt_dladvise_destroy(&advise);
	return handle;
}

static struct loader_file *loader_find(const char *path)
{
	struct loader_file *file = loader.files;

	while (file && strcmp(file->path, path) != 0)
		file = file->next;
	return file;
}

static int loader_keep(const char *path, struct loader_file **out)
{
	size_t size = strlen(path) + 1;
	struct loader_file *file;
	int code = loader_start();

	if (code)
		return code;
	file = malloc(sizeof(*file) + size);
	if (!file)
		return error_set(COLL_ERR_NO_MEMORY, "no memory to load '%s'", path);
	memcpy(file->path, path, size);
	file->handle = loader_ltdl_open(path);
	if (!file->handle) {
		free(file);
		return error_set(COLL_ERR_PLUGIN, "libltdl cannot open '%s': %s", path,
				 loader_ltdl_message());
	}
	file->next = loader.files;
	loader.files = file;
	*out = file;
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------------- opening -- */

/* dlerror's message without the path that it may begin with. */
static const char *loader_reason(const char *path)
{
	const char *message = dlerror();
	size_t n = strlen(path);

	if (!message)
		return "no reason given";
	return !strncmp(message, path, n) && !strncmp(message + n, ": ", 2) ? message + n + 2
									    : message;
}

static int loader_open_eagerly(const char *path)
{
	int code = loader_check_length(path);

	if (code)
		return code;
	if (!dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_NODELETE))
		return error_set(COLL_ERR_PLUGIN, "cannot load '%s': %s", path,
				 loader_reason(path));
	return COLL_SUCCESS;
}

int loader_open(const char *path, struct loader_file **file, int *first)
{
	int code = COLL_SUCCESS;

	*first = 0;
	pthread_mutex_lock(&loader.lock);
	*file = loader_find(path);
	if (!*file) {
		code = loader_open_eagerly(path);
		if (!code)
			code = loader_keep(path, file);
		*first = !code;
	}
	pthread_mutex_unlock(&loader.lock);
	return code;
}

static int loader_same_file(const char *a, const char *b)
{
	struct stat sa, sb;

	if (!strcmp(a, b))
		return 1;
	return !stat(a, &sa) && !stat(b, &sb) && sa.st_dev == sb.st_dev && sa.st_ino == sb.st_ino;
}

const void *loader_symbol(struct loader_file *file, const char *name, char *elsewhere, size_t size)
{
	const void *symbol;
	Dl_info where;

	elsewhere[0] = '\0';
	pthread_mutex_lock(&loader.lock);
	symbol = lt_dlsym(file->handle, name);
	pthread_mutex_unlock(&loader.lock);
	if (!symbol || !dladdr(symbol, &where) || !where.dli_fname)
		return NULL;
	if (loader_same_file(where.dli_fname, file->path))
		return symbol;
	snprintf(elsewhere, size, "%s", where.dli_fname);
	return NULL;
}

void loader_home(char *dir, size_t size)
{
	char *path = self_path(), *slash = path ? strrchr(path, '/') : NULL;

	dir[0] = '\0';
	if (slash)
		snprintf(dir, size, "%.*s", (int)(slash - path), path);
	free(path);
}
