/* SPDX-License-Identifier: BSD-3-Clause */
/* links.c - measures latency, bandwidth and clocks between each two ranks. */
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include "doctor/doctor.h"
#include "lib/progress.h"
#include "lib/tool.h"

enum {
	LINKS_TAG = 7,
	LINKS_ROUNDS_MIN = 6,
	LINKS_ROUNDS_MAX = 100,
	LINKS_REPEATS = 5, /* of the longest message; the fastest counts */
	LINKS_BYTES_MIN = 64 << 10,
	LINKS_BYTES_MAX = 8 << 20
};

/* Round trips, and longer messages, go on until this time is over. */
#define LINKS_LATENCY_NS   (20 * 1000000)
#define LINKS_BANDWIDTH_NS (10 * 1000000)

/* What the first rank of a pair asks of the second. */
enum links_request { LINKS_END, LINKS_ECHO, LINKS_TAKE };

struct links_message {
	int64_t request; /* enum links_request */
	int64_t bytes;   /* of the message that follows LINKS_TAKE */
	int64_t clock;   /* in the answer: the time of day of the second rank */
};

/* One pair, seen by one of its ranks. */
struct links_pair {
	coll_comm_t comm;
	int32_t peer;
	char *buffer; /* LINKS_BYTES_MAX */
};

static int64_t links_time_of_day(void)
{
	struct timespec now;

	clock_gettime(CLOCK_REALTIME, &now);
	return (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
}

static coll_result_t links_send(const struct links_pair *p, const void *data, size_t bytes)
{
	coll_result_t code = coll_send(data, bytes, COLL_UINT8, p->peer, LINKS_TAG, p->comm, NULL);

	return code ? code : coll_sync(p->comm);
}

static coll_result_t links_recv(const struct links_pair *p, void *data, size_t bytes)
{
	coll_result_t code = coll_recv(data, bytes, COLL_UINT8, p->peer, LINKS_TAG, p->comm, NULL);

	return code ? code : coll_sync(p->comm);
}

/* Asks, sends the bytes that belong to the request, and waits for the answer.  *ns becomes the time. */
static coll_result_t links_ask(const struct links_pair *p, enum links_request request, size_t bytes,
			       int64_t *ns, struct links_message *answer)
{
	const struct links_message ask = {.request = request, .bytes = (int64_t)bytes};
	const int64_t start = tool_now_ns();
	coll_result_t code = links_send(p, &ask, sizeof(ask));

	if (code == COLL_SUCCESS && request == LINKS_TAKE)
		code = links_send(p, p->buffer, bytes);
	if (code == COLL_SUCCESS && request != LINKS_END)
		code = links_recv(p, answer, sizeof(*answer));
	*ns = tool_now_ns() - start;
	return code;
}

/* Measures the shortest round trip, and how far the peer's clock was ahead then. */
static coll_result_t links_latency(const struct links_pair *p, struct doctor_link *link,
				   int64_t *ahead)
{
	const int64_t until = tool_now_ns() + LINKS_LATENCY_NS;
	struct links_message answer;
	int64_t ns, best = INT64_MAX;
	coll_result_t code = COLL_SUCCESS;

	for (int i = 0; code == COLL_SUCCESS && i < LINKS_ROUNDS_MAX &&
			(i < LINKS_ROUNDS_MIN || tool_now_ns() < until);
	     i++) {
		const int64_t clock = links_time_of_day();

		code = links_ask(p, LINKS_ECHO, 0, &ns, &answer);
		if (code != COLL_SUCCESS || ns >= best)
			continue;
		best = ns;
		*ahead = answer.clock - clock - ns / 2;
	}
	link->latency_us = (double)best / 2000;
	return code;
}

/* Doubles the message until one takes long enough, so that a slow link is measured by a short message. */
static coll_result_t links_bandwidth(const struct links_pair *p, struct doctor_link *link)
{
	const int64_t trip = (int64_t)(link->latency_us * 2000);
	struct links_message answer;
	int64_t ns, best = INT64_MAX;
	size_t bytes = LINKS_BYTES_MIN;
	coll_result_t code = links_ask(p, LINKS_TAKE, bytes, &ns, &answer);

	while (code == COLL_SUCCESS && ns < LINKS_BANDWIDTH_NS + trip && bytes < LINKS_BYTES_MAX) {
		bytes *= 2;
		code = links_ask(p, LINKS_TAKE, bytes, &ns, &answer);
	}
	for (int i = 0; code == COLL_SUCCESS && i < LINKS_REPEATS; i++) {
		best = ns < best ? ns : best;
		code = links_ask(p, LINKS_TAKE, bytes, &ns, &answer);
	}
	best = ns < best ? ns : best;
	/* The question and the answer take a round trip. */
	best = best > 2 * trip ? best - trip : best;
	link->mbytes_s = best > 0 ? (double)bytes * 1000 / (double)best : 0;
	return code;
}

static coll_result_t links_first(const struct links_pair *p, struct doctor_link *link,
				 int64_t *ahead)
{
	struct links_message answer;
	int64_t ns;
	coll_result_t code = links_latency(p, link, ahead);

	if (code == COLL_SUCCESS)
		code = links_bandwidth(p, link);
	return code ? code : links_ask(p, LINKS_END, 0, &ns, &answer);
}

/* Answers until the first rank of the pair ends. */
static coll_result_t links_second(const struct links_pair *p)
{
	struct links_message ask, answer = {0};
	coll_result_t code;

	for (;;) {
		code = links_recv(p, &ask, sizeof(ask));
		if (code != COLL_SUCCESS || ask.request == LINKS_END)
			return code;
		if (ask.request == LINKS_TAKE)
			code = links_recv(p, p->buffer, (size_t)ask.bytes);
		answer.clock = links_time_of_day();
		if (code == COLL_SUCCESS)
			code = links_send(p, &answer, sizeof(answer));
		if (code != COLL_SUCCESS)
			return code;
	}
}

/*
 * Returns the peer of a rank in a round of a tournament in which each two ranks meet once, or -1.  The ranks of a round
 * sum to its number, modulo the number of rounds; the last rank of an even number takes the rank that would meet itself.
 */
static int32_t links_peer_in_round(int32_t nranks, int32_t rank, int32_t round)
{
	const int32_t even = nranks + nranks % 2, rounds = even - 1;
	int32_t peer;

	if (rank == rounds)
		peer = round * (even / 2) % rounds;
	else
		peer = (round + rounds - rank) % rounds;
	if (peer == rank)
		peer = rounds;
	return peer < nranks ? peer : -1;
}

/* Returns the peer of a rank if only the pair of that number meets, or -1. */
static int32_t links_peer_of_pair(int32_t nranks, int32_t rank, int32_t number)
{
	int32_t a = 0;

	while (number >= nranks - 1 - a)
		number -= nranks - 1 - a++;
	if (rank == a)
		return a + 1 + number;
	return rank == a + 1 + number ? a : -1;
}

/* Keeps the better figures: what else a host does can only make a link look worse. */
static void links_keep(struct doctor_link *link, const struct doctor_link *now)
{
	if (!(link->latency_us > 0) || now->latency_us < link->latency_us)
		link->latency_us = now->latency_us;
	if (now->mbytes_s > link->mbytes_s)
		link->mbytes_s = now->mbytes_s;
}

/* Measures both directions. */
static coll_result_t links_both(const struct links_pair *p, int32_t rank, struct doctor_link *link,
				int64_t *ahead)
{
	struct doctor_link now = {0};
	coll_result_t code = rank < p->peer ? links_first(p, &now, ahead) : links_second(p);

	if (code == COLL_SUCCESS)
		code = rank < p->peer ? links_second(p) : links_first(p, &now, ahead);
	if (code == COLL_SUCCESS)
		links_keep(link, &now);
	return code;
}

static int32_t links_peer(int32_t nranks, int32_t rank, int32_t step)
{
	/* Pairs that are measured at once share the network and the processors, but of many ranks each alone takes minutes. */
	return nranks <= DOCTOR_ALONE ? links_peer_of_pair(nranks, rank, step)
				      : links_peer_in_round(nranks, rank, step);
}

static int links_wanted(const char *wanted, int32_t nranks, int32_t a, int32_t b)
{
	return b >= 0 && (wanted == NULL || wanted[a * nranks + b] || wanted[b * nranks + a]);
}

/* Is a pair of that step wanted?  All ranks find the same. */
static int links_step_wanted(const char *wanted, int32_t nranks, int32_t step)
{
	for (int32_t r = 0; r < nranks; r++)
		if (links_wanted(wanted, nranks, r, links_peer(nranks, r, step)))
			return 1;
	return 0;
}

coll_result_t doctor_measure(coll_comm_t comm, int32_t rank, int32_t nranks, const char *wanted,
			     struct doctor_link *own, int64_t *clock_ns)
{
	const int32_t steps =
		nranks <= DOCTOR_ALONE ? nranks * (nranks - 1) / 2 : nranks + nranks % 2 - 1;
	struct links_pair p = {.comm = comm, .buffer = malloc(LINKS_BYTES_MAX)};
	coll_result_t code = p.buffer ? COLL_SUCCESS : COLL_ERR_NO_MEMORY;
	struct progress progress;
	int64_t ahead = 0;

	if (p.buffer)
		memset(p.buffer, 1, LINKS_BYTES_MAX);
	progress_begin(&progress, PROGRESS_AFTER_MS);
	for (int32_t step = 0; step < steps && code == COLL_SUCCESS; step++) {
		if (!links_step_wanted(wanted, nranks, step))
			continue;
		if (rank == 0)
			progress_show(&progress, "links, step %d of %d", step + 1, steps);
		p.peer = links_peer(nranks, rank, step);
		code = coll_barrier(comm);
		if (code != COLL_SUCCESS || !links_wanted(wanted, nranks, rank, p.peer))
			continue;
		code = links_both(&p, rank, &own[p.peer], &ahead);
		if (p.peer == 0)
			*clock_ns = 0 - ahead;
	}
	progress_clear(&progress);
	free(p.buffer);
	return code;
}
