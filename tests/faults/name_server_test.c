/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * name_server_test.c - a name server that does not answer holds up the start for init_timeout, not for the time
 * that the system's resolver takes.
 *
 * The test gets a name server of its own, on 127.0.0.1 in a network namespace, and an /etc/resolv.conf of its
 * own by a mount; where it may not make namespaces, it is skipped.
 */
#include "../lib/ranks.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <fcntl.h>
#include <net/if.h>
#include <netinet/in.h>
#include <sched.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>

/* The resolver's patience (30 s, twice), the library's, and a bound between the two. */
enum { PATIENCE_MS = 700, LATE_S = 20 };

#define NAME "no-such-host.example"

static int write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	int bad = fd < 0 || write(fd, text, strlen(text)) != (ssize_t)strlen(text);

	if (fd >= 0)
		close(fd);
	return bad;
}

/* A user without rights becomes root of a user namespace. */
static int enter_namespaces(void)
{
	int flags = CLONE_NEWNS | CLONE_NEWNET;
	unsigned uid = geteuid(), gid = getegid();
	char map[64];

	if (!uid)
		return unshare(flags);
	if (unshare(flags | CLONE_NEWUSER) || write_text("/proc/self/setgroups", "deny"))
		return -1;
	snprintf(map, sizeof(map), "0 %u 1", uid);
	if (write_text("/proc/self/uid_map", map))
		return -1;
	snprintf(map, sizeof(map), "0 %u 1", gid);
	return write_text("/proc/self/gid_map", map);
}

/* Puts a file with this text in the place of `path`. */
static int replace(const char *path, const char *text)
{
	char name[] = "/tmp/coll-name-server-XXXXXX";
	int fd = mkstemp(name);
	int bad = fd < 0 || write_text(name, text) || fchmod(fd, 0644) ||
		  mount(name, path, NULL, MS_BIND, NULL);

	if (fd >= 0) {
		close(fd);
		unlink(name);
	}
	return bad;
}

/* Returns the name server's socket, or -1. */
static int begin_server(void)
{
	struct sockaddr_in local = {.sin_family = AF_INET,
				    .sin_port = htons(53),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	struct ifreq lo = {.ifr_name = "lo", .ifr_flags = IFF_UP | IFF_RUNNING};
	int fd;

	if (enter_namespaces() || mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    replace("/etc/resolv.conf", "nameserver 127.0.0.1\noptions timeout:30 attempts:2\n"))
		return -1;
	if (!access("/etc/nsswitch.conf", F_OK) &&
	    replace("/etc/nsswitch.conf", "hosts: files dns\n"))
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || ioctl(fd, SIOCSIFFLAGS, &lo) ||
	    bind(fd, (struct sockaddr *)&local, sizeof(local)))
		return -1;
	return fd;
}

/* Answers every query that has come: there is no such host. */
static void answer(int fd)
{
	struct sockaddr_in from;
	socklen_t len = sizeof(from);
	char packet[600];
	ssize_t n;

	while ((n = recvfrom(fd, packet, sizeof(packet), MSG_DONTWAIT, (struct sockaddr *)&from,
			     &len)) > 3) {
		packet[2] = (char)0x81;
		packet[3] = (char)0x83;
		sendto(fd, packet, (size_t)n, 0, (struct sockaddr *)&from, len);
		len = sizeof(from);
	}
}

static int threads(void)
{
	DIR *d = opendir("/proc/self/task");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

static coll_result_t start(double *took)
{
	coll_config_t config;
	coll_comm_t comm = NULL;
	double from = ranks_now();
	coll_result_t code;

	coll_config_init(&config, sizeof(config));
	config.init_timeout_ms = PATIENCE_MS;
	code = coll_comm_init_env(&comm, &config);
	*took = ranks_now() - from;
	return code;
}

static void test_silent(void)
{
	int server = begin_server(), before = threads();
	double took, until;

	if (server < 0) {
		skip(1, "no namespaces for a name server of the test's own: %s", strerror(errno));
		return;
	}
	setenv("COLL_ROOT", NAME ":4711", 1);
	setenv("COLL_RANK", "1", 1);
	setenv("COLL_WORLD_SIZE", "2", 1);
	setenv("COLL_KEY", "key", 1);
	is_int(start(&took), COLL_ERR_TIMEOUT, "the name server does not answer");
	ok(strstr(coll_get_last_error(NULL), "'" NAME ":4711': the name server has not answered "
					     "within 0.7 s: give the address of the host") != NULL,
	   "the text: %s", coll_get_last_error(NULL));
	ok(took < LATE_S, "the start has taken %.1f s", took);
	answer(server);
	for (until = ranks_now() + LATE_S; threads() > before && ranks_now() < until;) {
		answer(server);
		ranks_sleep(0.02);
	}
	is_int(threads(), before, "the thread ends with the answer");
	close(server);
	setenv("COLL_ROOT", "localhost:4711", 1);
	start(&took);
	ok(strstr(coll_get_last_error(NULL), "rank 0") != NULL, "a name in /etc/hosts is found: %s",
	   coll_get_last_error(NULL));
}

int main(void)
{
	test_silent();
	return done_testing();
}
