/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * companion_campaign.c - many faults of ranks beside NCCL, over the stand-ins, at random moments:
 *
 *   companion_campaign [-s SEED] SCENE TRIALS
 *
 * SCENE: what one rank, the victim, does while all ranks add in a loop, each on a device of its own:
 *   kill      it is killed by SIGKILL
 *   exit      it ends
 *   stop      it is stopped by SIGSTOP: the others wait for `timeout`, 1 s
 *   missing   it makes no further call: the same
 *   count, kind, root, op, type, order, fewer, group
 *             its call differs from that of the others (companion_calls.h)
 *   calm      nothing; TRIALS is a number of correct calls of all kinds, and no rank may have an error
 * TRIALS is the number of jobs with 2, with 3 and with 4 ranks.
 *
 * Prints a row, "row|scene|nccl|trials|survivors|median|99.9 %|maximum|hangs|misses" with times in milliseconds from
 * the fault to the return of a survivor's call, and a line for every miss: of a survivor with another error, or after
 * more than 10 s, and of a median that is more than 50 ms after a death, a second more than `timeout` for a rank that is
 * silent, or a second more than `stall_after` for a call that differs.  A median counts from 5 TRIALS on: a few times
 * say how busy the machine is.  The fault of a call that differs is that of the last rank to make its call.  The exit
 * status is 1 if there was a miss.
 */
#include "companion_calls.h"

#include <signal.h>

enum {
	LEAST_RANKS = 2,
	MOST_RANKS = 4,
	ROUNDS = 200,
	TRIAL_S = 30,
	STALL_MS = 500,
	TIMEOUT_MS = 1000,
	/* Of a single survivor, since the machine may be busy; and of the median of all of them. */
	LIMIT_MS = 10000,
	MEDIAN_TRIALS = 5,
	DEATH_MS = 50,
	WAIT_MS = TIMEOUT_MS + 1000,
	DIFFERS_MS = STALL_MS + 1000
};

struct report {
	_Atomic int looping, done;
	double faulty; /* when it made its call that differs */
	double at;     /* when its call failed */
	coll_result_t code;
	char text[RANKS_TEXT];
};

struct trial {
	int victim, when; /* the number of the round in which the victim does it */
	double fault;
	const struct fault_scene *scene;
	struct report report[RANKS_MAX];
};

struct fault_scene {
	const char *name;
	/* The victim's part; NULL: the process that started it does it.  All make the differing call instead. */
	void (*act)(struct trial *t);
	int signal, differing;
	coll_result_t code, or ; /* of the survivors */
	const char *words;       /* in their texts; "%d" is the victim */
	int median_ms;           /* 0: no survivor has an error */
};

static struct trial *trial;

/* ---------------------------------------------------------------------- the ranks -- */

static void act_exit(struct trial *t)
{
	t->fault = ranks_now();
	ranks_vanish();
}

/* Until all others have their errors. */
static void act_missing(struct trial *t)
{
	t->fault = ranks_now();
	ranks_sleep(TRIAL_S);
}

static int campaign_round(struct rank *r, int64_t *there, int round)
{
	const struct fault_scene *scene = trial->scene;
	const int victim = r->rank == trial->victim;
	int code;

	if (round == trial->when && scene->differing >= 0) {
		trial->report[r->rank].faulty = ranks_now();
		code = differing_calls[scene->differing].call(r, there, victim);
		return code ? code : coll_sync(r->comm);
	}
	if (round == trial->when && victim && scene->act)
		scene->act(trial);
	code = sum(r, there, 1);
	return code ? code : coll_sync(r->comm);
}

static void campaign_rank(struct rank *r)
{
	const double deadline = ranks_now() + TRIAL_S;
	struct report *report = &trial->report[r->rank];
	int64_t x[DEVICE_N] = {0}, *there = nccl_new(r->rank, x, DEVICE_N);
	int code = nccl_works(r) ? 0 : -1;

	for (int round = 0; !code && ranks_now() < deadline; round++) {
		if (round == 2)
			atomic_store(&report->looping, 1);
		code = campaign_round(r, there, round);
	}
	report->at = ranks_now();
	report->code = code;
	snprintf(report->text, sizeof(report->text), "%s", coll_get_last_error(NULL));
	atomic_store(&report->done, 1);
	/* A rank that leaves is no news for one that has not heard of the fault yet. */
	for (int n = 0; n < r->nranks; n++)
		while (n != trial->victim && !atomic_load(&trial->report[n].done) &&
		       ranks_now() < deadline)
			ranks_sleep(0.001);
	device_free(r->rank, there);
}

static void campaign_calm(struct rank *r)
{
	const int n = trial->when;
	int64_t x[DEVICE_N] = {0}, *there = nccl_new(r->rank, x, DEVICE_N);
	int code = 0;

	for (int i = 0; i < n && !code; i++) {
		code = one_call(r, there, i);
		if (!code && i % 50 == r->rank)
			code = coll_sync(r->comm);
		if (i % (n / 4 + 1) == 100 + r->rank)
			ranks_sleep(2.5 * STALL_MS / 1e3);
	}
	if (!code)
		code = coll_sync(r->comm);
	rank_did(r, code, "a call");
	nccl_works(r);
	device_free(r->rank, there);
}

/* -------------------------------------------------------------------------- a trial -- */

static const struct fault_scene scenes[] = {
	{"kill", NULL, SIGKILL, -1, COLL_ERR_PEER_LOST, COLL_ERR_PEER_LOST, "rank %d", DEATH_MS},
	{"exit", act_exit, 0, -1, COLL_ERR_PEER_LOST, COLL_ERR_PEER_LOST, "rank %d", DEATH_MS},
	{"stop", NULL, SIGSTOP, -1, COLL_ERR_TIMEOUT, COLL_ERR_REMOTE, "rank %d does not answer",
	 WAIT_MS},
	{"missing", act_missing, 0, -1, COLL_ERR_TIMEOUT, COLL_ERR_REMOTE,
	 "rank %d last called allreduce of 1 int64 (sum)", WAIT_MS},
	{"count", NULL, 0, 0, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, "", DIFFERS_MS},
	{"kind", NULL, 0, 1, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, "", DIFFERS_MS},
	{"root", NULL, 0, 2, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, "", DIFFERS_MS},
	{"op", NULL, 0, 3, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, "", DIFFERS_MS},
	{"type", NULL, 0, 4, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, "", DIFFERS_MS},
	{"order", NULL, 0, 5, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, "", DIFFERS_MS},
	{"fewer", NULL, 0, 6, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, "", DIFFERS_MS},
	{"group", NULL, 0, 7, COLL_ERR_MISMATCH, COLL_ERR_MISMATCH, "", DIFFERS_MS},
	{"calm", NULL, 0, -1, COLL_SUCCESS, COLL_SUCCESS, "", 0},
};

struct totals {
	double *ms; /* one entry a survivor */
	int n, hangs, misses;
};

static void miss(struct totals *t, const struct nccl_rank *one, int number, const char *why,
		 const char *text)
{
	t->misses++;
	printf("miss|%s|nccl|trial %d|rank %d of %d, victim %d|%s|%s\n", trial->scene->name, number,
	       one->rank.rank, one->rank.nranks, trial->victim, why, text);
}

/* When did the fault happen? */
static double fault_time(int nranks)
{
	double last = trial->fault;

	for (int r = 0; r < nranks; r++)
		if (trial->report[r].faulty > last)
			last = trial->report[r].faulty;
	return last;
}

static int has_words(const char *text)
{
	const struct fault_scene *scene = trial->scene;
	char words[100];

	if (scene->differing >= 0)
		return strstr(text, differing_calls[scene->differing].words[0]) &&
		       strstr(text, differing_calls[scene->differing].words[1]);
	snprintf(words, sizeof(words), "rank %d", trial->victim);
	if (strlen(scene->words) > strlen("rank %d"))
		snprintf(words + strlen(words), sizeof(words) - strlen(words), "%s",
			 scene->words + strlen("rank %d"));
	return strstr(text, words) != NULL;
}

/* Judges a rank that has ended. */
static void judge(struct totals *t, const struct nccl_rank *one, int number)
{
	const struct report *report = &trial->report[one->rank.rank];
	const double ms = (report->at - fault_time(one->rank.nranks)) * 1e3;
	char why[80];

	if (one->rank.failure[0])
		miss(t, one, number, "failed", one->rank.failure);
	if (!trial->scene->median_ms)
		return;
	if (!atomic_load(&report->done)) {
		miss(t, one, number, "the rank ended without a report", one->rank.failure);
		return;
	}
	t->ms[t->n++] = ms > 0 ? ms : 0;
	snprintf(why, sizeof(why), "code %d after %.0f ms", report->code, ms);
	if ((report->code != trial->scene->code && report->code != trial->scene->or) ||
	    !has_words(report->text) || ms > LIMIT_MS)
		miss(t, one, number, why, report->text);
}

/* Does to the victim's process what the scene says, at a random moment of the loop. */
static void strike(pid_t pid, int nranks, unsigned *seed)
{
	const double deadline = ranks_now() + TRIAL_S;

	for (int r = 0; r < nranks; r++)
		while (!atomic_load(&trial->report[r].looping) && ranks_now() < deadline)
			ranks_sleep(0.0005);
	ranks_sleep(0.02 * rand_r(seed) / RAND_MAX);
	trial->fault = ranks_now();
	kill(pid, trial->scene->signal);
}

static int others_are_done(int nranks)
{
	for (int r = 0; r < nranks; r++)
		if (r != trial->victim && !atomic_load(&trial->report[r].done))
			return 0;
	return 1;
}

static void reap(struct totals *t, struct nccl_rank *all, const pid_t *pids, int nranks, int number)
{
	const double deadline = ranks_now() + 2 * TRIAL_S;
	const int survives = trial->scene->differing >= 0 || !trial->scene->median_ms;
	int status;

	while (!survives && !others_are_done(nranks) && ranks_now() < deadline)
		ranks_sleep(0.001);
	if (!survives)
		kill(pids[trial->victim], SIGKILL);
	for (int r = 0; r < nranks; r++) {
		const int ended =
			ranks_reap(pids[r], trial->scene->median_ms ? deadline : 1e12, &status);

		if (r == trial->victim && !survives)
			continue;
		if (!ended)
			t->hangs++;
		if (!ended || status)
			miss(t, &all[r], number, ended ? "the rank failed" : "the rank hangs",
			     all[r].rank.failure);
		else
			judge(t, &all[r], number);
	}
}

static void run_trial(struct totals *t, int nranks, int number, int when, unsigned *seed)
{
	const struct nccl_job job = {nranks, 1, INIT_EXCHANGE,
				     trial->scene->median_ms ? campaign_rank : campaign_calm, NULL};
	struct nccl_rendezvous *rendezvous = ranks_memory(sizeof(*rendezvous));
	const struct fault_scene *scene = trial->scene;
	struct nccl_rank all[RANKS_MAX];
	pid_t pids[RANKS_MAX];

	*trial = (struct trial){.victim = rand_r(seed) % nranks, .when = when, .scene = scene};
	fflush(stdout);
	for (int r = 0; r < nranks; r++) {
		all[r] = (struct nccl_rank){
			.job = &job,
			.member = {rendezvous, r, nranks, 0},
			.rank = {NULL, r, nranks, NULL, rendezvous->shared.failure[r]}};
		pids[r] = fork();
		if (pids[r] < 0)
			bail_out("cannot fork: %s", strerror(errno));
		if (pids[r] > 0)
			continue;
		nccl_hold_devices();
		nccl_one(&all[r]);
		exit(0);
	}
	if (scene->signal)
		strike(pids[trial->victim], nranks, seed);
	reap(t, all, pids, nranks, number);
	munmap(rendezvous, sizeof(*rendezvous));
}

/* ----------------------------------------------------------------------------- rows -- */

static double quantile(const struct totals *t, double q)
{
	const int at = (int)(q * t->n);

	return t->n ? t->ms[at < t->n ? at : t->n - 1] : 0;
}

static int campaign(int n, unsigned seed)
{
	const int calm = !trial->scene->median_ms, trials = calm ? 1 : n;
	struct totals t = {.ms = calloc((size_t)trials * 3 * MOST_RANKS, sizeof(*t.ms))};

	if (!t.ms)
		bail_out("no memory for %d trials", n);
	for (int nranks = LEAST_RANKS; nranks <= MOST_RANKS; nranks++)
		for (int i = 0; i < trials; i++)
			run_trial(&t, nranks, i, calm ? n : 3 + rand_r(&seed) % ROUNDS, &seed);
	qsort(t.ms, (size_t)t.n, sizeof(*t.ms), compare_times);
	if (n >= MEDIAN_TRIALS && quantile(&t, 0.5) > trial->scene->median_ms) {
		t.misses++;
		printf("miss|%s|nccl|the median is %.1f ms, more than %d ms\n", trial->scene->name,
		       quantile(&t, 0.5), trial->scene->median_ms);
	}
	printf("row|%s|nccl|%d|%d|%.1f|%.1f|%.1f|%d|%d\n", trial->scene->name, 3 * n, t.n,
	       quantile(&t, 0.5), quantile(&t, 0.999), quantile(&t, 1), t.hangs, t.misses);
	free(t.ms);
	return t.misses;
}

static int usage(void)
{
	fprintf(stderr, "usage: companion_campaign [-s SEED] SCENE TRIALS\nSCENE:");
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		fprintf(stderr, " %s", scenes[i].name);
	fprintf(stderr, "\n");
	return 2;
}

int main(int argc, char **argv)
{
	unsigned seed = 20261125;
	int n, option;

	nccl_find_stand_ins(argv, ".libs");
	while ((option = getopt(argc, argv, "s:")) == 's')
		seed = (unsigned)strtoul(optarg, NULL, 0);
	n = argc - optind == 2 ? atoi(argv[optind + 1]) : 0;
	if (option != -1 || n < 1)
		return usage();
	trial = ranks_memory(sizeof(*trial));
	for (size_t i = 0; i < sizeof(scenes) / sizeof(scenes[0]); i++)
		if (!strcmp(scenes[i].name, argv[optind]))
			trial->scene = &scenes[i];
	if (!trial->scene)
		return usage();
	setenv("COLL_LOG", "error", 1);
	setenv("COLL_STALL_AFTER", "500ms", 1);
	setenv("COLL_INIT_TIMEOUT", "60s", 0);
	setenv("COLL_TIMEOUT", trial->scene->code == COLL_ERR_TIMEOUT ? "1s" : "60s", 1);
	return campaign(n, seed) != 0;
}
