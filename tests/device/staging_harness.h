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

/* Word number i of a message from a rank; never 0. */
int32_t word_of(int rank, size_t i);

/* A buffer of `count` words, wherever it is, with the words of a rank; rank -1: zeros. */
void *words_new(int at, int rank, size_t count);

/* The first words are those of a rank, and the others up to `most` are zeros. */
void words_are(struct rank *r, int at, const void *there, int rank, size_t count, size_t most,
	       const char *what);

/* A call of a kind; a rooted kind has the last rank as its root. */
struct oracle_case stage_case(const struct rank *r, int kind, int in_place, size_t count);

/* device_begin() with copies of 4K, and with staging allowed. */
void stage_begin(void);

/* device_end(), and no stream or event may be left. */
void stage_end(void);

#endif
