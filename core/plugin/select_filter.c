/* SPDX-License-Identifier: BSD-3-Clause */
/* select_filter.c - reads `backend`: "ucx,tcp" or "^ucx". */
#include "plugin/select_impl.h"
#include "base/error.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void select_spec_words(struct select_spec *spec, const char *value, const char *source)
{
	const int variable = !strncmp(source, "COLL_", 5);

	if (variable)
		snprintf(spec->words, sizeof(spec->words), "%s=%.150s", source, value);
	else
		snprintf(spec->words, sizeof(spec->words), "backend=%.100s (%.100s)", value,
			 source);
}

static char *select_trim(char *text)
{
	size_t n;

	while (isspace((unsigned char)*text))
		text++;
	for (n = strlen(text); n && isspace((unsigned char)text[n - 1]); n--)
		;
	text[n] = '\0';
	return text;
}

int select_spec_has(const struct select_spec *spec, const char *name)
{
	for (int i = 0; i < spec->n; i++)
		if (!strcmp(spec->name[i], name))
			return 1;
	return 0;
}

/* One entry between commas; nothing but blanks is nothing. */
static int select_spec_add(struct select_spec *spec, char *entry)
{
	const int excluded = *(entry = select_trim(entry)) == '^';

	if (excluded)
		entry = select_trim(entry + 1);
	if (!spec->n && excluded)
		spec->excludes = 1;
	if (excluded && !spec->excludes)
		return error_set(COLL_ERR_CONFIG,
				 "%s names backends to take and, by '^', others to leave out: "
				 "only one of the two is possible",
				 spec->words);
	if (entry[0] && !select_spec_has(spec, entry))
		spec->name[spec->n++] = entry;
	return COLL_SUCCESS;
}

int select_spec_parse(const struct conf *conf, struct select_spec *spec)
{
	const char *value = conf_string(conf, "backend");
	size_t room = 1;
	char *rest, *entry;
	int code = COLL_SUCCESS;

	memset(spec, 0, sizeof(*spec));
	if (!value || !value[strspn(value, " \t\r\n")])
		return COLL_SUCCESS;
	select_spec_words(spec, value, conf_source(conf, "backend"));
	for (const char *at = value; *at; at++)
		room += *at == ',';
	spec->memory = rest = strdup(value);
	spec->name = calloc(room, sizeof(*spec->name));
	if (!rest || !spec->name)
		code = error_set(COLL_ERR_NO_MEMORY, "no memory to read %s", spec->words);
	while (!code && (entry = strsep(&rest, ",")) != NULL)
		code = select_spec_add(spec, entry);
	if (!code && !spec->n)
		code = error_set(
			COLL_ERR_CONFIG,
			"%s names no backend; write 'ucx,tcp' to take one of these, '^ucx' "
			"to leave one out",
			spec->words);
	return code;
}

void select_spec_free(struct select_spec *spec)
{
	free(spec->name);
	free(spec->memory);
}

int select_wants(const struct conf *conf, const char *name)
{
	struct select_spec spec;
	int wants = PLUGIN_BY_PRIORITY;

	/* A list that is wrong is everybody's error, told elsewhere. */
	if (!select_spec_parse(conf, &spec) && spec.n) {
		if (select_spec_has(&spec, name) == spec.excludes)
			wants = PLUGIN_RULED_OUT;
		else if (!spec.excludes)
			wants = PLUGIN_BY_NAME;
	}
	select_spec_free(&spec);
	return wants;
}
