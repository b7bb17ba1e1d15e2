/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stuck_test.c - a thread in a call of a backend without a transport, which returns only if the library aborts the endpoint:
 * of a communicator that was made while another rank died, and of many for which the other rank's message came before they
 * were made.
 */
#include "../lib/plugin_dir.h"
#include "../lib/ranks.h"

enum {
	EARLY = 90, /* communicators; the library keeps 64 messages for those that are not there */
	PATIENCE = 60 /* seconds after which the call is stuck */
};

/* Makes a communicator of both ranks. */
static int remake(struct rank *r, coll_comm_t *made)
{
	return rank_did(r, coll_comm_shrink(r->comm, NULL, 0, made, NULL, 0), "shrink");
}

static void fails(struct rank *r, coll_comm_t comm, coll_result_t want, const char *words)
{
	int64_t x = 1;
	int code;

	alarm(PATIENCE);
	code = coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, comm, NULL);
	if (!code)
		code = coll_sync(comm);
	alarm(0);
	if (code != want || !strstr(coll_get_last_error(comm), words))
		rank_fail(r, "%d (%s)", code, coll_get_last_error(comm));
}

/* Rank 1 dies as soon as it has the new communicator, and rank 0's is made when it is dead. */
static void dies(struct rank *r)
{
	coll_comm_t made = NULL;

	if (!remake(r, &made))
		return;
	if (r->rank == 1)
		ranks_vanish();
	fails(r, made, COLL_ERR_PEER_LOST, "rank 1 was lost");
	rank_did(r, coll_comm_destroy(made), "destroy");
}

/* Rank 1 aborts each new communicator before rank 0 has it. */
static void aborts_early(struct rank *r)
{
	for (int i = 0; i < EARLY && !r->failure[0]; i++) {
		coll_comm_t made = NULL;

		if (!remake(r, &made))
			return;
		if (r->rank == 1)
			rank_did(r, coll_comm_abort(made), "abort");
		else
			fails(r, made, COLL_ERR_REMOTE, "rank 1 aborted the communicator");
		rank_did(r, coll_comm_destroy(made), "destroy");
	}
}

static void test(void (*fn)(struct rank *r), const char *lingers, int dead, const char *what)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	const struct ranks_job job = {"stuck", 2, 1, fn, NULL};

	setenv("COLL_STUCK_LINGERS", lingers, 1);
	ranks_run_processes(&job, shared);
	ok(!shared->failure[0][0] && (dead || !shared->failure[1][0]), "%s", what);
	for (int i = 0; i < 2; i++)
		if (shared->failure[i][0])
			diag("rank %d: %s", i, shared->failure[i]);
	munmap(shared, sizeof(*shared));
}

int main(void)
{
	const char *top = getenv("top_builddir");
	char path[2048];

	plugin_dir_begin();
	place("coll_stuck.so", "coll_stuck.so");
	snprintf(path, sizeof(path), "%s:%s/.libs", at(""), top ? top : ".");
	setenv("COLL_PLUGIN_PATH", path, 1);
	setenv("COLL_COMPANION", "tcp", 1);
	setenv("COLL_LOG", "error", 0);
	test(dies, "until a loss", 1, "a communicator that was made while a rank died");
	test(aborts_early, "4", 0, "communicators that were aborted before they were made");
	plugin_dir_end();
	return done_testing();
}
