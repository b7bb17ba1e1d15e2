/* SPDX-License-Identifier: BSD-3-Clause */
/* call_log_dump.h - what a failed communicator logs of its calls, and the file of its records. */
#ifndef CORE_WATCH_CALL_LOG_DUMP_H
#define CORE_WATCH_CALL_LOG_DUMP_H

#include "comm/call_log.h"

/*
 * The first communicator on its context was made: warns if the option `dump` names no directory in which this
 * process can make files.
 */
void call_log_check_dump(struct lane *lane);
/*
 * The communicator has failed.  Logs the operations that are not done, and why it has failed, as a warning if `loud`, and with
 * the option `dump` writes all records to a file.
 */
void call_log_report(struct lane *lane, int loud);

#endif
