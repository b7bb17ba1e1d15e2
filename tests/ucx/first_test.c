/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * first_test.c - a rank that was stopped while other ranks were killed names all of them as lost: it cannot know which
 * process ended first, and the end of the first may have made the others end.
 */
#include "../lib/ranks.h"

enum { NRANKS = 3, WAIT_S = 60 };

struct scene {
	struct ranks_shared shared;
	_Atomic int ready;
	char text[RANKS_TEXT];
};

static struct scene *scene;

static void until(_Atomic int *mark, int n)
{
	double deadline = ranks_now() + WAIT_S;

	while (atomic_load(mark) < n && ranks_now() < deadline)
		ranks_sleep(0.002);
}

/* Rank 0 stops itself between two calls; the others are killed. */
static void run_rank(int rank)
{
	struct rank r = {NULL, rank, NRANKS, NULL, scene->shared.failure[rank]};
	coll_config_t config;
	coll_result_t code = COLL_SUCCESS;
	int64_t x = 1, y;

	setenv("COLL_TIMEOUT", "20", 1);
	ranks_config(&config, "ucx");
	if (!ranks_init(&r, &scene->shared, &config) ||
	    !sums_to(&r, r.comm, 1, NRANKS, "allreduce"))
		_exit(1);
	atomic_fetch_add(&scene->ready, 1);
	if (rank == 0)
		raise(SIGSTOP);
	else
		ranks_sleep(WAIT_S);
	if (!coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, r.comm, NULL))
		code = coll_sync(r.comm);
	snprintf(scene->text, RANKS_TEXT, "%d %s", code, coll_get_last_error(NULL));
	_exit(0);
}

int main(void)
{
	pid_t pid[NRANKS];
	int status;

	scene = ranks_memory(sizeof(*scene));
	if (!ranks_can("ucx"))
		return done_testing();
	fflush(stdout);
	for (int r = 0; r < NRANKS; r++) {
		pid[r] = fork();
		if (pid[r] == 0)
			run_rank(r);
	}
	until(&scene->ready, NRANKS);
	waitpid(pid[0], &status, WUNTRACED);
	for (int r = NRANKS - 1; r > 0; r--) {
		kill(pid[r], SIGKILL);
		ranks_reap(pid[r], ranks_now() + WAIT_S, &status);
	}
	kill(pid[0], SIGCONT);
	ok(ranks_reap(pid[0], ranks_now() + WAIT_S, &status), "rank 0 hears of the deaths");
	has_str(scene->text, "rank 2 was lost", "rank 0 names the rank that was killed first");
	has_str(scene->text, "rank 1 was lost", "and the other");
	return done_testing();
}
