/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * frames_test.c - the frames that the ucx plugin receives, without UCX: a frame needs the proof of its sender,
 * and frames that come while the plugin may not call the core wait, in their order, for the next progress.
 */
#include "../lib/tap.h"
#include "ucx.h"

enum { RANKS = 3, OWN = 0, PEER = 2, FRAMES = 5 };
enum { PROOF = 0x5eed };

static struct ucx_peer peers[RANKS];
static ucp_am_recv_callback_t on_frame;
static void *frame_arg[UCX_AM_END];
static char arrived[256]; /* the tags of the messages that the core was told of, and their bytes */
static int refused, warnings;

/* --------------------------------------------------------------- what the file calls -- */

static ucs_status_t set_handler(ucp_worker_h worker, const ucp_am_handler_param_t *param)
{
	(void)worker;
	on_frame = param->cb;
	frame_arg[param->id] = param->arg;
	return UCS_OK;
}

struct ucx_lib ucx_lib = {.ucp_worker_set_am_recv_handler = set_handler};

struct ucx_peer *ucx_peer_get(struct ucx *u, uint32_t rank)
{
	return &u->peer[rank];
}

void ucx_refuse(struct ucx *u, struct ucx_peer *peer, const char *why)
{
	(void)u;
	peer->refused = 1;
	refused++;
	diag("refused: %s", why);
}

void ucx_fail(struct ucx *u, struct ucx_peer *peer, const char *why)
{
	(void)u;
	(void)peer;
	(void)why;
}

int32_t ucx_refused(coll_error_t *err, ucs_status_t status, const char *what)
{
	(void)err;
	(void)status;
	(void)what;
	return COLL_ERR_SYSTEM;
}

int ucx_zcopy_drop(struct ucx *u, uint64_t cookie)
{
	(void)u;
	(void)cookie;
	return 0;
}

void ucx_zcopy_offered(struct ucx *u, struct ucx_peer *peer, uint32_t number,
		       const coll_header_t *header)
{
	(void)u;
	(void)peer;
	(void)number;
	(void)header;
}

void ucx_zcopy_accepted(struct ucx *u, struct ucx_peer *peer, uint32_t number)
{
	(void)u;
	(void)peer;
	(void)number;
}

ucs_status_t ucx_zcopy_data(struct ucx *u, struct ucx_peer *peer, uint32_t number, void *desc,
			    uint64_t len)
{
	(void)u;
	(void)peer;
	(void)number;
	(void)desc;
	(void)len;
	return UCS_OK;
}

void ucx_frame_out(struct ucx *u, struct ucx_peer *peer)
{
	(void)u;
	(void)peer;
}

static void note(const char *fmt, unsigned long long value)
{
	size_t n = strlen(arrived);

	snprintf(arrived + n, sizeof(arrived) - n, fmt, value);
}

static int32_t host_arrive(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			   coll_sink_t *sink)
{
	(void)host;
	(void)peer;
	sink->memory = COLL_MEM_HOST;
	note("%llu", (unsigned long long)header->tag);
	return COLL_SUCCESS;
}

static void host_data(const coll_host_t *host, uint64_t cookie, const void *bytes, uint64_t n)
{
	(void)host;
	(void)cookie;
	for (uint64_t i = 0; i < n; i++)
		note("%c", ((const unsigned char *)bytes)[i]);
}

static void host_arrived(const coll_host_t *host, uint64_t cookie, int32_t status)
{
	(void)host;
	(void)cookie;
	note(status ? "!" : ".", 0);
}

static void host_log(const coll_host_t *host, int32_t level, const char *text)
{
	(void)host;
	(void)text;
	warnings += level == COLL_LOG_WARN;
}

/* ----------------------------------------------------------------------------- frames -- */

static void begin(struct ucx *u, const coll_host_t *host)
{
	coll_error_t err = {.size = sizeof(err)};

	memset(peers, 0, sizeof(peers));
	memset(u, 0, sizeof(*u));
	*u = (struct ucx){.host = host, .rank = OWN, .nranks = RANKS, .peer = peers};
	u->deferred_end = &u->deferred;
	for (uint32_t r = 0; r < RANKS; r++)
		peers[r] = (struct ucx_peer){.rank = r, .proof = PROOF + r};
	arrived[0] = '\0';
	refused = warnings = 0;
	is_int(ucx_set_handlers(u, &err), COLL_SUCCESS, "handlers are registered");
}

/* UCX hands over a whole message of a letter. */
static void frame(uint32_t rank, uint64_t proof, uint64_t tag, char letter, size_t header_size)
{
	const ucp_am_recv_param_t param = {.recv_attr = 0};
	struct ucx_message_head head = {.from = {.proof = proof, .rank = rank},
					.header = {.tag = tag, .len = 1}};

	on_frame(frame_arg[UCX_AM_FIRST], &head, header_size, &letter, 1, &param);
}

static void test_proof(struct ucx *u, const coll_host_t *host)
{
	const size_t size = sizeof(struct ucx_message_head);
	const ucp_am_recv_param_t none = {.recv_attr = 0};

	begin(u, host);
	u->inside = 1;
	frame(PEER, PROOF + PEER, 1, 'a', size);
	is_str(arrived, "1a.", "a frame with its sender's proof arrives");
	frame(PEER, PROOF + 1, 2, 'b', size);
	frame(PEER, 0, 3, 'c', size);
	frame(RANKS, PROOF + RANKS, 4, 'd', size);
	frame(OWN, PROOF + OWN, 5, 'e', size);
	frame(PEER, PROOF + PEER, 6, 'f', size - 1);
	is_str(arrived, "1a.",
	       "no frame with another proof, of no rank, of this rank or of another size does");
	is_int(warnings, 1, "one warning says so");
	is_int(refused, 0, "and the rank whose name they bore is not refused");
	on_frame(frame_arg[UCX_AM_EMPTY], NULL, 0, NULL, 0, &none);
	is_int(warnings, 1, "an empty frame in place of a dead rank's is passed over");
	frame(PEER, PROOF + PEER, 7, 'g', size);
	is_str(arrived, "1a.7g.", "the rank's next frame arrives");
}

static void test_deferred(struct ucx *u, const coll_host_t *host)
{
	begin(u, host);
	for (unsigned i = 0; i < FRAMES; i++)
		frame(1 + i % 2, PROOF + 1 + i % 2, i, (char)('a' + (int)i),
		      sizeof(struct ucx_message_head));
	is_str(arrived, "", "outside of progress the core hears of no frame");
	u->inside = 1;
	ucx_replay(u);
	is_str(arrived, "0a.1b.2c.3d.4e.", "progress hands all over in their order");
	ucx_replay(u);
	frame(1, PROOF + 1, 9, 'z', sizeof(struct ucx_message_head));
	is_str(arrived, "0a.1b.2c.3d.4e.9z.", "once each, before later frames");
	u->inside = 0;
	frame(1, PROOF + 1, 5, 'f', sizeof(struct ucx_message_head));
	u->inside = 1;
	ucx_replay(u);
	is_str(arrived, "0a.1b.2c.3d.4e.9z.5f.", "also frames that wait after that");
}

int main(void)
{
	const coll_host_t host = {.size = sizeof(host),
				  .arrive = host_arrive,
				  .data = host_data,
				  .arrived = host_arrived,
				  .log = host_log};
	struct ucx u;

	test_proof(&u, &host);
	test_deferred(&u, &host);
	return done_testing();
}
