/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch_store_test.c - ranks that meet through a launcher's store: others may read the id there, so only COLL_KEY
 * makes the key of the job a secret.
 */
#include "base/error.h"
#include "meet/meet.h"
#include "meet/launch.h"
#include "../lib/tap.h"

#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum { EXIT_SECRET = 64 };

static int store_pipe[2]; /* from rank 0 to rank 1 */

static int store_connect(void)
{
	return COLL_SUCCESS;
}

static int store_put(const char *key, const char *text)
{
	(void)key;
	return write(store_pipe[1], text, strlen(text) + 1) > 0 ? COLL_SUCCESS : COLL_ERR_SYSTEM;
}

static int store_fence(int64_t timeout_ms, int64_t stall_at)
{
	(void)timeout_ms;
	(void)stall_at;
	return COLL_SUCCESS;
}

static int store_get(const char *key, char *text, size_t size, int64_t timeout_ms)
{
	(void)key;
	(void)timeout_ms;
	return read(store_pipe[0], text, size) > 0 ? COLL_SUCCESS : COLL_ERR_SYSTEM;
}

static const struct launch_store store = {.name = "a pipe",
					  .connect = store_connect,
					  .put = store_put,
					  .fence = store_fence,
					  .get = store_get};

/* Opens as a rank of two with this COLL_KEY ("": unset); the exit status is the code, + EXIT_SECRET. */
static int rank_main(int rank, const char *key)
{
	struct launch launch = {.rank = rank, .nranks = 2, .store = &store, .who = "a launcher"};
	struct bootstrap *bootstrap;
	int code;

	snprintf(launch.key, sizeof(launch.key), "%s", key);
	launch.key_is_secret = key[0] != '\0';
	code = bootstrap_open_launch(&bootstrap, &launch, "lo", 1500);
	if (!code) {
		code = bootstrap_key_is_secret(bootstrap) ? EXIT_SECRET : 0;
		bootstrap_close(bootstrap);
	}
	return code;
}

static int end_of(pid_t pid)
{
	int status = 0;

	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status) ? WEXITSTATUS(status)
									       : -1;
}

/* What each rank ends with is in *ends. */
static void meet(const char *const keys[2], int ends[2])
{
	pid_t pid[2];

	if (pipe(store_pipe))
		bail_out("no pipe");
	fflush(NULL);
	for (int rank = 0; rank < 2; rank++) {
		pid[rank] = fork();
		if (pid[rank] == 0)
			_exit(rank_main(rank, keys[rank]));
	}
	for (int rank = 0; rank < 2; rank++)
		ends[rank] = end_of(pid[rank]);
	close(store_pipe[0]);
	close(store_pipe[1]);
}

static void both(const char *key, int end, const char *what)
{
	const char *const keys[] = {key, key};
	int ends[2];

	meet(keys, ends);
	is_int(ends[0], end, "rank 0, %s", what);
	is_int(ends[1], end, "rank 1, %s", what);
}

/* Neither rank joins the other. */
static void apart(const char *key, const char *other, const char *what)
{
	const char *const keys[] = {key, other};
	int ends[2];

	meet(keys, ends);
	for (int rank = 0; rank < 2; rank++)
		ok(ends[rank] > 0 && ends[rank] < EXIT_SECRET, "rank %d, %s: code %d", rank, what,
		   ends[rank]);
}

int main(void)
{
	both("", 0, "without COLL_KEY: the key is no secret");
	both("one text", EXIT_SECRET, "with COLL_KEY: it is a secret");
	apart("one text", "another", "different COLL_KEY");
	apart("one text", "", "COLL_KEY on rank 0 only");
	return done_testing();
}
