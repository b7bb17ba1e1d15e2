/* SPDX-License-Identifier: BSD-3-Clause */
/* array.h - heap arrays that grow. */
#ifndef CORE_BASE_ARRAY_H
#define CORE_BASE_ARRAY_H

#include <stddef.h>

/*
 * Makes an array of *capacity items of `size` bytes each twice as long if it has no room for item n.  An array that is NULL
 * begins with 16 items.  Returns the array, which may have moved, or NULL if memory has run out: the array and
 * *capacity are as before.
 */
void *array_grow(void *array, int n, int *capacity, size_t size);

#endif
