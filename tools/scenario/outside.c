/* SPDX-License-Identifier: BSD-3-Clause */
/* outside.c - messages outside the order of the operations: coll_isend, coll_irecv, coll_probe. */
#include "scenario/scenario.h"

static int outside_ends(struct scenario_rank *r, coll_request_t request)
{
	const int good = scenario_did(r, coll_wait(request), "coll_wait");

	return scenario_did(r, coll_request_free(request), "coll_request_free") && good;
}

static coll_request_t outside_send(struct scenario_rank *r, const void *x, size_t n, int32_t peer,
				   int32_t tag)
{
	coll_request_t request = NULL;

	scenario_did(r, coll_isend(x, n, COLL_UINT8, peer, tag, r->comm, &request), "coll_isend");
	return request;
}

static coll_request_t outside_recv(struct scenario_rank *r, void *x, size_t n, int32_t peer,
				   int32_t tag)
{
	coll_request_t request = NULL;

	scenario_did(r, coll_irecv(x, n, COLL_UINT8, peer, tag, r->comm, &request), "coll_irecv");
	return request;
}

void scenario_outside(struct scenario_rank *r)
{
	static const size_t sizes[] = {0, 1, 1000, 70001, (1 << 20) + 3};
	int32_t right = (r->rank + 1) % r->nranks, left = (r->rank + r->nranks - 1) % r->nranks;
	unsigned char *x = scenario_buffer(r, r->longest), *y = scenario_buffer(r, r->longest + 1);
	coll_request_t in, out = NULL;
	int good = 1;

	for (int i = 0; i < 10 && good && sizes[i / 2] <= r->longest; i++) {
		const size_t n = sizes[i / 2];

		scenario_bytes_set(r, x, r->rank, 0, n);
		scenario_bytes_mark(r, y, n + 1);
		in = outside_recv(r, y, n, left, i);
		if (i % 2)
			good = scenario_did(r, coll_barrier(r->comm), "coll_barrier");
		if (in && good)
			out = outside_send(r, x, n, right, i);
		good = in && out && outside_ends(r, in) && outside_ends(r, out) &&
		       scenario_bytes_are(r, y, left, 0, n) && scenario_bytes_marked(r, y + n, 1);
	}
}

/* ----------------------------------------------------------- any source and tag -- */

enum { ANY_EACH = 12, ANY_LONG = 70001 };

/* Returns the length of the message with this tag. */
static size_t any_length(int32_t tag)
{
	return tag % 3 ? (size_t)tag : ANY_LONG;
}

/* Receives message number i and its status. */
static int any_take(struct scenario_rank *r, unsigned char *x, int i, coll_status_t *s)
{
	coll_request_t request;
	int good;

	scenario_bytes_mark(r, x, ANY_LONG + 1);
	if (i % 2 &&
	    !scenario_did(r, coll_probe(COLL_ANY_SOURCE, COLL_ANY_TAG, r->comm, s), "coll_probe"))
		return 0;
	request = outside_recv(r, x, ANY_LONG, i % 2 ? s->source : COLL_ANY_SOURCE,
			       i % 2 ? s->tag : COLL_ANY_TAG);
	if (!request)
		return 0;
	good = scenario_did(r, coll_wait(request), "coll_wait") &&
	       scenario_did(r, coll_request_get_status(request, s), "coll_request_get_status");
	return scenario_did(r, coll_request_free(request), "coll_request_free") && good;
}

void scenario_any(struct scenario_rank *r)
{
	unsigned char *x = scenario_buffer(r, ANY_LONG + 1);
	coll_status_t s = {.size = sizeof(s)};
	coll_request_t request;
	int32_t next[SCENARIO_RANKS] = {0};
	int good = 1;

	scenario_bytes_set(r, x, r->rank, 0, ANY_LONG);
	for (int i = 0; i < ANY_EACH && r->rank && good; i++) {
		request = outside_send(r, x, any_length(i), 0, i);
		good = request && outside_ends(r, request);
	}
	for (int i = 0; i < ANY_EACH * (r->nranks - 1) && !r->rank && good; i++) {
		good = any_take(r, x, i, &s);
		if (good &&
		    (s.source < 1 || s.source >= r->nranks || s.error || s.tag != next[s.source] ||
		     s.dtype != COLL_UINT8 || s.bytes != any_length(s.tag)))
			good = scenario_fail(r,
					     "message %d: source %d, tag %d, %llu bytes, type %d, "
					     "error %d",
					     i, s.source, s.tag, (unsigned long long)s.bytes,
					     s.dtype, s.error);
		good = good && scenario_bytes_are(r, x, s.source, 0, s.bytes) &&
		       scenario_bytes_marked(r, x + s.bytes, ANY_LONG + 1 - s.bytes);
		if (good)
			next[s.source]++;
	}
}
