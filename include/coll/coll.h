/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll.h - collective communication on host and device pointers, one API for every backend.
 *
 * This comment is the overview; the comment of each function is its manual.  Man pages (folder docs) have what
 * concerns many functions.  Backend authors read backend.h.  COLL_BACKEND or coll.conf(5) chooses the backend.
 *
 * EXAMPLE
 *
 *   #include <coll/coll.h>
 *   #include <stdio.h>
 *
 *   int main(void)
 *   {
 *           float mine[4] = {1, 2, 3, 4}, sum[4];
 *           coll_comm_t comm;
 *
 *           if (coll_comm_init_env(&comm, NULL) || // waits until all ranks have arrived
 *               coll_allreduce(mine, sum, 4, COLL_FLOAT32, COLL_SUM, comm, NULL) || // begins, and returns
 *               coll_sync(comm)) // waits until the sum is there; `mine` and `sum` belong to the library until then
 *                   return fprintf(stderr, "%s\n", coll_get_last_error(NULL)), 1;
 *           printf("sums: %g %g %g %g\n", sum[0], sum[1], sum[2], sum[3]);
 *           return coll_comm_destroy(comm);
 *   }
 *
 *   cc example.c $(pkg-config --cflags --libs coll) -o example && coll run -n 4 ./example
 *
 * COMMUNICATORS
 *
 * A communicator is a group of ranks; every rank makes its own handle of it and destroys that by coll_comm_destroy():
 *   coll_comm_init_env        in programs that a launcher starts (coll run, torchrun, mpirun, srun)
 *   coll_comm_init_rank       in programs that can pass an id from one rank to the other ranks
 *   coll_comm_init_exchange   in programs that can already exchange bytes among all ranks
 *   coll_comm_init_all        for all ranks of one process
 *   coll_comm_split, _dup, _isplit, _idup, _shrink   from another communicator, which may end before or after
 *
 * PARAMETERS, the same for every function that has them
 *
 * comm      The communicator: the handle of this rank.
 * request   The handle of a request.
 * event     The handle of an event.
 * dtype     A data type (coll_dtype_t).
 * op        An operation (coll_op_t).
 * stream    NULL, or a stream of the program (coll_stream_t).
 *
 * CONVENTIONS, valid for every function unless the function's comment says otherwise
 *
 * Completion     A call issues an operation and returns.  The operation is complete when coll_sync, coll_barrier, its
 *                request (coll_wait, coll_test) or an event says so: coll-completion(7) has who owns the buffers.
 * Blocking       A function waits for other ranks or for data only if its comment says "Blocks", and every such wait
 *                has a timeout: coll-completion(7).
 * Progress       Data moves while a thread is in a call on the communicator, or always with `progress = thread`:
 *                coll-completion(7).
 * Errors         A function returns COLL_SUCCESS (0) or a COLL_ERR_* code, and coll_get_last_error(NULL) the text.  A
 *                wrong argument harms nothing; a later failure fails the communicator: coll-errors(7).
 * Order          All ranks issue the same collectives in the same order, which is that of execution: coll-order(7).
 * Reproducible   With `reproducible = yes` results depend on inputs and rank order only: coll-order(7).
 * Device memory  A buffer may lie in host or device memory, as the backend takes it: coll-memory(7).
 * Threads        Every function may be called from any thread: coll-threads(7).
 * Counts         A count is a number of elements of `dtype`, never of bytes, from 0 to the capacity of memory.
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

/* The result of a call: COLL_SUCCESS, or the code of an error. */
typedef int32_t coll_result_t;

/* Values 0 to 8 equal NCCL's; the library's own begin at 16. */
enum {
	COLL_RESULT_NONE = -1, /* not a result: the values are signed in generated bindings too */
	COLL_SUCCESS = 0,
	COLL_ERR_DEVICE = 1,           /* the accelerator's driver or runtime reported an error */
	COLL_ERR_SYSTEM = 2,           /* a call into the operating system failed */
	COLL_ERR_INTERNAL = 3,         /* the library or a plugin has a fault */
	COLL_ERR_INVALID_ARGUMENT = 4, /* an argument is wrong; the text names it */
	COLL_ERR_INVALID_USAGE = 5,    /* the call is not allowed in this state */
	COLL_ERR_REMOTE = 6,       /* another rank failed; the text holds its number and message */
	COLL_IN_PROGRESS = 7,      /* not an error: not yet complete */
	COLL_ERR_TIMEOUT = 8,      /* "timed out"; the text names the ranks not heard from */
	COLL_ERR_UNSUPPORTED = 16, /* the text says what to do instead */
	COLL_ERR_NO_MEMORY = 17,   /* an allocation of memory failed */
	COLL_ERR_CONFIG = 18,      /* an option is wrong; the text names file:line or variable */
	COLL_ERR_NOT_FOUND = 19,   /* there is no backend of that name */
	COLL_ERR_PLUGIN = 20,      /* the library could not load or open a plugin */
	COLL_ERR_ABI = 21,         /* a plugin was built for an ABI this library does not speak */
	COLL_ERR_MISMATCH = 22,    /* ranks issued different operations */
	COLL_ERR_PEER_LOST = 23,   /* a rank died or left */
	COLL_ERR_ABORTED = 24,     /* the communicator was aborted */
	COLL_ERR_VERSION = 25,     /* ranks run library versions that cannot talk to each other */
	COLL_ERR_PERMISSION = 26   /* refused for safety; or a process without the job's key */
};

/* ------------------------------------------------------------- data types -- */

/* A data type of the elements of a buffer. */
typedef int32_t coll_dtype_t;

/* Values 0 to 11 equal NCCL's. */
enum {
	COLL_DTYPE_NONE = -1, /* not a type */
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
	COLL_UINT16 = 33,
	COLL_BOOL = 34,          /* one byte, as C's bool: 0 is false, any other byte true */
	COLL_COMPLEX64 = 35,     /* two float32, the real part first, as C's float complex */
	COLL_COMPLEX128 = 36,    /* two float64, as C's double complex */
	COLL_FLOAT32_INT32 = 37, /* struct {float value; int32_t index;} for MINLOC and MAXLOC */
	COLL_FLOAT64_INT32 = 38, /* struct {double value; int32_t index;}, 16 bytes */
	COLL_INT32_INT32 = 39,   /* struct {int32_t value, index;} */
	COLL_INT64_INT32 = 40,   /* struct {int64_t value; int32_t index;}, 16 bytes */
	COLL_OPAQUE = 65536      /* plus n: elements of n bytes, see coll_dtype_opaque() */
};

/* The largest element of an opaque type, in bytes. */
enum { COLL_OPAQUE_SIZE_MAX = 4096 };

/* An operation of a reduction. */
typedef int32_t coll_op_t;

/*
 * Operations of a reduction.  Values 0 to 4 equal NCCL's.  Values from 256 on are operations that
 * coll_red_op_create_* made.
 *
 * Integers wrap around (two's complement).  MIN and MAX return a NaN if any input is a NaN.  The
 * library computes f16, bf16 and fp8 in f32 and rounds to nearest even after each step.  A finite
 * result beyond the range of f16 or bf16 becomes an infinity; beyond the range of fp8 it becomes the
 * largest finite value, 448 (e4m3) or 57344 (e5m2), as with CUDA's __NV_SATFINITE.  Infinities of the
 * inputs stay infinities, in e5m2 too; e4m3 has none (OCP 8-bit Floating Point Specification 1.0).
 * AVG of floating types divides each input by the number of ranks, in f32 (f64: in f64), rounds the
 * quotient to the type and adds the quotients, as NCCL does.  So the sum of large inputs does not
 * overflow, but for the rounding of quotients: the average of 3 times the largest f16, 65504, is an
 * infinity, as each quotient 21834.67 becomes 21840.  Small inputs underflow: quotients below the least
 * normal number of the type lose bits or become 0.  The f16 input 2^-24 counts as 0 on 2 ranks and more;
 * so does the e4m3 input 2^-9.  AVG of integers is SUM, which wraps around, divided by the number of
 * ranks at the end, towards zero.  Every rank receives the same bits.  A backend that reduces by itself
 * (nccl, ucc) rounds in its own way, and its MIN and MAX may lose a NaN.
 *
 * The logical operations take 0 as false and everything else as true; the result of two elements or
 * more is 1 or 0.  Of COLL_BOOL, SUM and MAX are LOR, PROD and MIN are LAND, as in PyTorch and NumPy: so
 * no sum of true elements wraps around to false.  Where one rank alone contributes (a communicator of 1 rank, rank 0 of a scan), its
 * element is the result as it is.  nccl has LAND and LOR of COLL_BOOL only (and SUM, PROD, MAX and MIN of
 * it), whose result may be another byte than 1 if an input is.
 *
 * Complex types have SUM, PROD and AVG; they have no order, so no MIN and MAX.  A product is
 * (ac - bd) + (ad + bc)i, each step rounded to the type.
 *
 * MINLOC and MAXLOC are the operations of the pairs of a value and an index, as in MPI: the result is
 * the least (the greatest) value with its index, of equal values the one with the lowest index.  Values
 * compare as with MIN and MAX: -0 is less than 0, and a NaN is the result if any value is one.  The
 * four bytes behind the index of a pair of 16 bytes are unspecified in the result.
 */
enum {
	COLL_OP_NONE = -1, /* not an operation */
	COLL_SUM = 0,
	COLL_PROD = 1,
	COLL_MAX = 2,
	COLL_MIN = 3,
	COLL_AVG = 4,     /* not of COLL_BOOL */
	COLL_BAND = 32,   /* bitwise, integer types only */
	COLL_BOR = 33,    /* bitwise, integer types only */
	COLL_BXOR = 34,   /* bitwise, integer types only */
	COLL_LAND = 35,   /* logical, integer types and COLL_BOOL only: are all true? */
	COLL_LOR = 36,    /* logical, integer types and COLL_BOOL only: is any true? */
	COLL_LXOR = 37,   /* logical, integer types and COLL_BOOL only: is an odd number true? */
	COLL_MINLOC = 38, /* pairs of value and index only */
	COLL_MAXLOC = 39  /* pairs of value and index only */
};

/*
 * Returns the type of opaque elements: structs, quaternions, long numbers, whose meaning only the program
 * knows.
 *
 * size      Bytes of an element, 1 to COLL_OPAQUE_SIZE_MAX.  The program sends elements as they lie in memory,
 *           padding included.
 * Returns   COLL_OPAQUE + size, the same on all ranks; the program destroys nothing.  COLL_DTYPE_NONE if
 *           size is 0 or too large: calls refuse that as a type.
 *
 * The operations that only move data take such a type like any other.  Reductions take it with an operation
 * of coll_red_op_create_user(), whose function gets this type and so the size.  Ranks that name different
 * sizes in one call get COLL_ERR_MISMATCH with both.
 * With nccl and other backends without a transport, calls with such a type on device memory return
 * COLL_ERR_UNSUPPORTED (coll-memory(7)): move the bytes as COLL_UINT8.
 */
COLL_API coll_dtype_t coll_dtype_opaque(size_t size);

/* Returns the bytes of one element, or 0 if `dtype` is not a data type. */
COLL_API size_t coll_dtype_size(coll_dtype_t dtype);

/* Returns the name of a data type ("float32", "opaque24"), or "?" if unknown; a static string. */
COLL_API const char *coll_dtype_name(coll_dtype_t dtype);

/* Returns the name of an operation ("sum"), or "?" if unknown; a static string. */
COLL_API const char *coll_op_name(coll_op_t op);

/* ---------------------------------------------------------------- handles -- */

/*
 * Handles of a communicator, a request and an event.
 *
 * A handle is a value, not an address.  After its object is destroyed it stays safe to pass to any
 * function, which then returns COLL_ERR_INVALID_ARGUMENT.
 *
 * A process can have 1,048,576 (2^20) objects with handles at a time: communicators, requests,
 * events, registrations and coll_info_t together.  A call that would make one more returns
 * COLL_ERR_NO_MEMORY; once the program has destroyed or freed an object, the call succeeds again.
 *
 * For other languages: handles are opaque and pointer-sized, integers have fixed widths, no function needs a macro, and
 * structs that may grow begin with their size.  A language whose memory moves or ends by itself (Go, Java, Python, Rust)
 * pins the buffers until the operation is complete, because the library keeps the pointers: coll-completion(7).
 */
typedef struct coll_comm *coll_comm_t;
typedef struct coll_request *coll_request_t;
typedef struct coll_event *coll_event_t;

/*
 * A CUDA stream of the program (cudaStream_t), or one of these values:
 *
 * NULL      The communicator's own stream.  It is none of CUDA's default streams: NCCL's functions take
 *           NULL for the legacy default stream, which is 1 here.
 * 1         cudaStreamLegacy: the legacy default stream of the communicator's device.
 * 2         cudaStreamPerThread: the calling thread's own default stream on the communicator's device.
 *
 * With 1 and 2 the communicator's device decides, whatever device is current to the calling thread: the
 * device that the program has named for the communicator (coll_config_t.device, or `devices` of
 * coll_comm_init_all), or that nccl has chosen.  If the program has named no device, backends with a
 * transport (tcp, ucx, mpi, simulated) take the device on which the call's send buffer (without one its
 * receive buffer) lies; for host and managed memory, and for events, they take the device that is current
 * in the call (in a group: not at its end).  On that device the current context counts, or the primary context if another device's is current.
 *
 * Every backend orders an operation with its stream as NCCL does: the operation begins when the
 * stream's earlier work is complete, and the stream's later work begins when the operation is
 * complete.  The call itself waits only while the stream is full (CUDA).  A group is one operation
 * on each of its streams: it begins when the earlier work of all these streams is complete, and all
 * these streams wait for the whole group.  Communicators of a group may share a stream.
 * The buffers may lie in host memory too.  All ranks issue the operations of a communicator in one
 * order, whatever their streams.
 *
 * nccl      The operation is work of the stream, and complete when the stream has executed it.  The
 *           operations of a communicator follow one another on the device, in the order of issue,
 *           whatever their streams; other work follows its own stream only.  (Calls on host memory
 *           have the order and the limits of tcp.)
 *           coll_sync and requests do not wait for such an operation; the program can record an
 *           event on the stream and wait for the event.
 *           An operation in which this rank has no elements follows its own stream only, and so does
 *           any on a communicator of one rank: NCCL gives it no place among the operations.
 *           While the stream is being captured (CUDA graphs), the operation becomes part of the
 *           graph, and runs each time the program launches the graph.  All ranks then launch their
 *           graphs in one order with the other operations of the communicator.  The program
 *           destroys the graphs before the communicator: coll_comm_destroy waits for them until
 *           `destroy_timeout`, then aborts.  The communicator's own stream cannot be captured.
 * tcp, ucx, mpi, simulated, and every other backend with a transport
 *           The library starts the operation when the stream has come to the call, and the stream
 *           waits on the device meanwhile (cuStreamWaitValue32; CUDA 11.7 or later, else
 *           COLL_ERR_UNSUPPORTED).  With `enable_gpu_fallback` the calling thread puts copies of all
 *           device buffers to pinned host memory on the stream, and copies of the results back; what
 *           the program does meanwhile in the driver, say in cudaFree, cannot stop the operation.
 *           (Without the option ucx calls the driver while it moves device memory: a thread that
 *           waits in the driver for that stream then waits for ever.)  A communicator pins up to
 *           256 MiB so; a call outside a group that needs more waits until an earlier one has ended.
 *           After `timeout` without progress it returns COLL_ERR_TIMEOUT and does nothing.
 *           Operations of a communicator run in the order of issue: an operation whose stream is
 *           late delays later operations.  coll_sync, requests and events on the communicator's own
 *           stream include the operation.  A stream that waits occupies a work queue of the device:
 *           a program that uses many streams sets CUDA_DEVICE_MAX_CONNECTIONS (8) to more than
 *           their number.
 *           While nothing moves for `timeout` after the operation has begun, the communicator fails
 *           with COLL_ERR_TIMEOUT even if no thread waits.  A failure, abort or destroy releases
 *           the streams: their later work runs, and finds the receive buffers with unspecified
 *           content, which a late stream writes when it comes to the call.  So the program asks coll_comm_get_async_error() before it trusts results.
 *           While the stream is being captured (CUDA graphs), the call returns
 *           COLL_ERR_INVALID_USAGE.
 */
typedef void *coll_stream_t;

/* ---------------------------------------------------- version and messages -- */

/* Returns the version of the library, "1.2.3"; a static string. */
COLL_API const char *coll_version_string(void);

/* The version of this header, for the preprocessor; the library may be newer. */
#define COLL_VERSION_MAJOR 0
#define COLL_VERSION_MINOR 9
#define COLL_VERSION_PATCH 0
#define COLL_VERSION_NUMBER                                                                        \
	(10000 * COLL_VERSION_MAJOR + 100 * COLL_VERSION_MINOR + COLL_VERSION_PATCH)

/* Returns 10000 * major + 100 * minor + patch of the library. */
COLL_API int32_t coll_version_number(void);

/* Returns the meaning of a result code as a short sentence; a static string, never NULL. */
COLL_API const char *coll_error_string(coll_result_t result);

/*
 * Returns the text of an error, never NULL.
 *
 * comm      NULL: the text of the calling thread's last failed call.  A communicator: the text of
 *           its asynchronous error, or "" if it has none.
 * The string lies in the calling thread's storage and is valid until the thread's next call into
 * the library.
 */
COLL_API const char *coll_get_last_error(coll_comm_t comm);

/*
 * Names the place in the program for which the calling thread makes its next calls: for a library or an
 * interpreter that stands between a program and libcoll.  Without it the place of a call is the address
 * from which the program called libcoll.  The library warns once for each place whose operations it
 * stages through host memory, and names the place.
 *
 * site      An address in the program's code, as a function's return address; or a number of the program's
 *           choice from 1 to 65,535, say that of a line; NULL: none.
 */
COLL_API void coll_set_call_site(const void *site);

/* ----------------------------------------------------------- configuration -- */

/*
 * The settings that the application decides itself; they win over environment and files.
 *
 * The application calls coll_config_init() first and then sets fields.  A field left as initialised
 * leaves its setting to environment, files and defaults.  The call that takes the struct copies the
 * strings.
 */
typedef struct coll_config {
	uint64_t size;              /* set by coll_config_init */
	const char *backend;        /* as COLL_BACKEND: "ucx,tcp", "^tcp" */
	const char *plugin_path;    /* as COLL_PLUGIN_PATH: directories separated by ':' */
	const char *config_file;    /* as COLL_CONFIG: file to read instead of the user's file */
	const char *interface_name; /* as COLL_INTERFACE: network interface or address to use */
	int64_t timeout_ms;      /* milliseconds without progress until a wait fails; -1: not set */
	int64_t init_timeout_ms; /* the same while a communicator is made; -1: not set */
	/*
	 * CUDA device ordinal of this rank; -1: the current device of the calling thread.  If the
	 * thread has no CUDA context, nccl takes the rank's number among the ranks of its host,
	 * modulo the number of devices.
	 *
	 * By priority the library chooses a backend for device memory only (nccl) in two cases:
	 * this field is 0 or more, or the application uses CUDA.  The application uses CUDA if it
	 * had initialised CUDA before its first call that looks at backends, or if the calling
	 * thread has a current context.  By its name the library always chooses such a backend.
	 */
	int32_t device;
	int32_t reserved; /* 0 */
	const char *const
		*options; /* further "key=value" or "backend.key=value"; NULL-terminated */
} coll_config_t;

/*
 * Sets every field of a config to "not set".
 *
 * size      sizeof(coll_config_t) as the caller was compiled.  The library accepts a smaller, older
 *           struct for ever.
 */
COLL_API coll_result_t coll_config_init(coll_config_t *config, size_t size);

/* --------------------------------------------------------- making communicators -- */

/* Bytes that suffice for every id, its terminating NUL included. */
enum { COLL_UNIQUE_ID_SIZE = 512 };

/*
 * Makes the id of a new communicator: printable text.
 *
 * id        Receives the text: at most 128 bytes with its NUL, as many as an ncclUniqueId has.
 * size      Bytes at id.
 *
 * The id holds the addresses at which the calling process listens and a random 128-bit key.  If the
 * process has very many addresses, the id holds the address of the default route and one address of
 * each of the first interfaces, or the addresses of the option `interface`; a log line of level info
 * names the omitted addresses.  The program passes the id to the other ranks in private, since any
 * process that has the id can take part.  The calling process starts listening and must then run a rank
 * of the communicator, whichever.  One id makes one communicator.  An id that is never used costs one
 * open socket until the process ends (with the option `interface`: one for each address of the
 * interface).
 */
COLL_API coll_result_t coll_get_unique_id(char *id, size_t size);

/*
 * Makes the communicator of rank `rank`.  Every rank calls it with the same id.
 *
 * comm      Becomes the communicator; NULL on an error.
 * nranks    Number of ranks, at least 1.
 * id        Text from coll_get_unique_id().
 * rank      0 to nranks - 1; each rank has its own number.
 * config    Settings of the application, or NULL.
 * Blocks    Until all ranks have arrived; each step takes at most init_timeout.  The text of a
 *           timeout names the ranks not heard from; after `stall_after` a log line of rank 0 does.
 * Errors    If one rank that arrived gets an error, all ranks that arrived do.
 */
COLL_API coll_result_t coll_comm_init_rank(coll_comm_t *comm, int32_t nranks, const char *id,
					   int32_t rank, const coll_config_t *config);

/*
 * Makes a communicator as coll_comm_init_rank, with rank, number of ranks and rendezvous address
 * from the environment.
 *
 * The library reads COLL_RANK, COLL_WORLD_SIZE and COLL_ROOT (host:port of rank 0), which `coll
 * run` sets, else the variables of torchrun, Open MPI, Flux, PALS, MPICH (PMI), MVAPICH or Slurm
 * (Flux, PALS and MVAPICH: untried), or asks a launcher that speaks PMIx (prterun) through its
 * library, libpmix.so.2.  Without any of these settings the communicator has one rank.  A launcher
 * that a rank of `coll run` has started counts before `coll run`, and COLL_ROOT and COLL_KEY of
 * `coll run` do not hold for its ranks.
 * Through PMIx rank 0 also tells the other ranks where it is: with Open MPI on several hosts, and
 * with launchers that set PMIx's variables only.  Through PMI's key-value store it does so with
 * launchers that set PMI_FD: MPICH on several hosts (others: untried).  Flux, PALS and MVAPICH
 * without PMI_FD do not say where rank 0 is and need COLL_ROOT on several hosts.  A launcher that
 * speaks PMIx where the library is missing is an error.  White space around the value of a variable
 * does not count.  The tasks of a Slurm job on one host, and torchrun's ranks on one host, meet there
 * whether its name resolves or not.  A process that used PMIx or PMI must end by
 * exit() or by returning from main, as an MPI program must call MPI_Finalize: else the launcher
 * takes it for failed.
 * COLL_KEY (any text) must be the same on all ranks.  Without it only an identifier that is not
 * secret keeps other processes out (through PMIx or PMI an id that the launcher sends in clear
 * text); if COLL_ROOT is set and rank 0 listens at an address beyond loopback, rank 0 logs a
 * warning.
 * The rendezvous address serves one communicator at a time: threads of one process must not call
 * this function at the same time.
 * Blocks    As coll_comm_init_rank.
 */
COLL_API coll_result_t coll_comm_init_env(coll_comm_t *comm, const coll_config_t *config);

/*
 * Tells this process's place among the processes of its launcher, before there is a communicator:
 * for example to choose the device for coll_config_t.device.
 *
 * rank, nranks   The rank and the number of ranks that coll_comm_init_env() would take.
 * local_rank     The number of this process among the ranks on its host, from 0; -1 if the
 *                launcher does not tell it.
 * local_nranks   Number of ranks on this host; -1 if the launcher does not tell it.
 *
 * Each pointer may be NULL.  The library reads the same variables as coll_comm_init_env(), except
 * for the rendezvous address.  Without a launcher the process is rank 0 of 1 on its host.
 * Errors    COLL_ERR_CONFIG as coll_comm_init_env(); then nothing is written.
 */
COLL_API coll_result_t coll_get_launch_info(int32_t *rank, int32_t *nranks, int32_t *local_rank,
					    int32_t *local_nranks);

/*
 * An allgather of bytes among all ranks, supplied by the caller (over MPI, a key-value store, ...).
 *
 * user         The pointer given to coll_comm_init_exchange().
 * in           `len` bytes of this rank.
 * out          Receives nranks * len bytes in rank order.
 * len          The same on all ranks.
 * timeout_ms   The longest time that the function may take, in milliseconds.
 * Returns      0, or non-zero if the exchange failed or took longer than timeout_ms.
 */
typedef int32_t (*coll_exchange_fn)(void *user, const void *in, void *out, size_t len,
				    int64_t timeout_ms);

/*
 * Makes a communicator as coll_comm_init_rank; the ranks meet over the caller's own exchange.
 *
 * exchange  The library calls it only inside coll_comm_init_exchange, coll_comm_split, _dup,
 *           _isplit, _idup, _shrink and coll_comm_destroy, on the thread of that call.  Exception: for splits in a
 *           group over a backend without a transport, coll_group_end() calls it on a thread of the
 *           library for each communicator.
 * user      Passed to exchange.
 * Blocks    As coll_comm_init_rank.
 */
COLL_API coll_result_t coll_comm_init_exchange(coll_comm_t *comm, int32_t nranks, int32_t rank,
					       coll_exchange_fn exchange, void *user,
					       const coll_config_t *config);

/*
 * Makes the communicators of all ranks of a group that lives in this process.
 *
 * comms     nranks handles: comms[i] becomes the communicator of rank i.
 * nranks    Number of ranks, at least 1.
 * devices   CUDA device of each rank, for backends that use devices.  NULL: rank i uses device i,
 *           but the application does not name a device by that (coll_config_t.device).
 * config    Settings of the application, or NULL; `devices` replaces config->device.
 * Blocks    As coll_comm_init_rank.
 *
 * The program gives each communicator to a thread of its own, or drives all communicators from one
 * thread; then it makes the calls of all ranks between coll_group_start() and coll_group_end().
 */
COLL_API coll_result_t coll_comm_init_all(coll_comm_t *comms, int32_t nranks,
					  const int32_t *devices, const coll_config_t *config);

/*
 * Ends a communicator: waits until its operations are complete, tells the peers, frees everything.
 *
 * The call is not collective and never ends the process.  The handle is invalid afterwards,
 * whatever the call returns.  The operations that coll_red_op_create_* made for the communicator end with it.  After
 * that the program can only free the communicator's requests, but can still use its events.
 * Blocks    At most `destroy_timeout`; then the library drops the unfinished operations and logs a
 *           warning.  It does the same with a call of another thread that is still inside a backend
 *           without a transport (nccl), say a shrink: an abort ends that call.  It drops messages that
 *           have come and that no call has received, and logs a warning with their number and the
 *           sender of the first message.  Calls of other threads on the communicator end meanwhile.  If
 *           such a call has not ended by then, or never will (coll-threads(7)), the library frees nothing
 *           that the call may use, and logs a warning.
 * Errors    COLL_ERR_MISMATCH: the collectives of this rank differ from another rank's (coll-order(7)), and
 *           no call has returned that before; a line of the log says so too.
 */
COLL_API coll_result_t coll_comm_destroy(coll_comm_t comm);

/*
 * Stops everything on a communicator.
 *
 * Any thread may call it, also while another thread waits in the communicator: such waits return
 * COLL_ERR_ABORTED within a second.  The peers get COLL_ERR_REMOTE.  The program may reuse its
 * buffers when the call has returned (but see coll-completion(7) on mpi with `native = direct`).  The
 * program may call it again, and must still destroy the communicator.
 * Blocks    A second at most.
 * Errors    COLL_ERR_TIMEOUT: another thread has not given the connections back within that second: it
 *           is in a call into a backend without a transport, or in a function of the program, or has
 *           left its call (coll-threads(7)).  The abort takes effect when the call returns.
 */
COLL_API coll_result_t coll_comm_abort(coll_comm_t comm);

/*
 * Tells whether a communicator has failed.  Makes progress.  The call does not count as waiting: a
 * program that polls with it alone never meets `timeout` and gets no warning about a stall.
 * coll_test applies both.  After `stall_after` the ranks compare their calls all the same.
 *
 * error     Becomes the asynchronous error of the communicator: COLL_SUCCESS if it has none, else
 *           the code of its first failure.
 */
COLL_API coll_result_t coll_comm_get_async_error(coll_comm_t comm, coll_result_t *error);

/*
 * Tells which ranks of a communicator are known to be lost: dead, or not reachable for some rank.
 * Makes progress.
 *
 * ranks     Receives their numbers in ascending order, at most `capacity`; may be NULL if that is 0.
 * count     Becomes the number of lost ranks, which may exceed `capacity`.
 *
 * A rank that has destroyed its communicator is not lost.  Nor is a silent rank, which may be stopped
 * or busy elsewhere: after COLL_ERR_TIMEOUT *count may be 0.  The text of the failure
 * (coll_get_last_error) names the ranks not heard from; a program that goes on without them excludes
 * them in coll_comm_shrink().  Two ranks may know of different losses for a moment: coll_comm_shrink()
 * needs the same list on all callers.  A backend without a transport (nccl, ucc) knows of losses through
 * its companion; with `companion = none` *count is 0.
 */
COLL_API coll_result_t coll_comm_get_failed(coll_comm_t comm, int32_t *ranks, int32_t capacity,
					    int32_t *count);

/*
 * Sets the longest time without progress in the waits of a communicator, as the option `timeout`.
 *
 * timeout_ms   Milliseconds, 1 to 31,622,400,000 (366 days).
 *
 * Waits under way use it from their next look at the clock on, within a second.  A communicator made
 * from `comm` later begins with its value.
 */
COLL_API coll_result_t coll_comm_set_timeout(coll_comm_t comm, int64_t timeout_ms);

/*
 * Tells the members of a communicator.
 *
 * ranks     Receives one entry for each rank: its rank in the communicator of coll_comm_init_*,
 *           from which `comm` comes by splits, dups and shrinks.
 */
COLL_API coll_result_t coll_comm_members(coll_comm_t comm, int32_t *ranks);

/* Tells the number of ranks of a communicator in *nranks. */
COLL_API coll_result_t coll_comm_count(coll_comm_t comm, int32_t *nranks);

/* Tells the calling process's rank in a communicator in *rank. */
COLL_API coll_result_t coll_comm_user_rank(coll_comm_t comm, int32_t *rank);

/*
 * Tells the CUDA device ordinal of a communicator.  *device becomes -1 if the communicator has no
 * device, or if coll_config_t.device was -1 and the backend cannot tell its device.
 */
COLL_API coll_result_t coll_comm_device(coll_comm_t comm, int32_t *device);

/* Tells the name of the chosen backend; the string is valid until the process ends. */
COLL_API coll_result_t coll_comm_backend(coll_comm_t comm, const char **name);

/*
 * Describes the connections of a communicator in the words of its backend, for people.
 *
 * text      Receives one line, "" if the backend has nothing to say.  tcp names the paths that each
 *           connection of Multipath TCP has now (option tcp.multipath), and numbers the ranks as the
 *           first communicator on these connections does.
 * size      Bytes at text, at least 1; a longer line is cut.
 */
COLL_API coll_result_t coll_comm_describe(coll_comm_t comm, char *text, size_t size);

/*
 * Tells the backend's own communicator object (ncclComm_t, ucp_worker_h) in *handle, for experts.
 * Errors    COLL_ERR_UNSUPPORTED: the backend has no such object.
 */
COLL_API coll_result_t coll_comm_native_handle(coll_comm_t comm, void **handle);

/* ----------------------------------------------------------------------- counters -- */

/* What coll_get_counters counts: values of coll_counters_t.kind beside COLL_KIND_*. */
enum {
	COLL_COUNT_NONE = -1,   /* not a value */
	COLL_COUNT_ALL = 0,     /* all kinds together */
	COLL_COUNT_ISEND = 256, /* messages of coll_isend */
	COLL_COUNT_IRECV = 257, /* messages of coll_irecv */
	COLL_COUNT_OTHER = 258  /* waits for events, probes, splits and shrinks: waited_ns alone */
};

enum { COLL_COUNTER_BUCKETS = 32 };

/* Counters of a communicator on this rank.  The caller sets size, kind and rank. */
typedef struct coll_counters {
	uint64_t size; /* sizeof(coll_counters_t) of the program */
	int32_t kind; /* COLL_KIND_* or COLL_COUNT_*: the calls that the fields up to bucket count */
	int32_t reserved; /* 0 */

	/* --- of that kind */

	uint64_t calls;      /* that were issued; of coll_isend and coll_irecv: that have ended */
	uint64_t bytes;      /* their bytes: count times the size of the type */
	uint64_t ended;      /* whose end this rank has seen: the sum of the buckets */
	uint64_t latency_ns; /* nanoseconds from the call to its end, of all that have ended */
	uint64_t
		waited_ns; /* nanoseconds that threads waited in libcoll, but for the first looks */
	/*
	 * Latencies: bucket b counts the calls that took less than 2^(b + 7) nanoseconds, and no less than half of
	 * that unless b is 0; the last bucket counts all that took longer.
	 */
	uint64_t bucket[COLL_COUNTER_BUCKETS];

	/* --- of the communicator */

	uint64_t stalls; /* waits in which nothing moved for the time of the option stall_after */
	uint64_t staged; /* operations and messages copied through host memory */

	/* --- of the endpoint, which communicators share: messages that came before their receive */

	uint64_t unexpected;             /* such messages */
	uint64_t unexpected_bytes;       /* their bytes */
	uint64_t unexpected_now;         /* how many of them wait for their receive now */
	uint64_t unexpected_memory;      /* bytes of memory that hold such messages now */
	uint64_t unexpected_memory_most; /* the most such bytes that there ever were */

	/* --- of the communicator */

	uint64_t staged_bytes; /* bytes that were copied between devices and host memory */

	/* --- of the rank that the caller names */

	int32_t rank; /* of the communicator; the caller sets it, 0 for the first rank */
	int32_t reserved2;
	uint64_t last_waits; /* waits that the rank ended as the last one: see coll_get_counters */
	uint64_t last_ns;    /* nanoseconds of these waits */
	uint64_t behind;     /* stalls in which the rank was behind: see coll_get_counters */
} coll_counters_t;

/*
 * Reads the counters of a communicator, with the option counters = yes (COLL_COUNTERS=yes).
 *
 * out       The caller sets size, kind and rank; the library fills in the rest.  The counters begin at 0 with
 *           the communicator and only grow, but for unexpected_now and unexpected_memory.  introspect.h has
 *           their names and units.
 *
 * last_waits and last_ns count the waits of this rank's threads for operations that libcoll composes of
 * messages.  A wait counts for the rank from which the last message of the operation came, or to which this
 * rank sent a message, if the bytes of that message left later.  In a ring or a tree that rank may itself
 * have waited for another rank: a rank that comes late to its calls is the rank for which others waited
 * long, and which has waited little itself.  Waits for operations that a backend does whole (nccl, mpi,
 * ucc), and for coll_irecv, whose source the program names, count for no rank.
 *
 * behind counts, over all backends, the stalls of this rank in which the named rank was behind.  When nothing
 * has moved for the time of the option stall_after, libcoll asks the ranks: the named rank is behind if it has
 * called fewer collectives than this rank, or does not answer while its data are missing.
 *
 * No counter is about retries, since libcoll retries nothing once the communicator is made: a connection
 * that ends is a failure, and what TCP or UCX repeat below is in the counters of the system or of UCX.
 *
 * Limits    The first 1,024 ranks of a communicator have last_waits, last_ns and behind; they are 0 for the
 *           others.
 * Threads   Any thread may call it, beside calls of other threads.  It does not block.
 * Errors    COLL_ERR_UNSUPPORTED: the option is off.  COLL_ERR_INVALID_ARGUMENT: size, kind or rank is wrong.
 */
COLL_API coll_result_t coll_get_counters(coll_comm_t comm, coll_counters_t *out);

/* ------------------------------------------------------------ derived communicators -- */

enum { COLL_SPLIT_NOCOLOR = -1 };

/*
 * Makes communicators of parts of `comm`: ranks of equal colour form a new communicator.
 *
 * color     0 or more; or COLL_SPLIT_NOCOLOR: the rank takes part in the call, and *newcomm becomes
 *           NULL.
 * key       Orders the ranks of the new communicator; equal keys keep the old order.
 * newcomm   Becomes the new communicator.  It uses the backend, connections and options of `comm`.
 *           Either communicator may be destroyed first.
 * config    NULL, or coll_config_t.timeout_ms of the new communicator; its other fields are not set.
 * Blocks    Until all ranks of `comm` have called it: the call is collective.  In a group the call
 *           returns at once, and coll_group_end() blocks and fills in *newcomm; so one thread can
 *           split for all ranks of coll_comm_init_all().  coll_comm_dup() and coll_comm_isplit()
 *           on other ranks meet this call: coll_comm_dup() counts as colour 0 and key 0.
 * Errors    COLL_ERR_PEER_LOST: a rank has died, and the text has its number.  Some ranks may have
 *           succeeded by then.  Their new communicator fails at once if one of its ranks could not
 *           make it, so that no rank waits there for another.  COLL_ERR_UNSUPPORTED: the
 *           connections cannot have more communicators; make one with a new id.
 *
 * With a transport, each split, dup and shrink takes a number that is never used again on the same
 * connections, not even after destroy.  Rank 0 of `comm` (shrink: of the new communicator) takes it
 * from a supply of its own of 2^(26 - ceil(log2 n)) - 1 numbers, where n is the number of ranks of the
 * first communicator on these connections: 33,554,431 for 2 ranks, 65,535 for 1024 ranks.
 *
 * A backend without a transport makes new connections instead, for which the ranks meet as they did
 * for the first communicator.  Then the call waits for the operations before it, and each step
 * takes at most init_timeout.  With a companion the ranks first wait for each other as in a
 * collective on host memory: for `timeout` at most, and a rank that has made another call is
 * COLL_ERR_MISMATCH.  The failure or abort of another rank ends the call, and so does an abort by
 * another thread; both have to wait for an exchange function of the application.
 */
COLL_API coll_result_t coll_comm_split(coll_comm_t comm, int32_t color, int32_t key,
				       coll_comm_t *newcomm, const coll_config_t *config);

/*
 * Makes a communicator of all ranks in the same order, independent of `comm`.
 * Blocks    As coll_comm_split.
 */
COLL_API coll_result_t coll_comm_dup(coll_comm_t comm, coll_comm_t *newcomm);

/*
 * Makes communicators as coll_comm_split, and returns before they exist.
 *
 * newcomm   Becomes NULL now, and the new communicator before the request is complete: the program
 *           must keep the place of the handle until then, also if it frees the request earlier.
 * config    As coll_comm_split.
 * request   Becomes the request, which the program frees with coll_request_free().  Its result is
 *           that of the split: after an error *newcomm stays NULL.
 *
 * The split has its place in the order of the operations of `comm`, and later operations of `comm`
 * do not wait for the program to test the request.  It meets the calls of coll_comm_split and
 * coll_comm_isplit on the other ranks alike.  In a group it begins with the group's end.
 * Blocks    With a backend without a transport (nccl, ucc) only: as coll_comm_split, and the request is
 *           complete when the call, in a group coll_group_end(), has returned.
 * Errors    As coll_comm_split, from the request.
 */
COLL_API coll_result_t coll_comm_isplit(coll_comm_t comm, int32_t color, int32_t key,
					coll_comm_t *newcomm, const coll_config_t *config,
					coll_request_t *request);

/*
 * Makes a communicator of all ranks in the same order, as coll_comm_isplit with equal colours and
 * keys.  It meets coll_comm_dup on other ranks.
 */
COLL_API coll_result_t coll_comm_idup(coll_comm_t comm, coll_comm_t *newcomm,
				      const coll_config_t *config, coll_request_t *request);

/*
 * Makes a communicator of the surviving ranks.  Only the ranks that are not excluded call it.
 *
 * exclude   The ranks that do not take part, the same list on all callers.  The other ranks keep
 *           their order.
 * nexclude  Entries of exclude.
 * newcomm   Becomes the new communicator.  `comm` remains and must still be destroyed.
 * config    NULL, or coll_config_t.timeout_ms of the new communicator; its other fields are not set.
 * flags     0.
 * Blocks    Until all ranks that are not excluded have called it, for `timeout` at most: the call is
 *           collective over these.  It works after an excluded rank has died and `comm` has failed,
 *           and needs no answer of the excluded ranks.  An abort or a destroy by another thread ends
 *           it, also if `comm` was aborted before; while nccl makes the new communicator, a destroy
 *           ends it after `destroy_timeout`.
 * Errors    COLL_ERR_PEER_LOST: another rank has died meanwhile, and the text has its number;
 *           exclude it too and call again.  COLL_ERR_INVALID_USAGE: the call is inside a group.
 *           COLL_ERR_UNSUPPORTED: the backend has neither a transport nor a shrink of its own, and the
 *           ranks have no companion; or NCCL is older than 2.27, or older than 2.28.7 after a failure or
 *           an abort of `comm`, also with a companion.
 *
 * A communicator that the shrink of a backend without a transport made can be split if the ranks have
 * a companion; else shrink it, or make a new communicator.
 */
COLL_API coll_result_t coll_comm_shrink(coll_comm_t comm, const int32_t *exclude, int32_t nexclude,
					coll_comm_t *newcomm, const coll_config_t *config,
					int32_t flags);

/* --------------------------------------------------------------- collectives -- */

/*
 * All collectives have these parameters in common:
 *
 * sendbuf   Input of this rank.  May be NULL where the call has no elements to send.
 * recvbuf   Output of this rank.  May be NULL where the call has no elements to receive.
 * count, ...count
 *           Elements, as each function says; the same on all ranks.
 * dtype     COLL_INT8 to COLL_INT64_INT32, or a type of coll_dtype_opaque(); the same on all ranks (but see
 *           the v-forms).
 * op        COLL_SUM to COLL_MAXLOC, or an operation made on `comm` or for every communicator; the same
 *           operation on all ranks.
 * root      0 to nranks - 1; the same on all ranks.
 * stream    NULL, or a stream of the program (coll_stream_t).
 * Returns   COLL_SUCCESS once the operation is issued.  The call does not block.
 * Errors    COLL_ERR_INVALID_ARGUMENT: the text names the argument.  COLL_ERR_UNSUPPORTED: the
 *           backend does not take the memory, or can do the operation neither itself nor over
 *           messages.  The asynchronous error of a communicator that has failed.
 * In place  The caller asks for an operation in place as in NCCL.  allreduce, broadcast, reduce, alltoall,
 *           scan and exscan: sendbuf == recvbuf.  allgather, and gather on root: sendbuf == recvbuf + rank *
 *           count elements.  reduce_scatter, and scatter on root: recvbuf == sendbuf + rank * count
 *           elements.  The v-forms use the rank's displacement instead (reduce_scatterv: the sum of the
 *           counts of the ranks below).  alltoallv: sendbuf == recvbuf, with equal counts and displacements
 *           for sending and receiving.  Lists: see coll_allgather_list.  Each rank decides for itself
 *           whether it works in place.  Every other overlap of the two buffers is
 *           COLL_ERR_INVALID_ARGUMENT (v-forms: every other overlap of their parts; a buffer may lie in the
 *           gaps of the other buffer).
 */

/*
 * Reduces: on every rank recvbuf[i] becomes op over all ranks of sendbuf[i].  Both buffers hold `count`
 * elements.
 */
COLL_API coll_result_t coll_allreduce(const void *sendbuf, void *recvbuf, size_t count,
				      coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
				      coll_stream_t stream);

/* Copies `count` elements of rank root's sendbuf to recvbuf of every rank.  Only root uses sendbuf. */
COLL_API coll_result_t coll_broadcast(const void *sendbuf, void *recvbuf, size_t count,
				      coll_dtype_t dtype, int32_t root, coll_comm_t comm,
				      coll_stream_t stream);

/* Reduces as coll_allreduce, with the result on root only.  Only root uses recvbuf. */
COLL_API coll_result_t coll_reduce(const void *sendbuf, void *recvbuf, size_t count,
				   coll_dtype_t dtype, coll_op_t op, int32_t root, coll_comm_t comm,
				   coll_stream_t stream);

/*
 * Gathers sendbuf of every rank on every rank.  sendbuf holds sendcount elements, recvbuf
 * nranks * sendcount; rank r's elements begin at offset r * sendcount.
 */
COLL_API coll_result_t coll_allgather(const void *sendbuf, void *recvbuf, size_t sendcount,
				      coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream);

/*
 * Reduces, and gives each rank one part of the result.  sendbuf holds nranks * recvcount elements;
 * rank r receives the reduced elements from offset r * recvcount.
 */
COLL_API coll_result_t coll_reduce_scatter(const void *sendbuf, void *recvbuf, size_t recvcount,
					   coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
					   coll_stream_t stream);

/*
 * Exchanges parts of `count` elements between all ranks: part r of sendbuf goes to rank r, where it
 * becomes the part of recvbuf with the sender's number.  Each buffer holds nranks * count elements.
 */
COLL_API coll_result_t coll_alltoall(const void *sendbuf, void *recvbuf, size_t count,
				     coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream);

/*
 * Gathers sendbuf (count elements) of every rank in recvbuf of root (nranks * count elements), in
 * rank order.  Only root uses recvbuf.
 */
COLL_API coll_result_t coll_gather(const void *sendbuf, void *recvbuf, size_t count,
				   coll_dtype_t dtype, int32_t root, coll_comm_t comm,
				   coll_stream_t stream);

/*
 * Sends part r of root's sendbuf (nranks * count elements) to recvbuf (count elements) of rank r.
 * Only root uses sendbuf.
 */
COLL_API coll_result_t coll_scatter(const void *sendbuf, void *recvbuf, size_t count,
				    coll_dtype_t dtype, int32_t root, coll_comm_t comm,
				    coll_stream_t stream);

/*
 * Reduces `count` elements over the ranks up to this rank: rank r receives x0 op x1 op ... op xr, in
 * rank order.  Both buffers hold `count` elements.
 *
 * Errors    COLL_ERR_INVALID_ARGUMENT: op is COLL_AVG, since each rank adds up other ranks.
 *           COLL_ERR_UNSUPPORTED: the backend has no transport (nccl) and the memory is a device's:
 *           coll-memory(7).
 */
COLL_API coll_result_t coll_scan(const void *sendbuf, void *recvbuf, size_t count,
				 coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
				 coll_stream_t stream);

/*
 * Reduces as coll_scan, without this rank's own input: rank r receives x0 op ... op x(r-1).  There is no
 * such result on rank 0: the library leaves its receive buffer as it is, and the buffer may be NULL.  In
 * place rank 0 so keeps its input.
 */
COLL_API coll_result_t coll_exscan(const void *sendbuf, void *recvbuf, size_t count,
				   coll_dtype_t dtype, coll_op_t op, coll_comm_t comm,
				   coll_stream_t stream);

/*
 * The v-forms have a count and a displacement for each rank, both in elements.
 *
 * ...counts   nranks entries; the library copies them during the call.
 * ...displs   nranks entries, copied too; or NULL: the parts follow one another.  The parts in a
 *             receive buffer must not overlap.
 * dtype       A rank that has no elements, neither to send nor to receive, may name any type, in
 *             reductions any type that has `op`.  But it names an opaque type if and only if the other
 *             ranks name an opaque type.
 * A rank's count for its own part must be the same for sending and receiving.
 */

/*
 * Gathers as coll_allgather: this rank sends sendcount elements, and the recvcounts[r] elements of rank r go
 * to offset displs[r] of recvbuf.
 */
COLL_API coll_result_t coll_allgatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
				       const size_t *recvcounts, const size_t *displs,
				       coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream);

/* Reduces as coll_reduce_scatter: rank r receives recvcounts[r] elements; parts in rank order. */
COLL_API coll_result_t coll_reduce_scatterv(const void *sendbuf, void *recvbuf,
					    const size_t *recvcounts, coll_dtype_t dtype,
					    coll_op_t op, coll_comm_t comm, coll_stream_t stream);

/*
 * Exchanges parts as coll_alltoall: sendcounts[r] elements from offset sdispls[r] of sendbuf go to
 * rank r, and recvcounts[r] elements of rank r go to offset rdispls[r] of recvbuf.
 */
COLL_API coll_result_t coll_alltoallv(const void *sendbuf, const size_t *sendcounts,
				      const size_t *sdispls, void *recvbuf,
				      const size_t *recvcounts, const size_t *rdispls,
				      coll_dtype_t dtype, coll_comm_t comm, coll_stream_t stream);

/*
 * Gathers as coll_gather: rank r sends sendcount elements, equal to root's recvcounts[r], and they
 * go to offset displs[r] of root's recvbuf.  Only root uses recvcounts and displs.
 */
COLL_API coll_result_t coll_gatherv(const void *sendbuf, size_t sendcount, void *recvbuf,
				    const size_t *recvcounts, const size_t *displs,
				    coll_dtype_t dtype, int32_t root, coll_comm_t comm,
				    coll_stream_t stream);

/*
 * Sends as coll_scatter: rank r receives recvcount elements, equal to root's sendcounts[r], from
 * offset displs[r] of root's sendbuf.  Only root uses sendcounts and displs.
 */
COLL_API coll_result_t coll_scatterv(const void *sendbuf, const size_t *sendcounts,
				     const size_t *displs, void *recvbuf, size_t recvcount,
				     coll_dtype_t dtype, int32_t root, coll_comm_t comm,
				     coll_stream_t stream);

/*
 * The forms with lists take one pointer for each rank instead of one buffer.  So data that lie apart
 * need no copy into one buffer and out of it.
 *
 * ...bufs     nranks pointers; the library copies them during the call.  Buffer r, of `count` elements, has the place
 *             of rank r's part in the buffer of the plain form.  Where only root uses the list, it may
 *             be NULL on the other ranks.  If count is 0 the list must still be there, but the library
 *             does not read its pointers.
 * Overlap     Buffers must not overlap where the call writes.  In place sendbuf is recvbufs[rank], or recvbuf is
 *             sendbufs[rank]; alltoall has no form in place.
 * Memory      All buffers of a list lie in memory of one kind, in CUDA memory of one device, and at addresses that
 *             differ by multiples of the element's size (memory of malloc and tensors do, for every type but opaque
 *             ones).
 * Matching    Either all ranks call the form with a list, or none: it does not match the plain form.  The library
 *             executes it as the v-form with equal counts and names it so in the texts of later errors;
 *             the v-form's rules and algorithms apply.
 */

/* Gathers as coll_allgather: the data of rank r go to recvbufs[r]. */
COLL_API coll_result_t coll_allgather_list(const void *sendbuf, void *const *recvbufs, size_t count,
					   coll_dtype_t dtype, coll_comm_t comm,
					   coll_stream_t stream);

/*
 * Reduces as coll_reduce_scatter: rank r receives the reduced elements of all ranks' sendbufs[r].  A backend without a
 * transport (nccl) executes one reduce for each rank, as a group.
 */
COLL_API coll_result_t coll_reduce_scatter_list(const void *const *sendbufs, void *recvbuf,
						size_t count, coll_dtype_t dtype, coll_op_t op,
						coll_comm_t comm, coll_stream_t stream);

/* Exchanges as coll_alltoall: sendbufs[r] goes to rank r, and the data of rank r go to recvbufs[r]. */
COLL_API coll_result_t coll_alltoall_list(const void *const *sendbufs, void *const *recvbufs,
					  size_t count, coll_dtype_t dtype, coll_comm_t comm,
					  coll_stream_t stream);

/* Gathers as coll_gather: the data of rank r go to recvbufs[r] of root. */
COLL_API coll_result_t coll_gather_list(const void *sendbuf, void *const *recvbufs, size_t count,
					coll_dtype_t dtype, int32_t root, coll_comm_t comm,
					coll_stream_t stream);

/* Sends as coll_scatter: sendbufs[r] of root goes to rank r. */
COLL_API coll_result_t coll_scatter_list(const void *const *sendbufs, void *recvbuf, size_t count,
					 coll_dtype_t dtype, int32_t root, coll_comm_t comm,
					 coll_stream_t stream);

/*
 * Waits for all ranks.
 *
 * Blocks    Until every rank has called it and all operations issued before it are complete.
 * Errors    COLL_ERR_INVALID_USAGE: the thread has an open group, so the wait would never end.
 */
COLL_API coll_result_t coll_barrier(coll_comm_t comm);

/* ------------------------------------------------------------- point to point -- */

enum { COLL_ANY_SOURCE = -1 };

/*
 * Sends `count` elements to rank `peer`.
 *
 * A send matches the receive of equal tag on the peer; for one peer and tag, sends and receives
 * match in the order of issue.  nccl matches by order alone and ignores the tag, but not on host memory; both
 * ends of a message lie on devices then, or both on hosts.
 * Operations of one communicator run in order: two ranks that both send to each other and then
 * receive must put the pair between coll_group_start() and coll_group_end(), or use coll_isend() and
 * coll_irecv(), which are outside this order.
 *
 * sendbuf   `count` elements.
 * count     The same on both sides.
 * dtype     The same on both sides; a message of no elements has no type.
 * peer      0 to nranks - 1; the own rank is allowed.
 * tag       Any value.
 * Errors    COLL_ERR_MISMATCH fails the communicator if count or dtype differ.  The receiver
 *           notices; the send may be complete before, and return success.
 *
 * A send is complete when sendbuf may be written again; the peer may not have received the message.  If the
 * sender dies (rather than destroys the communicator), messages that the peer has not received by then
 * may be lost with it, since the loss fails the communicator: how many depends on the backend.
 */
COLL_API coll_result_t coll_send(const void *sendbuf, size_t count, coll_dtype_t dtype,
				 int32_t peer, uint32_t tag, coll_comm_t comm,
				 coll_stream_t stream);

/*
 * Receives `count` elements from rank `peer`; see coll_send.
 *
 * recvbuf   Room for `count` elements.
 * peer      0 to nranks - 1, or COLL_ANY_SOURCE on backends with a transport, and with nccl on host memory.
 */
COLL_API coll_result_t coll_recv(void *recvbuf, size_t count, coll_dtype_t dtype, int32_t peer,
				 uint32_t tag, coll_comm_t comm, coll_stream_t stream);

/* ------------------------------------- messages outside the order of the operations -- */

enum { COLL_ANY_TAG = -1 };

/*
 * Begins to send `count` elements to rank `peer`.
 *
 * The message starts at once: it waits for no operation of the communicator, no operation waits for it,
 * and an open group does not hold it.  So two ranks may both receive from each other and then send, and
 * a receive may stay open across collectives.  coll_sync, coll_barrier and events do not wait for these
 * messages.
 *
 * Matching       A message of coll_isend matches a receive of coll_irecv on the same communicator, if the
 *                receive names its source or any and its tag or any.  coll_send and coll_recv are apart:
 *                they never match it.  Messages from one rank that match the same receives are received
 *                in the order of the calls of coll_isend, and receives take messages in the order of the
 *                calls of coll_irecv.
 * Completion     coll_test, coll_wait, coll_wait_for, coll_wait_any, coll_wait_some, or a function of
 *                coll_request_set_callback.  A send is complete when its buffer may be used again; the
 *                receiver need not have called.  Data move as with any operation: coll-completion(7).
 * Early messages The receiver keeps a message that no receive matches, whole, in memory of the library.
 *                If it has no memory for the message, its communicator fails with COLL_ERR_NO_MEMORY.
 * Errors         Each request has its own result.  These end a request, and the communicator lives:
 *                   COLL_ERR_MISMATCH   the message is longer than the receive, or of another type; it is
 *                                       lost, and the receive buffer is unchanged
 *                   COLL_ERR_PEER_LOST  the other rank (of any source: all others) has destroyed its
 *                                       communicator
 *                   COLL_ERR_TIMEOUT    no message came in the time of coll_request_set_timeout
 *                   COLL_ERR_ABORTED    coll_request_cancel
 *                A failure of the communicator (a lost rank, an abort, a mismatch of operations) ends its
 *                open messages with the communicator's error, and coll_comm_destroy ends open receives;
 *                it waits for sends, at most destroy_timeout.
 * Waits          coll_wait, and coll_wait_for, _any and _some without a limit, end after `timeout` without
 *                progress: the communicator then fails with COLL_ERR_TIMEOUT, and the text names the peer
 *                and the tag.  coll_test and waits of limited time never do that.  If the bytes of a message
 *                are already under way at the end of its coll_request_set_timeout, the communicator fails
 *                too.
 *
 * Device memory  Device and managed memory is staged with the option enable_gpu_fallback only, with
 *                the same warning as in operations: coll-memory(7).  The library copies a message whole, beside the
 *                calling thread: the bytes of a send before the send starts, and later sends wait for
 *                it; the bytes of a receive after the message has come.  A copy that fails ends its
 *                request with COLL_ERR_DEVICE.
 *
 * sendbuf   The caller leaves it alone until the request is complete.  The work that fills device memory is complete
 *           before the call.
 * count     May be 0; the receive may be longer.
 * dtype     The same on both sides; a message of no elements has no type.
 * peer      0 to nranks - 1; the own rank is allowed.
 * tag       Any 32 bits except COLL_ANY_TAG.  A program whose tags are unsigned passes their bits; only
 *           4,294,967,295, which has the bits of COLL_ANY_TAG, cannot be the tag of such a message.
 * request   Becomes the request, which the program frees with coll_request_free(); NULL on an error.  A
 *           request that is freed before its message is complete leaves the message under way.
 * Returns   COLL_ERR_UNSUPPORTED if the buffer is device or managed memory without that option, or if
 *           the backend has no transport (nccl, ucc) and the ranks have no companion.
 */
COLL_API coll_result_t coll_isend(const void *sendbuf, size_t count, coll_dtype_t dtype,
				  int32_t peer, int32_t tag, coll_comm_t comm,
				  coll_request_t *request);

/*
 * Begins to receive up to `count` elements from rank `peer`; see coll_isend.
 *
 * recvbuf   A shorter message leaves the bytes behind its own unchanged.
 * peer      0 to nranks - 1, or COLL_ANY_SOURCE.
 * tag       As coll_isend, or COLL_ANY_TAG.
 */
COLL_API coll_result_t coll_irecv(void *recvbuf, size_t count, coll_dtype_t dtype, int32_t peer,
				  int32_t tag, coll_comm_t comm, coll_request_t *request);

/* A message.  The caller sets size before it passes the struct. */
typedef struct coll_status {
	uint64_t size;  /* sizeof(coll_status_t) of the program */
	int32_t source; /* the sender's rank; -1: not known */
	int32_t tag;    /* the bits of the tag; -1: not known */
	uint64_t bytes; /* length of the message */
	int32_t error;  /* result of the request, or COLL_IN_PROGRESS */
	int32_t dtype;  /* of the message; -1: it has no elements, or is not known */
} coll_status_t;

/*
 * Tells what a request of coll_isend or coll_irecv has sent or received.
 *
 * status    After COLL_ERR_MISMATCH it has the source, tag, length and type of the message that did not
 *           fit.
 * Errors    COLL_ERR_INVALID_USAGE: the request is of another kind.
 */
COLL_API coll_result_t coll_request_get_status(coll_request_t request, coll_status_t *status);

/*
 * Ends a receive of coll_irecv to which no message has come: its result becomes COLL_ERR_ABORTED.
 *
 * Errors    COLL_ERR_INVALID_USAGE, and nothing changes: the request is complete, a message for it is
 *           under way, or it is a send (which has started) or an operation.
 */
COLL_API coll_result_t coll_request_cancel(coll_request_t request);

/*
 * Waits for a message of coll_isend that no receive has matched, and leaves the message there.
 *
 * peer      0 to nranks - 1, or COLL_ANY_SOURCE.
 * tag       As coll_isend, or COLL_ANY_TAG.
 * status    Receives source, tag, length and type.  The bytes may still be under way.  Unless another
 *           thread receives it before, the next coll_irecv of this source and tag receives the message.
 * Blocks    Until there is one; after `timeout` without progress the communicator fails.
 * Errors    COLL_ERR_PEER_LOST as in coll_isend.
 */
COLL_API coll_result_t coll_probe(int32_t peer, int32_t tag, coll_comm_t comm,
				  coll_status_t *status);

/*
 * Looks for a message as coll_probe.  Makes progress and does not block.
 *
 * found     Becomes 1 if there is one, else 0: then *status is unchanged.
 */
COLL_API coll_result_t coll_iprobe(int32_t peer, int32_t tag, coll_comm_t comm, int32_t *found,
				   coll_status_t *status);

/* ------------------------------------------------------------ groups, completion -- */

/*
 * Opens a group: the operations that this thread issues until the matching coll_group_end(), on any
 * communicators, form one batch.  The operations of the batch begin at the end of the group and run
 * at the same time (where ranks share processors, long collectives behind the group's last send or
 * receive in their order, a few at a time), so their buffers must not overlap where an operation
 * writes: with the option check_buffers = yes a call that breaks this rule returns
 * COLL_ERR_INVALID_USAGE and names both operations, else the data is wrong.  Groups may be nested;
 * the outermost end counts.
 */
COLL_API coll_result_t coll_group_start(void);

/*
 * Closes a group and begins its operations.
 *
 * Blocks    Only if the group has splits (coll_comm_split).
 * Returns   COLL_SUCCESS, or the first error that came up when the operations began or in a split.
 *           An operation whose own call returned an error is not part of the group: only that
 *           call reports the error, and coll_group_end() may return COLL_SUCCESS without it.
 * Errors    COLL_ERR_INVALID_USAGE: the thread has no open group.
 */
COLL_API coll_result_t coll_group_end(void);

/*
 * Waits for all operations of a communicator.
 *
 * Blocks    Until every operation issued on the communicator is complete, or an operation has
 *           failed.
 * Errors    COLL_ERR_INVALID_USAGE: the thread has an open group, so the wait would never end.
 */
COLL_API coll_result_t coll_sync(coll_comm_t comm);

/* Kinds of operation, for coll_args_t. */
enum {
	COLL_KIND_NONE = -1, /* not a kind */
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
	COLL_KIND_RECV = 16,
	COLL_KIND_SCAN = 17,
	COLL_KIND_EXSCAN = 18
};

/* Returns the name of a kind ("allreduce"), or "?" if unknown; a static string. */
COLL_API const char *coll_kind_name(int32_t kind);

/*
 * coll_args_t.flags = (i + 1) << COLL_ARGS_ALGORITHM: the library composes the call by the algorithm of
 * index i in coll_algorithm() (introspect.h), instead of the one that the rules choose.  All ranks name the
 * same.  COLL_ERR_UNSUPPORTED: the algorithm is not one of this kind, or does not serve the number of
 * ranks or the operation.  COLL_ERR_INVALID_USAGE: the backend executes the call by itself.
 */
enum { COLL_ARGS_ALGORITHM = 16 };

/*
 * The arguments of any operation: coll_request_init() takes them, and the native slots of a backend
 * receive them.  The library ignores a field that a kind does not use.
 */
typedef struct coll_args {
	uint64_t size;  /* sizeof(coll_args_t) of the program that filled the struct */
	int32_t kind;   /* COLL_KIND_* */
	int32_t dtype;  /* COLL_INT8 ... */
	int32_t op;     /* COLL_SUM ... */
	int32_t root;   /* root, or the peer of SEND and RECV */
	uint32_t tag;   /* SEND and RECV; of collectives any number, for the record (COLL_DUMP) */
	uint32_t flags; /* 0, or an algorithm (COLL_ARGS_ALGORITHM) */
	const void *sendbuf;
	void *recvbuf;
	uint64_t count;           /* the count argument of the collective, in elements */
	const size_t *sendcounts; /* v-forms: nranks entries each */
	const size_t *senddispls;
	const size_t *recvcounts;
	const size_t *recvdispls;
	coll_stream_t stream;
	const void *scalar; /* ignored: coll_red_op_create_pre_mul_sum() takes the scalar */
} coll_args_t;

/*
 * Makes a persistent request: the program prepares an operation once and starts it many times, and
 * the library keeps the schedule.
 *
 * args      The operation.  The library copies the struct, its arrays and an operation made by
 *           coll_red_op_create_*; every start uses the same buffers and counts.
 * request   Becomes the request, which the program frees with coll_request_free().
 *
 * All ranks must initialise and start their collective requests in the same order.
 */
COLL_API coll_result_t coll_request_init(coll_comm_t comm, const coll_args_t *args,
					 coll_request_t *request);

/*
 * Issues the operation of a persistent request.
 *
 * Errors    COLL_ERR_INVALID_USAGE: the operation is still under way (wait for it first), or the
 *           request was not made by coll_request_init().
 */
COLL_API coll_result_t coll_request_start(coll_request_t request);

/*
 * Issues an operation and makes its request, which the program frees with coll_request_free().
 *
 * args      The operation.  As with the functions of the collectives the library copies the arrays,
 *           and the program leaves the buffers alone until the operation is complete.
 * request   Becomes the request; NULL on an error.
 *
 * Threads that share a communicator get the request of their own operation, which
 * coll_get_request() does not promise.
 */
COLL_API coll_result_t coll_request_issue(coll_comm_t comm, const coll_args_t *args,
					  coll_request_t *request);

/* Makes a request for the operation issued last on `comm`; the program frees it after use. */
COLL_API coll_result_t coll_get_request(coll_comm_t comm, coll_request_t *request);

/*
 * Tells whether the operation of a request is complete.  Makes progress and does not block.
 *
 * done      Becomes 1 or 0.
 */
COLL_API coll_result_t coll_test(coll_request_t request, int32_t *done);

/*
 * Waits for the operation of a request.
 * Blocks    Until the operation is complete, or an operation of the communicator has failed.
 * Returns   Its result; of coll_isend and coll_irecv that of the message.
 */
COLL_API coll_result_t coll_wait(coll_request_t request);

/*
 * Waits as coll_wait, for a limited time.
 *
 * timeout_ms   Milliseconds; 0: does not wait; -1: no limit but the communicator's.
 * Returns      COLL_IN_PROGRESS if the operation is not complete by then.  This is no failure: the
 *              operation continues, and the program can wait again.
 */
COLL_API coll_result_t coll_wait_for(coll_request_t request, int64_t timeout_ms);

/*
 * Waits until one of several requests is complete.  They may be of different communicators.
 *
 * n            Number of requests, 0 or more.
 * requests     n requests.  A NULL entry is passed over: the program sets an entry to NULL when its
 *              operation was reported, or the next call would report it again.
 * timeout_ms   As coll_wait_for.
 * index        Becomes the least index of a request that is complete, or whose communicator has
 *              failed; -1 if there is none, or if all entries are NULL.
 * Returns      The result of that operation, as coll_wait; COLL_IN_PROGRESS if the time was over.
 * Blocks       Until a request is complete or a communicator has failed.  The wait moves all of
 *              these communicators.
 * Cost         Each call looks at all n entries, since the program may have changed them.  For thousands
 *              of requests use coll_wait_some, which reports all that are complete at once.
 */
COLL_API coll_result_t coll_wait_any(int32_t n, const coll_request_t *requests, int64_t timeout_ms,
				     int32_t *index);

/*
 * Waits as coll_wait_any, and tells all requests that are complete.
 *
 * indices   Receives their indices in ascending order; room for n.
 * count     Becomes the number of indices.
 * Returns   COLL_SUCCESS, or the result of the first of these operations that failed: coll_test()
 *           tells each result.  COLL_IN_PROGRESS if the time was over.
 */
COLL_API coll_result_t coll_wait_some(int32_t n, const coll_request_t *requests, int64_t timeout_ms,
				      int32_t *indices, int32_t *count);

/*
 * A function of the program, called once when the operation of a request is over.
 *
 * user      The pointer given to coll_request_set_callback().
 * result    COLL_SUCCESS, or the error that ended the operation.
 *
 * The library calls the function on the thread that notices the completion: a thread in a call on the
 * communicator, the thread of `progress = thread`, or, after a failure over nccl, the thread that
 * watches the other ranks.  The function must not call the library, in which every handle is refused meanwhile
 * (COLL_ERR_INVALID_ARGUMENT), and should be short: it may set a flag, post a semaphore or write to
 * an eventfd.
 */
typedef void (*coll_request_fn)(void *user, coll_result_t result);

/*
 * Has a function called when the operation of a request is over: for event loops.
 *
 * fn        Called once for each call of this function, in the order of the operations; during this
 *           call if the operation is over already.  Also called after coll_request_free(), and when
 *           the communicator fails, is aborted or destroyed.
 * user      Passed to fn.
 *
 * Of a persistent request it is the operation started last.
 */
COLL_API coll_result_t coll_request_set_callback(coll_request_t request, coll_request_fn fn,
						 void *user);

/*
 * Limits the time of the operation of a request: the communicator fails with COLL_ERR_TIMEOUT if the
 * operation is not complete by then, also while data move.
 *
 * timeout_ms   Milliseconds from this call on, 1 to 31,622,400,000.
 *
 * Of coll_irecv only the request ends, if no message has come: see coll_isend.
 * The limit stays when the request is freed.  Of a persistent request it is the operation started
 * last.  The library looks at the limit whenever a thread moves the communicator; a sleeping thread
 * wakes for it.  At most 0.25 s before the end the library asks the other ranks where they are, so
 * that the text can name the ranks that do not answer and the ranks that have not made the call.
 */
COLL_API coll_result_t coll_request_set_timeout(coll_request_t request, int64_t timeout_ms);

/*
 * Frees a request.  An operation under way continues, and the call does not wait for it.
 *
 * Blocks    While another thread is in a call with the request, 2 s at most: then the library keeps the
 *           request's memory and logs a warning.
 */
COLL_API coll_result_t coll_request_free(coll_request_t request);

/* --------------------------------------------------------------------- events -- */

/*
 * Makes an event.  Events order the communicator's own stream and other streams, in the same way on
 * every backend.
 *
 * The program records an event at a position of a stream; the event is complete when all work
 * before that position is complete.  An event that was never recorded counts as complete.
 * Recording again moves the event; work that already waits for it still waits for the old position.
 * Where a function takes another stream, it is a CUDA stream of the program, or NULL for the calling
 * thread itself.  An event recorded on the calling thread is complete at once, and making the
 * calling thread wait for an event blocks it.
 * The program may use an event with other communicators than the communicator that made it, and
 * after that communicator's end.  With nccl these communicators must be of the same backend, and calls
 * return COLL_ERR_INVALID_USAGE while a communicator has operations in an open group.  An event there
 * follows the operations on both kinds of memory, and operations on both kinds wait for it.  With tcp,
 * ucx and simulated a stream that waits for the communicator's own stream is released by a failure,
 * too; the event then has the error.
 */
COLL_API coll_result_t coll_event_create(coll_comm_t comm, coll_event_t *event);

/* Destroys an event.  Blocks as coll_request_free. */
COLL_API coll_result_t coll_event_destroy(coll_event_t event);

/*
 * Records an event at the end of the communicator's own stream.
 * Errors    The communicator's asynchronous error, which the event then has too.
 */
COLL_API coll_result_t coll_event_record(coll_event_t event, coll_comm_t comm);

/* Records an event at the end of another stream. */
COLL_API coll_result_t coll_event_record_on_stream(coll_event_t event, coll_comm_t comm,
						   coll_stream_t stream);

/*
 * Makes later operations of the communicator's own stream begin after the event.  Does not block.
 * If another communicator recorded the event and fails, this communicator fails too; with nccl it
 * does so only if the failed communicator was destroyed before this call.
 */
COLL_API coll_result_t coll_comm_wait_event(coll_comm_t comm, coll_event_t event);

/*
 * Makes later work of another stream begin after the event.
 * Blocks    Only if `stream` is NULL, the calling thread; bounded by `timeout`.
 */
COLL_API coll_result_t coll_stream_wait_event(coll_comm_t comm, coll_stream_t stream,
					      coll_event_t event);

/*
 * Tells whether an event is complete.  Makes progress and does not block.
 * Returns   COLL_SUCCESS if the event is complete, COLL_IN_PROGRESS if not, or the error of the
 *           work before it, also after the communicator is destroyed.  An event recorded on a
 *           stream of the program tells only how far that stream is.
 */
COLL_API coll_result_t coll_event_query(coll_event_t event);

/*
 * Waits for an event.
 * Blocks    The calling thread, until the event is complete; bounded by `timeout`.
 */
COLL_API coll_result_t coll_event_synchronize(coll_event_t event);

/* ------------------------------------------------------------- own operations -- */

/* Where the scalar of coll_red_op_create_pre_mul_sum lies. */
enum {
	COLL_SCALAR_NONE = -1, /* not a place */
	COLL_SCALAR_DEVICE = 0,
	COLL_SCALAR_HOST_IMMEDIATE = 1
};

/*
 * Makes an operation "sum of scalar * x": the library rounds each rank's product to dtype, then
 * sums the products.
 *
 * op         Becomes the operation, valid on this communicator and for this dtype until
 *            coll_red_op_destroy().
 * scalar     One element of dtype, which is not COLL_BOOL.  The ranks may have different scalars.
 * residence  COLL_SCALAR_HOST_IMMEDIATE: the library reads *scalar during this call.
 *            COLL_SCALAR_DEVICE: the library reads *scalar whenever an operation begins; it may lie
 *            in any kind of memory that the backend takes.
 */
COLL_API coll_result_t coll_red_op_create_pre_mul_sum(coll_op_t *op, const void *scalar,
						      coll_dtype_t dtype, int32_t residence,
						      coll_comm_t comm);

/*
 * A reduction of the application: inout[i] = left[i] op inout[i].
 *
 * user      The pointer given to coll_red_op_create_user().
 * left      `count` elements in host memory, 16-byte aligned.
 * inout     The same.
 * count     Elements; the library calls the function for pieces of any length.
 *
 * The library calls the function on whichever thread moves data.  The operation must be associative
 * and the same on all ranks.  The function must not call the library.
 */
typedef void (*coll_user_op_fn)(void *user, const void *left, void *inout, size_t count,
				coll_dtype_t dtype);

/*
 * Makes an operation of the application.
 *
 * op           Becomes the operation, valid on comm (NULL: on all) until coll_red_op_destroy(op, comm).
 * fn           The function of the application.
 * user         Passed to fn.
 * commutative  0: the library passes the operands in rank order.
 * Order        All ranks of the communicator make the same operations in the same order, so that
 *              the library can tell when ranks reduce with different operations (not with comm
 *              NULL).
 * Errors       COLL_ERR_UNSUPPORTED, here or by the reduction: the backend has no transport: coll-memory(7).
 */
COLL_API coll_result_t coll_red_op_create_user(coll_op_t *op, coll_user_op_fn fn, void *user,
					       int32_t commutative, coll_comm_t comm);

/*
 * Destroys an operation.  Operations already issued and persistent requests keep their own copy of
 * it.
 */
COLL_API coll_result_t coll_red_op_destroy(coll_op_t op, coll_comm_t comm);

/*
 * Reduces two arrays of this process: inoutbuf[i] = inbuf[i] op inoutbuf[i].  No rank takes part but
 * the caller, and the library computes with the kernels of the collectives: a program that combines
 * data on its own gets the bits that a collective gets from the same order of operands.
 *
 * inbuf     `count` elements in host or managed memory, which the call only reads.
 * inoutbuf  The same; equal to inbuf or disjoint from it.  A stream of the program must not write
 *           either array during the call.
 * op        COLL_AVG and operations of coll_red_op_create_pre_mul_sum() are invalid arguments: both
 *           need ranks.
 * comm      The communicator on which coll_red_op_create_user() made `op`; NULL will do for all
 *           others.  The call neither waits for the communicator's operations nor is one, and it
 *           works after a failure of the communicator too.
 * Blocks    Until the result is complete.  The library calls the application's function on this
 *           thread.
 * Errors    COLL_ERR_UNSUPPORTED: an array lies in device memory.
 */
COLL_API coll_result_t coll_reduce_local(const void *inbuf, void *inoutbuf, size_t count,
					 coll_dtype_t dtype, coll_op_t op, coll_comm_t comm);

/* --------------------------------------------------------------------- memory -- */

/*
 * Announces memory that the program will use often, so that the backend may register it with its
 * hardware.  Correctness never needs it; the call succeeds and does nothing where a backend has
 * nothing to do.
 *
 * buf       `bytes` bytes; not NULL unless `bytes` is 0.
 * handle    Becomes the registration, for coll_comm_deregister() with the same communicator; becomes
 *           NULL if `bytes` is 0.  The registrations of a communicator end with it.
 */
COLL_API coll_result_t coll_comm_register(coll_comm_t comm, void *buf, size_t bytes, void **handle);

/* Ends a registration.  `handle` may be NULL. */
COLL_API coll_result_t coll_comm_deregister(coll_comm_t comm, void *handle);

/*
 * Allocates memory in which the buffers of operations are fastest, as ncclMemAlloc and MPI_Alloc_mem do.
 * Correctness never needs it, the ranks need not agree about it, and one buffer of a call may lie in it
 * and the other elsewhere.
 *
 * tcp       Host memory that the ranks of a host share: a receiver reads a long message where it lies,
 *           one copy instead of two.  Where the system refuses such memory it is ordinary memory, and a
 *           line at level info says why.
 * nccl      Device memory of the communicator's device, by ncclMemAlloc, which NCCL can register with
 *           its transports.
 * others    Ordinary host memory, on huge pages where possible.
 *
 * bytes     Becomes available at least; 0: *ptr becomes NULL.
 * ptr       Becomes the memory, aligned to 64 bytes at least.  Its content is undefined.
 * Lifetime  The memory belongs to the process.  It outlives the communicator, and operations of every
 *           communicator may use it, until coll_mem_free().
 * Sharing   Other ranks of the host may read every byte of the memory, also bytes that no operation sends.
 * Forks     A child process may not touch it.
 * Blocks    As long as the system looks for the pages; no other rank takes part.
 * Errors    COLL_ERR_NO_MEMORY.
 */
COLL_API coll_result_t coll_mem_alloc(coll_comm_t comm, size_t bytes, void **ptr);

/*
 * Frees memory of coll_mem_alloc().
 *
 * ptr       The address that coll_mem_alloc() has returned, or NULL.  No operation may use the memory
 *           any more.  The system gets shared memory back when the other ranks have called the library
 *           since.
 * Errors    COLL_ERR_INVALID_ARGUMENT: another address, also in a child process for memory of its parent.
 */
COLL_API coll_result_t coll_mem_free(void *ptr);

/* ---------------------------------------------------------- installed backends -- */

/*
 * Tells whether this process could use a backend now.  Needs no peer, and asks no other backend.
 *
 * name      "tcp".
 * reason    If not NULL, receives the reason why not as text, or "".
 * size      Bytes at reason.
 * Returns   COLL_SUCCESS, or the reason as a code.
 */
COLL_API coll_result_t coll_backend_available(const char *name, char *reason, size_t size);

#ifdef __cplusplus
}
#endif

#include <coll/introspect.h>

#endif
