/* SPDX-License-Identifier: BSD-3-Clause */
/* backend_v1_4.h - what a plugin of backend ABI 1.4 was built against. */
#define FROZEN_MINOR 4
#include "backend_v1.h"
