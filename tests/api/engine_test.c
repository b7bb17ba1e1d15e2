/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * engine_test.c - backends without a transport, with several ranks: collectives, split, dup,
 * shrink, events on streams, failures.  'engine' has all native slots, 'bare' has the mandatory
 * slots only, 'together' opens the endpoints of all ranks in one call.
 */
#include "../lib/plugin_dir.h"
#include "../plugins/good/coll_engine.h"
#include "../lib/ranks.h"

static int is_engine(const char *backend)
{
	return strcmp(backend, "bare") != 0;
}

static int is_code(struct rank *r, coll_result_t code, coll_result_t want, const char *text,
		   const char *what)
{
	const char *words = coll_get_last_error(NULL);

	if (code != want)
		return rank_fail(r, "%s: %d, not %d (%s)", what, code, want, words);
	return strstr(words, text) || rank_fail(r, "%s: '%s' has no '%s'", what, words, text);
}

static const struct engine_handle *handle_of(coll_comm_t comm)
{
	void *handle = NULL;

	if (coll_comm_native_handle(comm, &handle))
		bail_out("no handle: %s", coll_get_last_error(NULL));
	return handle;
}

/* ------------------------------------------------------------------ collectives -- */

static void collectives(struct rank *r)
{
	float x[5], all[RANKS_MAX * 5];
	int bad = 0;

	for (int round = 0; round < 20; round++) {
		for (int i = 0; i < 5; i++)
			x[i] = (float)(r->rank + i);
		rank_did(r, coll_broadcast(x, x, 5, COLL_FLOAT32, 1, r->comm, NULL), "broadcast");
		rank_did(r, coll_allreduce(x, x, 5, COLL_FLOAT32, COLL_SUM, r->comm, NULL), "sum");
		rank_did(r, coll_allgather(x, all, 5, COLL_FLOAT32, r->comm, NULL), "allgather");
		rank_did(r, coll_barrier(r->comm), "barrier");
		for (int i = 0; i < 5 * r->nranks; i++)
			bad += all[i] != (float)(r->nranks * (1 + i % 5));
	}
	if (bad)
		rank_fail(r, "%d wrong values", bad);
	is_code(r, coll_reduce(x, x, 5, COLL_FLOAT32, COLL_SUM, 0, r->comm, NULL),
		COLL_ERR_UNSUPPORTED, "reduce", "what it has not");
}

/* ---------------------------------------------------------------- split and dup -- */

static void split(struct rank *r)
{
	const char *want = is_engine(r->user) ? "split" : "open";
	int mine = r->rank % 2, n = (r->nranks + 1 - mine) / 2;
	coll_comm_t half, none, deep;

	/* Within each colour the ranks are in reverse order. */
	if (!rank_did(r, coll_comm_split(r->comm, mine, -r->rank, &half, NULL), "split") ||
	    !is_rank(r, half, n - 1 - r->rank / 2, n))
		return;
	if (strcmp(handle_of(half)->made, want) != 0)
		rank_fail(r, "made by %s, not by %s", handle_of(half)->made, want);
	sums_to(r, half, 1, n, "in the half");
	sums_to(r, r->comm, 1, r->nranks, "in the parent");
	/*
	 * Makes a communicator of one rank from a derived communicator, and destroys its parent
	 * first.
	 */
	if (!rank_did(r, coll_comm_split(half, r->rank, 0, &deep, NULL), "nested split"))
		return;
	rank_did(r, coll_comm_destroy(half), "destroy half");
	if (is_rank(r, deep, 0, 1))
		sums_to(r, deep, 7, 7, "alone");
	rank_did(r, coll_comm_destroy(deep), "destroy deep");
	/* One rank has no colour. */
	rank_did(r,
		 coll_comm_split(r->comm, r->rank ? 3 : COLL_SPLIT_NOCOLOR, r->rank, &none, NULL),
		 "split without rank 0");
	if (!r->rank) {
		if (none)
			rank_fail(r, "a communicator without a colour");
		return;
	}
	if (is_rank(r, none, r->rank - 1, r->nranks - 1))
		sums_to(r, none, r->rank, r->nranks * (r->nranks - 1) / 2, "without rank 0");
	rank_did(r, coll_comm_destroy(none), "destroy");
}

/* The split waits for operations under way and does not mix them up with later operations. */
static void dup_behind(struct rank *r)
{
	int64_t x = 1, y = 0;
	coll_comm_t copy;

	rank_did(r, coll_allreduce(&x, &y, 1, COLL_INT64, COLL_SUM, r->comm, NULL), "allreduce");
	if (!rank_did(r, coll_comm_dup(r->comm, &copy), "dup"))
		return;
	if (y != r->nranks)
		rank_fail(r, "the operation before dup is not done");
	if (is_rank(r, copy, r->rank, r->nranks))
		sums_to(r, copy, 2, 2 * r->nranks, "in the copy");
	rank_did(r, coll_comm_destroy(copy), "destroy");
}

static void split_refused(struct rank *r)
{
	coll_comm_t half = r->comm;
	coll_result_t code = coll_comm_split(r->comm, r->rank / 3, 0, &half, NULL);

	is_code(r, code, COLL_ERR_DEVICE, "rank 3: told to refuse so many ranks", "refused");
	if (half)
		rank_fail(r, "a communicator in spite of it");
	sums_to(r, r->comm, 1, r->nranks, "afterwards");
	if (rank_did(r, coll_comm_split(r->comm, r->rank / 4, 0, &half, NULL), "split again"))
		rank_did(r, coll_comm_destroy(half), "destroy");
}

static _Atomic int alone_done;

static void split_alone(struct rank *r)
{
	coll_comm_t half;

	while (r->rank == 1 && atomic_load(&alone_done) < r->nranks - 1)
		ranks_sleep(0.005);
	if (r->rank == 1)
		return;
	is_code(r, coll_comm_split(r->comm, 0, 0, &half, NULL), COLL_ERR_TIMEOUT,
		"timed out: rank 1 of 3 has not been heard from", "one does not split");
	atomic_fetch_add(&alone_done, 1);
}

static void split_left(struct rank *r)
{
	coll_comm_t half;

	if (r->rank != 1)
		is_code(r, coll_comm_split(r->comm, 0, 0, &half, NULL), COLL_ERR_PEER_LOST,
			"rank 1 has left", "one is gone");
}

/* ----------------------------------------------------------------------- shrink -- */

static void shrink(struct rank *r)
{
	const int32_t out[2] = {1, 1};
	int64_t x = 1;
	coll_comm_t left, half;

	if (r->rank == 1) {
		rank_did(r, coll_comm_abort(r->comm), "abort");
		return;
	}
	coll_allreduce(&x, &x, 1, COLL_INT64, COLL_SUM, r->comm, NULL);
	is_code(r, coll_sync(r->comm), COLL_ERR_REMOTE, "rank 1 has ended", "after an abort");
	if (!rank_did(r, coll_comm_shrink(r->comm, out, 2, &left, NULL, 0), "shrink"))
		return;
	if (is_rank(r, left, r->rank ? r->rank - 1 : 0, r->nranks - 1))
		sums_to(r, left, r->rank, r->nranks * (r->nranks - 1) / 2 - 1, "survivors");
	if (strcmp(handle_of(left)->made, "shrink") != 0)
		rank_fail(r, "made by %s", handle_of(left)->made);
	is_code(r, coll_comm_dup(left, &half), COLL_ERR_UNSUPPORTED, "new id", "split of these");
	rank_did(r, coll_comm_destroy(left), "destroy");
}

static void shrink_missing(struct rank *r)
{
	const int32_t out = 0;
	coll_comm_t left;

	if (r->rank)
		is_code(r, coll_comm_shrink(r->comm, &out, 1, &left, NULL, 0), COLL_ERR_UNSUPPORTED,
			"'bare'", "without the slot");
}

/* ----------------------------------------------------------- one thread for all -- */

enum { ALL = 3 };

static void open_all(coll_comm_t *comms, int n, const char *backend)
{
	coll_config_t config;

	ranks_config(&config, backend);
	if (coll_comm_init_all(comms, n, NULL, &config))
		bail_out("init_all: %s", coll_get_last_error(NULL));
}

static void close_all(coll_comm_t *comms, int n)
{
	int bad = 0;

	for (int r = 0; r < n; r++)
		bad += comms[r] && coll_comm_destroy(comms[r]);
	is_int(bad, 0, "destroyed");
}

static int sum_all(coll_comm_t *comms, int n)
{
	int64_t x[ALL] = {1, 1, 1}, y[ALL] = {0};
	int bad = coll_group_start() != 0;

	for (int r = 0; r < n; r++)
		bad += coll_allreduce(&x[r], &y[r], 1, COLL_INT64, COLL_SUM, comms[r], NULL) != 0;
	bad += coll_group_end() != 0;
	for (int r = 0; r < n; r++)
		bad += coll_sync(comms[r]) != 0 || y[r] != n;
	return bad;
}

static void test_one_thread(const char *backend)
{
	coll_comm_t comms[ALL], pair[ALL], copy[ALL];
	int32_t me = -1;
	int bad = 0;

	open_all(comms, ALL, backend);
	is_int(sum_all(comms, ALL), 0, "%s: one thread drives all ranks", backend);
	coll_group_start();
	for (int r = 0; r < ALL; r++) {
		bad += coll_comm_split(comms[r], r == 1, -r, &pair[r], NULL) != 0;
		bad += coll_comm_dup(comms[r], &copy[r]) != 0;
	}
	bad += coll_group_end() != 0;
	is_int(bad, 0, "%s: it splits twice for all of them (%s)", backend,
	       coll_get_last_error(NULL));
	ok(!coll_comm_user_rank(pair[0], &me) && me == 1, "in the order of the keys");
	pair[1] = pair[2];
	is_int(sum_all(pair, 2) + sum_all(copy, ALL), 0, "and drives the new ones");
	coll_comm_destroy(pair[0]);
	coll_comm_destroy(pair[1]);
	close_all(copy, ALL);
	close_all(comms, ALL);
}

/* Makes open fail from this number of ranks on; NULL: open succeeds. */
static void set_refuse(const char *backend, const char *nranks)
{
	const char *name = !strcmp(backend, "bare")     ? "COLL_BARE_REFUSE"
			   : !strcmp(backend, "engine") ? "COLL_ENGINE_REFUSE"
							: "COLL_TOGETHER_REFUSE";

	if (nranks)
		setenv(name, nranks, 1);
	else
		unsetenv(name);
}

/* ------------------------------------------------------------- opened in one call -- */

/*
 * Which function of the backend made the endpoints, for which devices, and did this thread call it?
 */
static void test_made(const char *backend, const char *how, int here)
{
	const int32_t devices[ALL] = {5, 3, 4};
	coll_comm_t comms[ALL] = {NULL};
	const struct engine_handle *h;
	coll_config_t config;
	int bad = 0;

	ranks_config(&config, backend);
	is_int(coll_comm_init_all(comms, ALL, devices, &config), 0, "%s: init_all", backend);
	for (int r = 0; r < ALL; r++) {
		h = handle_of(comms[r]);
		bad += strcmp(h->made, how) || h->device != devices[r] ||
		       (h->thread == (int)gettid()) != here;
	}
	is_int(bad, 0, "%s: made by %s in %s thread", backend, how, here ? "this" : "another");
	is_int(sum_all(comms, ALL), 0, "and they work");
	close_all(comms, ALL);
}

static void test_refused(const char *backend, const char *text)
{
	coll_comm_t comms[ALL];
	coll_config_t config;
	int left = 0;

	memset(comms, 1, sizeof(comms));
	ranks_config(&config, backend);
	set_refuse(backend, "3");
	is_int(coll_comm_init_all(comms, ALL, NULL, &config), COLL_ERR_DEVICE,
	       "%s: a failure while all are opened", backend);
	is_str(coll_get_last_error(NULL), text, "has its words");
	for (int r = 0; r < ALL; r++)
		left += comms[r] != NULL;
	is_int(left, 0, "and leaves no communicator");
	open_all(comms, 2, backend);
	is_int(sum_all(comms, 2), 0, "fewer ranks are opened");
	close_all(comms, 2);
	set_refuse(backend, NULL);
}

static void test_together(void)
{
	test_made("engine", "open", 0);
	test_made("together", "open_all", 1);
	test_refused("engine", "rank 0: told to refuse so many ranks");
	test_refused("together", "told to refuse so many ranks");
}

/* ----------------------------------------------------------------------- events -- */

static coll_result_t add(int64_t *x, int64_t *y, coll_comm_t comm, coll_stream_t stream)
{
	return coll_allreduce(x, y, 1, COLL_INT64, COLL_SUM, comm, stream);
}

/* A chain over three streams of rank 0: each call reads the result of the call before. */
static void test_event_chain(coll_comm_t *comms)
{
	const struct engine_handle *h = handle_of(comms[0]);
	int64_t x[4] = {1, 0, 0, 0}, other[4] = {1, 1, 1, 1};
	coll_event_t first, second, third;
	int bad = 0;

	bad += coll_event_create(comms[0], &first) != 0;
	bad += coll_event_create(comms[0], &second) != 0;
	bad += coll_event_create(comms[0], &third) != 0;
	is_int(coll_event_query(first), 0, "never recorded: complete");
	bad += add(&x[0], &x[1], comms[0], h->stream[0]) != 0;
	bad += coll_event_record_on_stream(first, comms[0], h->stream[0]) != 0;
	bad += coll_comm_wait_event(comms[0], first) != 0;
	bad += add(&x[1], &x[2], comms[0], NULL) != 0;
	bad += coll_event_record(second, comms[0]) != 0;
	bad += coll_stream_wait_event(comms[0], h->stream[1], second) != 0;
	bad += add(&x[2], &x[3], comms[0], h->stream[1]) != 0;
	bad += coll_event_record_on_stream(third, comms[0], h->stream[1]) != 0;
	is_int(bad, 0, "three streams in a chain (%s)", coll_get_last_error(NULL));
	is_int(coll_event_query(first), COLL_IN_PROGRESS, "nothing is done yet");
	is_int(coll_event_query(third), COLL_IN_PROGRESS, "nor at the end");
	for (int i = 0; i < 3; i++)
		bad += add(&other[i], &other[3], comms[1], NULL) != 0;
	is_int(coll_event_synchronize(third), 0, "until the other rank makes its calls");
	ok(!bad && x[1] == 2 && x[2] == 3 && x[3] == 4, "in the chain's order: %d %d %d", (int)x[1],
	   (int)x[2], (int)x[3]);
	is_int(coll_event_query(first), 0, "the first is complete");
	is_int(coll_sync(comms[0]) + coll_sync(comms[1]), 0, "sync");
	is_int(coll_event_destroy(first) + coll_event_destroy(second) + coll_event_destroy(third),
	       0, "destroyed");
}

/* Without a stream the calling thread waits. */
static void test_event_thread(coll_comm_t *comms)
{
	int64_t x = 1, y[2] = {0, 0};
	coll_event_t event;
	int bad = coll_event_create(comms[0], &event) != 0;

	bad += add(&x, &y[0], comms[0], NULL) != 0;
	bad += coll_event_record(event, comms[0]) != 0;
	is_int(coll_event_query(event), COLL_IN_PROGRESS, "recorded behind a call");
	bad += add(&x, &y[1], comms[1], NULL) != 0;
	bad += coll_stream_wait_event(comms[1], NULL, event) != 0;
	ok(!bad && y[0] == 2, "the calling thread waits for it");
	bad += add(&x, &y[0], comms[0], NULL) != 0;
	bad += coll_event_record_on_stream(event, comms[0], NULL) != 0;
	is_int(coll_event_query(event), 0, "what the thread has done is done");
	bad += add(&x, &y[1], comms[1], NULL) != 0;
	is_int(bad + coll_sync(comms[0]) + coll_sync(comms[1]), 0, "sync");
	bad += coll_event_destroy(event) != 0;
}

static void test_event_misuse(coll_comm_t *comms)
{
	coll_comm_t bare;
	coll_event_t event, plain;
	int64_t x = 1;

	open_all(&bare, 1, "bare");
	is_int(coll_event_create(comms[0], &event) + coll_event_create(bare, &plain), 0, "events");
	is_int(coll_event_record(event, bare), COLL_ERR_INVALID_ARGUMENT, "another backend");
	ok(strstr(coll_get_last_error(NULL), "do not cross backends") != NULL, "is told so: %s",
	   coll_get_last_error(NULL));
	is_int(coll_comm_wait_event(comms[0], plain), COLL_ERR_INVALID_ARGUMENT, "either way");
	is_int(coll_event_record_on_stream(plain, bare, &x), COLL_ERR_INVALID_ARGUMENT,
	       "a stream of a backend that has none");
	coll_group_start();
	add(&x, &x, comms[0], NULL);
	is_int(coll_event_record(event, comms[0]), COLL_ERR_INVALID_USAGE,
	       "in a group behind its calls");
	coll_group_end();
	add(&x, &x, comms[1], NULL);
	is_int(coll_sync(comms[0]) + coll_sync(comms[1]), 0, "which does no harm");
	is_int(coll_event_destroy(plain) + coll_comm_destroy(bare), 0, "destroyed");
	/* The event outlives its communicator. */
	is_int(coll_event_record(event, comms[0]), 0, "recorded");
	close_all(comms, 2);
	is_int(coll_event_query(event), 0, "an event without its communicator");
	is_int(coll_event_destroy(event), 0, "is destroyed after it");
}

static void test_events(void)
{
	coll_comm_t comms[2];

	open_all(comms, 2, "engine");
	test_event_chain(comms);
	test_event_thread(comms);
	test_event_misuse(comms);
}

/* --------------------------------------------------------------------- failures -- */

struct waiter {
	coll_comm_t comm;
	coll_event_t event; /* the event to wait for, or NULL: coll_sync */
	coll_result_t code;
	_Atomic int waits;
};

static void *wait_for_it(void *arg)
{
	struct waiter *w = arg;

	atomic_store(&w->waits, 1);
	w->code = w->event ? coll_event_synchronize(w->event) : coll_sync(w->comm);
	return NULL;
}

/* One thread waits for a call that the other rank never makes; another thread aborts the wait. */
static void test_abort(const char *backend, int on_event)
{
	struct waiter w = {.code = -1};
	coll_comm_t comms[2];
	int64_t x = 1, y = 1;
	pthread_t thread;

	open_all(comms, 2, backend);
	w.comm = comms[0];
	add(&x, &x, comms[0], NULL);
	if (on_event &&
	    (coll_event_create(comms[0], &w.event) || coll_event_record(w.event, w.comm)))
		bail_out("no event: %s", coll_get_last_error(NULL));
	if (pthread_create(&thread, NULL, wait_for_it, &w))
		bail_out("cannot start a thread");
	while (!atomic_load(&w.waits))
		ranks_sleep(0.001);
	ranks_sleep(0.2);
	is_int(coll_comm_abort(comms[0]), 0, "%s: abort while a thread waits", backend);
	pthread_join(thread, NULL);
	ok(w.code == COLL_ERR_ABORTED || (on_event && w.code == COLL_ERR_REMOTE),
	   "which ends its wait: %d", w.code);
	add(&y, &y, comms[1], NULL);
	is_int(coll_sync(comms[1]), COLL_ERR_REMOTE, "the other rank is told by the engine");
	if (w.event)
		is_int(coll_event_destroy(w.event), 0, "the event is destroyed");
	close_all(comms, 2);
}

struct splitter {
	pthread_t thread;
	coll_comm_t comm, made;
	coll_result_t code;
	char text[200];
};

static void *split_it(void *arg)
{
	struct splitter *s = arg;

	s->code = coll_comm_split(s->comm, 0, 0, &s->made, NULL);
	snprintf(s->text, sizeof(s->text), "%s", coll_get_last_error(NULL));
	return NULL;
}

static void split_begin(struct splitter *s, coll_comm_t comm)
{
	*s = (struct splitter){.comm = comm};
	if (pthread_create(&s->thread, NULL, split_it, s))
		bail_out("cannot start a thread");
}

static void split_abort(struct splitter *s, const char *text, const char *what)
{
	const double begin = ranks_now();

	is_int(coll_comm_abort(s->comm), 0, "%s: aborted", what);
	pthread_join(s->thread, NULL);
	ok(ranks_now() - begin < 20, "which does not wait for the other ranks: %.1f s",
	   ranks_now() - begin);
	is_int(s->code, COLL_ERR_ABORTED, "and ends the split");
	ok(!s->made && strstr(s->text, text), "in these words: %s", s->text);
}

struct opener {
	pthread_t thread;
	const char *id;
	coll_comm_t comm;
	int rank;
};

static void *open_it(void *arg)
{
	struct opener *o = arg;
	coll_config_t config;

	ranks_config(&config, "engine");
	if (coll_comm_init_rank(&o->comm, 2, o->id, o->rank, &config))
		bail_out("init_rank: %s", coll_get_last_error(NULL));
	return NULL;
}

/* Makes the communicators as processes do, by a unique id. */
static void open_each(coll_comm_t comms[2])
{
	char id[COLL_UNIQUE_ID_SIZE];
	struct opener o[2];

	if (coll_get_unique_id(id, sizeof(id)))
		bail_out("no id");
	for (int r = 0; r < 2; r++) {
		o[r] = (struct opener){.id = id, .rank = r};
		if (pthread_create(&o[r].thread, NULL, open_it, &o[r]))
			bail_out("cannot start a thread");
	}
	for (int r = 0; r < 2; r++) {
		pthread_join(o[r].thread, NULL);
		comms[r] = o[r].comm;
	}
}

/* Aborts a split that the other rank does not make. */
static void test_abort_split(int rank, int each)
{
	coll_comm_t comms[2];
	struct splitter s;

	if (each)
		open_each(comms);
	else
		open_all(comms, 2, "engine");
	split_begin(&s, comms[rank]);
	ranks_sleep(0.3);
	split_abort(&s, rank ? "rank 1 aborted" : "rank 0 aborted",
		    each ? "a split over tcp" : "a split in memory");
	close_all(comms, 2);
}

/* Both ranks have begun the split, and one waits for the other inside the backend. */
static void test_abort_backend(void)
{
	coll_comm_t comms[2];
	struct splitter s[2];

	setenv("COLL_ENGINE_DAWDLE", "yes", 1);
	open_all(comms, 2, "engine");
	unsetenv("COLL_ENGINE_DAWDLE");
	split_begin(&s[0], comms[0]);
	split_begin(&s[1], comms[1]);
	ranks_sleep(0.5);
	split_abort(&s[0], "rank 0 aborted", "in an exchange of the backend's");
	split_abort(&s[1], "", "in the backend");
	close_all(comms, 2);
}

static void test_timeout(void)
{
	coll_comm_t comms[2];
	coll_event_t event;
	int64_t x = 1;

	setenv("COLL_TIMEOUT", "300ms", 1);
	open_all(comms, 2, "engine");
	unsetenv("COLL_TIMEOUT");
	is_int(coll_event_create(comms[0], &event), 0, "an event");
	add(&x, &x, comms[0], NULL);
	is_int(coll_event_record(event, comms[0]), 0, "behind a call that nobody else makes");
	is_int(coll_event_synchronize(event), COLL_ERR_TIMEOUT, "is waited for so long: %s",
	       coll_get_last_error(NULL));
	has_str(coll_get_last_error(NULL), "timed out", "the text says so");
	is_int(coll_sync(comms[0]), COLL_ERR_TIMEOUT, "and so is the call: %s",
	       coll_get_last_error(NULL));
	is_int(coll_event_destroy(event), 0, "destroyed");
	close_all(comms, 2);
}

/* ------------------------------------------------------------------------- main -- */

static void test_ranks(const char *backend)
{
	char name[32];

	snprintf(name, sizeof(name), "%s", backend);
	for (int n = 2; n <= 5; n++) {
		const struct ranks_job all = {name, n, 0, collectives, name};
		const struct ranks_job parts = {name, n, 0, split, name};
		const struct ranks_job copy = {name, n, 0, dup_behind, name};

		ranks_ok(&all, "collectives");
		ranks_ok(&parts, "split");
		ranks_ok(&copy, "dup behind an operation");
	}
	const struct ranks_job served = {name, 3, 0, split, name};
	const struct ranks_job refused = {name, 5, 0, split_refused, name};
	const struct ranks_job absent = {name, 3, 0, split_alone, name};
	const struct ranks_job gone = {name, 3, 0, split_left, name};
	const struct ranks_job left = {name, 4, 0, is_engine(backend) ? shrink : shrink_missing,
				       name};

	setenv("COLL_PROGRESS", "thread", 1);
	ranks_ok(&served, "split with progress = thread");
	unsetenv("COLL_PROGRESS");
	set_refuse(backend, "2");
	ranks_ok(&refused, "all learn of one that fails in a split");
	set_refuse(backend, NULL);
	ranks_ok(&gone, "a split after one rank has gone");
	atomic_store(&alone_done, 0);
	setenv("COLL_INIT_TIMEOUT", "1s", 1);
	ranks_ok(&absent, "a split that one rank does not make");
	unsetenv("COLL_INIT_TIMEOUT");
	ranks_ok(&left, "shrink");
	test_one_thread(backend);
	test_abort(backend, 0);
}

int main(void)
{
	plugin_dir_begin();
	place("coll_engine.so", "coll_engine.so");
	place("coll_bare.so", "coll_bare.so");
	place("coll_together.so", "coll_together.so");
	setenv("COLL_PLUGIN_PATH", at(""), 1);
	test_ranks("engine");
	test_ranks("bare");
	test_ranks("together");
	test_together();
	test_events();
	test_abort("engine", 1);
	for (int rank = 0; rank < 2; rank++)
		for (int each = 0; each < 2; each++)
			test_abort_split(rank, each);
	test_abort_backend();
	test_timeout();
	plugin_dir_end();
	return done_testing();
}
