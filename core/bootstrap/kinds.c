/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * kinds.c - the bootstraps that need no socket of the library: over the application's own allgather, of ranks in one
 * process, and of the survivors of another bootstrap.
 */
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "bootstrap/bootstrap_kind.h"

/* --------------------------------------------------- the application's allgather -- */

enum { GIVEN_BODY = 496 };

/*
 * The ranks first exchange one block each.  Its size does not depend on the pieces, so a rank that has failed, and does
 * not know the length of the other ranks' pieces, can take part.  Pieces that do not fit follow.
 */
struct given_block {
	int32_t code; /* non-zero: the rank has failed, and body is its message */
	uint32_t reserved;
	uint64_t len; /* length of the piece */
	char body[GIVEN_BODY];
};

struct given_bootstrap {
	struct bootstrap bootstrap;
	coll_exchange_fn exchange;
	void *user;
	int is_own;                 /* the function is the library's, and sets the error */
	struct given_block *blocks; /* nranks */
};

static int given_call(struct bootstrap *bootstrap, const void *in, void *out, size_t len,
		      int64_t timeout_ms)
{
	struct given_bootstrap *u = (struct given_bootstrap *)bootstrap;
	int32_t rc;
	char seconds[24];

	if (!u->exchange)
		return error_set(
			COLL_ERR_UNSUPPORTED,
			"the %d ranks that coll_comm_shrink has left cannot exchange over the old "
			"communicator's bootstrap: make a new communicator with a new id",
			bootstrap->nranks);
	rc = u->exchange(u->user, in, out, len, timeout_ms);
	if (rc != 0 && u->is_own)
		return rc;
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
static int given_check(const struct given_bootstrap *u, const struct given_block *own,
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

static int given_exchange(struct bootstrap *bootstrap, const void *in, void *out, size_t len,
			  struct bootstrap_failure *failure, int64_t timeout_ms)
{
	struct given_bootstrap *u = (struct given_bootstrap *)bootstrap;
	int64_t deadline = clock_deadline(timeout_ms);
	struct given_block own = {.code = failure->code, .len = len};
	int code;

	if (failure->code)
		snprintf(own.body, sizeof(own.body), "%.*s", GIVEN_BODY - 1, failure->text);
	else if (len > 0 && len <= sizeof(own.body))
		memcpy(own.body, in, len);
	code = given_call(bootstrap, &own, u->blocks, sizeof(own), timeout_ms);
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
		return given_call(bootstrap, in, out, len, clock_remaining(deadline));
	for (int r = 0; len > 0 && r < bootstrap->nranks; r++)
		memcpy((char *)out + (size_t)r * len, u->blocks[r].body, len);
	return 0;
}

static void given_close(struct bootstrap *bootstrap)
{
	free(((struct given_bootstrap *)bootstrap)->blocks);
}

static const struct bootstrap_kind given_kind = {
	.exchange = given_exchange, .close = given_close, .sticky = 0};

/* Rank 0 makes the key; the other ranks' bytes are ignored. */
static int given_share_key(struct bootstrap *bootstrap, int64_t timeout_ms)
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
	struct given_bootstrap *u;
	int code;

	*bootstrap = NULL;
	if (exchange == NULL)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "the exchange function is NULL");
	code = bootstrap_new(bootstrap, sizeof(*u), &given_kind, rank, nranks);
	if (code)
		return code;
	u = (struct given_bootstrap *)*bootstrap;
	u->exchange = exchange;
	u->user = user;
	u->blocks = calloc((size_t)nranks, sizeof(*u->blocks));
	code = u->blocks ? bootstrap_meet(*bootstrap, timeout_ms)
			 : error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	if (code == 0)
		code = given_share_key(*bootstrap, clock_remaining(deadline));
	if (code) {
		bootstrap_close(*bootstrap);
		*bootstrap = NULL;
	}
	return code;
}

/* -------------------------------------------------------- ranks in one process -- */

/*
 * A round ends when every rank has stored its piece.  Buffers for two rounds are enough: a rank enters
 * round g + 1 after round g has ended, that is, after all ranks have entered g and so have read round g -
 * 1.
 */
struct local_group {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	int nranks;
	int open; /* bootstraps that are not closed yet */
	uint64_t round;
	uint8_t *pieces[2];
	size_t capacity[2];
	size_t len; /* length of a piece in this round: of the first rank without a failure */
	int first;  /* the rank that set the length, or -1 */
	int arrived;
	struct bootstrap_failure rank_failed[2]; /* the failure of the ranks in a round */
	uint8_t *here;                           /* [nranks] 1: the rank has entered this round */
	uint8_t *gone;                           /* [nranks] 1: the rank has closed its bootstrap */
	int failed;
	char failure[BOOTSTRAP_TEXT_SIZE];
};

struct local_bootstrap {
	struct bootstrap bootstrap;
	struct local_group *group;
};

static void local_group_free(struct local_group *group)
{
	pthread_cond_destroy(&group->changed);
	pthread_mutex_destroy(&group->lock);
	free(group->pieces[0]);
	free(group->pieces[1]);
	free(group->here);
	free(group->gone);
	free(group);
}

static struct local_group *local_group_new(int nranks)
{
	struct local_group *group = calloc(1, sizeof(*group));

	if (group == NULL)
		return NULL;
	pthread_mutex_init(&group->lock, NULL);
	clock_cond_init(&group->changed);
	group->nranks = nranks;
	group->here = calloc((size_t)nranks, 1);
	group->gone = calloc((size_t)nranks, 1);
	if (group->here == NULL || group->gone == NULL) {
		local_group_free(group);
		return NULL;
	}
	return group;
}

/* Ends the group for every rank with the caller's error. */
static int local_fail(struct local_group *group, int code)
{
	strncpy(group->failure, error_text(), sizeof(group->failure) - 1);
	group->failed = bootstrap_remote_code(code);
	pthread_cond_broadcast(&group->changed);
	return code;
}

/* Opens the round for pieces of len bytes, or checks that the first rank's piece has len bytes too. */
static int local_join_round(struct local_group *group, int rank, size_t len)
{
	int i = (int)(group->round & 1);
	size_t need = (size_t)group->nranks * len;

	if (group->first >= 0 && len != group->len)
		return error_set(COLL_ERR_MISMATCH,
				 "rank %d exchanges %zu bytes where rank %d exchanges %zu", rank,
				 len, group->first, group->len);
	if (group->first >= 0)
		return 0;
	if (need > group->capacity[i]) {
		free(group->pieces[i]);
		group->pieces[i] = malloc(need);
		group->capacity[i] = group->pieces[i] == NULL ? 0 : need;
		if (group->pieces[i] == NULL)
			return error_set(COLL_ERR_NO_MEMORY, "no memory to exchange %zu bytes",
					 need);
	}
	group->len = len;
	group->first = rank;
	return 0;
}

/* A closed rank that is not in this round will never enter it. */
static int local_check_gone(const struct local_group *group)
{
	for (int r = 0; r < group->nranks; r++)
		if (group->gone[r] && !group->here[r])
			return error_set(COLL_ERR_PEER_LOST,
					 "rank %d has left: its thread closed the communicator "
					 "while others were still waiting for it",
					 r);
	return 0;
}

static int local_wait_round(const struct bootstrap *bootstrap, struct local_group *group,
			    uint64_t round, int64_t timeout_ms)
{
	const struct bootstrap_failure *failure = &group->rank_failed[round & 1];
	int64_t deadline = clock_deadline(timeout_ms);
	int late = 0, code;

	while (group->round == round && !group->failed) {
		code = local_check_gone(group);
		if (code == 0)
			code = bootstrap_check_aborted(bootstrap);
		if (code == 0 && late)
			code = bootstrap_timeout_error(group->here, group->nranks, timeout_ms, "");
		if (code)
			return local_fail(group, bootstrap_failed_too(failure, code));
		late = clock_cond_wait(&group->changed, &group->lock,
				       bootstrap_look(bootstrap, deadline)) &&
		       !clock_remaining(deadline);
	}
	if (group->round == round)
		return error_set(group->failed, "%s", group->failure);
	return 0;
}

/* Puts the piece of this rank, or its failure, into the round. */
static int local_put(struct local_group *group, int rank, const void *in, size_t len,
		     const struct bootstrap_failure *failure)
{
	int i = (int)(group->round & 1), code;

	if (group->arrived == 0) {
		group->first = -1;
		group->rank_failed[i].code = COLL_SUCCESS;
	}
	if (failure->code) {
		bootstrap_merge_failure(&group->rank_failed[i], rank, failure->code, failure->text);
	} else {
		code = local_join_round(group, rank, len);
		if (code)
			return code;
		if (len > 0)
			memcpy(group->pieces[i] + (size_t)rank * len, in, len);
	}
	group->here[rank] = 1;
	if (++group->arrived == group->nranks) {
		memset(group->here, 0, (size_t)group->nranks);
		group->arrived = 0;
		group->round++;
		pthread_cond_broadcast(&group->changed);
	}
	return 0;
}

static int local_round(const struct bootstrap *bootstrap, struct local_group *group, const void *in,
		       void *out, size_t len, struct bootstrap_failure *failure, int64_t timeout_ms)
{
	uint64_t round = group->round;
	int code;

	if (group->failed)
		return error_set(group->failed, "%s", group->failure);
	code = local_put(group, bootstrap->rank, in, len, failure);
	if (code)
		return local_fail(group, code);
	code = local_wait_round(bootstrap, group, round, timeout_ms);
	if (code)
		return code;
	*failure = group->rank_failed[round & 1];
	if (!failure->code && len > 0)
		memcpy(out, group->pieces[round & 1], (size_t)group->nranks * len);
	return 0;
}

static int local_exchange(struct bootstrap *bootstrap, const void *in, void *out, size_t len,
			  struct bootstrap_failure *failure, int64_t timeout_ms)
{
	struct local_group *group = ((struct local_bootstrap *)bootstrap)->group;
	int code;

	pthread_mutex_lock(&group->lock);
	code = local_round(bootstrap, group, in, out, len, failure, timeout_ms);
	pthread_mutex_unlock(&group->lock);
	return code;
}

static void local_close(struct bootstrap *bootstrap)
{
	struct local_group *group = ((struct local_bootstrap *)bootstrap)->group;
	int last;

	if (group == NULL)
		return;
	pthread_mutex_lock(&group->lock);
	group->gone[bootstrap->rank] = 1;
	last = --group->open == 0;
	pthread_cond_broadcast(&group->changed);
	pthread_mutex_unlock(&group->lock);
	if (last)
		local_group_free(group);
}

static const struct bootstrap_kind local_kind = {
	.exchange = local_exchange, .close = local_close, .sticky = 1};

static int local_make(struct bootstrap **bootstraps, struct local_group *group, const uint8_t *key,
		      const struct bootstrap_peer *self)
{
	for (int r = 0; r < group->nranks; r++) {
		int code = bootstrap_new(&bootstraps[r], sizeof(struct local_bootstrap),
					 &local_kind, r, group->nranks);

		if (code)
			return code;
		((struct local_bootstrap *)bootstraps[r])->group = group;
		group->open++;
		memcpy(bootstraps[r]->key, key, BOOTSTRAP_KEY_SIZE);
		bootstraps[r]->key_is_secret = 1;
		for (int p = 0; p < group->nranks; p++)
			bootstraps[r]->peers[p] = *self;
	}
	return 0;
}

int bootstrap_open_local(struct bootstrap **bootstraps, int nranks)
{
	struct local_group *group = NULL;
	struct bootstrap_peer self;
	uint8_t key[BOOTSTRAP_KEY_SIZE];
	int code;

	if (nranks < 1)
		return error_set(COLL_ERR_INVALID_ARGUMENT, "nranks is %d, but must be at least 1",
				 nranks);
	memset(bootstraps, 0, (size_t)nranks * sizeof(*bootstraps));
	code = bootstrap_self(&self);
	if (code == 0)
		code = random_bytes(key, sizeof(key));
	if (code)
		return code;
	group = local_group_new(nranks);
	if (group == NULL)
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	group->open = 1; /* locked until all bootstraps are made */
	code = local_make(bootstraps, group, key, &self);
	for (int r = 0; code && r < nranks; r++) {
		bootstrap_close(bootstraps[r]);
		bootstraps[r] = NULL;
	}
	if (--group->open == 0)
		local_group_free(group);
	return code;
}

/* --------------------------------------------------------------- survivors -- */

int bootstrap_open_shrunk(struct bootstrap **bootstrap, const struct bootstrap *parent,
			  const int *ranks, int rank, int nranks, uint32_t number)
{
	const uint8_t *bytes = (const uint8_t *)ranks;
	uint8_t named[32] = {0};
	struct given_bootstrap *u;
	int code = bootstrap_new(bootstrap, sizeof(*u), &given_kind, rank, nranks);

	if (code)
		return code;
	u = (struct given_bootstrap *)*bootstrap;
	u->is_own = 1;
	u->blocks = calloc((size_t)nranks, sizeof(*u->blocks));
	if (!u->blocks) {
		bootstrap_close(*bootstrap);
		return error_set(COLL_ERR_NO_MEMORY, "no memory for %d ranks", nranks);
	}
	for (int r = 0; r < nranks; r++)
		(*bootstrap)->peers[r] = parent->peers[ranks[r]];
	siphash128(parent->key, bytes, (size_t)nranks * sizeof(*ranks), named);
	memcpy(named + 16, &number, sizeof(number));
	siphash128(parent->key, named, sizeof(named), (*bootstrap)->key);
	(*bootstrap)->key_is_secret = parent->key_is_secret;
	return COLL_SUCCESS;
}

void bootstrap_exchange_by(struct bootstrap *bootstrap, coll_exchange_fn exchange, void *user)
{
	struct given_bootstrap *u = (struct given_bootstrap *)bootstrap;

	u->exchange = exchange;
	u->user = user;
}
