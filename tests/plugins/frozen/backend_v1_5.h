/* SPDX-License-Identifier: BSD-3-Clause */
/* backend_v1_5.h - what a plugin of backend ABI 1.5 was built against. */
#define FROZEN_MINOR 5
#include "backend_v1.h"
