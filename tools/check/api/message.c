/* SPDX-License-Identifier: BSD-3-Clause */
/* message.c - send and receive: sizes, tags, order, any source, to oneself, outside the order. */
#include "check/api/api.h"
#include <string.h>

static unsigned char message_byte(int32_t rank, size_t i)
{
	return (unsigned char)((size_t)rank * 31 + i * 7 + (i >> 8) * 13);
}

static void message_fill(unsigned char *x, int32_t rank, size_t n)
{
	for (size_t i = 0; i < n; i++)
		x[i] = message_byte(rank, i);
}

static int message_verify(struct api_rank *r, const unsigned char *x, int32_t from, size_t n)
{
	for (size_t i = 0; i < n; i++)
		if (x[i] != message_byte(from, i))
			return api_fail(r, "byte %zu of a message of %zu from rank %d is wrong", i,
					n, from);
	return 1;
}

static int message_send(struct api_rank *r, const void *x, size_t n, int32_t peer, uint32_t tag)
{
	return api_did(r, coll_send(x, n, COLL_UINT8, peer, tag, r->comm, NULL), "coll_send");
}

static int message_recv(struct api_rank *r, void *x, size_t n, int32_t peer, uint32_t tag)
{
	return api_did(r, coll_recv(x, n, COLL_UINT8, peer, tag, r->comm, NULL), "coll_recv");
}

static int message_sync(struct api_rank *r)
{
	return api_did(r, coll_sync(r->comm), "coll_sync");
}

static int message_group_sync(struct api_rank *r)
{
	return api_did(r, coll_group_end(), "coll_group_end") && message_sync(r);
}

/* ------------------------------------------------------------------- exchange -- */

/* Each rank sends to the right and receives from the left; a rank also sends to itself. */
static void message_ring(struct api_rank *r)
{
	static const size_t sizes[] = {0, 1, 7, 1000, 65537, (1 << 20) + 3, (4 << 20) + 3};
	int32_t right = (r->rank + 1) % r->nranks, left = (r->rank + r->nranks - 1) % r->nranks;
	int last = r->c->quick ? 5 : 7, good = 1;
	unsigned char *x = api_buffer(r, sizes[last - 1]), *y = api_buffer(r, sizes[last - 1] + 1);

	for (int i = 0; i < last && good; i++) {
		message_fill(x, r->rank, sizes[i]);
		y[sizes[i]] = 0xa5;
		coll_group_start();
		good = message_send(r, x, sizes[i], right, 7) &&
		       message_recv(r, y, sizes[i], left, 7) && message_group_sync(r) &&
		       message_verify(r, y, left, sizes[i]);
		if (good && y[sizes[i]] != 0xa5)
			good = api_fail(r, "the byte after a message of %zu was written", sizes[i]);
	}
}

/* The calls are not in a group, so of each pair the lower rank sends first. */
static void message_ping_pong(struct api_rank *r)
{
	int32_t peer = r->rank ^ 1;
	enum { N = 1000 };
	unsigned char *x = api_buffer(r, N), *y = api_buffer(r, N);
	int good = 1;

	message_fill(x, r->rank, N);
	for (int round = 0; round < 100 && good && peer < r->nranks; round++) {
		memset(y, 0, N);
		if (r->rank < peer)
			good = message_send(r, x, N, peer, 1) && message_recv(r, y, N, peer, 2);
		else
			good = message_recv(r, y, N, peer, 1) && message_send(r, x, N, peer, 2);
		good = good && message_sync(r) && message_verify(r, y, peer, N);
	}
}

static void message_self(struct api_rank *r)
{
	static const size_t sizes[] = {0, 1, 5000, 300001};
	unsigned char *x = api_buffer(r, sizes[3]), *y = api_buffer(r, sizes[3]);
	int good = 1;

	for (int i = 0; i < 4 && good; i++) {
		message_fill(x, r->rank, sizes[i]);
		memset(y, 0, sizes[i]);
		coll_group_start();
		good = message_send(r, x, sizes[i], r->rank, 3) &&
		       message_recv(r, y, sizes[i], r->rank, 3) && message_group_sync(r) &&
		       message_verify(r, y, r->rank, sizes[i]);
	}
}

/* Every rank sends to every rank in one group, together with a collective. */
static void message_all_pairs(struct api_rank *r)
{
	int32_t *out = api_buffer(r, CHECK_RANKS * sizeof(*out));
	int32_t *in = api_buffer(r, CHECK_RANKS * sizeof(*in)), *sum = api_buffer(r, sizeof(*sum));
	int good = 1;

	*sum = r->rank;
	coll_group_start();
	for (int32_t p = 0; p < r->nranks && good; p++) {
		out[p] = r->rank * 100 + p;
		good = message_recv(r, &in[p], sizeof(in[p]), p, 0) &&
		       message_send(r, &out[p], sizeof(out[p]), p, 0);
	}
	good = good && api_did(r, coll_allreduce(sum, sum, 1, COLL_INT32, COLL_SUM, r->comm, NULL),
			       "coll_allreduce");
	if (!message_group_sync(r) || !good)
		return;
	for (int32_t p = 0; p < r->nranks; p++)
		if (in[p] != p * 100 + r->rank)
			api_fail(r, "from rank %d came %d", p, in[p]);
	if (*sum != r->nranks * (r->nranks - 1) / 2)
		api_fail(r, "the sum beside the messages is %d", *sum);
}

/* --------------------------------------------------------------- tags and order -- */

/*
 * Tags choose the message, and messages of one tag stay in order; the receiver takes the tags in
 * another order.
 */
static void message_tags(struct api_rank *r)
{
	enum { TAGS = 5, EACH = 8 };
	static const uint32_t tags[TAGS] = {0, 1, 0x7fffffff, 0x80000000, 0xffffffff};
	int32_t(*out)[EACH] = api_buffer(r, TAGS * sizeof(*out));
	int32_t(*in)[EACH] = api_buffer(r, TAGS * sizeof(*in)), peer = r->rank ^ 1;
	int good = 1;

	if (peer >= r->nranks)
		return;
	coll_group_start();
	for (int k = 0; k < EACH; k++)
		for (int t = 0; t < TAGS && good; t++) {
			out[t][k] = r->rank * 1000 + t * 10 + k;
			good = message_send(r, &out[t][k], sizeof(int32_t), peer, tags[t]);
		}
	for (int t = TAGS - 1; t >= 0; t--)
		for (int k = 0; k < EACH && good; k++)
			good = message_recv(r, &in[t][k], sizeof(int32_t), peer, tags[t]);
	if (!message_group_sync(r) || !good)
		return;
	for (int t = 0; t < TAGS; t++)
		for (int k = 0; k < EACH; k++)
			if (in[t][k] != peer * 1000 + t * 10 + k)
				api_fail(r, "message %d of tag %#x is %d, expected %d", k, tags[t],
					 in[t][k], peer * 1000 + t * 10 + k);
}

/* A short message may overtake a long message of another tag, but none of its own tag. */
static void message_order(struct api_rank *r)
{
	enum { N = 64, LONG = 70001 };
	static const size_t sizes[4] = {1, LONG, 0, 300};
	int32_t right = (r->rank + 1) % r->nranks, left = (r->rank + r->nranks - 1) % r->nranks;
	unsigned char *x = api_buffer(r, LONG), *y = api_buffer(r, (size_t)N * LONG);
	int good = 1;

	message_fill(x, r->rank, LONG);
	coll_group_start();
	for (int i = 0; i < N && good; i++)
		good = message_send(r, x + i % 4 * 5, sizes[i % 4] - (i % 4 == 1 ? 5 : 0), right,
				    9);
	for (int i = 0; i < N && good; i++)
		good = message_recv(r, y + (size_t)i * LONG, sizes[i % 4] - (i % 4 == 1 ? 5 : 0),
				    left, 9);
	good = message_group_sync(r) && good;
	for (int i = 0; i < N && good; i++)
		for (size_t k = 0; k < sizes[i % 4] - (i % 4 == 1 ? 5 : 0) && good; k++)
			if (y[(size_t)i * LONG + k] != message_byte(left, k + (size_t)(i % 4) * 5))
				good = api_fail(r, "byte %zu of message %d is wrong", k, i);
}

/* Rank 0 receives from any source; each sender's messages stay in order. */
static void message_any_source(struct api_rank *r)
{
	enum { EACH = 20 };
	int32_t *x = api_buffer(r, sizeof(*x)), next[CHECK_RANKS] = {0};

	for (int i = 0; i < EACH && r->rank; i++) {
		*x = r->rank * 1000 + i;
		if (!message_send(r, x, sizeof(*x), 0, 5) || !message_sync(r))
			return;
	}
	for (int i = 0; i < EACH * (r->nranks - 1) && !r->rank; i++) {
		*x = -1;
		if (!message_recv(r, x, sizeof(*x), COLL_ANY_SOURCE, 5) || !message_sync(r))
			return;
		if (*x < 0 || *x / 1000 >= r->nranks || *x % 1000 != next[*x / 1000]++) {
			api_fail(r, "message %d from any source is %d", i, *x);
			return;
		}
	}
}

/* ----------------------------------------------------- outside the order of the operations -- */

static int message_is_over(struct api_rank *r, coll_request_t request)
{
	const int good = api_did(r, coll_wait(request), "coll_wait");

	coll_request_free(request);
	return good;
}

/* Every rank posts its receive, then calls a collective, and only then sends. */
static void message_outside(struct api_rank *r)
{
	static const size_t sizes[] = {0, 1, 1000, 70001, (1 << 20) + 3};
	int32_t right = (r->rank + 1) % r->nranks, left = (r->rank + r->nranks - 1) % r->nranks;
	int last = r->c->quick ? 4 : 5, good = 1;
	unsigned char *x = api_buffer(r, sizes[last - 1]), *y = api_buffer(r, sizes[last - 1]);
	coll_request_t in, out;

	for (int i = 0; i < last && good; i++) {
		in = out = NULL;
		message_fill(x, r->rank, sizes[i]);
		good = api_did(r, coll_irecv(y, sizes[i], COLL_UINT8, left, i, r->comm, &in),
			       "coll_irecv") &&
		       api_did(r, coll_barrier(r->comm), "coll_barrier") &&
		       api_did(r, coll_isend(x, sizes[i], COLL_UINT8, right, i, r->comm, &out),
			       "coll_isend");
		good = good && message_is_over(r, in) && message_is_over(r, out) &&
		       message_verify(r, y, left, sizes[i]);
	}
}

/* Rank 0 takes messages of all lengths by probe, without knowing source, tag or length. */
static void message_any(struct api_rank *r)
{
	enum { EACH = 12, LONG = 70001 };
	unsigned char *x = api_buffer(r, LONG);
	coll_status_t s = {.size = sizeof(s)};
	coll_request_t request;
	int32_t next[CHECK_RANKS] = {0};
	int good = 1;

	message_fill(x, r->rank, LONG);
	for (int i = 0; i < EACH && r->rank && good; i++)
		good = api_did(r,
			       coll_isend(x, i % 3 ? (size_t)i : LONG, COLL_UINT8, 0, i, r->comm,
					  &request),
			       "coll_isend") &&
		       message_is_over(r, request);
	for (int i = 0; i < EACH * (r->nranks - 1) && !r->rank && good; i++) {
		good = api_did(r, coll_probe(COLL_ANY_SOURCE, COLL_ANY_TAG, r->comm, &s),
			       "coll_probe") &&
		       api_did(r,
			       coll_irecv(x, LONG, COLL_UINT8, s.source, s.tag, r->comm, &request),
			       "coll_irecv") &&
		       message_is_over(r, request) &&
		       message_verify(r, x, s.source, (size_t)s.bytes);
		if (good &&
		    (s.tag != next[s.source] || s.bytes != (s.tag % 3 ? (uint64_t)s.tag : LONG)))
			good = api_fail(r, "of rank %d came %llu bytes of tag %d, expected tag %d",
					s.source, (unsigned long long)s.bytes, s.tag,
					next[s.source]);
		if (good)
			next[s.source]++;
	}
}

/* ------------------------------------------------------------------ the table -- */

static const struct api_plan message_ring_plan = {.rank = message_ring};
static const struct api_plan message_ping_pong_plan = {.rank = message_ping_pong};
static const struct api_plan message_self_plan = {.rank = message_self};
static const struct api_plan message_all_pairs_plan = {.rank = message_all_pairs};
static const struct api_plan message_tags_plan = {.rank = message_tags};
static const struct api_plan message_order_plan = {.rank = message_order};
static const struct api_plan message_any_source_plan = {.rank = message_any_source};
static const struct api_plan message_outside_plan = {.rank = message_outside};
static const struct api_plan message_any_plan = {.rank = message_any};

const struct check check_api_message[] = {
	{"message-ring", "messages of 0 bytes to 4 MiB are exchanged in a group, one beside each",
	 "coll.h, coll_send", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &message_ring_plan},
	{"message-ping-pong", "send and receive run in the order of issue", "coll.h, Order",
	 CHECK_API, .ways = CHECK_EITHER, .ranks_min = 2, .run = api_run,
	 .plan = &message_ping_pong_plan},
	{"message-self", "a rank sends to itself", "coll.h, coll_send", CHECK_API,
	 .ways = CHECK_EITHER, .run = api_run, .plan = &message_self_plan},
	{"message-all-pairs", "all ranks send to all ranks beside a collective",
	 "coll.h, coll_group_start", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &message_all_pairs_plan},
	{"message-tags", "tags up to 0xffffffff choose the message", "coll.h, coll_send", CHECK_API,
	 .ways = CHECK_EITHER, .needs = CHECK_TRANSPORT | CHECK_CARRIED, .ranks_min = 2,
	 .run = api_run, .plan = &message_tags_plan},
	{"message-order", "messages of one tag stay in order, whatever their size",
	 "coll.h, coll_send", CHECK_API, .ways = CHECK_EITHER, .run = api_run,
	 .plan = &message_order_plan},
	{"message-any-source", "a receive from any source takes the first message that comes",
	 "coll.h, coll_recv", CHECK_API, .ways = CHECK_EITHER,
	 .needs = CHECK_TRANSPORT | CHECK_CARRIED, .ranks_min = 2, .run = api_run,
	 .plan = &message_any_source_plan},
	{"message-outside",
	 "a message outside the order may be received before a collective and sent after",
	 "coll.h, coll_isend", CHECK_API, .ways = CHECK_EITHER,
	 .needs = CHECK_TRANSPORT | CHECK_CARRIED, .run = api_run, .plan = &message_outside_plan},
	{"message-any", "messages outside the order of any source, tag and length come in order",
	 "coll.h, coll_probe", CHECK_API, .ways = CHECK_EITHER,
	 .needs = CHECK_TRANSPORT | CHECK_CARRIED, .ranks_min = 2, .run = api_run,
	 .plan = &message_any_plan},
	{.name = NULL},
};
