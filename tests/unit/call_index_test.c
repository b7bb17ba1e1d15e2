/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call_index_test.c - the messages of one call are found among those of thousands of other calls: all of
 * them, in order, and without a look at the messages of the others.
 */
#include "transport/match.h"

#include "../lib/tap.h"

enum { CALLS = 16384, MANY = 1 << 17, STEPS = 20000, FEW_CALLS = 4, FEW_MESSAGES = 4 };

static int keep(struct context *context, uint32_t peer, const coll_header_t *header)
{
	(void)context;
	(void)peer;
	(void)header;
	return 0;
}

static struct match *begin(void)
{
	struct match *m = malloc(sizeof(*m));

	if (!m)
		bail_out("no memory");
	match_init(m);
	m->check_unexpected = keep;
	return m;
}

static void end(struct match *m)
{
	match_free(m);
	free(m);
}

/* The same call number in every communicator, as the sequence numbers of communicators are. */
static uint64_t tag_of(uint64_t communicator, int call, int message)
{
	return communicator << 38 | (uint64_t)call << CALL_TAG_SHIFT | (uint64_t)message;
}

static void arrive(struct match *m, uint32_t peer, uint64_t tag)
{
	const coll_header_t header = {.tag = tag};
	coll_sink_t sink;

	if (match_arrive(m, peer, &header, &sink))
		bail_out("a message is refused");
	match_arrived(m, sink.cookie, COLL_SUCCESS);
}

static void leave(struct match *m, uint64_t tag)
{
	match_forget(m, ~(uint64_t)0, tag);
}

/* The messages of the last look. */
static struct {
	int n, disorder;
	uint64_t sum, last;
} seen;

static void see(void *user, const struct unexpected *e)
{
	(void)user;
	seen.n++;
	seen.disorder += seen.n > 1 && e->header.tag < seen.last;
	seen.last = e->header.tag;
	seen.sum += e->header.tag * (e->peer + 1);
}

static int look(const struct match *m, uint64_t tag)
{
	memset(&seen, 0, sizeof(seen));
	return call_index_each(&m->calls, tag, see, NULL);
}

/* Two ranks have sent their messages of many calls before this rank issues the first. */
static void test_behind(void)
{
	struct match *m = begin();
	int looked = 0, wrong = 0;

	for (uint32_t peer = 1; peer <= 2; peer++)
		for (int i = 0; i < CALLS; i++)
			arrive(m, peer, tag_of(0, i, 0));
	for (int i = 0; i < CALLS; i++) {
		looked += look(m, tag_of(0, i, 0));
		wrong += seen.n != 2;
		leave(m, tag_of(0, i, 0));
	}
	is_int(wrong, 0, "a rank that is %d calls behind finds both messages of each call", CALLS);
	is_int(looked, 2 * CALLS, "and looks at no others");
	is_int((int64_t)m->unexpected_count, 0, "none is left");
	end(m);
}

/* The calls are issued, but their messages stay: then a slot holds some other calls. */
static void test_held(void)
{
	struct match *m = begin();
	int most = 0, wrong = 0, looked;

	for (int i = 0; i < CALLS; i++)
		arrive(m, 1, tag_of(0, i, 0));
	for (int i = 0; i < 2 * CALLS; i++) { /* no message has come for the second half */
		looked = look(m, tag_of(0, i, 0));
		wrong += seen.n != (i < CALLS);
		most = looked > most ? looked : most;
	}
	is_int(wrong, 0, "of %d calls that wait each finds its own message", CALLS);
	ok(most <= 2 * CALLS / CALL_SLOTS, "at most %d of %d are looked at", most, CALLS);
	end(m);
}

/* A call of many messages is one entry for all other calls. */
static void test_many_messages(void)
{
	struct match *m = begin();
	int most = 0, looked;

	for (int i = 0; i < MANY; i++)
		arrive(m, 1, tag_of(0, 0, i));
	for (int i = 1; i < CALLS; i++) {
		looked = look(m, tag_of(0, i, 0));
		most = looked > most ? looked : most;
	}
	is_int(most, 1, "beside a call of %d messages another call looks at one", MANY);
	is_int(look(m, tag_of(0, 0, 7)), MANY, "a call of %d messages looks at these", MANY);
	ok(seen.n == MANY && !seen.disorder, "in their order");
	end(m);
}

/* Messages come and go at random, in few calls that share slots; match_each finds the same. */
static void test_random(void)
{
	struct match *m = begin();
	unsigned state = 1;
	int wrong = 0, found = 0;

	for (int i = 0; i < STEPS; i++) {
		uint64_t communicator, tag, sum;
		int n;

		state = state * 1103515245u + 12345u;
		communicator = (state >> 8) % 1024; /* more calls than slots */
		tag = tag_of(communicator, (int)(state >> 20) % FEW_CALLS,
			     (int)(state >> 24) % FEW_MESSAGES);
		if (state >> 31)
			arrive(m, (state >> 28) & 3, tag);
		else
			leave(m, tag);
		look(m, tag);
		n = seen.n;
		sum = seen.sum;
		memset(&seen, 0, sizeof(seen));
		match_each(m, ~(uint64_t)0 << CALL_TAG_SHIFT,
			   tag >> CALL_TAG_SHIFT << CALL_TAG_SHIFT, see, NULL);
		wrong += n != seen.n || sum != seen.sum;
		found += n > 1;
	}
	ok(!wrong && found, "%d random steps: the same messages as a walk over all", STEPS);
	end(m);
}

int main(void)
{
	test_behind();
	test_held();
	test_many_messages();
	test_random();
	return done_testing();
}
