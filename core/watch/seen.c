/* SPDX-License-Identifier: BSD-3-Clause */
/* seen.c - what other processes see of a communicator: see seen.h. */
#include "watch/seen.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/log.h"
#include "comm/call_log.h"
#include "comm/counts.h"
#include "page/page_file.h"
#include "watch/stall_words.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------------- the slot -- */

static int seen_has_own_numbers(const struct lane *lane)
{
	for (int r = 0; r < lane->comm->nranks; r++)
		if (comm_world_rank(lane, r) != r)
			return 1;
	return 0;
}

static void seen_fill(struct lane *lane)
{
	struct page_head *head = page_head(lane->page);
	struct page_comm *slot = lane->slot;

	slot->flags = lane->context->plugin->backend.transport ? 0 : PAGE_NATIVE;
	slot->rank = lane->comm->rank;
	slot->nranks = lane->comm->nranks;
	slot->lane = lane->index;
	slot->made_us = clock_tick_us();
	comm_write_id(lane, slot->id);
	snprintf(slot->backend, sizeof(slot->backend), "%s", lane->context->plugin->backend.name);
	/* The other lane of the communicator, whose backend the job has not chosen, may have made the page. */
	if (slot->flags & PAGE_NATIVE && strcmp(head->backend, slot->backend) != 0)
		snprintf(head->backend, sizeof(head->backend), "%s", slot->backend);
	for (int r = 0; slot->parts & PAGE_PART_WORLD && r < slot->nranks && r < PAGE_RANKS; r++)
		slot->world[r] = comm_world_rank(lane, r);
	page_publish_slot(slot);
}

/* Writes the names of the job's observers, which are open, into the page: lane->seen->inside counts them from 1. */
static void seen_note_observers(struct lane *lane)
{
	struct page_head *head = page_head(lane->page);
	const char *name;

	for (uint32_t i = 0; i < PAGE_OBSERVERS; i++) {
		name = observers_name(lane->context->observers, i + 1);
		if (name)
			snprintf(head->observer[i], sizeof(head->observer[i]), "%s", name);
	}
}

/* The log moves from the heap to the slot, while it is empty. */
static void seen_take_slot(struct lane *lane)
{
	lane->slot = page_take_slot(lane->page, seen_has_own_numbers(lane) ? PAGE_PART_WORLD : 0);
	if (!lane->slot) {
		if (error_text()[0])
			log_info("rank %d: a communicator has no place in the page for `coll "
				 "top`: %s; of later ones the log says nothing",
				 lane->context->rank, error_text());
		return;
	}
	free(lane->seen);
	lane->seen = lane->slot;
	seen_fill(lane);
}

/* Does no lower rank of the job run on the host of this rank? */
static int seen_is_first(const struct context *job)
{
	const char *host = bootstrap_peer(job->bootstrap, job->rank)->host;

	for (int r = 0; r < job->rank; r++)
		if (strcmp(bootstrap_peer(job->bootstrap, r)->host, host) == 0)
			return 0;
	return 1;
}

int seen_begin(struct lane *lane)
{
	const struct context *first = context_first(lane->context);
	struct page_of of;

	if (!first->config || !config_int(first->config, "page"))
		return COLL_SUCCESS;
	of = (struct page_of){.job = context_number(first),
			      .rank = first->rank,
			      .nranks = first->nranks,
			      .host = bootstrap_peer(first->bootstrap, first->rank)->host,
			      .backend = first->plugin->backend.name,
			      .is_first = seen_is_first(first)};
	lane->page = page_take(&of);
	if (lane->page) {
		seen_note_observers(lane);
		seen_take_slot(lane);
	} else if (error_text()[0]) {
		log_info("rank %d keeps no page for `coll top`: %s", first->rank, error_text());
	}
	return COLL_SUCCESS;
}

void seen_failed(struct lane *lane, int loud)
{
	struct page_comm *slot = lane->slot;

	(void)loud;
	if (!slot)
		return;
	snprintf(slot->failure, sizeof(slot->failure), "%s", comm_failure(lane));
	slot->failed_us = clock_day_us();
	lane->seen->failed = (uint32_t)lane->error;
}

void seen_free(struct lane *lane)
{
	if (!lane->page)
		return;
	if (lane->slot) {
		page_drop_slot(lane->page, lane->slot);
		lane->slot = NULL;
		lane->seen = NULL; /* it was in the slot */
	} else {
		atomic_fetch_sub(&page_head(lane->page)->more, 1);
	}
	page_drop(lane->page);
	lane->page = NULL;
}

/* -------------------------------------------------------------------------- waits -- */

static void seen_note_ranks(struct lane *lane, struct page_comm *slot)
{
	uint8_t *from = calloc((size_t)lane->comm->nranks, 1);
	int n = 0;

	if (!from)
		return;
	(void)stall_mark_awaited(lane, from);
	for (int r = 0; r < lane->comm->nranks; r++) {
		if (!from[r])
			continue;
		if (n < PAGE_AWAITED)
			slot->awaited_rank[n] = r;
		n++;
	}
	slot->awaited_count = n;
	free(from);
}

/* Writes for which ranks the communicator waits into the slot, and the counters that no call writes. */
static void seen_note(struct lane *lane, int64_t now_us)
{
	counts_refresh(lane);
	lane->slot->noted_us = now_us;
	seen_note_ranks(lane, lane->slot);
}

void seen_note_wait(struct lane *lane, int64_t idle_us)
{
	struct page_comm *slot = lane->slot;
	int64_t now;

	if (!slot || !slot->waiting)
		return;
	now = clock_tick_us();
	if (!slot->since_us)
		slot->since_us = now - idle_us;
	seen_note(lane, now);
}

void seen_poll(struct lane *lane)
{
	struct page_comm *slot = lane->slot;
	int64_t now;

	stall_poll(lane);
	now = lane->watch->polled.polled_us;
	if (!slot || slot->waiting || slot->polled_us == now)
		return;
	slot->polled_us = now;
	if (now - slot->noted_us >= STALL_NOTED_US)
		seen_note(lane, now);
}
