/* SPDX-License-Identifier: BSD-3-Clause */
/* json_text.c - any bytes as a string of JSON. */
#include "base/json_text.h"

#include <stdio.h>
#include <string.h>

/*
 * Returns the length of the UTF-8 sequence that begins at s, or 0 if there is none.  Overlong forms, surrogates and code
 * points beyond U+10FFFF are invalid (RFC 3629 section 4).
 */
static size_t json_text_utf8(const unsigned char *s)
{
	const size_t n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;
	const unsigned char low = s[0] == 0xe0   ? 0xa0
				  : s[0] == 0xf0 ? 0x90
						 : 0x80,
			    high = s[0] == 0xed   ? 0x9f
				   : s[0] == 0xf4 ? 0x8f
						  : 0xbf;

	if (n == 1)
		return 1;
	if (s[0] < 0xc2 || s[0] > 0xf4 || s[1] < low || s[1] > high)
		return 0;
	for (size_t i = 2; i < n; i++)
		if (s[i] < 0x80 || s[i] > 0xbf)
			return 0;
	return n;
}

/* Writes what stands for the character at s, which has n bytes; n is 0 for a byte that is not UTF-8. */
static size_t json_text_character(const unsigned char *s, size_t n, char out[8])
{
	if (n == 0)
		return (size_t)snprintf(out, 8, "\\ufffd");
	if (*s == '"' || *s == '\\')
		return (size_t)snprintf(out, 8, "\\%c", *s);
	if (*s < 0x20 || *s == 0x7f)
		return (size_t)snprintf(out, 8, "\\u%04x", *s);
	memcpy(out, s, n);
	return n;
}

size_t json_text(const char *text, char *out, size_t size)
{
	const unsigned char *s = (const unsigned char *)text;
	size_t used = 0;
	char one[8];

	out[used++] = '"';
	while (*s) {
		const size_t n = json_text_utf8(s), len = json_text_character(s, n, one);

		if (used + len + 2 > size)
			break;
		memcpy(out + used, one, len);
		used += len;
		s += n ? n : 1;
	}
	out[used++] = '"';
	out[used] = '\0';
	return used;
}
