/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * sources.c - reads values from files, environment and application, in rising precedence; the application's
 * struct, of any version's size.
 */
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

const char *const config_reserved[] = {
	"COLL_RANK", "COLL_WORLD_SIZE", "COLL_ROOT",   "COLL_LOCAL_RANK", "COLL_LOCAL_WORLD_SIZE",
	"COLL_RUN",  "COLL_KEY",        "COLL_CONFIG", "COLL_SYSCONFDIR", "COLL_INFO_PROBE",
	"COLL_ISA",  "COLL_TRUST",      NULL};

/* A variable's value, or NULL if it is unset, empty or not to be trusted (a set-uid program). */
static const char *config_env(const char *name)
{
	const char *value = secure_getenv(name);

	return value && value[0] ? value : NULL;
}

/* ------------------------------------------------------------------- files -- */

static int config_is_file_name(const struct dirent *entry)
{
	const size_t len = strlen(entry->d_name);

	return entry->d_name[0] != '.' && len > 5 && strcmp(entry->d_name + len - 5, ".conf") == 0;
}

/* Compares bytes, so that the order is the same in every locale. */
static int config_by_name(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Reads the file at path, and frees path.  path is NULL if its caller found no memory. */
static void config_read_path(struct config *config, char *path, int needed)
{
	if (path)
		config_read_file(config, path, needed);
	free(path);
}

static void config_read_directory(struct config *config, const char *dir)
{
	struct dirent **entry;
	int n = scandir(dir, &entry, config_is_file_name, config_by_name);

	if (n < 0 && errno != ENOENT)
		config_report(config, COLL_ERR_CONFIG, "%s: cannot read the directory: %s", dir,
			      strerror(errno));
	for (int i = 0; i < n; i++) {
		config_read_path(config, config_text(config, "%s/%s", dir, entry[i]->d_name), 1);
		free(entry[i]);
	}
	if (n >= 0)
		free(entry);
}

static void config_collect_system(struct config *config)
{
	const char *dir = config_env("COLL_SYSCONFDIR");
	char *path;

	dir = dir ? dir : COLL_SYSCONFDIR;
	config_read_path(config, config_text(config, "%s/coll.conf", dir), 0);
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

	/* The XDG base directory specification demands that relative paths are ignored. */
	if (named)
		config_read_file(config, named, 1);
	else if (xdg && xdg[0] == '/')
		config_read_path(config, config_text(config, "%s/coll/coll.conf", xdg), 0);
	else if (home && home[0] == '/')
		config_read_path(config, config_text(config, "%s/.config/coll/coll.conf", home), 0);
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
	if (getauxval(AT_SECURE) || !environ)
		return;
	for (char **at = environ; *at; at++) {
		const char *equals = strchr(*at, '=');
		char *name;

		if (strncmp(*at, "COLL_", 5) != 0 || !equals)
			continue;
		name = config_text(config, "%.*s", (int)(equals - *at), *at);
		if (name && !config_is_reserved(name))
			config_add_value(config, SOURCE_ENVIRONMENT, name, equals + 1,
					 config_text(config, "%s", name));
		else
			free(name);
	}
}

/* ------------------------------------------------------------- application -- */

/* The size of every version's struct is a multiple of 8 bytes, and at most this. */
enum { CONFIG_APP_SMALLEST = 16, CONFIG_APP_LARGEST = 4096 };

static int config_app_size_ok(uint64_t size)
{
	return size >= CONFIG_APP_SMALLEST && size <= CONFIG_APP_LARGEST && size % 8 == 0;
}

static coll_config_t config_app_blank(void)
{
	coll_config_t blank = {
		.size = sizeof(blank), .timeout_ms = -1, .init_timeout_ms = -1, .device = -1};

	return blank;
}

coll_result_t coll_config_init(coll_config_t *config, size_t size)
{
	const coll_config_t blank = config_app_blank();

	if (!config)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "coll_config_init: config is NULL");
	if (!config_app_size_ok(size))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "coll_config_init: size is %zu, expected sizeof(coll_config_t), "
				 "which is %zu here",
				 size, sizeof(blank));
	memset(config, 0, size);
	memcpy(config, &blank, size < sizeof(blank) ? size : sizeof(blank));
	config->size = size;
	return COLL_SUCCESS;
}

int config_app(const coll_config_t *in, coll_config_t *out)
{
	*out = config_app_blank();
	if (!in)
		return COLL_SUCCESS;
	if (!config_app_size_ok(in->size))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "the coll_config_t has the size %" PRIu64
				 ": call coll_config_init(&config, sizeof(config)) before its "
				 "fields are set",
				 in->size);
	memcpy(out, in, in->size < sizeof(*out) ? in->size : sizeof(*out));
	out->size = sizeof(*out);
	if (out->reserved == 0)
		return COLL_SUCCESS;
	*out = config_app_blank();
	return error_set(COLL_ERR_INVALID_ARGUMENT,
			 "`reserved` of the coll_config_t is not 0: call coll_config_init first");
}

/* len: the length of the name. */
static void config_add_app(struct config *config, const char *name, size_t len, const char *text)
{
	config_add_value(config, SOURCE_APPLICATION, config_text(config, "%.*s", (int)len, name),
			 text, config_text(config, "application"));
}

static void config_app_string(struct config *config, const char *name, const char *text)
{
	if (text)
		config_add_app(config, name, strlen(name), text);
}

static void config_app_timeout(struct config *config, const char *name, int64_t ms)
{
	const int64_t longest = INT64_C(1000) * CONFIG_LONGEST_SECONDS;
	char text[32];

	if (ms == -1)
		return;
	snprintf(text, sizeof(text), "%" PRId64 "ms", ms);
	if (ms >= 1 && ms <= longest)
		config_app_string(config, name, text);
	else
		config_report(config, COLL_ERR_CONFIG,
			      "coll_config_t.%s_ms is %" PRId64 ": expected 1 to %" PRId64
			      " milliseconds, or -1 for the value of the option '%s'",
			      name, ms, longest, name);
}

/* Adds the value in a text of the application, "key=value" or "backend.key=value". */
static void config_app_option(struct config *config, const char *text)
{
	const char *equals = strchr(text, '='), *end = equals;

	text += strspn(text, " \t");
	while (end && end > text && (end[-1] == ' ' || end[-1] == '\t'))
		end--;
	if (end && end > text)
		config_add_app(config, text, (size_t)(end - text), equals + 1);
	else
		config_report(config, COLL_ERR_CONFIG,
			      "application option '%s': expected 'key=value' or "
			      "'backend.key=value'",
			      config_show(text).text);
}

static void config_collect_app(struct config *config, const coll_config_t *app)
{
	config_app_string(config, "backend", app->backend);
	config_app_string(config, "plugin_path", app->plugin_path);
	config_app_string(config, "interface", app->interface_name);
	config_app_timeout(config, "timeout", app->timeout_ms);
	config_app_timeout(config, "init_timeout", app->init_timeout_ms);
	for (const char *const *option = app->options; option && *option; option++)
		config_app_option(config, *option);
}

void config_collect(struct config *config, const coll_config_t *app)
{
	coll_config_t known;
	const int code = config_app(app, &known);

	if (code)
		config_report(config, code, "%s", error_text());
	config_collect_system(config);
	config_collect_user(config, &known);
	config_collect_env(config);
	config_collect_app(config, &known);
}
