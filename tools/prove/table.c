/* SPDX-License-Identifier: BSD-3-Clause */
/* table.c - prints the results, as a table or as JSON. */
#include <stdio.h>
#include <string.h>
#include "lib/json.h"
#include "prove/prove.h"

static const char *table_verdict(const struct prove_row *row)
{
	if (row->failed)
		return "UNPROVEN";
	return row->totals.cases ? "proven" : "no case";
}

/* Returns how many numbers of ranks are in a set, with the first and the last. */
static int table_ranks(const struct prove_set *set, int *least, int *most)
{
	int numbers = 0;

	*least = *most = 0;
	for (int n = 1; n <= PROVE_RANKS_MAX; n++) {
		if (!prove_set_has(set, n))
			continue;
		*least = *least ? *least : n;
		*most = n;
		numbers++;
	}
	return numbers;
}

static void table_print_row(const struct prove_row *row)
{
	char name[64], ranks[32] = "-";
	int least, most, numbers = table_ranks(&row->ranks, &least, &most);

	snprintf(name, sizeof(name), "%s/%s", coll_kind_name(row->info.kind), row->info.name);
	if (numbers)
		snprintf(ranks, sizeof(ranks), "%d-%d", least, most);
	printf("%-34s %7s %7d %8llu %19llu %11llu %5d  %s\n", name, ranks, numbers,
	       (unsigned long long)row->totals.cases, (unsigned long long)row->totals.elements,
	       (unsigned long long)row->totals.messages, row->totals.sends, table_verdict(row));
	for (int k = 0; k < PROVE_CHECKS; k++)
		if (row->failed & 1u << k)
			printf("    %s: %s\n", prove_check_names[k], row->text[k]);
}

static void table_print_notes(const struct prove_totals *sum, int proven, int failed)
{
	printf("\n%d proven, %d unproven: %llu cases, %llu output elements, %llu messages\n",
	       proven, failed, (unsigned long long)sum->cases, (unsigned long long)sum->elements,
	       (unsigned long long)sum->messages);
	printf("numbers: of how many numbers of ranks there is a case\n");
	printf("sends: so many of one rank in flight suffice, whichever of them start first\n");
}

static int table_print(const struct prove_plan *plan, const struct prove_row *row, int rows)
{
	struct prove_totals sum = {0};
	int proven = 0, failed = 0;

	printf("%-34s %7s %7s %8s %19s %11s %5s  %s\n", "algorithm", "ranks", "numbers", "cases",
	       "elements", "messages", "sends", "verdict");
	for (int i = 0; i < rows; i++) {
		if (!row[i].wanted)
			continue;
		table_print_row(&row[i]);
		sum.cases += row[i].totals.cases;
		sum.elements += row[i].totals.elements;
		sum.messages += row[i].totals.messages;
		failed += row[i].failed != 0;
		proven += !row[i].failed && row[i].totals.cases;
	}
	table_print_notes(&sum, proven, failed);
	prove_tried(plan, row, rows);
	return proven + failed ? failed : -1;
}

/* Writes the numbers of ranks of the row and of each of its sweeps. */
static void table_json_ranks(struct json *json, const struct prove_row *row)
{
	char text[4 * PROVE_RANKS_MAX];
	int least, most;

	table_ranks(&row->ranks, &least, &most);
	json_int(json, "ranks_from", least);
	json_int(json, "ranks_to", most);
	prove_set_text(&row->ranks, text, sizeof(text));
	json_string(json, "ranks", text);
	json_object(json, "tried");
	for (int i = 0; i < PROVE_SWEEPS; i++) {
		prove_set_text(&row->swept[i], text, sizeof(text));
		json_string(json, prove_sweep_names[i], text);
	}
	json_object_end(json);
}

static void table_json_row(struct json *json, const struct prove_row *row)
{
	json_object(json, NULL);
	json_string(json, "collective", coll_kind_name(row->info.kind));
	json_string(json, "algorithm", row->info.name);
	table_json_ranks(json, row);
	json_int(json, "cases", (int64_t)row->totals.cases);
	json_int(json, "elements", (int64_t)row->totals.elements);
	json_int(json, "messages", (int64_t)row->totals.messages);
	json_int(json, "bytes_to", (int64_t)row->totals.longest);
	json_int(json, "sends", row->totals.sends);
	json_string(json, "verdict", table_verdict(row));
	json_object(json, "failures");
	for (int k = 0; k < PROVE_CHECKS; k++)
		if (row->failed & 1u << k)
			json_string(json, prove_check_names[k], row->text[k]);
	json_object_end(json);
	json_object_end(json);
}

static int table_json(const struct prove_plan *plan, const struct prove_row *row, int rows)
{
	struct json json = {.out = stdout};
	int proven = 0, failed = 0;

	json_object(&json, NULL);
	json_int(&json, "seed", (int64_t)plan->seed);
	json_array(&json, "counts");
	for (int i = 0; i < plan->ncounts; i++)
		json_int(&json, NULL, (int64_t)plan->counts[i]);
	json_array_end(&json);
	json_array(&json, "algorithms");
	for (int i = 0; i < rows; i++) {
		if (!row[i].wanted)
			continue;
		table_json_row(&json, &row[i]);
		failed += row[i].failed != 0;
		proven += !row[i].failed && row[i].totals.cases;
	}
	json_array_end(&json);
	json_object_end(&json);
	return proven + failed ? failed : -1;
}

int prove_table(const struct prove_plan *plan, const struct prove_row *row, int rows, int json)
{
	return json ? table_json(plan, row, rows) : table_print(plan, row, rows);
}
