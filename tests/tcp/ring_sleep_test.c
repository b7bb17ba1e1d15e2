/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_sleep_test.c - no side of a ring of the tcp plugin sleeps while the other one takes it to be awake, whatever a
 * processor does with loads and stores that C11 does not order.
 *
 * The two sides run in one thread, and the test stands for the processor.  A side's stores wait in a buffer, where the
 * other side does not see them.  The side's next sequentially consistent load makes those up to its last sequentially
 * consistent store visible: C11 orders such a store before such a load, and no other store before any load.  After each
 * load of one side, in turn, the whole other side runs.
 */
#include "../lib/tap.h"

#include "tcp_ring.h"

enum { SIDES = 2, BUFFER = 256 };

struct model_store {
	void *at;
	size_t size;
	uint64_t value;
	int consistent;
};

static struct {
	struct model_store store[BUFFER];
	int n;
} buffers[SIDES];
static int side;            /* which one runs */
static int points;          /* loads of the first side until the second one runs; 0: it has run */
static void (*other)(void); /* the second side */

static void make_visible(int n)
{
	struct model_store *store = buffers[side].store;

	for (int i = 0; i < n; i++)
		memcpy(store[i].at, &store[i].value, store[i].size);
	buffers[side].n -= n;
	memmove(store, store + n, (size_t)buffers[side].n * sizeof(*store));
}

/* A side has ended: other processors see its stores sooner or later. */
static void run(int which, void (*function)(void))
{
	side = which;
	function();
	make_visible(buffers[which].n);
}

static void after_load(void)
{
	if (side == 0 && points && !--points) {
		run(1, other);
		side = 0;
	}
}

static void model_store(void *at, size_t size, uint64_t value, memory_order order)
{
	if (buffers[side].n == BUFFER)
		bail_out("more stores than the model can hold");
	buffers[side].store[buffers[side].n++] =
		(struct model_store){at, size, value, order == memory_order_seq_cst};
}

static uint64_t model_load(const void *at, size_t size, memory_order order)
{
	const struct model_store *store = buffers[side].store;
	uint64_t value = 0;
	int n = buffers[side].n;

	while (n && order == memory_order_seq_cst && !store[n - 1].consistent)
		n--;
	if (order == memory_order_seq_cst)
		make_visible(n);
	memcpy(&value, at, size);
	for (int i = 0; i < buffers[side].n; i++)
		if (store[i].at == at)
			value = store[i].value;
	after_load();
	return value;
}

static uint64_t model_exchange(void *at, size_t size, uint64_t value)
{
	uint64_t old = 0;

	make_visible(buffers[side].n);
	memcpy(&old, at, size);
	memcpy(at, &value, size);
	after_load();
	return old;
}

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#undef atomic_exchange
#define atomic_load_explicit(at, order) model_load((const void *)(at), sizeof(*(at)), order)
#define atomic_load(at)                 atomic_load_explicit(at, memory_order_seq_cst)
#define atomic_store_explicit(at, value, order)                                                    \
	model_store((void *)(uintptr_t)(at), sizeof(*(at)), value, order)
#define atomic_store(at, value)    atomic_store_explicit(at, value, memory_order_seq_cst)
#define atomic_exchange(at, value) model_exchange((void *)(uintptr_t)(at), sizeof(*(at)), value)
#include "ring_rig.h"

static int sleeps; /* the side that wants to sleep does so */

static void write_one(void)
{
	write_message(1);
}

static void reader_sleeps(void)
{
	sleeps = !tcp_ring_arm(&reader);
}

static void read_all(void)
{
	tcp_ring_pull_all(&reader);
}

static void writer_sleeps(void)
{
	sleeps = !tcp_ring_arm_space(&writer, &writer_conn);
}

static void fill_visibly(void)
{
	points = 0;
	run(0, fill);
	control.reader_sleeps = 0;
	wakes = 0;
}

/* The second function runs after each load of the first. */
static void test(void (*prepare)(void), void (*first)(void), void (*second)(void), const char *name)
{
	int lost = 0, runs = 0;

	do {
		prepare();
		points = ++runs;
		other = second;
		sleeps = 0;
		run(0, first);
		if (points)
			run(1, second);
		lost += sleeps && !wakes;
	} while (!points);
	ok(runs > 1, "%s: %d orders", name, runs);
	is_int(lost, 0, "and none in which the sleeper is not woken");
}

int main(void)
{
	test(begin, write_one, reader_sleeps,
	     "a reader that goes to sleep while a message is written");
	test(begin, reader_sleeps, write_one,
	     "a message that is written while the reader goes to sleep");
	test(fill_visibly, read_all, writer_sleeps,
	     "a writer that goes to sleep while room is made");
	test(fill_visibly, writer_sleeps, read_all,
	     "room that is made while the writer goes to sleep");
	return done_testing();
}
