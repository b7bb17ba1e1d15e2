/* SPDX-License-Identifier: BSD-3-Clause */
/* star_children.c - a rank's connections to its children: it lets them in and gathers their pieces. */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include "bootstrap/star.h"
#include "base/error.h"
#include "base/log.h"

/* ------------------------------------------------------------------ connections -- */

/* Takes the connection of a rank that has proved the key. */
static void children_connected(void *owner, uint32_t rank, int fd,
			       const uint8_t key[HANDSHAKE_KEY_SIZE])
{
	struct star *t = owner;
	struct rank_connection *conn = &t->conns[t->nconns];

	if (t->nconns ==
	    t->conns_max) { /* only a rank that uses another seat than its own comes so */
		log_debug("rank %u is one child too many", rank);
		close(fd);
		return;
	}
	t->nconns++;
	conn->rank = (int)rank;
	conn->fd = fd;
	conn->place = -1;
	conn->seated = !star_is_tree(t) || !star_is_root(t);
	conn->seat = star_is_root(t) ? t->nconns : 0;
	star_stream_init(&conn->stream, 1, key, t->body_key);
	socket_no_delay(fd);
	address_format_peer(fd, conn->address);
	poll_set_watch(&t->polls, &conn->place, fd, POLLIN);
	if (conn->place >= 0)
		t->conn_at[conn->place] = t->nconns;
}

int star_children_init(struct star *t, int conns_max)
{
	size_t n = (size_t)conns_max, places = n + 1 + acceptor_poll_size(&t->handshake);
	int code;

	t->acceptor.hs = &t->handshake;
	t->acceptor.connected = children_connected;
	t->acceptor.owner = t;
	t->place = -1;
	t->conns = calloc(n, sizeof(*t->conns));
	t->heard = calloc((size_t)t->bootstrap.nranks, 1);
	t->unsent = calloc(n, sizeof(*t->unsent));
	t->conn_at = calloc(places, sizeof(*t->conn_at));
	if (t->conns == NULL || t->heard == NULL || t->unsent == NULL || t->conn_at == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", conns_max);
	t->conns_max = conns_max;
	code = acceptor_begin(&t->acceptor);
	return code ? code : poll_set_init(&t->polls, places);
}

void star_children_close(struct star *t)
{
	acceptor_end(&t->acceptor);
	for (int i = 0; i < t->nconns; i++) {
		if (t->conns[i].fd >= 0)
			close(t->conns[i].fd);
		free(t->conns[i].body);
	}
	free(t->conns);
	free(t->heard);
	free(t->unsent);
	free(t->conn_at);
	free(t->entries);
	star_stall_end(t);
	poll_set_free(&t->polls);
}

int star_children_failure_waits(struct star *t)
{
	for (int i = 0; i < t->nconns; i++) {
		struct star_frame head;
		ssize_t n = -1;

		if (t->conns[i].fd >= 0)
			n = recv(t->conns[i].fd, &head, sizeof(head), MSG_PEEK | MSG_DONTWAIT);
		if (n == 0)
			return 1;
		/* The next bytes are the head of a frame.  The next exchange reports a wrong mac. */
		if (n == (ssize_t)sizeof(head) &&
		    (!star_is_sealed(&t->conns[i].stream, &head) || head.type == STAR_FAILED ||
		     head.type == STAR_FAILURE))
			return 1;
	}
	return 0;
}

/* ------------------------------------------------------------------------- heads -- */

static int child_size(const struct star *t, const struct rank_connection *conn)
{
	return conn->seat > 0 ? star_tree_size(conn->seat, t->bootstrap.nranks) : 1;
}

/* A child of a rank that is not the root says its seat with its first frame. */
static int child_take_seat(struct star *t, struct rank_connection *conn)
{
	const int seat = (int)conn->stream.head.seat, n = t->bootstrap.nranks;
	int taken = conn->seat != 0 && conn->seat != seat;

	if (star_is_root(t))
		return 0;
	for (int i = 0; i < t->nconns; i++)
		taken |= &t->conns[i] != conn && t->conns[i].seat == seat;
	if (seat <= 0 || seat >= n || star_tree_parent(seat, n) != t->seat || taken)
		return error_set(COLL_ERR_INTERNAL,
				 "rank %d broke the bootstrap's protocol: it says that it has seat "
				 "%u, below rank %d with seat %d",
				 conn->rank, conn->stream.head.seat, t->bootstrap.rank, t->seat);
	conn->seat = seat;
	return 0;
}

/* Memory of `len` bytes for a body that has no place of its own. */
static int child_make_body(struct rank_connection *conn, size_t len)
{
	conn->body = malloc(len + 1);
	if (conn->body == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for what rank %d sends",
				 conn->rank);
	conn->stream.body = conn->body;
	return 0;
}

/* The blocks of ranks below this one, for which this one makes entries for its own parent. */
static void child_place_entries(struct star *t, struct rank_connection *conn, int size)
{
	uint8_t *entry = t->entries + (size_t)t->nentries * (sizeof(uint32_t) + t->len);
	const uint32_t rank = (uint32_t)conn->rank;

	t->nentries += size;
	if (size == 1)
		memcpy(entry, &rank, sizeof(rank));
	conn->stream.body = size == 1 ? entry + sizeof(rank) : entry;
}

static int child_take_piece_head(struct star *t, struct rank_connection *conn)
{
	const struct star_frame *head = &conn->stream.head;
	const int size = child_size(t, conn);
	const size_t each = size == 1 ? t->len : sizeof(uint32_t) + t->len;
	int code = star_check_piece(head, conn->rank, t->bootstrap.rank, t->round,
				    (size_t)size * each, t->failed || size > 1);

	if (code)
		return code;
	if (!t->failed && head->len != (size_t)size * each)
		return error_set(
			COLL_ERR_MISMATCH,
			"rank %d exchanges %llu bytes with those of %d ranks where rank %d "
			"exchanges %zu for each",
			conn->rank, (unsigned long long)head->len, size, t->bootstrap.rank, t->len);
	if (t->failed)
		return 0;
	if (!star_is_root(t))
		child_place_entries(t, conn, size);
	else if (size > 1)
		return child_make_body(conn, (size_t)head->len);
	else if (t->len > 0)
		conn->stream.body = t->table + (size_t)conn->rank * t->len;
	return 0;
}

/*
 * The shortest timeout counts for all ranks: only the root knows which ranks are missing.  A rank with children sends
 * its pieces late, and with them only the time that is left to it: timeout_ms counts from the beginning of the round on.
 */
static void child_take_timeout(struct star *t, const struct rank_connection *conn)
{
	const struct star_frame *head = &conn->stream.head;
	const int64_t deadline = clock_now_ms() + head->timeout_ms;

	if (head->timeout_ms == UINT32_MAX || deadline >= t->deadline)
		return;
	if (child_size(t, conn) == 1)
		t->timeout_ms = head->timeout_ms;
	else
		t->timeout_ms -= t->deadline - deadline;
	t->deadline = deadline;
}

/* The root learns from HEARD that the time of a rank far below it is up. */
static int child_take_heard_head(struct star *t, struct rank_connection *conn)
{
	const struct star_frame *head = &conn->stream.head;

	if (head->round != t->round || head->len != (uint64_t)t->bootstrap.nranks)
		return error_set(COLL_ERR_INTERNAL,
				 "rank %d broke the bootstrap's protocol: it has heard from %llu "
				 "ranks of %d",
				 conn->rank, (unsigned long long)head->len, t->bootstrap.nranks);
	if (head->code != STAR_STALLED && clock_remaining(t->deadline) > 0) {
		t->deadline = clock_now_ms();
		t->timeout_ms = head->timeout_ms;
	}
	return child_make_body(conn, (size_t)head->len);
}

/* Checks the head of a frame and chooses the memory for the body. */
static int child_take_head(struct star *t, struct rank_connection *conn)
{
	const struct star_frame *head = &conn->stream.head;
	const int in_tree = star_is_tree(t);
	int code = conn->seated ? child_take_seat(t, conn) : 0;

	if (code)
		return code;
	if (!conn->seated && head->type == STAR_HERE && head->len < sizeof(conn->here)) {
		conn->stream.body = (uint8_t *)conn->here;
		return 0;
	}
	if (in_tree && conn->seated && head->type == STAR_HEARD)
		return child_take_heard_head(t, conn);
	if (head->type == STAR_FAILURE) {
		code = star_check_message(head, conn->rank);
		return code ? code : child_make_body(conn, (size_t)head->len);
	}
	if (!conn->seated || conn->heard == STAR_WHOLE_TREE)
		return error_set(COLL_ERR_INTERNAL,
				 "rank %d broke the bootstrap's protocol: frame %u in round %u",
				 conn->rank, head->type, t->round);
	child_take_timeout(t, conn);
	if (head->type == STAR_PIECE)
		return child_take_piece_head(t, conn);
	code = star_check_piece(head, conn->rank, t->bootstrap.rank, t->round, 0, 1);
	return code ? code : child_make_body(conn, (size_t)head->len);
}

/* ------------------------------------------------------------------- whole frames -- */

/* The piece of `rank`, which came from that child, has its place in the root's table. */
static int child_note_placed(struct star *t, const struct rank_connection *conn, uint32_t rank)
{
	if (rank >= (uint32_t)t->bootstrap.nranks || t->heard[rank] == STAR_PLACED)
		return error_set(COLL_ERR_INTERNAL,
				 "rank %d broke the bootstrap's protocol: it has a piece of "
				 "rank %u of %d, which was there already or cannot be",
				 conn->rank, rank, t->bootstrap.nranks);
	t->heard[rank] = STAR_PLACED;
	return 0;
}

/* Puts the blocks of a child's subtree into the root's table. */
static int child_take_entries(struct star *t, const struct rank_connection *conn)
{
	const size_t each = sizeof(uint32_t) + t->len;
	int code = 0;

	for (size_t at = 0; code == 0 && at < conn->stream.head.len; at += each) {
		uint32_t rank;

		memcpy(&rank, conn->body + at, sizeof(rank));
		code = child_note_placed(t, conn, rank);
		if (code == 0 && t->len > 0) /* a barrier has no table */
			memcpy(t->table + rank * t->len, conn->body + at + sizeof(rank), t->len);
	}
	return code;
}

static void child_take_failed(struct star *t, const struct rank_connection *conn)
{
	const struct star_frame *head = &conn->stream.head;
	const int known = head->rank < (uint32_t)t->bootstrap.nranks;

	conn->body[head->len] = '\0';
	bootstrap_merge_failure(t->failure, known ? (int)head->rank : conn->rank, head->code,
				(const char *)conn->body);
}

static int child_take_failure(const struct rank_connection *conn)
{
	const int code = conn->stream.head.code;

	conn->body[conn->stream.head.len] = '\0';
	if (conn->body[0] == '\0')
		return error_set(code > 0 ? code : COLL_ERR_REMOTE,
				 "rank %d failed: it sent no message", conn->rank);
	return error_set(code > 0 ? code : COLL_ERR_REMOTE, "%s", (const char *)conn->body);
}

static int child_take_piece(struct star *t, struct rank_connection *conn)
{
	int code = 0;

	if (conn->stream.head.type == STAR_FAILED)
		child_take_failed(t, conn);
	else if (conn->body != NULL)
		code = child_take_entries(t, conn);
	else if (star_is_root(t) && !t->failed)
		code = child_note_placed(t, conn, (uint32_t)conn->rank);
	conn->heard = STAR_WHOLE_TREE;
	if (t->heard[conn->rank] != STAR_PLACED)
		t->heard[conn->rank] = STAR_WHOLE_TREE;
	t->missing--;
	return code;
}

static void child_take_heard(struct star *t, struct rank_connection *conn)
{
	conn->heard = STAR_WAITS;
	for (int r = 0; r < t->bootstrap.nranks; r++)
		if (conn->body[r] <= STAR_WHOLE_TREE && conn->body[r] > t->heard[r])
			t->heard[r] = conn->body[r];
}

/* The frame and its body are there, and nobody has changed them. */
static int child_take_frame(struct star *t, struct rank_connection *conn)
{
	int code = 0;

	switch (conn->stream.head.type) {
	case STAR_HERE:
		conn->here[conn->stream.head.len] = '\0';
		code = star_give_seat(t, conn);
		break;
	case STAR_HEARD:
		if (conn->stream.head.code == STAR_STALLED)
			star_stall_take(t, conn);
		else
			child_take_heard(t, conn);
		break;
	case STAR_FAILURE: code = child_take_failure(conn); break;
	default: code = child_take_piece(t, conn); break;
	}
	free(conn->body);
	conn->body = NULL;
	star_stream_next(&conn->stream);
	return code;
}

/* Reads the bytes that the other end has sent of its frame. */
static int child_recv(struct star *t, struct rank_connection *conn)
{
	enum star_event event;
	uint8_t scrap[4096];
	size_t room;
	void *at = star_stream_space(&conn->stream, scrap, sizeof(scrap), &room);
	ssize_t n = socket_read(conn->fd, at, room);

	if (n < 0)
		return star_lost_error(t, conn->rank, conn->address, errno);
	t->bytes += (uint64_t)n;
	event = star_stream_take(&conn->stream, (size_t)n);
	if (event == STAR_HEAD) {
		int code = child_take_head(t, conn);

		if (code)
			return code;
		event = star_stream_take(&conn->stream, 0);
	}
	if (event == STAR_FORGED)
		return star_forged_error(t, conn->rank, conn->address);
	return event == STAR_WHOLE ? child_take_frame(t, conn) : 0;
}

/* ----------------------------------------------------------------------- the loop -- */

void star_children_begin(struct star *t, const void *in, size_t len)
{
	const uint32_t rank = (uint32_t)t->bootstrap.rank;

	t->len = len;
	t->failed = t->failure->code != COLL_SUCCESS;
	t->missing = t->nchildren;
	t->asked = 0;
	t->hurries = t->hurried = 0;
	star_stall_begin(t);
	memset(t->heard, STAR_SILENT, (size_t)t->bootstrap.nranks);
	t->heard[rank] = star_is_root(t) ? STAR_PLACED : STAR_WAITS;
	for (int i = 0; i < t->nconns; i++) {
		t->conns[i].heard = STAR_SILENT;
		t->conns[i].sent = 0;
	}
	if (t->failed || star_is_root(t))
		return;
	memcpy(t->entries, &rank, sizeof(rank));
	if (len > 0)
		memcpy(t->entries + sizeof(rank), in, len);
	t->nentries = 1;
}

int star_step(struct star *t, int64_t wake)
{
	int code, place, cursor = 0;

	poll_set_begin(&t->polls, bootstrap_look(&t->bootstrap, wake));
	if (t->fd >= 0)
		poll_set_watch(&t->polls, &t->place, t->fd, POLLIN);
	acceptor_prepare(&t->acceptor, &t->polls);
	poll_set_wait(&t->polls);
	code = bootstrap_check_aborted(&t->bootstrap);
	/* The parent first: its reason is better than the end of a child which had it too. */
	if (code == 0 && t->fd >= 0 && poll_set_events(&t->polls, t->place))
		code = star_take_answer(t);
	while (code == 0 && (place = poll_set_next(&t->polls, &cursor)) >= 0)
		if (t->conn_at[place] > 0)
			code = child_recv(t, &t->conns[t->conn_at[place] - 1]);
	return code ? code : acceptor_advance(&t->acceptor, &t->polls);
}

int star_ask(struct star *t)
{
	const int levels = star_tree_height(t->seat, t->bootstrap.nranks) - 1;
	const struct star_frame who = {.type = STAR_WHO, .round = t->round};
	int waits = 0;

	if (!star_is_tree(t))
		return 0;
	if (!t->asked)
		t->patience = clock_deadline((int64_t)levels * STAR_ASK_MS);
	for (int i = 0; i < t->nconns; i++) {
		struct rank_connection *conn = &t->conns[i];

		if (conn->fd < 0 || !conn->seated)
			continue;
		waits |= conn->heard == STAR_SILENT;
		if (!t->asked && !star_send_down(t, conn, who, NULL))
			log_debug("rank %d could not be asked which ranks are missing", conn->rank);
	}
	t->asked = 1;
	return waits && clock_remaining(t->patience) > 0;
}

/*
 * A rank has failed: children that have not come may wait for that rank in their plugins.  The frame makes them look here
 * (star_member_failure_waits).
 */
static void star_hurry(struct star *t)
{
	const struct star_frame who = {.type = STAR_WHO, .round = t->round, .code = STAR_HURRY};

	if (t->hurried || !(t->hurries || t->failure->code))
		return;
	t->hurried = 1;
	for (int i = 0; i < t->nconns; i++)
		if (t->conns[i].fd >= 0 && t->conns[i].seated && t->conns[i].heard == STAR_SILENT)
			(void)star_send_down(t, &t->conns[i], who, NULL);
}

int star_gather(struct star *t, int (*overdue)(struct star *t))
{
	int code = 0, told = 0;

	while (code == 0 && t->missing > 0) {
		star_hurry(t);
		code = star_step(t, told       ? clock_deadline(BOOTSTRAP_LOOK_MS)
				    : t->asked ? t->patience
					       : star_stall_wake(t));
		if (code == 0 && t->missing > 0 && !t->asked)
			code = star_stall(t);
		if (code || t->missing == 0 || clock_remaining(t->deadline) > 0)
			continue;
		if (told || !star_ask(t)) {
			code = overdue(t);
			told = 1;
		}
	}
	star_stall_end(t);
	/*
	 * Closes the listeners before any rank has the table: with it a rank may begin another
	 * rendezvous.  After a failure children may still come: star_fail tells them.
	 */
	if (code == 0)
		acceptor_close(&t->acceptor);
	return code;
}
