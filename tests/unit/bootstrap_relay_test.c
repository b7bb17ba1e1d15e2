/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap_relay_test.c - a relay between two ranks and rank 0 changes, cuts, drops, repeats and exchanges
 * frames of every type: every rank gets an error with a text, in time, and nobody uses a byte of such a frame.
 *
 * Three ranks meet and exchange three times.  Ranks 1 and 2 reach rank 0 through the relay, which attacks one
 * frame of rank 1's connection.
 */
#include <errno.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>
#include "meet/tree.h"
#include "base/error.h"
#include "../lib/tap.h"

/*
 * The relay attacks round 2 at the latest.  A rank finds a repeated frame in round 3, in which the other ranks may
 * need nothing of it any more; in round 4 they do.
 */
enum { NRANKS = 3, ROUNDS = 5, LONG_MS = 60000, SHORT_MS = 1000, PIECE = 8, BUFFER = 4096 };

/* The direction of a frame. */
enum { TO_ROOT, FROM_ROOT };

enum kind {
	PASS,    /* every frame byte by byte */
	FLIP,    /* changes bits of the byte at `at` */
	LENGTH,  /* the head announces `at` bytes */
	SEALED,  /* the same, with the right mac: the relay knows the key */
	CUT,     /* closes the connection after `at` bytes of the frame */
	REPEAT,  /* the frame comes twice */
	DROP,    /* the frame does not come */
	OLDER,   /* the first frame of the direction comes again, in place of this one */
	REFLECT, /* the frame goes back to its sender */
	EXCHANGE /* ranks 1 and 2 get each other's frame */
};

/* Which rank fails in the second exchange, and how. */
enum fault { NO_FAULT, MEMBER_FAILS, OTHER_FAILS, LENGTHS_DIFFER };

static struct attack {
	enum kind kind;
	enum fault fault;
	int direction;
	int frame; /* its number in its direction, from 0: the round */
	uint64_t at;
	int64_t timeout_ms; /* of the attacked exchange and of those after it */
	size_t seen;        /* bytes of the attacked frame; 0: it never came */
} attack;

/* ----------------------------------------------------------------------- the relay -- */

/* One direction of one connection. */
struct flow {
	int from, to;
	int direction;
	int handshake; /* messages of the handshake that are still to come */
	int frames;
	int extra; /* of these, frames that may come at any time or not at all: TREE_WHO */
	size_t have;
	uint8_t bytes[BUFFER];
	uint8_t first[BUFFER]; /* the first frame */
	size_t first_len;
	int held; /* EXCHANGE: the frame waits for the other connection's */
};

static struct relay {
	int listener[2]; /* for rank 1 and rank 2 */
	uint8_t key[BOOTSTRAP_KEY_SIZE];
	struct address root;
	struct handshake_messages messages; /* of rank 1's connection */
	struct flow flow[2][2];             /* rank 1's and rank 2's; each TO_ROOT, FROM_ROOT */
	int cut;
} relay;

static void relay_write(int fd, const void *bytes, size_t len)
{
	/* An end that has closed its connection has no use for the bytes. */
	if (send(fd, bytes, len, MSG_NOSIGNAL) < 0 && errno != EPIPE && errno != ECONNRESET)
		diag("the relay cannot send: %s", strerror(errno));
}

static void relay_mac(const void *user, const void *data, size_t len, uint8_t mac[16])
{
	siphash128(user, data, len, mac);
}

/* Gives a changed head the mac that its sender would have given it. */
static void relay_seal(const struct flow *flow, struct tree_frame *head)
{
	const struct handshake hs = {.mac = relay_mac, .user = relay.key};
	uint8_t session[HANDSHAKE_KEY_SIZE];
	struct tree_stream stream = {.sent = (uint64_t)flow->frames};

	handshake_session_key(&hs, &relay.messages, session);
	tree_stream_init(&stream, flow->direction == FROM_ROOT, session, NULL);
	tree_seal(&stream, head);
}

/* Rank 1's and rank 2's frames have come: each goes to the other. */
static void relay_exchange(struct flow *flow, struct flow *other)
{
	attack.seen = flow->have;
	flow->held = 1;
	if (!other->held)
		return;
	relay_write(flow->to, other->bytes, other->have);
	relay_write(other->to, flow->bytes, flow->have);
	flow->held = other->held = 0;
	flow->have = other->have = 0;
	flow->frames++;
	other->frames++;
}

static void relay_attack(struct flow *flow, struct flow *back, size_t len)
{
	struct tree_frame *head = (struct tree_frame *)flow->bytes;

	attack.seen = len;
	switch (attack.kind) {
	case FLIP: flow->bytes[attack.at] ^= 0x24; break;
	case LENGTH: head->len = attack.at; break;
	case SEALED:
		head->len = attack.at;
		relay_seal(flow, head);
		break;
	case CUT: relay.cut = 1; break;
	case REPEAT: relay_write(flow->to, flow->bytes, len); break;
	case OLDER: relay_write(flow->to, flow->first, flow->first_len); return;
	case REFLECT: relay_write(back->to, flow->bytes, len); return;
	case DROP: return;
	default: break;
	}
	relay_write(flow->to, flow->bytes, relay.cut ? attack.at : len);
}

/* A whole frame is in flow->bytes. */
static void relay_frame(int link, struct flow *flow, size_t len)
{
	struct flow *back = &relay.flow[link][!flow->direction];
	const int extra = ((struct tree_frame *)flow->bytes)->type == TREE_WHO;
	int attacked = !extra && flow->direction == attack.direction &&
		       flow->frames - flow->extra == attack.frame;

	if (attacked && attack.kind == EXCHANGE) {
		relay_exchange(flow, &relay.flow[!link][flow->direction]);
		return;
	}
	if (flow->frames == 0) {
		memcpy(flow->first, flow->bytes, len);
		flow->first_len = len;
	}
	if (attacked && link == 0)
		relay_attack(flow, back, len);
	else if (attack.kind == PASS)
		for (size_t i = 0; i < len; i++)
			relay_write(flow->to, flow->bytes + i, 1);
	else
		relay_write(flow->to, flow->bytes, len);
	flow->frames++;
	flow->extra += extra;
	flow->have -= len;
	memmove(flow->bytes, flow->bytes + len, flow->have);
}

/* The length of the message of the handshake, or the frame, at the beginning of flow->bytes; 0: unknown. */
static size_t relay_length(const struct flow *flow)
{
	const struct tree_frame *head = (const struct tree_frame *)flow->bytes;
	const int first = flow->handshake == 2;

	if (flow->handshake && flow->direction == TO_ROOT)
		return first ? sizeof(struct handshake_answer) : sizeof(struct handshake_confirm);
	if (flow->handshake)
		return first ? sizeof(struct handshake_challenge)
			     : sizeof(struct handshake_verdict);
	return flow->have < sizeof(*head) ? 0 : sizeof(*head) + head->len;
}

/* A whole message of the handshake is in flow->bytes. */
static void relay_handshake(int link, struct flow *flow, size_t len)
{
	struct handshake_messages *m = &relay.messages;
	void *const into[2][2] = {{&m->confirm, &m->answer}, {&m->verdict, &m->challenge}};

	if (link == 0)
		memcpy(into[flow->direction][flow->handshake - 1], flow->bytes, len);
	relay_write(flow->to, flow->bytes, len);
	flow->handshake--;
	flow->have -= len;
	memmove(flow->bytes, flow->bytes + len, flow->have);
}

/* Returns 0 if this direction has ended. */
static int relay_read(int link, struct flow *flow)
{
	ssize_t n = recv(flow->from, flow->bytes + flow->have, BUFFER - flow->have, 0);
	size_t len;

	if (n <= 0)
		return 0;
	flow->have += (size_t)n;
	while (!flow->held && (len = relay_length(flow)) > 0 && len <= flow->have)
		if (flow->handshake)
			relay_handshake(link, flow, len);
		else
			relay_frame(link, flow, len);
	return 1;
}

static void relay_connect(int link)
{
	int member = accept(relay.listener[link], NULL, NULL),
	    root = socket(AF_INET, SOCK_STREAM, 0);

	if (member < 0 || root < 0 ||
	    connect(root, (struct sockaddr *)&relay.root.sa, relay.root.len))
		bail_out("the relay cannot connect: %s", strerror(errno));
	socket_no_delay(member);
	socket_no_delay(root);
	relay.flow[link][TO_ROOT] = (struct flow){.from = member, .to = root, .handshake = 2};
	relay.flow[link][FROM_ROOT] =
		(struct flow){.from = root, .to = member, .direction = FROM_ROOT, .handshake = 2};
}

/* Passes bytes on until all connections have ended. */
static void *relay_run(void *unused)
{
	struct pollfd fds[6]; /* two listeners, then the four directions */
	int open = 4;

	(void)unused;
	for (int i = 0; i < 6; i++)
		fds[i] = (struct pollfd){i < 2 ? relay.listener[i] : -1, POLLIN, 0};
	while (open > 0 && poll(fds, 6, LONG_MS) > 0) {
		for (int link = 0; link < 2; link++) {
			if (fds[link].fd < 0 || !fds[link].revents)
				continue;
			relay_connect(link);
			fds[link].fd = -1;
			for (int d = 0; d < 2; d++)
				fds[2 + 2 * link + d].fd = relay.flow[link][d].from;
		}
		for (int i = 2; i < 6; i++) {
			struct flow *flow = &relay.flow[i / 2 - 1][i % 2];

			if (fds[i].fd < 0 || !fds[i].revents || relay_read(i / 2 - 1, flow))
				continue;
			shutdown(flow->to, SHUT_WR);
			fds[i].fd = -1;
			open--;
		}
		for (int d = 0; relay.cut && d < 2; d++)
			shutdown(relay.flow[0][d].to, SHUT_RDWR);
	}
	for (int i = 0; i < 4; i++)
		close(relay.flow[i / 2][i % 2].from);
	return NULL;
}

/* ----------------------------------------------------------------------- the ranks -- */

struct rank {
	const char *id;
	int rank, code, wrong;
	char text[1024];
};

static int rank_exchange(struct bootstrap *bootstrap, int round, int *wrong)
{
	int me = bootstrap_rank(bootstrap), code;
	int32_t in[3] = {me, round, 0}, out[3 * NRANKS] = {0};
	int64_t timeout_ms = round < attack.frame ? LONG_MS : attack.timeout_ms;
	size_t len = PIECE;

	if (round == 1 && me == 1 && attack.fault == MEMBER_FAILS)
		return bootstrap_exchange_fail(bootstrap, COLL_ERR_CONFIG, "a fault of rank 1",
					       timeout_ms);
	if (round == 1 && me == 2 && attack.fault == OTHER_FAILS)
		return bootstrap_exchange_fail(bootstrap, COLL_ERR_CONFIG, "a fault of rank 2",
					       timeout_ms);
	if (round == 1 && me == 2 && attack.fault == LENGTHS_DIFFER)
		len++;
	code = bootstrap_exchange(bootstrap, in, out, len, timeout_ms);
	for (int r = 0; code == 0 && r < NRANKS; r++)
		*wrong += out[2 * r] != r || out[2 * r + 1] != round;
	return code;
}

/* Meets and exchanges.  After the failure that is part of the test all ranks go on. */
static void *rank_run(void *arg)
{
	struct rank *rank = arg;
	struct bootstrap *bootstrap;

	rank->code = bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = rank->id},
				       rank->rank, NRANKS, "lo", LONG_MS);
	for (int round = 1; rank->code == 0 && round < ROUNDS; round++) {
		rank->code = rank_exchange(bootstrap, round, &rank->wrong);
		if (round == 1 && attack.fault && bootstrap_rank_failed(bootstrap))
			rank->code = 0;
	}
	if (rank->code)
		snprintf(rank->text, sizeof(rank->text), "%s", error_text());
	bootstrap_close(bootstrap);
	return NULL;
}

static struct rank ranks[NRANKS];

/* Opens the relay's listeners; ids[r]: the id by which rank r comes. */
static void relay_open(char ids[NRANKS][COLL_UNIQUE_ID_SIZE])
{
	static const uint8_t loopback[4] = {127, 0, 0, 1};
	struct address_list addresses;
	int err;

	memset(&relay, 0, sizeof(relay));
	if (bootstrap_make_id(ids[0], COLL_UNIQUE_ID_SIZE, "lo") ||
	    unique_id_parse(ids[0], relay.key, &addresses))
		bail_out("%s", error_text());
	for (int i = 0; i < addresses.count; i++)
		if (addresses.item[i].sa.ss_family == AF_INET)
			relay.root = addresses.item[i];
	for (int link = 0; link < 2; link++) {
		struct address_list own = {.count = 1};
		struct address *here = &own.item[0];

		address_set_ip(here, loopback, sizeof(loopback), 0);
		if (socket_listen(here, NULL, NULL, &relay.listener[link], &err))
			bail_out("%s", error_text());
		if (unique_id_print(relay.key, &own, ids[1 + link], COLL_UNIQUE_ID_SIZE))
			bail_out("%s", error_text());
	}
}

/* One meeting under the attack; returns how many ranks got an error. */
static int meet(void)
{
	char ids[NRANKS][COLL_UNIQUE_ID_SIZE];
	pthread_t threads[NRANKS], thread;
	int failed = 0;

	relay_open(ids);
	attack.seen = 0;
	if (pthread_create(&thread, NULL, relay_run, NULL))
		bail_out("no thread");
	for (int r = 0; r < NRANKS; r++) {
		ranks[r] = (struct rank){.id = ids[r], .rank = r};
		if (pthread_create(&threads[r], NULL, rank_run, &ranks[r]))
			bail_out("no thread");
	}
	for (int r = 0; r < NRANKS; r++) {
		pthread_join(threads[r], NULL);
		failed += ranks[r].code != 0;
	}
	pthread_join(thread, NULL);
	close(relay.listener[0]);
	close(relay.listener[1]);
	return failed;
}

/* ----------------------------------------------------------------------- the attacks -- */

static const char forged[] = "has the wrong MAC, so bytes of the connection were changed";

/* The ranks whose error has the words and an address; all values that ranks got must be right. */
static int count_words(const char *words)
{
	int count = 0;

	for (int r = 0; r < NRANKS; r++) {
		count += ranks[r].code && strstr(ranks[r].text, words) &&
			 strstr(ranks[r].text, "(127.0.0.1:");
		if (ranks[r].wrong)
			bail_out("rank %d took %d wrong values", r, ranks[r].wrong);
	}
	return count;
}

/*
 * Every rank must fail.  words: what the errors of at least `least` ranks say.  Returns 1 if they do not.
 */
static int attack_fails(const char *words, int least)
{
	int failed = meet(), told = count_words(words);

	if (failed == NRANKS && told >= least && attack.seen)
		return 0;
	diag("kind %d, fault %d, direction %d, frame %d, at %llu: %d ranks failed, %d say why",
	     attack.kind, attack.fault, attack.direction, attack.frame,
	     (unsigned long long)attack.at, failed, told);
	for (int r = 0; r < NRANKS; r++)
		diag("rank %d: %d %s", r, ranks[r].code, ranks[r].text);
	return 1;
}

static void test_pass(void)
{
	attack = (struct attack){.kind = PASS, .timeout_ms = LONG_MS};
	if (!is_int(meet(), 0, "frames that come byte by byte do no harm"))
		diag("%s", ranks[0].text);
	is_int(count_words(""), 0, "no value is wrong");
}

/* Flips bits of each byte of one frame. */
static void test_flips(const char *what, enum fault fault, int direction, int frame, int least)
{
	const char *sanitizers = getenv("TEST_SANITIZE");
	uint64_t step = sanitizers && *sanitizers ? 5 : 1, wrong = 0;

	attack = (struct attack){.kind = FLIP,
				 .fault = fault,
				 .direction = direction,
				 .frame = frame,
				 .timeout_ms = LONG_MS};
	for (size_t size = 1; attack.at < size; attack.at += step) {
		wrong += (uint64_t)attack_fails(forged, least);
		size = attack.seen;
	}
	is_int((int64_t)wrong, 0, "a changed byte of %s, whichever of %zu it is", what,
	       attack.seen);
}

/* Stops in the middle of the head, behind it, and in the middle of the body. */
static void test_cuts(const char *what, int direction)
{
	static const uint64_t places[] = {0, 1, sizeof(struct tree_frame) - 1,
					  sizeof(struct tree_frame), sizeof(struct tree_frame) + 3};
	int wrong = 0;

	attack = (struct attack){
		.kind = CUT, .direction = direction, .frame = 2, .timeout_ms = LONG_MS};
	for (size_t i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		attack.at = places[i];
		wrong += attack_fails("was lost during the rendezvous", 0);
	}
	is_int(wrong, 0, "a connection that is cut within %s", what);
}

static void test_lengths(const char *what, enum kind kind, int direction, const char *words,
			 int least)
{
	static const uint64_t lengths[] = {0,
					   1,
					   PIECE - 1,
					   PIECE + 1,
					   NRANKS * PIECE + 1,
					   1 << 20,
					   UINT64_C(1) << 32,
					   UINT64_C(1) << 62,
					   UINT64_MAX - 16,
					   UINT64_MAX};
	int wrong = 0;

	attack = (struct attack){
		.kind = kind, .direction = direction, .frame = 2, .timeout_ms = LONG_MS};
	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		attack.at = lengths[i];
		wrong += attack_fails(words, least);
	}
	is_int(wrong, 0, "another length of %s%s", what,
	       kind == SEALED ? " with the right MAC" : "");
}

static void test_order(const char *what, int direction)
{
	static const struct {
		enum kind kind;
		const char *name;
		int least; /* ranks whose error names the MAC and an address */
	} kinds[] = {{REPEAT, "comes twice", NRANKS},
		     {OLDER, "is an older one", 1},
		     {REFLECT, "goes back to its sender", 1},
		     {EXCHANGE, "is another rank's", 1}};

	for (size_t i = 0; i < sizeof(kinds) / sizeof(kinds[0]); i++) {
		attack = (struct attack){.kind = kinds[i].kind,
					 .direction = direction,
					 .frame = 2,
					 .timeout_ms = LONG_MS,
					 .seen = 1};
		is_int(attack_fails(forged, kinds[i].least), 0, "%s that %s", what, kinds[i].name);
	}
}

/* Nothing comes in place of a frame: the timeouts end the wait. */
static void test_drop(const char *what, int direction)
{
	int64_t begin = clock_now_ms();

	attack = (struct attack){
		.kind = DROP, .direction = direction, .frame = 2, .timeout_ms = SHORT_MS};
	is_int(attack_fails("", 0), 0, "%s that does not come", what);
	ok(clock_now_ms() - begin < LONG_MS / 2, "the ranks know it in %d ms",
	   (int)(clock_now_ms() - begin));
}

/* The most memory of this process so far, in MiB. */
static int64_t most_memory(void)
{
	struct rusage usage;

	getrusage(RUSAGE_SELF, &usage);
	return usage.ru_maxrss / 1024;
}

int main(void)
{
	test_pass();
	test_flips("a first piece", NO_FAULT, TO_ROOT, 0, 3);
	test_flips("a piece", NO_FAULT, TO_ROOT, 2, 3);
	test_flips("a member's failure", MEMBER_FAILS, TO_ROOT, 1, 2);
	test_flips("a first table", NO_FAULT, FROM_ROOT, 0, 3);
	test_flips("a table", NO_FAULT, FROM_ROOT, 2, 3);
	test_flips("a failure of another rank", OTHER_FAILS, FROM_ROOT, 1, 3);
	test_flips("rank 0's failure", LENGTHS_DIFFER, FROM_ROOT, 1, 1);
	test_cuts("a piece", TO_ROOT);
	test_cuts("a table", FROM_ROOT);
	test_lengths("a piece", LENGTH, TO_ROOT, forged, 3);
	test_lengths("a table", LENGTH, FROM_ROOT, forged, 3);
	test_lengths("a piece", SEALED, TO_ROOT, "", 0);
	test_lengths("a table", SEALED, FROM_ROOT, "", 0);
	test_order("a piece", TO_ROOT);
	test_order("a table", FROM_ROOT);
	test_drop("a piece", TO_ROOT);
	test_drop("a table", FROM_ROOT);
	if (getenv("TEST_SANITIZE") && *getenv("TEST_SANITIZE"))
		skip(1, "sanitizers need memory of their own");
	else
		ok(most_memory() < 256, "no length from the wire decides an allocation: %d MiB",
		   (int)most_memory());
	return done_testing();
}
