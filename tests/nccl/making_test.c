/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * making_test.c - while NCCL connects the ranks of a new communicator, rank 1 fails or is stopped: all ranks hear of it
 * soon, with its number and NCCL's reason, and a rank that is stopped is named.
 */
#include "harness.h"

#include <dlfcn.h>
#include <signal.h>

/* Bounds far above what the ends take, and far below init_timeout. */
enum { SOON = 20, VICTIM = 1 };

/* How a communicator is made. */
enum { BY_INIT, BY_DUP, BY_SPLIT, BY_SHRINK };
static const struct {
	const char *name, *function;
	int least; /* ranks */
} ways[] = {{"init", "ncclCommInitRankConfig", 2},
	    {"dup", "ncclCommSplit", 2},
	    {"a split in which a rank has no colour", "ncclCommSplit", 3},
	    {"shrink", "ncclCommShrink", 3}};
enum { WAYS = sizeof(ways) / sizeof(ways[0]) };

struct scene {
	int way, result; /* with which NCCL fails */
	long calls;      /* of its function, before the call in which the victim stops */
	_Atomic int pid; /* of the victim */
	_Atomic int over;
};

/* Makes a communicator in that way; in a shrink the last rank only waits. */
static int make(struct rank *r, const struct scene *s, coll_comm_t *made)
{
	const int32_t last = r->nranks - 1;

	*made = NULL;
	switch (s->way) {
	case BY_DUP: return coll_comm_dup(r->comm, made);
	case BY_SPLIT:
		return coll_comm_split(r->comm, r->rank == last ? COLL_SPLIT_NOCOLOR : 0, r->rank,
				       made, NULL);
	default: return coll_comm_shrink(r->comm, &last, 1, made, NULL, 0);
	}
}

static int is_excluded(const struct rank *r, const struct scene *s)
{
	return s->way == BY_SHRINK && r->rank == r->nranks - 1;
}

static void until_over(struct scene *s, int ranks)
{
	for (double end = ranks_now() + 60; atomic_load(&s->over) < ranks && ranks_now() < end;)
		ranks_sleep(0.001);
}

/* All ranks are done with what the scene is about. */
static void end_together(struct rank *r, struct scene *s)
{
	atomic_fetch_add(&s->over, 1);
	until_over(s, r->nranks);
}

static int init(struct rank *r)
{
	coll_config_t config;
	int code;

	nccl_config(&config, r->rank);
	code = coll_comm_init_rank(&r->comm, r->nranks, nccl_member(r)->rendezvous->shared.id,
				   r->rank, &config);
	if (code)
		r->comm = NULL;
	return code;
}

static void share_id(struct rank *r)
{
	struct ranks_shared *shared = &nccl_member(r)->rendezvous->shared;

	if (!r->rank && rank_did(r, coll_get_unique_id(shared->id, sizeof(shared->id)), "id"))
		atomic_store(&shared->has_id, 1);
	while (!atomic_load(&shared->has_id))
		ranks_sleep(0.001);
}

/* ---------------------------------------------------------------------- it fails -- */

static void fails(struct rank *r)
{
	struct scene *s = r->user;
	char fault[80], words[80];
	coll_comm_t made;
	double begin;
	int code;

	share_id(r);
	if (s->way != BY_INIT && init(r)) {
		rank_fail(r, "init: %s", coll_get_last_error(NULL));
		return;
	}
	if (r->rank == VICTIM) {
		snprintf(fault, sizeof(fault), "%s:%d@%ld", ways[s->way].function, s->result,
			 s->way == BY_INIT ? 1 : nccl_calls(ways[s->way].function) + 1);
		setenv("STANDIN_NCCL_FAULT", fault, 1);
	}
	begin = ranks_now();
	if (!is_excluded(r, s)) {
		code = s->way == BY_INIT ? init(r) : make(r, s, &made);
		snprintf(words, sizeof(words), "%s%s: NCCL says",
			 s->way == BY_SHRINK && r->rank == VICTIM ? "" : "rank 1: ",
			 ways[s->way].function);
		nccl_fails(r, code,
			   s->way == BY_SHRINK && r->rank != VICTIM ? COLL_ERR_REMOTE : s->result,
			   words, ways[s->way].name);
		if (ranks_now() - begin > SOON)
			rank_fail(r, "it took %.1f s", ranks_now() - begin);
	}
	end_together(r, s);
}

/* -------------------------------------------------------------------- it is stopped -- */

/* Stops the process once NCCL begins to make the communicator. */
static void *stop(void *arg)
{
	const struct scene *s = arg;
	const char *function = ways[s->way].function;

	while (s->way == BY_INIT && !dlopen("libnccl.so.2", RTLD_NOW | RTLD_NOLOAD))
		ranks_sleep(0.0001);
	while (nccl_calls(function) <= s->calls)
		ranks_sleep(0.0001);
	kill(getpid(), SIGSTOP);
	return NULL;
}

static void is_stopped(struct rank *r, struct scene *s)
{
	coll_comm_t made;
	pthread_t thread;
	int code;

	setenv("STANDIN_NCCL_DELAY_US", "20000000", 1);
	setenv("STANDIN_NCCL_SPLIT_MS", "20000", 1);
	setenv("STANDIN_NCCL_SHRINK_MS", "20000", 1);
	atomic_store(&s->pid, getpid());
	s->calls = s->way == BY_INIT ? 0 : nccl_calls(ways[s->way].function);
	if (pthread_create(&thread, NULL, stop, s))
		bail_out("cannot start a thread");
	code = s->way == BY_INIT ? init(r) : make(r, s, &made);
	if (!code)
		rank_fail(r, "no failure");
	pthread_join(thread, NULL);
}

static void stopped(struct rank *r)
{
	struct scene *s = r->user;
	char words[80] = "not heard from: rank 1";
	coll_comm_t made;
	int code;

	share_id(r);
	if (s->way != BY_INIT && init(r)) {
		rank_fail(r, "init: %s", coll_get_last_error(NULL));
		return;
	}
	if (r->rank == VICTIM) {
		is_stopped(r, s);
	} else if (!is_excluded(r, s)) {
		if (s->way != BY_SHRINK)
			snprintf(words, sizeof(words), "rank 1 of %d has not been heard from",
				 r->nranks);
		code = s->way == BY_INIT ? init(r) : make(r, s, &made);
		nccl_fails(r, code, COLL_ERR_TIMEOUT, words, ways[s->way].name);
	}
	atomic_fetch_add(&s->over, r->rank != VICTIM);
	if (r->rank == 0) {
		until_over(s, r->nranks - 1);
		kill(atomic_load(&s->pid), SIGCONT);
	}
}

int main(int argc, char **argv)
{
	static const int results[] = {COLL_ERR_SYSTEM, COLL_ERR_REMOTE};
	struct scene *s = ranks_memory(sizeof(*s));

	(void)argc;
	nccl_begin(argv, ".libs");
	setenv("COLL_DESTROY_TIMEOUT", "1s", 1);
	for (int way = 0; way < WAYS; way++)
		for (int i = 0; i < 2; i++)
			for (int n = ways[way].least; n <= 3; n++) {
				*s = (struct scene){.way = way, .result = results[i]};
				nccl_ok(&(struct nccl_job){n, 1, INIT_NONE, fails, s},
					"%s: NCCL fails with %d on rank 1", ways[way].name,
					results[i]);
			}
	setenv("COLL_INIT_TIMEOUT", "1s", 1);
	for (int way = 0; way < WAYS; way++) {
		*s = (struct scene){.way = way};
		nccl_ok(&(struct nccl_job){3, 1, INIT_NONE, stopped, s}, "%s: rank 1 is stopped",
			ways[way].name);
	}
	return done_testing();
}
