/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * split_test.c - a rank dies during coll_comm_split: every survivor gets an error that names it, in the
 * split or in the new communicator, and the survivors make a communicator of their own by shrink.
 *
 * Over tcp the test places the death: the victim pauses after a given number of messages, and ends.  After
 * two messages one rank has all votes and another rank has not.  Over any backend the test kills a rank at a
 * random moment of a loop of splits.
 */
#include "../lib/ranks.h"

#include <dlfcn.h>
#include <sys/socket.h>

enum { NRANKS = 4, VICTIM = 3, SOON_MS = 5000 };

struct report {
	_Atomic int done;
	coll_result_t code;
	double at;
	char text[RANKS_TEXT];
	coll_result_t shrink_code;
	char shrink_text[RANKS_TEXT];
	int64_t sum; /* sum over the survivors, each adding its rank plus one */
};

struct scene {
	struct ranks_shared shared;
	_Atomic int looping;
	double death;
	struct report report[NRANKS];
};

static struct scene *scene;

/* ------------------------------------------------------------ the placed death -- */

/* Number of messages after which the process ends, a moment later; 0: it never ends. */
static int sends_to_live;

static void count_send(void)
{
	if (!sends_to_live || --sends_to_live)
		return;
	ranks_sleep(0.2); /* the receivers finish with the votes that they have */
	scene->death = ranks_now();
	_exit(0);
}

/* Both stand before the C library's functions, so that plugins call them. */
__attribute__((visibility("default"))) ssize_t sendmsg(int fd, const struct msghdr *msg, int flags)
{
	static ssize_t (*real)(int, const struct msghdr *, int);
	ssize_t n;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "sendmsg");
	n = real(fd, msg, flags);
	if (n > 0)
		count_send();
	return n;
}

__attribute__((visibility("default"))) ssize_t send(int fd, const void *bytes, size_t size,
						    int flags)
{
	static ssize_t (*real)(int, const void *, size_t, int);
	ssize_t n;

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "send");
	n = real(fd, bytes, size, flags);
	if (n > 0)
		count_send();
	return n;
}

/* ---------------------------------------------------------------------- a rank -- */

/* Splits and adds in the new communicator, until something fails. */
static coll_result_t split_once(struct rank *r, int iteration)
{
	coll_comm_t part = NULL;
	int64_t x = 1, y = 0;
	coll_result_t code =
		coll_comm_split(r->comm, r->rank / 2, (iteration % 3) * r->rank, &part, NULL);

	if (!code)
		code = coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, part, NULL);
	if (!code)
		code = coll_sync(part);
	if (!code && y != NRANKS / 2)
		rank_fail(r, "the sum is %lld", (long long)y);
	if (code)
		snprintf(scene->report[r->rank].text, RANKS_TEXT, "%s", coll_get_last_error(NULL));
	if (part)
		coll_comm_destroy(part);
	return code;
}

static void shrink(struct rank *r, int32_t victim, struct report *report)
{
	coll_comm_t rest = NULL;
	int64_t x = r->rank + 1;
	coll_result_t code = coll_comm_shrink(r->comm, &victim, 1, &rest, NULL, 0);

	if (!code)
		code = coll_allreduce(&x, &report->sum, 1, COLL_INT64, COLL_SUM, rest, NULL);
	if (!code)
		code = coll_sync(rest);
	report->shrink_code = code;
	if (code)
		snprintf(report->shrink_text, RANKS_TEXT, "%s", coll_get_last_error(NULL));
	coll_comm_destroy(rest);
}

/* sends: the messages that the victim still sends; 0: it loops until it is killed. */
static void live(struct rank *r, int victim, int sends)
{
	struct report *report = &scene->report[r->rank];

	report->code = split_once(r, 0);
	if (r->rank == VICTIM)
		sends_to_live = sends;
	for (int i = 1; !report->code; i++) {
		if (i == 2)
			atomic_fetch_add(&scene->looping, 1);
		report->code = split_once(r, i);
	}
	report->at = ranks_now();
	atomic_store(&report->done, 1);
	shrink(r, victim, report);
}

static void rank_process(const char *backend, int rank, int victim, int sends)
{
	struct rank r = {NULL, rank, NRANKS, NULL, scene->shared.failure[rank]};
	coll_config_t config;

	ranks_config(&config, backend);
	config.timeout_ms = 60000;
	crash_watch();
	if (ranks_init(&r, &scene->shared, &config))
		live(&r, victim, sends);
	coll_comm_destroy(r.comm);
	exit(0);
}

/* ----------------------------------------------------------------------- trials -- */

/* Diagnoses the fault in a survivor's report; returns 1 if there is none. */
static int report_is_right(int rank, int victim)
{
	const struct report *report = &scene->report[rank];
	const int64_t want = NRANKS * (NRANKS + 1) / 2 - (victim + 1);
	double ms = (report->at - scene->death) * 1e3;
	char name[16], world_name[24];
	int right;

	snprintf(name, sizeof(name), "rank %d ", victim);
	snprintf(world_name, sizeof(world_name), "(world rank %d)", victim);
	right = atomic_load(&report->done) && report->code == COLL_ERR_PEER_LOST &&
		(strstr(report->text, name) || strstr(report->text, world_name)) && ms < SOON_MS &&
		!report->shrink_code && report->sum == want && !scene->shared.failure[rank][0];
	if (!right)
		diag("rank %d: code %d after %.0f ms: %s; shrink %d: %s; sum %lld of %lld; %s",
		     rank, report->code, ms, report->text, report->shrink_code, report->shrink_text,
		     (long long)report->sum, (long long)want, scene->shared.failure[rank]);
	return right;
}

static void kill_in_loop(pid_t pid, double delay)
{
	double deadline = ranks_now() + 30;

	while (atomic_load(&scene->looping) < NRANKS && ranks_now() < deadline)
		ranks_sleep(0.001);
	ranks_sleep(delay);
	scene->death = ranks_now();
	kill(pid, SIGKILL);
}

/* One death; 1: every survivor's report is right. */
static int trial(const char *backend, int victim, int sends, double delay)
{
	pid_t pids[NRANKS];
	double deadline;
	int status, right = 1;

	memset(scene, 0, sizeof(*scene));
	fflush(stdout);
	for (int r = 0; r < NRANKS; r++) {
		pids[r] = fork();
		if (pids[r] == 0)
			rank_process(backend, r, victim, sends);
		if (pids[r] < 0)
			bail_out("cannot fork: %s", strerror(errno));
	}
	if (!sends)
		kill_in_loop(pids[victim], delay);
	deadline = ranks_now() + 30;
	for (int r = 0; r < NRANKS; r++) {
		right &= ranks_reap(pids[r], deadline, &status);
		if (r == victim || !status)
			continue;
		right = 0;
		diag("rank %d ended with status %#x", r, (unsigned)status);
	}
	for (int r = 0; r < NRANKS; r++)
		right &= r == victim || report_is_right(r, victim);
	return right;
}

static void trials(const char *backend, int n)
{
	unsigned seed = 20261122;
	int right = 0;

	for (int i = 0; i < n; i++)
		right += trial(backend, rand_r(&seed) % NRANKS, 0, (rand_r(&seed) % 20000) * 1e-6);
	ok(right == n, "%s: a rank is killed in a loop of splits: all survivors are told, %d of %d",
	   backend, right, n);
}

int main(void)
{
	int n = ranks_small() ? 4 : 12;

	scene = ranks_memory(sizeof(*scene));
	for (int sends = 1; sends <= 3; sends++) {
		ok(trial("tcp", VICTIM, sends, 0), "tcp: a rank dies after %d messages", sends);
		setenv("COLL_TCP_UNIX", "no", 1);
		ok(trial("tcp", VICTIM, sends, 0), "tcp, sockets: a rank dies after %d messages",
		   sends);
		unsetenv("COLL_TCP_UNIX");
	}
	trials("tcp", n);
	if (ranks_can("ucx"))
		trials("ucx", n);
	return done_testing();
}
