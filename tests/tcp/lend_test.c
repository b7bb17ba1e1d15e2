/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lend_test.c - operations over tcp whose buffers lie in memory of coll_mem_alloc: the results, what each rank maps, and what
 * becomes of the memory when it is freed, when a rank dies or waits too long, and where a rank cannot map it.  The same with
 * ordinary memory where ranks take turns on a processor, and long messages take bounce buffers.
 */
#include "../lib/open_files.h"
#include "../lib/ranks.h"

#include <sys/resource.h>

enum { RANKS = 3, MOST = 5 << 20, TURNS = 6, MANY = 40, PIECE = 64 << 10 };
enum {
	SHARED = 64 << 10
}; /* elements of a message, long enough for a bounce buffer that others share */

static int ordinary; /* the buffers lie in memory of malloc() */

/* Returns how many pieces of memory of coll_mem_alloc this process has mapped: its own pieces, and pieces of other ranks. */
static int mapped(void)
{
	return mapped_files("memfd:coll-memory");
}

static int32_t *memory_of(struct rank *r, size_t bytes)
{
	void *at = NULL;

	if (ordinary)
		return malloc(bytes);
	rank_did(r, coll_mem_alloc(r->comm, bytes, &at), "coll_mem_alloc");
	return at;
}

static void memory_end(struct rank *r, void *at)
{
	if (ordinary)
		free(at);
	else
		rank_did(r, coll_mem_free(at), "coll_mem_free");
}

/* One allreduce of n elements; `turn` makes the values differ. */
static int sums(struct rank *r, const int32_t *in, int32_t *out, size_t n)
{
	if (!rank_did(r, coll_allreduce(in, out, n, COLL_INT32, COLL_SUM, r->comm, NULL),
		      "allreduce") ||
	    !rank_did(r, coll_sync(r->comm), "coll_sync"))
		return 0;
	return 1;
}

static int sums_right(struct rank *r, int32_t *in, int32_t *out, size_t n, int turn)
{
	int32_t all = r->nranks * (r->nranks - 1) / 2;

	for (size_t i = 0; i < n; i++)
		in[i] = (int32_t)(i % 1000) + r->rank + turn;
	if (!sums(r, in, out, n))
		return 0;
	for (size_t i = 0; i < n; i++)
		if (out[i] != r->nranks * ((int32_t)(i % 1000) + turn) + all)
			return rank_fail(r, "element %zu of %zu is %d in turn %d", i, n, out[i],
					 turn);
	return 1;
}

static int has_pattern(struct rank *r, const int32_t *buf, size_t n, int turn)
{
	for (size_t i = 0; i < n; i++)
		if (buf[i] != (int32_t)i + turn)
			return rank_fail(r, "element %zu of %zu is %d in turn %d", i, n, buf[i],
					 turn);
	return 1;
}

static void write_pattern(int32_t *buf, size_t n, int turn)
{
	for (size_t i = 0; i < n; i++)
		buf[i] = (int32_t)i + turn;
}

/* One broadcast.  Returns its code; if that is COLL_SUCCESS, each rank must have the pattern of the turn. */
static coll_result_t broadcast(struct rank *r, coll_comm_t comm, int32_t *buf, size_t n, int root,
			       int turn)
{
	coll_result_t code;

	write_pattern(buf, n, r->rank == root ? turn : -1);
	code = coll_broadcast(buf, buf, n, COLL_INT32, root, comm, NULL);
	if (!code)
		code = coll_sync(comm);
	if (!code)
		has_pattern(r, buf, n, turn);
	return code;
}

/* Moves messages until this process has mapped n pieces, a minute at most. */
static int comes_to_map(struct rank *r, int n)
{
	const double end = ranks_now() + 60;
	int32_t stop = 0, stopped = 0;
	int pieces = 0;

	/* All ranks go on until all have come there. */
	while (!stopped) {
		pieces = mapped();
		stop = pieces == n || ranks_now() > end;
		if (!rank_did(
			    r,
			    coll_allreduce(&stop, &stopped, 1, COLL_INT32, COLL_MIN, r->comm, NULL),
			    "min") ||
		    !rank_did(r, coll_sync(r->comm), "coll_sync"))
			return 0;
	}
	/* A rank may find an offer in its socket only now: it maps that memory until it looks again. */
	return rank_is(r, pieces, n, "pieces of memory that are mapped");
}

/* ----------------------------------------------------------------- the results -- */

static void run_sizes(struct rank *r)
{
	static const size_t sizes[] = {1, 4096, 5000, 65536, 131072, 262144, MOST / 4};
	int32_t *in = memory_of(r, MOST), *out = memory_of(r, MOST);

	for (int turn = 0; in && out && turn < TURNS; turn++)
		for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++)
			if (!sums_right(r, in, out, sizes[i], turn))
				return;
	/* Ranks map what others lend them: with three ranks each has its own two pieces, and pieces of the others. */
	if (ordinary ? mapped_files("memfd:coll-bounce") <= 1 : mapped() <= 2)
		rank_fail(r, "no memory of another rank is mapped");
	/* In place, and one buffer elsewhere. */
	for (size_t i = 0; i < MOST / 4; i++)
		in[i] = r->rank;
	if (sums(r, in, in, MOST / 4))
		rank_is(r, in[MOST / 4 - 1], RANKS * (RANKS - 1) / 2, "the last element in place");
	memory_end(r, in);
	memory_end(r, out);
	comes_to_map(r, 0);
}

/* Many messages from pieces of one memory, to each rank, with receives in another order. */
static void run_messages(struct rank *r)
{
	enum { MESSAGES = 24, ELEMENTS = PIECE / 4 };
	int32_t *out = memory_of(r, (size_t)MESSAGES * PIECE),
		*in = malloc((size_t)RANKS * MESSAGES * PIECE);
	coll_request_t sends[RANKS * MESSAGES], recvs[RANKS * MESSAGES];
	int n = 0, bad = 0;

	for (int turn = 0; out && in && turn < TURNS; turn++) {
		for (size_t i = 0; i < (size_t)MESSAGES * ELEMENTS; i++)
			out[i] = (int32_t)i + r->rank + turn;
		n = 0;
		for (int peer = 0; peer < r->nranks; peer++)
			for (int m = 0; m < MESSAGES; m++) {
				int32_t *to = in + ((size_t)peer * MESSAGES + (size_t)m) * ELEMENTS;

				sends[n] = rank_isend(r, out + (size_t)m * ELEMENTS, ELEMENTS, peer,
						      m);
				recvs[n++] = rank_irecv(r, to, ELEMENTS, peer, MESSAGES - 1 - m);
			}
		for (int i = 0; i < n; i++)
			if (!rank_ends(r, recvs[i], COLL_SUCCESS, "a receive"))
				return;
		for (int i = 0; i < n; i++)
			if (!rank_ends(r, sends[i], COLL_SUCCESS, "a send"))
				return;
		for (int peer = 0; peer < r->nranks; peer++)
			for (int m = 0; m < MESSAGES; m++)
				for (size_t i = 0; i < ELEMENTS; i++)
					bad += in[((size_t)peer * MESSAGES + (size_t)m) * ELEMENTS +
						  i] !=
					       (int32_t)((size_t)(MESSAGES - 1 - m) * ELEMENTS +
							 i) +
						       peer + turn;
	}
	rank_is(r, bad, 0, "wrong elements");
	free(in);
	memory_end(r, out);
}

/* --------------------------------------------------------- memory comes and goes -- */

static void run_many(struct rank *r)
{
	int32_t *in[MANY], out[PIECE / 4];

	for (int i = 0; i < MANY; i++)
		in[i] = memory_of(r, PIECE);
	for (int turn = 0; turn < TURNS; turn++)
		for (int i = 0; i < MANY; i++)
			if (!in[i] || !sums_right(r, in[i], out, PIECE / 4, turn + i))
				return;
	for (int i = 0; i < MANY; i++)
		rank_did(r, coll_mem_free(in[i]), "coll_mem_free");
	if (!comes_to_map(r, 0))
		return;
	for (int turn = 0; turn < 3 * MANY; turn++) {
		int32_t *one = memory_of(r, PIECE);

		for (int again = 0; again < 3; again++)
			if (!one || !sums_right(r, one, out, PIECE / 4, turn + again))
				return;
		rank_did(r, coll_mem_free(one), "coll_mem_free");
	}
	comes_to_map(r, 0);
}

/* Returns how many descriptors of such memory this process has open. */
static int opened(void)
{
	char path[32], link[64];
	int n = 0;

	for (int fd = 0; fd < 256; fd++) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, link, sizeof(link) - 1);
		link[len > 0 ? len : 0] = '\0';
		n += strstr(link, "memfd:coll-memory") != NULL;
	}
	return n;
}

/* A child keeps no memory of its parent, whose communicator is gone, and which has more memory than the first table holds. */
static void run_fork(struct rank *r)
{
	int32_t *in[MANY];
	int status = 0;
	pid_t child;

	for (int i = 0; i < MANY; i++)
		in[i] = memory_of(r, PIECE);
	rank_did(r, coll_comm_destroy(r->comm), "coll_comm_destroy");
	r->comm = NULL;
	rank_is(r, opened(), MANY, "descriptors of memory in the parent");
	child = fork();
	if (child == 0)
		_exit(opened() + mapped());
	if (!ranks_reap(child, ranks_now() + 60, &status))
		rank_fail(r, "the child has not ended");
	rank_is(r, WEXITSTATUS(status), 0, "descriptors and mappings in the child");
	for (int i = 0; i < MANY; i++) {
		in[i][PIECE / 4 - 1] = i;
		rank_did(r, coll_mem_free(in[i]), "coll_mem_free");
	}
	rank_is(r, opened(), 0, "descriptors when the memory is freed");
}

/* Broadcasts, whose messages share a bounce buffer, with a new payload at the same address each time. */
static void run_broadcasts(struct rank *r)
{
	static const size_t sizes[] = {20000, SHARED, 262144, MOST / 4};
	int32_t *buf = memory_of(r, MOST);

	for (int turn = 0; buf && turn < 5 * TURNS; turn++)
		for (size_t s = 0; s < sizeof(sizes) / sizeof(sizes[0]); s++)
			if (!rank_did(r,
				      broadcast(r, r->comm, buf, sizes[s], turn % r->nranks, turn),
				      "broadcast"))
				return;
	memory_end(r, buf);
}

/* ------------------------------------------------------------------ what goes wrong -- */

/* The last rank dies while others read its memory. */
static void run_death(struct rank *r)
{
	int32_t *in = memory_of(r, MOST), *out = memory_of(r, MOST);
	int code = COLL_SUCCESS;

	for (int turn = 0; in && out && !code && turn < 1000; turn++) {
		if (r->rank == RANKS - 1 && turn == 20) {
			raise(SIGKILL);
		}
		code = coll_allreduce(in, out, MOST / 4, COLL_INT32, COLL_SUM, r->comm, NULL);
		if (!code)
			code = coll_sync(r->comm);
	}
	rank_is(r, code, COLL_ERR_PEER_LOST, "the code after the death");
	memory_end(r, in);
	memory_end(r, out);
}

/* A send that nobody receives times out; its memory is freed, and the other communicator of the connections goes on. */
static void run_timeout(struct rank *r)
{
	int32_t *in = memory_of(r, MOST), out[64];
	_Atomic int *timed_out = r->user, *left = timed_out + 1;
	coll_comm_t other;

	if (!in || !rank_did(r, coll_comm_dup(r->comm, &other), "coll_comm_dup") ||
	    !sums_right(r, in, in + MOST / 8, MOST / 8, 1))
		return;
	rank_did(r, coll_comm_set_timeout(other, 300), "coll_comm_set_timeout");
	/* The other ranks do not call the library meanwhile: they would take the message. */
	if (r->rank)
		atomic_fetch_add(left, 1);
	else if (rank_reaches(r, left, RANKS - 1, 1)) {
		coll_send(in, MOST / 4, COLL_INT32, 1, 5, other, NULL);
		rank_is(r, coll_sync(other), COLL_ERR_TIMEOUT, "a send without a receive");
		atomic_fetch_add(timed_out, 1);
	}
	rank_reaches(r, timed_out, 1, 0);
	rank_did(r, coll_comm_abort(other), "coll_comm_abort");
	memory_end(r, in);
	for (int turn = 0; turn < 200; turn++)
		if (!sums_right(r, out, out + 32, 32, turn))
			return;
	comes_to_map(r, 0);
}

/* Rank 0 sends messages until all others have mapped its bounce buffers, a minute at most. */
static int comes_to_bounce(struct rank *r, int32_t *buf)
{
	const double end = ranks_now() + 60;
	int64_t have = 0;

	while (have < r->nranks && ranks_now() < end) {
		const int64_t has = !r->rank || mapped_files("memfd:coll-bounce") > 0;

		if (!rank_did(r, broadcast(r, r->comm, buf, SHARED, 0, 0), "broadcast") ||
		    !rank_did(r,
			      coll_allreduce(&has, &have, 1, COLL_INT64, COLL_SUM, r->comm, NULL),
			      "allreduce") ||
		    !rank_did(r, coll_sync(r->comm), "coll_sync"))
			return 0;
	}
	return rank_is(r, have, r->nranks, "ranks that have or have mapped the buffers");
}

enum { FIRST = 1, LATER, GIVEN_UP_MS = 1000 }; /* tags, and turns of the pattern */

static coll_request_t send_on(struct rank *r, coll_comm_t comm, const int32_t *buf, int peer)
{
	coll_request_t request = NULL;

	rank_did(r, coll_isend(buf, SHARED, COLL_INT32, peer, FIRST, comm, &request), "isend");
	return request;
}

/* Rank 0 sends its payload to both, gives up the message to rank 2, and sends a changed payload from the same place. */
static void send_and_change(struct rank *r, coll_comm_t other, int32_t *buf)
{
	_Atomic int *ready = r->user, *sent = ready + 1;
	coll_request_t to[RANKS];

	if (!rank_reaches(r, ready, RANKS - 1, 1))
		return;
	write_pattern(buf, SHARED, FIRST);
	for (int peer = 1; peer < RANKS; peer++)
		to[peer] = send_on(r, other, buf, peer);
	rank_ends(r, to[1], COLL_SUCCESS, "the send that is received");
	rank_ends(r, to[2], COLL_ERR_TIMEOUT, "the send that is not");
	write_pattern(buf, SHARED, LATER);
	for (int peer = 1; peer < RANKS; peer++)
		to[peer] = rank_isend(r, buf, SHARED, peer, LATER);
	atomic_fetch_add(sent, 1);
	for (int peer = 1; peer < RANKS; peer++)
		rank_ends(r, to[peer], COLL_SUCCESS, "a later send");
}

static void receive(struct rank *r, int32_t *buf, int tag)
{
	if (rank_ends(r, rank_irecv(r, buf, SHARED, 0, tag), COLL_SUCCESS, "a receive"))
		has_pattern(r, buf, SHARED, tag);
}

/* Receives the first message; a rank that comes `late` finds it given up. */
static void receive_first(struct rank *r, coll_comm_t other, int32_t *buf, int late)
{
	coll_request_t request = NULL;
	_Atomic int *ready = r->user, *sent = ready + 1;
	coll_result_t code;

	atomic_fetch_add(ready, 1);
	/* The late rank does not call the library meanwhile: it would take the message. */
	if (late && !rank_reaches(r, sent, 1, 0))
		return;
	code = coll_irecv(buf, SHARED, COLL_INT32, 0, FIRST, other, &request);
	if (!code)
		code = coll_wait(request);
	if (!code)
		has_pattern(r, buf, SHARED, FIRST);
	rank_is(r, code != COLL_SUCCESS, late, "the first receive fails");
	coll_request_free(request);
}

/* Rank 0 sends a payload to both and, before rank 2 takes it, another payload to rank 1. */
static void run_late(struct rank *r)
{
	int32_t *buf = memory_of(r, MOST), *next = buf + SHARED;
	_Atomic int *ready = r->user, *sent = ready + 1;
	coll_request_t late;

	if (!buf || !comes_to_bounce(r, buf))
		return;
	if (r->rank) {
		atomic_fetch_add(ready, 1);
		if (r->rank == 2 && !rank_reaches(r, sent, 1, 0))
			return;
		receive(r, buf, FIRST);
		if (r->rank == 1)
			receive(r, next, LATER);
	} else if (rank_reaches(r, ready, RANKS - 1, 1)) {
		write_pattern(buf, SHARED, FIRST);
		write_pattern(next, SHARED, LATER);
		late = rank_isend(r, buf, SHARED, 2, FIRST);
		rank_ends(r, rank_isend(r, buf, SHARED, 1, FIRST), COLL_SUCCESS, "a send");
		rank_ends(r, rank_isend(r, next, SHARED, 1, LATER), COLL_SUCCESS, "another send");
		atomic_fetch_add(sent, 1);
		rank_ends(r, late, COLL_SUCCESS, "the send that is received late");
	}
	rank_did(r, coll_barrier(r->comm), "coll_barrier");
	memory_end(r, buf);
}

static void run_given_up(struct rank *r)
{
	int32_t *buf = memory_of(r, MOST);
	coll_comm_t other;

	if (!buf || !rank_did(r, coll_comm_dup(r->comm, &other), "coll_comm_dup") ||
	    !comes_to_bounce(r, buf))
		return;
	if (!r->rank) {
		rank_did(r, coll_comm_set_timeout(other, GIVEN_UP_MS), "coll_comm_set_timeout");
		send_and_change(r, other, buf);
	} else {
		receive_first(r, other, buf, r->rank == 2);
		receive(r, buf, LATER);
	}
	for (int turn = 0; turn < TURNS; turn++)
		rank_did(r, broadcast(r, r->comm, buf, SHARED, 0, turn), "broadcast");
	rank_did(r, coll_comm_abort(other), "coll_comm_abort");
	rank_did(r, coll_comm_destroy(other), "coll_comm_destroy");
	memory_end(r, buf);
}

/* The last rank dies amid broadcasts of rank 0; the others go on without it. */
static void run_death_of_sharer(struct rank *r)
{
	const int32_t last = r->nranks - 1;
	int32_t *buf = memory_of(r, MOST);
	coll_comm_t rest;
	int code = COLL_SUCCESS;

	for (int turn = 0; buf && !code && turn < 1000; turn++) {
		if (r->rank == last && turn == 20)
			raise(SIGKILL);
		code = broadcast(r, r->comm, buf, turn % 2 ? SHARED : 4 * SHARED, 0, turn);
	}
	rank_is(r, code == COLL_ERR_PEER_LOST || code == COLL_ERR_REMOTE, 1,
		"the broadcast after the death fails");
	if (!rank_did(r, coll_comm_shrink(r->comm, &last, 1, &rest, NULL, 0), "coll_comm_shrink"))
		return;
	for (int turn = 0; turn < 20; turn++)
		rank_did(r, broadcast(r, rest, buf, turn % 2 ? SHARED : 4 * SHARED, 0, turn),
			 "a broadcast of the rest");
	rank_did(r, coll_comm_destroy(rest), "coll_comm_destroy");
	memory_end(r, buf);
}

/* The middle rank has no free descriptor when memory is offered. */
static void run_no_descriptor(struct rank *r)
{
	struct rlimit before, limit;
	int32_t *in = memory_of(r, MOST), *out = memory_of(r, MOST);

	getrlimit(RLIMIT_NOFILE, &before);
	limit = (struct rlimit){3, before.rlim_max};
	if (r->rank == 1)
		setrlimit(RLIMIT_NOFILE, &limit);
	for (int turn = 0; in && out && turn < TURNS; turn++)
		if (!sums_right(r, in, out, MOST / 4, turn))
			break;
	setrlimit(RLIMIT_NOFILE, &before);
	memory_end(r, in);
	memory_end(r, out);
}

struct test {
	const char *what;
	void (*fn)(struct rank *r);
};

static void run_tests(const struct test *tests, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		struct ranks_job job = {.backend = "tcp",
					.nranks = RANKS,
					.processes = 1,
					.fn = tests[i].fn,
					.user = ranks_memory(2 * sizeof(_Atomic int))};

		ranks_ok(&job, "%s", tests[i].what);
	}
}

static void run_deaths(void (*fn)(struct rank *), int nranks, const char *what)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	struct ranks_job job = {.backend = "tcp", .nranks = nranks, .processes = 1, .fn = fn};

	ranks_run_processes(&job, shared);
	for (int i = 0; i < nranks - 1; i++)
		is_str(shared->failure[i], "", "%s: rank %d is told and goes on", what, i);
	has_str(shared->failure[nranks - 1], "9", "the last rank was killed");
}

static void test_deaths(void)
{
	run_deaths(run_death, RANKS, "a rank dies while its memory is read");
	run_deaths(run_death_of_sharer, RANKS + 1, "a rank dies amid broadcasts");
}

static void test_memory(void)
{
	static const struct test tests[] = {
		{"sums of 4 B to 5 MiB are right, memory is mapped, and unmapped when it is freed",
		 run_sizes},
		{"messages of 64 KiB in any order", run_messages},
		{"broadcasts", run_broadcasts},
		{"more pieces of memory than slots, and again and again new ones", run_many},
		{"a forked child has nothing of the memory", run_fork},
		{"a send times out, and its memory is freed", run_timeout},
		{"a rank without a free descriptor", run_no_descriptor},
	};
	struct ranks_job threads = {.backend = "tcp", .nranks = RANKS, .fn = run_messages};

	run_tests(tests, sizeof(tests) / sizeof(tests[0]));
	ranks_ok(&threads, "messages between threads");
	test_deaths();
}

/* All ranks share this thread's processor. */
static void test_bounce_buffers(void)
{
	static const struct test tests[] = {
		{"one processor: sums of ordinary memory are right, by bounce buffers", run_sizes},
		{"messages of 64 KiB in any order", run_messages},
		{"broadcasts, whose messages share a bounce buffer", run_broadcasts},
		{"a send times out, and its memory is freed", run_timeout},
		{"one of two receivers of a payload comes late", run_late},
		{"one of two sends of a payload times out, and the payload changes", run_given_up},
		{"a rank without a free descriptor", run_no_descriptor},
	};

	if (!ranks_on_one_processor())
		return;
	ordinary = 1;
	run_tests(tests, sizeof(tests) / sizeof(tests[0]));
	test_deaths();
}

int main(void)
{
	ranks_plugins(".libs", NULL);
	test_memory();
	test_bounce_buffers();
	return done_testing();
}
