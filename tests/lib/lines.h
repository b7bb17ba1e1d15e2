/* SPDX-License-Identifier: BSD-3-Clause */
/* lines.h - counts lines of a file. */
#ifndef TESTS_LIB_LINES_H
#define TESTS_LIB_LINES_H

/* Returns how many lines of the file have the text; 0 if the file cannot be read.  A line has less than 8 KiB. */
int lines_with(const char *path, const char *text);

#endif
