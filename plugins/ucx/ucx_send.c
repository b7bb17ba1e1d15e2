/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_send.c - queues the messages of each peer and hands them to UCX.
 *
 * The plugin cuts a message into frames that UCX sends in one piece.  At most one frame of a peer waits in UCX
 * uncopied.  UCX reads the bytes of this frame through ucx_frame_ops when it copies them, so the plugin can
 * cancel a send at any time, by pointing the frame at a copy.
 */
#include "ucx.h"

#include <stdio.h>
#include <string.h>

/* ----------------------------------------------------------- how UCX reads a frame -- */

static void *ucx_frame_start(void *context, const void *buffer, size_t count)
{
	(void)context;
	(void)count;
	return (void *)(uintptr_t)buffer;
}

static void *ucx_frame_no_unpack(void *context, void *buffer, size_t count)
{
	(void)context;
	(void)count;
	return buffer;
}

static size_t ucx_frame_size(void *state)
{
	return ((const struct ucx_frame *)state)->size;
}

static size_t ucx_frame_pack(void *state, size_t offset, void *dest, size_t space)
{
	const struct ucx_frame *frame = state;
	size_t n = frame->size - offset < space ? frame->size - offset : space;

	if (frame->bytes)
		memcpy(dest, frame->bytes + offset, n);
	else
		memset(dest, 0, n);
	return n;
}

static ucs_status_t ucx_frame_unpack(void *state, size_t offset, const void *src, size_t n)
{
	(void)state;
	(void)offset;
	(void)src;
	(void)n;
	return UCS_ERR_UNSUPPORTED; /* UCX receives active messages as bytes, never as frames */
}

static void ucx_frame_finish(void *state)
{
	(void)state;
}

const ucp_generic_dt_ops_t ucx_frame_ops = {
	.start_pack = ucx_frame_start,
	.start_unpack = ucx_frame_no_unpack,
	.packed_size = ucx_frame_size,
	.pack = ucx_frame_pack,
	.unpack = ucx_frame_unpack,
	.finish = ucx_frame_finish,
};

/* -------------------------------------------------------------------- the queue -- */

static coll_send_t *ucx_take_first(struct ucx_peer *peer)
{
	peer->done = 0;
	peer->begun = 0;
	return send_queue_take(&peer->queue);
}

/* Ends the first send with `status`.  From then on the core may reuse its memory. */
static void ucx_finish_first(struct ucx_peer *peer, int32_t status)
{
	coll_send_t *send = ucx_take_first(peer);

	send->status = status;
}

void ucx_frame_out(struct ucx *u, struct ucx_peer *peer)
{
	u->moved = 1;
	if (peer->rest.bytes) {
		if (peer->rest.done == peer->rest.size)
			send_rest_free(&peer->rest, u->host);
	} else if (peer->begun && peer->done == peer->queue.first->header.len) {
		ucx_finish_first(peer, COLL_SUCCESS);
	}
}

int ucx_frame_done(struct ucx *u, struct ucx_peer *peer)
{
	ucs_status_t status;

	if (!peer->request)
		return 1;
	if (!ucx_request_done(&peer->request, &status))
		return 0;
	if (status == UCS_OK)
		ucx_frame_out(u, peer);
	else
		ucx_fail(u, peer, "UCX could not send to it");
	return 1;
}

void ucx_fail_sends(struct ucx *u, struct ucx_peer *peer, int32_t status)
{
	send_rest_free(&peer->rest, u->host);
	while (peer->queue.first)
		ucx_finish_first(peer, status);
}

/* ---------------------------------------------------------------------- frames -- */

void *ucx_issue(struct ucx *u, struct ucx_peer *peer, unsigned id, const void *bytes, uint64_t n)
{
	size_t head = ucx_header_size(id);
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_FORCE_IMM_CMPL,
		.flags = UCP_AM_SEND_FLAG_EAGER,
		.memory_type = UCS_MEMORY_TYPE_HOST,
	};
	void *request;

	peer->pending = (struct ucx_frame){bytes, n};
	if (n <= UCX_SHORT) {
		request =
			ucx_lib.ucp_am_send_nbx(peer->ep, id, &peer->head, head, bytes, n, &param);
		if (UCS_PTR_STATUS(request) != UCS_ERR_NO_RESOURCE)
			return request;
	}
	param.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS;
	if (!n)
		return ucx_lib.ucp_am_send_nbx(peer->ep, id, &peer->head, head, NULL, 0, &param);
	param.op_attr_mask |= UCP_OP_ATTR_FIELD_DATATYPE | UCP_OP_ATTR_FIELD_MEMORY_TYPE;
	param.datatype = u->frame_type;
	return ucx_lib.ucp_am_send_nbx(peer->ep, id, &peer->head, head, &peer->pending, 1, &param);
}

/* Calls ucx_issue.  If UCX refuses the frame, fails the peer and returns 1. */
static int ucx_issue_frame(struct ucx *u, struct ucx_peer *peer, unsigned id, const void *bytes,
			   uint64_t n)
{
	void *request = ucx_issue(u, peer, id, bytes, n);

	if (!UCS_PTR_IS_ERR(request)) {
		peer->request = request;
		return 0;
	}
	snprintf(peer->text, sizeof(peer->text), "UCX cannot send to it: %s",
		 ucx_lib.ucs_status_string(UCS_PTR_STATUS(request)));
	ucx_fail(u, peer, peer->text);
	return 1;
}

/* Sends the next frame of the rest of a cancelled message, else of the first message.  Returns its payload bytes. */
static uint64_t ucx_push_frame(struct ucx *u, struct ucx_peer *peer)
{
	const coll_send_t *send = peer->queue.first;
	const uint8_t *from = peer->rest.bytes ? peer->rest.bytes : send->buf;
	uint64_t at = peer->rest.bytes ? peer->rest.done : peer->done;
	uint64_t left = (peer->rest.bytes ? peer->rest.size : send->header.len) - at;
	uint64_t n = left < peer->frame ? left : peer->frame;
	unsigned id = peer->rest.bytes || peer->begun ? UCX_AM_MORE : UCX_AM_FIRST;

	if (id == UCX_AM_FIRST)
		peer->head.header = send->header;
	if (ucx_issue_frame(u, peer, id, from ? from + at : NULL, n))
		return 0;
	if (peer->rest.bytes) {
		peer->rest.done += n;
	} else {
		peer->begun = 1;
		peer->done += n;
	}
	if (!peer->request)
		ucx_frame_out(u, peer);
	return n;
}

/* Does this rank offer the first message, rather than send it in frames? */
static int ucx_wants_zcopy(const struct ucx_peer *peer)
{
	const coll_send_t *send = peer->queue.first;

	return !peer->rest.bytes && !peer->begun && send->header.len &&
	       (send->memory != COLL_MEM_HOST || send->header.len >= peer->zcopy);
}

/* Takes the first message out of the queue and offers it. */
static void ucx_push_offer(struct ucx *u, struct ucx_peer *peer)
{
	coll_send_t *send = ucx_take_first(peer);

	peer->head.header = send->header;
	if (ucx_zcopy_offer(u, peer, send))
		send->status = COLL_ERR_NO_MEMORY;
	else
		ucx_issue_frame(u, peer, UCX_AM_OFFER, NULL, 0);
}

static void ucx_push(struct ucx *u, struct ucx_peer *peer)
{
	uint64_t sent = 0;

	while (ucx_has_work(peer) && !peer->request && !peer->failure && sent < UCX_SEND_SHARE) {
		if (ucx_wants_zcopy(peer))
			ucx_push_offer(u, peer);
		else
			sent += ucx_push_frame(u, peer);
	}
}

void ucx_enlist(struct ucx *u, struct ucx_peer *peer)
{
	if (peer->busy || !(ucx_has_work(peer) || peer->request))
		return;
	peer->busy = 1;
	peer->next_busy = u->busy;
	u->busy = peer;
}

void ucx_send_all(struct ucx *u)
{
	for (struct ucx_peer **at = &u->busy; *at;) {
		struct ucx_peer *peer = *at;

		if (ucx_frame_done(u, peer) && !peer->lost)
			ucx_push(u, peer);
		if (ucx_has_work(peer) || peer->request) {
			at = &peer->next_busy;
			continue;
		}
		*at = peer->next_busy;
		peer->busy = 0;
	}
}

static int32_t ucx_send_inside(struct ucx *u, coll_send_t *send, coll_error_t *err)
{
	struct ucx_peer *peer;
	int idle;

	if (send->peer >= u->nranks)
		return error_fill(err, COLL_ERR_INTERNAL,
				  "a message for rank %u, but the communicator has %u ranks",
				  send->peer, u->nranks);
	if (!(send->memory & u->memory))
		return error_fill(err, COLL_ERR_UNSUPPORTED,
				  "UCX cannot reach this kind of memory here: it was built without "
				  "CUDA, or finds no device; `coll info` shows its transports");
	peer = &u->peer[send->peer];
	if (!peer->ep || peer->lost) {
		peer = ucx_connect(u, send->peer, err);
		if (!peer)
			return err ? err->code : COLL_ERR_SYSTEM;
	}
	idle = !ucx_has_work(peer) && !peer->request;
	send_queue_append(&peer->queue, send);
	if (send->peer == u->rank)
		return COLL_SUCCESS;
	if (idle)
		ucx_push(u, peer);
	ucx_enlist(u, peer);
	return COLL_SUCCESS;
}

int32_t ucx_send(void *ep, coll_send_t *send, coll_error_t *err)
{
	struct ucx *u = ep;
	const int cancels = ucx_uncancel(u);
	int outermost = ucx_enter(u);
	int32_t code;

	code = ucx_send_inside(u, send, err);
	ucx_leave(u, outermost);
	cancel_restore(cancels);
	return code;
}

/* -------------------------------------------------------------------- cancelling -- */

int32_t ucx_copy_payload(struct ucx *u, void *to, const coll_send_t *send, uint64_t at, uint64_t n)
{
	const coll_host_t *host = u->host;
	const uint8_t *from = (const uint8_t *)send->buf + at;
	coll_error_t err = {.size = sizeof(err)};

	if (send->memory != COLL_MEM_HOST)
		return host->copy ? host->copy(host, to, from, n, &err) : COLL_ERR_UNSUPPORTED;
	memcpy(to, from, n);
	return COLL_SUCCESS;
}

/* Copies the rest of the first message: the peer has its beginning and must get the whole. */
static void ucx_keep_rest(struct ucx *u, struct ucx_peer *peer)
{
	const coll_send_t *send = peer->queue.first;
	uint64_t unsent = peer->request ? peer->pending.size : 0;
	uint64_t begin = peer->done - unsent, size = send->header.len - begin;

	if (!size)
		return;
	if (!send_rest_new(&peer->rest, u->host, size)) {
		/* Without the rest this message cannot end, and no other message can begin. */
		peer->pending.bytes = NULL;
		ucx_fail(u, peer,
			 "this rank has no memory for the rest of a cancelled message to it");
		return;
	}
	if (ucx_copy_payload(u, peer->rest.bytes, send, begin, size))
		memset(peer->rest.bytes, 0,
		       size); /* the content of a cancelled message does not matter, its length does */
	peer->rest.done = unsent;
	peer->pending.bytes = peer->rest.bytes;
}

void ucx_cancel(void *ep, coll_send_t *send)
{
	struct ucx *u = ep;
	struct ucx_peer *peer = &u->peer[send->peer];

	if (ucx_zcopy_cancel(u, send))
		return;
	if (peer->queue.first == send) {
		if (peer->begun && !peer->rest.bytes)
			ucx_keep_rest(u, peer);
		ucx_take_first(peer);
	} else {
		send_queue_remove(&peer->queue, send);
	}
}
