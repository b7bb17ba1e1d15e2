/* SPDX-License-Identifier: BSD-3-Clause */
/* handshake.c - the messages of the handshake, as both ends send and receive them, and their macs. */
#include "socket/handshake.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { HANDSHAKE_VERSION_AT = offsetof(struct handshake_challenge, version) };

_Static_assert(offsetof(struct handshake_answer, version) ==
		       offsetof(struct handshake_challenge, version),
	       "every version finds the version at the same place");

/* Where each message begins and ends, and where its mac is. */
static const struct {
	size_t at, end, mac;
} handshake_parts[] = {
	[HANDSHAKE_CHALLENGE] = {offsetof(struct handshake_messages, challenge),
				 offsetof(struct handshake_messages, answer), 0},
	[HANDSHAKE_ANSWER] = {offsetof(struct handshake_messages, answer),
			      offsetof(struct handshake_messages, verdict),
			      offsetof(struct handshake_messages, answer.mac)},
	[HANDSHAKE_VERDICT] = {offsetof(struct handshake_messages, verdict),
			       offsetof(struct handshake_messages, confirm),
			       offsetof(struct handshake_messages, verdict.mac)},
	[HANDSHAKE_CONFIRM] = {offsetof(struct handshake_messages, confirm),
			       sizeof(struct handshake_messages),
			       offsetof(struct handshake_messages, confirm.mac)},
};

_Static_assert(sizeof(struct handshake_messages) ==
		       sizeof(struct handshake_challenge) + sizeof(struct handshake_answer) +
			       sizeof(struct handshake_verdict) + sizeof(struct handshake_confirm),
	       "messages have no gaps");

void handshake_seal(const struct handshake *hs, const struct handshake_messages *messages,
		    enum handshake_step step, uint8_t mac[HANDSHAKE_MAC_SIZE])
{
	struct handshake_messages copy = *messages;

	/* Each message has a letter of its own in place of its mac, so no mac fits another message. */
	memset((char *)&copy + handshake_parts[step].mac, "AVC"[step], HANDSHAKE_MAC_SIZE);
	hs->mac(hs->user, &copy, handshake_parts[step].end, mac);
}

void handshake_session_key(const struct handshake *hs, const struct handshake_messages *messages,
			   uint8_t key[HANDSHAKE_KEY_SIZE])
{
	struct handshake_messages copy = *messages;

	/* The letter differs from the letters of the macs, which everybody on the path can read. */
	memset(copy.confirm.mac, 'S', sizeof(copy.confirm.mac));
	hs->mac(hs->user, &copy, sizeof(copy), key);
}

int handshake_same_mac(const uint8_t a[HANDSHAKE_MAC_SIZE], const uint8_t b[HANDSHAKE_MAC_SIZE])
{
	unsigned differs = 0;

	for (int i = 0; i < HANDSHAKE_MAC_SIZE; i++)
		differs |= (unsigned)(a[i] ^ b[i]);
	return differs == 0;
}

int handshake_is_sealed(const struct handshake *hs, const struct handshake_messages *messages,
			enum handshake_step step)
{
	uint8_t mac[HANDSHAKE_MAC_SIZE];

	handshake_seal(hs, messages, step, mac);
	return handshake_same_mac(mac, (const uint8_t *)messages + handshake_parts[step].mac);
}

/* ------------------------------------------------- a connection that is not open yet -- */

/* Do the first `got` bytes of a challenge or an answer belong to this protocol? */
static int handshake_has_magic(const struct handshake *hs, const void *message, size_t got)
{
	return memcmp(message, hs->magic, got < sizeof(hs->magic) ? got : sizeof(hs->magic)) == 0;
}

/* The version in a challenge or an answer; while it has not come, this end's version. */
static uint32_t handshake_version(const struct handshake *hs, const char *message, size_t got)
{
	uint32_t version;

	if (got < HANDSHAKE_VERSION_AT + sizeof(version))
		return hs->version;
	memcpy(&version, message + HANDSHAKE_VERSION_AT, sizeof(version));
	return le32toh(version);
}

void connection_begin(const struct handshake *hs, struct connection *c, int fd, int family,
		      enum handshake_step awaits)
{
	*c = (struct connection){.fd = fd, .place = -1, .brief = hs->brief && family == AF_UNIX};
	connection_await(c, awaits);
}

void connection_await(struct connection *c, enum handshake_step step)
{
	c->awaits = step;
	c->since = clock_now_ms();
	c->got = 0;
}

void connection_watch(struct connection *c, struct poll_set *set)
{
	poll_set_watch(set, &c->place, c->fd, c->awaits == HANDSHAKE_CONNECT ? POLLOUT : POLLIN);
}

static int connection_release(struct connection *c, struct poll_set *set)
{
	const int fd = c->fd;

	poll_set_unwatch(set, &c->place);
	c->fd = -1;
	return fd;
}

void connection_close(struct connection *c, struct poll_set *set)
{
	const int fd = connection_release(c, set);

	if (fd >= 0)
		close(fd);
}

void connection_finish(const struct handshake *hs, struct connection *c, struct poll_set *set,
		       uint32_t rank, const struct address *address, struct session *session)
{
	session->rank = rank;
	session->fd = connection_release(c, set);
	session->family = address->sa.ss_family;
	address_format(address, session->address);
	memset(session->key, 0, sizeof(session->key));
	if (!c->brief)
		handshake_session_key(hs, &c->messages, session->key);
}

enum handshake_event connection_receive(const struct handshake *hs, struct connection *c)
{
	const enum handshake_step step = c->awaits;
	const size_t size = handshake_parts[step].end - handshake_parts[step].at;
	char *message = (char *)&c->messages + handshake_parts[step].at;
	const ssize_t n = socket_read(c->fd, message + c->got, size - c->got);
	const int is_first = step == HANDSHAKE_CHALLENGE || step == HANDSHAKE_ANSWER;

	if (n < 0)
		return HANDSHAKE_LOST;
	c->got += (size_t)n;
	if (is_first && !handshake_has_magic(hs, message, c->got))
		return HANDSHAKE_FOREIGN;
	if (is_first && handshake_version(hs, message, c->got) != hs->version)
		return HANDSHAKE_VERSION;
	if (c->got < size)
		return HANDSHAKE_MORE;
	if (step != HANDSHAKE_CHALLENGE && !handshake_is_sealed(hs, &c->messages, step))
		return HANDSHAKE_FORGED;
	return HANDSHAKE_WHOLE;
}

int connection_send(const struct handshake *hs, struct connection *c, enum handshake_step step)
{
	const size_t size = handshake_parts[step].end - handshake_parts[step].at;
	char *message = (char *)&c->messages + handshake_parts[step].at;
	const uint32_t version = htole32(hs->version);

	if (step == HANDSHAKE_CHALLENGE || step == HANDSHAKE_ANSWER) {
		memcpy(message, hs->magic, sizeof(hs->magic));
		memcpy(message + HANDSHAKE_VERSION_AT, &version, sizeof(version));
	}
	if (step != HANDSHAKE_CHALLENGE)
		handshake_seal(hs, &c->messages, step,
			       (uint8_t *)&c->messages + handshake_parts[step].mac);
	return socket_write(c->fd, message, size) == (ssize_t)size ? 0 : -1;
}

void handshake_log(const struct handshake *hs, int level, const char *fmt, ...)
{
	char text[400];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	hs->log(hs->user, level, text);
}
