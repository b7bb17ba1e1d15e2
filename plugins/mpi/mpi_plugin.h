/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * mpi_plugin.h - types and functions that the files of the mpi backend share.
 *
 * One endpoint is one MPI communicator of its own, made from those ranks of MPI_COMM_WORLD that are ranks of the endpoint.
 * mpi.c has the backend's table.  mpi_library.c opens an MPI library at run time, mpi_narrow.c fills in for its functions with
 * large counts, mpi_life.c starts and ends MPI, mpi_meet.c finds the ranks in MPI_COMM_WORLD, mpi_make.c makes MPI
 * communicators.  mpi_send.c and mpi_recv.c move messages in frames, mpi_watch.c learns of dead ranks, mpi_close.c ends an
 * endpoint.  mpi_native.c does whole collectives: mpi_type.c has their types and operations, mpi_buffer.c their buffers,
 * mpi_keep.c the requests that it keeps.  mpi_split.c makes the endpoints on which it does them for split communicators.
 * mpi_header.h includes MPI's declarations: those of mpi_abi.h and mpi_large.h, or an mpi.h.
 *
 * MPI cannot take back a buffer of a message that is under way, but the core may take its buffers back at any time.  So MPI
 * gets memory of the plugin only: the sender copies a message into frames, and the receiver copies it out of them.
 */
#ifndef MPI_PLUGIN_H
#define MPI_PLUGIN_H

#include <coll/backend.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/error.h"
#include "base/kit_bounded.h"
#include "base/plugin_kit.h"

#include "mpi_header.h"

#include <stdatomic.h>
#include <stddef.h>

/* ----------------------------------------------------------------- mpi_library.c -- */

/* The functions of MPI that the plugin needs: of every library, and those with large counts. */
#define MPI_FUNCTIONS(X)                                                                           \
	X(MPI_Cancel, cancel)                                                                      \
	X(MPI_Comm_create_group, comm_create_group)                                                \
	X(MPI_Comm_create_keyval, comm_create_keyval)                                              \
	X(MPI_Comm_free, comm_free)                                                                \
	X(MPI_Comm_get_errhandler, comm_get_errhandler)                                            \
	X(MPI_Comm_group, comm_group)                                                              \
	X(MPI_Comm_rank, comm_rank)                                                                \
	X(MPI_Comm_set_attr, comm_set_attr)                                                        \
	X(MPI_Comm_set_errhandler, comm_set_errhandler)                                            \
	X(MPI_Comm_size, comm_size)                                                                \
	X(MPI_Comm_split, comm_split)                                                              \
	X(MPI_Errhandler_free, errhandler_free)                                                    \
	X(MPI_Error_string, error_string)                                                          \
	X(MPI_Finalize, finalize)                                                                  \
	X(MPI_Finalized, finalized)                                                                \
	X(MPI_Get_library_version, get_library_version)                                            \
	X(MPI_Group_free, group_free)                                                              \
	X(MPI_Group_incl, group_incl)                                                              \
	X(MPI_Ibarrier, ibarrier)                                                                  \
	X(MPI_Init_thread, init_thread)                                                            \
	X(MPI_Initialized, initialized)                                                            \
	X(MPI_Irecv, irecv)                                                                        \
	X(MPI_Isend, isend)                                                                        \
	X(MPI_Query_thread, query_thread)                                                          \
	X(MPI_Request_free, request_free)                                                          \
	X(MPI_Start, start)                                                                        \
	X(MPI_Test, test)
#ifdef MPI_ULFM
#define MPI_ULFM_FUNCTIONS(X)                                                                      \
	X(MPI_Error_class, error_class)                                                            \
	X(MPI_Group_size, group_size)                                                              \
	X(MPI_Group_translate_ranks, group_translate_ranks)                                        \
	X(MPIX_Comm_failure_ack, comm_failure_ack)                                                 \
	X(MPIX_Comm_failure_get_acked, comm_failure_get_acked)
#else
#define MPI_ULFM_FUNCTIONS(X)
#endif
#define MPI_LARGE_FUNCTIONS(X)                                                                     \
	X(MPI_Iallgather_c, iallgather)                                                            \
	X(MPI_Iallgatherv_c, iallgatherv)                                                          \
	X(MPI_Iallreduce_c, iallreduce)                                                            \
	X(MPI_Ialltoall_c, ialltoall)                                                              \
	X(MPI_Ialltoallv_c, ialltoallv)                                                            \
	X(MPI_Ibcast_c, ibcast)                                                                    \
	X(MPI_Iexscan_c, iexscan)                                                                  \
	X(MPI_Igather_c, igather)                                                                  \
	X(MPI_Igatherv_c, igatherv)                                                                \
	X(MPI_Ireduce_c, ireduce)                                                                  \
	X(MPI_Ireduce_scatter_block_c, ireduce_scatter_block)                                      \
	X(MPI_Ireduce_scatter_c, ireduce_scatter)                                                  \
	X(MPI_Iscan_c, iscan)                                                                      \
	X(MPI_Iscatter_c, iscatter)                                                                \
	X(MPI_Iscatterv_c, iscatterv)
/* Persistent collectives, which a library without large counts lacks. */
#define MPI_PERSISTENT_FUNCTIONS(X)                                                                \
	X(MPI_Allreduce_init_c, allreduce_init)                                                    \
	X(MPI_Barrier_init, barrier_init)
#ifdef MPI_NARROW
enum { MPI_HAS_PERSISTENT = 0 };
#else
enum { MPI_HAS_PERSISTENT = 1 };
#endif

enum { MPI_VERSION_TEXT = 64, MPI_PATH_TEXT = 256 };

/* Properties of a library that no function of MPI tells; mpi_note_traits knows them of the libraries that were tried. */
struct mpi_traits {
	/* 1: MPI_Iallgatherv does not end for some unequal counts, as in Intel MPI 2021.19 from three ranks on. */
	int iallgatherv_hangs;
	/* 1: some collectives of 2^31 bytes fail: MPI_Ibcast_c in MPICH 4.0, it and MPI_Ireduce_scatter_block_c in Intel MPI. */
	int large_fails;
	/* 1: the making of a persistent collective does not wait for other ranks, as the standard lets it. */
	int init_is_local;
};

/* The functions of the opened MPI library, and its own version text. */
struct mpi_library {
#define MPI_MEMBER(function, member) __typeof__(function) *member;
	MPI_FUNCTIONS(MPI_MEMBER)
	MPI_ULFM_FUNCTIONS(MPI_MEMBER)
	MPI_LARGE_FUNCTIONS(MPI_MEMBER)
	MPI_PERSISTENT_FUNCTIONS(MPI_MEMBER)
	int (*query_cuda)(
		void); /* MPIX_Query_cuda_support; NULL: the library has no such function */
	struct mpi_traits traits;
	char version[MPI_VERSION_TEXT];
	char path[MPI_PATH_TEXT];
};
extern struct mpi_library mpi;

/* Opens the library of the option `library`.  Refuses a library beside another MPI of the process. */
int32_t mpi_library_open(const coll_host_t *host, coll_error_t *err);
/*
 * In a library without large counts: finds the functions in the place of those with large counts.  Returns the name of a
 * missing function, or NULL.
 */
const char *mpi_narrow(void *library, struct mpi_library *lib);
/* Does MPI, which is initialised, say that it takes memory of CUDA devices? */
int mpi_is_cuda_aware(void);
/* Has the process loaded an MPI library? */
int mpi_library_is_there(void);
/* Fills *err with MPI's text of `result`, after `what`.  Returns the code. */
int32_t mpi_refused(coll_error_t *err, int result, const char *what);

/* -------------------------------------------------------------------- mpi_life.c -- */

/*
 * Tells whether this process may use MPI: a launcher of MPI has started it, or it has loaded an MPI library.  Needs no open
 * library.
 */
int32_t mpi_life_expect(coll_error_t *err);
/* Refuses a process that has finalised MPI, or that was forked from a process that uses MPI. */
int32_t mpi_life_check(coll_error_t *err);
/* Fills *err, for a caller to which mpi_enter has returned 0.  Returns the code, which is an error. */
int32_t mpi_life_ended(coll_error_t *err);
/* Was this process forked from a process that uses MPI? */
int mpi_is_forked(void);
/* Has the program, or an earlier endpoint, initialised MPI? */
int mpi_is_initialized(void);
/* Initialises MPI, if nobody has, and asks for the thread level. */
int32_t mpi_life_begin(const coll_host_t *host, coll_error_t *err);
/* The name of a thread level of MPI. */
const char *mpi_level_name(int level);
/* At the end of the process: finalises MPI, if the plugin has initialised it and all ranks have come to an end. */
void mpi_finish(void);

/* What the launcher's variables say. */
struct mpi_launcher {
	char job[96];       /* "": unknown */
	int32_t rank, size; /* in MPI_COMM_WORLD; -1: unknown */
};
void mpi_launcher(struct mpi_launcher *launcher);

/* Is MPI initialised below MPI_THREAD_MULTIPLE? */
int mpi_is_serial(void);
/*
 * Every call of MPI is between these two.  Below MPI_THREAD_MULTIPLE they serialise all threads of the plugin.  mpi_enter
 * returns 0 once the endpoints have ended because MPI is finalised: then the caller must call neither MPI nor mpi_leave.
 */
int mpi_enter(void);
void mpi_leave(void);

/* -------------------------------------------------------------------- mpi_meet.c -- */

struct mpi_endpoint;

/* Finds the ranks of the endpoint in MPI_COMM_WORLD and makes their communicator; all ranks get the same result. */
int32_t mpi_meet(struct mpi_endpoint *ep, coll_error_t *err);

/* -------------------------------------------------------------------- mpi_make.c -- */

/*
 * A communicator of MPI that is being made.  The caller fills the members from `what` to `tag`, and leaves the other members
 * zero.
 */
struct mpi_making {
	struct bounded call; /* first: mpi_make.c finds the rest by it */
	const char *what;    /* the function of MPI */
	/* Calls it, sets `comm`, and returns MPI's result. */
	int (*make)(struct mpi_making *m);
	MPI_Comm from;  /* of a split */
	int color, key; /* of a split */
	int *ranks;     /* of the members in MPI_COMM_WORLD, on the heap; NULL: a split */
	int nranks, tag;

	MPI_Comm comm;
	int result; /* of MPI */
	int over;   /* 1: MPI was finalised before */
	int left;   /* 1: a thread is still inside the function of MPI, and may use `from` */
};
/*
 * Makes the communicator, with MPI's errors as error codes.  Returns COLL_ERR_TIMEOUT if the other ranks have not come within
 * host->timeout_ms, and COLL_ERR_ABORTED after a failure that the core knows.  COLL_SUCCESS: m->result is MPI's answer.
 * Frees m->ranks, or a thread that stays inside MPI does.
 */
int32_t mpi_make_comm(struct mpi_making *m, const coll_host_t *host, coll_error_t *err);

/* -------------------------------------------------------------------- endpoint -- */

enum mpi_frame_kind {
	MPI_FRAME_FIRST = 1, /* begins a message */
	MPI_FRAME_MORE = 2,
	MPI_FRAME_BYE = 3 /* the rank sends nothing more */
};

/* The beginning of each frame. */
struct mpi_frame_head {
	uint64_t number; /* counts the frames from one rank to another */
	uint32_t from, kind;
	uint64_t bytes;       /* of payload behind the head */
	coll_header_t header; /* of the message, in a first frame */
	uint64_t reserved;
};

enum {
	MPI_FRAME_BYTES = (64 << 10) - (int)sizeof(struct mpi_frame_head), /* payload, at most */
	MPI_WINDOW = 8,       /* frames under way to one peer */
	MPI_SLOTS = 16,       /* receives that wait for frames */
	MPI_PATIENCE = 64,    /* idle calls of progress() after which it looks at all slots */
	MPI_BUDGET = 2 << 20, /* bytes received by one progress(): under 1 ms */
	MPI_FRAME_TAG = 1
};

/* Memory for one frame, from a frame's first use until the endpoint is closed. */
struct mpi_frame {
	struct mpi_frame *next; /* in the list of spare frames, or of frames under way to a peer */
	MPI_Request request;
	coll_send_t *send; /* the message that ends with the frame; NULL: none */
	struct mpi_frame_head head;
	uint8_t payload[MPI_FRAME_BYTES];
};

/* A receive that waits for the next frame of any rank.  Each slot keeps its frame. */
struct mpi_slot {
	struct mpi_frame *frame;
	int filled; /* 1: a frame has come, which must wait for an earlier frame of its rank */
};

struct mpi_peer {
	uint32_t rank;
	int lost;         /* 1: host->peer_lost was called */
	int busy;         /* 1: in the list ep->busy */
	int bye_received; /* 1: the peer's goodbye has come */
	int bye_sent;     /* 1: the goodbye to the peer is under way */
	int dead;         /* 1: it has died without a goodbye */
	int pidfd;        /* readable at the end of the peer's process; -1: none */
	int64_t ended; /* its process has ended: the time until which last frames may come; 0: no */
	const char *failure; /* the reason for a host->peer_lost that progress() has yet to call */
	struct mpi_peer *next_busy;

	/* ---- to the peer ---- */
	struct send_queue queue;
	uint64_t done; /* bytes of the queue's first message that are in frames */
	int begun;     /* 1: the first message's first frame is out */
	uint64_t
		rest; /* bytes of a cancelled message that the peer still has to get, with any content */
	struct mpi_frame *out, *out_last; /* frames under way, oldest first */
	int window;                       /* number of frames under way */
	uint64_t sent;                    /* frames sent */

	/* ---- from the peer ---- */
	uint64_t taken; /* frames taken */
	int receiving;  /* 1: a message is incomplete */
	int dropped;    /* 1: the core has given the message up */
	coll_sink_t sink;
	uint64_t got, len;
};

/* A persistent collective of MPI, for calls with these arguments. */
struct mpi_keep {
	int32_t kind;
	MPI_Count bytes;
	MPI_Datatype type;
	MPI_Op op;
	uint64_t calls;      /* so far; 0: the entry is empty */
	uint64_t used;       /* ep->keep_uses at the last of them */
	MPI_Request request; /* with `copy` only */
	uint8_t *copy; /* the memory that it works on; NULL: it is not made, or a call has it */
};
enum { MPI_KEEPS = 4 };

struct mpi_endpoint {
	const coll_host_t *host; /* NULL: the core has closed the endpoint */
	uint32_t rank, nranks;
	MPI_Comm comm;
	struct mpi_peer *peer; /* nranks */
	struct mpi_peer *busy; /* peers with messages or frames under way to them */
	struct mpi_frame *spare;
	struct mpi_slot slot[MPI_SLOTS];
	int slots;                /* 0: the endpoint is half made */
	uint8_t order[MPI_SLOTS]; /* indices of the slots, in the order in which MPI fills them */
	uint32_t idle;            /* calls of progress() since a frame came */
	uint32_t failing;         /* peers with a failure that progress() has not reported */
	uint32_t ended;           /* peers with `ended` set */
	int watch_fd;             /* epoll over the peers' pidfd; -1: none */
	int64_t watch_next;       /* clock_tick_us() of the next look at it */
	uint64_t received;        /* bytes received by this progress() */
	int closing;              /* 1: frames are taken and ignored */
	int meets;                /* 1: it is being made, and no other at the same time */
	int native;               /* 1: MPI's own collectives serve */
	int serial;               /* 1: a rank has initialised MPI below MPI_THREAD_MULTIPLE */
	int direct;               /* 1: they use the program's buffers */
	int cuda;                 /* 1: it takes memory of CUDA devices */
	/* mpi_split has made the endpoint, for MPI's collectives only, from this one; NULL: it was opened. */
	struct mpi_endpoint *opened;
	struct mpi_endpoint *splits;       /* endpoints with this one in `opened` */
	int split_left;                    /* 1: a split endpoint was closed after a failure */
	struct mpi_call *call, **call_end; /* collectives, oldest first, which MPI may have */
	int keeps; /* 1: all ranks work on copies, so that requests may be kept */
	struct mpi_keep keep[MPI_KEEPS];
	uint64_t keep_uses;  /* counts the calls that have looked for an entry */
	uint8_t *spare_copy; /* memory for the copy of the next large call; NULL: none */
	size_t spare_copy_bytes;
	int left;           /* 1: a thread is inside MPI_Comm_split with `comm`, perhaps for ever */
	int stopped;        /* 1: MPI has given up the oldest, since a rank has died */
	atomic_int aborted; /* 1: the collectives under way are given up */
	struct mpi_endpoint *next,
		**link; /* in the list of opened endpoints, or in opened->splits */
};

/* Notes that the peer has failed: progress() gives it up.  `why` must stay valid. */
void mpi_fail(struct mpi_endpoint *ep, struct mpi_peer *peer, const char *why);
/* Returns a spare frame, or a new frame, or NULL without memory. */
struct mpi_frame *mpi_frame_get(struct mpi_endpoint *ep);
void mpi_frame_put(struct mpi_endpoint *ep, struct mpi_frame *frame);

/* -------------------------------------------------------------------- mpi_send.c -- */

int32_t mpi_send(void *ep, coll_send_t *send, coll_error_t *err);
void mpi_cancel(void *ep, coll_send_t *send);
/*
 * Copies between a buffer of the program, in memory of that kind (COLL_MEM_*), and memory of the plugin.  Returns 0, or -1 if
 * the CUDA driver cannot copy.
 */
int mpi_move(const struct mpi_endpoint *ep, void *to, const void *from, size_t bytes,
	     uint32_t memory);
/* Sends as many frames as the windows allow.  Returns 1 if a frame moved. */
int mpi_send_all(struct mpi_endpoint *ep);
/* Ends all sends to the peer with `status`. */
void mpi_fail_sends(struct mpi_peer *peer, int32_t status);
/* Forgets all sends to the peer, without a touch of their memory. */
void mpi_drop_sends(struct mpi_peer *peer);
/* Sends the goodbye, once. */
void mpi_say_bye(struct mpi_endpoint *ep, struct mpi_peer *peer);
/* Frees the peer's frames that MPI has sent.  Returns 1 if there was one. */
int mpi_reap(struct mpi_endpoint *ep, struct mpi_peer *peer);

/* -------------------------------------------------------------------- mpi_recv.c -- */

int32_t mpi_progress(void *ep);
void mpi_drop(void *ep, uint64_t cookie);
/* Posts the receives of the endpoint. */
int32_t mpi_slots_open(struct mpi_endpoint *ep, coll_error_t *err);
/* Takes the receives back.  A frame that MPI does not give back by the deadline stays allocated. */
void mpi_slots_close(struct mpi_endpoint *ep, int64_t deadline);
/* Takes the frames that have come.  Returns 1 if there was one. */
int mpi_receive(struct mpi_endpoint *ep);

/* ------------------------------------------------------------------- mpi_watch.c -- */

/* Watches the process of a rank, if that runs on this host. */
void mpi_watch_open(struct mpi_endpoint *ep, uint32_t rank, int32_t pid);
/* Fails the peers whose processes have ended without a goodbye.  Most calls only look at a clock. */
void mpi_watch_look(struct mpi_endpoint *ep);
/*
 * Takes the error of a function of MPI.  If the error says that ranks have died, fails these and returns 1.  Without ULFM MPI
 * does not say so.
 */
int mpi_watch_error(struct mpi_endpoint *ep, int result);
/* Ends the watch. */
void mpi_watch_close(struct mpi_endpoint *ep);
/* Closes the descriptors in a forked child. */
void mpi_watch_forked(void *ep);
/* Has a rank of any endpoint died? */
int mpi_watch_seen(void);

/* ------------------------------------------------------------------- mpi_native.c -- */

/* The buffer of a collective on one side, send or receive. */
struct mpi_buffer {
	size_t bytes;      /* its parts together */
	MPI_Count *counts; /* of a v-form: the parts, in elements of a reduction, else in bytes */
	MPI_Aint *displs;  /* for MPI, in the same units */
	size_t *at;        /* in the program's buffer, in bytes */
};

/* A collective, and the memory that it needs until its end. */
struct mpi_call {
	struct mpi_call *next;
	coll_args_t args; /* its arrays are not valid */
	int started;      /* 1: MPI has the collective */
	MPI_Request request;
	struct mpi_keep *keep; /* where the request and the copy stay; NULL: nowhere */
	struct mpi_buffer send, recv;
	uint8_t *copy; /* memory of the plugin in the place of a buffer, or of both; NULL: none */
	size_t copy_bytes; /* of this memory; 0: the endpoint does not keep it as spare memory */
	void *result;      /* the program's buffer for a part of the copy; NULL: none */
	size_t result_at, result_bytes; /* that part */
	void *arrays;
};

/* Starts a collective of any kind. */
int32_t mpi_start_call(void *ep, const coll_args_t *args, coll_error_t *err);
int32_t mpi_query(void *ep, coll_error_t *err);
void mpi_abort(void *ep);
void *mpi_handle(void *ep);

/* --------------------------------------------------------------------- mpi_keep.c -- */

/*
 * Decides whether the call, which is like `like`, takes MPI's persistent form (call->keep).  Returns 1 if the call got a request and a copy that are
 * kept; otherwise a call with call->keep has to make them.
 */
int mpi_keep_take(struct mpi_endpoint *ep, struct mpi_call *call, const struct mpi_keep *like);
/* Keeps the request and the copy of a complete call. */
void mpi_keep_give(struct mpi_call *call);
void mpi_keep_close(struct mpi_endpoint *ep);

/* -------------------------------------------------------------------- mpi_split.c -- */

int32_t mpi_split(void *ep, int32_t color, int32_t key, const coll_host_t *newhost, void **newep,
		  coll_error_t *err);
/* Closes an endpoint that mpi_split has made and that is in no list any more, without a wait for other ranks. */
void mpi_split_close(struct mpi_endpoint *ep);

/* --------------------------------------------------------------------- mpi_type.c -- */

/* The size of an element. */
size_t mpi_size_of(int32_t dtype);
/* MPI's type and operation for a reduction that MPI does as coll.h says.  Returns 0 if there are none. */
int mpi_reduction(int32_t dtype, int32_t op, MPI_Datatype *mpi_type, MPI_Op *mpi_op);

/* ------------------------------------------------------------------- mpi_buffer.c -- */

/*
 * Computes the sizes of both buffers, and copies the counts and displacements of a v-form, which MPI reads until the call is
 * complete.  Returns 0, or -1 without memory.
 */
int mpi_buffers(struct mpi_call *call, const struct mpi_endpoint *ep);
/*
 * Copies `bytes` bytes between a buffer of the program and memory of the plugin.  This and the following functions return 0, or
 * -1 without memory, or if the CUDA driver cannot copy.
 */
int mpi_copy_part(const struct mpi_endpoint *ep, void *to, const void *from, size_t bytes);
/* Copies the program's send buffer to the call's copy, which MPI gets in its place. */
int mpi_copy_in(struct mpi_endpoint *ep, struct mpi_call *call, const void **send, void **recv);
/* Copies the result to the program's receive buffer. */
int mpi_copy_out(const struct mpi_endpoint *ep, const struct mpi_call *call);
/* Frees the copy of a complete call, or keeps its memory for the next large call. */
void mpi_copy_free(struct mpi_endpoint *ep, struct mpi_call *call);

/* ------------------------------------------------------------------- mpi_close.c -- */

/*
 * Frees the endpoint's communicator, unless a thread is still inside MPI with it, or MPI_Comm_free might wait for a rank: if the
 * endpoint has failed, or a rank of any endpoint has died.
 */
void mpi_free_comm(struct mpi_endpoint *ep);
/* Adds an endpoint to the list of those that end when MPI is finalised, or to the list of the endpoint that was split. */
void mpi_list_add(struct mpi_endpoint *ep);
void mpi_close(void *ep, int64_t timeout_ms);
/*
 * Gives up the open endpoints that have failed, and waits for all goodbyes to these and to the endpoints that were closed
 * without them.  Returns 0 if one is missing at the end.
 */
int mpi_settle(int64_t timeout_ms);
/* Ends all endpoints, while MPI is about to be finalised. */
void mpi_end_all(void);
/* Frees the endpoints that were closed without all goodbyes and have got them since. */
void mpi_sweep(void);

#endif
