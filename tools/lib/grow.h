/* SPDX-License-Identifier: BSD-3-Clause */
/* grow.h - arrays that grow. */
#ifndef TOOLS_GROW_H
#define TOOLS_GROW_H

#include <stddef.h>

/*
 * Returns the array with room for `want` elements of `size` bytes, at another address perhaps; *cap is the room.  Ends the
 * program with a sentence if there is no memory.
 */
void *tool_grow(void *array, int *cap, int want, size_t size);
/* Returns an array of n elements of `size` bytes, all zeros, that does not grow.  Ends the program likewise. */
void *tool_array(size_t n, size_t size);

#endif
