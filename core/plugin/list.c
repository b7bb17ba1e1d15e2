/* SPDX-License-Identifier: BSD-3-Clause */
/* list.c - the list of plugins: its notes, its entries by name, and their refusals. */
#include "plugin/plugin_impl.h"
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void plugin_note(struct plugin_search *search, const char *fmt, ...)
{
	struct plugin_list *list = search->list;
	void *more = realloc(list->note, ((size_t)list->note_count + 1) * sizeof(*list->note));
	va_list args;

	if (!more) {
		search->no_memory = 1;
		return;
	}
	list->note = more;
	va_start(args, fmt);
	vsnprintf(list->note[list->note_count++], sizeof(*list->note), fmt, args);
	va_end(args);
}

static struct plugin *plugin_find(struct plugin *item, int count, const char *name)
{
	for (int i = 0; i < count; i++)
		if (name[0] && !strcmp(item[i].name, name))
			return &item[i];
	return NULL;
}

struct plugin *plugins_find(const struct plugin_list *list, const char *name)
{
	return plugin_find(list->item, list->count, name);
}

struct plugin *plugins_find_observer(const struct plugin_list *list, const char *name)
{
	return plugin_find(list->observer, list->observer_count, name);
}

int plugin_refuse(struct plugin *plugin, int code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	vsnprintf(plugin->reason, sizeof(plugin->reason), fmt, args);
	va_end(args);
	plugin->code = code;
	return code;
}

int plugin_refuse_error(struct plugin *plugin, int code)
{
	return plugin_refuse(plugin, code, "%s", error_text());
}
