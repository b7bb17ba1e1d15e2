/* SPDX-License-Identifier: BSD-3-Clause */
/* sleep.c - sleeping on wait_fd, and registered memory. */
#include <fcntl.h>
#include <poll.h>
#include <stdlib.h>
#include "check/host/host.h"
#include "check/p2p/p2p.h"
#include "lib/tool.h"

enum { SLEEP_ROUNDS = 10 };

/*
 * Sleeps as the core does: progress until nothing moves, arm, poll.  Returns 1 if it woke or arm
 * refused the sleep.
 */
static int sleep_once(struct check_ep *ep, int fd, int64_t timeout_ms, int *slept)
{
	struct pollfd pfd = {.fd = fd, .events = POLLIN};
	int32_t pending;

	if (check_progress(ep))
		return 1;
	check_slot(ep->c, ep->rank, "arm");
	pending = ep->t->arm(ep->ep);
	check_slot(ep->c, ep->rank, NULL);
	if (pending)
		return 1;
	*slept = 1;
	return poll(&pfd, 1, (int)timeout_ms) > 0;
}

/*
 * Waits for a message by sleeping only.  Returns 0, or -1 if the sleep continued although the
 * message had come.
 */
static int sleep_for(struct check_ep *ep, int fd, uint32_t from, uint64_t tag)
{
	int64_t deadline = tool_now_ms() + ep->c->timeout_ms, left;
	const struct check_arrival *a;
	int slept = 0;

	for (;;) {
		a = check_find(ep, from, tag);
		if (a && a->status != COLL_IN_PROGRESS)
			return 0;
		left = deadline - tool_now_ms();
		if (left <= 0 || check_failed(ep->c))
			return -1;
		if (!sleep_once(ep, fd, left, &slept))
			return -1;
	}
}

/* Each rank in order sends to all other ranks, which sleep. */
static void sleep_rank(struct check_ep *ep)
{
	int32_t fd = ep->t->wait_fd(ep->ep);
	coll_send_t send[CHECK_RANKS];
	uint8_t buf[5000] = {0};

	if (fd < 0 || fcntl(fd, F_GETFD) < 0) {
		check_fail(ep->c, "rank %d: wait_fd gave %d, which is no open descriptor", ep->rank,
			   fd);
		return;
	}
	for (int round = 0; round < SLEEP_ROUNDS && !check_failed(ep->c); round++) {
		int sender = round % ep->nranks;

		if (ep->rank == sender) {
			poll(NULL, 0, 20); /* by then the other ranks most likely sleep */
			for (int r = 0; r < ep->nranks; r++)
				if (r != sender &&
				    check_send(ep, &send[r], (uint32_t)r, (uint64_t)round + 1, buf,
					       sizeof(buf)))
					return;
			for (int r = 0; r < ep->nranks; r++)
				if (r != sender && check_wait_send(ep, &send[r]))
					return;
		} else if (sleep_for(ep, fd, (uint32_t)sender, (uint64_t)round + 1)) {
			check_fail(ep->c,
				   "rank %d: arm returned 0 and the descriptor did not become "
				   "readable when a message came",
				   ep->rank);
			return;
		}
		if (check_progress_barrier(ep))
			return;
	}
}

static void sleep_same_rank(struct check_ep *ep)
{
	uint32_t next = (uint32_t)((ep->rank + 1) % ep->nranks);
	uint32_t before = (uint32_t)((ep->rank + ep->nranks - 1) % ep->nranks);
	int32_t fd = ep->t->wait_fd(ep->ep);
	uint8_t buf[100] = {0};
	coll_send_t send;

	for (uint64_t k = 1; k < 20; k++) {
		if (check_send(ep, &send, next, k, buf, sizeof(buf)) ||
		    !check_recv(ep, before, k) || check_wait_send(ep, &send))
			return;
		ep->t->arm(ep->ep);
		if (ep->t->wait_fd(ep->ep) != fd) {
			check_fail(ep->c, "rank %d: wait_fd gave %d first and %d later", ep->rank,
				   fd, ep->t->wait_fd(ep->ep));
			return;
		}
	}
	check_progress_barrier(ep);
}

/* With nothing under way, arm allows the sleep. */
static void sleep_idle_rank(struct check_ep *ep)
{
	int slept = 0, fd = ep->t->wait_fd(ep->ep);

	check_progress_barrier(ep);
	for (int i = 0; i < 200 && !slept; i++)
		sleep_once(ep, fd, 5, &slept);
	if (!slept)
		check_fail(ep->c, "rank %d: arm goes on to return 1 although nothing is pending",
			   ep->rank);
	check_progress_barrier(ep);
}

/* ------------------------------------------------------------------ memory -- */

static void sleep_register_rank(struct check_ep *ep)
{
	enum { LEN = 1 << 20 };
	uint32_t next = (uint32_t)((ep->rank + 1) % ep->nranks);
	uint32_t before = (uint32_t)((ep->rank + ep->nranks - 1) % ep->nranks);
	coll_error_t err = {.size = sizeof(err)};
	uint8_t *buf = check_payload(LEN, 3);
	const struct check_arrival *a;
	void *handle[2] = {NULL, NULL};
	coll_send_t send;
	int32_t code;

	for (int i = 0; i < 2; i++) {
		check_slot(ep->c, ep->rank, "mem_register");
		code = ep->t->mem_register(ep->ep, buf, i ? LEN / 2 : LEN, COLL_MEM_HOST,
					   &handle[i], &err);
		check_slot(ep->c, ep->rank, NULL);
		if (code)
			check_fail(ep->c, "rank %d: mem_register returned %d: %.300s", ep->rank,
				   code, err.text);
	}
	if (check_send(ep, &send, next, 1, buf, LEN))
		return;
	a = check_recv(ep, before, 1);
	if (!a || check_wait_send(ep, &send) || check_progress_barrier(ep))
		return;
	if (check_differs(a->buf, LEN, 3) != LEN)
		check_fail(ep->c, "rank %d: a message from registered memory differs", ep->rank);
	for (int i = 0; i < 2; i++) {
		check_slot(ep->c, ep->rank, "mem_deregister");
		ep->t->mem_deregister(ep->ep, handle[i]);
		check_slot(ep->c, ep->rank, NULL);
	}
	free(buf);
}

const struct check check_sleep_checks[] = {
	{.name = "wait-fd",
	 .says = "after arm returned 0 the descriptor reports a message that comes",
	 .promise = "coll_transport_t.wait_fd",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT | CHECK_SLEEP,
	 .bare = "no descriptor tells of the engine: a wait polls query, or calls sync",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .endpoint = sleep_rank},
	{.name = "wait-fd-same",
	 .says = "wait_fd gives the same descriptor for life",
	 .promise = "coll_transport_t.wait_fd",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT | CHECK_SLEEP,
	 .bare = "the engine has no descriptor that could change",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 2,
	 .endpoint = sleep_same_rank},
	{.name = "arm",
	 .says = "arm returns 0 when nothing is pending",
	 .promise = "coll_transport_t.arm",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT | CHECK_SLEEP,
	 .bare = "there is no descriptor to arm",
	 .ways = CHECK_EITHER,
	 .ranks_max = 3,
	 .endpoint = sleep_idle_rank},
	{.name = "mem-register",
	 .says = "memory is registered, used and deregistered",
	 .promise = "coll_transport_t.mem_register",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT | CHECK_REGISTER,
	 .bare = "the engine registers memory by native->mem_register: see native-register",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = sleep_register_rank},
	{.name = NULL},
};
