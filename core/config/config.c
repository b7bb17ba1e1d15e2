/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.c - options: which values were given, which options were declared, which value is in force; the answers to
 * who asks for them.
 */
#include "config/config_impl.h"
#include "base/error.h"
#include "base/log.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The source of an option whose default is in force. */
static const char config_unset[] = "default";

static const coll_option_t config_priority_spec = {
	.key = "priority", .type = COLL_OPTION_INT, .min = INT32_MIN, .max = INT32_MAX};

/* ------------------------------------------------------------------ the lists -- */

/* Returns `array` grown for one more than `count` items, or NULL; then the old array stays valid. */
static void *config_grow(struct config *config, void *array, int count, size_t item)
{
	void *more = array;

	if (count % 16 == 0)
		more = realloc(array, (size_t)(count + 16) * item);
	if (!more)
		config->oom = 1;
	return more;
}

__attribute__((format(printf, 2, 0))) static char *config_text_of(struct config *config,
								  const char *fmt, va_list args)
{
	char *text;

	if (vasprintf(&text, fmt, args) >= 0)
		return text;
	config->oom = 1;
	return NULL;
}

char *config_text(struct config *config, const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	text = config_text_of(config, fmt, args);
	va_end(args);
	return text;
}

void config_report(struct config *config, int code, const char *fmt, ...)
{
	struct config_diagnostic *more =
		config_grow(config, config->diagnostic, config->ndiagnostics, sizeof(*more));
	va_list args;
	char *text;

	if (!more)
		return;
	config->diagnostic = more;
	va_start(args, fmt);
	text = config_text_of(config, fmt, args);
	va_end(args);
	if (text)
		more[config->ndiagnostics++] =
			(struct config_diagnostic){.code = code, .text = text};
}

int config_status(struct config *config)
{
	const struct config_diagnostic *first = NULL;

	for (int i = 0; i < config->ndiagnostics; i++) {
		struct config_diagnostic *diagnostic = &config->diagnostic[i];

		if (diagnostic->code > 0 && !diagnostic->returned && !first)
			first = diagnostic;
		diagnostic->returned = 1;
	}
	if (config->oom)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the configuration");
	return first ? error_set(first->code, "%s", first->text) : COLL_SUCCESS;
}

void config_add_value(struct config *config, int source, char *name, const char *text, char *place)
{
	static const char blanks[] = " \t\r\n";
	struct config_value value = {.source = source, .name = name, .place = place}, *more;
	size_t len;

	text += strspn(text, blanks);
	for (len = strlen(text); len && strchr(blanks, text[len - 1]); len--)
		;
	value.text = config_text(config, "%.*s", (int)len, text);
	more = config_grow(config, config->value, config->nvalues, sizeof(*more));
	config->value = more ? more : config->value;
	if (len && more && name && place && value.text) {
		more[config->nvalues++] = value;
		return;
	}
	free(name);
	free(place);
	free(value.text);
}

struct config_option *config_find(const struct config *config, const char *name)
{
	for (int i = 0; i < config->noptions; i++)
		if (strcmp(config->option[i].name, name) == 0)
			return &config->option[i];
	return NULL;
}

/* ----------------------------------------------------------------- declare -- */

/* Returns 0 and *number, or -1 and in `why` the reason why the option cannot have the value. */
static int config_check_value(const struct config *config, const char *section,
			      const coll_option_t *spec, const char *value, int64_t *number,
			      char *why, size_t size)
{
	if (config_parse(spec, value, number, why, size))
		return -1;
	return !section[0] && spec->type == COLL_OPTION_STRING && config->check
		       ? config->check(spec->key, value, why, size)
		       : 0;
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

/* Without a value of its own a backend's option `interface` has the value of the core's. */
static void config_follow(const struct config *config, struct config_option *option)
{
	if (option->source != config_unset || strcmp(option->spec.key, "interface") ||
	    option->spec.type != COLL_OPTION_STRING || !config_is_set(config, "interface"))
		return;
	option->value = config_string(config, "interface");
	option->source = config_source(config, "interface");
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
		config_report(config, COLL_ERR_PLUGIN, "backend '%s' declares option '%s': %s",
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

int config_load(const coll_config_t *app, config_check check, struct config **out)
{
	struct config *config = calloc(1, sizeof(*config));
	int code;

	log_open();
	*out = NULL;
	if (!config)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the configuration");
	config->check = check;
	config_collect(config, app);
	/* An incomplete list of values declares no option: otherwise an older value would be in force. */
	if (!config->oom)
		config_declare_core(config);
	code = config_status(config);
	if (config->oom) {
		config_free(config);
		return code;
	}
	log_set_level((int)config_int(config, "log"));
	for (int i = 0; i < config->ndiagnostics; i++)
		if (config->diagnostic[i].code >= 0)
			log_debug("%s", config->diagnostic[i].text);
	*out = config;
	return code;
}

void config_free(struct config *config)
{
	if (!config)
		return;
	for (int i = 0; i < config->nvalues; i++) {
		free(config->value[i].name);
		free(config->value[i].text);
		free(config->value[i].place);
	}
	for (int i = 0; i < config->noptions; i++) {
		free(config->option[i].name);
		free(config->option[i].variable);
	}
	for (int i = 0; i < config->ndiagnostics; i++)
		free(config->diagnostic[i].text);
	free(config->too_many);
	free(config->value);
	free(config->option);
	free(config->diagnostic);
	free(config);
}

/* ------------------------------------------------------------------ answers -- */

/* Returns the option of that full name, or an option without any value. */
static const struct config_option *config_get(const struct config *config, const char *name)
{
	static const struct config_option none = {.source = config_unset};
	const struct config_option *option = config_find(config, name);

	return option ? option : &none;
}

const char *config_string(const struct config *config, const char *name)
{
	return config_get(config, name)->value;
}

int64_t config_int(const struct config *config, const char *name)
{
	return config_get(config, name)->number;
}

int config_allows(const struct config *config, const char *name, int64_t number, int64_t *min,
		  int64_t *max)
{
	*min = config_get(config, name)->spec.min;
	*max = config_get(config, name)->spec.max;
	return number >= *min && number <= *max;
}

int config_is_set(const struct config *config, const char *name)
{
	return config_get(config, name)->source != config_unset;
}

const char *config_default(const struct config *config, const char *name)
{
	return config_get(config, name)->spec.fallback;
}

const char *config_source(const struct config *config, const char *name)
{
	return config_get(config, name)->source;
}

int config_count(const struct config *config)
{
	int n = 0;

	for (int i = 0; i < config->noptions; i++)
		n += !config->option[i].is_priority;
	return n;
}

/* The index-th option, priorities not counted, or NULL. */
static const struct config_option *config_at(const struct config *config, int index)
{
	for (int i = 0; index >= 0 && i < config->noptions; i++)
		if (!config->option[i].is_priority && index-- == 0)
			return &config->option[i];
	return NULL;
}

int config_describe(const struct config *config, int index, coll_option_info_t *out)
{
	const struct config_option *option = config_at(config, index);
	const coll_option_t *spec;
	coll_option_info_t info;

	if (!out || out->size < offsetof(coll_option_info_t, value))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "set `size` of the coll_option_info_t to its sizeof first");
	if (!option)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "option %d does not exist: there are %d, counted from 0", index,
				 config_count(config));
	spec = &option->spec;
	info = (coll_option_info_t){
		.size = out->size,
		.name = option->name,
		.value = option->value ? option->value : "",
		.fallback = spec->fallback ? spec->fallback : "",
		.unit = spec->unit && !config_words(spec) ? spec->unit : "",
		.source = option->source,
		.help = spec->help ? spec->help : "",
	};
	memcpy(out, &info, out->size < sizeof(info) ? out->size : sizeof(info));
	return COLL_SUCCESS;
}

int config_diagnostic_count(const struct config *config)
{
	return config->ndiagnostics;
}

const char *config_diagnostic(const struct config *config, int index)
{
	return index >= 0 && index < config->ndiagnostics ? config->diagnostic[index].text : NULL;
}

void config_warn_unused(const struct config *config)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	int first = 1;

	for (int i = 0; i < config->ndiagnostics; i++) {
		const int code = config->diagnostic[i].code;

		if (code != CONFIG_UNUSED)
			continue;
		if (first && atomic_flag_test_and_set(&warned))
			return;
		first = 0;
		log_warn("%s", config->diagnostic[i].text);
	}
}

/* Returns the option that the backend declared, as a string or as a number; or an option without any value. */
static const struct config_option *config_backend_option(const struct config *config,
							 const coll_backend_t *backend,
							 const char *key, int as_string)
{
	char name[128] = "";

	for (uint32_t i = 0; key && i < backend->option_count; i++)
		if (!strcmp(backend->options[i].key, key) &&
		    (backend->options[i].type == COLL_OPTION_STRING) == as_string)
			snprintf(name, sizeof(name), "%s.%s", backend->name, key);
	return config_get(config, name);
}

const char *config_backend_string(const struct config *config, const coll_backend_t *backend,
				  const char *key)
{
	return config_backend_option(config, backend, key, 1)->value;
}

int64_t config_backend_int(const struct config *config, const coll_backend_t *backend,
			   const char *key)
{
	return config_backend_option(config, backend, key, 0)->number;
}
