/* SPDX-License-Identifier: BSD-3-Clause */
/* suggest.c - names that nobody knows: whom they may belong to, what may have been meant. */
#include "config/config_impl.h"
#include "config/rules.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Room for the sentence that a guess becomes. */
enum { GUESS_WORDS_SIZE = 256 };

static int config_min(int a, int b)
{
	return a < b ? a : b;
}

/*
 * Edits from a to b: letters inserted, dropped, replaced or two neighbours swapped (optimal string
 * alignment).  Case does not count.  Both are shorter than GUESS_WORD_SIZE.
 */
static int config_distance(const char *a, const char *b)
{
	int rows[3][GUESS_WORD_SIZE], *before = rows[0], *above = rows[1], *row = rows[2], *t;
	int i, j, same;

	for (j = 0; j == 0 || b[j - 1]; j++)
		above[j] = before[j] = j;
	for (i = 1; a[i - 1]; i++) {
		row[0] = i;
		for (j = 1; b[j - 1]; j++) {
			same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
			row[j] = config_min(above[j] + 1, row[j - 1] + 1);
			row[j] = config_min(row[j], above[j - 1] + !same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = config_min(row[j], before[j - 2] + 1);
		}
		t = before;
		before = above;
		above = row;
		row = t;
	}
	return above[strlen(b)];
}

void config_guess_begin(struct config_guess *guess, const char *word, size_t same)
{
	const size_t len = strlen(word);

	guess->word = len < GUESS_WORD_SIZE ? word : "";
	guess->best[0] = '\0';
	/* A third of the letters may be wrong, but not more than three. */
	guess->distance = 1 + (len - same < 9 ? (int)(len - same) / 3 : 3);
}

void config_guess_try(struct config_guess *guess, const char *candidate)
{
	int distance;

	if (!guess->word[0] || strlen(candidate) >= sizeof(guess->best))
		return;
	distance = config_distance(guess->word, candidate);
	if (distance >= guess->distance)
		return;
	guess->distance = distance;
	snprintf(guess->best, sizeof(guess->best), "%s", candidate);
}

/* "; did you mean 'x'?" or "". */
static const char *config_guess_words(const struct config_guess *guess, char text[GUESS_WORDS_SIZE])
{
	text[0] = '\0';
	if (guess->best[0])
		snprintf(text, GUESS_WORDS_SIZE, "; did you mean '%s'?", guess->best);
	return text;
}

void config_did_you_mean(const char *word, const char *const *names, int n, char text[256])
{
	struct config_guess guess;

	config_guess_begin(&guess, word, 0);
	for (int i = 0; i < n; i++)
		config_guess_try(&guess, names[i]);
	config_guess_words(&guess, text);
}

int config_check_rules(int kind, const char *value, char *text, size_t size)
{
	struct rules rules = {0};
	struct rules_fault fault;
	struct config_guess guess;
	char words[GUESS_WORDS_SIZE];
	const char *candidate;

	if (!rules_parse(kind, value, &rules, &fault))
		return 0;
	config_guess_begin(&guess, fault.word, 0);
	for (int i = 0; (candidate = rules_candidate(kind, &fault, i)) != NULL; i++)
		config_guess_try(&guess, candidate);
	snprintf(text, size, "%s%s", fault.text, config_guess_words(&guess, words));
	return -1;
}

static const char *config_full_name(const char *section, const char *key, char *text, size_t size)
{
	snprintf(text, size, "%s%s%s", section, section[0] ? "." : "", key);
	return text;
}

static void config_unknown(struct config *config, const struct config_raw *raw)
{
	const size_t prefix = raw->section[0] ? strlen(raw->section) + 1 : 0;
	char name[2 * GUESS_WORD_SIZE], words[GUESS_WORDS_SIZE];
	struct config_guess guess;
	const char *known;
	int i;

	config_full_name(raw->section, raw->key, name, sizeof(name));
	config_guess_begin(&guess, name, prefix < strlen(name) ? prefix : 0);
	for (i = 0; i < config->noption; i++) {
		known = config->option[i].name;
		if (prefix ? strncmp(known, name, prefix) == 0 : strchr(known, '.') == NULL)
			config_guess_try(&guess, known);
	}
	if (prefix) {
		config_full_name(raw->section, "priority", words, sizeof(words));
		config_guess_try(&guess, words);
	}
	config_guess_words(&guess, words);
	if (prefix && config_find(config, raw->key))
		snprintf(words, sizeof(words), "; '%s' has no section: it goes above the first one",
			 config_show(raw->key).text);
	config_add_fault(config, COLL_ERR_CONFIG, "%s: unknown option '%s'%s",
			 config_place(raw).text, config_show(name).text, words);
}

void config_find_unknown(struct config *config, const char *section)
{
	int i;

	for (i = 0; i < config->nraw; i++)
		if (config->raw[i].kind != RAW_ENV && !config->raw[i].claimed &&
		    strcmp(config->raw[i].section, section) == 0)
			config_unknown(config, &config->raw[i]);
}

static char *config_remark_variable(struct config *config, const struct config_raw *raw)
{
	char name[2 * GUESS_WORD_SIZE], words[GUESS_WORDS_SIZE], *dot;
	struct config_guess guess;
	int i;

	config_guess_begin(&guess, raw->key, strlen("COLL_"));
	for (i = 0; config_reserved[i]; i++)
		config_guess_try(&guess, config_reserved[i]);
	for (i = 0; i < config->noption; i++) {
		config_variable("", config->option[i].name, name, sizeof(name));
		dot = strchr(name, '.');
		if (dot)
			*dot = '_';
		config_guess_try(&guess, name);
	}
	for (i = 0; i < config->nsection; i++) {
		config_variable(config->section[i], "priority", name, sizeof(name));
		config_guess_try(&guess, name);
	}
	return config_text(config,
			   "%s is set but no option of libcoll or of a backend found here%s",
			   config_show(raw->key).text, config_guess_words(&guess, words));
}

static char *config_remark_section(struct config *config, const struct config_raw *raw)
{
	struct config_guess guess;
	char words[GUESS_WORDS_SIZE];
	int i;

	config_guess_begin(&guess, raw->section, 0);
	for (i = 0; i < config->nsection; i++)
		config_guess_try(&guess, config->section[i]);
	return config_text(config,
			   "%s: there is no backend '%s' here; its options are not checked%s",
			   config_place(raw).text, config_show(raw->section).text,
			   config_guess_words(&guess, words));
}

/* Is an earlier value of the same source for the same section? */
static int config_seen_section(const struct config *config, int index)
{
	const struct config_raw *raw = &config->raw[index], *before;

	for (before = raw; before > config->raw && before[-1].origin == raw->origin; before--)
		if (strcmp(before[-1].section, raw->section) == 0)
			return 1;
	return 0;
}

void config_review(struct config *config)
{
	struct config_raw *raw;
	int i;

	for (i = 0; i < config->nraw; i++) {
		raw = &config->raw[i];
		free(raw->remark);
		raw->remark = NULL;
		if (raw->claimed)
			continue;
		if (raw->kind == RAW_ENV)
			raw->remark = config_remark_variable(config, raw);
		else if (!config_has_section(config, raw->section) &&
			 !config_seen_section(config, i))
			raw->remark = config_remark_section(config, raw);
	}
}
