/* SPDX-License-Identifier: BSD-3-Clause */
/* model.c - `coll model`: its command line, its cases, the table. */
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/json.h"
#include "lib/progress.h"
#include "lib/tool.h"
#include "model/model.h"

enum { MODEL_LIST = 32, MODEL_RANKS_MAX = 1024, MODEL_NAMES = 16, MODEL_SEGMENT_MIN = 4 << 10 };

/* The request of the command line. */
struct model_request {
	struct model_machine machine;
	int64_t ranks[MODEL_LIST];
	uint64_t sizes[MODEL_LIST], segment;
	int nranks, nsizes, json;
	char **names; /* names of collectives and algorithms; none: all */
	int nnames;
};

static const char model_help[] =
	"Usage: coll model [OPTION]... [NAME]...\n"
	"Estimates the time of each algorithm: builds the schedules of all ranks and runs\n"
	"them on a model of a machine, LogGP (Alexandrov and others, 1995).  A NAME is a\n"
	"collective or COLLECTIVE/ALGORITHM; default all.  A * marks the algorithm that\n"
	"the rules choose.\n"
	"\n"
	"  -r, --ranks LIST     numbers of ranks, default 2,4,8,16,64\n"
	"  -s, --sizes LIST     bytes of the count argument, default 8,1K,16K,256K,4M\n"
	"      --node-size N    consecutive ranks of a node, default 1\n"
	"      --cores N        processors that ranks of a node share, default one each\n"
	"      --segment BYTES  size of pieces of long messages, default 1M; 0: no pieces\n"
	"  -f, --far L,o,g,G    messages between nodes, nanoseconds: latency, overhead on\n"
	"                       each side, gap between messages, time of a byte; default\n"
	"                       10000,3000,1000,0.32 (TCP, 25 Gb/s)\n"
	"  -n, --near L,o,g,G   messages within a node, default 300,150,50,0.1\n"
	"      --reduce TIME    nanoseconds to reduce or copy a byte, default 0.1\n"
	"      --json           print one JSON document\n"
	"  -h, --help           show this help and exit\n"
	"\n"
	"Exit status: 0, 1 if a schedule cannot be built, 2 if the command line is wrong.\n";

static const struct model_request model_default = {
	.machine = {.far = {10000000, 3000000, 1000000, 320},
		    .near = {300000, 150000, 50000, 100},
		    .reduce = 100,
		    .node_size = 1},
	.ranks = {2, 4, 8, 16, 64},
	.sizes = {8, 1 << 10, 16 << 10, 256 << 10, 4 << 20},
	.segment = 1 << 20,
	.nranks = 5,
	.nsizes = 5,
};

/* --------------------------------------------------------------------------- cases -- */

/* The times of the algorithms of a collective for one call. */
struct model_row {
	int algorithm;
	double time;
};

struct model_work {
	const struct model_request *request;
	struct prove prove;
	struct model_run run;
	coll_info_t info;
	struct json json;
	struct progress progress;
	int failed; /* 1: an algorithm had no schedule */
};

/* Returns the time of an algorithm, or -1 if it has no schedule for the call. */
static double model_time(struct model_work *w, const struct model_call *call, int id,
			 const coll_algorithm_info_t *algorithm)
{
	const struct prove_case c = {.algorithm = id,
				     .info = algorithm,
				     .flags = algorithm->flags,
				     .nranks = call->nranks,
				     .count = call->bytes,
				     .elem = 1,
				     .segment = w->request->segment,
				     .node_size = w->request->machine.node_size};
	double time = -1;

	progress_show(&w->progress, "%s/%s, %d ranks, %llu bytes", coll_kind_name(call->kind),
		      algorithm->name, call->nranks, (unsigned long long)call->bytes);
	w->prove.c = &c;
	w->prove.failed = 0;
	if (prove_build(&w->prove) == 0 && prove_match(&w->prove) == 0)
		time = model_simulate(&w->run, &w->prove, &w->request->machine);
	prove_unbuild(&w->prove);
	for (int k = 0; k < PROVE_CHECKS; k++)
		if (w->prove.failed & 1u << k) {
			fprintf(stderr, "coll model: %s\n", w->prove.text[k]);
			w->failed = 1;
		}
	return time;
}

static void model_print(struct model_work *w, const struct model_call *call,
			const struct model_row *row, double best, int chosen)
{
	coll_algorithm_info_t a = {.size = sizeof(a)};
	double ratio = best > 0 ? row->time / best : 1;

	coll_algorithm(row->algorithm, &a);
	if (!w->request->json) {
		printf("%-16s %6d %6d %11llu  %c %-19s %14.3f %8.2f\n", coll_kind_name(call->kind),
		       call->nranks, call->nnodes, (unsigned long long)call->bytes,
		       chosen ? '*' : ' ', a.name, row->time / 1e6, ratio);
		return;
	}
	json_object(&w->json, NULL);
	json_string(&w->json, "collective", coll_kind_name(call->kind));
	json_int(&w->json, "ranks", call->nranks);
	json_int(&w->json, "nodes", call->nnodes);
	json_int(&w->json, "bytes", (int64_t)call->bytes);
	json_string(&w->json, "algorithm", a.name);
	json_number(&w->json, "microseconds", row->time / 1e6);
	json_number(&w->json, "ratio", ratio);
	json_bool(&w->json, "chosen", chosen);
	json_object_end(&w->json);
}

static int model_wanted(const struct model_request *request, const coll_algorithm_info_t *algorithm)
{
	int wanted = !request->nnames && !prove_kind_pairs(algorithm->kind);

	for (int i = 0; i < request->nnames; i++)
		wanted |= prove_wanted(algorithm, request->names[i]);
	return wanted;
}

/* Models one call with all wanted algorithms of its collective. */
static void model_one(struct model_work *w, const struct model_call *call)
{
	struct model_row row[MODEL_NAMES];
	int rows = 0, chosen = model_choice(w->info, call);
	double best = HUGE_VAL;

	for (int i = 0; i < coll_algorithm_count() && rows < MODEL_NAMES; i++) {
		coll_algorithm_info_t a = {.size = sizeof(a)};

		if (coll_algorithm(i, &a) != COLL_SUCCESS || a.kind != call->kind ||
		    !model_wanted(w->request, &a) || !model_fits(&a, call))
			continue;
		row[rows].algorithm = i;
		row[rows].time = model_time(w, call, i, &a);
		if (row[rows].time < 0)
			continue;
		if (row[rows].time < best)
			best = row[rows].time;
		rows++;
	}
	progress_clear(&w->progress);
	for (int i = 0; i < rows; i++)
		model_print(w, call, &row[i], best, row[i].algorithm == chosen);
}

static uint32_t model_cpus(const struct model_machine *machine, int nranks)
{
	const int local = nranks < machine->node_size ? nranks : machine->node_size;

	if (!machine->cores || local <= machine->cores)
		return COLL_RULE_OWN_CPUS;
	return machine->cores > 2 ? COLL_RULE_SHARED_CPUS : COLL_RULE_FEW_CPUS;
}

static void model_all(struct model_work *w)
{
	const struct model_request *request = w->request;
	int node_size = request->machine.node_size;

	if (!request->json)
		printf("%-16s %6s %6s %11s    %-19s %14s %8s\n", "collective", "ranks", "nodes",
		       "bytes", "algorithm", "microseconds", "to best");
	for (int kind = 1; kind <= COLL_KIND_EXSCAN; kind++)
		for (int r = 0; r < request->nranks; r++)
			for (int s = 0; s < (kind == COLL_KIND_BARRIER ? 1 : request->nsizes);
			     s++) {
				struct model_call call = {.kind = kind,
							  .nranks = (int)request->ranks[r],
							  .bytes = request->sizes[s]};

				call.nnodes = (call.nranks - 1) / node_size + 1;
				call.cpus = model_cpus(&request->machine, call.nranks);
				if (kind == COLL_KIND_BARRIER)
					call.bytes = 0;
				model_one(w, &call);
			}
}

static int model_show(const struct model_request *request)
{
	struct model_work w = {.request = request, .json = {.out = stdout}};

	tool_probe_apart();
	if (coll_info_create(NULL, &w.info) != COLL_SUCCESS) {
		fprintf(stderr, "coll model: %s\n", coll_get_last_error(NULL));
		return 1;
	}
	if (request->json) {
		json_object(&w.json, NULL);
		json_array(&w.json, "times");
	}
	progress_begin(&w.progress, PROGRESS_AFTER_MS);
	model_all(&w);
	if (request->json) {
		json_array_end(&w.json);
		json_object_end(&w.json);
	}
	coll_info_destroy(w.info);
	prove_free(&w.prove);
	model_free(&w.run);
	return w.failed;
}

/* -------------------------------------------------------------------- command line -- */

/* Parses nanoseconds, also with a fraction, into picoseconds.  *end becomes the rest of the text. */
static int model_parse_time(const char *text, char **end, double *picoseconds)
{
	double ns;

	errno = 0;
	ns = strtod(text, end);
	if (errno != 0 || *end == text || !(ns >= 0 && ns <= 1e9))
		return -1;
	*picoseconds = round(ns * 1000);
	return 0;
}

static int model_parse_network(const char *text, struct model_network *network)
{
	double value[4];
	char *end;

	for (int i = 0; i < 4; i++) {
		if (model_parse_time(text, &end, &value[i]) != 0 || *end != (i < 3 ? ',' : '\0'))
			return -1;
		text = end + 1;
	}
	*network = (struct model_network){value[0], value[1], value[2], value[3]};
	return 0;
}

/* Takes the next word of a list.  Returns the rest, or NULL if the word is too long. */
static const char *model_next(const char *text, char word[24])
{
	size_t len = strcspn(text, ",");

	if (len >= 24)
		return NULL;
	memcpy(word, text, len);
	word[len] = '\0';
	return text + len + (text[len] == ',');
}

static int model_parse_ranks(const char *text, struct model_request *request)
{
	char word[24];

	request->nranks = 0;
	do {
		text = request->nranks < MODEL_LIST ? model_next(text, word) : NULL;
		if (text == NULL || tool_parse_int(word, 1, MODEL_RANKS_MAX,
						   &request->ranks[request->nranks++]) != 0)
			return -1;
	} while (*text || text[-1] == ',');
	return 0;
}

static int model_parse_sizes(const char *text, struct model_request *request)
{
	char word[24];

	request->nsizes = 0;
	do {
		text = request->nsizes < MODEL_LIST ? model_next(text, word) : NULL;
		if (text == NULL || tool_parse_size(word, &request->sizes[request->nsizes]) != 0 ||
		    request->sizes[request->nsizes++] > INT32_MAX)
			return -1;
	} while (*text || text[-1] == ',');
	return 0;
}

enum { MODEL_NODE_SIZE = 256, MODEL_CORES, MODEL_SEGMENT, MODEL_REDUCE, MODEL_JSON };

static const struct option model_options[] = {
	{"ranks", required_argument, NULL, 'r'},
	{"sizes", required_argument, NULL, 's'},
	{"node-size", required_argument, NULL, MODEL_NODE_SIZE},
	{"cores", required_argument, NULL, MODEL_CORES},
	{"segment", required_argument, NULL, MODEL_SEGMENT},
	{"far", required_argument, NULL, 'f'},
	{"near", required_argument, NULL, 'n'},
	{"reduce", required_argument, NULL, MODEL_REDUCE},
	{"json", no_argument, NULL, MODEL_JSON},
	{"help", no_argument, NULL, 'h'},
	{NULL, 0, NULL, 0},
};

/* Reads one option.  Returns NULL, or the form of the value if the value is wrong. */
static const char *model_set(struct model_request *request, int option, const char *value)
{
	struct model_machine *machine = &request->machine;
	int64_t number;
	char *end;

	switch (option) {
	case 'r':
		return model_parse_ranks(value, request)
			       ? "--ranks: up to 32 numbers from 1 to 1024, as in 2,8,64"
			       : NULL;
	case 's':
		return model_parse_sizes(value, request)
			       ? "--sizes: up to 32 sizes below 2G, as in 8,64K,1M"
			       : NULL;
	case 'f':
	case 'n':
		return model_parse_network(value, option == 'f' ? &machine->far : &machine->near)
			       ? "--far or --near: four times in nanoseconds, as in "
				 "10000,3000,1000,0.32"
			       : NULL;
	case MODEL_NODE_SIZE:
		if (tool_parse_int(value, 1, MODEL_RANKS_MAX, &number) != 0)
			return "--node-size: 1 to 1024";
		machine->node_size = (int)number;
		return NULL;
	case MODEL_CORES:
		if (tool_parse_int(value, 1, MODEL_RANKS_MAX, &number) != 0)
			return "--cores: 1 to 1024";
		machine->cores = (int)number;
		return NULL;
	case MODEL_SEGMENT:
		return tool_parse_size(value, &request->segment) ||
				       (request->segment && request->segment < MODEL_SEGMENT_MIN)
			       ? "--segment: 0 or a size from 4K on, as in 1M"
			       : NULL;
	case MODEL_REDUCE:
		return model_parse_time(value, &end, &machine->reduce) || *end
			       ? "--reduce: nanoseconds, as in 0.1"
			       : NULL;
	default: request->json = 1; return NULL;
	}
}

/* Checks that every name is a collective or an algorithm.  Returns 0, or the exit status. */
static int model_check_names(const struct model_request *request)
{
	for (int n = 0; n < request->nnames; n++) {
		int known = 0;

		for (int i = 0; i < coll_algorithm_count(); i++) {
			coll_algorithm_info_t a = {.size = sizeof(a)};

			known |= coll_algorithm(i, &a) == COLL_SUCCESS &&
				 !prove_kind_pairs(a.kind) && prove_wanted(&a, request->names[n]);
		}
		if (!known)
			return tool_usage("model",
					  "no algorithm '%s': name a collective, or one of its "
					  "algorithms as in allreduce/ring",
					  request->names[n]);
	}
	return 0;
}

static int model_main(int argc, char **argv)
{
	struct model_request request = model_default;
	const char *wrong;
	int option, status;

	while ((option = getopt_long(argc, argv, ":r:s:f:n:h", model_options, NULL)) != -1) {
		if (option == ':' || option == '?')
			return tool_bad_option("model", option, argv, model_options);
		if (option == 'h') {
			fputs(model_help, stdout);
			return 0;
		}
		wrong = model_set(&request, option, optarg);
		if (wrong != NULL)
			return tool_usage("model", "'%s' is no value for %s", optarg, wrong);
	}
	request.names = argv + optind;
	request.nnames = argc - optind;
	status = model_check_names(&request);
	return status ? status : model_show(&request);
}

const struct tool_command tool_model = {
	.name = "model",
	.summary = "estimate the time of each algorithm",
	.help = model_help,
	.main = model_main,
};
