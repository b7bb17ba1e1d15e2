/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * multipath_test.c - the option tcp.multipath: two ranks on two links use both, go on with right results while a link is cut
 * in the middle of their calls, and take the link again that comes back.  A rank without the option gets TCP.
 *
 * The hosts are two network namespaces.  Where the test may not make them, has no ip(8) that knows Multipath TCP, or the
 * kernel has none, it is skipped.
 */
#include "../lib/namespaces.h"
#include "../lib/ranks.h"

#include <coll/introspect.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sched.h>
#include <sys/socket.h>

enum { NRANKS = 2, COUNT = 64 << 10, WAIT_S = 100 };

/* The numbers of Linux' <linux/mptcp.h>. */
enum { PROTOCOL = 262, SOL = 284, INFO = 1, EXTRA_PATHS = 0, ALL_PATHS = 80, DESCRIPTORS = 256 };

struct scene {
	_Atomic int ready, wired, sets, skipped; /* steps that the ranks have made */
	_Atomic int meet[8];
	int paths[NRANKS]; /* where one rank has no multipath */
	char failure[NRANKS][RANKS_TEXT];
	char log[NRANKS][4000];
};

static struct scene *scene;

static int until(_Atomic int *mark, int n)
{
	double deadline = ranks_now() + WAIT_S;

	while (atomic_load(mark) < n && !atomic_load(&scene->skipped) && ranks_now() < deadline)
		ranks_sleep(0.01);
	return atomic_load(mark) >= n;
}

/* Returns 0, or the errno for which the kernel refuses Multipath TCP, in this namespace. */
static int refused(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, PROTOCOL), one = 1, code = 0;

	/* Linux 5.17 is the first that takes this option. */
	if (fd < 0 || setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one)))
		code = errno;
	if (fd >= 0)
		close(fd);
	return code;
}

static int add_endpoint(int rank, int link)
{
	return namespaces_ip("mptcp endpoint add 10.8%d.3.%d dev path%d%d signal", link, rank + 1,
			     link, rank);
}

/* Gives the rank's ends of both links their addresses, and the kernel the endpoints for further paths. */
static int wire(int rank)
{
	int failed = namespaces_ip("mptcp limits set subflows 4 add_addr_accepted 4");

	for (int link = 0; link < 2 && !failed; link++)
		failed = namespaces_ip("addr add 10.8%d.3.%d/24 dev path%d%d", link, rank + 1, link,
				       rank) ||
			 namespaces_ip("link set path%d%d up", link, rank) ||
			 add_endpoint(rank, link);
	return failed;
}

/* ------------------------------------------------------------------------ the calls -- */

/* The paths of this process' connection, by the kernel's word; 0: it is TCP. */
static int count_paths(void)
{
	for (int fd = 0; fd < DESCRIPTORS; fd++) {
		unsigned char info[128] = {0};
		socklen_t size = sizeof(info), listens_size = sizeof(int);
		int listens = 1;

		if (getsockopt(fd, SOL, INFO, info, &size) ||
		    getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listens, &listens_size) || listens)
			continue;
		return size > ALL_PATHS ? info[ALL_PATHS] : info[EXTRA_PATHS] + 1;
	}
	return 0;
}

/* One allreduce with a right result.  Returns the sum of `word` over the ranks, -1 on a failure. */
static int call(struct rank *r, int word)
{
	static int32_t in[COUNT], out[COUNT];
	coll_result_t code;

	for (int i = 1; i < COUNT; i++)
		in[i] = i + r->rank;
	in[0] = word;
	code = coll_allreduce(in, out, COUNT, COLL_INT32, COLL_SUM, r->comm, NULL);
	if (!rank_did(r, code ? code : coll_sync(r->comm), "allreduce"))
		return -1;
	for (int i = 1; i < COUNT; i++)
		if (out[i] != 2 * i + 1)
			return rank_fail(r, "element %d is %d", i, (int)out[i]) - 1;
	return out[0];
}

/* Calls until the connections of both ranks have so many paths. */
static int call_until(struct rank *r, int paths)
{
	double deadline = ranks_now() + WAIT_S;
	int there;

	do
		there = call(r, count_paths() == paths);
	while (there >= 0 && there < NRANKS && ranks_now() < deadline);
	return there == NRANKS || rank_fail(r, "%d paths, not %d", count_paths(), paths);
}

static int call_often(struct rank *r, int n)
{
	for (int i = 0; i < n; i++)
		if (call(r, 0) < 0)
			return 0;
	return 1;
}

/* Rank 0 has this done by another process, while and after which the ranks call. */
static int call_meanwhile(struct rank *r, int (*fn)(void))
{
	int there, status = 0, over = r->rank != 0;
	pid_t pid = r->rank == 0 ? fork() : -1;

	if (pid == 0)
		_exit(fn() != 0);
	do {
		if (!over && waitpid(pid, &status, WNOHANG) == pid)
			over = 1;
		there = call(r, over);
	} while (there >= 0 && there < NRANKS);
	if (status)
		rank_fail(r, "ip(8) failed");
	return there == NRANKS && call_often(r, 100);
}

static int cut_second(void)
{
	return namespaces_ip("mptcp endpoint delete id 2") || namespaces_ip("link set path10 down");
}

static int mend_second(void)
{
	return namespaces_ip("link set path10 up") || add_endpoint(0, 1);
}

static int cut_first(void)
{
	return namespaces_ip("link set path00 down");
}

/* ------------------------------------------------------------------------ the ranks -- */

/* Returns 0 if the build has no encryption, or after a failure. */
static int begin(struct rank *r, int number, const char *multipath, const char *security)
{
	coll_config_t config;
	coll_result_t code;
	char root[40];

	atomic_fetch_add(&scene->meet[number], 1);
	until(&scene->meet[number], NRANKS);
	snprintf(root, sizeof(root), "10.80.3.1:%d", 4720 + number);
	setenv("COLL_ROOT", root, 1);
	setenv("COLL_KEY", "paths", 1);
	setenv("COLL_WORLD_SIZE", "2", 1);
	setenv("COLL_RANK", r->rank ? "1" : "0", 1);
	setenv("COLL_LOG", "info", 1);
	setenv("COLL_STALL_AFTER", "0", 1);
	setenv("COLL_TIMEOUT", "60s", 1);
	setenv("COLL_TCP_MULTIPATH", multipath, 1);
	setenv("COLL_TCP_SECURITY", security, 1);
	ranks_config(&config, "tcp");
	code = coll_comm_init_env(&r->comm, &config);
	if (code && strstr(coll_get_last_error(NULL), "libsodium"))
		return 0;
	return rank_did(r, code, "init");
}

static void end(struct rank *r)
{
	if (r->comm)
		rank_did(r, coll_comm_destroy(r->comm), "destroy");
	r->comm = NULL;
}

/* Each connection's paths, as the communicator tells them; the kernel lists a path before it counts it. */
static int tells_paths(struct rank *r, int paths)
{
	const double deadline = ranks_now() + WAIT_S / 2;
	char text[80] = "", want[80] = "";

	if (paths)
		snprintf(want, sizeof(want), "paths of Multipath TCP: %d to rank %d", paths,
			 1 - r->rank);
	while (rank_did(r, coll_comm_describe(r->comm, text, sizeof(text)), "describe") &&
	       strcmp(text, want) && ranks_now() < deadline)
		ranks_sleep(0.02);
	return !strcmp(text, want) || rank_fail(r, "'%s', not '%s'", text, want);
}

/* A link is cut in the middle of the calls, comes back, and the other is cut. */
static int lose_links(struct rank *r)
{
	return call_until(r, 2) && tells_paths(r, 2) && call_meanwhile(r, cut_second) &&
	       call_meanwhile(r, mend_second) && call_until(r, 2) && call_meanwhile(r, cut_first);
}

static void run_rank(int rank)
{
	struct rank r = {NULL, rank, NRANKS, NULL, scene->failure[rank]};
	char name[] = "/tmp/coll-multipath-XXXXXX";
	int fd = mkstemp(name);

	if (fd < 0 || dup2(fd, 2) < 0)
		exit(1);
	unlink(name);
	if (begin(&r, 0, rank ? "no" : "yes", "none"))
		tells_paths(&r, call_often(&r, 3) ? 0 : -1);
	scene->paths[rank] = count_paths();
	end(&r);
	if (begin(&r, 1, "yes", "encrypt"))
		call_until(&r, 2);
	end(&r);
	if (begin(&r, 2, "yes", "none"))
		lose_links(&r);
	end(&r);
	if (pread(fd, scene->log[rank], sizeof(scene->log[rank]) - 1, 0) < 0)
		exit(1);
}

static int enter_namespace(void)
{
	return unshare(CLONE_NEWNET) || namespaces_ip("link set lo up") || refused();
}

static void rank_one(void)
{
	int failed = enter_namespace();

	atomic_store(&scene->ready, !failed);
	if (failed || !until(&scene->wired, 1) || wire(1)) {
		atomic_store(&scene->skipped, 1);
		exit(2);
	}
	atomic_store(&scene->wired, 2);
	run_rank(1);
	exit(0);
}

static int wire_both(pid_t other)
{
	for (int link = 0; link < 2; link++)
		if (namespaces_ip("link add path%d0 type veth peer name path%d1 netns %d", link,
				  link, (int)other))
			return -1;
	if (wire(0))
		return -1;
	atomic_store(&scene->wired, 1);
	return !until(&scene->wired, 2);
}

static void rank_zero(void)
{
	pid_t other = -1;
	int status = 0;

	if (!enter_namespace())
		other = fork();
	if (other == 0)
		rank_one();
	if (other < 0 || !until(&scene->ready, 1) || wire_both(other)) {
		atomic_store(&scene->skipped, 1);
		if (other > 0)
			ranks_reap(other, ranks_now(), &status);
		exit(0);
	}
	run_rank(0);
	exit(!ranks_reap(other, ranks_now() + WAIT_S, &status));
}

/* The ranks have ended: this process may load the plugin. */
static void test_info(void)
{
	coll_backend_info_t backend = {.size = sizeof(backend)};
	coll_info_t info = NULL;
	int told = 0;

	setenv("COLL_TCP_MULTIPATH", "yes", 1);
	if (coll_info_create(NULL, &info))
		bail_out("no info: %s", coll_get_last_error(NULL));
	for (int i = 0; i < coll_info_backend_count(info); i++)
		if (!coll_info_backend(info, i, &backend) && !strcmp(backend.name, "tcp"))
			told |= strstr(backend.description, "ip mptcp endpoint add") != NULL;
	ok(told, "coll info says how a connection gets its paths");
	coll_info_destroy(info);
}

int main(void)
{
	int status, why = refused();
	pid_t pid;

	if (why)
		skip_all("the kernel refuses Multipath TCP: %s", strerror(why));
	scene = ranks_memory(sizeof(*scene));
	if (!ranks_can("tcp"))
		return done_testing();
	fflush(stdout);
	pid = fork();
	if (pid == 0)
		rank_zero();
	if (pid < 0 || !ranks_reap(pid, ranks_now() + 400, &status))
		bail_out("the ranks hang");
	test_info();
	if (atomic_load(&scene->skipped)) {
		skip(1, "no network namespaces with Multipath TCP and two links between them");
		return done_testing();
	}
	for (int r = 0; r < NRANKS; r++) {
		is_str(scene->failure[r], "", "rank %d has right results with links cut and back",
		       r);
		is_int(scene->paths[r], 0, "if one rank has no multipath they have TCP");
		has_str(scene->log[r], "paths of Multipath TCP at the end: 2 to rank",
			"rank %d tells its paths", r);
	}
	has_str(scene->log[0], "that are TCP: 1 of 1, the first to rank 1",
		"a connection that is TCP is told");
	return done_testing();
}
