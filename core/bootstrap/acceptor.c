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
static void door_forget(struct tcp_boot *t, int i)
{
	t->nstrangers--;
	memmove(&t->strangers[i], &t->strangers[i + 1],
		(size_t)(t->nstrangers - i) * sizeof(t->strangers[0]));
}

static void door_drop(struct tcp_boot *t, int i, const char *why)
{
	char addr[NET_ADDR_SIZE];

	net_format_peer(t->strangers[i].fd, addr);
	log_debug("connection from %s dropped: %s", addr, why);
	close(t->strangers[i].fd);
	door_forget(t, i);
	t->turned_away++;
}

void tcp_door_close(struct tcp_boot *t)
{
	while (t->nstrangers > 0)
		door_drop(t, t->nstrangers - 1, "all ranks have arrived");
	if (t->turned_away > 0)
		log_info("%d connections to the meeting point were not from ranks of this job",
			 t->turned_away);
	t->turned_away = 0;
}

void tcp_door_sweep(struct tcp_boot *t)
{
	while (t->nstrangers > 0 && boot_now() - t->strangers[0].since >= TCP_STRANGER_LIFE_MS)
		door_drop(t, 0, "it did not say who it is");
}

/* Drops the one that has been silent longest, unless it has hardly had time to speak. */
static int door_drop_oldest(struct tcp_boot *t, const char *why)
{
	int64_t age = boot_now() - t->strangers[0].since;

	if (age < TCP_STRANGER_MIN_MS) {
		t->accept_after = boot_now() + TCP_STRANGER_MIN_MS - age;
		return 0;
	}
	door_drop(t, 0, why);
	return 1;
}

/* No descriptor left.  Has one been won back? */
static int door_out_of_files(struct tcp_boot *t, int err)
{
	char why[NET_WHY_SIZE];

	snprintf(t->note, sizeof(t->note), "rank 0 cannot accept a connection: %s",
		 net_why(err, why));
	if (t->nstrangers > 0)
		return door_drop_oldest(t, t->note);
	t->accept_after = boot_now() + TCP_ACCEPT_PAUSE_MS;
	return 0;
}

static void door_greet(struct tcp_boot *t, int fd)
{
	struct tcp_stranger *s = &t->strangers[t->nstrangers];

	memset(s, 0, sizeof(*s));
	s->fd = fd;
	s->since = boot_now();
	memcpy(s->challenge.magic, tcp_magic, sizeof(tcp_magic));
	s->challenge.version = htole32(TCP_VERSION);
	t->nstrangers++;
	net_tune(fd);
	if (boot_random(s->challenge.nonce, sizeof(s->challenge.nonce)) != 0 ||
	    net_write(fd, &s->challenge, sizeof(s->challenge)) != sizeof(s->challenge))
		door_drop(t, t->nstrangers - 1, "it cannot be written to");
}

/* Lets one in from the street; 0: nobody is there, or there is no room just now. */
static int door_accept_one(struct tcp_boot *t, int listener)
{
	int fd;

	if (t->nstrangers == TCP_MAX_STRANGERS &&
	    !door_drop_oldest(t, "too many others are waiting"))
		return 0;
	fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC);
	if (fd >= 0) {
		door_greet(t, fd);
		return 1;
	}
	if (errno == EMFILE || errno == ENFILE || errno == ENOBUFS || errno == ENOMEM)
		return door_out_of_files(t, errno);
	return errno == ECONNABORTED || errno == EINTR;
}

void tcp_door_accept(struct tcp_boot *t, int listener)
{
	/* A few at a time, so that a flood does not keep ranks from being heard. */
	for (int i = 0; i < 16; i++)
		if (!door_accept_one(t, listener))
			break;
}

/* ------------------------------------------------------------------- the proof -- */

/* Sends the verdict with its sentence; -1 if the stranger does not take it. */
static int door_tell(struct tcp_boot *t, const struct tcp_stranger *s, uint32_t type, int code,
		     const char *text)
{
	struct {
		struct tcp_verdict verdict;
		char text[BOOT_TEXT_SIZE];
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
	return net_write(s->fd, &m, len) == (ssize_t)len ? 0 : -1;
}

/* Turns stranger i away with the calling thread's error as the reason. */
static void door_refuse(struct tcp_boot *t, int i, int code)
{
	char addr[NET_ADDR_SIZE];

	net_format_peer(t->strangers[i].fd, addr);
	snprintf(t->note, sizeof(t->note), "turned away %s: %.220s", addr, error_text());
	door_tell(t, &t->strangers[i], TCP_REFUSED, code, error_text());
	door_drop(t, i, t->note);
}

/* What is wrong with a rank that knows the key; 0: nothing. */
static int door_check_rank(const struct tcp_boot *t, uint32_t rank, uint32_t nranks)
{
	if (nranks != (uint32_t)t->boot.nranks)
		return error_set(COLL_ERR_INVALID_ARGUMENT,
				 "the number of ranks differs: %u on rank %u, %d on rank 0", nranks,
				 rank, t->boot.nranks);
	if (rank >= nranks || rank == 0 || t->seats[rank].fd >= 0)
		return error_set(COLL_ERR_INVALID_USAGE,
				 "rank %u of %u is there already: give each process a rank of its "
				 "own",
				 rank, nranks);
	return 0;
}

static void door_seat(struct tcp_boot *t, int i, uint32_t rank)
{
	struct tcp_stranger s = t->strangers[i];

	if (door_tell(t, &s, TCP_WELCOME, 0, "") != 0) {
		door_drop(t, i, "it does not take the welcome");
		return;
	}
	door_forget(t, i);
	t->seats[rank].fd = s.fd;
	net_format_peer(s.fd, t->seats[rank].addr);
	log_debug("rank %u has arrived from %s", rank, t->seats[rank].addr);
}

/* Stranger i has sent its whole answer. */
static int door_judge(struct tcp_boot *t, int i)
{
	struct tcp_stranger *s = &t->strangers[i];
	uint32_t rank = le32toh(s->answer.rank), nranks = le32toh(s->answer.nranks);
	uint8_t mac[16];
	int code;

	tcp_answer_mac(t->shared, &s->challenge, &s->answer, mac);
	if (!tcp_mac_equal(mac, s->answer.mac)) {
		error_set(COLL_ERR_INVALID_ARGUMENT,
			  "its key is not this job's (COLL_KEY, or the unique id, must be the "
			  "same on all ranks)");
		door_refuse(t, i, COLL_ERR_INVALID_ARGUMENT);
		if (t->wrong_keys++ == 0)
			log_warn("%s", t->note);
		return 0;
	}
	if (s->answer.order != UINT32_C(0x01020304)) {
		code = error_set(COLL_ERR_UNSUPPORTED,
				 "the machine of rank %u has another byte order than rank 0's",
				 rank);
		door_refuse(t, i, code);
		return code;
	}
	code = door_check_rank(t, rank, nranks);
	if (code == 0)
		door_seat(t, i, rank);
	else
		door_refuse(t, i, code);
	/* A second rank 3 is one too many; another number of ranks can never come right. */
	return code == COLL_ERR_INVALID_ARGUMENT ? code : 0;
}

int tcp_door_hear(struct tcp_boot *t, int i)
{
	struct tcp_stranger *s = &t->strangers[i];
	size_t prefix = s->got;
	ssize_t n = net_read(s->fd, (char *)&s->answer + s->got, sizeof(s->answer) - s->got);

	if (n < 0) {
		door_drop(t, i, "it went away");
		return 0;
	}
	s->got += (size_t)n;
	if (prefix < sizeof(tcp_magic) &&
	    memcmp(s->answer.magic, tcp_magic,
		   s->got < sizeof(tcp_magic) ? s->got : sizeof(tcp_magic)) != 0) {
		door_drop(t, i, "it does not speak this protocol");
		return 0;
	}
	if (s->got >= 12 && le32toh(s->answer.version) != TCP_VERSION) {
		error_set(COLL_ERR_UNSUPPORTED,
			  "its libcoll speaks bootstrap protocol %u, rank 0's %d",
			  le32toh(s->answer.version), TCP_VERSION);
		door_refuse(t, i, COLL_ERR_UNSUPPORTED);
		return 0;
	}
	return s->got == sizeof(s->answer) ? door_judge(t, i) : 0;
}
