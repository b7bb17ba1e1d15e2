/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * campaign.c - many deaths of ranks at random moments, and many strangers at the ports of a job:
 *
 *   campaign [-s SEED] BACKEND SCENE TRIALS
 *
 * BACKEND: tcp (AF_UNIX on one host), tcp-sockets (TCP), ucx, ucx-ports (over TCP, with open ports) or simulated.
 * SCENE: the calls during which a rank is killed by SIGKILL at a random moment:
 *   kill      4 KiB allreduces
 *   survive   the same; then the survivors make a communicator by shrink, and add in it
 *   split     communicators are split, used and destroyed; then as survive
 *   dup       the same by dup
 *   shrink    communicators without one of the ranks are made by shrink, used and destroyed
 *   init      the communicator is made
 *   destroy   the communicator is destroyed
 *   abort     4 KiB allreduces of threads, of which one is aborted instead
 *   lent      256 KiB allreduces in memory of coll_mem_alloc; then as survive, in new memory
 *   lent-dup  the same in communicators of which each is aborted by a rank; then as lent
 *   lent-abort  256 KiB allreduces of threads in such memory, of which one is aborted instead
 * or strangers-start, strangers-run: processes outside the job connect to its ports while it starts or runs.
 * TRIALS is the number of strangers, else of jobs of 4 ranks, each with one death.
 *
 * Prints a row, "row|scene|backend|trials|survivors|median|99.9 %|maximum|hangs|misses" with times in
 * milliseconds from the death to the return of a survivor's call, and a line for every miss.  The exit status
 * is 1 if there was a miss.
 */
#include "campaign.h"

static struct trial *trial;

struct totals {
	double *ms; /* one entry a survivor */
	int n, hangs, misses;
};

/* ---------------------------------------------------------------------- the ranks -- */

static const char *backend_plugin(const char *backend)
{
	return !strncmp(backend, "tcp", 3) ? "tcp" : !strncmp(backend, "ucx", 3) ? "ucx" : backend;
}

/* Returns 0 if there is no such backend. */
static int backend_prepare(const char *backend)
{
	static const char *const names[] = {"tcp", "tcp-sockets", "ucx", "ucx-ports", "simulated"};

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(names[i], backend)) {
			if (i == 1)
				setenv("COLL_TCP_UNIX", "no", 1);
			if (i == 3)
				setenv("UCX_TLS", "tcp,self", 1);
			return 1;
		}
	return 0;
}

void campaign_rank(const struct scene *scene, struct trial *t, const char *plugin, int rank)
{
	struct rank r = {NULL, rank, NRANKS, (void *)(uintptr_t)plugin, t->shared.failure[rank]};

	if (rank == 0) {
		if (!rank_did(&r, coll_get_unique_id(t->shared.id, sizeof(t->shared.id)),
			      "unique id"))
			exit(1);
		atomic_store(&t->shared.has_id, 1);
	}
	while (!atomic_load(&t->shared.has_id))
		ranks_sleep(0.0005);
	scene->act(&r, t, &t->report[rank]);
	if (r.comm)
		coll_comm_destroy(r.comm);
	exit(0);
}

/* -------------------------------------------------------------------------- a trial -- */

static double draw(unsigned *seed, double most)
{
	return most * (double)rand_r(seed) / (double)RAND_MAX;
}

static int all_have_come(int phase)
{
	for (int r = 0; r < NRANKS; r++)
		if (atomic_load(&trial->report[r].phase) < phase)
			return 0;
	return phase != PHASE_BEGUN || atomic_load(&trial->shared.has_id);
}

/* Waits until the ranks have come to the scene's phase, and a random time more. */
static void trial_wait(const struct scene *scene, const char *backend, unsigned *seed)
{
	double deadline = ranks_now() + 1e-3 * TRIAL_MS, delay = scene->delay;

	if (scene->phase == PHASE_BEGUN && !strncmp(backend, "ucx", 3))
		delay *= 5;
	while (!all_have_come(scene->phase) && ranks_now() < deadline)
		ranks_sleep(0.0002);
	ranks_sleep(draw(seed, delay));
	trial->death = ranks_now();
}

static void miss(struct totals *t, const struct scene *scene, const char *backend, int number,
		 int rank, const char *why, const char *text)
{
	t->misses++;
	printf("miss|%s|%s|trial %d|rank %d of %d, victim %d|%s|%s\n", scene->name, backend, number,
	       rank, NRANKS, trial->victim, why, text);
}

/* Judges a survivor that has ended. */
static void trial_judge(struct totals *t, const struct scene *scene, const char *backend,
			int number, int rank)
{
	const struct report *report = &trial->report[rank];
	char name[16], world[24], why[80];
	double ms = (report->at - trial->death) * 1e3;

	if (atomic_load(&report->phase) < PHASE_DONE) {
		miss(t, scene, backend, number, rank, "the rank ended without a report",
		     trial->shared.failure[rank]);
		return;
	}
	t->ms[t->n++] = ms > 0 ? ms : 0;
	snprintf(name, sizeof(name), "rank %d", trial->victim);
	snprintf(world, sizeof(world), "world rank %d", trial->victim);
	if (scene->may_name_any)
		name[5] = '\0';
	if (report->wrong[0])
		miss(t, scene, backend, number, rank, "wrong", report->wrong);
	if (!report->code && !scene->may_succeed)
		miss(t, scene, backend, number, rank, "no error", "");
	if (report->code && !strstr(report->text, name) && !strstr(report->text, world))
		miss(t, scene, backend, number, rank, "the text does not name the victim",
		     report->text);
	if (ms > scene->limit_ms) {
		snprintf(why, sizeof(why), "the error came after %.0f ms", ms);
		miss(t, scene, backend, number, rank, why, report->text);
	}
}

static void trial_begin(unsigned *seed)
{
	memset(trial, 0, sizeof(*trial));
	trial->init_timeout_ms = INIT_TIMEOUT_MS;
	trial->victim = rand_r(seed) % NRANKS;
	trial->second = (trial->victim + 1 + rand_r(seed) % (NRANKS - 1)) % NRANKS;
	fflush(stdout);
}

static pid_t trial_fork(void)
{
	pid_t pid = fork();

	if (pid < 0)
		bail_out("cannot fork: %s", strerror(errno));
	return pid;
}

/* Ranks as processes, one of which is killed. */
static void trial_processes(struct totals *t, const struct scene *scene, const char *backend,
			    int number, unsigned *seed)
{
	pid_t pids[NRANKS];
	double deadline;
	int status;

	for (int r = 0; r < NRANKS; r++) {
		pids[r] = trial_fork();
		if (pids[r] == 0)
			campaign_rank(scene, trial, backend_plugin(backend), r);
	}
	trial_wait(scene, backend, seed);
	kill(pids[trial->victim], SIGKILL);
	deadline = ranks_now() + 1e-3 * TRIAL_MS;
	for (int r = 0; r < NRANKS; r++) {
		int ended = ranks_reap(pids[r], deadline, &status);

		if (r == trial->victim || (ended && scene->one_leaves && r == trial->second))
			continue;
		t->hangs += !ended;
		if (!ended)
			miss(t, scene, backend, number, r, "the rank hangs", trial->report[r].text);
		else if (status)
			miss(t, scene, backend, number, r, "the rank failed",
			     trial->shared.failure[r]);
		else
			trial_judge(t, scene, backend, number, r);
	}
}

struct thread {
	pthread_t id;
	const struct scene *scene;
	struct rank rank;
};

static void *thread_main(void *arg)
{
	struct thread *t = arg;

	t->scene->act(&t->rank, trial, &trial->report[t->rank.rank]);
	coll_comm_destroy(t->rank.comm);
	return NULL;
}

static void threads_process(const struct scene *scene, const char *backend, unsigned *seed)
{
	struct thread threads[NRANKS];
	coll_comm_t comms[NRANKS];
	coll_config_t config;

	ranks_config(&config, backend_plugin(backend));
	if (coll_comm_init_all(comms, NRANKS, NULL, &config))
		exit(1);
	atomic_store(&trial->shared.has_id, 1);
	for (int r = 0; r < NRANKS; r++) {
		threads[r] = (struct thread){
			.scene = scene,
			.rank = {comms[r], r, NRANKS, NULL, trial->shared.failure[r]}};
		if (pthread_create(&threads[r].id, NULL, thread_main, &threads[r]))
			exit(1);
	}
	trial_wait(scene, backend, seed);
	coll_comm_abort(comms[trial->victim]);
	for (int r = 0; r < NRANKS; r++)
		pthread_join(threads[r].id, NULL);
	exit(0);
}

/* Ranks as threads of one process, one of which is aborted. */
static void trial_threads(struct totals *t, const struct scene *scene, const char *backend,
			  int number, unsigned *seed)
{
	pid_t pid = trial_fork();
	int status;

	if (pid == 0)
		threads_process(scene, backend, seed);
	rand_r(seed); /* the child has drawn */
	if (!ranks_reap(pid, ranks_now() + 2e-3 * TRIAL_MS, &status)) {
		t->hangs++;
		miss(t, scene, backend, number, 0, "the job hangs", "");
	} else if (status) {
		miss(t, scene, backend, number, 0, "the job failed", "");
	}
	for (int r = 0; r < NRANKS && !status; r++)
		if (r != trial->victim)
			trial_judge(t, scene, backend, number, r);
}

/* ----------------------------------------------------------------------------- rows -- */

static int compare(const void *a, const void *b)
{
	const double *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static double quantile(const struct totals *t, double q)
{
	int at = (int)(q * t->n);

	return t->n ? t->ms[at < t->n ? at : t->n - 1] : 0;
}

static int campaign_run(const struct scene *scene, const char *backend, int n, unsigned seed)
{
	struct totals t = {.ms = calloc((size_t)n * NRANKS + 1, sizeof(*t.ms))};

	if (!t.ms)
		bail_out("no memory for %d trials", n);
	for (int i = 0; i < n; i++) {
		trial_begin(&seed);
		if (scene->threads)
			trial_threads(&t, scene, backend, i, &seed);
		else
			trial_processes(&t, scene, backend, i, &seed);
	}
	qsort(t.ms, (size_t)t.n, sizeof(*t.ms), compare);
	printf("row|%s|%s|%d|%d|%.1f|%.1f|%.1f|%d|%d\n", scene->name, backend, n, t.n,
	       quantile(&t, 0.5), quantile(&t, 0.999), quantile(&t, 1), t.hangs, t.misses);
	free(t.ms);
	return t.misses;
}

static int usage(void)
{
	fprintf(stderr,
		"usage: campaign [-s SEED] BACKEND SCENE TRIALS\n"
		"BACKEND: tcp, tcp-sockets, ucx, ucx-ports, simulated (abort only)\n"
		"SCENE: kill, survive, split, dup, shrink, init, destroy, abort, lent, lent-dup, "
		"lent-abort, strangers-start, strangers-run\n");
	return 2;
}

int main(int argc, char **argv)
{
	unsigned seed = 20261122;
	int n, option;

	while ((option = getopt(argc, argv, "s:")) == 's')
		seed = (unsigned)strtoul(optarg, NULL, 0);
	if (option != -1 || argc - optind != 3 || !backend_prepare(argv[optind]))
		return usage();
	n = atoi(argv[optind + 2]);
	if (n < 1)
		return usage();
	trial = ranks_memory(sizeof(*trial));
	if (!strncmp(argv[optind + 1], "strangers-", 10))
		return campaign_strangers(trial, argv[optind], backend_plugin(argv[optind]),
					  !strcmp(argv[optind + 1], "strangers-start"), n,
					  seed) != 0;
	for (const struct scene *s = campaign_scenes; s->name; s++)
		if (!strcmp(s->name, argv[optind + 1]))
			return campaign_run(s, argv[optind], n, seed) != 0;
	return usage();
}
