/* SPDX-License-Identifier: BSD-3-Clause */
/* fault.h - checks of endpoints when something goes wrong. */
#ifndef TOOLS_CHECK_FAULT_H
#define TOOLS_CHECK_FAULT_H

#include "check/kit/kit.h"

extern const struct check check_exchange_checks[]; /* host->exchange fails or takes too long */
/* peers that leave or die, messages that the host refuses */
extern const struct check check_lost_checks[];
extern const struct check check_cancel_checks[]; /* cancel, drop */
extern const struct check check_limits_checks[]; /* fork, exit, things left in the process */

#endif
