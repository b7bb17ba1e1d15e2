/* SPDX-License-Identifier: BSD-3-Clause */
/* backend_v1_3.h - what a plugin of backend ABI 1.3 was built against. */
#define FROZEN_MINOR 3
#include "backend_v1.h"
