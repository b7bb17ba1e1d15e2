/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coalesce_test.c - the slots send_more and flush of the tcp plugin: messages that are kept back leave in one
 * sendmsg() and in order; they may be cancelled, and their peer may end.
 */
#include "../lib/tap.h"
#include "../lib/transport_harness.h"

#include "sendmsg_count.h"

static const char *const test_tcp[] = {"unix", "no", NULL};
static const char *const test_encrypt[] = {"unix", "no", "security", "encrypt", NULL};
static const char *const test_unix[] = {"ring", "0", NULL};
static const char *const test_ring[] = {"ring", "64K", NULL};

enum { TEST_TOGETHER = 100, TEST_MANY = 3000, TEST_MOST = 50, TEST_LARGE = 64 << 10 };

static const coll_backend_t *test_backend;

static int test_calls_taken(void)
{
	return atomic_exchange(&sendmsg_calls, 0);
}

static int32_t test_more(struct harness *h, coll_send_t *send, uint64_t tag, const void *buf,
			 uint64_t len)
{
	coll_error_t err = {.size = sizeof(err)};

	*send = (coll_send_t){.header = {.tag = tag, .meta = {~tag, len * 3}, .len = len},
			      .buf = len ? buf : NULL,
			      .peer = 1,
			      .status = COLL_IN_PROGRESS,
			      .memory = COLL_MEM_HOST};
	return h->transport->send_more(h->ep, send, &err);
}

static int test_receive(struct harness *h, uint64_t tag, uint64_t len, int first)
{
	uint8_t buf[TEST_MOST] = {0};
	struct harness_recv recv = {.peer = 0, .tag = tag, .buf = buf, .size = sizeof(buf)};

	harness_recv(h, &recv);
	if (harness_wait(h, &recv.status))
		return harness_fail(h, "message %d ended with %d", (int)tag, recv.status);
	if (recv.len != len || (len && buf[0] != first))
		return harness_fail(h, "message %d has %d bytes, the first is %d", (int)tag,
				    (int)recv.len, buf[0]);
	return 0;
}

/* ------------------------------------------------------------------ in one call -- */

static int test_together(struct harness *h)
{
	coll_send_t send[TEST_TOGETHER];
	uint8_t buf[TEST_TOGETHER][8];
	int calls, open = 0;

	for (int i = 0; h->host.rank && i < TEST_TOGETHER; i++)
		if (test_receive(h, (uint64_t)i, 8, i))
			return 1;
	if (h->host.rank)
		return 0;
	test_calls_taken();
	for (int i = 0; i < TEST_TOGETHER; i++) {
		memset(buf[i], i, sizeof(buf[i]));
		if (test_more(h, &send[i], (uint64_t)i, buf[i], 8))
			return harness_fail(h, "message %d was refused", i);
	}
	calls = test_calls_taken();
	if (calls)
		return harness_fail(h, "%d calls of sendmsg() before the flush", calls);
	h->transport->flush(h->ep);
	calls = test_calls_taken();
	for (int i = 0; i < TEST_TOGETHER; i++)
		open += send[i].status != COLL_SUCCESS;
	if (calls != 1 || open)
		return harness_fail(h, "%d calls of sendmsg() in the flush; %d messages wait",
				    calls, open);
	h->transport->flush(h->ep);
	calls = test_calls_taken();
	return calls ? harness_fail(h, "a second flush sends") : 0;
}

/* A core without the new slots: the message leaves although this rank calls nothing more. */
static int test_single(struct harness *h)
{
	coll_send_t send;

	if (h->host.rank)
		return test_receive(h, 1, 1, 7);
	if (harness_send(h, &send, 1, 1, "\7", 1))
		return harness_fail(h, "refused");
	return 0;
}

/* A message of send takes along the messages that are kept back, and does not overtake them. */
static int test_taken_along(struct harness *h)
{
	coll_send_t send[2];
	int calls;

	if (h->host.rank)
		return test_receive(h, 1, 1, 1) || test_receive(h, 2, 1, 2);
	test_calls_taken();
	if (test_more(h, &send[0], 1, "\1", 1) || harness_send(h, &send[1], 1, 2, "\2", 1))
		return harness_fail(h, "refused");
	calls = test_calls_taken();
	if (calls != 1 || send[0].status || send[1].status)
		return harness_fail(h, "%d calls of sendmsg(), status %d and %d", calls,
				    send[0].status, send[1].status);
	return 0;
}

/* A header and a short payload are one piece of memory for the kernel, a longer message is not. */
static int test_flat(struct harness *h)
{
	uint8_t *buf = calloc(1, TEST_LARGE);
	struct harness_recv recv = {.peer = 0, .tag = 2, .buf = buf, .size = TEST_LARGE};
	coll_send_t send[2];
	int code = 0, of_short = 0, of_long = 0;

	if (h->host.rank) {
		code = test_receive(h, 1, 1, 1);
		harness_recv(h, &recv);
		code = code || harness_wait(h, &recv.status);
	} else {
		atomic_store(&send_calls, 0);
		code = harness_send(h, &send[0], 1, 1, "\1", 1);
		of_short = atomic_exchange(&send_calls, 0);
		code = code || harness_send(h, &send[1], 1, 2, buf, TEST_LARGE);
		of_long = atomic_load(&send_calls);
		code = code || harness_wait(h, &send[1].status);
		if (code || of_short != 1 || of_long)
			code = harness_fail(h, "%d and %d calls of send()", of_short, of_long);
	}
	free(buf);
	return code;
}

static int test_large(struct harness *h)
{
	uint8_t *buf = calloc(1, TEST_LARGE);
	struct harness_recv recv = {.peer = 0, .tag = 2, .buf = buf, .size = TEST_LARGE};
	coll_send_t send[2];
	int code = 0;

	if (h->host.rank) {
		code = test_receive(h, 1, 1, 1);
		harness_recv(h, &recv);
		code = code || harness_wait(h, &recv.status);
	} else {
		test_calls_taken();
		if (test_more(h, &send[0], 1, "\1", 1) ||
		    test_more(h, &send[1], 2, buf, TEST_LARGE))
			code = harness_fail(h, "refused");
		if (!code && !test_calls_taken())
			code = harness_fail(h, "a large message is kept back");
		code = code || harness_wait(h, &send[1].status);
	}
	free(buf);
	return code;
}

/* progress() sends as flush does. */
static int test_progress(struct harness *h)
{
	coll_send_t send;

	if (h->host.rank)
		return test_receive(h, 1, 1, 9);
	if (test_more(h, &send, 1, "\11", 1))
		return harness_fail(h, "refused");
	return harness_wait(h, &send.status);
}

/* More than one sendmsg() takes, of all small sizes; a flush now and then. */
static int test_many(struct harness *h)
{
	coll_send_t *send = calloc(TEST_MANY, sizeof(*send));
	uint8_t(*buf)[TEST_MOST] = calloc(TEST_MANY, sizeof(*buf));
	int code = 0;

	for (int i = 0; i < TEST_MANY && !code; i++) {
		if (h->host.rank) {
			code = test_receive(h, (uint64_t)i, (uint64_t)(i % TEST_MOST), i & 255);
			continue;
		}
		memset(buf[i], i, TEST_MOST);
		code = test_more(h, &send[i], (uint64_t)i, buf[i], (uint64_t)(i % TEST_MOST));
		if (i % 700 == 0)
			h->transport->flush(h->ep);
	}
	if (!h->host.rank)
		h->transport->flush(h->ep);
	for (int i = 0; i < TEST_MANY && !code && !h->host.rank; i++)
		code = harness_wait(h, &send[i].status);
	free(send);
	free(buf);
	return code;
}

/* ------------------------------------------------------------------------ the end -- */

/* The core cancels a message that is kept back: its neighbours arrive. */
static int test_cancelled(struct harness *h)
{
	uint8_t buf[3] = {1, 2, 3};
	coll_send_t send[3], last;

	if (h->host.rank)
		return test_receive(h, 1, 1, 1) || test_receive(h, 3, 1, 3) ||
		       test_receive(h, 4, 1, 4);
	for (int i = 0; i < 3; i++)
		if (test_more(h, &send[i], (uint64_t)i + 1, &buf[i], 1))
			return harness_fail(h, "refused");
	h->transport->cancel(h->ep, &send[1]);
	memset(&send[1], 0xff, sizeof(send[1]));
	h->transport->flush(h->ep);
	/* The only message that is kept back vanishes. */
	if (send[0].status || send[2].status || test_more(h, &last, 5, buf, 1))
		return harness_fail(h, "status %d and %d", send[0].status, send[2].status);
	h->transport->cancel(h->ep, &last);
	h->transport->flush(h->ep);
	if (harness_send(h, &last, 1, 4, "\4", 1))
		return harness_fail(h, "refused");
	return 0;
}

/* The peer has ended: messages that are kept back get a status, and a flush is harmless. */
static int test_peer_ends(struct harness *h)
{
	coll_send_t send[2];

	if (h->host.rank)
		return 0;
	if (test_more(h, &send[0], 1, "\1", 1))
		return harness_fail(h, "refused");
	for (int64_t end = harness_now_ms() + HARNESS_WAIT_MS; !h->lost[1];) {
		h->transport->progress(h->ep);
		if (harness_now_ms() > end)
			return harness_fail(h, "the end of rank 1 was not noticed");
	}
	if (send[0].status == COLL_IN_PROGRESS)
		return harness_fail(h, "a message to a lost rank has no status");
	if (test_more(h, &send[1], 2, "\2", 1) != COLL_ERR_PEER_LOST)
		return harness_fail(h, "a message for a lost rank was accepted");
	h->transport->flush(h->ep);
	return 0;
}

/* ------------------------------------------------------------------------------- -- */

/* The ranks leave together, also after a failure; rank 0 makes no progress meanwhile. */
static int test_rank(struct harness *h)
{
	const harness_fn *scene = h->job->user;
	int code = (*scene)(h);

	return (*scene != test_peer_ends && harness_barrier(h)) || code;
}

static void test_run(const char *const *options, harness_fn run, const char *what, const char *how)
{
	struct harness_job job = {.backend = test_backend,
				  .nranks = 2,
				  .options = options,
				  .run = test_rank,
				  .user = &run};
	char name[100];

	snprintf(name, sizeof(name), "%s over %s", what, how);
	harness_check(&job, name);
}

/* sockets: the system calls can be counted. */
static void test_all(const char *const *options, int sockets, const char *how)
{
	if (sockets && options != test_encrypt)
		test_run(options, test_flat, "a short message is one piece", how);
	if (sockets) {
		test_run(options, test_together, "100 messages leave in one call", how);
		test_run(options, test_taken_along, "send takes earlier messages along", how);
		test_run(options, test_large, "a large message leaves at once", how);
	}
	test_run(options, test_single, "a single message leaves at once", how);
	test_run(options, test_progress, "progress sends", how);
	test_run(options, test_many, "many messages", how);
	test_run(options, test_cancelled, "cancelled messages", how);
	test_run(options, test_peer_ends, "the end of the peer", how);
}

static int64_t no_option(const coll_host_t *host, const char *key)
{
	(void)host, (void)key;
	return 0;
}

/* Is the plugin built with libsodium? */
static int has_security(void)
{
	const coll_host_t host = {
		.size = sizeof(host), .abi_minor = COLL_BACKEND_ABI_MINOR, .option_int = no_option};
	char text[256] = "";

	return !test_backend->info(&host, text, sizeof(text)) && strstr(text, "libsodium 1");
}

int main(void)
{
	test_backend = harness_load("tcp");
	if (!test_backend)
		bail_out("the tcp plugin does not load");
	if (test_backend->transport->size <= offsetof(coll_transport_t, flush) ||
	    !test_backend->transport->send_more || !test_backend->transport->flush) {
		ok(0, "the plugin has send_more and flush");
		return done_testing();
	}
	test_all(test_tcp, 1, "TCP");
	if (has_security())
		test_all(test_encrypt, 1, "encrypted TCP");
	test_all(test_unix, 1, "local sockets");
	test_all(test_ring, 0, "shared memory");
	return done_testing();
}
