/* SPDX-License-Identifier: BSD-3-Clause */
/* stamp.c - time stamps: see stamp.h. */
#include "base/stamp.h"
#include "base/descriptor.h"

#include <pthread.h>
#include <string.h>

/*
 * stamp_measure measures the counter's rate over so long: two readings of the clock, each off by 50 ns at most, make an error of
 * 0.05 %.  It takes the best of so many readings, in which the thread was interrupted least.
 */
enum { STAMP_MEASURE_NS = 200000, STAMP_READINGS = 16 };

int stamp_is_counter;
static double stamp_rate = 1; /* nanoseconds of a unit */

#if defined(__x86_64__)
/* The kernel has checked that the counters of all processors run at one rate, in all states, and agree. */
static int stamp_kernel_trusts_counter(void)
{
	FILE *file =
		descriptor_read("/sys/devices/system/clocksource/clocksource0/current_clocksource");
	char text[32] = "";
	const int got = file && fgets(text, sizeof(text), file);

	if (file)
		fclose(file);
	return got && strcmp(text, "tsc\n") == 0;
}

struct stamp_reading {
	uint64_t clock, counter;
};

/* Reads the clock between two readings of the counter, until they are close to each other. */
static struct stamp_reading stamp_read_both(void)
{
	struct stamp_reading best = {0, 0};
	uint64_t before, clock, after, least = UINT64_MAX;

	for (int i = 0; i < STAMP_READINGS; i++) {
		before = __builtin_ia32_rdtsc();
		clock = (uint64_t)clock_now_ns();
		after = __builtin_ia32_rdtsc();
		if (after - before >= least)
			continue;
		least = after - before;
		best = (struct stamp_reading){clock, before + least / 2};
	}
	return best;
}

static void stamp_measure(void)
{
	struct stamp_reading first, last;

	if (!stamp_kernel_trusts_counter())
		return;
	first = stamp_read_both();
	do
		last = stamp_read_both();
	while (last.clock - first.clock < STAMP_MEASURE_NS);
	if (last.counter <= first.counter)
		return;
	stamp_rate = (double)(last.clock - first.clock) / (double)(last.counter - first.counter);
	stamp_is_counter = 1;
}
#else
static void stamp_measure(void)
{
}
#endif

void stamp_begin(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;

	pthread_once(&once, stamp_measure);
}

uint64_t stamp_ns(uint64_t earlier, uint64_t later)
{
	return later > earlier ? (uint64_t)((double)(later - earlier) * stamp_rate) : 0;
}
