/* SPDX-License-Identifier: BSD-3-Clause */
/* error.h - result codes with text: written once where a failure is first seen, passed up
 * unchanged. */
#ifndef CORE_BASE_ERROR_H
#define CORE_BASE_ERROR_H

#include <coll/backend.h>

/* Sets the calling thread's error text and returns `code`. */
int error_set(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* The same for a plugin's error; an empty text is replaced by the code's sentence. */
int error_take(int code, const coll_error_t *err);
/* The calling thread's last text; "" at first. */
const char *error_text(void);

enum { ERROR_TEXT_SIZE = 1024 };

/* The first of several errors and its words, which the later ones would replace.  Begin with {0}. */
struct error_first {
	int code;
	char text[ERROR_TEXT_SIZE];
};

/* Notes `code`, with the calling thread's text, unless it is COLL_SUCCESS or there is one already. */
void error_note(struct error_first *first, int code);
/* The first error as the calling thread's; COLL_SUCCESS if there was none. */
int error_raise(const struct error_first *first);

/* Fills *err (may be NULL) and returns `code`: for functions that plugins call. */
int error_fill(coll_error_t *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* An empty error to hand to a plugin. */
coll_error_t error_blank(void);
/* The same in place, where it is done for every message: the text is empty, the rest not wiped. */
void error_clear(coll_error_t *err);

#endif
