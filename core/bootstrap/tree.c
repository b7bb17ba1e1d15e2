/* SPDX-License-Identifier: BSD-3-Clause */
/* tree.c - the bootstrap over TCP: from a unique id or a root address to an open tree. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "bootstrap/tree.h"

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
	return tree_children_failure_waits(t) || (!tree_is_root(t) && tree_parent_failure_waits(t));
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

/* ------------------------------------------------------------------------ opening -- */

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
		code = tree_listen_root(t, root, interface_name, &addrs);
	if (code == 0 && (key == NULL || key[0] == '\0'))
		tree_warn_open(&t->acceptor.listeners);
	if (code == 0 && rank > 0)
		code = tree_join(t, &addrs, 1);
	return tree_finish(t, code, bootstrap);
}
