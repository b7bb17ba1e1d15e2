/* SPDX-License-Identifier: BSD-3-Clause */
/* dial.c - attempts to connect to one rank, at all its addresses, and why they have not led to it. */
#include "socket/dial.h"

#include <endian.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/random.h"

enum {
	DIAL_HEAD_START_MS = 50, /* head start of an address over the next address */
	DIAL_SILENCE_MS = 1000, /* head start of an address that accepts but has sent nothing yet */
	DIAL_CONNECT_MS = 3000, /* longest time of a connect() before the attempt begins again */
	DIAL_LONGEST_PAUSE_MS = 50, /* pause between two tries of one address */
	DIAL_SPARE_PAUSE_MS = 20,   /* retry delay while the limit of open sockets is reached */
	DIAL_KNOCK_MS = 2000,       /* silence of a listener before it is asked who it is */
	DIAL_TRIES = 3,             /* refusals in a row after which a listening peer has ended */
	DIAL_BRIEF_MS = 100         /* a shorter time is not told */
};

/* A phrase for each address. */
typedef char reason_phrases[ADDRESS_MAX][200];

/* ------------------------------------------------------ why an address fails -- */

static void reason_add(struct dial_reason *reason, int *n, int why, int64_t ms)
{
	int i = 0;

	while (i < *n && reason[i].why != why)
		i++;
	if (i == DIAL_REASONS)
		return;
	if (i == *n)
		reason[(*n)++] = (struct dial_reason){.why = why};
	reason[i].ms += ms;
}

/* Notes why a try has failed, and how long it took. */
static void dial_reason_add(struct dial_attempt *y, int why)
{
	int64_t now = clock_now_ms();

	reason_add(y->reason, &y->nreasons, why, now - y->since);
	y->since = now;
}

/* Finds the reason for which an address failed most of the time, the running try included.  Returns 0 if it was not tried. */
static int reason_of(const struct dial_attempt *y, struct dial_reason *most)
{
	struct dial_reason reason[DIAL_REASONS];
	const int64_t ms = clock_now_ms() - y->since;
	int n = y->nreasons;

	memcpy(reason, y->reason, sizeof(reason));
	if (y->conn.fd >= 0)
		reason_add(reason, &n,
			   y->conn.awaits == HANDSHAKE_CONNECT ? ETIMEDOUT : DIAL_SILENT, ms);
	for (int i = 0; i < n; i++)
		if (i == 0 || reason[i].ms > most->ms)
			*most = reason[i];
	return n > 0;
}

static const char *reason_text(int why, int family, char text[SOCKET_WHY_SIZE])
{
	if (why == DIAL_SILENT)
		return "accepts connections, but nobody answers";
	if (why == EADDRNOTAVAIL)
		return family == AF_INET
			       ? "no local port is free (see net.ipv4.ip_local_port_range)"
			       : "no local port is free (see net.ipv4.ip_local_port_range), "
				 "or this host has no IPv6 address";
	return socket_why(why, text);
}

/* "Connection refused (for 4.9 s)" */
static void reason_phrase(const struct dial_reason *reason, int family, char *text, size_t size)
{
	char why[SOCKET_WHY_SIZE], time[32] = "";

	if (reason->ms >= DIAL_BRIEF_MS)
		snprintf(time, sizeof(time), reason->ms < 9950 ? " (for %.1f s)" : " (for %.0f s)",
			 (double)reason->ms / 1e3);
	snprintf(text, size, "%s%s", reason_text(reason->why, family, why), time);
}

/* Appends two pieces.  Where they do not fit the text ends in "...", and later pieces are left out too. */
static void reason_append(char text[DIAL_REPORT_SIZE], const char *join, const char *piece)
{
	static const char rest[] = " ...";
	const size_t used = strlen(text),
		     least = used + strlen(join) + strlen(piece) + sizeof(rest);

	if (used >= sizeof(rest) && strcmp(text + used + 1 - sizeof(rest), rest) == 0)
		return;
	snprintf(text + used, DIAL_REPORT_SIZE - used, "%s%s", least > DIAL_REPORT_SIZE ? "" : join,
		 least > DIAL_REPORT_SIZE ? rest : piece);
}

/* Appends the address and all later addresses that have the same phrase, and empties their phrases. */
static void reason_append_alike(const struct dial *dial, reason_phrases phrase, int first,
				char text[DIAL_REPORT_SIZE])
{
	char same[sizeof(phrase[0])], address[ADDRESS_TEXT_SIZE];

	memcpy(same, phrase[first], sizeof(same));
	for (int i = first; i < dial->addresses.count; i++) {
		if (strcmp(phrase[i], same) != 0)
			continue;
		address_format(&dial->addresses.item[i], address);
		reason_append(text, i > first ? ", " : text[0] ? "; " : "", address);
		phrase[i][0] = '\0';
	}
	reason_append(text, ": ", same);
}

void dial_report(const struct dial *dial, char text[DIAL_REPORT_SIZE])
{
	reason_phrases phrase = {{0}};
	struct dial_reason most;

	text[0] = '\0';
	for (int i = 0; dial->attempts && i < dial->addresses.count; i++)
		if (reason_of(&dial->attempts[i], &most))
			reason_phrase(&most, dial->addresses.item[i].sa.ss_family, phrase[i],
				      sizeof(phrase[i]));
	for (int i = 0; i < dial->addresses.count; i++)
		if (phrase[i][0])
			reason_append_alike(dial, phrase, i, text);
	if (dial->addresses.more)
		reason_append(text, text[0] ? "; " : "",
			      "that host has more addresses (its option interface chooses some)");
}

int dial_reasons(const struct dial *dial)
{
	struct dial_reason most;
	int reasons = 0;

	for (int i = 0; dial->attempts && i < dial->addresses.count; i++) {
		if (!reason_of(&dial->attempts[i], &most))
			continue;
		switch (most.why) {
		case EADDRNOTAVAIL:
		case EAFNOSUPPORT:
		case EINVAL:
		case EACCES:
		case EPERM:
		case ENETUNREACH: break;
		case DIAL_SILENT: reasons |= DIAL_MISSES_PEER | DIAL_MEETS_SILENCE; break;
		default: reasons |= DIAL_MISSES_PEER; break;
		}
	}
	return reasons;
}

/* ------------------------------------------------------------- begin and end -- */

int dial_begin(struct dial *dial)
{
	int64_t now = clock_now_ms();

	dial->session.fd = -1;
	dial->attempts = calloc((size_t)dial->addresses.count, sizeof(*dial->attempts));
	if (dial->attempts == NULL && dial->addresses.count > 0)
		return error_set(COLL_ERR_NO_MEMORY, "no memory to reach rank %u", dial->peer);
	for (int i = 0; i < dial->addresses.count; i++) {
		connection_begin(dial->hs, &dial->attempts[i].conn, -1,
				 dial->addresses.item[i].sa.ss_family, HANDSHAKE_CONNECT);
		dial->attempts[i].due = now + (int64_t)i * DIAL_HEAD_START_MS;
		dial->attempts[i].since = now;
	}
	return dial->id ? 0 : random_bytes(&dial->id, sizeof(dial->id));
}

static const struct address *dial_address(const struct dial *dial, const struct dial_attempt *y)
{
	return &dial->addresses.item[y - dial->attempts];
}

static void dial_close(struct dial *dial, struct dial_attempt *y)
{
	connection_close(&y->conn, dial->set);
	if (y->extra && dial->extra_sockets)
		++*dial->extra_sockets;
	y->extra = 0;
}

static void dial_close_all(struct dial *dial)
{
	for (int i = 0; dial->attempts != NULL && i < dial->addresses.count; i++)
		dial_close(dial, &dial->attempts[i]);
}

void dial_end(struct dial *dial)
{
	dial_close_all(dial);
	free(dial->attempts);
	dial->attempts = NULL;
}

/* Does the attempt wait for its next try? */
static int dial_is_idle(const struct dial_attempt *y)
{
	return y->conn.fd < 0 && !y->given_up;
}

/*
 * Schedules the addresses that were not tried yet: the first after delay_ms, each further one
 * DIAL_HEAD_START_MS later.
 */
static void dial_reschedule(struct dial *dial, int64_t delay_ms, int earlier)
{
	int64_t start = clock_now_ms() + delay_ms;

	for (int i = 0; i < dial->addresses.count; i++) {
		struct dial_attempt *y = &dial->attempts[i];

		if (!dial_is_idle(y) || y->tries > 0)
			continue;
		if (earlier ? start < y->due : start > y->due)
			y->due = start;
		start += DIAL_HEAD_START_MS;
	}
}

/* Ends the attempts at an address for good. */
static void dial_give_up(struct dial *dial, struct dial_attempt *y, int code)
{
	dial_close(dial, y);
	y->given_up = 1;
	/* That nobody listens at one address says less than a fault of this host, or who listens at another one. */
	if (!dial->code || dial->code == COLL_ERR_PEER_LOST)
		dial->code = code;
	dial_reschedule(dial, 0, 1);
}

/* Ends the attempts at an address where another program or another job listens; the first such note stays. */
__attribute__((format(printf, 4, 5))) static void dial_blame(struct dial *dial,
							     struct dial_attempt *y, int code,
							     const char *fmt, ...)
{
	char address[ADDRESS_TEXT_SIZE];
	const int first = dial->note[0] == '\0';
	va_list args;
	int used;

	address_format(dial_address(dial, y), address);
	used = snprintf(dial->note, first ? sizeof(dial->note) : 0, "%s", address);
	va_start(args, fmt);
	if (first)
		vsnprintf(dial->note + used, sizeof(dial->note) - (size_t)used, fmt, args);
	va_end(args);
	if (first)
		dial->code = code;
	for (int i = 0; i < dial->addresses.count; i++)
		dial->attempts[i].given_up |= dial->named && code != COLL_ERR_PEER_LOST &&
					      dial_is_idle(&dial->attempts[i]);
	dial_give_up(dial, y, code);
}

/* Can no later try of this address work either? */
static int dial_is_hopeless(int why)
{
	return why == EAFNOSUPPORT || why == EINVAL;
}

/* Ends a failed attempt and schedules the next attempt.  refused: no process listens at the address. */
static void dial_retry(struct dial *dial, struct dial_attempt *y, int why, int refused)
{
	dial_close(dial, y);
	dial_reason_add(y, why);
	y->tries++;
	y->refusals = refused ? y->refusals + 1 : 0;
	if (dial_is_hopeless(why) || (!dial->retry && y->refusals >= DIAL_TRIES)) {
		dial_give_up(dial, y, dial_is_hopeless(why) ? COLL_ERR_SYSTEM : COLL_ERR_PEER_LOST);
		return;
	}
	y->pause_ms = y->pause_ms == 0 ? 1 : 2 * y->pause_ms;
	if (y->pause_ms > DIAL_LONGEST_PAUSE_MS)
		y->pause_ms = DIAL_LONGEST_PAUSE_MS;
	y->due = clock_now_ms() + y->pause_ms;
	dial_reschedule(dial, 0, 1);
}

/* ----------------------------------------------------------------- connecting -- */

static int dial_count_open(const struct dial *dial)
{
	int open = 0;

	for (int i = 0; i < dial->addresses.count; i++)
		open += dial->attempts[i].conn.fd >= 0;
	return open;
}

/* There is no socket for this attempt: it waits while another attempt has one. */
static int dial_no_socket(struct dial *dial, struct dial_attempt *y, int err, int open)
{
	char address[ADDRESS_TEXT_SIZE], why[SOCKET_WHY_SIZE];

	if (!socket_is_exhausted(err)) {
		dial_retry(dial, y, err, 1);
		return 0;
	}
	if (open > 0) {
		y->due = clock_now_ms() + DIAL_LONGEST_PAUSE_MS;
		return 0;
	}
	dial->no_descriptor = 1;
	address_format(dial_address(dial, y), address);
	return error_set(COLL_ERR_SYSTEM, "cannot make a socket to reach rank %u at %s: %s%s",
			 dial->peer, address, socket_why(err, why), error_remedy(err));
}

static int dial_family(const struct dial *dial, const struct dial_attempt *y)
{
	return dial_address(dial, y)->sa.ss_family;
}

/* This attempt becomes the connection. */
static void dial_finish(struct dial *dial, struct dial_attempt *y)
{
	connection_finish(dial->hs, &y->conn, dial->set, le32toh(y->conn.messages.answer.to),
			  dial_address(dial, y), &dial->session);
	if (dial->session.family != AF_UNIX)
		socket_keep_alive(dial->session.fd, 0);
	dial_close_all(dial);
}

static int dial_answer(struct dial *dial, struct dial_attempt *y)
{
	const struct handshake *hs = dial->hs;
	struct handshake_answer *answer = &y->conn.messages.answer;
	int code = 0;

	memset(answer, 0, sizeof(*answer));
	answer->rank = htole32(hs->rank);
	answer->to = dial->any_peer ? y->conn.messages.challenge.rank : htole32(dial->peer);
	answer->nranks = htole32(hs->nranks);
	answer->order = HANDSHAKE_BYTE_ORDER;
	answer->dial = dial->id;
	if (!y->conn.brief)
		code = random_bytes(answer->nonce, sizeof(answer->nonce));
	if (code)
		return code;
	connection_await(&y->conn, HANDSHAKE_VERDICT);
	if (connection_send(hs, &y->conn, HANDSHAKE_ANSWER))
		dial_retry(dial, y, errno, 0);
	else if (y->conn.brief)
		dial_finish(dial, y);
	return 0;
}

static int dial_connected(struct dial *dial, struct dial_attempt *y)
{
	connection_await(&y->conn, HANDSHAKE_CHALLENGE);
	/*
	 * A local socket that accepts belongs to the peer and is the fastest way to it: no other address
	 * starts.
	 */
	if (dial_family(dial, y) == AF_UNIX) {
		dial_reschedule(dial, INT32_MAX, 0);
		return y->conn.brief ? dial_answer(dial, y) : 0;
	}
	/*
	 * The peer speaks first.  A kernel that closes the listener while it takes a connection may forget the
	 * connection without a word, and then only a probe tells this end.
	 */
	socket_keep_alive(y->conn.fd, 1);
	dial_reschedule(dial, DIAL_SILENCE_MS, 0);
	return 0;
}

/* A socket connects to itself if the system gives it the port that it dials. */
static int dial_is_own_echo(int fd)
{
	struct address own = {.len = sizeof(own.sa)}, peer = {.len = sizeof(peer.sa)};

	return getsockname(fd, &own.any, &own.len) == 0 &&
	       getpeername(fd, &peer.any, &peer.len) == 0 &&
	       memcmp(&own.sa, &peer.sa, sizeof(own.sa)) == 0;
}

/* The kernel has connected the socket, or has failed to. */
static int dial_check_connected(struct dial *dial, struct dial_attempt *y)
{
	int err = socket_connect_result(y->conn.fd);

	if (!err && !dial_is_own_echo(y->conn.fd))
		return dial_connected(dial, y);
	dial_retry(dial, y, err ? err : ECONNREFUSED, 1);
	return 0;
}

static int dial_start(struct dial *dial, struct dial_attempt *y)
{
	const struct address *address = dial_address(dial, y);
	int family = address->sa.ss_family, open = dial_count_open(dial);

	if (open > 0 && dial->extra_sockets && *dial->extra_sockets <= 0) {
		y->due = clock_now_ms() + DIAL_SPARE_PAUSE_MS;
		return 0;
	}
	y->conn.fd = socket_new_for(address);
	if (y->conn.fd < 0)
		return dial_no_socket(dial, y, errno, open);
	y->extra = open > 0;
	if (y->extra && dial->extra_sockets)
		--*dial->extra_sockets;
	if (dial->hs->tune)
		dial->hs->tune(dial->hs->user, y->conn.fd, family, dial->local);
	if (socket_connect(y->conn.fd, address) < 0) {
		/* EAGAIN: the listener's queue is full.  EADDRNOTAVAIL: this host has no port for the socket. */
		dial_retry(dial, y, errno, errno != EAGAIN && errno != EADDRNOTAVAIL);
		return 0;
	}
	connection_await(&y->conn, HANDSHAKE_CONNECT);
	/* A local socket is connected when connect() returns. */
	return family == AF_UNIX ? dial_connected(dial, y) : 0;
}

/* ------------------------------------------------------------------ the proof -- */

/*
 * Most servers speak first, but a web server waits for a question.  A listener of libcoll that comes late drops the
 * connection for it, and this rank connects again.
 */
static void dial_knock(struct dial *dial, struct dial_attempt *y)
{
	dial->knocked = 1;
	socket_write(y->conn.fd, handshake_knock, sizeof(handshake_knock) - 1);
}

/* Is this listener to be asked whether it is a web server if it stays silent? */
static int dial_may_knock(const struct dial *dial, const struct dial_attempt *y)
{
	return y->conn.fd >= 0 && y->conn.awaits == HANDSHAKE_CHALLENGE && dial->named &&
	       !dial->knocked;
}

static int dial_is_web_server(const void *answer)
{
	return memcmp(answer, "HTTP/", 5) == 0;
}

/* Receives the challenge and sends the answer. */
static int dial_recv_challenge(struct dial *dial, struct dial_attempt *y)
{
	const struct handshake *hs = dial->hs;
	const struct handshake_challenge *challenge = &y->conn.messages.challenge;

	switch (connection_receive(hs, &y->conn)) {
	case HANDSHAKE_WHOLE:
		/* The peer listens: if it refuses a later attempt, it has ended. */
		dial->retry = 0;
		y->refusals = 0;
		y->pause_ms = 0;
		return dial_answer(dial, y);
	case HANDSHAKE_LOST: dial_retry(dial, y, errno, 0); break;
	case HANDSHAKE_FOREIGN:
		dial_blame(dial, y, COLL_ERR_INVALID_ARGUMENT,
			   "%s does not speak libcoll's %s protocol: another program has that port",
			   dial_is_web_server(challenge) ? ", a web server," : "", hs->name);
		break;
	case HANDSHAKE_VERSION:
		dial_blame(dial, y, COLL_ERR_UNSUPPORTED,
			   ": rank %u's libcoll speaks %s protocol %u, but this rank's speaks %u: "
			   "install the same libcoll on all hosts",
			   dial->peer, hs->name, le32toh(challenge->version), hs->version);
		break;
	default: break;
	}
	return 0;
}

/* The listener has proved the key and accepts: this attempt becomes the connection. */
static void dial_confirm(struct dial *dial, struct dial_attempt *y)
{
	if (connection_send(dial->hs, &y->conn, HANDSHAKE_CONFIRM)) {
		dial_retry(dial, y, errno, 0);
		return;
	}
	memcpy(dial->salt, y->conn.messages.verdict.salt, sizeof(dial->salt));
	dial_finish(dial, y);
}

/* Has the listener said that it is the peer? */
static int dial_is_at_peer(const struct dial_attempt *y)
{
	return y->conn.messages.challenge.rank == y->conn.messages.answer.to;
}

/* The listener, which has the key, has accepted or refused this rank. */
static int dial_take_verdict(struct dial *dial, struct dial_attempt *y)
{
	const struct handshake_verdict *verdict = &y->conn.messages.verdict;
	int code;

	if (le32toh(verdict->type) == HANDSHAKE_ACCEPTED) {
		dial_confirm(dial, y);
		return 0;
	}
	code = verdict->code ? (int)le32toh((uint32_t)verdict->code) : COLL_ERR_REMOTE;
	/* The peer does not listen there, but it may at another address; else the peer tells of a rank that it lost. */
	if (code == COLL_ERR_PEER_LOST && !dial_is_at_peer(y)) {
		dial_blame(dial, y, code, ": %.*s", HANDSHAKE_TEXT_SIZE - 1, verdict->text);
		return 0;
	}
	return error_set(code, "%.*s", HANDSHAKE_TEXT_SIZE - 1, verdict->text);
}

static int dial_recv_verdict(struct dial *dial, struct dial_attempt *y)
{
	switch (connection_receive(dial->hs, &y->conn)) {
	case HANDSHAKE_WHOLE: return dial_take_verdict(dial, y);
	case HANDSHAKE_LOST: dial_retry(dial, y, errno, 0); break;
	case HANDSHAKE_FORGED:
		dial_blame(dial, y, COLL_ERR_PERMISSION,
			   " belongs to another job: its key differs (COLL_KEY, or the unique id, "
			   "must be the same on all ranks)");
		break;
	default: break;
	}
	return 0;
}

/* ------------------------------------------------------------------- the turns -- */

/* No address leads to the peer. */
static int dial_fail(const struct dial *dial)
{
	char report[DIAL_REPORT_SIZE];

	dial_report(dial, report);
	return error_set(dial->code ? dial->code : COLL_ERR_PEER_LOST, "%s%s%s", dial->note,
			 dial->note[0] && report[0] ? "; " : "", report);
}

/* Does what the clock demands of an attempt: begins a try, ends one, or asks a silent listener. */
static int dial_turn(struct dial *dial, struct dial_attempt *y, int64_t now)
{
	if (y->conn.fd >= 0 && y->conn.awaits == HANDSHAKE_CONNECT &&
	    now - y->conn.since >= DIAL_CONNECT_MS)
		dial_retry(dial, y, ETIMEDOUT, 0);
	if (dial_may_knock(dial, y) && now - y->conn.since >= DIAL_KNOCK_MS)
		dial_knock(dial, y);
	return dial_is_idle(y) && y->due <= now ? dial_start(dial, y) : 0;
}

/* The set waits for the attempt: for its socket, and for the time of its next turn. */
static void dial_watch(struct dial *dial, struct dial_attempt *y, struct poll_set *set)
{
	if (dial_is_idle(y))
		poll_set_wake(set, y->due);
	if (y->conn.fd < 0)
		return;
	if (y->conn.awaits == HANDSHAKE_CONNECT)
		poll_set_wake(set, y->conn.since + DIAL_CONNECT_MS);
	if (dial_may_knock(dial, y))
		poll_set_wake(set, y->conn.since + DIAL_KNOCK_MS);
	connection_watch(&y->conn, set);
}

int dial_prepare(struct dial *dial, struct poll_set *set)
{
	int64_t now = clock_now_ms();
	int code = 0, left = 0;

	dial->set = set;
	for (int i = 0; code == 0 && dial->session.fd < 0 && i < dial->addresses.count; i++)
		code = dial_turn(dial, &dial->attempts[i], now);
	if (dial->session.fd >= 0)
		return 0;
	for (int i = 0; code == 0 && i < dial->addresses.count; i++) {
		left += !dial->attempts[i].given_up;
		dial_watch(dial, &dial->attempts[i], set);
	}
	return code || left ? code : dial_fail(dial);
}

int dial_advance(struct dial *dial, const struct poll_set *set)
{
	int code = 0;

	for (int i = 0; code == 0 && dial->session.fd < 0 && i < dial->addresses.count; i++) {
		struct dial_attempt *y = &dial->attempts[i];

		if (!poll_set_events(set, y->conn.place))
			continue;
		switch (y->conn.awaits) {
		case HANDSHAKE_CONNECT: code = dial_check_connected(dial, y); break;
		case HANDSHAKE_CHALLENGE: code = dial_recv_challenge(dial, y); break;
		default: code = dial_recv_verdict(dial, y); break;
		}
	}
	return code;
}

int dial_step(struct dial *dial, struct poll_set *set, int64_t wake)
{
	int code;

	poll_set_begin(set, wake);
	code = dial_prepare(dial, set);
	if (code)
		return code;
	poll_set_wait(set);
	return dial_advance(dial, set);
}
