/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap_clock_test.c - a connection of the rendezvous that is always ready, and on which nothing or hardly anything
 * moves: the rank looks at the clock all the same.
 */
#include <dlfcn.h>
#include "meet/tree.h"
#include "base/error.h"
#include "bootstrap_harness.h"

enum { SHORT_MS = 300, KILLED_S = 120, BYTES = 1 << 16 };

/* How the connections of this process are, once it has sent its first frame if `later`. */
enum trouble { NONE, NO_SEND, NO_RECV, SLOW_RECV };
static enum trouble trouble;
static int later;

/* Is there such trouble now?  A process that never looks at the clock is killed. */
static int is_in(enum trouble what)
{
	static int begun;

	if (trouble != what || later)
		return 0;
	if (!begun++)
		alarm(KILLED_S);
	pause_ms(1);
	return 1;
}

/* These two stand before the C library's functions. */
ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	static ssize_t (*real)(int, const struct msghdr *, int);
	ssize_t n;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sendmsg");
	if (is_in(NO_SEND)) {
		errno = EAGAIN;
		return -1;
	}
	n = real(fd, msg, flags);
	later = 0;
	return n;
}

ssize_t recv(int fd, void *bytes, size_t n, int flags)
{
	static ssize_t (*real)(int, void *, size_t, int);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "recv");
	if (is_in(NO_RECV)) {
		errno = EINTR;
		return -1;
	}
	if (!is_in(SLOW_RECV))
		return real(fd, bytes, n, flags);
	return real(fd, bytes, 1, flags);
}

static int work(struct bootstrap *bootstrap, void *arg)
{
	static uint8_t in[BYTES], out[3 * BYTES];

	if (bootstrap_rank(bootstrap) == 1)
		trouble = *(const enum trouble *)arg;
	return bootstrap_exchange(bootstrap, in, out, sizeof(in), SHORT_MS);
}

/* at_once: rank 1 has the trouble from its first frame on. */
static void ends(struct rank_args args, enum trouble at_once, const char *what)
{
	struct rank_child children[3];
	struct rank_result result;
	char root[64];

	snprintf(root, sizeof(root), "127.0.0.1:%d", free_port());
	args.root = root;
	for (int r = 0; r < args.nranks; r++) {
		trouble = r == 1 ? at_once : NONE;
		later = r == 1 && at_once;
		children[r] = rank_spawn(&args, r);
	}
	for (int r = 0; r < args.nranks; r++) {
		result = rank_collect(children[r]);
		if (r == 1) {
			is_int(result.code, COLL_ERR_TIMEOUT, "%s", what);
			has_str(result.text, "rank 0 of ", "the rank names whom it waits for");
		}
	}
}

static void test_exchange(enum trouble what, const char *name)
{
	struct rank_args args = {.nranks = 2, .timeout_ms = LONG_MS, .work = work, .arg = &what};

	ends(args, NONE, name);
}

/* In a tree a rank sends where it listens, and waits for its index. */
static void test_index(void)
{
	struct rank_args args = {.nranks = 3, .timeout_ms = SHORT_MS};

	tree_shape = (struct tree_shape){.flat = 1, .fan = 1};
	ends(args, NO_RECV, "each receive of the index is interrupted");
}

int main(void)
{
	test_exchange(NO_SEND, "the connection takes no byte of a piece");
	test_exchange(NO_RECV, "each receive of the answer is interrupted");
	test_exchange(SLOW_RECV, "the answer comes byte by byte");
	test_index();
	return done_testing();
}
