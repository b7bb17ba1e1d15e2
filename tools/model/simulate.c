/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * simulate.c - runs the schedules of all ranks on a machine of LogGP, event by event.
 *
 * A rank takes the steps that wait for nothing one after another, in the order in which they become ready.  Each step needs
 * a processor, of the rank or of its node.  A send occupies the processor for the overhead, then waits for the port; the
 * processor goes on meanwhile.  A receive occupies it when its last byte has come, and a reduction as long again as its
 * bytes take.
 */
#include <stdlib.h>
#include <string.h>
#include "model/model.h"

/* The times at which the ports become free. */
struct model_port {
	double out, in;
};

struct model_rank {
	double free; /* time at which the rank becomes free */
	struct model_port port;
};

enum { EVENT_READY, EVENT_FIRST_BYTE, EVENT_LAST_BYTE, EVENT_DONE };

struct model_event {
	double time;
	int32_t kind, step; /* steps of a rank at the same time go in the order of the schedule */
};

static double simulate_later(double a, double b)
{
	return a > b ? a : b;
}

/* ------------------------------------------------------------------------- events -- */

static int event_before(const struct model_event *a, const struct model_event *b)
{
	return a->time < b->time || (a->time == b->time && a->step < b->step);
}

static void event_push(struct model_run *m, double time, int kind, int step)
{
	const struct model_event e = {time, kind, step};
	int at = m->events++;

	m->heap = tool_grow(m->heap, &m->cap_heap, m->events, sizeof(*m->heap));
	for (; at > 0 && event_before(&e, &m->heap[(at - 1) / 2]); at = (at - 1) / 2)
		m->heap[at] = m->heap[(at - 1) / 2];
	m->heap[at] = e;
}

static struct model_event event_pop(struct model_run *m)
{
	const struct model_event first = m->heap[0], last = m->heap[--m->events];
	int at = 0, child;

	while ((child = 2 * at + 1) < m->events) {
		if (child + 1 < m->events && event_before(&m->heap[child + 1], &m->heap[child]))
			child++;
		if (!event_before(&m->heap[child], &last))
			break;
		m->heap[at] = m->heap[child];
		at = child;
	}
	m->heap[at] = last;
	return first;
}

/* -------------------------------------------------------------------------- steps -- */

/* Returns the network between the ranks of a message. */
static const struct model_network *step_network(const struct model_machine *machine, int rank,
						int peer)
{
	return rank / machine->node_size == peer / machine->node_size ? &machine->near
								      : &machine->far;
}

static struct model_port *step_port(struct model_run *m, const struct model_machine *machine,
				    const struct model_network *network, int rank)
{
	return network == &machine->far ? &m->port[rank / machine->node_size] : &m->rank[rank].port;
}

/* Returns the time from the first byte of a message to the last. */
static double step_length(const struct model_network *network, const coll_step_t *s)
{
	return s->bytes > 1 ? (double)(s->bytes - 1) * network->byte : 0;
}

/* Returns the time of the step's arithmetic or copy. */
static double step_work(const struct model_machine *machine, const coll_step_t *s)
{
	if (s->kind == COLL_STEP_RECV ||
	    (s->kind == COLL_STEP_COPY && s->src_buffer == s->dst_buffer && s->src == s->dst))
		return 0;
	return (double)s->bytes * machine->reduce;
}

/* Returns the processor of the rank's node that is free first. */
static double *step_core(struct model_run *m, const struct model_machine *machine, int rank)
{
	double *first = m->core + (size_t)(rank / machine->node_size) * (size_t)machine->cores;
	double *best = first;

	for (int i = 1; i < machine->cores; i++)
		if (first[i] < *best)
			best = &first[i];
	return best;
}

/* Makes the rank work for some time from `from` on, or when it and a processor are free.  Returns the end. */
static double step_compute(struct model_run *m, const struct model_machine *machine, int rank,
			   double from, double time)
{
	double *free = &m->rank[rank].free, *core;

	*free = simulate_later(*free, from);
	if (!machine->cores || time <= 0)
		return *free += time;
	core = step_core(m, machine, rank);
	*free = simulate_later(*free, *core) + time;
	*core = *free;
	return *free;
}

/* Lets a step that waits for nothing take its turn. */
static void step_ready(struct model_run *m, struct prove *p, const struct model_machine *machine,
		       const struct model_event *e)
{
	const coll_step_t *s = prove_step(p, e->step);
	int rank = p->rank[p->event[e->step].owner].rank;
	const struct model_network *network;
	struct model_port *port;
	double end, first;

	if (s->kind != COLL_STEP_SEND) {
		end = step_work(machine, s);
		if (prove_is_recv(s))
			end += step_network(machine, rank, s->peer)->overhead;
		end = step_compute(m, machine, rank, e->time, end);
		event_push(m, end, EVENT_DONE, e->step);
		return;
	}
	network = step_network(machine, rank, s->peer);
	port = step_port(m, machine, network, rank);
	end = step_compute(m, machine, rank, e->time, network->overhead);
	first = simulate_later(end, port->out);
	port->out = first + step_length(network, s) + network->gap;
	event_push(m, first + step_length(network, s), EVENT_DONE, e->step);
	event_push(m, first + network->latency, EVENT_FIRST_BYTE, p->event[e->step].mate);
}

/* The first byte of a message has come to the receiver's port: the message waits for the port. */
static void step_arrives(struct model_run *m, struct prove *p, const struct model_machine *machine,
			 const struct model_event *e)
{
	const coll_step_t *s = prove_step(p, e->step);
	int rank = p->rank[p->event[e->step].owner].rank;
	const struct model_network *network = step_network(machine, rank, s->peer);
	struct model_port *port = step_port(m, machine, network, rank);
	double first = simulate_later(e->time, port->in);

	port->in = first + step_length(network, s) + network->gap;
	event_push(m, first + step_length(network, s), EVENT_LAST_BYTE, e->step);
}

/* Counts down what a step waits for: an earlier step is complete, or its message has come. */
static void step_release(struct model_run *m, struct prove *p, int step, double time)
{
	if (--p->event[step].left == 0)
		event_push(m, time, EVENT_READY, step);
}

/* --------------------------------------------------------------------- simulation -- */

static void simulate_begin(struct model_run *m, struct prove *p,
			   const struct model_machine *machine)
{
	int nranks = p->c->nranks, nodes = (nranks - 1) / machine->node_size + 1;

	m->events = 0;
	m->rank = tool_grow(m->rank, &m->cap_ranks, nranks, sizeof(*m->rank));
	m->port = tool_grow(m->port, &m->cap_ports, nodes, sizeof(*m->port));
	memset(m->rank, 0, (size_t)nranks * sizeof(*m->rank));
	memset(m->port, 0, (size_t)nodes * sizeof(*m->port));
	m->core = tool_grow(m->core, &m->cap_cores, nodes * machine->cores + 1, sizeof(*m->core));
	memset(m->core, 0, ((size_t)nodes * (size_t)machine->cores + 1) * sizeof(*m->core));
	for (int g = 0; g < p->nsteps; g++) {
		const coll_step_t *s = prove_step(p, g);

		p->event[g].left = (int32_t)s->after_count + prove_is_recv(s);
		if (!p->event[g].left)
			event_push(m, 0, EVENT_READY, g);
	}
}

double model_simulate(struct model_run *m, struct prove *p, const struct model_machine *machine)
{
	double end = 0;
	int done = 0;

	simulate_begin(m, p, machine);
	while (m->events > 0) {
		const struct model_event e = event_pop(m);

		switch (e.kind) {
		case EVENT_READY: step_ready(m, p, machine, &e); break;
		case EVENT_FIRST_BYTE: step_arrives(m, p, machine, &e); break;
		case EVENT_LAST_BYTE: step_release(m, p, e.step, e.time); break;
		default:
			end = e.time;
			done++;
			for (int k = p->event[e.step].later; k >= 0; k = p->link[k].next)
				step_release(m, p, p->link[k].to, e.time);
		}
	}
	return done == p->nsteps ? end : -1;
}

void model_free(struct model_run *m)
{
	free(m->heap);
	free(m->rank);
	free(m->port);
	free(m->core);
	memset(m, 0, sizeof(*m));
}
