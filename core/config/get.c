/* SPDX-License-Identifier: BSD-3-Clause */
/* get.c - read access to the values in force and to the diagnostics. */
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

int config_allows(const struct config *config, const char *name, int64_t number, int64_t *min,
		  int64_t *max)
{
	const struct config_option *option = config_find(config, name);

	*min = option ? option->declared.spec.min : 0;
	*max = option ? option->declared.spec.max : 0;
	return number >= *min && number <= *max;
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

const char *config_source(const struct config *config, const char *name)
{
	const struct config_option *option = config_find(config, name);

	return option && option->source ? option->source : "default";
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
	spec = &option->declared.spec;
	info = (coll_option_info_t){
		.size = out->size,
		.name = option->name,
		.value = option->value ? option->value : "",
		.fallback = spec->fallback ? spec->fallback : "",
		.unit = spec->unit ? spec->unit : "",
		.source = option->source ? option->source : "default",
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

		if (code != CONFIG_UNUSED && code != CONFIG_UNUSED_VARIABLE)
			continue;
		if (first && atomic_flag_test_and_set(&warned))
			return;
		first = 0;
		log_warn("%s", config->diagnostic[i].text);
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
