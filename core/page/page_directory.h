/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * page_directory.h - the directories that may hold a user's pages, and the names of pages.
 *
 * Of $XDG_RUNTIME_DIR/coll, /run/user/UID/coll and /dev/shm/coll-UID a rank takes the first that it can make or use; tools read
 * them all.  A directory counts only if it is no link, the effective user owns it, nobody else has any right there, and nobody else
 * can change the way to it (base/trust.h checks the way to the variable's directory).  A set-uid program ignores the variable.
 *
 * The directory must be in memory (tmpfs): the kernel writes a page on a disk back now and then, and a call that stores into the
 * page meanwhile would wait for the disk.
 */
#ifndef CORE_PAGE_PAGE_DIRECTORY_H
#define CORE_PAGE_PAGE_DIRECTORY_H

#include <stddef.h>
#include <stdint.h>

enum { PAGE_DIRECTORIES = 3, PAGE_PATH = 512 };

/*
 * Opens directory `n`, from 0; make: makes it if it is missing.  Writes its path.  Returns a descriptor, or -1: error_text()
 * says why, or is "" if there is no such directory.
 */
int page_directory_open(int n, int make, char path[PAGE_PATH]);

/* Opens a file of the directory, not through a link; flags: of open().  Returns a descriptor, or -1 with errno. */
int page_directory_file(int directory, const char *name, int flags);

/* What the name of a page tells. */
struct page_name {
	uint64_t job;
	int rank;
	long pid;
};

void page_name_write(const struct page_name *page, char text[128]);
/* Returns 0, or -1: the text is not the name of a page. */
int page_name_read(const char *text, struct page_name *page);

#endif
