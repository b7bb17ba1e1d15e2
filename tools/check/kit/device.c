/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c - plugins that take memory of CUDA devices only: which devices, for which rank. */
#include <stdio.h>
#include <stdlib.h>
#include "check/kit/kit.h"
#include "lib/memory.h"

int check_device(const struct check_case *c, int rank)
{
	int devices = c->options->survey.devices;

	return devices ? rank % devices : -1;
}

int check_few_devices(const struct check_case *c)
{
	const struct check_survey *survey = &c->options->survey;

	return survey->devices && c->nranks > survey->devices;
}

void check_device_needs(struct check_case *c)
{
	const struct check_survey *survey = &c->options->survey;

	if (c->check->needs & CHECK_DEVICES && !survey->device_only)
		check_skip(c, "the plugin takes host memory");
	else if (survey->device_only && !survey->devices && c->check->group == CHECK_API)
		check_skip(c, "the plugin takes memory of devices only: %s", survey->why);
	else if (survey->device_only && !survey->managed && c->check->group == CHECK_API &&
		 (!(c->check->needs & CHECK_DEVICES) || c->check->needs & CHECK_MANAGED))
		check_skip(c, "the buffers of this check are managed memory, which the plugin does "
			      "not take");
	if (check_few_devices(c) && !(c->processes && c->options->ranks_said))
		check_skip(c,
			   "%d ranks need as many devices, there %s %d; processes share them if "
			   "--ranks says so",
			   c->nranks, survey->devices == 1 ? "is" : "are", survey->devices);
}

/* What the driver begins in a process is not what the plugin leaves behind there. */
static void device_begin(int device)
{
	memory_free(MEMORY_CUDA, device, memory_new(MEMORY_CUDA, device, 1));
}

void check_device_begin(struct check_case *c, int rank)
{
	int devices = c->options->survey.devices;
	char name[40];

	if (!devices)
		return;
	/* NCCL refuses two ranks on one device of a host, unless they say they are on two hosts. */
	if (c->processes && check_few_devices(c)) {
		snprintf(name, sizeof(name), "coll-check-%d", rank);
		setenv("NCCL_HOSTID", name, 1);
	}
	if (c->processes)
		device_begin(rank % devices);
	for (int i = 0; i < devices && i < c->nranks && !c->processes; i++)
		device_begin(i);
}
