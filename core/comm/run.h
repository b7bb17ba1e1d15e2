/* SPDX-License-Identifier: BSD-3-Clause */
/* run.h - the state of one step while its operation runs (op->run): its message, or its copy to or from a device. */
#ifndef CORE_COMM_RUN_H
#define CORE_COMM_RUN_H

#include "device/copies.h"
#include "transport/match.h"

struct run {
	uint32_t earlier; /* number of steps that this step still waits for */
	int64_t begin_ns; /* for observers of steps: when the step began */
	union {
		coll_send_t send;
		struct recv recv;
		struct copy copy; /* to or from a device */
	} u;
};

#endif
