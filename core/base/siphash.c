/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * siphash.c - SipHash-2-4 with 128 bits of output: proves knowledge of a key without showing it.
 *
 * After J.-P. Aumasson and D. J. Bernstein, "SipHash: a fast short-input PRF" (2012), and the
 * 128-bit variant that its authors added: v1 ^= 0xee at the start, v2 ^= 0xee before the first
 * half, v1 ^= 0xdd before the second.
 */
#include <endian.h>
#include <string.h>
#include "base/siphash.h"

static uint64_t sip_rotate(uint64_t x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

static uint64_t sip_load(const uint8_t *p)
{
	uint64_t x;

	memcpy(&x, p, sizeof(x));
	return le64toh(x);
}

static void sip_store(uint8_t *p, uint64_t x)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(x >> (8 * i));
}

/* The state.  Functions pass it by value, so that the compiler keeps it in registers. */
struct sip {
	uint64_t a, b, c, d;
};

static inline struct sip sip_round(struct sip v)
{
	v.a += v.b;
	v.c += v.d;
	v.b = sip_rotate(v.b, 13) ^ v.a;
	v.d = sip_rotate(v.d, 16) ^ v.c;
	v.a = sip_rotate(v.a, 32);
	v.c += v.b;
	v.a += v.d;
	v.b = sip_rotate(v.b, 17) ^ v.c;
	v.d = sip_rotate(v.d, 21) ^ v.a;
	v.c = sip_rotate(v.c, 32);
	return v;
}

static inline struct sip sip_word(struct sip v, uint64_t word)
{
	v.d ^= word;
	v = sip_round(sip_round(v));
	v.a ^= word;
	return v;
}

static struct sip sip_finish(struct sip v)
{
	return sip_round(sip_round(sip_round(sip_round(v))));
}

static uint64_t sip_output(struct sip v)
{
	return v.a ^ v.b ^ v.c ^ v.d;
}

void siphash128(const uint8_t key[16], const void *data, size_t len, uint8_t out[16])
{
	uint64_t k0 = sip_load(key), k1 = sip_load(key + 8);
	struct sip v = {k0 ^ 0x736f6d6570736575, k1 ^ 0x646f72616e646f6d ^ 0xee,
			k0 ^ 0x6c7967656e657261, k1 ^ 0x7465646279746573};
	const uint8_t *p = data;
	uint8_t tail[8] = {0};
	size_t whole = len - len % 8;

	for (size_t i = 0; i < whole; i += 8)
		v = sip_word(v, sip_load(p + i));
	if (len > whole)
		memcpy(tail, p + whole, len - whole);
	tail[7] = (uint8_t)len;
	v = sip_word(v, sip_load(tail));
	v.c ^= 0xee;
	v = sip_finish(v);
	sip_store(out, sip_output(v));
	v.b ^= 0xdd;
	v = sip_finish(v);
	sip_store(out + 8, sip_output(v));
}
