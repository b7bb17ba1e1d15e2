/* SPDX-License-Identifier: BSD-3-Clause */
/* offload.c - the pool of host memory that stands in for device buffers, and the work on streams of the program. */
#include "device/offload.h"
#include "device/device.h"
#include "device/device_impl.h"
#include "base/clock.h"
#include "base/error.h"

#include <coll/coll.h>
#include <stdlib.h>
#include <string.h>

/* The flags of a piece, which a stream writes. */
enum { FLAG_ARRIVED, FLAG_PASSED, FLAG_MET };

/* Memory of the calls with a stream beyond which a call waits for an earlier call to end. */
#define OFFLOAD_MOST ((size_t)256 << 20)

enum {
	OFFLOAD_FLAGS = 64,   /* bytes for the flags */
	OFFLOAD_LEAST = 4096, /* the size of bin 0 */
	OFFLOAD_WASTE = 2,    /* a piece serves calls of so many smaller classes */
	OFFLOAD_KEPT =
		32, /* idle pieces of one size, beyond which a call without a stream frees its own */
	OFFLOAD_LOOK_US = 1000, /* between two questions to the driver */
	OFFLOAD_POLL_US = 20
};

/* ------------------------------------------------------------------------ the pool -- */

static int offload_bin(size_t need)
{
	int bin = 0;

	while (bin < OFFLOAD_BINS && (size_t)OFFLOAD_LEAST << bin < need)
		bin++;
	return bin;
}

static int offload_is_passed(const struct offload *o)
{
	return atomic_load(&o->flags[FLAG_PASSED]) == o->turn;
}

static void offload_put(struct offload_pool *pool, struct offload *o)
{
	const int bin = offload_bin(o->size);

	o->next = pool->idle[bin];
	pool->idle[bin] = o;
	pool->kept[bin]++;
}

/* The pieces that their streams have passed become idle.  Returns 1 if streams are still to pass other pieces. */
static int offload_sweep(struct offload_pool *pool)
{
	struct offload **at = &pool->passing, *o;
	int more = 0;

	while ((o = *at)) {
		if (o->dead || !offload_is_passed(o)) {
			more |= !o->dead;
			at = &o->next;
			continue;
		}
		*at = o->next;
		offload_put(pool, o);
	}
	return more;
}

/* An idle piece of the sizes up to bin `last`, or NULL. */
static struct offload *offload_find(struct offload_pool *pool, int bin, int last, int pinned)
{
	for (; bin <= last && bin < OFFLOAD_BINS; bin++)
		for (struct offload **at = &pool->idle[bin], *o; (o = *at); at = &o->next)
			if (o->pinned || !pinned) {
				*at = o->next;
				pool->kept[bin]--;
				return o;
			}
	return NULL;
}

static struct offload *offload_new(int bin)
{
	struct offload *o = bin < OFFLOAD_BINS ? calloc(1, sizeof(*o)) : NULL;

	if (o)
		o->size = (size_t)OFFLOAD_LEAST << bin;
	return o;
}

struct offload *offload_take(struct offload_pool *pool, size_t need, void *owner, int pinned)
{
	const int bin = offload_bin(need);
	struct offload *o;

	if (pool->passing)
		offload_sweep(pool);
	o = offload_find(pool, bin, bin + OFFLOAD_WASTE, pinned);
	if (!o)
		o = offload_new(bin);
	if (o) {
		o->owner = owner;
		o->buffers = 1;
		o->on_stream = 0;
	}
	return o;
}

struct offload *offload_take_stream(struct offload_pool *pool, size_t need, void *owner,
				    const char *what, const struct caller_stream *stream,
				    int may_wait, int *code)
{
	const int bin = offload_bin(need), in_use = offload_sweep(pool) || pool->on_streams;
	const int full = pool->bytes + ((size_t)OFFLOAD_LEAST << bin) > OFFLOAD_MOST;
	struct offload *o = offload_find(pool, bin, full ? OFFLOAD_BINS : bin + OFFLOAD_WASTE, 1);

	*code = COLL_IN_PROGRESS;
	if (!o && may_wait && in_use && full && need)
		return NULL;
	if (!o && (o = offload_new(bin))) {
		pool->bytes += o->size;
		o->counted = 1;
	}
	*code = o ? COLL_SUCCESS : error_set(COLL_ERR_NO_MEMORY, "%s: no memory", what);
	if (!o)
		return NULL;
	o->owner = owner;
	o->buffers = need != 0;
	o->on_stream = o->filling = 1;
	o->stream = *stream;
	o->what = what;
	o->ins = o->outs = 0;
	o->next_dependency = NULL;
	pool->on_streams++;
	return o;
}

void offload_free(struct offload *o, int keep)
{
	if (o->pinned && !keep)
		device_unpin(o->memory);
	else if (!keep)
		free(o->memory);
	stream_events_free(&o->spare);
	stream_event_unref(o->event);
	free(o->copy);
	free(o);
}

/* Memory that is not pinned is worth no keeping; the driver frees pinned memory only while no stream waits. */
static int offload_is_surplus(const struct offload_pool *pool, const struct offload *o)
{
	return !o->pinned || (!o->on_stream && !pool->on_streams && !pool->passing &&
			      pool->kept[offload_bin(o->size)] >= OFFLOAD_KEPT);
}

/*
 * Frees or keeps a piece that its owner and the calling thread no longer need.  A piece that a stream has not passed yet goes
 * to pool->passing.
 */
static void offload_leave(struct offload_pool *pool, struct offload *o)
{
	const int passed = !o->memory || (!o->dead && offload_is_passed(o));

	pool->on_streams -= o->on_stream;
	if (!o->memory || o->lost || (passed && offload_is_surplus(pool, o))) {
		pool->bytes -= o->counted && !o->lost ? o->size : 0;
		offload_free(o, o->lost);
	} else if (!passed) {
		o->next = pool->passing;
		pool->passing = o;
	} else {
		offload_put(pool, o);
	}
}

void offload_give_back(struct offload_pool *pool, struct offload *o)
{
	o->owner = NULL;
	if (!o->on_stream || !o->filling)
		offload_leave(pool, o);
}

void offload_filled(struct offload_pool *pool, struct offload *o)
{
	o->filling = 0;
	if (!o->owner)
		offload_leave(pool, o);
}

/* Waits until the stream has looked at a flag for the last time, or has failed. */
static int offload_await_stream(struct offload *o, int64_t deadline_us)
{
	while (offload_has_passed(o, 1) == COLL_IN_PROGRESS) {
		if (clock_now_us() > deadline_us)
			return 0;
		clock_nap(OFFLOAD_POLL_US);
	}
	return 1;
}

int offload_free_pool(struct offload_pool *pool, int64_t deadline_us)
{
	struct offload *o;
	int passed = 1, one;

	while ((o = pool->passing)) {
		pool->passing = o->next;
		one = offload_await_stream(o, deadline_us);
		passed &= one;
		offload_free(o, !one);
	}
	for (int bin = 0; bin < OFFLOAD_BINS; bin++)
		while ((o = pool->idle[bin])) {
			pool->idle[bin] = o->next;
			offload_free(o, 0);
		}
	return passed;
}

/* ---------------------------------------------------------------------- memory -- */

/* The flags lie behind the memory, which begins with a page. */
static void offload_place(struct offload *o, void *memory, int pinned)
{
	o->memory = memory;
	o->flags = memset((char *)memory + o->size, 0, OFFLOAD_FLAGS);
	o->pinned = pinned;
}

/* A context is current.  Returns a CUresult. */
static int offload_place_pinned(struct offload *o)
{
	void *memory = NULL;
	const int result = cuda_driver.cuMemHostAlloc(&memory, o->size + OFFLOAD_FLAGS,
						      CUDA_PIN_PORTABLE | CUDA_PIN_MAPPED);

	if (!result)
		offload_place(o, memory, 1);
	return result;
}

int offload_pin_near(struct offload *o, const void *near)
{
	struct device_guard guard;
	void *memory;

	if (o->memory)
		return 1;
	if (!device_enter(&guard, near)) {
		(void)offload_place_pinned(o);
		device_leave(&guard);
	}
	if (!o->memory && !posix_memalign(&memory, OFFLOAD_LEAST, o->size + OFFLOAD_FLAGS))
		offload_place(o, memory, 0);
	return o->memory != NULL;
}

int offload_pin(struct offload *o)
{
	struct device_pushed pushed;
	int result;

	device_expect_held();
	if (o->memory)
		return COLL_SUCCESS;
	result = device_push(&pushed, o->stream.context);
	if (!result) {
		result = offload_place_pinned(o);
		device_pop(&pushed);
	}
	if (result == CUDA_NO_MEMORY)
		return error_set(
			COLL_ERR_NO_MEMORY,
			"%s: no pinned memory for %zu bytes on their way to or from a device",
			o->what, o->size);
	return result ? stream_failed(o->what, result) : COLL_SUCCESS;
}

/* ---------------------------------------------------------------------- the copies -- */

int offload_reserve(struct offload *o, size_t copies)
{
	if (copies > o->capacity) {
		free(o->copy);
		o->copy = malloc(copies * sizeof(*o->copy));
		o->capacity = o->copy ? copies : 0;
	}
	return o->copy ? COLL_SUCCESS : error_set(COLL_ERR_NO_MEMORY, "%s: no memory", o->what);
}

static int offload_compare(const void *a, const void *b)
{
	const struct offload_copy *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

size_t offload_join(struct offload_copy *copy, size_t n)
{
	size_t joined = 0;

	qsort(copy, n, sizeof(*copy), offload_compare);
	for (size_t i = 0; i < n; i++) {
		struct offload_copy *last = joined ? &copy[joined - 1] : NULL;

		if (last && last->at + last->len == copy[i].at &&
		    last->user + last->len == copy[i].user)
			last->len += copy[i].len;
		else
			copy[joined++] = copy[i];
	}
	return joined;
}

/* ----------------------------------------------------------------- work on the stream -- */

int offload_meet(struct offload *o)
{
	return stream_write(o->what, &o->stream, &o->flags[FLAG_MET], o->turn + 1);
}

int offload_meet_other(struct offload *o, const struct offload *other)
{
	return stream_wait(o->what, &o->stream, &other->flags[FLAG_MET], other->turn + 1);
}

int offload_fill(struct offload *o)
{
	int code = COLL_SUCCESS;

	o->turn++;
	o->dead = 1; /* until all is there */
	if (o->event) {
		o->event->next = o->spare;
		o->spare = o->event;
		o->event = NULL;
	}
	for (size_t i = 0; !code && i < o->ins; i++)
		code = stream_copy(&o->stream, (uintptr_t)o->memory + o->copy[i].at,
				   o->copy[i].user, o->copy[i].len);
	if (!code)
		code = stream_write(o->what, &o->stream, &o->flags[FLAG_ARRIVED], o->turn);
	if (!code)
		code = stream_event_record(&o->spare, o->what, &o->stream, &o->event);
	o->looked_us = clock_now_us();
	return code;
}

int offload_drain(struct offload *o, const _Atomic uint32_t *flag, uint32_t number)
{
	int code = stream_wait(o->what, &o->stream, flag, number);

	for (size_t i = o->ins; !code && i < o->ins + o->outs; i++)
		code = stream_copy(&o->stream, o->copy[i].user,
				   (uintptr_t)o->memory + o->copy[i].at, o->copy[i].len);
	if (!code)
		code = stream_write(o->what, &o->stream, &o->flags[FLAG_PASSED], o->turn);
	o->dead = code != COLL_SUCCESS;
	return code;
}

/* ---------------------------------------------------------------------- the answers -- */

/* Has the stream failed?  Then it writes no flag any more. */
static int offload_failed(const struct offload *o)
{
	const int code = o->event ? stream_event_query(o->event) : COLL_IN_PROGRESS;

	return code == COLL_SUCCESS ? COLL_IN_PROGRESS : code;
}

static int offload_has_come(struct offload *o, int flag, int look)
{
	const int64_t now = look ? clock_now_us() : 0;

	if (atomic_load(&o->flags[flag]) == o->turn)
		return COLL_SUCCESS;
	if (!look || now < o->looked_us + OFFLOAD_LOOK_US)
		return COLL_IN_PROGRESS;
	o->looked_us = now;
	return offload_failed(o);
}

int offload_has_arrived(struct offload *o, int look)
{
	return offload_has_come(o, FLAG_ARRIVED, look);
}

int offload_has_passed(struct offload *o, int look)
{
	return offload_has_come(o, FLAG_PASSED, look);
}
