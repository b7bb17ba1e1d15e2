/* SPDX-License-Identifier: BSD-3-Clause */
/* open.c - open and close without faults. */
#include <pthread.h>
#include <string.h>
#include "check/host/host.h"
#include "check/p2p/p2p.h"

enum { OPEN_SLACK_MS = 5000, OPEN_CYCLES = 8, OPEN_WORLDS = 2 };

static void open_nothing(struct check_ep *ep)
{
	(void)ep;
}

static void open_pointer_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);

	if (!check_open(ep) && !ep->ep)
		check_fail(c, "rank %d: open returned 0 but left *ep NULL", rank);
	check_barrier(c, rank, &ep->step);
	check_close(ep, c->timeout_ms);
	check_ep_free(ep);
}

static void open_pointer(struct check_case *c)
{
	check_ranks(c, open_pointer_rank);
}

static void open_close_now_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	int64_t took;

	if (!check_open(ep)) {
		check_barrier(c, rank, &ep->step);
		took = check_close(ep, 0);
		if (took > OPEN_SLACK_MS)
			check_fail(c, "rank %d: close with timeout 0 took %lld ms", rank,
				   (long long)took);
	}
	check_ep_free(ep);
}

static void open_close_now(struct check_case *c)
{
	check_ranks(c, open_close_now_rank);
}

/* ---------------------------------------------------------------- repeated open and close -- */

static void open_again_rank(struct check_case *c, int rank)
{
	for (int i = 0; i < OPEN_CYCLES && !check_failed(c); i++) {
		struct check_ep *ep = check_ep_new(c, rank, 0);

		ep->step = (unsigned)(i * (CHECK_STEPS / OPEN_CYCLES));
		if (!check_open(ep)) {
			check_barrier(c, rank, &ep->step);
			check_close(ep, c->timeout_ms);
		}
		check_barrier(c, rank, &ep->step);
		check_ep_free(ep);
	}
}

static void open_again(struct check_case *c)
{
	check_ranks(c, open_again_rank);
}

/* ------------------------------------------------------------------ the table -- */

static void open_host_rank(struct check_case *c, int rank)
{
	struct check_ep *ep = check_ep_new(c, rank, 0);
	coll_host_t before = ep->host;

	if (!check_open(ep)) {
		check_progress_barrier(ep);
		check_close(ep, c->timeout_ms);
	}
	if (memcmp(&before, &ep->host, sizeof(before)) != 0)
		check_fail(c, "rank %d: the plugin has written to its coll_host_t", rank);
	check_ep_free(ep);
}

static void open_host(struct check_case *c)
{
	check_ranks(c, open_host_rank);
}

static void open_log_rank(struct check_ep *ep)
{
	if (ep->seen.logged_badly)
		check_fail(ep->c, "rank %d: host->log was given no line, or no COLL_LOG_* level",
			   ep->rank);
}

/* ------------------------------------------------------------------ at once -- */

/* One rank's part in one of several communicators that open at the same time. */
struct open_world {
	struct check_case *c;
	int rank, world;
};

static void *open_world(void *arg)
{
	const struct open_world *w = arg;
	struct check_ep *ep = check_ep_new(w->c, w->rank, w->world);

	if (!check_open(ep)) {
		check_barrier(w->c, w->rank, &ep->step);
		check_close(ep, w->c->timeout_ms);
	}
	check_ep_free(ep);
	return NULL;
}

static void open_at_once_rank(struct check_case *c, int rank)
{
	struct open_world world[OPEN_WORLDS];
	pthread_t thread[OPEN_WORLDS];
	int n = 0;

	for (; n < OPEN_WORLDS; n++) {
		world[n] = (struct open_world){c, rank, n};
		if (pthread_create(&thread[n], NULL, open_world, &world[n]))
			break;
	}
	while (n > 0)
		pthread_join(thread[--n], NULL);
}

static void open_at_once(struct check_case *c)
{
	check_ranks(c, open_at_once_rank);
}

/* ------------------------------------------------------------------ memory -- */

static void open_memory_rank(struct check_ep *ep)
{
	const uint32_t most = ep->plugin->backend.memory;
	uint32_t own, all[CHECK_RANKS];

	check_slot(ep->c, ep->rank, "memory");
	own = ep->t->memory(ep->ep);
	check_slot(ep->c, ep->rank, NULL);
	if (!own || own & ~most)
		check_fail(ep->c,
			   "rank %d: memory returned 0x%x; it must be some of the bits of the "
			   "table's memory, 0x%x",
			   ep->rank, own, most);
	if (check_exchange(ep->c, ep->rank, &ep->step, &own, all, sizeof(own), ep->c->timeout_ms))
		return;
	for (int r = 0; r < ep->nranks; r++)
		if (all[r] != own)
			check_fail(ep->c, "memory returned 0x%x on rank %d but 0x%x on rank %d",
				   own, ep->rank, all[r], r);
}

static int32_t open_write_description(struct check_ep *ep, char *buf, uint64_t size)
{
	ep->t->describe(ep->ep, buf, size);
	return COLL_SUCCESS;
}

static void open_describe_rank(struct check_ep *ep)
{
	if (ep->t->describe)
		check_line(ep, "describe", open_write_description);
	else
		check_skip(ep->c, "the plugin has no transport->describe");
}

const struct check check_open_checks[] = {
	{.name = "open",
	 .says = "all ranks open an endpoint and close it",
	 .promise = "coll_backend_t.open",
	 .group = CHECK_ENDPOINT,
	 .ground = 1,
	 .ways = CHECK_EITHER,
	 .endpoint = open_nothing},
	{.name = "open-endpoint",
	 .says = "open makes an endpoint that is not NULL",
	 .promise = "coll_backend_t.open",
	 .group = CHECK_ENDPOINT,
	 .ways = CHECK_THREADS,
	 .ranks_max = 2,
	 .run = open_pointer},
	{.name = "close-at-once",
	 .says = "close with timeout 0 returns at once",
	 .promise = "coll_backend_t.close",
	 .group = CHECK_ENDPOINT,
	 .ways = CHECK_EITHER,
	 .run = open_close_now},
	{.name = "open-again",
	 .says = "open and close work repeatedly",
	 .promise = "coll_backend_t.close",
	 .group = CHECK_ENDPOINT,
	 .ways = CHECK_EITHER,
	 .ranks_max = 3,
	 .run = open_again},
	{.name = "open-at-once",
	 .says = "open may run in several threads at once",
	 .promise = "Threads",
	 .group = CHECK_ENDPOINT,
	 .ways = CHECK_EITHER,
	 .run = open_at_once},
	{.name = "host-unchanged",
	 .says = "the plugin does not write to coll_host_t",
	 .promise = "Limits",
	 .group = CHECK_ENDPOINT,
	 .ways = CHECK_THREADS,
	 .ranks_max = 2,
	 .run = open_host},
	{.name = "log",
	 .says = "host->log gets finished lines",
	 .promise = "coll_host_t.log",
	 .group = CHECK_ENDPOINT,
	 .ways = CHECK_THREADS,
	 .ranks_max = 2,
	 .endpoint = open_log_rank},
	{.name = "memory",
	 .says = "the kinds of memory an endpoint takes are some of the table's, the same on all "
		 "ranks",
	 .promise = "coll_transport_t.memory",
	 .group = CHECK_ENDPOINT,
	 .needs = CHECK_TRANSPORT | CHECK_MEMORY,
	 .bare = "the kinds of memory of its endpoints are coll_backend_t.memory",
	 .ways = CHECK_EITHER,
	 .endpoint = open_memory_rank},
	{.name = "describe",
	 .says = "describe writes one line and stays within its buffer",
	 .promise = "coll_transport_t.describe",
	 .group = CHECK_ENDPOINT,
	 .since = 5,
	 .older = "the core asks it for no description",
	 .needs = CHECK_TRANSPORT,
	 .bare = "describe belongs to that group",
	 .ways = CHECK_EITHER,
	 .endpoint = open_describe_rank},
	{.name = NULL},
};
