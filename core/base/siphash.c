/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * siphash.c - SipHash-2-4 with 128 bits of output: proves knowledge of a key without showing it.
 *
 * After J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF" (2012), and the
 * 128-bit variant that its authors added: v1 ^= 0xee at the start, v2 ^= 0xee before the first
 * half, v1 ^= 0xdd before the second.
 */
#include <string.h>
#include "base/siphash.h"

static uint64_t sip_rotate(uint64_t x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

static uint64_t sip_load(const uint8_t *p)
{
	uint64_t x = 0;

	for (int i = 0; i < 8; i++)
		x |= (uint64_t)p[i] << (8 * i);
	return x;
}

static void sip_store(uint8_t *p, uint64_t x)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(x >> (8 * i));
}

static void sip_rounds(uint64_t v[4], int n)
{
	while (n-- > 0) {
		v[0] += v[1];
		v[2] += v[3];
		v[1] = sip_rotate(v[1], 13) ^ v[0];
		v[3] = sip_rotate(v[3], 16) ^ v[2];
		v[0] = sip_rotate(v[0], 32);
		v[2] += v[1];
		v[0] += v[3];
		v[1] = sip_rotate(v[1], 17) ^ v[2];
		v[3] = sip_rotate(v[3], 21) ^ v[0];
		v[2] = sip_rotate(v[2], 32);
	}
}

static void sip_word(uint64_t v[4], uint64_t word)
{
	v[3] ^= word;
	sip_rounds(v, 2);
	v[0] ^= word;
}

static uint64_t sip_finish(uint64_t v[4])
{
	sip_rounds(v, 4);
	return v[0] ^ v[1] ^ v[2] ^ v[3];
}

void siphash128(const uint8_t key[16], const void *data, size_t len, uint8_t out[16])
{
	uint64_t k0 = sip_load(key), k1 = sip_load(key + 8);
	uint64_t v[4] = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee,
			 k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
	const uint8_t *p = data;
	uint8_t tail[8] = {0};
	size_t whole = len - len % 8;

	for (size_t i = 0; i < whole; i += 8)
		sip_word(v, sip_load(p + i));
	if (len > whole)
		memcpy(tail, p + whole, len - whole);
	tail[7] = (uint8_t)len;
	sip_word(v, sip_load(tail));
	v[2] ^= 0xee;
	sip_store(out, sip_finish(v));
	v[1] ^= 0xdd;
	sip_store(out + 8, sip_finish(v));
}
