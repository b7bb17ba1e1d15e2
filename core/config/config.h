/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.h - options: application's struct > environment > user's file > system files > default.
 *
 * Core options have no section ("timeout"); a backend's have its name ("tcp.interface").  Given
 * values are collected first, then checked when their owner declares its options: the core does so
 * at load, a backend when its plugin is loaded.  A wrong value, unknown key or bad line is
 * COLL_ERR_CONFIG with file:line or the variable's name.  The config is immutable after config_declare of the last
 * backend; then any thread may read it.
 */
#ifndef CORE_CONFIG_CONFIG_H
#define CORE_CONFIG_CONFIG_H

#include "base/log.h"

#include <coll/backend.h>

struct config;

/* No wait lasts longer than a year. */
enum { CONFIG_LONGEST_SECONDS = 366 * 24 * 60 * 60 };

/* Returns COLL_ERR_INVALID_ARGUMENT with "FUNCTION: NAME is 0, but must be from 1 to ..." for a limit that no wait may have. */
int config_check_timeout(const char *function, const char *name, int64_t ms);

/*
 * Another folder's check of the values of the core's options of type STRING.  Returns 0, also for a key that is not its
 * own, or -1 and in `why` the reason why the option cannot have the value.
 */
typedef int (*config_check)(const char *key, const char *value, char *why, size_t size);

/*
 * Collects all sources.  *config is always made (except for COLL_ERR_NO_MEMORY), also when the return
 * is an error, so that coll_info can show it: the first fault is returned, all are diagnostics.
 */
int config_load(const coll_config_t *app, config_check check, struct config **config);
void config_free(struct config *config);

/*
 * Declares the options of a backend (section) and checks the values given for them.  A STRING option with the unit
 * "a|b|c" takes one of these words, and has no unit.
 */
int config_declare(struct config *config, const char *section, const coll_option_t *options,
		   uint32_t n);
/*
 * Declares "<section>.priority", which every backend has.  Returns 1 and *priority if a source gave a good value, else
 * 0.  The next config_declare returns the fault of a wrong value.
 */
int config_priority(struct config *config, const char *section, int32_t *priority);

/*
 * Accepts the section of a backend whose plugin is not opened, or cannot be opened, and does not read its values and
 * variables.  If the backend declares its options later, config_declare reads the section after all.
 */
void config_accept(struct config *config, const char *section);

/*
 * To be called when every backend that was found has declared its options, or its section is accepted.
 * A section that no backend has is COLL_ERR_CONFIG if its name is like a known name, else a warning.
 */
int config_check_sections(struct config *config);

/*
 * Values in force.  The name is "timeout" or "tcp.interface" and must have been declared.  The string belongs to
 * config.  Durations are in microseconds, sizes in bytes, booleans 0 or 1.  config_string returns NULL for an option
 * without value and default.
 */
const char *config_string(const struct config *config, const char *name);
int64_t config_int(const struct config *config, const char *name);
/* Returns 1 if the number lies within the option's range, which *min and *max receive; else 0. */
int config_allows(const struct config *config, const char *name, int64_t number, int64_t *min,
		  int64_t *max);
/* Returns 1 if a source gave the value in force; 0 if that is the default, and for an unknown name. */
int config_is_set(const struct config *config, const char *name);
/* The default of the option, or NULL. */
const char *config_default(const struct config *config, const char *name);
/* The source of the value: "default", "application", "COLL_TIMEOUT", "/etc/coll.conf:12". */
const char *config_source(const struct config *config, const char *name);

/*
 * The value of a key that a backend declared, for its plugin.  NULL or 0 if the backend did not declare
 * the key, or declared it with another type.
 */
const char *config_backend_string(const struct config *config, const coll_backend_t *backend,
				  const char *key);
int64_t config_backend_int(const struct config *config, const coll_backend_t *backend,
			   const char *key);

/*
 * The user asks a backend to protect messages, by the key `security` of its section.  The backend may be closed, or not
 * installed here.
 */
struct config_security {
	char section[64];
	const char *value, *source;
};
/* Finds the index-th section whose value in force asks for protection.  Returns 0 if there are no more. */
int config_security(const struct config *config, int index, struct config_security *out);
/* Does a value of `security` ask for protection?  "none" and "no" do not. */
int config_asks(const char *value);

/*
 * The options of the log are in force for the process from config_load on, but for the file, whose name may have the
 * rank: config_open_log opens it, and later lines that are about a communicator with this configuration have this
 * place.  A file that cannot be opened is a warning.  Then logs which files were read, and which were not there.
 */
void config_open_log(struct config *config, int rank);
/* Returns subsystem and place for a line about a communicator with this configuration; `config` may be NULL. */
struct log_about config_log_about(const struct config *config, const char *subsystem);

/* For coll_info: every declared option except the priorities, in order of declaration. */
int config_count(const struct config *config);
int config_describe(const struct config *config, int index, coll_option_info_t *out);
/* Files read, files absent, faults, values that belong to no declared option: one sentence each. */
int config_diagnostic_count(const struct config *config);
const char *config_diagnostic(const struct config *config, int index);
/*
 * Logs the COLL_ variables and the sections that belong to no declared option, once per process: to be
 * called after config_check_sections.
 */
void config_warn_unused(const struct config *config);

/*
 * Copies the application's struct of any version's size to this version's struct; NULL gives all defaults.  A size
 * that coll_config_init cannot have set is COLL_ERR_INVALID_ARGUMENT, and *out holds all defaults.
 */
int config_app(const coll_config_t *in, coll_config_t *out);

#endif
