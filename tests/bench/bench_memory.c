/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_memory.c - the memory of libcoll by rank and by communicator, over the backend that COLL_BACKEND names.
 *
 *   coll run -n 2 -- bench_memory 100       100 communicators; BENCH_SHARED names a file that the ranks share
 *   bench_memory -t 2 100                   the ranks are threads of one process (simulated)
 *
 * Rank 0 prints a line for each stage: "STAGE RSS PSS SHARED", in KiB.  RSS and PSS are the mean of the ranks and count
 * from the time before the first call; SHARED is the shared memory of all ranks together, each page once.
 * Between the stages the ranks meet through memory of their own, so that no call of the library happens unseen.
 */
#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <coll/coll.h>
#include "bench.h"

enum { MEMORY_RANKS = 1024, MEMORY_BYTES = 1 << 20, MEMORY_WAIT_S = 120 };

enum stage { START, INIT, SMALL, LARGE, COMMS, USED, STAGES };

static const char *const stage_names[STAGES] = {"start", "init", "8B", "1MiB", "comms", "used"};

struct usage {
	int64_t rss, pss, shared; /* KiB */
};

/* The memory that the ranks share. */
struct meeting {
	_Atomic int arrived[2 * STAGES];
	struct usage usage[STAGES][MEMORY_RANKS];
};

struct rank {
	int rank, nranks, ncomms;
	int threads; /* the ranks are threads of this process, and rank 0 reads the memory of all */
	struct meeting *meeting;
	coll_comm_t comm, *comms;
	float *in, *out;
	pthread_t thread;
};

static void check(coll_result_t result)
{
	if (result != COLL_SUCCESS)
		bench_fail("libcoll: ", coll_get_last_error(NULL));
}

static void meet(struct rank *r, int number)
{
	double deadline = bench_now() + MEMORY_WAIT_S * 1e6;

	atomic_fetch_add(&r->meeting->arrived[number], 1);
	while (atomic_load(&r->meeting->arrived[number]) < r->nranks) {
		if (bench_now() > deadline)
			bench_fail("a rank does not come", "");
		usleep(1000);
	}
}

static struct usage usage_read(void)
{
	FILE *file = fopen("/proc/self/smaps_rollup", "r");
	struct usage u = {-1, -1, -1};
	char line[128];

	while (file && fgets(line, sizeof(line), file)) {
		sscanf(line, "Rss: %" SCNd64, &u.rss);
		sscanf(line, "Pss: %" SCNd64, &u.pss);
		sscanf(line, "Pss_Shmem: %" SCNd64, &u.shared);
	}
	if (file)
		fclose(file);
	if (u.shared < 0)
		bench_fail("no Rss, Pss and Pss_Shmem (Linux 5.4) in ", "/proc/self/smaps_rollup");
	return u;
}

/* All ranks have ended the stage before any reads, and all have read before any goes on. */
static void stage_end(struct rank *r, enum stage stage)
{
	meet(r, 2 * stage);
	if (!r->threads || r->rank == 0)
		r->meeting->usage[stage][r->rank] = usage_read();
	meet(r, 2 * stage + 1);
}

static void allreduce(struct rank *r, coll_comm_t comm, size_t bytes)
{
	check(coll_allreduce(r->in, r->out, bytes / sizeof(float), COLL_FLOAT32, COLL_SUM, comm,
			     NULL));
	check(coll_sync(comm));
}

static void rank_begin(struct rank *r)
{
	r->in = bench_buffer(MEMORY_BYTES, r->rank);
	r->out = bench_buffer(MEMORY_BYTES, r->rank);
	r->comms = calloc((size_t)r->ncomms, sizeof(r->comms[0]));
	if (!r->comms)
		bench_fail("no memory", "");
	stage_end(r, START);
}

static void rank_run(struct rank *r)
{
	stage_end(r, INIT);
	allreduce(r, r->comm, 8);
	stage_end(r, SMALL);
	allreduce(r, r->comm, MEMORY_BYTES);
	stage_end(r, LARGE);
	for (int i = 0; i < r->ncomms; i++)
		check(coll_comm_dup(r->comm, &r->comms[i]));
	stage_end(r, COMMS);
	for (int i = 0; i < r->ncomms; i++)
		allreduce(r, r->comms[i], 8);
	stage_end(r, USED);
}

static void rank_free(struct rank *r)
{
	free(r->in);
	free(r->out);
	free(r->comms);
}

static void report(const struct rank *r)
{
	for (int s = 0; s < STAGES; s++) {
		struct usage sum = {0, 0, 0};

		for (int i = 0; i < (r->threads ? 1 : r->nranks); i++) {
			const struct usage *u = &r->meeting->usage[s][i];
			const struct usage *start = &r->meeting->usage[START][i];

			sum.rss += u->rss - start->rss;
			sum.pss += u->pss - start->pss;
			sum.shared += u->shared;
		}
		printf("%s %.1f %.1f %" PRId64 "\n", stage_names[s], (double)sum.rss / r->nranks,
		       (double)sum.pss / r->nranks, sum.shared);
	}
}

/* ----------------------------------------------------------------------- threads -- */

/* Rank 0 makes the communicators of all ranks: they meet before and after that. */
static void *thread_run(void *arg)
{
	struct rank *r = arg;

	rank_begin(r);
	if (r->rank == 0) {
		coll_comm_t *comms = calloc((size_t)r->nranks, sizeof(comms[0]));

		if (!comms)
			bench_fail("no memory", "");
		check(coll_comm_init_all(comms, r->nranks, NULL, NULL));
		for (int i = 0; i < r->nranks; i++)
			r[i].comm = comms[i];
		free(comms);
	}
	rank_run(r);
	return NULL;
}

static void threads_end(struct rank *ranks, int nranks)
{
	for (int r = 0; r < nranks; r++)
		pthread_join(ranks[r].thread, NULL);
	report(&ranks[0]);
	check(coll_group_start());
	for (int r = 0; r < nranks; r++) {
		for (int i = 0; i < ranks[r].ncomms; i++)
			check(coll_comm_destroy(ranks[r].comms[i]));
		check(coll_comm_destroy(ranks[r].comm));
	}
	check(coll_group_end());
}

static void threads_run(int nranks, int ncomms)
{
	static struct meeting meeting;
	struct rank *ranks = calloc((size_t)nranks, sizeof(*ranks));

	if (!ranks)
		bench_fail("no memory", "");
	for (int r = 0; r < nranks; r++) {
		ranks[r] =
			(struct rank){.rank = r, .nranks = nranks, .ncomms = ncomms, .threads = 1};
		ranks[r].meeting = &meeting;
		if (pthread_create(&ranks[r].thread, NULL, thread_run, &ranks[r]))
			bench_fail("no thread", "");
	}
	threads_end(ranks, nranks);
	for (int r = 0; r < nranks; r++)
		rank_free(&ranks[r]);
	free(ranks);
}

/* --------------------------------------------------------------------- processes -- */

/* Reads the launcher's numbers: a rank must know them before the first call of the library. */
static int number_of(const char *name)
{
	const char *text = getenv(name);

	if (!text)
		bench_fail("start this with coll run; there is no ", name);
	return atoi(text);
}

static void process_run(int ncomms)
{
	struct rank r = {.ncomms = ncomms};

	r.rank = number_of("COLL_RANK");
	r.nranks = number_of("COLL_WORLD_SIZE");
	if (r.nranks > MEMORY_RANKS || r.rank < 0 || r.rank >= r.nranks)
		bench_fail("more than 1024 ranks", "");
	r.meeting = bench_map_shared(sizeof(*r.meeting));
	rank_begin(&r);
	check(coll_comm_init_env(&r.comm, NULL));
	rank_run(&r);
	if (r.rank == 0)
		report(&r);
	for (int i = 0; i < ncomms; i++)
		check(coll_comm_destroy(r.comms[i]));
	check(coll_comm_destroy(r.comm));
	rank_free(&r);
}

int main(int argc, char **argv)
{
	if (argc == 4 && strcmp(argv[1], "-t") == 0 && atoi(argv[2]) > 0 &&
	    atoi(argv[2]) <= MEMORY_RANKS && atoi(argv[3]) > 0)
		threads_run(atoi(argv[2]), atoi(argv[3]));
	else if (argc == 2 && atoi(argv[1]) > 0)
		process_run(atoi(argv[1]));
	else
		bench_fail("usage: bench_memory [-t RANKS] COMMUNICATORS", "");
	return 0;
}
