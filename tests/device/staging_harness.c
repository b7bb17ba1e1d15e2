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

int32_t word_of(int rank, size_t i)
{
	return (int32_t)((size_t)rank * 1000003 + i + 1);
}

void *words_new(int at, int rank, size_t count)
{
	int32_t *host = calloc(count + 1, sizeof(*host));
	void *there = place_new(at, count * sizeof(*host));

	if (!host)
		bail_out("no memory");
	for (size_t i = 0; rank >= 0 && i < count; i++)
		host[i] = word_of(rank, i);
	place_set(at, there, host, count * sizeof(*host));
	free(host);
	return there;
}

void words_are(struct rank *r, int at, const void *there, int rank, size_t count, size_t most,
	       const char *what)
{
	int32_t *host = calloc(most + 1, sizeof(*host));

	if (!host)
		bail_out("no memory");
	place_get(at, host, there, most * sizeof(*host));
	for (size_t i = 0; i < most && !r->failure[0]; i++)
		if (host[i] != (i < count ? word_of(rank, i) : 0))
			rank_fail(r, "%s: word %zu of %zu is %d", what, i, count, host[i]);
	free(host);
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
