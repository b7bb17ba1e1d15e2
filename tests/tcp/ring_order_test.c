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
#include "ring_rig.h"

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

static void test_stream_between_stores(enum tcp_past past)
{
	static uint8_t bytes[STREAM];

	memset(stream, 0, sizeof(stream));
	for (size_t i = 0; i < STREAM; i++)
		bytes[i] = (uint8_t)(i % 251 + 1);
	begin();
	as_stream = 1;
	writer.past = past;
	reader.budget = writer.budget = STREAM;
	when_written = read_all;
	is_int((int64_t)write_stream(bytes, STREAM), STREAM,
	       "a reader that looks after each store makes room for three rings%s",
	       past == TCP_PAST_ALWAYS ? " that are written past the caches" : "");
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

/* Writes a ring of bytes and reads it; returns how often the reader has measured its writer's distance. */
static int measure(int learns)
{
	fill();
	reader.learns = learns;
	for (int i = 0; i < 3; i++)
		tcp_ring_pull_all(&reader);
	is_int((int64_t)nstream, SIZE, "a reader that %s reads a ring",
	       learns ? "learns" : "does not learn");
	return measured;
}

static void test_measured(void)
{
	ok(measure(1) > 0, "it measures how long it takes to tell its position");
	ok(control.taken == SIZE, "which it tells");
	is_int(measure(0), 0, "it does not measure");
	ok(control.taken == SIZE, "and tells its position");
}

/* Which messages a writer writes past the caches.  The test cannot see that, only that the writer may. */
static void test_past(void)
{
	begin();
	ok(!tcp_ring_writes_past(&writer, &writer_conn.out), "auto: a near reader");
	control.far = 1;
	ok(tcp_ring_writes_past(&writer, &writer_conn.out), "auto: a far one");
	writer.past = TCP_PAST_NEVER;
	ok(!tcp_ring_writes_past(&writer, &writer_conn.out), "no: a far one, too");
	control.far = 0;
	writer.past = TCP_PAST_ALWAYS;
	ok(tcp_ring_writes_past(&writer, &writer_conn.out), "yes: a near one, too");
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
	stays = tcp_ring_arm_space(&writer, &writer_conn);
	ok(!when_read && (stays || wakes),
	   "room that comes just after the writer's last look wakes it");
}

static void arm_room_when_flag_read(const void *at)
{
	if (at != (const void *)&control.writer_sleeps)
		return;
	when_read = NULL;
	stays = tcp_ring_arm_space(&writer, &writer_conn);
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
	test_stream_between_stores(TCP_PAST_NEVER);
	test_stream_between_stores(TCP_PAST_ALWAYS);
	test_round();
	test_measured();
	test_past();
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
