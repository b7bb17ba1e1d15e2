/* SPDX-License-Identifier: BSD-3-Clause */
/* launch_env.h - the environment variables of launchers; for core/bootstrap/ only. */
#ifndef CORE_BOOTSTRAP_LAUNCH_ENV_H
#define CORE_BOOTSTRAP_LAUNCH_ENV_H

#include <stddef.h>

/*
 * The value of an environment variable without white space before it; NULL if it is unset or white space only, or if
 * name is NULL.
 */
const char *launch_get(const char *name);
/* The number of bytes of a value of launch_get without the white space behind it. */
size_t launch_length(const char *value);
/* The value without white space around it, in `text`; "" if launch_get returns NULL. */
const char *launch_text(const char *name, char *text, size_t size);
/* Are two variables set and equal? */
int launch_same(const char *a, const char *b);

/* Has `coll run` started this process, itself or through another launcher? */
int launch_is_below_run(void);
/* Has the variable the value with which `coll run` left it, or another?  0 and 0 without `coll run`, and for NULL. */
int launch_is_left(const char *name);
int launch_is_newer(const char *name);

#endif
