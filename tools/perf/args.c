/* SPDX-License-Identifier: BSD-3-Clause */
/* args.c - the command line of `coll perf`. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "base/tables.h"
#include "perf/args.h"
#include "lib/tool.h"

const char perf_help[] =
	"Usage: coll perf [OPTION]... [COLLECTIVE]\n"
	"       coll run -n N coll perf [OPTION]... [COLLECTIVE]\n"
	"       coll perf --compare BEFORE.json AFTER.json\n"
	"Checks and measures allreduce (default), broadcast, reduce, allgather,\n"
	"reduce_scatter, alltoall, gather, scatter, allgatherv, reduce_scatterv, alltoallv,\n"
	"gatherv, scatterv, scan, exscan, sendrecv, barrier, or all of them.\n"
	"Each rank is a process of its own, as started by coll run, or a thread.\n"
	"\n"
	"  -b, --minbytes SIZE   smallest size; K, M, G are allowed (default 8)\n"
	"  -e, --maxbytes SIZE   largest size (default 128M)\n"
	"  -f, --stepfactor N    each size is N times the one before (default 2)\n"
	"  -s, --sizes LIST      measure these sizes instead, separated by commas\n"
	"  -d, --datatype TYPE   float32 (default), ..., or all; also nccl-tests' float, half,\n"
	"                        double, int, ...\n"
	"  -o, --op OP           sum (default), prod, max, min, avg, band, bor, bxor,\n"
	"                        land, lor, lxor, minloc, maxloc, or all\n"
	"  -n, --iters N         timed calls for each row (default 20)\n"
	"  -w, --warmup N        untimed calls before them (default 5)\n"
	"  -r, --root RANK       for broadcast, reduce, gather, scatter (default 0)\n"
	"  -c, --check yes|no    compare each result with the right result (default yes); 1, 0\n"
	"  -t, --in-process N    N ranks as threads of this process\n"
	"  -m, --memory KIND     host, cuda, managed, or library for memory of coll_mem_alloc\n"
	"                        (default: host if the backend takes it, else cuda); ranks\n"
	"                        take the devices round robin\n"
	"  -g, --group N         N calls in one group, each with buffers of its own; a time\n"
	"                        is the time of the whole group (default 1: no group)\n"
	"  -p, --persistent      start persistent requests, which are made beforehand\n"
	"  -P, --percentiles     also print the 50th, 90th and 99th percentile of the times of\n"
	"                        the calls, and the longest\n"
	"  -i, --issue           also print how long a call takes to return, in nanoseconds\n"
	"      --json            print one JSON document\n"
	"      --csv             print comma-separated values\n"
	"      --svg FILE        also draw time and bus bandwidth into an SVG file\n"
	"      --compare         show how the times of two files of --json differ\n"
	"  -h, --help            show this help and exit\n"
	"\n"
	"Exit status: 0 if every result was right, 1 if not or if a call failed, 2 if the\n"
	"command line is wrong.\n";

enum { ARGS_OPT_JSON = 256, ARGS_OPT_CSV, ARGS_OPT_SVG, ARGS_OPT_COMPARE };

static const struct option args_known[] = {{"minbytes", required_argument, NULL, 'b'},
					   {"maxbytes", required_argument, NULL, 'e'},
					   {"stepfactor", required_argument, NULL, 'f'},
					   {"sizes", required_argument, NULL, 's'},
					   {"datatype", required_argument, NULL, 'd'},
					   {"op", required_argument, NULL, 'o'},
					   {"iters", required_argument, NULL, 'n'},
					   {"warmup", required_argument, NULL, 'w'},
					   {"root", required_argument, NULL, 'r'},
					   {"check", required_argument, NULL, 'c'},
					   {"in-process", required_argument, NULL, 't'},
					   {"memory", required_argument, NULL, 'm'},
					   {"group", required_argument, NULL, 'g'},
					   {"issue", no_argument, NULL, 'i'},
					   {"persistent", no_argument, NULL, 'p'},
					   {"percentiles", no_argument, NULL, 'P'},
					   {"json", no_argument, NULL, ARGS_OPT_JSON},
					   {"csv", no_argument, NULL, ARGS_OPT_CSV},
					   {"svg", required_argument, NULL, ARGS_OPT_SVG},
					   {"compare", no_argument, NULL, ARGS_OPT_COMPARE},
					   {"help", no_argument, NULL, 'h'},
					   {NULL, 0, NULL, 0}};

#define ARGS_NUMBER(number, ...) number,
static const coll_dtype_t args_dtypes[] = {DTYPES(ARGS_NUMBER)};
static const coll_op_t args_ops[] = {OPS(ARGS_NUMBER)};

enum {
	ARGS_DTYPES = sizeof(args_dtypes) / sizeof(args_dtypes[0]),
	ARGS_OPS = sizeof(args_ops) / sizeof(args_ops[0])
};

_Static_assert((int)ARGS_DTYPES <= (int)PERF_DTYPES_MAX && (int)ARGS_OPS <= (int)PERF_OPS_MAX,
	       "\"all\" must fit");

/* The options during parsing; steps become sizes at the end. */
struct args_state {
	struct perf_options *options;
	uint64_t least, most;
	int factor;
	int compare; /* 1: the words of the command line are two files */
};

/* nccl-tests' names of types that have another name here. */
static const struct {
	const char *theirs;
	coll_dtype_t dtype;
} args_nccl_tests[] = {
	{"char", COLL_INT8},         {"int", COLL_INT32},      {"half", COLL_FLOAT16},
	{"float", COLL_FLOAT32},     {"double", COLL_FLOAT64}, {"f8e4m3", COLL_FLOAT8E4M3},
	{"f8e5m2", COLL_FLOAT8E5M2},
};

enum { ARGS_NCCL_TESTS = sizeof(args_nccl_tests) / sizeof(args_nccl_tests[0]) };

static int args_int(const char *name, const char *text, int64_t min, int64_t max, int *value)
{
	int64_t n;

	if (tool_parse_int(text, min, max, &n) != 0)
		return tool_usage("perf", "--%s %s: expected a number from %lld to %lld", name,
				  text, (long long)min, (long long)max);
	*value = (int)n;
	return 0;
}

static int args_size(const char *name, const char *text, uint64_t *bytes)
{
	if (tool_parse_size(text, bytes) != 0)
		return tool_usage("perf", "--%s %s: expected a size in bytes, such as 8 or 16M",
				  name, text);
	return 0;
}

static int args_list(struct perf_options *o, const char *text)
{
	char *copy = strdup(text), *rest = NULL;
	uint64_t *size = calloc(strlen(text) + 1, sizeof(*size));
	int status = copy == NULL || size == NULL;

	free(o->size);
	o->size = size;
	o->sizes = 0;
	for (char *word = status ? NULL : strtok_r(copy, ",", &rest); word != NULL && status == 0;
	     word = strtok_r(NULL, ",", &rest))
		status = args_size("sizes", word, &size[o->sizes++]);
	free(copy);
	if (status == 0 && o->sizes == 0)
		return tool_usage("perf", "--sizes: expected sizes separated by commas");
	return status;
}

static int args_steps(struct perf_options *o, uint64_t least, uint64_t most, int factor)
{
	if (least > most)
		return tool_usage("perf", "--minbytes is larger than --maxbytes");
	/* 64 doublings exceed every size. */
	o->size = calloc(65, sizeof(*o->size));
	if (o->size == NULL)
		return 1;
	for (uint64_t bytes = least;; bytes *= (uint64_t)factor) {
		o->size[o->sizes++] = bytes;
		if (bytes == 0 || bytes > most / (uint64_t)factor)
			return 0;
	}
}

static int args_dtype(struct perf_options *o, const char *text)
{
	const char *names[ARGS_DTYPES + 2] = {"all"};

	o->dtypes = 0;
	o->several |= strcmp(text, "all") == 0;
	for (int i = 0; i < ARGS_NCCL_TESTS; i++)
		if (strcmp(text, args_nccl_tests[i].theirs) == 0)
			o->dtype[o->dtypes++] = args_nccl_tests[i].dtype;
	for (int i = 0; i < ARGS_DTYPES; i++) {
		names[i + 1] = coll_dtype_name(args_dtypes[i]);
		if (strcmp(text, "all") == 0 || strcmp(text, names[i + 1]) == 0)
			o->dtype[o->dtypes++] = args_dtypes[i];
	}
	if (o->dtypes == 0)
		return tool_usage("perf", "no data type '%s'%s", text, tool_expected(text, names));
	return 0;
}

static int args_op(struct perf_options *o, const char *text)
{
	const char *names[ARGS_OPS + 2] = {"all"};

	o->ops = 0;
	o->several |= strcmp(text, "all") == 0;
	for (int i = 0; i < ARGS_OPS; i++) {
		names[i + 1] = coll_op_name(args_ops[i]);
		if (strcmp(text, "all") == 0 || strcmp(text, names[i + 1]) == 0)
			o->op[o->ops++] = args_ops[i];
	}
	if (o->ops == 0)
		return tool_usage("perf", "no operation '%s'%s", text, tool_expected(text, names));
	return 0;
}

/* nccl-tests has 1 and 0 for yes and no. */
static int args_check(struct perf_options *o, const char *text)
{
	const int yes = strcmp(text, "yes") == 0 || strcmp(text, "1") == 0;

	if (!yes && strcmp(text, "no") != 0 && strcmp(text, "0") != 0)
		return tool_usage("perf", "--check %s: expected yes or no", text);
	o->check = yes;
	return 0;
}

static int args_memory(struct perf_options *o, const char *text)
{
	for (int kind = MEMORY_HOST; kind <= PERF_MEMORY_LIBRARY; kind++)
		if (strcmp(text, perf_memory_name(kind)) == 0) {
			o->memory = kind;
			return 0;
		}
	return tool_usage("perf", "--memory %s: expected host, cuda, managed or library", text);
}

static int args_set(struct args_state *s, int c, char **argv)
{
	struct perf_options *o = s->options;

	switch (c) {
	case 'b': return args_size("minbytes", optarg, &s->least);
	case 'e': return args_size("maxbytes", optarg, &s->most);
	case 'f': return args_int("stepfactor", optarg, 2, 1 << 20, &s->factor);
	case 's': return args_list(o, optarg);
	case 'd': return args_dtype(o, optarg);
	case 'o': return args_op(o, optarg);
	case 'n': return args_int("iters", optarg, 1, 1 << 30, &o->iters);
	case 'w': return args_int("warmup", optarg, 0, 1 << 30, &o->warmup);
	case 'r': return args_int("root", optarg, 0, INT32_MAX, &o->root);
	case 't': return args_int("in-process", optarg, 1, PERF_RANKS_MAX, &o->in_process);
	case 'c': return args_check(o, optarg);
	case 'm': return args_memory(o, optarg);
	case 'g': return args_int("group", optarg, 1, 1 << 20, &o->group);
	case 'i': o->issue = 1; return 0;
	case 'p': o->persistent = 1; return 0;
	case 'P': o->percentiles = 1; return 0;
	case ARGS_OPT_SVG:
		o->svg = optarg;
		return optarg[0] == '-' ? tool_usage("perf", "--svg needs a file, not '%s'", optarg)
					: 0;
	case ARGS_OPT_COMPARE: s->compare = 1; return 0;
	case ARGS_OPT_JSON: o->format = PERF_JSON; return 0;
	case ARGS_OPT_CSV: o->format = PERF_CSV; return 0;
	default: return tool_bad_option("perf", c, argv, args_known);
	}
}

static int args_collective(struct perf_options *o, int argc, char **argv)
{
	const char *names[PERF_KINDS_MAX + 2] = {"all"};
	size_t n = 1;

	o->kind = perf_find_kind("allreduce");
	if (optind == argc)
		return 0;
	if (optind + 1 < argc)
		return tool_usage("perf", "one collective, not '%s' and '%s'", argv[optind],
				  argv[optind + 1]);
	o->several |= strcmp(argv[optind], "all") == 0;
	o->kind = perf_find_kind(argv[optind]);
	if (o->kind != NULL || strcmp(argv[optind], "all") == 0)
		return 0;
	for (const struct perf_kind *kind = perf_kinds; kind->name != NULL; kind++)
		names[n++] = kind->name;
	return tool_usage("perf", "no collective '%s'%s", argv[optind],
			  tool_expected(argv[optind], names));
}

static int args_compare(struct perf_options *o, int argc, char **argv)
{
	if (argc - optind != 2)
		return tool_usage("perf", "--compare takes two files of --json, got %d",
				  argc - optind);
	o->compare = argv + optind;
	return 0;
}

int perf_args(struct perf_options *o, int argc, char **argv)
{
	struct args_state s = {.options = o, .least = 8, .most = 128 << 20, .factor = 2};
	int c, status = 0;

	*o = (struct perf_options){.dtype = {COLL_FLOAT32},
				   .dtypes = 1,
				   .op = {COLL_SUM},
				   .ops = 1,
				   .iters = 20,
				   .warmup = 5,
				   .check = 1,
				   .group = 1,
				   .memory = PERF_MEMORY_ANY};
	while (status == 0 && (c = getopt_long(argc, argv, ":b:e:f:s:d:o:n:w:r:c:t:m:g:ipPh",
					       args_known, NULL)) != -1) {
		if (c == 'h') {
			fputs(perf_help, stdout);
			return 0;
		}
		status = args_set(&s, c, argv);
	}
	if (status == 0)
		status = s.compare ? args_compare(o, argc, argv) : args_collective(o, argc, argv);
	if (status == 0 && o->size == NULL)
		status = args_steps(o, s.least, s.most, s.factor);
	return status ? status : PERF_ARGS_GO;
}
