/* SPDX-License-Identifier: BSD-3-Clause */
/* trust_owner.c - the users whom a process knows, and places whose owner a user namespace hides. */
#include "base/descriptor.h"
#include "base/trust_impl.h"
#include "base/self.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

/* Linux uses this number unless the administrator has set another. */
enum { TRUST_NOBODY = 65534 };

int trust_is_secure(void)
{
	return getauxval(AT_SECURE) != 0;
}

int trust_is_privileged(void)
{
	return geteuid() == 0 || trust_is_secure();
}

/* ---------------------------------------------------------------- the namespace -- */

static uint32_t trust_read_number(const char *path)
{
	FILE *file = descriptor_read(path);
	uint32_t number;

	if (!file || fscanf(file, "%" SCNu32, &number) != 1)
		number = TRUST_NOBODY;
	if (file)
		fclose(file);
	return number;
}

/* Sets `hidden` and `map`.  Without /proc no owner is taken for hidden. */
static void trust_read_map(struct trust_owners *owners)
{
	FILE *file = descriptor_read("/proc/self/uid_map");
	uint32_t inside, outside, count;
	size_t used = 0;

	owners->hidden = file != NULL;
	while (file &&
	       fscanf(file, "%" SCNu32 "%" SCNu32 "%" SCNu32, &inside, &outside, &count) == 3) {
		if (owners->nobody >= inside && owners->nobody - inside < count)
			owners->hidden = 0;
		if (used < sizeof(owners->map))
			used += (size_t)snprintf(owners->map + used, sizeof(owners->map) - used,
						 "%s%" PRIu32 " %" PRIu32 " %" PRIu32,
						 used ? ", " : "", inside, outside, count);
	}
	if (file)
		fclose(file);
}

static int trust_owns(uid_t uid, const char *path)
{
	struct stat st;

	return path && !stat(path, &st) && st.st_uid == uid;
}

/* The home directory, if it is the user's own. */
static char *trust_find_home(const struct trust_owners *owners)
{
	const char *home = secure_getenv("HOME");

	if (!home || home[0] != '/' || geteuid() == owners->nobody || !trust_owns(geteuid(), home))
		return NULL;
	return realpath(home, NULL);
}

void trust_owners_read(struct trust_owners *owners)
{
	*owners = (struct trust_owners){
		.nobody = trust_read_number("/proc/sys/kernel/overflowuid"),
		.nogroup = trust_read_number("/proc/sys/kernel/overflowgid"),
	};
	trust_read_map(owners);
	if (!owners->hidden)
		return;
	owners->library = self_path();
	owners->home = trust_find_home(owners);
	owners->config = realpath(COLL_SYSCONFDIR, NULL);
}

void trust_owners_free(struct trust_owners *owners)
{
	free(owners->library);
	free(owners->home);
	free(owners->config);
}

/* --------------------------------------------------------------------- judgement -- */

/* Does the user own the file of the running libcoll? */
static int trust_owns_library(uid_t uid)
{
	char *path = self_path();
	const int owns = trust_owns(uid, path);

	free(path);
	return owns;
}

int trust_is_owner(const struct trust_owners *owners, uid_t uid)
{
	if (uid == owners->nobody)
		return 0;
	if (uid == 0)
		return 1;
	if (uid == geteuid())
		return !trust_is_secure() || getuid() != uid;
	return !trust_is_privileged() && (trust_owns(uid, "/") || trust_owns_library(uid));
}

/* The tree is the first `len` characters of `tree`. */
static int trust_is_within(const char *path, const char *tree, size_t len)
{
	return !strncmp(path, tree, len) && (path[len] == '/' || path[len] == '\0');
}

int trust_is_below(const char *path, const char *tree)
{
	return trust_is_within(path, tree, strcmp(tree, "/") == 0 ? 0 : strlen(tree));
}

/*
 * Could anybody have put a file there?  That is so if a directory from the first `len` characters on is writable for all,
 * as /tmp is.
 */
static int trust_is_open(const char *path, size_t len)
{
	char *dir = strdup(path);
	int open = !dir;
	struct stat st;

	for (size_t i = len; !open; i++) {
		if (i == len || path[i] == '/') {
			dir[i] = '\0';
			open = stat(dir, &st) || st.st_mode & S_IWOTH;
			dir[i] = path[i];
		}
		if (!path[i])
			break;
	}
	free(dir);
	return open;
}

/* Is the path the directory of the first `len` characters of `tree`, or below it, and do only owners put files there? */
static int trust_is_installed(const char *path, const char *tree, size_t len)
{
	return len && trust_is_within(path, tree, len) && !trust_is_open(path, len);
}

/* Is the path below the directory that holds libcoll? */
static int trust_is_beside(const char *path, const char *library)
{
	const char *slash = strrchr(library, '/');

	return slash && trust_is_installed(path, library, (size_t)(slash - library));
}

/*
 * The owner of a directory above libcoll can replace libcoll, and the owner of a directory above the user's home
 * can replace all that the user runs.  If libcoll's owner is hidden as well, files beside libcoll and the
 * system's configuration files count as files of its installer, except where anybody may put files.
 */
int trust_is_placed(const struct trust_owners *owners, const char *path, const struct stat *st)
{
	if (!owners->hidden || !owners->library || trust_is_secure())
		return 0;
	if (S_ISDIR(st->st_mode) && (trust_is_below(owners->library, path) ||
				     (owners->home && trust_is_below(owners->home, path))))
		return 1;
	return trust_owns(owners->nobody, owners->library) &&
	       (trust_is_beside(path, owners->library) ||
		(owners->config &&
		 trust_is_installed(path, owners->config, strlen(owners->config))));
}
