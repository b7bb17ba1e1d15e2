/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * failing_malloc.h - an allocator for test programs that makes a chosen allocation of libcoll and
 * its plugins fail, and counts the blocks that they hold.  The functions replace the C library's
 * in the whole program; allocations of all other callers (UCX, the C library itself) are
 * unaffected.
 *
 * failing_malloc.c is a source of each such program, not a part of the tests' library, because the linker would take
 * its malloc for every test.  Call alloc_find_code() when all plugins are loaded.
 */
#ifndef TESTS_FAILING_MALLOC_H
#define TESTS_FAILING_MALLOC_H

/* Watches libcoll and the plugins loaded so far, or only those whose file name contains `only`. */
void alloc_find_code(const char *only);

/* Makes the n-th allocation of the watched libraries from now on fail; 0: none. */
void alloc_arm(long n);

void alloc_disarm(void);

/* Returns the number of allocations of the watched libraries since alloc_arm(). */
long alloc_calls(void);

/* Has the chosen allocation failed? */
int alloc_hit(void);

/* Returns the number of blocks that the watched libraries hold. */
long alloc_blocks(void);

#endif
