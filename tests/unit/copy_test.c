/* SPDX-License-Identifier: BSD-3-Clause */
/* copy_test.c - copy_payload copies as memcpy, wherever the two addresses lie in their pages. */
#include "../lib/tap.h"

#include "base/copy.h"

enum { PAGES = 4 * COPY_PAGE, MARGIN = 64 };

static uint8_t from[PAGES], to[2 * PAGES];

/* Copies n bytes to an address that is so many bytes ahead, and looks for changes around them too. */
static int is_right(size_t ahead, size_t n)
{
	uint8_t *const at =
		to + MARGIN + ((uintptr_t)from - (uintptr_t)(to + MARGIN)) % COPY_PAGE + ahead;
	int wrong = 0;

	memset(to, 0xee, sizeof(to));
	copy_payload(at, from, n);
	wrong = memcmp(at, from, n) != 0;
	for (int i = 1; i <= MARGIN; i++)
		wrong += at[-i] != 0xee || at[n + (size_t)i - 1] != 0xee;
	return !wrong;
}

int main(void)
{
	static const size_t lengths[] = {0,
					 1,
					 COPY_PIECE - 1,
					 COPY_PIECE,
					 COPY_PIECE + 1,
					 2 * COPY_PIECE,
					 3 * COPY_PIECE + 17,
					 PAGES - COPY_PAGE};

	for (size_t i = 0; i < sizeof(from); i++)
		from[i] = (uint8_t)(i * 13 + i / 256);
	for (size_t l = 0; l < sizeof(lengths) / sizeof(lengths[0]); l++) {
		int right = 1;

		for (size_t ahead = 0; ahead <= 2 * COPY_SLOW; ahead++)
			right &= is_right(ahead, lengths[l]);
		right &= is_right(COPY_PAGE - 1, lengths[l]);
		ok(right, "%zu bytes, to addresses 0 to 64 and 4,095 bytes ahead of the source's",
		   lengths[l]);
	}
	return done_testing();
}
