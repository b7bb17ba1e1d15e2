/* SPDX-License-Identifier: BSD-3-Clause */
/* tree_link.c - the connection of a rank to its parent or to a child: its keys, and its frames in both directions. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/error.h"
#include "base/log.h"
#include "meet/tree.h"

/* ------------------------------------------------------------------------- keys -- */

static void link_mac(const void *user, const void *data, size_t len,
		     uint8_t mac[HANDSHAKE_MAC_SIZE])
{
	siphash128(((const struct tree *)user)->shared, data, len, mac);
}

static void link_log(const void *user, int level, const char *text)
{
	(void)user;
	log_message(LOG_SUBSYSTEM, level, "%s", text);
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

/* ------------------------------------------------------------------------ the wait -- */

int tree_wait(struct tree *t, int64_t wake)
{
	poll_set_begin(&t->polls, bootstrap_look(&t->bootstrap, wake));
	acceptor_prepare(&t->acceptor, &t->polls);
	poll_set_wait(&t->polls);
	return bootstrap_check_aborted(&t->bootstrap);
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

void tree_link_open(struct tree *t, struct tree_link *link, int is_parent,
		    const struct session *session)
{
	link->rank = (int)session->rank;
	link->fd = session->fd;
	link->place = -1;
	memcpy(link->address, session->address, sizeof(link->address));
	tree_stream_init(&link->stream, is_parent, session->key, t->body_key);
}

int tree_link_begin(struct tree_link *link, const struct tree_frame *head, const void *body)
{
	if (link->out_left > 0)
		return 0;
	link->out = *head;
	link->out_body = body;
	link->out_left = sizeof(*head) + (size_t)head->len;
	tree_seal(&link->stream, &link->out);
	return 1;
}

int tree_link_flush(struct tree *t, struct tree_link *link)
{
	const size_t size = sizeof(link->out), sent = size + (size_t)link->out.len - link->out_left;
	const size_t skip = sent > size ? sent - size : 0;
	struct iovec part[2] = {
		{.iov_base = (char *)&link->out + sent, .iov_len = size - sent},
		{.iov_base = link->out_body != NULL ? (char *)link->out_body + skip : NULL,
		 .iov_len = (size_t)link->out.len - skip}};
	const int first = sent < size ? 0 : 1;
	struct msghdr msg = {.msg_iov = part + first, .msg_iovlen = (size_t)(2 - first)};
	const ssize_t n = sendmsg(link->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);

	if (n < 0)
		return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR ? 0 : -1;
	t->bytes += (uint64_t)n;
	link->out_left -= (size_t)n;
	link->stream.sent += link->out_left == 0;
	return link->out_left == 0;
}

int tree_link_break_off(struct tree_link *link)
{
	if (link->out_left == sizeof(link->out) + (size_t)link->out.len)
		link->out_left = 0;
	return link->out_left > 0;
}

int tree_link_send(struct tree *t, struct tree_link *link, struct tree_frame head, const void *body)
{
	tree_seal_body(t->body_key, &head, body);
	/* A socket's buffer has space for a kilobyte, unless the rank does not read. */
	if (tree_link_begin(link, &head, body) && tree_link_flush(t, link) == 1)
		return 1;
	tree_link_break_off(link);
	return 0;
}

int tree_link_make_body(struct tree_link *link)
{
	link->body = malloc((size_t)link->stream.head.len + 1);
	if (link->body == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for what rank %d sends",
				 link->rank);
	link->stream.body = link->body;
	return 0;
}

const char *tree_link_text(struct tree_link *link)
{
	link->body[link->stream.head.len] = '\0';
	return (const char *)link->body;
}

void tree_link_take_failed(struct tree *t, struct tree_link *link)
{
	const struct tree_frame *head = &link->stream.head;
	const int known = head->rank < (uint32_t)t->bootstrap.nranks;

	bootstrap_merge_failure(t->failure, known ? (int)head->rank : link->rank, head->code,
				tree_link_text(link));
}

static int link_take_failure(struct tree_link *link)
{
	const int code = link->stream.head.code > 0 ? link->stream.head.code : COLL_ERR_REMOTE;
	const char *text = tree_link_text(link);

	link->ended = 1;
	return text[0] ? error_set(code, "%s", text)
		       : error_set(code, "rank %d failed: it sent no message", link->rank);
}

/* Anybody may send a FAILURE at any time. */
static int link_take_head(struct tree *t, struct tree_link *link, tree_take_fn take_head)
{
	int code;

	if (link->stream.head.type != TREE_FAILURE)
		return take_head(t, link);
	code = tree_check_message(&link->stream.head, link->rank);
	return code ? code : tree_link_make_body(link);
}

static int link_take_frame(struct tree *t, struct tree_link *link, tree_take_fn take_frame)
{
	const int code = link->stream.head.type == TREE_FAILURE ? link_take_failure(link)
								: take_frame(t, link);

	free(link->body);
	link->body = NULL;
	tree_stream_next(&link->stream);
	return code;
}

int tree_link_receive(struct tree *t, struct tree_link *link, tree_take_fn take_head,
		      tree_take_fn take_frame)
{
	enum tree_event event;
	uint8_t scrap[4096];
	size_t space;
	void *at = tree_stream_space(&link->stream, scrap, sizeof(scrap), &space);
	ssize_t n = socket_read(link->fd, at, space);
	int code = 0;

	if (n < 0) {
		link->ended = 1;
		return tree_link_lost(t, link, errno);
	}
	link->received += (uint64_t)n;
	t->bytes += (uint64_t)n;
	event = tree_stream_take(&link->stream, (size_t)n);
	if (event == TREE_HEAD) {
		code = link_take_head(t, link, take_head);
		if (code)
			return code;
		event = tree_stream_take(&link->stream, 0);
	}
	if (event == TREE_FORGED)
		return link_forged(t, link);
	return event == TREE_WHOLE ? link_take_frame(t, link, take_frame) : 0;
}

/* ---------------------------------------------------------------- between rounds -- */

/*
 * Are the first `n` bytes of these heads what the peer may send before this rank begins its next round?  A child
 * sends its piece, or a part of it; the parent a question for the log, if it is in the next round already.
 */
static int link_expects(const struct tree_link *link, const struct tree_frame *head, ssize_t n)
{
	if (n < (ssize_t)sizeof(*head))
		return 1; /* perhaps: the rest is on its way */
	if (!tree_is_sealed(&link->stream, head))
		return 0; /* the next round reports it */
	if (link->stream.is_parent)
		return head->type != TREE_FAILED && head->type != TREE_FAILURE;
	return n == (ssize_t)sizeof(*head) && head->type == TREE_WHO && head->code == TREE_STALLED;
}

int tree_link_failure_waits(const struct tree_link *link)
{
	/* The end of the connection would hide behind a question, so poll() looks for that. */
	struct pollfd end = {.fd = link->fd, .events = POLLRDHUP};
	struct tree_frame heads[2];
	ssize_t n;

	if (link->fd < 0)
		return 0;
	n = recv(link->fd, heads, sizeof(heads), MSG_PEEK | MSG_DONTWAIT);
	if (n < 0)
		return errno != EAGAIN && errno != EINTR;
	if (n == 0 || !link_expects(link, heads, n))
		return 1;
	return !link->stream.is_parent && poll(&end, 1, 0) > 0;
}

/* ------------------------------------------------------------------ the parent -- */

/* A rank near the root gives up before the ranks below it, so that they hear from it who is missing. */
int64_t tree_grace(const struct tree *t)
{
	const int n = t->bootstrap.nranks;
	const int levels = tree_shape_height(0, n) - 1, above = tree_shape_depth(t->index, n);

	return TREE_GRACE_MS + (int64_t)TREE_ASK_MS * (levels + (above > 1 ? above - 1 : 0));
}

int tree_no_answer(const struct tree *t)
{
	char seconds[24];

	return error_set(
		COLL_ERR_TIMEOUT,
		"timed out: rank %d of %d has not been heard from after %s s (rank %d would know "
		"which other ranks are missing)",
		t->parent_waits ? t->root : t->parent.rank, t->bootstrap.nranks,
		bootstrap_seconds(t->timeout_ms, seconds), t->root);
}

/* ----------------------------------------------------------------------- sending -- */

/*
 * Waits until the connection is ready, at most until the time `deadline`; *events: the events that poll found.  A connection
 * that is ready each time, though hardly a byte moves, counts until the time `last`.
 */
static int parent_poll(const struct tree *t, short wanted, int64_t deadline, int64_t last,
		       int *events)
{
	int code = bootstrap_check_aborted(&t->bootstrap);

	*events = 0;
	while (code == 0 && *events == 0) {
		*events =
			socket_poll(t->parent.fd, wanted, bootstrap_look(&t->bootstrap, deadline));
		code = bootstrap_check_aborted(&t->bootstrap);
		if (code == 0 && clock_remaining(*events == 0 ? deadline : last) == 0)
			code = tree_no_answer(t);
	}
	return code;
}

int tree_parent_send(struct tree *t, struct tree_frame head, const void *body, int64_t timeout_ms)
{
	const int64_t deadline = clock_deadline(timeout_ms), last = deadline + tree_grace(t);
	int code = bootstrap_check_aborted(&t->bootstrap), events, sent = 0;

	head.round = t->round;
	head.index = (uint32_t)t->index;
	tree_seal_body(t->body_key, &head, body);
	/* If the last frame broke off with the connection, the parent's last message, still unread, has the reason. */
	if (code || !tree_link_begin(&t->parent, &head, body))
		return code;
	sent = tree_link_flush(t, &t->parent);
	while (code == 0 && sent == 0 && !t->answered) {
		code = parent_poll(t, POLLIN | POLLOUT, deadline, last, &events);
		/* No space, and the parent has sent something: a question, or why it has stopped reading. */
		if (code == 0 && !(events & POLLOUT))
			code = tree_parent_take(t);
		else if (code == 0)
			sent = tree_link_flush(t, &t->parent);
	}
	if (sent > 0)
		t->piece_sent |= head.type == TREE_PIECE || head.type == TREE_FAILED;
	else
		tree_link_break_off(&t->parent);
	return code;
}

void tree_parent_tell(struct tree *t, int type, int code, const char *text)
{
	const struct tree_frame head = {.type = (uint32_t)type,
					.round = t->round,
					.len = strnlen(text, BOOTSTRAP_TEXT_SIZE - 1),
					.timeout_ms = UINT32_MAX,
					.code = code,
					.rank = (uint32_t)t->bootstrap.rank,
					.index = (uint32_t)t->index};

	if (t->parent.fd < 0 || t->parent.out_left > 0)
		return;
	if (!tree_link_send(t, &t->parent, head, text))
		log_debug("rank %d could not be told: %s", t->parent.rank, text);
}

/* --------------------------------------------------------------------- receiving -- */

void tree_parent_begin(struct tree *t, uint8_t *table, size_t len,
		       struct bootstrap_failure *failure)
{
	t->table = table;
	t->table_len = len;
	t->failure = failure;
	t->answered = 0;
	t->parent_waits = 0;
	t->piece_begun = t->piece_sent = 0;
}

static int parent_take_head(struct tree *t, struct tree_link *parent)
{
	const struct tree_frame *head = &parent->stream.head;
	int code;

	if (head->type == TREE_WHO && head->len == 0)
		return 0;
	parent->stream.body = t->table;
	if (head->type == TREE_INDEX && t->round == 0 && head->len == sizeof(struct tree_place))
		return 0;
	code = tree_check_table(head, parent->rank, t->round, t->table_len);
	if (code == 0 && !t->piece_begun)
		code = tree_broke(parent->rank, "frame %u of round %u came before the pieces",
				  head->type, head->round);
	return code || head->type == TREE_TABLE ? code : tree_link_make_body(parent);
}

static void parent_take_question(struct tree *t, const struct tree_link *parent)
{
	switch (parent->stream.head.code) {
	case TREE_HURRY: t->hurries = 1; break;
	case TREE_STALLED: t->stall_asked = 1; break;
	default:
		t->parent_waits = 1;
		t->deadline = clock_now_ms();
		break;
	}
}

static int parent_take_frame(struct tree *t, struct tree_link *parent)
{
	if (parent->stream.head.type == TREE_WHO) {
		parent_take_question(t, parent);
		return 0;
	}
	t->answered = 1;
	if (parent->stream.head.type != TREE_FAILED)
		return 0;
	t->failure->code =
		COLL_SUCCESS; /* the answer counts, also for a rank that has failed itself */
	tree_link_take_failed(t, parent);
	return 0;
}

int tree_parent_take(struct tree *t)
{
	return tree_link_receive(t, &t->parent, parent_take_head, parent_take_frame);
}

int tree_parent_await(struct tree *t)
{
	const int64_t end = t->deadline + tree_grace(t);
	int code = 0, events;

	while (code == 0 && !t->answered) {
		code = parent_poll(t, POLLIN, end, end + t->timeout_ms, &events);
		if (code == 0)
			code = tree_parent_take(t);
	}
	return code;
}
