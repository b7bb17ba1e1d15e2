/* SPDX-License-Identifier: BSD-3-Clause */
/* bounce.c - pinned memory and words for calls with a stream of the program. */
#include "exec/bounce.h"
#include "device/device.h"
#include "exec/op.h"
#include "base/clock.h"
#include "base/error.h"

#include <stdlib.h>

/* The words of a bounce, which its stream writes. */
enum { BOUNCE_ARRIVED, BOUNCE_PASSED, BOUNCE_MET };

/* Pinned memory of a communicator beyond which a call waits for an earlier one to end. */
#define BOUNCE_MOST ((size_t)256 << 20)

enum {
	BOUNCE_ALIGN = 64,    /* of the memory, which follows the words */
	BOUNCE_LEAST = 4096,  /* bytes that are pinned at least */
	BOUNCE_LOOK_US = 1000 /* between two questions to the driver */
};

/* ---------------------------------------------------------------------- the copies -- */

static int bounce_compare(const void *a, const void *b)
{
	const struct bounce_copy *x = a, *y = b;

	return (x->at > y->at) - (x->at < y->at);
}

/* Joins copies that follow one another at both ends; returns their number. */
static size_t bounce_join(struct bounce_copy *copy, size_t n)
{
	size_t joined = 0;

	qsort(copy, n, sizeof(*copy), bounce_compare);
	for (size_t i = 0; i < n; i++) {
		struct bounce_copy *last = joined ? &copy[joined - 1] : NULL;

		if (last && last->at + last->len == copy[i].at &&
		    last->user + last->len == copy[i].user)
			last->len += copy[i].len;
		else
			copy[joined++] = copy[i];
	}
	return joined;
}

/* The steps of a kind, STEP_COPY_IN or STEP_COPY_OUT, as copies; returns their number. */
static size_t bounce_list(const struct op *op, int kind, struct bounce_copy *copy)
{
	size_t n = 0;

	for (int i = 0; i < op->sched.nsteps; i++) {
		const struct step *step = &op->sched.step[i];

		if (step->kind == kind)
			copy[n++] = (struct bounce_copy){
				staging_user_at(op, (int)step->dst.buf, step->dst.off),
				step->dst.off, step->len};
	}
	return bounce_join(copy, n);
}

/* Lists the copies of the operation, whose schedule and layout are there. */
static int bounce_plan(struct bounce *b, struct op *op)
{
	const size_t room = (size_t)op->sched.nsteps + 1;

	if (room > b->room) {
		free(b->copy);
		b->copy = malloc(room * sizeof(*b->copy));
		b->room = b->copy ? room : 0;
	}
	if (!b->copy)
		return error_set(COLL_ERR_NO_MEMORY, "%s: no memory", b->what);
	b->ins = bounce_list(op, STEP_COPY_IN, b->copy);
	if (op->call.staged & 1 << STAGING_SCALAR) {
		b->scalar =
			(op->staging.stage.need + BOUNCE_ALIGN - 1) / BOUNCE_ALIGN * BOUNCE_ALIGN;
		b->copy[b->ins++] = (struct bounce_copy){(uintptr_t)op->staging.scalar, b->scalar,
							 coll_dtype_size(op->call.args.dtype)};
	}
	b->outs = bounce_list(op, STEP_COPY_OUT, b->copy + b->ins);
	return COLL_SUCCESS;
}

int bounce_carries(const struct op *op)
{
	return op->call.staged && !op->call.slot;
}

/* Lays the device buffers out; returns the bytes that stand for them, and for a factor. */
static size_t bounce_need(struct op *op)
{
	staging_layout(op);
	return op->staging.stage.need + 2 * BOUNCE_ALIGN;
}

/* --------------------------------------------------------------- taking, giving back -- */

static int bounce_is_idle(const struct bounce *b)
{
	return !b->op && !b->filling && !b->dead &&
	       (!b->words || atomic_load(&b->words[BOUNCE_PASSED]) == b->turn);
}

/* The smallest idle one that is large enough, or NULL. */
static struct bounce *bounce_find(struct bounce *list, size_t need)
{
	struct bounce *found = NULL;

	for (struct bounce *b = list; b; b = b->next)
		if ((b->size >= need || !b->words) && bounce_is_idle(b) &&
		    (!found || b->size < found->size))
			found = b;
	return found;
}

/* Would another one be too much, and does one that is in use become idle? */
static int bounce_is_too_much(const struct bounce *list, size_t need)
{
	size_t sum = need;
	int in_use = 0;

	for (const struct bounce *b = list; b; b = b->next) {
		sum += b->size > b->need ? b->size : b->need;
		in_use |= !bounce_is_idle(b) && !b->dead;
	}
	return in_use && sum > BOUNCE_MOST;
}

static struct bounce *bounce_new(struct bounce **list)
{
	struct bounce *b = calloc(1, sizeof(*b));

	if (!b)
		return NULL;
	b->next = *list;
	*list = b;
	return b;
}

struct bounce *bounce_take(struct bounce **list, struct op *op, const char *what,
			   const struct caller_stream *stream, int may_wait, int *code)
{
	const int carries = op && bounce_carries(op);
	const size_t need = carries ? bounce_need(op) : 0;
	struct bounce *b = bounce_find(*list, need);

	if (!b && may_wait && bounce_is_too_much(*list, need)) {
		*code = COLL_IN_PROGRESS;
		return NULL;
	}
	if (!b)
		b = bounce_new(list);
	*code = b ? COLL_SUCCESS : error_set(COLL_ERR_NO_MEMORY, "%s: no memory", what);
	if (!b)
		return NULL;
	b->what = what;
	b->stream = *stream;
	b->need = need;
	b->carries = carries;
	b->ins = b->outs = 0;
	b->next_gate = NULL;
	if (carries)
		*code = bounce_plan(b, op);
	if (*code)
		return NULL;
	b->filling = 1;
	b->op = op;
	if (op)
		op->bounce = b;
	return b;
}

void bounce_give_back(struct bounce *b)
{
	b->op->bounce = b->op->gates = NULL;
	b->op->staging.start = NULL;
	b->op = NULL;
}

/* ----------------------------------------------------------------- work on the stream -- */

int bounce_pin(struct bounce *b)
{
	size_t size = BOUNCE_LEAST;
	void *pinned = NULL;
	int code;

	if (b->words)
		return COLL_SUCCESS;
	while (size < b->need + BOUNCE_ALIGN)
		size *= 2;
	code = stream_pin(b->what, &b->stream, size, &pinned);
	if (code)
		return code;
	b->words = pinned;
	b->memory = (char *)pinned + BOUNCE_ALIGN;
	b->size = size - BOUNCE_ALIGN;
	return COLL_SUCCESS;
}

int bounce_meet(struct bounce *b)
{
	return stream_write(b->what, &b->stream, &b->words[BOUNCE_MET], b->turn + 1);
}

int bounce_meet_other(struct bounce *b, const struct bounce *other)
{
	return stream_wait(b->what, &b->stream, &other->words[BOUNCE_MET], other->turn + 1);
}

int bounce_fill(struct bounce *b)
{
	int code = COLL_SUCCESS;

	b->turn++;
	b->dead = 1; /* until all is there */
	if (b->event) {
		b->event->next = b->spare;
		b->spare = b->event;
		b->event = NULL;
	}
	for (size_t i = 0; !code && i < b->ins; i++)
		code = stream_copy(&b->stream, (uintptr_t)b->memory + b->copy[i].at,
				   b->copy[i].user, b->copy[i].len);
	if (!code)
		code = stream_write(b->what, &b->stream, &b->words[BOUNCE_ARRIVED], b->turn);
	if (!code)
		code = stream_event_record(&b->spare, b->what, &b->stream, &b->event);
	b->looked_us = clock_now_us();
	return code;
}

int bounce_drain(struct bounce *b, const _Atomic uint32_t *word, uint32_t number)
{
	int code = stream_wait(b->what, &b->stream, word, number);

	for (size_t i = b->ins; !code && i < b->ins + b->outs; i++)
		code = stream_copy(&b->stream, b->copy[i].user,
				   (uintptr_t)b->memory + b->copy[i].at, b->copy[i].len);
	if (!code)
		code = stream_write(b->what, &b->stream, &b->words[BOUNCE_PASSED], b->turn);
	b->dead = code != COLL_SUCCESS;
	return code;
}

/* ---------------------------------------------------------------------- the answers -- */

/* Has the stream failed?  Then it writes no word any more. */
static int bounce_failed(const struct bounce *b)
{
	const int code = b->event ? stream_event_query(b->event) : COLL_IN_PROGRESS;

	return code == COLL_SUCCESS ? COLL_IN_PROGRESS : code;
}

static int bounce_has_come(struct bounce *b, int word, int look)
{
	const int64_t now = look ? clock_now_us() : 0;

	if (atomic_load(&b->words[word]) == b->turn)
		return COLL_SUCCESS;
	if (!look || now < b->looked_us + BOUNCE_LOOK_US)
		return COLL_IN_PROGRESS;
	b->looked_us = now;
	return bounce_failed(b);
}

int bounce_has_arrived(struct bounce *b, int look)
{
	return bounce_has_come(b, BOUNCE_ARRIVED, look);
}

int bounce_has_passed(struct bounce *b, int look)
{
	return b->words ? bounce_has_come(b, BOUNCE_PASSED, look) : COLL_SUCCESS;
}

void bounce_free(struct bounce *b, int passed)
{
	if (b->words && passed)
		device_unpin((void *)b->words);
	stream_events_free(&b->spare);
	stream_event_unref(b->event);
	free(b->copy);
	free(b);
}
