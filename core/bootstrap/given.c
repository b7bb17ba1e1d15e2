/* SPDX-License-Identifier: BSD-3-Clause */
/* given.c - the ranks meet over an allgather that the application brought along. */
#include <stdlib.h>
#include <string.h>
#include "bootstrap/bootstrap_impl.h"
#include "base/error.h"

struct user_boot {
	struct boot boot;
	coll_exchange_fn exchange;
	void *user;
};

static int user_exchange(struct boot *boot, const void *in, void *out, size_t len,
			 int64_t timeout_ms)
{
	struct user_boot *u = (struct user_boot *)boot;
	int32_t rc = u->exchange(u->user, in, out, len, timeout_ms);
	char seconds[24];

	if (rc != 0)
		return error_set(COLL_ERR_REMOTE,
				 "the application's exchange returned %d on rank %d "
				 "(%zu bytes from each of %d ranks, timeout %s s)",
				 (int)rc, boot->rank, len, boot->nranks,
				 boot_seconds(timeout_ms, seconds));
	return 0;
}

static void user_close(struct boot *boot)
{
	(void)boot;
}

static const struct boot_kind user_kind = {
	.exchange = user_exchange, .close = user_close, .sticky = 0};

/* Rank 0 makes the key; what the others bring is not looked at. */
static int user_share_key(struct boot *boot, int64_t timeout_ms)
{
	uint8_t *keys = malloc((size_t)boot->nranks * BOOT_KEY_SIZE);
	uint8_t mine[BOOT_KEY_SIZE];
	int code;

	if (keys == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", boot->nranks);
	code = boot_random(mine, sizeof(mine));
	if (code == 0)
		code = boot_exchange(boot, mine, keys, sizeof(mine), timeout_ms);
	if (code == 0)
		memcpy(boot->key, keys, BOOT_KEY_SIZE);
	free(keys);
	return code;
}

int boot_open_user(struct boot **boot, coll_exchange_fn exchange, void *user, int rank, int nranks,
		   int64_t timeout_ms)
{
	int64_t deadline = boot_deadline(timeout_ms);
	struct user_boot *u;
	int code;

	*boot = NULL;
	if (exchange == NULL)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "the exchange function is NULL");
	code = boot_new(boot, sizeof(*u), &user_kind, rank, nranks);
	if (code)
		return code;
	u = (struct user_boot *)*boot;
	u->exchange = exchange;
	u->user = user;
	code = boot_meet(*boot, timeout_ms);
	if (code == 0)
		code = user_share_key(*boot, boot_remaining(deadline));
	if (code) {
		boot_close(*boot);
		*boot = NULL;
	}
	return code;
}
