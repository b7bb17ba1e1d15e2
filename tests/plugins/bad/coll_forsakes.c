/* SPDX-License-Identifier: BSD-3-Clause */
/* fails: lost-status */
/* coll_forsakes.c - without cancel, sends to a lost rank get their status one by one. */
#define _GNU_SOURCE
#define FROZEN_MINOR 3
#include "../frozen/backend_v1.h"
/* The plugin of ABI 1.3 claims to be of ABI 1.4, which has the promise. */
#undef COLL_BACKEND_ABI_MINOR
#define COLL_BACKEND_ABI_MINOR 4
#define UDS_NAME               "forsakes"
#include "../frozen/coll_uds.c"
