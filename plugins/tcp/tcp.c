/* SPDX-License-Identifier: BSD-3-Clause */
/* tcp.c - the tcp backend: its table and its options; opening and closing an endpoint. */
#include "tcp.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

static void tcp_free(struct tcp *t)
{
	for (uint32_t i = 0; t->conn && i < t->nranks; i++) {
		struct tcp_conn *conn = &t->conn[i];

		if (conn->fd >= 0) {
			/* A forked child may hold the socket too: only shutdown() ends the stream for
			 * the peer now. */
			shutdown(conn->fd, SHUT_RDWR);
			close(conn->fd);
		}
		send_rest_free(&conn->rest, t->host);
		tcp_records_free(conn);
		tcp_ring_free(t, conn);
	}
	tcp_bounce_free(t);
	free(t->conn);
	free(t->ring_peers);
	if (t->scratch)
		t->host->free(t->host, t->scratch, TCP_SCRATCH);
	listeners_close(&t->paths);
	if (t->epoll_fd >= 0)
		close(t->epoll_fd);
	free(t);
}

static void tcp_close(void *ep, int64_t timeout_ms)
{
	struct tcp *t = ep;

	tcp_paths_report(t);
	if (timeout_ms > 0)
		tcp_flush(t, timeout_ms);
	tcp_free(t);
}

static int32_t tcp_new(const coll_host_t *host, struct tcp **out, coll_error_t *err)
{
	struct tcp *t = calloc(1, sizeof(*t));

	*out = t;
	if (!t)
		return error_fill(err, COLL_ERR_NO_MEMORY, "out of memory");
	t->host = host;
	t->rank = host->rank;
	t->nranks = host->nranks;
	t->epoll_fd = descriptor_lift(epoll_create1(EPOLL_CLOEXEC));
	if (t->epoll_fd < 0)
		return error_fill(err, COLL_ERR_SYSTEM, "cannot make an epoll descriptor: %s%s",
				  strerror(errno), error_remedy(errno));
	tcp_ring_init(t);
	t->conn = calloc(t->nranks, sizeof(*t->conn));
	/* Set these before any failure: tcp_free closes every descriptor that is not -1. */
	for (uint32_t i = 0; t->conn && i < t->nranks; i++) {
		t->conn[i].fd = -1;
		t->conn[i].peer = i;
	}
	t->ring_peers = calloc(t->nranks, sizeof(*t->ring_peers));
	t->scratch = host->alloc(host, TCP_SCRATCH);
	if (!t->conn || !t->ring_peers || !t->scratch)
		return error_fill(err, COLL_ERR_NO_MEMORY, "out of memory for %u connections",
				  t->nranks);
	t->own = &t->conn[t->rank];
	return COLL_SUCCESS;
}

/*
 * Raises the limit of descriptors to `want`, or to the hard limit if that is at least `least`.  *limit becomes the limit
 * before.  Returns 0 or an errno.
 */
static int tcp_set_limit(rlim_t want, rlim_t least, struct rlimit *limit)
{
	/* The lock keeps a thread from lowering the limit that another thread has raised. */
	static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
	struct rlimit raised;
	int failed = 0;

	pthread_mutex_lock(&lock);
	if (getrlimit(RLIMIT_NOFILE, limit))
		limit->rlim_cur = limit->rlim_max = RLIM_INFINITY;
	raised = *limit;
	if (limit->rlim_cur < want && limit->rlim_max >= least) {
		raised.rlim_cur = want < limit->rlim_max ? want : limit->rlim_max;
		failed = setrlimit(RLIMIT_NOFILE, &raised) ? errno : 0;
	}
	pthread_mutex_unlock(&lock);
	return failed;
}

/*
 * Raises the limit of descriptors if needed, with reserve for connections of strangers, and for the listeners that
 * Multipath TCP keeps.  `here` ranks are threads of this process and share the limit.
 */
static int32_t tcp_raise_limit(const struct tcp *t, rlim_t here, coll_error_t *err)
{
	const rlim_t least = (rlim_t)t->epoll_fd + t->nranks + 16;
	const rlim_t kept = t->host->option_int(t->host, "multipath") ? ADDRESS_INET_MAX : 0;
	const rlim_t want = (rlim_t)t->epoll_fd + here * (t->nranks + 16 + kept) +
			    ACCEPTOR_PENDING_MAX + TCP_EXTRA_SOCKETS + 32;
	struct rlimit limit;
	const int failed = tcp_set_limit(want, least, &limit);

	if (limit.rlim_max < least)
		return error_fill(err, COLL_ERR_SYSTEM,
				  "%u ranks need a limit of at least %llu file descriptors in each "
				  "process, and its hard limit is %llu; raise it (ulimit -Hn)",
				  t->nranks, (unsigned long long)least,
				  (unsigned long long)limit.rlim_max);
	if (failed)
		kit_log(t->host, COLL_LOG_WARN,
			"cannot raise the limit of file descriptors from %llu to %llu: %s; "
			"connecting may fail, raise the limit before the start (ulimit -n)",
			(unsigned long long)limit.rlim_cur, (unsigned long long)want,
			strerror(failed));
	return COLL_SUCCESS;
}

/* Raises the limit for all ranks of this process. */
static int32_t tcp_raise_limit_for_all(const struct tcp *t, coll_error_t *err)
{
	rlim_t here = 0;

	for (uint32_t i = 0; i < t->nranks; i++)
		here += (rlim_t)kit_shares(t->host, i, COLL_SHARES_PROCESS);
	return tcp_raise_limit(t, here, err);
}

/* Exchanges the addresses at which the ranks listen. */
static int32_t tcp_exchange(const coll_host_t *host, const struct tcp_record *own,
			    struct tcp_record *records, coll_error_t *err)
{
	int32_t code = host->exchange(host, own, records, sizeof(*own), host->timeout_ms, err);

	for (uint32_t i = 0; !code && i < host->nranks; i++)
		if (!tcp_check_record(&records[i]))
			code = error_fill(err, COLL_ERR_INTERNAL,
					  "rank %u sent a malformed address record: all ranks need "
					  "the same version of the tcp backend",
					  i);
	return code;
}

/* Makes the endpoint except for its connections.  A failure of this rank fails the exchange of all ranks. */
static int32_t tcp_prepare(const coll_host_t *host, struct tcp **t, struct listeners *listeners,
			   struct tcp_record *records, coll_error_t *err)
{
	struct tcp_record own;
	int32_t code = tcp_new(host, t, err);

	if (!code)
		code = tcp_far_read(*t, err);
	memset(&own, 0, sizeof(own));
	if (!code && !records)
		code = error_fill(err, COLL_ERR_NO_MEMORY, "out of memory for %u addresses",
				  host->nranks);
	if (!code)
		code = tcp_security_read(host, &own, err);
	/* Check the limit before the exchange, so that all ranks learn of a limit that is too low. */
	if (!code)
		code = tcp_raise_limit(*t, 1, err);
	if (!code && host->nranks > 1)
		code = tcp_listen(host, listeners, &own, err);
	if (code)
		return kit_exchange_fail(host, code, err);
	return host->nranks > 1 ? tcp_exchange(host, &own, records, err) : COLL_SUCCESS;
}

static int32_t tcp_open(const coll_host_t *host, void **ep, coll_error_t *err)
{
	struct listeners listeners = {.count = 0};
	struct tcp_record *records = calloc(host->nranks, sizeof(*records));
	struct tcp *t = NULL;
	int32_t code = tcp_prepare(host, &t, &listeners, records, err);

	if (!code)
		code = tcp_security_agree(t, records, err);
	if (!code)
		code = tcp_raise_limit_for_all(t, err);
	if (!code) {
		tcp_paths_keep(t, &listeners);
		code = tcp_mesh_connect(t, &listeners, records, err);
	}
	if (!code)
		tcp_paths_settle(t);
	listeners_close(&listeners);
	free(records);
	if (code && t)
		tcp_free(t);
	*ep = code ? NULL : t;
	return code;
}

static const coll_option_t tcp_options[] = {
	{.key = "interface",
	 .fallback = "",
	 .unit = "",
	 .help = "network interface or address to use; unset: the option `interface`, or else all",
	 .type = COLL_OPTION_STRING},
	{.key = "unix",
	 .fallback = "yes",
	 .unit = "",
	 .help = "use local sockets between ranks on one host",
	 .type = COLL_OPTION_BOOL},
	{.key = "security",
	 .fallback = "none",
	 .unit = "none|integrity|encrypt",
	 .help = "protection of messages between hosts: none, integrity (against changes) or "
		 "encrypt",
	 .type = COLL_OPTION_STRING},
	{.key = "multipath",
	 .fallback = "no",
	 .unit = "",
	 .help = "use Multipath TCP between hosts, over several links",
	 .type = COLL_OPTION_BOOL},
	{.key = "congestion",
	 .fallback = "",
	 .unit = "",
	 .help = "TCP congestion control; empty: the system's between hosts, reno within a host",
	 .type = COLL_OPTION_STRING},
	{.key = "sndbuf",
	 .fallback = "0",
	 .unit = "bytes",
	 .help = "send buffer of a socket; 0: the system's for TCP, 4M for local sockets",
	 .max = 1 << 30,
	 .type = COLL_OPTION_BYTES},
	{.key = "rcvbuf",
	 .fallback = "0",
	 .unit = "bytes",
	 .help = "receive buffer of a TCP socket; 0: the system's",
	 .max = 1 << 30,
	 .type = COLL_OPTION_BYTES},
	{.key = "ring",
	 .fallback = "2M",
	 .unit = "bytes",
	 .help = "most shared memory from each rank of this host, a power of two; 0: local sockets "
		 "only",
	 .max = 1 << 30,
	 .type = COLL_OPTION_BYTES},
	{.key = "ring_memory",
	 .fallback = "16M",
	 .unit = "bytes",
	 .help = "most shared memory that a process makes for its rings and buffers; further ranks "
		 "use local sockets",
	 .max = (int64_t)1 << 40,
	 .type = COLL_OPTION_BYTES},
	{.key = "non_temporal",
	 .fallback = "auto",
	 .unit = "auto|yes|no",
	 .help = "write long messages to shared memory past the caches; auto: where the processors "
		 "are far from each other",
	 .type = COLL_OPTION_STRING},
	{.key = "user_timeout",
	 .fallback = "0",
	 .unit = "seconds",
	 .help = "time until a peer that acknowledges no data is lost; 0: the system's",
	 .max = (int64_t)86400 * 1000000,
	 .type = COLL_OPTION_DURATION},
};

static const coll_transport_t tcp_transport = {
	.size = sizeof(coll_transport_t),
	.send = tcp_send,
	.progress = tcp_progress,
	.cancel = tcp_cancel,
	.drop = tcp_drop,
	.wait_fd = tcp_wait_fd,
	.arm = tcp_arm,
	.forked = tcp_forked,
	.send_more = tcp_send_more,
	.flush = tcp_flush_deferred,
	.describe = tcp_describe,
	.mem_alloc = tcp_mem_alloc,
	.mem_free = tcp_mem_free,
};

COLL_BACKEND_EXPORT const coll_backend_t coll_backend_v1 = {
	.size = sizeof(coll_backend_t),
	.abi_minor = COLL_BACKEND_ABI_MINOR,
	.name = "tcp",
	.version = "1.3",
	.description = "TCP between hosts, shared memory within one; works anywhere",
	.priority = 10,
	.memory = COLL_MEM_HOST,
	.options = tcp_options,
	.option_count = sizeof(tcp_options) / sizeof(tcp_options[0]),
	.option_size = sizeof(coll_option_t),
	.transport = &tcp_transport,
	.open = tcp_open,
	.close = tcp_close,
	.info = tcp_info,
	.host_priority = 60,
};
