/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * launch_test.c - rank, size and rendezvous address from the variables that launchers set; with the
 * arguments "as-rank N" it is one of the ranks that mpirun starts.
 */
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>
#include "meet/meet.h"
#include "meet/launch.h"
#include "base/error.h"
#include "../lib/tap.h"
#include "../lib/thread_sanitizer.h"

/* Every variable that launch.c reads. */
static const char *const variables[] = {"COLL_RANK",
					"COLL_WORLD_SIZE",
					"COLL_LOCAL_RANK",
					"COLL_ROOT",
					"COLL_KEY",
					"COLL_RUN",
					"RANK",
					"WORLD_SIZE",
					"LOCAL_RANK",
					"MASTER_ADDR",
					"MASTER_PORT",
					"TORCHELASTIC_RUN_ID",
					"TORCHELASTIC_RESTART_COUNT",
					"OMPI_COMM_WORLD_RANK",
					"OMPI_COMM_WORLD_SIZE",
					"OMPI_COMM_WORLD_LOCAL_RANK",
					"OMPI_COMM_WORLD_LOCAL_SIZE",
					"LOCAL_WORLD_SIZE",
					"COLL_LOCAL_WORLD_SIZE",
					"FLUX_TASK_RANK",
					"FLUX_JOB_SIZE",
					"FLUX_TASK_LOCAL_ID",
					"FLUX_JOB_NNODES",
					"FLUX_JOB_ID",
					"PALS_RANKID",
					"PALS_LOCAL_RANKID",
					"PALS_LOCAL_SIZE",
					"PALS_APID",
					"MV2_COMM_WORLD_RANK",
					"MV2_COMM_WORLD_SIZE",
					"MV2_COMM_WORLD_LOCAL_RANK",
					"MV2_COMM_WORLD_LOCAL_SIZE",
					"MPIRUN_ID",
					"SLURM_NODEID",
					"SLURM_STEP_NUM_NODES",
					"SLURM_TASKS_PER_NODE",
					"SLURM_STEP_TASKS_PER_NODE",
					"PMIX_RANK",
					"PMIX_NAMESPACE",
					"OMPI_MCA_ess_base_jobid",
					"PMI_RANK",
					"PMI_FD",
					"PMI_SIZE",
					"MPI_LOCALRANKID",
					"MPI_LOCALNRANKS",
					"SLURM_PROCID",
					"SLURM_NTASKS",
					"SLURM_STEP_NUM_TASKS",
					"SLURM_LOCALID",
					"SLURM_JOB_ID",
					"SLURM_STEP_ID",
					"SLURM_STEPID",
					"SLURM_STEP_NODELIST",
					"SLURM_JOB_NODELIST"};

/* Only these: "A=1 B=2". */
static void environment(const char *assignments)
{
	char text[1024], *save = NULL;

	for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++)
		unsetenv(variables[i]);
	snprintf(text, sizeof(text), "%s", assignments);
	for (char *word = strtok_r(text, " ", &save); word; word = strtok_r(NULL, " ", &save)) {
		char *equal = strchr(word, '=');

		*equal = '\0';
		setenv(word, equal + 1, 1);
	}
}

struct good {
	const char *environment, *who;
	int rank, nranks, local_rank;
	const char *host, *key; /* NULL: any */
};

static const struct good goods[] = {
	{"", "none", 0, 1, -1, "", ""},
	{"COLL_KEY=k", "none", 0, 1, -1, "", ""},
	{"COLL_RANK=0 COLL_WORLD_SIZE=1", "coll run", 0, 1, -1, "", ""},
	{"COLL_RANK=2 COLL_WORLD_SIZE=4 COLL_ROOT=a:1", "coll run", 2, 4, -1, "a:1", ""},
	{"COLL_RANK=2 COLL_WORLD_SIZE=4 COLL_LOCAL_RANK=1 COLL_ROOT=[::1]:9 COLL_KEY=k RANK=7",
	 "coll run", 2, 4, 1, "[::1]:9", "k"},
	{"RANK=1 WORLD_SIZE=2 LOCAL_RANK=0 MASTER_ADDR=h MASTER_PORT=29500", "torchrun", 1, 2, 0,
	 "h:", NULL},
	{"RANK=1 WORLD_SIZE=2 MASTER_ADDR=::1 MASTER_PORT=29500", "torchrun", 1, 2, -1,
	 "[::1]:", NULL},
	{"RANK=1 WORLD_SIZE=2 COLL_ROOT=b:2", "torchrun", 1, 2, -1, "b:2", ""},
	/* On one host no name need resolve. */
	{"RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=29500",
	 "torchrun", 1, 2, 1, "127.0.0.1:", "torchrun h 29500  "},
	{"RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 MASTER_ADDR=10.1.2.3 MASTER_PORT=29500",
	 "torchrun", 1, 2, -1, "10.1.2.3:", NULL},
	{"SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_NODEID=0 "
	 "SLURM_STEP_TASKS_PER_NODE=2 SLURM_STEP_NODELIST=a",
	 "Slurm", 1, 2, -1, "127.0.0.1:", "slurm 7.0"},
	{"SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NUM_NODES=1 "
	 "SLURM_STEP_NODELIST=a",
	 "Slurm", 1, 2, -1, "127.0.0.1:", "slurm 7.0"},
	{"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_RANK=3 "
	 "OMPI_COMM_WORLD_LOCAL_SIZE=4 PMIX_NAMESPACE=123",
	 "Open MPI", 3, 4, 3, "127.0.0.1:", "openmpi 123"},
	{"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
	 "COLL_ROOT=c:3 COLL_KEY=k",
	 "Open MPI", 3, 4, -1, "c:3", "k"},
	{"PMI_RANK=0 PMI_SIZE=2 MPI_LOCALRANKID=0 MPI_LOCALNRANKS=2", "MPICH", 0, 2, 0,
	 "127.0.0.1:", NULL},
	{"SLURM_PROCID=5 SLURM_NTASKS=8 SLURM_LOCALID=1 SLURM_JOB_ID=77 SLURM_STEP_ID=0 "
	 "SLURM_STEP_NODELIST=node[03-07,9],x",
	 "Slurm", 5, 8, 1, "node03:", "slurm 77.0"},
	{"SLURM_PROCID=5 SLURM_NTASKS=9 SLURM_STEP_NUM_TASKS=8 SLURM_JOB_ID=77 SLURM_STEP_ID=1 "
	 "SLURM_JOB_NODELIST=rack[2-3]n[10,12-14]",
	 "Slurm", 5, 8, -1, "rack2n10:", "slurm 77.1"},
	{"SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0 SLURM_STEP_NODELIST=a,b",
	 "Slurm", 1, 2, -1, "a:", NULL},
	/* Flux sets the variables of PMI too. */
	{"FLUX_TASK_RANK=3 FLUX_JOB_SIZE=4 FLUX_TASK_LOCAL_ID=1 FLUX_JOB_NNODES=2 FLUX_JOB_ID=f1 "
	 "PMI_RANK=3 PMI_SIZE=4 COLL_ROOT=a:1",
	 "Flux", 3, 4, 1, "a:1", ""},
	{"FLUX_TASK_RANK=3 FLUX_JOB_SIZE=4 FLUX_TASK_LOCAL_ID=3 FLUX_JOB_NNODES=1 FLUX_JOB_ID=f1",
	 "Flux", 3, 4, 3, "127.0.0.1:", "flux f1"},
	{"FLUX_TASK_RANK=0 FLUX_JOB_SIZE=1 FLUX_JOB_NNODES=1 FLUX_JOB_ID=f1 PMI_RANK=1 PMI_SIZE=2 "
	 "MPI_LOCALNRANKS=2",
	 "MPICH", 1, 2, -1, "127.0.0.1:", NULL},
	/* PALS gives the number of ranks in the variable of PMI only. */
	{"PALS_RANKID=1 PALS_LOCAL_RANKID=0 PALS_LOCAL_SIZE=1 PALS_APID=u PMI_RANK=1 PMI_SIZE=2 "
	 "COLL_ROOT=a:1",
	 "PALS", 1, 2, 0, "a:1", ""},
	{"PALS_RANKID=1 PALS_LOCAL_RANKID=1 PALS_LOCAL_SIZE=2 PALS_APID=u PMI_RANK=1 PMI_SIZE=2",
	 "PALS", 1, 2, 1, "127.0.0.1:", "pals u"},
	{"PALS_RANKID=0 PALS_APID=u PMI_RANK=1 PMI_SIZE=2 MPI_LOCALNRANKS=2", "MPICH", 1, 2, -1,
	 "127.0.0.1:", NULL},
	{"MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_RANK=1 "
	 "MV2_COMM_WORLD_LOCAL_SIZE=2 COLL_ROOT=a:1",
	 "MVAPICH", 1, 4, 1, "a:1", ""},
	{"MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=2 MV2_COMM_WORLD_LOCAL_SIZE=2 MPIRUN_ID=77",
	 "MVAPICH", 1, 2, -1, "127.0.0.1:", "mvapich 77"},
	{"PMIX_RANK=1 COLL_RANK=0 COLL_WORLD_SIZE=1", "coll run", 0, 1, -1, "", ""},
	/* A batch script is not a job step: a program in it is a single process. */
	{"SLURM_PROCID=0 SLURM_NTASKS=8 SLURM_JOB_ID=77 SLURM_JOB_NODELIST=n1", "none", 0, 1, -1,
	 "", ""},
	/* srun with PMI: the hosts are known; mpiexec inside an allocation: they are unknown. */
	{"PMI_RANK=1 PMI_SIZE=2 SLURM_PROCID=1 SLURM_NTASKS=2 SLURM_JOB_ID=7 SLURM_STEP_ID=0 "
	 "SLURM_STEP_NODELIST=n[1-2]",
	 "Slurm", 1, 2, -1, "n1:", "slurm 7.0"},
	{"PMI_RANK=1 PMI_SIZE=2 MPI_LOCALNRANKS=2 SLURM_PROCID=0 SLURM_NTASKS=1 SLURM_STEP_ID=0",
	 "MPICH", 1, 2, -1, "127.0.0.1:", NULL},
	{"RANK=1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1 SLURM_PROCID=0 SLURM_NTASKS=1 "
	 "SLURM_STEP_ID=0",
	 "torchrun", 1, 2, -1, "h:", NULL},
};

/* The number of ranks on this host. */
struct local {
	const char *environment;
	int nranks; /* -1: unknown */
};

static const struct local locals[] = {
	{"COLL_RANK=2 COLL_WORLD_SIZE=4 COLL_ROOT=a:1", -1},
	{"COLL_RANK=2 COLL_WORLD_SIZE=4 COLL_LOCAL_WORLD_SIZE=3 COLL_ROOT=a:1", 3},
	{"RANK=1 WORLD_SIZE=2 LOCAL_WORLD_SIZE=2 COLL_ROOT=a:1", 2},
	{"OMPI_COMM_WORLD_RANK=3 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2 "
	 "COLL_ROOT=a:1",
	 2},
	{"PMI_RANK=3 PMI_SIZE=4 MPI_LOCALNRANKS=3 COLL_ROOT=a:1", 3},
	{"FLUX_TASK_RANK=3 FLUX_JOB_SIZE=4 FLUX_JOB_NNODES=2 COLL_ROOT=a:1", -1},
	{"FLUX_TASK_RANK=3 FLUX_JOB_SIZE=4 FLUX_JOB_NNODES=1 COLL_ROOT=a:1", 4},
	{"PALS_RANKID=1 PMI_SIZE=4 PALS_LOCAL_SIZE=2 COLL_ROOT=a:1", 2},
	{"MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_SIZE=2 COLL_ROOT=a:1",
	 2},
	{"SLURM_PROCID=5 SLURM_NTASKS=13 SLURM_STEP_ID=0 SLURM_NODEID=1 "
	 "SLURM_STEP_TASKS_PER_NODE=4(x2),3,2 SLURM_TASKS_PER_NODE=9 COLL_ROOT=a:1",
	 4},
	{"SLURM_PROCID=5 SLURM_NTASKS=13 SLURM_STEP_ID=0 SLURM_NODEID=2 "
	 "SLURM_TASKS_PER_NODE=4(x2),3,2 COLL_ROOT=a:1",
	 3},
	{"SLURM_PROCID=5 SLURM_NTASKS=13 SLURM_STEP_ID=0 SLURM_NODEID=4 "
	 "SLURM_TASKS_PER_NODE=4(x2),3,2 COLL_ROOT=a:1",
	 -1},
	{"SLURM_PROCID=5 SLURM_NTASKS=13 SLURM_STEP_ID=0 SLURM_NODEID=0 SLURM_TASKS_PER_NODE=x "
	 "COLL_ROOT=a:1",
	 -1},
};

static void test_local(const struct local *l)
{
	struct launch launch;

	environment(l->environment);
	is_int(launch_detect(&launch), 0, "%s", l->environment);
	is_int(launch.local_nranks, l->nranks, "ranks on this host");
}

static void test_good(const struct good *g)
{
	struct launch l;
	const char *name = g->environment[0] ? g->environment : "nothing set";

	environment(g->environment);
	if (!is_int(launch_detect(&l), 0, "%s", name)) {
		diag("%s", error_text());
		return;
	}
	is_str(l.who, g->who, "its launcher");
	ok(l.rank == g->rank && l.nranks == g->nranks && l.local_rank == g->local_rank,
	   "rank %d of %d, local %d", l.rank, l.nranks, l.local_rank);
	ok(strncmp(l.root, g->host, strlen(g->host)) == 0 && (l.root[0] != '\0') == (l.nranks > 1),
	   "root '%s'", l.root);
	if (g->key != NULL)
		is_str(l.key, g->key, "its key");
	is_int(l.key_is_secret, l.nranks > 1 && strstr(g->environment, "COLL_KEY="),
	       "only COLL_KEY makes the key a secret");
}

/* White space around every value changes nothing: the lines of a file, and YAML's blocks, end in a newline. */
static void test_white_space(const struct good *g)
{
	struct launch plain, wide;
	char text[1024], *to = text;

	environment(g->environment);
	launch_detect(&plain);
	for (const char *from = g->environment; *from && to < text + sizeof(text) - 8; from++) {
		if (*from == ' ')
			*to++ = '\n';
		*to++ = *from;
		if (*from == '=' && from[1] != ' ')
			*to++ = '\t';
	}
	to = stpcpy(to, "\r\n") - (g->environment[0] ? 0 : 2);
	*to = '\0';
	environment(text);
	if (!is_int(launch_detect(&wide), 0, "white space around %s", g->environment))
		diag("%s", error_text());
	ok(wide.rank == plain.rank && wide.nranks == plain.nranks &&
		   wide.local_rank == plain.local_rank && wide.local_nranks == plain.local_nranks,
	   "the same numbers");
	is_str(wide.root, plain.root, "the same address");
	is_str(wide.key, plain.key, "the same key");
}

/* coll_get_launch_info: needs no rendezvous address, and knows the place of a process on its own. */
static void test_info(void)
{
	int32_t rank = -2, nranks = -2, local_rank = -2, local_nranks = -2;

	environment("");
	is_int(coll_get_launch_info(&rank, &nranks, &local_rank, &local_nranks), 0, "no launcher");
	ok(rank == 0 && nranks == 1 && local_rank == 0 && local_nranks == 1,
	   "rank 0 of 1 on its host");
	environment("COLL_RANK=5 COLL_WORLD_SIZE=8 COLL_LOCAL_RANK=1 COLL_LOCAL_WORLD_SIZE=4");
	is_int(coll_get_launch_info(&rank, &nranks, &local_rank, &local_nranks), 0,
	       "no rendezvous address");
	ok(rank == 5 && nranks == 8 && local_rank == 1 && local_nranks == 4,
	   "rank %d of %d, local rank %d of %d", rank, nranks, local_rank, local_nranks);
	environment("OMPI_COMM_WORLD_RANK=1 OMPI_COMM_WORLD_SIZE=2");
	is_int(coll_get_launch_info(NULL, NULL, &local_rank, &local_nranks), 0,
	       "a launcher that tells rank and size only");
	ok(local_rank == -1 && local_nranks == -1, "the local rank is unknown");
	is_int(coll_get_launch_info(NULL, NULL, NULL, NULL), 0, "no pointers");
	environment("RANK=1");
	rank = -2;
	is_int(coll_get_launch_info(&rank, &nranks, NULL, NULL), COLL_ERR_CONFIG, "half set");
	is_int(rank, -2, "an error writes nothing");
	environment("PMIX_RANK=1");
	is_int(coll_get_launch_info(&rank, &nranks, NULL, NULL), COLL_ERR_CONFIG,
	       "a launcher that is not understood");
	has_str(coll_get_last_error(NULL), "PMIX_RANK", "the error names its variable");
}

struct bad {
	const char *environment, *text;
};

static const struct bad bads[] = {
	{"COLL_RANK=1", "COLL_RANK is set, but COLL_WORLD_SIZE is not"},
	{"COLL_WORLD_SIZE=2", "COLL_WORLD_SIZE is set, but COLL_RANK is not"},
	{"COLL_RANK=1 COLL_WORLD_SIZE=2", "COLL_ROOT"},
	{"COLL_RANK=2 COLL_WORLD_SIZE=2 COLL_ROOT=a:1",
	 "COLL_RANK is 2, but must be less than COLL_WORLD_SIZE, which is 2"},
	{"COLL_RANK=x COLL_WORLD_SIZE=2 COLL_ROOT=a:1", "COLL_RANK is 'x'"},
	{"COLL_RANK=-1 COLL_WORLD_SIZE=2 COLL_ROOT=a:1", "COLL_RANK is '-1'"},
	{"COLL_RANK=0 COLL_WORLD_SIZE=0 COLL_ROOT=a:1", "COLL_WORLD_SIZE is '0'"},
	{"COLL_RANK=0 COLL_WORLD_SIZE=99999999999 COLL_ROOT=a:1", "COLL_WORLD_SIZE"},
	{"COLL_RANK=0 COLL_WORLD_SIZE=2x COLL_ROOT=a:1", "COLL_WORLD_SIZE is '2x'"},
	{"COLL_RANK=0 COLL_WORLD_SIZE=2 COLL_LOCAL_RANK=2 COLL_ROOT=a:1", "COLL_LOCAL_RANK"},
	{"COLL_ROOT=a:1", "COLL_ROOT is set, but no launcher's variables are"},
	{"RANK=0", "RANK is set, but WORLD_SIZE is not"},
	{"RANK=0 WORLD_SIZE=2", "MASTER_ADDR is not set"},
	{"RANK=0 WORLD_SIZE=2 MASTER_ADDR=h", "MASTER_PORT is not set"},
	{"OMPI_COMM_WORLD_RANK=0", "OMPI_COMM_WORLD_SIZE is not"},
	{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=4 OMPI_COMM_WORLD_LOCAL_SIZE=2", "COLL_ROOT"},
	{"PMI_RANK=0 PMI_SIZE=4 MPI_LOCALNRANKS=2", "COLL_ROOT"},
	{"PMI_RANK=0 PMI_SIZE=4 MPI_LOCALNRANKS=2 PMI_FD=987", "PMI_FD names no open connection"},
	{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=2",
	 "PMIX_NAMESPACE does not say which job this is"},
	{"OMPI_COMM_WORLD_RANK=0 OMPI_COMM_WORLD_SIZE=2 OMPI_COMM_WORLD_LOCAL_SIZE=3",
	 "OMPI_COMM_WORLD_LOCAL_SIZE is '3', but must be a number from 1 to 2"},
	/* Launchers that are recognised but not understood: no rank runs alone. */
	{"PMIX_RANK=1", "PMIX_RANK is 1, so a PMIx launcher has started this process"},
	{"PMIX_RANK=1", "(PMIX_NAMESPACE is not set)"},
	{"FLUX_TASK_RANK=1", "FLUX_TASK_RANK is set, but FLUX_JOB_SIZE is not"},
	{"PALS_RANKID=1", "PALS_RANKID is set, but PMI_SIZE is not"},
	{"MV2_COMM_WORLD_RANK=1", "MV2_COMM_WORLD_RANK is set, but MV2_COMM_WORLD_SIZE is not"},
	{"FLUX_TASK_RANK=1 FLUX_JOB_SIZE=4 FLUX_JOB_NNODES=2 FLUX_JOB_ID=f1",
	 "Flux has started this process as rank 1 of 4, but on several hosts it does not say where "
	 "rank 0 is: set COLL_ROOT"},
	{"FLUX_TASK_RANK=1 FLUX_JOB_SIZE=4 FLUX_JOB_NNODES=1", "FLUX_JOB_ID does not say"},
	{"PALS_RANKID=1 PMI_RANK=1 PMI_SIZE=4 PALS_LOCAL_SIZE=2 PALS_APID=u", "COLL_ROOT"},
	{"MV2_COMM_WORLD_RANK=1 MV2_COMM_WORLD_SIZE=4 MV2_COMM_WORLD_LOCAL_SIZE=2", "COLL_ROOT"},
	{"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0", "SLURM_JOB_NODELIST"},
	{"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_JOB_NODELIST=n[1",
	 "SLURM_JOB_NODELIST is 'n[1'"},
	{"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_JOB_NODELIST=n1", "SLURM_JOB_ID"},
};

static void test_bad(const struct bad *b)
{
	struct launch l;

	environment(b->environment);
	is_int(launch_detect(&l), COLL_ERR_CONFIG, "%s", b->environment);
	has_str(error_text(), b->text, "the error names what is wrong");
}

/* Two ranks of one job derive the same address; two jobs derive different ones. */
static void test_same(void)
{
	struct launch a, b, c;

	environment("RANK=0 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1 TORCHELASTIC_RUN_ID=x");
	launch_detect(&a);
	environment("RANK=1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1 TORCHELASTIC_RUN_ID=x");
	launch_detect(&b);
	environment("RANK=1 WORLD_SIZE=2 MASTER_ADDR=h MASTER_PORT=1 TORCHELASTIC_RUN_ID=y");
	launch_detect(&c);
	is_str(a.root, b.root, "ranks of one job meet at one place");
	is_str(a.key, b.key, "with one key");
	ok(strcmp(a.key, c.key) != 0, "another job has another key");
}

/* In a process of its own, which ends without the search for leaks: PMIx's library forgets four bytes here. */
static void test_no_daemon(void)
{
	int status = 0;
	pid_t child = fork();

	if (child == 0) {
		struct launch l;

		environment("PMIX_RANK=1 PMIX_NAMESPACE=nobody");
		if (launch_detect(&l) == COLL_ERR_CONFIG &&
		    (strstr(error_text(), "(PMIx: cannot reach the launcher's daemon") ||
		     strstr(error_text(), "(cannot open PMIx's library")))
			_exit(0);
		fprintf(stderr, "%s\n", error_text());
		_exit(1);
	}
	ok(child > 0 && waitpid(child, &status, 0) == child && status == 0,
	   "PMIx's variables, and no daemon of PMIx's: an error says so");
}

/* The text of an error about the root says which variables it comes from. */
static void test_origin(void)
{
	static const struct {
		const char *environment, *text;
	} cases[] = {
		{"", ""},
		{"COLL_RANK=0 COLL_WORLD_SIZE=1 COLL_ROOT=a:1", ""},
		{"COLL_RANK=0 COLL_WORLD_SIZE=2 COLL_ROOT=a:1", "COLL_ROOT"},
		{"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=7 "
		 "SLURM_JOB_NODELIST=a",
		 "host: the first of SLURM_JOB_NODELIST; port: a hash of the job"},
		{"SLURM_PROCID=0 SLURM_NTASKS=2 SLURM_STEP_ID=0 SLURM_JOB_ID=7 "
		 "SLURM_JOB_NODELIST=a,b SLURM_STEP_NODELIST=b",
		 "host: the first of SLURM_STEP_NODELIST; port: a hash of the job"},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct launch l;

		environment(cases[i].environment);
		is_int(launch_detect(&l), 0, "%s", cases[i].environment);
		is_str(l.root_origin, cases[i].text, "where its root comes from");
	}
}

static void test_long(void)
{
	struct launch l;
	char text[600];

	environment("COLL_RANK=0 COLL_WORLD_SIZE=2");
	memset(text, 'x', sizeof(text));
	text[sizeof(text) - 1] = '\0';
	setenv("COLL_ROOT", text, 1);
	is_int(launch_detect(&l), COLL_ERR_CONFIG, "a root of 599 characters");
	setenv("COLL_ROOT", "a:1", 1);
	setenv("COLL_KEY", text, 1);
	is_int(launch_detect(&l), COLL_ERR_CONFIG, "a key of 599 characters");
}

/* ---------------------------------------------------------------- real launchers -- */

static int as_rank(int nranks)
{
	struct launch l;
	struct bootstrap *bootstrap;
	int sum = 0, all[64], code = launch_detect(&l);

	/* Twice: a job may make several communicators. */
	for (int i = 0; i < 2 && code == 0; i++) {
		sum = 0;
		code = bootstrap_open_launch(&bootstrap, &l, NULL, 60000);
		if (code == 0)
			code = bootstrap_exchange(bootstrap, &l.rank, all, sizeof(int), 60000);
		for (int r = 0; code == 0 && r < nranks; r++)
			sum += all[r];
		bootstrap_close(bootstrap);
	}
	if (code == 0 && getenv("TEST_STORE") &&
	    (!l.store || strcmp(l.store->name, getenv("TEST_STORE")) != 0))
		code = error_set(COLL_ERR_INTERNAL, "the ranks did not meet through %s",
				 getenv("TEST_STORE"));
	if (code || l.nranks != nranks || sum != nranks * (nranks - 1) / 2) {
		fprintf(stderr, "rank %d of %d, sum %d: %s\n", l.rank, l.nranks, sum, error_text());
		return 1;
	}
	return 0;
}

/* `arguments` holds a launcher and its options; returns 127 if the launcher is not installed. */
static void test_launcher(const char *self, const char *launcher, const char *who)
{
	char command[8192];
	int status;

	snprintf(command, sizeof(command), "%s --version 2>/dev/null | grep -q '%s'", launcher,
		 who);
	if (system(command) != 0) {
		skip(1, "no %s that is %s", launcher, who);
		return;
	}
	environment("");
	snprintf(command, sizeof(command), "%s %s -n 3 sh -c '%s as-rank 3; exit $?' >&2", launcher,
		 strcmp(who, "Open MPI") == 0 ? "--allow-run-as-root --oversubscribe" : "", self);
	status = system(command);
	is_int(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0, "three ranks by %s", who);
}

#ifndef TESTS_THREAD_SANITIZER

/*
 * Starts a command on another host: here, under another name of the host.  mpirun calls it as it would call
 * ssh.
 */
static const char agent[] = "#!/bin/sh\n"
			    "while [ \"${1#-}\" != \"$1\" ]; do shift; done\n"
			    "host=$1\n"
			    "shift\n"
			    "exec unshare -u sh -c 'hostname \"$1\"; shift; exec sh -c \"$*\"' sh "
			    "\"$host\" \"$@\"\n";

/* A launcher with options: %1$s is the name of the agent, which Open MPI 4 and 5 take by two options. */
static const char openmpi[] =
	"TEST_STORE=PMIx timeout 100 mpirun --allow-run-as-root --mca plm_rsh_agent %1$s "
	"--mca plm_ssh_agent %1$s --host hosta:1,hostb:1,hostc:1";
static const char hydra[] =
	"TEST_STORE=PMI timeout 100 mpiexec.hydra -launcher ssh -launcher-exec %1$s "
	"-hosts hosta,hostb,hostc";

/* A launcher with one rank on each of three "hosts"; `before` comes before the program. */
static void test_hosts(const char *self, const char *launcher, const char *before, const char *name)
{
	char path[] = "/tmp/coll-launch-XXXXXX", command[8192], start[512];
	int fd, status;

	if (system(launcher == openmpi ? "mpirun --version 2>/dev/null | grep -q 'Open MPI'"
				       : "mpiexec.hydra --version 2>/dev/null | grep -q HYDRA") ||
	    system("unshare -u true 2>/dev/null && getent hosts \"$(uname -n)\" >/dev/null")) {
		skip(1,
		     "%s: no such launcher, no names for hosts, or no address of this host's name",
		     name);
		return;
	}
	fd = mkstemp(path);
	if (fd < 0 || write(fd, agent, sizeof(agent) - 1) < 0 || fchmod(fd, 0700) || close(fd))
		bail_out("cannot write %s", path);
	environment("");
	snprintf(start, sizeof(start), launcher, path);
	/* PMIx's library keeps memory until the process ends. */
	snprintf(command, sizeof(command),
		 "ASAN_OPTIONS=$ASAN_OPTIONS:detect_leaks=0 %s -n 3 sh -c '%s %s as-rank 3; exit "
		 "$?' >&2",
		 start, before, self);
	status = system(command);
	is_int(WIFEXITED(status) ? WEXITSTATUS(status) : -1, 0, "%s", name);
	unlink(path);
}

#endif

int main(int argc, char **argv)
{
	char self[4096];
	ssize_t n = readlink("/proc/self/exe", self, sizeof(self) - 1);

	if (argc == 3 && strcmp(argv[1], "as-rank") == 0)
		return as_rank(atoi(argv[2]));
	for (size_t i = 0; i < sizeof(goods) / sizeof(goods[0]); i++) {
		test_good(&goods[i]);
		test_white_space(&goods[i]);
	}
	for (size_t i = 0; i < sizeof(locals) / sizeof(locals[0]); i++)
		test_local(&locals[i]);
	for (size_t i = 0; i < sizeof(bads) / sizeof(bads[0]); i++)
		test_bad(&bads[i]);
	test_info();
	test_same();
	test_origin();
	test_long();
	test_no_daemon();
	self[n > 0 ? n : 0] = '\0';
	/* A file of another name, as libtool's wrapper would give, is no program to start. */
	if (n > 0) {
		test_launcher(self, "mpirun", "Open MPI");
		test_launcher(self, "mpiexec.hydra", "HYDRA");
#ifdef TESTS_THREAD_SANITIZER
		skip(3, "ThreadSanitizer does not see the locks of PMIx's library");
#else
		test_hosts(self, openmpi, "", "three hosts by Open MPI, which meet through PMIx");
		test_hosts(self, hydra, "", "three hosts by MPICH, which meet through PMI");
		test_hosts(self, openmpi,
			   "env -u OMPI_COMM_WORLD_RANK -u OMPI_COMM_WORLD_SIZE -u "
			   "OMPI_COMM_WORLD_LOCAL_RANK -u OMPI_COMM_WORLD_LOCAL_SIZE",
			   "three hosts by a launcher that sets PMIx's variables only");
#endif
	} else {
		skip(5, "/proc is not mounted");
	}
	return done_testing();
}
