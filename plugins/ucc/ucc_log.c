/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucc_log.c - the messages of UCC and of the UCX below it, which UCC writes by UCX's functions.
 *
 * UCX has one list of handlers for the process.  While no endpoint of this plugin is open, the messages of threads that are not
 * in this plugin go on to the next handler.
 */
#include "ucc.h"

#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* ucs_log_level_t */
enum { LOG_FATAL = 0, LOG_WARN = 2, LOG_INFO = 4 };

/* What the thread does in this plugin: nothing, or calls for `host`; or ends a context without a host. */
static _Thread_local const coll_host_t *log_host;
static _Thread_local int log_is_quiet;
/* The open endpoints. */
static pthread_mutex_t log_lock = PTHREAD_MUTEX_INITIALIZER;
static struct ucc *log_open;
/* The last warning or error since ucc_log_begin, or of an operation. */
static _Thread_local char log_warning[200];

const coll_host_t *ucc_log_begin(const coll_host_t *host)
{
	const coll_host_t *before = log_host;

	log_host = host;
	log_warning[0] = '\0';
	return before;
}

void ucc_log_end(const coll_host_t *before)
{
	log_host = before;
}

void ucc_log_add(struct ucc *u)
{
	pthread_mutex_lock(&log_lock);
	u->next_open = log_open;
	log_open = u;
	pthread_mutex_unlock(&log_lock);
}

void ucc_log_remove(struct ucc *u)
{
	struct ucc **at = &log_open;

	pthread_mutex_lock(&log_lock);
	while (*at && *at != u)
		at = &(*at)->next_open;
	if (*at)
		*at = u->next_open;
	pthread_mutex_unlock(&log_lock);
}

void ucc_log_quiet(void)
{
	log_is_quiet = 1;
}

const char *ucc_log_take_warning(char *text, size_t size)
{
	snprintf(text, size, "%s", log_warning);
	log_warning[0] = '\0';
	return text;
}

static void log_text(const coll_host_t *host, int level, const char *text)
{
	kit_log(host, level <= LOG_WARN ? COLL_LOG_INFO : COLL_LOG_DEBUG, "UCC: %s", text);
}

/* 1 if an endpoint is open. */
static int log_by_endpoint(int level, const char *text)
{
	int logged;

	if (pthread_mutex_trylock(&log_lock))
		return 0;
	logged = log_open != NULL;
	if (logged)
		log_text(log_open->host, level, text);
	pthread_mutex_unlock(&log_lock);
	return logged;
}

int ucc_log_handle(const char *file, unsigned line, const char *function, int level,
		   const void *component, const char *message, va_list args)
{
	char text[400];

	(void)file, (void)line, (void)function, (void)component;
	if (level == LOG_FATAL || level > LOG_INFO)
		return 1;
	vsnprintf(text, sizeof(text), message, args);
	if (level <= LOG_WARN)
		snprintf(log_warning, sizeof(log_warning), "%.199s", text);
	if (log_is_quiet)
		return 0;
	if (!log_host)
		return !log_by_endpoint(level, text);
	log_text(log_host, level, text);
	return 0;
}
