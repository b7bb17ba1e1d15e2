/* SPDX-License-Identifier: BSD-3-Clause */
/* output.c - passes on the output of ranks, line by line with their number, and the input of rank 0. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "run/run.h"

/* ------------------------------------------------------------------- writer -- */

int run_writer_open(struct run_writer *writer, int fd)
{
	*writer = (struct run_writer){.fd = fd, .data = malloc(RUN_WRITER_SIZE)};
	return writer->data == NULL ? -1 : 0;
}

int run_writer_has_space(const struct run_writer *writer)
{
	return RUN_WRITER_SIZE - writer->used >= RUN_WRITER_SPACE;
}

void run_writer_put(struct run_writer *writer, const char *data, size_t len)
{
	if (writer->failed || len > RUN_WRITER_SIZE - writer->used)
		return;
	if (writer->start + writer->used + len > RUN_WRITER_SIZE) {
		memmove(writer->data, writer->data + writer->start, writer->used);
		writer->start = 0;
	}
	memcpy(writer->data + writer->start + writer->used, data, len);
	writer->used += len;
}

void run_writer_flush(struct run_writer *writer)
{
	/*
	 * poll() said that PIPE_BUF bytes go without blocking.  O_NONBLOCK would change the open
	 * file for all processes that share it, the user's shell among them.
	 */
	size_t len = writer->used < PIPE_BUF ? writer->used : PIPE_BUF;
	ssize_t n = write(writer->fd, writer->data + writer->start, len);

	if (n < 0 && errno != EINTR && errno != EAGAIN) {
		writer->failed = errno;
		writer->used = 0;
	}
	if (n > 0) {
		writer->start += (size_t)n;
		writer->used -= (size_t)n;
	}
	if (writer->used == 0)
		writer->start = 0;
}

/* ----------------------------------------------------------------- stream -- */

/* Writes the unfinished line and then len bytes. */
static void stream_pass(struct run_stream *stream, int rank, struct run_writer *writer,
			const char *data, size_t len)
{
	char prefix[16];

	if (rank >= 0)
		run_writer_put(writer, prefix,
			       (size_t)snprintf(prefix, sizeof(prefix), "[%d] ", rank));
	run_writer_put(writer, stream->line, stream->used);
	run_writer_put(writer, data, len);
	stream->used = 0;
}

static void stream_take(struct run_stream *stream, int rank, struct run_writer *writer,
			const char *data, size_t len)
{
	while (len > 0) {
		const char *newline = memchr(data, '\n', len);
		size_t n = newline != NULL ? (size_t)(newline - data) + 1 : len;

		if (newline == NULL && n > RUN_LINE_MAX - stream->used) {
			/* Without prefixes bytes pass unchanged, whatever their number. */
			stream_pass(stream, rank, writer, "\n", rank >= 0);
			continue;
		}
		if (newline != NULL) {
			stream_pass(stream, rank, writer, data, n);
		} else {
			memcpy(stream->line + stream->used, data, n);
			stream->used += n;
		}
		data += n;
		len -= n;
	}
}

void run_stream_read(struct run_stream *stream, int rank, struct run_writer *writer)
{
	char data[RUN_READ_MAX];
	ssize_t n;

	if (writer->failed) {
		/* The reader of our output has gone.  Closing the pipe tells the rank, as if it wrote there itself. */
		close(stream->fd);
		stream->fd = -1;
		return;
	}
	n = read(stream->fd, data, sizeof(data));
	if (n > 0)
		stream_take(stream, rank, writer, data, (size_t)n);
	else if (n == 0 || (errno != EINTR && errno != EAGAIN))
		run_stream_close(stream, rank, writer);
}

void run_stream_close(struct run_stream *stream, int rank, struct run_writer *writer)
{
	if (stream->fd < 0)
		return;
	if (stream->used > 0)
		stream_pass(stream, rank, writer, "\n", rank >= 0);
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
