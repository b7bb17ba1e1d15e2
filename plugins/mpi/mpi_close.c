/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_close.c - ends an endpoint: by close, together with the other ranks, or because MPI ends. */
#include "mpi_plugin.h"

#include <pthread.h>
#include <stdlib.h>

/* Longest time in which MPI gives the receives of an endpoint back. */
enum { CLOSE_CANCEL_MS = 100, CLOSE_NAP_US = 10 };

/* All opened endpoints of the process, for the end of MPI. */
static pthread_mutex_t close_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mpi_endpoint *close_first;

void mpi_list_add(struct mpi_endpoint *ep)
{
	struct mpi_endpoint **first = ep->opened ? &ep->opened->splits : &close_first;

	pthread_mutex_lock(&close_lock);
	ep->next = *first;
	ep->link = first;
	if (ep->next)
		ep->next->link = &ep->next;
	*first = ep;
	pthread_mutex_unlock(&close_lock);
}

static void close_cut(struct mpi_endpoint *ep)
{
	*ep->link = ep->next;
	if (ep->next)
		ep->next->link = ep->link;
}

/* Has the endpoint collectives that MPI may still have? */
static int close_gave_up(const struct mpi_endpoint *ep)
{
	return atomic_load(&ep->aborted) || ep->call;
}

static void close_unlist(struct mpi_endpoint *ep)
{
	pthread_mutex_lock(&close_lock);
	if (ep->link)
		close_cut(ep);
	if (ep->opened && close_gave_up(ep))
		ep->opened->split_left = 1;
	pthread_mutex_unlock(&close_lock);
}

/* Sends the goodbye to each peer whose messages are all sent.  Returns 1 if all peers have said goodbye too, or have died. */
static int close_advance(struct mpi_endpoint *ep)
{
	int over = 1;

	mpi_receive(ep);
	mpi_send_all(ep);
	for (uint32_t r = 0; r < ep->nranks; r++) {
		struct mpi_peer *peer = &ep->peer[r];

		if (!peer->queue.first && !peer->rest && !peer->dead)
			mpi_say_bye(ep, peer);
		mpi_reap(ep, peer);
		over &= peer->dead || (peer->bye_sent && !peer->out && peer->bye_received);
	}
	return over;
}

/* Gives up all sends and says goodbye, without a wait for other ranks. */
static void close_leave(struct mpi_endpoint *ep)
{
	ep->closing = 1;
	for (uint32_t r = 0; r < ep->nranks; r++) {
		mpi_drop_sends(&ep->peer[r]);
		mpi_say_bye(ep, &ep->peer[r]);
	}
}

void mpi_free_comm(struct mpi_endpoint *ep)
{
	if (!mpi_watch_seen() && !ep->left && !atomic_load(&ep->aborted))
		mpi.comm_free(&ep->comm);
}

/* Gives the endpoint's receives and communicator back, after all goodbyes. */
static void close_end(struct mpi_endpoint *ep)
{
	mpi_slots_close(ep, clock_deadline(CLOSE_CANCEL_MS));
	mpi_keep_close(ep);
	mpi_free_comm(ep);
}

/* Waits for all goodbyes, alone in MPI.  Returns 0 if one is missing at the deadline. */
static int close_await(struct mpi_endpoint *ep, int64_t deadline)
{
	ep->closing = 1;
	while (!close_advance(ep)) {
		if (!clock_remaining(deadline))
			return 0;
		clock_nap(CLOSE_NAP_US);
	}
	return 1;
}

/* Waits for all goodbyes, and leaves MPI to other threads meanwhile.  Returns 0 if one is missing at the deadline. */
static int close_together(struct mpi_endpoint *ep, int64_t deadline)
{
	int over = 0, in_time = 1;

	while (!over && in_time) {
		in_time = clock_remaining(deadline) > 0;
		if (!mpi_enter())
			return 1;
		ep->closing = 1;
		over = close_advance(ep);
		if (over)
			close_end(ep);
		else if (!in_time)
			close_leave(ep);
		mpi_leave();
		if (!over && in_time)
			clock_nap(CLOSE_NAP_US);
	}
	return over;
}

/* Frames that MPI has not given back stay allocated. */
static void close_free(struct mpi_endpoint *ep)
{
	struct mpi_frame *next;

	mpi_watch_close(ep);
	for (struct mpi_frame *frame = ep->spare; frame; frame = next) {
		next = frame->next;
		free(frame);
	}
	free(ep->spare_copy);
	free(ep->peer);
	free(ep);
}

/*
 * Without the goodbyes of all ranks MPI may still use the endpoint's frames.  Then the endpoint stays until they have come
 * (mpi_sweep) or MPI is finalised, and only the core's memory is left alone.  In a forked process the parent has the ranks.
 */
void mpi_close(void *ep_, int64_t timeout_ms)
{
	CANCEL_OFF;
	struct mpi_endpoint *ep = ep_;
	int over;

	if (ep->opened) {
		close_unlist(ep);
		mpi_split_close(ep);
		return;
	}
	over = !ep->link || mpi_is_forked() || close_together(ep, clock_deadline(timeout_ms));
	if (!over) {
		pthread_mutex_lock(&close_lock);
		ep->host = NULL;
		pthread_mutex_unlock(&close_lock);
		return;
	}
	close_unlist(ep);
	close_free(ep);
}

void mpi_sweep(void)
{
	struct mpi_endpoint *next;

	if (!mpi_enter())
		return;
	pthread_mutex_lock(&close_lock);
	for (struct mpi_endpoint *ep = close_first; ep; ep = next) {
		next = ep->next;
		if (ep->host || !close_advance(ep))
			continue;
		close_end(ep);
		close_cut(ep);
		close_free(ep);
	}
	pthread_mutex_unlock(&close_lock);
	mpi_leave();
}

/* Has the open endpoint a rank that may not come to its end together with this rank? */
static int close_has_failed(const struct mpi_endpoint *ep)
{
	int failed = close_gave_up(ep) || ep->split_left;

	for (const struct mpi_endpoint *split = ep->splits; split; split = split->next)
		failed |= close_gave_up(split);
	for (uint32_t r = 0; r < ep->nranks; r++)
		failed |= ep->peer[r].lost || ep->peer[r].failure;
	return failed;
}

int mpi_settle(int64_t timeout_ms)
{
	const int64_t deadline = clock_deadline(timeout_ms);
	int settled = 1;

	pthread_mutex_lock(&close_lock);
	for (struct mpi_endpoint *ep = close_first; ep; ep = ep->next)
		if (ep->host && close_has_failed(ep))
			close_leave(ep);
	for (struct mpi_endpoint *ep = close_first; ep && settled; ep = ep->next)
		if (ep->closing)
			settled = close_await(ep, deadline);
	pthread_mutex_unlock(&close_lock);
	return settled;
}

void mpi_end_all(void)
{
	pthread_mutex_lock(&close_lock);
	for (struct mpi_endpoint *ep = close_first; ep; ep = ep->next) {
		close_leave(ep);
		mpi_slots_close(ep, clock_deadline(CLOSE_CANCEL_MS));
	}
	pthread_mutex_unlock(&close_lock);
}
