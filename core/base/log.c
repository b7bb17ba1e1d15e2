/* SPDX-License-Identifier: BSD-3-Clause */
/* log.c - which log lines are written, in which place, and where they go. */
#include "base/log.h"
#include "base/cancel.h"
#include "base/log_file.h"
#include "base/log_text.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* ------------------------------------------------------------------------ settings -- */

/* Levels that were ever set.  They stay, since a thread may read them while another thread sets others. */
struct log_setting {
	struct log_levels levels;
	struct log_setting *older;
};

static struct log_setting log_first = {.levels = {.level = COLL_LOG_WARN}};
static struct log_setting *_Atomic log_settings = &log_first;
static struct log_setting *_Atomic log_setting = &log_first; /* the one in force */
static atomic_int log_format = LOG_UNSET;
static atomic_int log_rank = LOG_NO_RANK;
static pthread_once_t log_once = PTHREAD_ONCE_INIT;
static int log_is_closed; /* there was no stderr when the library was first called */

static void log_look(void)
{
	log_is_closed = fcntl(STDERR_FILENO, F_GETFD) < 0;
}

void log_open(void)
{
	pthread_once(&log_once, log_look);
}

/* Returns the setting with these levels, or NULL if there is no memory for it. */
static struct log_setting *log_setting_of(const struct log_levels *levels)
{
	struct log_setting *setting = atomic_load(&log_settings);

	while (setting && memcmp(&setting->levels, levels, sizeof(*levels)))
		setting = setting->older;
	if (setting)
		return setting;
	setting = malloc(sizeof(*setting));
	if (!setting)
		return NULL;
	setting->levels = *levels;
	setting->older = atomic_load(&log_settings);
	while (!atomic_compare_exchange_weak(&log_settings, &setting->older, setting))
		;
	return setting;
}

void log_set_levels(const struct log_levels *levels)
{
	struct log_setting *setting = log_setting_of(levels);

	if (setting)
		atomic_store(&log_setting, setting);
}

void log_set_level(int level)
{
	struct log_levels levels;

	memset(&levels, 0, sizeof(levels));
	levels.level = level < COLL_LOG_ERROR   ? COLL_LOG_ERROR
		       : level > COLL_LOG_TRACE ? COLL_LOG_TRACE
						: level;
	log_set_levels(&levels);
}

int log_level(void)
{
	return atomic_load(&log_setting)->levels.level;
}

int log_wants(const char *subsystem, int level)
{
	return level <= log_levels_of(&atomic_load(&log_setting)->levels, subsystem);
}

void log_set_format(enum log_format format)
{
	atomic_store(&log_format, format);
}

void log_set_rank(int rank)
{
	atomic_store(&log_rank, rank);
}

/* -------------------------------------------------------------------------- places -- */

enum { LOG_SEVERAL_RANKS = -2 };

static _Thread_local struct log_place log_thread = {LOG_NO_RANK, NULL};
/* Of the process: its number and the only rank that any thread has had, in one word; and the first file. */
static _Atomic uint64_t log_process = (uint32_t)LOG_NO_RANK;
static struct log_file *_Atomic log_process_file;

static uint64_t log_process_of(int self, int rank)
{
	return (uint64_t)(uint32_t)self << 32 | (uint32_t)rank;
}

/* Returns the rank of a process, or LOG_NO_RANK: in a child of fork the rank is another process's. */
static int log_process_rank(uint64_t process, int self)
{
	return process >> 32 == (uint32_t)self ? (int)(int32_t)(uint32_t)process : LOG_NO_RANK;
}

static void log_join_process(struct log_place place)
{
	const int self = (int)getpid();
	uint64_t process = atomic_load(&log_process);
	struct log_file *none = NULL;
	int rank;

	do {
		rank = log_process_rank(process, self);
		rank = rank == LOG_NO_RANK || rank == place.rank ? place.rank : LOG_SEVERAL_RANKS;
	} while (!atomic_compare_exchange_weak(&log_process, &process, log_process_of(self, rank)));
	if (process >> 32 != (uint32_t)self)
		atomic_store(&log_process_file, place.file);
	else
		atomic_compare_exchange_strong(&log_process_file, &none, place.file);
}

struct log_place log_enter(struct log_place place)
{
	const struct log_place former = log_thread;

	if (place.rank >= 0)
		log_join_process(place);
	log_thread = place;
	return former;
}

void log_leave(struct log_place former)
{
	log_thread = former;
}

struct log_about log_here(const char *subsystem)
{
	struct log_about about = {.subsystem = subsystem, .place = log_thread};

	if (about.place.rank >= 0)
		return about;
	about.place.file = atomic_load(&log_process_file);
	about.place.rank = log_process_rank(atomic_load(&log_process), (int)getpid());
	return about;
}

/* --------------------------------------------------------------------------- lines -- */

static int64_t log_now_us(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000 + now.tv_nsec / 1000;
}

/* Writes a line of a level that is on. */
static void log_put(const struct log_about *about, int level, const char *plugin, const char *text)
{
	CANCEL_OFF;
	const int saved_errno = errno, format = atomic_load(&log_format);
	const struct log_line line = {.level = level,
				      .about = about,
				      .plugin = plugin,
				      .text = text ? text : "",
				      .short_rank = atomic_load(&log_rank),
				      .time_us = log_now_us(),
				      .pid = (long)getpid()};
	char room[1 + LOG_LINE_SIZE], *out = room + 1; /* see log_file_write */
	size_t len;

	if (about->place.file) {
		len = log_line_text(format == LOG_UNSET ? LOG_TEXT : (enum log_format)format, &line,
				    out);
		if (!log_file_write(about->place.file, (int)line.pid, out, len)) {
			errno = saved_errno;
			return;
		}
	}
	log_open();
	if (!log_is_closed) {
		len = log_line_text(format == LOG_UNSET ? LOG_SHORT : (enum log_format)format,
				    &line, out);
		log_write(STDERR_FILENO, out, len);
	}
	errno = saved_errno;
}

void log_about_args(const struct log_about *about, int level, const char *fmt, va_list args)
{
	const int saved_errno = errno;
	char text[LOG_TEXT_SIZE];

	if (log_wants(about->subsystem, level) && vsnprintf(text, sizeof(text), fmt, args) >= 0)
		log_put(about, level, NULL, text);
	errno = saved_errno;
}

void log_about(const struct log_about *about, int level, const char *fmt, ...)
{
	va_list args;

	va_start(args, fmt);
	log_about_args(about, level, fmt, args);
	va_end(args);
}

void log_message(const char *subsystem, int level, const char *fmt, ...)
{
	struct log_about about;
	va_list args;

	if (!log_wants(subsystem, level))
		return;
	about = log_here(subsystem);
	va_start(args, fmt);
	log_about_args(&about, level, fmt, args);
	va_end(args);
}

void log_plugin(const struct log_about *about, int level, const char *plugin, const char *text)
{
	if (log_wants(plugin, level))
		log_put(about, level, plugin, text);
}
