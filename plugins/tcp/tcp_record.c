/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * tcp_record.c - the stream of a connection under tcp.security: cuts it into records, and checks
 * them before use.
 *
 * The plain stream, which is the same as without security, is cut into records:
 *
 *   head   sealed: number of bytes in the body, number of bytes here, up to 56 bytes of the stream; tag
 *   body   sealed: the next bytes of the stream; tag (neither, if the number is 0)
 *
 * A head has a fixed size, so the receiver checks every length before it uses it.  Small messages fit into the
 * head.
 */
#include "tcp.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

enum {
	TCP_HEAD = 64,      /* bytes of a head without its tag */
	TCP_INLINE = 56,    /* bytes of the stream that fit into a head */
	TCP_BODY = 64 << 10 /* most bytes of the stream in a body: README.md has the measurement */
};

struct tcp_head {
	uint32_t body, here; /* little-endian */
	uint8_t bytes[TCP_INLINE];
};

_Static_assert(sizeof(struct tcp_head) == TCP_HEAD, "a head has no padding");

struct tcp_records {
	struct tcp_cipher *out, *in;
	size_t sealed_done; /* bytes of the sealed record that the kernel has taken */
	size_t body;        /* bytes of the body that follows the last head; 0: a head follows */
	size_t got;         /* bytes of the incomplete head or body in `partial` */
	/* Bodies and heads, each with its tag. */
	uint8_t sealed[TCP_HEAD + TCP_TAG + TCP_BODY + TCP_TAG];
	uint8_t partial[TCP_BODY + TCP_TAG];
};

int32_t tcp_records_new(const struct tcp *t, struct tcp_conn *conn,
			const uint8_t session[TCP_SESSION_KEY])
{
	struct tcp_cipher_kind kind = {
		.security = t->security, .aes = t->aes, .from = t->rank, .to = conn->peer};
	/* malloc does not clear the memory: so a connection that is never used costs no pages. */
	struct tcp_records *r = malloc(sizeof(*r));

	if (!r)
		return COLL_ERR_NO_MEMORY;
	conn->records = r;
	r->sealed_done = r->body = r->got = 0;
	r->out = tcp_cipher_new(&kind, session);
	kind.from = conn->peer;
	kind.to = t->rank;
	r->in = tcp_cipher_new(&kind, session);
	return r->out && r->in ? COLL_SUCCESS : COLL_ERR_NO_MEMORY;
}

void tcp_records_free(struct tcp_conn *conn)
{
	if (!conn->records)
		return;
	tcp_cipher_free(conn->records->out);
	tcp_cipher_free(conn->records->in);
	free(conn->records);
	conn->records = NULL;
}

int tcp_records_cut(const struct tcp_conn *conn)
{
	return conn->records && (conn->records->got || conn->records->body);
}

/* -------------------------------------------------------------------- sending -- */

/* Copies the next bytes of the stream, at most `limit`, and completes the sends that are copied whole. */
static size_t tcp_records_copy(struct tcp *t, struct tcp_conn *conn, uint8_t *to, size_t limit)
{
	struct iovec iov[2 * TCP_GATHER + 1];
	size_t copied = 0;
	int n;

	tcp_gather(conn, iov, &n);
	for (int i = 0; i < n && copied < limit; i++) {
		size_t take = tcp_min(iov[i].iov_len, limit - copied);

		memcpy(to + copied, iov[i].iov_base, take);
		copied += take;
	}
	tcp_advance(t, conn, copied);
	return copied;
}

/* Makes the next record. */
static void tcp_records_seal(struct tcp *t, struct tcp_conn *conn)
{
	struct tcp_records *r = conn->records;
	struct tcp_head *head = (struct tcp_head *)(void *)r->sealed;
	uint8_t *body = r->sealed + TCP_HEAD + TCP_TAG;
	/* Copied so, the body needs no move; only the bytes for the head are moved. */
	size_t n = tcp_records_copy(t, conn, body - TCP_INLINE, TCP_INLINE + TCP_BODY);
	size_t here = tcp_min(n, TCP_INLINE);

	memmove(head->bytes, body - TCP_INLINE, here);
	memset(head->bytes + here, 0, TCP_INLINE - here);
	head->body = htole32((uint32_t)(n - here));
	head->here = htole32((uint32_t)here);
	tcp_cipher_seal(r->out, r->sealed, TCP_HEAD);
	if (n > here)
		tcp_cipher_seal(r->out, body, n - here);
	r->sealed_done = 0;
	conn->sealed = TCP_HEAD + TCP_TAG + (n > here ? n - here + TCP_TAG : 0);
}

int tcp_records_push(struct tcp *t, struct tcp_conn *conn)
{
	struct tcp_records *r = conn->records;
	struct iovec iov;
	const struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	size_t sent;

	if (!conn->sealed)
		tcp_records_seal(t, conn);
	iov = (struct iovec){r->sealed + r->sealed_done, conn->sealed};
	sent = tcp_sendmsg(t, conn, &msg);
	if (!sent)
		return 0;
	r->sealed_done += sent;
	conn->sealed -= sent;
	t->sending -= !tcp_has_work(conn);
	return !conn->sealed;
}

/* ------------------------------------------------------------------ receiving -- */

static int tcp_records_bad(struct tcp *t, struct tcp_conn *conn)
{
	tcp_lose(t, conn,
		 "a record from it was changed, dropped, repeated or reordered on the way (option "
		 "tcp.security)");
	return -1;
}

/* Takes the bytes of a body, once checked.  Bytes of a payload go straight into its receive buffer. */
static int tcp_records_take_body(struct tcp *t, struct tcp_conn *conn, uint8_t *bytes, size_t n)
{
	int direct = conn->receiving && conn->sink.buf && conn->len - conn->got >= n;
	uint8_t *to = direct ? (uint8_t *)conn->sink.buf + conn->got : bytes;

	if (!tcp_cipher_open(conn->records->in, to, bytes, n))
		return tcp_records_bad(t, conn);
	conn->records->body = 0;
	if (!direct)
		return tcp_feed(t, conn, bytes, n);
	tcp_delivered(t, conn, n);
	return 0;
}

/* Takes a complete head or body with its tag.  Returns -1 if it had to close the connection. */
static int tcp_records_take(struct tcp *t, struct tcp_conn *conn, uint8_t *bytes)
{
	struct tcp_records *r = conn->records;
	struct tcp_head head;

	if (r->body)
		return tcp_records_take_body(t, conn, bytes, r->body);
	if (!tcp_cipher_open(r->in, (uint8_t *)&head, bytes, TCP_HEAD))
		return tcp_records_bad(t, conn);
	if (le32toh(head.body) > TCP_BODY || le32toh(head.here) > TCP_INLINE) {
		tcp_lose(t, conn, "it sent an invalid record");
		return -1;
	}
	r->body = le32toh(head.body);
	return tcp_feed(t, conn, head.bytes, le32toh(head.here));
}

/* Returns the bytes of the next head or body, with its tag. */
static size_t tcp_records_next(const struct tcp_records *r)
{
	return (r->body ? r->body : TCP_HEAD) + TCP_TAG;
}

/* Takes n received bytes.  An incomplete head or body waits in r->partial. */
static int tcp_records_feed(struct tcp *t, struct tcp_conn *conn, uint8_t *bytes, size_t n)
{
	struct tcp_records *r = conn->records;
	size_t next;

	while (n >= (next = tcp_records_next(r))) {
		if (tcp_records_take(t, conn, bytes))
			return -1;
		bytes += next;
		n -= next;
	}
	memcpy(r->partial, bytes, n);
	r->got = n;
	return 0;
}

int tcp_records_pull(struct tcp *t, struct tcp_conn *conn)
{
	struct tcp_records *r = conn->records;
	/* The rest of an incomplete head or body completes it in place. */
	size_t rest = r->got ? tcp_records_next(r) - r->got : 0, first;
	struct iovec iov[2] = {{r->partial + r->got, rest}, {t->scratch, TCP_SCRATCH}};
	struct msghdr msg = {.msg_iov = iov + !rest, .msg_iovlen = rest ? 2 : 1};
	size_t n = tcp_recvmsg(t, conn, &msg);

	if (!n)
		return 0;
	first = tcp_min(n, rest);
	r->got += first;
	if (first < rest)
		return 0;
	if (rest) {
		r->got = 0;
		if (tcp_records_take(t, conn, r->partial))
			return 0;
	}
	if (tcp_records_feed(t, conn, t->scratch, n - first))
		return 0;
	return n == rest + TCP_SCRATCH;
}
