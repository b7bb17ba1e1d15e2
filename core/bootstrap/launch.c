/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch.c - which rank this process is, as its launcher says in the environment.
 *
 * Every launcher sets rank and size; launch_root.c finds the place where the ranks meet.  COLL_ROOT and
 * COLL_KEY always win, but those of `coll run` do not hold for the ranks of a launcher below it.
 */
#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "bootstrap/launch_impl.h"
#include "bootstrap/pmix.h"
#include "base/error.h"

struct launcher {
	const char *who;
	const char *rank, *size, *size_too; /* variables; size_too replaces an unset size */
	const char *local_rank, *local_size;
	const char *only_if, *only_if_too; /* at least one must be set, unless both are NULL */
	const char *job;                   /* identifies the job; NULL: no variable does */
	/* This launcher has started another one further down in the table, which started the process. */
	int (*passed_over)(void);
	/* Asks the launcher for the numbers that no variable holds: all but the rank. */
	int (*ask)(struct launch *launch);
	/* The number of ranks on this host, where no variable holds it; -1: unknown. */
	int (*count_local)(const struct launch *launch);
	int (*meet)(struct launch *launch);
};

const char *launch_get(const char *name)
{
	const char *value = name != NULL ? secure_getenv(name) : NULL;

	while (value != NULL && isspace((unsigned char)*value))
		value++;
	return value != NULL && value[0] != '\0' ? value : NULL;
}

size_t launch_length(const char *value)
{
	size_t n = strlen(value);

	while (n > 0 && isspace((unsigned char)value[n - 1]))
		n--;
	return n;
}

const char *launch_text(const char *name, char *text, size_t size)
{
	const char *value = launch_get(name);

	snprintf(text, size, "%.*s", value != NULL ? (int)launch_length(value) : 0,
		 value != NULL ? value : "");
	return text;
}

int launch_same(const char *a, const char *b)
{
	a = launch_get(a);
	b = launch_get(b);
	return a != NULL && b != NULL && launch_length(a) == launch_length(b) &&
	       strncmp(a, b, launch_length(a)) == 0;
}

static int launch_number(const char *name, int64_t min, int64_t max, int *out)
{
	const char *text = launch_get(name);
	char *end, shown[64];
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno != 0 || end == text || end != text + launch_length(text) || value < min ||
	    value > max)
		return error_set(COLL_ERR_CONFIG,
				 "environment variable %s is '%.40s', but must be a number from "
				 "%lld to %lld",
				 name, launch_text(name, shown, sizeof(shown)), (long long)min,
				 (long long)max);
	*out = (int)value;
	return 0;
}

/* ------------------------------------------------------------------ the launchers -- */

static int launch_in_slurm_step(void)
{
	return launch_get("SLURM_STEP_ID") || launch_get("SLURM_STEPID");
}

/* srun speaks PMI as well, and sets more variables.  An mpiexec in a step sets other numbers. */
static int launch_is_srun(void)
{
	return launch_in_slurm_step() && launch_same("PMI_RANK", "SLURM_PROCID") &&
	       (launch_same("PMI_SIZE", "SLURM_STEP_NUM_TASKS") ||
		launch_same("PMI_SIZE", "SLURM_NTASKS"));
}

/* Flux speaks PMI as well.  An mpiexec in a task of Flux sets other numbers. */
static int launch_is_in_flux(void)
{
	return launch_get("PMI_RANK") && (!launch_same("PMI_RANK", "FLUX_TASK_RANK") ||
					  !launch_same("PMI_SIZE", "FLUX_JOB_SIZE"));
}

/* PALS sets PMI_RANK and PMI_SIZE itself. */
static int launch_is_in_pals(void)
{
	return launch_get("PMI_RANK") && !launch_same("PMI_RANK", "PALS_RANKID");
}

static int launch_is_one(const char *name)
{
	char text[8];

	return strcmp(launch_text(name, text, sizeof(text)), "1") == 0;
}

static int launch_count_flux(const struct launch *launch)
{
	return launch_is_one("FLUX_JOB_NNODES") ? launch->nranks : -1;
}

/* The numbers that PMIx's library knows; without the library nobody knows them. */
static int launch_ask_pmix(struct launch *launch)
{
	struct pmix_job job;
	char why[400];

	if (!launch_get("PMIX_NAMESPACE"))
		snprintf(why, sizeof(why), "PMIX_NAMESPACE is not set");
	else if (!pmix_read_job(&job)) {
		launch->nranks = job.nranks;
		launch->local_rank = job.local_rank;
		launch->local_nranks = job.local_nranks;
		return COLL_SUCCESS;
	} else
		snprintf(why, sizeof(why), "%.390s", error_text());
	return error_set(COLL_ERR_CONFIG,
			 "PMIX_RANK is %.40s, so a PMIx launcher has started this process, but it "
			 "cannot be asked how many ranks there are (%s): set COLL_RANK, "
			 "COLL_WORLD_SIZE and COLL_ROOT (host:port of rank 0) on all ranks, or "
			 "COLL_RANK=0 and COLL_WORLD_SIZE=1 for a process on its own",
			 launch_get("PMIX_RANK"), why);
}

/* The entry of this node in a list such as "4(x2),3": number of tasks (times number of nodes). */
static int launch_count_slurm(const struct launch *launch)
{
	const char *step = launch_get("SLURM_STEP_TASKS_PER_NODE");
	const char *p = step != NULL ? step : launch_get("SLURM_TASKS_PER_NODE");
	const char *node = launch_get("SLURM_NODEID");
	long at = node != NULL ? strtol(node, NULL, 10) : -1;

	if (launch_is_one("SLURM_STEP_NUM_NODES"))
		return launch->nranks;
	while (p != NULL && at >= 0) {
		char *end;
		long tasks = strtol(p, &end, 10), nodes = 1;

		if (end == p)
			break;
		if (strncmp(end, "(x", 2) == 0)
			nodes = strtol(end + 2, &end, 10);
		if (at < nodes)
			return tasks > 0 && tasks <= launch->nranks ? (int)tasks : -1;
		at -= nodes;
		p = strchr(end, ',') != NULL ? strchr(end, ',') + 1 : NULL;
	}
	return -1;
}

/*
 * The first launcher that applies counts.  A launcher further down may have started it.  The first launcher of the table
 * is `coll run`, which records how it left the variables of the others.
 */
static const struct launcher launchers[] = {
	{.who = "coll run",
	 .rank = "COLL_RANK",
	 .size = "COLL_WORLD_SIZE",
	 .local_rank = "COLL_LOCAL_RANK",
	 .local_size = "COLL_LOCAL_WORLD_SIZE",
	 .meet = launch_meet_coll},
	{.who = "torchrun",
	 .rank = "RANK",
	 .size = "WORLD_SIZE",
	 .local_rank = "LOCAL_RANK",
	 .local_size = "LOCAL_WORLD_SIZE",
	 .job = "TORCHELASTIC_RUN_ID",
	 .meet = launch_meet_torchrun},
	{.who = "Open MPI",
	 .rank = "OMPI_COMM_WORLD_RANK",
	 .size = "OMPI_COMM_WORLD_SIZE",
	 .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
	 .local_size = "OMPI_COMM_WORLD_LOCAL_SIZE",
	 .job = "PMIX_NAMESPACE",
	 .meet = launch_meet_openmpi},
	{.who = "Flux",
	 .rank = "FLUX_TASK_RANK",
	 .size = "FLUX_JOB_SIZE",
	 .local_rank = "FLUX_TASK_LOCAL_ID",
	 .only_if = "FLUX_TASK_RANK",
	 .job = "FLUX_JOB_ID",
	 .passed_over = launch_is_in_flux,
	 .count_local = launch_count_flux,
	 .meet = launch_meet_flux},
	{.who = "PALS",
	 .rank = "PALS_RANKID",
	 .size = "PMI_SIZE",
	 .local_rank = "PALS_LOCAL_RANKID",
	 .local_size = "PALS_LOCAL_SIZE",
	 .only_if = "PALS_RANKID",
	 .job = "PALS_APID",
	 .passed_over = launch_is_in_pals,
	 .meet = launch_meet_pals},
	{.who = "MPICH",
	 .rank = "PMI_RANK",
	 .size = "PMI_SIZE",
	 .local_rank = "MPI_LOCALRANKID",
	 .local_size = "MPI_LOCALNRANKS",
	 .passed_over = launch_is_srun,
	 .meet = launch_meet_mpich},
	{.who = "MVAPICH",
	 .rank = "MV2_COMM_WORLD_RANK",
	 .size = "MV2_COMM_WORLD_SIZE",
	 .local_rank = "MV2_COMM_WORLD_LOCAL_RANK",
	 .local_size = "MV2_COMM_WORLD_LOCAL_SIZE",
	 .job = "MPIRUN_ID",
	 .meet = launch_meet_mvapich},
	/*
	 * Slurm sets the variables in batch scripts and shells of an allocation too, but only a step has
	 * ranks.
	 */
	{.who = "Slurm",
	 .rank = "SLURM_PROCID",
	 .size = "SLURM_STEP_NUM_TASKS",
	 .size_too = "SLURM_NTASKS",
	 .local_rank = "SLURM_LOCALID",
	 .only_if = "SLURM_STEP_ID",
	 .only_if_too = "SLURM_STEPID",
	 .job = "SLURM_JOB_ID",
	 .count_local = launch_count_slurm,
	 .meet = launch_meet_slurm},
	/* prterun, and every other launcher that speaks PMIx. */
	{.who = "PMIx",
	 .rank = "PMIX_RANK",
	 .job = "PMIX_NAMESPACE",
	 .ask = launch_ask_pmix,
	 .meet = launch_meet_pmix},
};

enum { LAUNCHERS = sizeof(launchers) / sizeof(launchers[0]) };

static int launch_applies(const struct launcher *l)
{
	if (l->only_if != NULL && !launch_get(l->only_if) && !launch_get(l->only_if_too))
		return 0;
	if (l->passed_over != NULL && l->passed_over())
		return 0;
	return launch_get(l->rank) || launch_get(l->size);
}

/* Has this launcher started the process below `coll run`? */
static int launch_is_below(const struct launcher *l)
{
	return launch_is_newer(l->rank) || launch_is_newer(l->size) ||
	       launch_is_newer(l->size_too) || launch_is_newer(l->local_rank) ||
	       launch_is_newer(l->local_size) || launch_is_newer(l->only_if) ||
	       launch_is_newer(l->only_if_too) || launch_is_newer(l->job);
}

/* COLL_ROOT or COLL_KEY, unless it is of `coll run` and the launcher is below. */
static const char *launch_get_for(const struct launcher *l, const char *name)
{
	return l != launchers && launch_is_left(name) ? NULL : launch_get(name);
}

/* Reads, or asks for, the number of ranks; *size becomes its name for messages. */
static int launch_read_size(const struct launcher *l, struct launch *launch, const char **size)
{
	*size = launch_get(l->size) || l->size_too == NULL ? l->size : l->size_too;
	if (l->ask != NULL) {
		*size = "the number of ranks";
		return l->ask(launch);
	}
	if (!launch_get(l->rank) || !launch_get(*size))
		return error_set(COLL_ERR_CONFIG,
				 "environment variable %s is set, but %s is not: set both, or "
				 "neither (%s sets both)",
				 launch_get(*size) ? *size : l->rank,
				 launch_get(*size) ? l->rank : *size, l->who);
	return launch_number(*size, 1, INT32_MAX, &launch->nranks);
}

static int launch_read_ranks(const struct launcher *l, struct launch *launch)
{
	const char *size;
	int code = launch_read_size(l, launch, &size);

	if (code == 0)
		code = launch_number(l->rank, 0, INT32_MAX, &launch->rank);
	if (code == 0 && launch->rank >= launch->nranks)
		code = error_set(COLL_ERR_CONFIG,
				 "environment variable %s is %d, but must be less than %s, which "
				 "is %d",
				 l->rank, launch->rank, size, launch->nranks);
	if (code == 0 && launch_get(l->local_rank))
		code = launch_number(l->local_rank, 0, launch->nranks - 1, &launch->local_rank);
	if (code == 0 && launch_get(l->local_size))
		code = launch_number(l->local_size, 1, launch->nranks, &launch->local_nranks);
	if (code == 0 && l->count_local != NULL)
		launch->local_nranks = l->count_local(launch);
	return code;
}

static int launch_find_root(const struct launcher *l, struct launch *launch)
{
	const char *root = launch_get_for(l, "COLL_ROOT"), *key = launch_get_for(l, "COLL_KEY");
	int code = 0;

	if (root != NULL && launch_length(root) >= sizeof(launch->root))
		return error_set(COLL_ERR_CONFIG, "COLL_ROOT is longer than %zu characters",
				 sizeof(launch->root) - 1);
	if (key != NULL && launch_length(key) >= sizeof(launch->key))
		return error_set(COLL_ERR_CONFIG, "COLL_KEY is longer than %zu characters",
				 sizeof(launch->key) - 1);
	if (launch->nranks == 1)
		return 0;
	launch->root_origin = "COLL_ROOT";
	if (root != NULL)
		launch_text("COLL_ROOT", launch->root, sizeof(launch->root));
	else
		code = l->meet(launch);
	if (key != NULL)
		launch_text("COLL_KEY", launch->key, sizeof(launch->key));
	launch->key_is_secret = key != NULL;
	return code;
}

/* No launcher that is understood has started this process. */
static int launch_alone(void)
{
	if (launch_get("COLL_ROOT"))
		return error_set(COLL_ERR_CONFIG,
				 "COLL_ROOT is set, but no launcher's variables are: set COLL_RANK "
				 "and COLL_WORLD_SIZE too");
	return 0;
}

/* Are the variables of this launcher for this process, and not for `coll run` above it? */
static int launch_counts(const struct launcher *l)
{
	return launch_applies(l) && (!launch_is_below_run() || launch_is_below(l));
}

/* The launcher that has started this process; NULL: none. */
static const struct launcher *launch_find(void)
{
	for (const struct launcher *l = launchers; l < launchers + LAUNCHERS; l++)
		if (launch_counts(l))
			return l;
	/* No launcher below `coll run`.  The launchers above it do not count. */
	return launch_is_below_run() && launch_applies(launchers) ? launchers : NULL;
}

/* Reads the numbers that a launcher's variables have; 0: they are no numbers, or there is no rank. */
static int launch_numbers(const struct launcher *l, const char *size, struct launch *found)
{
	return launch_get(l->rank) && launch_number(l->rank, 0, INT32_MAX, &found->rank) == 0 &&
	       (size == NULL || launch_number(size, 1, INT32_MAX, &found->nranks) == 0);
}

/* "torchrun's RANK and WORLD_SIZE say rank 0 of 2"; *found: these numbers.  0: they are none. */
static int launch_describe(const struct launcher *l, struct launch *found, char *text, size_t size)
{
	const char *of = launch_get(l->size)       ? l->size
			 : launch_get(l->size_too) ? l->size_too
						   : NULL;

	if (!launch_numbers(l, of, found))
		return 0;
	snprintf(text, size, "%s's %s%s%s say rank %d of %d", l->who, l->rank, of ? " and " : "",
		 of ? of : "", found->rank, found->nranks);
	return 1;
}

int launch_disagrees(const struct launch *launch, char *text, size_t size)
{
	const struct launcher *first = launch_find();
	struct launch one = *launch, other = *launch;
	char says[150], says_else[150];

	if (first == NULL || !launch_describe(first, &one, says, sizeof(says)))
		return 0;
	for (const struct launcher *l = first + 1; l < launchers + LAUNCHERS; l++) {
		if (!launch_counts(l) ||
		    !launch_describe(l, &other, says_else, sizeof(says_else)) ||
		    (other.rank == one.rank && other.nranks == one.nranks))
			continue;
		snprintf(text, size, "; two launchers disagree: %s, which counts, but %s", says,
			 says_else);
		return 1;
	}
	return 0;
}

int launch_detect_ranks(struct launch *launch)
{
	const struct launcher *l = launch_find();

	memset(launch, 0, sizeof(*launch));
	launch->nranks = 1;
	launch->root_origin = "";
	launch->local_rank = launch->local_nranks = -1;
	launch->who = l != NULL ? l->who : "none";
	return l != NULL ? launch_read_ranks(l, launch) : launch_alone();
}

int launch_detect(struct launch *launch)
{
	const struct launcher *l = launch_find();
	int code = launch_detect_ranks(launch);

	return code || l == NULL ? code : launch_find_root(l, launch);
}
