/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_bare.c - the same operations by plain loops over shared memory or TCP sockets, without a library: a
 * bound for libraries that copy once.  No matching, no errors, no security.
 *
 *   bench_bare shm|sockets RANKS OPERATION BYTES...
 *   bench_bare distance 2 SECONDS                  nanoseconds of a cache line between two processors, 200 a second
 *
 * All operations are made of steps.  In a step some ranks give blocks of at most a chunk to some ranks:
 *
 * shm      Each rank has two slots, used in turn, and a counter of its steps.  A giver copies its blocks to its slot,
 *          then counts; a taker waits for the giver's counter, and reads the block where it lies.
 * sockets  One TCP connection a pair of ranks, polled; takers read into memory of their own.
 */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include "bench.h"

enum { BARE_SHM_CHUNK = 256 << 10, BARE_SOCKET_CHUNK = 1 << 20, BARE_DIRECT = 4 << 10 };

struct bare_slots {
	uint64_t step __attribute__((aligned(128)));
	float slot[2][BARE_SHM_CHUNK / sizeof(float)] __attribute__((aligned(4096)));
};

struct bare {
	struct bare_slots *slots; /* by rank; NULL: sockets */
	uint64_t step;
	int fd[BENCH_RANKS];
	float *scratch[BENCH_RANKS];
	const float *got[BENCH_RANKS]; /* by giver: its block of this step */
	size_t chunk;                  /* elements */
	int yield;
	double distances; /* seconds in which only the distance is looked at; 0: operations */
};

/* In a step: rank `from` (-1: all) gives `count` elements to rank `to` (-1: all); each: a block for each. */
struct bare_step {
	const float *data;
	size_t count, stride; /* elements; stride 0: everybody gets the same */
	int from, to;
};

static int bare_gives(const struct bare_step *s, int giver, int taker)
{
	return giver != taker && (s->from < 0 || s->from == giver) && (s->to < 0 || s->to == taker);
}

static void bare_pause(const struct bare *b)
{
#ifdef __x86_64__
	if (!b->yield) {
		__builtin_ia32_pause();
		return;
	}
#endif
	(void)b;
	sched_yield();
}

static void bare_wait(const struct bare *b, int rank, uint64_t step)
{
	while (__atomic_load_n(&b->slots[rank].step, __ATOMIC_ACQUIRE) < step)
		bare_pause(b);
}

static void bare_step_shm(struct bench_rank *r, struct bare *b, const struct bare_step *s)
{
	float *slot = b->slots[r->rank].slot[++b->step & 1];
	int copied = 0;

	/* This slot was used two steps ago; who has taken the step since has read it. */
	for (int p = 0; p < r->nranks; p++)
		bare_wait(b, p, b->step - 1);
	for (int p = 0; p < r->nranks; p++) {
		size_t at = s->stride ? (size_t)p * s->count : 0;

		if (!bare_gives(s, r->rank, p) || (copied && !s->stride))
			continue;
		memcpy(slot + at, s->data + (size_t)p * s->stride, s->count * sizeof(float));
		copied = 1;
	}
	__atomic_store_n(&b->slots[r->rank].step, b->step, __ATOMIC_RELEASE);
	for (int p = 0; p < r->nranks; p++)
		if (bare_gives(s, p, r->rank)) {
			bare_wait(b, p, b->step);
			b->got[p] = b->slots[p].slot[b->step & 1] +
				    (s->stride ? (size_t)r->rank * s->count : 0);
		}
}

/* Moves what the socket takes or has; returns the bytes. */
static size_t bare_move(int fd, const char *out, char *in, size_t bytes)
{
	ssize_t n = out ? send(fd, out, bytes, MSG_DONTWAIT | MSG_NOSIGNAL)
			: recv(fd, in, bytes, MSG_DONTWAIT);

	if ((n < 0 && errno != EAGAIN) || (n == 0 && !out))
		bench_fail("a socket failed", "");
	return n > 0 ? (size_t)n : 0;
}

static void bare_step_sockets(struct bench_rank *r, struct bare *b, const struct bare_step *s)
{
	size_t bytes = s->count * sizeof(float), sent[BENCH_RANKS] = {0}, had[BENCH_RANKS] = {0};
	int more = bytes > 0;

	while (more) {
		size_t moved = 0;

		more = 0;
		for (int p = 0; p < r->nranks; p++) {
			const char *out = (const char *)(s->data + (size_t)p * s->stride);
			size_t n;

			if (bare_gives(s, r->rank, p) && sent[p] < bytes) {
				n = bare_move(b->fd[p], out + sent[p], NULL, bytes - sent[p]);
				sent[p] += n;
				moved += n;
				more |= sent[p] < bytes;
			}
			if (bare_gives(s, p, r->rank) && had[p] < bytes) {
				n = bare_move(b->fd[p], NULL, (char *)b->scratch[p] + had[p],
					      bytes - had[p]);
				had[p] += n;
				moved += n;
				more |= had[p] < bytes;
			}
		}
		if (!moved && more)
			bare_pause(b);
	}
	for (int p = 0; p < r->nranks; p++)
		b->got[p] = b->scratch[p];
}

static void bare_step(struct bench_rank *r, const float *data, size_t count, size_t stride,
		      int from, int to)
{
	const struct bare_step s = {data, count, stride, from, to};
	struct bare *b = r->engine;

	if (b->slots)
		bare_step_shm(r, b, &s);
	else
		bare_step_sockets(r, b, &s);
}

/* out = mine + the blocks of all others */
static void bare_sum(const struct bench_rank *r, const float *mine, float *out, size_t count)
{
	const struct bare *b = r->engine;

	for (int p = 0; p < r->nranks; p++) {
		const float *restrict got = b->got[p];
		float *restrict to = out;

		if (p == r->rank)
			continue;
		for (size_t i = 0; i < count; i++)
			to[i] = mine[i] + got[i];
		mine = out;
	}
}

/* The blocks of all ranks, `stride` elements apart in `out`. */
static void bare_collect(const struct bench_rank *r, const float *mine, float *out, size_t count,
			 size_t stride)
{
	const struct bare *b = r->engine;

	for (int p = 0; p < r->nranks; p++) {
		const float *from = p == r->rank ? mine : b->got[p];

		if (out + (size_t)p * stride != from)
			memcpy(out + (size_t)p * stride, from, count * sizeof(float));
	}
}

/* A short vector is given to all whole; of a longer one each rank sums a part. */
static void bare_allreduce(struct bench_rank *r, const float *in, float *out, size_t count)
{
	size_t n = (size_t)r->nranks, part = count / n, rest = count % n;

	if (count * sizeof(float) > BARE_DIRECT) {
		float *mine = out + (size_t)r->rank * part;

		bare_step(r, in, part, part, -1, -1);
		bare_sum(r, in + (size_t)r->rank * part, mine, part);
		bare_step(r, mine, part, 0, -1, -1);
		bare_collect(r, mine, out, part, part);
		in += n * part;
		out += n * part;
		count = rest;
	}
	if (count) {
		bare_step(r, in, count, 0, -1, -1);
		bare_sum(r, in, out, count);
	}
}

static void bare_ping_pong(struct bench_rank *r, const float *in, float *out, size_t count)
{
	const struct bare *b = r->engine;

	for (int giver = 0; giver < 2; giver++) {
		bare_step(r, in, count, 0, giver, 1 - giver);
		if (r->rank == 1 - giver)
			memcpy(out, b->got[giver], count * sizeof(float));
	}
}

/* An operation on at most a chunk; parts of the caller's buffers are `stride` elements apart. */
static void bare_piece(struct bench_rank *r, const struct bench_call *c, const float *in,
		       float *out, size_t count)
{
	const struct bare *b = r->engine;
	const float *mine = in + (size_t)r->rank * c->count;

	switch (c->op) {
	case BENCH_ALLGATHER:
		bare_step(r, in, count, 0, -1, -1);
		bare_collect(r, in, out, count, c->count);
		break;
	case BENCH_BROADCAST:
		bare_step(r, in, count, 0, c->root, -1);
		if (r->rank != c->root)
			memcpy(out, b->got[c->root], count * sizeof(float));
		break;
	case BENCH_REDUCE_SCATTER:
		bare_step(r, in, count, c->count, -1, -1);
		bare_sum(r, mine, out, count);
		break;
	case BENCH_ALLTOALL:
		bare_step(r, in, count, c->count, -1, -1);
		bare_collect(r, mine, out, count, c->count);
		break;
	case BENCH_REDUCE:
		bare_step(r, in, count, 0, -1, c->root);
		if (r->rank == c->root)
			bare_sum(r, in, out, count);
		break;
	case BENCH_PING_PONG: bare_ping_pong(r, in, out, count); break;
	default: bare_allreduce(r, in, out, count); break;
	}
}

/* Cuts an operation into chunks. */
static void bare_run(struct bench_rank *r, const struct bench_call *c, float *out)
{
	const struct bare *b = r->engine;
	size_t chunk = b->chunk / (bench_has_parts(c->op) ? (size_t)r->nranks : 1), count;

	for (size_t at = 0; at < c->count; at += count) {
		count = c->count - at < chunk ? c->count - at : chunk;
		bare_piece(r, c, c->in + at, out + at, count);
	}
}

static int call(struct bench_rank *r, const struct bench_call *c)
{
	static const float token;
	int times = c->op == BENCH_GROUP ? BENCH_GROUPED : 1;

	if (bench_is_16bit(c->op))
		return 0;
	if (c->op == BENCH_BARRIER)
		bare_step(r, &token, 1, 0, -1, -1);
	for (int i = 0; c->op != BENCH_BARRIER && i < times; i++)
		bare_run(r, c, c->out + (size_t)i * c->count);
	return 1;
}

/* ---- connections and ranks ---- */

/* Both ends of a TCP connection over loopback. */
static void bare_connect(int ends[2])
{
	struct sockaddr_in at = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	socklen_t size = sizeof(at);
	int listener = socket(AF_INET, SOCK_STREAM, 0), one = 1;

	ends[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (bind(listener, (struct sockaddr *)&at, size) || listen(listener, 1) ||
	    getsockname(listener, (struct sockaddr *)&at, &size) ||
	    connect(ends[0], (struct sockaddr *)&at, size) ||
	    (ends[1] = accept(listener, NULL, NULL)) < 0)
		bench_fail("no connection over loopback", "");
	/* reno, as libcoll sets it on loopback. */
	for (int i = 0; i < 2; i++) {
		setsockopt(ends[i], IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
		setsockopt(ends[i], IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
	}
	close(listener);
}

static void bare_look(struct bench_rank *r, double seconds)
{
	near_set(&r->near, &r->shared->near, r->rank, r->nranks);
	for (int i = 0; i < seconds * 200; i++) {
		double ns = near_look(&r->near), begin = bench_now();

		if (r->rank == 0)
			printf("%.0f\n", ns);
		/* As busy as the engines: a processor that sleeps may wake up at another place. */
		while (bench_now() - begin < 5000)
			bench_pause();
	}
	fflush(stdout);
}

static void bare_rank(struct bench_rank *r, struct bare *b, int argc, char **argv)
{
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	cpu_set_t set;

	b->yield = r->nranks > cores;
	CPU_ZERO(&set);
	CPU_SET((size_t)r->rank, &set);
	if (!b->yield)
		sched_setaffinity(0, sizeof(set), &set);
	for (int p = 0; !b->slots && p < r->nranks; p++)
		b->scratch[p] = bench_buffer(BARE_SOCKET_CHUNK, 0);
	r->engine = b;
	if (b->distances > 0)
		bare_look(r, b->distances);
	else
		bench_rank_run(r, argc, argv);
	exit(0);
}

int main(int argc, char **argv)
{
	static int fd[BENCH_RANKS][BENCH_RANKS];
	int n = argc > 3 ? atoi(argv[2]) : 0, shm = argc > 3 && strcmp(argv[1], "sockets") != 0,
	    status, bad = 0;
	size_t slots = sizeof(struct bare_slots) * (size_t)(n > 0 ? n : 1);
	struct bare b = {.chunk = (shm ? BARE_SHM_CHUNK : BARE_SOCKET_CHUNK) / sizeof(float)};
	struct bench_rank r = {.nranks = n, .call = call};
	char *memory;

	if (n >= 2 && strcmp(argv[1], "distance") == 0)
		b.distances = atof(argv[3]);
	if (n < 2 || n > BENCH_RANKS)
		bench_fail("usage: bench_bare shm|sockets RANKS OPERATION BYTES..., or distance 2 "
			   "SECONDS",
			   "");
	memory = mmap(NULL, slots + sizeof(*r.shared), PROT_READ | PROT_WRITE,
		      MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	if (memory == MAP_FAILED)
		bench_fail("no shared memory", "");
	r.shared = (struct bench_shared *)(void *)(memory + slots);
	b.slots = shm ? (struct bare_slots *)(void *)memory : NULL;
	for (int i = 0; !shm && i < n; i++)
		for (int k = 0; k < i; k++) {
			int ends[2];

			bare_connect(ends);
			fd[i][k] = ends[0];
			fd[k][i] = ends[1];
		}
	for (int i = 0; i < n; i++) {
		r.rank = i;
		memcpy(b.fd, fd[i], sizeof(b.fd));
		if (fork() == 0)
			bare_rank(&r, &b, argc - 2, argv + 2);
	}
	while (wait(&status) > 0)
		bad |= status;
	return bad != 0;
}
