/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_recv.c - takes the frames of all ranks out of the receives that wait for them, and hands the messages to the core.
 *
 * MPI fills the receives in the order in which they were posted, so a look at the oldest receive tells whether a frame has
 * come.  That receive may stay half filled, if its sender has stopped amid the frame.  Then the endpoint looks at all
 * receives, and takes the frames of each other rank in their order, which their numbers tell.
 */
#include "mpi_plugin.h"

#include <string.h>

/* -------------------------------------------------------------------- messages -- */

static void recv_end(struct mpi_endpoint *ep, struct mpi_peer *peer, int32_t status)
{
	peer->receiving = 0;
	if (!peer->dropped)
		ep->host->arrived(ep->host, peer->sink.cookie, status);
}

/* Hands over the next bytes of the message that is being received. */
static void recv_bytes(struct mpi_endpoint *ep, struct mpi_peer *peer,
		       const struct mpi_frame_head *head, const uint8_t *bytes)
{
	if (head->bytes && !peer->dropped && peer->sink.buf) {
		if (mpi_move(ep, (uint8_t *)peer->sink.buf + peer->got, bytes, head->bytes,
			     peer->sink.memory)) {
			mpi_fail(ep, peer, "the CUDA driver could not copy a message from it");
			return;
		}
	} else if (head->bytes && !peer->dropped)
		ep->host->data(ep->host, peer->sink.cookie, bytes, head->bytes);
	peer->got += head->bytes;
	if (peer->got == peer->len)
		recv_end(ep, peer, COLL_SUCCESS);
}

/* Announces a message.  Returns 0 if the core refuses it. */
static int recv_first(struct mpi_endpoint *ep, struct mpi_peer *peer,
		      const struct mpi_frame_head *head, const uint8_t *bytes)
{
	const coll_host_t *host = ep->host;

	if (head->bytes == head->header.len &&
	    host->size >= offsetof(coll_host_t, message) + sizeof(host->message) && host->message)
		return !host->message(host, peer->rank, &head->header, bytes);
	if (host->arrive(host, peer->rank, &head->header, &peer->sink))
		return 0;
	peer->receiving = 1;
	peer->dropped = 0;
	peer->got = 0;
	peer->len = head->header.len;
	recv_bytes(ep, peer, head, bytes);
	return 1;
}

/* Does the frame continue what its rank has sent before? */
static int recv_fits(const struct mpi_peer *peer, const struct mpi_frame_head *head)
{
	if (head->kind == MPI_FRAME_BYE)
		return 1;
	if (head->bytes > MPI_FRAME_BYTES)
		return 0;
	if (head->kind == MPI_FRAME_FIRST)
		return !peer->receiving && head->bytes <= head->header.len;
	return head->kind == MPI_FRAME_MORE && peer->receiving && head->bytes > 0 &&
	       head->bytes <= peer->len - peer->got;
}

static void recv_take(struct mpi_endpoint *ep, struct mpi_peer *peer, const struct mpi_frame *frame)
{
	const struct mpi_frame_head *head = &frame->head;

	if (head->kind == MPI_FRAME_BYE)
		peer->bye_received = 1;
	if (ep->closing || peer->lost || peer->failure)
		return;
	ep->received += head->bytes;
	if (head->kind == MPI_FRAME_BYE)
		mpi_fail(ep, peer, "it closed its endpoint");
	else if (!recv_fits(peer, head))
		mpi_fail(ep, peer, "it sent a frame that does not fit");
	else if (head->kind == MPI_FRAME_MORE)
		recv_bytes(ep, peer, head, frame->payload);
	else if (!recv_first(ep, peer, head, frame->payload))
		mpi_fail(ep, peer, "it sent an invalid message");
}

void mpi_drop(void *ep_, uint64_t cookie)
{
	struct mpi_endpoint *ep = ep_;

	for (uint32_t r = 0; r < ep->nranks; r++)
		if (ep->peer[r].receiving && ep->peer[r].sink.cookie == cookie)
			ep->peer[r].dropped = 1;
}

/* ----------------------------------------------------------------------- slots -- */

/* The sender of a frame that has not come. */
#define RECV_NOBODY UINT32_MAX

static int recv_post_once(struct mpi_endpoint *ep, struct mpi_slot *slot)
{
	slot->filled = 0;
	slot->frame->head.from = RECV_NOBODY;
	return mpi.irecv(&slot->frame->head, sizeof(slot->frame->head) + MPI_FRAME_BYTES, MPI_BYTE,
			 MPI_ANY_SOURCE, MPI_FRAME_TAG, ep->comm, &slot->frame->request);
}

/* MPI may refuse a receive to tell of a dead rank.  Then the receive is posted again. */
static int recv_post(struct mpi_endpoint *ep, struct mpi_slot *slot)
{
	const int result = recv_post_once(ep, slot);

	return result && mpi_watch_error(ep, result) ? recv_post_once(ep, slot) : result;
}

int32_t mpi_slots_open(struct mpi_endpoint *ep, coll_error_t *err)
{
	int result;

	while (ep->slots < MPI_SLOTS) {
		struct mpi_slot *slot = &ep->slot[ep->slots];

		slot->frame = mpi_frame_get(ep);
		if (!slot->frame)
			return error_fill(err, COLL_ERR_NO_MEMORY,
					  "no memory to receive messages in");
		result = recv_post(ep, slot);
		if (result)
			return mpi_refused(err, result, "MPI_Irecv");
		ep->order[ep->slots] = (uint8_t)ep->slots;
		ep->slots++;
	}
	return COLL_SUCCESS;
}

/* MPI failed to receive from a rank that it does not name, so every rank may have lost messages. */
static void recv_fail_all(struct mpi_endpoint *ep)
{
	for (uint32_t r = 0; r < ep->nranks; r++)
		mpi_fail(ep, &ep->peer[r], "MPI could not receive");
}

/*
 * Takes the error of a slot's receive.  If MPI tells of a dead rank so, the receive waits on, or has ended.  Returns 1 if it has
 * ended with a frame, as it may in Open MPI, which then keeps the request.
 */
static int recv_error(struct mpi_endpoint *ep, struct mpi_slot *slot, int done, int result)
{
	const int told = mpi_watch_error(ep, result);

	if (told && done && slot->frame->request != MPI_REQUEST_NULL)
		mpi.request_free(&slot->frame->request);
	if (told && done && slot->frame->head.from < ep->nranks)
		return 1;
	if (!told || (slot->frame->request == MPI_REQUEST_NULL && recv_post(ep, slot)))
		recv_fail_all(ep);
	return 0;
}

/* Has the slot a frame? */
static int recv_is_filled(struct mpi_endpoint *ep, struct mpi_slot *slot)
{
	int done = 0, result;

	if (slot->filled)
		return 1;
	if (slot->frame->request == MPI_REQUEST_NULL)
		return 0;
	result = mpi.test(&slot->frame->request, &done, MPI_STATUS_IGNORE);
	if (result)
		done = recv_error(ep, slot, done, result);
	slot->filled = done && slot->frame->head.from < ep->nranks;
	return slot->filled;
}

/* Takes the frame of the i-th oldest slot, if it is the next of its rank, and posts the slot again as the newest. */
static int recv_slot(struct mpi_endpoint *ep, int i)
{
	const uint8_t index = ep->order[i];
	struct mpi_slot *slot = &ep->slot[index];
	struct mpi_peer *peer;

	if (!recv_is_filled(ep, slot))
		return 0;
	peer = &ep->peer[slot->frame->head.from];
	if (slot->frame->head.number != peer->taken)
		return 0;
	peer->taken++;
	recv_take(ep, peer, slot->frame);
	memmove(&ep->order[i], &ep->order[i + 1], (size_t)(ep->slots - i - 1));
	ep->order[ep->slots - 1] = index;
	if (recv_post(ep, slot))
		recv_fail_all(ep);
	return 1;
}

/* Takes the next frame, from the oldest slot unless the endpoint has waited long for it. */
static int recv_next(struct mpi_endpoint *ep)
{
	if (recv_slot(ep, 0))
		return 1;
	if (++ep->idle % MPI_PATIENCE)
		return 0;
	mpi_watch_look(ep);
	for (int i = 1; i < ep->slots; i++)
		if (recv_slot(ep, i))
			return 1;
	return 0;
}

int mpi_receive(struct mpi_endpoint *ep)
{
	int moved = 0;

	ep->received = 0;
	while (ep->received < MPI_BUDGET && ep->slots && recv_next(ep))
		moved = 1;
	if (moved)
		ep->idle = MPI_PATIENCE - 1;
	return moved;
}

/* Has MPI given the slot's frame back? */
static int recv_is_free(struct mpi_slot *slot)
{
	int done = 0;

	return slot->frame->request == MPI_REQUEST_NULL ||
	       mpi.test(&slot->frame->request, &done, MPI_STATUS_IGNORE) || done;
}

void mpi_slots_close(struct mpi_endpoint *ep, int64_t deadline)
{
	for (int i = 0; i < ep->slots; i++)
		if (!recv_is_free(&ep->slot[i]))
			mpi.cancel(&ep->slot[i].frame->request);
	for (int i = 0; i < ep->slots; i++) {
		while (!recv_is_free(&ep->slot[i]) && clock_remaining(deadline))
			;
		if (recv_is_free(&ep->slot[i]))
			mpi_frame_put(ep, ep->slot[i].frame);
	}
	ep->slots = 0;
}

/* -------------------------------------------------------------------- progress -- */

void mpi_fail(struct mpi_endpoint *ep, struct mpi_peer *peer, const char *why)
{
	if (peer->lost || peer->failure)
		return;
	peer->failure = why;
	ep->failing++;
}

/* Gives up a peer that has failed. */
static void recv_lose(struct mpi_endpoint *ep, struct mpi_peer *peer)
{
	const char *why = peer->failure;

	ep->failing--;
	peer->failure = NULL;
	peer->lost = 1;
	if (peer->receiving)
		recv_end(ep, peer, COLL_ERR_PEER_LOST);
	mpi_fail_sends(peer, COLL_ERR_PEER_LOST);
	if (!peer->dead)
		mpi_say_bye(ep, peer);
	ep->host->peer_lost(ep->host, peer->rank, why);
}

/* Calls host->peer_lost for the peers that have failed.  Returns 1 if there was one. */
static int recv_report(struct mpi_endpoint *ep)
{
	const uint32_t failing = ep->failing;

	for (uint32_t r = 0; ep->failing && r < ep->nranks; r++)
		if (ep->peer[r].failure)
			recv_lose(ep, &ep->peer[r]);
	return failing > 0;
}

int32_t mpi_progress(void *ep_)
{
	CANCEL_OFF;
	struct mpi_endpoint *ep = ep_;
	int moved;

	if (!mpi_enter()) {
		for (uint32_t r = 0; r < ep->nranks; r++) {
			ep->peer[r].bye_sent = 1; /* it is too late for a goodbye */
			mpi_fail(ep, &ep->peer[r], "the program has finalised MPI");
		}
		return recv_report(ep);
	}
	moved = mpi_receive(ep);
	moved |= mpi_send_all(ep);
	moved |= ep->failing && recv_report(ep);
	mpi_leave();
	return moved;
}
