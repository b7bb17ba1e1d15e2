/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * companion_calls_test.c - beside NCCL the ranks compare their calls through the companion: ranks that call
 * different things are told so, and a timeout and a stall name the ranks that are behind.
 *
 * All ranks are processes.
 */
#include "companion_calls.h"

#include <signal.h>
#include <sys/mman.h>

enum {
	MANY = 4000, /* correct calls in a row */
	STALL_MS = 200
};

/* Of one job, in memory that the ranks share. */
struct scene {
	_Atomic int ready, done; /* ranks that have come to the scene, and that are through */
	_Atomic int pid;
	int which;
};

static void begin(struct rank *r)
{
	struct scene *s = r->user;

	nccl_works(r);
	meet(&s->ready, r->nranks);
}

static void end(struct rank *r)
{
	struct scene *s = r->user;

	end_together(r, &s->done, r->nranks);
}

/* ------------------------------------------------------------------ different calls -- */

/* Some calls that differ end with wrong data, and nobody waits: then EVERY calls tell, soon. */
static int goes_on(struct rank *r, int64_t *there)
{
	const double over = ranks_now() + SOON;
	int code = coll_sync(r->comm);

	for (int i = 0; !code && (i < EVERY || ranks_now() < over); i++) {
		code = sum(r, there, 1);
		if (!code && i % 16 == 0)
			code = coll_sync(r->comm);
	}
	return code ? code : coll_sync(r->comm);
}

/* The last rank is the odd one. */
static void differ(struct rank *r)
{
	struct scene *s = r->user;
	int64_t x[DEVICE_N] = {0}, *there = nccl_new(r->rank, x, DEVICE_N);
	int code;

	begin(r);
	code = differing_calls[s->which].call(r, there, r->rank == r->nranks - 1);
	if (!code)
		code = goes_on(r, there);
	for (int i = 0; i < 2; i++)
		nccl_fails(r, code, COLL_ERR_MISMATCH, differing_calls[s->which].words[i],
			   "the calls");
	nccl_fails(r, coll_barrier(r->comm), COLL_ERR_MISMATCH, "collective number 2",
		   "a later barrier");
	end(r);
	device_free(r->rank, there);
}

/* The odd rank waits for nobody, and has made many more calls when the other one comes to the comparison. */
static void differs_ahead(struct rank *r)
{
	struct scene *s = r->user;
	int64_t x[DEVICE_N] = {0}, *there = nccl_new(r->rank, x, DEVICE_N);
	int code;

	begin(r);
	code = other_kind(r, there, r->rank);
	for (int i = 0; r->rank && i < 3 * EVERY && !code; i++)
		code = sum(r, there, 1);
	meet(&s->ready, 2 * r->nranks);
	if (!code)
		code = goes_on(r, there);
	for (int i = 0; i < 2; i++)
		nccl_fails(r, code, COLL_ERR_MISMATCH, differing_calls[1].words[i], "the calls");
	end(r);
	device_free(r->rank, there);
}

/* One rank waits for its stream, outside the library. */
static void differ_on_streams(struct rank *r)
{
	struct scene *s = r->user;
	void *stream = nccl_stream(r->rank);
	int64_t x[DEVICE_N] = {0}, *there = nccl_new(r->rank, x, DEVICE_N);
	double begins = ranks_now();
	int code;

	begin(r);
	/* The others wait for the rest of rank 1's numbers in vain. */
	rank_did(r,
		 coll_allreduce(there, there, r->rank == 1 ? 1 : 30, COLL_INT64, COLL_SUM, r->comm,
				r->rank == 2 ? stream : NULL),
		 "call");
	if (r->rank == 0) /* waits in the library */
		nccl_fails(r, coll_sync(r->comm), COLL_ERR_MISMATCH, "allreduce of 30", "sync");
	nccl_stream_do(r->rank, stream, cuStreamSynchronize);
	if (ranks_now() - begins > SOON)
		rank_fail(r, "the stream was busy for %.1f s", ranks_now() - begins);
	meet(&s->ready, 2 * r->nranks);
	code = coll_barrier(r->comm);
	if (!code) /* the news of the others is still on its way */
		code = coll_sync(r->comm);
	nccl_fails(r, code, COLL_ERR_MISMATCH, "allreduce of 1 int64", "a barrier");
	end(r);
	nccl_stream_do(r->rank, stream, cuStreamDestroy_v2);
	device_free(r->rank, there);
}

/* Rank 1 makes one call fewer and leaves. */
static void leaves(struct rank *r)
{
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	int code;

	begin(r);
	if (r->rank != 1) {
		code = sum(r, there, 1);
		if (!code)
			code = coll_sync(r->comm);
		nccl_fails(r, code, COLL_ERR_PEER_LOST, "rank 1 destroyed its communicator",
			   "sync");
		nccl_fails(r, code, COLL_ERR_PEER_LOST, "only 1", "the calls of rank 1");
	}
	destroy(r);
	device_free(r->rank, there);
}

/* The last call of the program, which rank 1 makes in another way, and which ends on all ranks. */
static int last_call(struct rank *r, int64_t *there, int which)
{
	const int odd = r->rank == 1;

	if (which == 0 && odd)
		return COLL_SUCCESS;
	return coll_broadcast(there, there, 30, which == 1 && odd ? COLL_UINT64 : COLL_INT64, 0,
			      r->comm, NULL);
}

static const char *const last_words[][2] = {
	{"broadcast of 30 int64 with root 0 as collective number 2", "rank 1 destroyed its "
								     "communicator after 1"},
	{"broadcast of 30 int64 with root 0", "rank 1 called broadcast of 30 uint64"},
};

/* The ranks leave one after the other: those behind the first find the difference, before they leave or as they do. */
static void leave_in_turn(struct rank *r)
{
	struct scene *s = r->user;
	int64_t x[DEVICE_N] = {0}, *there = nccl_new(r->rank, x, DEVICE_N);
	coll_result_t error = COLL_SUCCESS;
	int code;

	begin(r);
	rank_did(r, last_call(r, there, s->which), "the last call");
	rank_did(r, coll_sync(r->comm), "sync");
	meet(&s->ready, 2 * r->nranks);
	wait_until(&s->done, r->rank);
	if (r->rank == 2) { /* rank 1 has told of it */
		for (double over = ranks_now() + SOON; !error && ranks_now() < over;)
			rank_did(r, coll_comm_get_async_error(r->comm, &error), "async_error");
		if (error != COLL_ERR_MISMATCH ||
		    !strstr(coll_get_last_error(r->comm), last_words[s->which][1]))
			rank_fail(r, "%d: %s", error, coll_get_last_error(r->comm));
	}
	code = coll_comm_destroy(r->comm);
	r->comm = NULL;
	if (r->rank != 1 && code != COLL_ERR_MISMATCH) /* a slow rank 0 has been asked already */
		rank_did(r, code, "destroy");
	for (int i = 0; r->rank == 1 && i < 2; i++)
		nccl_fails(r, code, COLL_ERR_MISMATCH, last_words[s->which][i], "destroy");
	atomic_fetch_add(&s->done, 1);
	device_free(r->rank, there);
}

static void test_differ(void)
{
	struct scene *s = ranks_memory(sizeof(*s));

	for (int i = 0; i < DIFFERING_CALLS; i++) {
		*s = (struct scene){.which = i};
		nccl_ok(&(struct nccl_job){2 + i % 3, 1, INIT_EXCHANGE, differ, s},
			"%s: all ranks hear of both calls", differing_calls[i].name);
	}
	*s = (struct scene){0};
	nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, differs_ahead, s},
		"a rank that is far ahead still knows the call that differs");
	*s = (struct scene){0};
	nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, differ_on_streams, s},
		"calls that differ free the streams of the program");
	*s = (struct scene){0};
	nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, leaves, s},
		"a rank leaves one call too early");
	for (int which = 0; which < 2; which++) {
		*s = (struct scene){.which = which};
		nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, leave_in_turn, s},
			"the last call of a rank %s", which ? "differs" : "is left out");
	}
}

/* ------------------------------------------------------------------------- behind -- */

/* Waits for a call that the last rank does not make. */
static int hang(struct rank *r, int64_t *there)
{
	const int code = sum(r, there, 1);

	return code ? code : coll_sync(r->comm);
}

static void times_out(struct rank *r)
{
	const int late = r->nranks - 1;
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	char words[128];
	int code;

	begin(r);
	snprintf(words, sizeof(words),
		 "rank %d last called allreduce of 1 int64 (sum) as collective number 1", late);
	if (r->rank == 0) {
		rank_did(r, coll_comm_set_timeout(r->comm, 600), "set_timeout");
		code = hang(r, there);
		nccl_fails(r, code, COLL_ERR_TIMEOUT, "behind: rank ", "sync");
		nccl_fails(r, code, COLL_ERR_TIMEOUT, words, "sync");
	} else if (r->rank != late) {
		nccl_fails(r, hang(r, there), COLL_ERR_REMOTE, words, "sync");
	}
	end(r);
	device_free(r->rank, there);
}

/* Rank 2 is stopped, and rank 3 has made one call fewer. */
static void times_out_stopped(struct rank *r)
{
	struct scene *s = r->user;
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);
	int code;

	begin(r);
	if (r->rank == 2) {
		atomic_store(&s->pid, getpid());
		raise(SIGSTOP);
	}
	wait_until(&s->pid, 1);
	if (r->rank == 0) {
		rank_did(r, coll_comm_set_timeout(r->comm, 600), "set_timeout");
		code = hang(r, there);
		nccl_fails(r, code, COLL_ERR_TIMEOUT, "behind: rank 2, 3;", "sync");
		nccl_fails(r, code, COLL_ERR_TIMEOUT, "rank 2 does not answer", "the stopped rank");
		nccl_fails(r, code, COLL_ERR_TIMEOUT, "rank 3 last called", "the late rank");
		kill(atomic_load(&s->pid), SIGCONT);
	} else if (r->rank == 1) {
		nccl_fails(r, hang(r, there), COLL_ERR_REMOTE, "behind: rank 2, 3;", "sync");
	}
	end(r);
	device_free(r->rank, there);
}

/* Is there a line with both texts and without the third? */
static int log_line_has(const char *one, const char *two, const char *none)
{
	const char *line = log_text(), *at;

	for (; *line; line = at + (*at != '\0')) {
		char text[1024];

		at = line + strcspn(line, "\n");
		snprintf(text, sizeof(text), "%.*s", (int)(at - line), line);
		if (strstr(text, one) && strstr(text, two) && !strstr(text, none))
			return 1;
	}
	return 0;
}

/* Of the warnings, the first on a busy machine before rank 2 has answered, one names the rank that is late, alone. */
static void warns(struct rank *r)
{
	struct scene *s = r->user;
	int64_t x = 1, *there = nccl_new(r->rank, &x, 1);

	begin(r);
	if (r->rank == 0) {
		log_begin();
		rank_did(r, hang(r, there), "the call");
		if (!log_line_has("rank 1 last called allreduce of 1 int64 (sum) as collective "
				  "number 1",
				  "rank 0 waits in 1 operation in the hands", "rank 2"))
			rank_fail(r, "the log does not say it: %.300s", log_text());
		log_end();
	} else {
		if (r->rank == 1)
			ranks_sleep(10 * STALL_MS / 1e3);
		rank_did(r, hang(r, there), "the call");
	}
	atomic_fetch_add(&s->done, 1);
	nccl_works(r);
	destroy(r);
	device_free(r->rank, there);
}

static void test_behind(void)
{
	struct scene *s = ranks_memory(sizeof(*s));

	for (int nranks = 2; nranks <= 4; nranks++) {
		*s = (struct scene){0};
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, times_out, s},
			"a timeout names the rank that is behind, and its last call");
	}
	*s = (struct scene){0};
	nccl_ok(&(struct nccl_job){4, 1, INIT_EXCHANGE, times_out_stopped, s},
		"a timeout names the rank that is stopped");
	*s = (struct scene){0};
	setenv("COLL_LOG", "warn", 1);
	nccl_ok(&(struct nccl_job){3, 1, INIT_EXCHANGE, warns, s},
		"a wait that stalls warns of the rank that is behind");
	setenv("COLL_LOG", "error", 1);
}

/* ------------------------------------------------------------------- no false alarm -- */

/* Many calls of all kinds, with waits that stall: no alarm. */
static void all_agree(struct rank *r)
{
	int64_t x[DEVICE_N] = {0}, *there = nccl_new(r->rank, x, DEVICE_N);
	int code = 0;

	for (int i = 0; i < MANY && !code; i++) {
		code = one_call(r, there, i);
		if (!code && i % 50 == r->rank)
			code = coll_sync(r->comm);
		if (i % (MANY / 2) == 100 + r->rank)
			ranks_sleep(2.5 * STALL_MS / 1e3);
	}
	if (!code)
		code = coll_sync(r->comm);
	rank_did(r, code, "a call");
	nccl_works(r);
	destroy(r);
	device_free(r->rank, there);
}

int main(int argc, char **argv)
{
	(void)argc;
	nccl_begin(argv, ".libs");
	setenv("COLL_LOG", "error", 1);
	setenv("COLL_STALL_AFTER", "200ms", 1);
	test_differ();
	test_behind();
	for (int nranks = 2; nranks <= 4; nranks++)
		nccl_ok(&(struct nccl_job){nranks, 1, INIT_EXCHANGE, all_agree, NULL},
			"%d calls that agree", MANY);
	return done_testing();
}
