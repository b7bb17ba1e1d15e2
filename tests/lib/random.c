/* SPDX-License-Identifier: BSD-3-Clause */
/* random.c - a linear congruential generator. */
#include "random.h"

unsigned random_state;

int random_below(int n)
{
	random_state = random_state * 1103515245u + 12345u;
	return (int)(random_state >> 8) % n;
}
