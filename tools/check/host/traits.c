/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traits.c - determines before the first check which memory a plugin takes and how many devices
 * there are.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>
#include "check/host/host.h"
#include "lib/memory.h"

/* Runs in a process of its own, because it loads the plugin and opens the driver. */
__attribute__((noreturn)) static void traits_child(struct check_traits *traits,
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
	traits->bare = !plugin->backend.transport;
	traits->engine = plugin->backend.transport && plugin->backend.native;
	if (!traits->bare) {
		traits->gpus = memory_devices();
		snprintf(traits->why, sizeof(traits->why), "%s", memory_error());
	}
	if (plugin->backend.memory & COLL_MEM_HOST)
		_exit(0);
	traits->managed = !!(plugin->backend.memory & COLL_MEM_CUDA_MANAGED);
	traits->devices = memory_devices();
	snprintf(traits->why, sizeof(traits->why), "%s", memory_error());
	traits->device_only = !!(plugin->backend.memory & (COLL_MEM_CUDA | COLL_MEM_CUDA_MANAGED));
	_exit(0);
}

/* If the plugin cannot be loaded, the traits stay zero, and the checks report the reason. */
void check_traits(struct check_options *options)
{
	struct check_traits *traits = mmap(NULL, sizeof(*traits), PROT_READ | PROT_WRITE,
					   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	pid_t pid;

	if (traits == MAP_FAILED)
		return;
	fflush(NULL);
	pid = fork();
	if (pid == 0)
		traits_child(traits, options);
	while (pid > 0 && waitpid(pid, NULL, 0) < 0 && errno == EINTR)
		continue;
	options->traits = *traits;
	munmap(traits, sizeof(*traits));
}
