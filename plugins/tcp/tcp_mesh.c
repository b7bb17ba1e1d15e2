/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_mesh.c - connects every rank with every other.
 *
 * Rank j dials each i < j; everything is non-blocking in one epoll loop with one deadline.  Three
 * messages prove both ends to each other: dialler's hello, listener's reply, dialler's ready, each
 * carrying what only holders of host->key can compute from the listener's or dialler's nonce.  A
 * connection counts for the dialler once ready is sent, for the listener once it has come, so a
 * dialler that gave up an attempt leaves nothing that could be taken for a connection.
 */
#include "tcp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#define TCP_MAGIC 0x31544c43u /* "CLT1": changes with this handshake */
#define TCP_MAC   16

enum {
	TCP_GUESTS = 64,        /* accepted, hello still to come */
	TCP_SILENCE_MS = 2000,  /* a guest may say nothing for so long */
	TCP_CONNECT_MS = 3000,  /* then the next address is tried */
	TCP_REPLY_MS = 10000,   /* the same once TCP is connected */
	TCP_PAUSE_MS = 100,     /* before all addresses are tried again */
	TCP_REFUSED_ROUNDS = 3, /* nobody listens there, after so many rounds */
	TCP_KNOCK_MS = 500,     /* between looks whether a silent higher rank still listens */
};

struct tcp_hello {
	uint32_t magic, size, from, to;
	uint8_t mac[TCP_MAC];
};

/* An attempt to reach a lower rank. */
struct tcp_dial {
	enum { TCP_DIAL_PAUSE, TCP_DIAL_CONNECT, TCP_DIAL_REPLY, TCP_DIAL_DONE } stage;
	int fd;
	uint32_t candidate, refused, rounds; /* refused: in this round; rounds: in a row */
	int64_t deadline;
	uint32_t got;
	uint8_t reply[TCP_MAC];
	char text[160]; /* how the last attempt ended */
};

/* Somebody who connected to us. */
struct tcp_guest {
	enum { TCP_GUEST_NONE, TCP_GUEST_HELLO, TCP_GUEST_READY } stage;
	int fd;
	uint32_t got;
	int64_t deadline;
	struct tcp_hello hello;
	uint8_t ready[TCP_MAC];
};

struct tcp_mesh {
	struct tcp *t;
	const struct tcp_listeners *listeners;
	const struct tcp_record *records;
	struct tcp_dial *dial; /* one for each lower rank */
	uint8_t *refused;      /* has the last knock at this rank found nobody? */
	int64_t knock;         /* when to knock next */
	struct tcp_guest *guest;
	uint32_t places; /* room for TCP_GUESTS strangers and all ranks */
	uint32_t joined; /* connections made */
	int64_t deadline;
	int32_t code; /* the first failure that cannot be lived with; its text is in err */
	coll_error_t *err;
};

static void tcp_mesh_fail(struct tcp_mesh *mesh, int32_t code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

static void tcp_mesh_fail(struct tcp_mesh *mesh, int32_t code, const char *fmt, ...)
{
	char text[400];
	va_list args;

	if (mesh->code)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	mesh->code = tcp_error(mesh->err, code, "%s", text);
}

static void tcp_mesh_no_descriptor(struct tcp_mesh *mesh)
{
	tcp_mesh_fail(mesh, COLL_ERR_SYSTEM,
		      "cannot make a socket: %s; %u ranks need about %u descriptors more than are "
		      "open now in each process (ulimit -n)",
		      strerror(errno), mesh->t->nranks,
		      mesh->t->nranks - mesh->joined + TCP_GUESTS);
}

static void tcp_mesh_mac(const struct tcp_mesh *mesh, const char *label, uint32_t from, uint32_t to,
			 uint32_t nonce_of, uint8_t mac[TCP_MAC])
{
	uint8_t text[48] = {0};

	memcpy(text, label, strlen(label));
	memcpy(text + 16, &from, 4);
	memcpy(text + 20, &to, 4);
	memcpy(text + 24, mesh->records[nonce_of].nonce, sizeof(mesh->records[nonce_of].nonce));
	mesh->t->host->mac(mesh->t->host, text, sizeof(text), mac);
}

/* Takes as long for any difference. */
static int tcp_mesh_mac_equal(const uint8_t *a, const uint8_t *b)
{
	uint8_t differ = 0;

	for (int i = 0; i < TCP_MAC; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

static int tcp_mesh_epoll(struct tcp_mesh *mesh, int how, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event event = {.events = events, .data.u64 = data};

	if (!epoll_ctl(mesh->t->epoll_fd, how, fd, &event))
		return 0;
	tcp_mesh_fail(mesh, COLL_ERR_SYSTEM, "epoll_ctl: %s", strerror(errno));
	return -1;
}

/* Reads up to `size` bytes and no more.  1: complete, 0: not yet, -1: failed, errno says how. */
static int tcp_mesh_read(int fd, void *buf, uint32_t size, uint32_t *got)
{
	ssize_t n = recv(fd, (uint8_t *)buf + *got, size - *got, MSG_DONTWAIT);

	if (n == 0) {
		errno = ECONNRESET;
		return -1;
	}
	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	*got += (uint32_t)n;
	return *got == size;
}

/* The socket buffer of a new connection holds so little at once, or the connection is broken. */
static int tcp_mesh_write(int fd, const void *buf, size_t size)
{
	return send(fd, buf, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size ? 0 : -1;
}

/* From now on `fd` is the connection to `peer`. */
static void tcp_mesh_join(struct tcp_mesh *mesh, uint32_t peer, int fd)
{
	struct tcp_conn *conn = &mesh->t->conn[peer];
	int family = AF_INET;
	socklen_t len = sizeof(family);

	getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &family, &len);
	tcp_tune(mesh->t->host, fd, family,
		 tcp_same_host(&mesh->records[mesh->t->rank], &mesh->records[peer]));
	conn->inet = family != AF_UNIX;
	conn->fd = fd;
	/* The peer may send already; here only its leaving matters. */
	conn->events = EPOLLRDHUP;
	tcp_mesh_epoll(mesh, EPOLL_CTL_MOD, fd, EPOLLRDHUP, TCP_EVENT(TCP_EVENT_CONN, peer));
	mesh->joined++;
}

/* ------------------------------------------------------------------- dialling -- */

/* Notes how an attempt ended. */
static void tcp_dial_failed(struct tcp_dial *dial, const struct sockaddr_storage *address,
			    const char *why)
{
	char where[80] = "";

	if (address) {
		tcp_address_text(address, where, sizeof(where));
		snprintf(dial->text, sizeof(dial->text), "%s: %s", where, why);
	} else {
		snprintf(dial->text, sizeof(dial->text), "%s", why);
	}
	if (dial->fd >= 0)
		close(dial->fd);
	dial->fd = -1;
	dial->candidate++;
}

/* All addresses failed: later again, unless nobody ever listened at any of them. */
static void tcp_dial_round_over(struct tcp_mesh *mesh, uint32_t peer)
{
	struct tcp_dial *dial = &mesh->dial[peer];

	if (dial->candidate == 0)
		tcp_mesh_fail(mesh, COLL_ERR_SYSTEM,
			      "rank %u listens at no address that rank %u can reach; see the "
			      "options tcp.interface and tcp.unix",
			      peer, mesh->t->rank);
	dial->rounds = dial->refused == dial->candidate ? dial->rounds + 1 : 0;
	if (dial->rounds >= TCP_REFUSED_ROUNDS)
		tcp_mesh_fail(mesh, COLL_ERR_PEER_LOST, "cannot connect to rank %u: %s", peer,
			      dial->text);
	dial->stage = TCP_DIAL_PAUSE;
	dial->deadline = tcp_now_ms() + TCP_PAUSE_MS;
	dial->candidate = 0;
	dial->refused = 0;
}

/* Begins to connect to the next address that does not fail at once. */
static void tcp_dial_next(struct tcp_mesh *mesh, uint32_t peer)
{
	const struct tcp_record *own = &mesh->records[mesh->t->rank], *to = &mesh->records[peer];
	const coll_host_t *host = mesh->t->host;
	struct tcp_dial *dial = &mesh->dial[peer];
	struct sockaddr_storage address;
	socklen_t len;

	while ((len = tcp_candidate(host, own, to, dial->candidate, &address))) {
		dial->fd = socket(address.ss_family, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
		if (dial->fd < 0 && (errno == EMFILE || errno == ENFILE)) {
			tcp_mesh_no_descriptor(mesh);
			return;
		}
		if (dial->fd >= 0)
			tcp_tune(host, dial->fd, address.ss_family, tcp_same_host(own, to));
		if (dial->fd >= 0 && (!connect(dial->fd, (struct sockaddr *)&address, len) ||
				      errno == EINPROGRESS)) {
			dial->stage = TCP_DIAL_CONNECT;
			dial->deadline = tcp_now_ms() + TCP_CONNECT_MS;
			dial->got = 0;
			tcp_mesh_epoll(mesh, EPOLL_CTL_ADD, dial->fd, EPOLLOUT,
				       TCP_EVENT(TCP_EVENT_DIAL, peer));
			return;
		}
		/* EAGAIN: the listener's queue is full. */
		dial->refused += errno != EAGAIN;
		tcp_dial_failed(dial, &address, strerror(errno));
	}
	tcp_dial_round_over(mesh, peer);
}

/* Connected, or not. */
static void tcp_dial_connected(struct tcp_mesh *mesh, uint32_t peer)
{
	struct tcp_dial *dial = &mesh->dial[peer];
	struct tcp_hello hello = {.magic = TCP_MAGIC, .size = sizeof(hello), .to = peer};
	struct sockaddr_storage address;
	socklen_t len = sizeof(int);
	int failed = 0;

	getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &failed, &len);
	tcp_candidate(mesh->t->host, &mesh->records[mesh->t->rank], &mesh->records[peer],
		      dial->candidate, &address);
	hello.from = mesh->t->rank;
	tcp_mesh_mac(mesh, "tcp hello", hello.from, peer, peer, hello.mac);
	if (!failed && tcp_mesh_write(dial->fd, &hello, sizeof(hello)))
		failed = errno;
	if (failed) {
		dial->refused++;
		tcp_dial_failed(dial, &address, strerror(failed));
		tcp_dial_next(mesh, peer);
		return;
	}
	dial->stage = TCP_DIAL_REPLY;
	/* A local listener that let us in is the right one, however long it takes. */
	dial->deadline =
		address.ss_family == AF_UNIX ? mesh->deadline : tcp_now_ms() + TCP_REPLY_MS;
	snprintf(dial->text, sizeof(dial->text), "connected, but no answer");
	tcp_mesh_epoll(mesh, EPOLL_CTL_MOD, dial->fd, EPOLLIN, TCP_EVENT(TCP_EVENT_DIAL, peer));
}

static void tcp_dial_reply(struct tcp_mesh *mesh, uint32_t peer)
{
	struct tcp_dial *dial = &mesh->dial[peer];
	uint32_t own = mesh->t->rank;
	uint8_t mac[TCP_MAC];
	int done = tcp_mesh_read(dial->fd, dial->reply, sizeof(dial->reply), &dial->got);

	if (done == 0)
		return;
	tcp_mesh_mac(mesh, "tcp reply", own, peer, own, mac);
	if (done > 0 && tcp_mesh_mac_equal(mac, dial->reply)) {
		tcp_mesh_mac(mesh, "tcp ready", own, peer, peer, mac);
		if (!tcp_mesh_write(dial->fd, mac, sizeof(mac))) {
			tcp_mesh_join(mesh, peer, dial->fd);
			dial->stage = TCP_DIAL_DONE;
			dial->fd = -1;
			return;
		}
	}
	tcp_dial_failed(dial, NULL, done > 0 ? "a stranger answered" : "hung up before answering");
	tcp_dial_next(mesh, peer);
}

static void tcp_dial_event(struct tcp_mesh *mesh, uint32_t peer)
{
	if (mesh->dial[peer].stage == TCP_DIAL_CONNECT)
		tcp_dial_connected(mesh, peer);
	else if (mesh->dial[peer].stage == TCP_DIAL_REPLY)
		tcp_dial_reply(mesh, peer);
}

/* --------------------------------------------------------------------- guests -- */

static void tcp_guest_drop(struct tcp_guest *guest)
{
	if (guest->stage != TCP_GUEST_NONE)
		close(guest->fd);
	guest->stage = TCP_GUEST_NONE;
}

static int tcp_guest_check_hello(struct tcp_mesh *mesh, const struct tcp_hello *hello)
{
	const struct tcp *t = mesh->t;
	uint8_t mac[TCP_MAC];

	if (hello->magic != TCP_MAGIC || hello->size != sizeof(*hello) || hello->to != t->rank ||
	    hello->from <= t->rank || hello->from >= t->nranks)
		return 0;
	tcp_mesh_mac(mesh, "tcp hello", hello->from, t->rank, t->rank, mac);
	return tcp_mesh_mac_equal(mac, hello->mac) && t->conn[hello->from].fd < 0;
}

/* 1: go on reading, 0: nothing more now, -1: drop the guest. */
static int tcp_guest_hello(struct tcp_mesh *mesh, struct tcp_guest *guest)
{
	uint8_t mac[TCP_MAC];
	int done = tcp_mesh_read(guest->fd, &guest->hello, sizeof(guest->hello), &guest->got);

	if (done <= 0)
		return done;
	if (!tcp_guest_check_hello(mesh, &guest->hello))
		return -1;
	tcp_mesh_mac(mesh, "tcp reply", guest->hello.from, mesh->t->rank, guest->hello.from, mac);
	if (tcp_mesh_write(guest->fd, mac, sizeof(mac)))
		return -1;
	guest->stage = TCP_GUEST_READY;
	guest->deadline = mesh->deadline;
	guest->got = 0;
	return 1;
}

static int tcp_guest_ready(struct tcp_mesh *mesh, struct tcp_guest *guest)
{
	uint32_t own = mesh->t->rank, from = guest->hello.from;
	uint8_t mac[TCP_MAC];
	int done = tcp_mesh_read(guest->fd, guest->ready, sizeof(guest->ready), &guest->got);

	if (done <= 0)
		return done;
	tcp_mesh_mac(mesh, "tcp ready", from, own, own, mac);
	if (!tcp_mesh_mac_equal(mac, guest->ready) || mesh->t->conn[from].fd >= 0)
		return -1;
	tcp_mesh_join(mesh, from, guest->fd);
	guest->stage = TCP_GUEST_NONE;
	return 0;
}

static void tcp_guest_event(struct tcp_mesh *mesh, struct tcp_guest *guest)
{
	int more = guest->stage != TCP_GUEST_NONE;

	if (guest->stage == TCP_GUEST_HELLO)
		more = tcp_guest_hello(mesh, guest);
	if (more > 0 && guest->stage == TCP_GUEST_READY)
		more = tcp_guest_ready(mesh, guest);
	if (more >= 0)
		return;
	tcp_log(mesh->t->host, COLL_LOG_DEBUG, "dropped a connection that did not prove itself");
	tcp_guest_drop(guest);
}

/* A free place; with too many strangers, that of the one who has been silent for longest. */
static struct tcp_guest *tcp_guest_place(struct tcp_mesh *mesh)
{
	struct tcp_guest *oldest = NULL, *empty = NULL;
	uint32_t strangers = 0;

	for (uint32_t i = 0; i < mesh->places; i++) {
		struct tcp_guest *guest = &mesh->guest[i];

		strangers += guest->stage == TCP_GUEST_HELLO;
		if (guest->stage == TCP_GUEST_NONE)
			empty = guest;
		else if (!oldest || guest->deadline < oldest->deadline)
			oldest = guest;
	}
	if (empty && strangers < TCP_GUESTS)
		return empty;
	tcp_guest_drop(oldest);
	return oldest;
}

static void tcp_guest_accept(struct tcp_mesh *mesh, int listener)
{
	/* Bounded, so that a flood does not keep the timers from running. */
	for (int i = 0; i < TCP_GUESTS; i++) {
		int fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
		struct tcp_guest *guest;

		if (fd < 0 && (errno == EMFILE || errno == ENFILE))
			tcp_mesh_no_descriptor(mesh);
		if (fd < 0)
			return;
		guest = tcp_guest_place(mesh);
		guest->fd = fd;
		guest->stage = TCP_GUEST_HELLO;
		guest->got = 0;
		guest->deadline = tcp_now_ms() + TCP_SILENCE_MS;
		if (tcp_mesh_epoll(mesh, EPOLL_CTL_ADD, fd, EPOLLIN,
				   TCP_EVENT(TCP_EVENT_GUEST, guest - mesh->guest)))
			return;
		tcp_guest_event(mesh, guest);
	}
}

/* ------------------------------------------------------------------- knocking -- */

/*
 * A higher rank that died would never dial us.  Until it is connected with everyone it listens, so
 * a local address where nobody does, twice, is a dead rank's.  (Once may be a rank whose ready is
 * on its way to us and that has finished since.)
 */
static void tcp_knock(struct tcp_mesh *mesh, uint32_t peer)
{
	const struct tcp_record *records = mesh->records;
	struct sockaddr_storage address;
	socklen_t len;
	int fd;

	len = tcp_candidate(mesh->t->host, &records[mesh->t->rank], &records[peer], 0, &address);
	if (!len || address.ss_family != AF_UNIX)
		return;
	fd = socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return;
	if (!connect(fd, (struct sockaddr *)&address, len) || errno != ECONNREFUSED)
		mesh->refused[peer] = 0;
	else if (mesh->refused[peer]++)
		tcp_mesh_fail(mesh, COLL_ERR_PEER_LOST,
			      "rank %u is gone; it ended while ranks were connecting", peer);
	close(fd);
}

static void tcp_knock_all(struct tcp_mesh *mesh, int64_t now)
{
	if (now < mesh->knock)
		return;
	for (uint32_t i = mesh->t->rank + 1; i < mesh->t->nranks; i++)
		if (mesh->t->conn[i].fd < 0)
			tcp_knock(mesh, i);
	mesh->knock = now + TCP_KNOCK_MS;
}

/* ------------------------------------------------------------------- the loop -- */

static void tcp_mesh_timed_out(struct tcp_mesh *mesh)
{
	const struct tcp *t = mesh->t;
	const char *why = "", *join = "";
	char list[200] = "";
	size_t used = 0;

	for (uint32_t i = 0; i < t->nranks; i++) {
		if (i == t->rank || t->conn[i].fd >= 0)
			continue;
		if (used > sizeof(list) - 20) {
			used += (size_t)snprintf(list + used, sizeof(list) - used, " ...");
			break;
		}
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%u", join, i);
		join = ", ";
		if (i < t->rank && !*why)
			why = mesh->dial[i].text;
	}
	tcp_mesh_fail(mesh, COLL_ERR_TIMEOUT,
		      "rank %u: not connected with rank %s after %lld ms%s%s%s", t->rank, list,
		      (long long)t->host->timeout_ms, *why ? " (" : "", why, *why ? ")" : "");
}

/* Does what time demands; returns the milliseconds until it next demands something. */
static int tcp_mesh_timers(struct tcp_mesh *mesh)
{
	int64_t now = tcp_now_ms(), next = now + 100; /* to look at host->aborted */

	for (uint32_t i = 0; i < mesh->t->rank; i++) {
		struct tcp_dial *dial = &mesh->dial[i];

		if (dial->stage == TCP_DIAL_DONE)
			continue;
		if (dial->deadline <= now) {
			if (dial->stage != TCP_DIAL_PAUSE)
				tcp_dial_failed(dial, NULL, "no answer");
			tcp_dial_next(mesh, i);
		}
		next = dial->deadline < next ? dial->deadline : next;
	}
	for (uint32_t i = 0; i < mesh->places; i++)
		if (mesh->guest[i].stage != TCP_GUEST_NONE && mesh->guest[i].deadline <= now)
			tcp_guest_drop(&mesh->guest[i]);
	tcp_knock_all(mesh, now);
	if (mesh->deadline <= now)
		tcp_mesh_timed_out(mesh);
	if (mesh->t->host->aborted(mesh->t->host))
		tcp_mesh_fail(mesh, COLL_ERR_ABORTED, "aborted while connecting");
	next = mesh->deadline < next ? mesh->deadline : next;
	return next > now ? (int)(next - now) : 0;
}

static void tcp_mesh_event(struct tcp_mesh *mesh, uint64_t data)
{
	uint32_t index = (uint32_t)data;

	switch (data >> 32) {
	case TCP_EVENT_LISTENER: tcp_guest_accept(mesh, mesh->listeners->fd[index]); break;
	case TCP_EVENT_GUEST: tcp_guest_event(mesh, &mesh->guest[index]); break;
	case TCP_EVENT_DIAL: tcp_dial_event(mesh, index); break;
	default:
		tcp_mesh_fail(mesh, COLL_ERR_PEER_LOST,
			      "rank %u hung up while others were still connecting", index);
	}
}

static void tcp_mesh_loop(struct tcp_mesh *mesh)
{
	struct epoll_event events[64];

	while (!mesh->code && mesh->joined < mesh->t->nranks - 1) {
		int wait = tcp_mesh_timers(mesh);
		int n = mesh->code ? 0 : epoll_wait(mesh->t->epoll_fd, events, 64, wait);

		if (n < 0 && errno != EINTR)
			tcp_mesh_fail(mesh, COLL_ERR_SYSTEM, "epoll_wait: %s", strerror(errno));
		for (int i = 0; i < n && !mesh->code; i++)
			tcp_mesh_event(mesh, events[i].data.u64);
	}
}

/* Ends all attempts and guests; connections made stay. */
static void tcp_mesh_free(struct tcp_mesh *mesh)
{
	for (uint32_t i = 0; mesh->dial && i < mesh->t->rank; i++)
		if (mesh->dial[i].fd >= 0)
			close(mesh->dial[i].fd);
	for (uint32_t i = 0; mesh->guest && i < mesh->places; i++)
		tcp_guest_drop(&mesh->guest[i]);
	free(mesh->dial);
	free(mesh->guest);
	free(mesh->refused);
}

/* The other ranks' messages may be seen now. */
static void tcp_mesh_listen_to_all(struct tcp_mesh *mesh)
{
	for (uint32_t i = 0; i < mesh->t->nranks; i++) {
		mesh->t->conn[i].events = EPOLLIN;
		if (i != mesh->t->rank)
			tcp_mesh_epoll(mesh, EPOLL_CTL_MOD, mesh->t->conn[i].fd, EPOLLIN,
				       TCP_EVENT(TCP_EVENT_CONN, i));
	}
}

int32_t tcp_mesh_connect(struct tcp *t, const struct tcp_listeners *listeners,
			 const struct tcp_record *records, coll_error_t *err)
{
	struct tcp_mesh mesh = {.t = t, .listeners = listeners, .records = records, .err = err};

	mesh.deadline = tcp_now_ms() + t->host->timeout_ms;
	mesh.places = TCP_GUESTS + t->nranks;
	mesh.dial = calloc(t->rank + 1, sizeof(*mesh.dial));
	mesh.guest = calloc(mesh.places, sizeof(*mesh.guest));
	mesh.refused = calloc(t->nranks, 1);
	mesh.knock = tcp_now_ms() + TCP_KNOCK_MS;
	if (!mesh.dial || !mesh.guest || !mesh.refused)
		tcp_mesh_fail(&mesh, COLL_ERR_NO_MEMORY, "out of memory for connecting");
	for (uint32_t i = 0; mesh.dial && i < t->rank; i++)
		mesh.dial[i].fd = -1;
	for (uint32_t i = 0; i < listeners->count && !mesh.code; i++)
		tcp_mesh_epoll(&mesh, EPOLL_CTL_ADD, listeners->fd[i], EPOLLIN,
			       TCP_EVENT(TCP_EVENT_LISTENER, i));
	tcp_mesh_loop(&mesh);
	if (!mesh.code)
		tcp_mesh_listen_to_all(&mesh);
	tcp_mesh_free(&mesh);
	return mesh.code;
}
