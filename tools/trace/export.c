/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * export.c - a job for simulators.
 *
 * GOAL, the text that txt2bin of LogGOPSim reads (its grammar: src/LogGOPSim/txt2bin.re of spcl/LogGOPSim, commit
 * d5bb14a): "num_ranks N", then for each rank a block of send, recv and calc with labels, and "l2 requires l1".
 *
 * Chakra, schema/protobuf/et_def.proto of mlcommons/chakra (commit 6dc63e1, version 0.0.4 of the traces): the metadata and
 * a node a call, in protobuf's JSON form, one after the other as chakra_jsonizer writes them.
 *
 * In both an operation waits for the operation that had ended last when it began; the trace knows no other reason.  Time in
 * which the rank had nothing under way is computation.  The files are read once for each rank, a merged file as often as it
 * has ranks.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <coll/coll.h>
#include "lib/json.h"
#include "lib/kinds.h"
#include "trace/trace.h"

enum { EXPORT_TAG = 0x7fffffff };

/* What stands on a row. */
struct export_row {
	uint64_t label; /* of the operation, or what it waits for */
	uint64_t steps; /* of the rank at the begin of the call */
};

/* Where the export of a rank is. */
struct export
{
	FILE *out;
	struct trace_rank *rank;
	uint64_t label;  /* of the last operation */
	uint64_t ended;  /* of the operation that ended last; 0: none */
	int64_t idle_ns; /* when the rank had nothing under way any more; 0: it has, or never had */
	int under_way;
	uint64_t steps;         /* so far */
	struct export_row *row; /* by tid */
	int32_t rows;
};

typedef int (*export_take)(struct export *export, const struct trace_slice *slice, int ends);

static int export_rows(struct export *export, int32_t tid)
{
	const int32_t rows = tid * 2 + 16;
	struct export_row *row;

	if (tid < export->rows)
		return 0;
	row = realloc(export->row, (size_t)rows * sizeof(*row));
	if (row == NULL)
		return trace_error("no memory");
	memset(row + export->rows, 0, (size_t)(rows - export->rows) * sizeof(*row));
	export->row = row;
	export->rows = rows;
	return 0;
}

/* Is it an operation of its own, no step of another? */
static int export_is_call(const struct trace_slice *slice)
{
	return slice->what == TRACE_CALL || slice->what == TRACE_MESSAGE;
}

/* Keeps count of what is under way.  Returns the nanoseconds of computation before a call. */
static int64_t export_pass(struct export *export, const struct trace_slice *slice, int ends)
{
	int64_t computed = 0;

	if (!export_is_call(slice))
		return 0;
	if (!ends && export->under_way == 0 && export->idle_ns != 0)
		computed = slice->begin_ns - export->idle_ns;
	export->under_way += ends ? -1 : 1;
	if (ends && export->under_way == 0)
		export->idle_ns = slice->end_ns;
	return computed > 0 ? computed : 0;
}

/* Passes the slices of a rank. */
static int export_file(struct trace_source *source, struct trace_file *file, struct export *export,
		       export_take take)
{
	const int64_t shift_ns = trace_source_shift(source, file);
	const struct trace_slice *slice;
	int got;

	if (trace_file_rewind(file) != 0)
		return -1;
	while ((got = trace_file_next(file)) > 0) {
		const int what = file->pid == export->rank->pid
					 ? trace_rank_take(export->rank, file, shift_ns, &slice)
					 : 0;

		if (what < 0 || (what > 0 && export_rows(export, slice->tid) != 0))
			return -1;
		if (what == TRACE_BREAKS)
			export_pass(export, slice, 1);
		else if (what > 0 && take(export, slice, what == TRACE_ENDS) != 0)
			return -1;
	}
	return got;
}

static int export_rank(struct trace_source *source, struct export *export, export_take take)
{
	int code = 0;

	for (int i = 0; i < source->files && code == 0; i++)
		if (source->merged || source->file_pid[i] == export->rank->pid)
			code = export_file(source, &source->file[i], export, take);
	free(export->row);
	return code;
}

/* -------------------------------------------------------------------------- GOAL -- */

static void goal_requires(struct export *export, uint64_t other)
{
	if (other != 0)
		fprintf(export->out, "l%" PRIu64 " requires l%" PRIu64 "\n", export->label, other);
}

static void goal_calc(struct export *export, int64_t ns)
{
	if (ns <= 0)
		return;
	fprintf(export->out, "l%" PRIu64 ": calc %" PRId64 "\n", ++export->label, ns);
	goal_requires(export, export->ended);
	export->ended = export->label;
}

/* peer -1: any rank; a tag of -1 matches any tag. */
static void goal_move(struct export *export, int sends, uint64_t bytes, int32_t peer, int64_t tag,
		      uint64_t after)
{
	fprintf(export->out, "l%" PRIu64 ": %s %" PRIu64 "b %s %" PRId32 " tag %" PRId64 "\n",
		++export->label, sends ? "send" : "recv", bytes, sends ? "to" : "from", peer, tag);
	goal_requires(export, after);
}

/* A collective whose messages the trace does not have: ceil(log2 n) rounds of the dissemination algorithm. */
static void goal_disseminate(struct export *export, const struct trace_slice *slice)
{
	const int32_t n = slice->nranks, own = slice->comm_rank;
	uint64_t after = export->ended;
	int round = 0;

	for (int64_t distance = 1; distance < n; distance *= 2, round++) {
		const int32_t to = (int32_t)((own + distance) % n);
		const int32_t from = (int32_t)((own + n - distance) % n);
		const int64_t tag = (int64_t)(trace_mix(slice->key, (uint64_t)round) & EXPORT_TAG);

		goal_move(export, 1, slice->bytes, trace_rank_world(export->rank, slice, to), tag,
			  after);
		goal_move(export, 0, slice->bytes, trace_rank_world(export->rank, slice, from), tag,
			  0);
		after = export->label;
	}
	export->ended = after;
}

static void goal_message(struct export *export, const struct trace_slice *slice)
{
	const int32_t peer =
		slice->peer < 0 ? -1 : trace_rank_world(export->rank, slice, slice->peer);
	const uint64_t tag = trace_mix(slice->comm, (uint32_t)slice->tag) & EXPORT_TAG;

	goal_move(export, slice->kind == COLL_KIND_SEND, slice->bytes, peer,
		  slice->tag == COLL_ANY_TAG ? -1 : (int64_t)tag, export->ended);
	export->row[slice->tid].label = export->label;
}

static void goal_call(struct export *export, const struct trace_slice *slice, int ends)
{
	if (slice->kind == COLL_KIND_SEND || slice->kind == COLL_KIND_RECV) {
		if (!ends)
			goal_message(export, slice);
		else
			export->ended = export->row[slice->tid].label;
	} else if (!ends) {
		export->row[slice->tid].steps = export->steps;
	} else if (export->row[slice->tid].steps == export->steps) {
		goal_disseminate(export, slice);
	}
}

static void goal_step(struct export *export, const struct trace_slice *slice, int ends)
{
	export->steps++;
	if (ends && slice->flow == 0) {
		goal_calc(export, slice->end_ns - slice->begin_ns);
	} else if (ends) {
		export->ended = export->row[slice->tid].label;
	} else if (slice->flow != 0) {
		goal_move(export, slice->sends, slice->bytes,
			  trace_rank_world(export->rank, slice, slice->peer),
			  (int64_t)(slice->flow & EXPORT_TAG), export->ended);
		export->row[slice->tid].label = export->label;
	}
}

static int goal_take(struct export *export, const struct trace_slice *slice, int ends)
{
	goal_calc(export, export_pass(export, slice, ends));
	if (export_is_call(slice))
		goal_call(export, slice, ends);
	else if (slice->what == TRACE_STEP && slice->collective != 0)
		goal_step(export, slice, ends);
	return 0;
}

int trace_export_goal(struct trace_source *source, FILE *out)
{
	const int32_t n = source->rank[source->ranks - 1].pid + 1;

	fprintf(out, "num_ranks %" PRId32 "\n", n);
	for (int32_t r = 0; r < n; r++) {
		struct export export = {.out = out, .rank = trace_source_rank(source, r)};

		fprintf(out, "\nrank %" PRId32 " {\n", r);
		if (export.rank != NULL && export_rank(source, &export, goal_take) != 0)
			return -1;
		fprintf(out, "}\n");
	}
	return 0;
}

/* ------------------------------------------------------------------------ Chakra -- */

/* CollectiveCommType; scans have none, and move what an allreduce does. */
static int64_t chakra_type(int32_t kind)
{
	switch (kind) {
	case COLL_KIND_REDUCE: return 1;
	case COLL_KIND_ALLGATHER:
	case COLL_KIND_ALLGATHERV: return 2;
	case COLL_KIND_GATHER:
	case COLL_KIND_GATHERV: return 3;
	case COLL_KIND_SCATTER:
	case COLL_KIND_SCATTERV: return 4;
	case COLL_KIND_BROADCAST: return 5;
	case COLL_KIND_ALLTOALL:
	case COLL_KIND_ALLTOALLV: return 6;
	case COLL_KIND_REDUCE_SCATTER:
	case COLL_KIND_REDUCE_SCATTERV: return 7;
	case COLL_KIND_BARRIER: return 9;
	default: return 0;
	}
}

/* Numbers of 64 bits are strings in protobuf's JSON form. */
static void chakra_number(struct json *json, const char *key, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	json_string(json, key, text);
}

static void chakra_begin(struct export *export, struct json *json, const char *name,
			 const char *type, uint64_t after, int64_t begin_ns, int64_t ns)
{
	*json = (struct json){.out = export->out};
	json_object(json, NULL);
	chakra_number(json, "id", ++export->label);
	json_string(json, "name", name);
	json_string(json, "type", type);
	if (after != 0) {
		json_array(json, "dataDeps");
		chakra_number(json, NULL, after);
		json_array_end(json);
	}
	chakra_number(json, "startTimeMicros", (uint64_t)(begin_ns > 0 ? begin_ns : 0) / 1000);
	chakra_number(json, "durationMicros", (uint64_t)(ns > 0 ? ns : 0) / 1000);
	json_array(json, "attr");
}

static void chakra_end(struct json *json)
{
	json_array_end(json);
	json_object_end(json);
}

static void chakra_long(struct json *json, const char *name, uint64_t number)
{
	json_object(json, NULL);
	json_string(json, "name", name);
	chakra_number(json, "int64Val", number);
	json_object_end(json);
}

static void chakra_int(struct json *json, const char *name, int64_t number)
{
	json_object(json, NULL);
	json_string(json, "name", name);
	json_int(json, "int32Val", number);
	json_object_end(json);
}

static void chakra_text(struct json *json, const char *name, const char *text)
{
	json_object(json, NULL);
	json_string(json, "name", name);
	json_string(json, "stringVal", text);
	json_object_end(json);
}

static void chakra_is_cpu(struct json *json, int is)
{
	json_object(json, NULL);
	json_string(json, "name", "is_cpu_op");
	json_bool(json, "boolVal", is);
	json_object_end(json);
}

static void chakra_compute(struct export *export, const struct trace_slice *slice, int64_t ns)
{
	struct json json;

	chakra_begin(export, &json, "computation", "COMP_NODE", export->ended, export->idle_ns, ns);
	chakra_is_cpu(&json, 1);
	chakra_end(&json);
	export->ended = export->label;
	export->row[slice->tid].label = export->label;
}

static void chakra_peer(struct export *export, struct json *json, const struct trace_slice *slice)
{
	const int sends = slice->kind == COLL_KIND_SEND;
	const int32_t peer =
		slice->peer < 0 ? -1 : trace_rank_world(export->rank, slice, slice->peer);

	chakra_int(json, "comm_src", sends ? export->rank->pid : peer);
	chakra_int(json, "comm_dst", sends ? peer : export->rank->pid);
	chakra_int(json, "comm_tag", slice->tag);
}

static void chakra_call(struct export *export, const struct trace_slice *slice)
{
	const char *type = slice->kind == COLL_KIND_SEND   ? "COMM_SEND_NODE"
			   : slice->kind == COLL_KIND_RECV ? "COMM_RECV_NODE"
							   : "COMM_COLL_NODE";
	struct json json;

	chakra_begin(export, &json, slice->name, type, export->row[slice->tid].label,
		     slice->begin_ns, slice->end_ns - slice->begin_ns);
	chakra_is_cpu(&json, 0);
	chakra_long(&json, "comm_size", slice->bytes);
	if (kinds_is_collective(slice->kind))
		chakra_long(&json, "comm_type", (uint64_t)chakra_type(slice->kind));
	else
		chakra_peer(export, &json, slice);
	chakra_int(&json, "comm_priority", 0);
	chakra_text(&json, "pg_name", slice->comm_name);
	chakra_end(&json);
	export->ended = export->label;
}

static int chakra_take(struct export *export, const struct trace_slice *slice, int ends)
{
	const int64_t computed = export_pass(export, slice, ends);

	if (!export_is_call(slice))
		return 0;
	if (!ends)
		export->row[slice->tid].label = export->ended;
	if (computed > 0)
		chakra_compute(export, slice, computed);
	if (ends)
		chakra_call(export, slice);
	return 0;
}

static int chakra_rank(struct trace_source *source, struct trace_rank *rank, const char *path)
{
	struct export export = {.out = trace_out_open(source, path), .rank = rank};
	struct json json = {.out = export.out};

	if (export.out == NULL)
		return -1;
	json_object(&json, NULL);
	json_string(&json, "version", "0.0.4");
	json_object_end(&json);
	return trace_out_close(export.out, path, export_rank(source, &export, chakra_take));
}

int trace_export_chakra(struct trace_source *source, const char *prefix)
{
	char path[4096];

	for (int i = 0; i < source->ranks; i++) {
		if ((size_t)snprintf(path, sizeof(path), "%s.%" PRId32 ".json", prefix,
				     source->rank[i].pid) >= sizeof(path))
			return trace_error("the prefix is too long");
		if (chakra_rank(source, &source->rank[i], path) != 0)
			return -1;
	}
	return 0;
}
