/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c - writes one JSON document (RFC 8259), indented. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "lib/json.h"

/*
 * Returns the length of the UTF-8 sequence that begins at s, or 0 if there is none.  Overlong forms, surrogates and code
 * points beyond U+10FFFF are invalid (RFC 3629 section 4).
 */
static size_t json_utf8(const unsigned char *s)
{
	unsigned char low = 0x80, high = 0xbf;
	size_t n;

	if (s[0] < 0x80)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4)
		return 0;
	n = s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	if (s[0] == 0xe0)
		low = 0xa0;
	if (s[0] == 0xed)
		high = 0x9f;
	if (s[0] == 0xf0)
		low = 0x90;
	if (s[0] == 0xf4)
		high = 0x8f;
	if (s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return n;
}

static void json_quote(FILE *out, const char *text)
{
	const unsigned char *s = (const unsigned char *)text;

	fputc('"', out);
	while (*s) {
		size_t n = json_utf8(s);

		if (n == 0)
			fputs("\\ufffd", out);
		else if (*s == '"' || *s == '\\')
			fprintf(out, "\\%c", *s);
		else if (*s < 0x20 || *s == 0x7f)
			fprintf(out, "\\u%04x", *s);
		else
			fwrite(s, 1, n, out);
		s += n == 0 ? 1 : n;
	}
	fputc('"', out);
}

/* Writes the separators before a value: comma, new line, indentation, key. */
static void json_next(struct json *json, const char *key)
{
	if (json->depth > 0)
		fprintf(json->out, "%s\n%*s", json->filled[json->depth] ? "," : "", json->depth * 2,
			"");
	json->filled[json->depth] = 1;
	if (key != NULL) {
		json_quote(json->out, key);
		fputs(": ", json->out);
	}
}

static void json_open(struct json *json, const char *key, char bracket)
{
	json_next(json, key);
	fputc(bracket, json->out);
	json->depth++;
	json->filled[json->depth] = 0;
}

static void json_close(struct json *json, char bracket)
{
	int filled = json->filled[json->depth--];

	if (filled)
		fprintf(json->out, "\n%*s", json->depth * 2, "");
	fputc(bracket, json->out);
	if (json->depth == 0)
		fputc('\n', json->out);
}

void json_object(struct json *json, const char *key)
{
	json_open(json, key, '{');
}

void json_object_end(struct json *json)
{
	json_close(json, '}');
}

void json_array(struct json *json, const char *key)
{
	json_open(json, key, '[');
}

void json_array_end(struct json *json)
{
	json_close(json, ']');
}

void json_string(struct json *json, const char *key, const char *value)
{
	if (value == NULL) {
		json_null(json, key);
		return;
	}
	json_next(json, key);
	json_quote(json->out, value);
}

void json_int(struct json *json, const char *key, int64_t value)
{
	json_next(json, key);
	fprintf(json->out, "%" PRId64, value);
}

void json_number(struct json *json, const char *key, double value)
{
	if (!isfinite(value)) {
		json_null(json, key);
		return;
	}
	json_next(json, key);
	fprintf(json->out, "%.6g", value);
}

void json_bool(struct json *json, const char *key, int value)
{
	json_next(json, key);
	fputs(value ? "true" : "false", json->out);
}

void json_null(struct json *json, const char *key)
{
	json_next(json, key);
	fputs("null", json->out);
}
