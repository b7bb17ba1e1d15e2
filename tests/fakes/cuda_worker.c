/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cuda_worker.c - the stand-in driver's threads: each stream with work has a thread, which does the
 * work in order, later than the call, and concurrently with other streams.
 */
#include "cuda_impl.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <time.h>

_Thread_local struct standin_stream *standin_worker;

/*
 * Breaks a context: every call that needs it returns `code` from now on, and no thread waits for it
 * any more.
 */
void standin_context_break(struct standin_context *context, int code)
{
	if (context->broken)
		return;
	context->broken = code;
	standin_streams_wake(context);
}

/* ------------------------------------------------------------- one piece of work -- */

static void standin_task_wait(struct standin_task *task)
{
	for (size_t i = 0; i < task->nafter; i++) {
		struct standin_point *point = &task->after[i];

		while (point->stream->done < point->ticket)
			pthread_cond_wait(&point->stream->changed, &standin_lock);
		standin_stream_unref(point->stream);
	}
}

/* Lets the work take its time, so that a program that does not wait sees incomplete data. */
static void standin_task_delay(struct standin_stream *stream, const struct standin_task *task)
{
	struct timespec end;

	clock_gettime(CLOCK_MONOTONIC, &end);
	end.tv_sec += task->delay_us / 1000000;
	end.tv_nsec += (long)(task->delay_us % 1000000) * 1000;
	if (end.tv_nsec >= 1000000000) {
		end.tv_sec++;
		end.tv_nsec -= 1000000000;
	}
	while (task->delay_us && (task->exact || !stream->waiters))
		if (pthread_cond_timedwait(&stream->work, &standin_lock, &end) == ETIMEDOUT)
			break;
}

static int standin_task_run(struct standin_stream *stream, const struct standin_task *task)
{
	int lost = stream->dead || stream->context->broken, code;

	if ((lost && !task->always) || task->fails)
		return CUDA_SUCCESS;
	pthread_mutex_unlock(&standin_lock);
	code = task->run ? task->run(task) : CUDA_SUCCESS;
	pthread_mutex_lock(&standin_lock);
	return code;
}

/* The task stays in the queue until it is done. */
static void standin_task_do(struct standin_stream *stream, struct standin_task *task)
{
	int code;

	standin_task_wait(task);
	standin_task_delay(stream, task);
	if (task->breaks && !stream->dead)
		standin_context_break(stream->context, task->breaks);
	stream->since = ++standin_clock;
	code = standin_task_run(stream, task);
	stream->since = 0;
	if (code && !stream->dead)
		standin_context_break(stream->context, code);
	if (task->fails && !stream->error) {
		stream->error = task->fails;
		stream->error_at = task->ticket;
	}
	stream->first = task->next;
	stream->pieces--;
	if (!stream->first)
		stream->last = NULL;
	stream->done = task->ticket;
	pthread_cond_broadcast(&stream->changed);
	standin_memory_reap();
	free(task);
}

/* ------------------------------------------------------------------- the threads -- */

static void *standin_worker_main(void *arg)
{
	struct standin_stream *stream = arg;

	standin_worker = stream;
	pthread_mutex_lock(&standin_lock);
	while (stream->first || !stream->gone)
		if (stream->first)
			standin_task_do(stream, stream->first);
		else
			pthread_cond_wait(&stream->work, &standin_lock);
	stream->threaded = 0;
	standin_stream_unref(stream);
	pthread_mutex_unlock(&standin_lock);
	return NULL;
}

/*
 * The program's own threads handle signals; only signals that this thread causes itself stay
 * unblocked.
 */
static int standin_worker_create(struct standin_stream *stream)
{
	static const int own[] = {SIGSEGV, SIGBUS, SIGFPE, SIGILL, SIGABRT};
	sigset_t all, before;
	pthread_attr_t attr;
	pthread_t thread;
	int failed;

	sigfillset(&all);
	for (size_t i = 0; i < sizeof(own) / sizeof(own[0]); i++)
		sigdelset(&all, own[i]);
	if (pthread_attr_init(&attr))
		return CUDA_ERROR_OUT_OF_MEMORY;
	pthread_attr_setdetachstate(&attr, PTHREAD_CREATE_DETACHED);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	failed = pthread_create(&thread, &attr, standin_worker_main, stream);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	pthread_attr_destroy(&attr);
	return failed ? CUDA_ERROR_OUT_OF_MEMORY : CUDA_SUCCESS;
}

int standin_worker_start(struct standin_stream *stream)
{
	int code = stream->threaded ? CUDA_SUCCESS : standin_worker_create(stream);

	if (code || stream->threaded)
		return code;
	stream->threaded = 1;
	stream->refs++;
	return CUDA_SUCCESS;
}
