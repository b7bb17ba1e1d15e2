/* SPDX-License-Identifier: BSD-3-Clause */
/* self.h - the file of the running libcoll. */
#ifndef CORE_BASE_SELF_H
#define CORE_BASE_SELF_H

/*
 * Returns the path, without links, of the file that holds this code: libcoll.so, or the program that libcoll is linked
 * into.  The path is heap memory.  Returns NULL if the path is not known.
 */
char *self_path(void);

#endif
