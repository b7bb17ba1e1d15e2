/* SPDX-License-Identifier: BSD-3-Clause */
/* load.c - opens one plugin file, if this process may trust the file and its ABI fits. */
#include "base/error.h"
#include "plugin/loader.h"
#include "base/log.h"
#include "plugin/plugin_impl.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

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

/* A file or directory, with the users that may change it. */
struct plugin_exposed {
	char subject[4200]; /* "the file '/x/coll_tcp.so'" */
	unsigned mode;      /* 0: the file does not exist */
};

static void plugin_look(struct plugin_exposed *exposed, const char *kind, const char *path)
{
	struct stat st;

	if (exposed->mode || stat(path, &st) || !(st.st_mode & (S_IWGRP | S_IWOTH)))
		return;
	exposed->mode = st.st_mode & 07777;
	snprintf(exposed->subject, sizeof(exposed->subject), "the %s '%s'", kind, path);
}

/* Looks at the file and at the directory it is in. */
static void plugin_look_at(struct plugin_exposed *exposed, const char *path)
{
	const char *slash = strrchr(path, '/');
	char dir[4096];

	exposed->mode = 0;
	plugin_look(exposed, "file", path);
	snprintf(dir, sizeof(dir), "%.*s", slash > path ? (int)(slash - path) : 1, path);
	plugin_look(exposed, "directory", dir);
}

/* Root and set-uid programs must not run code that other users can change. */
static int plugin_check_safe(struct plugin *plugin)
{
	struct plugin_exposed exposed;

	if (geteuid() != 0 && !getauxval(AT_SECURE))
		return COLL_SUCCESS;
	plugin_look_at(&exposed, plugin->path);
	if (!exposed.mode)
		return COLL_SUCCESS;
	return plugin_refuse(plugin, COLL_ERR_PERMISSION,
			     "refused for safety: this process is privileged and others may write "
			     "to %.600s (mode %04o); chmod go-w it",
			     exposed.subject, exposed.mode);
}

static void plugin_warn_exposed(const char *path)
{
	struct plugin_exposed exposed;

	plugin_look_at(&exposed, path);
	if (exposed.mode)
		log_warn("plugin '%s' can be changed by others: they may write to %s (mode %04o)",
			 path, exposed.subject, exposed.mode);
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

void plugin_load(struct plugin *plugin)
{
	const coll_backend_t *table;
	struct loader_file *file;
	char elsewhere[512];
	int code, first;

	if (plugin_check_safe(plugin))
		return;
	code = loader_open(plugin->path, &file, &first);
	if (code) {
		plugin_refuse_error(plugin, code);
		return;
	}
	if (first)
		plugin_warn_exposed(plugin->path);
	table = loader_symbol(file, COLL_BACKEND_SYMBOL, elsewhere, sizeof(elsewhere));
	if (table)
		plugin_take(plugin, table);
	else
		plugin_refuse_symbol(plugin, file, elsewhere);
}
