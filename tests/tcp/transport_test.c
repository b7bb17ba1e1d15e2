/* SPDX-License-Identifier: BSD-3-Clause */
/* transport_test.c - messages over the tcp plugin, between processes and between threads. */
#include "../lib/tap.h"
#include "../lib/transport_harness.h"

#include <poll.h>
#include <sys/resource.h>
#include <sys/time.h>

static const coll_backend_t *test_backend;

/* The local connections: shared memory, shared memory that is always full, or written past the caches, the sockets alone. */
static const char *const test_ring[] = {"ring", "2M", NULL};
static const char *const test_small_ring[] = {"ring", "4K", NULL};
static const char *const test_past[] = {"ring", "64K", "non_temporal", "yes", NULL};
static const char *const test_no_ring[] = {"ring", "0", NULL};

static const struct {
	const char *const *options;
	const char *name;
} test_local[] = {{test_ring, "shared memory"},
		  {test_small_ring, "small shared memory"},
		  {test_past, "shared memory, past the caches"},
		  {test_no_ring, "local sockets"}};
enum { TEST_LOCAL = sizeof(test_local) / sizeof(test_local[0]) };

static const char *const test_tcp4[] = {"unix", "no", "interface", "127.0.0.1", NULL};
static const char *const test_tcp6[] = {"unix", "no", "interface", "::1", NULL};
static const char *const test_tcp[] = {"unix", "no", NULL};
static const char *const test_small_buffers[] = {"sndbuf", "4096", "rcvbuf", "4096",
						 "unix",   "no",   NULL};

static uint8_t test_byte(uint32_t from, uint32_t to, uint64_t tag, uint64_t i)
{
	return (uint8_t)(from * 31 + to * 17 + tag * 7 + i + (i >> 8) + (i >> 16));
}

static uint8_t *test_payload(uint32_t from, uint32_t to, uint64_t tag, uint64_t len)
{
	uint8_t *buf = malloc(len + 1);

	for (uint64_t i = 0; i < len; i++)
		buf[i] = test_byte(from, to, tag, i);
	return buf;
}

/* Index of the first wrong byte, or len. */
static uint64_t test_check(const uint8_t *buf, uint32_t from, uint32_t to, uint64_t tag,
			   uint64_t len, int added)
{
	for (uint64_t i = 0; i < len; i++)
		if (buf[i] != (uint8_t)(test_byte(from, to, tag, i) + added))
			return i;
	return len;
}

static void test_run(struct harness_job *job, const char *name)
{
	job->backend = test_backend;
	harness_check(job, name);
}

/* The name of a check; valid until the next call. */
static const char *test_name(const char *what, const char *how)
{
	static char name[100];

	snprintf(name, sizeof(name), "%s %s", what, how);
	return name;
}

/* --------------------------------------------------------------------- sizes -- */

static const uint64_t test_sizes[] = {0,     1,         31,    32,     33,           4095,
				      65535, (1 << 16), 65537, 262145, (5 << 20) + 3};
enum { TEST_SIZES = sizeof(test_sizes) / sizeof(test_sizes[0]) };

struct test_pair {
	coll_send_t send[TEST_SIZES];
	struct harness_recv recv[TEST_SIZES];
	uint8_t *out[TEST_SIZES], *in[TEST_SIZES];
};

static void test_pair_start(struct harness *h, struct test_pair *pair, uint32_t peer, int count)
{
	uint32_t own = h->host.rank;

	for (int k = 0; k < count; k++) {
		struct harness_recv *r = &pair->recv[k];
		uint64_t tag = (uint64_t)k + 1, len = test_sizes[k];

		/* The receiver adds every second payload by host->data to a buffer of ones. */
		pair->in[k] = malloc(len + 1);
		memset(pair->in[k], 1, len + 1);
		*r = (struct harness_recv){
			.peer = peer, .tag = tag, .buf = pair->in[k], .size = len, .add = k % 2};
		harness_recv(h, r);
		pair->out[k] = test_payload(own, peer, tag, len);
		if (harness_send(h, &pair->send[k], peer, tag, pair->out[k], len))
			abort();
	}
}

static int test_pair_end(struct harness *h, struct test_pair *pair, uint32_t peer, int count)
{
	int result = 0;

	for (int k = 0; k < count; k++) {
		uint64_t len = test_sizes[k], good = 0;
		int32_t sent = harness_wait(h, &pair->send[k].status);
		int32_t got = harness_wait(h, &pair->recv[k].status);

		if (!sent && !got)
			good = test_check(pair->in[k], peer, h->host.rank, (uint64_t)k + 1, len,
					  k % 2);
		if (sent || got || good != len || pair->recv[k].len != len)
			result = harness_fail(h,
					      "peer %u, size %llu: sent %d, got %d, "
					      "good up to %llu",
					      peer, (unsigned long long)len, sent, got,
					      (unsigned long long)good);
		free(pair->in[k]);
		free(pair->out[k]);
	}
	return result;
}

/* Every rank sends to every rank at once, also to itself. */
static int test_all_to_all(struct harness *h)
{
	struct test_pair *pairs = calloc(h->host.nranks, sizeof(*pairs));
	int count = h->host.nranks > 3 ? TEST_SIZES - 1 : TEST_SIZES, result = 0;

	for (uint32_t i = 0; i < h->host.nranks; i++)
		test_pair_start(h, &pairs[i], (h->host.rank + i) % h->host.nranks, count);
	for (uint32_t i = 0; i < h->host.nranks; i++)
		result |= test_pair_end(h, &pairs[i], (h->host.rank + i) % h->host.nranks, count);
	free(pairs);
	return harness_barrier(h) || result;
}

static void test_on_alarm(int number)
{
	(void)number;
}

/* The same under a storm of signals that interrupt system calls. */
static int test_all_to_all_alarmed(struct harness *h)
{
	struct itimerval often = {.it_interval.tv_usec = 500, .it_value.tv_usec = 500};
	struct itimerval never = {.it_value.tv_usec = 0};
	struct sigaction action = {.sa_handler = test_on_alarm};
	int result;

	sigaction(SIGALRM, &action, NULL);
	setitimer(ITIMER_REAL, &often, NULL);
	result = test_all_to_all(h);
	setitimer(ITIMER_REAL, &never, NULL);
	return result;
}

static void test_sizes_of_everything(void)
{
	static const uint32_t ranks[] = {1, 2, 3, 5, 9, 16};

	for (int threads = 0; threads < 2; threads++)
		for (int i = 0; i < 6; i++) {
			struct harness_job job = {.nranks = ranks[i], .threads = threads};

			job.run = test_all_to_all;
			for (int k = 0; k < TEST_LOCAL; k++) {
				job.options = test_local[k].options;
				test_run(&job, test_name("all sizes over", test_local[k].name));
			}
			if (ranks[i] == 1 || ranks[i] == 5)
				continue;
			job.options = test_tcp4;
			test_run(&job, "all sizes over IPv4");
		}
	for (int threads = 0; threads < 2; threads++) {
		struct harness_job job = {.nranks = 3, .threads = threads};

		job.run = test_all_to_all;
		job.options = test_tcp6;
		test_run(&job, "all sizes over IPv6");
		job.options = test_tcp;
		test_run(&job, "all sizes over TCP on any interface");
		job.options = test_small_buffers;
		test_run(&job, "all sizes with small buffers");
	}
	for (int k = 0; k < TEST_LOCAL; k++)
		test_run(&(struct harness_job){.nranks = 3,
					       .run = test_all_to_all_alarmed,
					       .options = test_local[k].options},
			 test_name("all sizes in a storm of signals over", test_local[k].name));
	test_run(&(struct harness_job){.nranks = 3,
				       .run = test_all_to_all,
				       .options = (const char *const[]){"unix", "no", NULL},
				       .options_of = 1},
		 "all sizes with one rank that has no local sockets");
}

/* ------------------------------------------------------------- order and flow -- */

enum { TEST_MANY = 20000 };

static int test_order_sender(struct harness *h)
{
	coll_send_t *send = calloc(TEST_MANY, sizeof(*send));
	uint8_t bytes[64] = {0};
	int result = 0;

	for (uint64_t i = 0; i < TEST_MANY && !result; i++)
		result = harness_send(h, &send[i], 1, i, bytes, i % 65);
	for (int i = 0; i < TEST_MANY && !result; i++)
		result = harness_wait(h, &send[i].status);
	free(send);
	return result ? harness_fail(h, "sending: %d", result) : 0;
}

/* Many small messages arrive whole and in order. */
static int test_order(struct harness *h)
{
	int64_t deadline = harness_now_ms() + HARNESS_WAIT_MS;
	uint64_t count = 0;

	if (h->host.rank == 0)
		return test_order_sender(h) || harness_barrier(h);
	/*
	 * No receive is posted yet, so messages pile up; the receives then come in reverse order.
	 */
	while (harness_now_ms() < deadline &&
	       !(h->early && h->early->tag == TEST_MANY - 1 && !h->early->status))
		h->transport->progress(h->ep);
	for (struct harness_arrival *a = h->early; a; a = a->next, count++)
		if (a->tag != TEST_MANY - 1 - count || a->len != a->tag % 65 || a->status)
			return harness_fail(h, "message %llu out of order",
					    (unsigned long long)a->tag);
	if (count != TEST_MANY)
		return harness_fail(h, "%llu messages", (unsigned long long)count);
	return harness_barrier(h);
}

/* Sends many messages in both directions at once, far more bytes than sockets hold. */
static int test_both_ways(struct harness *h)
{
	enum { COUNT = 4 };
	uint32_t peer = 1 - h->host.rank;
	uint64_t len = (uint64_t)9 << 20, good = 0;
	coll_send_t send[COUNT];
	struct harness_recv recv[COUNT];
	uint8_t *out = test_payload(h->host.rank, peer, 0, len), *in[COUNT];
	int32_t code = 0;

	for (uint64_t i = 0; i < COUNT; i++)
		code |= harness_send(h, &send[i], peer, i, out, len);
	for (uint64_t i = 0; i < COUNT; i++) {
		in[i] = calloc(1, len);
		recv[i] = (struct harness_recv){.peer = peer, .tag = i, .buf = in[i], .size = len};
		recv[i].add = i & 1;
		harness_recv(h, &recv[i]);
	}
	for (int i = 0; i < COUNT; i++) {
		code |= harness_wait(h, &send[i].status) | harness_wait(h, &recv[i].status);
		good += test_check(in[i], peer, h->host.rank, 0, len, 0);
		free(in[i]);
	}
	free(out);
	if (code || good != COUNT * len)
		return harness_fail(h, "code %d, %llu bytes good", code, (unsigned long long)good);
	return harness_barrier(h);
}

/*
 * Sends one message of more than 4 GiB; its memory is one page of zeros, and the receiver drops it.
 */
static int test_huge(struct harness *h)
{
	uint64_t len = ((uint64_t)4 << 30) + 5;
	struct harness_recv recv = {.peer = 0, .tag = 1, .size = len, .add = 1};
	coll_send_t send;
	void *zeros;
	int32_t code;

	if (h->host.rank == 1) {
		harness_recv(h, &recv);
		code = harness_barrier(h) || harness_wait(h, &recv.status);
		return code || recv.len != len ? harness_fail(h, "receiving: %d", code) : 0;
	}
	zeros = mmap(NULL, len, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (zeros == MAP_FAILED || harness_barrier(h))
		return harness_fail(h, "no address space");
	code = harness_send(h, &send, 1, 1, zeros, len);
	code = code ? code : harness_wait(h, &send.status);
	munmap(zeros, len);
	return code ? harness_fail(h, "sending: %d", code) : 0;
}

static void test_order_and_flow(void)
{
	for (int threads = 0; threads < 2; threads++) {
		struct harness_job job = {.nranks = 2, .threads = threads};

		for (int k = 0; k < TEST_LOCAL; k++) {
			job.options = test_local[k].options;
			job.run = test_order;
			test_run(&job,
				 test_name("20000 messages in order over", test_local[k].name));
			job.run = test_both_ways;
			test_run(&job, test_name("both ways at once over", test_local[k].name));
		}
		job.run = test_both_ways;
		job.options = test_tcp4;
		test_run(&job, "both ways at once over TCP");
		job.run = test_order;
		test_run(&job, "20000 messages in order over TCP");
	}
	if (getenv("TEST_SANITIZE") && *getenv("TEST_SANITIZE"))
		skip(1, "4 GiB take long under a sanitizer");
	else
		test_run(&(struct harness_job){.nranks = 2, .run = test_huge},
			 "a message of 4 GiB and 5 bytes");
}

/* ---------------------------------------------------------------- cancelling -- */

/* Rank 1 reads nothing until rank 0 has cancelled a half-sent message and the message behind it. */
static int test_cancel_sender(struct harness *h)
{
	uint64_t len = (uint64_t)16 << 20;
	uint8_t *out = test_payload(0, 1, 0, len);
	coll_send_t first, second, third;
	int32_t code = harness_send(h, &first, 1, 1, out, len);

	code |= harness_send(h, &second, 1, 2, out, len) | harness_send(h, &third, 1, 3, out, 1000);
	h->transport->progress(h->ep);
	if (first.status != COLL_IN_PROGRESS || second.status != COLL_IN_PROGRESS)
		code = -1;
	h->transport->cancel(h->ep, &second);
	h->transport->cancel(h->ep, &first);
	memset(&first, 0xee, sizeof(first));
	memset(&second, 0xee, sizeof(second));
	memset(out + 1000, 0xee, len - 1000);
	code |= harness_barrier(h);
	code |= harness_wait(h, &third.status);
	free(out);
	return harness_barrier(h) || code ? harness_fail(h, "code %d", code) : 0;
}

static int test_cancel(struct harness *h)
{
	uint64_t len = (uint64_t)16 << 20, good;
	struct harness_recv first = {.peer = 0, .tag = 1, .size = len};
	struct harness_recv third = {.peer = 0, .tag = 3, .size = 1000};
	int32_t code;

	if (h->host.rank == 0)
		return test_cancel_sender(h);
	first.buf = calloc(1, len);
	third.buf = calloc(1, 1000);
	code = harness_barrier(h);
	harness_recv(h, &first);
	harness_recv(h, &third);
	code |= harness_wait(h, &first.status) | harness_wait(h, &third.status);
	good = test_check(first.buf, 0, 1, 0, len, 0) + test_check(third.buf, 0, 1, 0, 1000, 0);
	free(first.buf);
	free(third.buf);
	if (code || good != len + 1000 || h->early)
		return harness_fail(h, "code %d, %llu bytes good, the second came: %d", code,
				    (unsigned long long)good, h->early != NULL);
	return harness_barrier(h);
}

/* Gives up the receive whose message comes first, once a part of that message is there. */
static int test_drop_begun(struct harness *h)
{
	int64_t deadline = harness_now_ms() + 20000;

	while (!h->flowing && harness_now_ms() < deadline)
		h->transport->progress(h->ep);
	if (!h->flowing)
		return harness_fail(h, "the first message did not begin, or came whole");
	h->transport->drop(h->ep, (uintptr_t)h->flowing);
	return 0;
}

/*
 * Rank 1 gives up a receive whose message is half there.  The rest of that message touches nothing, and the
 * message behind it arrives.
 */
static int test_drop(struct harness *h)
{
	uint64_t len = (uint64_t)16 << 20;
	uint8_t *buf = h->host.rank ? calloc(1, len) : test_payload(0, 1, 0, len), word[8] = {0};
	struct harness_recv first = {.peer = 0, .tag = 1, .buf = buf, .size = len};
	struct harness_recv second = {.peer = 0, .tag = 2, .buf = word, .size = 8};
	int64_t deadline = harness_now_ms() + 20000;
	coll_send_t send[2];
	uint64_t left = 0;
	int code = 0;

	if (h->host.rank == 0) {
		code = harness_send(h, &send[0], 1, 1, buf, len) |
		       harness_send(h, &send[1], 1, 2, buf, 8);
		code |= harness_wait(h, &send[0].status) | harness_wait(h, &send[1].status);
		free(buf);
		return harness_barrier(h) || code ? harness_fail(h, "code %d", code) : 0;
	}
	harness_recv(h, &first);
	harness_recv(h, &second);
	if (test_drop_begun(h))
		return -1;
	memset(buf, 0xee, len);
	while (second.status == COLL_IN_PROGRESS && harness_now_ms() < deadline)
		h->transport->progress(h->ep);
	code = second.status;
	while (left < len && buf[left] == 0xee)
		left++;
	free(h->flowing); /* no one tells of its end */
	h->flowing = NULL;
	free(buf);
	if (code || memcmp(word, &(uint8_t){test_byte(0, 1, 0, 0)}, 1) || left != len)
		return harness_fail(h, "code %d, byte %llu was written after the drop", code,
				    (unsigned long long)left);
	return harness_barrier(h);
}

/* Makes progress until a peer is lost. */
static int test_wait_lost(struct harness *h, uint32_t peer)
{
	int64_t deadline = harness_now_ms() + 20000;

	while (!h->lost[peer] && harness_now_ms() < deadline)
		h->transport->progress(h->ep);
	return h->lost[peer] ? 0 : harness_fail(h, "the loss of rank %u was not told", peer);
}

/* Rank 1 gives up a receive whose message is half there, and rank 0 ends: the receive does not end once more. */
static int test_drop_lost(struct harness *h)
{
	uint64_t len = (uint64_t)16 << 20;
	uint8_t *buf = calloc(1, len);
	struct harness_recv recv = {.peer = 0, .tag = 1, .buf = buf, .size = len};
	coll_send_t send;
	int code;

	if (h->host.rank == 0) {
		code = harness_send(h, &send, 1, 1, buf, len) || harness_barrier(h);
		h->job->backend->close(h->ep, 0);
		h->ep = NULL;
		free(buf);
		return code;
	}
	harness_recv(h, &recv);
	code = test_drop_begun(h);
	code = harness_barrier(h) || code || test_wait_lost(h, 0);
	if (!code && recv.status != COLL_IN_PROGRESS)
		code = harness_fail(h, "the receive ended with %d", recv.status);
	free(buf);
	return code;
}

/*
 * Rank 0 sleeps on the plugin's descriptor, and nothing else, while rank 1 begins to read: room to write must
 * wake it.
 */
static int test_wake_to_write(struct harness *h)
{
	uint64_t len = (uint64_t)64 << 20;
	uint8_t *buf = calloc(1, len);
	struct harness_recv recv = {.peer = 0, .tag = 1, .buf = buf, .size = len};
	coll_send_t send;
	int code = 0;

	if (h->host.rank == 1) {
		usleep(300000);
		harness_recv(h, &recv);
		code = harness_wait(h, &recv.status);
		free(buf);
		return harness_barrier(h) || code ? harness_fail(h, "code %d", code) : 0;
	}
	code = harness_send(h, &send, 1, 1, buf, len);
	while (send.status == COLL_IN_PROGRESS) {
		struct pollfd p = {.fd = h->transport->wait_fd(h->ep), .events = POLLIN};

		if (h->transport->progress(h->ep) || code || h->transport->arm(h->ep))
			continue;
		if (poll(&p, 1, 10000) == 0 && !code)
			code = harness_fail(h, "slept 10 s, though rank 1 was reading");
	}
	free(buf);
	return harness_barrier(h) || code;
}

/* ------------------------------------------------------------- the end of peers -- */

/* Rank 1 is killed while it sends and receives; ranks 0 and 2 learn of it and go on. */
static int test_kill(struct harness *h)
{
	uint64_t len = (uint64_t)64 << 20;
	uint8_t *buf = calloc(1, len), word[8] = {0};
	uint32_t own = h->host.rank, other = 2 - own;
	struct harness_recv recv = {.peer = 1, .tag = own, .buf = buf, .size = len};
	struct harness_recv ping = {.peer = other, .tag = 9, .buf = word, .size = 8};
	coll_send_t send[2], pong;
	int result;

	if (own == 1) {
		harness_send(h, &send[0], 0, 0, buf, len);
		harness_send(h, &send[1], 2, 2, buf, len);
		for (int i = 0; i < 20; i++)
			h->transport->progress(h->ep);
		kill(getpid(), SIGKILL);
	}
	harness_recv(h, &recv);
	harness_send(h, &send[0], 1, 7, buf, len);
	result = test_wait_lost(h, 1);
	if (!result && (recv.status != COLL_ERR_PEER_LOST || send[0].status != COLL_ERR_PEER_LOST))
		result = harness_fail(h, "receive %d, send %d", recv.status, send[0].status);
	if (!result && harness_send(h, &send[1], 1, 8, word, 8) != COLL_ERR_PEER_LOST)
		result = harness_fail(h, "a send to a lost rank was taken");
	harness_recv(h, &ping);
	harness_send(h, &pong, other, 9, word, 8);
	if (harness_wait(h, &ping.status) || harness_wait(h, &pong.status) || h->lost[other])
		result = harness_fail(h, "the others are not connected any more");
	free(buf);
	return result;
}

/* Rank 1 is killed, which does not count as its failure. */
static void test_run_kill(const char *const *options, const char *name)
{
	struct harness_job job = {.backend = test_backend, .nranks = 3, .run = test_kill};

	job.options = options;
	harness_run(&job);
	is_int(job.shared->result[1], -SIGKILL, "%s: rank 1 is killed", name);
	ok(!job.shared->result[0], "%s: rank 0 learns it %s", name, job.shared->text[0]);
	ok(!job.shared->result[2], "%s: rank 2 learns it %s", name, job.shared->text[2]);
	harness_job_free(&job);
}

/* Rank 1 closes after a complete send: its message arrives first, then the loss is reported. */
static int test_leave(struct harness *h)
{
	uint64_t len = 100000;
	uint8_t *out = test_payload(1, 0, 1, len), *in = calloc(1, len);
	struct harness_recv recv = {.peer = 1, .tag = 1, .buf = in, .size = len};
	coll_send_t send[3];
	int result = 0;

	if (h->host.rank == 1) {
		result = harness_send(h, &send[0], 0, 1, out, len) ||
			 harness_wait(h, &send[0].status);
		free(out);
		free(in);
		/* The plugin closes the endpoint when this returns. */
		return result;
	}
	usleep(300000);
	/* Sends to rank 1 fail, which must not hide the messages that rank 1 sent. */
	for (int i = 0; i < 3; i++)
		harness_send(h, &send[i], 1, 5, out, 0);
	harness_recv(h, &recv);
	if (harness_wait(h, &recv.status) || test_check(in, 1, 0, 1, len, 0) != len)
		result = harness_fail(h, "the message did not come: %d", recv.status);
	result |= test_wait_lost(h, 1);
	free(out);
	free(in);
	return result;
}

/* A header that the receiving core refuses ends the connection on both sides. */
static int test_refuse(struct harness *h)
{
	uint8_t *buf = calloc(1, 1 << 20);
	coll_send_t send;
	int result;

	if (h->host.rank == 0)
		h->refuse_peer = 1;
	else
		harness_send(h, &send, 0, 1, buf, 1 << 20);
	result = test_wait_lost(h, 1 - h->host.rank);
	if (!result && h->early)
		result = harness_fail(h, "the refused message came");
	free(buf);
	return harness_barrier(h) || result;
}

enum { TEST_CLOSE_MS = 20000, TEST_CLOSE_QUICK_MS = 5000 };

/* Rank 0 is killed with unread data; rank 1, whose kernel has the reset, closes. */
static int test_reset(struct harness *h)
{
	uint64_t len =
		100000; /* more than the receive buffer of rank 0, less than the send buffer */
	int64_t deadline = harness_now_ms() + HARNESS_WAIT_MS, begin;
	coll_send_t send;
	uint8_t *buf;

	if (h->host.rank == 0) {
		harness_barrier(h);
		kill(getpid(), SIGKILL);
	}
	buf = calloc(1, len);
	harness_send(h, &send, 0, 1, buf, len);
	if (harness_wait(h, &send.status))
		harness_fail(h, "sending: %d", send.status);
	free(buf);
	if (send.status || harness_barrier(h))
		return 1;
	/* The parent process waits for rank 0 first, so its pid vanishes with its sockets. */
	while (!kill(h->job->shared->pid[0], 0) && harness_now_ms() < deadline)
		usleep(1000);
	begin = harness_now_ms();
	h->job->backend->close(h->ep, TEST_CLOSE_MS);
	h->ep = NULL;
	begin = harness_now_ms() - begin;
	return begin < TEST_CLOSE_QUICK_MS ? 0 : harness_fail(h, "close took %d ms", (int)begin);
}

static void test_run_reset(void)
{
	static const char *const options[] = {"sndbuf", "1048576",   "rcvbuf",    "4096", "unix",
					      "no",     "interface", "127.0.0.1", NULL};
	struct harness_job job = {.backend = test_backend, .nranks = 2, .run = test_reset};

	job.options = options;
	harness_run(&job);
	is_int(job.shared->result[0], -SIGKILL, "killed with unread data: rank 0 is killed");
	ok(!job.shared->result[1], "killed with unread data: rank 1 closes at once %s",
	   job.shared->text[1]);
	harness_job_free(&job);
}

static void test_end_of_peers(void)
{
	for (int threads = 0; threads < 2; threads++) {
		struct harness_job job = {.nranks = 2, .threads = threads};

		for (int k = 0; k <= TEST_LOCAL; k++) {
			const char *name = k < TEST_LOCAL ? test_local[k].name : "TCP";

			job.options = k < TEST_LOCAL ? test_local[k].options : test_tcp4;
			job.run = test_cancel;
			test_run(&job, test_name("cancel over", name));
			job.run = test_drop;
			test_run(&job, test_name("drop over", name));
			job.run = test_drop_lost;
			test_run(&job, test_name("drop, then the end of the peer, over", name));
			job.run = test_wake_to_write;
			test_run(&job, test_name("sleep until there is room,", name));
			job.run = test_leave;
			test_run(&job, test_name("leaving over", name));
			job.run = test_refuse;
			test_run(&job, test_name("refusing over", name));
		}
	}
	for (int k = 0; k < TEST_LOCAL; k++)
		test_run_kill(test_local[k].options, test_name("killed over", test_local[k].name));
	test_run_kill(test_tcp4, "killed over TCP");
	test_run_reset();
}

int main(void)
{
	signal(SIGPIPE, SIG_DFL);
	test_backend = harness_load("tcp");
	if (!test_backend)
		bail_out("cannot load the tcp plugin");
	test_sizes_of_everything();
	test_order_and_flow();
	test_end_of_peers();
	return done_testing();
}
