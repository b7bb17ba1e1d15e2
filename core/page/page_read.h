/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * page_read.h - reads the pages of a user's ranks on this host, without their help: see page.h.
 *
 * The functions return copies.  The numbers of a copy are within their ranges, and its texts end, whatever the file held.  A copy
 * says what the rank was doing at some moment during the call; the record of the latest operation may be half written.
 */
#ifndef CORE_PAGE_PAGE_READ_H
#define CORE_PAGE_PAGE_READ_H

#include "page/page.h"
#include "page/page_directory.h"
#include "page/page_process.h"
#include "page/words.h"

struct page_view {
	struct page_head head;
	enum page_life life;
	char state; /* of the process: see page_process_look */
	char name[256];
	int directory; /* page_directory_open's */
	int comms;     /* communicators, by slot */
	struct page_comm *comm[PAGE_SLOTS];
	int64_t now_us; /* when the page was read, by the clock of the records */
};

/* Reads the page in an open file.  Returns NULL with error_text(): it is no page, or memory has run out. */
struct page_view *page_view_read(int fd);
void page_view_free(struct page_view *view);
/* Reads the page of that name in the first of n open directories that has it (-1: no directory).  NULL: it is in none. */
struct page_view *page_view_find(const int *directory, int n, const struct page_name *name);
/* Does the rank of the page tell how to look at its job (option watch)? */
int page_has_look_key(const struct page_view *view);

/* Replaces the control characters of a text that others wrote. */
void page_plain_text(char *text);
/* Makes a bad time 0, so that differences and sums of two times are in range too. */
void page_bound_time(int64_t *us);

struct page_list {
	int count, capacity;
	struct page_view **view; /* sorted by job, rank and pid */
	int bad;                 /* files that have the name of a page, but are none */
	char why[256];           /* why one of these files is no page */
};

/*
 * Reads all pages of the user, in all directories, also those of processes that have ended.  Returns 0; COLL_ERR_NO_MEMORY with
 * error_text().
 */
int page_list_read(struct page_list *list);
void page_list_free(struct page_list *list);
/* Adds a view, which the list owns then, at the end.  COLL_ERR_NO_MEMORY with error_text(). */
int page_list_add(struct page_list *list, struct page_view *view);
void page_list_sort(struct page_list *list);
/* Returns the page of the same job, rank and process in the sorted list, or NULL. */
struct page_view *page_list_find(const struct page_list *list, const struct page_view *like);
/* Removes the file of a page whose process is gone. */
void page_view_remove(const struct page_view *view);

/* The record of operation `number`, or NULL: it is none of the last. */
const struct record *page_record(const struct page_comm *comm, uint64_t number);
/* The log has the operations after this number. */
uint64_t page_record_before(const struct page_comm *comm);
/* The number of the oldest operation that has not ended, or 0. */
uint64_t page_oldest_open(const struct page_comm *comm);
/* The number of the newest operation that has ended, or 0. */
uint64_t page_last_ended(const struct page_comm *comm);
/* Message i of the last messages outside the order, the oldest first, or NULL: there are no more. */
const struct record *page_message(const struct page_comm *comm, int i);
/* The rank's number in the job, or -1: not known. */
int page_world_rank(const struct page_comm *comm, int rank);
/* How texts name the ranks of the communicator. */
struct rank_words page_ranks(const struct page_comm *comm);
/* The name of the observer that a thread of the rank is in, for an event of a communicator with a slot; or NULL. */
const char *page_observer(const struct page_view *view);

#endif
