/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * match_order_test.c - the matching of messages with receives, linked with the layers up to transport
 * alone: the order of equal messages, messages in pieces, receives given up in each state, and random
 * sequences against a model that keeps two plain lists.
 */
#include "transport/match.h"

#include "../lib/random.h"
#include "../lib/tap.h"

enum { RANKS = 4, LENGTH = 20 };

/* The calls that match has made to its client. */
static struct {
	int drop; /* the client's answer to unexpected messages */
	int mismatches;
	uint32_t mismatch_peer;
	const struct recv *mismatch_recv;
	int fills, fill_code;
	char filled[64];
	size_t nfilled;
} seen;

static int client_unexpected(struct context *context, uint32_t peer, const coll_header_t *header)
{
	(void)context;
	(void)peer;
	(void)header;
	return seen.drop;
}

static int client_no_memory(struct context *context, uint32_t peer, const coll_header_t *header)
{
	(void)context;
	(void)peer;
	(void)header;
	return COLL_ERR_NO_MEMORY;
}

static void client_mismatch(struct context *context, const struct recv *recv, uint32_t peer,
			    const coll_header_t *header)
{
	(void)context;
	(void)header;
	seen.mismatches++;
	seen.mismatch_peer = peer;
	seen.mismatch_recv = recv;
}

static int client_fill(const struct recv *recv, void *dst, const void *bytes, uint64_t n)
{
	(void)recv;
	(void)dst;
	seen.fills++;
	if (seen.fill_code)
		return seen.fill_code;
	memcpy(seen.filled + seen.nfilled, bytes, n);
	seen.nfilled += n;
	return COLL_SUCCESS;
}

static void begin(struct match *m)
{
	memset(&seen, 0, sizeof(seen));
	match_init(m);
	m->check_unexpected = client_unexpected;
	m->no_memory = client_no_memory;
	m->mismatch = client_mismatch;
	m->fill = client_fill;
}

/* A receive and its memory. */
struct box {
	struct recv recv;
	char dst[LENGTH + 1];
};

static struct box *box_post(struct match *m, struct box *box, int peer, uint64_t tag)
{
	memset(box, 0, sizeof(*box));
	box->recv.peer = peer;
	box->recv.tag = tag;
	box->recv.len = LENGTH;
	box->recv.meta[0] = 1;
	box->recv.dst = box->dst;
	match_post(m, &box->recv);
	return box;
}

static coll_header_t header_of(uint64_t tag)
{
	return (coll_header_t){.tag = tag, .meta = {1, 0}, .len = LENGTH};
}

static uint64_t announce(struct match *m, uint32_t peer, uint64_t tag, coll_sink_t *sink)
{
	coll_header_t header = header_of(tag);

	if (match_arrive(m, peer, &header, sink))
		bail_out("a message is refused");
	return sink->cookie;
}

/* Delivers a whole message whose bytes are all `c`; in place if match gives a buffer. */
static void message(struct match *m, uint32_t peer, uint64_t tag, char c)
{
	char bytes[LENGTH];
	coll_sink_t sink;

	memset(bytes, c, LENGTH);
	announce(m, peer, tag, &sink);
	if (sink.buf)
		memcpy(sink.buf, bytes, LENGTH);
	else
		match_data(m, sink.cookie, bytes, LENGTH);
	match_arrived(m, sink.cookie, COLL_SUCCESS);
}

/* The next completed receive must be this one, with `c` in every byte. */
static int done_with(struct match *m, struct box *box, char c)
{
	struct recv *recv = match_next_done(m);

	for (int i = 0; i < LENGTH; i++)
		if (box->dst[i] != c)
			return 0;
	return recv == &box->recv && recv->state == RECV_DONE && recv->status == COLL_SUCCESS;
}

/* -------------------------------------------------------------------------- order -- */

static void test_order(int posted_first)
{
	const char *when = posted_first ? "posted before" : "posted after";
	struct box a, b, any, other;
	struct match m;

	begin(&m);
	if (posted_first) {
		box_post(&m, &a, 1, 7);
		box_post(&m, &other, 1, 8);
		box_post(&m, &any, COLL_ANY_SOURCE, 7);
		box_post(&m, &b, 1, 7);
	}
	message(&m, 1, 7, 'a');
	message(&m, 2, 7, 'b');
	message(&m, 1, 7, 'c');
	message(&m, 1, 8, 'd');
	if (!posted_first) {
		is_int((int64_t)m.unexpected_count, 4, "four messages are kept");
		box_post(&m, &a, 1, 7);
		box_post(&m, &any, COLL_ANY_SOURCE, 7);
		box_post(&m, &b, 1, 7);
		box_post(&m, &other, 1, 8);
	}
	ok(done_with(&m, &a, 'a'), "%s: the first receive gets the first message", when);
	ok(done_with(&m, &any, 'b'), "%s: the receive from any source gets the next", when);
	is_int(any.recv.peer, 2, "%s: and says whose it is", when);
	ok(done_with(&m, &b, 'c'), "%s: the last receive gets the last message", when);
	ok(done_with(&m, &other, 'd'), "%s: another tag is another order", when);
	ok(!match_next_done(&m) && !m.unexpected_count, "%s: nothing is left", when);
	match_free(&m);
}

/*
 * There are more tags than hash chains, so chains are shared, and entries are removed from their
 * middle.
 */
static void test_shared_chains(void)
{
	enum { TAGS = 3 * MATCH_BUCKETS };
	static struct box box[TAGS];
	struct match m;
	int wrong = 0;

	begin(&m);
	for (int i = 0; i < TAGS; i++)
		message(&m, 0, (uint64_t)i, (char)('a' + i % 26));
	for (int i = 0; i < TAGS; i++) { /* every third, then the rest backwards */
		int tag = i < TAGS / 3 ? 3 * i : TAGS - 1 - (i - TAGS / 3);

		if (i >= TAGS / 3 && tag % 3 == 0)
			continue;
		box_post(&m, &box[tag], 0, (uint64_t)tag);
		wrong += !done_with(&m, &box[tag], (char)('a' + tag % 26));
	}
	for (int tag = 0; tag < TAGS; tag++)
		if (box[tag].recv.state != RECV_DONE) {
			box_post(&m, &box[tag], 0, (uint64_t)tag);
			wrong += !done_with(&m, &box[tag], (char)('a' + tag % 26));
		}
	is_int(wrong, 0, "messages of tags that share chains come to their receives");
	is_int((int64_t)m.unexpected_count, 0, "and none is left");
	for (int i = 0; i < MATCH_BUCKETS / 64; i++)
		wrong += m.unexpected_in[i] != 0;
	is_int(wrong, 0, "no chain is noted as holding a message");
	match_free(&m);
}

/* --------------------------------------------------------------------- in pieces -- */

/* A sum on arrival, in pieces of every size; swapped: the arriving data is the left operand. */
static void test_pieces(int kept, int swapped)
{
	const int32_t in[5] = {1, -2, 300000, 4, 5}, own[5] = {10, 20, 30, 40, 50};
	const struct redop redop = {.dtype = COLL_INT32, .op = COLL_SUM};
	const char *when = kept ? "kept before its receive" : "on its way";
	struct match m;
	int wrong = 0;

	for (uint64_t piece = 1; piece <= LENGTH; piece++) {
		int32_t dst[5] = {0};
		struct recv recv = {.tag = 3, .len = LENGTH, .meta = {1, 0}};
		coll_sink_t sink;

		begin(&m);
		recv.dst = (char *)dst;
		recv.own = (const char *)own;
		recv.redop = &redop;
		recv.elem = sizeof(int32_t);
		recv.swapped = swapped;
		if (!kept)
			match_post(&m, &recv);
		announce(&m, 0, 3, &sink);
		wrong += !kept && sink.buf; /* nothing may write there */
		for (uint64_t at = 0; at < LENGTH; at += piece) {
			uint64_t n = LENGTH - at < piece ? LENGTH - at : piece;

			match_data(&m, sink.cookie, (const char *)in + at, n);
			if (kept && at == 0)
				match_post(&m, &recv); /* in the middle of the message */
		}
		match_arrived(&m, sink.cookie, COLL_SUCCESS);
		wrong += match_next_done(&m) != &recv;
		for (int i = 0; i < 5; i++)
			wrong += dst[i] != in[i] + own[i];
		match_free(&m);
	}
	is_int(wrong, 0, "a sum of a message %s, in pieces of 1 to %d bytes%s", when, LENGTH,
	       swapped ? ", operands swapped" : "");
}

/* A difference shows which operand is the left one. */
static void subtract(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	const int32_t *x = left;
	int32_t *y = inout;

	(void)user;
	(void)dtype;
	for (size_t i = 0; i < count; i++)
		y[i] = x[i] - y[i];
}

static void test_operands(int swapped)
{
	const struct redop redop = {.dtype = COLL_INT32, .fn = subtract, .ordered = 1};
	const int32_t in[5] = {1, 2, 3, 4, 5}, own[5] = {10, 20, 30, 40, 50};
	int32_t dst[5] = {0};
	struct recv recv = {.tag = 3, .len = LENGTH, .meta = {1, 0}, .dst = (char *)dst};
	coll_sink_t sink;
	struct match m;
	int wrong = 0;

	begin(&m);
	recv.own = (const char *)own;
	recv.redop = &redop;
	recv.elem = sizeof(int32_t);
	recv.swapped = swapped;
	match_post(&m, &recv);
	announce(&m, 0, 3, &sink);
	match_data(&m, sink.cookie, in, 6); /* an element and a half */
	match_data(&m, sink.cookie, (const char *)in + 6, LENGTH - 6);
	match_arrived(&m, sink.cookie, COLL_SUCCESS);
	for (int i = 0; i < 5; i++)
		wrong += dst[i] != (swapped ? in[i] - own[i] : own[i] - in[i]);
	is_int(wrong, 0, "%s is the left operand", swapped ? "the message" : "the rank's own data");
	match_free(&m);
}

static void see_too_much(void *user, const struct unexpected *e)
{
	*(int *)user += e->got > e->header.len;
}

/* A plugin that delivers more bytes than it announced writes nothing beyond the buffer. */
static void test_too_much(int kept)
{
	char bytes[2 * LENGTH];
	struct box box;
	coll_sink_t sink;
	struct match m;
	int beyond = 0;

	memset(bytes, 'x', sizeof(bytes));
	begin(&m);
	if (!kept)
		box_post(&m, &box, 0, 3);
	announce(&m, 0, 3, &sink);
	match_data(&m, sink.cookie, bytes, 5);
	match_data(&m, sink.cookie, bytes, sizeof(bytes));
	match_data(&m, sink.cookie, bytes, 1);
	match_arrived(&m, sink.cookie, COLL_SUCCESS);
	match_each(&m, 0, 0, see_too_much, &beyond);
	if (kept)
		box_post(&m, &box, 0, 3);
	ok(!beyond && done_with(&m, &box, 'x') && !box.dst[LENGTH],
	   "more bytes than announced are ignored, %s", kept ? "kept" : "on their way");
	match_free(&m);
}

/* The client writes device memory; if the client fails, the receive fails. */
static void test_device(void)
{
	struct box box;
	coll_sink_t sink;
	struct match m;

	for (int fails = 0; fails < 2; fails++) {
		begin(&m);
		box_post(&m, &box, 0, 3);
		box.recv.device = COLL_MEM_CUDA;
		announce(&m, 0, 3, &sink);
		is_int(sink.memory, COLL_MEM_CUDA, "the plugin is told of memory of a device");
		seen.fill_code = fails ? COLL_ERR_DEVICE : COLL_SUCCESS;
		match_data(&m, sink.cookie, "0123456789", 10);
		match_data(&m, sink.cookie, "abcdefghij", 10);
		match_arrived(&m, sink.cookie, COLL_SUCCESS);
		ok(match_next_done(&m) == &box.recv, "the receive ends");
		is_int(box.recv.status, fails ? COLL_ERR_DEVICE : COLL_SUCCESS, "with its code");
		is_int(seen.fills, fails ? 1 : 2, "after a failed copy there is no other");
		if (!fails)
			ok(!memcmp(seen.filled, "0123456789abcdefghij", LENGTH), "in order");
		match_free(&m);
	}
}

/* ------------------------------------------------------------------ mismatches -- */

/* meta or length differ; the receive is posted before, during, or after the message. */
static void test_mismatch(int differs, int when)
{
	static const char *const times[] = {"before", "within", "after"};
	coll_header_t header = header_of(3);
	struct box box, next;
	coll_sink_t sink;
	struct match m;

	begin(&m);
	header.meta[differs == 1] += differs < 2;
	header.len -= differs == 2;
	if (when == 0)
		box_post(&m, &box, 2, 3);
	match_arrive(&m, 2, &header, &sink);
	match_data(&m, sink.cookie, "0123456789", 10);
	if (when == 1)
		box_post(&m, &box, 2, 3);
	match_data(&m, sink.cookie, "0123456789", header.len - 10);
	match_arrived(&m, sink.cookie, COLL_SUCCESS);
	if (when == 2)
		box_post(&m, &box, 2, 3);
	ok(match_next_done(&m) == &box.recv && box.recv.status == COLL_ERR_MISMATCH &&
		   !match_next_done(&m),
	   "field %d differs, posted %s the message: the receive ends with a mismatch", differs,
	   times[when]);
	ok(seen.mismatches == 1 && seen.mismatch_peer == 2 && seen.mismatch_recv == &box.recv,
	   "which is told once, with receive and peer");
	ok(!box.dst[0], "its memory is not written");
	message(&m, 2, 3, 'n');
	box_post(&m, &next, 2, 3);
	ok(done_with(&m, &next, 'n'), "the next message is not affected");
	match_free(&m);
}

/* The message that begins one in pieces: its number, the upper half of meta[0], may be any; the rest must agree. */
static void test_numbered(int field)
{
	const uint64_t number = (uint64_t)9 << 32;
	coll_header_t header = {.tag = 3, .meta = {1 | number, 2}};
	struct recv recv = {.tag = 3, .meta = {1, 2}, .numbered = 1};
	struct match m;

	begin(&m);
	header.meta[0] += field == 1;
	header.meta[1] += field == 2;
	header.len += field == 3;
	match_post(&m, &recv);
	match_message(&m, 0, &header, "x");
	is_int(recv.status, field ? COLL_ERR_MISMATCH : COLL_SUCCESS,
	       "a message in pieces whose %s",
	       field == 0   ? "number is its own"
	       : field == 1 ? "kind differs"
	       : field == 2 ? "count differs"
			    : "first message is not empty");
	if (!field)
		is_int((int64_t)recv.meta[0], (int64_t)(1 | number), "its number is taken");
	ok(match_next_done(&m) == &recv, "the receive ends");
	match_free(&m);
}

/* ----------------------------------------------------------------------- giving up -- */

static void test_withdraw_posted(int which)
{
	struct box box[3], last;
	struct match m;

	begin(&m);
	for (int i = 0; i < 3; i++)
		box_post(&m, &box[i], 0, 3);
	is_int((int64_t)match_withdraw(&m, &box[which].recv), 0, "receive %d of 3 is given up",
	       which);
	is_int((int64_t)match_withdraw(&m, &box[which].recv), 0, "twice does no harm");
	box_post(&m, &last, 0, 3);
	for (int i = 0; i < 3; i++)
		if (i != which) {
			message(&m, 0, 3, 'a');
			ok(done_with(&m, &box[i], 'a'), "receive %d gets its message", i);
		}
	message(&m, 0, 3, 'z');
	ok(done_with(&m, &last, 'z'), "one posted afterwards comes last");
	ok(!box[which].dst[0], "nothing is written to the one given up");
	match_free(&m);
}

static void test_withdraw_done(int which)
{
	struct box box[3], last;
	struct match m;

	begin(&m);
	for (int i = 0; i < 3; i++) {
		box_post(&m, &box[i], 0, 3);
		message(&m, 0, 3, 'a');
	}
	is_int((int64_t)match_withdraw(&m, &box[which].recv), 0, "completed receive %d is given up",
	       which);
	box_post(&m, &last, 0, 3);
	message(&m, 0, 3, 'z');
	for (int i = 0; i < 3; i++)
		if (i != which)
			ok(done_with(&m, &box[i], 'a'), "completed receive %d is handed out", i);
	ok(done_with(&m, &last, 'z') && !match_next_done(&m), "then the last one");
	match_free(&m);
}

static void test_withdraw_filling(void)
{
	struct box box;
	coll_sink_t sink;
	struct match m;

	begin(&m);
	box_post(&m, &box, 0, 3);
	announce(&m, 0, 3, &sink);
	ok(sink.cookie && match_withdraw(&m, &box.recv) == sink.cookie,
	   "a receive under way is the transport's to drop, by its cookie");
	box_post(&m, &box, 0, 4);
	announce(&m, 0, 3, &sink);
	match_data(&m, sink.cookie, "0123", 4);
	box_post(&m, &box, 0, 3);
	is_int(box.recv.state, RECV_FILLING, "a receive of a message that is kept in part");
	is_int((int64_t)match_withdraw(&m, &box.recv), 0, "is nothing for the transport to drop");
	match_data(&m, sink.cookie, "456789", 6);
	match_arrived(&m, sink.cookie, COLL_SUCCESS);
	ok(!match_next_done(&m) && !m.partial && !box.dst[0],
	   "the message ends without it, and is freed");
	match_free(&m);
}

static void see_one(void *user, const struct unexpected *e)
{
	(void)e;
	++*(int *)user;
}

static void test_forget(void)
{
	struct box box;
	coll_sink_t sink[2];
	struct match m;
	int n = 0;

	begin(&m);
	message(&m, 0, 0x10, 'a');
	announce(&m, 0, 0x11, &sink[0]);
	message(&m, 0, 0x20, 'b');
	announce(&m, 0, 0x21, &sink[1]);
	match_each(&m, 0xf0, 0x10, see_one, &n);
	is_int(n, 2, "two of the messages agree, complete or not");
	match_forget(&m, 0xf0, 0x10);
	is_int((int64_t)m.unexpected_count, 2, "they are forgotten, the others are not");
	match_arrived(&m, sink[0].cookie, COLL_SUCCESS);
	ok(!m.partial, "the incomplete one is freed when its last byte has come");
	message(&m, 1, 0x11, 'c');
	box_post(&m, &box, COLL_ANY_SOURCE, 0x11);
	ok(done_with(&m, &box, 'c'), "a later message of that tag comes to its receive");
	match_arrived(&m, sink[1].cookie, COLL_ERR_PEER_LOST);
	is_int((int64_t)m.unexpected_count, 1, "one that never becomes complete is freed");
	box_post(&m, &box, 0, 0x20);
	ok(done_with(&m, &box, 'b'), "the other one is still there");
	match_free(&m);
}

/* Every hash chain is used. */
static void test_all_chains(void)
{
	struct match m;
	int n = 0;

	begin(&m);
	for (uint64_t tag = 0; tag < 3 * MATCH_BUCKETS; tag++) {
		message(&m, 0, tag, 'a');
		match_each(&m, 0, 0, see_one, &n);
		match_forget(&m, ~(uint64_t)0, tag);
	}
	is_int(n, 3 * MATCH_BUCKETS, "a message is seen when it is alone");
	n = 0;
	for (uint64_t tag = 0; tag < 3 * MATCH_BUCKETS; tag++)
		message(&m, 0, tag, 'a');
	match_each(&m, 0, 0, see_one, &n);
	is_int(n, 3 * MATCH_BUCKETS, "and when all are there");
	match_forget(&m, 0, 0);
	is_int((int64_t)m.unexpected_count, 0, "all are forgotten");
	match_free(&m);
}

/* The client takes control messages out in order, and only complete ones. */
static void test_take(void)
{
	const uint64_t tag = MATCH_CONTROL | 5;
	struct unexpected *e;
	coll_sink_t sink;
	struct match m;

	begin(&m);
	announce(&m, 0, tag, &sink);
	ok(!match_take(&m, tag) && !m.controls, "an incomplete control message is not taken");
	message(&m, 1, tag, 'b');
	message(&m, 2, 5, 'c');
	is_int(m.controls, 1, "one is complete");
	e = match_take(&m, tag);
	ok(e && e->peer == 1 && e->data[0] == 'b', "and is taken past the incomplete one");
	free(e);
	match_arrived(&m, sink.cookie, COLL_SUCCESS);
	e = match_take(&m, tag);
	ok(e && e->peer == 0 && m.controls == 2, "then the other");
	free(e);
	ok(!match_take(&m, tag), "there is no third");
	match_free(&m);
}

static void test_dropped(void)
{
	struct box box;
	coll_sink_t sink;
	struct match m;

	begin(&m);
	seen.drop = 1;
	announce(&m, 0, 3, &sink);
	ok(!sink.buf && !m.unexpected_count, "a message that the client does not want is not kept");
	match_data(&m, sink.cookie, "0123456789", 10);
	match_arrived(&m, sink.cookie, COLL_SUCCESS);
	box_post(&m, &box, 0, 3);
	ok(!match_next_done(&m), "and comes to no receive");
	match_free(&m);
}

/* -------------------------------------------------------------------- random sequences -- */

enum { STEPS = 20000, LIVE = 40, TAGS = 3 };

/* A message of the model. */
struct letter {
	/* claimed: number + 1 of the receive that matches this message */
	int used, peer, tag, complete, claimed;
	uint64_t cookie;
	int number;
};

/* A receive of the model; `letter` is the message it must get, or -1. */
struct wanted {
	int used, letter, tag, peer, number;
	struct recv recv;
	int32_t dst;
};

static struct letter letters[LIVE];
static struct wanted wanted[LIVE];

static int model_fits(const struct wanted *w, const struct letter *l)
{
	return w->tag == l->tag && (w->peer == COLL_ANY_SOURCE || w->peer == l->peer);
}

/*
 * Returns the oldest free partner; the order of the numbers is the order of arrival and of posting.
 */
static int model_oldest_letter(const struct wanted *w)
{
	int found = -1;

	for (int i = 0; i < LIVE; i++)
		if (letters[i].used && !letters[i].claimed && model_fits(w, &letters[i]) &&
		    (found < 0 || letters[i].number < letters[found].number))
			found = i;
	return found;
}

static int model_oldest_wanted(const struct letter *l)
{
	int found = -1;

	for (int i = 0; i < LIVE; i++)
		if (wanted[i].used && wanted[i].letter < 0 && model_fits(&wanted[i], l) &&
		    (found < 0 || wanted[i].number < wanted[found].number))
			found = i;
	return found;
}

static void random_post(struct match *m, int number)
{
	int i = 0;

	while (i < LIVE && wanted[i].used)
		i++;
	if (i == LIVE)
		return;
	wanted[i] = (struct wanted){1,
				    -1,
				    random_below(TAGS),
				    random_below(RANKS + 1) - 1,
				    number,
				    {.meta = {1, 0}, .len = sizeof(int32_t)},
				    0};
	if (wanted[i].peer < 0)
		wanted[i].peer = COLL_ANY_SOURCE;
	wanted[i].recv.tag = (uint64_t)wanted[i].tag;
	wanted[i].recv.peer = wanted[i].peer;
	wanted[i].recv.dst = (char *)&wanted[i].dst;
	wanted[i].letter = model_oldest_letter(&wanted[i]);
	if (wanted[i].letter >= 0)
		letters[wanted[i].letter].claimed = i + 1;
	match_post(m, &wanted[i].recv);
}

static void random_announce(struct match *m, int number)
{
	coll_header_t header = {.meta = {1, 0}, .len = sizeof(int32_t)};
	coll_sink_t sink;
	int i = 0, w;

	while (i < LIVE && letters[i].used)
		i++;
	if (i == LIVE)
		return;
	letters[i] = (struct letter){1, random_below(RANKS), random_below(TAGS), 0, 0, 0, number};
	header.tag = (uint64_t)letters[i].tag;
	w = model_oldest_wanted(&letters[i]);
	if (w >= 0) {
		wanted[w].letter = i;
		letters[i].claimed = w + 1;
	}
	match_arrive(m, (uint32_t)letters[i].peer, &header, &sink);
	letters[i].cookie = sink.cookie;
	if (sink.buf)
		memcpy(sink.buf, &letters[i].number, sizeof(int32_t));
}

static void random_end(struct match *m)
{
	int i = random_below(LIVE);

	if (!letters[i].used || letters[i].complete)
		return;
	letters[i].complete = 1;
	match_arrived(m, letters[i].cookie, COLL_SUCCESS);
}

/* Every completed receive must be the model's, with the model's message in it. */
static int random_check(struct match *m)
{
	struct recv *recv;
	int wrong = 0;

	while ((recv = match_next_done(m))) {
		struct wanted *w = (struct wanted *)((char *)recv - offsetof(struct wanted, recv));
		struct letter *l = w->letter < 0 ? NULL : &letters[w->letter];

		wrong += !l || !l->complete || w->dst != l->number || recv->peer != l->peer;
		w->used = 0;
		if (l)
			l->used = 0;
	}
	for (int i = 0; i < LIVE; i++) /* no receive is missing */
		wrong += wanted[i].used && wanted[i].letter >= 0 &&
			 letters[wanted[i].letter].complete;
	return wrong;
}

static void test_random(unsigned seed)
{
	struct match m;
	int wrong = 0;

	begin(&m);
	memset(letters, 0, sizeof(letters));
	memset(wanted, 0, sizeof(wanted));
	random_state = seed;
	for (int step = 1; step <= STEPS && !wrong; step++) {
		int what = random_below(4);

		if (what == 0)
			random_post(&m, step);
		else if (what == 1)
			random_announce(&m, step);
		else
			random_end(&m);
		wrong += random_check(&m);
	}
	is_int(wrong, 0, "%d random steps of seed %u, against a model", STEPS, seed);
	match_free(&m);
}

int main(void)
{
	test_order(1);
	test_order(0);
	test_shared_chains();
	for (int i = 0; i < 4; i++)
		test_pieces(i / 2, i % 2);
	test_operands(0);
	test_operands(1);
	test_too_much(0);
	test_too_much(1);
	test_device();
	for (int i = 0; i < 9; i++)
		test_mismatch(i / 3, i % 3);
	for (int i = 0; i < 4; i++)
		test_numbered(i);
	for (int i = 0; i < 3; i++)
		test_withdraw_posted(i);
	for (int i = 0; i < 3; i++)
		test_withdraw_done(i);
	test_withdraw_filling();
	test_forget();
	test_all_chains();
	test_take();
	test_dropped();
	for (unsigned seed = 1; seed <= 5; seed++)
		test_random(seed);
	return done_testing();
}
