/* SPDX-License-Identifier: BSD-3-Clause */
/* load.c - opens one plugin file, if this process may trust the file and its ABI fits. */
#include "base/error.h"
#include "plugin/loader.h"
#include "base/log.h"
#include "plugin/plugin_impl.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { PLUGIN_MAJORS = 10 };

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

/* ---------------------------------------------------------------- permissions -- */

/*
 * Judges the path without links, by which the file is opened.  Then judges the path with the directory as its
 * option names it: another user's symbolic link there could lead to any directory.
 */
static int plugin_check_path(const struct plugin *plugin, struct trust *trust)
{
	const int code = trust_check(plugin->path, 1, trust);

	return code ? code : trust_check(plugin->written, 1, trust);
}

/* Nobody may run code that other users can change. */
static int plugin_check_safe(struct plugin_search *search, struct plugin *plugin,
			     struct trust *trust)
{
	const int code = plugin_check_path(plugin, trust);

	if (code)
		return plugin_refuse_error(plugin, code);
	if (trust->note[0] && !trust->by_group) {
		log_info("plugin '%s' is loaded because of COLL_TRUST: %s", plugin->path,
			 trust->note);
		plugin_note(search, "plugin '%.300s' is loaded because of COLL_TRUST: %.400s",
			    plugin->path, trust->note);
	}
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------------------ ABI -- */

/* Returns the ABI major that the file was built for, or -1. */
static int plugin_other_major(struct loader_file *file)
{
	char name[] = "coll_backend_v0", elsewhere[8];

	for (int major = 0; major < PLUGIN_MAJORS; major++) {
		name[sizeof(name) - 2] = (char)('0' + major);
		if (loader_symbol(file, name, elsewhere, sizeof(elsewhere)))
			return major;
	}
	return -1;
}

static int plugin_refuse_symbol(struct plugin *plugin, struct loader_file *file,
				const char *elsewhere)
{
	const int major = plugin_other_major(file);

	if (major >= 0)
		return plugin_refuse(
			plugin, COLL_ERR_ABI,
			"'%s' is built for backend ABI %d (it exports coll_backend_v%d), "
			"but libcoll %s speaks ABI %d (%s); build it with this "
			"libcoll's backend.h",
			plugin->path, major, major, coll_version_string(), COLL_BACKEND_ABI_MAJOR,
			COLL_BACKEND_SYMBOL);
	if (elsewhere[0])
		return plugin_refuse(plugin, COLL_ERR_ABI,
				     "'%s' does not export %s itself: the symbol that it leads "
				     "to belongs to '%s'",
				     plugin->path, COLL_BACKEND_SYMBOL, elsewhere);
	return plugin_refuse(plugin, COLL_ERR_ABI,
			     "'%s' does not export %s: it is no backend, or the constant lacks "
			     "COLL_BACKEND_EXPORT",
			     plugin->path, COLL_BACKEND_SYMBOL);
}

void plugin_open(struct plugin *plugin, const struct trust *trust)
{
	const coll_backend_t *table;
	struct loader_file *file;
	char elsewhere[512];
	int code, first;

	code = loader_open(plugin->path, &file, &first);
	if (code) {
		plugin_refuse_error(plugin, code);
		return;
	}
	if (first && trust->by_group)
		log_warn("plugin '%s' can be changed by a group: %s", plugin->path, trust->note);
	table = loader_symbol(file, COLL_BACKEND_SYMBOL, elsewhere, sizeof(elsewhere));
	if (table)
		plugin_take(plugin, table);
	else
		plugin_refuse_symbol(plugin, file, elsewhere);
}

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
