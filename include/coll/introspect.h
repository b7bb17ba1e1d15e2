/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * introspect.h - how the library decides: its backends, its options, its algorithms.
 *
 * coll.h includes this header at its end, so a program need not include it.  The programs
 * `coll info` and `coll prove` are built on these functions; for device buffers that are staged, `coll prove` adds
 * the copies with the library's own code.
 *
 * Conventions for all functions of this header
 *
 * Blocking   No function waits for another rank, and no function needs a communicator.
 * Structs    The caller sets `size` of every struct that a function fills to the struct's sizeof.
 *            The function fills as many fields as fit into that size.
 * index      Counts from 0 and is less than the matching *_count().
 * out        Receives the description; the caller has set its size.
 * Strings    A string belongs to the library.  A string of a coll_info_t is valid until the
 *            coll_info_t is destroyed, every other string until the process ends.
 * Errors     COLL_ERR_INVALID_ARGUMENT: a pointer is NULL, a `size` is too small, an index is out
 *            of range, or a handle is not valid.  A count of a handle that is not valid is 0.
 * info       A picture that coll_info_create() made.
 * schedule   A schedule that coll_schedule_create() made.
 * Threads    Every function may be called from any thread.  No thread may use a coll_schedule_t
 *            while another thread destroys it.
 */
#ifndef COLL_INTROSPECT_H
#define COLL_INTROSPECT_H

#include <coll/coll.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ------------------------------------------------------------------ algorithms -- */

/*
 * The library composes a collective from messages by an algorithm.  For one rank an algorithm makes
 * a schedule: a list of steps, as data.  The functions of this section show the algorithms and
 * their schedules to programs that prove them (`coll prove`), predict their cost or draw them.
 */

/* Bits of coll_algorithm_info_t.flags. */
enum {
	/* Combines the operands in rank order, as operations that do not commute need. */
	COLL_ALGORITHM_ORDERED = 1 << 0,
	/* Also groups the operands as reproducible mode wants them (coll-order(7)). */
	COLL_ALGORITHM_CANONICAL = 1 << 1,
	/* Works only if the number of ranks is a power of two. */
	COLL_ALGORITHM_POWER_OF_TWO = 1 << 2,
	/* Works only on several nodes of which at least one has several ranks. */
	COLL_ALGORITHM_NODES = 1 << 3
};

/* An algorithm that composes a collective. */
typedef struct coll_algorithm_info {
	uint64_t size;           /* in: sizeof(coll_algorithm_info_t) */
	const char *name;        /* "ring"; unique among the algorithms of its kind */
	const char *description; /* one line */
	int32_t kind;            /* COLL_KIND_*: the collective that the algorithm composes */
	uint32_t flags;          /* COLL_ALGORITHM_* */
} coll_algorithm_info_t;

/* Returns the number of algorithms. */
COLL_API int32_t coll_algorithm_count(void);

/* Describes algorithm `index` in *out. */
COLL_API coll_result_t coll_algorithm(int32_t index, coll_algorithm_info_t *out);

/* One rank's part in one collective: the input of coll_schedule_create and coll_schedule_cost. */
typedef struct coll_schedule_args {
	uint64_t size;     /* sizeof(coll_schedule_args_t) */
	int32_t algorithm; /* its index; its kind is the kind of the collective */
	int32_t nranks;    /* ranks of the communicator, at least 1 */
	int32_t rank;      /* the rank whose schedule is made, 0 to nranks - 1 */
	int32_t root;      /* root, or the peer of SEND and RECV: 0 to nranks - 1 */
	uint64_t count;    /* the count argument of the call, in elements */
	uint64_t elem;     /* bytes of one element, at least 1 */
	uint64_t segment;  /* bytes; the schedule cuts longer messages into segments; 0: never */
	int32_t in_place;  /* 1: the buffers overlap as the call allows (coll.h, In place) */
	/*
	 * 1: the reduction ends with a last step, which divides (COLL_AVG of integers).
	 * 2: each input is scaled, divided by nranks, when it is first read (COLL_AVG of floats): a
	 * COLL_STEP_COPY, _REDUCE or _RECV_REDUCE scales the elements that it reads from
	 * COLL_BUFFER_SEND, at most one operand of a reduction lies there, and only steps that are
	 * marked `unscaled` send from there.
	 * scan and exscan: 0.
	 */
	int32_t average;
	const int32_t *nodes; /* for each rank the number of its node; NULL: all differ */
	/* The v-forms: the arrays of the call.  The displacements must not be NULL here. */
	const size_t *sendcounts;
	const size_t *senddispls;
	const size_t *recvcounts;
	const size_t *recvdispls;
} coll_schedule_args_t;

/* Values of coll_step_t.kind. */
enum {
	COLL_STEP_NONE = -1, /* not a step */
	COLL_STEP_SEND = 0,  /* sends src to peer */
	COLL_STEP_RECV = 1,  /* receives from peer into dst */
	/* Receives from peer and reduces: dst = src op incoming; if swapped, incoming op src. */
	COLL_STEP_RECV_REDUCE = 2,
	COLL_STEP_REDUCE = 3, /* reduces: dst = src op other */
	COLL_STEP_COPY = 4,   /* copies: dst = src; a copy of 0 bytes is only a point of order */
	COLL_STEP_FINISH = 5  /* does the last step of the reduction at dst, in place */
};

/* Values of coll_step_t.dst_buffer, src_buffer and other_buffer. */
enum { COLL_BUFFER_SEND = 0, COLL_BUFFER_RECV = 1, COLL_BUFFER_SCRATCH = 2 };

/* One step of a schedule. */
typedef struct coll_step {
	uint64_t size; /* in: sizeof(coll_step_t) */
	int32_t kind;  /* COLL_STEP_* */
	int32_t peer;  /* rank at the other end of a message, or -1 */
	/* Number of the message: the two ranks of a message give it the same number. */
	uint32_t message;
	int32_t swapped;          /* 1: COLL_STEP_RECV_REDUCE swaps its operands */
	uint32_t dst_buffer;      /* COLL_BUFFER_*: the buffer in which dst lies */
	uint32_t src_buffer;      /* the buffer in which src lies */
	uint32_t other_buffer;    /* the buffer in which other lies */
	uint32_t after_count;     /* entries of `after` */
	uint64_t dst, src, other; /* offsets in these buffers, in bytes */
	uint64_t bytes;           /* length of the step's data */
	/* Indexes of the steps that must be complete before this step; the schedule's memory. */
	const int32_t *after;
	/*
	 * 1: the message is an input as it is, and the COLL_STEP_RECV_REDUCE that receives it scales
	 * it as well; both steps of the message are marked.
	 */
	int32_t unscaled;
	int32_t reserved;
} coll_step_t;

/* A schedule is a pointer, not a checked handle: never use it after coll_schedule_destroy(). */
typedef struct coll_schedule *coll_schedule_t;

/*
 * Makes the schedule of rank args->rank.  The caller destroys *schedule with
 * coll_schedule_destroy().  The time depends on the schedule's own steps; only an algorithm with
 * COLL_ALGORITHM_NODES also reads `nodes` once, and reduce_scatterv its counts.
 *
 * Errors     COLL_ERR_INVALID_ARGUMENT if a field of args is wrong or the algorithm does not work for
 *            this number of ranks and nodes; COLL_ERR_NO_MEMORY.  On an error *schedule is NULL.
 */
COLL_API coll_result_t coll_schedule_create(const coll_schedule_args_t *args,
					    coll_schedule_t *schedule);

/* Frees a schedule and all strings and arrays that belong to it.  `schedule` may be NULL. */
COLL_API void coll_schedule_destroy(coll_schedule_t schedule);

/* Returns the number of steps; 0 for NULL. */
COLL_API int32_t coll_schedule_step_count(coll_schedule_t schedule);

/* Describes step `index` in *out. */
COLL_API coll_result_t coll_schedule_step(coll_schedule_t schedule, int32_t index,
					  coll_step_t *out);

/* Returns the bytes of scratch memory that the steps use; 0 for NULL. */
COLL_API uint64_t coll_schedule_scratch(coll_schedule_t schedule);

/*
 * Computes the cost of an algorithm by the formula of the literature: *messages and *bytes become
 * the messages and the bytes that all ranks together send if no message is cut into segments.
 *
 * args        The part of any rank.  gatherv and scatterv: the part of root.  alltoallv: sendcounts
 *             holds the rows of all ranks, nranks * nranks counts.
 * messages    May be NULL.
 * bytes       May be NULL.
 */
COLL_API coll_result_t coll_schedule_cost(const coll_schedule_args_t *args, uint64_t *messages,
					  uint64_t *bytes);

/* --------------------------------------------------------- backends and options -- */

/* A picture of this process: the plugins found and refused, the options in force, the choice. */
typedef struct coll_info *coll_info_t;

/*
 * Makes a picture of the decisions that this process would take now.
 *
 * config    The application's settings, or NULL.
 * info      Becomes the picture, which the caller destroys with coll_info_destroy().
 *
 * A bad option, file or plugin is no error of this function: the picture is made and reports the
 * fault (coll_info_note, coll_info_verdict).
 *
 * The library opens and probes every plugin unless the option `backend` rules it out, since a vendor's
 * library may crash in either step.  The picture shows a plugin that is ruled out unopened: it has
 * `name`, `path` and `choice`, `usable` is 0, and `reason` names the option.
 *
 * If the environment variable COLL_INFO_PROBE is "child", as the program `coll info` sets it, the library
 * opens and probes each plugin in a child process, for 5 seconds at most.  Then `reason` says so if the
 * probe crashed, exited or did not return.  A program with more than one thread must not set the variable.
 *
 * Errors    COLL_ERR_INVALID_ARGUMENT, COLL_ERR_NO_MEMORY.
 */
COLL_API coll_result_t coll_info_create(const coll_config_t *config, coll_info_t *info);

/* Destroys a picture and its strings.  A handle that is not valid is ignored. */
COLL_API void coll_info_destroy(coll_info_t info);

/* Bits of coll_backend_info_t.capabilities. */
enum {
	COLL_CAP_TRANSPORT = 1 << 0,   /* sends messages: the core composes every collective */
	COLL_CAP_NATIVE = 1 << 1,      /* has collectives of its own */
	COLL_CAP_HOST_MEMORY = 1 << 2, /* takes host pointers */
	COLL_CAP_CUDA_MEMORY = 1 << 3, /* takes CUDA device pointers */
	COLL_CAP_STREAMS = 1 << 4,     /* has device streams and events */
	COLL_CAP_IN_PROCESS = 1 << 5,  /* works only if all ranks live in one process */
	COLL_CAP_COMPANION =
		1 << 6, /* leaves host pointers to its companion (option `companion`) */
	COLL_CAP_NATIVE_SPLIT = 1 << 7 /* its collectives serve split communicators too */
};

/* A plugin file that was found, and the library's judgement of it. */
typedef struct coll_backend_info {
	uint64_t size;               /* in: sizeof(coll_backend_info_t) */
	const char *name;            /* as in the file's name; "" if that is no valid name */
	const char *version;         /* the plugin's; "" if its table was not read */
	const char *description;     /* one line */
	const char *path;            /* absolute path of the file */
	const char *priority_source; /* who set priority: "plugin", "file:line", "COLL_..." */
	const char *reason;          /* why the backend is not usable; "" if it is usable */
	const char *choice;          /* one sentence: why the backend was chosen or passed over */
	int32_t priority;            /* in force; the highest priority wins */
	uint32_t abi_major;          /* the plugin's ABI (backend.h); 0 if the table was not read */
	uint32_t abi_minor;
	uint32_t capabilities; /* COLL_CAP_* */
	int32_t usable;        /* 1: the plugin is loaded and its probe() succeeded */
	int32_t chosen;        /* 1: the choice if all ranks were like this process */
	coll_result_t code;    /* the reason as a result code */
	int32_t reserved;
} coll_backend_info_t;

/* An observer's file (observer.h) that was found, or a name in the option `observers` that no file has. */
typedef struct coll_observer_info {
	uint64_t size;           /* in: sizeof(coll_observer_info_t) */
	const char *name;        /* as in the file's name; "" if that is no valid name */
	const char *version;     /* the observer's; "" if its table was not read */
	const char *description; /* one line */
	const char *path;        /* absolute path of the file; "": there is no file */
	const char *reason; /* why the observer cannot be used; "" if it can, or was not opened */
	uint32_t abi_major; /* its ABI (observer.h); 0 if the table was not read */
	uint32_t abi_minor;
	uint32_t wants;     /* COLL_OBSERVE_* of observer.h: the events that it wants */
	int32_t named;      /* 1: the option `observers` names it */
	coll_result_t code; /* the reason as a result code */
	int32_t reserved;
} coll_observer_info_t;

/* An option, its value in force, and the place that set the value. */
typedef struct coll_option_info {
	uint64_t size;        /* in: sizeof(coll_option_info_t) */
	const char *name;     /* "timeout", "tcp.interface" */
	const char *value;    /* the value in force */
	const char *fallback; /* the default */
	const char *unit;     /* "seconds", "bytes", "" */
	const char *source;   /* "default", "application", "COLL_TIMEOUT", "/etc/coll.conf:12" */
	const char *help;     /* one line */
} coll_option_info_t;

/* Values of coll_rule_info_t.memory, as bits. */
enum { COLL_RULE_HOST_MEMORY = 1, COLL_RULE_CUDA_MEMORY = 2 };

/*
 * Values of coll_rule_info_t.cpus, as bits.  They tell of the host of the communicator's rank 0, and of the processors on
 * which ranks of the job may run there.  Shared: the processors are fewer than these ranks, and more
 * than two.  Few: fewer than these ranks, and at most two.  Own: else, or unknown.  A rule `cpus
 * shared` has the bits of shared and of few.
 */
enum { COLL_RULE_OWN_CPUS = 1, COLL_RULE_SHARED_CPUS = 2, COLL_RULE_FEW_CPUS = 4 };

/* Values of coll_rule_info_t.power, as bits: the number of ranks is a power of two, or it is none. */
enum { COLL_RULE_POWER_TWO = 1, COLL_RULE_POWER_OTHER = 2 };

/*
 * One rule of the table from which the library chooses an algorithm where it composes a collective
 * from messages.  Of the rules of a kind, the first rule decides that matches the call, whose
 * algorithm works for the number of ranks and nodes, and whose algorithm keeps the order of the
 * operands where the operation needs that order.  Ranges include both ends.
 */
typedef struct coll_rule_info {
	uint64_t size;      /* in: sizeof(coll_rule_info_t) */
	const char *name;   /* name of the algorithm: "ring" */
	const char *source; /* who set the rule, as in coll_option_info_t */
	int32_t kind;       /* COLL_KIND_* */
	int32_t algorithm;  /* index of the algorithm, as in coll_algorithm() */
	uint64_t bytes_min; /* range of the bytes of the call's count argument */
	uint64_t bytes_max; /* UINT64_MAX: no upper end */
	int32_t ranks_min;  /* range of the ranks of the communicator */
	int32_t ranks_max;  /* INT32_MAX: no upper end */
	int32_t nodes_min;  /* range of the nodes on which these ranks run */
	int32_t nodes_max;  /* INT32_MAX: no upper end */
	uint32_t memory;    /* COLL_RULE_*_MEMORY bits: where the buffers may be */
	int32_t number;     /* position among the rules of its kind, from 1 */
	uint64_t block_min; /* range of these bytes divided by the ranks */
	uint64_t block_max; /* UINT64_MAX: no upper end */
	int32_t local_min;  /* range of these ranks divided by the nodes */
	int32_t local_max;  /* INT32_MAX: no upper end */
	uint32_t cpus;      /* COLL_RULE_*_CPUS bits: the processors on which the ranks run */
	uint32_t reserved;
	uint32_t power; /* COLL_RULE_POWER_* bits: the numbers of ranks; since ABI 1.6, before 0 */
	uint32_t reserved2;
} coll_rule_info_t;

/* Calls that select a rule ("reachable" rules): values of coll_info_rule_reach. */
enum {
	COLL_REACH_UNKNOWN = -1, /* not an answer */
	COLL_REACH_NONE = 0,     /* no call selects the rule */
	COLL_REACH_CALLS = 1,    /* some calls that any program can make select the rule */
	COLL_REACH_ORDERED = 2   /* only operations declared not to commute select the rule */
};

/* Returns the number of plugin files found, refused files included. */
COLL_API int32_t coll_info_backend_count(coll_info_t info);

/* Describes plugin `index` in *out.  The plugins are in order of priority, the highest first. */
COLL_API coll_result_t coll_info_backend(coll_info_t info, int32_t index, coll_backend_info_t *out);

/*
 * Returns the number of observers found, refused files and names without a file included.  The library opens those that
 * the option `observers` names; with COLL_INFO_PROBE=child each, in a child process.
 */
COLL_API int32_t coll_info_observer_count(coll_info_t info);

/* Describes observer `index`, in the order of the directories and files, in *out. */
COLL_API coll_result_t coll_info_observer(coll_info_t info, int32_t index,
					  coll_observer_info_t *out);

/* Returns the number of options, the options of the plugins included. */
COLL_API int32_t coll_info_option_count(coll_info_t info);

/* Describes option `index` in *out. */
COLL_API coll_result_t coll_info_option(coll_info_t info, int32_t index, coll_option_info_t *out);

/* Returns the number of rules of all kinds. */
COLL_API int32_t coll_info_rule_count(coll_info_t info);

/* Describes rule `index` in *out.  The rules are sorted by kind, then in the order of their use. */
COLL_API coll_result_t coll_info_rule(coll_info_t info, int32_t index, coll_rule_info_t *out);

/*
 * Tells which calls select rule `index`.
 *
 * nranks    Ranks of the communicator, at least 1.
 * nnodes    Nodes on which they run, at most nranks; 0: any number of nodes.
 * reach     Becomes COLL_REACH_*.
 * why       Becomes a few words of explanation, or "".
 */
COLL_API coll_result_t coll_info_rule_reach(coll_info_t info, int32_t index, int32_t nranks,
					    int32_t nnodes, int32_t *reach, const char **why);

/* Returns the number of notes. */
COLL_API int32_t coll_info_note_count(coll_info_t info);

/*
 * Returns note `index`: one sentence about a file that was read, a directory that was searched or a
 * fault that was found, in order.  Returns "" if there is no such note.
 */
COLL_API const char *coll_info_note(coll_info_t info, int32_t index);

/*
 * Returns COLL_SUCCESS if this process could make a communicator, else the error that making a
 * communicator would return.  *sentence (unless `sentence` is NULL) becomes the verdict in words.
 */
COLL_API coll_result_t coll_info_verdict(coll_info_t info, const char **sentence);

/* A counter of coll_get_counters.  The caller sets size. */
typedef struct coll_counter_info {
	uint64_t size;
	const char *name; /* the field of coll_counters_t: "latency_ns" */
	const char *unit; /* "nanoseconds" */
	const char *help; /* what it counts */
	int32_t offset;   /* of the field, a uint64_t */
	int32_t of_kind;  /* 1: of the calls of a kind; 0: of the communicator */
	int32_t grows;    /* 1: it only grows; 0: it also falls */
	int32_t reserved;
	int32_t of_rank; /* 1: of the rank coll_counters_t.rank, as seen by this rank */
	int32_t reserved2;
} coll_counter_info_t;

/* Returns the number of counters but the buckets. */
COLL_API int32_t coll_counter_count(void);

/* Describes counter `index` in *out; the strings are valid until the process ends. */
COLL_API coll_result_t coll_counter_describe(int32_t index, coll_counter_info_t *out);

#ifdef __cplusplus
}
#endif
#endif
