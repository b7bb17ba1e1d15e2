/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * pmi.c - the key-value store of a launcher that speaks version 1 of PMI.
 *
 * The launcher leaves each process a socket, whose number is in PMI_FD.  A question is a line "cmd=NAME KEY=VALUE
 * ...", and so is its answer.  MPICH's src/pmi/simple defines the lines.  This file never says "cmd=init", which
 * an MPI library in the process says itself.  It does say "cmd=finalize" when the process ends, unless an MPI library
 * has done so: MPICH's proxy (src/pm/hydra/proxy/pmip_cb.c) may take a process that has asked anything and ends
 * without it for one that failed.
 */
#include "base/clock.h"
#include "base/error.h"
#include "meet/launch.h"
#include "socket/socket.h"

#include <ctype.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

enum {
	PMI_LINE = 2048,
	PMI_VALUE = 1024,      /* bytes of a value, with its end; the least that a launcher takes */
	PMI_NAME = 256,        /* of a key-value space */
	PMI_ANSWER_MS = 10000, /* for an answer of the daemon on this host */
	PMI_END_MS = 2000      /* for an answer when this process ends */
};

static pthread_mutex_t pmi_lock = PTHREAD_MUTEX_INITIALIZER;
static int pmi_broken;           /* an answer has not come, or was none */
static char pmi_space[PMI_NAME]; /* the name of the job's key-value space, after pmi_connect */
static pid_t pmi_user;           /* the process that has called pmi_connect */
static struct stat pmi_socket;   /* its connection */

static int pmi_fd(void)
{
	const char *text = launch_get("PMI_FD");
	char *end;
	long fd = text ? strtol(text, &end, 10) : -1;

	return text && end != text && end == text + launch_length(text) && fd > 2 && fd < 1 << 20
		       ? (int)fd
		       : -1;
}

/* PMI_FD names the descriptor of a connection to such a launcher. */
static int pmi_is_there(void)
{
	int type, fd = pmi_fd();
	socklen_t size = sizeof(type);

	return fd >= 0 && getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &size) == 0 &&
	       type == SOCK_STREAM;
}

/* ---------------------------------------------------------- a question and its answer -- */

static int pmi_failed(const char *why)
{
	pmi_broken = 1;
	return error_set(COLL_ERR_SYSTEM, "PMI: the launcher's daemon on this host %s", why);
}

static int pmi_send(int fd, const char *line)
{
	size_t n = strlen(line);

	/* The line is short, and the daemon has read every line before: the socket has space for it. */
	return send(fd, line, n, MSG_NOSIGNAL | MSG_DONTWAIT) == (ssize_t)n
		       ? COLL_SUCCESS
		       : pmi_failed("has closed its connection, or does not read from it");
}

/*
 * Waits until the daemon has sent something.  Returns 0 if the deadline has passed.  At *stall_at a log line tells the
 * wait.
 */
static int pmi_await(int fd, int64_t deadline, int64_t *stall_at)
{
	if (*stall_at < deadline && !socket_poll(fd, POLLIN, *stall_at)) {
		launch_store_stalled(&pmi_store);
		*stall_at = INT64_MAX;
	}
	return socket_poll(fd, POLLIN, deadline);
}

/* Reads one line of at most size - 1 bytes, without its end.  Returns a code, or 1: the deadline has passed. */
static int pmi_receive(int fd, char *line, size_t size, int64_t deadline, int64_t stall_at)
{
	for (size_t n = 0; n < size;) {
		const ssize_t got = socket_read(fd, &line[n], 1);

		if (got < 0)
			return pmi_failed("has closed its connection");
		if (got == 0 && !pmi_await(fd, deadline, &stall_at)) {
			pmi_broken = 1; /* the answer may come too late */
			return 1;
		}
		if (got > 0 && line[n] == '\n') {
			line[n] = '\0';
			return COLL_SUCCESS;
		}
		n += (size_t)got;
	}
	return pmi_failed("sends a line that is too long");
}

/* Writes the value of `key` in an answer, up to the next space, to `value`.  Returns 0 if the answer has none. */
static int pmi_read(const char *answer, const char *key, char *value, size_t size)
{
	size_t n = strlen(key);

	for (const char *p = answer; p; p = strchr(p, ' ')) {
		p += *p == ' ';
		if (strncmp(p, key, n) == 0 && p[n] == '=') {
			snprintf(value, size, "%.*s", (int)strcspn(p + n + 1, " "), p + n + 1);
			return 1;
		}
	}
	return 0;
}

/*
 * Sends a question and reads its answer, which must be the command `expected`.  Returns a code, or 1: no answer came
 * within timeout_ms.
 */
static int pmi_ask_locked(const char *question, const char *expected, char answer[PMI_LINE],
			  int64_t timeout_ms, int64_t stall_at)
{
	const int64_t deadline = clock_deadline(timeout_ms);
	char command[64] = "", rc[16] = "0";
	int code, fd = pmi_fd();

	code = pmi_broken ? pmi_failed("has not answered before") : pmi_send(fd, question);
	if (!code)
		code = pmi_receive(fd, answer, PMI_LINE, deadline, stall_at);
	if (!code) {
		pmi_read(answer, "cmd", command, sizeof(command));
		pmi_read(answer, "rc", rc, sizeof(rc));
		if (strcmp(command, expected) != 0)
			code = pmi_failed("sends another answer than PMI version 1 has");
		else if (strcmp(rc, "0") != 0)
			code = error_set(COLL_ERR_SYSTEM,
					 "PMI: the launcher refuses '%.60s': %.200s", question,
					 answer);
	}
	return code;
}

static int pmi_ask(const char *question, const char *expected, char answer[PMI_LINE],
		   int64_t timeout_ms, int64_t stall_at)
{
	int code;

	pthread_mutex_lock(&pmi_lock);
	code = pmi_ask_locked(question, expected, answer, timeout_ms, stall_at);
	pthread_mutex_unlock(&pmi_lock);
	return code;
}

/* The same, of the daemon alone. */
static int pmi_ask_daemon(const char *question, const char *expected, char answer[PMI_LINE])
{
	int code = pmi_ask(question, expected, answer, PMI_ANSWER_MS, INT64_MAX);

	return code != 1
		       ? code
		       : error_set(COLL_ERR_TIMEOUT,
				   "timed out after %d s: the launcher's daemon on this host does "
				   "not answer (PMI)",
				   PMI_ANSWER_MS / 1000);
}

/* ------------------------------------------------------------------- the texts -- */

/* A value has no spaces: every character that no address has is written %XX. */
static int pmi_encode(char out[PMI_VALUE], const char *text)
{
	size_t n = 0;

	for (const char *p = text; *p; p++) {
		int plain = isalnum((unsigned char)*p) || strchr(".:,/[]_-", *p);

		if (n + 4 > PMI_VALUE)
			return error_set(COLL_ERR_INTERNAL, "PMI: a text of %zu bytes is too long",
					 strlen(text));
		n += (size_t)snprintf(out + n, PMI_VALUE - n, plain ? "%c" : "%%%02X",
				      (unsigned char)*p);
	}
	out[n] = '\0';
	return COLL_SUCCESS;
}

static void pmi_decode(char *out, size_t size, const char *value)
{
	size_t n = 0;
	unsigned byte;

	while (*value && n + 1 < size) {
		int coded = *value == '%' && sscanf(value + 1, "%2X", &byte) == 1 && value[2];

		out[n++] = coded ? (char)byte : *value;
		value += coded ? 3 : 1;
	}
	out[n] = '\0';
}

/*
 * Runs at exit.  A forked child is no rank.  The number of a connection that an MPI library has closed may be the
 * number of another file.  Another thread may still wait for an answer.
 */
static void pmi_finalize(void)
{
	char answer[PMI_LINE];
	struct stat now;

	if (pmi_user != getpid() || fstat(pmi_fd(), &now) || now.st_dev != pmi_socket.st_dev ||
	    now.st_ino != pmi_socket.st_ino || pthread_mutex_trylock(&pmi_lock))
		return;
	pmi_user = 0;
	pmi_ask_locked("cmd=finalize\n", "finalize_ack", answer, PMI_END_MS, INT64_MAX);
	pthread_mutex_unlock(&pmi_lock);
}

/* From now on this process owes the launcher a finalize. */
static int pmi_note_user(void)
{
	if (pmi_user == getpid())
		return COLL_SUCCESS;
	pmi_user = getpid();
	if (fstat(pmi_fd(), &pmi_socket) || atexit(pmi_finalize))
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a function that runs at exit");
	return COLL_SUCCESS;
}

static int pmi_connect(void)
{
	char answer[PMI_LINE];
	int code = pmi_ask_daemon("cmd=get_my_kvsname\n", "my_kvsname", answer);

	if (!code)
		code = pmi_note_user();
	if (!code && !pmi_read(answer, "kvsname", pmi_space, sizeof(pmi_space)))
		code = error_set(COLL_ERR_SYSTEM, "PMI: the launcher's daemon gives no kvsname");
	return code;
}

static int pmi_put(const char *key, const char *text)
{
	char value[PMI_VALUE], question[PMI_LINE], answer[PMI_LINE];
	int code = pmi_encode(value, text);

	if (code)
		return code;
	snprintf(question, sizeof(question), "cmd=put kvsname=%s key=%s value=%s\n", pmi_space, key,
		 value);
	return pmi_ask_daemon(question, "put_result", answer);
}

static int pmi_fence(int64_t timeout_ms, int64_t stall_at)
{
	char answer[PMI_LINE];
	int code = pmi_ask("cmd=barrier_in\n", "barrier_out", answer, timeout_ms, stall_at);

	return code != 1 ? code : launch_store_timed_out(&pmi_store, timeout_ms);
}

static int pmi_get(const char *key, char *text, size_t size, int64_t timeout_ms)
{
	char value[PMI_VALUE] = "", question[PMI_LINE], answer[PMI_LINE];
	int code;

	(void)timeout_ms; /* the fence has brought the text to this host */
	snprintf(question, sizeof(question), "cmd=get kvsname=%s key=%s\n", pmi_space, key);
	code = pmi_ask_daemon(question, "get_result", answer);
	if (code)
		return code;
	pmi_read(answer, "value", value, sizeof(value));
	pmi_decode(text, size, value);
	return COLL_SUCCESS;
}

const struct launch_store pmi_store = {.name = "PMI",
				       .is_there = pmi_is_there,
				       .connect = pmi_connect,
				       .put = pmi_put,
				       .fence = pmi_fence,
				       .get = pmi_get};
