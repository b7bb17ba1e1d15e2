/* SPDX-License-Identifier: BSD-3-Clause */
/* random.h - random bytes for keys and nonces. */
#ifndef CORE_BASE_RANDOM_H
#define CORE_BASE_RANDOM_H

#include <stddef.h>

/* Fills out[0..len) with random bytes of the system's generator. */
int random_bytes(void *out, size_t len);

#endif
