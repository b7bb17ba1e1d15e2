/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * cable_test.c - ranks whose communicator is idle hear of a cut cable between their hosts: a rank that polls within
 * ten intervals of the option `keepalive`, a rank that makes no call at its next call.  And where a network leads
 * nowhere, the options init_timeout and timeout hold.
 *
 * The hosts are two network namespaces.  Where the test may not make them, or has no ip(8), it is skipped.
 */
#include "../lib/namespaces.h"
#include "../lib/ranks.h"

#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>

enum { HEARS_S = 40, CALL_S = 20, DARK_S = 40, NRANKS = 2 };

struct scene {
	_Atomic int ready, wired[NRANKS], up, cut; /* steps that the ranks have made */
	_Atomic int told[NRANKS],
		lost; /* lost: ranks that have given up the network that leads nowhere */
	_Atomic int skipped;
	coll_result_t code[NRANKS];
	double took[NRANKS];
	char text[NRANKS][RANKS_TEXT];
	struct {
		coll_result_t code;
		double took;
		char text[RANKS_TEXT];
	} dark[NRANKS];
};

static struct scene *scene;

static int until(_Atomic int *mark, int n, double seconds)
{
	double deadline = ranks_now() + seconds;

	while (atomic_load(mark) < n && ranks_now() < deadline)
		ranks_sleep(0.01);
	return atomic_load(mark) >= n;
}

/* A namespace with its own devices in /sys, where UCX looks for them. */
static int new_host(void)
{
	return unshare(CLONE_NEWNET | CLONE_NEWNS) ||
	       mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	       mount("none", "/sys", "sysfs", 0, NULL) || namespaces_ip("link set lo up");
}

/* A second network, where frames go to an address that nobody has. */
static int wire_nowhere(int rank)
{
	return namespaces_ip("addr add 10.84.2.%d/24 dev dark%d", rank + 1, rank) ||
	       namespaces_ip("link set dark%d up", rank) ||
	       namespaces_ip(
		       "neigh add 10.84.2.%d lladdr 02:00:00:00:00:0%d dev dark%d nud permanent",
		       2 - rank, rank + 1, rank);
}

/* Gives rank's end of the cable its address, and waits until the kernel says that the cable is in. */
static int wire(int rank)
{
	double deadline = ranks_now() + 20;
	char path[100], state[8] = "";
	int fd;

	if (namespaces_ip("addr add 10.83.2.%d/24 dev coll%d", rank + 1, rank) ||
	    namespaces_ip("link set coll%d up", rank))
		return -1;
	atomic_store(&scene->wired[rank], 1);
	snprintf(path, sizeof(path), "/sys/class/net/coll%d/operstate", rank);
	while (strncmp(state, "up", 2) && ranks_now() < deadline) {
		fd = open(path, O_RDONLY | O_CLOEXEC);
		if (fd < 0 || read(fd, state, sizeof(state) - 1) < 0)
			state[0] = '\0';
		if (fd >= 0)
			close(fd);
		ranks_sleep(0.02);
	}
	return strncmp(state, "up", 2);
}

/* ------------------------------------------------------------------------- the ranks -- */

static void prepare(int rank)
{
	setenv("UCX_TLS", "tcp,self", 1);
	setenv("COLL_UCX_KEEPALIVE", "1s", 1);
	setenv("COLL_STALL_AFTER", "0", 1);
	setenv("COLL_KEY", "cable", 1);
	setenv("COLL_WORLD_SIZE", "2", 1);
	setenv("COLL_RANK", rank ? "1" : "0", 1);
}

/* UCX's messages go where nobody answers; the ranks meet over the cable. */
static void go_nowhere(int rank)
{
	const double from = ranks_now();
	coll_comm_t comm = NULL;
	coll_config_t config;
	coll_result_t code;

	setenv("COLL_ROOT", "10.83.2.1:4712", 1);
	setenv("COLL_UCX_INTERFACE", rank ? "dark1" : "dark0", 1);
	setenv("COLL_INIT_TIMEOUT", "5s", 1);
	setenv("COLL_TIMEOUT", "5s", 1);
	ranks_config(&config, "ucx");
	code = coll_comm_init_env(&comm, &config);
	if (!code)
		code = coll_barrier(comm);
	if (!code)
		code = coll_sync(comm);
	scene->dark[rank].code = code;
	snprintf(scene->dark[rank].text, RANKS_TEXT, "%s", coll_get_last_error(NULL));
	coll_comm_destroy(comm);
	scene->dark[rank].took = ranks_now() - from;
	unsetenv("COLL_UCX_INTERFACE");
	unsetenv("COLL_INIT_TIMEOUT");
	unsetenv("COLL_TIMEOUT");
	atomic_fetch_add(&scene->lost, 1);
	until(&scene->lost, NRANKS, 200);
}

static void begin(struct rank *r)
{
	coll_config_t config;

	setenv("COLL_ROOT", "10.83.2.1:4711", 1);
	/* UCX may take either device, and the other one leads nowhere. */
	setenv("COLL_UCX_INTERFACE", r->rank ? "coll1" : "coll0", 1);
	ranks_config(&config, "ucx");
	if (rank_did(r, coll_comm_init_env(&r->comm, &config), "init"))
		sums_to(r, r->comm, 1, NRANKS, "allreduce");
	atomic_fetch_add(&scene->up, 1);
}

static void note(struct rank *r, coll_result_t code, double from)
{
	scene->code[r->rank] = code;
	scene->took[r->rank] = ranks_now() - from;
	snprintf(scene->text[r->rank], RANKS_TEXT, "%s", coll_get_last_error(NULL));
}

static void poll_errors(struct rank *r)
{
	double from = ranks_now();
	coll_result_t code = COLL_SUCCESS;

	while (!code && ranks_now() < from + HEARS_S) {
		ranks_sleep(0.02);
		if (coll_comm_get_async_error(r->comm, &code))
			code = COLL_ERR_INTERNAL;
	}
	note(r, code, from);
	if (code && coll_barrier(r->comm) == code)
		snprintf(scene->text[0], RANKS_TEXT, "%s", coll_get_last_error(NULL));
}

static void call_late(struct rank *r)
{
	int32_t x = 1, y;
	coll_result_t code;
	double from;

	until(&scene->told[0], 1, HEARS_S + 10);
	ranks_sleep(4); /* the other rank may have begun to probe earlier */
	from = ranks_now();
	code = coll_allreduce(&x, &y, 1, COLL_INT32, COLL_SUM, r->comm, NULL);
	note(r, code ? code : coll_sync(r->comm), from);
}

static void run_rank(int rank)
{
	struct rank r = {NULL, rank, NRANKS, NULL, scene->text[rank]};

	prepare(rank);
	go_nowhere(rank);
	begin(&r);
	if (!until(&scene->up, NRANKS, 60) || r.failure[0])
		exit(1);
	if (rank == 0) {
		ranks_sleep(1); /* an idle communicator has no data on its way */
		namespaces_ip("link set coll0 down");
		poll_errors(&r);
	} else {
		call_late(&r);
	}
	atomic_store(&scene->told[rank], 1);
	/* The end of a process would show: both were on one host. */
	until(&scene->told[!rank], 1, 60);
	exit(0);
}

static void rank_one(void)
{
	if (new_host())
		exit(2);
	atomic_store(&scene->ready, 1);
	if (!until(&scene->wired[0], 1, 20) || wire_nowhere(1) || wire(1))
		exit(2);
	run_rank(1);
}

/* Makes a pair of devices, the second one in the namespace of another process. */
static int link_to(pid_t other, const char *name)
{
	return namespaces_ip("link add %s0 type veth peer name %s1 netns %d", name, name,
			     (int)other);
}

/* Rank 0, in whose namespace the cable is made. */
static void rank_zero(void)
{
	pid_t other;
	int status = 0;

	if (new_host()) {
		atomic_store(&scene->skipped, 1);
		exit(0);
	}
	other = fork();
	if (other == 0)
		rank_one();
	if (other < 0 || !until(&scene->ready, 1, 20) || link_to(other, "dark") ||
	    link_to(other, "coll") || wire_nowhere(0) || wire(0)) {
		atomic_store(&scene->skipped, 1);
		if (other > 0)
			ranks_reap(other, ranks_now(), &status);
		exit(0);
	}
	run_rank(0);
}

int main(void)
{
	pid_t pid;
	int status;

	scene = ranks_memory(sizeof(*scene));
	if (!ranks_can("ucx"))
		return done_testing();
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		rank_zero();
	if (pid < 0 || !ranks_reap(pid, ranks_now() + 400, &status))
		bail_out("the ranks hang");
	if (atomic_load(&scene->skipped)) {
		skip(1, "no network namespaces with a cable between them");
		return done_testing();
	}
	for (int r = 0; r < NRANKS; r++)
		ok(scene->dark[r].code && scene->dark[r].took < DARK_S,
		   "rank %d gives up a network that leads nowhere: %d after %.1f s, %s", r,
		   scene->dark[r].code, scene->dark[r].took, scene->dark[r].text);
	ok(scene->code[0] == COLL_ERR_PEER_LOST && strstr(scene->text[0], "rank 1 was lost"),
	   "a rank that polls hears of it: %d after %.1f s, %s", scene->code[0], scene->took[0],
	   scene->text[0]);
	ok(scene->code[1] == COLL_ERR_PEER_LOST && strstr(scene->text[1], "rank 0 was lost") &&
		   scene->took[1] < CALL_S,
	   "a rank that makes no call hears of it at its next: %d after %.1f s, %s", scene->code[1],
	   scene->took[1], scene->text[1]);
	return done_testing();
}
