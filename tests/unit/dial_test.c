/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * dial_test.c - a rank with several addresses is reached by the first address that leads to it,
 * whatever happens at the other addresses: packets vanish, a listener accepts and stays silent,
 * begins a handshake and stops, or belongs to another job.  Dialler and listeners share one loop
 * here.  A brief handshake takes no message that was made for another mesh or rank.
 */
#include <endian.h>
#include <errno.h>
#include <netinet/in.h>
#include <poll.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/error.h"
#include "base/siphash.h"
#include "meet/tree.h"
#include "socket/acceptor.h"
#include "socket/dial.h"
#include "../lib/tap.h"

enum { LONG_MS = 30000, QUICK_MS = 900, NRANKS = 4, EXTRA = 16 };

/* One listening address and the behaviour of its owner. */
struct site {
	struct handshake hs;
	struct acceptor acceptor;
	struct address address;
	uint8_t key[16];
	int fd;                              /* the connection of rank 3; -1: none yet */
	uint8_t session[HANDSHAKE_KEY_SIZE]; /* the session key of that connection */
	int connected;                       /* number of times that a rank was connected */
	int held[EXTRA], nheld;              /* sockets that fill its listen queue */
	int64_t deaf_until;                  /* time until which its owner is busy */
};

static const uint8_t job_key[16] = "the key of a job";
/* Of the handshakes that begin from now on. */
static int brief;
static uint32_t nranks = NRANKS;

static void site_mac(const void *user, const void *data, size_t len, uint8_t mac[16])
{
	siphash128(user, data, len, mac);
}

static void site_log(const void *user, int level, const char *text)
{
	(void)user;
	(void)level;
	diag("%s", text);
}

static void site_connected(void *owner, const struct session *session)
{
	struct site *site = owner;

	memcpy(site->session, session->key, sizeof(site->session));

	site->connected++;
	is_int(session->rank, 3, "rank 3 is connected");
	if (site->fd >= 0)
		close(site->fd);
	site->fd = session->fd;
}

static void site_handshake(struct handshake *hs, uint32_t rank, const void *key)
{
	*hs = (struct handshake){.magic = "COLLTEST",
				 .version = 7,
				 .name = "test",
				 .rank = rank,
				 .nranks = nranks,
				 .brief = brief,
				 .mac = site_mac,
				 .log = site_log,
				 .user = key};
}

/* Makes a socket that listens on the loopback device, or a local socket of that name. */
static int site_listen(struct site *site, const char *local)
{
	static const uint8_t loopback[4] = {127, 0, 0, 1};
	int fd, err;

	memset(site, 0, sizeof(*site));
	site->fd = -1;
	if (local)
		address_local(local, &site->address);
	else
		address_set_ip(&site->address, loopback, sizeof(loopback), 0);
	if (socket_listen(&site->address, NULL, NULL, &fd, &err))
		bail_out("%s", error_text());
	site->acceptor.listeners = (struct listeners){.fd = {fd}, .count = 1};
	return fd;
}

/* The site of rank 1. */
static void site_open(struct site *site, const char *local, const uint8_t key[16])
{
	site_listen(site, local);
	memcpy(site->key, key, sizeof(site->key));
	site_handshake(&site->hs, 1, site->key);
	site->acceptor.hs = &site->hs;
	site->acceptor.connected = site_connected;
	site->acceptor.owner = site;
	if (acceptor_begin(&site->acceptor))
		bail_out("%s", error_text());
}

/* Fills the listen queue, so that the kernel answers no connection: packets vanish. */
static int site_swallow(struct site *site)
{
	int fd = site_listen(site, NULL), vanished = 0;

	if (listen(fd, 0))
		bail_out("listen: %s", strerror(errno));
	while (!vanished && site->nheld < EXTRA) {
		int held = site->held[site->nheld++] = socket_new(AF_INET);

		if (socket_connect(held, &site->address))
			bail_out("connect: %s", strerror(errno));
		vanished = socket_poll(held, POLLOUT, clock_now_ms() + 200) == 0;
	}
	return vanished;
}

static void site_close(struct site *site)
{
	acceptor_end(&site->acceptor);
	if (site->fd >= 0)
		close(site->fd);
	while (site->nheld > 0)
		close(site->held[--site->nheld]);
}

static struct handshake_confirm confirmed; /* of the last connection to the first site */

/*
 * Rank 3 dials rank 1 at the addresses of the sites, which are served meanwhile; returns the
 * milliseconds that it took.
 */
static int64_t meet(struct dial *dial, struct site *const *sites, int n, int *code)
{
	static struct handshake hs;
	static struct poll_set set; /* of all meetings: a site may serve several of them */
	int64_t begin = clock_now_ms();
	int open = 1;

	site_handshake(&hs, 3, job_key);
	dial->hs = &hs;
	dial->peer = 1;
	for (int i = dial->addresses.count; i < n; i++)
		dial->addresses.item[dial->addresses.count++] = sites[i]->address;
	*code = dial_begin(dial);
	if (set.fds == NULL && poll_set_init(&set, ADDRESS_MAX + EXTRA * acceptor_poll_size(&hs)))
		bail_out("%s", error_text());
	/*
	 * Serves the sites for a while after the dialler has finished, because the dialler then
	 * closes its other attempts.
	 */
	for (int64_t end = begin + LONG_MS; *code == 0 && clock_now_ms() < end;) {
		poll_set_begin(&set, end);
		if (dial->session.fd < 0)
			*code = dial_prepare(dial, &set);
		if (*code)
			break;
		for (int i = 0; i < n; i++) {
			poll_set_wake(&set, sites[i]->deaf_until > clock_now_ms()
						    ? sites[i]->deaf_until
						    : INT64_MAX);
			if (sites[i]->acceptor.hs && clock_now_ms() >= sites[i]->deaf_until)
				acceptor_prepare(&sites[i]->acceptor, &set);
		}
		poll_set_wait(&set);
		if (dial->session.fd < 0)
			*code = dial_advance(dial, &set);
		for (int i = 0; i < n; i++)
			if (sites[i]->acceptor.hs && clock_now_ms() >= sites[i]->deaf_until)
				acceptor_advance(&sites[i]->acceptor, &set);
		if (open && dial->session.fd >= 0) {
			open = 0;
			end = clock_now_ms() + 50;
			begin += 50;
		}
	}
	begin = clock_now_ms() - begin;
	if (*code == 0 && dial->session.fd >= 0)
		confirmed = dial->attempts[0].conn.messages.confirm;
	dial_end(dial);
	return begin;
}

static void test_swallow(void)
{
	struct site bad, good;
	struct site *const sites[] = {&bad, &good};
	struct dial dial = {0};
	int64_t ms;
	int code;

	if (!site_swallow(&bad)) {
		skip(3, "a full queue swallows no packets here");
		site_close(&bad);
		return;
	}
	site_open(&good, NULL, job_key);
	ms = meet(&dial, sites, 2, &code);
	ok(code == 0 && dial.session.fd >= 0 && good.connected == 1,
	   "the first address swallows packets: the second one leads to the peer");
	ok(ms < QUICK_MS, "long before the first is given up: %d ms", (int)ms);
	close(dial.session.fd);
	site_close(&bad);
	site_close(&good);
}

/* As test_swallow, but through the bootstrap: the first address of the id leads nowhere. */
static void *run_rank_0(void *id)
{
	struct bootstrap *bootstrap;

	if (bootstrap_open_id(&bootstrap, &(struct bootstrap_id){.text = id}, 0, 2, NULL, LONG_MS))
		diag("%s", error_text());
	return bootstrap;
}

static void test_swallow_id(void)
{
	char id[COLL_UNIQUE_ID_SIZE], other[COLL_UNIQUE_ID_SIZE];
	uint8_t key[BOOTSTRAP_KEY_SIZE];
	struct address_list addresses;
	struct site bad;
	struct bootstrap *one = NULL;
	void *zero = NULL;
	pthread_t thread;
	int64_t begin;

	if (!site_swallow(&bad)) {
		skip(2, "a full queue swallows no packets here");
		site_close(&bad);
		return;
	}
	if (bootstrap_make_id(id, sizeof(id), "lo"))
		bail_out("%s", error_text());
	if (unique_id_parse(id, key, &addresses))
		bail_out("%s", error_text());
	memmove(addresses.item + 1, addresses.item, sizeof(addresses.item[0]));
	addresses.item[0] = bad.address;
	addresses.count = 2;
	if (unique_id_print(key, &addresses, other, sizeof(other)))
		bail_out("%s", error_text());
	begin = clock_now_ms();
	pthread_create(&thread, NULL, run_rank_0, id);
	is_int(bootstrap_open_id(&one, &(struct bootstrap_id){.text = other}, 1, 2, NULL, LONG_MS),
	       0, "an id whose first address swallows packets");
	ok(clock_now_ms() - begin < QUICK_MS, "the ranks meet in %d ms",
	   (int)(clock_now_ms() - begin));
	pthread_join(thread, &zero);
	bootstrap_close(zero);
	bootstrap_close(one);
	site_close(&bad);
}

/* The listener accepts, and perhaps begins a handshake, but never ends it. */
static void *say_challenge(void *arg)
{
	struct site *site = arg;
	struct handshake_challenge challenge = {.magic = "COLLTEST", .version = 7};

	while (site->nheld == 0) {
		int fd = accept(site->acceptor.listeners.fd[0], NULL, NULL);

		if (fd < 0) {
			poll(NULL, 0, 5);
			continue;
		}
		site->held[site->nheld++] = fd;
		if (send(fd, &challenge, sizeof(challenge), MSG_NOSIGNAL) < 0)
			diag("send: %s", strerror(errno));
	}
	return NULL;
}

static void test_silence(int challenge)
{
	struct site bad, good;
	struct site *const sites[] = {&bad, &good};
	struct dial dial = {0};
	pthread_t thread;
	int64_t ms;
	int code;

	site_listen(&bad, NULL);
	site_open(&good, NULL, job_key);
	if (challenge)
		pthread_create(&thread, NULL, say_challenge, &bad);
	ms = meet(&dial, sites, 2, &code);
	ok(code == 0 && good.connected == 1, "the first address %s: the second leads to the peer",
	   challenge ? "begins a handshake and stops" : "accepts and says nothing");
	ok(ms < LONG_MS / 2, "it gets its turn: %d ms", (int)ms);
	if (challenge)
		pthread_join(thread, NULL);
	close(dial.session.fd);
	site_close(&bad);
	site_close(&good);
}

static void test_other_job(void)
{
	struct site bad, good;
	struct site *const sites[] = {&bad, &good};
	struct dial dial = {0}, none = {0};
	int64_t ms;
	int code;

	site_open(&bad, NULL, (const uint8_t *)"the key of other");
	site_open(&good, NULL, job_key);
	ms = meet(&dial, sites, 2, &code);
	ok(code == 0 && good.connected == 1 && bad.connected == 0,
	   "the first address is of another job: the second leads to the peer");
	ok(ms < QUICK_MS, "at once: %d ms", (int)ms);
	meet(&none, sites, 1, &code);
	is_int(code, COLL_ERR_PERMISSION, "the other job's address alone");
	has_str(error_text(), "belongs to another job", "the error says whose it is");
	close(dial.session.fd);
	site_close(&bad);
	site_close(&good);
}

/*
 * The port of a rank that has ended may be another rank's by now, and an address that several hosts have leads to a
 * rank on this host.
 */
static void test_other_rank(void)
{
	struct site other, good;
	struct site *const sites[] = {&other, &good};
	struct dial dial = {0}, none = {0};
	int code;

	site_open(&other, NULL, job_key);
	other.hs.rank = 2;
	site_open(&good, NULL, job_key);
	meet(&dial, sites, 2, &code);
	ok(code == 0 && good.connected == 1,
	   "another rank of the job listens at the first address: the second leads to the peer");
	if (dial.session.fd >= 0)
		close(dial.session.fd);
	site_close(&good);
	meet(&none, sites, 1, &code);
	is_int(code, COLL_ERR_PEER_LOST, "the other rank's address alone");
	has_str(error_text(), "rank 3 wants to reach rank 1, but rank 2 listens there",
		"the error names all three");
	is_int(other.connected, 0, "the other rank takes no connection");
	site_close(&other);
}

/*
 * The owner of the acceptor has failed when a rank that it knows comes again: the rank is told the failure, and tries no
 * other address, even if the failure is a lost rank.
 */
static void test_again_after_failure(void)
{
	struct site site, other;
	struct site *const sites[] = {&site, &other};
	struct dial first = {0}, again = {0}, later = {0}, last = {0};
	int code;

	site_open(&site, NULL, job_key);
	site_open(&other, NULL, (const uint8_t *)"a different key.");
	meet(&first, sites, 1, &code);
	is_int(code, 0, "rank 3 is there");
	meet(&again, sites, 1, &code);
	is_int(code, COLL_ERR_INVALID_USAGE, "a second process of rank 3");
	has_str(error_text(), "rank 3 of 4 is there already", "is told so");
	site.acceptor.failed = COLL_ERR_DEVICE;
	site.acceptor.failed_text = "rank 2 is on fire";
	meet(&later, sites, 1, &code);
	is_int(code, COLL_ERR_DEVICE, "rank 3 comes again after a failure");
	has_str(error_text(), "rank 2 is on fire", "and is told that");
	site.acceptor.failed = COLL_ERR_PEER_LOST;
	site.acceptor.failed_text = "rank 2 has ended";
	meet(&last, sites, 2, &code);
	is_int(code, COLL_ERR_PEER_LOST, "rank 3 comes again after the loss of a rank");
	has_str(error_text(), "rank 2 has ended", "and is told that");
	is_int(site.connected, 1, "it is connected once");
	close(first.session.fd);
	site_close(&site);
	site_close(&other);
}

/* Over a slow network all ranks come before one of them has answered: none is dropped for another. */
static void test_all_at_once(void)
{
	enum { MANY = 200 };
	const int64_t end = clock_now_ms() + LONG_MS;
	struct poll_set set = {.fds = NULL};
	struct site site;
	int fds[MANY];

	nranks = MANY;
	site_open(&site, NULL, job_key);
	nranks = NRANKS;
	if (poll_set_init(&set, acceptor_poll_size(&site.hs)))
		bail_out("%s", error_text());
	for (int i = 0; i < MANY; i++) {
		fds[i] = socket_new(AF_INET);
		if (fds[i] < 0 || socket_connect(fds[i], &site.address))
			bail_out("connect: %s", strerror(errno));
	}
	while (site.acceptor.npending + site.acceptor.turned_away < MANY && clock_now_ms() < end) {
		poll_set_begin(&set, end);
		acceptor_prepare(&site.acceptor, &set);
		poll_set_wait(&set);
		acceptor_advance(&site.acceptor, &set);
	}
	is_int(site.acceptor.npending, MANY, "%d ranks at once: all may answer", MANY);
	for (int i = 0; i < MANY; i++)
		close(fds[i]);
	site_close(&site);
	poll_set_free(&set);
}

/* A mac of which any byte is wrong is no proof. */
static void test_seal(void)
{
	struct handshake_messages messages = {.challenge = {.rank = 1}};
	struct handshake hs;
	uint8_t *const macs[] = {messages.answer.mac, messages.verdict.mac, messages.confirm.mac};

	site_handshake(&hs, 3, job_key);
	for (int step = HANDSHAKE_ANSWER; step <= HANDSHAKE_CONFIRM; step++) {
		int taken = 0;

		handshake_seal(&hs, &messages, (enum handshake_step)step, macs[step]);
		ok(handshake_is_sealed(&hs, &messages, (enum handshake_step)step),
		   "the mac of message %d is right", step);
		for (int i = 0; i < HANDSHAKE_MAC_SIZE; i++) {
			macs[step][i] ^= 1;
			taken += handshake_is_sealed(&hs, &messages, (enum handshake_step)step);
			macs[step][i] ^= 1;
		}
		is_int(taken, 0, "message %d: no mac with a wrong byte is", step);
	}
}

/* Both ends of a connection have the same session key; two connections under one job key have different ones. */
static void test_session_key(void)
{
	static const uint8_t zero[HANDSHAKE_KEY_SIZE];
	struct dial dials[2] = {{0}, {0}};
	struct site site[2];
	int code, equal = 0, sent = 0;

	for (int i = 0; i < 2; i++) {
		struct site *const sites[] = {&site[i]};

		site_open(&site[i], NULL, job_key);
		meet(&dials[i], sites, 1, &code);
		equal += code == 0 && !memcmp(dials[i].session.key, site[i].session, sizeof(zero));
		sent += !memcmp(dials[i].session.key, confirmed.mac, sizeof(zero));
	}
	is_int(equal, 2, "both ends of a connection have the same session key");
	ok(memcmp(dials[0].session.key, dials[1].session.key, sizeof(zero)) != 0 &&
		   memcmp(dials[0].session.key, zero, sizeof(zero)) != 0,
	   "two connections have different ones");
	is_int(sent, 0, "and no mac on the wire is the key");
	for (int i = 0; i < 2; i++) {
		close(dials[i].session.fd);
		site_close(&site[i]);
	}
}

/*
 * Somebody sends the site the brief answer of rank 3 to rank `to`, under that key.  Returns the number of connections that the
 * site has taken since, once it has taken or closed this one.
 */
static int send_answer(struct site *site, struct poll_set *set, uint32_t to, const uint8_t key[16])
{
	static uint64_t dial = 33;

	struct handshake_messages messages = {.answer = {.magic = "COLLTEST",
							 .version = htole32(7),
							 .rank = htole32(3),
							 .to = htole32(to),
							 .nranks = htole32(NRANKS),
							 .order = HANDSHAKE_BYTE_ORDER,
							 .dial = dial++}};
	const int64_t end = clock_now_ms() + LONG_MS;
	const int before = site->connected;
	struct handshake hs;
	char byte;
	int fd = socket_new(AF_UNIX);

	site_handshake(&hs, 3, key);
	handshake_seal(&hs, &messages, HANDSHAKE_ANSWER, messages.answer.mac);
	if (fd < 0 || socket_connect(fd, &site->address) ||
	    socket_write(fd, &messages.answer, sizeof(messages.answer)) < 0)
		bail_out("no connection to the site: %s", strerror(errno));
	while (site->connected == before && !socket_poll(fd, POLLIN, clock_now_ms()) &&
	       clock_now_ms() < end) {
		poll_set_begin(set, end);
		acceptor_prepare(&site->acceptor, set);
		poll_set_wait(set);
		acceptor_advance(&site->acceptor, set);
	}
	ok(socket_read(fd, &byte, 1) == (site->connected == before ? -1 : 0),
	   "the site sends nothing, and hangs up if it refuses");
	close(fd);
	return site->connected - before;
}

/* Where ranks know each other's random number, a local socket takes one message, and no other's message. */
static void test_brief(void)
{
	static const struct handshake_confirm none;
	static const uint8_t other_mesh[16] = "another mesh", no_key[16];
	static const struct {
		const char *what;
		const uint8_t *key;
		uint32_t to;
		int taken;
	} cases[] = {
		{"an answer", job_key, 1, 1},
		{"the answer of another mesh", other_mesh, 1, 0},
		{"an answer for another rank", job_key, 2, 0},
	};
	struct poll_set set = {.fds = NULL};
	struct site site;
	struct site *const sites[] = {&site};
	struct dial dial = {0};
	int code;

	brief = 1;
	site_open(&site, "coll-dial-test-brief", job_key);
	meet(&dial, sites, 1, &code);
	ok(code == 0 && dial.session.fd >= 0 && dial.session.family == AF_UNIX,
	   "a brief handshake connects");
	ok(!memcmp(&confirmed, &none, sizeof(none)), "without a confirm");
	ok(!memcmp(dial.session.key, no_key, sizeof(dial.session.key)),
	   "and without a session key");
	close(dial.session.fd);
	site_close(&site);
	if (poll_set_init(&set, acceptor_poll_size(&site.hs)))
		bail_out("%s", error_text());
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		site_open(&site, "coll-dial-test-brief", job_key);
		is_int(send_answer(&site, &set, cases[i].to, cases[i].key), cases[i].taken, "%s",
		       cases[i].what);
		is_int(send_answer(&site, &set, 1, job_key), !cases[i].taken,
		       "%s: the next process that is rank 3", cases[i].what);
		site_close(&site);
	}
	poll_set_free(&set);
	brief = 0;
}

static void test_nobody(void)
{
	struct site gone[3];
	struct site *const sites[] = {&gone[0], &gone[1], &gone[2]};
	struct dial dial = {0};
	int64_t ms;
	int code;

	for (int i = 0; i < 3; i++) {
		site_listen(&gone[i], NULL);
		site_close(&gone[i]);
		listeners_close(&gone[i].acceptor.listeners);
	}
	ms = meet(&dial, sites, 3, &code);
	is_int(code, COLL_ERR_PEER_LOST, "nobody listens at any address");
	has_str(error_text(), "Connection refused", "the error says so");
	ok(ms < QUICK_MS, "at once: %d ms", (int)ms);
}

/* All addresses lead to the peer, which is busy so long that the dialler tries several. */
static void test_all_lead_there(int spare)
{
	struct site good;
	struct site *const sites[] = {&good};
	struct dial dial = {.extra_sockets = &spare};
	const int before = spare;
	uint16_t port;
	int code, err;

	site_open(&good, NULL, job_key);
	listeners_close(&good.acceptor.listeners);
	if (socket_listen_any(0, &good.acceptor.listeners.fd[0], &port, &err))
		bail_out("%s", error_text());
	good.acceptor.listeners.count = 1;
	for (uint8_t i = 1; i <= 5; i++) {
		const uint8_t ip[4] = {127, 0, 0, i};

		address_set_ip(&dial.addresses.item[dial.addresses.count++], ip, sizeof(ip), port);
	}
	good.deaf_until = clock_now_ms() + 1200;
	meet(&dial, sites, 1, &code);
	ok(code == 0 && good.connected == 1, "a busy peer: one connection (%d sockets to spare)",
	   before);
	is_int(spare, before, "all sockets to spare are back");
	is_int(good.acceptor.npending, 0, "no attempt is left over");
	close(dial.session.fd);
	site_close(&good);
}

/* The dialler prefers a local socket, however long its owner takes. */
static void test_local_first(void)
{
	struct site local, inet;
	struct site *const sites[] = {&local, &inet};
	char name[40];
	struct dial dial = {.local = 1};
	int code;

	snprintf(name, sizeof(name), "coll-dial-test-%d", (int)getpid());
	site_open(&local, name, job_key);
	site_open(&inet, NULL, job_key);
	local.deaf_until = clock_now_ms() + 1200;
	meet(&dial, sites, 2, &code);
	ok(code == 0 && local.connected == 1 && inet.connected == 0,
	   "a local socket whose owner is late wins over TCP");
	is_str(dial.session.address, "a local socket", "its address");
	close(dial.session.fd);
	listeners_close(&local.acceptor.listeners);
	dial = (struct dial){.local = 1};
	meet(&dial, sites, 2, &code);
	ok(code == 0 && inet.connected == 1, "TCP where nobody listens at the local socket");
	close(dial.session.fd);
	site_close(&local);
	site_close(&inet);
}

/* Dials until `end`; the site accepts connections meanwhile, and says nothing. */
static void dial_until(struct dial *dial, struct poll_set *set, int64_t end)
{
	while (clock_now_ms() < end)
		if (dial_step(dial, set, end))
			bail_out("%s", error_text());
}

/* Nobody listens for a long time, and then somebody who says nothing, for a short one. */
static void test_lasting(void)
{
	struct site site;
	struct handshake hs;
	struct dial dial = {.retry = 1, .named = 1};
	struct pollfd fds[ADDRESS_MAX];
	struct poll_set set;
	char report[DIAL_REPORT_SIZE], address[ADDRESS_TEXT_SIZE];
	int fd = site_listen(&site, NULL), err;

	close(fd);
	site_handshake(&hs, 3, job_key);
	dial.hs = &hs;
	dial.peer = 1;
	dial.addresses = (struct address_list){.item = {site.address, site.address}, .count = 2};
	address_set_port(&dial.addresses.item[1], 1);
	poll_set_init_small(&set, fds, ADDRESS_MAX);
	if (dial_begin(&dial))
		bail_out("%s", error_text());
	dial_until(&dial, &set, clock_now_ms() + 500);
	is_int(dial_reasons(&dial), DIAL_MISSES_PEER, "nobody listens");
	if (socket_listen(&site.address, NULL, NULL, &site.acceptor.listeners.fd[0], &err))
		bail_out("%s", error_text());
	dial_until(&dial, &set, clock_now_ms() + 150);
	dial_report(&dial, report);
	address_format(&site.address, address);
	ok(strstr(report, address) == report, "the report begins with the first address: %s",
	   report);
	has_str(report + strlen(address), ": Connection refused (for 0.",
		"the reason is the lasting one, with its time");
	has_str(report, "127.0.0.1:1: Connection refused", "the second address has a reason too");
	ok(strstr(report, "nobody answers") == NULL, "the last reason did not last");
	dial_end(&dial);
	site_close(&site);
}

/* A stranger that sends a byte from time to time is dropped as early as one that says nothing. */
static void test_slow_stranger(void)
{
	enum { LIFE_MS = 2000 };
	struct pollfd fds[ADDRESS_MAX + 100];
	struct poll_set set;
	struct site site;
	int fd = socket_new(AF_INET);

	site_open(&site, NULL, job_key);
	if (socket_connect(fd, &site.address))
		bail_out("connect: %s", strerror(errno));
	poll_set_init_small(&set, fds, ADDRESS_MAX + 100);
	for (int i = 0; i < 2; i++) {
		poll_set_begin(&set, clock_now_ms() + LONG_MS);
		acceptor_prepare(&site.acceptor, &set);
		poll_set_wait(&set);
		acceptor_advance(&site.acceptor, &set);
		if (i == 0) {
			is_int(site.acceptor.npending, 1, "a stranger is let in");
			site.acceptor.pending[0].conn.since -= LIFE_MS;
			if (socket_write(fd, site.hs.magic, 1) != 1)
				bail_out("write: %s", strerror(errno));
		}
	}
	is_int(site.acceptor.npending, 0, "a byte does not prolong its time");
	site_close(&site);
	close(fd);
}

/* An address that can never work ends at once, and names the reason. */
static void test_hopeless(void)
{
	static const uint8_t local[16] = {0xfe, 0x80, [15] = 1};
	struct address address;
	struct site site = {.fd = -1};
	struct site *const sites[] = {&site};
	struct dial dial = {.retry = 1, .named = 1};
	int code;

	address_set_ip(&address, local, sizeof(local), 1);
	site.address = address;
	ok(meet(&dial, sites, 1, &code) < QUICK_MS && code == COLL_ERR_SYSTEM,
	   "a link-local address without interface");
	has_str(error_text(), "[fe80::1]:1: ", "the error names it: %s", error_text());
}

int main(void)
{
	test_swallow();
	test_swallow_id();
	test_silence(0);
	test_silence(1);
	test_other_job();
	test_other_rank();
	test_again_after_failure();
	test_all_at_once();
	test_session_key();
	test_brief();
	test_seal();
	test_nobody();
	test_all_lead_there(0);
	test_all_lead_there(8);
	test_local_first();
	test_lasting();
	test_slow_stranger();
	test_hopeless();
	return done_testing();
}
