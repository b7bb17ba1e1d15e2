/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_recv.c - receives active messages from other ranks, and this rank's messages to itself.
 *
 * UCX calls the handlers inside ucp_worker_progress.  The plugin may call the core only while ucx_progress runs,
 * so it defers frames that come at other moments (while it closes a connection by force, for example).
 */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>

struct ucx_deferred {
	struct ucx_deferred *next;
	struct ucx_message_head first; /* first.header is set for UCX_AM_FIRST and OFFER only */
	unsigned id;
	uint64_t len;
	uint8_t bytes[];
};

/* -------------------------------------------------------------------- delivering -- */

void ucx_hand_over(struct ucx *u, uint64_t cookie, const uint8_t *bytes, uint64_t n)
{
	for (uint64_t at = 0, part; at < n; at += part) {
		part = n - at < UCX_DATA_PIECE ? n - at : UCX_DATA_PIECE;
		u->host->data(u->host, cookie, bytes + at, part);
	}
}

static void ucx_to_sink(struct ucx *u, struct ucx_peer *peer, const uint8_t *bytes, uint64_t n,
			uint32_t memory)
{
	const coll_host_t *host = u->host;
	uint8_t *to = peer->sink.buf;
	coll_error_t err = {.size = sizeof(err)};

	if (!n || peer->dropped)
		return;
	if (!to) {
		ucx_hand_over(u, peer->sink.cookie, bytes, n);
	} else if ((memory | peer->sink.memory) == COLL_MEM_HOST) {
		memcpy(to + peer->got, bytes, n);
	} else if (!host->copy || host->copy(host, to + peer->got, bytes, n, &err)) {
		kit_log(host, COLL_LOG_ERROR,
			"cannot copy a message from rank %u into its receive buffer: %s",
			peer->rank, err.text);
		ucx_refuse(u, peer, "its message could not be copied into the receive buffer");
	}
}

static void ucx_deliver(struct ucx *u, struct ucx_peer *peer, const void *bytes, uint64_t n,
			uint32_t memory)
{
	u->moved = 1;
	u->received += n;
	if (n > peer->len - peer->got) {
		ucx_refuse(u, peer, "it sent more bytes than its message has");
		return;
	}
	ucx_to_sink(u, peer, bytes, n, memory);
	peer->got += n;
	if (peer->got < peer->len || peer->refused)
		return;
	peer->receiving = 0;
	if (!peer->dropped)
		u->host->arrived(u->host, peer->sink.cookie, COLL_SUCCESS);
}

/* Begins a message.  Returns 0 if the core accepts it. */
static int ucx_begin(struct ucx *u, struct ucx_peer *peer, const coll_header_t *header)
{
	if (peer->receiving) {
		ucx_refuse(u, peer, "it began a message before its last message was complete");
		return -1;
	}
	memset(&peer->sink, 0, sizeof(peer->sink));
	if (u->host->arrive(u->host, peer->rank, header, &peer->sink)) {
		ucx_refuse(u, peer, "it sent an invalid message");
		return -1;
	}
	peer->receiving = 1;
	peer->dropped = 0;
	peer->got = 0;
	peer->len = header->len;
	return 0;
}

void ucx_drop(void *ep, uint64_t cookie)
{
	struct ucx *u = ep;

	if (ucx_zcopy_drop(u, cookie))
		return;
	for (uint32_t i = 0; i < u->nranks; i++) {
		struct ucx_peer *peer = &u->peer[i];

		if (!peer->receiving || peer->sink.cookie != cookie)
			continue;
		peer->sink.buf = NULL;
		peer->dropped = 1;
	}
}

/* ---------------------------------------------------------------- one kind of frame -- */

static void ucx_take_first(struct ucx *u, struct ucx_peer *peer, const coll_header_t *header,
			   const void *data, uint64_t n)
{
	if (!ucx_begin(u, peer, header))
		ucx_deliver(u, peer, data, n, COLL_MEM_HOST);
}

static void ucx_take_more(struct ucx *u, struct ucx_peer *peer, const void *data, uint64_t n)
{
	if (peer->receiving && n)
		ucx_deliver(u, peer, data, n, COLL_MEM_HOST);
	else
		ucx_refuse(u, peer, "it continued a message that it had not begun");
}

/* -------------------------------------------------------------- deferred frames -- */

static void ucx_defer(struct ucx *u, unsigned id, const struct ucx_message_head *first,
		      const void *data, uint64_t n)
{
	struct ucx_deferred *deferred = malloc(sizeof(*deferred) + n);

	if (!deferred) {
		ucx_refuse(u, &u->peer[first->from.rank],
			   "this rank has no memory for its message");
		return;
	}
	*deferred = (struct ucx_deferred){.first = *first, .id = id, .len = n};
	if (n)
		memcpy(deferred->bytes, data, n);
	*u->deferred_end = deferred;
	u->deferred_end = &deferred->next;
}

/* Handles a frame that may call the core. */
static void ucx_take(struct ucx *u, struct ucx_peer *peer, unsigned id,
		     const struct ucx_message_head *first, const void *data, uint64_t n)
{
	switch (id) {
	case UCX_AM_FIRST: ucx_take_first(u, peer, &first->header, data, n); break;
	case UCX_AM_MORE: ucx_take_more(u, peer, data, n); break;
	case UCX_AM_OFFER: ucx_zcopy_offered(u, peer, first->from.number, &first->header); break;
	default: ucx_fail(u, peer, "it closed its endpoint"); break;
	}
}

void ucx_replay(struct ucx *u)
{
	struct ucx_deferred *next;

	for (struct ucx_deferred *deferred = u->deferred; deferred; deferred = next) {
		struct ucx_peer *peer = &u->peer[deferred->first.from.rank];

		next = deferred->next;
		peer->last_seen = u->calls;
		if (!peer->lost && !peer->refused)
			ucx_take(u, peer, deferred->id, &deferred->first, deferred->bytes,
				 deferred->len);
		free(deferred);
	}
	u->deferred = NULL;
	u->deferred_end = &u->deferred;
}

void ucx_free_deferred(struct ucx *u)
{
	struct ucx_deferred *next;

	for (struct ucx_deferred *deferred = u->deferred; deferred; deferred = next) {
		next = deferred->next;
		free(deferred);
	}
}

/* --------------------------------------------------------------------- handlers -- */

/* Returns the sender of a frame; NULL if the header is malformed or the proof is wrong. */
static struct ucx_peer *ucx_find_sender(struct ucx *u, const void *header, size_t length,
					size_t want)
{
	struct ucx_sender from;
	struct ucx_peer *peer = NULL;

	if (length == want) {
		memcpy(&from, header, sizeof(from));
		if (from.rank < u->nranks && from.rank != u->rank)
			peer = ucx_peer_get(u, from.rank);
	}
	if (peer && peer->proof == from.proof) {
		u->connect_back += !peer->seen && !peer->ep;
		u->new_peers += !peer->seen;
		peer->seen = 1;
		peer->last_seen = u->calls;
		return peer;
	}
	if (!u->unverified++)
		kit_log(u->host, COLL_LOG_WARN,
			"ignored a message from a process outside this communicator (rank %u gets "
			"no further warnings); UCX_NET_DEVICES can choose a private network",
			u->rank);
	return NULL;
}

/* UCX calls this function for each frame.  With UCP_AM_RECV_ATTR_FLAG_RNDV `data` is UCX's descriptor of the data. */
static ucs_status_t ucx_on_frame(void *arg, const void *header, size_t header_length, void *data,
				 size_t n, const ucp_am_recv_param_t *param)
{
	const struct ucx_frame_handler *handler = arg;
	struct ucx *u = handler->owner;
	const unsigned id = handler->id;
	size_t want = ucx_header_size(id);
	int announced = (param->recv_attr & UCP_AM_RECV_ATTR_FLAG_RNDV) != 0;
	struct ucx_message_head first = {.header = {.tag = 0}};
	struct ucx_peer *peer;

	if (id == UCX_AM_EMPTY)
		return UCS_OK;
	peer = ucx_find_sender(u, header, header_length, want);
	if (!peer || peer->lost || peer->refused || id == UCX_AM_HELLO)
		return UCS_OK;
	if (id == UCX_AM_BYE)
		peer->bye_received = u->gone = 1;
	if (u->closing && id != UCX_AM_ACCEPT)
		return UCS_OK;
	memcpy(&first, header, want);
	if (announced != (id == UCX_AM_DATA))
		ucx_refuse(u, peer, "it sent a frame by the wrong protocol, eager or rendezvous");
	else if (id == UCX_AM_DATA)
		return ucx_zcopy_data(u, peer, first.from.number, data, n);
	else if (id == UCX_AM_ACCEPT)
		ucx_zcopy_accepted(u, peer, first.from.number);
	else if (u->inside)
		ucx_take(u, peer, id, &first, data, n);
	else
		ucx_defer(u, id, &first, data, n);
	return UCS_OK;
}

int32_t ucx_set_handlers(struct ucx *u, coll_error_t *err)
{
	for (unsigned id = UCX_AM_FIRST; id < UCX_AM_END; id++) {
		const ucp_am_handler_param_t param = {
			.field_mask = UCP_AM_HANDLER_PARAM_FIELD_ID |
				      UCP_AM_HANDLER_PARAM_FIELD_CB |
				      UCP_AM_HANDLER_PARAM_FIELD_ARG,
			.id = id,
			.cb = ucx_on_frame,
			.arg = &u->frame_handler[id],
		};
		ucs_status_t status;

		u->frame_handler[id] = (struct ucx_frame_handler){u, id};
		status = ucx_lib.ucp_worker_set_am_recv_handler(u->worker, &param);
		if (status != UCS_OK)
			return ucx_refused(err, status,
					   "cannot register a handler of active messages");
	}
	return COLL_SUCCESS;
}

/* ----------------------------------------------------------------- to the own rank -- */

/* Delivers the next piece of the first message, or of the rest of a cancelled message. */
static void ucx_loop_piece(struct ucx *u, struct ucx_peer *self)
{
	const coll_send_t *send = self->queue.first;
	const uint8_t *from = self->rest.bytes ? self->rest.bytes : send->buf;
	uint64_t *at = self->rest.bytes ? &self->rest.done : &self->done;
	uint64_t left = (self->rest.bytes ? self->rest.size : send->header.len) - *at;
	uint64_t n = left < UCX_SEND_SHARE ? left : UCX_SEND_SHARE;

	if (!self->rest.bytes && !self->begun) {
		self->begun = 1;
		if (ucx_begin(u, self, &send->header))
			return;
	}
	ucx_deliver(u, self, from ? from + *at : NULL, n,
		    self->rest.bytes ? COLL_MEM_HOST : send->memory);
	*at += n;
	if (n == left)
		ucx_frame_out(u, self);
}

void ucx_loop_back(struct ucx *u)
{
	struct ucx_peer *self = &u->peer[u->rank];

	while (ucx_has_work(self) && !self->failure && u->received < UCX_BUDGET)
		ucx_loop_piece(u, self);
}
