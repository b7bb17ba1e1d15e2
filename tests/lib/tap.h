/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap.h - the Test Anything Protocol for C tests, in one header; safe to use from several threads.
 *
 *   int main(void)
 *   {
 *           ok(1 + 1 == 2, "sum of %d and %d", 1, 1);
 *           is_int(f(), 0, "f succeeds");
 *           is_str(name(), "x", "its name");
 *           return done_testing();
 *   }
 *
 * plan(n) at the start or done_testing() at the end, or both (then the numbers must agree).  main
 * returns done_testing(), so that a failure is also the exit status.  A check returns whether it
 * held.  A program that still runs after TAP_LIMIT_S seconds is ended.
 */
#ifndef TESTS_TAP_H
#define TESTS_TAP_H

#include <inttypes.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define TAP_FORMAT(at) __attribute__((unused, format(printf, at, at + 1)))

static struct {
	pthread_mutex_t lock;
	int planned, run, failed;
} tap = {PTHREAD_MUTEX_INITIALIZER, 0, 0, 0};

enum { TAP_LIMIT_S = 900 };

/* SIGALRM ends a program that hangs, which so has failed.  A program with another limit sets its own alarm. */
__attribute__((constructor)) static void tap_limit(void)
{
	alarm(TAP_LIMIT_S);
}

/* Each line goes to stdout at once, so that a fork or an abort neither loses nor repeats it. */
__attribute__((unused)) static void tap_vprint(const char *prefix, const char *fmt, va_list args)
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

/* Announces n checks. */
__attribute__((unused)) static void plan(int n)
{
	tap.planned = n;
	printf("1..%d\n", n);
	fflush(stdout);
}

/* Prints a diagnostic line for the log. */
TAP_FORMAT(1) static void diag(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	pthread_mutex_lock(&tap.lock);
	tap_vprint("# ", fmt, args);
	pthread_mutex_unlock(&tap.lock);
	va_end(args);
}

/* Reports one check, named by fmt. */
TAP_FORMAT(2) static int ok(int cond, const char *fmt, ...)
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

/* Checks that two integers are equal; shows both if not. */
TAP_FORMAT(3) static int is_int(int64_t got, int64_t want, const char *fmt, ...)
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

/* Checks that two strings are equal, NULL only to NULL; shows both if not. */
TAP_FORMAT(3) static int is_str(const char *got, const char *want, const char *fmt, ...)
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

/* Checks that a text contains a piece; shows both if not. */
TAP_FORMAT(3) static int has_str(const char *text, const char *piece, const char *fmt, ...)
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

/* Reports n checks that cannot run here, and the reason. */
TAP_FORMAT(2) static void skip(int n, const char *fmt, ...)
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

/* Ends the program as a skipped test: no check of the file can run here. */
__attribute__((noreturn)) TAP_FORMAT(1) static void skip_all(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	tap_vprint("1..0 # SKIP ", fmt, args);
	va_end(args);
	exit(0);
}

/* Ends the program as a failed test: the remaining checks would be meaningless. */
__attribute__((noreturn)) TAP_FORMAT(1) static void bail_out(const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	tap_vprint("Bail out! ", fmt, args);
	va_end(args);
	exit(255);
}

/*
 * Prints the plan.  Returns the exit status for main: 0 if every check held and their number is
 * right.
 */
__attribute__((unused)) static int done_testing(void)
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

#endif
