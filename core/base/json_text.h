/* SPDX-License-Identifier: BSD-3-Clause */
/* json_text.h - any bytes as a string of JSON (RFC 8259), for writers that have no memory to ask for. */
#ifndef CORE_BASE_JSON_TEXT_H
#define CORE_BASE_JSON_TEXT_H

#include <stddef.h>

/* No byte of the text takes more room than this. */
enum { JSON_TEXT_MOST = 6 };

/*
 * Writes the text with its quotes: escapes control characters, and replaces bytes that are not UTF-8 by U+FFFD.  Text
 * that has no room is cut between two characters, so that the string is well-formed.  Returns the length, without the
 * final 0.  size: at least 3.
 */
size_t json_text(const char *text, char *out, size_t size);

#endif
