/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * native_split_test.c - a backend with a transport whose functions of its own serve split communicators too: split, dup and
 * splits of these are native; what must not block is composed; a split of the backend that fails.
 *
 * The ranks are threads over coll_splits.  Its broadcast moves no data, so the test sees who has executed it.
 */
#include "../lib/ranks.h"

enum { SCANNED = 1717, EXSCANNED = 1818, KEPT = -7 };

static int sum_is(struct rank *r, coll_comm_t comm, int32_t want, const char *what)
{
	int32_t x = r->rank + 1, y = 0;

	if (!rank_did(r, coll_allreduce(&x, &y, 1, COLL_INT32, COLL_SUM, comm, NULL), what) ||
	    !rank_did(r, coll_sync(comm), what))
		return 0;
	return y == want || rank_fail(r, "%s: the sum is %d, not %d", what, y, want);
}

/* Does the backend execute the calls of the communicator?  `sum` is that of its ranks, each plus 1. */
static int is_native(struct rank *r, coll_comm_t comm, int native, int32_t sum, const char *what)
{
	int32_t rank, x, scanned[2] = {0};
	void *engine;

	if (!rank_did(r, coll_comm_user_rank(comm, &rank), what))
		return 0;
	x = rank ? KEPT : 5;
	if (!rank_did(r, coll_broadcast(&x, &x, 1, COLL_INT32, 0, comm, NULL), what) ||
	    !rank_did(r, coll_scan(&x, scanned, 1, COLL_INT32, COLL_SUM, comm, NULL), what) ||
	    !rank_did(r, coll_exscan(&x, scanned + 1, 1, COLL_INT32, COLL_SUM, comm, NULL), what) ||
	    !rank_did(r, coll_sync(comm), what) || !sum_is(r, comm, sum, what))
		return 0;
	if (native != (scanned[0] == SCANNED) ||
	    (rank && (native != (x == KEPT) || native != (scanned[1] == EXSCANNED))))
		return rank_fail(r, "%s: broadcast %d, scan %d, exscan %d", what, (int)x,
				 (int)scanned[0], (int)scanned[1]);
	return rank_is(r, coll_comm_native_handle(comm, &engine),
		       native ? COLL_SUCCESS : COLL_ERR_UNSUPPORTED, what);
}

static void end(struct rank *r, coll_comm_t *comm)
{
	if (*comm)
		rank_did(r, coll_comm_destroy(*comm), "destroy");
	*comm = NULL;
}

/* ------------------------------------------------------------------------ made -- */

/* Four ranks: a dup, a split of that with a rank without a colour, and its order by keys; the parents end first. */
static void made(struct rank *r)
{
	coll_comm_t twin = NULL, part = NULL, again = NULL;
	void *engine = NULL, *other = NULL;
	const int joins = r->rank < 3;

	if (!rank_did(r, coll_comm_dup(r->comm, &twin), "dup") ||
	    !is_native(r, r->comm, 1, 10, "opened") || !is_native(r, twin, 1, 10, "a dup"))
		goto out;
	coll_comm_native_handle(r->comm, &engine);
	coll_comm_native_handle(twin, &other);
	if (engine == other)
		rank_fail(r, "the dup has its parent's engine");
	if (!rank_did(r,
		      coll_comm_split(twin, joins ? 4 : COLL_SPLIT_NOCOLOR, -r->rank, &part, NULL),
		      "split") ||
	    (part != NULL) != joins)
		goto out;
	end(r, &twin);
	if (!joins)
		goto out;
	if (is_rank(r, part, 2 - r->rank, 3) && is_native(r, part, 1, 6, "a part") &&
	    rank_did(r, coll_comm_split(part, r->rank == 0, 0, &again, NULL), "split of a part"))
		is_native(r, again, 1, r->rank ? 5 : 1, "a part of a part");
out:
	end(r, &part);
	end(r, &again);
	end(r, &twin);
}

/* The hashes of the calls on a split communicator are its own: ranks that make different calls hear of it. */
static void differs(struct rank *r)
{
	coll_comm_t twin = NULL;
	int32_t x[2] = {0};
	coll_result_t code;

	if (!rank_did(r, coll_comm_dup(r->comm, &twin), "dup"))
		return;
	code = coll_allreduce(x, x, r->rank ? 1 : 2, COLL_INT32, COLL_SUM, twin, NULL);
	if (!code)
		code = coll_sync(twin);
	rank_is(r, code, COLL_ERR_MISMATCH, "calls that differ");
	end(r, &twin);
	sum_is(r, r->comm, 6, "the parent goes on");
}

/* ---------------------------------------------------------------------- threads -- */

enum { TWINS = 50 };

struct splitter {
	struct rank *r;
	coll_comm_t comm;
};

static void *split_often(void *arg)
{
	const struct splitter *s = arg;
	coll_comm_t twin;

	for (int i = 0; i < TWINS; i++) {
		twin = NULL;
		if (!rank_did(s->r, coll_comm_dup(s->comm, &twin), "dup on a thread") ||
		    !rank_did(s->r, coll_comm_destroy(twin), "destroy on a thread"))
			break;
	}
	return NULL;
}

/* Two threads of each rank split two communicators on the same connections, in any order. */
static void two_threads(struct rank *r)
{
	struct splitter own = {r, r->comm}, other = {r, NULL};
	pthread_t thread;

	if (!rank_did(r, coll_comm_dup(r->comm, &other.comm), "dup") ||
	    pthread_create(&thread, NULL, split_often, &other)) {
		rank_fail(r, "no thread");
		return;
	}
	split_often(&own);
	pthread_join(thread, NULL);
	is_native(r, other.comm, 1, 3, "the dup after the threads");
	end(r, &other.comm);
}

/*
 * A group of two communicators, one of them with an older call under way: the backend is not asked for it before the group
 * has ended.
 */
static void group_of_two(struct rank *r)
{
	static _Atomic int ended;
	int32_t x[3] = {1, 2, 3}, y[3] = {0};
	coll_comm_t twin = NULL;

	if (!rank_did(r, coll_comm_dup(r->comm, &twin), "dup"))
		return;
	if (r->rank == 0 || rank_reaches(r, &ended, 1, 0)) {
		rank_did(r, coll_allreduce(x, y, 1, COLL_INT32, COLL_SUM, twin, NULL), "older");
		rank_did(r, coll_group_start(), "group_start");
		rank_did(r, coll_allreduce(x + 1, y + 1, 1, COLL_INT32, COLL_SUM, r->comm, NULL),
			 "of the parent");
		rank_did(r, coll_allreduce(x + 2, y + 2, 1, COLL_INT32, COLL_SUM, twin, NULL),
			 "of the dup");
		rank_did(r, coll_group_end(), "group_end");
	}
	atomic_fetch_add(&ended, 1);
	if (rank_did(r, coll_sync(r->comm), "sync") && rank_did(r, coll_sync(twin), "sync") &&
	    (y[0] != 2 || y[1] != 4 || y[2] != 6))
		rank_fail(r, "the sums are %d, %d, %d", (int)y[0], (int)y[1], (int)y[2]);
	end(r, &twin);
}

/* -------------------------------------------------------------------- composed -- */

static int idup_is_composed(struct rank *r)
{
	coll_comm_t twin = NULL;
	coll_request_t request;
	int good = rank_did(r, coll_comm_idup(r->comm, &twin, NULL, &request), "idup") &&
		   rank_ends(r, request, COLL_SUCCESS, "idup") &&
		   is_native(r, twin, 0, 6, "an idup");

	end(r, &twin);
	return good;
}

static int group_is_composed(struct rank *r)
{
	coll_comm_t twin = NULL;
	int good = rank_did(r, coll_group_start(), "group_start") &&
		   rank_did(r, coll_comm_dup(r->comm, &twin), "dup in a group") &&
		   rank_did(r, coll_group_end(), "group_end") &&
		   is_native(r, twin, 0, 6, "a dup in a group");

	end(r, &twin);
	return good;
}

/* Rank 1 does not wait, so no rank may block in the backend. */
static int mixture_is_composed(struct rank *r)
{
	coll_comm_t twin = NULL;
	coll_request_t request = NULL;
	int good;

	if (r->rank == 1)
		good = rank_did(r, coll_comm_isplit(r->comm, 0, 0, &twin, NULL, &request),
				"isplit") &&
		       rank_ends(r, request, COLL_SUCCESS, "isplit");
	else
		good = rank_did(r, coll_comm_split(r->comm, 0, 0, &twin, NULL), "split");
	good = good && is_native(r, twin, 0, 6, "a split that meets an isplit");
	end(r, &twin);
	return good;
}

static void composed(struct rank *r)
{
	const int32_t last = 2;
	coll_comm_t twin = NULL, less = NULL;

	if (!idup_is_composed(r) || !group_is_composed(r) || !mixture_is_composed(r))
		return;
	if (!rank_did(r, coll_comm_dup(r->comm, &twin), "dup"))
		return;
	if (r->rank < last &&
	    rank_did(r, coll_comm_shrink(twin, &last, 1, &less, NULL, 0), "shrink"))
		is_native(r, less, 0, 3, "a shrunk one");
	end(r, &less);
	is_native(r, twin, 1, 6, "the dup after a shrink");
	end(r, &twin);
}

/* -------------------------------------------------------------------- failures -- */

/* Rank 1 fails: no rank has the functions of the backend, and the parent keeps them. */
static void refused(struct rank *r)
{
	coll_comm_t twin = NULL;

	if (rank_did(r, coll_comm_dup(r->comm, &twin), "dup") &&
	    is_native(r, twin, 0, 6, "a dup that the backend refuses"))
		is_native(r, r->comm, 1, 6, "its parent");
	end(r, &twin);
}

/* Rank 1 fails at once, and the other ranks wait in the backend until they hear of it. */
static void lost(struct rank *r)
{
	coll_comm_t twin = NULL;
	const coll_result_t code = coll_comm_dup(r->comm, &twin);

	if (!code || twin)
		rank_fail(r, "the dup succeeds");
	else if (r->rank == 1)
		rank_is(r, code, COLL_ERR_PEER_LOST, "the rank that fails");
	rank_says(r, "SPLITS_FAIL asks for it", "the reason");
}

/* Rank 1 aborts while the others wait for its vote. */
static void aborted(struct rank *r)
{
	coll_comm_t twin = NULL;

	if (r->rank == 1) {
		rank_did(r, coll_comm_abort(r->comm), "abort");
		return;
	}
	if (!coll_comm_dup(r->comm, &twin) || twin)
		rank_fail(r, "the dup succeeds");
}

/* Rank 1 stays inside the backend's split until the time of the others is over. */
static void late(struct rank *r)
{
	coll_comm_t twin = NULL;

	if (!coll_comm_dup(r->comm, &twin) || twin)
		rank_fail(r, "the dup succeeds");
	rank_says(r, "a rank does not come", "the reason");
}

static void *abort_inside(void *arg)
{
	struct rank *r = arg;

	while (access(getenv("SPLITS_INSIDE"), F_OK))
		ranks_sleep(0.001);
	rank_did(r, coll_comm_abort(r->comm), "abort");
	return NULL;
}

/* Another thread of rank 1 aborts while all ranks are inside the backend's split. */
static void aborted_inside(struct rank *r)
{
	coll_comm_t twin = NULL;
	pthread_t thread;
	coll_result_t code;

	if (r->rank == 1 && pthread_create(&thread, NULL, abort_inside, r)) {
		rank_fail(r, "no thread");
		return;
	}
	code = coll_comm_dup(r->comm, &twin);
	if (!code || twin)
		rank_fail(r, "the dup succeeds");
	if (r->rank == 1) {
		rank_is(r, code, COLL_ERR_ABORTED, "the rank that aborts");
		pthread_join(thread, NULL);
	}
}

/* code: what SPLITS_FAIL asks of rank 1. */
static void test_inside(int code, void (*fn)(struct rank *r), const char *what)
{
	char folder[] = "/tmp/coll-splits-XXXXXX", path[60], fail[16];

	if (!mkdtemp(folder))
		bail_out("mkdtemp: %s", strerror(errno));
	snprintf(path, sizeof(path), "%s/inside", folder);
	snprintf(fail, sizeof(fail), "1:%d", code);
	setenv("SPLITS_INSIDE", path, 1);
	setenv("SPLITS_FAIL", fail, 1);
	ranks_ok(&(struct ranks_job){"splits", 3, 0, fn, NULL}, "%s", what);
	unsetenv("SPLITS_FAIL");
	unsetenv("SPLITS_INSIDE");
	unlink(path);
	rmdir(folder);
}

/* The split has the smaller one of two limits. */
static void test_late(void)
{
	setenv("COLL_TIMEOUT", "500ms", 1);
	setenv("COLL_INIT_TIMEOUT", "60min", 1);
	test_inside(COLL_IN_PROGRESS, late, "a rank does not come");
	unsetenv("COLL_INIT_TIMEOUT");
	setenv("COLL_TIMEOUT", "20s", 1);
}

static void test_failures(void)
{
	char unsupported[16], system[16], peer_lost[16];

	snprintf(unsupported, sizeof(unsupported), "1:%d", COLL_ERR_UNSUPPORTED);
	snprintf(system, sizeof(system), "1:%d", COLL_ERR_SYSTEM);
	snprintf(peer_lost, sizeof(peer_lost), "1:%d", COLL_ERR_PEER_LOST);
	setenv("SPLITS_FAIL", unsupported, 1);
	ranks_ok(&(struct ranks_job){"splits", 3, 0, refused, NULL}, "the backend declines");
	setenv("SPLITS_FAIL", system, 1);
	ranks_ok(&(struct ranks_job){"splits", 3, 0, refused, NULL}, "the backend fails");
	setenv("SPLITS_FAIL", peer_lost, 1);
	ranks_ok(&(struct ranks_job){"splits", 3, 0, lost, NULL}, "a rank is lost in the split");
	unsetenv("SPLITS_FAIL");
	ranks_ok(&(struct ranks_job){"splits", 3, 0, aborted, NULL}, "a rank aborts");
	test_inside(COLL_IN_PROGRESS, aborted_inside, "an abort inside the split");
	test_inside(COLL_ERR_ABORTED, aborted_inside, "another thread of the backend hears of it");
	test_late();
}

/* ---------------------------------------------------------------- the connections -- */

/* The words of the backend, which the file of a failed communicator has too. */
static void described(struct rank *r)
{
	static _Atomic int told;
	char text[64] = "", cut[4];
	int32_t x = 1;

	rank_is(r, coll_comm_describe(r->comm, text, 0), COLL_ERR_INVALID_ARGUMENT, "no room");
	if (!rank_did(r, coll_comm_describe(r->comm, text, sizeof(text)), "describe") ||
	    !rank_did(r, coll_comm_describe(r->comm, cut, sizeof(cut)), "describe, cut") ||
	    !rank_did(r, coll_allreduce(&x, &x, 1, COLL_INT32, COLL_SUM, r->comm, NULL), "sum") ||
	    !rank_did(r, coll_sync(r->comm), "sync"))
		return;
	if (strcmp(text, "2 threads") != 0 || strcmp(cut, "2 t") != 0)
		rank_fail(r, "'%s', cut '%s'", text, cut);
	atomic_fetch_add(&told, 1);
	if (rank_reaches(r, &told, r->nranks, 0))
		rank_did(r, coll_comm_abort(r->comm), "abort");
}

static void test_described(void)
{
	char folder[] = "/tmp/coll-splits-XXXXXX", command[100];

	if (!mkdtemp(folder))
		bail_out("mkdtemp: %s", strerror(errno));
	setenv("COLL_DUMP", folder, 1);
	ranks_ok(&(struct ranks_job){"splits", 2, 0, described, NULL}, "its connections");
	unsetenv("COLL_DUMP");
	snprintf(command, sizeof(command), "grep -q '^# connections: 2 threads$' %s/*", folder);
	is_int(system(command), 0, "the file of a failed communicator has them");
	snprintf(command, sizeof(command), "rm -r %s", folder);
	is_int(system(command), 0, "the files are removed");
}

int main(void)
{
	ranks_plugins("tests/plugins/.libs", NULL);
	setenv("COLL_TIMEOUT", "20s", 1);
	if (!ranks_can("splits"))
		return done_testing();
	ranks_ok(&(struct ranks_job){"splits", 4, 0, made, NULL}, "dup, split, split of a split");
	ranks_ok(&(struct ranks_job){"splits", 3, 0, differs, NULL}, "calls that differ");
	ranks_ok(&(struct ranks_job){"splits", 2, 0, two_threads, NULL}, "splits of two threads");
	ranks_ok(&(struct ranks_job){"splits", 2, 0, group_of_two, NULL}, "a group of two");
	ranks_ok(&(struct ranks_job){"splits", 3, 0, composed, NULL}, "what must not block");
	test_failures();
	test_described();
	return done_testing();
}
