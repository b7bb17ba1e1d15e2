/* SPDX-License-Identifier: BSD-3-Clause */
/* select_filter.c - reads the option `backend`: "ucx,tcp" or "^ucx". */
#include "plugin/plugin_impl.h"
#include "base/error.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>

static void filter_note_request(struct filter *filter, const char *source)
{
	if (!strncmp(source, "COLL_", 5))
		snprintf(filter->request, sizeof(filter->request), "%s=%.150s", source,
			 filter->list);
	else
		snprintf(filter->request, sizeof(filter->request), "backend=%.100s (%.100s)",
			 filter->list, source);
}

static const char *filter_skip(const char *from, const char *end)
{
	while (from < end && isspace((unsigned char)*from))
		from++;
	return from;
}

int filter_next(const char **at, struct filter_name *name)
{
	const char *from = *at, *end;

	if (!from)
		return 0;
	end = from + strcspn(from, ",");
	*at = *end ? end + 1 : NULL;
	from = filter_skip(from, end);
	name->excluded = from < end && *from == '^';
	from = filter_skip(from + name->excluded, end);
	while (end > from && isspace((unsigned char)end[-1]))
		end--;
	snprintf(name->text, sizeof(name->text), "%.*s", (int)(end - from), from);
	return 1;
}

int filter_has(const char *list, const char *name)
{
	struct filter_name entry;

	while (filter_next(&list, &entry))
		if (!strcmp(entry.text, name))
			return 1;
	return 0;
}

int filter_parse(const struct config *config, struct filter *filter)
{
	struct filter_name name;
	const char *at;
	int leaves_out = 0;

	*filter = (struct filter){.list = config_string(config, "backend")};
	if (!filter->list || !filter->list[0])
		return COLL_SUCCESS;
	filter_note_request(filter, config_source(config, "backend"));
	for (at = filter->list; filter_next(&at, &name);) {
		leaves_out |= name.excluded && !filter->takes;
		if (name.excluded && !leaves_out) {
			filter->takes = 0;
			return error_set(COLL_ERR_CONFIG,
					 "%s names backends to take and, with '^', backends to "
					 "leave out: name either the former or the latter",
					 filter->request);
		}
		filter->takes += name.text[0] && !leaves_out;
		filter->leaves_out += name.text[0] && leaves_out;
	}
	if (filter->takes || filter->leaves_out)
		return COLL_SUCCESS;
	return error_set(COLL_ERR_CONFIG,
			 "%s names no backend; write 'ucx,tcp' to take one of these, '^ucx' to "
			 "leave one out",
			 filter->request);
}

enum plugin_wanted filter_wants(const struct config *config, const char *name)
{
	struct filter filter;

	/* A malformed list is an error of select_agree or select_local: no backend will be used. */
	if (filter_parse(config, &filter))
		return PLUGIN_RULED_OUT;
	if (filter.leaves_out)
		return filter_has(filter.list, name) ? PLUGIN_EXCLUDED : PLUGIN_BY_PRIORITY;
	if (filter.takes)
		return filter_has(filter.list, name) ? PLUGIN_BY_NAME : PLUGIN_RULED_OUT;
	return PLUGIN_BY_PRIORITY;
}
