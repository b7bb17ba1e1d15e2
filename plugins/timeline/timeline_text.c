/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline_text.c - records as text in the Trace Event Format, "JSON Array Format", that Perfetto and
 * chrome://tracing read.  A process is a rank, a thread a row; times are CLOCK_MONOTONIC in microseconds.
 *
 * Beside the events the file has metadata of libcoll's own, which `coll trace` reads:
 *   coll_clock   at the begin and end of the file: both clocks at one moment, and which host's clocks they are
 *   coll_comm    a communicator: its name on all ranks, and its ranks
 *   coll_timeline  at the end: how many events the file lacks
 */
#include "timeline.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/tables.h"

#include <coll/introspect.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define KIND_NAME(number, name, ...)  [number] = #name,
#define DTYPE_NAME(number, name, ...) [number] = #name,
#define OP_NAME(number, name, ...)    [number] = #name,

static const char *const text_kinds[] = {KINDS(KIND_NAME)};
static const char *const text_dtypes[] = {DTYPES(DTYPE_NAME)};
static const char *const text_ops[] = {OPS(OP_NAME)};
static const char *const text_steps[] = {[COLL_STEP_SEND] = "send to ",
					 [COLL_STEP_RECV] = "recv from ",
					 [COLL_STEP_RECV_REDUCE] = "recv and reduce from ",
					 [COLL_STEP_REDUCE] = "reduce",
					 [COLL_STEP_COPY] = "copy",
					 [COLL_STEP_FINISH] = "finish"};
static const char *const text_memory[] = {"", "host", "cuda", "", "managed"};

#define NAME_OF(list, number)                                                                      \
	((number) >= 0 && (size_t)(number) < sizeof(list) / sizeof((list)[0]) && (list)[number]    \
		 ? (list)[number]                                                                  \
		 : "")

enum { TEXT_DIGITS = 24, TEXT_FILE_END = 8, TEXT_RANK = 12, TEXT_STRINGS = 8 << 10 };

/* -------------------------------------------------------------------------- text -- */

/* Inlined, so that the compiler knows the lengths of constant texts. */
#define TEXT_INLINE __attribute__((always_inline)) static inline

/* text_start has made room. */
TEXT_INLINE void text_put(struct timeline *t, const char *text)
{
	const size_t size = strlen(text);

	memcpy(t->text + t->used, text, size);
	t->used += size;
}

static void text_put_digits(struct timeline *t, uint64_t number)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
				    "25262728293031323334353637383940414243444546474849"
				    "50515253545556575859606162636465666768697071727374"
				    "75767778798081828384858687888990919293949596979899";
	char digits[TEXT_DIGITS];
	size_t at = sizeof(digits);

	for (; number >= 100; number /= 100) {
		at -= 2;
		memcpy(digits + at, pairs + number % 100 * 2, 2);
	}
	if (number >= 10)
		digits[--at] = pairs[number * 2 + 1];
	digits[--at] = number >= 10 ? pairs[number * 2] : (char)('0' + number);
	memcpy(t->text + t->used, digits + at, sizeof(digits) - at);
	t->used += sizeof(digits) - at;
}

static inline void text_put_number(struct timeline *t, uint64_t number)
{
	if (number < 10)
		t->text[t->used++] = (char)('0' + number);
	else
		text_put_digits(t, number);
}

static void text_put_int(struct timeline *t, int64_t number)
{
	if (number < 0)
		t->text[t->used++] = '-';
	text_put_number(t, number < 0 ? -(uint64_t)number : (uint64_t)number);
}

static void text_put_hex(struct timeline *t, uint64_t number, int digits)
{
	for (int shift = (digits - 1) * 4; shift >= 0; shift -= 4)
		t->text[t->used++] = "0123456789abcdef"[number >> shift & 15];
}

/* A text of the outside, at most `most` bytes.  Bytes beyond ASCII become U+FFFD, since they may be no UTF-8. */
static void text_put_escaped(struct timeline *t, const char *text, size_t most)
{
	for (size_t i = 0; text && text[i] && i < most; i++) {
		const unsigned char c = (unsigned char)text[i];

		if (c == '"' || c == '\\')
			t->text[t->used++] = '\\';
		if (c >= 0x7f)
			text_put(t, "\\ufffd");
		else
			t->text[t->used++] = c < ' ' ? ' ' : (char)c;
	}
}

static void text_put_quoted(struct timeline *t, const char *text, size_t most)
{
	text_put(t, "\"");
	text_put_escaped(t, text, most);
	text_put(t, "\"");
}

TEXT_INLINE void text_member(struct timeline *t, const char *key, uint64_t number)
{
	text_put(t, key);
	text_put_number(t, number);
}

/* Makes room for an event of so many bytes.  Returns 0 if there is no memory. */
static int text_reserve(struct timeline *t, size_t size)
{
	char *more;

	if (t->used + size + TEXT_FILE_END > t->room)
		timeline_file_write(t);
	if (size + TEXT_FILE_END <= t->room)
		return 1;
	more = realloc(t->text, size + TEXT_FILE_END);
	if (!more)
		return 0;
	t->text = more;
	t->room = size + TEXT_FILE_END;
	return 1;
}

/* Begins an event: the separator, its phase, the rank and the row. */
TEXT_INLINE void text_start(struct timeline *t, const char *phase, int32_t tid)
{
	text_put(t, ",\n{\"ph\":\"");
	text_put(t, phase);
	text_put(t, "\",\"pid\":");
	text_put_number(t, (uint64_t)t->rank);
	text_put(t, ",\"tid\":");
	text_put_number(t, (uint64_t)tid);
}

TEXT_INLINE void text_time(struct timeline *t, const char *key, int64_t time_ns)
{
	const uint64_t ns = time_ns > 0 ? (uint64_t)time_ns : 0, part = ns % 1000;

	text_member(t, key, ns / 1000);
	t->text[t->used++] = '.';
	t->text[t->used++] = (char)('0' + part / 100);
	t->text[t->used++] = (char)('0' + part / 10 % 10);
	t->text[t->used++] = (char)('0' + part % 10);
}

/* ---------------------------------------------------------------------- metadata -- */

static void text_clocks(struct timeline *t)
{
	const int64_t before = clock_now_ns();
	struct timespec day;
	int64_t after;

	clock_gettime(CLOCK_REALTIME, &day);
	after = clock_now_ns();
	text_member(t, ",\"monotonic_ns\":", (uint64_t)(before + (after - before) / 2));
	text_member(t, ",\"wall_ns\":", (uint64_t)day.tv_sec * 1000000000 + (uint64_t)day.tv_nsec);
}

/* Ranks with the same text share one CLOCK_MONOTONIC: the boot of the kernel, and the time namespace. */
static void text_clock_name(char name[128])
{
	char boot[64] = "", space[48];
	FILE *file = descriptor_read("/proc/sys/kernel/random/boot_id");
	const ssize_t n = readlink("/proc/self/ns/time", space, sizeof(space) - 1);

	if (file) {
		if (!fgets(boot, sizeof(boot), file))
			boot[0] = '\0';
		fclose(file);
	}
	boot[strcspn(boot, "\n")] = '\0';
	space[n > 0 ? n : 0] = '\0';
	snprintf(name, 128, "%s %s", boot, space);
}

static void text_clock(struct timeline *t, const char *at)
{
	char name[128];

	text_clock_name(name);
	text_start(t, "M", 0);
	text_put(t, ",\"name\":\"coll_clock\",\"args\":{\"format\":1,\"at\":\"");
	text_put(t, at);
	text_put(t, "\",\"clock\":");
	text_put_quoted(t, name, sizeof(name));
	text_put(t, ",\"host\":");
	text_put_quoted(t, t->host, sizeof(t->host));
	text_member(t, ",\"process\":", (uint64_t)getpid());
	text_member(t, ",\"rank\":", (uint64_t)t->rank);
	text_member(t, ",\"ranks\":", (uint64_t)t->nranks);
	text_clocks(t);
	text_put(t, "}}");
}

void timeline_text_begin(struct timeline *t)
{
	if (!text_reserve(t, TIMELINE_EVENT * 3))
		return;
	text_start(t, "M", 0);
	text_member(t, ",\"name\":\"process_name\",\"args\":{\"name\":\"rank ", (uint64_t)t->rank);
	text_put(t, " (");
	text_put_escaped(t, t->host, sizeof(t->host));
	text_put(t, ")\"}}");
	text_start(t, "M", 0);
	text_member(
		t, ",\"name\":\"process_sort_index\",\"args\":{\"sort_index\":", (uint64_t)t->rank);
	text_put(t, "}}");
	text_clock(t, "begin");
}

/* Names a row when something stands on it first. */
static void text_row(struct timeline *t, const struct row_open *open)
{
	static const char *const names[] = {
		[ROW_CALLS] = "calls, communicator ", [ROW_STREAM] = "calls on stream 0x",
		[ROW_STEPS] = "steps, communicator ", [ROW_COPIES] = "copies, communicator ",
		[ROW_WAITS] = "waits of thread ",     [ROW_MESSAGES] = "messages, communicator "};
	const struct row_group *group = &t->rows.group[open->group];
	const int32_t tid = rows_tid(&t->rows, open);
	char name[96], lane[24] = "";

	if (open->lane > 0)
		snprintf(lane, sizeof(lane), " (%d)", open->lane + 1);
	if (group->what == ROW_WAITS)
		snprintf(name, sizeof(name), "%s%d%s", names[group->what],
			 rows_thread(&t->rows, open), lane);
	else if (group->what == ROW_STREAM)
		snprintf(name, sizeof(name), "%s%llx%s", names[group->what],
			 (unsigned long long)group->of, lane);
	else
		snprintf(name, sizeof(name), "%s%s%s", names[group->what],
			 rows_comm(&t->rows, group->of)->name, lane);
	text_start(t, "M", tid);
	text_put(t, ",\"name\":\"thread_name\",\"args\":{\"name\":");
	text_put_quoted(t, name, sizeof(name));
	text_put(t, "}}");
	text_start(t, "M", tid);
	text_member(t, ",\"name\":\"thread_sort_index\",\"args\":{\"sort_index\":",
		    (uint64_t)group->what * 100000 + (uint64_t)tid);
	text_put(t, "}}");
}

/* ------------------------------------------------------------------------ events -- */

static void text_name(struct timeline *t, const struct timeline_record *record)
{
	const int waits = record->what == COLL_OBSERVE_WAIT && !record->kind;
	const int number = waits ? rows_awaited(&t->rows, record) : record->kind;
	const char *kind = NAME_OF(text_kinds, number);

	switch (record->what) {
	case COLL_OBSERVE_STEP:
		text_put(t, NAME_OF(text_steps, record->step));
		if (record->step <= COLL_STEP_RECV_REDUCE)
			text_put_int(t, record->peer);
		break;
	case COLL_OBSERVE_COPY:
		text_put(t, record->step ? "copy to the device" : "copy to host memory");
		break;
	case COLL_OBSERVE_MESSAGE:
		text_put(t, record->kind == COLL_KIND_SEND ? "isend to " : "irecv from ");
		record->peer < 0 ? text_put(t, "any") : text_put_int(t, record->peer);
		break;
	case COLL_OBSERVE_WAIT:
		text_put(t, "wait");
		if (kind[0]) {
			text_put(t, " for ");
			text_put(t, kind);
		}
		if (record->peer >= 0) {
			text_put(t, ", rank ");
			text_put_int(t, record->peer);
		}
		break;
	default: text_put(t, kind[0] ? kind : "operation");
	}
}

TEXT_INLINE void text_put_word(struct timeline *t, const char *key, const char *word)
{
	if (!word[0])
		return;
	text_put(t, key);
	text_put(t, word);
	text_put(t, "\"");
}

/* The numbers that tell which call it is, and what it moves. */
static void text_args(struct timeline *t, const struct timeline_record *record)
{
	text_member(t, ",\"args\":{\"comm\":", record->comm);
	if (record->number)
		text_member(t, ",\"number\":", record->number);
	if (record->collective)
		text_member(t, ",\"collective\":", record->collective);
	if (record->lane)
		text_member(t, ",\"lane\":", record->lane);
	if (record->what == COLL_OBSERVE_WAIT)
		return;
	text_member(t, ",\"bytes\":", record->bytes);
	if (record->peer >= 0)
		text_member(t, ",\"peer\":", (uint64_t)record->peer);
}

static void text_call_args(struct timeline *t, const struct timeline_record *record)
{
	text_member(t, ",\"count\":", record->count);
	text_put_word(t, ",\"dtype\":\"", NAME_OF(text_dtypes, record->dtype));
	text_put_word(t, ",\"op\":\"", NAME_OF(text_ops, record->op));
	if (record->algorithm) {
		text_put(t, ",\"algorithm\":");
		text_put_quoted(t, record->algorithm, 64);
	}
	text_put_word(t, ",\"send_memory\":\"", NAME_OF(text_memory, (int)record->send_memory));
	text_put_word(t, ",\"recv_memory\":\"", NAME_OF(text_memory, (int)record->recv_memory));
	if (record->kind == COLL_KIND_SEND || record->kind == COLL_KIND_RECV) {
		text_put(t, ",\"tag\":");
		text_put_int(t, record->tag);
	}
	if (record->stream) {
		text_put(t, ",\"stream\":\"0x");
		text_put_hex(t, record->stream, 16);
		text_put(t, "\"");
	}
}

static const char *text_category(const struct timeline_record *record)
{
	switch (record->what) {
	case COLL_OBSERVE_CALL: return "call";
	case COLL_OBSERVE_STEP: return "step";
	case COLL_OBSERVE_COPY: return "copy";
	case COLL_OBSERVE_WAIT: return "wait";
	default: return "message";
	}
}

static void text_begin_event(struct timeline *t, const struct timeline_record *record,
			     const struct row_open *open)
{
	const uint64_t flow = rows_flow(&t->rows, record);

	text_start(t, "B", rows_tid(&t->rows, open));
	text_time(t, ",\"ts\":", rows_time(&t->rows, open, record->time_ns));
	text_put(t, ",\"cat\":\"");
	text_put(t, text_category(record));
	text_put(t, "\",\"name\":\"");
	text_name(t, record);
	text_put(t, "\"");
	text_args(t, record);
	if (record->what == COLL_OBSERVE_CALL || record->what == COLL_OBSERVE_MESSAGE)
		text_call_args(t, record);
	if (record->issued_ns)
		text_time(t, ",\"issued\":", record->issued_ns);
	if (record->what == COLL_OBSERVE_STEP || record->what == COLL_OBSERVE_COPY) {
		text_put(t, ",\"index\":");
		text_put_int(t, record->index);
	}
	if (flow) {
		text_put(t,
			 record->step == COLL_STEP_SEND ? ",\"sends\":\"0x" : ",\"receives\":\"0x");
		text_put_hex(t, flow, 16);
		text_put(t, "\"");
	}
	text_put(t, "}}");
}

static void text_end_event(struct timeline *t, const struct row_open *open, int64_t time_ns,
			   const struct timeline_record *record)
{
	text_start(t, "E", rows_tid(&t->rows, open));
	text_time(t, ",\"ts\":", rows_time(&t->rows, open, time_ns));
	if (!record)
		text_put(t, ",\"args\":{\"unfinished\":1}");
	else if (record->code || record->what == COLL_OBSERVE_CALL) {
		text_put(t, ",\"args\":{\"code\":");
		text_put_int(t, record->code);
		text_put(t, "}");
	}
	text_put(t, "}");
}

static int text_place(struct timeline *t, const struct timeline_record *record,
		      struct row_open *open)
{
	enum row_class what = ROW_CALLS;
	uint64_t of = record->comm;
	int is_new;

	switch (record->what) {
	case COLL_OBSERVE_STEP: what = ROW_STEPS; break;
	case COLL_OBSERVE_COPY: what = ROW_COPIES; break;
	case COLL_OBSERVE_MESSAGE: what = ROW_MESSAGES; break;
	case COLL_OBSERVE_WAIT:
		what = ROW_WAITS;
		of = record->thread;
		break;
	default:
		if (record->stream) {
			what = ROW_STREAM;
			of = record->stream;
		}
	}
	if (rows_place(&t->rows, open, what, of, record->time_ns, &is_new))
		return -1;
	if (is_new)
		text_row(t, open);
	return 0;
}

/* Returns the thing that has begun; NULL: there is no row for it, and it is counted as lost. */
static struct row_open *text_begin(struct timeline *t, const struct timeline_record *record)
{
	struct row_open *open = rows_find(&t->rows, record);

	if (open) { /* its END was lost */
		text_end_event(t, open, record->time_ns, NULL);
		rows_end(&t->rows, open);
	}
	open = rows_begin(&t->rows, record);
	if (open && !text_place(t, record, open)) {
		text_begin_event(t, record, open);
		return open;
	}
	if (open)
		rows_end(&t->rows, open);
	atomic_fetch_add(&t->lost, 1);
	return NULL;
}

static void text_end(struct timeline *t, const struct timeline_record *record,
		     struct row_open *open)
{
	text_end_event(t, open, record->time_ns, record);
	if (record->what == COLL_OBSERVE_CALL)
		rows_note_end(&t->rows, open);
	rows_end(&t->rows, open);
}

/*
 * Nothing is open for this END.  A call that ended in its queue has no BEGIN, and neither has a short step, so this function
 * writes both.  The BEGIN of anything else was lost, so this function writes nothing.
 */
static void text_end_alone(struct timeline *t, const struct timeline_record *record)
{
	struct timeline_record begin = *record;
	struct row_open *open = NULL;

	if (record->begin_ns) {
		begin.time_ns = record->begin_ns;
		begin.collective = rows_collective(&t->rows, record);
	}
	if (record->begin_ns || record->issued_ns)
		open = text_begin(t, &begin);
	if (open)
		text_end(t, record, open);
}

/* ------------------------------------------------------------------- lost events -- */

/* Was the thing's END lost?  At the END of a communicator all its things have ended, but not the waits of threads. */
static int text_is_over(struct timeline *t, const struct row_open *open, uint64_t ended_comm)
{
	if (ended_comm)
		return open->what && open->what != COLL_OBSERVE_WAIT && open->comm == ended_comm;
	switch (open->what) {
	case COLL_OBSERVE_CALL: return rows_is_past(&t->rows, open);
	case COLL_OBSERVE_STEP:
	case COLL_OBSERVE_COPY: return !rows_has_call(&t->rows, open);
	default: return 0;
	}
}

/*
 * Ends the things whose END was lost: of the communicator, or of all communicators if it is 0.  rows_end may move another
 * thing into the place of the thing that it ends.
 */
static void text_end_lost(struct timeline *t, uint64_t ended_comm, int64_t now_ns)
{
	for (size_t i = 0; i < t->rows.table.size; i++) {
		struct row_open *open = &t->rows.table.open[i];

		while (text_is_over(t, open, ended_comm) && text_reserve(t, TIMELINE_EVENT)) {
			text_end_event(t, open, now_ns, NULL);
			rows_end(&t->rows, open);
		}
	}
}

/* A communicator: the ranks in the job of its ranks. */
static void text_comm(struct timeline *t, const struct timeline_record *record)
{
	const struct timeline_more *more = record->more;

	if (!more || record->phase != COLL_OBSERVED_BEGIN) {
		text_end_lost(t, record->comm, record->time_ns);
		rows_remove_comm(&t->rows, record->comm);
		return;
	}
	if (rows_add_comm(&t->rows, record->comm, more) ||
	    !text_reserve(t, TEXT_STRINGS + (size_t)more->nranks * TEXT_RANK)) {
		atomic_fetch_add(&t->lost, 1);
		return;
	}
	text_start(t, "M", 0);
	text_member(t, ",\"name\":\"coll_comm\",\"args\":{\"comm\":", record->comm);
	text_put(t, ",\"id\":");
	text_put_quoted(t, more->comm_id, 256);
	text_put(t, ",\"job\":\"");
	text_put_hex(t, more->job, 16);
	text_put(t, "\",\"backend\":");
	text_put_quoted(t, more->backend, 256);
	text_member(t, ",\"rank\":", (uint64_t)more->rank);
	text_member(t, ",\"ranks\":", (uint64_t)more->nranks);
	text_member(t, ",\"parent\":", more->parent);
	text_put(t, ",\"world_ranks\":[");
	for (int32_t i = 0; more->world_ranks && i < more->nranks; i++) {
		text_put(t, i ? "," : "");
		text_put_int(t, more->world_ranks[i]);
	}
	text_put(t, "]}}");
}

static void text_instant(struct timeline *t, const char *name, int64_t time_ns)
{
	text_start(t, "i", 0);
	text_time(t, ",\"ts\":", time_ns);
	text_put(t, ",\"s\":\"p\",\"cat\":\"failure\",\"name\":");
	text_put_quoted(t, name, 256);
}

static void text_failure(struct timeline *t, const struct timeline_record *record)
{
	if (!text_reserve(t, TEXT_STRINGS))
		return;
	text_instant(t, "the communicator has failed", record->time_ns);
	text_member(t, ",\"args\":{\"comm\":", record->comm);
	text_put(t, ",\"code\":");
	text_put_int(t, record->code);
	text_put(t, ",\"text\":");
	text_put_quoted(t, record->more ? record->more->text : "", TEXT_STRINGS / 8);
	text_put(t, "}}");
}

/* -------------------------------------------------------------------------- all -- */

/* Ends the timeline at its bound: a mark says so in the file. */
static int text_is_full(struct timeline *t, const struct timeline_record *record)
{
	const struct timeline_more *more = record->more;
	const uint64_t ranks = more && more->nranks > 0 ? (uint64_t)more->nranks * TEXT_RANK : 0;
	const uint64_t size = t->file.size + t->used + TIMELINE_RESERVE + ranks;

	if (t->full || size < t->file.limit)
		return t->full;
	t->full = 1;
	text_instant(t, "the timeline ends here: its bound is reached (timeline_bytes)",
		     record->time_ns);
	text_member(t, ",\"args\":{\"bytes\":", t->file.limit);
	text_put(t, "}}");
	timeline_warn(t,
		      "the timeline '%s' ends at its bound of %llu bytes (timeline_bytes); the job "
		      "goes on without it",
		      t->path, (unsigned long long)t->file.limit);
	return 1;
}

void timeline_text_event(struct timeline *t, const struct timeline_record *record)
{
	const int ends = record->phase == COLL_OBSERVED_END;
	struct row_open *open = ends ? rows_find(&t->rows, record) : NULL;

	if (!text_reserve(t, TIMELINE_EVENT))
		return;
	if (record->what == COLL_OBSERVE_COMM && ends)
		text_comm(t, record);
	else if (open)
		text_end(t, record, open);
	else if (text_is_full(t, record))
		t->left_out++;
	else if (record->what == COLL_OBSERVE_COMM)
		text_comm(t, record);
	else if (record->what == COLL_OBSERVE_FAILURE)
		text_failure(t, record);
	else if (ends)
		text_end_alone(t, record);
	else
		text_begin(t, record);
}

void timeline_text_sweep(struct timeline *t)
{
	text_end_lost(t, 0, clock_now_ns());
}

void timeline_text_end(struct timeline *t)
{
	const int64_t now = clock_now_ns();

	for (size_t i = 0; i < t->rows.table.size; i++) {
		const struct row_open *open = &t->rows.table.open[i];

		if (open->what && text_reserve(t, TIMELINE_EVENT))
			text_end_event(t, open, now, NULL);
	}
	rows_free(&t->rows);
	if (!text_reserve(t, TIMELINE_EVENT * 2))
		return;
	text_start(t, "M", 0);
	text_member(t, ",\"name\":\"coll_timeline\",\"args\":{\"lost\":", atomic_load(&t->lost));
	text_member(t, ",\"left_out\":", t->left_out);
	text_put(t, "}}");
	text_clock(t, "end");
}

void timeline_more_free(struct timeline_more *more)
{
	if (!more)
		return;
	free(more->comm_id);
	free(more->host);
	free(more->backend);
	free(more->text);
	free(more->world_ranks);
	free(more);
}
