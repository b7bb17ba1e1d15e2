/* SPDX-License-Identifier: BSD-3-Clause */
/* select_filter.c - reads `backend`: "ucx,tcp" or "^ucx". */
#include "plugin/select_impl.h"
#include "base/error.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static void filter_note_request(struct filter *filter, const char *value, const char *source)
{
	const int variable = !strncmp(source, "COLL_", 5);

	if (variable)
		snprintf(filter->request, sizeof(filter->request), "%s=%.150s", source, value);
	else
		snprintf(filter->request, sizeof(filter->request), "backend=%.100s (%.100s)", value,
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

int filter_has(const struct filter *filter, const char *name)
{
	for (int i = 0; i < filter->n; i++)
		if (!strcmp(filter->name[i], name))
			return 1;
	return 0;
}

/* Adds one entry between commas; an entry of blanks is left out. */
static int filter_add(struct filter *filter, char *entry)
{
	const int excluded = *(entry = select_trim(entry)) == '^';

	if (excluded)
		entry = select_trim(entry + 1);
	if (!filter->n && excluded)
		filter->excludes = 1;
	if (excluded && !filter->excludes)
		return error_set(COLL_ERR_CONFIG,
				 "%s names backends to take and, with '^', backends to leave "
				 "out: name either the former or the latter",
				 filter->request);
	if (entry[0] && !filter_has(filter, entry))
		filter->name[filter->n++] = entry;
	return COLL_SUCCESS;
}

int filter_parse(const struct config *config, struct filter *filter)
{
	const char *value = config_string(config, "backend");
	size_t capacity = 1;
	char *rest, *entry;
	int code = COLL_SUCCESS;

	memset(filter, 0, sizeof(*filter));
	if (!value || !value[strspn(value, " \t\r\n")])
		return COLL_SUCCESS;
	filter_note_request(filter, value, config_source(config, "backend"));
	for (const char *at = value; *at; at++)
		capacity += *at == ',';
	filter->memory = rest = strdup(value);
	filter->name = calloc(capacity, sizeof(*filter->name));
	if (!rest || !filter->name)
		code = error_set(COLL_ERR_NO_MEMORY, "no memory to read %s", filter->request);
	while (!code && (entry = strsep(&rest, ",")) != NULL)
		code = filter_add(filter, entry);
	if (!code && !filter->n)
		code = error_set(
			COLL_ERR_CONFIG,
			"%s names no backend; write 'ucx,tcp' to take one of these, '^ucx' "
			"to leave one out",
			filter->request);
	return code;
}

void filter_free(struct filter *filter)
{
	free(filter->name);
	free(filter->memory);
}

int select_wants(const struct config *config, const char *name)
{
	struct filter filter;
	const int code = filter_parse(config, &filter);
	int wants = PLUGIN_BY_PRIORITY;

	/* A malformed list is an error of select_agree or select_local: no backend will be used. */
	if (code)
		wants = code == COLL_ERR_NO_MEMORY ? PLUGIN_NO_MEMORY : PLUGIN_RULED_OUT;
	else if (filter.excludes && filter_has(&filter, name))
		wants = PLUGIN_EXCLUDED;
	else if (filter.n && !filter.excludes)
		wants = filter_has(&filter, name) ? PLUGIN_BY_NAME : PLUGIN_RULED_OUT;
	filter_free(&filter);
	return wants;
}
