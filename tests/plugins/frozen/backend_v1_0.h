/* SPDX-License-Identifier: BSD-3-Clause */
/* backend_v1_0.h - what a plugin of backend ABI 1.0 was built against. */
#define FROZEN_MINOR 0
#include "backend_v1.h"
