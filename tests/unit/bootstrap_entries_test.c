/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap_entries_test.c - ranks of a tree that know the key and break the protocol: they send pieces of other ranks, a
 * second piece, another seat than their own, or a table too early.  Every such frame is an error that names the rank.
 *
 * Seven ranks sit two by two; the rank under test is the root or the one on seat 1, and the test writes for the others.
 */
#include "bootstrap/star.h"
#include "base/error.h"
#include "bootstrap_harness.h"

enum { RANKS = 7, CHILDREN = 2, SEAT = 1, TIMEOUT_MS = 300, BODY = 64 };

static const uint8_t key[HANDSHAKE_KEY_SIZE] = {1};

/* The rank under test and the other ends of its connections. */
static struct star *t;
static struct bootstrap_failure failure;
static struct {
	int fd;
	struct star_stream stream;
} children[CHILDREN], parent;

static int new_end(int fds[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
		bail_out("socketpair: %s", strerror(errno));
	return fds[1];
}

/* Rank 0, the root, or rank 1 on seat 1, below it; the children are ranks 1 and 2, or 2 and 3. */
static void begin(int rank)
{
	int fds[2], code;

	t = calloc(1, sizeof(*t));
	if (!t)
		bail_out("no memory");
	failure = (struct bootstrap_failure){.code = COLL_SUCCESS};
	t->bootstrap.rank = rank;
	t->bootstrap.nranks = RANKS;
	t->fd = -1;
	star_set_handshake(t);
	t->seat = t->nchildren = rank ? SEAT : 0;
	code = rank ? star_children_init(t, CHILDREN) : star_root_init(t);
	if (code)
		bail_out("%s", error_text());
	t->nchildren = CHILDREN;
	for (int i = 0; i < CHILDREN; i++) {
		children[i].fd = new_end(fds);
		children[i].stream = (struct star_stream){.sent = 0};
		star_stream_init(&children[i].stream, 0, key, t->body_key);
		t->acceptor.connected(t->acceptor.owner, (uint32_t)(rank + 1 + i), fds[0], key);
		t->conns[i].seated = 1;
	}
	parent.fd = new_end(fds);
	parent.stream = (struct star_stream){.sent = 0};
	star_stream_init(&parent.stream, 1, key, t->body_key);
	star_stream_init(&t->stream, 0, key, t->body_key);
	if (rank)
		t->fd = fds[0];
	else
		close(fds[0]);
}

static void end(void)
{
	star_children_close(t);
	if (t->fd >= 0)
		close(t->fd);
	for (int i = 0; i < CHILDREN; i++)
		close(children[i].fd);
	close(parent.fd);
	free(t);
}

static void put(int fd, struct star_stream *stream, struct star_frame head, const void *body)
{
	uint8_t bytes[sizeof(head) + BODY] = {0};

	star_seal_body(stream->body_key, &head, body);
	star_seal(stream, &head);
	stream->sent++;
	memcpy(bytes, &head, sizeof(head));
	if (head.len > 0)
		memcpy(bytes + sizeof(head), body, (size_t)head.len);
	if (write(fd, bytes, sizeof(head) + (size_t)head.len) < 0)
		bail_out("write: %s", strerror(errno));
}

static void put_child(int i, struct star_frame head, const void *body)
{
	put(children[i].fd, &children[i].stream, head, body);
}

/* The pieces, of no bytes, of a subtree of three ranks. */
static void put_pieces(int i, uint32_t a, uint32_t b, uint32_t c)
{
	const uint32_t ranks[] = {a, b, c};

	put_child(i,
		  (struct star_frame){.type = STAR_PIECE,
				      .round = 1,
				      .len = sizeof(ranks),
				      .timeout_ms = UINT32_MAX,
				      .seat = (uint32_t)i + 1},
		  ranks);
}

static int run_root(void)
{
	return star_root_exchange(t, NULL, NULL, 0, &failure, TIMEOUT_MS);
}

/* ------------------------------------------------------------------------- the root -- */

static void test_entries(uint32_t a, uint32_t b, uint32_t c, const char *what)
{
	begin(0);
	put_pieces(0, 1, 3, 4);
	put_pieces(1, a, b, c);
	is_int(run_root(), COLL_ERR_INTERNAL, "rank 2 sends the piece of %s", what);
	has_str(error_text(), "rank 2 broke the bootstrap's protocol: it has a piece of rank",
		"and is named");
	end();
}

/* Rank 1 sends its piece and that of rank 2, which is a child of the root itself. */
static void put_claim(void)
{
	const uint32_t ranks[] = {1, 2};

	put_child(0,
		  (struct star_frame){.type = STAR_PIECE,
				      .round = 1,
				      .len = sizeof(ranks),
				      .timeout_ms = UINT32_MAX,
				      .seat = 1},
		  ranks);
}

/* Once the root has the piece of rank 2. */
static int put_claim_later(void *put)
{
	if (t->conns[1].heard == STAR_WHOLE_TREE && !*(int *)put) {
		*(int *)put = 1;
		put_claim();
	}
	return COLL_SUCCESS;
}

static void test_claimed(int later)
{
	int put = 0;

	begin(0);
	t->bootstrap.nranks = 4;
	if (later)
		bootstrap_guard(&t->bootstrap, put_claim_later, &put);
	else
		put_claim();
	put_child(1,
		  (struct star_frame){
			  .type = STAR_PIECE, .round = 1, .timeout_ms = UINT32_MAX, .seat = 2},
		  NULL);
	is_int(run_root(), COLL_ERR_INTERNAL, "rank 1 sends the piece of rank 2 %s it has come",
	       later ? "after" : "before");
	has_str(error_text(), "broke the bootstrap's protocol: it has a piece of rank 2 of 4",
		"which is told");
	end();
}

/* Another number of pieces than the subtree has ranks. */
static void test_length(uint32_t ranks)
{
	const uint32_t all[] = {1, 3, 4, 5};
	const struct star_frame head = {.type = STAR_PIECE,
					.round = 1,
					.len = ranks * sizeof(*all),
					.timeout_ms = UINT32_MAX,
					.seat = 1};

	begin(0);
	put_child(0, head, all);
	is_int(run_root(), COLL_ERR_MISMATCH, "rank 1 sends the pieces of %u ranks, not of 3",
	       ranks);
	has_str(error_text(), "bytes with those of 3 ranks", "which is told");
	end();
}

static void test_root(void)
{
	begin(0);
	put_pieces(0, 1, 3, 4);
	put_pieces(1, 2, 5, 6);
	is_int(run_root(), 0, "the pieces of all ranks");
	end();
	test_entries(2, 5, RANKS, "a rank that is one too high");
	test_entries(2, 5, UINT32_MAX, "rank 2^32 - 1");
	test_entries(2, 5, 5, "a rank twice");
	test_entries(2, 5, 4, "a rank that is below rank 1");
	test_entries(2, 5, 0, "the root");
	test_claimed(0);
	test_claimed(1);
	test_length(2);
	test_length(4);
	begin(0);
	put_pieces(0, 1, 3, 4);
	put_pieces(0, 1, 3, 4);
	is_int(run_root(), COLL_ERR_INTERNAL, "rank 1 sends its pieces twice");
	has_str(error_text(), "rank 1 broke the bootstrap's protocol: frame 1 in round 1",
		"and is named");
	end();
}

static void test_heard(uint32_t round, uint64_t len)
{
	const uint8_t heard[BODY] = {0};

	begin(0);
	put_child(0, (struct star_frame){.type = STAR_HEARD, .round = round, .len = len, .seat = 1},
		  heard);
	is_int(run_root(), COLL_ERR_INTERNAL, "rank 1 has heard from %d ranks in round %u",
	       (int)len, round);
	has_str(error_text(), "rank 1 broke the bootstrap's protocol: it has heard from",
		"and is named");
	end();
}

/* ---------------------------------------------------------------------- in the middle -- */

static struct star_frame leaf_piece(uint32_t seat)
{
	return (struct star_frame){
		.type = STAR_PIECE, .round = 1, .timeout_ms = UINT32_MAX, .seat = seat};
}

static int run_inner(void)
{
	return star_inner_exchange(t, NULL, NULL, 0, &failure, TIMEOUT_MS);
}

static void test_seat(uint32_t first, uint32_t second, const char *what)
{
	begin(1);
	put_child(0, leaf_piece(first), NULL);
	put_child(1, leaf_piece(second), NULL);
	is_int(run_inner(), COLL_ERR_INTERNAL, "a rank says that it has %s", what);
	has_str(error_text(), "it says that it has seat", "and is refused");
	end();
}

/* Seat 3 has no children, but its first one would have the number of ranks as its seat. */
static void test_no_such_seat(void)
{
	begin(1);
	t->seat = 3;
	put_child(0, leaf_piece(RANKS), NULL);
	is_int(run_inner(), COLL_ERR_INTERNAL,
	       "a rank says that it has a seat that is one too high");
	has_str(error_text(), "it says that it has seat 7", "and is refused");
	end();
}

/* Another frame, another seat. */
static void test_other_seat(void)
{
	const uint8_t heard[RANKS] = {0};
	struct star_frame head = leaf_piece(3);

	head.type = STAR_HEARD;
	head.len = RANKS;
	begin(1);
	put_child(0, head, heard);
	put_child(0, leaf_piece(4), NULL);
	is_int(run_inner(), COLL_ERR_INTERNAL, "a rank changes its seat");
	has_str(error_text(), "it says that it has seat 4", "and is refused");
	end();
}

static void test_inner(void)
{
	const struct star_frame table = {.type = STAR_TABLE, .round = 1};

	test_seat(3, 0, "the root's seat");
	test_seat(3, SEAT, "its parent's seat");
	test_seat(3, 5, "a seat below another rank");
	test_seat(3, UINT32_MAX, "seat 2^32 - 1");
	test_seat(3, 3, "the seat of another child");
	test_no_such_seat();
	test_other_seat();
	begin(1);
	put(parent.fd, &parent.stream, table, NULL);
	is_int(run_inner(), COLL_ERR_INTERNAL, "the parent sends the table before the pieces");
	has_str(error_text(), "came before the pieces", "which is told");
	end();
}

int main(void)
{
	star_shape = (struct star_shape){.flat = 1, .fan = CHILDREN};
	test_root();
	test_heard(1, RANKS - 1);
	test_heard(1, RANKS + 1);
	test_heard(2, RANKS);
	test_inner();
	return done_testing();
}
