/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_borrow.c - the receiver of the messages of tcp_lend.c: maps the memory of another rank, and reads payload there.
 *
 * The frame and the header of such a message stay in the ring until the whole payload is delivered, so that the position that
 * this rank tells the sender means that it reads the memory no more.
 */
#include "tcp_ring.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

struct tcp_borrower {
	struct tcp_memory slot[TCP_LENT_SLOTS]; /* at NULL: nothing is mapped */
	const uint8_t *from;                    /* the payload under way; NULL: none */
	uint32_t from_slot, from_number;
};

static void tcp_borrow_unmap(struct tcp_conn *conn, int slot)
{
	struct tcp_memory *memory = &conn->borrower->slot[slot];

	munmap(memory->at, memory->size);
	memory->at = NULL;
}

void tcp_borrower_free(struct tcp_conn *conn)
{
	for (int i = 0; conn->borrower && i < TCP_LENT_SLOTS; i++)
		if (conn->borrower->slot[i].at)
			tcp_borrow_unmap(conn, i);
	free(conn->borrower);
	conn->borrower = NULL;
}

/* ---------------------------------------------------------------- the memory -- */

/* Maps the file.  Returns 0 or an errno. */
static int tcp_borrow_map(struct tcp_memory *memory, int fd)
{
	struct stat st;
	void *at;

	if (fstat(fd, &st))
		return errno;
	at = tcp_map(fd, (uint64_t)st.st_size, PROT_READ);
	if (!at)
		return errno;
	madvise(at, (size_t)st.st_size, MADV_HUGEPAGE);
	memory->at = at;
	memory->size = (uint64_t)st.st_size;
	return 0;
}

static int tcp_borrow_new(struct tcp *t, struct tcp_conn *conn)
{
	if (!conn->borrower)
		conn->borrower = calloc(1, sizeof(*conn->borrower));
	t->lends |= conn->borrower != NULL;
	return conn->borrower != NULL;
}

void tcp_borrow_refuse(struct tcp *t, struct tcp_conn *conn, const char *why)
{
	atomic_fetch_or(&conn->in.control->borrowed, TCP_BORROWS_NO_MORE);
	if (t->borrow_told)
		return;
	t->borrow_told = 1;
	kit_log(t->host, COLL_LOG_INFO,
		"this rank cannot map memory that rank %u has offered: %s; messages from memory "
		"that it cannot map go through the ring",
		conn->peer, why);
}

const char *tcp_borrow_take(struct tcp *t, struct tcp_conn *conn, int fd, int slot)
{
	const int seals = fcntl(fd, F_GET_SEALS);
	int reason = seals < 0 ? errno : 0;

	if (!conn->in.control)
		return "it offered memory without a ring";
	if (!reason && (seals & TCP_SEALS) != TCP_SEALS)
		return "it offered memory without the seals against a change of its size";
	if (!reason && !tcp_borrow_new(t, conn))
		reason = ENOMEM;
	if (!reason && conn->borrower->slot[slot].at)
		return "it offered memory twice";
	if (!reason)
		reason = tcp_borrow_map(&conn->borrower->slot[slot], fd);
	if (reason)
		tcp_borrow_refuse(t, conn, strerror(reason));
	else
		atomic_fetch_or(&conn->in.control->borrowed, UINT64_C(1) << slot);
	return NULL;
}

/* Unmaps what the sender has withdrawn. */
static void tcp_borrow_update(struct tcp_conn *conn)
{
	const struct tcp_borrower *borrower = conn->borrower;
	const uint64_t lent = atomic_load(&conn->in.control->lent);

	for (int i = 0; i < TCP_LENT_SLOTS; i++) {
		if (!borrower->slot[i].at || lent >> i & 1 ||
		    (borrower->from && borrower->from_slot == (uint32_t)i))
			continue;
		tcp_borrow_unmap(conn, i);
		atomic_fetch_and(&conn->in.control->borrowed, ~(UINT64_C(1) << i));
	}
}

void tcp_borrow_look(struct tcp *t)
{
	for (uint32_t i = 0; i < t->nranks; i++)
		if (t->conn[i].borrower)
			tcp_borrow_update(&t->conn[i]);
}

/* --------------------------------------------------------------- the messages -- */

/* Has the sender given up the message?  Then the bytes of its payload may be any. */
static int tcp_borrow_is_given_up(const struct tcp_conn *conn)
{
	atomic_thread_fence(memory_order_acquire);
	return atomic_load(&conn->in.control->given_up) >> conn->borrower->from_number & 1;
}

/* The message is read, or given up: tells the sender.  Returns 1 if more may be there. */
static int tcp_borrow_pass(struct tcp *t, struct tcp_conn *conn, uint64_t left)
{
	conn->borrower->from = NULL;
	conn->in.own += TCP_LENT_BYTES;
	tcp_ring_tell(t, conn, 0);
	return left > TCP_LENT_BYTES;
}

/* Returns the payload of the lent message, or NULL if it had to close the connection. */
static const uint8_t *tcp_borrow_find(struct tcp *t, struct tcp_conn *conn,
				      const coll_header_t *frame, const coll_header_t *header)
{
	struct tcp_borrower *borrower = conn->borrower;
	const uint64_t slot = frame->meta[0] % TCP_LENT_SLOTS,
		       number = frame->meta[0] / TCP_LENT_SLOTS;
	const uint64_t off = frame->meta[1], len = header->len;
	const struct tcp_memory *memory = &borrower->slot[slot];

	if (frame->tag != TCP_FRAME_LENT || number >= TCP_LENT_MESSAGES || !len ||
	    len == TCP_FRAME || !memory->at || off > memory->size || len > memory->size - off) {
		tcp_refused(t, conn);
		return NULL;
	}
	borrower->from_slot = (uint32_t)slot;
	borrower->from_number = (uint32_t)number;
	return memory->at + off;
}

/* Counts the last n bytes of the payload, and completes the receive. */
static void tcp_borrow_end(struct tcp *t, struct tcp_conn *conn, size_t n)
{
	const coll_host_t *host = t->host;

	if (!tcp_borrow_is_given_up(conn)) {
		tcp_delivered(t, conn, n);
		return;
	}
	conn->receiving = 0;
	if (!conn->dropped)
		host->arrived(host, conn->sink.cookie, COLL_ERR_ABORTED);
}

/* Delivers a piece of the payload.  Returns 1 if more may be there. */
static int tcp_borrow_piece(struct tcp *t, struct tcp_conn *conn, uint64_t left)
{
	const size_t n = tcp_min(conn->len - conn->got, TCP_SCRATCH);

	tcp_hand_payload(t, conn, conn->borrower->from + conn->got, n);
	tcp_spend(t, n);
	if (conn->len - conn->got > n) {
		tcp_delivered(t, conn, n);
		return 1;
	}
	tcp_borrow_end(t, conn, n);
	return tcp_borrow_pass(t, conn, left);
}

int tcp_borrow(struct tcp *t, struct tcp_conn *conn, uint64_t left)
{
	coll_header_t head[2]; /* the frame and the header */
	const uint8_t *payload;

	if (conn->borrower->from)
		return tcp_borrow_piece(t, conn, left);
	if (conn->receiving || conn->header_got)
		return TCP_NOT_LENT;
	/* A header in two parts comes whole in a moment. */
	if (left < sizeof(*head))
		return 0;
	tcp_ring_peek(&conn->in, head, tcp_min(left, sizeof(head)));
	if (head->len != TCP_FRAME)
		return TCP_NOT_LENT;
	if (left < sizeof(head))
		return 0;
	payload = tcp_borrow_find(t, conn, &head[0], &head[1]);
	if (!payload)
		return 0;
	if (tcp_borrow_is_given_up(conn))
		return tcp_borrow_pass(t, conn, left);
	if (tcp_ring_blocks(t, conn, &head[1]) || tcp_begin(t, conn, &head[1]))
		return 0;
	conn->borrower->from = payload;
	return tcp_borrow_piece(t, conn, left);
}
