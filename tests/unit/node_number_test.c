/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * node_number_test.c - the ranks of a host form a node, which its lowest rank names, however the ranks are spread;
 * 65,536 ranks cost about 16 times as much as 4,096.
 */
#include "fake_backend.h"

#include <time.h>

enum {
	FEW = 4096,
	MANY = 65536,
	TIMES = 64, /* as long at most; a quadratic cost would be 256 */
	GRANTED_US = 100000,
	TRIALS = 3
};

static int zeros[MANY];

/* Microseconds of processor time. */
static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
	return (double)t.tv_sec * 1e6 + (double)t.tv_nsec * 1e-3;
}

/* A bootstrap of n ranks; rank r is on host host[r]. */
static struct bootstrap *spread(const struct bootstrap *parent, const uint64_t *host, int n)
{
	struct bootstrap *bootstrap;

	if (bootstrap_open_shrunk(&bootstrap, parent, zeros, 0, n, 1))
		bail_out("cannot make a bootstrap: %s", error_text());
	for (int r = 0; r < n; r++) {
		struct bootstrap_peer *peer =
			(struct bootstrap_peer *)(uintptr_t)bootstrap_peer(bootstrap, r);

		memset(peer->process, 0, sizeof(peer->process));
		memcpy(peer->process, &r, sizeof(r));
		peer->thing[0] = host[r];
	}
	return bootstrap;
}

/* A context of these ranks; *us becomes the time that it takes to make and open it. */
static struct context *context_of(const struct rig *rig, const uint64_t *host, int n, double *us)
{
	struct bootstrap *bootstrap = spread(rig->context->bootstrap, host, n);
	struct context *context;
	double begun = now();

	if (context_derive(&context, rig->context, bootstrap) || context_open(context))
		bail_out("cannot make a context: %s", error_text());
	*us = now() - begun;
	return context;
}

/* Compares every node with a search from rank 0 on. */
static void test_spread(const struct rig *rig, const char *how, const uint64_t *host, int n)
{
	double us;
	struct context *context = context_of(rig, host, n, &us);
	int wrong = 0;

	for (int r = 0; r < n; r++) {
		int lowest = 0;

		while (host[lowest] != host[r])
			lowest++;
		wrong += context->node[r] != lowest;
	}
	is_int(wrong, 0, "%d ranks, %s: the lowest rank of a host names its node", n, how);
	context_unref(context, 0);
}

static void test_spreads(const struct rig *rig)
{
	static uint64_t host[FEW];
	unsigned state = 1;

	for (int r = 0; r < FEW; r++)
		host[r] = (uint64_t)r / 8;
	test_spread(rig, "8 neighbours to a host", host, FEW);
	for (int r = 0; r < FEW; r++)
		host[r] = (uint64_t)(r % 100) << 56;
	test_spread(rig, "round robin, hashes that differ in few bits", host, FEW);
	for (int r = 0; r < FEW; r++) {
		state = state * 1103515245u + 12345u;
		host[r] = (state >> 8) % (FEW / 2) * 0x1000000001u;
	}
	test_spread(rig, "at random", host, FEW);
	test_spread(rig, "alone", host, 1);
	test_spread(rig, "three of them", host, 3);
	memset(host, 0, sizeof(host));
	test_spread(rig, "all of one host", host, FEW);
}

/* With the option node_size the hosts do not matter. */
static void test_node_size(struct rig *rig)
{
	static const uint64_t host[12];
	struct context *context;
	int wrong = 0;
	double us;

	rig->context->node_size = 5;
	context = context_of(rig, host, 12, &us);
	for (int r = 0; r < 12; r++)
		wrong += context->node[r] != r / 5 * 5;
	is_int(wrong, 0, "12 ranks, node_size 5: five neighbours form a node");
	context_unref(context, 0);
	rig->context->node_size = 0;
}

/* Every rank is alone on its host: the most hosts that there can be. */
static double alone_us(const struct rig *rig, int n)
{
	static uint64_t host[MANY];
	double us, least = 1e18;

	for (int r = 0; r < n; r++)
		host[r] = (uint64_t)r * 0x2545f4914f6cdd1du;
	for (int i = 0; i < TRIALS; i++) {
		context_unref(context_of(rig, host, n, &us), 0);
		least = us < least ? us : least;
	}
	return least;
}

int main(void)
{
	struct rig *rig = rig_new(fake_transport);
	double few, many;

	test_spreads(rig);
	test_node_size(rig);
	few = alone_us(rig, FEW);
	many = alone_us(rig, MANY);
	ok(many <= TIMES * few + GRANTED_US,
	   "a context of %d ranks on as many hosts: %.0f us, of %d: %.0f us", MANY, many, FEW, few);
	rig_free(rig);
	return done_testing();
}
