/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * error_fill.c - fills a plugin's error.  It is apart from error.c, so that plugins do not link the texts of the threads.
 */
#include "base/error.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

int error_fill(coll_error_t *err, int code, const char *fmt, ...)
{
	char text[sizeof(err->text)];
	va_list args;

	if (!err)
		return code;
	va_start(args, fmt);
	if (vsnprintf(text, sizeof(text), fmt, args) < 0)
		text[0] = '\0';
	va_end(args);
	memcpy(err->text, text, strlen(text) + 1);
	err->code = code;
	return code;
}
