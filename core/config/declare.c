/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * declare.c - the core's own options.  conf/coll.conf lists the same; tests/unit/config_file_test compares
 * them.
 */
#include "config/config_impl.h"

enum { MS = 1000, S = 1000000 };

#define LONGEST (INT64_C(1) * CONFIG_LONGEST_SECONDS * S)
#define RULES_HELP                                                                                 \
	"algorithms and when, the first that matches: NAME [bytes A-B] [block A-B] [ranks A-B] "   \
	"[nodes A-B] [local A-B] [memory host|cuda] [cpus own|shared|few] [power two|other], "     \
	"NAME ..."

#define OPTION(type, key, fallback, unit, min, max, help)                                          \
	{                                                                                          \
		key, fallback, unit, help, min, max, type, 0                                       \
	}
#define TEXT(key, help) OPTION(COLL_OPTION_STRING, key, NULL, "", 0, 0, help)
#define WORDS(key, fallback, words, help)                                                          \
	OPTION(COLL_OPTION_STRING, key, fallback, words, 0, 0, help)
#define YES_NO(key, help) OPTION(COLL_OPTION_BOOL, key, "no", "", 0, 0, help)
#define DURATION(key, fallback, min, max, help)                                                    \
	OPTION(COLL_OPTION_DURATION, key, fallback, "seconds", min, max, help)
/* The rules for a kind of collective. */
#define RULES(kind, fallback)                                                                      \
	OPTION(COLL_OPTION_STRING, kind "_algorithm", fallback, "", 0, 0, RULES_HELP)

const coll_option_t config_core_options[] = {
	TEXT("backend",
	     "backends to consider, best first (ucx,tcp), or to leave out (^ucx); unset: by "
	     "priority"),
	TEXT("plugin_path", "directories to search for backends and observers, separated by ':'; "
			    "unset: the built-in "
			    "directory"),
	TEXT("interface",
	     "network interface or address to use; unset: an address that reaches the other "
	     "ranks"),
	DURATION("timeout", "300s", 1 * MS, LONGEST, "longest time without progress in any wait"),
	DURATION("stall_after", "2s", 0, LONGEST,
		 "time without progress after which a wait asks the other ranks where they are; 0: "
		 "never"),
	WORDS("companion", "tcp", "tcp|ucx|none",
	      "transport beside a backend that has none (nccl), for failures and calls on host "
	      "memory, or if named beside mpi, for failures: tcp, ucx or none"),
	DURATION("init_timeout", "60s", 1 * MS, LONGEST,
		 "longest wait while a communicator is made"),
	DURATION("destroy_timeout", "5s", 0, LONGEST,
		 "longest wait for unfinished operations when a communicator is destroyed"),
	OPTION(COLL_OPTION_STRING, "log", "warn", "", 0, 0,
	       "least important log lines: error, warn, info, debug or trace; then perhaps levels "
	       "of subsystems, as in warn,watch:debug,tcp:trace"),
	WORDS("log_format", NULL, "short|text|json",
	      "log lines as short text, as text with time and place, or as JSON; unset: short on "
	      "stderr, text in a file"),
	TEXT("log_file",
	     "file that log lines are appended to, with %h (host), %r (rank), %p (process id); "
	     "unset: stderr"),
	TEXT("dump",
	     "directory for the last operations of each communicator that fails, a file for each "
	     "rank"),
	TEXT("observers",
	     "observers that are told of calls, steps, messages and failures (timeline,nvtx): "
	     "names of plugins; unset: none"),
	TEXT("timeline",
	     "file of each rank for its calls, messages and waits, for Perfetto and `coll trace`, "
	     "with %r (rank), %h (host), %p (process id), %j (job): job.%r.json; unset: none"),
	OPTION(COLL_OPTION_BOOL, "page", "yes", "", 0, 0,
	       "keep a page in the user's runtime directory, for `coll top` and `coll dump`"),
	YES_NO("watch", "show the ranks of each host to `coll top --job`: a thread and a port on "
			"each host; needs "
			"a secret key; all ranks use rank 0's"),
	OPTION(COLL_OPTION_INT, "watch_port", "0", "", 0, UINT16_MAX,
	       "port of `watch`; 0: the system chooses"),
	YES_NO("counters",
	       "count calls, bytes, waits and latencies, for coll_get_counters and `coll metrics`"),
	WORDS("progress", "caller", "caller|thread",
	      "thread that moves data between calls: caller (none) or thread (the library's own)"),
	DURATION("poll", "20us", 0, 1 * S, "time that a wait polls before it yields the processor"),
	DURATION("yield", "200us", 0, 1 * S,
		 "time that a wait then yields the processor before it sleeps"),
	OPTION(COLL_OPTION_BYTES, "segment", "1M", "bytes", INT64_C(4) << 10, INT64_C(1) << 30,
	       "size of the pieces of long messages, so that transfer and reduction overlap"),
	OPTION(COLL_OPTION_INT, "node_size", "0", "ranks", 0, INT32_MAX,
	       "number of consecutive ranks that count as a node; 0: the ranks of one host"),
	YES_NO("enable_gpu_fallback",
	       "stage device memory through host memory where the backend cannot reach it (slow)"),
	YES_NO("reproducible",
	       "results depend on inputs and rank order only, bit for bit (slower)"),
	YES_NO("check_buffers",
	       "find operations of one group that write to each other's buffers (slow, for "
	       "debugging)"),
	/*
	 * The last rules of a list are for calls that pass over the rules before: operations that do not commute, then
	 * reproducible ones.  tests/bench/README.md has the measurements and the model.
	 */
	RULES("allreduce",
	      "linear -64K ranks 3- nodes 1 cpus few, "
	      "linear -4K ranks 3- nodes 1 cpus shared, two_level -32K nodes 2-, "
	      "recursive_doubling -32K, rabenseifner -128K, "
	      "rabenseifner block -256K ranks 4- local 1 power two, "
	      "ring block 8K- ranks -32768 nodes 2- local 4- power other, "
	      "ring block 16K- ranks -32768 nodes 3- local 8-, "
	      "ring block 32K- ranks -32768, rabenseifner, gather_reduce -8K, scatter_reduce"),
	RULES("broadcast", "linear ranks 3- nodes 1 cpus few, linear -2K ranks 3-8 nodes 1, "
			   "linear -4K ranks 3-16 local 1, "
			   "binomial -128K, chain block 2M- ranks 3- nodes 2-, "
			   "scatter_allgather block 4K- ranks 5-, "
			   "scatter_allgather 512K- ranks 3-4 local 1, binomial"),
	RULES("reduce", "linear -64K ranks 3- nodes 1 cpus few, linear -1K ranks 3-8 nodes 1, "
			"linear -4K ranks 3-16 local 1, "
			"binomial -64K, scatter_gather block 4K- ranks 5-, "
			"scatter_gather 256K- ranks 3-4 local 1, binomial, "
			"binomial_ordered"),
	RULES("allgather", "linear -8K ranks 5- nodes 1 cpus few, "
			   "linear -512 ranks 5- nodes 1 cpus shared, pairwise ranks -4 nodes 1, "
			   "pairwise -256K ranks -8 nodes 1, pairwise -256K ranks -8 local 1, "
			   "ring 4K- nodes 2- local 4-, ring 2K- nodes 2- local 8-, "
			   "ring 1K- nodes 2- local 16-, recursive_doubling -8K, bruck -8K, ring"),
	RULES("reduce_scatter",
	      "linear -8K ranks 5- nodes 1 cpus few, "
	      "linear -512 ranks 3- nodes 1 cpus shared, "
	      "pairwise -16K ranks 3-7 local 1, pairwise 4K-16K ranks 8 local 1, "
	      "ring 4K- nodes 2- local 4-, ring 2K- nodes 2- local 8-, "
	      "ring 1K- nodes 2- local 16-, recursive_halving -4K, ring, pairwise"),
	RULES("alltoall", "pairwise ranks -8 nodes 1 cpus shared, bruck -2K ranks 4-, pairwise"),
	RULES("gather", "binomial -1K ranks 64-, linear"),
	RULES("scatter", "binomial -1K ranks 64-, linear"),
	RULES("allgatherv",
	      "pairwise -256K ranks -8 nodes 1, pairwise -256K ranks -8 local 1, ring"),
	RULES("reduce_scatterv", "ring, pairwise"),
	RULES("alltoallv", "pairwise"),
	RULES("gatherv", "linear"),
	RULES("scatterv", "linear"),
	RULES("barrier", "linear ranks 3- nodes 1 cpus shared, dissemination"),
	RULES("scan", "doubling -1M, chain ranks -4, doubling -4M, chain ranks -16, "
		      "doubling -12M, chain, doubling"),
	RULES("exscan", "doubling -1M, chain ranks -4, doubling -4M, chain ranks -16, "
			"doubling -12M, chain, doubling"),
};

const int config_core_count = sizeof(config_core_options) / sizeof(config_core_options[0]);
