/* SPDX-License-Identifier: BSD-3-Clause */
/* perf.c - `coll perf`: the command, and the sequence of measurements on one rank. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "perf/perf.h"
#include "perf/args.h"
#include "lib/tool.h"
#include "oracle/oracle.h"

/* One rank: a process, or a thread of this process. */
struct perf_worker {
	const struct perf_options *options;
	coll_comm_t comm;
	int status;
	int broken; /* 1: memory ran out or a call failed, so the ranks can make no further call together */
	pthread_t thread;
	struct perf_report report;
	struct perf_buffers buffers;
	size_t skipped;
};

/*
 * Returns the calls of a group.  A barrier waits for all ranks, which it may not do inside a group.  kind: NULL for
 * all kinds.
 */
static int perf_group(const struct perf_options *o, const struct perf_kind *kind)
{
	return kind && kind->no_data ? 1 : o->group;
}

/*
 * Allocates buffers for the largest case: each rank's part has at least one element, of any type.  Returns 0, or -1 with
 * the reason in text.
 */
static int perf_open_buffers(struct perf_worker *w, int nranks, char *text, size_t size)
{
	uint64_t bytes = (uint64_t)nranks * ORACLE_ELEM_MAX;
	const int group = perf_group(w->options, w->options->kind);

	for (size_t i = 0; i < w->options->sizes; i++)
		if (w->options->size[i] > bytes)
			bytes = w->options->size[i];
	if (group > 1)
		bytes = perf_group_stride(bytes);
	if (bytes > UINT64_MAX / (uint64_t)group) {
		snprintf(text, size,
			 "--group %d: %llu bytes for each call are more than any memory; use a "
			 "smaller --maxbytes",
			 group, (unsigned long long)bytes);
		return -1;
	}
	bytes *= (uint64_t)group;
	return perf_buffers_open(&w->buffers, w->options, w->comm, bytes, text, size);
}

/* Ends the report with an error after which the ranks can make no further call together. */
static void perf_broken(struct perf_worker *w, const struct perf_case *c, const char *text)
{
	perf_report_end(&w->report, text);
	fprintf(stderr, "coll perf: rank %d: %s\n", c->rank, text);
	w->broken = 1;
}

static int perf_call_failed(struct perf_worker *w, const struct perf_case *c)
{
	char text[1024];

	snprintf(text, sizeof(text), "%s of %zu bytes: %s", c->kind->name, c->size,
		 coll_get_last_error(NULL));
	perf_broken(w, c, text);
	return -1;
}

/*
 * Measures all sizes of one collective, type and operation.  Returns 0, or -1 after printing an
 * error.
 */
static int perf_sizes(struct perf_worker *w, struct perf_case *c)
{
	const struct perf_options *o = w->options;
	size_t before = SIZE_MAX;

	for (size_t i = 0; i < o->sizes; i++) {
		struct perf_row row;
		coll_result_t code;

		perf_set_size(c, o->size[i]);
		/* If every rank has a part, several small sizes are rounded up to the same size. */
		if (c->size == before)
			continue;
		before = c->size;
		perf_report_progress(&w->report, c);
		code = perf_run_row(c, o, &w->buffers, &row);
		if (code == COLL_ERR_UNSUPPORTED) {
			perf_report_skipped(&w->report, coll_get_last_error(NULL));
			w->skipped++;
			return 0;
		}
		if (code != COLL_SUCCESS)
			return perf_call_failed(w, c);
		perf_report_row(&w->report, c, &row);
	}
	return 0;
}

static int perf_kind_cases(struct perf_worker *w, struct perf_case *c)
{
	const struct perf_options *o = w->options;
	int dtypes = c->kind->no_data ? 1 : o->dtypes, ops = c->kind->reduces ? o->ops : 1;

	c->group = perf_group(o, c->kind);
	for (int d = 0; d < dtypes; d++)
		for (int p = 0; p < ops; p++) {
			c->dtype = o->dtype[d];
			c->op = o->op[p];
			if (c->kind->reduces && (o->ops > 1 || o->dtypes > 1) &&
			    (!oracle_op_fits(c->op, c->dtype) ||
			     (c->kind->scans && c->op == COLL_AVG)))
				continue;
			if (perf_sizes(w, c) != 0)
				return -1;
		}
	return 0;
}

static int perf_all_kinds(struct perf_worker *w, struct perf_case *c)
{
	const struct perf_kind *only = w->options->kind;
	int unwritten;

	for (const struct perf_kind *kind = perf_kinds; kind->name != NULL; kind++) {
		c->kind = kind;
		if ((only == NULL || only == kind) && perf_kind_cases(w, c) != 0)
			return -1;
	}
	unwritten = perf_report_end(&w->report, NULL);
	/*
	 * A rank that exits with a failure may end rank 0, so it waits until rank 0 has printed
	 * everything.
	 */
	if (coll_barrier(w->comm) != COLL_SUCCESS)
		w->broken = 1;
	return w->broken || unwritten || w->report.wrong || (w->skipped && !w->options->several)
		       ? -1
		       : 0;
}

/* Runs all measurements of one rank.  Returns the exit status. */
static int perf_rank(struct perf_worker *w)
{
	struct perf_case c = {.comm = w->comm, .root = w->options->root};
	char text[1024];
	int status = 1, opened;

	if (coll_comm_user_rank(w->comm, &c.rank) || coll_comm_count(w->comm, &c.nranks)) {
		fprintf(stderr, "coll perf: %s\n", coll_get_last_error(NULL));
		return 1;
	}
	if (c.root >= c.nranks) {
		if (c.rank == 0)
			tool_usage("perf", "--root %d: there are only %d ranks", c.root, c.nranks);
		return TOOL_USAGE;
	}
	c.counts = calloc(2 * (size_t)c.nranks, sizeof(*c.counts));
	if (c.counts == NULL) {
		fprintf(stderr, "coll perf: no memory for the counts of %d ranks\n", c.nranks);
		return 1;
	}
	c.displs = c.counts + c.nranks;
	opened = perf_open_buffers(w, c.nranks, text, sizeof(text)) == 0;
	perf_report_begin(&w->report, w->options, &c, w->buffers.memory);
	if (!opened)
		perf_broken(w, &c, text);
	else if (perf_all_kinds(w, &c) == 0)
		status = 0;
	perf_buffers_close(&w->buffers);
	free(c.counts);
	return status;
}

/* ------------------------------------------------------ processes, threads -- */

static int perf_one_process(const struct perf_options *options)
{
	struct perf_worker w = {.options = options};
	coll_config_t config;
	int devices;

	if (perf_devices(options, &devices) != 0)
		return 1;
	coll_config_init(&config, sizeof(config));
	if (devices > 0)
		config.device = perf_local_rank() % devices;
	if (coll_comm_init_env(&w.comm, &config) != COLL_SUCCESS) {
		fprintf(stderr, "coll perf: %s\n", coll_get_last_error(NULL));
		return 1;
	}
	w.status = perf_rank(&w);
	coll_comm_destroy(w.comm);
	return w.status;
}

static void *perf_thread(void *arg)
{
	struct perf_worker *w = arg;

	w->status = perf_rank(w);
	/* Aborts, so that the other ranks do not wait for a rank that failed. */
	if (w->broken)
		coll_comm_abort(w->comm);
	return NULL;
}

static int perf_run_threads(struct perf_worker *w, int n)
{
	int started, status = 0;

	for (started = 0; started < n; started++)
		if (pthread_create(&w[started].thread, NULL, perf_thread, &w[started]) != 0)
			break;
	if (started < n) {
		fprintf(stderr, "coll perf: cannot start a thread for rank %d\n", started);
		status = 1;
	}
	for (int r = started; r < n; r++)
		coll_comm_abort(w[r].comm);
	for (int r = 0; r < started; r++) {
		pthread_join(w[r].thread, NULL);
		if (status == 0)
			status = w[r].status;
	}
	return status;
}

/* Gives each rank a device of its own, as far as there are enough devices. */
static coll_result_t perf_init_all(coll_comm_t *comms, int n, int devices)
{
	int32_t device[PERF_RANKS_MAX];

	for (int r = 0; r < n && devices > 0; r++)
		device[r] = r % devices;
	return coll_comm_init_all(comms, n, devices > 0 ? device : NULL, NULL);
}

static int perf_one_process_all_ranks(const struct perf_options *options)
{
	int n = options->in_process, status = 1, devices;
	struct perf_worker *w = calloc((size_t)n, sizeof(*w));
	coll_comm_t *comms = calloc((size_t)n, sizeof(*comms));

	if (w == NULL || comms == NULL) {
		fprintf(stderr, "coll perf: no memory for %d ranks\n", n);
	} else if (perf_devices(options, &devices) != 0) {
		status = 1;
	} else if (perf_init_all(comms, n, devices) != COLL_SUCCESS) {
		fprintf(stderr, "coll perf: %s\n", coll_get_last_error(NULL));
	} else {
		for (int r = 0; r < n; r++) {
			w[r].options = options;
			w[r].comm = comms[r];
		}
		status = perf_run_threads(w, n);
		for (int r = 0; r < n; r++)
			coll_comm_destroy(comms[r]);
	}
	free(comms);
	free(w);
	return status;
}

static int perf_main(int argc, char **argv)
{
	struct perf_options options;
	int status = perf_args(&options, argc, argv);

	if (status == PERF_ARGS_GO && options.compare)
		status = perf_compare(options.compare[0], options.compare[1]);
	else if (status == PERF_ARGS_GO)
		status = options.in_process ? perf_one_process_all_ranks(&options)
					    : perf_one_process(&options);
	free(options.size);
	return status;
}

const struct tool_command tool_perf = {
	.name = "perf",
	.summary = "check and measure collectives",
	.help = perf_help,
	.main = perf_main,
};
