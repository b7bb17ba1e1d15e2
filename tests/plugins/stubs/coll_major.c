/* SPDX-License-Identifier: BSD-3-Clause */
/* coll_major.c - built for a future major version of the ABI. */
#include <coll/backend.h>

COLL_BACKEND_EXPORT extern const uint64_t coll_backend_v2[4];
const uint64_t coll_backend_v2[4] = {32, 0, 0, 0};
