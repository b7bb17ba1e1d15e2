/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap_unknown_peers_test.c - a peer without the key that connects to rank 0 gets nothing, and
 * the job goes on; a peer that has the key but sends nonsense causes an error, never a crash or a
 * hang.
 */
#include <sys/resource.h>
#include "meet/tree.h"
#include "base/error.h"
#include "bootstrap_harness.h"

static char root[64];
static struct sockaddr_in root_address = {.sin_family = AF_INET};

static void new_root(void)
{
	int port = free_port();

	root_address.sin_port = htons((uint16_t)port);
	root_address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	snprintf(root, sizeof(root), "127.0.0.1:%d", port);
}

/* Connects as soon as a process listens. */
static int connect_to_root(void)
{
	for (int i = 0; i < LONG_MS / 10; i++) {
		int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);

		if (fd < 0)
			bail_out("socket: %s", strerror(errno));
		if (connect(fd, (struct sockaddr *)&root_address, sizeof(root_address)) == 0)
			return fd;
		close(fd);
		pause_ms(10);
	}
	bail_out("nobody listens at %s", root);
}

/* Connects and sends `len` bytes; the socket stays open. */
static int connect_and_send(const void *data, size_t len)
{
	int fd = connect_to_root();

	if (send(fd, data, len, MSG_NOSIGNAL) < 0)
		diag("the connection was closed while sending");
	return fd;
}

/* Reads until `len` bytes have come, the other end closes, or the time is over. */
static size_t receive(int fd, void *buf, size_t len)
{
	size_t got = 0;
	struct pollfd p = {.fd = fd, .events = POLLIN};

	while (got < len && poll(&p, 1, LONG_MS) > 0) {
		ssize_t n = recv(fd, (char *)buf + got, len - got, 0);

		if (n <= 0)
			break;
		got += (size_t)n;
	}
	return got;
}

static void root_key(uint8_t key[16])
{
	const char *port = strrchr(root, ':');

	siphash128((const uint8_t *)"libcoll root key", port, strlen(port), key);
}

static void root_mac(const void *user, const void *data, size_t len, uint8_t mac[16])
{
	uint8_t key[16];

	(void)user;
	root_key(key);
	siphash128(key, data, len, mac);
}

static const struct handshake handshake = {.magic = {'C', 'O', 'L', 'L', 'B', 'O', 'O', 'T'},
					   .version = TREE_VERSION,
					   .mac = root_mac};

/* Reads the challenge and computes the right answer of `rank`. */
static int right_answer(int fd, int rank, int nranks, struct handshake_messages *messages)
{
	struct handshake_answer *answer = &messages->answer;

	memset(messages, 0, sizeof(*messages));
	if (receive(fd, &messages->challenge, sizeof(messages->challenge)) !=
	    sizeof(messages->challenge))
		return -1;
	memcpy(answer->magic, handshake.magic, sizeof(handshake.magic));
	answer->version = TREE_VERSION; /* the tests run on little-endian machines */
	answer->rank = (uint32_t)rank;
	answer->nranks = (uint32_t)nranks;
	answer->order = HANDSHAKE_BYTE_ORDER;
	answer->dial = (uint64_t)fd;
	handshake_seal(&handshake, messages, HANDSHAKE_ANSWER, answer->mac);
	return 0;
}

/* ---------------------------------------------------------------------- without a key -- */

/* Rank 0 must drop or ignore all these peers before or after the real ranks come. */
static int held[512], nheld;

static void unknown_connect_and_close(void)
{
	for (int i = 0; i < 300; i++)
		close(connect_to_root());
}

static void unknown_silent(void)
{
	for (int i = 0; i < 20; i++)
		held[nheld++] = connect_to_root();
}

static void unknown_http(void)
{
	static const char get[] = "GET / HTTP/1.1\r\nHost: localhost\r\n\r\n";
	static const char tls[] = "\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03";

	for (int i = 0; i < 10; i++) {
		held[nheld++] = connect_and_send(get, sizeof(get) - 1);
		held[nheld++] = connect_and_send(tls, sizeof(tls) - 1);
	}
}

static void unknown_random(void)
{
	uint8_t noise[4096];
	uint32_t x = 12345;

	for (int i = 0; i < 20; i++) {
		for (size_t k = 0; k < sizeof(noise); k++) {
			x = x * 1664525 + 1013904223;
			noise[k] = (uint8_t)(x >> 24);
		}
		held[nheld++] = connect_and_send(noise, sizeof(noise));
	}
}

static void unknown_right_magic(void)
{
	struct handshake_answer answer = {.version = TREE_VERSION, .rank = 1, .nranks = 4};

	memcpy(answer.magic, handshake.magic, sizeof(handshake.magic));
	for (int i = 0; i < 5; i++)
		held[nheld++] = connect_and_send(&answer, sizeof(answer));
	answer.version = TREE_VERSION + 1;
	held[nheld++] = connect_and_send(&answer, sizeof(answer));
	answer.rank = answer.nranks = UINT32_MAX;
	held[nheld++] = connect_and_send(&answer, sizeof(answer));
}

static void unknown_many(void)
{
	for (int i = 0; i < 300; i++)
		held[nheld++] = connect_to_root();
}

/* Sends a right answer that stops early. */
static void unknown_cut(void)
{
	for (size_t len = 0; len < sizeof(struct handshake_answer); len++) {
		struct handshake_messages m;
		int fd = connect_to_root();

		if (right_answer(fd, 1, 4, &m) == 0 && len > 0)
			send(fd, &m.answer, len, MSG_NOSIGNAL);
		close(fd);
	}
}

/* Rank 0 must never accept a right answer with one bit wrong, nor the same answer twice. */
static void unknown_flip(void)
{
	int welcomed = 0, told = 0;

	for (unsigned bit = 0; bit < 8 * sizeof(struct handshake_answer); bit++) {
		struct handshake_messages m;
		int fd = connect_to_root();

		if (right_answer(fd, 1, 4, &m) == 0) {
			((uint8_t *)&m.answer)[bit / 8] ^= (uint8_t)(1 << bit % 8);
			send(fd, &m.answer, sizeof(m.answer), MSG_NOSIGNAL);
			told += receive(fd, &m.verdict, sizeof(m.verdict)) == sizeof(m.verdict);
			welcomed += m.verdict.type == HANDSHAKE_ACCEPTED;
		}
		close(fd);
	}
	is_int(welcomed, 0, "no answer with a wrong bit is welcomed");
	ok(told > 0, "most are told that the key differs");
}

static void *drip(void *arg)
{
	int fd = *(int *)arg;

	for (size_t i = 0; i < sizeof(handshake.magic); i++) {
		if (send(fd, &handshake.magic[i], 1, MSG_NOSIGNAL) < 0)
			break;
		pause_ms(1000);
	}
	return NULL;
}

static void test_unknown_peers(const char *what, void (*attack)(void), rlim_t files)
{
	struct rank_args args = {
		.root = root, .nranks = 4, .timeout_ms = LONG_MS, .work = check_meeting};
	struct rlimit limit, lower;
	struct rank_child children[4];
	struct rank_result result;

	new_root();
	getrlimit(RLIMIT_NOFILE, &limit);
	lower = limit;
	if (files)
		lower.rlim_cur = files;
	setrlimit(RLIMIT_NOFILE, &lower);
	children[0] = rank_spawn(&args, 0);
	setrlimit(RLIMIT_NOFILE, &limit);
	nheld = 0;
	attack();
	for (int r = 1; r < 4; r++)
		children[r] = rank_spawn(&args, r);
	for (int r = 0; r < 4; r++) {
		result = rank_collect(children[r]);
		if (!ok(result.code == 0, "%s: rank %d meets the others", what, r))
			diag("%s", result.text);
	}
	while (nheld > 0)
		close(held[--nheld]);
}

/* The peer gets two seconds, however busy it looks. */
static void test_drip(void)
{
	struct rank_args args = {.root = root, .nranks = 2, .timeout_ms = LONG_MS};
	struct rank_child zero, one;
	pthread_t thread;
	char buf[64];
	int fd;

	new_root();
	zero = rank_spawn(&args, 0);
	fd = connect_to_root();
	pthread_create(&thread, NULL, drip, &fd);
	is_int((int64_t)receive(fd, buf, sizeof(buf)), sizeof(struct handshake_challenge),
	       "a byte a second: it is dropped before it is done");
	pthread_join(thread, NULL);
	close(fd);
	one = rank_spawn(&args, 1);
	is_int(rank_collect(zero).code, 0, "rank 0 goes on");
	is_int(rank_collect(one).code, 0, "rank 1 as well");
}

/* ------------------------------------------------------------------------ with the key -- */

/* Rank 1 of 2, with the keys of its frames. */
static struct tree rank_1;

/* Rank 1 of 2 proves its key up to its confirm, which has wrong bits if `flip` is not 0. */
static int prove_rank_1(uint8_t flip)
{
	struct handshake_messages m;
	uint8_t session[HANDSHAKE_KEY_SIZE];
	int fd = connect_to_root();

	if (right_answer(fd, 1, 2, &m) != 0 ||
	    send(fd, &m.answer, sizeof(m.answer), MSG_NOSIGNAL) < 0 ||
	    receive(fd, &m.verdict, sizeof(m.verdict)) != sizeof(m.verdict) ||
	    m.verdict.type != HANDSHAKE_ACCEPTED ||
	    !handshake_is_sealed(&handshake, &m, HANDSHAKE_VERDICT))
		diag("not let in");
	handshake_seal(&handshake, &m, HANDSHAKE_CONFIRM, m.confirm.mac);
	m.confirm.mac[3] ^= flip;
	if (send(fd, &m.confirm, sizeof(m.confirm), MSG_NOSIGNAL) < 0)
		diag("the confirm is not taken");
	memset(&rank_1, 0, sizeof(rank_1));
	root_key(rank_1.shared);
	tree_derive_keys(&rank_1, m.verdict.salt);
	handshake_session_key(&handshake, &m, session);
	tree_stream_init(&rank_1.parent.stream, 0, session, rank_1.body_key);
	return fd;
}

struct piece {
	struct tree_frame head;
	struct bootstrap_peer peer;
};

/*
 * Connects rightly as rank 1 of 2, seals the piece, sends its first `len` bytes and closes; returns rank 0's
 * result.  tamper: flips bits of that byte after the piece is sealed; -1: none.
 */
static struct rank_result insider(struct piece piece, size_t len, int tamper)
{
	struct rank_args args = {.root = root, .nranks = 2, .timeout_ms = LONG_MS};
	struct rank_child zero;
	int fd;

	new_root();
	zero = rank_spawn(&args, 0);
	fd = prove_rank_1(0);
	siphash128(rank_1.body_key, &piece.peer, sizeof(piece.peer), piece.head.body_mac);
	tree_seal(&rank_1.parent.stream, &piece.head);
	if (tamper >= 0)
		((uint8_t *)&piece)[tamper] ^= 0x81;
	if (len > 0)
		send(fd, &piece, len, MSG_NOSIGNAL);
	shutdown(fd, SHUT_WR);
	receive(fd, (char[256]){0}, 256);
	close(fd);
	return rank_collect(zero);
}

/* An attempt of rank 1 that ends before its confirm, or with a wrong confirm, is no connection. */
static void test_unconfirmed(void)
{
	struct rank_args args = {.root = root, .nranks = 2, .timeout_ms = LONG_MS};
	struct rank_child zero, one;
	struct handshake_messages m;
	int fd;

	new_root();
	zero = rank_spawn(&args, 0);
	fd = prove_rank_1(1);
	is_int((int64_t)receive(fd, &m, 1), 0, "a wrong confirm: the connection is closed");
	close(fd);
	fd = connect_to_root();
	ok(right_answer(fd, 1, 2, &m) == 0 &&
		   send(fd, &m.answer, sizeof(m.answer), MSG_NOSIGNAL) > 0 &&
		   receive(fd, &m.verdict, sizeof(m.verdict)) == sizeof(m.verdict),
	   "an attempt without a confirm");
	close(fd);
	one = rank_spawn(&args, 1);
	is_int(rank_collect(zero).code, 0, "rank 0 takes neither for rank 1");
	is_int(rank_collect(one).code, 0, "which comes later");
}

static const struct piece right_piece = {.head = {.type = TREE_PIECE,
						  .round = 1,
						  .len = sizeof(struct bootstrap_peer),
						  .timeout_ms = LONG_MS}};

/* Rank 1 has the key, but its bytes stop or are changed on the way. */
static void test_changed(void)
{
	struct rank_result result;
	int wrong = 0;

	is_int(insider(right_piece, sizeof(right_piece), -1).code, 0, "a right piece");
	for (size_t len = 0; len < sizeof(right_piece); len += 3)
		wrong += insider(right_piece, len, -1).code != COLL_ERR_PEER_LOST;
	is_int(wrong, 0, "a piece that stops early is a lost rank, wherever it stops");
	wrong = 0;
	for (int i = 0; i < (int)sizeof(right_piece); i++) {
		result = insider(right_piece, sizeof(right_piece), i);
		wrong += result.code != COLL_ERR_PEER_LOST ||
			 !strstr(result.text, "has the wrong MAC");
	}
	is_int(wrong, 0, "a changed byte in a piece is an error, whichever it is");
}

/* Rank 1 has the key and seals a wrong head. */
static void test_insider(void)
{
	static const uint64_t lengths[] = {0,
					   1,
					   sizeof(struct bootstrap_peer) - 1,
					   sizeof(struct bootstrap_peer) + 1,
					   1 << 20,
					   UINT64_C(1) << 32,
					   (UINT64_C(1) << 32) + sizeof(struct bootstrap_peer),
					   UINT64_C(1) << 62,
					   UINT64_MAX};
	struct piece m = right_piece;
	struct rank_result result;
	int wrong = 0;

	for (size_t i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		m.head.len = lengths[i];
		result = insider(m, sizeof(m), -1);
		wrong += result.code != COLL_ERR_MISMATCH ||
			 !strstr(result.text, "where rank 0 exchanges 128");
	}
	is_int(wrong, 0, "a sealed piece of another length is an error, whichever it is");
	m.head.type = TREE_FAILED;
	result = insider(m, sizeof(m), -1);
	is_int(result.code, COLL_ERR_INTERNAL, "a sealed failure with a message of 2^64 bytes");
	has_str(result.text, "its error has 18446744073709551615 bytes, but 1023 are the most",
		"the text has both numbers");
	m.head.len = 1023;
	result = insider(m, sizeof(m), -1);
	is_int(result.code, COLL_ERR_PEER_LOST, "a failure whose message stops early");
	wrong = 0;
	for (size_t i = 0; i < offsetof(struct tree_frame, timeout_ms); i++) {
		m = right_piece;
		((uint8_t *)&m)[i] ^= 0x81;
		wrong += insider(m, sizeof(m), -1).code == 0;
	}
	is_int(wrong, 0, "a wrong byte in a sealed head is an error, whichever it is");
}

/* Plays a false rank 0 that sends data to rank 1 and closes; returns rank 1's result. */
static struct rank_result impostor(const void *data, size_t len)
{
	struct rank_args args = {.root = root, .nranks = 2, .timeout_ms = 100};
	int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), peer;
	struct rank_child child;

	new_root();
	setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof(one));
	if (bind(fd, (struct sockaddr *)&root_address, sizeof(root_address)) < 0 ||
	    listen(fd, 8) < 0)
		bail_out("cannot listen at %s: %s", root, strerror(errno));
	child = rank_spawn(&args, 1);
	peer = accept(fd, NULL, NULL);
	if (len > 0)
		send(peer, data, len, MSG_NOSIGNAL);
	shutdown(peer, SHUT_WR);
	close(fd);
	receive(peer, (char[256]){0}, 256);
	close(peer);
	return rank_collect(child);
}

static void test_impostor(void)
{
	struct {
		struct handshake_challenge challenge;
		struct handshake_verdict verdict;
	} m = {.challenge = {.version = TREE_VERSION}, .verdict = {.type = HANDSHAKE_REFUSED}};
	struct rank_result result;
	int wrong = 0;

	result = impostor("HTTP/1.1 400 Bad Request\r\n\r\n", 28);
	is_int(result.code, COLL_ERR_INVALID_ARGUMENT, "a web server in rank 0's place");
	has_str(result.text, "does not speak libcoll's bootstrap protocol", "is told from rank 0");
	memcpy(m.challenge.magic, handshake.magic, sizeof(handshake.magic));
	m.challenge.version = TREE_VERSION + 1;
	result = impostor(&m, sizeof(m.challenge));
	is_int(result.code, COLL_ERR_UNSUPPORTED, "a rank 0 of another version");
	has_str(result.text, "speaks bootstrap protocol 9, but this rank's speaks 8",
		"both are named");
	m.challenge.version = TREE_VERSION;
	for (size_t len = 0; len <= sizeof(m); len += 5)
		wrong += impostor(&m, len).code == 0;
	for (uint32_t type = 0; type < 4; type++) {
		m.verdict.type = type;
		memset(m.verdict.text, 'x', sizeof(m.verdict.text)); /* the text has no end */
		wrong += impostor(&m, sizeof(m)).code == 0;
	}
	is_int(wrong, 0, "a rank 0 without the key leads to an error");
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	test_unknown_peers("connect and close", unknown_connect_and_close, 0);
	test_unknown_peers("silence", unknown_silent, 0);
	test_unknown_peers("other protocols", unknown_http, 0);
	test_unknown_peers("noise", unknown_random, 0);
	test_unknown_peers("the right magic", unknown_right_magic, 0);
	test_unknown_peers("300 at once", unknown_many, 0);
	test_unknown_peers("300 at once, 40 descriptors", unknown_many, 40);
	test_unknown_peers("cut answers", unknown_cut, 0);
	test_unknown_peers("answers with a wrong bit", unknown_flip, 0);
	test_drip();
	test_changed();
	test_insider();
	test_unconfirmed();
	test_impostor();
	return done_testing();
}
