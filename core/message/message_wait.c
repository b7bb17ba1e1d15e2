/* SPDX-License-Identifier: BSD-3-Clause */
/* message_wait.c - waits for messages outside the order of the operations. */
#include "message/message.h"
#include "comm/comm_wait.h"
#include "base/error.h"

#include <stdlib.h>

static int message_is_over(void *arg)
{
	struct message *m = arg;

	return message_is_done(m) || m->comm->error || atomic_load(&m->comm->aborted);
}

int message_wait_or_leave(struct message *m, void *handle)
{
	const struct comm_wait wait = {
		.comm = m->comm, .message = m, .leaves = 1, .handle = handle};

	if (!m->done && comm_wait_until(&wait, message_is_over, m))
		return CONTEXT_LOST;
	if (!m->done)
		comm_check_aborted(m->comm, UINT64_MAX);
	if (comm_flush_or_leave(m->comm))
		return CONTEXT_LOST;
	return m->done ? message_result(m) : comm_error(m->comm);
}

static int message_probed(void *arg)
{
	struct message *m = arg;

	return message_is_over(arg) || message_probe(m->comm, &m->args, &m->status) ||
	       message_check_left(m);
}

/* On the heap: other threads look at it, also after this one has left the library by a jump. */
int message_probe_wait(struct comm *comm, const struct message_args *args, coll_status_t *status)
{
	struct message *m = calloc(1, sizeof(*m));
	const struct comm_wait wait = {.comm = comm, .message = m};
	int code;

	if (!m)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a coll_probe");
	m->comm = comm;
	m->args = *args;
	m->u.in.recv = message_recv(comm, args);
	m->u.in.recv.state = RECV_POSTED; /* for the descriptions */
	comm->messages.probing = m;
	(void)comm_wait_until(&wait, message_probed, m);
	if (comm->messages.probing == m)
		comm->messages.probing = NULL;
	comm_check_aborted(comm, UINT64_MAX);
	comm_flush(comm);
	code = m->done ? message_result(m) : comm_error(comm);
	if (!code)
		*status = m->status;
	free(m->text);
	free(m);
	return code;
}
