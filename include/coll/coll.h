/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.h - collective communication on device pointers, one API for every engine.
 *
 * This header is the manual of libcoll for applications.  Backend authors read backend.h.
 *
 *   coll_comm_t comm;
 *
 *   coll_comm_init_env(&comm, NULL);
 *   coll_allreduce(x, x, n, COLL_FLOAT32, COLL_SUM, comm, NULL);
 *   coll_sync(comm);
 *   coll_comm_destroy(comm);
 *
 * The backend is chosen by COLL_BACKEND or coll.conf; x may be read after coll_sync.
 *
 * Conventions, valid for every function unless it says otherwise
 *
 * Return value   COLL_SUCCESS (0) or a COLL_ERR_* code.  The text that belongs to the code is read
 *                with coll_get_last_error() by the thread that made the call.
 * Blocking       Only functions whose comment says "blocks" wait for other ranks or for data; each
 *                of them is bounded by a timeout (coll_config_t, or `timeout` in coll.conf).
 *                An engine may have to connect to a peer before it can take more: with nccl a call
 *                after the first one between two ranks then waits for the peer, at most
 *                init_timeout, and until an abort.
 * Processes      A child made by fork has no part in its parent's communicators: there their
 *                handles are not valid.
 * Threads        Every function may be called from any thread.  Calls on one communicator are
 *                serialised by the library; their order is the order in which they are made, so
 *                threads that share a communicator must agree on one order among themselves.
 *                Different communicators are independent.
 * Order          A communicator executes its operations in the order in which they were issued.
 *                All ranks must issue the same collectives in the same order; ranks that do not
 *                get COLL_ERR_MISMATCH with both calls and ranks named.
 * Engines        What needs messages of the library's own is not there with a backend that has no
 *                transport (nccl): calls that differ are not compared (they hang or give wrong data,
 *                as the engine has it), a timeout does not name the ranks that are missing, and the
 *                peers of an abort see it as a timeout.
 * Buffers        Belong to the caller.  From the call until coll_sync() (or coll_barrier(), or the
 *                operation's request or event) has reported completion, send buffers must not be
 *                written and receive buffers neither read nor written.  Any alignment works.
 *                After an error, abort or destroy nothing of the library touches them any more.
 * Device memory  A buffer may be memory of a CUDA device, or managed: the library asks the CUDA driver,
 *                if there is one, when the operation is issued (with nccl not again for an address
 *                among those used last, which may have become the host's since: then it is CUDA that
 *                reports it).  A backend that does not take the buffer's kind, or a reduction of such
 *                buffers over a transport, is COLL_ERR_UNSUPPORTED with a sentence, unless
 *                `enable_gpu_fallback` lets the library copy through host memory, which it warns of
 *                each time.  Such copies are made in pieces of at most `segment` bytes (4 MiB if that
 *                is more), in both directions at the same time and beside the messages, on streams of
 *                the library's own; no call waits for them that does not wait for the operation.  An
 *                error, abort or destroy waits until none is under way, a second at most: a device
 *                that takes longer is logged, and may still touch the buffers.  Where there are no
 *                device streams the library knows of none: what fills a buffer must be complete before
 *                the call (synchronise your stream), and results are there once completion is reported.
 * Counts         Are in elements of `dtype`, never bytes.  Any value from 0 to what memory holds.
 * In place       Is asked for as in NCCL: allreduce, broadcast, reduce, alltoall: sendbuf == recvbuf;
 *                allgather, and gather on root: sendbuf == recvbuf + rank * count elements;
 *                reduce_scatter, and scatter on root: recvbuf == sendbuf + rank * count elements.
 *                The v-forms have the rank's displacement instead (reduce_scatterv: the sum of the
 *                counts before its own); alltoallv: sendbuf == recvbuf and equal counts and
 *                displacements for sending and receiving.  Each rank may do as it likes.
 *                Any other overlap of the two buffers is COLL_ERR_INVALID_ARGUMENT.
 * Progress       With the option `progress = caller` (default) data moves while some thread is in
 *                a call on the communicator; a thread that waits sleeps when nothing arrives.  With
 *                `progress = thread` each communicator made by coll_comm_init_* has a thread of the
 *                library's own that moves data at any time, and sleeps when there is none.
 * Reproducible   With the option `reproducible = yes` the result of a reduction depends on its
 *                inputs and their rank order only, bit for bit: not on backend, algorithm, sizes of
 *                pieces or placement of ranks.  Inputs x0, x1, ... are combined as T(0, nranks),
 *                where T(a, b) is x_a if b == a + 1 and else T(a, a + p) op T(a + p, b) with p the
 *                largest power of two below b - a.  The price: a reduction needs scratch memory as
 *                large as all its inputs at a rank (short calls), or as the buffer (long ones), and
 *                long calls take more and smaller messages than a ring.
 *                Without it results are the same from call to call, as long as backend, ranks,
 *                nodes, counts and options are; and equal on all ranks in any case.
 * After an error a communicator whose asynchronous error is set (coll_comm_get_async_error) answers
 *                every later operation with that error; what remains is to abort or destroy it.
 * FFI            Handles are opaque and pointer-sized, integers have fixed widths, nothing needs a
 *                macro, and structs that may grow begin with their size.
 */
#ifndef COLL_COLL_H
#define COLL_COLL_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#if defined(__GNUC__)
#define COLL_API __attribute__((visibility("default")))
#else
#define COLL_API
#endif

/* ---------------------------------------------------------------- results -- */

typedef int32_t coll_result_t;

/* Values 0 to 8 equal NCCL's; the library's own begin at 16. */
enum {
	COLL_SUCCESS = 0,
	COLL_ERR_DEVICE = 1,           /* the accelerator's driver or runtime reported an error */
	COLL_ERR_SYSTEM = 2,           /* a call into the operating system failed */
	COLL_ERR_INTERNAL = 3,         /* a fault of the library or of a plugin */
	COLL_ERR_INVALID_ARGUMENT = 4, /* an argument is wrong; the text names it */
	COLL_ERR_INVALID_USAGE = 5,    /* the call is not allowed in this state */
	COLL_ERR_REMOTE = 6,       /* another rank failed; the text holds its number and words */
	COLL_IN_PROGRESS = 7,      /* not an error: not yet complete */
	COLL_ERR_TIMEOUT = 8,      /* the text names the ranks not heard from */
	COLL_ERR_UNSUPPORTED = 16, /* the text says what to do instead */
	COLL_ERR_NO_MEMORY = 17,
	COLL_ERR_CONFIG = 18,    /* bad option; the text names file:line or variable */
	COLL_ERR_NOT_FOUND = 19, /* no backend of that name */
	COLL_ERR_PLUGIN = 20,    /* a plugin could not be loaded or opened */
	COLL_ERR_ABI = 21,       /* a plugin was built for an ABI this library does not speak */
	COLL_ERR_MISMATCH = 22,  /* ranks issued different operations */
	COLL_ERR_PEER_LOST = 23, /* a rank died or left */
	COLL_ERR_ABORTED = 24,   /* the communicator was aborted */
	COLL_ERR_VERSION = 25,   /* ranks run library versions that cannot talk to each other */
	COLL_ERR_PERMISSION = 26 /* refused for safety, or a stranger without the key */
};

/* ------------------------------------------------------------- data types -- */

typedef int32_t coll_dtype_t;

/* Values 0 to 11 equal NCCL's. */
enum {
	COLL_INT8 = 0,
	COLL_UINT8 = 1,
	COLL_INT32 = 2,
	COLL_UINT32 = 3,
	COLL_INT64 = 4,
	COLL_UINT64 = 5,
	COLL_FLOAT16 = 6,
	COLL_FLOAT32 = 7,
	COLL_FLOAT64 = 8,
	COLL_BFLOAT16 = 9,
	COLL_FLOAT8E4M3 = 10, /* OCP 8-bit: no infinity, NaN = 0x7f/0xff, largest 448 */
	COLL_FLOAT8E5M2 = 11, /* OCP 8-bit: IEEE-like, largest finite 57344 */
	COLL_INT16 = 32,
	COLL_UINT16 = 33
};

typedef int32_t coll_op_t;

/*
 * Values 0 to 4 equal NCCL's.  Integers wrap around (two's complement).  MIN and MAX return a NaN
 * if any input is one.  f16, bf16 and fp8 are computed in f32 and rounded to nearest even after
 * each step; AVG is SUM divided by the number of ranks at the end (integers: towards zero).
 * Every rank receives the same bits.  A backend that reduces by itself (nccl) rounds in its own way,
 * and its MIN and MAX may lose a NaN.
 */
enum {
	COLL_SUM = 0,
	COLL_PROD = 1,
	COLL_MAX = 2,
	COLL_MIN = 3,
	COLL_AVG = 4,
	COLL_BAND = 32, /* bitwise, integer types only */
	COLL_BOR = 33,
	COLL_BXOR = 34
	/* values from 256 on are made by coll_red_op_create_* */
};

/* Bytes of one element, or 0 if `dtype` is not a data type. */
COLL_API size_t coll_dtype_size(coll_dtype_t dtype);
/* "float32" and so on; "?" if unknown.  Static strings. */
COLL_API const char *coll_dtype_name(coll_dtype_t dtype);
COLL_API const char *coll_op_name(coll_op_t op);

/* ---------------------------------------------------------------- handles -- */

/*
 * A handle is a value, not an address: it stays safe to pass to any function after its object is
 * destroyed, and is then answered with COLL_ERR_INVALID_ARGUMENT.
 */
typedef struct coll_comm *coll_comm_t;
typedef struct coll_request *coll_request_t;
typedef struct coll_event *coll_event_t;

/*
 * A native stream handle (cudaStream_t for nccl), or NULL: the communicator's own stream.
 * Backends without device streams (tcp, simulated) take only NULL here.  An operation on another
 * stream is complete when that stream has passed it; coll_sync and requests do not wait for it, an
 * event recorded there does.
 */
typedef void *coll_stream_t;

/* ---------------------------------------------------- version and messages -- */

/* "1.2.3"; static. */
COLL_API const char *coll_version_string(void);
/* 10000 * major + 100 * minor + patch. */
COLL_API int32_t coll_version_number(void);
/* The meaning of a result code as a short sentence; static, never NULL. */
COLL_API const char *coll_error_string(coll_result_t result);
/*
 * With comm == NULL: the text of the calling thread's last failed call.  With a communicator: the
 * text of its asynchronous error, or "" if there is none.  Belongs to the calling thread's
 * storage; valid until its next call into the library.  Never NULL.
 */
COLL_API const char *coll_get_last_error(coll_comm_t comm);

/* ----------------------------------------------------------- configuration -- */

/*
 * What the application decides itself; it wins over environment and files.  Fill it with
 * coll_config_init(), then set fields.  Every field left as initialised means "not said here".
 * Strings are copied during the call that takes the struct.
 */
typedef struct coll_config {
	uint64_t size;              /* set by coll_config_init */
	const char *backend;        /* as COLL_BACKEND: "ucx,tcp", "^tcp" */
	const char *plugin_path;    /* as COLL_PLUGIN_PATH: directories separated by ':' */
	const char *config_file;    /* as COLL_CONFIG: read instead of the user's file */
	const char *interface_name; /* as COLL_INTERFACE: network interface or address to use */
	int64_t timeout_ms;         /* longest time without progress in any wait; -1: not said */
	int64_t init_timeout_ms;    /* the same while a communicator is made; -1: not said */
	/*
	 * CUDA device ordinal of this rank; -1: the current one.  A backend for device memory only
	 * (nccl) is chosen by its priority only where this is 0 or more or the application uses CUDA:
	 * it had initialised it before its first call that looks at backends, or the calling thread
	 * has a current context.  By its name always.
	 */
	int32_t device;
	int32_t reserved; /* 0 */
	const char *const
		*options; /* further "key=value" or "backend.key=value"; NULL-terminated */
} coll_config_t;

/*
 * Sets every field to "not said".  `size` is sizeof(coll_config_t) as the caller was compiled; a
 * smaller, older struct is accepted for ever.
 */
COLL_API coll_result_t coll_config_init(coll_config_t *config, size_t size);

/* --------------------------------------------------------- making communicators -- */

/* Room that always suffices for an id, its terminating NUL included. */
enum { COLL_UNIQUE_ID_SIZE = 512 };

/*
 * Makes an id for a new communicator: printable text, at most COLL_UNIQUE_ID_SIZE bytes with its
 * NUL, written to id[0..size).  It holds where rank 0 listens and a random 128-bit key: hand it to
 * the other ranks by a private way, since whoever has it may take part.  The calling process
 * starts listening and must be the one that then runs rank 0.  One id makes one communicator; an id
 * that is not used within its process's lifetime costs one open socket.
 */
COLL_API coll_result_t coll_get_unique_id(char *id, size_t size);

/*
 * Makes rank `rank` of `nranks`; every rank calls it with the same id.  Blocks until all ranks have
 * arrived or init_timeout has passed; then the text names the ranks not heard from.  `config` may
 * be NULL.  On an error *comm is NULL, and all ranks that arrived get an error.
 */
COLL_API coll_result_t coll_comm_init_rank(coll_comm_t *comm, int32_t nranks, const char *id,
					   int32_t rank, const coll_config_t *config);

/*
 * The same, with rank, size and meeting point from the environment: COLL_RANK, COLL_WORLD_SIZE and
 * COLL_ROOT (host:port of rank 0) as `coll run` sets them, else what torchrun, Open MPI, MPICH
 * (PMI) or Slurm set.  Without any of them: one rank.  COLL_KEY (any text) must be the same on all
 * ranks; without it strangers are kept out only by an identifier that is not secret.  The meeting
 * point serves one communicator at a time: threads of one process must not call this at once.
 */
COLL_API coll_result_t coll_comm_init_env(coll_comm_t *comm, const coll_config_t *config);

/*
 * An allgather of bytes among all ranks, supplied by the caller (over MPI, a key-value store, ...):
 * `in` holds len bytes of this rank, `out` receives nranks * len bytes in rank order.  len is equal
 * on all ranks.  Must return 0, or non-zero if it failed or took longer than timeout_ms.
 */
typedef int32_t (*coll_exchange_fn)(void *user, const void *in, void *out, size_t len,
				    int64_t timeout_ms);

/*
 * As coll_comm_init_rank, meeting over the caller's own exchange.  `exchange` is called only inside
 * coll_comm_init_exchange, coll_comm_split, _dup, _shrink and coll_comm_destroy, on their thread.
 */
COLL_API coll_result_t coll_comm_init_exchange(coll_comm_t *comm, int32_t nranks, int32_t rank,
					       coll_exchange_fn exchange, void *user,
					       const coll_config_t *config);

/*
 * Makes all `nranks` communicators of a group that lives in this process: comms[i] is rank i, on
 * CUDA device devices[i] where devices matter (NULL: device i, but no device is named by that, see
 * coll_config_t.device).  Either hand them to one thread each, or drive all of them from one thread
 * (issue the calls between coll_group_start and _end).
 */
COLL_API coll_result_t coll_comm_init_all(coll_comm_t *comms, int32_t nranks,
					  const int32_t *devices, const coll_config_t *config);

/*
 * Ends a communicator: waits until its operations are done (at most `destroy_timeout`, then they
 * are dropped with a logged warning), tells the peers, frees everything.  Not collective.  Never
 * ends the process.  The handle is invalid afterwards, whatever is returned.
 */
COLL_API coll_result_t coll_comm_destroy(coll_comm_t comm);

/*
 * Stops everything on the communicator, from any thread, also while another one waits in it: waits
 * return COLL_ERR_ABORTED within a second, peers get COLL_ERR_REMOTE.  Buffers may be reused when
 * it has returned.  May be called again; destroy must still follow.
 */
COLL_API coll_result_t coll_comm_abort(coll_comm_t comm);

/*
 * *error becomes the communicator's asynchronous error: COLL_SUCCESS while all is well, else the
 * code of the first failure.  Makes progress, does not block.
 */
COLL_API coll_result_t coll_comm_get_async_error(coll_comm_t comm, coll_result_t *error);

COLL_API coll_result_t coll_comm_count(coll_comm_t comm, int32_t *nranks);
COLL_API coll_result_t coll_comm_user_rank(coll_comm_t comm, int32_t *rank);
/*
 * CUDA device ordinal, or -1 if the communicator has none or, with coll_config_t.device = -1, its
 * backend cannot tell.
 */
COLL_API coll_result_t coll_comm_device(coll_comm_t comm, int32_t *device);
/* Name of the backend that was chosen; valid until the process ends. */
COLL_API coll_result_t coll_comm_backend(coll_comm_t comm, const char **name);
/* The backend's own object (ncclComm_t, ucp_worker_h) for experts; UNSUPPORTED if it has none. */
COLL_API coll_result_t coll_comm_native_handle(coll_comm_t comm, void **handle);

/* ------------------------------------------------------------ derived communicators -- */

enum { COLL_SPLIT_NOCOLOR = -1 };

/*
 * Collective over `comm`, blocks: ranks of equal colour (>= 0) form a new communicator, ordered by
 * key, then by old rank.  COLL_SPLIT_NOCOLOR takes part but gets *newcomm = NULL.  The new
 * communicator uses the old one's backend, connections and options; config is NULL.  Either may be
 * destroyed first.  In a group the call returns at once, and coll_group_end blocks and fills in
 * *newcomm: so one thread can split for all ranks of coll_comm_init_all.
 * Without a transport the backend makes new connections instead, for which the ranks meet as they
 * did for the first communicator: operations before it are waited for, and each step takes at most
 * init_timeout.  An abort by another thread ends it, but has to wait for an exchange function of the
 * application's own.
 */
COLL_API coll_result_t coll_comm_split(coll_comm_t comm, int32_t color, int32_t key,
				       coll_comm_t *newcomm, const coll_config_t *config);
/* As a split of all ranks in the same order: a communicator independent of `comm`. */
COLL_API coll_result_t coll_comm_dup(coll_comm_t comm, coll_comm_t *newcomm);
/*
 * Collective over the ranks not listed in exclude[0..nexclude), which keep their order, blocks; all
 * of them give the same list.  Works after an excluded rank has died and `comm` has failed, and
 * does not need the excluded ones.  If another rank dies meanwhile: COLL_ERR_PEER_LOST with its
 * number; exclude it too and call again.  Not in a group.  config is NULL, flags 0.  `comm` remains,
 * to be destroyed.  A backend without a transport must have a shrink of its own, else it is
 * COLL_ERR_UNSUPPORTED; what that makes cannot be split (shrink it, or make a new one).
 */
COLL_API coll_result_t coll_comm_shrink(coll_comm_t comm, const int32_t *exclude, int32_t nexclude,
					coll_comm_t *newcomm, const coll_config_t *config,
					int32_t flags);

/* --------------------------------------------------------------- collectives -- */

/* recvbuf[i] = op over all ranks of sendbuf[i], on every rank. */
COLL_API coll_result_t coll_allreduce(const void *sendbuf, void *recvbuf, size_t count,
				      coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
				      coll_stream_t stream);
/* Rank root's sendbuf to every recvbuf.  sendbuf is used on root only. */
COLL_API coll_result_t coll_broadcast(const void *sendbuf, void *recvbuf, size_t count,
				      coll_dtype_t dtype, int32_t root, coll_comm_t comm,
				      coll_stream_t stream);
/* As allreduce, result on root only.  recvbuf is used on root only. */
COLL_API coll_result_t coll_reduce(const void *sendbuf, void *recvbuf, size_t count,
				   coll_dtype_t dtype, coll_op_t op, int32_t root, coll_comm_t comm,
				   coll_stream_t stream);
/* recvbuf holds nranks * sendcount elements: rank r's at offset r * sendcount. */
COLL_API coll_result_t coll_allgather(const void *sendbuf, void *recvbuf, size_t sendcount,
				      coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream);
/* sendbuf holds nranks * recvcount elements; rank r gets the reduced part at r * recvcount. */
COLL_API coll_result_t coll_reduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount,
					   coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
					   coll_stream_t stream);
/* Part r of sendbuf (count elements) goes to rank r, where it becomes part `this rank`. */
COLL_API coll_result_t coll_alltoall(const void *sendbuf, void *recvbuf, size_t count,
				     coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream);
/* Every rank's sendbuf (count elements) to root's recvbuf (nranks * count). */
COLL_API coll_result_t coll_gather(const void *sendbuf, void *recvbuf, size_t count,
				   coll_dtype_t dtype, int32_t root, coll_comm_t comm,
				   coll_stream_t stream);
/* Part r of root's sendbuf (nranks * count) to rank r's recvbuf (count). */
COLL_API coll_result_t coll_scatter(const void *sendbuf, void *recvbuf, size_t count,
				    coll_dtype_t dtype, int32_t root, coll_comm_t comm,
				    coll_stream_t stream);

/*
 * Forms with a count and a displacement (both in elements) for each rank.  The arrays have nranks
 * entries and are copied during the call.  displs may be NULL: parts follow one another.
 */
COLL_API coll_result_t coll_allgatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
				       const size_t *recvcounts, const size_t *displs,
				       coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream);
COLL_API coll_result_t coll_reduce_scatterv(const void *sendbuf, void *recvbuf,
					    const size_t *recvcounts, coll_dtype_t dtype,
					    coll_op_t op, coll_comm_t comm, coll_stream_t stream);
COLL_API coll_result_t coll_alltoallv(const void *sendbuf, const size_t *sendcounts,
				      const size_t *sdispls, void *recvbuf,
				      const size_t *recvcounts, const size_t *rdispls,
				      coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream);
/* recvcounts and displs are used on root only. */
COLL_API coll_result_t coll_gatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
				    const size_t *recvcounts, const size_t *displs,
				    coll_dtype_t dtype, int32_t root, coll_comm_t comm,
				    coll_stream_t stream);
/* sendcounts and displs are used on root only. */
COLL_API coll_result_t coll_scatterv(const void *sendbuf, const size_t *sendcounts,
				     const size_t *displs, void *recvbuf, size_t recvcount,
				     coll_dtype_t dtype, int32_t root, coll_comm_t comm,
				     coll_stream_t stream);

/* Blocks until every rank has called it and all operations issued before it are done. */
COLL_API coll_result_t coll_barrier(coll_comm_t comm);

/* ------------------------------------------------------------- point to point -- */

enum { COLL_ANY_SOURCE = -1 };

/*
 * A send matches the receive of equal tag on the peer, in the order of issue for one (peer, tag);
 * count and dtype must be equal on both sides (COLL_ERR_MISMATCH otherwise).  nccl matches by order
 * alone and ignores the tag.  Operations of one communicator run in order: two ranks that both
 * send to each other and then receive must put the pair between coll_group_start and _end.
 */
COLL_API coll_result_t coll_send(const void *sendbuf, size_t count, coll_dtype_t dtype,
				 int32_t peer, uint32_t tag, coll_comm_t comm,
				 coll_stream_t stream);
/* peer may be COLL_ANY_SOURCE on backends with a transport. */
COLL_API coll_result_t coll_recv(void *recvbuf, size_t count, coll_dtype_t dtype, int32_t peer,
				 uint32_t tag, coll_comm_t comm, coll_stream_t stream);

/* ------------------------------------------------------------ groups, completion -- */

/*
 * Operations issued by this thread between start and the matching end, on any communicators, form
 * one batch: they begin at the end and run at the same time.  May be nested; the outermost end
 * counts.  Their buffers must not overlap.  The end returns the first error of the group's calls
 * that could begin; it does not block, unless the group has splits.
 */
COLL_API coll_result_t coll_group_start(void);
COLL_API coll_result_t coll_group_end(void);

/* Blocks until every operation issued on the communicator is complete, or one has failed. */
COLL_API coll_result_t coll_sync(coll_comm_t comm);

/* Kinds of operation, for coll_args_t. */
enum {
	COLL_KIND_ALLREDUCE = 1,
	COLL_KIND_BROADCAST = 2,
	COLL_KIND_REDUCE = 3,
	COLL_KIND_ALLGATHER = 4,
	COLL_KIND_REDUCE_SCATTER = 5,
	COLL_KIND_ALLTOALL = 6,
	COLL_KIND_GATHER = 7,
	COLL_KIND_SCATTER = 8,
	COLL_KIND_ALLGATHERV = 9,
	COLL_KIND_REDUCE_SCATTERV = 10,
	COLL_KIND_ALLTOALLV = 11,
	COLL_KIND_GATHERV = 12,
	COLL_KIND_SCATTERV = 13,
	COLL_KIND_BARRIER = 14,
	COLL_KIND_SEND = 15,
	COLL_KIND_RECV = 16
};

/* "allreduce" and so on; "?" if unknown.  Static strings. */
COLL_API const char *coll_kind_name(int32_t kind);

/*
 * Any operation as data: what coll_request_init takes and what a backend's native slots receive.
 * A field that a kind has no use for is 0.
 */
typedef struct coll_args {
	uint64_t size;  /* sizeof(coll_args_t) of who filled it */
	int32_t kind;   /* COLL_KIND_* */
	int32_t dtype;  /* COLL_INT8 ... */
	int32_t op;     /* COLL_SUM ... */
	int32_t root;   /* root, or the peer of SEND and RECV */
	uint32_t tag;   /* SEND and RECV */
	uint32_t flags; /* 0 */
	const void *sendbuf;
	void *recvbuf;
	uint64_t count;           /* the collective's count argument: elements */
	const size_t *sendcounts; /* v-forms: nranks entries each */
	const size_t *senddispls;
	const size_t *recvcounts;
	const size_t *recvdispls;
	coll_stream_t stream;
	const void *scalar; /* pre-multiplied sum: one element of dtype in host memory */
} coll_args_t;

/*
 * A persistent request: prepare once, start many times: the schedule is kept.  Buffers and counts
 * stay those of `args` (copied; an operation made at run time too).  Collective kinds must be
 * initialised and started in the same order on all ranks.  Starting one that is still under way is
 * COLL_ERR_INVALID_USAGE: wait for it first.
 */
COLL_API coll_result_t coll_request_init(coll_comm_t comm, const coll_args_t *args,
					 coll_request_t *request);
COLL_API coll_result_t coll_request_start(coll_request_t request);
/* A request for the operation issued last on `comm`; free it after use. */
COLL_API coll_result_t coll_get_request(coll_comm_t comm, coll_request_t *request);
/* *done becomes 1 or 0.  Makes progress, does not block. */
COLL_API coll_result_t coll_test(coll_request_t request, int32_t *done);
/* Blocks until the request is complete. */
COLL_API coll_result_t coll_wait(coll_request_t request);
/* Does not wait: an operation under way goes on. */
COLL_API coll_result_t coll_request_free(coll_request_t request);

/* --------------------------------------------------------------------- events -- */

/*
 * Order between the communicator's own stream and other streams, with one meaning everywhere.  An
 * event is recorded at a position of a stream and is complete when all work before it is.  As
 * another stream NULL is the calling thread itself, on a backend without device streams the only
 * one: recorded there an event is complete at once, and making it wait blocks the thread.  An event
 * never recorded counts as complete.  Recording again moves the event; whoever waits for it already
 * waits for the old position.  An event may be used with communicators other than the one it was
 * made with, and after that one's end.  With device streams these must be of the same backend, and
 * while a communicator has operations in an open group it is COLL_ERR_INVALID_USAGE.
 */
COLL_API coll_result_t coll_event_create(coll_comm_t comm, coll_event_t *event);
COLL_API coll_result_t coll_event_destroy(coll_event_t event);
/* Records at the end of the communicator's own stream. */
COLL_API coll_result_t coll_event_record(coll_event_t event, coll_comm_t comm);
/* Records at the end of another stream. */
COLL_API coll_result_t coll_event_record_on_stream(coll_event_t event, coll_comm_t comm,
						   coll_stream_t stream);
/*
 * Later operations of the communicator's own stream begin after the event.  Does not block.  If the
 * event is another communicator's, and that one fails, this one fails too.
 */
COLL_API coll_result_t coll_comm_wait_event(coll_comm_t comm, coll_event_t event);
/* Later work of another stream begins after the event. */
COLL_API coll_result_t coll_stream_wait_event(coll_comm_t comm, coll_stream_t stream,
					      coll_event_t event);
/* COLL_SUCCESS if complete, COLL_IN_PROGRESS if not.  Makes progress, does not block. */
COLL_API coll_result_t coll_event_query(coll_event_t event);
/* Blocks the calling thread until the event is complete; bounded by `timeout`. */
COLL_API coll_result_t coll_event_synchronize(coll_event_t event);

/* ------------------------------------------------------------- own operations -- */

enum { COLL_SCALAR_DEVICE = 0, COLL_SCALAR_HOST_IMMEDIATE = 1 };

/*
 * An operation "sum of scalar * x": each rank's product is rounded to dtype, then summed.  Scalars
 * may differ between ranks.  With COLL_SCALAR_HOST_IMMEDIATE *scalar is read during the call, with
 * COLL_SCALAR_DEVICE whenever an operation begins (memory of a kind that the backend takes).
 * The value is valid on this communicator, for this dtype, until it is destroyed.
 */
COLL_API coll_result_t coll_red_op_create_pre_mul_sum(coll_op_t *op, const void *scalar,
						      coll_dtype_t dtype, int32_t residence,
						      coll_comm_t comm);
/*
 * inout[i] = left[i] op inout[i] for count elements in host memory, 16-byte aligned; called for
 * pieces of any length, on whichever thread moves data.  It must be associative, the same on all
 * ranks, and must not call the library.  If it is not commutative (commutative == 0), operands come
 * in rank order.  Not for backends that reduce by themselves and have no transport.
 */
typedef void (*coll_user_op_fn)(void *user, const void *left, void *inout, size_t count,
				coll_dtype_t dtype);
COLL_API coll_result_t coll_red_op_create_user(coll_op_t *op, coll_user_op_fn fn, void *user,
					       int32_t commutative, coll_comm_t comm);
/* Operations already issued, and persistent requests, keep what they need of it. */
COLL_API coll_result_t coll_red_op_destroy(coll_op_t op, coll_comm_t comm);

/* --------------------------------------------------------------------- memory -- */

/*
 * Announces memory that will be used often, so that the backend may register it with its hardware.
 * Never needed for correctness; succeeds and does nothing where there is nothing to do.
 */
COLL_API coll_result_t coll_comm_register(coll_comm_t comm, void *buf, size_t bytes, void **handle);
COLL_API coll_result_t coll_comm_deregister(coll_comm_t comm, void *handle);

/* ----------------------------------------------------------- what is installed -- */

/*
 * COLL_SUCCESS if the backend could be used by this process now, else the reason as a code and, if
 * reason is not NULL, as text in reason[0..size).  Needs no peer.
 */
COLL_API coll_result_t coll_backend_available(const char *name, char *reason, size_t size);

#ifdef __cplusplus
}
#endif

#include <coll/introspect.h>

#endif
