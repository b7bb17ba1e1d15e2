/* SPDX-License-Identifier: BSD-3-Clause */
/* tree_join.c - a rank joins the tree: it connects to the root; in a deep tree it gets an index and connects to its parent. */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/tree.h"

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
			 who, t->bootstrap.nranks, bootstrap_seconds(t->timeout_ms, seconds),
			 dial->note, dial->note[0] && report[0] ? "; " : "", report, advice);
}

/*
 * Long before the time is up the log says why this rank has not come.  If the reason is that nobody answers, it is the same
 * on all ranks, and rank 1 tells it for all.
 */
static void join_say_late(const struct tree *t, const struct dial *dial, int peer)
{
	const int alike = dial_misses_peer(dial) && t->bootstrap.rank > 1;
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

	while (code == 0 && dial->fd < 0) {
		code = bootstrap_check_aborted(&t->bootstrap);
		if (code)
			return code;
		wake = bootstrap_look(&t->bootstrap, t->deadline);
		code = dial_step(dial, set, stall_at < wake ? stall_at : wake);
		if (code == 0 && dial->fd < 0 && clock_remaining(stall_at) == 0) {
			join_say_late(t, dial, peer);
			stall_at = INT64_MAX;
		}
		if (code == 0 && dial->fd < 0 && clock_remaining(t->deadline) == 0)
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
	t->parent.fd = dial.fd;
	if (code)
		return code;
	if (dial.peer >= (uint32_t)t->bootstrap.nranks)
		return error_set(
			COLL_ERR_INTERNAL,
			"%s broke the bootstrap's protocol: it says that it is rank %u of %d",
			dial.text, dial.peer, t->bootstrap.nranks);
	if (t->root < 0 || (int)dial.peer == t->root) {
		t->root = (int)dial.peer;
		memcpy(t->acceptor.salt, dial.salt, sizeof(dial.salt));
		tree_derive_keys(t, dial.salt);
	}
	t->parent = (struct tree_link){.rank = 0};
	tree_link_open(t, &t->parent, (int)dial.peer, dial.fd, 0, dial.key);
	memcpy(t->parent.address, dial.text, sizeof(dial.text));
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
	int code = unique_id_listen(t->interface_name, &t->acceptor.listeners, &addresses);

	if (code == 0)
		code = unique_id_print(no_key, &addresses, here, sizeof(here));
	if (code)
		return code;
	head.len = strlen(here);
	return tree_parent_send(t, head, here, t->timeout_ms);
}

static int join_await_index(struct tree *t)
{
	const int code = tree_parent_await(t);
	const uint32_t type = t->parent.stream.head.type;

	if (code == 0 && type != TREE_INDEX)
		return error_set(
			COLL_ERR_INTERNAL,
			"rank %d broke the bootstrap's protocol: frame %u where a seat was "
			"expected",
			t->root, type);
	return code;
}

/* Takes the index: a rank without children stops listening. */
static int join_take_index(struct tree *t, const struct tree_place *place)
{
	const int n = t->bootstrap.nranks;
	int code;

	if (place->index == 0 || place->index >= (uint32_t)n || place->parent >= (uint32_t)n ||
	    place->parent == (uint32_t)t->bootstrap.rank)
		return error_set(
			COLL_ERR_INTERNAL,
			"rank %d broke the bootstrap's protocol: seat %u of %d, below rank "
			"%u",
			t->root, place->index, n, place->parent);
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
		code = join_await_index(t);
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
