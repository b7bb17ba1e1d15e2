/* SPDX-License-Identifier: BSD-3-Clause */
/* standin_open.c - a test opens the stand-in for UCC. */
#include "standin.h"
#include "../lib/tap.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

struct ucc_standin *standin_open(void)
{
	const char *top = getenv("top_builddir");
	struct ucc_standin *standin;
	char path[4096];
	void *library;

	snprintf(path, sizeof(path), "%s/tests/ucc/.libs/ucc_standin.so", top ? top : ".");
	library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	if (!library)
		bail_out("%s", dlerror());
	standin = dlsym(library, "ucc_standin");
	if (!standin)
		bail_out("%s", dlerror());
	setenv("COLL_UCC_LIBRARY", path, 1);
	return standin;
}
