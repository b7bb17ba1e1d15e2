/* SPDX-License-Identifier: BSD-3-Clause */
/* gpu_scenario.c - the frame of scenarios on device memory. */
#include <stdlib.h>
#include "gpu.h"

enum { PART_ALIGN = 256 };

/* A scenario takes its buffers from the rank's device memory for sends, one after the other. */
struct gpu_part {
	const struct gpu *g;
	size_t used;
};

static void *part_buffer(struct scenario_rank *s, size_t bytes)
{
	struct gpu_part *part = s->user;
	char *buffer = part->g->send + part->used;

	part->used += (bytes / PART_ALIGN + 1) * PART_ALIGN;
	if (part->used <= GPU_ARENA)
		return buffer;
	gpu_say("not ok|the buffers of a scenario|GPU_ARENA is too small");
	exit(1);
}

static int part_did(struct scenario_rank *s, coll_result_t code, const char *what)
{
	(void)s;
	return gpu_did(code, what);
}

static int part_fail(struct scenario_rank *s, const char *text)
{
	(void)s;
	return gpu_fail("%s", text);
}

void gpu_scenario(const struct gpu *g, size_t longest, scenario_fn scenario)
{
	static const struct scenario_frame frame = {part_buffer, gpu_copy, part_did, part_fail};
	struct gpu_part part = {.g = g};
	struct scenario_rank s = {.comm = g->comm,
				  .rank = g->rank,
				  .nranks = g->nranks,
				  .longest = longest,
				  .frame = &frame,
				  .user = &part};

	scenario(&s);
}
