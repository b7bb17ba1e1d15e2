/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline_rows.c - the rows of a timeline.  A thing stands on one row from its BEGIN to its END, alone: so the rows'
 * begins and ends pair, also if calls, steps or messages overlap.
 */
#include "timeline.h"
#include "base/array.h"

#include <coll/introspect.h>

#include <stdlib.h>
#include <string.h>

enum { ROWS_OPEN_MOST = 1 << 16, ROWS_OPEN_FIRST = 64, ROWS_GROUPS_MOST = 4096, WORD = 64 };

/* ------------------------------------------------------------------- what is open -- */

/* A WAIT is told by its thread, steps and copies by their place in the schedule. */
static uint64_t rows_index(const struct timeline_record *record)
{
	switch (record->what) {
	case COLL_OBSERVE_WAIT: return record->thread;
	case COLL_OBSERVE_STEP: return (uint32_t)record->index;
	case COLL_OBSERVE_COPY: return (uint64_t)record->step << 32 | (uint32_t)record->index;
	default: return 0;
	}
}

static size_t rows_slot(const struct row_table *table, const struct row_open *key)
{
	uint64_t hash = key->what + ((uint64_t)key->lane_of << 8);

	hash = (hash ^ key->comm) * UINT64_C(0x9e3779b97f4a7c15);
	hash = (hash ^ key->number ^ hash >> 29) * UINT64_C(0xbf58476d1ce4e5b9);
	hash = (hash ^ key->index ^ hash >> 32) * UINT64_C(0x94d049bb133111eb);
	return (size_t)(hash >> 20) & (table->size - 1);
}

static struct row_open rows_key(const struct timeline_record *record)
{
	return (struct row_open){.what = record->what,
				 .lane_of = record->lane,
				 .kind = record->kind,
				 .issued_ns = record->issued_ns,
				 .collective = record->collective,
				 .comm = record->comm,
				 .number = record->what == COLL_OBSERVE_WAIT ? 0 : record->number,
				 .index = rows_index(record),
				 .group = ROW_NONE};
}

/* Returns the place of the key, or the free place for it. */
static struct row_open *rows_at(const struct row_table *table, const struct row_open *key)
{
	size_t at = rows_slot(table, key);
	const struct row_open *open = &table->open[at];

	while (open->what &&
	       (open->what != key->what || open->comm != key->comm || open->number != key->number ||
		open->index != key->index || open->lane_of != key->lane_of)) {
		at = (at + 1) & (table->size - 1);
		open = &table->open[at];
	}
	return &table->open[at];
}

struct row_open *rows_find(struct rows *rows, const struct timeline_record *record)
{
	const struct row_open key = rows_key(record);
	struct row_open *open = rows->table.size ? rows_at(&rows->table, &key) : NULL;

	return open && open->what ? open : NULL;
}

static struct row_open *rows_call(struct rows *rows, uint64_t comm, uint8_t lane, uint64_t number)
{
	const struct timeline_record call = {
		.what = COLL_OBSERVE_CALL, .comm = comm, .lane = lane, .number = number};

	return rows_find(rows, &call);
}

int16_t rows_awaited(struct rows *rows, const struct timeline_record *wait)
{
	const struct row_open *open = rows_call(rows, wait->comm, wait->lane, wait->number);

	return open ? open->kind : 0;
}

uint64_t rows_collective(struct rows *rows, const struct timeline_record *step)
{
	const struct row_open *open = rows_call(rows, step->comm, step->lane, step->number);

	return open ? open->collective : 0;
}

int rows_has_call(struct rows *rows, const struct row_open *open)
{
	return rows_call(rows, open->comm, open->lane_of, open->number) != NULL;
}

static int rows_grow(struct row_table *table)
{
	struct row_table more = *table;

	if (table->used * 2 < table->size)
		return 0;
	if (table->size > ROWS_OPEN_MOST)
		return -1;
	more.size = table->size ? table->size * 2 : ROWS_OPEN_FIRST;
	more.open = calloc(more.size, sizeof(*more.open));
	if (!more.open)
		return -1;
	for (size_t i = 0; i < table->size; i++)
		if (table->open[i].what)
			*rows_at(&more, &table->open[i]) = table->open[i];
	free(table->open);
	*table = more;
	return 0;
}

struct row_open *rows_begin(struct rows *rows, const struct timeline_record *record)
{
	const struct row_open key = rows_key(record);
	struct row_open *open;

	if (rows_grow(&rows->table))
		return NULL;
	open = rows_at(&rows->table, &key);
	*open = key;
	rows->table.used++;
	return open;
}

/* Frees the lane, and moves the entries behind the free place up, so that rows_at finds them. */
void rows_end(struct rows *rows, struct row_open *open)
{
	struct row_table *table = &rows->table;
	const size_t mask = table->size - 1;
	size_t hole = (size_t)(open - table->open), at = hole;

	if (open->group != ROW_NONE)
		rows->group[open->group].busy[open->lane / WORD] &=
			~(UINT64_C(1) << open->lane % WORD);
	table->used--;
	for (;;) {
		table->open[hole].what = 0;
		do {
			at = (at + 1) & mask;
			if (!table->open[at].what)
				return;
		} while (((at - rows_slot(table, &table->open[at])) & mask) < ((at - hole) & mask));
		table->open[hole] = table->open[at];
		hole = at;
	}
}

/* ----------------------------------------------------------------------- the rows -- */

static int rows_is_idle(const struct row_group *group)
{
	static const uint64_t idle[ROW_LANES / WORD];

	return !memcmp(group->busy, idle, sizeof(idle));
}

/* Threads and streams have no end that is told of: the rows of one that does nothing now are taken from it. */
static int rows_group_idle(struct rows *rows, enum row_class what, uint64_t of)
{
	for (int i = 0; i < rows->groups; i++) {
		const enum row_class now = rows->group[i].what;

		if ((now == ROW_WAITS || now == ROW_STREAM) && rows_is_idle(&rows->group[i])) {
			rows->group[i] = (struct row_group){.what = what, .of = of};
			return i;
		}
	}
	return ROW_NONE;
}

static int rows_group(struct rows *rows, enum row_class what, uint64_t of)
{
	struct row_group *more;

	for (int i = rows->groups - 1; i >= 0; i--)
		if (rows->group[i].what == what && rows->group[i].of == of)
			return i;
	for (int i = 0; i < rows->groups; i++)
		if (rows->group[i].what == ROW_FREE) {
			rows->group[i] = (struct row_group){.what = what, .of = of};
			return i;
		}
	if (rows->groups == ROWS_GROUPS_MOST)
		return rows_group_idle(rows, what, of);
	more = array_grow(rows->group, rows->groups, &rows->group_capacity, sizeof(*more));
	if (!more)
		return ROW_NONE;
	rows->group = more;
	more[rows->groups] = (struct row_group){.what = what, .of = of};
	return rows->groups++;
}

/* The END of a step that has no BEGIN may come after the END of a step that began later. */
static int rows_free_lane(const struct row_group *group, int64_t begin_ns)
{
	int later = ROW_NONE;

	for (int i = 0; i < ROW_LANES; i++) {
		if (group->busy[i / WORD] >> i % WORD & 1)
			continue;
		if (group->last[i] <= begin_ns)
			return i;
		if (later == ROW_NONE)
			later = i;
	}
	return later;
}

int rows_place(struct rows *rows, struct row_open *open, enum row_class what, uint64_t of,
	       int64_t begin_ns, int *is_new)
{
	const int number = rows_group(rows, what, of);
	struct row_group *group = number == ROW_NONE ? NULL : &rows->group[number];
	const int lane = group ? rows_free_lane(group, begin_ns) : ROW_NONE;

	if (lane == ROW_NONE)
		return -1;
	group->busy[lane / WORD] |= UINT64_C(1) << lane % WORD;
	*is_new = !group->tid[lane];
	if (*is_new)
		group->tid[lane] = ++rows->tids;
	open->group = number;
	open->lane = lane;
	return 0;
}

int rows_thread(const struct rows *rows, const struct row_open *open)
{
	int number = 0;

	for (int i = 0; i <= open->group; i++)
		number += rows->group[i].what == ROW_WAITS;
	return number;
}

int32_t rows_tid(const struct rows *rows, const struct row_open *open)
{
	return rows->group[open->group].tid[open->lane];
}

int64_t rows_time(struct rows *rows, const struct row_open *open, int64_t time_ns)
{
	int64_t *last = &rows->group[open->group].last[open->lane];

	if (time_ns > *last)
		*last = time_ns;
	return *last;
}

/* -------------------------------------------------------------- the communicators -- */

const struct row_comm *rows_comm(const struct rows *rows, uint64_t comm)
{
	static const struct row_comm unknown = {.name = "?", .rank = -1};

	for (int i = rows->comms - 1; i >= 0; i--)
		if (rows->comm[i].comm == comm)
			return &rows->comm[i];
	return &unknown;
}

static struct row_comm *rows_comm_of(struct rows *rows, const struct row_open *call)
{
	const struct row_comm *comm = rows_comm(rows, call->comm);

	return comm->rank >= 0 && call->lane_of < ROW_COMM_LANES ? &rows->comm[comm - rows->comm]
								 : NULL;
}

void rows_note_end(struct rows *rows, const struct row_open *call)
{
	struct row_comm *comm = rows_comm_of(rows, call);

	if (!comm || call->number <= comm->ended[call->lane_of].number)
		return;
	comm->ended[call->lane_of].number = call->number;
	comm->ended[call->lane_of].issued_ns = call->issued_ns;
}

int rows_is_past(struct rows *rows, const struct row_open *call)
{
	const struct row_comm *comm = rows_comm_of(rows, call);

	return comm && comm->ended[call->lane_of].number > call->number &&
	       comm->ended[call->lane_of].issued_ns > rows_time(rows, call, 0);
}

/* FNV-1a. */
static uint64_t rows_hash(uint64_t job, const char *text)
{
	uint64_t hash = UINT64_C(0xcbf29ce484222325) ^ job;

	for (; *text; text++)
		hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
	return hash;
}

int rows_add_comm(struct rows *rows, uint64_t comm, const struct timeline_more *more)
{
	struct row_comm *list =
		array_grow(rows->comm, rows->comms, &rows->comm_capacity, sizeof(*list));

	if (!list)
		return -1;
	rows->comm = list;
	list += rows->comms++;
	*list = (struct row_comm){.comm = comm,
				  .nranks = more->nranks,
				  .rank = more->rank,
				  .hash = rows_hash(more->job, more->comm_id)};
	strncpy(list->name, more->comm_id, sizeof(list->name) - 1);
	return 0;
}

/* The rows of the communicator stay in the file, and serve no other communicator. */
static void rows_remove_groups(struct rows *rows, uint64_t comm)
{
	for (int i = 0; i < rows->groups; i++) {
		struct row_group *group = &rows->group[i];

		if (group->of == comm && group->what != ROW_STREAM && group->what != ROW_WAITS &&
		    rows_is_idle(group))
			group->what = ROW_FREE;
	}
}

void rows_remove_comm(struct rows *rows, uint64_t comm)
{
	rows_remove_groups(rows, comm);
	for (int i = 0; i < rows->comms; i++)
		if (rows->comm[i].comm == comm) {
			rows->comm[i] = rows->comm[--rows->comms];
			return;
		}
}

/* ------------------------------------------------------------------- the messages -- */

static uint64_t rows_mix(uint64_t hash, uint64_t value)
{
	hash = (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15);
	return hash ^ hash >> 29;
}

static int rows_flow_is(const struct row_flow *a, const struct row_flow *b)
{
	return a->turn && a->comm == b->comm && a->lane == b->lane && a->number == b->number &&
	       a->peer == b->peer && a->sends == b->sends;
}

/* Returns the place of the flow, or gives it the place of the oldest around. */
static struct row_flow *rows_flow_at(struct rows *rows, const struct row_flow *key, uint64_t hash)
{
	struct row_flow *oldest = NULL;

	for (uint64_t i = 0; i < ROW_FLOW_PLACES; i++) {
		struct row_flow *flow = &rows->flow[(hash + i) % ROW_FLOWS];

		if (rows_flow_is(flow, key)) {
			oldest = flow;
			break;
		}
		if (!oldest || flow->turn < oldest->turn)
			oldest = flow;
	}
	if (!rows_flow_is(oldest, key))
		*oldest = *key;
	oldest->turn = ++rows->flow_turn;
	return oldest;
}

uint64_t rows_flow(struct rows *rows, const struct timeline_record *record)
{
	const struct row_flow key = {.comm = record->comm,
				     .number = record->number,
				     .lane = record->lane,
				     .peer = record->peer,
				     .sends = record->step == COLL_STEP_SEND};
	const struct row_comm *comm;
	struct row_flow *flow;
	uint64_t hash;

	if (record->what != COLL_OBSERVE_STEP || !record->collective || record->peer < 0 ||
	    record->step < COLL_STEP_SEND || record->step > COLL_STEP_RECV_REDUCE)
		return 0;
	comm = rows_comm(rows, record->comm);
	hash = rows_mix(rows_mix(comm->hash + record->lane, record->number),
			(uint64_t)(uint32_t)record->peer << 1 | (uint64_t)key.sends);
	flow = rows_flow_at(rows, &key, hash);
	hash = rows_mix(comm->hash + record->lane, record->collective);
	hash = rows_mix(hash, (uint64_t)(uint32_t)(key.sends ? comm->rank : record->peer));
	hash = rows_mix(hash, (uint64_t)(uint32_t)(key.sends ? record->peer : comm->rank));
	return rows_mix(hash, flow->count++) | 1;
}

void rows_free(struct rows *rows)
{
	free(rows->group);
	free(rows->table.open);
	free(rows->comm);
	memset(rows, 0, sizeof(*rows));
}
