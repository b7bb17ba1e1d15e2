/* SPDX-License-Identifier: BSD-3-Clause */
/* star.c - meeting over TCP: from a unique id or a root address to a boot; frames. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "bootstrap/star.h"
#include "base/error.h"
#include "base/log.h"

int tcp_lost_error(const struct star *t, int rank, int err)
{
	const struct bootstrap_peer *peer = &t->bootstrap.peers[rank];
	char who[96], why[SOCKET_WHY_SIZE];

	if (peer->host[0] != '\0')
		snprintf(who, sizeof(who), "pid %d on %s", (int)peer->pid, peer->host);
	else
		snprintf(who, sizeof(who), "%s",
			 t->bootstrap.rank == 0 ? t->conns[rank].addr : t->root_addr);
	return error_set(COLL_ERR_PEER_LOST, "rank %d (%s) was lost during the rendezvous: %s",
			 rank, who, socket_why(err, why));
}

ssize_t tcp_write_frame(int fd, const struct tcp_frame *head, const void *body, size_t offset)
{
	size_t skip = offset > sizeof(*head) ? offset - sizeof(*head) : 0;
	struct iovec part[2] = {
		{.iov_base = (char *)head + offset, .iov_len = sizeof(*head) - offset},
		{.iov_base = (char *)body + skip, .iov_len = (size_t)head->len - skip}};
	int first = offset < sizeof(*head) ? 0 : 1;
	struct msghdr msg = {.msg_iov = part + first, .msg_iovlen = (size_t)(2 - first)};
	ssize_t n = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return 0;
	return n;
}

/* ---------------------------------------------------------------- ranks beside 0 -- */

static int member_timeout(const struct star *t, int64_t timeout_ms)
{
	char seconds[24];

	return error_set(COLL_ERR_TIMEOUT,
			 "rank 0 of %d has not been heard from after %s s (rank 0 would know "
			 "which other ranks are missing)",
			 t->bootstrap.nranks, bootstrap_seconds(timeout_ms, seconds));
}

/* Waits for rank 0; *events: what poll has found. */
static int member_poll(const struct star *t, short wanted, int64_t deadline, int64_t timeout_ms,
		       int *events)
{
	int code = bootstrap_check_aborted(&t->bootstrap);

	*events = 0;
	while (code == 0 && *events == 0) {
		*events = socket_poll(t->fd, wanted, bootstrap_look(&t->bootstrap, deadline));
		code = bootstrap_check_aborted(&t->bootstrap);
		if (code == 0 && *events == 0 && clock_remaining(deadline) == 0)
			code = member_timeout(t, timeout_ms);
	}
	return code;
}

/*
 * Sends the piece, or the failure of this rank; ends early without error if rank 0 has something to
 * say.
 */
static int member_send(struct star *t, const void *in, size_t len, int code, int64_t timeout_ms)
{
	struct tcp_frame head = {.type = code ? TCP_FAILED : TCP_PIECE,
				 .round = t->round,
				 .len = len,
				 .code = code,
				 .timeout_ms = timeout_ms < UINT32_MAX ? (uint32_t)timeout_ms
								       : UINT32_MAX};
	int64_t deadline = clock_deadline(timeout_ms);
	size_t sent = 0;

	while (sent < sizeof(head) + len) {
		int events;
		int ended = member_poll(t, POLLIN | POLLOUT, deadline, timeout_ms, &events);
		ssize_t n;

		if (ended)
			return ended;
		if (events & POLLIN)
			return 0;
		n = tcp_write_frame(t->fd, &head, in, sent);
		/* What rank 0 said before it went is still to be read. */
		if (n < 0)
			return 0;
		sent += (size_t)n;
	}
	return 0;
}

static int member_read(struct star *t, void *buf, size_t len, int64_t deadline, int64_t timeout_ms)
{
	size_t got = 0;

	while (got < len) {
		int events;
		int code = member_poll(t, POLLIN, deadline, timeout_ms, &events);
		ssize_t n;

		if (code)
			return code;
		n = socket_read(t->fd, (char *)buf + got, len - got);
		if (n < 0)
			return tcp_lost_error(t, 0, errno);
		got += (size_t)n;
	}
	return 0;
}

/* Rank 0 says why there is no table. */
static int member_failure(struct star *t, const struct tcp_frame *head,
			  struct bootstrap_failure *failure, int64_t deadline, int64_t timeout_ms)
{
	int code;

	if (head->len >= sizeof(failure->text))
		return error_set(COLL_ERR_INTERNAL, "rank 0 broke the bootstrap's protocol: its "
						    "error has no end");
	code = member_read(t, failure->text, (size_t)head->len, deadline, timeout_ms);
	if (code)
		return code;
	failure->text[head->len] = '\0';
	failure->code = head->code > 0 ? head->code : COLL_ERR_REMOTE;
	return head->type == TCP_FAILED ? COLL_SUCCESS
					: error_set(failure->code, "%s", failure->text);
}

static int member_exchange(struct star *t, const void *in, void *out, size_t len,
			   struct bootstrap_failure *failure, int64_t timeout_ms)
{
	int64_t deadline = clock_deadline(timeout_ms) + TCP_GRACE_MS;
	size_t total = (size_t)t->bootstrap.nranks * len;
	struct tcp_frame head;
	int code;

	t->round++;
	if (failure->code)
		code = member_send(t, failure->text, strlen(failure->text), failure->code,
				   timeout_ms);
	else
		code = member_send(t, in, len, COLL_SUCCESS, timeout_ms);
	if (code == 0)
		code = member_read(t, &head, sizeof(head), deadline, timeout_ms);
	if (code)
		return code;
	if (head.type == TCP_FAILURE || (head.type == TCP_FAILED && head.round == t->round))
		return member_failure(t, &head, failure, deadline, timeout_ms);
	if (head.type != TCP_TABLE || head.round != t->round || head.len != total)
		return error_set(COLL_ERR_INTERNAL,
				 "rank 0 broke the bootstrap's protocol: frame %u of round %u, "
				 "%llu bytes, where the table of round %u, %zu bytes, was expected",
				 head.type, head.round, (unsigned long long)head.len, t->round,
				 total);
	return member_read(t, out, total, deadline, timeout_ms);
}

/* ------------------------------------------------------------------------- kind -- */

static int tcp_exchange(struct bootstrap *bootstrap, const void *in, void *out, size_t len,
			struct bootstrap_failure *failure, int64_t timeout_ms)
{
	struct star *t = (struct star *)bootstrap;
	int code;

	if (timeout_ms < 0)
		timeout_ms = 0;
	if (bootstrap->rank == 0)
		return tcp_root_exchange(t, in, out, len, failure, timeout_ms);
	code = member_exchange(t, in, out, len, failure, timeout_ms);
	/* Rank 0 learns at once, and through it all the others. */
	if (code)
		shutdown(t->fd, SHUT_RDWR);
	return code;
}

static void tcp_close(struct bootstrap *bootstrap)
{
	struct star *t = (struct star *)bootstrap;

	if (t->fd >= 0)
		close(t->fd);
	tcp_root_close(t);
}

static const struct bootstrap_kind tcp_kind = {
	.exchange = tcp_exchange, .close = tcp_close, .sticky = 1};

static int tcp_new(struct star **t, int rank, int nranks, const char *interface_name)
{
	struct address_list unused;
	struct bootstrap *bootstrap = NULL;
	int code = bootstrap_new(&bootstrap, sizeof(**t), &tcp_kind, rank, nranks);

	*t = (struct star *)bootstrap;
	if (code)
		return code;
	(*t)->fd = -1;
	/* A wrong interface is an error on every rank, not only where it would be used. */
	if (interface_name != NULL && interface_name[0] != '\0')
		code = address_of_interfaces(interface_name, &unused);
	if (code == 0 && rank == 0 && nranks > 1)
		code = tcp_root_init(*t);
	return code;
}

/* The last step of both ways to open; `code` is how far it has come. */
static int tcp_finish(struct star *t, int code, int64_t deadline, struct bootstrap **bootstrap)
{
	static const uint8_t label[] = "libcoll meeting";
	uint8_t derived[sizeof(label) + sizeof(t->salt)];

	if (code == 0 && t->bootstrap.rank == 0) {
		memcpy(derived, label, sizeof(label));
		memcpy(derived + sizeof(label), t->salt, sizeof(t->salt));
		siphash128(t->shared, derived, sizeof(derived), t->bootstrap.key);
	}
	if (code == 0)
		code = bootstrap_meet(&t->bootstrap, clock_remaining(deadline));
	if (code == 0) {
		tcp_root_close_listeners(t); /* still open if there was nobody to wait for */
		*bootstrap = &t->bootstrap;
	} else if (t != NULL) {
		bootstrap_close(&t->bootstrap);
	}
	return code;
}

/* ------------------------------------------------------------------------ opening -- */

/* parent: whose watch counts, or NULL. */
static int tcp_open_id(struct bootstrap **bootstrap, const struct bootstrap *parent, const char *id,
		       int rank, int nranks, const char *interface_name, int64_t timeout_ms)
{
	int64_t deadline = clock_deadline(timeout_ms);
	struct address_list addrs;
	struct star *t;
	int code;

	*bootstrap = NULL;
	unique_id_drop_inherited();
	code = tcp_new(&t, rank, nranks, interface_name);
	if (code == 0 && parent != NULL) {
		t->bootstrap.aborted = parent->aborted;
		t->bootstrap.watched = parent->watched;
	}
	if (code == 0)
		code = unique_id_parse(id, t->shared, &addrs);
	if (code == 0 && rank == 0)
		code = unique_id_take(t->shared, t->listener, &t->nlisteners);
	if (code == 0 && rank > 0)
		code = connect_to_root(t, &addrs, 0, deadline, timeout_ms);
	return tcp_finish(t, code, deadline, bootstrap);
}

int bootstrap_open_id(struct bootstrap **bootstrap, const char *id, int rank, int nranks,
		      const char *interface_name, int64_t timeout_ms)
{
	return tcp_open_id(bootstrap, NULL, id, rank, nranks, interface_name, timeout_ms);
}

int bootstrap_open_derived(struct bootstrap **bootstrap, const struct bootstrap *parent,
			   const char *id, int rank, int nranks, const char *interface_name,
			   int64_t timeout_ms)
{
	return tcp_open_id(bootstrap, parent, id, rank, nranks, interface_name, timeout_ms);
}

/* Without a key from the user at least jobs on other ports are kept apart. */
static void tcp_root_key(const char *root, const char *key, uint8_t shared[16])
{
	static const uint8_t label[16] = "libcoll root key";
	const char *port = root != NULL ? strrchr(root, ':') : NULL;
	const char *text = port != NULL ? port : "";

	if (key != NULL && key[0] != '\0')
		text = key;
	siphash128(label, text, strlen(text), shared);
}

/* Adds to the error of a failed listen() the way out that only the user of COLL_ROOT has. */
static int tcp_listen_error(int code, int err)
{
	if (err != EADDRINUSE)
		return code;
	return error_set(code,
			 "%s; another program has that port: end it, or give COLL_ROOT another "
			 "port",
			 error_text());
}

static int tcp_listen_each(struct star *t, struct address_list *addrs)
{
	for (int i = 0; i < addrs->count; i++) {
		int fd, err = 0;
		int code = socket_listen(&addrs->item[i], NULL, NULL, &fd, &err);

		/* Not an address of this host, or not one that may be used. */
		if (code && (err == EADDRNOTAVAIL || err == EAFNOSUPPORT))
			continue;
		if (code)
			return tcp_listen_error(code, err);
		t->listener[t->nlisteners++] = fd;
	}
	return 0;
}

/* Rank 0 listens at the addresses of root, or of the interface, and at no others. */
static int tcp_listen_root(struct star *t, const char *root, const char *interface_name,
			   struct address_list *addrs)
{
	uint16_t port = address_port(&addrs->item[0]);
	int code, err;

	if (interface_name != NULL && interface_name[0] != '\0') {
		code = address_of_interfaces(interface_name, addrs);
		if (code)
			return code;
		for (int i = 0; i < addrs->count; i++)
			address_set_port(&addrs->item[i], port);
	}
	code = tcp_listen_each(t, addrs);
	if (code || t->nlisteners > 0)
		return code;
	/* The address others use may be translated on the way. */
	log_info("%s is not an address of this host: listening at port %u of all interfaces", root,
		 (unsigned)port);
	code = socket_listen_any(port, &t->listener[0], &port, &err);
	if (code)
		return tcp_listen_error(code, err);
	t->nlisteners = 1;
	return 0;
}

int bootstrap_open_root(struct bootstrap **bootstrap, const char *root, const char *key, int rank,
			int nranks, const char *interface_name, int64_t timeout_ms)
{
	int64_t deadline = clock_deadline(timeout_ms);
	struct address_list addrs;
	struct star *t;
	int code;

	*bootstrap = NULL;
	unique_id_drop_inherited();
	code = tcp_new(&t, rank, nranks, interface_name);
	if (code == 0 && nranks > 1)
		code = address_resolve(root, "rendezvous address (COLL_ROOT)", &addrs);
	if (code == 0)
		tcp_root_key(root, key, t->shared);
	if (code == 0 && nranks > 1 && rank == 0)
		code = tcp_listen_root(t, root, interface_name, &addrs);
	if (code == 0 && rank > 0)
		code = connect_to_root(t, &addrs, 1, deadline, timeout_ms);
	return tcp_finish(t, code, deadline, bootstrap);
}
