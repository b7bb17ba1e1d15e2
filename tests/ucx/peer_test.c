/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * peer_test.c - what the ucx plugin does, without UCX, with peers that fail: it reports a peer after the peer's last
 * frame, and names the reason for a message that does not come.
 */
#include "../lib/tap.h"
#include "ucx.h"

enum { RANKS = 3, OWN = 0, FIRST = 1, SECOND = 2, LENGTH = 4096 };

static uint8_t addresses[RANKS], payload[LENGTH];
static struct ucx_peer peers[RANKS];
static ucp_err_handler_t on_error[RANKS];
static ucp_am_recv_callback_t on_frame;
static void *frame_arg[UCX_AM_END];
static int closing;               /* the request of a forced close; 0: complete */
static void (*when_driven)(void); /* ucp_worker_progress calls this once */
static ucs_status_t data_status;  /* with which UCX answers a DATA frame */
static ucs_status_t map_status;   /* with which UCX answers a registration */
static int registered;            /* registrations of the payload */
static void *sent_with; /* the registration with which the last DATA frame went, or NULL */
static char told[256];  /* what the core was told */

/* ------------------------------------------------------------------------------- UCX -- */

static ucs_status_t set_handler(ucp_worker_h worker, const ucp_am_handler_param_t *param)
{
	(void)worker;
	on_frame = param->cb;
	frame_arg[param->id] = param->arg;
	return UCS_OK;
}

static ucs_status_t ep_create(ucp_worker_h worker, const ucp_ep_params_t *params, ucp_ep_h *ep)
{
	const struct ucx_peer *peer = params->err_handler.arg;

	(void)worker;
	on_error[peer->rank] = params->err_handler;
	*ep = (ucp_ep_h)(uintptr_t)peer;
	return UCS_OK;
}

static void ep_print(const ucp_ep_h ep, FILE *stream)
{
	(void)ep;
	fputs("lane[0]: 0:posix/memory am\n", stream);
}

static ucs_status_ptr_t ep_close(ucp_ep_h ep, const ucp_request_param_t *param)
{
	(void)ep;
	(void)param;
	closing = 1;
	return &closing;
}

static ucs_status_ptr_t am_send(ucp_ep_h ep, unsigned id, const void *header, size_t header_length,
				const void *buffer, size_t count, const ucp_request_param_t *param)
{
	(void)ep;
	(void)header;
	(void)header_length;
	(void)buffer;
	(void)count;
	if (id != UCX_AM_DATA)
		return NULL;
	sent_with = param->op_attr_mask & UCP_OP_ATTR_FIELD_MEMH ? param->memh : NULL;
	return UCS_STATUS_PTR(data_status);
}

static ucs_status_t mem_map(ucp_context_h context, const ucp_mem_map_params_t *params,
			    ucp_mem_h *memh)
{
	(void)context;
	if (map_status != UCS_OK)
		return map_status;
	registered++;
	*memh = params->address;
	return UCS_OK;
}

static ucs_status_t mem_unmap(ucp_context_h context, ucp_mem_h memh)
{
	(void)context;
	registered -= memh == (ucp_mem_h)payload;
	return UCS_OK;
}

static unsigned worker_progress(ucp_worker_h worker)
{
	void (*hook)(void) = when_driven;

	(void)worker;
	when_driven = NULL;
	closing = 0;
	if (hook)
		hook();
	return 1;
}

static ucs_status_t request_status(void *request)
{
	return *(int *)request ? UCS_INPROGRESS : UCS_OK;
}

static void request_free(void *request)
{
	(void)request;
}

static const char *status_string(ucs_status_t status)
{
	return status == UCS_ERR_NO_MEMORY ? "out of memory" : "an error";
}

struct ucx_lib ucx_lib = {
	.ucp_am_send_nbx = am_send,
	.ucp_ep_close_nbx = ep_close,
	.ucp_ep_create = ep_create,
	.ucp_ep_print_info = ep_print,
	.ucp_mem_map = mem_map,
	.ucp_mem_unmap = mem_unmap,
	.ucp_request_check_status = request_status,
	.ucp_request_free = request_free,
	.ucp_worker_progress = worker_progress,
	.ucp_worker_set_am_recv_handler = set_handler,
	.ucs_status_string = status_string,
};

/* ------------------------------------------------------------- the plugin's other files -- */

void ucx_gap_expect(struct ucx *u)
{
	(void)u;
}

void ucx_gap_advance(struct ucx *u)
{
	(void)u;
}

int ucx_gap_hides_frames(const struct ucx *u)
{
	(void)u;
	return 0;
}

void ucx_poll_peers(struct ucx *u)
{
	(void)u;
}

void ucx_unwatch(struct ucx *u, struct ucx_peer *peer)
{
	(void)u;
	(void)peer;
}

void ucx_probe_accepted(struct ucx *u)
{
	(void)u;
}

const coll_host_t *ucx_log_begin(const coll_host_t *host)
{
	(void)host;
	return NULL;
}

void ucx_log_end(const coll_host_t *before)
{
	(void)before;
}

int32_t ucx_refused(coll_error_t *err, ucs_status_t status, const char *what)
{
	(void)err;
	(void)status;
	diag("refused: %s", what);
	return COLL_ERR_SYSTEM;
}

ucs_memory_type_t ucx_memory_type(uint32_t memory)
{
	(void)memory;
	return UCS_MEMORY_TYPE_HOST;
}

/* --------------------------------------------------------------------------- the core -- */

static void tell(const char *fmt, unsigned rank, const char *text)
{
	size_t n = strlen(told);

	snprintf(told + n, sizeof(told) - n, fmt, rank, text);
}

static void host_log(const coll_host_t *host, int32_t level, const char *text)
{
	(void)host;
	diag("level %d: %s", level, text);
}

static void host_mac(const coll_host_t *host, const void *data, uint64_t len, uint8_t out[16])
{
	(void)host;
	(void)data;
	(void)len;
	memset(out, 0, 16);
}

static int32_t host_aborted(const coll_host_t *host)
{
	(void)host;
	return 0;
}

static void *host_alloc(const coll_host_t *host, uint64_t bytes)
{
	(void)host;
	(void)bytes;
	return NULL;
}

/* The core wants all payload by host->data. */
static int32_t host_arrive(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			   coll_sink_t *sink)
{
	(void)host;
	(void)header;
	tell("message of %u%s; ", peer, "");
	sink->memory = COLL_MEM_HOST;
	return COLL_SUCCESS;
}

static void host_data(const coll_host_t *host, uint64_t cookie, const void *bytes, uint64_t n)
{
	(void)host;
	(void)cookie;
	(void)bytes;
	(void)n;
}

static void host_arrived(const coll_host_t *host, uint64_t cookie, int32_t status)
{
	(void)host;
	(void)cookie;
	if (status)
		tell("message of %u failed%s; ", FIRST, "");
}

static void host_peer_lost(const coll_host_t *host, uint32_t peer, const char *text)
{
	(void)host;
	tell("%u: %s; ", peer, text);
}

static coll_host_t host = {.size = offsetof(coll_host_t, shares),
			   .nranks = RANKS,
			   .log = host_log,
			   .mac = host_mac,
			   .aborted = host_aborted,
			   .alloc = host_alloc,
			   .arrive = host_arrive,
			   .data = host_data,
			   .arrived = host_arrived,
			   .peer_lost = host_peer_lost};
static struct ucx u;
static _Atomic uint64_t calls_of_ucx;

static void begin(void)
{
	coll_error_t err = {.size = sizeof(err)};

	memset(peers, 0, sizeof(peers));
	memset(&u, 0, sizeof(u));
	u = (struct ucx){.host = &host,
			 .rank = OWN,
			 .nranks = RANKS,
			 .peer = peers,
			 .addresses = addresses,
			 .address_size = 1,
			 .memory = COLL_MEM_HOST,
			 .mesh = RANKS,
			 .calls_of_ucx = &calls_of_ucx,
			 .calls = 1000};
	u.deferred_end = &u.deferred;
	for (uint32_t r = 0; r < RANKS; r++)
		peers[r] = (struct ucx_peer){.rank = r, .pidfd = -1};
	told[0] = '\0';
	is_int(ucx_set_handlers(&u, &err), COLL_SUCCESS, "handlers are registered");
	for (uint32_t r = FIRST; r < RANKS; r++)
		ok(ucx_connect(&u, r, &err) != NULL, "rank %u is connected", r);
}

static void fail(uint32_t rank)
{
	on_error[rank].cb(on_error[rank].arg, peers[rank].ep, UCS_ERR_CONNECTION_RESET);
}

static ucs_status_t frame(uint32_t rank, unsigned id, uint64_t len)
{
	const ucp_am_recv_param_t param = {
		.recv_attr = id == UCX_AM_DATA ? UCP_AM_RECV_ATTR_FLAG_RNDV : 0};
	struct ucx_message_head head = {.from = {.rank = rank}, .header = {.tag = 1, .len = len}};

	return on_frame(frame_arg[id], &head, ucx_header_size(id), payload, len, &param);
}

/* -------------------------------------------------------------------- peers that fail -- */

static void second_fails(void)
{
	frame(SECOND, UCX_AM_FIRST, 1);
	fail(SECOND);
}

static void test_reap(void)
{
	begin();
	fail(FIRST);
	u.calls += UCX_QUIET_CALLS;
	fail(SECOND);
	u.calls += UCX_QUIET_CALLS;
	ucx_reap_failed(&u);
	is_str(told, "", "two peers fail: frames of the second may still come, neither is lost");
	u.calls++;
	ucx_reap_failed(&u);
	is_str(told, "1: UCX: an error; 2: UCX: an error; ", "both are lost together");

	begin();
	fail(FIRST);
	u.calls += UCX_QUIET_CALLS + 1;
	when_driven = second_fails;
	ucx_reap_failed(&u);
	is_str(told, "1: UCX: an error; ",
	       "a peer fails while the connection to another is closed: it is not lost yet");
	u.inside = 1;
	u.calls++;
	ucx_replay(&u);
	is_str(told, "1: UCX: an error; message of 2; ", "its last message arrives");
	u.calls += UCX_QUIET_CALLS + 1;
	ucx_reap_failed(&u);
	is_str(told, "1: UCX: an error; message of 2; 2: UCX: an error; ", "then it is lost");
	is_int(u.failing, 0, "no peer is failing any more");
}

/* ------------------------------------------------------------------ no memory for data -- */

static void test_no_memory(void)
{
	coll_send_t send = {.header = {.tag = 1, .len = LENGTH},
			    .buf = payload,
			    .memory = COLL_MEM_HOST,
			    .peer = SECOND,
			    .status = COLL_IN_PROGRESS};
	coll_error_t err = {.size = sizeof(err)};

	begin();
	u.inside = 1;
	frame(FIRST, UCX_AM_OFFER, LENGTH);
	ucx_zcopy_advance(&u);
	is_int(frame(FIRST, UCX_AM_DATA, LENGTH), UCS_ERR_NO_MEMORY,
	       "no memory for a message without frames: UCX tells its sender");
	ucx_zcopy_advance(&u);
	ucx_reap_failed(&u);
	is_str(told,
	       "message of 1; message of 1 failed; 1: this rank has no memory for its message; ",
	       "the core hears why the message failed");

	begin();
	peers[SECOND].zcopy = LENGTH;
	is_int(ucx_send(&u, &send, &err), COLL_SUCCESS, "a message is offered");
	data_status = UCS_ERR_NO_MEMORY;
	frame(SECOND, UCX_AM_ACCEPT, 0);
	ucx_zcopy_advance(&u);
	is_int(send.status, COLL_ERR_PEER_LOST, "its receiver has no memory: the send fails");
	u.calls += UCX_QUIET_CALLS + 1;
	ucx_reap_failed(&u);
	is_str(told, "2: UCX could not send to it: out of memory; ", "the core hears why");
}

/* ------------------------------------------------------- memory that UCX does not register -- */

/* Sends a message without frames.  Returns the registration that UCX gets, or NULL. */
static void *sent(int registers, ucs_status_t may_map, const char *what)
{
	coll_send_t send = {.header = {.tag = 1, .len = LENGTH},
			    .buf = payload,
			    .memory = COLL_MEM_HOST,
			    .peer = SECOND,
			    .status = COLL_IN_PROGRESS};
	coll_error_t err = {.size = sizeof(err)};

	begin();
	u.inside = 1;
	u.registers = registers;
	peers[SECOND].zcopy = LENGTH;
	map_status = may_map;
	data_status = UCS_OK;
	sent_with = NULL;
	is_int(ucx_send(&u, &send, &err), COLL_SUCCESS, "%s: offered", what);
	frame(SECOND, UCX_AM_ACCEPT, 0);
	is_int(registered, registers && may_map == UCS_OK, "%s: registered", what);
	ucx_zcopy_advance(&u);
	is_int(send.status, COLL_SUCCESS, "%s: sent", what);
	is_int(registered, 0, "%s: registered no more", what);
	return sent_with;
}

static void test_registers(void)
{
	ok(!sent(0, UCS_OK, "UCX has its cache"), "UCX registers the memory");
	ok(sent(1, UCS_OK, "UCX has none") == payload, "UCX gets the registration");
	ok(!sent(1, UCS_ERR_NO_MEMORY, "no registration"), "UCX gets none, and moves the message");
}

int main(void)
{
	test_reap();
	test_no_memory();
	test_registers();
	return done_testing();
}
