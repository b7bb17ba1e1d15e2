/* SPDX-License-Identifier: BSD-3-Clause */
/* tried.c - prints which cases were tried, and with which numbers of ranks. */
#include <stdio.h>
#include "prove/prove.h"

const char *const prove_sweep_names[PROVE_SWEEPS] = {"all",       "pairs",      "roots",  "counts",
						     "pieces_40", "pieces_140", "staged", "drawn"};

static const char *const tried_words[PROVE_SWEEPS] = {
	"every combination of root, count, place, pieces, average, layout of nodes and form",
	"every root with every count and place, of elements of one byte",
	"every root, or pair of ranks",
	"every count with every layout of nodes",
	"40 pieces a block",
	"140 pieces a block",
	"staged buffers, with every place, pieces, average and form",
	"cases drawn at random"};

enum { TRIED_TEXT = 4 * PROVE_RANKS_MAX };

/* Does the sweep concern the kind?  A barrier has no data. */
static int tried_concerns(const struct prove_row *row, int sweep)
{
	return row->info.kind != COLL_KIND_BARRIER ||
	       (sweep != PROVE_SWEEP_PIECES && sweep != PROVE_SWEEP_MOST &&
		sweep != PROVE_SWEEP_STAGED);
}

/* Splits the numbers of ranks of a sweep: tried with all algorithms that have a case there, or with some only. */
static void tried_split(const struct prove_row *row, int rows, int sweep, struct prove_set *all,
			struct prove_set *some)
{
	for (int n = 1; n <= PROVE_RANKS_MAX; n++) {
		int with = 0, without = 0;

		for (int i = 0; i < rows; i++) {
			if (!row[i].wanted || !prove_set_has(&row[i].ranks, n) ||
			    !tried_concerns(&row[i], sweep))
				continue;
			if (prove_set_has(&row[i].swept[sweep], n))
				with++;
			else
				without++;
		}
		if (with)
			prove_set_add(without ? some : all, n);
	}
}

static void tried_sweep(const struct prove_row *row, int rows, int sweep)
{
	struct prove_set all = {{0}}, some = {{0}};
	char text[TRIED_TEXT];

	tried_split(row, rows, sweep, &all, &some);
	prove_set_text(&all, text, sizeof(text));
	printf("  %s\n    %s", tried_words[sweep], text);
	prove_set_text(&some, text, sizeof(text));
	if (text[0] != 'n')
		printf("; with some algorithms also %s", text);
	printf("\n");
}

void prove_tried(const struct prove_plan *plan, const struct prove_row *row, int rows)
{
	printf("\nTried, and with which numbers of ranks (of each algorithm by itself: --json).  A "
	       "case draws\n"
	       "the properties that its line does not name at random, with --seed %llu.  Form: the "
	       "counts\n"
	       "and displacements of a v-form.  Counts:",
	       (unsigned long long)plan->seed);
	for (int i = 0; i < plan->ncounts; i++)
		printf("%s %llu", i % 12 == 4 ? "\n " : "", (unsigned long long)plan->counts[i]);
	printf("\n");
	for (int i = 0; i < PROVE_SWEEPS; i++)
		tried_sweep(row, rows, i);
}
