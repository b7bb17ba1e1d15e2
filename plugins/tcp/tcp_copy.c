/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_copy.c - copies payload past the caches. */
#include "tcp.h"

#include <string.h>
#ifdef __SSE2__
#include <emmintrin.h>

enum { TCP_LINE = 64 };

/* Copies the whole lines among n bytes and returns their bytes.  `to` is the beginning of a line. */
static size_t tcp_copy_lines(uint8_t *to, const uint8_t *from, size_t n)
{
	enum { WORDS = TCP_LINE / sizeof(__m128i) };
	size_t done = 0;

	for (; n - done >= TCP_LINE; done += TCP_LINE) {
		const __m128i *in = (const __m128i *)(const void *)(from + done);
		__m128i *out = (__m128i *)(void *)(to + done), word[WORDS];

		for (int i = 0; i < WORDS; i++)
			word[i] = _mm_loadu_si128(in + i);
		for (int i = 0; i < WORDS; i++)
			_mm_stream_si128(out + i, word[i]);
	}
	/* Order these stores before later stores, by which another thread may learn of the data. */
	_mm_sfence();
	return done;
}

void tcp_copy_past(uint8_t *to, const uint8_t *from, size_t n)
{
	const size_t first = tcp_min(n, -(uintptr_t)to % TCP_LINE);
	size_t done;

	memcpy(to, from, first);
	done = first + tcp_copy_lines(to + first, from + first, n - first);
	memcpy(to + done, from + done, n - done);
}
#else
void tcp_copy_past(uint8_t *to, const uint8_t *from, size_t n)
{
	copy_payload(to, from, n);
}
#endif
