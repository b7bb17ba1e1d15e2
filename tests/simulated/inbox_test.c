/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * inbox_test.c - the inboxes of three ranks of the simulated backend, step by step in one thread: when a rank may sleep,
 * and which events wake the rank; which messages of a rank that leaves, or whose message was refused, still come; and
 * which messages their sender can give up.
 *
 * The test includes the plugin's file: it needs no core and no build tree.
 */
#include "../lib/open_files.h"
#include "../lib/transport_harness.h"
#include "exchange.h"

#include <pthread.h>
#include <sys/resource.h>

/* Runs as soon as the next lock is free, as another thread might. */
static void (*after_unlock)(void);

static int unlock(pthread_mutex_t *lock)
{
	void (*fn)(void) = after_unlock;
	const int code = pthread_mutex_unlock(lock);

	after_unlock = NULL;
	if (fn)
		fn();
	return code;
}
#define pthread_mutex_unlock unlock
#include "../../plugins/simulated/simulated.c"

enum { RANKS = 3, LONG = 4 * SIM_EAGER_MAX };

static struct harness ranks[RANKS];
static uint8_t payload[SIM_BUDGET + 1], received[SIM_BUDGET + 1];

static void init(void)
{
	exchange_hosts(ranks, RANKS, &coll_backend_v1);
}

static void begin(void)
{
	coll_error_t err;

	init();
	for (int r = 0; r < RANKS; r++)
		if (coll_backend_v1.open(&ranks[r].host, &ranks[r].ep, &err))
			bail_out("open: %s", err.text);
}

static void leave(int rank)
{
	if (ranks[rank].ep)
		coll_backend_v1.close(ranks[rank].ep, 0);
	ranks[rank].ep = NULL;
}

static void end(void)
{
	for (int r = 0; r < RANKS; r++)
		leave(r);
	for (int r = 0; r < RANKS; r++)
		harness_host_free(&ranks[r]);
}

static int progress(int rank)
{
	return sim_progress(ranks[rank].ep);
}

static int arm(int rank)
{
	return sim_arm(ranks[rank].ep);
}

static int awake(int rank)
{
	struct pollfd fd = {.fd = sim_wait_fd(ranks[rank].ep), .events = POLLIN};

	return poll(&fd, 1, 0);
}

static void post(int rank, uint32_t peer, uint64_t tag, uint64_t len, struct harness_recv *recv)
{
	*recv = (struct harness_recv){.peer = peer, .tag = tag, .buf = received, .size = len};
	memset(received, 0xee, len);
	harness_recv(&ranks[rank], recv);
}

/* ------------------------------------------------------------------- sleep and wake-up -- */

static void test_sleep(void)
{
	coll_send_t send;

	begin();
	is_int(arm(0) | awake(0), 0, "nothing is there: a rank sleeps");
	harness_send(&ranks[1], &send, 0, 1, payload, 8);
	is_int(awake(0), 1, "a message wakes it");
	is_int(arm(0), 1, "while the message is there it does not sleep again");
	progress(0);
	is_int(arm(0) | awake(0), 0, "afterwards it does");
	progress(0);
	harness_send(&ranks[1], &send, 0, 2, payload, LONG);
	is_int(arm(1) | awake(1), 0, "the sender of a long message sleeps");
	progress(0);
	is_int(awake(1), 1, "the receiver wakes it");
	is_int(arm(1), 1, "until it knows that it is sent it does not sleep again");
	is_int(send.status, COLL_IN_PROGRESS, "its send is not over before it looks");
	progress(1);
	is_int(send.status, COLL_SUCCESS, "then it is");
	is_int(arm(1) | awake(1), 0, "and it sleeps");
	end();
}

static coll_send_t late;

static void send_late(void)
{
	harness_send(&ranks[1], &late, 0, 2, payload, 8);
}

/* A message comes as soon as the rank has taken the last one out of its box. */
static void test_late_message(void)
{
	struct harness_recv recv;
	coll_send_t send;

	begin();
	post(0, 1, 2, 8, &recv);
	harness_send(&ranks[1], &send, 0, 1, payload, 8);
	after_unlock = send_late;
	progress(0);
	is_int(recv.status, COLL_IN_PROGRESS, "a rank takes what was in its box");
	progress(0);
	is_int(recv.status, COLL_SUCCESS, "and finds what has come since");
	end();
}

static void test_sleep_while_left(void)
{
	begin();
	is_int(arm(0) | awake(0), 0, "a rank sleeps");
	leave(1);
	is_int(awake(0), 1, "another one leaves, which wakes it");
	is_int(arm(0), 1, "it does not sleep before it has seen that");
	is_int(progress(0), 1, "then it moves on");
	is_int(ranks[0].lost[1], 1, "and tells its core");
	is_int(arm(0) | awake(0), 0, "and sleeps again");
	leave(2);
	progress(0);
	ok(ranks[0].lost[1] == 1 && ranks[0].lost[2] == 1,
	   "a further one that leaves is lost alone");
	end();
}

/* ------------------------------------------- messages of a rank that has left are still there -- */

/* A long message of rank 2 takes a whole call of progress(), before the last message of rank 1, which has left. */
static void test_last_message(void)
{
	struct harness_recv recv;
	coll_send_t sends[2];

	begin();
	post(0, 1, 1, 8, &recv);
	harness_send(&ranks[2], &sends[0], 0, 2, payload, SIM_BUDGET + 1);
	memset(payload, 7, 8);
	harness_send(&ranks[1], &sends[1], 0, 1, payload, 8);
	is_int(sends[1].status, COLL_SUCCESS, "a short message is sent at once");
	memset(payload, 0, 8);
	leave(1);
	progress(0);
	ok(recv.status == COLL_IN_PROGRESS && !ranks[0].lost[1],
	   "a rank that has left is not lost while its message is there");
	is_int(arm(0), 1, "nor does the other rank sleep");
	progress(0);
	ok(recv.status == COLL_SUCCESS && received[0] == 7,
	   "the message comes, with the bytes that it was sent with");
	is_int(ranks[0].lost[1], 1, "and then the rank is lost");
	is_str(ranks[0].lost_text[1], "it has closed its endpoint", "because it has left");
	end();
}

static void test_long_of_left(void)
{
	coll_send_t sends[2];

	begin();
	harness_send(&ranks[1], &sends[0], 0, 1, payload, LONG);
	harness_send(&ranks[1], &sends[1], 0, 2, payload, SIM_EAGER_MAX);
	leave(1);
	progress(0);
	ok(ranks[0].early && ranks[0].early->tag == 2 && !ranks[0].early->next,
	   "of a rank that has left only the short message comes");
	is_int(ranks[0].lost[1], 1, "and the rank is lost");
	end();
}

static void test_cancel(void)
{
	struct harness_recv recv;
	coll_send_t sends[2], given_up;

	begin();
	post(0, 1, 2, LONG, &recv);
	harness_send(&ranks[1], &sends[0], 0, 1, payload, LONG);
	harness_send(&ranks[1], &sends[1], 0, 2, payload, LONG);
	sim_cancel(ranks[1].ep, &sends[0]);
	progress(0);
	ok(!ranks[0].early && recv.status == COLL_SUCCESS,
	   "a send that is given up does not come, and the one behind it does");
	sim_cancel(ranks[1].ep, &sends[1]);
	given_up = sends[1];
	progress(1);
	ok(!memcmp(&given_up, &sends[1], sizeof(given_up)),
	   "nobody writes to a send that is given up after it has come");
	end();
}

/* The receiver has left, which the sender has not seen yet. */
static void test_send_to_left(void)
{
	coll_send_t send = {.header = {.len = LONG}, .buf = payload, .peer = 1};
	coll_error_t err = {.code = COLL_SUCCESS};

	begin();
	leave(1);
	is_int(sim_send(ranks[0].ep, &send, &err), COLL_ERR_PEER_LOST,
	       "a rank that has left takes no message");
	end();
}

/* ------------------------------------------------------------------- a refused message -- */

static void test_refused(void)
{
	coll_send_t sends[3], other;
	coll_error_t err = {.code = COLL_SUCCESS};

	begin();
	ranks[0].refuse_peer = 1;
	harness_send(&ranks[1], &sends[0], 0, 1, payload, LONG);
	harness_send(&ranks[1], &sends[1], 0, 2, payload, 8);
	harness_send(&ranks[2], &other, 0, 3, payload, LONG);
	for (int i = 0; i < 3; i++)
		progress(0);
	is_int(ranks[0].lost[1], 1, "a rank whose message is refused is lost, once");
	is_str(ranks[0].lost_text[1], "it sent an invalid message", "because of it");
	ok(ranks[0].early && ranks[0].early->tag == 3 && !ranks[0].early->next,
	   "of the others the messages come");
	ranks[0].refuse_peer = 0;
	harness_send(&ranks[1], &sends[2], 0, 4, payload, LONG);
	progress(0);
	progress(1);
	progress(2);
	ok(sends[0].status == COLL_ERR_PEER_LOST && sends[2].status == COLL_ERR_PEER_LOST,
	   "its sends fail, also a later one");
	is_int(other.status, COLL_SUCCESS, "that of the other rank does not");
	ok(!ranks[0].early->next, "nothing of it comes any more");
	other = (coll_send_t){.header = {.len = 8}, .buf = payload, .peer = 1};
	is_int(sim_send(ranks[0].ep, &other, &err), COLL_ERR_PEER_LOST,
	       "nor is anything sent to it");
	has_str(err.text, "rank 1 has closed its endpoint, or sent an invalid message before",
		"the error says why");
	leave(1);
	progress(0);
	is_int(ranks[0].lost[1], 1, "when it leaves it is not lost once more");
	end();
}

/* ---------------------------------------------------------------------------- opening -- */

/* Two jobs open at the same time: each rank is in its own. */
static void test_two_groups(void)
{
	static struct harness others[RANKS];
	const int files = open_files();
	uint64_t numbers[2];
	coll_error_t err;
	int wrong = 0;

	init();
	memcpy(others, ranks, sizeof(others));
	for (int r = 0; r < RANKS; r++) {
		exchange_number = r ? numbers[0] : 0;
		wrong += coll_backend_v1.open(&ranks[r].host, &ranks[r].ep, &err);
		numbers[0] = exchange_number;
		exchange_number = r ? numbers[1] : 0;
		wrong += coll_backend_v1.open(&others[r].host, &others[r].ep, &err);
		numbers[1] = exchange_number;
	}
	for (int r = 0; r < RANKS; r++) {
		const struct sim_ep *one = ranks[r].ep, *other = others[r].ep;

		wrong += one->group != ((struct sim_ep *)ranks[0].ep)->group ||
			 other->group != ((struct sim_ep *)others[0].ep)->group ||
			 one->group == other->group;
	}
	is_int(wrong, 0, "the ranks of two jobs meet their own");
	for (int r = 0; r < RANKS; r++)
		coll_backend_v1.close(others[r].ep, 0);
	end();
	is_int(open_files(), files, "and leave no descriptor behind");
}

static void test_no_descriptors(void)
{
	struct rlimit limit, none;
	const int files = open_files();
	coll_error_t err[2];
	int code[2];

	init();
	getrlimit(RLIMIT_NOFILE, &limit);
	none = (struct rlimit){3, limit.rlim_max};
	setrlimit(RLIMIT_NOFILE, &none);
	for (int r = 0; r < 2; r++)
		code[r] = coll_backend_v1.open(&ranks[r].host, &ranks[r].ep, &err[r]);
	setrlimit(RLIMIT_NOFILE, &limit);
	for (int r = 0; r < 2; r++) {
		is_int(code[r], COLL_ERR_NO_MEMORY,
		       "rank 0 has no descriptor: rank %d does not open", r);
		is_str(err[r].text, "rank 0 found no memory, or no descriptor (ulimit -n)",
		       "and says why");
	}
	end();
	is_int(open_files(), files, "no other descriptor was closed");
}

int main(void)
{
	test_sleep();
	test_late_message();
	test_sleep_while_left();
	test_last_message();
	test_long_of_left();
	test_cancel();
	test_send_to_left();
	test_refused();
	test_two_groups();
	test_no_descriptors();
	ok(!sim_groups, "no memory of ranks is left");
	return done_testing();
}
