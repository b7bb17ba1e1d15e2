/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * given_fuzz.c - the rendezvous over an application's exchange that gives back other bytes.
 *
 * The other rank's bytes, and this rank's own as they come back, are the bytes that this rank sends; the input
 * is a mask of the bits that differ.
 */
#include "fuzz.h"
#include "base/error.h"
#include "bootstrap/bootstrap_kind.h"

const char *const fuzz_name = "given";
const long fuzz_runs = 50000;

enum { RANKS = 3, LONG_PIECE = 600 };

static int32_t exchange(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	struct fuzz_input *mask = user;
	uint8_t *bytes = out;

	(void)timeout_ms;
	for (int r = 0; r < RANKS; r++)
		memcpy(bytes + (size_t)r * len, in, len);
	for (size_t i = 0; mask->left > 0 && i < RANKS * len; i += 1 + fuzz_byte(mask))
		bytes[i] ^= (uint8_t)fuzz_byte(mask);
	return mask->left > 0 && fuzz_byte(mask) == 255;
}

/* One exchange; the memory is as large as bootstrap.h says. */
static int step(struct bootstrap *bootstrap, size_t len)
{
	void *in = fuzz_memory(len), *out = fuzz_memory(RANKS * len);
	int code = bootstrap_exchange(bootstrap, in, out, len, 1000);

	free(in);
	free(out);
	return code;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct fuzz_input in = {data, size};
	struct bootstrap *bootstrap;
	int rank = (int)fuzz_up_to(&in, RANKS - 1), code;

	error_set(COLL_SUCCESS, "%s", "");
	code = bootstrap_open_user(&bootstrap, exchange, &in, rank, RANKS, 1000);

	if (code) {
		fuzz_promise(error_text()[0] != '\0', "a failed rendezvous has a text");
		return 0;
	}
	for (int r = 0; r < RANKS; r++)
		fuzz_promise(strlen(bootstrap_peer(bootstrap, r)->host) < 64, "a host's name ends");
	code = step(bootstrap, 8);
	code = code ? code : step(bootstrap, LONG_PIECE);
	code = code ? code : bootstrap_all_ok(bootstrap, COLL_SUCCESS, 1000);
	if (code)
		fuzz_promise(error_text()[0] != '\0', "a failed exchange has a text");
	else
		bootstrap_exchange_fail(bootstrap, COLL_ERR_CONFIG, "a failure", 1000);
	bootstrap_close(bootstrap);
	return 0;
}
