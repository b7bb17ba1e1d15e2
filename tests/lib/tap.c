/* SPDX-License-Identifier: BSD-3-Clause */
/* tap.c - prints TAP; counts the checks of the program. */
#include "tap.h"

#include <unistd.h>

static struct {
	pthread_mutex_t lock;
	int planned, run, failed;
} tap = {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0};

/* SIGALRM ends a program that hangs, and so fails it.  A program with another limit sets its own alarm. */
__attribute__((constructor)) static void tap_limit(void)
{
	alarm(TAP_LIMIT_S);
}

/* Sends each line to stdout at once, so that a fork or an abort neither loses nor repeats it. */
static void tap_vprint(const char *prefix, const char *fmt, va_list args)
{
	char text[1024];
	size_t n;

	vsnprintf(text, sizeof(text), fmt, args);
	/* A newline would begin a TAP line of its own, and '#' a directive. */
	for (n = 0; text[n]; n++)
		if (text[n] == '\n')
			text[n] = ' ';
		else if (text[n] == '#' && prefix[0] != '#')
			text[n] = '/';
	printf("%s%s\n", prefix, text);
	fflush(stdout);
}

void plan(int n)
{
	tap.planned = n;
	printf("1..%d\n", n);
	fflush(stdout);
}

void diag(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	pthread_mutex_lock(&tap.lock);
	tap_vprint("# ", fmt, args);
	pthread_mutex_unlock(&tap.lock);
	va_end(args);
}

int ok(int cond, const char *fmt, ...)
{
	char prefix[32];
	va_list args;

	va_start(args, fmt);
	pthread_mutex_lock(&tap.lock);
	tap.run++;
	tap.failed += !cond;
	snprintf(prefix, sizeof(prefix), "%s %d - ", cond ? "ok" : "not ok", tap.run);
	tap_vprint(prefix, fmt, args);
	pthread_mutex_unlock(&tap.lock);
	va_end(args);
	return cond;
}

int is_int(int64_t got, int64_t want, const char *fmt, ...)
{
	char name[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	if (ok(got == want, "%s", name))
		return 1;
	diag("     got %" PRId64 ", expected %" PRId64, got, want);
	return 0;
}

int is_str(const char *got, const char *want, const char *fmt, ...)
{
	char name[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	if (ok(got && want ? strcmp(got, want) == 0 : got == want, "%s", name))
		return 1;
	diag("     got '%s'", got ? got : "(null)");
	diag("expected '%s'", want ? want : "(null)");
	return 0;
}

int has_str(const char *text, const char *piece, const char *fmt, ...)
{
	char name[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(name, sizeof(name), fmt, args);
	va_end(args);
	if (ok(text && strstr(text, piece) != NULL, "%s", name))
		return 1;
	diag("     got '%s'", text ? text : "(null)");
	diag("expected '%s' in it", piece);
	return 0;
}

void skip(int n, const char *fmt, ...)
{
	char prefix[48], reason[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(reason, sizeof(reason), fmt, args);
	va_end(args);
	pthread_mutex_lock(&tap.lock);
	for (; n > 0; n--) {
		snprintf(prefix, sizeof(prefix), "ok %d # SKIP ", ++tap.run);
		printf("%s%s\n", prefix, reason);
	}
	fflush(stdout);
	pthread_mutex_unlock(&tap.lock);
}

void skip_all(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	tap_vprint("1..0 # SKIP ", fmt, args);
	va_end(args);
	exit(0);
}

void bail_out(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	tap_vprint("Bail out! ", fmt, args);
	va_end(args);
	exit(255);
}

int done_testing(void)
{
	if (!tap.planned)
		plan(tap.run);
	if (tap.planned != tap.run)
		printf("# planned %d checks but ran %d\n", tap.planned, tap.run);
	if (tap.failed)
		printf("# %d of %d checks failed\n", tap.failed, tap.run);
	fflush(stdout);
	return tap.failed || tap.planned != tap.run;
}
