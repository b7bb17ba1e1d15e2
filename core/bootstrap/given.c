/* SPDX-License-Identifier: BSD-3-Clause */
/* given.c - the ranks meet over an allgather that the application brought along. */
#include <stdlib.h>
#include <string.h>
#include "bootstrap/bootstrap_impl.h"
#include "base/error.h"

struct user_boot {
	struct bootstrap bootstrap;
	coll_exchange_fn exchange;
	void *user;
};

static int user_exchange(struct bootstrap *bootstrap, const void *in, void *out, size_t len,
			 int64_t timeout_ms)
{
	struct user_boot *u = (struct user_boot *)bootstrap;
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

static void user_close(struct bootstrap *bootstrap)
{
	(void)bootstrap;
}

static const struct bootstrap_kind user_kind = {
	.exchange = user_exchange, .close = user_close, .sticky = 0};

/* Rank 0 makes the key; what the others bring is not looked at. */
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
	free(keys);
	return code;
}

int bootstrap_open_user(struct bootstrap **bootstrap, coll_exchange_fn exchange, void *user,
			int rank, int nranks, int64_t timeout_ms)
{
	int64_t deadline = clock_deadline(timeout_ms);
	struct user_boot *u;
	int code;

	*bootstrap = NULL;
	if (exchange == NULL)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "the exchange function is NULL");
	code = bootstrap_new(bootstrap, sizeof(*u), &user_kind, rank, nranks);
	if (code)
		return code;
	u = (struct user_boot *)*bootstrap;
	u->exchange = exchange;
	u->user = user;
	code = bootstrap_meet(*bootstrap, timeout_ms);
	if (code == 0)
		code = user_share_key(*bootstrap, clock_remaining(deadline));
	if (code) {
		bootstrap_close(*bootstrap);
		*bootstrap = NULL;
	}
	return code;
}
