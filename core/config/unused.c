/* SPDX-License-Identifier: BSD-3-Clause */
/* unused.c - diagnostics of values that belong to no declared option, with a similar declared name. */
#include "config/config_impl.h"
#include "base/suggest.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* The length of a name's section: 3 for "tcp.interface", 0 for "timeout". */
static size_t config_section_length(const char *name)
{
	const char *dot = strchr(name, '.');

	return dot ? (size_t)(dot - name) : 0;
}

static int config_same_section(const char *a, const char *b)
{
	const size_t len = config_section_length(a);

	return config_section_length(b) == len && strncmp(a, b, len) == 0;
}

/* --------------------------------------------------------------- declared sections -- */

static void config_report_key(struct config *config, const struct config_value *value)
{
	const size_t section = config_section_length(value->name);
	const char *key = value->name + section + (section > 0);
	struct suggestion guess;

	if (section && config_find(config, key)) {
		config_report(config, COLL_ERR_CONFIG,
			      "%s: unknown option '%s'; '%s' has no section: it goes above the "
			      "first section",
			      config_place(value).text, config_show(value->name).text,
			      config_show(key).text);
		return;
	}
	suggest_begin(&guess, value->name, (size_t)(key - value->name));
	for (int i = 0; i < config->noptions; i++)
		if (config_same_section(config->option[i].name, value->name))
			suggest_try(&guess, config->option[i].name);
	config_report(config, COLL_ERR_CONFIG, "%s: unknown option '%s'%s",
		      config_place(value).text, config_show(value->name).text,
		      suggest_text(&guess));
}

void config_report_unknown(struct config *config, const char *section)
{
	const size_t len = strlen(section);

	for (int i = 0; i < config->nvalues; i++) {
		const struct config_value *value = &config->value[i];

		if (value->source != SOURCE_ENVIRONMENT && !value->used &&
		    config_section_length(value->name) == len &&
		    strncmp(value->name, section, len) == 0)
			config_report_key(config, value);
	}
}

/* ----------------------------------------------------------------------- variables -- */

static void config_report_variable(struct config *config, const char *variable)
{
	struct suggestion guess;

	suggest_begin(&guess, variable, strlen("COLL_"));
	for (int i = 0; config_reserved[i]; i++)
		suggest_try(&guess, config_reserved[i]);
	for (int i = 0; i < config->noptions; i++)
		suggest_try(&guess, config->option[i].variable);
	config_report(config, CONFIG_UNUSED,
		      "%s is set, but libcoll and the backends here have no such option%s",
		      config_show(variable).text, suggest_text(&guess));
}

/* Does the variable belong to a section that is accepted unread?  Such a variable begins with the section's name. */
static int config_is_unread(const struct config *config, const char *variable)
{
	for (int i = 0; i < config->noptions; i++) {
		const struct config_option *option = &config->option[i];

		if (option->unread && !strncmp(variable, option->variable,
					       strlen(option->variable) - strlen("PRIORITY")))
			return 1;
	}
	return 0;
}

/* ------------------------------------------------------------- undeclared sections -- */

/* The section of a name, for messages and suggestions. */
struct config_section {
	char text[SUGGEST_WORD_SIZE];
};

static struct config_section config_section(const char *name)
{
	struct config_section section;

	snprintf(section.text, sizeof(section.text), "%.*s", (int)config_section_length(name),
		 name);
	return section;
}

/* The library's own backends: a file may have sections for them also where this build lacks them. */
static const char *const config_own_backends[] = {"nccl", "simulated", "tcp", "ucx", NULL};

static int config_is_own_backend(const char *section)
{
	for (int i = 0; config_own_backends[i]; i++)
		if (strcmp(section, config_own_backends[i]) == 0)
			return 1;
	return 0;
}

static void config_suggest_section(const struct config *config, struct suggestion *guess,
				   const char *section)
{
	suggest_begin(guess, section, 0);
	for (int i = 0; i < config->noptions; i++)
		if (config->option[i].is_priority)
			suggest_try(guess, config_section(config->option[i].name).text);
	for (int i = 0; config_own_backends[i]; i++)
		suggest_try(guess, config_own_backends[i]);
}

/*
 * Is a section the known name with a typing error?  Names of three letters are near to many others ("ucc" to
 * "ucx"), so such a section must have the letters of the known name.
 */
static int config_is_misspelt(const char *section, const char *known)
{
	if (!known[0] || config_is_own_backend(section))
		return 0;
	if (strlen(section) > 3)
		return 1;
	for (const char *at = known; *at; at++)
		if (!strcasestr(section, (const char[]){*at, '\0'}))
			return 0;
	return strlen(section) == strlen(known);
}

/* The end of the message on a section that must be a typing error. */
static const char *config_wrong_section(const struct config_value *value, int library,
					struct suggestion *guess)
{
	if (!library)
		return suggest_text(guess);
	return value->source == SOURCE_APPLICATION
		       ? "; options of the library have no backend's name before them"
		       : "; options of the library go above the first section";
}

/*
 * Reports the first value of a section that no backend has declared.  The section may belong to a plugin of
 * another host.  Once all backends have declared their sections, a name like a known one is a typing error.
 */
static void config_report_section(struct config *config, struct config_value *value)
{
	const struct config_section section = config_section(value->name);
	const int own = config_is_own_backend(section.text),
		  library = !strcasecmp(section.text, "coll");
	struct suggestion guess;

	config_suggest_section(config, &guess, section.text);
	if (!config->complete || (!library && !config_is_misspelt(section.text, guess.best))) {
		config_report(config, own ? CONFIG_UNUSED_OWN : CONFIG_UNUSED,
			      "%s: there is no backend '%s' here; its options are not checked%s",
			      config_place(value).text, config_show(section.text).text,
			      own ? "" : suggest_text(&guess));
		return;
	}
	value->used = 1; /* no second fault */
	config_report(config, COLL_ERR_CONFIG,
		      "%s: unknown option '%s': there is no backend '%s'%s%s",
		      config_place(value).text, config_show(value->name).text,
		      config_show(section.text).text, library ? "" : " here",
		      config_wrong_section(value, library, &guess));
}

/* Is the value the first value of its source for an undeclared section? */
static int config_begins_unused_section(const struct config *config,
					const struct config_value *value)
{
	const struct config_value *before = value;

	if (!config_section_length(value->name))
		return 0;
	for (int i = 0; i < config->noptions; i++)
		if (config->option[i].is_priority &&
		    config_same_section(config->option[i].name, value->name))
			return 0;
	while (before > config->value && before[-1].source == value->source)
		if (config_same_section((--before)->name, value->name))
			return 0;
	return 1;
}

/* ------------------------------------------------------------------ names of the log -- */

/* Is it a subsystem of the library, or a backend or another plugin that has a section? */
static int config_is_log_name(const struct config *config, const char *name)
{
	for (int i = 0; log_subsystems[i]; i++)
		if (!strcmp(name, log_subsystems[i]))
			return 1;
	for (int i = 0; i < config->noptions; i++)
		if (config->option[i].is_priority &&
		    !strcmp(name, config_section(config->option[i].name).text))
			return 1;
	return config_is_own_backend(name);
}

/* A name that is like a known name is a typing error.  Any other name may belong to a plugin of another host. */
static void config_report_log_name(struct config *config, const char *name)
{
	struct suggestion guess;
	int wrong;

	config_suggest_section(config, &guess, name);
	for (int i = 0; log_subsystems[i]; i++)
		suggest_try(&guess, log_subsystems[i]);
	wrong = config_is_misspelt(name, guess.best);
	if (wrong && config->log_names_told)
		return;
	config->log_names_told |= wrong;
	config_report(config, wrong ? COLL_ERR_CONFIG : CONFIG_UNUSED,
		      "%s: option 'log' has a level for '%s', but no part of the library and no "
		      "backend here has that name%s",
		      config_source(config, "log"), name, suggest_text(&guess));
}

static void config_report_log_names(struct config *config)
{
	struct log_levels levels;
	char why[200];

	if (log_levels_parse(config_string(config, "log"), &levels, why, sizeof(why)))
		return;
	for (int i = 0; i < levels.count; i++)
		if (!config_is_log_name(config, levels.of[i].name))
			config_report_log_name(config, levels.of[i].name);
}

/* --------------------------------------------------------------------------- the whole -- */

static void config_drop_unused(struct config *config)
{
	int remaining = 0;

	for (int i = 0; i < config->ndiagnostics; i++)
		if (config->diagnostic[i].code >= 0)
			config->diagnostic[remaining++] = config->diagnostic[i];
		else
			free(config->diagnostic[i].text);
	config->ndiagnostics = remaining;
}

void config_report_unused(struct config *config)
{
	config_drop_unused(config);
	for (int i = 0; i < config->nvalues; i++) {
		struct config_value *value = &config->value[i];

		if (value->used)
			continue;
		if (value->source == SOURCE_ENVIRONMENT && !config_is_unread(config, value->name))
			config_report_variable(config, value->name);
		else if (config_begins_unused_section(config, value))
			config_report_section(config, value);
	}
	if (config->complete)
		config_report_log_names(config);
}

int config_check_sections(struct config *config)
{
	config->complete = 1;
	config_report_unused(config);
	return config_status(config);
}
