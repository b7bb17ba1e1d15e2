/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx.h - types and functions that the files of the ucx backend share.
 *
 * One endpoint is one UCP context and worker, and a UCP endpoint for each rank that this rank sends to, made at the first
 * message.  ucx_library.c opens UCX, ucx_context.c configures it, ucx_devices.c finds its network devices, ucx_exchange.c
 * exchanges the addresses of the ranks, ucx_peer.c connects ranks and reports failed ranks.  ucx_send.c and ucx_recv.c move
 * messages in frames, ucx_zcopy.c moves long messages without frames; ucx_wait.c has progress and sleep.
 *
 * Messages are UCP active messages, because host->arrive needs the header before it names a buffer for the
 * payload, and a handler of active messages sees the header first.  README.md has measurements.
 */
#ifndef UCX_H
#define UCX_H

#include <coll/backend.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/plugin_kit.h"

#include <ucp/api/ucp.h>
#include <ucs/config/types.h>

#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>

/* The oldest version of UCX that the plugin can use. */
#define UCX_MAJOR 1
#define UCX_MINOR 13

#define UCX_BUDGET     ((uint64_t)2 << 20)   /* bytes received by one progress(): under 1 ms */
#define UCX_POLL_AGAIN ((uint64_t)4096)      /* progress() polls again after this many bytes */
#define UCX_SEND_SHARE ((uint64_t)256 << 10) /* bytes sent to one peer before the next peer */
#define UCX_DATA_PIECE ((uint64_t)256 << 10) /* bytes of one host->data() */
#define UCX_SHM_FRAME  ((uint64_t)8192)      /* payload; shared memory has segments of 8256 bytes */
#define UCX_TCP_FRAME  ((uint64_t)60000)     /* payload of a frame; TCP has segments of 64 KiB */
#define UCX_RDMA_ZCOPY ((uint64_t)256 << 10) /* the default of the option zcopy over RDMA */
/* Up to this many bytes ucx_issue first asks UCX for immediate completion. */
#define UCX_SHORT 64
/*
 * Calls of progress() without a frame after which all frames of a failed peer have come: a queue in shared memory has 256
 * slots, and UCX reads 1 to 16 slots a call (UCX_POSIX_FIFO_SIZE, UCX_POSIX_FIFO_MAX_POLL).
 */
#define UCX_QUIET_CALLS 64
#define UCX_GAP_MS      1000 /* longest wait for a living rank that is writing into a queue */
#define UCX_HELLO       256  /* bytes of a hello's payload; see UCX_AM_HELLO */
#define UCX_RELEASE_MS  100 /* longest wait for a transfer to end before its connection is closed */

/* ----------------------------------------------------------------- on the wire -- */

/*
 * Identifiers of active messages.  The payload of a hello has no meaning, but a length: UCX makes the whole connection only
 * for a message that is longer than an entry of its queue.
 */
enum {
	UCX_AM_FIRST = 1,
	UCX_AM_MORE = 2,
	UCX_AM_OFFER = 3, /* begins a message without frames */
	UCX_AM_ACCEPT = 4,
	UCX_AM_DATA = 5,
	UCX_AM_HELLO = 6,
	UCX_AM_BYE = 7,
	UCX_AM_EMPTY = 8, /* fills the slot of a rank that died (ucx_gap.c) */
	UCX_AM_END = 9
};

/* The sender of a frame.  Only ranks that have the communicator's key can compute `proof`. */
struct ucx_sender {
	uint64_t proof;
	uint32_t rank;
	uint32_t number; /* the number of the offer, in OFFER, ACCEPT and DATA */
};

/* The header of UCX_AM_FIRST and OFFER.  The header of all other frames is a ucx_sender. */
struct ucx_message_head {
	struct ucx_sender from;
	coll_header_t header;
};

static inline size_t ucx_header_size(unsigned id)
{
	return id == UCX_AM_FIRST || id == UCX_AM_OFFER ? sizeof(struct ucx_message_head)
							: sizeof(struct ucx_sender);
}

/* -------------------------------------------------------------------- endpoint -- */

/* The bytes of a frame that UCX has accepted and not copied.  A cancel points the frame at a copy. */
struct ucx_frame {
	const uint8_t *bytes; /* NULL: the frame was given up, and UCX sends zeros */
	uint64_t size;
};

/* A list of messages without frames (ucx_zcopy.c). */
struct ucx_transfer;
struct ucx_transfers {
	struct ucx_transfer *first, *last;
	int count;
};

struct ucx;

/* A rank, its connection, its sends and its receive. */
struct ucx_peer {
	struct ucx *owner;
	uint32_t rank;
	int described; /* 1: ucx_peer_get has filled the members below */
	int same_host; /* 1: the rank runs on this host */
	int lost;      /* 1: host->peer_lost was called, or will never be called */
	int refused;   /* 1: the peer broke the protocol, and its frames are ignored */
	int seen;      /* 1: a valid frame of the peer has come */
	int ending; /* 1: the peer has failed, all its frames have come, and it is given up now */
	int broken; /* 1: UCX reported an error, or the process has ended: no frame reaches the peer */
	int bye_sent;     /* 1: this rank has sent the peer a goodbye */
	int bye_received; /* 1: the peer's goodbye has come */
	int remote;       /* 1: the transport is neither shared memory nor TCP */
	int busy;         /* 1: in the list u->busy */
	int pidfd;        /* readable once the process has ended; -1: none */
	/* The peer's calls of UCX, as in struct ucx; NULL: not readable. */
	const _Atomic uint64_t *calls_of_ucx;
	uint64_t calls_then; /* value of *calls_of_ucx when the gap was found */
	int may_fill;        /* 1: the peer may still fill a slot that was claimed then */
	ucp_ep_h ep;         /* NULL: not made, or closed */
	void *closing;       /* the request that closes `ep` */
	void *bye;           /* the request of the goodbye */
	void *flush;         /* the request that flushes `ep` */
	const char *failure; /* reason of a failure, for host->peer_lost; NULL: none */
	char text[160];      /* memory for a composed `failure` */
	uint64_t frame;      /* most payload bytes of a frame to the peer */
	uint64_t zcopy;      /* messages from this length on are offered, not framed */
	uint64_t proof;      /* the proof that the peer's frames must have */
	uint64_t
		last_seen; /* value of u->calls when the last frame came, or when the peer failed */
	struct ucx_peer *next_busy;

	/*
	 * Incomplete sends.  If `begun`, UCX has accepted `done` bytes of the first send.  `request` is the last frame's,
	 * or NULL if UCX has completed that frame.
	 */
	struct send_queue queue;
	uint64_t done;
	int begun;
	void *request;
	struct ucx_message_head head;
	uint32_t offers;              /* number of offers to the peer so far */
	struct ucx_transfers offered; /* offers that the peer has not accepted */
	struct ucx_transfers
		awaited; /* the peer's offers that this rank has accepted, and whose data have not come */
	struct ucx_frame pending;
	struct send_rest rest; /* is sent before the queue */

	/* The message that is being received. */
	int receiving;
	int dropped; /* the core has dropped this message: its payload is discarded */
	coll_sink_t sink;
	uint64_t got, len;
};

/* A frame that came while no progress() was running.  The next progress() handles it. */
struct ucx_deferred;

/* The argument of the function that handles one kind of frames. */
struct ucx_frame_handler {
	struct ucx *owner;
	unsigned id;
};

/* A receive queue of this endpoint in shared memory. */
struct ucx_queue {
	struct ucx_queue_head *head; /* in a mapping of `size` bytes */
	uint64_t size;
	int mapped; /* 1: the plugin made the mapping; 0: UCX did */
	uint64_t slots;
	uint64_t claimed; /* number of slots that were claimed when the search for the gap began */
};

enum ucx_gap {
	UCX_GAP_NONE,
	UCX_GAP_EXPECTED, /* a rank of this host has died */
	UCX_GAP_OPEN      /* a claimed slot was not filled */
};

enum {
	UCX_QUEUES = 4, /* UCX has a queue each for POSIX's and for System V's shared memory */
	UCX_CALLS_SIZE = 4096
};

struct ucx {
	const coll_host_t *host;
	uint32_t rank, nranks;
	ucp_context_h context;
	ucp_worker_h worker;
	ucp_datatype_t frame_type;
	struct ucx_frame_handler frame_handler[UCX_AM_END];
	struct ucx_peer *peer;     /* nranks */
	struct ucx_record *record; /* nranks: the exchanged records */
	uint8_t *addresses;        /* nranks UCX addresses of address_size bytes each */
	uint64_t address_size;
	uint32_t memory;     /* COLL_MEM_* bits of the memory that UCX reaches on all ranks */
	uint64_t packed;     /* most payload bytes that UCX sends in one piece over any transport */
	uint64_t zcopy;      /* the option zcopy */
	int registers;       /* 1: ucx_zcopy_register registers memory */
	uint32_t mesh;       /* the option mesh */
	int inside;          /* 1: progress() is running, so the plugin may call the core */
	int closing;         /* 1: close() is running, and frames are ignored */
	int moved;           /* 1: this progress() has moved a message */
	uint64_t received;   /* bytes that this progress() has received */
	uint32_t unverified; /* frames without the right proof */
	uint32_t connect_back; /* peers that sent a first frame and have no endpoint */
	uint32_t new_peers;    /* peers that sent a first frame since the last ucx_probe_accepted */
	int shm;               /* 1: UCX reaches a peer by shared memory */
	int sockets; /* 1: UCX reaches a peer otherwise, and makes system calls while it polls */
	uint32_t failing; /* peers with a failure that progress() has not reported yet */
	struct ucx *next_log_endpoint; /* see ucx_log_handler_add */
	uint64_t calls;                /* number of calls of progress() */
	uint32_t idle;                 /* number of the last calls that moved nothing */
	uint32_t
		busy_arms; /* times that UCX was busy when this rank wanted to sleep, since data moved */
	struct ucx_peer *busy;
	struct ucx_deferred *deferred, **deferred_end;
	int transfers;                          /* messages without frames, to and from all peers */
	struct ucx_transfers unanswered;        /* offers of the peers */
	struct ucx_transfers sending, fetching; /* transfers that UCX moves */
	int efd;                                /* the descriptor of the UCP worker */
	int timer_fd;
	int wait_fd; /* epoll over efd, timer_fd and the pidfds */
	int no_signals; /* 1: a rank that shares memory is in another network namespace, so its signals do not arrive */
	int poll_peers;  /* 1: the next progress() polls the pidfds */
	int efd_watched; /* 1: UCX's descriptor ends a sleep */
	int gone;        /* 1: a rank of this host has ended, or any rank has said goodbye */

	/*
	 * The number is odd while this rank is inside UCX and may write into the queues of others.  It only grows.  It lies
	 * in shared memory, for the ranks of this host, or in calls_unshared if there is none.
	 */
	_Atomic uint64_t *calls_of_ucx, calls_unshared;
	int calls_fd; /* of the shared memory, or -1 */
	enum ucx_gap gap;
	int64_t gap_deadline;   /* time (clock_now_ms) at which the wait for living ranks ends */
	uint64_t gap_last_call; /* value of u->calls when a gap was last there */
	struct ucx_queue queue[UCX_QUEUES];
	int queues;
};

/* ----------------------------------------------------------------- ucx_library.c -- */

/*
 * UCX calls a handler of this type for each of its log messages.  The handler returns 0 if it has handled the message, or 1
 * to let UCX print it.  The plugin declares the type because UCX's header, ucs/debug/log_def.h, needs extensions of C.
 */
typedef int (*ucx_log_handler)(const char *file, unsigned line, const char *function,
			       ucs_log_level_t level, const void *component, const char *message,
			       va_list args);

/*
 * UCX's functions.  probe() opens the library and looks them up, so that a program on another backend does
 * not load UCX.
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

/* Opens UCX.  Fails if UCX is missing or too old, or if the process lacks resources. */
int32_t ucx_library_open(const coll_host_t *host, coll_error_t *err);

/* ----------------------------------------------------------------- ucx_resources.c -- */

/*
 * Fails unless the process has the descriptors and the thread without which UCX would abort it.  In open() the descriptors
 * for all ranks count.
 */
int32_t ucx_resources_check(const coll_host_t *host, coll_error_t *err);

enum { UCX_THREAD_MS = 1000 }; /* longest wait for the end of a thread */

/* A thread that only reserves a slot for UCX's own thread. */
struct ucx_thread {
	int started;
	pthread_t id;
	pid_t tid;
	sem_t begun, end;
};

/*
 * All processes of a user, or of a container, share a limit of threads.  Before a rank starts UCX, all ranks reserve a
 * thread; each rank releases it right before UCX starts its own thread.  So no rank takes another's slot.
 */
int32_t ucx_thread_reserve(struct ucx_thread *thread, coll_error_t *err);
void ucx_thread_release(struct ucx_thread *thread);

/* ----------------------------------------------------------------- ucx_context.c -- */

/* Makes a context for one rank.  It shows whether UCX starts, and which transports UCX has. */
int32_t ucx_context_try(const coll_host_t *host, ucp_context_h *context, coll_error_t *err);
/*
 * Makes a context with the settings of the options and of the UCX_* variables.  one_host: all ranks share one
 * host, so that UCX opens no port.
 */
int32_t ucx_context_open(const coll_host_t *host, uint32_t nranks, int one_host,
			 ucp_context_h *context, coll_error_t *err);
/* Returns the COLL_MEM_* bits of the memory that the context can move. */
uint32_t ucx_context_memory(ucp_context_h context);
/* 1: the caller of UCX has to register the memory of each rendezvous; 0: UCX does it. */
int ucx_lacks_registrations(void);
/* Returns UCX's memory type for one COLL_MEM_* bit. */
ucs_memory_type_t ucx_memory_type(uint32_t memory);
int32_t ucx_info(const coll_host_t *host, char *buf, uint64_t size);
/*
 * Between these two calls UCX's log messages of this thread go to the log of `host`.  ucx_log_begin returns the host whose
 * log it was before; the caller passes it to ucx_log_end.
 */
const coll_host_t *ucx_log_begin(const coll_host_t *host);
void ucx_log_end(const coll_host_t *before);
/* Makes UCX call the log handler.  Called once, after the library was opened. */
void ucx_log_handler_install(void);
/* Add and remove an endpoint.  UCX's messages at all other times go to the log of one of the added endpoints. */
void ucx_log_handler_add(struct ucx *u);
void ucx_log_handler_remove(struct ucx *u);
/*
 * Fills *err (may be NULL) with the text `what`, UCX's status and the warning that UCX has logged since
 * ucx_log_begin.  Returns the code.
 */
int32_t ucx_refused(coll_error_t *err, ucs_status_t status, const char *what);

/* -------------------------------------------------------------------- ucx_devices.c -- */

enum { UCX_INTERFACE_SIZE = 16, UCX_DEVICES_SIZE = 1024 };

/*
 * Fills in the name of the network interface that the option `interface` names, or whose address it is; "" if the option is
 * unset.
 */
int32_t ucx_find_interface(const coll_host_t *host, char name[UCX_INTERFACE_SIZE],
			   coll_error_t *err);
/*
 * Lists the network devices that UCX shall use, separated by commas: the interface for TCP, and every RDMA
 * port in UCX's description of a context.
 */
void ucx_list_devices(const char *description, const char *interface_name,
		      char list[UCX_DEVICES_SIZE]);

/* ------------------------------------------------------------------- ucx_exchange.c -- */

/* A rank sends this record to all other ranks. */
struct ucx_record {
	int32_t pid;
	uint32_t version[2];
	int32_t calls_fd; /* the rank's descriptor of its calls_of_ucx; -1: none */
	uint32_t memory;  /* COLL_MEM_* bits */
	uint32_t address_size;
};

/*
 * Exchanges the records and the addresses of all ranks, and checks that all ranks have the same version of UCX.  u->memory
 * becomes the kinds of memory that all ranks have.
 */
int32_t ucx_exchange(struct ucx *u, coll_error_t *err);
/* Returns when all ranks have called it.  A `code` that is not 0 fails the call on all ranks. */
int32_t ucx_barrier(const coll_host_t *host, int32_t code, coll_error_t *err);
/* Can the rank reach the shared memory of this rank? */
int ucx_may_share_memory(const struct ucx *u, uint32_t rank);

/* ------------------------------------------------------------------- ucx_peer.c -- */

/* Returns the peer with a UCP endpoint, or NULL with *err if UCX cannot reach the peer. */
struct ucx_peer *ucx_connect(struct ucx *u, uint32_t rank, coll_error_t *err);
/* Returns the peer.  The members that need no connection are filled. */
struct ucx_peer *ucx_peer_get(struct ucx *u, uint32_t rank);
/*
 * Connects to the peers that sent a first frame.  This must not wait for the first message to them: UCX 1.13 ends the
 * process if it connects over TCP to a rank whose connection has just broken.
 */
void ucx_connect_back(struct ucx *u);
/* Marks the peer as failed: progress() gives it up.  `why` must stay valid. */
void ucx_fail(struct ucx *u, struct ucx_peer *peer, const char *why);
/* Fails a peer as ucx_fail for a fault in its frames, and ignores its further frames. */
void ucx_refuse(struct ucx *u, struct ucx_peer *peer, const char *why);
/* Gives up failed peers, each after its last frame was received. */
void ucx_reap_failed(struct ucx *u);
/* Marks the peers whose processes have ended as failed. */
void ucx_poll_peers(struct ucx *u);
/*
 * Connects to all ranks, or, with more than `mesh` ranks, to the next rank.  Sends a hello to each of these ranks, and
 * waits a while for their hellos.  UCX 1.13 may end the process if a rank dies while another rank connects to it, so the
 * connections are made here, and not amid the program's work.
 */
int32_t ucx_handshake(struct ucx *u, coll_error_t *err);
/* Closes the endpoint by force, and waits until UCX uses no memory of the caller for this peer. */
void ucx_force_close(struct ucx *u, struct ucx_peer *peer);
/*
 * Returns 1 if *request is NULL, or complete: then it is freed and becomes NULL.  *status, unless NULL, becomes the status
 * of the request.
 */
int ucx_request_done(void **request, ucs_status_t *status);
/* Drives UCX until done(arg) is not 0, at most timeout_ms.  Returns the last done(arg). */
int ucx_await(struct ucx *u, int (*done)(void *arg), void *arg, int64_t timeout_ms);
/* Sends all queues and the goodbyes, flushes and closes all connections, at most timeout_ms. */
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
/* Hands a frame to UCX.  Returns NULL, a request, or an error in a pointer (UCS_PTR_IS_ERR). */
void *ucx_issue(struct ucx *u, struct ucx_peer *peer, unsigned id, const void *bytes, uint64_t n);
/* Adds a peer with a frame or messages to u->busy, which ucx_send_all serves. */
void ucx_enlist(struct ucx *u, struct ucx_peer *peer);
/* Sends as many frames as UCX takes to the peers in u->busy. */
void ucx_send_all(struct ucx *u);
void ucx_fail_sends(struct ucx *u, struct ucx_peer *peer, int32_t status);
/* Notes that UCX has copied the last issued frame, and completes the message if that was its last frame. */
void ucx_frame_out(struct ucx *u, struct ucx_peer *peer);
/* Returns 1 if UCX has completed the peer's frame.  Handles the completion. */
int ucx_frame_done(struct ucx *u, struct ucx_peer *peer);

/* ------------------------------------------------------------------- ucx_recv.c -- */

/* Registers the handler of each kind of frame with UCX. */
int32_t ucx_set_handlers(struct ucx *u, coll_error_t *err);
void ucx_drop(void *ep, uint64_t cookie);
/* Passes the next n bytes of a message to host->data, in pieces that fit into the cache. */
void ucx_hand_over(struct ucx *u, uint64_t cookie, const uint8_t *bytes, uint64_t n);
/* Handles the deferred frames. */
void ucx_replay(struct ucx *u);
void ucx_free_deferred(struct ucx *u);
/* Delivers the messages to the own rank. */
void ucx_loop_back(struct ucx *u);

/* ------------------------------------------------------------------ ucx_zcopy.c -- */

/* Index in send->plugin: the transfer that the send is, or 0. */
enum { UCX_SEND_TRANSFER = 1 };

/* Notes the send as offered and puts the number of the offer into peer->head.  Returns 0 or an error code. */
int ucx_zcopy_offer(struct ucx *u, struct ucx_peer *peer, coll_send_t *send);
/* Handle an OFFER, an ACCEPT and a DATA frame; `number` is the number of the offer. */
void ucx_zcopy_offered(struct ucx *u, struct ucx_peer *peer, uint32_t number,
		       const coll_header_t *header);
void ucx_zcopy_accepted(struct ucx *u, struct ucx_peer *peer, uint32_t number);
ucs_status_t ucx_zcopy_data(struct ucx *u, struct ucx_peer *peer, uint32_t number, void *desc,
			    uint64_t len);
/* Accepts the offers of the peers and completes the transfers that have ended. */
void ucx_zcopy_advance(struct ucx *u);
/* If the send, or the receive of that cookie, is a message without frames: give it up and return 1. */
int ucx_zcopy_cancel(struct ucx *u, coll_send_t *send);
int ucx_zcopy_drop(struct ucx *u, uint64_t cookie);
/* Ends the transfers of a peer whose connection is closed. */
void ucx_zcopy_fail(struct ucx *u, struct ucx_peer *peer);
/* Does UCX still move a message to or from the peer? */
int ucx_zcopy_pending(struct ucx *u, struct ucx_peer *peer);
/* Are all offered messages sent, except to failed peers? */
int ucx_zcopy_sent(const struct ucx *u);
void ucx_zcopy_free(struct ucx *u);

/* The plugin's slots mem_register and mem_deregister (backend.h); ep is the struct ucx. */
int32_t ucx_mem_register(void *ep, void *ptr, uint64_t bytes, uint32_t memory, void **handle,
			 coll_error_t *err);
void ucx_mem_deregister(void *ep, void *handle);

/* -------------------------------------------------------------------- ucx_gap.c -- */

/* Makes the memory with the number of this rank's calls of UCX. */
void ucx_calls_open(struct ucx *u);
/* Maps the numbers of the other ranks of this host, once the records are exchanged. */
void ucx_calls_map_all(struct ucx *u);
/* Closes the descriptor, once all ranks have mapped the memory. */
void ucx_calls_unpublish(struct ucx *u);
void ucx_calls_close(struct ucx *u);

/*
 * Where UCX makes system calls whenever it polls or sends, disables cancellation of the thread, which would keep UCX and
 * the core locked.  Over shared memory UCX makes system calls seldom, and a poll is too short for that check.
 */
static inline int ucx_uncancel(const struct ucx *u)
{
	return u->sockets ? cancel_disable() : CANCEL_KEPT;
}

/*
 * Each call of UCX that may send is between these two.  They nest: ucx_leave gets the result of its ucx_enter, which is
 * nonzero for the outermost pair.
 */
static inline int ucx_enter(struct ucx *u)
{
	uint64_t n = atomic_load_explicit(u->calls_of_ucx, memory_order_relaxed);

	/* UCX claims a slot by an atomic operation, which earlier stores precede. */
	if (!(n & 1))
		atomic_store_explicit(u->calls_of_ucx, n + 1, memory_order_relaxed);
	return !(n & 1);
}

static inline void ucx_leave(struct ucx *u, int outermost)
{
	uint64_t n = atomic_load_explicit(u->calls_of_ucx, memory_order_relaxed);

	if (outermost)
		atomic_store_explicit(u->calls_of_ucx, n + 1, memory_order_release);
}

/* Leaves and enters again between the calls of UCX, in a function that makes many. */
static inline void ucx_reenter(struct ucx *u)
{
	uint64_t n = atomic_load_explicit(u->calls_of_ucx, memory_order_relaxed);

	atomic_store_explicit(u->calls_of_ucx, n + 2, memory_order_release);
}

/* Notes that a rank of this host has died, so that the receive queue may have a gap. */
void ucx_gap_expect(struct ucx *u);
/* Looks for the gap and closes it, once no living rank can be about to fill it. */
void ucx_gap_advance(struct ucx *u);
/* May frames that came before the last death still be unread behind the gap? */
int ucx_gap_hides_frames(const struct ucx *u);
/* Unmaps the queues. */
void ucx_gap_close(struct ucx *u);

/* ------------------------------------------------------------------ ucx_probe.c -- */

/* Unanswered probes of the kernel, at intervals of `keepalive`, until a silent TCP connection breaks. */
enum { UCX_PROBES = 9 };

/* Turns the kernel's probes on for the TCP connections that UCX has accepted, as UCX does for its own. */
void ucx_probe_accepted(struct ucx *u);
/*
 * Calls visit for each descriptor that an epoll descriptor watches, and that nested epoll descriptors watch.  Returns the
 * sum of the results, each of which is 0 or more.
 */
int ucx_each_watched(int epoll_fd, int (*visit)(int fd, void *arg), void *arg);

/* ------------------------------------------------------------------- ucx_wait.c -- */

int32_t ucx_progress(void *ep);
int32_t ucx_wait_fd(void *ep);
int32_t ucx_arm(void *ep);
int32_t ucx_wait_open(struct ucx *u, coll_error_t *err);
void ucx_wait_close(struct ucx *u);
/* Makes the wait descriptor readable when the peer's process ends. */
void ucx_watch(struct ucx *u, struct ucx_peer *peer);
void ucx_unwatch(struct ucx *u, struct ucx_peer *peer);

#endif
