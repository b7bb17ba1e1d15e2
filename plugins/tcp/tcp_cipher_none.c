/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_cipher_none.c - takes the place of tcp_cipher.c in a build without libsodium. */
#include "tcp_cipher.h"

int tcp_cipher_usable(void)
{
	return 0;
}

int tcp_cipher_has_aes(void)
{
	return 0;
}

const char *tcp_cipher_library(void)
{
	return "built without libsodium";
}

struct tcp_cipher *tcp_cipher_new(const struct tcp_cipher_kind *kind,
				  const uint8_t session[TCP_SESSION_KEY])
{
	(void)kind;
	(void)session;
	return NULL;
}

void tcp_cipher_free(struct tcp_cipher *cipher)
{
	(void)cipher;
}

void tcp_cipher_seal(struct tcp_cipher *cipher, uint8_t *bytes, size_t n)
{
	(void)cipher;
	(void)bytes;
	(void)n;
}

int tcp_cipher_open(struct tcp_cipher *cipher, uint8_t *out, const uint8_t *bytes, size_t n)
{
	(void)cipher;
	(void)out;
	(void)bytes;
	(void)n;
	return 0;
}
