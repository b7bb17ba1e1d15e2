/* SPDX-License-Identifier: BSD-3-Clause */
/* failing_malloc.c - the replaced functions, and a table of the blocks that watched libraries hold. */
#include "failing_malloc.h"
#include "thread_sanitizer.h"

#include <dirent.h>
#include <dlfcn.h>
#include <errno.h>
#include <link.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ThreadSanitizer does not let a program replace the allocator: the tests skip. */
#ifndef TESTS_THREAD_SANITIZER

enum { ALLOC_CODES = 16, ALLOC_BLOCKS = 1 << 16, ALLOC_EARLY = 1 << 14 };

static struct {
	struct {
		uintptr_t begin, end;
	} code[ALLOC_CODES]; /* address ranges of the watched libraries */
	int ncodes;
	const char
		*only; /* a part of the file name of the watched libraries; NULL: all of libcoll */
	_Atomic int armed;
	_Atomic long calls;   /* number of allocations of watched libraries since alloc_arm */
	_Atomic long fail_at; /* number of the allocation that fails */
	_Atomic int hit;      /* 1: that allocation has failed */
	atomic_flag lock;
	void *block[ALLOC_BLOCKS]; /* hash table of the blocks that watched libraries hold */
	long blocks;
	/* memory for allocations during the look-up of the real functions */
	char early[ALLOC_EARLY];
	size_t early_used;
} alloc = {.lock = ATOMIC_FLAG_INIT};

static void *(*alloc_malloc)(size_t);
static void *(*alloc_calloc)(size_t, size_t);
static void *(*alloc_realloc)(void *, size_t);
static void (*alloc_free)(void *);
static int (*alloc_posix_memalign)(void **, size_t, size_t);
static FILE *(*alloc_open_memstream)(char **, size_t *);
static int (*alloc_vasprintf)(char **, const char *, va_list);
static char *(*alloc_realpath)(const char *, char *);

/* -------------------------------------------------------- blocks of the watched libraries -- */

static unsigned alloc_slot(const void *p)
{
	return (unsigned)(((uintptr_t)p >> 4) * 0x9e3779b97f4a7c15u >> 48) % ALLOC_BLOCKS;
}

static void alloc_lock(void)
{
	while (atomic_flag_test_and_set(&alloc.lock))
		sched_yield();
}

static void *alloc_note(void *p, int watched)
{
	unsigned i = alloc_slot(p);

	if (!p || !watched)
		return p;
	alloc_lock();
	while (alloc.block[i])
		i = (i + 1) % ALLOC_BLOCKS;
	alloc.block[i] = p;
	alloc.blocks++;
	atomic_flag_clear(&alloc.lock);
	return p;
}

/* Moves later entries of the chain up, so that no hole separates an entry from its slot. */
static void alloc_remove_at(unsigned hole)
{
	alloc.block[hole] = NULL;
	for (unsigned i = (hole + 1) % ALLOC_BLOCKS; alloc.block[i]; i = (i + 1) % ALLOC_BLOCKS) {
		unsigned home = alloc_slot(alloc.block[i]);

		if ((i - home) % ALLOC_BLOCKS < (i - hole) % ALLOC_BLOCKS)
			continue;
		alloc.block[hole] = alloc.block[i];
		alloc.block[i] = NULL;
		hole = i;
	}
}

static void alloc_forget(const void *p)
{
	if (!p || !alloc.ncodes)
		return;
	alloc_lock();
	for (unsigned i = alloc_slot(p); alloc.block[i]; i = (i + 1) % ALLOC_BLOCKS)
		if (alloc.block[i] == p) {
			alloc_remove_at(i);
			alloc.blocks--;
			break;
		}
	atomic_flag_clear(&alloc.lock);
}

/* ------------------------------------------------------------------------- failing -- */

static int alloc_watched(const void *caller)
{
	uintptr_t at = (uintptr_t)caller;

	for (int i = 0; i < alloc.ncodes; i++)
		if (at >= alloc.code[i].begin && at < alloc.code[i].end)
			return 1;
	return 0;
}

/* Is this the allocation that must fail? */
static int alloc_fails(int watched)
{
	if (!watched || !atomic_load(&alloc.armed))
		return 0;
	if (atomic_fetch_add(&alloc.calls, 1) + 1 != atomic_load(&alloc.fail_at))
		return 0;
	atomic_store(&alloc.hit, 1);
	errno = ENOMEM;
	return 1;
}

void alloc_arm(long n)
{
	atomic_store(&alloc.calls, 0);
	atomic_store(&alloc.hit, 0);
	atomic_store(&alloc.fail_at, n);
	atomic_store(&alloc.armed, 1);
}

void alloc_disarm(void)
{
	atomic_store(&alloc.armed, 0);
}

long alloc_calls(void)
{
	return atomic_load(&alloc.calls);
}

int alloc_hit(void)
{
	return atomic_load(&alloc.hit);
}

long alloc_blocks(void)
{
	return alloc.blocks;
}

static int alloc_add_code(struct dl_phdr_info *info, size_t size, void *user)
{
	const char *file = strrchr(info->dlpi_name, '/');
	int ours = file && (!strncmp(file, "/libcoll.so", 11) || !strncmp(file, "/coll_", 6));

	(void)size;
	(void)user;
	if (!ours || (alloc.only && !strstr(file, alloc.only)))
		return 0;
	for (int i = 0; i < info->dlpi_phnum && alloc.ncodes < ALLOC_CODES; i++) {
		uintptr_t begin = info->dlpi_addr + info->dlpi_phdr[i].p_vaddr;

		if (info->dlpi_phdr[i].p_type != PT_LOAD || !(info->dlpi_phdr[i].p_flags & PF_X))
			continue;
		alloc.code[alloc.ncodes].begin = begin;
		alloc.code[alloc.ncodes++].end = begin + info->dlpi_phdr[i].p_memsz;
	}
	return 0;
}

void alloc_find_code(const char *only)
{
	alloc.only = only;
	alloc.ncodes = 0;
	dl_iterate_phdr(alloc_add_code, NULL);
}

/* --------------------------------------------------------------- the replaced functions -- */

static void alloc_look_up(void)
{
	static int busy;

	if (alloc_realpath || busy)
		return;
	busy = 1;
	alloc_malloc = (void *(*)(size_t))dlsym(RTLD_NEXT, "malloc");
	alloc_calloc = (void *(*)(size_t, size_t))dlsym(RTLD_NEXT, "calloc");
	alloc_realloc = (void *(*)(void *, size_t))dlsym(RTLD_NEXT, "realloc");
	alloc_free = (void (*)(void *))dlsym(RTLD_NEXT, "free");
	alloc_posix_memalign = (int (*)(void **, size_t, size_t))dlsym(RTLD_NEXT, "posix_memalign");
	alloc_open_memstream = (FILE * (*)(char **, size_t *)) dlsym(RTLD_NEXT, "open_memstream");
	alloc_vasprintf = (int (*)(char **, const char *, va_list))dlsym(RTLD_NEXT, "vasprintf");
	alloc_realpath = (char *(*)(const char *, char *))dlsym(RTLD_NEXT, "realpath");
	busy = 0;
}

static void *alloc_early(size_t n)
{
	void *p = alloc.early + alloc.early_used;

	alloc.early_used += (n + 15) & ~(size_t)15;
	return alloc.early_used <= ALLOC_EARLY ? p : NULL;
}

/* Exports the functions to the libraries from a program that is built to hide its functions. */
#pragma GCC visibility push(default)

void *malloc(size_t n)
{
	int watched = alloc_watched(__builtin_return_address(0));

	alloc_look_up();
	if (!alloc_malloc)
		return alloc_early(n);
	return alloc_fails(watched) ? NULL : alloc_note(alloc_malloc(n), watched);
}

void *calloc(size_t n, size_t size)
{
	int watched = alloc_watched(__builtin_return_address(0));

	alloc_look_up();
	if (!alloc_calloc)
		return alloc_early(n * size);
	return alloc_fails(watched) ? NULL : alloc_note(alloc_calloc(n, size), watched);
}

void *realloc(void *p, size_t n)
{
	int watched = alloc_watched(__builtin_return_address(0));
	void *q;

	alloc_look_up();
	if (alloc_fails(watched))
		return NULL;
	alloc_forget(p);
	q = alloc_realloc(p, n);
	alloc_note(q ? q : p, watched);
	return q;
}

void free(void *p)
{
	if ((char *)p >= alloc.early && (char *)p < alloc.early + ALLOC_EARLY)
		return;
	alloc_look_up();
	alloc_forget(p);
	alloc_free(p);
}

int posix_memalign(void **p, size_t align, size_t n)
{
	int watched = alloc_watched(__builtin_return_address(0)), code;

	alloc_look_up();
	if (alloc_fails(watched))
		return ENOMEM;
	code = alloc_posix_memalign(p, align, n);
	if (!code)
		alloc_note(*p, watched);
	return code;
}

char *strdup(const char *text)
{
	int watched = alloc_watched(__builtin_return_address(0));
	size_t n = strlen(text) + 1;
	char *copy = alloc_fails(watched) ? NULL : alloc_malloc(n);

	return copy ? alloc_note(memcpy(copy, text, n), watched) : NULL;
}

char *strndup(const char *text, size_t most)
{
	int watched = alloc_watched(__builtin_return_address(0));
	size_t n = strnlen(text, most);
	char *copy = alloc_fails(watched) ? NULL : alloc_malloc(n + 1);

	if (!copy)
		return NULL;
	memcpy(copy, text, n);
	copy[n] = '\0';
	return alloc_note(copy, watched);
}

/* Blocks that the C library allocates inside these functions do not count. */

FILE *open_memstream(char **text, size_t *size)
{
	return alloc_fails(alloc_watched(__builtin_return_address(0)))
		       ? NULL
		       : alloc_open_memstream(text, size);
}

int vasprintf(char **text, const char *format, va_list args)
{
	return alloc_fails(alloc_watched(__builtin_return_address(0)))
		       ? -1
		       : alloc_vasprintf(text, format, args);
}

char *realpath(const char *path, char *resolved)
{
	return !resolved && alloc_fails(alloc_watched(__builtin_return_address(0)))
		       ? NULL
		       : alloc_realpath(path, resolved);
}

#pragma GCC visibility pop

#endif
