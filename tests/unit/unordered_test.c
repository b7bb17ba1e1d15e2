/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * unordered_test.c - the matching of messages outside the order, linked with the layers up to transport alone: random
 * sequences against a model that keeps two plain lists, and the work for thousands of receives and messages.
 */
#include "transport/match.h"

#include "../lib/random.h"
#include "../lib/tap.h"

enum { PEERS = 3, TAGS = 3, COMMS = 2, OPEN = 40, STEPS = 4000, SEEDS = 200, MANY = 10000 };

static struct match m;

static int client_unexpected(struct context *context, uint32_t peer, const coll_header_t *header)
{
	(void)context;
	(void)peer;
	(void)header;
	return 0;
}

static uint64_t comm_tag(int comm)
{
	return (uint64_t)comm << 38 | MATCH_UNORDERED;
}

static void begin(void)
{
	match_init(&m);
	m.check_unexpected = client_unexpected;
}

static struct recv recv_of(int comm, int32_t peer, uint64_t tag, int *to)
{
	return (struct recv){.tag = comm_tag(comm),
			     .meta = {0, tag},
			     .len = sizeof(*to),
			     .peer = peer,
			     .unordered = 1,
			     .dst = (char *)to};
}

/* A message of one number arrives whole. */
static void arrive(int comm, uint32_t peer, uint64_t tag, int number)
{
	const coll_header_t h = {.tag = comm_tag(comm), .meta = {0, tag}, .len = sizeof(number)};
	coll_sink_t sink;

	if (match_arrive(&m, peer, &h, &sink))
		bail_out("a message is refused");
	match_data(&m, sink.cookie, &number, sizeof(number));
	match_arrived(&m, sink.cookie, COLL_SUCCESS);
}

/* -------------------------------------------------------------------- against a model -- */

/* An open receive, or a message without one, in order. */
struct item {
	int comm;
	int32_t peer;
	uint64_t tag;
	int number;
	struct unordered_recv *recv;
};

static struct item recvs[OPEN], messages[OPEN];
static int nrecvs, nmessages;

static void take_out(struct item *items, int *n, int i)
{
	memmove(items + i, items + i + 1, (size_t)(--*n - i) * sizeof(*items));
}

static int fits(const struct item *recv, const struct item *message)
{
	return recv->comm == message->comm &&
	       (recv->peer == COLL_ANY_SOURCE || recv->peer == message->peer) &&
	       (recv->tag == MATCH_ANY_TAG || recv->tag == message->tag);
}

/* The receive that is complete next must have this number; -1: none is. */
static int completes(int number)
{
	struct recv *done = match_next_done(&m);
	int wrong = done ? number < 0 || *(int *)(void *)done->dst != number : number >= 0;

	if (done) {
		free(done->dst);
		free((struct unordered_recv *)done);
	}
	return wrong;
}

static int try_recv(void)
{
	struct item r = {.comm = random_below(COMMS),
			 .peer = random_below(PEERS + 1) - 1,
			 .tag = (uint64_t)random_below(TAGS + 1)};
	struct recv probe;
	int i = 0, *to = calloc(1, sizeof(*to)), found;

	r.peer = r.peer < 0 ? COLL_ANY_SOURCE : r.peer;
	r.tag = r.tag == TAGS ? MATCH_ANY_TAG : r.tag;
	r.recv = calloc(1, sizeof(*r.recv));
	if (!to || !r.recv)
		bail_out("no memory");
	while (i < nmessages && !fits(&r, &messages[i]))
		i++;
	probe = recv_of(r.comm, r.peer, r.tag, to);
	found = match_probe(&m, &probe) != NULL;
	r.recv->recv = probe;
	match_post(&m, &r.recv->recv);
	if (i == nmessages) {
		recvs[nrecvs++] = r;
		return found || completes(-1);
	}
	found = !found || completes(messages[i].number);
	take_out(messages, &nmessages, i);
	return found;
}

static int try_message(int number)
{
	struct item e = {random_below(COMMS), random_below(PEERS), (uint64_t)random_below(TAGS),
			 number, NULL};
	int i = 0;

	while (i < nrecvs && !fits(&recvs[i], &e))
		i++;
	arrive(e.comm, (uint32_t)e.peer, e.tag, number);
	if (i == nrecvs) {
		messages[nmessages++] = e;
		return completes(-1);
	}
	take_out(recvs, &nrecvs, i);
	return completes(number);
}

static void withdraw(int i)
{
	match_withdraw(&m, &recvs[i].recv->recv);
	free(recvs[i].recv->recv.dst);
	free(recvs[i].recv);
	take_out(recvs, &nrecvs, i);
}

/* All messages of a communicator are forgotten. */
static void forget(int comm)
{
	match_forget(&m, ~(uint64_t)0 << 38, comm_tag(comm) >> 38 << 38);
	for (int i = nmessages - 1; i >= 0; i--)
		if (messages[i].comm == comm)
			take_out(messages, &nmessages, i);
}

static int run(int seed)
{
	int wrong = 0;

	random_state = (unsigned)seed * 2654435761u;
	nrecvs = nmessages = 0;
	begin();
	for (int i = 0; i < STEPS && !wrong; i++) {
		int what = random_below(40);

		if (what == 0)
			forget(random_below(COMMS));
		else if (what < 4 && nrecvs)
			withdraw(random_below(nrecvs));
		else if (random_below(2) ? nrecvs < OPEN : nmessages == OPEN)
			wrong = try_recv();
		else if (nmessages < OPEN)
			wrong = try_message(i);
		wrong |= m.unexpected_count != (uint64_t)nmessages;
	}
	while (nrecvs)
		withdraw(0);
	match_free(&m);
	return wrong;
}

static void test_model(void)
{
	int bad = 0;

	for (int seed = 1; seed <= SEEDS && !bad; seed++)
		bad = run(seed) ? seed : 0;
	is_int(bad, 0, "%d random sequences give what two plain lists give", SEEDS);
}

/* --------------------------------------------------------------------------- thousands -- */

enum { RECEIVES_FIRST, MESSAGES_FIRST, WITHDRAWN, FIRSTS };
static const char *const firsts[] = {"receives are posted first", "messages come first",
				     "receives are withdrawn"};

/* Each of MANY receives gets the one message that is its own; `step` is the order of the messages. */
static void test_many(int first, int any_source, int step)
{
	static struct unordered_recv r[MANY];
	static int got[MANY];
	uint64_t looked;
	int wrong = 0;

	begin();
	for (int round = 0; round < 2; round++)
		for (int i = 0; i < MANY; i++) {
			int k = (int)((int64_t)i * step % MANY);

			k = k < 0 ? k + MANY : k;
			if (round == (first != MESSAGES_FIRST)) {
				if (first == WITHDRAWN)
					match_withdraw(&m, &r[k].recv);
				else
					arrive(1, (uint32_t)k % PEERS, (uint64_t)k, k);
				continue;
			}
			r[i].recv = recv_of(1, any_source ? COLL_ANY_SOURCE : i % PEERS,
					    (uint64_t)i, &got[i]);
			match_post(&m, &r[i].recv);
		}
	while (match_next_done(&m))
		continue;
	for (int i = 0; i < MANY && first != WITHDRAWN; i++)
		wrong += got[i] != i || r[i].recv.state != RECV_DONE;
	looked = m.unordered_posted.looked + m.unordered_unexpected.looked;
	is_int(wrong, 0, "%d %s%s, every %d: each has its own", MANY, firsts[first],
	       any_source ? " for any source" : "", step);
	ok(looked < 20 * (uint64_t)MANY, "after a look at %llu places", (unsigned long long)looked);
	diag("%d %s: %llu places looked at", MANY, firsts[first], (unsigned long long)looked);
	match_free(&m);
}

int main(void)
{
	test_model();
	for (int first = 0; first < FIRSTS; first++)
		for (int any_source = 0; any_source < 2; any_source++) {
			test_many(first, any_source, 1);
			test_many(first, any_source, -1);
			test_many(first, any_source, 7919);
		}
	return done_testing();
}
