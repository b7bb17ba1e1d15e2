/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * call_args_test.c - coll_args_t.flags and .tag of collectives: each algorithm by its index gives the right results, an
 * algorithm that does not fit is refused, ranks that name different ones are told, and the record has the tag.
 */
#include "../lib/ranks.h"

#include <coll/introspect.h>
#include <dirent.h>
#include <sys/stat.h>

enum { NRANKS = 4, COUNT = 1000, TAG = 424242 };

static char directory[] = "/tmp/coll-call-args-XXXXXX";

static uint32_t naming(int32_t algorithm)
{
	return (uint32_t)(algorithm + 1) << COLL_ARGS_ALGORITHM;
}

/* The index of an algorithm. */
static int32_t find(int32_t kind, const char *name)
{
	coll_algorithm_info_t info = {.size = sizeof(info)};

	for (int32_t i = 0; i < coll_algorithm_count(); i++)
		if (!coll_algorithm(i, &info) && info.kind == kind && !strcmp(info.name, name))
			return i;
	return -1;
}

/* Issues an allreduce of all ranks' numbers.  The buffers live until the test ends. */
static coll_result_t issue(const struct rank *r, uint32_t flags, uint32_t tag, int32_t *in,
			   int32_t *out)
{
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_ALLREDUCE,
				  .dtype = COLL_INT32,
				  .op = COLL_SUM,
				  .tag = tag,
				  .flags = flags,
				  .sendbuf = in,
				  .recvbuf = out,
				  .count = COUNT};
	coll_request_t request = NULL;
	coll_result_t code;

	for (int i = 0; i < COUNT; i++)
		in[i] = r->rank + i;
	code = coll_request_issue(r->comm, &args, &request);
	if (!code)
		code = coll_wait(request);
	if (request)
		coll_request_free(request);
	return code;
}

static void each_algorithm(struct rank *r)
{
	coll_algorithm_info_t info = {.size = sizeof(info)};
	int32_t in[COUNT], out[COUNT];
	int tried = 0;

	for (int32_t i = 0; i < coll_algorithm_count(); i++) {
		if (coll_algorithm(i, &info) || info.kind != COLL_KIND_ALLREDUCE ||
		    !strcmp(info.name, "two_level"))
			continue;
		if (!rank_did(r, issue(r, naming(i), 0, in, out), info.name))
			return;
		for (int k = 0; k < COUNT; k++)
			rank_is(r, out[k], 6 + NRANKS * k, info.name);
		tried++;
	}
	if (tried < 4)
		rank_fail(r, "%d algorithms", tried);
}

static void refusals(struct rank *r)
{
	int32_t in[COUNT], out[COUNT];
	const int32_t other = find(COLL_KIND_BROADCAST, "binomial");

	rank_is(r, issue(r, naming(other), 0, in, out), COLL_ERR_UNSUPPORTED, "another kind's");
	rank_says(r, "does not serve this call on 4 ranks", "another kind's");
	rank_is(r, issue(r, naming(60000), 0, in, out), COLL_ERR_UNSUPPORTED, "no algorithm");
	rank_is(r, issue(r, 4, 0, in, out), COLL_ERR_INVALID_ARGUMENT, "another flag");
	rank_did(r, issue(r, 0, 0, in, out), "none");
}

/* The ranks name different algorithms, which is one call with a tag that the record keeps. */
static void differ(struct rank *r)
{
	int32_t in[COUNT], out[COUNT];
	const int32_t mine = find(COLL_KIND_ALLREDUCE, r->rank ? "ring" : "recursive_doubling");

	rank_is(r, issue(r, naming(mine), TAG, in, out), COLL_ERR_MISMATCH, "two algorithms");
	rank_says(r, "ring", "two algorithms");
	rank_says(r, "recursive_doubling", "two algorithms");
}

/* The records that name the tag in the column of tags. */
static int count_records(void)
{
	char path[600], line[600], tag[40] = "";
	struct dirent *entry;
	DIR *dir = opendir(directory);
	int found = 0;

	while (dir && (entry = readdir(dir))) {
		FILE *file;

		snprintf(path, sizeof(path), "%s/%s", directory, entry->d_name);
		file = entry->d_name[0] == '.' ? NULL : fopen(path, "r");
		while (file && fgets(line, sizeof(line), file))
			found += sscanf(line, "%*s %*s allreduce %*s %*s %*s %*s %*s %39s", tag) ==
					 1 &&
				 atoi(tag) == TAG;
		if (file)
			fclose(file);
		unlink(path);
	}
	if (dir)
		closedir(dir);
	rmdir(directory);
	return found;
}

int main(void)
{
	struct ranks_job job = {.backend = "simulated", .nranks = NRANKS, .fn = each_algorithm};

	if (!mkdtemp(directory))
		bail_out("no directory");
	setenv("COLL_DUMP", directory, 1);
	ranks_ok(&job, "each algorithm of allreduce by its index");
	job.fn = refusals;
	ranks_ok(&job, "algorithms that do not fit");
	job.fn = differ;
	ranks_ok(&job, "ranks that name different algorithms");
	is_int(count_records(), NRANKS, "the records have the tag");
	return done_testing();
}
