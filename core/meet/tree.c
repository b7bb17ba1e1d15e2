/* SPDX-License-Identifier: BSD-3-Clause */
/* tree.c - the bootstrap over TCP: how a rank joins the tree, from a unique id or a root address to an open bootstrap. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "meet/tree.h"

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
	tree_close((struct tree *)bootstrap);
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

/* ------------------------------------------------------------------ connecting -- */

enum { JOIN_PEER_SIZE = 64 };

/* Before it has a connection a rank knows an id's maker only as such. */
static const char *join_peer(int peer, char text[JOIN_PEER_SIZE])
{
	if (peer < 0)
		return "the maker of the unique id (usually rank 0)";
	snprintf(text, JOIN_PEER_SIZE, "rank %d", peer);
	return text;
}

static int join_not_connected(const struct tree *t, int peer, int code)
{
	char text[BOOTSTRAP_TEXT_SIZE], peer_text[JOIN_PEER_SIZE];
	const char *who = join_peer(peer, peer_text);

	snprintf(text, sizeof(text), "%s", error_text());
	if (code != COLL_ERR_PEER_LOST)
		return error_set(code, "rank %d cannot meet %s: %s", t->bootstrap.rank, who, text);
	return error_set(code,
			 "rank %d cannot meet %s: %s (it has ended,%s all its ranks are there "
			 "already, or the job has already failed: read the messages of the other "
			 "ranks)",
			 t->bootstrap.rank, who, text,
			 peer < 0 ? " it is no rank of the job," : "");
}

/* The time is up. */
static int join_timed_out(const struct tree *t, const struct dial *dial, int peer)
{
	char seconds[24], peer_text[JOIN_PEER_SIZE], report[DIAL_REPORT_SIZE], advice[200] = "";
	const char *who = join_peer(peer, peer_text);

	dial_report(dial, report);
	if (peer < 0 && dial_reasons(dial) & DIAL_MEETS_SILENCE)
		snprintf(advice, sizeof(advice),
			 " (the process that made the unique id must be a rank of the job, and "
			 "has not called coll_comm_init_rank with the id yet)");
	else if (dial_reasons(dial) & DIAL_MISSES_PEER)
		snprintf(advice, sizeof(advice),
			 " (%s has not started yet, or the job has already failed: read the "
			 "messages of the other ranks)",
			 peer < 0 ? "it" : who);
	return error_set(COLL_ERR_TIMEOUT,
			 "timed out: %s of %d has not been heard from after %s s; "
			 "%s%s%s%s",
			 who, t->bootstrap.nranks, bootstrap_seconds(t->timeout_ms, seconds),
			 dial->note, dial->note[0] && report[0] ? "; " : "", report, advice);
}

/*
 * Long before the time is up the log says why this rank has not come.  If the reason is that nobody answers, it is the same
 * on all ranks, and rank 1 tells it for all.
 */
static void join_say_late(const struct tree *t, const struct dial *dial, int peer)
{
	const int alike = dial_reasons(dial) & DIAL_MISSES_PEER && t->bootstrap.rank > 1;
	char who[JOIN_PEER_SIZE], report[DIAL_REPORT_SIZE];

	dial_report(dial, report);
	if (alike)
		log_info("rank %d has not reached %s yet: %s", t->bootstrap.rank,
			 join_peer(peer, who), report);
	else
		log_warn("rank %d has not reached %s yet: %s", t->bootstrap.rank,
			 join_peer(peer, who), report);
}

static int join_wait(struct tree *t, struct dial *dial, struct poll_set *set, int peer)
{
	int64_t stall_at = bootstrap_stall_time(), wake;
	int code = dial_begin(dial);

	while (code == 0 && dial->session.fd < 0) {
		code = bootstrap_check_aborted(&t->bootstrap);
		if (code)
			return code;
		wake = bootstrap_look(&t->bootstrap, t->deadline);
		code = dial_step(dial, set, stall_at < wake ? stall_at : wake);
		if (code == 0 && dial->session.fd < 0 && clock_remaining(stall_at) == 0) {
			join_say_late(t, dial, peer);
			stall_at = INT64_MAX;
		}
		if (code == 0 && dial->session.fd < 0 && clock_remaining(t->deadline) == 0)
			return join_timed_out(t, dial, peer);
	}
	return code ? join_not_connected(t, peer, code) : 0;
}

/* Connects to that rank, or with peer -1 to whoever listens.  retry: it may not be listening yet. */
static int join_dial(struct tree *t, int peer, const struct address_list *addresses, int retry)
{
	struct dial dial = {.hs = &t->handshake,
			    .peer = peer < 0 ? 0 : (uint32_t)peer,
			    .any_peer = peer < 0,
			    .addresses = *addresses,
			    .named = retry,
			    .retry = retry};
	struct pollfd fds[ADDRESS_MAX];
	struct poll_set set;
	int code;

	poll_set_init_small(&set, fds, ADDRESS_MAX);
	code = join_wait(t, &dial, &set, peer);
	dial_end(&dial);
	t->parent.fd = dial.session.fd;
	if (code)
		return code;
	if (dial.session.rank >= (uint32_t)t->bootstrap.nranks)
		return error_set(
			COLL_ERR_INTERNAL,
			"%s broke the bootstrap's protocol: it says that it is rank %u of %d",
			dial.session.address, dial.session.rank, t->bootstrap.nranks);
	if (t->root < 0 || (int)dial.session.rank == t->root) {
		t->root = (int)dial.session.rank;
		memcpy(t->acceptor.salt, dial.salt, sizeof(dial.salt));
		tree_derive_keys(t, dial.salt);
	}
	t->parent = (struct tree_link){.rank = 0};
	tree_link_open(t, &t->parent, 0, &dial.session);
	return 0;
}

/* ---------------------------------------------------------------------- the index -- */

/* Listens for children and tells the root where. */
static int join_say_here(struct tree *t)
{
	static const uint8_t no_key[BOOTSTRAP_KEY_SIZE];
	char here[UNIQUE_ID_TEXT_MAX];
	struct tree_frame head = {.type = TREE_HERE, .timeout_ms = UINT32_MAX};
	struct address_list addresses;
	int code = listeners_open(t->interface_name, 0, &t->acceptor.listeners, &addresses);

	if (code == 0)
		code = unique_id_print(no_key, &addresses, here, sizeof(here));
	if (code)
		return code;
	head.len = strlen(here);
	return tree_parent_send(t, head, here, t->timeout_ms);
}

/* Takes the index: a rank without children stops listening. */
static int join_take_index(struct tree *t, const struct tree_place *place)
{
	const int n = t->bootstrap.nranks;
	int code;

	if (place->index == 0 || place->index >= (uint32_t)n || place->parent >= (uint32_t)n ||
	    place->parent == (uint32_t)t->bootstrap.rank)
		return tree_broke(t->root, "index %u of %d, below rank %u", place->index, n,
				  place->parent);
	code = tree_take_index(t, (int)place->index);
	if (t->nchildren == 0)
		listeners_close(&t->acceptor.listeners);
	return code;
}

static int join_parent(struct tree *t, struct tree_place *place)
{
	uint8_t no_key[BOOTSTRAP_KEY_SIZE];
	struct address_list addresses;
	int code;

	if (place->parent == (uint32_t)t->root)
		return 0;
	close(t->parent.fd);
	t->parent.fd = -1;
	place->here[sizeof(place->here) - 1] = '\0';
	code = unique_id_parse(place->here, no_key, &addresses);
	return code ? code : join_dial(t, (int)place->parent, &addresses, 0);
}

/* Says HERE to the root, takes the index, and goes to the parent. */
static int join_deep(struct tree *t)
{
	struct bootstrap_failure failure = {.code = COLL_SUCCESS};
	struct tree_place place;
	int code;

	tree_parent_begin(t, (uint8_t *)&place, sizeof(place), &failure);
	code = join_say_here(t);
	if (code == 0)
		code = tree_parent_await(t);
	if (code == 0)
		code = join_take_index(t, &place);
	if (code)
		return code;
	code = join_parent(t, &place);
	/* Its children have its address already: they hear of the parent's end, and do not blame this rank. */
	return code && t->nchildren > 0 ? tree_fail(t, code) : code;
}

int tree_join(struct tree *t, const struct address_list *addresses, int retry)
{
	const int code = join_dial(t, t->root, addresses, retry);

	if (code)
		return code;
	/* In a flat tree the index of a child is of no use to it: any will do. */
	return tree_is_deep(t) ? join_deep(t) : tree_take_index(t, 1);
}

/* ------------------------------------------------------------- opening by id -- */

static void tree_text_key(const char *text, uint8_t key[16])
{
	static const uint8_t label[16] = "libcoll root key";

	siphash128(label, text, strlen(text), key);
}

/*
 * The shared key of an id.  Others may know the `key` of an id that has travelled among the parent's ranks or through
 * a launcher: it then also follows from the parent's key or COLL_KEY.  An abort of the parent's watched communicator
 * ends this rendezvous too.
 */
static void tree_id_key(struct tree *t, const struct bootstrap_id *id, const uint8_t key[16])
{
	const struct bootstrap *parent = id->parent;
	uint8_t own[BOOTSTRAP_KEY_SIZE];

	memcpy(t->shared, key, BOOTSTRAP_KEY_SIZE);
	t->bootstrap.key_is_secret = 1;
	if (id->stored != NULL) {
		tree_text_key(id->stored, own);
		siphash128(own, key, BOOTSTRAP_KEY_SIZE, t->shared);
		t->bootstrap.key_is_secret = id->stored[0] != '\0';
	}
	if (parent != NULL) {
		siphash128(parent->key, key, BOOTSTRAP_KEY_SIZE, t->shared);
		t->bootstrap.key_is_secret = parent->key_is_secret;
		t->bootstrap.aborted = parent->aborted;
		t->bootstrap.watched = parent->watched;
		bootstrap_guard(&t->bootstrap, parent->guard, parent->guard_user);
	}
}

int bootstrap_open_id(struct bootstrap **bootstrap, const struct bootstrap_id *id, int rank,
		      int nranks, const char *interface_name, int64_t timeout_ms)
{
	const int maker = id->maker;
	struct listeners listeners = {.count = 0};
	char left_out[ADDRESS_LEFT_OUT_SIZE] = "";
	uint8_t key[BOOTSTRAP_KEY_SIZE];
	struct address_list addrs;
	struct tree *t = NULL;
	int code, root;

	*bootstrap = NULL;
	unique_id_drop_inherited();
	code = unique_id_parse(id->text, key, &addrs);
	if (code == 0 && (maker < 0 || rank == maker))
		code = unique_id_take(key, rank, maker >= 0 || nranks == 1, &listeners, left_out);
	root = listeners.count > 0 ? rank : maker;
	if (code == 0)
		code = tree_new(&t, rank, nranks, root, interface_name, timeout_ms);
	if (t == NULL) { /* no rank shall wait at a port where the root will not answer */
		listeners_close(&listeners);
		return code;
	}
	tree_id_key(t, id, key);
	t->acceptor.listeners = listeners;
	memcpy(t->left_out, left_out, sizeof(t->left_out));
	if (code == 0 && !tree_is_root(t))
		code = tree_join(t, &addrs, 0);
	return tree_finish(t, code, bootstrap);
}

/* ---------------------------------------------- rank 0 of an address listens -- */

/*
 * Dials the port as any other rank does.  Returns the code with which its owner refuses, and the text, or 0: the owner
 * says nothing.
 */
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
	while (!code && dial.session.fd < 0 && clock_remaining(deadline) > 0)
		code = dial_step(&dial, &set, deadline);
	dial_end(&dial);
	if (dial.session.fd >= 0)
		close(dial.session.fd);
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
		if (address_is_loopback(&root.item[i]) && !address_list_has(addrs, &root.item[i]))
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
		if (getsockname(listeners->fd[i], &address.any, &address.len) ||
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
