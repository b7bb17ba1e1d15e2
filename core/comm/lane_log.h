/* SPDX-License-Identifier: BSD-3-Clause */
/* lane_log.h - log lines that are about a communicator: they name it and its rank, and go to the file of that rank. */
#ifndef CORE_COMM_LANE_LOG_H
#define CORE_COMM_LANE_LOG_H

#include "comm/comm.h"
#include "base/log.h"

/* Any thread may call it, without the lock.  level: COLL_LOG_*. */
#define lane_log(lane, level, ...) lane_log_in(lane, LOG_SUBSYSTEM, level, __VA_ARGS__)

void lane_log_in(const struct lane *lane, const char *subsystem, int level, const char *fmt, ...)
	__attribute__((format(printf, 4, 5)));

#endif
