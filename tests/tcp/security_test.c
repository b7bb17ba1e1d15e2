/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * security_test.c - the option tcp.security against a man in the middle: who changes a byte, or leaves out,
 * repeats or moves a record, ends the job, and no rank takes data of it.  And the cases in which it is refused.
 */
#include "../../plugins/tcp/tcp.h"
#include "../lib/ranks.h"
#include "relay.h"

enum { MESSAGES = 4, SMALL = 8, LARGE = 100000, BODY = 64 << 10, WAIT_S = 60 };

/* A run of two ranks. */
struct run {
	const char *security[2]; /* the option on each rank */
	enum relay_change change;
	size_t at;
	size_t bytes;    /* of a message */
	int no_aes;      /* the ranks believe that a processor has no AES-256-GCM */
	int forge;       /* rank 1 gets a changed address record of rank 0 */
	const char *env; /* COLL_KEY of ranks that meet by COLL_ROOT; NULL: by an exchange */
};

struct shared {
	_Atomic int came[2], left[2];
	uint8_t bytes[2][4096];
	int code[2], good, wrong;
	_Atomic int altered; /* times that a rank got the records of the backend */
	char text[2][RANKS_TEXT];
	uint8_t seen[RELAY_SEEN];
	size_t seen_count;
	int changed; /* by the relay */
};

struct place {
	const struct run *run;
	struct shared *shared;
	struct relay *relay; /* NULL once started, and on rank 1 */
	int rank, step;
};

static uint8_t pattern(int message, size_t i)
{
	return (uint8_t)("a pattern on the wire"[i % 21] + message);
}

/* ----------------------------------------------------------------- the meeting -- */

static int await(_Atomic int *counter, int step)
{
	double deadline = ranks_now() + WAIT_S;

	while (atomic_load(counter) < step) {
		if (ranks_now() > deadline)
			return -1;
		ranks_sleep(0.0005);
	}
	return 0;
}

/*
 * Changes the records of the tcp backend as a rank gets them.  Each is in a block of the library's, behind a
 * head whose last number is its length.
 */
static void alter(const struct place *p, uint8_t *out, size_t len)
{
	enum { BLOCK = 512, BLOCK_HEAD = 16 };
	struct tcp_record *records[2];
	uint64_t size;

	memcpy(&size, out + BLOCK_HEAD - sizeof(size), sizeof(size));
	if (len != BLOCK || size != sizeof(struct tcp_record))
		return;
	p->shared->altered++;
	for (int r = 0; r < 2; r++) {
		records[r] = (struct tcp_record *)(void *)(out + (size_t)r * BLOCK + BLOCK_HEAD);
		if (p->run->no_aes)
			records[r]->has_aes = 0;
	}
	if (p->run->forge && p->rank == 1)
		records[0]->nonce[0]++;
}

static int32_t exchange(void *user, const void *in, void *out, size_t len, int64_t timeout_ms)
{
	struct place *p = user;
	struct shared *s = p->shared;

	(void)timeout_ms;
	if (p->relay && relay_start(p->relay))
		p->relay = NULL;
	if (len > sizeof(s->bytes[0]))
		return 1;
	memcpy(s->bytes[p->rank], in, len);
	atomic_store(&s->came[p->rank], ++p->step);
	if (await(&s->came[!p->rank], p->step))
		return 2;
	memcpy(out, s->bytes[0], len);
	memcpy((uint8_t *)out + len, s->bytes[1], len);
	alter(p, out, len);
	atomic_store(&s->left[p->rank], p->step);
	return await(&s->left[!p->rank], p->step) ? 3 : 0;
}

/* ------------------------------------------------------------------- the ranks -- */

static int done(coll_result_t code, coll_comm_t comm)
{
	return code ? code : coll_sync(comm);
}

/* Receives all messages.  A receive that fails must leave no wrong byte. */
static int rank0(coll_comm_t comm, struct shared *s, size_t bytes)
{
	uint8_t *buf = malloc(bytes), go = 1;
	int code = done(coll_send(&go, 1, COLL_UINT8, 1, 1, comm, NULL), comm);

	for (int m = 0; m < MESSAGES && !code; m++) {
		size_t i = 0;

		memset(buf, 0, bytes);
		code = done(coll_recv(buf, bytes, COLL_UINT8, 1, 2, comm, NULL), comm);
		while (i < bytes && buf[i] == pattern(m, i))
			i++;
		s->good += !code && i == bytes;
		for (i = 0; i < bytes; i++)
			s->wrong += buf[i] != pattern(m, i) && (buf[i] || !code);
	}
	free(buf);
	return code ? code : done(coll_send(&go, 1, COLL_UINT8, 1, 3, comm, NULL), comm);
}

static int rank1(coll_comm_t comm, size_t bytes)
{
	uint8_t *buf = malloc(bytes), go = 0;
	int code = done(coll_recv(&go, 1, COLL_UINT8, 0, 1, comm, NULL), comm);

	for (int m = 0; m < MESSAGES && !code; m++) {
		for (size_t i = 0; i < bytes; i++)
			buf[i] = pattern(m, i);
		code = done(coll_send(buf, bytes, COLL_UINT8, 0, 2, comm, NULL), comm);
	}
	free(buf);
	return code ? code : done(coll_recv(&go, 1, COLL_UINT8, 0, 3, comm, NULL), comm);
}

static void rank_process(const struct run *run, struct shared *s, int rank)
{
	struct relay relay = {
		.change = run->change,
		.at = run->at,
		.skip = {sizeof(struct handshake_answer) + sizeof(struct handshake_confirm),
			 sizeof(struct handshake_challenge) + sizeof(struct handshake_verdict)},
		.seen = s->seen,
		.seen_count = &s->seen_count,
		.changed = &s->changed};
	struct place place = {.run = run, .shared = s, .relay = &relay, .rank = rank};
	coll_comm_t comm = NULL;
	coll_config_t config;
	int code;

	if (rank == 1 || run->env)
		place.relay = NULL;
	setenv("COLL_TCP_SECURITY", run->security[rank], 1);
	ranks_config(&config, "tcp");
	if (run->env) {
		setenv("COLL_KEY", run->env, 1);
		setenv("COLL_RANK", rank ? "1" : "0", 1);
		code = coll_comm_init_env(&comm, &config);
	} else {
		code = coll_comm_init_exchange(&comm, 2, rank, exchange, &place, &config);
	}
	if (!code)
		code = rank ? rank1(comm, run->bytes) : rank0(comm, s, run->bytes);
	s->code[rank] = code;
	snprintf(s->text[rank], RANKS_TEXT, "%s", code ? coll_get_last_error(NULL) : "");
	if (comm)
		coll_comm_destroy(comm);
	exit(0);
}

static void run_ranks(const struct run *run, struct shared *s)
{
	double deadline = ranks_now() + 2 * WAIT_S;
	pid_t pids[2];
	int status;

	memset(s, 0, sizeof(*s));
	fflush(stdout);
	for (int r = 0; r < 2; r++) {
		pids[r] = fork();
		if (pids[r] < 0)
			bail_out("fork: %s", strerror(errno));
		if (!pids[r])
			rank_process(run, s, r);
	}
	for (int r = 0; r < 2; r++)
		if (!ranks_reap(pids[r], deadline, &status) || status)
			ok(0, "rank %d ends by itself", r);
}

/* ------------------------------------------------------------------- the cases -- */

static struct shared *shared;

static void test_undisturbed(const char *security, size_t bytes, int no_aes)
{
	const struct run run = {{security, security}, .bytes = bytes, .no_aes = no_aes};
	char sent[21];

	run_ranks(&run, shared);
	if (!is_int(shared->good, MESSAGES, "%s, %zu bytes: all messages arrive", security, bytes))
		diag("%s; %s", shared->text[0], shared->text[1]);
	for (size_t i = 0; i < sizeof(sent); i++)
		sent[i] = (char)pattern(1, i);
	is_int(shared->altered, 2, "both ranks got the records%s",
	       no_aes ? ", in which no processor has AES" : "");
	if (bytes >= LARGE)
		is_int(memmem(shared->seen, shared->seen_count, sent, sizeof(sent)) != NULL,
		       strcmp(security, "encrypt") != 0, "their bytes are %s on the wire",
		       strcmp(security, "encrypt") ? "readable" : "not readable");
}

static void test_attack(const char *security, enum relay_change change, size_t bytes, size_t at,
			const char *piece, const char *name)
{
	const struct run run = {{security, security}, .change = change, .at = at, .bytes = bytes};

	run_ranks(&run, shared);
	ok(shared->changed > 0, "%s, %s: the relay has changed the connection", security, name);
	is_int(shared->code[0], COLL_ERR_PEER_LOST, "rank 0 loses its peer");
	ok(strstr(shared->text[0], "rank 1") && strstr(shared->text[0], piece), "and is told: %s",
	   shared->text[0]);
	is_int(shared->code[1], COLL_ERR_PEER_LOST, "so does rank 1: %s", shared->text[1]);
	is_int(shared->wrong, 0, "no wrong byte was taken");
}

static void test_attacks(const char *security)
{
	static const char changed[] = "was changed, dropped, repeated or reordered on the way";
	static const char cut[] = "cut off within a record";
	const size_t head = RELAY_UNIT;
	const struct {
		enum relay_change change;
		size_t bytes, at;
		const char *piece, *name;
	} attacks[] = {
		{RELAY_FLIP, SMALL, 1, changed, "a bit of a body's length"},
		{RELAY_FLIP, SMALL, 4, changed, "a bit of a head's length"},
		{RELAY_FLIP, SMALL, 8 + 24, changed, "a bit of a message's header"},
		{RELAY_FLIP, SMALL, head + 8 + 33, changed, "a bit of a message"},
		{RELAY_FLIP, SMALL, head - TCP_TAG, changed, "a bit of a head's tag"},
		{RELAY_FLIP, LARGE, head, changed, "a bit at the beginning of a body"},
		{RELAY_FLIP, LARGE, head + BODY + 3, changed, "a bit of a body's tag"},
		{RELAY_FLIP, LARGE, 2 * head + BODY + TCP_TAG + 9, changed, "the second body"},
		{RELAY_TRUNCATE, SMALL, head + 30, cut, "a head that ends early"},
		{RELAY_TRUNCATE, LARGE, head + 5000, cut, "a body that ends early"},
		{RELAY_TRUNCATE, LARGE, head, cut, "a body that does not come"},
		{RELAY_TRUNCATE, SMALL, head, "connection closed", "an end between records"},
		{RELAY_DROP, SMALL, 0, changed, "a dropped record"},
		{RELAY_REPEAT, SMALL, 0, changed, "a repeated record"},
		{RELAY_SWAP, SMALL, 0, changed, "two records in the other order"},
		{RELAY_REFLECT, SMALL, 0, changed, "a record of its own"},
	};

	for (size_t i = 0; i < sizeof(attacks) / sizeof(attacks[0]); i++)
		test_attack(security, attacks[i].change, attacks[i].bytes, attacks[i].at,
			    attacks[i].piece, attacks[i].name);
}

/* The relay works: without protection nobody notices the change. */
static void test_unprotected(void)
{
	const struct run run = {
		{"none", "none"}, .change = RELAY_FLIP, .at = 32 + 3, .bytes = SMALL};

	run_ranks(&run, shared);
	ok(!shared->code[0] && shared->wrong == 1, "none: a changed bit goes unnoticed");
}

static void test_refused(const struct run *run, int code, const char *piece, const char *name)
{
	run_ranks(run, shared);
	for (int r = 0; r < 2; r++) {
		is_int(shared->code[r], code, "%s: rank %d gets an error", name, r);
		has_str(shared->text[r], piece, "and is told");
	}
}

static void test_meeting(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	struct sockaddr_in address = {.sin_family = AF_INET};
	socklen_t len = sizeof(address);
	char root[40];

	address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0 || bind(fd, (struct sockaddr *)&address, len) ||
	    getsockname(fd, (struct sockaddr *)&address, &len))
		bail_out("no free port");
	snprintf(root, sizeof(root), "127.0.0.1:%d", ntohs(address.sin_port));
	close(fd);
	setenv("COLL_ROOT", root, 1);
	setenv("COLL_WORLD_SIZE", "2", 1);
	test_refused(&(struct run){{"encrypt", "encrypt"}, .env = "", .bytes = SMALL},
		     COLL_ERR_CONFIG, "set COLL_KEY", "COLL_ROOT without COLL_KEY");
	test_refused(&(struct run){{"integrity", "integrity"}, .env = "", .bytes = SMALL},
		     COLL_ERR_CONFIG, "set COLL_KEY", "the same for integrity");
	run_ranks(&(struct run){{"encrypt", "encrypt"}, .env = "a secret", .bytes = SMALL}, shared);
	if (!is_int(shared->good, MESSAGES, "with COLL_KEY all messages arrive"))
		diag("%s; %s", shared->text[0], shared->text[1]);
}

static void test_settings(void)
{
	test_refused(&(struct run){{"integrity", "encrypt"}, .bytes = SMALL}, COLL_ERR_CONFIG,
		     "option tcp.security differs: integrity on rank 0, encrypt on rank 1",
		     "different settings");
	test_refused(&(struct run){{"none", "integrity"}, .bytes = SMALL}, COLL_ERR_CONFIG,
		     "option tcp.security differs: none on rank 0, integrity on rank 1",
		     "one rank without");
	/* Rank 0 turns rank 1 away, as it would any process without the job's key. */
	setenv("COLL_INIT_TIMEOUT", "1s", 1);
	run_ranks(&(struct run){{"encrypt", "encrypt"}, .forge = 1, .bytes = SMALL}, shared);
	unsetenv("COLL_INIT_TIMEOUT");
	ok(shared->code[0] && shared->code[1], "ranks with different address records do not meet");
	is_int(shared->good, 0, "and exchange nothing");
	diag("%s; %s", shared->text[0], shared->text[1]);
}

/* A build without libsodium. */
static void test_not_built_in(void)
{
	test_refused(&(struct run){{"encrypt", "none"}, .bytes = SMALL}, COLL_ERR_CONFIG,
		     "needs libsodium, but this tcp backend was built without libsodium",
		     "not built in");
	test_refused(&(struct run){{"none", "integrity"}, .bytes = SMALL}, COLL_ERR_CONFIG,
		     "rank 1: option tcp.security is integrity, which needs libsodium",
		     "not built in, on rank 1");
}

/* Does `coll info` say that the backend has libsodium? */
static int has_sodium(void)
{
	coll_backend_info_t b = {.size = sizeof(b)};
	coll_info_t info;
	int found = 0;

	if (coll_info_create(NULL, &info))
		bail_out("coll_info_create: %s", coll_get_last_error(NULL));
	for (int32_t i = 0; !found && !coll_info_backend(info, i, &b); i++)
		found = !strcmp(b.name, "tcp") && strstr(b.description, "libsodium 1") != NULL;
	coll_info_destroy(info);
	return found;
}

int main(void)
{
	shared = ranks_memory(sizeof(*shared));
	setenv("COLL_TCP_UNIX", "no", 1);
	setenv("COLL_TCP_INTERFACE", "127.0.0.1", 1);
	test_refused(&(struct run){{"encripted", "encripted"}, .bytes = SMALL}, COLL_ERR_CONFIG,
		     "COLL_TCP_SECURITY: option 'tcp.security' has the value 'encripted': expected "
		     "one of none, integrity, encrypt",
		     "a value that does not exist");
	test_unprotected();
	if (!has_sodium()) {
		test_not_built_in();
		skip(1, "the attacks: the tcp backend is built without libsodium");
		return done_testing();
	}
	for (int encrypts = 0; encrypts < 2; encrypts++) {
		const char *security = encrypts ? "encrypt" : "integrity";

		test_undisturbed(security, SMALL, 0);
		test_undisturbed(security, LARGE, 0);
		test_undisturbed(security, LARGE, 1);
		test_attacks(security);
	}
	test_undisturbed("none", LARGE, 0);
	test_settings();
	test_meeting();
	return done_testing();
}
