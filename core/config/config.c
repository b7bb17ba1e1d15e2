/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c - loads a configuration and declares its options: which of the given values are in force. */
#include "config/config_impl.h"
#include "base/error.h"
#include "base/log.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static const coll_option_t config_priority_spec = {
	.key = "priority", .type = COLL_OPTION_INT, .min = INT32_MIN, .max = INT32_MAX};

/* ----------------------------------------------------------------- declare -- */

/* Returns 0 and *number, or -1 and in `why` the reason why the option cannot have the value. */
static int config_check_value(const struct config *config, const char *section,
			      const coll_option_t *spec, const char *value, int64_t *number,
			      char *why, size_t size)
{
	if (config_parse(spec, value, number, why, size))
		return -1;
	if (section[0] || spec->type != COLL_OPTION_STRING)
		return 0;
	if (config_check_log(spec->key, value, why, size))
		return -1;
	return config->check ? config->check(spec->key, value, why, size) : 0;
}

/* Returns the fault of the declaration itself, which the plugin's author must mend, or NULL. */
static const char *config_check_spec(const struct config *config, const char *section,
				     const coll_option_t *spec, int64_t *number)
{
	char why[800];

	if (!spec->key || !spec->key[0] || strlen(spec->key) > 48)
		return "a key of 1 to 48 characters is missing";
	if (spec->key[strspn(spec->key, "abcdefghijklmnopqrstuvwxyz0123456789_")])
		return "a key has letters a-z, digits and '_' only";
	if (strcmp(spec->key, "priority") == 0)
		return "'priority' exists for every backend and must not be declared";
	if (spec->type < COLL_OPTION_STRING || spec->type > COLL_OPTION_DURATION)
		return "its type is none of COLL_OPTION_*";
	if (spec->fallback &&
	    config_check_value(config, section, spec, spec->fallback, number, why, sizeof(why)))
		return "its default is not a value of its type and range";
	return NULL;
}

/* Checks all values given for the option; the highest good value is in force. */
static void config_apply(struct config *config, const char *section, struct config_option *option)
{
	char why[800];
	int64_t number;

	for (int i = 0; i < config->nvalues; i++) {
		struct config_value *value = &config->value[i];
		const int is_variable = value->source == SOURCE_ENVIRONMENT;

		if (strcmp(value->name, is_variable ? option->variable : option->name) != 0)
			continue;
		value->used = 1;
		if (config_check_value(config, section, &option->spec, value->text, &number, why,
				       sizeof(why))) {
			config_report(config, COLL_ERR_CONFIG,
				      "%s: option '%s' has the value '%s': %s",
				      config_place(value).text, option->name,
				      config_show(value->text).text, why);
			continue;
		}
		option->value = value->text;
		option->source = value->place;
		option->number = number;
	}
}

/* Without a value of its own an option takes the value of the core's option `from`. */
static void config_take_from(const struct config *config, struct config_option *option,
			     const char *from)
{
	if (option->source != config_unset || option->spec.type != COLL_OPTION_STRING ||
	    !config_is_set(config, from))
		return;
	option->value = config_string(config, from);
	option->source = config_source(config, from);
}

/* The option `interface` of a backend follows the core's, and the file of the observer timeline the option `timeline`. */
static void config_follow(const struct config *config, struct config_option *option)
{
	if (!strcmp(option->spec.key, "interface"))
		config_take_from(config, option, "interface");
	else if (!strcmp(option->name, "timeline.file"))
		config_take_from(config, option, "timeline");
}

/* COLL_<SECTION>_<KEY> */
static char *config_variable(struct config *config, const char *name)
{
	char *variable = config_text(config, "COLL_%s", name);

	for (char *at = variable; at && *at; at++)
		*at = (char)(*at == '.' ? '_' : toupper((unsigned char)*at));
	return variable;
}

/* Returns the option, which is new with its default, or was declared before; NULL for lack of memory. */
static struct config_option *config_enter(struct config *config, const char *section,
					  const coll_option_t *spec, int64_t number)
{
	char *name = config_text(config, "%s%s%s", section, section[0] ? "." : "", spec->key);
	struct config_option *option = name ? config_find(config, name) : NULL, *more;
	char *variable;

	if (!name || option) {
		free(name);
		return option;
	}
	variable = config_variable(config, name);
	more = config_grow(config, config->option, config->noptions, sizeof(*more));
	config->option = more ? more : config->option;
	if (!more || !variable) {
		free(name);
		free(variable);
		return NULL;
	}
	option = &more[config->noptions++];
	*option = (struct config_option){.name = name,
					 .variable = variable,
					 .spec = *spec,
					 .is_priority = spec == &config_priority_spec,
					 .unread = 1,
					 .value = spec->fallback,
					 .source = config_unset,
					 .number = number};
	return option;
}

/* Returns the option with its value in force, or NULL for lack of memory. */
static struct config_option *config_read(struct config *config, const char *section,
					 const coll_option_t *spec, int64_t number)
{
	struct config_option *option = config_enter(config, section, spec, number);

	if (option && option->unread) {
		option->unread = 0;
		config_apply(config, section, option);
		config_follow(config, option);
	}
	return option;
}

static void config_declare_option(struct config *config, const char *section,
				  const coll_option_t *spec)
{
	int64_t number = 0;
	const char *wrong = config_check_spec(config, section, spec, &number);

	if (wrong)
		config_report(config, COLL_ERR_PLUGIN, "the plugin '%s' declares option '%s': %s",
			      section, spec->key ? config_show(spec->key).text : "", wrong);
	else
		config_read(config, section, spec, number);
}

int config_priority(struct config *config, const char *section, int32_t *priority)
{
	const struct config_option *option = config_read(config, section, &config_priority_spec, 0);

	if (!option || option->source == config_unset)
		return 0;
	*priority = (int32_t)option->number;
	return 1;
}

void config_accept(struct config *config, const char *section)
{
	config_enter(config, section, &config_priority_spec, 0);
}

int config_declare(struct config *config, const char *section, const coll_option_t *options,
		   uint32_t n)
{
	config_read(config, section, &config_priority_spec, 0);
	for (uint32_t i = 0; i < n; i++)
		config_declare_option(config, section, &options[i]);
	config_report_unknown(config, section);
	config_report_unused(config);
	return config_status(config);
}

/* ------------------------------------------------------------ load and free -- */

void config_declare_core(struct config *config)
{
	for (int i = 0; i < config_core_count; i++)
		config_declare_option(config, "", &config_core_options[i]);
	config_report_unknown(config, "");
	config_check_security(config);
	config_report_unused(config);
	if (config->too_many)
		config_report(config, COLL_ERR_CONFIG, "%s", config->too_many);
}

int config_check_timeout(const char *function, const char *name, int64_t ms)
{
	const int64_t longest = INT64_C(1000) * CONFIG_LONGEST_SECONDS;

	return ms >= 1 && ms <= longest
		       ? COLL_SUCCESS
		       : error_set(COLL_ERR_INVALID_ARGUMENT,
				   "%s: %s is %lld, but must be from 1 to %lld", function, name,
				   (long long)ms, (long long)longest);
}

int config_load(const coll_config_t *app, config_check check, struct config **out)
{
	struct config *config = calloc(1, sizeof(*config));
	int code;

	log_open();
	*out = NULL;
	if (!config)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the configuration");
	config->check = check;
	config->log = (struct log_place){LOG_NO_RANK, NULL};
	config_collect(config, app);
	/* An incomplete list of values declares no option: otherwise an older value would be in force. */
	if (!config->oom)
		config_declare_core(config);
	code = config_status(config);
	if (config->oom) {
		config_free(config);
		return code;
	}
	config_apply_log(config);
	*out = config;
	return code;
}
