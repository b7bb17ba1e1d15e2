/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap_harness.h - ranks as child processes, for the tests of the bootstrap; include
 * meet/tree.h and base/error.h before it.
 */
#ifndef TESTS_BOOTSTRAP_HARNESS_H
#define TESTS_BOOTSTRAP_HARNESS_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include "../lib/tap.h"

/* Long enough for a loaded machine; no test waits so long if all is well. */
enum { LONG_MS = 60000, TEXT = 1024 };

/* With TEST_TREE_FAN=2 in the environment even a few ranks over TCP form a deep tree, of two children each. */
__attribute__((constructor)) static void take_shape(void)
{
	const char *fan = getenv("TEST_TREE_FAN");

	if (fan != NULL)
		tree_shape = (struct tree_shape){.flat = 1, .fan = atoi(fan)};
}

/* A connection whose handshake is over. */
__attribute__((unused)) static struct session session_of(uint32_t rank, int fd,
							 const uint8_t key[HANDSHAKE_KEY_SIZE])
{
	struct session session = {.rank = rank, .fd = fd, .family = AF_UNIX};

	memcpy(session.key, key, sizeof(session.key));
	return session;
}

struct rank_args {
	const char *id;   /* or */
	const char *root; /* with */
	const char *key;
	const char *interface_name;
	int maker; /* the rank of the process that made the id */
	int nranks;
	int64_t timeout_ms;
	/* Uses the bootstrap; NULL: no use.  The returned code is the rank's result. */
	int (*work)(struct bootstrap *bootstrap, void *arg);
	void *arg;
};

struct rank_result {
	int32_t code;
	char text[TEXT];
};

struct rank_child {
	pid_t pid;
	int fd;
};

__attribute__((unused)) static void pause_ms(int ms)
{
	poll(NULL, 0, ms);
}

__attribute__((unused)) static struct rank_result rank_run(const struct rank_args *a, int rank)
{
	struct rank_result result = {0};
	struct bootstrap *bootstrap = NULL;

	if (a->id != NULL)
		result.code = bootstrap_open_id(
			&bootstrap,
			&(struct bootstrap_id){.text = a->id, .maker = a->maker ? -1 : 0}, rank,
			a->nranks, a->interface_name, a->timeout_ms);
	else
		result.code = bootstrap_open_root(&bootstrap, a->root, "COLL_ROOT", a->key,
						  a->key != NULL, rank, a->nranks,
						  a->interface_name, a->timeout_ms);
	if (result.code == 0 && a->work != NULL)
		result.code = a->work(bootstrap, a->arg);
	if (result.code)
		snprintf(result.text, sizeof(result.text), "%s", error_text());
	bootstrap_close(bootstrap);
	return result;
}

/* Runs a rank in a process of its own. */
__attribute__((unused)) static struct rank_child rank_spawn(const struct rank_args *a, int rank)
{
	struct rank_child child;
	int ends[2];

	if (pipe(ends) < 0)
		bail_out("pipe: %s", strerror(errno));
	child.pid = fork();
	if (child.pid < 0)
		bail_out("fork: %s", strerror(errno));
	if (child.pid == 0) {
		struct rank_result result = rank_run(a, rank);

		_exit(write(ends[1], &result, sizeof(result)) != sizeof(result));
	}
	close(ends[1]);
	child.fd = ends[0];
	return child;
}

/* An id as one that another process made. */
__attribute__((unused)) static void make_foreign_id(const uint8_t key[BOOTSTRAP_KEY_SIZE],
						    const char *host_port, char *id, size_t size)
{
	struct address_list addresses = {.count = 1};

	if (address_parse(host_port, "address", &addresses.item[0]) ||
	    unique_id_print(key, &addresses, id, size))
		bail_out("%s", error_text());
}

/* Returns the child's result; code -1 if it died without one. */
__attribute__((unused)) static struct rank_result rank_collect(struct rank_child child)
{
	struct rank_result result = {.code = -1};
	int status;

	if (read(child.fd, &result, sizeof(result)) != sizeof(result))
		result = (struct rank_result){.code = -1, .text = "the child died"};
	close(child.fd);
	waitpid(child.pid, &status, 0);
	return result;
}

enum { LONG_PIECE = 1000 }; /* more bytes than a block of the caller's exchange holds */

/* Checks on every rank: several exchanges, the key, the numbers of the ranks. */
__attribute__((unused)) static int check_meeting(struct bootstrap *bootstrap, void *arg)
{
	int n = bootstrap_nranks(bootstrap), me = bootstrap_rank(bootstrap), code, bad = 0;
	uint8_t key[16], keys[64 * 16];
	int64_t in[3] = {me, 7 * me, -me}, out[64 * 3];
	unsigned char piece[LONG_PIECE], pieces[64 * LONG_PIECE];

	(void)arg;
	bootstrap_key(bootstrap, key);
	code = bootstrap_exchange(bootstrap, key, keys, sizeof(key), LONG_MS);
	for (int r = 0; r < n; r++)
		bad += memcmp(keys + 16 * r, key, 16) != 0;
	for (int i = 0; code == 0 && i < 10; i++) {
		in[2] = i;
		code = bootstrap_exchange(bootstrap, in, out, sizeof(in), LONG_MS);
		for (int r = 0; r < n; r++)
			bad += out[3 * r] != r || out[3 * r + 1] != 7 * r || out[3 * r + 2] != i;
	}
	if (code == 0)
		code = bootstrap_exchange(bootstrap, NULL, NULL, 0, LONG_MS);
	for (int i = 0; i < LONG_PIECE; i++)
		piece[i] = (unsigned char)(me + i);
	if (code == 0)
		code = bootstrap_exchange(bootstrap, piece, pieces, LONG_PIECE, LONG_MS);
	for (int r = 0; code == 0 && r < n; r++) {
		bad += bootstrap_peer(bootstrap, r)->pid <= 0;
		for (int i = 0; i < LONG_PIECE; i++)
			bad += pieces[r * LONG_PIECE + i] != (unsigned char)(r + i);
	}
	if (code == 0 && bad)
		code = error_set(COLL_ERR_INTERNAL, "%d wrong values on rank %d", bad, me);
	return code;
}

/* A free port outside the range from which the system chooses ports. */
__attribute__((unused)) static int free_port(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	for (unsigned i = 0;; i++) {
		unsigned port = 12000 + ((unsigned)now.tv_nsec / 16 + 7919 * i) % 20000;
		struct sockaddr_in6 sa = {.sin6_family = AF_INET6,
					  .sin6_port = htons((uint16_t)port)};
		struct sockaddr_in sa4 = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
		int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
		int rc = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&sa, sizeof(sa));

		if (fd >= 0)
			close(fd);
		fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (rc < 0 && errno == EAFNOSUPPORT)
			rc = 0;
		if (rc == 0)
			rc = bind(fd, (struct sockaddr *)&sa4, sizeof(sa4));
		close(fd);
		if (rc == 0)
			return (int)port;
	}
}

__attribute__((unused)) static int have_ipv6(void)
{
	struct sockaddr_in6 sa = {.sin6_family = AF_INET6, .sin6_addr = IN6ADDR_LOOPBACK_INIT};
	int fd = socket(AF_INET6, SOCK_STREAM | SOCK_CLOEXEC, 0);
	int rc = fd < 0 ? -1 : bind(fd, (struct sockaddr *)&sa, sizeof(sa));

	if (fd >= 0)
		close(fd);
	return rc == 0;
}

#endif
