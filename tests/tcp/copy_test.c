/* SPDX-License-Identifier: BSD-3-Clause */
/* copy_test.c - tcp_copy_past copies all bytes, to and from any address, and no other. */
#include "../../plugins/tcp/tcp.h"
#include "../lib/tap.h"

#include <string.h>

enum { MOST = 300, ROOM = MOST + 80 };

static uint8_t from[ROOM], to[ROOM], want[ROOM];

static int differs(size_t at, size_t skew, size_t n)
{
	memset(to, 0xee, sizeof(to));
	memset(want, 0xee, sizeof(want));
	memcpy(want + at, from + skew, n);
	tcp_copy_past(to + at, from + skew, n);
	return memcmp(to, want, sizeof(to)) != 0;
}

int main(void)
{
	size_t bad = 0;

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 7 + 1);
	for (size_t at = 0; at < 66; at++)
		for (size_t skew = 0; skew < 18; skew++)
			for (size_t n = 0; n <= MOST; n++)
				bad += (size_t)differs(at, skew, n);
	ok(!bad, "every length, to and from every address");
	return done_testing();
}
