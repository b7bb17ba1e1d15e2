/* SPDX-License-Identifier: BSD-3-Clause */
/* device.c - plugins that take memory of CUDA devices only: the device of each rank. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>
#include "check/kit/kit.h"
#include "lib/memory.h"

int check_device(const struct check_case *c, int rank)
{
	int devices = c->options->traits.devices;

	return devices ? rank % devices : -1;
}

int check_is_carried(const struct check_case *c)
{
	const struct check_traits *traits = &c->options->traits;
	char companion[sizeof(c->options->dir) + 16];

	if (!(c->check->needs & CHECK_CARRIED) || !traits->bare || !traits->device_only)
		return 0;
	snprintf(companion, sizeof(companion), "%s/coll_tcp.so", c->options->dir);
	return !access(companion, R_OK);
}

int check_few_devices(const struct check_case *c)
{
	const struct check_traits *traits = &c->options->traits;

	return traits->devices && c->nranks > traits->devices;
}

void check_device_needs(struct check_case *c)
{
	const struct check_traits *traits = &c->options->traits;

	if (c->check->needs & CHECK_DEVICES && !traits->device_only)
		check_skip(c, "the plugin takes host memory");
	else if (traits->device_only && !traits->devices && c->check->group == CHECK_API)
		check_skip(c, "the plugin takes memory of devices only: %s", traits->why);
	else if (traits->device_only && !traits->managed && c->check->group == CHECK_API &&
		 !check_is_carried(c) &&
		 (!(c->check->needs & CHECK_DEVICES) || c->check->needs & CHECK_MANAGED))
		check_skip(c, "the buffers of this check are managed memory, which the plugin does "
			      "not take");
	if (c->check->needs & CHECK_STREAMS && !traits->gpus)
		check_skip(c, "there is no device with a stream: %s", traits->why);
	if (check_few_devices(c) && !(c->processes && c->options->ranks_said))
		check_skip(c,
			   "%d ranks need as many devices, there %s %d; processes share them if "
			   "--ranks says so",
			   c->nranks, traits->devices == 1 ? "is" : "are", traits->devices);
}

/* Initialises the driver, so that its threads and descriptors do not count as left by the plugin. */
static void device_begin(int device)
{
	memory_free(MEMORY_CUDA, device, memory_new(MEMORY_CUDA, device, 1));
}

void check_device_begin(struct check_case *c, int rank)
{
	const struct check_traits *traits = &c->options->traits;
	int devices = c->check->needs & CHECK_STREAMS ? traits->gpus : traits->devices;
	char name[40];

	if (!devices)
		return;
	/*
	 * NCCL refuses two ranks on one device of a host; a host id for each rank gets around that.
	 */
	if (c->processes && check_few_devices(c)) {
		snprintf(name, sizeof(name), "coll-check-%d", rank);
		setenv("NCCL_HOSTID", name, 1);
	}
	if (c->processes)
		device_begin(rank % devices);
	for (int i = 0; i < devices && i < c->nranks && !c->processes; i++)
		device_begin(i);
}
