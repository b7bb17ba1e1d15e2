/* SPDX-License-Identifier: BSD-3-Clause */
/* launch_env.c - the environment variables of launchers: their values, and which are for this process; texts of all stores. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/log.h"
#include "bootstrap/bootstrap_kind.h"
#include "meet/launch.h"

const char *launch_get(const char *name)
{
	const char *value = name != NULL ? secure_getenv(name) : NULL;

	while (value != NULL && isspace((unsigned char)*value))
		value++;
	return value != NULL && value[0] != '\0' ? value : NULL;
}

size_t launch_length(const char *value)
{
	size_t n = strlen(value);

	while (n > 0 && isspace((unsigned char)value[n - 1]))
		n--;
	return n;
}

const char *launch_text(const char *name, char *text, size_t size)
{
	const char *value = launch_get(name);

	snprintf(text, size, "%.*s", value != NULL ? (int)launch_length(value) : 0,
		 value != NULL ? value : "");
	return text;
}

int launch_same(const char *a, const char *b)
{
	a = launch_get(a);
	b = launch_get(b);
	return a != NULL && b != NULL && launch_length(a) == launch_length(b) &&
	       strncmp(a, b, launch_length(a)) == 0;
}

/* ---------------------------------------------------------- below `coll run` -- */

/*
 * A program may be started by torchrun or mpirun, which `coll run` has started.  Then it has the variables of both.  So
 * `coll run` records in COLL_RUN how it left the variables of all launchers, as " NAME=value ... NAME ", where a name
 * alone is a variable that was not set.  A variable that differs now was set by a launcher below.
 */
static const char *below_record(void)
{
	return launch_get("COLL_RUN");
}

int launch_is_below_run(void)
{
	return below_record() != NULL;
}

int launch_is_left(const char *name)
{
	const char *record = below_record(), *value = launch_get(name);
	char word[600];

	if (record == NULL || value == NULL)
		return 0;
	return snprintf(word, sizeof(word), " %s=%s ", name, value) < (int)sizeof(word) &&
	       strstr(record, word) != NULL;
}

int launch_is_newer(const char *name)
{
	const char *record = below_record();
	char word[100];

	if (record == NULL || name == NULL || launch_is_left(name))
		return 0;
	snprintf(word, sizeof(word), " %s ", name);
	if (strstr(record, word) != NULL)
		return launch_get(name) != NULL;
	/* A variable that the record does not name counts as unchanged. */
	snprintf(word, sizeof(word), " %s=", name);
	return strstr(record, word) != NULL;
}

/* -------------------------------------------------------------- texts of all stores -- */

void launch_store_stalled(const struct launch_store *store)
{
	log_warn("rank 0 still waits: not all ranks of the launcher's job have come to "
		 "coll_comm_init_env, and %s does not say which",
		 store->name);
}

int launch_store_timed_out(const struct launch_store *store, int64_t timeout_ms)
{
	char seconds[24];

	return error_set(
		COLL_ERR_TIMEOUT,
		"timed out after %s s: not all ranks of the launcher's job have met through "
		"%s; is each of them in coll_comm_init_env?",
		bootstrap_seconds(timeout_ms, seconds), store->name);
}
