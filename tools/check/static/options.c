/* SPDX-License-Identifier: BSD-3-Clause */
/* options.c - the options that a plugin declares. */
#include <string.h>
#include "check/host/host.h"
#include "check/static/static.h"

enum { OPTIONS_MOST = 1000 };

static const coll_option_t *options_at(const coll_backend_t *backend, uint32_t i)
{
	const char *first = (const char *)backend->options;

	return (const coll_option_t *)(const void *)(first + (size_t)i * backend->option_size);
}

static int options_key_ok(const char *key)
{
	size_t n = strlen(key);

	return n && strspn(key, "abcdefghijklmnopqrstuvwxyz0123456789_") == n && key[0] >= 'a' &&
	       key[0] <= 'z' && strcmp(key, "priority") != 0;
}

static void options_one(struct check_case *c, const coll_option_t *option)
{
	int64_t value;

	if (!option->key || !options_key_ok(option->key))
		check_fail(c,
			   "an option is called '%s'; expected lower case, '_' between words, and "
			   "not 'priority'",
			   option->key ? option->key : "(NULL)");
	else if (option->type < COLL_OPTION_STRING || option->type > COLL_OPTION_DURATION)
		check_fail(c, "option '%s' has type %d, not COLL_OPTION_*", option->key,
			   option->type);
	else if (!option->help || !*option->help || strchr(option->help, '\n'))
		check_fail(c, "the help of option '%s' is not one line", option->key);
	else if (!option->unit)
		check_fail(c, "the unit of option '%s' is NULL; without one it is \"\"",
			   option->key);
	else if (option->type > COLL_OPTION_STRING && option->type != COLL_OPTION_BOOL &&
		 option->min > option->max)
		check_fail(c, "option '%s' has an empty range: min is %lld, max is %lld",
			   option->key, (long long)option->min, (long long)option->max);
	else if (option->fallback && check_option_value(option, option->fallback, &value))
		check_fail(c, "the default '%s' of option '%s' is not of its type or range",
			   option->fallback, option->key);
}

static void options_form(struct check_case *c)
{
	const char *text;
	const coll_backend_t *backend = &check_plugin(c, &text)->backend;

	if (backend->option_count && !backend->options) {
		check_fail(c, "option_count is %u but options is NULL", backend->option_count);
		return;
	}
	if (backend->option_count > OPTIONS_MOST) {
		check_fail(c, "option_count is %u; expected at most %d", backend->option_count,
			   OPTIONS_MOST);
		return;
	}
	for (uint32_t i = 0; i < backend->option_count; i++) {
		const coll_option_t *option = options_at(backend, i);

		options_one(c, option);
		if (check_failed(c))
			return;
		if (check_option_find(check_plugin(c, &text), option->key) != option)
			check_fail(c, "option '%s' is declared twice", option->key);
	}
}

static void options_given(struct check_case *c)
{
	const struct check_plugin *plugin;
	const coll_option_t *option;
	const char *text;
	int64_t value;

	plugin = check_plugin(c, &text);
	for (const char *const *key = c->options->keys; *key; key += 2) {
		option = check_option_find(plugin, key[0]);
		if (!option)
			check_fail(c, "--option %s: the plugin declares no such option", key[0]);
		else if (check_option_value(option, key[1], &value))
			check_fail(c, "--option %s=%s: not of the option's type or range", key[0],
				   key[1]);
	}
}

const struct check check_options_checks[] = {
	{.name = "options",
	 .says = "the options are well formed, and their defaults valid",
	 .promise = "coll_option_t",
	 .group = CHECK_TABLE,
	 .ground = 1,
	 .run = options_form},
	{.name = "options-given",
	 .says = "the plugin declares the options given to the kit",
	 .promise = "coll_backend_t.options",
	 .group = CHECK_TABLE,
	 .run = options_given},
	{.name = NULL},
};
