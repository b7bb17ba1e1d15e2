/* SPDX-License-Identifier: BSD-3-Clause */
/* match_test.c - the sender that a receive from any source reports; messages without a receive. */
#include "exec/control.h"
#include "comm/comm.h"
#include "transport/traffic.h"

#include "../lib/tap.h"

#include <stdlib.h>
#include <string.h>

enum { SENDER = 3, LENGTH = 16 };

static int keep_all(struct context *context, uint32_t peer, const coll_header_t *header)
{
	(void)context;
	(void)peer;
	(void)header;
	return 0;
}

/* The message begins before (early) or after the receive is posted; then its sender fails. */
static void test_any_source(int unexpected)
{
	coll_header_t header = {.tag = 5, .len = LENGTH};
	struct recv recv = {.tag = 5, .len = LENGTH, .peer = COLL_ANY_SOURCE};
	char dst[LENGTH];
	struct match m;
	coll_sink_t sink;

	recv.dst = dst;
	match_init(&m);
	m.check_unexpected = keep_all;
	if (!unexpected)
		match_post(&m, &recv);
	match_arrive(&m, SENDER, &header, &sink);
	if (unexpected)
		match_post(&m, &recv);
	match_arrived(&m, sink.cookie, COLL_ERR_PEER_LOST);
	ok(match_next_done(&m) == &recv, "the receive ends, posted %s",
	   unexpected ? "after the message began" : "before");
	is_int(recv.status, COLL_ERR_PEER_LOST, "with an error");
	is_int(recv.peer, SENDER, "and says whose");
	match_free(&m);
}

/* The sender gives up the message, which began before (early) or after the receive was posted; then it sends another. */
static void test_given_up(int unexpected)
{
	const coll_header_t header = {.tag = 5, .len = LENGTH};
	struct recv recv = {.tag = 5, .len = LENGTH, .peer = SENDER};
	char dst[LENGTH], bytes[LENGTH] = "another";
	struct match m;
	coll_sink_t sink;

	recv.dst = dst;
	match_init(&m);
	m.check_unexpected = keep_all;
	if (!unexpected)
		match_post(&m, &recv);
	match_arrive(&m, SENDER, &header, &sink);
	if (unexpected)
		match_post(&m, &recv);
	match_arrived(&m, sink.cookie, COLL_ERR_ABORTED);
	ok(!match_next_done(&m) && recv.state == RECV_POSTED,
	   "a receive waits on when its message is given up, posted %s",
	   unexpected ? "after the message began" : "before");
	match_message(&m, SENDER, &header, bytes);
	ok(match_next_done(&m) == &recv && !recv.status && !memcmp(dst, bytes, LENGTH),
	   "and gets the next message");
	match_arrive(&m, SENDER, &header, &sink);
	match_arrived(&m, sink.cookie, COLL_ERR_ABORTED);
	ok(!m.held && !m.unexpected_count, "a message without a receive is gone");
	match_free(&m);
}

/* Adds the bytes of the elements. */
static void add(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	const unsigned char *x = left;
	unsigned char *y = inout;

	(void)user;
	for (size_t i = 0; i < count * coll_dtype_size(dtype); i++)
		y[i] = (unsigned char)(x[i] + y[i]);
}

/* Elements of any size are reduced whole, wherever the transport splits the message. */
static void test_pieces(uint32_t elem, size_t piece)
{
	enum { COUNT = 5, MOST = 24 };
	const struct redop redop = {.dtype = coll_dtype_opaque(elem), .fn = add};
	const size_t len = COUNT * (size_t)elem;
	unsigned char own[COUNT * MOST], dst[COUNT * MOST], message[COUNT * MOST];
	uint8_t carry[MOST];
	coll_header_t header = {.tag = 5, .len = len};
	struct recv recv = {.tag = 5, .len = len, .peer = SENDER, .elem = elem, .redop = &redop};
	struct match m;
	coll_sink_t sink;
	int wrong = 0;

	for (size_t i = 0; i < len; i++) {
		own[i] = (unsigned char)i;
		message[i] = (unsigned char)(100 - 2 * i);
	}
	recv.own = (char *)own;
	recv.dst = (char *)dst;
	recv.long_carry = carry;
	match_init(&m);
	match_post(&m, &recv);
	match_arrive(&m, SENDER, &header, &sink);
	for (size_t at = 0; at < len; at += piece)
		match_data(&m, sink.cookie, message + at, piece < len - at ? piece : len - at);
	match_arrived(&m, sink.cookie, COLL_SUCCESS);
	for (size_t i = 0; i < len; i++)
		wrong += dst[i] != (unsigned char)(100 - i);
	ok(match_next_done(&m) == &recv && !wrong, "elements of %u bytes in pieces of %zu", elem,
	   piece);
	match_free(&m);
}

/* Match drops messages for a freed communicator, however many communicators were freed since. */
static void test_freed(void)
{
	struct context *context = calloc(1, sizeof(*context));
	coll_header_t header = {0};
	int dropped = 0, kept = 0;

	if (!context)
		bail_out("no memory");
	for (uint32_t c = 0; c < 3000; c += 2)
		comm_note_freed(context, c);
	comm_note_freed(context, (1u << TAG_CONTEXT_BITS) - 1);
	for (uint32_t c = 0; c < 3000; c++) {
		header.tag = tag_control(c);
		if (comm_traffic_client.check_unexpected(context, 0, &header))
			dropped++;
		else
			kept += c % 2;
	}
	is_int(dropped, 1500, "messages for freed communicators are dropped");
	is_int(kept, 1500, "those for communicators still to be made are kept");
	header.tag = tag_control((1u << TAG_CONTEXT_BITS) - 1);
	is_int(comm_traffic_client.check_unexpected(context, 0, &header), 1,
	       "the last context of all");
	for (int i = 0; i < CONTEXT_FREED; i++)
		free(context->freed[i]);
	free(context);
}

/* No machine has so much memory, yet the size is within the limit of an allocator. */
#define TOO_LARGE ((uint64_t)1 << 62)

/* Rank 0 of two, whose plugin is about to announce messages of rank 1. */
static struct context *make_context(struct bootstrap *bootstraps[2], struct lane *lane)
{
	static char *lost[2];
	struct selection selection = {0};
	const struct context_parts parts = {.selection = &selection, .device = -1};
	struct context *context = calloc(1, comm_context_client.size);
	coll_config_t app;

	coll_config_init(&app, sizeof(app));
	if (!context || config_load(&app, NULL, &context->config) ||
	    bootstrap_open_local(bootstraps, 2))
		bail_out("cannot make a link");
	context->bootstrap = bootstraps[0];
	context->nranks = 2;
	context->refused = -1;
	context->failure = lost;
	lane->context = context;
	lane_enlist(lane);
	context->client = &comm_context_client;
	host_fill(context, -1);
	traffic_begin(context, &parts, &comm_traffic_client);
	return context;
}

static void free_context(struct context *context, struct bootstrap *bootstraps[2])
{
	traffic_free(context);
	config_free(context->config);
	bootstrap_close(bootstraps[0]);
	bootstrap_close(bootstraps[1]);
	free(context);
}

/* The communicator fails for a fault of this rank, and the sender stays connected. */
static void test_no_memory(void)
{
	int members[2] = {0, 1};
	struct comm comm = {.nranks = 2};
	struct lane lane = {.comm = &comm,
			    .context_id = 7,
			    .to_comm_rank = members,
			    .to_context_rank = members};
	coll_header_t header = {.tag = tag_user(&lane, 5), .len = TOO_LARGE};
	coll_sink_t sink;
	struct bootstrap *bootstraps[2];
	struct context *context = make_context(bootstraps, &lane);
	const coll_host_t *host = &context->host;

	is_int(host->arrive(host, 1, &header, &sink), COLL_SUCCESS, "a message without memory");
	ok(!sink.buf, "its payload is dropped");
	is_int(lane.pending.code, COLL_ERR_NO_MEMORY, "the communicator is to fail");
	has_str(lane.pending.text,
		"rank 0 has no memory to keep a message of 4611686018427387904 bytes from rank 1",
		"with the ranks and the size");
	ok(context->pending_events, "the next progress looks at it");
	header.len = 1;
	is_int(host->arrive(host, 1, &header, &sink), COLL_SUCCESS, "another message after it");
	is_int((int64_t)traffic_of(context)->match.unexpected_count, 0,
	       "is not taken in its place");
	header.len = UINT64_MAX;
	lane.pending.code = 0;
	is_int(host->arrive(host, 1, &header, &sink), COLL_ERR_INTERNAL,
	       "a message longer than memory can be is refused");
	host->peer_lost(host, 1, "it sent an invalid message");
	is_str(context->failure[1], "it sent an invalid message", "and its sender is blamed");
	free(context->failure[1]);
	context->failure[1] = NULL;
	free_context(context, bootstraps);
}

/* No communicator exists yet that could fail: the connection ends, with the true reason. */
static void test_no_memory_early(void)
{
	struct comm comm = {.nranks = 2};
	struct lane lane = {.comm = &comm, .context_id = 7};
	coll_header_t header = {.tag = tag_control(8), .len = TOO_LARGE};
	coll_sink_t sink;
	struct bootstrap *bootstraps[2];
	struct context *context = make_context(bootstraps, &lane);
	const coll_host_t *host = &context->host;

	is_int(host->arrive(host, 1, &header, &sink), COLL_ERR_NO_MEMORY,
	       "a message without memory for a communicator to be made");
	is_int(lane.pending.code, 0, "no other communicator fails for it");
	host->peer_lost(host, 1, "it sent an invalid message");
	is_str(context->failure[1],
	       "rank 0 had no memory for a message of 4611686018427387904 bytes from it, and ended "
	       "the connection",
	       "the reason is the one of this rank");
	free(context->failure[1]);
	context->failure[1] = NULL;
	free_context(context, bootstraps);
}

/* Which messages does the core want at once? */
static void test_posted(void)
{
	coll_header_t header = {.tag = 5, .len = LENGTH};
	struct recv recv = {.tag = 5, .len = LENGTH, .peer = SENDER};
	char dst[LENGTH];
	struct match m;

	recv.dst = dst;
	match_init(&m);
	ok(!match_posted(&m, SENDER, &header), "a message without a receive may wait");
	match_post(&m, &recv);
	ok(match_posted(&m, SENDER, &header), "one whose receive is posted may not");
	ok(!match_posted(&m, SENDER + 1, &header), "the same tag from another rank may");
	header.tag = MATCH_CONTROL;
	ok(match_posted(&m, SENDER, &header), "a control message may not");
	header.tag = MATCH_UNORDERED | 7;
	ok(match_posted(&m, SENDER, &header), "an unordered message may not: probes look for it");
	header.tag = MATCH_UNORDERED & ~((uint64_t)1 << 35);
	ok(!match_posted(&m, SENDER, &header), "a message from point to point in the order may");
	match_withdraw(&m, &recv);
	match_free(&m);
}

static int mismatches;
static void count_mismatch(struct context *context, const struct recv *recv, uint32_t peer,
			   const coll_header_t *header)
{
	(void)context;
	(void)recv;
	mismatches += peer == SENDER && header->len == LENGTH;
}

/* A message that the transport has whole: with a receive, before its receive, and for another one. */
static void test_message(void)
{
	const struct redop sum = {.dtype = COLL_UINT8, .op = COLL_SUM};
	coll_header_t header = {.tag = 5, .len = LENGTH};
	struct recv recv = {.tag = 5, .len = LENGTH, .peer = COLL_ANY_SOURCE};
	char bytes[LENGTH], own[LENGTH], dst[LENGTH] = {0};
	struct match m;

	memset(bytes, 7, sizeof(bytes));
	memset(own, 2, sizeof(own));
	recv.dst = dst;
	match_init(&m);
	m.check_unexpected = keep_all;
	m.mismatch = count_mismatch;
	match_post(&m, &recv);
	is_int(match_message(&m, SENDER, &header, bytes), COLL_SUCCESS, "a whole message comes");
	ok(match_next_done(&m) == &recv && !recv.status && !memcmp(dst, bytes, LENGTH),
	   "and ends the receive that waits for it");
	is_int(recv.peer, SENDER, "whose sender is known then");

	recv.own = own;
	recv.redop = &sum;
	recv.elem = 1;
	match_post(&m, &recv);
	match_message(&m, SENDER, &header, bytes);
	ok(match_next_done(&m) == &recv && dst[0] == 9 && dst[LENGTH - 1] == 9, "it is reduced");

	recv.own = NULL;
	match_message(&m, SENDER, &header, bytes);
	ok(!match_next_done(&m), "one without a receive is kept");
	match_post(&m, &recv);
	ok(match_next_done(&m) == &recv && !memcmp(dst, bytes, LENGTH), "until its receive comes");

	recv.len = LENGTH / 2;
	match_post(&m, &recv);
	is_int(match_message(&m, SENDER, &header, bytes), COLL_SUCCESS, "one that is too long");
	ok(match_next_done(&m) == &recv && recv.status == COLL_ERR_MISMATCH && mismatches == 1,
	   "is a mismatch");
	ok(dst[0] == 7 && !m.unexpected_count, "and is dropped");
	match_free(&m);
}

int main(void)
{
	test_posted();
	test_message();
	test_freed();
	test_any_source(0);
	test_any_source(1);
	test_given_up(0);
	test_given_up(1);
	test_pieces(24, 7);
	test_pieces(17, 40);
	test_pieces(16, 3);
	test_pieces(3, 2);
	test_pieces(1, 2);
	if (getenv("TEST_SANITIZE") && *getenv("TEST_SANITIZE")) {
		skip(2, "sanitizers end a program that asks for too much memory");
	} else {
		test_no_memory();
		test_no_memory_early();
	}
	return done_testing();
}
