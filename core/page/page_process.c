/* SPDX-License-Identifier: BSD-3-Clause */
/* page_process.c - the processes that made pages: see page_process.h. */
#include "page/page_process.h"
#include "base/cancel.h"
#include "base/clock.h"
#include "base/descriptor.h"
#include "page/page_directory.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/* The first rank of a job looks at so many names of a directory, and notes so many jobs that run. */
enum { CLEAN_NAMES = 8192, CLEAN_JOBS = 256 };

enum { PROCESS_LOCK_MS = 100 };

/* Reads the beginning of a file.  Returns its length, or -1. */
static ssize_t process_read(const char *path, char *text, size_t size)
{
	const int fd = descriptor_lift(open(path, O_RDONLY | O_CLOEXEC));
	ssize_t n;

	if (fd < 0)
		return -1;
	n = read(fd, text, size - 1);
	close(fd);
	text[n > 0 ? n : 0] = '\0';
	return n;
}

/* The name of the program, which may hold any byte, ends with the last ')'.  *state: of the main thread. */
static int process_stat(const char *path, char *state, long *threads, uint64_t *start)
{
	char text[1024];
	const char *at = process_read(path, text, sizeof(text)) > 0 ? strrchr(text, ')') : NULL;

	return at && sscanf(at,
			    ") %c %*d %*d %*d %*d %*d %*u %*u %*u %*u %*u %*u %*u %*d %*d %*d %*d "
			    "%ld %*d %" SCNu64,
			    state, threads, start) == 3
		       ? 0
		       : -1;
}

/* What page_process_own has found out, and in which process: a child of fork looks again. */
static struct {
	pthread_mutex_t lock;
	pid_t pid;
	uint64_t start, namespace_;
	char boot[40];
} process_own = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* The lock is held. */
static void process_find_own(void)
{
	char state, text[64];
	struct stat st;
	long threads;

	process_own.start = process_own.namespace_ = 0;
	(void)process_stat("/proc/self/stat", &state, &threads, &process_own.start);
	if (!stat("/proc/self/ns/pid", &st))
		process_own.namespace_ = (uint64_t)st.st_ino;
	process_own.boot[0] = '\0';
	if (process_read("/proc/sys/kernel/random/boot_id", text, sizeof(text)) > 0)
		snprintf(process_own.boot, sizeof(process_own.boot), "%.*s",
			 (int)strcspn(text, "\n"), text);
	process_own.pid = getpid();
}

void page_process_own(uint64_t *start, uint64_t *namespace_, char boot[40])
{
	CANCEL_OFF;

	*start = *namespace_ = 0;
	boot[0] = '\0';
	if (!clock_lock_within(&process_own.lock, PROCESS_LOCK_MS))
		return; /* fork has copied the lock while another thread had it */
	if (process_own.pid != getpid())
		process_find_own();
	*start = process_own.start;
	*namespace_ = process_own.namespace_;
	memcpy(boot, process_own.boot, sizeof(process_own.boot));
	pthread_mutex_unlock(&process_own.lock);
}

/* Reads the letter of a process, how many threads it has, and when it started.  Returns 0, or -1. */
static int process_look(int pid, char *state, long *threads, uint64_t *start)
{
	char path[64];

	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	return process_stat(path, state, threads, start);
}

int page_process_is_stopped(int pid)
{
	CANCEL_OFF;
	uint64_t start;
	long threads;
	char state;

	return pid > 0 && !process_look(pid, &state, &threads, &start) &&
	       page_state_is_stopped(state);
}

int page_process_lock(int fd)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return fcntl(fd, F_OFD_SETLK, &lock);
}

/* Has each process that had the memory of the page ended?  0 also if the page was not locked. */
static int process_has_let_go(int fd, const struct page_head *head)
{
	struct flock lock = {.l_type = F_WRLCK, .l_whence = SEEK_SET};

	return head->locked && !fcntl(fd, F_OFD_GETLK, &lock) && lock.l_type == F_UNLCK;
}

enum page_life page_process_look(int fd, const struct page_head *head, char *state)
{
	char boot[40];
	uint64_t own, namespace_, start;
	long threads;

	*state = '?';
	page_process_own(&own, &namespace_, boot);
	if (head->boot[0] && boot[0] && strcmp(head->boot, boot) != 0)
		return PAGE_GONE;
	if (!own || head->namespace_ != namespace_ || head->pid <= 0)
		return process_has_let_go(fd, head) ? PAGE_GONE : PAGE_UNKNOWN;
	if (kill(head->pid, 0) && errno == ESRCH)
		return PAGE_GONE;
	if (process_look(head->pid, state, &threads, &start))
		return kill(head->pid, 0) && errno == ESRCH ? PAGE_GONE : PAGE_UNKNOWN;
	/* The main thread of a process may have ended before its other threads. */
	if (*state == 'Z' && threads > 1)
		*state = '?';
	return start == head->start && *state != 'Z' && *state != 'X' ? PAGE_LIVES : PAGE_GONE;
}

/* Returns the open page, and its head; or -1. */
static int process_open_page(int directory, const char *name, struct page_head *head)
{
	const int fd = page_directory_file(directory, name, O_RDONLY);

	if (fd < 0)
		return -1;
	if (pread(fd, head, sizeof(*head), 0) == (ssize_t)sizeof(*head) &&
	    memcmp(head->magic, PAGE_MAGIC, sizeof(head->magic)) == 0)
		return fd;
	close(fd);
	return -1;
}

/*
 * Is the process that the page names in use?  A number that is in use here may be that of a process in another container, which
 * has ended.
 */
static int process_is_in_use(int directory, const char *name, pid_t pid)
{
	struct page_head head;
	int fd, gone;

	if (kill(pid, 0) && errno == ESRCH)
		return 0;
	fd = process_open_page(directory, name, &head);
	if (fd < 0)
		return 1;
	gone = process_has_let_go(fd, &head);
	close(fd);
	return !gone;
}

/* The process of the page is not in use.  The head tells whether the page was made here. */
static void process_clean_one(int directory, const char *name)
{
	struct page_head head;
	const int fd = process_open_page(directory, name, &head);
	enum page_life life;
	char state;

	if (fd < 0)
		return;
	head.boot[sizeof(head.boot) - 1] = '\0';
	life = page_process_look(fd, &head, &state);
	close(fd);
	if (life == PAGE_GONE)
		(void)unlinkat(directory, name, 0);
}

/* The jobs of which a process runs: they keep the pages of their dead ranks, which tell what those ranks did last. */
struct process_jobs {
	uint64_t job[CLEAN_JOBS];
	int count, full; /* full: more jobs run, so nobody knows which pages may go */
};

static int process_job_runs(const struct process_jobs *jobs, uint64_t job)
{
	for (int i = 0; i < jobs->count; i++)
		if (jobs->job[i] == job)
			return 1;
	return 0;
}

static void process_add_job(struct process_jobs *jobs, uint64_t job)
{
	jobs->full |= jobs->count == CLEAN_JOBS;
	if (!jobs->full)
		jobs->job[jobs->count++] = job;
}

/*
 * Looks at the names of pages.  dead 0: notes the jobs of the pages whose process is in use; dead 1: removes each other page
 * whose job was not noted.
 */
static void process_clean_names(DIR *files, int directory, struct process_jobs *jobs, int dead)
{
	struct page_name page;
	struct dirent *entry;

	for (int n = 0; n < CLEAN_NAMES && (entry = readdir(files)); n++) {
		if (page_name_read(entry->d_name, &page) || process_job_runs(jobs, page.job))
			continue;
		if (dead == process_is_in_use(directory, entry->d_name, (pid_t)page.pid))
			continue;
		if (!dead)
			process_add_job(jobs, page.job);
		else
			process_clean_one(directory, entry->d_name);
	}
}

void page_process_clean(int directory)
{
	const int fd = descriptor_lift(openat(directory, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	DIR *files = fd < 0 ? NULL : fdopendir(fd);
	struct process_jobs jobs = {.count = 0};

	if (!files) {
		if (fd >= 0)
			close(fd);
		return;
	}
	process_clean_names(files, directory, &jobs, 0);
	rewinddir(files);
	if (!jobs.full)
		process_clean_names(files, directory, &jobs, 1);
	closedir(files);
}
