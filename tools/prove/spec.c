/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * spec.c - the meaning of each collective, independent of its algorithms: the buffers of a rank,
 * their overlap in place, and the inputs of every output byte.
 *
 * A form with one count is treated as a form with equal counts for all ranks.
 */
#include <stdlib.h>
#include <string.h>
#include "prove/prove.h"

int prove_kind_pairs(int kind)
{
	return kind == COLL_KIND_SEND || kind == COLL_KIND_RECV;
}

/*
 * Returns how many of PROVE_OUT_OF_PLACE, PROVE_IN_PLACE and PROVE_MIXED a kind has.  A rooted kind is not mixed: only its
 * root can be in place.
 */
int prove_kind_forms(int kind)
{
	if (kind == COLL_KIND_BARRIER || prove_kind_pairs(kind))
		return 1;
	return oracle_rooted(kind) ? 2 : 3;
}

int prove_kind_matrix(int kind)
{
	return kind == COLL_KIND_ALLTOALL || kind == COLL_KIND_ALLTOALLV;
}

int prove_spec_inputs(const struct prove *p, int actor)
{
	switch (p->c->info->kind) {
	case COLL_KIND_SCAN: return p->rank[actor].rank + 1;
	case COLL_KIND_EXSCAN: return p->rank[actor].rank;
	default: return p->c->nranks;
	}
}

/* --------------------------------------------------------------- arguments -- */

/* Returns the displacements for the builder: a staged list lies in one piece. */
static const size_t *spec_displs_of(const struct prove *p, int actor, int buffer)
{
	size_t n = (size_t)p->c->nranks;
	size_t row = p->c->info->kind == COLL_KIND_ALLTOALLV ? n * (size_t)actor : 0;

	if (p->c->displs == PROVE_LIST && p->rank[actor].staged & 1 << buffer)
		return p->joined;
	return (buffer == COLL_BUFFER_SEND ? p->senddispls : p->recvdispls) + row;
}

static void spec_args_vector(const struct prove *p, int actor, coll_schedule_args_t *args)
{
	const struct prove_case *c = p->c;
	int kind = c->info->kind, root = p->rank[actor].rank == c->root;
	size_t row = kind == COLL_KIND_ALLTOALLV ? (size_t)c->nranks * (size_t)actor : 0;

	args->count = p->sendcounts[p->rank[actor].rank];
	if (kind == COLL_KIND_ALLTOALLV || kind == COLL_KIND_REDUCE_SCATTERV)
		args->count = 0;
	if ((kind == COLL_KIND_GATHERV || kind == COLL_KIND_SCATTERV) && !root)
		return;
	if (kind == COLL_KIND_ALLTOALLV || kind == COLL_KIND_SCATTERV) {
		args->sendcounts = p->sendcounts + row;
		args->senddispls = spec_displs_of(p, actor, COLL_BUFFER_SEND);
	}
	if (kind != COLL_KIND_SCATTERV) {
		args->recvcounts = p->recvcounts + row;
		args->recvdispls = spec_displs_of(p, actor, COLL_BUFFER_RECV);
	}
	if (kind == COLL_KIND_REDUCE_SCATTERV) {
		args->recvdispls = NULL;
		if (c->displs == PROVE_LIST)
			args->senddispls = spec_displs_of(p, actor, COLL_BUFFER_SEND);
	}
}

void prove_spec_args(const struct prove *p, int actor, coll_schedule_args_t *args)
{
	const struct prove_case *c = p->c;
	const struct prove_rank *r = &p->rank[actor];

	*args = (coll_schedule_args_t){.size = sizeof(*args), .algorithm = r->algorithm};
	args->nranks = c->nranks;
	args->rank = r->rank;
	args->root = c->root;
	if (prove_kind_pairs(c->info->kind))
		args->root = actor ? c->root : c->peer;
	args->count = c->count;
	args->elem = c->elem;
	args->segment = c->segment;
	args->in_place = r->in_place;
	args->average = c->average;
	args->nodes = c->layout || c->node_size ? p->nodes : NULL;
	if (oracle_varies(c->info->kind))
		spec_args_vector(p, actor, args);
}

/* ----------------------------------------------------------------- buffers -- */

static size_t spec_end(const struct prove_case *c, const size_t *counts, const size_t *displs)
{
	size_t end = 0;

	for (int i = 0; i < c->nranks; i++)
		if (counts[i] && displs[i] + counts[i] > end)
			end = displs[i] + counts[i];
	return end;
}

/*
 * Finds the sizes of the send and receive buffers in elements, and the offset of this rank's own part in the larger buffer.
 */
static void spec_sizes(const struct prove *p, int rank, size_t *send, size_t *recv, size_t *own)
{
	const struct prove_case *c = p->c;
	size_t row = prove_kind_matrix(c->info->kind) ? (size_t)c->nranks * (size_t)rank : 0;
	const size_t *counts = p->sendcounts + row, *displs = p->senddispls + row;
	size_t all = spec_end(c, counts, displs);
	int root = rank == c->root;

	*send = *recv = c->count;
	*own = 0;
	switch (c->info->kind) {
	case COLL_KIND_BARRIER: *send = *recv = 0; break;
	case COLL_KIND_BROADCAST: *send = root ? c->count : 0; break;
	case COLL_KIND_REDUCE: *recv = root ? c->count : 0; break;
	case COLL_KIND_EXSCAN: *recv = rank ? c->count : 0; break;
	case COLL_KIND_ALLTOALL:
	case COLL_KIND_ALLTOALLV:
		*send = all;
		*recv = spec_end(c, p->recvcounts + row, p->recvdispls + row);
		break;
	case COLL_KIND_ALLGATHER:
	case COLL_KIND_ALLGATHERV:
	case COLL_KIND_GATHER:
	case COLL_KIND_GATHERV:
		*send = counts[rank];
		*recv = root || !oracle_rooted(c->info->kind) ? all : 0;
		*own = displs[rank];
		break;
	case COLL_KIND_SCATTER:
	case COLL_KIND_SCATTERV:
		*send = root ? all : 0;
		*recv = counts[rank];
		*own = displs[rank];
		break;
	case COLL_KIND_REDUCE_SCATTER:
	case COLL_KIND_REDUCE_SCATTERV:
		*send = all;
		*recv = counts[rank];
		*own = displs[rank];
		break;
	}
}

static uint64_t spec_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

static void spec_place(const struct prove *p, struct prove_rank *r, size_t own)
{
	enum { GUARD = 64 };
	int kind = p->c->info->kind;
	int gathers = kind == COLL_KIND_ALLGATHER || kind == COLL_KIND_ALLGATHERV ||
		      kind == COLL_KIND_GATHER || kind == COLL_KIND_GATHERV;

	r->user[COLL_BUFFER_SEND] = r->user[COLL_BUFFER_RECV] = 0;
	if (r->in_place)
		r->user[gathers ? COLL_BUFFER_SEND : COLL_BUFFER_RECV] = own * p->c->elem;
	else
		r->user[COLL_BUFFER_RECV] = r->size[COLL_BUFFER_SEND] + GUARD;
	r->base[COLL_BUFFER_SEND] = r->user[COLL_BUFFER_SEND];
	r->base[COLL_BUFFER_RECV] = r->user[COLL_BUFFER_RECV];
	r->base[COLL_BUFFER_SCRATCH] =
		GUARD + spec_max(r->user[COLL_BUFFER_SEND] + r->size[COLL_BUFFER_SEND],
				 r->user[COLL_BUFFER_RECV] + r->size[COLL_BUFFER_RECV]);
	r->size[COLL_BUFFER_SCRATCH] = coll_schedule_scratch(r->schedule);
	r->staging = r->base[COLL_BUFFER_SCRATCH] + r->size[COLL_BUFFER_SCRATCH] + GUARD;
	r->staging_size = 0;
	r->end = r->staging;
}

/* ------------------------------------------------------- inputs and outputs -- */

static void spec_out(const struct prove *p, struct prove_rank *r, size_t at, size_t len,
		     int32_t symbol, size_t index)
{
	uint64_t elem = p->c->elem;

	if (!len)
		return;
	r->out = tool_grow(r->out, &r->cap_outs, r->outs + 1, sizeof(*r->out));
	r->out[r->outs++] = (struct prove_span){r->user[COLL_BUFFER_RECV] + at * elem, len * elem,
						index * elem, symbol};
}

static void spec_in(const struct prove *p, struct prove_rank *r, int actor, size_t at, size_t len)
{
	uint64_t elem = p->c->elem;

	if (!len)
		return;
	r->in = tool_grow(r->in, &r->cap_ins, r->ins + 1, sizeof(*r->in));
	r->in[r->ins++] = (struct prove_span){r->user[COLL_BUFFER_SEND] + at * elem, len * elem,
					      at * elem, actor};
}

static int spec_compare(const void *a, const void *b)
{
	const struct prove_span *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* Adds a part from every rank. */
static void spec_out_each(const struct prove *p, struct prove_rank *r, int actor)
{
	size_t n = (size_t)p->c->nranks;
	int matrix = prove_kind_matrix(p->c->info->kind);
	size_t row = matrix ? n * (size_t)actor : 0;

	for (size_t i = 0; i < n; i++)
		spec_out(p, r, p->recvdispls[row + i], p->recvcounts[row + i], (int32_t)i,
			 matrix ? p->senddispls[n * i + (size_t)actor] : 0);
	if (p->c->displs != PROVE_CONTIGUOUS && r->outs > 1)
		qsort(r->out, (size_t)r->outs, sizeof(*r->out), spec_compare);
}

/* Adds the inputs of every block.  There are none between the blocks of a v-form's send buffer. */
static void spec_in_each(const struct prove *p, struct prove_rank *r, int actor)
{
	size_t n = (size_t)p->c->nranks;
	size_t row = prove_kind_matrix(p->c->info->kind) ? n * (size_t)actor : 0;

	for (size_t i = 0; i < n; i++)
		spec_in(p, r, actor, p->senddispls[row + i], p->sendcounts[row + i]);
	if (r->ins > 1)
		qsort(r->in, (size_t)r->ins, sizeof(*r->in), spec_compare);
}

static void spec_inputs(const struct prove *p, struct prove_rank *r, int actor, size_t send)
{
	int kind = p->c->info->kind;
	int blocks = kind == COLL_KIND_ALLTOALLV || kind == COLL_KIND_SCATTERV ||
		     kind == COLL_KIND_REDUCE_SCATTERV;

	r->ins = 0;
	if (send && blocks && p->c->displs != PROVE_CONTIGUOUS)
		spec_in_each(p, r, actor);
	else
		spec_in(p, r, actor, 0, send);
}

void prove_spec_rank(struct prove *p, int actor)
{
	const struct prove_case *c = p->c;
	struct prove_rank *r = &p->rank[actor];
	size_t send, recv, own;

	spec_sizes(p, actor, &send, &recv, &own);
	if (prove_kind_pairs(c->info->kind)) {
		send = actor ? 0 : c->count;
		recv = actor ? c->count : 0;
	}
	r->size[COLL_BUFFER_SEND] = send * c->elem;
	r->size[COLL_BUFFER_RECV] = recv * c->elem;
	spec_place(p, r, own);
	spec_inputs(p, r, actor, send);
	r->outs = 0;
	if (!recv)
		return;
	switch (c->info->kind) {
	case COLL_KIND_ALLREDUCE:
	case COLL_KIND_SCAN:
	case COLL_KIND_EXSCAN:
	case COLL_KIND_REDUCE: spec_out(p, r, 0, recv, PROVE_REDUCED, 0); break;
	case COLL_KIND_BROADCAST: spec_out(p, r, 0, recv, c->root, 0); break;
	case COLL_KIND_REDUCE_SCATTER:
	case COLL_KIND_REDUCE_SCATTERV: spec_out(p, r, 0, recv, PROVE_REDUCED, own); break;
	case COLL_KIND_SCATTER:
	case COLL_KIND_SCATTERV: spec_out(p, r, 0, recv, c->root, own); break;
	case COLL_KIND_SEND:
	case COLL_KIND_RECV: spec_out(p, r, 0, recv, 0, 0); break;
	default: spec_out_each(p, r, actor); break;
	}
}
