/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * stage_pieces_test.c - the copies to and from a device that are added to a schedule, linked with
 * the layers up to exec alone.  The test runs random schedules, with steps in any order that the
 * schedule allows, with the copies and without.  The user's memory must be the same afterwards,
 * byte by byte, and no byte may be copied needlessly.
 */
#include "../lib/random.h"
#include "fake_backend.h"
#include "compose/staging.h"

enum { BYTES = 64, SCRATCH = 32, STEPS = 14, INCOMING = 0x5a, LOG = 4096 };

/* The positions of the buffers relative to each other. */
enum { APART, IN_PLACE, BLOCK_IN_PLACE, PLACES };
static const char *const places[] = {"apart", "in place", "a block in place"};

/* The memory of a schedule: the buffers, wherever they are, and the scratch memory. */
struct memory {
	uint8_t *buf[3];
	uint8_t user[2 * BYTES], scratch[SCRATCH];
	uint8_t sent[LOG]; /* the bytes that sends have read, step by step */
};

static struct rig *rig;

/* --------------------------------------------------------------- a random schedule -- */

struct random_op {
	struct op *op;
	int place;
	size_t len[2]; /* sizes of the buffers */
};

static struct slice random_slice(const struct random_op *r, uint32_t buf, size_t n)
{
	size_t room = (buf == SCHED_SCRATCH ? SCRATCH : r->len[buf]) - n;
	int where = random_below(8); /* often at an edge */

	return sched_slice(buf, where == 0   ? 0
				: where == 1 ? room
					     : (size_t)random_below((int)room + 1));
}

static int overlap(const struct memory *m, struct slice a, size_t n, struct slice b, size_t k)
{
	const uint8_t *x = m->buf[a.buf] + a.off, *y = m->buf[b.buf] + b.off;

	return x < y + k && y < x + n;
}

/*
 * The slices that a step reads, then the slice that it writes; *writes is the index of the latter,
 * or -1.
 */
static int touched(const struct step *s, struct slice *at, int *writes)
{
	int n = 0;

	if (s->kind != STEP_RECV && s->kind != STEP_FINISH)
		at[n++] = s->src;
	if (s->kind == STEP_REDUCE)
		at[n++] = s->other;
	if (s->kind == STEP_FINISH)
		at[n++] = s->dst;
	*writes = s->kind == STEP_SEND ? -1 : n;
	if (s->kind != STEP_SEND)
		at[n++] = s->dst;
	return n;
}

/* Does one of the two steps write memory that the other touches? */
static int conflict(const struct memory *m, const struct step *a, const struct step *b)
{
	struct slice x[4], y[4];
	int wx, wy, n = touched(a, x, &wx), k = touched(b, y, &wy);

	for (int i = 0; i < n; i++)
		for (int j = 0; j < k; j++)
			if ((i == wx || j == wy) && overlap(m, x[i], a->len, y[j], b->len))
				return 1;
	return 0;
}

static void random_step(struct random_op *r)
{
	struct sched *s = &r->op->sched;
	size_t n = 1 + (size_t)random_below(16);
	struct slice src = random_slice(r, (uint32_t)random_below(3), n);
	struct slice dst = random_slice(r, random_below(3) ? SCHED_RECV : SCHED_SCRATCH, n);
	struct slice other = random_slice(r, (uint32_t)random_below(3), n);

	switch (random_below(6)) {
	case 0: sched_send(s, 1, src, n, -1); break;
	case 1: sched_recv(s, 1, dst, n, -1); break;
	case 2: sched_recv_reduce(s, 1, dst, random_below(2) ? dst : src, 0, n, -1); break;
	case 3: sched_reduce(s, dst, random_below(2) ? dst : src, other, n, -1); break;
	case 4: sched_finish(s, dst, n, -1); break;
	default: sched_copy(s, dst, src, n, -1);
	}
}

/* Adds steps in order, each behind all steps that it must not overtake. */
static void random_schedule(struct random_op *r, const struct memory *m)
{
	struct sched *s = &r->op->sched;
	int n = 1 + random_below(STEPS);

	sched_reset(s, rig->lane->comm->rank, FAKE_RANKS, 1, 4 + (size_t)random_below(9));
	s->finish = 1;
	while (n--)
		random_step(r);
	n = s->nsteps;
	for (int i = 0; i < n; i++)
		for (int j = 0; j < i; j++)
			if (conflict(m, &s->step[j], &s->step[i]))
				sched_after(s, i, j);
}

/* -------------------------------------------------------------------- running one -- */

static void run_step(const struct sched *s, int i, struct memory *m)
{
	const struct step *step = &s->step[i];
	uint8_t *dst = m->buf[step->dst.buf] + step->dst.off, value[BYTES] = {0};
	const uint8_t *src = m->buf[step->src.buf] + step->src.off;
	const uint8_t *other = m->buf[step->other.buf] + step->other.off;

	for (size_t k = 0; k < step->len; k++)
		switch (step->kind) {
		case STEP_SEND: value[k] = src[k]; break;
		case STEP_RECV: value[k] = (uint8_t)(INCOMING + i); break;
		case STEP_RECV_REDUCE: value[k] = (uint8_t)(src[k] + INCOMING + i); break;
		case STEP_REDUCE: value[k] = (uint8_t)(src[k] * 3 + other[k]); break;
		case STEP_FINISH: value[k] = (uint8_t)(dst[k] * 5 + 1); break;
		default: value[k] = src[k];
		}
	memcpy(step->kind == STEP_SEND ? m->sent + i * 16 : dst, value, step->len);
}

/* Runs all steps in a random order among those that the schedule allows. */
static int run_all(const struct sched *s, void (*run)(int step, void *user), void *user)
{
	uint32_t earlier[256];
	int left = s->nsteps;
	char done[256] = {0};

	for (int i = 0; i < s->nsteps; i++)
		earlier[i] = s->step[i].earlier;
	for (int tries = 0; left && tries < 100000; tries++) {
		int i = random_below(s->nsteps);

		if (done[i] || earlier[i])
			continue;
		run(i, user);
		done[i] = 1;
		left--;
		for (int e = s->step[i].edge; e >= 0; e = s->edge[e].next)
			earlier[s->edge[e].later]--;
	}
	return left;
}

/*
 * Runs a schedule with copies: the steps work on the staging memory, the copies on both memories.
 */
struct staged_run {
	const struct op *op;
	struct memory *user, *stand_in;
	uint8_t memory[3 * BYTES + 256];
	/* how often each byte of the user's memory is copied in and out */
	int copied[2][2 * BYTES];
	int wrong;
};

static void run_staged(int i, void *user)
{
	struct staged_run *r = user;
	const struct step *step = &r->op->sched.step[i];
	int out = step->kind == STEP_COPY_OUT;
	uint8_t *theirs;
	long at;

	if (step->kind < STEP_COPY_IN) {
		run_step(&r->op->sched, i, r->stand_in);
		return;
	}
	theirs = (uint8_t *)(r->op->staging.stage.user[step->dst.buf] + step->dst.off);
	at = theirs - r->user->user;
	r->wrong += step->len > r->op->sched.segment; /* too long to be waited for */
	if (at < 0 || at + (long)step->len > 2 * BYTES ||
	    step->dst.off + step->len > r->op->staging.stage.need) {
		r->wrong++;
		return;
	}
	for (size_t k = 0; k < step->len; k++)
		r->copied[out][at + (long)k]++;
	if (out)
		memcpy(theirs, r->memory + step->dst.off, step->len);
	else
		memcpy(r->memory + step->dst.off, theirs, step->len);
}

struct plain_run {
	const struct sched *sched;
	struct memory *m;
};

static void run_plain(int i, void *user)
{
	struct plain_run *r = user;

	run_step(r->sched, i, r->m);
}

/* ---------------------------------------------------------------------- comparing -- */

/* A copy of bytes onto themselves. */
static int does_nothing(const struct step *s, const struct memory *m)
{
	return s->kind == STEP_COPY &&
	       m->buf[s->src.buf] + s->src.off == m->buf[s->dst.buf] + s->dst.off;
}

/*
 * Computes from the order of the steps alone which bytes of the user's memory must be copied in and
 * out.
 */
static void needed(const struct sched *s, int nsteps, const struct memory *m, int staged,
		   int need[2][2 * BYTES])
{
	char written[2 * BYTES] = {0};

	memset(need, 0, 2 * sizeof(need[0]));
	for (int i = 0; i < nsteps; i++) {
		struct slice at[4];
		int writes, n = touched(&s->step[i], at, &writes);

		for (int k = 0; k < n; k++) {
			if (does_nothing(&s->step[i], m) || at[k].buf == SCHED_SCRATCH ||
			    !(staged & 1 << at[k].buf))
				continue;
			for (size_t b = 0; b < s->step[i].len; b++) {
				long byte = m->buf[at[k].buf] + at[k].off + b - m->user;

				if (k == writes)
					written[byte] = need[1][byte] = 1;
				else if (!written[byte])
					need[0][byte] = 1;
			}
		}
	}
}

static void place_buffers(struct memory *m, int place)
{
	m->buf[SCHED_RECV] = m->user;
	m->buf[SCHED_SEND] = place == APART ? m->user + BYTES
			     : place == IN_PLACE
				     ? m->user
				     : m->user + BYTES / FAKE_RANKS * rig->lane->comm->rank;
	m->buf[SCHED_SCRATCH] = m->scratch;
}

static void fill(struct memory *m, int place)
{
	for (size_t i = 0; i < sizeof(m->user); i++)
		m->user[i] = (uint8_t)(i * 7 + 1);
	memset(m->scratch, 0xee, SCRATCH);
	memset(m->sent, 0, sizeof(m->sent));
	place_buffers(m, place);
}

static struct op *make_op(struct random_op *r, struct memory *m, int place)
{
	coll_args_t args = {.size = sizeof(args), .kind = COLL_KIND_ALLREDUCE, .dtype = COLL_INT8};

	args.count = BYTES;
	r->len[SCHED_SEND] = r->len[SCHED_RECV] = BYTES;
	if (place == BLOCK_IN_PLACE) {
		args.kind = COLL_KIND_ALLGATHER;
		args.count = r->len[SCHED_SEND] = BYTES / FAKE_RANKS;
	}
	args.sendbuf = m->buf[SCHED_SEND];
	args.recvbuf = m->buf[SCHED_RECV];
	if (fake_op(rig->lane, &args, &r->op))
		bail_out("cannot make an operation: %s", error_text());
	r->place = place;
	return r->op;
}

/* Runs one random schedule; returns how many bytes are wrong. */
static int compare(int place, int staged)
{
	static struct memory plain, user, stand_in;
	static int need[2][2 * BYTES];
	struct random_op r;
	struct staged_run run = {.user = &user, .stand_in = &stand_in};
	struct plain_run plain_steps = {.m = &plain};
	int wrong = 0, nsteps;

	fill(&plain, place);
	fill(&user, place);
	fill(&stand_in, place);
	run.op = make_op(&r, &user, place);
	random_schedule(&r, &plain);
	nsteps = r.op->sched.nsteps;
	plain_steps.sched = &r.op->sched;
	needed(&r.op->sched, nsteps, &plain, staged, need);
	wrong += run_all(&r.op->sched, run_plain, &plain_steps);
	r.op->call.staged = staged;
	staging_schedule(r.op);
	memset(run.memory, 0xdd, sizeof(run.memory)); /* bytes that no copy has brought in */
	for (int buf = 0; buf < 2; buf++)
		stand_in.buf[buf] = staged & 1 << buf ? run.memory + r.op->staging.stage.at[buf]
						      : user.buf[buf];
	wrong += r.op->staging.stage.need > sizeof(run.memory);
	wrong += run_all(&r.op->sched, run_staged, &run);
	wrong += run.wrong + (memcmp(plain.user, user.user, sizeof(user.user)) != 0);
	wrong += memcmp(plain.sent, stand_in.sent, (size_t)nsteps * 16) != 0;
	for (int out = 0; out < 2; out++)
		for (int b = 0; b < 2 * BYTES; b++)
			wrong += run.copied[out][b] != need[out][b];
	r.op->call.staged = 0;
	op_retire(r.op);
	return wrong;
}

/* Runs several seeds, and prints the first that fails. */
static void test_place(int place, int staged)
{
	enum { SEEDS = 400 };
	int bad = 0, wrong = 0;

	for (int seed = 1; seed <= SEEDS && !wrong; seed++) {
		random_state = (unsigned)seed * 2654435761u;
		wrong = compare(place, staged);
		bad = wrong ? seed : 0;
	}
	ok(!wrong, "buffers %s, %s staged: %d random schedules", places[place],
	   staged == 3   ? "both"
	   : staged == 1 ? "the send buffer"
			 : "the receive buffer",
	   SEEDS);
	if (wrong)
		diag("seed %d: %d bytes or steps are wrong", bad, wrong);
}

int main(void)
{
	rig = rig_new(fake_transport);
	for (int staged = 1; staged <= 3; staged++)
		test_place(APART, staged);
	test_place(IN_PLACE, 3);
	for (rig->lane->comm->rank = 0; rig->lane->comm->rank < FAKE_RANKS; rig->lane->comm->rank++)
		test_place(BLOCK_IN_PLACE, 3);
	rig->lane->comm->rank = 0;
	rig_free(rig);
	return done_testing();
}
