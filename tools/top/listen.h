/* SPDX-License-Identifier: BSD-3-Clause */
/* listen.h - a text by HTTP, for `coll metrics --listen`. */
#ifndef TOOLS_TOP_LISTEN_H
#define TOOLS_TOP_LISTEN_H

#include <stdio.h>

/*
 * Serves the text as /metrics until a signal comes that ends the program (screen_catch).
 *
 * where     "PORT", at 127.0.0.1, or "ADDRESS:PORT"; port 0: the system chooses one.  The address is printed to stdout.
 * print     Prints the text of now; called for each request.  Returns 0, or 1: there is none, and the client gets status 500.
 *
 * Returns 0 after the signal, 1 after a message, or TOOL_USAGE: `where` has another form.
 */
int listen_serve(const char *where, int (*print)(FILE *out, void *user), void *user);

#endif
