/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * late_shrink_test.c - ranks that call coll_comm_shrink so late that others have given up.
 *
 * A rank may have the new communicator then although another rank has none.  Once that one makes a call of any kind, the
 * operations of the new communicator are errors, and wait for no timeout.  A later shrink has no trace of earlier ones.
 *
 * The ranks are threads.  Arguments: the backends; without any, simulated, tcp and ucx.
 */
#include "../lib/random.h"
#include "../lib/ranks.h"

enum { NRANKS = 4, TIMEOUT_MS = 50, LEADER_MS = 10, LONG_MS = 20000, TRIES = 200 };

/* The rounds of a job; all ranks see the same. */
struct rounds {
	pthread_barrier_t barrier;
	_Atomic int ended; /* ranks that have ended the round's calls */
	coll_result_t shrunk[NRANKS], used[NRANKS];
	char text[NRANKS][RANKS_TEXT];
	/* Rounds in which all, some and no callers got a communicator. */
	int whole, parted, given_up;
	int wrong;
};

/* What a round does; drawn before the threads start, so that all ranks have the same. */
struct round {
	int excluded; /* a rank, or -1 */
	double delay[NRANKS];
};

static struct round planned[64];
static int nplanned;

/* Some ranks come when the time of the first ones ends; the leader, the lowest rank, has some of its time left. */
static void draw_plan(int rounds)
{
	nplanned = rounds;
	for (int i = 0; i < rounds; i++) {
		planned[i].excluded = random_below(NRANKS + 1) - 1;
		for (int r = 0; r < NRANKS; r++)
			planned[i].delay[r] =
				random_below(2)
					? 0
					: 1e-3 * TIMEOUT_MS + 1e-6 * (random_below(600) - 200);
		planned[i].delay[planned[i].excluded == 0] = 1e-3 * LEADER_MS;
	}
}

static coll_result_t shrink(const struct rank *r, int excluded, coll_comm_t *out)
{
	coll_config_t config;
	int32_t exclude = excluded;

	coll_config_init(&config, sizeof(config));
	config.timeout_ms = LONG_MS;
	return coll_comm_shrink(r->comm, &exclude, excluded >= 0, out, &config, 0);
}

/* One operation on the new communicator, whose other ranks may have none. */
static coll_result_t use(const struct rank *r, coll_comm_t comm, int excluded)
{
	int64_t x = r->rank + 1, y = 0, want = 0;
	coll_result_t code = coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, comm, NULL);

	for (int i = 0; i < NRANKS; i++)
		want += i == excluded ? 0 : i + 1;
	code = code ? code : coll_sync(comm);
	return code || y == want ? code : COLL_ERR_INTERNAL;
}

/* Rank 0 judges a round. */
static void judge(struct rounds *rounds, int excluded)
{
	const int callers = NRANKS - (excluded >= 0);
	int made = 0, wrong = 0;

	for (int i = 0; i < NRANKS; i++)
		made += i != excluded && !rounds->shrunk[i];
	for (int i = 0; i < NRANKS; i++) {
		if (i == excluded || rounds->shrunk[i])
			continue;
		wrong += made == callers ? rounds->used[i] != COLL_SUCCESS
					 : rounds->used[i] != COLL_ERR_REMOTE &&
						   rounds->used[i] != COLL_ERR_PEER_LOST;
	}
	for (int i = 0; wrong && i < NRANKS; i++)
		diag("rank %d: shrink %d, allreduce %d: %s", i, rounds->shrunk[i], rounds->used[i],
		     rounds->text[i]);
	rounds->wrong += wrong;
	rounds->whole += made == callers;
	rounds->parted += made > 0 && made < callers;
	rounds->given_up += made == 0;
}

static void poll_until_all_ended(const struct rank *r, struct rounds *rounds)
{
	coll_result_t failure;

	atomic_fetch_add(&rounds->ended, 1);
	while (atomic_load(&rounds->ended) < NRANKS) {
		coll_comm_get_async_error(r->comm, &failure);
		ranks_sleep(0.001);
	}
}

static void run_round(struct rank *r, int excluded, double delay)
{
	struct rounds *rounds = r->user;
	coll_comm_t comm = NULL;
	coll_result_t code = COLL_SUCCESS, used = COLL_SUCCESS;

	rounds->text[r->rank][0] = '\0';
	pthread_barrier_wait(&rounds->barrier);
	ranks_sleep(delay);
	if (r->rank != excluded)
		code = shrink(r, excluded, &comm);
	if (comm)
		used = use(r, comm, excluded);
	if (code || used)
		snprintf(rounds->text[r->rank], RANKS_TEXT, "%s", coll_get_last_error(NULL));
	rounds->shrunk[r->rank] = code;
	rounds->used[r->rank] = used;
	coll_comm_destroy(comm);
	poll_until_all_ended(r, rounds);
	pthread_barrier_wait(&rounds->barrier);
	if (r->rank == 0) {
		judge(rounds, excluded);
		atomic_store(&rounds->ended, 0);
	}
	pthread_barrier_wait(&rounds->barrier);
}

static void late(struct rank *r)
{
	struct rounds *rounds = r->user;
	int i = 0, before;

	for (i = 0; i < nplanned; i++)
		run_round(r, planned[i].excluded, planned[i].delay[r->rank]);
	/* A busy machine makes ranks late that are not meant to be. */
	before = rounds->whole;
	for (i = 0; i < TRIES && rounds->whole == before; i++)
		run_round(r, -1, 0);
	if (rounds->whole == before)
		rank_fail(r, "no shrink succeeds after the late ones");
}

static void test_backend(const char *backend)
{
	static struct rounds rounds;
	struct ranks_job job = {backend, NRANKS, 0, late, &rounds};
	char timeout[16];

	memset(&rounds, 0, sizeof(rounds));
	pthread_barrier_init(&rounds.barrier, NULL, NRANKS);
	draw_plan(ranks_small() ? 20 : 60);
	snprintf(timeout, sizeof(timeout), "%dms", TIMEOUT_MS);
	setenv("COLL_TIMEOUT", timeout, 1);
	ranks_ok(&job, "a shrink of all succeeds after late ones");
	unsetenv("COLL_TIMEOUT");
	pthread_barrier_destroy(&rounds.barrier);
	ok(!rounds.wrong, "%s: a communicator that some rank has not fails for the others",
	   backend);
	diag("%s: shrinks of all %d, of some %d, of none %d", backend, rounds.whole, rounds.parted,
	     rounds.given_up);
}

int main(int argc, char **argv)
{
	static char *usual[] = {"simulated", "tcp", "ucx"};
	char **backends = argc > 1 ? argv + 1 : usual;
	const int n = argc > 1 ? argc - 1 : 3;

	for (int i = 0; i < n; i++)
		if (ranks_can(backends[i]))
			test_backend(backends[i]);
	return done_testing();
}
