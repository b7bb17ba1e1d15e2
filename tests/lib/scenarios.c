/* SPDX-License-Identifier: BSD-3-Clause */
/* scenarios.c - the frame of scenarios on memory of the host. */
#include "scenarios.h"

enum { BUFFERS = 32, USUAL = (1 << 20) + 3, LONG = (17 << 20) + 3 };

struct scenario_host {
	struct rank *r;
	void *buffer[BUFFERS];
	int buffers;
};

static void *host_buffer(struct scenario_rank *s, size_t bytes)
{
	struct scenario_host *host = s->user;
	void *buffer = host->buffers < BUFFERS ? calloc(1, bytes ? bytes : 1) : NULL;

	if (!buffer)
		bail_out("no memory for %zu bytes of a scenario", bytes);
	return host->buffer[host->buffers++] = buffer;
}

static void host_copy(void *to, const void *from, size_t bytes)
{
	memcpy(to, from, bytes);
}

static int host_did(struct scenario_rank *s, coll_result_t code, const char *what)
{
	struct scenario_host *host = s->user;

	return rank_did(host->r, code, what);
}

static int host_fail(struct scenario_rank *s, const char *text)
{
	struct scenario_host *host = s->user;

	return rank_fail(host->r, "%s", text);
}

void scenario_run(struct rank *r, scenario_fn scenario)
{
	static const struct scenario_frame frame = {host_buffer, host_copy, host_did, host_fail};
	struct scenario_host host = {.r = r};
	struct scenario_rank s = {.comm = r->comm,
				  .rank = r->rank,
				  .nranks = r->nranks,
				  .longest = ranks_small() || r->nranks > 4 ? USUAL : LONG,
				  .frame = &frame,
				  .user = &host};

	scenario(&s);
	for (int i = 0; i < host.buffers; i++)
		free(host.buffer[i]);
}

static void scenario_rank_fn(struct rank *r)
{
	const scenario_fn *scenario = r->user;

	scenario_run(r, *scenario);
}

int scenario_ok(const struct ranks_job *job, scenario_fn scenario, const char *name)
{
	struct ranks_job here = *job;

	here.fn = scenario_rank_fn;
	here.user = &scenario;
	return ranks_ok(&here, "%s", name);
}
