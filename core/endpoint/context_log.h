/* SPDX-License-Identifier: BSD-3-Clause */
/* context_log.h - log lines that are about an endpoint: they name its rank, and go to the file of that rank. */
#ifndef CORE_ENDPOINT_CONTEXT_LOG_H
#define CORE_ENDPOINT_CONTEXT_LOG_H

#include "endpoint/context.h"
#include "base/log.h"

/* Any thread may call it, without the lock.  level: COLL_LOG_*. */
#define context_log(context, level, ...) context_log_in(context, LOG_SUBSYSTEM, level, __VA_ARGS__)

void context_log_in(const struct context *context, const char *subsystem, int level,
		    const char *fmt, ...) __attribute__((format(printf, 4, 5)));

#endif
