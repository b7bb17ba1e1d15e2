/* SPDX-License-Identifier: BSD-3-Clause */
/* cipher_test.c - units of both ciphers: open, and do not open once they were changed or moved. */
#include "../../plugins/tcp/tcp_cipher.h"
#include "../lib/tap.h"

enum { SIZES = 6, MOST = 65536, KEYS_END = 3 << 14 };

static const size_t sizes[SIZES] = {1, 15, 64, 1000, 4096, MOST};
static const uint8_t session[TCP_SESSION_KEY] = "a test's secret";
static uint8_t plain[MOST], sealed[MOST + TCP_TAG], out[MOST];

static struct tcp_cipher *test_cipher(enum tcp_security security, int aes, uint32_t from)
{
	const struct tcp_cipher_kind kind = {
		.security = security, .aes = aes, .from = from, .to = !from};

	return tcp_cipher_new(&kind, session);
}

static void test_sizes(enum tcp_security security, int aes)
{
	struct tcp_cipher *a = test_cipher(security, aes, 0), *b = test_cipher(security, aes, 0);
	int bad = 0, shown = 0;

	for (int i = 0; i < SIZES; i++) {
		memcpy(sealed, plain, sizes[i]);
		tcp_cipher_seal(a, sealed, sizes[i]);
		shown += !memcmp(sealed, plain, sizes[i]);
		bad += !tcp_cipher_open(b, i % 2 ? out : sealed, sealed, sizes[i]) ||
		       memcmp(i % 2 ? out : sealed, plain, sizes[i]);
	}
	is_int(bad, 0, "units of all sizes open");
	is_int(shown, security == TCP_SECURITY_ENCRYPT ? 0 : SIZES, "their bytes can be read: %s",
	       security == TCP_SECURITY_ENCRYPT ? "no" : "yes");
	tcp_cipher_free(a);
	tcp_cipher_free(b);
}

/* Every bit of a unit and of its tag counts. */
static void test_changes(enum tcp_security security, int aes)
{
	enum { SIZE = 40 };
	int opened = 0, written = 0;

	for (int bit = 0; bit < 8 * (SIZE + TCP_TAG); bit++) {
		struct tcp_cipher *a = test_cipher(security, aes, 0),
				  *b = test_cipher(security, aes, 0);

		memcpy(sealed, plain, SIZE);
		tcp_cipher_seal(a, sealed, SIZE);
		sealed[bit / 8] ^= (uint8_t)(1 << bit % 8);
		memset(out, 0, SIZE);
		opened += tcp_cipher_open(b, out, sealed, SIZE);
		for (int i = 0; i < SIZE; i++)
			written += out[i] != 0;
		tcp_cipher_free(a);
		tcp_cipher_free(b);
	}
	is_int(opened, 0, "a unit with a changed bit does not open");
	is_int(written, 0, "and nothing of it is written");
}

/* A unit that does not come in its turn, or belongs to another direction, kind or key, does not open. */
static void test_places(enum tcp_security security, int aes)
{
	enum { SIZE = 64 };
	static const uint8_t other_session[TCP_SESSION_KEY] = "another secret";
	const struct tcp_cipher_kind kind = {.security = security, .aes = aes, .from = 0, .to = 1};
	struct tcp_cipher *a = test_cipher(security, aes, 0), *b[4];
	uint8_t second[SIZE + TCP_TAG];

	b[0] = test_cipher(security, aes, 0);
	b[1] = test_cipher(security, aes, 1);
	b[2] = test_cipher(security == TCP_SECURITY_ENCRYPT ? TCP_SECURITY_INTEGRITY
							    : TCP_SECURITY_ENCRYPT,
			   aes, 0);
	b[3] = tcp_cipher_new(&kind, other_session);
	memcpy(sealed, plain, SIZE);
	memcpy(second, plain, SIZE);
	tcp_cipher_seal(a, sealed, SIZE);
	tcp_cipher_seal(a, second, SIZE);
	for (int i = 1; i < 4; i++)
		ok(!tcp_cipher_open(b[i], out, sealed, SIZE), "%s does not open it",
		   i == 1   ? "the other direction"
		   : i == 2 ? "another kind"
			    : "another key");
	ok(tcp_cipher_open(b[0], out, sealed, SIZE), "its own does");
	ok(!tcp_cipher_open(b[0], out, sealed, SIZE), "but not twice");
	tcp_cipher_free(b[0]);
	b[0] = test_cipher(security, aes, 0);
	ok(!tcp_cipher_open(b[0], out, second, SIZE), "nor one before its turn");
	for (int i = 0; i < 4; i++)
		tcp_cipher_free(b[i]);
	tcp_cipher_free(a);
}

/* Both ends take the next key at the same unit. */
static void test_keys(enum tcp_security security, int aes)
{
	struct tcp_cipher *a = test_cipher(security, aes, 0), *b = test_cipher(security, aes, 0);
	int bad = 0;

	for (int i = 0; i < KEYS_END; i++) {
		memcpy(sealed, plain, 8);
		tcp_cipher_seal(a, sealed, 8);
		bad += !tcp_cipher_open(b, out, sealed, 8) || memcmp(out, plain, 8);
	}
	is_int(bad, 0, "%d units, under several keys", KEYS_END);
	tcp_cipher_free(a);
	tcp_cipher_free(b);
}

int main(void)
{
	if (!tcp_cipher_usable())
		skip_all("%s", tcp_cipher_library());
	for (size_t i = 0; i < sizeof(plain); i++)
		plain[i] = (uint8_t)(i * 2654435761u >> 11);
	for (int aes = 0; aes < 2; aes++)
		for (enum tcp_security s = TCP_SECURITY_INTEGRITY; s <= TCP_SECURITY_ENCRYPT; s++) {
			if (aes && !tcp_cipher_has_aes()) {
				skip(1, "no AES-256-GCM on this processor");
				continue;
			}
			diag("%s, %s", aes ? "AES-256-GCM" : "ChaCha20-Poly1305",
			     s == TCP_SECURITY_ENCRYPT ? "encrypt" : "integrity");
			test_sizes(s, aes);
			test_changes(s, aes);
			test_places(s, aes);
			test_keys(s, aes);
		}
	return done_testing();
}
