/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_guest.c - who connects to a rank: higher ranks, once proven, and strangers. */
#include "tcp_mesh.h"

#include <errno.h>
#include <sys/epoll.h>
#include <unistd.h>

void tcp_guest_drop(struct tcp_guest *guest)
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

void tcp_guest_event(struct tcp_mesh *mesh, struct tcp_guest *guest)
{
	int more = guest->stage != TCP_GUEST_NONE;

	if (guest->stage == TCP_GUEST_HELLO)
		more = tcp_guest_hello(mesh, guest);
	if (more > 0 && guest->stage == TCP_GUEST_READY)
		more = tcp_guest_ready(mesh, guest);
	if (more >= 0)
		return;
	kit_log(mesh->t->host, COLL_LOG_DEBUG, "dropped a connection that did not prove itself");
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

void tcp_guest_accept(struct tcp_mesh *mesh, int listener)
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
		guest->deadline = clock_now_ms() + TCP_SILENCE_MS;
		if (tcp_mesh_epoll(mesh, EPOLL_CTL_ADD, fd, EPOLLIN,
				   TCP_EVENT(TCP_EVENT_GUEST, guest - mesh->guest)))
			return;
		tcp_guest_event(mesh, guest);
	}
}

void tcp_guest_timers(struct tcp_mesh *mesh, int64_t now)
{
	for (uint32_t i = 0; i < mesh->places; i++)
		if (mesh->guest[i].stage != TCP_GUEST_NONE && mesh->guest[i].deadline <= now)
			tcp_guest_drop(&mesh->guest[i]);
}
