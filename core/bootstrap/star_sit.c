/* SPDX-License-Identifier: BSD-3-Clause */
/* star_sit.c - a rank that is not the root connects to it; in a tree it gets a seat and connects to its parent. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/star.h"

/* ------------------------------------------------------------------ connecting -- */

enum { SIT_PEER_SIZE = 64 };

/* Before it has a connection a rank knows an id's maker only as such. */
static const char *sit_peer(int peer, char text[SIT_PEER_SIZE])
{
	if (peer < 0)
		return "the maker of the unique id (usually rank 0)";
	snprintf(text, SIT_PEER_SIZE, "rank %d", peer);
	return text;
}

static int sit_not_connected(const struct star *t, int peer, int code)
{
	char text[BOOTSTRAP_TEXT_SIZE], who[SIT_PEER_SIZE];
	const char *advice = "";

	snprintf(text, sizeof(text), "%s", error_text());
	if (code == COLL_ERR_PEER_LOST)
		advice =
			peer < 0
				? " (it has ended, it is no rank of the job, all its ranks are "
				  "there "
				  "already, or the job has already failed: read the messages of "
				  "the "
				  "other ranks)"
				: " (it has ended, all its ranks are there already, or the job has "
				  "already failed: read the messages of the other ranks)";
	return error_set(code, "rank %d cannot meet %s: %s%s", t->bootstrap.rank,
			 sit_peer(peer, who), text, advice);
}

/* The time is up. */
static int sit_timed_out(const struct star *t, const struct dial *dial, int peer,
			 int64_t timeout_ms)
{
	char seconds[24], peer_text[SIT_PEER_SIZE], report[DIAL_REPORT_SIZE], advice[200] = "";
	const char *who = sit_peer(peer, peer_text);

	dial_report(dial, report);
	if (peer < 0 && dial_meets_silence(dial))
		snprintf(advice, sizeof(advice),
			 " (the process that made the unique id must be a rank of the job, and has "
			 "not "
			 "called coll_comm_init_rank with the id yet)");
	else if (dial_misses_peer(dial))
		snprintf(advice, sizeof(advice),
			 " (%s has not started yet, or the job has already failed: read the "
			 "messages of "
			 "the other ranks)",
			 peer < 0 ? "it" : who);
	return error_set(COLL_ERR_TIMEOUT,
			 "timed out: %s of %d has not been heard from after %s s; "
			 "%s%s%s%s",
			 who, t->bootstrap.nranks, bootstrap_seconds(timeout_ms, seconds),
			 dial->note, dial->note[0] && report[0] ? "; " : "", report, advice);
}

/*
 * Long before the time is up the log says why this rank has not come.  If the reason is that nobody answers, it is the same
 * on all ranks, and rank 1 tells it for all.
 */
static void sit_say_late(const struct star *t, const struct dial *dial, int peer)
{
	const int alike = dial_misses_peer(dial) && t->bootstrap.rank > 1;
	char who[SIT_PEER_SIZE], report[DIAL_REPORT_SIZE];

	dial_report(dial, report);
	if (alike)
		log_info("rank %d has not reached %s yet: %s", t->bootstrap.rank,
			 sit_peer(peer, who), report);
	else
		log_warn("rank %d has not reached %s yet: %s", t->bootstrap.rank,
			 sit_peer(peer, who), report);
}

static int sit_wait(struct star *t, struct dial *dial, struct poll_set *set, int peer,
		    int64_t deadline, int64_t timeout_ms)
{
	int64_t stall_at = bootstrap_stall_time();
	int code = dial_begin(dial);

	while (code == 0 && dial->fd < 0) {
		code = bootstrap_check_aborted(&t->bootstrap);
		if (code)
			return code;
		poll_set_begin(set, bootstrap_look(&t->bootstrap, deadline));
		poll_set_wake(set, stall_at);
		code = dial_prepare(dial, set);
		if (code == 0) {
			poll_set_wait(set);
			code = dial_advance(dial, set);
		}
		if (code == 0 && dial->fd < 0 && clock_remaining(stall_at) == 0) {
			sit_say_late(t, dial, peer);
			stall_at = INT64_MAX;
		}
		if (code == 0 && dial->fd < 0 && clock_remaining(deadline) == 0)
			return sit_timed_out(t, dial, peer, timeout_ms);
	}
	return code ? sit_not_connected(t, peer, code) : 0;
}

/*
 * Connects to that rank, or with peer -1 to whoever listens.  retry: it may not be listening yet.  timeout_ms is for
 * the text.
 */
static int sit_dial(struct star *t, int peer, const struct address_list *addresses, int retry,
		    int64_t deadline, int64_t timeout_ms)
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
	code = sit_wait(t, &dial, &set, peer, deadline, timeout_ms);
	dial_end(&dial);
	t->fd = dial.fd;
	if (code)
		return code;
	if (dial.peer >= (uint32_t)t->bootstrap.nranks)
		return error_set(
			COLL_ERR_INTERNAL,
			"%s broke the bootstrap's protocol: it says that it is rank %u of %d",
			dial.text, dial.peer, t->bootstrap.nranks);
	t->parent = (int)dial.peer;
	memcpy(t->parent_address, dial.text, sizeof(dial.text));
	if (t->root < 0 || t->parent == t->root) {
		t->root = t->parent;
		memcpy(t->acceptor.salt, dial.salt, sizeof(dial.salt));
		star_derive_keys(t, dial.salt);
	}
	t->stream = (struct star_stream){.sent = 0};
	star_stream_init(&t->stream, 0, dial.key, t->body_key);
	return 0;
}

/* ----------------------------------------------------------------------- the seat -- */

/* Listens for children and tells the root where. */
static int sit_say_here(struct star *t, int64_t timeout_ms)
{
	static const uint8_t no_key[BOOTSTRAP_KEY_SIZE];
	char here[UNIQUE_ID_TEXT_MAX];
	struct star_frame head = {.type = STAR_HERE, .timeout_ms = UINT32_MAX};
	struct address_list addresses;
	int code = unique_id_listen(t->interface_name, &t->acceptor.listeners, &addresses);

	if (code == 0)
		code = unique_id_print(no_key, &addresses, here, sizeof(here));
	if (code)
		return code;
	head.len = strlen(here);
	return star_send_up(t, head, here, timeout_ms);
}

/* Waits for the seat. */
static int sit_await_seat(struct star *t, int64_t deadline, int64_t timeout_ms)
{
	int code = 0;

	while (code == 0 && !t->answered) {
		code = star_await_bytes(t, deadline + star_grace(t), timeout_ms);
		if (code == 0)
			code = star_take_answer(t);
	}
	if (code == 0 && t->stream.head.type != STAR_SEAT)
		code = error_set(
			COLL_ERR_INTERNAL,
			"rank %d broke the bootstrap's protocol: frame %u where a seat was "
			"expected",
			t->root, t->stream.head.type);
	return code;
}

/* Takes the seat: a rank without children stops listening. */
static int sit_down(struct star *t, const struct star_seat *seat)
{
	const int n = t->bootstrap.nranks;

	if (seat->seat == 0 || seat->seat >= (uint32_t)n || seat->parent >= (uint32_t)n ||
	    seat->parent == (uint32_t)t->bootstrap.rank)
		return error_set(
			COLL_ERR_INTERNAL,
			"rank %d broke the bootstrap's protocol: seat %u of %d, below rank "
			"%u",
			t->root, seat->seat, n, seat->parent);
	t->seat = (int)seat->seat;
	t->nchildren = star_tree_children(t->seat, n);
	if (t->nchildren > 0)
		return star_children_init(t, t->nchildren);
	listeners_close(&t->acceptor.listeners);
	return 0;
}

static int sit_at_parent(struct star *t, struct star_seat *seat, int64_t deadline,
			 int64_t timeout_ms)
{
	uint8_t no_key[BOOTSTRAP_KEY_SIZE];
	struct address_list addresses;
	int code;

	if (seat->parent == (uint32_t)t->root)
		return 0;
	close(t->fd);
	t->fd = -1;
	seat->here[sizeof(seat->here) - 1] = '\0';
	code = unique_id_parse(seat->here, no_key, &addresses);
	return code ? code : sit_dial(t, (int)seat->parent, &addresses, 0, deadline, timeout_ms);
}

int star_connect(struct star *t, const struct address_list *addresses, int retry, int64_t deadline,
		 int64_t timeout_ms)
{
	struct bootstrap_failure failure = {.code = COLL_SUCCESS};
	struct star_seat seat;
	int code = sit_dial(t, t->root, addresses, retry, deadline, timeout_ms);

	if (code || !star_is_tree(t))
		return code;
	star_await_answer(t, (uint8_t *)&seat, sizeof(seat), &failure);
	code = sit_say_here(t, timeout_ms);
	if (code == 0)
		code = sit_await_seat(t, deadline, timeout_ms);
	if (code == 0)
		code = sit_down(t, &seat);
	if (code)
		return code;
	code = sit_at_parent(t, &seat, deadline, timeout_ms);
	/* Its children have its address already: they hear of the parent's end, and do not blame this rank. */
	if (code && t->nchildren > 0) {
		t->deadline = deadline;
		code = star_fail(t, code);
	}
	return code;
}
