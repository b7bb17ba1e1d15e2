/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * beside.c - tells the user of another NCCL in the process, to which calls may go instead.
 *
 * A program that opens NVIDIA's library by its path has both, and a function that the program looks up in that library
 * does not reach libcoll.  Only the user can mend that, and only this library is there to say it.
 */
#include "dropin.h"

#include <dlfcn.h>
#include <link.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

struct beside {
	uintptr_t own;
	int seen_own, first; /* first: the other library was loaded before this one */
	int wanted; /* libcoll's backend for NCCL is loaded: it opens NVIDIA's library itself */
	char path[1024]; /* "": there is no other */
};

static atomic_int beside_used;

static int beside_look(struct dl_phdr_info *info, size_t size, void *user)
{
	const char *slash = strrchr(info->dlpi_name, '/');
	const char *name = slash ? slash + 1 : info->dlpi_name;
	struct beside *beside = user;

	(void)size;
	if (info->dlpi_addr == beside->own) {
		beside->seen_own = 1;
	} else if (!strcmp(name, "coll_nccl.so")) {
		beside->wanted = 1;
	} else if (!strncmp(name, "libnccl.so", strlen("libnccl.so")) && !beside->path[0]) {
		snprintf(beside->path, sizeof(beside->path), "%s", info->dlpi_name);
		beside->first = !beside->seen_own;
	}
	return 0;
}

/* Returns whether there is another library, which libcoll has not opened. */
static int beside_find(struct beside *beside)
{
	Dl_info own;

	*beside = (struct beside){0};
	if (!dladdr(&beside_used, &own))
		return 0;
	beside->own = (uintptr_t)own.dli_fbase;
	dl_iterate_phdr(beside_look, beside);
	return beside->path[0] && !beside->wanted;
}

void beside_use(void)
{
	struct beside beside;

	if (!atomic_exchange(&beside_used, 1) && beside_find(&beside))
		fprintf(stderr,
			"libcoll's NCCL: this process has opened %s too: functions that it looks "
			"up there do not reach libcoll\n",
			beside.path);
}

__attribute__((constructor)) static void beside_begin(void)
{
	struct beside beside;

	if (!beside_find(&beside) || !beside.first)
		return;
	atomic_store(&beside_used, 1);
	fprintf(stderr,
		"libcoll's NCCL: %s was loaded first and takes the calls: take it out of "
		"LD_PRELOAD, or put libcoll's library before it\n",
		beside.path);
}

__attribute__((destructor)) static void beside_end(void)
{
	struct beside beside;

	if (!atomic_load(&beside_used) && beside_find(&beside))
		fprintf(stderr,
			"libcoll's NCCL: this process has opened %s and has made no communicator "
			"through libcoll: its calls of NCCL did not reach libcoll\n",
			beside.path);
}
