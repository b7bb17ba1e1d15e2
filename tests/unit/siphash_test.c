/* SPDX-License-Identifier: BSD-3-Clause */
/* siphash_test.c - SipHash-2-4-128 against known values. */
#include "bootstrap/bootstrap.h"
#include "../lib/tap.h"

/*
 * Key 00 01 ... 0f, data 00 01 ... (len bytes).  The first four are in the table of 128-bit vectors
 * of the authors' reference implementation; all were made with
 * `openssl mac -macopt hexkey:000102...0f -macopt size:16 -in data SIPHASH`.
 */
static const struct {
	size_t len;
	const char *hex;
} vectors[] = {
	{0, "a3817f04ba25a8e66df67214c7550293"},   {1, "da87c1d86b99af44347659119b22fc45"},
	{2, "8177228da4a45dc7fca38bdef60affe4"},   {3, "9c70b60c5267a94e5f33b6b02985ed51"},
	{7, "a1f1ebbed8dbc153c0b84aa61ff08239"},   {8, "3b62a9ba6258f5610f83e264f31497b4"},
	{15, "5493e99933b0a8117e08ec0f97cfc3d9"},  {16, "6ee2a4ca67b054bbfd3315bf85230577"},
	{63, "5150d1772f50834a503e069a973fbd7c"},  {255, "1c9bb67528165f8e468248e3799b0eab"},
	{256, "67a00304d3834c4612eaee7b5f579acb"},
};

int main(void)
{
	uint8_t key[16], data[257], out[16];
	char hex[33];

	for (int i = 0; i < 16; i++)
		key[i] = (uint8_t)i;
	for (size_t v = 0; v < sizeof(vectors) / sizeof(vectors[0]); v++) {
		/* The data is at an odd address. */
		for (size_t i = 0; i < vectors[v].len; i++)
			data[i + 1] = (uint8_t)i;
		siphash128(key, data + 1, vectors[v].len, out);
		for (int i = 0; i < 16; i++)
			snprintf(hex + 2 * i, 3, "%02x", out[i]);
		is_str(hex, vectors[v].hex, "%zu bytes", vectors[v].len);
	}
	return done_testing();
}
