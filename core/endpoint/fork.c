/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * fork.c - a fork of a process with communicators.  The child would keep the parent's connections open
 * and so hide the parent's death from the peers; and calls on the parent's handles would send in the
 * parent's name.
 */
#include "endpoint/fork.h"
#include "base/handle.h"
#include "endpoint/context.h"

static pthread_once_t fork_once = PTHREAD_ONCE_INIT;

static void fork_before(void)
{
	wait_fork_lock();
	handle_fork_lock();
}

static void fork_in_parent(void)
{
	handle_fork_unlock();
	wait_fork_unlock();
}

static void fork_in_child(void)
{
	wait_forked();
	handle_forked();
	fork_in_parent();
}

static void fork_register(void)
{
	pthread_atfork(fork_before, fork_in_parent, fork_in_child);
}

void fork_watch(void)
{
	pthread_once(&fork_once, fork_register);
}
