/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_order_test.c - the order of loads and stores in a ring of the tcp plugin: the writer acts between two loads of
 * the reader, where another processor would have to be lucky to.
 *
 * The test includes the plugin's file, so that it can call the writer after a load.
 */
#include "../lib/tap.h"

#include "tcp_ring.h"

static void (*when_read)(const void *at); /* called after each load of a position or a word */

static uint64_t load_hooked(const _Atomic uint64_t *at)
{
	uint64_t value = atomic_load(at);

	if (when_read)
		when_read((const void *)at);
	return value;
}

static uint64_t load_flag(const _Atomic uint32_t *at)
{
	return atomic_load(at);
}

#undef atomic_load
#undef atomic_load_explicit
#define atomic_load(at)                                                                            \
	_Generic((at),                                                                             \
		_Atomic uint32_t *: load_flag,                                                     \
		const _Atomic uint32_t *: load_flag,                                               \
		default: load_hooked)(at)
#define atomic_load_explicit(at, order) atomic_load(at)
#include "../../plugins/tcp/tcp_ring.c"

/* ------------------------------------------------------------- the rest of the plugin -- */

enum { SIZE = 4096, MOST = 4 };

static int wakes;
static uint64_t got[MOST][2]; /* tag and payload of the messages that the reader took */
static int ngot;

void tcp_ring_wake(struct tcp *t, struct tcp_conn *conn)
{
	(void)t;
	(void)conn;
	wakes++;
}

static int32_t message(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
		       const void *bytes)
{
	(void)host;
	(void)peer;
	if (ngot < MOST) {
		got[ngot][0] = header->tag;
		memcpy(&got[ngot][1], bytes, sizeof(got[0][1]));
	}
	ngot++;
	return COLL_SUCCESS;
}

int tcp_feed_message(struct tcp *t, struct tcp_conn *conn, const coll_header_t *header,
		     const uint8_t *payload)
{
	(void)conn;
	return message(t->host, 0, header, payload);
}

int tcp_feed(struct tcp *t, struct tcp_conn *conn, const uint8_t *bytes, size_t n)
{
	coll_header_t header;

	if (n != sizeof(header) + sizeof(got[0][1]))
		bail_out("the reader takes %zu bytes", n);
	memcpy(&header, bytes, sizeof(header));
	return tcp_feed_message(t, conn, &header, bytes + sizeof(header));
}

int32_t tcp_start(struct tcp *t, coll_send_t *send, int more, coll_error_t *err)
{
	(void)t;
	(void)send;
	(void)more;
	(void)err;
	bail_out("the message does not fit into the ring");
}

int tcp_refused(struct tcp *t, struct tcp_conn *conn)
{
	(void)t;
	(void)conn;
	return -1;
}

void tcp_lose(struct tcp *t, struct tcp_conn *conn, const char *why)
{
	(void)t;
	(void)conn;
	bail_out("%s", why);
}

size_t tcp_recvmsg(struct tcp *t, struct tcp_conn *conn, struct msghdr *msg)
{
	(void)t;
	(void)conn;
	(void)msg;
	return 0;
}

const char *tcp_why(int error)
{
	(void)error;
	return "the ring is broken";
}

/* ------------------------------------------------------------------------- both ranks -- */

static struct tcp_ring_control control;
static uint8_t data[SIZE];
static struct tcp_conn reader_conn, writer_conn;
static struct tcp reader, writer;
static uint32_t ring_peer;

static void begin(void)
{
	const struct tcp_ring ring = {.control = &control, .data = data, .size = SIZE};

	memset((void *)&control, 0, sizeof(control));
	reader_conn = (struct tcp_conn){.fd = -1, .in = ring, .in_on = 1};
	writer_conn = (struct tcp_conn){.fd = -1, .out = ring, .out_on = 1};
	reader = (struct tcp){.conn = &reader_conn, .ring_peers = &ring_peer};
	reader.rings = reader.nranks = 1;
	reader.budget = SIZE;
	reader.message = message;
	writer = (struct tcp){.conn = &writer_conn, .nranks = 1, .budget = SIZE};
	wakes = ngot = 0;
}

/* A message whose payload is its tag. */
static void write_message(uint64_t tag)
{
	coll_send_t send = {.header = {.tag = tag, .len = sizeof(tag)}, .buf = &tag};
	coll_error_t err;

	if (tcp_ring_send(&writer, &writer_conn, &send, &err))
		bail_out("the message is refused");
}

static void write_when_position_read(const void *at)
{
	if (at != (const void *)&control.written)
		return;
	when_read = NULL;
	write_message(1);
}

static void test_sleep(void)
{
	int stays;

	begin();
	when_read = write_when_position_read;
	stays = tcp_ring_arm(&reader);
	ok(!when_read && (stays || wakes),
	   "a message that comes just after the reader's last look wakes it");
}

static void write_when_word_read(const void *at)
{
	if (at != (const void *)&control.last[1])
		return;
	when_read = NULL;
	write_message(2);
}

static void test_overwritten(void)
{
	begin();
	write_message(1);
	when_read = write_when_word_read;
	for (int i = 0; i < 3; i++)
		tcp_ring_pull_all(&reader);
	ok(!when_read, "a second message overwrites the words of the first while they are read");
	is_int(ngot, 2, "both come");
	for (uint64_t i = 0; i < 2; i++)
		ok(got[i][0] == i + 1 && got[i][1] == i + 1, "message %d is whole", (int)i + 1);
}

int main(void)
{
	test_sleep();
	test_overwritten();
	return done_testing();
}
