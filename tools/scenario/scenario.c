/* SPDX-License-Identifier: BSD-3-Clause */
/* scenario.c - functions that scenarios share: faults, numbers and bytes in buffers, communicators that work. */
#include "scenario/scenario.h"
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PIECE = 4096, MARK = 0xa5 };

void *scenario_buffer(struct scenario_rank *r, size_t bytes)
{
	return r->frame->buffer(r, bytes);
}

int scenario_did(struct scenario_rank *r, coll_result_t code, const char *what)
{
	return r->frame->did(r, code, what);
}

int scenario_fail(struct scenario_rank *r, const char *fmt, ...)
{
	char text[300];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	return r->frame->fail(r, text);
}

int scenario_sync(struct scenario_rank *r)
{
	return scenario_did(r, coll_sync(r->comm), "coll_sync");
}

int scenario_group_sync(struct scenario_rank *r)
{
	return scenario_did(r, coll_group_end(), "coll_group_end") && scenario_sync(r);
}

/* ------------------------------------------------------------------------- numbers -- */

void scenario_set(struct scenario_rank *r, void *there, int32_t value)
{
	r->frame->copy(there, &value, sizeof(value));
}

int32_t scenario_get(struct scenario_rank *r, const void *there)
{
	int32_t value;

	r->frame->copy(&value, there, sizeof(value));
	return value;
}

int scenario_sum(struct scenario_rank *r, coll_comm_t comm, int32_t *there)
{
	return scenario_did(r, coll_allreduce(there, there, 1, COLL_INT32, COLL_SUM, comm, NULL),
			    "coll_allreduce");
}

/* --------------------------------------------------------------------------- bytes -- */

static unsigned char byte_of(int32_t rank, size_t i)
{
	return (unsigned char)((size_t)rank * 31 + i * 7 + (i >> 8) * 13);
}

static size_t piece_of(size_t count, size_t done)
{
	return count - done < PIECE ? count - done : PIECE;
}

void scenario_bytes_set(struct scenario_rank *r, void *there, int32_t rank, size_t first,
			size_t count)
{
	unsigned char piece[PIECE];

	for (size_t done = 0; done < count; done += PIECE) {
		for (size_t i = 0; i < piece_of(count, done); i++)
			piece[i] = byte_of(rank, first + done + i);
		r->frame->copy((unsigned char *)there + done, piece, piece_of(count, done));
	}
}

int scenario_bytes_are(struct scenario_rank *r, const void *there, int32_t rank, size_t first,
		       size_t count)
{
	unsigned char piece[PIECE];

	for (size_t done = 0; done < count; done += PIECE) {
		r->frame->copy(piece, (const unsigned char *)there + done, piece_of(count, done));
		for (size_t i = 0; i < piece_of(count, done); i++)
			if (piece[i] != byte_of(rank, first + done + i))
				return scenario_fail(
					r, "byte %zu of a message of %zu from rank %d is wrong",
					done + i, count, rank);
	}
	return 1;
}

void scenario_bytes_mark(struct scenario_rank *r, void *there, size_t count)
{
	unsigned char piece[PIECE];

	memset(piece, MARK, sizeof(piece));
	for (size_t done = 0; done < count; done += PIECE)
		r->frame->copy((unsigned char *)there + done, piece, piece_of(count, done));
}

int scenario_bytes_marked(struct scenario_rank *r, const void *there, size_t count)
{
	unsigned char piece[PIECE];

	for (size_t done = 0; done < count; done += PIECE) {
		r->frame->copy(piece, (const unsigned char *)there + done, piece_of(count, done));
		for (size_t i = 0; i < piece_of(count, done); i++)
			if (piece[i] != MARK)
				return scenario_fail(r, "byte %zu behind a message was written",
						     done + i);
	}
	return 1;
}

/* ------------------------------------------------------------------- communicators -- */

int scenario_works(struct scenario_rank *r)
{
	int32_t *x = scenario_buffer(r, sizeof(*x)), all = (1 << r->nranks) - 1, sum;

	scenario_set(r, x, 1 << r->rank);
	if (!scenario_sum(r, r->comm, x) || !scenario_sync(r))
		return 0;
	sum = scenario_get(r, x);
	return sum == all ||
	       scenario_fail(r, "the sum of the ranks' powers of two is %d, not %d", sum, all);
}

int scenario_expect(struct scenario_rank *r, coll_comm_t comm, int32_t nranks, int32_t rank)
{
	struct scenario_rank derived = *r;
	int good;

	derived.comm = comm;
	good = scenario_did(r, coll_comm_count(comm, &derived.nranks), "coll_comm_count") &&
	       scenario_did(r, coll_comm_user_rank(comm, &derived.rank), "coll_comm_user_rank");
	if (good && (derived.nranks != nranks || derived.rank != rank))
		good = scenario_fail(r, "is rank %d of %d in the new communicator, not %d of %d",
				     derived.rank, derived.nranks, rank, nranks);
	good = good && scenario_works(&derived);
	return scenario_did(r, coll_comm_destroy(comm), "coll_comm_destroy") && good;
}
