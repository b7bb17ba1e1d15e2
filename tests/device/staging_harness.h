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

static const struct place places[] = {
	{"on one device", {0, 0}},
	{"on two devices", {0, 1}},
	{"managed", {PLACE_MANAGED, PLACE_MANAGED}},
	{"sendbuf on the device", {1, PLACE_HOST}},
	{"recvbuf on the device", {PLACE_HOST, 1}},
};
enum { PLACES = sizeof(places) / sizeof(places[0]) };

/* A call of a kind; a rooted kind has the last rank as its root. */
RANKS_UNUSED static struct oracle_case stage_case(const struct rank *r, int kind, int in_place,
						  size_t count)
{
	return (struct oracle_case){.kind = kind,
				    .dtype = COLL_INT32,
				    .op = COLL_SUM,
				    .root = r->nranks - 1,
				    .place = in_place,
				    .gaps = 1,
				    .count = count};
}

RANKS_UNUSED static void stage_begin(void)
{
	device_begin();
	setenv("COLL_SEGMENT", "4K", 1);
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
}

RANKS_UNUSED static void stage_end(void)
{
	device_end();
	is_int(standin_streams(), 0, "no stream is left");
	is_int(standin_events(), 0, "nor an event");
}

#endif
