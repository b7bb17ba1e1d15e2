/* SPDX-License-Identifier: BSD-3-Clause */
/* random.h - numbers for tests that try many cases, the same in every run. */
#ifndef TESTS_LIB_RANDOM_H
#define TESTS_LIB_RANDOM_H

static unsigned random_state;

/* A number from 0 to n - 1. */
static int random_below(int n)
{
	random_state = random_state * 1103515245u + 12345u;
	return (int)(random_state >> 8) % n;
}

#endif
