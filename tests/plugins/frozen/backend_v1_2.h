/* SPDX-License-Identifier: BSD-3-Clause */
/* backend_v1_2.h - what a plugin of backend ABI 1.2 was built against. */
#define FROZEN_MINOR 2
#include "backend_v1.h"
