/* SPDX-License-Identifier: BSD-3-Clause */
/* stamp.h - time stamps that cost less than a clock, for differences of times. */
#ifndef CORE_BASE_STAMP_H
#define CORE_BASE_STAMP_H

#include "base/clock.h"

#include <stdint.h>

/* Finds out once what a stamp is worth; takes 0.2 ms the first time. */
void stamp_begin(void);
/* Is the stamp the processor's counter, after stamp_begin? */
extern int stamp_is_counter;

/* Returns the time now, in units of its own. */
static inline uint64_t stamp_now(void)
{
#if defined(__x86_64__)
	if (stamp_is_counter)
		return __builtin_ia32_rdtsc();
#endif
	return (uint64_t)clock_now_ns();
}
/* Returns the nanoseconds between two stamps; 0 if the later one is the smaller. */
uint64_t stamp_ns(uint64_t earlier, uint64_t later);

#endif
