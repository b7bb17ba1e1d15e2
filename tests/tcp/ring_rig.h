/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_rig.h - both sides of a ring of the tcp plugin in one thread.  A test defines how the plugin's file loads and stores,
 * and includes this header, which includes that file and stands for the rest of the plugin.
 */
#ifndef TESTS_RING_RIG_H
#define TESTS_RING_RIG_H

#include "../../plugins/tcp/tcp_ring.c"

#define RIG_UNUSED __attribute__((unused))

/* ------------------------------------------------------------- the rest of the plugin -- */

enum { SIZE = 4096, MOST = 4, LONG = 200, STREAM = 3 * SIZE + 100 };

static int wakes;
static int started;           /* messages that were not written whole at once */
static uint64_t got[MOST][3]; /* tag, payload and length of the messages that the reader took */
static int ngot;
static int as_stream; /* the reader's bytes are no messages: they go to `stream` */
static uint8_t stream[STREAM];
static size_t nstream;

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
		got[ngot][2] = header->len;
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

	if (as_stream) {
		if (n > sizeof(stream) - nstream)
			bail_out("the reader takes %zu bytes", nstream + n);
		memcpy(stream + nstream, bytes, n);
		nstream += n;
		return 0;
	}
	for (size_t at = 0; at < n; at += sizeof(header) + header.len) {
		memcpy(&header, bytes + at, sizeof(header));
		if (header.len < sizeof(got[0][1]) || header.len > LONG)
			bail_out("a message of %d bytes", (int)header.len);
		tcp_feed_message(t, conn, &header, bytes + at + sizeof(header));
	}
	return 0;
}

int32_t tcp_start(struct tcp *t, coll_send_t *send, int more, coll_error_t *err)
{
	(void)t;
	(void)send;
	(void)more;
	(void)err;
	started++;
	return COLL_SUCCESS;
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

int tcp_borrow(struct tcp *t, struct tcp_conn *conn, uint64_t left)
{
	(void)t;
	(void)conn;
	(void)left;
	return TCP_NOT_LENT;
}

static int measured; /* positions that a reader has told and measured */

void tcp_far_tell(struct tcp *t, struct tcp_conn *conn)
{
	(void)t;
	measured++;
	atomic_store(&conn->in.control->taken, conn->in.own);
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

RIG_UNUSED static void begin(void)
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
	wakes = started = ngot = as_stream = measured = 0;
	nstream = 0;
}

/* A message whose payload is its tag, and zeros behind it. */
RIG_UNUSED static void write_message_of(uint64_t tag, uint64_t len)
{
	uint64_t payload[LONG / sizeof(uint64_t)] = {tag};
	coll_send_t send = {.header = {.tag = tag, .len = len}, .buf = payload};
	coll_error_t err;

	if (tcp_ring_send(&writer, &writer_conn, &send, &err))
		bail_out("the message is refused");
}

RIG_UNUSED static void write_message(uint64_t tag)
{
	write_message_of(tag, sizeof(tag));
}

/* Writes n bytes; returns how many the ring took. */
RIG_UNUSED static size_t write_stream(uint8_t *bytes, size_t n)
{
	struct iovec iov = {bytes, n};
	const struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return tcp_ring_write(&writer, &writer_conn, &msg);
}

RIG_UNUSED static void fill(void)
{
	static uint8_t bytes[SIZE];

	begin();
	as_stream = 1;
	reader.budget = writer.budget = 2 * SIZE;
	if (write_stream(bytes, SIZE) != SIZE)
		bail_out("the ring is not empty");
}

#endif
