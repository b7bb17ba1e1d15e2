/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * config.h - options: application's struct > environment > user's file > system files > default.
 *
 * Core options have no section ("timeout"); a backend's have its name ("tcp.interface").  Raw
 * values are collected first, then checked when their owner declares them: the core's at load, a
 * backend's when its plugin is loaded.  A wrong value, unknown key or bad line is COLL_ERR_CONFIG
 * with file:line or the variable's name.  Immutable after conf_declare of the last backend; then
 * readable from any thread.
 */
#ifndef CORE_CONFIG_CONFIG_H
#define CORE_CONFIG_CONFIG_H

#include <coll/backend.h>

struct conf;

/*
 * Collects all sources.  *conf is always made (except for COLL_ERR_NO_MEMORY), also when the return
 * is an error, so that coll_info can show it: the first fault is returned, all are notes.
 */
int conf_load(const coll_config_t *app, struct conf **conf);
void conf_free(struct conf *conf);

/* Declares the options of a backend (section) and checks the raw values given for them. */
int conf_declare(struct conf *conf, const char *section, const coll_option_t *options, uint32_t n);

/*
 * Values in force.  The name is "timeout" or "tcp.interface" and must have been declared.  The
 * string belongs to conf.  Durations are in microseconds, sizes in bytes, booleans 0 or 1.
 * conf_string: NULL if unset without default.
 */
const char *conf_string(const struct conf *conf, const char *name);
int64_t conf_int(const struct conf *conf, const char *name);
/* Was a value given by anyone, that is, is it not the default?  Unknown names: 0. */
int conf_is_set(const struct conf *conf, const char *name);
/* Its default, or NULL. */
const char *conf_default(const struct conf *conf, const char *name);
/* Who set it: "default", "application", "COLL_TIMEOUT", "/etc/coll.conf:12". */
const char *conf_source(const struct conf *conf, const char *name);

/*
 * The same for a key that a backend declared, as its plugin may ask: NULL or 0 if it did not declare
 * it, or with another type.
 */
const char *conf_backend_string(const struct conf *conf, const coll_backend_t *backend,
				const char *key);
int64_t conf_backend_int(const struct conf *conf, const coll_backend_t *backend, const char *key);

/* "<section>.priority", if anyone set it: 1 and *priority; else 0. */
int conf_priority(const struct conf *conf, const char *section, int32_t *priority);

/* For coll_info: every declared option, in order of declaration. */
int conf_count(const struct conf *conf);
int conf_describe(const struct conf *conf, int index, coll_option_info_t *out);
/* Files read, files absent, faults, unknown COLL_ variables: one sentence each. */
int conf_note_count(const struct conf *conf);
const char *conf_note(const struct conf *conf, int index);
/*
 * Logs the COLL_ variables that nobody has declared, once per process: to be called when every
 * backend has.
 */
void conf_warn_unknown_env(const struct conf *conf);

/* "; did you mean 'x'?" with the one of n names that is most like `word`, or "". */
void conf_did_you_mean(const char *word, const char *const *names, int n, char text[256]);

/*
 * The application's struct (NULL: nothing said), of whatever size, as today's.  A size that
 * coll_config_init cannot have set is COLL_ERR_INVALID_ARGUMENT, and *out says nothing.
 */
int conf_app(const coll_config_t *in, coll_config_t *out);

/*
 * Core options, all of them (declare.c holds the table with defaults and help):
 *   backend plugin_path interface timeout(300s) init_timeout(60s) destroy_timeout(5s) log(warn)
 *   progress(caller) poll(us before yielding) yield(us before sleeping)
 *   segment(bytes) node_size enable_gpu_fallback reproducible
 *   <collective>_algorithm (rules.h)
 */

#endif
