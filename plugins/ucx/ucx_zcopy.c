/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_zcopy.c - messages without frames, which UCX moves from memory to memory: over RDMA without a copy, and
 * from and to a GPU.  The sender offers a message; once the receiver has accepted it, UCX's rendezvous moves it.
 *
 * A message that is cancelled before it is accepted is copied, and sent from the copy.  During the rendezvous UCX
 * uses the caller's memory, and no call stops it.  So a cancel then waits a moment for the rendezvous to end,
 * and after that closes the connection, which ends it.
 */
#include "ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct ucx_zsend {
	struct ucx_zsend *next;
	struct ucx_peer *peer;
	struct ucx_sender from; /* the header of DATA, with the number of the offer */
	coll_send_t *send;      /* NULL once cancelled */
	uint8_t *copy;          /* the payload of a cancelled send; NULL: none */
	uint64_t len;
	int accepted;
	void *request; /* NULL once complete */
	ucs_status_t status;
};

struct ucx_zrecv {
	struct ucx_zrecv *next;
	struct ucx_peer *peer;
	struct ucx_sender from; /* the header of ACCEPT, with the number of the peer's offer */
	coll_sink_t sink;
	uint64_t len;
	int dropped;
	int accepted;         /* the ACCEPT was handed to UCX */
	void *accept_request; /* of the ACCEPT; NULL once complete */
	int fetching;         /* DATA has come: UCX fetches the payload */
	uint8_t *staging;     /* memory for the payload if the receive has no buffer */
	void *request;        /* NULL once complete */
	ucs_status_t status;
};

/* Splits the result of a UCX call that starts a transfer into request and status. */
static void ucx_request_begin(void *answer, void **request, ucs_status_t *status)
{
	*request = UCS_PTR_IS_PTR(answer) ? answer : NULL;
	*status = UCS_PTR_IS_PTR(answer) ? UCS_INPROGRESS : UCS_PTR_STATUS(answer);
}

/* ---------------------------------------------------------------------- sending -- */

int ucx_zcopy_offer(struct ucx *u, struct ucx_peer *peer, coll_send_t *send)
{
	struct ucx_zsend *z = calloc(1, sizeof(*z));

	if (!z)
		return COLL_ERR_NO_MEMORY;
	z->peer = peer;
	z->send = send;
	z->len = send->header.len;
	z->from = peer->head.from;
	z->from.number = peer->offers++;
	peer->head.from.number = z->from.number;
	z->next = u->zsend;
	u->zsend = z;
	return COLL_SUCCESS;
}

/* The receiver has accepted an offer: starts the rendezvous. */
void ucx_zcopy_accepted(struct ucx *u, struct ucx_peer *peer, uint32_t number)
{
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
				UCP_OP_ATTR_FLAG_MULTI_SEND,
		.flags = UCP_AM_SEND_FLAG_RNDV,
	};
	struct ucx_zsend *z = u->zsend;

	if (peer->failure)
		return; /* its offers may have been given up */
	while (z && (z->peer != peer || z->from.number != number || z->accepted))
		z = z->next;
	if (!z || !peer->ep) {
		ucx_refuse(u, peer, "it accepted a message that this rank had not offered");
		return;
	}
	z->accepted = 1;
	param.memory_type = ucx_memory_type(z->copy ? COLL_MEM_HOST : z->send->memory);
	ucx_request_begin(ucx_lib.ucp_am_send_nbx(peer->ep, UCX_AM_DATA, &z->from, sizeof(z->from),
						  z->copy ? z->copy : z->send->buf, z->len, &param),
			  &z->request, &z->status);
}

/* -------------------------------------------------------------------- receiving -- */

void ucx_zcopy_offered(struct ucx *u, struct ucx_peer *peer, uint32_t number,
		       const coll_header_t *header)
{
	struct ucx_zrecv *z = calloc(1, sizeof(*z));

	if (!z || peer->receiving || !header->len) {
		ucx_refuse(u, peer,
			   z ? "it offered an invalid message"
			     : "this rank has no memory for its message");
		free(z);
		return;
	}
	z->peer = peer;
	z->len = header->len;
	z->from = peer->head.from;
	z->from.number = number;
	z->status = UCS_INPROGRESS;
	if (u->host->arrive(u->host, peer->rank, header, &z->sink)) {
		free(z);
		ucx_refuse(u, peer, "it sent an invalid message");
		return;
	}
	u->moved = 1;
	z->next = u->zrecv;
	u->zrecv = z;
}

static void ucx_zcopy_accept(struct ucx *u, struct ucx_zrecv *z)
{
	const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
					   .flags = UCP_AM_SEND_FLAG_EAGER};
	ucs_status_t status;

	z->accepted = 1;
	if (!ucx_connect(u, z->peer->rank, NULL)) {
		ucx_fail(u, z->peer, "UCX has no endpoint for it");
		return;
	}
	ucx_request_begin(ucx_lib.ucp_am_send_nbx(z->peer->ep, UCX_AM_ACCEPT, &z->from,
						  sizeof(z->from), NULL, 0, &param),
			  &z->accept_request, &status);
	if (UCS_STATUS_IS_ERR(status))
		ucx_fail(u, z->peer, "UCX could not send to it");
}

/* UCX can fetch the data of an accepted offer.  Returns the handler's result for UCX. */
ucs_status_t ucx_zcopy_data(struct ucx *u, struct ucx_peer *peer, uint32_t number, void *desc,
			    uint64_t len)
{
	ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE};
	struct ucx_zrecv *z = u->zrecv;
	void *target;

	while (z && (z->peer != peer || z->from.number != number || z->fetching))
		z = z->next;
	if (!z || z->len != len) {
		ucx_refuse(u, peer, "it sent data that it had not offered");
		return UCS_ERR_CANCELED;
	}
	z->fetching = 1;
	z->status = UCS_OK;
	if (z->dropped)
		return UCS_OK;
	if (!z->sink.buf)
		z->staging = u->host->alloc(u->host, len);
	target = z->sink.buf ? z->sink.buf : z->staging;
	if (!target) {
		ucx_refuse(u, peer, "this rank has no memory for its message");
		z->status = UCS_ERR_NO_MEMORY;
		return UCS_ERR_NO_MEMORY; /* UCX passes it to the sender */
	}
	param.memory_type = ucx_memory_type(z->sink.buf ? z->sink.memory : COLL_MEM_HOST);
	ucx_request_begin(ucx_lib.ucp_am_recv_data_nbx(u->worker, desc, target, len, &param),
			  &z->request, &z->status);
	return UCS_OK;
}

/* ------------------------------------------------------------------------ ending -- */

static int ucx_zsend_done(void *arg)
{
	struct ucx_zsend *z = arg;

	return z->accepted && ucx_request_done(&z->request, &z->status);
}

static int ucx_zrecv_done(void *arg)
{
	struct ucx_zrecv *z = arg;

	return ucx_request_done(&z->accept_request, NULL) && z->fetching &&
	       ucx_request_done(&z->request, &z->status);
}

static void ucx_zsend_end(struct ucx *u, struct ucx_zsend *z)
{
	struct ucx_peer *peer = z->peer;
	int good = z->accepted && z->status == UCS_OK;

	if (z->send)
		z->send->status = good ? COLL_SUCCESS : COLL_ERR_PEER_LOST;
	if (!good && !peer->failure) {
		snprintf(peer->text, sizeof(peer->text), "UCX could not send to it: %s",
			 ucx_lib.ucs_status_string(z->status));
		ucx_fail(u, peer, peer->text);
	}
	if (z->copy)
		u->host->free(u->host, z->copy, z->len);
	u->moved = 1;
	free(z);
}

static void ucx_zrecv_end(struct ucx *u, struct ucx_zrecv *z)
{
	const coll_host_t *host = u->host;
	int32_t status = z->status == UCS_OK ? COLL_SUCCESS : COLL_ERR_PEER_LOST;

	if (z->staging && !z->dropped && !status)
		ucx_hand_over(u, z->sink.cookie, z->staging, z->len);
	if (!z->dropped)
		host->arrived(host, z->sink.cookie, status);
	if (status)
		ucx_fail(u, z->peer, "UCX could not fetch from it");
	if (z->staging)
		host->free(host, z->staging, z->len);
	u->moved = 1;
	u->received += z->len;
	z->peer->last_seen = u->calls;
	free(z);
}

/*
 * After its connection was closed: does UCX still use the transfer?  Then the core gets its status now, and the
 * struct stays until UCX has completed it or the endpoint is freed.
 */
static int ucx_zsend_is_stuck(struct ucx_zsend *z)
{
	if (!z->request)
		return 0;
	if (z->send)
		z->send->status = COLL_ERR_PEER_LOST;
	z->send = NULL;
	return 1;
}

static int ucx_zrecv_is_stuck(struct ucx *u, struct ucx_zrecv *z)
{
	if (!z->request && !z->accept_request)
		return 0;
	if (!z->dropped)
		u->host->arrived(u->host, z->sink.cookie, COLL_ERR_PEER_LOST);
	z->dropped = z->fetching = 1;
	return 1;
}

/* Ends all complete transfers, and all transfers of `closed_peer`. */
static void ucx_zcopy_end(struct ucx *u, const struct ucx_peer *closed_peer)
{
	for (struct ucx_zsend **at = &u->zsend, *z; (z = *at);) {
		if (!ucx_zsend_done(z) && (z->peer != closed_peer || ucx_zsend_is_stuck(z))) {
			at = &z->next;
			continue;
		}
		*at = z->next;
		ucx_zsend_end(u, z);
	}
	for (struct ucx_zrecv **at = &u->zrecv, *z; (z = *at);) {
		if (!ucx_zrecv_done(z) && (z->peer != closed_peer || ucx_zrecv_is_stuck(u, z))) {
			at = &z->next;
			continue;
		}
		*at = z->next;
		ucx_zrecv_end(u, z);
	}
}

void ucx_zcopy_advance(struct ucx *u)
{
	CANCEL_OFF;
	for (struct ucx_zrecv *z = u->zrecv; z; z = z->next)
		if (!z->accepted)
			ucx_zcopy_accept(u, z);
	ucx_zcopy_end(u, NULL);
}

void ucx_zcopy_fail(struct ucx *u, const struct ucx_peer *peer)
{
	ucx_zcopy_end(u, peer);
}

int ucx_zcopy_pending(const struct ucx *u, const struct ucx_peer *peer)
{
	int pending = 0;

	for (struct ucx_zsend *z = u->zsend; z; z = z->next)
		pending |= z->peer == peer && !ucx_request_done(&z->request, &z->status);
	for (struct ucx_zrecv *z = u->zrecv; z; z = z->next)
		pending |= z->peer == peer && (!ucx_request_done(&z->request, &z->status) ||
					       !ucx_request_done(&z->accept_request, NULL));
	return pending;
}

int ucx_zcopy_sent(const struct ucx *u)
{
	for (struct ucx_zsend *z = u->zsend; z; z = z->next)
		if (!z->peer->failure && !z->peer->bye_received && !ucx_zsend_done(z))
			return 0;
	return 1;
}

/* -------------------------------------------------------------------- giving up -- */

/* Waits for a transfer that is given up; if it does not end soon, closes the connection. */
static void ucx_zcopy_end_or_close(struct ucx *u, struct ucx_peer *peer, int (*done)(void *),
				   void *z)
{
	if (ucx_await(u, done, z, UCX_RELEASE_MS))
		return;
	ucx_fail(u, peer, "a cancelled transfer with it did not end in time");
	ucx_force_close(u, peer);
}

/* Copies the payload of a cancelled send that the peer has not accepted yet: the copy is sent instead. */
static void ucx_zcopy_copy(struct ucx *u, struct ucx_zsend *z, const coll_send_t *send)
{
	z->copy = u->host->alloc(u->host, z->len);
	if (!z->copy || ucx_copy_payload(u, z->copy, send, 0, z->len))
		ucx_fail(u, z->peer, "this rank could not copy a cancelled message to it");
}

int ucx_zcopy_cancel(struct ucx *u, coll_send_t *send)
{
	CANCEL_OFF;
	struct ucx_zsend *z = u->zsend;

	while (z && z->send != send)
		z = z->next;
	if (!z)
		return 0;
	if (!z->accepted)
		ucx_zcopy_copy(u, z, send);
	else
		ucx_zcopy_end_or_close(u, z->peer, ucx_zsend_done, z);
	z->send = NULL;
	return 1;
}

int ucx_zcopy_drop(struct ucx *u, uint64_t cookie)
{
	struct ucx_zrecv *z = u->zrecv;

	while (z && (z->dropped || z->sink.cookie != cookie))
		z = z->next;
	if (!z)
		return 0;
	z->dropped = 1;
	if (z->fetching && !z->staging)
		ucx_zcopy_end_or_close(u, z->peer, ucx_zrecv_done, z);
	return 1;
}

void ucx_zcopy_free(struct ucx *u)
{
	struct ucx_zsend *s;
	struct ucx_zrecv *r;

	while ((s = u->zsend)) {
		u->zsend = s->next;
		if (s->copy)
			u->host->free(u->host, s->copy, s->len);
		free(s);
	}
	while ((r = u->zrecv)) {
		u->zrecv = r->next;
		if (r->staging)
			u->host->free(u->host, r->staging, r->len);
		free(r);
	}
}
