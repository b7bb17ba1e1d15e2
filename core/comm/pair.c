/* SPDX-License-Identifier: BSD-3-Clause */
/* pair.c - passes failures between a native communicator and that of its calls on host memory. */
#include "comm/pair.h"
#include "base/error.h"

#include <stdio.h>
#include <stdlib.h>

/* A thread that waits for the backend holds the lock for a millisecond at a time. */
enum { PAIR_LOOK_MS = 5 };

struct pair {
	struct context *native, *host;
	struct comm *native_comm, *host_comm;
	_Atomic uint64_t
		staged; /* the last call of both sequences: its number in host_comm; 0: none */
	_Atomic uint64_t held; /* the last call of host_comm for which a stream waits; 0: none */
	uint64_t native_seen;  /* of pair_moves(host_comm), whose lock guards it */
	int driven;            /* see pair_drive; the lock of host_comm guards it */
	pthread_mutex_t lock;  /* of the note */
	_Atomic int code;      /* of the first failure, once the rest stands; 0: none */
	int native_first;      /* the native one has failed first */
	int quiet;             /* another rank has told of it */
	char text[sizeof(((struct comm *)0)->error_text)];
};

int pair_make(struct comm *comm, struct comm *host_comm)
{
	struct pair *pair = calloc(1, sizeof(*pair));

	if (!pair)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for a communicator");
	pair->native = comm->context;
	pair->host = host_comm->context;
	pair->native_comm = comm;
	pair->host_comm = host_comm;
	pthread_mutex_init(&pair->lock, NULL);
	comm->host_comm = host_comm;
	comm->pair = pair;
	context_lock(pair->host); /* its progress thread knows host_comm */
	host_comm->pair = pair;
	if (host_comm->error) /* another rank has told of a failure meanwhile */
		pair_failed(host_comm);
	context_leave(pair->host);
	return COLL_SUCCESS;
}

void pair_free(struct comm *comm)
{
	if (!comm->pair || comm->context != comm->pair->native)
		return;
	pthread_mutex_destroy(&comm->pair->lock);
	free(comm->pair);
	comm->pair = NULL;
}

static int pair_is_native(const struct comm *comm)
{
	return comm->context == comm->pair->native;
}

struct comm *pair_lock_other(const struct comm *comm)
{
	struct context *other;

	if (!comm->pair || comm->leaving)
		return NULL;
	other = pair_is_native(comm) ? comm->pair->host : comm->pair->native;
	if (!wait_holds(other) && !context_lock_within(other, PAIR_LOOK_MS))
		return NULL;
	return pair_is_native(comm) ? comm->host_comm : other->comms;
}

void pair_unlock_other(struct comm *other)
{
	if (!wait_holds(other->context))
		lock_release(&other->context->lock);
}

void pair_failed(const struct comm *comm)
{
	struct pair *pair = comm->pair;

	pthread_mutex_lock(&pair->lock);
	if (!atomic_load(&pair->code)) {
		pair->native_first = pair_is_native(comm);
		pair->quiet = comm->error_is_remote;
		snprintf(pair->text, sizeof(pair->text), "%s", comm->error_text);
		atomic_store(&pair->code, comm->error);
	}
	pthread_mutex_unlock(&pair->lock);
	if (pair_is_native(comm))
		context_notify(pair->host);
	else
		context_failed(pair->native);
}

/* Another thread may have noted a later number.  The caller's communicator is entered. */
static void pair_raise(_Atomic uint64_t *noted, uint64_t number)
{
	if (number > atomic_load(noted))
		atomic_store(noted, number);
}

void pair_note_staged(const struct comm *comm, uint64_t number)
{
	pair_raise(&comm->pair->staged, number);
}

void pair_note_held(const struct comm *host_comm, uint64_t number)
{
	if (host_comm->pair)
		pair_raise(&host_comm->pair->held, number);
}

uint64_t pair_streams_wait(const struct comm *comm)
{
	const struct pair *pair = comm->pair;
	const uint64_t staged = atomic_load(&pair->staged), held = atomic_load(&pair->held);

	if (!pair_is_native(comm))
		return 0;
	return staged > held ? staged : held;
}

void pair_end(const struct comm *host_comm)
{
	struct pair *pair = host_comm->pair;

	if (!pair)
		return;
	context_lock(pair->native);
	atomic_store(&pair->staged, 0);
	atomic_store(&pair->held, 0);
	context_leave(pair->native);
}

static uint64_t pair_place(const struct comm *comm)
{
	return comm->steps + comm->finished;
}

uint64_t pair_moves(const struct comm *comm)
{
	struct pair *pair = comm->pair;
	uint64_t moves;

	if (!pair || !atomic_load(&pair->staged))
		return 0;
	if (!pair_is_native(comm)) {
		if (comm->finished < atomic_load(&pair->staged) && lock_try(&pair->native->lock)) {
			pair->native_seen = pair_place(pair->native_comm);
			lock_release(&pair->native->lock);
		}
		return pair->native_seen;
	}
	context_lock(pair->host);
	moves = pair_place(pair->host_comm);
	if (pair->host_comm->finished > atomic_load(&pair->staged))
		moves = atomic_load(&pair->staged); /* the calls behind it do not count */
	context_leave(pair->host);
	return moves;
}

void pair_drive(struct comm *comm)
{
	struct context *host = comm->pair->host;

	host->now_is_recent = 0;
	comm->pair->driven = 1;
	context_progress(host);
	comm->pair->driven = 0;
}

int pair_is_driven(const struct comm *host_comm, const struct comm *comm)
{
	return comm->pair && comm->pair == host_comm->pair && comm->pair->driven;
}

/* The ranks that the control channel has lost: host_context may not know of it yet. */
static void pair_note_lost(struct comm *host_comm)
{
	for (int r = 0; r < host_comm->nranks; r++) {
		if (host_comm->peer_state[r] >= PEER_LEFT ||
		    !context_has_lost(host_comm->pair->native, r))
			continue;
		host_comm->peer_state[r] = PEER_FAILED;
		if (!host_comm->leaving)
			comm_send_lost(host_comm, r);
	}
}

/* What the control channel knows of a failure waits for a call of the native one: this may be the only thread. */
static void pair_help_native(const struct pair *pair)
{
	struct context *native = pair->native;

	if (!atomic_load(&native->alarm.ended) || atomic_load(&pair->code) ||
	    !lock_try(&native->lock))
		return;
	native->now_is_recent = 0;
	context_check(native);
	lock_release(&native->lock);
}

void pair_check(struct comm *comm)
{
	struct pair *pair = comm->pair;
	int quiet;

	if (!pair)
		return;
	if (!pair_is_native(comm)) {
		pair_note_lost(comm);
		pair_help_native(pair);
	}
	if (comm->error || !atomic_load(&pair->code))
		return;
	/* The native one's failure goes to the other ranks over the control channel, and from there to this one's. */
	quiet = pair->quiet || pair->native_first;
	comm_fail(comm, quiet, atomic_load(&pair->code), "%s", pair->text);
}
