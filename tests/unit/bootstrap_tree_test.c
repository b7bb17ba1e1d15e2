/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap_tree_test.c - a meeting of many ranks: the shape of the tree, what the root has to do, and who is named
 * when a rank is missing, silent or dead.
 *
 * Ranks sit down in the order of their arrival, so no test knows which rank sits where.
 */
#include <pthread.h>
#include <stdatomic.h>
#include <sys/resource.h>
#include "meet/tree.h"
#include "base/error.h"
#include "../lib/log_capture.h"
#include "../lib/ranks.h"
#include "bootstrap_harness.h"

/* -------------------------------------------------------------------------- the shape -- */

/* Counts the indices of n ranks whose parent, subtree or height does not fit the indices around them. */
static int shape_faults(int n)
{
	int bad = 0, below = 0;

	for (int index = 1; index < n; index++) {
		const int parent = tree_shape_parent(index, n);
		const int first = tree_shape_first_child(parent, n);

		bad += parent < 0 || parent >= index || index < first ||
		       index >= first + tree_shape_children(parent, n);
	}
	for (int index = n - 1; index >= 0; index--) {
		const int first = tree_shape_first_child(index, n);
		int size = 1, height = 0;

		for (int i = 0; i < tree_shape_children(index, n); i++) {
			const int level = 1 + tree_shape_height(first + i, n);

			size += tree_shape_size(first + i, n);
			height = level > height ? level : height;
		}
		below += tree_shape_children(index, n);
		bad += size != tree_shape_size(index, n) || height != tree_shape_height(index, n);
	}
	return bad + (below != n - 1) + (tree_shape_size(0, n) != n);
}

static void test_shape(void)
{
	const struct tree_shape usual = tree_shape;
	int bad = 0;

	for (int n = 2; n <= 700; n++)
		bad += shape_faults(n);
	is_int(bad, 0,
	       "every rank has a parent that knows it: 2 to 700 ranks, as they usually sit");
	is_int(tree_shape_height(0, usual.flat), 1, "a tree of %d ranks is flat", usual.flat);
	is_int(tree_shape_height(0, usual.flat + 1), 2, "a tree of one more is deep");
	is_int(shape_faults(65536), 0, "65,536 ranks");
	is_int(tree_shape_height(0, 65536), 4, "have four levels below the root");
	bad = 0;
	for (int fan = 1; fan <= 5; fan++) {
		tree_shape = (struct tree_shape){.flat = 1, .fan = fan};
		for (int n = 2; n <= 200; n++)
			bad += shape_faults(n);
	}
	tree_shape = usual;
	is_int(bad, 0, "trees of one to five children");
}

/* ------------------------------------------------------------- what the root has to do -- */

/* The bytes that the root receives and sends in an exchange of `len` bytes from each of n ranks. */
static uint64_t root_bytes(int n, size_t len)
{
	uint64_t bytes = 0;

	for (int index = 1; index <= tree_shape_children(0, n); index++) {
		const uint64_t size = (uint64_t)tree_shape_size(index, n);

		bytes += sizeof(struct tree_frame) + (size > 1 ? size * (4 + len) : len);
		bytes += sizeof(struct tree_frame) + (uint64_t)n * len;
	}
	return bytes;
}

enum { MANY = 300, MANY_LENGTH = 24 };

static struct many {
	pthread_t thread;
	const struct rank_args *args;
	int rank;
	struct rank_result result;
} many[MANY];

/* What the root counted. */
static struct {
	uint64_t accepted, bytes;
	int children;
} counted;

static int work_many(struct bootstrap *bootstrap, void *arg)
{
	struct tree *t = (struct tree *)bootstrap;
	const int me = bootstrap_rank(bootstrap);
	int64_t in[3] = {me, 7 * me, -me}, out[MANY * 3];
	uint64_t before = t->bytes;
	int bad = 0, code;

	(void)arg;
	_Static_assert(sizeof(in) == MANY_LENGTH, "three numbers");
	code = bootstrap_exchange(bootstrap, in, out, sizeof(in), LONG_MS);
	for (int r = 0; code == 0 && r < MANY; r++)
		bad += out[3 * r] != r || out[3 * r + 1] != 7 * r || out[3 * r + 2] != -r ||
		       bootstrap_peer(bootstrap, r)->pid != getpid();
	if (me == 0) {
		counted.accepted = t->nconns;
		counted.bytes = t->bytes - before;
		counted.children = t->nchildren;
	}
	if (code == 0)
		code = bootstrap_exchange(bootstrap, NULL, NULL, 0, LONG_MS);
	return code  ? code
	       : bad ? error_set(COLL_ERR_INTERNAL, "rank %d has %d wrong blocks", me, bad)
		     : 0;
}

static void *run_many(void *arg)
{
	struct many *one = arg;

	one->result = rank_run(one->args, one->rank);
	return NULL;
}

static void test_many(void)
{
	char id[COLL_UNIQUE_ID_SIZE];
	struct rank_args args = {
		.id = id, .nranks = MANY, .timeout_ms = LONG_MS, .work = work_many};
	struct rlimit files;
	int failed = 0;

	/* All ranks are in one process: two descriptors for each connection. */
	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < 4096) {
		files.rlim_cur = files.rlim_max < 4096 ? files.rlim_max : 4096;
		setrlimit(RLIMIT_NOFILE, &files);
	}
	bootstrap_make_id(id, sizeof(id), NULL);
	for (int r = MANY - 1; r >= 0; r--) {
		many[r] = (struct many){.args = &args, .rank = r};
		if (pthread_create(&many[r].thread, NULL, run_many, &many[r]))
			bail_out("no thread for rank %d", r);
	}
	for (int r = 0; r < MANY; r++) {
		pthread_join(many[r].thread, NULL);
		if (many[r].result.code && failed++ < 3)
			diag("rank %d: %s", r, many[r].result.text);
	}
	is_int(failed, 0, "%d ranks meet and exchange", MANY);
	is_int((int64_t)counted.accepted, MANY - 1, "each has come to the root once");
	is_int(counted.children, tree_shape.fan, "which keeps the connections of its children");
	is_int((int64_t)counted.bytes, (int64_t)root_bytes(MANY, MANY_LENGTH),
	       "and moves the bytes that the shape says");
}

/* The same count for a job that this machine cannot hold. */
static void test_65536(void)
{
	const struct tree_shape usual = tree_shape;
	const size_t len = sizeof(struct bootstrap_peer);
	uint64_t deep = root_bytes(65536, len), flat;

	tree_shape.flat = 65536;
	flat = root_bytes(65536, len);
	tree_shape = usual;
	diag("65,536 ranks, %zu bytes each: the root moves %llu MiB in an exchange; in a flat tree "
	     "it "
	     "would "
	     "move %llu MiB",
	     len, (unsigned long long)deep >> 20, (unsigned long long)flat >> 20);
	ok(deep * 1000 < flat,
	   "the root of 65,536 ranks does a thousandth of the work in a flat tree");
}

/* ------------------------------------------------------------------------------ faults -- */

enum { FEW = 12, FEW_FAN = 2 };

static void run_few(const struct rank_args *args, const uint8_t *absent,
		    struct rank_result results[FEW])
{
	struct rank_child children[FEW];

	for (int r = FEW - 1; r >= 0; r--)
		if (!absent || !absent[r])
			children[r] = rank_spawn(args, r);
	for (int r = 0; r < FEW; r++) {
		results[r] = (struct rank_result){.code = -2};
		if (absent && absent[r])
			continue;
		results[r] = rank_collect(children[r]);
	}
}

/* Is the rank named, and not rank 10 for rank 1? */
static int names(const char *text, int rank)
{
	char word[32];
	const char *at = text;
	int n = snprintf(word, sizeof(word), "rank %d", rank);

	while ((at = strstr(at, word)) != NULL && at[n] >= '0' && at[n] <= '9')
		at++;
	return at != NULL;
}

/* Counts the results of the other ranks that are not this one; prints the first. */
static int count_others(const struct rank_result results[FEW], int but, int code, const char *text)
{
	int bad = 0;

	for (int r = 0; r < FEW; r++) {
		if (r == but || results[r].code == -2 ||
		    (results[r].code == code && strstr(results[r].text, text)))
			continue;
		if (bad++ == 0)
			diag("rank %d: %d %s", r, results[r].code, results[r].text);
	}
	return bad;
}

static void test_missing(void)
{
	static const uint8_t absent[FEW] = {[3] = 1, [8] = 1, [9] = 1};
	struct rank_result results[FEW];
	char root[64];
	struct rank_args args = {.root = root, .nranks = FEW, .timeout_ms = 3000};

	snprintf(root, sizeof(root), "127.0.0.1:%d", free_port());
	bootstrap_set_stall(1500);
	log_begin();
	run_few(&args, absent, results);
	log_end();
	bootstrap_set_stall(0);
	is_int(count_others(results, -1, COLL_ERR_TIMEOUT,
			    "timed out: ranks 3, 8-9 of 12 have not been heard from after"),
	       0, "who never came is named on every rank, and nobody else");
	has_str(log_text(), "rank 0 waits for ranks 3, 8-9 of 12, not heard from for 1.",
		"long before rank 0 has logged who is missing");
	is_int(log_lines("waits for"), 1, "and nobody else has");
}

/*
 * A rank comes to the exchange once rank 0 has logged that it waits for this rank and no other.  Rank 0's question for that
 * is no failure.
 */
static int work_late(struct bootstrap *bootstrap, void *arg)
{
	const int me = bootstrap_rank(bootstrap), late = *(const int *)arg;
	const int64_t end = clock_deadline(LONG_MS / 2);
	char line[64];

	snprintf(line, sizeof(line), "waits for rank %d of %d,", late, FEW);
	while (me == late && !strstr(log_text(), line) && clock_remaining(end) > 0) {
		if (bootstrap_failure_waits(bootstrap))
			return error_set(COLL_ERR_REMOTE, "a failure waits that nobody told");
		pause_ms(10);
	}
	return bootstrap_exchange(bootstrap, NULL, NULL, 0, LONG_MS);
}

static void test_late(int late)
{
	struct rank_result results[FEW];
	char root[64];
	struct rank_args args = {.root = root,
				 .nranks = FEW,
				 .timeout_ms = LONG_MS,
				 .work = work_late,
				 .arg = &late};
	int64_t start = clock_now_ms();

	snprintf(root, sizeof(root), "127.0.0.1:%d", free_port());
	bootstrap_set_stall(200);
	log_begin();
	run_few(&args, NULL, results);
	log_end();
	bootstrap_set_stall(0);
	is_int(count_others(results, -1, 0, ""), 0, "rank %d is late: all ranks wait for it", late);
	ok(clock_now_ms() - start < LONG_MS / 2, "and rank 0 logs for whom");
	if (clock_now_ms() - start >= LONG_MS / 2)
		diag("%s", log_text());
}

/* The rank that does not exchange, the one whose time is short, and their times. */
static struct {
	int silent, hasty;
	int64_t timeout_ms;
} scene;

static int work_silent(struct bootstrap *bootstrap, void *arg)
{
	const int me = bootstrap_rank(bootstrap);

	(void)arg;
	if (me == scene.silent) {
		pause_ms(8000);
		return 0;
	}
	return bootstrap_exchange(bootstrap, NULL, NULL, 0,
				  scene.hasty == me || scene.hasty < 0 ? scene.timeout_ms
								       : LONG_MS);
}

/* Ranks below the silent one hear nothing from others: they may wait until it ends, and name it then. */
static int count_silent(const struct rank_result results[FEW], int silent)
{
	int bad = 0;

	for (int r = 0; r < FEW; r++) {
		if (r == silent || ((results[r].code == COLL_ERR_TIMEOUT ||
				     results[r].code == COLL_ERR_PEER_LOST) &&
				    names(results[r].text, silent)))
			continue;
		if (bad++ == 0)
			diag("rank %d: %d %s", r, results[r].code, results[r].text);
	}
	return bad;
}

static void test_silent(int silent, int hasty)
{
	struct rank_result results[FEW];
	char root[64];
	struct rank_args args = {.root = root, .nranks = FEW, .timeout_ms = LONG_MS};
	int64_t start = clock_now_ms();

	snprintf(root, sizeof(root), "127.0.0.1:%d", free_port());
	scene.silent = silent;
	scene.hasty = hasty;
	scene.timeout_ms = 1000;
	args.work = work_silent;
	run_few(&args, NULL, results);
	is_int(count_silent(results, silent), 0,
	       "rank %d is silent%s: every rank names it, and no other", silent,
	       hasty < 0 ? "" : ", and only one rank has little time");
	ok(clock_now_ms() - start < LONG_MS / 2, "nobody waits for the longest timeout");
}

static int work_exchange_and_die(struct bootstrap *bootstrap, void *arg)
{
	const int victim = *(const int *)arg;
	int64_t in = bootstrap_rank(bootstrap), out[FEW];
	int code = 0;

	for (int i = 0; code == 0 && i < 200; i++) {
		if (i == 20 && bootstrap_rank(bootstrap) == victim)
			raise(SIGKILL);
		code = bootstrap_exchange(bootstrap, &in, out, sizeof(in), LONG_MS);
	}
	return code;
}

static void test_death(int victim)
{
	struct rank_result results[FEW];
	char root[64], words[64];
	struct rank_args args = {.root = root, .nranks = FEW, .timeout_ms = LONG_MS};

	snprintf(root, sizeof(root), "127.0.0.1:%d", free_port());
	snprintf(words, sizeof(words), "rank %d (pid ", victim);
	args.work = work_exchange_and_die;
	args.arg = &victim;
	run_few(&args, NULL, results);
	is_int(count_others(results, victim, COLL_ERR_PEER_LOST, words), 0,
	       "rank %d dies: every rank hears who", victim);
}

enum { MEET_MS = 5000 };

/* Kills a rank after that time; returns the number of ranks that do not name it. */
static int kill_one(int victim, int after_ms)
{
	struct rank_child children[FEW];
	struct rank_result results[FEW];
	char root[64];
	int bad = 0, none = -1;
	struct rank_args args = {.root = root,
				 .nranks = FEW,
				 .timeout_ms = ranks_sanitized() ? 3 * MEET_MS : MEET_MS,
				 .work = work_exchange_and_die,
				 .arg = &none};

	snprintf(root, sizeof(root), "127.0.0.1:%d", free_port());
	for (int r = 0; r < FEW; r++)
		children[r] = rank_spawn(&args, r);
	pause_ms(after_ms);
	kill(children[victim].pid, SIGKILL);
	for (int r = 0; r < FEW; r++) {
		results[r] = rank_collect(children[r]);
		/* A rank that dies before it has met anybody is missed when the time is up. */
		if (r == victim || results[r].code == 0 ||
		    ((results[r].code == COLL_ERR_PEER_LOST ||
		      results[r].code == COLL_ERR_TIMEOUT) &&
		     names(results[r].text, victim)))
			continue;
		if (bad++ < 3)
			diag("rank %d of the dead %d: %d %s", r, victim, results[r].code,
			     results[r].text);
	}
	return bad;
}

/* A rank is killed at any moment of the meeting: nobody waits for the timeout of the exchanges. */
static void test_killed(int trials)
{
	int slow = 0, bad = 0;

	for (int i = 0; i < trials; i++) {
		int64_t start = clock_now_ms();

		bad += kill_one(1 + i % (FEW - 1), i * 7 % 40);
		slow += clock_now_ms() - start > LONG_MS / 2;
	}
	is_int(slow, 0, "%d deaths at any moment: nobody waits long", trials);
	is_int(bad, 0, "and nobody names another rank");
}

/*
 * The time of a rank and that of its parent end together: the parent asks which ranks are missing while this rank says
 * so unasked.
 */
static void test_both_ends_at_once(void)
{
	static const uint8_t key[HANDSHAKE_KEY_SIZE] = {1};
	const struct tree_frame heard = {.type = TREE_STATUS, .len = 4};
	struct tree *t = calloc(1, sizeof(*t));
	struct tree_frame got;
	int ends[2];

	if (t == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends) ||
	    write(ends[1], &heard, sizeof(heard)) < 0)
		bail_out("socketpair: %s", strerror(errno));
	t->parent.fd = ends[0];
	t->bootstrap.nranks = 4;
	tree_stream_init(&t->parent.stream, 0, key, key);
	is_int(tree_parent_send(t, heard, "abcd", LONG_MS), 0, "the parent has asked");
	is_int(recv(ends[1], &got, sizeof(got), MSG_DONTWAIT), sizeof(got),
	       "and is told all the same");
	close(ends[0]);
	close(ends[1]);
	free(t);
}

/* The parent's end of a connection, and that of the rank. */
struct slow_parent {
	int fd, rank_fd;
	_Atomic int stopped; /* the rank sends no more */
	size_t got;
};

/* Reads nothing before the rank has read the question that waits for it, then all. */
static void *read_slowly(void *arg)
{
	struct slow_parent *p = arg;
	char buf[4096];
	ssize_t n;

	while (!atomic_load(&p->stopped) && recv(p->rank_fd, buf, 1, MSG_PEEK | MSG_DONTWAIT) > 0)
		pause_ms(1);
	while (socket_poll(p->fd, POLLIN, clock_deadline(LONG_MS)) &&
	       (n = recv(p->fd, buf, sizeof(buf), MSG_DONTWAIT)) > 0)
		p->got += (size_t)n;
	return NULL;
}

/* The parent's time is up while a rank is midway in a large piece: the parent asks, and reads on. */
static void test_asked_midway(void)
{
	static const uint8_t key[HANDSHAKE_KEY_SIZE] = {1};
	struct tree_frame who = {.type = TREE_WHO};
	const struct tree_frame piece = {.type = TREE_PIECE, .len = 4 << 20};
	struct tree_stream parent = {.sent = 0};
	struct tree *t = calloc(1, sizeof(*t));
	char *body = calloc(1, (size_t)piece.len);
	struct slow_parent slow = {.got = 0};
	pthread_t thread;
	int ends[2];

	if (t == NULL || body == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends))
		bail_out("socketpair: %s", strerror(errno));
	tree_stream_init(&parent, 1, key, t->body_key);
	tree_seal_body(t->body_key, &who, NULL);
	tree_seal(&parent, &who);
	if (write(ends[1], &who, sizeof(who)) < 0)
		bail_out("write: %s", strerror(errno));
	t->parent.fd = slow.rank_fd = ends[0];
	slow.fd = ends[1];
	tree_stream_init(&t->parent.stream, 0, key, t->body_key);
	if (pthread_create(&thread, NULL, read_slowly, &slow))
		bail_out("no thread");
	is_int(tree_parent_send(t, piece, body, LONG_MS), 0,
	       "the parent asks amidst a large piece");
	atomic_store(&slow.stopped, 1);
	shutdown(ends[0], SHUT_WR);
	pthread_join(thread, NULL);
	is_int((int64_t)slow.got, (int64_t)(sizeof(piece) + piece.len), "and gets all of it");
	ok(t->parent_waits && t->parent.out_left == 0, "the rank knows that it was asked");
	close(ends[0]);
	close(ends[1]);
	free(body);
	free(t);
}

/* A frame that broke off is the last one: another one in it would look changed on the way. */
static void test_broken_off(void)
{
	const struct tree_frame piece = {.type = TREE_PIECE};
	struct tree *t = calloc(1, sizeof(*t));
	char byte;
	int ends[2];

	if (t == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends))
		bail_out("socketpair: %s", strerror(errno));
	t->parent.fd = ends[0];
	t->parent.out_left = 1;
	is_int(tree_parent_send(t, piece, NULL, LONG_MS), 0, "a frame after one that broke off");
	ok(recv(ends[1], &byte, 1, MSG_DONTWAIT) < 0, "is not sent");
	close(ends[0]);
	close(ends[1]);
	free(t);
}

static const uint8_t root_key[HANDSHAKE_KEY_SIZE] = {1};

/* Writes to the root the first frame of a connection: its head, and behind it the body. */
static void put_first(int fd, const uint8_t *body_key, struct tree_frame *head, size_t size)
{
	struct tree_stream stream = {.sent = 0};

	tree_stream_init(&stream, 0, root_key, body_key);
	tree_seal_body(body_key, head, head + 1);
	tree_seal(&stream, head);
	if (write(fd, head, size) != (ssize_t)size)
		bail_out("write: %s", strerror(errno));
}

/* Sends the root, some time after its round has begun, the pieces of three ranks, with little time left. */
struct late_child {
	int fd;
	const uint8_t *body_key;
	int64_t begin; /* of the root's round; 0: not yet */
};

enum { LATE_CHILD_MS = 300 };

static int send_pieces_late(void *user)
{
	struct late_child *child = user;
	struct {
		struct tree_frame head;
		uint32_t ranks[3];
	} piece = {.head = {.type = TREE_PIECE,
			    .round = 1,
			    .len = sizeof(piece.ranks),
			    .timeout_ms = 50,
			    .index = 1},
		   .ranks = {1, 2, 3}};

	if (!child->begin)
		child->begin = clock_now_ms();
	if (child->fd < 0 || clock_now_ms() - child->begin < LATE_CHILD_MS)
		return 0;
	put_first(child->fd, child->body_key, &piece.head, sizeof(piece));
	child->fd = -1;
	return 0;
}

/* The root of seven ranks, with a connection to rank 1, whose other end is *end. */
static struct tree *root_of_seven(int *end)
{
	struct tree *t = calloc(1, sizeof(*t));
	struct session session;
	int ends[2];

	if (t == NULL || socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends))
		bail_out("socketpair: %s", strerror(errno));
	t->bootstrap.nranks = 7;
	t->parent.fd = -1;
	tree_set_handshake(t);
	if (tree_take_index(t, 0))
		bail_out("%s", error_text());
	session = session_of(1, ends[0], root_key);
	t->acceptor.connected(t->acceptor.owner, &session);
	*end = ends[1];
	return t;
}

static void root_end(struct tree *t, int end)
{
	tree_close(t);
	close(end);
	free(t);
}

/* A rank with children says with its pieces how much time is left to it: the root has waited longer than that. */
static void test_seconds(void)
{
	int end;
	struct tree *t = root_of_seven(&end);
	struct bootstrap_failure failure = {.code = COLL_SUCCESS};
	struct late_child child = {.begin = 0};
	const char *after;
	double seconds, passed;
	int64_t begin;

	t->conns[0].placed = 1;
	child.fd = end;
	child.body_key = t->body_key;
	bootstrap_guard(&t->bootstrap, send_pieces_late, &child);
	begin = clock_now_ms();
	is_int(tree_exchange(t, NULL, NULL, 0, &failure, LONG_MS), COLL_ERR_TIMEOUT,
	       "a rank below has less time than the root");
	passed = (double)(clock_now_ms() - begin) / 1e3;
	after = strstr(error_text(), "ranks 4-6 of 7 have not been heard from after ");
	seconds = after ? strtod(strstr(after, "after ") + 6, NULL) : -1;
	/* The text has two digits. */
	ok(seconds >= LATE_CHILD_MS / 1e3 && seconds < 1.1 * passed,
	   "the root tells how long it has waited, %.3f s: %s", passed, error_text());
	root_end(t, end);
}

/* A rank that says where it listens in a text without room for its end: the place behind the text stays as it is. */
static void test_long_here(void)
{
	int end;
	struct tree *t = root_of_seven(&end);
	struct bootstrap_failure failure = {.code = COLL_SUCCESS};
	struct {
		struct tree_frame head;
		char text[UNIQUE_ID_TEXT_MAX];
	} here = {.head = {.type = TREE_HERE, .len = sizeof(here.text), .timeout_ms = UINT32_MAX}};

	memset(here.text, 'x', sizeof(here.text));
	put_first(end, t->body_key, &here.head, sizeof(here));
	t->conns[1].link.rank = -1; /* the place behind the text */
	is_int(tree_exchange(t, NULL, NULL, 0, &failure, 1000), COLL_ERR_INTERNAL,
	       "an address without room for its end is refused");
	is_int(t->conns[1].link.rank, -1, "and nothing is written behind it");
	root_end(t, end);
}

int main(void)
{
	test_shape();
	test_many();
	test_65536();
	tree_shape = (struct tree_shape){.flat = 1, .fan = FEW_FAN};
	test_missing();
	test_late(1);
	test_late(7);
	test_late(11);
	test_silent(0, -1);
	test_silent(1, -1);
	test_silent(7, -1);
	test_silent(4, 6);
	for (int victim = 0; victim < FEW; victim++)
		test_death(victim);
	test_killed(ranks_sanitized() ? 10 : 30);
	test_both_ends_at_once();
	test_asked_midway();
	test_broken_off();
	test_seconds();
	test_long_here();
	return done_testing();
}
