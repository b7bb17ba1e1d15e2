/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * name_server_test.c - a name server that does not answer holds up the start for init_timeout, not for the time
 * that the system's resolver takes.
 *
 * The test gets a name server of its own, on 127.0.0.1 in a network namespace, and an /etc/resolv.conf of its
 * own by a mount; where it may not make namespaces, it is skipped.
 */
#include "../lib/namespaces.h"
#include "../lib/ranks.h"

#include <arpa/inet.h>
#include <dirent.h>
#include <netinet/in.h>
#include <pthread.h>

/* The resolver's patience (30 s, twice), the library's, and a bound between the two. */
enum { PATIENCE_MS = 700, LATE_S = 20 };

#define NAME "no-such-host.example"

/* Returns the name server's socket, or -1. */
static int begin_server(void)
{
	struct sockaddr_in local = {.sin_family = AF_INET,
				    .sin_port = htons(53),
				    .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd;

	if (namespaces_enter(CLONE_NEWNS | CLONE_NEWNET) || namespaces_hide_mounts() ||
	    namespaces_loopback() ||
	    namespaces_replace("/etc/resolv.conf",
			       "nameserver 127.0.0.1\noptions timeout:30 attempts:2\n"))
		return -1;
	if (!access("/etc/nsswitch.conf", F_OK) &&
	    namespaces_replace("/etc/nsswitch.conf", "hosts: files dns\n"))
		return -1;
	fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
	if (fd < 0 || bind(fd, (struct sockaddr *)&local, sizeof(local)))
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

static void *end_at_once(void *unused)
{
	return unused;
}

static void test_silent(void)
{
	int server = begin_server(), before;
	double took, until;
	pthread_t thread;

	if (server < 0) {
		skip(1, "no namespaces for a name server of the test's own: %s", strerror(errno));
		return;
	}
	setenv("COLL_ROOT", NAME ":4711", 1);
	setenv("COLL_RANK", "1", 1);
	setenv("COLL_WORLD_SIZE", "2", 1);
	setenv("COLL_KEY", "key", 1);
	/* With the first thread of a process ThreadSanitizer starts one of its own. */
	if (pthread_create(&thread, NULL, end_at_once, NULL) || pthread_join(thread, NULL))
		bail_out("no thread");
	before = threads();
	is_int(start(&took), COLL_ERR_TIMEOUT, "the name server does not answer");
	ok(strstr(coll_get_last_error(NULL),
		  "'" NAME ":4711': timed out: the name server has not answered "
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
	unsetenv("COLL_ROOT");
	unsetenv("COLL_RANK");
	unsetenv("COLL_WORLD_SIZE");
	setenv("RANK", "1", 1);
	setenv("WORLD_SIZE", "2", 1);
	setenv("MASTER_ADDR", "no host", 1);
	setenv("MASTER_PORT", "1234", 1);
	start(&took);
	ok(strstr(coll_get_last_error(NULL), "(host: MASTER_ADDR; port: a hash of") != NULL,
	   "the variables that give the address: %s", coll_get_last_error(NULL));
	unsetenv("RANK");
	setenv("COLL_RANK", "1", 1);
	setenv("COLL_WORLD_SIZE", "2", 1);
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
