/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pending_test.c - the ucx plugin, over UCX, while messages wait in UCX for the other rank: a cancel frees their memory,
 * and a sleep ends although nothing comes.
 */
#include "../lib/ranks.h"
#include "../lib/tap.h"
#include "../lib/transport_harness.h"

enum {
	MESSAGES = 600, /* more than a queue of UCX in shared memory has places for */
	FRAME = 8192,   /* the plugin's longest frame in shared memory */
	FEW = 300,      /* calls of progress() */
	LIMIT_S = 40,   /* of a rank, whose fault may be that it waits for ever */
	SLEEPS = 20,    /* whose timer is at least this long: */
	SLEEP_LEAST_US = 400,
	SLEEP_MOST_MS = 10000
};

static const coll_backend_t *backend;
static const char *const frames[] = {"zcopy", "0", NULL};
static const char *const zcopy[] = {"zcopy", "1", NULL};

static void move(struct harness *h)
{
	for (int i = 0; i < FEW; i++)
		h->transport->progress(h->ep);
}

/* Without a sleep, which is what the test is about.  Ends with the other rank. */
static int32_t finish(struct harness *h, const int32_t *status)
{
	while (*status == COLL_IN_PROGRESS && !h->lost[1 - h->host.rank])
		h->transport->progress(h->ep);
	return *status;
}

/* ------------------------------------------------------------------------- cancelling -- */

/* A message of one frame for each page; returns the first that waits in UCX, or MESSAGES. */
static int fill(struct harness *h, coll_send_t *send, uint8_t *pages)
{
	int first = 0;

	for (int i = 0; i < MESSAGES; i++)
		harness_send(h, &send[i], 1, (uint64_t)i + 1, pages + (size_t)i * FRAME, FRAME);
	while (first < MESSAGES && send[first].status != COLL_IN_PROGRESS)
		first++;
	return first;
}

static uint8_t *make_pages(void)
{
	const size_t size = (size_t)MESSAGES * FRAME;
	uint8_t *pages =
		mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (pages == MAP_FAILED)
		abort();
	for (int i = 0; i < MESSAGES; i++)
		memset(pages + (size_t)i * FRAME, i % 251, FRAME);
	return pages;
}

/* All of the message has been handed to UCX, and UCX has not read it: it must not read it later. */
static int cancel_last_frame(struct harness *h)
{
	static coll_send_t send[MESSAGES];
	uint8_t *pages = make_pages();
	const int first = fill(h, send, pages);
	int code = 0;

	if (first == MESSAGES)
		return harness_fail(h, "no message waits in UCX");
	h->transport->cancel(h->ep, &send[first]);
	if (mprotect(pages + (size_t)first * FRAME, FRAME, PROT_NONE))
		return harness_fail(h, "mprotect: %s", strerror(errno));
	code |= harness_barrier(h);
	for (int i = first + 1; i < MESSAGES; i++)
		code |= finish(h, &send[i].status);
	munmap(pages, (size_t)MESSAGES * FRAME);
	return harness_barrier(h) || code ? harness_fail(h, "code %d", code) : 0;
}

static int read_all(struct harness *h)
{
	static struct harness_recv recv[MESSAGES];
	static uint8_t bytes[MESSAGES][FRAME];
	int code, wrong = 0;

	for (int i = 0; i < MESSAGES; i++)
		recv[i] = (struct harness_recv){
			.peer = 0, .tag = (uint64_t)i + 1, .buf = bytes[i], .size = FRAME};
	code = harness_barrier(h);
	for (int i = 0; i < MESSAGES; i++) {
		harness_recv(h, &recv[i]);
		code |= finish(h, &recv[i].status);
		wrong += bytes[i][0] != i % 251 || bytes[i][FRAME - 1] != i % 251;
	}
	return harness_barrier(h) || code || wrong
		       ? harness_fail(h, "code %d, %d messages wrong", code, wrong)
		       : 0;
}

static int test_cancel(struct harness *h)
{
	alarm(LIMIT_S);
	return h->host.rank ? read_all(h) : cancel_last_frame(h);
}

/* --------------------------------------------------------------------------- sleeping -- */

/* Sleeps once as the core does; returns 0 if the plugin let this rank not sleep, or nothing ended the sleep. */
static int sleep_once(struct harness *h)
{
	struct pollfd fd = {.events = POLLIN};
	int tries = FEW;

	while (h->transport->arm(h->ep) && tries--)
		h->transport->progress(h->ep);
	if (tries < 0)
		return 0;
	fd.fd = h->transport->wait_fd(h->ep);
	if (poll(&fd, 1, SLEEP_MOST_MS) != 1)
		return 0;
	h->transport->progress(h->ep);
	return 1;
}

static int64_t now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Another rank's queue is full, and the rank does not read: only the timer ends a sleep. */
static int sleep_before_full_queue(struct harness *h)
{
	static coll_send_t send[MESSAGES];
	uint8_t *pages = make_pages();
	int64_t begun, slept;
	int n = 0, code;

	fill(h, send, pages);
	move(h);
	begun = now_us();
	while (n < SLEEPS && sleep_once(h))
		n++;
	slept = now_us() - begun;
	code = harness_barrier(h);
	for (int i = 0; i < MESSAGES; i++)
		code |= finish(h, &send[i].status);
	munmap(pages, (size_t)MESSAGES * FRAME);
	return harness_barrier(h) || code || n < SLEEPS || slept < SLEEPS * SLEEP_LEAST_US
		       ? harness_fail(h, "code %d, %d sleeps in %lld us", code, n, (long long)slept)
		       : 0;
}

static int test_sleep_full(struct harness *h)
{
	alarm(LIMIT_S);
	return h->host.rank ? read_all(h) : sleep_before_full_queue(h);
}

/* While a message without frames is offered, then accepted, and the other rank does nothing. */
static int test_sleep_offer(struct harness *h)
{
	static uint8_t out[FRAME], in[FRAME];
	struct harness_recv recv = {.peer = 0, .tag = 1, .buf = in, .size = FRAME};
	coll_send_t send;
	int code = 0, slept = 1;

	alarm(LIMIT_S);
	memset(out, 7, sizeof(out));
	if (h->host.rank == 0) {
		code |= harness_send(h, &send, 1, 1, out, FRAME);
		move(h);
		slept &= sleep_once(h);
	}
	code |= harness_barrier(h);
	if (h->host.rank == 1) {
		harness_recv(h, &recv);
		while (!h->flowing)
			h->transport->progress(h->ep);
		move(h);
		slept &= sleep_once(h);
	}
	code |= harness_barrier(h);
	code |= finish(h, h->host.rank ? &recv.status : &send.status);
	return harness_barrier(h) || code || !slept || (h->host.rank && memcmp(in, out, FRAME) != 0)
		       ? harness_fail(h, "code %d, the sleep has ended: %d", code, slept)
		       : 0;
}

static void run(harness_fn fn, const char *const *options, const char *name)
{
	struct harness_job job = {.backend = backend, .nranks = 2, .run = fn, .options = options};

	harness_check(&job, name);
}

int main(void)
{
	if (!ranks_can("ucx"))
		return done_testing();
	backend = harness_load("ucx");
	if (!backend)
		bail_out("cannot load the ucx plugin");
	run(test_cancel, frames, "a cancel of the message whose last frame waits in UCX");
	run(test_sleep_full, frames, "sleeps while another rank's queue is full");
	run(test_sleep_offer, zcopy, "a sleep while a message without frames is under way");
	return done_testing();
}
