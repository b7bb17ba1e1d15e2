/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_dial.c - how a rank reaches the lower ranks, and notices that a higher one is gone. */
#include "tcp_mesh.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

/* Keeps for a later text how the attempt stands; returns the address's family. */
static int tcp_dial_note(struct tcp_mesh *mesh, uint32_t peer, const char *what)
{
	struct tcp_dial *dial = &mesh->dial[peer];
	struct sockaddr_storage address;
	char where[80];

	tcp_candidate(mesh->t->host, &mesh->records[mesh->t->rank], &mesh->records[peer],
		      dial->candidate, &address);
	tcp_address_text(&address, where, sizeof(where));
	snprintf(dial->text, sizeof(dial->text), "%s: %s", where, what);
	return address.ss_family;
}

/* Ends an attempt; the next one is for the next address. */
static void tcp_dial_failed(struct tcp_mesh *mesh, uint32_t peer, const char *why)
{
	struct tcp_dial *dial = &mesh->dial[peer];

	tcp_dial_note(mesh, peer, why);
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
	dial->deadline = clock_now_ms() + TCP_PAUSE_MS;
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
			dial->deadline = clock_now_ms() + TCP_CONNECT_MS;
			dial->got = 0;
			tcp_mesh_epoll(mesh, EPOLL_CTL_ADD, dial->fd, EPOLLOUT,
				       TCP_EVENT(TCP_EVENT_DIAL, peer));
			return;
		}
		/* EAGAIN: the listener's queue is full. */
		dial->refused += errno != EAGAIN;
		tcp_dial_failed(mesh, peer, strerror(errno));
	}
	tcp_dial_round_over(mesh, peer);
}

/* Connected, or not. */
static void tcp_dial_connected(struct tcp_mesh *mesh, uint32_t peer)
{
	struct tcp_dial *dial = &mesh->dial[peer];
	struct tcp_hello hello = {.magic = TCP_MAGIC, .size = sizeof(hello), .to = peer};
	socklen_t len = sizeof(int);
	int failed = 0;

	getsockopt(dial->fd, SOL_SOCKET, SO_ERROR, &failed, &len);
	hello.from = mesh->t->rank;
	tcp_mesh_mac(mesh, "tcp hello", hello.from, peer, peer, hello.mac);
	if (!failed && tcp_mesh_write(dial->fd, &hello, sizeof(hello)))
		failed = errno;
	if (failed) {
		dial->refused++;
		tcp_dial_failed(mesh, peer, strerror(failed));
		tcp_dial_next(mesh, peer);
		return;
	}
	dial->stage = TCP_DIAL_REPLY;
	dial->deadline = clock_now_ms() + TCP_REPLY_MS;
	/* A local listener that let us in is the right one, however long it takes. */
	if (tcp_dial_note(mesh, peer, "connected, but no answer") == AF_UNIX)
		dial->deadline = mesh->deadline;
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
	tcp_dial_failed(mesh, peer,
			done > 0 ? "a process without the communicator's key answered"
				 : "hung up before answering");
	tcp_dial_next(mesh, peer);
}

void tcp_dial_event(struct tcp_mesh *mesh, uint32_t peer)
{
	if (mesh->dial[peer].stage == TCP_DIAL_CONNECT)
		tcp_dial_connected(mesh, peer);
	else if (mesh->dial[peer].stage == TCP_DIAL_REPLY)
		tcp_dial_reply(mesh, peer);
}

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

int64_t tcp_dial_timers(struct tcp_mesh *mesh, int64_t now, int64_t next)
{
	for (uint32_t i = 0; i < mesh->t->rank; i++) {
		struct tcp_dial *dial = &mesh->dial[i];

		if (dial->stage == TCP_DIAL_DONE)
			continue;
		if (dial->deadline <= now) {
			if (dial->stage != TCP_DIAL_PAUSE)
				tcp_dial_failed(mesh, i, "no answer");
			tcp_dial_next(mesh, i);
		}
		next = dial->deadline < next ? dial->deadline : next;
	}
	tcp_knock_all(mesh, now);
	return next;
}
