/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * lend_fuzz.c - a rank of the tcp backend that lends messages to two receivers, while each writes anything to the words that it
 * shares with the rank: `taken`, `borrowed`, `given_up`, `lent`, the sleep flags and the positions.
 *
 * A message is complete only behind a position that stands in `taken`; its number names no other message until then; and the rank
 * writes nothing outside of the rings.  A message from ordinary memory stands in a bounce buffer, with the bytes that it had when
 * its send began, until it is complete, or given up and passed.  Messages of one payload share a buffer.
 *
 * Input: operations, each a byte, and their operands.  The byte also says for which receiver.
 */
#include "fuzz.h"
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>
#include "tcp_ring.h"

const char *const fuzz_name = "lend";
const long fuzz_runs = 20000;

enum { PEERS = 2, RANKS = PEERS + 1, SENDS = 6, PIECES = 3, PLAINS = 2, RING = 4096, GUARD = 4096 };
enum { MEMORY = 2 * TCP_BOUNCE_LEAST, IMAGES = 4 };
/* Bounce buffers have units for two messages, since most messages take five, and one more. */
enum { BOUNCES = 11 * (32 << 10) };

/* A lent message that the sender has given up. */
struct given_up {
	uint64_t end; /* the position behind it; 0: none */
	uint64_t offset, len;
	const uint8_t *image;
};

static struct {
	coll_send_t send[SENDS];
	/* The payloads when the sends began; NULL: lent in place. */
	const uint8_t *image[SENDS];
	const coll_send_t *shared; /* the last send whose bounce buffer others may share */
	struct given_up given_up[RANKS][TCP_LENT_MESSAGES];
	uint64_t seen[RANKS];
	int lost[RANKS], fd[RANKS];                    /* the peer's end of the socket */
	const struct tcp_ring_control *control[RANKS]; /* as the peer has mapped it */
} core;

/* Outlives an input, since new memory takes most of the time of an input.  Nobody writes there. */
static uint8_t *piece[PIECES];
static const uint8_t unwritten[MEMORY];
/* Ordinary memory, and what the program writes there. */
static uint8_t plain[PLAINS][MEMORY], images[IMAGES * MEMORY];
static unsigned image_of[PLAINS];

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

/* Is a send under way from this memory? */
static int is_sent_from(const uint8_t *memory)
{
	for (int i = 0; i < SENDS; i++)
		if (is_under_way(&core.send[i]) && (const uint8_t *)core.send[i].buf >= memory &&
		    (const uint8_t *)core.send[i].buf < memory + MEMORY)
			return 1;
	return 0;
}

static const uint8_t *image_of_send(const coll_send_t *send)
{
	return core.image[send - core.send];
}

/* The position that the rank believes stands in `taken`. */
static void check_seen(const struct tcp_conn *conn)
{
	const struct tcp_ring *ring = &conn->out;
	uint64_t *seen = &core.seen[conn->peer];

	fuzz_promise(ring->seen == *seen || ring->seen == atomic_load(&ring->control->taken),
		     "a position comes from the reader");
	fuzz_promise(ring->own - ring->seen <= ring->size, "no more than the ring is unread");
	fuzz_promise(ring->seen >= *seen && ring->seen <= ring->own,
		     "positions only grow, up to the writer's");
	*seen = ring->seen;
}

static void check_sends(const struct tcp *t)
{
	for (int i = 0; i < SENDS; i++) {
		const coll_send_t *send = &core.send[i];

		if (send->status == COLL_SUCCESS && tcp_is_lent(send) && !core.lost[send->peer])
			fuzz_promise(send->plugin[TCP_SEND_END] &&
					     send->plugin[TCP_SEND_END] <=
						     t->conn[send->peer].out.seen,
				     "a lent message is complete when it is read");
	}
}

static void check_bounced(struct tcp *t, uint64_t offset, const uint8_t *image, uint64_t len)
{
	fuzz_promise(t->bounce && offset + len <= BOUNCES,
		     "a message that is not lent in place lies in the bounce buffers");
	fuzz_promise(!memcmp(tcp_bounce_memory(t)->at + offset, image, len),
		     "its bytes are those that the send began with");
}

/* The bounce buffers that a receiver may still read. */
static void check_bounces(struct tcp *t)
{
	for (int i = 0; i < SENDS; i++) {
		const coll_send_t *send = &core.send[i];

		if (is_under_way(send) && tcp_is_lent(send) && core.image[i])
			check_bounced(t, frame_of(send).meta[1], core.image[i], send->header.len);
	}
	for (uint32_t peer = 1; peer < RANKS; peer++)
		for (int i = 0; i < TCP_LENT_MESSAGES && !core.lost[peer]; i++) {
			const struct given_up *given_up = &core.given_up[peer][i];

			if (given_up->image && given_up->end > t->conn[peer].out.seen)
				check_bounced(t, given_up->offset, given_up->image, given_up->len);
		}
}

/* A lost peer may still read, while the rank goes on. */
static void check_lost(uint32_t peer)
{
	const uint64_t given_up = atomic_load(&core.control[peer]->given_up);

	for (int i = 0; i < SENDS; i++) {
		const coll_send_t *send = &core.send[i];

		if (send->peer == peer && send->status == COLL_ERR_PEER_LOST && tcp_is_lent(send))
			fuzz_promise(given_up >> number_of(send) & 1,
				     "a lost peer can see that the message is given up");
	}
}

/* Is the number of a lent message that of another one that the peer may still read? */
static int number_is_taken(const struct tcp_conn *conn, const coll_send_t *send)
{
	const uint64_t number = number_of(send);

	for (int i = 0; i < SENDS; i++) {
		const coll_send_t *other = &core.send[i];

		if (other != send && other->peer == conn->peer && is_under_way(other) &&
		    tcp_is_lent(other) && number_of(other) == number)
			return 1;
	}
	return core.given_up[conn->peer][number].end > conn->out.seen;
}

/* Does the frame say where in a piece of the library's memory the payload lies? */
static int is_in_piece(const coll_send_t *send)
{
	for (int i = 0; i < PIECES; i++)
		if ((const uint8_t *)send->buf == piece[i] + frame_of(send).meta[1])
			return 1;
	return 0;
}

/* A message has become a lent one, but not in place. */
static void check_shared(struct tcp *t, const coll_send_t *send)
{
	const coll_send_t *other = core.shared;

	if (other && is_under_way(other) && other->buf == send->buf &&
	    other->header.len == send->header.len)
		fuzz_promise(frame_of(other).meta[1] == frame_of(send).meta[1],
			     "messages of one payload share a bounce buffer");
	core.shared = send;
	check_bounces(t);
}

static void host_peer_lost(const coll_host_t *host, uint32_t peer, const char *text)
{
	(void)host;
	fuzz_promise(peer && peer < RANKS && text && *text, "a lost peer has a reason");
	fuzz_promise(!core.lost[peer], "a peer is lost once");
	core.lost[peer] = 1;
	check_lost(peer);
}

/* ------------------------------------------------------------------ the operations -- */

/* Describes a send from memory that the input names. */
static void describe_send(coll_send_t *send, uint32_t peer, struct fuzz_input *in, int *more)
{
	const unsigned from = fuzz_up_to(in, PIECES + PLAINS - 1), i = from - PIECES;
	/* No bounce buffer begins at such an offset: the frame tells whether the message is in one. */
	const unsigned at = fuzz_byte(in) | 1;
	const uint64_t least = from < PIECES ? TCP_LENT_TURNS : TCP_BOUNCE_LEAST;

	*more = fuzz_up_to(in, 1);
	*send = (coll_send_t){
		.header = {.tag = 1,
			   .len = fuzz_byte(in) < 32 ? at : least + fuzz_byte(in) * UINT64_C(100)},
		.buf = (from < PIECES ? piece[from] : plain[i]) + at,
		.peer = peer,
		.status = COLL_IN_PROGRESS};
	core.image[send - core.send] =
		from < PIECES ? unwritten : images + (size_t)image_of[i] * MEMORY + at;
	if (core.shared == send)
		core.shared = NULL;
}

static void begin_send(struct tcp *t, uint32_t peer, struct fuzz_input *in)
{
	coll_send_t *send = &core.send[fuzz_up_to(in, SENDS - 1)];
	coll_error_t err;
	int32_t code;
	int more;

	if (is_under_way(send) || core.lost[peer])
		return;
	describe_send(send, peer, in, &more);
	code = more ? tcp_send_more(t, send, &err) : tcp_send(t, send, &err);
	fuzz_promise(!code, "a send begins while the peer is there");
	if (!tcp_is_lent(send))
		return;
	fuzz_promise(!number_is_taken(&t->conn[peer], send), "a number names one message");
	core.given_up[peer][number_of(send)].end = 0;
	/* Memory of the library for which no slot is free takes a bounce buffer, too. */
	if (is_in_piece(send))
		core.image[send - core.send] = NULL;
	else
		check_shared(t, send);
}

static void cancel(struct tcp *t, struct fuzz_input *in)
{
	coll_send_t *send = &core.send[fuzz_up_to(in, SENDS - 1)];
	struct tcp_conn *conn = &t->conn[send->peer];
	const coll_header_t frame = frame_of(send);

	if (!is_under_way(send))
		return;
	tcp_cancel(t, send);
	send->status = COLL_ERR_ABORTED;
	if (!tcp_is_lent(send))
		return;
	if (core.shared && image_of_send(send) && frame.meta[1] == frame_of(core.shared).meta[1])
		core.shared = NULL;
	if (!send->plugin[TCP_SEND_END])
		return;
	core.given_up[send->peer][number_of(send)] =
		(struct given_up){.end = send->plugin[TCP_SEND_END],
				  .offset = frame.meta[1],
				  .len = send->header.len,
				  .image = image_of_send(send)};
	fuzz_promise(atomic_load(&conn->out.control->given_up) >> number_of(send) & 1,
		     "the peer can see that the message is given up");
}

/* The program writes to ordinary memory of which no message is under way. */
static void change(struct tcp *t, struct fuzz_input *in)
{
	const unsigned i = fuzz_up_to(in, PLAINS - 1), image = fuzz_up_to(in, IMAGES - 1);

	if (is_sent_from(plain[i]))
		return;
	memcpy(plain[i], images + (size_t)image * MEMORY, MEMORY);
	image_of[i] = image;
	check_bounces(t);
}

/* The program frees memory of which no message is under way, and allocates other memory. */
static void renew(struct tcp *t, struct fuzz_input *in)
{
	const unsigned i = fuzz_up_to(in, PIECES - 1);
	coll_error_t err;
	void *at;

	if (is_sent_from(piece[i]))
		return;
	tcp_mem_free(piece[i]);
	if (tcp_mem_alloc(t, MEMORY, &at, &err))
		exit(2);
	piece[i] = at;
}

/* The peer has read some bytes, or says so. */
static void take(struct tcp_conn *conn, struct fuzz_input *in)
{
	struct tcp_ring *ring = &conn->out;
	const uint64_t unread = ring->own - ring->seen;
	const unsigned part = fuzz_byte(in);

	atomic_store(&ring->control->taken,
		     ring->seen + (part < 250 ? unread * (part % 201) / 200 : unread + part));
}

/* The peer maps the memory that the lender offers, or says so without having mapped it. */
static void map(struct tcp_conn *conn, struct fuzz_input *in)
{
	uint64_t borrowed = atomic_load(&conn->out.control->lent);

	if (fuzz_up_to(in, 3) == 3)
		fuzz_take(in, &borrowed, sizeof(borrowed));
	atomic_store(&conn->out.control->borrowed, borrowed);
}

/* The peer writes something anywhere among the words. */
static void spoil(struct tcp_conn *conn, struct fuzz_input *in)
{
	struct tcp_ring_control *control = conn->out.control;
	const size_t at = fuzz_byte(in) * sizeof(uint64_t) % sizeof(*control);

	fuzz_take(in, (uint8_t *)control + at, 1 + fuzz_up_to(in, 7));
}

/* What progress() does for the connection. */
static void progress(struct tcp *t, struct tcp_conn *conn)
{
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

static void drain(uint32_t peer)
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
		if (recvmsg(core.fd[peer], &msg, MSG_DONTWAIT) <= 0)
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

static void operate_on(struct tcp *t, struct tcp_conn *conn, unsigned operation,
		       struct fuzz_input *in)
{
	switch (operation) {
	case 0: spoil(conn, in); break;
	case 1: cancel(t, in); break;
	case 2: map(conn, in); break;
	case 3: renew(t, in); break;
	case 4: drain(conn->peer); break;
	case 5:
	case 6: take(conn, in); break;
	case 7: progress(t, conn); break;
	case 9: change(t, in); break;
	default: begin_send(t, conn->peer, in); break;
	}
}

static void operate(struct tcp *t, struct fuzz_input *in)
{
	const unsigned byte = fuzz_byte(in);
	uint32_t peer = 1 + byte / 10 % PEERS;

	if (core.lost[peer])
		peer = 1 + peer % PEERS;
	operate_on(t, &t->conn[peer], byte % 10, in);
	check_sends(t);
	for (peer = 1; peer < RANKS; peer++) {
		struct tcp_conn *conn = &t->conn[peer];

		if (!core.lost[peer])
			check_seen(conn);
		if (conn->send_errno)
			tcp_lose(t, conn, tcp_why(conn->send_errno));
	}
}

/* ---------------------------------------------------------------------- the stream -- */

/* A ring between pages that nobody may touch. */
static uint8_t *open_ring(struct tcp_conn *conn)
{
	const size_t size = TCP_RING_CONTROL + RING;
	const int fd = memfd_create("ring", 0);
	uint8_t *at = mmap(NULL, size + 2 * GUARD, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (fd < 0 || ftruncate(fd, (off_t)size) || at == MAP_FAILED ||
	    mmap(at + GUARD, size, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, fd, 0) ==
		    MAP_FAILED)
		exit(2);
	core.control[conn->peer] = mmap(NULL, TCP_RING_CONTROL, PROT_READ, MAP_SHARED, fd, 0);
	if (core.control[conn->peer] == MAP_FAILED)
		exit(2);
	close(fd);
	conn->out = (struct tcp_ring){.control = (void *)(at + GUARD),
				      .data = at + GUARD + TCP_RING_CONTROL,
				      .size = RING};
	conn->out_on = 1;
	return at;
}

static void close_ring(uint8_t *at, uint32_t peer)
{
	munmap((void *)(uintptr_t)core.control[peer], TCP_RING_CONTROL);
	/* The plugin has unmapped the ring, which lies between these guard pages. */
	munmap(at, GUARD);
	munmap(at + GUARD + TCP_RING_CONTROL + RING, GUARD);
}

static void open_stream(struct tcp_conn *conn)
{
	int fds[2];

	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds))
		exit(2);
	conn->fd = fds[0];
	core.fd[conn->peer] = fds[1];
}

static void prepare_memory(struct tcp *t)
{
	coll_error_t err;

	for (size_t i = 0; !images[sizeof(images) - 1] && i < sizeof(images); i++)
		images[i] = (uint8_t)(i * 2654435761u >> 16 | 1);
	for (unsigned i = 0; i < PLAINS; i++) {
		memcpy(plain[i], images + (size_t)i * MEMORY, MEMORY);
		image_of[i] = i;
	}
	for (int i = 0; i < PIECES; i++)
		if (!piece[i]) {
			void *at;

			if (tcp_mem_alloc(t, MEMORY, &at, &err))
				exit(2);
			piece[i] = at;
		}
}

/* All connections are lost: each bounce buffer is free. */
static void end_bounces(struct tcp *t)
{
	if (!t->bounce)
		return;
	fuzz_promise(tcp_bounce(t, images, BOUNCES) == 0,
		     "no message has a bounce buffer when its peer is lost");
	tcp_bounce_free(t);
}

static void run(struct tcp *t, struct fuzz_input *in)
{
	int left = PEERS;

	while (in->left > 0 && left) {
		operate(t, in);
		left = PEERS - core.lost[1] - core.lost[2];
	}
	check_bounces(t);
	for (uint32_t peer = 1; peer < RANKS; peer++)
		if (!core.lost[peer])
			tcp_lose(t, &t->conn[peer], "the end");
	for (int i = 0; i < SENDS; i++)
		fuzz_promise(!is_under_way(&core.send[i]), "each send ends with its peer");
	tcp_lend_reap(t);
	fuzz_promise(!t->lending, "no list has the connections");
	end_bounces(t);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const coll_host_t host = {.size = sizeof(host),
				  .nranks = RANKS,
				  .alloc = host_alloc,
				  .free = host_free,
				  .log = host_log,
				  .peer_lost = host_peer_lost};
	struct tcp_conn conns[RANKS] = {{.fd = -1}, {.fd = -1, .peer = 1}, {.fd = -1, .peer = 2}};
	struct tcp t = {.host = &host,
			.nranks = RANKS,
			.epoll_fd = -1,
			.conn = conns,
			.own = &conns[0],
			.turns = 1,
			.ring_size = RING,
			.ring_memory = 4 * BOUNCES};
	struct fuzz_input in = {data, size};
	uint8_t *ring[RANKS];

	memset(&core, 0, sizeof(core));
	for (uint32_t peer = 1; peer < RANKS; peer++) {
		ring[peer] = open_ring(&conns[peer]);
		open_stream(&conns[peer]);
	}
	prepare_memory(&t);
	run(&t, &in);
	for (uint32_t peer = 1; peer < RANKS; peer++) {
		close(core.fd[peer]);
		close_ring(ring[peer], peer);
	}
	return 0;
}
