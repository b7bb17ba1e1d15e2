/* SPDX-License-Identifier: BSD-3-Clause */
/* config_dir.h - a directory with configuration files, for the tests of core/config. */
#ifndef TESTS_CONF_DIR_H
#define TESTS_CONF_DIR_H

#include "algorithm/rules.h"
#include "config/config_impl.h"
#include "base/error.h"

#include <sys/stat.h>
#include <unistd.h>

#include "../lib/tap.h"

static char dir[64];

static const char *at(const char *name)
{
	static char path[4][256];
	static int i;

	i = (i + 1) % 4;
	snprintf(path[i], sizeof(path[i]), "%s/%s", dir, name);
	return path[i];
}

static void put_bytes(const char *name, const char *text, size_t len)
{
	FILE *f = fopen(at(name), "w");

	if (!f || fwrite(text, 1, len, f) != len || fclose(f))
		bail_out("cannot write %s", at(name));
}

__attribute__((unused)) static void put(const char *name, const char *text)
{
	put_bytes(name, text, strlen(text));
}

static void make_dir(const char *name)
{
	if (mkdir(at(name), 0755))
		bail_out("cannot make %s", at(name));
}

/* Loads the configuration and expects a code. */
static struct config *load(const coll_config_t *app, int want, const char *what)
{
	struct config *config;

	is_int(config_load(app, rules_check_option, &config), want, "%s", what);
	if (!config)
		bail_out("no config");
	return config;
}

__attribute__((unused)) static int has_note(const struct config *config, const char *piece)
{
	int i;

	for (i = 0; i < config_diagnostic_count(config); i++)
		if (strstr(config_diagnostic(config, i), piece))
			return 1;
	diag("no note has '%s' among:", piece);
	for (i = 0; i < config_diagnostic_count(config); i++)
		diag("  %s", config_diagnostic(config, i));
	return 0;
}

static const coll_option_t net_options[] = {
	{.key = "interface", .fallback = "", .type = COLL_OPTION_STRING},
	{.key = "lanes", .fallback = "2", .type = COLL_OPTION_INT, .min = 1, .max = 64},
	{.key = "buffer", .type = COLL_OPTION_BYTES, .min = 0, .max = 1 << 30},
};

__attribute__((unused)) static int declare_net(struct config *config)
{
	return config_declare(config, "net", net_options, 3);
}

static void config_dir_begin(void)
{
	const char *tmp = getenv("TMPDIR");

	snprintf(dir, sizeof(dir), "%.30s/coll-conf-XXXXXX", tmp ? tmp : "/tmp");
	if (!mkdtemp(dir))
		bail_out("cannot make a directory like %s", dir);
	umask(022);
	make_dir("sys");
	make_dir("sys/coll.conf.d");
	make_dir("home");
	make_dir("home/.config");
	make_dir("home/.config/coll");
	unsetenv("XDG_CONFIG_HOME");
	unsetenv("COLL_PLUGIN_PATH");
	unsetenv("COLL_TRUST");
	setenv("HOME", at("home"), 1);
	setenv("COLL_SYSCONFDIR", at("sys"), 1);
	/* The alarm ends a test that hangs; no test takes nearly as long. */
	alarm(300);
}

static void config_dir_end(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	if (system(command))
		diag("%s was left behind", dir);
}

#endif
