/* SPDX-License-Identifier: BSD-3-Clause */
/* ucx_peer.c - makes connections when they are first needed, gives up failed peers, closes all connections in the end. */
#include "ucx.h"

#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	UCX_FORCE_CLOSE_MS = 1000, /* longest wait for a forced close */
	UCX_LINGER_MS = 200,       /* longest wait at the close for the goodbyes of TCP peers */
	UCX_HANDSHAKE_MS = 5000,   /* longest wait for the hellos; later hellos do no harm */
	UCX_AWAIT_SPIN_MS = 2,     /* polls so long after data has moved, then sleeps in steps */
	UCX_AWAIT_PAUSE_US = 200
};

/* ------------------------------------------------------------------- connecting -- */

/* Returns the proof in the frames of rank `from` to rank `to`. */
static uint64_t ucx_proof(const struct ucx *u, uint32_t from, uint32_t to)
{
	const struct {
		char purpose[8];
		uint32_t from, to;
	} message = {"ucx", from, to};
	uint8_t mac[16];
	uint64_t proof;

	u->host->mac(u->host, &message, sizeof(message), mac);
	memcpy(&proof, mac, sizeof(proof));
	return proof;
}

struct ucx_peer *ucx_peer_get(struct ucx *u, uint32_t rank)
{
	struct ucx_peer *peer = &u->peer[rank];

	if (peer->described)
		return peer;
	peer->described = 1;
	peer->owner = u;
	peer->same_host = kit_shares(u->host, rank, COLL_SHARES_PIDS);
	peer->proof = ucx_proof(u, rank, u->rank);
	peer->head.from.rank = u->rank;
	peer->head.from.proof = ucx_proof(u, u->rank, rank);
	peer->frame = u->packed;
	peer->zcopy = u->zcopy ? u->zcopy : UINT64_MAX;
	return peer;
}

/* UCX calls this function when a connection is broken. */
static void ucx_on_error(void *arg, ucp_ep_h ep, ucs_status_t status)
{
	struct ucx_peer *peer = arg;

	(void)ep;
	peer->broken = 1;
	/* A rank in this process is a thread, and no kill ends a thread alone. */
	if (peer->same_host && !kit_shares(peer->owner->host, peer->rank, COLL_SHARES_PROCESS))
		ucx_gap_expect(peer->owner);
	if (peer->failure)
		return;
	snprintf(peer->text, sizeof(peer->text), "UCX: %s", ucx_lib.ucs_status_string(status));
	ucx_fail(peer->owner, peer, peer->text);
}

/* Has the user changed the segments of UCX's shared memory, by default 8256 bytes long? */
static int ucx_segments_set(void)
{
	return secure_getenv("UCX_MM_SEG_SIZE") || secure_getenv("UCX_POSIX_SEG_SIZE") ||
	       secure_getenv("UCX_SYSV_SEG_SIZE") || secure_getenv("UCX_XPMEM_SEG_SIZE");
}

/* Finds the transport of active messages in UCX's line "lane[0]: 3:tcp/eth0 ... am", and sets the frame size by it. */
static void ucx_learn_transport(struct ucx *u, struct ucx_peer *peer)
{
	char *text = NULL, *save = NULL, name[32] = "";
	size_t size = 0;
	FILE *stream = open_memstream(&text, &size);

	if (!stream)
		return;
	ucx_lib.ucp_ep_print_info(peer->ep, stream);
	fclose(stream);
	for (char *line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save)) {
		const char *lane = strstr(line, "lane[");

		if (lane && strstr(lane, " am") &&
		    sscanf(lane, "lane[%*d]: %*d:%31[^/ ]", name) == 1)
			break;
	}
	free(text);
	if (!strcmp(name, "posix") || !strcmp(name, "sysv") || !strcmp(name, "xpmem")) {
		u->shm = 1;
		if (!ucx_segments_set())
			peer->frame = UCX_SHM_FRAME;
	} else if (!strcmp(name, "tcp")) {
		u->sockets = 1;
		peer->frame = UCX_TCP_FRAME;
	} else {
		u->sockets = 1;
		peer->remote = 1;
		peer->zcopy = u->zcopy ? u->zcopy : UCX_RDMA_ZCOPY;
	}
	kit_log(u->host, COLL_LOG_DEBUG, "rank %u is reached by UCX's %s", peer->rank,
		name[0] ? name : "(unknown transport)");
}

static void ucx_connect_new(struct ucx *u, struct ucx_peer *peer, coll_error_t *err)
{
	CANCEL_OFF;
	const coll_host_t *before;
	const ucp_ep_params_t params = {
		.field_mask = UCP_EP_PARAM_FIELD_REMOTE_ADDRESS |
			      UCP_EP_PARAM_FIELD_ERR_HANDLING_MODE | UCP_EP_PARAM_FIELD_ERR_HANDLER,
		.address = (const ucp_address_t *)(u->addresses + peer->rank * u->address_size),
		.err_mode = UCP_ERR_HANDLING_MODE_PEER,
		.err_handler = {.cb = ucx_on_error, .arg = peer},
	};
	ucs_status_t status;
	char what[64];

	before = ucx_log_begin(u->host);
	status = ucx_lib.ucp_ep_create(u->worker, &params, &peer->ep);
	if (status == UCS_OK) {
		ucx_learn_transport(u, peer);
	} else {
		snprintf(what, sizeof(what), "UCX cannot reach rank %u", peer->rank);
		ucx_refused(err, status, what);
		peer->ep = NULL;
	}
	ucx_log_end(before);
}

struct ucx_peer *ucx_connect(struct ucx *u, uint32_t rank, coll_error_t *err)
{
	struct ucx_peer *peer = ucx_peer_get(u, rank);

	if (peer->ep || rank == u->rank)
		return peer;
	if (peer->lost || peer->failure) {
		error_fill(err, COLL_ERR_PEER_LOST, "the connection to rank %u has been lost: %s",
			   rank, peer->failure);
		return NULL;
	}
	ucx_connect_new(u, peer, err);
	return peer->ep ? peer : NULL;
}

static int ucx_meshes_with(const struct ucx *u, uint32_t rank)
{
	return u->nranks <= u->mesh || rank == (u->rank + 1) % u->nranks;
}

/* Is every hello of this rank sent and every hello to it received, or has a peer failed? */
static int ucx_all_shook_hands(void *arg)
{
	struct ucx *u = arg;
	int all = 1;

	ucx_poll_peers(u);
	if (u->failing)
		return 1;

	for (uint32_t i = 0; i < u->nranks; i++) {
		uint32_t back = (2 * u->rank + u->nranks - i) % u->nranks;

		if (i == u->rank || !ucx_meshes_with(u, i))
			continue;
		all &= ucx_frame_done(u, &u->peer[i]) && u->peer[back].seen;
	}
	return all;
}

int32_t ucx_handshake(struct ucx *u, coll_error_t *err)
{
	static const uint8_t nothing[UCX_HELLO];

	for (uint32_t k = 1; k < u->nranks; k++) {
		uint32_t rank = (u->rank + k) % u->nranks;
		struct ucx_peer *peer;
		void *request;

		if (!ucx_meshes_with(u, rank))
			continue;
		peer = ucx_connect(u, rank, err);
		if (!peer)
			return err ? err->code : COLL_ERR_SYSTEM;
		request = ucx_issue(u, peer, UCX_AM_HELLO, nothing, sizeof(nothing));
		peer->request = UCS_PTR_IS_PTR(request) ? request : NULL;
		ucx_enlist(u, peer);
	}
	/*
	 * An abort does not end this wait: UCX 1.13 ends the process if an endpoint is closed while UCX makes its
	 * connection (wireup_ep.c: pending_count == 0).
	 */
	ucx_await(u, ucx_all_shook_hands, u, UCX_HANDSHAKE_MS);
	ucx_probe_accepted(u);
	return COLL_SUCCESS;
}

void ucx_connect_back(struct ucx *u)
{
	u->connect_back = 0;
	for (uint32_t i = 0; i < u->nranks; i++) {
		struct ucx_peer *peer = &u->peer[i];

		if (peer->seen && !peer->ep && !peer->lost && !peer->failure)
			ucx_connect(u, i, NULL);
	}
}

/* ---------------------------------------------------------------------- failing -- */

int ucx_request_done(void **request, ucs_status_t *status)
{
	ucs_status_t now;

	if (!*request)
		return 1;
	now = ucx_lib.ucp_request_check_status(*request);
	if (status)
		*status = now;
	if (now == UCS_INPROGRESS)
		return 0;
	ucx_lib.ucp_request_free(*request);
	*request = NULL;
	return 1;
}

void ucx_fail(struct ucx *u, struct ucx_peer *peer, const char *why)
{
	if (peer->lost || peer->failure)
		return;
	peer->failure = why;
	peer->last_seen = u->calls;
	u->failing++;
}

void ucx_refuse(struct ucx *u, struct ucx_peer *peer, const char *why)
{
	peer->refused = 1;
	ucx_fail(u, peer, why);
}

/* Have all frames of a failed peer come?  The last frames may still be in UCX's queues. */
static int ucx_all_received(const struct ucx *u, const struct ucx_peer *peer)
{
	return peer->refused || (u->calls - peer->last_seen > UCX_QUIET_CALLS && !u->deferred &&
				 !ucx_gap_hides_frames(u));
}

int ucx_await(struct ucx *u, int (*done)(void *arg), void *arg, int64_t timeout_ms)
{
	int64_t now = clock_now_ms(), deadline = now + timeout_ms, moved = now;
	int inside = u->inside, outermost;

	/* Defer the frames that arrive meanwhile: the core may be in a call that must not be re-entered. */
	u->inside = 0;
	outermost = ucx_enter(u);
	for (; !done(arg) && now < deadline; now = clock_now_ms()) {
		ucx_reenter(u);
		if (u->gap)
			ucx_gap_advance(u);
		if (ucx_lib.ucp_worker_progress(u->worker))
			moved = now;
		else if (now < moved + UCX_AWAIT_SPIN_MS)
			sched_yield();
		else
			clock_nap(UCX_AWAIT_PAUSE_US);
	}
	ucx_leave(u, outermost);
	u->inside = inside;
	return done(arg);
}

static int ucx_is_closed(void *arg)
{
	struct ucx_peer *peer = arg;
	int closed = ucx_request_done(&peer->closing, NULL) & ucx_request_done(&peer->bye, NULL);

	return closed & ucx_frame_done(peer->owner, peer) && !ucx_zcopy_pending(peer->owner, peer);
}

/* Tells the peer that this rank closes.  If the goodbye is lost, the peer sees the connection break. */
static void ucx_send_bye(struct ucx_peer *peer)
{
	const ucp_request_param_t param = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
					   .flags = UCP_AM_SEND_FLAG_EAGER};
	void *answer;

	if (!peer->ep || peer->bye_sent || peer->broken)
		return;
	peer->bye_sent = 1;
	answer = ucx_lib.ucp_am_send_nbx(peer->ep, UCX_AM_BYE, &peer->head.from,
					 sizeof(peer->head.from), NULL, 0, &param);
	peer->bye = UCS_PTR_IS_PTR(answer) ? answer : NULL;
}

static void ucx_begin_close(struct ucx_peer *peer)
{
	const ucp_request_param_t force = {.op_attr_mask = UCP_OP_ATTR_FIELD_FLAGS,
					   .flags = UCP_EP_CLOSE_FLAG_FORCE};
	void *request;

	if (!peer->ep)
		return;
	ucx_send_bye(peer);
	request = ucx_lib.ucp_ep_close_nbx(peer->ep, &force);
	peer->ep = NULL;
	peer->closing = UCS_PTR_IS_PTR(request) ? request : NULL;
}

void ucx_force_close(struct ucx *u, struct ucx_peer *peer)
{
	CANCEL_OFF;
	int outermost = ucx_enter(u);

	peer->pending.bytes = NULL;
	ucx_begin_close(peer);
	if (!ucx_await(u, ucx_is_closed, peer, UCX_FORCE_CLOSE_MS))
		kit_log(u->host, COLL_LOG_ERROR,
			"UCX has not closed the connection to rank %u within %d ms: it may still "
			"use buffers that are being sent or received",
			peer->rank, UCX_FORCE_CLOSE_MS);
	ucx_leave(u, outermost);
}

/* Closes the connection to a failed peer, ends its messages and reports it to the core. */
static void ucx_lose(struct ucx *u, struct ucx_peer *peer)
{
	const char *why = peer->failure;

	u->failing--;
	u->moved = 1;
	peer->lost = 1;
	ucx_force_close(u, peer);
	ucx_unwatch(u, peer);
	if (peer->receiving && !peer->dropped)
		u->host->arrived(u->host, peer->sink.cookie, COLL_ERR_PEER_LOST);
	peer->receiving = 0;
	ucx_zcopy_fail(u, peer);
	ucx_fail_sends(u, peer, COLL_ERR_PEER_LOST);
	u->host->peer_lost(u->host, peer->rank, why);
}

/*
 * Reports peers that fail one after another together, so that the core names the first of these.  ucx_lose drives UCX.  A
 * peer that fails meanwhile may have sent frames that are deferred, and is given up later.
 */
void ucx_reap_failed(struct ucx *u)
{
	CANCEL_OFF;
	for (uint32_t i = 0; i < u->nranks; i++) {
		struct ucx_peer *peer = &u->peer[i];

		peer->ending = peer->failure && !peer->lost;
		if (peer->ending && !ucx_all_received(u, peer))
			return;
	}
	for (uint32_t i = 0; i < u->nranks; i++)
		if (u->peer[i].ending)
			ucx_lose(u, &u->peer[i]);
}

/* ---------------------------------------------------------------------- closing -- */

/* Are all messages sent, except to peers that have failed or said goodbye, and so read no more? */
static int ucx_all_sent(void *arg)
{
	struct ucx *u = arg;

	ucx_send_all(u);
	for (const struct ucx_peer *peer = u->busy; peer; peer = peer->next_busy)
		if (!peer->failure && !peer->bye_received)
			return 0;
	return ucx_zcopy_sent(u);
}

/*
 * Connects to all ranks of this host, with or without messages, so that each rank gets a goodbye: within a host
 * a connection is cheap.  Ranks on other hosts that wait for this rank have their timeout.
 */
static void ucx_connect_host(struct ucx *u)
{
	for (uint32_t i = 0; i < u->nranks; i++) {
		struct ucx_peer *peer = i == u->rank ? NULL : ucx_peer_get(u, i);

		if (peer && peer->same_host && !peer->lost && !peer->failure)
			ucx_connect(u, i, NULL);
	}
}

/*
 * Are all goodbyes sent, except to peers that have said goodbye?  Such a peer reads no more, so a goodbye to it may never
 * find space in its queue.  If the peer is a thread of this process, no end of a process shows that.
 */
static int ucx_all_byes_sent(void *arg)
{
	struct ucx *u = arg;
	int pending = 0;

	for (uint32_t i = 0; i < u->nranks; i++) {
		struct ucx_peer *peer = &u->peer[i];

		pending |=
			!ucx_request_done(&peer->bye, NULL) && !peer->bye_received && !peer->broken;
	}
	return !pending;
}

/*
 * Have all TCP peers said goodbye?  If a TCP connection is closed with unread data, the kernel drops the data that the peer
 * has not read.  The peer's goodbye is its last frame, and says that the peer has read everything.
 */
static int ucx_all_byes_received(void *arg)
{
	struct ucx *u = arg;

	for (uint32_t i = 0; i < u->nranks; i++) {
		const struct ucx_peer *peer = &u->peer[i];

		if (peer->ep && peer->bye_sent && peer->frame == UCX_TCP_FRAME &&
		    !peer->bye_received && !peer->broken)
			return 0;
	}
	return 1;
}

static int ucx_all_flushed(void *arg)
{
	struct ucx *u = arg;
	int pending = 0;

	for (uint32_t i = 0; i < u->nranks; i++)
		pending |= !ucx_request_done(&u->peer[i].flush, NULL);
	return !pending;
}

static int ucx_all_closed(void *arg)
{
	struct ucx *u = arg;
	int pending = 0;

	for (uint32_t i = 0; i < u->nranks; i++)
		pending |= u->peer[i].described && !ucx_is_closed(&u->peer[i]);
	return !pending;
}

/*
 * Flushes the transports other than shared memory and TCP.  Over these two, all data before an accepted goodbye is in the
 * peer's memory or in the kernel, and a flush would wait until the peer makes progress.
 */
static void ucx_flush(struct ucx *u, int64_t timeout_ms)
{
	const ucp_request_param_t none = {.op_attr_mask = 0};

	for (uint32_t i = 0; i < u->nranks; i++) {
		struct ucx_peer *peer = &u->peer[i];
		void *request = NULL;

		if (peer->ep && peer->remote)
			request = ucx_lib.ucp_ep_flush_nbx(peer->ep, &none);
		peer->flush = UCS_PTR_IS_PTR(request) ? request : NULL;
	}
	ucx_await(u, ucx_all_flushed, u, timeout_ms);
}

static int64_t ucx_least(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

void ucx_peers_close(struct ucx *u, int64_t timeout_ms)
{
	int64_t deadline = clock_now_ms() + timeout_ms;

	if (timeout_ms > 0)
		ucx_await(u, ucx_all_sent, u, timeout_ms);
	if (u->shm)
		ucx_connect_host(u);
	for (uint32_t i = 0; i < u->nranks; i++)
		ucx_send_bye(&u->peer[i]);
	ucx_await(u, ucx_all_byes_sent, u, timeout_ms > 0 ? deadline - clock_now_ms() : 1);
	if (timeout_ms > 0) {
		ucx_await(u, ucx_all_byes_received, u,
			  ucx_least(deadline - clock_now_ms(), UCX_LINGER_MS));
		ucx_flush(u, deadline - clock_now_ms());
	}
	for (uint32_t i = 0; i < u->nranks; i++) {
		u->peer[i].pending.bytes = NULL;
		ucx_begin_close(&u->peer[i]);
	}
	ucx_await(u, ucx_all_closed, u, UCX_FORCE_CLOSE_MS);
	ucx_all_flushed(u);
	for (uint32_t i = 0; i < u->nranks; i++) {
		send_rest_free(&u->peer[i].rest, u->host);
		ucx_unwatch(u, &u->peer[i]);
	}
}
