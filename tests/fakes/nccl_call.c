/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * nccl_call.c - services for every call: the environment, planned faults, counters, the last error.
 */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "nccl_parts.h"

#ifdef STANDIN_NCCL_OLD
enum { CALL_VERSION = 21805 };
#else
enum { CALL_VERSION = 22809 };
#endif

enum { CALL_FUNCTIONS = 48, CALL_NAME = 32, CALL_TEXT = 512 };

static struct {
	pthread_mutex_t lock;
	char names[CALL_FUNCTIONS][CALL_NAME];
	long counts[CALL_FUNCTIONS];
	long before[CALL_FUNCTIONS][CALL_FUNCTIONS]; /* the counts at the first call of each */
	long launches;
	char error[CALL_TEXT];
} call = {.lock = PTHREAD_MUTEX_INITIALIZER};

long call_env(const char *name, long fallback)
{
	const char *text = getenv(name);

	return text && *text ? strtol(text, NULL, 10) : fallback;
}

int call_version(void)
{
	return (int)call_env("STANDIN_NCCL_VERSION", CALL_VERSION);
}

/* The place of a function in the tables, or of a free one.  The lock is held. */
static int call_find(const char *fn)
{
	int i;

	for (i = 0; i < CALL_FUNCTIONS - 1 && call.names[i][0]; i++)
		if (strcmp(call.names[i], fn) == 0)
			break;
	return i;
}

/* The calls of fn before the first one of the other function; -1: that was not called yet. */
static long call_before(const char *fn, const char *other)
{
	long n = -1;
	int i;

	pthread_mutex_lock(&call.lock);
	i = call_find(other);
	if (call.counts[i])
		n = call.before[i][call_find(fn)];
	pthread_mutex_unlock(&call.lock);
	return n;
}

/* The result with which the n-th call of fn must fail, from "function:result@n[/other][,...]". */
static int call_planned(const char *fn, long n)
{
	const char *at = getenv("STANDIN_NCCL_FAULT");
	size_t len = strlen(fn);
	char other[CALL_NAME];
	long result, nth, before;
	int parts;

	for (; at; at = strchr(at, ',') ? strchr(at, ',') + 1 : NULL) {
		if (strncmp(at, fn, len) != 0 || at[len] != ':')
			continue;
		parts = sscanf(at + len + 1, "%ld@%ld/%31[^,]", &result, &nth, other);
		before = parts == 3 ? call_before(fn, other) : 0;
		if (parts >= 2 && before >= 0 && nth == n - before)
			return call_fail((int)result, "%s: planned failure of call %ld", fn, n);
	}
	return NCCL_SUCCESS;
}

int call_count(const char *fn)
{
	long n;
	int i;

	pthread_mutex_lock(&call.lock);
	i = call_find(fn);
	snprintf(call.names[i], sizeof(call.names[i]), "%s", fn);
	if (!call.counts[i])
		memcpy(call.before[i], call.counts, sizeof(call.counts));
	n = ++call.counts[i];
	pthread_mutex_unlock(&call.lock);
	return call_planned(fn, n);
}

long standin_nccl_calls(const char *function)
{
	long n = 0;
	int i;

	pthread_mutex_lock(&call.lock);
	for (i = 0; i < CALL_FUNCTIONS; i++)
		if (strcmp(call.names[i], function) == 0)
			n = call.counts[i];
	pthread_mutex_unlock(&call.lock);
	return n;
}

int call_async_fault(void)
{
	const char *text = getenv("STANDIN_NCCL_ASYNC");
	long result, nth, n;

	pthread_mutex_lock(&call.lock);
	n = ++call.launches;
	pthread_mutex_unlock(&call.lock);
	if (text && sscanf(text, "%ld@%ld", &result, &nth) == 2 && nth == n)
		return call_fail((int)result, "planned failure of launch %ld", n);
	return NCCL_SUCCESS;
}

int call_fail(int code, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	pthread_mutex_lock(&call.lock);
	vsnprintf(call.error, sizeof(call.error), fmt, args);
	pthread_mutex_unlock(&call.lock);
	va_end(args);
	return code;
}

void call_misuse(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	fputs("stand-in NCCL: MISUSE: ", stderr);
	vfprintf(stderr, fmt, args);
	fputc('\n', stderr);
	va_end(args);
	abort();
}

void call_delay(void)
{
	static atomic_uint seed = 1;
	long most = call_env("STANDIN_NCCL_DELAY_US", 300);
	unsigned mixed = atomic_fetch_add(&seed, 1) * 2654435761u;
	struct timespec wait = {0, 0};

	if (most <= 0)
		return;
	wait.tv_sec = most / 1000000;
	wait.tv_nsec = (long)((mixed >> 8) % (unsigned)(most % 1000000 + 1)) * 1000;
	nanosleep(&wait, NULL);
}

/* ------------------------------------------------------------------- entries -- */

/* NCCL's library contains this text. */
__attribute__((used)) static const char call_built[] =
#ifdef STANDIN_NCCL_OLD
	"NCCL version 2.18.5+cuda12.1";
#else
	"NCCL version 2.28.9+cuda13.0";
#endif

int ncclGetVersion(int *version)
{
	int code = call_count("ncclGetVersion");

	if (code)
		return code;
	if (!version)
		return NCCL_INVALID_ARGUMENT;
	*version = call_version();
	return NCCL_SUCCESS;
}

const char *ncclGetErrorString(int result)
{
	static const char *const texts[] = {
		"no error",
		"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
		"unhandled system error (run with NCCL_DEBUG=INFO for details)",
		"internal error - please report this issue to the NCCL developers",
		"invalid argument (run with NCCL_DEBUG=WARN for details)",
		"invalid usage (run with NCCL_DEBUG=WARN for details)",
		"remote process exited or there was a network error",
		"NCCL operation in progress",
	};

	(void)call_count("ncclGetErrorString");
	if (result < 0 || result > NCCL_IN_PROGRESS)
		return "unknown result code";
	return texts[result];
}

/* As in NCCL, the text is the last error of the process, whatever the communicator. */
const char *ncclGetLastError(nccl_comm_t comm)
{
	static _Thread_local char text[CALL_TEXT];

	(void)comm;
	(void)call_count("ncclGetLastError");
	pthread_mutex_lock(&call.lock);
	memcpy(text, call.error, sizeof(text));
	pthread_mutex_unlock(&call.lock);
	return text;
}
