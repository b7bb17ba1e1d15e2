/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * flags_test.c - the bits of coll_backend_t.flags that ask the core for something, and the slot `finish`: see
 * tests/plugins/good/coll_flagged.c.
 */
#include "../lib/ranks.h"

#include <fcntl.h>
#include <sys/resource.h>

enum { WAITS = 20, WAIT_US = 4000 };

static long rank_sleeps(void)
{
	struct rusage usage;

	getrusage(RUSAGE_THREAD, &usage);
	return usage.ru_nvcsw;
}

/* Rank 0 waits for rank 1, again and again: how often does it sleep? */
static void wait_often(struct rank *r)
{
	long *sleeps = r->user, before = rank_sleeps();

	for (int i = 0; i < WAITS; i++) {
		if (r->rank == 1)
			ranks_sleep(WAIT_US * 1e-6);
		if (!sums_to(r, r->comm, r->rank, 1, "the sum"))
			return;
	}
	if (r->rank == 0)
		*sleeps = rank_sleeps() - before;
}

static void test_poll(void)
{
	long *sleeps = ranks_memory(sizeof(*sleeps));
	struct ranks_job job = {.backend = "flagged",
				.nranks = 2,
				.processes = 1,
				.fn = wait_often,
				.user = sleeps};

	ranks_ok(&job, "a backend that is polled");
	ok(*sleeps <= WAITS, "rank 0 sleeps %ld times in %d waits of %d us", *sleeps, WAITS,
	   WAIT_US);
	munmap(sleeps, sizeof(*sleeps));
}

/* ------------------------------------------------------------- closing and the end -- */

static char notes_name[] = "/tmp/flags_test.XXXXXX";

static void notes_begin(void)
{
	if (truncate(notes_name, 0))
		bail_out("%s: %s", notes_name, strerror(errno));
}

/* The lines so far, with spaces in place of their ends. */
static const char *notes_read(char text[RANKS_TEXT])
{
	int fd = open(notes_name, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : read(fd, text, RANKS_TEXT - 1);

	if (n < 0)
		bail_out("%s: %s", notes_name, strerror(errno));
	close(fd);
	text[n] = '\0';
	for (char *c = text; *c; c++)
		*c = *c == '\n' ? ' ' : *c;
	return text;
}

static void notes_add(const char *line)
{
	int fd = open(notes_name, O_WRONLY | O_APPEND | O_CLOEXEC);

	dprintf(fd, "%s\n", line);
	close(fd);
}

/* A child process that was forked from a rank is no user of the backend. */
static void fork_child(struct rank *r)
{
	int status = 1;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (pid == 0)
		exit(0);
	if (!ranks_reap(pid, ranks_now() + 60, &status) || status)
		rank_fail(r, "the child ended with status %#x", (unsigned)status);
}

static void come_late(struct rank *r)
{
	coll_comm_t child;

	if (!rank_did(r, coll_comm_dup(r->comm, &child), "dup"))
		return;
	if (r->rank == 0)
		fork_child(r);
	if (r->rank == 1) {
		ranks_sleep(0.3);
		notes_add("late");
	}
	rank_did(r, coll_comm_destroy(child), "destroy of a communicator that shares the endpoint");
}

static void die(struct rank *r)
{
	if (sums_to(r, r->comm, r->rank, 1, "the sum") && r->rank == 1)
		kill(getpid(), SIGKILL);
}

static void test_close(void)
{
	struct ranks_job job = {.backend = "flagged", .nranks = 2, .processes = 1, .fn = come_late};
	char text[RANKS_TEXT];

	notes_begin();
	ranks_ok(&job, "ranks that close together");
	notes_read(text);
	ok(!strcmp(text, "late close 0 close 1 finish finish ") ||
		   !strcmp(text, "late close 1 close 0 finish finish ") ||
		   !strcmp(text, "late close 0 finish close 1 finish ") ||
		   !strcmp(text, "late close 1 finish close 0 finish "),
	   "nobody closes before the last rank comes, and each process ends once: %s", text);
}

/* The test, not ranks_ok, knows that a rank dies. */
static void test_close_alone(void)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	struct ranks_job job = {.backend = "flagged", .nranks = 2, .processes = 1, .fn = die};
	char text[RANKS_TEXT];

	notes_begin();
	ranks_run_processes(&job, shared);
	is_str(shared->failure[0], "", "the survivor");
	is_str(notes_read(text), "close 0 alone finish ", "it does not wait for the dead rank");
	munmap(shared, sizeof(*shared));
}

/* ------------------------------------------------------------- opens and the end -- */

static void *open_alone(void *arg)
{
	coll_config_t config;
	coll_comm_t comm;

	(void)arg;
	ranks_config(&config, "flagged");
	if (coll_comm_init_all(&comm, 1, NULL, &config))
		notes_add(coll_get_last_error(NULL));
	return NULL;
}

/* A process whose threads open the backend at once, and that ends after the opens, or in one that does not return. */
__attribute__((noreturn)) static void open_and_end(int threads, int opens)
{
	char number[16], text[RANKS_TEXT] = "";
	const double end = ranks_now() + 60;
	pthread_t thread[2];

	snprintf(number, sizeof(number), "%d", opens);
	setenv("FLAGGED_OPENS", number, 1);
	for (int i = 0; i < threads; i++)
		if (pthread_create(&thread[i], NULL, open_alone, NULL))
			exit(1);
	for (int i = 0; i < threads && threads == opens; i++)
		pthread_join(thread[i], NULL);
	while (!strstr(notes_read(text), "open") && ranks_now() < end)
		ranks_sleep(0.001);
	exit(0);
}

static void test_end(int threads, int opens, const char *want, const char *what)
{
	char text[RANKS_TEXT];
	int status = 1;
	pid_t pid;

	notes_begin();
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		open_and_end(threads, opens);
	if (!ranks_reap(pid, ranks_now() + 60, &status) || status)
		diag("the process ended with status %#x", (unsigned)status);
	is_str(notes_read(text), want, "%s", what);
}

int main(void)
{
	int fd = mkstemp(notes_name);

	if (fd < 0)
		bail_out("%s: %s", notes_name, strerror(errno));
	close(fd);
	ranks_plugins("tests/plugins/.libs", NULL);
	setenv("FLAGGED_NOTES", notes_name, 1);
	test_poll();
	test_close();
	test_close_alone();
	test_end(1, 1, "open finish handler ",
		 "a backend ends before the handlers that its first open installs");
	test_end(2, 2, "open open finish handler ",
		 "also before those of an open that was under way when the first one returned");
	test_end(1, 2, "open finish ", "a backend whose first open has not returned ends too");
	unlink(notes_name);
	return done_testing();
}
