/* SPDX-License-Identifier: BSD-3-Clause */
/* context_log.c - log lines that are about an endpoint. */
#include "endpoint/context_log.h"

void context_log_in(const struct context *context, const char *subsystem, int level,
		    const char *fmt, ...)
{
	struct log_about about;
	va_list args;

	if (!log_wants(subsystem, level))
		return;
	about = config_log_about(context->config, subsystem);
	va_start(args, fmt);
	log_about_args(&about, level, fmt, args);
	va_end(args);
}
