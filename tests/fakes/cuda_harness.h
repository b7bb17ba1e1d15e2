/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_harness.h - helpers for the tests of the stand-in for the CUDA driver (fakes/cuda.c): gates
 * that block a stream, filled memory, and child processes.
 */
#ifndef TESTS_STANDIN_HARNESS_H
#define TESTS_STANDIN_HARNESS_H

#include "cuda.h"
#include "../lib/tap.h"

#include <errno.h>
#include <fcntl.h>
#include <semaphore.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define STANDIN_UNUSED __attribute__((unused))

enum { BYTES = 4096 };

/* ------------------------------------------------------------------------ gates -- */

/* A stream that reaches a gate waits until the test opens the gate. */
struct gate {
	sem_t reached, opened;
};

STANDIN_UNUSED static struct gate gate_new(void)
{
	struct gate g;

	sem_init(&g.reached, 0, 0);
	sem_init(&g.opened, 0, 0);
	return g;
}

/* Waits for the condition; returns 0, or -1 after a minute. */
STANDIN_UNUSED static int gate_wait(sem_t *sem)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 60;
	while (sem_timedwait(sem, &end))
		if (errno != EINTR)
			return -1;
	return 0;
}

STANDIN_UNUSED static int gate_kernel(void *arg)
{
	struct gate *g = arg;

	sem_post(&g->reached);
	return gate_wait(&g->opened) ? CUDA_ERROR_LAUNCH_FAILED : CUDA_SUCCESS;
}

/* Returns when the stream has reached the gate. */
STANDIN_UNUSED static void gate_close(struct gate *g, void *stream)
{
	*g = gate_new();
	if (standin_stream_do(stream, gate_kernel, g) || gate_wait(&g->reached))
		bail_out("a stream does not come to a gate");
}

STANDIN_UNUSED static void gate_open(struct gate *g)
{
	sem_post(&g->opened);
}

/* ----------------------------------------------------------------------- memory -- */

STANDIN_UNUSED static void *context_push(int device)
{
	void *context = NULL;

	if (cuDevicePrimaryCtxRetain(&context, device) || cuCtxPushCurrent_v2(context))
		bail_out("no context of device %d", device);
	return context;
}

STANDIN_UNUSED static void context_pop(int device)
{
	void *context;

	if (cuCtxPopCurrent_v2(&context) || cuDevicePrimaryCtxRelease_v2(device))
		bail_out("no context of device %d any more", device);
}

STANDIN_UNUSED static CUdeviceptr memory_new(int fill)
{
	CUdeviceptr ptr = 0;
	char bytes[BYTES];

	memset(bytes, fill, sizeof(bytes));
	if (cuMemAlloc_v2(&ptr, BYTES) || cuMemcpy(ptr, (uintptr_t)bytes, BYTES))
		bail_out("no memory on the device");
	return ptr;
}

/* Returns the value of all bytes, or -1 if they differ; waits for the default stream only. */
STANDIN_UNUSED static int memory_is(CUdeviceptr ptr)
{
	unsigned char bytes[BYTES];

	if (cuMemcpy((uintptr_t)bytes, ptr, BYTES))
		return -2;
	for (int i = 1; i < BYTES; i++)
		if (bytes[i] != bytes[0])
			return -1;
	return bytes[0];
}

/* Reads the memory through the stand-in, without waiting for streams. */
STANDIN_UNUSED static int memory_peek(CUdeviceptr ptr)
{
	const unsigned char *there = standin_touch((void *)(uintptr_t)ptr, BYTES);

	return there ? there[BYTES - 1] : -1;
}

/* ------------------------------------------------------------- streams and events -- */

STANDIN_UNUSED static void *stream_new(unsigned flags)
{
	void *stream = NULL;

	if (cuStreamCreate(&stream, flags))
		bail_out("no stream");
	return stream;
}

STANDIN_UNUSED static void *event_new(void)
{
	void *event = NULL;

	if (cuEventCreate(&event, CU_EVENT_DISABLE_TIMING))
		bail_out("no event");
	return event;
}

/* Waits a moment, so that a forbidden event has time to happen. */
STANDIN_UNUSED static void settle(void)
{
	usleep(20000);
}

/* --------------------------------------------------------------------- children -- */

/* Runs fn in a quiet child; returns its exit status, or 256 plus the signal that ended it. */
STANDIN_UNUSED static int child(int (*fn)(void *arg), void *arg)
{
	pid_t pid = fork();
	int status, null;

	if (pid == 0) {
		alarm(60);
		null = open("/dev/null", O_WRONLY | O_CLOEXEC);
		if (null < 0 || dup2(null, 2) < 0)
			_exit(255);
		_exit(fn(arg));
	}
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		bail_out("no child");
	return WIFEXITED(status) ? WEXITSTATUS(status) : 256 + WTERMSIG(status);
}

#endif
