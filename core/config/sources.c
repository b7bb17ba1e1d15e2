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

const char *const conf_reserved[] = {"COLL_RANK",       "COLL_WORLD_SIZE", "COLL_ROOT",
				     "COLL_LOCAL_RANK", "COLL_KEY",        "COLL_CONFIG",
				     "COLL_SYSCONFDIR", "COLL_ISA",        NULL};

/* A variable's value, or NULL if it is unset, empty or not to be trusted (a set-uid program). */
static const char *conf_env(const char *name)
{
	const char *value = secure_getenv(name);

	return value && value[0] ? value : NULL;
}

/* ------------------------------------------------------------------- files -- */

static int conf_is_conf(const struct dirent *entry)
{
	const size_t len = strlen(entry->d_name);

	return entry->d_name[0] != '.' && len > 5 && strcmp(entry->d_name + len - 5, ".conf") == 0;
}

/* By bytes, so that the order is the same in every locale. */
static int conf_by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

static void conf_read_directory(struct conf *conf, const char *dir)
{
	struct dirent **entry;
	char *path;
	int i, n = scandir(dir, &entry, conf_is_conf, conf_by_name);

	if (n < 0) {
		if (errno != ENOENT)
			conf_add_fault(conf, COLL_ERR_CONFIG, "%s: cannot read the directory: %s",
				       dir, strerror(errno));
		return;
	}
	for (i = 0; i < n; i++) {
		path = conf_text(conf, "%s/%s", dir, entry[i]->d_name);
		if (path)
			conf_read_file(conf, path, 1);
		free(path);
		free(entry[i]);
	}
	free(entry);
}

static void conf_collect_system(struct conf *conf)
{
	const char *dir = conf_env("COLL_SYSCONFDIR");
	char *path;

	dir = dir ? dir : COLL_SYSCONFDIR;
	path = conf_text(conf, "%s/coll.conf", dir);
	if (path)
		conf_read_file(conf, path, 0);
	free(path);
	path = conf_text(conf, "%s/coll.conf.d", dir);
	if (path)
		conf_read_directory(conf, path);
	free(path);
}

static void conf_collect_user(struct conf *conf, const coll_config_t *app)
{
	const char *named = app->config_file && app->config_file[0] ? app->config_file
								    : conf_env("COLL_CONFIG");
	const char *xdg = conf_env("XDG_CONFIG_HOME"), *home = conf_env("HOME");
	char *path = NULL;

	if (named) {
		conf_read_file(conf, named, 1);
		return;
	}
	/* The XDG base directory specification: relative paths are to be ignored. */
	if (xdg && xdg[0] == '/')
		path = conf_text(conf, "%s/coll/coll.conf", xdg);
	else if (home && home[0] == '/')
		path = conf_text(conf, "%s/.config/coll/coll.conf", home);
	if (path)
		conf_read_file(conf, path, 0);
	free(path);
}

/* ------------------------------------------------------------- environment -- */

static int conf_is_reserved(const char *name)
{
	int i;

	if (strncmp(name, "COLL_RUN_", 9) == 0)
		return 1;
	for (i = 0; conf_reserved[i]; i++)
		if (strcmp(name, conf_reserved[i]) == 0)
			return 1;
	return 0;
}

static void conf_collect_env(struct conf *conf)
{
	const char *equals;
	char *name, **at;

	if (getauxval(AT_SECURE) || !environ)
		return;
	conf->origins++;
	for (at = environ; *at; at++) {
		equals = strchr(*at, '=');
		if (strncmp(*at, "COLL_", 5) != 0 || !equals)
			continue;
		name = conf_text(conf, "%.*s", (int)(equals - *at), *at);
		if (name && !conf_is_reserved(name))
			conf_add_raw(conf, RAW_ENV, "", name, equals + 1,
				     conf_text(conf, "%s", name));
		free(name);
	}
}

/* ------------------------------------------------------------- application -- */

static void conf_app_string(struct conf *conf, const char *key, const char *value)
{
	if (value)
		conf_add_raw(conf, RAW_APP, "", key, value, conf_text(conf, "application"));
}

static void conf_app_timeout(struct conf *conf, const char *key, int64_t ms)
{
	char text[32];

	if (ms == -1)
		return;
	snprintf(text, sizeof(text), "%" PRId64 "ms", ms);
	conf_add_raw(conf, RAW_APP, "", key, text, conf_text(conf, "application"));
}

/* "key=value" or "backend.key=value". */
static void conf_app_option(struct conf *conf, const char *text)
{
	const char *equals = strchr(text, '='), *end = equals;
	char *key;

	text += strspn(text, " \t");
	while (end && end > text && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	if (!end || end <= text) {
		conf_add_fault(conf, COLL_ERR_CONFIG,
			       "application option '%s': expected 'key=value' or "
			       "'backend.key=value'",
			       conf_show(text).text);
		return;
	}
	key = conf_text(conf, "%.*s", (int)(end - text), text);
	if (key)
		conf_add_raw(conf, RAW_APP, "", key, equals + 1, conf_text(conf, "application"));
	free(key);
}

static void conf_collect_app(struct conf *conf, const coll_config_t *app)
{
	const char *const *option;

	conf->origins++;
	conf_app_string(conf, "backend", app->backend);
	conf_app_string(conf, "plugin_path", app->plugin_path);
	conf_app_string(conf, "interface", app->interface_name);
	conf_app_timeout(conf, "timeout", app->timeout_ms);
	conf_app_timeout(conf, "init_timeout", app->init_timeout_ms);
	for (option = app->options; option && *option; option++)
		conf_app_option(conf, *option);
}

void conf_collect(struct conf *conf, const coll_config_t *app)
{
	coll_config_t known;
	const int code = conf_app(app, &known);

	if (code)
		conf_add_fault(conf, code, "%s", error_text());
	conf_collect_system(conf);
	conf_collect_user(conf, &known);
	conf_collect_env(conf);
	conf_collect_app(conf, &known);
}
