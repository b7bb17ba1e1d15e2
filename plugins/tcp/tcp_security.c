/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp_security.c - the option tcp.security: its value on this rank, and the ranks' agreement on it. */
#include "tcp.h"

#include <stdio.h>
#include <string.h>

static const char *const tcp_security_names[] = {
	[TCP_SECURITY_NONE] = "none",
	[TCP_SECURITY_INTEGRITY] = "integrity",
	[TCP_SECURITY_ENCRYPT] = "encrypt",
};

enum { TCP_SECURITIES = sizeof(tcp_security_names) / sizeof(tcp_security_names[0]) };

static int32_t tcp_security_parse(const char *text, uint8_t *security, coll_error_t *err)
{
	*security = TCP_SECURITY_NONE;
	for (uint8_t i = 0; text && *text && i < TCP_SECURITIES; i++) {
		if (strcmp(text, tcp_security_names[i]))
			continue;
		*security = i;
		return COLL_SUCCESS;
	}
	if (!text || !*text)
		return COLL_SUCCESS;
	return error_fill(err, COLL_ERR_CONFIG,
			  "option tcp.security is '%.100s', but must be none, integrity or encrypt",
			  text);
}

/* Has the core a secret?  A core before ABI 1.4 does not tell; then there is none. */
static int tcp_security_has_secret(const coll_host_t *host)
{
	return host->size >= offsetof(coll_host_t, key_is_secret) + sizeof(host->key_is_secret) &&
	       host->key_is_secret;
}

/* Every failure is COLL_ERR_CONFIG: with another code the core might go on with another backend. */
int32_t tcp_security_read(const coll_host_t *host, struct tcp_record *record, coll_error_t *err)
{
	const char *text = host->option_string(host, "security");
	int32_t code = tcp_security_parse(text, &record->security, err);

	if (code || record->security == TCP_SECURITY_NONE)
		return code;
	if (!tcp_cipher_usable())
		return error_fill(err, COLL_ERR_CONFIG,
				  "option tcp.security is %s, which needs libsodium, but this tcp "
				  "backend was %s: install libsodium's headers (libsodium-dev) and "
				  "build libcoll with --with-sodium, or set the option to none",
				  text, tcp_cipher_library());
	if (host->nranks > 1 && !tcp_security_has_secret(host))
		return error_fill(err, COLL_ERR_CONFIG,
				  "option tcp.security is %s, but the ranks share no secret from "
				  "which to make keys: set COLL_KEY to the same secret text on all "
				  "ranks, or let the ranks meet by a unique id",
				  text);
	record->has_aes = (uint8_t)tcp_cipher_has_aes();
	return COLL_SUCCESS;
}

int32_t tcp_security_agree(struct tcp *t, const struct tcp_record *records, coll_error_t *err)
{
	t->security = records[t->rank].security;
	t->aes = 1;
	for (uint32_t i = 0; i < t->nranks; i++) {
		t->aes &= records[i].has_aes != 0;
		if (records[i].security >= TCP_SECURITIES)
			return error_fill(err, COLL_ERR_INTERNAL,
					  "rank %u sent a malformed address record", i);
		if (records[i].security != records[0].security)
			return error_fill(
				err, COLL_ERR_CONFIG,
				"option tcp.security differs: %s on rank 0, %s on rank %u; set it "
				"to the same value on all ranks",
				tcp_security_names[records[0].security],
				tcp_security_names[records[i].security], i);
	}
	return COLL_SUCCESS;
}

int32_t tcp_info(const coll_host_t *host, char *buf, uint64_t size)
{
	char paths[200];

	tcp_paths_info(host, paths, sizeof(paths));
	if (tcp_cipher_usable())
		snprintf(buf, size, "%s, security by %s; %s", tcp_cipher_library(),
			 tcp_cipher_has_aes() ? "AES-256-GCM" : "ChaCha20-Poly1305", paths);
	else
		snprintf(buf, size, "%s, no security; %s", tcp_cipher_library(), paths);
	return COLL_SUCCESS;
}
