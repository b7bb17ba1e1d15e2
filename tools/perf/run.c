/* SPDX-License-Identifier: BSD-3-Clause */
/* run.c - one row: verifies the result of a call, then times several calls. */
#include <stdlib.h>
#include <string.h>
#include "perf/perf.h"
#include "lib/tool.h"
#include "oracle/oracle.h"

/* The bytes of a receive buffer before the call; a result that was never written keeps them. */
enum { RUN_UNWRITTEN = 0x5a };

/* Number of elements in a row; longer buffers repeat the row. */
enum { RUN_ROW = 4093 };

/* Describes the data.  The backend may be a vendor's engine, which may divide before it adds. */
static struct oracle_data run_data(const struct perf_case *c)
{
	return (struct oracle_data){.dtype = c->dtype,
				    .op = c->kind->reduces ? c->op : ORACLE_MOVE,
				    .nranks = c->nranks,
				    .first_ranks =
					    c->kind->scans ? c->rank + 2 - c->kind->scans : 0,
				    .near = 1};
}

void perf_set_size(struct perf_case *c, uint64_t bytes)
{
	size_t width = coll_dtype_size(c->dtype);
	size_t parts = c->kind->send_parts || c->kind->recv_parts ? (size_t)c->nranks : 1;

	c->count = c->kind->no_data ? 0 : bytes / width / parts;
	if (c->count == 0 && bytes > 0 && !c->kind->no_data)
		c->count = 1;
	c->size = c->count * width * parts;
	for (int r = 0; r < c->nranks; r++) {
		c->counts[r] = c->count;
		c->displs[r] = (size_t)r * c->count;
	}
}

/* Returns the number of elements in a buffer. */
static size_t run_elements(const struct perf_case *c, int parts)
{
	return parts ? c->count * (size_t)c->nranks : c->count;
}

/* Finds the buffers of a call; in place both are one. */
static void run_place(const struct perf_case *c, const struct perf_buffers *buffers, int in_place,
		      char **send, char **recv)
{
	size_t offset = (size_t)c->rank * c->count * coll_dtype_size(c->dtype);

	*send = buffers->send;
	*recv = buffers->recv;
	if (!in_place)
		return;
	*send = c->kind->recv_parts ? buffers->recv + offset : buffers->recv;
	if (c->kind->send_parts)
		*recv = buffers->recv + offset;
}

static void run_fill(const struct perf_case *c, const struct perf_buffers *b, int in_place,
		     char *send, char *recv, void *row)
{
	size_t width = coll_dtype_size(c->dtype);
	size_t in = run_elements(c, c->kind->send_parts),
	       out = run_elements(c, c->kind->recv_parts);
	const struct oracle_data data = run_data(c);
	char *to = b->staging ? b->staging : recv;

	if (!in_place || c->kind->recv_parts) {
		memset(to, RUN_UNWRITTEN, out * width);
		perf_copy(b, recv, to, out * width);
	}
	to = b->staging ? b->staging : send;
	oracle_input_row(&data, c->rank, RUN_ROW, row);
	oracle_tile(to, row, RUN_ROW, width, 0, in);
	perf_copy(b, send, to, in * width);
}

/* Does this rank receive anything? */
static int run_receives(const struct perf_case *c)
{
	int only_root = c->kind->rooted && (c->kind->reduces || c->kind->recv_parts);

	return !c->kind->no_data && (c->kind->scans != 2 || c->rank) &&
	       (!only_root || c->rank == c->root);
}

/* Returns the rank whose input is in part p of the receive buffer. */
static int run_source(const struct perf_case *c, int p)
{
	if (c->kind->recv_parts)
		return p;
	return c->kind->rooted ? c->root : (c->rank + c->nranks - 1) % c->nranks;
}

static int64_t run_count_wrong(const struct perf_case *c, const struct perf_buffers *b,
			       const char *recv, void *row)
{
	size_t width = coll_dtype_size(c->dtype);
	/*
	 * If the senders have a part for each rank, this rank receives the part that begins here.
	 */
	size_t first = c->kind->send_parts ? (size_t)c->rank * c->count : 0;
	int parts = c->kind->recv_parts ? c->nranks : 1;
	const struct oracle_data data = run_data(c);
	int64_t wrong = 0;

	if (!run_receives(c))
		return 0;
	if (b->staging) {
		perf_copy(b, b->staging, recv, (size_t)parts * c->count * width);
		recv = b->staging;
	}
	for (int p = 0; p < parts; p++) {
		if (c->kind->reduces)
			oracle_result_row(&data, RUN_ROW, row);
		else
			oracle_input_row(&data, run_source(c, p), RUN_ROW, row);
		wrong += (int64_t)oracle_wrong(&data, recv + (size_t)p * c->count * width, row,
					       RUN_ROW, first, c->count, NULL);
	}
	return wrong;
}

/* Returns the bytes between the buffers of two calls of a group. */
static size_t run_stride(const struct perf_case *c)
{
	return perf_group_stride(c->size);
}

/* The calls that one timed iteration issues: one, or those of a group, each with buffers of its own. */
struct run_calls {
	const struct perf_case *c;
	const char *send;
	char *recv;
	coll_request_t *requests; /* persistent requests in the place of calls, or NULL */
	int nrequests;
};

/* Makes the persistent requests of the call on these buffers. */
static coll_result_t run_add_requests(struct run_calls *calls, const char *send, char *recv)
{
	const struct perf_case *c = calls->c;
	coll_args_t args = {.size = sizeof(args),
			    .kind = c->kind->number,
			    .dtype = c->dtype,
			    .op = c->op,
			    .root = c->root,
			    .sendbuf = send,
			    .recvbuf = recv,
			    .count = c->count,
			    .sendcounts = c->counts,
			    .senddispls = c->displs,
			    .recvcounts = c->counts,
			    .recvdispls = c->displs};
	coll_result_t code;

	if (c->kind->number == COLL_KIND_SEND)
		args.root = (c->rank + 1) % c->nranks;
	code = coll_request_init(c->comm, &args, &calls->requests[calls->nrequests]);
	calls->nrequests += code == COLL_SUCCESS;
	if (code != COLL_SUCCESS || c->kind->number != COLL_KIND_SEND)
		return code;
	args.kind = COLL_KIND_RECV;
	args.root = (c->rank + c->nranks - 1) % c->nranks;
	code = coll_request_init(c->comm, &args, &calls->requests[calls->nrequests]);
	calls->nrequests += code == COLL_SUCCESS;
	return code;
}

/* Makes persistent requests of all calls.  The caller must call run_free_requests afterwards. */
static coll_result_t run_make_requests(struct run_calls *calls)
{
	const int n = calls->c->group;
	const size_t stride = run_stride(calls->c);
	coll_result_t code = COLL_SUCCESS;

	/* sendrecv has two for each call. */
	calls->requests = calloc(2 * (size_t)n, sizeof(*calls->requests));
	if (calls->requests == NULL)
		return COLL_ERR_NO_MEMORY;
	for (int i = 0; i < n && code == COLL_SUCCESS; i++)
		code = run_add_requests(calls, calls->send + (size_t)i * stride,
					calls->recv + (size_t)i * stride);
	return code;
}

static void run_free_requests(struct run_calls *calls)
{
	for (int i = 0; i < calls->nrequests; i++)
		coll_request_free(calls->requests[i]);
	free(calls->requests);
}

/* Issues the calls outside a group, or inside the group that the caller has begun. */
static coll_result_t run_issue_each(const struct run_calls *calls)
{
	const struct perf_case *c = calls->c;
	coll_result_t code = COLL_SUCCESS;

	for (int i = 0; i < calls->nrequests && code == COLL_SUCCESS; i++)
		code = coll_request_start(calls->requests[i]);
	for (int i = 0; calls->requests == NULL && i < c->group && code == COLL_SUCCESS; i++)
		code = c->kind->call(c, calls->send + (size_t)i * run_stride(c),
				     calls->recv + (size_t)i * run_stride(c));
	return code;
}

static coll_result_t run_issue(const struct run_calls *calls)
{
	coll_result_t code, ended;

	if (calls->c->group == 1 && calls->nrequests <= 1)
		return run_issue_each(calls);
	code = coll_group_start();
	if (code != COLL_SUCCESS)
		return code;
	code = run_issue_each(calls);
	ended = coll_group_end();
	return code ? code : ended;
}

static coll_result_t run_call(const struct run_calls *calls)
{
	coll_result_t code = run_issue(calls);

	return code ? code : coll_sync(calls->c->comm);
}

static int run_by_time(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

/* Returns the median of n times.  Sorts them. */
static double run_median(double *t, int n)
{
	qsort(t, (size_t)n, sizeof(*t), run_by_time);
	return n % 2 ? t[n / 2] : (t[n / 2 - 1] + t[n / 2]) / 2;
}

/* Returns the least of n sorted times that `percent` of them do not exceed. */
static double run_percentile(const double *t, int n, int percent)
{
	return t[((int64_t)n * percent + 99) / 100 - 1];
}

static void run_summarise(double *t, double *issued, int n, struct perf_times *times)
{
	double sum = 0;

	for (int i = 0; i < n; i++)
		sum += t[i];
	times->mean = sum / n;
	times->median = run_median(t, n);
	times->min = t[0];
	times->p90 = run_percentile(t, n, 90);
	times->p99 = run_percentile(t, n, 99);
	times->max = t[n - 1];
	times->issue = run_median(issued, n);
}

static coll_result_t run_time(const struct run_calls *calls, const struct perf_options *o,
			      struct perf_times *times)
{
	double *t = calloc((size_t)o->iters, 2 * sizeof(*t));
	double *issued = t == NULL ? NULL : t + o->iters;
	coll_result_t code = t == NULL ? COLL_ERR_NO_MEMORY : COLL_SUCCESS;

	for (int i = 0; i < o->warmup && code == COLL_SUCCESS; i++)
		code = run_call(calls);
	if (code == COLL_SUCCESS)
		code = coll_barrier(calls->c->comm);
	for (int i = 0; i < o->iters && code == COLL_SUCCESS; i++) {
		int64_t start = tool_now_ns();

		code = run_issue(calls);
		if (o->issue)
			issued[i] = (double)(tool_now_ns() - start);
		if (code == COLL_SUCCESS)
			code = coll_sync(calls->c->comm);
		t[i] = (double)(tool_now_ns() - start) / 1000;
	}
	if (code == COLL_SUCCESS)
		run_summarise(t, issued, o->iters, times);
	free(t);
	return code;
}

static coll_result_t run_allreduce(const struct perf_case *c, const struct perf_buffers *b,
				   const void *own, void *all, size_t count, coll_dtype_t dtype,
				   coll_op_t op)
{
	size_t bytes = count * coll_dtype_size(dtype);
	const void *in = own;
	void *out = all;
	coll_result_t code;

	if (b->share) {
		in = out = b->share;
		perf_copy(b, b->share, own, bytes);
	}
	code = coll_allreduce(in, out, count, dtype, op, c->comm, NULL);
	if (code == COLL_SUCCESS)
		code = coll_sync(c->comm);
	if (code == COLL_SUCCESS)
		perf_copy(b, all, out, bytes);
	return code;
}

/*
 * Combines the results of all ranks: the sum of wrong elements, and the times of the slowest rank.
 */
static coll_result_t run_share(const struct perf_case *c, const struct perf_buffers *b,
			       struct perf_row *row)
{
	struct perf_row own = *row;
	coll_result_t code;

	if (c->nranks == 1)
		return COLL_SUCCESS;
	code = run_allreduce(c, b, own.wrong, row->wrong, 2, COLL_INT64, COLL_SUM);
	/* If the sum itself is wrong, the faults that this rank found must still show. */
	for (int i = 0; i < 2; i++)
		if (row->wrong[i] < own.wrong[i])
			row->wrong[i] = own.wrong[i];
	if (code == COLL_SUCCESS)
		code = run_allreduce(c, b, own.times, row->times,
				     2 * sizeof(own.times[0]) / sizeof(double), COLL_FLOAT64,
				     COLL_MAX);
	if (code != COLL_ERR_UNSUPPORTED)
		return code;
	/* If the backend has no such allreduce, this rank's own figures must do. */
	*row = own;
	return COLL_SUCCESS;
}

/* Checks and times the calls of one place. */
static coll_result_t run_place_row(const struct perf_case *c, const struct perf_options *options,
				   const struct perf_buffers *buffers, int place,
				   struct perf_row *row)
{
	char row_bytes[RUN_ROW * ORACLE_ELEM_MAX], *send, *recv;
	struct run_calls calls = {.c = c};
	const size_t stride = run_stride(c);
	coll_result_t code = COLL_SUCCESS;

	run_place(c, buffers, place, &send, &recv);
	calls.send = send;
	calls.recv = recv;
	for (int i = 0; i < c->group; i++)
		run_fill(c, buffers, place, send + (size_t)i * stride, recv + (size_t)i * stride,
			 row_bytes);
	if (options->persistent)
		code = run_make_requests(&calls);
	if (code == COLL_SUCCESS)
		code = run_call(&calls);
	for (int i = 0; code == COLL_SUCCESS && options->check && i < c->group; i++)
		row->wrong[place] +=
			run_count_wrong(c, buffers, recv + (size_t)i * stride, row_bytes);
	if (code == COLL_SUCCESS)
		code = run_time(&calls, options, &row->times[place]);
	run_free_requests(&calls);
	return code;
}

coll_result_t perf_run_row(const struct perf_case *c, const struct perf_options *options,
			   const struct perf_buffers *buffers, struct perf_row *row)
{
	coll_result_t code;

	*row = (struct perf_row){.in_place = c->kind->in_place};
	for (int place = 0; place <= row->in_place; place++) {
		code = run_place_row(c, options, buffers, place, row);
		if (code != COLL_SUCCESS)
			return code;
	}
	code = run_share(c, buffers, row);
	if (!options->check)
		row->wrong[0] = row->wrong[1] = -1;
	return code;
}
