/* SPDX-License-Identifier: BSD-3-Clause */
/* log_options.c - the options of the log: their values, and where the lines of a configuration go. */
#include "config/config_impl.h"
#include "base/log_file.h"
#include "base/path_pattern.h"

#include <string.h>

int config_check_log(const char *key, const char *value, char *why, size_t size)
{
	struct log_levels levels;

	if (!strcmp(key, "log"))
		return log_levels_parse(value, &levels, why, size);
	if (!strcmp(key, "log_file"))
		return path_pattern_check(value, "hrp", why, size);
	return 0;
}

void config_apply_log(const struct config *config)
{
	struct log_levels levels;
	char why[200];

	if (!log_levels_parse(config_string(config, "log"), &levels, why, sizeof(why)))
		log_set_levels(&levels);
	log_set_format(config_is_set(config, "log_format")
			       ? (enum log_format)config_int(config, "log_format")
			       : LOG_UNSET);
}

void config_open_log(struct config *config, int rank)
{
	const char *pattern = config_string(config, "log_file");
	struct log_about about;

	config->log.rank = rank;
	if (pattern && pattern[0])
		config->log.file = log_file_get(pattern, rank);
	about = config_log_about(config, LOG_SUBSYSTEM);
	for (int i = 0; i < config->ndiagnostics; i++)
		if (config->diagnostic[i].code >= 0)
			log_about(&about, COLL_LOG_DEBUG, "%s", config->diagnostic[i].text);
}

struct log_about config_log_about(const struct config *config, const char *subsystem)
{
	struct log_about about = log_here(subsystem);

	if (config && config->log.rank >= 0)
		about.place = config->log;
	return about;
}
