/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * companion_test.c - the companion of a backend without a transport: a rank that dies is named, at once and
 * everywhere; a rank that leaves is none that died; the option chooses.
 *
 * All ranks are processes, so that some can die.
 */
#include "companion.h"

#include <sys/resource.h>

enum {
	MOMENTS = 6, /* of a death, some hundred microseconds apart */
	QUICK_OF = 9 /* the median of so many deaths */
};

/* ------------------------------------------------------------------------- death -- */

/* Of the job of a death, in memory that the ranks share. */
struct death {
	int moment;
	_Atomic int ready; /* ranks that are done with their first call */
	double died;
	double took; /* of rank 0, from the death on */
};

/* All ranks have made their first call when one dies. */
static void die(struct rank *r)
{
	struct death *d = r->user;

	while (atomic_load(&d->ready) < r->nranks)
		ranks_sleep(0.0001);
	ranks_sleep(0.0003 * d->moment);
	d->died = ranks_now();
	ranks_vanish();
}

static void begin(struct rank *r)
{
	struct death *d = r->user;

	nccl_works(r);
	atomic_fetch_add(&d->ready, 1);
}

/* The last rank dies while the others call; each of them names it. */
static void death(struct rank *r)
{
	const int dead = r->nranks - 1;
	struct death *d = r->user;
	int32_t failed[RANKS_MAX], n = 0;
	char words[64];

	begin(r);
	if (r->rank == dead)
		die(r);
	snprintf(words, sizeof(words), "rank %d was lost", dead);
	nccl_fails(r, call_until_failure(r, r->comm), COLL_ERR_PEER_LOST, words, "sync");
	if (r->rank == 0)
		d->took = ranks_now() - d->died;
	nccl_fails(r, coll_barrier(r->comm), COLL_ERR_PEER_LOST, words, "a later barrier");
	rank_did(r, coll_comm_get_failed(r->comm, failed, RANKS_MAX, &n), "get_failed");
	if (n != 1 || failed[0] != dead)
		rank_fail(r, "%d ranks have failed, the first is %d", (int)n, (int)failed[0]);
	destroy(r);
}

/* No call waits: a query finds the loss. */
static void death_unseen(struct rank *r)
{
	const double deadline = ranks_now() + SOON;
	coll_result_t error = 0;

	begin(r);
	if (r->rank == 1)
		die(r);
	while (!error && ranks_now() < deadline) {
		rank_did(r, coll_comm_get_async_error(r->comm, &error), "get_async_error");
		ranks_sleep(0.001);
	}
	if (error != COLL_ERR_PEER_LOST || !strstr(coll_get_last_error(r->comm), "rank 1 was lost"))
		rank_fail(r, "the asynchronous error is %d (%s)", error,
			  coll_get_last_error(r->comm));
	destroy(r);
}

/* Communicators split from the first one have its companion, and have one reason; one without the dead rank goes on. */
static void death_in_split(struct rank *r)
{
	coll_comm_t pair = NULL, dup = NULL;
	char words[RANKS_TEXT];
	const char *reason;

	rank_did(r, coll_comm_dup(r->comm, &dup), "dup");
	rank_did(r, coll_comm_split(r->comm, r->rank / 2, -r->rank, &pair, NULL), "split");
	begin(r);
	if (r->rank == 3)
		die(r);
	nccl_fails(r, call_until_failure(r, dup), COLL_ERR_PEER_LOST, "rank 3 was lost", "the dup");
	reason = strstr(coll_get_last_error(NULL), "was lost: ");
	snprintf(words, sizeof(words), "rank 0 (world rank 3) %s", reason ? reason : "was lost: ?");
	if (r->rank == 2)
		nccl_fails(r, call_until_failure(r, pair), COLL_ERR_PEER_LOST, words, "the pair");
	else
		nccl_sums(r, pair, r->rank, 2, 4, "the other pair");
	rank_did(r, coll_comm_destroy(pair), "destroy the pair");
	rank_did(r, coll_comm_destroy(dup), "destroy the dup");
	destroy(r);
}

/* ----------------------------------------------------------------------- survivors -- */

/* Makes r->comm the communicator of those that live, as get_failed tells. */
static int shrink(struct rank *r, int nranks)
{
	int32_t failed[RANKS_MAX], n = 0;
	coll_comm_t rest = NULL, copy = NULL;

	if (!rank_did(r, coll_comm_get_failed(r->comm, failed, RANKS_MAX, &n), "get_failed") ||
	    !rank_did(r, coll_comm_shrink(r->comm, failed, n, &rest, NULL, 0), "shrink"))
		return 0;
	destroy(r);
	r->comm = rest;
	if (!is_rank(r, rest, r->rank, nranks) ||
	    !nccl_sums(r, rest, r->rank, 2, 2 * nranks, "the rest") ||
	    !rank_did(r, coll_comm_dup(rest, &copy), "dup"))
		return 0;
	nccl_sums(r, copy, r->rank, 2, 2 * nranks, "the dup of the rest");
	return rank_did(r, coll_comm_destroy(copy), "destroy the dup");
}

/* The ranks die one after the other, and each time the others go on without the dead. */
static void shrink_again(struct rank *r)
{
	_Atomic int *ready = r->user;
	int steps = 0;
	char words[64];

	nccl_works(r);
	for (int n = r->nranks - 1; n > 0; n--) {
		atomic_fetch_add(ready, 1);
		for (steps += n + 1; r->rank == n;) {
			if (atomic_load(ready) == steps)
				ranks_vanish();
			ranks_sleep(0.0001);
		}
		snprintf(words, sizeof(words), "rank %d was lost", n);
		nccl_fails(r, call_until_failure(r, r->comm), COLL_ERR_PEER_LOST, words, "sync");
		if (!shrink(r, n))
			return;
	}
	destroy(r);
}

/* Rank 2 dies before it takes part in the shrink without rank 3: the shrink ends and names it. */
static void shrink_loses_rank(struct rank *r)
{
	const int32_t dead = 3;
	coll_comm_t rest = NULL;

	begin(r);
	if (r->rank == 3)
		die(r);
	nccl_fails(r, call_until_failure(r, r->comm), COLL_ERR_PEER_LOST, "rank 3 was lost",
		   "sync");
	if (r->rank == 2) {
		ranks_sleep(0.05);
		ranks_vanish();
	}
	nccl_fails(r, coll_comm_shrink(r->comm, &dead, 1, &rest, NULL, 0), COLL_ERR_PEER_LOST,
		   "rank 2 ", "shrink");
	destroy(r);
}

/* The excluded rank dies while NCCL shrinks a communicator that is well. */
static void excluded_dies(struct rank *r)
{
	const int32_t dead = r->nranks - 1;
	coll_comm_t rest = NULL;

	begin(r);
	if (r->rank == dead) {
		ranks_sleep(0.1);
		die(r);
	}
	setenv("STANDIN_NCCL_SHRINK_MS", "400", 1);
	if (rank_did(r, coll_comm_shrink(r->comm, &dead, 1, &rest, NULL, 0), "shrink") &&
	    is_rank(r, rest, r->rank, dead))
		nccl_sums(r, rest, r->rank, 2, 2 * dead, "the rest");
	nccl_fails(r, call_until_failure(r, r->comm), COLL_ERR_PEER_LOST, "rank 2 was lost",
		   "a call on the parent");
	if (rest)
		rank_did(r, coll_comm_destroy(rest), "destroy the rest");
	destroy(r);
}

/* NCCL knows before the companion that a peer has gone, but not which one. */
static void nccl_first(struct rank *r)
{
	int64_t x = 1, *there;
	int code;

	begin(r);
	if (r->rank == 1)
		die(r);
	there = nccl_new(r->rank, &x, 1);
	setenv("STANDIN_NCCL_ASYNC", "6@1", 1);
	code = coll_allreduce(there, there, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
	if (!code)
		code = coll_sync(r->comm);
	nccl_fails(r, code, COLL_ERR_PEER_LOST, "rank 1 was lost", "sync");
	unsetenv("STANDIN_NCCL_ASYNC");
	destroy(r);
	device_free(r->rank, there);
}

static void test_survivors(void)
{
	struct death *d = ranks_memory(sizeof(*d));

	for (int nranks = 2; nranks <= 4; nranks++)
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, shrink_again,
					   ranks_memory(sizeof(_Atomic int))},
			"after each death the others go on");
	nccl_ok(&(struct nccl_job){4, 1, INIT_EXCHANGE, shrink_loses_rank, d},
		"a rank dies before it shrinks");
	*d = (struct death){0};
	nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, excluded_dies, d},
		"an excluded rank dies during the shrink");
	for (int moment = 0; moment < MOMENTS; moment++) {
		*d = (struct death){.moment = moment};
		nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, nccl_first, d},
			"NCCL's own error before a rank ends at moment %d", moment);
	}
}

/* --------------------------------------------------------------- how fast, and so on -- */

static void test_death(void)
{
	struct death *d = ranks_memory(sizeof(*d));
	double took[QUICK_OF];

	for (int moment = 0; moment < MOMENTS; moment++)
		for (int nranks = 2; nranks <= 4; nranks++) {
			*d = (struct death){.moment = moment};
			nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, death, d},
				"a rank ends at moment %d and is named", moment);
		}
	for (int i = 0; i < QUICK_OF; i++) {
		*d = (struct death){.moment = i};
		nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, death, d}, "a death");
		took[i] = d->took;
	}
	is_quick(took, QUICK_OF, "the error comes at once");
	*d = (struct death){.moment = 0};
	nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, death_unseen, d},
		"a query finds the loss of a rank");
	*d = (struct death){.moment = 0};
	nccl_ok(&(struct nccl_job){4, 1, INIT_EXCHANGE, death_in_split, d},
		"the loss of a rank concerns the communicators that have it");
}

/* ------------------------------------------------------------------------ no death -- */

/* The last rank leaves early, and ends with an event that it keeps: that is no failure for those which stay. */
static void clean_close(struct rank *r)
{
	_Atomic int *left = r->user;
	coll_result_t error = 0;
	coll_event_t kept;

	nccl_works(r);
	if (r->rank == r->nranks - 1) {
		rank_did(r, coll_event_create(r->comm, &kept), "event_create");
		destroy(r);
		atomic_store(left, 1);
		return;
	}
	while (!atomic_load(left))
		ranks_sleep(0.001);
	for (int i = 0; i < 50; i++) {
		rank_did(r, coll_comm_get_async_error(r->comm, &error), "get_async_error");
		ranks_sleep(0.001);
	}
	if (error)
		rank_fail(r, "a false alarm: %d (%s)", error, coll_get_last_error(r->comm));
	destroy(r);
}

/* A child process has no part in its parent's communicators, and its end alarms nobody. */
static void fork_child(struct rank *r)
{
	int status = -1;
	pid_t pid;

	nccl_works(r);
	pid = fork();
	if (!pid)
		_exit(coll_sync(r->comm) == COLL_ERR_INVALID_ARGUMENT ? 0 : 1);
	if (!ranks_reap(pid, ranks_now() + SOON, &status) || status)
		rank_fail(r, "the child ended with %#x", (unsigned)status);
	nccl_works(r);
	destroy(r);
}

/* One communicator after the other, and many calls: no alarm. */
static void again_and_again(struct rank *r)
{
	for (int i = 0; i < 10; i++) {
		if (!rank_did(r, nccl_init(r, &r->comm, NULL), "init"))
			return;
		for (int n = 0; n < 100; n++)
			if (!nccl_works(r))
				return;
		destroy(r);
	}
}

static void test_no_death(void)
{
	_Atomic int *left = ranks_memory(sizeof(*left));

	for (int nranks = 2; nranks <= 4; nranks++) {
		atomic_store(left, 0);
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, clean_close, left},
			"a rank that leaves is not lost");
	}
	nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, fork_child, NULL},
		"a child process that ends");
	nccl_ok(&(struct nccl_job){3, 1, INIT_NONE, again_and_again, NULL},
		"communicators without a death");
}

/* ---------------------------------------------------------------------- the option -- */

/* The option of one rank or of all, and how init ends. */
struct choice {
	const char *value, *other; /* of rank 0; of the other ranks */
	const char *backend;       /* COLL_BACKEND, or NULL */
	const char *words;         /* of the error of init; NULL: it succeeds */
	int code, names;           /* names: the death of a rank is named */
};

static void set(const char *name, const char *value)
{
	if (value)
		setenv(name, value, 1);
	else
		unsetenv(name);
}

/* Ranks that are done with their first call. */
static _Atomic int *choose_ready;

static void choose(struct rank *r)
{
	const struct choice *c = r->user;
	coll_config_t config;
	int code;

	nccl_config(&config, r->rank);
	if (c->backend) {
		config.backend = NULL;
		set("COLL_BACKEND", c->backend);
	}
	set("COLL_COMPANION", r->rank ? c->other : c->value);
	code = nccl_init(r, &r->comm, &config);
	if (c->words) {
		nccl_fails(r, code, c->code, c->words, "init");
		return;
	}
	if (!rank_did(r, code, "init") || !nccl_works(r))
		return;
	atomic_fetch_add(choose_ready, 1);
	while (atomic_load(choose_ready) < r->nranks)
		ranks_sleep(0.0001);
	if (r->rank == 1)
		ranks_vanish();
	code = call_until_failure(r, r->comm);
	if (code == 0 || (code == COLL_ERR_PEER_LOST) != c->names)
		rank_fail(r, "the death ends in %d (%s)", code, coll_get_last_error(NULL));
	destroy(r);
}

/* Descriptors do not suffice on rank 1 for the companion that the user has named: no other backend takes its place. */
static void named_fails(struct rank *r)
{
	const int lowest = dup(0);
	const rlim_t few = (rlim_t)lowest + 12;
	coll_config_t config;

	close(lowest);
	nccl_config(&config, r->rank);
	config.backend = NULL;
	set("COLL_COMPANION", "tcp");
	if (r->rank == 1)
		setrlimit(RLIMIT_NOFILE, &(struct rlimit){few, few});
	nccl_fails(r, nccl_init(r, &r->comm, &config), COLL_ERR_SYSTEM,
		   "2 ranks need a limit of at least", "init");
}

/* A list of backends to leave out leaves out the companion too, and the log says so once. */
static void test_excluded(void)
{
	struct choice excluded = {NULL, NULL, "^tcp,simulated,ucx", NULL, 0, 0};

	choose_ready = ranks_memory(sizeof(*choose_ready));
	setenv("COLL_LOG", "warn", 1);
	log_begin();
	nccl_ok(&(struct nccl_job){2, 1, INIT_NONE, choose, &excluded}, "companion excluded");
	log_end();
	is_int(log_lines("rank 0 cannot use the companion 'tcp': it is excluded by "
			 "COLL_BACKEND=^tcp"),
	       1, "one warning names it");
	setenv("COLL_LOG", "error", 1);
}

static void test_option(void)
{
	static struct choice choices[] = {
		{NULL, NULL, NULL, NULL, 0, 1},
		{"tcp", "tcp", NULL, NULL, 0, 1},
		{"none", "none", NULL, NULL, 0, 0},
		{"tcp", "none", NULL, NULL, 0, 1},
		{"none", "tcp", NULL, NULL, 0, 0},
		{NULL, NULL, "^tcp,simulated,ucx", NULL, 0, 0},
		{"tcp", "tcp", "^tcp,simulated,ucx",
		 "rank 0 cannot use the companion 'tcp': it is excluded by COLL_BACKEND=^tcp",
		 COLL_ERR_CONFIG, 0},
		{"smoke", "smoke", NULL, "companion", COLL_ERR_CONFIG, 0},
	};

	setenv("COLL_TIMEOUT", "5s", 1);
	for (size_t i = 0; i < sizeof(choices) / sizeof(choices[0]); i++) {
		choose_ready = ranks_memory(sizeof(*choose_ready));
		nccl_ok(&(struct nccl_job){2, 1, INIT_NONE, choose, &choices[i]},
			"companion = %s on rank 0 and %s on rank 1, %s",
			choices[i].value ? choices[i].value : "(unset)",
			choices[i].other ? choices[i].other : "(unset)",
			choices[i].backend ? choices[i].backend : "nccl");
	}
}

static void test_named_fails(void)
{
	setenv("COLL_LOG", "warn", 1);
	log_begin();
	nccl_ok(&(struct nccl_job){2, 1, INIT_NONE, named_fails, NULL},
		"a named companion that a rank cannot open is an error");
	log_end();
	is_int(log_lines("is given up"), 0, "and the ranks try no other backend");
	setenv("COLL_LOG", "error", 1);
}

int main(int argc, char **argv)
{
	(void)argc;
	nccl_begin(argv, ".libs");
	setenv("COLL_LOG", "error", 0);
	test_death();
	test_survivors();
	test_no_death();
	test_option();
	test_excluded();
	test_named_fails();
	/* Last: after it this process has used CUDA. */
	nccl_hold_devices();
	nccl_ok(&(struct nccl_job){3, 0, INIT_NONE, again_and_again, NULL},
		"communicators of one process");
	return done_testing();
}
