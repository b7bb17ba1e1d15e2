/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_kit_test.c - the helpers of the plugins of this tree. */
#include "base/clock.h"
#include "base/kit_bounded.h"
#include "base/plugin_kit.h"

#include "../lib/tap.h"

#include <stdatomic.h>
#include <stddef.h>

/* ------------------------------------------------------------------------- queues -- */

static void is_queue(const struct send_queue *queue, const uint32_t *peers, int n, const char *what)
{
	const coll_send_t *send = queue->first;

	for (int i = 0; i < n; i++) {
		is_int(send ? (int)send->peer : -1, peers[i], "%s: place %d", what, i);
		send = send ? send_queue_next(send) : NULL;
	}
	ok(!send, "%s: no more", what);
}

static void test_queue(void)
{
	struct send_queue queue = {0};
	coll_send_t send[5] = {0}, other = {0};

	for (uint32_t i = 0; i < 5; i++) {
		send[i].peer = i;
		send_queue_append(&queue, &send[i]);
	}
	is_queue(&queue, (uint32_t[]){0, 1, 2, 3, 4}, 5, "in order");
	send_queue_remove(&queue, &other);
	is_queue(&queue, (uint32_t[]){0, 1, 2, 3, 4}, 5, "one that is not there is removed");
	send_queue_remove(&queue, &send[2]);
	is_queue(&queue, (uint32_t[]){0, 1, 3, 4}, 4, "without one in the middle");
	send_queue_remove(&queue, &send[4]);
	is_queue(&queue, (uint32_t[]){0, 1, 3}, 3, "without the last");
	send_queue_append(&queue, &send[2]);
	is_queue(&queue, (uint32_t[]){0, 1, 3, 2}, 4, "one more after the new last");
	send_queue_remove(&queue, &send[0]);
	is_queue(&queue, (uint32_t[]){1, 3, 2}, 3, "without the first");
	ok(send_queue_take(&queue) == &send[1] && send_queue_take(&queue) == &send[3] &&
		   send_queue_take(&queue) == &send[2] && !queue.first,
	   "they are taken in order");
	send_queue_remove(&queue, &send[0]);
	send_queue_append(&queue, &send[4]);
	is_queue(&queue, (uint32_t[]){4}, 1, "an emptied queue works on");
}

/* --------------------------------------------------------------------------- rests -- */

static char memory[64];
static uint64_t freed;
static int poor;

static void *host_alloc(const coll_host_t *host, uint64_t bytes)
{
	(void)host;
	return poor || bytes > sizeof(memory) ? NULL : memory;
}

static void host_free(const coll_host_t *host, void *ptr, uint64_t bytes)
{
	(void)host;
	freed += ptr == memory ? bytes : 1000;
}

static void test_rest(void)
{
	const coll_host_t host = {.size = sizeof(host), .alloc = host_alloc, .free = host_free};
	struct send_rest rest = {0};

	send_rest_free(&rest, &host);
	is_int((int)freed, 0, "no rest is freed");
	ok(send_rest_new(&rest, &host, 40) == (uint8_t *)memory && rest.size == 40 && !rest.done,
	   "a rest of 40 bytes");
	rest.done = 7;
	send_rest_free(&rest, &host);
	is_int((int)freed, 40, "is freed whole");
	ok(!rest.bytes, "and gone");
	poor = 1;
	ok(!send_rest_new(&rest, &host, 40) && !rest.bytes, "no memory: no rest");
}

/* ------------------------------------------------------------------------ the host -- */

static char said[600];
static int32_t said_level, said_code;

static void host_log(const coll_host_t *host, int32_t level, const char *text)
{
	(void)host;
	said_level = level;
	snprintf(said, sizeof(said), "%s", text);
}

static int32_t host_exchange_fail(const coll_host_t *host, int32_t code, const char *text,
				  int64_t timeout_ms)
{
	(void)host;
	said_code = code;
	snprintf(said, sizeof(said), "%s, %d ms", text ? text : "no text", (int)timeout_ms);
	return code;
}

static void test_host(void)
{
	const coll_error_t err = {.size = sizeof(err), .code = COLL_ERR_SYSTEM, .text = "no luck"};
	coll_host_t host = {.size = sizeof(host),
			    .timeout_ms = 70,
			    .log = host_log,
			    .exchange_fail = host_exchange_fail};

	kit_log(&host, COLL_LOG_WARN, "%d lines of %s", 3, "text");
	is_str(said, "3 lines of text", "a line for the log");
	is_int(said_level, COLL_LOG_WARN, "with its level");
	is_int(kit_exchange_fail(&host, COLL_ERR_SYSTEM, &err), COLL_ERR_SYSTEM,
	       "the code of a failure is returned");
	is_str(said, "no luck, 70 ms", "its text is told");
	is_int(said_code, COLL_ERR_SYSTEM, "and its code");
	kit_exchange_fail(&host, COLL_ERR_CONFIG, NULL);
	is_str(said, "no text, 70 ms", "a failure without a text is told");
	/*
	 * In a core of ABI 1.2 the table ends before the function: the bytes there are no pointer.
	 */
	said[0] = '\0';
	host.size = offsetof(coll_host_t, exchange_fail);
	is_int(kit_exchange_fail(&host, COLL_ERR_SYSTEM, &err), COLL_ERR_SYSTEM,
	       "an older core: the code is returned");
	is_str(said, "", "and nothing is called");
}

static void test_shares(void)
{
	const uint8_t shares[3] = {COLL_SHARES_HOST | COLL_SHARES_PIDS,
				   COLL_SHARES_HOST | COLL_SHARES_PIDS | COLL_SHARES_FILES,
				   COLL_SHARES_HOST};
	coll_host_t host = {.size = sizeof(host), .rank = 1, .nranks = 3, .shares = shares};

	is_int(kit_shares(&host, 0, COLL_SHARES_PIDS), 1, "a rank shares a thing");
	is_int(kit_shares(&host, 0, COLL_SHARES_PIDS | COLL_SHARES_FILES), 0, "but not both");
	is_int(kit_all_share(&host, COLL_SHARES_HOST), 1, "all ranks share the host");
	is_int(kit_all_share(&host, COLL_SHARES_PIDS), 0, "but not all the PIDs");
	/* In a core of ABI 1.3 the table ends before the array. */
	host.size = offsetof(coll_host_t, shares);
	is_int(kit_shares(&host, 0, COLL_SHARES_HOST), 0, "an older core: no rank shares anything");
	is_int(kit_shares(&host, 1, COLL_SHARES_HOST), 1, "except with itself");
	host.size = sizeof(host);
	host.shares = NULL;
	is_int(kit_all_share(&host, COLL_SHARES_HOST), 0, "no array: the same");
}

/* ------------------------------------------------------------- calls without a limit -- */

enum { CALL_LONG_MS = 20000 /* for a busy machine */ };

/* A call that ends when the test says so. */
struct call {
	struct bounded bounded;
	atomic_int may_end, freed;
};

static void call_run(struct bounded *b)
{
	struct call *call = (void *)b;

	while (!atomic_load(&call->may_end))
		clock_nap(100);
}

static void call_free(struct bounded *b)
{
	atomic_store(&((struct call *)b)->freed, 1);
}

static void test_bounded(void)
{
	const int64_t deadline = clock_deadline(CALL_LONG_MS);
	struct call short_call = {.bounded = {.run = call_run, .free = call_free}};
	struct call left_call = short_call;

	is_int(bounded_start(&short_call.bounded), 0, "a call begins");
	is_int(bounded_start(&left_call.bounded), 0, "and another");
	is_int(bounded_wait(&short_call.bounded, clock_deadline(1)), 0, "a wait has a limit");
	atomic_store(&short_call.may_end, 1);
	is_int(bounded_wait(&short_call.bounded, deadline), 1, "a wait sees the end of its call");
	is_int(bounded_leave(&short_call.bounded), 1, "the caller keeps a call that has ended");
	is_int(bounded_leave(&left_call.bounded), 0, "but not one that goes on");
	atomic_store(&left_call.may_end, 1);
	while (!atomic_load(&left_call.freed) && clock_remaining(deadline))
		clock_nap(1000);
	is_int(atomic_load(&left_call.freed), 1, "which is freed at its end");
	is_int(atomic_load(&short_call.freed), 0, "unlike the one that was kept");
}

int main(void)
{
	test_queue();
	test_rest();
	test_host();
	test_shares();
	test_bounded();
	return done_testing();
}
