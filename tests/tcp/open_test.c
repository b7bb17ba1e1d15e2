/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * open_test.c - ranks of the tcp plugin connect to each other although unknown peers connect too,
 * or report why they cannot.
 */
#include "../lib/open_files.h"
#include "../lib/tap.h"
#include "../lib/transport_harness.h"

#include <ifaddrs.h>
#include <net/if.h>
#include <sys/resource.h>
#include <sys/socket.h>

static const coll_backend_t *test_backend;
static int test_fds_before;

static const char *const test_tcp[] = {"unix", "no", NULL};
static const char *const test_nowhere[] = {"interface", "nosuch0", NULL};

enum { TEST_UNKNOWN_PEERS = 100, TEST_PROBES = 8 };

/* Every rank sends a word to every other rank. */
static int test_words(struct harness *h)
{
	uint64_t in[HARNESS_RANKS], out[HARNESS_RANKS];
	coll_send_t send[HARNESS_RANKS];
	struct harness_recv recv[HARNESS_RANKS];

	for (uint32_t i = 0; i < h->host.nranks; i++) {
		out[i] = h->host.rank * 100 + i;
		recv[i] = (struct harness_recv){.peer = i, .buf = (uint8_t *)&in[i], .size = 8};
		harness_recv(h, &recv[i]);
		if (harness_send(h, &send[i], i, 0, &out[i], 8))
			return harness_fail(h, "sending to %u", i);
	}
	for (uint32_t i = 0; i < h->host.nranks; i++)
		if (harness_wait(h, &send[i].status) || harness_wait(h, &recv[i].status) ||
		    in[i] != i * 100 + h->host.rank)
			return harness_fail(h, "the word of rank %u is wrong", i);
	return harness_barrier(h);
}

/* -------------------------------------------------------------- unknown peers -- */

/* Is it a listening socket of the given family (0: any)?  Fills its address. */
static socklen_t test_listener(int fd, int family, struct sockaddr_storage *address)
{
	socklen_t len = sizeof(int), size = sizeof(*address);
	int listening = 0;

	if (getsockopt(fd, SOL_SOCKET, SO_ACCEPTCONN, &listening, &len) || !listening ||
	    getsockname(fd, (struct sockaddr *)address, &size) ||
	    (family && address->ss_family != family))
		return 0;
	return size;
}

static void test_unknown_peer(int kind, const struct sockaddr_storage *address, socklen_t len)
{
	static const char http[] = "GET / HTTP/1.1\r\nHost: example.org\r\n\r\n";
	/* Sends an answer of rank 1 of 4 to rank 0's challenge with a wrong mac. */
	static const struct {
		char magic[8];
		uint32_t version, rank, to, nranks, order, reserved;
		uint8_t dial[8], nonce[16], mac[16];
	} answer = {.magic = {'C', 'O', 'L', 'L', '-', 'T', 'C', 'P'},
		    .version = 3,
		    .rank = 1,
		    .nranks = 4,
		    .order = 0x01020304};
	char noise[5000];
	int fd = socket(address->ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);

	for (size_t i = 0; i < sizeof(noise); i++)
		noise[i] = (char)(i * 2654435761u >> 7);
	if (fd < 0 || connect(fd, (const struct sockaddr *)address, len))
		_exit(9);
	switch (kind % 5) {
	case 0: close(fd); return;
	case 1: send(fd, http, sizeof(http), MSG_NOSIGNAL); return;
	case 2: send(fd, noise, sizeof(noise), MSG_NOSIGNAL); return;
	case 3: send(fd, &answer, sizeof(answer), MSG_NOSIGNAL); return;
	default: return; /* silence */
	}
}

/* Connects a hundred unknown peers to each listener of rank 0 before rank 0 accepts connections. */
static int test_invite_unknown_peers(struct harness *h)
{
	struct sockaddr_storage address;
	socklen_t len;

	if (h->host.rank != 0)
		return 0;
	for (int fd = 0; fd < 64; fd++)
		for (int i = 0; (len = test_listener(fd, 0, &address)) && i < TEST_UNKNOWN_PEERS;
		     i++)
			test_unknown_peer(i, &address, len);
	return 0;
}

/* ------------------------------------------------------------------------ probes -- */

static char test_turned_away[200]; /* what the plugin logs of connections from others */

static void test_log(const coll_host_t *host, int32_t level, const char *text)
{
	(void)host;
	(void)level;
	if (strstr(text, "were not from ranks"))
		snprintf(test_turned_away, sizeof(test_turned_away), "%s", text);
}

/* Ranks that look whether rank 0 listens connect and close; one unknown peer is among them. */
static int test_invite_probes(struct harness *h)
{
	struct sockaddr_storage address;
	socklen_t len;

	h->host.log = test_log;
	for (int fd = 0; fd < 64 && h->host.rank == 0; fd++)
		for (int i = 0; (len = test_listener(fd, AF_UNIX, &address)) && i < TEST_PROBES;
		     i++)
			test_unknown_peer(i == TEST_PROBES / 2, &address, len);
	return 0;
}

static int test_words_and_log(struct harness *h)
{
	int code = test_words(h);

	if (!code && h->host.rank == 0 &&
	    strncmp(test_turned_away, "1 tcp backend connections were", 30) != 0)
		code = harness_fail(h, "logged: '%s'", test_turned_away);
	return code;
}

/* ----------------------------------------------------------- faults of one rank -- */

static int test_late(struct harness *h)
{
	if (h->host.rank == 2)
		usleep(4000000);
	return 0;
}

static int test_die_last(struct harness *h)
{
	if (h->host.rank == h->host.nranks - 1)
		kill(getpid(), SIGKILL);
	return 0;
}

/* The other ranks dial it when it is dead.  Had they dialled before, only the core's question to all ranks would tell them. */
static int test_die_first(struct harness *h)
{
	if (h->host.rank == 0)
		kill(getpid(), SIGKILL);
	harness_await_end(h, 0);
	return 0;
}

static int test_abort_soon(struct harness *h)
{
	h->aborting = 1;
	if (h->host.rank == 2)
		usleep(1000000);
	return 0;
}

/* Lets no connection through to the local address of rank 0. */
static int test_deafen(struct harness *h)
{
	struct sockaddr_storage address;

	for (int fd = 0; fd < 64 && h->host.rank == 0; fd++)
		if (test_listener(fd, AF_UNIX, &address))
			shutdown(fd, SHUT_RDWR);
	return 0;
}

/* ------------------------------------------------------------------------ ports -- */

static int test_ports(void)
{
	struct sockaddr_storage address;
	int ports = 0;

	for (int fd = 0; fd < 64; fd++)
		ports += test_listener(fd, AF_INET, &address) ||
			 test_listener(fd, AF_INET6, &address);
	return ports;
}

/* The listening sockets are open while the ranks exchange their addresses. */
static int test_no_port(struct harness *h)
{
	int ports = test_ports();

	return ports ? harness_fail(h, "%d ports are open", ports) : 0;
}

static int test_some_port(struct harness *h)
{
	return test_ports() ? 0 : harness_fail(h, "no port is open");
}

/* Ranks that share nothing leave loopback addresses out. */
static int test_has_network(void)
{
	struct ifaddrs *list;
	int found = 0;

	if (getifaddrs(&list))
		return 0;
	for (const struct ifaddrs *i = list; i; i = i->ifa_next)
		found |= i->ifa_addr && i->ifa_addr->sa_family == AF_INET &&
			 (i->ifa_flags & (IFF_UP | IFF_LOOPBACK)) == IFF_UP;
	freeifaddrs(list);
	return found;
}

/* ----------------------------------------------------------------- faults, again -- */

static int test_few_descriptors(struct harness *h)
{
	struct rlimit limit;

	(void)h;
	getrlimit(RLIMIT_NOFILE, &limit);
	limit.rlim_cur = 24;
	return setrlimit(RLIMIT_NOFILE, &limit);
}

static rlim_t test_hard_limit = 20;

static int test_limit_descriptors(struct harness *h)
{
	struct rlimit limit = {test_hard_limit, test_hard_limit};

	(void)h;
	return setrlimit(RLIMIT_NOFILE, &limit);
}

/* Keeps code and text of a failed open, and verifies that open left nothing behind. */
static int test_keep_error(struct harness *h)
{
	int fds = open_files();

	if (h->ep || fds != test_fds_before)
		return harness_fail(h, "code %d, endpoint %p, %d descriptors instead of %d",
				    h->open_code, h->ep, fds, test_fds_before);
	harness_fail(h, "%s", h->open_error.text);
	return h->open_code;
}

/* ----------------------------------------------------------------------- runs -- */

static void test_run(struct harness_job job, const char *name)
{
	job.backend = test_backend;
	job.run = test_words;
	ok(!harness_run(&job), "%s", name);
	for (uint32_t i = 0; i < job.nranks; i++)
		if (job.shared->result[i])
			diag("rank %u: %d %s", i, job.shared->result[i], job.shared->text[i]);
	harness_job_free(&job);
}

static void test_good(uint32_t nranks, const char *const *options, harness_fn exchanged,
		      const char *name)
{
	struct harness_job job = {.nranks = nranks, .options = options, .exchanged = exchanged};

	test_run(job, name);
}

/* Who shares the host, as the core says, decides over local sockets and ports. */
static void test_shares(void)
{
	struct harness_job job = {.nranks = 3, .exchanged = test_no_port};

	test_run(job, "all ranks on one host: no port");
	job.exchanged = test_some_port;
	job.options = test_tcp;
	test_run(job, "all ranks on one host without local sockets: ports");
	if (!test_has_network()) {
		skip(3, "no network but the loopback device");
		return;
	}
	job = (struct harness_job){.nranks = 3, .exchanged = test_some_port, .apart = 2};
	test_run(job, "a rank on another host: ports");
	job.exchanged = test_deafen;
	test_run(job, "TCP where the local address does not work");
	job = (struct harness_job){.nranks = 3, .exchanged = test_some_port, .old_core = 1};
	test_run(job, "a core that does not say who shares a host: ports");
}

/* Makes a run in which open fails on rank `rank` (and others) with that code and piece of text. */
static void test_bad(struct harness_job job, uint32_t rank, int32_t code, const char *piece,
		     const char *name)
{
	job.backend = test_backend;
	job.run = test_keep_error;
	job.open_may_fail = 1;
	harness_run(&job);
	is_int(job.shared->result[rank], code, "%s: code of rank %u", name, rank);
	has_str(job.shared->text[rank], piece, "%s: text of rank %u", name, rank);
	harness_job_free(&job);
}

/* The error names a hard limit that suffices. */
static void test_named_limit(void)
{
	static const char before[] = "12 ranks need a limit of at least ";
	struct harness_job job = {.backend = test_backend,
				  .nranks = 12,
				  .exchanged = test_limit_descriptors,
				  .run = test_keep_error,
				  .open_may_fail = 1};
	const char *at;

	harness_run(&job);
	at = strstr(job.shared->text[0], before);
	is_int(job.shared->result[0], COLL_ERR_SYSTEM, "a hard limit of 20 descriptors");
	if (ok(at != NULL, "the text names the limit"))
		test_hard_limit = (rlim_t)strtoul(at + strlen(before), NULL, 10);
	else
		diag("%s", job.shared->text[0]);
	harness_job_free(&job);
	ok(test_hard_limit > 20 && test_hard_limit < 64, "12 ranks need less than 64 descriptors");
	test_good(12, NULL, test_limit_descriptors, "the limit that the text names");
}

static void test_faults(void)
{
	struct harness_job late = {.nranks = 3, .exchanged = test_late, .timeout_ms = 1500};
	struct harness_job bad = {.nranks = 3, .options = test_nowhere, .options_of = 1};
	int64_t begin;

	test_bad(late, 0, COLL_ERR_TIMEOUT, "timed out: not connected with rank 2 after",
		 "a late rank");
	late.options = test_tcp;
	test_bad(late, 1, COLL_ERR_TIMEOUT, "timed out: not connected with rank 2 after",
		 "a late rank over TCP");
	test_bad(bad, 1, COLL_ERR_CONFIG, "'nosuch0'", "no such interface");
	test_bad(bad, 0, COLL_ERR_CONFIG, "rank 1: ", "a rank without interface");
	test_bad(bad, 2, COLL_ERR_CONFIG, "'nosuch0'", "a rank without interface");
	begin = harness_now_ms();
	test_bad((struct harness_job){.nranks = 2, .exchanged = test_die_last}, 0,
		 COLL_ERR_PEER_LOST, "rank 1 is gone", "the last of two dies");
	/*
	 * The first rank that notices closes its connections, so the other ranks may name that
	 * rank.
	 */
	test_bad((struct harness_job){.nranks = 4, .exchanged = test_die_last}, 0,
		 COLL_ERR_PEER_LOST, "rank", "the last of four dies");
	test_bad((struct harness_job){.nranks = 3, .exchanged = test_die_first}, 2,
		 COLL_ERR_PEER_LOST, "rank", "the first rank dies");
	ok(harness_now_ms() - begin < 40000, "nobody waits for the dead");
	test_bad((struct harness_job){.nranks = 3, .exchanged = test_abort_soon}, 0,
		 COLL_ERR_ABORTED, "aborted", "aborting");
	test_named_limit();
}

int main(void)
{
	test_backend = harness_load("tcp");
	if (!test_backend)
		bail_out("cannot load the tcp plugin");
	test_fds_before = open_files();
	test_good(4, NULL, test_invite_unknown_peers, "unknown peers at all addresses");
	test_good(4, test_tcp, test_invite_unknown_peers, "unknown peers at TCP addresses");
	harness_check(&(struct harness_job){.backend = test_backend,
					    .nranks = 2,
					    .exchanged = test_invite_probes,
					    .run = test_words_and_log},
		      "ranks that look whether another one listens are no unknown peers");
	test_shares();
	test_good(12, NULL, test_few_descriptors, "a soft limit of 24 descriptors is raised");
	test_faults();
	return done_testing();
}
