/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp.h - types and functions that the files of the tcp backend share.
 *
 * One endpoint holds one stream socket for each other rank: AF_UNIX on the same host, TCP otherwise.
 * tcp_addr.c listens and describes the addresses; tcp_mesh.c connects every rank with every other rank;
 * tcp_send.c and tcp_io.c move messages, with tcp_copy.c; tcp_close.c sends the last bytes.  tcp_security.c reads the
 * option tcp.security, tcp_record.c protects the streams with tcp_cipher.c.  tcp_paths.c serves the option tcp.multipath.
 * tcp_ring.c and tcp_ring_offer.c carry the
 * stream between ranks of one host in shared memory; tcp_far.c chooses the stores by which they write there.  tcp_memory.c
 * allocates memory from which tcp_lend.c sends payload that tcp_borrow.c reads in place; tcp_bounce.c copies payload there.
 * In the stream a message is its 32-byte coll_header_t followed by the payload.  Between two messages an AF_UNIX
 * socket may carry a frame of tcp_ring_offer.c, a coll_header_t with the length TCP_FRAME.
 */
#ifndef TCP_H
#define TCP_H

#include <coll/backend.h>

#include "base/cancel.h"
#include "base/clock.h"
#include "base/copy.h"
#include "base/descriptor.h"
#include "base/error.h"
#include "base/interrupt.h"
#include "base/plugin_kit.h"
#include "socket/acceptor.h"
#include "tcp_cipher.h"

#include <stddef.h>
#include <sys/socket.h>

/* README.md has the measurements behind these sizes. */
#define TCP_SCRATCH    ((size_t)256 << 10) /* one receive for host->data; fits into the cache */
#define TCP_FIRST      ((size_t)32 << 10)  /* one receive while no message is under way */
#define TCP_PIECE      ((size_t)1 << 20)   /* one send or receive of a large buffer */
#define TCP_BUDGET     ((size_t)4 << 20)   /* bytes of one progress(): about a millisecond */
#define TCP_RING_PIECE ((size_t)16 << 10)  /* bytes of a ring that are published or freed at once */
/* Most bytes of a ring between ranks that share processors. */
#define TCP_RING_TURNS ((size_t)256 << 10)
/* Least bytes of a ring, however many ranks the host has. */
#define TCP_RING_MANY ((size_t)64 << 10)
/* Where ranks take turns, bytes of a ring whose pages a process maps at once, when a long message comes there. */
#define TCP_RING_MAPPED ((size_t)128 << 10)
#define TCP_RING_PAGE   ((size_t)4 << 10)
#define TCP_RING_SHORT  ((size_t)1024) /* payload of a message that is written to a ring at once */
/* Payload from which on a message stays in the ring until its receive is posted. */
#define TCP_RING_BLOCKED ((size_t)4 << 10)
#define TCP_PAST         ((size_t)4 << 20) /* payload from which on a reader's copies go past the caches */
/* Payload from which on a writer's copies to the ring of a far processor do. */
#define TCP_PAST_FAR ((size_t)4 << 10)
/*
 * Payload from which on a message may be lent (tcp_lend.c): between ranks that take turns on processors, and between ranks beside
 * each other; to a far processor if messages of so many bytes wait already.
 */
#define TCP_LENT_TURNS  ((size_t)32 << 10)
#define TCP_LENT_BESIDE ((size_t)256 << 10)
#define TCP_LENT_QUEUE  ((size_t)3 << 20)
/*
 * Payload from which on a message takes a bounce buffer, the most payload of a message that takes one for itself, and the most bytes
 * of all bounce buffers of an endpoint.
 */
#define TCP_BOUNCE_LEAST ((size_t)128 << 10)
#define TCP_BOUNCE_MOST  ((size_t)256 << 10)
#define TCP_BOUNCE_BYTES ((size_t)4 << 20)
#define TCP_LENT_BYTES   (2 * sizeof(coll_header_t)) /* of a lent message in the ring */
#define TCP_FRAME        UINT64_MAX                  /* length of no message */
#define TCP_UNIX_BUFFER  (4 << 20) /* SO_SNDBUF of AF_UNIX sockets; the kernel may clip it */

enum {
	TCP_DIRECT =
		1, /* with at most so many peers progress() calls recvmsg() without asking epoll */
	TCP_EXTRA_SOCKETS = 32, /* most sockets at a time for further addresses of peers */
	TCP_GATHER = 256,       /* most queued messages in one sendmsg() */
	/* Most bytes of messages that are deferred to go together: one sendmsg() takes them. */
	TCP_DEFERRED = TCP_GATHER * (int)sizeof(coll_header_t),
	/*
	 * Calls of progress() between two looks at the sockets while rings carry streams: if some sockets carry streams
	 * too, and if sockets only wake.
	 */
	TCP_MIXED_POLLS = 8,
	TCP_RING_POLLS = 64,
	/* A call that finds bytes in a ring starts the count again, but puts a look off by so many calls at most. */
	TCP_RING_PUT_OFF = 512,
	/*
	 * A blocked message stays in its ring for so many calls of progress() in which nothing moves, for so many calls in
	 * all, and until this rank has wanted to sleep so often; the rank yields its processor instead.
	 */
	TCP_BLOCK_IDLE = 512,
	TCP_BLOCK_POLLS = 1 << 14,
	TCP_BLOCK_SLEEPS = 16,
	TCP_BLOCK_PENALTY = 1024 /* most messages that are not blocked after that */
};

/*
 * Frames: tcp_ring_offer.c; TCP_FRAME_LENT, before the header of a lent message, in a ring only.  On a socket whose stream has
 * left it, byte TCP_FRAME_SLOT + i comes with memory for slot i.
 */
enum { TCP_FRAME_NOTE, TCP_FRAME_SWITCH, TCP_FRAME_LENT, TCP_FRAME_SLOT };

enum {
	TCP_LENT_SLOTS = 32,    /* pieces of memory from which a rank lends to a peer */
	TCP_LENT_MESSAGES = 64, /* lent messages to a peer at a time: their numbers */
	/* Words of coll_send_t.plugin of a lent message; word 0 links the queue. */
	TCP_SEND_END = 1,   /* the position behind it; 0: nothing of it is in the ring */
	TCP_SEND_FRAME = 2, /* its frame */
	TCP_SEND_LENT = 5   /* the length of the frame: TCP_FRAME */
};

/* Failures of a connection that errno does not have. */
enum { TCP_CLOSED = -1, TCP_BAD_POSITION = -2 };

/* ------------------------------------------------------------------ endpoint -- */

struct tcp_ring_control;

/* The shared memory of one direction, as this process has mapped it. */
struct tcp_ring {
	struct tcp_ring_control *control; /* NULL: no ring */
	uint8_t *data;
	uint64_t size; /* a power of two */
	uint64_t own;  /* this side's position: the peer can change the copy in the ring */
	/* Of a writer: the reader's position as last read.  Of a reader: its own position as last told. */
	uint64_t seen;
	uint64_t mapped; /* bytes of `data` whose pages this process has in its page table */
};

/* Memory of coll_mem_alloc or of bounce buffers, here or as another rank has lent it. */
struct tcp_memory {
	uint8_t *at;
	uint64_t size; /* bytes */
	uint64_t id;   /* of this process's memory; never 0 */
	int fd;
};

static inline int tcp_memory_has(const struct tcp_memory *memory, const void *buf, uint64_t len)
{
	const uint64_t off = (uintptr_t)buf - (uintptr_t)memory->at;

	return off <= memory->size && len <= memory->size - off;
}

struct tcp_bounce;
struct tcp_lender;
struct tcp_borrower;

/* The stream to and from one rank.  The connection to the own rank has no socket: its messages pass through memory. */
struct tcp_conn {
	int fd; /* -1: the own rank, or a closed connection */
	uint32_t peer;
	int inet;        /* the socket is TCP, not AF_UNIX */
	int lost;        /* host->peer_lost was called */
	int send_errno;  /* why sending failed; the next progress() reports the peer as lost */
	uint32_t events; /* the events that epoll watches */

	/* Incomplete sends.  `done` counts the sent bytes of the first send. */
	struct send_queue queue;
	uint64_t done;
	struct send_rest rest; /* is sent before the queue */
	/* Bytes of messages that wait for tcp_flush_deferred, and the next connection in its list. */
	uint64_t deferred;
	struct tcp_conn *next_deferred;
	int is_deferred;
	struct tcp_records *records; /* under tcp.security; NULL: the plain stream is on the wire */
	size_t sealed;               /* unsent bytes of a sealed record */

	/* Shared memory: tcp_ring.c. */
	struct tcp_ring in;     /* from the peer, made by this rank */
	struct tcp_ring out;    /* to the peer, made by the peer */
	int in_on, out_on;      /* the stream has left the socket for the ring */
	int has_sent;           /* a message of the peer has come */
	int offered;            /* 1: this rank has tried to make `in` */
	int offering, offer_fd; /* 1: the descriptor of `in` must still be sent */
	int far;                /* tcp_far_note */

	struct tcp_lender *lender;     /* tcp_lend.c; NULL: nothing is offered */
	struct tcp_borrower *borrower; /* tcp_borrow.c; NULL: nothing is mapped */
	struct send_queue lent;        /* messages that the peer has not read yet */
	struct tcp_conn
		*next_lending; /* the next connection in the list of those with such messages */
	int is_lending;
	int tells; /* this rank tells its position as soon as it can */

	/* The message that is being received, or the beginning of its header. */
	int receiving;
	int dropped; /* the core has dropped this message: its payload is discarded */
	coll_sink_t sink;
	uint64_t got, len;
	uint32_t header_got; /* bytes of an incomplete header */
	uint8_t header[sizeof(coll_header_t)];
};

/* The option non_temporal. */
enum tcp_past { TCP_PAST_AUTO, TCP_PAST_NEVER, TCP_PAST_ALWAYS };

struct tcp {
	const coll_host_t *host;
	uint32_t rank, nranks;
	int epoll_fd;
	uint32_t next_peer; /* round robin: the peer that tcp_send_all has begun with */
	uint32_t sending;   /* other ranks' connections with bytes left to send */
	uint32_t failing;   /* connections with a send_errno that progress() has not reported yet */
	struct tcp_conn *deferred; /* list of connections with deferred messages */
	struct tcp_conn *lending;  /* list of connections with lent messages */
	int lends;                 /* a connection has a lender or a borrower */
	/* tcp_lend.c: where the last long message went, whether it passed another when it was sent, or the last one that came did */
	struct tcp_conn *last_long;
	int sent_across, exchanges;
	uint32_t write_watches;     /* connections registered for EPOLLOUT */
	size_t budget;              /* bytes that this progress() may still move */
	int moved;                  /* this progress() has moved bytes */
	enum tcp_security security; /* of the TCP connections; agreed by the ranks */
	int aes;                    /* all ranks' processors have AES-256-GCM */
	struct listeners paths;     /* tcp_paths_keep */
	uint64_t ring_size;         /* of one direction; 0: no rings */
	int turns;                  /* ranks of this host share processors */
	int64_t clock_ns;           /* what a read of the clock takes */
	enum tcp_past past;         /* the option non_temporal */
	int learns;                 /* this rank measures how far its writers are */
	uint64_t ring_memory; /* most bytes that this process makes for rings and bounce buffers */
	struct tcp_bounce *bounce; /* tcp_bounce.c; NULL: none is made */
	int bounce_failed;         /* none can be made */
	/* tcp_lend.c: the payload of the last message that might take one, and its peer */
	const void *bounce_buf;
	uint64_t bounce_len;
	const struct tcp_conn *bounce_conn;
	uint32_t rings;       /* connections with in_on */
	uint32_t *ring_peers; /* their ranks, in any order */
	uint32_t next_ring;   /* round robin: the ring with which the next progress() begins */
	uint32_t polls_left;  /* calls of progress() until a call looks at the sockets */
	uint32_t put_off; /* most calls by which bytes in the rings may still put off that look */
	int armed;        /* 1: sleep flags may be set in the rings */
	/* host->message; NULL in an older core. */
	int32_t (*message)(const coll_host_t *host, uint32_t peer, const coll_header_t *header,
			   const void *bytes);
	/* host->posted, for messages that stay in their rings (tcp_ring_blocks); NULL in an older core. */
	int32_t (*posted)(const coll_host_t *host, uint32_t peer, const coll_header_t *header);
	int blocked; /* 1: this progress() has left a message in its ring */
	/* Calls of progress() since a message blocked; calls, and wishes to sleep, since data moved. */
	uint32_t blocked_polls, blocked_idle, blocked_sleeps;
	uint32_t penalty; /* the last start value of `owed` */
	uint32_t owed;   /* so many long messages must be posted before a message may block again */
	int ring_told;   /* 1: the user knows that some pairs have no ring */
	int borrow_told; /* 1: the user knows that this rank cannot map some memory */
	uint8_t *scratch;      /* TCP_SCRATCH bytes */
	struct tcp_conn *conn; /* nranks */
	struct tcp_conn *own;  /* the connection to the own rank */
};

/* ------------------------------------------------------------------- addresses -- */

struct tcp_address {
	uint8_t ip[16];
	uint16_t port;   /* network byte order, like ip */
	uint8_t ip_size; /* 4 or 16 */
	uint8_t loopback;
};

enum { TCP_VERSION = 7 }; /* of the record, the handshake and the frames */

/* A rank sends this record to all other ranks by host->exchange. */
struct tcp_record {
	char unix_name[40]; /* abstract address, "" if none */
	uint8_t nonce[16];
	uint8_t security; /* enum tcp_security */
	uint8_t has_aes;
	uint16_t version; /* TCP_VERSION */
	uint32_t count;
	struct tcp_address address[ADDRESS_INET_MAX];
};

/* The options of sockets.  They are read once, since a rank makes a socket for every other rank. */
struct tcp_options {
	const coll_host_t *host;
	int64_t sndbuf, rcvbuf, user_timeout;
	const char *congestion;
	int use_local; /* the option `unix` */
	int multipath; /* 0 also if the kernel refuses it */
};

void tcp_options_read(const coll_host_t *host, struct tcp_options *options);

/*
 * Opens the listening sockets and fills *record with their addresses.  If local sockets reach all ranks, this rank opens no
 * TCP port.
 */
int32_t tcp_listen(const coll_host_t *host, struct listeners *listeners, struct tcp_record *record,
		   coll_error_t *err);
/* Returns 0 if another rank's record is malformed.  Terminates the strings of the record. */
int tcp_check_record(struct tcp_record *record);
/* Does the rank run on this host, where local sockets and the loopback device reach it? */
static inline int tcp_is_local(const coll_host_t *host, uint32_t rank)
{
	return kit_shares(host, rank, COLL_SHARES_NETWORK);
}
/* Fills *out with the addresses at which this rank may reach `peer`, best first.  record: the peer's record. */
void tcp_peer_addresses(const struct tcp_options *options, uint32_t peer,
			const struct tcp_record *record, struct address_list *out);
/*
 * Sets the options of a stream socket.  Buffer sizes count in full only before the socket is connected.  options: a struct
 * tcp_options.  local: both ends are on one host.
 */
void tcp_tune(const void *options, int fd, int family, int local);

/* ----------------------------------------------------------------- multipath -- */

/* Returns 0, or the errno for which Multipath TCP does not serve on this host. */
int tcp_paths_refused(void);
/* Before the sockets are made: logs what the kernel refuses. */
void tcp_paths_check(const struct tcp_options *options);
/*
 * The connections of Multipath TCP keep the listeners, since the kernel finds a connection by them when the other rank makes
 * a further path.
 */
void tcp_paths_keep(struct tcp *t, const struct listeners *listeners);
/*
 * All ranks are connected: logs how many connections are TCP all the same, and closes the listeners again if no connection
 * is by Multipath TCP.  Else epoll tells of connections of strangers there, as events of the number t->nranks.
 */
void tcp_paths_settle(struct tcp *t);
/* Takes the strangers' connections and closes them: the kernel makes no further path to a listener with a full queue. */
void tcp_paths_turn_away(struct tcp *t);
/* Writes the numbers of the paths that the connections have now (coll_transport_t.describe). */
void tcp_describe(void *ep, char *buf, uint64_t size);
/* Before the connections end: logs the numbers of their paths. */
void tcp_paths_report(const struct tcp *t);
/* A part of the line of tcp_info. */
void tcp_paths_info(const coll_host_t *host, char *text, size_t size);

/* ---------------------------------------------------------------- connections -- */

/*
 * Connects this rank with all other ranks.  On success every t->conn[] but the own rank's has its socket, which epoll
 * watches.  Closes the listeners.
 */
int32_t tcp_mesh_connect(struct tcp *t, struct listeners *listeners,
			 const struct tcp_record *records, coll_error_t *err);

/* ------------------------------------------------------------------- messages -- */

struct iovec;

static inline size_t tcp_min(uint64_t a, uint64_t b)
{
	return (size_t)(a < b ? a : b);
}

/* Subtracts n moved bytes from the budget of this progress(). */
static inline void tcp_spend(struct tcp *t, size_t n)
{
	t->budget -= tcp_min(n, t->budget);
	t->moved = 1;
}

/*
 * Notes that sending to the peer failed.  progress() first reads everything that the peer has sent, then
 * reports the peer as lost.
 */
static inline void tcp_break(struct tcp *t, struct tcp_conn *conn, int error)
{
	t->failing += !conn->send_errno;
	conn->send_errno = error;
}

/* Calls sendmsg() without waiting.  Returns the number of bytes that the kernel took.  A failure breaks the connection. */
size_t tcp_sendmsg(struct tcp *t, struct tcp_conn *conn, const struct msghdr *msg);
/* Calls recvmsg() without waiting.  Returns the number of bytes; 0 if there are none, or the connection has ended. */
size_t tcp_recvmsg(struct tcp *t, struct tcp_conn *conn, struct msghdr *msg);
/* Ends the connection, its receive and its sends, and reports the peer to the core. */
void tcp_lose(struct tcp *t, struct tcp_conn *conn, const char *why);
/*
 * Copies as memcpy a part of a long message.  Its stores go past the caches, which then need not fetch the lines first and
 * keep their content.
 */
void tcp_copy_past(uint8_t *to, const uint8_t *from, size_t n);
/* Begins a message.  Returns -1 if it had to close the connection. */
int tcp_begin(struct tcp *t, struct tcp_conn *conn, const coll_header_t *header);
/* Copies or reduces the next n bytes of payload. */
void tcp_hand_payload(struct tcp *t, struct tcp_conn *conn, const uint8_t *bytes, size_t n);
/* Counts n delivered bytes of the payload.  Completes the receive after the last byte. */
void tcp_delivered(struct tcp *t, struct tcp_conn *conn, size_t n);

static inline int tcp_has_work(const struct tcp_conn *conn)
{
	return conn->rest.bytes || conn->queue.first || conn->sealed;
}
/* Points iov[0..*n) to the bytes to send next, at most TCP_PIECE; returns their number. */
size_t tcp_gather(const struct tcp_conn *conn, struct iovec iov[2 * TCP_GATHER + 1], int *n);
/* Counts n bytes that the kernel took, and completes the sends that end among them. */
void tcp_advance(struct tcp *t, struct tcp_conn *conn, uint64_t n);
/* Calls sendmsg() once; returns 1 if the kernel took all bytes of tcp_gather. */
int tcp_push(struct tcp *t, struct tcp_conn *conn);
/* Sends from all queues as far as it can without waiting. */
void tcp_send_all(struct tcp *t);
void tcp_fail_sends(struct tcp *t, struct tcp_conn *conn, int32_t status);
/* Returns the sentence for tcp_conn.send_errno. */
const char *tcp_why(int error);

/* --------------------------------------------------------------- shared memory -- */

/* Reads the options. */
void tcp_ring_init(struct tcp *t);
void tcp_ring_free(struct tcp *t, struct tcp_conn *conn);
/* In a forked child, which has no ring mapped: counts no memory of rings. */
void tcp_ring_forked(void);
/* Counts bytes of shared memory.  Returns 0 if this process would have more than `most` bytes of it. */
int tcp_ring_memory_take(uint64_t bytes, uint64_t most);
void tcp_ring_memory_return(uint64_t bytes);
/* Makes the ring from the peer and offers it. */
void tcp_ring_offer(struct tcp *t, struct tcp_conn *conn);
/* Sends the offer and the switch that have waited for the end of a message. */
void tcp_ring_settle(struct tcp *t, struct tcp_conn *conn);
/*
 * Maps the ring or the memory that came with a received message of n bytes.  Returns -1 if it had to close the connection.
 */
int tcp_ring_take(struct tcp *t, struct tcp_conn *conn, struct msghdr *msg, size_t n);
/* Handles a frame.  Returns 1 if the stream goes on in the ring, 0 if on the socket, -1 if the frame is invalid. */
int tcp_ring_frame(struct tcp *t, struct tcp_conn *conn, const coll_header_t *frame);
/* Writes to the ring as tcp_sendmsg to the socket. */
size_t tcp_ring_write(struct tcp *t, struct tcp_conn *conn, const struct msghdr *msg);
/*
 * Writes a short message to the ring and completes it.  A message that is long, does not fit or would wrap goes to
 * tcp_start.
 */
int32_t tcp_ring_send(struct tcp *t, struct tcp_conn *conn, coll_send_t *send, coll_error_t *err);
/* Handles a piece, about TCP_RING_PIECE bytes; returns 1 if more may be there. */
int tcp_ring_pull(struct tcp *t, struct tcp_conn *conn);
/* Handles the bytes of all rings, each ring with its share of the budget. */
void tcp_ring_pull_all(struct tcp *t);
/* Reads the option non_temporal; after tcp_ring_init. */
int32_t tcp_far_read(struct tcp *t, coll_error_t *err);
/* Tells the writer of conn->in this reader's position, measures that, and tells the writer by which stores to write. */
void tcp_far_tell(struct tcp *t, struct tcp_conn *conn);
/* Called at the end of progress(): takes messages that have been blocked too long. */
void tcp_ring_patience(struct tcp *t);
/* Reads the bytes that woke this rank from the socket, and notes the end of the socket. */
void tcp_ring_drain(struct tcp *t, struct tcp_conn *conn);
/*
 * While this rank does not read: breaks connections that have closed, since their peers will never make space in the ring.
 */
void tcp_ring_watch(struct tcp *t);
/* Set the sleep flags before a sleep.  Return 1 if there are already bytes to read, or space to write. */
int tcp_ring_arm(struct tcp *t);
int tcp_ring_arm_space(struct tcp *t, const struct tcp_conn *conn);
/* Clears the sleep flags after a sleep. */
void tcp_ring_disarm(struct tcp *t);

/* ---------------------------------------------------------- memory that ranks share -- */

/* The table of this process: tcp_memory.c.  Is there any memory? */
int tcp_memory_any(void);
/* Returns a number that grows when memory is freed. */
uint64_t tcp_memory_frees(void);
/* Finds the memory that has the `len` bytes at buf.  Returns 0, or 1: the caller closes memory->fd. */
int tcp_memory_find(const void *buf, uint64_t len, struct tcp_memory *memory);
int tcp_memory_is_there(uint64_t id);
/* Makes memory of `bytes` bytes without pages, which tcp_mem_free frees.  Returns 0 or an errno. */
int tcp_memory_open(struct tcp_memory *memory, uint64_t bytes);
/* Gives the `bytes` bytes from `begin` on their pages.  Returns 0 or an errno. */
int tcp_memory_populate(const struct tcp_memory *memory, uint64_t begin, uint64_t bytes);

/* Returns the most bytes of the endpoint's bounce buffers. */
uint64_t tcp_bounce_most(const struct tcp *t);
/* Returns the memory of all bounce buffers, which the first call makes; or NULL. */
const struct tcp_memory *tcp_bounce_memory(struct tcp *t);
void tcp_bounce_free(struct tcp *t);
/* Is the payload in the buffer that was filled last?  Nobody may change it while a message with it is incomplete. */
int tcp_bounce_has(const struct tcp *t, const void *buf, uint64_t len);
/* Copies the payload of a message to a bounce buffer, unless one has it.  Returns the buffer, or -1 if there is no room. */
int tcp_bounce(struct tcp *t, const void *buf, uint64_t len);
uint8_t *tcp_bounce_at(const struct tcp *t, int buffer);
/* The core has given up a message of the buffer: the payload may change, so no further message shares the buffer. */
void tcp_bounce_give_up(struct tcp *t, int buffer);
/* The receiver of a message has read the buffer, or never will. */
void tcp_bounce_release(struct tcp *t, int buffer);

static inline int tcp_is_lent(const coll_send_t *send)
{
	return send->plugin[TCP_SEND_LENT] == TCP_FRAME;
}

/* A long message of the peer begins. */
void tcp_lend_see(struct tcp *t);
/*
 * Makes a long message a lent one, if that is faster and its payload lies in memory that the peer has mapped, or is copied there.
 */
void tcp_lend(struct tcp *t, struct tcp_conn *conn, coll_send_t *send);
/* A lent message ends at the position `end` of the ring, sent whole or to be sent. */
void tcp_lend_note(struct tcp_conn *conn, coll_send_t *send, uint64_t end);
/* The core gives up a lent message. */
void tcp_lend_give_up(struct tcp *t, struct tcp_conn *conn, const coll_send_t *send);
/* It is in the ring: it is complete once the peer has read it. */
void tcp_lend_await(struct tcp *t, struct tcp_conn *conn, coll_send_t *send, uint64_t end);
/* Completes the lent messages that the peer has read, also a peer that has ended since. */
void tcp_lend_complete(struct tcp *t, struct tcp_conn *conn);
/* The same for all peers. */
void tcp_lend_reap(struct tcp *t);
/* Before a sleep, for a connection with lent messages: returns 1 if one has been read. */
int tcp_lend_arm(struct tcp *t, const struct tcp_conn *conn);
/* Looks for memory that is free again: of this rank, and of its peers. */
void tcp_lend_look(struct tcp *t);
void tcp_borrow_look(struct tcp *t);
void tcp_lender_free(struct tcp *t, struct tcp_conn *conn);
void tcp_borrower_free(struct tcp_conn *conn);
/* Maps memory that the peer offers.  Returns why the offer is invalid, or NULL. */
const char *tcp_borrow_take(struct tcp *t, struct tcp_conn *conn, int fd, int slot);
/* This rank cannot map the peer's memory. */
void tcp_borrow_refuse(struct tcp *t, struct tcp_conn *conn, const char *why);

/* ------------------------------------------------------------------- security -- */

/* Reads the option into the record of this rank.  Refuses a value that it cannot honour. */
int32_t tcp_security_read(const coll_host_t *host, struct tcp_record *record, coll_error_t *err);
/* Compares the values of the ranks.  All ranks come to the same result. */
int32_t tcp_security_agree(struct tcp *t, const struct tcp_record *records, coll_error_t *err);
int32_t tcp_info(const coll_host_t *host, char *buf, uint64_t size);

/* Cuts conn's stream into records from now on, under keys that follow from the session key. */
int32_t tcp_records_new(const struct tcp *t, struct tcp_conn *conn,
			const uint8_t session[TCP_SESSION_KEY]);
void tcp_records_free(struct tcp_conn *conn);
/* Does the stream of the peer end within a record? */
int tcp_records_cut(const struct tcp_conn *conn);
/* Send and receive as tcp_push and tcp_pull, for a connection with records. */
int tcp_records_push(struct tcp *t, struct tcp_conn *conn);
int tcp_records_pull(struct tcp *t, struct tcp_conn *conn);

/* -------------------------------------------------------------------- slots -- */

int32_t tcp_send(void *ep, coll_send_t *send, coll_error_t *err);
/* Appends a message to its queue.  more: may defer it until tcp_flush_deferred, if the kernel would take it now. */
int32_t tcp_start(struct tcp *t, coll_send_t *send, int more, coll_error_t *err);
int32_t tcp_send_more(void *ep, coll_send_t *send, coll_error_t *err);
void tcp_flush_deferred(void *ep);
void tcp_drop(void *ep, uint64_t cookie);
void tcp_forked(void *ep);
void tcp_cancel(void *ep, coll_send_t *send);
/*
 * Handles the next n bytes of the stream from conn's peer.  Returns -1 if it had to close the connection.  Makes no system
 * call unless it loses the peer.
 */
int tcp_feed(struct tcp *t, struct tcp_conn *conn, const uint8_t *bytes, size_t n);
/* Handles a whole message, between two messages.  The header is in memory that no peer can write. */
int tcp_feed_message(struct tcp *t, struct tcp_conn *conn, const coll_header_t *header,
		     const uint8_t *payload);
/* Closes the connection, because the core has refused a message.  Returns -1. */
int tcp_refused(struct tcp *t, struct tcp_conn *conn);
/* Hands a message from the ring to a core that takes messages whole.  The message is not the peer's first. */
static inline int tcp_hand_message(struct tcp *t, struct tcp_conn *conn,
				   const coll_header_t *header, const void *payload)
{
	return t->message(t->host, conn->peer, header, payload) ? tcp_refused(t, conn) : 0;
}
int32_t tcp_mem_alloc(void *ep, uint64_t bytes, void **ptr, coll_error_t *err);
void tcp_mem_free(void *ptr);
int32_t tcp_progress(void *ep);
int32_t tcp_wait_fd(void *ep);
int32_t tcp_arm(void *ep);
/* Sends the queues, then waits until the peers' kernels have acknowledged all bytes. */
void tcp_flush(struct tcp *t, int64_t timeout_ms);

#endif
