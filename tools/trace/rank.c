/* SPDX-License-Identifier: BSD-3-Clause */
/* rank.c - what the events of a rank say: its clocks, its communicators, and the things that begin and end. */
#include <stdlib.h>
#include <string.h>
#include <coll/coll.h>
#include "lib/kinds.h"
#include "trace/trace.h"

enum { RANK_ROWS_MOST = 1 << 16, RANK_FAILURE = 1024 };

uint64_t trace_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static uint64_t rank_hash(const char *text)
{
	uint64_t hash = 1;

	for (; *text != '\0'; text++)
		hash = trace_mix(hash, (unsigned char)*text);
	return hash;
}

static uint64_t rank_number(const struct json_value *json, const char *key)
{
	const double number = json_get_number(json, key, 0);

	return number >= 0 && number < 9e18 ? (uint64_t)number : 0;
}

/* A time; later than the year 2096 none is, so that sums of two do not overflow. */
static int64_t rank_time(const struct json_value *json, const char *key)
{
	const double ns = json_get_number(json, key, 0);

	return ns >= 0 && ns < 4e18 ? (int64_t)ns : 0;
}

/* Observers write ASCII.  Other bytes may be control characters, which a terminal obeys. */
static void rank_text(char *to, size_t size, const struct json_value *json, const char *key)
{
	snprintf(to, size, "%s", json_get_text(json, key, ""));
	for (; *to != '\0'; to++)
		if (*to < ' ' || *to > '~')
			*to = '?';
}

/* ---------------------------------------------------------------------- metadata -- */

static void rank_take_clock(struct trace_rank *rank, const struct json_value *args)
{
	const int ends = strcmp(json_get_text(args, "at", ""), "end") == 0;

	if (!rank->known) {
		rank->mono_begin = rank_time(args, "monotonic_ns");
		rank->wall_begin = rank_time(args, "wall_ns");
	}
	rank->ended = ends;
	rank->known = 1;
	rank->nranks = trace_int(args, "ranks", 0);
	rank_text(rank->clock, sizeof(rank->clock), args, "clock");
	rank_text(rank->host, sizeof(rank->host), args, "host");
}

static struct trace_comm *rank_comm(const struct trace_rank *rank, uint64_t local)
{
	for (int i = rank->comms - 1; i >= 0; i--)
		if (rank->comm[i].local == local)
			return &rank->comm[i];
	return NULL;
}

static int32_t *rank_world(const struct json_value *args, int32_t nranks)
{
	const struct json_value *list = json_get(args, "world_ranks");
	const struct json_value *at = list && list->kind == JSON_ARRAY ? list->child : NULL;
	int32_t *world, n = 0;

	if (at == NULL || nranks <= 0)
		return NULL;
	world = calloc((size_t)nranks, sizeof(*world));
	for (; world != NULL && at != NULL && n < nranks; at = at->next)
		if (at->number >= 0 && at->number < TRACE_RANKS_MOST)
			world[n++] = (int32_t)at->number;
	if (n == nranks)
		return world;
	free(world);
	return NULL;
}

static int rank_take_comm(struct trace_rank *rank, const struct json_value *args)
{
	const uint64_t local = rank_number(args, "comm");
	struct trace_comm *comm = rank_comm(rank, local);

	rank_text(rank->job, sizeof(rank->job), args, "job");
	if (comm == NULL) {
		comm = realloc(rank->comm, ((size_t)rank->comms + 1) * sizeof(*comm));
		if (comm == NULL)
			return trace_error("no memory");
		rank->comm = comm;
		comm += rank->comms++;
	} else {
		free(comm->world); /* a file is read again */
	}
	*comm = (struct trace_comm){.local = local,
				    .rank = trace_int(args, "rank", 0),
				    .nranks = trace_int(args, "ranks", 0)};
	rank_text(comm->name, sizeof(comm->name), args, "id");
	if (comm->rank < 0 || comm->rank >= comm->nranks || comm->nranks > TRACE_RANKS_MOST) {
		comm->nranks = 1;
		comm->rank = 0;
	}
	comm->hash = trace_mix(rank_hash(rank->job), rank_hash(comm->name));
	comm->world = rank_world(args, comm->nranks);
	return 0;
}

static int rank_take_metadata(struct trace_rank *rank, const struct json_value *json)
{
	const char *name = json_get_text(json, "name", "");
	const struct json_value *args = json_get(json, "args");

	if (strcmp(name, "coll_clock") == 0)
		rank_take_clock(rank, args);
	else if (strcmp(name, "coll_comm") == 0)
		return rank_take_comm(rank, args);
	else if (strcmp(name, "coll_timeline") == 0) {
		rank->lost = rank_number(args, "lost");
		rank->left_out = rank_number(args, "left_out");
	}
	return 0;
}

int32_t trace_rank_world(const struct trace_rank *rank, const struct trace_slice *slice,
			 int32_t comm_rank)
{
	for (int i = 0; i < rank->comms; i++)
		if (rank->comm[i].hash == slice->comm && rank->comm[i].world != NULL &&
		    comm_rank >= 0 && comm_rank < rank->comm[i].nranks)
			return rank->comm[i].world[comm_rank];
	return comm_rank;
}

/* Takes an event at a moment; the first failure is kept. */
static int rank_take_instant(struct trace_rank *rank, const struct trace_file *file, int64_t at_ns)
{
	const struct json_value *args = json_get(file->json, "args");
	char text[RANK_FAILURE];

	if (rank->failure || strcmp(json_get_text(file->json, "cat", ""), "failure") != 0 ||
	    !json_get(args, "text"))
		return 0;
	rank_text(text, sizeof(text), args, "text");
	rank->failure = strdup(text);
	rank->failed_ns = at_ns;
	rank->failure_code = trace_int(args, "code", 0);
	return rank->failure ? 0 : trace_error("no memory");
}

/* ------------------------------------------------------------------------ slices -- */

static enum trace_what rank_what(const char *category)
{
	static const char *const names[] = {[TRACE_CALL] = "call",
					    [TRACE_STEP] = "step",
					    [TRACE_COPY] = "copy",
					    [TRACE_WAIT] = "wait",
					    [TRACE_MESSAGE] = "message"};

	for (int what = TRACE_CALL; what <= TRACE_MESSAGE; what++)
		if (strcmp(names[what], category) == 0)
			return (enum trace_what)what;
	return TRACE_OTHER;
}

static void rank_flow(struct trace_slice *slice, const struct json_value *args)
{
	const char *sends = json_get_text(args, "sends", NULL);
	const char *flow = sends ? sends : json_get_text(args, "receives", "0");

	slice->sends = sends != NULL;
	slice->flow = strtoull(flow, NULL, 16);
}

static void rank_take_comm_of(const struct trace_rank *rank, struct trace_slice *slice,
			      const struct json_value *args)
{
	const struct trace_comm *comm = rank_comm(rank, rank_number(args, "comm"));

	slice->nranks = 1;
	if (comm == NULL)
		return;
	slice->comm = comm->hash;
	slice->comm_rank = comm->rank;
	slice->nranks = comm->nranks;
	snprintf(slice->comm_name, sizeof(slice->comm_name), "%s", comm->name);
	if (slice->collective)
		slice->key = trace_mix(trace_mix(comm->hash, rank_number(args, "lane")),
				       slice->collective) |
			     1;
}

static void rank_begin(const struct trace_rank *rank, struct trace_slice *slice,
		       const struct trace_file *file, int64_t at_ns)
{
	const struct json_value *args = json_get(file->json, "args");

	*slice = (struct trace_slice){.what = rank_what(json_get_text(file->json, "cat", "")),
				      .pid = file->pid,
				      .tid = file->tid,
				      .begin_ns = at_ns,
				      .number = rank_number(args, "number"),
				      .collective = rank_number(args, "collective"),
				      .count = rank_number(args, "count"),
				      .bytes = rank_number(args, "bytes"),
				      .peer = trace_int(args, "peer", -1),
				      .tag = trace_int(args, "tag", 0)};
	rank_text(slice->name, sizeof(slice->name), file->json, "name");
	rank_text(slice->algorithm, sizeof(slice->algorithm), args, "algorithm");
	rank_text(slice->dtype, sizeof(slice->dtype), args, "dtype");
	rank_text(slice->op, sizeof(slice->op), args, "op");
	rank_take_comm_of(rank, slice, args);
	if (slice->what == TRACE_CALL)
		slice->kind = kinds_find(slice->name);
	else if (slice->what == TRACE_MESSAGE)
		slice->kind = slice->name[1] == 's' ? COLL_KIND_SEND : COLL_KIND_RECV;
	else if (slice->what == TRACE_STEP)
		rank_flow(slice, args);
}

/* Returns the row, which may be new. */
static struct trace_slice *rank_row(struct trace_rank *rank, int32_t tid)
{
	struct trace_slice *more;
	int32_t rows;

	if (tid < 0 || tid >= RANK_ROWS_MOST)
		return NULL;
	if (tid < rank->rows)
		return &rank->row[tid];
	rows = tid * 2 + 16 < RANK_ROWS_MOST ? tid * 2 + 16 : RANK_ROWS_MOST;
	more = realloc(rank->row, (size_t)rows * sizeof(*more));
	if (more == NULL)
		return NULL;
	memset(more + rank->rows, 0, (size_t)(rows - rank->rows) * sizeof(*more));
	rank->row = more;
	rank->rows = rows;
	return &more[tid];
}

int trace_rank_take(struct trace_rank *rank, const struct trace_file *file, int64_t shift_ns,
		    const struct trace_slice **slice)
{
	struct trace_slice *row;
	int64_t at_ns;

	if (file->ph == 'M')
		return rank_take_metadata(rank, file->json);
	if ((file->ph != 'B' && file->ph != 'E' && file->ph != 'i') || file->ts_ns == INT64_MIN)
		return 0;
	at_ns = file->ts_ns + shift_ns;
	if (file->ph == 'i')
		return rank_take_instant(rank, file, at_ns);
	row = rank_row(rank, file->tid);
	if (row == NULL)
		return trace_error("'%s': no memory for row %d of rank %d", file->path, file->tid,
				   file->pid);
	*slice = row;
	if (file->ph == 'B') {
		rank_begin(rank, row, file, at_ns);
		return TRACE_BEGINS;
	}
	if (row->begin_ns == 0 || row->end_ns != 0)
		return 0; /* an end without its begin */
	row->end_ns = at_ns > row->begin_ns ? at_ns : row->begin_ns;
	row->code = trace_int(json_get(file->json, "args"), "code", 0);
	return json_get(json_get(file->json, "args"), "unfinished") ? TRACE_BREAKS : TRACE_ENDS;
}

void trace_rank_free(struct trace_rank *rank)
{
	for (int i = 0; i < rank->comms; i++)
		free(rank->comm[i].world);
	free(rank->comm);
	free(rank->row);
	free(rank->failure);
	*rank = (struct trace_rank){0};
}
