/* SPDX-License-Identifier: BSD-3-Clause */
/* pmi_test.c - the store of a launcher that speaks PMI version 1: its answers are written ahead into the socket. */
#include "meet/launch.h"
#include "base/clock.h"
#include "base/error.h"
#include "../lib/log_capture.h"

#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

static int daemon_fd;

/* A launcher that will give these answers. */
static void start(const char *answers)
{
	char number[16];
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM, 0, fds) ||
	    write(fds[1], answers, strlen(answers)) != (ssize_t)strlen(answers))
		bail_out("no socket pair");
	daemon_fd = fds[1];
	snprintf(number, sizeof(number), "%d", fds[0]);
	setenv("PMI_FD", number, 1);
}

#define SPACE "cmd=my_kvsname kvsname=kvs_7\n"

static void test_questions(void)
{
	static const char all[] =
		"cmd=get_my_kvsname\n"
		"cmd=put kvsname=kvs_7 key=k value=no%20%25%3D[::1]:7,a_b-c/%C3%A4\n"
		"cmd=barrier_in\n"
		"cmd=get kvsname=kvs_7 key=k\n";
	char text[64], asked[512];
	ssize_t n;

	start(SPACE "cmd=put_result rc=0 msg=success\ncmd=barrier_out\n");
	ok(pmi_store.is_there(), "PMI_FD is a socket");
	is_int(pmi_store.connect(), COLL_SUCCESS, "the name of the key-value space");
	is_int(pmi_store.put("k", "no %=[::1]:7,a_b-c/\xc3\xa4"), COLL_SUCCESS, "a text is stored");
	is_int(pmi_store.fence(1000, INT64_MAX), COLL_SUCCESS, "all ranks meet");
	n = write(daemon_fd, "cmd=get_result rc=0 msg=success value=no%20%25%3Dx\n", 51);
	is_int(pmi_store.get("k", text, sizeof(text), 1000), COLL_SUCCESS, "a text is read");
	is_str(text, "no %=x", "with the characters that a value cannot have");
	n = read(daemon_fd, asked, sizeof(asked) - 1);
	asked[n > 0 ? n : 0] = '\0';
	is_str(asked, all, "the questions are those of PMI version 1");
}

/* Each in a process of its own, as a connection that has failed stays so. */
struct bad {
	const char *answers;
	int code;
	const char *text;
};

static const struct bad bads[] = {
	{"cmd=who\n", COLL_ERR_SYSTEM, "sends another answer than PMI version 1 has"},
	{"\n", COLL_ERR_SYSTEM, "sends another answer"},
	{"cmd=my_kvsname\n", COLL_ERR_SYSTEM, "gives no kvsname"},
	{"cmd=my_kvsname rc=-1 msg=no\n", COLL_ERR_SYSTEM, "refuses 'cmd=get_my_kvsname"},
	{"cmd=my_kvs", COLL_ERR_SYSTEM, "has closed its connection"},
	{SPACE "cmd=put_result rc=-1 msg=full\n", COLL_ERR_SYSTEM, "msg=full"},
	{SPACE "cmd=put_result rc=0\ncmd=get_result rc=0\n", COLL_ERR_SYSTEM, "another answer"},
};

static void test_bad(const struct bad *bad)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		int code;

		start(bad->answers);
		shutdown(daemon_fd, SHUT_WR);
		code = pmi_store.connect();
		if (!code)
			code = pmi_store.put("k", "text");
		if (!code)
			code = pmi_store.fence(1000, INT64_MAX);
		if (code == bad->code && strstr(error_text(), bad->text))
			_exit(0);
		diag("code %d: %s", code, error_text());
		_exit(1);
	}
	ok(child > 0 && waitpid(child, &status, 0) == child && status == 0, "%s", bad->text);
}

static void test_long_line(void)
{
	char line[4096];
	struct bad bad = {line, COLL_ERR_SYSTEM, "sends a line that is too long"};

	memset(line, 'a', sizeof(line));
	line[sizeof(line) - 1] = '\0';
	test_bad(&bad);
}

static void test_long_text(void)
{
	char text[1100];

	memset(text, ' ', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	is_int(pmi_store.put("k", text), COLL_ERR_INTERNAL, "a text of 1099 spaces is too long");
}

static void test_silence(void)
{
	start("");
	log_begin();
	is_int(pmi_store.fence(600, clock_deadline(20)), COLL_ERR_TIMEOUT,
	       "ranks that do not come");
	log_end();
	is_int(log_lines("rank 0 still waits: not all ranks of the launcher's job have come"), 1,
	       "are logged before the time is up");
	has_str(error_text(), "not all ranks of the launcher's job have met through PMI",
		"are told");
	is_int(write(daemon_fd, "cmd=barrier_out\n", 16), 16, "a late answer");
	is_int(pmi_store.connect(), COLL_ERR_SYSTEM, "is no answer to the next question");
}

static void *answer_late(void *unused)
{
	poll(NULL, 0, 300);
	if (write(daemon_fd, "cmd=barrier_out\n", 16) < 0)
		diag("the answer is not taken");
	return unused;
}

/* poll() has 31 bits for its time, and 2^32 + 1 ms end in a 1. */
static void test_fifty_days(void)
{
	pthread_t thread;

	start("");
	if (pthread_create(&thread, NULL, answer_late, NULL))
		bail_out("no thread");
	is_int(pmi_store.fence(((int64_t)1 << 32) + 1, INT64_MAX), COLL_SUCCESS,
	       "ranks that may take 50 days");
	pthread_join(thread, NULL);
}

/* A process that has asked something, and its forked child, end by exit(). */
static void test_end(void)
{
	char asked[512];
	int status = 0;
	ssize_t n;
	pid_t child;

	start(SPACE "cmd=finalize_ack\n");
	fflush(NULL);
	child = fork();
	if (child == 0) {
		int code = pmi_store.connect();
		pid_t forked = fork();

		if (forked == 0)
			exit(0);
		waitpid(forked, &status, 0);
		exit(code || status);
	}
	ok(child > 0 && waitpid(child, &status, 0) == child && status == 0, "a process ends");
	n = read(daemon_fd, asked, sizeof(asked) - 1);
	asked[n > 0 ? n : 0] = '\0';
	is_str(asked, "cmd=get_my_kvsname\ncmd=finalize\n", "and tells the launcher so, once");
}

static void test_no_socket(void)
{
	static const char *const values[] = {
		"", "0", "x", "7x", "-3", "99999", "123456789012345678"};

	for (size_t i = 0; i < sizeof(values) / sizeof(values[0]); i++) {
		setenv("PMI_FD", values[i], 1);
		ok(!pmi_store.is_there(), "PMI_FD='%s' is no connection", values[i]);
	}
}

int main(void)
{
	test_questions();
	test_long_text();
	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++)
		test_bad(&bads[i]);
	test_long_line();
	test_end();
	test_no_socket();
	test_fifty_days();
	test_silence();
	return done_testing();
}
