/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * shrink_order_test.c - several calls of coll_comm_shrink one behind the other, and from several threads: each call gets
 * the answer that is for it.
 *
 * The leader, the lowest rank that stays, may end a call that fails before another rank has looked at the answer to the
 * call before.  Arguments: the backends; without any, simulated, tcp and ucx.
 */
#include "../lib/ranks.h"

enum { NRANKS = 4, LEAVER = 1, STAYS = NRANKS - 1, ROUNDS = 30, THREADS = 3 };

/* Waits until this rank knows that LEAVER has left: then a receive from it fails. */
static int knows_leaver(struct rank *r)
{
	coll_request_t request;
	coll_result_t code;
	int x;

	if (!rank_did(r, coll_irecv(&x, 1, COLL_INT32, LEAVER, COLL_ANY_TAG, r->comm, &request),
		      "irecv"))
		return 0;
	code = coll_wait(request);
	coll_request_free(request);
	return code == COLL_ERR_PEER_LOST ||
	       rank_fail(r, "a receive from a rank that left: %d", code);
}

/* A shrink that fails, since LEAVER has left. */
static int shrink_all(struct rank *r)
{
	coll_comm_t none = NULL;
	const coll_result_t code = coll_comm_shrink(r->comm, NULL, 0, &none, NULL, 0);

	return code == COLL_ERR_PEER_LOST || rank_fail(r, "a shrink with a rank that left: %d (%s)",
						       code, coll_get_last_error(NULL));
}

static int shrink_rest(struct rank *r, coll_comm_t *out)
{
	const int32_t exclude[] = {LEAVER};

	return rank_did(r, coll_comm_shrink(r->comm, exclude, 1, out, NULL, 0), "shrink");
}

/* Of three calls the first makes a communicator, and the leader ends the other two at once. */
static void in_a_row(struct rank *r)
{
	coll_comm_t made = NULL;

	if (r->rank == LEAVER || !knows_leaver(r))
		return;
	for (int i = 0; i < ROUNDS && !r->failure[0]; i++) {
		(void)(shrink_rest(r, &made) && shrink_all(r) && shrink_all(r) &&
		       is_rank(r, made, r->rank - (r->rank > LEAVER), STAYS) &&
		       sums_to(r, made, 1, STAYS, "the new communicator"));
		coll_comm_destroy(made);
	}
}

static void *shrink_thread(void *arg)
{
	struct rank *r = arg;
	coll_comm_t made = NULL;

	if (shrink_rest(r, &made))
		sums_to(r, made, 1, STAYS, "the communicator of a thread");
	coll_comm_destroy(made);
	return NULL;
}

/* The calls of the threads have the same list, so any order is the same on all ranks. */
static void from_threads(struct rank *r)
{
	pthread_t threads[THREADS];

	if (r->rank == LEAVER || !knows_leaver(r))
		return;
	for (int i = 0; i < THREADS; i++)
		if (pthread_create(&threads[i], NULL, shrink_thread, r))
			bail_out("cannot start a thread");
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
}

static void test_backend(const char *backend)
{
	const int processes = strcmp(backend, "simulated") != 0;

	ranks_ok(&(struct ranks_job){backend, NRANKS, processes, in_a_row, NULL},
		 "three shrinks in a row, of which two fail at once");
	ranks_ok(&(struct ranks_job){backend, NRANKS, processes, from_threads, NULL},
		 "shrinks of several threads of each rank");
}

int main(int argc, char **argv)
{
	static char *usual[] = {"simulated", "tcp", "ucx"};
	char **backends = argc > 1 ? argv + 1 : usual;
	const int n = argc > 1 ? argc - 1 : 3;

	setenv("COLL_TIMEOUT", "20s", 1);
	for (int i = 0; i < n; i++)
		if (ranks_can(backends[i]))
			test_backend(backends[i]);
	return done_testing();
}
