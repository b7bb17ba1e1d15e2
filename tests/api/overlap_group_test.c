/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * overlap_group_test.c - with check_buffers = yes a call of a group whose buffers overlap those of another operation of
 * the group returns an error, and the rest of the group runs.
 */
#include "../lib/ranks.h"

enum { NRANKS = 2, PART = 100 };

/* The call must be refused, and the text must have both pieces. */
static void refuse(struct rank *r, coll_result_t code, const char *one, const char *other)
{
	const char *text = coll_get_last_error(NULL);

	if (code != COLL_ERR_INVALID_USAGE)
		rank_fail(r, "code %d for '%s' and '%s'", code, one, other);
	else if (!strstr(text, one) || !strstr(text, other))
		rank_fail(r, "'%s' has not '%s' and '%s'", text, one, other);
}

static void sum(struct rank *r, const int32_t *in, int32_t *out, const char *what)
{
	rank_did(r, coll_allreduce(in, out, PART, COLL_INT32, COLL_SUM, r->comm, NULL), what);
}

static void bad_groups(struct rank *r)
{
	int32_t x[4 * PART], *y = x + PART;

	for (int i = 0; i < 4 * PART; i++)
		x[i] = i;
	rank_did(r, coll_group_start(), "group");
	sum(r, x, y, "the first");
	refuse(r,
	       coll_allreduce(y + PART - 1, y + 2 * PART, 1, COLL_INT32, COLL_SUM, r->comm, NULL),
	       "allreduce, operation 2 of the group: its send buffer overlaps the receive buffer",
	       "of operation 1, allreduce: the operations of a group");
	refuse(r, coll_allreduce(x, x, 1, COLL_INT32, COLL_SUM, r->comm, NULL),
	       "allreduce, operation 3",
	       "its receive buffer overlaps the send buffer of operation 1");
	sum(r, x, y + PART, "one that reads what another reads");
	rank_did(r, coll_group_end(), "group end");
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 0; i < PART; i++)
		if (y[i] != NRANKS * i || y[PART + i] != NRANKS * i)
			rank_fail(r, "element %d is %d and %d", i, y[i], y[PART + i]);
}

/* Blocks with gaps in between, which other operations of the group fill. */
static void gaps(struct rank *r)
{
	const size_t counts[NRANKS] = {1, 1}, even[NRANKS] = {0, 2}, odd[NRANKS] = {1, 3};
	int32_t in[2] = {r->rank, 10 + r->rank}, out[4] = {-1, -1, -1, -1};

	rank_did(r, coll_group_start(), "group");
	rank_did(r, coll_allgatherv(in, 1, out, counts, even, COLL_INT32, r->comm, NULL),
		 "even blocks");
	refuse(r, coll_allgatherv(in + 1, 1, out + 1, counts, odd, COLL_INT32, r->comm, NULL),
	       "allgatherv, operation 2", "overlaps the receive buffer of operation 1");
	rank_did(r, coll_allgatherv(in + 1, 1, out, counts, odd, COLL_INT32, r->comm, NULL),
		 "odd blocks");
	rank_did(r, coll_group_end(), "group end");
	rank_did(r, coll_sync(r->comm), "sync");
	if (out[0] != 0 || out[1] != 10 || out[2] != 1 || out[3] != 11)
		rank_fail(r, "%d %d %d %d", out[0], out[1], out[2], out[3]);
}

/* Outside of groups operations run one after the other, and in place a buffer overlaps itself. */
static void good_calls(struct rank *r)
{
	int32_t x[PART];

	for (int i = 0; i < PART; i++)
		x[i] = i;
	sum(r, x, x, "in place");
	sum(r, x, x, "again");
	rank_did(r, coll_group_start(), "group");
	sum(r, x, x, "in place in a group");
	rank_did(r, coll_group_end(), "group end");
	rank_did(r, coll_group_start(), "group");
	sum(r, x, x, "in the next group");
	rank_did(r, coll_group_end(), "group end");
	rank_did(r, coll_sync(r->comm), "sync");
	for (int i = 0; i < PART; i++)
		if (x[i] != 16 * i)
			rank_fail(r, "element %d is %d", i, x[i]);
	rank_did(r, coll_group_start(), "group");
	for (int i = 0; i < 2; i++)
		rank_did(r, coll_broadcast(x, x + i * r->rank, 1, COLL_INT32, 0, r->comm, NULL),
			 "one root sends the same twice");
	rank_did(r, coll_group_end(), "group end");
	rank_did(r, coll_sync(r->comm), "sync");
}

static void persistent(struct rank *r)
{
	int32_t x[PART] = {0}, y[PART];
	coll_args_t args = {.size = sizeof(args),
			    .kind = COLL_KIND_ALLREDUCE,
			    .dtype = COLL_INT32,
			    .op = COLL_SUM,
			    .sendbuf = x,
			    .recvbuf = y,
			    .count = PART};
	coll_request_t request;

	if (!rank_did(r, coll_request_init(r->comm, &args, &request), "request"))
		return;
	rank_did(r, coll_group_start(), "group");
	sum(r, x, y, "the first");
	refuse(r, coll_request_start(request), "operation 2 of the group", "overlaps the receive");
	rank_did(r, coll_group_end(), "group end");
	rank_did(r, coll_request_start(request), "start");
	rank_did(r, coll_sync(r->comm), "sync");
	rank_did(r, coll_request_free(request), "free");
}

int main(void)
{
	static const char *const backends[] = {"tcp", "simulated", "ucx"};

	setenv("COLL_CHECK_BUFFERS", "yes", 1);
	for (int b = 0; b < 3; b++) {
		if (!ranks_can(backends[b]))
			continue;
		ranks_ok(&(struct ranks_job){backends[b], NRANKS, 0, bad_groups, NULL},
			 "groups that overlap");
		ranks_ok(&(struct ranks_job){backends[b], NRANKS, 0, gaps, NULL}, "gaps");
		ranks_ok(&(struct ranks_job){backends[b], NRANKS, 0, good_calls, NULL},
			 "calls that may share buffers");
		ranks_ok(&(struct ranks_job){backends[b], NRANKS, 0, persistent, NULL},
			 "persistent requests");
	}
	return done_testing();
}
