/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * run.c - runs the schedules of all ranks over a transport that buffers nothing: a send completes
 * only together with its receive, after that receive has been posted.
 *
 * A step that can run stays able to run until it is done.  So all executions that run as long as
 * they can complete the same steps, and one execution proves all executions.  A bound on the sends
 * in flight breaks this property, so prove_bounded() lets the transport choose as badly as it can.
 */
#include "prove/prove.h"

enum { RUN_IDLE = 0, RUN_STARTED, RUN_WAITING, RUN_ENABLED, RUN_IN_FLIGHT };

static void run_push(struct prove *p, int step)
{
	p->stack[p->depth++] = step;
}

static void run_begin(struct prove *p)
{
	p->ordered = p->clock = p->depth = 0;
	for (int g = p->nsteps - 1; g >= 0; g--) {
		p->event[g].left = (int32_t)prove_step(p, g)->after_count;
		p->event[g].state = RUN_IDLE;
		p->event[g].started = p->event[g].done = 0;
		if (!p->event[g].left)
			run_push(p, g);
	}
}

static void run_complete(struct prove *p, int step)
{
	p->event[step].done = ++p->clock;
	p->order[p->ordered++] = step;
	for (int k = p->event[step].later; k >= 0; k = p->link[k].next)
		if (--p->event[p->link[k].to].left == 0)
			run_push(p, p->link[k].to);
}

/* Returns the first step that could start but never ends, else the first step that never starts. */
static int run_stuck(const struct prove *p)
{
	int waits = -1;

	for (int g = 0; g < p->nsteps; g++) {
		if (p->event[g].done)
			continue;
		if (p->event[g].started)
			return g;
		if (waits < 0)
			waits = g;
	}
	return waits;
}

/* Returns the first step that is not done among the steps that `step` waits for. */
static int run_waits_for(const struct prove *p, int step)
{
	const coll_step_t *s = prove_step(p, step);

	for (uint32_t k = 0; k < s->after_count; k++)
		if (!p->event[p->rank[p->event[step].owner].first + s->after[k]].done)
			return s->after[k];
	return -1;
}

static void run_report(struct prove *p)
{
	int step = run_stuck(p), mate = p->event[step].mate;
	char text[128];

	if (!p->event[step].started) {
		prove_fail_step(p, PROVE_DEADLOCK, step,
				"never starts: it waits for step %d, which never completes",
				run_waits_for(p, step));
		return;
	}
	if (mate < 0) {
		prove_fail_step(p, PROVE_DEADLOCK, step,
				"never completes: no rank has the matching step");
		return;
	}
	prove_step_text(p, mate, text, sizeof(text));
	prove_fail_step(
		p, PROVE_DEADLOCK, step,
		"never completes: rank %d's %s waits for its step %d, which never completes",
		p->rank[p->event[mate].owner].rank, text, run_waits_for(p, mate));
}

int prove_run(struct prove *p)
{
	run_begin(p);
	while (p->depth > 0) {
		int step = p->stack[--p->depth], mate = p->event[step].mate;
		const coll_step_t *s = prove_step(p, step);

		p->event[step].started = ++p->clock;
		if (!prove_is_message(s)) {
			run_complete(p, step);
			continue;
		}
		if (mate < 0 || !p->event[mate].started)
			continue;
		run_complete(p, prove_is_recv(s) ? mate : step);
		run_complete(p, prove_is_recv(s) ? step : mate);
	}
	if (p->ordered == p->nsteps)
		return 0;
	run_report(p);
	return -1;
}

/* ---------------------------------------------------- few sends in flight -- */

/*
 * Each rank hands at most `limit` sends to the transport at a time, in the worst order.  A send
 * whose receive is not posted takes a free slot before a send that could complete.  A send that
 * could complete does so only when nothing else can happen.  Each rank has two lists of sends that
 * wait for a slot: `waiting`, and `blocked` if the receive is posted.
 */
struct bounded {
	int limit, done;
	int ready; /* list of sends in flight whose receive is posted */
};

static void bounded_fly(struct prove *p, struct bounded *b, int step)
{
	p->event[step].state = RUN_IN_FLIGHT;
	p->event[step].next = b->ready;
	b->ready = step;
}

static void bounded_block(struct prove *p, struct prove_rank *r, int step)
{
	p->event[step].state = RUN_ENABLED;
	p->event[step].next = r->blocked;
	r->blocked = step;
}

static void bounded_send(struct prove *p, struct bounded *b, int step)
{
	struct prove_rank *r = &p->rank[p->event[step].owner];
	int posted = p->event[p->event[step].mate].state == RUN_STARTED;

	if (r->used < b->limit) {
		r->used++;
		if (posted)
			bounded_fly(p, b, step);
		else
			p->event[step].state = RUN_STARTED;
	} else if (posted) {
		bounded_block(p, r, step);
	} else {
		p->event[step].state = RUN_WAITING;
		/* the step waits for nothing, so `left` can link the list */
		p->event[step].left = r->waiting;
		r->waiting = step;
	}
}

static void bounded_recv(struct prove *p, struct bounded *b, int step)
{
	int mate = p->event[step].mate;

	p->event[step].state = RUN_STARTED;
	if (p->event[mate].state == RUN_STARTED)
		bounded_fly(p, b, mate);
	else if (p->event[mate].state == RUN_WAITING)
		bounded_block(p, &p->rank[p->event[mate].owner], mate);
}

/* Gives a free slot in flight to the next send. */
static void bounded_refill(struct prove *p, struct bounded *b, struct prove_rank *r)
{
	int step;

	r->used--;
	while (r->waiting >= 0) {
		step = r->waiting;
		r->waiting = p->event[step].left;
		if (p->event[step].state == RUN_WAITING) {
			p->event[step].state = RUN_STARTED;
			r->used++;
			return;
		}
	}
	if (r->blocked < 0)
		return;
	step = r->blocked;
	r->blocked = p->event[step].next;
	r->used++;
	bounded_fly(p, b, step);
}

static void bounded_start(struct prove *p, struct bounded *b, int step)
{
	const coll_step_t *s = prove_step(p, step);

	if (s->kind == COLL_STEP_SEND)
		bounded_send(p, b, step);
	else if (prove_is_recv(s))
		bounded_recv(p, b, step);
	else
		run_complete(p, step);
}

static int bounded_suffices(struct prove *p, int limit)
{
	struct bounded b = {.limit = limit, .ready = -1};

	run_begin(p);
	for (int i = 0; i < p->nactors; i++) {
		p->rank[i].used = 0;
		p->rank[i].waiting = p->rank[i].blocked = -1;
	}
	for (;;) {
		int step;

		while (p->depth > 0)
			bounded_start(p, &b, p->stack[--p->depth]);
		if (b.ready < 0)
			break;
		step = b.ready;
		b.ready = p->event[step].next;
		run_complete(p, step);
		run_complete(p, p->event[step].mate);
		bounded_refill(p, &b, &p->rank[p->event[step].owner]);
	}
	return p->ordered == p->nsteps;
}

void prove_bounded(struct prove *p)
{
	int limit = 1;

	while (limit <= 64 && !bounded_suffices(p, limit))
		limit *= limit < 4 ? 4 : 16;
	if (limit > 64)
		prove_fail(p, PROVE_DEADLOCK, "a rank that has 64 sends in flight waits for ever");
	else if (limit > p->totals.sends)
		p->totals.sends = limit;
}
