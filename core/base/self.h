/* SPDX-License-Identifier: BSD-3-Clause */
/* self.h - the file of the running libcoll. */
#ifndef CORE_BASE_SELF_H
#define CORE_BASE_SELF_H

/*
 * The path, without links, of the file that holds this code: libcoll.so, or the program that libcoll is linked
 * into.  On the heap; NULL if it is not known.
 */
char *self_path(void);

#endif
