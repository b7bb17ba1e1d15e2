/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * loader.h - shared objects: opened at most once per process, never closed, with the true reason
 * when it fails.  libltdl is known to loader.c only.
 */
#ifndef CORE_PLUGIN_LOADER_H
#define CORE_PLUGIN_LOADER_H

#include <stddef.h>
#include <stdint.h>

/* An opened file, which is never closed. */
struct loader_file;

/*
 * Opens an absolute path.  *first becomes 1 if this process had not opened it before, else 0.
 * COLL_ERR_PLUGIN with the dynamic linker's own message.
 */
int loader_open(const char *path, struct loader_file **file, int *first);

/*
 * A symbol that the file itself defines, or NULL.  If only a library it depends on defines it, that
 * library's path is written to elsewhere[0..size), otherwise "".
 */
const void *loader_symbol(struct loader_file *file, const char *name, char *elsewhere, size_t size);

/* The directory of the running libcoll, or of the program that it is linked into; or "". */
void loader_home(char *dir, size_t size);

#endif
