/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * borrow_test.c - which offers of memory and which lent messages of a peer a rank of the tcp plugin refuses; how it reads a lent
 * message; and when it unmaps memory.
 *
 * The ring is this test's, and the rest of the plugin is not there.
 */
#include "../lib/open_files.h"
#include "../lib/tap.h"

#include "../../plugins/tcp/tcp_borrow.c"

#include <errno.h>
#include <unistd.h>

enum { SIZE = 4096, MEMORY = 1 << 20, SLOT = 3, NUMBER = 5 };

static struct tcp_ring_control control;
static uint8_t ring[SIZE], payload[MEMORY], got[MEMORY];
static struct tcp_conn conn;
static struct tcp tcp;
static int refused, blocks, begun;
static int gives_up;    /* the peer gives up the message while this rank copies its last bytes */
static int ended, code; /* receives that have ended, and the last one's code */
static uint64_t told;

/* ------------------------------------------------------------- the rest of the plugin -- */

int tcp_refused(struct tcp *t, struct tcp_conn *c)
{
	(void)t;
	(void)c;
	refused++;
	return -1;
}

int tcp_begin(struct tcp *t, struct tcp_conn *c, const coll_header_t *header)
{
	(void)t;
	begun++;
	c->receiving = 1;
	c->got = 0;
	c->len = header->len;
	return 0;
}

void tcp_hand_payload(struct tcp *t, struct tcp_conn *c, const uint8_t *bytes, size_t n)
{
	(void)t;
	memcpy(got + c->got, bytes, n);
	if (gives_up && c->got + n == c->len)
		control.given_up = UINT64_C(1) << NUMBER;
}

void tcp_delivered(struct tcp *t, struct tcp_conn *c, size_t n)
{
	c->got += n;
	c->receiving = c->got < c->len;
	if (!c->receiving)
		t->host->arrived(t->host, 0, COLL_SUCCESS);
}

int tcp_ring_blocks(struct tcp *t, const struct tcp_conn *c, const coll_header_t *header)
{
	(void)t;
	(void)c;
	(void)header;
	return blocks;
}

void tcp_ring_peek(const struct tcp_ring *from, void *to, size_t n)
{
	for (size_t i = 0; i < n; i++)
		((uint8_t *)to)[i] = from->data[(from->own + i) % from->size];
}

void tcp_ring_tell(struct tcp *t, struct tcp_conn *c, uint64_t left)
{
	(void)t;
	(void)left;
	told = c->in.own;
}

/* --------------------------------------------------------------------------- helpers -- */

static void begin(uint64_t at)
{
	memset(&control, 0, sizeof(control));
	memset(&conn, 0, sizeof(conn));
	conn.in = (struct tcp_ring){.control = &control, .data = ring, .size = SIZE, .own = at};
	refused = blocks = begun = gives_up = ended = 0;
	told = 0;
	tcp.budget = TCP_BUDGET;
}

static int file_of(off_t size, int seals)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);

	if (fd < 0 || ftruncate(fd, size) || pwrite(fd, payload, (size_t)size, 0) != size ||
	    (seals && fcntl(fd, F_ADD_SEALS, seals)))
		bail_out("no memory: %s", strerror(errno));
	return fd;
}

/* The peer offers memory for a slot.  Returns the fault. */
static const char *offer(int slot, int seals)
{
	int fd = file_of(MEMORY, seals);
	const char *fault = tcp_borrow_take(&tcp, &conn, fd, slot);

	atomic_fetch_or(&control.lent, UINT64_C(1) << slot);
	close(fd);
	return fault;
}

/* Writes a lent message to the ring, and handles it.  Returns the result of tcp_borrow. */
static int lent(uint64_t kind, uint64_t slot, uint64_t off, uint64_t len, uint64_t left)
{
	const coll_header_t head[2] = {
		{.tag = kind, .meta = {slot + NUMBER * TCP_LENT_SLOTS, off}, .len = TCP_FRAME},
		{.tag = 1, .len = len}};

	for (size_t i = 0; i < sizeof(head); i++)
		ring[(conn.in.own + i) % SIZE] = ((const uint8_t *)head)[i];
	return tcp_borrow(&tcp, &conn, left);
}

/* ----------------------------------------------------------------------------- tests -- */

static void test_offers(void)
{
	begin(0);
	is_str(offer(SLOT, F_SEAL_SHRINK),
	       "it offered memory without the seals against a change of its size",
	       "memory that the peer can shrink is refused");
	is_str(offer(SLOT, TCP_SEALS), NULL, "sealed memory is taken");
	is_int((int64_t)control.borrowed, 1 << SLOT, "and the peer is told");
	is_str(offer(SLOT, TCP_SEALS), "it offered memory twice", "not for a slot that has memory");
	is_str(offer(TCP_LENT_SLOTS - 1, TCP_SEALS), NULL, "for the last slot");
	tcp_borrower_free(&conn);
	conn.in.control = NULL;
	is_str(offer(SLOT, TCP_SEALS), "it offered memory without a ring", "not without a ring");
}

static void test_bad_messages(void)
{
	static const struct {
		const char *what;
		uint64_t kind, slot, off, len;
	} bad[] = {
		{"of another frame", TCP_FRAME_SWITCH, SLOT, 0, 8},
		{"from a slot without memory", TCP_FRAME_LENT, SLOT + 1, 0, 8},
		{"of a number beyond the last", TCP_FRAME_LENT,
		 SLOT + (TCP_LENT_MESSAGES - NUMBER) * TCP_LENT_SLOTS, 0, 8},
		{"of a number beyond all", TCP_FRAME_LENT, UINT64_MAX - NUMBER * TCP_LENT_SLOTS, 0,
		 8},
		{"that begins behind the memory", TCP_FRAME_LENT, SLOT, MEMORY + 1, 1},
		{"that ends behind the memory", TCP_FRAME_LENT, SLOT, MEMORY - 7, 8},
		{"whose end overflows", TCP_FRAME_LENT, SLOT, 8, UINT64_MAX - 1},
		{"without payload", TCP_FRAME_LENT, SLOT, 0, 0},
		{"that is a frame", TCP_FRAME_LENT, SLOT, 0, TCP_FRAME},
	};

	for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
		begin(0);
		offer(SLOT, TCP_SEALS);
		lent(bad[i].kind, bad[i].slot, bad[i].off, bad[i].len, TCP_LENT_BYTES);
		ok(refused == 1 && !begun, "a lent message %s is refused", bad[i].what);
		tcp_borrower_free(&conn);
	}
}

static void test_messages(void)
{
	const uint64_t at = SIZE - 40; /* the header begins behind the end of the ring */
	int more;

	begin(at);
	offer(SLOT, TCP_SEALS);
	is_int(lent(TCP_FRAME_LENT, SLOT, 0, MEMORY, 16), 0, "half of a frame");
	is_int(lent(TCP_FRAME_LENT, SLOT, 0, MEMORY, 40), 0, "a frame without its header");
	blocks = 1;
	is_int(lent(TCP_FRAME_LENT, SLOT, 0, MEMORY, TCP_LENT_BYTES), 0,
	       "a message that nobody waits for");
	ok(!begun && conn.in.own == at, "they stay in the ring");
	blocks = 0;
	more = lent(TCP_FRAME_LENT, SLOT, 5, MEMORY - 5, TCP_LENT_BYTES + 1);
	is_int(more, 1, "a long message comes in pieces");
	ok(begun == 1 && conn.in.own == at && !told, "and stays in the ring until its end");
	while (conn.receiving)
		more = tcp_borrow(&tcp, &conn, TCP_LENT_BYTES + 1);
	is_int(memcmp(got, payload + 5, MEMORY - 5), 0, "its bytes");
	ok(more == 1 && told == at + TCP_LENT_BYTES, "then the sender is told, and more is there");
	conn.receiving = 1;
	is_int(tcp_borrow(&tcp, &conn, 100), TCP_NOT_LENT,
	       "the payload of another message is no lent message");
	conn.receiving = 0;
	memset(ring, 0, sizeof(ring));
	is_int(tcp_borrow(&tcp, &conn, 100), TCP_NOT_LENT, "nor is another header");
	tcp_borrower_free(&conn);
}

static void test_given_up(void)
{
	begin(0);
	offer(SLOT, TCP_SEALS);
	blocks = 1;
	control.given_up = UINT64_C(1) << NUMBER;
	is_int(lent(TCP_FRAME_LENT, SLOT, 0, MEMORY, TCP_LENT_BYTES + 1), 1,
	       "what is behind a message that the sender has given up comes at once");
	ok(!begun && told == TCP_LENT_BYTES, "and the message has never come");
	blocks = 0;
	control.given_up = UINT64_C(1) << (NUMBER + 1);
	gives_up = 1;
	lent(TCP_FRAME_LENT, SLOT, 0, MEMORY, TCP_LENT_BYTES);
	while (conn.receiving)
		tcp_borrow(&tcp, &conn, TCP_LENT_BYTES);
	ok(begun == 1 && ended == 1 && code == COLL_ERR_ABORTED,
	   "a message that the sender gives up while this rank reads it is no message");
	is_int((int64_t)told, 2 * TCP_LENT_BYTES, "the sender is told");
	control.given_up = 0;
	gives_up = 0;
	lent(TCP_FRAME_LENT, SLOT, 0, 8, TCP_LENT_BYTES);
	ok(ended == 2 && !code, "the next message comes");
	control.given_up = 0;
	gives_up = 1;
	lent(TCP_FRAME_LENT, SLOT, 0, MEMORY, TCP_LENT_BYTES);
	conn.dropped = 1;
	while (conn.receiving)
		tcp_borrow(&tcp, &conn, TCP_LENT_BYTES);
	is_int(ended, 2, "of a message that this rank has dropped the core hears nothing");
	tcp_borrower_free(&conn);
}

static void test_unmap(void)
{
	begin(0);
	tcp = (struct tcp){.host = tcp.host, .nranks = 1, .conn = &conn, .budget = TCP_BUDGET};
	offer(SLOT, TCP_SEALS);
	offer(SLOT + 1, TCP_SEALS);
	lent(TCP_FRAME_LENT, SLOT, 0, MEMORY, TCP_LENT_BYTES);
	ok(conn.receiving, "a message is under way");
	control.lent = 0;
	tcp_borrow_look(&tcp);
	is_int((int64_t)control.borrowed, 1 << SLOT,
	       "only other memory is unmapped when it is withdrawn");
	while (conn.receiving)
		tcp_borrow(&tcp, &conn, TCP_LENT_BYTES);
	tcp_borrow_look(&tcp);
	is_int((int64_t)control.borrowed, 0, "and this memory after the message");
	is_str(offer(SLOT, TCP_SEALS), NULL, "the slot takes other memory");
	tcp_borrower_free(&conn);
}

static int logged;

static void host_log(const coll_host_t *host, int32_t level, const char *text)
{
	(void)host;
	(void)level;
	(void)text;
	logged++;
}

static void host_arrived(const coll_host_t *host, uint64_t cookie, int32_t status)
{
	(void)host;
	(void)cookie;
	ended++;
	code = status;
}

int main(void)
{
	static const coll_host_t host = {
		.size = sizeof(host), .log = host_log, .arrived = host_arrived};
	int files;

	for (size_t i = 0; i < sizeof(payload); i++)
		payload[i] = (uint8_t)(i * 31 >> 3);
	tcp.host = &host;
	files = open_files();
	test_offers();
	test_bad_messages();
	test_messages();
	test_given_up();
	begin(0);
	tcp_borrow_refuse(&tcp, &conn, "no descriptor");
	ok(control.borrowed == TCP_BORROWS_NO_MORE && logged == 1,
	   "memory that this rank cannot map ends all offers, and the user is told");
	test_unmap();
	is_int(open_files(), files, "no descriptor is left");
	return done_testing();
}
