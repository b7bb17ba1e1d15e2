/* SPDX-License-Identifier: BSD-3-Clause */
/* schedule.c - the schedules of all ranks for one call, and the rounds in which their messages go. */
#include <stdlib.h>
#include <string.h>
#include "explain/schedule.h"
#include "lib/grow.h"
#include "lib/kinds.h"
#include "lib/tool.h"

/* -------------------------------------------------------------------------- the case -- */

static struct model_call schedule_call(const struct schedule_request *request, int kind)
{
	struct model_call call = {.kind = kind,
				  .nranks = (int)request->ranks,
				  .bytes = kind == COLL_KIND_BARRIER ? 0 : request->bytes,
				  .cpus = COLL_RULE_OWN_CPUS};

	call.nnodes = (int)((request->ranks - 1) / request->node_size + 1);
	return call;
}

/* Returns the algorithm that the rules choose, or -1. */
static int schedule_choice(const struct model_call *call)
{
	coll_info_t info;
	int choice;

	tool_probe_apart();
	if (coll_info_create(NULL, &info) != COLL_SUCCESS)
		return -1;
	choice = model_choice(info, call);
	coll_info_destroy(info);
	return choice;
}

/* Finds the algorithm by its name.  Returns its index, or -1. */
static int schedule_named(int kind, const char *name)
{
	for (int i = 0; i < coll_algorithm_count(); i++) {
		coll_algorithm_info_t a = {.size = sizeof(a)};

		if (coll_algorithm(i, &a) == COLL_SUCCESS && a.kind == kind &&
		    strcmp(a.name, name) == 0)
			return i;
	}
	return -1;
}

/* Writes the names of a kind's algorithms: "linear, ring". */
static const char *schedule_names(int kind, char *text, size_t size)
{
	size_t at = 0;

	text[0] = '\0';
	for (int i = 0; i < coll_algorithm_count() && at < size; i++) {
		coll_algorithm_info_t a = {.size = sizeof(a)};

		if (coll_algorithm(i, &a) == COLL_SUCCESS && a.kind == kind)
			at += (size_t)snprintf(text + at, size - at, "%s%s", at ? ", " : "",
					       a.name);
	}
	return text;
}

static int schedule_choose(struct schedule *s, int kind)
{
	const struct schedule_request *request = s->request;
	const struct model_call call = schedule_call(request, kind);
	const int choice = schedule_choice(&call);
	int id = choice;
	char names[512];

	if (request->algorithm != NULL)
		id = schedule_named(kind, request->algorithm);
	if (id < 0)
		return tool_usage("explain", "%s has no algorithm '%s'; expected one of %s",
				  request->kind, request->algorithm ? request->algorithm : "",
				  schedule_names(kind, names, sizeof(names)));
	s->info = (coll_algorithm_info_t){.size = sizeof(s->info)};
	coll_algorithm(id, &s->info);
	if (!model_fits(&s->info, &call))
		return tool_usage(
			"explain",
			"algorithm %s does not work for %d ranks on %d nodes: it needs %s",
			s->info.name, call.nranks, call.nnodes,
			s->info.flags & COLL_ALGORITHM_POWER_OF_TWO
				? "a power of two"
				: "several nodes with several ranks (--node-size)");
	s->chosen = id == choice;
	s->c = (struct prove_case){.algorithm = id,
				   .info = &s->info,
				   .flags = s->info.flags,
				   .nranks = call.nranks,
				   .root = (int)request->root,
				   .count = call.bytes,
				   .elem = 1,
				   .segment = request->segment,
				   .node_size = (int)request->node_size};
	return 0;
}

/* -------------------------------------------------------------------------- the rounds -- */

static int later(int a, int b)
{
	return a > b ? a : b;
}

/* All that the step waits for is done, and begins so at place[g].begin. */
static void round_place(struct schedule *s, int g)
{
	const struct prove *p = &s->prove;
	const coll_step_t *step = prove_step(p, g);
	struct schedule_place *place = &s->place[g];

	place->end = place->begin;
	if (prove_is_recv(step)) {
		place->end = later(place->begin, s->place[p->event[g].mate].begin + 1);
		s->rounds = later(s->rounds, place->end);
	}
	if (step->kind == COLL_STEP_SEND) {
		s->messages++;
		s->bytes += step->bytes;
	}
}

static void round_release(struct schedule *s, int g, int at, int *ready)
{
	struct prove *p = &s->prove;

	s->place[g].begin = later(s->place[g].begin, at);
	if (--p->event[g].left == 0)
		p->stack[(*ready)++] = g;
}

/* Places every step behind all that it waits for: the other steps of its rank, and of a receive the send. */
static void round_all(struct schedule *s)
{
	struct prove *p = &s->prove;
	int ready = 0;

	s->place = tool_array((size_t)p->nsteps, sizeof(*s->place));
	for (int g = 0; g < p->nsteps; g++) {
		const coll_step_t *step = prove_step(p, g);

		p->event[g].left = (int32_t)step->after_count + prove_is_recv(step);
		if (!p->event[g].left)
			p->stack[ready++] = g;
	}
	while (ready > 0) {
		const int g = p->stack[--ready];

		round_place(s, g);
		for (int k = p->event[g].later; k >= 0; k = p->link[k].next)
			round_release(s, p->link[k].to, s->place[g].end, &ready);
		if (prove_step(p, g)->kind == COLL_STEP_SEND)
			round_release(s, p->event[g].mate, 0, &ready);
	}
}

int schedule_make(struct schedule *s, const struct schedule_request *request)
{
	const int kind = kinds_find(request->kind);
	int status = 0;

	*s = (struct schedule){.request = request};
	if (!kinds_is_collective(kind))
		return tool_usage("explain",
				  "'%s' is no collective: 'coll model --help' and 'coll "
				  "info --algorithms' name them",
				  request->kind);
	if (request->root >= request->ranks)
		return tool_usage("explain", "root is %lld, but ranks go from 0 to %lld",
				  (long long)request->root, (long long)request->ranks - 1);
	status = schedule_choose(s, kind);
	if (status)
		return status;
	s->prove.c = &s->c;
	if (prove_build(&s->prove) != 0 || prove_match(&s->prove) != 0)
		status = 1;
	for (int k = 0; k < PROVE_CHECKS; k++)
		if (s->prove.failed & 1u << k)
			fprintf(stderr, "coll explain: %s\n", s->prove.text[k]);
	if (!status)
		round_all(s);
	return status;
}

void schedule_free(struct schedule *s)
{
	if (s->prove.c != NULL)
		prove_unbuild(&s->prove);
	prove_free(&s->prove);
	free(s->place);
}

const char *schedule_size(uint64_t bytes, char text[32])
{
	static const char units[] = {'\0', 'K', 'M', 'G'};
	int unit = 0;

	while (unit < 3 && bytes && bytes % 1024 == 0) {
		bytes /= 1024;
		unit++;
	}
	snprintf(text, 32, "%llu%c", (unsigned long long)bytes, units[unit]);
	return text;
}

const char *schedule_title(const struct schedule *s, char text[160])
{
	char size[32], of[48] = "";

	if (s->info.kind != COLL_KIND_BARRIER)
		snprintf(of, sizeof(of), " of %s bytes", schedule_size(s->c.count, size));
	snprintf(text, 160, "%s%s by %s, %d rank%s", coll_kind_name(s->info.kind), of, s->info.name,
		 s->c.nranks, s->c.nranks == 1 ? "" : "s");
	return text;
}

int schedule_show(const struct schedule_request *request)
{
	struct schedule s;
	int status = schedule_make(&s, request);

	if (!status && request->svg != NULL)
		status = schedule_draw(&s, request->svg);
	if (!status && request->goal)
		schedule_goal(&s, stdout);
	else if (!status && request->svg == NULL)
		schedule_print(&s, stdout);
	schedule_free(&s);
	return status;
}
