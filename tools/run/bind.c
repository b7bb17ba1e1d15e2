/* SPDX-License-Identifier: BSD-3-Clause */
/* bind.c - chooses the processors on which each rank of `coll run` may run. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include "run/run.h"

/* Reads a number that the kernel gives about a processor; -1: unknown. */
static int bind_read(int cpu, const char *what)
{
	char path[96];
	int number = -1;
	FILE *file;

	snprintf(path, sizeof(path), "/sys/devices/system/cpu/cpu%d/topology/%s", cpu, what);
	file = fopen(path, "re");
	if (file == NULL)
		return -1;
	if (fscanf(file, "%d", &number) != 1)
		number = -1;
	fclose(file);
	return number;
}

/* Orders processors: those of one core are neighbours, and so are the cores of one package. */
static int bind_compare(const void *a, const void *b)
{
	const struct run_cpu *x = a, *y = b;

	if (x->package != y->package)
		return x->package < y->package ? -1 : 1;
	if (x->core != y->core)
		return x->core < y->core ? -1 : 1;
	return x->cpu < y->cpu ? -1 : x->cpu > y->cpu;
}

_Static_assert(RUN_MAX_CPUS == CPU_SETSIZE, "all processors of a set");

void run_bind_prepare(struct run_cpus *cpus, enum run_bind how)
{
	cpu_set_t allowed;

	cpus->n = 0;
	if (how == RUN_BIND_NONE || sched_getaffinity(0, sizeof(allowed), &allowed) != 0)
		return;
	for (int cpu = 0; cpu < RUN_MAX_CPUS; cpu++)
		if (CPU_ISSET(cpu, &allowed))
			cpus->cpu[cpus->n++] =
				(struct run_cpu){bind_read(cpu, "physical_package_id"),
						 bind_read(cpu, "core_id"), cpu};
	if (how == RUN_BIND_SHARE)
		qsort(cpus->cpu, (size_t)cpus->n, sizeof(cpus->cpu[0]), bind_compare);
}

void run_bind(const struct run_cpus *cpus, enum run_bind how, int r, int nranks)
{
	int first = cpus->n ? r % cpus->n : 0, end = first + 1;
	cpu_set_t set;

	if (cpus->n == 0 || (how == RUN_BIND_SHARE && nranks > cpus->n))
		return;
	if (how == RUN_BIND_SHARE) {
		first = cpus->n * r / nranks;
		end = cpus->n * (r + 1) / nranks;
	}
	CPU_ZERO(&set);
	for (int i = first; i < end; i++)
		CPU_SET(cpus->cpu[i].cpu, &set);
	sched_setaffinity(0, sizeof(set), &set);
}
