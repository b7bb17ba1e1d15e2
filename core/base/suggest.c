/* SPDX-License-Identifier: BSD-3-Clause */
/* suggest.c - the edit distance between words, and the nearest word. */
#include "base/suggest.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int suggest_min(int a, int b)
{
	return a < b ? a : b;
}

/*
 * Returns the number of edits from a to b.  An edit inserts, drops or replaces a letter, or swaps two neighbours (optimal
 * string alignment).  Case does not count.  Both words are shorter than SUGGEST_WORD_SIZE.
 */
static int suggest_distance(const char *a, const char *b)
{
	int rows[3][SUGGEST_WORD_SIZE], *before = rows[0], *above = rows[1], *row = rows[2], *t;
	int i, j, same;

	for (j = 0; j == 0 || b[j - 1]; j++)
		above[j] = before[j] = j;
	for (i = 1; a[i - 1]; i++) {
		row[0] = i;
		for (j = 1; b[j - 1]; j++) {
			same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
			row[j] = suggest_min(above[j] + 1, row[j - 1] + 1);
			row[j] = suggest_min(row[j], above[j - 1] + !same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = suggest_min(row[j], before[j - 2] + 1);
		}
		t = before;
		before = above;
		above = row;
		row = t;
	}
	return above[strlen(b)];
}

void suggest_begin(struct suggestion *suggestion, const char *word, size_t same)
{
	const size_t len = strlen(word);
	const size_t open = len > same ? len - same : 0;

	suggestion->word = len < SUGGEST_WORD_SIZE ? word : "";
	suggestion->best[0] = '\0';
	/* A third of the letters may be wrong, but not more than three. */
	suggestion->distance = 1 + (open < 9 ? (int)open / 3 : 3);
}

void suggest_try(struct suggestion *suggestion, const char *known)
{
	const size_t own = strlen(suggestion->word), len = strlen(known);
	int distance;

	if (own == 0 || len >= sizeof(suggestion->best))
		return;
	/* Each letter that only one of the words has is an edit. */
	if (abs((int)own - (int)len) >= suggestion->distance)
		return;
	distance = suggest_distance(suggestion->word, known);
	if (distance >= suggestion->distance)
		return;
	suggestion->distance = distance;
	snprintf(suggestion->best, sizeof(suggestion->best), "%s", known);
}

const char *suggest_text(struct suggestion *suggestion)
{
	suggestion->text[0] = '\0';
	if (suggestion->best[0])
		snprintf(suggestion->text, sizeof(suggestion->text), "; did you mean '%s'?",
			 suggestion->best);
	return suggestion->text;
}
