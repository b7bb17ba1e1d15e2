/* SPDX-License-Identifier: BSD-3-Clause */
/* http.h - requests of HTTP/1.1 for /metrics, of which any byte may be anything. */
#ifndef TOOLS_TOP_HTTP_H
#define TOOLS_TOP_HTTP_H

#include <stddef.h>

/*
 * Finds the end of the head of a request, an empty line, in the first bytes of a connection; the memory has one byte more.  Returns
 * the bytes of the head, which becomes a text, or 0: the end has not come.
 */
size_t http_head(char *request, size_t bytes);
/* Returns the status for a request whose head has so many bytes.  Cuts the head into words; *method becomes the first, or "". */
int http_judge(char *head, size_t bytes, const char **method);

#endif
