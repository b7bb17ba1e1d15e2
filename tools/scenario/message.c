/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c - send and receive in the order of the calls: sizes, tags, order, any source, to oneself. */
#include "scenario/scenario.h"

static int message_send(struct scenario_rank *r, const void *x, size_t n, int32_t peer,
			uint32_t tag)
{
	return scenario_did(r, coll_send(x, n, COLL_UINT8, peer, tag, r->comm, NULL), "coll_send");
}

static int message_recv(struct scenario_rank *r, void *x, size_t n, int32_t peer, uint32_t tag)
{
	return scenario_did(r, coll_recv(x, n, COLL_UINT8, peer, tag, r->comm, NULL), "coll_recv");
}

static int message_group(struct scenario_rank *r)
{
	return scenario_did(r, coll_group_start(), "coll_group_start");
}

/* Sends and receives in a group.  y has n bytes and one more. */
static int message_exchange(struct scenario_rank *r, unsigned char *x, unsigned char *y, size_t n,
			    int32_t to, int32_t from)
{
	scenario_bytes_set(r, x, r->rank, 0, n);
	scenario_bytes_mark(r, y, n + 1);
	return message_group(r) && message_send(r, x, n, to, 7) && message_recv(r, y, n, from, 7) &&
	       scenario_group_sync(r) && scenario_bytes_are(r, y, from, 0, n) &&
	       scenario_bytes_marked(r, y + n, 1);
}

void scenario_ring(struct scenario_rank *r)
{
	static const size_t sizes[] = {
		0, 1, 7, 1000, 65537, 300000, (1 << 20) + 3, (4 << 20) + 3, (17 << 20) + 3};
	int32_t right = (r->rank + 1) % r->nranks, left = (r->rank + r->nranks - 1) % r->nranks;
	unsigned char *x = scenario_buffer(r, r->longest), *y = scenario_buffer(r, r->longest + 1);

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]) && sizes[i] <= r->longest; i++)
		if (!message_exchange(r, x, y, sizes[i], right, left))
			return;
}

void scenario_self(struct scenario_rank *r)
{
	static const size_t sizes[] = {0, 1, 5000, 300001};
	unsigned char *x = scenario_buffer(r, sizes[3]), *y = scenario_buffer(r, sizes[3] + 1);

	for (int i = 0; i < 4; i++)
		if (!message_exchange(r, x, y, sizes[i], r->rank, r->rank))
			return;
}

void scenario_ping_pong(struct scenario_rank *r)
{
	enum { ROUNDS = 200, SHORT = 1000, LONG = 16384 };
	int32_t peer = r->rank ^ 1;
	unsigned char *x = scenario_buffer(r, LONG), *y = scenario_buffer(r, LONG);
	int good = 1;

	scenario_bytes_set(r, x, r->rank, 0, LONG);
	for (int round = 0; round < ROUNDS && good && peer < r->nranks; round++) {
		size_t n = round % 10 ? SHORT : LONG;

		scenario_bytes_mark(r, y, LONG);
		if (r->rank < peer)
			good = message_send(r, x, n, peer, 1) && message_recv(r, y, n, peer, 2);
		else
			good = message_recv(r, y, n, peer, 1) && message_send(r, x, n, peer, 2);
		good = good && scenario_sync(r) && scenario_bytes_are(r, y, peer, 0, n) &&
		       scenario_bytes_marked(r, y + n, LONG - n);
	}
}

/* -------------------------------------------------------------------- all pairs -- */

void scenario_all_pairs(struct scenario_rank *r)
{
	int32_t *out = scenario_buffer(r, SCENARIO_RANKS * sizeof(*out));
	int32_t *in = scenario_buffer(r, SCENARIO_RANKS * sizeof(*in));
	int32_t *sum = scenario_buffer(r, sizeof(*sum)), came;
	int good = message_group(r);

	scenario_set(r, sum, r->rank);
	for (int32_t p = 0; p < r->nranks && good; p++) {
		scenario_set(r, &out[p], r->rank * 100 + p);
		good = message_recv(r, &in[p], sizeof(in[p]), p, 0) &&
		       message_send(r, &out[p], sizeof(out[p]), p, 0);
	}
	good = good && scenario_sum(r, r->comm, sum);
	if (!scenario_group_sync(r) || !good)
		return;
	for (int32_t p = 0; p < r->nranks; p++) {
		came = scenario_get(r, &in[p]);
		if (came != p * 100 + r->rank)
			scenario_fail(r, "from rank %d came %d", p, came);
	}
	came = scenario_get(r, sum);
	if (came != r->nranks * (r->nranks - 1) / 2)
		scenario_fail(r, "the sum beside the messages is %d", came);
}

void scenario_all_pairs_long(struct scenario_rank *r)
{
	enum { LONG = 200003, BEHIND = 64 };
	const size_t bytes = r->longest < LONG ? r->longest : LONG, step = bytes + BEHIND;
	unsigned char *out = scenario_buffer(r, (size_t)r->nranks * step);
	unsigned char *in = scenario_buffer(r, (size_t)r->nranks * step);
	int good = 1;

	for (int32_t p = 0; p < r->nranks; p++)
		scenario_bytes_set(r, out + (size_t)p * step, r->rank, (size_t)p, bytes);
	scenario_bytes_mark(r, in, (size_t)r->nranks * step);
	good = message_group(r);
	for (int32_t p = 0; p < r->nranks && good; p++)
		good = message_send(r, out + (size_t)p * step, bytes, p, 0) &&
		       message_recv(r, in + (size_t)p * step, bytes, p, 0);
	good = scenario_group_sync(r) && good;
	for (int32_t p = 0; p < r->nranks && good; p++)
		good = scenario_bytes_are(r, in + (size_t)p * step, p, (size_t)r->rank, bytes) &&
		       scenario_bytes_marked(r, in + (size_t)p * step + bytes, BEHIND);
}

/* --------------------------------------------------------------- tags and order -- */

void scenario_tags(struct scenario_rank *r)
{
	enum { TAGS = 10, EACH = 8 };
	static const uint32_t tags[TAGS] = {0,          1,          0x7fffffff, 0x80000000,
					    0xfffffff0, 0xfffffff1, 0xfffffff2, 0xfffffff3,
					    0xfffffff4, 0xffffffff};
	int32_t(*out)[EACH] = scenario_buffer(r, TAGS * sizeof(*out));
	int32_t(*in)[EACH] = scenario_buffer(r, TAGS * sizeof(*in)), peer = r->rank ^ 1, came;
	int good = 1;

	if (peer >= r->nranks || !message_group(r))
		return;
	for (int k = 0; k < EACH; k++)
		for (int t = 0; t < TAGS && good; t++) {
			scenario_set(r, &out[t][k], r->rank * 1000 + t * 10 + k);
			good = message_send(r, &out[t][k], sizeof(int32_t), peer, tags[t]);
		}
	for (int t = TAGS - 1; t >= 0; t--)
		for (int k = 0; k < EACH && good; k++)
			good = message_recv(r, &in[t][k], sizeof(int32_t), peer, tags[t]);
	if (!scenario_group_sync(r) || !good)
		return;
	for (int t = 0; t < TAGS; t++)
		for (int k = 0; k < EACH; k++) {
			came = scenario_get(r, &in[t][k]);
			if (came != peer * 1000 + t * 10 + k)
				scenario_fail(r, "message %d of tag %#x is %d, expected %d", k,
					      tags[t], came, peer * 1000 + t * 10 + k);
		}
}

/* A short message may overtake a long message of another tag, but no message of its own tag. */
void scenario_order(struct scenario_rank *r)
{
	enum { N = 64, LONG = 70001 };
	static const size_t sizes[4] = {1, LONG - 5, 0, 300};
	int32_t right = (r->rank + 1) % r->nranks, left = (r->rank + r->nranks - 1) % r->nranks;
	unsigned char *x = scenario_buffer(r, LONG), *y = scenario_buffer(r, (size_t)N * LONG);
	int good = message_group(r);

	scenario_bytes_set(r, x, r->rank, 0, LONG);
	for (int i = 0; i < N && good; i++)
		good = message_send(r, x + i % 4 * 5, sizes[i % 4], right, 9);
	for (int i = 0; i < N && good; i++)
		good = message_recv(r, y + (size_t)i * LONG, sizes[i % 4], left, 9);
	good = scenario_group_sync(r) && good;
	for (int i = 0; i < N && good; i++)
		good = scenario_bytes_are(r, y + (size_t)i * LONG, left, (size_t)(i % 4) * 5,
					  sizes[i % 4]);
}

void scenario_any_source(struct scenario_rank *r)
{
	enum { EACH = 20 };
	int32_t *x = scenario_buffer(r, sizeof(*x)), next[SCENARIO_RANKS] = {0}, came;

	for (int i = 0; i < EACH && r->rank; i++) {
		scenario_set(r, x, r->rank * 1000 + i);
		if (!message_send(r, x, sizeof(*x), 0, 5) || !scenario_sync(r))
			return;
	}
	for (int i = 0; i < EACH * (r->nranks - 1) && !r->rank; i++) {
		scenario_set(r, x, -1);
		if (!message_recv(r, x, sizeof(*x), COLL_ANY_SOURCE, 5) || !scenario_sync(r))
			return;
		came = scenario_get(r, x);
		if (came < 0 || came / 1000 >= r->nranks || came % 1000 != next[came / 1000]++) {
			scenario_fail(r, "message %d from any source is %d", i, came);
			return;
		}
	}
}
