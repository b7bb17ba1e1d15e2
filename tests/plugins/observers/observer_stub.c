/* SPDX-License-Identifier: BSD-3-Clause */
/* observer_stub.c - small observers, each with one fault (STUB_*), for tests of what the core makes of the fault. */
#include <coll/observer.h>

#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#ifndef STUB_NAME
#define STUB_NAME "stub"
#endif
#ifndef STUB_SIZE
#define STUB_SIZE sizeof(coll_observer_t)
#endif
#ifndef STUB_SYMBOL
#define STUB_SYMBOL coll_observer_v1
#endif
#ifndef STUB_EVENT
#define STUB_EVENT stub_event
#endif
#ifndef STUB_WANTS
#define STUB_WANTS COLL_OBSERVE_CALL
#endif

/* A test finds them by dlsym.  While it sets stub_blocks, event() does not return. */
COLL_OBSERVER_EXPORT _Atomic int stub_blocks, stub_events, stub_closed;

static coll_result_t stub_open(const coll_observer_host_t *host, void **state, coll_error_t *err)
{
	*state = NULL;
#ifdef STUB_REFUSES
	snprintf(err->text, sizeof(err->text), "rank %d has no wish to observe", (int)host->rank);
	return COLL_ERR_UNSUPPORTED;
#else
	(void)host;
	(void)err;
	return COLL_SUCCESS;
#endif
}

__attribute__((unused)) static void stub_event(void *state, const coll_observed_t *event)
{
	(void)state;
	(void)event;
	atomic_fetch_add(&stub_events, 1);
	while (atomic_load(&stub_blocks))
		usleep(1000);
#ifdef STUB_CRASHES
	raise(SIGSEGV);
#endif
#ifdef STUB_PRINTS
	puts("an event");
	fflush(stdout);
#endif
#ifdef STUB_CANCELS
	usleep(1);
#endif
#ifdef STUB_SLEEPS
	sleep(STUB_SLEEPS);
#endif
}

static void stub_close(void *state)
{
	(void)state;
	atomic_fetch_add(&stub_closed, 1);
}

COLL_OBSERVER_EXPORT const coll_observer_t STUB_SYMBOL = {
	.size = STUB_SIZE,
	.abi_minor = COLL_OBSERVER_ABI_MINOR,
	.wants = STUB_WANTS,
	.name = STUB_NAME,
	.version = "0.1",
	.open = stub_open,
	.event = STUB_EVENT,
	.close = stub_close,
#ifdef STUB_CANCELS
	.flags = COLL_OBSERVER_UNCANCELLED,
#endif
};
