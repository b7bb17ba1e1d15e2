/* SPDX-License-Identifier: BSD-3-Clause */
/* pack.h - values in a row, for another process, whose reader trusts no length. */
#ifndef CORE_PLUGIN_PACK_H
#define CORE_PLUGIN_PACK_H

#include <stdio.h>

/* Appends a string, which may be NULL: a byte 1 and its text with NUL, or a byte 0. */
void pack_string(FILE *out, const char *text);

/* The rest of the row.  at: NULL once a read has found the row too short. */
struct pack {
	const char *at, *end;
};

/* Takes the next bytes; too few leave *bytes unchanged. */
void pack_take(struct pack *in, void *bytes, size_t size);
/* Takes the next string, which stays in the row; NULL for NULL, and if the row is too short. */
const char *pack_take_string(struct pack *in);

#endif
