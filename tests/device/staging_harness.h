/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging_harness.h - staged operations of several chunks: calls whose counts lie around the longest
 * copy, which is COLL_SEGMENT = 4K here, made on host memory and on devices with the same bytes.
 */
#ifndef TESTS_STAGE_HARNESS_H
#define TESTS_STAGE_HARNESS_H

#include "../lib/device_harness.h"

enum { CHUNK = 1024, MOST = 5 * CHUNK + 7, STAGE_RANKS = 7, STAGE_ROOM = STAGE_RANKS * MOST + 64 };
enum { STAGE_BYTES = STAGE_ROOM * 4 };

/* Where the two buffers of a call are: device 0, device 1, managed, or host. */
enum { DEV0, DEV1, MANAGED0, HOST };

struct place {
	const char *name;
	int at[2];
};

static const struct place places[] = {
	{"on one device", {DEV0, DEV0}},         {"on two devices", {DEV0, DEV1}},
	{"managed", {MANAGED0, MANAGED0}},       {"sendbuf on the device", {DEV1, HOST}},
	{"recvbuf on the device", {HOST, DEV1}},
};
enum { PLACES = sizeof(places) / sizeof(places[0]) };

RANKS_UNUSED static void *place_new(int at, size_t bytes)
{
	void *host = NULL;

	if (at != HOST)
		return device_new(at == DEV1, bytes, at == MANAGED0);
	host = calloc(1, bytes);
	if (!host)
		bail_out("no memory");
	return host;
}

RANKS_UNUSED static void place_free(int at, void *ptr)
{
	if (at == HOST)
		free(ptr);
	else
		device_free(at == DEV1, ptr);
}

/* The bytes of two buffers, wherever they are. */
RANKS_UNUSED static void place_set(int at, void *ptr, const void *bytes, size_t n)
{
	if (at == HOST)
		memcpy(ptr, bytes, n);
	else
		device_move(at == DEV1, ptr, bytes, n);
}

RANKS_UNUSED static void place_get(int at, void *bytes, const void *ptr, size_t n)
{
	if (at == HOST)
		memcpy(bytes, ptr, n);
	else
		device_move(at == DEV1, bytes, ptr, n);
}

/* --------------------------------------------------------------------- a call -- */

struct stage_call {
	struct rank *r;
	int kind, in_place;
	coll_op_t op;
	size_t count; /* of the largest block */
	size_t counts[STAGE_RANKS], displs[STAGE_RANKS];
};

/* Blocks in reverse order with gaps between them: the largest, one element, none, and another. */
RANKS_UNUSED static void stage_lay_out(struct stage_call *c)
{
	const size_t shape[] = {c->count, c->count ? 1 : 0, 0, c->count};
	size_t at = 3;

	for (int p = c->r->nranks - 1; p >= 0; p--) {
		int other = c->kind == COLL_KIND_ALLTOALLV ? c->r->rank : 0;

		c->counts[p] = shape[(p + other) % 4];
		c->displs[p] = at;
		at += c->counts[p] + 5;
	}
	if (c->kind == COLL_KIND_REDUCE_SCATTERV)
		for (int p = 0; p < c->r->nranks; p++)
			c->displs[p] = p ? c->displs[p - 1] + c->counts[p - 1] : 0;
}

RANKS_UNUSED static coll_args_t stage_args(struct stage_call *c, char *send, char *recv)
{
	coll_args_t a = {.size = sizeof(a), .kind = c->kind, .dtype = COLL_INT32, .op = c->op};
	int rank = c->r->rank, root = c->r->nranks - 1;
	int in_place = c->in_place && (!has_root(c->kind) || rank == root);
	size_t part = takes_part(c->kind) ? (size_t)rank * c->count * 4 : 0;
	int gathers = c->kind == COLL_KIND_ALLGATHER || c->kind == COLL_KIND_GATHER ||
		      c->kind == COLL_KIND_ALLGATHERV || c->kind == COLL_KIND_GATHERV;

	stage_lay_out(c);
	a.root = root;
	a.count = c->count;
	if (is_v(c->kind)) {
		part = takes_part(c->kind) ? c->displs[rank] * 4 : 0;
		a.count = c->kind == COLL_KIND_REDUCE_SCATTERV || c->kind == COLL_KIND_ALLTOALLV
				  ? 0
				  : c->counts[rank];
	}
	if (c->kind == COLL_KIND_ALLTOALLV || c->kind == COLL_KIND_SCATTERV) {
		a.sendcounts = c->counts;
		a.senddispls = c->displs;
	}
	if (is_v(c->kind) && c->kind != COLL_KIND_SCATTERV) {
		a.recvcounts = c->counts;
		a.recvdispls = c->kind == COLL_KIND_REDUCE_SCATTERV ? NULL : c->displs;
	}
	a.sendbuf = in_place ? recv + (gathers ? part : 0) : send;
	a.recvbuf = in_place && !gathers ? recv + part : recv;
	return a;
}

/* ----------------------------------------------------------------- two ways to it -- */

/* One rank's buffers: on the host, where the library's result is right, and somewhere. */
struct stage_pair {
	struct place place;
	char *host[2], *there[2], *found;
};

RANKS_UNUSED static void pair_begin(struct stage_pair *p, const struct place *place)
{
	p->place = *place;
	p->found = place_new(HOST, STAGE_BYTES);
	for (int buf = 0; buf < 2; buf++) {
		p->host[buf] = place_new(HOST, STAGE_BYTES);
		p->there[buf] = place_new(place->at[buf], STAGE_BYTES);
	}
}

RANKS_UNUSED static void pair_end(struct stage_pair *p)
{
	free(p->found);
	for (int buf = 0; buf < 2; buf++) {
		free(p->host[buf]);
		place_free(p->place.at[buf], p->there[buf]);
	}
}

RANKS_UNUSED static void pair_fill(struct stage_pair *p, int rank, int seed)
{
	for (int buf = 0; buf < 2; buf++) {
		int32_t *x = (void *)p->host[buf];

		for (int i = 0; i < STAGE_ROOM; i++)
			x[i] = (rank + seed) * (i % 1009) - 1000 * buf + seed;
		place_set(p->place.at[buf], p->there[buf], x, STAGE_BYTES);
	}
}

/* Not only what the call writes: nothing else may change. */
RANKS_UNUSED static int pair_same(struct stage_pair *p, struct stage_call *c, const char *what)
{
	for (int buf = 0; buf < 2; buf++) {
		place_get(p->place.at[buf], p->found, p->there[buf], STAGE_BYTES);
		for (int i = 0; i < STAGE_BYTES; i++)
			if (p->host[buf][i] != p->found[i])
				return rank_fail(c->r, "%s of %zu%s, %s, %s: byte %d of %s differs",
						 coll_kind_name(c->kind), c->count,
						 c->in_place ? " in place" : "", p->place.name,
						 what, i, buf ? "recvbuf" : "sendbuf");
	}
	return 1;
}

/* A call like any other, by a request that lives as long as it. */
RANKS_UNUSED static int stage_once(struct stage_call *c, char *send, char *recv)
{
	coll_args_t a = stage_args(c, send, recv);
	coll_request_t request;
	int good = rank_did(c->r, coll_request_init(c->r->comm, &a, &request), "request_init");

	good = good && rank_did(c->r, coll_request_start(request), "start") &&
	       rank_did(c->r, coll_wait(request), "wait");
	return good && rank_did(c->r, coll_request_free(request), "request_free");
}

RANKS_UNUSED static void stage_begin(void)
{
	device_begin();
	setenv("COLL_SEGMENT", "4K", 1);
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
}

RANKS_UNUSED static void stage_end(void)
{
	device_end();
	is_int(standin_streams(), 0, "no stream is left");
	is_int(standin_events(), 0, "nor an event");
}

#endif
