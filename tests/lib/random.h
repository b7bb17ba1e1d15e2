/* SPDX-License-Identifier: BSD-3-Clause */
/* random.h - numbers for tests that try many cases, the same in every run. */
#ifndef TESTS_LIB_RANDOM_H
#define TESTS_LIB_RANDOM_H

/* A test that sets it repeats its numbers. */
extern unsigned random_state;

/* Returns a number from 0 to n - 1. */
int random_below(int n);

#endif
