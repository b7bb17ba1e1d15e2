/* SPDX-License-Identifier: BSD-3-Clause */
/* prove.c - `coll prove`: its command line, the work among threads, the table. */
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "json.h"
#include "prove.h"
#include "tool.h"

enum { PROVE_RANKS_MAX = 1024, PROVE_JOBS_MAX = 64, PROVE_RANKS = 64 };

/* What a row of the table may cost for a number of ranks, in steps; see prove_cases. */
enum { PROVE_BUDGET = 400000, PROVE_BUDGET_LEAST = 60000, PROVE_BUDGET_QUICK = 4000 };

static const uint64_t prove_counts[] = {0, 1, 2, 3, 7, 8, 64, 97, 127, 255, 256, 1000, 1024};

enum { PROVE_COUNTS = sizeof(prove_counts) / sizeof(prove_counts[0]) };

/* One algorithm: what was found. */
struct prove_row {
	coll_algorithm_info_t info;
	int wanted, least, most; /* ranks */
	int all_to;              /* up to so many ranks every combination was proven */
	int sampled;             /* from so many on not */
	int failed_ranks;
	struct prove_totals totals;
	unsigned failed;
	char text[PROVE_CHECKS][PROVE_TEXT_MAX];
};

struct prove_work {
	struct prove_row *row;
	int rows, first_ranks, last_ranks, jobs, quick, json;
	uint64_t count;
	int one_count;
	const char *algorithm, *mutant;
	int mutants;
	pthread_mutex_t lock;
	int next; /* item: a row and a number of ranks */
};

static const char prove_help[] =
	"Usage: coll prove [OPTION]...\n"
	"Proves the algorithms: builds the schedules of all ranks, executes them\n"
	"symbolically, and shows of each that\n"
	"  result    every output is made of the right inputs, each once, and nothing else\n"
	"            is written\n"
	"  order     all ranks get the same bits; order and grouping are as claimed\n"
	"  deadlock  every step completes, though a send waits for its receive\n"
	"  race      no step touches what another one, not ordered with it, may write\n"
	"  messages  sends fit receives; their number and volume equal the formula\n"
	"\n"
	"  -a, --algorithm NAME  only this: a collective, or COLLECTIVE/ALGORITHM\n"
	"  -r, --ranks A-B       numbers of ranks, default 1-64\n"
	"  -c, --count N         only this count, default 13 of 0 to 1024\n"
	"  -q, --quick           fewer numbers of ranks, fewer cases of each\n"
	"  -j, --jobs N          threads, default one for each processor\n"
	"      --mutants         plant bugs instead, and show which check catches each\n"
	"      --mutant NAME     only this one\n"
	"      --json            print one JSON document\n"
	"  -h, --help            show this help and exit\n"
	"\n"
	"Exit status: 0 if all is proven (every bug is caught), 1 if not, 2 if the command\n"
	"line is wrong.\n";

/* -------------------------------------------------------------------- work -- */

static int prove_quick_ranks(int n)
{
	return n <= 9 || n == 12 || n == 16 || n == 17;
}

static int prove_partner(int kind)
{
	coll_algorithm_info_t info;
	int other = kind == COLL_KIND_SEND ? COLL_KIND_RECV : COLL_KIND_SEND;

	for (int i = 0; prove_kind_pairs(kind) && i < coll_algorithm_count(); i++) {
		info.size = sizeof(info);
		if (coll_algorithm_info(i, &info) == COLL_SUCCESS && info.kind == other)
			return i;
	}
	return -1;
}

static void prove_keep(struct prove_row *row, const struct prove *p, int nranks, int complete)
{
	row->totals.cases += p->totals.cases;
	row->totals.elements += p->totals.elements;
	row->totals.messages += p->totals.messages;
	row->totals.steps += p->totals.steps;
	if (p->totals.sends > row->totals.sends)
		row->totals.sends = p->totals.sends;
	if (!p->totals.cases)
		return;
	if (!row->least || nranks < row->least)
		row->least = nranks;
	if (nranks > row->most)
		row->most = nranks;
	if (!complete && (!row->sampled || nranks < row->sampled))
		row->sampled = nranks;
	if (!p->failed || (row->failed_ranks && row->failed_ranks < nranks))
		return;
	row->failed_ranks = nranks;
	row->failed = p->failed;
	memcpy(row->text, p->text, sizeof(row->text));
}

/* The largest numbers of ranks come first, so that the threads end at the same time. */
static int prove_take(struct prove_work *w, int *index, int *nranks)
{
	int items = w->rows * (w->last_ranks - w->first_ranks + 1), item;

	do {
		pthread_mutex_lock(&w->lock);
		item = w->next < items ? w->next++ : -1;
		pthread_mutex_unlock(&w->lock);
		if (item < 0)
			return -1;
		*index = item % w->rows;
		*nranks = w->last_ranks - item / w->rows;
	} while (!w->row[*index].wanted || (w->quick && !prove_quick_ranks(*nranks)));
	return 0;
}

static void *prove_thread(void *arg)
{
	struct prove_work *w = arg;
	struct prove p = {0};
	struct prove_plan plan = {.counts = prove_counts, .ncounts = PROVE_COUNTS};

	if (w->one_count) {
		plan.counts = &w->count;
		plan.ncounts = 1;
	}
	while (prove_take(w, &plan.algorithm, &plan.nranks) == 0) {
		struct prove_row *row = &w->row[plan.algorithm];
		int complete;

		plan.budget = (uint64_t)PROVE_BUDGET * (uint64_t)plan.nranks / PROVE_RANKS;
		if (plan.budget < PROVE_BUDGET_LEAST)
			plan.budget = PROVE_BUDGET_LEAST;
		if (w->quick)
			plan.budget = PROVE_BUDGET_QUICK;
		p.mate_algorithm = prove_partner(row->info.kind);
		complete = prove_cases(&p, &plan, &row->info);
		pthread_mutex_lock(&w->lock);
		prove_keep(row, &p, plan.nranks, complete);
		pthread_mutex_unlock(&w->lock);
	}
	prove_free(&p);
	return NULL;
}

static int prove_run_threads(struct prove_work *w)
{
	pthread_t thread[PROVE_JOBS_MAX];
	int started = 0;

	while (started < w->jobs - 1 &&
	       pthread_create(&thread[started], NULL, prove_thread, w) == 0)
		started++;
	prove_thread(w);
	for (int i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
	return 0;
}

/* ------------------------------------------------------------------- table -- */

static const char *prove_verdict(const struct prove_row *row)
{
	if (row->failed)
		return "UNPROVEN";
	return row->totals.cases ? "proven" : "no case";
}

static void prove_print_row(const struct prove_row *row)
{
	char name[64], ranks[32] = "-";

	snprintf(name, sizeof(name), "%s/%s", coll_kind_name(row->info.kind), row->info.name);
	if (row->totals.cases)
		snprintf(ranks, sizeof(ranks), "%d-%d", row->least, row->most);
	printf("%-34s %6s %8llu %12llu %12llu %5d  %s\n", name, ranks,
	       (unsigned long long)row->totals.cases, (unsigned long long)row->totals.elements,
	       (unsigned long long)row->totals.messages, row->totals.sends, prove_verdict(row));
}

static void prove_sum(const struct prove_work *w, struct prove_totals *sum, int *proven,
		      int *failed)
{
	memset(sum, 0, sizeof(*sum));
	*proven = *failed = 0;
	for (int i = 0; i < w->rows; i++) {
		sum->cases += w->row[i].totals.cases;
		sum->elements += w->row[i].totals.elements;
		sum->messages += w->row[i].totals.messages;
		*failed += w->row[i].failed != 0;
		*proven += !w->row[i].failed && w->row[i].totals.cases;
	}
}

static void prove_print(const struct prove_work *w)
{
	struct prove_totals sum;
	int proven, failed, sampled = 0;

	printf("%-34s %6s %8s %12s %12s %5s  %s\n", "algorithm", "ranks", "cases", "elements",
	       "messages", "sends", "verdict");
	for (int i = 0; i < w->rows; i++) {
		const struct prove_row *row = &w->row[i];

		if (!row->wanted)
			continue;
		prove_print_row(row);
		for (int k = 0; k < PROVE_CHECKS; k++)
			if (row->failed & 1u << k)
				printf("    %s: %s\n", prove_check_names[k], row->text[k]);
		if (row->sampled && (!sampled || row->sampled < sampled))
			sampled = row->sampled;
	}
	prove_sum(w, &sum, &proven, &failed);
	printf("\n%d proven, %d unproven: %llu cases, %llu output elements, %llu messages\n",
	       proven, failed, (unsigned long long)sum.cases, (unsigned long long)sum.elements,
	       (unsigned long long)sum.messages);
	printf("sends: of one rank in flight at a time, so few suffice in whatever order they "
	       "start\n");
	if (sampled)
		printf("From %d ranks on combinations of root, count, place, pieces and so on are "
		       "sampled;\nevery root and every count comes with every number of ranks.\n",
		       sampled);
}

static void prove_print_json(const struct prove_work *w)
{
	struct json json = {.out = stdout};

	json_object(&json, NULL);
	json_array(&json, "algorithms");
	for (int i = 0; i < w->rows; i++) {
		const struct prove_row *row = &w->row[i];

		if (!row->wanted)
			continue;
		json_object(&json, NULL);
		json_string(&json, "collective", coll_kind_name(row->info.kind));
		json_string(&json, "algorithm", row->info.name);
		json_int(&json, "ranks_from", row->least);
		json_int(&json, "ranks_to", row->most);
		json_int(&json, "cases", (int64_t)row->totals.cases);
		json_int(&json, "elements", (int64_t)row->totals.elements);
		json_int(&json, "messages", (int64_t)row->totals.messages);
		json_int(&json, "sends", row->totals.sends);
		json_string(&json, "verdict", prove_verdict(row));
		json_object(&json, "failures");
		for (int k = 0; k < PROVE_CHECKS; k++)
			if (row->failed & 1u << k)
				json_string(&json, prove_check_names[k], row->text[k]);
		json_object_end(&json);
		json_object_end(&json);
	}
	json_array_end(&json);
	json_object_end(&json);
}

/* ------------------------------------------------------------ command line -- */

static int prove_row_wanted(const struct prove_row *row, const char *name)
{
	const char *kind = coll_kind_name(row->info.kind);
	size_t n = strlen(kind);

	if (name == NULL || strcmp(name, kind) == 0)
		return 1;
	return strncmp(name, kind, n) == 0 && name[n] == '/' &&
	       strcmp(name + n + 1, row->info.name) == 0;
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
		if (coll_algorithm_info(i, &w->row[i].info) != COLL_SUCCESS) {
			fprintf(stderr, "coll prove: %s\n", coll_get_last_error(NULL));
			return 1;
		}
		w->row[i].wanted = prove_row_wanted(&w->row[i], w->algorithm);
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
	int status = prove_rows(w), proven, failed;
	struct prove_totals sum;

	if (status == 0) {
		pthread_mutex_init(&w->lock, NULL);
		prove_run_threads(w);
		pthread_mutex_destroy(&w->lock);
		if (w->json)
			prove_print_json(w);
		else
			prove_print(w);
		prove_sum(w, &sum, &proven, &failed);
		status = failed || !proven;
	}
	free(w->row);
	return status;
}

static int prove_parse_ranks(struct prove_work *w, const char *text)
{
	char first[16];
	const char *dash = strchr(text, '-');
	int64_t a, b;

	snprintf(first, sizeof(first), "%.*s", dash ? (int)(dash - text) : 15, text);
	if (tool_parse_int(first, 1, PROVE_RANKS_MAX, &a) != 0)
		return -1;
	b = a;
	if (dash && tool_parse_int(dash + 1, a, PROVE_RANKS_MAX, &b) != 0)
		return -1;
	w->first_ranks = (int)a;
	w->last_ranks = (int)b;
	return 0;
}

enum { PROVE_OPTION_MUTANTS = 256, PROVE_OPTION_MUTANT, PROVE_OPTION_JSON };

static const struct option prove_options[] = {
	{"algorithm", required_argument, NULL, 'a'},
	{"ranks", required_argument, NULL, 'r'},
	{"count", required_argument, NULL, 'c'},
	{"quick", no_argument, NULL, 'q'},
	{"jobs", required_argument, NULL, 'j'},
	{"mutants", no_argument, NULL, PROVE_OPTION_MUTANTS},
	{"mutant", required_argument, NULL, PROVE_OPTION_MUTANT},
	{"json", no_argument, NULL, PROVE_OPTION_JSON},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* 0, or -1 if the value is wrong. */
static int prove_set(struct prove_work *w, int option, const char *value)
{
	int64_t number;

	switch (option) {
	case 'a': w->algorithm = value; return 0;
	case 'r': return prove_parse_ranks(w, value);
	case 'c':
		w->one_count = 1;
		if (tool_parse_int(value, 0, INT32_MAX, &number) != 0)
			return -1;
		w->count = (uint64_t)number;
		return 0;
	case 'q': w->quick = 1; return 0;
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
	struct prove_work w = {.first_ranks = 1, .last_ranks = PROVE_RANKS};
	long processors = sysconf(_SC_NPROCESSORS_ONLN);
	int option;

	w.jobs = processors < 1                ? 1
		 : processors > PROVE_JOBS_MAX ? PROVE_JOBS_MAX
					       : (int)processors;
	while ((option = getopt_long(argc, argv, ":a:r:c:qj:h", prove_options, NULL)) != -1) {
		if (option == ':' || option == '?')
			return tool_bad_option("prove", option, argv, prove_options);
		if (option == 'h') {
			fputs(prove_help, stdout);
			return 0;
		}
		if (prove_set(&w, option, optarg) != 0)
			return tool_usage("prove", "'%s' is no value for %s", optarg,
					  option == 'r'   ? "--ranks: 1-64, at most 1024"
					  : option == 'c' ? "--count"
							  : "--jobs: 1 to 64");
	}
	if (optind < argc)
		return tool_usage("prove", "there is no argument '%s'", argv[optind]);
	return w.mutants ? prove_try_mutants(w.mutant) : prove_all(&w);
}

const struct tool_command tool_prove = {
	.name = "prove",
	.summary = "prove the algorithms of the collectives",
	.help = prove_help,
	.main = prove_main,
};
