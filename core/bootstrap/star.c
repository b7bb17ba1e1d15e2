/* SPDX-License-Identifier: BSD-3-Clause */
/* star.c - the bootstrap over TCP: from a unique id or a root address to an open star; its keys. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>
#include "bootstrap/star.h"
#include "base/error.h"
#include "base/log.h"

int star_lost_error(const struct star *t, int rank, const char *address, int err)
{
	const struct bootstrap_peer *peer = &t->bootstrap.peers[rank];
	const struct bootstrap_failure *failure = t->failure;
	char who[96], why[SOCKET_WHY_SIZE];

	/* It has said why it ends. */
	if (failure != NULL && failure->code && failure->rank == rank)
		return bootstrap_failed(failure);
	if (t->bootstrap.met)
		snprintf(who, sizeof(who), "pid %d on %s", (int)peer->pid, peer->host);
	else
		snprintf(who, sizeof(who), "%s", address);
	return error_set(COLL_ERR_PEER_LOST, "rank %d (%s) was lost during the rendezvous: %s",
			 rank, who, socket_why(err, why));
}

int star_forged_error(const struct star *t, int rank, const char *address)
{
	return error_set(
		COLL_ERR_PEER_LOST,
		"rank %d (%s) was lost during the rendezvous: a message from it in round "
		"%u has the wrong MAC, so bytes of the connection were changed, dropped, "
		"repeated or reordered on the way; look for a proxy, a faulty device or an "
		"attacker between the hosts of rank %d and rank %d",
		rank, address, t->round, rank, t->bootstrap.rank);
}

ssize_t star_write_frame(int fd, const struct star_frame *head, const void *body, size_t offset)
{
	size_t skip = offset > sizeof(*head) ? offset - sizeof(*head) : 0;
	struct iovec part[2] = {
		{.iov_base = (char *)head + offset, .iov_len = sizeof(*head) - offset},
		{.iov_base = body != NULL ? (char *)body + skip : NULL,
		 .iov_len = (size_t)head->len - skip}};
	int first = offset < sizeof(*head) ? 0 : 1;
	struct msghdr msg = {.msg_iov = part + first, .msg_iovlen = (size_t)(2 - first)};
	ssize_t n = sendmsg(fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR))
		return 0;
	return n;
}

/* ----------------------------------------------------------------------- handshake -- */

static void star_mac(const void *user, const void *data, size_t len,
		     uint8_t mac[HANDSHAKE_MAC_SIZE])
{
	siphash128(((const struct star *)user)->shared, data, len, mac);
}

static void star_log(const void *user, int level, const char *text)
{
	(void)user;
	log_line(level, NULL, text);
}

static void star_tune(const void *user, int fd, int family, int local)
{
	(void)user;
	(void)family;
	(void)local;
	socket_no_delay(fd);
}

void star_set_handshake(struct star *t)
{
	t->handshake = (struct handshake){.magic = {'C', 'O', 'L', 'L', 'B', 'O', 'O', 'T'},
					  .version = STAR_VERSION,
					  .name = "bootstrap",
					  .rank = (uint32_t)t->bootstrap.rank,
					  .nranks = (uint32_t)t->bootstrap.nranks,
					  .any_order = 1,
					  .mac = star_mac,
					  .log = star_log,
					  .tune = star_tune,
					  .user = t};
}

static void star_derive(const struct star *t, const char label[16],
			const uint8_t salt[HANDSHAKE_SALT_SIZE], uint8_t key[BOOTSTRAP_KEY_SIZE])
{
	uint8_t text[16 + HANDSHAKE_SALT_SIZE];

	memcpy(text, label, 16);
	memcpy(text + 16, salt, HANDSHAKE_SALT_SIZE);
	siphash128(t->shared, text, sizeof(text), key);
}

void star_derive_keys(struct star *t, const uint8_t salt[HANDSHAKE_SALT_SIZE])
{
	star_derive(t, "libcoll meeting", salt, t->bootstrap.key);
	star_derive(t, "libcoll bodies ", salt, t->body_key);
}

/* ---------------------------------------------------------------------------- kind -- */

static int star_exchange(struct bootstrap *bootstrap, const void *in, void *out, size_t len,
			 struct bootstrap_failure *failure, int64_t timeout_ms)
{
	struct star *t = (struct star *)bootstrap;

	if (timeout_ms < 0)
		timeout_ms = 0;
	if (star_is_root(t))
		return star_root_exchange(t, in, out, len, failure, timeout_ms);
	return t->nchildren > 0 ? star_inner_exchange(t, in, out, len, failure, timeout_ms)
				: star_member_exchange(t, in, out, len, failure, timeout_ms);
}

static int star_failure_waits(struct bootstrap *bootstrap)
{
	struct star *t = (struct star *)bootstrap;
	const int64_t now = clock_now_ms();

	if (bootstrap->nranks == 1 || now - t->looked < BOOTSTRAP_LOOK_MS)
		return 0;
	t->looked = now;
	return (t->nchildren > 0 && star_children_failure_waits(t)) ||
	       (!star_is_root(t) && star_member_failure_waits(t));
}

static void star_close(struct bootstrap *bootstrap)
{
	struct star *t = (struct star *)bootstrap;

	if (t->fd >= 0)
		close(t->fd);
	star_children_close(t);
}

static const struct bootstrap_kind star_kind = {.exchange = star_exchange,
						.failure_waits = star_failure_waits,
						.close = star_close,
						.sticky = 1};

static int star_new(struct star **t, int rank, int nranks, int root, const char *interface_name)
{
	struct address_list unused;
	struct bootstrap *bootstrap = NULL;
	int code = bootstrap_new(&bootstrap, sizeof(**t), &star_kind, rank, nranks);

	*t = (struct star *)bootstrap;
	if (code)
		return code;
	(*t)->root = root;
	(*t)->fd = -1;
	(*t)->interface_name = interface_name;
	star_set_handshake(*t);
	/* A wrong interface is an error on every rank, also on ranks that do not use it. */
	if (interface_name != NULL && interface_name[0] != '\0')
		code = address_of_interfaces(interface_name, &unused);
	if (code == 0 && rank == root && nranks > 1)
		code = star_root_init(*t);
	return code;
}

/* The last step of opening by id and by address.  `code` is the result of the earlier steps. */
static int star_finish(struct star *t, int code, int64_t deadline, struct bootstrap **bootstrap)
{
	if (code == 0 && star_is_root(t))
		star_derive_keys(t, t->acceptor.salt);
	if (code == 0)
		code = bootstrap_meet(&t->bootstrap, clock_remaining(deadline));
	if (code == 0) {
		acceptor_close(&t->acceptor); /* a single rank needs no connection */
		t->interface_name = NULL;
		*bootstrap = &t->bootstrap;
	} else if (t != NULL) {
		bootstrap_close(&t->bootstrap);
	}
	return code;
}

/* ------------------------------------------------------------------------ opening -- */

static void star_text_key(const char *text, uint8_t key[16])
{
	static const uint8_t label[16] = "libcoll root key";

	siphash128(label, text, strlen(text), key);
}

/* How the ranks have got an id, and from whom. */
struct star_way {
	int maker;                      /* the rank that made it; -1: any rank */
	const struct bootstrap *parent; /* among its ranks; or NULL */
	const char *stored; /* through a launcher: the text of COLL_KEY, or ""; not so: NULL */
};

/*
 * The shared key of an id, of which others may know `key` where it has travelled among the parent's ranks or through
 * a launcher: it then also follows from the parent's key or COLL_KEY.  An abort of the parent's watched communicator
 * ends this rendezvous too.
 */
static void star_id_key(struct star *t, const struct star_way *way, const uint8_t key[16])
{
	const struct bootstrap *parent = way->parent;
	uint8_t own[BOOTSTRAP_KEY_SIZE];

	memcpy(t->shared, key, BOOTSTRAP_KEY_SIZE);
	t->bootstrap.key_is_secret = 1;
	if (way->stored != NULL) {
		star_text_key(way->stored, own);
		siphash128(own, key, BOOTSTRAP_KEY_SIZE, t->shared);
		t->bootstrap.key_is_secret = way->stored[0] != '\0';
	}
	if (parent != NULL) {
		siphash128(parent->key, key, BOOTSTRAP_KEY_SIZE, t->shared);
		t->bootstrap.key_is_secret = parent->key_is_secret;
		t->bootstrap.aborted = parent->aborted;
		t->bootstrap.watched = parent->watched;
		bootstrap_guard(&t->bootstrap, parent->guard, parent->guard_user);
	}
}

static int star_open_id(struct bootstrap **bootstrap, const struct star_way *way, const char *id,
			int rank, int nranks, const char *interface_name, int64_t timeout_ms)
{
	const int maker = way->maker;
	int64_t deadline = clock_deadline(timeout_ms);
	struct listeners listeners = {.count = 0};
	char left_out[ADDRESS_LEFT_OUT_SIZE] = "";
	uint8_t key[BOOTSTRAP_KEY_SIZE];
	struct address_list addrs;
	struct star *t = NULL;
	int code, root;

	*bootstrap = NULL;
	unique_id_drop_inherited();
	code = unique_id_parse(id, key, &addrs);
	if (code == 0 && (maker < 0 || rank == maker))
		code = unique_id_take(key, rank, maker >= 0 || nranks == 1, &listeners, left_out);
	root = listeners.count > 0 ? rank : maker;
	if (code == 0)
		code = star_new(&t, rank, nranks, root, interface_name);
	if (t == NULL) { /* no member shall wait at a port where the root will not answer */
		listeners_close(&listeners);
		return code;
	}
	star_id_key(t, way, key);
	t->acceptor.listeners = listeners;
	memcpy(t->left_out, left_out, sizeof(t->left_out));
	if (code == 0 && !star_is_root(t))
		code = star_connect(t, &addrs, 0, deadline, timeout_ms);
	return star_finish(t, code, deadline, bootstrap);
}

int bootstrap_open_id(struct bootstrap **bootstrap, const char *id, int rank, int nranks,
		      const char *interface_name, int64_t timeout_ms)
{
	const struct star_way way = {.maker = 0};

	return star_open_id(bootstrap, &way, id, rank, nranks, interface_name, timeout_ms);
}

int bootstrap_open_any_id(struct bootstrap **bootstrap, const char *id, int rank, int nranks,
			  const char *interface_name, int64_t timeout_ms)
{
	const struct star_way way = {.maker = -1};

	return star_open_id(bootstrap, &way, id, rank, nranks, interface_name, timeout_ms);
}

int bootstrap_open_stored_id(struct bootstrap **bootstrap, const char *id, const char *key,
			     int rank, int nranks, const char *interface_name, int64_t timeout_ms)
{
	const struct star_way way = {.stored = key};

	return star_open_id(bootstrap, &way, id, rank, nranks, interface_name, timeout_ms);
}

int bootstrap_open_derived(struct bootstrap **bootstrap, const struct bootstrap *parent,
			   const char *id, int rank, int nranks, const char *interface_name,
			   int64_t timeout_ms)
{
	const struct star_way way = {.parent = parent};

	return star_open_id(bootstrap, &way, id, rank, nranks, interface_name, timeout_ms);
}

/* Without a key from the user, the port keeps jobs with different ports apart. */
static void star_root_key(const char *root, const char *key, uint8_t shared[16])
{
	const char *port = root != NULL ? strrchr(root, ':') : NULL;
	const char *text = port != NULL ? port : "";

	if (key != NULL && key[0] != '\0')
		text = key;
	star_text_key(text, shared);
}

int bootstrap_open_root(struct bootstrap **bootstrap, const char *root, const char *root_origin,
			const char *key, int key_is_secret, int rank, int nranks,
			const char *interface_name, int64_t timeout_ms)
{
	int64_t deadline = clock_deadline(timeout_ms);
	struct address_list addrs;
	struct star *t;
	char what[200];
	int code;

	*bootstrap = NULL;
	unique_id_drop_inherited();
	snprintf(what, sizeof(what), "rendezvous address (%s)", root_origin);
	code = star_new(&t, rank, nranks, 0, interface_name);
	if (code == 0 && nranks > 1)
		code = address_resolve(root, what, timeout_ms, &addrs);
	if (code == 0) {
		star_root_key(root, key, t->shared);
		t->bootstrap.key_is_secret = key_is_secret;
	}
	if (code == 0 && nranks > 1 && rank == 0)
		code = star_listen_root(t, root, interface_name, &addrs);
	if (code == 0 && (key == NULL || key[0] == '\0'))
		star_warn_open(&t->acceptor.listeners);
	if (code == 0 && rank > 0)
		code = star_connect(t, &addrs, 1, deadline, timeout_ms);
	return star_finish(t, code, deadline, bootstrap);
}
