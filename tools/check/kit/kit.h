/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kit.h - the frame of `coll check`: the description of a check, its messages, its ranks.
 *
 * A check holds a plugin to one promise of backend.h.  Each case of a check runs in a process of
 * its own: a case is one number of ranks, as threads or as processes.  So a plugin that crashes,
 * hangs or exits gets a message in the report and does not end the kit.  The kit captures the
 * output of the check and of the plugin.  A check that passes prints nothing but its check_note().  Any rank may call
 * check_fail() and check_skip(); the first message stays.
 *
 * To add a check, add a row to a table that ends with an empty row; check/list.c lists the tables:
 *
 *   const struct check check_mine_checks[] = {
 *           {.name = "order", .says = "messages to one peer arrive in the order sent",
 *            .promise = "coll_transport_t.send", .group = CHECK_MESSAGES,
 *            .needs = CHECK_TRANSPORT, .ways = CHECK_EITHER, .ranks_min = 2, .endpoint = mine_order},
 *           {.name = NULL},
 *   };
 *
 * One fault fails one check: a check tests its own promise and tolerates every other fault.  For
 * example, only the checks about order depend on the order of messages, and only the checks about
 * buffers reuse a buffer before all messages have arrived.
 */
#ifndef TOOLS_CHECK_KIT_H
#define TOOLS_CHECK_KIT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { CHECK_RANKS = 16, CHECK_TEXT = 600, CHECK_STEPS = 512, CHECK_RECORD = 4096 };

/*
 * Groups run in this order.  When a check fails, the later groups still run, although some of their checks may report the
 * same fault again.  The report names the first failed group.  With --stop the kit skips the later groups.
 */
enum check_group {
	CHECK_FILE,     /* the file and its exported symbols, before any of its code runs */
	CHECK_TABLE,    /* coll_backend_v1 and probe */
	CHECK_ENDPOINT, /* open and close */
	CHECK_MESSAGES, /* send and progress without faults */
	CHECK_FAULTS,   /* lost peers, refused messages, cancelled sends, failed exchanges */
	CHECK_NATIVE_GROUP,
	CHECK_API /* the core on top of the plugin, through coll.h */
};

/* The parts of a plugin that a check needs.  The kit skips a check if the plugin lacks such a part. */
enum check_need {
	CHECK_NOTHING = 0,
	CHECK_TRANSPORT = 1,
	CHECK_NATIVE = 2,
	CHECK_SLEEP = 4,     /* wait_fd and arm */
	CHECK_CANCEL = 8,    /* cancel and drop */
	CHECK_REGISTER = 16, /* mem_register of the transport */
	CHECK_FORKED = 32,
	CHECK_EVENTS = 64,     /* native->event_* */
	CHECK_SPLIT = 128,     /* native->split */
	CHECK_MEMORY = 256,    /* transport->memory */
	CHECK_DEVICES = 512,   /* the plugin takes device memory and no host memory */
	CHECK_MANAGED = 1024,  /* beside CHECK_DEVICES: the plugin takes managed memory */
	CHECK_COUNTERS = 2048, /* the ranks count together in the memory that they share */
	CHECK_TOGETHER = 4096, /* send_more and flush of the transport */
	CHECK_STREAMS = 8192,  /* the machine has a CUDA device, whatever memory the plugin takes */
	/*
	 * The check is of calls that a companion carries beside a plugin without a transport group, on host memory.
	 * It replaces CHECK_TRANSPORT if a check has both.
	 */
	CHECK_CARRIED = 16384,
	/*
	 * The endpoint outlives the loss of a rank: the plugin has cancel, or sets the status of the sends to that rank,
	 * as ABI 1.4 promises.
	 */
	CHECK_SURVIVES = 32768,
	CHECK_ALLOCATE = 65536 /* mem_alloc and mem_free of the transport */
};

/* How the ranks of a check run. */
enum check_way {
	CHECK_ALONE = 0,     /* no ranks: one case in one process */
	CHECK_THREADS = 1,   /* ranks are threads of one process */
	CHECK_PROCESSES = 2, /* ranks are processes; skipped for COLL_BACKEND_IN_PROCESS */
	CHECK_EITHER = 3     /* one case with threads and one with processes */
};

struct check_case;
struct check_ep;
struct check_launch;

struct check {
	const char *name;    /* short, for --only: lower case, '-' between words */
	const char *says;    /* the statement that holds if the check passes; no full stop */
	const char *promise; /* the place of the promise: "Blocking", "coll_transport_t.send" */
	enum check_group group;
	/* an earlier check of the same group: if it fails, the kit skips this check */
	const char *rests;
	/* 1: if this check fails, the kit skips the later groups, since none of their checks could pass */
	int ground;
	/*
	 * The minor of the ABI that added the promise.  The kit does not hold a plugin of an older minor to it; `older`
	 * says how the core treats such a plugin.
	 */
	uint32_t since;
	const char *older;
	unsigned needs; /* CHECK_TRANSPORT | ... */
	const char *
		bare; /* without CHECK_CARRIED: why a plugin that has no transport group needs no such check */
	unsigned ways;            /* CHECK_THREADS | ... */
	int ranks_min, ranks_max; /* 0: no limit; the kit clips --ranks to the limits */
	int slow;                 /* skipped with --quick */
	int leaves; /* the check closes no endpoint: what the plugin leaves in the process does not count */
	/* an enum check_trace plus 1: the check also fails if any case left this trace */
	int trace;
	/* Runs the case.  NULL: the kit opens an endpoint for each rank, and calls `endpoint` with it. */
	void (*run)(struct check_case *c);
	void (*endpoint)(struct check_ep *ep);
	const void *plan; /* data of the check, for a `run` that several checks share */
};

/* Properties of the plugin that the kit determines before the first check (host/traits.c). */
struct check_traits {
	int engine; /* 1: the plugin has both groups: calls of its own that differ may end before the library compares them */
	int bare; /* 1: the plugin has no transport group, so nothing replaces a function that it lacks */
	int device_only; /* the plugin takes memory of CUDA devices and no host memory */
	int managed;     /* with device_only: the plugin takes managed memory too */
	int devices;     /* with device_only: number of devices */
	int gpus;        /* with a transport group: number of devices of this machine */
	char why[200];   /* the reason why `devices` or `gpus` is 0 */
};

/* The command line, the plugin's traits, and the test whether the plugin can do a check. */
struct check_options {
	const char *path; /* absolute path of the plugin */
	char dir[4096];   /* its directory */
	char name[32];    /* <name> of coll_<name>.so; "" if the file has no such name */
	int observer; /* 1: the file is an observer (observer.h), and `name` is that of observer_<name>.so */
	char backends[4096]; /* of an observer: the directories of the backends, separated by ':' */
	int ranks_min, ranks_max, ranks_said;
	int quick;
	int all;  /* 1: no check is skipped because another check has failed */
	int stop; /* 1: a failed check skips the groups after its own */
	const struct check_launch
		*launch;         /* set if a launcher has started the ranks (launched.h) */
	int no_fork;             /* with `launch`, 1: each rank is this process, and not a child */
	int64_t timeout_ms;      /* limit for one case; a case that takes longer counts as hung */
	const char *const *keys; /* --option key=value as "key", "value", ..., NULL */
	struct check_traits traits;
	/* The kit calls it before each case, in the case's process.  It skips the check if the plugin cannot do it. */
	void (*needs)(struct check_case *c);
	void (*endpoints)(struct check_case *c); /* calls check->endpoint on each rank */
};

/*
 * Traces that every case looks for: output of the plugin, and effects that it left in the process.  The checks "quiet",
 * "descriptors", "lasting-threads", "signals" and "children" report the traces of all cases of all checks.
 */
enum check_trace {
	CHECK_PRINTED,
	CHECK_FDS,
	CHECK_LASTING_THREADS,
	CHECK_SIGNALS,
	CHECK_CHILDREN,
	CHECK_TRACES
};

/* Memory that the processes of a case share. */
struct check_shared {
	atomic_int failed, skipped, noted; /* 1: a rank writes the text, 2: the text is complete */
	char text[CHECK_TEXT], skip[CHECK_TEXT], note[CHECK_TEXT];
	/* The slot that each rank is in, a static text, for the message about a crash or a hang. */
	atomic_uintptr_t slot[CHECK_RANKS];
	atomic_int finished;   /* the check's function has returned */
	atomic_int crash_rank; /* rank + 1 of the thread that crashed */
	atomic_int dying[CHECK_RANKS];
	/* For each step of check_exchange: the number of ranks that have entered, and their records. */
	atomic_uint entered[CHECK_STEPS];
	uint8_t contributed[CHECK_STEPS][CHECK_RANKS][CHECK_RECORD];
	/* rank + 1 of the rank that called exchange_fail in the step */
	atomic_int gave_up[CHECK_STEPS];
	/* Traces of the case, see enum check_trace. */
	atomic_int traced[CHECK_TRACES];
	char trace[CHECK_TRACES][CHECK_TEXT];
	atomic_llong calls; /* number of collectives that were verified */
	/* For the check's own use; zero at the beginning of each case. */
	atomic_llong number[64];
};

/* One run of a check; all ranks share it. */
struct check_case {
	const struct check *check;
	const struct check_options *options;
	struct check_shared *shared;
	int nranks;    /* 0 if the check has no ranks */
	int processes; /* 1: the ranks are processes; 0: threads */
	int quick;
	/*
	 * How long a check may wait for one event before it fails; shorter than the limit for the
	 * case.
	 */
	int64_t timeout_ms;
	int whole;  /* 1: the hosts have coll_host_t.message; 0: they are of a core before it */
	void *user; /* for the check's own use; set before check_ranks */
};

/* ------------------------------------------------------------------ speaking -- */

/*
 * Fail or skip the check.  The message gives the expected and the observed behaviour.  Any thread or process may call them.
 */
__attribute__((format(printf, 2, 3))) void check_fail(struct check_case *c, const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void check_skip(struct check_case *c, const char *fmt, ...);
/* The report has this line behind the check, if the check passes. */
__attribute__((format(printf, 2, 3))) void check_note(struct check_case *c, const char *fmt, ...);
int check_failed(const struct check_case *c);
int check_skipped(const struct check_case *c);

/* ------------------------------------------------------------------ ranks -- */

/*
 * Calls fn for each rank at once, in threads or processes as the case demands.  Returns when all ranks have ended.  A
 * rank's process that dies fails the check, unless the rank called check_dies() before.
 */
void check_ranks(struct check_case *c, void (*fn)(struct check_case *c, int rank));
void check_dies(struct check_case *c, int rank);

/*
 * Names the plugin's slot that `rank` is in ("open"), for the message about a crash or a hang;
 * NULL: none.
 */
void check_slot(struct check_case *c, int rank, const char *slot);
/* Returns the rank that the calling thread last named in check_slot, plus 1; 0: none. */
int check_crashing_rank(void);

/*
 * Does an allgather of len <= CHECK_RECORD bytes and a barrier, without the plugin.  `step` counts the calls of this rank
 * and begins with 0.  Returns 0, or -1 if a rank did not enter in time; that alone does not fail the check.
 */
int check_exchange(struct check_case *c, int rank, unsigned *step, const void *in, void *out,
		   size_t len, int64_t timeout_ms);
/* The two halves of check_exchange, for callers that work between them. */
void check_exchange_begin(struct check_case *c, int rank, unsigned step, const void *in,
			  size_t len);
int check_exchange_done(const struct check_case *c, unsigned step);
/* Waits for all ranks, with the timeout of the case.  Fails the check if a rank does not enter in time. */
int check_barrier(struct check_case *c, int rank, unsigned *step);

/* ------------------------------------------------------------------ devices -- */

/* Returns the device of a rank if the plugin takes device memory only, else -1. */
int check_device(const struct check_case *c, int rank);
/* Does the check run on host memory, over the companion of a plugin that takes device memory only? */
int check_is_carried(const struct check_case *c);
/* Are there more ranks than devices? */
int check_few_devices(const struct check_case *c);
/* Skips the check if the devices that it needs are missing. */
void check_device_needs(struct check_case *c);
/* Prepares the device of a rank.  Each rank's process calls it, or the one process of all threads once. */
void check_device_begin(struct check_case *c, int rank);

/* ------------------------------------------------------------------ the frame -- */

/* The result of a check. */
enum check_verdict { CHECK_PASSED, CHECK_NOT_PASSED, CHECK_SKIPPED };

struct check_result {
	enum check_verdict verdict;
	int cases, skipped;
	int waited; /* 1: the failed case used up a time limit, its own or the check's; 0 under a launcher */
	int stuck;       /* 1: the case hangs in a thread of this process, which nothing can end */
	long long calls; /* number of collectives that were verified on all ranks */
	char text[CHECK_TEXT + 200]; /* the reason for a failure or a skip */
	char skip[CHECK_TEXT], note[CHECK_TEXT];
	char output[16384]; /* output of the failed case */
};

/* Runs all cases of one check (run.c). */
void check_run(const struct check *check, const struct check_options *options,
	       struct check_result *result);

/* Returns the first trace of this kind in this run of the kit, with the case that left it; or "". */
const char *check_traced(enum check_trace trace);

#endif
