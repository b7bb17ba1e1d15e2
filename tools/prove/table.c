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

static void table_print_row(const struct prove_row *row)
{
	char name[64], ranks[32] = "-";

	snprintf(name, sizeof(name), "%s/%s", coll_kind_name(row->info.kind), row->info.name);
	if (row->totals.cases)
		snprintf(ranks, sizeof(ranks), "%d-%d", row->least, row->most);
	printf("%-34s %7s %8llu %12llu %11llu %5d  %s\n", name, ranks,
	       (unsigned long long)row->totals.cases, (unsigned long long)row->totals.elements,
	       (unsigned long long)row->totals.messages, row->totals.sends, table_verdict(row));
	for (int k = 0; k < PROVE_CHECKS; k++)
		if (row->failed & 1u << k)
			printf("    %s: %s\n", prove_check_names[k], row->text[k]);
}

static void table_print_notes(const struct prove_totals *sum, int proven, int failed, int sampled)
{
	printf("\n%d proven, %d unproven: %llu cases, %llu output elements, %llu messages\n",
	       proven, failed, (unsigned long long)sum->cases, (unsigned long long)sum->elements,
	       (unsigned long long)sum->messages);
	printf("sends: so many of one rank in flight suffice, whichever of them start first\n");
	if (sampled > 1)
		printf("Below %d ranks: every combination of root, count, counts of the v-forms,\n"
		       "place, pieces, average and nodes.  From there on a sample of them:\n",
		       sampled);
	else if (sampled)
		printf("A sample of the combinations of root, count, place, pieces and so on:\n");
	if (sampled)
		printf("every root, every count, every layout of nodes with each count, and each "
		       "of\n"
		       "the others occur for every number of ranks.\n");
}

static int table_print(const struct prove_row *row, int rows)
{
	struct prove_totals sum = {0};
	int proven = 0, failed = 0, sampled = 0;

	printf("%-34s %7s %8s %12s %11s %5s  %s\n", "algorithm", "ranks", "cases", "elements",
	       "messages", "sends", "verdict");
	for (int i = 0; i < rows; i++) {
		if (!row[i].wanted)
			continue;
		table_print_row(&row[i]);
		if (row[i].sampled && (!sampled || row[i].sampled < sampled))
			sampled = row[i].sampled;
		sum.cases += row[i].totals.cases;
		sum.elements += row[i].totals.elements;
		sum.messages += row[i].totals.messages;
		failed += row[i].failed != 0;
		proven += !row[i].failed && row[i].totals.cases;
	}
	table_print_notes(&sum, proven, failed, sampled);
	return proven + failed ? failed : -1;
}

static void table_json_row(struct json *json, const struct prove_row *row)
{
	json_object(json, NULL);
	json_string(json, "collective", coll_kind_name(row->info.kind));
	json_string(json, "algorithm", row->info.name);
	json_int(json, "ranks_from", row->least);
	json_int(json, "ranks_to", row->most);
	json_int(json, "sampled_from", row->sampled);
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

static int table_json(const struct prove_row *row, int rows)
{
	struct json json = {.out = stdout};
	int proven = 0, failed = 0;

	json_object(&json, NULL);
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

int prove_table(const struct prove_row *row, int rows, int json)
{
	return json ? table_json(row, rows) : table_print(row, rows);
}
