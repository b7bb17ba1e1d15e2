/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * offload_test.c - the memory that stands in for device buffers: which pieces of the pool serve which calls; copies beside
 * the calling thread, whose owners take turns.
 */
#include "../lib/device_harness.h"
#include "base/clock.h"
#include "base/error.h"
#include "device/device.h"
#include "device/offload.h"

enum { MANY = 40, PATIENCE_US = 5000000 };

/* -------------------------------------------------------------------------- the pool -- */

static struct offload *taken(struct offload_pool *pool, size_t need)
{
	struct offload *o = offload_take(pool, need, pool, 0);

	if (!o || !offload_pin_near(o, NULL))
		bail_out("no memory");
	return o;
}

/* Gives back pieces, up to NULL, and frees all. */
static void freed(struct offload_pool *pool, struct offload *const *pieces)
{
	for (int i = 0; pieces[i]; i++)
		offload_give_back(pool, pieces[i]);
	is_int(offload_free_pool(pool, 0), 1, "all memory is freed");
}

static void test_sizes(void)
{
	struct offload_pool pool = {.passing = NULL};
	struct offload *small = taken(&pool, 100), *large = taken(&pool, 100000), *other;

	is_int((long)small->size, 4096, "a small piece has 4 KiB");
	is_int((long)large->size, 131072, "a larger one the next power of two");
	offload_give_back(&pool, small);
	offload_give_back(&pool, large);
	other = taken(&pool, 5000);
	ok(other != large, "a call leaves memory of many times its bytes alone");
	ok(taken(&pool, 40000) == large, "but not of a few times");
	ok(taken(&pool, 4096) == small, "a call takes the smallest piece that is large enough");
	freed(&pool, (struct offload *[]){small, large, other, NULL});
}

static void test_lost(void)
{
	struct offload_pool pool = {.passing = NULL};
	struct offload *o = taken(&pool, 100);
	char *memory = o->memory;

	o->lost = 1;
	offload_give_back(&pool, o);
	o = taken(&pool, 100);
	ok(o->memory != memory, "lost memory serves no call");
	memory[0] = 1; /* a device may write there */
	freed(&pool, (struct offload *[]){o, NULL});
}

/* A stream of the program; the context is current. */
static struct caller_stream stream_new(void)
{
	struct stream_home home = {.device = -1};
	struct caller_stream stream;
	void *handle;

	if (cuStreamCreate(&handle, CU_STREAM_NON_BLOCKING) ||
	    caller_stream_find("a call", handle, &home, NULL, &stream))
		bail_out("no stream");
	return stream;
}

static struct offload *filled(struct offload_pool *pool, size_t need, void *owner,
			      const struct caller_stream *stream)
{
	int code;
	struct offload *o = offload_take_stream(pool, need, owner, "a call", stream, 0, &code);

	if (!o || offload_pin(o) || offload_fill(o))
		bail_out("no memory");
	return o;
}

static int comes(int (*what)(struct offload *o, int look), struct offload *o)
{
	const int64_t deadline = clock_now_us() + PATIENCE_US;

	while (what(o, 0) == COLL_IN_PROGRESS && clock_now_us() < deadline)
		clock_nap(100);
	return what(o, 0) == COLL_SUCCESS;
}

/* A piece serves the next call once its stream has passed it. */
static void test_stream(void)
{
	struct offload_pool pool = {.passing = NULL};
	struct caller_stream stream = stream_new();
	struct offload *flags = taken(&pool, 100), *o = filled(&pool, 100, &pool, &stream), *other;
	_Atomic uint32_t *flag = (_Atomic uint32_t *)(void *)flags->memory;
	int code;

	ok(comes(offload_has_arrived, o), "the stream tells that the input is there");
	is_int(offload_drain(o, flag, 1), COLL_SUCCESS, "the stream waits for the call");
	offload_give_back(&pool, o);
	is_int(pool.on_streams, 1, "until the stream has its work the piece is in use");
	offload_filled(&pool, o);
	ok(pool.on_streams == 0 && pool.passing == o, "and then until the stream has passed it");
	other = taken(&pool, 100);
	ok(other != o, "no other call gets it");
	atomic_store(flag, 1);
	ok(comes(offload_has_passed, o), "the stream passes");
	ok(offload_take_stream(&pool, 100, &pool, "a call", &stream, 0, &code) == o,
	   "the next call gets the piece");
	offload_filled(&pool, o);
	freed(&pool, (struct offload *[]){flags, o, other, NULL});
	cuStreamDestroy_v2(stream.handle);
}

static void test_too_much(void)
{
	const size_t half = (size_t)128 << 20;
	struct offload_pool pool = {.passing = NULL};
	struct caller_stream stream = stream_new();
	struct offload *a, *b, *c, *d;
	int code;

	a = offload_take_stream(&pool, half, &pool, "a call", &stream, 1, &code);
	b = offload_take_stream(&pool, half, &pool, "a call", &stream, 1, &code);
	ok(a && b, "calls with a stream take 256 MiB");
	ok(!offload_take_stream(&pool, 1, &pool, "a call", &stream, 1, &code) &&
		   code == COLL_IN_PROGRESS,
	   "another call waits");
	c = offload_take_stream(&pool, 1, &pool, "a call", &stream, 0, &code);
	ok(c != NULL, "unless it must not");
	d = offload_take_stream(&pool, 0, &pool, "a call", &stream, 1, &code);
	ok(d != NULL, "or needs flags only");
	offload_give_back(&pool, a);
	offload_filled(&pool, a);
	is_int((long)(pool.bytes >> 20), 128, "a piece that got no memory does not count");
	offload_filled(&pool, b);
	offload_filled(&pool, c);
	offload_filled(&pool, d);
	freed(&pool, (struct offload *[]){b, c, d, NULL});
	cuStreamDestroy_v2(stream.handle);
}

/* A large piece that is idle serves a small call when there may be no more memory. */
static void test_idle_large(void)
{
	const size_t half = (size_t)128 << 20;
	struct offload_pool pool = {.passing = NULL};
	struct caller_stream stream = stream_new();
	struct offload *a = taken(&pool, half), *b, *c;
	int code;

	offload_give_back(&pool, a);
	pool.bytes = 2 * half;
	b = offload_take_stream(&pool, half, &pool, "a call", &stream, 1, &code);
	ok(b == a, "an idle piece serves a call with a stream");
	offload_give_back(&pool, b);
	offload_filled(&pool, b);
	c = offload_take_stream(&pool, 1, &pool, "a call", &stream, 1, &code);
	ok(c == a, "at the limit also a call of a few bytes");
	offload_filled(&pool, c);
	pool.bytes = 0;
	freed(&pool, (struct offload *[]){c, NULL});
	cuStreamDestroy_v2(stream.handle);
}

/* Messages that were many once do not keep their memory. */
static void test_many(void)
{
	struct offload_pool pool = {.passing = NULL};
	const int pinned = standin_pinned();
	struct offload *o[MANY + 1] = {NULL};

	for (int i = 0; i < MANY; i++)
		o[i] = taken(&pool, 100);
	is_int(standin_pinned() - pinned, MANY, "so many messages have so many pieces");
	for (int i = 0; i < MANY; i++)
		offload_give_back(&pool, o[i]);
	is_int(standin_pinned() - pinned, 32, "32 of which stay");
	freed(&pool, (struct offload *[]){NULL});
}

static void test_free(void)
{
	struct offload_pool pool = {.passing = NULL};
	struct caller_stream stream = stream_new();
	struct offload *o = filled(&pool, 100, NULL, &stream);
	static _Atomic uint32_t *flag;
	struct offload *flags = taken(&pool, 100);
	const int pinned = standin_pinned();

	flag = (_Atomic uint32_t *)(void *)flags->memory;
	if (offload_drain(o, flag, 1))
		bail_out("the stream takes no work");
	offload_filled(&pool, o);
	is_int(offload_free_pool(&pool, clock_now_us() + 1000), 0, "a stream holds a piece");
	is_int(standin_pinned(), pinned, "whose memory stays allocated");
	atomic_store(flag, 1);
	ok(cuStreamSynchronize(stream.handle) == CUDA_SUCCESS, "and harms nobody later");
	offload_free(flags, 0);
	is_int(standin_pinned(), pinned - 1, "other memory is freed");
	cuStreamDestroy_v2(stream.handle);
}

/* ------------------------------------------------------------------------- the copies -- */

/* The copies of two owners, in the order of their ends. */
struct order {
	struct copy copy[2][MANY];
	int n, owner[2 * MANY], step[2 * MANY], code[2 * MANY];
};

static void ended(struct copy *copy, int code)
{
	struct order *order = copy->owner;

	order->owner[order->n] = copy >= order->copy[1];
	order->step[order->n] = copy->step;
	order->code[order->n++] = code;
}

static void add(struct copies *copies, struct copy_queue *queue, struct order *order, int owner,
		void *device, char *host)
{
	for (int i = 0; i < MANY; i++) {
		order->copy[owner][i] = (struct copy){.ended = ended,
						      .owner = order,
						      .step = i,
						      .dst = host + i,
						      .src = (char *)device + i,
						      .n = 1};
		copies_add(copies, queue, &order->copy[owner][i]);
	}
}

static void drive(struct copies *copies)
{
	const int64_t deadline = clock_now_us() + PATIENCE_US;

	while (copies->pending && clock_now_us() < deadline)
		copies_progress(copies);
}

static void test_turns(void)
{
	static struct order order;
	static char host[2][MANY];
	struct copies copies = {0};
	struct copy_queue queue[2] = {{.stream = NULL}};
	void *device = device_new(0, MANY, 0);
	int last[2] = {-1, -1}, in_order = 1, second = 0;

	for (int k = 0; k < 2; k++) {
		if (copies_find(&copies, COPY_IN, device, &queue[k].stream))
			bail_out("no stream");
		add(&copies, &queue[k], &order, k, device, host[k]);
	}
	drive(&copies);
	is_int(order.n, 2 * MANY, "all copies end");
	for (int i = 0; i < order.n; i++) {
		in_order &= !order.code[i] && order.step[i] == last[order.owner[i]] + 1;
		last[order.owner[i]] = order.step[i];
		second += i < MANY && order.owner[i];
	}
	ok(in_order, "those of an owner in their order");
	is_int(second, MANY / 2, "the owners take turns");
	copies_free(&copies);
	device_free(0, device);
}

static void test_cancel(void)
{
	static struct order order, other;
	static char host[2][MANY];
	struct copies copies = {0};
	struct copy_queue queue[COPY_WAYS] = {{.stream = NULL}}, others = {.stream = NULL};
	void *device = device_new(0, MANY, 0);
	unsigned long begun;

	if (copies_find(&copies, COPY_IN, device, &queue[COPY_IN].stream))
		bail_out("no stream");
	others.stream = queue[COPY_IN].stream;
	add(&copies, &queue[COPY_IN], &order, 0, device, host[0]);
	add(&copies, &others, &other, 0, device, host[1]);
	copies_progress(&copies);
	begun = standin_copies();
	is_int(copies_cancel(&copies, queue, &order, 0), 0, "the copies of an owner are cancelled");
	ok(standin_copies() == begun, "which waits for those that run, and starts none");
	is_int(order.n, 0, "the owner hears of none");
	drive(&copies);
	is_int(other.n, MANY, "those of another owner go on");
	copies_free(&copies);
	device_free(0, device);
}

static void test_fails(void)
{
	static struct order order;
	static char host[MANY];
	struct copies copies = {0};
	struct copy_queue queue = {0};
	void *device = device_new(0, MANY, 0);
	char fault[64];
	int failed = 0;

	if (copies_find(&copies, COPY_IN, device, &queue.stream))
		bail_out("no stream");
	snprintf(fault, sizeof(fault), "700@%lu", standin_copies() + 5);
	setenv("STANDIN_CUDA_COPY", fault, 1);
	add(&copies, &queue, &order, 0, device, host);
	drive(&copies);
	unsetenv("STANDIN_CUDA_COPY");
	for (int i = 0; i < order.n; i++)
		failed += order.code[i] == COLL_ERR_DEVICE;
	is_int(order.n, MANY, "copies that fail end");
	ok(failed > 0, "one of them with an error");
	copies_free(&copies);
	device_free(0, device);
}

int main(void)
{
	device_begin();
	device_init();
	setenv("COLL_LOG", "error", 1);
	if (!device_open())
		bail_out("no driver");
	context_begin(0);
	test_sizes();
	test_lost();
	test_stream();
	test_too_much();
	test_idle_large();
	test_many();
	test_free();
	test_turns();
	test_cancel();
	test_fails();
	context_end(0);
	return done_testing();
}
