/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * error.h - result codes with text.  The function that first sees a failure writes its text; callers
 * pass both up unchanged.
 */
#ifndef CORE_BASE_ERROR_H
#define CORE_BASE_ERROR_H

#include <coll/backend.h>

/* Sets the calling thread's error text and returns `code`. */
int error_set(int code, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* Makes a plugin's error the calling thread's and returns `code`.  The message of the code replaces an empty text. */
int error_take(int code, const coll_error_t *err);
/* Returns the remedy to add to the message of a failed system call: how to get more descriptors, or "". */
const char *error_remedy(int err);
/* Returns the calling thread's last text; "" at first. */
const char *error_text(void);
/* Returns the code of the last text, for callers of functions that return NULL with an error set. */
int error_code(void);

enum { ERROR_TEXT_SIZE = 1024 };

/* The first of several errors, with its text, which later errors would replace.  Initialise it with {0}. */
struct error_first {
	int code;
	char text[ERROR_TEXT_SIZE];
};

/* Notes `code` with the calling thread's text, if it is the first code that is not COLL_SUCCESS. */
void error_note(struct error_first *first, int code);
/* Makes the first error the calling thread's and returns its code; COLL_SUCCESS if there was none. */
int error_raise(const struct error_first *first);

/* Fills *err, which may be NULL, and returns `code`: for functions that plugins call. */
int error_fill(coll_error_t *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
/* Makes an error empty, to hand it to a plugin.  Clears only the first byte of the text, since it runs for every message. */
static inline void error_clear(coll_error_t *err)
{
	err->size = sizeof(*err);
	err->code = COLL_SUCCESS;
	err->text[0] = '\0';
}

#endif
