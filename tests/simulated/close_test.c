/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * close_test.c - two ranks of the simulated backend, one of which leaves: it returns the messages in its inbox while
 * their sender gives them up; and whoever is the last to refer to the memory of both frees it, also after an open that
 * failed.
 *
 * The test includes the plugin's file, so that it can stop a rank where the rank unlocks its box.
 */
#include "../lib/transport_harness.h"
#include "exchange.h"

static int unlock_hooked(pthread_mutex_t *lock);
static int yield_hooked(void);
static void free_hooked(void *memory);

#define pthread_mutex_unlock unlock_hooked
#define sched_yield          yield_hooked
#define free                 free_hooked
#include "../../plugins/simulated/simulated.c"
#undef pthread_mutex_unlock
#undef sched_yield
#undef free

enum { RANKS = 2, SENDER = 0, LEAVER = 1, SENDS = 2, LENGTH = 4 * SIM_EAGER_MAX };

static struct sim_ep *eps[RANKS];

/* ------------------------------------------------------------------- the plugin's calls -- */

/* The leaver runs this once, the first time that it unlocks its box after it has closed it. */
static void (*when_closed)(void);
static _Atomic int sender_waits; /* the sender waits for the leaver */
static const void *watched;      /* the memory whose frees are counted, and put off */
static int frees;

static int unlock_hooked(pthread_mutex_t *lock)
{
	void (*hook)(void) = when_closed;
	struct sim_box *box = hook ? eps[LEAVER]->box : NULL;
	int now = box && lock == &box->lock && box->closed, code;

	if (now)
		when_closed = NULL;
	code = pthread_mutex_unlock(lock);
	if (now)
		hook();
	return code;
}

static int yield_hooked(void)
{
	atomic_store(&sender_waits, 1);
	return sched_yield();
}

static void free_hooked(void *memory)
{
	if (memory && memory == watched)
		frees++;
	else
		free(memory);
}

static struct harness ranks[RANKS];

static int32_t open_rank(int rank, coll_error_t *err)
{
	void *ep;
	int32_t code;

	memset(err, 0, sizeof(*err));
	code = coll_backend_v1.open(&ranks[rank].host, &ep, err);
	eps[rank] = ep;
	return code;
}

static void close_rank(int rank)
{
	coll_backend_v1.close(eps[rank], 0);
	eps[rank] = NULL;
}

static void begin(void)
{
	frees = 0;
	watched = NULL;
	memset(eps, 0, sizeof(eps));
	exchange_hosts(ranks, RANKS, &coll_backend_v1);
}

/* --------------------------------------------------------- the sender gives its sends up -- */

static coll_send_t sends[SENDS], given_up[SENDS];
static uint8_t payload[LENGTH];
static void (*give_up)(void);
static pthread_t sender;
static _Atomic int sender_done;

static void cancel_sends(void)
{
	for (int i = 0; i < SENDS; i++)
		coll_backend_v1.transport->cancel(eps[SENDER], &sends[i]);
}

static void close_sender(void)
{
	coll_backend_v1.close(eps[SENDER], 0);
}

static void *sender_thread(void *arg)
{
	give_up();
	memcpy(given_up, sends, sizeof(sends));
	atomic_store(&sender_done, 1);
	return arg;
}

/* The sender gives its sends up now: until it has, or until it waits for this rank. */
static void start_sender(void)
{
	if (pthread_create(&sender, NULL, sender_thread, NULL))
		bail_out("no thread");
	while (!atomic_load(&sender_done) && !atomic_load(&sender_waits))
		sched_yield();
}

static void test_give_up(const char *how, void (*give_up_so)(void))
{
	coll_error_t err;

	begin();
	give_up = give_up_so;
	atomic_store(&sender_done, 0);
	atomic_store(&sender_waits, 0);
	is_int(open_rank(SENDER, &err) | open_rank(LEAVER, &err), COLL_SUCCESS, "%s: open", how);
	memset(sends, 0, sizeof(sends));
	for (int i = 0; i < SENDS; i++) {
		sends[i] = (coll_send_t){.header = {.tag = 1, .len = LENGTH},
					 .buf = payload,
					 .peer = LEAVER,
					 .status = COLL_IN_PROGRESS};
		coll_backend_v1.transport->send(eps[SENDER], &sends[i], &err);
	}
	when_closed = start_sender;
	close_rank(LEAVER);
	pthread_join(sender, NULL);
	ok(!memcmp(given_up, sends, sizeof(sends)),
	   "%s while the receiver leaves: nobody writes to the sends afterwards", how);
	if (give_up_so == cancel_sends) {
		ok(!eps[SENDER]->box->done.first, "%s: the plugin refers to none of them", how);
		close_rank(SENDER);
	}
}

/* A sender that does not give up learns that nobody has received its messages. */
static void test_returned(void)
{
	coll_send_t send = {.header = {.tag = 1, .len = LENGTH},
			    .buf = payload,
			    .peer = LEAVER,
			    .status = COLL_IN_PROGRESS};
	coll_error_t err;

	begin();
	is_int(open_rank(SENDER, &err) | open_rank(LEAVER, &err), COLL_SUCCESS, "open");
	coll_backend_v1.transport->send(eps[SENDER], &send, &err);
	close_rank(LEAVER);
	for (int i = 0; i < 10 && send.status == COLL_IN_PROGRESS; i++)
		coll_backend_v1.transport->progress(eps[SENDER]);
	is_int(send.status, COLL_ERR_PEER_LOST, "the receiver leaves: the send has failed");
	close_rank(SENDER);
}

/* ------------------------------------------------------------------ an open that fails -- */

static int joins_meanwhile;

/* Rank 0's exchange: rank 1 has all records, perhaps its open is over by now, and then rank 0's connection breaks. */
static int32_t exchange_broken(const coll_host_t *host, const void *in, void *out, uint64_t len,
			       int64_t timeout_ms, coll_error_t *err)
{
	coll_error_t other;

	exchange(host, in, out, len, timeout_ms, err);
	if (joins_meanwhile)
		is_int(open_rank(1, &other), COLL_SUCCESS, "rank 1 has opened");
	watched = eps[1] ? eps[1]->group : NULL;
	snprintf(err->text, sizeof(err->text), "the connection broke");
	return err->code = COLL_ERR_REMOTE;
}

static void test_failed_open(void)
{
	coll_error_t err;

	begin();
	ranks[0].host.exchange = exchange_broken;
	joins_meanwhile = 1;
	is_int(open_rank(0, &err), COLL_ERR_REMOTE, "rank 0's exchange fails: so does its open");
	close_rank(0);
	is_int(frees, 0, "the memory of both stays, since rank 1 has opened");
	close_rank(1);
	is_int(frees, 1, "rank 1 frees it when it closes");
	free((void *)(uintptr_t)watched);

	begin();
	ranks[0].host.exchange = exchange_broken;
	joins_meanwhile = 0;
	is_int(open_rank(0, &err), COLL_ERR_REMOTE, "rank 0's exchange fails again");
	close_rank(0);
	is_int(open_rank(1, &err), COLL_ERR_PEER_LOST, "rank 1, which is late, finds nothing");
	is_str(err.text, "rank 0 has closed its endpoint", "and says why");
	close_rank(1);
}

int main(void)
{
	test_give_up("cancel", cancel_sends);
	test_give_up("close", close_sender);
	test_returned();
	test_failed_open();
	ok(!sim_groups, "no memory of ranks is left");
	return done_testing();
}
