/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * acceptor.c - rank 0's door: lets in the ranks that know the key, and gives nothing to the rest.
 *
 * Whoever connects is a stranger until it has proved itself: it costs one descriptor, 150 bytes and
 * two seconds at most, and cannot keep others from being served.
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

const char tcp_magic[8] = {'C', 'O', 'L', 'L', 'B', 'O', 'O', 'T'};

void tcp_answer_mac(const uint8_t key[16], const struct tcp_challenge *challenge,
		    const struct tcp_answer *answer, uint8_t mac[16])
{
	struct {
		struct tcp_challenge challenge;
		struct tcp_answer answer;
	} text = {*challenge, *answer};

	memset(text.answer.mac, 'A', sizeof(text.answer.mac));
	siphash128(key, &text, sizeof(text), mac);
}

void tcp_verdict_mac(const uint8_t key[16], const struct tcp_challenge *challenge,
		     const struct tcp_answer *answer, const struct tcp_verdict *verdict,
		     uint8_t mac[16])
{
	struct {
		struct tcp_challenge challenge;
		struct tcp_answer answer;
		struct tcp_verdict verdict;
	} text = {*challenge, *answer, *verdict};

	memset(text.verdict.mac, 'V', sizeof(text.verdict.mac));
	siphash128(key, &text, sizeof(text), mac);
}

int tcp_mac_equal(const uint8_t a[16], const uint8_t b[16])
{
	unsigned differs = 0;

	for (int i = 0; i < 16; i++)
		differs |= (unsigned)(a[i] ^ b[i]);
	return differs == 0;
}

/* Takes stranger i off the list; its descriptor is the caller's. */
static void acceptor_forget(struct star *t, int i)
{
	t->npending--;
	memmove(&t->pending[i], &t->pending[i + 1],
		(size_t)(t->npending - i) * sizeof(t->pending[0]));
}

static void acceptor_drop(struct star *t, int i, const char *why)
{
	char addr[ADDRESS_TEXT_SIZE];

	address_format_peer(t->pending[i].fd, addr);
	log_debug("connection from %s dropped: %s", addr, why);
	close(t->pending[i].fd);
	acceptor_forget(t, i);
	t->turned_away++;
}

void acceptor_close(struct star *t)
{
	while (t->npending > 0)
		acceptor_drop(t, t->npending - 1, "all ranks have arrived");
	if (t->turned_away > 0)
		log_info("%d connections to the rendezvous were not from ranks of this job",
			 t->turned_away);
	t->turned_away = 0;
}

void acceptor_sweep(struct star *t)
{
	while (t->npending > 0 && clock_now_ms() - t->pending[0].since >= TCP_PENDING_LIFE_MS)
		acceptor_drop(t, 0, "it did not say who it is");
}

/* Drops the one that has been silent longest, unless it has hardly had time to speak. */
static int acceptor_drop_oldest(struct star *t, const char *why)
{
	int64_t age = clock_now_ms() - t->pending[0].since;

	if (age < TCP_PENDING_MIN_MS) {
		t->accept_after = clock_now_ms() + TCP_PENDING_MIN_MS - age;
		return 0;
	}
	acceptor_drop(t, 0, why);
	return 1;
}

/* No descriptor left.  Has one been won back? */
static int acceptor_out_of_files(struct star *t, int err)
{
	char why[SOCKET_WHY_SIZE];

	snprintf(t->note, sizeof(t->note), "rank 0 cannot accept a connection: %s",
		 socket_why(err, why));
	if (t->npending > 0)
		return acceptor_drop_oldest(t, t->note);
	t->accept_after = clock_now_ms() + TCP_ACCEPT_PAUSE_MS;
	return 0;
}

static void acceptor_greet(struct star *t, int fd)
{
	struct pending_connection *s = &t->pending[t->npending];

	memset(s, 0, sizeof(*s));
	s->fd = fd;
	s->since = clock_now_ms();
	memcpy(s->challenge.magic, tcp_magic, sizeof(tcp_magic));
	s->challenge.version = htole32(TCP_VERSION);
	t->npending++;
	socket_no_delay(fd);
	if (random_bytes(s->challenge.nonce, sizeof(s->challenge.nonce)) != 0 ||
	    socket_write(fd, &s->challenge, sizeof(s->challenge)) != sizeof(s->challenge))
		acceptor_drop(t, t->npending - 1, "it cannot be written to");
}

/* Lets one in from the street; 0: nobody is there, or there is no room just now. */
static int acceptor_accept_one(struct star *t, int listener)
{
	int fd;

	if (t->npending == TCP_MAX_PENDING &&
	    !acceptor_drop_oldest(t, "too many others are waiting"))
		return 0;
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		acceptor_greet(t, fd);
		return 1;
	}
	if (socket_is_exhausted(errno))
		return acceptor_out_of_files(t, errno);
	return errno == ECONNABORTED || errno == EINTR;
}

void acceptor_accept(struct star *t, int listener)
{
	/* A few at a time, so that a flood does not keep ranks from being heard. */
	for (int i = 0; i < 16; i++)
		if (!acceptor_accept_one(t, listener))
			break;
}

/* ------------------------------------------------------------------- the proof -- */

/* Sends the verdict with its sentence; -1 if the stranger does not take it. */
static int acceptor_send(struct star *t, const struct pending_connection *s, uint32_t type,
			 int code, const char *text)
{
	struct {
		struct tcp_verdict verdict;
		char text[BOOTSTRAP_TEXT_SIZE];
	} m;
	size_t len = strnlen(text, sizeof(m.text) - 1);

	memset(&m, 0, sizeof(m));
	m.verdict.type = htole32(type);
	m.verdict.code = (int32_t)htole32((uint32_t)code);
	m.verdict.text_len = htole32((uint32_t)len);
	memcpy(m.verdict.salt, t->salt, sizeof(t->salt));
	memcpy(m.text, text, len);
	tcp_verdict_mac(t->shared, &s->challenge, &s->answer, &m.verdict, m.verdict.mac);
	len += sizeof(m.verdict);
	return socket_write(s->fd, &m, len) == (ssize_t)len ? 0 : -1;
}

/* Turns stranger i away with the calling thread's error as the reason. */
static void acceptor_refuse(struct star *t, int i, int code)
{
	char addr[ADDRESS_TEXT_SIZE];

	address_format_peer(t->pending[i].fd, addr);
	snprintf(t->note, sizeof(t->note), "turned away %s: %.220s", addr, error_text());
	acceptor_send(t, &t->pending[i], TCP_REFUSED, code, error_text());
	acceptor_drop(t, i, t->note);
}

/* What is wrong with a rank that knows the key; 0: nothing. */
static int acceptor_check_rank(const struct star *t, uint32_t rank, uint32_t nranks)
{
	if (nranks != (uint32_t)t->bootstrap.nranks)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "the number of ranks differs: %u on rank %u, %d on rank 0", nranks,
				 rank, t->bootstrap.nranks);
	if (rank >= nranks || rank == 0 || t->conns[rank].fd >= 0)
		return error_set(COLL_ERR_INVALID_USAGE,
				 "rank %u of %u is there already: give each process a rank of its "
				 "own",
				 rank, nranks);
	return 0;
}

static void acceptor_admit(struct star *t, int i, uint32_t rank)
{
	struct pending_connection s = t->pending[i];

	if (acceptor_send(t, &s, TCP_WELCOME, 0, "") != 0) {
		acceptor_drop(t, i, "it does not take the welcome");
		return;
	}
	acceptor_forget(t, i);
	t->conns[rank].fd = s.fd;
	address_format_peer(s.fd, t->conns[rank].addr);
	log_debug("rank %u has arrived from %s", rank, t->conns[rank].addr);
}

/* Stranger i has sent its whole answer. */
static int acceptor_check(struct star *t, int i)
{
	struct pending_connection *s = &t->pending[i];
	uint32_t rank = le32toh(s->answer.rank), nranks = le32toh(s->answer.nranks);
	uint8_t mac[16];
	int code;

	tcp_answer_mac(t->shared, &s->challenge, &s->answer, mac);
	if (!tcp_mac_equal(mac, s->answer.mac)) {
		error_set(COLL_ERR_INVALID_ARGUMENT,
			  "its key is not this job's (COLL_KEY, or the unique id, must be the "
			  "same on all ranks)");
		acceptor_refuse(t, i, COLL_ERR_INVALID_ARGUMENT);
		if (t->wrong_keys++ == 0)
			log_warn("%s", t->note);
		return 0;
	}
	if (s->answer.order != UINT32_C(0x01020304)) {
		code = error_set(COLL_ERR_UNSUPPORTED,
				 "the machine of rank %u has another byte order than rank 0's",
				 rank);
		acceptor_refuse(t, i, code);
		return code;
	}
	code = acceptor_check_rank(t, rank, nranks);
	if (code == 0)
		acceptor_admit(t, i, rank);
	else
		acceptor_refuse(t, i, code);
	/* A second rank 3 is one too many; another number of ranks can never come right. */
	return code == COLL_ERR_INVALID_ARGUMENT ? code : 0;
}

int acceptor_recv(struct star *t, int i)
{
	struct pending_connection *s = &t->pending[i];
	size_t prefix = s->got;
	ssize_t n = socket_read(s->fd, (char *)&s->answer + s->got, sizeof(s->answer) - s->got);

	if (n < 0) {
		acceptor_drop(t, i, "it went away");
		return 0;
	}
	s->got += (size_t)n;
	if (prefix < sizeof(tcp_magic) &&
	    memcmp(s->answer.magic, tcp_magic,
		   s->got < sizeof(tcp_magic) ? s->got : sizeof(tcp_magic)) != 0) {
		acceptor_drop(t, i, "it does not speak this protocol");
		return 0;
	}
	if (s->got >= 12 && le32toh(s->answer.version) != TCP_VERSION) {
		error_set(COLL_ERR_UNSUPPORTED,
			  "its libcoll speaks bootstrap protocol %u, but rank 0's speaks %d",
			  le32toh(s->answer.version), TCP_VERSION);
		acceptor_refuse(t, i, COLL_ERR_UNSUPPORTED);
		return 0;
	}
	return s->got == sizeof(s->answer) ? acceptor_check(t, i) : 0;
}
