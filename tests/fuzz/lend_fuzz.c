/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lend_fuzz.c - a rank of the tcp backend that lends messages, while the receiver writes anything to the words that both share:
 * `taken`, `borrowed`, `given_up`, `lent`, the sleep flags and the positions.
 *
 * A message is complete only behind a position that stands in `taken`; its number names no other message until then; and the rank
 * writes nothing outside of the ring.
 *
 * Input: operations, each a byte.
 */
#include "fuzz.h"
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "tcp_ring.h"

const char *const fuzz_name = "lend";
const long fuzz_runs = 20000;

enum { PEER = 1, SENDS = 6, PIECES = 3, RING = 4096, GUARD = 4096 };
enum { LEAST = TCP_LENT_TURNS, MEMORY = 2 * TCP_LENT_TURNS };

static struct {
	coll_send_t send[SENDS];
	uint64_t end
		[TCP_LENT_MESSAGES]; /* the positions behind lent messages that the sender has given up; 0: none */
	uint64_t seen;
	int lost, fd; /* the peer's end of the socket */
} core;

/* Outlives an input, since new memory takes most of the time of an input. */
static uint8_t *piece[PIECES], plain[MEMORY];

/* ---------------------------------------------------------------- the core's side -- */

static void *host_alloc(const coll_host_t *host, uint64_t bytes)
{
	(void)host;
	return fuzz_memory((size_t)bytes);
}

static void host_free(const coll_host_t *host, void *ptr, uint64_t bytes)
{
	(void)host;
	(void)bytes;
	free(ptr);
}

static void host_peer_lost(const coll_host_t *host, uint32_t peer, const char *text)
{
	(void)host;
	fuzz_promise(peer == PEER && text && *text, "a lost peer has a reason");
	fuzz_promise(!core.lost, "a peer is lost once");
	core.lost = 1;
}

static void host_log(const coll_host_t *host, int32_t level, const char *text)
{
	(void)host;
	(void)level;
	(void)text;
}

/* ------------------------------------------------------------------- the promises -- */

static coll_header_t frame_of(const coll_send_t *send)
{
	coll_header_t frame;

	memcpy(&frame, &send->plugin[TCP_SEND_FRAME], sizeof(frame));
	return frame;
}

static uint64_t number_of(const coll_send_t *send)
{
	return frame_of(send).meta[0] / TCP_LENT_SLOTS;
}

static int is_under_way(const coll_send_t *send)
{
	return send->status == COLL_IN_PROGRESS;
}

/* The position that the rank believes stands in `taken`. */
static void check_seen(const struct tcp_conn *conn)
{
	const struct tcp_ring *ring = &conn->out;

	fuzz_promise(ring->seen == core.seen || ring->seen == atomic_load(&ring->control->taken),
		     "a position comes from the reader");
	fuzz_promise(ring->own - ring->seen <= ring->size, "no more than the ring is unread");
	fuzz_promise(ring->seen >= core.seen && ring->seen <= ring->own,
		     "positions only grow, up to the writer's");
	core.seen = ring->seen;
}

static void check_sends(const struct tcp_conn *conn)
{
	for (int i = 0; i < SENDS; i++) {
		const coll_send_t *send = &core.send[i];

		if (send->status == COLL_SUCCESS && tcp_is_lent(send) && !core.lost)
			fuzz_promise(send->plugin[TCP_SEND_END] &&
					     send->plugin[TCP_SEND_END] <= conn->out.seen,
				     "a lent message is complete when it is read");
	}
}

/* Is the number of a lent message that of another one that the peer may still read? */
static int number_is_taken(const struct tcp_conn *conn, const coll_send_t *send)
{
	const uint64_t number = number_of(send);

	for (int i = 0; i < SENDS; i++) {
		const coll_send_t *other = &core.send[i];

		if (other != send && is_under_way(other) && tcp_is_lent(other) &&
		    number_of(other) == number)
			return 1;
	}
	return core.end[number] > conn->out.seen;
}

/* ------------------------------------------------------------------ the operations -- */

static void begin_send(struct tcp *t, struct fuzz_input *in)
{
	coll_send_t *send = &core.send[fuzz_up_to(in, SENDS - 1)];
	const unsigned from = fuzz_up_to(in, PIECES), at = fuzz_byte(in), more = fuzz_up_to(in, 1);
	uint8_t *memory = from < PIECES ? piece[from] : plain;
	const uint64_t len = fuzz_byte(in) < 32 ? at : LEAST + fuzz_byte(in) * UINT64_C(100);
	coll_error_t err;
	int32_t code;

	if (is_under_way(send))
		return;
	*send = (coll_send_t){.header = {.tag = 1, .len = len},
			      .buf = memory + at,
			      .peer = PEER,
			      .status = COLL_IN_PROGRESS};
	code = more ? tcp_send_more(t, send, &err) : tcp_send(t, send, &err);
	fuzz_promise(!code, "a send begins while the peer is there");
	if (!tcp_is_lent(send))
		return;
	fuzz_promise(from < PIECES && frame_of(send).meta[1] == at,
		     "a lent message lies in memory of the library, where its frame says");
	fuzz_promise(!number_is_taken(&t->conn[PEER], send), "a number names one message");
	core.end[number_of(send)] = 0;
}

static void cancel(struct tcp *t, struct fuzz_input *in)
{
	coll_send_t *send = &core.send[fuzz_up_to(in, SENDS - 1)];
	struct tcp_conn *conn = &t->conn[PEER];

	if (!is_under_way(send))
		return;
	tcp_cancel(t, send);
	send->status = COLL_ERR_ABORTED;
	if (!tcp_is_lent(send) || !send->plugin[TCP_SEND_END])
		return;
	core.end[number_of(send)] = send->plugin[TCP_SEND_END];
	fuzz_promise(atomic_load(&conn->out.control->given_up) >> number_of(send) & 1,
		     "the peer can see that the message is given up");
}

/* The program frees memory of which no message is under way, and allocates other memory. */
static void renew(struct tcp *t, struct fuzz_input *in)
{
	const unsigned i = fuzz_up_to(in, PIECES - 1);
	coll_error_t err;
	void *at;

	for (int s = 0; s < SENDS; s++)
		if (is_under_way(&core.send[s]) && (const uint8_t *)core.send[s].buf >= piece[i] &&
		    (const uint8_t *)core.send[s].buf < piece[i] + MEMORY)
			return;
	tcp_mem_free(piece[i]);
	if (tcp_mem_alloc(t, MEMORY, &at, &err))
		exit(2);
	piece[i] = at;
}

/* The peer has read some bytes, or says so. */
static void take(struct tcp *t, struct fuzz_input *in)
{
	struct tcp_ring *ring = &t->conn[PEER].out;
	const uint64_t unread = ring->own - ring->seen;
	const unsigned part = fuzz_byte(in);

	atomic_store(&ring->control->taken,
		     ring->seen + (part < 250 ? unread * (part % 201) / 200 : unread + part));
}

/* The peer maps the memory that the lender offers, or says so without having mapped it. */
static void map(struct tcp *t, struct fuzz_input *in)
{
	uint64_t borrowed = atomic_load(&t->conn[PEER].out.control->lent);

	if (fuzz_up_to(in, 3) == 3)
		fuzz_take(in, &borrowed, sizeof(borrowed));
	atomic_store(&t->conn[PEER].out.control->borrowed, borrowed);
}

/* The peer writes something anywhere among the words. */
static void spoil(struct tcp *t, struct fuzz_input *in)
{
	struct tcp_ring_control *control = t->conn[PEER].out.control;
	const size_t at = fuzz_byte(in) * sizeof(uint64_t) % sizeof(*control);

	fuzz_take(in, (uint8_t *)control + at, 1 + fuzz_up_to(in, 7));
}

/* What progress() does for this connection. */
static void progress(struct tcp *t)
{
	struct tcp_conn *conn = &t->conn[PEER];

	t->budget = TCP_BUDGET;
	tcp_flush_deferred(t);
	if (tcp_has_work(conn) && !conn->send_errno)
		tcp_push(t, conn);
	tcp_lend_reap(t);
	if (t->lends)
		tcp_lend_look(t);
	if (conn->lent.first)
		tcp_lend_arm(t, conn);
}

static void drain(void)
{
	char bytes[64], control[256];
	struct iovec iov = {bytes, sizeof(bytes)};
	struct msghdr msg;

	do {
		int fd;

		msg = (struct msghdr){.msg_iov = &iov,
				      .msg_iovlen = 1,
				      .msg_control = control,
				      .msg_controllen = sizeof(control)};
		if (recvmsg(core.fd, &msg, MSG_DONTWAIT) <= 0)
			return;
		for (struct cmsghdr *part = CMSG_FIRSTHDR(&msg); part;
		     part = CMSG_NXTHDR(&msg, part)) {
			memcpy(&fd, CMSG_DATA(part), sizeof(fd));
			fuzz_promise(part->cmsg_len == CMSG_LEN(sizeof(fd)),
				     "an offer has one descriptor");
			close(fd);
		}
	} while (1);
}

static void operate(struct tcp *t, struct fuzz_input *in)
{
	struct tcp_conn *conn = &t->conn[PEER];

	switch (fuzz_up_to(in, 9)) {
	case 0: spoil(t, in); break;
	case 1: cancel(t, in); break;
	case 2: map(t, in); break;
	case 3: renew(t, in); break;
	case 4: drain(); break;
	case 5:
	case 6: take(t, in); break;
	case 7: progress(t); break;
	default: begin_send(t, in); break;
	}
	check_seen(conn);
	check_sends(conn);
	if (conn->send_errno)
		tcp_lose(t, conn, tcp_why(conn->send_errno));
}

/* ---------------------------------------------------------------------- the stream -- */

/* A ring between pages that nobody may touch. */
static uint8_t *open_ring(struct tcp_conn *conn)
{
	const size_t size = TCP_RING_CONTROL + RING;
	uint8_t *at = mmap(NULL, size + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (at == MAP_FAILED || mprotect(at + GUARD, size, PROT_READ | PROT_WRITE))
		exit(2);
	conn->out = (struct tcp_ring){.control = (void *)(at + GUARD),
				      .data = at + GUARD + TCP_RING_CONTROL,
				      .size = RING};
	conn->out_on = 1;
	return at;
}

static void open_stream(struct tcp *t)
{
	coll_error_t err;
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
		exit(2);
	t->conn[PEER].fd = fds[0];
	core.fd = fds[1];
	for (int i = 0; i < PIECES; i++)
		if (!piece[i]) {
			void *at;

			if (tcp_mem_alloc(t, MEMORY, &at, &err))
				exit(2);
			piece[i] = at;
		}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const coll_host_t host = {.size = sizeof(host),
				  .nranks = 2,
				  .alloc = host_alloc,
				  .free = host_free,
				  .log = host_log,
				  .peer_lost = host_peer_lost};
	struct tcp_conn conns[2] = {{.fd = -1}, {.fd = -1, .peer = PEER}};
	struct tcp t = {.host = &host,
			.nranks = 2,
			.epoll_fd = -1,
			.conn = conns,
			.own = &conns[0],
			.turns = 1,
			.ring_size = RING};
	struct fuzz_input in = {data, size};
	uint8_t *ring = open_ring(&conns[PEER]);

	memset(&core, 0, sizeof(core));
	open_stream(&t);
	while (in.left > 0 && !core.lost)
		operate(&t, &in);
	if (!core.lost)
		tcp_lose(&t, &conns[PEER], "the end");
	for (int i = 0; i < SENDS; i++)
		fuzz_promise(!is_under_way(&core.send[i]), "each send ends with its peer");
	tcp_lend_reap(&t);
	fuzz_promise(!t.lending, "no list has the connection");
	close(core.fd);
	/* The plugin has unmapped the ring, which lies between these guard pages. */
	munmap(ring, GUARD);
	munmap(ring + GUARD + TCP_RING_CONTROL + RING, GUARD);
	return 0;
}
