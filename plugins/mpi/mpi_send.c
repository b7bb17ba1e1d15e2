/* SPDX-License-Identifier: BSD-3-Clause */
/* mpi_send.c - copies the messages of each peer into frames and hands the frames to MPI. */
#include "mpi_plugin.h"

#include <stdlib.h>
#include <string.h>

/* -------------------------------------------------------------------- frames -- */

struct mpi_frame *mpi_frame_get(struct mpi_endpoint *ep)
{
	struct mpi_frame *frame = ep->spare;

	if (frame)
		ep->spare = frame->next;
	else
		frame = malloc(sizeof(*frame));
	if (frame) {
		frame->request = MPI_REQUEST_NULL;
		frame->send = NULL;
	}
	return frame;
}

void mpi_frame_put(struct mpi_endpoint *ep, struct mpi_frame *frame)
{
	frame->next = ep->spare;
	ep->spare = frame;
}

/* Has MPI sent the frame?  A frame that MPI could not send counts as sent, and fails its peer. */
static int send_is_over(struct mpi_endpoint *ep, struct mpi_peer *peer, struct mpi_frame *frame)
{
	int done = 0;
	const int result = mpi.test(&frame->request, &done, MPI_STATUS_IGNORE);

	if (!result)
		return done;
	mpi_watch_error(ep, result);
	mpi_fail(ep, peer, "MPI could not send to it");
	return 1;
}

/*
 * Ends the message that ends with the frame.  The core drives the endpoint until then, and MPI may need these calls to send
 * the frame, although the core could reuse the message's memory before.
 */
static void send_end(struct mpi_endpoint *ep, struct mpi_frame *frame, int32_t status)
{
	if (frame->send)
		frame->send->status = status;
	frame->send = NULL;
	mpi_frame_put(ep, frame);
}

int mpi_reap(struct mpi_endpoint *ep, struct mpi_peer *peer)
{
	struct mpi_frame *frame;
	int reaped = 0;

	while ((frame = peer->out) && send_is_over(ep, peer, frame)) {
		peer->out = frame->next;
		peer->window--;
		send_end(ep, frame, COLL_SUCCESS);
		reaped = 1;
	}
	return reaped;
}

/* Hands a filled frame to MPI.  Short frames are sent before MPI returns. */
static void send_issue(struct mpi_endpoint *ep, struct mpi_peer *peer, struct mpi_frame *frame)
{
	const int size = (int)(sizeof(frame->head) + frame->head.bytes);
	int result;

	frame->head.from = ep->rank;
	frame->head.number = peer->sent++;
	frame->head.reserved = 0;
	result = mpi.isend(&frame->head, size, MPI_BYTE, (int)peer->rank, MPI_FRAME_TAG, ep->comm,
			   &frame->request);
	if (result) {
		mpi_watch_error(ep, result);
		mpi_fail(ep, peer, "MPI cannot send to it");
	}
	if (result || (!peer->out && send_is_over(ep, peer, frame))) {
		send_end(ep, frame, result ? COLL_ERR_PEER_LOST : COLL_SUCCESS);
		return;
	}
	frame->next = NULL;
	if (peer->out)
		peer->out_last->next = frame;
	else
		peer->out = frame;
	peer->out_last = frame;
	peer->window++;
}

void mpi_say_bye(struct mpi_endpoint *ep, struct mpi_peer *peer)
{
	struct mpi_frame *frame = peer->bye_sent ? NULL : mpi_frame_get(ep);

	peer->bye_sent = 1;
	if (!frame)
		return;
	frame->head.kind = MPI_FRAME_BYE;
	frame->head.bytes = 0;
	send_issue(ep, peer, frame);
}

/* ----------------------------------------------------------------- the queue -- */

static coll_send_t *send_take_first(struct mpi_peer *peer)
{
	peer->done = 0;
	peer->begun = 0;
	return send_queue_take(&peer->queue);
}

void mpi_fail_sends(struct mpi_peer *peer, int32_t status)
{
	peer->rest = 0;
	for (struct mpi_frame *frame = peer->out; frame; frame = frame->next) {
		if (frame->send)
			frame->send->status = status;
		frame->send = NULL;
	}
	while (peer->queue.first)
		send_take_first(peer)->status = status;
}

void mpi_drop_sends(struct mpi_peer *peer)
{
	peer->rest = 0;
	peer->queue.first = NULL;
	for (struct mpi_frame *frame = peer->out; frame; frame = frame->next)
		frame->send = NULL;
}

static int send_has_work(const struct mpi_peer *peer)
{
	return peer->rest || peer->queue.first;
}

/* Fills a frame with the rest of a cancelled message.  Its content has no meaning. */
static void send_fill_rest(struct mpi_peer *peer, struct mpi_frame *frame)
{
	const uint64_t n = peer->rest < MPI_FRAME_BYTES ? peer->rest : MPI_FRAME_BYTES;

	frame->head.kind = MPI_FRAME_MORE;
	frame->head.bytes = n;
	memset(frame->payload, 0, n);
	peer->rest -= n;
}

int mpi_move(const struct mpi_endpoint *ep, void *to, const void *from, size_t bytes,
	     uint32_t memory)
{
	coll_error_t err = {.size = sizeof(err)};

	if (!ep->cuda || memory == COLL_MEM_HOST)
		memcpy(to, from, bytes);
	else if (ep->host->copy(ep->host, to, from, bytes, &err)) {
		kit_log(ep->host, COLL_LOG_ERROR, "%s", err.text);
		return -1;
	}
	return 0;
}

/*
 * Fills a frame with the next bytes of the first message.  The message leaves the queue with its last byte.  Returns 0, or -1
 * if the bytes cannot be copied.
 */
static int send_fill(const struct mpi_endpoint *ep, struct mpi_peer *peer, struct mpi_frame *frame)
{
	const coll_send_t *send = peer->queue.first;
	const uint64_t left = send->header.len - peer->done;
	const uint64_t n = left < MPI_FRAME_BYTES ? left : MPI_FRAME_BYTES;

	frame->head.kind = peer->begun ? MPI_FRAME_MORE : MPI_FRAME_FIRST;
	frame->head.bytes = n;
	if (!peer->begun)
		frame->head.header = send->header;
	if (n &&
	    mpi_move(ep, frame->payload, (const uint8_t *)send->buf + peer->done, n, send->memory))
		return -1;
	peer->begun = 1;
	peer->done += n;
	if (n == left)
		frame->send = send_take_first(peer);
	return 0;
}

/* Sends frames to the peer until its window is full.  Returns 1 if a frame went out. */
static int send_push(struct mpi_endpoint *ep, struct mpi_peer *peer)
{
	struct mpi_frame *frame;
	int moved = 0;

	while (send_has_work(peer) && peer->window < MPI_WINDOW && !peer->failure && !peer->lost) {
		frame = mpi_frame_get(ep);
		if (!frame) {
			mpi_fail(ep, peer, "this rank has no memory for a message to it");
			return moved;
		}
		if (peer->rest)
			send_fill_rest(peer, frame);
		else if (send_fill(ep, peer, frame)) {
			mpi_frame_put(ep, frame);
			mpi_fail(ep, peer, "the CUDA driver could not copy a message to it");
			return moved;
		}
		send_issue(ep, peer, frame);
		moved = 1;
	}
	return moved;
}

static void send_enlist(struct mpi_endpoint *ep, struct mpi_peer *peer)
{
	if (peer->busy || !(send_has_work(peer) || peer->out))
		return;
	peer->busy = 1;
	peer->next_busy = ep->busy;
	ep->busy = peer;
}

int mpi_send_all(struct mpi_endpoint *ep)
{
	int moved = 0;

	for (struct mpi_peer **at = &ep->busy; *at;) {
		struct mpi_peer *peer = *at;

		moved |= mpi_reap(ep, peer);
		moved |= send_push(ep, peer);
		if (send_has_work(peer) || peer->out) {
			at = &peer->next_busy;
			continue;
		}
		*at = peer->next_busy;
		peer->busy = 0;
	}
	return moved;
}

int32_t mpi_send(void *ep_, coll_send_t *send, coll_error_t *err)
{
	CANCEL_OFF;
	struct mpi_endpoint *ep = ep_;
	struct mpi_peer *peer = &ep->peer[send->peer];

	if (peer->lost || peer->failure || !mpi_enter())
		return error_fill(err, COLL_ERR_PEER_LOST, "rank %u has left, or was lost before",
				  send->peer);
	send_queue_append(&peer->queue, send);
	send_push(ep, peer);
	send_enlist(ep, peer);
	mpi_leave();
	return COLL_SUCCESS;
}

/* MPI has no memory of the message: the peer gets the rest of it without its content. */
void mpi_cancel(void *ep_, coll_send_t *send)
{
	struct mpi_endpoint *ep = ep_;
	struct mpi_peer *peer = &ep->peer[send->peer];

	for (struct mpi_frame *frame = peer->out; frame; frame = frame->next)
		if (frame->send == send) {
			frame->send = NULL;
			return;
		}
	if (peer->queue.first == send && peer->begun) {
		peer->rest = send->header.len - peer->done;
		send_take_first(peer);
		return;
	}
	send_queue_remove(&peer->queue, send);
}
