/* SPDX-License-Identifier: BSD-3-Clause */
/* conf_core.c - the core's own options.  conf/coll.conf lists the same; a test compares them. */
#include "conf_impl.h"

enum { MS = 1000, S = 1000000 };

/* Nothing waits longer than a year. */
#define CONF_LONGEST (INT64_C(366) * 24 * 60 * 60 * S)
/* More than any memory holds. */
#define CONF_LARGEST (INT64_C(1) << 50)

const struct conf_core_option conf_core_options[] = {
	{{"backend", NULL, "",
	  "backends to consider, best first (ucx,tcp), or to leave out (^ucx); unset: by priority",
	  0, 0, COLL_OPTION_STRING, 0},
	 NULL},
	{{"plugin_path", NULL, "",
	  "directories to search for backends, separated by ':'; unset: the built-in one", 0, 0,
	  COLL_OPTION_STRING, 0},
	 NULL},
	{{"interface", NULL, "",
	  "network interface or address to use; unset: one that reaches the other ranks", 0, 0,
	  COLL_OPTION_STRING, 0},
	 NULL},
	{{"timeout", "300s", "seconds", "longest time without progress in any wait", 1 * MS,
	  CONF_LONGEST, COLL_OPTION_DURATION, 0},
	 NULL},
	{{"init_timeout", "60s", "seconds", "longest wait while a communicator is made", 1 * MS,
	  CONF_LONGEST, COLL_OPTION_DURATION, 0},
	 NULL},
	{{"destroy_timeout", "5s", "seconds",
	  "longest wait for unfinished operations when a communicator is destroyed", 0,
	  CONF_LONGEST, COLL_OPTION_DURATION, 0},
	 NULL},
	{{"log", "warn", "", "what is written to stderr: error, warn, info, debug or trace", 0, 0,
	  COLL_OPTION_STRING, 0},
	 "error|warn|info|debug|trace"},
	{{"progress", "caller", "",
	  "who moves data between calls: caller (nobody) or thread (one of the library's own)", 0,
	  0, COLL_OPTION_STRING, 0},
	 "caller|thread"},
	{{"poll", "20us", "seconds", "how long a wait polls before it yields the processor", 0,
	  1 * S, COLL_OPTION_DURATION, 0},
	 NULL},
	{{"yield", "200us", "seconds", "how long a wait then yields before it sleeps", 0, 1 * S,
	  COLL_OPTION_DURATION, 0},
	 NULL},
	{{"allreduce_ring_min", "64K", "bytes",
	  "from this size on allreduce goes round a ring instead of doubling distances", 0,
	  CONF_LARGEST, COLL_OPTION_BYTES, 0},
	 NULL},
	{{"segment", "1M", "bytes",
	  "long messages are cut into pieces of this size, so that transfer and reduction overlap",
	  INT64_C(4) << 10, INT64_C(1) << 30, COLL_OPTION_BYTES, 0},
	 NULL},
	{{"enable_gpu_fallback", "no", "",
	  "stage device memory through host memory where the backend cannot reach it (slow)", 0, 0,
	  COLL_OPTION_BOOL, 0},
	 NULL},
	{{"reproducible", "no", "",
	  "results that do not depend on message size or on who arrives first", 0, 0,
	  COLL_OPTION_BOOL, 0},
	 NULL},
};

const int conf_core_count = sizeof(conf_core_options) / sizeof(conf_core_options[0]);
