/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * observe_test.c - the word that says which observer a rank is in, of one that blocks and of one that crashes; observers
 * after a fork; the paths of observers; events that nobody wants.
 */
#include "comm/comm.h"
#include "base/error.h"
#include "base/handle.h"
#include "observe/expand.h"
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

/* The context notes in this word which observer it is in.  Returns the context. */
static struct context *observe_set_word(coll_comm_t comm, _Atomic uint32_t *word)
{
	struct lane *lane = comm_enter(comm, "the test");
	struct context *context = lane->context;

	context_set_inside(context, word);
	comm_leave(lane);
	return context;
}

static void observe_blocked(void)
{
	_Atomic uint32_t *word = ranks_memory(sizeof(*word));
	coll_comm_t comm = observe_make("audit,stub");
	const struct context *context = observe_set_word(comm, word);
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
	is_int(atomic_load(word), 0, "and the rank in no observer");
}

static void observe_crashed(void)
{
	_Atomic uint32_t *word = ranks_memory(sizeof(*word));
	const pid_t child = fork();
	int status = 0;

	if (child == 0) {
		coll_comm_t comm = observe_make("crashes");

		signal(SIGSEGV, SIG_DFL);
		observe_set_word(comm, word);
		(void)observe_call(comm);
		_exit(0);
	}
	ok(ranks_reap(child, ranks_now() + 60, &status) && WIFSIGNALED(status) &&
		   WTERMSIG(status) == SIGSEGV,
	   "an observer crashes");
	is_int(atomic_load(word), 1, "the word that is left has its number");
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
	is_int(lane->observed, COLL_OBSERVE_CALL, "only the events that one wants are filled in");
	comm_leave(lane);
	coll_comm_destroy(comm);
}

static void observe_expand(void)
{
	const struct expand_names names = {.host = "a/b", .rank = 3, .job = 0x12ab};
	coll_error_t err = error_blank();
	char out[64], want[64];

	is_int(expand_pattern("/x/%h-%r-%j-%%", &names, out, sizeof(out), &err), COLL_SUCCESS,
	       "a path");
	is_str(out, "/x/a_b-3-00000000000012ab-%", "the path");
	snprintf(want, sizeof(want), "p%ld", (long)getpid());
	is_int(expand_pattern("p%p", &names, out, sizeof(out), &err), COLL_SUCCESS, "a process id");
	is_str(out, want, "the process id");
	is_int(expand_pattern("p%x", &names, out, sizeof(out), &err), COLL_ERR_INVALID_ARGUMENT,
	       "another letter");
	has_str(err.text, "the path 'p%x' has %x, but after % there must be h (host)", "its text");
	is_int(expand_pattern("p%", &names, out, sizeof(out), &err), COLL_ERR_INVALID_ARGUMENT,
	       "no letter");
	is_int(expand_pattern("/12345/%r", &names, out, 9, &err), COLL_SUCCESS, "a path that fits");
	is_int(expand_pattern("/12345/%r", &names, out, 8, &err), COLL_ERR_INVALID_ARGUMENT,
	       "a path that does not");
	has_str(err.text, "stands for more than 7 bytes", "its text");
}

int main(void)
{
	plugin_dir_begin();
	ranks_plugins(".libs", "tests/plugins/.libs");
	observe_expand();
	observe_crashed();
	observe_blocked();
	observe_forked();
	observe_nothing();
	plugin_dir_end();
	return done_testing();
}
