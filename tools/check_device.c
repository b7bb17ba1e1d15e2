/* SPDX-License-Identifier: BSD-3-Clause */
/* check_device.c - plugins that take memory of CUDA devices only: which devices, for which rank. */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check_host.h"
#include "memory.h"

/* In a process of its own: it loads the plugin and opens the driver. */
__attribute__((noreturn)) static void device_survey_child(struct check_survey *survey,
							  const struct check_options *options)
{
	const struct check_case c = {.options = options};
	int quiet = open("/dev/null", O_WRONLY | O_CLOEXEC);
	const struct check_plugin *plugin;
	const char *text;

	dup2(quiet, STDOUT_FILENO);
	dup2(quiet, STDERR_FILENO);
	alarm((unsigned)(options->timeout_ms / 1000));
	plugin = check_plugin(&c, &text);
	if (!plugin)
		_exit(0);
	survey->bare = !plugin->backend.transport;
	if (plugin->backend.memory & COLL_MEM_HOST)
		_exit(0);
	survey->managed = !!(plugin->backend.memory & COLL_MEM_CUDA_MANAGED);
	survey->devices = memory_devices();
	snprintf(survey->why, sizeof(survey->why), "%s", memory_error());
	survey->device_only = !!(plugin->backend.memory & (COLL_MEM_CUDA | COLL_MEM_CUDA_MANAGED));
	_exit(0);
}

/* A plugin that cannot even be looked at keeps the zeros: the checks themselves will say why. */
void check_survey(struct check_options *options)
{
	struct check_survey *survey = mmap(NULL, sizeof(*survey), PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	if (survey == MAP_FAILED)
		return;
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		device_survey_child(survey, options);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0)
		continue;
	options->survey = *survey;
	munmap(survey, sizeof(*survey));
}

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
