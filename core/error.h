/* SPDX-License-Identifier: BSD-3-Clause */
/* error.h - result codes with text: written once where a failure is first seen, passed up
 * unchanged. */
#ifndef CORE_ERROR_H
#define CORE_ERROR_H

#include <coll/backend.h>

/* Sets the calling thread's error text and returns `code`. */
int error_set(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for a plugin's error; an empty text is replaced by the code's sentence. */
int error_take(int code, const coll_error_t *err);
/* The calling thread's last text; "" at first. */
const char *error_text(void);
/* Fills *err (may be NULL) and returns `code`: for functions that plugins call. */
int error_fill(coll_error_t *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* An empty error to hand to a plugin. */
coll_error_t error_blank(void);

#endif
