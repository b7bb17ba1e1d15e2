/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_zcopy.c - messages that go from memory to memory: UCX announces them and the receiver fetches
 * them (a rendezvous), over RDMA without a copy, and from and to a GPU.
 *
 * While one is under way UCX uses the caller's memory and cannot be told to stop.  Giving one up
 * therefore waits a moment for it, and if that does not help ends the connection, which does.
 */
#include "ucx.h"

#include <stdlib.h>
#include <string.h>

struct ucx_zsend {
	struct ucx_zsend *next;
	struct ucx_peer *peer;
	coll_send_t *send; /* NULL once cancelled */
	void *request;     /* NULL once complete */
	ucs_status_t status;
	struct ucx_first head;
};

struct ucx_zrecv {
	struct ucx_zrecv *next;
	struct ucx_peer *peer;
	coll_sink_t sink;
	int unwanted;
	void *request; /* NULL once complete */
	ucs_status_t status;
	uint8_t *staging; /* of the host's, if the core wants the data handed to it */
	uint64_t len;
};

static ucs_memory_type_t ucx_memory_type(uint32_t memory)
{
	return memory == COLL_MEM_CUDA           ? UCS_MEMORY_TYPE_CUDA
	       : memory == COLL_MEM_CUDA_MANAGED ? UCS_MEMORY_TYPE_CUDA_MANAGED
						 : UCS_MEMORY_TYPE_HOST;
}

/* Looks at a request, which is freed once it is complete. */
static int ucx_request_done(void **request, ucs_status_t *status)
{
	if (!*request)
		return 1;
	*status = ucx_lib.ucp_request_check_status(*request);
	if (*status == UCS_INPROGRESS)
		return 0;
	ucx_lib.ucp_request_free(*request);
	*request = NULL;
	return 1;
}

/* What a call that starts something has answered. */
static void ucx_request_begin(void *answer, void **request, ucs_status_t *status)
{
	*request = UCS_PTR_IS_PTR(answer) ? answer : NULL;
	*status = UCS_PTR_IS_PTR(answer) ? UCS_INPROGRESS : UCS_PTR_STATUS(answer);
}

/* -------------------------------------------------------------------- beginning -- */

void ucx_zcopy_send(struct ucx *u, struct ucx_peer *peer, coll_send_t *send)
{
	struct ucx_zsend *z = calloc(1, sizeof(*z));
	const ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FIELD_MEMORY_TYPE |
				UCP_OP_ATTR_FLAG_MULTI_SEND,
		.flags = UCP_AM_SEND_FLAG_RNDV,
		.memory_type = ucx_memory_type(send->memory),
	};

	if (!z) {
		send->status = COLL_ERR_NO_MEMORY;
		return;
	}
	z->peer = peer;
	z->send = send;
	z->head.from = peer->head.from;
	z->head.header = send->header;
	ucx_request_begin(ucx_lib.ucp_am_send_nbx(peer->ep, UCX_AM_FIRST, &z->head, sizeof(z->head),
						  send->buf, send->header.len, &param),
			  &z->request, &z->status);
	z->next = u->zsend;
	u->zsend = z;
}

/* Where the data is to be fetched to; NULL: no memory. */
static void *ucx_zcopy_target(struct ucx *u, struct ucx_zrecv *z)
{
	if (!z->sink.buf)
		z->staging = u->host->alloc(u->host, z->len);
	return z->sink.buf ? z->sink.buf : z->staging;
}

static ucs_status_t ucx_zcopy_fetch(struct ucx *u, struct ucx_zrecv *z, void *desc)
{
	ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_MEMORY_TYPE};
	void *target = ucx_zcopy_target(u, z);

	param.memory_type = ucx_memory_type(z->sink.buf ? z->sink.memory : COLL_MEM_HOST);
	if (!target) {
		z->status = UCS_ERR_NO_MEMORY;
		return UCS_ERR_NO_MEMORY;
	}
	ucx_request_begin(ucx_lib.ucp_am_recv_data_nbx(u->worker, desc, target, z->len, &param),
			  &z->request, &z->status);
	return UCS_OK;
}

ucs_status_t ucx_zcopy_arrive(struct ucx *u, struct ucx_peer *peer, const coll_header_t *header,
			      void *desc, uint64_t len)
{
	struct ucx_zrecv *z = calloc(1, sizeof(*z));

	if (!z || peer->receiving || header->len != len) {
		free(z);
		ucx_fail(u, peer,
			 z ? "it announced a message that cannot be"
			   : "no memory for what it sent");
		return UCS_ERR_CANCELED;
	}
	z->peer = peer;
	z->len = len;
	if (u->host->arrive(u->host, peer->rank, header, &z->sink)) {
		free(z);
		ucx_fail(u, peer, "it sent a message that cannot be");
		return UCS_ERR_CANCELED;
	}
	u->moved = 1;
	z->next = u->zrecv;
	u->zrecv = z;
	return ucx_zcopy_fetch(u, z, desc);
}

/* ------------------------------------------------------------------------ ending -- */

static void ucx_zsend_end(struct ucx *u, struct ucx_zsend *z)
{
	if (z->send)
		z->send->status = z->status == UCS_OK ? COLL_SUCCESS : COLL_ERR_PEER_LOST;
	if (z->status != UCS_OK)
		ucx_fail(u, z->peer, "UCX could not send to it");
	u->moved = 1;
	free(z);
}

static void ucx_zrecv_end(struct ucx *u, struct ucx_zrecv *z)
{
	const coll_host_t *host = u->host;
	int32_t status = z->status == UCS_OK ? COLL_SUCCESS : COLL_ERR_PEER_LOST;

	for (uint64_t at = 0, n; z->staging && !z->unwanted && !status && at < z->len; at += n) {
		n = z->len - at < UCX_DATA ? z->len - at : UCX_DATA;
		host->data(host, z->sink.cookie, z->staging + at, n);
	}
	if (!z->unwanted)
		host->arrived(host, z->sink.cookie, status);
	if (status)
		ucx_fail(u, z->peer, "UCX could not fetch from it");
	if (z->staging)
		host->free(host, z->staging, z->len);
	u->moved = 1;
	u->received += z->len;
	z->peer->heard = u->turn;
	free(z);
}

/* Ends what is complete, and what belongs to the peer `gone` complete or not. */
static void ucx_zcopy_end(struct ucx *u, const struct ucx_peer *gone)
{
	for (struct ucx_zsend **at = &u->zsend, *z; (z = *at);) {
		if (!ucx_request_done(&z->request, &z->status) && z->peer != gone) {
			at = &z->next;
			continue;
		}
		*at = z->next;
		ucx_zsend_end(u, z);
	}
	for (struct ucx_zrecv **at = &u->zrecv, *z; (z = *at);) {
		if (!ucx_request_done(&z->request, &z->status) && z->peer != gone) {
			at = &z->next;
			continue;
		}
		*at = z->next;
		ucx_zrecv_end(u, z);
	}
}

void ucx_zcopy_settle(struct ucx *u)
{
	ucx_zcopy_end(u, NULL);
}

void ucx_zcopy_fail(struct ucx *u, const struct ucx_peer *peer)
{
	ucx_zcopy_end(u, peer);
}

int ucx_zcopy_pending(const struct ucx *u, const struct ucx_peer *peer)
{
	for (struct ucx_zsend *z = u->zsend; z; z = z->next)
		if (z->peer == peer && !ucx_request_done(&z->request, &z->status))
			return 1;
	for (struct ucx_zrecv *z = u->zrecv; z; z = z->next)
		if (z->peer == peer && !ucx_request_done(&z->request, &z->status))
			return 1;
	return 0;
}

/* ------------------------------------------------------------------- giving up -- */

static int ucx_zsend_done(void *arg)
{
	struct ucx_zsend *z = arg;

	return ucx_request_done(&z->request, &z->status);
}

static int ucx_zrecv_done(void *arg)
{
	struct ucx_zrecv *z = arg;

	return ucx_request_done(&z->request, &z->status);
}

static void ucx_zcopy_let_go(struct ucx *u, struct ucx_peer *peer, int (*done)(void *), void *z)
{
	if (ucx_await(u, done, z, UCX_PATIENCE_MS))
		return;
	ucx_fail(u, peer, "it did not take part in a transfer that was given up");
	ucx_cut(u, peer);
}

int ucx_zcopy_cancel(struct ucx *u, coll_send_t *send)
{
	struct ucx_zsend *z = u->zsend;

	while (z && z->send != send)
		z = z->next;
	if (!z)
		return 0;
	z->send = NULL;
	ucx_zcopy_let_go(u, z->peer, ucx_zsend_done, z);
	return 1;
}

int ucx_zcopy_drop(struct ucx *u, uint64_t cookie)
{
	struct ucx_zrecv *z = u->zrecv;

	while (z && (z->unwanted || z->sink.cookie != cookie))
		z = z->next;
	if (!z)
		return 0;
	z->unwanted = 1;
	if (!z->staging)
		ucx_zcopy_let_go(u, z->peer, ucx_zrecv_done, z);
	return 1;
}

void ucx_zcopy_free(struct ucx *u)
{
	struct ucx_zsend *s;
	struct ucx_zrecv *r;

	while ((s = u->zsend)) {
		u->zsend = s->next;
		free(s);
	}
	while ((r = u->zrecv)) {
		u->zrecv = r->next;
		if (r->staging)
			u->host->free(u->host, r->staging, r->len);
		free(r);
	}
}
