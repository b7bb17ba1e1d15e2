/* SPDX-License-Identifier: BSD-3-Clause */
/* log_file.c - opens the files of log lines, notices when they are rotated, and appends to them. */
#include "base/log_file.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/log.h"
#include "base/path_pattern.h"
#include "base/user_file.h"

#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

enum { LOG_LOOK_US = 1000000, LOG_OPEN_NAPS = 1000, LOG_OPEN_NAP_US = 100 };

struct log_file {
	struct log_file *next; /* in log_files */
	char *directory; /* the working directory for a pattern that is not absolute, else "" */
	char *pattern;
	int rank; /* LOG_NO_RANK: one file of all ranks */

	/* --- of the process that has `opener` */
	char path[PATH_MAX];

	/* --- of all threads */
	_Atomic int
		opener; /* the process in which a thread opens the file; 0: none, or a process before fork */
	_Atomic int pid; /* the process that has looked at the file last */
	_Atomic int fd;  /* -1: not open */
	_Atomic int
		failed; /* the file was not opened when it had to be; fd may be the former one */
	_Atomic uint64_t device, number; /* of the open file */
	_Atomic int64_t look_us;         /* when to look whether the path still leads to it */
	_Atomic int torn;                /* its last line has no end */
	_Atomic int has_warned;
};

static struct log_file *_Atomic log_files;
static _Thread_local int log_file_opens; /* the thread opens a file */

/* ------------------------------------------------------------------ write a line -- */

/* Removes the pending signal that a write of this thread has caused. */
static void log_unsignal(int signal)
{
	const struct timespec now = {0, 0};
	sigset_t one;
	int tries = 0, taken;

	sigemptyset(&one);
	sigaddset(&one, signal);
	do
		taken = sigtimedwait(&one, NULL, &now);
	while (interrupted(taken, &tries));
}

/*
 * Blocks the signals of a failed write: the program must not end because the reader of stderr has closed the pipe, or
 * because the file may not grow (ulimit -f).
 */
long log_write(int fd, const char *line, size_t len)
{
	sigset_t quiet, saved, pending; /* a signal that is not blocked cannot be pending */
	int tries = 0, err;
	long n;

	sigemptyset(&quiet);
	sigaddset(&quiet, SIGPIPE);
	sigaddset(&quiet, SIGXFSZ);
	sigemptyset(&pending);
	pthread_sigmask(SIG_BLOCK, &quiet, &saved);
	if (sigismember(&saved, SIGPIPE) || sigismember(&saved, SIGXFSZ))
		sigpending(&pending);
	do
		n = (long)write(fd, line, len);
	while (interrupted(n, &tries));
	err = errno;
	if (n < 0 && err == EPIPE && !sigismember(&pending, SIGPIPE))
		log_unsignal(SIGPIPE);
	else if (n < 0 && err == EFBIG && !sigismember(&pending, SIGXFSZ))
		log_unsignal(SIGXFSZ);
	pthread_sigmask(SIG_SETMASK, &saved, NULL);
	errno = err;
	return n;
}

static void log_file_warn(struct log_file *file, const char *verb, const char *why,
			  const char *remedy)
{
	const struct log_about about = {.subsystem = LOG_SUBSYSTEM,
					.place = {.rank = file->rank, .file = NULL}};

	if (!atomic_exchange(&file->has_warned, 1))
		log_about(&about, COLL_LOG_WARN,
			  "the log file '%s' (option log_file) cannot be %s: %s; %s; until then "
			  "its lines go to stderr",
			  file->path[0] ? file->path : file->pattern, verb, why, remedy);
}

/* ---------------------------------------------------------------------- the owner -- */

/*
 * A lock that no child of fork finds taken for ever: a process that is not this one has left it.  No thread waits for it
 * long.
 */
static int log_own(_Atomic int *owner)
{
	const int self = (int)getpid();
	int before = atomic_load(owner);

	return before != self && atomic_compare_exchange_strong(owner, &before, self);
}

static void log_disown(_Atomic int *owner)
{
	atomic_store(owner, 0);
}

/* ------------------------------------------------------------------------- opening -- */

/* Makes the path of the file in this process, in which it does not change.  Returns 0, or -1 after a warning. */
static int log_file_name(struct log_file *file)
{
	char host[128] = "", why[200];
	const struct path_names names = {.host = host, .rank = file->rank, .pid = (long)getpid()};
	const size_t len = strlen(file->directory);

	if (file->path[0] && atomic_load(&file->pid) == (int)getpid())
		return 0;
	if (gethostname(host, sizeof(host) - 1) || !host[0])
		snprintf(host, sizeof(host), "unknown");
	snprintf(file->path, sizeof(file->path), "%s%s", file->directory, len ? "/" : "");
	if (len + 1 < sizeof(file->path) &&
	    !path_pattern_expand(file->pattern, &names, file->path + strlen(file->path),
				 sizeof(file->path) - strlen(file->path), why, sizeof(why)))
		return 0;
	file->path[0] = '\0';
	log_file_warn(file, "opened", "its path is too long", "name a shorter one");
	return -1;
}

/*
 * Puts a new descriptor in the place of the old one, if that is still the file's.  Writers may use the old one meanwhile:
 * for them the descriptor is not the file's until all is stored, and they wait.
 */
static void log_file_put(struct log_file *file, int fd, int is_own)
{
	const int old = atomic_load(&file->fd);
	struct stat st;
	const int is_known = !fstat(fd, &st);

	atomic_store(&file->torn, 0);
	if (old < 0 || !is_own || descriptor_replace(fd, old))
		atomic_store(&file->fd, fd);
	if (is_known) {
		atomic_store(&file->device, (uint64_t)st.st_dev);
		atomic_store(&file->number, (uint64_t)st.st_ino);
	}
}

/* Returns a descriptor, or -1 after a warning. */
static int log_file_enter(struct log_file *file)
{
	int fd = -1;

	if (!log_file_name(file)) {
		fd = user_file_append(file->path);
		if (fd < 0)
			log_file_warn(file, "opened", error_text(),
				      "name a file in a directory where this user may make files");
	}
	return fd;
}

/* Opens the path.  is_own: the old descriptor is the file's.  The caller owns the file. */
static void log_file_open(struct log_file *file, int is_own)
{
	const int code = error_code();
	char text[ERROR_TEXT_SIZE];
	int fd;

	snprintf(text, sizeof(text), "%s", error_text());
	log_file_opens = 1;
	fd = log_file_enter(file);
	log_file_opens = 0;
	if (fd >= 0)
		log_file_put(file, fd, is_own);
	else if (!is_own)
		atomic_store(&file->fd, -1);
	atomic_store(&file->failed, fd < 0);
	atomic_store(&file->look_us, clock_now_us() + LOG_LOOK_US);
	atomic_store(&file->pid, (int)getpid());
	error_set(code, "%s", text);
}

/* The state of a file, as a thread finds it. */
struct log_look {
	int is_own;     /* the descriptor is the file's */
	int is_usable;  /* a line may be written to it */
	int is_settled; /* there is nothing to open or to look at now */
};

static int log_file_is(const struct log_file *file, const struct stat *st)
{
	return (uint64_t)st->st_dev == atomic_load(&file->device) &&
	       (uint64_t)st->st_ino == atomic_load(&file->number);
}

static struct log_look log_file_look(const struct log_file *file, int self)
{
	const int fd = atomic_load(&file->fd), failed = atomic_load(&file->failed),
		  is_here = atomic_load(&file->pid) == self;
	struct log_look look = {0};
	struct stat st;

	look.is_own = fd >= 0 && !fstat(fd, &st) && log_file_is(file, &st);
	look.is_usable = look.is_own && is_here && !failed;
	look.is_settled = is_here && (look.is_usable || failed) &&
			  clock_tick_us() < atomic_load(&file->look_us);
	return look;
}

/* For the time in which another thread opens the file.  Returns 1 if a line may be written to the former file or the new one. */
static int log_file_await(const struct log_file *file, int self)
{
	int usable = log_file_look(file, self).is_usable;

	for (int n = 0; !usable && !log_file_opens && n < LOG_OPEN_NAPS; n++) {
		if (atomic_load(&file->opener) != self)
			return log_file_look(file, self).is_usable;
		clock_nap(LOG_OPEN_NAP_US);
		usable = log_file_look(file, self).is_usable;
	}
	return usable;
}

/*
 * Opens the path anew if it leads to another file, or the open file cannot be used.  While another thread does so,
 * the calling thread takes the former file, or waits for 100 ms at most.  Returns 1 if a line may be written to the file.
 */
static int log_file_ready(struct log_file *file, int self)
{
	struct log_look look = log_file_look(file, self);
	struct stat st;

	if (look.is_settled)
		return look.is_usable;
	if (!log_own(&file->opener))
		return log_file_await(file, self);
	look = log_file_look(file, self); /* another thread may have opened it meanwhile */
	if (!look.is_settled) {
		if (!look.is_usable || lstat(file->path, &st) || !log_file_is(file, &st))
			log_file_open(file, look.is_own);
		else
			atomic_store(&file->look_us, clock_now_us() + LOG_LOOK_US);
	}
	log_disown(&file->opener);
	return log_file_look(file, self).is_usable;
}

/* ------------------------------------------------------------------------- writing -- */

/* Returns the bytes that were written, with errno if that is not all: a second write tells why the first was short. */
static size_t log_file_append(int fd, const char *line, size_t len)
{
	const long first = log_write(fd, line, len);
	long second = 0;

	if (first >= 0 && (size_t)first < len)
		second = log_write(fd, line + first, len - (size_t)first);
	return (size_t)(first > 0 ? first : 0) + (size_t)(second > 0 ? second : 0);
}

int log_file_write(struct log_file *file, int self, char *line, size_t len)
{
	size_t tears, done;

	if (!log_file_ready(file, self))
		return -1;
	/* A line that a full disk has cut gets its end before the next one. */
	tears = (size_t)atomic_exchange(&file->torn, 0);
	line[-1] = '\n';
	done = log_file_append(atomic_load(&file->fd), line - tears, len + tears);
	if (done == len + tears)
		return 0;
	if (done < tears || done > tears)
		atomic_store(&file->torn, 1);
	log_file_warn(file, "written",
		      errno == EFBIG ? "the file may not grow (ulimit -f)" : strerror(errno),
		      "make room for it, or name another file");
	return -1;
}

/* --------------------------------------------------------------------- all files -- */

static struct log_file *log_file_find(struct log_file *file, const char *directory,
				      const char *pattern, int rank)
{
	while (file && (file->rank != rank || strcmp(file->pattern, pattern) ||
			strcmp(file->directory, directory)))
		file = file->next;
	return file;
}

static void log_file_free(struct log_file *file)
{
	if (!file)
		return;
	free(file->directory);
	free(file->pattern);
	free(file);
}

static struct log_file *log_file_new(const char *directory, const char *pattern, int rank)
{
	struct log_file *file = calloc(1, sizeof(*file));

	if (!file)
		return NULL;
	file->directory = strdup(directory);
	file->pattern = strdup(pattern);
	file->rank = rank;
	atomic_store(&file->fd, -1);
	if (file->directory && file->pattern)
		return file;
	log_file_free(file);
	return NULL;
}

/* Returns the file in the list, which gets it if it lacks it, or NULL: memory has run out. */
static struct log_file *log_file_of(const char *directory, const char *pattern, int rank)
{
	struct log_file *first = atomic_load(&log_files), *file, *made = NULL;

	while (!(file = log_file_find(first, directory, pattern, rank))) {
		if (!made)
			made = log_file_new(directory, pattern, rank);
		if (!made)
			return NULL;
		made->next = first;
		if (atomic_compare_exchange_strong(&log_files, &first, made))
			return made;
	}
	log_file_free(made);
	return file;
}

struct log_file *log_file_get(const char *pattern, int rank)
{
	CANCEL_OFF;
	/* The working directory of the process may change, its log file does not. */
	char *directory = pattern[0] == '/' ? strdup("") : getcwd(NULL, 0);
	const int err = errno;
	/* Ranks that are threads share the file, and its descriptor, if its name lacks the rank. */
	struct log_file *file = directory ? log_file_of(directory, pattern,
							strstr(pattern, "%r") ? rank : LOG_NO_RANK)
					  : NULL;

	if (file)
		log_file_ready(file, (int)getpid());
	else if (!directory && err != ENOMEM)
		log_warn("the log file '%s' (option log_file) is not used, since the working "
			 "directory "
			 "cannot be found: %s; name an absolute path; its lines go to stderr",
			 pattern, strerror(err));
	else
		log_warn("there is no memory for the log file '%s', so its lines go to stderr",
			 pattern);
	free(directory);
	return file;
}
