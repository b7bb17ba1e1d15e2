/* SPDX-License-Identifier: BSD-3-Clause */
/* backend_v1_6.h - what a plugin of backend ABI 1.6 was built against. */
#define FROZEN_MINOR 6
#include "backend_v1.h"
