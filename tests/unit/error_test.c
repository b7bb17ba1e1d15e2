/* SPDX-License-Identifier: BSD-3-Clause */
/* error_test.c - error texts, result codes, version, log lines; links the core. */
#include "base/error.h"
#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <unistd.h>

#include "../lib/tap.h"

static void test_text(void)
{
	char want[1200];

	is_str(error_text(), "", "no text at first");
	is_int(error_set(COLL_ERR_CONFIG, "file %s:%d", "a", 3), COLL_ERR_CONFIG, "code returned");
	is_str(error_text(), "file a:3", "text formatted");
	error_set(COLL_ERR_REMOTE, "rank 2: %s", error_text());
	is_str(error_text(), "rank 2: file a:3", "the old text may be part of the new one");
	memset(want, 'x', sizeof(want));
	want[sizeof(want) - 1] = '\0';
	error_set(COLL_ERR_SYSTEM, "%s", want);
	is_int((int64_t)strlen(error_text()), 1023, "a long text is cut");
}

static void *other_thread(void *seen)
{
	*(int *)seen = error_text()[0] != '\0';
	error_set(COLL_ERR_SYSTEM, "theirs");
	return NULL;
}

static void test_threads(void)
{
	pthread_t thread;
	int seen = -1;

	error_set(COLL_ERR_SYSTEM, "mine");
	if (pthread_create(&thread, NULL, other_thread, &seen))
		bail_out("no thread");
	pthread_join(thread, NULL);
	is_int(seen, 0, "another thread begins without text");
	is_str(error_text(), "mine", "and does not change ours");
}

static void test_plugin_error(void)
{
	coll_error_t err;

	error_clear(&err);
	is_int(err.size, sizeof(err), "a blank error has its size");
	is_int(error_take(COLL_ERR_DEVICE, &err), COLL_ERR_DEVICE, "taken: its code");
	is_str(error_text(), coll_error_string(COLL_ERR_DEVICE), "no text: the code's sentence");
	error_take(COLL_ERR_DEVICE, NULL);
	is_str(error_text(), coll_error_string(COLL_ERR_DEVICE), "nothing: the same");
	is_int(error_fill(&err, COLL_ERR_PLUGIN, "bad %d", 7), COLL_ERR_PLUGIN, "filled: code");
	is_int(err.code, COLL_ERR_PLUGIN, "filled: code inside");
	error_take(COLL_ERR_PLUGIN, &err);
	is_str(error_text(), "bad 7", "filled, then taken");
	is_int(error_fill(NULL, COLL_ERR_PLUGIN, "x"), COLL_ERR_PLUGIN, "NULL may be filled");
	memset(err.text, 'y', sizeof(err.text));
	error_take(COLL_ERR_PLUGIN, &err);
	is_int((int64_t)strlen(error_text()), sizeof(err.text) - 1, "text without its NUL");
	error_fill(&err, COLL_ERR_PLUGIN, "%600d", 1);
	is_int((int64_t)strlen(err.text), sizeof(err.text) - 1, "a long text is cut");
}

static void test_codes(void)
{
	const char *sentence;
	int code, known = 0;

	for (code = -1; code < 40; code++) {
		sentence = coll_error_string(code);
		if (!sentence || !sentence[0])
			ok(0, "code %d has a sentence", code);
		known += sentence && strcmp(sentence, "unknown result code") != 0;
	}
	is_int(known, 20, "every code of coll.h has a sentence of its own");
	has_str(coll_version_string(), ".", "version %s", coll_version_string());
	ok(coll_version_number() > 0, "version number %d", coll_version_number());
}

/* Captures the output of fn on stderr. */
static const char *captured(void (*fn)(void))
{
	static char text[8192];
	int fd[2], saved = dup(2);
	ssize_t n;

	if (pipe(fd) || saved < 0 || dup2(fd[1], 2) < 0)
		bail_out("cannot redirect stderr");
	close(fd[1]);
	fn();
	dup2(saved, 2);
	close(saved);
	n = read(fd[0], text, sizeof(text) - 1);
	close(fd[0]);
	text[n > 0 ? n : 0] = '\0';
	return text;
}

static void say(void)
{
	const struct log_about nowhere = log_here(NULL);

	log_error("e%d", 1);
	log_warn("w");
	log_info("i");
	log_debug("d");
	log_plugin(&nowhere, COLL_LOG_TRACE, "tcp", "t");
}

static void say_ugly(void)
{
	log_warn("two\nlines\x1b[1m");
}

static void say_long(void)
{
	log_warn("%3000d", 1);
}

static void say_closed(void)
{
	int fd[2];

	if (pipe(fd))
		bail_out("pipe");
	close(fd[0]);
	dup2(fd[1], 2);
	close(fd[1]);
	errno = EXDEV;
	log_warn("nobody listens");
}

static void test_log(void)
{
	const char *text;
	sigset_t pending;

	is_int(log_level(), COLL_LOG_WARN, "level at first");
	is_str(captured(say), "coll error: e1\ncoll warn: w\n", "up to warn");
	log_set_rank(2);
	log_set_level(COLL_LOG_TRACE);
	is_str(captured(say),
	       "coll[rank 2] error: e1\ncoll[rank 2] warn: w\ncoll[rank 2] info: i\n"
	       "coll[rank 2] debug: d\ncoll[rank 2] trace: tcp: t\n",
	       "all, with rank");
	log_set_rank(-1);
	is_str(captured(say_ugly), "coll warn: two lines [1m\n", "one line, no control bytes");
	text = captured(say_long);
	ok(strlen(text) < 1300 && text[strlen(text) - 1] == '\n', "a long line is cut and ends");
	captured(say_closed);
	is_int(errno, EXDEV, "a reader that left: no SIGPIPE, errno as before");
	sigpending(&pending);
	ok(!sigismember(&pending, SIGPIPE), "nor one waiting");
	log_set_level(1000);
	is_int(log_level(), COLL_LOG_TRACE, "level too high");
	log_set_level(-5);
	is_int(log_level(), COLL_LOG_ERROR, "level too low");
}

int main(void)
{
	test_text();
	test_threads();
	test_plugin_error();
	test_codes();
	test_log();
	return done_testing();
}
