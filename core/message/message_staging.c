/* SPDX-License-Identifier: BSD-3-Clause */
/* message_staging.c - device buffers of messages outside the order of the operations: see message.h. */
#include "message/message.h"
#include "compose/staging.h"
#include "base/error.h"
#include "transport/traffic.h"

int message_stage(struct message *m)
{
	struct comm *comm = m->comm;
	const struct message_args *a = &m->args;
	const size_t bytes = a->count * coll_dtype_size(a->dtype);
	const int way = a->kind == COLL_KIND_SEND ? COPY_IN : COPY_OUT;
	int code;

	m->offload = offload_take(&comm->offloads, bytes, m, 0);
	if (!m->offload || !offload_pin_near(m->offload, a->buf))
		code = error_set(COLL_ERR_NO_MEMORY,
				 "%s: no memory for %zu bytes on their way to or from a device",
				 way == COPY_IN ? "coll_isend" : "coll_irecv", bytes);
	else
		code = copies_find(&traffic_of(comm->context)->copies, way, a->buf,
				   &m->offload->way[way].stream);
	if (code)
		message_unstage(m);
	else
		staging_warn_message(comm, a->kind, a->site, bytes);
	return code;
}

void message_unstage(struct message *m)
{
	if (m->offload)
		offload_give_back(&m->comm->offloads, m->offload);
	m->offload = NULL;
}

static void message_copy_end(struct message *m)
{
	m->copying = 0;
	m->comm->messages.copying--;
	m->comm->messages.looks--;
}

/* A send whose copy has ended waits for its turn to start; a receive is over. */
static void message_copied(struct copy *copy, int code)
{
	struct message *m = copy->owner;
	struct rank_name name;

	message_copy_end(m);
	m->offload->lost = code == COPY_LOST;
	if (code)
		message_end(m, code == COPY_LOST ? COLL_ERR_DEVICE : code, "%s: %s",
			    comm_own_name(m->comm, &name), error_text());
	else if (m->args.kind == COLL_KIND_RECV)
		message_end(m, COLL_SUCCESS, NULL);
}

void message_copy_begin(struct message *m)
{
	const int in = m->args.kind == COLL_KIND_SEND;
	struct offload *o = m->offload;

	o->whole = (struct copy){.ended = message_copied,
				 .owner = m,
				 .dst = in ? o->memory : m->args.buf,
				 .src = in ? m->args.buf : o->memory,
				 .n = in ? m->args.count * coll_dtype_size(m->args.dtype)
					 : (size_t)m->status.bytes};
	copies_add(&traffic_of(m->comm->context)->copies, &o->way[in ? COPY_IN : COPY_OUT],
		   &o->whole);
	m->copying = 1;
	m->comm->messages.copying++;
	m->comm->messages.looks++;
	comm_set_busy(m->comm);
}

void message_copy_cancel(struct message *m)
{
	struct comm *comm = m->comm;

	if (!m->copying)
		return;
	m->offload->lost = copies_cancel(&traffic_of(comm->context)->copies, m->offload->way, m,
					 comm->rank) != 0;
	message_copy_end(m);
}
