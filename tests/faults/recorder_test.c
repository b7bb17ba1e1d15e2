/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * recorder_test.c - the last operations of a communicator that fails: the warning, and the file that the
 * option `dump` asks for.
 *
 * Arguments: the backends; without any, simulated and tcp.
 */
#include "../lib/log_capture.h"
#include "../lib/ranks.h"

#include <dirent.h>
#include <sys/stat.h>

enum { SIZE = 64, CALLS = 70, LINES = 80, USER = 4711 };

static const char *backend;
static char dir[] = "/tmp/coll-recorder-XXXXXX";
static _Atomic int over; /* rank 0 has its error */

/* ----------------------------------------------------------------------- the files -- */

/* One file of a rank: its lines, "" after the last. */
struct dump {
	char name[256], line[LINES][400];
	int lines, ops;
	mode_t mode;
};

static struct dump dump;

static const char *at(const char *name)
{
	static char path[600];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

/* The number of files in the directory with both words in their names; dump.name is one of these. */
static int files(const char *word, const char *too)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	int n = 0;

	if (!d)
		bail_out("no directory %s", dir);
	while ((e = readdir(d)))
		if (e->d_name[0] != '.' && strstr(e->d_name, word) && strstr(e->d_name, too)) {
			snprintf(dump.name, sizeof(dump.name), "%s", e->d_name);
			n++;
		}
	closedir(d);
	return n;
}

static void remove_files(void)
{
	while (files("", ""))
		if (remove(at(dump.name)))
			bail_out("cannot remove %s", dump.name);
}

/* Reads the one file of a rank and this communicator. */
static int read_dump(const char *rank, const char *comm)
{
	struct stat st = {0};
	FILE *file;

	memset(&dump, 0, sizeof(dump));
	if (!is_int(files(rank, comm), 1, "%s: one file of%s and communicator%s", backend, rank,
		    comm))
		return 0;
	file = fopen(at(dump.name), "r");
	if (!file || fstat(fileno(file), &st))
		bail_out("cannot read %s", dump.name);
	dump.mode = st.st_mode;
	while (dump.lines < LINES && fgets(dump.line[dump.lines], sizeof(dump.line[0]), file))
		dump.ops += dump.line[dump.lines++][0] != '#';
	fclose(file);
	return 1;
}

/* The line of an operation by its place from the end: 0 is the newest. */
static const char *line_of(int back)
{
	return dump.lines > back ? dump.line[dump.lines - 1 - back] : "";
}

/* --------------------------------------------------------------------- a missing call -- */

/* Rank 1 does not make the last call. */
static void missing_call(struct rank *r)
{
	int32_t x[3] = {1, 2, 3}, y[3];
	double deadline = ranks_now() + 60;

	for (int i = 0; i < CALLS; i++)
		if (!rank_did(r, coll_allreduce(x, y, 3, COLL_INT32, COLL_SUM, r->comm, NULL),
			      "allreduce") ||
		    !rank_did(r, coll_sync(r->comm), "sync"))
			return;
	if (r->rank == 0) {
		if (coll_broadcast(x, x, 2, COLL_INT32, 1, r->comm, NULL) ||
		    coll_sync(r->comm) != COLL_ERR_TIMEOUT)
			rank_fail(r, "no timeout");
		atomic_store(&over, 1);
	}
	while (!atomic_load(&over) && ranks_now() < deadline)
		ranks_sleep(0.01);
}

/* Are the three times of a line within the test, and in their order? */
static int has_times(const char *line, double from, double until)
{
	double issued = 0, started = 0, ended = 0;
	int n = sscanf(line, "%*s %*s %*s %*s %*s %*s %*s %*s %*s done %lf %lf %lf", &issued,
		       &started, &ended);

	return n == 3 && from - 0.02 <= issued && issued <= started && started <= ended &&
	       ended <= until;
}

static double day(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void test_missing_call(void)
{
	struct ranks_job job = {backend, 2, 0, missing_call, NULL};
	double from = day();
	int done = 0;

	atomic_store(&over, 0);
	setenv("COLL_TIMEOUT", "500ms", 1);
	setenv("COLL_DUMP", dir, 1);
	log_begin();
	ranks_ok(&job, "a call is missing");
	log_end();
	ok(strstr(log_text(),
		  "rank 0: 1 of the last 64 operations of the failed communicator are not "
		  "done: number 71, broadcast of 2 int32 with root 1, running for") &&
		   strstr(log_text(),
			  "the last that is done: number 70, allreduce of 3 int32 (sum), done") &&
		   strstr(log_text(),
			  "; the failure: rank 0: broadcast of 2 int32 with root 1 timed out"),
	   "%s: a warning names the calls and the failure", backend);
	ok(log_lines("rank 0 has written its last operations to '/tmp/coll-recorder-") == 1,
	   "%s: and the file", backend);
	if (!read_dump("-rank-0-", "-comm-0-"))
		return;
	is_int(dump.mode & 07777, 0600, "%s: a file of this user only", backend);
	is_int(dump.ops, SIZE, "%s: the last 64 operations", backend);
	for (int back = 1; back < SIZE; back++)
		done += strstr(line_of(back), " allreduce int32 0 3 12 - - done ") &&
			has_times(line_of(back), from, day()) &&
			atoi(line_of(back)) == CALLS + 1 - back;
	if (!is_int(done, SIZE - 1, "%s: those that are done, with their times", backend))
		diag("%s", line_of(1));
	if (!ok(!strncmp(line_of(0), "71 71 broadcast int32 - 2 8 1 - running ", 40) &&
			strstr(line_of(0), " - binomial broadcast of 2 int32 with root 1"),
		"%s: the one that is not", backend))
		diag("%s", line_of(0));
	ok(strstr(dump.line[1], " rank 0 ranks 2 world_rank 0 ") && strstr(dump.line[1], backend) &&
		   strstr(dump.line[2], " code 8 text ") != NULL &&
		   strstr(dump.line[2], "broadcast of 2 int32 with root 1 timed out"),
	   "%s: rank, backend and error", backend);
	remove_files();
	unsetenv("COLL_TIMEOUT");
}

/* ---------------------------------------------------------------------- a dead peer -- */

static void dead_peer(struct rank *r)
{
	char c[3] = "";

	if (r->rank == 1)
		_exit(0);
	if (coll_recv(c, 3, COLL_INT8, 1, 9, r->comm, NULL) == COLL_SUCCESS)
		coll_sync(r->comm);
	coll_result_t code = COLL_SUCCESS;

	coll_comm_get_async_error(r->comm, &code);
	if (code != COLL_ERR_PEER_LOST)
		rank_fail(r, "the error is %d, not a lost rank", code);
}

static void test_dead_peer(void)
{
	struct ranks_job job = {backend, 2, 1, dead_peer, NULL};

	if (!strcmp(backend, "simulated"))
		return;
	log_begin();
	ranks_ok(&job, "a rank dies");
	log_end();
	ok(0 < log_lines("rank 0: 1 of the last 1 operations of the failed communicator are not "
			 "done: number 1, recv of 3 int8 from rank 1 with tag 9, running for"),
	   "%s: a warning names the receive", backend);
	if (read_dump("-rank-0-", "-comm-0-"))
		ok(dump.ops == 1 && !strncmp(line_of(0), "1 - recv int8 - 3 3 1 9 running ", 32) &&
			   strstr(dump.line[2], "rank 1 was lost"),
		   "%s: the file too: %s", backend, line_of(0));
	remove_files();
}

/* ------------------------------------------------------------------ two communicators -- */

/* The child fails with operations in a group; the parent goes on, and fails later. */
static void two(struct rank *r)
{
	coll_comm_t child = NULL;
	char c = 0, x = 1, y = 0;

	if (!rank_did(r, coll_comm_split(r->comm, 0, 0, &child, NULL), "split"))
		return;
	for (int i = 0; i < 2; i++)
		if (!rank_did(r, coll_recv(&c, 1, COLL_INT8, !r->rank, (uint32_t)i, child, NULL),
			      "recv"))
			return;
	if (sums_to(r, r->comm, 1, 2, "before the abort"))
		coll_comm_abort(child);
	if (coll_allreduce(&x, &y, 1, COLL_INT8, COLL_SUM, r->comm, NULL) || coll_sync(r->comm) ||
	    y != 2)
		rank_fail(r, "the parent: %s", coll_get_last_error(NULL));
	coll_comm_destroy(child);
}

static void test_two(void)
{
	struct ranks_job job = {backend, 2, 0, two, NULL};

	log_begin();
	ranks_ok(&job, "one communicator of two fails");
	log_end();
	is_int(files("", ""), 2, "%s: a file for each rank of one communicator", backend);
	is_int(files("-comm-0-", ""), 0, "%s: which is not the parent", backend);
	is_int(log_lines("not done"), 0, "%s: no warning about an abort", backend);
	if (read_dump("-rank-1-", ""))
		ok(dump.ops == 2 && strstr(line_of(1), " running ") &&
			   strstr(line_of(0), " queued "),
		   "%s: a running and a queued operation: %s", backend, line_of(0));
	remove_files();
}

/* ------------------------------------------------------------- outside the order -- */

/* Of rank 0: a receive with a message, one that is cancelled, and OPEN others; no operation at all. */
static void messages(struct rank *r)
{
	enum { OPEN = 40 };
	static char to[OPEN + 2];
	coll_request_t request[OPEN + 2];
	double deadline = ranks_now() + 60;
	coll_result_t code = COLL_SUCCESS;

	if (r->rank == 1) {
		rank_did(r, coll_isend("abc", 3, COLL_INT8, 0, 5, r->comm, &request[0]), "isend");
		while (!code && ranks_now() < deadline)
			coll_comm_get_async_error(r->comm, &code);
		coll_request_free(request[0]);
		return;
	}
	rank_did(r,
		 coll_irecv(to, sizeof(to), COLL_INT8, COLL_ANY_SOURCE, COLL_ANY_TAG, r->comm,
			    &request[0]),
		 "irecv");
	rank_did(r, coll_wait(request[0]), "wait");
	for (int i = 1; i < OPEN + 2; i++)
		rank_did(r,
			 coll_irecv(to + i, 1, COLL_INT8, i % 2 ? COLL_ANY_SOURCE : 1, 100 + i,
				    r->comm, &request[i]),
			 "irecv");
	rank_did(r, coll_request_cancel(request[1]), "cancel");
	coll_comm_abort(r->comm);
	for (int i = 0; i < OPEN + 2; i++)
		coll_request_free(request[i]);
}

static void test_messages(void)
{
	struct ranks_job job = {backend, 2, 0, messages, NULL};
	static const char *const begins[] = {
		"- - irecv int8 - 3 3 1 5 done ", "- - irecv int8 - 1 1 -1 101 failed ",
		"- - irecv int8 - 1 1 1 102 running ", "- - irecv int8 - 1 1 -1 103 running "};
	static const char *const ends[] = {"coll_irecv of 3 int8 from rank 1 with tag 5\n",
					   "coll_irecv of 1 int8 from any rank with tag 101\n",
					   "coll_irecv of 1 int8 from rank 1 with tag 102\n",
					   "coll_irecv of 1 int8 from any rank with tag 103\n"};
	int found = 0;

	log_begin();
	ranks_ok(&job, "messages outside the order, and an abort");
	log_end();
	if (!read_dump("-rank-0-", ""))
		return;
	is_int(dump.ops, 2 + SIZE / 2, "%s: the ended messages, and the oldest open ones", backend);
	for (int i = 0; i < 4; i++)
		found += !strncmp(line_of(dump.ops - 1 - i), begins[i], strlen(begins[i])) &&
			 strstr(line_of(dump.ops - 1 - i), ends[i]);
	if (!is_int(found, 4, "%s: what each was, and what became of it", backend))
		for (int i = 0; i < 4; i++)
			diag("%s", line_of(dump.ops - 1 - i));
	remove_files();
}

/* --------------------------------------------------------------------- in the queue -- */

/* Two receives in a group; only the second one's message comes. */
static void beside(struct rank *r)
{
	coll_result_t code = COLL_SUCCESS;
	double deadline = ranks_now() + 60;
	volatile char first = 0, second = 0;
	char c = 1;

	/* Rank 0 may have got the message, and aborted, before the call returns. */
	if (r->rank == 1)
		code = coll_send(&c, 1, COLL_INT8, 0, 2, r->comm, NULL);
	if (r->rank == 0) {
		coll_group_start();
		coll_recv((char *)&first, 1, COLL_INT8, 1, 1, r->comm, NULL);
		coll_recv((char *)&second, 1, COLL_INT8, 1, 2, r->comm, NULL);
		coll_group_end();
	}
	while (r->rank == 0 && !second && ranks_now() < deadline)
		coll_comm_get_async_error(r->comm, &code);
	if (r->rank == 0 && !second)
		rank_fail(r, "the message has not come");
	if (r->rank == 0)
		coll_comm_abort(r->comm);
	while (r->rank == 1 && !code && ranks_now() < deadline)
		coll_comm_get_async_error(r->comm, &code);
}

static void test_beside(void)
{
	struct ranks_job job = {backend, 2, 0, beside, NULL};

	log_begin();
	ranks_ok(&job, "the second of two operations is done");
	log_end();
	if (read_dump("-rank-0-", "") &&
	    !ok(dump.ops == 2 && !strncmp(line_of(1), "1 - recv int8 - 1 1 1 1 running ", 32) &&
			!strncmp(line_of(0), "2 - recv int8 - 1 1 1 2 done ", 29),
		"%s: it is done, and the first still runs", backend))
		diag("%s%s", line_of(1), line_of(0));
	remove_files();
}

/* More operations wait than the recorder has room for. */
static void test_long_queue(void)
{
	coll_comm_t comm = NULL;
	char c;

	log_begin();
	if (coll_comm_init_env(&comm, NULL))
		diag("%s", coll_get_last_error(NULL));
	for (int i = 1; i <= CALLS; i++)
		coll_recv(&c, 1, COLL_INT8, -1, (uint32_t)i, comm, NULL);
	coll_comm_abort(comm);
	coll_comm_destroy(comm);
	log_end();
	if (read_dump("-rank-0-", "") &&
	    !ok(dump.ops == SIZE &&
			!strncmp(line_of(SIZE - 1), "7 - recv int8 - 1 1 -1 7 queued ", 32) &&
			!strncmp(line_of(0), "70 - recv int8 - 1 1 -1 70 queued ", 34),
		"the last 64 of %d operations in the queue", CALLS))
		diag("%s%s", line_of(SIZE - 1), line_of(0));
	remove_files();
}

/* ------------------------------------------------------------- names and directories -- */

/* A communicator of one rank fails with an operation that is not done. */
static void fail_alone(const char *dump_dir, const char *what)
{
	coll_comm_t comm = NULL;
	char c;

	setenv("COLL_DUMP", dump_dir, 1);
	log_begin();
	if (coll_comm_init_env(&comm, NULL) || coll_recv(&c, 1, COLL_INT8, -1, 1, comm, NULL) ||
	    coll_comm_abort(comm))
		diag("%s", coll_get_last_error(NULL));
	coll_comm_destroy(comm);
	log_end();
	ok(comm != NULL, "%s: the communicator is made", what);
}

static void expect_warning(const char *path, const char *reason, const char *what)
{
	fail_alone(path, what);
	if (!ok(log_lines("warn") == 1 && strstr(log_text(), path) && strstr(log_text(), reason),
		"%s: one warning", what))
		diag("%s", log_text());
	is_int(files("coll-", ""), 0, "%s: no file", what);
}

/* A link of another user must not lead this user's files elsewhere. */
static void test_links(void)
{
	char link[600];

	snprintf(link, sizeof(link), "%s", at("link"));
	if (symlink(".", link))
		bail_out("cannot make a link");
	fail_alone(link, "a link of this user");
	is_int(files("coll-", ""), 1, "is followed");
	if (lchown(link, USER, USER)) {
		skip(2, "only root can give a link away");
	} else {
		remove(at(dump.name));
		expect_warning(link, "another user owns the symbolic link",
			       "a link of another user");
	}
	remove_files();
}

static void test_directories(void)
{
	setenv("COLL_RANK", "0", 1);
	setenv("COLL_WORLD_SIZE", "1", 1);
	setenv("COLL_BACKEND", backend, 1);
	fail_alone(dir, "a directory");
	fail_alone(dir, "the same again");
	is_int(files("-rank-0-", ""), 2, "no file is replaced");
	remove_files();
	expect_warning(at("nosuch"), "(option dump, set by COLL_DUMP): No such file or directory",
		       "no directory");
	expect_warning("/dev/null", "Not a directory", "a file");
	expect_warning("/proc/self/fd", "cannot", "a directory without files");
	setenv("COLL_DUMP", dir, 1);
	test_long_queue();
	fail_alone("", "an empty option");
	is_str(log_text(), "", "is no directory, and no error");
	test_links();
}

int main(int argc, char **argv)
{
	const char *const usual[] = {"simulated", "tcp"};
	int n = argc > 1 ? argc - 1 : 2;

	if (!mkdtemp(dir))
		bail_out("cannot make a directory");
	for (int i = 0; i < n; i++) {
		backend = argc > 1 ? argv[i + 1] : usual[i];
		if (!ranks_can(backend))
			continue;
		test_missing_call();
		test_dead_peer();
		test_two();
		test_beside();
		test_messages();
	}
	test_directories();
	rmdir(dir);
	return done_testing();
}
