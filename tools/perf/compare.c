/* SPDX-License-Identifier: BSD-3-Clause */
/* compare.c - `coll perf --compare`: the rows of two files of `coll perf --json`, side by side. */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include "lib/json_read.h"
#include "perf/perf.h"

/* The sums over all pairs of rows. */
struct compare_sum {
	int pairs, alone;
	double log_ratio; /* sum of the logarithms of after / before */
};

/* Do both rows tell of the same call? */
static int compare_same(const struct json_value *a, const struct json_value *b)
{
	static const char *const texts[] = {"collective", "type", "redop"};
	static const char *const numbers[] = {"size", "count", "root"};

	for (int i = 0; i < 3; i++)
		if (strcmp(json_get_text(a, texts[i], ""), json_get_text(b, texts[i], "")) != 0 ||
		    json_get_number(a, numbers[i], 0) != json_get_number(b, numbers[i], 0))
			return 0;
	return 1;
}

static const struct json_value *compare_find(const struct json_value *results,
					     const struct json_value *row)
{
	for (const struct json_value *at = results->child; at != NULL; at = at->next)
		if (compare_same(at, row))
			return at;
	return NULL;
}

/* Prints the two times of one place; a place that a row lacks has no line. */
static void compare_place(const struct json_value *before, const struct json_value *after,
			  const char *place, struct compare_sum *sum)
{
	const double a = json_get_number(json_get(before, place), "median_us", 0);
	const double b = json_get_number(json_get(after, place), "median_us", 0);

	if (!(a > 0) || !(b > 0))
		return;
	printf("%-15s %12.0f %13s %7s %5s %12.2f %12.2f %8.3f\n",
	       json_get_text(before, "collective", "?"), json_get_number(before, "size", 0),
	       json_get_text(before, "type", "?"), json_get_text(before, "redop", "?"),
	       strcmp(place, "in_place") == 0 ? "in" : "out", a, b, b / a);
	sum->pairs++;
	sum->log_ratio += log(b / a);
}

static void compare_print_run(const char *what, const char *path, const struct json_value *run)
{
	printf("# %-7s %s: libcoll %s, backend %s, %.0f ranks, %s memory\n", what, path,
	       json_get_text(run, "version", "?"), json_get_text(run, "backend", "?"),
	       json_get_number(run, "nranks", 0), json_get_text(run, "memory", "?"));
}

/* Returns the array of rows, or NULL after printing an error. */
static const struct json_value *compare_results(const struct json_value *run, const char *path)
{
	const struct json_value *results = json_get(run, "results");

	if (results != NULL && results->kind == JSON_ARRAY)
		return results;
	fprintf(stderr, "coll perf: '%s' is no output of coll perf --json: it has no results\n",
		path);
	return NULL;
}

static int compare_rows(const struct json_value *before, const struct json_value *after)
{
	struct compare_sum sum = {0};
	int only_after = 0;

	printf("#\n%-15s %12s %13s %7s %5s %12s %12s %8s\n", "# collective", "size", "type",
	       "redop", "place", "before (us)", "after (us)", "ratio");
	for (const struct json_value *a = before->child; a != NULL; a = a->next) {
		const struct json_value *b = compare_find(after, a);

		sum.alone += b == NULL;
		compare_place(a, b, "out_of_place", &sum);
		compare_place(a, b, "in_place", &sum);
	}
	for (const struct json_value *b = after->child; b != NULL; b = b->next)
		only_after += compare_find(before, b) == NULL;
	if (sum.alone || only_after)
		printf("# rows without a partner: %d before, %d after\n", sum.alone, only_after);
	if (sum.pairs == 0) {
		fprintf(stderr, "coll perf: the files have no row in common\n");
		return 1;
	}
	printf("# medians; geometric mean of the ratios after / before: %.3f\n",
	       exp(sum.log_ratio / sum.pairs));
	return 0;
}

int perf_compare(const char *before, const char *after)
{
	struct json_value *a = json_read("perf", before);
	struct json_value *b = a ? json_read("perf", after) : NULL;
	const struct json_value *from = b ? compare_results(a, before) : NULL;
	const struct json_value *to = from ? compare_results(b, after) : NULL;
	int status = 1;

	if (to != NULL) {
		compare_print_run("before", before, a);
		compare_print_run("after", after, b);
		status = compare_rows(from, to);
	}
	json_free(a);
	json_free(b);
	return status;
}
