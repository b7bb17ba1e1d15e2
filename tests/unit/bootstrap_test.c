/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap_test.c - ranks find each other and exchange: in memory, over TCP, over the caller's
 * function.
 */
#include "meet/tree.h"
#include "base/error.h"
#include "bootstrap_harness.h"

#include <netdb.h>
#include <stdatomic.h>

/* ------------------------------------------------------------------- in memory -- */

struct local_rank {
	pthread_t thread;
	struct bootstrap *bootstrap;
	int code;
	char text[TEXT];
	int64_t timeout_ms;
};

static void *local_work(void *arg)
{
	struct local_rank *rank = arg;

	rank->code = check_meeting(rank->bootstrap, NULL);
	if (rank->code)
		snprintf(rank->text, sizeof(rank->text), "%s", error_text());
	bootstrap_close(rank->bootstrap);
	return NULL;
}

static void test_local(int n)
{
	struct local_rank ranks[16];
	struct bootstrap *bootstraps[16];
	int failed = 0;

	is_int(bootstrap_open_local(bootstraps, n), 0, "%d ranks in memory", n);
	ok(bootstrap_in_process(bootstraps[n - 1]), "they know that they share a process");
	for (int r = 0; r < n; r++) {
		ranks[r] = (struct local_rank){.bootstrap = bootstraps[r]};
		pthread_create(&ranks[r].thread, NULL, local_work, &ranks[r]);
	}
	for (int r = 0; r < n; r++) {
		pthread_join(ranks[r].thread, NULL);
		failed += ranks[r].code != 0;
		if (ranks[r].code)
			diag("rank %d: %s", r, ranks[r].text);
	}
	is_int(failed, 0, "%d ranks in memory exchange", n);
}

static void *local_exchange_once(void *arg)
{
	struct local_rank *rank = arg;
	int in = 1, out[8];

	rank->code = bootstrap_exchange(rank->bootstrap, &in, out, sizeof(in), rank->timeout_ms);
	snprintf(rank->text, sizeof(rank->text), "%s", error_text());
	return NULL;
}

static void test_local_timeout(void)
{
	struct bootstrap *bootstraps[8];
	struct local_rank one = {.timeout_ms = 300};
	int in = 1, out[8];

	bootstrap_open_local(bootstraps, 8);
	one.bootstrap = bootstraps[1];
	pthread_create(&one.thread, NULL, local_exchange_once, &one);
	pthread_join(one.thread, NULL);
	is_int(one.code, COLL_ERR_TIMEOUT, "a rank alone in memory times out");
	is_str(one.text, "timed out: ranks 0, 2-7 of 8 have not been heard from after 0.3 s",
	       "the others are named");
	is_int(bootstrap_exchange(bootstraps[0], &in, out, sizeof(in), LONG_MS), COLL_ERR_TIMEOUT,
	       "a latecomer gets the same error");
	is_int(bootstrap_exchange(bootstraps[1], &in, out, sizeof(in), LONG_MS), COLL_ERR_TIMEOUT,
	       "and it stays");
	for (int r = 0; r < 8; r++)
		bootstrap_close(bootstraps[r]);
}

static void test_local_leaving(void)
{
	struct bootstrap *bootstraps[2];
	struct local_rank one = {.timeout_ms = LONG_MS};

	bootstrap_open_local(bootstraps, 2);
	one.bootstrap = bootstraps[0];
	pthread_create(&one.thread, NULL, local_exchange_once, &one);
	pause_ms(20);
	bootstrap_close(bootstraps[1]);
	pthread_join(one.thread, NULL);
	is_int(one.code, COLL_ERR_PEER_LOST, "a rank in memory that leaves is an error");
	has_str(one.text, "rank 1 has left", "that names it");
	bootstrap_close(bootstraps[0]);
}

static void test_local_mismatch(void)
{
	struct bootstrap *bootstraps[2];
	struct local_rank one = {.timeout_ms = LONG_MS};
	char in[9] = "", out[18];
	int code;

	bootstrap_open_local(bootstraps, 2);
	one.bootstrap = bootstraps[0];
	pthread_create(&one.thread, NULL, local_exchange_once, &one);
	code = bootstrap_exchange(bootstraps[1], in, out, 9, LONG_MS);
	pthread_join(one.thread, NULL);
	is_int(code, COLL_ERR_MISMATCH, "lengths differ in memory");
	is_int(one.code, COLL_ERR_MISMATCH, "both see it");
	bootstrap_close(bootstraps[0]);
	bootstrap_close(bootstraps[1]);
}

static void test_too_long(void)
{
	struct bootstrap *bootstraps[4];
	char in[1] = "", out[4];

	bootstrap_open_local(bootstraps, 4);
	is_int(bootstrap_exchange(bootstraps[0], in, out, SIZE_MAX / 2 / 4 + 1, LONG_MS),
	       COLL_ERR_INVALID_ARGUMENT, "pieces that fit in memory for fewer ranks only");
	has_str(error_text(), "bytes from each of 4 ranks do not fit in memory", "is told");
	for (int r = 0; r < 4; r++)
		bootstrap_close(bootstraps[r]);
}

/* -------------------------------------------------------------------- over TCP -- */

/* Rank 0 is this process, which has made the id; the other ranks are children. */
static int run_all(const struct rank_args *args)
{
	struct rank_child children[64];
	struct rank_result result;
	int failed = 0;

	for (int r = 0; r < args->nranks; r++)
		if (r != args->maker)
			children[r] = rank_spawn(args, r);
	/* First this process's own rank, for which the others wait. */
	for (int i = 0; i < args->nranks; i++) {
		int r = i == 0 ? args->maker : i <= args->maker ? i - 1 : i;

		result = i == 0 ? rank_run(args, r) : rank_collect(children[r]);
		if (result.code)
			diag("rank %d: %s", r, result.text);
		failed += result.code != 0;
	}
	return failed;
}

/* arg: not NULL if only the ranks know the key. */
static int work_in_process(struct bootstrap *bootstrap, void *arg)
{
	int code = check_meeting(bootstrap, NULL);

	if (code == 0 && bootstrap_key_is_secret(bootstrap) != (arg != NULL))
		code = error_set(COLL_ERR_INTERNAL, "wrong about who may know the key");
	if (code == 0 && bootstrap_in_process(bootstrap) != (bootstrap_nranks(bootstrap) == 1))
		code = error_set(COLL_ERR_INTERNAL, "wrong about who shares a process");
	return code;
}

/* maker: the rank that made the id. */
static void test_id(int n, int maker, const char *interface_name)
{
	char id[COLL_UNIQUE_ID_SIZE];
	struct rank_args args = {.id = id,
				 .maker = maker,
				 .nranks = n,
				 .timeout_ms = LONG_MS,
				 .work = work_in_process,
				 .arg = id,
				 .interface_name = interface_name};

	if (!ok(bootstrap_make_id(id, sizeof(id), interface_name) == 0, "an id%s%s",
		interface_name ? " for " : "", interface_name ? interface_name : ""))
		diag("%s", error_text());
	ok(strlen(id) < 128, "it has %zu bytes", strlen(id) + 1);
	is_int(run_all(&args), 0, "%d processes meet by an id of rank %d", n, maker);
}

/* Of more addresses than have space in an id it has the first ones and this host's. */
static void test_many_addresses(void)
{
	static const char *const text[] = {"10.83.0.2:4000",
					   "192.168.100.200:4000",
					   "[2001:db8::1:2:3:4]:4000",
					   "[2001:db8::5]:4000",
					   "[2001:db8:1:2:3:4:5:6]:4000",
					   "[2001:db8:ffff::9]:4000",
					   "127.0.0.1:4000",
					   "[::1]:4000"};
	static const int kept[] = {0, 1, 2, 3, 4, 6, 7};
	const uint8_t key[BOOTSTRAP_KEY_SIZE] = "0123456789abcde";
	uint8_t read_key[BOOTSTRAP_KEY_SIZE];
	struct address_list list = {.count = 8}, read;
	char id[COLL_UNIQUE_ID_SIZE], one[ADDRESS_TEXT_SIZE];

	for (int i = 0; i < list.count; i++)
		if (address_parse(text[i], "address", &list.item[i]))
			bail_out("%s", error_text());
	is_int(unique_id_print(key, &list, id, 128), 0, "an id of many addresses");
	is_int(unique_id_parse(id, read_key, &read), 0, "is read: %s", id);
	ok(memcmp(key, read_key, sizeof(key)) == 0, "its key");
	is_int(read.count, 7, "all but one of its addresses");
	ok(read.more && strcmp(list.left_out, text[5]) == 0, "which is told");
	for (int i = 0; i < read.count; i++) {
		address_format(&read.item[i], one);
		is_str(one, text[kept[i]], "address %d", i);
	}
	list.count = 2;
	address_set_port(&list.item[1], 4001);
	ok(!unique_id_print(key, &list, id, sizeof(id)) && !unique_id_parse(id, read_key, &read) &&
		   read.count == 2 && address_port(&read.item[0]) == 4000 &&
		   address_port(&read.item[1]) == 4001,
	   "each address has its port");
	is_int(unique_id_print(key, &list, id, strlen(id)), COLL_ERR_INVALID_ARGUMENT,
	       "a byte too few");
}

static void test_root(const char *host, int n, const char *key)
{
	char root[64];
	struct rank_args args = {.root = root,
				 .nranks = n,
				 .key = key,
				 .timeout_ms = LONG_MS,
				 .work = work_in_process,
				 .arg = (void *)(uintptr_t)key};

	snprintf(root, sizeof(root), "%s:%d", host, free_port());
	is_int(run_all(&args), 0, "%d processes meet at %s", n, host);
	is_int(run_all(&args), 0, "and once more at the same port");
}

/* The host's own address is in /etc/hosts, which a container may lack. */
static int have_localhost(void)
{
	struct addrinfo *list;

	if (getaddrinfo("localhost", NULL, NULL, &list))
		return 0;
	freeaddrinfo(list);
	return 1;
}

static void *thread_rank(void *arg)
{
	struct local_rank *rank = arg;

	rank->code =
		bootstrap_in_process(rank->bootstrap) ? check_meeting(rank->bootstrap, NULL) : -1;
	return NULL;
}

struct thread_open {
	pthread_t thread;
	const char *id;
	int rank, code;
	int any; /* whoever comes first has the part of the id's maker */
};

static void *thread_open(void *arg)
{
	struct thread_open *o = arg;
	struct local_rank rank = {0};

	o->code = o->any ? bootstrap_open_id(&rank.bootstrap,
					     &(struct bootstrap_id){.text = o->id, .maker = -1},
					     o->rank, 4, NULL, LONG_MS)
			 : bootstrap_open_id(&rank.bootstrap, &(struct bootstrap_id){.text = o->id},
					     o->rank, 4, NULL, LONG_MS);
	if (o->code == 0) {
		thread_rank(&rank);
		o->code = rank.code;
	}
	bootstrap_close(rank.bootstrap);
	return NULL;
}

static void test_id_threads(int any)
{
	char id[COLL_UNIQUE_ID_SIZE];
	struct thread_open ranks[4];
	int failed = 0;

	bootstrap_make_id(id, sizeof(id), NULL);
	for (int r = 0; r < 4; r++) {
		ranks[r] = (struct thread_open){.id = id, .rank = any ? 3 - r : r, .any = any};
		pthread_create(&ranks[r].thread, NULL, thread_open, &ranks[r]);
	}
	for (int r = 0; r < 4; r++) {
		pthread_join(ranks[r].thread, NULL);
		failed += ranks[r].code != 0;
	}
	is_int(failed, 0, "threads meet by an id, and know that they share a process");
}

/* Large pieces do not fit into a socket's buffer. */
static int work_large(struct bootstrap *bootstrap, void *arg)
{
	size_t len = 3 << 20, n = (size_t)bootstrap_nranks(bootstrap);
	char *in = malloc(len), *out = malloc(n * len);
	int code, bad = 0;

	(void)arg;
	memset(in, 'a' + bootstrap_rank(bootstrap), len);
	code = bootstrap_exchange(bootstrap, in, out, len, LONG_MS);
	for (size_t i = 0; code == 0 && i < n * len; i++)
		bad += out[i] != (char)('a' + i / len);
	free(in);
	free(out);
	return bad ? error_set(COLL_ERR_INTERNAL, "%d wrong bytes", bad) : code;
}

static void test_large(void)
{
	char id[COLL_UNIQUE_ID_SIZE];
	struct rank_args args = {.id = id, .nranks = 5, .timeout_ms = LONG_MS, .work = work_large};

	bootstrap_make_id(id, sizeof(id), "");
	is_int(run_all(&args), 0, "pieces of 3 MiB");
}

/* ------------------------------------------------------- the caller's function -- */

static int32_t user_fn(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	return bootstrap_exchange(user, in, out, len, timeout_ms);
}

static int32_t user_failing(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	(void)user, (void)in, (void)out, (void)len, (void)timeout_ms;
	return 42;
}

static void *user_rank(void *arg)
{
	struct local_rank *rank = arg;
	struct bootstrap *bootstrap;

	rank->code = bootstrap_open_user(&bootstrap, user_fn, rank->bootstrap,
					 bootstrap_rank(rank->bootstrap),
					 bootstrap_nranks(rank->bootstrap), LONG_MS);
	if (rank->code == 0)
		rank->code = check_meeting(bootstrap, NULL);
	bootstrap_close(bootstrap);
	bootstrap_close(rank->bootstrap);
	return NULL;
}

static void test_user(int n)
{
	struct local_rank ranks[16];
	struct bootstrap *bootstraps[16];
	int failed = 0;

	bootstrap_open_local(bootstraps, n);
	for (int r = 0; r < n; r++) {
		ranks[r] = (struct local_rank){.bootstrap = bootstraps[r]};
		pthread_create(&ranks[r].thread, NULL, user_rank, &ranks[r]);
	}
	for (int r = 0; r < n; r++) {
		pthread_join(ranks[r].thread, NULL);
		failed += ranks[r].code != 0;
	}
	is_int(failed, 0, "%d ranks meet over the caller's exchange", n);
}

static void test_user_failing(void)
{
	struct bootstrap *bootstrap;

	is_int(bootstrap_open_user(&bootstrap, user_failing, NULL, 0, 2, LONG_MS), COLL_ERR_REMOTE,
	       "the caller's exchange fails");
	has_str(error_text(), "the application's exchange returned 42 on rank 0", "its result");
	ok(bootstrap == NULL, "and there is no boot");
}

/* Plays both ranks' blocks.  Byte 8 of a block holds the length of the piece in it. */
enum { BLOCK = 512 };

struct liar {
	int lying;
};

static int32_t liar_exchange(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	struct liar *liar = user;

	(void)timeout_ms;
	memcpy(out, in, len);
	memcpy((char *)out + len, in, len);
	for (int r = 0; liar->lying && r < 2; r++)
		memset((char *)out + r * BLOCK + 8, 0, sizeof(uint64_t));
	return 0;
}

/* An application's function that swaps the ranks, or alters the head of a block. */
static void test_altered_head(void)
{
	struct liar liar = {.lying = 0};
	struct bootstrap *bootstrap;
	char in[8] = "", out[16];

	if (bootstrap_open_user(&bootstrap, liar_exchange, &liar, 0, 2, LONG_MS))
		bail_out("%s", error_text());
	liar.lying = 1;
	is_int(bootstrap_exchange(bootstrap, in, out, sizeof(in), LONG_MS), COLL_ERR_REMOTE,
	       "the length of a piece is altered on the way");
	has_str(error_text(), "the first bytes of rank 0 came back to it as others", "is told");
	bootstrap_close(bootstrap);
}

/* Of the calls of an exchange; each takes a while. */
struct slow {
	int calls;
	int64_t timeout_ms[2];
};

enum { SLOW_MS = 20 };

static int32_t slow_exchange(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	struct slow *slow = user;

	if (slow->calls < 2)
		slow->timeout_ms[slow->calls] = timeout_ms;
	slow->calls++;
	memcpy(out, in, len);
	memcpy((char *)out + len, in, len);
	pause_ms(SLOW_MS);
	return 0;
}

/* A long piece takes two calls of the application's function: the second gets the time that is left. */
static void test_time_left(void)
{
	static char in[4 * BLOCK], out[2 * sizeof(in)];
	struct bootstrap *bootstrap;
	struct slow slow = {0};

	if (bootstrap_open_user(&bootstrap, slow_exchange, &slow, 0, 2, LONG_MS))
		bail_out("%s", error_text());
	slow.calls = 0;
	is_int(bootstrap_exchange(bootstrap, in, out, sizeof(in), LONG_MS), 0, "a long piece");
	is_int(slow.calls, 2, "two calls");
	ok(slow.timeout_ms[1] <= slow.timeout_ms[0] - SLOW_MS,
	   "the first may take %d ms, the second %d ms", (int)slow.timeout_ms[0],
	   (int)slow.timeout_ms[1]);
	bootstrap_close(bootstrap);
}

/* Rank 1 fills all facts about itself. */
static int32_t filled_exchange(void *user, const void *in, void *out, size_t len,
			       int64_t timeout_ms)
{
	char *blocks = out;

	(void)user;
	(void)timeout_ms;
	memcpy(blocks, in, len);
	memcpy(blocks + len, in, len);
	memset(blocks + len + 16, 'x', sizeof(struct bootstrap_peer));
	return 0;
}

static void test_host_without_end(void)
{
	const struct bootstrap_peer *peer;
	struct bootstrap *bootstrap;

	if (bootstrap_open_user(&bootstrap, filled_exchange, NULL, 0, 2, LONG_MS))
		bail_out("%s", error_text());
	peer = bootstrap_peer(bootstrap, 1);
	ok(peer->host[0] == 'x' && memchr(peer->host, '\0', sizeof(peer->host)),
	   "a rank's host name without an end gets one");
	bootstrap_close(bootstrap);
}

/* ------------------------------------------------------------------- giving up -- */

static _Atomic int aborted;

static void *abort_soon(void *arg)
{
	(void)arg;
	pause_ms(300);
	atomic_store(&aborted, 1);
	return NULL;
}

/* Another thread aborts a rank that waits for peers in vain. */
static void test_watch(int rank)
{
	char id[COLL_UNIQUE_ID_SIZE];
	struct bootstrap *parents[2], *bootstrap = NULL;
	pthread_t thread;
	int64_t begin = clock_now_ms();
	int code;

	atomic_store(&aborted, 0);
	if (bootstrap_open_local(parents, 2) || bootstrap_make_id(id, sizeof(id), NULL) ||
	    pthread_create(&thread, NULL, abort_soon, NULL))
		bail_out("%s", error_text());
	bootstrap_watch(parents[rank], &aborted);
	code = bootstrap_open_id(&bootstrap,
				 &(struct bootstrap_id){.text = id, .parent = parents[rank]}, rank,
				 2, NULL, LONG_MS);
	is_int(code, COLL_ERR_ABORTED, "rank %d, which meets nobody, is aborted", rank);
	diag("%s", error_text());
	ok(bootstrap == NULL && clock_now_ms() - begin < LONG_MS / 2,
	   "long before its time is out");
	code = bootstrap_exchange(parents[rank], &rank, parents, 0, LONG_MS);
	is_int(code, COLL_ERR_ABORTED, "its first rendezvous is over too");
	code = bootstrap_exchange(parents[!rank], &rank, parents, 0, LONG_MS);
	is_int(code, COLL_ERR_REMOTE, "and the other rank there");
	ok(strstr(error_text(), rank ? "rank 1 aborted" : "rank 0 aborted") != NULL, "is told: %s",
	   error_text());
	pthread_join(thread, NULL);
	bootstrap_close(parents[0]);
	bootstrap_close(parents[1]);
	if (rank &&
	    !bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = id}, 0, 1, NULL, LONG_MS))
		bootstrap_close(bootstrap);
}

/*
 * Rank 1 is aborted when it enters an exchange or, with an argument, while it waits for the table, since rank 2 comes
 * late: nobody has aborted the others.
 */
static int work_aborted(struct bootstrap *bootstrap, void *arg)
{
	const int rank = bootstrap_rank(bootstrap);
	pthread_t thread;
	int all[64], code;

	atomic_store(&aborted, !arg);
	if (rank == 1)
		bootstrap_watch(bootstrap, &aborted);
	if (rank == 1 && arg && pthread_create(&thread, NULL, abort_soon, NULL))
		return error_set(COLL_ERR_SYSTEM, "no thread");
	if (rank == 2 && arg)
		pause_ms(800);
	code = bootstrap_exchange(bootstrap, &rank, all, sizeof(rank), LONG_MS);
	if (rank == 1 && arg)
		pthread_join(thread, NULL);
	if (code == (rank == 1 ? COLL_ERR_ABORTED : COLL_ERR_REMOTE) &&
	    strstr(error_text(), "rank 1 aborted the communicator"))
		return 0;
	return error_set(COLL_ERR_INTERNAL, "got %d: %.200s", code, code ? error_text() : "");
}

static void test_watch_tcp(void)
{
	char id[COLL_UNIQUE_ID_SIZE];
	struct rank_args args = {
		.id = id, .nranks = 5, .timeout_ms = LONG_MS, .work = work_aborted};

	bootstrap_make_id(id, sizeof(id), NULL);
	is_int(run_all(&args), 0, "a rank over TCP is aborted: the others hear who, as a failure");
	/* In a tree rank 2 may be above rank 1: it sends the piece of rank 1, and only then reads of the failure. */
	if (getenv("TEST_TREE_FAN"))
		return;
	bootstrap_make_id(id, sizeof(id), NULL);
	args.arg = id;
	is_int(run_all(&args), 0, "a rank that has sent its piece is aborted: the same");
}

static int guard_failed(void *user)
{
	const int64_t *end_ms = user;

	return clock_now_ms() < *end_ms ? COLL_SUCCESS
					: error_set(COLL_ERR_REMOTE, "rank 7 has failed");
}

/* A guard, which belongs to the derived bootstrap too, ends waits with its own error. */
static void test_guard(int rank)
{
	int64_t begin = clock_now_ms(), end = begin + 300;
	struct bootstrap *parents[2], *bootstrap = NULL;
	char id[COLL_UNIQUE_ID_SIZE];
	int code;

	if (bootstrap_open_local(parents, 2) || bootstrap_make_id(id, sizeof(id), NULL))
		bail_out("%s", error_text());
	bootstrap_guard(parents[rank], guard_failed, &end);
	code = bootstrap_open_id(&bootstrap,
				 &(struct bootstrap_id){.text = id, .parent = parents[rank]}, rank,
				 2, NULL, LONG_MS);
	is_int(code, COLL_ERR_REMOTE, "rank %d, which meets nobody, gets its guard's code", rank);
	ok(strstr(error_text(), "rank 7 has failed") != NULL, "and text: %s", error_text());
	code = bootstrap_exchange(parents[rank], &rank, parents, 0, LONG_MS);
	is_int(code, COLL_ERR_REMOTE, "also in the first rendezvous");
	ok(bootstrap == NULL && clock_now_ms() - begin < LONG_MS / 2,
	   "long before its time is out");
	bootstrap_close(parents[0]);
	bootstrap_close(parents[1]);
	if (rank &&
	    !bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = id}, 0, 1, NULL, LONG_MS))
		bootstrap_close(bootstrap);
}

/* ------------------------------------------------------------------- secrets -- */

static void test_children_secret(const char *key)
{
	struct bootstrap *parent, *child;
	char id[COLL_UNIQUE_ID_SIZE];
	const int ranks[] = {0};

	if (bootstrap_open_root(&parent, "", "COLL_ROOT", key, key != NULL, 0, 1, NULL, LONG_MS) ||
	    bootstrap_open_shrunk(&child, parent, ranks, 0, 1, 1))
		bail_out("%s", error_text());
	is_int(bootstrap_key_is_secret(child), key != NULL,
	       "the key of survivors is as secret as their parent's");
	bootstrap_close(child);
	if (bootstrap_make_id(id, sizeof(id), NULL) ||
	    bootstrap_open_id(&child, &(struct bootstrap_id){.text = id, .parent = parent}, 0, 1,
			      NULL, LONG_MS))
		bail_out("%s", error_text());
	is_int(bootstrap_key_is_secret(child), key != NULL, "and so is that of a split");
	bootstrap_close(child);
	bootstrap_close(parent);
}

static void test_secrets(void)
{
	struct bootstrap *local, *user;

	test_children_secret(NULL);
	test_children_secret("a key");
	if (bootstrap_open_local(&local, 1) ||
	    bootstrap_open_user(&user, user_fn, local, 0, 1, LONG_MS))
		bail_out("%s", error_text());
	ok(bootstrap_key_is_secret(local) && bootstrap_key_is_secret(user),
	   "threads, and ranks that the application lets meet, have a secret");
	bootstrap_close(user);
	bootstrap_close(local);
}

/* The id of a split travels among the parent's ranks: who has read the id must not be able to join. */
static void test_derived_from_id(void)
{
	struct bootstrap *parents[2], *bootstrap = NULL;
	char id[COLL_UNIQUE_ID_SIZE];
	struct rank_args args = {.id = id, .nranks = 2, .timeout_ms = LONG_MS};
	struct rank_child child;
	struct rank_result result;

	if (bootstrap_open_local(parents, 2) || bootstrap_make_id(id, sizeof(id), NULL))
		bail_out("%s", error_text());
	child = rank_spawn(&args, 1);
	is_int(bootstrap_open_id(&bootstrap,
				 &(struct bootstrap_id){.text = id, .parent = parents[0]}, 0, 2,
				 NULL, 1500),
	       COLL_ERR_TIMEOUT, "rank 0 of a split takes no rank that has the id only");
	result = rank_collect(child);
	ok(result.code && strstr(result.text, "key"), "such a rank is told: %s", result.text);
	bootstrap_close(parents[0]);
	bootstrap_close(parents[1]);
}

int main(void)
{
	static const int sizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 9, 16};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		test_id(sizes[i], 0, NULL);
		test_local(sizes[i]);
	}
	test_id(3, 0, "lo");
	test_id(3, 0, "127.0.0.1");
	test_id(2, 1, NULL);
	test_id(4, 2, NULL);
	test_id(5, 4, "lo");
	test_many_addresses();
	test_root("127.0.0.1", 4, NULL);
	if (have_localhost())
		test_root("localhost", 3, "a key");
	else
		skip(2, "no address of localhost: /etc/hosts does not have it");
	test_root("127.0.0.1", 1, NULL);
	if (have_ipv6()) {
		test_root("[::1]", 3, "a key");
		test_id(3, 0, "::1");
	} else {
		skip(5, "no IPv6 here");
	}
	test_large();
	test_id_threads(0);
	test_id_threads(1);
	test_user(1);
	test_user(4);
	test_user_failing();
	test_altered_head();
	test_time_left();
	test_host_without_end();
	test_too_long();
	test_local_timeout();
	test_local_leaving();
	test_local_mismatch();
	test_watch(0);
	test_watch(1);
	test_watch_tcp();
	test_guard(0);
	test_guard(1);
	test_secrets();
	test_derived_from_id();
	return done_testing();
}
