/* SPDX-License-Identifier: BSD-3-Clause */
/* star_root.c - the root: it gives the ranks their seats and makes the table of all pieces. */
#include <stdio.h>
#include <string.h>
#include "bootstrap/star.h"
#include "base/error.h"
#include "base/log.h"

int star_root_init(struct star *t)
{
	const int n = t->bootstrap.nranks;
	int code = star_children_init(t, n - 1);

	t->nchildren = star_tree_children(0, n);
	return code ? code : random_bytes(t->acceptor.salt, sizeof(t->acceptor.salt));
}

/* ------------------------------------------------------------------------- seats -- */

/* The connection of the rank with that seat; seat 0 is the root's. */
static struct rank_connection *root_at_seat(const struct star *t, int seat)
{
	return &t->conns[seat - 1];
}

/* Sends a rank its seat, whose parent has said where it listens. */
static int root_send_seat(struct star *t, struct rank_connection *conn)
{
	const int parent = star_tree_parent(conn->seat, t->bootstrap.nranks);
	struct star_seat seat = {.seat = (uint32_t)conn->seat, .parent = (uint32_t)t->root};
	const struct star_frame head = {.type = STAR_SEAT, .len = sizeof(seat)};

	conn->seated = 1;
	if (parent != 0) {
		seat.parent = (uint32_t)root_at_seat(t, parent)->rank;
		memcpy(seat.here, root_at_seat(t, parent)->here, sizeof(seat.here));
	}
	if (!star_send_down(t, conn, head, &seat))
		return star_lost_error(t, conn->rank, conn->address, 0);
	if (parent != 0)
		star_drop(t, conn);
	return 0;
}

int star_give_seat(struct star *t, struct rank_connection *conn)
{
	const int n = t->bootstrap.nranks, parent = star_tree_parent(conn->seat, n);
	const int first = conn->seat * star_tree_fan(n) + 1;
	int code = 0;

	if (parent == 0 || root_at_seat(t, parent)->here[0] != '\0')
		code = root_send_seat(t, conn);
	for (int i = 0; code == 0 && i < star_tree_children(conn->seat, n); i++) {
		struct rank_connection *child;

		if (first + i > t->nconns)
			break;
		child = root_at_seat(t, first + i);
		if (!child->seated && child->here[0] != '\0' && child->fd >= 0)
			code = root_send_seat(t, child);
	}
	return code;
}

/* ------------------------------------------------------------------- who is missing -- */

/*
 * Nobody hears from the ranks below a silent one; those below one whose piece has come are there; those that
 * wait for the seat of their parent have been heard from.
 */
static int root_is_excused(const struct star *t, const uint8_t *heard, int seat)
{
	const struct rank_connection *conn = root_at_seat(t, seat);
	const int parent = star_tree_parent(seat, t->bootstrap.nranks);

	if (!conn->seated && conn->here[0] != '\0')
		return 1;
	return parent != 0 && heard[root_at_seat(t, parent)->rank] != STAR_WAITS;
}

void star_excuse(const struct star *t, uint8_t *heard)
{
	/* From the leaves to the root, so that a seat's judgement sees its parent's own. */
	for (int seat = t->nconns; seat > 0; seat--) {
		const int rank = root_at_seat(t, seat)->rank;

		if (heard[rank] == STAR_SILENT && root_is_excused(t, heard, seat))
			heard[rank] = STAR_WAITS;
	}
}

/* The time is up: names the ranks that are missing. */
static int root_overdue(struct star *t)
{
	char note[ACCEPTOR_NOTE_SIZE];

	star_excuse(t, t->heard);
	snprintf(note, sizeof(note), "%s", t->acceptor.note);
	if (!note[0] && t->left_out[0])
		snprintf(note, sizeof(note),
			 "the unique id has no room for %s (see option interface)", t->left_out);
	return bootstrap_timeout_error(t->heard, t->bootstrap.nranks, t->timeout_ms, note);
}

/* ----------------------------------------------------------------------- exchange -- */

int star_root_exchange(struct star *t, const void *in, void *out, size_t len,
		       struct bootstrap_failure *failure, int64_t timeout_ms)
{
	size_t body_len = (size_t)t->bootstrap.nranks * len;
	const void *body = out;
	int code;

	t->round++;
	t->timeout_ms = timeout_ms;
	t->deadline = clock_deadline(timeout_ms);
	t->failure = failure;
	t->table = out;
	star_children_begin(t, in, len);
	if (len > 0 && !t->failed)
		memmove(t->table + (size_t)t->root * len, in, len);
	code = star_gather(t, root_overdue);
	if (failure->code) {
		body = failure->text;
		body_len = strlen(failure->text);
	}
	if (code == 0)
		code = star_scatter(t, body, body_len, failure->code);
	return code ? star_fail(t, bootstrap_failed_too(failure, code)) : 0;
}
