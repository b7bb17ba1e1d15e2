/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * coll_splits.c - coll_both, whose functions of its own serve the communicators made from others too
 * (COLL_BACKEND_NATIVE_SPLIT).
 *
 * The ranks of a split meet by the endpoint that is split; the ranks of the new communicator find their engine by the key
 * of its host table.  SPLITS_FAIL=RANK:CODE has the split of that rank return the code: COLL_ERR_PEER_LOST at once, every
 * other code after the meeting.  But with COLL_IN_PROGRESS the rank makes the file SPLITS_INSIDE and waits until the core
 * tells it to end; with COLL_ERR_ABORTED another thread of the backend waits so.  Its scan and exscan write
 * SPLITS_SCANNED and SPLITS_EXSCANNED.  Its query fails on a thread that has a group open.
 */
#define BOTH_IS_A_PART
#include "coll_both.c"

#include <fcntl.h>
#include <stdatomic.h>
#include <time.h>
#include <unistd.h>

enum { SPLITS_SCANNED = 1717, SPLITS_EXSCANNED = 1818 };

/* ----------------------------------------------------------------- the meeting -- */

static pthread_mutex_t splits_lock = PTHREAD_MUTEX_INITIALIZER;

/* An engine that some of its ranks have still to find. */
static struct splits_new {
	uint8_t key[16];
	struct both_engine *engine;
	uint32_t missing;
} splits_engines[BOTH_ROWS];

/* Counts the rank.  Returns how often it has come. */
static uint64_t splits_come(const struct both *both)
{
	uint64_t number;

	pthread_mutex_lock(&both->engine->lock);
	number = ++both->engine->came[both->host->rank];
	pthread_mutex_unlock(&both->engine->lock);
	return number;
}

static int splits_all_came(const struct both *both, uint64_t number)
{
	int all = 1;

	pthread_mutex_lock(&both->engine->lock);
	for (uint32_t r = 0; r < both->host->nranks; r++)
		all &= both->engine->came[r] >= number;
	pthread_mutex_unlock(&both->engine->lock);
	return all;
}

static int32_t splits_meet(const struct both *both, const coll_host_t *newhost, coll_error_t *err)
{
	const struct timespec nap = {.tv_nsec = 100000};
	int64_t naps = newhost->timeout_ms * 10;
	const uint64_t number = splits_come(both);

	while (!splits_all_came(both, number)) {
		if (newhost->aborted(newhost))
			return both_fail(err, COLL_ERR_ABORTED, "the split is given up");
		if (!naps--)
			return both_fail(err, COLL_ERR_TIMEOUT, "a rank does not come");
		nanosleep(&nap, NULL);
	}
	return COLL_SUCCESS;
}

/* Waits until the core tells the split to end.  Returns NULL if it does not. */
static void *splits_stay_away(void *arg)
{
	const struct timespec nap = {.tv_nsec = 100000};
	const coll_host_t *newhost = arg;

	for (int64_t naps = newhost->timeout_ms * 10; naps > 0; naps--) {
		if (newhost->aborted(newhost))
			return arg;
		nanosleep(&nap, NULL);
	}
	return NULL;
}

static int32_t splits_away(const coll_host_t *newhost, int32_t want, coll_error_t *err)
{
	const char *path = getenv("SPLITS_INSIDE");
	void *user = (void *)(uintptr_t)newhost, *told = NULL;
	pthread_t thread;

	if (path)
		close(creat(path, 0600));
	if (want == COLL_IN_PROGRESS)
		told = splits_stay_away(user);
	else if (!pthread_create(&thread, NULL, splits_stay_away, user))
		pthread_join(thread, &told);
	return told ? both_fail(err, COLL_ERR_ABORTED, "the split is given up")
		    : both_fail(err, COLL_ERR_INTERNAL, "nobody ends the split");
}

/* Finds the engine of the new communicator, or makes it. */
static struct both_engine *splits_engine(const coll_host_t *newhost)
{
	struct splits_new *found = NULL, *spare = NULL;
	struct both_engine *engine;

	pthread_mutex_lock(&splits_lock);
	for (struct splits_new *e = splits_engines; e < splits_engines + BOTH_ROWS; e++)
		if (!e->missing)
			spare = e;
		else if (!memcmp(e->key, newhost->key, sizeof(e->key)))
			found = e;
	if (!found) {
		found = spare;
		memcpy(found->key, newhost->key, sizeof(found->key));
		found->missing = newhost->nranks;
		found->engine = calloc(1, sizeof(*found->engine));
		pthread_mutex_init(&found->engine->lock, NULL);
		found->engine->refs = (int)newhost->nranks;
	}
	found->missing--;
	engine = found->engine;
	pthread_mutex_unlock(&splits_lock);
	return engine;
}

/* ------------------------------------------------------------------- the slots -- */

static int32_t splits_split(void *ep, int32_t color, int32_t key, const coll_host_t *newhost,
			    void **newep, coll_error_t *err)
{
	const char *fail = getenv("SPLITS_FAIL");
	struct both *both = ep, *made;
	int32_t code, want = 0;
	unsigned rank = 0;
	char byte = 0;

	(void)key;
	*newep = NULL;
	if (fail && sscanf(fail, "%u:%d", &rank, &want) == 2 && rank != both->host->rank)
		want = COLL_SUCCESS;
	if (want == COLL_ERR_PEER_LOST)
		return both_fail(err, want, "SPLITS_FAIL asks for it");
	if (want == COLL_IN_PROGRESS || want == COLL_ERR_ABORTED)
		return splits_away(newhost, want, err);
	if (newhost->exchange(newhost, &byte, &byte, 1, 0, err) != COLL_ERR_UNSUPPORTED)
		return both_fail(err, COLL_ERR_INTERNAL, "an exchange within a split");
	code = splits_meet(both, newhost, err);
	if (!code && want)
		return both_fail(err, want, "SPLITS_FAIL asks for it");
	if (code || color < 0)
		return code;
	made = calloc(1, sizeof(*made));
	made->host = newhost;
	made->engine = splits_engine(newhost);
	*newep = made;
	return COLL_SUCCESS;
}

static int32_t splits_scan(void *ep, const coll_args_t *args, coll_error_t *err)
{
	(void)ep;
	(void)err;
	((int32_t *)args->recvbuf)[0] = SPLITS_SCANNED;
	return COLL_SUCCESS;
}

static int32_t splits_exscan(void *ep, const coll_args_t *args, coll_error_t *err)
{
	struct both *both = ep;

	(void)err;
	if (both->host->rank)
		((int32_t *)args->recvbuf)[0] = SPLITS_EXSCANNED;
	return COLL_SUCCESS;
}

/* As an engine that merges all groups of a thread: it is not polled before they have ended. */
static _Thread_local int splits_groups;

static int32_t splits_group_begin(void *ep, coll_error_t *err)
{
	(void)ep;
	(void)err;
	splits_groups++;
	return COLL_SUCCESS;
}

static int32_t splits_group_end(void *ep, coll_error_t *err)
{
	(void)ep;
	(void)err;
	splits_groups--;
	return COLL_SUCCESS;
}

static int32_t splits_query(void *ep, coll_error_t *err)
{
	return splits_groups ? both_fail(err, COLL_ERR_INTERNAL, "queried inside a group")
			     : both_query(ep, err);
}

static void splits_describe(void *ep, char *buf, uint64_t size)
{
	snprintf(buf, size, "%u threads", ((struct both *)ep)->host->nranks);
}

static const coll_transport_t splits_transport = {
	.size = sizeof(coll_transport_t),
	.send = both_send,
	.progress = both_progress,
	.cancel = both_cancel,
	.drop = both_drop,
	.wait_fd = both_wait_fd,
	.arm = both_arm,
	.describe = splits_describe,
};

static const coll_native_t splits_native = {
	.size = sizeof(coll_native_t),
	.allreduce = both_allreduce,
	.broadcast = both_broadcast,
	.group_begin = splits_group_begin,
	.group_end = splits_group_end,
	.query = splits_query,
	.handle = both_handle,
	.split = splits_split,
	.scan = splits_scan,
	.exscan = splits_exscan,
};

__attribute__((visibility("default"))) const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.flags = COLL_BACKEND_IN_PROCESS | COLL_BACKEND_BY_NAME | COLL_BACKEND_NATIVE_SPLIT,
	.name = "splits",
	.version = "1.0",
	.description = "messages, and operations of its own, also for split communicators",
	.priority = 1,
	.memory = COLL_MEM_HOST,
	.transport = &splits_transport,
	.native = &splits_native,
	.open = both_open,
	.close = both_close,
};
