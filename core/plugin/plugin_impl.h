/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_impl.h - shared by find.c, load.c, validate.c, probe.c and plugin.c. */
#ifndef CORE_PLUGIN_PLUGIN_IMPL_H
#define CORE_PLUGIN_PLUGIN_IMPL_H

#include "plugin/plugin.h"

/* A list being made. */
struct plugin_search {
	struct config *config;
	struct plugin_list *list;
	int no_memory;
};

/* ---- find.c */

/* Looks through all directories: an item for every candidate, notes about the directories. */
void plugin_find_all(struct plugin_search *search);

/* ---- load.c */

/* Opens plugin->path and takes its table over, or refuses it. */
void plugin_load(struct plugin *plugin);

/* Marks it as refused; returns code. */
int plugin_refuse(struct plugin *plugin, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* The same with error_text(). */
int plugin_refuse_error(struct plugin *plugin, int code);

/* ---- validate.c */

/* [a-z][a-z0-9_]*, at most 31 bytes. */
int plugin_name_ok(const char *name);
/*
 * Copies what the plugin exports into the core's own structs and checks it; plugin->name is
 * the name in the file's name.
 */
int plugin_take(struct plugin *plugin, const coll_backend_t *table);

/* ---- probe.c */

/* Asks the plugin whether it can be used; the answer goes to code and reason. */
void plugin_probe(struct plugin *plugin, const struct config *config);
/* Asks the plugin for the line that describes it. */
void plugin_ask_info(struct plugin *plugin, const struct config *config);

#endif
