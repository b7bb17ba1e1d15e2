/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * message_staging.c - device buffers of messages outside the order of the operations.  The bytes of a send are copied
 * to host memory before it starts, those of a receive from host memory before it ends.
 */
#include "exec/message_staging.h"
#include "exec/copies.h"
#include "exec/staging.h"
#include "device/device.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

/*
 * To free pinned memory the driver waits for the work of the device, so the communicator keeps so many buffers for
 * later messages.  A buffer serves messages of at least 1/STAGED_WASTE of its size, but for small ones.
 */
enum { STAGED_KEPT = 32, STAGED_WASTE = 4, STAGED_SMALL = 64 << 10, STAGED_LEAST = 4096 };

/* ---------------------------------------------------------------------- memory -- */

static void staged_free(struct comm *comm, struct staged *s)
{
	const coll_host_t *host = &comm->context->host;

	if (s->pinned)
		device_unpin(s->memory);
	else
		host->free(host, s->memory, s->size);
	free(s);
}

/* Takes a kept buffer, or NULL. */
static struct staged *staged_take(struct comm *comm, size_t bytes)
{
	struct staged **found = NULL, *s;

	for (struct staged **at = &comm->messages.staged_memory; *at; at = &(*at)->next)
		if ((*at)->size >= bytes &&
		    ((*at)->size <= STAGED_SMALL || (*at)->size / STAGED_WASTE <= bytes) &&
		    (!found || (*at)->size < (*found)->size))
			found = at;
	s = found ? *found : NULL;
	if (s) {
		*found = s->next;
		comm->messages.staged_kept--;
	}
	return s;
}

static struct staged *staged_new(struct comm *comm, size_t bytes, const void *near)
{
	const coll_host_t *host = &comm->context->host;
	struct staged *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	for (s->size = STAGED_LEAST; s->size < bytes && s->size <= SIZE_MAX / 4;)
		s->size *= 2;
	s->size = s->size < bytes ? bytes : s->size;
	s->memory = device_pin(s->size, near);
	s->pinned = s->memory != NULL;
	if (!s->memory)
		s->memory = host->alloc(host, s->size);
	if (s->memory)
		return s;
	free(s);
	return NULL;
}

int message_stage(struct message *m)
{
	struct comm *comm = m->comm;
	const struct message_args *a = &m->args;
	const size_t bytes = a->count * coll_dtype_size(a->dtype);
	const int sends = a->kind == COLL_KIND_SEND;
	int code;

	m->staged = staged_take(comm, bytes);
	if (!m->staged)
		m->staged = staged_new(comm, bytes, a->buf);
	if (!m->staged)
		return error_set(COLL_ERR_NO_MEMORY,
				 "%s: no memory for %zu bytes on their way to or from a device",
				 sends ? "coll_isend" : "coll_irecv", bytes);
	m->staged->state = STAGED_IDLE;
	code = copy_stream_find(&comm->context->copy_streams,
				sends ? COPY_STREAM_IN : COPY_STREAM_OUT, a->buf,
				&m->staged->copy_stream);
	if (code)
		message_unstage(m);
	else
		staging_warn_message(comm, a->kind, a->site, bytes);
	return code;
}

void message_unstage(struct message *m)
{
	struct staged *s = m->staged;
	struct comm *comm = m->comm;

	m->staged = NULL;
	if (s && !s->memory) {
		free(s);
	} else if (s && comm->messages.staged_kept == STAGED_KEPT) {
		staged_free(comm, s);
	} else if (s) {
		s->next = comm->messages.staged_memory;
		comm->messages.staged_memory = s;
		comm->messages.staged_kept++;
	}
}

void message_free_staged(struct comm *comm)
{
	struct staged *s;

	while ((s = comm->messages.staged_memory)) {
		comm->messages.staged_memory = s->next;
		staged_free(comm, s);
	}
}

/* ---------------------------------------------------------------------- copies -- */

void message_copy_begin(struct message *m)
{
	struct comm *comm = m->comm;
	struct message **at = &comm->messages.copying;

	while (*at)
		at = &(*at)->next_copy;
	*at = m;
	m->next_copy = NULL;
	m->staged->state = STAGED_WAITS;
	m->staged->code = COLL_SUCCESS;
	comm->messages.looks++;
	comm_set_busy(comm);
}

static void staged_leave(struct message *m)
{
	struct message **at = &m->comm->messages.copying;

	while (*at != m)
		at = &(*at)->next_copy;
	*at = m->next_copy;
	m->comm->messages.looks--;
}

/* The text of the failure becomes the message's. */
static void staged_ended(struct staged *s, int code)
{
	s->state = STAGED_ENDED;
	s->code = code;
	if (code)
		snprintf(s->text, sizeof(s->text), "%s", error_text());
}

static void message_copied(const struct stream_copy *copy, int code)
{
	struct message *m = copy->owner;

	if (code == COPY_LOST)
		m->staged->memory = NULL;
	staged_ended(m->staged, code == COPY_LOST ? COLL_ERR_DEVICE : code);
}

static void staged_start(struct message *m)
{
	struct staged *s = m->staged;
	const int sends = m->args.kind == COLL_KIND_SEND;
	const struct stream_copy copy = {
		.ended = message_copied,
		.owner = m,
		.dst = sends ? s->memory : m->args.buf,
		.src = sends ? m->args.buf : s->memory,
		.n = sends ? m->args.count * coll_dtype_size(m->args.dtype)
			   : (size_t)m->status.bytes,
	};
	const int code = copy_stream_start(s->copy_stream, &copy);

	if (code) {
		staged_ended(s, code);
		return;
	}
	s->state = STAGED_RUNS;
	m->comm->context->copies_pending++;
}

/* A send whose copy has ended waits for its turn to start; a receive is over. */
static void staged_end(struct message *m)
{
	const struct staged *s = m->staged;
	struct rank_name name;

	staged_leave(m);
	m->staged->state = STAGED_IDLE;
	if (s->code)
		message_end(m, s->code, "%s: %s", comm_own_name(m->comm, &name), s->text);
	else if (m->args.kind == COLL_KIND_RECV)
		message_end(m, COLL_SUCCESS, NULL);
}

int message_copy_progress(struct comm *comm)
{
	struct message *next;
	int moved = copies_reap(comm->context);

	for (struct message *m = comm->messages.copying; m; m = next) {
		next = m->next_copy;
		if (m->staged->state == STAGED_WAITS &&
		    m->staged->copy_stream->count < COPY_STREAM_DEPTH) {
			staged_start(m);
			moved = 1;
		}
		if (m->staged->state == STAGED_ENDED) {
			staged_end(m);
			moved = 1;
		}
	}
	return moved;
}

void message_copy_cancel(struct message *m)
{
	if (!message_is_copying(m))
		return;
	if (m->staged->state == STAGED_RUNS)
		copies_await(m->comm, m);
	staged_leave(m);
	m->staged->state = STAGED_IDLE;
}
