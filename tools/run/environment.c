/* SPDX-License-Identifier: BSD-3-Clause */
/* environment.c - sets the variables of a rank. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "run/run.h"

/*
 * The variables by which libcoll knows launchers (core/meet/launchers.c).  COLL_RUN records how `coll run` left them,
 * so that libcoll sees which variables a launcher below `coll run` has set since: " NAME=value ... NAME ", where a name
 * alone is an unset variable.
 */
static const char *const environment_recorded[] = {"COLL_RANK",
						   "COLL_WORLD_SIZE",
						   "COLL_LOCAL_RANK",
						   "COLL_LOCAL_WORLD_SIZE",
						   "COLL_ROOT",
						   "COLL_KEY",
						   "RANK",
						   "WORLD_SIZE",
						   "LOCAL_RANK",
						   "LOCAL_WORLD_SIZE",
						   "MASTER_ADDR",
						   "MASTER_PORT",
						   "TORCHELASTIC_RUN_ID",
						   "OMPI_COMM_WORLD_RANK",
						   "OMPI_COMM_WORLD_SIZE",
						   "OMPI_COMM_WORLD_LOCAL_RANK",
						   "OMPI_COMM_WORLD_LOCAL_SIZE",
						   "PMIX_RANK",
						   "PMIX_NAMESPACE",
						   "FLUX_TASK_RANK",
						   "FLUX_JOB_SIZE",
						   "FLUX_TASK_LOCAL_ID",
						   "FLUX_JOB_ID",
						   "PALS_RANKID",
						   "PALS_LOCAL_RANKID",
						   "PALS_LOCAL_SIZE",
						   "PALS_APID",
						   "PMI_RANK",
						   "PMI_SIZE",
						   "MPI_LOCALRANKID",
						   "MPI_LOCALNRANKS",
						   "MV2_COMM_WORLD_RANK",
						   "MV2_COMM_WORLD_SIZE",
						   "MV2_COMM_WORLD_LOCAL_RANK",
						   "MV2_COMM_WORLD_LOCAL_SIZE",
						   "MPIRUN_ID",
						   "SLURM_PROCID",
						   "SLURM_STEP_NUM_TASKS",
						   "SLURM_NTASKS",
						   "SLURM_LOCALID",
						   "SLURM_STEP_ID",
						   "SLURM_STEPID",
						   "SLURM_JOB_ID"};

enum {
	ENVIRONMENT_RECORDED = sizeof(environment_recorded) / sizeof(environment_recorded[0]),
	ENVIRONMENT_WORD = 512 /* a longer value is not recorded */
};

static void environment_set_int(const char *name, int value)
{
	char text[16];

	snprintf(text, sizeof(text), "%d", value);
	setenv(name, text, 1);
}

/* Puts a path first or last into a list of paths. */
static void environment_add_path(const char *name, const char *path, int first)
{
	const char *old = getenv(name);
	size_t size = strlen(path) + (old ? strlen(old) : 0) + 2;
	char *whole = malloc(size);

	if (!whole)
		_exit(1);
	if (!old || !old[0])
		snprintf(whole, size, "%s", path);
	else
		snprintf(whole, size, "%s:%s", first ? path : old, first ? old : path);
	setenv(name, whole, 1);
	free(whole);
}

/* ------------------------------------------------------------------ PyTorch -- */

/* Sets a variable that the user has not set.  Values of another `coll run` above this one are not the user's. */
static void environment_offer(const char *record, const char *name, const char *value)
{
	char word[ENVIRONMENT_WORD];
	const char *old = getenv(name);

	if (old && record) {
		snprintf(word, sizeof(word), " %s=%s ", name, old);
		old = strstr(record, word) ? NULL : old;
	}
	if (!old || !old[0])
		setenv(name, value, 1);
}

/* Sets the variables of torchrun, by which a program of PyTorch knows its rank. */
static void environment_set_torch(const struct run_job *job, int r)
{
	const char *record = getenv("COLL_RUN");
	char rank[16], nranks[16];

	snprintf(rank, sizeof(rank), "%d", r);
	snprintf(nranks, sizeof(nranks), "%d", job->options->nranks);
	environment_offer(record, "RANK", rank);
	environment_offer(record, "WORLD_SIZE", nranks);
	environment_offer(record, "LOCAL_RANK", rank);
	environment_offer(record, "LOCAL_WORLD_SIZE", nranks);
	environment_offer(record, "MASTER_ADDR", "127.0.0.1");
	environment_offer(record, "MASTER_PORT", job->torch_port);
}

/* ------------------------------------------------------------------ the record -- */

/*
 * Is the variable the user's?  COLL_ROOT and COLL_KEY of the user (--env) hold for every launcher, so they are not in the
 * record.
 */
static int environment_is_users(const struct run_job *job, const char *name, const char *value)
{
	const char *own = !strcmp(name, "COLL_ROOT")  ? job->root
			  : !strcmp(name, "COLL_KEY") ? job->key
						      : NULL;

	return own && (!value || strcmp(value, own) != 0);
}

static void environment_record(const struct run_job *job)
{
	size_t size = (size_t)ENVIRONMENT_RECORDED * ENVIRONMENT_WORD, n = 1;
	char *record = malloc(size);

	if (!record)
		_exit(1);
	strcpy(record, " ");
	for (int i = 0; i < ENVIRONMENT_RECORDED; i++) {
		const char *name = environment_recorded[i], *value = getenv(name);
		const int set = value && value[0];

		if (environment_is_users(job, name, value) ||
		    (set && strlen(name) + strlen(value) >= ENVIRONMENT_WORD - 3))
			continue;
		n += (size_t)snprintf(record + n, size - n, "%s%s%s ", name, set ? "=" : "",
				      set ? value : "");
	}
	setenv("COLL_RUN", record, 1);
	free(record);
}

void run_environment(const struct run_job *job, int r)
{
	const struct run_options *o = job->options;

	environment_set_int("COLL_RANK", r);
	environment_set_int("COLL_WORLD_SIZE", o->nranks);
	environment_set_int("COLL_LOCAL_RANK", r);
	environment_set_int("COLL_LOCAL_WORLD_SIZE", o->nranks);
	setenv("COLL_ROOT", job->root, 1);
	setenv("COLL_KEY", job->key, 1);
	environment_set_torch(job, r);
	if (o->backend != NULL)
		setenv("COLL_BACKEND", o->backend, 1);
	/* All ranks are on this host, so UCX registers no memory with a network card (plugins/ucx/README.md). */
	setenv("UCX_MEM_MMAP_HOOK_MODE", "none", 0);
	for (int i = 0; i < o->env_count; i++)
		putenv(o->env[i]);
	if (job->nccl[0])
		environment_add_path("LD_LIBRARY_PATH", job->nccl, 1);
	/* An RPATH, or a path that the program opens, wins over LD_LIBRARY_PATH. */
	if (job->nccl_preload[0])
		environment_add_path("LD_PRELOAD", job->nccl_preload, 0);
	environment_record(job);
}
