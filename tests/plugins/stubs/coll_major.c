/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_major.c - built for an ABI that is yet to come. */
#include <coll/backend.h>

COLL_BACKEND_EXPORT extern const uint64_t coll_backend_v2[4];
const uint64_t coll_backend_v2[4] = {32, 0, 0, 0};
