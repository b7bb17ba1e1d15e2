/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_cipher.c - seals and opens units with an AEAD of libsodium: AES-256-GCM where every rank's processor has
 * it, else ChaCha20-Poly1305.
 *
 * Integrity is the same AEAD with an empty plaintext and the unit as additional data: one construction
 * serves both settings, and AES-256-GCM is the fastest sound construction (README.md has the measurement).
 *
 * The nonce is the number of the unit.  A unit that is changed, dropped, repeated or out of order
 * therefore does not open.  Both directions of all connections have keys of their own, so no nonce is used
 * twice with a key.
 */
#include "tcp_cipher.h"

#include <endian.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

/*
 * Units under one key: 1 GiB at most, far below the bound of GCM.  The next key follows from the last key, which is then
 * erased.
 */
enum { TCP_CIPHER_UNITS = 1 << 14 };

struct tcp_cipher {
	crypto_aead_aes256gcm_state aes; /* the expanded key, if kind.aes */
	struct tcp_cipher_kind kind;
	uint64_t number; /* of the next unit */
	uint8_t key[32];
};

_Static_assert(TCP_TAG == crypto_aead_aes256gcm_ABYTES &&
		       TCP_TAG == crypto_aead_chacha20poly1305_ietf_ABYTES,
	       "both ciphers have tags of one size");
_Static_assert(crypto_aead_aes256gcm_KEYBYTES == 32 &&
		       crypto_aead_chacha20poly1305_ietf_KEYBYTES == 32,
	       "both ciphers have keys of one size");

int tcp_cipher_usable(void)
{
	return sodium_init() >= 0;
}

int tcp_cipher_has_aes(void)
{
	return tcp_cipher_usable() && crypto_aead_aes256gcm_is_available();
}

const char *tcp_cipher_library(void)
{
	static const char version[] = "libsodium " SODIUM_VERSION_STRING;

	return tcp_cipher_usable() ? version : "libsodium does not start";
}

/* Makes the expanded key. */
static void tcp_cipher_expand(struct tcp_cipher *c)
{
	if (c->kind.aes)
		crypto_aead_aes256gcm_beforenm(&c->aes, c->key);
}

struct tcp_cipher *tcp_cipher_new(const struct tcp_cipher_kind *kind,
				  const uint8_t session[TCP_SESSION_KEY])
{
	struct {
		char label[16];
		uint32_t security, aes, from, to;
	} text = {.label = "libcoll tcp",
		  .security = htole32((uint32_t)kind->security),
		  .aes = htole32((uint32_t)kind->aes),
		  .from = htole32(kind->from),
		  .to = htole32(kind->to)};
	struct tcp_cipher *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->kind = *kind;
	crypto_generichash(c->key, sizeof(c->key), (const uint8_t *)&text, sizeof(text), session,
			   TCP_SESSION_KEY);
	tcp_cipher_expand(c);
	return c;
}

void tcp_cipher_free(struct tcp_cipher *c)
{
	if (!c)
		return;
	sodium_memzero(c, sizeof(*c));
	free(c);
}

/* Makes the nonce of the next unit, and every TCP_CIPHER_UNITS units a new key. */
static void tcp_cipher_step(struct tcp_cipher *c, uint8_t nonce[12])
{
	static const uint8_t label[] = "libcoll tcp next";
	uint64_t number = htole64(c->number);

	if (c->number && c->number % TCP_CIPHER_UNITS == 0) {
		uint8_t next[32];

		crypto_generichash(next, sizeof(next), label, sizeof(label), c->key,
				   sizeof(c->key));
		memcpy(c->key, next, sizeof(next));
		sodium_memzero(next, sizeof(next));
		tcp_cipher_expand(c);
	}
	memcpy(nonce, &number, sizeof(number));
	memset(nonce + sizeof(number), 0, 12 - sizeof(number));
	c->number++;
}

void tcp_cipher_seal(struct tcp_cipher *c, uint8_t *bytes, size_t n)
{
	int encrypts = c->kind.security == TCP_SECURITY_ENCRYPT;
	const uint8_t *data = encrypts ? NULL : bytes;
	size_t plain = encrypts ? n : 0;
	uint8_t nonce[12];

	tcp_cipher_step(c, nonce);
	if (c->kind.aes)
		crypto_aead_aes256gcm_encrypt_detached_afternm(bytes, bytes + n, NULL, bytes, plain,
							       data, n - plain, NULL, nonce,
							       &c->aes);
	else
		crypto_aead_chacha20poly1305_ietf_encrypt_detached(
			bytes, bytes + n, NULL, bytes, plain, data, n - plain, NULL, nonce, c->key);
}

int tcp_cipher_open(struct tcp_cipher *c, uint8_t *out, const uint8_t *bytes, size_t n)
{
	int encrypts = c->kind.security == TCP_SECURITY_ENCRYPT, failed;
	const uint8_t *data = encrypts ? NULL : bytes;
	size_t plain = encrypts ? n : 0;
	uint8_t nonce[12];

	tcp_cipher_step(c, nonce);
	if (c->kind.aes)
		failed = crypto_aead_aes256gcm_decrypt_detached_afternm(
			out, NULL, bytes, plain, bytes + n, data, n - plain, nonce, &c->aes);
	else
		failed = crypto_aead_chacha20poly1305_ietf_decrypt_detached(
			out, NULL, bytes, plain, bytes + n, data, n - plain, nonce, c->key);
	if (!failed && !encrypts && out != bytes)
		memcpy(out, bytes, n);
	return !failed;
}
