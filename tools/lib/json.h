/* SPDX-License-Identifier: BSD-3-Clause */
/* json.h - writes one JSON document, indented.  The document is well-formed whatever bytes its strings hold. */
#ifndef TOOLS_JSON_H
#define TOOLS_JSON_H

#include <stdint.h>
#include <stdio.h>

/* A document has so many levels at most, itself among them. */
enum { JSON_DEPTH_MAX = 16 };

/* Initialise with {.out = stdout}. */
struct json {
	FILE *out;
	int depth;
	int filled[JSON_DEPTH_MAX]; /* 1: the level has a member */
};

/* key is NULL for the document itself and inside arrays. */
void json_object(struct json *json, const char *key);
void json_object_end(struct json *json);
void json_array(struct json *json, const char *key);
void json_array_end(struct json *json);

/* Writes a string alone, with its quotes.  Escapes control characters, and replaces bytes that are not UTF-8 by U+FFFD. */
void json_quote(FILE *out, const char *text);
/* Writes NULL as null. */
void json_string(struct json *json, const char *key, const char *value);
void json_int(struct json *json, const char *key, int64_t value);
/* Writes null for infinities and NaN. */
void json_number(struct json *json, const char *key, double value);
void json_bool(struct json *json, const char *key, int value);
void json_null(struct json *json, const char *key);

#endif
