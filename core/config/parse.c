/* SPDX-License-Identifier: BSD-3-Clause */
/* parse.c - from text to typed values, and the description of the values that an option takes. */
#include "config/config_impl.h"

#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

struct config_unit {
	const char *name;
	int64_t factor;
};

/* The largest unit stands first; "", for a number without a unit, stands last. */
static const struct config_unit config_time_units[] = {
	{"min", 60000000}, {"s", 1000000}, {"ms", 1000}, {"us", 1}, {"", 1000000}, {NULL, 0}};
static const struct config_unit config_size_units[] = {
	{"G", 1 << 30}, {"M", 1 << 20}, {"K", 1 << 10}, {"", 1}, {NULL, 0}};

static const struct config_unit *config_units(const coll_option_t *spec)
{
	return spec->type == COLL_OPTION_DURATION ? config_time_units : config_size_units;
}

/* Reads digits into *number; returns the end of the digits, or NULL if there are none or too many. */
static const char *config_parse_digits(const char *text, int64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)*text))
		return NULL;
	errno = 0;
	*number = strtoll(text, &end, 10);
	return errno ? NULL : end;
}

/* "1.5M": whole * unit + fraction / scale * unit, if that is a whole number. */
static int config_parse_amount(const char *text, const struct config_unit *unit, int64_t *number)
{
	int64_t whole, fraction = 0, scale = 1;
	const char *start;

	text = config_parse_digits(text, &whole);
	if (text && *text == '.') {
		start = text + 1;
		text = config_parse_digits(start, &fraction);
		/* More digits of the fraction never give a whole number. */
		if (!text || text - start > 9)
			return -1;
		for (; start < text; start++)
			scale *= 10;
	}
	if (!text)
		return -1;
	while (*text == ' ' || *text == '\t')
		text++;
	while (unit->name && strcasecmp(text, unit->name) != 0)
		unit++;
	if (!unit->name || fraction * unit->factor % scale != 0)
		return -1;
	if (__builtin_mul_overflow(whole, unit->factor, &whole) ||
	    __builtin_add_overflow(whole, fraction * unit->factor / scale, number))
		return -1;
	return 0;
}

static int config_parse_int(const char *text, int64_t *number)
{
	char *end;

	if (!isdigit((unsigned char)text[text[0] == '-']))
		return -1;
	errno = 0;
	*number = strtoll(text, &end, 10);
	return errno || *end ? -1 : 0;
}

static int config_parse_bool(const char *text, int64_t *number)
{
	static const char *const words[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
	size_t i;

	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++)
		if (strcasecmp(text, words[i]) == 0) {
			*number = (int64_t)(i % 2);
			return 0;
		}
	return -1;
}

/* *number: the index of the word among the words "a|b|c". */
static int config_parse_word(const char *text, const char *words, int64_t *number)
{
	const size_t len = strlen(text);
	size_t n;

	for (*number = 0;; ++*number) {
		n = strcspn(words, "|");
		if (n == len && strncmp(words, text, n) == 0)
			return 0;
		if (!words[n])
			return -1;
		words += n + 1;
	}
}

const char *config_words(const coll_option_t *spec)
{
	return spec->type == COLL_OPTION_STRING && spec->unit && strchr(spec->unit, '|')
		       ? spec->unit
		       : NULL;
}

static int config_parse_text(const coll_option_t *spec, const char *value, int64_t *number)
{
	int bad;

	switch (spec->type) {
	case COLL_OPTION_STRING:
		return config_words(spec) ? config_parse_word(value, config_words(spec), number)
					  : 0;
	case COLL_OPTION_BOOL: return config_parse_bool(value, number);
	case COLL_OPTION_INT: bad = config_parse_int(value, number); break;
	default: bad = config_parse_amount(value, config_units(spec), number); break;
	}
	return bad || *number < spec->min || *number > spec->max ? -1 : 0;
}

/* Writes a number with the unit that makes the text shortest. */
static void config_print_amount(int64_t number, const struct config_unit *unit, char *text,
				size_t size)
{
	while (unit[1].name && (number % unit->factor != 0 || number < unit->factor))
		unit++;
	snprintf(text, size, "%" PRId64 "%s", number / unit->factor, unit->name);
}

/* "expected one of a, b, c" */
static void config_expected_word(const char *words, char *text, size_t size)
{
	size_t len = (size_t)snprintf(text, size, "expected one of ");

	for (; *words && len < size - 2; words++) {
		text[len++] = *words == '|' ? ',' : *words;
		if (*words == '|')
			text[len++] = ' ';
	}
	text[len < size ? len : size - 1] = '\0';
}

/* "expected a size such as ..., from 4K to 1G" */
static void config_expected(const coll_option_t *spec, char *text, size_t size)
{
	const int duration = spec->type == COLL_OPTION_DURATION;
	char low[32], high[32];

	switch (spec->type) {
	case COLL_OPTION_STRING: config_expected_word(config_words(spec), text, size); break;
	case COLL_OPTION_BOOL: snprintf(text, size, "expected yes or no"); break;
	case COLL_OPTION_INT:
		snprintf(text, size, "expected an integer from %" PRId64 " to %" PRId64, spec->min,
			 spec->max);
		break;
	default:
		config_print_amount(spec->min, config_units(spec), low, sizeof(low));
		config_print_amount(spec->max, config_units(spec), high, sizeof(high));
		snprintf(text, size, "expected %s, from %s to %s",
			 duration ? "a duration such as 20us, 5ms, 1.5s or 2min (no unit: seconds)"
				  : "a size such as 65536, 64K, 1.5M or 1G (powers of 1024)",
			 low, high);
		break;
	}
}

int config_parse(const coll_option_t *spec, const char *value, int64_t *number, char *why,
		 size_t size)
{
	int64_t n = 0;

	if (config_parse_text(spec, value, &n)) {
		config_expected(spec, why, size);
		return -1;
	}
	*number = n;
	return 0;
}

struct config_shown config_show(const char *value)
{
	struct config_shown shown;
	const int limit = (int)sizeof(shown.text) - 4;
	char *at;

	snprintf(shown.text, sizeof(shown.text), "%.*s%s", limit, value,
		 strlen(value) > (size_t)limit ? "..." : "");
	for (at = shown.text; *at; at++)
		if ((unsigned char)*at < ' ' || *at == 0x7f)
			*at = '?';
	return shown;
}

struct config_place config_place(const struct config_value *value)
{
	struct config_place place;

	if (value->source == SOURCE_APPLICATION)
		snprintf(place.text, sizeof(place.text), "application option '%s=%s'",
			 config_show(value->name).text, config_show(value->text).text);
	else
		snprintf(place.text, sizeof(place.text), "%s", value->place);
	return place;
}
