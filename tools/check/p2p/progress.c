/* SPDX-License-Identifier: BSD-3-Clause */
/* progress.c - the result and the duration of progress; changing threads; several endpoints. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>
#include "check/host/host.h"
#include "check/p2p/p2p.h"
#include "lib/tool.h"

enum {
	PROGRESS_BOUND_MS = 2000, /* bound for a promised millisecond, on a busy machine */
	PROGRESS_IDLE = 100,
	PROGRESS_IDLE_MS = 4000, /* bound for all idle calls together */
	PROGRESS_THREADS = 6,
	PROGRESS_WORLDS = 3
};

static uint32_t progress_next(const struct check_ep *ep)
{
	return (uint32_t)((ep->rank + 1) % ep->nranks);
}

static uint32_t progress_before(const struct check_ep *ep)
{
	return (uint32_t)((ep->rank + ep->nranks - 1) % ep->nranks);
}

/* ------------------------------------------------------------------ haste -- */

static void progress_haste_rank(struct check_ep *ep)
{
	uint64_t len = 4 << 20;
	coll_send_t *send = check_memory(4 * sizeof(*send));
	uint8_t *buf = check_payload(len, 1);
	int64_t begin;

	for (uint64_t k = 0; k < 4; k++)
		if (check_send(ep, &send[k], progress_next(ep), k + 1, buf, len))
			return;
	for (uint64_t k = 0; k < 4; k++)
		if (!check_recv(ep, progress_before(ep), k + 1) || check_wait_send(ep, &send[k]))
			return;
	if (check_progress_barrier(ep))
		return;
	begin = tool_now_ms();
	for (int i = 0; i < PROGRESS_IDLE; i++)
		check_progress(ep);
	if (tool_now_ms() - begin > PROGRESS_IDLE_MS)
		check_fail(ep->c, "rank %d: %d calls with nothing to do took %lld ms", ep->rank,
			   PROGRESS_IDLE, (long long)(tool_now_ms() - begin));
	if (ep->seen.slowest_us > (int64_t)PROGRESS_BOUND_MS * 1000)
		check_fail(ep->c, "rank %d: one call took %lld ms", ep->rank,
			   (long long)ep->seen.slowest_us / 1000);
	if (check_progress_barrier(ep))
		return;
	free(buf);
	free(send);
}

/* ------------------------------------------------------------------ answer -- */

/* Checks that progress returns 1 at least once during a message, and 0 afterwards. */
static void progress_answer_rank(struct check_ep *ep)
{
	uint8_t buf[100] = {0};
	coll_send_t send;
	int moved = 0, within = 0, answer = 1, odd = 0;
	uint64_t came;
	int64_t deadline = tool_now_ms() + ep->c->timeout_ms;

	if (check_send(ep, &send, progress_next(ep), 1, buf, sizeof(buf)))
		return;
	while (!check_find(ep, progress_before(ep), 1) && tool_now_ms() < deadline) {
		came = ep->arrived_count;
		answer = check_progress(ep);
		within |= ep->arrived_count > came;
		moved |= answer != 0 && ep->arrived_count > came;
		odd |= answer != 0 && answer != 1;
	}
	if (!check_recv(ep, progress_before(ep), 1) || check_wait_send(ep, &send) ||
	    check_progress_barrier(ep))
		return;
	for (int i = 0; i < 1000 && answer; i++) {
		answer = check_progress(ep);
		usleep(1000);
	}
	if (odd)
		check_fail(ep->c, "rank %d: progress returned something else than 0 and 1",
			   ep->rank);
	if (within && !moved)
		check_fail(ep->c, "rank %d: progress returned 0 although a message arrived in it",
			   ep->rank);
	if (answer)
		check_fail(ep->c, "rank %d: progress goes on to return 1 with nothing to do",
			   ep->rank);
	check_progress_barrier(ep);
}

/* ------------------------------------------------------------------ threads -- */

struct progress_step {
	struct check_ep *ep;
	uint64_t tag;
	int open, close;
	int bad;
};

/* Exchanges one message with each neighbour, in the calling thread. */
static void *progress_thread(void *arg)
{
	struct progress_step *step = arg;
	struct check_ep *ep = step->ep;
	uint64_t len = 100000;
	uint8_t *buf = check_payload(len, step->tag);
	const struct check_arrival *a;
	coll_send_t send;

	if (step->open && check_open(ep)) {
		step->bad = 1;
		return NULL;
	}
	step->bad = check_send(ep, &send, progress_next(ep), step->tag, buf, len);
	a = step->bad ? NULL : check_recv(ep, progress_before(ep), step->tag);
	step->bad = !a || check_wait_send(ep, &send) || check_progress_barrier(ep);
	if (!step->bad && check_differs(a->buf, len, step->tag) != len)
		check_fail(ep->c, "rank %d: a message differs when threads change", ep->rank);
	if (step->close)
		check_close(ep, ep->c->timeout_ms);
	if (!step->bad)
		free(buf);
	return NULL;
}

static void progress_threads_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	struct progress_step step = {.ep = ep};
	pthread_t thread;

	for (int i = 0; i < PROGRESS_THREADS && !step.bad; i++) {
		step.tag = (uint64_t)i + 1;
		step.open = i == 0;
		step.close = i == PROGRESS_THREADS - 1;
		if (pthread_create(&thread, NULL, progress_thread, &step))
			break;
		pthread_join(thread, NULL);
	}
	check_close(ep, 0);
	check_ep_free(ep);
}

static void progress_threads(struct check_case *c)
{
	check_ranks(c, progress_threads_rank);
}

static void progress_worlds_rank(struct check_case *c, int rank)
{
	struct progress_step step[PROGRESS_WORLDS];
	pthread_t thread[PROGRESS_WORLDS];
	int n = 0;

	for (; n < PROGRESS_WORLDS; n++) {
		step[n] = (struct progress_step){.ep = check_ep_new(c, rank, n),
						 .tag = (uint64_t)n + 1,
						 .open = 1,
						 .close = 1};
		if (pthread_create(&thread[n], NULL, progress_thread, &step[n]))
			break;
	}
	while (n > 0) {
		pthread_join(thread[--n], NULL);
		check_ep_free(step[n].ep);
	}
}

static void progress_worlds(struct check_case *c)
{
	check_ranks(c, progress_worlds_rank);
}

const struct check check_progress_checks[] = {
	{.name = "progress-soon",
	 .says = "progress returns soon, more work or not",
	 .promise = "Blocking",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine has no progress: native-idle calls query, which takes its place",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = progress_haste_rank},
	{.name = "progress-answer",
	 .says = "progress returns 1 if anything moved, 0 if not",
	 .promise = "coll_transport_t.progress",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "the engine has no progress: query answers instead, see event-not-early",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .endpoint = progress_answer_rank},
	{.name = "threads",
	 .says = "an endpoint may be used in changing threads",
	 .promise = "Threads",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "many-questions uses a communicator in several threads",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .run = progress_threads},
	{.name = "endpoints",
	 .says = "several endpoints work at the same time",
	 .promise = "Threads",
	 .group = CHECK_MESSAGES,
	 .needs = CHECK_TRANSPORT,
	 .bare = "many-comms has several communicators at work at the same time",
	 .ways = CHECK_EITHER,
	 .ranks_min = 2,
	 .ranks_max = 3,
	 .run = progress_worlds},
	{.name = NULL},
};
