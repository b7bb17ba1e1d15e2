/* SPDX-License-Identifier: BSD-3-Clause */
/* staging_harness.c - the places, and what the tests begin and end with. */
#include "staging_harness.h"

const struct place places[PLACES] = {
	{"on one device", {0, 0}},
	{"on two devices", {0, 1}},
	{"managed", {PLACE_MANAGED, PLACE_MANAGED}},
	{"sendbuf on the device", {1, PLACE_HOST}},
	{"recvbuf on the device", {PLACE_HOST, 1}},
};

struct oracle_case stage_case(const struct rank *r, int kind, int in_place, size_t count)
{
	return (struct oracle_case){.kind = kind,
				    .dtype = COLL_INT32,
				    .op = COLL_SUM,
				    .root = r->nranks - 1,
				    .place = in_place,
				    .gaps = 1,
				    .count = count};
}

void stage_begin(void)
{
	device_begin();
	setenv("COLL_SEGMENT", "4K", 1);
	setenv("COLL_ENABLE_GPU_FALLBACK", "1", 1);
}

void stage_end(void)
{
	device_end();
	is_int(standin_streams(), 0, "no stream is left");
	is_int(standin_events(), 0, "nor an event");
}
