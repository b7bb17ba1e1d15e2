/* SPDX-License-Identifier: BSD-3-Clause */
/* log_levels.c - the text of the option `log`. */
#include "base/log_levels.h"
#include "base/suggest.h"

#include <coll/backend.h>

#include <stdio.h>
#include <string.h>

static const char *const log_names[] = {"error", "warn", "info", "debug", "trace"};

enum { LOG_LEVELS = sizeof(log_names) / sizeof(log_names[0]), LOG_NO_LEVEL = -1 };

_Static_assert(COLL_LOG_ERROR == 0 && COLL_LOG_TRACE == LOG_LEVELS - 1, "levels are indices");

const char *log_level_name(int level)
{
	return log_names[level < 0 ? 0 : level < LOG_LEVELS ? level : LOG_LEVELS - 1];
}

const char *const log_subsystems[] = {"api",    "base",      "comm",   "compose", "config",
				      "device", "endpoint",  "exec",   "meet",    "message",
				      "native", "observe",   "plugin", "reduce",  "serve",
				      "start",  "transport", "watch",  NULL};

/* ---------------------------------------------------------------------- the text -- */

/* A part of the text, "name:level" or "level", without the blanks around it. */
struct log_part {
	const char *name, *level;
	int name_length, level_length; /* name_length -1: there is no colon */
};

static void log_part_trim(const char **text, int *length)
{
	while (*length && strchr(" \t", **text)) {
		++*text;
		--*length;
	}
	while (*length && strchr(" \t", (*text)[*length - 1]))
		--*length;
}

static struct log_part log_part_of(const char *text, int length)
{
	const char *colon = memchr(text, ':', (size_t)length);
	struct log_part part = {.level = text, .name_length = -1, .level_length = length};

	if (colon) {
		part.name = text;
		part.name_length = (int)(colon - text);
		part.level = colon + 1;
		part.level_length = length - part.name_length - 1;
		log_part_trim(&part.name, &part.name_length);
	}
	log_part_trim(&part.level, &part.level_length);
	return part;
}

/* Is the word the same as these bytes? */
static int log_part_is(const char *word, const char *text, int length)
{
	return (int)strlen(word) == length && !strncmp(word, text, (size_t)length);
}

static int log_level_of(const char *text, int length)
{
	for (int i = 0; i < LOG_LEVELS; i++)
		if (log_part_is(log_names[i], text, length))
			return i;
	return LOG_NO_LEVEL;
}

/* Writes the part of the text so that it cannot harm a terminal. */
static const char *log_part_show(const char *text, int length, char out[SUGGEST_WORD_SIZE])
{
	snprintf(out, SUGGEST_WORD_SIZE, "%.*s", length, text);
	for (char *at = out; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	return out;
}

static int log_part_bad_level(const struct log_part *part, char *why, size_t size)
{
	char word[SUGGEST_WORD_SIZE];
	struct suggestion guess;

	log_part_show(part->level, part->level_length, word);
	suggest_begin(&guess, word, 0);
	for (int i = 0; i < LOG_LEVELS; i++)
		suggest_try(&guess, log_names[i]);
	snprintf(why, size,
		 "'%s' is no level: expected one of error, warn, info, debug, trace, "
		 "which SUBSYSTEM:LEVEL may follow, as in info,watch:debug%s",
		 word, suggest_text(&guess));
	return -1;
}

static int log_part_bad_name(const struct log_part *part, const char *fault, char *why, size_t size)
{
	char word[SUGGEST_WORD_SIZE];

	snprintf(why, size, "'%s' %s",
		 log_part_show(part->name, part->name_length < 0 ? 0 : part->name_length, word),
		 fault);
	return -1;
}

static int log_part_is_name(const struct log_part *part)
{
	return part->name_length > 0 && part->name_length < LOG_NAME_SIZE &&
	       (int)strspn(part->name, "abcdefghijklmnopqrstuvwxyz0123456789_") >=
		       part->name_length;
}

static int log_levels_add(struct log_levels *levels, const struct log_part *part, int level,
			  char *why, size_t size)
{
	if (!log_part_is_name(part))
		return log_part_bad_name(part,
					 "cannot be the name of a subsystem, which has 1 to 31 of "
					 "a-z, 0-9 and '_'",
					 why, size);
	for (int i = 0; i < levels->count; i++)
		if (log_part_is(levels->of[i].name, part->name, part->name_length))
			return log_part_bad_name(part, "has two levels: name it once", why, size);
	if (levels->count == LOG_NAMES_MOST)
		return log_part_bad_name(part, "is one name too many: at most 32 have a level", why,
					 size);
	snprintf(levels->of[levels->count].name, LOG_NAME_SIZE, "%.*s", part->name_length,
		 part->name);
	levels->of[levels->count++].level = level;
	return 0;
}

int log_levels_parse(const char *text, struct log_levels *levels, char *why, size_t size)
{
	int general = LOG_NO_LEVEL;

	*levels = (struct log_levels){.level = COLL_LOG_WARN};
	for (int more = 1; more;) {
		const int length = (int)strcspn(text, ",");
		const struct log_part part = log_part_of(text, length);
		const int level = log_level_of(part.level, part.level_length);

		if (level == LOG_NO_LEVEL)
			return log_part_bad_level(&part, why, size);
		if (part.name_length >= 0) {
			if (log_levels_add(levels, &part, level, why, size))
				return -1;
		} else if (general != LOG_NO_LEVEL) {
			snprintf(why, size, "'%s' and '%s' are both for all lines: name one level",
				 log_names[general], log_names[level]);
			return -1;
		} else {
			levels->level = general = level;
		}
		more = text[length] == ',';
		text += length + more;
	}
	return 0;
}

/* ----------------------------------------------------------------------- answers -- */

int log_levels_of(const struct log_levels *levels, const char *subsystem)
{
	for (int i = 0; subsystem && i < levels->count; i++)
		if (!strcmp(levels->of[i].name, subsystem))
			return levels->of[i].level;
	return levels->level;
}

int log_levels_most(const struct log_levels *levels)
{
	int most = levels->level;

	for (int i = 0; i < levels->count; i++)
		if (levels->of[i].level > most)
			most = levels->of[i].level;
	return most;
}
