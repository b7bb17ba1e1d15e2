/* SPDX-License-Identifier: BSD-3-Clause */
/* find.c - the directories that are searched for plugins, and the candidate files in them. */
#include "plugin/loader.h"
#include "plugin/plugin_impl.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>

static const char plugin_suffix[] = ".so";

/* ---------------------------------------------------------------- candidates -- */

/* Is the file called <prefix><something>.so? */
static int plugin_is_of_kind(const char *file, const struct plugin_kind *kind)
{
	const size_t n = strlen(file), prefix = strlen(kind->prefix);

	return n > prefix + sizeof(plugin_suffix) - 1 && !strncmp(file, kind->prefix, prefix) &&
	       !strcmp(file + n - (sizeof(plugin_suffix) - 1), plugin_suffix);
}

/* Accepts coll_<something>.so and observer_<something>.so, but not README, coll_tcp.so~ or coll_tcp.la. */
static int plugin_is_candidate(const struct dirent *entry)
{
	return plugin_is_of_kind(entry->d_name, &plugin_backends) ||
	       plugin_is_of_kind(entry->d_name, &plugin_observers);
}

/* Compares bytes, so that the order is the same in every locale. */
static int plugin_by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void plugin_set_name(struct plugin *plugin, const char *file)
{
	char name[sizeof(plugin->name) + 1]; /* a name with so many bytes is no valid one */

	file += strlen(plugin->kind->prefix);
	snprintf(name, sizeof(name), "%.*s", (int)(strlen(file) - (sizeof(plugin_suffix) - 1)),
		 file);
	if (plugin_name_ok(name))
		memcpy(plugin->name, name, sizeof(plugin->name));
}

struct plugin *plugin_new_item(struct plugin_search *search, const struct plugin_kind *kind)
{
	const int observes = kind == &plugin_observers;
	struct plugin **items = observes ? &search->list->observer : &search->list->item;
	const int count = observes ? search->list->observer_count : search->list->count;
	struct plugin *more = realloc(*items, ((size_t)count + 1) * sizeof(**items));

	if (!more) {
		search->no_memory = 1;
		return NULL;
	}
	*items = more;
	more[count] = (struct plugin){.kind = kind, .found = count};
	return &more[count];
}

/* Refuses a file that cannot be a plugin, or not the first of its name. */
static void plugin_evaluate(const struct plugin_search *search, struct plugin *plugin, int error)
{
	const struct plugin *earlier = plugin->kind == &plugin_observers
					       ? plugins_find_observer(search->list, plugin->name)
					       : plugins_find(search->list, plugin->name);

	if (error)
		plugin_refuse(plugin, COLL_ERR_PLUGIN, "cannot load '%s': %s", plugin->path,
			      strerror(error));
	else if (!plugin->name[0])
		plugin_refuse(plugin, COLL_ERR_PLUGIN,
			      "'%s': %s is called %s<name>.so, the name made of a-z, 0-9 "
			      "and '_', beginning with a letter, at most 31 bytes",
			      plugin->path, plugin->kind->file_noun, plugin->kind->prefix);
	else if (earlier)
		plugin_refuse(plugin, COLL_ERR_PLUGIN,
			      "'%s' is not used: '%s' has the same name and its directory comes "
			      "first",
			      plugin->path, earlier->path);
}

/* Writes the path of a file.  Returns 0, or ENAMETOOLONG. */
static int plugin_join(char path[4096], const char *dir, const char *file)
{
	return snprintf(path, 4096, "%s/%s", dir, file) < 4096 ? 0 : ENAMETOOLONG;
}

/*
 * Returns 1 if the file is a candidate: not a directory or another special file.  written: the directory as its
 * option names it.
 */
static int plugin_try(struct plugin_search *search, const char *dir, const char *written,
		      const char *file)
{
	const int observes = plugin_is_of_kind(file, &plugin_observers);
	struct plugin *plugin =
		plugin_new_item(search, observes ? &plugin_observers : &plugin_backends);
	struct stat st;
	int error;

	if (!plugin)
		return 0;
	error = plugin_join(plugin->path, dir, file);
	if (!error)
		error = plugin_join(plugin->written, written, file);
	if (!error && stat(plugin->path, &st))
		error = errno;
	if (!error && !S_ISREG(st.st_mode))
		return 0;
	plugin_set_name(plugin, file);
	plugin_evaluate(search, plugin, error);
	*(observes ? &search->list->observer_count : &search->list->count) += 1;
	return 1;
}

/* --------------------------------------------------------------- directories -- */

/* Are this directory's files in the list already? */
static int plugin_is_searched(const struct plugin *item, int count, const char *dir)
{
	const size_t n = strlen(dir);

	for (int i = 0; i < count; i++) {
		const char *path = item[i].path;

		if (!strncmp(path, dir, n) && path[n] == '/' && !strchr(path + n + 1, '/'))
			return 1;
	}
	return 0;
}

/* by: the option or variable that named the directory. */
static void plugin_search_dir(struct plugin_search *search, const char *dir, const char *by)
{
	char *real = realpath(dir, NULL);
	const struct plugin_list *list = search->list;
	struct dirent **entry = NULL;
	int n = real ? scandir(real, &entry, plugin_is_candidate, plugin_by_bytes) : -1, found = 0;
	const int observers = list->observer_count;

	if (n < 0) {
		search->no_memory |= errno == ENOMEM;
		plugin_note(search, "plugin directory '%.400s' (%.200s) cannot be read: %s", dir,
			    by, strerror(errno));
	} else if (!plugin_is_searched(list->item, list->count, real) &&
		   !plugin_is_searched(list->observer, list->observer_count, real)) {
		for (int i = 0; i < n; i++)
			found += plugin_try(search, real, dir, entry[i]->d_name);
		found -= list->observer_count - observers;
		plugin_note(search, "plugin directory '%.400s' (%.200s): %d plugin%s", real, by,
			    found, found == 1 ? "" : "s");
	}
	while (n > 0)
		free(entry[--n]);
	free(entry);
	free(real);
}

static void plugin_search_path(struct plugin_search *search, const char *path, const char *by)
{
	char *copy = strdup(path), *rest = copy, *dir;
	int named = 0;

	if (!copy)
		search->no_memory = 1;
	while ((dir = strsep(&rest, ":")) != NULL) {
		named |= dir[0];
		if (dir[0] == '/' || (dir[0] && !getauxval(AT_SECURE)))
			plugin_search_dir(search, dir, by);
		else if (dir[0])
			plugin_note(search,
				    "plugin directory '%.400s' (%.200s) is not searched: a set-uid "
				    "program takes absolute paths only",
				    dir, by);
	}
	if (copy && !named)
		plugin_note(search, "plugin_path '%.400s' (%.200s) names no directory", path, by);
	free(copy);
}

/* Is the running libcoll in libtool's directory of libraries that are not installed yet? */
static int plugin_in_build_tree(char *home, size_t size)
{
	const char *slash;

	loader_home(home, size);
	slash = strrchr(home, '/');
	return slash && !strcmp(slash, "/.libs");
}

void plugin_find_all(struct plugin_search *search)
{
	const char *path = config_string(search->config, "plugin_path");
	char home[4096];

	if (path && path[0])
		plugin_search_path(search, path, config_source(search->config, "plugin_path"));
	else if (plugin_in_build_tree(home, sizeof(home)))
		plugin_search_dir(search, home, "build tree");
	else
		plugin_search_dir(search, COLL_PLUGINDIR, "built-in");
}
