/* SPDX-License-Identifier: BSD-3-Clause */
/* native.h - checks of the native group. */
#ifndef TOOLS_CHECK_NATIVE_H
#define TOOLS_CHECK_NATIVE_H

#include "check/kit/kit.h"

extern const struct check check_native_checks[]; /* the native group */

#endif
