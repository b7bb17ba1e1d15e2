/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe_test.c - the word that says which observer a rank is in, of one that blocks and of one that crashes; observers
 * after a fork; the paths of observers; events that nobody wants.
 */
#include "comm/comm.h"
#include "base/error.h"
#include "base/handle.h"
#include "page/page_read.h"
#include "../lib/plugin_dir.h"
#include "../lib/ranks.h"

#include <dlfcn.h>

/* What the observer stub keeps. */
static _Atomic int *stub_number(const char *name)
{
	void *file = dlopen(built("observer_stub.so"), RTLD_NOW | RTLD_NOLOAD);
	_Atomic int *number = file ? dlsym(file, name) : NULL;

	if (!number)
		bail_out("the observer stub is not loaded: %s", dlerror());
	return number;
}

static coll_comm_t observe_make(const char *observers)
{
	coll_config_t config;
	coll_comm_t comm = NULL;

	setenv("COLL_OBSERVERS", observers, 1);
	ranks_config(&config, "tcp");
	if (coll_comm_init_env(&comm, &config))
		bail_out("%s", coll_get_last_error(NULL));
	return comm;
}

static int observe_call(coll_comm_t comm)
{
	int32_t x = 1;
	const int code = coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, comm, NULL);

	return code ? code : coll_sync(comm);
}

static void *observe_thread(void *comm)
{
	(void)observe_call(comm);
	return NULL;
}

/* The lane of the communicator, in whose `seen` the observer is noted that a thread is in. */
static const struct lane *observe_lane(coll_comm_t comm)
{
	struct lane *lane = comm_enter(comm, "the test");

	comm_leave(lane);
	return lane;
}

static void observe_blocked(void)
{
	coll_comm_t comm = observe_make("audit,stub");
	const struct context *context = observe_lane(comm)->context;
	const _Atomic uint32_t *word = &observe_lane(comm)->seen->inside;
	const double until = ranks_now() + 60;
	pthread_t thread;

	is_int(observe_call(comm), COLL_SUCCESS, "a call with two observers");
	ok(*stub_number("stub_events") > 0, "the second is told of it");
	is_int(atomic_load(word), 0, "the rank is in no observer");
	atomic_store(stub_number("stub_blocks"), 1);
	pthread_create(&thread, NULL, observe_thread, comm);
	while (!atomic_load(word) && ranks_now() < until)
		usleep(1000);
	ranks_sleep(0.01); /* the first of the two may have been seen */
	while (atomic_load(word) != 2 && ranks_now() < until)
		usleep(1000);
	is_int(atomic_load(word), 2, "the word has the number of the observer that blocks");
	is_str(observers_name(context->observers, atomic_load(word)), "stub", "and that its name");
	ok(!observers_name(context->observers, 3) && !observers_name(context->observers, 0),
	   "other numbers have no name");
	atomic_store(stub_number("stub_blocks"), 0);
	pthread_join(thread, NULL);
	is_int(atomic_load(word), 0, "it has returned: the rank is in no observer");
	is_int(coll_comm_destroy(comm), COLL_SUCCESS, "destroy");
	is_int(*stub_number("stub_closed"), 1, "the observer is closed");
}

/* The name of the observer that the page of a process has it in. */
static void observe_in_page(pid_t pid, char name[32])
{
	struct page_list list;

	snprintf(name, 32, "no page");
	if (page_list_read(&list))
		bail_out("%s", error_text());
	for (int i = 0; i < list.count; i++) {
		const struct page_view *view = list.view[i];
		const char *observer = page_observer(view);

		if (view->head.pid != pid || view->life != PAGE_GONE)
			continue;
		snprintf(name, 32, "%s", observer ? observer : "none");
		page_view_remove(view);
	}
	page_list_free(&list);
}

static void observe_crashed(void)
{
	const pid_t child = fork();
	char name[32];
	int status = 0;

	if (child == 0) {
		coll_comm_t comm = observe_make("crashes");

		signal(SIGSEGV, SIG_DFL);
		(void)observe_call(comm);
		_exit(0);
	}
	ok(ranks_reap(child, ranks_now() + 60, &status) && WIFSIGNALED(status) &&
		   WTERMSIG(status) == SIGSEGV,
	   "an observer crashes");
	observe_in_page(child, name);
	if (strcmp(name, "no page") == 0)
		skip(1, "there is no directory for pages");
	else
		is_str(name, "crashes", "the page that is left has its name");
}

/* A process that fork has made calls no function of the observers. */
static void observe_forked(void)
{
	coll_comm_t comm = observe_make("stub");
	const int closed = *stub_number("stub_closed"), events = *stub_number("stub_events");
	int status = 0;
	pid_t child;

	fflush(NULL);
	child = fork();
	if (child == 0) {
		coll_comm_t own;
		int bad;

		(void)observe_call(comm);
		(void)coll_comm_destroy(comm);
		bad = *stub_number("stub_events") != events ||
		      *stub_number("stub_closed") != closed;
		own = observe_make("stub");
		bad |= observe_call(own) || *stub_number("stub_events") == events;
		bad |= coll_comm_destroy(own) || *stub_number("stub_closed") != closed + 1;
		_exit(bad);
	}
	ok(ranks_reap(child, ranks_now() + 60, &status) && WIFEXITED(status) &&
		   !WEXITSTATUS(status),
	   "a child process has observers of its own communicators only");
	is_int(observe_call(comm), COLL_SUCCESS, "the parent goes on");
	ok(*stub_number("stub_events") > events, "with its observer");
	is_int(coll_comm_destroy(comm), COLL_SUCCESS, "destroy");
	is_int(*stub_number("stub_closed"), closed + 1, "which is closed");
}

static void observe_nothing(void)
{
	coll_comm_t comm = observe_make("");
	struct lane *lane = comm_enter(comm, "the test");

	ok(!lane->observed && !lane->context->observed && !lane->comm->observed,
	   "without observers nothing is kept for them");
	comm_leave(lane);
	coll_comm_destroy(comm);
	comm = observe_make("stub");
	lane = comm_enter(comm, "the test");
	is_int(lane->observed, COLL_OBSERVE_CALL | OBSERVE_ALL,
	       "only the events that one wants are filled in");
	comm_leave(lane);
	coll_comm_destroy(comm);
}

int main(void)
{
	plugin_dir_begin();
	ranks_plugins(".libs", "tests/plugins/.libs");
	observe_crashed();
	observe_blocked();
	observe_forked();
	observe_nothing();
	plugin_dir_end();
	return done_testing();
}
