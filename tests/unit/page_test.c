/* SPDX-License-Identifier: BSD-3-Clause */
/* page_test.c - the page of a rank: who writes it, who reads it, what is left of it, and what may be wrong with its directory. */
#include "../lib/namespaces.h"
#include "../lib/tap.h"
#include "page/page_directory.h"
#include "page/page_file.h"
#include "page/page_read.h"
#include "base/error.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

enum { READERS = 1000, JOB = 7 };

static char dir[] = "/dev/shm/coll-page-XXXXXX";
static const struct page_of of = {
	.job = JOB, .rank = 1, .nranks = 3, .host = "here", .backend = "tcp"};

static const char *in_dir(const char *name)
{
	static char path[300];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static const char *in_coll(const char *name)
{
	static char path[300];

	snprintf(path, sizeof(path), "%s/coll/%s", dir, name);
	return path;
}

/* The views of this test's job, in a list that the caller frees. */
static int read_all(struct page_list *list)
{
	int n = 0;

	if (page_list_read(list))
		bail_out("%s", error_text());
	for (int i = 0; i < list->count; i++)
		n += list->view[i]->head.job == JOB;
	return n;
}

static int count_pages(void)
{
	struct page_list list;
	const int n = read_all(&list);

	page_list_free(&list);
	return n;
}

static const struct page_view *only(const struct page_list *list)
{
	for (int i = 0; i < list->count; i++)
		if (list->view[i]->head.job == JOB)
			return list->view[i];
	bail_out("no page");
}

static void call(struct page_comm *slot, int64_t us)
{
	const uint64_t n = slot->issued + 1;

	slot->issued = n;
	slot->op[n % LOG_RECORDS] = (struct record){.meta = {COLL_KIND_BARRIER},
						    .issued_us = us,
						    .started_us = us,
						    .seq_or_tag = (uint32_t)n - 1,
						    .kind = COLL_KIND_BARRIER};
}

/* A slot that readers see. */
static struct page_comm *take_slot(struct page *page)
{
	struct page_comm *slot = page_take_slot(page, 0);

	if (!slot)
		bail_out("%s", error_text());
	slot->nranks = 3;
	page_publish_slot(slot);
	return slot;
}

/* ------------------------------------------------------------------ a page and its slots -- */

static void test_slots(void)
{
	struct page *page = page_take(&of), *again = page_take(&of);
	struct page_comm *slot[PAGE_SLOTS];
	struct page_list list;
	int full = 1;

	if (!page)
		bail_out("%s", error_text());
	ok(page == again, "a rank has one page");
	page_drop(again);
	for (int i = 0; i < PAGE_SLOTS; i++) {
		slot[i] = page_take_slot(page, 0);
		full &= slot[i] != NULL;
	}
	ok(full && !page_take_slot(page, 0), "it has %d slots", PAGE_SLOTS);
	for (int i = 0; i < PAGE_SLOTS; i++) {
		slot[i]->nranks = 3;
		snprintf(slot[i]->id, sizeof(slot[i]->id), "%d", i);
		page_publish_slot(slot[i]);
	}
	for (int i = 0; i < 70; i++)
		call(slot[5], 1000 + i);
	page_drop_slot(page, slot[9]);
	is_int(read_all(&list), 1, "another reader finds it");
	is_int(only(&list)->comms, PAGE_SLOTS - 1, "with all slots but the free one");
	is_int((int)only(&list)->head.more, 1, "and the communicators that have none");
	is_int(only(&list)->head.rank, 1, "its rank");
	is_int(only(&list)->life, PAGE_LIVES, "its process lives");
	is_int((int)page_oldest_open(only(&list)->comm[5]), 7, "the oldest of the log is open");
	page_list_free(&list);
	page_drop(page);
	is_int(count_pages(), 0, "the last one removes it");
}

/* Slots that are not filled yet, or not good, and a slot after them. */
static void test_bad_slots(void)
{
	struct page *page = page_take(&of);
	struct page_comm *slot[3] = {NULL};
	struct page_list list;

	for (int i = 0; page && i < 3; i++)
		slot[i] = i == 1 ? page_take_slot(page, 0) : take_slot(page);
	if (!slot[1])
		bail_out("%s", error_text());
	(void)read_all(&list);
	is_int(only(&list)->comms, 2, "a slot that is not filled yet is no communicator");
	page_list_free(&list);
	slot[0]->nranks = -1;
	(void)read_all(&list);
	is_int(only(&list)->comms, 1, "a slot that is not good hides no other");
	page_list_free(&list);
	page_drop_slot(page, slot[1]);
	page_drop_slot(page, slot[2]);
	(void)read_all(&list);
	is_int(only(&list)->comms, 0, "slots that are free, published or not, are none");
	page_list_free(&list);
	page_drop(page);
}

/* What a page says cannot change a terminal, and its characters stay. */
static void test_texts(void)
{
	struct page *page = page_take(&of);
	struct page_comm *slot = page ? take_slot(page) : NULL;
	struct page_list list;

	if (!slot)
		bail_out("%s", error_text());
	snprintf(slot->failure, sizeof(slot->failure),
		 "a\033[2Jb\302\233 c\233 \303\251 \342\202\254\177");
	slot->made_us = INT64_MIN;
	(void)read_all(&list);
	is_str(only(&list)->comm[0]->failure, "a?[2Jb?? c? \303\251 \342\202\254?",
	       "control characters are replaced, others are not");
	ok(only(&list)->comm[0]->made_us == 0, "and a time that is none");
	page_list_free(&list);
	page_drop(page);
}

/* Threads in two communicators are in observers at once: that one has come back does not hide the other. */
static void test_inside(void)
{
	struct page *page = page_take(&of);
	struct page_comm *slot[2] = {NULL, NULL};
	struct page_list list;

	if (page)
		for (int i = 0; i < 2; i++)
			slot[i] = take_slot(page);
	if (!slot[0] || !slot[1])
		bail_out("%s", error_text());
	snprintf(page_head(page)->observer[1], 32, "second");
	slot[0]->inside = 1;
	slot[1]->inside = 2;
	slot[0]->inside = 0;
	(void)read_all(&list);
	is_str(page_observer(only(&list)), "second", "a thread is in the second observer");
	page_list_free(&list);
	slot[1]->inside = 0;
	(void)read_all(&list);
	ok(!page_observer(only(&list)), "and no thread in any");
	page_list_free(&list);
	page_drop(page);
}

/* What another communicator has left in the blocks of a slot is not the next one's. */
static void test_slot_again(void)
{
	struct page *page = page_take(&of);
	struct page_comm *slot = page ? page_take_slot(page, 0) : NULL, *again;

	if (!slot || page_add_part(page, slot, PAGE_PART_COUNTS) ||
	    page_add_part(page, slot, PAGE_PART_MESSAGES))
		bail_out("%s", error_text());
	slot->counts.kind[COLL_KIND_BARRIER].calls = 4711;
	slot->message[3].count = 4711;
	slot->counts.kind[PAGE_KINDS - 1].bucket[PAGE_BUCKETS - 1] = 4711;
	page_drop_slot(page, slot);
	again = page_take_slot(page, 0);
	if (!again || page_add_part(page, again, PAGE_PART_COUNTS) ||
	    page_add_part(page, again, PAGE_PART_MESSAGES))
		bail_out("%s", error_text());
	ok(again == slot, "a slot that is free again is taken again");
	ok(!again->counts.kind[COLL_KIND_BARRIER].calls &&
		   !again->counts.kind[PAGE_KINDS - 1].bucket[PAGE_BUCKETS - 1],
	   "its counters begin at 0");
	is_int((int)again->message[3].count, 0, "and it has no messages");
	page_drop(page);
}

/* ----------------------------------------------------------------------------- readers -- */

static void test_readers(void)
{
	struct page *page = page_take(&of);
	struct page_comm *slot = page ? take_slot(page) : NULL;
	int status, bad = 0;
	pid_t child;

	if (!slot)
		bail_out("%s", error_text());
	child = fork();
	if (!child) {
		for (int i = 0; i < READERS; i++)
			bad += count_pages() != 1;
		_exit(bad ? 1 : 0);
	}
	for (int64_t i = 1; waitpid(child, &status, WNOHANG) == 0; i++)
		call(slot, i);
	is_int(status, 0, "%d readings beside a rank that writes all the time", READERS);
	ok(count_pages() == 1, "a child that exits leaves the page of its parent");
	page_drop(page);
}

/* ----------------------------------------------------------------- pages that are left -- */

static void test_killed(void)
{
	struct page_list list;
	int ready[2], status;
	pid_t child;
	char byte;

	if (pipe(ready))
		bail_out("no pipe");
	child = fork();
	if (!child) {
		if (page_take(&of))
			(void)!write(ready[1], "x", 1);
		for (;;)
			pause();
	}
	close(ready[1]);
	is_int((int)read(ready[0], &byte, 1), 1, "a rank has a page");
	close(ready[0]);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	is_int(read_all(&list), 1, "a rank that is killed leaves its page");
	is_int(only(&list)->life, PAGE_GONE, "and the reader knows that it is gone");
	page_view_remove(only(&list));
	page_list_free(&list);
	is_int(count_pages(), 0, "a reader may remove it");
}

/* Writes a byte once the thread that called is gone, and lives on. */
static void *survive(void *arg)
{
	const int *ready = arg;
	char text[512] = "";
	FILE *stat;

	do {
		stat = fopen("/proc/self/stat", "r");
		if (!stat || !fgets(text, sizeof(text), stat))
			_exit(2);
		fclose(stat);
		usleep(1000);
	} while (!strstr(text, ") Z "));
	(void)!write(ready[1], "x", 1);
	for (;;)
		pause();
	return NULL;
}

static void test_no_main_thread(void)
{
	static int ready[2];
	struct page_list list;
	pthread_t thread;
	int status;
	pid_t child;
	char byte;

	if (pipe(ready))
		bail_out("no pipe");
	child = fork();
	if (!child) {
		if (!page_take(&of) || pthread_create(&thread, NULL, survive, ready))
			_exit(1);
		pthread_exit(NULL);
	}
	close(ready[1]);
	is_int((int)read(ready[0], &byte, 1), 1, "the main thread of a rank has ended");
	close(ready[0]);
	is_int(read_all(&list), 1, "its page is there");
	is_int(only(&list)->life, PAGE_LIVES, "and the process lives");
	page_list_free(&list);
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	is_int(read_all(&list), 1, "then it is killed");
	is_int(only(&list)->life, PAGE_GONE, "and is gone");
	page_view_remove(only(&list));
	page_list_free(&list);
}

/* The first rank of a host removes what a dead process of another job has left, behind more names than one looks at lightly. */
static void test_cleaned(void)
{
	enum { OTHERS = 600 };
	const struct page_of other = {.job = JOB + 1, .rank = 5, .nranks = 9, .is_first = 1};
	struct page *page;
	char name[128];
	int status;
	pid_t child;

	(void)mkdir(in_dir("coll"), 0700);
	for (int i = 0; i < OTHERS; i++) {
		page_name_write(&(struct page_name){JOB + 2, i, (long)getpid()}, name);
		close(open(in_coll(name), O_WRONLY | O_CREAT, 0600));
	}
	child = fork();
	if (!child)
		_exit(page_take(&of) ? 0 : 1);
	waitpid(child, &status, 0);
	is_int(status, 0, "a rank ends without leaving its job");
	page_name_write(&(struct page_name){JOB, of.rank, (long)child}, name);
	ok(access(in_coll(name), F_OK) == 0, "its page is left");
	page = page_take(&other);
	ok(page && access(in_coll(name), F_OK) != 0, "until another job starts on the host");
	if (page)
		page_drop(page);
	for (int i = 0; i < OTHERS; i++) {
		page_name_write(&(struct page_name){JOB + 2, i, (long)getpid()}, name);
		unlink(in_coll(name));
	}
}

/* Runs in another namespace of process ids: writes its process number there, or 0 without a page, and lives on. */
static void live_elsewhere(int out)
{
	const int pid = page_take(&of) ? (int)getpid() : 0;

	(void)!write(out, &pid, sizeof(pid));
	for (;;)
		pause();
}

/* Returns the process that has a page in another namespace of process ids, or -1.  *number: its number there. */
static pid_t start_elsewhere(int *number)
{
	int told[2], process[2];
	pid_t child, elsewhere = -1;

	if (pipe(told) || pipe(process))
		bail_out("no pipe");
	child = fork();
	if (!child) {
		elsewhere = namespaces_enter(CLONE_NEWPID) ? -1 : fork();
		if (!elsewhere)
			live_elsewhere(told[1]);
		(void)!write(process[1], &elsewhere, sizeof(elsewhere));
		_exit(0);
	}
	close(told[1]);
	close(process[1]);
	(void)!read(process[0], &elsewhere, sizeof(elsewhere));
	waitpid(child, NULL, 0);
	if (elsewhere > 0 && read(told[0], number, sizeof(*number)) != sizeof(*number))
		*number = 0;
	close(told[0]);
	close(process[0]);
	return elsewhere;
}

/* Reads the page until its process has this life, at most 10 s. */
static int comes_to(enum page_life life)
{
	struct page_list list;
	int same = 0;

	for (int i = 0; i < 1000 && !same; i++) {
		if (i)
			usleep(10000);
		same = read_all(&list) == 1 && only(&list)->life == life;
		page_list_free(&list);
	}
	return same;
}

/* A process number of another namespace is in use here, by another process: the lock tells. */
static void test_elsewhere(void)
{
	const struct page_of other = {.job = JOB + 1, .rank = 5, .nranks = 9, .is_first = 1};
	int number = 0;
	const pid_t elsewhere = start_elsewhere(&number);
	struct page *page;
	char name[128];

	if (elsewhere < 0) {
		skip(5, "no namespace of process ids can be made here");
		return;
	}
	ok(number == 1, "a rank in another namespace of process ids has a page");
	ok(comes_to(PAGE_UNKNOWN), "a reader does not know whether the rank is stopped");
	page_name_write(&(struct page_name){JOB, of.rank, 1}, name);
	page = page_take(&other);
	ok(page && access(in_coll(name), F_OK) == 0, "another job leaves the page");
	if (page)
		page_drop(page);
	kill(elsewhere, SIGKILL);
	ok(comes_to(PAGE_GONE), "a reader knows that the rank is gone once it is killed");
	page = page_take(&other);
	ok(page && access(in_coll(name), F_OK) != 0, "and the next job removes the page");
	if (page)
		page_drop(page);
}

static void test_exit(void)
{
	int status;
	const pid_t child = fork();

	if (!child)
		exit(page_take(&of) ? 0 : 1);
	waitpid(child, &status, 0);
	is_int(status, 0, "a rank exits with its page");
	is_int(count_pages(), 0, "and leaves none");
}

/* --------------------------------------------------------------------- pages that are bad -- */

static void test_bad(void)
{
	static const char name[] = "coll/coll-0000000000000007-rank-1-pid-1.page";
	struct page_list list;
	int fd;

	(void)mkdir(in_dir("coll"), 0700);
	fd = open(in_dir(name), O_RDWR | O_CREAT, 0600);
	(void)!write(fd, "collpage is not enough", 22);
	close(fd);
	is_int(read_all(&list), 0, "a short file is no page");
	is_int(list.bad, 1, "the reader says so");
	page_list_free(&list);
	unlink(in_dir(name));
	if (symlink("/etc/passwd", in_dir(name)))
		bail_out("no link");
	is_int(read_all(&list), 0, "nor is a link");
	page_list_free(&list);
	unlink(in_dir(name));
	if (mkfifo(in_dir(name), 0600))
		bail_out("no fifo");
	is_int(read_all(&list), 0, "a fifo is passed over without a wait");
	page_list_free(&list);
	unlink(in_dir(name));
}

/* The reader maps nothing, so a file that becomes short while it reads is no page, and does it no harm. */
static void test_cut(void)
{
	static const char name[] = "coll/coll-0000000000000007-rank-1-pid-1.page";
	struct page_head head = {.version = PAGE_VERSION,
				 .head_bytes = PAGE_BLOCK,
				 .slot_bytes = PAGE_SLOT,
				 .slots = PAGE_SLOTS,
				 .job = JOB,
				 .nranks = 1,
				 .pid = 1};
	const int fd = open(in_dir(name), O_RDWR | O_CREAT, 0600);
	int status;
	pid_t child;

	memcpy(head.magic, PAGE_MAGIC, sizeof(head.magic));
	child = fork();
	if (!child) {
		for (int i = 0; i < READERS; i++)
			(void)count_pages();
		_exit(0);
	}
	while (waitpid(child, &status, WNOHANG) == 0)
		if (ftruncate(fd, 0) || pwrite(fd, &head, sizeof(head), 0) < 0 ||
		    ftruncate(fd, PAGE_BYTES) || ftruncate(fd, PAGE_BYTES / 2))
			bail_out("cannot change the file");
	is_int(status, 0, "%d readings of a file that is cut meanwhile", READERS);
	close(fd);
	unlink(in_dir(name));
}

/* ------------------------------------------------------------------------ directories -- */

static int directory_is_good(const char **why)
{
	char path[PAGE_PATH];
	const int fd = page_directory_open(0, 1, path);

	*why = error_text();
	if (fd >= 0)
		close(fd);
	return fd >= 0;
}

static void test_directories(void)
{
	const char *why;

	rmdir(in_dir("coll"));
	ok(directory_is_good(&why), "the user's own directory is good");
	if (chmod(in_dir("coll"), 0755))
		bail_out("no chmod");
	ok(!directory_is_good(&why) && strstr(why, "chmod 700"), "not one that others may read: %s",
	   why);
	rmdir(in_dir("coll"));
	if (symlink("/tmp", in_dir("coll")))
		bail_out("no link");
	ok(!directory_is_good(&why), "nor a link: %s", why);
	unlink(in_dir("coll"));
	chmod(dir, 0777);
	ok(!directory_is_good(&why), "nor one in a directory that all may write to: %s", why);
	ok(access(in_dir("coll"), F_OK) != 0, "where none is made");
	chmod(dir, 0700);
	rmdir(in_dir("coll"));
	if (geteuid() || mkdir(in_dir("coll"), 0700) || chown(in_dir("coll"), 65534, 65534)) {
		skip(1, "only root can make a directory of another user");
	} else {
		ok(!directory_is_good(&why) && strstr(why, "65534"), "nor another user's: %s", why);
	}
	rmdir(in_dir("coll"));
}

/* Another user can neither enter the directory nor read the page. */
static void test_other_user(void)
{
	struct page *page = page_take(&of);
	char path[400];
	int status;
	pid_t child;

	if (!page || geteuid()) {
		skip(1, "only root can become another user");
		if (page)
			page_drop(page);
		return;
	}
	snprintf(path, sizeof(path), "%s/coll/coll-%016x-rank-1-pid-%ld.page", dir, JOB,
		 (long)getpid());
	child = fork();
	if (!child) {
		if (setuid(65534))
			_exit(2);
		_exit(open(path, O_RDONLY) >= 0 || open(path, O_RDWR) >= 0 ||
		      truncate(path, 0) == 0 || unlink(path) == 0 || count_pages());
	}
	waitpid(child, &status, 0);
	is_int(status, 0, "another user cannot read, write, cut or remove the page");
	page_drop(page);
}

int main(void)
{
	if (!mkdtemp(dir))
		skip_all("no /dev/shm");
	setenv("XDG_RUNTIME_DIR", dir, 1);
	test_slots();
	test_slot_again();
	test_bad_slots();
	test_texts();
	test_inside();
	test_readers();
	test_killed();
	test_no_main_thread();
	test_cleaned();
	test_elsewhere();
	test_exit();
	test_bad();
	test_cut();
	test_directories();
	test_other_user();
	rmdir(in_dir("coll"));
	rmdir(dir);
	return done_testing();
}
