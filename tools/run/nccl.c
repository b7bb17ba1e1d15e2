/* SPDX-License-Identifier: BSD-3-Clause */
/* nccl.c - finds the libnccl.so.2 that runs over libcoll, for programs that were built for NVIDIA's library. */
#include <coll/coll.h>
#include <dlfcn.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "run/run.h"

/* Where the library lies beside libcoll: installed, and in the build tree. */
static const char *const nccl_places[] = {"coll/nccl", "../bindings/nccl/.libs"};

/* Finds the folder of libcoll, without links. */
static int nccl_beside(char *folder)
{
	const char *(*ours)(void) = coll_version_string;
	char path[PATH_MAX];
	void *symbol;
	Dl_info where;

	memcpy(&symbol, &ours, sizeof(symbol));
	if (!dladdr(symbol, &where) || !where.dli_fname || !realpath(where.dli_fname, path))
		return -1;
	*strrchr(path, '/') = '\0';
	return snprintf(folder, PATH_MAX, "%s", path) < PATH_MAX ? 0 : -1;
}

/* Names the library for LD_PRELOAD, which separates libraries by blanks and colons. */
static void nccl_name_preload(struct run_job *job)
{
	job->nccl_preload[0] = '\0';
	if (strpbrk(job->nccl, " \t\n:") == NULL)
		snprintf(job->nccl_preload, sizeof(job->nccl_preload), "%s/libnccl.so.2",
			 job->nccl);
	else
		fprintf(stderr,
			"coll run: --nccl: LD_PRELOAD cannot name a library in '%s': programs that "
			"find NVIDIA's by an RPATH keep it\n",
			job->nccl);
}

int run_find_nccl(struct run_job *job)
{
	char beside[PATH_MAX], path[PATH_MAX + 64], whole[PATH_MAX];

	if (nccl_beside(beside))
		beside[0] = '\0';
	for (size_t i = 0; beside[0] && i < sizeof(nccl_places) / sizeof(nccl_places[0]); i++) {
		snprintf(path, sizeof(path), "%s/%s", beside, nccl_places[i]);
		if (!realpath(path, whole))
			continue;
		snprintf(path, sizeof(path), "%s/libnccl.so.2", whole);
		if (access(path, R_OK) || (size_t)snprintf(job->nccl, sizeof(job->nccl), "%s",
							   whole) >= sizeof(job->nccl))
			continue;
		nccl_name_preload(job);
		return 0;
	}
	fprintf(stderr,
		"coll run: --nccl: libcoll's libnccl.so.2 is not in %s/%s; install libcoll again\n",
		beside[0] ? beside : "?", nccl_places[0]);
	return -1;
}
