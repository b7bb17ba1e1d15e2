/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call_log_dump.c - the file with the last operations of a failed communicator: one line each, for tools that
 * compare the files of all ranks.
 */
#include "watch/call_log_dump.h"
#include "comm/staging_sites.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/user_file.h"
#include "comm/lane_log.h"
#include "page/rows.h"
#include "schedule/algo.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
	DUMP_NAMES = 32, /* names that are tried for one file */
	DUMP_NAME_SIZE = 128
};

/* ---------------------------------------------------------------------- the directory -- */

void call_log_check_dump(struct lane *lane)
{
	const char *path = config_string(lane->context->config, "dump");
	int fd;

	if (!path || !path[0])
		return;
	fd = user_directory_open(path);
	if (fd < 0)
		lane_log(
			lane, COLL_LOG_WARN,
			"the last operations of a failed communicator cannot be written to the "
			"directory '%s' (option dump, set by %s): %s; make it a directory in which "
			"this user may make files",
			path, config_source(lane->context->config, "dump"), error_text());
	else
		close(fd);
}

/* ------------------------------------------------------------------------- the name -- */

/* Makes a new file.  A program that makes communicator after communicator may use a name again. */
static int dump_open(const struct lane *lane, int directory, char name[DUMP_NAME_SIZE])
{
	const unsigned long long job = (unsigned long long)context_job(lane->context);
	char id[32], again[16] = "";
	int fd = -1;

	comm_write_id(lane, id);
	for (int n = 1; fd < 0 && n <= DUMP_NAMES; n++) {
		if (n > 1)
			snprintf(again, sizeof(again), "-%d", n);
		snprintf(name, DUMP_NAME_SIZE, "coll-%016llx-comm-%s-rank-%d-pid-%ld%s.txt", job,
			 id, lane->comm->rank, (long)getpid(), again);
		fd = descriptor_lift(openat(directory, name,
					    O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
					    0600));
		if (fd < 0 && errno != EEXIST)
			break;
	}
	return fd;
}

/* ------------------------------------------------------------------------ the text -- */

/* The algorithm that composes a collective, or "-". */
static const char *dump_algorithm(const struct lane *lane, const struct record *op)
{
	const struct algo *algo = NULL;

	if (kind_at(op->kind)->is_collective && !lane->native)
		algo = algo_at(words_algorithm(op->meta));
	return algo ? algo->name : "-";
}

static void dump_add_head(struct rows *rows, const struct lane *lane)
{
	const struct context *context = lane->context;
	char id[32], staged[512], connections[512];
	const struct rows_of of = {.title = "the last operations of a communicator that failed",
				   .id = id,
				   .host = bootstrap_peer(context->bootstrap, context->rank)->host,
				   .backend = context->plugin->backend.name,
				   .job = context_job(context),
				   .rank = lane->comm->rank,
				   .nranks = lane->comm->nranks,
				   .world_rank = lane->to_context_rank[lane->comm->rank],
				   .pid = (long)getpid()};

	comm_write_id(lane, id);
	rows_add_head(rows, &of);
	rows_add(rows, "# failed");
	rows_add_time(rows, clock_now_us());
	rows_add(rows, " code %d text ", lane->error);
	rows_add_plain(rows, comm_failure(lane));
	staging_count(lane, staged, sizeof(staged));
	if (staged[0])
		rows_add(rows, "\n# copied through host memory: %s", staged);
	context_describe(context, connections, sizeof(connections));
	if (connections[0])
		rows_add(rows, "\n# connections: %s", connections);
	rows_add(rows, "\n");
	rows_add_columns(rows);
}

static void dump_fill(struct rows *rows, struct lane *lane)
{
	const struct rank_words ranks = signature_ranks(lane);
	const struct record *op;
	const struct record *message;

	rows->offset_us = clock_day_us() - clock_now_us();
	dump_add_head(rows, lane);
	for (uint64_t n = call_log_before(lane) + 1; (op = call_log_record(lane, n)); n++)
		rows_add_op(rows, &ranks, lane->native != NULL, n, op, dump_algorithm(lane, op));
	for (uint64_t n = 0; (message = call_log_message(lane, n)); n++)
		rows_add_message(rows, &ranks, message);
}

/* -------------------------------------------------------------------------- the file -- */

static int dump_write(int fd, const struct rows *rows)
{
	size_t done = 0;
	int tries = 0;

	if (!descriptor_may_grow(rows->used))
		return error_set(COLL_ERR_SYSTEM, "%s (ulimit -f)", strerror(EFBIG));
	while (done < rows->used) {
		ssize_t n = write(fd, rows->text + done, rows->used - done);

		if (interrupted(n, &tries))
			continue;
		if (n < 0)
			return error_set(COLL_ERR_SYSTEM, "%s", strerror(errno));
		done += (size_t)n;
	}
	return COLL_SUCCESS;
}

static int dump_make(struct lane *lane, int directory, char name[DUMP_NAME_SIZE])
{
	struct rows *rows = calloc(1, sizeof(*rows));
	int fd, code;

	if (!rows)
		return error_set(COLL_ERR_NO_MEMORY, "no memory");
	fd = dump_open(lane, directory, name);
	if (fd < 0) {
		free(rows);
		return error_set(COLL_ERR_SYSTEM, "%s", strerror(errno));
	}
	dump_fill(rows, lane);
	code = dump_write(fd, rows);
	if (close(fd) && !code)
		code = error_set(COLL_ERR_SYSTEM, "%s", strerror(errno));
	free(rows);
	return code;
}

static void call_log_dump(struct lane *lane, const char *path, int loud)
{
	CANCEL_OFF;
	char name[DUMP_NAME_SIZE] = "";
	struct rank_name own;
	int directory = user_directory_open(path);

	if (directory < 0)
		return; /* call_log_check_dump has warned */
	if (dump_make(lane, directory, name))
		lane_log(lane, COLL_LOG_WARN, "%s cannot write its last operations to '%s/%s': %s",
			 comm_own_name(lane, &own), path, name, error_text());
	else
		lane_log(lane, loud ? COLL_LOG_WARN : COLL_LOG_INFO,
			 "%s has written its last operations to '%s/%s'", comm_own_name(lane, &own),
			 path, name);
	close(directory);
}

/* -------------------------------------------------------------------------- the report -- */

/* The log line names so many operations at most, the oldest first: later operations wait for them. */
enum { LOG_NAMED = 3 };

/* " number 7, allreduce of 10 float32 (sum), running for 3.2 s;".  The text has room for five such names. */
static size_t call_log_name(const struct lane *lane, const struct record *op, uint64_t number,
			    int64_t now, char *text, size_t size)
{
	/* An operation that has failed the communicator in its first steps may have no date yet. */
	const int64_t since = op->ended_us     ? op->ended_us
			      : op->started_us ? op->started_us
			      : op->issued_us  ? op->issued_us
					       : now;
	char what[160];

	call_log_describe(lane, op, what, sizeof(what));
	return (size_t)snprintf(text, size, " number %llu, %s, %s %.3g s%s",
				(unsigned long long)number, what,
				op->ended_us     ? "done"
				: op->started_us ? "running for"
						 : "issued",
				(double)(now > since ? now - since : 0) / 1e6,
				op->started_us && !op->ended_us ? ";" : " ago;");
}

static int call_log_is_done(const struct lane *lane)
{
	const struct record *op;

	for (uint64_t n = call_log_before(lane) + 1; (op = call_log_record(lane, n)); n++)
		if (!op->ended_us)
			return 0;
	return 1;
}

/* The call that finds a failure may return it, before it becomes an operation: then no lane has an operation to name. */
static void call_log_warn_alone(struct lane *lane)
{
	struct rank_name name;

	for (int i = 0; i < LANES; i++)
		if (lane->comm->lane[i] && !call_log_is_done(lane->comm->lane[i]))
			return;
	lane_log(
		lane, COLL_LOG_WARN,
		"%s: the communicator has failed, and all its operations are done; the failure: %s",
		comm_own_name(lane, &name), comm_failure(lane));
}

static void call_log_warn(struct lane *lane, int loud)
{
	const int64_t now = clock_now_us();
	const uint64_t newest = lane->issued, before = call_log_before(lane);
	const struct record *op, *last = NULL;
	struct rank_name name;
	uint64_t undone = 0, done = 0;
	char text[800] = "";
	size_t at = 0;

	for (uint64_t n = before + 1; (op = call_log_record(lane, n)); n++)
		if (op->ended_us) {
			last = op;
			done = n;
		} else if (undone++ < LOG_NAMED)
			at += call_log_name(lane, op, n, now, text + at, sizeof(text) - at);
	if (!undone && loud && lane->index == LANE_FIRST)
		call_log_warn_alone(lane);
	if (!undone)
		return;
	if (undone > LOG_NAMED)
		at += (size_t)snprintf(text + at, sizeof(text) - at, " ...;");
	if (last) {
		at += (size_t)snprintf(text + at, sizeof(text) - at, " the last that is done:");
		at += call_log_name(lane, last, done, now, text + at, sizeof(text) - at);
	}
	text[at - 1] = '\0';
	lane_log(lane, loud ? COLL_LOG_WARN : COLL_LOG_INFO,
		 "%s: %llu of the last %llu operations of the failed "
		 "communicator are not done:%s; the failure: %s",
		 comm_own_name(lane, &name), (unsigned long long)undone,
		 (unsigned long long)(newest - before), text, comm_failure(lane));
}

void call_log_report(struct lane *lane, int loud)
{
	const char *directory = config_string(lane->context->config, "dump");
	char saved[ERROR_TEXT_SIZE]; /* the call that has found the failure may have its own */

	if (!lane->issued && !lane->log->messages)
		return;
	call_log_warn(lane, loud);
	if (!directory || !directory[0])
		return;
	snprintf(saved, sizeof(saved), "%s", error_text());
	call_log_dump(lane, directory, loud);
	error_set(COLL_SUCCESS, "%s", saved);
}
