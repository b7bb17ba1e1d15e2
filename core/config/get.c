/* SPDX-License-Identifier: BSD-3-Clause */
/* get.c - reads what config.c has settled; changes nothing. */
#include "config/config_impl.h"
#include "base/error.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *conf_string(const struct conf *conf, const char *name)
{
	const struct conf_option *option = conf_find(conf, name);

	return option ? option->value : NULL;
}

int64_t conf_int(const struct conf *conf, const char *name)
{
	const struct conf_option *option = conf_find(conf, name);

	return option ? option->number : 0;
}

int conf_is_set(const struct conf *conf, const char *name)
{
	const struct conf_option *option = conf_find(conf, name);

	return option && option->source;
}

const char *conf_default(const struct conf *conf, const char *name)
{
	const struct conf_option *option = conf_find(conf, name);

	return option ? option->declared.spec.fallback : NULL;
}

/* The highest good value for a section's priority, or NULL. */
static const struct conf_raw *conf_find_priority(const struct conf *conf, const char *section,
						 int64_t *number)
{
	int i;

	for (i = conf->nraw - 1; i >= 0; i--)
		if (conf_raw_is(&conf->raw[i], section, "priority") &&
		    conf_parse(&conf_priority_option, NULL, conf->raw[i].value, number) == 0)
			return &conf->raw[i];
	return NULL;
}

const char *conf_source(const struct conf *conf, const char *name)
{
	const struct conf_option *option = conf_find(conf, name);
	const char *dot = strchr(name, '.');
	const struct conf_raw *raw = NULL;
	char section[64];
	int64_t number;

	if (option)
		return option->source ? option->source : "default";
	if (dot && strcmp(dot, ".priority") == 0 && (size_t)(dot - name) < sizeof(section)) {
		snprintf(section, sizeof(section), "%.*s", (int)(dot - name), name);
		raw = conf_find_priority(conf, section, &number);
	}
	return raw ? raw->source : "default";
}

int conf_priority(const struct conf *conf, const char *section, int32_t *priority)
{
	int64_t number;

	if (!conf_find_priority(conf, section, &number))
		return 0;
	*priority = (int32_t)number;
	return 1;
}

int conf_count(const struct conf *conf)
{
	return conf->noption;
}

int conf_describe(const struct conf *conf, int index, coll_option_info_t *out)
{
	const struct conf_option *option;
	coll_option_info_t info;
	uint64_t size;

	if (!out || out->size < offsetof(coll_option_info_t, value))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "set `size` of the coll_option_info_t to its sizeof first");
	if (index < 0 || index >= conf->noption)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "option %d does not exist: there are %d, counted from 0", index,
				 conf->noption);
	option = &conf->option[index];
	size = out->size < sizeof(info) ? out->size : sizeof(info);
	info = (coll_option_info_t){
		.size = out->size,
		.name = option->name,
		.value = option->value ? option->value : "",
		.fallback = option->declared.spec.fallback ? option->declared.spec.fallback : "",
		.unit = option->declared.spec.unit ? option->declared.spec.unit : "",
		.source = option->source ? option->source : "default",
		.help = option->declared.spec.help ? option->declared.spec.help : "",
	};
	memcpy(out, &info, size);
	return COLL_SUCCESS;
}

/* Notes that stay, then the remarks on values that nobody has claimed. */
int conf_note_count(const struct conf *conf)
{
	int i, n = conf->nnote;

	for (i = 0; i < conf->nraw; i++)
		n += conf->raw[i].remark != NULL;
	return n;
}

const char *conf_note(const struct conf *conf, int index)
{
	int i;

	if (index < 0)
		return NULL;
	if (index < conf->nnote)
		return conf->note[index];
	index -= conf->nnote;
	for (i = 0; i < conf->nraw; i++)
		if (conf->raw[i].remark && index-- == 0)
			return conf->raw[i].remark;
	return NULL;
}

void conf_warn_unknown_env(const struct conf *conf)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	int i, first = 1;

	for (i = 0; i < conf->nraw; i++) {
		if (conf->raw[i].kind != RAW_ENV || !conf->raw[i].remark)
			continue;
		if (first && atomic_flag_test_and_set(&warned))
			return;
		first = 0;
		log_warn("%s", conf->raw[i].remark);
	}
}

/* "<backend>.<key>", if the backend declared the key as a string, or as a number. */
static int conf_backend_option(const coll_backend_t *backend, const char *key, int as_string,
			       char *name, size_t size)
{
	for (uint32_t i = 0; key && i < backend->option_count; i++)
		if (!strcmp(backend->options[i].key, key) &&
		    (backend->options[i].type == COLL_OPTION_STRING) == as_string) {
			snprintf(name, size, "%s.%s", backend->name, key);
			return 1;
		}
	return 0;
}

const char *conf_backend_string(const struct conf *conf, const coll_backend_t *backend,
				const char *key)
{
	char name[128];

	return conf_backend_option(backend, key, 1, name, sizeof(name)) ? conf_string(conf, name)
									: NULL;
}

int64_t conf_backend_int(const struct conf *conf, const coll_backend_t *backend, const char *key)
{
	char name[128];

	return conf_backend_option(backend, key, 0, name, sizeof(name)) ? conf_int(conf, name) : 0;
}
