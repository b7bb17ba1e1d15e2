/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kit.h - the frame of `coll check`: what a check is, how it speaks, who else runs beside it.
 *
 * A check holds a plugin to one promise of backend.h.  It runs in a process of its own, once for
 * each number of ranks and each way of having ranks (a "case"), so that whatever the plugin does,
 * crash, hang or exit, is a sentence in the report and never the end of the kit.  What it and the
 * plugin print is captured.  A check says nothing if all is well; check_fail() and check_skip()
 * may be called from any rank, and the first sentence stands.
 *
 * A check of one's own is a row in a table that ends with an empty row; the tables are listed in
 * check/list.c:
 *
 *   const struct check check_mine_checks[] = {
 *           {.name = "order", .says = "messages to one peer arrive in the order sent",
 *            .promise = "coll_transport_t.send", .group = CHECK_MESSAGES,
 *            .needs = CHECK_TRANSPORT, .ways = CHECK_EITHER, .ranks_min = 2, .run = mine_order},
 *           {.name = NULL},
 *   };
 *
 * One fault, one check: a check looks at what its promise says and bears everything else (it matches
 * messages by tag where it is not about order, keeps buffers until all have arrived where it is not
 * about buffers, ...).
 */
#ifndef TOOLS_CHECK_KIT_H
#define TOOLS_CHECK_KIT_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

enum { CHECK_RANKS = 16, CHECK_TEXT = 600, CHECK_STEPS = 512, CHECK_RECORD = 4096 };

/*
 * Groups run in this order.  When a check failed, the groups after its own are skipped (unless
 * --all): they rest on it and would only repeat the fault in other words.
 */
enum check_group {
	CHECK_FILE,     /* the file and what it exports, before anything in it runs */
	CHECK_TABLE,    /* coll_backend_v1 and probe */
	CHECK_ENDPOINT, /* open and close */
	CHECK_MESSAGES, /* send and progress when nothing goes wrong */
	CHECK_FAULTS,   /* lost peers, refusals, cancelling, failing exchanges */
	CHECK_NATIVE_GROUP,
	CHECK_API /* the core on top of the plugin, through coll.h */
};

/* What a plugin must have for a check to make sense; a check is skipped if it has not. */
enum check_need {
	CHECK_NOTHING = 0,
	CHECK_TRANSPORT = 1,
	CHECK_NATIVE = 2,
	CHECK_SLEEP = 4,     /* wait_fd and arm */
	CHECK_CANCEL = 8,    /* cancel and drop */
	CHECK_REGISTER = 16, /* mem_register of the transport */
	CHECK_FORKED = 32,
	CHECK_EVENTS = 64,   /* native->event_* */
	CHECK_SPLIT = 128,   /* native->split */
	CHECK_MEMORY = 256,  /* transport->memory */
	CHECK_DEVICES = 512, /* memory of devices, and no host memory */
	CHECK_MANAGED = 1024 /* managed memory, where CHECK_DEVICES is needed too */
};

/* What the ranks of a check may be. */
enum check_way {
	CHECK_ALONE = 0,     /* no ranks: one case, in one process */
	CHECK_THREADS = 1,   /* threads of one process */
	CHECK_PROCESSES = 2, /* processes; skipped for COLL_BACKEND_IN_PROCESS */
	CHECK_EITHER = 3     /* a case of each */
};

struct check_case;

struct check {
	const char *name;    /* short, for --only: lower case, '-' between words */
	const char *says;    /* what is true when it passes; no full stop */
	const char *promise; /* where it is promised: "Blocking", "coll_transport_t.send" */
	enum check_group group;
	const char *rests; /* a check before it of the same group: if that fails, skip this one */
	unsigned needs;    /* CHECK_TRANSPORT | ... */
	unsigned ways;     /* CHECK_THREADS | ... */
	int ranks_min, ranks_max; /* 0: no limit of its own; --ranks is cut to it */
	int slow;                 /* not with --quick */
	int trace;                /* also fails if this was seen: an enum check_trace, plus 1 */
	void (*run)(struct check_case *c);
	const void *plan; /* the check's own, for a `run` that several share */
};

/* What was seen before the first check (host/traits.c). */
struct check_traits {
	int bare;        /* it has no transport group: what it lacks nobody does in its place */
	int device_only; /* it takes memory of CUDA devices, but no host memory */
	int managed;     /* then: managed memory among it */
	int devices;     /* then: how many there are */
	char why[200];   /* ... or why there are none */
};

/* The command line, the survey, and the host of the plugin. */
struct check_options {
	const char *path; /* of the plugin, absolute */
	char dir[4096];   /* its directory */
	char name[32];    /* <name> of coll_<name>.so; "" if the file is not called so */
	int ranks_min, ranks_max, ranks_said;
	int quick, all;
	int64_t timeout_ms;      /* of one case: what takes longer has hung */
	const char *const *keys; /* of --option key=value: "key", "value", ..., NULL */
	struct check_traits traits;
	/* Called before each case, in its process: skips the check if the plugin cannot do it. */
	void (*needs)(struct check_case *c);
};

/*
 * What runs beside: each case looks at what the plugin printed and left; the checks "quiet",
 * "descriptors", "lasting-threads", "signals" and "children" report what was seen in any case of any
 * check.
 */
enum check_trace {
	CHECK_PRINTED,
	CHECK_FDS,
	CHECK_LASTING_THREADS,
	CHECK_SIGNALS,
	CHECK_CHILDREN,
	CHECK_TRACES
};

/* What the processes of a case share. */
struct check_shared {
	atomic_int failed, skipped; /* 1: being written, 2: text is there */
	char text[CHECK_TEXT], skip[CHECK_TEXT];
	/* What was going on, for the sentence about a crash or a hang; static texts. */
	atomic_uintptr_t slot[CHECK_RANKS];
	atomic_int finished;   /* the check's function has returned */
	atomic_int crash_rank; /* rank + 1 of the thread that crashed */
	atomic_int dying[CHECK_RANKS];
	/* Turns of check_exchange: how many ranks have come, what they brought. */
	atomic_uint entered[CHECK_STEPS];
	uint8_t contributed[CHECK_STEPS][CHECK_RANKS][CHECK_RECORD];
	atomic_int gave_up[CHECK_STEPS]; /* rank + 1 that called exchange_fail in this turn */
	/* What was seen beside, see below. */
	atomic_int traced[CHECK_TRACES];
	char trace[CHECK_TRACES][CHECK_TEXT];
	atomic_llong calls; /* of collectives that were verified */
	/* The check's own; zero at the beginning of each case. */
	atomic_llong number[64];
};

/* One run of a check; the same for all its ranks. */
struct check_case {
	const struct check *check;
	const struct check_options *options;
	struct check_shared *shared;
	int nranks;    /* 0 if the check has none */
	int processes; /* the ranks are processes, else threads */
	int quick;
	/* How long a check may wait for one thing before it says so: less than the watchdog. */
	int64_t timeout_ms;
	void *user; /* the check's own; set before check_ranks */
};

/* ------------------------------------------------------------------ speaking -- */

/* Each says what was expected and what came; from any thread or process of the case. */
__attribute__((format(printf, 2, 3))) void check_fail(struct check_case *c, const char *fmt, ...);
__attribute__((format(printf, 2, 3))) void check_skip(struct check_case *c, const char *fmt, ...);
int check_failed(const struct check_case *c);

/* ------------------------------------------------------------------ ranks -- */

/*
 * Calls fn for each rank at once, in threads or processes as the case says, and returns when all
 * have ended.  A rank that dies (a process) fails the check, unless it said check_dies() before.
 */
void check_ranks(struct check_case *c, void (*fn)(struct check_case *c, int rank));
void check_dies(struct check_case *c, int rank);

/* What `rank` is in now ("open"), named if it crashes or hangs there; NULL: nothing special. */
void check_slot(struct check_case *c, int rank, const char *slot);
/* The rank that the calling thread spoke of last in check_slot, plus 1; 0: none. */
int check_crashing_rank(void);

/*
 * Allgather of len <= CHECK_RECORD bytes and barrier, without the plugin.  `turn` counts the calls
 * of this rank; begin with 0.  0, or -1 when the others did not come in time (not yet a failure of
 * the check).
 */
int check_exchange(struct check_case *c, int rank, unsigned *step, const void *in, void *out,
		   size_t len, int64_t timeout_ms);
/* Its two halves, for who has something to do in between. */
void check_exchange_begin(struct check_case *c, int rank, unsigned step, const void *in,
			  size_t len);
int check_exchange_done(const struct check_case *c, unsigned step);
/* The same with the case's patience; fails the check when somebody does not come. */
int check_barrier(struct check_case *c, int rank, unsigned *step);

/* ------------------------------------------------------------------ devices -- */

/* The device of a rank, where the plugin takes memory of devices only; else -1. */
int check_device(const struct check_case *c, int rank);
/* Must ranks share devices? */
int check_few_devices(const struct check_case *c);
/* Skips the check if there are no such devices as it needs. */
void check_device_needs(struct check_case *c);
/* Where ranks begin: in a rank's process, or once in that of all threads. */
void check_device_begin(struct check_case *c, int rank);

/* ------------------------------------------------------------------ the frame -- */

/* What became of a check. */
enum check_verdict { CHECK_PASSED, CHECK_NOT_PASSED, CHECK_SKIPPED };

struct check_result {
	enum check_verdict verdict;
	int cases, skipped;
	long long calls;             /* of collectives that were verified on all ranks */
	char text[CHECK_TEXT + 200]; /* why not passed, why skipped */
	char skip[CHECK_TEXT];
	char output[16384]; /* what the case that failed printed */
};

/* Runs all cases of one check (run.c). */
void check_run(const struct check *check, const struct check_options *options,
	       struct check_result *result);

/* "" or where it was first seen in this run of the kit, and what. */
const char *check_traced(enum check_trace trace);

#endif
