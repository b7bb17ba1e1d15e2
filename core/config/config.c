/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c - options: what was said, what was declared, and which value is in force. */
#include "config/config_impl.h"
#include "base/error.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const coll_option_t config_priority_option = {
	.key = "priority", .type = COLL_OPTION_INT, .min = INT32_MIN, .max = INT32_MAX};

/* ------------------------------------------------------------------ pieces -- */

void *config_more(struct config *config, void *array, int count, size_t item)
{
	void *more = array;

	if (count % 16 == 0)
		more = realloc(array, (size_t)(count + 16) * item);
	if (!more)
		config->oom = 1;
	return more;
}

__attribute__((format(printf, 2, 0))) static char *config_vtext(struct config *config,
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
	text = config_vtext(config, fmt, args);
	va_end(args);
	return text;
}

/* Takes text over. */
static void config_keep_note(struct config *config, char *text)
{
	char **more = text ? config_more(config, config->note, config->nnote, sizeof(*more)) : NULL;

	if (!more) {
		free(text);
		return;
	}
	config->note = more;
	config->note[config->nnote++] = text;
}

void config_add_note(struct config *config, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	config_keep_note(config, config_vtext(config, fmt, args));
	va_end(args);
}

void config_add_fault(struct config *config, int code, const char *fmt, ...)
{
	va_list args;

	if (config->fault < 0) {
		config->fault = config->nnote;
		config->fault_code = code;
	}
	va_start(args, fmt);
	config_keep_note(config, config_vtext(config, fmt, args));
	va_end(args);
}

/* The first fault since the last call as this thread's error. */
static int config_verdict(struct config *config)
{
	const int fault = config->fault;

	config->fault = -1;
	if (config->oom)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the configuration");
	if (fault < 0)
		return COLL_SUCCESS;
	return error_set(config->fault_code, "%s", config->note[fault]);
}

static void config_free_raw(struct config_raw *raw)
{
	free(raw->section);
	free(raw->key);
	free(raw->value);
	free(raw->source);
	free(raw->remark);
}

static int config_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void config_add_raw(struct config *config, int kind, const char *section, const char *key,
		    const char *value, char *source)
{
	struct config_raw raw = {.kind = kind, .origin = config->origins, .source = source}, *more;
	const char *dot = section[0] || kind == RAW_ENV ? NULL : strchr(key, '.');
	size_t len;

	while (config_is_blank(*value))
		value++;
	for (len = strlen(value); len && config_is_blank(value[len - 1]); len--)
		;
	raw.section = dot ? config_text(config, "%.*s", (int)(dot - key), key)
			  : config_text(config, "%s", section);
	raw.key = config_text(config, "%s", dot ? dot + 1 : key);
	raw.value = config_text(config, "%.*s", (int)len, value);
	more = config_more(config, config->raw, config->nraw, sizeof(*more));
	config->raw = more ? more : config->raw;
	if (!len || !more || !source || !raw.section || !raw.key || !raw.value) {
		config_free_raw(&raw);
		return;
	}
	more[config->nraw++] = raw;
}

int config_raw_is(const struct config_raw *raw, const char *section, const char *key)
{
	char name[128];

	if (raw->kind != RAW_ENV)
		return strcmp(raw->section, section) == 0 && strcmp(raw->key, key) == 0;
	config_variable(section, key, name, sizeof(name));
	return strcmp(raw->key, name) == 0;
}

struct config_place config_place(const struct config_raw *raw)
{
	struct config_place place;

	if (raw->kind == RAW_APP)
		snprintf(place.text, sizeof(place.text), "application option '%s%s%s=%s'",
			 config_show(raw->section).text, raw->section[0] ? "." : "",
			 config_show(raw->key).text, config_show(raw->value).text);
	else
		snprintf(place.text, sizeof(place.text), "%s", raw->source);
	return place;
}

int config_has_section(const struct config *config, const char *section)
{
	int i;

	for (i = 0; i < config->nsection; i++)
		if (strcmp(config->section[i], section) == 0)
			return 1;
	return 0;
}

/* ----------------------------------------------------------------- declare -- */

static void config_bad_value(struct config *config, const struct config_raw *raw, const char *name,
			     const char *why)
{
	config_add_fault(config, COLL_ERR_CONFIG, "%s: option '%s' has the value '%s': %s",
			 config_place(raw).text, name, config_show(raw->value).text, why);
}

/* 0 and *number, or -1 and why the value cannot be the option's. */
static int config_read(const struct config_declared *declared, const char *value, int64_t *number,
		       char *why, size_t size)
{
	if (config_parse(&declared->spec, declared->choices, value, number)) {
		config_expected(&declared->spec, declared->choices, why, size);
		return -1;
	}
	return declared->rules ? config_check_rules(declared->rules, value, why, size) : 0;
}

/* Checks all values given for the option; the highest good one is in force. */
static void config_settle(struct config *config, struct config_option *option, const char *section)
{
	char why[800];
	struct config_raw *raw;
	int64_t number;
	int i;

	for (i = 0; i < config->nraw; i++) {
		raw = &config->raw[i];
		if (!config_raw_is(raw, section, option->declared.spec.key))
			continue;
		raw->claimed = 1;
		if (config_read(&option->declared, raw->value, &number, why, sizeof(why))) {
			config_bad_value(config, raw, option->name, why);
			continue;
		}
		option->value = raw->value;
		option->source = raw->source;
		option->number = number;
	}
}

struct config_option *config_find(const struct config *config, const char *name)
{
	int i;

	for (i = 0; i < config->noption; i++)
		if (strcmp(config->option[i].name, name) == 0)
			return &config->option[i];
	return NULL;
}

/* What is wrong with the declaration itself, or NULL. */
static const char *config_check_declared(const struct config_declared *declared, int64_t *number)
{
	const coll_option_t *spec = &declared->spec;
	char why[800];

	if (!spec->key || !spec->key[0] || strlen(spec->key) > 48)
		return "a key of 1 to 48 characters is missing";
	if (spec->key[strspn(spec->key, "abcdefghijklmnopqrstuvwxyz0123456789_")])
		return "a key has letters a-z, digits and '_' only";
	if (strcmp(spec->key, "priority") == 0)
		return "'priority' exists for every backend and must not be declared";
	if (spec->type < COLL_OPTION_STRING || spec->type > COLL_OPTION_DURATION)
		return "its type is none of COLL_OPTION_*";
	if (spec->fallback && config_read(declared, spec->fallback, number, why, sizeof(why)))
		return "its default is not a value of its type and range";
	return NULL;
}

static void config_declare_option(struct config *config, const char *section,
				  const struct config_declared *declared)
{
	const coll_option_t *spec = &declared->spec;
	struct config_option *option;
	int64_t number = 0;
	const char *wrong = config_check_declared(declared, &number);
	char *name;

	if (wrong) {
		config_add_fault(config, COLL_ERR_PLUGIN, "backend '%s' declares option '%s': %s",
				 section, spec->key ? config_show(spec->key).text : "", wrong);
		return;
	}
	name = config_text(config, "%s%s%s", section, section[0] ? "." : "", spec->key);
	option = config_more(config, config->option, config->noption, sizeof(*option));
	if (option)
		config->option = option;
	if (!option || !name || config_find(config, name)) {
		free(name);
		return;
	}
	option += config->noption++;
	*option = (struct config_option){
		.name = name, .declared = *declared, .value = spec->fallback, .number = number};
	config_settle(config, option, section);
}

static void config_declare_section(struct config *config, const char *section)
{
	char **more;

	if (config_has_section(config, section))
		return;
	more = config_more(config, config->section, config->nsection, sizeof(*more));
	if (!more)
		return;
	config->section = more;
	more[config->nsection] = config_text(config, "%s", section);
	if (more[config->nsection])
		config->nsection++;
}

static void config_declare_core(struct config *config)
{
	int i;

	config_declare_section(config, "");
	for (i = 0; i < config_core_count; i++)
		config_declare_option(config, "", &config_core_options[i]);
	config_find_unknown(config, "");
	config_review(config);
}

static void config_check_priority(struct config *config, const char *section)
{
	const struct config_declared declared = {.spec = config_priority_option};
	char name[64], why[800];
	int64_t number;
	int i;

	snprintf(name, sizeof(name), "%s.priority", section);
	for (i = 0; i < config->nraw; i++) {
		if (!config_raw_is(&config->raw[i], section, "priority"))
			continue;
		config->raw[i].claimed = 1;
		if (config_read(&declared, config->raw[i].value, &number, why, sizeof(why)))
			config_bad_value(config, &config->raw[i], name, why);
	}
}

int config_declare(struct config *config, const char *section, const coll_option_t *options,
		   uint32_t n)
{
	struct config_declared declared = {.choices = NULL};
	uint32_t i;

	config_declare_section(config, section);
	for (i = 0; i < n; i++) {
		declared.spec = options[i];
		config_declare_option(config, section, &declared);
	}
	config_check_priority(config, section);
	config_find_unknown(config, section);
	config_review(config);
	return config_verdict(config);
}

/* ------------------------------------------------------------ load and free -- */

int config_load(const coll_config_t *app, struct config **out)
{
	struct config *config = calloc(1, sizeof(*config));
	int code, i;

	*out = NULL;
	if (!config)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the configuration");
	config->fault = -1;
	config_collect(config, app);
	/* What is not complete is not declared: half of a value must not come into force. */
	if (!config->oom)
		config_declare_core(config);
	code = config_verdict(config);
	if (config->oom) {
		config_free(config);
		return code;
	}
	log_set_level((int)config_int(config, "log"));
	for (i = 0; i < config->nnote; i++)
		log_debug("%s", config->note[i]);
	*out = config;
	return code;
}

static void config_free_texts(char **text, int n)
{
	while (n--)
		free(text[n]);
	free(text);
}

void config_free(struct config *config)
{
	int i;

	if (!config)
		return;
	for (i = 0; i < config->nraw; i++)
		config_free_raw(&config->raw[i]);
	for (i = 0; i < config->noption; i++)
		free(config->option[i].name);
	free(config->raw);
	free(config->option);
	config_free_texts(config->section, config->nsection);
	config_free_texts(config->note, config->nnote);
	free(config);
}
