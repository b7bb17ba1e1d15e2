/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * timeline_test.c - the observer timeline alone, told of events by this program: threads that tell at the same time, more
 * events than it can keep up with, ends without begins, forks, and what an event costs.
 */
#include <coll/observer.h>
#include <coll/introspect.h>
#include <dlfcn.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "../lib/lines.h"
#include "../lib/tap.h"
#include "../lib/thread_sanitizer.h"

enum { THREADS = 4, CALLS = 2000, FLOOD = 200000, TURNS = 100, FIRST_OPENS = 2, TEXT = 1 << 20 };

static const coll_observer_t *timeline;
static char directory[256], file_option[300], last_warning[4096];
static int64_t file_bytes = INT64_C(1) << 30;
static int warnings, with_steps = 1;
static uint32_t wanted;

/* ---------------------------------------------------------------------- the core -- */

static const char *host_option(const coll_observer_host_t *host, const char *key)
{
	(void)host;
	return strcmp(key, "file") == 0 ? file_option : NULL;
}

static int64_t host_option_int(const coll_observer_host_t *host, const char *key)
{
	(void)host;
	if (strcmp(key, "steps") == 0)
		return with_steps;
	return strcmp(key, "bytes") == 0 ? file_bytes : 0;
}

static void host_want(const coll_observer_host_t *host, uint32_t wants)
{
	(void)host;
	wanted &= wants;
}

static void host_log(const coll_observer_host_t *host, int32_t level, const char *text)
{
	(void)host;
	(void)level;
	warnings++;
	snprintf(last_warning, sizeof(last_warning), "%s", text);
}

static coll_result_t host_expand(const coll_observer_host_t *host, const char *pattern, char *out,
				 uint64_t size, coll_error_t *err)
{
	(void)err;
	snprintf(out, size, "%s%s", pattern, host->rank ? ".other" : "");
	return COLL_SUCCESS;
}

static const coll_observer_host_t host = {.size = sizeof(host),
					  .abi_minor = COLL_OBSERVER_ABI_MINOR,
					  .rank = 0,
					  .nranks = 1,
					  .host_name = "ho\"st\\\n",
					  .backend = "none",
					  .option = host_option,
					  .option_int = host_option_int,
					  .log = host_log,
					  .expand = host_expand,
					  .want = host_want};

static coll_observer_host_t hosts[FIRST_OPENS];
static _Atomic int first_open;

static uint64_t stream;

static int64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

/* Of the thread's call: when it was issued, and when it began. */
static _Thread_local int64_t issued_ns, begin_ns;

/* As the core does, for one call of the thread at a time. */
static void add_times(coll_observed_t *event)
{
	if (event->what != COLL_OBSERVE_CALL)
		return;
	if (event->phase == COLL_OBSERVED_ISSUED) {
		issued_ns = event->time_ns;
		return;
	}
	event->issued_ns = issued_ns;
	event->begin_ns = event->phase == COLL_OBSERVED_END ? begin_ns : 0;
	begin_ns = event->phase == COLL_OBSERVED_BEGIN ? event->time_ns : 0;
	if (event->phase == COLL_OBSERVED_END)
		issued_ns = 0;
}

static void tell(void *state, uint32_t what, int phase, uint64_t comm, uint64_t number)
{
	coll_observed_t event = {.size = sizeof(event),
				 .what = what,
				 .phase = phase,
				 .time_ns = now_ns(),
				 .comm = comm,
				 .comm_id = "7",
				 .nranks = 1,
				 .kind = what == COLL_OBSERVE_WAIT ? 0 : COLL_KIND_ALLREDUCE,
				 .number = number,
				 .collective = number,
				 .dtype = COLL_FLOAT32,
				 .op = COLL_SUM,
				 .peer = -1,
				 .count = 4,
				 .bytes = 16,
				 .stream = stream,
				 .algorithm = "ring",
				 .text = "a \"text\"\twith \xff bytes"};

	add_times(&event);
	timeline->event(state, &event);
}

static void *try_begin(const char *name, coll_error_t *err)
{
	void *state = NULL;

	snprintf(file_option, sizeof(file_option), "%s/%s", directory, name);
	warnings = 0;
	return timeline->open(&host, &state, err) ? NULL : state;
}

static void *begin(const char *name)
{
	coll_error_t err = {.size = sizeof(err)};
	void *state = try_begin(name, &err);

	ok(state != NULL, "%s: opens: %s", name, err.text);
	return state;
}

/* ------------------------------------------------------------------------ the file -- */

static char *read_all(void)
{
	static char text[TEXT];
	FILE *file = fopen(file_option, "r");
	size_t n = file ? fread(text, 1, sizeof(text) - 1, file) : 0;

	if (file)
		fclose(file);
	text[n] = '\0';
	return text;
}

static void is_whole(const char *what)
{
	char command[1024];
	const char *top = getenv("top_srcdir");

	snprintf(command, sizeof(command), "python3 %s/tests/tools/trace_check.py events %s",
		 top ? top : ".", file_option);
	if (system("python3 -c pass") != 0)
		skip(1, "python3 is not here");
	else
		ok(system(command) == 0, "%s: the file is in the format", what);
}

/* How many lines of the observer's file have the text. */
static long count(const char *text)
{
	return lines_with(file_option, text);
}

/* -------------------------------------------------------------------------- tests -- */

static void call(void *state, uint64_t comm, uint64_t number)
{
	tell(state, COLL_OBSERVE_CALL, COLL_OBSERVED_ISSUED, comm, number);
	tell(state, COLL_OBSERVE_CALL, COLL_OBSERVED_BEGIN, comm, number);
	tell(state, COLL_OBSERVE_WAIT, COLL_OBSERVED_BEGIN, comm, number);
	tell(state, COLL_OBSERVE_CALL, COLL_OBSERVED_END, comm, number);
	tell(state, COLL_OBSERVE_WAIT, COLL_OBSERVED_END, comm, number);
}

static void test_events(void)
{
	void *state = begin("events");

	tell(state, COLL_OBSERVE_COMM, COLL_OBSERVED_BEGIN, 1, 0);
	call(state, 1, 1);
	tell(state, COLL_OBSERVE_CALL, COLL_OBSERVED_END, 1, 99);
	tell(state, COLL_OBSERVE_CALL, COLL_OBSERVED_ISSUED, 1, 2);
	tell(state, COLL_OBSERVE_CALL, COLL_OBSERVED_END, 1, 2);
	tell(state, COLL_OBSERVE_CALL, COLL_OBSERVED_BEGIN, 1, 3);
	tell(state, COLL_OBSERVE_CALL, 17, 1, 3);
	tell(state, 1 << 20, COLL_OBSERVED_BEGIN, 1, 3);
	tell(state, COLL_OBSERVE_FAILURE, COLL_OBSERVED_BEGIN, 1, 0);
	tell(state, COLL_OBSERVE_COMM, COLL_OBSERVED_END, 1, 0);
	timeline->close(state);
	is_whole("events");
	is_int(count("\"cat\":\"call\",\"name\":\"allreduce\""), 3, "three calls");
	is_int(count("\"name\":\"wait for allreduce\""), 1, "a wait for a call");
	is_int(count("\"issued\":"), 2, "two of them say when they were issued");
	is_int(count("\"unfinished\":1"), 1, "a call that has not ended");
	is_int(count("\"name\":\"rank 0 (ho\\\"st\\\\ )\""), 1, "a host's name is escaped");
	is_int(count("a \\\"text\\\" with \\ufffd bytes"), 1, "and a failure's text");
	is_int(count("\"lost\":0"), 1, "nothing is lost");
	is_int(warnings, 0, "no warning");
}

/* The niceness of the process's threads, added up: field 19 of their stat files. */
static long niceness(void)
{
	FILE *list = popen("cat /proc/$PPID/task/*/stat", "r");
	char line[1024];
	long sum = 0;

	while (list && fgets(line, sizeof(line), list)) {
		const char *at = strrchr(line, ')');

		for (int field = 2; at && field < 19; field++)
			at = strchr(at + 1, ' ');
		sum += at ? strtol(at, NULL, 10) : 0;
	}
	if (list)
		pclose(list);
	return sum;
}

static void test_options(void)
{
	const long before = niceness();
	long now = before;
	void *state;

	wanted = timeline->wants;
	state = begin("options");
	for (int ms = 0; ms < 20000 && now == before; ms += 10) {
		usleep(10000);
		now = niceness();
	}
	is_int(wanted, timeline->wants, "a timeline wants all its events");
	ok(now > before || before >= 19, "the thread that writes has a lower priority");
	timeline->close(state);
	with_steps = 0;
	state = begin("options");
	with_steps = 1;
	is_int(wanted, timeline->wants & ~(uint32_t)COLL_OBSERVE_STEP, "or all but steps");
	timeline->close(state);
}

static void *tell_calls(void *state)
{
	static _Atomic uint64_t comms = 10;
	const uint64_t comm = comms++;

	for (uint64_t i = 1; i <= CALLS; i++) {
		call(state, comm, i);
		if (i % 100 == 0)
			usleep(1000); /* the ring holds what comes meanwhile */
	}
	return NULL;
}

static void test_threads(void)
{
	pthread_t thread[THREADS];
	void *state = begin("threads");

	for (int i = 0; i < THREADS; i++)
		pthread_create(&thread[i], NULL, tell_calls, state);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	timeline->close(state);
	is_whole("threads");
	is_int(count("\"cat\":\"call\""), THREADS * CALLS, "all calls of all threads");
	is_int(count("waits of thread"), THREADS, "a row of waits for each thread");
}

static void test_flood(void)
{
	void *state = begin("flood");
	int64_t from;
	long calls;

	for (int again = 0; again < 10; again++) {
		from = now_ns();
		for (uint64_t i = 1; i <= FLOOD; i++)
			tell(state, COLL_OBSERVE_STEP,
			     i % 2 ? COLL_OBSERVED_BEGIN : COLL_OBSERVED_END, 1, (i + 1) / 2);
		diag("%.0f ns an event", (double)(now_ns() - from) / FLOOD);
	}
	timeline->close(state);
	is_whole("flood");
	calls = count("\"cat\":\"step\"");
	ok(calls > 1000, "%ld of %d steps are in the file", calls, FLOOD * 5);
	if (count("\"lost\":0,") == 0)
		ok(strstr(last_warning, "which came faster than they could be written") != NULL,
		   "a warning says what is lost: %s", last_warning);
	else
		ok(1, "nothing is lost");
}

/* Told are the begins of calls whose ends are lost. */
static void test_lost_ends(void)
{
	static const char row_end[] = "{\"ph\":\"E\",\"pid\":0,\"tid\":1,";
	void *state = begin("lost");
	const char *end, *next;
	int ended;

	tell(state, COLL_OBSERVE_COMM, COLL_OBSERVED_BEGIN, 1, 0);
	tell(state, COLL_OBSERVE_CALL, COLL_OBSERVED_ISSUED, 1, 1);
	tell(state, COLL_OBSERVE_CALL, COLL_OBSERVED_BEGIN, 1, 1);
	tell(state, COLL_OBSERVE_COMM, COLL_OBSERVED_END, 1, 0);
	tell(state, COLL_OBSERVE_COMM, COLL_OBSERVED_BEGIN, 2, 0);
	timeline->close(state);
	end = strstr(read_all(), "\"unfinished\":1");
	next = strstr(read_all(), "\"name\":\"coll_comm\",\"args\":{\"comm\":2");
	ok(end && next && end < next, "a call ends with its communicator at the latest");
	state = begin("lost2");
	tell(state, COLL_OBSERVE_COMM, COLL_OBSERVED_BEGIN, 1, 0);
	tell(state, COLL_OBSERVE_CALL, COLL_OBSERVED_BEGIN, 1, 1);
	for (uint64_t i = 1; i <= FLOOD * 5; i++)
		tell(state, COLL_OBSERVE_STEP, i % 2 ? COLL_OBSERVED_BEGIN : COLL_OBSERVED_END, 1,
		     1);
	for (uint64_t i = 2; i < 500 && !count(row_end); i++) {
		call(state, 1, i);
		usleep(20000);
	}
	ended = count(row_end) > 0;
	timeline->close(state);
	ok(ended || count("\"lost\":0,"), "after a loss a call ends when later calls have");
	is_whole("lost ends");
}

/* Communicators and streams come and go. */
static void test_many(void)
{
	void *state;
	struct stat st;

	file_bytes = 512 << 10;
	state = begin("bound");
	for (uint64_t i = 1; i <= 4000; i++) {
		tell(state, COLL_OBSERVE_COMM, COLL_OBSERVED_BEGIN, i, 0);
		tell(state, COLL_OBSERVE_FAILURE, COLL_OBSERVED_BEGIN, i, 0);
		tell(state, COLL_OBSERVE_COMM, COLL_OBSERVED_END, i, 0);
	}
	timeline->close(state);
	file_bytes = INT64_C(1) << 30;
	is_whole("bound");
	ok(!stat(file_option, &st) && st.st_size <= 512 << 10,
	   "the bound is of communicators, too");
	state = begin("streams");
	for (stream = 1; stream <= 5000; stream++) {
		tell(state, COLL_OBSERVE_CALL, COLL_OBSERVED_BEGIN, 1, stream);
		tell(state, COLL_OBSERVE_CALL, COLL_OBSERVED_END, 1, stream);
	}
	stream = 0;
	timeline->close(state);
	is_whole("streams");
	is_int(count("\"cat\":\"call\""), 5000, "calls on many streams, one after the other");
}

static void test_again(void)
{
	void *state = begin("again"), *other;

	call(state, 1, 1);
	other = begin("again");
	call(other, 2, 1);
	timeline->close(state);
	call(other, 2, 2);
	timeline->close(other);
	state = begin("again");
	call(state, 3, 1);
	timeline->close(state);
	is_whole("again");
	is_int(count("\"cat\":\"call\""), 4, "communicators at a time and in turn share a file");
}

/* pwrite for the timeline, as on a file system that hangs. */
static _Atomic int pwrite_hangs, pwrites_hung;

__attribute__((visibility("default"))) ssize_t pwrite64(int fd, const void *text, size_t size,
							off64_t at)
{
	while (atomic_load(&pwrite_hangs)) {
		atomic_store(&pwrites_hung, 1);
		usleep(1000);
	}
	return syscall(SYS_pwrite64, fd, text, size, at);
}

__attribute__((visibility("default"))) ssize_t pwrite(int fd, const void *text, size_t size,
						      off_t at)
{
	return pwrite64(fd, text, size, at);
}

static void test_hang(void)
{
	void *state = begin("hangs");

	atomic_store(&pwrite_hangs, 1);
	call(state, 1, 1);
	for (int ms = 0; ms < 20000 && !atomic_load(&pwrites_hung); ms++)
		usleep(1000);
	ok(atomic_load(&pwrites_hung), "a file system hangs");
	alarm(60);
	timeline->close(state);
	alarm(0);
	ok(atomic_load(&pwrite_hangs), "close returns before the file system does");
	atomic_store(&pwrite_hangs, 0);
	for (int ms = 0; ms < 20000 && count("\"at\":\"end\"") == 0; ms += 10)
		usleep(10000);
	is_whole("hangs");
	is_int(count("\"cat\":\"call\""), 1, "the file is ended afterwards");
	state = begin("hangs");
	call(state, 1, 2);
	timeline->close(state);
	is_int(count("\"cat\":\"call\""), 2, "and used again");
}

/* The turns of test_turns: `close_turn` begins before its close, and `closed` has ended after it. */
static _Atomic int close_turn, closed;

static void *close_own(void *arg)
{
	atomic_fetch_add(&close_turn, 1);
	timeline->close(arg);
	atomic_fetch_add(&closed, 1);
	return NULL;
}

static void *open_as(int rank)
{
	coll_observer_host_t *own = &hosts[rank];
	coll_error_t err = {.size = sizeof(err)};
	void *state = NULL;

	*own = host;
	own->rank = rank;
	if (timeline->open(own, &state, &err))
		bail_out("open: %s", err.text);
	return state;
}

/* While a thread closes the last timeline, this one opens another, which lives until that close has returned. */
static void test_turns(void)
{
	int in_time = 1;

	snprintf(file_option, sizeof(file_option), "%s/turns", directory);
	for (int i = 1; i <= TURNS && in_time; i++) {
		void *own = open_as(0), *other;
		pthread_t thread;

		pthread_create(&thread, NULL, close_own, own);
		while (atomic_load(&close_turn) < i)
			sched_yield();
		for (volatile int spin = 0; spin < i % 50 * 1000;)
			spin++;
		other = open_as(1);
		for (int ms = 0; ms < 20000 && atomic_load(&closed) < i; ms++)
			usleep(1000);
		in_time = atomic_load(&closed) == i;
		timeline->close(other);
		pthread_join(thread, NULL);
	}
	ok(in_time, "a close returns while another thread's timeline lives");
}

static void *open_first(void *rank)
{
	void *state;

	/* They come at the same time, as pthread_barrier_wait does not have them. */
	atomic_fetch_add(&first_open, 1);
	while (atomic_load(&first_open) < FIRST_OPENS)
		continue;
	state = open_as(*(int *)rank);
	call(state, 1, 1);
	timeline->close(state);
	return NULL;
}

/* In a new process the first opens of several threads come at once. */
static void first_opens(void)
{
	int rank[FIRST_OPENS];
	pthread_t thread[FIRST_OPENS];

	alarm(60);
	for (int i = 0; i < FIRST_OPENS; i++) {
		rank[i] = i;
		pthread_create(&thread[i], NULL, open_first, &rank[i]);
	}
	for (int i = 0; i < FIRST_OPENS; i++)
		pthread_join(thread[i], NULL);
	_exit(0);
}

static void test_first_opens(void)
{
	int bad = 0;

	snprintf(file_option, sizeof(file_option), "%s/first", directory);
	for (int i = 0; i < TURNS / 4 && !bad; i++) {
		const pid_t child = fork();

		if (child == 0)
			first_opens();
		waitpid(child, &bad, 0);
	}
	is_int(bad, 0, "the first opens of a process may come at once");
}

static void test_fork(void)
{
	coll_error_t err = {.size = sizeof(err)};
	void *state = begin("fork"), *own;
	int status = -1;
	pid_t child;

	call(state, 1, 1);
	child = fork();
	if (child == 0) {
		own = try_begin("child", &err); /* the child prints no checks */
		if (!own)
			_exit(2);
		call(own, 1, 1);
		timeline->close(own);
		_exit(strstr(read_all(), "\"at\":\"end\"") == NULL);
	}
	waitpid(child, &status, 0);
#ifdef TESTS_THREAD_SANITIZER
	skip(1, "ThreadSanitizer ends a child whose new thread lies where its parent has one");
#else
	is_int(status, 0, "a process that fork has made writes its own");
#endif
	call(state, 1, 2);
	timeline->close(state);
	snprintf(file_option, sizeof(file_option), "%s/fork", directory);
	is_whole("fork");
	is_int(count("\"cat\":\"call\""), 2, "and the parent goes on");
}

static void test_while_it_runs(void)
{
	void *state = begin("runs");
	struct stat st;

	call(state, 1, 1);
	for (int i = 0; i < 2000 && !strstr(read_all(), "\"cat\":\"call\""); i++)
		usleep(10000);
	is_whole("while it runs");
	ok(stat(file_option, &st) == 0 && (st.st_mode & 0777) == 0600, "mode 0600");
	timeline->close(state);
}

int main(void)
{
	const char *top = getenv("top_builddir");
	char path[4096];
	void *file;

	snprintf(path, sizeof(path), "%s/.libs/observer_timeline.so", top ? top : ".");
	file = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	timeline = file ? dlsym(file, COLL_OBSERVER_SYMBOL) : NULL;
	snprintf(directory, sizeof(directory), "/tmp/timeline_test.XXXXXX");
	if (!timeline || !mkdtemp(directory))
		bail_out("%s: %s", path, dlerror());
	test_events();
	test_options();
	test_threads();
	test_flood();
	test_lost_ends();
	test_many();
	test_again();
	test_hang();
	test_turns();
	test_first_opens();
	test_fork();
	test_while_it_runs();
	snprintf(path, sizeof(path), "rm -rf %s", directory);
	ok(system(path) == 0, "the files are gone");
	return done_testing();
}
