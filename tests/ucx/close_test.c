/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * close_test.c - ranks that are threads of one process, and one of which aborts within a long call: the queues
 * between them are full, and yet no destroy waits for a rank that has closed before.
 */
#include "../lib/ranks.h"

enum { NRANKS = 4, TRIALS = 24, COUNT = 2 << 20, SLOW_S = 4 };

struct trial {
	int number;
	float *in, *out[NRANKS];
	double called
		[NRANKS]; /* the time at which the rank's calls were over: its destroy follows */
};

static void call_and_abort(struct rank *r)
{
	struct trial *trial = r->user;
	float *out = trial->out[r->rank];
	coll_result_t code = coll_barrier(r->comm); /* the abort may come before its end */

	if (!code)
		code = coll_allreduce(trial->in, out, COUNT, COLL_FLOAT32, COLL_SUM, r->comm, NULL);
	if (r->rank == 0) {
		ranks_sleep(trial->number * 0.000173);
		rank_did(r, coll_comm_abort(r->comm), "abort");
	} else if (!code) {
		coll_sync(r->comm);
	}
	trial->called[r->rank] = ranks_now();
}

int main(void)
{
	struct trial trial = {.in = calloc(COUNT, sizeof(float))};
	struct ranks_job job = {"ucx", NRANKS, 0, call_and_abort, &trial};
	double slowest = 0, last;

	if (!ranks_can("ucx"))
		return done_testing();
	for (int r = 0; r < NRANKS; r++)
		trial.out[r] = calloc(COUNT, sizeof(float));
	for (trial.number = 0; trial.number < (ranks_small() ? TRIALS / 4 : TRIALS);
	     trial.number++) {
		last = 0;
		ranks_ok(&job, "an abort within a call of 8 MiB");
		for (int r = 0; r < NRANKS; r++)
			if (trial.called[r] > last)
				last = trial.called[r];
		if (ranks_now() - last > slowest)
			slowest = ranks_now() - last;
	}
	ok(slowest < SLOW_S, "no destroy takes all of destroy_timeout: %.2f s at most", slowest);
	for (int r = 0; r < NRANKS; r++)
		free(trial.out[r]);
	free(trial.in);
	return done_testing();
}
