/* SPDX-License-Identifier: BSD-3-Clause */
/* context_impl.h - the parts of a context's end that context.c has for context_end.c. */
#ifndef CORE_ENDPOINT_CONTEXT_IMPL_H
#define CORE_ENDPOINT_CONTEXT_IMPL_H

#include "endpoint/context.h"

/* Accepts a context whose endpoint is closed already. */
void context_close_endpoint(struct context *context, int64_t timeout_ms);
/* Configuration and plugins belong to the first of the contexts that were derived from one another. */
void context_free(struct context *context);

#endif
