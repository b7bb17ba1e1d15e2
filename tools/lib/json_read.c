/* SPDX-License-Identifier: BSD-3-Clause */
/* json_read.c - reads a JSON document into a tree. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "lib/json.h"
#include "lib/json_read.h"

enum { READ_SPACE = 64 << 10 };

/* The rest of the text, and why it is no JSON. */
struct read_state {
	const char *begin, *at;
	const char *wrong;
	int depth;
};

static struct json_value *read_value(struct read_state *s);

static void read_skip(struct read_state *s)
{
	s->at += strspn(s->at, " \t\r\n");
}

static void *read_wrong(struct read_state *s, const char *what)
{
	if (s->wrong == NULL)
		s->wrong = what;
	return NULL;
}

/* Takes the character if it is next. */
static int read_take(struct read_state *s, char c)
{
	read_skip(s);
	if (*s->at != c)
		return 0;
	s->at++;
	return 1;
}

static char *read_string(struct read_state *s)
{
	const char *from = s->at + 1, *end = from;
	char *text, *to;

	while (*end != '\0' && *end != '"')
		end += end[0] == '\\' && end[1] != '\0' ? 2 : 1;
	if (*end == '\0')
		return read_wrong(s, "a string does not end");
	text = to = malloc((size_t)(end - from) + 1);
	if (text == NULL)
		return read_wrong(s, "no memory");
	while (from < end) {
		if (from[0] == '\\' && (from[1] == '"' || from[1] == '\\'))
			from++;
		*to++ = *from++;
	}
	*to = '\0';
	s->at = end + 1;
	return text;
}

/* Reads the members of an array or object, up to the closing bracket. */
static void read_members(struct read_state *s, struct json_value *parent, char close)
{
	struct json_value **last = &parent->child;

	s->at++;
	if (read_take(s, close))
		return;
	do {
		char *key = NULL;

		read_skip(s);
		if (parent->kind == JSON_OBJECT) {
			key = *s->at == '"' ? read_string(s) : read_wrong(s, "a key is no string");
			if (key != NULL && !read_take(s, ':'))
				read_wrong(s, "no colon after a key");
		}
		*last = s->wrong == NULL ? read_value(s) : NULL;
		if (*last == NULL) {
			free(key);
			return;
		}
		(*last)->key = key;
		last = &(*last)->next;
	} while (read_take(s, ','));
	if (!read_take(s, close))
		read_wrong(s, "an array or object does not end");
}

/* Reads true, false or null.  Returns the number of characters; 0: it is none of them. */
static size_t read_word(const char *at, struct json_value *value)
{
	if (strncmp(at, "true", 4) == 0 || strncmp(at, "false", 5) == 0) {
		value->kind = JSON_BOOL;
		value->number = *at == 't';
		return *at == 't' ? 4 : 5;
	}
	return strncmp(at, "null", 4) == 0 ? 4 : 0;
}

static void read_into(struct read_state *s, struct json_value *value)
{
	char *end;
	size_t n;

	if (*s->at == '{' || *s->at == '[') {
		value->kind = *s->at == '{' ? JSON_OBJECT : JSON_ARRAY;
		read_members(s, value, *s->at == '{' ? '}' : ']');
	} else if (*s->at == '"') {
		value->kind = JSON_STRING;
		value->text = read_string(s);
	} else {
		n = read_word(s->at, value);
		s->at += n;
		if (n > 0)
			return;
		value->kind = JSON_NUMBER;
		value->number = strtod(s->at, &end);
		if (end == s->at)
			read_wrong(s, "a value is expected");
		s->at = end;
	}
}

static struct json_value *read_value(struct read_state *s)
{
	struct json_value *value;

	if (s->depth == JSON_DEPTH_MAX)
		return read_wrong(s, "it is nested too deeply");
	value = calloc(1, sizeof(*value));
	if (value == NULL)
		return read_wrong(s, "no memory");
	s->depth++;
	read_skip(s);
	read_into(s, value);
	s->depth--;
	if (s->wrong == NULL)
		return value;
	json_free(value);
	return NULL;
}

/* Returns the whole file as text, or NULL with errno. */
static char *read_file(const char *path)
{
	FILE *file = fopen(path, "r");
	char *text = NULL, *grown;
	size_t n = 0, got = 0;

	if (file == NULL)
		return NULL;
	do {
		grown = realloc(text, n + READ_SPACE + 1);
		if (grown == NULL)
			break;
		text = grown;
		got = fread(text + n, 1, READ_SPACE, file);
		n += got;
		text[n] = '\0';
	} while (got > 0);
	if (grown == NULL || ferror(file)) {
		free(text);
		text = NULL;
	}
	fclose(file);
	return text;
}

struct json_value *json_parse(const char *text, const char **wrong, size_t *at)
{
	struct read_state s = {.begin = text, .at = text};
	struct json_value *value = read_value(&s);

	read_skip(&s);
	if (value != NULL && *s.at != '\0') {
		json_free(value);
		value = read_wrong(&s, "more text follows the document");
	}
	*wrong = s.wrong;
	*at = (size_t)(s.at - s.begin);
	return value;
}

struct json_value *json_read(const char *command, const char *path)
{
	char *text = read_file(path);
	struct json_value *value;
	const char *wrong;
	size_t at;

	if (text == NULL) {
		fprintf(stderr, "coll %s: cannot read '%s': %s\n", command, path, strerror(errno));
		return NULL;
	}
	value = json_parse(text, &wrong, &at);
	if (value == NULL)
		fprintf(stderr, "coll %s: '%s' is no JSON document: byte %zu: %s\n", command, path,
			at, wrong);
	free(text);
	return value;
}

void json_free(struct json_value *value)
{
	while (value != NULL) {
		struct json_value *next = value->next;

		json_free(value->child);
		free(value->key);
		free(value->text);
		free(value);
		value = next;
	}
}

const struct json_value *json_get(const struct json_value *value, const char *key)
{
	const struct json_value *at = value ? value->child : NULL;

	while (at != NULL && (at->key == NULL || strcmp(at->key, key) != 0))
		at = at->next;
	return at;
}

double json_get_number(const struct json_value *value, const char *key, double otherwise)
{
	const struct json_value *member = json_get(value, key);

	return member != NULL && member->kind == JSON_NUMBER ? member->number : otherwise;
}

const char *json_get_text(const struct json_value *value, const char *key, const char *otherwise)
{
	const struct json_value *member = json_get(value, key);

	return member != NULL && member->kind == JSON_STRING ? member->text : otherwise;
}
