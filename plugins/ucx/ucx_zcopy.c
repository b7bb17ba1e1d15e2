/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_zcopy.c - messages without frames, which UCX moves from memory to memory: over RDMA without a copy, and
 * from and to a GPU.  The sender offers a message.  Once the receiver has accepted the offer, UCX's rendezvous
 * moves the message.
 *
 * A message that is cancelled before the receiver accepts it is copied, and sent from the copy.  During the
 * rendezvous UCX uses the caller's memory, and no call stops it.  A cancel then waits a moment for the rendezvous
 * to end, and after that closes the connection, which ends the rendezvous.
 */
#include "ucx.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A transfer is in one list: `offered` or `awaited` of its peer, or `unanswered`, `sending` or `fetching` of the endpoint. */
struct ucx_transfer {
	struct ucx_transfer *next, *prev;
	struct ucx_transfers *list;
	struct ucx_peer *peer;
	/* The header of DATA or ACCEPT.  `number` is the number of the offer, this rank's or the peer's. */
	struct ucx_sender from;
	uint64_t len;
	void *request; /* NULL once complete */
	ucs_status_t status;
	void *registration; /* of ucx_zcopy_register, or NULL */

	coll_send_t *send; /* NULL once cancelled */
	uint8_t *copy;     /* copy of a cancelled send's payload, or NULL */

	int receives; /* 1: a receive, with the members below; 0: a send, with the two above */
	coll_sink_t sink;
	int dropped;
	void *accept_request; /* request of the ACCEPT; NULL once complete */
	uint8_t *staging;     /* memory for the payload if the receive has no buffer */
};

/* Incomplete transfers that a call of ucx_zcopy_advance looks at.  The next call looks at the next transfers. */
enum { UCX_LOOKS = 64 };

/* ------------------------------------------------------------------------ lists -- */

static void ucx_unlist(struct ucx_transfer *z)
{
	struct ucx_transfers *list = z->list;

	*(z->prev ? &z->prev->next : &list->first) = z->next;
	*(z->next ? &z->next->prev : &list->last) = z->prev;
	list->count--;
}

/* Moves the transfer to the end of a list. */
static void ucx_list(struct ucx_transfer *z, struct ucx_transfers *list)
{
	if (z->list)
		ucx_unlist(z);
	z->list = list;
	z->next = NULL;
	z->prev = list->last;
	*(list->last ? &list->last->next : &list->first) = z;
	list->last = z;
	list->count++;
}

static struct ucx_transfer *ucx_transfer_new(struct ucx *u, struct ucx_peer *peer, uint64_t len,
					     uint32_t number)
{
	struct ucx_transfer *z = calloc(1, sizeof(*z));

	if (!z)
		return NULL;
	z->peer = peer;
	z->len = len;
	z->from = peer->head.from;
	z->from.number = number;
	z->status = UCS_INPROGRESS;
	u->transfers++;
	return z;
}

/* ------------------------------------------------------------------ registrations -- */

/* Registers the memory with UCX, which keeps it in its cache of registrations. */
int32_t ucx_mem_register(void *ep, void *ptr, uint64_t bytes, uint32_t memory, void **handle,
			 coll_error_t *err)
{
	const coll_host_t *before;
	struct ucx *u = ep;
	ucp_mem_map_params_t params = {
		.field_mask = UCP_MEM_MAP_PARAM_FIELD_ADDRESS | UCP_MEM_MAP_PARAM_FIELD_LENGTH |
			      UCP_MEM_MAP_PARAM_FIELD_MEMORY_TYPE,
		.address = ptr,
		.length = bytes,
		.memory_type = ucx_memory_type(memory),
	};
	ucp_mem_h memh;
	ucs_status_t status;

	before = ucx_log_begin(u->host);
	status = ucx_lib.ucp_mem_map(u->context, &params, &memh);
	ucx_log_end(before);
	if (status != UCS_OK)
		return ucx_refused(err, status, "cannot register memory");
	*handle = memh;
	return COLL_SUCCESS;
}

void ucx_mem_deregister(void *ep, void *handle)
{
	struct ucx *u = ep;

	ucx_lib.ucp_mem_unmap(u->context, handle);
}

static void ucx_zcopy_deregister(struct ucx *u, struct ucx_transfer *z)
{
	if (z->registration)
		ucx_mem_deregister(u, z->registration);
	z->registration = NULL;
}

/*
 * Says in param which memory the rendezvous uses, and registers the memory where UCX does not
 * (ucx_lacks_registrations).  Without a registration UCX moves the message all the same.
 */
static void ucx_zcopy_register(struct ucx *u, struct ucx_transfer *z, void *buf, uint32_t memory,
			       ucp_request_param_t *param)
{
	coll_error_t ignored = {.size = sizeof(ignored)};

	param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMORY_TYPE;
	param->memory_type = ucx_memory_type(memory);
	if (!u->registers || ucx_mem_register(u, buf, z->len, memory, &z->registration, &ignored))
		return;
	param->op_attr_mask |= UCP_OP_ATTR_FIELD_MEMH;
	param->memh = z->registration;
}

/* ---------------------------------------------------------------------- transfers -- */

static void ucx_transfer_free(struct ucx *u, struct ucx_transfer *z)
{
	uint8_t *memory = z->receives ? z->staging : z->copy;

	ucx_zcopy_deregister(u, z);
	if (z->list)
		ucx_unlist(z);
	if (memory)
		u->host->free(u->host, memory, z->len);
	u->transfers--;
	free(z);
}

/* Finds a transfer by its number.  Peers accept offers, and their data come, mostly in the order of the offers. */
static struct ucx_transfer *ucx_find_number(const struct ucx_transfers *list, uint32_t number)
{
	struct ucx_transfer *z = list->first;

	while (z && z->from.number != number)
		z = z->next;
	return z;
}

/* Calls visit for all transfers of the peer.  visit may end the transfer. */
static void ucx_each_of(struct ucx *u, struct ucx_peer *peer,
			void (*visit)(struct ucx *u, struct ucx_transfer *z, void *arg), void *arg)
{
	struct ucx_transfers *lists[] = {&peer->offered, &peer->awaited, &u->unanswered,
					 &u->sending, &u->fetching};
	struct ucx_transfer *next;

	for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
		for (struct ucx_transfer *z = lists[i]->first; z; z = next) {
			next = z->next;
			if (z->peer == peer)
				visit(u, z, arg);
		}
}

/* Splits the result of a UCX call that starts a transfer into request and status. */
static void ucx_request_begin(void *answer, void **request, ucs_status_t *status)
{
	*request = UCS_PTR_IS_PTR(answer) ? answer : NULL;
	*status = UCS_PTR_IS_PTR(answer) ? UCS_INPROGRESS : UCS_PTR_STATUS(answer);
}

/* ---------------------------------------------------------------------- sending -- */

int ucx_zcopy_offer(struct ucx *u, struct ucx_peer *peer, coll_send_t *send)
{
	struct ucx_transfer *z = ucx_transfer_new(u, peer, send->header.len, peer->offers);

	if (!z)
		return COLL_ERR_NO_MEMORY;
	z->send = send;
	send->plugin[UCX_SEND_TRANSFER] = (uintptr_t)z;
	peer->head.from.number = peer->offers++;
	ucx_list(z, &peer->offered);
	return COLL_SUCCESS;
}

/* Starts the rendezvous, since the receiver has accepted an offer. */
void ucx_zcopy_accepted(struct ucx *u, struct ucx_peer *peer, uint32_t number)
{
	ucp_request_param_t param = {
		.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS | UCP_OP_ATTR_FLAG_MULTI_SEND,
		.flags = UCP_AM_SEND_FLAG_RNDV,
	};
	struct ucx_transfer *z = ucx_find_number(&peer->offered, number);
	void *buf;

	if (peer->failure)
		return; /* this rank may have given up its offers */
	if (!z || !peer->ep) {
		ucx_refuse(u, peer, "it accepted a message that this rank had not offered");
		return;
	}
	ucx_list(z, &u->sending);
	buf = z->copy ? z->copy : (void *)(uintptr_t)z->send->buf;
	ucx_zcopy_register(u, z, buf, z->copy ? COLL_MEM_HOST : z->send->memory, &param);
	ucx_request_begin(ucx_lib.ucp_am_send_nbx(peer->ep, UCX_AM_DATA, &z->from, sizeof(z->from),
						  buf, z->len, &param),
			  &z->request, &z->status);
}

/* -------------------------------------------------------------------- receiving -- */

void ucx_zcopy_offered(struct ucx *u, struct ucx_peer *peer, uint32_t number,
		       const coll_header_t *header)
{
	struct ucx_transfer *z = ucx_transfer_new(u, peer, header->len, number);

	if (!z || peer->receiving || !header->len) {
		ucx_refuse(u, peer,
			   z ? "it offered an invalid message"
			     : "this rank has no memory for its message");
		if (z)
			ucx_transfer_free(u, z);
		return;
	}
	z->receives = 1;
	if (u->host->arrive(u->host, peer->rank, header, &z->sink)) {
		ucx_transfer_free(u, z);
		ucx_refuse(u, peer, "it sent an invalid message");
		return;
	}
	u->moved = 1;
	ucx_list(z, &u->unanswered);
}

static void ucx_zcopy_accept(struct ucx *u, struct ucx_transfer *z)
{
	const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
					   .flags = UCP_AM_SEND_FLAG_EAGER};
	ucs_status_t status;

	ucx_list(z, &z->peer->awaited);
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

/* Fetches the data of an accepted offer.  Returns the handler's result for UCX. */
ucs_status_t ucx_zcopy_data(struct ucx *u, struct ucx_peer *peer, uint32_t number, void *desc,
			    uint64_t len)
{
	ucp_request_param_t param = {.op_attr_mask = 0};
	struct ucx_transfer *z = ucx_find_number(&peer->awaited, number);
	void *target;

	if (!z || z->len != len) {
		ucx_refuse(u, peer, "it sent data that it had not offered");
		return UCS_ERR_CANCELED;
	}
	ucx_list(z, &u->fetching);
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
	ucx_zcopy_register(u, z, target, z->sink.buf ? z->sink.memory : COLL_MEM_HOST, &param);
	ucx_request_begin(ucx_lib.ucp_am_recv_data_nbx(u->worker, desc, target, len, &param),
			  &z->request, &z->status);
	return UCS_OK;
}

/* ------------------------------------------------------------------------ ending -- */

/* Is a transfer in u->sending or u->fetching complete? */
static int ucx_transfer_done(struct ucx_transfer *z)
{
	return ucx_request_done(&z->accept_request, NULL) &&
	       ucx_request_done(&z->request, &z->status);
}

static int ucx_send_done(void *arg)
{
	struct ucx_transfer *z = arg;

	return z->list != &z->peer->offered && ucx_transfer_done(z);
}

static int ucx_fetch_done(void *arg)
{
	return ucx_transfer_done(arg);
}

static void ucx_send_end(struct ucx *u, struct ucx_transfer *z)
{
	struct ucx_peer *peer = z->peer;
	int good = z->list == &u->sending && z->status == UCS_OK;

	if (z->send)
		z->send->status = good ? COLL_SUCCESS : COLL_ERR_PEER_LOST;
	if (!good && !peer->failure) {
		snprintf(peer->text, sizeof(peer->text), "UCX could not send to it: %s",
			 ucx_lib.ucs_status_string(z->status));
		ucx_fail(u, peer, peer->text);
	}
}

static void ucx_receive_end(struct ucx *u, struct ucx_transfer *z)
{
	const coll_host_t *host = u->host;
	int32_t status = z->status == UCS_OK ? COLL_SUCCESS : COLL_ERR_PEER_LOST;

	if (z->staging && !z->dropped && !status)
		ucx_hand_over(u, z->sink.cookie, z->staging, z->len);
	if (!z->dropped)
		host->arrived(host, z->sink.cookie, status);
	if (status)
		ucx_fail(u, z->peer, "UCX could not fetch from it");
	u->received += z->len;
	z->peer->last_seen = u->calls;
}

static void ucx_transfer_end(struct ucx *u, struct ucx_transfer *z)
{
	ucx_zcopy_deregister(u, z);
	if (z->receives)
		ucx_receive_end(u, z);
	else
		ucx_send_end(u, z);
	u->moved = 1;
	ucx_transfer_free(u, z);
}

/*
 * Does UCX still use the transfer after its connection was closed?  Then the core gets the status now, and the struct stays
 * until UCX has completed the transfer or the endpoint is freed.
 */
static int ucx_is_stuck(struct ucx *u, struct ucx_transfer *z)
{
	if (!z->request && !z->accept_request)
		return 0;
	if (z->send)
		z->send->status = COLL_ERR_PEER_LOST;
	if (z->receives && !z->dropped)
		u->host->arrived(u->host, z->sink.cookie, COLL_ERR_PEER_LOST);
	z->send = NULL;
	z->dropped = 1;
	if (z->receives && z->list != &u->fetching)
		ucx_list(z, &u->fetching);
	return 1;
}

static void ucx_transfer_fail(struct ucx *u, struct ucx_transfer *z, void *arg)
{
	const int moves = z->list == &u->sending || z->list == &u->fetching;

	(void)arg;
	if ((moves && ucx_transfer_done(z)) || !ucx_is_stuck(u, z))
		ucx_transfer_end(u, z);
}

void ucx_zcopy_fail(struct ucx *u, struct ucx_peer *peer)
{
	ucx_each_of(u, peer, ucx_transfer_fail, NULL);
}

static void ucx_zcopy_end(struct ucx *u, struct ucx_transfers *list)
{
	int looks = UCX_LOOKS;

	for (int n = list->count; n > 0 && looks; n--) {
		struct ucx_transfer *z = list->first;

		if (ucx_transfer_done(z)) {
			ucx_transfer_end(u, z);
			continue;
		}
		ucx_list(z, list);
		looks--;
	}
}

void ucx_zcopy_advance(struct ucx *u)
{
	CANCEL_OFF;
	while (u->unanswered.first)
		ucx_zcopy_accept(u, u->unanswered.first);
	ucx_zcopy_end(u, &u->sending);
	ucx_zcopy_end(u, &u->fetching);
}

static void ucx_transfer_pending(struct ucx *u, struct ucx_transfer *z, void *arg)
{
	int *pending = arg;

	(void)u;
	*pending |= !ucx_request_done(&z->request, &z->status) ||
		    !ucx_request_done(&z->accept_request, NULL);
}

int ucx_zcopy_pending(struct ucx *u, struct ucx_peer *peer)
{
	int pending = 0;

	ucx_each_of(u, peer, ucx_transfer_pending, &pending);
	return pending;
}

static int ucx_all_sent_of(const struct ucx_transfers *list)
{
	for (struct ucx_transfer *z = list->first; z; z = z->next)
		if (!z->peer->failure && !z->peer->bye_received && !ucx_send_done(z))
			return 0;
	return 1;
}

int ucx_zcopy_sent(const struct ucx *u)
{
	for (uint32_t i = 0; u->transfers && i < u->nranks; i++)
		if (!ucx_all_sent_of(&u->peer[i].offered))
			return 0;
	return ucx_all_sent_of(&u->sending);
}

/* -------------------------------------------------------------------- giving up -- */

/* Waits for a transfer that was given up.  If it does not end soon, closes the connection. */
static void ucx_zcopy_end_or_close(struct ucx *u, struct ucx_peer *peer, int (*done)(void *),
				   void *z)
{
	if (ucx_await(u, done, z, UCX_RELEASE_MS))
		return;
	ucx_fail(u, peer, "a cancelled transfer with it did not end in time");
	ucx_force_close(u, peer);
}

/* Copies the payload of a cancelled send that the peer has not accepted.  The copy is sent instead. */
static void ucx_zcopy_copy(struct ucx *u, struct ucx_transfer *z, const coll_send_t *send)
{
	z->copy = u->host->alloc(u->host, z->len);
	if (!z->copy || ucx_copy_payload(u, z->copy, send, 0, z->len))
		ucx_fail(u, z->peer, "this rank could not copy a cancelled message to it");
}

int ucx_zcopy_cancel(struct ucx *u, coll_send_t *send)
{
	CANCEL_OFF;
	struct ucx_transfer *z = (struct ucx_transfer *)(uintptr_t)send->plugin[UCX_SEND_TRANSFER];

	if (!z)
		return 0;
	if (z->list == &z->peer->offered)
		ucx_zcopy_copy(u, z, send);
	else
		ucx_zcopy_end_or_close(u, z->peer, ucx_send_done, z);
	z->send = NULL;
	return 1;
}

static struct ucx_transfer *ucx_find_cookie(const struct ucx_transfers *list, uint64_t cookie)
{
	struct ucx_transfer *z = list->first;

	while (z && (z->dropped || z->sink.cookie != cookie))
		z = z->next;
	return z;
}

int ucx_zcopy_drop(struct ucx *u, uint64_t cookie)
{
	CANCEL_OFF;
	struct ucx_transfer *z = ucx_find_cookie(&u->fetching, cookie);

	if (!z)
		z = ucx_find_cookie(&u->unanswered, cookie);
	for (uint32_t i = 0; u->transfers && !z && i < u->nranks; i++)
		z = ucx_find_cookie(&u->peer[i].awaited, cookie);
	if (!z)
		return 0;
	z->dropped = 1;
	if (z->list == &u->fetching && !z->staging)
		ucx_zcopy_end_or_close(u, z->peer, ucx_fetch_done, z);
	return 1;
}

static void ucx_free_list(struct ucx *u, struct ucx_transfers *list)
{
	while (list->first)
		ucx_transfer_free(u, list->first);
}

void ucx_zcopy_free(struct ucx *u)
{
	for (uint32_t i = 0; u->peer && i < u->nranks; i++) {
		ucx_free_list(u, &u->peer[i].offered);
		ucx_free_list(u, &u->peer[i].awaited);
	}
	ucx_free_list(u, &u->unanswered);
	ucx_free_list(u, &u->sending);
	ucx_free_list(u, &u->fetching);
}
