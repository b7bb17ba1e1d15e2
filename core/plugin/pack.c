/* SPDX-License-Identifier: BSD-3-Clause */
/* pack.c - writes and reads values in a row. */
#include "plugin/pack.h"

#include <string.h>

void pack_string(FILE *out, const char *text)
{
	putc(text != NULL, out);
	if (text)
		fwrite(text, 1, strlen(text) + 1, out);
}

void pack_take(struct pack *in, void *bytes, size_t size)
{
	if (!in->at || size > (size_t)(in->end - in->at)) {
		in->at = NULL;
		return;
	}
	memcpy(bytes, in->at, size);
	in->at += size;
}

const char *pack_take_string(struct pack *in)
{
	const char *text, *nul;
	char is_there = 0;

	pack_take(in, &is_there, 1);
	if (!is_there)
		return NULL;
	text = in->at;
	nul = memchr(text, '\0', (size_t)(in->end - text));
	in->at = nul ? nul + 1 : NULL;
	return nul ? text : NULL;
}
