/* SPDX-License-Identifier: BSD-3-Clause */
/* siphash.h - the MAC of a short text; libcoll and `coll check` give it to plugins as host->mac. */
#ifndef CORE_BASE_SIPHASH_H
#define CORE_BASE_SIPHASH_H

#include <stddef.h>
#include <stdint.h>

/* SipHash-2-4 with 128-bit output (Aumasson and Bernstein, 2012). */
void siphash128(const uint8_t key[16], const void *data, size_t len, uint8_t out[16]);

#endif
