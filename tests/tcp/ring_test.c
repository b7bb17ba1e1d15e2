/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_test.c - the shared memory of the tcp plugin: odd sizes, sleep and wake-up, the end of a peer, a forked
 * child, spent memory, and a peer that breaks the rules.
 */
#include "../lib/tap.h"
#include "../lib/transport_harness.h"
#include "offer.h"

#include <poll.h>
#include <stdatomic.h>
#include <sys/resource.h>

static const coll_backend_t *test_backend;

static const char *const test_ring[] = {"ring", "64K", NULL};
static const char *const test_small_ring[] = {"ring", "4K", NULL};
static const char *const test_one_ring[] = {"ring", "64K", "ring_memory", "64K", NULL};

enum {
	TEST_CONTROL = 4096, /* bytes of a ring before its data */
	TEST_WRITTEN = 0,    /* where the writer's position is */
	TEST_TAKEN = 128,    /* where the reader's is */
	TEST_LAST_END = 16,  /* the position behind the message */
	TEST_LAST = 24,      /* that stands here, beside the writer's position */
	TEST_SLEEP_MS = 20000
};

static void test_run(struct harness_job *job, const char *name)
{
	job->backend = test_backend;
	harness_check(job, name);
}

/* ------------------------------------------------------------------ the memory -- */

/* The mappings of rings in this process: their number; the first `most` in at[], the bytes of the longest in *longest. */
static int test_rings_and_longest(uint8_t **at, int most, uint64_t *longest)
{
	FILE *maps = fopen("/proc/self/maps", "r");
	char line[512], *end;
	int n = 0;

	*longest = 0;
	while (maps && fgets(line, sizeof(line), maps))
		if (strstr(line, "/memfd:coll-tcp")) {
			const uint64_t begin = strtoull(line, &end, 16);
			const uint64_t bytes = strtoull(end + 1, NULL, 16) - begin;

			if (n < most)
				at[n] = (uint8_t *)(uintptr_t)begin;
			*longest = bytes > *longest ? bytes : *longest;
			n++;
		}
	if (maps)
		fclose(maps);
	return n;
}

static int test_rings(uint8_t **at, int most)
{
	uint64_t longest;

	return test_rings_and_longest(at, most, &longest);
}

/* Descriptors of memory that the process holds. */
static int test_memory_fds(void)
{
	char path[64], target[64];
	int n = 0;

	for (int fd = 0; fd < 256; fd++) {
		ssize_t len;

		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
		len = readlink(path, target, sizeof(target) - 1);
		target[len > 0 ? len : 0] = '\0';
		n += strstr(target, "memfd:coll-tcp") != NULL;
	}
	return n;
}

/* The one connected local socket of a rank among two. */
static int test_socket(void)
{
	for (int fd = 3; fd < 256; fd++) {
		int domain = 0, listens = 0;
		socklen_t len = sizeof(int);
		struct sockaddr peer;
		socklen_t size = sizeof(peer);

		if (!getsockopt(fd, SOL_SOCKET, SO_DOMAIN, &domain, &len) && domain == AF_UNIX &&
		    !getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &len) && !listens &&
		    !getpeername(fd, &peer, &size))
			return fd;
	}
	return -1;
}

/* Sends a message of `len` bytes to the peer and receives one of the same length. */
static int test_swap(struct harness *h, uint32_t peer, uint64_t tag, uint64_t len, int add)
{
	uint8_t *out = malloc(len + 1), *in = malloc(len + 1);
	struct harness_recv recv = {.peer = peer, .tag = tag, .buf = in, .size = len, .add = add};
	coll_send_t send;
	int code = 0;

	for (uint64_t i = 0; i < len; i++)
		out[i] = (uint8_t)(i * 7 + (i >> 8) + tag + h->host.rank);
	memset(in, add ? 3 : 0, len + 1);
	harness_recv(h, &recv);
	if (harness_send(h, &send, peer, tag, out, len) || harness_wait(h, &send.status) ||
	    harness_wait(h, &recv.status))
		code = harness_fail(h, "message %llu: sending %d, receiving %d",
				    (unsigned long long)tag, send.status, recv.status);
	for (uint64_t i = 0; i < len && !code; i++)
		if (in[i] != (uint8_t)(i * 7 + (i >> 8) + tag + peer + (add ? 3 : 0)))
			code = harness_fail(h, "message %llu of %llu bytes: byte %llu is wrong",
					    (unsigned long long)tag, (unsigned long long)len,
					    (unsigned long long)i);
	free(out);
	free(in);
	return code;
}

/* One message each way makes no ring: in a large job most ranks send each other their goodbye alone. */
static int test_one(struct harness *h)
{
	int code = test_swap(h, 1 - h->host.rank, 1, 100, 0) || harness_barrier(h);

	return !code && test_rings(NULL, 0) ? harness_fail(h, "%d rings", test_rings(NULL, 0))
					    : code;
}

/* Messages both ways until they pass through shared memory: 0 once both ranks have both rings. */
static int test_begin(struct harness *h)
{
	uint32_t peer = 1 - h->host.rank;
	uint8_t *at[2] = {NULL, NULL};
	int code = 0;

	for (uint64_t i = 0; i < 8 && !code; i++)
		code = test_swap(h, peer, 1000 + i, 100, 0) || harness_barrier(h);
	if (code || h->job->threads)
		return code;
	if (test_rings(at, 2) != 2)
		return harness_fail(h, "%d rings are mapped, not 2", test_rings(NULL, 0));
	for (int i = 0; i < 2; i++)
		if (!atomic_load((_Atomic uint64_t *)(void *)(at[i] + TEST_WRITTEN)))
			return harness_fail(h, "a ring is not in use");
	if (test_memory_fds())
		return harness_fail(h, "a descriptor of a ring is still open");
	return 0;
}

/* ------------------------------------------------------------------- odd sizes -- */

static int test_odd(struct harness *h)
{
	uint32_t peer = 1 - h->host.rank;
	uint64_t len = 1;
	int code = test_begin(h);

	for (uint64_t i = 0; i < 400 && !code; i++) {
		code = test_swap(h, peer, i, len, i & 1);
		len = (len * 1103515245 + 12345 + i) % (i % 10 ? 5003 : 200003);
	}
	return harness_barrier(h) || code;
}

/* ------------------------------------------------------------------ short messages -- */

static uint64_t test_word(uint8_t *at, int off)
{
	return atomic_load((_Atomic uint64_t *)(void *)(at + off));
}

/* After messages of `len` bytes have come: do they stand beside the positions?  Have the readers stored nothing? */
static int test_beside(struct harness *h, uint64_t len)
{
	uint8_t *at[2] = {NULL, NULL};
	coll_header_t header;

	if (test_rings(at, 2) != 2)
		return harness_fail(h, "%d rings", test_rings(NULL, 0));
	for (int i = 0; i < 2; i++) {
		uint64_t written = test_word(at[i], TEST_WRITTEN);

		memcpy(&header, at[i] + TEST_LAST, sizeof(header));
		if (test_word(at[i], TEST_LAST_END) != written || header.len != len)
			return harness_fail(h, "a message of %llu bytes does not stand there",
					    (unsigned long long)len);
		if (test_word(at[i], TEST_TAKEN))
			return harness_fail(h, "a reader tells its position for each message");
	}
	return 0;
}

/* Bursts of messages, which the reader finds together, of lengths around those that stand there. */
static int test_burst(struct harness *h, uint64_t len)
{
	enum { BURST = 5, MOST = 80 };
	uint8_t out[MOST], in[BURST][MOST];
	struct harness_recv recv[BURST];
	coll_send_t send;
	int code = 0;

	for (uint64_t k = 0; k < BURST && !code; k++) {
		memset(out, (int)(len + k), sizeof(out));
		code = harness_send(h, &send, 1 - h->host.rank, len * 8 + k, out,
				    k % 2 ? 1 : len) ||
		       harness_wait(h, &send.status);
	}
	for (uint64_t k = 0; k < BURST && !code; k++) {
		uint64_t last = k % 2 ? 0 : len - 1;

		recv[k] = (struct harness_recv){
			.peer = 1 - h->host.rank, .tag = len * 8 + k, .buf = in[k], .size = MOST};
		harness_recv(h, &recv[k]);
		code = harness_wait(h, &recv[k].status);
		if (!code && (in[k][0] != (uint8_t)(len + k) || in[k][last] != (uint8_t)(len + k)))
			code = harness_fail(h, "message %llu of a burst of %llu bytes is wrong",
					    (unsigned long long)k, (unsigned long long)len);
	}
	return code;
}

static int test_short(struct harness *h)
{
	static const uint64_t lens[] = {0, 8, 13, 72};
	uint32_t peer = 1 - h->host.rank;
	int code = test_begin(h);

	for (uint64_t i = 0; i < 4 && !code; i++)
		code = test_swap(h, peer, i, lens[i], i & 1) || harness_barrier(h) ||
		       test_beside(h, lens[i]) || harness_barrier(h);
	for (uint64_t len = 1; len <= 80 && !code; len++)
		code = test_burst(h, len);
	return harness_barrier(h) || code;
}

/* ------------------------------------------------------------- messages that stay -- */

enum { TEST_LONG = 40000 }; /* a message that stays in its ring, which has room for it */

/* Rank 1 sends a message, which then is in the ring; rank 0 posts nothing. */
static int test_put(struct harness *h, uint64_t tag, uint64_t len)
{
	uint8_t *out = malloc(len);
	coll_send_t send;
	int code = 0;

	memset(out, (int)tag, len);
	if (h->host.rank == 1)
		code = harness_send(h, &send, 0, tag, out, len) || harness_wait(h, &send.status);
	free(out);
	return harness_barrier(h) || code;
}

/* Rank 0 receives a message that is in the ring, or is stored, by progress() alone. */
static int test_get(struct harness *h, uint64_t tag, uint64_t len)
{
	uint8_t *in = calloc(1, len);
	struct harness_recv recv = {.peer = 1, .tag = tag, .buf = in, .size = len};
	int code = 0;

	if (h->host.rank == 0) {
		harness_recv(h, &recv);
		for (int i = 0; i < 1000 && recv.status == COLL_IN_PROGRESS; i++)
			h->transport->progress(h->ep);
		if (recv.status || in[0] != tag || in[len - 1] != tag)
			code = harness_fail(h, "message %d: %d", (int)tag, recv.status);
	}
	free(in);
	return harness_barrier(h) || code;
}

/* Rank 0 makes progress: is a message stored, as it must be or must not be? */
static int test_stored(struct harness *h, int polls, int stored)
{
	for (int i = 0; i < polls && h->host.rank == 0; i++)
		h->transport->progress(h->ep);
	if (h->host.rank == 0 && (h->early != NULL) != stored)
		return harness_fail(h, "a message is %s", h->early ? "stored" : "not stored");
	return 0;
}

/* A rank that wants to sleep gets the messages that have stayed, and then sleeps. */
static int test_sleep_takes(struct harness *h)
{
	for (int i = 0; i < 100; i++) {
		h->transport->progress(h->ep);
		if (!h->transport->arm(h->ep))
			return h->early ? 0 : harness_fail(h, "it sleeps before a message");
	}
	return harness_fail(h, "it never sleeps");
}

static int test_held(struct harness *h)
{
	int code = test_begin(h);

	/* It is announced once its receive is posted. */
	code = code || test_put(h, 1, TEST_LONG) || test_stored(h, 50, 0) ||
	       test_get(h, 1, TEST_LONG);
	/* One behind it is awaited. */
	code = code || test_put(h, 2, TEST_LONG) || test_put(h, 3, 8) || test_stored(h, 50, 0) ||
	       test_get(h, 3, 8) || test_stored(h, 0, 1) || test_get(h, 2, TEST_LONG);
	/* While that has happened, and no long message since was awaited, none stays. */
	code = code || test_put(h, 4, TEST_LONG) || test_stored(h, 10, 1) ||
	       test_get(h, 4, TEST_LONG) || test_swap(h, 1 - h->host.rank, 5, TEST_LONG, 0);
	/* Short ones never stay. */
	code = code || test_put(h, 6, 1000) || test_stored(h, 2, 1) || test_get(h, 6, 1000);
	code = code || test_put(h, 7, TEST_LONG) || test_stored(h, 10, 0);
	if (!code && h->host.rank == 0)
		code = test_sleep_takes(h);
	return code || test_get(h, 7, TEST_LONG);
}

/* ------------------------------------------------------------- sleep and wake-up -- */

/* Sleeps in the descriptor alone whenever nothing moves; a missed wake-up is an error. */
static int test_sleep_until(struct harness *h, const int32_t *status)
{
	while (*status == COLL_IN_PROGRESS) {
		struct pollfd p = {.fd = h->transport->wait_fd(h->ep), .events = POLLIN};

		if (h->transport->progress(h->ep) || h->transport->arm(h->ep))
			continue;
		if (poll(&p, 1, TEST_SLEEP_MS) == 0)
			return harness_fail(h, "nothing woke this rank for %d ms", TEST_SLEEP_MS);
	}
	return *status;
}

static int test_storm(struct harness *h)
{
	enum { ROUNDS = 3000, MOST = 20000 };
	static _Thread_local uint8_t out[MOST], in[MOST];
	uint32_t peer = 1 - h->host.rank;
	int code = test_begin(h);

	for (uint64_t i = 0; i < ROUNDS && !code; i++) {
		uint64_t len = i % 3 ? i % 64 : MOST; /* more than a small ring has room for */
		struct harness_recv recv = {.peer = peer, .tag = i, .buf = in, .size = len};
		coll_send_t send;

		harness_recv(h, &recv);
		for (uint64_t k = (i * 2654435761u + h->host.rank * 977) % 3000; k; k--)
			atomic_signal_fence(memory_order_seq_cst); /* the ranks drift apart */
		code = harness_send(h, &send, peer, i, out, len) ||
		       test_sleep_until(h, &send.status) || test_sleep_until(h, &recv.status);
	}
	return harness_barrier(h) || code;
}

/* -------------------------------------------------------------- the end of a peer -- */

/* Rank 1 dies with complete messages and half a message in the ring; rank 0 has read nothing yet. */
static int test_kill(struct harness *h)
{
	enum { COUNT = 20 };
	uint8_t *buf = calloc(1, 1 << 20);
	coll_send_t send[COUNT + 1];
	int code = test_begin(h);

	if (h->host.rank == 1) {
		for (uint64_t i = 0; i < COUNT; i++)
			harness_send(h, &send[i], 0, i, buf, i == COUNT / 2 ? TEST_LONG : 1000 + i);
		harness_send(h, &send[COUNT], 0, COUNT, buf, 1 << 20);
		if (!code)
			kill(getpid(), SIGKILL);
	}
	harness_await_end(h, 1);
	/* As after a sleep: the next progress looks at the socket first. */
	h->transport->arm(h->ep);
	for (uint64_t i = 0; i <= COUNT && !code; i++) {
		struct harness_recv recv = {.peer = 1, .tag = i, .buf = buf, .size = 1 << 20};

		harness_recv(h, &recv);
		code = harness_wait(h, &recv.status);
		if (i == COUNT && code == COLL_ERR_PEER_LOST && h->lost[1])
			code = 0;
		else if (i == COUNT || code)
			code = harness_fail(h, "message %llu: %d", (unsigned long long)i, code);
	}
	if (!code && test_rings(NULL, 0))
		code = harness_fail(h, "the memory of the dead rank is still mapped");
	free(buf);
	return code;
}

static void test_run_kill(void)
{
	struct harness_job job = {.backend = test_backend, .nranks = 2, .run = test_kill};

	job.options = test_ring;
	harness_run(&job);
	is_int(job.shared->result[1], -SIGKILL, "rank 1 is killed with bytes in the ring");
	ok(!job.shared->result[0], "rank 0 gets them, then learns the loss %s",
	   job.shared->text[0]);
	harness_job_free(&job);
}

/* ------------------------------------------------------------- peers that leave -- */

enum {
	TEST_LEAVERS = 8,
	TEST_LEFT = (2 << 20) - 65536 /* less than a ring, and more than a call reads of one */
};

/* Rank `peer` and rank 0 exchange messages until they pass through shared memory. */
static int test_begin_with(struct harness *h, uint32_t peer)
{
	int code = 0;

	for (uint64_t i = 0; i < 4 && !code; i++)
		code = test_swap(h, peer, 1000 + i, 100, 0);
	return code;
}

static int test_leaver(struct harness *h)
{
	uint8_t *out = malloc(TEST_LEFT);
	coll_send_t send;
	int code = test_begin_with(h, 0) || harness_barrier(h);

	memset(out, (int)h->host.rank, TEST_LEFT);
	if (!code &&
	    (harness_send(h, &send, 0, 1, out, TEST_LEFT) || harness_wait(h, &send.status)))
		code = harness_fail(h, "sending: %d", send.status);
	free(out);
	h->job->backend->close(h->ep, 5000);
	h->ep = NULL;
	return harness_barrier(h) || code;
}

/* All other ranks have sent a long message and left before rank 0 reads: it gets every message whole. */
static int test_all_leave(struct harness *h)
{
	int64_t deadline = harness_now_ms() + HARNESS_WAIT_MS;
	struct harness_recv recv[TEST_LEAVERS];
	int code = 0;

	if (h->host.rank)
		return test_leaver(h);
	for (uint32_t r = 1; r <= TEST_LEAVERS && !code; r++)
		code = test_begin_with(h, r);
	/* Empties the sockets: the next thing that each tells is its end. */
	do
		h->transport->arm(h->ep);
	while (h->transport->progress(h->ep));
	code = harness_barrier(h) || harness_barrier(h) || code;
	if (!code && test_rings(NULL, 0) != 2 * TEST_LEAVERS)
		code = harness_fail(h, "%d rings", test_rings(NULL, 0));
	for (uint32_t i = 0; i < TEST_LEAVERS && !code; i++) {
		recv[i] = (struct harness_recv){
			.peer = i + 1, .tag = 1, .buf = calloc(1, TEST_LEFT), .size = TEST_LEFT};
		harness_recv(h, &recv[i]);
	}
	for (uint32_t i = 0; i < TEST_LEAVERS && !code; i++) {
		/* As after a sleep: each progress looks at the sockets first. */
		while (recv[i].status == COLL_IN_PROGRESS && harness_now_ms() < deadline) {
			h->transport->arm(h->ep);
			h->transport->progress(h->ep);
		}
		code = recv[i].status;
		if (code || recv[i].buf[TEST_LEFT - 1] != i + 1)
			code = harness_fail(h, "the message of rank %u: %d %s", i + 1, code,
					    h->lost_text[i + 1]);
		free(recv[i].buf);
	}
	return code;
}

/* ------------------------------------------------------------------------- fork -- */

/* A child has none of its parent's memory, and ranks that it starts have as much as the parent's. */
static int test_fork(struct harness *h)
{
	struct harness_job again = {.nranks = 2, .run = test_begin, .options = test_one_ring};
	int code = test_begin(h), status = -1;
	pid_t child = code ? -1 : fork();

	again.backend = test_backend;
	if (child == 0) {
		h->transport->forked(h->ep);
		if (test_rings(NULL, 0) || test_memory_fds())
			_exit(1);
		_exit(harness_run(&again) ? 2 : 0);
	}
	if (!code && (child < 0 || waitpid(child, &status, 0) != child || status))
		code = harness_fail(h, WIFEXITED(status) && WEXITSTATUS(status) == 2
					       ? "the child counts its parent's memory"
					       : "the child shares the memory");
	for (uint64_t i = 0; i < 20 && !code; i++)
		code = test_swap(h, 1 - h->host.rank, i, 5000, 0);
	return harness_barrier(h) || code;
}

/* ---------------------------------------------------------------- memory refused -- */

static int test_told;

static void test_log(const coll_host_t *host, int32_t level, const char *text)
{
	(void)host;
	test_told += level == COLL_LOG_INFO && strstr(text, "option tcp.ring") != NULL;
}

/* All messages arrive; at most h->job->user rings are mapped; the user learns it once. */
static int test_refused(struct harness *h)
{
	const int *most = h->job->user;
	int code = 0;

	h->host.log = test_log;
	if (!*most)
		setrlimit(RLIMIT_FSIZE, &(struct rlimit){4096, 4096});
	for (uint64_t i = 0; i < 20 && !code; i++)
		for (uint32_t k = 1; k < h->host.nranks && !code; k++)
			code = test_swap(h, (h->host.rank ^ k) % h->host.nranks, i, 30000, i & 1);
	if (!code && (test_rings(NULL, 0) > *most || test_told != 1))
		code = harness_fail(h, "%d rings, told %d times", test_rings(NULL, 0), test_told);
	return harness_barrier(h) || code;
}

static int test_length(struct harness *h)
{
	const uint64_t *want = h->job->user;
	uint64_t longest;
	int code = 0;

	for (uint64_t i = 0; i < 4 && !code; i++)
		for (uint32_t k = 1; k < h->host.nranks && !code; k++)
			code = test_swap(h, (h->host.rank ^ k) % h->host.nranks, i, 300, 0);
	test_rings_and_longest(NULL, 0, &longest);
	if (!code && longest != *want + TEST_CONTROL)
		code = harness_fail(h, "the longest ring has %llu bytes with its control, not %llu",
				    (unsigned long long)longest,
				    (unsigned long long)*want + TEST_CONTROL);
	return harness_barrier(h) || code;
}

static void test_lengths(void)
{
	static const char *const little[] = {"ring_memory", "1M", NULL};
	static const char *const least[] = {"ring_memory", "200K", NULL};
	struct harness_job job = {.nranks = 2, .run = test_length, .user = &(uint64_t){2 << 20}};

	test_run(&job, "two ranks have rings of 2 MiB");
	job.turns = 1;
	job.user = &(uint64_t){256 << 10};
	test_run(&job, "of 256 KiB if they take turns on processors");
	job.options = test_ring;
	job.user = &(uint64_t){64 << 10};
	test_run(&job, "and of no more than the option says");
	job = (struct harness_job){.nranks = 4, .run = test_length, .options = little};
	job.user = &(uint64_t){256 << 10};
	test_run(&job, "four ranks share the memory: a third of it, down to a power of two");
	job.options = least;
	job.user = &(uint64_t){64 << 10};
	test_run(&job, "no ring is shorter than 64 KiB for that");
}

static void test_refusals(void)
{
	/* One ring of this rank and one of each other rank, at most. */
	struct harness_job job = {.nranks = 4, .run = test_refused, .user = &(int){4}};

	job.options = test_one_ring;
	test_run(&job, "spent memory leaves the other ranks on their sockets");
	job.options = test_ring;
	job.user = &(int){0};
	test_run(&job, "without shared memory the sockets carry all");
}

/* --------------------------------------------------------- a peer that breaks rules -- */

/* Rank 1 breaks a rule; rank 0 must lose it with the sentence. */
struct test_fault {
	const char *name, *text;
	int at;         /* of the position that is overwritten; -1: none */
	uint64_t value; /* that is added to the position */
	int seals;      /* of offered memory; -1: none is offered */
	off_t size;
};

static int test_offer(const struct test_fault *fault)
{
	uint64_t frame[4] = {0, 0, 0, UINT64_MAX};

	return offer_memory(test_socket(), frame, sizeof(frame), fault->size, fault->seals);
}

static int test_break_rule(struct harness *h, const struct test_fault *fault)
{
	uint8_t *at[2] = {NULL, NULL};

	if (fault->seals >= 0)
		return test_offer(fault) ? harness_fail(h, "cannot offer memory") : 0;
	if (test_begin(h) || test_rings(at, 2) != 2)
		return 1;
	for (int i = 0; i < 2; i++)
		atomic_fetch_add((_Atomic uint64_t *)(void *)(at[i] + fault->at), fault->value);
	return 0;
}

static int test_broken_rule(struct harness *h)
{
	const struct test_fault *fault = h->job->user;
	int64_t deadline = harness_now_ms() + TEST_SLEEP_MS;
	uint64_t len = 1 << 20;
	uint8_t *buf = calloc(1, len);
	coll_send_t send;
	int code = 0;

	if (h->host.rank == 1) {
		code = test_break_rule(h, fault) || harness_barrier(h) || harness_barrier(h);
		free(buf);
		return code;
	}
	code = (fault->seals < 0 && test_begin(h)) || harness_barrier(h);
	harness_send(h, &send, 1, 1, buf, len);
	while (!code && !h->lost[1] && harness_now_ms() < deadline)
		h->transport->progress(h->ep);
	if (!code && strcmp(h->lost_text[1], fault->text) != 0)
		code = harness_fail(h, "rank 1 is lost: %d '%s'", h->lost[1], h->lost_text[1]);
	if (!code && send.status != COLL_ERR_PEER_LOST)
		code = harness_fail(h, "the send ends with %d", send.status);
	free(buf);
	return harness_barrier(h) || code;
}

static void test_broken_rules(void)
{
	static const char position[] = "it wrote an invalid position into the shared memory";
	static const char unsealed[] =
		"it offered shared memory without the seals against a change of its size";
	static const char size[] = "it offered shared memory of an invalid size";
	static const int sealed = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;
	const struct test_fault faults[] = {
		{"more bytes than the ring has", position, TEST_WRITTEN, 1 << 20, -1, 0},
		{"a position before the reader's", position, TEST_WRITTEN, UINT64_MAX, -1, 0},
		{"bytes taken that were never written", position, TEST_TAKEN, 1 << 20, -1, 0},
		{"bytes given back", position, TEST_TAKEN, UINT64_MAX - 60000, -1, 0},
		{"memory without seals", unsealed, -1, 0, 0, TEST_CONTROL + 65536},
		{"memory that can shrink", unsealed, -1, 0, F_SEAL_GROW | F_SEAL_SEAL,
		 TEST_CONTROL + 65536},
		{"memory without data", size, -1, 0, sealed, TEST_CONTROL},
		{"empty memory", size, -1, 0, sealed, 0},
		{"memory of an odd size", size, -1, 0, sealed, TEST_CONTROL + 65535},
	};

	for (size_t i = 0; i < sizeof(faults) / sizeof(faults[0]); i++) {
		struct harness_job job = {.nranks = 2, .run = test_broken_rule};

		job.options = test_ring;
		job.user = (void *)(uintptr_t)&faults[i];
		test_run(&job, faults[i].name);
	}
}

int main(void)
{
	test_backend = harness_load("tcp");
	if (!test_backend)
		bail_out("cannot load the tcp plugin");
	test_run(&(struct harness_job){.nranks = 2, .run = test_short, .options = test_ring},
		 "short messages stand beside the position of the writer");
	for (int threads = 0; threads < 2; threads++)
		for (int small = 0; small < 2; small++) {
			struct harness_job job = {.nranks = 2, .threads = threads};

			job.options = small ? test_small_ring : test_ring;
			job.run = test_odd;
			test_run(&job, small ? "odd sizes, small ring" : "odd sizes");
			job.run = test_storm;
			test_run(&job, small ? "many sleeps, small ring" : "many sleeps");
		}
	test_run(&(struct harness_job){.nranks = 2, .run = test_one, .options = test_ring},
		 "one message each way");
	for (int threads = 0; threads < 2; threads++)
		test_run(&(struct harness_job){.nranks = 2,
					       .threads = threads,
					       .run = test_held,
					       .options = test_ring},
			 "a long message stays until its receive is posted, within bounds");
	test_run_kill();
	test_run(&(struct harness_job){.nranks = TEST_LEAVERS + 1, .run = test_all_leave},
		 "all that peers sent before they left arrives");
	test_run(&(struct harness_job){.nranks = 2, .run = test_fork, .options = test_one_ring},
		 "a forked child");
	test_lengths();
	test_refusals();
	test_broken_rules();
	return done_testing();
}
