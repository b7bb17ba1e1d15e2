/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * relay_test.c - a relay between rank 1 and rank 0 of a job changes one byte of their rendezvous: no rank uses a
 * changed byte.
 *
 * The relay knows nothing of the messages, and so stays right when they change.  A first meeting, which it leaves alone,
 * tells how many bytes pass in each direction.  The test fails if the relay changed nothing, or nothing that a MAC covers.
 */
#include "../lib/ranks.h"

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>

enum { NRANKS = 3, LIMIT_S = 60, PLACES = 12, TO_ROOT = 0, FROM_ROOT = 1 };

struct shared {
	int code[NRANKS];
	int64_t sum[NRANKS];
	char text[NRANKS][RANKS_TEXT];
	size_t passed[2]; /* bytes of the first connection in each direction */
	int changed;
};

/* Which byte of the first connection changes.  `at` of SIZE_MAX: none. */
struct change {
	int direction;
	size_t at;
};

/* ----------------------------------------------------------------------- the relay -- */

static int loopback(int port, struct sockaddr_in *address)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), one = 1;

	*address = (struct sockaddr_in){.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
	address->sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	return fd;
}

/* A socket with a port of its own, which *port becomes. */
static int bound(int *port)
{
	struct sockaddr_in address;
	socklen_t len = sizeof(address);
	int fd = loopback(0, &address);

	if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) ||
	    getsockname(fd, (struct sockaddr *)&address, &len))
		bail_out("no free port: %s", strerror(errno));
	*port = ntohs(address.sin_port);
	return fd;
}

/* Rank 0 may not listen yet. */
static int relay_dial(int port)
{
	const double deadline = ranks_now() + LIMIT_S;

	while (ranks_now() < deadline) {
		struct sockaddr_in address;
		int fd = loopback(port, &address);

		if (!connect(fd, (struct sockaddr *)&address, sizeof(address)))
			return fd;
		close(fd);
		ranks_sleep(0.002);
	}
	return -1;
}

/* Passes on the bytes that have come from fd[d]; returns -1 at the end. */
static int relay_pass(struct shared *s, const struct change *change, int first, const int fd[2],
		      int d)
{
	uint8_t bytes[4096];
	ssize_t n = recv(fd[d], bytes, sizeof(bytes), 0);
	size_t at = s->passed[d];

	if (n <= 0)
		return -1;
	if (first) {
		if (d == change->direction && at <= change->at && change->at - at < (size_t)n) {
			bytes[change->at - at] ^= 0x24;
			s->changed++;
		}
		s->passed[d] += (size_t)n;
	}
	for (ssize_t sent = 0, k; sent < n; sent += k)
		if ((k = send(fd[!d], bytes + sent, (size_t)(n - sent), MSG_NOSIGNAL)) <= 0)
			return -1;
	return 0;
}

/* Serves one connection of rank 1 after the other. */
__attribute__((noreturn)) static void relay_run(struct shared *s, const struct change *change,
						int listener, int root)
{
	for (int first = 1;; first = 0) {
		int fd[2], more = 1;

		fd[TO_ROOT] = accept(listener, NULL, NULL);
		fd[FROM_ROOT] = relay_dial(root);
		while (more) {
			struct pollfd polls[2] = {{fd[0], POLLIN, 0}, {fd[1], POLLIN, 0}};

			if (poll(polls, 2, -1) < 0)
				_exit(1);
			for (int d = 0; d < 2 && more; d++)
				if (polls[d].revents)
					more = !relay_pass(s, change, first, fd, d);
		}
		close(fd[0]);
		close(fd[1]);
	}
}

/* ----------------------------------------------------------------------- the ranks -- */

static void rank_process(struct shared *s, int rank, int port)
{
	coll_comm_t comm = NULL;
	coll_config_t config;
	int64_t x = rank + 1;
	char text[40];
	int code;

	snprintf(text, sizeof(text), "127.0.0.1:%d", port);
	setenv("COLL_ROOT", text, 1);
	snprintf(text, sizeof(text), "%d", rank);
	setenv("COLL_RANK", text, 1);
	ranks_config(&config, "tcp");
	code = coll_comm_init_env(&comm, &config);
	if (!code)
		code = coll_allreduce(&x, &s->sum[rank], 1, COLL_INT64, COLL_SUM, comm, NULL);
	if (!code)
		code = coll_sync(comm);
	s->code[rank] = code;
	snprintf(s->text[rank], RANKS_TEXT, "%s", code ? coll_get_last_error(NULL) : "");
	if (comm)
		coll_comm_destroy(comm);
	exit(0);
}

/* One meeting; returns the number of ranks that failed, or -1 if one hung, crashed or has a wrong sum. */
static int meet(struct shared *s, struct change change)
{
	double deadline = ranks_now() + LIMIT_S;
	int root, outer, status, failed = 0, bad = 0;
	int reserved = bound(&root), listener = bound(&outer);
	pid_t relay, pids[NRANKS];

	memset(s, 0, sizeof(*s));
	close(reserved);
	if (listen(listener, 16))
		bail_out("listen: %s", strerror(errno));
	fflush(stdout);
	relay = fork();
	if (relay == 0)
		relay_run(s, &change, listener, root);
	for (int r = 0; r < NRANKS; r++) {
		pids[r] = fork();
		if (pids[r] == 0)
			rank_process(s, r, r == 1 ? outer : root);
	}
	for (int r = 0; r < NRANKS; r++) {
		bad |= !ranks_reap(pids[r], deadline, &status) || status;
		bad |= s->code[r] ? !s->text[r][0] : s->sum[r] != NRANKS * (NRANKS + 1) / 2;
		failed += s->code[r] != 0;
	}
	kill(relay, SIGKILL);
	waitpid(relay, NULL, 0);
	close(listener);
	return bad ? -1 : failed;
}

/* ----------------------------------------------------------------------- the test -- */

static int told_of_mac(const struct shared *s)
{
	int told = 0;

	for (int r = 0; r < NRANKS; r++)
		told |= strstr(s->text[r], "has the wrong MAC") != NULL;
	return told;
}

/* Changes bytes from the beginning to the end of what passes in a direction, one in each meeting. */
static void test_changes(struct shared *s, int direction, size_t passed, const char *name)
{
	const int places = ranks_small() ? PLACES / 4 : PLACES;
	int changed = 0, macs = 0, wrong = 0;

	for (int i = 0; i < places; i++) {
		const struct change change = {direction, passed * (size_t)i / (size_t)places};
		const int failed = meet(s, change);

		changed += s->changed;
		macs += told_of_mac(s);
		if (failed == 0 || failed == NRANKS)
			continue;
		wrong++;
		diag("byte %zu: %d ranks failed", change.at, failed);
		for (int r = 0; r < NRANKS; r++)
			diag("rank %d: %d, %lld, %s", r, s->code[r], (long long)s->sum[r],
			     s->text[r]);
	}
	is_int(wrong, 0, "%s: no rank uses a changed byte", name);
	is_int(changed, places, "the relay changed a byte in each meeting");
	ok(macs >= places / 3, "a MAC told of %d of %d changes", macs, places);
}

int main(void)
{
	struct shared *s = ranks_memory(sizeof(*s));
	size_t passed[2];

	crash_watch();
	setenv("COLL_WORLD_SIZE", "3", 1);
	setenv("COLL_KEY", "a secret", 1);
	setenv("COLL_INIT_TIMEOUT", "60s", 1);
	setenv("COLL_TIMEOUT", "10s", 1);
	if (!is_int(meet(s, (struct change){TO_ROOT, SIZE_MAX}), 0, "a relay that changes nothing"))
		diag("%s; %s", s->text[0], s->text[1]);
	memcpy(passed, s->passed, sizeof(passed));
	diag("%zu bytes pass to rank 0 and %zu from it", passed[TO_ROOT], passed[FROM_ROOT]);
	/* A change within the handshake may cost the whole time. */
	setenv("COLL_INIT_TIMEOUT", "3s", 1);
	test_changes(s, TO_ROOT, passed[TO_ROOT], "to rank 0");
	test_changes(s, FROM_ROOT, passed[FROM_ROOT], "from rank 0");
	return done_testing();
}
