/* SPDX-License-Identifier: BSD-3-Clause */
/* version.c - the version of this libcoll. */
#include <coll/coll.h>

#include <stdio.h>

const char *coll_version_string(void)
{
	return PACKAGE_VERSION;
}

int32_t coll_version_number(void)
{
	int major = 0, minor = 0, patch = 0;

	if (sscanf(PACKAGE_VERSION, "%d.%d.%d", &major, &minor, &patch) < 1)
		return 0;
	return 10000 * major + 100 * minor + patch;
}
