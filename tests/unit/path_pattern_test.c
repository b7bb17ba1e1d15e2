/* SPDX-License-Identifier: BSD-3-Clause */
/* path_pattern_test.c - paths with the names of a rank in them, and every wrong letter. */
#include "base/path_pattern.h"

#include <stdio.h>
#include <string.h>

#include "../lib/tap.h"

static const struct path_names names = {"node7", 3, 4711, UINT64_C(0xabc)};

static const char *expanded(const char *pattern)
{
	static char out[400], why[200];

	return path_pattern_expand(pattern, &names, out, sizeof(out), why, sizeof(why)) ? why : out;
}

static const char *checked(const char *pattern, const char *letters)
{
	static char why[200];

	why[0] = '\0';
	return path_pattern_check(pattern, letters, why, sizeof(why)) ? why : "good";
}

static void test_expand(void)
{
	is_str(expanded("coll.log"), "coll.log", "a pattern without letters");
	is_str(expanded("/tmp/%h.%r.%p.log"), "/tmp/node7.3.4711.log", "host, rank and process");
	is_str(expanded("%j/%r"), "0000000000000abc/3", "the job has 16 digits");
	is_str(expanded("100%%r%%%r"), "100%r%3", "two percent signs are one, whatever follows");
	is_str(expanded(""), "", "an empty pattern");
}

static void test_host(void)
{
	const struct path_names odd = {"../etc/x", 0, 1, 0}, dots = {"a.b", 0, 1, 0};
	char out[64], why[200];

	path_pattern_expand("d/%h/f", &odd, out, sizeof(out), why, sizeof(why));
	is_str(out, "d/_._etc_x/f", "the name of a host leads to no other directory");
	path_pattern_expand("%h", &dots, out, sizeof(out), why, sizeof(why));
	is_str(out, "a.b", "a host with a domain keeps its dots");
}

static void test_room(void)
{
	char out[8], why[200] = "";

	is_int(path_pattern_expand("abcdef%r", &names, out, sizeof(out), why, sizeof(why)), 0,
	       "a path that just fits");
	is_str(out, "abcdef3", "the path that just fits");
	is_int(path_pattern_expand("abcdefg%r", &names, out, sizeof(out), why, sizeof(why)), -1,
	       "a path that is too long by one");
	is_str(why, "the path is longer than the 7 characters that fit: name a shorter one",
	       "the sentence says what fits");
	out[0] = 'x';
	is_int(path_pattern_expand("", &names, out, 0, why, sizeof(why)), -1, "no room at all");
	ok(out[0] == 'x', "nothing is written then");
	is_str(why, "the buffer for the path has no bytes", "the sentence says so");
}

static void test_check(void)
{
	char pattern[4] = "%?", why[200];
	int passed = 0;

	is_str(checked("%h%r%p%j%%", "hrpj"), "good", "all letters");
	is_str(checked("log", "hrp"), "good", "none");
	is_str(checked("a%j", "hrp"),
	       "%j is not known here: expected %h (host), %r (rank), %p (process id), or %% for "
	       "a %",
	       "a letter that this option does not know");
	is_str(checked("a%", "hrpj"),
	       "it ends with a single %: expected %h (host), %r (rank), %p (process id), %j "
	       "(job), or %% for a %",
	       "a percent sign at the end");
	is_str(checked("a%\n", "r"),
	       "a % has no letter after it: expected %r (rank), or %% for a %",
	       "a control byte is not repeated");
	for (int c = 1; c < 256; c++) {
		pattern[1] = (char)c;
		passed += !path_pattern_check(pattern, "hrpj", why, sizeof(why));
	}
	is_int(passed, 5, "of all bytes after a percent sign five are good");
	is_str(checked("%%%", "r"), "it ends with a single %: expected %r (rank), or %% for a %",
	       "three percent signs");
}

int main(void)
{
	test_expand();
	test_host();
	test_room();
	test_check();
	return done_testing();
}
