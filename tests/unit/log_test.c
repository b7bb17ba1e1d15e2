/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * log_test.c - the formats of log lines; levels of subsystems; log files: whose they are, rotation, fork, threads, and what
 * happens when they cannot be written.
 */
#include "base/error.h"
#include "base/log.h"
#include "base/log_file.h"
#include "tools/lib/json_read.h"
#include "../lib/log_capture.h"
#include "../lib/plugin_dir.h"

#include <errno.h>
#include <signal.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>

enum { THREADS = 8, LINES = 200, TOGETHER = 40, OTHER = 65533, LATER_US = 1100000 };

/* ------------------------------------------------------------------------ helpers -- */

static int count(const char *text, const char *piece)
{
	int n = 0;

	for (; (text = strstr(text, piece)); text += strlen(piece))
		n++;
	return n;
}

/* A place in a file of the test's directory. */
static struct log_place in(const char *name, int rank)
{
	return (struct log_place){rank, log_file_get(at(name), rank)};
}

static void say(struct log_place place, const char *text)
{
	const struct log_about about = {.subsystem = "watch", .comm = "7", .place = place};

	log_about(&about, COLL_LOG_WARN, "%s", text);
}

/* Waits until the file is looked at again. */
static void later(void)
{
	const struct timespec time = {LATER_US / 1000000, LATER_US % 1000000 * 1000L};

	nanosleep(&time, NULL);
}

/* ------------------------------------------------------------------------- formats -- */

/* Does the text match, where '#' stands for a digit? */
static int looks_like(const char *text, const char *pattern)
{
	for (; *pattern; text++, pattern++)
		if (*pattern == '#' ? *text < '0' || *text > '9' : *text != *pattern)
			return 0;
	return 1;
}

static void test_text(void)
{
	const struct log_about nothing = {.place = {LOG_NO_RANK, NULL}};
	char host[128], want[400];

	gethostname(host, sizeof(host));
	log_begin();
	say((struct log_place){3, NULL}, "short");
	log_set_format(LOG_TEXT);
	say((struct log_place){3, NULL}, "one\ntwo");
	log_about(&nothing, COLL_LOG_ERROR, "bare");
	log_plugin(&nothing, COLL_LOG_WARN, "tcp", "from a plugin");
	log_end();
	has_str(log_text(), "coll warn: short\n", "the short line has no place");
	ok(looks_like(strchr(log_text(), '\n') + 1, "####-##-##T##:##:##.######Z "),
	   "the time is RFC 3339 with microseconds");
	snprintf(want, sizeof(want), "Z %s[%ld] rank 3 comm 7 watch warn: one two\n", host,
		 (long)getpid());
	has_str(log_text(), want, "host, process, rank, communicator, subsystem, level, sentence");
	has_str(log_text(), "] rank - comm - - error: bare\n", "what is not known is '-'");
	has_str(log_text(), " rank - comm - tcp warn: from a plugin\n",
		"a plugin is the subsystem of its lines");
}

/* The member of the first line of JSON in the log, or "null". */
static const char *member(const char *line, const char *key)
{
	static char text[2000];
	struct json_value *document;
	const struct json_value *value;

	put("line.json", line, strcspn(line, "\n"));
	document = json_read("log_test", at("line.json"));
	value = json_get(document, key);
	if (!value)
		snprintf(text, sizeof(text), "(missing)");
	else if (value->kind == JSON_NUMBER)
		snprintf(text, sizeof(text), "%.0f", value->number);
	else
		snprintf(text, sizeof(text), "%s", value->text ? value->text : "null");
	json_free(document);
	return text;
}

static const char *json_line(const char *text)
{
	static char line[8192];

	log_begin();
	say((struct log_place){3, NULL}, text);
	log_end();
	snprintf(line, sizeof(line), "%s", log_text());
	return line;
}

static void test_json(void)
{
	const char *line;
	char pid[32], any[256], big[3000];

	log_set_format(LOG_JSON);
	line = json_line("a \"b\" \\ c");
	snprintf(pid, sizeof(pid), "%ld", (long)getpid());
	is_str(member(line, "rank"), "3", "rank");
	is_str(member(line, "pid"), pid, "pid");
	is_str(member(line, "communicator"), "7", "communicator");
	is_str(member(line, "subsystem"), "watch", "subsystem");
	is_str(member(line, "level"), "warn", "level");
	is_str(member(line, "text"), "a \"b\" \\ c", "quotes and backslashes come back");
	ok(looks_like(member(line, "time"), "####-##-##T##:##:##.######Z"), "time");
	for (int i = 0; i < 255; i++)
		any[i] = (char)(i + 1);
	any[255] = '\0';
	line = json_line(any);
	is_int(count(line, "\n"), 1, "any bytes are one line");
	has_str(member(line, "text"), "\\ufffd", "which is well-formed JSON");
	has_str(json_line("gr\xc3\xbc\xc3\x9f e\xe2\x82\xac \xf0\x9f\x98\x80 \xc3"),
		"gr\xc3\xbc\xc3\x9f e\xe2\x82\xac \xf0\x9f\x98\x80 \\ufffd",
		"UTF-8 stays, half a character does not");
	memset(big, 1, sizeof(big) - 1);
	big[sizeof(big) - 1] = '\0';
	line = json_line(big);
	ok(strlen(line) <= 4096, "a line fits one atomic write to a pipe (%zu)", strlen(line));
	has_str(member(line, "text"), "\\u0001", "a sentence that is cut is well-formed");
	log_set_format(LOG_UNSET);
}

/* -------------------------------------------------------------------------- levels -- */

static const char *parsed(const char *text)
{
	static char out[400];
	struct log_levels levels;
	char why[300];

	if (log_levels_parse(text, &levels, why, sizeof(why)))
		snprintf(out, sizeof(out), "%s", why);
	else
		snprintf(out, sizeof(out), "%s watch %s tcp %s most %s",
			 log_level_name(levels.level),
			 log_level_name(log_levels_of(&levels, "watch")),
			 log_level_name(log_levels_of(&levels, "tcp")),
			 log_level_name(log_levels_most(&levels)));
	return out;
}

static void test_levels(void)
{
	struct log_levels levels;
	char why[300], many[600] = "warn";

	is_str(parsed("info"), "info watch info tcp info most info", "one level");
	is_str(parsed(" info , watch : debug,tcp:trace"), "info watch debug tcp trace most trace",
	       "levels of subsystems, with blanks");
	is_str(parsed("watch:error"), "warn watch error tcp warn most warn", "no general level");
	has_str(parsed("wran"), "'wran' is no level: expected one of error, warn", "a wrong level");
	has_str(parsed("wran"), "; did you mean 'warn'?", "the level that is like it");
	has_str(parsed("info,watch:loud"), "'loud' is no level", "a wrong level of a subsystem");
	has_str(parsed("info,"), "'' is no level", "a comma at the end");
	has_str(parsed("info,debug"), "'info' and 'debug' are both for all lines", "two levels");
	has_str(parsed("watch:info,watch:debug"), "'watch' has two levels", "a name twice");
	has_str(parsed("Wa tch:info"), "cannot be the name of a subsystem", "no name");
	has_str(parsed(":info"), "cannot be the name of a subsystem", "an empty name");
	has_str(parsed("\x1b[1m:info"), "'?[1m' cannot be", "control bytes are not repeated");
	for (int i = 0; i < 33; i++)
		snprintf(many + strlen(many), sizeof(many) - strlen(many), ",p%d:info", i);
	has_str(parsed(many), "'p32' is one name too many", "too many names");
	log_levels_parse("error,watch:debug", &levels, why, sizeof(why));
	log_set_levels(&levels);
	ok(log_wants("watch", COLL_LOG_DEBUG) && !log_wants("watch", COLL_LOG_TRACE) &&
		   !log_wants("tcp", COLL_LOG_WARN) && !log_wants(NULL, COLL_LOG_WARN),
	   "the levels are in force");
	log_begin();
	log_message("watch", COLL_LOG_DEBUG, "seen");
	log_message("comm", COLL_LOG_WARN, "not seen");
	log_plugin(&(struct log_about){.place = {LOG_NO_RANK, NULL}}, COLL_LOG_WARN, "tcp",
		   "not seen");
	log_end();
	is_str(log_text(), "coll debug: seen\n", "only the named subsystem logs more");
	log_set_level(COLL_LOG_WARN);
}

/* --------------------------------------------------------------------------- files -- */

static void test_file(void)
{
	struct stat st;
	struct log_place place = in("a.%r.log", 4);

	umask(0);
	errno = EXDEV;
	error_set(COLL_ERR_CONFIG, "the text of the caller");
	say(place, "first");
	is_int(errno, EXDEV, "errno stays");
	is_str(error_text(), "the text of the caller", "so does the error of the thread");
	say(place, "second");
	is_int(count(content("a.4.log"), "\n"), 2, "two lines");
	has_str(content("a.4.log"), " rank 4 comm 7 watch warn: first\n", "in the format text");
	is_int(stat(at("a.4.log"), &st) ? 0 : st.st_mode & 07777, 0600, "nobody else may read it");
	ok(log_file_get(at("a.%r.log"), 4) == place.file, "the same file for the same rank");
	ok(log_file_get(at("a.%r.log"), 5) != place.file, "another rank has another one");
	ok(log_file_get(at("a.log"), 4) == log_file_get(at("a.log"), 5),
	   "ranks share a file whose name lacks the rank, and its descriptor");
	put("old.log", "before\n", 7);
	say(in("old.log", 0), "after");
	ok(!strncmp(content("old.log"), "before\n20", 9), "a file that is there goes on");
}

static void test_relative(void)
{
	char cwd[400];
	struct log_file *file;

	if (!getcwd(cwd, sizeof(cwd)) || mkdir(at("100%r"), 0700) || chdir(at("100%r")))
		bail_out("chdir");
	file = log_file_get("here.%r", 2);
	if (chdir("/"))
		bail_out("chdir");
	say((struct log_place){2, file}, "from elsewhere");
	has_str(content("100%r/here.2"), "from elsewhere", "a relative path stays where it began");
	make_dir("lost");
	if (chdir(at("lost")) || rmdir(at("lost")))
		bail_out("chdir");
	log_begin();
	ok(!log_file_get("here", 2), "no file without a working directory");
	log_end();
	has_str(log_text(),
		"working directory cannot be found: No such file or directory; name an absolute "
		"path",
		"a warning says why, and what to do");
	if (chdir(cwd))
		bail_out("chdir");
}

/* The lines that come to stderr when two lines are said in a place. */
static const char *said(struct log_place (*open)(void))
{
	struct log_place place;

	log_begin();
	place = open();
	say(place, "kept one");
	say(place, "kept two");
	log_end();
	return log_text();
}

static const char *refused_name;

static struct log_place open_refused(void)
{
	return in(refused_name, 0);
}

static void refused(const char *name, const char *reason, const char *what)
{
	const char *text;

	refused_name = name;
	text = said(open_refused);
	has_str(text, reason, "%s: the reason", what);
	is_int(count(text, "(option log_file) cannot be opened"), 1, "%s: one warning", what);
	ok(strstr(text, "kept one") && strstr(text, "kept two"), "%s: the lines are on stderr",
	   what);
}

static void test_refused(void)
{
	put("target", "", 0);
	if (symlink(at("target"), at("link.log")) || link(at("target"), at("hard.log")) ||
	    mkfifo(at("fifo.log"), 0600))
		bail_out("cannot make links");
	make_dir("folder.log");
	refused("link.log", "it is a symbolic link", "a symbolic link");
	refused("hard.log", "has other names too", "a second name of a file");
	refused("fifo.log", "it is no regular file", "a pipe that nobody reads");
	refused("folder.log", "Is a directory", "a directory");
	refused("no/where.log", "No such file or directory", "a missing directory");
	is_str(content("target"), "", "nothing was written through a link");
}

/* As root only: who else could give files to others? */
static void test_others(void)
{
	if (geteuid()) {
		skip(9, "only root can make files of other users");
		return;
	}
	make_dir("common");
	put("common/theirs.log", "", 0);
	make_dir("own");
	if (chmod(at("common"), 01777) || symlink(at("own"), at("common/way")) ||
	    lchown(at("common/way"), OTHER, OTHER) || chown(at("common/theirs.log"), OTHER, OTHER))
		bail_out("cannot give files away");
	refused("common/theirs.log", "", "a file of another user");
	refused("common/way/x.log", "symbolic link", "a link of another user on the way");
	ok(access(at("own/x.log"), F_OK), "the link was not followed");
	is_str(content("common/theirs.log"), "", "the file of another user is empty");
	say(in("common/mine.log", 0), "mine");
	has_str(content("common/mine.log"), "mine", "a common directory is good");
}

static struct log_place open_full(void)
{
	return (struct log_place){0, log_file_get("/dev/full", 0)};
}

static void test_full_device(void)
{
	const char *text = said(open_full);

	has_str(text, "'/dev/full' (option log_file) cannot be written: No space left on device",
		"a full device");
	is_int(count(text, "cannot be written"), 1, "one warning");
	ok(strstr(text, "kept one") && strstr(text, "kept two"), "the lines are on stderr");
}

/* A disk of 64 KiB: fills it, then makes room. */
static void test_full_disk(void)
{
	static char filler[1 << 16];
	struct log_place place;
	const char *text;

	make_dir("disk");
	if (geteuid() || mount("none", at("disk"), "tmpfs", 0, "size=64k")) {
		skip(5, "no file system can be mounted here");
		return;
	}
	put("disk/filler", filler, sizeof(filler) - 4096);
	place = in("disk/full.log", 0);
	log_begin();
	for (int i = 0; i < 100; i++)
		say(place, "a line of a log that fills the disk");
	log_end();
	text = log_text();
	is_int(count(text, "cannot be written: No space left on device"), 1, "one warning");
	is_int(count(text, "fills the disk") + count(content("disk/full.log"), "the disk\n"), 100,
	       "each line is in the file or on stderr");
	ok(count(content("disk/full.log"), "the disk\n") > 10, "lines fit before");
	if (unlink(at("disk/filler")))
		bail_out("unlink");
	say(place, "there is room again");
	has_str(content("disk/full.log"), " warn: there is room again\n", "the file goes on");
	is_int(count(content("disk/full.log"), "\n20"), count(content("disk/full.log"), "\n") - 1,
	       "each line begins at the beginning of a line");
	if (umount2(at("disk"), MNT_DETACH))
		diag("cannot unmount %s", at("disk"));
}

/* In a child, since the limit cannot be raised again by everybody. */
static void test_limit(void)
{
	const struct rlimit limit = {1000, 1000};
	struct log_place place = in("limit.log", 0);
	int status = -1;
	pid_t child;

	log_begin();
	child = fork();
	if (child == 0) {
		setrlimit(RLIMIT_FSIZE, &limit);
		for (int i = 0; i < 20; i++)
			say(place, "a line that counts against ulimit -f");
		_exit(0);
	}
	waitpid(child, &status, 0);
	log_end();
	ok(WIFEXITED(status) && !WEXITSTATUS(status), "ulimit -f ends no process (status %d)",
	   status);
	has_str(log_text(), "the file may not grow (ulimit -f)", "the warning says why");
	ok(strlen(content("limit.log")) <= 1000, "the file keeps its limit");
}

/* ------------------------------------------------------------------------ rotation -- */

static void test_rename(void)
{
	struct log_place place = in("turn.log", 0);

	say(place, "before");
	if (rename(at("turn.log"), at("turn.log.1")))
		bail_out("rename");
	later();
	say(place, "after");
	has_str(content("turn.log.1"), "before", "the file that was renamed keeps its lines");
	ok(!strstr(content("turn.log.1"), "after"), "it gets no more");
	has_str(content("turn.log"), "after", "the next line makes a new file");
	if (unlink(at("turn.log")) || symlink(at("turn.log.1"), at("turn.log")))
		bail_out("symlink");
	later();
	log_begin();
	say(place, "not through a link");
	log_end();
	ok(!strstr(content("turn.log.1"), "through"), "a link in its place is not followed");
	has_str(log_text(), "cannot be opened: refused for safety", "the warning says why");
	has_str(log_text(), "warn: not through a link\n", "the line is on stderr");
	log_begin();
	say(place, "still not");
	log_end();
	has_str(log_text(), "warn: still not\n", "and so is the next one");
	if (unlink(at("turn.log")))
		bail_out("unlink");
	later();
	log_begin();
	say(place, "back in a file");
	log_end();
	has_str(content("turn.log"), "warn: back in a file\n", "until the path is good again");
	is_str(log_text(), "", "and no line is on stderr then");
}

/* A directory that is gone: nobody reads the lines of a file without a name. */
static void test_gone(void)
{
	struct log_place place;

	make_dir("gone");
	place = in("gone/x.log", 0);
	say(place, "before");
	if (unlink(at("gone/x.log")) || rmdir(at("gone")))
		bail_out("rmdir");
	later();
	log_begin();
	say(place, "without a directory");
	log_end();
	has_str(log_text(), "warn: without a directory\n",
		"a directory is gone: the line is on stderr");
}

static void test_truncate(void)
{
	struct log_place place = in("cut.log", 0);

	say(place, "before");
	if (truncate(at("cut.log"), 0))
		bail_out("truncate");
	say(place, "after");
	ok(!strncmp(content("cut.log"), "20", 2) && strstr(content("cut.log"), "after"),
	   "a file that is cut goes on at its beginning, without a hole");
}

/* A program may close all descriptors, and get the number of the log file for a file of its own. */
static void test_closed(void)
{
	struct log_place place = in("closed.log", 0);
	int others[64], n = 0, status;
	pid_t child = fork();

	if (child == 0) {
		say(place, "before");
		for (int fd = 3; fd < 100; fd++)
			close(fd);
		while (n < 64)
			others[n++] = open(at("program.txt"), O_WRONLY | O_CREAT, 0600);
		say(place, "after");
		_exit(others[0] < 0);
	}
	waitpid(child, &status, 0);
	is_int(status, 0, "a program closes all descriptors");
	is_str(content("program.txt"), "", "no line comes into a file of the program");
	has_str(content("closed.log"), "after", "the log file is opened again");
}

/* --------------------------------------------------------------- processes, threads -- */

static void test_fork(void)
{
	struct log_place place = in("fork.%p", 1);
	struct log_place former;
	char own[64], theirs[64], want[64];
	pid_t child;

	former = log_enter(place);
	log_message("comm", COLL_LOG_WARN, "of the parent");
	child = fork();
	if (child == 0) {
		log_leave(former);
		log_message("comm", COLL_LOG_WARN, "of the child");
		log_enter((struct log_place){9, place.file});
		log_message("comm", COLL_LOG_WARN, "of its own job");
		_exit(0);
	}
	waitpid(child, NULL, 0);
	log_leave(former);
	snprintf(own, sizeof(own), "fork.%ld", (long)getpid());
	snprintf(theirs, sizeof(theirs), "fork.%ld", (long)child);
	has_str(content(own), " rank 1 comm - comm warn: of the parent", "the parent's line");
	is_int(count(content(own), "\n"), 1, "the parent's file has no line of the child");
	snprintf(want, sizeof(want), "[%ld] rank - comm - comm warn: of the child", (long)child);
	has_str(content(theirs), want, "a child has no rank");
	snprintf(want, sizeof(want), "[%ld] rank 9 comm - comm warn: of its own", (long)child);
	has_str(content(theirs), want, "until it makes a communicator");
}

/* ---- threads whose first lines in a process come at the same time: one of them opens the file ---- */

static pthread_barrier_t together_barrier;
static struct log_file *together_file;

static void *say_together(void *arg)
{
	const struct log_place place = {(int)(intptr_t)arg, together_file};

	pthread_barrier_wait(&together_barrier);
	log_enter(place);
	say(place, "together");
	return NULL;
}

/* Afterwards the process has several ranks, and so its lines have none. */
static void together(void)
{
	pthread_t thread[THREADS];

	pthread_barrier_init(&together_barrier, NULL, THREADS);
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, say_together, (void *)(intptr_t)i))
			_exit(1);
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	_exit(log_here("comm").place.rank >= 0);
}

static void test_together(void)
{
	int failed = 0, status;
	pid_t child;

	together_file = in("together.log", 0).file;
	log_begin();
	for (int i = 0; i < TOGETHER; i++) {
		child = fork();
		if (child == 0)
			together();
		waitpid(child, &status, 0);
		failed += status != 0;
	}
	log_end();
	is_int(failed, 0, "threads of children write their first lines at the same time");
	is_str(log_text(), "", "no line is on stderr");
	is_int(count(content("together.log"), "warn: together\n"), TOGETHER * THREADS,
	       "all are in the file");
}

static char threads_path[200];

static void *say_many(void *arg)
{
	const int rank = (int)(intptr_t)arg;
	const struct log_place former =
		log_enter((struct log_place){rank, log_file_get(threads_path, rank)});

	for (int i = 0; i < LINES; i++)
		log_message("comm", COLL_LOG_WARN, "thread %d line %d", rank, i);
	log_leave(former);
	return NULL;
}

static void test_threads(void)
{
	pthread_t thread[THREADS];
	const char *text;
	char want[64];
	int right = 0;

	snprintf(threads_path, sizeof(threads_path), "%s", at("threads.log"));
	for (intptr_t i = 0; i < THREADS; i++)
		if (pthread_create(&thread[i], NULL, say_many, (void *)i))
			bail_out("no thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(thread[i], NULL);
	text = content("threads.log");
	is_int(count(text, "\n"), THREADS * LINES, "every line of every thread is whole");
	for (int rank = 0; rank < THREADS; rank++) {
		snprintf(want, sizeof(want), " rank %d comm - comm warn: thread %d line ", rank,
			 rank);
		right += count(text, want);
	}
	is_int(right, THREADS * LINES, "each names the rank of its thread");
}

int main(void)
{
	plugin_dir_begin();
	test_text();
	test_json();
	test_levels();
	test_file();
	test_relative();
	test_refused();
	test_others();
	test_full_device();
	test_full_disk();
	test_limit();
	test_rename();
	test_gone();
	test_truncate();
	test_closed();
	test_fork();
	test_together();
	test_threads();
	plugin_dir_end();
	return done_testing();
}
