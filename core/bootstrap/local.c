/* SPDX-License-Identifier: BSD-3-Clause */
/* local.c - the bootstrap of ranks in one process, through memory. */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include "bootstrap/bootstrap_impl.h"
#include "base/error.h"

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
	size_t len; /* length of a piece in this round: that of the first rank without a failure */
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
