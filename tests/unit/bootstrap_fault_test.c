/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap_fault_test.c - ranks that are missing, wrong or dying: every other rank gets an error,
 * and none hangs.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <netdb.h>
#include <netinet/tcp.h>
#include "meet/tree.h"
#include "base/error.h"
#include "../lib/log_capture.h"
#include "bootstrap_harness.h"

/* Runs the ranks of the list (ends with -1), each as a child; results in the same order. */
static void run_some(const struct rank_args *args, const int *list, struct rank_result *results)
{
	struct rank_child children[16];

	for (int i = 0; list[i] >= 0; i++)
		children[i] = rank_spawn(args, list[i]);
	for (int i = 0; list[i] >= 0; i++)
		results[i] = rank_collect(children[i]);
}

static struct rank_args root_args(char root[64], int nranks, int64_t timeout_ms)
{
	snprintf(root, 64, "127.0.0.1:%d", free_port());
	return (struct rank_args){.root = root, .nranks = nranks, .timeout_ms = timeout_ms};
}

/* ------------------------------------------------------------------- missing ones -- */

static void test_missing_at_start(void)
{
	static const int there[] = {0, 1, 3, 4, -1};
	struct rank_result results[4];
	char root[64];
	struct rank_args args = root_args(root, 8, 3000);

	bootstrap_set_stall(1500);
	log_begin();
	run_some(&args, there, results);
	log_end();
	bootstrap_set_stall(0);
	has_str(log_text(), "rank 0 waits for ranks 2, 5-7 of 8, not heard from for 1.",
		"before the time is up, rank 0 logs who is missing");
	for (int i = 0; there[i] >= 0; i++) {
		is_int(results[i].code, COLL_ERR_TIMEOUT, "rank %d does not wait for ever",
		       there[i]);
		has_str(results[i].text,
			"timed out: ranks 2, 5-7 of 8 have not been heard from after",
			"it knows who is missing");
	}
}

static void test_no_root(void)
{
	static const int there[] = {1, -1};
	struct rank_result result;
	char root[64], id[COLL_UNIQUE_ID_SIZE];
	struct rank_args args = root_args(root, 2, 300);

	bootstrap_set_stall(100);
	log_begin();
	run_some(&args, there, &result);
	log_end();
	bootstrap_set_stall(0);
	has_str(log_text(), "rank 1 has not reached rank 0 yet: 127.0.0.1:",
		"before its time is up, rank 1 logs why it has not come");
	is_int(result.code, COLL_ERR_TIMEOUT, "no rank 0");
	has_str(result.text,
		"timed out: rank 0 of 2 has not been heard from after 0.3 s; 127.0.0.1:",
		"it is named");
	has_str(result.text, "Connection refused", "and the reason");
	has_str(result.text, "rank 0 has not started yet, or the job has already failed",
		"and what the rank cannot know");

	make_foreign_id((const uint8_t[BOOTSTRAP_KEY_SIZE]){1, 2, 3}, root, id, sizeof(id));
	args = (struct rank_args){.id = id, .nranks = 2, .timeout_ms = LONG_MS};
	run_some(&args, there, &result);
	is_int(result.code, COLL_ERR_PEER_LOST, "the maker of the id has gone");
	has_str(result.text, "rank 1 cannot meet rank 0: 127.0.0.1:", "at once, not at a timeout");
}

/* One rank does not come to the second exchange. */
static int work_absent(struct bootstrap *bootstrap, void *arg)
{
	int in = 0, out[4];

	if (bootstrap_rank(bootstrap) == *(int *)arg)
		pause_ms(LONG_MS);
	return bootstrap_exchange(bootstrap, &in, out, sizeof(in), 500);
}

static void test_missing_later(int absent, const char *text)
{
	struct rank_child children[4];
	struct rank_result result;
	char root[64];
	struct rank_args args = root_args(root, 4, LONG_MS);

	args.work = work_absent;
	args.arg = &absent;
	for (int r = 0; r < 4; r++)
		children[r] = rank_spawn(&args, r);
	for (int r = 0; r < 4; r++) {
		if (r == absent)
			continue;
		result = rank_collect(children[r]);
		is_int(result.code, COLL_ERR_TIMEOUT, "rank %d misses rank %d", r, absent);
		has_str(result.text, text, "it is named");
	}
	kill(children[absent].pid, SIGKILL);
	rank_collect(children[absent]);
}

/* ---------------------------------------------------------------------- dying ones -- */

static int work_die(struct bootstrap *bootstrap, void *arg)
{
	int in[4] = {0}, out[16], code = 0, again;

	if (bootstrap_rank(bootstrap) == *(int *)arg)
		raise(SIGKILL);
	while (code == 0)
		code = bootstrap_exchange(bootstrap, in, out, sizeof(in), LONG_MS);
	again = bootstrap_exchange(bootstrap, in, out, sizeof(in), LONG_MS);
	return again == code ? code : error_set(COLL_ERR_INTERNAL, "the error has changed");
}

static void test_death_later(int victim)
{
	static const int all[] = {0, 1, 2, 3, -1};
	struct rank_result results[4];
	char root[64], name[32];
	struct rank_args args = root_args(root, 4, LONG_MS);

	args.work = work_die;
	args.arg = &victim;
	snprintf(name, sizeof(name), "rank %d (pid ", victim);
	run_some(&args, all, results);
	for (int i = 0; i < 4; i++) {
		if (i == victim)
			continue;
		is_int(results[i].code, COLL_ERR_PEER_LOST, "rank %d hears of rank %d's death", i,
		       victim);
		has_str(results[i].text, name, "it is named");
	}
}

/* A rank dies after the root has accepted it, before it has sent anything. */
static pid_t arrive_and_die(const char *id, int rank, int nranks)
{
	struct tree *t = calloc(1, sizeof(*t));
	struct address_list addrs;
	pid_t pid = fork();

	if (pid != 0) {
		free(t);
		return pid;
	}
	t->bootstrap.rank = rank;
	t->bootstrap.nranks = nranks;
	t->parent.fd = -1;
	t->timeout_ms = LONG_MS;
	t->deadline = clock_deadline(LONG_MS);
	tree_set_handshake(t);
	unique_id_drop_inherited();
	if (unique_id_parse(id, t->shared, &addrs) != 0 || tree_join(t, &addrs, 0) != 0)
		_exit(1);
	raise(SIGKILL);
	_exit(1);
}

static void test_death_at_start(void)
{
	struct rank_child one;
	struct rank_result result;
	char id[COLL_UNIQUE_ID_SIZE];
	struct rank_args args = {.id = id, .nranks = 4, .timeout_ms = LONG_MS};
	pid_t two;

	bootstrap_make_id(id, sizeof(id), NULL);
	one = rank_spawn(&args, 1);
	two = arrive_and_die(id, 2, 4);
	result = rank_run(&args, 0);
	is_int(result.code, COLL_ERR_PEER_LOST, "rank 2 dies while rank 3 is awaited");
	has_str(result.text, "rank 2 (", "it is named");
	/* The rank gets the error or, if it was too slow to be accepted, finds the port closed. */
	result = rank_collect(one);
	is_int(result.code, COLL_ERR_PEER_LOST, "rank 1 gets an error as well");
	waitpid(two, NULL, 0);
}

/* Milliseconds since `start`. */
static int64_t since(int64_t start)
{
	return clock_now_ms() - start;
}

/*
 * Rank 2 believes in another number of ranks while ranks 3 and 4 are still to come.  Rank 3 comes while
 * rank 0's call has not returned, and so may rank 1, once more; rank 4 comes after it.
 */
static void test_late_after_failure(void)
{
	static const char words[] = "the number of ranks differs: 4 on rank 2, 5 on rank 0";
	struct rank_child zero, one, two;
	struct rank_result result;
	char root[64];
	struct rank_args args = root_args(root, 5, LONG_MS);
	int64_t start;

	zero = rank_spawn(&args, 0);
	one = rank_spawn(&args, 1);
	args.nranks = 4;
	two = rank_spawn(&args, 2);
	args.nranks = 5;
	is_int(rank_collect(two).code, COLL_ERR_INVALID_ARGUMENT, "rank 2 does not fit");
	start = clock_now_ms();
	result = rank_collect(rank_spawn(&args, 3));
	is_int(result.code, COLL_ERR_INVALID_ARGUMENT, "rank 3, which comes late, gets the error");
	has_str(result.text, words, "rank 3 hears of rank 2");
	result = rank_collect(one);
	is_int(result.code, COLL_ERR_INVALID_ARGUMENT, "rank 1 gets the error");
	has_str(result.text, words, "rank 1 hears of rank 2");
	args.timeout_ms = 300;
	result = rank_collect(rank_spawn(&args, 1));
	ok(result.code && !strstr(result.text, "is there already"),
	   "rank 1 tries again and hears of no other rank 1: %s", result.text);
	result = rank_collect(zero);
	is_int(result.code, COLL_ERR_INVALID_ARGUMENT, "rank 0 gets the error");
	has_str(result.text, words, "rank 0 hears of rank 2");
	ok(since(start) < LONG_MS / 4, "nobody waits for rank 4 for long: %d ms",
	   (int)since(start));
	result = rank_collect(rank_spawn(&args, 4));
	is_int(result.code, COLL_ERR_TIMEOUT, "no port is open after rank 0's call");
	has_str(result.text, "rank 0 has not started yet, or the job has already failed",
		"rank 4 is told that the job may have failed");
}

/* All members are connected when one dies: rank 0 waits for nobody. */
static void test_death_with_all_present(void)
{
	struct rank_child children[4];
	struct rank_result result;
	char root[64];
	struct rank_args args = root_args(root, 3, LONG_MS);
	int victim = 2;
	int64_t start = clock_now_ms();

	args.work = work_die;
	args.arg = &victim;
	for (int r = 0; r < 3; r++)
		children[r] = rank_spawn(&args, r);
	for (int r = 0; r < 3; r++)
		result = rank_collect(children[r]);
	(void)result;
	ok(since(start) < 1500, "with all ranks present nobody waits: %d ms", (int)since(start));
}

/* Rank 0 of an id fails before it serves the port: the members do not wait for it. */
static void test_root_fails_before_serving(void)
{
	struct rank_child one;
	struct rank_result result;
	struct bootstrap *bootstrap;
	char id[COLL_UNIQUE_ID_SIZE];
	struct rank_args args = {.id = id, .nranks = 2, .timeout_ms = 20000};

	bootstrap_make_id(id, sizeof(id), NULL);
	one = rank_spawn(&args, 1);
	is_int(bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = id}, 0, 2, "nosuch0",
				 LONG_MS),
	       COLL_ERR_CONFIG, "rank 0's interface does not exist");
	result = rank_collect(one);
	is_int(result.code, COLL_ERR_PEER_LOST, "rank 1 does not wait for rank 0");
}

/*
 * A process that listens at that address, takes one connection and forgets it: its other end hears neither data nor
 * an end.  The process ends with status 0 unless the system does not let it forget.
 */
static pid_t forget_one_connection(const char *host_port)
{
	struct address address;
	int listener, err, fd, repair = 1;
	pid_t pid;

	if (address_parse(host_port, "address", &address) ||
	    socket_listen(&address, NULL, NULL, &listener, &err))
		bail_out("%s", error_text());
	pid = fork();
	if (pid == 0) {
		socket_poll(listener, POLLIN, clock_deadline(LONG_MS));
		fd = accept(listener, NULL, NULL);
		_exit(setsockopt(fd, IPPROTO_TCP, TCP_REPAIR, &repair, sizeof(repair)) != 0);
	}
	close(listener);
	return pid;
}

/* As a kernel does that closes a listener while it takes a connection. */
static void test_root_forgets_connection(void)
{
	struct rank_result result;
	char host_port[64], id[COLL_UNIQUE_ID_SIZE];
	struct rank_args args = {.id = id, .nranks = 2, .timeout_ms = LONG_MS};
	int64_t start = clock_now_ms();
	pid_t root;
	int status;

	snprintf(host_port, sizeof(host_port), "127.0.0.1:%d", free_port());
	make_foreign_id((const uint8_t[BOOTSTRAP_KEY_SIZE]){1, 2, 3}, host_port, id, sizeof(id));
	root = forget_one_connection(host_port);
	result = rank_collect(rank_spawn(&args, 1));
	waitpid(root, &status, 0);
	if (status != 0) {
		skip(2, "TCP_REPAIR: not permitted");
		return;
	}
	is_int(result.code, COLL_ERR_PEER_LOST, "a connection of which only rank 1 knows");
	ok(since(start) < LONG_MS / 4, "rank 1 asks whether it still stands: %d ms",
	   (int)since(start));
}

static void test_death_of_root_at_start(void)
{
	struct rank_child zero, one;
	struct rank_result result;
	char root[64];
	struct rank_args args = root_args(root, 3, LONG_MS);

	zero = rank_spawn(&args, 0);
	one = rank_spawn(&args, 1);
	pause_ms(1000);
	kill(zero.pid, SIGKILL);
	rank_collect(zero);
	result = rank_collect(one);
	is_int(result.code, COLL_ERR_PEER_LOST, "rank 0 dies while rank 2 is awaited");
	has_str(result.text, "rank 0", "it is named");
}

/* ----------------------------------------------------------------------- wrong ones -- */

static void test_duplicate(void)
{
	struct rank_child children[4];
	struct rank_result results[4];
	char root[64];
	struct rank_args args = root_args(root, 3, LONG_MS);
	struct pollfd ends[2];
	int loser;

	children[0] = rank_spawn(&args, 0);
	children[1] = rank_spawn(&args, 1);
	children[2] = rank_spawn(&args, 1);
	for (int i = 0; i < 2; i++)
		ends[i] = (struct pollfd){.fd = children[i + 1].fd, .events = POLLIN};
	poll(ends, 2, LONG_MS);
	loser = ends[0].revents ? 1 : 2;
	results[loser] = rank_collect(children[loser]);
	is_int(results[loser].code, COLL_ERR_INVALID_USAGE, "a second rank 1 is turned away");
	has_str(results[loser].text, "rank 1 of 3 is there already", "and told why");
	children[3] = rank_spawn(&args, 2);
	is_int(rank_collect(children[3 - loser]).code, 0, "the first one stays");
	is_int(rank_collect(children[0]).code, 0, "rank 0 as well");
	is_int(rank_collect(children[3]).code, 0, "and rank 2");
}

static void test_other_size(void)
{
	struct rank_child zero, one;
	struct rank_result results[2];
	char root[64];
	struct rank_args args = root_args(root, 3, LONG_MS);

	zero = rank_spawn(&args, 0);
	args.nranks = 4;
	one = rank_spawn(&args, 1);
	results[0] = rank_collect(zero);
	results[1] = rank_collect(one);
	for (int i = 0; i < 2; i++) {
		is_int(results[i].code, COLL_ERR_INVALID_ARGUMENT, "sizes differ: rank %d", i);
		has_str(results[i].text, "the number of ranks differs: 4 on rank 1, 3 on rank 0",
			"both are named");
	}
}

static void test_other_key(void)
{
	struct rank_child zero, one;
	struct rank_result result;
	char root[64];
	struct rank_args args = root_args(root, 2, 2000);

	args.key = "a key";
	zero = rank_spawn(&args, 0);
	args.timeout_ms = LONG_MS;
	args.key = "another key";
	one = rank_spawn(&args, 1);
	result = rank_collect(one);
	is_int(result.code, COLL_ERR_PERMISSION, "another key");
	has_str(result.text, "its key differs", "rank 1 is told");
	result = rank_collect(zero);
	is_int(result.code, COLL_ERR_TIMEOUT, "rank 0 waits on");
	has_str(result.text, "turned away 127.0.0.1:", "and says who came");
}

/* Rank 1 exchanges more bytes than rank 0. */
static int work_lengths(struct bootstrap *bootstrap, void *arg)
{
	char in[9] = "", out[27];

	(void)arg;
	return bootstrap_exchange(bootstrap, in, out, bootstrap_rank(bootstrap) == 1 ? 9 : 8,
				  LONG_MS);
}

static void test_lengths(void)
{
	static const int all[] = {0, 1, 2, -1};
	struct rank_result results[3];
	char root[64];
	struct rank_args args = root_args(root, 3, LONG_MS);

	args.work = work_lengths;
	run_some(&args, all, results);
	for (int i = 0; i < 3; i++) {
		is_int(results[i].code, COLL_ERR_MISMATCH, "lengths differ: rank %d", i);
		/* In a tree the parent that sees it is any rank. */
		has_str(results[i].text,
			tree_shape.flat == 1 ? " exchanges "
					     : "rank 1 exchanges 9 bytes where rank 0 exchanges 8",
			"both are named");
	}
}

/* ----------------------------------------------------------------- wrong arguments -- */

static void test_arguments(void)
{
	static const char *const bad_ids[] = {
		"",
		"x",
		"coll2:",
		"coll1:AAECAwQFBgcICQoLDA0ODx-QAg",
		"coll2:AAECAwQFBgcICQoLDA0ODx-Q",             /* no address */
		"coll2:AAECAwQFBgcICQoLDA0ODx-QAg=",          /* padding */
		"coll2:AAECAwQFBgcICQoLDA0ODx-QAh",           /* a bit beyond the last byte */
		"coll2:AAECAwQFBgcICQoLDA0ODwAAAg",           /* port 0 */
		"coll2:AAECAwQFBgcICQoLDA0ODx-QBgAA",         /* a port of its own, 0 */
		"coll2:AAECAwQFBgcICQoLDA0ODx-QAAoAAA",       /* three bytes of four */
		"coll2:AAECAwQFBgcICQoLDA0ODx-QEA",           /* an unknown bit */
		"coll2:AAECAwQFBgcICQoLDA0ODx-QAgICAgICAgIC", /* nine addresses */
	};
	static const char *const bad_roots[] = {
		"",           ":1",       "host",  "host:",   "host:x",
		"host:70000", "::1:4000", "[::1]", "host:-1", "no such host:1"};
	struct bootstrap *bootstrap;
	char id[COLL_UNIQUE_ID_SIZE];

	for (size_t i = 0; i < sizeof(bad_ids) / sizeof(bad_ids[0]); i++)
		is_int(bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = bad_ids[i]}, 1,
					 2, NULL, LONG_MS),
		       COLL_ERR_INVALID_ARGUMENT, "id '%s'", bad_ids[i]);
	is_int(bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = NULL}, 1, 2, NULL,
				 LONG_MS),
	       COLL_ERR_INVALID_ARGUMENT, "no id");
	for (size_t i = 0; i < sizeof(bad_roots) / sizeof(bad_roots[0]); i++) {
		ok(bootstrap_open_root(&bootstrap, bad_roots[i], "COLL_ROOT", NULL, 0, 1, 2, NULL,
				       LONG_MS) != 0,
		   "root '%s'", bad_roots[i]);
		has_str(error_text(), bad_roots[i], "the error shows it");
	}
	bootstrap_make_id(id, sizeof(id), NULL);
	is_int(bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = id}, 2, 2, NULL,
				 LONG_MS),
	       COLL_ERR_INVALID_ARGUMENT, "rank too large");
	is_int(bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = id}, -1, 2, NULL,
				 LONG_MS),
	       COLL_ERR_INVALID_ARGUMENT, "rank negative");
	is_int(bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = id}, 0, 0, NULL,
				 LONG_MS),
	       COLL_ERR_INVALID_ARGUMENT, "no ranks");
	is_int(bootstrap_open_local(&bootstrap, 0), COLL_ERR_INVALID_ARGUMENT,
	       "no ranks in memory");
	is_int(bootstrap_make_id(id, 20, NULL), COLL_ERR_INVALID_ARGUMENT, "no room for an id");
	is_int(bootstrap_make_id(id, sizeof(id), "nosuch0"), COLL_ERR_CONFIG,
	       "an unknown interface");
	has_str(error_text(), "lo (127.0.0.1)", "those that exist are listed");
}

static void test_id_of_others(void)
{
	static const int zero[] = {0, -1};
	struct rank_result result;
	struct bootstrap *bootstrap;
	char id[COLL_UNIQUE_ID_SIZE];
	struct rank_args args = {.id = id, .nranks = 2, .timeout_ms = LONG_MS};

	bootstrap_make_id(id, sizeof(id), NULL);
	run_some(&args, zero, &result);
	is_int(result.code, COLL_ERR_INVALID_USAGE, "rank 0 in another process than the id's");
	has_str(result.text, "rank 0 must be in the process that made the unique id", "is told");
	is_int(bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = id}, 0, 1, NULL,
				 LONG_MS),
	       0, "here it is right");
	bootstrap_close(bootstrap);
	is_int(bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = id}, 0, 1, NULL,
				 LONG_MS),
	       COLL_ERR_INVALID_USAGE, "but only once");
	has_str(error_text(), "this unique id was used already", "is told");
}

static void test_port_busy(void)
{
	struct sockaddr_in sa = {.sin_family = AF_INET};
	socklen_t len = sizeof(sa);
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct bootstrap *bootstrap;
	char root[64];

	sa.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (bind(fd, (struct sockaddr *)&sa, len) < 0 || listen(fd, 1) < 0 ||
	    getsockname(fd, (struct sockaddr *)&sa, &len) < 0)
		bail_out("cannot listen: %s", strerror(errno));
	snprintf(root, sizeof(root), "127.0.0.1:%d", ntohs(sa.sin_port));
	is_int(bootstrap_open_root(&bootstrap, root, "COLL_ROOT", NULL, 0, 0, 2, NULL, LONG_MS),
	       COLL_ERR_SYSTEM, "a port in use");
	has_str(error_text(), root, "it is named");
	close(fd);
}

/* ------------------------------------------------------------------ addresses of names -- */

/* As Debian's /etc/hosts on the host of that name. */
static const char *const names[][2] = {{"own-name.test", "127.0.1.1"}, {"localhost", "127.0.0.1"}};

/* Stands before the C library's function. */
int getaddrinfo(const char *restrict host, const char *restrict service,
		const struct addrinfo *restrict hints, struct addrinfo **restrict list)
{
	static int (*real)(const char *, const char *, const struct addrinfo *, struct addrinfo **);

	if (!real)
		*(void **)&real = dlsym(RTLD_NEXT, "getaddrinfo");
	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(host, names[i][0]) && !(hints->ai_flags & AI_NUMERICHOST))
			host = names[i][1];
	return real(host, service, hints, list);
}

/* Rank 1, which is elsewhere, knows another address of rank 0's host than rank 0 does. */
static void test_own_name(void)
{
	const int port = free_port();
	char own[64], other[64];
	struct rank_args args = {.root = own, .nranks = 2, .timeout_ms = LONG_MS};
	struct rank_child zero;
	struct rank_result result;

	snprintf(own, sizeof(own), "own-name.test:%d", port);
	snprintf(other, sizeof(other), "127.0.0.2:%d", port);
	zero = rank_spawn(&args, 0);
	args.root = other;
	result = rank_collect(rank_spawn(&args, 1));
	is_int(result.code, 0, "rank 0's host has its own name at a loopback address: %s",
	       result.text);
	if (result.code)
		kill(zero.pid, SIGKILL);
	is_int(rank_collect(zero).code, 0, "the ranks meet all the same");
}

/* The time to look up a name, also on a busy machine. */
enum { NAME_MS = 2000 };

/* Opens rank 0 of two ranks, in vain; returns the warnings about a missing COLL_KEY on stderr. */
static int warnings_of(const char *host, const char *interface_name, const char *key)
{
	struct bootstrap *bootstrap;
	int fd[2], saved = dup(2), count = 0;
	char root[64], text[4096];
	ssize_t n;

	snprintf(root, sizeof(root), "%s:%d", host, free_port());
	if (pipe(fd) || saved < 0 || dup2(fd[1], 2) < 0)
		bail_out("cannot redirect stderr");
	close(fd[1]);
	is_int(bootstrap_open_root(&bootstrap, root, "COLL_ROOT", key, key != NULL, 0, 2,
				   interface_name, isalpha((unsigned char)host[0]) ? NAME_MS : 1),
	       COLL_ERR_TIMEOUT, "rank 1 never comes to %s", root);
	dup2(saved, 2);
	close(saved);
	n = read(fd[0], text, sizeof(text) - 1);
	close(fd[0]);
	text[n > 0 ? n : 0] = '\0';
	for (const char *at = text; (at = strstr(at, "COLL_KEY is not set: anyone")); at++)
		count++;
	return count;
}

static void test_open_door(void)
{
	is_int(warnings_of("0.0.0.0", NULL, NULL), 1, "all addresses, no key: one warning");
	is_int(warnings_of("0.0.0.0", NULL, ""), 1, "an empty key is none");
	is_int(warnings_of("0.0.0.0", NULL, "secret"), 0, "a key: no warning");
	is_int(warnings_of("127.0.0.1", NULL, NULL), 0, "loopback only: no warning");
	is_int(warnings_of("127.0.1.1", NULL, NULL), 0, "another address of loopback: no warning");
	is_int(warnings_of("localhost", NULL, NULL), 0, "localhost: no warning");
	is_int(warnings_of("own-name.test", NULL, NULL), 1,
	       "the host's own name at a loopback address, which other hosts know: one warning");
	is_int(warnings_of("own-name.test", "lo", NULL), 0,
	       "the user has chosen the loopback interface: no warning");
}

int main(void)
{
	test_missing_at_start();
	test_no_root();
	test_missing_later(1, "rank 1 of 4 has not been heard from after 0.5 s");
	test_missing_later(0, "rank 0 of 4 has not been heard from after 0.5 s");
	test_death_later(0);
	test_death_later(2);
	test_death_at_start();
	test_late_after_failure();
	test_death_with_all_present();
	test_root_fails_before_serving();
	test_root_forgets_connection();
	test_death_of_root_at_start();
	test_duplicate();
	test_other_size();
	test_other_key();
	test_lengths();
	test_arguments();
	test_id_of_others();
	test_port_busy();
	test_own_name();
	test_open_door();
	return done_testing();
}
