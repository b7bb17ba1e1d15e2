/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch.c - which rank this process is, as its launcher says in the environment.
 *
 * Every launcher sets rank and size.  Only COLL_ROOT names rank 0's address; without it the address follows
 * from facts that all ranks share: the host from the launcher, the port (20000 to 29999, below the ports
 * that the system gives out) from the identity of the job, which is also the key, so that two jobs never
 * mix.  COLL_ROOT and COLL_KEY always win.
 */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include "bootstrap/bootstrap.h"
#include "base/error.h"

struct launcher {
	const char *who;
	const char *rank, *size, *size_too; /* variables; size_too replaces an unset size */
	const char *local_rank;
	const char *only_if, *only_if_too; /* at least one must be set, unless both are NULL */
	int (*meet)(struct launch *launch);
};

/* An empty variable counts as unset. */
static const char *launch_get(const char *name)
{
	const char *value = name != NULL ? secure_getenv(name) : NULL;

	return value != NULL && value[0] != '\0' ? value : NULL;
}

static int launch_number(const char *name, int64_t min, int64_t max, int *out)
{
	const char *text = launch_get(name);
	char *end;
	long long value;

	errno = 0;
	value = strtoll(text, &end, 10);
	if (errno != 0 || end == text || *end != '\0' || value < min || value > max)
		return error_set(COLL_ERR_CONFIG,
				 "environment variable %s is '%.40s', but must be a number from "
				 "%lld to %lld",
				 name, text, (long long)min, (long long)max);
	*out = (int)value;
	return 0;
}

/* ------------------------------------------------------------- the rendezvous -- */

static int launch_port(const char *job)
{
	static const uint8_t label[16] = "libcoll job port";
	uint8_t hash[16];

	siphash128(label, job, strlen(job), hash);
	return 20000 + (hash[0] | hash[1] << 8 | hash[2] << 16) % 10000;
}

/* Rank 0 is on `host`; `job` is the same on all its ranks and on no other job's. */
static int launch_derive(struct launch *launch, const char *host, const char *job)
{
	int bare_ipv6 = strchr(host, ':') != NULL && host[0] != '[';

	snprintf(launch->key, sizeof(launch->key), "%s", job);
	snprintf(launch->root, sizeof(launch->root), "%s%.200s%s:%d", bare_ipv6 ? "[" : "", host,
		 bare_ipv6 ? "]" : "", launch_port(job));
	return 0;
}

static int launch_ask_root(const struct launch *launch, const char *why)
{
	return error_set(COLL_ERR_CONFIG,
			 "%s has started this process as rank %d of %d, but %s: set COLL_ROOT to "
			 "host:port of rank 0 on all ranks",
			 launch->who, launch->rank, launch->nranks, why);
}

static int launch_meet_coll(struct launch *launch)
{
	return error_set(COLL_ERR_CONFIG,
			 "COLL_RANK is %d and COLL_WORLD_SIZE is %d, but COLL_ROOT (host:port of "
			 "rank 0) is not set",
			 launch->rank, launch->nranks);
}

/* torchrun's own store listens at MASTER_PORT, so another port is needed. */
static int launch_meet_torchrun(struct launch *launch)
{
	const char *host = launch_get("MASTER_ADDR"), *port = launch_get("MASTER_PORT");
	const char *run = launch_get("TORCHELASTIC_RUN_ID");
	const char *restart = launch_get("TORCHELASTIC_RESTART_COUNT");
	char job[256];

	if (host == NULL || port == NULL)
		return error_set(COLL_ERR_CONFIG,
				 "RANK is %d and WORLD_SIZE is %d, but %s is not set: set "
				 "MASTER_ADDR and MASTER_PORT (torchrun does), or COLL_ROOT to "
				 "host:port of rank 0",
				 launch->rank, launch->nranks,
				 host == NULL ? "MASTER_ADDR" : "MASTER_PORT");
	snprintf(job, sizeof(job), "torchrun %.100s %.8s %.80s %.20s", host, port, run ? run : "",
		 restart ? restart : "");
	return launch_derive(launch, host, job);
}

/* Returns 1 if all ranks run on this host, by the launcher's number of local ranks. */
static int launch_one_host(const struct launch *launch, const char *local_size)
{
	const char *text = launch_get(local_size);

	return text != NULL && atoi(text) == launch->nranks;
}

static int launch_meet_openmpi(struct launch *launch)
{
	const char *id = launch_get("PMIX_NAMESPACE");
	char job[256];

	if (!launch_one_host(launch, "OMPI_COMM_WORLD_LOCAL_SIZE"))
		return launch_ask_root(launch, "on several hosts it does not say where rank 0 is");
	if (id == NULL)
		id = launch_get("OMPI_MCA_ess_base_jobid");
	if (id == NULL)
		return launch_ask_root(launch, "PMIX_NAMESPACE does not say which job this is");
	snprintf(job, sizeof(job), "openmpi %.200s", id);
	return launch_derive(launch, "127.0.0.1", job);
}

/* Returns the parent of a process, with the name of the process; 0 if unknown. */
static int launch_parent(int pid, char name[32])
{
	char path[64], line[512];
	int parent = 0;
	FILE *file;

	name[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = fopen(path, "re");
	if (file == NULL)
		return 0;
	if (fgets(line, sizeof(line), file) != NULL) { /* the line: 42 (name) S 41 ... */
		char *open = strchr(line, '('), *close = strrchr(line, ')');

		if (open != NULL && close != NULL && sscanf(close, ") %*c %d", &parent) == 1)
			snprintf(name, 32, "%.*s", (int)(close - open - 1), open + 1);
	}
	fclose(file);
	return parent;
}

/* All ranks of a host descend from one hydra_pmi_proxy; shells may be in between. */
static int launch_hydra_proxy(void)
{
	int pid = (int)getppid();

	for (int i = 0; i < 16 && pid > 1; i++) {
		char name[32];
		int parent = launch_parent(pid, name);

		if (strncmp(name, "hydra_pmi_proxy", 15) == 0)
			return pid;
		pid = parent;
	}
	return (int)getppid();
}

static int launch_slurm_host(const char *variable, char host[256])
{
	const char *p = launch_get(variable);
	size_t n = 0;

	/* The first host of a list such as "node[03-07,9],other" or "rack[1-2]node[1-4]". */
	while (p != NULL && *p != '\0' && *p != ',' && n < 255) {
		const char *bracket = *p == '[' ? strchr(p, ']') : NULL;
		size_t len = bracket != NULL ? strcspn(p + 1, "-,]") : 1;

		if ((*p == '[' && bracket == NULL) || n + len > 255)
			return error_set(COLL_ERR_CONFIG,
					 "%s is '%.100s', which is not a list of hosts: set "
					 "COLL_ROOT to host:port of rank 0",
					 variable, launch_get(variable));
		memcpy(host + n, bracket != NULL ? p + 1 : p, len);
		n += len;
		p = (bracket != NULL ? bracket : p) + 1;
	}
	host[n] = '\0';
	return 0;
}

static int launch_meet_slurm(struct launch *launch)
{
	const char *nodes =
		launch_get("SLURM_STEP_NODELIST") ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
	const char *id = launch_get("SLURM_JOB_ID"), *step = launch_get("SLURM_STEP_ID");
	char host[256], job[256];
	int code = launch_slurm_host(nodes, host);

	if (code)
		return code;
	if (host[0] == '\0')
		return launch_ask_root(launch, "neither SLURM_STEP_NODELIST nor "
					       "SLURM_JOB_NODELIST says on which hosts");
	if (id == NULL)
		return launch_ask_root(launch, "SLURM_JOB_ID does not say which job this is");
	snprintf(job, sizeof(job), "slurm %.100s.%.100s", id, step ? step : "0");
	return launch_derive(launch, host, job);
}

/* Are two variables set and equal? */
static int launch_same(const char *a, const char *b)
{
	a = launch_get(a);
	b = launch_get(b);
	return a != NULL && b != NULL && strcmp(a, b) == 0;
}

static int launch_meet_mpich(struct launch *launch)
{
	char job[64];

	/* srun speaks PMI as well, and sets more variables. */
	if (launch_same("PMI_RANK", "SLURM_PROCID") &&
	    (launch_same("PMI_SIZE", "SLURM_STEP_NUM_TASKS") ||
	     launch_same("PMI_SIZE", "SLURM_NTASKS"))) {
		launch->who = "Slurm";
		return launch_meet_slurm(launch);
	}
	if (!launch_one_host(launch, "MPI_LOCALNRANKS"))
		return launch_ask_root(launch, "on several hosts it does not say where rank 0 is");
	snprintf(job, sizeof(job), "mpich %ld %d", (long)getuid(), launch_hydra_proxy());
	return launch_derive(launch, "127.0.0.1", job);
}

/* ------------------------------------------------------------------ the launchers -- */

/* The first launcher that applies counts.  A launcher further down may have started it. */
static const struct launcher launchers[] = {
	{.who = "coll run",
	 .rank = "COLL_RANK",
	 .size = "COLL_WORLD_SIZE",
	 .local_rank = "COLL_LOCAL_RANK",
	 .meet = launch_meet_coll},
	{.who = "torchrun",
	 .rank = "RANK",
	 .size = "WORLD_SIZE",
	 .local_rank = "LOCAL_RANK",
	 .meet = launch_meet_torchrun},
	{.who = "Open MPI",
	 .rank = "OMPI_COMM_WORLD_RANK",
	 .size = "OMPI_COMM_WORLD_SIZE",
	 .local_rank = "OMPI_COMM_WORLD_LOCAL_RANK",
	 .meet = launch_meet_openmpi},
	{.who = "MPICH",
	 .rank = "PMI_RANK",
	 .size = "PMI_SIZE",
	 .local_rank = "MPI_LOCALRANKID",
	 .meet = launch_meet_mpich},
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
	 .meet = launch_meet_slurm},
};

static int launch_applies(const struct launcher *l)
{
	if (l->only_if != NULL && !launch_get(l->only_if) && !launch_get(l->only_if_too))
		return 0;
	return launch_get(l->rank) || launch_get(l->size);
}

static int launch_read_ranks(const struct launcher *l, struct launch *launch)
{
	const char *size = launch_get(l->size) || l->size_too == NULL ? l->size : l->size_too;
	int code;

	if (!launch_get(l->rank) || !launch_get(size))
		return error_set(COLL_ERR_CONFIG,
				 "environment variable %s is set, but %s is not: set both, or "
				 "neither (%s sets both)",
				 launch_get(size) ? size : l->rank,
				 launch_get(size) ? l->rank : size, l->who);
	code = launch_number(size, 1, INT32_MAX, &launch->nranks);
	if (code == 0)
		code = launch_number(l->rank, 0, INT32_MAX, &launch->rank);
	if (code == 0 && launch->rank >= launch->nranks)
		code = error_set(COLL_ERR_CONFIG,
				 "environment variable %s is %d, but must be less than %s, which "
				 "is %d",
				 l->rank, launch->rank, size, launch->nranks);
	if (code == 0 && launch_get(l->local_rank))
		code = launch_number(l->local_rank, 0, launch->nranks - 1, &launch->local_rank);
	return code;
}

static int launch_find_root(const struct launcher *l, struct launch *launch)
{
	const char *root = launch_get("COLL_ROOT"), *key = launch_get("COLL_KEY");
	int code = 0;

	if (root != NULL && strlen(root) >= sizeof(launch->root))
		return error_set(COLL_ERR_CONFIG, "COLL_ROOT is longer than %zu characters",
				 sizeof(launch->root) - 1);
	if (key != NULL && strlen(key) >= sizeof(launch->key))
		return error_set(COLL_ERR_CONFIG, "COLL_KEY is longer than %zu characters",
				 sizeof(launch->key) - 1);
	if (launch->nranks == 1)
		return 0;
	if (root != NULL)
		strcpy(launch->root, root);
	else
		code = l->meet(launch);
	if (key != NULL)
		strcpy(launch->key, key);
	return code;
}

int launch_detect(struct launch *launch)
{
	int code;

	memset(launch, 0, sizeof(*launch));
	launch->nranks = 1;
	launch->local_rank = -1;
	launch->who = "none";
	for (size_t i = 0; i < sizeof(launchers) / sizeof(launchers[0]); i++) {
		if (!launch_applies(&launchers[i]))
			continue;
		launch->who = launchers[i].who;
		code = launch_read_ranks(&launchers[i], launch);
		return code ? code : launch_find_root(&launchers[i], launch);
	}
	if (launch_get("COLL_ROOT"))
		return error_set(COLL_ERR_CONFIG,
				 "COLL_ROOT is set, but no launcher's variables are: set COLL_RANK "
				 "and COLL_WORLD_SIZE too");
	return 0;
}
