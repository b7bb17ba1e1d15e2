/* SPDX-License-Identifier: BSD-3-Clause */
/* survivors.c - an allgather of bytes over the host lane of a communicator that coll_comm_shrink makes or has made. */
#include "native/survivors.h"
#include "base/error.h"
#include "comm/comm_wait.h"
#include "comm/lane.h"
#include "comm/op.h"
#include "comm/queue.h"
#include "watch/stall.h"

/* One exchange. */
struct survivors {
	struct lane *host;
	uint64_t number; /* of the operation */
	/* While the communicator is made: the lane that shrinks, and its aborts before; else NULL. */
	const struct lane *parent;
	int aborted;
};

static struct survivors survivors_of(const struct context *context)
{
	const struct context_making *making = context->opening.making;

	if (making)
		return (struct survivors){.host = making->over,
					  .parent = context->parent->lanes,
					  .aborted = making->aborted};
	return (struct survivors){.host = context->lanes ? lane_host(context->lanes) : NULL};
}

static int survivors_aborted(const struct survivors *s)
{
	return s->parent ? atomic_load(&s->parent->comm->aborted) != s->aborted
			 : atomic_load(&s->host->comm->aborted);
}

static int survivors_over(void *arg)
{
	const struct survivors *s = arg;

	return s->host->finished >= s->number || s->host->error || survivors_aborted(s);
}

/* Nobody waits for the operation any more: it ends, and the lane with it. */
static int survivors_give_up(const struct survivors *s, int64_t timeout_ms)
{
	struct rank_name name;
	char silent[320] = "";

	if (survivors_aborted(s)) {
		comm_fail(s->host, 0, COLL_ERR_ABORTED, "%s aborted the communicator",
			  comm_own_name(s->host, &name));
	} else {
		stall_name_silent(s->host, silent, sizeof(silent));
		comm_fail(s->host, 0, COLL_ERR_TIMEOUT,
			  "%s: the ranks %s have not met after %g s%s",
			  comm_own_name(s->host, &name),
			  s->parent ? "that coll_comm_shrink leaves" : "of a split",
			  (double)timeout_ms / 1000, silent);
	}
	return comm_error(s->host);
}

static int survivors_run(struct survivors *s, const coll_args_t *args, int64_t timeout_ms)
{
	struct lane *host = s->host;
	struct rank_name name;
	struct wait_told told;
	int code = host->error ? comm_error(host) : op_issue(host, args, 0);

	if (code) {
		comm_fail(host, 0, code, "%s: %s", comm_own_name(host, &name), error_text());
		return code;
	}
	s->number = host->issued;
	queue_issued(host);
	wait_tell_begin(&told, host, s->number, 0);
	(void)context_wait(host->context, survivors_over, s, timeout_ms * 1000);
	wait_tell_end(&told);
	if (host->finished >= s->number)
		return COLL_SUCCESS;
	return host->error ? comm_error(host) : survivors_give_up(s, timeout_ms);
}

int32_t survivors_exchange(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	const coll_args_t args = {.size = sizeof(args),
				  .kind = COLL_KIND_ALLGATHER,
				  .dtype = COLL_UINT8,
				  .sendbuf = in,
				  .recvbuf = out,
				  .count = len,
				  .flags = CALL_OF_SPLIT};
	struct survivors s = survivors_of(user);
	int code;

	if (!s.host)
		return error_set(COLL_ERR_UNSUPPORTED,
				 "the communicator that coll_comm_shrink has made has ended");
	context_enter(s.host->context);
	code = survivors_run(&s, &args, timeout_ms);
	context_leave(s.host->context);
	return code;
}
