/* SPDX-License-Identifier: BSD-3-Clause */
/* dump.c - `coll dump`: the last operations of all ranks of a running job, as files. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "base/kind.h"
#include "page/rows.h"
#include "top/job.h"
#include "top/top.h"

static const char dump_help[] =
	"Usage: coll dump [OPTION] JOB [DIRECTORY]\n"
	"       coll dump [OPTION]... --job HOST:PORT [DIRECTORY]\n"
	"Writes the last operations of each rank of a running job on this host, a file for each\n"
	"communicator, in the format of the option `dump`, into DIRECTORY, or the current one.\n"
	"The files have mode 0600.  It reads the pages of the ranks, and needs no help of theirs.\n"
	"JOB is the number of the job or its beginning (coll top).  Prints the files' names.\n"
	"\n" SOURCE_HELP "  -h, --help          show this help and exit\n"
	"\n"
	"Exit status: 0 if all files were written, 1 if not, 2 if the command line is wrong.\n";

static const struct option dump_options[] = {
	SOURCE_OPTIONS, {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};

/* The algorithm that composes a collective, or "-". */
static const char *dump_algorithm(const struct page_comm *comm, const struct record *op)
{
	coll_algorithm_info_t info = {.size = sizeof(info)};

	if (!kind_at(op->kind)->is_collective || comm->flags & PAGE_NATIVE ||
	    coll_algorithm(words_algorithm(op->meta), &info))
		return "-";
	return info.name;
}

/* The communicator's messages outside the order, the oldest first. */
static void dump_add_messages(struct rows *rows, const struct rank_words *ranks,
			      const struct page_comm *comm)
{
	const struct record *message;

	for (int i = 0; (message = page_message(comm, i)); i++)
		rows_add_message(rows, ranks, message);
}

static void dump_fill(struct rows *rows, const struct page_view *view, const struct page_comm *comm)
{
	const struct rank_words ranks = page_ranks(comm);
	const struct rows_of of = {.title = "the last operations of a communicator",
				   .id = comm->id,
				   .host = view->head.host,
				   .backend = comm->backend,
				   .job = view->head.job,
				   .rank = comm->rank,
				   .nranks = comm->nranks,
				   .world_rank = view->head.rank,
				   .pid = view->head.pid};
	const struct record *op;

	rows->used = 0;
	rows->offset_us = view->head.realtime_us;
	rows_add_head(rows, &of);
	rows_add(rows, comm->failed ? "# failed" : "# read");
	rows_add_time(rows, comm->failed ? comm->failed_us - rows->offset_us : view->now_us);
	if (comm->failed) {
		rows_add(rows, " code %u text ", comm->failed);
		rows_add_plain(rows, comm->failure);
	}
	rows_add(rows, "\n");
	if (page_observer(view))
		rows_add(rows, "# in observer %s\n", page_observer(view));
	if (view->life == PAGE_GONE)
		rows_add(rows, "# process ended\n");
	else if (page_state_is_stopped(view->state))
		rows_add(rows, "# process stopped\n");
	rows_add_columns(rows);
	for (uint64_t n = page_record_before(comm) + 1; (op = page_record(comm, n)); n++)
		rows_add_op(rows, &ranks, comm->flags & PAGE_NATIVE, n, op,
			    dump_algorithm(comm, op));
	dump_add_messages(rows, &ranks, comm);
}

static int dump_write(const struct rows *rows, const char *directory, const char *name)
{
	const int at = open(directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	const int fd = at < 0 ? -1
			      : openat(at, name,
				       O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	FILE *out = fd < 0 ? NULL : fdopen(fd, "w");
	int failed = !out;

	if (out) {
		failed = fwrite(rows->text, 1, rows->used, out) != rows->used;
		failed |= fclose(out) != 0;
	}
	if (failed)
		fprintf(stderr, "coll dump: cannot write '%s/%s': %s\n", directory, name,
			strerror(errno));
	else
		printf("%s/%s\n", directory, name);
	if (at >= 0)
		close(at);
	return failed;
}

/* Identifiers of communicators are letters and digits, unless the page is not good. */
static int dump_is_name(const char *id)
{
	return id[0] && strspn(id, "0123456789abcdef") == strlen(id);
}

static int dump_rank(struct rows *rows, const struct page_view *view, const char *directory)
{
	char name[160];
	int failed = 0;

	for (int i = 0; i < view->comms; i++) {
		const struct page_comm *comm = view->comm[i];

		if (!dump_is_name(comm->id) || (!comm->issued && !comm->messages))
			continue;
		snprintf(name, sizeof(name), "coll-%016" PRIx64 "-comm-%s-rank-%d-pid-%d%s.txt",
			 view->head.job, comm->id, comm->rank, view->head.pid,
			 comm->lane ? "-host" : "");
		dump_fill(rows, view, comm);
		failed |= dump_write(rows, directory, name);
	}
	return failed;
}

/* name: of the job; NULL: the source has only one. */
static int dump_job(struct source *source, const char *name, const char *directory)
{
	struct rows *rows = calloc(1, sizeof(*rows));
	struct jobs jobs;
	const struct job *job;
	int failed = 1;

	if (!rows || jobs_read("dump", source, &jobs, NULL)) {
		free(rows);
		return 1;
	}
	job = jobs_find("dump", &jobs, name);
	if (job) {
		failed = job_warn_missing("dump", job);
		for (int r = 0; r < job->ranks; r++)
			failed |= dump_rank(rows, job->rank[r].view, directory);
	}
	jobs_free(&jobs);
	free(rows);
	return failed;
}

static int dump_main(int argc, char **argv)
{
	struct source source = {.at = NULL};
	int answer, most, status;

	while ((answer = getopt_long(argc, argv, ":h", dump_options, NULL)) != -1) {
		if (source_take_option(&source, answer, optarg))
			continue;
		if (answer != 'h')
			return tool_bad_option("dump", answer, argv, dump_options);
		fputs(dump_help, stdout);
		return 0;
	}
	most = source.at ? 1 : 2;
	if (argc - optind < most - 1 || argc - optind > most)
		return tool_usage("dump", "it takes %s a directory, got %d arguments",
				  source.at ? "with --job" : "a job and", argc - optind);
	status = source_open("dump", &source);
	if (status)
		return status;
	status = dump_job(&source, source.at ? NULL : argv[optind],
			  argc - optind == most ? argv[optind + most - 1] : ".");
	source_close(&source);
	return status;
}

const struct tool_command tool_dump = {
	.name = "dump",
	.summary = "write the last operations of a running job",
	.help = dump_help,
	.main = dump_main,
};
