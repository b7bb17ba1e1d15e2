/* SPDX-License-Identifier: BSD-3-Clause */
/* page_read.c - reads pages: see page_read.h. */
#include "page/page_read.h"
#include "base/array.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/json_text.h"
#include "page/page_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* So often a reader tries to read a slot unchanged; a rank that makes calls all the time changes its slot each time. */
enum { READ_TRIES = 8 };

/* A time of a page that is further from 0 than this, 73,000 years, is no time. */
#define READ_MOST_US (INT64_MAX / 4)

/* A list has so many pages at most: no host has so many ranks. */
enum { READ_PAGES = 1 << 16 };

/* ------------------------------------------------------------------------ one page -- */

static int read_at(int fd, void *out, size_t bytes, off_t at)
{
	size_t done = 0;

	while (done < bytes) {
		const ssize_t n = pread(fd, (char *)out + done, bytes - done, at + (off_t)done);

		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			return -1;
		done += (size_t)n;
	}
	return 0;
}

#define READ_END(text) ((text)[sizeof(text) - 1] = '\0')

/* Control characters in a text could change a terminal: ASCII's, and U+0080 to U+009F in UTF-8 or as a byte of Latin 1. */
void page_plain_text(char *text)
{
	unsigned char *at = (unsigned char *)text;
	size_t n;

	for (; *at; at += n ? n : 1) {
		n = json_text_utf8(at);
		if (n == 2 && at[0] == 0xc2 && at[1] < 0xa0)
			at[0] = at[1] = '?';
		else if (!n || *at < ' ' || *at == 127)
			*at = '?';
	}
}

static int read_head(int fd, struct page_head *head)
{
	struct stat st;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return error_set(COLL_ERR_SYSTEM, "it is no regular file");
	if (st.st_uid != geteuid())
		return error_set(COLL_ERR_PERMISSION, "it belongs to user %u", (unsigned)st.st_uid);
	if (read_at(fd, head, sizeof(*head), 0) ||
	    memcmp(head->magic, PAGE_MAGIC, sizeof(head->magic)) != 0)
		return error_set(COLL_ERR_SYSTEM, "it is no page, or not complete");
	if (head->version != PAGE_VERSION || head->head_bytes != PAGE_BLOCK ||
	    head->slot_bytes != PAGE_SLOT || head->slots != PAGE_SLOTS)
		return error_set(COLL_ERR_VERSION,
				 "it is of another version of libcoll (format %u, here %d): use "
				 "the program coll of that version",
				 (unsigned)head->version, PAGE_VERSION);
	READ_END(head->boot);
	READ_END(head->host);
	READ_END(head->backend);
	READ_END(head->program);
	READ_END(head->library);
	READ_END(head->look_at);
	for (int i = 0; i < PAGE_OBSERVERS; i++) {
		READ_END(head->observer[i]);
		page_plain_text(head->observer[i]);
	}
	page_plain_text(head->host);
	page_plain_text(head->backend);
	page_plain_text(head->program);
	page_plain_text(head->library);
	page_plain_text(head->look_at);
	if (head->realtime_us < -READ_MOST_US || head->realtime_us > READ_MOST_US)
		head->realtime_us = 0;
	if (head->rank < 0 || head->nranks <= head->rank || head->pid <= 0)
		return error_set(COLL_ERR_SYSTEM, "its rank or its process is no number");
	return COLL_SUCCESS;
}

void page_bound_time(int64_t *us)
{
	if (*us < 0 || *us > READ_MOST_US)
		*us = 0;
}

/* No record has a kind, a time or a rank that the functions of this file cannot take. */
static void read_bound_records(struct record *record)
{
	for (int i = 0; i < LOG_RECORDS; i++) {
		if (record[i].kind < 0 || record[i].kind > KIND_AWAIT)
			record[i].kind = 0;
		page_bound_time(&record[i].issued_us);
		page_bound_time(&record[i].started_us);
		page_bound_time(&record[i].ended_us);
	}
}

/* Brings all numbers of a slot into their ranges.  Returns -1 if the ranks of the communicator are none. */
static int read_bound(struct page_comm *comm)
{
	if (comm->nranks <= 0 || comm->rank < 0 || comm->rank >= comm->nranks)
		return -1;
	READ_END(comm->id);
	READ_END(comm->backend);
	READ_END(comm->failure);
	page_plain_text(comm->id);
	page_plain_text(comm->backend);
	page_plain_text(comm->failure);
	if (comm->awaited_count < 0)
		comm->awaited_count = 0;
	page_bound_time(&comm->since_us);
	page_bound_time(&comm->made_us);
	page_bound_time(&comm->noted_us);
	page_bound_time(&comm->failed_us);
	page_bound_time(&comm->polled_us);
	for (int i = 0; i < PAGE_AWAITED; i++)
		if (comm->awaited_rank[i] < 0 || comm->awaited_rank[i] >= comm->nranks)
			comm->awaited_rank[i] = 0;
	for (int i = 0; i < PAGE_RANKS; i++)
		if (!(comm->parts & PAGE_PART_WORLD) || comm->world[i] < 0)
			comm->world[i] = comm->parts & PAGE_PART_WORLD ? 0 : i;
	read_bound_records(comm->op);
	read_bound_records(comm->message);
	return 0;
}

/* Reads a slot.  Returns 1; 0: it is free; -1: the file is too short, or the slot is not good. */
static int read_slot(int fd, int index, struct page_comm *comm)
{
	const off_t at = PAGE_BLOCK + (off_t)index * PAGE_SLOT;
	struct page_comm again;
	uint32_t used;

	if (read_at(fd, &used, sizeof(used), at + (off_t)offsetof(struct page_comm, used)))
		return -1;
	if (!(used & 1))
		return 0;
	for (int i = 0; i < READ_TRIES; i++) {
		if (read_at(fd, comm, PAGE_SLOT, at) || read_at(fd, &again, PAGE_LOG, at) ||
		    read_at(fd, &used, sizeof(used), at + (off_t)offsetof(struct page_comm, used)))
			return -1;
		if (used != comm->used || !(used & 1))
			return 0; /* another communicator has it now */
		if (memcmp(&again, comm, PAGE_LOG) == 0)
			break;
	}
	/* Of records that the rank has written meanwhile the newest copy counts. */
	memcpy(comm, &again, PAGE_LOG);
	return read_bound(comm) ? -1 : 1;
}

struct page_view *page_view_read(int fd)
{
	struct page_view *view = calloc(1, sizeof(*view));
	struct page_comm *comm;
	int got;

	if (!view || read_head(fd, &view->head)) {
		if (!view)
			error_set(COLL_ERR_NO_MEMORY, "no memory");
		free(view);
		return NULL;
	}
	for (int i = 0; i < PAGE_SLOTS; i++) {
		comm = aligned_alloc(PAGE_BLOCK, PAGE_SLOT);
		got = comm ? read_slot(fd, i, comm) : -1;
		if (got > 0)
			view->comm[view->comms++] = comm;
		else
			free(comm);
	}
	view->now_us = clock_tick_us();
	view->life = page_process_look(fd, &view->head, &view->state);
	return view;
}

void page_view_free(struct page_view *view)
{
	for (int i = 0; view && i < view->comms; i++)
		free(view->comm[i]);
	free(view);
}

struct page_view *page_view_find(const int *directory, int n, const struct page_name *name)
{
	struct page_view *view = NULL;
	char text[128];
	int fd;

	page_name_write(name, text);
	for (int i = 0; !view && i < n; i++) {
		fd = directory[i] < 0 ? -1 : page_directory_file(directory[i], text, O_RDONLY);
		if (fd < 0)
			continue;
		view = page_view_read(fd);
		close(fd);
	}
	return view;
}

int page_has_look_key(const struct page_view *view)
{
	static const uint8_t none[sizeof(view->head.look_key)];

	return memcmp(view->head.look_key, none, sizeof(none)) != 0;
}

/* ----------------------------------------------------------------------- all pages -- */

int page_list_add(struct page_list *list, struct page_view *view)
{
	struct page_view **more =
		array_grow(list->view, list->count, &list->capacity, sizeof(*list->view));

	if (!more)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d pages", list->count + 1);
	list->view = more;
	list->view[list->count++] = view;
	return COLL_SUCCESS;
}

/* Reads a file of the directory. */
static int list_read_one(struct page_list *list, int directory, int number, const char *name)
{
	const int fd = page_directory_file(directory, name, O_RDONLY);
	struct page_view *view = fd < 0 ? NULL : page_view_read(fd);
	int code;

	if (fd < 0 && errno == ENOENT)
		return COLL_SUCCESS; /* its rank has ended */
	if (fd < 0)
		error_set(COLL_ERR_SYSTEM, "%s", strerror(errno));
	else
		close(fd);
	if (!view) {
		list->bad++;
		snprintf(list->why, sizeof(list->why), "'%.100s': %.140s", name, error_text());
		return COLL_SUCCESS;
	}
	view->directory = number;
	snprintf(view->name, sizeof(view->name), "%s", name);
	code = page_list_add(list, view);
	if (code)
		page_view_free(view);
	return code;
}

static int list_compare(const void *a, const void *b)
{
	const struct page_head *left = &(*(struct page_view *const *)a)->head;
	const struct page_head *right = &(*(struct page_view *const *)b)->head;

	if (left->job != right->job)
		return left->job < right->job ? -1 : 1;
	if (left->rank != right->rank)
		return left->rank < right->rank ? -1 : 1;
	return left->pid < right->pid ? -1 : left->pid > right->pid;
}

static int list_read_directory(struct page_list *list, int number)
{
	char path[PAGE_PATH];
	const int fd = page_directory_open(number, 0, path);
	DIR *files = fd < 0 ? NULL : fdopendir(fd);
	struct page_name page;
	struct dirent *entry;
	int code = COLL_SUCCESS;

	if (!files && fd >= 0)
		close(fd);
	while (files && !code && list->count < READ_PAGES && (entry = readdir(files)))
		if (!page_name_read(entry->d_name, &page))
			code = list_read_one(list, fd, number, entry->d_name);
	if (files)
		closedir(files);
	return code;
}

void page_list_sort(struct page_list *list)
{
	if (list->count)
		qsort(list->view, (size_t)list->count, sizeof(*list->view), list_compare);
}

struct page_view *page_list_find(const struct page_list *list, const struct page_view *like)
{
	struct page_view **found = list->count ? bsearch(&like, list->view, (size_t)list->count,
							 sizeof(*list->view), list_compare)
					       : NULL;

	return found ? *found : NULL;
}

int page_list_read(struct page_list *list)
{
	int code = COLL_SUCCESS;

	*list = (struct page_list){0};
	for (int n = 0; n < PAGE_DIRECTORIES && !code; n++)
		code = list_read_directory(list, n);
	page_list_sort(list);
	if (code)
		page_list_free(list);
	return code;
}

void page_list_free(struct page_list *list)
{
	for (int i = 0; i < list->count; i++)
		page_view_free(list->view[i]);
	free(list->view);
	*list = (struct page_list){0};
}

void page_view_remove(const struct page_view *view)
{
	char path[PAGE_PATH];
	const int directory =
		view->life == PAGE_GONE ? page_directory_open(view->directory, 0, path) : -1;

	if (directory < 0)
		return;
	(void)unlinkat(directory, view->name, 0);
	close(directory);
}

/* --------------------------------------------------------------------------- records -- */

uint64_t page_record_before(const struct page_comm *comm)
{
	const uint64_t issued = comm->issued;

	return issued < LOG_RECORDS ? 0 : issued - LOG_RECORDS;
}

const struct record *page_record(const struct page_comm *comm, uint64_t number)
{
	const uint64_t issued = comm->issued;

	return number && issued - number < LOG_RECORDS ? &comm->op[number % LOG_RECORDS] : NULL;
}

uint64_t page_oldest_open(const struct page_comm *comm)
{
	const struct record *op;

	for (uint64_t n = page_record_before(comm) + 1; (op = page_record(comm, n)); n++)
		if (!op->ended_us)
			return n;
	return 0;
}

uint64_t page_last_ended(const struct page_comm *comm)
{
	const struct record *op;

	for (uint64_t n = comm->issued; (op = page_record(comm, n)); n--)
		if (op->ended_us)
			return n;
	return 0;
}

const struct record *page_message(const struct page_comm *comm, int i)
{
	const uint64_t count = comm->parts & PAGE_PART_MESSAGES ? comm->messages : 0;
	const uint64_t number = (uint64_t)i + (count < LOG_RECORDS ? 0 : count - LOG_RECORDS);

	return number < count ? &comm->message[number % LOG_RECORDS] : NULL;
}

int page_world_rank(const struct page_comm *comm, int rank)
{
	if (!(comm->parts & PAGE_PART_WORLD))
		return rank;
	return rank >= 0 && rank < PAGE_RANKS && rank < comm->nranks ? comm->world[rank] : -1;
}

static void page_rank_name(const void *user, int rank, char *text, size_t size)
{
	const struct page_comm *comm = user;
	const int world = rank < comm->nranks ? page_world_rank(comm, rank) : -1;

	if (rank == COLL_ANY_SOURCE)
		snprintf(text, size, "any rank");
	else if (world < 0 || world == rank)
		snprintf(text, size, "rank %d", rank);
	else
		snprintf(text, size, "rank %d (world rank %d)", rank, world);
}

struct rank_words page_ranks(const struct page_comm *comm)
{
	return (struct rank_words){.name = page_rank_name, .user = comm};
}

const char *page_observer(const struct page_view *view)
{
	uint32_t inside = 0;

	for (int i = 0; i < view->comms && !inside; i++)
		inside = view->comm[i]->inside;
	if (!inside)
		return NULL;
	return inside <= PAGE_OBSERVERS && view->head.observer[inside - 1][0]
		       ? view->head.observer[inside - 1]
		       : "unknown";
}
