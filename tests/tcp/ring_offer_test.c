/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_offer_test.c - the frames and offers by which two ranks of the tcp plugin move their stream to shared memory:
 * which frames and offers of its peer a rank refuses, where in the stream it sends its own, and which memory counts.
 *
 * The ends of a local socket are the rank's and the peer's; the rest of the plugin is not there.
 */
#include "../lib/open_files.h"
#include "../lib/tap.h"
#include "offer.h"

#include "tcp_ring.h"

#include <errno.h>

enum { RANKS = 5, OWN = 0, PEER = 1, RING = 64 << 10, LEAST = 4096, MOST = 1 << 30 };

static int ends[2]; /* the rank's, the peer's */
static char lost[120], told[300];
static int64_t memory; /* the option ring_memory */

/* ------------------------------------------------------------- the rest of the plugin -- */

void tcp_lose(struct tcp *t, struct tcp_conn *conn, const char *why)
{
	(void)t;
	(void)conn;
	snprintf(lost, sizeof(lost), "%s", why);
}

static int memory_slot = -1; /* of the memory that the peer has offered */
static int refusals;         /* memory that came without a descriptor */

const char *tcp_borrow_take(struct tcp *t, struct tcp_conn *conn, int fd, int slot)
{
	(void)t;
	(void)conn;
	(void)fd;
	memory_slot = slot;
	return NULL;
}

void tcp_borrow_refuse(struct tcp *t, struct tcp_conn *conn, const char *why)
{
	(void)t;
	(void)conn;
	(void)why;
	refusals++;
}

void tcp_lender_free(struct tcp *t, struct tcp_conn *conn)
{
	(void)t;
	(void)conn;
}

uint64_t tcp_bounce_most(const struct tcp *t)
{
	return t->ring_memory / 4;
}

void tcp_borrower_free(struct tcp_conn *conn)
{
	(void)conn;
}

static int64_t option_int(const coll_host_t *host, const char *key)
{
	(void)host;
	return strcmp(key, "ring") ? memory : RING;
}

static void host_log(const coll_host_t *host, int32_t level, const char *text)
{
	(void)host;
	(void)level;
	snprintf(told, sizeof(told), "%s", text);
}

static const coll_host_t host = {
	.size = sizeof(host), .nranks = RANKS, .option_int = option_int, .log = host_log};
static struct tcp_conn conns[RANKS];
static uint32_t ring_peers[RANKS];
static struct tcp tcp;

static void begin(int64_t ring_memory)
{
	memory = ring_memory;
	lost[0] = told[0] = '\0';
	memset(conns, 0, sizeof(conns));
	tcp = (struct tcp){.host = &host, .nranks = RANKS, .rank = OWN, .conn = conns};
	tcp.ring_peers = ring_peers;
	tcp_ring_init(&tcp);
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends))
		bail_out("socketpair: %s", strerror(errno));
	for (uint32_t i = 0; i < RANKS; i++)
		conns[i].fd = i == PEER ? ends[0] : -1;
	for (uint32_t i = 0; i < RANKS; i++)
		conns[i].peer = i;
}

static void end(void)
{
	for (uint32_t i = 0; i < RANKS; i++)
		tcp_ring_free(&tcp, &conns[i]);
	close(ends[0]);
	close(ends[1]);
}

/* The bytes that the peer finds. */
static int64_t received(void)
{
	char bytes[4096];

	return recv(ends[1], bytes, sizeof(bytes), MSG_DONTWAIT);
}

/* -------------------------------------------------------------------- frames of a peer -- */

static void test_frames(void)
{
	static const struct {
		const char *what;
		coll_header_t frame;
		int inet, in_on, memory;
		uint32_t peer;
	} bad[] = {
		{"a switch without memory", {.tag = TCP_FRAME_SWITCH}, 0, 0, 0, PEER},
		{"a second switch", {.tag = TCP_FRAME_SWITCH}, 0, 1, 1, PEER},
		{"a note after the switch", {.tag = TCP_FRAME_NOTE}, 0, 1, 1, PEER},
		{"a note over TCP", {.tag = TCP_FRAME_NOTE}, 1, 0, 1, PEER},
		{"a switch over TCP", {.tag = TCP_FRAME_SWITCH}, 1, 0, 1, PEER},
		{"a note of the own rank", {.tag = TCP_FRAME_NOTE}, 0, 0, 1, OWN},
		{"a switch of the own rank", {.tag = TCP_FRAME_SWITCH}, 0, 0, 1, OWN},
		{"an unknown frame", {.tag = TCP_FRAME_SWITCH + 1}, 0, 0, 1, PEER},
		{"a frame with bits in its first word", {.meta = {1, 0}}, 0, 0, 1, PEER},
		{"a frame with bits in its second word", {.meta = {0, 1}}, 0, 0, 1, PEER},
	};
	coll_header_t frame = {.tag = TCP_FRAME_NOTE, .len = TCP_FRAME};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		struct tcp_ring_control *control = (void *)(uintptr_t)LEAST;
		struct tcp_conn *conn = &conns[bad[i].peer];

		begin(RING);
		conn->in.control = bad[i].memory ? control : NULL;
		conn->inet = bad[i].inet;
		conn->in_on = bad[i].in_on;
		is_int(tcp_ring_frame(&tcp, conn, &bad[i].frame), -1, "%s is invalid", bad[i].what);
		ok(conn->in_on == bad[i].in_on && tcp.rings == 0, "and changes nothing");
		conn->in = (struct tcp_ring){.control = NULL};
		end();
	}
	begin(RING);
	tcp_ring_offer(&tcp, &conns[PEER]);
	ok(tcp_ring_frame(&tcp, &conns[PEER], &frame) == 0 && !conns[PEER].in_on,
	   "after a note the stream stays on the socket");
	frame.tag = TCP_FRAME_SWITCH;
	is_int(tcp_ring_frame(&tcp, &conns[PEER], &frame), 1, "after a switch it is in the ring");
	ok(conns[PEER].in_on && tcp.rings == 1 && ring_peers[0] == PEER, "which is read");
	end();
}

/* -------------------------------------------------------------------- offers of a peer -- */

/* The peer sends memory of the size with a byte, and the rank takes it. */
static int take_byte(off_t size, char byte)
{
	union {
		struct cmsghdr align;
		char bytes[CMSG_SPACE(sizeof(int))];
	} control = {.bytes = {0}};
	struct iovec iov = {&byte, 1};
	struct msghdr msg = {.msg_iov = &iov,
			     .msg_iovlen = 1,
			     .msg_control = control.bytes,
			     .msg_controllen = CMSG_LEN(sizeof(int))};

	if (offer_memory(ends[1], &byte, 1, size, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL))
		bail_out("cannot offer memory: %s", strerror(errno));
	if (recvmsg(ends[0], &msg, MSG_CMSG_CLOEXEC) != 1)
		bail_out("the offer does not come: %s", strerror(errno));
	return tcp_ring_take(&tcp, &conns[PEER], &msg, 1);
}

static int take_offer(off_t size)
{
	return take_byte(size, 0);
}

static void test_offers(void)
{
	static const char size[] = "it offered shared memory of an invalid size";
	static const off_t sizes[] = {TCP_RING_CONTROL, TCP_RING_CONTROL + LEAST / 2,
				      TCP_RING_CONTROL + 3 * LEAST,
				      TCP_RING_CONTROL + 2 * (off_t)MOST};
	int files;

	for (size_t i = 0; i < sizeof(sizes) / sizeof(sizes[0]); i++) {
		begin(RING);
		files = open_files();
		is_int(take_offer(sizes[i]), -1, "memory of %lld bytes is refused",
		       (long long)sizes[i]);
		is_str(lost, size, "the peer is lost for it");
		ok(!conns[PEER].out.control && open_files() == files, "nothing of it is left");
		end();
	}
	begin(RING);
	files = open_files();
	is_int(take_offer(TCP_RING_CONTROL + LEAST), 0, "the least memory is taken");
	ok(conns[PEER].out_on && conns[PEER].out.size == LEAST, "and used");
	is_int(open_files(), files, "its descriptor is closed");
	is_int(received(), sizeof(coll_header_t), "the peer is told");
	is_int(take_offer(TCP_RING_CONTROL + LEAST), -1, "memory that is offered twice is refused");
	is_str(lost, "it offered shared memory twice", "the peer is lost for it");
	is_int(open_files(), files, "its descriptor is closed too");
	is_int(take_byte(LEAST, TCP_FRAME_SLOT), 0, "memory of coll_mem_alloc is taken");
	is_int(memory_slot, 0, "for the first slot");
	is_int(take_byte(LEAST, TCP_FRAME_SLOT + TCP_LENT_SLOTS - 1), 0, "other such memory");
	is_int(memory_slot, TCP_LENT_SLOTS - 1, "for the last slot");
	is_int(take_byte(LEAST, TCP_FRAME_SLOT + TCP_LENT_SLOTS), -1, "there are no further slots");
	is_int(open_files(), files, "their descriptors are closed");
	end();
}

/* ------------------------------------------------------------- where frames may stand -- */

static void test_between(void)
{
	struct tcp_conn *conn = &conns[PEER];
	uint8_t rest;
	int files;

	begin(RING);
	files = open_files();
	conn->done = 5;
	tcp_ring_offer(&tcp, conn);
	ok(conn->offering && received() < 0, "within a message no offer is sent");
	tcp_ring_wake(&tcp, conn);
	ok(received() < 0, "and no note");
	conn->done = 0;
	conn->rest.bytes = &rest;
	tcp_ring_settle(&tcp, conn);
	tcp_ring_wake(&tcp, conn);
	ok(conn->offering && received() < 0, "nor within one that was given up");
	conn->rest.bytes = NULL;
	conn->send_errno = EPIPE;
	tcp_ring_settle(&tcp, conn);
	ok(conn->offering, "nor where sending has failed");
	conn->send_errno = 0;
	tcp_ring_settle(&tcp, conn);
	ok(!conn->offering, "after the message it is");
	is_int(open_files(), files, "and its descriptor closed");
	is_int(received(), sizeof(coll_header_t), "the peer gets a frame");
	is_int(take_offer(TCP_RING_CONTROL + LEAST), 0, "the peer offers memory");
	is_int(received(), sizeof(coll_header_t), "the stream goes there");
	conn->done = 5;
	tcp_ring_wake(&tcp, conn);
	is_int(received(), 1, "and then a byte wakes the peer, also within a message");
	conn->done = 0;
	end();
	begin(RING);
	files = open_files();
	conn->done = 5;
	tcp_ring_offer(&tcp, conn);
	tcp_ring_free(&tcp, conn);
	is_int(open_files(), files, "an offer that was never sent is closed with the connection");
	conn->done = 0;
	end();
}

/* --------------------------------------------------------------------- what counts -- */

static void test_memory(void)
{
	struct tcp_conn *conn = &conns[PEER];

	begin(2 * RING - 1);
	tcp_ring_offer(&tcp, conn);
	ok(conn->in.control != NULL, "memory for one ring");
	tcp_ring_offer(&tcp, &conns[2]);
	ok(!conns[2].in.control && !conns[2].offering, "is not enough for two");
	has_str(told, "ring_memory is spent", "the user is told");
	tcp_ring_free(&tcp, conn);
	for (int i = 0; i < 3; i++) {
		tcp_ring_offer(&tcp, &conns[2]);
		ok(conns[2].in.control != NULL, "but for one after the other");
		tcp_ring_free(&tcp, &conns[2]);
	}
	end();
}

/* The ring of a lost peer is not read any more, and those of the others are. */
static void test_ring_lost(void)
{
	const coll_header_t frame = {.tag = TCP_FRAME_SWITCH, .len = TCP_FRAME};
	int read[RANKS] = {0};

	begin(RANKS * RING);
	for (uint32_t i = 1; i < RANKS; i++) {
		tcp_ring_offer(&tcp, &conns[i]);
		if (tcp_ring_frame(&tcp, &conns[i], &frame) != 1)
			bail_out("rank %u has no ring", i);
	}
	tcp_ring_free(&tcp, &conns[2]);
	for (uint32_t i = 0; i < tcp.rings; i++)
		read[ring_peers[i]]++;
	ok(tcp.rings == RANKS - 2 && read[1] == 1 && !read[2] && read[3] == 1 && read[4] == 1,
	   "after the loss of one peer the rings of all others are read");
	end();
}

int main(void)
{
	test_frames();
	test_offers();
	test_between();
	test_memory();
	test_ring_lost();
	return done_testing();
}
