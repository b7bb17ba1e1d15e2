/* SPDX-License-Identifier: BSD-3-Clause */
/* log_text.c - log lines as short text, as text with time and place, and as objects of JSON. */
#include "base/log_text.h"
#include "base/json_text.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ---------------------------------------------------------------------- the parts -- */

static pthread_once_t log_host_once = PTHREAD_ONCE_INIT;
static char log_host[128];

static void log_find_host(void)
{
	if (gethostname(log_host, sizeof(log_host) - 1) || !log_host[0])
		snprintf(log_host, sizeof(log_host), "unknown");
	for (char *at = log_host; *at; at++)
		if (*at <= ' ' || *at == 0x7f)
			*at = '_';
}

/* "2026-11-29T12:02:06.123456Z" (RFC 3339) */
static const char *log_time(int64_t us, char text[40])
{
	const time_t seconds = (time_t)(us / 1000000);
	struct tm day;

	gmtime_r(&seconds, &day);
	snprintf(text, 40, "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ", (day.tm_year + 1900) % 10000,
		 day.tm_mon + 1, day.tm_mday, day.tm_hour, day.tm_min, day.tm_sec,
		 (int)(us % 1000000));
	return text;
}

static const char *log_rank_text(int rank, const char *none, char text[16])
{
	if (rank < 0)
		return none;
	snprintf(text, 16, "%d", rank);
	return text;
}

static const char *log_subsystem(const struct log_line *line)
{
	return line->plugin ? line->plugin : line->about->subsystem;
}

static const char *log_or(const char *text, const char *otherwise)
{
	return text ? text : otherwise;
}

/* The newline is the only control byte.  The line was cut if snprintf has asked for more than its room. */
static size_t log_end(char *out, int asked, size_t room)
{
	const size_t len = asked < 0 ? 0 : (size_t)asked < room ? (size_t)asked : room - 1;

	for (size_t i = 0; i < len; i++)
		if ((unsigned char)out[i] < ' ' || out[i] == 0x7f)
			out[i] = ' ';
	out[len] = '\n';
	return len + 1;
}

/* -------------------------------------------------------------------- the formats -- */

static size_t log_short(const struct log_line *line, char *out)
{
	char tag[32] = "";

	if (line->short_rank >= 0)
		snprintf(tag, sizeof(tag), "[rank %d]", line->short_rank);
	/* One byte stays free for the newline. */
	return log_end(out,
		       snprintf(out, LOG_TEXT_SIZE - 1, "coll%s %s: %s%s%s", tag,
				log_level_name(line->level), log_or(line->plugin, ""),
				line->plugin ? ": " : "", line->text),
		       LOG_TEXT_SIZE - 1);
}

/* "TIME HOST[PID] rank R comm C SUBSYSTEM LEVEL: ...": the fields have the same places in every line. */
static size_t log_long(const struct log_line *line, char *out)
{
	char when[40], rank[16];

	return log_end(out,
		       snprintf(out, LOG_LINE_SIZE - 1, "%s %s[%ld] rank %s comm %s %s %s: %.*s",
				log_time(line->time_us, when), log_host, line->pid,
				log_rank_text(line->about->place.rank, "-", rank),
				log_or(line->about->comm, "-"), log_or(log_subsystem(line), "-"),
				log_level_name(line->level), LOG_TEXT_SIZE - 1, line->text),
		       LOG_LINE_SIZE - 1);
}

/* "\"name\"" with its escapes, or "null". */
static const char *log_json_name(const char *name, char *out, size_t size)
{
	if (!name)
		return "null";
	json_text(name, out, size);
	return out;
}

static size_t log_json(const struct log_line *line, char *out)
{
	char when[40], rank[16], host[256], comm[64], subsystem[64], text[LOG_TEXT_SIZE];
	const size_t end = sizeof("}\n");
	size_t used;

	json_text(log_host, host, sizeof(host));
	snprintf(text, sizeof(text), "%s", line->text);
	used = (size_t)snprintf(
		out, LOG_LINE_SIZE,
		"{\"time\":\"%s\",\"host\":%s,\"pid\":%ld,\"rank\":%s,\"communicator\":%s,"
		"\"subsystem\":%s,\"level\":\"%s\",\"text\":",
		log_time(line->time_us, when), host, line->pid,
		log_rank_text(line->about->place.rank, "null", rank),
		log_json_name(line->about->comm, comm, sizeof(comm)),
		log_json_name(log_subsystem(line), subsystem, sizeof(subsystem)),
		log_level_name(line->level));
	used += json_text(text, out + used, LOG_LINE_SIZE - used - end);
	memcpy(out + used, "}\n", 2);
	return used + 2;
}

size_t log_line_text(enum log_format format, const struct log_line *line, char out[LOG_LINE_SIZE])
{
	pthread_once(&log_host_once, log_find_host);
	switch (format) {
	case LOG_TEXT: return log_long(line, out);
	case LOG_JSON: return log_json(line, out);
	default: return log_short(line, out);
	}
}
