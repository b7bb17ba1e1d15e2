/* SPDX-License-Identifier: BSD-3-Clause */
/* page_file.c - the pages of this process: see page_file.h. */
#include "page/page_file.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/log.h"
#include "page/page_directory.h"
#include "page/page_process.h"

#include <coll/coll.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* The mapping of a page: the head's block, then the slots. */
struct page_map {
	union {
		struct page_head head;
		char block[PAGE_BLOCK];
	} u;
	struct page_comm slot[PAGE_SLOTS];
};

_Static_assert(sizeof(struct page_map) == PAGE_BYTES, "the file is the mapping");

struct page {
	struct page *next;
	int refs;
	pid_t pid; /* of the process that has made it: a child has the memory too */
	dev_t device;
	ino_t inode;
	struct page_map *map;
	_Atomic uint32_t refused; /* communicators that have got no slot */
	uint64_t
		taken; /* a bit for each slot.  The slots themselves may be holes, which nobody may even read */
	char path[PAGE_PATH + 128];
};

/* Fork may have copied the lock while another thread held it, so nobody waits longer for it. */
enum { PAGE_LOCK_MS = 100 };

static struct {
	pthread_mutex_t lock;
	struct page *first;
	int given_up; /* no page could be made: the next communicators need not look for a directory */
	int at_exit; /* pages_end is registered */
} pages = {.lock = PTHREAD_MUTEX_INITIALIZER};

struct page_comm *page_log_new(void)
{
	void *log = NULL;

	/* As it is aligned in a page. */
	if (posix_memalign(&log, PAGE_BLOCK, PAGE_LOG))
		return NULL;
	return memset(log, 0, PAGE_LOG);
}

struct page_head *page_head(struct page *page)
{
	return &page->map->u.head;
}

/* ------------------------------------------------------------------------- the blocks -- */

/* Allocates the blocks, so that no write to them fails later. */
static int page_allocate(int fd, off_t from, off_t bytes)
{
	static const char zeros[PAGE_BLOCK];

	if (!fallocate(fd, 0, from, bytes))
		return 0;
	if (errno != EOPNOTSUPP && errno != ENOSYS)
		return -1;
	for (off_t at = from; at < from + bytes; at += PAGE_BLOCK)
		if (pwrite(fd, zeros, sizeof(zeros), at) != (ssize_t)sizeof(zeros))
			return -1;
	return 0;
}

/* Opens the page's file once more.  The page keeps no descriptor, which the program could close and use for a file of its own. */
static int page_open(const struct page *page)
{
	const int fd = descriptor_lift(open(page->path, O_RDWR | O_NOFOLLOW | O_CLOEXEC));
	struct stat st;

	if (fd < 0)
		return -1;
	if (!fstat(fd, &st) && st.st_ino == page->inode && st.st_dev == page->device &&
	    st.st_size == PAGE_BYTES)
		return fd;
	close(fd);
	return -1;
}

/* The part that every slot has.  It is not in page_comm.parts. */
enum { PAGE_PART_FIXED = 1 << 30 };

static const struct {
	uint32_t part;
	size_t from, end;
} page_parts[] = {
	{PAGE_PART_FIXED, 0, offsetof(struct page_comm, message)},
	{PAGE_PART_MESSAGES, offsetof(struct page_comm, message),
	 offsetof(struct page_comm, world)},
	{PAGE_PART_WORLD, offsetof(struct page_comm, world), offsetof(struct page_comm, counts)},
	{PAGE_PART_COUNTS, offsetof(struct page_comm, counts), PAGE_SLOT}};

enum { PAGE_PARTS = sizeof(page_parts) / sizeof(page_parts[0]) };

/* Allocates the blocks of parts of a slot.  Returns 0, or -1. */
static int page_add_parts(const struct page *page, const struct page_comm *slot, uint32_t parts)
{
	const off_t at = (off_t)((const char *)slot - (const char *)page->map);
	const int fd = page_open(page);
	int failed = fd < 0;

	for (int i = 0; i < PAGE_PARTS && !failed; i++)
		if (parts & page_parts[i].part)
			failed = page_allocate(fd, at + (off_t)page_parts[i].from,
					       (off_t)(page_parts[i].end - page_parts[i].from));
	if (fd >= 0) {
		const int error = errno;

		close(fd);
		errno = error;
	}
	return failed ? -1 : 0;
}

/* Zeroes parts of a slot: their blocks may hold what a communicator wrote that had the slot before. */
static void page_zero_parts(struct page_comm *slot, uint32_t parts)
{
	for (int i = 0; i < PAGE_PARTS; i++)
		if (parts & page_parts[i].part)
			memset((char *)slot + page_parts[i].from, 0,
			       page_parts[i].end - page_parts[i].from);
}

int page_add_part(struct page *page, struct page_comm *slot, uint32_t part)
{
	CANCEL_OFF;

	if (slot->parts & part)
		return 0;
	if (page_add_parts(page, slot, part))
		return -1;
	page_zero_parts(slot, part);
	/* A reader that sees the bit sees the zeros too. */
	atomic_thread_fence(memory_order_release);
	slot->parts |= part;
	return 0;
}

/* --------------------------------------------------------------------------- the file -- */

static void page_copy_text(char *out, size_t size, const char *text)
{
	snprintf(out, size, "%s", text ? text : "");
}

static void page_fill(struct page *page, const struct page_of *of)
{
	struct page_head *head = page_head(page);

	head->version = PAGE_VERSION;
	head->head_bytes = PAGE_BLOCK;
	head->slot_bytes = PAGE_SLOT;
	head->slots = PAGE_SLOTS;
	head->job = of->job;
	head->rank = of->rank;
	head->nranks = of->nranks;
	head->pid = (int32_t)page->pid;
	head->made_us = clock_tick_us();
	head->realtime_us = clock_day_us() - clock_now_us();
	page_process_own(&head->start, &head->namespace_, head->boot);
	page_copy_text(head->host, sizeof(head->host), of->host);
	page_copy_text(head->backend, sizeof(head->backend), of->backend);
	page_copy_text(head->program, sizeof(head->program), program_invocation_short_name);
	page_copy_text(head->library, sizeof(head->library), coll_version_string());
	atomic_thread_fence(memory_order_release);
	memcpy(head->magic, PAGE_MAGIC, sizeof(head->magic));
}

/* Maps the new file, whose blocks for the head are allocated. */
static int page_map_file(struct page *page, int fd)
{
	struct stat st;
	void *map;

	if (!descriptor_may_grow(PAGE_BYTES))
		return error_set(COLL_ERR_SYSTEM, "%s (ulimit -f)", strerror(EFBIG));
	if (ftruncate(fd, PAGE_BYTES) || page_allocate(fd, 0, PAGE_BLOCK) || fstat(fd, &st))
		return error_set(COLL_ERR_SYSTEM, "%s", strerror(errno));
	map = mmap(NULL, PAGE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (map == MAP_FAILED)
		return error_set(COLL_ERR_SYSTEM, "%s", strerror(errno));
	page->map = map;
	page_head(page)->locked = page_process_lock(fd) == 0;
	page->inode = st.st_ino;
	page->device = st.st_dev;
	return COLL_SUCCESS;
}

/* Makes the file in the open directory. */
static int page_make_in(struct page *page, int directory, const char *name)
{
	int fd, code;

	(void)unlinkat(directory, name, 0); /* of a process that had this number before */
	fd = page_directory_file(directory, name, O_RDWR | O_CREAT | O_EXCL);
	if (fd < 0)
		return error_set(COLL_ERR_SYSTEM, "%s", strerror(errno));
	code = page_map_file(page, fd);
	if (code)
		(void)unlinkat(directory, name, 0);
	close(fd);
	return code;
}

/* Makes the page in directory `n`. */
static int page_make_at(struct page *page, const struct page_of *of, int n)
{
	const struct page_name name = {of->job, of->rank, (long)page->pid};
	char text[128], path[PAGE_PATH];
	const int directory = page_directory_open(n, 1, path);
	int code;

	if (directory < 0)
		return COLL_ERR_SYSTEM;
	if (of->is_first)
		page_process_clean(directory);
	page_name_write(&name, text);
	snprintf(page->path, sizeof(page->path), "%s/%s", path, text);
	code = page_make_in(page, directory, text);
	close(directory);
	return code ? error_set(code, "'%s': %s", path, error_text()) : COLL_SUCCESS;
}

/* Tries one directory after the other.  The error is that of the first directory that has one. */
static int page_make(struct page *page, const struct page_of *of)
{
	char why[PAGE_PATH + 256] = "";

	for (int n = 0; n < PAGE_DIRECTORIES; n++) {
		if (!page_make_at(page, of, n))
			return COLL_SUCCESS;
		if (!why[0])
			snprintf(why, sizeof(why), "%s", error_text());
	}
	return error_set(COLL_ERR_SYSTEM, "%s", why[0] ? why : "there is no directory for it");
}

/* ------------------------------------------------------------------------ all of them -- */

static void page_unlink(const struct page *page)
{
	if (page->pid == getpid())
		(void)unlink(page->path);
}

/* Other threads may still write to the pages. */
static void pages_end(void)
{
	if (!clock_lock_within(&pages.lock, PAGE_LOCK_MS))
		return;
	for (const struct page *page = pages.first; page; page = page->next)
		page_unlink(page);
	pthread_mutex_unlock(&pages.lock);
}

/* The lock is held. */
static struct page *page_find(const struct page_of *of)
{
	for (struct page *page = pages.first; page; page = page->next)
		if (page->pid == getpid() && page_head(page)->job == of->job &&
		    page_head(page)->rank == of->rank)
			return page;
	return NULL;
}

/* The lock is held. */
static struct page *page_new(const struct page_of *of)
{
	struct page *page = pages.given_up ? NULL : calloc(1, sizeof(*page));

	if (!page) {
		error_set(COLL_ERR_NO_MEMORY, "%s", pages.given_up ? "" : "no memory for it");
		return NULL;
	}
	page->pid = getpid();
	if (page_make(page, of)) {
		free(page);
		pages.given_up = 1;
		return NULL;
	}
	page_fill(page, of);
	if (!pages.at_exit)
		pages.at_exit = !atexit(pages_end);
	page->next = pages.first;
	pages.first = page;
	return page;
}

struct page *page_take(const struct page_of *of)
{
	CANCEL_OFF;
	struct page *page;

	if (!clock_lock_within(&pages.lock, PAGE_LOCK_MS)) {
		error_set(COLL_ERR_SYSTEM, "another thread has left the library with the pages");
		return NULL;
	}
	page = page_find(of);
	if (!page)
		page = page_new(of);
	if (page)
		page->refs++;
	pthread_mutex_unlock(&pages.lock);
	return page;
}

void page_drop(struct page *page)
{
	CANCEL_OFF;
	struct page **at = &pages.first;

	if (!clock_lock_within(&pages.lock, PAGE_LOCK_MS))
		return;
	if (!--page->refs) {
		while (*at && *at != page)
			at = &(*at)->next;
		if (*at)
			*at = page->next;
		page_unlink(page);
		munmap(page->map, PAGE_BYTES);
		free(page);
	}
	pthread_mutex_unlock(&pages.lock);
}

/* ------------------------------------------------------------------------- the slots -- */

static int page_free_slot(const struct page *page)
{
	for (int i = 0; i < PAGE_SLOTS; i++)
		if (!(page->taken >> i & 1))
			return i;
	return -1;
}

/* The blocks of the slot are allocated.  `used` is even until page_publish_slot. */
static void page_clear_slot(struct page_comm *slot, uint32_t parts)
{
	const uint32_t used = atomic_load(&slot->used);

	page_zero_parts(slot, parts | PAGE_PART_FIXED);
	slot->parts = parts;
	atomic_store(&slot->used, used);
}

/* The lock is held. */
static struct page_comm *page_claim_slot(struct page *page, uint32_t parts)
{
	const int i = page_free_slot(page);

	if (i < 0) {
		error_set(COLL_ERR_NO_MEMORY, "it has %d already", PAGE_SLOTS);
		return NULL;
	}
	if (page_add_parts(page, &page->map->slot[i], parts | PAGE_PART_FIXED)) {
		error_set(COLL_ERR_SYSTEM, "'%s': %s", page->path, strerror(errno));
		return NULL;
	}
	page->taken |= UINT64_C(1) << i;
	page_clear_slot(&page->map->slot[i], parts);
	return &page->map->slot[i];
}

struct page_comm *page_take_slot(struct page *page, uint32_t parts)
{
	CANCEL_OFF;
	struct page_comm *slot = NULL;

	if (clock_lock_within(&pages.lock, PAGE_LOCK_MS)) {
		slot = page_claim_slot(page, parts);
		pthread_mutex_unlock(&pages.lock);
	} else {
		error_set(COLL_ERR_SYSTEM, "another thread has left the library with the pages");
	}
	if (slot)
		return slot;
	atomic_fetch_add(&page_head(page)->more, 1);
	if (atomic_fetch_add(&page->refused, 1))
		error_set(COLL_ERR_SYSTEM, "%s", "");
	return NULL;
}

void page_publish_slot(struct page_comm *slot)
{
	atomic_fetch_add(&slot->used, 1);
}

void page_drop_slot(struct page *page, struct page_comm *slot)
{
	CANCEL_OFF;

	if (atomic_load(&slot->used) & 1)
		atomic_fetch_add(&slot->used, 1);
	if (!clock_lock_within(&pages.lock, PAGE_LOCK_MS))
		return;
	page->taken &= ~(UINT64_C(1) << (slot - page->map->slot));
	pthread_mutex_unlock(&pages.lock);
}
