/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap_entries_test.c - ranks of a tree that know the key and break the protocol: they send pieces of other ranks, a
 * second piece, another index than their own, or a table too early.  Every such frame is an error that names the rank.
 *
 * Every rank of seven has two children or none; the rank under test is the root or has index 1, and the test writes for the others.
 */
#include "meet/tree.h"
#include "base/error.h"
#include "bootstrap_harness.h"

enum { RANKS = 7, CHILDREN = 2, INDEX = 1, TIMEOUT_MS = 300, BODY = 64 };

static const uint8_t key[HANDSHAKE_KEY_SIZE] = {1};

/* The rank under test and the other ends of its connections. */
static struct tree *t;
static struct bootstrap_failure failure;
static struct {
	int fd;
	struct tree_stream stream;
} children[CHILDREN], parent;

static int new_end(int fds[2])
{
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
		bail_out("socketpair: %s", strerror(errno));
	return fds[1];
}

/* Rank 0, the root, or rank 1, which has index 1 below it; the children are ranks 1 and 2, or 2 and 3. */
static void begin(int rank)
{
	struct session session;
	int fds[2], code;

	t = calloc(1, sizeof(*t));
	if (!t)
		bail_out("no memory");
	failure = (struct bootstrap_failure){.code = COLL_SUCCESS};
	t->bootstrap.rank = rank;
	t->bootstrap.nranks = RANKS;
	t->parent.fd = -1;
	tree_set_handshake(t);
	code = tree_take_index(t, rank ? INDEX : 0);
	if (code)
		bail_out("%s", error_text());
	for (int i = 0; i < CHILDREN; i++) {
		children[i].fd = new_end(fds);
		children[i].stream = (struct tree_stream){.sent = 0};
		tree_stream_init(&children[i].stream, 0, key, t->body_key);
		session = session_of((uint32_t)(rank + 1 + i), fds[0], key);
		t->acceptor.connected(t->acceptor.owner, &session);
		t->conns[i].placed = 1;
	}
	parent.fd = new_end(fds);
	parent.stream = (struct tree_stream){.sent = 0};
	tree_stream_init(&parent.stream, 1, key, t->body_key);
	session = session_of(0, fds[0], key);
	if (rank)
		tree_link_open(t, &t->parent, 0, &session);
	else
		close(fds[0]);
}

static void end(void)
{
	tree_close(t);
	for (int i = 0; i < CHILDREN; i++)
		close(children[i].fd);
	close(parent.fd);
	free(t);
}

static void put(int fd, struct tree_stream *stream, struct tree_frame head, const void *body)
{
	uint8_t bytes[sizeof(head) + BODY] = {0};

	tree_seal_body(stream->body_key, &head, body);
	tree_seal(stream, &head);
	stream->sent++;
	memcpy(bytes, &head, sizeof(head));
	if (head.len > 0)
		memcpy(bytes + sizeof(head), body, (size_t)head.len);
	if (write(fd, bytes, sizeof(head) + (size_t)head.len) < 0)
		bail_out("write: %s", strerror(errno));
}

static void put_child(int i, struct tree_frame head, const void *body)
{
	put(children[i].fd, &children[i].stream, head, body);
}

/* The pieces, of no bytes, of a subtree of three ranks. */
static void put_pieces(int i, uint32_t a, uint32_t b, uint32_t c)
{
	const uint32_t ranks[] = {a, b, c};

	put_child(i,
		  (struct tree_frame){.type = TREE_PIECE,
				      .round = 1,
				      .len = sizeof(ranks),
				      .timeout_ms = UINT32_MAX,
				      .index = (uint32_t)i + 1},
		  ranks);
}

static int run(void)
{
	return tree_exchange(t, NULL, NULL, 0, &failure, TIMEOUT_MS);
}

/* ------------------------------------------------------------------------- the root -- */

static void test_entries(uint32_t a, uint32_t b, uint32_t c, const char *what)
{
	begin(0);
	put_pieces(0, 1, 3, 4);
	put_pieces(1, a, b, c);
	is_int(run(), COLL_ERR_INTERNAL, "rank 2 sends the piece of %s", what);
	has_str(error_text(), "rank 2 broke the bootstrap's protocol: it has a piece of rank",
		"and is named");
	end();
}

/* Rank 1 sends its piece and that of rank 2, which is a child of the root itself. */
static void put_claim(void)
{
	const uint32_t ranks[] = {1, 2};

	put_child(0,
		  (struct tree_frame){.type = TREE_PIECE,
				      .round = 1,
				      .len = sizeof(ranks),
				      .timeout_ms = UINT32_MAX,
				      .index = 1},
		  ranks);
}

/* Once the root has the piece of rank 2. */
static int put_claim_later(void *put)
{
	if (t->conns[1].status == TREE_CAME && !*(int *)put) {
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
		  (struct tree_frame){
			  .type = TREE_PIECE, .round = 1, .timeout_ms = UINT32_MAX, .index = 2},
		  NULL);
	is_int(run(), COLL_ERR_INTERNAL, "rank 1 sends the piece of rank 2 %s it has come",
	       later ? "after" : "before");
	has_str(error_text(), "broke the bootstrap's protocol: it has a piece of rank 2 of 4",
		"which is told");
	end();
}

/* Another number of pieces than the subtree has ranks. */
static void test_length(uint32_t ranks)
{
	const uint32_t all[] = {1, 3, 4, 5};
	const struct tree_frame head = {.type = TREE_PIECE,
					.round = 1,
					.len = ranks * sizeof(*all),
					.timeout_ms = UINT32_MAX,
					.index = 1};

	begin(0);
	put_child(0, head, all);
	is_int(run(), COLL_ERR_MISMATCH, "rank 1 sends the pieces of %u ranks, not of 3", ranks);
	has_str(error_text(), "bytes with those of 3 ranks", "which is told");
	end();
}

static void test_root(void)
{
	begin(0);
	put_pieces(0, 1, 3, 4);
	put_pieces(1, 2, 5, 6);
	is_int(run(), 0, "the pieces of all ranks");
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
	is_int(run(), COLL_ERR_INTERNAL, "rank 1 sends its pieces twice");
	has_str(error_text(), "rank 1 broke the bootstrap's protocol: frame 1 in round 1",
		"and is named");
	end();
}

static void test_status(uint32_t round, uint64_t len)
{
	const uint8_t heard[BODY] = {0};

	begin(0);
	put_child(0,
		  (struct tree_frame){.type = TREE_STATUS, .round = round, .len = len, .index = 1},
		  heard);
	is_int(run(), COLL_ERR_INTERNAL, "rank 1 has heard from %d ranks in round %u", (int)len,
	       round);
	has_str(error_text(), "rank 1 broke the bootstrap's protocol: it has heard from",
		"and is named");
	end();
}

/* ---------------------------------------------------------------------- in the middle -- */

static struct tree_frame leaf_piece(uint32_t index)
{
	return (struct tree_frame){
		.type = TREE_PIECE, .round = 1, .timeout_ms = UINT32_MAX, .index = index};
}

static void test_index(uint32_t first, uint32_t second, const char *what)
{
	begin(1);
	put_child(0, leaf_piece(first), NULL);
	put_child(1, leaf_piece(second), NULL);
	is_int(run(), COLL_ERR_INTERNAL, "a rank says that it has %s", what);
	has_str(error_text(), "it says that it has index", "and is refused");
	end();
}

/* Index 3 has no children, but its first one would have the number of ranks as its index. */
static void test_no_such_index(void)
{
	begin(1);
	t->index = 3;
	put_child(0, leaf_piece(RANKS), NULL);
	is_int(run(), COLL_ERR_INTERNAL, "a rank says that it has an index that is one too high");
	has_str(error_text(), "it says that it has index 7", "and is refused");
	end();
}

/* Another frame, another index. */
static void test_other_index(void)
{
	const uint8_t heard[RANKS] = {0};
	struct tree_frame head = leaf_piece(3);

	head.type = TREE_STATUS;
	head.len = RANKS;
	begin(1);
	put_child(0, head, heard);
	put_child(0, leaf_piece(4), NULL);
	is_int(run(), COLL_ERR_INTERNAL, "a rank changes its index");
	has_str(error_text(), "it says that it has index 4", "and is refused");
	end();
}

static void test_inner(void)
{
	const struct tree_frame table = {.type = TREE_TABLE, .round = 1};

	test_index(3, 0, "the root's index");
	test_index(3, INDEX, "its parent's index");
	test_index(3, 5, "an index below another rank");
	test_index(3, UINT32_MAX, "index 2^32 - 1");
	test_index(3, 3, "the index of another child");
	test_no_such_index();
	test_other_index();
	begin(1);
	put(parent.fd, &parent.stream, table, NULL);
	is_int(run(), COLL_ERR_INTERNAL, "the parent sends the table before the pieces");
	has_str(error_text(), "came before the pieces", "which is told");
	end();
}

int main(void)
{
	tree_shape = (struct tree_shape){.flat = 1, .fan = CHILDREN};
	test_root();
	test_status(1, RANKS - 1);
	test_status(1, RANKS + 1);
	test_status(2, RANKS);
	test_inner();
	return done_testing();
}
