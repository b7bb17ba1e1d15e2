/* SPDX-License-Identifier: BSD-3-Clause */
/* prove.c - `coll prove`: its command line, the threads that share the work, the table. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "prove/prove.h"
#include "lib/progress.h"
#include "lib/tool.h"

enum { PROVE_JOBS_MAX = 64 };

/* With the longest element, such a count on the most ranks fits into memory. */
#define PROVE_COUNT_MAX ((int64_t)1 << 36)

/*
 * Counts to prove.  A builder that goes another way from some length on is proven on both: see LEVEL_LONG and LEVEL_BLOCK
 * of algo_level.c.  Some lengths are beyond 32 bits, and have more bits than a float keeps.
 */
const uint64_t prove_counts[] = {0,     1,      2,       3,          7,         8,    64,
				 97,    127,    255,     256,        1000,      1024, 65535,
				 65536, 100003, 2097152, 8589934592, 8589934605};
const int prove_ncounts = sizeof(prove_counts) / sizeof(prove_counts[0]);

struct prove_work {
	struct prove_row *row;
	struct prove_plan plan;
	int rows, first_ranks, last_ranks, jobs, json;
	uint64_t count;
	const char *algorithm, *mutant;
	int mutants;
	pthread_mutex_t lock;
	int next;        /* next item of work: an algorithm and a number of ranks */
	int items, done; /* the items that the plan wants, and how many of them are proven */
	struct progress progress;
};

static const char prove_help[] =
	"Usage: coll prove [OPTION]...\n"
	"Proves the algorithms: builds the schedules of all ranks, executes them\n"
	"symbolically, and proves of each algorithm that\n"
	"  result    every output consists of the right inputs, each once, and no step writes\n"
	"            outside the outputs\n"
	"  order     all ranks get the same bits; order and grouping are as claimed\n"
	"  deadlock  every step completes, although a send waits for its receive\n"
	"  race      no step touches bytes that a step not ordered with it may write\n"
	"  messages  sends fit receives; their number and volume equal the formula\n"
	"\n"
	"  -a, --algorithm NAME  prove only NAME: a collective, or COLLECTIVE/ALGORITHM\n"
	"  -r, --ranks A-B       numbers of ranks; default some from 1 to 257\n"
	"  -c, --count N         try only this count; default 19 counts from 0 to 2^33\n"
	"  -q, --quick           try fewer numbers of ranks and fewer cases of each\n"
	"  -l, --long            try more of both; takes minutes\n"
	"      --seed N          draw other cases; default 1\n"
	"  -j, --jobs N          number of threads; default one for each processor\n"
	"      --mutants         plant bugs instead, and show which check catches each bug\n"
	"      --mutant NAME     plant only this bug\n"
	"      --json            print one JSON document\n"
	"  -h, --help            show this help and exit\n"
	"\n"
	"Exit status: 0 if all algorithms are proven (every bug is caught), 1 if not, 2 if the\n"
	"command line is wrong.\n";

/* -------------------------------------------------------------------- work -- */

int prove_partner(int kind)
{
	coll_algorithm_info_t info;
	int other = kind == COLL_KIND_SEND ? COLL_KIND_RECV : COLL_KIND_SEND;

	for (int i = 0; prove_kind_pairs(kind) && i < coll_algorithm_count(); i++) {
		info.size = sizeof(info);
		if (coll_algorithm(i, &info) == COLL_SUCCESS && info.kind == other)
			return i;
	}
	return -1;
}

static void prove_keep(struct prove_row *row, const struct prove *p, int nranks, unsigned swept)
{
	row->totals.cases += p->totals.cases;
	row->totals.elements += p->totals.elements;
	row->totals.messages += p->totals.messages;
	row->totals.steps += p->totals.steps;
	if (p->totals.longest > row->totals.longest)
		row->totals.longest = p->totals.longest;
	if (p->totals.sends > row->totals.sends)
		row->totals.sends = p->totals.sends;
	if (!p->totals.cases)
		return;
	prove_set_add(&row->ranks, nranks);
	for (int i = 0; i < PROVE_SWEEPS; i++)
		if (swept & 1u << i)
			prove_set_add(&row->swept[i], nranks);
	if (!p->failed || (row->failed_ranks && row->failed_ranks < nranks))
		return;
	row->failed_ranks = nranks;
	row->failed = p->failed;
	memcpy(row->text, p->text, sizeof(row->text));
}

/* Takes an item.  Threads take the largest numbers of ranks first, so that they finish at about the same time. */
static int prove_take(struct prove_work *w, int *index, int *nranks)
{
	int items = w->rows * PROVE_RANKS_MAX, item;

	do {
		pthread_mutex_lock(&w->lock);
		item = w->next < items ? w->next++ : -1;
		pthread_mutex_unlock(&w->lock);
		if (item < 0)
			return -1;
		*index = item % w->rows;
		*nranks = PROVE_RANKS_MAX - item / w->rows;
	} while (!w->row[*index].wanted || !prove_set_has(&w->plan.ranks, *nranks));
	return 0;
}

/* Shows how far the proof is.  The caller holds the lock. */
static void prove_show(struct prove_work *w, const struct prove_row *row, int nranks)
{
	progress_show(&w->progress, "%d of %d proofs; the last: %s/%s on %d ranks", w->done,
		      w->items, coll_kind_name(row->info.kind), row->info.name, nranks);
}

static void *prove_thread(void *arg)
{
	struct prove_work *w = arg;
	struct prove p = {0};
	int index, nranks;

	while (prove_take(w, &index, &nranks) == 0) {
		struct prove_row *row = &w->row[index];
		unsigned swept;

		p.mate_algorithm = prove_partner(row->info.kind);
		swept = prove_sweeps(&p, &w->plan, index, &row->info, nranks);
		pthread_mutex_lock(&w->lock);
		prove_keep(row, &p, nranks, swept);
		w->done++;
		prove_show(w, row, nranks);
		pthread_mutex_unlock(&w->lock);
	}
	prove_free(&p);
	return NULL;
}

static void prove_run_threads(struct prove_work *w)
{
	pthread_t thread[PROVE_JOBS_MAX];
	int started = 0;

	for (int i = 0; i < w->rows; i++)
		for (int n = 1; w->row[i].wanted && n <= PROVE_RANKS_MAX; n++)
			w->items += prove_set_has(&w->plan.ranks, n);
	progress_begin(&w->progress, PROGRESS_AFTER_MS);
	while (started < w->jobs - 1 &&
	       pthread_create(&thread[started], NULL, prove_thread, w) == 0)
		started++;
	prove_thread(w);
	for (int i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	progress_clear(&w->progress);
}

/* ------------------------------------------------------------ command line -- */

int prove_wanted(const coll_algorithm_info_t *info, const char *name)
{
	const char *kind = coll_kind_name(info->kind);
	size_t n = strlen(kind);

	if (name == NULL || strcmp(name, kind) == 0)
		return 1;
	return strncmp(name, kind, n) == 0 && name[n] == '/' &&
	       strcmp(name + n + 1, info->name) == 0;
}

static int prove_rows(struct prove_work *w)
{
	int wanted = 0;

	w->rows = coll_algorithm_count();
	w->row = calloc((size_t)w->rows + 1, sizeof(*w->row));
	if (w->row == NULL) {
		fprintf(stderr, "coll prove: no memory for %d algorithms\n", w->rows);
		return 1;
	}
	for (int i = 0; i < w->rows; i++) {
		w->row[i].info.size = sizeof(w->row[i].info);
		if (coll_algorithm(i, &w->row[i].info) != COLL_SUCCESS) {
			fprintf(stderr, "coll prove: %s\n", coll_get_last_error(NULL));
			return 1;
		}
		w->row[i].wanted = prove_wanted(&w->row[i].info, w->algorithm);
		wanted += w->row[i].wanted;
	}
	return wanted ? 0
		      : tool_usage("prove",
				   "no algorithm '%s': name a collective, or one of its "
				   "algorithms as in allreduce/ring",
				   w->algorithm);
}

static int prove_all(struct prove_work *w)
{
	int status = prove_rows(w);

	if (status == 0) {
		prove_plan_ranks(&w->plan, w->first_ranks, w->last_ranks);
		pthread_mutex_init(&w->lock, NULL);
		prove_run_threads(w);
		pthread_mutex_destroy(&w->lock);
		status = prove_table(&w->plan, w->row, w->rows, w->json) != 0;
	}
	free(w->row);
	return status;
}

static int prove_parse_ranks(struct prove_work *w, const char *text)
{
	int64_t a, b;

	if (tool_parse_range(text, 1, PROVE_RANKS_MAX, &a, &b) != 0)
		return -1;
	w->first_ranks = (int)a;
	w->last_ranks = (int)b;
	return 0;
}

enum { PROVE_OPTION_MUTANTS = 256, PROVE_OPTION_MUTANT, PROVE_OPTION_SEED, PROVE_OPTION_JSON };

static const struct option prove_options[] = {
	{"algorithm", required_argument, NULL, 'a'},
	{"ranks", required_argument, NULL, 'r'},
	{"count", required_argument, NULL, 'c'},
	{"quick", no_argument, NULL, 'q'},
	{"long", no_argument, NULL, 'l'},
	{"seed", required_argument, NULL, PROVE_OPTION_SEED},
	{"jobs", required_argument, NULL, 'j'},
	{"mutants", no_argument, NULL, PROVE_OPTION_MUTANTS},
	{"mutant", required_argument, NULL, PROVE_OPTION_MUTANT},
	{"json", no_argument, NULL, PROVE_OPTION_JSON},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* Reads one option.  Returns 0, or -1 if the value is wrong. */
static int prove_set(struct prove_work *w, int option, const char *value)
{
	int64_t number;

	switch (option) {
	case 'a': w->algorithm = value; return 0;
	case 'r': return prove_parse_ranks(w, value);
	case 'c':
		if (tool_parse_int(value, 0, PROVE_COUNT_MAX, &number) != 0)
			return -1;
		w->count = (uint64_t)number;
		w->plan.counts = &w->count;
		w->plan.ncounts = 1;
		return 0;
	case 'q': w->plan.level = PROVE_QUICK; return 0;
	case 'l': w->plan.level = PROVE_LONG; return 0;
	case PROVE_OPTION_SEED:
		if (tool_parse_int(value, 0, INT64_MAX, &number) != 0)
			return -1;
		w->plan.seed = (uint64_t)number;
		return 0;
	case 'j':
		if (tool_parse_int(value, 1, PROVE_JOBS_MAX, &number) != 0)
			return -1;
		w->jobs = (int)number;
		return 0;
	case PROVE_OPTION_MUTANT: w->mutant = value; /* fall through */
	case PROVE_OPTION_MUTANTS: w->mutants = 1; return 0;
	default: w->json = 1; return 0;
	}
}

static int prove_main(int argc, char **argv)
{
	struct prove_work w = {.plan = {.level = PROVE_USUAL, .seed = 1, .counts = prove_counts}};
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	int option;

	w.plan.ncounts = prove_ncounts;
	w.first_ranks = 1;
	w.jobs = processors < 1                ? 1
		 : processors > PROVE_JOBS_MAX ? PROVE_JOBS_MAX
					       : (int)processors;
	while ((option = getopt_long(argc, argv, ":a:r:c:qlj:h", prove_options, NULL)) != -1) {
		if (option == ':' || option == '?')
			return tool_bad_option("prove", option, argv, prove_options);
		if (option == 'h') {
			fputs(prove_help, stdout);
			return 0;
		}
		if (prove_set(&w, option, optarg) != 0)
			return tool_usage("prove", "'%s' is no value for %s", optarg,
					  option == 'r'   ? "--ranks: 1-64, at most 1024"
					  : option == 'c' ? "--count: 0 to 2^36"
					  : option == 'j' ? "--jobs: 1 to 64"
							  : "--seed");
	}
	if (optind < argc)
		return tool_usage("prove", "unexpected argument '%s'", argv[optind]);
	return w.mutants ? prove_try_mutants(w.mutant, w.json) : prove_all(&w);
}

const struct tool_command tool_prove = {
	.name = "prove",
	.summary = "prove the algorithms of the collectives",
	.help = prove_help,
	.main = prove_main,
};
