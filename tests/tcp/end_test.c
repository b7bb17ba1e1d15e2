/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * end_test.c - a connection of the tcp plugin whose peer has left or was lost: it keeps the rank neither from sleep nor
 * from closing at once, and the peer learns of the end although another process, as a forked child, holds the socket.
 * A peer that does not read keeps the rank from closing only as long as the close may take.  Both ends of a connection have
 * the kernel look for a peer that has vanished.
 */
#include "../lib/tap.h"
#include "../lib/transport_harness.h"

#include "tcp.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>

enum {
	LONG = 16 << 20,
	UNREAD =
		100
		<< 10, /* bytes that fit into a buffer for sending, but not into one of 4 KiB for receiving */
	SHORT = 100,
	CLOSE_MS = 20000,
	SHORT_CLOSE_MS = 200,
	QUICK_MS = 5000,
	LOST_MS = 20000
};

static const char *const small_ring[] = {"ring", "4K", NULL};
static const char *const no_ring[] = {"ring", "0", NULL};
static const char *const over_tcp[] = {"unix", "no", "interface", "127.0.0.1", NULL};

static const char *const over_paths[] = {"multipath", "yes", NULL};

enum { SHARED_MEMORY, LOCAL_SOCKETS, OVER_TCP, OVER_PATHS, WAYS };

/* Ranks that are apart are on two hosts, as far as they know. */
static const struct {
	const char *const *options;
	const char *name;
	uint32_t apart;
} ways[WAYS] = {[SHARED_MEMORY] = {small_ring, "shared memory", 0},
		[LOCAL_SOCKETS] = {no_ring, "local sockets", 0},
		[OVER_TCP] = {over_tcp, "TCP", 0},
		[OVER_PATHS] = {over_paths, "Multipath TCP", 1}};

/* For the tests of sockets of TCP. */
static const char *const short_tcp[] = {"unix", "no",     "interface", "127.0.0.1", "sndbuf",
					"400K", "rcvbuf", "4K",        NULL};
static const char *const short_paths[] = {"multipath", "yes", "sndbuf", "400K",
					  "rcvbuf",    "4K",  NULL};

static const coll_backend_t *backend;

static int wait_lost(struct harness *h, uint32_t peer)
{
	int64_t deadline = harness_now_ms() + LOST_MS;
	int moved = 0;

	while (!h->lost[peer] && harness_now_ms() < deadline)
		moved = h->transport->progress(h->ep);
	if (!h->lost[peer])
		return harness_fail(h, "the loss of rank %u was not told", peer);
	return moved ? 0 : harness_fail(h, "progress() says that nothing has happened");
}

static void leave(struct harness *h, int64_t timeout_ms)
{
	h->job->backend->close(h->ep, timeout_ms);
	h->ep = NULL;
}

/* Closing takes at least least_ms, and is quick. */
static int leave_timed(struct harness *h, int64_t timeout_ms, int64_t least_ms)
{
	const int64_t begin = harness_now_ms();
	int64_t took;

	leave(h, timeout_ms);
	took = harness_now_ms() - begin;
	return took >= least_ms && took <= QUICK_MS
		       ? 0
		       : harness_fail(h, "close took %d ms", (int)took);
}

/* Messages both ways, until they pass through the ring if there is one. */
static int talk_with(struct harness *h, uint32_t peer)
{
	uint8_t out[SHORT] = {0}, in[SHORT];
	int code = 0;

	for (uint64_t i = 0; i < 8 && !code; i++) {
		struct harness_recv recv = {.peer = peer, .tag = i, .buf = in, .size = SHORT};
		coll_send_t send;

		harness_recv(h, &recv);
		code = harness_send(h, &send, peer, i, out, SHORT) ||
		       harness_wait(h, &send.status) || harness_wait(h, &recv.status);
	}
	return code ? harness_fail(h, "the ranks cannot talk") : 0;
}

static int talk(struct harness *h)
{
	const int code = talk_with(h, 1 - h->host.rank);

	return harness_barrier(h) || code;
}

/* Sends more than any buffer holds, and prepares to sleep until there is room. */
static int send_much(struct harness *h, coll_send_t *send, const uint8_t *bytes)
{
	if (harness_send(h, send, 1 - h->host.rank, 100, bytes, LONG))
		return harness_fail(h, "a message is not taken");
	for (int i = 0; i < 100; i++)
		if (!h->transport->progress(h->ep) && !h->transport->arm(h->ep))
			break;
	return send->status == COLL_IN_PROGRESS
		       ? 0
		       : harness_fail(h, "the send is over: %d", send->status);
}

/* Rank 1 leaves amidst a message to it, which rank 0 has not seen yet. */
static int leave_amidst(struct harness *h, coll_send_t *send, const uint8_t *bytes)
{
	int code = talk(h);

	if (h->host.rank == 0)
		code = code || send_much(h, send, bytes);
	code = harness_barrier(h) || code;
	if (h->host.rank == 1)
		leave(h, 0);
	return code;
}

/* Rank 0 has lost rank 1: it is rid of the message, and sleeps. */
static int sleeps(struct harness *h, const coll_send_t *send)
{
	const struct tcp *t = h->ep;
	int asleep = 0;

	for (int i = 0; i < 100 && !asleep; i++)
		asleep = !h->transport->progress(h->ep) && !h->transport->arm(h->ep);
	if (send->status != COLL_ERR_PEER_LOST)
		return harness_fail(h, "the send ends with %d", send->status);
	if (!asleep)
		return harness_fail(h, "the rank never sleeps");
	if (t->sending || t->failing || t->write_watches || t->rings)
		return harness_fail(h, "counts: %u sending, %u failing, %u watched, %u rings",
				    t->sending, t->failing, t->write_watches, t->rings);
	return 0;
}

static int sleep_after(struct harness *h)
{
	uint8_t *bytes = calloc(1, LONG);
	coll_send_t send;
	int code = leave_amidst(h, &send, bytes);

	if (h->host.rank == 0)
		code = code || wait_lost(h, 1) || sleeps(h, &send);
	free(bytes);
	return harness_barrier(h) || code;
}

/* A rank does not sleep while it has a lost peer to report, or a message to itself. */
static int stay_awake(struct harness *h)
{
	struct tcp *t = h->ep;
	uint8_t byte = 0;
	coll_send_t send;
	int code = talk(h);

	if (h->host.rank == 1 || code)
		return harness_barrier(h) || code;
	harness_send(h, &send, 0, 300, &byte, 1);
	if (!h->transport->arm(h->ep))
		code = harness_fail(h, "it sleeps before a message to itself");
	h->transport->progress(h->ep);
	tcp_break(t, &t->conn[1], EPIPE);
	if (!code && !h->transport->arm(h->ep))
		code = harness_fail(h, "it sleeps before it has told of a lost peer");
	code = code || wait_lost(h, 1);
	return harness_barrier(h) || code;
}

/* Rank 1 leaves, and then rank 2: each is lost once, which the harness verifies. */
static int one_by_one(struct harness *h)
{
	int code = 0;

	for (uint32_t peer = 1; peer < h->host.nranks; peer++) {
		if (h->host.rank == 0)
			code = code || talk_with(h, peer);
		else if (h->host.rank == peer)
			code = talk_with(h, 0);
	}
	code = harness_barrier(h) || code;
	for (uint32_t peer = 1; peer < h->host.nranks; peer++) {
		if (h->host.rank == peer)
			leave(h, 0);
		if (h->host.rank == 0)
			code = code || wait_lost(h, peer);
		code = harness_barrier(h) || code;
	}
	return code;
}

/* Rank 1 is gone, as rank 0 has not seen yet: closing does not wait for it. */
static int close_after(struct harness *h)
{
	uint8_t *bytes = calloc(1, LONG);
	coll_send_t send;
	int code = leave_amidst(h, &send, bytes);

	code = harness_barrier(h) || code;
	if (h->host.rank == 0)
		code = code || leave_timed(h, CLOSE_MS, 0);
	free(bytes);
	return harness_barrier(h) || code;
}

/* Rank 1 reads nothing of a long message: closing waits for it as long as it may, and no longer. */
static int close_amidst(struct harness *h)
{
	uint8_t *bytes = calloc(1, LONG);
	coll_send_t send;
	int code = talk(h);

	if (h->host.rank == 0)
		code = code || send_much(h, &send, bytes) ||
		       leave_timed(h, SHORT_CLOSE_MS, SHORT_CLOSE_MS);
	free(bytes);
	return harness_barrier(h) || code;
}

/* Rank 0 gives up the only message that it has kept back: nothing is left to send. */
static int close_cancelled(struct harness *h)
{
	coll_error_t err = {.size = sizeof(err)};
	uint8_t bytes[SHORT] = {0};
	coll_send_t send = {.header = {.tag = 100, .len = SHORT},
			    .buf = bytes,
			    .peer = 1,
			    .status = COLL_IN_PROGRESS,
			    .memory = COLL_MEM_HOST};
	int code = talk(h);

	if (h->host.rank == 0 && !code) {
		if (h->transport->send_more(h->ep, &send, &err))
			code = harness_fail(h, "a message is not taken");
		h->transport->cancel(h->ep, &send);
		code = code || leave_timed(h, CLOSE_MS, 0);
	}
	return harness_barrier(h) || code;
}

/* Holds the connections of this process, as a child does that it has forked. */
static void hold_sockets(void)
{
	struct sockaddr_storage peer;

	for (int fd = 3; fd < 64; fd++) {
		socklen_t size = sizeof(peer);

		if (!getpeername(fd, (struct sockaddr *)&peer, &size) && dup2(fd, fd + 100) < 0)
			bail_out("dup: %s", strerror(errno));
	}
}

/* Rank 1 closes. */
static int held_at_close(struct harness *h)
{
	int code = talk(h);

	if (h->host.rank == 1) {
		hold_sockets();
		leave(h, 0);
	} else {
		code = code || wait_lost(h, 1);
	}
	return harness_barrier(h) || code;
}

/* Rank 0 refuses a message of rank 1, and so loses it. */
static int held_at_loss(struct harness *h)
{
	struct pollfd fd = {.fd = h->transport->wait_fd(h->ep), .events = POLLIN};
	uint8_t bytes[SHORT] = {0};
	coll_send_t send;
	int code = talk(h);

	if (h->host.rank == 0) {
		hold_sockets();
		h->refuse_peer = 1;
	}
	code = harness_barrier(h) || code;
	if (h->host.rank == 1 && harness_send(h, &send, 0, 200, bytes, SHORT))
		code = harness_fail(h, "a message is not taken");
	code = code || wait_lost(h, 1 - h->host.rank);
	if (!code && poll(&fd, 1, 0) > 0)
		code = harness_fail(h, "the lost connection wakes the rank for ever");
	return harness_barrier(h) || code;
}

/* Rank 1 leaves without having read the last bytes, which rank 0 has handed to the kernel. */
static int close_unread(struct harness *h)
{
	uint8_t *bytes = calloc(1, UNREAD);
	coll_send_t send = {.status = COLL_SUCCESS};
	int code = talk(h);

	if (h->host.rank == 0 && !code && harness_send(h, &send, 1, 100, bytes, UNREAD))
		code = harness_fail(h, "a message is not taken");
	if (!code && send.status)
		code = harness_fail(h, "the kernel does not take the message: %d", send.status);
	code = harness_barrier(h) || code;
	if (h->host.rank == 1)
		leave(h, 0);
	code = harness_barrier(h) || code;
	if (h->host.rank == 0)
		code = code || leave_timed(h, CLOSE_MS, 0);
	free(bytes);
	return harness_barrier(h) || code;
}

/* Both ends probe a silent peer at the same times. */
static int watched(struct harness *h)
{
	const struct tcp *t = h->ep;
	const int fd = t->conn[1 - h->host.rank].fd;
	int on = 0, idle = 0, code = 0;
	socklen_t size = sizeof(on);

	if (getsockopt(fd, SOL_SOCKET, SO_KEEPALIVE, &on, &size) || !on)
		code = harness_fail(h, "the kernel does not look for a peer that has vanished");
	if (!code && !getsockopt(fd, IPPROTO_TCP, TCP_KEEPIDLE, &idle, &size) && idle != 10)
		code = harness_fail(h, "it begins after %d s, not 10", idle);
	return harness_barrier(h) || code;
}

/* A stranger connects to a listener of Multipath TCP.  Returns the socket, or -1. */
static int stranger(int listener)
{
	struct sockaddr_storage at;
	socklen_t size = sizeof(at);
	int fd = -1;

	if (!getsockname(listener, (struct sockaddr *)&at, &size))
		fd = socket(at.ss_family, SOCK_STREAM, 0);
	if (fd >= 0 && connect(fd, (struct sockaddr *)&at, size)) {
		close(fd);
		fd = -1;
	}
	return fd;
}

/* The rank closes the connections of strangers, so that they neither fill the listener's queue nor keep it awake. */
static int turned_away(struct harness *h)
{
	const struct tcp *t = h->ep;
	const int64_t deadline = harness_now_ms() + LOST_MS;
	struct pollfd wait = {.fd = h->transport->wait_fd(h->ep), .events = POLLIN};
	int code = talk(h);

	if (!code && !t->paths.count)
		code = harness_fail(h, "no listener is kept");
	for (int i = 0; !code && i < t->paths.count; i++) {
		struct pollfd end = {.fd = stranger(t->paths.fd[i]), .events = POLLIN};

		if (end.fd < 0)
			code = harness_fail(h, "cannot connect: %s", strerror(errno));
		else if (poll(&wait, 1, QUICK_MS) != 1)
			code = harness_fail(h, "a sleeping rank does not hear of a stranger");
		while (!code && !poll(&end, 1, 0) && harness_now_ms() < deadline)
			h->transport->progress(h->ep);
		if (!code && !end.revents)
			code = harness_fail(h, "a stranger's connection stays");
		if (end.fd >= 0)
			close(end.fd);
	}
	if (!code && poll(&wait, 1, 0))
		code = harness_fail(h, "a stranger keeps the rank awake");
	return harness_barrier(h) || code;
}

/* Returns why this host has no connection of Multipath TCP to itself; NULL: it has. */
static const char *no_paths(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, SOCKET_MULTIPATH), there = 0, one = 1;
	struct ifaddrs *all = NULL;

	/* Linux 5.17 is the first that takes this. */
	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		there = errno;
	if (fd >= 0)
		close(fd);
	if (there)
		return strerror(there);
	if (getifaddrs(&all))
		return strerror(errno);
	for (const struct ifaddrs *at = all; at; at = at->ifa_next)
		there |= at->ifa_addr && at->ifa_addr->sa_family == AF_INET &&
			 at->ifa_flags & IFF_UP && !(at->ifa_flags & IFF_LOOPBACK);
	freeifaddrs(all);
	return there ? NULL : "the host has a loopback device only";
}

static void check_way(harness_fn run, uint32_t nranks, int way, const char *const *options,
		      const char *what)
{
	const char *why = ways[way].apart ? no_paths() : NULL;
	struct harness_job job = {.backend = backend,
				  .nranks = nranks,
				  .options = options,
				  .apart = ways[way].apart,
				  .run = run};
	char name[120];

	snprintf(name, sizeof(name), "%s, over %s", what, ways[way].name);
	if (why)
		skip(1, "%s: %s", name, why);
	else
		harness_check(&job, name);
}

static void check(harness_fn run, uint32_t nranks, const char *what)
{
	for (int way = 0; way < WAYS; way++)
		check_way(run, nranks, way, ways[way].options, what);
}

int main(void)
{
	backend = harness_load("tcp");
	if (!backend)
		bail_out("cannot load the tcp plugin");
	check(sleep_after, 2, "a rank that has lost its only peer sleeps");
	check(stay_awake, 2, "a rank with something to tell stays awake");
	check(one_by_one, 3, "ranks that leave one by one are lost once each");
	check(close_after, 2, "a rank whose peer has left closes at once");
	check(close_amidst, 2, "a rank whose peer does not read closes in time");
	check(close_cancelled, 2, "a rank that has cancelled what it kept back closes at once");
	check(held_at_close, 2, "a rank that closes is lost, though its socket is held");
	check(held_at_loss, 2, "a rank that is refused learns it, though the socket is held");
	check_way(close_unread, 2, OVER_TCP, short_tcp,
		  "a rank with bytes that none will read closes at once");
	check_way(close_unread, 2, OVER_PATHS, short_paths,
		  "a rank with bytes that none will read closes at once");
	check_way(watched, 2, OVER_TCP, over_tcp, "both ends look for a peer that has vanished");
	check_way(watched, 2, OVER_PATHS, over_paths,
		  "both ends look for a peer that has vanished");
	check_way(turned_away, 2, OVER_PATHS, over_paths,
		  "a rank closes the connections of strangers");
	return done_testing();
}
