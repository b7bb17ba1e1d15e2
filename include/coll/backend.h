/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * backend.h - how to write a backend for libcoll.  This header is the whole manual.
 *
 * A backend is a shared object `coll_<name>.so` in a plugin directory (`pkg-config
 * --variable=plugindir coll`) that exports one constant:
 *
 *   COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
 *           .size = sizeof(coll_backend_t), .abi_minor = COLL_BACKEND_ABI_MINOR,
 *           .name = "mine", .version = "1.0", .description = "...", .priority = 10,
 *           .memory = COLL_MEM_HOST, .transport = &mine_transport,
 *           .probe = mine_probe, .open = mine_open, .close = mine_close,
 *   };
 *
 * It fills one or both of two groups of functions:
 *
 *   transport   send and progress: moves messages.  The core composes every collective from it.
 *   native      whole collectives, for engines that have their own (NCCL).
 *
 * What is left NULL in `native` the core does over `transport`; what neither can do is
 * COLL_ERR_UNSUPPORTED for the user.  plugins/simulated is the folder to copy.
 *
 * The plugin links nothing of libcoll: all it needs of the core arrives as function pointers in
 * coll_host_t, so it also works under parents that load libraries RTLD_LOCAL.
 *
 * ABI promise    A binary built against this header loads and works in every later libcoll of the
 *                same ABI major (the number in the symbol's name).  Structs only grow at their end;
 *                each begins with its size; a reader uses min(its size, the writer's) and takes
 *                what is missing for 0.  A plugin that needs a newer host than it finds says so in
 *                probe(), with both versions in the text.
 * Results        Functions return COLL_SUCCESS or a COLL_ERR_* code of coll.h; with a code they
 *                fill *err, whose text reaches the user unchanged: what failed, where, what to do.
 * Strings        Given by the plugin must stay valid for ever (it is never unloaded); given by the
 *                core, for the duration of the call.
 * Threads        probe and open may run in several threads at once (one call per communicator).
 *                All calls for one endpoint are serialised by the core, on changing threads;
 *                different endpoints run at the same time.  Exception: native->abort.
 * Blocking       Nothing may block, except open, close and what says so, and those are bounded by
 *                the timeout they are given.  A native slot that finds its engine still connecting to
 *                a peer may wait for that, at most host->timeout_ms and until an abort.
 * Limits         The plugin must not: write to coll_host_t, call fork, install signal handlers or
 *                exit handlers, run code in constructors, end the process, print (use host->log).
 */
#ifndef COLL_BACKEND_H
#define COLL_BACKEND_H

#include <coll/coll.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define COLL_BACKEND_EXPORT __attribute__((visibility("default")))
#else
#define COLL_BACKEND_EXPORT
#endif

/* The major is part of the symbol's name; the minor counts additions. */
#define COLL_BACKEND_ABI_MAJOR 1
#define COLL_BACKEND_ABI_MINOR 2
#define COLL_BACKEND_SYMBOL    "coll_backend_v1"

/* Text that goes with a returned code.  Owned by the caller of the function that fills it. */
typedef struct coll_error {
	uint32_t size;
	int32_t code;   /* equals the returned code */
	char text[504]; /* NUL-terminated sentence, no final full stop or newline */
} coll_error_t;

/* Kinds of memory, as bits. */
enum { COLL_MEM_HOST = 1, COLL_MEM_CUDA = 2, COLL_MEM_CUDA_MANAGED = 4 };

/* Levels of host->log. */
enum {
	COLL_LOG_ERROR = 0,
	COLL_LOG_WARN = 1,
	COLL_LOG_INFO = 2,
	COLL_LOG_DEBUG = 3,
	COLL_LOG_TRACE = 4
};

/* ------------------------------------------------------------------ options -- */

enum {
	COLL_OPTION_STRING = 0,
	COLL_OPTION_INT = 1,   /* min..max */
	COLL_OPTION_BOOL = 2,  /* yes/no, true/false, on/off, 1/0 */
	COLL_OPTION_BYTES = 3, /* number with optional K, M, G (powers of 1024); min..max */
	COLL_OPTION_DURATION =
		4 /* number with optional us, ms, s, min; in microseconds; min..max */
};

/*
 * One option of the backend: `key` in section [name] of coll.conf, COLL_<NAME>_<KEY> in the
 * environment.  Declared so that `coll info` can list it and a wrong value is found before open.
 * The key "priority" exists for every backend and is not declared.
 */
typedef struct coll_option {
	const char *key;      /* lower case, '_' between words */
	const char *fallback; /* the default, written as a user would; NULL: none */
	const char *unit;     /* "seconds", "bytes" or "" */
	const char *help;     /* one line */
	int64_t min, max;     /* INT, BYTES, DURATION */
	int32_t type;         /* COLL_OPTION_* */
	int32_t reserved;
} coll_option_t;

/* ------------------------------------------------------------ messages -- */

/*
 * What identifies a message.  Made by the sending core, opaque to the plugin except for len, to be
 * delivered bit for bit to the receiving core ahead of the payload.
 */
typedef struct coll_header {
	uint64_t tag;
	uint64_t meta[2];
	uint64_t len; /* bytes of payload; may be 0 */
} coll_header_t;

/*
 * A message being sent.  Memory of the core; from an accepted send() until the plugin sets status
 * it stays valid and unchanged, except `plugin`, which is the plugin's to use as it likes.
 */
typedef struct coll_send {
	coll_header_t header;
	const void *buf; /* header.len bytes of a kind in `memory`; NULL if len is 0 */
	uint32_t peer;   /* rank */
	/*
	 * COLL_IN_PROGRESS when send() is called.  The plugin sets it, inside send or progress, to
	 * COLL_SUCCESS when buf may be reused (the peer need not have it yet), or to a code.
	 */
	int32_t status;
	uint64_t plugin[6]; /* 0 when send() is called */
	uint32_t memory;    /* kind of memory at buf: one COLL_MEM_* bit */
	uint32_t reserved;  /* 0 */
} coll_send_t;

/* Where the payload of an arriving message is to go.  Filled by host->arrive. */
typedef struct coll_sink {
	uint64_t cookie; /* names this arrival in host->data and host->arrived */
	/*
	 * Not NULL: the plugin may write the payload straight to buf, in any order.  NULL: it must
	 * hand the payload to host->data (the core reduces it, say).
	 */
	void *buf;
	uint32_t memory;   /* kind of memory at buf: one COLL_MEM_* bit */
	uint32_t reserved; /* 0 */
} coll_sink_t;

/* --------------------------------------------------------------------- host -- */

/*
 * What the core gives to a plugin.  Made per probe and per endpoint; valid from probe's call until
 * it returns, and from open's call until close has returned.
 */
typedef struct coll_host coll_host_t;
struct coll_host {
	uint64_t size;
	uint32_t abi_minor; /* of this host */
	uint32_t rank;      /* 0 in probe */
	uint32_t nranks;    /* 0 in probe */
	int32_t device;     /* CUDA device ordinal for this rank, -1: the current one */
	int64_t timeout_ms; /* longest time to spend in open; every wait in it must obey */
	/*
	 * Secret shared by exactly the ranks of this communicator, equal on all of them.  For
	 * proving to one another who they are; never to be sent.
	 */
	uint8_t key[16];
	void *core; /* the core's own */

	/* Any thread. `text` is one finished line without newline.  Filtered by the user's level.
	 */
	void (*log)(const coll_host_t *host, int32_t level, const char *text);

	/*
	 * Values of the options the plugin declared; section and precedence are the core's
	 * business. The value is the default if the user said nothing, checked against type and
	 * range.  A key that was not declared, or has another type: NULL, 0.  Any thread.
	 */
	const char *(*option_string)(const coll_host_t *host, const char *key);
	int64_t (*option_int)(const coll_host_t *host,
			      const char *key); /* INT, BOOL, BYTES, DURATION */

	/*
	 * Allgather of bytes among the ranks of the communicator, over the core's own bootstrap: in
	 * holds len bytes, out gets nranks * len in rank order; len is equal on all ranks.  Blocks
	 * at most timeout_ms; the text names the ranks not heard from.  Collective: every rank must
	 * call it equally often, so a rank that has failed tells it in its next exchange rather
	 * than leaving the others waiting.  Allowed in open and native->split only.
	 */
	int32_t (*exchange)(const coll_host_t *host, const void *in, void *out, uint64_t len,
			    int64_t timeout_ms, coll_error_t *err);

	/*
	 * 16 bytes that only who has `key` can compute: SipHash-2-4-128 of data under key.  Any
	 * thread.
	 */
	void (*mac)(const coll_host_t *host, const void *data, uint64_t len, uint8_t out[16]);

	/*
	 * Non-zero once the communicator is being aborted (within split and shrink also the one that
	 * it is made from): blocking code must end.  Any thread.
	 */
	int32_t (*aborted)(const coll_host_t *host);

	/*
	 * Memory aligned to 64 bytes (large pieces on huge pages where possible), or NULL.  Freed
	 * by the plugin.  Any thread.
	 */
	void *(*alloc)(const coll_host_t *host, uint64_t bytes);
	void (*free)(const coll_host_t *host, void *ptr, uint64_t bytes);

	/* ---- receiving: called by the transport, only from inside its progress() ---- */

	/*
	 * A message's header has arrived from `peer`.  The core matches it and fills *sink.  0, or
	 * a code: then the peer cannot be trusted any more and the connection is to be closed, with
	 * nothing else called for this message.  The core never calls the plugin from inside this
	 * or the following functions.
	 */
	int32_t (*arrive)(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			  coll_sink_t *sink);
	/*
	 * The next n bytes of the payload, in order, in pieces of any size; host memory of the
	 * plugin, read before the call returns.  Pieces of 64 to 256 KiB suit caches best.
	 */
	void (*data)(const coll_host_t *host, uint64_t cookie, const void *bytes, uint64_t n);
	/*
	 * The message is complete (status COLL_SUCCESS, all of len delivered, also for len 0) or
	 * has failed (a code).  Exactly once for each arrive that returned 0, unless close comes
	 * first.
	 */
	void (*arrived)(const coll_host_t *host, uint64_t cookie, int32_t status);
	/*
	 * Nothing more will come from `peer` nor reach it; text says why ("connection reset").  The
	 * core decides whether that is an error.  At most once per peer.
	 */
	void (*peer_lost)(const coll_host_t *host, uint32_t peer, const char *text);

	/* ---- device memory; NULL without a driver ---- */

	/* Kind of memory at ptr: one COLL_MEM_* bit; *device its ordinal or -1.  Any thread. */
	uint32_t (*memory_kind)(const coll_host_t *host, const void *ptr, int32_t *device);
	/* Copies n bytes between any kinds of memory and blocks until done.  Any thread. */
	int32_t (*copy)(const coll_host_t *host, void *dst, const void *src, uint64_t n,
			coll_error_t *err);
	/*
	 * dst[i] = left[i] op right[i], count elements in host memory; dst may equal left or right.
	 * Any alignment.  COLL_AVG counts as sum.  Any thread.
	 */
	int32_t (*reduce)(const coll_host_t *host, void *dst, const void *left, const void *right,
			  uint64_t count, int32_t dtype, int32_t op);
};

/* ---------------------------------------------------------------- transport -- */

/*
 * Moves messages between ranks.  `ep` is what open() returned.  Mandatory: send, progress.
 */
typedef struct coll_transport {
	uint64_t size;

	/*
	 * Starts sending `send` to send->peer.  Must not block and must not refuse for want of
	 * room: what cannot go now is kept (send->plugin is there for links and offsets) and goes
	 * on in progress().  Messages to one peer arrive in the order in which they were sent. peer
	 * may be the own rank.  Returns 0: accepted, status will be set, perhaps already is.  A
	 * code: not accepted, nothing was started, status is ignored.
	 */
	int32_t (*send)(void *ep, coll_send_t *send, coll_error_t *err);

	/*
	 * Moves what can be moved without waiting: sends, and arrivals through host->arrive, data
	 * and arrived.  Should return within about a millisecond, more work or not.  Returns 1 if
	 * anything moved, 0 if not.  Failures are told by host->peer_lost and by the status of
	 * sends.
	 */
	int32_t (*progress)(void *ep);

	/*
	 * Optional, both or none: giving up, when an operation has failed.  cancel: `send` has
	 * status COLL_IN_PROGRESS; when it returns, neither send nor its buf is touched again.  The
	 * message either vanishes whole or still arrives whole with any content (what is left of
	 * one half on its way is copied); later messages to the peer are not affected.  drop: the
	 * arrival `cookie` is not complete; nothing is written to its sink any more, data and
	 * arrived are not called for it, the rest of the message is swallowed.  Neither blocks
	 * longer than a copy.  Without them the core closes the endpoint instead, and with it fails
	 * every communicator on it.
	 */
	void (*cancel)(void *ep, coll_send_t *send);
	void (*drop)(void *ep, uint64_t cookie);

	/*
	 * Optional, both or none: sleeping.  wait_fd gives a descriptor that becomes readable when
	 * progress() has something to do; it is the same for the whole life of ep and is only
	 * polled by the core.  arm is called directly before sleeping: 0 means nothing is pending
	 * and the descriptor will report what comes from now on; 1 means call progress again first.
	 * Without them the core sleeps in short steps.
	 */
	int32_t (*wait_fd)(void *ep);
	int32_t (*arm)(void *ep);

	/*
	 * Optional, both or none: registers memory with the hardware before it is used often.
	 * *handle is the plugin's.  Deregistered before close.  May block briefly.
	 */
	int32_t (*mem_register)(void *ep, void *ptr, uint64_t bytes, uint32_t memory, void **handle,
				coll_error_t *err);
	void (*mem_deregister)(void *ep, void *handle);

	/*
	 * Optional: in a child process, right after fork, in the thread that forked.  Closes the
	 * endpoint's descriptors, so that the child does not hide its parent's death from the peers,
	 * and nothing else: no locks, no memory, no host.  Nothing is called for ep in the child
	 * afterwards.
	 */
	void (*forked)(void *ep);

	/*
	 * Optional, since minor 1: the kinds of memory this endpoint takes, COLL_MEM_* bits, some of
	 * backend.memory's; the same on all ranks.  Asked once, after open.  NULL: backend.memory.
	 */
	uint32_t (*memory)(void *ep);
} coll_transport_t;

/* ------------------------------------------------------------------- native -- */

/*
 * Whole operations.  Each `int32_t (*)(void *ep, const coll_args_t *args, coll_error_t *err)`
 * enqueues the operation on args->stream (NULL: the endpoint's own stream) and does not block.
 * Arguments have been checked by the core: types, root, NULL buffers, in-place overlap, memory
 * kind.  Buffers stay valid until the stream has passed the operation.  args and its arrays are
 * valid during the call only.  COLL_ERR_UNSUPPORTED (this dtype, this op) makes the core do it over
 * the transport group, if there is one.  All optional.
 */
typedef struct coll_native {
	uint64_t size;

	int32_t (*allreduce)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*broadcast)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*reduce)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*allgather)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*reduce_scatter)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*alltoall)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*gather)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*scatter)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*allgatherv)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*reduce_scatterv)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*alltoallv)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*gatherv)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*scatterv)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*barrier)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*send)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*recv)(void *ep, const coll_args_t *args, coll_error_t *err);

	/*
	 * Both or none: operations between them, on this and other endpoints of the calling thread,
	 * may be merged and start at group_end.  Every begin that succeeded has its end, also after an
	 * abort or a failure; until all endpoints of the thread's group have had theirs, none of them
	 * is queried.
	 */
	int32_t (*group_begin)(void *ep, coll_error_t *err);
	int32_t (*group_end)(void *ep, coll_error_t *err);

	/*
	 * Mandatory in this group.  Has everything enqueued on the endpoint's own stream completed?
	 * COLL_SUCCESS, COLL_IN_PROGRESS, or the error of what failed.  Does not block.  Without a
	 * transport it comes when somebody waits or tests, and every 256 operations at the latest.
	 */
	int32_t (*query)(void *ep, coll_error_t *err);
	/*
	 * Optional: blocks at most timeout_ms until query would not say COLL_IN_PROGRESS; COLL_SUCCESS
	 * only if it would say that.
	 */
	int32_t (*sync)(void *ep, int64_t timeout_ms, coll_error_t *err);
	/*
	 * Optional: COLL_SUCCESS while the engine is well, else its failure.  Does not block.  Asked
	 * while operations are under way, and by coll_comm_get_async_error.
	 */
	int32_t (*async_error)(void *ep, coll_error_t *err);
	/*
	 * Optional: ends everything enqueued, within a second.  From any thread, at the same time
	 * as any other call for ep except close; may come more than once.
	 */
	void (*abort)(void *ep);

	/*
	 * Optional, and called only without a transport: collective over the ranks of ep, on which
	 * nothing is under way.  Makes the endpoint for the group of this rank's colour, whose host
	 * table is `newhost`: it has the rank and the key there, and its exchange is among the group;
	 * colour -1: *newep = NULL, newhost is NULL.  May block at most newhost->timeout_ms (the
	 * parent's for colour -1).  ep is closed after *newep.  On a code as in open.  If it is NULL
	 * the core calls open for each group.
	 */
	int32_t (*split)(void *ep, int32_t color, int32_t key, const coll_host_t *newhost,
			 void **newep, coll_error_t *err);
	/*
	 * Optional: as split for the ranks not in exclude[0..n) (ascending), which may be dead.  May
	 * come after abort and with operations under way.  newhost->exchange answers
	 * COLL_ERR_UNSUPPORTED, since the meeting of ep's ranks may have lost one: they must find
	 * each other by ep.  Its key is a new one, equal on all that stay.
	 */
	int32_t (*shrink)(void *ep, const int32_t *exclude, int32_t n, const coll_host_t *newhost,
			  void **newep, coll_error_t *err);

	/*
	 * All or none, and used only without a transport: events on device streams, timing disabled.
	 * stream NULL is the endpoint's own; that they are there means that args->stream may be other
	 * than NULL.  event_record and event_wait may come with another endpoint of this backend in
	 * this process than the one that made the event, the others come with that one; calls for one
	 * event are serialised.  None of them blocks, except event_synchronize (at most timeout_ms,
	 * then COLL_ERR_TIMEOUT).  The core also records up to 16 of its own, to tell how far a long row
	 * of operations is.  event_query: COLL_SUCCESS, COLL_IN_PROGRESS, or the error of what
	 * failed before it.  Who waits for an event already waits for where it was recorded then.
	 */
	int32_t (*event_create)(void *ep, void **event, coll_error_t *err);
	void (*event_destroy)(void *ep, void *event);
	int32_t (*event_record)(void *ep, void *event, coll_stream_t stream, coll_error_t *err);
	int32_t (*event_wait)(void *ep, void *event, coll_stream_t stream, coll_error_t *err);
	int32_t (*event_query)(void *ep, void *event, coll_error_t *err);
	int32_t (*event_synchronize)(void *ep, void *event, int64_t timeout_ms, coll_error_t *err);

	/* Optional: an operation "sum of scalar * x"; *op is then seen in args->op. */
	int32_t (*op_create_pre_mul_sum)(void *ep, int32_t *op, const void *scalar, int32_t dtype,
					 int32_t residence, coll_error_t *err);
	int32_t (*op_destroy)(void *ep, int32_t op, coll_error_t *err);

	/* Optional, both or none: as in coll_transport_t, and used only without a transport. */
	int32_t (*mem_register)(void *ep, void *ptr, uint64_t bytes, uint32_t memory, void **handle,
				coll_error_t *err);
	void (*mem_deregister)(void *ep, void *handle);

	/* Optional: the engine's own communicator object, for experts. */
	void *(*handle)(void *ep);

	/*
	 * Optional, since minor 2: the ordinal of the CUDA device that the endpoint is on, or -1.
	 * Asked once, after open; coll_comm_device says it, and it is host->device of what is split
	 * from here.  NULL: host->device.
	 */
	int32_t (*device)(void *ep);

	/*
	 * Optional, since minor 2, and called only without a transport: will the slot of this kind do
	 * the operation?  COLL_SUCCESS, or COLL_ERR_UNSUPPORTED with the reason, which the call then
	 * returns; what the slot itself refuses fails the communicator.  Asked when an operation is
	 * issued or prepared that differs from those before it by more than its buffers, count and
	 * tag; only kind, dtype, op and root of args may be looked at.  Does not block.
	 */
	int32_t (*takes)(void *ep, const coll_args_t *args, coll_error_t *err);
} coll_native_t;

/* ------------------------------------------------------------------ backend -- */

/* Bits of coll_backend_t.flags. */
enum {
	COLL_BACKEND_IN_PROCESS = 1, /* usable only if all ranks live in one process */
	COLL_BACKEND_BY_NAME = 2     /* never chosen by priority between processes, only by name */
};

typedef struct coll_backend {
	uint64_t size;           /* sizeof(coll_backend_t) */
	uint32_t abi_minor;      /* COLL_BACKEND_ABI_MINOR */
	uint32_t flags;          /* COLL_BACKEND_* */
	const char *name;        /* [a-z][a-z0-9_]*, at most 31 bytes; the file is coll_<name>.so */
	const char *version;     /* the plugin's own; must be equal on all ranks */
	const char *description; /* one line for `coll info` */
	int32_t priority;        /* default; higher is better; tcp 10, ucx 50, nccl 100 */
	/*
	 * COLL_MEM_* bits the backend takes, at best: transport->memory.  Without COLL_MEM_HOST it is
	 * neither chosen by priority nor probed for that where the application does not use CUDA: see
	 * coll_config_t.device.
	 */
	uint32_t memory;
	const coll_option_t *options; /* may be NULL */
	uint32_t option_count;
	uint32_t option_size;              /* sizeof(coll_option_t) */
	const coll_transport_t *transport; /* or NULL */
	const coll_native_t *native;       /* or NULL; at least one of the two */

	/*
	 * Can this process use the backend now?  Optional; NULL means yes.  Cheap: no threads, no
	 * device context, no network, no lasting effect.  May open vendor libraries.  host->rank,
	 * nranks, exchange and what follows it are not available.  0, or a code with the reason in
	 * *err ("libucp.so.0: cannot open shared object file").
	 */
	int32_t (*probe)(const coll_host_t *host, coll_error_t *err);

	/*
	 * Makes the endpoint of this rank.  Mandatory, collective, may block up to
	 * host->timeout_ms. Ranks find each other by host->exchange.  On a code *ep may be NULL or
	 * half-made: the core then calls close with it if it is not NULL.
	 */
	int32_t (*open)(const coll_host_t *host, void **ep, coll_error_t *err);

	/*
	 * Frees the endpoint.  Mandatory, not collective; may block up to timeout_ms to hand
	 * accepted sends to the network, with 0 not at all.  Sends that are not complete are
	 * dropped; their memory is not touched afterwards.  Must cope with what a failed open left.
	 */
	void (*close)(void *ep, int64_t timeout_ms);

	/*
	 * Optional: opens the n endpoints of all ranks of one process at once (ncclCommInitAll's way),
	 * for coll_comm_init_all and in the thread that called it; n may be 1.  hosts[i] is rank i's,
	 * eps[i] becomes its endpoint; the two arrays are valid during the call only.  May block up
	 * to hosts[0]->timeout_ms; host->exchange must not be used.  On a code each eps[i], NULL at
	 * first, may be half-made, as in open.  NULL: the core calls open for each rank in a thread
	 * of its own.
	 */
	int32_t (*open_all)(const coll_host_t *const *hosts, uint32_t n, void **eps,
			    coll_error_t *err);

	/*
	 * Optional: further facts for `coll info` as one line of text (library versions,
	 * transports), written to buf[0..size).  Same limits as probe.
	 */
	int32_t (*info)(const coll_host_t *host, char *buf, uint64_t size);
} coll_backend_t;

/* The one symbol a plugin exports. */
extern COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1;

#ifdef __cplusplus
}
#endif
#endif
