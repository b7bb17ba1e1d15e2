/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * page_file.h - the page of a rank of this process, which the rank writes: see page.h.
 *
 * A process has a page for each rank of each job that it runs.  The first page_take of a rank makes its page, the last
 * page_drop removes it.  A process that exits before its last page_drop removes its pages too.  The pages of a killed process
 * stay until a reader or the next job finds that the process is gone.  Any thread may call the functions.
 */
#ifndef CORE_PAGE_PAGE_FILE_H
#define CORE_PAGE_PAGE_FILE_H

#include "page/page.h"

struct page;

struct page_of {
	uint64_t job;
	int rank, nranks;
	const char *host, *backend;
	int is_first; /* of the job's ranks on this host: the first rank removes the pages of dead processes */
};

/*
 * Returns the page of the rank with one more reference.  Makes it if there is none.  Returns NULL with error_text() if it can
 * be made in no directory; the next page_take of this process then fails at once.
 */
struct page *page_take(const struct page_of *of);
void page_drop(struct page *page);

struct page_head *page_head(struct page *page);

/*
 * Returns a slot, zeroed, with the blocks of these parts; NULL with error_text(): no slot is free, or the file system is full.
 * The text is "" if the page has refused a slot before.  Readers pass over the slot until page_publish_slot.
 */
struct page_comm *page_take_slot(struct page *page, uint32_t parts);
/* Shows readers the slot, which the caller has filled. */
void page_publish_slot(struct page_comm *slot);
void page_drop_slot(struct page *page, struct page_comm *slot);
/* Allocates a part of a slot, zeroed.  Returns 0, or -1: the file system is full. */
int page_add_part(struct page *page, struct page_comm *slot, uint32_t part);

#endif
