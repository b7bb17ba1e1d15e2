/* SPDX-License-Identifier: BSD-3-Clause */
/* json_text.h - any bytes as a string of JSON (RFC 8259). */
#ifndef CORE_BASE_JSON_TEXT_H
#define CORE_BASE_JSON_TEXT_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>

/*
 * Returns the length of the UTF-8 sequence that begins at s, or 0 if there is none.  Overlong forms, surrogates and code
 * points beyond U+10FFFF are invalid (RFC 3629 section 4).
 */
static inline size_t json_text_utf8(const unsigned char *s)
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

/*
 * Writes the character at *at as a string of JSON has it, and moves *at behind the character: an escape for a quote, a
 * backslash or a control character, U+FFFD for a byte that is not UTF-8, else the character.  Returns the length of the
 * output, which has no final 0.  The end of the text is no character.
 */
static inline size_t json_text_next(const char **at, char out[8])
{
	const unsigned char *s = (const unsigned char *)*at;
	const size_t n = json_text_utf8(s);

	*at += n ? n : 1;
	if (n == 0)
		return (size_t)snprintf(out, 8, "\\ufffd");
	if (*s == '"' || *s == '\\')
		return (size_t)snprintf(out, 8, "\\%c", *s);
	if (*s < 0x20 || *s == 0x7f)
		return (size_t)snprintf(out, 8, "\\u%04x", *s);
	memcpy(out, s, n);
	return n;
}

/*
 * Writes the text with its quotes.  Text that has no room is cut between two characters, so that the string is
 * well-formed.  Returns the length, without the final 0.  size: at least 3.
 */
static inline size_t json_text(const char *text, char *out, size_t size)
{
	size_t used = 0, len;
	char one[8];

	out[used++] = '"';
	while (*text && used + (len = json_text_next(&text, one)) + 2 <= size) {
		memcpy(out + used, one, len);
		used += len;
	}
	out[used++] = '"';
	out[used] = '\0';
	return used;
}

#endif
