/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * copy_bench.c - how two processes best hand a long message over: by two copies through a ring of shared memory, or by
 * one.  Not a test.
 *
 *   cc -O3 -D_GNU_SOURCE -o copy_bench tests/bench/copy_bench.c
 *   copy_bench [-s seconds] [-o] [-b] [-h] [-g programs]
 *
 * -o: the sender's buffer stays as it is; else the sender writes it anew before each message, whose time is taken off.  -b: both
 * ranks send at once.  -h: huge pages, where the system has them.  -g: so many other programs use the processors.
 *
 * The ways take turns.  Before and after each sample the ranks look how far their processors are from each other (near.h), and
 * the sample counts for near (below 80 ns) or far processors.  A row has the microseconds of a message by each way: the median,
 * the quartiles and the number of samples.
 */
#include "near.h"

#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

enum {
	COPY_RING = 2 << 20,
	COPY_PIECE = 16 << 10, /* bytes of a ring that are published at once */
	COPY_READ = 256 << 10, /* most bytes of one process_vm_readv */
	COPY_PAST = 4 << 20,   /* length from which on the receiver's stores go past the caches */
	COPY_MOST = 16 << 20,
	COPY_SAMPLES = 4000,
	COPY_PROGRAMS = 32,
	COPY_LINE = 64
};

enum copy_way {
	COPY_BY_RING,      /* the sender copies to a ring, the receiver from there */
	COPY_BY_PAST_RING, /* so too, and the sender's stores go past the caches */
	COPY_BY_READ,      /* the receiver copies by process_vm_readv */
	COPY_BY_BOTH,      /* it does so from the front on; the sender copies the end to a ring */
	COPY_DIRECT,       /* the receiver copies from memory that both have mapped */
	COPY_WAYS
};

static const char *const copy_names[COPY_WAYS] = {"ring", "past", "readv", "both", "mapped"};
static const size_t copy_sizes[] = {1 << 10,   4 << 10,    16 << 10, 64 << 10,
				    256 << 10, 1024 << 10, 4 << 20,  16 << 20};
enum { COPY_SIZES = sizeof(copy_sizes) / sizeof(copy_sizes[0]) };

/* The ring and the positions by which a rank sends its messages to the other rank. */
struct copy_ring {
	_Alignas(128) _Atomic uint64_t written;
	_Alignas(128) _Atomic uint64_t taken;
	/* Of messages with one copy: how many are announced and taken; how far the receiver has read the last. */
	_Alignas(128) _Atomic uint64_t announced;
	_Alignas(128) _Atomic uint64_t done;
	_Alignas(128) _Atomic uint64_t front;
	_Alignas(128) uint8_t data[COPY_RING];
};

struct copy_shared {
	struct near_shared near;
	struct copy_ring ring[2]; /* from each rank */
	_Alignas(128) _Atomic uint64_t barrier[2];
	_Alignas(128) _Atomic int stop;
	double refilled[2]; /* microseconds of this sample */
	pid_t pid[2];
	uint8_t *private_buffer[2]; /* addresses in the memory of each rank */
	_Alignas(4096) uint8_t buffer[2][COPY_MOST];
};

/* What a rank knows. */
struct copy {
	struct copy_shared *shared;
	struct near near;
	int rank, refills, both, huge;
	uint64_t barriers, sent, got;
	uint8_t *from, *to;
	struct copy_ring *out, *in;
};

/* A message under way, on one side.  `done` counts the bytes that passed the ring, or that the receiver has copied. */
struct copy_message {
	enum copy_way way;
	size_t n, done, front;
	int complete;
};

static double copy_result[NEAR_KINDS][COPY_SIZES][COPY_WAYS][COPY_SAMPLES];
static int copy_count[NEAR_KINDS][COPY_SIZES][COPY_WAYS];

static size_t copy_min(size_t a, size_t b)
{
	return a < b ? a : b;
}

static int copy_is_single(enum copy_way way)
{
	return way == COPY_BY_READ || way == COPY_BY_BOTH || way == COPY_DIRECT;
}

static void copy_barrier(struct copy *c)
{
	atomic_store(&c->shared->barrier[c->rank], ++c->barriers);
	while (atomic_load(&c->shared->barrier[1 - c->rank]) < c->barriers)
		bench_pause();
}

/* -------------------------------------------------------------------- copying -- */

/* As memcpy, by stores that go past the caches. */
static void copy_past(uint8_t *to, const uint8_t *from, size_t n)
{
#ifdef __SSE2__
	enum { WORDS = COPY_LINE / sizeof(__m128i) };
	size_t done = copy_min(n, -(uintptr_t)to % COPY_LINE);

	memcpy(to, from, done);
	for (; n - done >= COPY_LINE; done += COPY_LINE)
		for (int i = 0; i < WORDS; i++)
			_mm_stream_si128(
				(__m128i *)(void *)(to + done) + i,
				_mm_loadu_si128((const __m128i *)(const void *)(from + done) + i));
	_mm_sfence();
	memcpy(to + done, from + done, n - done);
#else
	memcpy(to, from, n);
#endif
}

static void copy_to_result(const struct copy_message *m, uint8_t *to, const uint8_t *from, size_t n)
{
	if (m->n >= COPY_PAST)
		copy_past(to, from, n);
	else
		memcpy(to, from, n);
}

static void copy_by_read(const struct copy *c, size_t at, size_t n)
{
	const int peer = 1 - c->rank;
	struct iovec local = {c->to + at, n}, remote = {c->shared->private_buffer[peer] + at, n};

	if (process_vm_readv(c->shared->pid[peer], &local, 1, &remote, 1, 0) == (ssize_t)n)
		return;
	perror("copy_bench: process_vm_readv");
	exit(1);
}

/* -------------------------------------------------------------------- sending -- */

/* Writes the next piece of the message to the ring; of COPY_BY_BOTH, the piece before the last one. */
static void copy_write_piece(struct copy *c, struct copy_message *m)
{
	struct copy_ring *ring = c->out;
	const uint64_t own = atomic_load_explicit(&ring->written, memory_order_relaxed);
	const uint64_t taken = atomic_load_explicit(&ring->taken, memory_order_acquire);
	const size_t at = own % COPY_RING;
	const size_t part = copy_min(copy_min(m->n - m->done, COPY_PIECE),
				     copy_min(COPY_RING - at, COPY_RING - (size_t)(own - taken)));
	const uint8_t *from = c->from + (m->way == COPY_BY_BOTH ? m->n - m->done - part : m->done);

	if (!part)
		return;
	if (m->way == COPY_BY_PAST_RING)
		copy_past(ring->data + at, from, part);
	else
		memcpy(ring->data + at, from, part);
	atomic_store_explicit(&ring->written, own + part, memory_order_release);
	m->done += part;
}

static void copy_send_step(struct copy *c, struct copy_message *m)
{
	if (m->complete)
		return;
	if (!copy_is_single(m->way)) {
		copy_write_piece(c, m);
		m->complete = m->done == m->n;
		return;
	}
	m->complete = atomic_load_explicit(&c->out->done, memory_order_acquire) == c->sent;
	/* The receiver reads the middle itself. */
	if (!m->complete && m->way == COPY_BY_BOTH &&
	    m->n - m->done >
		    atomic_load_explicit(&c->out->front, memory_order_relaxed) + COPY_READ / 2)
		copy_write_piece(c, m);
}

/* ------------------------------------------------------------------ receiving -- */

static void copy_answer(struct copy *c, struct copy_message *m)
{
	m->complete = 1;
	atomic_store(&c->in->front, 0);
	atomic_store(&c->in->done, ++c->got);
}

/* Takes one piece from the ring; of COPY_BY_BOTH, to the end of the message. */
static void copy_take_piece(struct copy *c, struct copy_message *m)
{
	struct copy_ring *ring = c->in;
	const uint64_t taken = atomic_load_explicit(&ring->taken, memory_order_relaxed);
	const uint64_t written = atomic_load_explicit(&ring->written, memory_order_acquire);
	const size_t at = taken % COPY_RING, left = m->n - m->front - m->done;
	const size_t part = copy_min(copy_min((size_t)(written - taken), left),
				     copy_min(COPY_RING - at, COPY_PIECE));
	uint8_t *to = c->to + (m->way == COPY_BY_BOTH ? m->n - m->done - part : m->done);

	if (!part)
		return;
	copy_to_result(m, to, ring->data + at, part);
	atomic_store_explicit(&ring->taken, taken + part, memory_order_release);
	m->done += part;
}

/* Copies a piece from the sender's memory. */
static void copy_take_directly(struct copy *c, struct copy_message *m)
{
	const size_t most = m->way == COPY_BY_BOTH ? COPY_READ / 4 : COPY_READ;
	const size_t part = copy_min(m->n - m->done - m->front, most);

	if (m->way == COPY_DIRECT)
		copy_to_result(m, c->to + m->front, c->shared->buffer[1 - c->rank] + m->front,
			       part);
	else if (part)
		copy_by_read(c, m->front, part);
	m->front += part;
	if (m->way == COPY_BY_BOTH)
		atomic_store_explicit(&c->in->front, m->front, memory_order_release);
}

static void copy_receive_step(struct copy *c, struct copy_message *m)
{
	if (m->complete)
		return;
	if (!copy_is_single(m->way)) {
		copy_take_piece(c, m);
		m->complete = m->done == m->n;
		return;
	}
	if (atomic_load_explicit(&c->in->announced, memory_order_acquire) == c->got)
		return;
	if (m->way == COPY_BY_BOTH)
		copy_take_piece(c, m);
	copy_take_directly(c, m);
	if (m->front + m->done == m->n)
		copy_answer(c, m);
}

/* ------------------------------------------------------------------ measuring -- */

static void copy_refill(struct copy *c, enum copy_way way, size_t n)
{
	const double begin = bench_now();

	memset(way == COPY_DIRECT ? c->shared->buffer[c->rank] : c->from, (int)c->sent, n);
	c->shared->refilled[c->rank] += bench_now() - begin;
}

/* One message, or one each way. */
static void copy_pass(struct copy *c, enum copy_way way, size_t n, int sends, int receives)
{
	struct copy_message out = {.way = way, .n = n, .complete = !sends};
	struct copy_message in = {.way = way, .n = n, .complete = !receives};

	if (sends && c->refills)
		copy_refill(c, way, n);
	if (sends && copy_is_single(way))
		atomic_store(&c->out->announced, ++c->sent);
	while (!out.complete || !in.complete) {
		copy_send_step(c, &out);
		copy_receive_step(c, &in);
	}
	/* Of COPY_BY_BOTH the sender may have written pieces that the receiver has read. */
	if (receives && copy_is_single(way))
		atomic_store(&c->in->taken, atomic_load(&c->in->written));
}

/* Returns the microseconds of a message. */
static double copy_sample(struct copy *c, enum copy_way way, size_t n, int times)
{
	double us;

	copy_barrier(c);
	atomic_store(&c->in->taken, atomic_load(&c->in->written));
	c->shared->refilled[c->rank] = 0;
	copy_barrier(c);
	us = bench_now();
	for (int i = 0; i < times; i++) {
		copy_pass(c, way, n, c->both || c->rank == 0, c->both || c->rank == 1);
		if (!c->both)
			copy_pass(c, way, n, c->rank == 1, c->rank == 0);
	}
	copy_barrier(c);
	us = bench_now() - us;
	if (c->both)
		return (us - c->shared->refilled[0]) / times;
	return (us - c->shared->refilled[0] - c->shared->refilled[1]) / (2 * times);
}

static void copy_measure(struct copy *c, int size, enum copy_way way)
{
	const size_t n = copy_sizes[size];
	const int times = n < (1 << 20) ? 64 : n < COPY_MOST ? 8 : 2;
	double before, after, us;
	enum near_kind kind;
	int *count;

	copy_barrier(c);
	before = near_look(&c->near);
	copy_sample(c, way, n, 1);
	us = copy_sample(c, way, n, times);
	copy_barrier(c);
	after = near_look(&c->near);
	kind = near_kind_of(&c->near, before, after);
	count = &copy_count[kind == NEAR_NEITHER ? 0 : kind][size][way];
	if (kind != NEAR_NEITHER && *count < COPY_SAMPLES)
		copy_result[kind][size][way][(*count)++] = us;
}

static uint8_t *copy_buffer(const struct copy *c)
{
	uint8_t *at =
		mmap(NULL, COPY_MOST, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED)
		exit(1);
	if (c->huge)
		madvise(at, COPY_MOST, MADV_HUGEPAGE);
	memset(at, 1, COPY_MOST);
	return at;
}

static void copy_rank(struct copy *c, int rank, double seconds)
{
	const double end = bench_now() + 1e6 * seconds;
	cpu_set_t before;

	c->rank = rank;
	near_set(&c->near, &c->shared->near, rank, 2);
	near_bind(rank, &before);
	c->out = &c->shared->ring[rank];
	c->in = &c->shared->ring[1 - rank];
	c->from = copy_buffer(c);
	c->to = copy_buffer(c);
	memset(c->shared->buffer[rank], 1, COPY_MOST);
	c->shared->private_buffer[rank] = c->from;
	c->shared->pid[rank] = getpid();
	while (!atomic_load(&c->shared->stop)) {
		for (int size = 0; size < COPY_SIZES; size++)
			for (int way = 0; way < COPY_WAYS; way++)
				copy_measure(c, size, (enum copy_way)way);
		if (rank == 0 && bench_now() > end)
			atomic_store(&c->shared->stop, 1);
		copy_barrier(c);
	}
}

static int copy_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return (x > y) - (x < y);
}

static void copy_print_row(int kind, int size)
{
	printf("%-4s %8zu", kind == NEAR_FAR ? "far" : "near", copy_sizes[size]);
	for (int way = 0; way < COPY_WAYS; way++) {
		double *us = copy_result[kind][size][way];
		const int n = copy_count[kind][size][way];

		qsort(us, (size_t)n, sizeof(*us), copy_compare);
		if (n)
			printf("  %s %.1f (%.1f to %.1f; %d)", copy_names[way], us[n / 2],
			       us[n / 4], us[3 * n / 4], n);
	}
	printf("\n");
}

/* Forks the other rank and the other programs; none outlives this process. */
static void copy_fork(struct copy *c, int programs, double seconds, pid_t child[COPY_PROGRAMS + 1])
{
	for (int i = 0; i <= programs; i++) {
		child[i] = fork();
		if (child[i])
			continue;
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (i == programs) {
			copy_rank(c, 1, seconds);
			exit(0);
		}
		for (;;)
			bench_pause();
	}
}

int main(int argc, char **argv)
{
	static struct copy c = {.refills = 1};
	double seconds = 10;
	int option, programs = 0;
	pid_t child[COPY_PROGRAMS + 1];

	while ((option = getopt(argc, argv, "s:obhg:")) != -1) {
		switch (option) {
		case 's': seconds = atof(optarg); break;
		case 'o': c.refills = 0; break;
		case 'b': c.both = 1; break;
		case 'h': c.huge = 1; break;
		case 'g': programs = atoi(optarg); break;
		default: programs = -1;
		}
	}
	c.shared = mmap(NULL, sizeof(*c.shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
			-1, 0);
	if (c.shared == MAP_FAILED || programs < 0 || programs > COPY_PROGRAMS) {
		fprintf(stderr, "usage: copy_bench [-s seconds] [-o] [-b] [-h] [-g programs]\n");
		return 2;
	}
	setenv("BENCH_NS", "0-80,80-1000", 1);
	copy_fork(&c, programs, seconds, child);
	copy_rank(&c, 0, seconds);
	for (int i = 0; i < programs; i++)
		kill(child[i], SIGKILL);
	while (wait(NULL) > 0)
		;
	for (int kind = 0; kind < NEAR_KINDS; kind++)
		for (int size = 0; size < COPY_SIZES; size++)
			copy_print_row(kind, size);
	return 0;
}
