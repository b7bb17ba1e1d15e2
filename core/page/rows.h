/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * rows.h - the text of the files of the option `dump` and of `coll dump`: lines about the communicator, then a row for each
 * operation and message, for tools that compare the files of all ranks.
 */
#ifndef CORE_PAGE_ROWS_H
#define CORE_PAGE_ROWS_H

#include "page/words.h"

enum { ROWS_SIZE = 64 << 10 };

struct rows {
	char text[ROWS_SIZE];
	size_t used;
	int64_t offset_us; /* from the clock of the records to the time of day */
};

/* What the head says of the communicator. */
struct rows_of {
	const char *title, *id, *host, *backend;
	uint64_t job;
	int rank, nranks, world_rank;
	long pid;
};

/* Appends text; what does not fit is lost. */
__attribute__((format(printf, 2, 3))) void rows_add(struct rows *rows, const char *fmt, ...);
/* Appends " SECONDS.MS", or " -" of 0. */
void rows_add_time(struct rows *rows, int64_t us);
/* Appends text without control characters. */
void rows_add_plain(struct rows *rows, const char *text);

/* The two lines of the head, and the two lines about the columns. */
void rows_add_head(struct rows *rows, const struct rows_of *of);
void rows_add_columns(struct rows *rows);
/* The row of operation `number`; native: the backend executes the calls.  algorithm: "-" if the operation has none. */
void rows_add_op(struct rows *rows, const struct rank_words *ranks, int native, uint64_t number,
		 const struct record *op, const char *algorithm);
/* A message has the columns of an operation, but no number, and it begins at once. */
void rows_add_message(struct rows *rows, const struct rank_words *ranks,
		      const struct record *message);

#endif
