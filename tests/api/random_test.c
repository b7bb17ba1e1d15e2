/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * random_test.c - random programs: collectives of every kind, type, operation, count and place,
 * messages with tags and from any source, groups, persistent requests, split and duplicated
 * communicators, over random algorithms, segments and nodes.  The test compares every byte of every
 * buffer with the oracle's.
 *
 *   random_test [--seed S] [--case C] [--backend B]    one case of a seed; without --case the usual number
 *
 * The environment: TEST_RANDOM_SECONDS=N runs new seeds for N seconds, some of them over ucx.
 */
#include "../../tools/oracle/oracle.h"
#include "../lib/ranks.h"

#include <coll/introspect.h>

enum {
	RANDOM_RANKS = 9,
	COMMS = 4,   /* communicators of a rank: the first, and those derived from it */
	BATCH = 4,   /* most calls in a group */
	STEPS = 10,  /* most steps of a program */
	CASES = 100, /* programs of a seed */
	SEEDS = 5,
	OPTIONS = 20,
	MESSAGE = 5000 /* most elements of a message */
};

/* Random numbers, the same sequence on all ranks. */
struct draw {
	uint64_t state;
};

static uint64_t draw(struct draw *d, uint64_t below)
{
	d->state = oracle_mix(d->state, 1);
	return (d->state >> 16) % below;
}

/* The description of a case, the same on all ranks. */
struct program {
	uint64_t seed;
	int number;
	int nranks;
	const char *backend;
	char text[OPTIONS][96];
	const char *option[OPTIONS + 1];
	int noptions;
	size_t most; /* bytes of a buffer */
};

/* A communicator: the ranks of the first communicator that are in it, in its order. */
struct group {
	coll_comm_t comm;
	int n, rank; /* this rank's rank in it, or -1 */
	int member[RANDOM_RANKS];
};

/* One rank's run of a program. */
struct player {
	const struct program *p;
	struct rank *r;
	struct draw d;
	struct group group[COMMS];
	int ngroups;
	/*
	 * number of messages so far: each message has a tag of its own, because ranks run ahead of
	 * others
	 */
	uint32_t messages;
};

/* ------------------------------------------------------------------------- programs -- */

static void add_option(struct program *p, const char *name, const char *value)
{
	if (p->noptions == OPTIONS)
		return;
	snprintf(p->text[p->noptions], sizeof(p->text[0]), "%s=%s", name, value);
	p->option[p->noptions] = p->text[p->noptions];
	p->option[++p->noptions] = NULL;
}

/* Sets for some kinds an algorithm that every call uses if it fits. */
static void choose_algorithms(struct program *p, struct draw *d)
{
	coll_algorithm_info_t info = {.size = sizeof(info)};
	char name[64];

	for (int kind = COLL_KIND_ALLREDUCE; kind <= COLL_KIND_EXSCAN; kind++) {
		int fits = 0, pick;

		if (kind == COLL_KIND_SEND || kind == COLL_KIND_RECV)
			continue;
		for (int i = 0; i < coll_algorithm_count(); i++)
			fits += !coll_algorithm(i, &info) && info.kind == kind;
		pick = (int)draw(d, (uint64_t)fits + 1);
		for (int i = 0; i < coll_algorithm_count(); i++)
			if (!coll_algorithm(i, &info) && info.kind == kind && pick-- == 0) {
				snprintf(name, sizeof(name), "%s_algorithm", coll_kind_name(kind));
				add_option(p, name, info.name);
			}
	}
}

/* backend: overrides the random choice; NULL: keeps it. */
static void make_program(struct program *p, uint64_t seed, int number, const char *backend)
{
	static const char *const backends[] = {"tcp", "simulated"};
	static const char *const segments[] = {"4K", "5000", "16K", "1M"};
	struct draw d = {oracle_mix(seed, (uint64_t)number + 1000)};
	char text[16];

	*p = (struct program){.seed = seed, .number = number};
	p->nranks = 1 + (int)draw(&d, RANDOM_RANKS);
	p->backend = backends[draw(&d, 2)];
	p->backend = backend ? backend : p->backend;
	p->most = draw(&d, 4) ? 30000 : 300000;
	add_option(p, "segment", segments[draw(&d, 4)]);
	snprintf(text, sizeof(text), "%d", (int)draw(&d, 4));
	add_option(p, "node_size", text);
	if (draw(&d, 4) == 0)
		add_option(p, "reproducible", "yes");
	else if (draw(&d, 4))
		choose_algorithms(p, &d);
}

/* ------------------------------------------------------------------------ collectives -- */

/* A call under way. */
struct part {
	struct oracle_call call;
	const struct group *group;
	void *area[ORACLE_AREAS];
};

static int part_fill(struct part *part)
{
	for (int a = 0; a < ORACLE_AREAS; a++)
		if (part->call.bytes[a])
			oracle_call_fill(&part->call, a, part->area[a]);
	return 1;
}

static void part_begin(struct part *part, const struct oracle_case *c, const struct group *g)
{
	memset(part, 0, sizeof(*part));
	part->group = g;
	if (oracle_call_begin(&part->call, c, g->rank, g->n))
		bail_out("no memory");
	for (int a = 0; a < ORACLE_AREAS; a++) {
		part->area[a] = part->call.bytes[a] ? malloc(part->call.bytes[a]) : NULL;
		if (part->call.bytes[a] && !part->area[a])
			bail_out("no memory");
	}
	oracle_call_place(&part->call, part->area[ORACLE_SEND], part->area[ORACLE_RECV]);
	part_fill(part);
}

static int part_check(struct player *y, const struct part *part)
{
	char text[ORACLE_TEXT];

	for (int a = 0; a < ORACLE_AREAS; a++)
		if (part->call.bytes[a] && !oracle_call_check(&part->call, a, part->area[a], text))
			return rank_fail(y->r, "%s", text);
	return 1;
}

static void part_end(struct part *part)
{
	for (int a = 0; a < ORACLE_AREAS; a++)
		free(part->area[a]);
	oracle_call_end(&part->call);
}

/* Draws a group, of which this rank may not be a member; all ranks draw the same group. */
static const struct group *draw_group(struct player *y)
{
	return &y->group[draw(&y->d, (uint64_t)y->ngroups)];
}

static void draw_call(struct player *y, const struct group *g, struct oracle_case *c)
{
	uint64_t seed = oracle_mix(y->d.state, draw(&y->d, 1u << 30));

	oracle_random(c, seed, g->n, y->p->most);
	c->aligned = (int)draw(&y->d, 2);
}

/* Makes one to BATCH calls on any communicators, alone or as a group. */
static int play_collectives(struct player *y)
{
	struct part *part = calloc(BATCH, sizeof(*part));
	int n = 1 + (int)draw(&y->d, BATCH), grouped = (int)draw(&y->d, 2), mine = 0, good = 1;

	if (!part)
		bail_out("no memory");
	if (grouped)
		good = rank_did(y->r, coll_group_start(), "group_start");
	for (int i = 0; i < n; i++) {
		const struct group *g = draw_group(y);
		struct oracle_case c;

		draw_call(y, g, &c);
		if (g->rank < 0)
			continue;
		part_begin(&part[mine], &c, g);
		good = good && rank_did(y->r, oracle_issue(&part[mine].call.args, g->comm, NULL),
					coll_kind_name(c.kind));
		mine++;
	}
	if (grouped)
		good = rank_did(y->r, coll_group_end(), "group_end") && good;
	for (int i = 0; i < mine; i++)
		good = good && rank_did(y->r, coll_sync(part[i].group->comm), "sync");
	for (int i = 0; i < mine; i++) {
		good = good && part_check(y, &part[i]);
		part_end(&part[i]);
	}
	free(part);
	return good;
}

/* Starts a persistent request several times with different data. */
static int play_request(struct player *y)
{
	const struct group *g = draw_group(y);
	struct part *part = calloc(1, sizeof(*part));
	int starts = 1 + (int)draw(&y->d, 3), good;
	coll_request_t request = NULL;
	struct oracle_case c;

	if (!part)
		bail_out("no memory");
	draw_call(y, g, &c);
	if (g->rank < 0) {
		free(part);
		return 1;
	}
	part_begin(part, &c, g);
	good = rank_did(y->r, coll_request_init(g->comm, &part->call.args, &request),
			"request_init");
	for (int i = 0; good && i < starts; i++)
		good = rank_did(y->r, coll_request_start(request), "request_start") &&
		       rank_did(y->r, coll_wait(request), "wait") && part_check(y, part) &&
		       !oracle_call_again(&part->call) && part_fill(part);
	if (request)
		good = rank_did(y->r, coll_request_free(request), "request_free") && good;
	part_end(part);
	free(part);
	return good;
}

/* --------------------------------------------------------------------- point to point -- */

/* Element i of message k of a rank. */
static int32_t message_element(const struct player *y, int from, int k, size_t i)
{
	return (int32_t)oracle_mix(y->p->seed * 31 + (uint64_t)from * 7 + (uint64_t)k, i);
}

struct mail {
	int32_t *send, *recv;
	size_t count;
	int to, from, any;
	uint32_t tag;
};

static int mail_issue(struct player *y, const struct group *g, struct mail *m, int send)
{
	if (send)
		return rank_did(
			y->r,
			coll_send(m->send, m->count, COLL_INT32, m->to, m->tag, g->comm, NULL),
			"send");
	return rank_did(y->r,
			coll_recv(m->recv, m->count, COLL_INT32, m->any ? COLL_ANY_SOURCE : m->from,
				  m->tag, g->comm, NULL),
			"recv");
}

/* Each rank sends to the rank d places on; the group has its sends and receives in any order. */
static int play_mail(struct player *y)
{
	const struct group *g = draw_group(y);
	struct mail mail[BATCH];
	int n = 1 + (int)draw(&y->d, BATCH), order[2 * BATCH], good = 1;

	for (int k = 0; k < n; k++) {
		int away = (int)draw(&y->d, (uint64_t)g->n);

		uint64_t most = draw(&y->d, 2) ? 9 : MESSAGE;

		mail[k] = (struct mail){.to = (g->rank + away) % g->n,
					.from = (g->rank + g->n - away) % g->n};
		mail[k].count = (size_t)draw(&y->d, most);
		mail[k].any = (int)draw(&y->d, 2);
		mail[k].tag = y->messages++ | (uint32_t)draw(&y->d, 2) << 31;
	}
	/* a random permutation, built by the inside-out shuffle */
	for (int k = 0; k < 2 * n; k++) {
		int at = (int)draw(&y->d, (uint64_t)k + 1);

		order[k] = order[at];
		order[at] = k;
	}
	if (g->rank < 0)
		return 1;
	for (int k = 0; k < n; k++) {
		mail[k].send = malloc((mail[k].count + 1) * sizeof(int32_t));
		mail[k].recv = calloc(mail[k].count + 1, sizeof(int32_t));
		if (!mail[k].send || !mail[k].recv)
			bail_out("no memory");
		for (size_t i = 0; i < mail[k].count; i++)
			mail[k].send[i] = message_element(y, g->rank, k, i);
	}
	good = rank_did(y->r, coll_group_start(), "group_start");
	for (int k = 0; k < 2 * n; k++)
		good = good && mail_issue(y, g, &mail[order[k] / 2], order[k] % 2);
	good = rank_did(y->r, coll_group_end(), "group_end") && good &&
	       rank_did(y->r, coll_sync(g->comm), "sync");
	for (int k = 0; k < n; k++) {
		for (size_t i = 0; good && i <= mail[k].count; i++) {
			int32_t want = i < mail[k].count
					       ? message_element(y, mail[k].from, k, i)
					       : 0; /* bytes beyond the end must be unchanged */

			if (mail[k].recv[i] != want)
				good = rank_fail(y->r,
						 "message %d of %zu elements from rank %d to %d: "
						 "element %zu is %d, not %d",
						 k, mail[k].count, mail[k].from, g->rank, i,
						 mail[k].recv[i], want);
		}
		free(mail[k].send);
		free(mail[k].recv);
	}
	return good;
}

/* ----------------------------------------------------------------------- communicators -- */

/* The ranks of the part of colour `color`, by key, then by rank. */
static void derive_members(const struct group *from, const int *color, const int *key, int mine,
			   struct group *to)
{
	to->n = 0;
	to->rank = -1;
	for (int r = 0; r < from->n; r++) {
		int at = to->n;

		if (color[r] != mine)
			continue;
		for (; at > 0 && key[to->member[at - 1]] > key[r]; at--)
			to->member[at] = to->member[at - 1];
		to->member[at] = r;
		to->n++;
	}
	for (int i = 0; i < to->n; i++)
		if (to->member[i] == from->rank)
			to->rank = i;
}

/*
 * Splits a communicator.  Ranks of other colours get other communicators in the same slot.  All
 * ranks must draw the same numbers for a slot, so the test keeps a slot only if all of its
 * communicators have the same size.
 */
static int play_split(struct player *y)
{
	const struct group *from = &y->group[0];
	struct group *to = &y->group[y->ngroups];
	int color[RANDOM_RANKS], key[RANDOM_RANKS], dup = (int)draw(&y->d, 3) == 0;
	int32_t rank, n;
	coll_result_t code;

	if (y->ngroups == COMMS)
		return 1;
	for (int r = 0; r < from->n; r++) {
		color[r] = dup || draw(&y->d, 3) ? 0 : COLL_SPLIT_NOCOLOR;
		key[r] = dup ? 0 : (int)draw(&y->d, 4) - 2;
	}
	color[draw(&y->d, (uint64_t)from->n)] = 0;
	derive_members(from, color, key, 0, to);
	code = dup ? coll_comm_dup(from->comm, &to->comm)
		   : coll_comm_split(from->comm, color[from->rank], key[from->rank], &to->comm,
				     NULL);
	y->ngroups++;
	if (!rank_did(y->r, code, dup ? "dup" : "split"))
		return 0;
	if (to->rank < 0)
		return to->comm ? rank_fail(y->r, "split: no colour, but a communicator") : 1;
	if (!rank_did(y->r, coll_comm_user_rank(to->comm, &rank), "user_rank") ||
	    !rank_did(y->r, coll_comm_count(to->comm, &n), "count"))
		return 0;
	return (rank == to->rank && n == to->n) ||
	       rank_fail(y->r, "split: rank %d of %d, not %d of %d", rank, n, to->rank, to->n);
}

/* -------------------------------------------------------------------------------- runs -- */

static void play(struct rank *r)
{
	struct player y = {.p = r->user, .r = r, .ngroups = 1};
	int good = 1;

	y.d.state = oracle_mix(y.p->seed, (uint64_t)y.p->number);
	y.group[0] = (struct group){.comm = r->comm, .n = r->nranks, .rank = r->rank};
	for (int i = 0; good && i < STEPS; i++)
		switch (draw(&y.d, 8)) {
		case 0: good = play_split(&y); break;
		case 1:
		case 2: good = play_mail(&y); break;
		case 3: good = play_request(&y); break;
		default: good = play_collectives(&y);
		}
	for (int i = 1; i < y.ngroups; i++)
		if (y.group[i].rank >= 0 && y.group[i].comm)
			rank_did(r, coll_comm_destroy(y.group[i].comm), "destroy");
}

static void *play_thread(void *arg)
{
	struct rank *r = arg;

	play(r);
	if (r->failure[0]) /* the other ranks need not wait for this rank */
		coll_comm_abort(r->comm);
	return NULL;
}

static void describe(const struct program *p)
{
	char text[1000] = "";

	for (int i = 0; i < p->noptions; i++)
		snprintf(text + strlen(text), sizeof(text) - strlen(text), " %s", p->option[i]);
	diag("again: random_test --seed %" PRIu64 " --case %d --backend %s", p->seed, p->number,
	     p->backend);
	diag("%d ranks,%s", p->nranks, text);
}

/* Runs the ranks as threads; returns 1 if nothing is wrong. */
static int run_program(const struct program *p)
{
	static char failure[RANDOM_RANKS][RANKS_TEXT];
	struct rank rank[RANDOM_RANKS];
	coll_comm_t comm[RANDOM_RANKS];
	pthread_t thread[RANDOM_RANKS];
	coll_config_t config;
	int good = 1;

	ranks_config(&config, p->backend);
	config.options = p->option;
	config.timeout_ms = 30000;
	if (coll_comm_init_all(comm, p->nranks, NULL, &config)) {
		describe(p);
		diag("init_all: %s", coll_get_last_error(NULL));
		return 0;
	}
	for (int r = 0; r < p->nranks; r++) {
		failure[r][0] = '\0';
		rank[r] = (struct rank){comm[r], r, p->nranks, (void *)(uintptr_t)p, failure[r]};
		if (pthread_create(&thread[r], NULL, play_thread, &rank[r]))
			bail_out("cannot start a thread");
	}
	for (int r = 0; r < p->nranks; r++)
		pthread_join(thread[r], NULL);
	for (int r = 0; r < p->nranks; r++) {
		rank_did(&rank[r], coll_comm_destroy(comm[r]), "destroy");
		good &= !failure[r][0];
	}
	for (int r = 0, shown = 0; !good && r < p->nranks; r++) {
		if (failure[r][0] && !shown++)
			describe(p);
		if (failure[r][0])
			diag("rank %d: %s", r, failure[r]);
	}
	return good;
}

/* Runs cases first to first + n - 1 of a seed. */
static void run_seed(uint64_t seed, int first, int n, const char *backend)
{
	struct program p;
	int bad = 0;

	for (int i = first; i < first + n && bad < 3; i++) {
		make_program(&p, seed, i, backend);
		bad += !run_program(&p);
	}
	ok(!bad, "seed %" PRIu64 ": %d random program%s%s%s", seed, n, n == 1 ? "" : "s",
	   backend ? " over " : "", backend ? backend : "");
}

int main(int argc, char **argv)
{
	const char *seconds = getenv("TEST_RANDOM_SECONDS"), *backend = NULL;
	int number = -1, cases = ranks_small() ? CASES / 6 : CASES, ucx = 0;
	double end = ranks_now() + (seconds ? atof(seconds) : 0);
	uint64_t seed = 0;

	for (int i = 1; i + 1 < argc; i += 2)
		if (!strcmp(argv[i], "--seed"))
			seed = strtoull(argv[i + 1], NULL, 10);
		else if (!strcmp(argv[i], "--case"))
			number = atoi(argv[i + 1]);
		else if (!strcmp(argv[i], "--backend"))
			backend = argv[i + 1];
		else
			bail_out("usage: random_test [--seed S] [--case C] [--backend B]");
	if (seed) {
		run_seed(seed, number < 0 ? 0 : number, number < 0 ? cases : 1, backend);
		return done_testing();
	}
	for (seed = 1; seed <= SEEDS; seed++)
		run_seed(seed, 0, cases, backend);
	if (seconds)
		ucx = coll_backend_available("ucx", NULL, 0) == COLL_SUCCESS;
	for (; ranks_now() < end; seed++)
		run_seed(seed, 0, cases, ucx && seed % 4 == 0 ? "ucx" : backend);
	return done_testing();
}
