/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * room_test.c - streams that have no room: the driver blocks the thread that puts more work on one, until the work before it
 * ends.  The loss of a rank and an abort end that work, whichever call the thread is in.
 *
 * All ranks are processes, so that one can die.
 */
#include "companion.h"

enum { ROOM = 16, STEPS = 200, STUCK_MS = 50 };

/* What rank 0 repeats until its stream is full.  Rank 1 takes part once only. */
enum { CALLS, GROUPS, PER_THREAD, BESIDE, RECORDS, WAITS, UNALIGNED, IN_PLACE, STREAMS, WAYS };

static const struct {
	const char *name;
	int pieces; /* of work on one stream; the driver blocks the thread in each of them, in turn */
} ways[WAYS] = {{"calls", 1},
		{"groups", 1},
		{"groups on the per-thread stream", 3},
		{"groups beside event records of another thread", 1},
		{"event records", 2},
		{"waits for events", 2},
		{"unaligned calls", 3},
		{"calls in place", 2},
		{"calls on two streams", 4}};

struct room {
	int way, aborts;
	_Atomic int steps; /* of rank 0 */
	_Atomic int ready, aborting, over;
};

struct things {
	char *there;
	void *stream;
	coll_event_t event;
	coll_comm_t alone; /* of this rank only: its calls wait for nobody */
};

static int sum(struct rank *r, const struct things *t, int at, void *stream)
{
	return coll_allreduce(t->there + at, t->there + at, 1, COLL_INT64, COLL_SUM, r->comm,
			      stream);
}

static int sum_in_group(struct rank *r, const struct things *t, void *stream, coll_comm_t second)
{
	int code = coll_group_start(), end;

	if (!code)
		code = sum(r, t, 0, stream);
	if (!code)
		code = coll_allreduce(t->there + 8, t->there + 8, 1, COLL_INT64, COLL_SUM, second,
				      stream);
	end = coll_group_end();
	return code ? code : end;
}

static int step(struct rank *r, int way, const struct things *t)
{
	int code;

	switch (way) {
	case GROUPS: return sum_in_group(r, t, NULL, r->comm);
	case PER_THREAD: return sum_in_group(r, t, CU_STREAM_PER_THREAD, r->comm);
	case BESIDE: return sum_in_group(r, t, NULL, t->alone);
	case UNALIGNED: return sum(r, t, 1, NULL);
	case IN_PLACE: return coll_alltoall(t->there, t->there, 1, COLL_INT64, r->comm, NULL);
	case STREAMS: code = sum(r, t, 1, NULL); return code ? code : sum(r, t, 17, t->stream);
	default: break;
	}
	code = sum(r, t, 0, NULL);
	if (!code && way == RECORDS)
		code = coll_event_record(t->event, r->comm);
	if (!code && way == WAITS)
		code = coll_comm_wait_event(r->comm, t->event);
	return code;
}

/* Waits until rank 0 makes no more steps. */
static void until_stuck(struct room *room)
{
	const double deadline = ranks_now() + SOON;
	int before = 0, now;

	while ((now = atomic_load(&room->steps)) == 0 || now != before) {
		if (ranks_now() > deadline)
			return;
		before = now;
		ranks_sleep(STUCK_MS / 1e3);
	}
}

static void *abort_stuck(void *arg)
{
	struct rank *r = arg;
	struct room *room = r->user;
	double begin;

	until_stuck(room);
	begin = ranks_now();
	atomic_store(&room->aborting, 1);
	rank_did(r, coll_comm_abort(r->comm), "abort");
	if (ranks_now() - begin > SOON)
		rank_fail(r, "the abort took %.1f s", ranks_now() - begin);
	return NULL;
}

struct recorder {
	pthread_t thread;
	struct rank *r;
	void *stream;
};

/* Records events of a stream that is empty, until the communicator fails. */
static void *record(void *arg)
{
	const double deadline = ranks_now() + SOON;
	struct recorder *recorder = arg;
	struct rank *r = recorder->r;
	coll_event_t event;
	int code = COLL_SUCCESS;

	rank_did(r, coll_event_create(r->comm, &event), "event_create");
	while (!code && ranks_now() < deadline) {
		code = coll_event_record_on_stream(event, r->comm, recorder->stream);
		nccl_stream_do(r->rank, recorder->stream, cuStreamSynchronize);
		ranks_sleep(0.001);
	}
	rank_did(r, coll_event_destroy(event), "event_destroy");
	return NULL;
}

/* The calls that the abort has dropped are never said to be complete. */
static int test_dropped(struct rank *r)
{
	const double deadline = ranks_now() + SOON;
	coll_request_t request;
	int32_t done = 0;
	int code = coll_get_request(r->comm, &request);

	while (!code && !done && ranks_now() < deadline)
		code = coll_test(request, &done);
	return code;
}

static void fill(struct rank *r, const struct things *t)
{
	struct room *room = r->user;
	const int lost = room->aborts ? COLL_ERR_ABORTED : COLL_ERR_PEER_LOST;
	struct recorder recorder = {.r = r, .stream = t->stream};
	int code = COLL_SUCCESS;
	pthread_t thread;

	if (room->aborts && pthread_create(&thread, NULL, abort_stuck, r))
		bail_out("cannot start a thread");
	if (room->way == BESIDE && pthread_create(&recorder.thread, NULL, record, &recorder))
		bail_out("cannot start a thread");
	for (int i = 0; i < STEPS && !code && !atomic_load(&room->aborting); i++) {
		atomic_fetch_add(&room->steps, 1);
		code = step(r, room->way, t);
	}
	if (!code)
		code = room->aborts ? test_dropped(r) : coll_sync(r->comm);
	nccl_fails(r, code, lost, room->aborts ? "abort" : "rank 1 was lost",
		   "behind full streams");
	if (room->aborts)
		pthread_join(thread, NULL);
	if (room->way == BESIDE)
		pthread_join(recorder.thread, NULL);
	if (nccl_stream_do(r->rank, t->stream, cuStreamSynchronize))
		rank_fail(r, "the stream has failed");
	atomic_store(&room->over, 1);
}

static void no_room(struct rank *r)
{
	struct room *room = r->user;
	struct things t = {(char *)device_new(r->rank, 64, 0), nccl_stream(r->rank), NULL, NULL};

	if (room->way == BESIDE)
		rank_did(r, coll_comm_split(r->comm, r->rank, 0, &t.alone, NULL), "split");
	rank_did(r, coll_event_create(r->comm, &t.event), "event_create");
	rank_did(r, coll_event_record(t.event, r->comm), "record");
	rank_did(r, step(r, room->way, &t), "the first step");
	rank_did(r, coll_sync(r->comm), "sync");
	meet(&room->ready, r->nranks);
	if (r->rank == 0) {
		fill(r, &t);
	} else if (room->aborts) {
		wait_until(&room->over, 1);
		rank_did(r, coll_comm_abort(r->comm), "abort");
	} else {
		until_stuck(room);
		ranks_vanish();
	}
	rank_did(r, coll_event_destroy(t.event), "event_destroy");
	if (t.alone)
		rank_did(r, coll_comm_destroy(t.alone), "destroy");
	destroy(r);
	nccl_stream_do(r->rank, t.stream, cuStreamDestroy_v2);
	device_free(r->rank, t.there);
}

int main(int argc, char **argv)
{
	struct room *room = ranks_memory(sizeof(*room));
	char text[16];

	(void)argc;
	nccl_begin(argv, ".libs");
	setenv("COLL_LOG", "error", 0);
	/* The stream is empty soon after the abort has ended its work, and before the abort has returned. */
	setenv("STANDIN_CUDA_DELAY_US", "0", 1);
	for (int i = 0; i < 2 * WAYS; i++)
		for (int more = 0; more < ways[i / 2].pieces; more++) {
			snprintf(text, sizeof(text), "%d", ROOM + more);
			setenv("STANDIN_CUDA_ROOM", text, 1);
			*room = (struct room){.way = i / 2, .aborts = i % 2};
			nccl_ok(&(struct nccl_job){2, 1, INIT_EXCHANGE, no_room, room},
				"%s fill a stream of %s pieces: %s", ways[i / 2].name, text,
				room->aborts ? "an abort" : "the other rank dies");
		}
	return done_testing();
}
