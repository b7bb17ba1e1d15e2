/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * forever_test.c - system calls of the library that return EINTR or EAGAIN without end: every wait ends by its limit all
 * the same.
 *
 * The test's own functions stand before those of the C library, and fail for calls that libcoll or a plugin makes; calls
 * of other libraries (UCX, the C library) go on.
 */
#include "../lib/ranks.h"

#include <dlfcn.h>
#include <poll.h>
#include <sys/epoll.h>
#include <sys/random.h>
#include <sys/socket.h>

/* Kinds of system calls. */
enum { RECEIVES = 1, SENDS = 2, WAITS = 4, OTHERS = 8, ALL = 15 };

enum { NRANKS = 2, SCENES = 64, TIMEOUT_MS = 200, INIT_TIMEOUT_MS = 2000, LIMIT_S = 120 };

/* ------------------------------------------------------------------ broken calls -- */

/* UCX's own thread calls functions of the C library too, so these are atomic; `broken` is set last. */
static _Atomic int broken; /* kinds of calls; 0: none fails */
static _Atomic int broken_errno;
static _Atomic int good_calls; /* number of calls of a broken kind that still succeed */
static _Atomic int *hits;      /* calls that have failed */

static int is_ours(const void *caller)
{
	Dl_info info;
	const char *file;

	if (!dladdr(caller, &info) || !info.dli_fname)
		return 0;
	file = strrchr(info.dli_fname, '/');
	return file && (!strncmp(file, "/libcoll.so", 11) || !strncmp(file, "/coll_", 6));
}

static int fails(int kind, const void *caller)
{
	if (!(broken & kind) || !is_ours(caller) || good_calls-- > 0)
		return 0;
	good_calls = 0;
	atomic_fetch_add(hits, 1);
	errno = broken_errno;
	return 1;
}

/* A function of the C library that fails when calls of this kind are broken. */
#define BROKEN(kind, type, name, parameters, arguments)                                            \
	__attribute__((visibility("default"))) type name parameters                                \
	{                                                                                          \
		static type(*real) parameters;                                                     \
                                                                                                   \
		if (fails(kind, __builtin_return_address(0)))                                      \
			return -1;                                                                 \
		if (!real)                                                                         \
			*(void **)&real = dlsym(RTLD_NEXT, #name);                                 \
		return real arguments;                                                             \
	}

BROKEN(RECEIVES, ssize_t, recv, (int fd, void *buf, size_t n, int flags), (fd, buf, n, flags))
BROKEN(RECEIVES, ssize_t, recvmsg, (int fd, struct msghdr *msg, int flags), (fd, msg, flags))
BROKEN(RECEIVES, ssize_t, read, (int fd, void *buf, size_t n), (fd, buf, n))
BROKEN(SENDS, ssize_t, send, (int fd, const void *buf, size_t n, int flags), (fd, buf, n, flags))
BROKEN(SENDS, ssize_t, sendmsg, (int fd, const struct msghdr *msg, int flags), (fd, msg, flags))
BROKEN(SENDS, ssize_t, write, (int fd, const void *buf, size_t n), (fd, buf, n))
BROKEN(WAITS, int, poll, (struct pollfd * fds, nfds_t n, int ms), (fds, n, ms))
BROKEN(WAITS, int, ppoll,
       (struct pollfd * fds, nfds_t n, const struct timespec *t, const sigset_t *mask),
       (fds, n, t, mask))
BROKEN(WAITS, int, epoll_wait, (int fd, struct epoll_event *events, int n, int ms),
       (fd, events, n, ms))
BROKEN(WAITS, int, nanosleep, (const struct timespec *t, struct timespec *rest), (t, rest))
BROKEN(OTHERS, ssize_t, getrandom, (void *buf, size_t n, unsigned flags), (buf, n, flags))
BROKEN(OTHERS, int, connect, (int fd, const struct sockaddr *to, socklen_t n), (fd, to, n))
BROKEN(OTHERS, int, accept4, (int fd, struct sockaddr *from, socklen_t *n, int flags),
       (fd, from, n, flags))

/* ------------------------------------------------------------------------ scenes -- */

enum when { CALLING, INIT };

/* A backend, and how it moves messages. */
struct way {
	const char *name, *backend, *options[3];
};

struct scene {
	const struct way *way;
	enum when when;
	int rank; /* whose calls fail */
	int kinds, err;
	int after; /* so many calls succeed before */
	struct ranks_shared shared;
	_Atomic int hits;
	_Atomic int ended; /* the broken rank has ended */
};

static struct scene *scenes;
static int nscenes;
static pid_t pids[SCENES][NRANKS];

static void begin_to_fail(const struct scene *s)
{
	broken_errno = s->err;
	good_calls = s->after;
	broken = s->kinds;
}

/*
 * Some operations, so that tcp's shared memory is in use; then one during which the calls of rank 0 fail, and to which
 * rank 1 does not come, so that rank 0 waits.
 */
static void call(struct rank *r, struct scene *s)
{
	int64_t x = 1, y;

	for (int i = 0; i < 4; i++)
		if (!sums_to(r, r->comm, 1, NRANKS, "before"))
			return;
	coll_comm_set_timeout(r->comm, TIMEOUT_MS);
	if (r->rank == 0)
		begin_to_fail(s);
	while (r->rank == 1 && !atomic_load(&s->ended))
		ranks_sleep(0.001);
	if (r->rank == 0 && !coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, r->comm, NULL))
		(void)coll_sync(r->comm);
}

static void run_rank(struct scene *s, int rank)
{
	struct rank r = {NULL, rank, NRANKS, NULL, s->shared.failure[rank]};
	const int breaks = rank == s->rank;
	coll_config_t config;

	hits = &s->hits;
	ranks_config(&config, s->way->backend);
	config.options = s->way->options;
	if (s->when == INIT)
		config.init_timeout_ms = INIT_TIMEOUT_MS;
	if (breaks && s->when == INIT) {
		while (rank != 0 && !atomic_load(&s->shared.has_id))
			ranks_sleep(0.001);
		begin_to_fail(s);
	}
	if (ranks_init(&r, &s->shared, &config) && s->when == CALLING)
		call(&r, s);
	coll_comm_destroy(r.comm);
	if (breaks)
		atomic_store(&s->ended, 1);
	exit(0);
}

static void begin_scene(const struct way *way, enum when when, int rank, int kinds, int err,
			int after)
{
	struct scene *s = &scenes[nscenes];

	*s = (struct scene){
		.way = way, .when = when, .rank = rank, .kinds = kinds, .err = err, .after = after};
	for (int r = 0; r < NRANKS; r++) {
		pids[nscenes][r] = fork();
		if (pids[nscenes][r] == 0)
			run_rank(s, r);
		if (pids[nscenes][r] < 0)
			bail_out("cannot fork");
	}
	nscenes++;
}

static const char *kinds_name(int kinds)
{
	return kinds == RECEIVES ? "receive"
	       : kinds == SENDS  ? "send"
	       : kinds == WAITS  ? "wait"
	       : kinds == OTHERS ? "connect"
				 : "do anything";
}

static void end_scene(int i, double deadline)
{
	const struct scene *s = &scenes[i];
	const int must = !s->after; /* else the rank may be done before */
	int status, good = 1;

	for (int r = 0; r < NRANKS; r++)
		good &= ranks_reap(pids[i][r], deadline, &status);
	ok(good && s->ended && (s->hits > 0 || !must),
	   "%s, %s: calls of rank %d that %s fail with %s for ever, after %d", s->way->name,
	   s->when == INIT ? "init" : "an operation", s->rank, kinds_name(s->kinds),
	   s->err == EINTR ? "EINTR" : "EAGAIN", s->after);
	if (!s->hits && must)
		diag("no call has failed");
}

static void begin_way(const struct way *way)
{
	static const int errors[] = {EINTR, EAGAIN};

	for (int e = 0; e < 2; e++)
		for (int kinds = 1; kinds < OTHERS; kinds *= 2)
			begin_scene(way, CALLING, 0, kinds, errors[e], 0);
	begin_scene(way, CALLING, 0, ALL, EINTR, 0);
}

int main(void)
{
	const double deadline = ranks_now() + LIMIT_S;
	static const struct way rings = {"tcp", "tcp", {NULL}};
	static const struct way local = {"tcp over local sockets", "tcp", {"tcp.ring=0", NULL}};
	static const struct way inet = {"tcp over TCP", "tcp", {"tcp.ring=0", "tcp.unix=no", NULL}};
	static const struct way ucx = {"ucx", "ucx", {NULL}};
	const int can_ucx = ranks_can("ucx");

	scenes = ranks_memory(SCENES * sizeof(*scenes));
	setenv("COLL_DESTROY_TIMEOUT", "100ms", 1);
	setenv("COLL_POLL", "0", 1); /* a rank that waits sleeps at once */
	setenv("COLL_YIELD", "0", 1);
	setenv("COLL_LOG", "error", 1);
	fflush(stdout);
	begin_way(&rings);
	begin_way(&local);
	begin_way(&inet);
	if (can_ucx)
		begin_scene(&ucx, CALLING, 0, ALL, EINTR, 0);
	for (int kinds = 1; kinds < ALL; kinds *= 2)
		begin_scene(&rings, INIT, 1, kinds, EINTR, 0);
	/* In the handshake of the rendezvous, in its exchanges, and while tcp connects. */
	for (int after = 1; after < 12; after++)
		for (int rank = 0; rank < NRANKS; rank++)
			begin_scene(&rings, INIT, rank, after % 2 ? RECEIVES : SENDS, EAGAIN,
				    after);
	for (int i = 0; i < nscenes; i++)
		end_scene(i, deadline);
	return done_testing();
}
