/* SPDX-License-Identifier: BSD-3-Clause */
/* namespaces.c - makes namespaces, and what a process needs in them. */
#include "namespaces.h"

#include <fcntl.h>
#include <net/if.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

static int namespaces_write(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int bad = fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return bad;
}

int namespaces_enter(int flags)
{
	unsigned uid = geteuid(), gid = getegid();
	char map[64];

	if (!uid)
		return unshare(flags);
	if (unshare(flags | CLONE_NEWUSER) || namespaces_write("/proc/self/setgroups", "deny"))
		return -1;
	snprintf(map, sizeof(map), "0 %u 1", uid);
	if (namespaces_write("/proc/self/uid_map", map))
		return -1;
	snprintf(map, sizeof(map), "0 %u 1", gid);
	return namespaces_write("/proc/self/gid_map", map);
}

int namespaces_hide_mounts(void)
{
	return mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL);
}

int namespaces_replace(const char *path, const char *text)
{
	char name[] = "/tmp/coll-namespaces-XXXXXX";
	int fd = mkstemp(name);
	int bad = fd < 0 || namespaces_write(name, text) || fchmod(fd, 0644) ||
		  mount(name, path, NULL, MS_BIND, NULL);

	if (fd >= 0) {
		close(fd);
		unlink(name);
	}
	return bad;
}

int namespaces_loopback(void)
{
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	int bad = fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo);

	if (fd >= 0)
		close(fd);
	return bad;
}

int namespaces_ip(const char *fmt, ...)
{
	char command[160], line[240];
	va_list args;

	va_start(args, fmt);
	vsnprintf(command, sizeof(command), fmt, args);
	va_end(args);
	snprintf(line, sizeof(line), "PATH=$PATH:/sbin:/usr/sbin; ip %s >/dev/null 2>&1", command);
	return system(line);
}
