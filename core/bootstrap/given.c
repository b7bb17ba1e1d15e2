/* SPDX-License-Identifier: BSD-3-Clause */
/* given.c - the bootstrap over the application's own allgather. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bootstrap/bootstrap_impl.h"
#include "base/error.h"

enum { GIVEN_BODY = 496 };

/*
 * The ranks first exchange one block each.  Its size does not depend on the pieces, so a rank that has failed,
 * and does not know the length of the others' pieces, can take part.  Pieces that do not fit follow.
 */
struct given_block {
	int32_t code; /* non-zero: the rank has failed, and body is its message */
	uint32_t reserved;
	uint64_t len; /* length of the piece */
	char body[GIVEN_BODY];
};

struct user_bootstrap {
	struct bootstrap bootstrap;
	coll_exchange_fn exchange;
	void *user;
	struct given_block *blocks; /* nranks */
};

static int user_call(struct bootstrap *bootstrap, const void *in, void *out, size_t len,
		     int64_t timeout_ms)
{
	struct user_bootstrap *u = (struct user_bootstrap *)bootstrap;
	int32_t rc = u->exchange(u->user, in, out, len, timeout_ms);
	char seconds[24];

	if (rc != 0)
		return error_set(COLL_ERR_REMOTE,
				 "the application's exchange returned %d on rank %d "
				 "(%zu bytes from each of %d ranks, timeout %s s)",
				 (int)rc, bootstrap->rank, len, bootstrap->nranks,
				 bootstrap_seconds(timeout_ms, seconds));
	return 0;
}

/*
 * Did the head of this rank's block return unchanged, and do all ranks exchange the same number of bytes?
 */
static int given_check(const struct user_bootstrap *u, const struct given_block *own,
		       const struct bootstrap_failure *failure)
{
	int rank = u->bootstrap.rank;

	if (memcmp(&u->blocks[rank], own, offsetof(struct given_block, body)) != 0)
		return error_set(COLL_ERR_REMOTE,
				 "the first bytes of rank %d came back to it as others: the "
				 "application's exchange altered bytes on the way, or put them in "
				 "another order than that of the ranks",
				 rank);
	for (int r = 0; !failure->code && r < u->bootstrap.nranks; r++)
		if (u->blocks[r].len != own->len)
			return error_set(
				COLL_ERR_MISMATCH,
				"rank %d exchanges %llu bytes where rank %d exchanges %llu", r,
				(unsigned long long)u->blocks[r].len, rank,
				(unsigned long long)own->len);
	return 0;
}

static int user_exchange(struct bootstrap *bootstrap, const void *in, void *out, size_t len,
			 struct bootstrap_failure *failure, int64_t timeout_ms)
{
	struct user_bootstrap *u = (struct user_bootstrap *)bootstrap;
	int64_t deadline = clock_deadline(timeout_ms);
	struct given_block own = {.code = failure->code, .len = len};
	int code;

	if (failure->code)
		snprintf(own.body, sizeof(own.body), "%.*s", GIVEN_BODY - 1, failure->text);
	else if (len > 0 && len <= sizeof(own.body))
		memcpy(own.body, in, len);
	code = user_call(bootstrap, &own, u->blocks, sizeof(own), timeout_ms);
	failure->code = COLL_SUCCESS;
	for (int r = 0; code == 0 && r < bootstrap->nranks; r++) {
		struct given_block *block = &u->blocks[r];

		block->body[GIVEN_BODY - 1] = block->code ? '\0' : block->body[GIVEN_BODY - 1];
		if (block->code)
			bootstrap_merge_failure(failure, r, block->code, block->body);
	}
	if (code == 0)
		code = given_check(u, &own, failure);
	if (code || failure->code)
		return code;
	if (len > sizeof(own.body))
		return user_call(bootstrap, in, out, len, clock_remaining(deadline));
	for (int r = 0; len > 0 && r < bootstrap->nranks; r++)
		memcpy((char *)out + (size_t)r * len, u->blocks[r].body, len);
	return 0;
}

static void user_close(struct bootstrap *bootstrap)
{
	free(((struct user_bootstrap *)bootstrap)->blocks);
}

static const struct bootstrap_kind user_kind = {
	.exchange = user_exchange, .close = user_close, .sticky = 0};

/* Rank 0 makes the key; the other ranks' bytes are ignored. */
static int user_share_key(struct bootstrap *bootstrap, int64_t timeout_ms)
{
	uint8_t *keys = malloc((size_t)bootstrap->nranks * BOOTSTRAP_KEY_SIZE);
	uint8_t mine[BOOTSTRAP_KEY_SIZE];
	int code;

	if (keys == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", bootstrap->nranks);
	code = random_bytes(mine, sizeof(mine));
	if (code == 0)
		code = bootstrap_exchange(bootstrap, mine, keys, sizeof(mine), timeout_ms);
	if (code == 0)
		memcpy(bootstrap->key, keys, BOOTSTRAP_KEY_SIZE);
	bootstrap->key_is_secret = code == 0;
	free(keys);
	return code;
}

int bootstrap_open_user(struct bootstrap **bootstrap, coll_exchange_fn exchange, void *user,
			int rank, int nranks, int64_t timeout_ms)
{
	int64_t deadline = clock_deadline(timeout_ms);
	struct user_bootstrap *u;
	int code;

	*bootstrap = NULL;
	if (exchange == NULL)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "the exchange function is NULL");
	code = bootstrap_new(bootstrap, sizeof(*u), &user_kind, rank, nranks);
	if (code)
		return code;
	u = (struct user_bootstrap *)*bootstrap;
	u->exchange = exchange;
	u->user = user;
	u->blocks = calloc((size_t)nranks, sizeof(*u->blocks));
	code = u->blocks ? bootstrap_meet(*bootstrap, timeout_ms)
			 : error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	if (code == 0)
		code = user_share_key(*bootstrap, clock_remaining(deadline));
	if (code) {
		bootstrap_close(*bootstrap);
		*bootstrap = NULL;
	}
	return code;
}
