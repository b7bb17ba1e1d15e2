/* SPDX-License-Identifier: BSD-3-Clause */
/* backend_v1_1.h - what a plugin of backend ABI 1.1 was built against. */
#define FROZEN_MINOR 1
#include "backend_v1.h"
