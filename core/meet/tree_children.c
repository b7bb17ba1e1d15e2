/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tree_children.c - a rank's connections to its children: it lets them in, takes their frames, and sends them the answer.  The
 * root also lets in ranks that have no index yet, and gives them theirs.
 */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "meet/tree.h"

/* The time after a failure in which a rank still tells it to children that connect late. */
enum { LATE_MS = 2000 };

/* ------------------------------------------------------------------ connections -- */

static struct tree_child *child_of(struct tree_link *link)
{
	return (struct tree_child *)link;
}

static void child_watch(struct tree *t, struct tree_child *child, short events)
{
	poll_set_watch(&t->polls, &child->link.place, child->link.fd, events);
	if (child->link.place >= 0)
		t->conn_at[child->link.place] = 1 + (int)(child - t->conns);
}

/* Takes the connection of a rank that has proved the key. */
static void children_connected(void *owner, const struct session *session)
{
	struct tree *t = owner;
	struct tree_child *child = &t->conns[t->nconns];

	if (t->nconns ==
	    t->conns_max) { /* only a rank that uses another index than its own comes so */
		log_debug("rank %u is one child too many", session->rank);
		close(session->fd);
		return;
	}
	t->nconns++;
	child->placed = !tree_is_deep(t) || !tree_is_root(t);
	child->index = tree_is_root(t) ? t->nconns : 0;
	tree_link_open(t, &child->link, 1, session);
	socket_no_delay(session->fd);
	child_watch(t, child, POLLIN);
}

static void child_unwatch(struct tree *t, struct tree_child *child)
{
	if (child->link.place >= 0)
		t->conn_at[child->link.place] = 0;
	poll_set_unwatch(&t->polls, &child->link.place);
}

static void child_drop(struct tree *t, struct tree_child *child)
{
	child_unwatch(t, child);
	close(child->link.fd);
	child->link.fd = -1;
}

int tree_take_index(struct tree *t, int index)
{
	const int n = t->bootstrap.nranks;
	size_t places = 1;
	int code;

	t->index = index;
	t->nchildren = tree_shape_children(index, n);
	t->conns_max = index == 0 ? n - 1 : t->nchildren; /* every rank comes to the root first */
	if (t->nchildren > 0)
		places += (size_t)t->conns_max + acceptor_poll_size(&t->handshake);
	t->acceptor.hs = &t->handshake;
	t->acceptor.connected = children_connected;
	t->acceptor.owner = t;
	t->parent.place = -1;
	t->conns = calloc((size_t)t->conns_max + 1, sizeof(*t->conns));
	t->status = calloc((size_t)n, 1);
	t->conn_at = calloc(places, sizeof(*t->conn_at));
	if (t->conns == NULL || t->status == NULL || t->conn_at == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", n);
	code = t->nchildren > 0 ? acceptor_begin(&t->acceptor) : 0;
	return code ? code : poll_set_init(&t->polls, places);
}

static void link_close(struct tree_link *link)
{
	if (link->fd >= 0)
		close(link->fd);
	free(link->body);
}

void tree_close(struct tree *t)
{
	acceptor_end(&t->acceptor);
	link_close(&t->parent);
	for (int i = 0; i < t->nconns; i++)
		link_close(&t->conns[i].link);
	free(t->conns);
	free(t->status);
	free(t->conn_at);
	poll_set_free(&t->polls);
}

/* ------------------------------------------------------------------------ indices -- */

/* Sends a rank its index, whose parent has said where it listens. */
static int child_send_index(struct tree *t, struct tree_child *child)
{
	const int parent = tree_shape_parent(child->index, t->bootstrap.nranks);
	struct tree_place place = {.index = (uint32_t)child->index, .parent = (uint32_t)t->root};
	const struct tree_frame head = {.type = TREE_INDEX, .len = sizeof(place)};

	child->placed = 1;
	if (parent != 0) {
		place.parent = (uint32_t)tree_at_index(t, parent)->link.rank;
		memcpy(place.here, tree_at_index(t, parent)->here, sizeof(place.here));
	}
	if (!tree_link_send(t, &child->link, head, &place))
		return tree_link_lost(t, &child->link, 0);
	if (parent != 0)
		child_drop(t, child);
	return 0;
}

/* A rank has said where it listens: the root gives it its index, and theirs to the ranks that waited for this. */
static int child_give_index(struct tree *t, struct tree_child *child)
{
	const int n = t->bootstrap.nranks, parent = tree_shape_parent(child->index, n);
	const int first = tree_shape_first_child(child->index, n);
	int code = 0;

	if (parent == 0 || tree_at_index(t, parent)->here[0] != '\0')
		code = child_send_index(t, child);
	for (int i = 0; code == 0 && i < tree_shape_children(child->index, n); i++) {
		struct tree_child *below;

		if (first + i > t->nconns)
			break;
		below = tree_at_index(t, first + i);
		if (!below->placed && below->here[0] != '\0' && below->link.fd >= 0)
			code = child_send_index(t, below);
	}
	return code;
}

/* ------------------------------------------------------------------------- heads -- */

static int child_size(const struct tree *t, const struct tree_child *child)
{
	return child->index > 0 ? tree_shape_size(child->index, t->bootstrap.nranks) : 1;
}

/* A child of a rank that is not the root says its index with its first frame. */
static int child_take_index(struct tree *t, struct tree_child *child)
{
	const int index = (int)child->link.stream.head.index, n = t->bootstrap.nranks;
	int taken = child->index != 0 && child->index != index;

	if (tree_is_root(t))
		return 0;
	for (int i = 0; i < t->nconns; i++)
		taken |= &t->conns[i] != child && t->conns[i].index == index;
	if (index <= 0 || index >= n || tree_shape_parent(index, n) != t->index || taken)
		return tree_broke(child->link.rank,
				  "it says that it has index %u, below rank %d with index %d",
				  child->link.stream.head.index, t->bootstrap.rank, t->index);
	child->index = index;
	return 0;
}

/* The pieces of a child's subtree go behind the entries that this rank has: a leaf sends no number with its piece. */
static void child_place_entries(struct tree *t, struct tree_child *child, int size)
{
	const uint32_t rank = (uint32_t)child->link.rank;

	child->entries = t->entries + (size_t)t->nentries * (sizeof(rank) + t->len);
	t->nentries += size;
	if (size == 1)
		memcpy(child->entries, &rank, sizeof(rank));
	child->link.stream.body = child->entries + (size == 1 ? sizeof(rank) : 0);
}

static int child_take_piece_head(struct tree *t, struct tree_child *child)
{
	const struct tree_frame *head = &child->link.stream.head;
	const int size = child_size(t, child);
	const size_t each = size == 1 ? t->len : sizeof(uint32_t) + t->len;
	int code = tree_check_piece(head, child->link.rank, t->bootstrap.rank, t->round,
				    (size_t)size * each, t->failed || size > 1);

	if (code)
		return code;
	if (!t->failed && head->len != (size_t)size * each)
		return error_set(
			COLL_ERR_MISMATCH,
			"rank %d exchanges %llu bytes with those of %d ranks where rank %d "
			"exchanges %zu for each",
			child->link.rank, (unsigned long long)head->len, size, t->bootstrap.rank,
			t->len);
	if (!t->failed)
		child_place_entries(t, child, size);
	return 0;
}

/*
 * The shortest timeout counts for all ranks: only the root knows which ranks are missing.  A rank with children sends
 * its pieces late, and with them only the time that is left to it: timeout_ms counts from the beginning of the round on.
 */
static void child_take_timeout(struct tree *t, const struct tree_child *child)
{
	const struct tree_frame *head = &child->link.stream.head;
	const int64_t deadline = clock_now_ms() + head->timeout_ms;

	if (head->timeout_ms == UINT32_MAX || deadline >= t->deadline)
		return;
	if (child_size(t, child) == 1)
		t->timeout_ms = head->timeout_ms;
	else
		t->timeout_ms -= t->deadline - deadline;
	t->deadline = deadline;
}

/* The root learns from STATUS that the time of a rank far below it is up. */
static int child_take_status_head(struct tree *t, struct tree_child *child)
{
	const struct tree_frame *head = &child->link.stream.head;

	if (head->round != t->round || head->len != (uint64_t)t->bootstrap.nranks)
		return tree_broke(child->link.rank, "it has heard from %llu ranks of %d",
				  (unsigned long long)head->len, t->bootstrap.nranks);
	if (head->code != TREE_STALLED && clock_remaining(t->deadline) > 0) {
		t->deadline = clock_now_ms();
		t->timeout_ms = head->timeout_ms;
	}
	return tree_link_make_body(&child->link);
}

/* Checks the head of a frame and chooses the memory for the body. */
static int child_take_head(struct tree *t, struct tree_link *link)
{
	struct tree_child *child = child_of(link);
	const struct tree_frame *head = &link->stream.head;
	int code = child->placed ? child_take_index(t, child) : 0;

	if (code)
		return code;
	/* Not into child->here yet: a text there tells other ranks' turns that it is whole. */
	if (!child->placed && head->type == TREE_HERE && head->len < sizeof(child->here))
		return tree_link_make_body(link);
	if (tree_is_deep(t) && child->placed && head->type == TREE_STATUS)
		return child_take_status_head(t, child);
	if (!child->placed || child->status == TREE_CAME)
		return tree_broke(link->rank, "frame %u in round %u", head->type, t->round);
	child_take_timeout(t, child);
	if (head->type == TREE_PIECE)
		return child_take_piece_head(t, child);
	code = tree_check_piece(head, link->rank, t->bootstrap.rank, t->round, 0, 1);
	return code ? code : tree_link_make_body(link);
}

/* ------------------------------------------------------------------- whole frames -- */

/* The root checks whose pieces a child has sent: each rank has one place in the table. */
static int child_check_entries(struct tree *t, const struct tree_child *child)
{
	const uint8_t *entry = child->entries;

	for (int i = 0; i < child_size(t, child); i++, entry += sizeof(uint32_t) + t->len) {
		uint32_t rank;

		memcpy(&rank, entry, sizeof(rank));
		if (rank >= (uint32_t)t->bootstrap.nranks || t->status[rank] == TREE_PLACED)
			return tree_broke(child->link.rank,
					  "it has a piece of rank %u of %d, which was there "
					  "already or cannot be",
					  rank, t->bootstrap.nranks);
		t->status[rank] = TREE_PLACED;
	}
	return 0;
}

static int child_take_piece(struct tree *t, struct tree_child *child)
{
	int code = 0;

	if (child->link.stream.head.type == TREE_FAILED)
		tree_link_take_failed(t, &child->link);
	else if (tree_is_root(t) && !t->failed)
		code = child_check_entries(t, child);
	child->status = TREE_CAME;
	if (t->status[child->link.rank] != TREE_PLACED)
		t->status[child->link.rank] = TREE_CAME;
	t->missing--;
	return code;
}

/* The child's answer to a question for the log. */
static void child_take_stalled(struct tree *t, struct tree_child *child)
{
	child->stall_answered = 1;
	for (int r = 0; t->stall_status && r < t->bootstrap.nranks; r++)
		if (child->link.body[r] == TREE_WAITS || child->link.body[r] == TREE_CAME)
			t->stall_status[r] = child->link.body[r];
}

static void child_take_status(struct tree *t, struct tree_child *child)
{
	if (child->link.stream.head.code == TREE_STALLED) {
		child_take_stalled(t, child);
		return;
	}
	child->status = TREE_WAITS;
	for (int r = 0; r < t->bootstrap.nranks; r++)
		if (child->link.body[r] <= TREE_CAME && child->link.body[r] > t->status[r])
			t->status[r] = child->link.body[r];
}

static int child_take_frame(struct tree *t, struct tree_link *link)
{
	struct tree_child *child = child_of(link);

	switch (link->stream.head.type) {
	case TREE_HERE:
		snprintf(child->here, sizeof(child->here), "%s", tree_link_text(link));
		return child_give_index(t, child);
	case TREE_STATUS: child_take_status(t, child); return 0;
	default: return child_take_piece(t, child);
	}
}

int tree_child_take(struct tree *t, struct tree_child *child)
{
	return tree_link_receive(t, &child->link, child_take_head, child_take_frame);
}

/* ------------------------------------------------------------------- the answer -- */

/* Begins to send every child the answer.  Returns a child to which an earlier frame broke off, or NULL. */
static const struct tree_link *answer_begin(struct tree *t, const void *body, size_t len,
					    int failed)
{
	const struct tree_link *lost = NULL;
	struct tree_frame head = {.type = failed ? TREE_FAILED : TREE_TABLE,
				  .round = t->round,
				  .len = len,
				  .code = failed,
				  .rank = failed ? (uint32_t)t->failure->rank : 0};

	tree_seal_body(t->body_key, &head, body);
	for (int i = 0; i < t->nconns; i++)
		if (t->conns[i].link.fd >= 0 && !tree_link_begin(&t->conns[i].link, &head, body)) {
			lost = &t->conns[i].link;
			child_drop(t, &t->conns[i]);
		}
	return lost;
}

/* Sends more of the answer; returns the number of children that have not got all of it. */
static int answer_flush(struct tree *t, const struct tree_link **lost, int *lost_errno)
{
	int unsent = 0;

	for (int i = 0; i < t->nconns; i++) {
		struct tree_link *link = &t->conns[i].link;

		if (link->fd < 0 || link->out_left == 0)
			continue;
		if (tree_link_flush(t, link) < 0) {
			*lost = link;
			*lost_errno = errno;
			child_drop(t, &t->conns[i]);
		}
		unsent += link->fd >= 0 && link->out_left > 0;
	}
	return unsent;
}

/* Waits until a child takes more of the answer.  Children that have all of it may be in the next round already. */
static int answer_wait(struct tree *t)
{
	poll_set_unwatch(&t->polls, &t->parent.place);
	for (int i = 0; i < t->nconns; i++)
		if (t->conns[i].link.fd >= 0 && t->conns[i].link.out_left > 0)
			child_watch(t, &t->conns[i], POLLOUT);
		else
			child_unwatch(t, &t->conns[i]);
	return tree_wait(t, t->deadline);
}

static int answer_timed_out(struct tree *t)
{
	memset(t->status, TREE_WAITS, (size_t)t->bootstrap.nranks);
	for (int i = 0; i < t->nconns; i++)
		if (t->conns[i].link.out_left > 0) /* also a child that was lost meanwhile */
			t->status[t->conns[i].link.rank] = TREE_SILENT;
	return bootstrap_timeout_error(t->status, t->bootstrap.nranks, t->timeout_ms,
				       "they do not take the others' answers");
}

int tree_pass_down(struct tree *t, const void *body, size_t len, int failed)
{
	const struct tree_link *lost;
	int lost_errno = 0, waited = 0, code = 0;

	if (t->nchildren == 0) /* a leaf has nobody for whom to seal the table */
		return 0;
	lost = answer_begin(t, body, len, failed);
	while (code == 0 && answer_flush(t, &lost, &lost_errno) > 0) {
		code = clock_remaining(t->deadline) > 0 ? answer_wait(t) : answer_timed_out(t);
		waited = 1;
	}
	for (int i = 0; waited && i < t->nconns; i++)
		if (t->conns[i].link.fd >= 0)
			child_watch(t, &t->conns[i], POLLIN);
	return code || lost == NULL ? code : tree_link_lost(t, lost, lost_errno);
}

/* ------------------------------------------------------------------ the failure -- */

/*
 * Sends the error to every connected child that has not got it.  The connections stay open until the
 * bootstrap is closed, so that nothing overtakes the message.
 */
static void answer_send_failure(struct tree *t, int code, const char *text)
{
	const struct tree_frame head = {.type = TREE_FAILURE,
					.round = t->round,
					.len = strnlen(text, BOOTSTRAP_TEXT_SIZE - 1),
					.code = bootstrap_remote_code(code)};

	for (int i = 0; i < t->nconns; i++) {
		struct tree_child *child = &t->conns[i];

		if (child->link.fd < 0 || child->told)
			continue;
		child->told = 1;
		child_unwatch(t, child);
		if (tree_link_break_off(&child->link) ||
		    !tree_link_send(t, &child->link, head, text))
			log_debug("rank %d could not be told: %s", child->link.rank, text);
		shutdown(child->link.fd, SHUT_WR);
	}
}

/*
 * The rendezvous has failed before all children were connected.  Waits a short time for the late children and
 * tells them why: a rank that finds the port closed cannot know whether this one will still come.
 */
static void answer_tell_late(struct tree *t, int code, const char *text)
{
	int64_t end = clock_deadline(LATE_MS);

	if (end > t->deadline)
		end = t->deadline;
	t->acceptor.failed = code;
	t->acceptor.failed_text = text;
	poll_set_unwatch(&t->polls, &t->parent.place);
	while (t->nconns < t->conns_max && clock_remaining(end) > 0) {
		if (tree_wait(t, end))
			return;
		/* A rank that can never fit is told its own fault; this rank still waits for its other children. */
		if (acceptor_advance(&t->acceptor, &t->polls) != 0)
			log_debug("a late rank was turned away: %s", error_text());
		answer_send_failure(t, code, text);
	}
}

int tree_fail(struct tree *t, int code)
{
	char text[BOOTSTRAP_TEXT_SIZE];

	snprintf(text, sizeof(text), "%s", error_text());
	answer_send_failure(t, code, text);
	if (t->acceptor.listeners.count > 0 && code != COLL_ERR_ABORTED)
		answer_tell_late(t, code, text);
	acceptor_close(&t->acceptor);
	return error_set(code, "%s", text);
}
