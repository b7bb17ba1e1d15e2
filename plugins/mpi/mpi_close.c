/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_close.c - ends an endpoint: by close, together with the other ranks, or because MPI ends. */
#include "mpi_plugin.h"

#include <pthread.h>
#include <stdlib.h>

/* Longest time in which MPI gives the receives of an endpoint back. */
enum { CLOSE_CANCEL_MS = 100 };

/* All endpoints of the process, for the end of MPI. */
static pthread_mutex_t close_lock = PTHREAD_MUTEX_INITIALIZER;
static struct mpi_endpoint *close_first;

void mpi_list_add(struct mpi_endpoint *ep)
{
	pthread_mutex_lock(&close_lock);
	ep->next = close_first;
	ep->link = &close_first;
	if (ep->next)
		ep->next->link = &ep->next;
	close_first = ep;
	pthread_mutex_unlock(&close_lock);
}

static void close_unlist(struct mpi_endpoint *ep)
{
	pthread_mutex_lock(&close_lock);
	if (ep->link) {
		*ep->link = ep->next;
		if (ep->next)
			ep->next->link = ep->link;
	}
	ep->link = NULL;
	pthread_mutex_unlock(&close_lock);
}

/* Sends the goodbye to each peer whose messages are all sent.  Returns 1 if all peers have said goodbye too. */
static int close_advance(struct mpi_endpoint *ep)
{
	int over = 1;

	mpi_receive(ep);
	mpi_send_all(ep);
	for (uint32_t r = 0; r < ep->nranks; r++) {
		struct mpi_peer *peer = &ep->peer[r];

		if (!peer->queue.first && !peer->rest)
			mpi_say_bye(ep, peer);
		mpi_reap(ep, peer);
		over &= peer->bye_sent && !peer->out && peer->bye_received;
	}
	return over;
}

/* Waits for all goodbyes.  Returns 0 if one is missing at the deadline. */
static int close_await(struct mpi_endpoint *ep, int64_t deadline)
{
	ep->closing = 1;
	while (!close_advance(ep)) {
		if (!clock_remaining(deadline))
			return 0;
		clock_nap(10);
	}
	return 1;
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

/* Frames that MPI has not given back stay allocated. */
static void close_free(struct mpi_endpoint *ep)
{
	struct mpi_frame *next;

	for (struct mpi_frame *frame = ep->spare; frame; frame = next) {
		next = frame->next;
		free(frame);
	}
	free(ep->peer);
	free(ep);
}

/*
 * Without the goodbyes of all ranks MPI may still use the endpoint's frames.  Then the endpoint stays until MPI is finalised,
 * and only the core's memory is left alone.
 */
void mpi_close(void *ep_, int64_t timeout_ms)
{
	CANCEL_OFF;
	struct mpi_endpoint *ep = ep_;
	int over = 1;

	if (ep->link && !ep->over && mpi_enter()) {
		over = close_await(ep, clock_deadline(timeout_ms));
		if (over) {
			mpi_slots_close(ep, clock_deadline(CLOSE_CANCEL_MS));
			mpi.comm_free(&ep->comm);
		} else {
			close_leave(ep);
		}
		mpi_leave();
	}
	ep->host = NULL;
	if (!over)
		return;
	close_unlist(ep);
	close_free(ep);
}

int mpi_settle(int64_t timeout_ms)
{
	const int64_t deadline = clock_deadline(timeout_ms);
	int settled = 1;

	pthread_mutex_lock(&close_lock);
	for (struct mpi_endpoint *ep = close_first; ep && settled; ep = ep->next)
		if (!ep->host)
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
		ep->over = 1;
	}
	pthread_mutex_unlock(&close_lock);
}
