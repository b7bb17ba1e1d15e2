/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_lend.c - messages whose payload stays where it is: this rank lends it, and the receiver reads it there.
 *
 * A long message whose payload lies in memory of coll_mem_alloc need not go through the ring to a rank of the same host.
 * Instead of the payload the ring gets a frame, which says where the payload lies, before the header.  The receiver copies or
 * reduces straight from this memory: one copy instead of two (tcp_borrow.c).  The message is complete for its sender when the
 * receiver has told a position behind its header.
 *
 * The receiver maps the memory once.  The first message from it hands over the descriptor, beside a byte that names one of
 * TCP_LENT_SLOTS slots, and goes through the ring itself, as all messages do until the receiver has set the slot's bit in
 * `borrowed` of the ring.  A receiver that cannot map the memory says so there, and messages go through the ring for ever.
 *
 * The core may give up a message that is in the ring already, and the program may then write to its memory.  So each message has
 * one of TCP_LENT_MESSAGES numbers, and the sender sets the number's bit in `given_up` of the ring before it lets the program
 * go on.  The receiver looks at the bit behind the copy: it never completes a receive with bytes that came later.
 *
 * Where ranks take turns on processors, a message from ordinary memory may be copied to a bounce buffer and lent from there
 * (tcp_bounce.c).
 *
 * When the program has freed the memory, the sender takes the slot's bit out of `lent` once no lent message is left in the
 * ring; the receiver unmaps the memory and takes the bit out of `borrowed`, and the slot is free again.
 */
#include "tcp_ring.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

struct tcp_lent {
	struct tcp_memory memory; /* id 0: the slot is free */
	uint64_t end;             /* the position behind the last message that has lent it */
	int freed;                /* the program has freed it */
};

/* What this rank has offered to a peer. */
struct tcp_lender {
	struct tcp_lent slot[TCP_LENT_SLOTS];
	uint64_t numbers;                /* the numbers of messages under way, as bits */
	uint64_t given_up;               /* the numbers of messages that the core has given up */
	uint64_t end[TCP_LENT_MESSAGES]; /* the positions behind given up messages */
	int bounce[TCP_LENT_MESSAGES];   /* the messages' bounce buffers; -1: none */
	uint64_t frees; /* tcp_memory_frees() when this rank last looked for freed memory */
	int freed;      /* slots whose memory is freed */
};

/* The receiver has read the message of that number, or never will: the number is free again. */
static void tcp_lend_end(struct tcp *t, struct tcp_lender *lender, uint64_t number)
{
	lender->numbers &= ~(UINT64_C(1) << number);
	if (lender->bounce[number] >= 0)
		tcp_bounce_release(t, lender->bounce[number]);
}

void tcp_lender_free(struct tcp *t, struct tcp_conn *conn)
{
	struct tcp_lender *lender = conn->lender;

	if (!lender)
		return;
	/* The receiver may still read the ring, and the payload of these messages may change from now on. */
	if (conn->out.control)
		atomic_fetch_or(&conn->out.control->given_up, lender->numbers);
	atomic_thread_fence(memory_order_release);
	for (uint64_t i = 0; i < TCP_LENT_MESSAGES; i++)
		if (lender->numbers >> i & 1)
			tcp_lend_end(t, lender, i);
	free(lender);
	conn->lender = NULL;
}

/*
 * Has the receiver, which has told the position `taken`, read the message that ends at `end`?  A given up message may end behind
 * the writer's position, since its rest follows later.
 */
static int tcp_lend_is_read(uint64_t end, uint64_t taken)
{
	return (int64_t)(taken - end) >= 0;
}

/* ---------------------------------------------------------------- the memory -- */

/* Withdraws the freed memory from which no message is in the ring. */
static void tcp_lend_withdraw(struct tcp *t, struct tcp_conn *conn)
{
	struct tcp_lender *lender = conn->lender;
	const uint64_t borrowed = atomic_load(&conn->out.control->borrowed);

	if (!tcp_ring_look(t, conn))
		return;
	for (int i = 0; i < TCP_LENT_SLOTS; i++) {
		struct tcp_lent *lent = &lender->slot[i];

		/* The peer may not have found the offer in the socket yet. */
		if (!lent->freed || !(borrowed >> i & 1) ||
		    !tcp_lend_is_read(lent->end, conn->out.seen))
			continue;
		*lent = (struct tcp_lent){.end = 0};
		lender->freed--;
		atomic_fetch_and(&conn->out.control->lent, ~(UINT64_C(1) << i));
	}
}

static void tcp_lend_update(struct tcp *t, struct tcp_conn *conn)
{
	struct tcp_lender *lender = conn->lender;
	const uint64_t frees = tcp_memory_frees();

	for (int i = 0; frees != lender->frees && i < TCP_LENT_SLOTS; i++) {
		struct tcp_lent *lent = &lender->slot[i];

		if (!lent->memory.id || lent->freed || tcp_memory_is_there(lent->memory.id))
			continue;
		lent->freed = 1;
		lender->freed++;
	}
	lender->frees = frees;
	if (lender->freed)
		tcp_lend_withdraw(t, conn);
}

/* Takes the numbers back of given up messages that the receiver has passed. */
static void tcp_lend_take_back(struct tcp *t, struct tcp_conn *conn)
{
	struct tcp_lender *lender = conn->lender;
	uint64_t passed = 0;

	if (!tcp_ring_look(t, conn))
		return;
	for (uint64_t i = 0; i < TCP_LENT_MESSAGES; i++) {
		if (!(lender->given_up >> i & 1) ||
		    !tcp_lend_is_read(lender->end[i], conn->out.seen))
			continue;
		passed |= UINT64_C(1) << i;
		tcp_lend_end(t, lender, i);
	}
	lender->given_up &= ~passed;
	atomic_fetch_and(&conn->out.control->given_up, ~passed);
}

void tcp_lend_look(struct tcp *t)
{
	for (uint32_t i = 0; i < t->nranks; i++) {
		struct tcp_conn *conn = &t->conn[i];

		if (!conn->lender || !conn->out_on)
			continue;
		tcp_lend_update(t, conn);
		if (conn->lender->given_up)
			tcp_lend_take_back(t, conn);
	}
}

/* Offers the memory to the peer.  Returns its slot, or -1. */
static int tcp_lend_offer(struct tcp *t, struct tcp_conn *conn, const void *buf, uint64_t len)
{
	const uint64_t borrowed = atomic_load(&conn->out.control->borrowed);
	struct tcp_memory memory;
	int slot = 0, sent;

	while (slot < TCP_LENT_SLOTS &&
	       (conn->lender->slot[slot].memory.id || borrowed >> slot & 1))
		slot++;
	if (slot == TCP_LENT_SLOTS || borrowed & TCP_BORROWS_NO_MORE ||
	    !tcp_memory_find(buf, len, &memory))
		return -1;
	atomic_fetch_or(&conn->out.control->lent, UINT64_C(1) << slot);
	sent = tcp_ring_signal(t, conn, TCP_FRAME_SLOT + (uint64_t)slot, memory.fd);
	close(memory.fd);
	if (!sent) {
		atomic_fetch_and(&conn->out.control->lent, ~(UINT64_C(1) << slot));
		return -1;
	}
	conn->lender->slot[slot] = (struct tcp_lent){.memory = memory, .end = conn->out.own};
	return slot;
}

/* Returns the slot of the memory in which the payload lies, or -1. */
static int tcp_lend_slot(struct tcp *t, struct tcp_conn *conn, const void *buf, uint64_t len)
{
	if (!conn->lender) {
		conn->lender = calloc(1, sizeof(*conn->lender));
		if (!conn->lender)
			return -1;
		conn->lender->frees = tcp_memory_frees();
		t->lends = 1;
	}
	if (conn->lender->frees != tcp_memory_frees() || conn->lender->freed)
		tcp_lend_update(t, conn);
	for (int i = 0; i < TCP_LENT_SLOTS; i++) {
		const struct tcp_lent *lent = &conn->lender->slot[i];

		if (lent->memory.id && !lent->freed && tcp_memory_has(&lent->memory, buf, len))
			return i;
	}
	return tcp_lend_offer(t, conn, buf, len);
}

/* --------------------------------------------------------------- which messages -- */

/* Has the peer still to read a long message of this rank? */
static int tcp_lend_is_under_way(const struct tcp_conn *conn)
{
	const uint64_t taken =
		atomic_load_explicit(&conn->out.control->taken, memory_order_relaxed);

	return tcp_has_work(conn) || conn->out.own - taken > TCP_RING_PIECE ||
	       (conn->lent.first &&
		!tcp_lend_is_read(conn->lent.last->plugin[TCP_SEND_END], taken));
}

/*
 * Ranks that exchange messages send before they receive.  Of two messages that pass each other, the later one is sent before its
 * sender has read the earlier one.  Its sender learns so when it sends, the other rank when the message comes.  In a
 * ring of ranks the two messages go to and come from different ranks.
 */
void tcp_lend_see(struct tcp *t)
{
	const struct tcp_conn *last = t->last_long;

	t->exchanges = t->sent_across || (last && last->out_on && tcp_lend_is_under_way(last));
}

static int tcp_lend_exchanges(struct tcp *t, struct tcp_conn *conn)
{
	t->last_long = conn;
	t->sent_across = 0;
	for (uint32_t i = 0; i < t->rings && !t->sent_across; i++) {
		const struct tcp_ring *in = &t->conn[t->ring_peers[i]].in;

		t->sent_across = atomic_load_explicit(&in->control->written, memory_order_relaxed) -
					 in->own >=
				 TCP_LENT_BYTES;
	}
	return t->sent_across || t->exchanges;
}

/* Returns the bytes of the queue's messages, but looks at no more messages once it has counted TCP_LENT_QUEUE bytes. */
static uint64_t tcp_lend_bytes(const struct send_queue *queue)
{
	uint64_t bytes = 0;

	for (const coll_send_t *send = queue->first; send && bytes < TCP_LENT_QUEUE;
	     send = send_queue_next(send))
		bytes += send->header.len;
	return bytes;
}

/*
 * Is it faster to lend the message?  Where ranks take turns on processors each copy costs a turn.  Else the sender's processor
 * copies to the ring while the receiver's reads there, unless both processors have messages to send and to receive.  A far processor fetches
 * lines from the sender's cache slowly, but the sender's cache does not hold a long queue.
 */
static int tcp_lend_pays(struct tcp *t, struct tcp_conn *conn, uint64_t len)
{
	if (t->turns)
		return 1;
	if (len < TCP_LENT_BESIDE || !tcp_lend_exchanges(t, conn))
		return 0;
	return !atomic_load_explicit(&conn->out.control->far, memory_order_relaxed) ||
	       tcp_lend_bytes(&conn->lent) + tcp_lend_bytes(&conn->queue) >= TCP_LENT_QUEUE;
}

/* --------------------------------------------------------------- the messages -- */

static coll_header_t tcp_lend_frame(const coll_send_t *send)
{
	coll_header_t frame;

	memcpy(&frame, &send->plugin[TCP_SEND_FRAME], sizeof(frame));
	return frame;
}

/*
 * Is a bounce buffer faster than the ring, for ordinary memory?  The ring takes two messages of less than TCP_BOUNCE_LEAST at once, too.
 * A payload of more than TCP_BOUNCE_MOST has left the caches when a receiver reads it in the buffer, so that it must go to several ranks.
 */
static int tcp_lend_bounces(struct tcp *t, const struct tcp_conn *conn, const void *buf,
			    uint64_t len)
{
	const int again = t->bounce_buf == buf && t->bounce_len == len && t->bounce_conn != conn;

	if (!t->turns || len < TCP_BOUNCE_LEAST)
		return 0;
	t->bounce_buf = buf;
	t->bounce_len = len;
	t->bounce_conn = conn;
	return again || len <= TCP_BOUNCE_MOST || tcp_bounce_has(t, buf, len);
}

/* Returns the slot of the memory of the bounce buffers, or -1. */
static int tcp_lend_bounce_slot(struct tcp *t, struct tcp_conn *conn)
{
	const struct tcp_memory *memory = tcp_bounce_memory(t);

	return memory ? tcp_lend_slot(t, conn, memory->at, memory->size) : -1;
}

/* Has the peer mapped the memory of the slot? */
static int tcp_lend_is_mapped(const struct tcp_conn *conn, int slot)
{
	return slot >= 0 && atomic_load(&conn->out.control->borrowed) >> slot & 1;
}

/* Gives the message a free number and writes its frame. */
static void tcp_lend_number(struct tcp_lender *lender, coll_send_t *send, int slot, int bounce,
			    const uint8_t *payload)
{
	const int number = __builtin_ctzll(~lender->numbers);
	const coll_header_t frame = {.tag = TCP_FRAME_LENT,
				     .meta = {(uint64_t)slot + (uint64_t)number * TCP_LENT_SLOTS,
					      (uint64_t)(payload - lender->slot[slot].memory.at)},
				     .len = TCP_FRAME};

	lender->numbers |= UINT64_C(1) << number;
	lender->bounce[number] = bounce;
	memcpy(&send->plugin[TCP_SEND_FRAME], &frame, sizeof(frame));
}

void tcp_lend(struct tcp *t, struct tcp_conn *conn, coll_send_t *send)
{
	CANCEL_OFF;
	const uint64_t len = send->header.len;
	const uint8_t *payload = send->buf;
	int slot, bounces, bounce = -1;

	if (!tcp_lend_pays(t, conn, len))
		return;
	slot = tcp_lend_slot(t, conn, payload, len);
	bounces = slot < 0 && tcp_lend_bounces(t, conn, payload, len);
	if (bounces)
		slot = tcp_lend_bounce_slot(t, conn);
	if (!tcp_lend_is_mapped(conn, slot))
		return;
	if (conn->lender->given_up)
		tcp_lend_take_back(t, conn);
	if (!~conn->lender->numbers)
		return;
	if (bounces) {
		bounce = tcp_bounce(t, payload, len);
		if (bounce < 0)
			return;
		payload = tcp_bounce_at(t, bounce);
	}
	tcp_lend_number(conn->lender, send, slot, bounce, payload);
}

void tcp_lend_note(struct tcp_conn *conn, coll_send_t *send, uint64_t end)
{
	send->plugin[TCP_SEND_END] = end;
	if (conn->lender)
		conn->lender->slot[tcp_lend_frame(send).meta[0] % TCP_LENT_SLOTS].end = end;
}

void tcp_lend_give_up(struct tcp *t, struct tcp_conn *conn, const coll_send_t *send)
{
	const uint64_t number = tcp_lend_frame(send).meta[0] / TCP_LENT_SLOTS;
	struct tcp_lender *lender = conn->lender;

	if (!lender)
		return;
	if (lender->bounce[number] >= 0)
		tcp_bounce_give_up(t, lender->bounce[number]);
	if (!send->plugin[TCP_SEND_END]) {
		tcp_lend_end(t, lender, number);
		return;
	}
	lender->given_up |= UINT64_C(1) << number;
	lender->end[number] = send->plugin[TCP_SEND_END];
	atomic_fetch_or(&conn->out.control->given_up, UINT64_C(1) << number);
	/* The receiver finds the bit before it finds what the program writes from now on. */
	atomic_thread_fence(memory_order_release);
}

void tcp_lend_await(struct tcp *t, struct tcp_conn *conn, coll_send_t *send, uint64_t end)
{
	tcp_lend_note(conn, send, end);
	send_queue_append(&conn->lent, send);
	if (conn->is_lending)
		return;
	conn->is_lending = 1;
	conn->next_lending = t->lending;
	t->lending = conn;
}

void tcp_lend_complete(struct tcp *t, struct tcp_conn *conn)
{
	coll_send_t *send;

	if (!conn->lent.first || !conn->out.control || !tcp_ring_look(t, conn))
		return;
	while ((send = conn->lent.first) &&
	       tcp_lend_is_read(send->plugin[TCP_SEND_END], conn->out.seen)) {
		send_queue_take(&conn->lent);
		tcp_lend_end(t, conn->lender, tcp_lend_frame(send).meta[0] / TCP_LENT_SLOTS);
		send->status = COLL_SUCCESS;
		t->moved = 1;
	}
}

void tcp_lend_reap(struct tcp *t)
{
	struct tcp_conn **at = &t->lending;

	while (*at) {
		struct tcp_conn *conn = *at;

		tcp_lend_complete(t, conn);
		if (conn->lent.first) {
			at = &conn->next_lending;
			continue;
		}
		conn->is_lending = 0;
		*at = conn->next_lending;
	}
}

int tcp_lend_arm(struct tcp *t, const struct tcp_conn *conn)
{
	(void)tcp_ring_arm_space(t, conn);
	return tcp_lend_is_read(conn->lent.first->plugin[TCP_SEND_END],
				atomic_load(&conn->out.control->taken));
}
