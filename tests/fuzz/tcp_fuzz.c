/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_fuzz.c - the stream of one peer of the tcp backend, and the messages that the core takes from it, with and
 * without option tcp.security; a ring to which the peer writes anything, with messages that it lends; the records in which the
 * ranks exchange their addresses.
 *
 * The cipher is one of this file: a tag is wrong if its first byte is 255.  So the fuzzer reaches the code
 * behind the tags.
 *
 * Input: whether the stream is cut into sealed records or goes through a ring; then operations, each a byte: receives that are
 * posted, withdrawn or dropped, and pieces of the stream.
 */
#include "fuzz.h"
#include <sys/mman.h>
#include <unistd.h>
#include "tcp_ring.h"
#include "transport/match.h"

const char *const fuzz_name = "tcp";
const long fuzz_runs = 60000;

enum { RECEIVES = 8, LENGTH_MOST = 512, TAGS = 4, PEER = 1 };
enum { PLAIN, SEALED, IN_RING };                            /* the kinds of streams */
enum { RING = 4096, PULLS = 32, SLOTS = 2, MEMORY = 4096 }; /* of rings */

static struct {
	struct match match;
	struct recv recv[RECEIVES];
	char *memory[RECEIVES], *own[RECEIVES];
	int lost;
	int fd;           /* the peer's end of a sealed stream; -1: the stream is not sealed */
	int rings;        /* the stream goes through a ring */
	uint64_t written; /* there */
	int displaced; /* a record had other lengths or was cut: the next is not where it should be */
} core;

/* --------------------------------------------------------------------- the cipher -- */

struct tcp_cipher {
	int unused;
};

struct tcp_cipher *tcp_cipher_new(const struct tcp_cipher_kind *kind,
				  const uint8_t session[TCP_SESSION_KEY])
{
	(void)kind;
	(void)session;
	return fuzz_memory(sizeof(struct tcp_cipher));
}

void tcp_cipher_free(struct tcp_cipher *cipher)
{
	free(cipher);
}

void tcp_cipher_seal(struct tcp_cipher *cipher, uint8_t *bytes, size_t n)
{
	(void)cipher;
	memset(bytes + n, 0, TCP_TAG);
}

int tcp_cipher_open(struct tcp_cipher *cipher, uint8_t *out, const uint8_t *bytes, size_t n)
{
	(void)cipher;
	if (bytes[n] == 255)
		return 0;
	memmove(out, bytes, n);
	return 1;
}

/* ---------------------------------------------------------------- the core's side -- */

static int keep_all(struct context *context, uint32_t peer, const coll_header_t *header)
{
	(void)context;
	(void)peer;
	return header->tag > TAGS; /* no communicator has this tag */
}

static int no_memory(struct context *context, uint32_t peer, const coll_header_t *header)
{
	(void)context;
	(void)peer;
	(void)header;
	return COLL_ERR_NO_MEMORY;
}

static void mismatch(struct context *context, const struct recv *recv, uint32_t peer,
		     const coll_header_t *header)
{
	(void)context;
	(void)peer;
	fuzz_promise(recv->len != header->len || recv->meta[0] != header->meta[0] ||
			     recv->meta[1] != header->meta[1],
		     "a mismatch is one");
}

static int32_t host_arrive(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			   coll_sink_t *sink)
{
	(void)host;
	/* The core would allocate a long message, as it must; the fuzzer has less memory than a rank. */
	if (header->len > LENGTH_MOST)
		return COLL_ERR_NO_MEMORY;
	return match_arrive(&core.match, peer, header, sink);
}

static void host_data(const coll_host_t *host, uint64_t cookie, const void *bytes, uint64_t n)
{
	(void)host;
	match_data(&core.match, cookie, bytes, n);
}

static void host_arrived(const coll_host_t *host, uint64_t cookie, int32_t status)
{
	(void)host;
	match_arrived(&core.match, cookie, status);
}

static int32_t host_message(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			    const void *bytes)
{
	(void)host;
	if (header->len > LENGTH_MOST)
		return COLL_ERR_NO_MEMORY;
	return match_message(&core.match, peer, header, bytes);
}

static void host_peer_lost(const coll_host_t *host, uint32_t peer, const char *text)
{
	(void)host;
	fuzz_promise(peer == PEER && text && *text, "a lost peer has a reason");
	fuzz_promise(!core.lost, "a peer is lost once");
	core.lost = 1;
}

static int32_t host_posted(const coll_host_t *host, uint32_t peer, const coll_header_t *header)
{
	(void)host;
	return match_posted(&core.match, peer, header);
}

static void host_log(const coll_host_t *host, int32_t level, const char *text)
{
	(void)host;
	(void)level;
	(void)text;
}

static const char *host_option_string(const coll_host_t *host, const char *key)
{
	(void)host;
	(void)key;
	return "";
}

static int64_t host_option_int(const coll_host_t *host, const char *key)
{
	(void)host;
	(void)key;
	return 1;
}

/* ------------------------------------------------------------------ the operations -- */

static void post(struct fuzz_input *in)
{
	static const struct redop sum = {.dtype = COLL_INT64, .op = COLL_SUM};
	unsigned i = fuzz_up_to(in, RECEIVES - 1), len = fuzz_byte(in), reduces = fuzz_up_to(in, 1);
	unsigned tag = fuzz_up_to(in, TAGS), any = fuzz_up_to(in, 1);
	struct recv *recv = &core.recv[i];

	if (recv->state != RECV_IDLE)
		return;
	free(core.memory[i]);
	free(core.own[i]);
	len -= reduces ? len % 8 : 0;
	core.memory[i] = fuzz_memory(len);
	core.own[i] = fuzz_memory(len);
	*recv = (struct recv){.tag = tag,
			      .len = len,
			      .peer = any ? COLL_ANY_SOURCE : PEER,
			      .dst = core.memory[i],
			      .own = reduces ? core.own[i] : NULL,
			      .redop = &sum,
			      .elem = 8};
	match_post(&core.match, recv);
}

static void withdraw(struct tcp *t, struct fuzz_input *in)
{
	struct recv *recv = &core.recv[fuzz_up_to(in, RECEIVES - 1)];
	uint64_t cookie;

	if (recv->state == RECV_IDLE)
		return;
	cookie = match_withdraw(&core.match, recv);
	if (cookie)
		tcp_drop(t, cookie);
}

static void reap(void)
{
	struct recv *recv;

	while ((recv = match_next_done(&core.match)) != NULL) {
		fuzz_promise(recv->state == RECV_DONE, "a receive in the list has ended");
		recv->state = RECV_IDLE;
	}
}

enum { HEAD = 64, INLINE = 56, OTHER_LENGTHS = 1, WRONG_HEAD = 2, WRONG_BODY = 4, CUT = 8 };

/* Passes n bytes of the stream on, in a sealed record with the faults that the input asks for. */
static void pass_sealed(struct tcp *t, struct fuzz_input *in, const uint8_t *bytes, size_t n)
{
	uint8_t record[HEAD + TCP_TAG + 512 + TCP_TAG] = {0};
	unsigned faults = fuzz_byte(in);
	uint32_t lengths[2] = {n > INLINE ? (uint32_t)n - INLINE : 0,
			       n > INLINE ? INLINE : (uint32_t)n};
	size_t size = HEAD + TCP_TAG + (lengths[0] ? lengths[0] + TCP_TAG : 0);

	memcpy(record + sizeof(lengths), bytes, lengths[1]);
	memcpy(record + HEAD + TCP_TAG, bytes + lengths[1], lengths[0]);
	if (faults & WRONG_HEAD)
		record[HEAD] = 255;
	if (faults & WRONG_BODY && lengths[0])
		record[HEAD + TCP_TAG + lengths[0]] = 255;
	if (faults & OTHER_LENGTHS)
		fuzz_take(in, &lengths[fuzz_up_to(in, 1)], 1 + fuzz_up_to(in, 3));
	memcpy(record, lengths, sizeof(lengths));
	if (faults & CUT)
		size = fuzz_byte(in) % size;
	if (write(core.fd, record, size) != (ssize_t)size)
		exit(2);
	tcp_records_pull(t, &t->conn[PEER]);
	if (faults & WRONG_HEAD && !(faults & CUT) && !core.displaced)
		fuzz_promise(core.lost, "a record with a wrong tag costs the connection");
	core.displaced |= (faults & (OTHER_LENGTHS | CUT)) != 0;
}

/* Reads what the ring has, and a little more often than that needs. */
static void pull(struct tcp *t)
{
	t->budget = TCP_BUDGET;
	for (int i = 0; i < PULLS && !core.lost; i++)
		tcp_ring_pull(t, &t->conn[PEER]);
}

/* Writes n bytes to the ring. */
static void pass_ring(struct tcp *t, const uint8_t *bytes, size_t n)
{
	const struct tcp_ring *ring = &t->conn[PEER].in;

	for (size_t i = 0; i < n; i++)
		ring->data[(core.written + i) % ring->size] = bytes[i];
	core.written += n;
	atomic_store(&ring->control->written, core.written);
	pull(t);
}

/* A lent message of a slot that may be free, from a place that may be outside. */
static void pass_lent(struct tcp *t, struct fuzz_input *in)
{
	const uint64_t slot = fuzz_up_to(in, SLOTS), number = fuzz_up_to(in, TCP_LENT_MESSAGES);
	const struct tcp_conn *conn = &t->conn[PEER];
	const int begins = conn->borrower && !conn->receiving && !conn->header_got &&
			   conn->in.own == core.written;
	coll_header_t head[2] = {{.tag = TCP_FRAME_LENT, .len = TCP_FRAME},
				 {.tag = fuzz_up_to(in, TAGS + 1)}};

	head[0].meta[0] = slot + number * TCP_LENT_SLOTS;
	fuzz_take(in, &head[0].meta[1], fuzz_up_to(in, 3));
	if (fuzz_up_to(in, 3) == 3) /* near the end */
		head[0].meta[1] = MEMORY - fuzz_byte(in);
	head[1].len = fuzz_byte(in);
	head[1].len += (uint64_t)256 * fuzz_up_to(in, 1);
	if (fuzz_byte(in) == 255)
		fuzz_take(in, &head[1].len, sizeof(head[1].len));
	pass_ring(t, (const uint8_t *)head, sizeof(head));
	if (begins && (head[0].meta[1] > MEMORY || head[1].len > MEMORY - head[0].meta[1]))
		fuzz_promise(core.lost, "a lent message from elsewhere costs the connection");
}

/* Memory for a slot, perhaps without the seals or of no size. */
static void offer(struct tcp *t, struct fuzz_input *in)
{
	static const off_t sizes[] = {MEMORY, 900, 1, 0};
	const int fd = memfd_create("fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	const int slot = (int)fuzz_up_to(in, SLOTS), sealed = fuzz_byte(in) < 250;
	struct tcp_conn *conn = &t->conn[PEER];
	const char *fault;

	if (fd < 0 || ftruncate(fd, sizes[fuzz_up_to(in, 3)]) ||
	    (sealed && fcntl(fd, F_ADD_SEALS, TCP_SEALS)))
		exit(2);
	fault = tcp_borrow_take(t, conn, fd, slot);
	close(fd);
	if (fault)
		tcp_lose(t, conn, fault);
	else
		atomic_fetch_or(&conn->in.control->lent, UINT64_C(1) << slot);
}

/* The peer writes something where this rank reads its words: the positions, `lent`, `given_up`. */
static void spoil(struct tcp *t, struct fuzz_input *in)
{
	struct tcp_ring_control *control = t->conn[PEER].in.control;
	uint8_t *at = (uint8_t *)control + fuzz_byte(in) * sizeof(uint64_t) % sizeof(*control);

	fuzz_take(in, at, 1 + fuzz_up_to(in, 7));
	core.written = atomic_load(&control->written);
	pull(t);
}

static void operate_ring(struct tcp *t, struct fuzz_input *in)
{
	switch (fuzz_up_to(in, 7)) {
	case 0: spoil(t, in); break;
	case 1: tcp_borrow_look(t); break;
	case 2:
	case 3: offer(t, in); break;
	default: pass_lent(t, in); break;
	}
}

static void pass(struct tcp *t, struct fuzz_input *in, const uint8_t *bytes, size_t n)
{
	int end;

	if (core.rings) {
		pass_ring(t, bytes, n);
		return;
	}
	if (core.fd >= 0) {
		pass_sealed(t, in, bytes, n);
		return;
	}
	end = tcp_feed(t, &t->conn[PEER], bytes, n);
	fuzz_promise(core.lost == (end != 0), "an invalid message costs the connection");
}

/* A header that some receive may wait for, and the first bytes of its message. */
static void pass_message(struct tcp *t, struct fuzz_input *in)
{
	coll_header_t header = {.tag = fuzz_up_to(in, TAGS + 1)};
	uint8_t bytes[sizeof(header) + 256];

	header.len = fuzz_byte(in);
	header.meta[0] = fuzz_byte(in) == 255;
	memcpy(bytes, &header, sizeof(header));
	fuzz_take(in, bytes + sizeof(header), (size_t)header.len);
	pass(t, in, bytes, sizeof(header) + (size_t)header.len);
}

static void pass_bytes(struct tcp *t, struct fuzz_input *in)
{
	size_t n = 1 + fuzz_byte(in);
	uint8_t *bytes = fuzz_copy(in, n);

	pass(t, in, bytes, n);
	free(bytes);
}

static void check_record(const coll_host_t *host, struct fuzz_input in)
{
	struct tcp_record *record = fuzz_copy(&in, sizeof(*record));
	struct address_list addresses;
	struct tcp_options options;

	tcp_options_read(host, &options);
	for (uint32_t peer = 0; tcp_check_record(record) && peer <= PEER; peer++) {
		tcp_peer_addresses(&options, peer, record, &addresses);
		fuzz_promise(addresses.count <= ADDRESS_MAX, "the addresses fit");
	}
	free(record);
}

static void open_ring(struct tcp *t)
{
	void *at = mmap(NULL, TCP_RING_CONTROL + RING, PROT_READ | PROT_WRITE,
			MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	struct tcp_conn *conn = &t->conn[PEER];

	if (at == MAP_FAILED)
		exit(2);
	conn->in = (struct tcp_ring){
		.control = at, .data = (uint8_t *)at + TCP_RING_CONTROL, .size = RING};
	conn->in_on = conn->has_sent = conn->offered = 1;
	t->ring_peers[0] = PEER;
	t->rings = 1;
}

/* The peer's connection: a socket with sealed records, a ring, or none. */
static void open_stream(struct tcp *t, unsigned kind)
{
	static const uint8_t session[TCP_SESSION_KEY];
	int fds[2];

	core.fd = -1;
	core.rings = kind == IN_RING;
	if (core.rings)
		open_ring(t);
	if (kind != SEALED)
		return;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds) ||
	    tcp_records_new(t, &t->conn[PEER], session))
		exit(2);
	t->conn[PEER].fd = fds[0];
	core.fd = fds[1];
}

static void close_stream(struct tcp *t)
{
	if (core.rings && !core.lost)
		tcp_lose(t, &t->conn[PEER], "the end");
	reap();
	if (core.fd < 0)
		return;
	close(core.fd);
	if (!core.lost)
		tcp_records_pull(t, &t->conn[PEER]);
	fuzz_promise(core.lost, "the end of the stream is a lost peer");
	reap();
	tcp_records_free(&t->conn[PEER]);
}

static void operate(struct tcp *t, struct fuzz_input *in)
{
	if (core.rings && fuzz_up_to(in, 1)) {
		operate_ring(t, in);
		reap();
		return;
	}
	switch (fuzz_up_to(in, 7)) {
	case 0: withdraw(t, in); break;
	case 1: match_forget(&core.match, TAGS - 1, fuzz_up_to(in, TAGS - 1)); break;
	case 2:
	case 3: post(in); break;
	case 4:
	case 5: pass_bytes(t, in); break;
	default: pass_message(t, in); break;
	}
	reap();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t scratch[TCP_SCRATCH];
	const coll_host_t host = {.size = sizeof(host),
				  .nranks = 2,
				  .option_string = host_option_string,
				  .option_int = host_option_int,
				  .arrive = host_arrive,
				  .data = host_data,
				  .arrived = host_arrived,
				  .log = host_log,
				  .peer_lost = host_peer_lost};
	struct tcp_conn conns[2] = {{.fd = -1}, {.fd = -1, .peer = PEER}};
	uint32_t peers[1];
	struct tcp t = {.host = &host,
			.nranks = 2,
			.epoll_fd = -1,
			.scratch = scratch,
			.conn = conns,
			.ring_peers = peers};
	struct fuzz_input in = {data, size};

	t.message = size % 2 ? host_message : NULL; /* NULL: of an older core */
	memset(&core, 0, sizeof(core));
	t.posted = size % 4 < 2 ? host_posted : NULL;
	open_stream(&t, fuzz_up_to(&in, IN_RING));
	check_record(&host, in);
	match_init(&core.match);
	core.match.check_unexpected = keep_all;
	core.match.no_memory = no_memory;
	core.match.mismatch = mismatch;
	while (in.left > 0 && !core.lost)
		operate(&t, &in);
	close_stream(&t);
	match_free(&core.match);
	for (int i = 0; i < RECEIVES; i++) {
		free(core.memory[i]);
		free(core.own[i]);
	}
	return 0;
}
