/* SPDX-License-Identifier: BSD-3-Clause */
/*
 * bootstrap.h - how ranks meet: one verb, bootstrap_exchange, an allgather of bytes.
 *
 * Kinds behind it: in kinds.c the caller's own function, memory for the ranks of one process, and the survivors of another
 * bootstrap; in meet/ the tree over TCP, to which an id or a launcher leads.
 */
#ifndef CORE_BOOTSTRAP_BOOTSTRAP_H
#define CORE_BOOTSTRAP_BOOTSTRAP_H

#include <coll/coll.h>
#include "base/siphash.h"

enum { BOOTSTRAP_KEY_SIZE = 16, BOOTSTRAP_THINGS = 5 };

struct bootstrap;

/* The facts about its process that every rank sends to all ranks when the rendezvous begins. */
struct bootstrap_peer {
	uint8_t process[16]; /* random, one per process */
	char host[64];       /* host name, for messages */
	int32_t pid;
	uint16_t cpus;      /* number of processors that it may run on; 0: unknown */
	uint16_t first_cpu; /* the lowest number of its processors */
	/*
	 * Hashes of the host and of namespaces: processes with an equal hash share the thing.  The bits
	 * COLL_SHARES_* of backend.h name the things, in this order from COLL_SHARES_HOST on.
	 */
	uint64_t thing[BOOTSTRAP_THINGS];
};

/*
 * Opens the rendezvous with the other ranks over the function of the application.  Blocks at most timeout_ms.  On an error
 * *bootstrap is NULL.
 */
int bootstrap_open_user(struct bootstrap **bootstrap, coll_exchange_fn exchange, void *user,
			int rank, int nranks, int64_t timeout_ms);
/* Makes nranks bootstraps for nranks threads of this process. */
int bootstrap_open_local(struct bootstrap **bootstraps, int nranks);

/*
 * Makes a bootstrap of ranks[0..nranks) of `parent`, in this order, after other ranks have failed.  It
 * knows its peers, and its key follows from the parent's key and `number`, but it cannot exchange, unless
 * bootstrap_exchange_by gives it a function, which sets the error that it returns.
 */
int bootstrap_open_shrunk(struct bootstrap **bootstrap, const struct bootstrap *parent,
			  const int *ranks, int rank, int nranks, uint32_t number);
void bootstrap_exchange_by(struct bootstrap *bootstrap, coll_exchange_fn exchange, void *user);

/*
 * From now on this rank's waits in the bootstrap end with COLL_ERR_ABORTED soon after *aborted becomes
 * non-zero, except inside a function of the application's.  The other ranks see a lost rank, or
 * COLL_ERR_REMOTE.
 */
void bootstrap_watch(struct bootstrap *bootstrap, const _Atomic int *aborted);
/*
 * From now on this rank's waits in the bootstrap also call `check` every 100 ms at least, except inside a function of
 * the application's, and end with the error that it returns.  NULL: no more.
 */
void bootstrap_guard(struct bootstrap *bootstrap, int (*check)(void *user), void *user);

/*
 * Of all bootstraps of this process: a wait of that time is told in the log, by the rank that knows who is missing.  0:
 * none is.
 */
void bootstrap_set_stall(int64_t ms);

int bootstrap_rank(const struct bootstrap *bootstrap);
int bootstrap_nranks(const struct bootstrap *bootstrap);
/* Facts about a rank, known after open. */
const struct bootstrap_peer *bootstrap_peer(const struct bootstrap *bootstrap, int rank);
/* The things that two ranks share, as bits COLL_SHARES_* of backend.h; all bits if a is b. */
uint8_t bootstrap_shares(const struct bootstrap *bootstrap, int a, int b);
/* Do all ranks share each of these things, bits COLL_SHARES_*?  All ranks get the same answer. */
int bootstrap_all_share(const struct bootstrap *bootstrap, uint8_t things);
/*
 * Sets lowest[r] to the lowest rank that shares all these things with rank r, for all ranks.  things: bits COLL_SHARES_*,
 * COLL_SHARES_HOST among them.  The work is linear in the ranks.
 */
int bootstrap_hosts(const struct bootstrap *bootstrap, uint8_t things, int *lowest);
/* Do all ranks live in this process? */
int bootstrap_in_process(const struct bootstrap *bootstrap);
/* The key of this bootstrap, equal on all ranks. */
void bootstrap_key(const struct bootstrap *bootstrap, uint8_t key[BOOTSTRAP_KEY_SIZE]);
/*
 * Can only the ranks know the key?  Not if it follows from the address or the launcher's job alone.  A
 * bootstrap made from a parent is as secret as the parent.
 */
int bootstrap_key_is_secret(const struct bootstrap *bootstrap);

/*
 * Collective: an allgather of len bytes (equal on all ranks); blocks at most timeout_ms.  If a rank has
 * died, every rank returns COLL_ERR_PEER_LOST with the number of that rank.
 */
int bootstrap_exchange(struct bootstrap *bootstrap, const void *in, void *out, size_t len,
		       int64_t timeout_ms);
/*
 * Takes part in the other ranks' next exchange, whatever its length, with a failure in place of bytes:
 * the exchange of every rank then returns the code and "rank R: TEXT" of the lowest failed rank.  A code
 * that blames another rank (COLL_ERR_REMOTE, _PEER_LOST, _TIMEOUT, BOOTSTRAP_REMOTE) counts only if no failed rank has
 * a better one.  Returns the same; if the ranks cannot exchange, `code` and `text`, with the reason why they cannot if the
 * code blames another rank, and of COLL_ERR_REMOTE that reason alone.  Of COLL_ERR_ABORTED the other ranks get
 * COLL_ERR_REMOTE, and this rank gets its own code and text.
 */
enum {
	BOOTSTRAP_REMOTE =
		-COLL_ERR_REMOTE /* a COLL_ERR_REMOTE whose text is the cause, and no echo of another rank's */
};
int bootstrap_exchange_fail(struct bootstrap *bootstrap, int code, const char *text,
			    int64_t timeout_ms);
/*
 * Collective: every rank passes the result of a step (code, and error_text() if it failed).  All ranks return
 * success, or the failure of the lowest failed rank with its number in the text.
 */
int bootstrap_all_ok(struct bootstrap *bootstrap, int code, int64_t timeout_ms);
/*
 * Did the last exchange return the failure of a rank?  All ranks got the failure, and the next exchange
 * may work.
 */
int bootstrap_rank_failed(const struct bootstrap *bootstrap);
/*
 * Between exchanges: has a rank come to the next exchange with a failure, or has it died?  Over TCP rank 0 sees it, and
 * the other ranks as soon as rank 0 has told them; looks every 100 ms.  Other bootstraps return 0.  Must not run beside
 * an exchange.
 */
int bootstrap_failure_waits(struct bootstrap *bootstrap);
void bootstrap_close(struct bootstrap *bootstrap);

#endif
