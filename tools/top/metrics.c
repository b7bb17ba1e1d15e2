/* SPDX-License-Identifier: BSD-3-Clause */
/* metrics.c - `coll metrics`: the counters of running jobs in the text format of Prometheus. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/json_text.h"
#include "top/job.h"
#include "top/listen.h"
#include "top/show.h"
#include "top/top.h"

/* Each character of a text may become two or three bytes. */
enum { METRICS_TEXT = 3 * PAGE_NAME, METRICS_LABELS = 4 * METRICS_TEXT + 128 };

static const char metrics_help[] =
	"Usage: coll metrics [OPTION]... [JOB]\n"
	"       coll metrics [OPTION]... --job HOST:PORT\n"
	"Prints the counters of running jobs on this host in the text format of Prometheus, of\n"
	"all jobs of this user or of JOB.  It reads the pages of the ranks and needs no help of\n"
	"theirs.  Calls, bytes, waits and latencies are there for ranks with the option\n"
	"counters = yes (COLL_COUNTERS=yes).\n"
	"\n"
	"      --output FILE   write to a file, for node_exporter's textfile collector: to a\n"
	"                      temporary name beside it, which is then renamed\n"
	"      --interval S    with --output: write again each S seconds until a signal comes or\n"
	"                      JOB ends\n"
	"      --listen [ADDRESS:]PORT\n"
	"                      serve the text as http://ADDRESS:PORT/metrics until a signal\n"
	"                      comes, at 127.0.0.1 unless ADDRESS is given.  Port 0: any free\n"
	"                      port, which is printed.  Whoever reaches the port reads the\n"
	"                      text, also other users of this host\n" SOURCE_HELP
	"  -h, --help          show this help and exit\n"
	"\n"
	"Exit status: 0, or 1 if the job is not there, the file cannot be written or the port is\n"
	"taken, 2 if the command line is wrong.\n";

static const struct option metrics_options[] = {
	{"output", required_argument, NULL, 'o'}, {"interval", required_argument, NULL, 'i'},
	{"listen", required_argument, NULL, 'l'}, SOURCE_OPTIONS,
	{"help", no_argument, NULL, 'h'},         {NULL, 0, NULL, 0}};

struct metric {
	const char *name, *type, *help;
	/* NULL: the value is in a counter, which only ranks with the option `counters` have. */
	double (*value)(const struct job_rank *rank, const struct job_comm *c);
	size_t offset;     /* of the counter, a uint64_t, in a struct of page/page.h */
	double unit;       /* the counter is so many times the metric's value */
	const char *label; /* of another rank, which the metric is about; NULL: it is about none */
};

/* Prints the samples of a metric for a communicator. */
typedef void (*metric_fn)(FILE *out, const char *labels, const struct metric *metric,
			  const struct job_rank *rank, const struct job_comm *c);

/* Of each kind of call on each communicator: struct page_kind. */
static const struct metric metrics_of_kind[] = {
	{"coll_calls_total", "counter", "Calls that were issued.",
	 .offset = offsetof(struct page_kind, calls), .unit = 1},
	{"coll_bytes_total", "counter", "Bytes of these calls.",
	 .offset = offsetof(struct page_kind, bytes), .unit = 1},
	{"coll_waited_seconds_total", "counter",
	 "Time that threads of the program have waited in libcoll.",
	 .offset = offsetof(struct page_kind, waited_ns), .unit = 1e9},
};

/* Of each communicator: struct page_counts. */
static const struct metric metrics_of_counts[] = {
	{"coll_stalls_total", "counter", "Waits in which nothing moved for stall_after.",
	 .offset = offsetof(struct page_counts, stalls), .unit = 1},
	{"coll_staged_total", "counter", "Operations and messages copied through host memory.",
	 .offset = offsetof(struct page_counts, staged), .unit = 1},
	{"coll_staged_bytes_total", "counter", "Bytes copied between devices and host memory.",
	 .offset = offsetof(struct page_counts, staged_bytes), .unit = 1},
	{"coll_unexpected_messages_total", "counter",
	 "Messages on the endpoint that came before their receive.",
	 .offset = offsetof(struct page_counts, unexpected), .unit = 1},
	{"coll_unexpected_messages", "gauge", "Such messages that wait for their receive now.",
	 .offset = offsetof(struct page_counts, unexpected_now), .unit = 1},
	{"coll_unexpected_memory_bytes", "gauge", "Memory that holds such messages now.",
	 .offset = offsetof(struct page_counts, unexpected_memory), .unit = 1},
	{"coll_unexpected_memory_max_bytes", "gauge", "The most such memory that there ever was.",
	 .offset = offsetof(struct page_counts, unexpected_memory_most), .unit = 1},
};

/* Of each other rank of each communicator: struct page_peer. */
static const struct metric metrics_of_peer[] = {
	{"coll_last_waits_total", "counter",
	 "Waits for an operation whose last message came from a rank, or left for it.",
	 .offset = offsetof(struct page_peer, last_waits), .unit = 1, .label = "from"},
	{"coll_last_seconds_total", "counter", "Time of these waits.",
	 .offset = offsetof(struct page_peer, last_ns), .unit = 1e9, .label = "from"},
	{"coll_behind_total", "counter",
	 "Stalls in which a rank had called fewer collectives, or did not answer.",
	 .offset = offsetof(struct page_peer, behind), .unit = 1, .label = "of"},
};

/* Of each kind of call on each communicator, with its buckets. */
static const struct metric metrics_of_latency = {
	.name = "coll_latency_seconds",
	.type = "histogram",
	.help = "Time from a call to its end on this rank."};

static double metric_value(const struct metric *metric, const void *counters)
{
	uint64_t value;

	memcpy(&value, (const char *)counters + metric->offset, sizeof(value));
	return (double)value / metric->unit;
}

static double metric_collectives(const struct job_rank *rank, const struct job_comm *c)
{
	(void)rank;
	return (double)c->collectives;
}

static double metric_operations(const struct job_rank *rank, const struct job_comm *c)
{
	(void)rank;
	return (double)c->comm->issued;
}

static double metric_waiting(const struct job_rank *rank, const struct job_comm *c)
{
	return c->comm->waiting ? job_seconds_since(rank, job_since(c)) : 0;
}

static double metric_error(const struct job_rank *rank, const struct job_comm *c)
{
	(void)rank;
	return c->comm->failed;
}

/* Of each communicator, also without the option `counters`. */
static const struct metric metrics_of_comm[] = {
	{"coll_operations_total", "counter", "Operations that were issued.",
	 .value = metric_operations},
	{"coll_collectives_total", "counter",
	 "Collectives that were issued, a number that ranks can compare.",
	 .value = metric_collectives},
	{"coll_waiting_seconds", "gauge", "How long the rank waits in libcoll by now.",
	 .value = metric_waiting},
	{"coll_error_code", "gauge", "Code of the communicator's failure, or 0.",
	 .value = metric_error},
};

#define METRICS(table) (sizeof(table) / sizeof((table)[0]))

/* The kind of call that a row of counters is about; NULL: no kind has the row. */
static const char *metrics_kind(int row)
{
	if (row == PAGE_ISEND || row == PAGE_IRECV)
		return row == PAGE_ISEND ? "isend" : "irecv";
	return row == 0 ? "other" : kind_is_valid(row) ? kind_name(row) : NULL;
}

/*
 * Copies a text of less than PAGE_NAME bytes for a label: quotes and backslashes get a backslash, and U+FFFD stands for a byte
 * that is not UTF-8, say of a character that was cut, because a reader would refuse the whole text.
 */
static void metrics_quote(const char *text, char out[METRICS_TEXT])
{
	size_t at = 0, n;

	while (*text && at + 5 < METRICS_TEXT) {
		n = json_text_utf8((const unsigned char *)text);
		if (*text == '"' || *text == '\\')
			out[at++] = '\\';
		memcpy(out + at, n ? text : "\357\277\275", n ? n : 3);
		at += n ? n : 3;
		text += n ? n : 1;
	}
	out[at] = '\0';
}

static void metrics_labels(const struct job_rank *rank, const struct job_comm *c,
			   char text[METRICS_LABELS])
{
	char host[METRICS_TEXT], backend[METRICS_TEXT], program[METRICS_TEXT], id[METRICS_TEXT];

	metrics_quote(rank->view->head.host, host);
	metrics_quote(c->comm->backend, backend);
	metrics_quote(rank->view->head.program, program);
	metrics_quote(c->comm->id, id);
	snprintf(text, METRICS_LABELS,
		 "job=\"%016" PRIx64 "\",program=\"%s\",host=\"%s\",rank=\"%d\","
		 "comm=\"%s\",backend=\"%s\"",
		 rank->view->head.job, program, host, rank->view->head.rank, id, backend);
}

/* What is printed, and where. */
struct metrics {
	FILE *out;
	const struct jobs *jobs;
	const struct job *only; /* NULL: all jobs that live */
};

/*
 * Is another page of the same rank, which stands beside it, to be taken?  A rank whose process has ended may have a second process, and a reader refuses a
 * text with two values of a metric.
 */
static int metrics_passes_over(const struct job *job, int rank)
{
	const struct page_view *own = job->rank[rank].view;
	int first = rank;

	while (first > 0 && job->rank[first - 1].view->head.rank == own->head.rank)
		first--;
	for (int r = first; r < job->ranks && job->rank[r].view->head.rank == own->head.rank; r++) {
		const int lives = (job->rank[r].view->life != PAGE_GONE) - (own->life != PAGE_GONE);

		if (lives > 0 || (!lives && r < rank))
			return 1;
	}
	return 0;
}

/* Calls fn for each communicator of the rank that has the metric. */
static void metrics_each_comm(FILE *out, const struct metric *metric, metric_fn fn,
			      const struct job_rank *rank)
{
	char labels[METRICS_LABELS];

	for (int i = 0; i < rank->comms; i++) {
		const struct job_comm *c = &rank->comm[i];

		if (!metric->value && !(c->comm->parts & PAGE_PART_COUNTS))
			continue;
		metrics_labels(rank, c, labels);
		fn(out, labels, metric, rank, c);
	}
}

/* Calls fn for each communicator of the jobs that has the metric. */
static void metrics_each(const struct metrics *m, const struct metric *metric, metric_fn fn)
{
	for (int j = 0; j < m->jobs->count; j++) {
		const struct job *job = &m->jobs->job[j];

		if (m->only ? job != m->only : !job->lives)
			continue;
		for (int r = 0; r < job->ranks; r++)
			if (!metrics_passes_over(job, r))
				metrics_each_comm(m->out, metric, fn, &job->rank[r]);
	}
}

static void metrics_print_comm(FILE *out, const char *labels, const struct metric *metric,
			       const struct job_rank *rank, const struct job_comm *c)
{
	fprintf(out, "%s{%s} %.17g\n", metric->name, labels, metric->value(rank, c));
}

static void metrics_print_counts(FILE *out, const char *labels, const struct metric *metric,
				 const struct job_rank *rank, const struct job_comm *c)
{
	(void)rank;
	fprintf(out, "%s{%s} %.17g\n", metric->name, labels,
		metric_value(metric, &c->comm->counts));
}

static void metrics_print_kinds(FILE *out, const char *labels, const struct metric *metric,
				const struct job_rank *rank, const struct job_comm *c)
{
	(void)rank;
	for (int k = 0; k < PAGE_KINDS; k++) {
		const struct page_kind *kind = &c->comm->counts.kind[k];

		if (metrics_kind(k) && (kind->calls || kind->waited_ns))
			fprintf(out, "%s{%s,kind=\"%s\"} %.17g\n", metric->name, labels,
				metrics_kind(k), metric_value(metric, kind));
	}
}

/* Prints the ranks that are not 0: most pairs of ranks exchange no messages. */
static void metrics_print_peers(FILE *out, const char *labels, const struct metric *metric,
				const struct job_rank *rank, const struct job_comm *c)
{
	(void)rank;
	for (int r = 0; r < PAGE_RANKS && r < c->comm->nranks; r++) {
		const double value = metric_value(metric, &c->comm->counts.peer[r]);

		if (value > 0)
			fprintf(out, "%s{%s,%s=\"%d\"} %.17g\n", metric->name, labels,
				metric->label, page_world_rank(c->comm, r), value);
	}
}

/* The buckets of Prometheus hold all that is at most their limit. */
static void metrics_print_histogram(FILE *out, const char *labels, const char *name,
				    const struct page_kind *kind)
{
	uint64_t sum = 0;

	for (int b = 0; b < PAGE_BUCKETS; b++) {
		sum += kind->bucket[b];
		fprintf(out, "coll_latency_seconds_bucket{%s,kind=\"%s\",le=\"", labels, name);
		if (b < PAGE_BUCKETS - 1)
			fprintf(out, "%.9g",
				(double)(UINT64_C(1) << (b + PAGE_BUCKET_FIRST)) / 1e9);
		else
			fprintf(out, "+Inf");
		fprintf(out, "\"} %" PRIu64 "\n", sum);
	}
	fprintf(out, "coll_latency_seconds_sum{%s,kind=\"%s\"} %.17g\n", labels, name,
		(double)kind->latency_ns / 1e9);
	fprintf(out, "coll_latency_seconds_count{%s,kind=\"%s\"} %" PRIu64 "\n", labels, name, sum);
}

static void metrics_print_latencies(FILE *out, const char *labels, const struct metric *metric,
				    const struct job_rank *rank, const struct job_comm *c)
{
	(void)metric;
	(void)rank;
	for (int k = 0; k < PAGE_KINDS; k++)
		if (metrics_kind(k) && c->comm->counts.kind[k].ended)
			metrics_print_histogram(out, labels, metrics_kind(k),
						&c->comm->counts.kind[k]);
}

/* Prints families of samples. */
static void metrics_print_all(const struct metrics *m, const struct metric *metric, size_t count,
			      metric_fn fn)
{
	for (size_t i = 0; i < count; i++, metric++) {
		fprintf(m->out, "# HELP %s %s\n# TYPE %s %s\n", metric->name, metric->help,
			metric->name, metric->type);
		metrics_each(m, metric, fn);
	}
}

/* Of a job that is looked at over its hosts. */
static void metrics_print_hosts(const struct metrics *m, const struct fetch *fetch)
{
	char host[METRICS_TEXT];

	fprintf(m->out,
		"# HELP coll_host_up 1 if the host of the job has told of its ranks, or 0.\n"
		"# TYPE coll_host_up gauge\n");
	for (int h = 0; h < fetch->nhosts; h++) {
		metrics_quote(fetch->host[h].name, host);
		fprintf(m->out,
			"coll_host_up{job=\"%016" PRIx64 "\",host=\"%s\",first_rank=\"%d\"} %d\n",
			fetch->job, host, fetch->host[h].rank, !fetch->host[h].code);
	}
}

static void metrics_print(const struct metrics *m)
{
	if (m->jobs->fetch.nhosts)
		metrics_print_hosts(m, &m->jobs->fetch);
	metrics_print_all(m, metrics_of_comm, METRICS(metrics_of_comm), metrics_print_comm);
	metrics_print_all(m, metrics_of_counts, METRICS(metrics_of_counts), metrics_print_counts);
	metrics_print_all(m, metrics_of_kind, METRICS(metrics_of_kind), metrics_print_kinds);
	metrics_print_all(m, metrics_of_peer, METRICS(metrics_of_peer), metrics_print_peers);
	metrics_print_all(m, &metrics_of_latency, 1, metrics_print_latencies);
}

/* ------------------------------------------------------------------------ the output -- */

/* Of several equal failures one after the other the first has a message. */
static int metrics_fail(const char *path, int *said)
{
	if (errno != *said)
		fprintf(stderr, "coll metrics: cannot write '%s': %s\n", path, strerror(errno));
	*said = errno;
	return 1;
}

/* A process that had the number of this one may have left its file. */
static int metrics_open(const char *temporary)
{
	(void)unlink(temporary);
	return open(temporary, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0644);
}

/* A reader of the file sees the old text or the new one. */
static int metrics_replace(struct metrics *m, const char *path, int *said)
{
	char temporary[4096];
	int fd, failed;

	if (snprintf(temporary, sizeof(temporary), "%s.%ld.tmp", path, (long)getpid()) >=
	    (int)sizeof(temporary)) {
		errno = ENAMETOOLONG;
		return metrics_fail(path, said);
	}
	fd = metrics_open(temporary);
	m->out = fd < 0 ? NULL : fdopen(fd, "w");
	if (!m->out)
		return metrics_fail(temporary, said);
	metrics_print(m);
	failed = ferror(m->out) != 0;
	failed |= fclose(m->out) != 0;
	failed = failed || rename(temporary, path);
	if (!failed)
		return *said = 0;
	(void)metrics_fail(path, said);
	unlink(temporary);
	return 1;
}

static int metrics_show(struct metrics *m, int *said)
{
	m->out = stdout;
	metrics_print(m);
	return fflush(stdout) || ferror(stdout) ? metrics_fail("the standard output", said) : 0;
}

/*
 * Prints or writes the metrics once.  *said: the error number of the last message.  *over becomes 1 if there is no more to write:
 * the job is not there.
 */
static int metrics_once(struct source *source, const char *name, const char *path, int *said,
			int *over)
{
	struct jobs jobs;
	struct metrics m = {.jobs = &jobs};
	int failed = 1;

	*over = jobs_read("metrics", source, &jobs, NULL);
	if (*over)
		return 1;
	if (name)
		m.only = jobs_find("metrics", &jobs, name);
	for (int i = 0; i < jobs.count; i++)
		(void)job_warn_missing("metrics", &jobs.job[i]);
	*over = name && !m.only;
	if (!*over)
		failed = path ? metrics_replace(&m, path, said) : metrics_show(&m, said);
	jobs_free(&jobs);
	return failed;
}

/* A write that fails may succeed later, and so may a reading of the hosts of --job. */
static int metrics_repeat(struct source *source, const char *name, const char *path,
			  int64_t interval_ms)
{
	int failed, over, tries = 0, said = 0;

	screen_catch();
	do {
		failed = metrics_once(source, name, path, &said, &over);
		if (over)
			tries--;
		else
			tries = source->at ? SOURCE_TRIES : 1;
	} while ((!over || tries > 0) && !screen_sleep(interval_ms));
	screen_raise();
	return failed;
}

/* --------------------------------------------------------------------------- by HTTP -- */

/* The job of --listen, which may end before the server does. */
struct metrics_served {
	struct source *source;
	int one; /* 0: all jobs */
	uint64_t job;
};

/* For listen_serve.  What is wrong with files in the directories of pages was said before the first request. */
static int metrics_serve(FILE *out, void *user)
{
	static const struct jobs before;
	static const struct job none;
	const struct metrics_served *served = user;
	struct jobs jobs;
	struct metrics m = {.out = out, .jobs = &jobs};

	if (jobs_read("metrics", served->source, &jobs, &before))
		return 1;
	m.only = served->one ? &none : NULL;
	for (int i = 0; served->one && i < jobs.count; i++)
		if (jobs.job[i].id == served->job)
			m.only = &jobs.job[i];
	metrics_print(&m);
	jobs_free(&jobs);
	return 0;
}

static int metrics_listen(struct source *source, const char *name, const char *where)
{
	struct metrics_served served = {.source = source, .one = name != NULL};
	const struct job *job;
	struct jobs jobs;

	if (jobs_read("metrics", source, &jobs, NULL))
		return 1;
	job = name ? jobs_find("metrics", &jobs, name) : NULL;
	served.job = job ? job->id : 0;
	jobs_free(&jobs);
	return name && !job ? 1 : listen_serve(where, metrics_serve, &served);
}

/* ------------------------------------------------------------------ the command line -- */

/* What the command line asks for. */
struct metrics_args {
	struct source source;
	const char *path, *where; /* of --output and --listen; NULL: none */
	int64_t interval_ms;
};

/* Returns 0, or the exit status. */
static int metrics_check(const struct metrics_args *args, int operands)
{
	if (source_check_operands("metrics", &args->source, operands))
		return TOOL_USAGE;
	if (args->interval_ms && !args->path)
		return tool_usage("metrics", "--interval needs --output");
	if (args->where && args->path)
		return tool_usage("metrics", "it takes --listen or --output, not both");
	return 0;
}

static int metrics_parse(int argc, char **argv, struct metrics_args *args)
{
	int answer, status;

	while ((answer = getopt_long(argc, argv, ":h", metrics_options, NULL)) != -1) {
		if (source_take_option(&args->source, answer, optarg))
			continue;
		switch (answer) {
		case 'o': args->path = optarg; break;
		case 'l': args->where = optarg; break;
		case 'i':
			if (tool_parse_seconds(optarg, &args->interval_ms) ||
			    args->interval_ms < 10)
				return tool_usage("metrics",
						  "--interval wants seconds from 0.01 on, got '%s'",
						  optarg);
			break;
		case 'h': fputs(metrics_help, stdout); exit(0);
		default: return tool_bad_option("metrics", answer, argv, metrics_options);
		}
	}
	status = metrics_check(args, argc - optind);
	return status ? status : source_open("metrics", &args->source);
}

static int metrics_main(int argc, char **argv)
{
	struct metrics_args args = {.path = NULL};
	int said = 0, over, status = metrics_parse(argc, argv, &args);
	const char *name = argv[optind];

	if (status)
		return status;
	if (args.where)
		status = metrics_listen(&args.source, name, args.where);
	else if (args.interval_ms)
		status = metrics_repeat(&args.source, name, args.path, args.interval_ms);
	else
		status = metrics_once(&args.source, name, args.path, &said, &over);
	source_close(&args.source);
	return status;
}

const struct tool_command tool_metrics = {
	.name = "metrics",
	.summary = "print the counters of running jobs for Prometheus",
	.help = metrics_help,
	.main = metrics_main,
};
