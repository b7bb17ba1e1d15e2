/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tap.h - the Test Anything Protocol for C tests, safe to use from several threads.
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

#define TAP_FORMAT(at) __attribute__((format(printf, at, at + 1)))

enum { TAP_LIMIT_S = 900 };

/* Announces n checks. */
void plan(int n);

/* Prints a diagnostic line for the log. */
TAP_FORMAT(1) void diag(const char *fmt, ...);

/* Reports one check, named by fmt. */
TAP_FORMAT(2) int ok(int cond, const char *fmt, ...);

/* Checks that two integers are equal.  Shows both if not. */
TAP_FORMAT(3) int is_int(int64_t got, int64_t want, const char *fmt, ...);

/* Checks that two strings are equal, NULL only to NULL.  Shows both if not. */
TAP_FORMAT(3) int is_str(const char *got, const char *want, const char *fmt, ...);

/* Checks that a text contains a piece.  Shows both if not. */
TAP_FORMAT(3) int has_str(const char *text, const char *piece, const char *fmt, ...);

/* Reports n checks that cannot run here, and the reason. */
TAP_FORMAT(2) void skip(int n, const char *fmt, ...);

/* Ends the program as a skipped test: no check of the file can run here. */
__attribute__((noreturn)) TAP_FORMAT(1) void skip_all(const char *fmt, ...);

/* Ends the program as a failed test: the remaining checks would be meaningless. */
__attribute__((noreturn)) TAP_FORMAT(1) void bail_out(const char *fmt, ...);

/*
 * Prints the plan.  Returns the exit status for main: 0 if every check held and their number is
 * right.
 */
int done_testing(void);

#endif
