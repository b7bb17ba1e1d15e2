/* SPDX-License-Identifier: BSD-3-Clause */
/* sources.c - where values come from: files, environment, application, in rising precedence. */
#include "config/config_impl.h"
#include "base/error.h"

#include <dirent.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/auxv.h>
#include <unistd.h>

const char *const config_reserved[] = {"COLL_RANK",       "COLL_WORLD_SIZE", "COLL_ROOT",
				       "COLL_LOCAL_RANK", "COLL_KEY",        "COLL_CONFIG",
				       "COLL_SYSCONFDIR", "COLL_ISA",        NULL};

/* A variable's value, or NULL if it is unset, empty or not to be trusted (a set-uid program). */
static const char *config_env(const char *name)
{
	const char *value = secure_getenv(name);

	return value && value[0] ? value : NULL;
}

/* ------------------------------------------------------------------- files -- */

static int config_is_conf(const struct dirent *entry)
{
	const size_t len = strlen(entry->d_name);

	return entry->d_name[0] != '.' && len > 5 && strcmp(entry->d_name + len - 5, ".conf") == 0;
}

/* By bytes, so that the order is the same in every locale. */
static int config_by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void config_read_directory(struct config *config, const char *dir)
{
	struct dirent **entry;
	char *path;
	int i, n = scandir(dir, &entry, config_is_conf, config_by_name);

	if (n < 0) {
		if (errno != ENOENT)
			config_add_fault(config, COLL_ERR_CONFIG,
					 "%s: cannot read the directory: %s", dir, strerror(errno));
		return;
	}
	for (i = 0; i < n; i++) {
		path = config_text(config, "%s/%s", dir, entry[i]->d_name);
		if (path)
			config_read_file(config, path, 1);
		free(path);
		free(entry[i]);
	}
	free(entry);
}

static void config_collect_system(struct config *config)
{
	const char *dir = config_env("COLL_SYSCONFDIR");
	char *path;

	dir = dir ? dir : COLL_SYSCONFDIR;
	path = config_text(config, "%s/coll.conf", dir);
	if (path)
		config_read_file(config, path, 0);
	free(path);
	path = config_text(config, "%s/coll.conf.d", dir);
	if (path)
		config_read_directory(config, path);
	free(path);
}

static void config_collect_user(struct config *config, const coll_config_t *app)
{
	const char *named = app->config_file && app->config_file[0] ? app->config_file
								    : config_env("COLL_CONFIG");
	const char *xdg = config_env("XDG_CONFIG_HOME"), *home = config_env("HOME");
	char *path = NULL;

	if (named) {
		config_read_file(config, named, 1);
		return;
	}
	/* The XDG base directory specification: relative paths are to be ignored. */
	if (xdg && xdg[0] == '/')
		path = config_text(config, "%s/coll/coll.conf", xdg);
	else if (home && home[0] == '/')
		path = config_text(config, "%s/.config/coll/coll.conf", home);
	if (path)
		config_read_file(config, path, 0);
	free(path);
}

/* ------------------------------------------------------------- environment -- */

static int config_is_reserved(const char *name)
{
	int i;

	if (strncmp(name, "COLL_RUN_", 9) == 0)
		return 1;
	for (i = 0; config_reserved[i]; i++)
		if (strcmp(name, config_reserved[i]) == 0)
			return 1;
	return 0;
}

static void config_collect_env(struct config *config)
{
	const char *equals;
	char *name, **at;

	if (getauxval(AT_SECURE) || !environ)
		return;
	config->origins++;
	for (at = environ; *at; at++) {
		equals = strchr(*at, '=');
		if (strncmp(*at, "COLL_", 5) != 0 || !equals)
			continue;
		name = config_text(config, "%.*s", (int)(equals - *at), *at);
		if (name && !config_is_reserved(name))
			config_add_raw(config, RAW_ENV, "", name, equals + 1,
				       config_text(config, "%s", name));
		free(name);
	}
}

/* ------------------------------------------------------------- application -- */

static void config_app_string(struct config *config, const char *key, const char *value)
{
	if (value)
		config_add_raw(config, RAW_APP, "", key, value, config_text(config, "application"));
}

static void config_app_timeout(struct config *config, const char *key, int64_t ms)
{
	char text[32];

	if (ms == -1)
		return;
	snprintf(text, sizeof(text), "%" PRId64 "ms", ms);
	config_add_raw(config, RAW_APP, "", key, text, config_text(config, "application"));
}

/* "key=value" or "backend.key=value". */
static void config_app_option(struct config *config, const char *text)
{
	const char *equals = strchr(text, '='), *end = equals;
	char *key;

	text += strspn(text, " \t");
	while (end && end > text && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	if (!end || end <= text) {
		config_add_fault(config, COLL_ERR_CONFIG,
				 "application option '%s': expected 'key=value' or "
				 "'backend.key=value'",
				 config_show(text).text);
		return;
	}
	key = config_text(config, "%.*s", (int)(end - text), text);
	if (key)
		config_add_raw(config, RAW_APP, "", key, equals + 1,
			       config_text(config, "application"));
	free(key);
}

static void config_collect_app(struct config *config, const coll_config_t *app)
{
	const char *const *option;

	config->origins++;
	config_app_string(config, "backend", app->backend);
	config_app_string(config, "plugin_path", app->plugin_path);
	config_app_string(config, "interface", app->interface_name);
	config_app_timeout(config, "timeout", app->timeout_ms);
	config_app_timeout(config, "init_timeout", app->init_timeout_ms);
	for (option = app->options; option && *option; option++)
		config_app_option(config, *option);
}

void config_collect(struct config *config, const coll_config_t *app)
{
	coll_config_t known;
	const int code = config_app(app, &known);

	if (code)
		config_add_fault(config, code, "%s", error_text());
	config_collect_system(config);
	config_collect_user(config, &known);
	config_collect_env(config);
	config_collect_app(config, &known);
}
