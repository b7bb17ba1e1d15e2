/* SPDX-License-Identifier: BSD-3-Clause */
/* library.h - the functions of libcoll's folders that the small core reaches through struct library. */
#ifndef CORE_START_LIBRARY_H
#define CORE_START_LIBRARY_H

#include "api/comm_make.h"

extern const struct library library;

/* Collective: all ranks take rank 0's options for algorithms and schedules (agree.c). */
int agree_selection(struct context_parts *parts);

#endif
