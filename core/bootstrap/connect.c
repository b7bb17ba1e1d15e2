/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * connect.c - a rank's way to rank 0: tries its addresses, proves itself, is let in or told why
 * not.
 *
 * The addresses are tried one after the other without waiting for the first to fail for good: some
 * of them may lead nowhere, or to somebody else.  Only one is answered.
 */
#include <endian.h>
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>
#include "bootstrap/star.h"
#include "base/error.h"
#include "base/log.h"

enum {
	JOIN_STAGGER_MS = 200,      /* until the next address is tried as well */
	JOIN_SILENCE_MS = 1000,     /* the same if this one accepts but says nothing yet */
	JOIN_LONGEST_PAUSE_MS = 50, /* between two tries of one address */
	JOIN_TRIES = 3              /* of an address that ought to be listening already */
};

enum connect_state { JOIN_IDLE, JOIN_CONNECTING, JOIN_LISTENING, JOIN_OUT };

struct connect_try {
	enum connect_state state;
	int fd;
	int64_t start; /* IDLE: when to connect */
	int pause_ms;
	int failures;
	struct tcp_challenge challenge;
	size_t got;
	char text[ADDRESS_TEXT_SIZE];
};

struct join {
	struct star *t;
	const struct address_list *addrs;
	struct connect_try tries[ADDRESS_INET_MAX];
	int named; /* the user has said where rank 0 is: nobody else is to be found there */
	int retry; /* rank 0 may not be listening yet */
	int64_t deadline;
	int code;       /* of what ended an address for good; its sentence is in note */
	char note[512]; /* what happened last */
};

/* An address cannot be tried again: `code` and the text say why. */
static void connect_give_up(struct join *j, struct connect_try *y, int code)
{
	if (y->fd >= 0)
		close(y->fd);
	y->fd = -1;
	y->state = JOIN_OUT;
	j->code = code;
	for (int i = 0; i < j->addrs->count; i++) {
		struct connect_try *other = &j->tries[i];

		if (j->named && code != COLL_ERR_PEER_LOST && other->state == JOIN_IDLE)
			other->state = JOIN_OUT;
		/* Others may still lead to rank 0: the next is tried at once. */
		if (other->state == JOIN_IDLE && other->failures == 0)
			other->start = clock_now_ms();
	}
}

/* The connection has come to nothing; counts: that speaks against the address. */
static void connect_retry(struct join *j, struct connect_try *y, const char *why, int counts)
{
	if (y->fd >= 0)
		close(y->fd);
	y->fd = -1;
	y->state = JOIN_IDLE;
	snprintf(j->note, sizeof(j->note), "%s: %s", y->text, why);
	y->failures++;
	if (counts && !j->retry && y->failures >= JOIN_TRIES) {
		connect_give_up(j, y, COLL_ERR_PEER_LOST);
		return;
	}
	y->pause_ms = y->pause_ms == 0 ? 1 : 2 * y->pause_ms;
	if (y->pause_ms > JOIN_LONGEST_PAUSE_MS)
		y->pause_ms = JOIN_LONGEST_PAUSE_MS;
	y->start = clock_now_ms() + y->pause_ms;
}

static void connect_retry_errno(struct join *j, struct connect_try *y, int err, int counts)
{
	char why[SOCKET_WHY_SIZE];

	connect_retry(j, y, socket_why(err, why), counts);
}

static int connect_start(struct join *j, int i)
{
	struct connect_try *y = &j->tries[i];

	y->got = 0;
	y->fd = socket_new(j->addrs->item[i].sa.ss_family);
	if (y->fd >= 0)
		socket_no_delay(y->fd);
	if (y->fd >= 0 && socket_connect(y->fd, &j->addrs->item[i]) == 0) {
		y->state = JOIN_CONNECTING;
		/* A first sign of life from here keeps the next address waiting. */
		if (i + 1 < j->addrs->count && j->tries[i + 1].failures == 0 &&
		    j->tries[i + 1].state == JOIN_IDLE)
			j->tries[i + 1].start = clock_now_ms() + JOIN_STAGGER_MS;
		return 0;
	}
	if (y->fd < 0 && socket_is_exhausted(errno))
		return error_set(COLL_ERR_SYSTEM, "cannot make a socket to reach rank 0 at %s: %s",
				 y->text, strerror(errno));
	connect_retry_errno(j, y, errno, 1);
	return 0;
}

/* A socket may get connected to itself if its own port happens to be the one it looks for. */
static int connect_is_own_echo(int fd)
{
	struct sockaddr_storage a, b;
	socklen_t alen = sizeof(a), blen = sizeof(b);

	memset(&a, 0, sizeof(a));
	memset(&b, 0, sizeof(b));
	return getsockname(fd, (struct sockaddr *)&a, &alen) == 0 &&
	       getpeername(fd, (struct sockaddr *)&b, &blen) == 0 && memcmp(&a, &b, sizeof(a)) == 0;
}

static void connect_connected(struct join *j, int i)
{
	struct connect_try *y = &j->tries[i];
	int err = socket_connect_result(y->fd);

	if (err != 0 || connect_is_own_echo(y->fd)) {
		connect_retry_errno(j, y, err ? err : ECONNREFUSED, 1);
		return;
	}
	y->state = JOIN_LISTENING;
	snprintf(j->note, sizeof(j->note), "%s accepts connections, but nobody answers", y->text);
	for (int k = i + 1; k < j->addrs->count; k++)
		if (j->tries[k].state == JOIN_IDLE && j->tries[k].failures == 0)
			j->tries[k].start = clock_now_ms() + JOIN_SILENCE_MS;
}

/* ------------------------------------------------------------------- the proof -- */

/* Reads all of buf; 0, or -1 with errno (ETIMEDOUT at the deadline, or aborted). */
static int connect_read(struct join *j, int fd, void *buf, size_t len)
{
	size_t got = 0;

	while (got < len) {
		ssize_t n;

		if (bootstrap_check_aborted(&j->t->bootstrap) != 0 ||
		    clock_remaining(j->deadline) == 0) {
			errno = ETIMEDOUT;
			return -1;
		}
		if (socket_poll(fd, POLLIN, bootstrap_look(&j->t->bootstrap, j->deadline)) == 0)
			continue;
		n = socket_read(fd, (char *)buf + got, len - got);
		if (n < 0)
			return -1;
		got += (size_t)n;
	}
	return 0;
}

static int connect_make_answer(const struct join *j, const struct tcp_challenge *challenge,
			       struct tcp_answer *answer)
{
	int code;

	memset(answer, 0, sizeof(*answer));
	memcpy(answer->magic, tcp_magic, sizeof(tcp_magic));
	answer->version = htole32(TCP_VERSION);
	answer->rank = htole32((uint32_t)j->t->bootstrap.rank);
	answer->nranks = htole32((uint32_t)j->t->bootstrap.nranks);
	answer->order = UINT32_C(0x01020304);
	code = random_bytes(answer->nonce, sizeof(answer->nonce));
	if (code == 0)
		tcp_answer_mac(j->t->shared, challenge, answer, answer->mac);
	return code;
}

/* What rank 0 has decided: 0 and it is *seated, or not and the address is out, or a code. */
static int connect_verdict(struct join *j, struct connect_try *y, const struct tcp_answer *answer,
			   const struct tcp_verdict *verdict, const char *text)
{
	static const uint8_t label[] = "libcoll meeting";
	uint8_t mac[16], derived[sizeof(label) + sizeof(verdict->salt)];

	tcp_verdict_mac(j->t->shared, &y->challenge, answer, verdict, mac);
	if (!tcp_mac_equal(mac, verdict->mac)) {
		snprintf(j->note, sizeof(j->note),
			 "%s belongs to another job: its key differs (COLL_KEY, or the unique id, "
			 "must be the same on all ranks)",
			 y->text);
		connect_give_up(j, y, COLL_ERR_INVALID_ARGUMENT);
		return 0;
	}
	if (le32toh(verdict->type) != TCP_WELCOME)
		return error_set(verdict->code ? (int)le32toh((uint32_t)verdict->code)
					       : COLL_ERR_REMOTE,
				 "%s", text);
	memcpy(derived, label, sizeof(label));
	memcpy(derived + sizeof(label), verdict->salt, sizeof(verdict->salt));
	siphash128(j->t->shared, derived, sizeof(derived), j->t->bootstrap.key);
	j->t->fd = y->fd;
	memcpy(j->t->root_addr, y->text, sizeof(y->text));
	y->fd = -1;
	return 0;
}

/* Answers the challenge of y. */
static int connect_prove(struct join *j, struct connect_try *y)
{
	struct tcp_answer answer;
	struct tcp_verdict verdict;
	char text[BOOTSTRAP_TEXT_SIZE] = "";
	uint32_t len;
	int code = connect_make_answer(j, &y->challenge, &answer);

	if (code)
		return code;
	if (socket_write(y->fd, &answer, sizeof(answer)) != sizeof(answer) ||
	    connect_read(j, y->fd, &verdict, sizeof(verdict)) != 0) {
		connect_retry_errno(j, y, errno, 0);
		return 0;
	}
	len = le32toh(verdict.text_len);
	if (len >= sizeof(text) || connect_read(j, y->fd, text, len) != 0) {
		connect_retry(j, y, "it broke the bootstrap's protocol", 1);
		return 0;
	}
	return connect_verdict(j, y, &answer, &verdict, text);
}

/* Bytes of the challenge have come. */
static int connect_recv(struct join *j, struct connect_try *y)
{
	ssize_t n =
		socket_read(y->fd, (char *)&y->challenge + y->got, sizeof(y->challenge) - y->got);
	size_t got;

	if (n < 0) {
		connect_retry_errno(j, y, errno, 0);
		return 0;
	}
	got = y->got += (size_t)n;
	if (memcmp(y->challenge.magic, tcp_magic,
		   got < sizeof(tcp_magic) ? got : sizeof(tcp_magic))) {
		snprintf(j->note, sizeof(j->note),
			 "%s is not a libcoll rendezvous: another program has that port", y->text);
		connect_give_up(j, y, COLL_ERR_INVALID_ARGUMENT);
		return 0;
	}
	if (got >= 12 && le32toh(y->challenge.version) != TCP_VERSION) {
		snprintf(j->note, sizeof(j->note),
			 "%s: rank 0's libcoll speaks bootstrap protocol %u, but this rank's "
			 "speaks %d: "
			 "install the same libcoll on all hosts",
			 y->text, le32toh(y->challenge.version), TCP_VERSION);
		connect_give_up(j, y, COLL_ERR_UNSUPPORTED);
		return 0;
	}
	if (got < sizeof(y->challenge))
		return 0;
	/* Rank 0 has been there: if it stops listening, it is gone. */
	j->retry = 0;
	y->failures = 0;
	return connect_prove(j, y);
}

/* ---------------------------------------------------------------------- the loop -- */

static int connect_start_due(struct join *j)
{
	int code = 0;

	for (int i = 0; code == 0 && i < j->addrs->count; i++)
		if (j->tries[i].state == JOIN_IDLE && j->tries[i].start <= clock_now_ms())
			code = connect_start(j, i);
	return code;
}

/* Fills polls; milliseconds until something is due. */
static int connect_prepare(const struct join *j, struct pollfd *polls)
{
	int64_t wake = j->deadline, left;

	for (int i = 0; i < j->addrs->count; i++) {
		const struct connect_try *y = &j->tries[i];

		polls[i] = (struct pollfd){
			.fd = y->fd, .events = y->state == JOIN_CONNECTING ? POLLOUT : POLLIN};
		if (y->state == JOIN_IDLE && y->start < wake)
			wake = y->start;
	}
	left = clock_remaining(bootstrap_look(&j->t->bootstrap, wake));
	return left > 60000 ? 60000 : (int)left;
}

static int connect_turn(struct join *j)
{
	struct pollfd polls[ADDRESS_INET_MAX];
	int code = connect_start_due(j);

	if (code)
		return code;
	if (poll(polls, (nfds_t)j->addrs->count, connect_prepare(j, polls)) <= 0)
		return 0;
	for (int i = 0; code == 0 && j->t->fd < 0 && i < j->addrs->count; i++) {
		if (!polls[i].revents)
			continue;
		if (j->tries[i].state == JOIN_CONNECTING)
			connect_connected(j, i);
		else
			code = connect_recv(j, &j->tries[i]);
	}
	return code;
}

/* Is it over?  Every address is out, or so is the time. */
static int connect_check(const struct join *j, int64_t timeout_ms)
{
	char seconds[24];
	int left = 0;

	for (int i = 0; i < j->addrs->count; i++)
		left += j->tries[i].state != JOIN_OUT;
	if (left == 0)
		return error_set(j->code, "rank %d cannot meet rank 0: %s%s", j->t->bootstrap.rank,
				 j->note,
				 j->code == COLL_ERR_PEER_LOST
					 ? " (rank 0 has ended, or all its ranks are there already)"
					 : "");
	if (clock_now_ms() >= j->deadline)
		return error_set(
			COLL_ERR_TIMEOUT, "rank 0 of %d has not been heard from after %s s; %s",
			j->t->bootstrap.nranks, bootstrap_seconds(timeout_ms, seconds), j->note);
	return 0;
}

int connect_to_root(struct star *t, const struct address_list *addrs, int retry, int64_t deadline,
		    int64_t timeout_ms)
{
	struct join j = {
		.t = t, .addrs = addrs, .named = retry, .retry = retry, .deadline = deadline};
	int code = 0;

	for (int i = 0; i < addrs->count; i++) {
		j.tries[i].fd = -1;
		j.tries[i].start = clock_now_ms() + (int64_t)i * JOIN_STAGGER_MS;
		address_format(&addrs->item[i], j.tries[i].text);
	}
	while (code == 0 && t->fd < 0) {
		code = bootstrap_check_aborted(&t->bootstrap);
		if (code == 0)
			code = connect_turn(&j);
		if (code == 0 && t->fd < 0)
			code = connect_check(&j, timeout_ms);
	}
	for (int i = 0; i < addrs->count; i++)
		if (j.tries[i].fd >= 0)
			close(j.tries[i].fd);
	return code;
}
