/* SPDX-License-Identifier: BSD-3-Clause */
/* store.c - the lists of a configuration: values, options and diagnostics; the answers to who asks for them. */
#include "config/config_impl.h"
#include "base/error.h"
#include "base/log.h"

#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char config_unset[] = "default";

/* ------------------------------------------------------------------ the lists -- */

void *config_grow(struct config *config, void *array, int count, size_t item)
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
