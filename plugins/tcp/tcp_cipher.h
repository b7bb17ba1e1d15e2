/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_cipher.h - the cryptography of the tcp backend.  Only its file uses libsodium.
 *
 * tcp_cipher.c needs libsodium; where configure did not find it, tcp_cipher_none.c takes its place.
 */
#ifndef TCP_CIPHER_H
#define TCP_CIPHER_H

#include <stddef.h>
#include <stdint.h>

enum {
	TCP_TAG = 16,        /* bytes that sealing adds */
	TCP_SESSION_KEY = 16 /* bytes of the key from which the keys of both directions are made */
};

/* The values of the option tcp.security. */
enum tcp_security { TCP_SECURITY_NONE, TCP_SECURITY_INTEGRITY, TCP_SECURITY_ENCRYPT };

/* One direction of one connection: its key and the number of its next unit. */
struct tcp_cipher;

struct tcp_cipher_kind {
	enum tcp_security security;
	int aes;           /* AES-256-GCM; else ChaCha20-Poly1305 */
	uint32_t from, to; /* ranks */
};

/* Is libsodium built in and usable? */
int tcp_cipher_usable(void);
/* Has this processor AES-256-GCM? */
int tcp_cipher_has_aes(void);
/* Returns "libsodium 1.0.18", or the reason why there is none. */
const char *tcp_cipher_library(void);

/* Makes a cipher; returns NULL without memory.  Ciphers of equal kinds and session keys have equal keys. */
struct tcp_cipher *tcp_cipher_new(const struct tcp_cipher_kind *kind,
				  const uint8_t session[TCP_SESSION_KEY]);
/* Erases the key. */
void tcp_cipher_free(struct tcp_cipher *cipher);

/* Seals n bytes in place, encrypted if the kind says so, and writes the tag after them. */
void tcp_cipher_seal(struct tcp_cipher *cipher, uint8_t *bytes, size_t n);
/*
 * Checks n sealed bytes and the tag after them, and only then writes their plain form to `out`, which may be `bytes`.
 * Returns 0 if the unit is not the next unit that the peer sealed; then no byte of it may be used.
 */
int tcp_cipher_open(struct tcp_cipher *cipher, uint8_t *out, const uint8_t *bytes, size_t n);

#endif
