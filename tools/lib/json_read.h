/* SPDX-License-Identifier: BSD-3-Clause */
/* json_read.h - reads a JSON document into a tree, such as json.h writes. */
#ifndef TOOLS_JSON_READ_H
#define TOOLS_JSON_READ_H

#include <stddef.h>

enum json_kind { JSON_NULL, JSON_BOOL, JSON_NUMBER, JSON_STRING, JSON_ARRAY, JSON_OBJECT };

struct json_value {
	enum json_kind kind;
	double number;            /* of a number; 1 for true */
	char *text;               /* of a string; an escape other than \" and \\ stays as it is */
	char *key;                /* of a member of an object, or NULL */
	struct json_value *child; /* the first member of an array or object */
	struct json_value *next;  /* the next member of the same array or object */
};

/* Reads a file.  Returns NULL after printing "coll COMMAND: ..." with the reason.  The caller frees it by json_free. */
struct json_value *json_read(const char *command, const char *path);
/*
 * Reads a document out of text that ends with '\0'.  Returns NULL with the reason in *wrong, and in *at the byte where it
 * was found.
 */
struct json_value *json_parse(const char *text, const char **wrong, size_t *at);
void json_free(struct json_value *value);

/* Returns the member of an object, or NULL: `value` may be NULL. */
const struct json_value *json_get(const struct json_value *value, const char *key);
/* Returns the number or text of a member, or the default if there is none. */
double json_get_number(const struct json_value *value, const char *key, double otherwise);
const char *json_get_text(const struct json_value *value, const char *key, const char *otherwise);

#endif
