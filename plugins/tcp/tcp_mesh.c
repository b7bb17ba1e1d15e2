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
#include "tcp_mesh.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

void tcp_mesh_fail(struct tcp_mesh *mesh, int32_t code, const char *fmt, ...)
{
	char text[400];
	va_list args;

	if (mesh->code)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	mesh->code = error_fill(mesh->err, code, "%s", text);
}

void tcp_mesh_no_descriptor(struct tcp_mesh *mesh)
{
	tcp_mesh_fail(mesh, COLL_ERR_SYSTEM,
		      "cannot make a socket: %s; %u ranks need about %u descriptors more than are "
		      "open now in each process (ulimit -n)",
		      strerror(errno), mesh->t->nranks,
		      mesh->t->nranks - mesh->joined + TCP_GUESTS);
}

void tcp_mesh_mac(const struct tcp_mesh *mesh, const char *label, uint32_t from, uint32_t to,
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
int tcp_mesh_mac_equal(const uint8_t *a, const uint8_t *b)
{
	uint8_t differ = 0;

	for (int i = 0; i < TCP_MAC; i++)
		differ |= a[i] ^ b[i];
	return !differ;
}

int tcp_mesh_epoll(struct tcp_mesh *mesh, int how, int fd, uint32_t events, uint64_t data)
{
	struct epoll_event event = {.events = events, .data.u64 = data};

	if (!epoll_ctl(mesh->t->epoll_fd, how, fd, &event))
		return 0;
	tcp_mesh_fail(mesh, COLL_ERR_SYSTEM, "epoll_ctl: %s", strerror(errno));
	return -1;
}

/* Reads up to `size` bytes and no more.  1: complete, 0: not yet, -1: failed, errno says how. */
int tcp_mesh_read(int fd, void *buf, uint32_t size, uint32_t *got)
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
int tcp_mesh_write(int fd, const void *buf, size_t size)
{
	return send(fd, buf, size, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)size ? 0 : -1;
}

void tcp_mesh_join(struct tcp_mesh *mesh, uint32_t peer, int fd)
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
	int64_t now = clock_now_ms(), next = now + 100; /* to look at host->aborted */

	next = tcp_dial_timers(mesh, now, next);
	tcp_guest_timers(mesh, now);
	if (mesh->deadline <= now)
		tcp_mesh_timed_out(mesh);
	if (mesh->left && mesh->grace <= now)
		tcp_mesh_fail(mesh, COLL_ERR_PEER_LOST,
			      "rank %u hung up while others were still connecting", mesh->left - 1);
	if (mesh->t->host->aborted(mesh->t->host))
		tcp_mesh_fail(mesh, COLL_ERR_ABORTED, "aborted while connecting");
	next = mesh->deadline < next ? mesh->deadline : next;
	return next > now ? (int)(next - now) : 0;
}

/* A connected rank hung up: likely it has failed because of another, which is the one to name. */
static void tcp_mesh_left(struct tcp_mesh *mesh, uint32_t peer)
{
	epoll_ctl(mesh->t->epoll_fd, EPOLL_CTL_DEL, mesh->t->conn[peer].fd, NULL);
	if (mesh->left)
		return;
	mesh->left = peer + 1;
	mesh->grace = clock_now_ms() + TCP_GRACE_MS;
}

static void tcp_mesh_event(struct tcp_mesh *mesh, uint64_t data)
{
	uint32_t index = (uint32_t)data;

	switch (data >> 32) {
	case TCP_EVENT_LISTENER: tcp_guest_accept(mesh, mesh->listeners->fd[index]); break;
	case TCP_EVENT_GUEST: tcp_guest_event(mesh, &mesh->guest[index]); break;
	case TCP_EVENT_DIAL: tcp_dial_event(mesh, index); break;
	default: tcp_mesh_left(mesh, index);
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
		/* One that hung up is not in there any more; then progress() will tell it. */
		epoll_ctl(mesh->t->epoll_fd, EPOLL_CTL_DEL, mesh->t->conn[i].fd, NULL);
		mesh->t->conn[i].events = EPOLLIN;
		if (i != mesh->t->rank)
			tcp_mesh_epoll(mesh, EPOLL_CTL_ADD, mesh->t->conn[i].fd, EPOLLIN,
				       TCP_EVENT(TCP_EVENT_CONN, i));
	}
}

int32_t tcp_mesh_connect(struct tcp *t, const struct tcp_listeners *listeners,
			 const struct tcp_record *records, coll_error_t *err)
{
	struct tcp_mesh mesh = {.t = t, .listeners = listeners, .records = records, .err = err};

	mesh.deadline = clock_now_ms() + t->host->timeout_ms;
	mesh.places = TCP_GUESTS + t->nranks;
	mesh.dial = calloc(t->rank + 1, sizeof(*mesh.dial));
	mesh.guest = calloc(mesh.places, sizeof(*mesh.guest));
	mesh.refused = calloc(t->nranks, 1);
	mesh.knock = clock_now_ms() + TCP_KNOCK_MS;
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
