/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_mesh.c - connects every rank with every other rank.
 *
 * Rank j dials each rank i < j at all addresses of rank i, with the handshake of socket/handshake.h under host->key.
 * Within the host the handshake is the brief form: every mac covers the nonces of all records.  A rank has dialled when
 * its answer is sent; the core opens the endpoint only once all ranks have said that they are connected.  All sockets are
 * non-blocking, in one loop with one deadline.  A finished connection moves from the loop's poll set to the endpoint's
 * epoll descriptor, which is itself in the poll set.  So a turn of the loop costs as much as its events, also among
 * many ranks.
 */
#include "tcp.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "socket/dial.h"

enum {
	TCP_ABORT_POLL_MS = 100, /* interval of checks for an abort of the communicator */
	TCP_PROBE_MS = 500,      /* without a new connection; then silent higher ranks are probed */
	TCP_GRACE_MS = 1000, /* time to find the failed rank that makes another rank unreachable */
	TCP_HANGUPS = 64     /* most connections of one look for hang-ups */
};

/* The state of the connection to one rank. */
struct tcp_peer {
	int unreachable; /* the rank closed the finished connection, or cannot be dialled */
	int refused;     /* liveness probes in a row that found no listener */
};

struct tcp_mesh {
	struct tcp *t;
	const struct tcp_record *records;
	struct tcp_options options;
	uint8_t records_mac[HANDSHAKE_MAC_SIZE]; /* of all ranks' records */
	struct handshake handshake;
	struct acceptor acceptor; /* accepts the higher ranks */
	struct dial *dials;       /* one for each lower rank */
	struct tcp_peer *peers;   /* nranks */
	struct poll_set polls;
	int poll_index; /* index of t->epoll_fd in the poll set */
	int extra_sockets;
	uint32_t connected;
	int32_t suspected; /* the code of the first rank that cannot be reached; 0: none */
	char suspected_text[440];
	int64_t grace; /* when the suspicion becomes the failure of this rank */
	int64_t probe; /* time of the next liveness probes */
	int64_t deadline;
	int32_t code; /* the first failure; open() returns it, with the text in err */
	coll_error_t *err;
};

/* Notes a failure that ends open(), unless there is one already. */
__attribute__((format(printf, 3, 4))) static void tcp_mesh_fail(struct tcp_mesh *mesh, int32_t code,
								const char *fmt, ...)
{
	char text[sizeof(mesh->err->text)];
	va_list args;

	if (mesh->code)
		return;
	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	mesh->code = error_fill(mesh->err, code, "%s", text);
}

static void tcp_mesh_no_descriptor(struct tcp_mesh *mesh, const char *why)
{
	tcp_mesh_fail(mesh, COLL_ERR_SYSTEM,
		      "%s; %u ranks need about %u descriptors more than are open now in each "
		      "process",
		      why, mesh->t->nranks,
		      mesh->t->nranks - mesh->connected + ACCEPTOR_PENDING_SPARE);
}

/* ------------------------------------------------------------------ handshake -- */

/*
 * The proof of the handshake covers the records of all ranks.  So connections of other endpoints fail the handshake,
 * because each record has a nonce, and so do connections of ranks that have got different records.
 */
static void tcp_mesh_mac(const void *user, const void *data, size_t len,
			 uint8_t mac[HANDSHAKE_MAC_SIZE])
{
	const struct tcp_mesh *mesh = user;
	uint8_t text[sizeof(mesh->records_mac) + sizeof(struct handshake_messages)];

	memcpy(text, mesh->records_mac, sizeof(mesh->records_mac));
	memcpy(text + sizeof(mesh->records_mac), data, len);
	mesh->t->host->mac(mesh->t->host, text, sizeof(mesh->records_mac) + len, mac);
}

static void tcp_mesh_log(const void *user, int level, const char *text)
{
	const struct tcp_mesh *mesh = user;

	mesh->t->host->log(mesh->t->host, level, text);
}

static void tcp_mesh_tune(const void *user, int fd, int family, int local)
{
	tcp_tune(&((const struct tcp_mesh *)user)->options, fd, family, local);
}

/* Has epoll watch the connection.  Messages count only once all ranks are connected. */
static void tcp_mesh_watch(struct tcp_mesh *mesh, struct tcp_conn *conn, int operation,
			   uint32_t events)
{
	struct epoll_event event = {.events = events, .data.u32 = conn->peer};

	conn->events = events;
	if (epoll_ctl(mesh->t->epoll_fd, operation, conn->fd, &event))
		tcp_mesh_fail(mesh, COLL_ERR_SYSTEM,
			      "cannot watch the connection to rank %u: epoll_ctl: %s", conn->peer,
			      strerror(errno));
}

/*
 * Sets the options of a connection again.  The system copies only some options from the listener, the handshake has changed the
 * keepalive, and a socket of Multipath TCP refuses some options that it takes now if it has become TCP.
 */
static void tcp_mesh_retune(const struct tcp_mesh *mesh, const struct session *session)
{
	const int dialled = session->rank < mesh->t->rank;

	if (session->family != AF_UNIX || !dialled)
		tcp_tune(&mesh->options, session->fd, session->family,
			 tcp_is_local(mesh->t->host, session->rank));
}

/* Takes the connection to a rank. */
static void tcp_mesh_take(struct tcp_mesh *mesh, const struct session *session)
{
	struct tcp_conn *conn = &mesh->t->conn[session->rank];

	conn->inet = session->family != AF_UNIX;
	conn->fd = session->fd;
	mesh->connected++;
	/* Ranks that share processors come one after the other. */
	mesh->probe = clock_now_ms() + TCP_PROBE_MS;
	tcp_mesh_retune(mesh, session);
	tcp_mesh_watch(mesh, conn, EPOLL_CTL_ADD, EPOLLIN);
	/* Within the host only root and the same user can read or change the messages. */
	if (conn->inet && mesh->t->security != TCP_SECURITY_NONE &&
	    tcp_records_new(mesh->t, conn, session->key))
		tcp_mesh_fail(mesh, COLL_ERR_NO_MEMORY,
			      "out of memory for the protection of the messages to rank %u",
			      session->rank);
}

static void tcp_mesh_accepted(void *owner, const struct session *session)
{
	tcp_mesh_take(owner, session);
}

/* ----------------------------------------------------------------- liveness -- */

/* Returns 1 if no process listens at the local address of the rank, else 0, also if that is unknown. */
static int tcp_mesh_is_refused(const struct tcp_mesh *mesh, uint32_t peer)
{
	struct address_list addresses;
	int fd, refused = 0;

	tcp_peer_addresses(&mesh->options, peer, &mesh->records[peer], &addresses);
	if (!addresses.count || addresses.item[0].sa.ss_family != AF_UNIX)
		return 0;
	fd = socket_new(AF_UNIX);
	if (fd < 0)
		return 0;
	if (socket_connect(fd, &addresses.item[0]))
		refused = errno == ECONNREFUSED;
	close(fd);
	return refused;
}

/*
 * Probes the higher ranks that have not dialled: a rank that died never will.  A rank listens until it
 * is connected with all ranks, so two probes that find no listener mean a dead rank.  (One such probe
 * may mean a rank that has finished and whose confirm is still on its way.)
 */
static void tcp_mesh_probe(struct tcp_mesh *mesh, int64_t now)
{
	if (now < mesh->probe)
		return;
	for (uint32_t i = mesh->t->rank + 1; i < mesh->t->nranks; i++) {
		struct tcp_peer *peer = &mesh->peers[i];

		if (mesh->t->conn[i].fd >= 0)
			continue;
		peer->refused = tcp_mesh_is_refused(mesh, i) ? peer->refused + 1 : 0;
		if (peer->refused > 1)
			tcp_mesh_fail(mesh, COLL_ERR_PEER_LOST,
				      "rank %u is gone: it ended while the ranks were connecting; "
				      "read its "
				      "own messages",
				      i);
	}
	mesh->probe = now + TCP_PROBE_MS;
}

/*
 * Notes that a rank cannot be reached.  The cause is likely another rank that failed, and the error should name that rank.
 */
__attribute__((format(printf, 4, 5))) static void tcp_mesh_suspect(struct tcp_mesh *mesh,
								   uint32_t peer, int32_t code,
								   const char *fmt, ...)
{
	va_list args;

	mesh->peers[peer].unreachable = 1;
	if (mesh->suspected)
		return;
	va_start(args, fmt);
	vsnprintf(mesh->suspected_text, sizeof(mesh->suspected_text), fmt, args);
	va_end(args);
	mesh->suspected = code;
	mesh->grace = clock_now_ms() + TCP_GRACE_MS;
}

/* -------------------------------------------------------------------- dialling -- */

static void tcp_mesh_dial_failed(struct tcp_mesh *mesh, uint32_t peer, int code)
{
	dial_end(&mesh->dials[peer]);
	if (mesh->dials[peer].no_descriptor)
		tcp_mesh_no_descriptor(mesh, error_text());
	else
		tcp_mesh_suspect(mesh, peer, code, "cannot connect to rank %u: %s", peer,
				 error_text());
}

static void tcp_mesh_dial_begin(struct tcp_mesh *mesh, uint32_t peer)
{
	struct dial *dial = &mesh->dials[peer];
	int code;

	dial->hs = &mesh->handshake;
	memcpy(&dial->id, mesh->records[mesh->t->rank].nonce, sizeof(dial->id));
	dial->peer = peer;
	dial->local = tcp_is_local(mesh->t->host, peer);
	dial->extra_sockets = &mesh->extra_sockets;
	tcp_peer_addresses(&mesh->options, peer, &mesh->records[peer], &dial->addresses);
	if (!dial->addresses.count)
		tcp_mesh_fail(mesh, COLL_ERR_SYSTEM,
			      "rank %u listens at no address that rank %u can reach; see the "
			      "options tcp.interface and tcp.unix",
			      peer, mesh->t->rank);
	code = dial_begin(dial);
	if (code)
		tcp_mesh_dial_failed(mesh, peer, code);
}

/* A turn of the dial of the rank has ended with that code. */
static void tcp_mesh_dialled(struct tcp_mesh *mesh, uint32_t peer, int code)
{
	const struct dial *dial = &mesh->dials[peer];

	if (code)
		tcp_mesh_dial_failed(mesh, peer, code);
	else if (dial->session.fd >= 0)
		tcp_mesh_take(mesh, &dial->session);
}

/* Is this lower rank to be dialled still? */
static int tcp_mesh_dials(const struct tcp_mesh *mesh, uint32_t peer)
{
	return !mesh->code && mesh->t->conn[peer].fd < 0 && !mesh->peers[peer].unreachable;
}

/* ------------------------------------------------------------------- the loop -- */

/* Writes why the rank could not be dialled.  Returns 1 if the cause is the state of this host, not of the rank. */
static int tcp_mesh_dial_reason(const struct tcp_mesh *mesh, uint32_t peer,
				char why[DIAL_REPORT_SIZE])
{
	char report[DIAL_REPORT_SIZE];

	dial_report(&mesh->dials[peer], report);
	if (!report[0])
		return 0;
	snprintf(why, DIAL_REPORT_SIZE, "%s", report);
	return !(dial_reasons(&mesh->dials[peer]) & DIAL_MISSES_PEER);
}

static void tcp_mesh_timed_out(struct tcp_mesh *mesh)
{
	const struct tcp *t = mesh->t;
	const char *join = "";
	char list[200] = "", why[DIAL_REPORT_SIZE];
	size_t used = 0;
	int own_fault = 0;

	snprintf(why, sizeof(why), "%s", mesh->acceptor.note);
	for (uint32_t i = 0; i < t->nranks; i++) {
		if (i == t->rank || t->conn[i].fd >= 0)
			continue;
		if (used > sizeof(list) - 20) {
			used += (size_t)snprintf(list + used, sizeof(list) - used, " ...");
			break;
		}
		used += (size_t)snprintf(list + used, sizeof(list) - used, "%s%u", join, i);
		join = ", ";
		if (i < t->rank)
			own_fault |= tcp_mesh_dial_reason(mesh, i, why);
	}
	/* The core reports the failure of a rank that knows the reason before other failures. */
	tcp_mesh_fail(mesh, own_fault ? COLL_ERR_SYSTEM : COLL_ERR_TIMEOUT,
		      "rank %u timed out: not connected with rank %s after %lld ms%s%s%s", t->rank,
		      list, (long long)t->host->timeout_ms, *why ? " (" : "", why, *why ? ")" : "");
}

/* Probes the silent ranks, and checks the deadlines and the abort. */
static void tcp_mesh_timers(struct tcp_mesh *mesh)
{
	int64_t now = clock_now_ms();

	tcp_mesh_probe(mesh, now);
	if (mesh->deadline <= now)
		tcp_mesh_timed_out(mesh);
	if (mesh->suspected && mesh->grace <= now)
		tcp_mesh_fail(mesh, mesh->suspected, "%s", mesh->suspected_text);
	if (mesh->t->host->aborted(mesh->t->host))
		tcp_mesh_fail(mesh, COLL_ERR_ABORTED, "aborted while connecting");
}

/* Adds the new sockets to the poll set. */
static void tcp_mesh_prepare(struct tcp_mesh *mesh)
{
	poll_set_begin(&mesh->polls, clock_now_ms() + TCP_ABORT_POLL_MS);
	poll_set_wake(&mesh->polls, mesh->deadline);
	for (uint32_t i = 0; i < mesh->t->rank; i++)
		if (tcp_mesh_dials(mesh, i))
			tcp_mesh_dialled(mesh, i, dial_prepare(&mesh->dials[i], &mesh->polls));
	acceptor_prepare(&mesh->acceptor, &mesh->polls);
}

/* Looks for hang-ups of connected ranks; their messages do not matter yet. */
static void tcp_mesh_hangups(struct tcp_mesh *mesh)
{
	struct tcp *t = mesh->t;
	struct epoll_event events[TCP_HANGUPS];
	int n = epoll_wait(t->epoll_fd, events, TCP_HANGUPS, 0);

	for (int i = 0; i < n; i++) {
		struct tcp_conn *conn = &t->conn[events[i].data.u32];

		/* EPOLLIN may mean bytes of a message or the end of the stream; EPOLLRDHUP tells the end. */
		if (events[i].events == EPOLLIN) {
			tcp_mesh_watch(mesh, conn, EPOLL_CTL_MOD, EPOLLRDHUP);
			continue;
		}
		tcp_mesh_watch(mesh, conn, EPOLL_CTL_DEL, 0);
		tcp_mesh_suspect(mesh, conn->peer, COLL_ERR_PEER_LOST,
				 "rank %u hung up while the ranks were still connecting: "
				 "read its own messages",
				 conn->peer);
	}
}

static void tcp_mesh_advance(struct tcp_mesh *mesh)
{
	if (poll_set_events(&mesh->polls, mesh->poll_index))
		tcp_mesh_hangups(mesh);
	for (uint32_t i = 0; i < mesh->t->rank; i++)
		if (tcp_mesh_dials(mesh, i))
			tcp_mesh_dialled(mesh, i, dial_advance(&mesh->dials[i], &mesh->polls));
	if (!mesh->code && acceptor_advance(&mesh->acceptor, &mesh->polls))
		tcp_mesh_fail(mesh, COLL_ERR_REMOTE, "%s", error_text());
	if (mesh->acceptor.no_descriptor)
		tcp_mesh_no_descriptor(mesh, mesh->acceptor.note);
}

static void tcp_mesh_loop(struct tcp_mesh *mesh)
{
	while (!mesh->code && mesh->connected < mesh->t->nranks - 1) {
		tcp_mesh_timers(mesh);
		if (mesh->code)
			return;
		tcp_mesh_prepare(mesh);
		if (mesh->code || mesh->connected == mesh->t->nranks - 1)
			return;
		poll_set_wait(&mesh->polls);
		tcp_mesh_advance(mesh);
	}
}

/* Has epoll wait for messages on every connection, now that all ranks are connected. */
static void tcp_mesh_watch_all(struct tcp_mesh *mesh)
{
	struct tcp *t = mesh->t;

	for (uint32_t i = 0; i < t->nranks; i++) {
		struct tcp_conn *conn = &t->conn[i];

		if (i != t->rank && conn->events != EPOLLIN)
			tcp_mesh_watch(mesh, conn, conn->events ? EPOLL_CTL_MOD : EPOLL_CTL_ADD,
				       EPOLLIN);
	}
}

static void tcp_mesh_begin(struct tcp_mesh *mesh)
{
	struct tcp *t = mesh->t;
	size_t capacity =
		1 + (size_t)t->nranks + TCP_EXTRA_SOCKETS + acceptor_poll_size(&mesh->handshake);

	mesh->dials = calloc(t->rank + 1, sizeof(*mesh->dials));
	mesh->peers = calloc(t->nranks, sizeof(*mesh->peers));
	if (!mesh->dials || !mesh->peers)
		tcp_mesh_fail(mesh, COLL_ERR_NO_MEMORY,
			      "out of memory for the connections to %u ranks", t->nranks);
	else if (acceptor_begin(&mesh->acceptor) || poll_set_init(&mesh->polls, capacity))
		tcp_mesh_fail(mesh, COLL_ERR_NO_MEMORY, "%s", error_text());
	else
		poll_set_watch(&mesh->polls, &mesh->poll_index, t->epoll_fd, POLLIN);
	for (uint32_t i = 0; i < t->rank && !mesh->code; i++)
		tcp_mesh_dial_begin(mesh, i);
}

/* Ends all attempts and pending connections.  Finished connections stay. */
static void tcp_mesh_end(struct tcp_mesh *mesh)
{
	for (uint32_t i = 0; mesh->dials && i < mesh->t->rank; i++)
		if (mesh->dials[i].hs)
			dial_end(&mesh->dials[i]);
	acceptor_end(&mesh->acceptor);
	poll_set_free(&mesh->polls);
	free(mesh->dials);
	free(mesh->peers);
}

int32_t tcp_mesh_connect(struct tcp *t, struct listeners *listeners,
			 const struct tcp_record *records, coll_error_t *err)
{
	struct tcp_mesh mesh = {.t = t,
				.records = records,
				.poll_index = -1,
				.extra_sockets = TCP_EXTRA_SOCKETS,
				.err = err};

	tcp_options_read(t->host, &mesh.options);
	mesh.handshake = (struct handshake){.magic = {'C', 'O', 'L', 'L', '-', 'T', 'C', 'P'},
					    .version = TCP_VERSION,
					    .name = "tcp backend",
					    .rank = t->rank,
					    .nranks = t->nranks,
					    .brief = 1,
					    .mac = tcp_mesh_mac,
					    .log = tcp_mesh_log,
					    .tune = tcp_mesh_tune,
					    .user = &mesh};
	mesh.acceptor.hs = &mesh.handshake;
	mesh.acceptor.listeners = *listeners;
	mesh.acceptor.connected = tcp_mesh_accepted;
	mesh.acceptor.owner = &mesh;
	listeners->count = 0;
	t->host->mac(t->host, records, t->nranks * sizeof(*records), mesh.records_mac);
	mesh.deadline = clock_deadline(t->host->timeout_ms);
	mesh.probe = clock_now_ms() + TCP_PROBE_MS;
	tcp_mesh_begin(&mesh);
	tcp_mesh_loop(&mesh);
	if (!mesh.code)
		tcp_mesh_watch_all(&mesh);
	tcp_mesh_end(&mesh);
	return mesh.code;
}
