/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * record_test.c - a rank of the tcp plugin does not connect to a rank whose record is malformed, of another version or of
 * another security.
 *
 * The exchange gives rank 0 its own record as rank 1's, with one change.
 */
#include "../lib/tap.h"
#include "../lib/transport_harness.h"

#include "tcp.h"

static const char *const no_local[] = {"unix", "no", NULL};

static struct change {
	const char *what;
	size_t at; /* in the record */
	uint32_t value;
	size_t size;
	int32_t code;
	const char *text;
} change;

static int32_t exchange(const coll_host_t *host, const void *in, void *out, uint64_t len,
			int64_t timeout_ms, coll_error_t *err)
{
	uint8_t *records = out;

	(void)host;
	(void)timeout_ms;
	(void)err;
	if (len != sizeof(struct tcp_record))
		bail_out("records of %d bytes", (int)len);
	memcpy(records, in, len);
	memcpy(records + len, in, len);
	memcpy(records + len + change.at, &change.value, change.size);
	return COLL_SUCCESS;
}

static void test_refused(const coll_backend_t *backend)
{
	static struct harness h;
	const struct harness_job job = {
		.backend = backend, .nranks = 2, .options = no_local, .timeout_ms = 100};
	coll_error_t err = {.size = sizeof(err)};

	harness_host_init(&h, &job, 0);
	h.host.exchange = exchange;
	is_int(backend->open(&h.host, &h.ep, &err), change.code, "%s", change.what);
	has_str(err.text, change.text, "%s: the error", change.what);
	ok(!h.ep, "%s: nothing is open", change.what);
}

static void test_record(const coll_backend_t *backend)
{
	static const char malformed[] = "rank 1 sent a malformed address record";
	static const struct change changes[] = {
		{"one address too many", offsetof(struct tcp_record, count), ADDRESS_INET_MAX + 1,
		 sizeof(uint32_t), COLL_ERR_INTERNAL, malformed},
		{"2^32 - 1 addresses", offsetof(struct tcp_record, count), UINT32_MAX,
		 sizeof(uint32_t), COLL_ERR_INTERNAL, malformed},
		{"an address of 5 bytes", offsetof(struct tcp_record, address[0].ip_size), 5, 1,
		 COLL_ERR_INTERNAL, malformed},
		{"an address of 17 bytes", offsetof(struct tcp_record, address[0].ip_size), 17, 1,
		 COLL_ERR_INTERNAL, malformed},
		{"the next version", offsetof(struct tcp_record, version), TCP_VERSION + 1, 2,
		 COLL_ERR_INTERNAL, malformed},
		{"the last version", offsetof(struct tcp_record, version), TCP_VERSION - 1, 2,
		 COLL_ERR_INTERNAL, malformed},
		{"a security without a name", offsetof(struct tcp_record, security),
		 TCP_SECURITY_ENCRYPT + 1, 1, COLL_ERR_INTERNAL, malformed},
		{"another security", offsetof(struct tcp_record, security), TCP_SECURITY_ENCRYPT, 1,
		 COLL_ERR_CONFIG, "option tcp.security differs: none on rank 0, encrypt on rank 1"},
	};

	for (size_t i = 0; i < sizeof(changes) / sizeof(changes[0]); i++) {
		change = changes[i];
		test_refused(backend);
	}
}

int main(void)
{
	const coll_backend_t *backend = harness_load("tcp");

	if (!backend)
		bail_out("cannot load the tcp plugin");
	test_record(backend);
	return done_testing();
}
