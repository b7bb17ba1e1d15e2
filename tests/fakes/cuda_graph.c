/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_graph.c - the stand-in driver's graphs: the work that one stream was given while it was captured, in its
 * order.  A graph and what is instantiated from it are one object with two owners.
 */
#include "cuda_impl.h"

#include <stdlib.h>

struct standin_graph {
	int refs;
	struct standin_task *first;
};

/* The caller holds the lock.  The graph's end calls `drop` of kernels, which needs the lock free. */
int standin_capture_add(struct standin_stream *stream, const struct standin_task *task)
{
	struct standin_task *copy, **end = &stream->captured;

	if (stream->capture != CU_STREAM_CAPTURE_STATUS_ACTIVE)
		return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
	if (!task->run)
		return CUDA_SUCCESS;
	copy = malloc(sizeof(*copy));
	if (!copy)
		return CUDA_ERROR_OUT_OF_MEMORY;
	*copy = *task;
	copy->next = NULL;
	while (*end)
		end = &(*end)->next;
	*end = copy;
	return CUDA_SUCCESS;
}

void standin_captured_free(struct standin_task *task)
{
	struct standin_task *next;

	for (; task; task = next) {
		next = task->next;
		if (task->drop)
			task->drop(task->arg);
		free(task);
	}
}

struct standin_graph *standin_graph_new(struct standin_task *first)
{
	struct standin_graph *graph = calloc(1, sizeof(*graph));

	if (!graph)
		return NULL;
	graph->refs = 1;
	graph->first = first;
	return graph;
}

static int standin_graph_end(struct standin_graph *graph)
{
	int last;

	if (!graph)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&standin_lock);
	last = --graph->refs == 0;
	pthread_mutex_unlock(&standin_lock);
	if (last) {
		standin_captured_free(graph->first);
		free(graph);
	}
	return CUDA_SUCCESS;
}

int cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags)
{
	struct standin_graph *g = graph;

	if (!exec || !g || flags)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&standin_lock);
	g->refs++;
	*exec = g;
	return standin_leave(CUDA_SUCCESS);
}

int cuGraphLaunch(void *exec, void *stream)
{
	const struct standin_graph *graph = exec;
	struct standin_context *context;
	struct standin_stream *s;
	int code = standin_enter(&context);

	if (code)
		return code;
	code = graph ? standin_stream_find(stream, context, &s) : CUDA_ERROR_INVALID_VALUE;
	for (const struct standin_task *t = code ? NULL : graph->first; t && !code; t = t->next) {
		struct standin_task task = *t;

		task.next = NULL;
		code = standin_stream_give(s, &task, NULL);
	}
	return standin_leave(code);
}

int cuGraphExecDestroy(void *exec)
{
	return standin_graph_end(exec);
}

int cuGraphDestroy(void *graph)
{
	return standin_graph_end(graph);
}
