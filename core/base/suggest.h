/* SPDX-License-Identifier: BSD-3-Clause */
/* suggest.h - "did you mean 'x'?": finds the known word that is most like an unknown word. */
#ifndef CORE_BASE_SUGGEST_H
#define CORE_BASE_SUGGEST_H

#include <stddef.h>

enum { SUGGEST_WORD_SIZE = 80 };

struct suggestion {
	const char *word;             /* the unknown word */
	char best[SUGGEST_WORD_SIZE]; /* "": no known word is similar enough */
	int distance;                 /* a known word must need fewer edits than this */
	char text[SUGGEST_WORD_SIZE + 24];
};

/* Begins with an unknown word.  Its first `same` bytes are common to all known words, so they allow no edits. */
void suggest_begin(struct suggestion *suggestion, const char *word, size_t same);
void suggest_try(struct suggestion *suggestion, const char *known);
/* Returns "; did you mean 'x'?" or "".  The text belongs to the suggestion. */
const char *suggest_text(struct suggestion *suggestion);

#endif
