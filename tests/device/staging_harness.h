/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * staging_harness.h - staged operations of several chunks: the counts lie around the longest copy,
 * which is COLL_SEGMENT = 4K here.
 */
#ifndef TESTS_STAGING_HARNESS_H
#define TESTS_STAGING_HARNESS_H

#include "../lib/device_harness.h"

enum { CHUNK = 1024, MOST = 5 * CHUNK + 7, STAGE_RANKS = 7 };

/* The kinds of memory of a call's two buffers. */
struct place {
	const char *name;
	int at[ORACLE_AREAS];
};

enum { PLACES = 5 };
extern const struct place places[PLACES];

/* A call of a kind; a rooted kind has the last rank as its root. */
struct oracle_case stage_case(const struct rank *r, int kind, int in_place, size_t count);

/* device_begin() with copies of 4K, and with staging allowed. */
void stage_begin(void);

/* device_end(), and no stream or event may be left. */
void stage_end(void);

#endif
