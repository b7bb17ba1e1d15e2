/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * ring_order_test.c - the order of loads and stores in a ring of the tcp plugin: one side acts between two loads or
 * stores of the other, where another processor would have to be lucky to.  And what the reader does not take from the
 * place beside the writer's position.
 *
 * The test includes the plugin's file, so that it can call the other side after a load or a store.
 */
#include "../lib/tap.h"

#include "tcp_ring.h"

static void (*when_read)(
	const void *at);           /* called after each load of a position, a word or a flag */
static void (*when_written)(void); /* called after each store */

static uint64_t load_hooked(const _Atomic uint64_t *at)
{
	uint64_t value = atomic_load(at);

	if (when_read)
		when_read((const void *)at);
	return value;
}

static uint64_t load_flag(const _Atomic uint32_t *at)
{
	uint32_t value = atomic_load(at);

	if (when_read)
		when_read((const void *)at);
	return value;
}

static void stored(void)
{
	if (when_written)
		when_written();
}

#undef atomic_load
#undef atomic_load_explicit
#undef atomic_store
#undef atomic_store_explicit
#define atomic_load(at)                                                                            \
	_Generic((at),                                                                             \
		_Atomic uint32_t *: load_flag,                                                     \
		const _Atomic uint32_t *: load_flag,                                               \
		default: load_hooked)(at)
#define atomic_load_explicit(at, order) atomic_load(at)
#define atomic_store(at, value)                                                                    \
	do {                                                                                       \
		*(at) = (value);                                                                   \
		stored();                                                                          \
	} while (0)
#define atomic_store_explicit(at, value, order) atomic_store(at, value)
#include "../../plugins/tcp/tcp_ring.c"

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
	wakes = started = ngot = as_stream = 0;
	nstream = 0;
}

/* A message whose payload is its tag, and zeros behind it. */
static void write_message_of(uint64_t tag, uint64_t len)
{
	uint64_t payload[LONG / sizeof(uint64_t)] = {tag};
	coll_send_t send = {.header = {.tag = tag, .len = len}, .buf = payload};
	coll_error_t err;

	if (tcp_ring_send(&writer, &writer_conn, &send, &err))
		bail_out("the message is refused");
}

static void write_message(uint64_t tag)
{
	write_message_of(tag, sizeof(tag));
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
	int more;

	begin();
	when_read = write_when_position_read;
	more = tcp_ring_arm(&reader);
	ok(!when_read && (more || wakes),
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

/* The reader takes all that it finds, between two stores of the writer. */
static void read_all(void)
{
	when_written = NULL;
	for (int i = 0; i < 3; i++)
		tcp_ring_pull_all(&reader);
	when_written = read_all;
}

static void test_read_between_stores(uint64_t len)
{
	begin();
	write_message_of(1, len);
	when_written = read_all;
	write_message_of(2, len);
	write_message_of(3, len);
	when_written = NULL;
	is_int(ngot, 3, "a reader that looks after each store takes 3 messages of %d bytes",
	       (int)len);
	for (uint64_t i = 0; i < 3; i++)
		ok(got[i][0] == i + 1 && got[i][1] == i + 1, "message %d is whole", (int)i + 1);
}

/* Writes n bytes; returns how many the ring took. */
static size_t write_stream(uint8_t *bytes, size_t n)
{
	struct iovec iov = {bytes, n};
	const struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};

	return tcp_ring_write(&writer, &writer_conn, &msg);
}

static void test_stream_between_stores(void)
{
	static uint8_t bytes[STREAM];

	for (size_t i = 0; i < STREAM; i++)
		bytes[i] = (uint8_t)(i % 251 + 1);
	begin();
	as_stream = 1;
	reader.budget = writer.budget = STREAM;
	when_written = read_all;
	is_int((int64_t)write_stream(bytes, STREAM), STREAM,
	       "a reader that looks after each store makes room for three rings");
	when_written = NULL;
	tcp_ring_pull_all(&reader);
	ok(nstream == STREAM && !memcmp(stream, bytes, STREAM), "and every byte is right");
}

/* Bytes that go round the end of the ring. */
static void test_round(void)
{
	static uint8_t bytes[4][3000];
	int64_t written = 0;

	begin();
	as_stream = 1;
	reader.budget = writer.budget = STREAM;
	for (size_t i = 0; i < 4; i++) {
		memset(bytes[i], (int)i + 1, sizeof(bytes[i]));
		written += (int64_t)write_stream(bytes[i], sizeof(bytes[i]));
		for (int k = 0; k < 3; k++)
			tcp_ring_pull_all(&reader);
	}
	is_int(written, sizeof(bytes), "4 times 3000 bytes go round the end of the ring");
	ok(nstream == sizeof(bytes) && !memcmp(stream, bytes, sizeof(bytes)), "and stay right");
}

/* A message that does not fit behind the others, up to the ring's end, is not written at once. */
static void test_no_room(void)
{
	enum { BYTES = sizeof(coll_header_t) + LONG, FIT = SIZE / BYTES };
	static uint8_t bytes[SIZE % BYTES];
	coll_header_t first;

	begin();
	for (uint64_t i = 0; i < FIT; i++)
		write_message_of(i + 1, LONG);
	is_int(started, 0, "%d messages fit into the ring", FIT);
	write_message_of(FIT + 1, LONG);
	ok(started == 1 && control.written == FIT * BYTES, "the next would go over its end");
	write_stream(bytes, sizeof(bytes));
	write_message_of(FIT + 1, LONG);
	ok(started == 2 && control.written == SIZE, "nor is there room in a full ring");
	memcpy(&first, data, sizeof(first));
	is_int((int64_t)first.tag, 1, "where the first message is still the first");
	begin();
	writer_conn.out.own = writer_conn.out.seen = SIZE - BYTES + 1;
	write_message_of(1, LONG);
	is_int(started, 1, "nor a place of one byte too few before the end of an empty one");
}

/* --------------------------------------------------------------------- sleeps of both -- */

static int stays; /* what the side says that wants to sleep */

static void arm_when_flag_read(const void *at)
{
	if (at != (const void *)&control.reader_sleeps)
		return;
	when_read = NULL;
	stays = tcp_ring_arm(&reader);
}

static void test_sleep_while_written(void)
{
	begin();
	stays = -1;
	when_read = arm_when_flag_read;
	write_message(1);
	ok(stays == 1 || (stays == 0 && wakes),
	   "a reader that goes to sleep just after the writer's look at its flag sees the message");
}

static void fill(void)
{
	static uint8_t bytes[SIZE];

	begin();
	as_stream = 1;
	reader.budget = writer.budget = 2 * SIZE;
	if (write_stream(bytes, SIZE) != SIZE)
		bail_out("the ring is not empty");
}

static void read_when_position_read(const void *at)
{
	if (at != (const void *)&control.taken)
		return;
	when_read = NULL;
	tcp_ring_pull_all(&reader);
}

static void test_writer_sleeps(void)
{
	fill();
	when_read = read_when_position_read;
	stays = tcp_ring_arm_room(&writer, &writer_conn);
	ok(!when_read && (stays || wakes),
	   "room that comes just after the writer's last look wakes it");
}

static void arm_room_when_flag_read(const void *at)
{
	if (at != (const void *)&control.writer_sleeps)
		return;
	when_read = NULL;
	stays = tcp_ring_arm_room(&writer, &writer_conn);
}

static void test_writer_sleeps_while_read(void)
{
	fill();
	stays = -1;
	when_read = arm_room_when_flag_read;
	tcp_ring_pull_all(&reader);
	ok(stays == 1 || (stays == 0 && wakes),
	   "a writer that goes to sleep just after the reader's look at its flag sees the room");
}

/* ------------------------------------- messages that do not stand beside the position -- */

/* The writer says of the message beside its position that it is longer, or shorter. */
static void test_other_length(uint64_t len)
{
	begin();
	write_message(1);
	control.last[3] = len;
	for (int i = 0; i < 3; i++)
		tcp_ring_pull_all(&reader);
	ok(ngot == 1 && got[0][0] == 1 && got[0][1] == 1 && got[0][2] == sizeof(uint64_t),
	   "a message of 8 bytes that is said to have %d counts as it stands in the ring",
	   (int)len);
}

/* The writer says that n bytes are a message that stands beside its position, which no such message can have. */
static void test_impossible(uint64_t n)
{
	begin();
	as_stream = 1;
	control.last[3] = n - sizeof(coll_header_t);
	control.last_end = control.written = n;
	tcp_ring_pull(&reader, &reader_conn);
	is_int((int64_t)nstream, (int64_t)n, "%d bytes cannot stand there: the ring has them",
	       (int)n);
}

/* Bytes that go on with a message, or with its header, are no message, whatever stands beside the position. */
static void test_midway(int receiving, uint32_t header_got)
{
	begin();
	as_stream = 1;
	reader_conn.receiving = receiving;
	reader_conn.len = 100;
	reader_conn.header_got = header_got;
	write_message(1);
	tcp_ring_pull(&reader, &reader_conn);
	ok(ngot == 0 && nstream == sizeof(coll_header_t) + sizeof(uint64_t),
	   "bytes within a %s are none beside the position", receiving ? "message" : "header");
}

int main(void)
{
	test_sleep();
	test_overwritten();
	test_read_between_stores(sizeof(uint64_t));
	test_read_between_stores(LONG);
	test_stream_between_stores();
	test_round();
	test_no_room();
	test_sleep_while_written();
	test_writer_sleeps();
	test_writer_sleeps_while_read();
	test_other_length(0);
	test_other_length(16);
	test_other_length(4096);
	test_impossible(16);
	test_impossible(sizeof(control.last) + 8);
	test_midway(1, 0);
	test_midway(0, 8);
	return done_testing();
}
