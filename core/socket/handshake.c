/* SPDX-License-Identifier: BSD-3-Clause */
/* handshake.c - computes and checks the macs of the handshake's messages. */
#include "socket/handshake.h"

#include <endian.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>

enum { HANDSHAKE_VERSION_END = offsetof(struct handshake_challenge, version) + 4 };

_Static_assert(offsetof(struct handshake_answer, version) ==
		       offsetof(struct handshake_challenge, version),
	       "every version finds the version at the same place");

int handshake_is_brief(const struct handshake *hs, int family)
{
	return hs->brief && family == AF_UNIX;
}

static uint8_t *handshake_mac_of(struct handshake_messages *messages, enum handshake_step step)
{
	switch (step) {
	case HANDSHAKE_ANSWER: return messages->answer.mac;
	case HANDSHAKE_VERDICT: return messages->verdict.mac;
	default: return messages->confirm.mac;
	}
}

void handshake_seal(const struct handshake *hs, const struct handshake_messages *messages,
		    enum handshake_step step, uint8_t mac[HANDSHAKE_MAC_SIZE])
{
	static const size_t end[] = {
		[HANDSHAKE_ANSWER] = offsetof(struct handshake_messages, verdict),
		[HANDSHAKE_VERDICT] = offsetof(struct handshake_messages, confirm),
		[HANDSHAKE_CONFIRM] = sizeof(struct handshake_messages),
	};
	struct handshake_messages copy = *messages;

	/* Each message has a letter of its own in place of its mac, so no mac fits another message. */
	memset(handshake_mac_of(&copy, step), "AVC"[step], HANDSHAKE_MAC_SIZE);
	hs->mac(hs->user, &copy, end[step], mac);
}

void handshake_session_key(const struct handshake *hs, const struct handshake_messages *messages,
			   uint8_t key[HANDSHAKE_KEY_SIZE])
{
	struct handshake_messages copy = *messages;

	/* The letter differs from those of the macs, which everybody on the path can read. */
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
	struct handshake_messages copy = *messages;
	uint8_t mac[HANDSHAKE_MAC_SIZE];

	handshake_seal(hs, messages, step, mac);
	return handshake_same_mac(mac, handshake_mac_of(&copy, step));
}

int handshake_has_magic(const struct handshake *hs, const void *message, size_t got)
{
	return memcmp(message, hs->magic, got < sizeof(hs->magic) ? got : sizeof(hs->magic)) == 0;
}

uint32_t handshake_version(const struct handshake *hs, const void *message, size_t got)
{
	uint32_t version;

	if (got < HANDSHAKE_VERSION_END)
		return hs->version;
	memcpy(&version, (const char *)message + offsetof(struct handshake_challenge, version),
	       sizeof(version));
	return le32toh(version);
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
