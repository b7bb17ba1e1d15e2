/* SPDX-License-Identifier: BSD-3-Clause */
/* suggest_test.c - the known word that is suggested for an unknown word. */
#include "base/suggest.h"

#include <string.h>

#include "../lib/tap.h"

static const char *suggest(const char *word, size_t same)
{
	static const char *const known[] = {"timeout", "init_timeout", "tcp.interface", "tcp.lanes",
					    "ucx"};
	static struct suggestion guess;

	suggest_begin(&guess, word, same);
	for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
		suggest_try(&guess, known[i]);
	return suggest_text(&guess);
}

int main(void)
{
	char word[200];

	is_str(suggest("tmeout", 0), "; did you mean 'timeout'?", "a letter dropped");
	is_str(suggest("timeouut", 0), "; did you mean 'timeout'?", "a letter inserted");
	is_str(suggest("timeaut", 0), "; did you mean 'timeout'?", "a letter replaced");
	is_str(suggest("itmeout", 0), "; did you mean 'timeout'?", "two neighbours swapped");
	is_str(suggest("TIMEOUT", 0), "; did you mean 'timeout'?", "case does not count");
	is_str(suggest("uxc", 0), "; did you mean 'ucx'?", "a swap is one edit, a third of 'ucx'");
	is_str(suggest("abc", 0), "", "two edits of three letters are too many");
	is_str(suggest("qqqqout", 0), "", "four edits are too many for any word");
	is_str(suggest("tcp.lnaes", 4), "; did you mean 'tcp.lanes'?", "behind a common prefix");
	is_str(suggest("tcp.xxnes", 4), "", "the common prefix allows no more edits");
	is_str(suggest("ab", 7), "", "a word shorter than the common prefix");
	is_str(suggest("", 0), "", "the empty word");
	memset(word, 't', sizeof(word));
	word[SUGGEST_WORD_SIZE] = '\0';
	is_str(suggest(word, 0), "", "a word that is too long");
	word[SUGGEST_WORD_SIZE - 1] = '\0';
	is_str(suggest(word, 0), "", "the longest word");
	return done_testing();
}
