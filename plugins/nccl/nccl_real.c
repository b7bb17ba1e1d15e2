/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_real.c - finds NVIDIA's NCCL in a process that has libcoll's drop-in for it (bindings/nccl).
 *
 * There the loader answers "libnccl.so.2" with the drop-in, and the backend would call itself.  The drop-in has a
 * mark.  A path leads past it: the loader knows loaded libraries by their names and files.
 */
#include "nccl.h"
#include "nccl_real.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/*
 * NCCL's calls of its own functions must not find the drop-in's functions, which come first in the process.
 * Sanitizers do not allow the flag.
 */
#if !defined(RTLD_DEEPBIND) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#undef RTLD_DEEPBIND
#define RTLD_DEEPBIND 0
#endif

static int real_is_drop_in(void *library)
{
	return dlsym(library, "ncclDropInOfColl") != NULL;
}

static void *real_open(const char *path)
{
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL | RTLD_DEEPBIND);

	if (!library || !real_is_drop_in(library))
		return library;
	dlclose(library);
	return NULL;
}

/* The folders in which the loader looks for libraries that this plugin asks for. */
static void *real_in_folders(const char *name)
{
	static const char in_plugin;
	Dl_info here = {.dli_fname = NULL};
	Dl_serinfo size, *all = NULL;
	void *library = NULL, *self;
	char path[4096];

	if (!dladdr(&in_plugin, &here) || !here.dli_fname)
		return NULL;
	self = dlopen(here.dli_fname, RTLD_NOW | RTLD_NOLOAD);
	if (!self)
		return NULL;
	if (!dlinfo(self, RTLD_DI_SERINFOSIZE, &size) && (all = malloc(size.dls_size)) &&
	    !dlinfo(self, RTLD_DI_SERINFOSIZE, all) && !dlinfo(self, RTLD_DI_SERINFO, all))
		for (unsigned i = 0; i < all->dls_cnt && !library; i++) {
			snprintf(path, sizeof(path), "%s/%s", all->dls_serpath[i].dls_name, name);
			library = real_open(path);
		}
	free(all);
	dlclose(self);
	return library;
}

/* The loader's cache: /etc/ld.so.cache has the paths of all libraries as text, each with its NUL. */
static void *real_in_cache(const char *name)
{
	FILE *file = descriptor_read("/etc/ld.so.cache");
	void *library = NULL;
	char *path = NULL;
	size_t capacity = 0, length = strlen(name);
	ssize_t n;

	while (file && !library && (n = getdelim(&path, &capacity, '\0', file)) > 0) {
		const char *slash = memrchr(path, '/', (size_t)n);

		if (path[0] == '/' && slash && strlen(slash + 1) == length &&
		    !strcmp(slash + 1, name))
			library = real_open(path);
	}
	free(path);
	if (file)
		fclose(file);
	return library;
}

void *nccl_open_real(const char *name, int *drop_in)
{
	/* The process keeps NVIDIA's library open with the symbols of its first dlopen, which must not be the drop-in's. */
	const int beside = real_is_drop_in(RTLD_DEFAULT);
	void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL | (beside ? RTLD_DEEPBIND : 0));

	*drop_in = library && real_is_drop_in(library);
	if (!*drop_in)
		return library;
	dlclose(library);
	if (strchr(name, '/'))
		return NULL;
	library = real_in_folders(name);
	return library ? library : real_in_cache(name);
}
