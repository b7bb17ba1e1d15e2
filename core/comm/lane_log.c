/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_log.c - log lines that are about a communicator. */
#include "comm/lane_log.h"

void lane_log_in(const struct lane *lane, const char *subsystem, int level, const char *fmt, ...)
{
	struct log_about about;
	char id[32];
	va_list args;

	if (!log_wants(subsystem, level))
		return;
	about = config_log_about(lane->context->config, subsystem);
	comm_write_id(lane, id);
	about.comm = id;
	va_start(args, fmt);
	log_about_args(&about, level, fmt, args);
	va_end(args);
}
