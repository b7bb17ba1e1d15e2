/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * explain_job.c - a job of which rank 1 does something wrong after five collectives, for explain.t:
 *
 *   explain_job BACKEND FAULT DIRECTORY threads|processes host|device
 *
 * late      makes its call when another rank has given up and written its file
 * absent    makes no call, and waits so
 * left      destroys its communicator
 * wrong     calls broadcast
 * stopped   is stopped (processes only)
 * killed    is killed (processes only)
 */
#include <dirent.h>
#include <signal.h>
#include "../examples/device.h"
#include "../lib/ranks.h"

enum { BEFORE = 5, COUNT = 4 };

static const char *fault, *directory;
static int on_device;
static _Atomic int *stopped; /* the pid of rank 1 */

static int has_files(void)
{
	DIR *d = opendir(directory);
	int files = 0;

	for (struct dirent *e; d && (e = readdir(d)) != NULL;)
		files += strncmp(e->d_name, "coll-", 5) == 0;
	if (d)
		closedir(d);
	return files > 0;
}

static void await_files(void)
{
	const double deadline = ranks_now() + 120;

	while (!has_files() && ranks_now() < deadline)
		ranks_sleep(0.01);
}

/* Rank 1's part.  Returns 1 if the rank makes no further call. */
static int go_wrong(struct rank *r, float *x)
{
	if (!strcmp(fault, "late") || !strcmp(fault, "absent"))
		await_files();
	if (!strcmp(fault, "stopped")) {
		atomic_store(stopped, (int)getpid());
		raise(SIGSTOP);
	}
	if (!strcmp(fault, "killed"))
		raise(SIGKILL);
	if (!strcmp(fault, "wrong") && !coll_broadcast(x, x, COUNT, COLL_FLOAT32, 0, r->comm, NULL))
		coll_sync(r->comm);
	return strcmp(fault, "late") != 0;
}

static void run(struct rank *r)
{
	float host[COUNT] = {0}, *x = host;

	if (on_device) {
		/* The other lane of the communicator has a call, too. */
		if (coll_allreduce(host, host, COUNT, COLL_FLOAT32, COLL_SUM, r->comm, NULL) ||
		    coll_sync(r->comm))
			return;
		x = device_alloc(sizeof(host));
		device_copy(x, host, sizeof(host));
	}
	for (int i = 0; i < BEFORE; i++)
		if (coll_allreduce(x, x, COUNT, COLL_FLOAT32, COLL_SUM, r->comm, NULL) ||
		    coll_sync(r->comm))
			return;
	if (r->rank == 1 && go_wrong(r, x))
		return;
	if (!coll_allreduce(x, x, COUNT, COLL_FLOAT32, COLL_SUM, r->comm, NULL))
		coll_sync(r->comm);
	if (r->rank == 0 && atomic_load(stopped))
		kill(atomic_load(stopped), SIGKILL);
	if (on_device)
		device_free(x);
}

static void run_process(const struct ranks_job *job, struct ranks_shared *shared, int rank)
{
	struct rank r = {NULL, rank, job->nranks, NULL, shared->failure[rank]};
	coll_config_t config;

	/* The nccl backend wants a device in use when the communicator is made. */
	if (on_device) {
		device_open();
		device_use(rank);
	}
	ranks_config(&config, job->backend);
	if (ranks_init(&r, shared, &config))
		run(&r);
	coll_comm_destroy(r.comm);
	exit(0);
}

static void run_processes(const struct ranks_job *job, struct ranks_shared *shared)
{
	const double deadline = ranks_now() + 120;
	pid_t pid[RANKS_MAX];

	for (int r = 0; r < job->nranks; r++) {
		pid[r] = fork();
		if (pid[r] < 0)
			bail_out("cannot start a process");
		if (!pid[r])
			run_process(job, shared, r);
	}
	for (int r = 0; r < job->nranks; r++)
		ranks_reap(pid[r], deadline, &(int){0});
}

int main(int argc, char **argv)
{
	struct ranks_shared *shared = ranks_memory(sizeof(*shared));
	struct ranks_job job = {.nranks = 3, .fn = run};

	if (argc != 6)
		bail_out("explain_job BACKEND FAULT DIRECTORY threads|processes host|device");
	job.backend = argv[1];
	fault = argv[2];
	directory = argv[3];
	on_device = !strcmp(argv[5], "device");
	stopped = ranks_memory(sizeof(*stopped));
	setenv("COLL_DUMP", directory, 1);
	if (!strcmp(argv[4], "processes"))
		run_processes(&job, shared);
	else
		ranks_run_threads(&job, shared);
	for (int r = 0; r < job.nranks; r++)
		if (shared->failure[r][0])
			fprintf(stderr, "rank %d: %s\n", r, shared->failure[r]);
	return 0;
}
