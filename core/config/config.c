/* SPDX-License-Identifier: BSD-3-Clause */
/* config.c - options: what was said, what was declared, and which value is in force. */
#include "config/config_impl.h"
#include "base/error.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const coll_option_t conf_priority_option = {
	.key = "priority", .type = COLL_OPTION_INT, .min = INT32_MIN, .max = INT32_MAX};

/* ------------------------------------------------------------------ pieces -- */

void *conf_more(struct conf *conf, void *array, int count, size_t item)
{
	void *more = array;

	if (count % 16 == 0)
		more = realloc(array, (size_t)(count + 16) * item);
	if (!more)
		conf->oom = 1;
	return more;
}

__attribute__((format(printf, 2, 0))) static char *conf_vtext(struct conf *conf, const char *fmt,
							      va_list args)
{
	char *text;

	if (vasprintf(&text, fmt, args) >= 0)
		return text;
	conf->oom = 1;
	return NULL;
}

char *conf_text(struct conf *conf, const char *fmt, ...)
{
	va_list args;
	char *text;

	va_start(args, fmt);
	text = conf_vtext(conf, fmt, args);
	va_end(args);
	return text;
}

/* Takes text over. */
static void conf_keep_note(struct conf *conf, char *text)
{
	char **more = text ? conf_more(conf, conf->note, conf->nnote, sizeof(*more)) : NULL;

	if (!more) {
		free(text);
		return;
	}
	conf->note = more;
	conf->note[conf->nnote++] = text;
}

void conf_add_note(struct conf *conf, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	conf_keep_note(conf, conf_vtext(conf, fmt, args));
	va_end(args);
}

void conf_add_fault(struct conf *conf, int code, const char *fmt, ...)
{
	va_list args;

	if (conf->fault < 0) {
		conf->fault = conf->nnote;
		conf->fault_code = code;
	}
	va_start(args, fmt);
	conf_keep_note(conf, conf_vtext(conf, fmt, args));
	va_end(args);
}

/* The first fault since the last call as this thread's error. */
static int conf_verdict(struct conf *conf)
{
	const int fault = conf->fault;

	conf->fault = -1;
	if (conf->oom)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the configuration");
	if (fault < 0)
		return COLL_SUCCESS;
	return error_set(conf->fault_code, "%s", conf->note[fault]);
}

static void conf_free_raw(struct conf_raw *raw)
{
	free(raw->section);
	free(raw->key);
	free(raw->value);
	free(raw->source);
	free(raw->remark);
}

static int conf_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

void conf_add_raw(struct conf *conf, int kind, const char *section, const char *key,
		  const char *value, char *source)
{
	struct conf_raw raw = {.kind = kind, .origin = conf->origins, .source = source}, *more;
	const char *dot = section[0] || kind == RAW_ENV ? NULL : strchr(key, '.');
	size_t len;

	while (conf_is_blank(*value))
		value++;
	for (len = strlen(value); len && conf_is_blank(value[len - 1]); len--)
		;
	raw.section = dot ? conf_text(conf, "%.*s", (int)(dot - key), key)
			  : conf_text(conf, "%s", section);
	raw.key = conf_text(conf, "%s", dot ? dot + 1 : key);
	raw.value = conf_text(conf, "%.*s", (int)len, value);
	more = conf_more(conf, conf->raw, conf->nraw, sizeof(*more));
	conf->raw = more ? more : conf->raw;
	if (!len || !more || !source || !raw.section || !raw.key || !raw.value) {
		conf_free_raw(&raw);
		return;
	}
	more[conf->nraw++] = raw;
}

int conf_raw_is(const struct conf_raw *raw, const char *section, const char *key)
{
	char name[128];

	if (raw->kind != RAW_ENV)
		return strcmp(raw->section, section) == 0 && strcmp(raw->key, key) == 0;
	conf_variable(section, key, name, sizeof(name));
	return strcmp(raw->key, name) == 0;
}

struct conf_place conf_place(const struct conf_raw *raw)
{
	struct conf_place place;

	if (raw->kind == RAW_APP)
		snprintf(place.text, sizeof(place.text), "application option '%s%s%s=%s'",
			 conf_show(raw->section).text, raw->section[0] ? "." : "",
			 conf_show(raw->key).text, conf_show(raw->value).text);
	else
		snprintf(place.text, sizeof(place.text), "%s", raw->source);
	return place;
}

int conf_has_section(const struct conf *conf, const char *section)
{
	int i;

	for (i = 0; i < conf->nsection; i++)
		if (strcmp(conf->section[i], section) == 0)
			return 1;
	return 0;
}

/* ----------------------------------------------------------------- declare -- */

static void conf_bad_value(struct conf *conf, const struct conf_raw *raw, const char *name,
			   const char *why)
{
	conf_add_fault(conf, COLL_ERR_CONFIG, "%s: option '%s' has the value '%s': %s",
		       conf_place(raw).text, name, conf_show(raw->value).text, why);
}

/* 0 and *number, or -1 and why the value cannot be the option's. */
static int conf_read(const struct conf_declared *declared, const char *value, int64_t *number,
		     char *why, size_t size)
{
	if (conf_parse(&declared->spec, declared->choices, value, number)) {
		conf_expected(&declared->spec, declared->choices, why, size);
		return -1;
	}
	return declared->rules ? conf_check_rules(declared->rules, value, why, size) : 0;
}

/* Checks all values given for the option; the highest good one is in force. */
static void conf_settle(struct conf *conf, struct conf_option *option, const char *section)
{
	char why[800];
	struct conf_raw *raw;
	int64_t number;
	int i;

	for (i = 0; i < conf->nraw; i++) {
		raw = &conf->raw[i];
		if (!conf_raw_is(raw, section, option->declared.spec.key))
			continue;
		raw->claimed = 1;
		if (conf_read(&option->declared, raw->value, &number, why, sizeof(why))) {
			conf_bad_value(conf, raw, option->name, why);
			continue;
		}
		option->value = raw->value;
		option->source = raw->source;
		option->number = number;
	}
}

struct conf_option *conf_find(const struct conf *conf, const char *name)
{
	int i;

	for (i = 0; i < conf->noption; i++)
		if (strcmp(conf->option[i].name, name) == 0)
			return &conf->option[i];
	return NULL;
}

/* What is wrong with the declaration itself, or NULL. */
static const char *conf_check_declared(const struct conf_declared *declared, int64_t *number)
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
	if (spec->fallback && conf_read(declared, spec->fallback, number, why, sizeof(why)))
		return "its default is not a value of its type and range";
	return NULL;
}

static void conf_declare_option(struct conf *conf, const char *section,
				const struct conf_declared *declared)
{
	const coll_option_t *spec = &declared->spec;
	struct conf_option *option;
	int64_t number = 0;
	const char *wrong = conf_check_declared(declared, &number);
	char *name;

	if (wrong) {
		conf_add_fault(conf, COLL_ERR_PLUGIN, "backend '%s' declares option '%s': %s",
			       section, spec->key ? conf_show(spec->key).text : "", wrong);
		return;
	}
	name = conf_text(conf, "%s%s%s", section, section[0] ? "." : "", spec->key);
	option = conf_more(conf, conf->option, conf->noption, sizeof(*option));
	if (option)
		conf->option = option;
	if (!option || !name || conf_find(conf, name)) {
		free(name);
		return;
	}
	option += conf->noption++;
	*option = (struct conf_option){
		.name = name, .declared = *declared, .value = spec->fallback, .number = number};
	conf_settle(conf, option, section);
}

static void conf_declare_section(struct conf *conf, const char *section)
{
	char **more;

	if (conf_has_section(conf, section))
		return;
	more = conf_more(conf, conf->section, conf->nsection, sizeof(*more));
	if (!more)
		return;
	conf->section = more;
	more[conf->nsection] = conf_text(conf, "%s", section);
	if (more[conf->nsection])
		conf->nsection++;
}

static void conf_declare_core(struct conf *conf)
{
	int i;

	conf_declare_section(conf, "");
	for (i = 0; i < conf_core_count; i++)
		conf_declare_option(conf, "", &conf_core_options[i]);
	conf_find_unknown(conf, "");
	conf_review(conf);
}

static void conf_check_priority(struct conf *conf, const char *section)
{
	const struct conf_declared declared = {.spec = conf_priority_option};
	char name[64], why[800];
	int64_t number;
	int i;

	snprintf(name, sizeof(name), "%s.priority", section);
	for (i = 0; i < conf->nraw; i++) {
		if (!conf_raw_is(&conf->raw[i], section, "priority"))
			continue;
		conf->raw[i].claimed = 1;
		if (conf_read(&declared, conf->raw[i].value, &number, why, sizeof(why)))
			conf_bad_value(conf, &conf->raw[i], name, why);
	}
}

int conf_declare(struct conf *conf, const char *section, const coll_option_t *options, uint32_t n)
{
	struct conf_declared declared = {.choices = NULL};
	uint32_t i;

	conf_declare_section(conf, section);
	for (i = 0; i < n; i++) {
		declared.spec = options[i];
		conf_declare_option(conf, section, &declared);
	}
	conf_check_priority(conf, section);
	conf_find_unknown(conf, section);
	conf_review(conf);
	return conf_verdict(conf);
}

/* ------------------------------------------------------------ load and free -- */

int conf_load(const coll_config_t *app, struct conf **out)
{
	struct conf *conf = calloc(1, sizeof(*conf));
	int code, i;

	*out = NULL;
	if (!conf)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for the configuration");
	conf->fault = -1;
	conf_collect(conf, app);
	/* What is not complete is not declared: half of a value must not come into force. */
	if (!conf->oom)
		conf_declare_core(conf);
	code = conf_verdict(conf);
	if (conf->oom) {
		conf_free(conf);
		return code;
	}
	log_set_level((int)conf_int(conf, "log"));
	for (i = 0; i < conf->nnote; i++)
		log_debug("%s", conf->note[i]);
	*out = conf;
	return code;
}

static void conf_free_texts(char **text, int n)
{
	while (n--)
		free(text[n]);
	free(text);
}

void conf_free(struct conf *conf)
{
	int i;

	if (!conf)
		return;
	for (i = 0; i < conf->nraw; i++)
		conf_free_raw(&conf->raw[i]);
	for (i = 0; i < conf->noption; i++)
		free(conf->option[i].name);
	free(conf->raw);
	free(conf->option);
	conf_free_texts(conf->section, conf->nsection);
	conf_free_texts(conf->note, conf->nnote);
	free(conf);
}
