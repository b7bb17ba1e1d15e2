/* SPDX-License-Identifier: BSD-3-Clause */
/* open_files.h - the number of descriptors that this process has open: a test compares it before and after a call. */
#ifndef TESTS_LIB_OPEN_FILES_H
#define TESTS_LIB_OPEN_FILES_H

/* Counts the open descriptors among 0 to 1023. */
int open_files(void);

#endif
