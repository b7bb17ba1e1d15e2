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

static int conf_min(int a, int b)
{
	return a < b ? a : b;
}

/*
 * Edits from a to b: letters inserted, dropped, replaced or two neighbours swapped (optimal string
 * alignment).  Case does not count.  Both are shorter than GUESS_WORD_SIZE.
 */
static int conf_distance(const char *a, const char *b)
{
	int rows[3][GUESS_WORD_SIZE], *before = rows[0], *above = rows[1], *row = rows[2], *t;
	int i, j, same;

	for (j = 0; j == 0 || b[j - 1]; j++)
		above[j] = before[j] = j;
	for (i = 1; a[i - 1]; i++) {
		row[0] = i;
		for (j = 1; b[j - 1]; j++) {
			same = tolower((unsigned char)a[i - 1]) == tolower((unsigned char)b[j - 1]);
			row[j] = conf_min(above[j] + 1, row[j - 1] + 1);
			row[j] = conf_min(row[j], above[j - 1] + !same);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				row[j] = conf_min(row[j], before[j - 2] + 1);
		}
		t = before;
		before = above;
		above = row;
		row = t;
	}
	return above[strlen(b)];
}

void conf_guess_begin(struct conf_guess *guess, const char *word, size_t same)
{
	const size_t len = strlen(word);

	guess->word = len < GUESS_WORD_SIZE ? word : "";
	guess->best[0] = '\0';
	/* A third of the letters may be wrong, but not more than three. */
	guess->distance = 1 + (len - same < 9 ? (int)(len - same) / 3 : 3);
}

void conf_guess_try(struct conf_guess *guess, const char *candidate)
{
	int distance;

	if (!guess->word[0] || strlen(candidate) >= sizeof(guess->best))
		return;
	distance = conf_distance(guess->word, candidate);
	if (distance >= guess->distance)
		return;
	guess->distance = distance;
	snprintf(guess->best, sizeof(guess->best), "%s", candidate);
}

/* "; did you mean 'x'?" or "". */
static const char *conf_guess_words(const struct conf_guess *guess, char text[GUESS_WORDS_SIZE])
{
	text[0] = '\0';
	if (guess->best[0])
		snprintf(text, GUESS_WORDS_SIZE, "; did you mean '%s'?", guess->best);
	return text;
}

void conf_did_you_mean(const char *word, const char *const *names, int n, char text[256])
{
	struct conf_guess guess;

	conf_guess_begin(&guess, word, 0);
	for (int i = 0; i < n; i++)
		conf_guess_try(&guess, names[i]);
	conf_guess_words(&guess, text);
}

int conf_check_rules(int kind, const char *value, char *text, size_t size)
{
	struct rules rules = {0};
	struct rules_fault fault;
	struct conf_guess guess;
	char words[GUESS_WORDS_SIZE];
	const char *candidate;

	if (!rules_parse(kind, value, &rules, &fault))
		return 0;
	conf_guess_begin(&guess, fault.word, 0);
	for (int i = 0; (candidate = rules_candidate(kind, &fault, i)) != NULL; i++)
		conf_guess_try(&guess, candidate);
	snprintf(text, size, "%s%s", fault.text, conf_guess_words(&guess, words));
	return -1;
}

static const char *conf_full_name(const char *section, const char *key, char *text, size_t size)
{
	snprintf(text, size, "%s%s%s", section, section[0] ? "." : "", key);
	return text;
}

static void conf_unknown(struct conf *conf, const struct conf_raw *raw)
{
	const size_t prefix = raw->section[0] ? strlen(raw->section) + 1 : 0;
	char name[2 * GUESS_WORD_SIZE], words[GUESS_WORDS_SIZE];
	struct conf_guess guess;
	const char *known;
	int i;

	conf_full_name(raw->section, raw->key, name, sizeof(name));
	conf_guess_begin(&guess, name, prefix < strlen(name) ? prefix : 0);
	for (i = 0; i < conf->noption; i++) {
		known = conf->option[i].name;
		if (prefix ? strncmp(known, name, prefix) == 0 : strchr(known, '.') == NULL)
			conf_guess_try(&guess, known);
	}
	if (prefix) {
		conf_full_name(raw->section, "priority", words, sizeof(words));
		conf_guess_try(&guess, words);
	}
	conf_guess_words(&guess, words);
	if (prefix && conf_find(conf, raw->key))
		snprintf(words, sizeof(words), "; '%s' has no section: it goes above the first one",
			 conf_show(raw->key).text);
	conf_add_fault(conf, COLL_ERR_CONFIG, "%s: unknown option '%s'%s", conf_place(raw).text,
		       conf_show(name).text, words);
}

void conf_find_unknown(struct conf *conf, const char *section)
{
	int i;

	for (i = 0; i < conf->nraw; i++)
		if (conf->raw[i].kind != RAW_ENV && !conf->raw[i].claimed &&
		    strcmp(conf->raw[i].section, section) == 0)
			conf_unknown(conf, &conf->raw[i]);
}

static char *conf_remark_variable(struct conf *conf, const struct conf_raw *raw)
{
	char name[2 * GUESS_WORD_SIZE], words[GUESS_WORDS_SIZE], *dot;
	struct conf_guess guess;
	int i;

	conf_guess_begin(&guess, raw->key, strlen("COLL_"));
	for (i = 0; conf_reserved[i]; i++)
		conf_guess_try(&guess, conf_reserved[i]);
	for (i = 0; i < conf->noption; i++) {
		conf_variable("", conf->option[i].name, name, sizeof(name));
		dot = strchr(name, '.');
		if (dot)
			*dot = '_';
		conf_guess_try(&guess, name);
	}
	for (i = 0; i < conf->nsection; i++) {
		conf_variable(conf->section[i], "priority", name, sizeof(name));
		conf_guess_try(&guess, name);
	}
	return conf_text(conf, "%s is set but no option of libcoll or of a backend found here%s",
			 conf_show(raw->key).text, conf_guess_words(&guess, words));
}

static char *conf_remark_section(struct conf *conf, const struct conf_raw *raw)
{
	struct conf_guess guess;
	char words[GUESS_WORDS_SIZE];
	int i;

	conf_guess_begin(&guess, raw->section, 0);
	for (i = 0; i < conf->nsection; i++)
		conf_guess_try(&guess, conf->section[i]);
	return conf_text(conf, "%s: there is no backend '%s' here; its options are not checked%s",
			 conf_place(raw).text, conf_show(raw->section).text,
			 conf_guess_words(&guess, words));
}

/* Is an earlier value of the same source for the same section? */
static int conf_seen_section(const struct conf *conf, int index)
{
	const struct conf_raw *raw = &conf->raw[index], *before;

	for (before = raw; before > conf->raw && before[-1].origin == raw->origin; before--)
		if (strcmp(before[-1].section, raw->section) == 0)
			return 1;
	return 0;
}

void conf_review(struct conf *conf)
{
	struct conf_raw *raw;
	int i;

	for (i = 0; i < conf->nraw; i++) {
		raw = &conf->raw[i];
		free(raw->remark);
		raw->remark = NULL;
		if (raw->claimed)
			continue;
		if (raw->kind == RAW_ENV)
			raw->remark = conf_remark_variable(conf, raw);
		else if (!conf_has_section(conf, raw->section) && !conf_seen_section(conf, i))
			raw->remark = conf_remark_section(conf, raw);
	}
}
