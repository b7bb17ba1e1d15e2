/* SPDX-License-Identifier: BSD-3-Clause */
/* uds.h - includes the backend of tests/out-of-tree, so that a bad plugin can spoil it. */
#define _GNU_SOURCE
#include "base.h"

/* The good backend's table is not exported. */
#undef COLL_BACKEND_EXPORT
#define COLL_BACKEND_EXPORT BAD_FN
#define coll_backend_v1     bad_good
#include "../../out-of-tree/coll_uds.c"
#undef coll_backend_v1

#define GOOD_SEND     uds_send
#define GOOD_PROGRESS uds_progress
#define GOOD_OPEN     uds_open
#define GOOD_CLOSE    uds_close
