/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launchers.c - what differs between the launchers: a row for each, with the functions that it needs.
 *
 * Every launcher sets rank and size.  Only COLL_ROOT names rank 0's address.  A launcher's store, of PMIx or PMI,
 * passes it on (launch.c).  Without either the address follows from facts that all ranks share:
 * the host from the launcher, the port (20000 to 29999, below the ports that the system gives out) from the
 * identity of the job, which is also the key, so that two jobs never mix.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/descriptor.h"
#include "base/error.h"
#include "meet/launch.h"
#include "socket/address.h"

/* ------------------------------------------------------ where the ranks meet -- */

static int launch_port(const char *job)
{
	static const uint8_t label[16] = "libcoll job port";
	uint8_t hash[16];

	siphash128(label, job, strlen(job), hash);
	return 20000 + (hash[0] | hash[1] << 8 | hash[2] << 16) % 10000;
}

/* Rank 0 is on `host`, as `origin` says; `job` is the same on all its ranks and on no other job's. */
static int launch_derive(struct launch *launch, const char *host, const char *origin,
			 const char *job)
{
	int bare_ipv6 = strchr(host, ':') != NULL && host[0] != '[';

	launch->root_origin = origin;
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

static int launch_is_here(const struct launch *launch)
{
	return launch->local_nranks == launch->nranks;
}

/* An address that every host has for itself. */
static const char *launch_loopback(void)
{
	struct address_list unused;

	return address_of_interfaces("127.0.0.1", &unused) && !address_of_interfaces("::1", &unused)
		       ? "::1"
		       : "127.0.0.1";
}

/*
 * For launchers that do not say where rank 0 is: the ranks meet on this host, if all ranks are on it, or through the
 * launcher's store.
 */
static int launch_meet_here(struct launch *launch, const char *job)
{
	if (launch_is_here(launch))
		return launch_derive(launch, launch_loopback(),
				     "this host; port: a hash of the job", job);
	if (!pmi_store.is_there() && launch_get("PMI_FD"))
		return launch_ask_root(launch, "PMI_FD names no open connection to the launcher's "
					       "daemon, which knows where rank 0 is");
	if (!pmi_store.is_there())
		return launch_ask_root(launch, "on several hosts it does not say where rank 0 is");
	launch->store = &pmi_store;
	return COLL_SUCCESS;
}

/* The same, where a variable holds the identity of the job. */
static int launch_meet_job(struct launch *launch, const char *label, const char *variable)
{
	char id[201], job[256], why[100];

	snprintf(why, sizeof(why), "%s does not say which job this is", variable);
	launch_text(variable, id, sizeof(id));
	snprintf(job, sizeof(job), "%s %s", label, id);
	if (!id[0] && launch_is_here(launch))
		return launch_ask_root(launch, why);
	return launch_meet_here(launch, job);
}

static int launch_is_one(const char *name)
{
	char text[8];

	return strcmp(launch_text(name, text, sizeof(text)), "1") == 0;
}

/* ------------------------------------------------------------------ coll run -- */

static int launch_meet_coll(struct launch *launch)
{
	return error_set(COLL_ERR_CONFIG,
			 "COLL_RANK is %d and COLL_WORLD_SIZE is %d, but COLL_ROOT (host:port of "
			 "rank 0) is not set",
			 launch->rank, launch->nranks);
}

/* ------------------------------------------------------------------ torchrun -- */

/* torchrun's own store listens at MASTER_PORT, so another port is needed. */
static int launch_meet_torchrun(struct launch *launch)
{
	char host[256], port[16], run[100], restart[24], job[256];
	struct address unused;

	launch_text("MASTER_ADDR", host, sizeof(host));
	launch_text("MASTER_PORT", port, sizeof(port));
	launch_text("TORCHELASTIC_RUN_ID", run, sizeof(run));
	launch_text("TORCHELASTIC_RESTART_COUNT", restart, sizeof(restart));
	if (!host[0] || !port[0])
		return error_set(COLL_ERR_CONFIG,
				 "RANK is %d and WORLD_SIZE is %d, but %s is not set: set "
				 "MASTER_ADDR and MASTER_PORT (torchrun does), or COLL_ROOT to "
				 "host:port of rank 0",
				 launch->rank, launch->nranks,
				 !host[0] ? "MASTER_ADDR" : "MASTER_PORT");
	snprintf(job, sizeof(job), "torchrun %.100s %.8s %.80s %.20s", host, port, run, restart);
	launch_derive(
		launch, host,
		"host: MASTER_ADDR; port: a hash of MASTER_ADDR, MASTER_PORT and the run, as the "
		"launcher may use MASTER_PORT itself",
		job);
	/* A container need not know the name of its own host. */
	if (launch_is_here(launch) && address_parse(launch->root, "", &unused))
		launch_derive(launch, launch_loopback(),
			      "this host, as LOCAL_WORLD_SIZE is WORLD_SIZE; port: a hash of "
			      "MASTER_ADDR, MASTER_PORT and the run",
			      job);
	return COLL_SUCCESS;
}

/* ---------------------------------------------------------------------- PMIx -- */

/* The numbers that PMIx's library knows; without the library nobody knows them. */
static int launch_ask_pmix(struct launch *launch)
{
	char why[400];

	if (!launch_get("PMIX_NAMESPACE"))
		snprintf(why, sizeof(why), "PMIX_NAMESPACE is not set");
	else if (!pmix_store.read_job(launch))
		return COLL_SUCCESS;
	else
		snprintf(why, sizeof(why), "%.390s", error_text());
	return error_set(COLL_ERR_CONFIG,
			 "PMIX_RANK is %.40s, so a PMIx launcher has started this process, but it "
			 "cannot be asked how many ranks there are (%s): set COLL_RANK, "
			 "COLL_WORLD_SIZE and COLL_ROOT (host:port of rank 0) on all ranks, or "
			 "COLL_RANK=0 and COLL_WORLD_SIZE=1 for a process on its own",
			 launch_get("PMIX_RANK"), why);
}

static int launch_meet_pmix(struct launch *launch)
{
	launch->store = &pmix_store;
	return COLL_SUCCESS;
}

/* ------------------------------------------------------------------ Open MPI -- */

static int launch_meet_openmpi(struct launch *launch)
{
	int by_namespace = launch_get("PMIX_NAMESPACE") || !launch_get("OMPI_MCA_ess_base_jobid");

	if (pmix_store.is_there() && launch->local_nranks != launch->nranks)
		return launch_meet_pmix(launch);
	return launch_meet_job(launch, "openmpi",
			       by_namespace ? "PMIX_NAMESPACE" : "OMPI_MCA_ess_base_jobid");
}

/* ---------------------------------------------------------------------- Flux -- */

/* Flux speaks PMI as well.  An mpiexec in a task of Flux sets other numbers. */
static int launch_is_in_flux(void)
{
	return launch_get("PMI_RANK") && (!launch_same("PMI_RANK", "FLUX_TASK_RANK") ||
					  !launch_same("PMI_SIZE", "FLUX_JOB_SIZE"));
}

static int launch_count_flux(const struct launch *launch)
{
	return launch_is_one("FLUX_JOB_NNODES") ? launch->nranks : -1;
}

/* ---------------------------------------------------------------------- PALS -- */

/* PALS sets PMI_RANK and PMI_SIZE itself. */
static int launch_is_in_pals(void)
{
	return launch_get("PMI_RANK") && !launch_same("PMI_RANK", "PALS_RANKID");
}

/* --------------------------------------------------------------------- Slurm -- */

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

static int launch_slurm_host(const char *variable, char host[256])
{
	char list[4096];
	const char *p = launch_text(variable, list, sizeof(list));
	size_t n = 0;

	/* The first host of a list such as "node[03-07,9],other" or "rack[1-2]node[1-4]". */
	while (*p != '\0' && *p != ',' && n < 255) {
		const char *bracket = *p == '[' ? strchr(p, ']') : NULL;
		size_t len = bracket != NULL ? strcspn(p + 1, "-,]") : 1;

		if ((*p == '[' && bracket == NULL) || n + len > 255)
			return error_set(COLL_ERR_CONFIG,
					 "%s is '%.100s', which is not a list of hosts: set "
					 "COLL_ROOT to host:port of rank 0",
					 variable, list);
		memcpy(host + n, bracket != NULL ? p + 1 : p, len);
		n += len;
		p = (bracket != NULL ? bracket : p) + 1;
	}
	host[n] = '\0';
	return 0;
}

static int launch_meet_slurm(struct launch *launch)
{
	const int of_step = launch_get("SLURM_STEP_NODELIST") != NULL;
	const char *nodes = of_step ? "SLURM_STEP_NODELIST" : "SLURM_JOB_NODELIST";
	char host[256], job[256], id[100], step[100];
	int code = launch_slurm_host(nodes, host);

	if (code)
		return code;
	if (host[0] == '\0')
		return launch_ask_root(launch, "neither SLURM_STEP_NODELIST nor "
					       "SLURM_JOB_NODELIST says on which hosts");
	if (!launch_text("SLURM_JOB_ID", id, sizeof(id))[0])
		return launch_ask_root(launch, "SLURM_JOB_ID does not say which job this is");
	launch_text("SLURM_STEP_ID", step, sizeof(step));
	snprintf(job, sizeof(job), "slurm %s.%s", id, step[0] ? step : "0");
	if (launch_is_here(launch))
		return launch_derive(launch, launch_loopback(),
				     "this host, which has all tasks; port: a hash of the job",
				     job);
	return launch_derive(
		launch, host,
		of_step ? "host: the first of SLURM_STEP_NODELIST; port: a hash of the job"
			: "host: the first of SLURM_JOB_NODELIST; port: a hash of the job",
		job);
}

/* --------------------------------------------------------------------- MPICH -- */

/* Returns the parent of a process, with the name of the process; 0 if unknown. */
static int launch_parent(int pid, char name[32])
{
	char path[64], line[512];
	int parent = 0;
	FILE *file;

	name[0] = '\0';
	snprintf(path, sizeof(path), "/proc/%d/stat", pid);
	file = descriptor_read(path);
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

static int launch_meet_mpich(struct launch *launch)
{
	char job[64];

	snprintf(job, sizeof(job), "mpich %ld %d", (long)getuid(), launch_hydra_proxy());
	return launch_meet_here(launch, job);
}

/* ----------------------------------------------------------------- the table -- */

const struct launcher launchers[] = {
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
	 .label = "flux"},
	{.who = "PALS",
	 .rank = "PALS_RANKID",
	 .size = "PMI_SIZE",
	 .local_rank = "PALS_LOCAL_RANKID",
	 .local_size = "PALS_LOCAL_SIZE",
	 .only_if = "PALS_RANKID",
	 .job = "PALS_APID",
	 .passed_over = launch_is_in_pals,
	 .label = "pals"},
	{.who = "MPICH",
	 .rank = "PMI_RANK",
	 .size = "PMI_SIZE",
	 .local_rank = "MPI_LOCALRANKID",
	 .local_size = "MPI_LOCALNRANKS",
	 .passed_over = launch_is_srun,
	 .meet = launch_meet_mpich},
	/* mpirun_rsh: MPIRUN_ID is the number of its process, on the host from which it was started. */
	{.who = "MVAPICH",
	 .rank = "MV2_COMM_WORLD_RANK",
	 .size = "MV2_COMM_WORLD_SIZE",
	 .local_rank = "MV2_COMM_WORLD_LOCAL_RANK",
	 .local_size = "MV2_COMM_WORLD_LOCAL_SIZE",
	 .job = "MPIRUN_ID",
	 .label = "mvapich"},
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

const int launchers_count = sizeof(launchers) / sizeof(launchers[0]);

int launcher_meet(const struct launcher *launcher, struct launch *launch)
{
	return launcher->meet != NULL ? launcher->meet(launch)
				      : launch_meet_job(launch, launcher->label, launcher->job);
}
