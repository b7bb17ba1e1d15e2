/* SPDX-License-Identifier: BSD-3-Clause */
/* json.c - writes one JSON document (RFC 8259), indented. */
#include <inttypes.h>
#include <math.h>
#include <string.h>
#include "base/json_text.h"
#include "lib/json.h"

void json_quote(FILE *out, const char *text)
{
	char one[8];

	fputc('"', out);
	while (*text) {
		const size_t len = json_text_next(&text, one);

		fwrite(one, 1, len, out);
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
