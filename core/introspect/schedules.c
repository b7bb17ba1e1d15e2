/* SPDX-License-Identifier: BSD-3-Clause */
/* schedules.c - coll_algorithm* and coll_schedule_*, which show algorithms and schedules to users. */
#include "schedule/algo.h"
#include "base/error.h"
#include "base/kind.h"

#include <stdlib.h>
#include <string.h>

struct coll_schedule {
	struct sched sched;
	int32_t *after; /* the entries of all steps, step after step */
	size_t *first;  /* index of each step's first entry, and the end of the last */
};

/* Copies as much of the struct `full` as the caller's size allows. */
static coll_result_t schedule_answer(void *out, const void *full, size_t known)
{
	uint64_t size;

	memcpy(&size, out, sizeof(size));
	if (size < sizeof(size))
		return error_set(COLL_ERR_INVALID_ARGUMENT, "out->size is not set");
	memcpy(out, full, size < known ? size : known);
	memcpy(out, &size, sizeof(size));
	return COLL_SUCCESS;
}

int32_t coll_algorithm_count(void)
{
	return algo_count();
}

coll_result_t coll_algorithm(int32_t index, coll_algorithm_info_t *out)
{
	const struct algo *algo = algo_at(index);
	coll_algorithm_info_t full = {0};

	if (!algo || !out)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_algorithm: %s",
				 out ? "there is no algorithm of that index" : "out is NULL");
	full.name = algo->name;
	full.description = algo->description;
	full.kind = algo->kind;
	full.flags = algo->flags;
	return schedule_answer(out, &full, sizeof(full));
}

/* ------------------------------------------------------------------------ making -- */

static int schedule_wrong(const char *what)
{
	return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_schedule_args_t: %s", what);
}

static int schedule_check_arrays(const coll_schedule_args_t *a, int kind)
{
	const struct kind *k = kind_at(kind);
	const int sends = kind_gives_sendcounts(k, a->rank == a->root);
	const int recvs = kind_gives_recvcounts(k, a->rank == a->root);

	if (sends && (!a->sendcounts || !a->senddispls))
		return schedule_wrong("sendcounts or senddispls is NULL");
	if (recvs && k->recv == KIND_EACH && (!a->recvcounts || !a->recvdispls))
		return schedule_wrong("recvcounts or recvdispls is NULL");
	if (recvs && !a->recvcounts)
		return schedule_wrong("recvcounts is NULL");
	return COLL_SUCCESS;
}

static int schedule_check(const coll_schedule_args_t *a, const struct algo *algo)
{
	if (!algo)
		return schedule_wrong("there is no algorithm of that index");
	if (a->nranks < 1 || a->rank < 0 || a->rank >= a->nranks)
		return schedule_wrong("rank must be 0 to nranks - 1");
	if (a->root < 0 || a->root >= a->nranks)
		return schedule_wrong("root must be 0 to nranks - 1");
	if (a->elem < 1 || a->count > SCHED_BYTES_MAX / a->elem / (uint64_t)a->nranks)
		return schedule_wrong("elem is 0, or count does not fit into memory");
	if (a->in_place != 0 && a->in_place != 1)
		return schedule_wrong("in_place must be 0 or 1");
	if (a->average < 0 || a->average > 2)
		return schedule_wrong("average must be 0, 1 or 2");
	if (a->average && kind_at(algo->kind)->is_scan)
		return schedule_wrong("average must be 0 for scan and exscan");
	return schedule_check_arrays(a, algo->kind);
}

/* Fills in the empty *nodes if the algorithm needs it, and checks that the ranks fit the algorithm. */
static int schedule_check_nodes(const coll_schedule_args_t *a, const struct algo *algo,
				struct nodes *nodes)
{
	nodes->count = a->nranks;
	if (a->nodes && algo->flags & COLL_ALGORITHM_NODES &&
	    nodes_make(nodes, a->nodes, NULL, a->nranks))
		return error_set(COLL_ERR_NO_MEMORY,
				 "coll_schedule_args_t: no memory for %d ranks by node",
				 (int)a->nranks);
	if (algo_fits(algo, a->nranks, nodes->count))
		return COLL_SUCCESS;
	nodes_free(nodes);
	return schedule_wrong("the algorithm is not for so many ranks and nodes");
}

/*
 * Copies args, of whatever size, to *full, checks them, and fills in *w.  After success the caller frees *nodes, to which
 * w->nodes points.
 */
static int schedule_take(const coll_schedule_args_t *args, coll_schedule_args_t *full,
			 struct work *w, struct nodes *nodes)
{
	const struct algo *algo;
	int code;

	memset(full, 0, sizeof(*full));
	memset(nodes, 0, sizeof(*nodes));
	if (!args || args->size < sizeof(args->size))
		return schedule_wrong(args ? "size is not set" : "is NULL");
	memcpy(full, args, args->size < sizeof(*full) ? args->size : sizeof(*full));
	algo = algo_at(full->algorithm);
	code = schedule_check(full, algo);
	if (!code)
		code = schedule_check_nodes(full, algo, nodes);
	if (code)
		return code;
	*w = (struct work){.kind = algo->kind, .root = full->root, .count = full->count};
	w->in_place = full->in_place;
	w->sendcounts = full->sendcounts;
	w->senddispls = full->senddispls;
	w->recvcounts = full->recvcounts;
	w->recvdispls = full->recvdispls;
	w->nodes = nodes;
	return COLL_SUCCESS;
}

/* Turns the edges, which lead from earlier to later steps, into the public form: each step names the earlier steps. */
static int schedule_turn(struct coll_schedule *schedule)
{
	const struct sched *s = &schedule->sched;
	size_t *fill;

	schedule->first = calloc((size_t)s->nsteps + 2, sizeof(*schedule->first));
	schedule->after = calloc((size_t)s->nedges + 1, sizeof(*schedule->after));
	if (!schedule->first || !schedule->after)
		return COLL_ERR_NO_MEMORY;
	fill = schedule->first + 1; /* runs ahead by one while the entries are filled in */
	for (int i = 0; i < s->nsteps; i++)
		fill[i + 1] = fill[i] + s->step[i].earlier;
	for (int i = 0; i < s->nsteps; i++)
		for (int e = s->step[i].edge; e >= 0; e = s->edge[e].next)
			schedule->after[fill[s->edge[e].later]++] = i;
	return COLL_SUCCESS;
}

coll_result_t coll_schedule_create(const coll_schedule_args_t *args, coll_schedule_t *schedule)
{
	struct coll_schedule *made = NULL;
	coll_schedule_args_t a;
	struct nodes nodes;
	struct work w;
	int code;

	if (!schedule)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_schedule_create: schedule is NULL");
	*schedule = NULL;
	code = schedule_take(args, &a, &w, &nodes);
	if (code)
		return code;
	made = calloc(1, sizeof(*made));
	if (made) {
		sched_reset(&made->sched, a.rank, a.nranks, a.elem,
			    a.segment ? a.segment : SIZE_MAX);
		made->sched.finish = a.average == 1;
		made->sched.scale = a.average == 2;
		algo_build(algo_at(a.algorithm), &made->sched, &w);
	}
	nodes_free(&nodes);
	if (made && !made->sched.error && !schedule_turn(made)) {
		*schedule = made;
		return COLL_SUCCESS;
	}
	coll_schedule_destroy(made);
	return error_set(COLL_ERR_NO_MEMORY, "coll_schedule_create: no memory for the schedule");
}

void coll_schedule_destroy(coll_schedule_t schedule)
{
	if (!schedule)
		return;
	sched_free(&schedule->sched);
	free(schedule->after);
	free(schedule->first);
	free(schedule);
}

/* ------------------------------------------------------------------------ asking -- */

int32_t coll_schedule_step_count(coll_schedule_t schedule)
{
	return schedule ? schedule->sched.nsteps : 0;
}

uint64_t coll_schedule_scratch(coll_schedule_t schedule)
{
	return schedule ? schedule->sched.scratch : 0;
}

coll_result_t coll_schedule_step(coll_schedule_t schedule, int32_t index, coll_step_t *out)
{
	coll_step_t full = {0};
	const struct step *step;

	if (!schedule || !out || index < 0 || index >= schedule->sched.nsteps)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_schedule_step: %s",
				 !schedule ? "schedule is NULL"
				 : !out    ? "out is NULL"
					   : "there is no step of that index");
	step = &schedule->sched.step[index];
	full.kind = step->kind;
	full.peer = step->peer;
	full.message = step->msg;
	full.swapped = step->swapped;
	full.unscaled = step->unscaled;
	full.dst_buffer = step->dst.buf;
	full.src_buffer = step->src.buf;
	full.other_buffer = step->other.buf;
	full.dst = step->dst.off;
	full.src = step->src.off;
	full.other = step->other.off;
	full.bytes = step->len;
	full.after_count = step->earlier;
	full.after = schedule->after + schedule->first[index];
	return schedule_answer(out, &full, sizeof(full));
}

coll_result_t coll_schedule_cost(const coll_schedule_args_t *args, uint64_t *messages,
				 uint64_t *bytes)
{
	struct cost cost = {0, 0};
	coll_schedule_args_t a;
	struct nodes nodes;
	struct work w;
	int code = schedule_take(args, &a, &w, &nodes);

	if (code)
		return code;
	if (a.nranks > 1 || w.kind == COLL_KIND_SEND)
		algo_at(a.algorithm)->cost(&w, a.nranks, a.elem, &cost);
	nodes_free(&nodes);
	if (messages)
		*messages = cost.messages;
	if (bytes)
		*bytes = cost.bytes;
	return COLL_SUCCESS;
}
