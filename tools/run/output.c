/* SPDX-License-Identifier: BSD-3-Clause */
/* output.c - what ranks print, line by line with their number; what rank 0 reads. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "run/run.h"

/* ------------------------------------------------------------------- sink -- */

int run_sink_open(struct run_sink *sink, int fd)
{
	*sink = (struct run_sink){.fd = fd, .data = malloc(RUN_SINK_SIZE)};
	return sink->data == NULL ? -1 : 0;
}

int run_sink_has_room(const struct run_sink *sink)
{
	return RUN_SINK_SIZE - sink->used >= RUN_SINK_ROOM;
}

void run_sink_put(struct run_sink *sink, const char *data, size_t len)
{
	if (sink->failed || len > RUN_SINK_SIZE - sink->used)
		return;
	if (sink->start + sink->used + len > RUN_SINK_SIZE) {
		memmove(sink->data, sink->data + sink->start, sink->used);
		sink->start = 0;
	}
	memcpy(sink->data + sink->start + sink->used, data, len);
	sink->used += len;
}

void run_sink_flush(struct run_sink *sink)
{
	/* poll() said that PIPE_BUF bytes go without blocking; O_NONBLOCK would be set for all
	 * who share our output, our shell among them. */
	size_t len = sink->used < PIPE_BUF ? sink->used : PIPE_BUF;
	ssize_t n = write(sink->fd, sink->data + sink->start, len);

	if (n < 0 && errno != EINTR && errno != EAGAIN) {
		sink->failed = errno;
		sink->used = 0;
	}
	if (n > 0) {
		sink->start += (size_t)n;
		sink->used -= (size_t)n;
	}
	if (sink->used == 0)
		sink->start = 0;
}

/* ----------------------------------------------------------------- stream -- */

/* The begun line and then len bytes. */
static void stream_pass(struct run_stream *stream, int rank, struct run_sink *sink,
			const char *data, size_t len)
{
	char prefix[16];

	if (rank >= 0)
		run_sink_put(sink, prefix, (size_t)snprintf(prefix, sizeof(prefix), "[%d] ", rank));
	run_sink_put(sink, stream->line, stream->used);
	run_sink_put(sink, data, len);
	stream->used = 0;
}

static void stream_take(struct run_stream *stream, int rank, struct run_sink *sink,
			const char *data, size_t len)
{
	while (len > 0) {
		const char *newline = memchr(data, '\n', len);
		size_t n = newline != NULL ? (size_t)(newline - data) + 1 : len;

		if (newline == NULL && n > RUN_LINE_MAX - stream->used) {
			/* Without prefixes bytes pass unchanged, whatever their number. */
			stream_pass(stream, rank, sink, "\n", rank >= 0);
			continue;
		}
		if (newline != NULL) {
			stream_pass(stream, rank, sink, data, n);
		} else {
			memcpy(stream->line + stream->used, data, n);
			stream->used += n;
		}
		data += n;
		len -= n;
	}
}

void run_stream_read(struct run_stream *stream, int rank, struct run_sink *sink)
{
	char data[RUN_READ_MAX];
	ssize_t n;

	if (sink->failed) {
		/* Nobody reads ours: the rank shall learn it as if it wrote there itself. */
		close(stream->fd);
		stream->fd = -1;
		return;
	}
	n = read(stream->fd, data, sizeof(data));
	if (n > 0)
		stream_take(stream, rank, sink, data, (size_t)n);
	else if (n == 0 || (errno != EINTR && errno != EAGAIN))
		run_stream_close(stream, rank, sink);
}

void run_stream_close(struct run_stream *stream, int rank, struct run_sink *sink)
{
	if (stream->fd < 0)
		return;
	if (stream->used > 0)
		stream_pass(stream, rank, sink, "\n", rank >= 0);
	close(stream->fd);
	stream->fd = -1;
}

/* ------------------------------------------------------------------ input -- */

int run_input_open(struct run_input *input)
{
	int ends[2];

	if (!isatty(STDIN_FILENO))
		return fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, 3);
	if (pipe2(ends, O_CLOEXEC) != 0)
		return -1;
	fcntl(ends[1], F_SETFL, O_NONBLOCK);
	input->from = STDIN_FILENO;
	input->to = ends[1];
	return ends[0];
}

int run_input_wants(const struct run_input *input)
{
	return input->from >= 0 && input->used == 0 && tcgetpgrp(input->from) == getpgrp();
}

void run_input_read(struct run_input *input)
{
	ssize_t n = read(input->from, input->data, sizeof(input->data));

	if (n > 0) {
		input->start = 0;
		input->used = (size_t)n;
	} else if (n == 0 || (errno != EINTR && errno != EAGAIN)) {
		run_input_close(input);
	}
}

void run_input_write(struct run_input *input)
{
	ssize_t n = write(input->to, input->data + input->start, input->used);

	if (n > 0) {
		input->start += (size_t)n;
		input->used -= (size_t)n;
	} else if (n < 0 && errno != EINTR && errno != EAGAIN) {
		run_input_close(input);
	}
}

void run_input_close(struct run_input *input)
{
	if (input->to >= 0)
		close(input->to);
	input->from = input->to = -1;
	input->used = 0;
}
