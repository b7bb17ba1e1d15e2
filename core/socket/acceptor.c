/* SPDX-License-Identifier: BSD-3-Clause */
/* acceptor.c - pending connections, until their other ends prove the key or are dropped. */
#include "socket/acceptor.h"

#include <endian.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/random.h"

enum {
	ACCEPTOR_LIFE_MS = 2000, /* most time that a connection may stay without a proof */
	ACCEPTOR_MIN_MS = 20,    /* acceptor_min_ms() of the shortest list */
	ACCEPTOR_PAUSE_MS = 50,  /* pause after accept() failed for lack of descriptors */
	ACCEPTOR_BURST = 16,     /* most accepts of one turn: a flood must not delay ranks */
	ACCEPTOR_PROVEN_SPARE = 16
};

int listeners_open(const char *name, uint16_t port, struct listeners *listeners,
		   struct address_list *addresses)
{
	int code = address_of_interfaces(name, addresses), err;

	if (code)
		return code;
	if (name == NULL || name[0] == '\0') {
		code = socket_listen_any(port, &listeners->fd[0], &port, &err);
		listeners->count = code == 0;
		for (int i = 0; code == 0 && i < addresses->count; i++)
			address_set_port(&addresses->item[i], port);
		return code;
	}
	for (int i = 0; code == 0 && i < addresses->count; i++) {
		address_set_port(&addresses->item[i], port);
		code = socket_listen(&addresses->item[i], NULL, NULL, &listeners->fd[i], &err);
		listeners->count += code == 0;
	}
	return code;
}

void listeners_close(struct listeners *listeners)
{
	for (int i = 0; i < listeners->count; i++)
		close(listeners->fd[i]);
	listeners->count = 0;
}

/* Most connections that have proved the key and wait for their confirm. */
static int acceptor_proven_max(const struct handshake *hs)
{
	return (int)hs->nranks + ACCEPTOR_PROVEN_SPARE;
}

/*
 * Most connections without a proof.  All ranks of a job may come at once: if they had to make way for each other, and
 * their answers took longer than acceptor_min_ms(), none would ever get in.
 */
static int acceptor_pending_max(const struct handshake *hs)
{
	return hs->nranks < ACCEPTOR_PENDING_MAX - ACCEPTOR_PENDING_SPARE
		       ? ACCEPTOR_PENDING_SPARE + (int)hs->nranks
		       : ACCEPTOR_PENDING_MAX;
}

/*
 * Least time of a connection before a new one may replace it.  It grows with the list, so that a flood passes through
 * a long list as fast as through a short one.
 */
static int64_t acceptor_min_ms(const struct handshake *hs)
{
	return (int64_t)ACCEPTOR_MIN_MS * acceptor_pending_max(hs) / ACCEPTOR_PENDING_SPARE;
}

size_t acceptor_poll_size(const struct handshake *hs)
{
	return (size_t)ADDRESS_MAX + (size_t)acceptor_pending_max(hs) +
	       (size_t)acceptor_proven_max(hs);
}

int acceptor_begin(struct acceptor *a)
{
	a->pending = calloc(acceptor_poll_size(a->hs), sizeof(*a->pending));
	a->dials = calloc(a->hs->nranks, sizeof(*a->dials));
	if (a->pending == NULL || a->dials == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory to accept %u ranks", a->hs->nranks);
	for (int i = 0; i < ADDRESS_MAX; i++)
		a->place[i] = -1;
	return 0;
}

static int acceptor_is_proven(const struct pending_connection *p)
{
	return p->conn.awaits == HANDSHAKE_CONFIRM;
}

/* Ranks that have proved the key may take their time, since an acceptor of ranks soon ends. */
static int acceptor_may_expire(const struct acceptor *a, int i)
{
	return a->many || !acceptor_is_proven(&a->pending[i]);
}

/* Takes connection i, which is no longer open here, off the list. */
static void acceptor_forget(struct acceptor *a, int i)
{
	a->npending--;
	a->nproven -= acceptor_is_proven(&a->pending[i]);
	memmove(&a->pending[i], &a->pending[i + 1],
		(size_t)(a->npending - i) * sizeof(a->pending[0]));
}

/*
 * Logs and closes a pending connection.  unproven: its other end has not proved to be a rank of this job.
 */
static void acceptor_drop(struct acceptor *a, int i, const char *why, int unproven)
{
	char address[ADDRESS_TEXT_SIZE];

	address_format(&a->pending[i].peer, address);
	handshake_log(a->hs, COLL_LOG_DEBUG, "connection from %s dropped: %s", address, why);
	connection_close(&a->pending[i].conn, a->set);
	acceptor_forget(a, i);
	a->turned_away += unproven;
}

/* A rank that looks whether this one listens connects over a local socket, says nothing and closes. */
static int acceptor_may_be_probe(const struct pending_connection *p)
{
	return p->conn.brief && p->conn.got == 0;
}

void acceptor_close(struct acceptor *a)
{
	for (int i = 0; a->set != NULL && i < a->listeners.count; i++)
		poll_set_unwatch(a->set, &a->place[i]);
	listeners_close(&a->listeners);
	while (a->npending > 0) {
		const struct pending_connection *p = &a->pending[a->npending - 1];

		acceptor_drop(a, a->npending - 1, "all ranks have arrived",
			      !acceptor_is_proven(p) && !acceptor_may_be_probe(p));
	}
	if (a->turned_away > 0)
		handshake_log(a->hs, COLL_LOG_INFO,
			      "%d %s connections were not from ranks of this job", a->turned_away,
			      a->hs->name);
	a->turned_away = 0;
}

void acceptor_end(struct acceptor *a)
{
	acceptor_close(a);
	free(a->pending);
	free(a->dials);
	a->pending = NULL;
	a->dials = NULL;
}

/* ------------------------------------------------------------------- making way -- */

/* Returns the index of the oldest connection without a proof; npending: there is none. */
static int acceptor_oldest(const struct acceptor *a)
{
	int i = 0;

	while (i < a->npending && acceptor_is_proven(&a->pending[i]))
		i++;
	return i;
}

/* Drops the oldest connection without a proof, unless it is too young to have sent one. */
static int acceptor_drop_oldest(struct acceptor *a, const char *why)
{
	int oldest = acceptor_oldest(a);
	int64_t age = clock_now_ms() - a->pending[oldest].conn.since,
		min_ms = acceptor_min_ms(a->hs);

	if (age < min_ms) {
		a->accept_after = clock_now_ms() + min_ms - age;
		return 0;
	}
	acceptor_drop(a, oldest, why, 1);
	return 1;
}

/* No descriptor is left: drops a connection; returns 1 if that freed a descriptor. */
static int acceptor_out_of_files(struct acceptor *a, int err)
{
	char why[SOCKET_WHY_SIZE];

	snprintf(a->note, sizeof(a->note), "rank %u cannot accept a connection: %s", a->hs->rank,
		 socket_why(err, why));
	if (a->npending > a->nproven)
		return acceptor_drop_oldest(a, a->note);
	a->no_descriptor = err;
	a->accept_after = clock_now_ms() + ACCEPTOR_PAUSE_MS;
	return 0;
}

/* ------------------------------------------------------------------ the proof -- */

/* Sends the verdict; -1 if the socket does not take all of it. */
static int acceptor_send(struct acceptor *a, struct pending_connection *p, uint32_t type, int code,
			 const char *text)
{
	struct handshake_verdict *verdict = &p->conn.messages.verdict;

	memset(verdict, 0, sizeof(*verdict));
	verdict->type = htole32(type);
	verdict->code = (int32_t)htole32((uint32_t)code);
	memcpy(verdict->salt, a->salt, sizeof(verdict->salt));
	memcpy(verdict->text, text, strnlen(text, sizeof(verdict->text) - 1));
	return connection_send(a->hs, &p->conn, HANDSHAKE_VERDICT);
}

/* Refuses connection i; the calling thread's error is the reason. */
static void acceptor_refuse(struct acceptor *a, int i, int code)
{
	char address[ADDRESS_TEXT_SIZE];

	address_format(&a->pending[i].peer, address);
	snprintf(a->note, sizeof(a->note), "turned away %s: %.220s", address, error_text());
	if (!a->pending[i].conn.brief)
		acceptor_send(a, &a->pending[i], HANDSHAKE_REFUSED, code, error_text());
	acceptor_drop(a, i, a->note, 1);
}

/* Has another process proved that it is this rank? */
static int acceptor_has_rank(const struct acceptor *a, uint32_t rank, uint64_t dial)
{
	if (a->many)
		return 0;
	if (a->dials[rank])
		return a->dials[rank] != dial;
	for (int i = 0; i < a->npending; i++)
		if (acceptor_is_proven(&a->pending[i]) && a->pending[i].rank == rank &&
		    a->pending[i].conn.messages.answer.dial != dial)
			return 1;
	return 0;
}

/* Returns the code that refuses a process which knows the key, or 0: the process may join. */
static int acceptor_check_rank(const struct acceptor *a, const struct handshake_answer *answer)
{
	const struct handshake *hs = a->hs;
	uint32_t rank = le32toh(answer->rank), nranks = le32toh(answer->nranks);

	if (answer->order != HANDSHAKE_BYTE_ORDER)
		return error_set(COLL_ERR_UNSUPPORTED,
				 "the machine of rank %u has another byte order than rank %u's",
				 rank, hs->rank);
	if (rank == hs->rank && nranks != hs->nranks)
		return error_set(COLL_ERR_INVALID_USAGE,
				 "two processes have rank %u, one of %u ranks and one of %u: give "
				 "each process a rank of its own",
				 rank, hs->nranks, nranks);
	if (nranks != hs->nranks)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "the number of ranks differs: %u on rank %u, %u on rank %u",
				 nranks, rank, hs->nranks, hs->rank);
	/* A rank that has ended leaves its port to others. */
	if (le32toh(answer->to) != hs->rank)
		return error_set(COLL_ERR_PEER_LOST,
				 "rank %u wants to reach rank %u, but rank %u listens there", rank,
				 le32toh(answer->to), hs->rank);
	if (a->failed && rank < nranks && acceptor_has_rank(a, rank, answer->dial))
		return error_set(a->failed, "%s", a->failed_text);
	/* Usually the higher rank of two dials, so a lower rank must not come. */
	if (rank >= nranks || rank == hs->rank || (rank < hs->rank && !hs->any_order) ||
	    acceptor_has_rank(a, rank, answer->dial))
		return error_set(COLL_ERR_INVALID_USAGE,
				 "rank %u of %u is there already: give each process a rank of its "
				 "own",
				 rank, nranks);
	return 0;
}

/* From now on connection i is the connection to its rank. */
static void acceptor_connected(struct acceptor *a, int i)
{
	struct pending_connection *p = &a->pending[i];
	const uint64_t dial = p->conn.messages.answer.dial;
	struct session session;

	if (!a->many)
		a->dials[p->rank] = dial ? dial : 1;
	connection_finish(a->hs, &p->conn, a->set, p->rank, &p->peer, &session);
	acceptor_forget(a, i);
	handshake_log(a->hs, COLL_LOG_DEBUG, "rank %u has arrived from %s", session.rank,
		      session.address);
	a->connected(a->owner, &session);
}

static void acceptor_prove(struct acceptor *a, int i, uint32_t rank)
{
	struct pending_connection *p = &a->pending[i];

	if (a->dials[rank]) {
		acceptor_drop(a, i, "its rank is connected", 0);
		return;
	}
	/* The dialler tries again later, so this only delays its rank. */
	if (a->nproven == acceptor_proven_max(a->hs)) {
		acceptor_drop(a, i, "too many ranks are connecting", 0);
		return;
	}
	p->rank = rank;
	if (p->conn.brief) {
		acceptor_connected(a, i);
		return;
	}
	if (acceptor_send(a, p, HANDSHAKE_ACCEPTED, 0, "") != 0) {
		acceptor_drop(a, i, "it does not take the verdict", 0);
		return;
	}
	connection_await(&p->conn, HANDSHAKE_CONFIRM);
	a->nproven++;
}

/* The peer of connection i has another key. */
static void acceptor_refuse_key(struct acceptor *a, int i)
{
	error_set(COLL_ERR_PERMISSION,
		  "its key is not this job's (COLL_KEY, or the unique id, must be "
		  "the same on all ranks)");
	acceptor_refuse(a, i, COLL_ERR_PERMISSION);
	if (a->wrong_keys++ == 0)
		handshake_log(a->hs, a->many ? COLL_LOG_INFO : COLL_LOG_WARN, "%s", a->note);
}

/* The answer of connection i is there, with the right key: sends the verdict. */
static int acceptor_check(struct acceptor *a, int i)
{
	const struct handshake_answer *answer = &a->pending[i].conn.messages.answer;
	int code = acceptor_check_rank(a, answer);

	if (code == 0) {
		acceptor_prove(a, i, le32toh(answer->rank));
		return 0;
	}
	acceptor_refuse(a, i, code);
	/*
	 * A second process with a rank is one too many, and a process that looks for another rank is
	 * none of this rank's affairs: the rendezvous goes on.  Other faults stay.
	 */
	return code == COLL_ERR_INVALID_USAGE || code == COLL_ERR_PEER_LOST ? 0 : code;
}

static int acceptor_recv_answer(struct acceptor *a, int i)
{
	struct pending_connection *p = &a->pending[i];
	const struct handshake_answer *answer = &p->conn.messages.answer;

	switch (connection_receive(a->hs, &p->conn)) {
	case HANDSHAKE_MORE: break;
	case HANDSHAKE_WHOLE: return acceptor_check(a, i);
	case HANDSHAKE_LOST: acceptor_drop(a, i, "it went away", !acceptor_may_be_probe(p)); break;
	case HANDSHAKE_FOREIGN:
		acceptor_drop(a, i, "it does not speak this protocol",
			      memcmp(answer, handshake_knock, sizeof(handshake_knock) - 1) != 0);
		break;
	case HANDSHAKE_VERSION:
		error_set(COLL_ERR_UNSUPPORTED,
			  "its libcoll speaks %s protocol %u, but rank %u's speaks %u", a->hs->name,
			  le32toh(answer->version), a->hs->rank, a->hs->version);
		acceptor_refuse(a, i, COLL_ERR_UNSUPPORTED);
		break;
	case HANDSHAKE_FORGED: acceptor_refuse_key(a, i); break;
	}
	return 0;
}

static void acceptor_recv_confirm(struct acceptor *a, int i)
{
	struct pending_connection *p = &a->pending[i];
	const enum handshake_event event = connection_receive(a->hs, &p->conn);

	if (event == HANDSHAKE_MORE)
		return;
	if (event == HANDSHAKE_LOST)
		acceptor_drop(a, i, "its rank uses another connection, or is gone", 0);
	else if (event != HANDSHAKE_WHOLE || a->dials[p->rank])
		acceptor_drop(a, i, "its confirm is wrong", 1);
	else
		acceptor_connected(a, i);
}

/* ------------------------------------------------------------------ accepting -- */

static void acceptor_challenge(struct acceptor *a, struct pending_connection *p)
{
	struct handshake_challenge *challenge = &p->conn.messages.challenge;

	challenge->rank = htole32(a->hs->rank);
	if (random_bytes(challenge->nonce, sizeof(challenge->nonce)) != 0 ||
	    connection_send(a->hs, &p->conn, HANDSHAKE_CHALLENGE) != 0)
		acceptor_drop(a, a->npending - 1, "it cannot be written to", 1);
}

/* Accepts one connection.  Returns 0 if none is waiting, or the list is full for the moment. */
static int acceptor_accept_one(struct acceptor *a, int listener, int *code)
{
	const int flags = SOCK_NONBLOCK | SOCK_CLOEXEC;
	struct pending_connection *p;
	int fd;

	if (a->npending - a->nproven == acceptor_pending_max(a->hs) &&
	    !acceptor_drop_oldest(a, "too many others are waiting"))
		return 0;
	p = &a->pending[a->npending];
	memset(p, 0, sizeof(*p));
	p->peer.len = sizeof(p->peer.sa);
	fd = descriptor_lift(accept4(listener, &p->peer.any, &p->peer.len, flags));
	if (fd < 0 && socket_is_exhausted(errno))
		return acceptor_out_of_files(a, errno);
	if (fd < 0)
		return errno == ECONNABORTED || errno == EINTR;
	connection_begin(a->hs, &p->conn, fd, p->peer.sa.ss_family, HANDSHAKE_ANSWER);
	a->npending++;
	/* A dialler that speaks first has spoken by now. */
	if (p->conn.brief)
		*code = acceptor_recv_answer(a, a->npending - 1);
	else
		acceptor_challenge(a, p);
	return *code == 0;
}

/* Returns a code like acceptor_advance(). */
static int acceptor_accept(struct acceptor *a, int listener)
{
	int code = 0;

	for (int i = 0; i < ACCEPTOR_BURST; i++)
		if (!acceptor_accept_one(a, listener, &code))
			break;
	return code;
}

/* ------------------------------------------------------------------ the turns -- */

void acceptor_prepare(struct acceptor *a, struct poll_set *set)
{
	int accepting = clock_now_ms() >= a->accept_after;

	a->set = set;
	for (int i = 0; i < a->listeners.count; i++)
		if (accepting)
			poll_set_watch(set, &a->place[i], a->listeners.fd[i], POLLIN);
		else
			poll_set_unwatch(set, &a->place[i]);
	for (int i = 0; i < a->npending; i++) {
		connection_watch(&a->pending[i].conn, set);
		if (acceptor_may_expire(a, i))
			poll_set_wake(set, a->pending[i].conn.since + ACCEPTOR_LIFE_MS);
	}
	if (a->listeners.count > 0 && !accepting)
		poll_set_wake(set, a->accept_after);
}

/* Drops connections that have stayed too long without a proof.  With `many` also those whose dialler does not confirm the verdict. */
static void acceptor_sweep(struct acceptor *a)
{
	const int64_t now = clock_now_ms();

	for (int i = a->npending - 1; i >= 0; i--)
		if (acceptor_may_expire(a, i) && now - a->pending[i].conn.since >= ACCEPTOR_LIFE_MS)
			acceptor_drop(a, i, "it did not say who it is", 1);
}

int acceptor_advance(struct acceptor *a, const struct poll_set *set)
{
	int code = 0;

	/* Backwards, because a connection that is complete or dropped leaves the list. */
	for (int i = a->npending - 1; code == 0 && i >= 0; i--) {
		if (!poll_set_events(set, a->pending[i].conn.place))
			continue;
		if (acceptor_is_proven(&a->pending[i]))
			acceptor_recv_confirm(a, i);
		else
			code = acceptor_recv_answer(a, i);
	}
	acceptor_sweep(a);
	for (int i = 0; code == 0 && i < a->listeners.count; i++)
		if (poll_set_events(set, a->place[i]))
			code = acceptor_accept(a, a->listeners.fd[i]);
	return code;
}
