/* SPDX-License-Identifier: BSD-3-Clause */
/* plugin_impl.h - shared by find.c, load.c, validate.c, probe.c and plugin.c. */
#ifndef CORE_PLUGIN_PLUGIN_IMPL_H
#define CORE_PLUGIN_PLUGIN_IMPL_H

#include "base/trust.h"
#include "plugin/plugin.h"

/* A list of plugins while it is made. */
struct plugin_search {
	struct config *config;
	struct plugin_list *list;
	int in_children; /* opens and probes each plugin in a child process */
	int no_memory;
};

/* ---- find.c */

/* Searches all directories: appends an item for each candidate file, and notes about the directories. */
void plugin_find_all(struct plugin_search *search);
/* Appends a note for coll_info. */
void plugin_note(struct plugin_search *search, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

/* ---- load.c */

/* Opens plugin->path, if this process may trust the file, and takes the table over; or refuses the plugin. */
void plugin_load(struct plugin_search *search, struct plugin *plugin);
/* The same without a look at the path, which is trusted for that reason. */
void plugin_open(struct plugin *plugin, const struct trust *trust);

/* Marks the plugin as refused; returns code. */
int plugin_refuse(struct plugin *plugin, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Marks the plugin as refused with error_text() as the message. */
int plugin_refuse_error(struct plugin *plugin, int code);

/* ---- validate.c */

/* Is the name of the form [a-z][a-z0-9_]*, with at most 31 bytes? */
int plugin_name_ok(const char *name);
/*
 * Copies the exported table into the core's own structs and checks it.  plugin->name is the name in the
 * file's name.
 */
int plugin_take(struct plugin *plugin, const coll_backend_t *table);

/* ---- probe.c */

/* Calls the probe of the plugin; the result goes to code and reason. */
void plugin_probe(struct plugin *plugin, const struct config *config);
/* Calls the plugin's `info` for the line that describes it. */
void plugin_ask_info(struct plugin *plugin, const struct config *config);

/* ---- survey.c */

/* The same as plugin_open, plugin_probe and plugin_ask_info, in a child process. */
void plugin_survey(struct plugin *plugin, const struct trust *trust, struct config *config);

/* ---- select_security.c */

/* Sets plugin->unsafe.  one_host: all ranks run on one host, whose connections count as safe. */
void plugin_secure(struct plugin *plugin, const struct config *config, int one_host);

#endif
