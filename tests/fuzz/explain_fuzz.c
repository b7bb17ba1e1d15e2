/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * explain_fuzz.c - the files of failed jobs, as `coll explain` reads them, and all that it says of them.
 *
 * Input: the text of two files, divided by a byte 0xff.
 */
#include "fuzz.h"
#include "explain/explain.h"

const char *const fuzz_name = "explain";
const long fuzz_runs = 3000;

static void check_comm(const struct explain_comm *comm)
{
	struct explain_set others = {0};

	fuzz_promise(comm->verdict[0] != '\0', "each communicator has a verdict");
	fuzz_promise(comm->n >= 1 && comm->n <= comm->nranks, "ranks with a file");
	fuzz_promise(explain_set_count(&comm->missing) + comm->n == comm->nranks,
		     "a rank has a file or not");
	explain_set_subtract(&comm->gone, &comm->missing, &others);
	fuzz_promise(others.n == 0, "a rank that is gone has no file");
	explain_set_free(&others);
	for (int i = 0; i < comm->ncycle; i++)
		fuzz_promise(explain_rank_at(comm, comm->cycle[i]) != NULL,
			     "a cycle goes through ranks with files");
}

static void check_output(const struct explain *e, const struct explain_job *job)
{
	char *text = NULL;
	size_t size = 0;
	FILE *out = open_memstream(&text, &size);

	if (!out)
		exit(2);
	explain_print(e, job, out);
	explain_print_json(e, job, out);
	fclose(out);
	fuzz_promise(memchr(text, '\x1b', size) == NULL, "no control characters for a terminal");
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const uint8_t *end = size ? memchr(data, 0xff, size) : NULL;
	const size_t first = end ? (size_t)(end - data) : size;
	struct explain e = {0};
	struct explain_job job;

	explain_read(&e, "coll-1-comm-0-rank-0-pid-7.txt", (const char *)data, first);
	if (end)
		explain_read(&e, "coll-1-comm-0-rank-1-pid-8-2.txt", (const char *)end + 1,
			     size - first - 1);
	explain_group(&e, &job);
	for (int i = 0; i < job.n; i++)
		check_comm(&job.comm[i]);
	check_output(&e, &job);
	explain_job_free(&job);
	explain_free(&e);
	return 0;
}
