/* SPDX-License-Identifier: BSD-3-Clause */
/* observer.c - the plugins that observe: which of the files the option `observers` names, and their tables. */
#include "plugin/plugin_impl.h"
#include "base/error.h"
#include "base/suggest.h"

#include <stdio.h>
#include <string.h>

/* ---------------------------------------------------------------------- the table -- */

/* The end of the struct's last member in minor 0: these members never change. */
#define OBSERVER_MIN (offsetof(coll_observer_t, close) + sizeof(void (*)(void)))

static int observer_check_table(struct plugin *plugin, const coll_observer_t *own)
{
	int code = plugin_check_name(plugin, own->name);

	if (code)
		return code;
	if (!own->version || !own->version[0])
		return plugin_missing(plugin, "`version`");
	if (!own->open)
		return plugin_missing(plugin, "`open`");
	if (!own->event)
		return plugin_missing(plugin, "`event`");
	if (!own->close)
		return plugin_missing(plugin, "`close`");
	if (!own->wants)
		return plugin_refuse(plugin, COLL_ERR_ABI,
				     "'%s' wants no event: set .wants to COLL_OBSERVE_* bits",
				     plugin->path);
	return COLL_SUCCESS;
}

static int observer_take(struct plugin *plugin, const void *exported)
{
	const coll_observer_t *table = exported;
	coll_observer_t own = {0};
	int code = plugin_copy(plugin, plugin->kind->type, &own, sizeof(own), table, table->size,
			       OBSERVER_MIN);

	if (!code)
		code = observer_check_table(plugin, &own);
	if (!code)
		code = plugin_take_options(plugin, &own.options, own.option_count,
					   &own.option_size);
	if (code)
		return code;
	if (!own.description)
		own.description = "";
	plugin->observer = own;
	return COLL_SUCCESS;
}

const struct plugin_kind plugin_observers = {
	.noun = "observer",
	.file_noun = "an observer",
	.prefix = "observer_",
	.symbol = COLL_OBSERVER_SYMBOL,
	.header = "observer.h",
	.export_macro = "COLL_OBSERVER_EXPORT",
	.type = "coll_observer_t",
	.major = COLL_OBSERVER_ABI_MAJOR,
	.take = observer_take,
};

/* ------------------------------------------------------------------------ the names -- */

void plugins_begin_observers(struct observer_names *names, const struct config *config)
{
	*names =
		(struct observer_names){.config = config, .at = config_string(config, "observers")};
}

size_t plugins_most_observers(const struct config *config)
{
	const char *names = config_string(config, "observers");

	return (names ? strlen(names) / 2 + 1 : 0) + config_is_set(config, "timeline");
}

/* Is the name in the part of the option `observers` before `end`? */
static int observer_comes_again(const struct observer_names *names, const char *end,
				const char *name)
{
	const char *at = config_string(names->config, "observers");
	struct filter_name entry;

	while (at && at < end && filter_next(&at, &entry))
		if (!entry.excluded && !strcmp(entry.text, name))
			return 1;
	return 0;
}

static int observer_next_listed(struct observer_names *names, char name[64])
{
	struct filter_name entry;
	const char *from = names->at;

	for (; filter_next(&names->at, &entry); from = names->at) {
		if (!entry.text[0] && !entry.excluded)
			continue;
		if (!entry.excluded && observer_comes_again(names, from, entry.text))
			continue;
		snprintf(name, 64, "%s%.62s", entry.excluded ? "^" : "", entry.text);
		names->taken |= !strcmp(name, "timeline");
		return 1;
	}
	return 0;
}

int plugins_next_observer(struct observer_names *names, char name[64])
{
	const char *timeline = config_string(names->config, "timeline");

	if (!names->all && observer_next_listed(names, name))
		return 1;
	names->all = 1;
	if (names->taken || !timeline || !timeline[0])
		return 0;
	names->taken = 1;
	snprintf(name, 64, "timeline");
	return 1;
}

/* Appends an entry for a name that no file has. */
static void observer_refuse_name(struct plugin_search *search, const char *name)
{
	const struct plugin_list *list = search->list;
	struct plugin *plugin = plugin_new_item(search, &plugin_observers);
	struct suggestion suggestion;

	if (!plugin)
		return;
	suggest_begin(&suggestion, name, 0);
	for (int i = 0; i < list->observer_count; i++)
		if (list->observer[i].name[0])
			suggest_try(&suggestion, list->observer[i].name);
	snprintf(plugin->name, sizeof(plugin->name), "%s", name);
	if (strlen(name) > PLUGIN_NAME_LONGEST)
		plugin_refuse(plugin, COLL_ERR_PLUGIN,
			      "the name of an observer has at most %d bytes", PLUGIN_NAME_LONGEST);
	else
		plugin_refuse(
			plugin, COLL_ERR_PLUGIN,
			"no plugin directory has a file observer_%.40s.so%s; `coll info` lists the "
			"directories and the observers in them",
			name, suggest_text(&suggestion));
	search->list->observer_count++;
}

/*
 * A section of options has one owner.  The options of an observer `log` would have the variables of the library's own,
 * such as COLL_LOG_FILE, and the library has an observer of that name.
 */
static int observer_has_section(const struct plugin_search *search, struct plugin *plugin)
{
	const struct plugin *backend = plugins_find(search->list, plugin->name);
	const int is_own = !strcmp(plugin->name, "log");

	if (!backend && !is_own)
		return 1;
	if (is_own)
		plugin_refuse(
			plugin, COLL_ERR_PLUGIN,
			"'%s' is not used: 'log' is the library's own name; rename the observer",
			plugin->path);
	else
		plugin_refuse(
			plugin, COLL_ERR_PLUGIN,
			"'%s' is not used: the backend '%s' has the same name; rename the observer",
			plugin->path, backend->path);
	return 0;
}

static void observer_open(struct plugin_search *search, struct plugin *plugin)
{
	if (!plugin->observer.size && !plugin->code && observer_has_section(search, plugin))
		plugin_load(search, plugin);
}

void plugin_open_observers(struct plugin_search *search)
{
	struct plugin_list *list = search->list;
	struct observer_names names;
	char name[64];

	plugins_begin_observers(&names, search->config);
	while (search->how && !search->no_memory && plugins_next_observer(&names, name)) {
		struct plugin *plugin = plugins_find_observer(list, name);

		if (plugin)
			observer_open(search, plugin);
		else
			observer_refuse_name(search, name);
	}
	/* A process that only looks also opens the observers that no option names. */
	for (int i = 0; search->how & PLUGINS_IN_CHILDREN && i < list->observer_count; i++)
		observer_open(search, &list->observer[i]);
}

/* ---------------------------------------------------------------------- the options -- */

static int observer_declare(struct plugin_list *list, struct plugin *plugin, struct config *config)
{
	int code;

	if (!plugin->observer.size) {
		if (plugin->path[0] && plugin->name[0] && !plugins_find(list, plugin->name))
			config_accept(config, plugin->name);
		return COLL_SUCCESS;
	}
	code = config_declare(config, plugin->name, plugin->observer.options,
			      plugin->observer.option_count);
	if (code == COLL_ERR_NO_MEMORY)
		return code;
	if (code)
		plugin_refuse(plugin, code == COLL_ERR_PLUGIN ? COLL_ERR_ABI : code, "'%s': %s",
			      plugin->path, error_text());
	return COLL_SUCCESS;
}

int plugin_declare_observers(struct plugin_list *list, struct config *config)
{
	int code = COLL_SUCCESS;

	for (int i = 0; !code && i < list->observer_count; i++)
		code = observer_declare(list, &list->observer[i], config);
	return code;
}
