/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bench_coll.c - libcoll, over the backend that COLL_BACKEND names.
 *
 *   coll run -n 2 -- bench_coll allreduce 8 1024
 *   coll run -n 2 -- bench_coll -m allreduce 64 the buffers are memory of coll_mem_alloc
 *   bench_coll -t 2 allreduce 8 1024            the ranks are threads of one process (simulated)
 */
#include <pthread.h>
#include <coll/coll.h>
#include "bench.h"

struct coll_thread {
	struct bench_rank bench;
	pthread_t thread;
	int argc;
	char **argv;
};

static void check(coll_result_t result)
{
	if (result != COLL_SUCCESS)
		bench_fail("libcoll: ", coll_get_last_error(NULL));
}

static void ping_pong(struct bench_rank *r, const struct bench_call *c)
{
	coll_comm_t comm = r->engine;

	for (int turn = 0; r->rank < 2 && turn < 2; turn++) {
		if (turn == r->rank)
			check(coll_send(c->in, c->count, COLL_FLOAT32, 1 - r->rank, 0, comm, NULL));
		else
			check(coll_recv(c->out, c->count, COLL_FLOAT32, 1 - r->rank, 0, comm,
					NULL));
		check(coll_sync(comm));
	}
}

static void group(struct bench_rank *r, const struct bench_call *c)
{
	coll_comm_t comm = r->engine;

	check(coll_group_start());
	for (size_t i = 0; i < BENCH_GROUPED; i++)
		check(coll_allreduce(c->in, c->out + i * c->count, c->count, COLL_FLOAT32, COLL_SUM,
				     comm, NULL));
	check(coll_group_end());
}

static int call(struct bench_rank *r, const struct bench_call *c)
{
	coll_comm_t comm = r->engine;
	coll_dtype_t f32 = COLL_FLOAT32, type = f32;

	if (bench_is_16bit(c->op))
		type = c->op == BENCH_ALLREDUCE_F16 ? COLL_FLOAT16 : COLL_BFLOAT16;
	switch (c->op) {
	case BENCH_ALLREDUCE:
	case BENCH_ALLREDUCE_F16:
	case BENCH_ALLREDUCE_BF16:
		check(coll_allreduce(c->in, c->out, c->count, type, COLL_SUM, comm, NULL));
		break;
	case BENCH_ALLGATHER:
		check(coll_allgather(c->in, c->out, c->count, f32, comm, NULL));
		break;
	case BENCH_BROADCAST:
		/* In place on the root, as in MPI. */
		check(coll_broadcast(c->in, r->rank == c->root ? (void *)(uintptr_t)c->in : c->out,
				     c->count, f32, c->root, comm, NULL));
		break;
	case BENCH_REDUCE_SCATTER:
		check(coll_reduce_scatter(c->in, c->out, c->count, f32, COLL_SUM, comm, NULL));
		break;
	case BENCH_ALLTOALL: check(coll_alltoall(c->in, c->out, c->count, f32, comm, NULL)); break;
	case BENCH_REDUCE:
		check(coll_reduce(c->in, c->out, c->count, f32, COLL_SUM, c->root, comm, NULL));
		break;
	case BENCH_BARRIER: check(coll_barrier(comm)); return 1;
	case BENCH_PING_PONG: ping_pong(r, c); return 1;
	case BENCH_GROUP: group(r, c); break;
	default: return 0;
	}
	check(coll_sync(comm));
	return 1;
}

static void *memory_new(struct bench_rank *r, size_t bytes)
{
	void *memory;

	check(coll_mem_alloc(r->engine, bytes, &memory));
	return memory;
}

static void memory_free(void *memory)
{
	check(coll_mem_free(memory));
}

static void *thread_run(void *arg)
{
	struct coll_thread *t = arg;

	bench_rank_run(&t->bench, t->argc, t->argv);
	return NULL;
}

static void threads_run(int n, int argc, char **argv)
{
	static struct coll_thread threads[BENCH_RANKS];
	coll_comm_t comms[BENCH_RANKS];
	struct bench_shared *shared = calloc(1, sizeof(*shared));

	if (!shared || n < 2 || n > BENCH_RANKS)
		bench_fail("no memory, or not 2 to 64 threads", "");
	check(coll_comm_init_all(comms, n, NULL, NULL));
	for (int i = 0; i < n; i++) {
		threads[i].bench = (struct bench_rank){
			.rank = i, .nranks = n, .shared = shared, .call = call, .engine = comms[i]};
		threads[i].argc = argc;
		threads[i].argv = argv;
		if (pthread_create(&threads[i].thread, NULL, thread_run, &threads[i]))
			bench_fail("no thread", "");
	}
	for (int i = 0; i < n; i++)
		pthread_join(threads[i].thread, NULL);
	check(coll_group_start());
	for (int i = 0; i < n; i++)
		check(coll_comm_destroy(comms[i]));
	check(coll_group_end());
	free(shared);
}

int main(int argc, char **argv)
{
	struct bench_rank r = {.call = call};
	const int shares = argc > 1 && strcmp(argv[1], "-m") == 0;
	coll_comm_t comm;

	if (argc > 2 && strcmp(argv[1], "-t") == 0) {
		threads_run(atoi(argv[2]), argc - 2, argv + 2);
		return 0;
	}
	r.shared = bench_shared_file();
	check(coll_comm_init_env(&comm, NULL));
	check(coll_comm_user_rank(comm, &r.rank));
	check(coll_comm_count(comm, &r.nranks));
	r.engine = comm;
	if (shares) {
		r.alloc = memory_new;
		r.release = memory_free;
	}
	bench_rank_run(&r, argc - shares, argv + shares);
	check(coll_comm_destroy(comm));
	return 0;
}
