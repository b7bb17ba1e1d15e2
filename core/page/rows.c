/* SPDX-License-Identifier: BSD-3-Clause */
/* rows.c - the text of dumps: see rows.h. */
#include "page/rows.h"
#include "base/kind.h"

#include <stdarg.h>
#include <stdio.h>

void rows_add(struct rows *rows, const char *fmt, ...)
{
	const size_t capacity = sizeof(rows->text) - rows->used;
	va_list args;
	int n;

	va_start(args, fmt);
	n = vsnprintf(rows->text + rows->used, capacity, fmt, args);
	va_end(args);
	if (n > 0)
		rows->used += (size_t)n < capacity ? (size_t)n : capacity - 1;
}

void rows_add_plain(struct rows *rows, const char *text)
{
	size_t from = rows->used;

	rows_add(rows, "%s", text);
	for (; from < rows->used; from++)
		if ((unsigned char)rows->text[from] < ' ')
			rows->text[from] = ' ';
}

void rows_add_time(struct rows *rows, int64_t us)
{
	const int64_t at = (int64_t)((uint64_t)us + (uint64_t)rows->offset_us);

	if (us)
		rows_add(rows, " %lld.%03lld", (long long)(at / 1000000),
			 (long long)(at / 1000 % 1000));
	else
		rows_add(rows, " -");
}

static void rows_add_number(struct rows *rows, int known, long long number)
{
	if (known)
		rows_add(rows, " %lld", number);
	else
		rows_add(rows, " -");
}

static const char *rows_state(int native, const struct record *op)
{
	return op->ended_us ? "done" : op->started_us ? native ? "submitted" : "running" : "queued";
}

void rows_add_op(struct rows *rows, const struct rank_words *ranks, int native, uint64_t number,
		 const struct record *op, const char *algorithm)
{
	const int dtype = signature_dtype(op->meta), redop = (int)(op->meta[0] >> 16 & 0xffff);
	const size_t size = coll_dtype_size(dtype);
	const struct kind *kind = kind_at(op->kind);
	char what[192];

	words_operation(ranks, op, what, sizeof(what));
	rows_add(rows, "%llu", (unsigned long long)number);
	rows_add_number(rows, kind->is_collective && !native, op->seq_or_tag + 1LL);
	rows_add(rows, " %s %s", kind_is_valid(op->kind) ? kind_name(op->kind) : "await",
		 size ? coll_dtype_name(dtype) : "-");
	rows_add_number(rows, kind->reduces, redop);
	rows_add(rows, " %llu %llu", (unsigned long long)op->count,
		 (unsigned long long)(op->count * size));
	rows_add_number(rows, kind->is_p2p || kind->has_root, op->peer);
	rows_add_number(rows, kind->is_p2p || op->label, kind->is_p2p ? op->seq_or_tag : op->label);
	rows_add(rows, " %s", rows_state(native, op));
	rows_add_time(rows, op->issued_us);
	rows_add_time(rows, op->started_us);
	rows_add_time(rows, op->ended_us);
	rows_add(rows, " %s %s\n", algorithm, what);
}

void rows_add_message(struct rows *rows, const struct rank_words *ranks,
		      const struct record *message)
{
	const int dtype = signature_dtype(message->meta);
	char what[192];

	words_message(ranks, message, what, sizeof(what));
	rows_add(rows, "- - %s %s - %llu %llu %d %lld %s",
		 message->kind == COLL_KIND_SEND ? "isend" : "irecv", coll_dtype_name(dtype),
		 (unsigned long long)message->count,
		 (unsigned long long)(message->count * coll_dtype_size(dtype)), message->peer,
		 (int32_t)message->seq_or_tag == COLL_ANY_TAG ? -1LL
							      : (long long)message->seq_or_tag,
		 !message->ended_us ? "running"
		 : message->code    ? "failed"
				    : "done");
	rows_add_time(rows, message->issued_us);
	rows_add_time(rows, message->issued_us);
	rows_add_time(rows, message->ended_us);
	rows_add(rows, " - %s\n", what);
}

void rows_add_head(struct rows *rows, const struct rows_of *of)
{
	rows_add(rows,
		 "# libcoll %s: %s\n"
		 "# job %016llx communicator %s rank %d ranks %d world_rank %d host %s pid %ld "
		 "backend %s\n",
		 coll_version_string(), of->title, (unsigned long long)of->job, of->id, of->rank,
		 of->nranks, of->world_rank, of->host, of->pid, of->backend);
}

void rows_add_columns(struct rows *rows)
{
	rows_add(rows, "# times in seconds since 1970, in steps of the kernel's tick; -: not yet, "
		       "not known, or not of this kind\n"
		       "# number collective kind dtype op count bytes root_or_peer tag state "
		       "issued started ended algorithm description\n");
}
