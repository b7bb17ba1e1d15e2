/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_dir.h - directories with chosen plugins, for the tests of finding and loading plugins. */
#ifndef TESTS_PLUGIN_DIR_H
#define TESTS_PLUGIN_DIR_H

#include <coll/coll.h>
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tap.h"

/* The test's own directory, from plugin_dir_begin() to plugin_dir_end(). */
extern char dir[64];

/* Returns the path of a file in the test's own directory. */
const char *at(const char *name);

/* Writes a file with this content. */
void put(const char *name, const void *bytes, size_t len);

/* Returns the content of a file, on the heap. */
char *slurp(const char *path, size_t *len);

/*
 * Returns the first 256 KiB of a text file in the test's directory, or "" if there is none.  The text is valid until the next
 * call.
 */
const char *content(const char *name);

/* Returns the path of a plugin that the build made for the tests ("coll_good.so"). */
const char *built(const char *file);

/* Copies the file at a path to a name in the test's directory. */
void place_file(const char *path, const char *as);

/*
 * Copies such a plugin, the first `part` percent of its bytes, to a name in the test's directory.
 */
void place_part(const char *file, const char *as, int part);

/* Copies all of such a plugin. */
void place(const char *file, const char *as);

void make_dir(const char *name);

void plugin_dir_begin(void);

void plugin_dir_end(void);

#endif
