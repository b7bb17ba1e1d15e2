/* SPDX-License-Identifier: BSD-3-Clause */
/* tree_link.c - the connection of a rank to its parent or to a child, and the keys of all its connections. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/tree.h"

/* ------------------------------------------------------------------------- keys -- */

static void link_mac(const void *user, const void *data, size_t len,
		     uint8_t mac[HANDSHAKE_MAC_SIZE])
{
	siphash128(((const struct tree *)user)->shared, data, len, mac);
}

static void link_log(const void *user, int level, const char *text)
{
	(void)user;
	log_line(level, NULL, text);
}

static void link_tune(const void *user, int fd, int family, int local)
{
	(void)user;
	(void)family;
	(void)local;
	socket_no_delay(fd);
}

void tree_set_handshake(struct tree *t)
{
	t->handshake = (struct handshake){.magic = {'C', 'O', 'L', 'L', 'B', 'O', 'O', 'T'},
					  .version = TREE_VERSION,
					  .name = "bootstrap",
					  .rank = (uint32_t)t->bootstrap.rank,
					  .nranks = (uint32_t)t->bootstrap.nranks,
					  .any_order = 1,
					  .mac = link_mac,
					  .log = link_log,
					  .tune = link_tune,
					  .user = t};
}

static void link_derive_key(const struct tree *t, const char label[16],
			    const uint8_t salt[HANDSHAKE_SALT_SIZE],
			    uint8_t key[BOOTSTRAP_KEY_SIZE])
{
	uint8_t text[16 + HANDSHAKE_SALT_SIZE];

	memcpy(text, label, 16);
	memcpy(text + 16, salt, HANDSHAKE_SALT_SIZE);
	siphash128(t->shared, text, sizeof(text), key);
}

void tree_derive_keys(struct tree *t, const uint8_t salt[HANDSHAKE_SALT_SIZE])
{
	link_derive_key(t, "libcoll meeting", salt, t->bootstrap.key);
	link_derive_key(t, "libcoll bodies ", salt, t->body_key);
}

/* ------------------------------------------------------------------------ errors -- */

int tree_link_lost(const struct tree *t, const struct tree_link *link, int err)
{
	const struct bootstrap_peer *peer = &t->bootstrap.peers[link->rank];
	const struct bootstrap_failure *failure = t->failure;
	char who[96], why[SOCKET_WHY_SIZE];

	/* The rank has said why it ends. */
	if (failure != NULL && failure->code && failure->rank == link->rank)
		return bootstrap_failed(failure);
	if (t->bootstrap.met)
		snprintf(who, sizeof(who), "pid %d on %s", (int)peer->pid, peer->host);
	else
		snprintf(who, sizeof(who), "%s", link->address);
	return error_set(COLL_ERR_PEER_LOST, "rank %d (%s) was lost during the rendezvous: %s",
			 link->rank, who, socket_why(err, why));
}

static int link_forged(const struct tree *t, const struct tree_link *link)
{
	return error_set(
		COLL_ERR_PEER_LOST,
		"rank %d (%s) was lost during the rendezvous: a message from it in round "
		"%u has the wrong MAC, so bytes of the connection were changed, dropped, "
		"repeated or reordered on the way; look for a proxy, a faulty device or an "
		"attacker between the hosts of rank %d and rank %d",
		link->rank, link->address, t->round, link->rank, t->bootstrap.rank);
}

/* ---------------------------------------------------------------- send and receive -- */

void tree_link_open(struct tree *t, struct tree_link *link, int rank, int fd, int is_parent,
		    const uint8_t key[HANDSHAKE_KEY_SIZE])
{
	link->rank = rank;
	link->fd = fd;
	link->place = -1;
	tree_stream_init(&link->stream, is_parent, key, t->body_key);
}

ssize_t tree_link_write(struct tree *t, const struct tree_link *link, const struct tree_frame *head,
			const void *body, size_t offset)
{
	size_t skip = offset > sizeof(*head) ? offset - sizeof(*head) : 0;
	struct iovec part[2] = {
		{.iov_base = (char *)head + offset, .iov_len = sizeof(*head) - offset},
		{.iov_base = body != NULL ? (char *)body + skip : NULL,
		 .iov_len = (size_t)head->len - skip}};
	int first = offset < sizeof(*head) ? 0 : 1;
	struct msghdr msg = {.msg_iov = part + first, .msg_iovlen = (size_t)(2 - first)};
	ssize_t n = sendmsg(link->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return 0;
	t->bytes += n > 0 ? (uint64_t)n : 0;
	return n;
}

int tree_link_send(struct tree *t, struct tree_link *link, struct tree_frame head, const void *body)
{
	tree_seal_body(t->body_key, &head, body);
	tree_seal(&link->stream, &head);
	/* A socket's buffer has space for a kilobyte, unless the rank does not read. */
	if (tree_link_write(t, link, &head, body, 0) != (ssize_t)(sizeof(head) + head.len))
		return 0;
	link->stream.sent++;
	return 1;
}

int tree_link_receive(struct tree *t, struct tree_link *link, tree_take_fn take_head,
		      tree_take_fn take_frame)
{
	enum tree_event event;
	uint8_t scrap[4096];
	size_t room;
	void *at = tree_stream_space(&link->stream, scrap, sizeof(scrap), &room);
	ssize_t n = socket_read(link->fd, at, room);
	int code = 0;

	if (n < 0) {
		link->ended = 1;
		return tree_link_lost(t, link, errno);
	}
	link->received += (uint64_t)n;
	t->bytes += (uint64_t)n;
	event = tree_stream_take(&link->stream, (size_t)n);
	if (event == TREE_HEAD) {
		code = take_head(t, link);
		if (code)
			return code;
		event = tree_stream_take(&link->stream, 0);
	}
	if (event == TREE_FORGED)
		return link_forged(t, link);
	return event == TREE_WHOLE ? take_frame(t, link) : 0;
}
