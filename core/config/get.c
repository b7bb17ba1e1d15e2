/* SPDX-License-Identifier: BSD-3-Clause */
/* get.c - reads what config.c has settled; changes nothing. */
#include "config/config_impl.h"
#include "base/error.h"
#include "base/log.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

const char *config_string(const struct config *config, const char *name)
{
	const struct config_option *option = config_find(config, name);

	return option ? option->value : NULL;
}

int64_t config_int(const struct config *config, const char *name)
{
	const struct config_option *option = config_find(config, name);

	return option ? option->number : 0;
}

int config_is_set(const struct config *config, const char *name)
{
	const struct config_option *option = config_find(config, name);

	return option && option->source;
}

const char *config_default(const struct config *config, const char *name)
{
	const struct config_option *option = config_find(config, name);

	return option ? option->declared.spec.fallback : NULL;
}

/* The highest good value for a section's priority, or NULL. */
static const struct config_raw *config_find_priority(const struct config *config,
						     const char *section, int64_t *number)
{
	int i;

	for (i = config->nraw - 1; i >= 0; i--)
		if (config_raw_is(&config->raw[i], section, "priority") &&
		    config_parse(&config_priority_option, NULL, config->raw[i].value, number) == 0)
			return &config->raw[i];
	return NULL;
}

const char *config_source(const struct config *config, const char *name)
{
	const struct config_option *option = config_find(config, name);
	const char *dot = strchr(name, '.');
	const struct config_raw *raw = NULL;
	char section[64];
	int64_t number;

	if (option)
		return option->source ? option->source : "default";
	if (dot && strcmp(dot, ".priority") == 0 && (size_t)(dot - name) < sizeof(section)) {
		snprintf(section, sizeof(section), "%.*s", (int)(dot - name), name);
		raw = config_find_priority(config, section, &number);
	}
	return raw ? raw->source : "default";
}

int config_priority(const struct config *config, const char *section, int32_t *priority)
{
	int64_t number;

	if (!config_find_priority(config, section, &number))
		return 0;
	*priority = (int32_t)number;
	return 1;
}

int config_count(const struct config *config)
{
	return config->noption;
}

int config_describe(const struct config *config, int index, coll_option_info_t *out)
{
	const struct config_option *option;
	coll_option_info_t info;
	uint64_t size;

	if (!out || out->size < offsetof(coll_option_info_t, value))
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "set `size` of the coll_option_info_t to its sizeof first");
	if (index < 0 || index >= config->noption)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "option %d does not exist: there are %d, counted from 0", index,
				 config->noption);
	option = &config->option[index];
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
int config_note_count(const struct config *config)
{
	int i, n = config->nnote;

	for (i = 0; i < config->nraw; i++)
		n += config->raw[i].remark != NULL;
	return n;
}

const char *config_note(const struct config *config, int index)
{
	int i;

	if (index < 0)
		return NULL;
	if (index < config->nnote)
		return config->note[index];
	index -= config->nnote;
	for (i = 0; i < config->nraw; i++)
		if (config->raw[i].remark && index-- == 0)
			return config->raw[i].remark;
	return NULL;
}

void config_warn_unknown_env(const struct config *config)
{
	static atomic_flag warned = ATOMIC_FLAG_INIT;
	int i, first = 1;

	for (i = 0; i < config->nraw; i++) {
		if (config->raw[i].kind != RAW_ENV || !config->raw[i].remark)
			continue;
		if (first && atomic_flag_test_and_set(&warned))
			return;
		first = 0;
		log_warn("%s", config->raw[i].remark);
	}
}

/* "<backend>.<key>", if the backend declared the key as a string, or as a number. */
static int config_backend_option(const coll_backend_t *backend, const char *key, int as_string,
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

const char *config_backend_string(const struct config *config, const coll_backend_t *backend,
				  const char *key)
{
	char name[128];

	return config_backend_option(backend, key, 1, name, sizeof(name))
		       ? config_string(config, name)
		       : NULL;
}

int64_t config_backend_int(const struct config *config, const coll_backend_t *backend,
			   const char *key)
{
	char name[128];

	return config_backend_option(backend, key, 0, name, sizeof(name)) ? config_int(config, name)
									  : 0;
}
