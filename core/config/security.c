/* SPDX-License-Identifier: BSD-3-Clause */
/* security.c - the option `security` of any section, whose backend may be unknown here. */
#include "config/config_impl.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

static const char config_security_key[] = "security";

int config_asks(const char *value)
{
	static const char *const off[] = {"none", "no", "off", "false", "0"};

	for (size_t i = 0; i < sizeof(off) / sizeof(off[0]); i++)
		if (!strcasecmp(value, off[i]))
			return 0;
	return value[0] != '\0';
}

/* The section "tcp" of "tcp.security", or of the variable "COLL_TCP_SECURITY"; "" for every other name. */
static void config_security_section(const struct config_value *value, char section[64])
{
	const int is_variable = value->source == SOURCE_ENVIRONMENT;
	const char *name = value->name + (is_variable ? strlen("COLL_") : 0);
	const size_t key = strlen(config_security_key) + 1, len = strlen(name);

	section[0] = '\0';
	if (len <= key || len - key >= 64 || name[len - key] != (is_variable ? '_' : '.') ||
	    strcasecmp(name + len - key + 1, config_security_key) != 0)
		return;
	snprintf(section, 64, "%.*s", (int)(len - key), name);
	for (char *at = section; *at; at++)
		*at = (char)tolower((unsigned char)*at);
}

/* Later values come from sources of higher precedence. */
static int config_is_overruled(const struct config *config, int index, const char *section)
{
	char later[64];

	for (int i = index + 1; i < config->nvalues; i++) {
		config_security_section(&config->value[i], later);
		if (!strcmp(later, section))
			return 1;
	}
	return 0;
}

int config_security(const struct config *config, int index, struct config_security *out)
{
	for (int i = 0; i < config->nvalues; i++) {
		const struct config_value *value = &config->value[i];

		config_security_section(value, out->section);
		if (!out->section[0] || !config_asks(value->text) ||
		    config_is_overruled(config, i, out->section) || index-- > 0)
			continue;
		out->value = value->text;
		out->source = value->place;
		return 1;
	}
	return 0;
}

void config_check_security(struct config *config)
{
	for (int i = 0; i < config->nvalues; i++) {
		struct config_value *value = &config->value[i];

		if (value->source != SOURCE_ENVIRONMENT || strcmp(value->name, "COLL_SECURITY") ||
		    !config_asks(value->text))
			continue;
		value->used = 1;
		config_report(config, COLL_ERR_CONFIG,
			      "COLL_SECURITY is set, but `security` is an option of a backend: set "
			      "COLL_TCP_SECURITY");
	}
}
