/* SPDX-License-Identifier: BSD-3-Clause */
/* tree.c - the bootstrap over TCP: from a unique id or a root address to an open tree. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/tree.h"

enum { LISTEN_ASK_MS = 3000 }; /* the time in which the owner of the port says who it is */

/* ---------------------------------------------------------------------------- kind -- */

static int kind_exchange(struct bootstrap *bootstrap, const void *in, void *out, size_t len,
			 struct bootstrap_failure *failure, int64_t timeout_ms)
{
	return tree_exchange((struct tree *)bootstrap, in, out, len, failure,
			     timeout_ms < 0 ? 0 : timeout_ms);
}

static int kind_failure_waits(struct bootstrap *bootstrap)
{
	struct tree *t = (struct tree *)bootstrap;
	const int64_t now = clock_now_ms();

	if (bootstrap->nranks == 1 || now - t->looked < BOOTSTRAP_LOOK_MS)
		return 0;
	t->looked = now;
	for (int i = 0; i < t->nconns; i++)
		if (tree_link_failure_waits(&t->conns[i].link))
			return 1;
	return tree_link_failure_waits(&t->parent);
}

static void kind_close(struct bootstrap *bootstrap)
{
	struct tree *t = (struct tree *)bootstrap;

	if (t->parent.fd >= 0)
		close(t->parent.fd);
	tree_children_close(t);
}

static const struct bootstrap_kind tree_kind = {.exchange = kind_exchange,
						.failure_waits = kind_failure_waits,
						.close = kind_close,
						.sticky = 1};

static int tree_new(struct tree **t, int rank, int nranks, int root, const char *interface_name,
		    int64_t timeout_ms)
{
	struct address_list unused;
	struct bootstrap *bootstrap = NULL;
	int code = bootstrap_new(&bootstrap, sizeof(**t), &tree_kind, rank, nranks);

	*t = (struct tree *)bootstrap;
	if (code)
		return code;
	(*t)->root = root;
	(*t)->parent.fd = -1;
	(*t)->timeout_ms = timeout_ms;
	(*t)->deadline = clock_deadline(timeout_ms);
	(*t)->interface_name = interface_name;
	tree_set_handshake(*t);
	/* A wrong interface is an error on every rank, also on ranks that do not use it. */
	if (interface_name != NULL && interface_name[0] != '\0')
		code = address_of_interfaces(interface_name, &unused);
	if (code == 0 && rank == root && nranks > 1)
		code = tree_take_index(*t, 0);
	if (code == 0 && rank == root && nranks > 1)
		code = random_bytes((*t)->acceptor.salt, sizeof((*t)->acceptor.salt));
	return code;
}

/* The last step of opening by id and by address.  `code` is the result of the earlier steps. */
static int tree_finish(struct tree *t, int code, struct bootstrap **bootstrap)
{
	if (code == 0 && tree_is_root(t))
		tree_derive_keys(t, t->acceptor.salt);
	if (code == 0)
		code = bootstrap_meet(&t->bootstrap, clock_remaining(t->deadline));
	if (code == 0) {
		acceptor_close(&t->acceptor); /* a single rank needs no connection */
		t->interface_name = NULL;
		*bootstrap = &t->bootstrap;
	} else if (t != NULL) {
		bootstrap_close(&t->bootstrap);
	}
	return code;
}

/* ------------------------------------------------------------- opening by id -- */

static void tree_text_key(const char *text, uint8_t key[16])
{
	static const uint8_t label[16] = "libcoll root key";

	siphash128(label, text, strlen(text), key);
}

/* How the ranks have got an id, and from whom. */
struct tree_way {
	int maker;                      /* the rank that made it; -1: any rank */
	const struct bootstrap *parent; /* among its ranks; or NULL */
	const char *stored; /* through a launcher: the text of COLL_KEY, or ""; not so: NULL */
};

/*
 * The shared key of an id, of which others may know `key` where it has travelled among the parent's ranks or through
 * a launcher: it then also follows from the parent's key or COLL_KEY.  An abort of the parent's watched communicator
 * ends this rendezvous too.
 */
static void tree_id_key(struct tree *t, const struct tree_way *way, const uint8_t key[16])
{
	const struct bootstrap *parent = way->parent;
	uint8_t own[BOOTSTRAP_KEY_SIZE];

	memcpy(t->shared, key, BOOTSTRAP_KEY_SIZE);
	t->bootstrap.key_is_secret = 1;
	if (way->stored != NULL) {
		tree_text_key(way->stored, own);
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

static int tree_open_id(struct bootstrap **bootstrap, const struct tree_way *way, const char *id,
			int rank, int nranks, const char *interface_name, int64_t timeout_ms)
{
	const int maker = way->maker;
	struct listeners listeners = {.count = 0};
	char left_out[ADDRESS_LEFT_OUT_SIZE] = "";
	uint8_t key[BOOTSTRAP_KEY_SIZE];
	struct address_list addrs;
	struct tree *t = NULL;
	int code, root;

	*bootstrap = NULL;
	unique_id_drop_inherited();
	code = unique_id_parse(id, key, &addrs);
	if (code == 0 && (maker < 0 || rank == maker))
		code = unique_id_take(key, rank, maker >= 0 || nranks == 1, &listeners, left_out);
	root = listeners.count > 0 ? rank : maker;
	if (code == 0)
		code = tree_new(&t, rank, nranks, root, interface_name, timeout_ms);
	if (t == NULL) { /* no rank shall wait at a port where the root will not answer */
		listeners_close(&listeners);
		return code;
	}
	tree_id_key(t, way, key);
	t->acceptor.listeners = listeners;
	memcpy(t->left_out, left_out, sizeof(t->left_out));
	if (code == 0 && !tree_is_root(t))
		code = tree_join(t, &addrs, 0);
	return tree_finish(t, code, bootstrap);
}

int bootstrap_open_id(struct bootstrap **bootstrap, const char *id, int rank, int nranks,
		      const char *interface_name, int64_t timeout_ms)
{
	const struct tree_way way = {.maker = 0};

	return tree_open_id(bootstrap, &way, id, rank, nranks, interface_name, timeout_ms);
}

int bootstrap_open_any_id(struct bootstrap **bootstrap, const char *id, int rank, int nranks,
			  const char *interface_name, int64_t timeout_ms)
{
	const struct tree_way way = {.maker = -1};

	return tree_open_id(bootstrap, &way, id, rank, nranks, interface_name, timeout_ms);
}

int bootstrap_open_stored_id(struct bootstrap **bootstrap, const char *id, const char *key,
			     int rank, int nranks, const char *interface_name, int64_t timeout_ms)
{
	const struct tree_way way = {.stored = key};

	return tree_open_id(bootstrap, &way, id, rank, nranks, interface_name, timeout_ms);
}

int bootstrap_open_derived(struct bootstrap **bootstrap, const struct bootstrap *parent,
			   const char *id, int rank, int nranks, const char *interface_name,
			   int64_t timeout_ms)
{
	const struct tree_way way = {.parent = parent};

	return tree_open_id(bootstrap, &way, id, rank, nranks, interface_name, timeout_ms);
}

/* ---------------------------------------------- rank 0 of an address listens -- */

/* Dials the port as any other rank does.  Returns the code with which its owner refuses, and the text; 0: it says nothing. */
static int listen_ask_owner(const struct tree *t, const struct address_list *addrs)
{
	const int64_t deadline = clock_deadline(LISTEN_ASK_MS);
	struct dial dial = {
		.hs = &t->handshake, .peer = t->handshake.rank, .addresses = *addrs, .named = 1};
	struct pollfd fds[ADDRESS_MAX];
	struct poll_set set;
	int code;

	poll_set_init_small(&set, fds, ADDRESS_MAX);
	code = dial_begin(&dial);
	while (!code && dial.fd < 0 && clock_remaining(deadline) > 0)
		code = dial_step(&dial, &set, deadline);
	dial_end(&dial);
	if (dial.fd >= 0)
		close(dial.fd);
	return code;
}

/*
 * A listen() at one of the addresses has failed.  If another process has the port it is asked who it is: it may be a
 * second rank 0.
 */
static int listen_error(const struct tree *t, int code, int err, const struct address_list *addrs)
{
	struct error_first first = {0};
	int owner;

	if (err != EADDRINUSE)
		return code;
	error_note(&first, code);
	owner = listen_ask_owner(t, addrs);
	if (owner == COLL_ERR_INVALID_USAGE)
		return error_set(owner, "%s; %s", first.text, error_text());
	return error_set(code, "%s; %s%s: end it, or give COLL_ROOT another port", first.text,
			 owner == COLL_ERR_INVALID_ARGUMENT || owner == COLL_ERR_PERMISSION
				 ? error_text()
				 : "another program has that port",
			 owner == COLL_ERR_PERMISSION ? ", which has that port" : "");
}

static int listen_each(struct tree *t, struct address_list *addrs)
{
	for (int i = 0; i < addrs->count; i++) {
		int fd, err = 0;
		int code = socket_listen(&addrs->item[i], NULL, NULL, &fd, &err);

		/* The address is not one of this host's, or this host lacks the family. */
		if (code && (err == EADDRNOTAVAIL || err == EAFNOSUPPORT))
			continue;
		if (code)
			return listen_error(
				t, code, err,
				&(struct address_list){.item = {addrs->item[i]}, .count = 1});
		t->acceptor.listeners.fd[t->acceptor.listeners.count++] = fd;
	}
	return 0;
}

/* Replaces root's addresses with the interface's; loopback addresses stay, which no other host reaches. */
static int listen_take_interface(const char *interface_name, struct address_list *addrs)
{
	const struct address_list root = *addrs;
	int code = address_of_interfaces(interface_name, addrs);

	if (code)
		return code;
	for (int i = 0; i < addrs->count; i++)
		address_set_port(&addrs->item[i], address_port(&root.item[0]));
	for (int i = 0; i < root.count && addrs->count < ADDRESS_MAX; i++)
		if (address_is_loopback(&root.item[i]) &&
		    !address_list_has(addrs, (const struct sockaddr *)&root.item[i].sa))
			addrs->item[addrs->count++] = root.item[i];
	return 0;
}

/*
 * Is root the name of a host that has only loopback addresses here?  Debian's /etc/hosts gives a host's own name
 * 127.0.1.1, while the other hosts know its real address.
 */
static int listen_is_own_name(const char *root, const struct address_list *addrs)
{
	struct address unused;

	for (int i = 0; i < addrs->count; i++)
		if (!address_is_loopback(&addrs->item[i]))
			return 0;
	return strcasestr(root, "localhost") == NULL && address_parse(root, "", &unused) != 0;
}

static int listen_anywhere(struct tree *t, uint16_t port)
{
	static const uint8_t ipv4[4] = {127, 0, 0, 1}, ipv6[16] = {[15] = 1};
	struct address_list own = {.count = 2};
	int err, code = socket_listen_any(port, &t->acceptor.listeners.fd[0], &port, &err);

	address_set_ip(&own.item[0], ipv4, sizeof(ipv4), port);
	address_set_ip(&own.item[1], ipv6, sizeof(ipv6), port);
	if (code)
		return listen_error(t, code, err, &own);
	t->acceptor.listeners.count = 1;
	return 0;
}

/*
 * Rank 0 listens at the addresses of root, or of the interface, and at no others, unless other hosts know root by
 * addresses that this host does not have.  Launchers on one host name a loopback address as root, whatever the
 * interface is.
 */
static int listen_root(struct tree *t, const char *root, const char *interface_name,
		       struct address_list *addrs)
{
	const int chosen = interface_name != NULL && interface_name[0] != '\0';
	const int own_name = !chosen && listen_is_own_name(root, addrs);
	uint16_t port;
	int code = 0;

	if (chosen)
		code = listen_take_interface(interface_name, addrs);
	if (code)
		return code;
	port = address_port(&addrs->item[0]);
	if (!own_name)
		code = listen_each(t, addrs);
	if (code || t->acceptor.listeners.count > 0)
		return code;
	/* The network may translate the address that the other ranks use. */
	log_info("%s %s: listening at port %u of all interfaces", root,
		 own_name ? "has only loopback addresses on this host"
			  : "is not an address of this host",
		 (unsigned)port);
	return listen_anywhere(t, port);
}

/* Without a key from the user, every process that reaches a listening socket can join: says so. */
static void listen_warn_open(const struct listeners *listeners)
{
	char text[ADDRESS_TEXT_SIZE];
	struct address address;

	for (int i = 0; i < listeners->count; i++) {
		address.len = sizeof(address.sa);
		if (getsockname(listeners->fd[i], (struct sockaddr *)&address.sa, &address.len) ||
		    address_is_loopback(&address))
			continue;
		address_format(&address, text);
		log_warn("rank 0 listens at %s and COLL_KEY is not set: anyone who reaches this "
			 "port may join the job; set COLL_KEY to the same secret text on all ranks",
			 text);
		return;
	}
}

/* -------------------------------------------------------- opening by address -- */

/* Without a key from the user, the port keeps jobs with different ports apart. */
static void tree_root_key(const char *root, const char *key, uint8_t shared[16])
{
	const char *port = root != NULL ? strrchr(root, ':') : NULL;
	const char *text = port != NULL ? port : "";

	if (key != NULL && key[0] != '\0')
		text = key;
	tree_text_key(text, shared);
}

int bootstrap_open_root(struct bootstrap **bootstrap, const char *root, const char *root_origin,
			const char *key, int key_is_secret, int rank, int nranks,
			const char *interface_name, int64_t timeout_ms)
{
	struct address_list addrs;
	struct tree *t;
	char what[200];
	int code;

	*bootstrap = NULL;
	unique_id_drop_inherited();
	snprintf(what, sizeof(what), "rendezvous address (%s)", root_origin);
	code = tree_new(&t, rank, nranks, 0, interface_name, timeout_ms);
	if (code == 0 && nranks > 1)
		code = address_resolve(root, what, timeout_ms, &addrs);
	if (code == 0) {
		tree_root_key(root, key, t->shared);
		t->bootstrap.key_is_secret = key_is_secret;
	}
	if (code == 0 && nranks > 1 && rank == 0)
		code = listen_root(t, root, interface_name, &addrs);
	if (code == 0 && (key == NULL || key[0] == '\0'))
		listen_warn_open(&t->acceptor.listeners);
	if (code == 0 && rank > 0)
		code = tree_join(t, &addrs, 1);
	return tree_finish(t, code, bootstrap);
}
