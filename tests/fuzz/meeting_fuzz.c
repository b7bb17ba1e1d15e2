/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * meeting_fuzz.c - a whole meeting of rank 0 and rank 1, over sockets.
 *
 * First both shake hands through a relay that changes bytes; then rank 0, and after it rank 1, exchanges with a
 * peer that knows the key and sends frames with any fault.  Then three ranks form a tree: rank 0 gives the two
 * others their indices, and rank 1 stands between rank 0 and rank 2.  All runs in one thread: every byte for an
 * exchange is in the socket, and the socket is closed, before the exchange begins.
 *
 * Input: changes of the handshake, each a direction, a distance to the last change and a mask, after their
 * number; then, for rank 0, for rank 1 and for each connection of the tree, frames as described at put_frame.
 */
#include "fuzz.h"
#include <poll.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>
#include "base/error.h"
#include "meet/tree.h"

const char *const fuzz_name = "meeting";
const long fuzz_runs = 5000;

enum { ROUNDS = 3, LENGTH = 24, CHANGES = 8, STEPS = 40, TIMEOUT_MS = 10000 };

/* ------------------------------------------------------------------ the handshake -- */

static const uint8_t job_key[BOOTSTRAP_KEY_SIZE] = "the job's key";

/* The two listening sockets, which live as long as the process: rank 0's and the relay's. */
static struct {
	int fd;
	struct address address;
} listening[2];

/* One direction of the relay: TO_ROOT, FROM_ROOT. */
static struct flow {
	int from, to;
	size_t passed;
	size_t at[CHANGES]; /* the places of the bytes to change */
	uint8_t mask[CHANGES];
	int changes, changed;
} flows[2];

static struct session accepted;

static void job_mac(const void *user, const void *data, size_t len, uint8_t mac[16])
{
	siphash128(user, data, len, mac);
}

static void job_log(const void *user, int level, const char *text)
{
	(void)user;
	(void)level;
	(void)text;
}

static void root_connected(void *owner, const struct session *session)
{
	(void)owner;
	fuzz_promise(session->rank == 1 && accepted.fd < 0, "rank 1 connects once");
	accepted = *session;
}

/* Makes the sockets, or closes the connections that the last meeting has left in their queues. */
static void listen_once(void)
{
	char name[64];
	int err, fd;

	for (int i = 0; i < 2 && listening[i].fd != 0; i++)
		while ((fd = accept(listening[i].fd, NULL, NULL)) >= 0)
			close(fd);

	for (int i = 0; i < 2 && listening[i].fd == 0; i++) {
		snprintf(name, sizeof(name), "coll-fuzz-%d-%d", (int)getpid(), i);
		address_local(name, &listening[i].address);
		if (socket_listen(&listening[i].address, NULL, NULL, &listening[i].fd, &err))
			exit(2);
	}
}

static void read_changes(struct fuzz_input *in)
{
	memset(flows, 0, sizeof(flows));
	flows[0].from = flows[1].from = -1;
	for (unsigned n = fuzz_up_to(in, CHANGES); n > 0; n--) {
		struct flow *flow = &flows[fuzz_up_to(in, 1)];
		int i = flow->changes++;

		flow->at[i] = fuzz_byte(in) + (i ? flow->at[i - 1] + 1 : 0);
		flow->mask[i] = (uint8_t)fuzz_byte(in);
	}
}

static void relay_connect(void)
{
	int member = accept(listening[1].fd, NULL, NULL), root = socket_new(AF_UNIX);

	if (member < 0 || root < 0 || socket_connect(root, &listening[0].address))
		exit(2);
	flows[0].from = flows[1].to = member;
	flows[0].to = flows[1].from = root;
}

static void relay_pass(struct flow *flow)
{
	uint8_t bytes[1024];
	ssize_t n = flow->from < 0 ? 0 : recv(flow->from, bytes, sizeof(bytes), MSG_DONTWAIT);

	for (ssize_t i = 0; i < n; i++)
		for (int c = 0; c < flow->changes; c++)
			if (flow->passed + (size_t)i == flow->at[c]) {
				bytes[i] ^= flow->mask[c];
				flow->changed += flow->mask[c] != 0;
			}
	if (n > 0 && send(flow->to, bytes, (size_t)n, MSG_NOSIGNAL) > 0)
		flow->passed += (size_t)n;
}

/* Lets both ends and the relay take turns until both have a connection or nothing more can come. */
static void take_turns(struct acceptor *acceptor, struct dial *dial, struct poll_set *set)
{
	struct pollfd relay = {.fd = listening[1].fd, .events = POLLIN};

	for (int step = 0; step < STEPS && (dial->session.fd < 0 || accepted.fd < 0); step++) {
		poll_set_begin(set, 0);
		if (dial->session.fd < 0 && dial_prepare(dial, set))
			return;
		acceptor_prepare(acceptor, set);
		poll_set_wait(set);
		if (dial->session.fd < 0 && dial_advance(dial, set))
			return;
		if (acceptor_advance(acceptor, set))
			return;
		if (flows[0].from < 0 && poll(&relay, 1, 0) > 0)
			relay_connect();
		relay_pass(&flows[0]);
		relay_pass(&flows[1]);
		if (dial->attempts[0].tries > 0)
			return;
	}
}

/* Returns 1 and the salt and the session key if rank 0 and rank 1 are connected. */
static int shake_hands(uint8_t salt[HANDSHAKE_SALT_SIZE], uint8_t key[HANDSHAKE_KEY_SIZE])
{
	struct handshake hs = {.magic = {'C', 'O', 'L', 'L', 'F', 'U', 'Z', 'Z'},
			       .version = TREE_VERSION,
			       .name = "fuzz",
			       .nranks = 2,
			       .mac = job_mac,
			       .log = job_log,
			       .user = job_key};
	struct handshake member = hs;
	struct acceptor acceptor = {.hs = &hs, .connected = root_connected};
	struct dial dial = {.hs = &member,
			    .addresses = {.item = {listening[1].address}, .count = 1}};
	struct poll_set set = {.fds = NULL};
	int both;

	member.rank = 1;
	accepted.fd = -1;
	acceptor.listeners = (struct listeners){.fd = {dup(listening[0].fd)}, .count = 1};
	if (acceptor_begin(&acceptor) || dial_begin(&dial) ||
	    poll_set_init(&set, ADDRESS_MAX + acceptor_poll_size(&hs)))
		exit(2);
	take_turns(&acceptor, &dial, &set);
	both = dial.session.fd >= 0 && accepted.fd >= 0;
	fuzz_promise(accepted.fd < 0 || flows[0].changed + flows[1].changed == 0,
		     "rank 0 takes no connection with a changed byte");
	if (both)
		fuzz_promise(!memcmp(dial.session.key, accepted.key, sizeof(dial.session.key)),
			     "both ends have the same session key");
	memcpy(salt, acceptor.salt, HANDSHAKE_SALT_SIZE);
	memcpy(key, dial.session.key, HANDSHAKE_KEY_SIZE);
	dial_end(&dial);
	acceptor_end(&acceptor);
	poll_set_free(&set);
	for (int fd, i = 0; i < 4; i++) {
		fd = i < 2 ? flows[i].from : i == 2 ? dial.session.fd : accepted.fd;
		if (fd >= 0)
			close(fd);
	}
	return both;
}

/* -------------------------------------------------------------------- the frames -- */

enum { UNSEALED = 1, OTHER_BODY = 2, OTHER_FIELDS = 4, OTHER_LENGTH = 8, CUT = 16 };

/*
 * Writes one frame: a byte of faults, then the fields, the length and the place of the cut if they are among the
 * faults, then the body.  Returns 0 after a cut.
 */
static int put_frame(struct fuzz_input *in, int fd, struct tree_stream *stream,
		     struct tree_frame head)
{
	unsigned how = fuzz_byte(in);
	uint8_t bytes[sizeof(head) + 2048];
	size_t n;

	if (how & OTHER_FIELDS) {
		head.type = fuzz_up_to(in, 9);
		head.round += fuzz_up_to(in, 2);
		fuzz_take(in, &head.code, 4);
		head.index = fuzz_up_to(in, 3);
		head.rank = fuzz_up_to(in, 3);
	}
	if (how & OTHER_LENGTH)
		fuzz_take(in, &head.len, 1 + fuzz_up_to(in, 7));
	n = sizeof(head) + (head.len < 2048 ? (size_t)head.len : 2048);
	fuzz_take(in, bytes + sizeof(head), n - sizeof(head));
	siphash128(stream->body_key, bytes + sizeof(head), n - sizeof(head), head.body_mac);
	if (how & OTHER_BODY)
		head.body_mac[5] ^= 1;
	tree_seal(stream, &head);
	if (how & UNSEALED)
		head.mac[7] ^= 1;
	memcpy(bytes, &head, sizeof(head));
	if (how & CUT)
		n = fuzz_byte(in) % n;
	stream->sent++;
	return send(fd, bytes, n, MSG_NOSIGNAL) == (ssize_t)n && !(how & CUT);
}

/* The head of the frame that the other end sends in a flat tree in that round. */
static struct tree_frame usual_head(const struct tree_stream *stream, uint32_t round)
{
	return (struct tree_frame){.type = stream->is_parent ? TREE_TABLE : TREE_PIECE,
				   .round = round,
				   .len = stream->is_parent ? 2 * LENGTH : LENGTH,
				   .timeout_ms = TIMEOUT_MS};
}

/* A rank of a meeting that has got so far; facts: memory for the facts about nranks processes. */
static struct tree *new_tree(int rank, int nranks, const uint8_t salt[HANDSHAKE_SALT_SIZE],
			     struct bootstrap_peer *facts)
{
	struct tree *t = fuzz_memory(sizeof(*t));

	t->bootstrap.rank = rank;
	t->bootstrap.nranks = nranks;
	t->bootstrap.peers = facts;
	t->parent.fd = -1;
	memcpy(t->shared, job_key, sizeof(t->shared));
	tree_set_handshake(t);
	tree_derive_keys(t, salt);
	return t;
}

/* The descriptor is the connection to that child, or to the parent, whose handshake is over. */
static void connect_link(struct tree *t, uint32_t rank, int fd,
			 const uint8_t key[HANDSHAKE_KEY_SIZE], int is_parent)
{
	struct session session = {.rank = rank, .fd = fd, .family = AF_UNIX};

	memcpy(session.key, key, sizeof(session.key));
	if (is_parent)
		t->acceptor.connected(t, &session);
	else
		tree_link_open(t, &t->parent, 0, &session);
}

static void new_pair(int fds[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
		exit(2);
}

/* Runs exchanges until one fails, which the last one must. */
static void run_rounds(struct fuzz_input *in, struct tree *t)
{
	uint8_t *piece = fuzz_memory(LENGTH);
	uint8_t *table = fuzz_memory((size_t)t->bootstrap.nranks * LENGTH);
	int code = 0;

	for (int round = 0; round < ROUNDS + 1 && !code; round++) {
		struct bootstrap_failure failure = {.code = fuzz_byte(in) > 240 ? COLL_ERR_CONFIG
										: 0,
						    .text = "this rank has failed"};

		code = tree_exchange(t, piece, table, LENGTH, &failure, TIMEOUT_MS);
	}
	fuzz_promise(code && error_text()[0],
		     "the exchange after the last frame fails with a text");
	free(piece);
	free(table);
}

/* Runs the exchanges of one rank, whose peer has already sent everything. */
static void exchange(struct fuzz_input *in, int rank, const uint8_t salt[HANDSHAKE_SALT_SIZE],
		     const uint8_t key[HANDSHAKE_KEY_SIZE])
{
	struct bootstrap_peer facts[2] = {{.pid = 0}};
	struct tree *t = new_tree(rank, 2, salt, facts);
	struct tree_stream peer = {.sent = 0};
	int fds[2];

	tree_stream_init(&peer, rank == 1, key, t->body_key);
	new_pair(fds);
	if (tree_take_index(t, rank))
		exit(2);
	for (uint32_t round = 1;
	     round <= ROUNDS && put_frame(in, fds[1], &peer, usual_head(&peer, round)); round++)
		;
	shutdown(fds[1], SHUT_WR);
	if (rank == 0)
		connect_link(t, 1, fds[0], key, 1);
	else
		connect_link(t, 0, fds[0], key, 0);
	run_rounds(in, t);
	tree_close(t);
	close(fds[1]);
	free(t);
}

/* ------------------------------------------------------------------------- the tree -- */

static const char some_id[] = "coll2:AAAAAAAAAAAAAAAAAAAAAAABAgMEBQ";

/* Rank 0 of a chain of three: rank 1 says where it is and then sends the pieces of both; rank 2 leaves. */
static void tree_root(struct fuzz_input *in, const uint8_t salt[HANDSHAKE_SALT_SIZE],
		      const uint8_t key[HANDSHAKE_KEY_SIZE])
{
	struct bootstrap_peer facts[3] = {{.pid = 0}};
	struct tree *t = new_tree(0, 3, salt, facts);
	int fds[2][2];

	if (tree_take_index(t, 0))
		exit(2);
	for (int i = 0; i < 2; i++) {
		struct tree_stream peer = {.sent = 0};
		struct tree_frame head = {.type = TREE_HERE, .len = sizeof(some_id) - 1};

		tree_stream_init(&peer, 0, key, t->body_key);
		new_pair(fds[i]);
		for (uint32_t round = 0; round <= ROUNDS && put_frame(in, fds[i][1], &peer, head);
		     round++)
			head = (struct tree_frame){.type = TREE_PIECE,
						   .round = round + 1,
						   .index = 1,
						   .len = 2 * (4 + LENGTH),
						   .timeout_ms = TIMEOUT_MS};
		shutdown(fds[i][1], SHUT_WR);
		connect_link(t, (uint32_t)i + 1, fds[i][0], key, 1);
	}
	run_rounds(in, t);
	tree_close(t);
	close(fds[0][1]);
	close(fds[1][1]);
	free(t);
}

/* Rank 1 of the chain, between rank 0 and rank 2. */
static void tree_inner(struct fuzz_input *in, const uint8_t salt[HANDSHAKE_SALT_SIZE],
		       const uint8_t key[HANDSHAKE_KEY_SIZE])
{
	struct bootstrap_peer facts[3] = {{.pid = 0}};
	struct tree *t = new_tree(1, 3, salt, facts);
	struct tree_stream above = {.sent = 0}, below = {.sent = 0};
	int up[2], down[2];

	if (tree_take_index(t, 1))
		exit(2);
	tree_stream_init(&above, 1, key, t->body_key);
	tree_stream_init(&below, 0, key, t->body_key);
	new_pair(up);
	new_pair(down);
	for (uint32_t round = 1; round <= ROUNDS; round++) {
		struct tree_frame table = usual_head(&above, round);
		struct tree_frame piece = usual_head(&below, round);

		table.len = 3 * LENGTH;
		piece.index = 2;
		if (!put_frame(in, down[1], &below, piece) || !put_frame(in, up[1], &above, table))
			break;
	}
	shutdown(up[1], SHUT_WR);
	shutdown(down[1], SHUT_WR);
	connect_link(t, 0, up[0], key, 0);
	connect_link(t, 2, down[0], key, 1);
	run_rounds(in, t);
	tree_close(t);
	close(up[1]);
	close(down[1]);
	free(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	uint8_t salt[HANDSHAKE_SALT_SIZE], key[HANDSHAKE_KEY_SIZE];

	error_set(COLL_SUCCESS, "%s", "");
	listen_once();
	read_changes(&in);
	if (!shake_hands(salt, key))
		return 0;
	exchange(&in, 0, salt, key);
	exchange(&in, 1, salt, key);
	tree_shape.flat = tree_shape.fan = 1;
	tree_root(&in, salt, key);
	tree_inner(&in, salt, key);
	tree_shape.flat = 256;
	return 0;
}
