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
 * The constant points to one or both of two groups of functions ("slots"):
 *
 *   transport   send and progress, which move messages.  The core composes every collective from
 *               these messages.
 *   native      whole collectives, for engines that have collectives of their own (NCCL).
 *
 * A slot of `native` may be NULL: the core then does the operation over `transport`.  If neither
 * group can do an operation, the user gets COLL_ERR_UNSUPPORTED.  To write a backend, copy the
 * folder backend of the installed examples (`pkg-config --variable=examplesdir coll`).
 *
 * A backend lives as follows.  The core loads the file once.  When the ranks have met and may choose the
 * backend, the core calls probe(), which says whether this process can use it.  The file's name is the backend's name, so the core does not open
 * a file that the user's option `backend` rules out, except the companion of another backend
 * (option `companion`).  When all ranks have agreed on the backend, the core calls
 * open() on every rank; open() makes the rank's endpoint (`ep`).  The core passes the endpoint to
 * all other slots and ends it with close().  When the process ends the core calls finish().
 *
 * The plugin links nothing of libcoll.  The functions of the core that a plugin needs are pointers
 * in coll_host_t, so the plugin also works in programs that load libraries RTLD_LOCAL.
 *
 * ABI promise    A binary built against this header loads and works in every later libcoll of the
 *                same ABI major (the number in the symbol's name).  Structs grow only at their end,
 *                and each struct begins with its size.  A reader uses the smaller of its own size
 *                and the writer's, and takes missing fields for 0.  A plugin that needs a newer
 *                host than it finds says so in probe(), with both versions in the text.
 * Results        A function returns COLL_SUCCESS or a COLL_ERR_* code of coll.h.  With a code it
 *                also fills *err.  The text reaches the user unchanged: it says which action
 *                failed, where, and how the user can mend it.
 * Strings        A string given by the plugin must stay valid for ever (the core never unloads a
 *                plugin).  A string given by the core is valid for the duration of the call.
 * Threads        The core may call probe and open in several threads at once (one call for each
 *                communicator).  The core serialises all calls for one endpoint, on changing
 *                threads; calls for different endpoints run at the same time.  Exception: the core
 *                may call native->abort at any time.
 * Cancelling     The program may cancel a thread (pthread_cancel).  A system call that is a
 *                cancellation point would then end the thread inside the plugin, with the locks of the
 *                core.  The core prevents that around open and close, and in a wait that has begun to
 *                sleep.  In its other functions the plugin disables cancellation around such calls
 *                (pthread_setcancelstate).
 * Blocking       No function may block, except open, close and the functions whose comments say
 *                "may block".  These block at most for the timeout that they are given.  A native
 *                slot that finds its engine still connecting to a peer may wait for the peer, at
 *                most host->timeout_ms and until an abort.  The functions of the transport group must
 *                not wait for a CUDA device either (cuCtxSynchronize, cuMemFree): a stream of the
 *                program may be held there until the messages have come.
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

/* The major is part of the symbol's name.  The minor counts additions to the structs. */
#define COLL_BACKEND_ABI_MAJOR 1
#define COLL_BACKEND_ABI_MINOR 6
#define COLL_BACKEND_SYMBOL    "coll_backend_v1"

/* The text of a returned code.  The caller of a function owns the struct; the function fills it. */
typedef struct coll_error {
	uint32_t size;
	int32_t code;   /* the returned code */
	char text[504]; /* NUL-terminated sentence without final full stop or newline */
} coll_error_t;

/* Kinds of memory, as bits. */
enum { COLL_MEM_HOST = 1, COLL_MEM_CUDA = 2, COLL_MEM_CUDA_MANAGED = 4 };

/* Levels of host->log. */
enum {
	COLL_LOG_NONE = -1, /* not a level */
	COLL_LOG_ERROR = 0,
	COLL_LOG_WARN = 1,
	COLL_LOG_INFO = 2,
	COLL_LOG_DEBUG = 3,
	COLL_LOG_TRACE = 4
};

/* ------------------------------------------------------------------ options -- */

enum {
	COLL_OPTION_NONE = -1, /* not a type */
	COLL_OPTION_STRING = 0,
	COLL_OPTION_INT = 1,   /* number; min..max */
	COLL_OPTION_BOOL = 2,  /* yes/no, true/false, on/off, 1/0 */
	COLL_OPTION_BYTES = 3, /* number with optional K, M, G (powers of 1024); min..max */
	COLL_OPTION_DURATION =
		4 /* number with optional us, ms, s, min; in microseconds; min..max */
};

/*
 * One option of the backend: the user sets `key` in section [name] of coll.conf, or the environment
 * variable COLL_<NAME>_<KEY>.  Because the backend declares its options, `coll info` can list them
 * and the core finds wrong values before open.  The key "priority" exists for every backend; the
 * plugin does not declare it.  A STRING option with the key "interface" has the value of the core's
 * option `interface` unless the user sets it.  A STRING option that takes one of a few words names
 * them in `unit`, separated by '|' ("none|integrity|encrypt"): the core refuses every other value
 * with its source.  A core before ABI 1.4 takes every value.  The core accepts the section of a plugin
 * that it does not open, and reads its key "security" only.
 *
 * The key "security" belongs to a backend that can protect messages between hosts.  Its value asks for
 * protection, unless it is unset, "none", "no", "off", "false" or "0".  If the user asks so in any
 * section, ranks on several hosts use only backends that declare the key and whose own value asks for
 * protection; they keep it between hosts, or fail in open.  Ranks that all run on one host use any
 * backend.
 */
typedef struct coll_option {
	const char *key;      /* lower case, '_' between words */
	const char *fallback; /* the default, written as a user would; NULL: none */
	const char *unit;     /* "seconds", "bytes" or ""; STRING: "" or the words, "no|yes|auto" */
	const char *help;     /* one line */
	int64_t min, max;     /* INT, BYTES, DURATION */
	int32_t type;         /* COLL_OPTION_* */
	int32_t reserved;
} coll_option_t;

/* ------------------------------------------------------------ messages -- */

/*
 * The envelope of a message.  The sending core makes it; the plugin delivers it, bit for bit and
 * ahead of the payload, to the receiving core.  The plugin may read `len` only.
 */
typedef struct coll_header {
	uint64_t tag;
	uint64_t meta[2];
	uint64_t len; /* bytes of payload; may be 0 */
} coll_header_t;

/*
 * A send request.  The core owns the struct and keeps it valid and unchanged from an accepted
 * send() until the plugin sets `status`.  The plugin may write `status` and `plugin` only.
 */
typedef struct coll_send {
	coll_header_t header;
	const void *buf; /* payload: header.len bytes; NULL if len is 0 */
	uint32_t peer;   /* rank of the receiver */
	/*
	 * State of the request.  The core sets it to COLL_IN_PROGRESS before it calls send().  The
	 * plugin sets it, inside send or progress, to COLL_SUCCESS as soon as the core may reuse
	 * buf (the peer need not have the payload yet), or to a code if the message has failed.
	 */
	int32_t status;
	uint64_t plugin[6]; /* for the plugin's own use; 0 when the core calls send() */
	uint32_t memory;    /* kind of memory at buf: one COLL_MEM_* bit */
	uint32_t reserved;  /* 0 */
} coll_send_t;

/*
 * A receive descriptor: the place for the payload of an arriving message.  host->arrive fills it.
 */
typedef struct coll_sink {
	uint64_t cookie; /* number of the message for host->data, host->arrived and drop */
	/*
	 * Not NULL: the plugin may write the payload straight to buf, in any order.  NULL: the
	 * plugin must hand the payload to host->data (for example because the core reduces it).
	 */
	void *buf;
	uint32_t memory;   /* kind of memory at buf: one COLL_MEM_* bit */
	uint32_t reserved; /* 0 */
} coll_sink_t;

/* --------------------------------------------------------------------- host -- */

/*
 * Things that two ranks can share, as bits of host->shares.  The core finds out before open.  Two ranks
 * that share a thing with the same third rank share it with each other, so all ranks agree whether all
 * ranks share a thing.  Where a rank cannot find out, its process shares the thing with no other
 * process.
 */
enum {
	/* The process: both ranks are threads of it. */
	COLL_SHARES_PROCESS = 1,
	/* The running kernel, and so the memory of the host: a memfd works for both. */
	COLL_SHARES_HOST = 2,
	/*
	 * The kernel and the network namespace: abstract Unix sockets and the loopback device reach the
	 * other rank, and a Unix socket can hand over descriptors.
	 */
	COLL_SHARES_NETWORK = 4,
	/* The kernel and the PID namespace: a process id means the same process to both. */
	COLL_SHARES_PIDS = 8,
	/* The kernel and the mount namespace: a path means the same file to both, also in /dev/shm. */
	COLL_SHARES_FILES = 16,
	/* The kernel and the IPC namespace: an id means the same System V shared memory to both. */
	COLL_SHARES_IPC = 32,
	/* The processors of their host, which are fewer than its ranks: they take turns on them. */
	COLL_SHARES_PROCESSORS = 64
};

/*
 * The core's functions and facts for a plugin.  The core makes a table for each probe, valid until
 * probe returns, and a table for each endpoint, valid from the call of open until close has
 * returned.  Functions marked "any thread" may be called by any thread of the plugin, all others
 * only inside a call of the core.
 */
typedef struct coll_host coll_host_t;
struct coll_host {
	uint64_t size;
	uint32_t abi_minor; /* of this host */
	uint32_t rank;      /* of this endpoint; 0 in probe */
	uint32_t nranks;    /* ranks of the communicator; 0 in probe */
	int32_t device;     /* CUDA device ordinal for this rank, -1: the current device */
	int64_t timeout_ms; /* longest time to spend in open; every wait in open must obey it */
	/*
	 * A key that all ranks of this communicator share.  The ranks prove with it who they are
	 * (see mac).  key_is_secret tells whether others can know the key.  The plugin must never
	 * send it.
	 */
	uint8_t key[16];
	void *core; /* for the core's own use */

	/*
	 * Logs one finished line `text`, without newline, in the name of the backend and with the
	 * rank of the endpoint.  The core drops lines above the level that the user has set for the
	 * backend (`log = warn,tcp:debug`), or else for all lines.  Any thread.
	 */
	void (*log)(const coll_host_t *host, int32_t level, const char *text);

	/*
	 * Return the value of an option that the plugin declared.  The core has resolved section
	 * and precedence and has checked the value against type and range; without a setting of the
	 * user the value is the default.  For a key that was not declared, or has another type,
	 * they return NULL or 0.  Any thread.
	 */
	const char *(*option_string)(const coll_host_t *host, const char *key);
	int64_t (*option_int)(const coll_host_t *host,
			      const char *key); /* INT, BOOL, BYTES, DURATION */

	/*
	 * Allgather of bytes among the ranks of the communicator, over the core's own bootstrap.
	 *
	 * in            len bytes of this rank.
	 * out           Receives nranks * len bytes in rank order.
	 * len           The same on all ranks.
	 * timeout_ms    The call blocks at most for this time; then the text names the ranks not
	 *               heard from.
	 *
	 * The call is collective: every rank must make the same number of exchanges.  A rank that
	 * has failed therefore calls exchange_fail instead of its next exchange, and leaves no
	 * other rank waiting.  After a code the plugin makes no more exchanges.  Allowed in open
	 * and native->split only; in the split of a backend with a transport it returns
	 * COLL_ERR_UNSUPPORTED.
	 */
	int32_t (*exchange)(const coll_host_t *host, const void *in, void *out, uint64_t len,
			    int64_t timeout_ms, coll_error_t *err);

	/*
	 * Computes the 16 bytes of SipHash-2-4-128 of `data` under `key`: only a process that has
	 * the key can compute them.  Any thread.
	 */
	void (*mac)(const coll_host_t *host, const void *data, uint64_t len, uint8_t out[16]);

	/*
	 * Returns non-zero once a thread aborts the communicator (within split and shrink also the
	 * communicator from which the new communicator is made), and within open, split and
	 * shrink, on their thread, once another rank is known to have failed.  Code that blocks
	 * must then end.  Any thread.
	 * Since minor 4, for a backend without a transport: a plugin whose slot waits for other
	 * ranks calls the function again and again, and holds no lock of its own meanwhile.  The
	 * core moves operations of its other endpoints in the call, and polls this endpoint.
	 * Since minor 5 the same holds for the split of a backend with a transport: the call moves the
	 * messages and operations of all communicators on the connections, as every wait does.  So
	 * the core calls progress() of the endpoint of open, and the slots of this endpoint and of
	 * other endpoints of split, but not split.
	 */
	int32_t (*aborted)(const coll_host_t *host);

	/*
	 * Returns memory aligned to 64 bytes (large pieces on huge pages where possible), or NULL.
	 * The plugin frees it with `free`.  Any thread.
	 */
	void *(*alloc)(const coll_host_t *host, uint64_t bytes);
	void (*free)(const coll_host_t *host, void *ptr, uint64_t bytes);

	/*
	 * ---- receiving ----
	 *
	 * The transport calls these four only from inside its progress().  For each message it
	 * calls arrive once, then data zero or more times, then arrived once, or, for a message that has
	 * come whole, `message` (below) instead of all three.  Inside these calls
	 * the core never calls the plugin.
	 */

	/*
	 * Announces the envelope of a message from `peer`.  The core matches it with a receive and
	 * fills *sink.  Returns 0, or a code: then the peer cannot be trusted any more, and the
	 * transport must close the connection and must call nothing else for this message.
	 */
	int32_t (*arrive)(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			  coll_sink_t *sink);
	/*
	 * Hands over the next n bytes of the payload, in order, in pieces of any size.  `bytes` is
	 * host memory of the plugin; the core has read it when the call returns.  Pieces of 64 to
	 * 256 KiB suit caches best.
	 */
	void (*data)(const coll_host_t *host, uint64_t cookie, const void *bytes, uint64_t n);
	/*
	 * Completes a receive.  status COLL_SUCCESS: the transport has delivered all `len` bytes
	 * (also if len is 0).  A code: the message has failed.  COLL_ERR_ABORTED, since minor 6: the
	 * sender has given the message up (coll_transport_t.cancel), so its bytes may be any, and the
	 * receive waits on as if no message had come.  The transport calls it exactly once
	 * for each arrive that returned 0, unless the core calls close first.
	 */
	void (*arrived)(const coll_host_t *host, uint64_t cookie, int32_t status);
	/*
	 * Reports that no more messages will come from `peer` or reach it; text says why
	 * ("connection reset").  The core decides whether that is an error.  At most once for each
	 * peer.
	 */
	void (*peer_lost)(const coll_host_t *host, uint32_t peer, const char *text);

	/* ---- device memory: NULL if the process has no CUDA driver ---- */

	/*
	 * Returns the kind of memory at ptr, one COLL_MEM_* bit; *device becomes the ordinal of its
	 * device, or -1.  Any thread.
	 */
	uint32_t (*memory_kind)(const coll_host_t *host, const void *ptr, int32_t *device);
	/*
	 * Copies n bytes between any kinds of memory.  Blocks until the copy is done.  Any thread.
	 */
	int32_t (*copy)(const coll_host_t *host, void *dst, const void *src, uint64_t n,
			coll_error_t *err);

	/* ---- arithmetic ---- */

	/*
	 * Computes dst[i] = left[i] op right[i] for count elements in host memory; dst may equal
	 * left or right.  Any alignment.  COLL_AVG counts as COLL_SUM.  Any thread.
	 */
	int32_t (*reduce)(const coll_host_t *host, void *dst, const void *left, const void *right,
			  uint64_t count, int32_t dtype, int32_t op);

	/*
	 * Since minor 3: takes part in the other ranks' next exchange, of any length, with a
	 * failure in place of bytes.  The exchange of every rank then returns `code`, with `text`
	 * and this rank's number in the text; COLL_ERR_ABORTED is COLL_ERR_REMOTE on the other
	 * ranks.  If several ranks have failed, all ranks get the failure of the lowest of these
	 * ranks.  A failure that blames another rank (COLL_ERR_REMOTE, COLL_ERR_PEER_LOST,
	 * COLL_ERR_TIMEOUT, and COLL_ERR_ABORTED after `aborted` has told of a failed rank) counts
	 * only if every failure does.
	 * Returns `code`: `return host->exchange_fail(host, code, err->text, host->timeout_ms);`.
	 *
	 * code          A COLL_ERR_* code; open then returns it.
	 * text          As in coll_error_t; NULL: the sentence of the code.
	 * timeout_ms    The call blocks at most for this time.
	 *
	 * A plugin calls it at most once in an open or split, and where it would call exchange.  In
	 * an older core host->size is too small for it: there the plugin only returns the code, and
	 * the other ranks get an error without the reason.
	 */
	int32_t (*exchange_fail)(const coll_host_t *host, int32_t code, const char *text,
				 int64_t timeout_ms);

	/*
	 * Since minor 4: 1 if only the ranks can know `key`.  0: the user gave no secret (a launcher
	 * or COLL_ROOT without COLL_KEY), and others can compute the key; or the core is older.
	 */
	uint32_t key_is_secret;
	uint32_t reserved; /* 0 */

	/*
	 * Since minor 4: for each rank the things that it shares with this rank, nranks bytes of
	 * COLL_SHARES_* bits.  This rank's own byte has all bits, except that COLL_SHARES_PROCESSORS is
	 * as in the bytes of the other ranks of the host.  Valid as long as the table.  NULL in probe,
	 * and missing in an older core (host->size is too small): the plugin then connects the ranks as
	 * ranks that share nothing.
	 */
	const uint8_t *shares;

	/*
	 * Since minor 4: returns 1 if a receive waits for the message with this envelope, or if the
	 * core wants the message at once.  Returns 0 if the core would store it in memory of its own,
	 * and copy it again later.  A transport need not ask.  If it asks and gets 0, it may leave the
	 * message unread, and with it the messages behind it, and ask again in its next progress().  It
	 * must still announce each message after a bounded number of calls of progress(), before arm()
	 * returns 0, and before it reports the peer as lost: the core may be waiting for a message
	 * behind.  Inside progress() only.  Missing in an older core (host->size is too small).
	 */
	int32_t (*posted)(const coll_host_t *host, uint32_t peer, const coll_header_t *header);

	/*
	 * Since minor 4: does what arrive, data and arrived (COLL_SUCCESS) do, in one call, for a
	 * message whose whole payload is at hand.  Returns as arrive.  A transport need not call it,
	 * but short messages cost less with it.
	 *
	 * bytes         header->len bytes of host memory of the plugin, at any alignment; the core has
	 *               read them when the call returns.
	 *
	 * Inside progress() only.  Missing in an older core (host->size is too small).
	 */
	int32_t (*message)(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			   const void *bytes);
};

/* ---------------------------------------------------------------- transport -- */

/*
 * Moves messages between ranks.  `ep` is the endpoint that open() made.  Mandatory: send, progress.
 */
typedef struct coll_transport {
	uint64_t size;

	/*
	 * Starts a message to send->peer, which may be the own rank.  Must not block, and must not
	 * refuse a message because a queue is full: the plugin queues a message that cannot go now
	 * (send->plugin has space for links and offsets) and continues it in progress().  Messages
	 * to one peer must arrive in the order of these calls.
	 *
	 * Returns 0 if the plugin has accepted the message; it then sets send->status now or later.
	 * Returns a code if not; then the plugin has started nothing, and the core ignores
	 * send->status.
	 */
	int32_t (*send)(void *ep, coll_send_t *send, coll_error_t *err);

	/*
	 * Moves all data that can move without waiting: queued sends, and receives through
	 * host->arrive, data and arrived.  It should return within about a millisecond, even if
	 * there is more work.  The plugin reports failures by host->peer_lost and by the status of
	 * sends.
	 *
	 * Returns 1 if any data moved, 0 if not.
	 */
	int32_t (*progress)(void *ep);

	/*
	 * Optional, both or none: the core gives up a message because its operation has failed.
	 * Neither function may block longer than a copy takes.  Without them the core closes the
	 * endpoint instead, and so fails every communicator on it.  A plugin without them also
	 * gives all sends to a lost rank their status before the progress that calls
	 * host->peer_lost returns, else the core closes the endpoint after that loss too.
	 *
	 * cancel    Gives up a send whose status is COLL_IN_PROGRESS.  After the return the plugin
	 *           touches neither `send` nor its buf.  The message either vanishes whole or still
	 *           arrives whole with any content (the plugin copies the rest of a message that is
	 *           half sent).  Later messages to the peer must not suffer.
	 * drop      Gives up the receive `cookie`, which is not complete.  The plugin writes
	 *           nothing more to its coll_sink_t.buf, does not call data or arrived for it, and
	 *           discards the rest of the message.
	 */
	void (*cancel)(void *ep, coll_send_t *send);
	void (*drop)(void *ep, uint64_t cookie);

	/*
	 * Optional, both or none: sleeping until data moves.  Without them the core sleeps in short
	 * steps.
	 *
	 * wait_fd   Returns a descriptor that becomes readable when progress() has work.  It is the
	 *           same for the whole life of ep.  The core only polls it.  A good plugin keeps
	 *           its descriptors above 2 (F_DUPFD_CLOEXEC): a daemon has closed stderr, and
	 *           a line that anybody prints would go into the plugin's descriptor.
	 * arm       The core calls it directly before it sleeps.  Returns 0 if nothing is pending
	 *           and the descriptor will report all work from now on; 1 if the core must call
	 *           progress again first.
	 */
	int32_t (*wait_fd)(void *ep);
	int32_t (*arm)(void *ep);

	/*
	 * Optional, both or none: registers `bytes` bytes at ptr with the hardware, because the
	 * program will use them often; `memory` is their kind.  The plugin sets *handle to a value
	 * of its own.  The core deregisters the memory before close.  May block briefly.
	 */
	int32_t (*mem_register)(void *ep, void *ptr, uint64_t bytes, uint32_t memory, void **handle,
				coll_error_t *err);
	void (*mem_deregister)(void *ep, void *handle);

	/*
	 * Optional: closes the endpoint's descriptors in a child process, so that the child does
	 * not hide its parent's death from the peers.  The core calls it right after fork, in the
	 * thread that forked.  It must do nothing else: no locks, no memory, no host.  The core
	 * calls nothing for ep in the child afterwards.
	 */
	void (*forked)(void *ep);

	/*
	 * Optional, since minor 1: returns the kinds of memory that this endpoint takes, COLL_MEM_*
	 * bits, a subset of coll_backend_t.memory and the same on all ranks.  The core asks once,
	 * after open.  NULL: coll_backend_t.memory.
	 */
	uint32_t (*memory)(void *ep);

	/*
	 * Optional, both or none, since minor 4: sending messages together.
	 *
	 * send_more  As send, except that the plugin may keep the message back until the core calls
	 *            flush or progress, in order to hand it to the system together with messages
	 *            that follow it to the same peer.  The plugin may also send at once; a large
	 *            message should go at once.  A message of send must not overtake messages of
	 *            send_more to the same peer.  The core may cancel a message that the plugin
	 *            keeps back.
	 * flush      Starts all messages that the plugin keeps back, as send would have done.  The
	 *            plugin queues a message that cannot go now.  Must not block.
	 *
	 * After send_more the core calls flush before it returns to the program, before it sleeps
	 * and before it computes for long, so a message never waits for a later call of the program.
	 * A core without these slots calls send only, so a plugin needs send in any case.
	 */
	int32_t (*send_more)(void *ep, coll_send_t *send, coll_error_t *err);
	void (*flush)(void *ep);

	/*
	 * Optional, since minor 5: writes facts about the endpoint's connections as one line of text
	 * to buf[0..size), with a final NUL; "" if there is nothing to say.  Must not block.  The core
	 * writes the line into the file of a failed communicator (option `dump`), and
	 * coll_comm_describe returns it.
	 */
	void (*describe)(void *ep, char *buf, uint64_t size);

	/*
	 * Optional, both or none, since minor 6: memory for the program (coll_mem_alloc), in which the
	 * buffers of messages are fastest.
	 *
	 * mem_alloc  Sets *ptr to `bytes` bytes of host memory, at least one, aligned to 64 bytes.  May
	 *            block until the system has the pages.  Where the plugin has nothing but ordinary
	 *            memory it returns COLL_ERR_UNSUPPORTED, and the core allocates ordinary memory.
	 * mem_free   Frees the memory, in any thread, perhaps while functions of endpoints run, and
	 *            perhaps after close.  No message uses the memory any more, but of cancelled
	 *            messages the plugin may still have a note.
	 *
	 * The memory belongs to the process: messages of every endpoint of the plugin may lie in it.
	 */
	int32_t (*mem_alloc)(void *ep, uint64_t bytes, void **ptr, coll_error_t *err);
	void (*mem_free)(void *ptr);
} coll_transport_t;

/* ------------------------------------------------------------------- native -- */

/*
 * Whole operations.  All slots are optional unless their comment says otherwise.
 *
 * Each slot `int32_t (*)(void *ep, const coll_args_t *args, coll_error_t *err)` enqueues the
 * operation on args->stream (NULL: the endpoint's own stream) and does not block.  The core has
 * checked the arguments: types, root, NULL buffers, in-place overlap, kind of memory.  The buffers
 * stay valid until the stream has executed the operation.  args and its arrays are valid during the
 * call only.  If a slot returns COLL_ERR_UNSUPPORTED (for this dtype, this op), the core does the
 * operation over the transport group, if the backend has one.  The operation then begins when the
 * operations before it are complete.  A plugin of an older minor gets no type and no operation that
 * came after it, here or in `takes`: since minor 4 COLL_BOOL to COLL_INT64_INT32, and COLL_LAND to
 * COLL_MAXLOC.  No plugin gets an opaque type (coll_dtype_opaque): the core does such calls over the
 * transport group alone.  SUM and MAX of COLL_BOOL come as COLL_LOR, PROD and MIN as COLL_LAND.  In
 * alltoallv, gatherv and scatterv a rank without elements may name another dtype than the other ranks.
 * So these slots take calls of every dtype or of none.
 *
 * For a backend with a transport the core calls these slots for the communicator for which it
 * called open.  Communicators that are split or duplicated from it share ep and use the transport,
 * unless the backend has the flag COLL_BACKEND_NATIVE_SPLIT (since minor 5): then a communicator that
 * coll_comm_split or coll_comm_dup has made has an endpoint of its own for these slots, beside ep for
 * the messages.  coll_comm_isplit, coll_comm_idup, a split in a group and coll_comm_shrink make
 * communicators that use the transport alone, because `split` may block.  The core compares the calls of the ranks over the transport, also the calls that the slots
 * execute.  It hashes the signatures of all collectives, and compares the hashes every 1,024
 * collectives, when a rank stalls, and when a rank leaves.  For a backend without a transport the
 * hashes go over the companion; without a companion (`companion = none`) calls that differ hang or
 * give wrong data, as the engine has it.
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
	 * Optional, both or none: a group.  The engine may merge the operations between begin and
	 * end, on this and other endpoints of the calling thread, and start them at group_end.  The
	 * core calls group_end for every group_begin that succeeded, also after an abort or a
	 * failure.  The core does not call `query` on any endpoint of the thread's group before it
	 * has called group_end on all endpoints of the group.
	 */
	int32_t (*group_begin)(void *ep, coll_error_t *err);
	int32_t (*group_end)(void *ep, coll_error_t *err);

	/*
	 * Mandatory in this group: tells whether all operations on the endpoint's own stream are
	 * complete.  Returns COLL_SUCCESS, COLL_IN_PROGRESS, or the error of the operation that
	 * failed.  Does not block.  For a backend without a transport the core calls it when a
	 * thread waits or tests, and after every 256 operations at the latest; with
	 * COLL_BACKEND_POLL also in waits while the endpoint has no operations under way, since
	 * other ranks may need its last data.
	 */
	int32_t (*query)(void *ep, coll_error_t *err);
	/*
	 * Optional: blocks, at most timeout_ms, until query would no longer return
	 * COLL_IN_PROGRESS.  Returns COLL_SUCCESS only if query would return it.
	 */
	int32_t (*sync)(void *ep, int64_t timeout_ms, coll_error_t *err);
	/*
	 * Optional: returns COLL_SUCCESS while the engine works, else the engine's failure.  Does
	 * not block.  The core calls it while operations are under way, and in
	 * coll_comm_get_async_error.
	 */
	int32_t (*async_error)(void *ep, coll_error_t *err);
	/*
	 * Optional: ends all enqueued operations within a second.  The core may call it from any
	 * thread, more than once, and at the same time as any other call for ep except close.
	 * Later `query` returns an error, for instance COLL_ERR_ABORTED, unless the operations were
	 * complete before.  Events behind ended operations may complete: the core asks the
	 * communicator.
	 */
	void (*abort)(void *ep);

	/*
	 * Optional: makes the endpoint of a split communicator.  The core calls it for backends
	 * without a transport, and since minor 5 for backends with the flag
	 * COLL_BACKEND_NATIVE_SPLIT, collectively over the ranks of ep, with no earlier collective
	 * under way on ep.  NULL: the core calls open for each new communicator.
	 *
	 * color     The ranks of equal colour form a communicator.  -1: this rank gets none;
	 *           newhost is NULL, and the function sets *newep to NULL.
	 * key       As in coll_comm_split.
	 * newhost   The host table of the new endpoint.  Its rank, nranks and key belong to the new
	 *           communicator, and its exchange runs among the ranks of the new communicator.
	 * newep     Becomes the new endpoint.  The core closes ep after *newep.
	 *
	 * May block at most newhost->timeout_ms (for colour -1: the timeout of ep's host table).
	 * After a code *newep is treated as after open.
	 *
	 * With a transport (COLL_BACKEND_NATIVE_SPLIT) these things differ:
	 *
	 * ep        The endpoint that open has made, or one that split has made.
	 * newhost   Is there for every rank; for colour -1 its rank and nranks are 0.  The ranks
	 *           find each other by ep: exchange returns COLL_ERR_UNSUPPORTED, and the functions
	 *           for receiving are missing.
	 * newep     Serves the slots of coll_native_t, and moves no messages.  Each rank by itself
	 *           closes it with timeout_ms 0: close must not wait for other ranks.  The core
	 *           closes the endpoint of open last; it may close an endpoint of split before
	 *           endpoints that were split from it.
	 *
	 * A code on one rank has all ranks close their *newep; the core then composes the operations
	 * of the new communicators from messages.  So a rank that fails leaves no other rank waiting.
	 * But COLL_ERR_TIMEOUT, COLL_ERR_ABORTED, COLL_ERR_REMOTE and COLL_ERR_PEER_LOST fail the
	 * communicator of ep, on all ranks: newhost->aborted tells the ranks that still wait.
	 * newhost->timeout_ms is at most the timeout of the communicator of ep.  On one rank the core
	 * calls one split at a time for all endpoints that open and split have made of one another.
	 */
	int32_t (*split)(void *ep, int32_t color, int32_t key, const coll_host_t *newhost,
			 void **newep, coll_error_t *err);
	/*
	 * Optional: makes the endpoint of the surviving ranks, as split does for a colour.
	 *
	 * exclude   n ranks in ascending order that do not take part and may be dead.
	 *
	 * The core may call it after abort and with operations under way.  The other ranks must
	 * find each other by ep: newhost->exchange returns COLL_ERR_UNSUPPORTED, because the
	 * bootstrap of ep's ranks may have lost a rank.  newhost->key is new, and equal on all
	 * remaining ranks.
	 * NULL: the core calls open for the new communicator, if the ranks have a companion, over
	 * which they exchange.
	 */
	int32_t (*shrink)(void *ep, const int32_t *exclude, int32_t n, const coll_host_t *newhost,
			  void **newep, coll_error_t *err);

	/*
	 * Optional, all or none: events on device streams, without timing.  The core uses them only
	 * for backends without a transport.  A backend that has them also takes streams other than
	 * NULL in args->stream.  A backend with a transport gets only NULL there: the core itself
	 * orders its operations with the program's streams.
	 *
	 * stream    NULL: the endpoint's own stream.
	 *
	 * The core may call event_record and event_wait with any endpoint of this backend in this
	 * process.  It calls the other event slots with the endpoint that made the event.  The core
	 * serialises the calls for one event.  No slot blocks, except event_synchronize (at most
	 * timeout_ms, then it returns COLL_ERR_TIMEOUT).  event_query returns COLL_SUCCESS,
	 * COLL_IN_PROGRESS, or the error of the work before the event.  Work that already waits for
	 * an event still waits for the old position when the event is recorded again.  The core
	 * also records up to 16 events of its own, to find out how many operations of a long
	 * sequence are complete.
	 */
	int32_t (*event_create)(void *ep, void **event, coll_error_t *err);
	void (*event_destroy)(void *ep, void *event);
	int32_t (*event_record)(void *ep, void *event, coll_stream_t stream, coll_error_t *err);
	int32_t (*event_wait)(void *ep, void *event, coll_stream_t stream, coll_error_t *err);
	int32_t (*event_query)(void *ep, void *event, coll_error_t *err);
	int32_t (*event_synchronize)(void *ep, void *event, int64_t timeout_ms, coll_error_t *err);

	/*
	 * Optional: makes and destroys an operation "sum of scalar * x" (see
	 * coll_red_op_create_pre_mul_sum).  *op becomes a number of the plugin's choice, which the
	 * core then passes in args->op.
	 */
	int32_t (*op_create_pre_mul_sum)(void *ep, int32_t *op, const void *scalar, int32_t dtype,
					 int32_t residence, coll_error_t *err);
	int32_t (*op_destroy)(void *ep, int32_t op, coll_error_t *err);

	/*
	 * Optional, both or none: as in coll_transport_t.  The core uses them only for backends
	 * without a transport.
	 */
	int32_t (*mem_register)(void *ep, void *ptr, uint64_t bytes, uint32_t memory, void **handle,
				coll_error_t *err);
	void (*mem_deregister)(void *ep, void *handle);

	/* Optional: returns the engine's own communicator object (coll_comm_native_handle). */
	void *(*handle)(void *ep);

	/*
	 * Optional, since minor 2: returns the ordinal of the endpoint's CUDA device, or -1.  The
	 * core asks once, after open.  coll_comm_device returns the ordinal, and endpoints split
	 * from this endpoint get it as host->device.  NULL: host->device.
	 */
	int32_t (*device)(void *ep);

	/*
	 * Optional, since minor 2: tells whether the slot of args->kind will do the operation.
	 * Returns COLL_SUCCESS, or COLL_ERR_UNSUPPORTED with the reason, which the user's call then
	 * returns unless the ranks' companion can do the operation (coll-memory(7)).  (An
	 * operation that the slot itself refuses fails the communicator instead.)  The function may
	 * read only kind, dtype, op, root and flags of args, and does not block.  The core calls it
	 * only for backends without a transport, when the program issues or prepares an operation that
	 * differs from the operations before it by more than its buffers, count and tag.
	 *
	 * Since minor 4 args->flags has COLL_ARGS_IN_PLACE if the operation is in place on this
	 * rank (coll.h, In place).  The core asks separately for operations in place and for other
	 * operations.  The plugin ignores other bits.  A plugin of an older minor gets 0.
	 */
	int32_t (*takes)(void *ep, const coll_args_t *args, coll_error_t *err);

	/*
	 * Optional, since minor 4, for a backend with the event_* slots: orders a stream with the
	 * operations.  The stream's later work begins after the operations issued before on ep,
	 * whatever their streams.  Operations issued later begin after the work that is on the stream
	 * now.  The core calls it on one rank alone, before and behind work of its own.  NULL: such
	 * work has an order with the endpoint's own stream only.
	 */
	int32_t (*take_place)(void *ep, coll_stream_t stream, coll_error_t *err);

	/* Since minor 5.  Rank 0 of an exscan leaves its recvbuf as it is, which may be NULL there. */
	int32_t (*scan)(void *ep, const coll_args_t *args, coll_error_t *err);
	int32_t (*exscan)(void *ep, const coll_args_t *args, coll_error_t *err);

	/*
	 * Optional, both or none, since minor 6: as in coll_transport_t, but the memory is of the kind
	 * that the slots take, on the endpoint's device.  The core uses them only for backends without
	 * a transport.
	 */
	int32_t (*mem_alloc)(void *ep, uint64_t bytes, void **ptr, coll_error_t *err);
	void (*mem_free)(void *ptr);
} coll_native_t;

/* Bits of coll_args_t.flags in the calls of the function `takes` (coll_native_t), since minor 4. */
enum { COLL_ARGS_IN_PLACE = 1 << 16 };

/* ------------------------------------------------------------------ backend -- */

/* Bits of coll_backend_t.flags. */
enum {
	/* The backend works only if all ranks live in one process. */
	COLL_BACKEND_IN_PROCESS = 1,
	/* Between processes the core chooses the backend only by name, never by priority. */
	COLL_BACKEND_BY_NAME = 2,
	/*
	 * Since minor 4, for a transport without wait_fd: while operations are under way, a thread
	 * that waits calls progress again and again; between two calls it yields its processor to
	 * other threads, but it does not sleep.  A small operation then takes microseconds instead
	 * of half a millisecond, and a waiting rank occupies a processor.
	 */
	COLL_BACKEND_POLL = 4,
	/*
	 * Since minor 4: `close` is collective.  The core calls it for an endpoint when every rank
	 * has given up its last communicator on the endpoint.  If a rank is lost, has aborted or
	 * does not come within destroy_timeout, the core calls close with timeout_ms 0, and then
	 * close must not wait for other ranks.  For ranks that are all threads of one process the
	 * core does not wait.
	 */
	COLL_BACKEND_CLOSE_TOGETHER = 8,
	/*
	 * Since minor 5, for a backend with a transport and with native->split: its native slots
	 * serve the communicators that are split or duplicated too (see coll_native_t).  A core
	 * before minor 5 composes the operations of these communicators from messages.
	 * transport->cancel and drop must be there: without them the failure of a communicator
	 * closes the endpoint, perhaps while split runs.
	 */
	COLL_BACKEND_NATIVE_SPLIT = 16,
	/*
	 * Since minor 5, for a backend with a transport that does not hear of every rank's death.
	 * If the user names a transport in the option `companion`, and the ranks do not all share
	 * their process ids (COLL_SHARES_PIDS), they are connected over that transport too: the
	 * core takes the end of such a connection for the loss of the rank, as after
	 * host->peer_lost.
	 */
	COLL_BACKEND_COMPANION = 32
};

typedef struct coll_backend {
	uint64_t size;           /* sizeof(coll_backend_t) */
	uint32_t abi_minor;      /* COLL_BACKEND_ABI_MINOR */
	uint32_t flags;          /* COLL_BACKEND_* */
	const char *name;        /* [a-z][a-z0-9_]*, at most 31 bytes; the file is coll_<name>.so */
	const char *version;     /* of the plugin; must be equal on all ranks */
	const char *description; /* one line for `coll info` */
	int32_t priority;        /* the default; the highest wins: tcp 10, ucx 50, nccl 100 */
	/*
	 * Kinds of memory that the backend takes at best, COLL_MEM_* bits; an endpoint may take
	 * fewer (transport->memory).  If the application does not use CUDA (coll_config_t.device),
	 * the core neither chooses a backend without COLL_MEM_HOST by priority nor probes it for
	 * that.
	 */
	uint32_t memory;
	const coll_option_t *options; /* may be NULL */
	uint32_t option_count;
	uint32_t option_size;              /* sizeof(coll_option_t) */
	const coll_transport_t *transport; /* or NULL */
	const coll_native_t *native;       /* or NULL; not both may be NULL */

	/*
	 * Optional: tells whether this process can use the backend now; NULL means yes.  Must be
	 * cheap: no threads, no device context, no network, no lasting effect.  May open vendor
	 * libraries.  host->rank and nranks are 0, and host->exchange and all functions after it
	 * are missing.
	 *
	 * Returns 0, or a code with the reason in *err ("libucp.so.0: cannot open shared object
	 * file").
	 */
	int32_t (*probe)(const coll_host_t *host, coll_error_t *err);

	/*
	 * Mandatory: makes the endpoint of this rank, which the ranks do collectively.  The ranks
	 * find each other by host->exchange.  May block up to host->timeout_ms.
	 *
	 * ep        Becomes the endpoint, not NULL.  On a code *ep may be NULL or half-made; the
	 *           core then calls close with it if it is not NULL.
	 */
	int32_t (*open)(const coll_host_t *host, void **ep, coll_error_t *err);

	/*
	 * Mandatory: frees the endpoint.  Not collective.  May block up to timeout_ms to hand
	 * accepted sends to the network; must not block with timeout_ms 0.  The plugin drops sends
	 * that are not complete and does not touch their memory afterwards.  Must accept a
	 * half-made endpoint of an open that failed.
	 */
	void (*close)(void *ep, int64_t timeout_ms);

	/*
	 * Optional: opens the endpoints of all ranks of one process at once (as ncclCommInitAll
	 * does), for coll_comm_init_all and in the thread that called it.  May block up to
	 * hosts[0]->timeout_ms, and must not use host->exchange.  NULL: the core calls open for
	 * each rank in a thread of its own.
	 *
	 * hosts     n host tables; hosts[i] is the table of rank i.  The array is valid during the
	 *           call.
	 * n         Number of ranks; may be 1.
	 * eps       n pointers, NULL at first; eps[i] becomes the endpoint of rank i.  On a code
	 *           each may be half-made, as in open.  The array is valid during the call.
	 */
	int32_t (*open_all)(const coll_host_t *const *hosts, uint32_t n, void **eps,
			    coll_error_t *err);

	/*
	 * Optional: writes further facts for `coll info` (library versions, transports) as one line
	 * of text to buf[0..size).  The limits of probe hold.
	 */
	int32_t (*info)(const coll_host_t *host, char *buf, uint64_t size);

	/*
	 * Since minor 4: the default priority if all ranks run on one host, in one network
	 * namespace, and the application does not use CUDA; 0: the same as priority.  A priority
	 * that the user has set counts instead.  tcp 60, simulated 70.
	 */
	int32_t host_priority;
	uint32_t reserved; /* 0 */

	/*
	 * Optional, since minor 4: the process ends.  The core calls it once, in a process that has
	 * called open, also if open failed, from exit() or the return of main, in the thread that
	 * ends the process.  It comes before the exit handlers that the engine's libraries
	 * installed in the first open.  Endpoints that the program has not closed are still open.  Other
	 * functions may still be called for these endpoints: by the core's threads (option
	 * `progress`, calls with a stream of the program) at the same time, and by whatever the
	 * program runs at exit afterwards.  These calls must then fail or do nothing.  The core does
	 * not call it after _exit, abort or a signal, nor in a forked child that has not called open
	 * itself.
	 */
	void (*finish)(void);
} coll_backend_t;

/* The only symbol that a plugin exports. */
extern COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1;

#ifdef __cplusplus
}
#endif
#endif
