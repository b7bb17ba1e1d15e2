/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin.c - the list of plugins of one configuration. */
#include "plugin/plugin_impl.h"
#include "base/error.h"
#include "base/log.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Has the core taken the plugin's table over? */
static int plugin_is_loaded(const struct plugin *plugin)
{
	return plugin->backend.size != 0;
}

/* Points the tables of an item at its own copies, once the item is in its place. */
static void plugin_link_groups(struct plugin *plugin)
{
	if (plugin->backend.transport)
		plugin->backend.transport = &plugin->transport;
	if (plugin->backend.native)
		plugin->backend.native = &plugin->native;
}

/* Of several plugins with the same name the first directory's stays first. */
static int plugin_compare(const void *one, const void *other)
{
	const struct plugin *a = one, *b = other;
	const int by_name = strcmp(a->name, b->name);

	if (plugin_is_loaded(a) != plugin_is_loaded(b))
		return plugin_is_loaded(a) ? -1 : 1;
	if (a->priority != b->priority)
		return a->priority > b->priority ? -1 : 1;
	return by_name ? by_name : a->found - b->found;
}

static void plugin_set_priority(struct plugin *plugin, struct config *config, int one_host)
{
	const coll_backend_t *b = &plugin->backend;
	char name[sizeof(plugin->name) + sizeof(".priority")];

	if (!plugin_is_loaded(plugin))
		return;
	if (!config_priority(config, plugin->name, &plugin->priority)) {
		one_host = one_host && b->host_priority;
		plugin->priority = one_host ? b->host_priority : b->priority;
		snprintf(plugin->priority_source, sizeof(plugin->priority_source), "plugin%s",
			 one_host ? ", within one host" : "");
		return;
	}
	snprintf(name, sizeof(name), "%s.priority", plugin->name);
	snprintf(plugin->priority_source, sizeof(plugin->priority_source), "%s",
		 config_source(config, name));
}

/* A user's wrong value fails the whole list; a plugin's wrong declaration refuses only this plugin. */
static int plugin_declare(struct plugin *plugin, struct config *config)
{
	int code;

	/* The section of a plugin that is not open is known, too. */
	if (!plugin_is_loaded(plugin)) {
		if (plugin->name[0])
			config_accept(config, plugin->name);
		return COLL_SUCCESS;
	}
	code = config_declare(config, plugin->name, plugin->backend.options,
			      plugin->backend.option_count);
	if (code != COLL_ERR_PLUGIN)
		return code;
	plugin_refuse(plugin, COLL_ERR_ABI, "'%s': %s", plugin->path, error_text());
	return COLL_SUCCESS;
}

/* Returns the first error. */
static int plugin_declare_all(struct plugin_list *list, struct config *config)
{
	struct error_first first = {0};

	for (int i = 0; i < list->count; i++)
		error_note(&first, plugin_declare(&list->item[i], config));
	error_note(&first, plugin_declare_observers(list, config));
	error_note(&first, config_check_sections(config));
	return error_raise(&first);
}

static void plugin_log(const struct plugin_list *list)
{
	for (int i = 0; i < list->note_count; i++)
		log_debug("%s", list->note[i]);
	for (int i = 0; i < list->count; i++) {
		const struct plugin *p = &list->item[i];

		if (p->code)
			log_info("plugin '%s' cannot be used: %s", p->path, p->reason);
		else if (p->unprobed)
			log_debug("plugin '%s' is open and not probed: priority %d, set by %s",
				  p->path, p->priority, p->priority_source);
		else
			log_debug("plugin '%s' can be used: priority %d, set by %s", p->path,
				  p->priority, p->priority_source);
	}
}

const char *plugin_idle(const struct plugin_list *list, const struct plugin *plugin)
{
	if (list->uses_cuda || !plugin_is_loaded(plugin) || plugin->backend.memory & COLL_MEM_HOST)
		return NULL;
	return "it takes device memory only, and this process has neither initialised CUDA nor "
	       "named a device: name the backend with COLL_BACKEND";
}

/* Probing may initialise CUDA, so the core does not probe an idle plugin. */
static void plugin_ask(const struct plugin_search *search, struct plugin *plugin)
{
	const char *idle = plugin_idle(search->list, plugin);
	const int named = filter_wants(search->config, plugin->name) != PLUGIN_BY_PRIORITY;

	if (plugin->code)
		return;
	if (idle && !(search->how & PLUGINS_IDLE) && !named)
		plugin_refuse(plugin, COLL_ERR_UNSUPPORTED, "%s", idle);
	else if (search->how & PLUGINS_UNPROBED && !named)
		plugin->unprobed = plugin->backend.probe != NULL;
	else
		plugin_probe(plugin, search->config);
}

/* -------------------------------------------------------------------- opening -- */

void plugin_load(struct plugin_search *search, struct plugin *plugin)
{
	struct trust trust;

	if (plugin_check_safe(search, plugin, &trust))
		return;
	if (search->how & PLUGINS_IN_CHILDREN)
		plugin_survey(plugin, &trust, search->config);
	else
		plugin_open(plugin, &trust);
}

static void plugin_rule_out(struct plugin *plugin, const struct config *config, const char *left)
{
	plugin_refuse(plugin, COLL_ERR_CONFIG, "it was not %s, since %s rules it out", left,
		      config_source(config, "backend"));
	plugin->unwanted = 1;
}

/* Withdraws plugin_rule_out. */
static void plugin_want(struct plugin *plugin)
{
	plugin->unwanted = 0;
	plugin->code = COLL_SUCCESS;
	plugin->reason[0] = '\0';
}

/* Has an open plugin no transport, so that it needs a companion? */
static int plugin_needs_companion(const struct plugin_list *list)
{
	int needs = 0;

	for (int i = 0; i < list->count; i++)
		needs |= plugin_is_loaded(&list->item[i]) && !list->item[i].backend.transport;
	return needs;
}

/* Opens the companion of a backend, also if a list of backends lacks the companion; plugins_probe probes it later. */
static void plugin_open_companion(struct plugin_search *search)
{
	const char *name = config_string(search->config, "companion");
	struct plugin *plugin = plugins_find(search->list, name);

	if (!plugin || !plugin->unwanted || !plugin_needs_companion(search->list) ||
	    filter_wants(search->config, name) == PLUGIN_EXCLUDED)
		return;
	plugin_want(plugin);
	plugin_load(search, plugin);
	if (!plugin->code)
		plugin_rule_out(plugin, search->config, "probed");
}

static void plugin_open_all(struct plugin_search *search)
{
	for (int i = 0; i < search->list->count; i++) {
		struct plugin *plugin = &search->list->item[i];

		if (plugin->code)
			continue;
		if (search->how & PLUGINS_ALLOWED &&
		    filter_wants(search->config, plugin->name) > PLUGIN_RULED_OUT)
			plugin_load(search, plugin);
		else
			plugin_rule_out(plugin, search->config, "opened");
	}
	plugin_open_companion(search);
}

static void plugin_secure_all(struct plugin_list *list, const struct config *config, int one_host)
{
	for (int i = 0; i < list->count; i++)
		plugin_secure(&list->item[i], config, one_host);
}

static void plugin_order(struct plugin_list *list, struct config *config, int one_host)
{
	for (int i = 0; i < list->count; i++)
		plugin_set_priority(&list->item[i], config, one_host && !list->uses_cuda);
	if (list->count)
		qsort(list->item, (size_t)list->count, sizeof(*list->item), plugin_compare);
	for (int i = 0; i < list->count; i++)
		plugin_link_groups(&list->item[i]);
}

void plugins_place(struct plugin_list *list, struct config *config, int one_host)
{
	plugin_secure_all(list, config, one_host);
	plugin_order(list, config, one_host);
}

int plugins_load(struct config *config, int how, int uses_cuda, struct plugin_list **out)
{
	struct plugin_list *list = calloc(1, sizeof(*list));
	struct plugin_search search = {.config = config, .list = list, .how = how};
	struct error_first fault = {0};

	*out = NULL;
	if (list) {
		list->uses_cuda = uses_cuda;
		plugin_find_all(&search);
		plugin_open_all(&search);
		plugin_open_observers(&search);
	}
	if (!list || search.no_memory) {
		plugins_free(list);
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the list of plugins");
	}
	plugin_order(list, config, 0);
	error_note(&fault, plugin_declare_all(list, config));
	plugin_secure_all(list, config, 0);
	for (int i = 0; fault.code != COLL_ERR_NO_MEMORY && how && i < list->count; i++)
		plugin_ask(&search, &list->item[i]);
	plugin_log(list);
	*out = list;
	return error_raise(&fault);
}

static void plugin_free_items(struct plugin *item, int count)
{
	for (int i = 0; i < count; i++) {
		free(item[i].options);
		plugin_forget_survey(&item[i]);
	}
	free(item);
}

void plugins_free(struct plugin_list *list)
{
	if (!list)
		return;
	plugin_free_items(list->item, list->count);
	plugin_free_items(list->observer, list->observer_count);
	free(list->note);
	free(list);
}

void plugins_describe(struct plugin_list *list, const struct config *config)
{
	for (int i = 0; i < list->count; i++)
		plugin_ask_info(&list->item[i], config);
}

void plugins_open(struct plugin_list *list, struct config *config, const char *name)
{
	struct plugin_search search = {.config = config, .list = list};
	struct plugin *plugin = plugins_find(list, name);
	int code;

	if (!plugin || !plugin->unwanted || plugin_is_loaded(plugin))
		return;
	plugin_want(plugin);
	plugin_load(&search, plugin);
	plugin_link_groups(plugin);
	plugin_set_priority(plugin, config, 0);
	code = plugin_declare(plugin, config);
	if (code)
		plugin_refuse_error(plugin, code);
}

const struct plugin *plugins_probe(struct plugin_list *list, const struct config *config,
				   const char *name)
{
	struct plugin *plugin = plugins_find(list, name);

	if (plugin && plugin->unwanted && plugin_is_loaded(plugin))
		plugin_want(plugin);
	if (!plugin || plugin->code)
		return plugin;
	plugin_probe(plugin, config);
	if (plugin->unprobed && plugin->code)
		log_info("plugin '%s' cannot be used: %s", plugin->path, plugin->reason);
	plugin->unprobed = 0;
	return plugin;
}
