/* SPDX-License-Identifier: BSD-3-Clause */
/* show.c - jobs as text and as JSON: see show.h. */
#include <coll/coll.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include "top/show.h"

enum { SHOW_LINE = 512, SHOW_HEAD = 3 };

/* -------------------------------------------------------------------------- the words -- */

/* "1.2K", of a rate; "-": not known. */
static void show_rate(double value, char text[16])
{
	static const char units[] = " KMGT";
	int unit = 0;

	while (value >= 1000 && units[unit + 1]) {
		value /= 1000;
		unit++;
	}
	if (value < 0)
		snprintf(text, 16, "-");
	else if (unit)
		snprintf(text, 16, "%.3g%c", value, units[unit]);
	else
		snprintf(text, 16, "%.0f", value);
}

static void show_seconds(double s, char text[16])
{
	if (s < 100)
		snprintf(text, 16, "%.1fs", s);
	else if (s < 6000)
		snprintf(text, 16, "%.0fm%02.0fs", (s - (double)((int64_t)s % 60)) / 60,
			 (double)((int64_t)s % 60));
	else
		snprintf(text, 16, "%.1fh", s / 3600);
}

static void show_operation(const struct job_comm *c, const struct record *op, char *text,
			   size_t size)
{
	const struct rank_words ranks = page_ranks(c->comm);

	words_operation(&ranks, op, text, size);
}

/* The number by which the ranks compare a call: of a collective that among the collectives. */
static void show_number(const struct record *op, uint64_t number, char *text, size_t size)
{
	if (kind_at(op->kind)->is_collective)
		snprintf(text, size, "collective %llu", op->seq_or_tag + 1ULL);
	else
		snprintf(text, size, "operation %" PRIu64, number);
}

/* "rank 1, 4", "rank 1, 4 and 7 more". */
static void show_awaited(const struct job_comm *c, char *text, size_t size)
{
	size_t at = 0;
	int shown = 0;

	text[0] = '\0';
	for (; shown < c->awaits && shown < 4; shown++)
		at += (size_t)snprintf(text + at, size - at, shown ? ", %d" : "rank %d",
				       c->awaited[shown]);
	if (c->awaits > shown)
		snprintf(text + at, size - at, " and %d more", c->awaits - shown);
}

/* What a rank does on the communicator that shows it best. */
static void show_doing(const struct job_rank *rank, char *text, size_t size)
{
	const struct job_comm *c = rank->shown;
	const struct record *op = c ? c->open ? c->open : c->ended : NULL;
	char what[192] = "", number[48], awaited[96] = "";
	const char *observer = page_observer(rank->view);
	int at = 0;

	if (!c) {
		snprintf(text, size, "no communicator");
		return;
	}
	if (observer)
		at = snprintf(text, size, "inside observer %s; ", observer);
	if (rank->comms > 1)
		at += snprintf(text + at, size - (size_t)at, "comm %s: ", c->comm->id);
	if (c->comm->failed) {
		snprintf(text + at, size - (size_t)at, "%s", c->comm->failure);
		return;
	}
	if (!op) {
		snprintf(text + at, size - (size_t)at, "has called nothing yet");
		return;
	}
	show_operation(c, op, what, sizeof(what));
	show_number(op, c->open ? c->open_number : c->ended_number, number, sizeof(number));
	if (c->comm->waiting || c->polls)
		show_awaited(c, awaited, sizeof(awaited));
	snprintf(text + at, size - (size_t)at, "%s%s, %s%s%s",
		 !c->open           ? "after "
		 : c->comm->waiting ? "in "
		 : c->polls         ? "polls for "
				    : "has called ",
		 what, number, awaited[0] ? "; waits for " : "", awaited);
}

/* ----------------------------------------------------------------------------- text -- */

/* hosts: the ranks are of several. */
static void show_rank(const struct job_rank *rank, int hosts, int columns)
{
	char line[SHOW_LINE + 1280], since[16] = "-", calls[16], bytes[16], doing[SHOW_LINE + 1024];
	char host[32] = "";

	if (rank->shown && job_since(rank->shown))
		show_seconds(job_seconds_since(rank, job_since(rank->shown)), since);
	show_rate(rank->calls_per_s, calls);
	show_rate(rank->bytes_per_s, bytes);
	show_doing(rank, doing, sizeof(doing));
	if (hosts)
		snprintf(host, sizeof(host), " %-12.16s", rank->view->head.host);
	snprintf(line, sizeof(line), "%c%5d%s %8d  %-8s %8s %8s %8s  %s", rank->behind ? '*' : ' ',
		 rank->view->head.rank, host, rank->view->head.pid, job_state_name(rank->state),
		 since, calls, bytes, doing);
	if (columns > 0 && (size_t)columns < sizeof(line))
		line[columns] = '\0';
	puts(line);
}

/* The rank that is behind is worth a line where not all fit. */
static int show_has_room(const struct job *job, int shown, int rank, int lines)
{
	const int room = lines - SHOW_HEAD - 1;

	if (lines <= 0 || job->ranks <= room)
		return 1;
	return shown < room / 2 || (shown < room && job->rank[rank].state != JOB_WAITS &&
				    job->rank[rank].state != JOB_POLLS);
}

/* Which ranks are shown, and how to see the others. */
static void show_head(const struct job *job)
{
	const struct page_head *head = &job->rank[0].view->head;
	const char *at = job->ranks < head->nranks ? job_look_at(job) : NULL;

	printf("job %016" PRIx64 ": %s on ", job->id, head->program);
	if (job->fetch)
		printf("%d host%s, %d of %d ranks, backend %s\n", job->fetch->nhosts,
		       job->fetch->nhosts > 1 ? "s" : "", job->ranks, head->nranks, head->backend);
	else
		printf("%s, %d of %d ranks here, backend %s%s%s\n", head->host, job->ranks,
		       head->nranks, head->backend, at ? "; all: coll top --job " : "",
		       at ? at : "");
	printf("  RANK%s      PID  STATE       SINCE  CALLS/S  BYTES/S  OPERATION (*: the rank is "
	       "behind)\n",
	       job->fetch ? " HOST        " : "");
}

/* Returns the number of lines. */
static int show_missing(const struct job *job, int columns)
{
	char text[FETCH_WHY + 160];
	int lines = 0;

	for (int h = 0; job->fetch && h < job->fetch->nhosts; h++) {
		if (!job_describe_missing(job, h, text, sizeof(text)))
			continue;
		if (columns > 2 && (size_t)columns - 2 < sizeof(text))
			text[columns - 2] = '\0';
		printf("  %s\n", text);
		lines++;
	}
	return lines;
}

void show_job(const struct job *job, int lines, int columns)
{
	int shown = 0, missing;

	show_head(job);
	missing = show_missing(job, columns);
	if (lines > 0)
		lines = lines > missing ? lines - missing : 1;
	for (int r = 0; r < job->ranks; r++) {
		if (!show_has_room(job, shown, r, lines))
			continue;
		show_rank(&job->rank[r], job->fetch != NULL, columns);
		shown++;
	}
	if (shown < job->ranks)
		printf("  ... %d more ranks\n", job->ranks - shown);
}

/* ----------------------------------------------------------------------------- JSON -- */

static void show_json_record(struct json *json, const char *key, const struct job_rank *rank,
			     const struct job_comm *c, const struct record *op, uint64_t number)
{
	char what[192];

	if (!op) {
		json_null(json, key);
		return;
	}
	show_operation(c, op, what, sizeof(what));
	json_object(json, key);
	json_int(json, "number", (int64_t)number);
	if (kind_at(op->kind)->is_collective)
		json_int(json, "collective", op->seq_or_tag + 1LL);
	else
		json_null(json, "collective");
	json_string(json, "kind", kind_is_valid(op->kind) ? kind_name(op->kind) : "await");
	json_int(json, "count", (int64_t)op->count);
	json_string(json, "dtype", coll_dtype_name(signature_dtype(op->meta)));
	json_number(json, "seconds_ago",
		    job_seconds_since(rank, op->ended_us ? op->ended_us : op->issued_us));
	json_string(json, "state", op->ended_us ? "done" : op->started_us ? "running" : "queued");
	json_string(json, "description", what);
	json_object_end(json);
}

static void show_json_awaited(struct json *json, const struct job_comm *c)
{
	json_array(json, "waits_for");
	for (int i = 0; i < c->awaits && i < PAGE_AWAITED; i++)
		json_int(json, NULL, c->awaited[i]);
	json_array_end(json);
	json_int(json, "waits_for_count", c->awaits);
}

static void show_json_comm(struct json *json, const struct job_rank *rank, const struct job_comm *c)
{
	json_object(json, NULL);
	json_string(json, "id", c->comm->id);
	json_string(json, "backend", c->comm->backend);
	json_int(json, "rank", c->comm->rank);
	json_int(json, "ranks", c->comm->nranks);
	json_int(json, "operations", (int64_t)c->comm->issued);
	json_int(json, "collectives", (int64_t)c->collectives);
	json_int(json, "most_collectives", (int64_t)c->most);
	json_bool(json, "behind", c->behind);
	json_bool(json, "waits", c->comm->waiting != 0);
	json_bool(json, "polls", c->polls);
	json_number(json, "seconds", job_seconds_since(rank, job_since(c)));
	show_json_awaited(json, c);
	show_json_record(json, "oldest_open", rank, c, c->open, c->open_number);
	show_json_record(json, "last_ended", rank, c, c->ended, c->ended_number);
	json_int(json, "error", c->comm->failed);
	json_string(json, "error_text", c->comm->failed ? c->comm->failure : NULL);
	json_object_end(json);
}

static void show_json_rate(struct json *json, const char *key, double rate)
{
	if (rate < 0)
		json_null(json, key);
	else
		json_number(json, key, rate);
}

static void show_json_rank(struct json *json, const struct job_rank *rank)
{
	const char state[2] = {rank->view->state, '\0'};
	char doing[SHOW_LINE + 1024];

	show_doing(rank, doing, sizeof(doing));
	json_object(json, NULL);
	json_int(json, "rank", rank->view->head.rank);
	json_string(json, "host", rank->view->head.host);
	json_int(json, "pid", rank->view->head.pid);
	json_string(json, "state", job_state_name(rank->state));
	json_string(json, "process_state", rank->view->life == PAGE_LIVES ? state : NULL);
	json_bool(json, "behind", rank->behind);
	json_string(json, "observer", page_observer(rank->view));
	json_string(json, "doing", doing);
	if (rank->shown && job_since(rank->shown))
		json_number(json, "seconds", job_seconds_since(rank, job_since(rank->shown)));
	else
		json_null(json, "seconds");
	show_json_rate(json, "calls_per_second", rank->calls_per_s);
	show_json_rate(json, "bytes_per_second", rank->bytes_per_s);
	json_int(json, "communicators_without_slot", rank->view->head.more);
	json_array(json, "communicators");
	for (int i = 0; i < rank->comms; i++)
		show_json_comm(json, rank, &rank->comm[i]);
	json_array_end(json);
	json_object_end(json);
}

static void show_json_hosts(struct json *json, const struct job *job)
{
	json_array(json, "hosts");
	for (int h = 0; job->fetch && h < job->fetch->nhosts; h++) {
		const struct fetch_host *host = &job->fetch->host[h];

		json_object(json, NULL);
		json_string(json, "host", host->name);
		json_int(json, "first_rank", host->rank);
		json_int(json, "ranks", host->ranks);
		json_bool(json, "answers", !host->code);
		json_string(json, "error_text", host->code ? host->why : NULL);
		json_object_end(json);
	}
	json_array_end(json);
}

void show_json(struct json *json, const struct job *job)
{
	const struct page_head *head = &job->rank[0].view->head;
	char id[32];

	snprintf(id, sizeof(id), "%016" PRIx64, job->id);
	json_object(json, NULL);
	json_string(json, "job", id);
	json_string(json, "program", head->program);
	json_string(json, "host", head->host);
	json_string(json, "backend", head->backend);
	json_string(json, "library", head->library);
	json_int(json, "ranks", head->nranks);
	json_bool(json, "lives", job->lives);
	json_string(json, "look_at", job_look_at(job));
	show_json_hosts(json, job);
	json_array(json, "ranks_here");
	for (int r = 0; r < job->ranks; r++)
		show_json_rank(json, &job->rank[r]);
	json_array_end(json);
	json_object_end(json);
}
