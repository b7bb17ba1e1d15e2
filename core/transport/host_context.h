/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * host_context.h - an endpoint for host memory beside a backend without a transport.
 *
 * It is of the companion's plugin, but another endpoint: the watcher holds the lock of the companion's context,
 * and calls of the program hold the lock of this one.  It belongs to the first of the native contexts that were
 * derived from one another, and serves all of them: the communicators on it share it as over any transport.
 */
#ifndef CORE_TRANSPORT_HOST_CONTEXT_H
#define CORE_TRANSPORT_HOST_CONTEXT_H

#include "transport/context.h"

/* Opens context->host_context with `plugin`: on all ranks or on none.  Collective. */
int host_context_open(struct context *context, const struct plugin *plugin);
/* Its communicators are freed. */
void host_context_close(struct context *host_context, int64_t timeout_ms);

#endif
