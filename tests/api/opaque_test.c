/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * opaque_test.c - elements of any number of bytes: every collective of several sizes against the oracle, with
 * operations of the application; messages; and ranks that name different sizes.
 */
#include "../lib/calls.h"

enum { SIZES = 8 };
static const size_t sizes[SIZES] = {1, 3, 8, 16, 17, 24, 1000, COLL_OPAQUE_SIZE_MAX};

static coll_op_t op_bytes, op_ends;

/* Adds the bytes, which wrap around.  A wrong type or alignment spoils the sum. */
static void add_bytes(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	const size_t size = coll_dtype_size(dtype);
	const unsigned char *x = left;
	unsigned char *y = inout;
	const int good = size && dtype == coll_dtype_opaque(size) &&
			 !(((uintptr_t)left | (uintptr_t)inout) % 16);

	(void)user;
	for (size_t i = 0; i < count * size; i++)
		y[i] = (unsigned char)(good ? y[i] + x[i] : 0);
}

/* Does not commute: the first half of each element comes from the left, the second from the right. */
static void both_ends(void *user, const void *left, void *inout, size_t count, coll_dtype_t dtype)
{
	const size_t size = coll_dtype_size(dtype);

	(void)user;
	for (size_t i = 0; i < count; i++)
		memcpy((char *)inout + i * size, (const char *)left + i * size, size / 2);
}

/* ---------------------------------------------------------------- collectives -- */

static int every_place(struct rank *r, struct oracle_case *c)
{
	for (int i = 0; i < 4; i++) {
		c->place = i % 3;
		c->gaps = i / 2;
		c->root = i % r->nranks;
		if (!calls_try(r, c))
			return 0;
	}
	return 1;
}

static void sweep(struct rank *r)
{
	static const size_t counts[] = {1, 13, 501};

	for (int k = 0; k < ORACLE_KINDS; k++)
		for (int s = 0; s < SIZES; s++)
			for (int i = 0; i < 3; i++) {
				struct oracle_case c = {.kind = oracle_kinds[k],
							.dtype = coll_dtype_opaque(sizes[s]),
							.op = COLL_SUM,
							.own_op = op_bytes,
							.count = counts[i]};

				if (sizes[s] * counts[i] > 1 << 17 || (i && sizes[s] > 17 && k > 9))
					continue; /* time */
				if (!every_place(r, &c))
					return;
			}
}

/* The first half is that of rank 0, the second that of the last rank. */
static int is_ordered(struct rank *r, size_t size, size_t count)
{
	unsigned char *x = calls_memory(size * count), *y = calls_memory(size * count);
	int good;

	for (size_t i = 0; i < size * count; i++)
		x[i] = (unsigned char)(31 * i + (unsigned)r->rank);
	good = rank_did(
		       r,
		       coll_allreduce(x, y, count, coll_dtype_opaque(size), op_ends, r->comm, NULL),
		       "allreduce") &&
	       rank_did(r, coll_sync(r->comm), "sync");
	for (size_t i = 0; good && i < size * count; i++) {
		const int from = i % size < size / 2 ? 0 : r->nranks - 1;

		if (y[i] != (unsigned char)(31 * i + (unsigned)from))
			good = rank_fail(r, "opaque%zu: byte %zu is not of rank %d", size, i, from);
	}
	free(x);
	free(y);
	return good;
}

static void ordered(struct rank *r)
{
	for (int s = 0; s < SIZES; s++)
		if (!is_ordered(r, sizes[s], 1) || !is_ordered(r, sizes[s], 300))
			return;
}

/* ------------------------------------------------------------------- messages -- */

static void exchange(struct rank *r)
{
	const int next = (r->rank + 1) % r->nranks, before = (r->rank + r->nranks - 1) % r->nranks;
	const coll_dtype_t triple = coll_dtype_opaque(12);
	float x[9] = {(float)r->rank}, y[9] = {0}, z[12] = {0};
	coll_request_t out = NULL, in = NULL;
	coll_status_t status = {.size = sizeof(status)};

	if (!rank_did(r, coll_group_start(), "group_start") ||
	    !rank_did(r, coll_send(x, 3, triple, next, 5, r->comm, NULL), "send") ||
	    !rank_did(r, coll_recv(y, 3, triple, before, 5, r->comm, NULL), "recv") ||
	    !rank_did(r, coll_group_end(), "group_end") ||
	    !rank_did(r, coll_sync(r->comm), "sync") ||
	    !rank_did(r, coll_irecv(z, 4, triple, COLL_ANY_SOURCE, 6, r->comm, &in), "irecv") ||
	    !rank_did(r, coll_isend(x, 3, triple, next, 6, r->comm, &out), "isend") ||
	    !rank_did(r, coll_wait(in), "wait") || !rank_did(r, coll_wait(out), "wait") ||
	    !rank_did(r, coll_request_get_status(in, &status), "get_status"))
		return;
	coll_request_free(in);
	coll_request_free(out);
	if (y[0] != (float)before || z[0] != (float)before)
		rank_fail(r, "received %g and %g, not %d", (double)y[0], (double)z[0], before);
	if (status.dtype != triple || status.bytes != 36 || status.source != before)
		rank_fail(r, "the status: type %d, %d bytes", status.dtype, (int)status.bytes);
}

/* Does the rank's text name both? */
static void names(struct rank *r, int code, const char *one, const char *other)
{
	const char *text = coll_get_last_error(NULL);

	if (code != COLL_ERR_MISMATCH || !strstr(text, one) || !strstr(text, other))
		rank_fail(r, "%d: %s", code, text);
}

static int waited(struct rank *r, int code)
{
	return code ? code : coll_sync(r->comm);
}

static void differs_reducing(struct rank *r)
{
	const coll_dtype_t dtype = coll_dtype_opaque(r->rank ? 24 : 32);
	char x[96] = {0}; /* of equal lengths */

	names(r, waited(r, coll_allreduce(x, x, r->rank ? 4 : 3, dtype, op_bytes, r->comm, NULL)),
	      "allreduce of 3 opaque32 (an operation of the application",
	      "allreduce of 4 opaque24 (");
}

static void differs_gathering(struct rank *r)
{
	char x[96] = {0}, y[192];

	names(r,
	      waited(r,
		     coll_allgather(x, y, 3, coll_dtype_opaque(r->rank ? 24 : 32), r->comm, NULL)),
	      "allgather of 3 opaque32", "allgather of 3 opaque24");
}

/* One rank has an opaque type and the other not. */
static void differs_in_kind(struct rank *r)
{
	char x[96] = {0}, y[192];

	names(r,
	      waited(r, coll_allgather(x, y, 4, r->rank ? COLL_FLOAT64 : coll_dtype_opaque(8),
				       r->comm, NULL)),
	      "allgather of 4 opaque8", "allgather of 4 float64");
}

static void differs_sending(struct rank *r)
{
	char x[96] = {0};

	if (r->rank)
		rank_did(r, coll_send(x, 3, coll_dtype_opaque(32), 0, 1, r->comm, NULL), "send");
	else
		names(r, waited(r, coll_recv(x, 4, coll_dtype_opaque(24), 1, 1, r->comm, NULL)),
		      "send of 3 opaque32", "recv for a send of 4 opaque24");
}

/* The communicator lives. */
static void differs_loose(struct rank *r)
{
	coll_request_t request = NULL;
	char x[96] = {0};

	if (r->rank)
		rank_did(r, coll_isend(x, 3, coll_dtype_opaque(32), 0, 1, r->comm, &request),
			 "isend");
	else
		rank_did(r, coll_irecv(x, 4, coll_dtype_opaque(24), 1, 1, r->comm, &request),
			 "irecv");
	if (r->rank)
		rank_did(r, coll_wait(request), "wait");
	else
		names(r, coll_wait(request), "coll_irecv of 4 opaque24", "rank 1 sent opaque32");
	coll_request_free(request);
	sums_to(r, r->comm, 1, 2, "afterwards");
}

/* ------------------------------------------------------------------ arguments -- */

static void refused(struct rank *r)
{
	const coll_dtype_t dtype = coll_dtype_opaque(24);
	double x[3] = {0};
	coll_op_t op;

	if (coll_allreduce(x, x, 1, dtype, COLL_SUM, r->comm, NULL) != COLL_ERR_INVALID_ARGUMENT ||
	    !strstr(coll_get_last_error(NULL), "op 0 (sum) is not an operation on opaque24: opaque "
					       "elements need a function of "
					       "the application, see coll_red_op_create_user"))
		rank_fail(r, "a sum: %s", coll_get_last_error(NULL));
	if (coll_red_op_create_pre_mul_sum(&op, x, dtype, COLL_SCALAR_HOST_IMMEDIATE, r->comm) !=
	    COLL_ERR_INVALID_ARGUMENT)
		rank_fail(r, "a scaled sum is made");
	for (int i = 0; i < 2; i++)
		if (coll_broadcast(x, x, 1, i ? COLL_OPAQUE : COLL_OPAQUE + 4097, 0, r->comm,
				   NULL) != COLL_ERR_INVALID_ARGUMENT ||
		    !strstr(coll_get_last_error(NULL), "is not a data type"))
			rank_fail(r, "no size: %s", coll_get_last_error(NULL));
	sums_to(r, r->comm, 1, r->nranks, "afterwards");
}

static void test_types(void)
{
	unsigned char x[5] = {1, 2, 3, 4, 5}, y[5] = {10, 20, 30, 40, 250};

	is_int(coll_dtype_opaque(0), COLL_DTYPE_NONE, "no bytes are no type");
	is_int(coll_dtype_opaque(4097), COLL_DTYPE_NONE, "nor are too many");
	is_int(coll_dtype_opaque(SIZE_MAX), COLL_DTYPE_NONE, "nor very many");
	is_int(coll_dtype_opaque(24), COLL_OPAQUE + 24, "the number of a type");
	is_int((int64_t)coll_dtype_size(coll_dtype_opaque(4096)), 4096, "its size");
	is_int((int64_t)coll_dtype_size(COLL_OPAQUE), 0, "the number before them is no type");
	is_int((int64_t)coll_dtype_size(COLL_OPAQUE + 4097), 0, "nor the number behind them");
	is_str(coll_dtype_name(coll_dtype_opaque(1)), "opaque1", "the name of the smallest");
	is_str(coll_dtype_name(coll_dtype_opaque(4096)), "opaque4096", "of the largest");
	is_str(coll_dtype_name(COLL_OPAQUE + 4097), "?", "of none");
	is_int(coll_reduce_local(x, y, 1, coll_dtype_opaque(5), op_bytes, NULL), 0,
	       "without ranks");
	ok(y[0] == 11 && y[4] == 255, "the result");
	is_int(coll_reduce_local(x, y, 1, coll_dtype_opaque(5), COLL_BXOR, NULL),
	       COLL_ERR_INVALID_ARGUMENT, "a built-in operation without ranks");
}

static void test_backend(const char *backend, int processes, int nranks)
{
	void (*const two[])(struct rank * r) = {differs_reducing, differs_gathering,
						differs_in_kind, differs_sending, differs_loose};

	ranks_ok(&(struct ranks_job){backend, nranks, processes, sweep, NULL},
		 "every collective of opaque elements");
	ranks_ok(&(struct ranks_job){backend, nranks, processes, ordered, NULL},
		 "in the order of the ranks");
	ranks_ok(&(struct ranks_job){backend, nranks, processes, exchange, NULL}, "messages");
	ranks_ok(&(struct ranks_job){backend, nranks, processes, refused, NULL},
		 "what there is not");
	for (int i = 0; i < 5; i++)
		ranks_ok(&(struct ranks_job){backend, 2, processes, two[i], NULL},
			 "ranks that name different types, %d", i);
}

int main(void)
{
	is_int(coll_red_op_create_user(&op_bytes, add_bytes, NULL, 1, NULL), 0, "made");
	is_int(coll_red_op_create_user(&op_ends, both_ends, NULL, 0, NULL), 0, "another");
	test_types();
	setenv("COLL_SEGMENT", "4K", 1);
	test_backend("simulated", 0, 3);
	test_backend("tcp", 1, 4);
	if (ranks_can("ucx"))
		test_backend("ucx", 1, 3);
	setenv("COLL_REPRODUCIBLE", "yes", 1);
	setenv("COLL_TCP_RING", "0", 1);
	setenv("COLL_SEGMENT", "1M", 1);
	ranks_ok(&(struct ranks_job){"tcp", 3, 1, sweep, NULL}, "reproducible, over sockets");
	return done_testing();
}
