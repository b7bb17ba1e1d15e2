/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * traced.c - a program whose timelines trace.t reads.  traced HOW [COUNT]:
 *
 *   calls    COUNT allreduces and broadcasts, and messages around the ring
 *   late     the last rank but one sleeps 2 s before its third allreduce
 *   killed   rank 1 kills itself before its third allreduce, for which the others wait
 *   exit     ends without coll_comm_destroy
 *   again    makes a communicator after the other, and splits one
 *   threads  two threads, each with a communicator of its own
 *   closed   closes all descriptors of the library's files
 */
#include <coll/coll.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { COUNT = 1000, PATH = 256 };

static void check(coll_result_t code)
{
	if (code == COLL_SUCCESS)
		return;
	fprintf(stderr, "traced: %s\n", coll_get_last_error(NULL));
	exit(3);
}

static void add(coll_comm_t comm)
{
	float x[COUNT] = {1};

	check(coll_allreduce(x, x, COUNT, COLL_FLOAT32, COLL_SUM, comm, NULL));
	check(coll_sync(comm));
}

static void around(coll_comm_t comm, int32_t rank, int32_t size)
{
	int32_t to = (rank + 1) % size, from = (rank + size - 1) % size;
	char in[64], out[64] = "";
	coll_request_t request[2];

	check(coll_irecv(in, sizeof(in), COLL_UINT8, from, 7, comm, &request[0]));
	check(coll_isend(out, sizeof(out), COLL_UINT8, to, 7, comm, &request[1]));
	for (int i = 0; i < 2; i++) {
		check(coll_wait(request[i]));
		check(coll_request_free(request[i]));
	}
}

/* Is the text so often in the rank's timeline? */
static int has_told(int rank, const char *what, int times)
{
	char path[PATH], line[4096];
	FILE *file;

	snprintf(path, sizeof(path), "job.%d.json", rank);
	file = fopen(path, "r");
	while (file && times > 0 && fgets(line, sizeof(line), file))
		times -= strstr(line, what) != NULL;
	if (file)
		fclose(file);
	return times <= 0;
}

/* Kills the process when its file has its three calls, and the others' files have the fourth; at most after 20 s. */
static void end_at_once(int32_t size)
{
	for (int i = 0; i < 2000; i++) {
		int told = has_told(1, "\"code\":0", 3);

		for (int r = 0; r < size; r++)
			told += r != 1 && has_told(r, "\"call\",\"name\":\"allreduce\"", 3);
		if (told == size)
			break;
		usleep(10000);
	}
	raise(SIGKILL);
}

static void calls(coll_comm_t comm, int n, const char *how)
{
	char text[64] = "";
	int32_t rank, size;

	check(coll_comm_user_rank(comm, &rank));
	check(coll_comm_count(comm, &size));
	for (int i = 0; i < n; i++) {
		if (i == 2 && strcmp(how, "late") == 0 && rank == size - 2)
			sleep(2);
		if (i == 2 && strcmp(how, "killed") == 0 && rank == 1)
			end_at_once(size);
		add(comm);
		if (i % 2 == 0)
			check(coll_broadcast(text, text, sizeof(text), COLL_UINT8, 0, comm, NULL));
		if (strcmp(how, "calls") == 0)
			around(comm, rank, size);
	}
	check(coll_sync(comm));
}

/* Closes what leads to a timeline, as a program does that closes all descriptors which it does not know. */
static void close_timelines(void)
{
	char link[PATH], path[PATH];

	for (int fd = 3; fd < 1024; fd++) {
		ssize_t n;

		snprintf(link, sizeof(link), "/proc/self/fd/%d", fd);
		n = readlink(link, path, sizeof(path) - 1);
		path[n > 0 ? n : 0] = '\0';
		if (strstr(path, ".json"))
			close(fd);
	}
}

static void *run_thread(void *arg)
{
	coll_comm_t *comm = arg;

	calls(*comm, 50, "threads");
	return NULL;
}

static void threads(coll_comm_t comm)
{
	coll_comm_t two[2];
	pthread_t thread[2];

	for (int i = 0; i < 2; i++)
		check(coll_comm_dup(comm, &two[i]));
	for (int i = 0; i < 2; i++)
		pthread_create(&thread[i], NULL, run_thread, &two[i]);
	for (int i = 0; i < 2; i++) {
		pthread_join(thread[i], NULL);
		check(coll_comm_destroy(two[i]));
	}
}

static void again(coll_comm_t comm)
{
	coll_comm_t part;
	int32_t rank;

	check(coll_comm_user_rank(comm, &rank));
	check(coll_comm_split(comm, rank % 2, rank, &part, NULL));
	add(part);
	check(coll_comm_destroy(part));
}

int main(int argc, char **argv)
{
	const char *how = argc > 1 ? argv[1] : "calls";
	const int n = argc > 2 ? atoi(argv[2]) : 5, times = strcmp(how, "again") == 0 ? 2 : 1;
	coll_comm_t comm;

	if (strcmp(how, "killed") == 0)
		signal(SIGTERM, SIG_IGN);
	for (int i = 0; i < times; i++) {
		check(coll_comm_init_env(&comm, NULL));
		if (strcmp(how, "threads") == 0)
			threads(comm);
		if (strcmp(how, "again") == 0)
			again(comm);
		calls(comm, n, how);
		if (strcmp(how, "closed") == 0) {
			close_timelines();
			calls(comm, n, how);
		}
		if (strcmp(how, "exit") != 0)
			check(coll_comm_destroy(comm));
	}
	return 0;
}
