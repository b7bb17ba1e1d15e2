/* SPDX-License-Identifier: BSD-3-Clause */
/* open_files.h - the numbers of descriptors and of mapped files that this process has: a test compares them before and after a call. */
#ifndef TESTS_LIB_OPEN_FILES_H
#define TESTS_LIB_OPEN_FILES_H

/* Counts the open descriptors among 0 to 1023. */
int open_files(void);
/* Counts the mappings of files whose path has this text, say "memfd:coll-memory". */
int mapped_files(const char *text);

#endif
