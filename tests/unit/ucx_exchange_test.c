/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ucx_exchange_test.c - the lengths of UCX addresses that ranks announce; links that file of the plugin, with an
 * exchange that gives back other bytes.
 */
#include "../lib/tap.h"
#include "../../plugins/ucx/ucx.h"

enum { RANKS = 3, SIZE = 100 };

struct ucx_lib ucx_lib;

static uint32_t announced[RANKS];
static int exchanges, released;
static char address[SIZE];

static ucs_status_t get_address(ucp_worker_h worker, ucp_address_t **out, size_t *size)
{
	(void)worker;
	*out = (ucp_address_t *)(void *)address;
	*size = SIZE;
	return UCS_OK;
}

static void release_address(ucp_worker_h worker, ucp_address_t *given)
{
	(void)worker;
	(void)given;
	released++;
}

int32_t ucx_refused(coll_error_t *err, ucs_status_t status, const char *what)
{
	(void)status;
	return error_fill(err, COLL_ERR_INTERNAL, "%s", what);
}

static void get_version(unsigned *major, unsigned *minor, unsigned *release)
{
	*major = 1;
	*minor = 13;
	*release = 0;
}

/* In the first exchange the lengths are those of the test; the second passes all bytes on. */
static int32_t exchange(const coll_host_t *host, const void *in, void *out, uint64_t len,
			int64_t timeout_ms, coll_error_t *err)
{
	(void)host;
	(void)timeout_ms;
	(void)err;
	for (size_t r = 0; r < RANKS; r++) {
		memcpy((char *)out + r * len, in, len);
		if (exchanges == 0)
			memcpy((char *)out + r * len + offsetof(struct ucx_record, address_size),
			       &announced[r], sizeof(announced[r]));
	}
	exchanges++;
	return COLL_SUCCESS;
}

static int check(uint32_t of_this_rank, uint32_t of_another, const char *text)
{
	const coll_host_t host = {.size = sizeof(host), .exchange = exchange};
	struct ucx_record records[RANKS];
	struct ucx u = {.host = &host, .rank = 1, .nranks = RANKS, .record = records};
	coll_error_t err = {.size = sizeof(err)};
	int code;

	announced[0] = of_another;
	announced[1] = of_this_rank;
	announced[2] = of_another;
	exchanges = released = 0;
	code = ucx_exchange(&u, &err);
	ok(strstr(err.text, text) != NULL, "the error is '%s'", err.text);
	is_int(exchanges, code ? 1 : 2, "addresses are exchanged if all lengths are right");
	is_int(released, 1, "the address is released");
	free(u.addresses);
	return code;
}

int main(void)
{
	ucx_lib.ucp_get_version = get_version;
	ucx_lib.ucp_worker_get_address = get_address;
	ucx_lib.ucp_worker_release_address = release_address;
	is_int(check(SIZE, SIZE, ""), COLL_SUCCESS, "addresses of one length");
	is_int(check(SIZE, 65536, ""), COLL_SUCCESS, "the longest that is allowed");
	is_int(check(SIZE, 65537, "rank 0 announces a UCX address of 65537 bytes"),
	       COLL_ERR_INTERNAL, "a longer one");
	is_int(check(SIZE, UINT32_MAX, "rank 0 announces a UCX address of 4294967295 bytes"),
	       COLL_ERR_INTERNAL, "4 GiB from each rank");
	is_int(check(SIZE, 0, "rank 0 announces a UCX address of 0 bytes"), COLL_ERR_INTERNAL,
	       "no address");
	is_int(check(1, 1, ""), COLL_SUCCESS, "this rank's own length comes back smaller");
	return done_testing();
}
