/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx.h - what the files of the ucx backend share.
 *
 * One endpoint is one UCP context and worker, with a UCP endpoint to each rank that is spoken to,
 * made when it first is.  ucx_library.c finds UCX, ucx_context.c configures it, ucx_meet.c tells the
 * ranks each other's addresses; ucx_peer.c connects, and sees a peer's end; ucx_send.c and ucx_recv.c move
 * messages in frames, ucx_zcopy.c those that go from memory to memory; ucx_wait.c progresses and
 * sleeps.
 *
 * Messages are UCP active messages, whose handler sees the header before it must say where the
 * payload goes, which is what host->arrive wants; README.md has the figures.
 */
#ifndef UCX_H
#define UCX_H

#include <coll/backend.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/plugin_kit.h"

#include <ucp/api/ucp.h>
#include <ucs/config/types.h>

#include <stdarg.h>
#include <stddef.h>

/* What the plugin needs of UCX. */
#define UCX_MAJOR 1
#define UCX_MINOR 13

#define UCX_BUDGET     ((uint64_t)2 << 20)   /* received in one progress(): under a millisecond */
#define UCX_MUCH       ((uint64_t)4096)      /* received in one look: then there may be more */
#define UCX_TURN       ((uint64_t)256 << 10) /* sent to one peer before others have their turn */
#define UCX_DATA       ((uint64_t)256 << 10) /* handed to host->data at once */
#define UCX_SHM_FRAME  ((uint64_t)8192)  /* the same over shared memory, whose segments are 8256 */
#define UCX_TCP_FRAME  ((uint64_t)60000) /* payload of a frame over TCP, whose segments are 64K */
#define UCX_RDMA_ZCOPY ((uint64_t)256 << 10)
#define UCX_SHORT      64 /* up to so many bytes "at once or not" is tried */
#define UCX_QUIET      8  /* turns without a frame, after which a peer that fails has had its say */
#define UCX_HELLO      256 /* bytes of a hello's payload */
#define UCX_RELEASE_MS 100 /* for UCX to let go of the caller's memory, before it is forced */

/* ----------------------------------------------------------------- on the wire -- */

/*
 * Identifiers of active messages.  A hello has a payload that says nothing: UCX makes the whole
 * connection only for what is longer than a line of its queue.
 */
enum {
	UCX_AM_FIRST = 1,
	UCX_AM_MORE = 2,
	UCX_AM_OFFER = 3, /* as FIRST, of a message that is to go from memory to memory */
	UCX_AM_ACCEPT = 4,
	UCX_AM_DATA = 5,
	UCX_AM_HELLO = 6,
	UCX_AM_BYE = 7,
	UCX_AM_END = 8
};

/* Who speaks: `proof` only who has the communicator's key can know. */
struct ucx_from {
	uint64_t proof;
	uint32_t rank;
	uint32_t number; /* of an offer */
};

/* The header of UCX_AM_FIRST and OFFER; the others have a ucx_from only. */
struct ucx_first {
	struct ucx_from from;
	coll_header_t header;
};

static inline size_t ucx_header_size(unsigned id)
{
	return id == UCX_AM_FIRST || id == UCX_AM_OFFER ? sizeof(struct ucx_first)
							: sizeof(struct ucx_from);
}

/* -------------------------------------------------------------------- endpoint -- */

/* Where UCX finds a frame that it copies; it may have moved since UCX was told of the frame. */
struct ucx_frame {
	const uint8_t *bytes; /* NULL: nobody wants it any more */
	uint64_t size;
};

struct ucx_zsend;
struct ucx_zrecv;

struct ucx;

/* A rank and the way to it. */
struct ucx_peer {
	struct ucx *owner;
	uint32_t rank;
	int known;           /* the rest is filled */
	int same_host;       /* it runs here: its end shows in pidfd */
	int lost;            /* host->peer_lost was called, or will never be */
	int refused;         /* it broke the rules: nothing more is taken from it */
	int heard_from;      /* something has come from it */
	int broken;          /* UCX says so, or its process has ended: nothing gets there */
	int told;            /* goodbye has been said to it */
	int left;            /* it has said goodbye */
	int remote;          /* it is reached by something else than shared memory and TCP */
	int busy;            /* in the list of those with something to send */
	int pidfd;           /* or -1 */
	ucp_ep_h ep;         /* NULL: not made yet, or closed */
	void *closing;       /* the request that closes it */
	void *bye;           /* the request that says goodbye */
	void *flush;         /* the request that hands all to the network */
	const char *failure; /* why it is to be given up: told in the next progress() */
	char text[160];      /* room for that */
	uint64_t frame;      /* most bytes of payload in a frame */
	uint64_t zcopy;      /* longer messages go from memory to memory */
	uint64_t proof;      /* what it proves itself with */
	uint64_t heard;      /* the turn in which its last frame came, or it failed */
	struct ucx_peer *next_busy;

	/* Sends not complete.  `done` bytes of the first one have been given to
	 * UCX, if `begun`; the last of them perhaps in `request`, which UCX has yet to complete. */
	struct send_queue queue;
	uint64_t done;
	int begun;
	void *request;
	struct ucx_first head;
	uint32_t offers; /* made so far */
	struct ucx_frame pending;
	struct send_rest rest; /* goes out before the first message */

	/* The message being received. */
	int receiving;
	int unwanted; /* the core has dropped it */
	coll_sink_t sink;
	uint64_t got, len;
};

/* A frame that came while no progress() was running. */
struct ucx_held;

/* The argument of the function that handles one kind of frames. */
struct ucx_frame_handler {
	struct ucx *owner;
	unsigned id;
};

struct ucx {
	const coll_host_t *host;
	uint32_t rank, nranks;
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_datatype_t frame_type;
	struct ucx_frame_handler frame_handler[UCX_AM_END];
	struct ucx_peer *peer;     /* nranks */
	struct ucx_record *record; /* nranks: what they said of themselves */
	uint8_t *addresses;        /* nranks, of address_size each */
	uint64_t address_size;
	uint32_t memory;    /* COLL_MEM_* bits that all ranks can do */
	uint64_t packed;    /* payload of a frame that UCX copies in one piece */
	uint64_t zcopy;     /* the option */
	uint32_t mesh;      /* the option */
	int inside;         /* in progress(): arrivals may be told */
	int closing;        /* arrivals are dropped */
	int moved;          /* has this progress() moved a message? */
	uint64_t received;  /* bytes in this progress() */
	uint32_t strangers; /* messages without the right proof */
	uint32_t calling; /* peers that were heard for the first time and are to be connected to */
	int shm;          /* the first connection is by shared memory */
	uint32_t failing; /* peers with a failure to be told */
	struct ucx *next_log_endpoint; /* of what UCX says: see ucx_log_handler_add */
	uint64_t turn;                 /* counts progress() */
	uint32_t idle;                 /* of them, so many have moved nothing */
	struct ucx_peer *busy;
	struct ucx_held *held, **held_end;
	struct ucx_zsend *zsend;
	struct ucx_zrecv *zrecv;
	int wait_fd, efd, timer_fd; /* an epoll descriptor over UCX's, the timer and the pidfds */
	int poll_peers;             /* the next progress() looks at the pidfds */
};

/* ----------------------------------------------------------------- ucx_library.c -- */

/*
 * How UCX hands its messages on: 0 ends that, 1 lets it print them.  Its own header for this,
 * ucs/debug/log_def.h, wants extensions of the language.
 */
typedef int (*ucx_log_handler)(const char *file, unsigned line, const char *function,
			       ucs_log_level_t level, const void *component, const char *message,
			       va_list args);

/*
 * UCX's functions, found when the library is opened in probe(): so nobody who uses another backend
 * loads UCX.
 */
struct ucx_lib {
	__typeof__(ucp_am_recv_data_nbx) *ucp_am_recv_data_nbx;
	__typeof__(ucp_am_send_nbx) *ucp_am_send_nbx;
	__typeof__(ucp_cleanup) *ucp_cleanup;
	__typeof__(ucp_config_modify) *ucp_config_modify;
	__typeof__(ucp_config_read) *ucp_config_read;
	__typeof__(ucp_config_release) *ucp_config_release;
	__typeof__(ucp_context_print_info) *ucp_context_print_info;
	__typeof__(ucp_context_query) *ucp_context_query;
	__typeof__(ucp_dt_create_generic) *ucp_dt_create_generic;
	__typeof__(ucp_dt_destroy) *ucp_dt_destroy;
	__typeof__(ucp_ep_close_nbx) *ucp_ep_close_nbx;
	__typeof__(ucp_ep_create) *ucp_ep_create;
	__typeof__(ucp_ep_flush_nbx) *ucp_ep_flush_nbx;
	__typeof__(ucp_ep_print_info) *ucp_ep_print_info;
	__typeof__(ucp_get_version) *ucp_get_version;
	__typeof__(ucp_get_version_string) *ucp_get_version_string;
	__typeof__(ucp_init_version) *ucp_init_version;
	__typeof__(ucp_mem_map) *ucp_mem_map;
	__typeof__(ucp_mem_unmap) *ucp_mem_unmap;
	__typeof__(ucp_request_check_status) *ucp_request_check_status;
	__typeof__(ucp_request_free) *ucp_request_free;
	__typeof__(ucp_worker_arm) *ucp_worker_arm;
	__typeof__(ucp_worker_create) *ucp_worker_create;
	__typeof__(ucp_worker_destroy) *ucp_worker_destroy;
	__typeof__(ucp_worker_get_address) *ucp_worker_get_address;
	__typeof__(ucp_worker_get_efd) *ucp_worker_get_efd;
	__typeof__(ucp_worker_progress) *ucp_worker_progress;
	__typeof__(ucp_worker_query) *ucp_worker_query;
	__typeof__(ucp_worker_release_address) *ucp_worker_release_address;
	__typeof__(ucp_worker_set_am_recv_handler) *ucp_worker_set_am_recv_handler;
	void (*ucs_log_push_handler)(ucx_log_handler handler);
	__typeof__(ucs_status_string) *ucs_status_string;
};
extern struct ucx_lib ucx_lib;

/* Opens UCX if it is there and new enough. */
int32_t ucx_library_open(coll_error_t *err);

/* ----------------------------------------------------------------- ucx_context.c -- */

/* A context that shows whether UCX starts, and what it has; no ranks meet over it. */
int32_t ucx_context_try(const coll_host_t *host, ucp_context_h *context, coll_error_t *err);
/* A context as options and UCX_* variables want it. */
int32_t ucx_context_open(const coll_host_t *host, uint32_t nranks, ucp_context_h *context,
			 coll_error_t *err);
/* Kinds of memory it can move, as COLL_MEM_* bits. */
uint32_t ucx_context_memory(ucp_context_h context);
/* UCX's name for one of those bits. */
ucs_memory_type_t ucx_memory_type(uint32_t memory);
int32_t ucx_info(const coll_host_t *host, char *buf, uint64_t size);
/*
 * Between these UCX's own messages, of this thread, go to the host's log.  The first returns whose
 * log it was before, for the second.
 */
const coll_host_t *ucx_log_begin(const coll_host_t *host);
void ucx_log_end(const coll_host_t *before);
/* Once, when the library has been opened. */
void ucx_log_handler_install(void);
/* UCX's messages at other times go to the log of one of these endpoints. */
void ucx_log_handler_add(struct ucx *u);
void ucx_log_handler_remove(struct ucx *u);
/* Fills *err (may be NULL) for what UCX refused, with the reason that it has logged since ucx_log_begin. */
int32_t ucx_refused(coll_error_t *err, ucs_status_t status, const char *what);

/* ------------------------------------------------------------------- ucx_meet.c -- */

/* What each rank tells all others. */
struct ucx_record {
	int32_t pid;
	char boot_id[40]; /* "" if unknown; with the name space of processes: whose pids agree */
	uint64_t pidns[2];
	uint32_t version[2];
	uint32_t memory;
	uint32_t address_size;
};

/* Exchanges records and addresses. */
int32_t ucx_exchange(struct ucx *u, coll_error_t *err);
/* Returns when all ranks have come here; `code` is this rank's result, which the others learn. */
int32_t ucx_barrier(const coll_host_t *host, int32_t code, coll_error_t *err);
int ucx_same_host(const struct ucx *u, uint32_t rank);

/* ------------------------------------------------------------------- ucx_peer.c -- */

/* The peer, ready to be sent to; NULL with *err if there is no way to it. */
struct ucx_peer *ucx_connect(struct ucx *u, uint32_t rank, coll_error_t *err);
/* What can be known of a peer without a connection. */
struct ucx_peer *ucx_know(struct ucx *u, uint32_t rank);
/*
 * Connects to those that have spoken first.  At once, not when there is something to say: UCX 1.13
 * ends the process if a connection is made over TCP to a rank whose own one has just broken.
 */
void ucx_connect_back(struct ucx *u);
/* To be given up in the next progress(), for a reason that stays valid. */
void ucx_fail(struct ucx *u, struct ucx_peer *peer, const char *why);
/* The same for what it has sent: no frame of its is taken any more. */
void ucx_refuse(struct ucx *u, struct ucx_peer *peer, const char *why);
/* Gives up failed peers, once everything that they sent has been received. */
void ucx_reap_failed(struct ucx *u);
/* Finds the peers whose processes have ended. */
void ucx_poll_peers(struct ucx *u);
/*
 * Connects to all ranks, or of very many only to the next, says hello, and waits a while until that is
 * through and the others' have come: UCX 1.13 may end the process when a rank dies in the midst of
 * being connected to, so let it happen here and not at any time.
 */
int32_t ucx_handshake(struct ucx *u, coll_error_t *err);
/* Closes the endpoint by force: UCX then touches no memory of the caller for this peer any more. */
void ucx_force_close(struct ucx *u, struct ucx_peer *peer);
/* Is it complete?  Then it is freed, and NULL.  *status, unless NULL, gets what UCX says of it. */
int ucx_request_done(void **request, ucs_status_t *status);
/* Progresses until done(arg) is non-zero, at most so long; 1 if it is. */
int ucx_await(struct ucx *u, int (*done)(void *arg), void *arg, int64_t timeout_ms);
/* Says goodbye, hands everything to the network and closes all connections. */
void ucx_peers_close(struct ucx *u, int64_t timeout_ms);

/* ------------------------------------------------------------------- ucx_send.c -- */

extern const ucp_generic_dt_ops_t ucx_frame_ops;

static inline int ucx_has_work(const struct ucx_peer *peer)
{
	return peer->rest.bytes || peer->queue.first;
}

int32_t ucx_send(void *ep, coll_send_t *send, coll_error_t *err);
void ucx_cancel(void *ep, coll_send_t *send);
/* Copies n bytes of a send's payload to host memory. */
int32_t ucx_copy_payload(struct ucx *u, void *to, const coll_send_t *send, uint64_t at, uint64_t n);
/* Hands a frame to UCX: NULL, a request, or an error in a pointer. */
void *ucx_issue(struct ucx *u, struct ucx_peer *peer, unsigned id, const void *bytes, uint64_t n);
/* Its frame, or its messages, are looked after from now on. */
void ucx_enlist(struct ucx *u, struct ucx_peer *peer);
/* Sends what can be sent to the peers that have something. */
void ucx_send_all(struct ucx *u);
void ucx_fail_sends(struct ucx *u, struct ucx_peer *peer, int32_t status);
/* UCX has the last frame: ends the message that it ends. */
void ucx_frame_out(struct ucx *u, struct ucx_peer *peer);
/* Is the peer's frame out of UCX's hands?  Looks at its request. */
int ucx_frame_done(struct ucx *u, struct ucx_peer *peer);

/* ------------------------------------------------------------------- ucx_recv.c -- */

/* Has all kinds of frames handled. */
int32_t ucx_set_handlers(struct ucx *u, coll_error_t *err);
void ucx_drop(void *ep, uint64_t cookie);
/* Gives the next n bytes of a message to the core, in pieces that suit caches. */
void ucx_hand_over(struct ucx *u, uint64_t cookie, const uint8_t *bytes, uint64_t n);
/* Frames that came between calls of progress(). */
void ucx_replay(struct ucx *u);
void ucx_forget_held(struct ucx *u);
/* Messages to the own rank. */
void ucx_loop_back(struct ucx *u);

/* ------------------------------------------------------------------ ucx_zcopy.c -- */

/* Takes note of the offer that the peer's next frame makes (0), which peer->head then names. */
int ucx_zcopy_offer(struct ucx *u, struct ucx_peer *peer, coll_send_t *send);
/* What comes of offers, with their numbers. */
void ucx_zcopy_offered(struct ucx *u, struct ucx_peer *peer, uint32_t number,
		       const coll_header_t *header);
void ucx_zcopy_accepted(struct ucx *u, struct ucx_peer *peer, uint32_t number);
ucs_status_t ucx_zcopy_data(struct ucx *u, struct ucx_peer *peer, uint32_t number, void *desc,
			    uint64_t len);
/* Accepts what was offered, tells what has completed. */
void ucx_zcopy_advance(struct ucx *u);
/* 1: it was one of these, and is let go of. */
int ucx_zcopy_cancel(struct ucx *u, coll_send_t *send);
int ucx_zcopy_drop(struct ucx *u, uint64_t cookie);
/* Ends those of one peer whose connection is closed. */
void ucx_zcopy_fail(struct ucx *u, const struct ucx_peer *peer);
/* Is anything under way to or from the peer? */
int ucx_zcopy_pending(const struct ucx *u, const struct ucx_peer *peer);
/* Is everything sent that can be? */
int ucx_zcopy_sent(const struct ucx *u);
void ucx_zcopy_free(struct ucx *u);

/* ------------------------------------------------------------------- ucx_wait.c -- */

int32_t ucx_progress(void *ep);
int32_t ucx_wait_fd(void *ep);
int32_t ucx_arm(void *ep);
int32_t ucx_wait_open(struct ucx *u, coll_error_t *err);
void ucx_wait_close(struct ucx *u);
/* The wait descriptor becomes readable when the process ends. */
void ucx_watch(struct ucx *u, struct ucx_peer *peer);
void ucx_unwatch(struct ucx *u, struct ucx_peer *peer);

#endif
