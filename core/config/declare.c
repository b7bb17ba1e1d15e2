/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * declare.c - the core's own options.  conf/coll.conf lists the same; tests/unit/config_file_test compares
 * them.
 */
#include "config/config_impl.h"

enum { MS = 1000, S = 1000000 };

#define CONFIG_LONGEST (INT64_C(1) * CONFIG_LONGEST_SECONDS * S)
#define CONFIG_RULES_HELP                                                                          \
	"algorithms and when, the first that matches: NAME [bytes A-B] [block A-B] [ranks A-B] "   \
	"[nodes A-B] [local A-B] [memory host|cuda] [cpus own|shared|few], NAME ..."
/* The rules for a kind of collective. */
#define CONFIG_RULES(key, kind, fallback)                                                          \
	{                                                                                          \
		{key, fallback, "", CONFIG_RULES_HELP, 0, 0, COLL_OPTION_STRING, 0}, NULL, kind    \
	}

const struct config_declared config_core_options[] = {
	{{"backend", NULL, "",
	  "backends to consider, best first (ucx,tcp), or to leave out (^ucx); unset: by priority",
	  0, 0, COLL_OPTION_STRING, 0},
	 NULL,
	 0},
	{{"plugin_path", NULL, "",
	  "directories to search for backends, separated by ':'; unset: the built-in directory", 0,
	  0, COLL_OPTION_STRING, 0},
	 NULL,
	 0},
	{{"interface", NULL, "",
	  "network interface or address to use; unset: an address that reaches the other ranks", 0,
	  0, COLL_OPTION_STRING, 0},
	 NULL,
	 0},
	{{"timeout", "300s", "seconds", "longest time without progress in any wait", 1 * MS,
	  CONFIG_LONGEST, COLL_OPTION_DURATION, 0},
	 NULL,
	 0},
	{{"stall_after", "2s", "seconds",
	  "time without progress after which a wait asks the other ranks where they are; 0: never",
	  0, CONFIG_LONGEST, COLL_OPTION_DURATION, 0},
	 NULL,
	 0},
	{{"companion", "tcp", "",
	  "transport that watches over the ranks of a backend that has none (nccl): tcp, ucx or "
	  "none",
	  0, 0, COLL_OPTION_STRING, 0},
	 "tcp|ucx|none",
	 0},
	{{"init_timeout", "60s", "seconds", "longest wait while a communicator is made", 1 * MS,
	  CONFIG_LONGEST, COLL_OPTION_DURATION, 0},
	 NULL,
	 0},
	{{"destroy_timeout", "5s", "seconds",
	  "longest wait for unfinished operations when a communicator is destroyed", 0,
	  CONFIG_LONGEST, COLL_OPTION_DURATION, 0},
	 NULL,
	 0},
	{{"log", "warn", "",
	  "least important log lines on stderr: error, warn, info, debug or trace", 0, 0,
	  COLL_OPTION_STRING, 0},
	 "error|warn|info|debug|trace",
	 0},
	{{"dump", NULL, "",
	  "directory for the last operations of each communicator that fails, a file for each rank",
	  0, 0, COLL_OPTION_STRING, 0},
	 NULL,
	 0},
	{{"progress", "caller", "",
	  "thread that moves data between calls: caller (none) or thread (the library's own)", 0, 0,
	  COLL_OPTION_STRING, 0},
	 "caller|thread",
	 0},
	{{"poll", "20us", "seconds", "time that a wait polls before it yields the processor", 0,
	  1 * S, COLL_OPTION_DURATION, 0},
	 NULL,
	 0},
	{{"yield", "200us", "seconds",
	  "time that a wait then yields the processor before it sleeps", 0, 1 * S,
	  COLL_OPTION_DURATION, 0},
	 NULL,
	 0},
	{{"segment", "1M", "bytes",
	  "size of the pieces of long messages, so that transfer and reduction overlap",
	  INT64_C(4) << 10, INT64_C(1) << 30, COLL_OPTION_BYTES, 0},
	 NULL,
	 0},
	{{"node_size", "0", "ranks",
	  "number of consecutive ranks that count as a node; 0: the ranks of one host", 0,
	  INT32_MAX, COLL_OPTION_INT, 0},
	 NULL,
	 0},
	{{"enable_gpu_fallback", "no", "",
	  "stage device memory through host memory where the backend cannot reach it (slow)", 0, 0,
	  COLL_OPTION_BOOL, 0},
	 NULL,
	 0},
	{{"reproducible", "no", "",
	  "results depend on inputs and rank order only, bit for bit (slower)", 0, 0,
	  COLL_OPTION_BOOL, 0},
	 NULL,
	 0},
	{{"check_buffers", "no", "",
	  "find operations of one group that write to each other's buffers (slow, for debugging)",
	  0, 0, COLL_OPTION_BOOL, 0},
	 NULL,
	 0},
	/*
	 * The last rules of a list are for calls that pass over those before: operations that do
	 * not commute, then reproducible ones.  tests/bench/README.md has the measurements and the model.
	 */
	CONFIG_RULES("allreduce_algorithm", COLL_KIND_ALLREDUCE,
		     "linear -64K ranks 3- nodes 1 cpus few, "
		     "linear -4K ranks 3- nodes 1 cpus shared, two_level -32K nodes 2-, "
		     "recursive_doubling -32K, rabenseifner -128K, ring block 32K-, "
		     "rabenseifner, gather_reduce -8K, scatter_reduce"),
	CONFIG_RULES("broadcast_algorithm", COLL_KIND_BROADCAST,
		     "linear ranks 3- nodes 1 cpus few, linear -2K ranks 3-8 nodes 1, "
		     "linear -4K ranks 3-16 local 1, "
		     "binomial -128K, scatter_allgather block 4K- ranks 5-, binomial"),
	CONFIG_RULES("reduce_algorithm", COLL_KIND_REDUCE,
		     "linear -64K ranks 3- nodes 1 cpus few, linear -1K ranks 3-8 nodes 1, "
		     "linear -4K ranks 3-16 local 1, "
		     "binomial -64K, scatter_gather block 4K- ranks 5-, binomial, "
		     "binomial_ordered"),
	CONFIG_RULES("allgather_algorithm", COLL_KIND_ALLGATHER,
		     "linear -8K ranks 5- nodes 1 cpus few, "
		     "linear -512 ranks 5- nodes 1 cpus shared, pairwise ranks -4 nodes 1, "
		     "pairwise -256K ranks -8 nodes 1, pairwise -256K ranks -8 local 1, "
		     "ring 4K- nodes 2- local 4-, ring 2K- nodes 2- local 8-, "
		     "ring 1K- nodes 2- local 16-, recursive_doubling -8K, bruck -8K, ring"),
	CONFIG_RULES("reduce_scatter_algorithm", COLL_KIND_REDUCE_SCATTER,
		     "linear -8K ranks 5- nodes 1 cpus few, "
		     "linear -512 ranks 3- nodes 1 cpus shared, "
		     "ring 4K- nodes 2- local 4-, ring 2K- nodes 2- local 8-, "
		     "ring 1K- nodes 2- local 16-, recursive_halving -4K, ring, pairwise"),
	CONFIG_RULES("alltoall_algorithm", COLL_KIND_ALLTOALL,
		     "pairwise ranks -8 nodes 1 cpus shared, bruck -2K ranks 4-, pairwise"),
	CONFIG_RULES("gather_algorithm", COLL_KIND_GATHER, "binomial -1K ranks 64-, linear"),
	CONFIG_RULES("scatter_algorithm", COLL_KIND_SCATTER, "binomial -1K ranks 64-, linear"),
	CONFIG_RULES("allgatherv_algorithm", COLL_KIND_ALLGATHERV,
		     "pairwise -256K ranks -8 nodes 1, pairwise -256K ranks -8 local 1, ring"),
	CONFIG_RULES("reduce_scatterv_algorithm", COLL_KIND_REDUCE_SCATTERV, "ring, pairwise"),
	CONFIG_RULES("alltoallv_algorithm", COLL_KIND_ALLTOALLV, "pairwise"),
	CONFIG_RULES("gatherv_algorithm", COLL_KIND_GATHERV, "linear"),
	CONFIG_RULES("scatterv_algorithm", COLL_KIND_SCATTERV, "linear"),
	CONFIG_RULES("barrier_algorithm", COLL_KIND_BARRIER,
		     "linear ranks 3- nodes 1 cpus shared, dissemination"),
	CONFIG_RULES("scan_algorithm", COLL_KIND_SCAN,
		     "doubling -1M, chain ranks -4, doubling -4M, chain ranks -16, "
		     "doubling -12M, chain, doubling"),
	CONFIG_RULES("exscan_algorithm", COLL_KIND_EXSCAN,
		     "doubling -1M, chain ranks -4, doubling -4M, chain ranks -16, "
		     "doubling -12M, chain, doubling"),
};

const int config_core_count = sizeof(config_core_options) / sizeof(config_core_options[0]);
